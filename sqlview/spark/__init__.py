"""The Spark side of a session: Spark itself, DataFrames in and out, and SELECT.

Only the DataFrame API is used, so that a Spark Connect session does as well as a classic one.

Invariant: a DataFrame that this module hands out is a snapshot: whatever changes later, it gives
the rows of the epoch at which it was made, until the session is closed (see `lending`). Names in
the user's Spark session (temporary views, catalog tables) are neither replaced nor left behind.
"""

from __future__ import annotations

import logging
import math
import os
import tempfile
import uuid
import weakref
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.errors import (
    PySparkTypeError,
)
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.functions import arrow_udf

from operators.executor.watch import Watch
from operators.scalar import user
from operators.state.files import absolute, discard_tree, make_directory
from operators.state.stored import StoredRows
from operators.state.values import ValueFiles
from planner.calculus import zones
from planner.calculus.zones import Zone
from planner.context import UserFunction
from planner.errors import (
    DataError,
    SqlViewError,
    UnsupportedError,
)
from planner.names import folded
from planner.parse import words_of
from sqlview.lending import Lending, spark_schema, told_intervals, with_intervals, with_numbers
from sqlview.quoting import spark_name, spark_template
from sqlview.reads import Readable
from sqlview.scans import parts_of_scan
from sqlview.settings import TIME_ZONE
from sqlview.sources.files import File, parts_of, read_part
from sqlview.spark.complaints import translated
from sqlview.spark.running import LOCAL, is_running, stopped, using

if TYPE_CHECKING:
    from operators.executor.placement import SparkCosts
    from operators.executor.spark import SparkExecutor
    from operators.executor.spark.load import Target
    from sqlview.catalog import Table
    from sqlview.oracle.spark_engine import SparkOracle

_log = logging.getLogger(__name__)

#: Tables up to this size go to Spark through the driver, larger ones as files: the two take equally
#: long at about 100,000 rows of 40 bytes.
LOCAL_BYTES = 4 << 20
#: DataFrames that Spark takes to be larger are written as files by its tasks. Smaller ones come
#: through the driver, whose heap they must fit: lineitem at scale factor 1, 200 MB as Parquet,
#: needs more than 2 GiB there.
DRIVER_BYTES = 64 << 20
#: From so many bytes on an estimate means that Spark does not know.
_UNKNOWN_BYTES = 1 << 60


