"""The oracle itself, against results worked out by hand."""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Callable, Iterator
from decimal import Decimal as D
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from planner.calculus import types as t
from sqlview.oracle import (
    RELATIVE_TOLERANCE,
    CannotSay,
    DuckDBOracle,
    OracleError,
    RowError,
    compare,
    functions,
)
from sqlview.oracle.database import connect

_DAY = datetime.date(1996, 1, 31)


@pytest.fixture
def oracle() -> Iterator[DuckDBOracle]:
    with DuckDBOracle(threads=1) as made:
        made.load(
            "T",
            pa.table(
                {
                    "a": pa.array([1, 1, 2, None], pa.int32()),
                    "x": pa.array([D("1.00"), D("2.00"), D("0.05"), None], pa.decimal128(10, 2)),
                    "s": ["a_b", "ab", None, "x"],
                    "d": [_DAY, None, None, None],
                    "f": [0.5, math.nan, None, -0.0],
                }
            ),
        )
        yield made


def _rows(oracle: DuckDBOracle, text: str) -> list[tuple[Any, ...]]:
    types = oracle.describe(text).types
    schema = tuple(t.Field(f"c{i}", k) for i, k in enumerate(types) if k is not None)
    assert len(schema) == len(types), "the oracle knows the types"
    return [tuple(r.values()) for r in oracle.query(text, schema).to_pylist()]


def _approximate(value: Any) -> Any:
    """DuckDB adds doubles up in no fixed order: their last digits vary."""
    return pytest.approx(value, rel=RELATIVE_TOLERANCE) if isinstance(value, float) else value


