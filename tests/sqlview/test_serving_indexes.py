"""Indexes that another one serves for, as it leads with their columns: whichever comes first."""

from __future__ import annotations

import itertools
import random
import shutil
from pathlib import Path

import pytest

import sqlview
from operators.state.arrangement import ArrangementState
from tests.conftest import Connect
from tests.harness import Checked
from tests.reference.tables import upsert

_BY_A = "SELECT d.name, f.x FROM d JOIN f ON d.k = f.a"
_BY_AB = "SELECT d.name, f.x FROM d JOIN f ON d.k = f.a AND d.j = f.b"
_BY_ABC = f"{_BY_AB} AND d.i = f.c"
_PART = f"{_BY_A} WHERE f.x = 1"
_GROUPS = "SELECT d.name, g.n FROM d JOIN (SELECT a, b, count(*) AS n FROM f GROUP BY a, b) g"


def _session(connect: Connect) -> Checked:
    checked = connect(placement="inline", form="arrow")
    checked.create_table("d", "k INT, j INT, i INT, name STRING", ("k",))
    columns = "id INT, a INT NOT NULL, b INT NOT NULL, c INT NOT NULL, x INT"
    checked.create_table("f", columns, ("id",))
    return checked


def _keys(checked: Checked, relation: str = "f") -> list[str]:
    found = checked.db.arrangements().to_pylist()
    return [row["key"] for row in found if row["relation"] == relation and row["key"] != "id"]


def _steps(checked: Checked, rng: random.Random, count: int = 6) -> None:
    for _ in range(count):
        d = [upsert("d", (*(rng.randrange(3) for _ in range(3)), "n"))]
        f = [
            upsert("f", (i, *(rng.randrange(3) for _ in range(3)), rng.choice((1, 2))))
            for i in rng.sample(range(12), 3)
        ]
        checked.step(*d, *f)
    checked.verify()


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))))
def test_the_longest_serves_for_all(connect: Connect, order: tuple[int, ...]) -> None:
    checked, rng = _session(connect), random.Random(str(order))
    texts = (_BY_A, _BY_AB, _BY_ABC, _PART)
    _steps(checked, rng, 2)
    for number in order:
        checked.create_view(f"v{number}", texts[number])
        _steps(checked, rng, 2)
    assert _keys(checked) == ["a, b, c"]
    # What is left has the index that it was planned with, or one that serves for it.
    for number in order:
        checked.drop_view(f"v{number}")
        _steps(checked, rng, 2)
    assert _keys(checked) == []


def test_what_a_longer_one_served_for_comes_back(connect: Connect) -> None:
    checked, rng = _session(connect), random.Random(3)
    for name, text in (("part", _PART), ("a", _BY_A), ("ab", _BY_AB), ("abc", _BY_ABC)):
        checked.create_view(name, text)
        _steps(checked, rng, 2)
    assert _keys(checked) == ["a, b, c"]
    for name, left in (("abc", ["a, b"]), ("ab", ["a"]), ("a", ["a where x = 1"])):
        checked.drop_view(name)
        assert _keys(checked) == left
        _steps(checked, rng, 2)


def test_groups_keep_their_own_index(connect: Connect) -> None:
    """A reduce writes it; joins on more of the groups' columns do not take it away."""
    checked, rng = _session(connect), random.Random(4)
    checked.create_view("keyed", f"{_GROUPS} ON d.k = g.a AND d.j = g.b")
    checked.create_view("counted", f"{_GROUPS} ON d.k = g.a AND d.j = g.b AND d.i = g.n")
    checked.create_view("led", f"{_GROUPS} ON d.k = g.a")
    _steps(checked, rng)
    assert "a, b" in _keys(checked, "counted/groups 1")
    checked.drop_view("counted")
    _steps(checked, rng)


def test_a_table_keeps_the_index_of_its_key(connect: Connect) -> None:
    checked, rng = _session(connect), random.Random(5)
    _steps(checked, rng)
    checked.create_view("by_key", "SELECT d.name, f.x FROM d JOIN f ON d.k = f.id")
    checked.create_view(
        "by_more", "SELECT d.name, f.b FROM d JOIN f ON d.k = f.id AND d.j = f.a AND f.b = 1"
    )
    _steps(checked, rng)
    checked.drop_view("by_key")
    _steps(checked, rng)
    assert any(row["key"] == "id" for row in checked.db.arrangements().to_pylist())


