"""How values lie in a relation's blocks, and what is copied to get them there.

Many rows at once become blocks of their own (`Adopted`). Their columns stay as they came until
somebody reads them through the blocks: of a wide table most are never read, and what is read of a
step's own rows is read from the columns. An array is taken over where it has the block's layout;
it is copied where it has another one, where somebody may still write to it, or where it is a small
part of what it keeps in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from operators.flight.column import Bools, Column, Unread, widen
from operators.kernels.memory import BLOCK_BITS, BLOCK_ROWS
from operators.slabs import ROWS, is_slab, owner_of
from planner.calculus import types as t

#: An array that came in is taken over unless it keeps this many times its bytes in memory.
_WASTE = 4


@dataclass(frozen=True, slots=True)
class Layout:
    """How values of one type lie in a block: `storage` dtype and words per row."""

    storage: np.dtype[Any]
    words: int
    textual: bool


def layout_of(kind: t.SqlType) -> Layout:
    match kind:
        case t.BooleanType() | t.NullType():
            return Layout(np.dtype(np.uint8), 1, False)
        case t.IntegerType() if kind.bits < 64:
            return Layout(np.dtype(np.int32), 1, False)
        case t.DateType():
            return Layout(np.dtype(np.int32), 1, False)
        case t.FloatType():
            return Layout(np.dtype(np.float32 if kind.bits == 32 else np.float64), 1, False)
        case t.DecimalType() if not kind.narrow:
            return Layout(np.dtype(np.int64), 2, False)
        case t.StringType() | t.BinaryType() | t.NestedType():
            return Layout(np.dtype(np.int32), 1, True)
        case _:
            return Layout(np.dtype(np.int64), 1, False)


#: The buffers of one column in one block: values or offsets, validity, bytes of texts.
Buffers = tuple[np.ndarray[Any, Any], np.ndarray[Any, Any] | None, np.ndarray[Any, Any] | None]


class Adopted:
    """Rows that are blocks of their own, from block `first_block` on.

    State: the columns that some block has no buffers of yet.
    """

    __slots__ = ("_columns", "_left", "first_block", "rows")

    def __init__(self, first_block: int, rows: int, columns: Sequence[Column]) -> None:
        self.first_block = first_block
        self.rows = rows
        self._columns = {i: _apart(c) for i, c in enumerate(columns)}
        self._left = [len(self.blocks)] * len(columns)

    @property
    def blocks(self) -> range:
        return range(self.first_block, self.first_block - (-self.rows >> BLOCK_BITS))

    def nbytes(self, column: int, block: int) -> int:
        """Bytes that a block takes of a column that is still as it came."""
        start, end = self._places(block)
        return _nbytes(self._columns[column]) * (end - start) // self.rows

    def unread(self, column: int, layout: Layout) -> np.ndarray[Any, Any] | None:
        """The integers of a column that is still as it came, if blocks need a copy of them."""
        values = self._columns[column]
        if not isinstance(values, Unread):
            return None
        raw = values.raw
        return None if raw.dtype == layout.storage and raw.flags.c_contiguous else raw

    def settle(self, column: int, layout: Layout, block: int) -> Buffers:
        """The buffers of a column for one block, which has them from now on.

        Cost: one copy, unless the arrays are taken over.
        """
        buffers = self.buffers(column, layout, block)()
        self.leave(column)  # only now: whoever fails before tries again
        return buffers

    def buffers(self, column: int, layout: Layout, block: int) -> Callable[[], Buffers]:
        """What makes the buffers of a column for one block, in any thread, whoever has let the
        column go by then."""
        return partial(_buffers, self._columns[column], layout, *self._places(block))

    def leave(self, column: int) -> None:
        """One block more does not need the column as it came; the last one lets it go."""
        self._left[column] -= 1
        if self._left[column] == 0:
            del self._columns[column]

    def _places(self, block: int) -> tuple[int, int]:
        start = (block - self.first_block) << BLOCK_BITS
        return start, min(start + BLOCK_ROWS, self.rows)


def can_wait(column: Column) -> bool:
    """Whether a column may stay as it came: nobody can write to it, and it keeps little more than
    itself in memory."""
    if column.valid is not None:
        return False
    if isinstance(column, Unread):
        return _is_most(column.raw)
    values = column.values
    if isinstance(values, np.ndarray):
        return not values.flags.writeable and _is_most(values)
    _, offsets, text = values.buffers()
    if text is None or offsets.size > _WASTE * 4 * len(values):
        return False
    return bool(text.size <= _WASTE * _text_bytes(values, 0, len(values))[1])


def _apart(column: Column) -> Column:
    """The column without what its readers convert: whole words only are stored as they are read."""
    if isinstance(column, Unread) and column.raw.dtype != np.int64:
        return Unread(column.type, column.raw)
    return column


def _nbytes(column: Column) -> int:
    if isinstance(column, Unread):
        return _span(column.raw)
    return int(column.values.nbytes)


def stored_values(column: Column, layout: Layout) -> np.ndarray[Any, Any]:
    """Values, not of texts, to be written to blocks; their dtype may still be another."""
    if isinstance(column, Unread):
        return column.raw
    values: np.ndarray[Any, Any] = widen(column).values if layout.words == 2 else column.values
    return values


def _buffers(column: Column, layout: Layout, start: int, end: int) -> Buffers:
    valid: Bools | None = None
    if column.valid is not None:
        valid = _own(column.valid[start:end], np.dtype(np.bool_))
    if layout.textual:
        offsets, text = _texts(column.values, start, end - start)
        return offsets, valid, text
    if layout.words == 2:  # only this part of them is widened
        column, start, end = Column(column.type, column.values[start:end]), 0, end - start
    return _own(stored_values(column, layout)[start:end], layout.storage), valid, None


def repeated(
    value: Column, layout: Layout, count: int, room: int
) -> list[np.ndarray[Any, Any] | None]:
    """The buffers of a block with one value `count` times, and room for `room` values: as many as
    the layout has slots."""
    valid = None if value.valid is None else np.repeat(value.valid, room)
    if not layout.textual:
        return [
            ROWS.copy(np.repeat(stored_values(value, layout), room, axis=0), layout.storage),
            valid,
        ]
    offsets, text = _texts(value.values, 0, 1)
    if int(offsets[1]) * room >= 2**31:
        raise OverflowError("a block of 65,536 rows holds at most 2 GiB of text a column")
    ends = np.arange(room + 1, dtype=np.int32) * offsets[1]
    return [ends.astype(np.int32), valid, np.tile(text[: offsets[1]], count)]


def _is_most(values: np.ndarray[Any, Any]) -> bool:
    """Whether an array is not a small part of what it keeps in memory."""
    owner = owner_of(values)
    held = getattr(owner, "nbytes", getattr(owner, "size", values.nbytes))
    return bool(held <= _WASTE * _span(values))


def _span(values: np.ndarray[Any, Any]) -> int:
    """Bytes from an array's first value to its last."""
    return values.strides[0] * len(values)


