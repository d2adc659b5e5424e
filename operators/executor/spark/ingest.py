"""Reading a DataFrame in parallel: Spark's tasks write what they read, the driver maps the files.

Every task writes its partition as Arrow IPC files and returns their names, so that no row passes
through Spark's driver. A task that is tried again writes again, under another name; only the names
that the job returned count. The files are deleted as soon as they are mapped, and those of lost
attempts with them: the mapping keeps the bytes while a table uses them.

Invariant: the tables hold the DataFrame's rows once each, in the order of its partitions.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import types as st

from operators.state.files import absolute, discard, discard_named, make_directory, mapped, written
from planner.errors import DataError

#: A task begins another file after so many bytes.
FILE_BYTES = 256 << 20

_TYPES = frozenset(
    (
        st.NullType, st.BooleanType, st.ByteType, st.ShortType, st.IntegerType, st.LongType,
        st.FloatType, st.DoubleType, st.DecimalType, st.StringType, st.CharType, st.VarcharType,
        st.BinaryType, st.DateType, st.TimestampType, st.TimestampNTZType,
        st.DayTimeIntervalType,
    )
)  # fmt: skip
_SCHEMA = "partition int, sequence int, name string, rows long"


def read_dataframe(df: DataFrame, directory: str) -> list[pa.Table]:
    """The rows of `df` as memory-mapped Arrow tables, one for each file; none if it has no rows.

    `directory`: seen under this path by this process and all executors. Types are what Spark
    makes of its own: decimal128, string, date32, timestamps in microseconds …
    Raises: DataError for a column of another type; OSError for a directory that cannot be used.
    Cost: one Spark job; the rows are written once, and read when somebody looks at them.
    """
    check_types(df)
    directory = absolute(directory)
    make_directory(directory)
    prefix = f"ingest-{uuid.uuid4().hex}"
    try:
        written = df.mapInArrow(_writer(os.path.join(directory, prefix)), _SCHEMA).toArrow()
        rows = sorted(written.to_pylist(), key=lambda r: (r["partition"], r["sequence"]))
        tables = [_mapped(os.path.join(directory, os.path.basename(r["name"]))) for r in rows]
        for row, table in zip(rows, tables, strict=True):
            if row["rows"] != len(table):
                raise OSError(f"{row['name']} has {len(table)} rows instead of {row['rows']}")
        return tables
    finally:
        discard_named(directory, prefix)


def _writer(prefix: str) -> Any:
    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from operators.executor.spark.ingest import write_partition

        yield from write_partition(prefix, batches)

    return write


def write_partition(prefix: str, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Write one partition, in a task; yields a row for each complete file."""
    from pyspark import TaskContext

    context = TaskContext.get()
    partition, attempt = (
        (0, 0) if context is None else (context.partitionId(), context.taskAttemptId())
    )
    pending = next(batches, None)
    sequence = 0
    while pending is not None:
        path = f"{prefix}-{attempt}-{uuid.uuid4().hex}"
        rows = size = 0
        with written(path) as file, pa.ipc.new_file(file, pending.schema) as writer:
            while pending is not None and size < FILE_BYTES:
                writer.write_batch(pending)
                rows += pending.num_rows
                size += pending.nbytes
                pending = next(batches, None)
        if rows:
            row = ([partition], [sequence], [os.path.basename(path)], [rows])
            types = (pa.int32(), pa.int32(), pa.string(), pa.int64())
            yield pa.record_batch(
                [pa.array(v, k) for v, k in zip(row, types, strict=True)],
                ["partition", "sequence", "name", "rows"],
            )
            sequence += 1
        else:
            discard(path)


def check_types(df: DataFrame) -> None:
    """Raises: DataError for a column of a type that no table has."""
    for field in df.schema.fields:
        if not _is_known(field.dataType):
            raise DataError(
                f'cannot take column "{field.name}" of type {field.dataType.simpleString()}',
                hint="Select columns of numbers, strings, booleans, dates and timestamps, and of "
                "arrays, maps and structs of them; months of intervals within these as INT.",
            )


def _is_known(kind: st.DataType) -> bool:
    match kind:
        case st.ArrayType():
            return _is_known(kind.elementType)
        case st.MapType():
            return _is_known(kind.keyType) and _is_known(kind.valueType)
        case st.StructType():
            return bool(kind.fields) and all(_is_known(f.dataType) for f in kind.fields)
        case _:
            return type(kind) in _TYPES


def _mapped(path: str) -> pa.Table:
    return pa.ipc.open_file(pa.py_buffer(mapped(path))).read_all()
