"""The directory of a session: who can read it, and what happens when somebody takes it away."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import sqlview
import sqlview.lending
import sqlview.spark
from operators.executor.spark import SparkExecutor, outbox
from operators.executor.spark.run import Run
from sqlview.spark import SparkSide
from sqlview.store import store
from sqlview.verify import Verifier

pytestmark = pytest.mark.spark

N = 2_000


@pytest.fixture
def db(spark: Any, tmp_path: Path) -> Iterator[sqlview.Session]:
    with sqlview.connect(tmp_path, spark=spark, placement="spark") as session:
        session.sql("CREATE TABLE t (a BIGINT PRIMARY KEY, b INT)")
        session.sql("CREATE TABLE u (b INT PRIMARY KEY, c STRING)")
        session.sql(
            "CREATE MATERIALIZED VIEW v AS SELECT c, count(*) AS n FROM t JOIN u USING (b) "
            "GROUP BY c"
        )
        with session.transaction(placement="inline") as tx:
            tx.insert("u", [(b, f"c{b % 3}") for b in range(10)])
        yield session
    assert not list(tmp_path.glob("session-*"))


def insert(db: sqlview.Session, first: int, placement: str | None = None) -> None:
    with db.transaction(placement) as tx:
        a = range(first, first + N)
        tx.insert("t", pa.table({"a": a, "b": pa.array([k % 10 for k in a], pa.int32())}))


def directory(db: sqlview.Session) -> Path:
    return Path(db._side().directory)


def executor(db: sqlview.Session) -> SparkExecutor:
    return db._side().executor


def check(db: sqlview.Session) -> None:
    outcome = db.verify("v")
    assert outcome.equal, str(outcome)


def modes(root: Path) -> dict[str, int]:
    found = {".": stat.S_IMODE(root.stat().st_mode)}
    for path in root.rglob("*"):
        kind = "directory" if path.is_dir() else "file"
        found[f"{kind} {path.name}"] = stat.S_IMODE(path.stat().st_mode)
    return found


@pytest.mark.parametrize("umask", [0, 0o022])
def test_only_its_owner_reads_it(
    db: sqlview.Session, umask: int, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the driver publishes, what tasks write, snapshots, and DataFrames on their way in."""
    monkeypatch.setattr(sqlview.spark, "LOCAL_BYTES", -1)
    monkeypatch.setattr(sqlview.lending, "CARRIED_BYTES", -1)
    monkeypatch.setattr(sqlview.spark, "DRIVER_BYTES", -1)
    monkeypatch.setattr(store, "CHECKPOINT_SECONDS", 1e9)  # no file goes while it is looked at
    seen: dict[str, int] = {}
    collect = Run.collect

    def looking(self: Run, *job: Any) -> Any:
        seen.update(modes(directory(db).parent))
        return collect(self, *job)

    monkeypatch.setattr(Run, "collect", looking)
    before = os.umask(umask)
    try:
        insert(db, 0)
        with db.transaction() as tx:
            tx.insert("t", spark.range(N, 2 * N).selectExpr("id AS a", "CAST(id % 10 AS INT) AS b"))
        frame = db.view("v").to_df()
        assert frame.count() == 3
    finally:
        os.umask(before)
    seen.update(modes(directory(db).parent))
    assert seen.pop(".") == 0o700
    kinds = {name.split("-")[0] for name in seen}
    assert {"file job", "file step", "file small", "directory snapshot"} <= kinds
    for name, mode in seen.items():
        assert mode == (0o700 if name.startswith("directory") else 0o600), name
    assert executor(db).failures == 0
    check(db)


