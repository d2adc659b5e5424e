"""Aggregates of Spark SQL that read a whole group, as DuckDB SQL with Spark's meaning, for the
oracle alone.

Percentiles, MODE, MAX_BY, LISTAGG, bits and moments. Where several values would do (the most
frequent, the arguments of the greatest, texts in no order), the documented one is asked for: the
least, or the order of the values. Moments are written out over the list of the group's rows, since
DuckDB's skewness is another one, and since its regressions fail where Spark's are NULL.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from planner.calculus import types as t
from sqlview.oracle.kinds import MaybeType
from sqlview.oracle.protocol import CannotSay

#: A list of the pairs of a group without NULL, and what is computed of it: `a` are the first
#: arguments, `b` the second ones. `sqlview_rank`: the value at rank p * n, rounded up.
GROUP_MACROS = (
    """CREATE MACRO sqlview_rank(l, p) AS
       list_extract(l, greatest(1, CAST(ceil(len(l) * p) AS BIGINT)))""",
    """CREATE MACRO sqlview_pairs(x, y) AS list({'a': CAST(x AS DOUBLE), 'b': CAST(y AS DOUBLE)})
       FILTER (WHERE x IS NOT NULL AND y IS NOT NULL)""",
    "CREATE MACRO sqlview_a(p) AS list_transform(p, lambda r: r.a)",
    "CREATE MACRO sqlview_b(p) AS list_transform(p, lambda r: r.b)",
    "CREATE MACRO sqlview_mean(l) AS list_sum(l) / len(l)",
    """CREATE MACRO sqlview_central(l, k) AS
       CASE WHEN list_min(l) = list_max(l) AND isfinite(list_min(l)) THEN 0
       ELSE list_sum(list_transform(l, lambda v: pow(v - sqlview_mean(l), k))) END""",
    """CREATE MACRO sqlview_cross(p) AS list_sum(list_transform(p, lambda r:
       (r.a - sqlview_mean(sqlview_a(p))) * (r.b - sqlview_mean(sqlview_b(p)))))""",
    """CREATE MACRO sqlview_skewness(p) AS CASE WHEN sqlview_central(sqlview_a(p), 2) <> 0
       THEN sqrt(len(p)) * sqlview_central(sqlview_a(p), 3)
            / pow(sqlview_central(sqlview_a(p), 2), 1.5) END""",
    """CREATE MACRO sqlview_kurtosis(p) AS CASE WHEN sqlview_central(sqlview_a(p), 2) <> 0
       THEN len(p) * sqlview_central(sqlview_a(p), 4)
            / pow(sqlview_central(sqlview_a(p), 2), 2) - 3 END""",
    "CREATE MACRO sqlview_covar_pop(p) AS sqlview_cross(p) / len(p)",
    """CREATE MACRO sqlview_covar_samp(p) AS
       CASE WHEN len(p) > 1 THEN sqlview_cross(p) / (len(p) - 1) END""",
    """CREATE MACRO sqlview_corr(p) AS CASE
       WHEN sqlview_central(sqlview_a(p), 2) = 0 OR sqlview_central(sqlview_b(p), 2) = 0 THEN NULL
       WHEN len(p) < 2 THEN NULL
       WHEN isnan(sqlview_cross(p)) THEN CAST('NaN' AS DOUBLE)
       ELSE sqlview_cross(p)
            / sqrt(sqlview_central(sqlview_a(p), 2) * sqlview_central(sqlview_b(p), 2)) END""",
    """CREATE MACRO sqlview_regr_slope(p) AS CASE WHEN sqlview_central(sqlview_b(p), 2) <> 0
       THEN sqlview_cross(p) / sqlview_central(sqlview_b(p), 2) END""",
    """CREATE MACRO sqlview_regr_intercept(p) AS sqlview_mean(sqlview_a(p))
       - sqlview_regr_slope(p) * sqlview_mean(sqlview_b(p))""",
    """CREATE MACRO sqlview_regr_r2(p) AS CASE WHEN sqlview_central(sqlview_b(p), 2) = 0 THEN NULL
       WHEN sqlview_central(sqlview_a(p), 2) = 0 THEN 1
       ELSE pow(sqlview_cross(p), 2)
            / sqlview_central(sqlview_a(p), 2) / sqlview_central(sqlview_b(p), 2) END""",
    "CREATE MACRO sqlview_regr_sxx(p) AS sqlview_central(sqlview_b(p), 2)",
    "CREATE MACRO sqlview_regr_syy(p) AS sqlview_central(sqlview_a(p), 2)",
    "CREATE MACRO sqlview_regr_sxy(p) AS sqlview_cross(p)",
)

_BITS: tuple[type[exp.Expr], ...] = (exp.BitwiseAndAgg, exp.BitwiseOrAgg, exp.BitwiseXorAgg)
_MOMENTS: dict[type[exp.Expr], str] = {
    exp.Skewness: "skewness",
    exp.Kurtosis: "kurtosis",
    exp.CovarPop: "covar_pop",
    exp.CovarSamp: "covar_samp",
    exp.Corr: "corr",
    exp.RegrSlope: "regr_slope",
    exp.RegrIntercept: "regr_intercept",
    exp.RegrR2: "regr_r2",
    exp.RegrSxx: "regr_sxx",
    exp.RegrSyy: "regr_syy",
    exp.RegrSxy: "regr_sxy",
}
_KINDS: tuple[type[exp.Expr], ...] = (
    exp.WithinGroup,
    exp.Median,
    exp.Quantile,
    exp.Mode,
    exp.ArgMax,
    exp.ArgMin,
    exp.GroupConcat,
    exp.ArrayAgg,
    exp.ArrayUniqueAgg,
    *_BITS,
    *_MOMENTS,
)


def reads_group(node: exp.Expr) -> bool:
    """Whether the node is one of these aggregates, with its WITHIN GROUP where it has one."""
    return isinstance(node, _KINDS)


def group_aggregate(
    call: exp.Expr, where: exp.Expr | None, type_of: Callable[[exp.Expr], MaybeType]
) -> tuple[MaybeType, exp.Expr]:
    """Spark's type of the aggregate, and what it is in DuckDB. `where`: the condition of FILTER."""
    descending = False
    fraction = 0.5
    inner = call.this if isinstance(call, exp.WithinGroup) else call
    if isinstance(call, exp.WithinGroup):
        (key,) = call.expression.expressions
        descending = bool(key.args.get("desc"))
        first = key.this
        fraction = float(inner.this.name) if inner.this is not None else fraction
    else:
        first = inner.this
        fraction = float(inner.args["quantile"].name) if "quantile" in inner.args else fraction
    keys: list[exp.Expr] = []
    if isinstance(first, exp.Order):
        first, keys = first.this, first.expressions
    distinct = isinstance(first, exp.Distinct)
    value = first.expressions[0] if distinct else first
    kind = type_of(value)
    chosen = _when(where, value)
    match inner:
        case exp.PercentileDisc():
            values = _filtered(_call("list", _double(chosen)), _present(chosen))
            ranked = _call("list_sort", values, exp.Literal.string("DESC" if descending else "ASC"))
            return t.DOUBLE, _call("sqlview_rank", ranked, _number(fraction))
        case exp.PercentileCont() | exp.Median() | exp.Quantile():
            rank = _number(1 - fraction if descending else fraction)
            return t.DOUBLE, _call("quantile_cont", _each(_double(chosen), distinct), rank)
        case exp.Mode():
            return kind, _call("mode", _ordered(chosen, _key(chosen, descending)))
        case exp.ArgMax() | exp.ArgMin():
            by = _when(where, inner.expression)
            order = (_key(by, isinstance(inner, exp.ArgMax)), _key(value, False))
            return kind, _filtered(_call("first", _ordered(value, *order)), _present(by))
        case exp.GroupConcat():
            return t.STRING, _texts(inner, value, keys, distinct, where)
        case exp.ArrayAgg() | exp.ArrayUniqueAgg():
            distinct |= isinstance(inner, exp.ArrayUniqueAgg)
            if isinstance(kind, t.NestedType):
                raise CannotSay("the order of nested values is Spark's own")
            listed = _call("list", _ordered(_each(chosen, distinct), _key(chosen)))
            found = _filtered(listed, _present(chosen))
            nothing = exp.Array(expressions=[])
            kind = None if kind is None else t.ArrayType(kind)
            return kind, exp.Coalesce(this=found, expressions=[nothing])
        case exp.BitwiseAndAgg() | exp.BitwiseOrAgg() | exp.BitwiseXorAgg():
            return kind, type(inner)(this=_each(chosen, distinct))
        case _:
            other = inner.expression if inner.expression is not None else value
            pairs = _call("sqlview_pairs", chosen, _when(where, other))
            return t.DOUBLE, _call(f"sqlview_{_MOMENTS[type(inner)]}", pairs)


