"""The SQL features that random queries may be told to use or to leave out.

What is not listed here (inner joins, filters, expressions, GROUP BY, HAVING, sum, count, avg,
DISTINCT, UNION ALL, subqueries in FROM, CTEs, ORDER BY … LIMIT, views over views) is always in use.
"""

from __future__ import annotations

JOINS = (
    "left join",
    "right join",
    "full join",
    "cross join",
    "left semi join",
    "left anti join",
    "threshold join",
    "inequality join",
    "join on expressions",
    "lateral",
    "left lateral",
)
SUBQUERIES = (
    "exists",
    "not exists",
    "in subquery",
    "not in subquery",
    "multi-column in",
    "multi-column not in",
    "any",
    "all",
    "scalar aggregate",
    "scalar lookup",
    "correlated limit",
    "inequality correlation",
    "nested subquery",
    "subquery under or, not",
    "subquery in select",
    "subquery in having",
    "aggregate of the outer query",
    "subquery in aggregate",
)
AGGREGATES = (
    "min",
    "max",
    "any_value",
    "count distinct",
    "sum distinct",
    "avg distinct",
    "count_if",
    "bool_and",
    "bool_or",
    "stddev",
    "stddev_pop",
    "var_samp",
    "var_pop",
    "percentile",
    "percentile_disc",
    "mode",
    "max_by",
    "listagg",
    "bits",
    "moments",
    "filter",
)
WINDOWS = (
    "window rank",
    "window shift",
    "window value",
    "window aggregate",
    "window in case",
    "window over aggregates",
    "rows frame",
    "range frame",
    "ignore nulls",
    "named window",
    "qualify",
)
GROUPING = ("rollup", "cube", "grouping sets", "grouping")
SETS = ("union", "intersect", "intersect all", "except", "except all", "values", "offset")
#: Rows that cannot be computed: views are in error for a while.
ERRORS = ("division", "overflow", "failing cast", "lookup of two")
#: What keeps a row that cannot be computed from being computed.
GUARDS = (
    "guarded by case",
    "guarded by and",
    "guarded by coalesce",
    "guarded by filter",
    "guarded by on",
)

#: How a text is written.
WRITING = ("lower case",)

FEATURES = (
    *JOINS, *SUBQUERIES, *AGGREGATES, *GROUPING, *WINDOWS, *SETS, *ERRORS, *GUARDS, *WRITING
)  # fmt: skip

#: What the engine maintains and DuckDB can judge: used by CI and `python -m tests.fuzz` unless told
#: otherwise. DuckDB computes the conditions of an outer join that read one side for all its rows,
#: in whatever order they stand: it fails where Spark does not come to the failing one.
SUPPORTED = tuple(f for f in FEATURES if f != "guarded by on")
