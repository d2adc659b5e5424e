"""`python -m tests.spark.objects [--rows N]`: a store on a server that speaks S3, which tasks of a
Spark with executors of its own load, hydrate, change and read; each machine with its cache.

Says what it took. Exit code 1 if a row is lost or doubled, or an object left.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import sqlview
from sqlview.datasource import SqlViewDataSource
from tests.store.faults import left_in
from tests.store.server import served


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.spark.objects", description=__doc__)
    parser.add_argument("--rows", type=int, default=200_000)
    rows = parser.parse_args().rows
    os.environ["PYSPARK_PYTHON"] = sys.executable
    with served() as bucket, tempfile.TemporaryDirectory() as directory:
        os.environ["SQLVIEW_CACHE"] = f"{directory}/executors"  # which they start with
        spark = (
            SparkSession.builder.master("local-cluster[2,1,1024]")
            .config("spark.driver.memory", "1g")
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .getOrCreate()
        )
        try:
            lived(spark, f"{bucket}/store", rows, f"{directory}/driver")
            read(spark, f"{bucket}/store", rows)
            print("read by the data source, each row once", flush=True)
        finally:
            spark.stop()
        fetched = [path for path in Path(directory, "executors").rglob("*") if path.is_file()]
        assert fetched, "tasks fetch what they read"
        print(f"{len(fetched)} objects in the executors' cache", flush=True)
    return 0


def lived(spark: SparkSession, url: str, rows: int, cache: str | None = None) -> None:
    """Load, hydrate, change and read a store by tasks. Raises: AssertionError."""
    began = time.monotonic()

    def said(what: str) -> None:
        print(f"{time.monotonic() - began:6.1f} s  {what}", flush=True)

    with sqlview.connect(url, spark=spark, placement="spark", cache=cache) as db:
        db.sql("CREATE TABLE t (k BIGINT PRIMARY KEY, g BIGINT, v BIGINT)")
        with db.transaction() as tx:
            tx.insert("t", given(spark, 0, rows))
        said(f"{rows:,} rows loaded")
        db.sql("CREATE MATERIALIZED VIEW sums AS SELECT g, count(*) n, sum(v) s FROM t GROUP BY g")
        said("a view hydrated")
        with db.transaction() as tx:
            tx.upsert("t", given(spark, rows // 2, rows))
        executor = db._side().executor
        assert executor.failures == 0 and executor.jobs, "tasks ran the step"
        said("half of the rows changed")
        assert sorted(map(tuple, db.view("sums").to_df().collect())) == sums(rows)
        assert db.view("sums").to_df().count() == len(sums(rows))
        db.checkpoint()
        said("a checkpoint written")
    with sqlview.connect(url, cache=cache) as db:
        assert sorted(db.view("sums").rows()) == sums(rows)
    left = left_in(url)
    assert not left, f"{left} are left"
    said("opened again")


def read(spark: SparkSession, url: str, rows: int) -> None:
    """Read it as another application does. Raises: AssertionError."""
    spark.dataSource.register(SqlViewDataSource)
    source = spark.read.format("sqlview").option("store", url)
    assert sorted(map(tuple, source.load("sums").collect())) == sums(rows)
    assert source.load("t").selectExpr("count(*)", "sum(v)").collect()[0] == (
        rows + rows // 2,
        sum(v for _, _, v in every(rows)),
    )


def given(spark: SparkSession, first: int, count: int) -> Any:
    return spark.range(first, first + count, 1, 2).selectExpr(
        "id AS k", "id % 7 AS g", f"id + {first} AS v"
    )


def every(rows: int) -> list[tuple[int, int, int]]:
    """What is there in the end."""
    half = rows // 2
    return [(k, k % 7, k if k < half else k + half) for k in range(half + rows)]


def sums(rows: int) -> list[tuple[int, int, int]]:
    found: dict[int, tuple[int, int]] = {}
    for _, g, v in every(rows):
        n, s = found.get(g, (0, 0))
        found[g] = n + 1, s + v
    return sorted((g, n, s) for g, (n, s) in found.items())


if __name__ == "__main__":
    sys.exit(main())
