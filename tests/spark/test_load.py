"""Loads whose rows Spark's tasks write into the store, against loads through the driver."""

from __future__ import annotations

import gc
import os
import re
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

import sqlview
from operators.executor import placement, watch
from operators.executor.spark import load
from operators.executor.spark.run import Frames
from operators.executor.watch import JobProgress
from operators.kernels.memory import BLOCK_ROWS
from operators.state import bulk
from sqlview import DataError, Session, SqlViewError, transaction
from sqlview.datasource import SqlViewDataSource
from sqlview.progress import Bar
from sqlview.store import backup, store

pytestmark = pytest.mark.spark

SEGMENT = re.compile(r"rows-.*")
TYPES = (
    "id BIGINT, b BOOLEAN, i TINYINT, n INT, d DECIMAL(9,2), w DECIMAL(30,4), f FLOAT, x DOUBLE, "
    "s STRING, y BINARY, a DATE, t TIMESTAMP, l TIMESTAMP_NTZ"
)
VALUES = (
    "id", "id % 3 = 0", "cast(id % 100 AS tinyint)", "cast(id * 7 % 100000 AS int)",
    "cast(id % 1000000 / 100 AS decimal(9,2))", "cast(id * 1000003 AS decimal(30,4))",
    "cast(cast(id AS double) / 3 AS float)", "cast(id AS double) / 7", "concat('ü', id)",
    "cast(cast(id AS string) AS binary)", "date_add(DATE '1990-01-01', cast(id % 9999 AS int))",
    "timestamp_micros(id * 1000003)", "cast(timestamp_micros(id * 977) AS timestamp_ntz)",
)  # fmt: skip
NAMES = [column.split()[0] for column in TYPES.split(", ")]


