"""A relation: each row of a table or derived collection, once, in columns.

Rows are appended and never changed. A row is named by its row id, which ascends with time and never
recurs. They lie in blocks of up to 65,536 (see `operators.kernels.memory`): the last one is being
filled, those before it are immutable, and one that is mostly dead is rewritten with the rows that
some reader may still see, under the same ids, so that no index is touched. Of a block without such
rows only its addresses stay. The last block is no exception: when it is mostly dead it is closed
before it is full, and the next rows begin another, so that a small relation that changes all the
time stays small.

A few rows are copied into the block that is being filled. Many at once become blocks of their own,
which take over the arrays that they came in, column by column when somebody reads them through the
blocks (see `operators.state.storage`); the row ids that such a block leaves unused name no row.

Versions are kept apart from the rows (see `operators.kernels.versions`): appending gives births,
`kill` gives deaths, and `advance` forgets the distinctions that no reader can make any more.

Invariant: a read as of t, since <= t, or just before t, since < t, sees exactly the rows born and
not yet dead then, whatever was appended, killed or compacted later.
Source: Shared Arrangements §4.1-4.2, appendix A (a time's representative relative to `since` is
max(time, since)); rows once and indexes by row id are this project's own.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from operators.flight.column import Bools, Column, Ints, widen
from operators.flight.few import FewRows
from operators.kernels import batches, memory
from operators.kernels.memory import BLOCK_BITS, BLOCK_MASK, BLOCK_ROWS
from operators.quick import quick
from operators.slabs import ROWS
from operators.state.order import order_of
from operators.state.pieces import Array, Arrays, Home, Kinds, MappedFiles, Stored
from operators.state.rows import ALL_DEAD, NO_IDS, Rows, bytes_at, with_died
from operators.state.shared import Shared
from operators.state.storage import (
    Adopted,
    Buffers,
    Layout,
    can_wait,
    layout_of,
    repeated,
    stored_values,
)
from operators.state.touched import Touched
from planner.calculus import types as t

#: So many rows at once become blocks of their own.
BULK_ROWS = BLOCK_ROWS // 4
#: So many values of a column that waits are copied for each that is looked up.
_LOOKUP_WORTH = 32
#: Rows taken at a time where all are read, so that the arrays at work fit the caches.
PIECE_ROWS = 2 * BLOCK_ROWS
#: A block is rewritten when fewer than this share of its rows can still be seen.
COMPACT_BELOW = 0.25
#: The last block is closed before it is full with so many rows at least; where some of them live,
#: with so many for each block that there is, as what it leaves behind would add up.
CLOSE_ROWS, CLOSE_ROWS_A_BLOCK = BLOCK_ROWS // 16, 256
_BITMAP_BYTES = BLOCK_ROWS // 8


@quick
@dataclass(frozen=True, slots=True)
class _Fresh:
    """Rows appended together, int64[n], and the columns that they came in."""

    rows: Ints
    columns: Sequence[Column]

    def has_exactly(self, rows: Ints) -> bool:
        """Whether `rows` are these, in order."""
        if rows is self.rows:
            return True
        if len(rows) != len(self.rows) or rows[0] != self.rows[0] or rows[-1] != self.rows[-1]:
            return False
        return bool(memory.ascends_by_one(rows))


@dataclass(frozen=True, slots=True)
class Block:
    """The values of one block as they are now. `home`: where they lie, if they do; else `used` has
    of each slot the array, and the bytes in use. `waiting`: columns without buffers yet, of which
    `Adopted.buffers` makes some."""

    number: int
    rows: int
    used: list[tuple[int, Array, int]]
    waiting: list[tuple[int, Callable[[], Buffers]]]
    stored: Stored
    home: Home | None


@dataclass(frozen=True, slots=True)
class Form:
    """How some columns of a relation's blocks lie in memory: each one's layout and first slot."""

    columns: Mapping[int, tuple[t.Field, Layout, int]]
    ids_slot: int


@dataclass(frozen=True, slots=True)
class RelationImage:
    """All that a relation keeps, as it is now. `numbers` and `arrays` by name; `blocks`: the full
    ones, in order, but those of which no row can be seen; `last`: the one that is being filled."""

    form: Form
    numbers: dict[str, Any]
    arrays: dict[str, np.ndarray[Any, Any]]
    blocks: list[Block]
    last: Block | None


class _Mark(NamedTuple):
    """A relation before a step. `last_rows`: those in the last of so many blocks."""

    next_row: int
    live_rows: int
    deaths: int
    blocks: int
    last_rows: int
    born_first: Ints
    born_time: Ints
    died_row: Ints
    died_time: Ints


_EMPTY = np.empty(0, np.int64)


class Relation(Rows):
    """Rows that are written. Not thread-safe: one writer, readers between; readers of other threads
    have a `version`.

    State: every row that some reader may see, once; 2 bytes a row id for compacted blocks.
    """

    _NO_BUFFERS: ClassVar[Arrays] = []

    def __init__(self, schema: t.Schema, shared: Shared | None = None) -> None:
        """`shared`: with the dataflow that it is of."""
        super().__init__(schema, Shared() if shared is None else shared)
        self._gathered: weakref.ref[Ints] | None = None
        #: The latest append of the step; whether the rows gathered last are all of it, or where in
        #: it they are, if they all are.
        self._fresh: _Fresh | None = None
        self._whole = False
        self._part: Ints | None = None
        #: Deaths since the beginning, and the rows of those since the last mark.
        self.deaths = 0
        self._dying: list[Ints] = []
        #: By column, the blocks that have no buffers of it yet, with the rows as they came.
        self._waiting: tuple[dict[int, Adopted], ...] = tuple({} for _ in schema)
        #: Columns that were looked up while blocks waited for them: no more blocks do.
        self._sought: set[int] = set()
        #: Of each block where its values lie in files, once they never change.
        self._stored: list[Stored] = []
        #: Of each block where its dead bits lie, while they are these.
        self._stored_dead: list[Stored] = []
        #: Of each block, how many rows were appended to it, and how many of them died.
        self._block_rows: list[int] = []
        self._block_deaths: list[int] = []
        self._full_blocks = 0
        #: How many bytes of texts each column has room for in the last block, whose buffers these
        #: are.
        self._rooms, self._roomy = _EMPTY, self._NO_BUFFERS
        #: Blocks of which it has to be seen whether they are mostly dead.
        self._touched: set[int] = set()
        #: The rows as they are, once somebody wanted them and until they change; how often dead
        #: bits were handed out, and of each block how often when its own were made.
        self._version: Rows | None = None
        self._versions = 0
        #: What is in use, once somebody asked and until it changes.
        self._nbytes: int | None = None
        self._dead_since: list[int] = []
        #: Which full blocks have other values or dead bits than before, for who told of them.
        self.touched = Touched()
        #: The columns that other processes have read.
        self.published: set[int] = set()
        #: Blocks of which no row can be seen any more, in the order in which they became so.
        self.empty_blocks: list[int] = []

    # -- writing ---------------------------------------------------------------------------------

    def append(self, columns: Sequence[Column], times: Ints) -> int:
        """Append rows born at `times` (int64[n], ascending, not before earlier births).

        Returns: the first new row id; the others follow it. Cost: one copy of the values, none of
        many at once where they come as they are stored.
        """
        n = len(times)
        if n == 0:
            return self.next_row
        self.undo.before(self)
        self._changed()
        if n >= BULK_ROWS:
            first = self._adopt(columns, n)
        else:
            first = self.next_row
            self._copy(columns, n)
        self._fresh, self._gathered = _Fresh(np.arange(first, first + n), columns), None
        self.live_rows += n
        self._bear(first, times)
        return first

    def append_stored(
        self,
        blocks: Sequence[tuple[Home, int]],
        nulls: Iterable[int],
        files: MappedFiles,
        time: int,
    ) -> int:
        """Append rows born at `time` that lie in `files` as blocks, so many of each; the columns
        `nulls` may have NULLs. Not before earlier births.

        Returns: the id of the first; those of the next block begin BLOCK_ROWS after those of the
        one before. Cost: O(blocks).
        """
        self.undo.before(self)
        self._changed()
        self.leave_fresh()
        first, kinds = self._next_block(), self.kinds
        for home, rows in blocks:
            block = self._new_block()
            self._stored[block] = Stored(home, mapped=True)
            self._map(block, home, kinds, files)
            self._grow(rows)
        for column in nulls:
            self._has_nulls[column] = True
        self.next_row = first + (len(blocks) << BLOCK_BITS)
        self.live_rows += sum(rows for _, rows in blocks)
        self._bear(first, np.array([time], np.int64))
        return first

    def _bear(self, first: int, times: Ints) -> None:
        """Rows from `first` on are born at `times`."""
        if times[0] == times[-1]:
            new_first = np.array([first], np.int64)
            new_time = times[:1]
        else:
            starts = np.flatnonzero(np.diff(times, prepend=times[0] - 1))
            new_first, new_time = starts + first, times[starts]
        self._born_first = np.concatenate((self._born_first, new_first))
        self._born_time = np.concatenate((self._born_time, new_time))

    def leave_fresh(self) -> None:
        """The latest step is over: its rows are read from their blocks."""
        self._fresh, self._gathered, self._whole, self._part = None, None, False, None

    @property
    def recent_deaths(self) -> int:
        """Rows that died since `advance` forgot the deaths before."""
        return len(self._died_row)

    @property
    def appended(self) -> Ints:
        """Row ids of the step's latest append."""
        return _EMPTY if self._fresh is None else self._fresh.rows

    def kill(self, rows: Ints, times: Ints) -> None:
        """Let living rows die at `times`. Shapes: rows int64[n] distinct, times int64[n].

        Cost: O(n log n), and the deaths that readers can still tell apart.
        """
        if len(rows) == 0:
            return
        self.undo.before(self)
        self._changed()
        if (rows[1:] < rows[:-1]).any():
            order = order_of(rows)
            rows, times = rows[order], times[order]
        self._dying.append(rows)
        for block, places in by_block(rows):
            memory.set_bits(self._dead_bits(block), places)
            self._block_deaths[block] += len(places)
        self.live_rows -= len(rows)
        self.deaths += len(rows)
        if len(self._died_row) == 0:
            self._died_row, self._died_time = rows, times
            return
        merged = np.concatenate((self._died_row, rows))
        order = order_of(merged)
        self._died_row = merged[order]
        self._died_time = np.concatenate((self._died_time, times))[order]

    def mark(self) -> _Mark:
        blocks = len(self._block_rows)
        self.leave_fresh()  # those of the step before, if its end failed
        self._dying = []
        return _Mark(
            self.next_row, self.live_rows, self.deaths, blocks, sum(self._block_rows[-1:]),
            self._born_first, self._born_time, self._died_row, self._died_time,
        )  # fmt: skip

    def restore(self, mark: _Mark) -> None:
        """The rows that were appended are gone, and those that died live."""
        self._changed()
        self.touched.forget()
        self.leave_fresh()
        for waiting in self._waiting:
            for block in [b for b in waiting if b >= mark.blocks]:
                del waiting[block]
        changed = self.next_row != mark.next_row or len(self._block_rows) != mark.blocks
        del self._buffers[mark.blocks :], self._block_rows[mark.blocks :]
        del self._block_deaths[mark.blocks :], self._stored[mark.blocks :]
        del self._dead_since[mark.blocks :], self._stored_dead[mark.blocks :]
        self._addresses[:, mark.blocks :] = 0
        if mark.blocks and mark.next_row & BLOCK_MASK:
            last = mark.blocks - 1
            self._stored[last] = Stored()  # it may have been full meanwhile
            self._block_rows[last] = mark.last_rows
            self._addresses[self._kept_slot, last] = mark.last_rows
            for slot, buffer in enumerate(self._buffers[last]):
                if changed and buffer is not None:
                    # Who saw the block full took its buffers for what never changes again.
                    self._set(last, slot, buffer.copy())
        self.next_row, self.live_rows, self.deaths = mark.next_row, mark.live_rows, mark.deaths
        self._born_first, self._born_time = mark.born_first, mark.born_time
        self._died_row, self._died_time = mark.died_row, mark.died_time
        for rows in self._dying:
            for block, places in by_block(rows):
                if block < mark.blocks and self._buffers[block][self._dead_slot] is not None:
                    bits = self._dead_bits(block)
                    alive = ~np.left_shift(1, places & 7).astype(np.uint8)
                    np.bitwise_and.at(bits, places >> 3, alive)
                    self._block_deaths[block] = int(np.bitwise_count(bits).sum(dtype=np.int64))
        self._dying = []

    def advance(self, since: int) -> None:
        """Forget births and deaths at or before `since`: no reader looks further back.

        Blocks that have become mostly dead are rewritten. If that fails it goes on at the next
        call, and all reads are right meanwhile. Cost: O(versions after the last since), plus one
        copy of the rows that a rewritten block keeps: at most a quarter of what it had.
        """
        self.leave_fresh()
        self._dying, self._nbytes = [], None
        if len(self._born_time):
            kept = int(np.searchsorted(self._born_time, since, side="right"))
            born = self._born_first[kept:], self._born_time[kept:]
            self._born_first, self._born_time = born
        self._close_if_dead(since)
        # Blocks that were still being filled when rows of theirs went have to be looked at, too.
        self._touched.update(range(self._full_blocks, self.next_row >> BLOCK_BITS))
        self._full_blocks = self.next_row >> BLOCK_BITS
        if len(self._died_row):
            gone, later = self._died_row, self._died_time > since
            died = _EMPTY, _EMPTY
            if later.any():
                gone, died = gone[~later], (self._died_row[later], self._died_time[later])
            self._touched.update(block for block, _ in by_block(gone))
            self._died_row, self._died_time = died
        for block in sorted(self._touched):
            if block < self._full_blocks:
                self._compact(block)
            self._touched.discard(block)

    def add_columns(self, fields: t.Schema, values: Sequence[Column]) -> None:
        """More columns, behind the others, between steps; each of `values` has the one value that
        all rows have in it. Versions that were taken go on without them.

        Cost: an array of each column for every block; the next checkpoint writes all blocks.
        """
        full = self.next_row >> BLOCK_BITS
        own: list[list[np.ndarray[Any, Any] | None]] = []
        for block in range(len(self._block_rows)):
            here = self.stored_rows(block)
            rows = here if block < full else BLOCK_ROWS
            buffers: list[np.ndarray[Any, Any] | None] = []
            for field, value in zip(fields, values, strict=True):
                layout = layout_of(field.type)
                if here == 0 and block < full:
                    buffers += [None] * (3 if layout.textual else 2)
                else:
                    buffers += repeated(value, layout, here, rows)
            own.append(buffers)
        self.undo.before(_Columns(self))
        width = self._dead_slot
        added = sum(3 if layout_of(f.type).textual else 2 for f in fields)
        self._addresses = np.insert(self._addresses, [width] * added, 0, axis=0)
        self.schema = (*self.schema, *fields)
        self._lay_out()
        every: list[Arrays] = []
        for block, (there, buffers) in enumerate(zip(self._buffers, own, strict=True)):
            arrays = list(there)
            every.append([*arrays[:width], *buffers, *arrays[width:]])
            for slot, buffer in enumerate(buffers, width):
                self._addresses[slot, block] = 0 if buffer is None else buffer.ctypes.data
        self._buffers = every
        self._has_nulls = [*self._has_nulls, *(value.valid is not None for value in values)]
        self._waiting += tuple({} for _ in fields)
        self._stored = [Stored() for _ in self._stored]
        self._stored_dead = [Stored() for _ in self._stored]
        self._changed()
        self.touched.forget()
        self.leave_fresh()

    # -- reading ---------------------------------------------------------------------------------

    def gather(self, column: int, rows: Ints) -> Column:
        """Values of one column at `rows` (int64[n]; ids that some reader may see, any order).

        Columns of the same array of rows, gathered one after the other, count as one visit. The
        rows of this step's latest append are still at hand, in the columns that they came in.
        """
        self._visit(rows)
        fresh = self._fresh
        if fresh is not None and self._whole:
            return self._as_stored(column, fresh.columns[column])
        if fresh is not None and self._part is not None:
            return self._as_stored(column, fresh.columns[column].take(self._part))
        if self._waiting[column]:
            return self._gather_waiting(column, rows)
        return self._gather(column, rows)

    def _visit(self, rows: Ints) -> None:
        """Count a visit to `rows`, once, and see where in the latest append they are."""
        if self._gathered is not None and self._gathered() is rows:
            return
        self._gathered = weakref.ref(rows)
        self.work.rows += len(rows)
        self._whole, self._part = False, None
        fresh = self._fresh
        if fresh is not None and len(rows) and len(rows) <= len(fresh.rows):
            self._whole = fresh.has_exactly(rows)
            if not self._whole and rows.min() >= fresh.rows[0]:
                self._part = rows - fresh.rows[0]

    def load_words(
        self,
        slots: Ints,
        columns: tuple[int, ...],
        rows: Ints,
        words: Ints,
        none: Bools,
        nullable: Ints,
    ) -> bool:
        for column in columns:
            if self._waiting[column]:
                return False
        self._visit(rows)
        return super().load_words(slots, columns, rows, words, none, nullable)

    def text_words(self, column: int, rows: Ints, out: Ints) -> bool:
        if not self._is_here(column, rows):
            return False
        self._visit(rows)
        return super().text_words(column, rows, out)

    def _is_here(self, column: int, rows: Ints) -> bool:
        """Whether `rows` are sure to lie in blocks that have buffers of a column: they come after
        all that wait for it."""
        waiting = self._waiting[column]
        return (
            not waiting
            or len(rows) == 0
            or bool(rows.min() >> BLOCK_BITS > next(reversed(waiting)))
        )

    def _as_stored(self, column: int, values: Column) -> Column:
        """Values as they are gathered otherwise: columns are compared word by word."""
        return widen(values) if self._layouts[column].words == 2 else values

    def gather_words(self, slots: Ints, rows: Ints, places: Ints, out: Ints) -> None:
        """out[:, places[i]] = the words at rows[i] of several columns: see `word_slots`.

        Shapes: rows, places int64[n], out int64[words, m]. Cost: one pass for all columns.
        """
        self.work.rows += len(rows)
        self._settle_slots(slots)
        super().gather_words(slots, rows, places, out)

    def places(self, slots: Ints) -> tuple[Ints, int, int, int]:
        """As that of Rows. Cost: what waits is given its buffers."""
        self._settle_slots(slots)
        return super().places(slots)

    def _settle_slots(self, slots: Ints) -> None:
        """Give all blocks their buffers of what `slots` (see `word_slots`) are of."""
        if any(self._waiting):
            for slot in slots[:, 0].tolist():
                column = self._value_slot.index(slot)
                self._settle(column, list(self._waiting[column]))

    def _gather_waiting(self, column: int, rows: Ints) -> Column:
        """`gather` of a column that some blocks have no buffers of. A few rows are read where they
        wait, and one block gets its buffers: no lookup pays for all rows that ever came."""
        waiting, layout = self._waiting[column], self._layouts[column]
        self._sought.add(column)
        if len(rows) * _LOOKUP_WORTH >= len(waiting) << BLOCK_BITS:
            self._settle(column, list(waiting))
            return self._gather(column, rows)
        block = rows >> BLOCK_BITS
        sought = [b for b in np.unique(block).tolist() if b in waiting]
        unread = {b: waiting[b].unread(column, layout) for b in sought}
        copied = [b for b in sought if unread[b] is not None]
        self._settle(column, [b for b in sought if unread[b] is None] + copied[:1])
        if len(copied) < 2:
            return self._gather(column, rows)
        waits = np.zeros(len(self._block_rows), np.bool_)
        waits[copied[1:]] = True
        late = waits[block]
        settled = np.flatnonzero(~late)
        known = self._gather(column, rows[settled])
        values, valid = np.empty(len(rows), np.int64), known.valid
        values[settled] = known.values
        if valid is not None:
            valid = np.ones(len(rows), np.bool_)
            valid[settled] = known.valid
        at = np.flatnonzero(late)
        at = at[np.argsort(block[at], kind="stable")]
        ends = np.searchsorted(block[at], copied[1:], side="right").tolist()
        for start, end, b in zip([0, *ends], ends, copied[1:], strict=False):
            raw, first = unread[b], waiting[b].first_block << BLOCK_BITS
            assert raw is not None
            values[at[start:end]] = raw[rows[at[start:end]] - first]
        return Column(known.type, values, valid)

    def addresses(self, columns: Iterable[int]) -> tuple[int, ...]:
        """For kernels that read these columns, and versions, by address: where the addresses of the
        slots lie, how many there are of each, the slot of dead bits; births, their times, and how
        many; deaths likewise. Good until the relation changes.

        Cost: that of columns that wait for their buffers.
        """
        for column in columns:
            if self._waiting[column]:
                self._settle(column, list(self._waiting[column]))
        table = self._addresses
        return (
            table.ctypes.data, table.shape[1], self._dead_slot,
            self._born_first.ctypes.data, self._born_time.ctypes.data, len(self._born_first),
            self._died_row.ctypes.data, self._died_time.ctypes.data, len(self._died_row),
        )  # fmt: skip

    def rows_from(self, row: int) -> Ints:
        """Ids, ascending, of the rows from `row` on that are stored. Cost: O(those)."""
        if self._fresh is not None and row == self._fresh.rows[0]:
            return self._fresh.rows
        parts: list[Ints] = []
        for block in range(row >> BLOCK_BITS, len(self._block_rows)):
            first = block << BLOCK_BITS
            if self.compacted_rows(block) is None:
                parts.append(np.arange(max(row, first), first + self._block_rows[block]))
            else:
                ids = self._buffers[block][self._ids_slot]
                assert ids is not None
                kept = first + ids[: self._addresses[self._kept_slot, block]].astype(np.int64)
                parts.append(kept[np.searchsorted(kept, row) :])
        return parts[0] if len(parts) == 1 else np.concatenate(parts or [_EMPTY])

    def _in_use(
        self, block: int, columns: Iterable[int]
    ) -> Iterator[tuple[int, np.ndarray[Any, Any], int]]:
        rows, buffers = self.stored_rows(block), self._buffers[block]
        used: list[tuple[int, int]] = []
        for i in sorted(columns):
            layout, slot = self._layouts[i], self._value_slot[i]
            if layout.textual:
                offsets = buffers[slot]
                assert offsets is not None
                used += [(slot, 4 * (rows + 1)), (slot + 2, int(offsets[rows]))]
            else:
                used.append((slot, layout.storage.itemsize * layout.words * rows))
            used.append((slot + 1, rows))
        used.append((self._ids_slot, 2 * rows))
        for slot, nbytes in used:
            buffer = buffers[slot]
            if buffer is not None:
                yield slot, buffer, nbytes

    @property
    def nbytes(self) -> int:
        """Bytes in use: buffers filled so far, validity, bitmaps and row id lists. Cost: once for
        each change, a pass over the columns, and of texts over their blocks."""
        if self._nbytes is None:
            self._nbytes = self._count()
        return self._nbytes

    def _changed(self) -> None:
        """Forget what is known of the rows as they were."""
        self._version = self._nbytes = None

    def _count(self) -> int:
        total = self._died_row.nbytes * 2 + self._born_first.nbytes * 2
        for i, waiting in enumerate(self._waiting):
            total += sum(arrow.nbytes(i, block) for block, arrow in waiting.items())
        there = self._addresses[:, : len(self._buffers)] != 0
        there &= self._addresses[self._ids_slot, : len(self._buffers)] != NO_IDS.ctypes.data
        rows = self._addresses[self._kept_slot, : len(self._buffers)]
        slots = np.array(self._value_slot, np.int64)
        values = there[slots]
        total += int(((values & there[slots + 1]) @ rows).sum())
        widths = [
            0 if each.textual else each.storage.itemsize * each.words for each in self._layouts
        ]
        total += int(np.array(widths, np.int64) @ (values @ rows))
        for i in (i for i, layout in enumerate(self._layouts) if layout.textual):
            for block in np.flatnonzero(values[i]).tolist():
                offsets = self._buffers[block][self._value_slot[i]]
                if offsets is not None:  # else they are mapped by address alone
                    total += 4 * (int(rows[block]) + 1) + int(offsets[rows[block]])
        total += 2 * int(rows[there[self._ids_slot]].sum())
        for buffers in self._buffers:
            dead = buffers[self._dead_slot]
            total += 0 if dead is None or dead is ALL_DEAD else dead.nbytes
        return total

    def go_on(self) -> None:
        """Take rows behind those that were mapped, in blocks of their own; kill some of those."""
        self._changed()
        blocks = len(self._buffers)
        self._dead_since += [0] * blocks
        self._block_rows += [0] * blocks
        self._block_deaths += [0] * blocks
        self._stored += [Stored()] * blocks
        self._stored_dead += [Stored()] * blocks
        self._versions += 1  # their dead bits are somebody else's
        self.next_row = self._next_block()

    # -- as a value ------------------------------------------------------------------------------

    def version(self) -> Rows:
        """The rows as they are now, between steps, for readers of any thread, whatever comes. Cost:
        O(blocks); the first one also copies the columns that are still as they came. While it is
        kept, a step that kills rows copies the dead bits of their blocks, 8 KiB each."""
        if self._version is None:
            for column, waiting in enumerate(self._waiting):
                self._settle(column, list(waiting))
            made = Rows(self.schema, self.shared)
            made.next_row, made.live_rows = self.next_row, self.live_rows
            made._addresses = self._addresses.copy()
            made._buffers = self._buffers.copy()
            made._has_nulls = self._has_nulls.copy()
            made._born_first, made._born_time = self._born_first, self._born_time
            made._died_row, made._died_time = self._died_row, self._died_time
            self._version = made
            self._versions += 1
        return self._version

    def image(self) -> RelationImage:
        """All that is kept, as it is now, between steps. Cost: references to what never changes,
        and a copy of the dead bits."""
        full = self.next_row >> BLOCK_BITS
        kept = self._addresses[self._kept_slot, : len(self._block_rows)].copy()
        blocks = [self.block(b) for b in np.flatnonzero(kept[:full]).tolist()]
        last = self.block(full) if self.next_row & BLOCK_MASK else None
        bits = [(b, s[self._dead_slot]) for b, s in enumerate(self._buffers)]
        dead = [(b, d) for b, d in bits if d is not None and d is not ALL_DEAD]
        numbers = {
            "next_row": self.next_row,
            "live_rows": self.live_rows,
            "deaths": self.deaths,
            "full_blocks": self._full_blocks,
            "has_nulls": list(self._has_nulls),
        }
        arrays = {
            "kept": kept,
            "block_rows": np.array(self._block_rows, np.int64),
            "block_deaths": np.array(self._block_deaths, np.int64),
            "empty": np.array(self.empty_blocks, np.int64),
            "born_first": self._born_first,
            "born_time": self._born_time,
            "died_row": self._died_row,
            "died_time": self._died_time,
            "dead": np.array([b for b, _ in dead], np.int64),
            "dead_bits": np.array([d for _, d in dead], np.uint8).reshape(-1, _BITMAP_BYTES),
        }
        return RelationImage(self.form(), numbers, arrays, blocks, last)

    def form(self, columns: Iterable[int] | None = None) -> Form:
        """How some columns of the blocks lie in memory; None: all."""
        some = range(len(self.schema)) if columns is None else sorted(columns)
        told = {c: (self.schema[c], self._layouts[c], self._value_slot[c]) for c in some}
        return Form(told, self._ids_slot)

    @property
    def stored_blocks(self) -> tuple[Stored, ...]:
        """Of each block where it lies in a file, if it does."""
        return tuple(self._stored)

    @property
    def stored_dead(self) -> tuple[Stored, ...]:
        """Of each block where its dead bits lie in a file, if they do."""
        return tuple(self._stored_dead)

    def share_dead_bits(self) -> None:
        """Dead bits never change from now on: who kills rows makes others, 8 KiB a block."""
        self._versions += 1

    def dead_bits_of(self, block: int) -> tuple[Array, Stored] | None:
        """A block's dead bits, and where they lie; None if it has none, or no row can be seen."""
        bits = self._buffers[block][self._dead_slot]
        return None if bits is None or bits is ALL_DEAD else (bits, self._stored_dead[block])

    def dead_bits(self) -> Iterator[tuple[int, Array, Stored]]:
        """Of each block that has dead rows their bits, which are shared."""
        self.share_dead_bits()
        for block in range(len(self._buffers)):
            found = self.dead_bits_of(block)
            if found is not None:
                yield block, *found

    def block(self, block: int, columns: frozenset[int] | None = None) -> Block:
        """The values of a block that has rows, as they are now; those of a full one never change.
        `columns`: of these alone, with a home that has them; None: of all. Cost: references."""
        stored, rows = self._stored[block], self.stored_rows(block)
        if stored.home is not None and (columns is None or self._has(stored.home, columns)):
            return Block(block, rows, [], [], stored, stored.home)
        every = range(len(self.schema)) if columns is None else sorted(columns)
        waits = [i for i in every if block in self._waiting[i]]
        return Block(
            block,
            rows,
            list(self._in_use(block, set(every).difference(waits))),
            [(i, self._waiting[i][block].buffers(i, self._layouts[i], block)) for i in waits],
            stored,
            None,
        )

    def _has(self, home: Home, columns: frozenset[int]) -> bool:
        """Whether a block of which some columns were written has these."""
        there = set(home.places[:, 0].tolist())
        return all(self._value_slot[c] in there for c in columns)

    def load(
        self,
        numbers: Mapping[str, Any],
        arrays: Mapping[str, np.ndarray[Any, Any]],
        values: Mapping[int, Home],
        files: MappedFiles,
        last: Mapping[int, np.ndarray[Any, Any]],
    ) -> None:
        """Be what another one was when its image was made: this one has no rows. Values of full
        blocks stay in `files`; `last`: those of the one that was being filled, by slot, as bytes.
        """
        assert self.next_row == 0, "a relation is loaded before it has rows"
        self._changed()
        self.live_rows, self.deaths = numbers["live_rows"], numbers["deaths"]
        self._full_blocks, self._has_nulls = numbers["full_blocks"], list(numbers["has_nulls"])
        self._born_first, self._born_time = arrays["born_first"], arrays["born_time"]
        self._died_row, self._died_time = arrays["died_row"], arrays["died_time"]
        kinds = self.kinds
        for block, kept in enumerate(arrays["kept"].tolist()):
            self._new_block()
            self._addresses[self._kept_slot, block] = kept
            if block in values:
                self._stored[block] = Stored(values[block], mapped=True)
                self._map(block, values[block], kinds, files)
        self._block_rows = arrays["block_rows"].tolist()
        self._block_deaths = arrays["block_deaths"].tolist()
        for block, bits in zip(arrays["dead"].tolist(), arrays["dead_bits"], strict=True):
            self._set(block, self._dead_slot, bits.copy())
        for block in arrays["empty"].tolist():
            self._empty(block)
        self.next_row = numbers["next_row"]
        if self.next_row & BLOCK_MASK:
            self._load_last(self.next_row >> BLOCK_BITS, kinds, last)

    def map_stored(self, files: MappedFiles) -> None:
        """Read the blocks that lie in files from there, and let their memory go. Between steps."""
        kinds = self.kinds
        for block, stored in enumerate(self._stored):
            if stored.home is not None and not stored.mapped:
                self._map(block, stored.home, kinds, files)
                stored.mapped = True
                for column, waiting in enumerate(self._waiting):
                    if block in waiting:
                        waiting.pop(block).leave(column)
                self._changed()

    def _load_last(
        self,
        block: int,
        kinds: Kinds,
        values: Mapping[int, Array],
    ) -> None:
        """Copy the values of the block that is being filled to where there is room for more."""
        self._open_buffers(block)
        texts = {s + 2 for s, x in zip(self._value_slot, self._layouts, strict=True) if x.textual}
        for slot, raw in values.items():
            kind, words = kinds[slot]
            given = raw.view(kind).reshape(-1, 2) if words == 2 else raw.view(kind)
            here = self._buffers[block][slot]
            if slot in texts and (here is None or len(here) < len(given)):
                here = self._room((2 * len(given),), np.uint8)
                self._set(block, slot, here)
            elif here is None:
                here = np.ones(BLOCK_ROWS, np.bool_)
                self._set(block, slot, here)
            here[: len(given)] = given

    # -- blocks ----------------------------------------------------------------------------------

    def _copy(self, columns: Sequence[Column], n: int) -> None:
        done = 0
        while done < n:
            room = BLOCK_ROWS - (self.next_row & BLOCK_MASK)
            if room == BLOCK_ROWS:
                self._open_block()
            count = min(room, n - done)
            if isinstance(columns, FewRows):
                self._fill_few(columns, done, count)
            else:
                self._fill(range(len(columns)), columns, done, count)
            self._grow(count)
            self.next_row += count
            done += count

    def _adopt(self, columns: Sequence[Column], n: int) -> int:
        """Append rows as blocks of their own; returns the first row id."""
        first = self._next_block()
        adopted = Adopted(first >> BLOCK_BITS, n, columns)
        for start in range(0, n, BLOCK_ROWS):
            self._new_block()
            self._grow(min(BLOCK_ROWS, n - start))
        for i, column in enumerate(columns):
            self._has_nulls[i] |= column.valid is not None
            self._waiting[i].update(dict.fromkeys(adopted.blocks, adopted))
            if i in self._sought or not can_wait(column):
                self._settle(i, adopted.blocks)
        self.next_row = first + n
        self.next_row = self._next_block()
        return first

    def _settle(self, column: int, blocks: Iterable[int]) -> None:
        """Give blocks that wait for a column their buffers of it."""
        self._nbytes = None
        slot, layout, waiting = (
            self._value_slot[column],
            self._layouts[column],
            self._waiting[column],
        )
        for block in blocks:
            values, valid, text = waiting[block].settle(column, layout, block)
            self._set(block, slot, values)
            if valid is not None:
                self._set(block, slot + 1, valid)
            if text is not None:
                self._set(block, slot + 2, text)
            del waiting[block]

    def _next_block(self) -> int:
        """The first row id of the block after those that there are."""
        return (self.next_row + BLOCK_MASK) & ~BLOCK_MASK

    def _grow(self, count: int) -> None:
        """Count rows appended to the last block."""
        self._block_rows[-1] += count
        self._addresses[self._kept_slot, len(self._block_rows) - 1] = self._block_rows[-1]

    def _new_block(self) -> int:
        block = super()._new_block()
        self._stored.append(Stored())
        self._stored_dead.append(Stored())
        self._dead_since.append(0)
        self._block_rows.append(0)
        self._block_deaths.append(0)
        return block

    def _open_block(self) -> None:
        """A block with room for all its rows."""
        self._open_buffers(self._new_block())

    def _open_buffers(self, block: int) -> None:
        for layout, slot in zip(self._layouts, self._value_slot, strict=True):
            if layout.textual:
                offsets = np.empty(BLOCK_ROWS + 1, np.int32)
                offsets[0] = 0
                self._set(block, slot, offsets)
                self._set(block, slot + 2, np.empty(1024, np.uint8))
            else:
                shape = (BLOCK_ROWS, 2) if layout.words == 2 else (BLOCK_ROWS,)
                self._set(block, slot, self._room(shape, layout.storage))

    def _room(self, shape: tuple[int, ...], dtype: npt.DTypeLike) -> np.ndarray[Any, Any]:
        """An array for a block. That of a small relation is made of small pages, of which it
        touches few: the first touch of a huge page clears 2 MiB. And its blocks come and go with
        few rows in them, of which one would keep a whole slab."""
        return (ROWS.empty if self.live_rows >= BULK_ROWS else np.empty)(shape, dtype)

    def _fill_few(self, rows: FewRows, start: int, count: int) -> None:
        """`_fill` all columns that were taken by one kernel."""
        block, at = len(self._buffers) - 1, self.next_row & BLOCK_MASK
        while True:
            buffers = self._buffers[block]
            if buffers is not self._roomy:  # it is replaced where one of them is
                rooms = [
                    0 if not layout.textual or (text := buffers[slot + 2]) is None else len(text)
                    for layout, slot in zip(self._layouts, self._value_slot, strict=True)
                ]
                self._rooms, self._roomy = np.array(rooms, np.int64), buffers
            short, needed = batches.append(
                self._addresses, block, at, self._lies, self._rooms,
                rows.values, rows.heads, start, count,
            )  # fmt: skip
            if short < 0:
                break
            slot = self._value_slot[short]
            offsets = buffers[slot]
            assert offsets is not None
            self._grow_text(block, slot, int(offsets[at]), needed, at + count)
        if rows.left:
            self._fill(rows.left, rows, start, count)

    def _fill(
        self, places: Iterable[int], columns: Sequence[Column], start: int, count: int
    ) -> None:
        """Copy so many rows of the columns at `places` to the last block."""
        block = len(self._buffers) - 1
        at = self.next_row & BLOCK_MASK
        here, some = slice(at, at + count), slice(start, start + count)
        buffers: Any = self._buffers[block]
        for i in places:
            column, layout, slot = columns[i], self._layouts[i], self._value_slot[i]
            if layout.textual:
                self._fill_text(block, slot, column.values, start, count, at)
            else:
                buffers[slot][here] = stored_values(column, layout)[some]
            if column.valid is not None or buffers[slot + 1] is not None:
                self._fill_valid(block, slot + 1, column.valid, here, some)

    def _fill_valid(
        self, block: int, slot: int, valid: Bools | None, here: slice, some: slice
    ) -> None:
        bits = self._buffers[block][slot]
        if bits is None:
            bits = np.ones(BLOCK_ROWS, np.bool_)
            self._set(block, slot, bits)
            self._has_nulls[self._value_slot.index(slot - 1)] = True
        bits[here] = True if valid is None else valid[some]

    def _fill_text(
        self, block: int, slot: int, values: pa.Array, start: int, count: int, at: int
    ) -> None:
        offsets, text = self._buffers[block][slot], self._buffers[block][slot + 2]
        assert offsets is not None and text is not None
        _, others, source = values.buffers()
        first = values.offset + start
        begin, used, length = memory.append_offsets(offsets, at, others.address, first, count)
        needed = used + length
        if needed > len(text):
            text = self._grow_text(block, slot, used, needed, at + count)
        if length:
            text[used:needed] = np.frombuffer(source, np.uint8, length, begin)

    def _grow_text(self, block: int, slot: int, used: int, needed: int, filled: int) -> Array:
        """Make room for so many bytes of texts, of which some are used, for `filled` rows."""
        if needed >= 2**31:
            raise OverflowError("a block of 65,536 rows holds at most 2 GiB of text a column")
        text = self._buffers[block][slot + 2]
        assert text is not None
        # Room for the whole block at this rate: a bulk load grows once, not by doubling.
        expected = needed * BLOCK_ROWS // filled if filled >= 1024 else 0
        room = max(2 * len(text), needed, min(expected, 1 << 28))
        grown = self._room((room,), np.uint8)
        grown[:used] = text[:used]
        self._set(block, slot + 2, grown)
        return grown

    def _dead_bits(self, block: int) -> np.ndarray[Any, Any]:
        """A block's dead bits, to be changed: no version has them."""
        bits = self._buffers[block][self._dead_slot]
        address = int(self._addresses[self._dead_slot, block])
        if bits is None and address:
            bits = bytes_at(address, _BITMAP_BYTES)
        if bits is None or self._dead_since[block] < self._versions:
            bits = np.zeros(_BITMAP_BYTES, np.uint8) if bits is None else bits.copy()
            self.touched.touch(block)
            self._set(block, self._dead_slot, bits)
            self._dead_since[block] = self._versions
            self._stored_dead[block] = Stored()
        return bits

    # -- compaction ------------------------------------------------------------------------------

    def _close_if_dead(self, since: int) -> None:
        """Let the next rows begin a new block if few of those in the last one can be seen."""
        rows = self._block_rows[-1] if self.next_row & BLOCK_MASK else 0
        if rows < CLOSE_ROWS or rows - self._block_deaths[-1] >= COMPACT_BELOW * rows:
            return
        first = self.next_row & ~BLOCK_MASK
        told = self._died_time[np.searchsorted(self._died_row, first) :] > since
        needed = rows - self._block_deaths[-1] + int(np.count_nonzero(told))
        most = min(CLOSE_ROWS_A_BLOCK * len(self._block_rows), BLOCK_ROWS) if needed else 0
        if needed < COMPACT_BELOW * rows and rows >= most:
            self.next_row = self._next_block()

    def _compact(self, block: int) -> None:
        """Rewrite a full block if few of its rows can still be seen."""
        rows = self._block_rows[block]
        living = rows - self._block_deaths[block]
        compacted = self.compacted_rows(block)
        few = COMPACT_BELOW * (rows if compacted is None else compacted)
        if living >= max(few, 1):
            return
        first = block << BLOCK_BITS
        low, high = np.searchsorted(self._died_row, (first, first + BLOCK_ROWS))
        needed = living + int(high - low)
        if needed == 0 and compacted != 0:
            self._empty(block)
        elif needed < few:
            told = self._died_row[low:high]
            self._rewrite(block, with_died(self._living(first, first + BLOCK_ROWS), told))

    def _empty(self, block: int) -> None:
        for column, waiting in enumerate(self._waiting):
            if block in waiting:
                waiting.pop(block).leave(column)
        self._stored[block], self._stored_dead[block] = Stored(), Stored()
        self.touched.touch(block)
        super()._empty(block)
        self.empty_blocks.append(block)

    def _rewrite(self, block: int, rows: Ints) -> None:
        for column, waiting in enumerate(self._waiting):
            if block in waiting:
                self._settle(column, (block,))
        columns = [self._gather(i, rows) for i in range(len(self.schema))]
        arrays: dict[int, np.ndarray[Any, Any] | None] = {}
        for i, (layout, slot) in enumerate(zip(self._layouts, self._value_slot, strict=True)):
            values = columns[i].values
            if layout.textual:
                _, offsets, text = values.buffers()
                arrays[slot] = np.frombuffer(offsets, np.int32)
                arrays[slot + 2] = np.frombuffer(text, np.uint8)
            else:
                arrays[slot] = np.ascontiguousarray(values.astype(layout.storage))
            arrays[slot + 1] = columns[i].valid
        arrays[self._ids_slot] = (rows & BLOCK_MASK).astype(np.uint16)
        self._stored[block] = Stored()
        self.touched.touch(block)
        self._set_all(block, len(rows), arrays)


