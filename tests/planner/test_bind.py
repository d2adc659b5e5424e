"""The binder: texts to plans, and texts to errors with their places."""

from __future__ import annotations

import re

import pytest

from planner.bind import bind_query, bind_view
from planner.calculus.algebra import Aggregate, Apply, Filter
from planner.calculus.expr import Call, Expr, Literal, conjuncts, disjuncts
from planner.calculus.expr import walk as walk_expr
from planner.calculus.types import (
    DATE,
    DOUBLE,
    INT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    DecimalType,
    Field,
)
from planner.calculus.visit import nodes, walk
from planner.context import RelationInfo
from planner.dataflow import Source
from planner.errors import BindError, SqlViewError
from planner.parse import CreateTable, CreateView, parse_query, parse_statement
from planner.validate import check
from tests.planner import cases
from tests.planner.sketch import sketch
from tests.planner.tpch_catalog import Tables
from tpch.queries import all_queries
from tpch.schema import TABLES

_T = (
    Field("a", INT, False),
    Field("b", INT),
    Field("d", DATE),
    Field("e", DecimalType(15, 2)),
    Field("s", STRING),
    Field("f", DOUBLE),
)
_U = (Field("a", INT), Field("c", INT))
_P = (Field("ts", TIMESTAMP), Field("n", TIMESTAMP_NTZ), Field("d", DATE))


def _tables(schemas: dict[str, tuple[Field, ...]]) -> Tables:
    return Tables(
        tuple(RelationInfo(n, s, None, Source(n, s), 0, False) for n, s in schemas.items())
    )


CATALOG = _tables({"t": _T, "u": _U, "p": _P})


def bound(text: str) -> str:
    """The sketch of the bound query, or the error."""
    try:
        query = bind_query(parse_query(text), CATALOG)
    except SqlViewError as error:
        return f"{type(error).__name__}: {error}"
    check(query.plan)
    return sketch(query.plan, query.order)


FILES = (
    "bind", "joins", "subqueries", "lateral", "sets", "aggregates", "groups", "functions", "windows"
)  # fmt: skip


@pytest.mark.parametrize("case", [c for f in FILES for c in cases.read(f)], ids=lambda c: c.text)
def test_bind(case: cases.Case, bless: bool) -> None:
    if not bless:
        assert bound(case.text) == case.expected


_WORDS = re.compile(r"""('(?:[^'\\]|\\.)*'|"[^"]*"|`[^`]*`)|([A-Za-z_]{3,})""")


def _swapped(text: str) -> str:
    """The text with the case of every word exchanged that is neither quoted nor a name here."""
    return _WORDS.sub(lambda m: m[1] or m[2].swapcase(), text)


@pytest.mark.parametrize("case", [c for f in FILES for c in cases.read(f)], ids=lambda c: c.text)
def test_words_mean_the_same_in_any_case(case: cases.Case) -> None:
    assert bound(_swapped(case.text)).casefold() == case.expected.casefold()


def test_bless(bless: bool) -> None:
    if bless:
        for name in FILES:
            cases.bless(name, bound)
        cases.bless("tpch", _bound_tpch)


def _tpch() -> Tables:
    statements = [parse_statement(t.sql) for t in TABLES]
    return _tables({s.name: s.columns for s in statements if isinstance(s, CreateTable)})


def _bound_tpch(name: str) -> str:
    text = next(q.sql for q in all_queries() if q.name == name)
    query = bind_query(parse_query(text), _tpch())
    return sketch(query.plan, query.order)


@pytest.mark.parametrize("case", cases.read("tpch"), ids=lambda c: c.text)
def test_tpch(case: cases.Case, bless: bool) -> None:
    if not bless:
        assert _bound_tpch(case.text) == case.expected


def test_every_tpch_query_is_covered() -> None:
    assert [c.text for c in cases.read("tpch")] == [q.name for q in all_queries()]


def _view(text: str) -> CreateView:
    statement = parse_statement(text)
    assert isinstance(statement, CreateView)
    return statement


def test_view_columns_are_renamed() -> None:
    view = _view("CREATE MATERIALIZED VIEW v (x, y) AS SELECT a, b FROM t ORDER BY b")
    query = bind_view(view, CATALOG)
    assert sketch(query.plan, query.order) == (
        "Project #0, #1\n  Project #0, #1\n    Scan t\n"
        "=> x INT NOT NULL, y INT\n"
        "order #1 asc nulls first"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "CREATE MATERIALIZED VIEW v AS\nSELECT a, A FROM t",
            'view "v" has more than one column "A" (line 2, column 8)',
        ),
        (
            "CREATE MATERIALIZED VIEW v (x) AS\nSELECT a, b FROM t",
            'view "v" has 1 column names, its query 2 columns (line 2, column 8)',
        ),
    ],
)
def test_view_columns_that_do_not_fit(text: str, message: str) -> None:
    with pytest.raises(BindError) as caught:
        bind_view(_view(text), CATALOG)
    assert str(caught.value).split("\nHint")[0] == message


