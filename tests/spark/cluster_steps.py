"""Run by test_kills in a process of its own: steps, loads and reads on a Spark with executors that
is there, see kills.Cluster, and goes on."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark import cloudpickle
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import sqlview
from operators.executor.spark import SparkExecutor, load
from sqlview.datasource import SqlViewDataSource
from tests.spark import twins
from tests.spark.killed_life import attached


def main(directory: Path) -> None:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    # Executors have the package, but not the tests.
    cloudpickle.register_pickle_by_value(twins)  # type: ignore[no-untyped-call]
    spark = attached()
    for what in ("nothing", "task", "executor"):
        flag = directory / f"died-{what}"
        executor = SparkExecutor(
            spark,
            str(directory / what),
            tasks=2,
            task_rows=1,
            small_index_rows=0,
            combine_rows=0,
            apply_rows=0,
            probe=None if what == "nothing" else twins.die_once(str(flag), what, stage=1),
        )
        names = twins.VIEWS if what == "nothing" else ("three", "on_view")
        pair = twins.Twins(executor, twins.TABLES, {n: twins.VIEWS[n] for n in names})
        stream = twins.changes(31)
        for epochs, operations in ((3, 40), (1, 120)):
            assert pair.step([stream.transaction(operations) for _ in range(epochs)]) > 0
        assert executor.failures == 0
        assert executor.jobs[0].stages == 4
        assert flag.exists() == (what != "nothing")
        pair.close()
        print(f"{what} killed: equal", flush=True)
    for what in ("task", "executor"):
        _load(spark, directory, what)
        print(f"{what} of a load killed: each row once", flush=True)
    _read(spark, directory / "load-executor")
    print("a store read: each row once", flush=True)


def _load(spark: SparkSession, directory: Path, what: str) -> None:
    """A load whose first task is lost when its files are written: the store has those of another
    attempt alone once it is opened again."""
    flag, path, writer = (
        directory / f"died-loading-{what}",
        directory / f"load-{what}",
        load._writer,
    )
    die = twins.die_once(str(flag), what, stage=0)

    def dying(order: Any, read: Any) -> Any:
        write = writer(order, read)

        def written(batches: Any) -> Any:
            yield from write(batches)
            die(0, 0)

        return written

    load._writer = dying
    try:
        with sqlview.connect(path, spark=spark, placement="spark") as db:
            db.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, s STRING)")
            rows = spark.range(0, 200_000, 1, 3).selectExpr("id", "concat('x', id) AS s")
            db.load("t", rows)
    finally:
        load._writer = writer
    assert flag.exists()
    with sqlview.connect(path) as db:
        assert db._read("t").sort_by("id")["id"].to_pylist() == list(range(200_000))
        segments = [name for name in os.listdir(path) if name.startswith("rows-")]
        assert len(segments) == 3, segments


def _read(spark: SparkSession, path: Path) -> None:
    """Executors read a store; those that do not see it say so."""
    spark.dataSource.register(SqlViewDataSource)
    rows = spark.read.format("sqlview").option("store", str(path)).load("t")
    assert rows.selectExpr("count(*)", "sum(id)", "count(DISTINCT s)").collect() == [
        (200_000, 199_999 * 100_000, 200_000)
    ]
    path.rename(path.with_suffix(".moved"))
    with pytest.raises(PySparkException, match="does not see"):
        rows.count()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
    os._exit(0)  # its Spark goes on
