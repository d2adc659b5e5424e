"""Lending: the files that DataFrames of this session read, until nobody can read them any more.

A loan is a read of one table or view at one epoch: files of the store that its parts name, which
stay meanwhile, and a directory of the session's with what lies in no file of the store. DataFrames
of one epoch share it. It ends with the last of them, and of whatever Spark made of them: Spark's
own plans refer to the function by which tasks read, so a weak reference to that tells. Where there
is none (another Spark than this module knows), it ends with the session.

Invariant: what a DataFrame reads is there while the DataFrame is, and the session open.
"""

from __future__ import annotations

import os
import threading
import uuid
import weakref
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkTypeError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType, YearMonthIntervalType

from operators.flight.arrow import CHARS, MONTHS
from operators.state.files import discard, discard_tree, make_directory
from operators.state.reading import Part, Reading
from planner.errors import SqlViewError
from sqlview import spark_files
from sqlview.quoting import spark_name
from sqlview.reads import Planned

#: What comes along with tasks, beyond which it is written to a file for them.
CARRIED_BYTES = 1 << 20


@dataclass(slots=True)
class Loan:
    """`directory`: of its own, if it has one; `readers`: of each DataFrame whether it is there."""

    names: tuple[str, ...]
    reading: Reading
    parts: list[Part]
    files: frozenset[str]
    directory: str | None
    readers: list[Callable[[], bool]] = field(default_factory=list)

    @property
    def is_read(self) -> bool:
        self.readers = [is_there for is_there in self.readers if is_there()]
        return bool(self.readers)


class Lending:
    """State: the loans; any thread."""

    def __init__(self, directory: str) -> None:
        """`directory`: of the session's files."""
        self._directory = directory
        self._lock = threading.Lock()
        self._loans: dict[Hashable, Loan] = {}

    def frame(
        self,
        spark: SparkSession,
        key: Hashable,
        make: Callable[[], pa.Table | Planned],
        sees_files: bool,
    ) -> DataFrame:
        """A DataFrame of what `make` gives, or gave for the same key if that is still lent.
        `sees_files`: whether tasks see the session's files.

        Raises: OSError for a directory that cannot be used.
        """
        with self._lock:
            self._sweep()
            loan = self._loans.get(key)
            if loan is None:
                made = make()
                loan = self._loans[key] = (
                    self._of_table(made)
                    if isinstance(made, pa.Table)
                    else self._of_plan(made, sees_files)
                )
            reading, parts = loan.reading, loan.parts
            reading.renew()
            rows = spark.range(0, len(parts), 1, len(parts)).mapInArrow(
                reader(reading, parts), spark_schema(reading.schema)
            )
            loan.readers.append(_presence(spark, rows))
            return with_intervals(rows, reading.schema).toDF(*loan.names)

    def files(self) -> frozenset[str]:
        """The names of the store's files that somebody may read yet; what nobody can is let go."""
        with self._lock:
            self._sweep()
            return frozenset(name for loan in self._loans.values() for name in loan.files)

    def close(self) -> None:
        """Let go everything."""
        with self._lock:
            for loan in self._loans.values():
                _end(loan)
            self._loans.clear()

    def _sweep(self) -> None:
        for key, loan in list(self._loans.items()):
            if not loan.is_read:
                _end(self._loans.pop(key))

    def _of_table(self, table: pa.Table) -> Loan:
        table, names = spark_files.numbered(table), tuple(table.column_names)
        directory = os.path.join(self._directory, f"snapshot-{uuid.uuid4().hex}")
        parts = [Part(path=path) for path in spark_files.write(table, directory)]
        reading = Reading(directory, table.schema, (), 0, -1, None)
        return Loan(names, reading, parts, frozenset(), directory)

    def _of_plan(self, planned: Planned, sees_files: bool) -> Loan:
        reading, directory = planned.reading, None
        parts, names = planned.parts, tuple(reading.schema.names)
        schema = spark_files.numbered(reading.schema.empty_table()).schema
        if sum(len(p.rows) for p in parts) > CARRIED_BYTES and sees_files:
            directory = os.path.join(self._directory, f"snapshot-{uuid.uuid4().hex}")
            parts = list(_in_files(parts, directory))
        files = frozenset(planned.files)
        return Loan(names, replace(reading, schema=schema), parts, files, directory)


#: Where Spark keeps what a column of texts was declared as (CharVarcharUtils).
_CHAR_OF_SPARK = "__CHAR_VARCHAR_TYPE_STRING"