@pytest.fixture(autouse=True)
def _no_checkpoint_by_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are counted here: what takes long writes no more of them."""
    monkeypatch.setattr(store, "CHECKPOINT_SECONDS", 1e9)


@pytest.fixture(autouse=True)
def _few(monkeypatch: pytest.MonkeyPatch) -> None:
    """No load has too few rows."""
    monkeypatch.setattr(transaction, "FEW_ROWS", 0)


def _frame(spark: Any, rows: int, partitions: int, nulls: bool = False) -> Any:
    """Of all types; every fifth value is NULL, but for the id, if there are `nulls`."""
    made = [
        f"if(id % 5 = {place % 5}, NULL, {value}) AS {name}" if nulls and place else
        f"{value} AS {name}"
        for place, (value, name) in enumerate(zip(VALUES, NAMES, strict=True))
    ]  # fmt: skip
    return spark.range(0, rows, 1, partitions).selectExpr(*made)


@contextmanager
def _open(path: Path, spark: Any = None, **how: Any) -> Iterator[Session]:
    with sqlview.connect(path, spark=spark, placement="spark", **how) as db:
        yield db


def _segments(path: Path) -> list[str]:
    return [name for name in os.listdir(path) if SEGMENT.fullmatch(name)]


def _batches(path: Path) -> list[str]:
    return [name for name in os.listdir(path) if name.startswith("large-")]


def _log_bytes(path: Path, db: Session) -> int:
    assert db._store is not None
    return db._store.appended_bytes


@pytest.mark.parametrize("nulls", [False, True])
def test_rows_as_the_driver_takes_them(spark: Any, tmp_path: Path, nulls: bool) -> None:
    """All types, full blocks and short ones: what is there, what is logged, and what is there when
    the store is opened again, from the log and from a checkpoint."""
    frame, rows = _frame(spark, BLOCK_ROWS + 2_500, 2, nulls), BLOCK_ROWS + 2_500
    expected = frame.orderBy("id").toArrow()
    path = tmp_path / "store"
    with _open(path, spark) as db:
        db.sql(f"CREATE TABLE t ({TYPES.replace('id BIGINT', 'id BIGINT PRIMARY KEY')})")
        assert db.load("t", frame) == sqlview.sources.files.Loaded(rows, 0, 1)
        assert 2 <= len(_segments(path)) <= 4
        assert _log_bytes(path, db) < 50_000
        assert _table(db).cast(expected.schema).equals(expected)
        db.sql(
            "CREATE MATERIALIZED VIEW v AS SELECT i, count(*) AS c, sum(d) AS d FROM t GROUP BY i"
        )
        assert db.verify("v", engine="duckdb").equal
        backup(str(path), str(tmp_path / "copy"))  # the rows are in no checkpoint yet
        db._save_last = lambda store: None  # type: ignore[method-assign]
    for where in (path, tmp_path / "copy"):
        for round in ("from the log", "from a checkpoint"):
            with sqlview.connect(where) as db:
                assert _table(db).cast(expected.schema).equals(expected), round
                assert db.verify("v", engine="duckdb").equal
                _refuse(db, _table(db)[7:8])
        with sqlview.connect(where) as db:
            with db.transaction() as tx:
                tx.delete("t", [(7,), (BLOCK_ROWS + 1,)])
                tx.upsert("t", expected[9:10])
            assert db.verify("v", engine="duckdb").equal


def _refuse(db: Session, rows: pa.Table) -> None:
    tx = db.begin()
    tx.insert("t", rows)
    with pytest.raises(DataError, match="the key is there already"):
        db.apply([tx])


def _table(db: Session) -> pa.Table:
    return db._read("t").sort_by("id")


def test_views_follow(spark: Any, tmp_path: Path) -> None:
    """A view over the table has the rows with the epoch; changes come to what was loaded."""
    with _open(tmp_path / "store", spark) as db:
        db.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, g BIGINT)")
        db.sql("CREATE MATERIALIZED VIEW v AS SELECT g, count(*) AS n FROM t GROUP BY g")
        heard: list[pa.Table] = []
        db.subscribe("v", heard.append)
        for first in (0, 30_000):
            with db.transaction() as tx:
                tx.insert("t", spark.range(first, first + 20_000).selectExpr("id", "id % 7 AS g"))
                tx.insert(
                    "t",
                    spark.range(first + 20_000, first + 30_000).selectExpr("id", "0 AS g"),
                    cast=True,
                )
            assert db.verify("v", engine="duckdb").equal
        assert len(heard) == 2
        with db.transaction(placement="inline") as tx:
            tx.insert("t", spark.range(100_000, 100_010).selectExpr("id", "1 AS g"), cast=True)
            tx.delete("t", [(i,) for i in range(20_000)])
        assert db.verify("v", engine="duckdb").equal


def test_beside_other_changes(spark: Any, tmp_path: Path) -> None:
    """In one transaction with others they are taken in the order of the statements."""
    path = tmp_path / "store"
    with _open(path, spark) as db:
        db.sql("CREATE TABLE t (id BIGINT PRIMARY KEY)")
        with db.transaction() as tx:
            tx.insert("t", [(5,)])
            tx.delete("t", [(5,)])
            tx.insert("t", spark.range(0, 10))
            tx.delete("t", [(7,)])
            tx.insert("t", spark.range(7, 8))
        assert _table(db)["id"].to_pylist() == list(range(10))
        one, two = db.begin(), db.begin()
        one.insert("t", spark.range(10, 20))
        two.insert("t", spark.range(20, 30))
        assert db.apply([one, two]) == [2, 3]
        db._save_last = lambda store: None  # type: ignore[method-assign]
    with sqlview.connect(path) as db:
        assert _table(db)["id"].to_pylist() == list(range(30))
        assert db.epoch == 3


def test_keys_in_order_need_no_index(spark: Any, tmp_path: Path) -> None:
    """Partitions whose keys ascend are put in order, and no entry of the index is made."""
    with _open(tmp_path / "store", spark) as db:
        db.sql("CREATE TABLE t (id BIGINT, k INT, PRIMARY KEY (id, k))")
        frame = spark.range(0, 1000, 1, 4).selectExpr("id div 2 AS id", "cast(id % 2 AS int) AS k")
        falling = frame.repartitionByRange(3, frame.id.desc()).sortWithinPartitions("id", "k")
        db.load("t", falling)
        assert _entries(db) == 0
        with pytest.raises(DataError, match="is there already"):
            db.load("t", falling)
        db.load("t", frame.selectExpr("id + 500 AS id", "k"))
        assert len(_table(db)) == 2000
        shuffled = frame.selectExpr("1000 + id * 7919 % 500 AS id", "k")
        db.load("t", shuffled)
        assert _entries(db) == 3000
        assert len(_table(db)) == 3000


def _entries(db: Session) -> int:
    return sum(index.state.spine.entries for index in db._dataflow.indexes)


@pytest.mark.parametrize("text", [False, True])
def test_duplicates(
    spark: Any, tmp_path: Path, text: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keys that are there twice in the load, or were there, are told, by the driver or by the tasks
    that build the index; no file is left behind."""
    if text:
        monkeypatch.setattr(placement, "SPARK_ROWS", 0)
    path, kind = tmp_path / "store", "STRING" if text else "BIGINT"
    key = "concat('a text of more than fifteen bytes ', id)" if text else "id"
    with _open(path, spark) as db:
        db.sql(f"CREATE TABLE t (k {kind} PRIMARY KEY)")
        twice = spark.range(0, 20_000, 1, 3).selectExpr(f"{key.replace('id', 'id % 19999')} AS k")
        for frame in (twice, spark.range(5, 6).selectExpr(f"{key} AS k")):
            with pytest.raises(DataError) as refused:
                db.load("t", frame)
            assert refused.value.message == 'cannot insert into "t": the key is there already'
            said = r"Row \d+ of partition \d of the DataFrame has k = .*\d+'?"
            said += (
                r", as row \d+ of partition \d of the DataFrame has\." if frame is twice else r"\."
            )
            assert re.fullmatch(said, str(refused.value.detail))
            assert db.epoch == (frame is not twice)
            if frame is twice:
                del refused  # which knows the transaction
                gc.collect()
                assert (_segments(path), _batches(path)) == ([], [])
                falling = spark.range(19_999, -1, -1, 2).selectExpr(f"{key} AS k")
                db.load("t", falling)
                assert _entries(db) == 20_000
                assert bool(_batches(path)) == text
        assert db._read("t").num_rows == 20_000