@pytest.mark.parametrize(
    ("text", "types", "rows"),
    [
        ("SELECT avg(x), sum(x) FROM t", "DECIMAL(14,6) DECIMAL(20,2)",
         [(D("1.016667"), D("3.05"))]),
        ("SELECT sum(x) / 3 FROM t", "DECIMAL(24,6)", [(D("1.016667"),)]),
        ("SELECT (0 - x) / 3 FROM t WHERE a = 1", "DECIMAL(15,6)",
         [(D("-0.333333"),), (D("-0.666667"),)]),
        ("SELECT 100.00 * sum(x) / sum(x * (1 - x)) FROM t", "DECIMAL(38,12)",
         [(D("-156.209987195903"),)]),
        ("SELECT avg(x) FROM t WHERE a > 9", "DECIMAL(14,6)", [(None,)]),
        ("SELECT avg(a), sum(a) FROM t", "DOUBLE BIGINT", [(4 / 3, 4)]),
        ("SELECT d + INTERVAL '1' MONTH, year(d) FROM t WHERE d IS NOT NULL", "DATE INT",
         [(datetime.date(1996, 2, 29), 1996)]),
        (r"SELECT s FROM t WHERE s LIKE 'a\\_b'", "STRING", [("a_b",)]),
        ("SELECT s FROM t WHERE s LIKE 'a!_b' ESCAPE '!'", "STRING", [("a_b",)]),
        ("SELECT a FROM t ORDER BY a LIMIT 2", "INT", [(None,), (1,)]),
        ("SELECT a FROM t ORDER BY a DESC LIMIT 4", "INT", [(2,), (1,), (1,), (None,)]),
        ("SELECT a, x FROM t ORDER BY a DESC LIMIT 2", "INT DECIMAL(10,2)",
         [(2, D("0.05")), (1, D("1.00"))]),
        ("SELECT x, a FROM t LIMIT 2", "DECIMAL(10,2) INT", [(None, None), (D("0.05"), 2)]),
        ("SELECT CASE WHEN a > 1 THEN x ELSE 0 END FROM t WHERE a = 2", "DECIMAL(12,2)",
         [(D("0.05"),)]),
        (("WITH w AS (SELECT a, avg(x) AS m FROM t GROUP BY a) SELECT p.m + q.m FROM w p, w q"
         " WHERE p.a = q.a AND p.a = 2"), "DECIMAL(15,6)", [(D("0.100000"),)]),
        ("SELECT x FROM t WHERE a = 2 UNION ALL SELECT a FROM t WHERE a = 2", "DECIMAL(12,2)",
         [(D("0.05"),), (D("2.00"),)]),
        ("SELECT 9999999999.99 * 9999999999.99 FROM t WHERE a = 2", "DECIMAL(25,4)",
         [(D("99999999999800000000.0001"),)]),
        ("SELECT a / 2 FROM t WHERE a = 1", "DOUBLE", [(0.5,), (0.5,)]),
        ("SELECT cast(x AS INT), a % 2 FROM t WHERE x > 1", "INT INT", [(2, 1)]),
        ("SELECT var_pop(a), stddev(x) FILTER (WHERE a = 2) FROM t", "DOUBLE DOUBLE",
         [(0.22222222222222224, None)]),
        ("SELECT any_value(x), count(a, s), count_if(a > 1), every(a > 0), some(a > 2) FROM t",
         "DECIMAL(10,2) BIGINT BIGINT BOOLEAN BOOLEAN", [(D("0.05"), 2, 1, True, False)]),
        ("SELECT sum(DISTINCT a), count(DISTINCT a), avg(x) FILTER (WHERE a = 1) FROM t",
         "BIGINT BIGINT DECIMAL(14,6)", [(3, 2, D("1.500000"))]),
        ("SELECT a FROM t OFFSET 2", "INT", [(1,), (2,)]),
        ("SELECT v.b FROM VALUES (1, 2.5), (2, NULL) AS v(k, b)", "DECIMAL(2,1)",
         [(D("2.5"),), (None,)]),
        ("SELECT a, (SELECT max(u.x) FROM t u WHERE u.a = t.a) FROM t WHERE a = 2",
         "INT DECIMAL(10,2)", [(2, D("0.05"))]),
        ("SELECT (a, x) IN (SELECT u.a, u.x FROM t u WHERE u.a <= t.a) FROM t WHERE a = 2",
         "BOOLEAN", [(True,)]),
        (("SELECT dayofweek(d), weekday(d), extract(DOW FROM d), extract(dayofweek FROM d),"
          " date_part('dow', d), dayofweek(d) * 2 FROM t WHERE d IS NOT NULL"),
         "INT INT INT INT INT INT", [(4, 2, 4, 4, 4, 8)]),
        ("SELECT isnan(f), isnull(f), isnotnull(f), negative(a), positive(a) FROM t",
         "BOOLEAN BOOLEAN BOOLEAN INT INT",
         [(False, False, True, -1, 1), (True, False, True, -1, 1), (False, True, False, -2, 2),
          (False, False, True, None, None)]),
        ("SELECT btrim(s || ' '), regexp(s, '^a'), replace(s, 'a') FROM t WHERE a = 1",
         "STRING BOOLEAN STRING", [("a_b", True, "_b"), ("ab", True, "b")]),
        ("SELECT bigint(x), smallint(x), tinyint(1.7), isnull(btrim(s)) FROM t WHERE a = 2",
         "BIGINT SMALLINT TINYINT BOOLEAN", [(0, 0, 1, True)]),
        ("SELECT any(a > 1), any(a > 1) FILTER (WHERE a < 2), true = any(a > 2) FROM t",
         "BOOLEAN BOOLEAN BOOLEAN", [(True, False, False)]),
        ("SELECT count_if(a > 0), count_if(DISTINCT a > 0) FROM t WHERE a > 9", "BIGINT BIGINT",
         [(0, 0)]),
        ("SELECT count_if(a > 0), count_if(DISTINCT a > 0) FROM t", "BIGINT BIGINT", [(3, 1)]),
        (("SELECT cast(d + INTERVAL '1 2:03:04' DAY TO SECOND AS STRING),"
          " cast(d - INTERVAL -'23:30' HOUR TO MINUTE AS DATE),"
          " d - INTERVAL '-0-1' YEAR TO MONTH FROM t WHERE a = 1 AND d IS NOT NULL"),
         "STRING DATE DATE",
         [("1996-02-01 02:03:04", datetime.date(1996, 1, 31), datetime.date(1996, 2, 29))]),
    ],
)  # fmt: skip
def test_results_and_types_are_sparks(
    text: str, types: str, rows: list[tuple[Any, ...]], oracle: DuckDBOracle
) -> None:
    assert " ".join(map(str, oracle.describe(text).types)) == types
    found = _rows(oracle, text)
    assert len(found) == len(rows)
    for row, expected in zip(found, rows, strict=True):
        assert row == tuple(_approximate(value) for value in expected)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 1 / (a - 1) FROM t",
        "SELECT x / (a - 1) FROM t",
        "SELECT x % (a - 1) FROM t",
        "SELECT a DIV (a - 1) FROM t",
        "SELECT cast(s AS INT) FROM t",
        "SELECT a + 2147483647 FROM t",
        "SELECT sum(a + 9223372036854775000) FROM t",
        "SELECT (SELECT u.a FROM t u WHERE u.a <= t.a) FROM t",
    ],
)
def test_what_cannot_be_computed_is_an_error(text: str, oracle: DuckDBOracle) -> None:
    schema = (t.Field("c", oracle.describe(text).types[0] or t.STRING),)
    with pytest.raises(RowError):
        oracle.query(text, schema)
    with pytest.raises(RowError):
        oracle.query(f"SELECT count(c) FROM ({text}) AS q(c)", (t.Field("n", t.BIGINT),))
    guarded = "SELECT a FROM t WHERE a <> 1 AND 1 / (a - 1) > 0"
    assert _rows(oracle, guarded) == [(2,)]


