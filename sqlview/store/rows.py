"""Rows in a record: an Arrow record batch without its schema, which the table says.

Columns have the types of the table's, but for decimals of up to 18 digits, which are their unscaled
integers, as they are stored: writing those copies what is there, and reading them converts nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from operators.flight import arrow
from operators.flight.column import Column, Unread
from planner.calculus import types as t
from planner.calculus.types import Schema

_INTEGRAL = (t.IntegerType, t.DateType, t.TimestampType, t.IntervalType)


#: From so many rows on they are not copied, which costs some calls.
_LARGE_ROWS = 4096


def packed(columns: Sequence[Column], schema: Schema) -> list[memoryview]:
    """The columns as bytes, one part after the other. Cost: a copy of few rows; of many none but
    of columns that have another form."""
    arrays = [_array(c, f.type) for c, f in zip(columns, schema, strict=True)]
    batch = pa.RecordBatch.from_arrays(arrays, schema=_arrow_schema(schema))
    if batch.num_rows < _LARGE_ROWS:
        return [memoryview(batch.serialize())]
    parts = _Parts()
    with pa.ipc.new_stream(pa.PythonFile(parts, mode="w"), batch.schema) as writer:
        writer.write_batch(batch)
        found = list(parts.written)  # without the end of the stream
    begins = batch.schema.serialize().size
    while begins > 0:
        begins -= len(found.pop(0))
    assert begins == 0, "a stream begins with its schema"
    return found


class _Parts:
    """A file that keeps what is written to it as it is."""

    closed = False

    def __init__(self) -> None:
        self.written: list[memoryview] = []
        self._nbytes = 0

    def write(self, data: Any) -> int:
        part = memoryview(data).cast("B")
        self.written.append(part)
        self._nbytes += len(part)
        return len(part)

    def tell(self) -> int:
        return self._nbytes

    def flush(self) -> None:
        pass

    def close(self) -> None:
        pass


def unpacked(data: memoryview, schema: Schema) -> list[Column]:
    """What `packed` was given."""
    batch = pa.ipc.read_record_batch(pa.py_buffer(data), _arrow_schema(schema))
    return [_column(array, field) for array, field in zip(batch.columns, schema, strict=True)]


def _array(column: Column, kind: t.SqlType) -> pa.Array:
    stored = _stored_type(kind)
    if isinstance(kind, t.NestedType):
        return arrow.from_column(column, t.BINARY)
    if not (_is_unscaled(kind) or isinstance(kind, _INTEGRAL)):
        return arrow.from_column(column, kind)
    values: Any = column.raw if isinstance(column, Unread) else column.values
    data = np.ascontiguousarray(values, np.dtype(f"i{stored.bit_width // 8}"))
    valid = None if column.valid is None else pa.array(column.valid).buffers()[1]
    return pa.Array.from_buffers(stored, len(column), [valid, pa.py_buffer(data)])


def _column(array: pa.Array, field: t.Field) -> Column:
    if isinstance(field.type, t.NestedType):
        inside = arrow.to_column(array, t.Field(field.name, t.BINARY, field.nullable))
        return Column(field.type, inside.values, inside.valid)
    if not _is_unscaled(field.type):
        return arrow.to_column(array, field)
    valid = None
    if array.null_count:
        valid = array.is_valid().to_numpy(zero_copy_only=False)
    values = np.frombuffer(array.buffers()[1], np.int64, len(array))
    return Column(field.type, values, valid)


def _is_unscaled(kind: t.SqlType) -> bool:
    return isinstance(kind, t.DecimalType) and kind.narrow


@lru_cache(maxsize=1024)
def _arrow_schema(schema: Schema) -> pa.Schema:
    # By position: a name may be there twice.
    return pa.schema([(str(i), _stored_type(f.type)) for i, f in enumerate(schema)])


@lru_cache(maxsize=1024)
def _stored_type(kind: t.SqlType) -> pa.DataType:
    if isinstance(kind, t.NestedType):
        return pa.binary()
    return pa.int64() if _is_unscaled(kind) else arrow.arrow_type(kind)
