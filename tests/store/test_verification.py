"""Damage that opening does not meet: a session compares values with their checksums, and is refused
to be used when a file is not as it was written."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import sqlview
from operators.state import relation, values
from planner.errors import StoreError
from sqlview import session
from sqlview.store import Store, checkpoints, verification
from sqlview.store import store as store_module
from tests.store.life import state_of

KINDS = ("rows", "large", "small")


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store with files of every kind."""
    monkeypatch.setattr(relation, "BULK_ROWS", 64)
    monkeypatch.setattr(values, "_OWN_FILE", 4_000)
    monkeypatch.setattr(verification, "_BEFORE_SECONDS", 0.0)
    path = tmp_path / "s"
    with sqlview.connect(path, placement="inline") as db:
        db.sql("CREATE TABLE t (k INT PRIMARY KEY, g INT, s STRING)")
        db.sql("CREATE TABLE u (g INT PRIMARY KEY)")
        with db.transaction() as tx:
            tx.insert("t", [(k, k % 10, f"text {k}") for k in range(1000)])
            tx.insert("u", [(g,) for g in range(5)])
        db.sql("CREATE MATERIALIZED VIEW v AS SELECT t.s FROM t JOIN u USING (g)")
    return path


def flip(path: Path, kind: str) -> str:
    """Flip a bit of a value in a file of the kind; its name."""
    with closing(Store(str(path), "close", read_only=True, repair=True)) as held:
        found = held.checkpoint
        assert found is not None
        name, offset = next(
            (found.values[file], offset)
            for table in checkpoints._tables(found.document)
            for _, file, _, offset, nbytes, _ in table.tolist()
            if nbytes and found.values[file].startswith(kind)
        )
    data = bytearray((path / name).read_bytes())
    data[offset] ^= 16
    (path / name).write_bytes(data)
    return name


@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_a_flipped_bit_is_found(
    kind: str, read_only: bool, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the thread that looks for it, whatever the session reads."""
    name = flip(store, kind)
    told = threading.Event()
    refuse = session._refuse

    def refusing(*given: Any) -> None:
        refuse(*given)
        told.set()

    monkeypatch.setattr(session, "_refuse", refusing)
    with sqlview.connect(store, placement="inline", read_only=read_only) as db:
        assert told.wait(60)
        uses: tuple[Callable[[], Any], ...] = (
            lambda: db.view("v").rows(),
            lambda: db.sql("SELECT * FROM v"),
            db.snapshot,
            db.begin,
        )
        for use in uses:
            with pytest.raises(StoreError, match=f"{name}.* is damaged") as raised:
                use()
            assert "python -m sqlview repair" in str(raised.value)


def test_no_checkpoint_rests_on_damage(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was committed before it is found is in the log, and only there."""
    monkeypatch.setattr(verification.Verification, "run", lambda *_: None)
    there = sorted(p.name for p in store.glob("checkpoint-*"))
    name = flip(store, "rows")
    db = sqlview.connect(store, placement="inline")
    with db.transaction() as tx:
        tx.insert("t", [(5000, 3, "later")])
    expected = state_of(db)["table t"]
    with pytest.raises(StoreError, match=name):
        db.checkpoint()
    with pytest.raises(StoreError, match=name):
        db.view("v").rows()
    db.close()
    assert sorted(p.name for p in store.glob("checkpoint-*")) == there
    assert flip(store, "rows") == name  # back
    with sqlview.connect(store, placement="inline") as db:
        found = state_of(db)["table t"]
        assert len(found) == len(expected) and (5000, 3, "later") in found
        assert db.verify("v").equal
        db.checkpoint()
    assert sorted(p.name for p in store.glob("checkpoint-*")) != there


def test_closing_a_large_store_compares_nothing(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As long as its log is short: the next session reads that."""
    monkeypatch.setattr(verification, "_BEFORE_SECONDS", 1000.0)
    monkeypatch.setattr(store_module, "_COMPARED_AT_CLOSE", 0)

    def commit(first: int, n: int) -> set[str]:
        with sqlview.connect(store, placement="inline") as db:
            assert len(db._read("t")) == first
            with db.transaction() as tx:
                tx.insert("t", [(k, k % 10, f"text {k}") for k in range(first, first + n)])
        return {p.name for p in store.glob("checkpoint-*")}

    before = {p.name for p in store.glob("checkpoint-*")}
    assert commit(1000, 1) == before
    assert commit(1001, 1) == before
    assert commit(1002, 1000) != before


def test_every_value_is_compared_once(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In pieces, whoever does it."""
    read: list[int] = []
    summed = checkpoints.checksum

    def counting(array: Any, before: int = 0) -> int:
        read.append(array.nbytes)
        return summed(array, before)

    with closing(Store(str(store), "close", read_only=True)) as held:
        found = held.checkpoint
        assert found is not None
        total = sum(int(t[:, 4].sum()) for t in checkpoints._tables(found.document))
        monkeypatch.setattr(checkpoints, "_PIECE_BYTES", 1000)
        monkeypatch.setattr(checkpoints, "checksum", counting)
        verifying = verification.Verification(found)
        verifying.run(threading.Event())
        verifying.finish()
    assert verifying.is_done
    assert sum(read) == total and max(read) == 1000
