"""Readers beside the writer: what they see is of one epoch, whatever is committed meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import nullcontext
from random import Random
from typing import Any

import pytest

import sqlview
from operators.kernels.memory import BLOCK_ROWS
from operators.state import relation
from planner.errors import CatalogError, SqlViewError, ViewError
from sqlview import versions
from tests.store.life import state_of

GROUPS = "SELECT v % 10 AS g, sum(v) AS s, count(*) AS n FROM t GROUP BY v % 10"


@pytest.fixture
def db() -> sqlview.Session:
    db = sqlview.connect(placement="inline")
    db.sql("CREATE TABLE t (k INT PRIMARY KEY, v INT, s STRING)")
    db.sql("CREATE MATERIALIZED VIEW total AS SELECT sum(v) AS s, count(*) AS n FROM t")
    db.sql(f"CREATE MATERIALIZED VIEW groups AS {GROUPS}")
    db.sql("CREATE MATERIALIZED VIEW latest AS SELECT k, s FROM t ORDER BY k DESC LIMIT 5")
    return db


def _in_another_thread(work: Callable[[], Any]) -> Any:
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(work()))
    thread.start()
    thread.join(timeout=60)
    assert not thread.is_alive(), "it waits"
    return found[0]


def test_reads_do_not_wait_for_a_step(db: sqlview.Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of views that somebody reads; they see the epoch before, then the one after."""
    with db.transaction() as tx:
        tx.insert("t", [(k, k, str(k)) for k in range(100)])
    groups = db.view("groups")
    before = sorted(groups.rows())
    assert groups.lookup(g=3).rows() == [(3, 480, 10)]
    seen: list[Any] = []

    def looks_on(*_: object) -> None:
        seen.append(_in_another_thread(lambda: sorted(groups.rows())))
        seen.append(_in_another_thread(lambda: groups.lookup(g=3).rows()))
        seen.append(_in_another_thread(lambda: groups.get(3)))
        seen.append(_in_another_thread(lambda: len(groups)))

    # Called when the step has run, before anybody is to see it.
    monkeypatch.setattr(db._writer, "keep", lambda *_: nullcontext(looks_on))
    with db.transaction() as tx:
        tx.delete("t", [(3,)])
        tx.insert("t", [(1000, 1003, "new")])
    assert seen == [before, [(3, 480, 10)], (3, 480, 10), 10]
    monkeypatch.undo()
    assert _in_another_thread(lambda: groups.get(3)) == (3, 1480, 10)


