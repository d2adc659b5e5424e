"""Stores: what a session commits is there when its store is opened again."""

from __future__ import annotations

import json
import math
import multiprocessing
import os
import shutil
import stat
from collections.abc import Sequence
from decimal import Decimal as D
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

import sqlview
from operators.state import relation, values
from planner.errors import CatalogError, DataError, StoreError
from sqlview.__main__ import main
from sqlview.oracle import TooLarge, compare
from sqlview.store import Store, backup
from tests.harness import Checked
from tests.properties.cases import Tally, make, run
from tests.properties.values import MAX_ROWS, MAX_WORK
from tests.reference.tables import Change
from tests.store.life import state_of


class Crashing(Checked):
    """Before some steps the process is as good as dead, and another one goes on with its store."""

    def __init__(self, root: Path, rng: Random) -> None:
        self._root = root
        self._rng = rng
        self._lives = 0
        self._reacts = False
        super().__init__(self._opened(), form="mixed", most_rows=MAX_ROWS, most_work=MAX_WORK)

    def _opened(self) -> Any:
        return sqlview.connect(self._root / str(self._lives), placement="inline")

    def react(self, name: str) -> None:
        self._reacts = True  # its subscribers end with the process
        super().react(name)

    def step(self, *changes: Change) -> int:
        self._perhaps()
        return super().step(*changes)

    def batch(self, *transactions: Sequence[Change]) -> list[int]:
        self._perhaps()
        return super().batch(*transactions)

    def columns(self, *transactions: Sequence[Change]) -> list[int]:
        self._perhaps()
        return super().columns(*transactions)

    def _perhaps(self) -> None:
        if not self._reacts and self._rng.random() < 0.3:
            self.crash()

    def crash(self) -> None:
        if self._rng.random() < 0.5:
            self.db.checkpoint()
            self.script.append("checkpoint")
        before, dead = self._root / str(self._lives), self.db
        self._lives += 1
        shutil.copytree(before, self._root / str(self._lives))
        dead.close()
        self.db = self._opened()
        self.script.append("crash")
        for watched in self.views.values():
            self.db.subscribe(watched.name, watched.hear)

    @property
    def lives(self) -> int:
        return self._lives


