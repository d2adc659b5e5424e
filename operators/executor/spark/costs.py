"""What jobs cost on a Spark: measured once, and kept with the store that it works for."""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import pyarrow as pa
import pyspark
from pyspark.sql import SparkSession

from operators.executor.placement import TASK_COST, SparkCosts
from operators.state.files import read, written

_log = logging.getLogger("sqlview.executor")

_NAME = "spark-costs.json"
_SCHEMA = "target int"


def costs_of(spark: SparkSession, directory: str | None) -> SparkCosts:
    """What jobs cost there: as was measured before with the same Spark and kept in the directory,
    else as is measured now, if the cores are so many that a step could take less time there.

    Cost: two jobs, a second or two, and a file.
    """
    cores = cores_of(spark)
    master = spark.conf.get("spark.master", "")
    of = {"master": master, "cores": cores, "pyspark": pyspark.__version__}
    known = None if directory is None else _read(directory, of)
    if known is not None:
        return known
    if cores <= TASK_COST:
        return SparkCosts(0.0, cores)
    found = SparkCosts(min(job_seconds(spark, cores) for _ in range(2)), cores)
    if directory is not None:
        _write(directory, of, found)
    return found


def cores_of(spark: SparkSession) -> int:
    """The cores that run tasks, as Spark says; one where it does not (Spark Connect)."""
    context: Any = getattr(spark, "_sc", None)
    return 1 if context is None else max(int(context.defaultParallelism), 1)


def job_seconds(spark: SparkSession, tasks: int) -> float:
    """What one job takes that has two stages and nothing to do."""
    started = time.perf_counter()
    frame = spark.range(0, tasks, 1, tasks).mapInArrow(_targets, _SCHEMA)
    frame.repartitionById(tasks, "target").mapInArrow(_targets, _SCHEMA).toArrow()
    return time.perf_counter() - started


def _targets(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield pa.RecordBatch.from_arrays([batch.column(0).cast(pa.int32())], ["target"])


def _read(directory: str, of: dict[str, Any]) -> SparkCosts | None:
    try:
        said = json.loads(read(os.path.join(directory, _NAME)))
        if said["of"] == of:
            return SparkCosts(float(said["job_seconds"]), int(said["cores"]))
    except FileNotFoundError:
        pass
    except (OSError, ValueError, KeyError, TypeError):
        _log.warning("what Spark costs is measured anew", exc_info=True)
    return None


def _write(directory: str, of: dict[str, Any], costs: SparkCosts) -> None:
    """It is no reason to fail if it cannot be written: the next session measures again."""
    path = os.path.join(directory, _NAME)
    try:
        with written(path) as out:
            out.write(json.dumps({"of": of, **asdict(costs)}).encode())
    except OSError:
        _log.warning("what Spark costs cannot be kept", exc_info=True)
