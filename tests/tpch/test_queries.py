"""The 22 texts: their answers, that views of them can be made, and the lively parameters.

`answers.json` holds the number of rows, the first and the last row of each query at scale factor
0.01, as DuckDB gives them with the query texts of its own TPC-H extension.
"""

from __future__ import annotations

import datetime
import json
import math
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import sqlglot
from sqlglot import exp

import sqlview
from planner.calculus.types import DOUBLE, Field
from sqlview.oracle import DuckDBOracle
from tpch import lively
from tpch.queries import Query, all_queries
from tpch.schema import TABLES

NAMES = [f"q{number:02d}" for number in range(1, 23)]
ANSWERS = json.loads((Path(__file__).parent / "answers.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def oracle(generated_tables: dict[str, pa.Table]) -> Iterator[DuckDBOracle]:
    with DuckDBOracle(threads=1) as oracle:
        for name, rows in generated_tables.items():
            oracle.load(name, rows)
        yield oracle


@pytest.fixture(scope="module")
def empty() -> Iterator[sqlview.Session]:
    with sqlview.connect(placement="inline") as db:
        for table in TABLES:
            db.sql(table.sql)
        yield db


def by_name(parameters: str) -> dict[str, Query]:
    return {query.name: query for query in all_queries(parameters)}


def result(oracle: DuckDBOracle, query: Query) -> list[tuple[Any, ...]]:
    described = oracle.describe(query.sql)
    columns = zip(described.names, described.types, strict=True)
    schema = tuple(Field(name, kind or DOUBLE) for name, kind in columns)
    table = oracle.query(query.sql, schema)
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


def is_close(found: object, expected: object) -> bool:
    """DuckDB's averages and quotients are doubles, Spark's are decimals of six places."""
    match found:
        case Decimal():
            assert isinstance(expected, float)
            return math.isclose(found, expected, rel_tol=1e-6, abs_tol=1e-6)
        case datetime.date():
            return found.isoformat() == expected
        case _:
            return found == expected


def test_all_22_have_a_file() -> None:
    assert [query.name for query in all_queries()] == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_answers_are_those_of_tpch(oracle: DuckDBOracle, name: str) -> None:
    rows = result(oracle, by_name("spec")[name])
    expected = ANSWERS[name]
    assert len(rows) == expected["rows"]
    for found, answer in ((rows[0], expected["first"]), (rows[-1], expected["last"])):
        assert len(found) == len(answer)
        assert all(map(is_close, found, answer)), (found, answer)


@pytest.mark.parametrize("name", NAMES)
def test_each_is_maintained(name: str, empty: sqlview.Session) -> None:
    empty.sql(by_name("spec")[name].create_sql)
    assert empty.verify(name).equal


def without_literals(sql: str) -> exp.Expr:
    tree = sqlglot.parse_one(sql, read="databricks")
    for literal in list(tree.find_all(exp.Literal)):
        literal.replace(exp.Literal(this="?", is_string=literal.is_string))
    return tree


@pytest.mark.parametrize("name", NAMES)
def test_lively_parameters_are_literals(name: str) -> None:
    spec = by_name("spec")[name].sql
    for old, new in lively.LIVELY.get(name, ()):
        assert old in spec
        assert old != new
    text = by_name("lively")[name].sql
    assert without_literals(text) == without_literals(spec)
    assert (text != spec) == (name in lively.LIVELY)


def test_lively_results_are_not_empty(oracle: DuckDBOracle) -> None:
    for query in all_queries("lively"):
        rows = result(oracle, query)
        assert rows, query.name
        assert any(value is not None for value in rows[0]), query.name


def test_unknown_parameters() -> None:
    with pytest.raises(ValueError, match='the parameters are spec or lively, not "odd"'):
        all_queries("odd")