@pytest.mark.parametrize("inner", ["min(u.a)", "u.a"])
def test_comparisons_with_correlated_queries_that_hold_others(
    inner: str, oracle: DuckDBOracle
) -> None:
    """DuckDB itself gives NULL for FALSE where another row's query gives a NULL."""
    oracle.load("e", pa.table({"b": pa.array([], pa.int32())}))
    query = (
        f"SELECT {inner} FROM t u WHERE coalesce(u.a, 0) = coalesce(t.a, 0)"
        " AND (SELECT b FROM e LIMIT 1) IS NULL"
    )
    for comparison in ("a + 1 IN ({})", "a + 1 = ANY ({})", "a + 1 <= ALL ({})", "a NOT IN ({})"):
        text = comparison.format(query)
        assert _rows(oracle, f"SELECT {text} FROM t") == [(False,), (False,), (False,), (None,)]
        assert _rows(oracle, f"SELECT a FROM t WHERE NOT {text} AND a > 1") == [(2,)]
    for comparison in ("a <= ALL ({})", "a IN ({})"):
        text = comparison.format(query.replace("IS NULL", "= 1"))
        assert _rows(oracle, f"SELECT DISTINCT {text} FROM t WHERE a IS NOT NULL") == [
            (None if "min" in inner else "ALL" in comparison,)
        ]


def test_views_over_views(oracle: DuckDBOracle) -> None:
    oracle.create_view("v", "SELECT a, avg(x) AS m FROM t GROUP BY a")
    oracle.create_view("w", "SELECT m * 2 AS n FROM V WHERE m > 1")
    assert _rows(oracle, "SELECT n FROM w") == [(D("3.000000"),)]
    oracle.drop("w")
    oracle.drop("v")
    assert _rows(oracle, "SELECT count(*) FROM t") == [(4,)]