@pytest.mark.parametrize("by_tasks", [True, False])
def test_upserts_and_deletes(
    spark: Any, tmp_path: Path, by_tasks: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tasks write the rows, or the keys of those that go, and find the rows that have these; or the
    driver reads a DataFrame. Either refuses the same, with nothing applied and no file left."""
    monkeypatch.setattr(placement, "SPARK_ROWS", 0)
    path = tmp_path / "store"
    with _open(path, spark) as db:
        db.sql("CREATE TABLE t (id BIGINT, k STRING, x BIGINT, PRIMARY KEY (k, id))")
        db.sql("CREATE MATERIALIZED VIEW v AS SELECT x, count(*) AS n FROM t GROUP BY x")
        db.load(
            "t", spark.range(0, 5_000, 1, 2).selectExpr("id", "concat('a', id) AS k", "1L AS x")
        )
        how = {} if by_tasks else {"placement": "inline"}
        logged = _log_bytes(path, db)
        with db.transaction(**how) as tx:
            tx.upsert(
                "t",
                spark.range(2_500, 7_500, 1, 3).selectExpr("id", "2L AS x", "concat('a', id) AS k"),
            )
        gone = spark.range(0, 7_500, 3, 2).selectExpr("1 AS more", "concat('a', id) AS k", "id")
        with db.transaction(**how) as tx:
            tx.delete("t", gone if by_tasks else gone.drop("more"))
        assert (_log_bytes(path, db) - logged < 10_000) == by_tasks
        assert sorted(db.view("v").rows()) == [(1, 1_666), (2, 3_334)]
        assert db.verify("v", engine="duckdb").equal
        segments, epoch = _segments(path), db.epoch
        for change, frame, message, detail in (
            ("upsert", "id % 99 AS id, 'a' AS k, 1L AS x", "a key is there twice", "as row"),
            (
                "delete",
                "id * 3 + 1 AS id, concat('a', id) AS k",
                "there is no such row",
                "k = 'a0'",
            ),
            ("delete", "id + 1 AS id", 'lacks column "k"', None),
            ("upsert", "id, 'a' AS k, 'x' AS x", 'column "x" is BIGINT', None),
            ("upsert", "id, if(id = 70, NULL, 'a') AS k, 1L AS x", "NULL", None),
        ):
            given = spark.range(0, 100, 1, 2).selectExpr(*re.split(r", (?![^(]*\))", frame))
            with pytest.raises(DataError, match=message) as refused, db.transaction(**how) as tx:
                getattr(tx, change)("t", given)
            assert detail is None or detail in str(refused.value.detail)
            assert db.epoch == epoch
            del refused, tx
            gc.collect()
            assert set(_segments(path)) <= set(
                segments
            )  # a checkpoint needs no keys of rows that went
        db._save_last = lambda store: None  # type: ignore[method-assign]
    for _ in ("from the log", "from a checkpoint"):
        with sqlview.connect(path) as db:
            assert sorted(db.view("v").rows()) == [(1, 1_666), (2, 3_334)]
            assert db.verify("v", engine="duckdb").equal


BAD = {
    "NULL": ("CASE WHEN id <> 700 THEN id END AS id", 'NULL in column "id", which is NOT NULL'),
    "range": ("id AS id, 1 AS more", 'the data has column "more", which the table lacks'),
    "type": ("cast(id AS string) AS id", 'column "id" is BIGINT, but the data has string'),
    "array": ("array(id) AS id", 'column "id" is BIGINT, but the data has list<'),
}


@pytest.mark.parametrize("bad", BAD)
def test_what_does_not_fit(spark: Any, tmp_path: Path, bad: str) -> None:
    """Tasks refuse what the driver refuses, and nothing has happened."""
    path, (columns, message) = tmp_path / "store", BAD[bad]
    with _open(path, spark) as db:
        db.sql("CREATE TABLE t (id BIGINT NOT NULL)")
        with pytest.raises(DataError, match=re.escape(message)), db.transaction() as tx:
            tx.insert("t", spark.range(0, 1000, 1, 2).selectExpr(*columns.split(", ")))
        assert (db.epoch, _segments(path)) == (0, [])


def test_a_load_that_is_not_committed(spark: Any, tmp_path: Path) -> None:
    """A task fails for good; a block raises; a transaction is forgotten; a commit fails and is
    done again; a checkpoint is written meanwhile."""
    path = tmp_path / "store"
    with _open(path, spark) as db:
        db.sql("CREATE TABLE t (id BIGINT)")
        with pytest.raises(Exception, match="DIVIDE_BY_ZERO"):
            db.load("t", spark.range(0, 1000, 1, 1).selectExpr("id div (id - 900) AS id"))
        assert db.epoch == 0
        tx = db.begin()
        tx.insert("t", spark.range(10))
        forgotten = _segments(path)
        tx = db.begin()
        assert forgotten
        assert not set(forgotten).intersection(_segments(path))
        tx.insert("t", spark.range(10))
        db.checkpoint(even_if_same=True)
        assert len(_segments(path)) >= 1
        keep, db._writer.keep = db._writer.keep, _fail
        with pytest.raises(OSError, match="no room"):
            db.apply([tx])
        db._writer.keep = keep
        db.checkpoint(even_if_same=True)
        db.apply([tx])
        db.checkpoint()
        assert len(_table(db)) == 10
        del tx
        gc.collect()
        held = len(_segments(path))
        db.sql("DROP TABLE t")
        db.checkpoint()
        assert (held >= 1, _segments(path)) == (True, [])


def _fail(*_: Any) -> None:
    raise OSError("no room")


def test_files_that_the_log_needs_stay(spark: Any, tmp_path: Path) -> None:
    """What was loaded and dropped since the checkpoint can be read until the next is written."""
    path = tmp_path / "store"
    with _open(path, spark) as db:
        db.sql("CREATE TABLE t (id BIGINT)")
        db.checkpoint()
        db.load("t", spark.range(100))
        db.sql("DROP TABLE t")
        assert db._store is not None
        db._store.values.collect(())
        db._store._discard_old()
        db._save_last = lambda store: None  # type: ignore[method-assign]
    with sqlview.connect(path) as db:
        assert db.sql("SHOW TABLES").to_arrow().num_rows == 0
        db.checkpoint(even_if_same=True)
        assert _segments(path) == []


def test_damage_before_a_checkpoint(spark: Any, tmp_path: Path) -> None:
    """A file that the log refers to is missing, or is not what was written."""
    path = tmp_path / "store"
    with _open(path, spark) as db:
        db.sql("CREATE TABLE t (id BIGINT)")
        db.load("t", spark.range(0, 30_000, 1, 1))
        db._save_last = lambda store: None  # type: ignore[method-assign]
    (name,) = _segments(path)
    whole = (path / name).read_bytes()
    (path / name).write_bytes(whole[:5000] + bytes([whole[5000] ^ 1]) + whole[5001:])
    with pytest.raises(SqlViewError, match='rows that were loaded into "t" cannot be read'):
        sqlview.connect(path)
    (path / name).unlink()
    with pytest.raises(SqlViewError, match='rows that were loaded into "t" cannot be read'):
        sqlview.connect(path)
    (path / name).write_bytes(whole)
    with sqlview.connect(path) as db:
        assert len(_table(db)) == 30_000


@pytest.mark.parametrize("at_first", [True, False])
def test_executors_that_do_not_see_the_store(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_first: bool
) -> None:
    """They have another directory under its path, or none: it is said before a job begins; a task
    that sees none on an executor that came later says so."""
    path, order, mark = tmp_path / "store", load._Order, load._mark
    if at_first:
        monkeypatch.setattr("sqlview.spark.SparkSide._runs_here", False)
        monkeypatch.setattr(load, "_mark", lambda directory: b"another")
    else:
        monkeypatch.setattr(load, "_Order", lambda d, _, *rest: order(d, b"another", *rest))
    with _open(path, spark) as db:
        db.sql("CREATE TABLE t (id BIGINT)")
        fails = "id" if not at_first else "raise_error('it was computed') AS id"
        with pytest.raises(SqlViewError, match="Spark's executors do not see the store"):
            db.load("t", spark.range(10).selectExpr(fails))
        assert (db.epoch, _segments(path)) == (0, [])
        if at_first:
            monkeypatch.setattr(load, "_mark", mark)
            db.load("t", spark.range(10))
            assert (len(_table(db)), len(_segments(path)) > 0) == (10, True)


def test_files(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of Parquet and Arrow are read by the tasks, Parquet in parts of row groups; what does
    not fit is told with file and row; text comes through the driver."""
    monkeypatch.setattr("sqlview.sources.files.PART_BYTES", 1)
    path, files = tmp_path / "store", tmp_path / "files" / "day=3"
    files.mkdir(parents=True)
    pq.write_table(pa.table({"id": range(3000)}), files / "a.parquet", row_group_size=1000)
    pa.feather.write_feather(pa.table({"id": range(3000, 3500)}), files / "b.arrow")
    with _open(path, spark) as db:
        db.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, day INT)")
        assert db.load("t", files.parent) == sqlview.sources.files.Loaded(3500, 2, 1)
        assert (len(_segments(path)), _entries(db)) == (4, 0)
        assert _table(db)["id"].to_pylist() == list(range(3500))
        assert set(_table(db)["day"].to_pylist()) == {3}
        ids = [*range(5000, 7000), None]
        pq.write_table(pa.table({"id": ids, "day": [1] * 2001}), files / "c.parquet", 600)
        with pytest.raises(DataError) as refused:
            db.load("t", files / "c.parquet")
        said = 'cannot load .* into "t": NULL in column "id", which is NOT NULL'
        assert re.fullmatch(said, refused.value.message)
        assert refused.value.detail == "Row 2000 of the data has it first."
        pq.write_table(pa.table({"id": [9, 8, 9001, 9001], "day": [1] * 4}), files / "c.parquet", 2)
        with pytest.raises(DataError, match="the key is there already") as refused:
            db.load("t", files / "c.parquet")
        name = repr(str(files / "c.parquet"))
        assert refused.value.detail == f"Row 0 of {name} has id = 9."
        pq.write_table(pa.table({"id": [9001, 8888, 9001], "day": [1] * 3}), files / "c.parquet", 1)
        with pytest.raises(DataError, match="the key is there already") as refused:
            db.load("t", files / "c.parquet")
        assert refused.value.detail == f"Row 2 of {name} has id = 9001, as row 0 of {name} has."
        del refused  # which knows the transaction
        gc.collect()
        assert (files / "c.parquet").write_text("no Parquet")
        pq.write_table(pa.table({"id": [99_999], "day": [1]}), files / "e.parquet")
        pq.write_table(pa.table({"id": [[1]], "day": [1]}), files / "f.parquet")
        for wrong, said in (
            ("c.parquet", "cannot be read"),
            ("d.parquet", "there is no file"),
            (
                "[ef].parquet",
                "column .id. is BIGINT, but the data has list",
            ),  # which the other file has not
        ):
            with pytest.raises(DataError, match=said):
                db.load("t", files / wrong)
        (files / "e.csv").write_text("id,day\n9000,1\n")
        db.load("t", files / "e.csv")
        assert (db.epoch, len(_table(db)), len(_segments(path))) == (2, 3501, 4)