def test_private_views_share_nothing_but_have_no_superfluous_index(connect: Connect) -> None:
    checked, rng = connect(placement="inline", form="arrow", share=False), random.Random(6)
    checked.create_table("d", "k INT, j INT, name STRING", ("k",))
    checked.create_table("f", "id INT, a INT NOT NULL, b INT NOT NULL, x INT", ("id",))
    two = "d.name FROM d JOIN f ON d.k = f.a"
    checked.create_view("v", f"SELECT {two} WHERE f.x = 1 UNION ALL SELECT {two} AND d.j = f.b")
    checked.create_view("w", f"SELECT {two} WHERE f.x = 1")
    keys = [
        (row["relation"], row["key"])
        for row in checked.db.arrangements().to_pylist()
        if row["relation"].startswith("f ")
    ]
    assert keys == [("f (v)", "a, b"), ("f (w)", "a where x = 1")]
    for _ in range(10):
        rows = [upsert("f", (i, rng.randrange(3), rng.randrange(3), 1)) for i in range(3)]
        checked.step(upsert("d", (rng.randrange(3), rng.randrange(3), "n")), *rows)
    checked.drop_view("v")
    checked.verify()


@pytest.mark.parametrize("closed", [True, False])
def test_a_store_comes_back_with_the_indexes_that_were_chosen(tmp_path: Path, closed: bool) -> None:
    """From a checkpoint, and from the log alone."""
    there = tmp_path / "s"

    def indexes(db: sqlview.Session) -> list[tuple[str, str, list[str]]]:
        rows = db.arrangements().to_pylist()
        return [(r["relation"], r["key"], r["readers"]) for r in rows]

    db = sqlview.connect(there)
    db.sql("CREATE TABLE d (k INT PRIMARY KEY, j INT, i INT, name STRING)")
    db.sql("CREATE TABLE f (id INT PRIMARY KEY, a INT NOT NULL, b INT NOT NULL, c INT NOT NULL,"
           " x INT)")  # fmt: skip
    for name, text in (("part", _PART), ("a", _BY_A), ("abc", _BY_ABC), ("ab", _BY_AB)):
        db.sql(f"CREATE MATERIALIZED VIEW {name} AS {text}")
    db.sql("DROP MATERIALIZED VIEW abc")
    db.view("part").lookup(x=1)
    with db.transaction() as tx:
        tx.insert("d", [(1, 2, 3, "n")])
        tx.insert("f", [(1, 1, 2, 3, 1), (2, 1, 3, 3, 2)])
    expected = indexes(db)
    if closed:
        db.close()
    else:
        stopped = tmp_path / "copy"
        shutil.copytree(there, stopped)  # what a process that was killed leaves
        there = stopped
    with sqlview.connect(there) as again:
        asked = [e for e in expected if e[:2] == ("part", "x")]
        assert len(asked) == 1
        assert indexes(again) == (expected if closed else [e for e in expected if e not in asked])
        assert again.metrics().index_builds == 0 or not closed
        again.sql("DROP MATERIALIZED VIEW ab")
        assert [key for relation, key, _ in indexes(again) if relation == "f"] == ["a", "id"]
        with again.transaction() as tx:
            tx.upsert("f", [(2, 1, 3, 3, 1)])
        assert again.verify("part").equal and again.verify("a").equal
    db.close()


@pytest.mark.parametrize("statement", ["CREATE", "CREATE OR REPLACE", "DROP"])
def test_what_fails_leaves_the_indexes_as_they_were(
    monkeypatch: pytest.MonkeyPatch, statement: str
) -> None:
    db = sqlview.connect()
    db.sql("CREATE TABLE d (k INT PRIMARY KEY, j INT, i INT, name STRING)")
    db.sql("CREATE TABLE f (id INT PRIMARY KEY, a INT NOT NULL, b INT NOT NULL, c INT NOT NULL,"
           " x INT)")  # fmt: skip
    with db.transaction() as tx:
        tx.insert("d", [(1, 2, 3, "n")])
        tx.insert("f", [(1, 1, 2, 3, 1), (2, 1, 3, 3, 2)])
    for name, text in (("part", _PART), ("ab", _BY_AB)):
        db.sql(f"CREATE MATERIALIZED VIEW {name} AS {text}")
    before = db.arrangements()
    text = {
        "CREATE": f"CREATE MATERIALIZED VIEW abc AS {_BY_ABC}",
        "CREATE OR REPLACE": f"CREATE OR REPLACE MATERIALIZED VIEW ab AS {_BY_ABC}",
        "DROP": "DROP MATERIALIZED VIEW ab",
    }[statement]
    absorb, count = ArrangementState.absorb, itertools.count()

    def failing(state: ArrangementState) -> None:
        if next(count) == number:
            raise MemoryError("no more")
        absorb(state)

    for number in range(100):
        count = itertools.count()
        with monkeypatch.context() as patched:
            patched.setattr(ArrangementState, "absorb", failing)
            try:
                db.sql(text)
            except MemoryError:
                assert db.arrangements() == before
            else:
                break
        with db.transaction() as tx:
            tx.upsert("f", [(3 + number, 1, 2, 3, 1)])
        before = db.arrangements()
        assert all(db.verify(v).equal for v in ("part", "ab"))
    assert 0 < number < 99
    with db.transaction() as tx:
        tx.upsert("f", [(1, 1, 2, 3, 2), (2, 1, 2, 3, 1)])
    assert all(db.verify(v).equal for v in db.sql("SHOW VIEWS").to_arrow()["view"].to_pylist())
    db.close()
