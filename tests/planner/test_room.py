"""Long and deep queries: maintained, or refused with the limit; the work is counted."""

from __future__ import annotations

import sys

import pytest

import sqlview
from planner import room
from planner.calculus.algebra import Plan, Scan, UnionAll
from planner.calculus.types import BIGINT, Field
from planner.calculus.visit import nodes, walk
from planner.errors import SqlViewError, UnsupportedError

MADE = {
    "and": "SELECT id FROM a WHERE " + " AND ".join(f"b <> {i}" for i in range(400)),
    "concat": "SELECT s" + " || s" * 1000 + " AS x FROM a",
    "union all": " UNION ALL ".join(["SELECT id FROM a"] * 200),
    "union": " UNION ".join(f"SELECT id FROM a WHERE b = {i}" for i in range(200)),
    "parentheses": "SELECT " + "(" * 300 + "id" + ")" * 300 + " AS x FROM a",
    "not": "SELECT id FROM a WHERE " + "NOT " * 200 + "b = 1",
    "plus": "SELECT id" + " + 1" * 150 + " AS x FROM a",
    "case": f"SELECT CASE {' '.join(f'WHEN b = {i} THEN {i}' for i in range(400))} END AS x FROM a",
    "or": f"SELECT id FROM a WHERE {'(' * 150}b = 0" + "".join(f" OR b = {i})" for i in range(150)),
    "left joins": "SELECT t0.id FROM a t0"
    + "".join(f" LEFT JOIN a t{i} ON t{i}.id = t{i - 1}.b" for i in range(1, 20)),
    "joins": "SELECT t0.id FROM a t0"
    + "".join(f" JOIN a t{i} ON t{i}.id = t{i - 1}.id" for i in range(1, 20)),
}  # fmt: skip
REFUSED = {
    "plus": "SELECT id" + " + 1" * 400 + " AS x FROM a",
    "minus": "SELECT id" + " - b" * 3000 + " AS x FROM a",
    "functions": "SELECT " + "upper(" * 300 + "s" + ")" * 300 + " AS x FROM a",
    "except": " EXCEPT ".join(f"SELECT id FROM a WHERE b = {i}" for i in range(200)),
    "parentheses": "SELECT " + "(" * 3000 + "id" + ")" * 3000 + " AS x FROM a",
}


@pytest.fixture
def db() -> sqlview.Session:
    db = sqlview.connect()
    db.sql("CREATE TABLE a (id BIGINT PRIMARY KEY, b INT, s STRING)")
    return db


def deeper(levels: int, work: object) -> None:
    """Call with so many frames on the stack already."""
    if levels:
        deeper(levels - 1, work)
    else:
        work()  # type: ignore[operator]


@pytest.mark.parametrize("name", MADE)
def test_long_queries_are_maintained_wherever_they_are_called_from(
    db: sqlview.Session, name: str
) -> None:
    def create() -> None:
        db.sql(f"CREATE MATERIALIZED VIEW v AS {MADE[name]}")
        with db.transaction() as tx:
            tx.insert("a", [(1, 1, "x"), (2, None, None)])
        db.view("v").to_arrow()
        db.sql("EXPLAIN MATERIALIZED VIEW v")

    deeper(300, create)


@pytest.mark.parametrize("name", REFUSED)
def test_deep_queries_are_refused_with_the_reason(db: sqlview.Session, name: str) -> None:
    with pytest.raises(SqlViewError) as caught:
        db.sql(f"CREATE MATERIALIZED VIEW v AS {REFUSED[name]}")
    assert caught.value.line == 1
    assert "levels" in caught.value.message or "nested" in caught.value.message
    assert caught.value.hint is not None
    db.sql("CREATE MATERIALIZED VIEW v AS SELECT id FROM a")


def test_the_recursion_limit_is_as_before() -> None:
    before = sys.getrecursionlimit()

    def endless() -> None:
        endless()

    with pytest.raises(UnsupportedError, match="nested"):
        room.with_room(endless)
    assert room.with_room(lambda: room.with_room(lambda: 1)) == 1
    assert room.with_room(sys.getrecursionlimit) > before
    assert sys.getrecursionlimit() == before


def test_shared_nodes_are_walked_once() -> None:
    schema = (Field("x", BIGINT),)
    plan: Plan = Scan("t", schema)
    for _ in range(100):
        plan = UnionAll((plan, plan), schema)
    assert len(list(walk(plan))) == 101
    assert [times for _, times in nodes(plan)] == [2**i for i in range(101)]