def by_block(rows: Ints) -> Iterator[tuple[int, Ints]]:
    """Ascending row ids, block by block: its number, and the rows' places in it."""
    if len(rows) == 0:
        return
    if rows[0] >> BLOCK_BITS == rows[-1] >> BLOCK_BITS:
        yield int(rows[0]) >> BLOCK_BITS, rows & BLOCK_MASK
        return
    blocks = rows >> BLOCK_BITS
    starts = [0, *((blocks[1:] != blocks[:-1]).nonzero()[0] + 1).tolist()]
    for start, end in zip(starts, [*starts[1:], len(rows)], strict=False):
        yield int(blocks[start]), rows[start:end] & BLOCK_MASK


class _Columns:
    """The columns that a relation has, and where they lie, to be taken back."""

    _NAMES = (
        *("schema", "_layouts", "_value_slot", "_lies", "_dead_slot", "_ids_slot", "_kept_slot"),
        "_slots",
        *("_addresses", "_buffers", "_has_nulls", "_waiting", "_stored", "_stored_dead"),
    )

    def __init__(self, relation: Relation) -> None:
        self._relation = relation

    def mark(self) -> tuple[Any, ...]:
        return tuple(getattr(self._relation, name) for name in self._NAMES)

    def restore(self, mark: tuple[Any, ...]) -> None:
        for name, value in zip(self._NAMES, mark, strict=True):
            setattr(self._relation, name, value)
        self._relation._changed()
        # Of what was told of columns that are no more, none counts.
        self._relation.touched.forget()
        self._relation.published.intersection_update(range(len(self._relation.schema)))
