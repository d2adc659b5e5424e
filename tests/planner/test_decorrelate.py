"""Subqueries, outer joins and sets: what they are rewritten to means what the query means.

Each query of cases/subqueries.sql over small tables with NULLs and duplicates: bound, optimized,
prepared and lowered it has the same rows by definition; and the engine, with all of them installed
in one session over one stream of changes, agrees with DuckDB after every epoch.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

import sqlview
from planner.bind import bind_query
from planner.calculus.algebra import Apply, Plan
from planner.calculus.expr import Outer
from planner.calculus.expr import walk as walk_expr
from planner.calculus.visit import expressions, walk
from planner.dataflow import (
    DeltaJoin,
    Node,
    RangeJoin,
    Reduce,
    Source,
    Threshold,
    TopK,
    Union,
    topological,
)
from planner.errors import ViewError
from planner.lower.views import lower
from planner.parse import parse_query
from planner.rewrite.optimizer import optimize, prepare
from planner.validate import check_dataflow
from tests.planner.tpch_catalog import Tables, table
from tests.reference import algebra as naive
from tests.reference import dataflow as naive_dataflow
from tests.reference.scalar import Row

CATALOG = Tables(
    (
        table("a", "id:b x:b? y:b?", (0,)),
        table("b", "x:b? y:b?", None),
        table("c", "x:b? z:b?", None),
    )
)
QUERIES = Path(__file__).with_name("cases").joinpath("subqueries.sql").read_text().splitlines()

#: What the plain twins of tests/reference do not compute.
_NOT_PLAIN = ("STDDEV", "VAR_", "BOOL_AND", "CAST")


def bound(text: str) -> Plan:
    return bind_query(parse_query(text), CATALOG).plan


def lowered(text: str) -> Node:
    node = lower(optimize(bound(text), check=True), CATALOG)
    check_dataflow(node)
    return node


def table_key(name: str) -> tuple[int, ...] | None:
    info = CATALOG.relation(name)
    return None if info is None else info.primary_key


Change = tuple[str, str, Row]


def stream(seed: int, epochs: int) -> Iterator[tuple[list[Change], dict[str, list[Row]]]]:
    """Transactions of random inserts and deletes, each with the tables' rows after it."""
    random = Random(seed)
    rows: dict[str, list[Row]] = {"a": [], "b": [], "c": []}
    for epoch in range(epochs):
        changes: list[Change] = []
        for name, present in rows.items():
            for k in range(random.choice((0, 1, 1, 3))):
                if present and random.random() < 0.45:
                    row = present.pop(random.randrange(len(present)))
                    changes.append(("delete", name, row))
                    continue
                row = tuple(random.choice((None, 0, 1, 2, 3, 3)) for _ in range(2))
                if name == "a":  # small keys, which rows of b and c refer to, and a few others
                    free = {0, 1, 2, 3, 10 * epoch + k} - {r[0] for r in present}
                    row = (random.choice(sorted(free, key=str)), *row)
                present.append(row)
                changes.append(("insert", name, row))
        yield changes, {name: list(present) for name, present in rows.items()}


@pytest.mark.parametrize("text", QUERIES)
def test_rewriting_keeps_the_meaning(text: str) -> None:
    plan = bound(text)
    optimized = optimize(plan, check=True)
    assert not [p for p in walk(optimized) if isinstance(p, Apply)]
    read = [e for p in walk(optimized) for x in expressions(p) for e in walk_expr(x)]
    assert not [e for e in read if isinstance(e, Outer)]
    prepared = prepare(optimized, table_key, check=True)
    node = lowered(text)
    if any(word in text for word in _NOT_PLAIN):
        return
    for _, tables in list(stream(len(text), 18))[5::6]:
        expected = naive.rows(plan, tables)
        assert naive.rows(optimized, tables) == expected
        assert naive.rows(prepared, tables) == expected
        for path in range(2):
            assert naive_dataflow.rows(node, tables, path) == expected


def open_session() -> sqlview.Session:
    db = sqlview.connect(placement="inline")
    db.sql("CREATE TABLE a (id BIGINT PRIMARY KEY, x BIGINT, y BIGINT)")
    db.sql("CREATE TABLE b (x BIGINT, y BIGINT)")
    db.sql("CREATE TABLE c (x BIGINT, z BIGINT)")
    return db


def apply(db: sqlview.Session, changes: list[Change]) -> None:
    with db.transaction() as tx:
        for what, name, row in changes:
            getattr(tx, what)(name, [row])


def test_the_engine_agrees_with_an_oracle() -> None:
    """Half of the views come when there are rows already."""
    with open_session() as db:
        half = len(QUERIES) // 2
        for i, text in enumerate(QUERIES[:half]):
            db.sql(f"CREATE MATERIALIZED VIEW v{i} AS {text}")
        for epoch, (changes, _) in enumerate(stream(7, 12)):
            if epoch == 4:
                for i, text in enumerate(QUERIES[half:], start=half):
                    db.sql(f"CREATE MATERIALIZED VIEW v{i} AS {text}")
            apply(db, changes)
            if epoch % 3 == 2:
                for i, text in enumerate(QUERIES if epoch >= 4 else QUERIES[:half]):
                    assert db.verify(f"v{i}").equal, f"epoch {epoch}: {text}"


