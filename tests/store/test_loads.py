"""Stores that are killed while rows are loaded into files, at every change of a file."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql.types import StructType

import sqlview
from operators.executor.spark.load import Target, write_dataframe
from operators.kernels.memory import BLOCK_ROWS
from operators.state.changes import INSERT
from sqlview import DataError, Session
from sqlview.store import log
from sqlview.transaction import Statement

ROWS = BLOCK_ROWS + 10_000


class Frame:
    """What the driver sees of a DataFrame; its tasks run here."""

    schema = StructType([])

    def __init__(self, *partitions: pa.Table) -> None:
        self._partitions = partitions

    def mapInArrow(self, task: Callable[[Any], Iterator[pa.RecordBatch]], schema: str) -> Any:
        self._task = task
        return self

    def toArrow(self) -> pa.Table:
        told = [b for p in self._partitions for b in self._task(iter(p.to_batches(9_000)))]
        return pa.Table.from_batches(told)


def _data(first: int, rows: int, shuffled: bool = False) -> pa.Table:
    ids = np.arange(first, first + rows)
    if shuffled:
        np.random.default_rng(first).shuffle(ids)
    text = pa.array([f"text {i}" if i % 3 else None for i in ids.tolist()])
    return pa.table({"id": ids, "s": text})


def _load(db: Session, *partitions: pa.Table) -> int:
    assert db._store is not None
    table = db._catalog.table("t")
    tx, key, values = db.begin(), table.key or (), db._store.values
    target = Target(values, table.schema, key, False, "UTC")
    stored = write_dataframe(Frame(*partitions), target)  # type: ignore[arg-type]
    tx._keep([Statement(table, INSERT, [], stored=stored)])
    return db.apply([tx])[0]


def _segments(path: Path) -> set[str]:
    return {name for name in os.listdir(path) if name.startswith("rows-")}


def _used(db: Session) -> set[str]:
    relations = [relation for _, relation in db._dataflow.relations()]
    homes = [stored.home for relation in relations for stored in relation.stored_blocks]
    return {home.file for home in homes if home is not None}


def _sums(db: Session) -> tuple[int, int, int]:
    data = db._read("t")
    lengths = [len(s) for s in data["s"].to_pylist() if s is not None]
    return data.num_rows, sum(data["id"].to_pylist()), sum(lengths)


@pytest.mark.parametrize("shuffled", [False, True])
def test_killed_at_any_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shuffled: bool
) -> None:
    """What is there is what was committed, once; what was not leaves no file."""
    monkeypatch.setattr(log, "FILE_BYTES", 1 << 12)
    path, copies = tmp_path / "store", tmp_path / "copies"
    done: list[int] = []
    before: list[int] = []

    def watched(call: Callable[..., Any]) -> Callable[..., Any]:
        def copying(*given: Any) -> Any:
            before.append(len(done))
            shutil.copytree(path, copies / str(len(before)))
            return call(*given)

        return copying

    parts = [_data(i * ROWS, ROWS, shuffled) for i in range(2)]
    with sqlview.connect(path) as db:
        db.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, s STRING)")
        db.sql("CREATE MATERIALIZED VIEW v AS SELECT count(*) AS n, count(s) AS s FROM t")
        sums = [_sums(db)]
        copies.mkdir()
        with monkeypatch.context() as watching:
            for name in ("rename", "remove", "fsync", "fdatasync"):
                watching.setattr(os, name, watched(getattr(os, name)))
            for part in parts:
                _load(db, part.slice(0, 40_000), part.slice(40_000))
                done.append(0)
                sums.append(_sums(db))
            db.checkpoint()
            done.append(0)
            sums.append(_sums(db))
            db.sql("DROP MATERIALIZED VIEW v")
    assert len(before) > 20
    for number, commits in enumerate(before, 1):
        copy = copies / str(number)
        with sqlview.connect(copy) as db:
            # A commit that has not returned may be there.
            assert _sums(db) in sums[commits : commits + 2], number
            assert _segments(copy) == _used(db), number
        shutil.rmtree(copy)


def test_refused(tmp_path: Path) -> None:
    """A key that is there twice, far apart: it is told, and the next load goes."""
    with sqlview.connect(tmp_path / "store") as db:
        db.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, s STRING)")
        twice = pa.concat_tables([_data(0, ROWS), _data(ROWS, 10), _data(17, 1)])
        with pytest.raises(DataError, match="the key is there already") as refused:
            _load(db, _data(ROWS + 100, 100), twice)
        where = r"ow \d+ of partition 0 of the DataFrame has"
        assert re.fullmatch(f"R{where} id = 17, as r{where}\\.", str(refused.value.detail))
        assert _load(db, _data(0, ROWS), _data(ROWS, 10, shuffled=True)) == 1
        with pytest.raises(DataError, match="the key is there already"):
            _load(db, _data(5 * ROWS, 50), _data(ROWS + 5, 1))
        assert _sums(db)[0] == ROWS + 10


def test_files_in_order(tmp_path: Path) -> None:
    """Keys that ascend in each of a partition's files need no index, wherever these begin; runs
    that are short do not cut blocks."""
    with sqlview.connect(tmp_path / "store") as db:
        db.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, s STRING)")
        files = ((200_000, 70_000), (100_000, 40_000), (0, 66_000))
        _load(db, pa.concat_tables([_data(*each) for each in files]), _data(80_000, 20_000))
        relation = db._catalog.table("t").state.relation
        assert (_entries(db), len(relation.stored_blocks)) == (0, 2 + 1 + 2 + 1)
        falling = range(400_000, 300_000, -1000)
        _load(db, pa.concat_tables([_data(first, 1000) for first in falling]))
        assert len(relation.stored_blocks) == 6 + 2
        assert _entries(db) == _sums(db)[0] == 296_000


def _entries(db: Session) -> int:
    return sum(index.state.spine.entries for index in db._dataflow.indexes)


def test_small_changes_after_a_load(tmp_path: Path) -> None:
    """Rows that were loaded go and come as others do, also when most of a block is gone."""
    path = tmp_path / "store"
    with sqlview.connect(path) as db:
        db.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, s STRING)")
        db.sql("CREATE MATERIALIZED VIEW v AS SELECT s, count(*) AS n FROM t GROUP BY s")
        with db.transaction() as tx:
            tx.insert("t", [(-1, "first")])
        _load(db, _data(0, ROWS), _data(ROWS, 20_000, shuffled=True))
        for first, end in ((0, BLOCK_ROWS - 1000), (BLOCK_ROWS, ROWS + 19_000)):
            with db.transaction() as tx:
                tx.delete("t", {"id": np.arange(first, end)})
                tx.upsert("t", [(ROWS + 19_500, "last"), (-1, "again"), (ROWS + 20_000, None)])
            assert db.verify("v", engine="duckdb").equal
        db.checkpoint()
        found = db.view("v").to_arrow().sort_by("s")
    with sqlview.connect(path) as db:
        assert db.view("v").to_arrow().sort_by("s").equals(found)
        with db.transaction() as tx:
            tx.delete("t", [(ROWS + 19_500,)])
        assert db.verify("v", engine="duckdb").equal
