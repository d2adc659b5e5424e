"""Columns in flight: one NumPy (or Arrow) buffer of values, and a mask of NULLs.

    SQL type                    values                                   dtype
    BOOLEAN                     ndarray[n]                               bool
    TINYINT … BIGINT            ndarray[n]                               int64
    DATE (days), TIMESTAMP (µs) ndarray[n]                               int64
    INTERVAL (months or µs)     ndarray[n]                               int64
    FLOAT, DOUBLE               ndarray[n]                               float32, float64
    DECIMAL, narrow             ndarray[n], unscaled                     int64
    DECIMAL, wide               ndarray[n, 2], unscaled, two's           int64
                                complement: low word (as bits), high
    STRING, BINARY              pyarrow StringArray / BinaryArray
    ARRAY, MAP, STRUCT          pyarrow BinaryArray (operators.flight.nested)

A decimal of any precision may be narrow while its values fit 64 bits; one of more than 18 digits
may also be wide. Whoever makes a decimal column chooses; whoever reads one must take both.

Invariants: `valid` None means no NULL; where `valid` is False the value is some harmless value of
the dtype (0, "" …), never garbage that could overflow or fault; Arrow values carry no NULLs of
their own. Arrays handed out are read-only by convention: no operator writes to its input.

Columns that come in as 32-bit days, 16-byte decimals … are converted when somebody reads them
(`Unread`): of a wide table most are stored and never read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from operators.quick import quick
from operators.slabs import ROWS
from planner.calculus import types as t
from planner.errors import DataError

Ints: TypeAlias = npt.NDArray[np.int64]
Bools: TypeAlias = npt.NDArray[np.bool_]
_TAKE, _INT64 = pc.get_function("take"), pa.int64()
#: A NumPy array, or an Arrow array, which has no types to check against.
Values: TypeAlias = Any


@quick
@dataclass(frozen=True, slots=True)
class Column:
    """`values` and `valid` as the module describes; len() is the number of rows."""

    type: t.SqlType
    values: Values
    valid: Bools | None = None

    def __len__(self) -> int:
        return len(self.values)

    @property
    def wide(self) -> bool:
        """Whether this is a decimal of two words."""
        return isinstance(self.values, np.ndarray) and self.values.ndim == 2

    def take(self, rows: Ints) -> Column:
        """The rows at positions `rows` (int64[m], any order, repeats allowed). Cost: O(m)."""
        if isinstance(self.values, np.ndarray):
            values: Values = self.values[rows]
        else:
            values = taken(self.values, rows)
        return Column(self.type, values, None if self.valid is None else self.valid[rows])

    def filter(self, keep: Bools) -> Column:
        """The rows where `keep` (bool[n]) is set. Cost: O(n)."""
        if isinstance(self.values, np.ndarray):
            values: Values = self.values[keep]
        else:
            values = self.values.filter(pa.array(keep))
        return Column(self.type, values, None if self.valid is None else self.valid[keep])

    def part(self, start: int, end: int) -> Column:
        """The rows [start, end), which share the arrays. Cost: O(1)."""
        values = self.values
        some = (
            values[start:end]
            if isinstance(values, np.ndarray)
            else values.slice(start, end - start)
        )
        return Column(self.type, some, None if self.valid is None else self.valid[start:end])


class Unread(Column):
    """A column as it came in, without NULLs; `values` are converted at the first look.

    `raw`: integers of at most 64 bits, any dtype and stride, to which nobody writes.
    """

    __slots__ = ("_read", "raw")

    raw: np.ndarray[Any, Any]
    _read: Ints | None

    def __init__(self, kind: t.SqlType, raw: np.ndarray[Any, Any]) -> None:
        _set_type(self, kind)
        _set_valid(self, None)
        _set_raw(self, raw)
        _set_read(self, None)

    @property
    def values(self) -> Ints:
        if self._read is None:
            read = self.raw
            if read.dtype != np.int64:
                read = read.astype(np.int64)
            elif not read.flags.c_contiguous:
                # Whoever stores the column keeps these words, and not what came in.
                read = ROWS.copy(read, np.int64)
                _set_raw(self, read)
            _set_read(self, read)
        assert self._read is not None
        return self._read

    def __len__(self) -> int:
        return len(self.raw)

    @property
    def wide(self) -> bool:
        return False

    def take(self, rows: Ints) -> Column:
        return Column(self.type, self.raw[rows].astype(np.int64, copy=False))

    def filter(self, keep: Bools) -> Column:
        return Column(self.type, self.raw[keep].astype(np.int64, copy=False))

    def part(self, start: int, end: int) -> Column:
        return Unread(self.type, self.raw[start:end])


# A frozen class; `quick` says why not by name.
_set_type, _set_valid = (Column.__dict__[name].__set__ for name in ("type", "valid"))
_set_raw, _set_read = (Unread.__dict__[name].__set__ for name in ("raw", "_read"))


def taken(array: pa.Array, rows: Ints) -> pa.Array:
    """An Arrow array's values at positions int64[m]: `pa.Array.take` at half of its overhead."""
    places = pa.py_buffer(np.ascontiguousarray(rows, np.int64))
    return _TAKE.call([array, pa.Array.from_buffers(_INT64, len(rows), [None, places])])


