"""EXPLAIN as text: the TPC-H queries as goldens, and the small forms."""

from __future__ import annotations

import datetime
from decimal import Decimal
from pathlib import Path

import pytest

from planner.bind import bind_query
from planner.calculus.algebra import Scan
from planner.calculus.expr import Expr, Literal
from planner.calculus.types import BINARY, BOOLEAN, INT, TIMESTAMP_NTZ, DecimalType
from planner.dataflow import Index, Store
from planner.explain import explain_dataflow, explain_logical, expr_text, index_text
from planner.lower.views import lower
from planner.parse import parse_query
from planner.rewrite.optimizer import optimize
from planner.validate import check_dataflow
from tests.planner.build import (
    aggregate,
    call,
    cast,
    col,
    count_rows,
    cross,
    eq,
    lit,
    scan,
    where,
)
from tests.planner.golden import check_golden
from tests.planner.tpch_catalog import schema_of, tpch

QUERIES = Path(__file__).parents[2] / "tpch" / "queries"
NAMES = [f"q{number:02}" for number in range(1, 23)]


@pytest.mark.parametrize("name", NAMES)
def test_tpch(name: str, request: pytest.FixtureRequest) -> None:
    """The plan of each query at scale factor 1: logical, then the dataflow of its view."""
    catalog = tpch()
    text = (QUERIES / f"{name}.sql").read_text()
    plan = optimize(bind_query(parse_query(text), catalog).plan, check=True)
    view = Store(lower(plan, catalog))
    check_dataflow(view)
    sections = ["-- logical", explain_logical(plan), "", "-- dataflow", explain_dataflow(view)]
    check_golden(f"tpch/{name}.txt", "\n".join(sections), request)


def test_all_queries_are_there() -> None:
    assert sorted(p.stem for p in QUERIES.glob("*.sql")) == NAMES


RECOMPUTED = """
    SELECT o_custkey, median(o_totalprice) AS m, sum(o_totalprice) AS s,
           listagg(DISTINCT o_orderpriority, ', ') WITHIN GROUP (ORDER BY o_orderpriority) AS p
    FROM orders GROUP BY o_custkey
    HAVING max_by(o_orderstatus, o_orderdate) <> 'F'
       AND o_custkey > (SELECT mode(c_custkey) FROM customer)
"""


def test_recomputed_groups(request: pytest.FixtureRequest) -> None:
    """What reads a group again says so, and is joined to the sums by the groups' own indexes."""
    catalog = tpch()
    plan = optimize(bind_query(parse_query(RECOMPUTED), catalog).plan, check=True)
    view = Store(lower(plan, catalog))
    check_dataflow(view)
    text = explain_dataflow(view)
    sections = ["-- logical", explain_logical(plan), "", "-- dataflow", text]
    check_golden("recomputed_groups.txt", "\n".join(sections), request)
    assert text.count("cost: recomputes one group") == 2


def test_readers_of_indexes_are_shown() -> None:
    catalog = tpch()
    c, o = scan(catalog, "customer"), scan(catalog, "orders")
    j = cross(c, o)
    plan = optimize(where(j, eq(col(j, "c_custkey"), col(j, "o_custkey"))))
    live = {"customer(c_custkey)": 2}

    def readers(index: Index) -> int:
        return live.get(index_text(index), 0)

    text = explain_dataflow(lower(plan, catalog), readers)
    assert "customer(c_custkey) [shared, 2 readers]" in text
    assert "orders(o_custkey) [new]" in text


def test_a_node_used_twice_is_shown_once() -> None:
    catalog = tpch()
    o = scan(catalog, "orders")
    grouped = aggregate(o, {"k": col(o, "o_custkey")}, n=count_rows())
    j = cross(grouped, grouped)
    text = explain_dataflow(lower(optimize(where(j, eq(col(j, "k"), col(j, "k", 1)))), catalog))
    assert text.count("state: one row per group") == 1
    assert "Reduce %2:1, Reduce %2:2" in text


_SCHEMA = schema_of("a:i b:i s:s? d:d")
A, B, S, D = (col(Scan("t", _SCHEMA), f.name) for f in _SCHEMA)


@pytest.mark.parametrize(
    ("expr", "text"),
    [
        (call("subtract", A, call("subtract", B, lit(1), type=INT), type=INT), "a - (b - 1)"),
        (call("multiply", call("add", A, B, type=INT), B, type=INT), "(a + b) * b"),
        (call("and", call("or", eq(A, B), eq(B, A)), eq(A, A)), "(a = b OR b = a) AND a = a"),
        (call("not", call("and", eq(A, B), eq(B, A))), "NOT (a = b AND b = a)"),
        (eq(eq(A, B), Literal(True, BOOLEAN)), "(a = b) = TRUE"),
        (call("in", S, lit("x"), lit("it's")), "s IN ('x', 'it''s')"),
        (call("like", S, lit("a!%"), lit("!")), "s LIKE 'a!%' ESCAPE '!'"),
        (call("case", eq(A, B), lit(1), lit(2), type=INT), "CASE WHEN a = b THEN 1 ELSE 2 END"),
        (cast(A, DecimalType(12, 2)), "cast(a AS DECIMAL(12,2))"),
        (eq(D, lit(datetime.date(2024, 2, 29))), "d = DATE '2024-02-29'"),
        (Literal(Decimal("1.50"), DecimalType(3, 2)), "1.50"),
        (Literal(b"\x01", BINARY), "X'01'"),
        (Literal(1_000_000, TIMESTAMP_NTZ), "TIMESTAMP_NTZ '1970-01-01 00:00:01'"),
        (call("is_null", call("add", A, B, type=INT)), "a + b IS NULL"),
        (call("negate", call("add", A, B, type=INT), type=INT), "-(a + b)"),
    ],
)
def test_expressions_read_as_sql(expr: Expr, text: str) -> None:
    assert expr_text(expr, [f.name for f in _SCHEMA]) == text