def test_a_bag_loses_one_copy_for_each_deleted_row() -> None:
    with DuckDBOracle(threads=1) as oracle:
        bag = pa.table({"a": [1, 1, None, None], "f": [0.0, -0.0, math.nan, math.nan]})
        oracle.load("b", bag)
        oracle.apply("b", None, bag.slice(1, 2))
        assert _rows(oracle, "SELECT count(a), count(*) FROM b") == [(1, 2)]
        with pytest.raises(OracleError, match="1 rows to delete"):
            oracle.apply("b", bag, bag.slice(0, 2))
        assert _rows(oracle, "SELECT count(*) FROM b") == [(2,)]


def test_a_keyed_table_deletes_by_key() -> None:
    with DuckDBOracle(threads=1) as oracle:
        oracle.load("k", pa.table({"id": [1, 2], "v": ["a", "b"]}), key=("id",))
        oracle.apply("k", pa.table({"id": [2], "v": ["c"]}), pa.table({"id": [2], "v": ["?"]}))
        assert _rows(oracle, "SELECT v FROM k ORDER BY v LIMIT 9") == [("a",), ("c",)]


_TABLE = pa.table({"k": [1, 1, None, 2], "f": [0.5, 0.5, math.nan, 0.0]})


def _with(column: str, values: list[Any]) -> pa.Table:
    return _TABLE.set_column(_TABLE.column_names.index(column), column, pa.array(values))


@pytest.mark.parametrize("copies", [1, 2_000])
def test_compare_finds_equal_what_is_equal(copies: int) -> None:
    left = pa.concat_tables([_TABLE] * copies)
    right = pa.concat_tables([_TABLE.take([3, 2, 1, 0])] * copies)
    assert compare(left, right) is None
    close = _with("f", [0.5 * (1 + 1e-12), 0.5, math.nan, -0.0])
    assert compare(pa.concat_tables([close] * copies), right) is None


@pytest.mark.parametrize("copies", [1, 2_000])
@pytest.mark.parametrize(
    "other",
    [
        _TABLE.slice(1),
        _TABLE.take([0, 0, 2, 3, 3]),
        _TABLE.take([0, 2, 2, 3]),
        _with("k", [1, 1, 0, 2]),
        _with("f", [0.5, 0.5, None, 0.0]),
        _with("f", [0.5, 0.5, math.nan, 1e-300]),
        _with("f", [0.5, 0.5000001, math.nan, 0.0]),
        _with("f", [0.5, 0.5, math.inf, 0.0]),
    ],
)
def test_compare_finds_every_difference(other: pa.Table, copies: int) -> None:
    many = [_TABLE] * (copies - 1)
    found = compare(pa.concat_tables([*many, other]), pa.concat_tables([*many, _TABLE]))
    assert found is not None
    assert found.missing.num_rows + found.extra.num_rows in (1, 2)
    assert found.missing.num_rows - found.extra.num_rows == _TABLE.num_rows - other.num_rows


def test_compare_matches_close_doubles_whatever_their_order() -> None:
    left = pa.table({"f": [1.0, 1.0 + 1e-12], "g": [5.0, 3.0]})
    right = pa.table({"f": [1.0, 1.0 + 1e-12], "g": [3.0, 5.0]})
    assert compare(left, right) is None
    assert compare(left, pa.table({"f": [1.0, 1.0], "g": [5.0, 5.0]})) is not None


def test_compare_minds_the_order_only_where_asked() -> None:
    backwards = _TABLE.take([3, 2, 1, 0])
    assert compare(_TABLE, backwards) is None
    found = compare(_TABLE, backwards, ordered=True)
    assert found is not None
    assert found.position == 0
    assert compare(_TABLE, _TABLE, ordered=True) is None


def test_the_session_is_in_utc_whatever_the_machine() -> None:
    with DuckDBOracle() as oracle:
        zone = oracle._db.execute("SELECT current_setting('TimeZone')").fetchone()
    assert zone == ("UTC",)