@pytest.mark.parametrize("bulk", [3, 1 << 14])
def test_no_read_is_torn(db: sqlview.Session, bulk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables and views of one snapshot agree, also where blocks are closed and rewritten."""
    monkeypatch.setattr(relation, "BULK_ROWS", bulk)
    monkeypatch.setattr(relation, "CLOSE_ROWS", 8)
    done = threading.Event()
    wrong: list[object] = []
    reads = [0, 0, 0]

    def read(i: int) -> None:
        try:
            while not done.is_set() or reads[i] < 3:
                with db.snapshot() as snapshot:
                    _agree(snapshot)
                sorted(db.view("groups").rows())
                db.view("groups").lookup(g=i)
                reads[i] += 1
        except BaseException as error:
            wrong.append(error)

    readers = [threading.Thread(target=read, args=(i,)) for i in range(len(reads))]
    for reader in readers:
        reader.start()
    rng, keys = Random(bulk), set[int]()
    for _ in range(60):
        with db.transaction() as tx:
            gone = rng.sample(sorted(keys), len(keys) // 3)
            new = rng.sample(range(500), 40)
            tx.delete("t", [(k,) for k in gone])
            tx.upsert("t", [(k, rng.randrange(100), f"é{k}" * rng.randrange(3)) for k in new])
        keys = keys.difference(gone).union(new)
    done.set()
    for reader in readers:
        reader.join()
    assert not wrong
    assert min(reads) >= 3
    for view in ("total", "groups", "latest"):
        assert db.verify(view).equal


def _agree(snapshot: sqlview.Snapshot) -> None:
    rows = snapshot.table("t").rows()
    ((total, count),) = snapshot.view("total").rows()
    assert (total or 0, count) == (sum(v for _, v, _ in rows), len(rows))
    groups = snapshot.view("groups").rows()
    assert (sum(s for _, s, _ in groups), sum(n for *_, n in groups)) == (total or 0, count)
    latest = sorted(((k, s) for k, _, s in rows), reverse=True)[:5]
    assert snapshot.view("latest").rows() == latest


def test_a_snapshot_stays_as_it_was(db: sqlview.Session) -> None:
    """Whatever happens to what it was taken from: blocks are filled, rewritten and emptied, batches
    merged, views replaced, tables dropped."""
    first = [(k, k % 97, str(k)) for k in range(BLOCK_ROWS + 5000)]
    with db.transaction() as tx:
        tx.insert("t", first)
    expected = state_of(db)
    with db.snapshot() as snapshot:
        with db.transaction() as tx:
            tx.delete("t", [(k,) for k, _, _ in first if k % 50])
        with db.transaction() as tx:
            tx.insert("t", [(k, 5, "more") for k in range(200_000, 203_000)])
        db.sql("CREATE OR REPLACE MATERIALIZED VIEW groups AS SELECT 1 AS one")
        db.sql("DROP MATERIALIZED VIEW total")
        assert snapshot.epoch == 1 and db.epoch == 3
        assert sorted(snapshot.view("groups").rows()) == expected["groups"]
        assert snapshot.view("total").rows() == expected["total"]
        assert snapshot.view("Groups").lookup(n=1).rows() == []
        assert len(snapshot.view("groups").lookup(g=3)) == 1
        assert snapshot.view("groups").changes == 10
        assert sorted(snapshot.table("t").rows()) == first
        assert sorted(snapshot.view("latest").rows()) == expected["latest"]
        view = snapshot.view("latest")
        for name in ("t", "gone"):
            with pytest.raises(CatalogError, match=f'no materialized view "{name}" at epoch 1'):
                snapshot.view(name)
        with pytest.raises(CatalogError, match='no table "latest"'):
            snapshot.table("latest")
        with pytest.raises(TypeError):
            snapshot.view(1)  # type: ignore[arg-type]
    for read in (view.rows, lambda: snapshot.view("latest"), lambda: snapshot.table("t")):
        with pytest.raises(SqlViewError, match="the snapshot is closed"):
            read()


def test_a_snapshot_ends_with_its_session(db: sqlview.Session) -> None:
    snapshot, view = db.snapshot(), db.view("latest")
    assert snapshot.epoch == 0
    db.close()
    for read in (view.rows, lambda: snapshot.view("latest"), db.snapshot):
        with pytest.raises(SqlViewError, match="the session is closed"):
            read()


def test_a_view_in_error_is_so_in_its_version(db: sqlview.Session) -> None:
    db.sql("CREATE MATERIALIZED VIEW inverse AS SELECT k, 10 / v AS q FROM t")
    with db.transaction() as tx:
        tx.insert("t", [(1, 5, "")])
    right = db.snapshot()
    with db.transaction() as tx:
        tx.insert("t", [(2, 0, "")])
    wrong = db.snapshot()
    with pytest.raises(ViewError):
        db.view("inverse").rows()
    with db.transaction() as tx:
        tx.delete("t", [(2,)])
    assert db.view("inverse").rows() == right.view("inverse").rows() == [(1, 2.0)]
    with pytest.raises(ViewError):
        wrong.view("inverse").rows()


def test_what_nobody_reads_is_not_published(
    db: sqlview.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(versions, "IDLE_STEPS", 3)
    db.view("groups").rows()
    db.view("total").rows()
    for k in range(8):
        db.view("total").rows()
        with db.transaction() as tx:
            tx.insert("t", [(k, k, "")])
    assert set(db._versions._published) == {"total"}
    assert sorted(db.view("groups").rows())[-1] == (7, 7, 1)
    db.sql("DROP MATERIALIZED VIEW groups")
    with pytest.raises(CatalogError):
        db.view("groups").rows()


def test_steps_copy_dead_bits_only_for_readers(db: sqlview.Session) -> None:
    with db.transaction() as tx:
        tx.insert("t", [(k, k, "") for k in range(100)])
    with db.transaction() as tx:
        tx.delete("t", [(0,)])
    state = db._catalog.table("t").state.relation

    def address() -> int:
        return int(state.versions[0][0])

    bits = address()
    assert bits
    with db.transaction() as tx:
        tx.delete("t", [(1,)])
    assert address() == bits
    with db.snapshot():
        with db.transaction() as tx:
            tx.delete("t", [(2,)])
        assert address() != bits