def _own(values: np.ndarray[Any, Any], storage: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """The array as it is stored: itself, or a copy."""
    if storage == np.uint8:
        values = values.view(np.uint8)
    if values.dtype == storage and values.flags.c_contiguous:
        if is_slab(owner_of(values)) or (not values.flags.writeable and _is_most(values)):
            return values
    return ROWS.copy(values, storage)


def _text_bytes(values: pa.Array, start: int, count: int) -> tuple[int, int]:
    """Where the bytes of `count` texts from `start` on begin, and how many there are."""
    _, offsets, _ = values.buffers()
    ends = np.frombuffer(offsets, np.int32, count + 1, (values.offset + start) * 4)
    return int(ends[0]), int(ends[-1]) - int(ends[0])


def _texts(
    values: pa.Array, start: int, count: int
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Offsets int32[count + 1] from 0 and bytes of `count` texts from `start` on."""
    _, source_offsets, source = values.buffers()
    offsets = np.frombuffer(source_offsets, np.int32, count + 1, (values.offset + start) * 4)
    first, length = int(offsets[0]), int(offsets[-1]) - int(offsets[0])
    text = np.empty(0, np.uint8)
    if length:
        text = np.frombuffer(source, np.uint8, length, first)
        if source.size > _WASTE * length:
            text = ROWS.copy(text, np.uint8)
    if first == 0 and source_offsets.size <= _WASTE * offsets.nbytes:
        return offsets, text
    rebased = ROWS.empty((count + 1,), np.int32)
    np.subtract(offsets, first, out=rebased)
    return rebased, text
