"""Backups and repairs of stores."""

from __future__ import annotations

import os
import shutil
import threading
from pathlib import Path

import pytest

import sqlview
from operators.state import relation, values
from planner.errors import StoreError
from sqlview.__main__ import main
from sqlview.store import Store, backup
from tests.store.life import LIFE, state_of


@pytest.fixture(autouse=True)
def _many_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that there are full blocks, and files of their own."""
    monkeypatch.setattr(relation, "BULK_ROWS", 3)
    monkeypatch.setattr(values, "_OWN_FILE", 0)


def _lived(path: Path) -> sqlview.Session:
    db = sqlview.connect(path, placement="inline")
    for operation in LIFE:
        if not isinstance(operation, str):
            operation(db)
    db.sql("CREATE MATERIALIZED VIEW on_sums AS SELECT max(n) AS n FROM sums")
    return db


def test_every_damaged_file_is_repaired_or_said_to_be_lost(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with _lived(tmp_path / "s") as db:
        expected = state_of(db)
    there = sorted(p.name for p in (tmp_path / "s").iterdir())
    values = [name for name in there if name.startswith("rows")]
    values += [name for name in there if name.startswith(("large", "small"))][::7]
    repaired = lost = 0
    for i, name in enumerate(values):
        path = tmp_path / str(i)
        shutil.copytree(tmp_path / "s", path)
        if i % 3 == 0:
            (path / name).unlink()
        elif i % 3 == 1:
            (path / name).write_bytes(b"")
        else:
            data = bytearray((path / name).read_bytes())
            (path / name).write_bytes(bytes(255 - b for b in data))
        assert main(["check", str(path)]) == 1
        said = capsys.readouterr().err
        assert name in said and f"python -m sqlview repair {path}" in said
        if main(["repair", str(path)]) != 0:
            assert 'table "' in said and "lost" in said
            assert "Restore the store from a backup" in capsys.readouterr().err
            lost += 1
            continue
        repaired += 1
        assert "repaired" in capsys.readouterr().out
        with sqlview.connect(path, placement="inline") as db:
            assert state_of(db) == expected
            with db.transaction() as tx:
                tx.upsert("t", [(1, 1, "after", 2.0)])
                tx.insert("bag", [(1, 1, None)])
        assert main(["check", "--verify", str(path)]) == 0
        capsys.readouterr()
    assert repaired > 5 and lost > 1
    assert main(["repair", str(tmp_path / "s")]) == 0
    assert "no file of the checkpoint is damaged" in capsys.readouterr().out


def test_a_view_over_a_stream_cannot_be_computed_anew(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with sqlview.connect(tmp_path / "s", placement="inline") as db:
        db.sql("CREATE STREAM e (a INT)")
        db.sql("CREATE MATERIALIZED VIEW v AS SELECT a FROM e")
        with db.transaction() as tx:
            tx.insert("e", [(i,) for i in range(10)])
    for file in (tmp_path / "s").glob("rows-*"):
        file.unlink()
    assert main(["check", str(tmp_path / "s")]) == 1
    assert 'View "v" has to be computed anew' in capsys.readouterr().err
    assert main(["repair", str(tmp_path / "s")]) == 1
    assert 'view "v", which reads a stream' in capsys.readouterr().err


def test_a_backup_is_a_store_of_one_epoch(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """While it is written, and checkpoints take each other's place."""
    db = _lived(tmp_path / "s")
    done = threading.Event()

    def write() -> None:
        k = 100
        while not done.is_set():
            with db.transaction() as tx:
                tx.insert("t", [(i, i % 3, "w", 1.0) for i in range(k, k + 10)])
            k += 10
            if k % 30 == 0:
                db.checkpoint()

    writer = threading.Thread(target=write)
    writer.start()
    epochs = []
    try:
        for i in range(3):
            before = db.epoch
            assert main(["backup", str(tmp_path / "s"), str(tmp_path / f"copy{i}")]) == 0
            epochs.append((before, int(capsys.readouterr().out.split()[-1])))
    finally:
        done.set()
        writer.join()
    for i, (before, epoch) in enumerate(epochs):
        path = tmp_path / f"copy{i}"
        assert epoch >= before
        assert {oct(p.stat().st_mode)[-3:] for p in path.iterdir()} == {"600"}
        assert main(["check", "--verify", str(path)]) == 0
        with sqlview.connect(path) as copy:
            assert copy.epoch == epoch
            with copy.transaction() as tx:
                tx.delete("t", [(1,)])
    db.close()
    left = [name for name in os.listdir(tmp_path) if name.endswith(".part")]
    assert not left


def test_what_a_reader_holds_stays_until_it_has_opened_it(tmp_path: Path) -> None:
    """Tables, values and logs, whatever checkpoints come; then it goes."""
    path = tmp_path / "s"
    with _lived(path) as db:
        db.checkpoint(even_if_same=True)
        reader = Store(str(path), "close", read_only=True, repair=True)
        held = set(os.listdir(path))
        with db.transaction() as tx:
            tx.insert("t", [(i, i % 3, "w", 1.0) for i in range(100, 200)])
        for _ in range(3):
            db.checkpoint(even_if_same=True)
        assert held <= set(os.listdir(path))
        assert not reader.damaged()
        with sqlview.connect(path, read_only=True) as beside:
            assert beside.epoch == db.epoch
        reader.close()
        db.checkpoint(even_if_same=True)
        there = [name for name in os.listdir(path) if name.startswith("checkpoint-")]
        assert len(there) == 1
        assert not {name for name in held if name.startswith("checkpoint-")} & set(there)


def test_a_backup_that_cannot_be_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _lived(tmp_path / "s").close()
    (tmp_path / "there").mkdir()
    with pytest.raises(StoreError, match="is there already"):
        backup(str(tmp_path / "s"), str(tmp_path / "there"))
    with pytest.raises(StoreError, match="there is no store"):
        backup(str(tmp_path / "none"), str(tmp_path / "copy"))

    def full(file: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StoreError, match="could not be copied"):
        backup(str(tmp_path / "s"), str(tmp_path / "copy"))
    assert sorted(os.listdir(tmp_path)) == ["s", "there"]
