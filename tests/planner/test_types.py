"""Types and coercions against those that Spark gives (spark_types.tsv)."""

from __future__ import annotations

import re

import pytest

from planner.bind import bind_query
from planner.calculus.algebra import Project
from planner.calculus.coercion import parse_date, parse_timestamp
from planner.calculus.expr import Call
from planner.calculus.functions import shift_date
from planner.context import RelationInfo
from planner.dataflow import Source
from planner.errors import BindError, UnsupportedError
from planner.parse import CreateTable, parse_query, parse_statement
from tests.planner.spark_types import COLUMNS, FILE, expressions
from tests.planner.tpch_catalog import Tables

_ROWS = [tuple(line.split("\t")) for line in FILE.read_text().splitlines()]

#: What Spark takes and this library refuses, each with an error of its own.
_REFUSED = re.compile(
    r"VOID"  # as a result
    r"|extract\(second|c_string [+-] interval|(sum|avg|mean)\((distinct )?c_timestamp\)"
    r"|(length|substring|concat|right)\(c_binary|c_binary \|\| "
)


#: Spark compares an integer with a decimal literal as integers, rounded to the right side; here
#: both are decimals, with the same result.
_OTHER_OPERANDS = re.compile(r"c_(tiny|small|big)?int < 1\.5")


def _catalog() -> Tables:
    columns = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())
    table = parse_statement(f"CREATE TABLE t ({columns})")
    assert isinstance(table, CreateTable)
    source = Source("t", table.columns)
    return Tables((RelationInfo("t", table.columns, None, source, 0, False),))


_CATALOG = _catalog()


def _bound(expression: str) -> tuple[str, str]:
    plan = bind_query(parse_query(f"SELECT {expression} AS x FROM t"), _CATALOG).plan
    kind = str(plan.schema[0].type)
    if not isinstance(plan, Project) or not isinstance(plan.exprs[0], Call):
        return kind, ""
    return kind, " ".join(str(a.type) for a in plan.exprs[0].args)


def test_the_file_is_of_these_expressions() -> None:
    assert [row[0] for row in _ROWS] == expressions()


@pytest.mark.parametrize("operator", ["+", "-", "*", "/", "div", "%", "<", "coalesce", "other"])
def test_types(operator: str) -> None:
    wrong = []
    for expression, expected, *operands in _ROWS:
        if _family(expression) != operator:
            continue
        refusable = _REFUSED.search(expression) or _REFUSED.search(expected)
        try:
            kind, arguments = _bound(expression)
        except (BindError, UnsupportedError) as error:
            if expected != "-" and not refusable:
                wrong.append(f"{expression}: Spark {expected}, here {error.message}")
            continue
        same = not operands or arguments == operands[0] or _OTHER_OPERANDS.match(expression)
        if kind != expected or not same:
            wrong.append(f"{expression}: Spark {expected} {operands}, here {kind} ({arguments})")
    assert not wrong, "\n".join(wrong)


def _family(expression: str) -> str:
    words = expression.split()
    if len(words) == 3 and all(w in COLUMNS for w in words[::2]):
        return words[1]
    pair = re.fullmatch(r"coalesce\((\w+), (\w+)\)", expression)
    return "coalesce" if pair and all(g in COLUMNS for g in pair.groups()) else "other"


@pytest.mark.parametrize(
    ("day", "months", "days", "expected"),
    [
        ("2020-01-31", 1, 0, "2020-02-29"),
        ("2019-01-31", 1, 0, "2019-02-28"),
        ("2020-02-29", 12, 0, "2021-02-28"),
        ("2020-02-29", -12, 0, "2019-02-28"),
        ("2020-01-31", -1, 0, "2019-12-31"),
        ("2020-12-15", 1, 0, "2021-01-15"),
        ("1998-12-01", 0, -90, "1998-09-02"),
        ("9999-12-31", 0, 1, None),
        ("0001-01-01", -1, 0, None),
    ],
)
def test_shift_date(day: str, months: int, days: int, expected: str | None) -> None:
    start = parse_date(day)
    assert start is not None
    shifted = shift_date(start, months, days)
    assert (shifted and shifted.isoformat()) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2020-1-5", "2020-01-05"),
        ("2020", "2020-01-01"),
        (" 2020-02-29 ", "2020-02-29"),
        ("2019-02-29", None),
        ("20-01-01", None),
        ("x", None),
    ],
)
def test_parse_date(text: str, expected: str | None) -> None:
    day = parse_date(text)
    assert (day and day.isoformat()) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1970-01-01", 0),
        ("1970-01-01 00:00:01.5", 1_500_000),
        ("1969-12-31T23:59:59", -1_000_000),
        ("1970-01-02 1:2", 90_120_000_000),
        ("1970-01-01 24:00", None),
        ("1970-01-01 00:00:00+01:00", None),
    ],
)
def test_parse_timestamp(text: str, expected: int | None) -> None:
    assert parse_timestamp(text) == expected
