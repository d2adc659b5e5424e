"""What bound plans mean: their rows, by definition, are those of DuckDB for the same text."""

from __future__ import annotations

import datetime
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pytest

from planner.bind import bind_query
from planner.parse import oracle_sql, parse_query
from planner.validate import check
from tests.planner.meaning import Row, TooManyRows, rows
from tests.planner.test_bind import CATALOG

_DAY = datetime.date(2020, 1, 31)
TABLES: dict[str, list[Row]] = {
    "t": [
        (1, 1, _DAY, Decimal("1.50"), "x", 1.5),
        (1, 1, _DAY, Decimal("1.50"), "x", 1.5),
        (1, None, None, Decimal("2.50"), "y", -0.0),
        (2, 3, _DAY, None, None, None),
        (3, 1, datetime.date(2020, 2, 29), Decimal("3.00"), "", 0.0),
        (4, None, None, Decimal("1.50"), "xy", 2.5),
        (5, 6, _DAY, Decimal("0.00"), "X", 7.0),
    ],
    "u": [(1, 1), (1, 2), (1, 2), (3, None), (None, 1), (6, 6), (5, 6), (2, 0)],
    "p": [],
}

#: One query a line. Not there, for DuckDB: COUNT_IF of no rows, which sqlglot makes a SUM, so NULL.
QUERIES = Path(__file__).with_name("cases").joinpath("meaning.sql").read_text().splitlines()


@pytest.fixture(scope="module")
def oracle() -> duckdb.DuckDBPyConnection:
    database = duckdb.connect()
    database.execute(
        "CREATE TABLE t (a INT, b INT, d DATE, e DECIMAL(15,2), s VARCHAR, f DOUBLE);"
        "CREATE TABLE u (a INT, c INT); SET default_null_order = 'nulls_first_on_asc_last_on_desc'"
    )
    for name in ("t", "u"):
        for row in TABLES[name]:
            marks = ", ".join("?" * len(row))
            database.execute(f"INSERT INTO {name} VALUES ({marks})", list(row))
    return database


def _plain(value: Any) -> Any:
    """Values that are equal in SQL are equal here, whatever number type they have."""
    match value:
        case bool() | None:
            return value
        case int() | float() | Decimal():
            return round(float(value), 6) + 0.0
        case datetime.datetime():
            return value.date()
        case _:
            return value


@pytest.mark.parametrize("text", QUERIES)
def test_meaning(text: str, oracle: duckdb.DuckDBPyConnection) -> None:
    query = parse_query(text)
    plan = bind_query(query, CATALOG).plan
    check(plan)
    found = Counter(tuple(map(_plain, r)) for r in rows(plan, TABLES))
    expected = oracle.execute(oracle_sql(query)).fetchall()
    assert found == Counter(tuple(map(_plain, r)) for r in expected)


def test_a_grouping_expression_may_be_used_in_a_subquery() -> None:
    text = "select a + 1, (select max(c) from u where u.a = t.a + 1) x from t group by a + 1"
    plan = bind_query(parse_query(text), CATALOG).plan
    assert sorted(rows(plan, TABLES), key=str) == [(2, 0), (3, None), (4, None), (5, 6), (6, 6)]


def test_two_rows_of_a_scalar_subquery_are_an_error() -> None:
    plan = bind_query(parse_query("select (select c from u where u.a = t.a) from t"), CATALOG).plan
    with pytest.raises(TooManyRows):
        rows(plan, TABLES)