def test_a_scalar_subquery_with_two_rows_is_an_error_until_one_leaves() -> None:
    with open_session() as db:
        scalar = "SELECT id, (SELECT y FROM b WHERE b.x = a.x) AS m FROM a"
        db.sql(f"CREATE MATERIALIZED VIEW v AS {scalar}")
        db.sql("CREATE MATERIALIZED VIEW w AS SELECT id FROM a WHERE y > (SELECT z FROM c)")
        apply(db, [("insert", "a", (1, 1, 5)), ("insert", "b", (1, 7)), ("insert", "b", (2, 7))])
        assert db.view("v").rows() == [(1, 7)]
        apply(db, [("insert", "b", (2, 8)), ("insert", "c", (None, 3))])
        assert db.view("v").rows() == [(1, 7)]  # no row of a reads the two
        assert db.view("w").rows() == [(1,)]
        apply(db, [("insert", "b", (1, 8)), ("insert", "c", (None, 4))])
        for name in ("v", "w"):
            with pytest.raises(ViewError, match="SCALAR_SUBQUERY_TOO_MANY_ROWS"):
                db.view(name).rows()
        apply(db, [("delete", "b", (1, 7)), ("delete", "c", (None, 3))])
        assert db.view("v").rows() == [(1, 8)]
        assert db.view("w").rows() == [(1,)]


# -- shapes ------------------------------------------------------------------------------------


def kinds(text: str, kind: type[Any]) -> list[Any]:
    return [n for n in topological(lowered(text)) if isinstance(n, kind)]


def test_an_equality_needs_no_domain() -> None:
    """The subquery groups by its own column: a is read for the join alone."""
    text = "SELECT id FROM a WHERE y < (SELECT AVG(y) FROM b WHERE b.x = a.x)"
    assert [r.input for r in kinds(text, Reduce)] == [Source("b", CATALOG.relations[1].schema)]


def test_a_comparison_with_a_scalar_is_a_threshold() -> None:
    for text in (
        "SELECT id FROM a WHERE y > (SELECT AVG(y) FROM b)",
        "SELECT id FROM a WHERE y < (SELECT AVG(y) FROM b WHERE b.x = a.x)",
        "SELECT id FROM a WHERE y > ALL (SELECT y FROM b WHERE b.y IS NOT NULL)",
        "SELECT id FROM a WHERE y <= ANY (SELECT y FROM b)",
    ):
        assert len(kinds(text, Threshold)) == 1, text
    kept = "SELECT id, m FROM a, (SELECT AVG(y) AS m FROM b) t WHERE y > m"
    assert not kinds(kept, Threshold)
    once = "SELECT id FROM a WHERE y < (SELECT SUM(y) FROM b WHERE b.x = a.id)"
    assert not kinds(once, Threshold)


def test_an_anti_join_is_a_difference_and_stores_nothing_of_its_left_side() -> None:
    anti = "NOT EXISTS (SELECT 1 FROM b WHERE b.x = a.x)"
    text = f"SELECT a.id FROM a JOIN c ON a.y = c.z WHERE {anti}"
    (union,) = kinds(text, Union)
    assert union.negated == (False, True)
    joins = kinds(text, DeltaJoin)
    assert sorted(len(j.inputs) for j in joins) == [2, 3]


def test_a_semi_join_with_a_key_needs_no_distinct() -> None:
    assert not kinds("SELECT x FROM b WHERE x IN (SELECT id FROM a WHERE y > 1)", Reduce)
    assert kinds("SELECT x FROM b WHERE x IN (SELECT y FROM a)", Reduce)


def test_a_group_is_joined_through_its_own_index() -> None:
    """HAVING over a sum is no reason for a second index."""
    text = "SELECT id FROM a WHERE x IN (SELECT x FROM b GROUP BY x HAVING SUM(y) > 2)"
    (join,) = kinds(text, DeltaJoin)
    assert any(isinstance(i.relation, Reduce) and i.filter is not None for i in join.inputs)


def test_a_correlated_limit_has_a_part_for_each_binding() -> None:
    text = "SELECT id, (SELECT y FROM b WHERE b.x = a.x ORDER BY y LIMIT 1) AS m FROM a"
    (top,) = kinds(text, TopK)
    assert len(top.index.partition) == 1


@pytest.mark.parametrize(
    "condition", ["b.y > a.y", "b.x = a.x AND a.y <= b.y", "b.x = a.x AND b.x > 1 AND b.y < a.y"]
)
@pytest.mark.parametrize("negation", ["", "NOT "])
def test_some_row_beyond_is_the_extreme_beyond(condition: str, negation: str) -> None:
    text = f"SELECT id FROM a WHERE {negation}EXISTS (SELECT 1 FROM b WHERE {condition})"
    assert kinds(text, Threshold)
    assert not kinds(text, DeltaJoin)


def test_what_no_extreme_decides_is_found_for_each_binding() -> None:
    text = "SELECT id FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.y > a.y AND b.x <> a.x)"
    assert not kinds(text, Threshold)


def test_an_inequality_alone_pairs_the_bindings_by_a_range() -> None:
    joins = kinds("SELECT id FROM a WHERE x = (SELECT SUM(y) FROM b WHERE b.y < a.y)", DeltaJoin)
    steps = [s for j in joins for p in j.paths for s in p.steps]
    assert any(isinstance(s, RangeJoin) for s in steps)
