"""Spark streams into tables: each batch counts once, whoever stops when."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sqlview
from sqlview.sink import Sink

pytestmark = pytest.mark.spark

_FIRST_SENT = 1_700_000_000  # seconds since 1970


class Stream:
    """A Spark stream over files; each run takes what is new into a sink and ends."""

    def __init__(self, spark: Any, root: Path) -> None:
        self._spark = spark
        self._root = root
        self._files = root / "files"
        self._files.mkdir()
        self._sent = 0

    def send(self, rows: pa.Table) -> None:
        """One more batch. Spark takes files by their times, which are a second apart here."""
        file = self._files / f"{self._sent:03}.parquet"
        pq.write_table(rows, file)
        os.utime(file, (_FIRST_SENT + self._sent,) * 2)
        self._sent += 1

    def run(self, sink: Callable[[Any, int], None], schema: str) -> None:
        """Raises: what the query ends with."""
        reader = self._spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
        query = (
            reader.parquet(str(self._files))
            .writeStream.foreachBatch(sink)
            .option("checkpointLocation", str(self._root / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()


def _rows(first: int, n: int = 3) -> pa.Table:
    return pa.table({"k": pa.array(range(first, first + n), pa.int32())})


def test_a_batch_counts_once(spark: Any, tmp_path: Path) -> None:
    """Spark dies behind a commit, and ahead of one; the store is opened again; it is lost."""
    stream = Stream(spark, tmp_path)
    stopped: list[int] = []

    def stopping(sink: Sink, at: int, before: bool) -> Callable[[Any, int], None]:
        def called(batch: Any, number: int) -> None:
            if number == at and before:
                raise RuntimeError("stopped before the commit")
            sink(batch, number)
            if number == at:
                stopped.append(number)
                raise RuntimeError("stopped after the commit")

        return called

    for first in range(0, 12, 3):
        stream.send(_rows(first))
    with sqlview.connect(tmp_path / "store") as db:
        db.sql("CREATE TABLE t (k INT)")
        with pytest.raises(Exception, match="stopped after"):
            stream.run(stopping(db.sink("t"), 1, False), "k INT")
        assert db.epoch == 2
    with sqlview.connect(tmp_path / "store") as db:
        with pytest.raises(Exception, match="stopped before"):
            stream.run(stopping(db.sink("t"), 3, True), "k INT")
        assert db.epoch == 3  # batch 1 came again, and counted once
        stream.run(db.sink("t"), "k INT")
        assert sorted(db._read("t")["k"].to_pylist()) == list(range(12))
        assert (db.epoch, stopped) == (4, [1])
    stream.send(_rows(12))
    with sqlview.connect() as lost:
        lost.sql("CREATE TABLE t (k INT)")
        with pytest.raises(Exception, match="are missing"):
            stream.run(lost.sink("t"), "k INT")
        assert lost.epoch == 0
    with sqlview.connect(tmp_path / "store") as db:
        stream.run(db.sink("t"), "k INT")
        assert db._read("t").num_rows == 15


def test_a_change_feed(spark: Any, tmp_path: Path) -> None:
    stream = Stream(spark, tmp_path)
    schema = "k INT, v STRING, _change_type STRING, _commit_version BIGINT"

    def feed(*rows: tuple[int, str, str, int]) -> None:
        k, v, kind, version = zip(*rows, strict=True)
        columns = [pa.array(k, pa.int32()), pa.array(v), pa.array(kind), pa.array(version)]
        stream.send(pa.table(columns, ["k", "v", "_change_type", "_commit_version"]))

    feed((1, "a", "insert", 1), (2, "b", "insert", 1), (3, "c", "insert", 1))
    feed(
        (1, "A", "update_postimage", 3), (1, "a", "update_preimage", 3), (2, "b", "delete", 2),
        (2, "again", "insert", 3), (3, "c", "delete", 4),
    )  # fmt: skip
    with sqlview.connect() as db:
        db.sql("CREATE TABLE keyed (k INT PRIMARY KEY, v STRING)")
        db.sql("CREATE TABLE bag (k INT, v STRING)")
        for table in ("keyed", "bag"):
            sink = db.sink(table, "changes")
            stream.run(sink, schema)
            rows = db._read(table)
            assert sorted(zip(*(c.to_pylist() for c in rows.columns), strict=True)) == [
                (1, "A"),
                (2, "again"),
            ]
            (tmp_path / "checkpoint").rename(tmp_path / f"done-{table}")


def test_a_sink_is_called_by_streams_alone(spark: Any) -> None:
    with sqlview.connect(spark=spark) as db:
        db.sql("CREATE TABLE t (id BIGINT)")
        with pytest.raises(sqlview.DataError, match="by a streaming query alone"):
            db.sink("t")(spark.range(3), 0)
        db.sql("CREATE TABLE k (id BIGINT PRIMARY KEY)")
        db.sink("k", "upsert")
