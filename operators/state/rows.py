"""Rows of a relation for those who only read them.

They lie in blocks (see `operators.kernels.memory`), of which there are the addresses, and which of
them are visible when is told by versions (see `operators.kernels.versions`). `Rows` as such never
change: any thread may read them, whatever the relation that they were taken from does meanwhile.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from ctypes import c_uint8
from typing import Any

import numpy as np
import pyarrow as pa

from operators.flight.column import Bools, Column, Ints, text_type
from operators.kernels import batches, encoding, memory, programs, versions
from operators.kernels.memory import BLOCK_BITS, BLOCK_MASK, BLOCK_ROWS
from operators.state.pieces import Array, Arrays, Home, Kinds, MappedArrays, MappedFiles
from operators.state.shared import Shared
from operators.state.storage import layout_of
from operators.state.told import Found
from planner.calculus import types as t

#: Versions as kernels take them: dead bits, births (first row, time), deaths (row, time).
Versions = tuple[Ints, Ints, Ints, Ints, Ints]
_EMPTY = np.empty(0, np.int64)
#: The dead bits and the ids of all blocks of which no row can be seen any more.
ALL_DEAD = np.full(BLOCK_ROWS // 8, 255, np.uint8)
NO_IDS = np.zeros(1, np.uint16)


def with_died(living: Ints, died: Ints) -> Ints:
    """Row ids, ascending: living ones, and some that died."""
    if len(died) == 0:
        return living
    both = np.concatenate((living, died))
    both.sort()
    return both


class Rows:
    """Rows of one schema with row ids and versions. State: the addresses of their blocks, and what
    is behind those; versions."""

    # Slots after those of the columns: dead bits, ids, and how many ids.
    def __init__(self, schema: t.Schema, shared: Shared) -> None:
        self.schema = schema
        self.share(shared)
        self.next_row = 0
        self.live_rows = 0
        self._lay_out()
        self._addresses = np.zeros((self._slots, 4), np.int64)
        self._has_nulls = [False] * len(schema)
        self._born_first = _EMPTY
        self._born_time = _EMPTY
        self._died_row = _EMPTY
        self._died_time = _EMPTY
        #: What the addresses point to.
        self._buffers: list[Arrays] = []
        #: What keeps those that no buffer does.
        self._holds: object = None
        #: The columns that can be read; None: all.
        self._readable: Collection[int] | None = None

    def _lay_out(self) -> None:
        """Give the columns their slots: those that come later lie behind."""
        self._layouts = tuple(layout_of(f.type) for f in self.schema)
        self._value_slot: list[int] = []
        slot = 0
        for layout in self._layouts:
            self._value_slot.append(slot)
            slot += 3 if layout.textual else 2
        # As batches.append takes them.
        lies = [
            batches.TEXTS if x.textual else batches.BYTES8 if x.storage.itemsize == 8
            else batches.BYTES4 for x in self._layouts
        ]  # fmt: skip
        self._lies = np.array([*zip(self._value_slot, lies, strict=True)], np.int64).reshape(-1, 2)
        self._dead_slot, self._ids_slot, self._kept_slot = slot, slot + 1, slot + 2
        self._slots = slot + 3

    def share(self, shared: Shared) -> None:
        """Be of the dataflow with these."""
        self.shared = shared
        self.work, self.hashing, self.undo = shared.work, shared.hashing, shared.undo

    @property
    def versions(self) -> Versions:
        return (
            self._addresses[self._dead_slot],
            self._born_first,
            self._born_time,
            self._died_row,
            self._died_time,
        )

    def gather(self, column: int, rows: Ints) -> Column:
        """Values of one column at `rows` (int64[n]; ids that some reader may see, any order)."""
        if self._readable is not None and column not in self._readable:
            raise LookupError(f"column {column} cannot be read here")
        return self._gather(column, rows)

    def gather_words(self, slots: Ints, rows: Ints, places: Ints, out: Ints) -> None:
        """out[:, places[i]] = the words at rows[i] of several columns: see `word_slots`.

        Shapes: rows, places int64[n], out int64[words, m]. Cost: one pass for all columns.
        """
        memory.gather_words(
            self._addresses, self._ids_slot, self._kept_slot, slots, rows, places, out
        )

    def places(self, slots: Ints) -> tuple[Ints, int, int, int]:
        """Where all lies, for kernels that find rows themselves and read the words of `slots` (see
        `word_slots`): the addresses int64[all slots, blocks], and which of their slots have dead
        bits, the places that compacted blocks kept, and how many rows are stored."""
        return self._addresses, self._dead_slot, self._ids_slot, self._kept_slot

    def slot_of(self, column: int) -> tuple[int, int]:
        """The slot of a column of numbers, and the bytes that each takes there."""
        layout = self._layouts[column]
        return self._value_slot[column], layout.storage.itemsize * layout.words

    def load_words(
        self,
        slots: Ints,
        columns: tuple[int, ...],
        rows: Ints,
        words: Ints,
        none: Bools,
        nullable: Ints,
    ) -> bool:
        """The words of `columns`, whose `slots` these are, at `rows`, as `kernels.programs.load`
        has them; returns whether they can be read in one go."""
        if self._readable is not None and not set(columns).issubset(self._readable):
            return False
        programs.load(
            self._addresses, self._ids_slot, self._kept_slot, slots, rows, words, none, nullable
        )
        return True

    def text_words(self, column: int, rows: Ints, out: Ints) -> bool:
        """The key words of texts at `rows`, int64[2, n], read where they lie; returns whether they
        are: there is no NULL, and none is so long that it is hashed (see operators.state.encode).
        """
        if self._has_nulls[column] or (self._readable is not None and column not in self._readable):
            return False
        return bool(
            encoding.stored_text_words(
                self._addresses, self._value_slot[column], self._ids_slot, self._kept_slot,
                rows, self.hashing.array, out,
            )
        )  # fmt: skip

    def gather_all(self, rows: Ints) -> list[Column]:
        return [self.gather(i, rows) for i in range(len(self.schema))]

    def word_slots(self, columns: Sequence[tuple[int, int]]) -> Ints:
        """What `gather_words` takes, of (column, the word of its output where the column's begin).
        The columns are stored in one or two words of 64 bits, and never NULL."""
        slots = [(self._value_slot[c], self._layouts[c].words, word) for c, word in columns]
        return np.array(slots, np.int64).reshape(-1, 3)

    def visible(self, time: int, first: int = 0, end: int | None = None) -> Ints:
        """Row ids visible as of `time`, ascending; of [first, end), where `first` begins a block.
        Cost: one pass over the rows stored."""
        return self._visible(first, self.next_row if end is None else end, time, self.versions)

    def visible_to_any(self, first: int = 0, end: int | None = None) -> Ints:
        """Row ids that some reader may see: the living, and the dead that still have a time; of
        [first, end), where `first` begins a block."""
        end = self.next_row if end is None else end
        living, died = self._living(first, end), self._died_row
        died = died[slice(*np.searchsorted(died, (first, end)))]
        return with_died(living, died)

    def stored_rows(self, block: int) -> int:
        """How many rows a block has in its buffers."""
        return int(self._addresses[self._kept_slot, block])

    def compacted_rows(self, block: int) -> int | None:
        """How many rows a compacted block kept; None for a block that was not compacted."""
        if self._addresses[self._ids_slot, block] == 0:
            return None
        return int(self._addresses[self._kept_slot, block])

    @property
    def has_nulls(self) -> tuple[bool, ...]:
        """For each column, whether some row may be NULL."""
        return tuple(self._has_nulls)

    # -- blocks ----------------------------------------------------------------------------------

    @property
    def kinds(self) -> Kinds:
        """The slots of values, and of ids."""
        kinds: dict[int, tuple[np.dtype[Any], int]] = {self._ids_slot: (np.dtype(np.uint16), 1)}
        for layout, slot in zip(self._layouts, self._value_slot, strict=True):
            kinds[slot] = layout.storage, layout.words
            kinds[slot + 1] = np.dtype(np.bool_), 1
            if layout.textual:
                kinds[slot + 2] = np.dtype(np.uint8), 1
        return kinds

    def slots_of(self, columns: Collection[int]) -> frozenset[int]:
        """The slots that hold the values of some columns."""
        slots = {self._ids_slot}
        for column in columns:
            layout, slot = self._layouts[column], self._value_slot[column]
            slots.update((slot, slot + 1, slot + 2) if layout.textual else (slot, slot + 1))
        return frozenset(slots)

    def _new_block(self) -> int:
        """A block without buffers; returns its number."""
        block = len(self._buffers)
        if block == self._addresses.shape[1]:
            grown = np.zeros((self._slots, 2 * block), np.int64)
            grown[:, :block] = self._addresses
            self._addresses = grown
        self._buffers.append([None] * self._slots)
        return block

    def _set(self, block: int, slot: int, buffer: Array | None) -> None:
        here = self._buffers[block]  # versions keep those that they have
        if isinstance(here, MappedArrays):
            self._buffers[block] = here.replaced(slot, buffer)
        else:
            self._buffers[block] = [*here[:slot], buffer, *here[slot + 1 :]]
        self._addresses[slot, block] = _address(buffer)

    def _set_all(self, block: int, rows: int, arrays: Mapping[int, Array | None]) -> None:
        """Give a block other arrays, by slot, which hold so many rows: all of them at once."""
        here = [arrays.get(slot, old) for slot, old in enumerate(self._buffers[block])]
        addresses = np.array([_address(buffer) for buffer in here], np.int64)
        addresses[self._kept_slot] = rows
        self._addresses[:, block] = addresses
        self._buffers[block] = here

    def _map(self, block: int, home: Home, kinds: Kinds, files: MappedFiles) -> None:
        """Have a block's values where they lie in a file, those of the slots in `kinds`."""
        there = set(home.places[:, 0].tolist())
        others = {
            slot: array
            for slot, array in enumerate(self._buffers[block])
            if array is not None and not (slot in there and slot in kinds)
        }
        arrays = MappedArrays(self._slots, files.file(home.file), home, kinds, others)
        for slot, address in arrays.addresses():
            self._addresses[slot, block] = address
        self._buffers[block] = arrays

    def _empty(self, block: int) -> None:
        """No row of the block can be seen any more."""
        none: dict[int, Array | None] = dict.fromkeys(range(self._slots))
        self._set_all(block, 0, none | {self._dead_slot: ALL_DEAD, self._ids_slot: NO_IDS})

    def _gather(self, column: int, rows: Ints) -> Column:
        field, layout, slot = self.schema[column], self._layouts[column], self._value_slot[column]
        values_at = self._addresses[slot]
        ids, kept = self._addresses[self._ids_slot], self._addresses[self._kept_slot]
        n = len(rows)
        values: Any
        if layout.textual:
            values = self._gather_text(field.type, slot, rows)
        elif layout.words == 2:
            values = np.empty((n, 2), np.int64)
            memory.gather_i128(values_at, ids, kept, rows, values)
        elif layout.storage.itemsize == 1:
            raw = np.empty(n, np.uint8)
            memory.gather_u8(values_at, ids, kept, rows, raw)
            values = raw.view(np.bool_)
        elif layout.storage == np.float32:
            raw4 = np.empty(n, np.int32)
            memory.gather_i32(values_at, ids, kept, rows, raw4)
            values = raw4.view(np.float32)
        elif layout.storage.itemsize == 4:
            values = np.empty(n, np.int64)
            memory.gather_i32(values_at, ids, kept, rows, values)
        else:
            words = np.empty(n, np.int64)
            memory.gather_i64(values_at, ids, kept, rows, words)
            values = words.view(np.float64) if layout.storage == np.float64 else words
        valid: Bools | None = None
        if self._has_nulls[column]:
            valid = np.empty(n, np.bool_)
            memory.gather_valid(self._addresses[slot + 1], ids, kept, rows, valid)
            if valid.all():
                valid = None
        return Column(field.type, values, valid)

    def _gather_text(self, kind: t.SqlType, slot: int, rows: Ints) -> pa.Array:
        ids, kept = self._addresses[self._ids_slot], self._addresses[self._kept_slot]
        offsets = np.empty(len(rows) + 1, np.int32)
        total = memory.text_offsets(self._addresses[slot], ids, kept, rows, offsets)
        if total >= 2**31:
            raise OverflowError("more than 2 GiB of text in one batch; use smaller batches")
        text = np.empty(total, np.uint8)
        memory.text_bytes(
            self._addresses[slot], self._addresses[slot + 2], ids, kept, rows, offsets, text
        )
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(text)]
        return pa.Array.from_buffers(text_type(kind), len(rows), buffers)

    def _living(self, first: int, end: int) -> Ints:
        """Rows of [first, end) that have not died at any time."""
        dead, born_first, born_time, _, _ = self.versions
        last = versions.NEVER - 1
        return self._visible(first, end, last, (dead, born_first, born_time, _EMPTY, _EMPTY))

    def _visible(self, first: int, end: int, time: int, of: Versions) -> Ints:
        """Rows of [first, end) visible as of `time` by versions `of`; `first` begins a block."""
        ids, kept = self._addresses[self._ids_slot], self._addresses[self._kept_slot]
        blocks = slice(first >> BLOCK_BITS, (end + BLOCK_MASK) >> BLOCK_BITS)
        out = np.empty(int(kept[blocks].sum()), np.int64)
        dead, born_first, born_time, died_row, died_time = of
        count = versions.visible_rows(
            first, end, time, dead, born_first, born_time, died_row, died_time, ids, kept, out
        )
        return out[:count]


