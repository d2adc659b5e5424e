"""Indexes that tasks build into a store, against those that the driver builds."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sqlview
from operators.kernels.memory import BLOCK_ROWS
from operators.state import bulk
from operators.state.hashing import Hashing
from planner import dataflow as ir
from sqlview import DataError, Session, session
from tests.spark.in_process import opened

ROWS = BLOCK_ROWS + 5_000


@pytest.fixture(autouse=True)
def _few(monkeypatch: pytest.MonkeyPatch) -> None:
    """No index has too few rows, and no load: they come in parts."""
    monkeypatch.setattr(bulk, "BULK_ROWS", 1000)
    monkeypatch.setattr("operators.loading.MANY_ROWS", 1)


def _data(ids: Any, text: bool = False) -> pa.Table:
    keys = [f"a text of more than fifteen bytes {i}" for i in ids] if text else list(ids)
    return pa.table({"id": keys, "g": [int(i) % 97 for i in ids]})


def _load(db: Session, *parts: pa.Table) -> None:
    txs = []
    for part in parts:
        txs.append(db.begin())
        txs[-1].insert("t", part)
    db.apply(txs)


def _entries(db: Session) -> list[tuple[str, Any, Any]]:
    """Of each index of a table all entries in their order, whatever batches they are in."""
    found = []
    for index in db._dataflow.indexes:
        if not isinstance(index.spec.relation, ir.Source):
            continue
        batches = index.state.spine.batches
        rows = np.concatenate([b.rows for b in batches])
        keys = np.concatenate([b.keys for b in batches], axis=1)
        order = np.lexsort((rows, *keys[::-1]))
        name = repr(index.spec.relation.relation)
        found.append((name, keys[:, order].tolist(), rows[order].tolist()))
    return sorted(found)


def _files(path: Path) -> set[str]:
    return {name for name in os.listdir(path) if name.startswith("large-")}


@pytest.mark.parametrize("text", [False, True])
def test_as_the_driver_builds_them(tmp_path: Path, text: bool) -> None:
    """Keys of a load, and the indexes of joins: over full blocks, those that were loaded, that
    being filled, with rows that died; partial ones."""
    shuffled = np.random.default_rng(3).permutation(2 * ROWS)
    kind = "STRING" if text else "BIGINT"
    said = []
    for by_tasks in (True, False):
        path = tmp_path / str(by_tasks)
        with opened(path) as db:
            if not by_tasks:
                db._dataflow.shared.build = None
            db._dataflow.hashing = Hashing((7, 8, -1, -1, 15, 2))
            db.sql(f"CREATE TABLE t (id {kind} PRIMARY KEY, g BIGINT)")
            db.sql("CREATE TABLE s (a BIGINT, g BIGINT)")
            _load(db, _data(shuffled[:ROWS], text), _data(shuffled[ROWS:-500], text))
            _load(db, _data(shuffled[-500:-200], text), _data(shuffled[-200:], text))
            assert bool(_files(path)) == by_tasks
            with db.transaction() as tx:
                tx.delete("t", {"id": _data(shuffled[:700], text)["id"]})
                tx.insert("s", [(i, i % 7) for i in range(2_000)])
            db.sql(
                "CREATE MATERIALIZED VIEW v AS SELECT t.id, s.a FROM t JOIN s ON t.g = s.g "
                "WHERE s.a < 5 AND t.g < 50"
            )
            assert db.verify("v", engine="duckdb").equal
            with db.transaction() as tx:
                tx.upsert("t", _data(shuffled[:900], text))
                tx.delete("s", [(1, 1)])
            assert db.verify("v", engine="duckdb").equal
            said.append(_entries(db))
        with sqlview.connect(path) as db:
            assert db.verify("v", engine="duckdb").equal
            assert _entries(db) == said[-1]
    assert said[0] == said[1]


@pytest.mark.parametrize("text", [False, True])
def test_duplicates(tmp_path: Path, text: bool) -> None:
    """A key that is there twice in the load, or was there: the refusal is the driver's, and no file
    is left."""
    rows = range(ROWS - 1, -1, -1)
    with opened(tmp_path) as db:
        db.sql(f"CREATE TABLE t (id {'STRING' if text else 'BIGINT'} PRIMARY KEY, g BIGINT)")
        for build in (db._dataflow.shared.build, None):
            db._dataflow.shared.build = build
            before = _files(tmp_path)
            with pytest.raises(DataError, match="the key is there already") as refused:
                _load(db, _data(range(-400, -1), text), _data([*rows, 70, 17], text))
            assert str(refused.value.detail).startswith(f"Row {ROWS} of the data has id = ")
            assert (db.epoch, _files(tmp_path)) == (0, before)
    with opened(tmp_path) as db:
        _load(db, _data(rows, text), _data([-1], text))
        before = _files(tmp_path)
        assert before
        with pytest.raises(DataError, match="Row 2 of the data has id = ") as refused:
            _load(db, _data([-7, -9, 12], text), _data(range(-9_000, -100), text))
        assert (db.epoch, _files(tmp_path)) == (2, before)
        _load(db, _data([-7, -9], text), _data(range(-100, -9_000, -1), text))
        db.checkpoint()
        used = _files(tmp_path)
    assert used


def test_a_job_that_fails(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """In each task of each stage: the driver builds the index, and no file is left."""
    failing: list[tuple[int, int]] = []

    def called(stage: int, task: int) -> None:
        if (stage, task) in failing:
            raise ValueError("lost")

    with opened(tmp_path, called) as db:
        db.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, g BIGINT)")
        first = 0
        for place in ((0, 0), (0, 3), (1, 0), (1, 3)):
            failing[:] = [place]
            _load(db, _data(range(first + 2_000, first, -1)), _data([first]))
            first += 3_000
            assert _files(tmp_path) == set(), place
        assert caplog.text.count("a Spark job failed; the driver builds the index") == 4
        failing.clear()
        _load(db, _data(range(first + 2_000, first, -1)), _data([first]))
        assert len(_files(tmp_path)) == 4
        assert len(db._read("t")) == 5 * 2_001


def test_ctrl_c(tmp_path: Path) -> None:
    """Nothing has happened, and no file is left."""

    def called(stage: int, task: int) -> None:
        if (stage, task) == (1, 2):
            raise KeyboardInterrupt

    with opened(tmp_path, called) as db:
        db.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, g BIGINT)")
        with pytest.raises(KeyboardInterrupt):
            _load(db, _data(range(2_000, 0, -1)), _data([0]))
        assert (db.epoch, _files(tmp_path), len(db._read("t"))) == (0, set(), 0)
        db._dataflow.shared.build = None
        _load(db, _data(range(2_000, 0, -1)), _data([0]))
        with pytest.raises(DataError, match="already"):
            _load(db, _data([5]), _data([6]))


def test_what_is_not_committed(tmp_path: Path) -> None:
    """A commit that fails leaves files until the next checkpoint, and none that is used goes."""
    with opened(tmp_path) as db:
        db.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, g BIGINT)")
        db.checkpoint()
        keep, db._writer.keep = db._writer.keep, _fail
        with pytest.raises(OSError, match="no room"):
            _load(db, _data(range(2_000, 0, -1)), _data([0]))
        db._writer.keep = keep
        lost = _files(tmp_path)
        _load(db, _data(range(2_000, 0, -1)), _data([0]))
        kept = _files(tmp_path) - lost
        db.checkpoint()
        assert _files(tmp_path) == kept
        assert (len(lost), len(kept)) == (4, 4)


@contextmanager
def _fail(*_: Any) -> Iterator[Any]:
    def at_end() -> None:
        raise OSError("no room")

    yield at_end


def test_placement(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A session asks for tasks where all is placed on Spark and there are many rows, as its
    placement or that of a step says."""
    asked: list[str] = []

    class Side:
        can_run_steps = True

        @property
        def builder(self) -> Any:
            asked.append("")
            return self

        def build_index(self, *_: object) -> None:
            return None

    monkeypatch.setattr("operators.executor.placement.SPARK_ROWS", 1_000)
    monkeypatch.setattr(session.Session, "_has_spark", True)
    with sqlview.connect(tmp_path) as db:
        monkeypatch.setattr(db, "_side", Side)
        db.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, g BIGINT)")
        for placement, count in ((None, 0), ("inline", 0), ("auto", 0), ("spark", 1)):
            first = 2_000 * db.epoch
            tx = db.begin()
            tx.insert("t", _data(range(first + 2_000, first, -1)))
            two = db.begin()
            two.insert("t", _data([first]))
            monkeypatch.setattr(db, "_executor", lambda rows, wanted: db._inline)
            db.apply([tx, two], placement=placement)
            assert len(asked) == count, placement
        monkeypatch.setattr("operators.executor.placement.MANY_ROWS", 1_000)
        tx, two = db.begin(), db.begin()
        tx.insert("t", _data(range(-2_000, -4_000, -1)))
        two.insert("t", _data([-1]))
        db.apply([tx, two])
        assert len(asked) == 2