def test_columns_of_one_name_are_told_names_that_work() -> None:
    query = "SELECT a, t.*, b AS a_2, count(*), A FROM t GROUP BY ALL"
    with pytest.raises(BindError) as caught:
        bind_view(_view(f"CREATE MATERIALIZED VIEW `a v` AS {query}"), CATALOG)
    told = str(caught.value).split("or begin with ")[1].removesuffix(".")
    assert told == "CREATE MATERIALIZED VIEW `a v` (a, a_3, b, d, e, s, f, a_2, `count(1)`, A_4) AS"
    assert len(bind_view(_view(f"{told} {query}"), CATALOG).plan.schema) == 10


def test_places_count_in_the_statement() -> None:
    view = _view("CREATE MATERIALIZED VIEW v AS\n  SELECT a\n  FROM t\n  WHERE nosuch = 1")
    with pytest.raises(BindError) as caught:
        bind_view(view, CATALOG)
    assert (caught.value.line, caught.value.column) == (4, 9)


def test_binding_leaves_the_tree_as_it_was() -> None:
    query = parse_query(
        "SELECT a + 1 AS x, sum(b) FROM t GROUP BY x HAVING x > 1 ORDER BY 2 LIMIT 3"
    )
    first = bind_query(query, CATALOG)
    assert bind_query(query, CATALOG) == first


def test_a_cte_used_twice_is_the_same_subtree_twice() -> None:
    text = "WITH x AS (SELECT a, sum(b) AS n FROM t GROUP BY a) SELECT p.n FROM x p, x q"
    join = bind_query(parse_query(text), CATALOG).plan.input  # type: ignore[union-attr]
    assert join.inputs[0] is join.inputs[1]  # type: ignore[union-attr]


def test_a_cte_used_in_a_subquery_is_the_same_subtree() -> None:
    text = (
        "WITH x AS (SELECT a, sum(c) AS n FROM u GROUP BY a) "
        "SELECT * FROM x WHERE n = (SELECT n FROM x y WHERE y.a = (SELECT min(a) FROM x))"
    )
    plan = bind_query(parse_query(text), CATALOG).plan
    grouped = [n for node, n in nodes(plan) if isinstance(node, Aggregate) and node.keys]
    assert grouped == [3]


def test_equal_subqueries_are_one() -> None:
    text = (
        "SELECT (SELECT max(c) FROM u) + 1, b FROM t "
        "WHERE b < (SELECT max(c) FROM u) AND a < (SELECT max(c) FROM u)"
    )
    applied = [n for n in walk(bind_query(parse_query(text), CATALOG).plan) if isinstance(n, Apply)]
    assert len(applied) == 2  # one below the filter, one above
    assert applied[0].subquery == applied[1].subquery


@pytest.mark.parametrize("operator", ["or", "and"])
def test_long_chains_do_not_nest_deeply(operator: str) -> None:
    terms = [f"(a = {i} and b <> {i})" for i in range(1_000)]
    text = f"SELECT a FROM t WHERE {f' {operator} '.join(terms)}"
    plan = bind_query(parse_query(text), CATALOG).plan
    (predicate,) = (n.predicate for n in walk(plan) if isinstance(n, Filter))
    parts = disjuncts(predicate) if operator == "or" else conjuncts(predicate)
    literals = [e.value for p in parts for e in walk_expr(p) if isinstance(e, Literal)]
    assert sorted(literals) == sorted([*range(1_000), *range(1_000)])  # type: ignore[type-var]
    assert literals == sorted(literals)  # type: ignore[type-var]
    assert _depth(predicate) < 40


def test_long_lists_of_expressions_do_not_nest_deeply() -> None:
    options = ", ".join(f"b + {i}" for i in range(500))
    plan = bind_query(parse_query(f"SELECT a FROM t WHERE a IN ({options})"), CATALOG).plan
    (predicate,) = (n.predicate for n in walk(plan) if isinstance(n, Filter))
    assert len(disjuncts(predicate)) == 500
    assert _depth(predicate) < 40


def _depth(expr: Expr) -> int:
    return 1 + max(map(_depth, expr.args), default=0) if isinstance(expr, Call) else 1
