"""The Spark that a session uses: the one that runs, or a local one, and whether it still does.

Sessions that were given none share a local one, which the last of them stops.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from planner.errors import SqlViewError
from sqlview.java import JavaNotFoundError, ensure_java


class LocalSpark:
    """The Spark session that sessions share which were given none; stopped by the last of them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._started: SparkSession | None = None
        self._users = 0

    def acquire(self) -> SparkSession:
        with self._lock:
            spark = active_session()
            if spark is None:
                spark = self._started = start_spark()
                self._users = 0
            if spark is self._started:
                self._users += 1
            return spark

    def started(self, spark: SparkSession) -> bool:
        """Whether it is the one that sessions started for themselves."""
        return spark is self._started

    def release(self, spark: SparkSession) -> None:
        with self._lock:
            if spark is not self._started:
                return
            self._users -= 1
            if self._users == 0:
                self._started = None
                if is_running(spark):
                    spark.stop()


LOCAL = LocalSpark()


def active_session() -> SparkSession | None:
    """The Spark session that is active in this process, if any."""
    try:
        spark = SparkSession.active()
    except PySparkException:
        return None
    return spark if is_running(spark) else None


def is_running(spark: SparkSession) -> bool:
    """Whether nobody has stopped it. Cost: a call of the JVM."""
    context = getattr(spark, "_sc", None)
    if context is None:  # Spark Connect
        return not getattr(spark, "is_stopped", False)
    try:
        return context._jsc is not None and not context._jsc.sc().isStopped()
    except Exception:  # whatever Py4J raises where there is no JVM any more
        return False


@contextmanager
def using(spark: SparkSession) -> Iterator[None]:
    """What Spark raises because it was stopped, as an error that says so."""
    try:
        yield
    except SqlViewError:
        raise
    except Exception as error:
        if is_running(spark):
            raise
        raise stopped() from error


def stopped() -> SqlViewError:
    return SqlViewError(
        "Spark was stopped",
        detail="Whoever owns the Spark session has stopped it; tables and views are as they were.",
        hint='Go on without it (placement="inline"), or open a session with one that runs: '
        "sqlview.connect(spark=...).",
    )


def start_spark(master: str | None = None) -> SparkSession:
    """Start a quiet Spark that suits sqlview, or return the one that runs already.

    `master`: where; None: all cores of this machine, with tasks tried up to four times (plain
    local[*] never tries one again). Under spark-submit or SPARK_REMOTE those decide instead.
    Java is found by sqlview.java. Stop it with `stop()`.
    Raises: SqlViewError if there is no Java, or Spark does not start.
    """
    if "PYSPARK_GATEWAY_PORT" in os.environ or "SPARK_REMOTE" in os.environ:
        return _started(SparkSession.builder.appName("sqlview"))
    try:
        ensure_java()
    except JavaNotFoundError as error:
        raise SqlViewError(error.message, detail=error.detail, hint=error.hint) from error
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    programs = str(Path(sys.executable).parent)
    path = os.environ.get("PATH", "").split(os.pathsep)
    if programs not in path:
        os.environ["PATH"] = os.pathsep.join([programs, *path])
    return _started(
        SparkSession.builder.master(master or "local[*,4]")
        .appName("sqlview")
        .config("spark.driver.memory", os.environ.get("SQLVIEW_DRIVER_MEMORY", "2g"))
        # Rows on their way to Python only pass through the driver.
        .config("spark.driver.maxResultSize", "0")
        .config("spark.log.level", "ERROR")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.execution.arrow.pyspark.enabled", "true")
        .config("spark.python.daemon.module", "operators.executor.spark.daemon")
    )


def _started(builder: SparkSession.Builder) -> SparkSession:
    try:
        return builder.getOrCreate()
    except Exception as error:  # Py4J's, the JVM's, or of the network
        said = next(iter(str(error).splitlines()), "")
        raise SqlViewError(
            "Spark does not start", detail=f"{type(error).__name__}: {said}".rstrip(". ") + "."
        ) from error