def map_rows(
    made: Rows,
    columns: frozenset[int],
    next_row: int,
    has_nulls: Sequence[bool],
    versions: tuple[Ints, Ints, Ints, Ints],
    values: Found,
    values_at: Ints,
    dead: Found,
    dead_at: Ints,
    last_rows: int,
    last: Mapping[int, Array],
    holds: object,
) -> None:
    """Let `made`, which have none, be rows whose full blocks lie in files, which `holds` keeps.

    `columns`: those that can be read. `versions`: births (first row, time) and deaths (row, time).
    `values`: of each full block that there is its stored rows, and its arrays, by slot, which are
    at addresses `values_at` int64[n]; `dead`: likewise of each block with dead rows their bits.
    `last`: the bytes of the block that is being filled, by slot, which has `last_rows`. Cost: a few
    passes of kernels over what there is of blocks.
    """
    made._readable, made._holds = columns, holds
    made.next_row, made._has_nulls = next_row, list(has_nulls)
    made._born_first, made._born_time, made._died_row, made._died_time = versions
    blocks = (next_row + BLOCK_MASK) >> BLOCK_BITS
    made._addresses = addresses = np.zeros((made._slots, max(blocks, 4)), np.int64)
    made._buffers = [[None] * made._slots] * blocks  # a block that gets others gets a list
    number, rows = values.heads.T
    addresses[made._kept_slot, number] = rows
    wanted = np.zeros(made._slots, np.bool_)
    wanted[list(made.slots_of(columns))] = True
    here = wanted[values.places[:, 1]]
    addresses[values.places[here, 1], values.places[here, 0]] = values_at[here]
    empty = number[rows == 0]
    addresses[made._dead_slot, empty] = _address(ALL_DEAD)
    addresses[made._ids_slot, empty] = _address(NO_IDS)
    addresses[made._dead_slot, dead.places[:, 0]] = dead_at
    kinds = made.kinds
    for slot, raw in last.items():
        kind, words = kinds[slot]
        array = raw.view(kind)
        made._set(next_row >> BLOCK_BITS, slot, array.reshape(-1, 2) if words == 2 else array)
    if last_rows:
        addresses[made._kept_slot, next_row >> BLOCK_BITS] = last_rows


def bytes_at(address: int, nbytes: int) -> Array:
    """Memory that something else keeps, uint8[nbytes]."""
    found: Array = np.ctypeslib.as_array((c_uint8 * nbytes).from_address(address))
    return found


def _address(buffer: Array | None) -> int:
    return 0 if buffer is None else buffer.ctypes.data
