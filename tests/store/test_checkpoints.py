"""Checkpoints: everything that a dataflow keeps has its place, beside steps and after failures."""

from __future__ import annotations

import logging
import os
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sqlview
from operators import checkpoint
from operators.nodes.registry import OPERATORS
from operators.state import relation
from operators.state.values import ValueFiles
from planner.errors import StoreError, ViewError
from sqlview.store import store
from tests.store.life import LIFE, state_of

#: With those of LIFE, views that have every kind of operator.
FURTHER = {
    "many": "SELECT k FROM t, LATERAL (SELECT 1 AS one UNION ALL SELECT 2 AS one)",
    "alone": "SELECT * FROM VALUES (1, 'a'), (2, 'b') AS v(n, s)",
    "both": "SELECT g FROM t INTERSECT ALL SELECT g FROM bag",
    "failing": "SELECT k, 1 / (f - 1.5) AS q FROM t",
    "top": "SELECT s, k FROM t ORDER BY f DESC LIMIT 3 OFFSET 1",
    "medians": "SELECT g, median(f) AS m FROM t GROUP BY g",
    "over": "SELECT k FROM t WHERE f > (SELECT avg(n) FROM sums)",
    "reached": "WITH RECURSIVE r(g) AS (SELECT g FROM bag UNION"
    " SELECT t.k FROM r JOIN t ON t.g = r.g)"
    " SELECT g FROM r",
    "ways": "WITH RECURSIVE r(g, d) AS (SELECT g, 0 FROM bag UNION ALL"
    " SELECT t.k, d + 1 FROM r JOIN t ON t.g = r.g WHERE d < 3) SELECT g, d FROM r",
    "parts": "SELECT k, explode(array(f, f + 1, NULL)) AS x FROM t",
    "won": "WITH RECURSIVE w(g) MAX RECURSION LEVEL 9 AS (SELECT DISTINCT g FROM t WHERE NOT EXISTS"
    " (SELECT 1 FROM w WHERE w.g = t.k)) SELECT g FROM w",
    "before": "SELECT k, lag(f) OVER (PARTITION BY g ORDER BY k) AS f FROM t",
}


def _lived(path: Path | None) -> sqlview.Session:
    db = sqlview.connect(path, placement="inline")
    for operation in LIFE:
        if not isinstance(operation, str):
            operation(db)
    for name, query in FURTHER.items():
        db.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
    db.sql("CREATE MATERIALIZED VIEW seen_again AS SELECT count(*) AS n FROM events")
    with db.transaction() as tx:
        tx.upsert("t", [(1, 1, "e", 1.5), (77, 2, None, 3.0)])
        tx.insert("bag", [(1, 4, None), (1, 4, None)])
        tx.insert("events", [(3,)])
    with db.transaction() as tx:
        tx.delete("bag", [(1, 4, None)])
    return db


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.tolist()
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    return value


def _kept(db: sqlview.Session, path: Path) -> dict[str, Any]:
    """All that is kept, by whose it is."""
    taken = checkpoint.cut(db._dataflow, ValueFiles(str(path)))
    names = taken.names
    return {
        "tables": dict(zip(names.tables, map(_plain, taken.tables), strict=True)),
        "operators": {
            (n.owner, n.node): _plain(kept)
            for n, kept in zip(names.operators, taken.operators, strict=True)
        },
        "relations": {
            (n.owner, n.node): (_plain(image.numbers), _plain(image.arrays))
            for n, image in zip(names.relations, taken.relations, strict=True)
        },
        "indexes": {
            (n.owner, n.spec): (
                next_row,
                [_plain([b.keys, b.rows, b.offsets]) for b in batches],
                n.asked,
            )
            for n, (_, next_row, batches) in zip(names.indexes, taken.indexes, strict=True)
        },
        "filters": {
            (n.owner, n.predicate): (
                image.next_row,
                image.released,
                _plain([b for _, b in image.full]),
                _plain(image.last),
            )
            for n, image in zip(names.filters, taken.filters, strict=True)
        },
    }


