"""The history of views: changes since an epoch, and views as of one."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

import sqlview
from planner.errors import CatalogError, DataError
from sqlview import history
from sqlview.history import checked_retention

VIEWS = {
    "groups": "SELECT g, count(*) AS n, sum(v) AS s, max(s) AS top FROM t GROUP BY g",
    "twice": "SELECT g, v FROM t UNION ALL SELECT g, v FROM t",
    "latest": "SELECT k, s, f FROM t ORDER BY k DESC LIMIT 3",
}


def _create(db: sqlview.Session) -> None:
    db.sql("CREATE TABLE t (k INT PRIMARY KEY, g INT, v DECIMAL(20,2), s STRING, f DOUBLE)")
    for name, query in VIEWS.items():
        db.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")


def _step(db: sqlview.Session, rng: Random, keys: set[int]) -> None:
    with db.transaction() as tx:
        gone = rng.sample(sorted(keys), len(keys) // 4)
        tx.delete("t", [(k,) for k in gone])
        keys.difference_update(gone)
        new = rng.sample(range(60), 6)
        keys.update(new)
        values = [0.0, -0.0, float("nan"), None, 1.5]
        tx.upsert(
            "t",
            [
                (k, rng.randrange(4), rng.randrange(9), rng.choice("ab"), rng.choice(values))
                for k in new
            ],
        )


def _rows(table: pa.Table) -> list[Any]:
    return sorted(map(repr, zip(*(c.to_pylist() for c in table.columns), strict=True)))


def _added(rows: Counter[str], changes: list[sqlview.Change]) -> Counter[str]:
    for change in changes:
        columns = change.table.drop_columns(["__time", "__diff"])
        for row, diff in zip(
            map(repr, zip(*(c.to_pylist() for c in columns.columns), strict=True)),
            change.table["__diff"].to_pylist(),
            strict=True,
        ):
            rows[row] += diff
    return +rows


@pytest.mark.parametrize("stored", [False, True])
def test_changes_lead_from_any_epoch_to_the_latest(stored: bool, tmp_path: Path) -> None:
    """And back, whatever was closed, killed or retained no longer in between."""
    path = tmp_path / "s" if stored else None
    rng, keys = Random(7), set[int]()
    db = sqlview.connect(path, retain=20, placement="inline")
    _create(db)
    seen: dict[int, dict[str, pa.Table]] = {}
    for i in range(40):
        seen[db.epoch] = {name: db.view(name).to_arrow() for name in VIEWS}
        _step(db, rng, keys)
        if stored and i % 9 == 8:
            db.close()
            db = sqlview.connect(path, retain=20, placement="inline")
        elif stored and i % 9 == 4:
            db.checkpoint()
        latest = {name: db.view(name).to_arrow() for name in VIEWS}
        for name in VIEWS:
            for epoch in rng.sample(range(max(db.epoch - 20, 0), db.epoch), min(db.epoch, 3)):
                changes = list(db.changes(name, since=epoch))
                assert changes[-1].epoch == db.epoch
                assert [c.epoch for c in changes] == sorted({c.epoch for c in changes})
                before = Counter(_rows(seen[epoch][name]))
                assert _added(before, changes) == Counter(_rows(latest[name]))
                past = db.view(name).as_of(epoch)
                assert _rows(past.to_arrow()) == _rows(seen[epoch][name])
                assert past.to_arrow().schema == seen[epoch][name].schema
            if name == "latest":
                assert past.to_arrow()["k"] == seen[epoch][name]["k"]  # in the view's order
    with pytest.raises(DataError, match="since epoch 3 are not there") as raised:
        db.changes("groups", since=3)
    assert "snapshot" in str(raised.value)
    db.close()


def test_steps_of_many_epochs_can_be_cut() -> None:
    with sqlview.connect(retain="1 day") as db:
        db.sql("CREATE TABLE t (a INT)")
        db.sql("CREATE MATERIALIZED VIEW v AS SELECT a FROM t")
        with db.transactions() as txs:
            txs.insert("t", [(i,) for i in range(5)], times=[0, 1, 2, 3, 4])
        for epoch in range(6):
            changes = list(db.changes("v", since=epoch))
            assert [c.epoch for c in changes] == [5]
            assert changes[0].table["__time"].to_pylist() == list(range(epoch + 1, 6))
            assert sorted(db.view("v").as_of(epoch)) == [(i,) for i in range(epoch)]


def test_subscribers_hear_what_they_have_missed(tmp_path: Path) -> None:
    with sqlview.connect(tmp_path / "s", retain="100 epochs") as db:
        _create(db)
        heard: list[pa.Table] = []
        db.subscribe("twice", heard.append)
        rng, keys = Random(1), set[int]()
        for _ in range(5):
            _step(db, rng, keys)
    acknowledged = heard[1]["__time"].to_pylist()[-1]
    with sqlview.connect(tmp_path / "s", retain="100 epochs") as db:
        again: list[pa.Table] = []
        db.subscribe("twice", again.append, since=acknowledged)
        assert [_rows(t) for t in again] == [_rows(t) for t in heard[2:]]
        _step(db, rng, keys)
        assert len(again) == len(heard) - 1
        with pytest.raises(DataError):
            db.subscribe("twice", again.append, since=db.epoch + 1)
        with pytest.raises(TypeError):
            db.subscribe("twice", again.append, since="1")  # type: ignore[arg-type]


def test_what_is_not_retained_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with sqlview.connect() as db:
        db.sql("CREATE TABLE t (a INT)")
        db.sql("CREATE MATERIALIZED VIEW v AS SELECT a FROM t")
        with pytest.raises(DataError, match='changes of view "v" are not retained') as raised:
            db.changes("v", since=0)
        assert "retain=" in str(raised.value)
    with sqlview.connect(retain="10 seconds") as db:
        db.sql("CREATE TABLE t (a INT)")
        db.sql("CREATE MATERIALIZED VIEW v AS SELECT a FROM t")
        now = time.time()
        for i in range(4):
            monkeypatch.setattr(history.time, "time", lambda i=i: now + 4 * i)
            with db.transaction() as tx:
                tx.insert("t", [(i,)])
        assert [c.epoch for c in db.changes("v", since=1)] == [2, 3, 4]
        with pytest.raises(DataError, match="since epoch 0"):
            db.changes("v", since=0)
        db.sql("CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT a + 1 AS b FROM t")
        with pytest.raises(DataError, match="since epoch 3"):
            db.view("v").as_of(3)
        assert len(db.view("v").as_of(4)) == 4
        with db.snapshot() as snapshot, pytest.raises(DataError, match="of one epoch"):
            snapshot.view("v").as_of(4)
        db.sql("DROP MATERIALIZED VIEW v")
        with pytest.raises(CatalogError):
            db.changes("v", since=4)


def test_how_long_is_checked() -> None:
    assert checked_retention(" 5 minutes").seconds == 300
    assert checked_retention("1 Hour").seconds == 3600
    assert checked_retention(7).epochs == checked_retention("7 epochs").epochs == 7
    assert not checked_retention(None)
    for wrong in (0, -1, "0 days", "an hour", "5", "5 weeks", ""):
        with pytest.raises(ValueError, match="retain is as"):
            sqlview.connect(retain=wrong)
    for kind in (1.5, True, []):
        with pytest.raises(TypeError, match="retain is a number"):
            sqlview.connect(retain=kind)  # type: ignore[arg-type]