def _texts(
    call: exp.Expr,
    value: exp.Expr,
    keys: list[exp.Expr],
    distinct: bool,
    where: exp.Expr | None,
) -> exp.Expr:
    text = exp.cast(value.copy(), "VARCHAR", dialect="duckdb")
    order = [_key(k.this, bool(k.args.get("desc")), bool(k.args.get("nulls_first"))) for k in keys]
    if distinct:
        order = [_key(text, bool(keys[0].args.get("desc")))]
    separator = call.args.get("separator")
    if separator is None or isinstance(separator, exp.Null):
        separator = exp.Literal.string("")
    between = _ordered(exp.cast(separator.copy(), "VARCHAR", dialect="duckdb"), *order, _key(text))
    joined = _call("string_agg", _each(text, distinct), between)
    return joined if where is None else _filtered(joined, where.copy())


def _call(name: str, *args: exp.Expr) -> exp.Expr:
    return exp.Anonymous(this=name, expressions=[a.copy() for a in args])


def _number(value: float) -> exp.Expr:
    return exp.cast(exp.Literal.number(repr(value)), "DOUBLE")


def _double(value: exp.Expr) -> exp.Expr:
    return exp.cast(value.copy(), "DOUBLE")


def _each(value: exp.Expr, distinct: bool) -> exp.Expr:
    return exp.Distinct(expressions=[value.copy()]) if distinct else value.copy()


def _when(where: exp.Expr | None, value: exp.Expr) -> exp.Expr:
    if where is None:
        return value.copy()
    return exp.Case(ifs=[exp.If(this=where.copy(), true=value.copy())])


def _present(value: exp.Expr) -> exp.Expr:
    return exp.Not(this=exp.Is(this=exp.paren(value.copy()), expression=exp.Null()))


def _filtered(call: exp.Expr, where: exp.Expr) -> exp.Expr:
    return exp.Filter(this=call, expression=exp.Where(this=where))


def _key(value: exp.Expr, descending: bool = False, nulls_first: bool = False) -> exp.Expr:
    return exp.Ordered(this=value.copy(), desc=descending, nulls_first=nulls_first)


def _ordered(value: exp.Expr, *keys: exp.Expr) -> exp.Expr:
    return exp.Order(this=value.copy(), expressions=list(keys))
