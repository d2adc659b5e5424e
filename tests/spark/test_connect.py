"""A session over Spark Connect does what one over a classic Spark does. In a process of its own:
there is one kind of Spark to a process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sqlview.java import ensure_java

ROOT = Path(__file__).parents[2]

OVER_CONNECT = """
import sys
import pyarrow as pa
from pyspark.sql import SparkSession
import sqlview
from operators.executor import placement
from sqlview.datasource import SqlViewDataSource

placement.SPARK_ROWS = 1000
builder = SparkSession.builder.remote("local[2]").config("spark.sql.session.timeZone", "UTC")
spark = builder.getOrCreate()
assert "connect" in type(spark).__module__
with sqlview.connect(spark=spark) as db:  # without a store: rows come and go through the driver
    db.sql("CREATE TABLE t (a BIGINT PRIMARY KEY, b INT)")
    with db.transaction() as tx:
        tx.insert("t", spark.range(9).selectExpr("id AS a", "CAST(id % 3 AS INT) AS b"))
    db.sql("CREATE MATERIALIZED VIEW v AS SELECT b, count(*) AS n FROM t GROUP BY b")
    assert sorted(map(tuple, db.view("v").to_df().collect())) == [(0, 3), (1, 3), (2, 3)]
    rows = db.sql("SELECT a, n FROM t JOIN v ON t.b = v.b WHERE a < 2 ORDER BY a").rows()
    assert rows == [(0, 3), (1, 3)]
    assert db.verify("v", engine="spark").equal
with sqlview.connect(sys.argv[1], spark=spark, placement="spark") as db:  # by tasks
    db.sql("CREATE TABLE t (a BIGINT PRIMARY KEY, b INT)")
    loaded = spark.range(100_000, 0, -1, 2).selectExpr("id AS a", "CAST(id % 3 AS INT) AS b")
    told = []
    with db._watch.job(spark):  # nobody looks on
        pass
    with db._watch.told(told.append), db._watch.job(spark):
        spark.range(0, 8, 1, 4).mapInArrow(lambda batches: batches, "id bigint").toArrow()
    assert told[-1] is None and all(str(p).startswith("stage 1 of 1, ") for p in told[:-1])
    assert len(told) > 1 and {p.tasks for p in told[:-1]} == {4}
    assert db.load("t", loaded).rows == 100_000
    db.sql("CREATE MATERIALIZED VIEW v AS SELECT b, count(*) AS n FROM t GROUP BY b")
    with db.transaction() as tx:
        tx.upsert("t", pa.table({"a": range(1, 50_001), "b": pa.array([7] * 50_000, pa.int32())}))
    assert len(db._spark_side.executor.jobs) > 0 and db._spark_side.executor.failures == 0
    assert db.verify("v", engine="duckdb").equal
    assert db.sql("SELECT * FROM t").to_df().count() == 100_000
    expected = sorted(db.view("v").rows())
spark.dataSource.register(SqlViewDataSource)
read = spark.read.format("sqlview").option("store", sys.argv[1]).load("v")
assert sorted(map(tuple, read.collect())) == expected
spark.stop()
print("all as it should be")
"""


@pytest.mark.slow
@pytest.mark.spark
def test_over_connect(tmp_path: Path) -> None:
    pytest.importorskip("grpc", reason="pyspark[connect] is not installed")
    ensure_java()
    done = subprocess.run(
        [sys.executable, "-c", OVER_CONNECT, str(tmp_path / "store")],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYSPARK_PYTHON": sys.executable},
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert done.stdout.splitlines()[-1] == "all as it should be"