def ones(n: int) -> Ints:
    """int64[n], read-only: those of most deltas' diffs, which need not be written each time."""
    return _ONES[:n] if n <= _SHARED else _read_only(np.ones(n, np.int64))


def counting(n: int) -> Ints:
    """0, 1 … n - 1, int64[n], read-only."""
    return _COUNTING[:n] if n <= _SHARED else _read_only(np.arange(n))


def _read_only(values: Ints) -> Ints:
    values.flags.writeable = False
    return values


#: As many rows as most steps have, at most.
_SHARED = 1 << 17
_ONES, _COUNTING = _read_only(np.ones(_SHARED, np.int64)), _read_only(np.arange(_SHARED))


def is_textual(kind: t.SqlType) -> bool:
    """Whether columns of the type lie in Arrow arrays."""
    return isinstance(kind, (t.StringType, t.BinaryType, t.NestedType))


def text_type(kind: t.SqlType) -> pa.DataType:
    """The Arrow type in which columns of a textual type lie."""
    return pa.string() if isinstance(kind, t.StringType) else pa.binary()


def flight_dtype(kind: t.SqlType) -> np.dtype[Any]:
    """The dtype of a column's NumPy values (wide decimals: of each word)."""
    match kind:
        case t.BooleanType() | t.NullType():
            return np.dtype(np.bool_)
        case t.FloatType():
            return np.dtype(np.float32 if kind.bits == 32 else np.float64)
        case t.IntegerType() | t.DateType() | t.TimestampType() | t.DecimalType():
            return np.dtype(np.int64)
        case t.IntervalType():
            return np.dtype(np.int64)
        case _:
            raise TypeError(f"{kind} does not lie in a NumPy array")


def null_column(kind: t.SqlType, n: int) -> Column:
    """`n` NULLs of a type."""
    nothing = np.zeros(n, np.bool_)
    if isinstance(kind, t.StringType):
        return Column(kind, pa.array([""] * n, pa.string()), nothing)
    if is_textual(kind):
        return Column(kind, pa.array([b""] * n, pa.binary()), nothing)
    return Column(kind, np.zeros(n, flight_dtype(kind)), nothing)


def take_or_null(column: Column, places: Ints) -> Column:
    """The values at `places`; NULL for -1."""
    present = places >= 0
    if present.all():
        return column.take(places)
    some = places[present]
    if len(some) == 0:
        return null_column(column.type, len(places))
    taken = column.take(np.where(present, places, some[0]))
    valid = present if taken.valid is None else taken.valid & present
    return Column(taken.type, taken.values, valid)


def concat(parts: list[Column]) -> Column:
    """Columns of one type one after the other; wide if any is. Needs at least one part."""
    if len(parts) == 1:
        return parts[0]
    kind = parts[0].type
    if is_textual(kind):
        values: Values = _concat([p.values for p in parts])
    else:
        wide = any(p.wide for p in parts)
        values = np.concatenate([widen(p).values if wide else p.values for p in parts])
    if all(p.valid is None for p in parts):
        return Column(kind, values)
    masks = [np.ones(len(p), np.bool_) if p.valid is None else p.valid for p in parts]
    return Column(kind, values, np.concatenate(masks))


def joined(parts: Sequence[Sequence[Column]]) -> Sequence[Column]:
    """Rows after rows: the columns of each part, of which there is at least one."""
    if len(parts) == 1:
        return parts[0]
    return [concat(list(columns)) for columns in zip(*parts, strict=True)]


def combined(array: pa.ChunkedArray) -> pa.Array:
    """The chunks of an Arrow column in one."""
    return _concat(array.chunks) if array.num_chunks else pa.array([], array.type)


def _concat(arrays: list[pa.Array]) -> pa.Array:
    try:
        return pa.concat_arrays(arrays)
    except pa.ArrowInvalid:
        nbytes = sum(a.nbytes for a in arrays)
        raise DataError(
            "a column has more text than one transaction takes",
            detail=f"It has {nbytes:,} bytes, and places in it are numbers of 32 bits.",
            hint="Give the rows in several transactions, of less than 2 GiB of text a column.",
        ) from None


def widen(column: Column) -> Column:
    """A decimal column in two words."""
    if column.wide:
        return column
    return Column(column.type, two_words(np.asarray(column.values)), column.valid)


def two_words(values: Ints) -> Ints:
    """Words int64[n] as pairs int64[n, 2] of the same numbers, the low one first."""
    out = np.empty((len(values), 2), np.int64)
    out[:, 0] = values
    np.right_shift(values, 63, out=out[:, 1])
    return out


def narrow(column: Column) -> Column | None:
    """A decimal column in one word, or None where a value does not fit."""
    if not column.wide:
        return column
    words = np.asarray(column.values)
    if (words[:, 0] >> 63 == words[:, 1]).all():
        return Column(column.type, np.ascontiguousarray(words[:, 0]), column.valid)
    return None


def passing(value: Column) -> Bools:
    """Rows whose BOOLEAN is TRUE, not FALSE or NULL."""
    result: Bools = value.values if value.valid is None else value.values & value.valid
    return result
