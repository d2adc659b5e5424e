"""Positions of sources: changes that are sent again count once, missing ones are told."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import sqlview
from planner.errors import DataError


@pytest.fixture
def db() -> Iterator[sqlview.Session]:
    with sqlview.connect() as session:
        _define(session)
        yield session


def _define(db: sqlview.Session) -> None:
    db.sql("CREATE TABLE t (a INT, b INT)")
    db.sql("CREATE MATERIALIZED VIEW n AS SELECT count(*) AS n FROM t")


def _count(db: sqlview.Session) -> int:
    ((n,),) = db.view("n").rows()
    return int(n)


def _send(db: sqlview.Session, offset: int, after: int | None = None, source: str = "q") -> Any:
    with db.transaction() as tx:
        tx.source(source, offset, after=after)
        tx.insert("t", [(offset, 0)])
    return tx.epoch


def test_what_is_sent_again_counts_once(db: sqlview.Session) -> None:
    assert db.position("q") is None
    assert [_send(db, 0, -1), _send(db, 1, 0), _send(db, 5)] == [1, 2, 3]
    assert (db.position("q"), _count(db), db.epoch) == (5, 3, 3)
    assert _send(db, 5) == _send(db, 1, 0) == 3  # where it has been since
    assert (db.position("q"), _count(db), db.epoch) == (5, 3, 3)
    assert _send(db, 0, -1, "other") == 4
    assert (db.position("q"), db.position("other")) == (5, 0)


@pytest.mark.parametrize(("offset", "after"), [(7, 6), (1, 0)])
def test_missing_changes_are_refused(db: sqlview.Session, offset: int, after: int) -> None:
    with pytest.raises(DataError) as raised:
        _send(db, offset, after)
    assert f"follow on {after}, and nothing of it has been committed" in str(raised.value)
    assert raised.value.hint is not None and "checkpoint" in raised.value.hint
    assert (db.position("q"), _count(db), db.epoch) == (None, 0, 0)
    _send(db, 0, -1)
    if after:
        with pytest.raises(DataError, match="it stands at 0"):
            _send(db, offset, after)
        assert (db.position("q"), _count(db), db.epoch) == (0, 1, 1)


def test_a_refused_transaction_moves_nothing(db: sqlview.Session) -> None:
    db.sql("CREATE TABLE k (a INT PRIMARY KEY)")
    twice = db.begin()
    twice.source("q", 0)
    twice.insert("k", [(1,), (1,)])
    with pytest.raises(DataError, match="there already"):
        db.apply([twice])
    assert db.position("q") is None
    with db.transaction() as tx:
        tx.source("q", 0)
        tx.insert("k", [(1,)])
    assert db.position("q") == 0


def test_several_in_one_step(db: sqlview.Session) -> None:
    _send(db, 0)
    made = []
    for offset in (0, 1, 2, 1):
        made.append(db.begin())
        made[-1].source("q", offset)
        made[-1].insert("t", [(offset, 1)])
    assert db.apply(made) == [1, 2, 3, 3]
    assert (db.position("q"), _count(db), db.epoch) == (2, 3, 3)
    again = db.begin()
    again.source("q", 2)
    assert db.apply([again]) == [3]


def test_columns_of_transactions(db: sqlview.Session) -> None:
    for _ in range(2):
        with db.transactions() as txs:
            txs.source("q", 10, after=-1)
            txs.insert("t", [(1, 1), (2, 2)], times=[0, 4])
        assert txs.epochs == range(1, 6)
        assert (db.position("q"), _count(db), db.epoch) == (10, 2, 5)
    with db.transactions() as txs:
        txs.source("q", 11)
    assert (db.position("q"), db.epoch) == (11, 6)


def test_two_sources_of_one_transaction(db: sqlview.Session) -> None:
    def both(a: int, b: int) -> None:
        with db.transaction() as tx:
            tx.source("a", a)
            tx.source("b", b)
            tx.insert("t", [(a, b)])

    both(1, 1)
    both(1, 0)
    assert _count(db) == 1
    with pytest.raises(DataError, match='"a" were committed before, and those of "b" were not'):
        both(1, 2)
    assert (db.position("a"), db.position("b"), _count(db)) == (1, 1, 1)


def test_positions_are_in_the_store(tmp_path: Path) -> None:
    with sqlview.connect(tmp_path / "s") as db:
        _define(db)
        _send(db, 3)
        with db.transaction() as tx:
            tx.source("empty", 8)
    for _ in range(3):
        with sqlview.connect(tmp_path / "s") as db:
            assert (db.position("q"), db.position("empty"), db.position("none")) == (3, 8, None)
            assert _send(db, 3) == 1
            assert (_count(db), db.epoch) == (1, 2)


def test_wrong_arguments(db: sqlview.Session) -> None:
    tx = db.begin()
    for wrong in (True, 1.0, "1", None):
        with pytest.raises(TypeError, match="offset is an int"):
            tx.source("q", wrong)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="after is an int"):
        tx.source("q", 1, after="0")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="name is a str"):
        tx.source(1, 1)  # type: ignore[arg-type]
    for offset, after in ((-1, None), (2**63, None), (1, 1), (1, -2)):
        with pytest.raises(ValueError, match=r"offset|after"):
            tx.source("q", offset, after=after)
    tx.source("q", 1)
    with pytest.raises(DataError, match="was said before"):
        tx.source("q", 2)
    db.apply([tx])
    with pytest.raises(DataError, match="committed already"):
        tx.source("r", 1)


@pytest.mark.parametrize("mode", ["upsert", "changes"])
def test_sinks_that_cannot_be(db: sqlview.Session, mode: str) -> None:
    db.sql("CREATE STREAM e (a INT)")
    with pytest.raises(DataError, match=f'cannot be the sink of mode "{mode}"'):
        db.sink("e" if mode == "changes" else "t", mode)
    with pytest.raises(ValueError, match="mode is one of"):
        db.sink("t", "append")
    with pytest.raises(sqlview.CatalogError):
        db.sink("n")
