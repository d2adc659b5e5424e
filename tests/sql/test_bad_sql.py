"""SQL that is wrong or cannot be maintained: a clear error that says what and where, and nothing
changed by it."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from planner.errors import BindError, CatalogError, SqlSyntaxError, SqlViewError, UnsupportedError
from tests.conftest import Connect
from tests.harness import Checked
from tests.reference.tables import insert

T, U = "t", "u"


@dataclass(frozen=True, slots=True)
class Bad:
    """A query, its error, parts that the message has (in any case), and where it points.

    `placed`: the message has a place; what the planner refuses has none.
    """

    name: str
    query: str
    error: type[SqlViewError]
    says: tuple[str, ...]
    place: tuple[int, int] | None = None
    placed: bool = True

    def __str__(self) -> str:
        return self.name


QUERIES = (
    Bad("does_not_parse", "SELECT id FROM t WHERE (v > 1", SqlSyntaxError, ()),
    Bad("unknown_table", "SELECT id FROM nowhere", BindError, ('"nowhere"',), (1, 16)),
    Bad("unknown_column", "SELECT id,\n  wrong FROM t", BindError, ('"wrong"',), (2, 3)),
    Bad("unknown_qualified_column", "SELECT t.wrong FROM t", BindError, ("wrong",), (1, 8)),
    Bad("unknown_alias", "SELECT x.id FROM t", BindError, ("x.id",), (1, 8)),
    Bad("ambiguous_column", "SELECT id FROM t JOIN u ON t.id = u.id", BindError,
        ("ambiguous", '"id"'), (1, 8)),
    Bad("boolean_plus_number", "SELECT b + 1 AS x FROM t", BindError, ("BOOLEAN", "INT"), None),
    Bad("date_times_date", "SELECT d * d AS x FROM t", BindError, ("DATE",), None),
    Bad("where_is_no_condition", "SELECT id FROM t WHERE v + 1", BindError, ("BOOLEAN",), None),
    Bad("sum_of_dates", "SELECT sum(d) AS s FROM t", BindError, ("sum", "DATE"), None),
    Bad("column_outside_group", "SELECT v, count(*) AS n FROM t GROUP BY id", BindError,
        ('"v"', "GROUP BY"), (1, 8)),
    Bad("aggregate_in_where", "SELECT id FROM t WHERE sum(v) > 1", SqlViewError, ("sum",), None),
    Bad("union_of_different_widths", "SELECT id FROM t UNION ALL SELECT id, v FROM t", BindError,
        ("UNION",), None),
    Bad("scalar_subquery_of_two_columns", "SELECT id FROM t WHERE v > (SELECT id, w FROM u)",
        BindError, ("scalar subquery", "2"), None),
    Bad("in_with_another_number_of_columns", "SELECT id FROM t WHERE (id, v) IN (SELECT w FROM u)",
        BindError, ("IN", "2 values", "1 column"), None),
    Bad("in_with_another_type", "SELECT id FROM t WHERE d IN (SELECT w FROM u)", BindError,
        ("DATE", "INT"), None),
    Bad("lambda_of_three_variables", "SELECT transform(array(v), (x, i, j) -> x) AS a FROM t",
        BindError, ("3 variables", "1 or 2"), None),
    Bad("lambda_without_an_arrow", "SELECT transform(array(v), v) AS a FROM t", BindError,
        ("lambda",), None),
    Bad("subquery_in_a_lambda", "SELECT filter(array(v), x -> x IN (SELECT w FROM u)) AS a FROM t",
        BindError, ("not allowed in a lambda",), None),
    Bad("aggregate_of_a_variable", "SELECT transform(array(1), x -> sum(x)) AS a FROM t", BindError,
        ('"x" of a lambda',), None),
    Bad("window_in_a_lambda", "SELECT transform(array(v), x -> count(*) OVER ()) AS a FROM t",
        BindError, ("not allowed in a lambda",), None),
    Bad("field_star_of_a_number", "SELECT v.* FROM t", BindError, ('"v"',), None),
    Bad("outer_name_that_is_none", "SELECT id FROM t WHERE EXISTS\n(SELECT 1 FROM u WHERE u.id ="
        " x.id)", BindError, ("x.id",), (2, 31)),
    Bad("lateral_of_an_unknown_column", "SELECT t.id, q.w FROM t,\n LATERAL (SELECT w FROM u"
        " WHERE u.id = t.nope) q", BindError, ("t.nope",), None),
    Bad("right_join_lateral", "SELECT t.id FROM t RIGHT JOIN LATERAL (SELECT w FROM u) q",
        BindError, ("LATERAL", "LEFT JOIN", "Hint:"), None),
    Bad("lateral_table_function", "SELECT t.id FROM t,\n LATERAL sql_keywords() AS q",
        UnsupportedError, ("LATERAL", "table function", "Hint:"), None),
    Bad("range_of_a_column", "SELECT t.id FROM t,\n LATERAL range(t.v) AS q", BindError,
        ("RANGE takes 1 to 4 integers, as literals",), None),
    Bad("explode_of_a_number", "SELECT id, e FROM t\n LATERAL VIEW explode(v) g AS e", BindError,
        ("EXPLODE needs an ARRAY or MAP, not INT",), (2, 15)),
    Bad("explode_with_other_names", "SELECT e FROM t LATERAL VIEW explode(array(v)) g AS e, f",
        BindError, ("2 names for 1 columns",), None),
    Bad("two_generators", "SELECT explode(array(v)), explode(array(id)) FROM t", BindError,
        ("one generator", "LATERAL VIEW"), None),
    Bad("generator_in_an_expression", "SELECT explode(array(v)) + 1 AS x FROM t", BindError,
        ("EXPLODE makes rows", "LATERAL VIEW"), (1, 8)),
    Bad("generator_beside_aggregates", "SELECT explode(array(1)) AS x, count(*) AS c FROM t",
        UnsupportedError, ("beside aggregates", "subquery"), None),
    Bad("no_such_field", "SELECT named_struct('a', v).b AS x FROM t", BindError,
        ("has no field", "The fields are a."), None),
    Bad("maps_compared", "SELECT map(id, v) = map(v, id) AS x FROM t", BindError,
        ("operator = compares values", "map_entries"), None),
    Bad("maps_in_group_by", "SELECT map(id, v) AS m, count(*) AS c FROM t GROUP BY 1", BindError,
        ("GROUP BY, or DISTINCT, compares values",), None),
    Bad("maps_in_distinct", "SELECT DISTINCT map(id, v) AS m FROM t", BindError,
        ("compares values",), None),
    Bad("array_of_other_types", "SELECT array(v, DATE '2024-01-01') AS x FROM t", BindError,
        ("ARRAY has operands of types",), None),
    Bad("in_of_another_number_of_set_columns", "SELECT id, v FROM t EXCEPT SELECT id FROM u",
        BindError, ("EXCEPT",), None),
    Bad("approximate", "SELECT approx_percentile(v, 1.5) AS m FROM t", BindError,
        ("between 0 and 1",), None),
    Bad("except_of_no_column", "SELECT * EXCEPT (id, nope) FROM t", BindError, ("nope",), None),
    Bad("except_of_two_columns", "SELECT * EXCEPT (id) FROM t JOIN u ON t.id = u.id", BindError,
        ("ambiguous",), None),
    Bad("except_of_an_expression", "SELECT * EXCEPT (upper('x')) FROM t", BindError,
        ("names of columns",), None),
    Bad("except_of_all_columns", "SELECT u.* EXCEPT (id, w) FROM u", BindError,
        ("leaves no column",), None),
    Bad("grouping_of_no_sets", "SELECT id, grouping(id) AS g FROM t GROUP BY id", BindError,
        ("GROUPING SETS",), None),
    Bad("grouping_of_no_key", "SELECT grouping(v) AS g FROM t GROUP BY CUBE (id)", BindError,
        ("GROUPING is of a grouping expression",), None),
    Bad("grouping_id_of_some_keys", "SELECT grouping_id(v, id) AS g FROM t GROUP BY CUBE (id, v)",
        BindError, ("in their order", "Hint:"), None),
    Bad("grouping_before_groups", "SELECT id FROM t WHERE grouping(id) = 1 GROUP BY CUBE (id)",
        BindError, ("GROUPING", "WHERE", "Hint:"), None),
    Bad("no_column_of_a_set", "SELECT v, count(*) AS n FROM t GROUP BY ROLLUP (id)", BindError,
        ("must appear in GROUP BY",), None),
    Bad("too_many_sets", "SELECT count(*) AS n FROM t GROUP BY CUBE (id, v, id + 1, id + 2, id + 3,"
        " id + 4, id + 5, id + 6, id + 7, id + 8, id + 9)", UnsupportedError,
        ("1,024 grouping sets", "Hint:"), None),
    Bad("window_without_its_order", "SELECT id,\n  row_number() OVER (PARTITION BY v) AS n FROM t",
        BindError, ("ROW_NUMBER needs ORDER BY", "line 2", "Hint:"), None),
    Bad("lag_without_its_order", "SELECT lag(v) OVER () AS n FROM t", BindError,
        ("LAG needs ORDER BY", "Hint:"), None),
    Bad("rank_with_a_frame", "SELECT rank() OVER (ORDER BY v ROWS 1 PRECEDING) AS n FROM t",
        BindError, ("RANK takes no frame", "Hint:"), None),
    Bad("lag_with_a_frame", "SELECT lag(v) OVER (ORDER BY v ROWS 1 PRECEDING) AS n FROM t",
        BindError, ("LAG takes no frame", "Hint:"), None),
    Bad("lag_by_a_column", "SELECT lag(v, id) OVER (ORDER BY v) AS n FROM t", BindError,
        ("LAG needs an INT",), None),
    Bad("nth_value_of_none", "SELECT nth_value(v, 0) OVER (ORDER BY v) AS n FROM t", BindError,
        ("NTH_VALUE needs an INT of at least 1",), None),
    Bad("ntile_of_none", "SELECT ntile(0) OVER (ORDER BY v) AS n FROM t", BindError,
        ("NTILE needs an INT of at least 1",), None),
    Bad("frame_that_ends_before_it_begins", "SELECT sum(v) OVER (ORDER BY id ROWS BETWEEN"
        " 1 FOLLOWING AND 1 PRECEDING) AS n FROM t", BindError, ("before it begins",), None),
    Bad("range_that_ends_before_it_begins", "SELECT sum(v) OVER (ORDER BY id RANGE BETWEEN"
        " 1 PRECEDING AND 2 PRECEDING) AS n FROM t", BindError, ("before it begins",), None),
    Bad("frame_from_the_end", "SELECT sum(v) OVER (ORDER BY id ROWS BETWEEN UNBOUNDED FOLLOWING"
        " AND CURRENT ROW) AS n FROM t", BindError, ("UNBOUNDED FOLLOWING",), None),
    Bad("range_over_a_text", "SELECT sum(v) OVER (ORDER BY string(id) RANGE 1 PRECEDING) AS n"
        " FROM t", BindError, ("RANGE", "STRING", "Hint:"), None),
    Bad("range_over_two_keys", "SELECT sum(v) OVER (ORDER BY id, v RANGE 1 PRECEDING) AS n FROM t",
        BindError, ("ORDER BY of one expression", "Hint:"), None),
    Bad("range_of_hours_over_a_date", "SELECT sum(v) OVER (ORDER BY d RANGE INTERVAL 1 HOUR"
        " PRECEDING) AS n FROM t", BindError, ("whole days",), None),
    Bad("rows_of_a_fraction", "SELECT sum(v) OVER (ORDER BY id ROWS 1.5 PRECEDING) AS n FROM t",
        BindError, ("ROWS needs an INT",), None),
    Bad("distinct_in_a_window", "SELECT count(DISTINCT v) OVER () AS n FROM t", BindError,
        ("DISTINCT", "Hint:"), None),
    Bad("window_in_where", "SELECT id FROM t WHERE row_number() OVER (ORDER BY v) = 1", BindError,
        ("not allowed in WHERE", "Hint: Use QUALIFY"), None),
    Bad("window_in_having", "SELECT v FROM t GROUP BY v HAVING rank() OVER (ORDER BY v) = 1",
        BindError, ("not allowed", "Hint: Use QUALIFY"), None),
    Bad("window_in_group_by", "SELECT 1 AS n FROM t GROUP BY rank() OVER (ORDER BY v)", BindError,
        ("not allowed in GROUP BY", "Hint:"), None),
    Bad("window_in_a_window", "SELECT sum(rank() OVER (ORDER BY v)) OVER () AS n FROM t", BindError,
        ("not allowed", "Hint:"), None),
    Bad("window_in_an_aggregate", "SELECT sum(rank() OVER (ORDER BY v)) AS n FROM t", BindError,
        ("not allowed in an aggregate", "Hint:"), None),
    Bad("window_that_is_not_defined", "SELECT rank() OVER w AS n FROM t", BindError,
        ('no window "w"',), None),
    Bad("window_that_is_extended", "SELECT sum(v) OVER (w ORDER BY v) AS n FROM t"
        " WINDOW w AS (PARTITION BY id)", BindError, ("cannot be extended",), None),
    Bad("no_window_function", "SELECT upper('a') OVER () AS n FROM t", BindError,
        ("no window function",), None),
    Bad("qualify_without_a_window", "SELECT id FROM t QUALIFY v = 1", BindError,
        ("QUALIFY needs a window", "Hint: Use WHERE"), None),
    Bad("median_of_a_frame", "SELECT median(v) OVER (ORDER BY id) AS n FROM t", BindError,
        ("MEDIAN takes neither", "Hint:"), None),
    Bad("alias_in_a_window", "SELECT id + 1 AS a, rank() OVER (ORDER BY a) AS n FROM t", BindError,
        ('"a" does not exist',), None),
    Bad("window_of_what_is_not_grouped", "SELECT v, rank() OVER (ORDER BY id) AS n FROM t"
        " GROUP BY v", BindError, ('"id" must appear in GROUP BY',), None),
    Bad("now", "SELECT id FROM t WHERE d < current_date()", UnsupportedError, ("current_date",),
        None),
    Bad("now_itself", "SELECT id FROM t WHERE now() > d", UnsupportedError, ("NOW",), None),
    Bad("rand", "SELECT id, rand() AS r FROM t", UnsupportedError, ("rand",), None),
    Bad("interval_with_a_precision", "SELECT d - interval '90' day (3) AS x FROM t",
        SqlSyntaxError, (), None),
    Bad("recursive_cte", "WITH RECURSIVE r AS (SELECT id FROM t UNION ALL SELECT max(id) FROM r)"
        " SELECT id FROM r", UnsupportedError, ("aggregate", "recursive"), None),
    Bad("pivot_by_no_constant", "SELECT * FROM t PIVOT (sum(v) FOR id IN (abs(1)))", BindError,
        ("PIVOT", "constant"), None),
    Bad("pivot_of_no_aggregate", "SELECT * FROM t PIVOT (abs(v) FOR id IN (1))", BindError,
        ("PIVOT", "aggregates"), None),
    Bad("pivot_of_two_columns", "SELECT * FROM t PIVOT (sum(v) FOR (id, b) IN ((1, TRUE, 2)))",
        BindError, ("PIVOT", "3 parts"), None),
    Bad("unpivot_of_other_types", "SELECT * FROM t UNPIVOT (n FOR c IN (v, d))", BindError,
        ("UNPIVOT", "DATE"), None),
    Bad("unknown_function", "SELECT no_such_function(id) AS x FROM t", SqlViewError,
        ("no_such_function",), None),
)  # fmt: skip

each = pytest.mark.parametrize("bad", QUERIES, ids=str)


def _session(connect: Connect) -> Checked:
    checked = connect()
    checked.create_table("t", "id INT, v INT, b BOOLEAN, d DATE", ("id",))
    checked.create_table("u", "id INT, w INT")
    checked.create_view("ok", "SELECT t.id, u.w FROM t JOIN u ON t.id = u.id")
    checked.step(insert("t", (1, 2, True, None)), insert("u", (1, 5)))
    return checked


@each
def test_query_is_refused_with_its_reason_and_place(bad: Bad, connect: Connect) -> None:
    checked = _session(connect)
    before = checked.db.epoch
    arrangements = checked.db.arrangements()
    error = checked.unchanged_by(
        bad.error, lambda: checked.db.sql(f"CREATE MATERIALIZED VIEW v AS {bad.query}"), before
    )
    text = str(error).lower()
    for part in bad.says:
        assert part.lower() in text, f"{part!r} is not in: {error}"
    assert error.message == error.message.rstrip(".")
    assert not bad.placed or (error.line and error.column), f"no place: {error}"
    if bad.place is not None:
        prefix = len("CREATE MATERIALIZED VIEW v AS ") if bad.place[0] == 1 else 0
        assert (error.line, error.column) == (bad.place[0], bad.place[1] + prefix)
    with pytest.raises(CatalogError):
        checked.db.view("v")
    assert checked.db.arrangements().equals(arrangements)
    # The session goes on, and the name is free.
    checked.step(insert("u", (1, 6)))
    checked.create_view("v", "SELECT id FROM t")


def test_names_that_are_taken_or_missing(connect: Connect) -> None:
    checked = _session(connect)
    for text, name in (
        ("CREATE TABLE t (a INT)", "t"),
        ("CREATE TABLE OK (a INT)", "ok"),
        ("CREATE MATERIALIZED VIEW ok AS SELECT id FROM t", "ok"),
        ("CREATE MATERIALIZED VIEW t AS SELECT id FROM u", "t"),
        ("DROP TABLE nowhere", "nowhere"),
        ("DROP MATERIALIZED VIEW nowhere", "nowhere"),
        ("DROP MATERIALIZED VIEW t", "t"),
        ("DROP TABLE ok", "ok"),
    ):
        error = checked.unchanged_by(
            CatalogError, lambda text=text: checked.db.sql(text), checked.db.epoch
        )
        assert f'"{name}"' in str(error).lower()


def test_bad_table_definitions(connect: Connect) -> None:
    checked = _session(connect)
    for text, part in (
        ("CREATE TABLE x (a INT, A INT)", "a"),
        ("CREATE TABLE x (a INT, PRIMARY KEY (b))", "b"),
        ("CREATE TABLE x (a MAP<INT, VARIANT>)", "VARIANT"),
        ("CREATE TABLE x (a CHAR(0))", "CHAR"),
        ("CREATE TABLE x (a VARCHAR)", "VARCHAR"),
        ("CREATE TABLE x (a INT", ""),
    ):
        error = checked.unchanged_by(
            SqlViewError, lambda text=text: checked.db.sql(text), checked.db.epoch
        )
        assert part in str(error)
    checked.create_table("x", "a INT")


def test_a_table_under_a_view_is_not_dropped(connect: Connect) -> None:
    checked = _session(connect)
    checked.create_view("over", "SELECT id FROM ok")
    for text in ("DROP TABLE t", "DROP TABLE u", "DROP MATERIALIZED VIEW ok"):
        error = checked.unchanged_by(
            CatalogError, lambda text=text: checked.db.sql(text), checked.db.epoch
        )
        reader = "over" if "VIEW" in text else "ok"
        assert f'"{reader}"' in str(error)
    checked.drop_view("over")
    checked.drop_view("ok")
    checked.db.sql("DROP TABLE t")


def test_reading_what_does_not_exist(connect: Connect) -> None:
    checked = _session(connect)
    for attempt in (
        lambda: checked.db.view("nowhere"),
        lambda: checked.db.subscribe("nowhere", print),
        lambda: checked.db.verify("nowhere"),
        lambda: checked.db.sql("EXPLAIN MATERIALIZED VIEW nowhere"),
        lambda: checked.db.sql("VERIFY MATERIALIZED VIEW nowhere"),
    ):
        error = checked.unchanged_by(CatalogError, attempt, checked.db.epoch)
        assert '"nowhere"' in str(error)


def test_a_dropped_view_leaves_its_shared_indexes_to_others(connect: Connect) -> None:
    checked = _session(connect)
    checked.create_view("twin", "SELECT t.v, u.w FROM t JOIN u ON t.id = u.id")
    checked.drop_view("ok")
    checked.step(insert("t", (2, 3, None, None)), insert("u", (2, 9), (1, 0)))
    checked.drop_view("twin")
    checked.create_view("ok", "SELECT t.id, u.w FROM t JOIN u ON t.id = u.id")
    checked.step(insert("u", (2, 8)))