class SparkSide:
    """What a session does with Spark.

    `spark`: the Spark session to use; None: the active one, or else a local one that is started
    when it is first needed and stopped by `close`. `path`: a directory that every executor sees
    under this name; None: a temporary one. The session's files are in `directory`, its own part of
    that, which `close` removes. `values`: the files of the store there, which tasks read too.
    `watch`: of who looks on.
    """

    def __init__(
        self,
        spark: SparkSession | None,
        path: str | None,
        values: ValueFiles | None = None,
        watch: Watch | None = None,
    ) -> None:
        self._given = spark
        self._values = values
        self._watch = Watch() if watch is None else watch
        self._spark: SparkSession | None = None
        self._beside: SparkSession | None = None
        self._executor: SparkExecutor | None = None
        #: What jobs cost, once somebody had to know.
        self.costs: SparkCosts | None = None
        self._shared = path is not None
        self._named: str | None = None
        self._seen = False
        self._closed = False
        if path is None:
            self.directory = tempfile.mkdtemp(prefix="sqlview-")
        else:
            self.directory = os.path.join(absolute(path), f"session-{uuid.uuid4().hex}")
        #: What DataFrames that it made read.
        self.lending = Lending(self.directory)
        self._remove = weakref.finalize(self, discard_tree, self.directory)

    @property
    def spark(self) -> SparkSession:
        """The Spark session; a local one is started if need be.

        Raises: SqlViewError if somebody has stopped it.
        """
        if self._closed:
            raise SqlViewError("the session is closed")
        if self._spark is None:
            self._spark = LOCAL.acquire() if self._given is None else self._given
        if not is_running(self._spark):
            raise stopped()
        return self._spark

    def start(self) -> None:
        """See that there is a Spark session. Raises: as `spark`."""
        _ = self.spark

    @property
    def is_started(self) -> bool:
        """Whether this side has used its Spark session, and nobody has stopped it."""
        return self._spark is not None and is_running(self._spark)

    @property
    def can_run_steps(self) -> bool:
        """Whether a Spark session is there, so that none need be started, and can run steps."""
        spark = self._given if self._spark is None else self._spark
        return spark is not None and is_running(spark) and self.sees_files

    @property
    def executor(self) -> SparkExecutor:
        """What runs steps as Spark jobs.

        Raises: SqlViewError if Spark was stopped, its executors cannot see this session's files, or
        there can be none.
        """
        spark = self.spark
        if self._executor is None:
            if not self.sees_files:
                raise SqlViewError(
                    "steps cannot run on this Spark without a shared directory",
                    detail=f"Its master is {self._master()}, and the session's files are in a "
                    "temporary directory of this machine.",
                    hint="Open the session with connect(path), a directory that all executors see.",
                )
            from operators.executor.spark import SparkExecutor
            from operators.executor.spark.executor import TASK_ROWS

            with self._files():
                make_directory(self.directory)
            self._executor = SparkExecutor(
                spark,
                self.directory,
                values=self._values,
                driver_rows=TASK_ROWS,
                watch=self._watch,
            )
        return self._executor

    @property
    def heavy_exchanges(self) -> int:
        """See Metrics."""
        return 0 if self._executor is None else self._executor.heavy_exchanges

    def break_even(self) -> float:
        """The estimated work from which a step takes less time on Spark. Cost: where there are
        enough cores for that, two small jobs, once for a store."""
        from operators.executor.spark.costs import costs_of

        if self.costs is None:
            values = self._values
            try:
                self.costs = costs_of(self.spark, None if values is None else values.directory)
            except Exception:
                _log.warning("what Spark costs cannot be measured; a step runs here", exc_info=True)
                return math.inf
        return self.costs.break_even

    def close(self) -> None:
        """Remove the session's files, and stop Spark if this session is the last of those for
        which it was started."""
        if self._closed:
            return
        self._closed = True
        spark, executor = self._spark, self._executor
        self._spark = self._beside = self._executor = None
        with ExitStack() as released:  # each, whatever another one raises
            released.callback(self._remove)
            released.callback(self.lending.close)
            if spark is not None and self._given is None:
                released.callback(LOCAL.release, spark)
            if executor is not None:
                released.callback(executor.close)

    # -- in --------------------------------------------------------------------------------------

    def read(self, data: DataFrame) -> pa.Table:
        """The rows of a Spark DataFrame, of any Spark session.

        Raises: DataError for one that is streaming or has columns of types that Arrow lacks;
        SqlViewError if Spark was stopped; Spark's exceptions if computing the rows fails.
        """
        with using(data.sparkSession):
            return self._read(data)

    def write(
        self, data: DataFrame, table: Table, cast: bool, zone: Zone, keys: bool = False
    ) -> StoredRows:
        """The rows of a Spark DataFrame in files of the store, for a table, or their `keys` alone,
        written by Spark's tasks, which read themselves what is but a scan of files. Raises: as
        `read`, and DataError for what does not fit."""
        from operators.executor.spark.costs import cores_of
        from operators.executor.spark.load import write_dataframe

        with using(data.sparkSession):
            _refuse_streaming(data)
            self._check_seen(data.sparkSession)
            data = with_numbers(data)
            target = self._target(table, cast, zone)
            if keys:
                schema = tuple(table.schema[k] for k in target.key)
                key = tuple(range(len(schema)))
                target = replace(target, schema=schema, key=key, more=True)
            parts = parts_of_scan(data, cores_of(data.sparkSession))
            if parts is None:
                with self._watch.job(data.sparkSession):
                    return write_dataframe(data, target)
            with self._watch.job(data.sparkSession, stages=1):
                return _write_parts(data.sparkSession, parts, target, _in_dataframe)

    def write_files(
        self, files: Sequence[File], table: Table, cast: bool, zone: Zone
    ) -> StoredRows:
        """The rows of files, which tasks read by themselves, as `write`. Raises: DataError, naming
        file and row; SqlViewError if Spark was stopped or does not see the store."""
        from operators.executor.spark.costs import cores_of

        with using(self.spark):
            here = (replace(file, path=os.path.abspath(file.path)) for file in files)
            parts = parts_of(here, cores_of(self.spark))
            self._check_seen(self.spark)
            target = self._target(table, cast, zone)

            def refused(path: str, error: DataError) -> DataError:
                message = f'cannot load {path!r} into "{table.name}": {error.message}'
                return DataError(message, detail=error.detail, hint=error.hint)

            with self._watch.job(self.spark, stages=1):
                return _write_parts(self.spark, parts, target, refused)

    def _target(self, table: Table, cast: bool, zone: Zone) -> Target:
        from operators.executor.spark.load import Target

        assert self._values is not None, "there is a store"
        return Target(self._values, table.schema, table.key or (), cast, zone.id)

    def _check_seen(self, spark: SparkSession) -> None:
        """See, once, that executors on other machines see the store, before they are to do much.
        Raises: SqlViewError."""
        from operators.executor.spark.load import sees_store, unseen

        if self._seen or self._runs_here:
            return
        assert self._values is not None, "there is a store"
        if not sees_store(spark, self._values.directory):
            raise unseen(self._values.directory)
        self._seen = True

    @property
    def builder(self) -> SparkExecutor:
        """What builds indexes of the store. Raises: as `executor`, and where executors do not see
        the store."""
        spark = self.spark
        with using(spark):
            self._check_seen(spark)
        return self._executor or self.executor

    def writes(self, data: DataFrame, always: bool) -> bool:
        """Whether tasks can write a DataFrame into the store, and it is large or they are to
        `always`."""
        if not self.can_write:
            return False
        with using(data.sparkSession):
            return always or _is_large(data)

    @property
    def can_write(self) -> bool:
        """Whether Spark's tasks can write into the store."""
        return self._values is not None and self.sees_files

    def _read(self, data: DataFrame) -> pa.Table:
        _refuse_streaming(data)
        return told_intervals(self._read_numbers(with_numbers(data)), data)

    def _read_numbers(self, data: DataFrame) -> pa.Table:
        if self.sees_files and _is_large(data):
            return self._read_in_parallel(data)
        try:
            return data.toArrow()
        except PySparkTypeError as error:
            raise DataError(
                "changes cannot be given as a DataFrame with such a column",
                detail=f"{error.getMessage()}" if error.getMessage() else None,
            ) from None
        except Exception as error:
            # Spark bounds what goes through the driver.
            if "spark.driver.maxResultSize" not in str(error) or not self.sees_files:
                raise
        return self._read_in_parallel(data)

    def _read_in_parallel(self, frame: DataFrame) -> pa.Table:
        from operators.executor.spark.ingest import read_dataframe

        with self._files():
            tables = read_dataframe(frame, self.directory)
        return pa.concat_tables(tables) if tables else frame.limit(0).toArrow()

    # -- out -------------------------------------------------------------------------------------

    def dataframe(self, data: pa.Table | Readable) -> DataFrame:
        """A DataFrame of these rows, with exactly these types and NOT NULLs.

        Cost: those that lie in no files yet are copied once, into Spark's driver or into files.
        """
        return self._dataframe(self.spark, data)

    def _dataframe(self, spark: SparkSession, data: pa.Table | Readable) -> DataFrame:
        if isinstance(data, pa.Table):
            data = Readable(uuid.uuid4(), data.nbytes, partial(_itself, data))
        if data.nbytes <= LOCAL_BYTES or not (data.plan or self.sees_files):
            table = data.table()
            rows = spark.createDataFrame(table, spark_schema(table.schema))
            return with_intervals(rows, table.schema)
        with self._files():
            return self.lending.frame(spark, data.key, data.plan or data.table, self.sees_files)

    def select(
        self,
        text: str,
        names: Iterable[str],
        read: Callable[[str], pa.Table | Readable],
        zone: Zone,
        streams: Iterable[str] = (),
        functions: Iterable[UserFunction] = (),
    ) -> DataFrame:
        """Run a query by Spark SQL, over tables and views of the session as they are now.

        `names`: all of them; `read` gives the rows of one. A name of theirs goes before one of
        Spark's; Spark's own tables, temporary views and functions can be used beside them,
        and `functions`, which become temporary ones of Spark's session if they are named. The query
        means what it does in the time zone.
        Raises: SqlSyntaxError, BindError, CatalogError with the place in `text`; UnsupportedError
        if Spark has another time zone.
        Cost: a snapshot of each relation that the text names, then Spark's.
        """
        # Each becomes a CTE around the text, which hides what Spark has under that name and shows
        # nowhere else. Spark's formatter stands in for the DataFrames, hence the doubled braces.
        words = set(words_of(text))
        used = sorted(name for name in names if folded(name) in words)
        spark = self._in_zone(zone)
        frames: dict[str, Any] = {
            f"_{i}": self._dataframe(spark, read(name)) for i, name in enumerate(used)
        }
        relations = ", ".join(
            f"{spark_template(spark_name(name))} AS (SELECT * FROM {{_{i}}})"
            for i, name in enumerate(used)
        )
        head = f"WITH {relations} (" if used else "("
        register(spark, functions, words)
        with translated(text, names, streams), using(spark):
            return spark.sql(f"{head}\n{spark_template(text)}\n)", **frames)

    def _in_zone(self, zone: Zone) -> SparkSession:
        """The Spark session, or one beside it if it is nobody's and has another time zone."""
        spark = self.spark
        name = str(spark.conf.get(TIME_ZONE))
        if zones.find(name) == zone:
            return spark
        if not LOCAL.started(spark):
            raise UnsupportedError(
                f"this session's time zone is {zone.id}, but that of Spark is {name}",
                detail="Views are created in the former, and SELECT is run by Spark.",
                hint=f'Call spark.conf.set("{TIME_ZONE}", "{zone.id}"), or SET TIME ZONE '
                f"'{name}' here.",
            )
        if self._beside is None:
            self._beside = spark.newSession()
        self._beside.conf.set(TIME_ZONE, zone.id)
        return self._beside

    def oracle(self, zone: str, functions: Iterable[UserFunction] = ()) -> SparkOracle:
        """An oracle on this Spark, without tables."""
        from sqlview.oracle.spark_engine import SparkOracle

        register(self.spark, functions)
        return SparkOracle(self.spark, self.dataframe, zone=zone)

    @contextmanager
    def _files(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise SqlViewError(
                "the directory of the session cannot be used",
                detail=f"{type(error).__name__}: {error}.",
                hint="Open the session with connect(path), a directory that all executors see and "
                "where this user can make others.",
            ) from error

    # -- what Spark is like ----------------------------------------------------------------------

    @property
    def sees_files(self) -> bool:
        """Whether Spark's executors see the files in `directory`, so that steps can run there."""
        return self._shared or self._runs_here

    @property
    def _runs_here(self) -> bool:
        """Whether tasks run on this machine."""
        return self._master().startswith("local")

    def _master(self) -> str:
        if self._named is None:
            self._named = str(self.spark.conf.get("spark.master", "local"))
        return self._named


def _write_parts(
    spark: SparkSession,
    parts: Sequence[File],
    target: Target,
    refused: Callable[[str, DataError], DataError],
) -> StoredRows:
    """`refused`: what to say of an error in a file. Raises: that; SqlViewError."""
    from operators.executor.spark.load import PartError, write_parts

    try:
        written = write_parts(spark, len(parts), partial(read_part, parts), target)
    except PartError as found:
        raise refused(parts[found.part].path, found.error) from None
    return replace(written, parts=tuple((repr(part.path), part.first) for part in parts))


def _in_dataframe(path: str, error: DataError) -> DataError:
    """An error in a file that a DataFrame scans."""
    detail = f"In {path!r}: {error.detail}" if error.detail else f"It is in {path!r}."
    return DataError(error.message, detail=detail, hint=error.hint)


def _refuse_streaming(data: DataFrame) -> None:
    if data.isStreaming:
        raise DataError(
            "changes cannot be given as a streaming DataFrame",
            hint="Apply each micro-batch: stream.writeStream.foreachBatch(function), where the "
            "function inserts the DataFrame that it is given.",
        )


def _is_large(data: DataFrame) -> bool:
    """Whether Spark knows that it is."""
    return not data.isStreaming and DRIVER_BYTES < _estimated_bytes(data) < _UNKNOWN_BYTES


def _itself(table: pa.Table) -> pa.Table:
    return table


def _estimated_bytes(frame: DataFrame) -> int:
    """Spark's own estimate of all rows; 0 over Spark Connect, which does not tell."""
    plan = getattr(frame, "_jdf", None)
    if plan is None:
        return 0
    return int(plan.queryExecution().optimizedPlan().stats().sizeInBytes())


def register(
    spark: SparkSession, functions: Iterable[UserFunction], words: Container[str] | None = None
) -> None:
    """Let Spark's session have the user's functions, of these names, if this process has their
    code."""
    for function in functions:
        if not user.is_known(function.id) or (words and folded(function.name) not in words):
            continue
        code = user.known(function.id, function.name)
        made = arrow_udf(code, str(function.type))  # type: ignore[call-overload]
        spark.udf.register(function.name, made)