def spark_schema(schema: pa.Schema) -> StructType:
    """Spark's columns for Arrow's: timestamps without a zone are TIMESTAMP_NTZ, whatever the
    session's `spark.sql.timestampType` says; CHAR(n) is compared as such."""
    struct = from_arrow_schema(schema, prefer_timestamp_ntz=True)
    assert isinstance(struct, StructType)
    for column, given in zip(struct.fields, schema, strict=True):
        if CHARS in (given.metadata or {}):
            column.metadata = {_CHAR_OF_SPARK: f"char({given.metadata[CHARS].decode()})"}
    return struct


def with_intervals(rows: DataFrame, schema: pa.Schema) -> DataFrame:
    """The rows of a schema, numbers of months as INTERVALs: Spark takes and gives none in Arrow."""
    if not any(MONTHS in (f.metadata or {}) for f in schema):
        return rows
    columns = []
    for given in schema:
        name, kind = spark_name(given.name), (given.metadata or {}).get(MONTHS, b"").decode()
        made = f"CAST(make_ym_interval(0, {name}) AS {kind}) AS {name}"
        columns.append(made if kind else name)
    return rows.selectExpr(*columns)


def with_numbers(frame: DataFrame) -> DataFrame:
    """The rows, INTERVALs of months as numbers of them, which Arrow takes."""
    fields = frame.schema.fields
    if not any(isinstance(f.dataType, YearMonthIntervalType) for f in fields):
        return frame
    names = [f"_{i}" for i in range(len(fields))]
    columns = [
        f"CAST(CAST({name} AS INTERVAL MONTH) AS INT) AS {name}"
        if isinstance(field.dataType, YearMonthIntervalType)
        else name
        for name, field in zip(names, fields, strict=True)
    ]
    return frame.toDF(*names).selectExpr(*columns).toDF(*(f.name for f in fields))


def selected(frame: DataFrame) -> pa.Table:
    """The rows of a query. Raises: SqlViewError for columns of types that Arrow lacks."""
    try:
        return with_numbers(frame).toArrow()
    except PySparkTypeError as error:
        raise SqlViewError(
            "the query has a column of a type that Arrow lacks",
            detail=error.getMessage(),
            hint="Cast it to STRING, or read the rows by to_df().",
        ) from None


def told_intervals(table: pa.Table, frame: DataFrame) -> pa.Table:
    """What came of `with_numbers(frame)`, saying which INTERVALs its numbers of months are."""
    fields = []
    for came, given in zip(table.schema, frame.schema.fields, strict=True):
        if isinstance(given.dataType, YearMonthIntervalType):
            kind = given.dataType.simpleString().upper()
            fields.append(came.with_metadata({MONTHS: kind.encode()}))
        else:
            fields.append(came)
    return table.cast(pa.schema(fields, table.schema.metadata))


def reader(
    reading: Reading, parts: list[Part]
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """What takes numbers of parts to their rows, for `mapInArrow`."""

    def read(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                for rows in reading.batches(parts[number]):
                    yield rows.rename_columns(reading.schema.names)

    return read


def _in_files(parts: Iterable[Part], directory: str) -> Iterator[Part]:
    """The parts, what comes along with them in files."""
    make_directory(os.path.dirname(directory))
    make_directory(directory)
    for number, part in enumerate(parts):
        if part.rows:
            rows = pa.ipc.open_stream(part.rows).read_all()
            yield replace(part, rows=b"", path=spark_files.write_file(rows, directory, number))
        else:
            yield part


def _end(loan: Loan) -> None:
    if loan.directory is not None:
        discard_tree(loan.directory)
    if loan.reading.claim is not None:
        discard(loan.reading.claim)


def _presence(spark: SparkSession, rows: DataFrame) -> Callable[[], bool]:
    """What tells whether the rows of a DataFrame, fresh from `mapInArrow`, can still be read."""
    plan = getattr(rows, "_plan", None)
    if plan is not None:  # Spark Connect: plans are Python's, and refer to those under them
        found = weakref.ref(plan)
        return lambda: found() is not None
    with suppress(Exception):  # whatever Py4J raises where Spark has other names for it
        context: Any = spark.sparkContext
        function = rows._jdf.queryExecution().logical().functionExpr().func()
        held = context._jvm.java.lang.ref.WeakReference(function)
        return partial(_is_held, held)
    return lambda: True


def _is_held(reference: Any) -> bool:
    """Whether a weak reference of the JVM's still refers to something."""
    try:
        return reference.get() is not None
    except Exception:  # whatever Py4J raises where there is no JVM any more
        return False