@pytest.mark.parametrize(
    "statement",
    [
        "COPY (SELECT 1) TO '{path}'",
        "SELECT * FROM read_text('{path}')",
        "ATTACH '{path}' AS other",
        "INSTALL httpfs",
        "LOAD httpfs",
        "SET enable_external_access = true",
        "SET memory_limit = '1TB'",
        "SET lock_configuration = false",
    ],
)
def test_the_database_can_only_compute(statement: str, tmp_path: Path) -> None:
    with connect() as db, pytest.raises(duckdb.Error):
        db.execute(statement.format(path=tmp_path / "file"))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("function", "mapped", "left"),
    [("upper", str.upper, functions.LONG_CAPITALS), ("lower", str.lower, functions.ODD_SMALL)],
)
def test_every_letter_is_mapped_as_in_spark_or_left_to_it(
    function: str, mapped: Callable[[str], str], left: str
) -> None:
    every = [chr(i) for i in range(1, 0x110000) if not 0xD800 <= i < 0xE000]
    letters = [c for c in every if c in "a1 " or c.upper() != c or c.lower() != c]
    said = [c for c in letters if not re.match(f"[{left}]", c)]
    schema = (t.Field("c", t.STRING), t.Field("s", t.STRING))
    with DuckDBOracle(threads=1) as oracle:
        oracle.load("t", pa.table({"c": said}))
        found = oracle.query(f"SELECT c, {function}(c) AS s FROM t", schema)
        c, s = (column.to_pylist() for column in found.columns)
        assert s == list(map(mapped, c))
        oracle.load("u", pa.table({"c": ["x" + left[0]]}))
        with pytest.raises(CannotSay, match="the case of such a letter"):
            oracle.query(f"SELECT c, {function}(c) AS s FROM u", schema)


def test_dates_that_python_lacks_are_compared() -> None:
    days = pa.array([2_932_897, -800_000, None], pa.int32()).cast(pa.date32())
    times = pa.array([253_402_300_800_000_000, None, -(10**17)], pa.int64())
    table = pa.table({"d": days, "t": times.cast(pa.timestamp("us", "UTC"))})
    assert compare(table, table.take([2, 1, 0])) is None
    found = compare(table, table.slice(1))
    assert found is not None and found.extra.schema == table.schema
    assert str(found) == "extra 1: (+10000-01-01, +10000-01-01 00:00:00+00:00)"


@pytest.mark.parametrize(
    "query",
    [
        "SELECT a FROM t NATURAL JOIN (SELECT 1 AS q)",
        "SELECT nothing FROM t",
        "SELECT a FROM nowhere",
        "SELECT FROM WHERE",
        f"SELECT {' + '.join(['a'] * 5_000)} AS a FROM t",
        f"SELECT {' / '.join(['x'] * 7)} AS a FROM t",
    ],
)
def test_what_cannot_be_said_is_one_error(query: str, oracle: DuckDBOracle) -> None:
    with pytest.raises(CannotSay):
        oracle.query(query, (t.Field("a", t.DOUBLE),))
    assert oracle.sound


def test_doubled_quotes_are_one_quote() -> None:
    with DuckDBOracle() as oracle:
        oracle.load("t", pa.table({"a": [1]}))
        (name,) = oracle.query("SELECT 'it''s' AS s FROM t", (t.Field("s", t.STRING),))["s"]
    assert name.as_py() == "it's"


@pytest.mark.parametrize(
    ("left", "right", "equal"),
    [
        ((0.1875, 0.0), (0.18749999999999997, 5.551115123125783e-17), True),  # an intercept
        ((0.0,), (5e-17,), False),
        ((1e300, 0.0), (1e300, 1e-11), False),
        ((1.0, 0.0), (1.0, 1e-14), False),
    ],
)
def test_what_a_subtraction_leaves(
    left: tuple[float, ...], right: tuple[float, ...], equal: bool
) -> None:
    tables = [pa.table({str(i): [x] for i, x in enumerate(row)}) for row in (left, right)]
    assert (compare(*tables) is None) == equal
