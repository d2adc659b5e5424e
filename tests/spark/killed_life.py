"""A driver that does what it is told by lines of JSON, over executors of its own, while they, their
tasks or itself are killed: `python -m tests.spark.killed_life`, see tests.spark.kills."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from pyspark import SparkConf, SparkContext, cloudpickle
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

import sqlview
from operators.executor import placement
from operators.executor.spark import SparkExecutor, load, run
from sqlview import transaction
from tests.spark import bombs
from tests.spark.bombs import Bomb
from tests.spark.kills import LOOKUP, ROWS, TABLES, Order, flood_of, rows_of, view_of

#: As they are in the package.
_STAGE, _WRITER = run._stage, load._writer


def main(jvm: int) -> None:
    """`jvm`: the process of Spark's, see `attached`."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    cloudpickle.register_pickle_by_value(bombs)  # type: ignore[no-untyped-call]
    placement.SPARK_ROWS, transaction.FEW_ROWS = 1, 1
    SparkExecutor.__init__.__kwdefaults__.update(  # type: ignore[attr-defined]
        task_rows=1, small_index_rows=0, combine_rows=0, apply_rows=0
    )
    spark = attached()
    _say({"ready": True})
    for line in sys.stdin:
        order = Order(**json.loads(line))
        bomb = order.bomb(os.getpid(), jvm)
        _arm(bomb, order.phase)
        with sqlview.connect(order.path, spark=spark, placement="spark") as db:
            _do(db, spark, order)
            side = db._spark_side
            failures = 0 if side is None or side._executor is None else side._executor.failures
            _say({"done": True, "failures": failures})
        # Jobs of a driver before this one go on without it, and write what nobody needs.
        while spark.sparkContext.statusTracker().getActiveJobsIds():
            time.sleep(0.05)
        _say({"closed": True})
    os._exit(0)  # its Spark goes on


def attached() -> SparkSession:
    """The session of a Spark that is there, or begins now, behind the gateway that the environment
    tells; it outlives this process."""
    gateway = launch_gateway()
    SparkContext._ensure_initialized(gateway=gateway)
    java: Any = gateway.jvm
    context = java.JavaSparkContext(java.org.apache.spark.SparkContext.getOrCreate())
    conf = SparkConf(_jvm=java, _jconf=context.getConf())
    return SparkSession(SparkContext(gateway=gateway, jsc=context, conf=conf))


def _say(what: dict[str, Any]) -> None:
    print(json.dumps(what), flush=True)


def _arm(bomb: Bomb | None, phase: str) -> None:
    """In this process for what it does itself, else in those of tasks."""
    run._stage, load._writer = _STAGE, _WRITER
    if bomb is None:
        return
    if phase == "commit":
        bomb.arm()
        return
    armed = bomb
    run._stage = lambda *given: _armed(armed, _STAGE(*given))
    load._writer = lambda *given: _armed(armed, _WRITER(*given))


def _armed(bomb: Bomb, call: Any) -> Any:
    def run_armed(batches: Any) -> Any:
        bomb.arm()
        yield from call(batches)

    return run_armed


def _do(db: sqlview.Session, spark: SparkSession, order: Order) -> None:
    for statement in TABLES:
        db.sql(statement)
    if db.epoch == 0:
        with db.transaction("inline") as tx:
            tx.insert("u", LOOKUP)
    match order.operation:
        case "load" if order.number % 2:
            directory = Path(order.path).with_name(f"files-{order.number}")
            rows = rows_of(order.number)
            directory.mkdir(exist_ok=True)
            for i in range(3):
                part = rows.slice(i * (ROWS // 3), ROWS // 3)
                pq.write_table(part, directory / f"{i}.parquet")
            db.load("t", directory)
        case "load":
            # Spark's tasks have what they compute, in three partitions.
            frame = spark.createDataFrame(rows_of(order.number)).repartition(3)
            db.load("t", frame)
        case "hydration":
            db.sql(view_of(order.number))
        case _:
            rows, gone = flood_of(order.number, db._read("t"))
            with db.transaction("spark") as tx:
                if len(gone):
                    tx.upsert("t", rows)
                    tx.delete("t", gone)
                else:
                    tx.upsert("t", spark.createDataFrame(rows).repartition(3))


if __name__ == "__main__":
    main(int(sys.argv[1]))