@pytest.mark.parametrize("seed", range(4))
def test_random_sessions_go_on_after_crashes(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if seed % 2:  # so that there are full blocks, and files of their own
        monkeypatch.setattr(relation, "BULK_ROWS", 3)
        monkeypatch.setattr(values, "_OWN_FILE", 0)
    checked = Crashing(tmp_path, Random(seed))
    try:
        run(make(90_000 + seed, 16), checked, Tally())
        checked.crash()
        checked.verify()
    except TooLarge:
        pass
    finally:
        checked.close()
    assert checked.lives


def _filled(path: Path, **given: Any) -> sqlview.Session:
    db = sqlview.connect(path, **given)
    db.sql("CREATE TABLE t (k INT PRIMARY KEY, s STRING COMMENT 'what it is')")
    db.sql("CREATE MATERIALIZED VIEW v AS SELECT s, count(*) AS n FROM t GROUP BY s")
    with db.transaction() as tx:
        tx.insert("t", [(1, "a"), (2, None), (3, "a")])
    return db


@pytest.mark.parametrize("durability", sqlview.store.DURABILITIES)
def test_a_store_is_opened_again(durability: str, tmp_path: Path) -> None:
    with _filled(tmp_path / "s", durability=durability) as db:
        with pytest.raises(DataError), db.transaction() as tx:
            tx.insert("t", [(4, "b"), (1, "twice")])
        before = state_of(db)
    for _ in range(2):
        with sqlview.connect(tmp_path / "s", durability=durability) as db:
            assert state_of(db) == before
            assert db.sql("DESCRIBE t").to_arrow().to_pylist()[1]["comment"] == "what it is"
            with pytest.raises(CatalogError):
                db.sql("CREATE TABLE t (a INT)")
            assert db.verify("v").equal


def test_views_keep_what_they_were_created_with(tmp_path: Path) -> None:
    """Plan, order, key and time zone: none depends on the session that opens the store."""
    with sqlview.connect(tmp_path / "s", timezone="Asia/Tokyo") as db:
        db.sql("CREATE TABLE t (k INT PRIMARY KEY, at TIMESTAMP)")
        db.sql(
            "CREATE MATERIALIZED VIEW v AS SELECT k, hour(at) AS h FROM t ORDER BY k DESC LIMIT 2"
        )
        with db.transaction() as tx:
            tx.insert("t", [(k, f"2024-01-01 0{k}:00:00") for k in range(4)], cast=True)
        before = db.view("v").rows()
        plan = db.sql("EXPLAIN MATERIALIZED VIEW v").to_arrow()
        kept = db.sql("SHOW CREATE TABLE v").to_arrow()
    with sqlview.connect(tmp_path / "s", timezone="UTC") as db:
        assert db.view("v").rows() == before == [(3, 3), (2, 2)]
        assert db.view("v").get(3) == (3, 3)
        assert db.sql("EXPLAIN MATERIALIZED VIEW v").to_arrow() == plan
        assert db.sql("SHOW CREATE TABLE v").to_arrow() == kept


def test_values_of_all_types(tmp_path: Path) -> None:
    table = pa.table(
        {
            "b": pa.array([True, False, None]),
            "i8": pa.array([-128, 127, None], pa.int8()),
            "i64": pa.array([-(2**63), 2**63 - 1, None], pa.int64()),
            "f": pa.array([math.nan, -0.0, None], pa.float32()),
            "d": pa.array([math.inf, 5e-324, None], pa.float64()),
            "n": pa.array([D("-0.05"), D("9" * 36 + ".99"), None], pa.decimal128(38, 2)),
            "s": pa.array(["", "é" * 40_000, None]),
            "x": pa.array([b"", b"\xff\0", None]),
            "day": pa.array([-719_162, 2_932_896, None], pa.int32()).cast(pa.date32()),
            "at": pa.array([-1, 2**53, None], pa.int64()).cast(pa.timestamp("us", "UTC")),
        }
    )
    with sqlview.connect(tmp_path / "s") as db:
        db.create_table("t", table)
        db.create_table("none", table.schema)
        with db.transactions() as txs:
            txs.insert("none", table, times=[5, 0, 3])
        before = db._read("t"), db._read("none")
    for _ in range(2):
        with sqlview.connect(tmp_path / "s") as db:
            assert compare(db._read("t"), before[0]) is None
            assert compare(db._read("none"), before[1]) is None
            assert db._read("t").schema == before[0].schema
            assert db.epoch == 7


def test_files_are_the_owners_alone(tmp_path: Path) -> None:
    with _filled(tmp_path / "deep" / "s"):
        path = tmp_path / "deep" / "s"
        assert stat.S_IMODE(path.stat().st_mode) == 0o700
        assert {stat.S_IMODE(f.stat().st_mode) for f in path.iterdir()} == {0o600}


def test_one_writer_and_any_number_of_readers(tmp_path: Path) -> None:
    path = tmp_path / "s"
    db = _filled(path)
    with pytest.raises(StoreError) as raised:
        sqlview.connect(path)
    assert f"process {os.getpid()}" in str(raised.value) and "read_only=True" in str(raised.value)
    with sqlview.connect(path, read_only=True) as first:
        assert state_of(first) == state_of(db)
        with db.transaction() as tx:
            tx.delete("t", [(1,)])
        with sqlview.connect(path, read_only=True) as second:
            assert (first.epoch, second.epoch) == (1, 2)
            assert state_of(second) == state_of(db)
        for change in ("DROP TABLE t", "CREATE TABLE u (a INT)", "DROP MATERIALIZED VIEW v"):
            before = state_of(first)
            with pytest.raises(sqlview.SqlViewError):
                first.sql(change)
            assert state_of(first) == before
        with pytest.raises(StoreError, match="for reading only"), first.transaction() as tx:
            tx.insert("t", [(9, "x")])
        assert first.epoch == 1
    db.close()
    sqlview.connect(path).close()


def _hold(path: str, ready: Any) -> None:
    sqlview.connect(path)
    ready.set()
    while True:
        ready.wait()


def test_a_killed_writer_leaves_no_lease(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    ready = context.Event()
    writer = context.Process(target=_hold, args=(str(tmp_path / "s"), ready), daemon=True)
    writer.start()
    assert ready.wait(600)
    with pytest.raises(StoreError) as raised:
        sqlview.connect(tmp_path / "s")
    assert f"process {writer.pid}" in str(raised.value)
    writer.kill()
    writer.join()
    with sqlview.connect(tmp_path / "s") as db:
        assert db.epoch == 0


@pytest.mark.parametrize("loss", ["another writer", "another directory", "no directory"])
def test_a_writer_that_lost_its_store_writes_nothing(loss: str, tmp_path: Path) -> None:
    path = tmp_path / "s"
    with _filled(path) as db:
        if loss == "another writer":
            (path / "lease").write_text(json.dumps({"number": 99}))
        else:
            path.rename(tmp_path / "moved")
            if loss == "another directory":
                sqlview.connect(path).close()
        before = state_of(db)
        with pytest.raises(StoreError, match="not this session's"), db.transaction() as tx:
            tx.insert("t", [(7, "lost")])
        with pytest.raises(StoreError, match="not this session's"):
            db.sql("CREATE MATERIALIZED VIEW w AS SELECT k FROM t")
        assert state_of(db) == before


@pytest.mark.parametrize("kind", ["file", "other files", "newer", "no version", "nothing"])
def test_what_is_no_store_is_refused(kind: str, tmp_path: Path) -> None:
    path, read_only = tmp_path / "s", kind == "nothing"
    if kind == "file":
        path.write_text("x")
    elif not read_only:
        sqlview.connect(path).close()
        said = {"newer": '{"format": "sqlview store", "version": 99}', "no version": "[]"}
        (path / "store.json").write_text(said.get(kind, "{}"))
    if kind == "other files":
        (path / "store.json").unlink()
        (path / "notes.txt").write_text("mine")
    there = sorted(p.name for p in tmp_path.rglob("*"))
    with pytest.raises(StoreError) as raised:
        sqlview.connect(path, read_only=read_only)
    assert raised.value.hint is not None and str(path) in str(raised.value)
    assert sorted(p.name for p in tmp_path.rglob("*")) == there


@pytest.mark.parametrize("url", ["hdfs://host/s", "https://host/s", "ftp://b"])
def test_a_url_is_refused(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is made of that name; a directory with a colon is one."""
    monkeypatch.chdir(tmp_path)
    sqlview.connect("s3:").close()
    for read_only in (False, True):
        with pytest.raises(StoreError, match="a store cannot be at") as raised:
            sqlview.connect(url, read_only=read_only)
        assert url in raised.value.message and raised.value.hint is not None
    with pytest.raises(StoreError, match="is a URL"):
        backup("s3:", url)
    assert os.listdir() == ["s3:"]


def test_a_damaged_store_is_not_opened(tmp_path: Path) -> None:
    path, crashed = tmp_path / "s", tmp_path / "crashed"
    with _filled(path):
        shutil.copytree(path, crashed)
    _damage(crashed, "log", 60)
    _damage(path, "checkpoint", -300)  # in its head
    for read_only in (False, True):
        for damaged in (path, crashed):
            with pytest.raises(StoreError, match="is damaged"):
                sqlview.connect(damaged, read_only=read_only)


def test_a_bit_of_the_mark_loses_nothing(tmp_path: Path) -> None:
    """By another mark no record is one of the store's."""
    with _filled(tmp_path / "s"):
        shutil.copytree(tmp_path / "s", tmp_path / "crashed")
    path = tmp_path / "crashed"
    whole = (path / "store.json").read_bytes()
    for at in range(len(whole)):
        _damage(path, "store.json", at)
        with pytest.raises(StoreError, match=r"store\.json. is damaged|is of version"):
            Store(str(path), "close", read_only=False)
        (path / "store.json").write_bytes(whole)
    with sqlview.connect(path) as db:
        assert len(db.view("v").rows()) == 2


def test_a_damaged_value_is_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A flipped bit in a file that opening maps without reading it."""
    with _filled(tmp_path / "s") as db:
        db.sql("CREATE TABLE u (k INT)")
        db.sql("CREATE MATERIALIZED VIEW j AS SELECT t.k FROM t JOIN u ON t.k = u.k")
        with db.transaction() as tx:
            tx.insert("t", [(k, str(k % 50)) for k in range(10, 90_000)])
    files = [p for p in (tmp_path / "s").iterdir() if p.name[:4] in ("rows", "larg", "smal")]
    assert {p.name.split("-")[0] for p in files} == {"rows", "large", "small"}
    assert main(["check", str(tmp_path / "s")]) == 0
    for i, file in enumerate(files):
        shutil.copytree(tmp_path / "s", tmp_path / str(i))
        # Of so many bytes some are not between values.
        _damage(tmp_path / str(i), file.name, file.stat().st_size // 2, 128)
        assert main(["check", str(tmp_path / str(i))]) == 1
        assert f'{file.name}" is damaged' in capsys.readouterr().err
        (tmp_path / str(i) / file.name).write_bytes(b"short")
        with pytest.raises(StoreError, match="cannot be read"):
            sqlview.connect(tmp_path / str(i))
        (tmp_path / str(i) / file.name).unlink()
        with pytest.raises(StoreError, match=file.name):
            sqlview.connect(tmp_path / str(i))


def test_nothing_is_computed_again(tmp_path: Path) -> None:
    """Neither rows nor indexes nor filters, those included that only readers have asked for."""
    path = tmp_path / "s"
    with sqlview.connect(path, placement="inline") as db:
        db.sql("CREATE TABLE t (k INT PRIMARY KEY, g INT, s STRING)")
        db.sql("CREATE TABLE u (g INT, n BIGINT)")
        db.sql(
            "CREATE MATERIALIZED VIEW v AS SELECT t.k, t.s, u.n FROM t JOIN u ON t.g = u.g"
            " WHERE u.n > 5 AND t.k % 3 = 0"
        )
        db.sql(
            "CREATE MATERIALIZED VIEW w AS SELECT s, max(k) AS k, count(*) AS n FROM v GROUP BY s"
        )
        with db.transaction() as tx:
            tx.insert("t", [(k, k % 1000, str(k % 90)) for k in range(70_000)])
            tx.insert("u", [(g, g) for g in range(1000)])
        with db.transaction() as tx:
            tx.delete("t", [(k,) for k in range(0, 70_000, 7)])
        found = db.view("w").lookup(s="9").rows()
        assert found
        indexes = db.arrangements().select(["relation", "key", "rows", "readers"])
        state = db.state().select(["kind", "relation", "detail", "rows"])
    with sqlview.connect(path, placement="inline") as db:
        assert db.metrics().index_builds == 0
        assert db._dataflow.work.rows == 0
        assert db.arrangements().select(["relation", "key", "rows", "readers"]) == indexes
        assert db.state().select(["kind", "relation", "detail", "rows"]) == state
        assert db.view("w").lookup(s="9").rows() == found
        assert db.metrics().index_builds == 0
        with db.transaction() as tx:
            tx.upsert("t", [(k, k % 900, "new") for k in range(0, 70_000, 11)])
        for view in ("v", "w"):
            assert db.verify(view).equal


def _damage(store: Path, kind: str, at: int, length: int = 1) -> None:
    (file,) = store.glob(f"{kind}*")
    data = bytearray(file.read_bytes())
    for place in range(at, at + length):
        data[place] ^= 1
    file.write_bytes(data)


def test_what_spark_left_behind_is_collected(tmp_path: Path) -> None:
    path = tmp_path / "s"
    _filled(path).close()
    (path / "session-dead").mkdir()
    for name in ("checkpoint-" + "3" * 20, "rows-0123456789ab-1-1", "small-0123456789ab-1-1"):
        (path / f"{name}.part").write_bytes(b"half")
    (path / "large-0123456789ab-1-1").write_bytes(b"of no checkpoint")
    sqlview.connect(path).close()
    there = sorted(p.name.split("-")[0] for p in path.iterdir())
    assert there == ["checkpoint", "lease", "log", "small", "store.json"]


def test_arguments_are_checked(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="durability is one of"):
        sqlview.connect(tmp_path / "s", durability="always")
    with pytest.raises(TypeError, match="read_only"):
        sqlview.connect(tmp_path / "s", read_only="yes")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="read_only=True is for a store"):
        sqlview.connect(read_only=True)
    assert not (tmp_path / "s").exists()


def test_the_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "s"
    with _filled(path) as db:
        db.sql("CREATE STREAM e (a INT)")
        db.sql("CREATE MATERIALIZED VIEW w AS SELECT count(*) AS n FROM e")
        assert main(["show", str(path)]) == 0  # while it is being written
    shown = capsys.readouterr().out
    assert "epoch 1\n" in shown and "stream e (a INT)" in shown
    assert (
        "table t (k INT, s STRING), 3 rows" in shown and "view v (s STRING, n BIGINT), 2" in shown
    )
    assert main(["check", "--verify", str(path)]) == 0
    checked = capsys.readouterr().out
    assert 'view "v" equals its recompute' in checked and 'view "w": not verified' in checked
    _damage(path, "checkpoint", -300)
    for arguments in (["check", str(path)], ["show", str(path)], ["show", str(tmp_path / "none")]):
        assert main(arguments) == 1
        assert "Hint:" in capsys.readouterr().err