@pytest.mark.parametrize("form", ["parquet", "arrow"])
def test_a_file_that_changes_before_tasks_read_it(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    """What the driver has seen of it is not what there is: nothing is loaded, no file is left."""
    path, data, parts_of = tmp_path / "store", tmp_path / f"data.{form}", sqlview.spark.parts_of

    def write(rows: int) -> None:
        table = pa.table({"id": range(rows)})
        if form == "parquet":
            pq.write_table(table, data, row_group_size=1000)
        else:
            pa.feather.write_feather(table, data)

    def changed(files: Any, tasks: int) -> Any:
        parts = parts_of(files, tasks)
        write(3000)
        return parts

    write(2000)
    with _open(path, spark) as db:
        db.sql("CREATE TABLE t (id BIGINT PRIMARY KEY)")
        with monkeypatch.context() as patch:
            patch.setattr(sqlview.spark, "parts_of", changed)
            with pytest.raises(DataError, match="the file was changed while it was read") as said:
                db.load("t", data)
        assert said.value.message.startswith(f"cannot load {str(data)!r} into")
        assert (db.epoch, _segments(path)) == (0, [])
        assert db.load("t", data).rows == 3000


def test_types_that_differ_between_files(spark: Any, tmp_path: Path) -> None:
    """A file whose values do not fit is named, in what order they are; one whose values do is
    taken; a DataFrame of Spark that cannot read them changes nothing."""
    path, files = tmp_path / "store", tmp_path / "files"
    files.mkdir()
    pq.write_table(pa.table({"id": pa.array([1, 2], pa.int64())}), files / "a.parquet")
    pq.write_table(pa.table({"id": pa.array([3, 4], pa.int16())}), files / "b.parquet")
    pq.write_table(pa.table({"id": pa.array([["x"]])}), files / "c.parquet")
    with _open(path, spark) as db:
        db.sql("CREATE TABLE t (id BIGINT)")
        with pytest.raises(DataError) as refused:
            db.load("t", files)
        said = f'cannot load {str(files / "c.parquet")!r} into "t": column "id" is BIGINT, but '
        assert refused.value.message.startswith(said)
        frame = spark.read.parquet(str(files / "a.parquet"), str(files / "c.parquet"))
        with pytest.raises(Exception, match=re.escape("c.parquet")):
            db.load("t", frame)
        assert (db.epoch, _segments(path)) == (0, [])
        (files / "c.parquet").unlink()
        assert db.load("t", files).rows == 4
        assert sorted(_table(db)["id"].to_pylist()) == [1, 2, 3, 4]


def test_lost_attempt(spark: Any, tmp_path: Path, fail_once: Any) -> None:
    """A task fails after it has written a file: that of the second attempt counts."""
    path = tmp_path / "store"
    frame = spark.range(0, 2 * BLOCK_ROWS, 1, 1).union(spark.range(-70_000, 0, 1, 1))
    with _open(path, spark) as db:
        db.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, s STRING)")
        # So many NULLs that a file is full of blocks without them when another begins.
        failing = frame.selectExpr("id", "nullif('x', if(id < 0, 'x', '')) AS s")
        db.load("t", failing.mapInArrow(fail_once, "id long, s string"))
        assert (tmp_path / "failed").exists()
        assert _table(db)["id"].to_pylist() == list(range(-70_000, 2 * BLOCK_ROWS))
        assert _table(db)["s"].null_count == 70_000
    with sqlview.connect(path) as db:
        assert len(_segments(path)) == 2
        assert len(_table(db)) == 2 * BLOCK_ROWS + 70_000


