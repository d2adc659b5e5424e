"""What DataFrames of a session read: shared while somebody can read it, and gone after that."""

from __future__ import annotations

import gc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import sqlview
import sqlview.lending
import sqlview.spark
from operators.state.reading import FileBlock, Part, Reading
from planner.errors import StoreError
from sqlview.store import store

#: So many at once are blocks of their own, which lie in files of a store.
N = 20_000


@pytest.fixture(autouse=True)
def _through_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlview.spark, "LOCAL_BYTES", -1)
    monkeypatch.setattr(sqlview.lending, "CARRIED_BYTES", -1)
    monkeypatch.setattr(store, "CHECKPOINT_SECONDS", 1e9)  # no file goes while it is looked at


def fill(db: sqlview.Session) -> None:
    db.sql("CREATE TABLE t (a BIGINT PRIMARY KEY, b INT)")
    db.sql("CREATE MATERIALIZED VIEW v AS SELECT a, b, a + b AS c FROM t")
    db.sql("CREATE MATERIALIZED VIEW top AS SELECT b, a FROM t ORDER BY b DESC, a LIMIT 7")
    with db.transaction() as tx:
        tx.insert("t", pa.table({"a": range(N), "b": pa.array(range(N), pa.int32())}))


def empty(db: sqlview.Session) -> None:
    """Let all rows but one die, and be forgotten."""
    with db.transaction() as tx:
        tx.delete("t", [(k,) for k in range(1, N)])
    with db.transaction() as tx:
        tx.insert("t", [(-1, 1)])


def snapshots(db: sqlview.Session) -> list[Path]:
    return list(Path(db._side().directory).glob("snapshot-*"))


def is_let_go(spark: Any, is_gone: Callable[[], bool]) -> bool:
    """Let the JVM find what nobody refers to, which its queues of events do for a while."""
    for _ in range(100):
        gc.collect()
        spark.range(1).count()
        spark.sparkContext._jvm.System.gc()
        if is_gone():
            return True
    return False


@pytest.mark.spark
@pytest.mark.parametrize("stored", [False, True])
def test_dataframes_of_an_epoch_share_their_files_and_the_last_lets_them_go(
    spark: Any, tmp_path: Path, stored: bool
) -> None:
    with sqlview.connect(tmp_path / "store" if stored else None, spark=spark) as db:
        fill(db)
        first, second = db.view("v").to_df(), db.view("v").to_df()
        counted = db.sql("SELECT count(*) AS n FROM v")
        assert len(snapshots(db)) == 1
        empty(db)
        later = db.view("v").to_df()
        assert len(snapshots(db)) == 2
        derived = first.where("a > 0").selectExpr("c")
        del first, second
        gc.collect()
        assert later.count() == 2
        assert derived.agg({"c": "sum"}).collect() == [(N * (N - 1),)]
        assert counted.rows() == [(N,)]
        del derived, counted

        def is_gone() -> bool:
            db._side().lending.files()
            return len(snapshots(db)) == 1

        assert is_let_go(spark, is_gone)
        assert sorted(map(tuple, later.collect())) == [(-1, 1, 0), (0, 0, 0)]


@pytest.mark.spark
def test_what_lies_in_files_of_the_store_is_read_there(spark: Any, tmp_path: Path) -> None:
    path = tmp_path / "store"
    with sqlview.connect(path, spark=spark) as db:
        fill(db)
        frame = db.view("v").to_df()
        lent = db._side().lending.files()
        assert lent and lent <= {p.name for p in path.iterdir()}
        assert not any(p.is_file() for place in snapshots(db) for p in place.iterdir())
        empty(db)
        db.checkpoint()
        assert lent <= {p.name for p in path.iterdir()}, "somebody reads them"
        assert frame.agg({"c": "sum"}).collect() == [(N * (N - 1),)]
        top = db.view("top").to_df()
        assert top.collect() == db.view("top").rows()
        del frame
        assert is_let_go(spark, lambda: not lent & db._side().lending.files())
        db.checkpoint(even_if_same=True)
        assert not lent & {p.name for p in path.iterdir()}


@pytest.mark.spark
def test_a_session_that_reads_claims_what_its_dataframes_need(spark: Any, tmp_path: Path) -> None:
    path = tmp_path / "store"
    with sqlview.connect(path) as writer:
        fill(writer)
        writer.checkpoint()
        with sqlview.connect(path, spark=spark, read_only=True) as db:
            frame = db.view("v").to_df()
            assert len(list(path.glob("reader-*"))) == 1
            empty(writer)
            writer.checkpoint()
            assert frame.count() == N
            table = db.sql("SELECT sum(b) AS s FROM t")  # its files are gone, its memory is there
            assert table.rows() == [(N * (N - 1) // 2,)]
        assert not list(path.glob("reader-*"))


def test_a_task_that_does_not_see_the_store_says_so(tmp_path: Path) -> None:
    schema = pa.schema([("a", pa.int64())])
    reading = Reading(str(tmp_path / "elsewhere"), schema, (), 0, 1, None)
    part = Part((FileBlock(1, "rows-1", (), None),))
    with pytest.raises(StoreError, match=r"a task of Spark on \S+ does not see \".*/elsewhere\""):
        list(reading.batches(part))