def test_what_tasks_write_is_their_owners(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Large results, and files of a DataFrame; written here as a task writes them."""
    from operators.executor.spark.ingest import write_partition

    monkeypatch.setattr(outbox, "RESULT_BYTES", -1)
    before = os.umask(0)
    try:
        out = outbox.Outbox(None, 0, True)  # type: ignore[arg-type]
        out.put(0, 0, b"payload")
        (results,) = out.results(str(tmp_path / "job"))
        (written,) = write_partition(
            str(tmp_path / "ingest"), iter([pa.record_batch({"a": [1, 2]})])
        )
    finally:
        os.umask(before)
    names = results.column("file").to_pylist() + written.column("name").to_pylist()
    assert sorted(names) == sorted(p.name for p in tmp_path.iterdir())
    assert {stat.S_IMODE(p.stat().st_mode) for p in tmp_path.iterdir()} == {0o600}


def test_removed_between_steps(db: sqlview.Session) -> None:
    """It is made anew, and what is in memory is published again."""
    insert(db, 0)
    failures = executor(db).failures
    shutil.rmtree(directory(db))
    insert(db, N)
    check(db)
    assert executor(db).failures == failures == 0
    assert stat.S_IMODE(directory(db).stat().st_mode) == 0o700


def test_removed_during_a_step(
    db: sqlview.Session, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The job fails, the driver does its work, and the next step runs on Spark again."""
    insert(db, 0)
    collect = Run.collect

    def removing(self: Run, *job: Any) -> Any:
        shutil.rmtree(directory(db))
        return collect(self, *job)

    with monkeypatch.context() as patch:
        patch.setattr(Run, "collect", removing)
        insert(db, N)
    assert executor(db).failures == 1
    assert "goes on in the driver" in caplog.text
    check(db)
    insert(db, 2 * N)
    assert executor(db).failures == 1 and executor(db).jobs
    check(db)


def test_a_place_that_cannot_be_used(db: sqlview.Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file where the directory was: steps go on inline, DataFrames and snapshots say so."""
    db.sql("CREATE TABLE bag (id BIGINT)")
    insert(db, 0)
    monkeypatch.setattr(sqlview.spark, "LOCAL_BYTES", -1)
    monkeypatch.setattr(sqlview.lending, "CARRIED_BYTES", -1)
    monkeypatch.setattr(sqlview.spark, "DRIVER_BYTES", -1)
    place = directory(db)
    shutil.rmtree(place)
    place.touch()
    insert(db, N)
    assert executor(db).failures == 1
    check(db)
    with pytest.raises(sqlview.SqlViewError, match="the directory of the session cannot be used"):
        db.view("v").to_df()
    with pytest.raises(sqlview.SqlViewError, match="the directory of the session cannot be used"):
        db.begin().delete("bag", db._side().spark.range(3))
    place.unlink()
    assert db.view("v").to_df().count() == 3
    insert(db, 2 * N)
    assert executor(db).failures == 1
    check(db)


def test_a_path_that_cannot_be_used(spark: Any, tmp_path: Path) -> None:
    """From the start: a step on Spark is refused, with nothing changed."""
    with sqlview.connect(tmp_path / "s", spark=spark) as db:
        db.sql("CREATE TABLE t (a BIGINT PRIMARY KEY, b INT)")
        shutil.rmtree(tmp_path / "s")
        (tmp_path / "s").touch()
        with pytest.raises(sqlview.SqlViewError, match="the directory of the session cannot be"):
            insert(db, 0, "spark")
        assert db.epoch == 0
    with pytest.raises(sqlview.StoreError, match="is no directory"):
        sqlview.connect(tmp_path / "s", spark=spark)


def test_close_releases_everything(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever part of closing fails, all others are done; a failure is raised."""
    released: list[str] = []

    def failing(kind: Any) -> None:
        real = kind.close

        def close(self: Any) -> None:
            try:
                real(self)
            finally:
                released.append(kind.__name__)
            raise OSError(f"{kind.__name__} failed")

        monkeypatch.setattr(kind, "close", close)

    db = sqlview.connect(tmp_path, spark=spark, placement="spark")
    db.sql("CREATE TABLE t (a BIGINT PRIMARY KEY, b INT)")
    db.sql("CREATE MATERIALIZED VIEW v AS SELECT b, count(*) AS n FROM t GROUP BY b")
    insert(db, 0)
    check(db)
    for kind in (Verifier, SparkExecutor, SparkSide):
        failing(kind)
    with pytest.raises(OSError, match="failed"):
        db.close()
    assert sorted(released) == ["SparkExecutor", "SparkSide", "Verifier"]
    assert not list(tmp_path.glob("session-*"))
    monkeypatch.undo()
    db.close()
    assert spark.range(3).count() == 3
