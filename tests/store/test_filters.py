"""Bits of filters that tasks evaluate, against those that the driver does. Tasks run here, one
after the other."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sqlview
from operators.executor.spark import bitmaps
from operators.kernels.memory import BLOCK_MASK, BLOCK_ROWS
from operators.state import bulk
from operators.state.filters import Filter
from sqlview import Session
from tests.spark.in_process import opened

#: Two filters of b, and one of a, which views look up.
VIEWS = {
    "low": "SELECT a.g, count(*) AS n FROM a JOIN b ON a.g = b.g WHERE b.x < 7 GROUP BY a.g",
    "named": "SELECT a.g, sum(b.id) AS n FROM a JOIN b ON a.g = b.g "
    "WHERE b.s LIKE '%1%' AND a.x <> 3 GROUP BY a.g",
}


@pytest.fixture
def jobs(monkeypatch: pytest.MonkeyPatch) -> list[list[int]]:
    """Of each job, up to which row its filters had bits."""
    found: list[list[int]] = []
    evaluate = bitmaps.evaluate

    def counted(run: Any, tasks: int, filters: Any) -> None:
        found.append([each.begun for each in filters])
        evaluate(run, tasks, filters)

    monkeypatch.setattr(bitmaps, "evaluate", counted)
    monkeypatch.setattr(bulk, "BULK_ROWS", 1_000)
    return found


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[tuple[Session, Session]]:
    with opened(tmp_path / "store") as db, sqlview.connect() as other:
        for each in (db, other):
            for name in "ab":
                each.sql(f"CREATE TABLE {name} (id BIGINT PRIMARY KEY, g BIGINT, x INT, s STRING)")
        yield db, other


def _rows(first: int, count: int) -> pa.Table:
    ids = np.arange(first, first + count)
    texts = [None if i % 11 == 0 else f"t{i % 97}" for i in ids.tolist()]
    x = pa.array([None if i % 13 == 0 else i % 17 for i in ids.tolist()], pa.int32())
    return pa.table({"id": ids, "g": ids % 400, "x": x, "s": texts})


def _filled(pair: tuple[Session, Session]) -> tuple[Session, Session]:
    """Both with 400 rows of a, 3,000 of b and the views."""
    for each in pair:
        with each.transaction() as tx:
            tx.insert("a", _rows(0, 400))
            tx.insert("b", _rows(0, 3_000))
        for name, query in VIEWS.items():
            each.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
    return pair


def _same(db: Session, other: Session) -> None:
    """Views have the same rows, and bits of rows that can be seen are those that a filter has which
    evaluates them itself."""
    for name in VIEWS:
        rows = (sorted(each.view(name).rows()) for each in (db, other))
        assert next(rows) == next(rows), name
    shared = db._dataflow.shared
    evaluate, shared.evaluate = shared.evaluate, None
    for live in db._dataflow.filters:
        relation, own = live.state.relation, live.state
        seen = relation.visible_to_any()
        expected = Filter(relation, own.predicate).test(seen)
        assert own.next_row == relation.next_row
        assert np.array_equal(own.test(seen), expected) and expected.any()
    shared.evaluate = evaluate


def test_as_the_driver_evaluates_them(
    pair: tuple[Session, Session], jobs: list[list[int]], tmp_path: Path
) -> None:
    """Of a table that has rows and of those that come, one job for all filters; blocks that were
    begun go on, others have lost all their rows; and what is there when the store is opened again.
    """
    db, other = pair
    first = 0

    def insert(count: int, table: str = "b") -> None:
        nonlocal first
        for each in pair:
            with each.transaction() as tx:
                tx.insert(table, _rows(first, count))
        first += count

    insert(1_500, "a")
    insert(3_000)
    for name, query in VIEWS.items():
        for each in pair:
            each.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
    _same(db, other)
    at_first = len(jobs)
    assert at_first
    insert(BLOCK_ROWS)
    _same(db, other)
    assert jobs[at_first:] == [[3_000, 3_000]]
    for each in pair:
        with each.transaction() as tx:
            tx.delete("b", [(k,) for k in range(1_500, 4_500 + BLOCK_ROWS)])
    insert(10)  # few, which the driver evaluates
    assert len(jobs) == at_first + 1
    (begun,) = {f.state.next_row for f in db._dataflow.filters if f.state.next_row > 1_500}
    assert begun & BLOCK_MASK
    insert(2 * BLOCK_ROWS + 77)
    _same(db, other)
    assert jobs[-1] == [begun] * 2
    assert all(
        f.state.relation.empty_blocks for f in db._dataflow.filters if f.state.next_row > begun
    )
    db.checkpoint()
    insert(2_000)
    _same(db, other)
    db.close()
    with sqlview.connect(tmp_path / "store") as again:
        _same(again, other)


def test_a_step_that_is_taken_back(pair: tuple[Session, Session], jobs: list[list[int]]) -> None:
    """Rows have no bits then: the next ones have those ids, and their own bits."""
    db, other = _filled(pair)
    keep, db._writer.keep = db._writer.keep, _fail
    for count in (BLOCK_ROWS, 2_000):
        before = len(jobs)
        with pytest.raises(OSError, match="no room"), db.transaction() as tx:
            tx.insert("b", _rows(3_001, count))
        assert len(jobs) == before + 1
        for live in db._dataflow.filters:
            assert live.state.next_row in (400, 3_000)
            assert len(live.state.stored_bitmaps) == 0
    db._writer.keep = keep
    for each in pair:
        with each.transaction() as tx:
            tx.insert("b", _rows(5_000, 2_000 + BLOCK_MASK))
    _same(db, other)


def test_a_job_that_fails(
    pair: tuple[Session, Session], jobs: list[list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver evaluates them."""
    db, other = _filled(pair)
    asked: list[int] = []

    def given_up(filters: Any) -> bool:
        asked.append(len(filters))
        return False

    db._dataflow.shared.evaluate = given_up
    for each in pair:
        with each.transaction() as tx:
            tx.insert("b", _rows(3_000, 2_000))
    assert asked == [2]
    _same(db, other)


def test_beside_a_checkpoint(pair: tuple[Session, Session], jobs: list[list[int]]) -> None:
    """While another thread writes values the job waits, and tasks evaluate them none the less."""
    db, other = _filled(pair)
    assert db._store is not None
    values, before = db._store.values, len(jobs)
    writing, over = threading.Event(), threading.Event()

    def write() -> None:
        with values.writing():
            assert values.is_writing
            writing.set()
            while len(jobs) == before and not over.wait(0.01):
                pass

    thread = threading.Thread(target=write)
    thread.start()
    writing.wait()
    assert not values.is_writing
    for each in pair:
        with each.transaction() as tx:
            tx.insert("b", _rows(3_000, 2_000))
    over.set()
    thread.join()
    assert len(jobs) == before + 1
    _same(db, other)


@contextmanager
def _fail(*_: Any) -> Iterator[Any]:
    def at_end() -> None:
        raise OSError("no room")

    yield at_end