def test_read_by_tasks(spark: Any, tmp_path: Path) -> None:
    """What tasks have written tasks read, where it lies."""
    path = tmp_path / "store"
    with _open(path, spark) as db:
        db.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, s STRING)")
        frame = spark.range(0, BLOCK_ROWS + 5_000, 1, 2).selectExpr("id", "concat('x', id) AS s")
        db.load("t", frame)
        with db.transaction() as tx:
            tx.delete("t", [(3,), (BLOCK_ROWS + 4_999,)])
        db.checkpoint()
        spark.dataSource.register(SqlViewDataSource)
        read = spark.read.format("sqlview").option("store", str(path)).load("t")
        sums = read.selectExpr("count(*)", "sum(id)", "max(s)").toArrow().to_pylist()
        n = BLOCK_ROWS + 5_000
        assert list(sums[0].values()) == [n - 2, n * (n - 1) // 2 - 3 - n + 1, "x9999"]


def test_views_over_a_load(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Tasks build their indexes and compute their first rows, which changes come to."""
    monkeypatch.setattr(placement, "SPARK_ROWS", 0)
    monkeypatch.setattr(bulk, "BULK_ROWS", 1_000)
    path = tmp_path / "store"
    with _open(path, spark) as db:
        db.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, g BIGINT, s STRING)")
        db.sql("CREATE TABLE u (k BIGINT, n BIGINT)")
        db.load("t", spark.range(0, 9_000, 1, 2).selectExpr("id", "id % 901 AS g", "'x' AS s"))
        db.load("u", spark.range(0, 2_000, 1, 1).selectExpr("id % 700 AS k", "id AS n"))
        before = set(_segments(path))
        db.sql(
            "CREATE MATERIALIZED VIEW v AS "
            "SELECT u.n % 50 AS r, count(*) AS c, sum(t.id) AS s "
            "FROM t JOIN u ON t.g = u.k GROUP BY 1"
        )
        assert set(_segments(path)) - before
        assert _batches(path)
        assert db.verify("v", engine="duckdb").equal
        with db.transaction(placement="inline") as tx:
            tx.delete("t", [(i,) for i in range(500)])
        assert db.verify("v", engine="duckdb").equal
        assert "failed" not in caplog.text
    with sqlview.connect(path) as db:
        assert db.verify("v", engine="duckdb").equal


def test_ctrl_c_cancels_a_job(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tasks that compute a view end with it, nothing is left, and Spark and the store go on."""
    monkeypatch.setattr(placement, "SPARK_ROWS", 0)
    path, begun, over = (tmp_path / name for name in ("store", "begun", "over"))

    def wait(stage: int, task: int) -> None:
        begun.touch()
        for _ in range(300):
            time.sleep(0 if over.exists() else 0.1)

    def press() -> None:
        while not begun.exists():
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGINT)

    with _open(path, spark) as db:
        db.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, g BIGINT)")
        db.load("t", spark.range(0, 9_000, 1, 2).selectExpr("id", "id % 901 AS g"))
        db.checkpoint()
        before = set(os.listdir(path))
        monkeypatch.setattr(db._side().executor, "_frames", Frames(spark, wait))
        pressing, started = threading.Thread(target=press), time.monotonic()
        pressing.start()
        view = "CREATE MATERIALIZED VIEW v AS SELECT g, count(*) AS n FROM t GROUP BY g"
        with pytest.raises(KeyboardInterrupt):
            db.sql(view)
        pressing.join()
        assert time.monotonic() - started < 20
        over.touch()
        assert db.sql("SHOW VIEWS").to_arrow().num_rows == 0
        assert set(os.listdir(path)) == before
        monkeypatch.undo()
        db.sql(view)
        assert db.verify("v", engine="duckdb").equal


