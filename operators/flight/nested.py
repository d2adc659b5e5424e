"""Values of nested types as bytes that compare as the values do.

A column of ARRAY, MAP or STRUCT lies in flight, and in relations, as an Arrow array of binaries:
whatever stores, hashes, compares, sorts or sends texts does so with them, and knows nothing of what
is inside. Equal values have equal bytes, and bytes are ordered as Spark orders the values (NULL
first, NaN last, a list before those that go on behind it).

    array   each element with its mark, then END
    map     each entry with its mark (VALUE), key and value with theirs, then END
    struct  each field with its mark
    mark    END 0, NULL 1, VALUE 2; a value follows VALUE alone
    texts   their bytes, FF behind each 00, then 00 00
    others  8 bytes, the greatest first, so that they are ordered (BOOLEAN 1, wide decimals 16)

What is NULL as a whole has no bytes, and is read as an empty list, or as a struct of NULLs.

Deviation: -0.0 becomes 0.0 inside, and every NaN alike. Source: the tuple layer of FoundationDB.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from operators.flight.column import (
    Bools,
    Column,
    Ints,
    Values,
    flight_dtype,
    null_column,
    text_type,
    widen,
)
from operators.kernels import nested as kernels
from planner.calculus import types as t
from planner.errors import DataError

_EMPTY = np.empty(0, np.uint8)
_TOP = np.uint64(1 << 63)
_NULL, _VALUE, _ZERO = b"\x01", b"\x02", b"\x00"
_NULL_SCALAR = pa.scalar(_NULL, pa.binary())


@dataclass(frozen=True, slots=True)
class Pieces:
    """Marked values in bytes that they share: value i is data[first[i]:last[i]]."""

    data: np.ndarray[Any, np.dtype[np.uint8]]
    first: Ints
    last: Ints

    def __len__(self) -> int:
        return len(self.first)

    def take(self, rows: Ints) -> Pieces:
        return Pieces(self.data, self.first[rows], self.last[rows])

    def binaries(self) -> pa.Array:
        """Each with its mark, as a binary. Cost: a copy."""
        return _copied(self.data, self.first, self.last)


@dataclass(frozen=True, slots=True)
class Lists:
    """The elements of a column of lists: those of row i are offsets[i] to offsets[i + 1]."""

    offsets: Ints
    pieces: Pieces

    @property
    def rows(self) -> Ints:
        """Of each element, the row that it is in."""
        return np.repeat(np.arange(len(self.offsets) - 1), np.diff(self.offsets))


# ------------------------------------------------------------------------------------- taken apart


def lists(column: Column) -> Lists:
    """The elements of arrays, or entries of maps. Cost: one pass over the bytes."""
    data, starts, ends = _bytes_of(column.values)
    program, stack = _walked(column.type)
    sizes = np.empty(len(starts), np.int64)
    kernels.list_lengths(program, data, starts, ends, sizes, stack)
    offsets = offsets_of(sizes)
    first, last = np.empty(offsets[-1], np.int64), np.empty(offsets[-1], np.int64)
    kernels.list_elements(program, data, starts, ends, first, last, stack)
    return Lists(offsets, Pieces(data, first, last))


def lengths(column: Column) -> Ints:
    """How many elements, or entries, each row has."""
    data, starts, ends = _bytes_of(column.values)
    program, stack = _walked(column.type)
    found = np.empty(len(starts), np.int64)
    kernels.list_lengths(program, data, starts, ends, found, stack)
    return found


def field(column: Column, position: int) -> Column:
    """A field of structs; NULL in those that are NULL."""
    assert isinstance(column.type, t.StructType)
    data, starts, ends = _bytes_of(column.values)
    program, stack = _walked(column.type)
    first, last = np.empty(len(starts), np.int64), np.empty(len(starts), np.int64)
    kernels.struct_field(program, data, starts, ends, position, first, last, stack)
    return values(column.type.fields[position].type, Pieces(data, first, last))


def keys_and_values(kind: t.MapType, entries: Pieces) -> tuple[Column, Column]:
    """Of the entries of maps."""
    pairs = values(entry_type(kind), entries)
    return field(pairs, 0), field(pairs, 1)


def entry_type(kind: t.MapType) -> t.StructType:
    return t.StructType((t.Field("key", kind.key, False), t.Field("value", kind.value)))


def element_type(kind: t.SqlType) -> t.SqlType:
    """What a list of that type has."""
    return kind.element if isinstance(kind, t.ArrayType) else entry_type(_map(kind))


def values(kind: t.SqlType, pieces: Pieces) -> Column:
    """Marked values of one type as a column."""
    there = pieces.last > pieces.first
    if len(pieces.data):
        there &= pieces.data[np.where(there, pieces.first, 0)] == kernels.VALUE
    valid = None if there.all() else there
    n = len(pieces)
    if isinstance(kind, t.NullType):
        return null_column(kind, n)
    if isinstance(kind, (t.StringType, t.BinaryType)):
        return Column(kind, _texts(kind, pieces, there), valid)
    if isinstance(kind, t.NestedType):
        first = np.where(there, pieces.first + 1, 0)
        return Column(kind, _copied(pieces.data, first, np.where(there, pieces.last, 0)), valid)
    starts = np.where(there, pieces.first + 1, -1)
    return Column(kind, _numbers(kind, pieces.data, starts, there), valid)


def _numbers(kind: t.SqlType, data: Any, starts: Ints, there: Bools) -> Values:
    width = _width(kind)
    words = np.empty(len(starts), np.int64)
    kernels.words_at(data, starts, min(width, 8), words)
    if isinstance(kind, t.BooleanType):
        return words != 0
    if width == 16:
        low = np.empty(len(starts), np.int64)
        kernels.words_at(data, np.where(there, starts + 8, -1), 8, low)
        high = np.where(there, _unsigned(words), 0)
        return np.stack([np.where(there, low, 0), high], axis=1)
    number = np.where(there, _unsigned(words), 0)
    if isinstance(kind, t.FloatType):
        bits = np.where(number < 0, number ^ np.int64(2**63 - 1), number)
        return bits.view(np.float64).astype(flight_dtype(kind))
    return number


def _unsigned(words: Ints) -> Ints:
    """Ordered bytes as numbers with a sign, and back."""
    changed: Ints = (words.view(np.uint64) ^ _TOP).view(np.int64)
    return changed


def _texts(kind: t.SqlType, pieces: Pieces, there: Bools) -> pa.Array:
    starts = np.where(there, pieces.first + 1, 0)
    ends = np.where(there, pieces.last - 2, 0)
    sizes = np.empty(len(starts), np.int64)
    kernels.text_lengths(pieces.data, starts, ends, sizes)
    places = offsets_of(sizes)
    out = np.empty(places[-1], np.uint8)
    kernels.copy_texts(pieces.data, starts, ends, places, out)
    return _array(text_type(kind), places, out)


# ---------------------------------------------------------------------------------- put together


def marked(column: Column) -> pa.Array:
    """Each value with its mark, as a binary."""
    kind, n = column.type, len(column)
    if isinstance(kind, t.NullType):
        return pa.repeat(_NULL_SCALAR, n)
    if isinstance(kind, (t.StringType, t.BinaryType)):
        plain = column.values.cast(pa.binary())
        if _has_zero(plain):
            plain = pc.replace_substring(plain, pattern=_ZERO, replacement=b"\x00\xff")
        return _null_marks(pc.binary_join_element_wise(_VALUE, plain, b"\x00\x00", b""), column)
    if isinstance(kind, t.NestedType):
        filled = _filled(kind, column.values)
        return _null_marks(pc.binary_join_element_wise(_VALUE, filled, b""), column)
    width = _width(kind)
    rows = np.empty((n, 1 + width), np.uint8)
    rows[:, 0] = kernels.VALUE
    rows[:, 1:] = _ordered(column, width)
    if column.valid is None:
        return _array(pa.binary(), np.arange(n + 1) * (1 + width), rows.reshape(-1))
    rows[~column.valid, 0] = kernels.NULL
    kept = np.ones((n, 1 + width), np.bool_)
    kept[~column.valid, 1:] = False
    return _array(pa.binary(), offsets_of(kept.sum(axis=1)), rows[kept])


def _has_zero(texts: pa.Array) -> bool:
    return bool(pc.any(pc.greater_equal(pc.find_substring(texts, _ZERO), 0)).as_py())


def _null_marks(texts: pa.Array, column: Column) -> pa.Array:
    if column.valid is None:
        return texts
    return pc.if_else(pa.array(column.valid), texts, _NULL_SCALAR)


def _filled(kind: t.SqlType, values: pa.Array) -> pa.Array:
    """With bytes where there are none, under NULLs."""
    blank = b"\x00" if not isinstance(kind, t.StructType) else _NULL * len(kind.fields)
    return pc.if_else(pc.equal(pc.binary_length(values), 0), pa.scalar(blank, pa.binary()), values)


def _ordered(column: Column, width: int) -> Any:
    """Numbers as ordered bytes, uint8[n, width]."""
    kind, n = column.type, len(column)
    if isinstance(kind, t.BooleanType):
        return column.values.astype(np.uint8).reshape(n, 1)
    if width == 16:
        words = widen(column).values
        both = np.stack([_unsigned(np.ascontiguousarray(words[:, 1])), words[:, 0]], axis=1)
        return both.astype(">i8").view(np.uint8).reshape(n, 16)
    numbers = column.values
    if isinstance(kind, t.FloatType):
        doubles = numbers.astype(np.float64) + 0.0
        bits = np.where(np.isnan(doubles), np.nan, doubles).view(np.int64)
        numbers = np.where(bits < 0, bits ^ np.int64(2**63 - 1), bits)
    elif numbers.ndim == 2:  # a narrow decimal that lies in two words
        numbers = numbers[:, 0]
    ordered = _unsigned(np.ascontiguousarray(numbers, np.int64))
    return ordered.astype(">i8").view(np.uint8).reshape(n, 8)


def from_lists(kind: t.SqlType, offsets: Ints, elements: Column, valid: Bools | None) -> Column:
    """Arrays of elements, or maps of entries: those of row i are offsets[i] to offsets[i + 1]."""
    return from_pieces(kind, offsets, pieces_of(marked(elements)), valid)


def from_pieces(kind: t.SqlType, offsets: Ints, pieces: Pieces, valid: Bools | None) -> Column:
    """As `from_lists`, of elements that lie in bytes."""
    sizes = pieces.last - pieces.first
    inner = offsets_of(sizes)
    ends = inner[offsets] + np.arange(len(offsets))  # an END behind each row
    out = np.zeros(ends[-1] if len(ends) else 0, np.uint8)
    places = inner[:-1] + np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    kernels.copy_ranges(pieces.data, pieces.first, pieces.last, places, out)
    return Column(kind, _array(pa.binary(), ends, out), valid)


def from_fields(kind: t.StructType, fields: Sequence[Column], valid: Bools | None) -> Column:
    """Structs of their fields."""
    parts = [marked(column) for column in fields]
    return Column(kind, pc.binary_join_element_wise(*parts, b""), valid)


def pieces_of(binaries: pa.Array) -> Pieces:
    """Marked values, each a binary."""
    return Pieces(*_bytes_of(binaries))


def joined(parts: Sequence[Pieces]) -> Pieces:
    """One after the other."""
    shifts = np.cumsum([0, *(len(p.data) for p in parts[:-1])]).tolist()
    return Pieces(
        np.concatenate([p.data for p in parts]),
        np.concatenate([p.first + s for p, s in zip(parts, shifts, strict=True)]),
        np.concatenate([p.last + s for p, s in zip(parts, shifts, strict=True)]),
    )


# -------------------------------------------------------------------------------------------- bytes


def _width(kind: t.SqlType) -> int:
    match kind:
        case t.BooleanType():
            return 1
        case t.DecimalType() if not kind.narrow:
            return 16
        case _:
            return 8


def _bytes_of(values: pa.Array) -> tuple[Any, Ints, Ints]:
    """The bytes of binaries, and where each begins and ends."""
    _, raw_offsets, raw = values.buffers()
    if len(values) == 0:
        return _EMPTY, np.zeros(0, np.int64), np.zeros(0, np.int64)
    offsets = np.frombuffer(raw_offsets, np.int32, len(values) + 1, 4 * values.offset)
    data = _EMPTY if raw is None or not raw.size else np.frombuffer(raw, np.uint8)
    ends = offsets.astype(np.int64)
    return data, np.ascontiguousarray(ends[:-1]), np.ascontiguousarray(ends[1:])


def offsets_of(sizes: Ints | Sequence[int]) -> Ints:
    """Where each of lists of these sizes begins, one after the other, and the last one ends."""
    out = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=out[1:])
    return out


def _copied(data: Any, first: Ints, last: Ints) -> pa.Array:
    places = offsets_of(last - first)
    out = np.empty(places[-1], np.uint8)
    kernels.copy_ranges(data, first, last, places, out)
    return _array(pa.binary(), places, out)


def _array(kind: pa.DataType, offsets: Ints, data: Any) -> pa.Array:
    if offsets[-1] >= 2**31:
        raise DataError(
            "a column has more bytes than one transaction takes",
            hint="Give the rows in several transactions, of less than 2 GiB a column.",
        )
    buffers = [None, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(data)]
    return pa.Array.from_buffers(kind, len(offsets) - 1, buffers)


def _walked(kind: t.SqlType) -> tuple[Ints, Ints]:
    """The type as kernels read it, and a stack for it."""
    program = _program(kind)
    return program, np.empty(len(program) + 8, np.int64)


@functools.lru_cache(maxsize=1024)
def _program(kind: t.SqlType) -> Ints:
    program: list[int] = []
    waiting = [kind]
    for node in waiting:  # which grows: parts of a node follow each other
        parts = _parts(node)
        if isinstance(node, (t.ArrayType, t.MapType)):
            program += [kernels.LIST, len(waiting), 1]
        elif isinstance(node, t.StructType):
            program += [kernels.STRUCT, len(waiting), len(parts)]
        elif isinstance(node, (t.StringType, t.BinaryType)):
            program += [kernels.TEXT, 0, 0]
        else:
            program += [kernels.FIXED, _width(node), 0]
        waiting += parts
    made = np.array(program, np.int64)
    made.flags.writeable = False
    return made


def _parts(kind: t.SqlType) -> tuple[t.SqlType, ...]:
    return (entry_type(kind),) if isinstance(kind, t.MapType) else t.parts_of(kind)


def _map(kind: t.SqlType) -> t.MapType:
    assert isinstance(kind, t.MapType)
    return kind