@pytest.mark.parametrize("bulk", [3, 1 << 14])
def test_every_kind_of_operator_is_what_it_was(
    bulk: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relation, "BULK_ROWS", bulk)
    with _lived(tmp_path / "s") as db:
        there = {type(i.operator) for i in db._dataflow.installed}
        assert there == set(OPERATORS.values())
        expected = _kept(db, tmp_path / "s")
    with sqlview.connect(tmp_path / "s", placement="inline") as db:
        found = _kept(db, tmp_path / "s")
        for kind, parts in expected.items():
            assert found[kind].keys() == parts.keys(), kind
            for name, kept in parts.items():
                assert found[kind][name] == kept, (kind, name)
        assert db._dataflow.index_builds == 0
        with pytest.raises(ViewError):
            db.view("failing").rows()
        with db.transaction() as tx:
            tx.delete("t", [(1,), (2,)])
            tx.insert("events", [(4,)])
        assert db.view("seen_again").rows() == [(2,)]
        for view in db.sql("SHOW VIEWS").to_arrow()["view"].to_pylist():
            if view != "seen_again":
                assert db.verify(view).equal


def test_a_session_may_be_closed_by_who_hears_of_a_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While checkpoints are written all the time, and wait for the session."""
    monkeypatch.setattr(store, "CHECKPOINT_SECONDS", 0.0)
    monkeypatch.setattr(store, "_LOOK_SECONDS", 0.0001)
    monkeypatch.setattr(store, "CHECKPOINT_SHARE", 1e9)
    for limit in (None, "8GiB"):
        path = tmp_path / str(limit)
        db = sqlview.connect(path, memory_limit=limit)
        db.sql("CREATE TABLE t (a INT)")
        db.sql("CREATE MATERIALIZED VIEW v AS SELECT count(*) AS n FROM t")

        def hear(table: pa.Table, db: sqlview.Session = db) -> None:
            if table["n"].to_pylist()[-1] == 40:
                time.sleep(0.05)
                db.close()

        db.subscribe("v", hear)
        commits = threading.Thread(target=_commit, args=(db, 40))
        commits.start()
        commits.join(timeout=60)
        assert not commits.is_alive()
        with sqlview.connect(path) as db:
            assert db.view("v").rows() == [(40,)]


def _commit(db: sqlview.Session, times: int) -> None:
    for i in range(times):
        with db.transaction() as tx:
            tx.insert("t", [(i,)])


def test_a_checkpoint_that_cannot_be_written_harms_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "s"
    with sqlview.connect(path) as db:
        db.sql("CREATE TABLE t (a INT)")
        db.sql("CREATE MATERIALIZED VIEW v AS SELECT count(*) AS n FROM t")
        _commit(db, 5)
        db.checkpoint()
        (before,) = path.glob("checkpoint-*")
        _commit(db, 5)

        def full(*_: object) -> None:
            raise OSError(28, "No space left on device")

        with monkeypatch.context() as patch:
            patch.setattr(checkpoint, "write", full)
            with pytest.raises(StoreError, match="no checkpoint of the store") as raised:
                db.checkpoint()
            assert "Nothing is lost" in str(raised.value)
            assert [*path.glob("checkpoint-*")] == [before]
            _commit(db, 5)
        db.checkpoint()
        assert [*path.glob("checkpoint-*")] != [before]
        _commit(db, 5)
        with monkeypatch.context() as patch, caplog.at_level(logging.WARNING):
            patch.setattr(checkpoint, "write", full)
            db.close()
        assert "the last checkpoint could not be written" in caplog.text
    with sqlview.connect(path) as db:
        assert db.view("v").rows() == [(20,)]
        with pytest.raises(TypeError, match="even_if_same"):
            db.checkpoint(even_if_same=1)  # type: ignore[arg-type]
    with sqlview.connect() as db, pytest.raises(StoreError, match="there is no store"):
        db.checkpoint()


def test_files_that_are_hardly_used_are_written_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that a store does not grow with its changes; and one that is gone is written again."""
    monkeypatch.setattr(relation, "BULK_ROWS", 64)
    path = tmp_path / "s"
    with sqlview.connect(path) as db:
        db.sql("CREATE TABLE t (k INT PRIMARY KEY, s STRING)")
        db.sql("CREATE MATERIALIZED VIEW v AS SELECT s, count(*) AS n FROM t GROUP BY s")
        sizes = []
        for i in range(40):
            with db.transaction() as tx:
                tx.upsert("t", [(k, f"{k % 5} of {i}" * 5) for k in range(200)])
            db.checkpoint()
            sizes.append(_size(path))
        assert max(sizes[20:]) < 1.5 * max(sizes[:20])
        for file in path.glob("rows-*"):
            file.unlink()
        db.checkpoint(even_if_same=True)
        expected = state_of(db)
    with sqlview.connect(path) as db:
        assert state_of(db) == expected


def _size(path: Path) -> int:
    return sum(os.path.getsize(path / name) for name in os.listdir(path) if name[:3] != "log")