def test_who_looks_on_is_told_of_stages_and_tasks(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a load and of a view's first rows; and a job that cannot be watched goes on."""
    monkeypatch.setattr(placement, "SPARK_ROWS", 0)
    monkeypatch.setattr(watch, "_SECONDS", 0.01)
    told: list[JobProgress | None] = []
    bar = Bar(on_job=told.append)
    with _open(tmp_path / "store", spark) as db:
        monkeypatch.setattr(db._progress, "task", lambda *_, **__: nullcontext(bar))
        db.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, g BIGINT)")
        db.load("t", spark.range(0, 9_000, 1, 2).selectExpr("id", "id % 901 AS g"))
        loaded = [p for p in told if p is not None]
        assert loaded and {p.tasks for p in loaded} == {2} and told[-1] is None
        told.clear()
        db.sql("CREATE MATERIALIZED VIEW v AS SELECT g, count(*) AS n FROM t GROUP BY g")
        some = [p for p in told if p is not None and p.rows == 9_000]
        assert some and {p.stages for p in some} == {2} and {p.stage for p in some} <= {1, 2}
        assert all(0 <= p.done <= p.tasks for p in some) and told[-1] is None
        tracker = "pyspark.core.status.StatusTracker.getStageInfo"
        monkeypatch.setattr(tracker, lambda self, stage: 1 // 0)
        db.sql("CREATE MATERIALIZED VIEW w AS SELECT g, sum(id) AS n FROM t GROUP BY g")
        assert db.verify("w", engine="duckdb").equal


def test_placement(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A small DataFrame goes through the driver unless it is placed on Spark; a large one, and
    files of Parquet, do not."""
    path = tmp_path / "store"
    pq.write_table(pa.table({"id": range(1000)}), tmp_path / "t.parquet")
    frame = spark.read.parquet(str(tmp_path / "t.parquet"))
    with sqlview.connect(path, spark=spark) as db:
        db.sql("CREATE TABLE t (id BIGINT)")
        assert db.load("t", frame).files == 1
        assert _segments(path) == []
        monkeypatch.setattr("sqlview.spark.DRIVER_BYTES", 100)
        db.load("t", frame)
        assert len(_segments(path)) == 1
        with db.transaction(placement="inline") as tx:
            tx.insert("t", frame)
        assert len(_segments(path)) == 1
        with pytest.raises(ValueError, match="format is for paths"):
            db.load("t", frame, format="csv")
        monkeypatch.setattr(transaction, "FEW_ROWS", 1001)
        with db.transaction(placement="spark") as tx:
            tx.insert("t", frame)
        gc.collect()
        assert len(_segments(path)) == 1
        assert len(_table(db)) == 4000
        db.sql("CREATE TABLE few (id BIGINT PRIMARY KEY)")
        for first in (True, False):  # the first rows of a table stay in their file
            with db.transaction(placement="spark") as tx:
                tx.insert("few", frame if first else frame.selectExpr("id + 1000 AS id"))
            relation = db._catalog.table("few").state.relation
            mapped = [stored.mapped for stored in relation.stored_blocks]
            assert mapped == ([True] if first else [True, False])
        assert sorted(db._read("few").column("id").to_pylist()) == [*range(2000)]
