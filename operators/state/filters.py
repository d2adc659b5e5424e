"""Filters of looked-up relations, evaluated once per stored row into bitmaps that views share.

Bit r of a filter is set where row r passes. Rows never change, so neither do bits; appended rows
are evaluated once, before anyone looks them up; where they are many others are asked first, for
all filters of a relation at once (`Shared.evaluate`). Nothing is evaluated before the first look: a
view whose first result needs none (one over a stream) is installed without a pass over the
relation.
Cost: one evaluation per appended row; one bit a row, but for blocks without a row to be seen.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from operators import scalar
from operators.flight.column import Ints
from operators.kernels import memory
from operators.kernels.memory import BLOCK_BITS, BLOCK_MASK, BLOCK_ROWS
from operators.state import bulk
from operators.state.pieces import Array, Home, MappedFiles, Stored
from operators.state.relation import PIECE_ROWS, Relation, by_block
from operators.state.rows import Rows, bytes_at
from operators.state.touched import Touched
from planner.calculus.expr import Expr

#: Shared by all blocks of which no row can be seen any more.
_NONE_PASSES = np.zeros(BLOCK_ROWS // 8, np.uint8)


@dataclass(frozen=True, slots=True)
class FilterImage:
    """All that a filter keeps: the bitmaps of full blocks, by block, and where they lie in files;
    and a copy of the `last`, at most one."""

    next_row: int
    released: int
    full: list[tuple[int, Array]]
    stored: dict[int, Stored]
    last: list[Array]


class FilterReader:
    """The bitmap of `predicate` over `relation`, for those who test rows.

    State: one bitmap a block."""

    def __init__(self, relation: Rows, predicate: Expr) -> None:
        self.relation = relation
        self.predicate = predicate
        self._bitmaps: list[Array] = []
        self._addresses = np.zeros(4, np.int64)

    @property
    def bits(self) -> Ints:
        """Addresses of the bitmaps, one a block, as kernels take them."""
        self._look()
        return self._addresses

    def test(self, rows: Ints) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """Whether each of `rows` int64[n] passes."""
        self._look()
        out = np.empty(len(rows), np.bool_)
        memory.test_bits(self._addresses, rows, out)
        return out

    @property
    def passing_rows(self) -> int:
        """How many rows pass, those included that are dead but stored."""
        self._look()
        found = (bytes_at(a, BLOCK_ROWS // 8) for a in self._addresses[: self._blocks].tolist())
        return sum(int(np.bitwise_count(b).sum(dtype=np.int64)) for b in found)

    @property
    def _blocks(self) -> int:
        """How many have bitmaps."""
        return len(self._bitmaps)

    def hold(
        self,
        next_row: int,
        values: Mapping[int, Home],
        last: Sequence[Array],
        files: MappedFiles,
    ) -> None:
        """Have the bitmaps of rows up to `next_row`: those of full blocks, by block, where they lie
        in `files`, and the `last`, at most one. Of other blocks no row passes."""
        blocks = (next_row + BLOCK_MASK) >> BLOCK_BITS
        self._bitmaps = [_NONE_PASSES] * (blocks - len(last)) + list(last)
        for block, home in values.items():
            self._bitmaps[block] = files.only(home)
        self._addresses = np.array([b.ctypes.data for b in self._bitmaps] or [0], np.int64)

    def _look(self) -> None:
        """Have the bitmaps, if they are made when somebody wants them."""


class MappedFilter(FilterReader):
    """A filter whose bitmaps were published."""

    def __init__(
        self,
        relation: Rows,
        predicate: Expr,
        next_row: int,
        blocks: Ints,
        addresses: Ints,
        last: Sequence[Array],
        holds: object,
    ) -> None:
        """The bitmaps of rows up to `next_row`: those of full blocks, some of them, at addresses
        int64[n], which `holds` keeps, and the `last`, at most one. Of other blocks no row passes.
        """
        super().__init__(relation, predicate)
        self._bitmaps, self._holds = list(last), holds
        self._ends = (next_row + BLOCK_MASK) >> BLOCK_BITS
        self._addresses = np.full(max(self._ends, 1), _NONE_PASSES.ctypes.data, np.int64)
        self._addresses[blocks] = addresses
        if last:
            self._addresses[self._ends - 1] = last[0].ctypes.data

    @property
    def _blocks(self) -> int:
        return self._ends


class Filter(FilterReader):
    """The bitmap of `predicate` (BOOLEAN, cannot fail), which follows its relation."""

    relation: Relation

    def __init__(self, relation: Relation, predicate: Expr) -> None:
        super().__init__(relation, predicate)
        self._compiled = scalar.compile(predicate)
        #: By block, where bitmaps lie in files.
        self._stored: dict[int, Stored] = {}
        self._next_row: int | None = None
        self._released = 0
        #: Which full blocks have other bitmaps than before, for who told of them.
        self.touched = Touched()

    @property
    def begun(self) -> int:
        """Up to which row there are bits."""
        return self._next_row or 0

    def absorb(self) -> None:
        """Evaluate the rows appended since the last call, if somebody has looked."""
        if self._next_row is None:
            return
        self.relation.undo.before(self)
        self._release()
        if self._next_row < self.relation.next_row:
            self._evaluate(self.relation.rows_from(self._next_row))
            self._next_row = self.relation.next_row

    def take(self, values: Mapping[int, Home], last: Sequence[Array], files: MappedFiles) -> None:
        """Have the bitmaps of all blocks from that on which is begun, as others have evaluated
        them: of full ones, by block, where they lie in `files`, and the `last`, at most one."""
        self.relation.undo.before(self)
        first, next_row = self.begun >> BLOCK_BITS, self.relation.next_row
        blocks = (next_row + BLOCK_MASK) >> BLOCK_BITS
        values = {block: home for block, home in values.items() if block >= first}
        bitmaps = {block: files.only(home) for block, home in values.items()}
        if last:
            bitmaps[blocks - 1] = last[0].copy()
        self._reserve(blocks)
        self._bitmaps[first:] = [bitmaps.get(b, _NONE_PASSES) for b in range(first, blocks)]
        for block in range(first, blocks):
            self._addresses[block] = self._bitmaps[block].ctypes.data
        self._stored |= {block: Stored(home, mapped=True) for block, home in values.items()}
        self._next_row = next_row
        self._release()

    @property
    def nbytes(self) -> int:
        return sum(b.nbytes for b in self._bitmaps if b is not _NONE_PASSES)

    def look(self) -> None:
        """Have the bits of all rows."""
        self._look()

    def _look(self) -> None:
        if self._next_row is None:
            self.relation.undo.before(self)
            evaluate = self.relation.shared.evaluate
            if evaluate is None or not evaluate((self,)):
                self._evaluate(self.relation.visible_to_any())
                self._next_row = self.relation.next_row
                self._release()

    @property
    def next_row(self) -> int:
        """Up to which row there are bits; it is a look."""
        self._look()
        assert self._next_row is not None
        return self._next_row

    def bitmap(self, block: int) -> tuple[Array, Stored] | None:
        """Of a full block, with where it lies; None if no row can be seen."""
        bitmap = self._bitmaps[block]
        if bitmap is _NONE_PASSES:
            return None
        return bitmap, self._stored.setdefault(block, Stored())

    def stored_by_block(self) -> Iterable[tuple[int, Stored]]:
        """Where bitmaps lie in files, of those that do."""
        return self._stored.items()

    def last_bitmaps(self) -> list[Array]:
        """A copy of that of the block that is being filled, if there is one."""
        return [bitmap.copy() for bitmap in self._bitmaps[self.next_row >> BLOCK_BITS :]]

    @property
    def is_evaluated(self) -> bool:
        """Whether somebody has looked."""
        return self._next_row is not None

    def image(self) -> FilterImage:
        """All that is kept, as it is now; it is a look."""
        next_row = self.next_row
        found = [(b, self.bitmap(b)) for b in range(next_row >> BLOCK_BITS)]
        kept = [(b, *told) for b, told in found if told is not None]
        full, stored = [(b, x) for b, x, _ in kept], {b: s for b, _, s in kept}
        return FilterImage(next_row, self._released, full, stored, self.last_bitmaps())

    def load(
        self,
        next_row: int,
        released: int,
        values: Mapping[int, Home],
        last: Sequence[Array],
        files: MappedFiles,
    ) -> None:
        """Be what another one was when its image was made."""
        self.hold(next_row, values, [bitmap.copy() for bitmap in last], files)
        self._stored = {block: Stored(home, mapped=True) for block, home in values.items()}
        self._next_row, self._released = next_row, released

    @property
    def stored_bitmaps(self) -> tuple[Stored, ...]:
        """Where bitmaps lie in files, of those that do."""
        return tuple(self._stored.values())

    def map_stored(self, files: MappedFiles) -> None:
        """Read the bitmaps that lie in files from there. Between steps."""
        for block, stored in self._stored.items():
            if stored.home is not None and not stored.mapped:
                self._bitmaps[block] = files.only(stored.home)
                self._addresses[block] = self._bitmaps[block].ctypes.data
                stored.mapped = True

    def mark(self) -> int | None:
        return self._next_row

    def restore(self, mark: int | None) -> None:
        """The rows that were evaluated have no bits."""
        self.touched.forget()
        self._next_row = mark
        blocks = 0 if mark is None else (mark + BLOCK_MASK) >> BLOCK_BITS
        del self._bitmaps[blocks:]
        # Of full blocks only: what was full and is not any more is another bitmap from now on.
        full = blocks if mark is None else mark >> BLOCK_BITS
        self._stored = {b: s for b, s in self._stored.items() if b < full}
        if mark is None:
            self._released = 0
        elif mark & BLOCK_MASK and self._bitmaps:
            # A new one: who saw the block full took the bitmap for what never changes again.
            passing = np.unpackbits(self._bitmaps[-1], bitorder="little")
            passing[mark & BLOCK_MASK :] = 0
            self._bitmaps[-1] = np.packbits(passing, bitorder="little")
            self._addresses[blocks - 1] = self._bitmaps[-1].ctypes.data

    def _release(self) -> None:
        empty = self.relation.empty_blocks
        for block in empty[self._released :]:
            self._bitmaps[block] = _NONE_PASSES
            self._stored.pop(block, None)
            self.touched.touch(block)
            self._addresses[block] = _NONE_PASSES.ctypes.data
        self._released = len(empty)

    def _evaluate(self, rows: Ints) -> None:
        blocks = (self.relation.next_row + BLOCK_MASK) >> BLOCK_BITS
        self._reserve(blocks)
        while len(self._bitmaps) < blocks:
            bitmap = np.zeros(BLOCK_ROWS // 8, np.uint8)
            self._addresses[len(self._bitmaps)] = bitmap.ctypes.data
            self._bitmaps.append(bitmap)
        for start in range(0, len(rows), PIECE_ROWS):
            self._evaluate_part(rows[start : start + PIECE_ROWS])

    def _reserve(self, blocks: int) -> None:
        """Have room for the addresses of so many."""
        while len(self._addresses) < blocks:
            self._addresses = np.append(self._addresses, np.zeros_like(self._addresses))

    def _evaluate_part(self, rows: Ints) -> None:
        value, errors = self._compiled.evaluate(
            lambda column: self.relation.gather(column, rows), len(rows)
        )
        assert errors is None, "a bitmap's predicate cannot fail"
        passing = value.values if value.valid is None else value.values & value.valid
        for block, places in by_block(rows[passing]):
            memory.set_bits(self._bitmaps[block], places)


def absorb(filters: Sequence[Filter]) -> None:
    """Let those of a relation's filters that somebody has looked at have the bits of the rows that
    were appended since the last call."""
    if not filters:
        return
    relation = filters[0].relation
    evaluate = relation.shared.evaluate
    if evaluate is not None:
        looked = (each for each in filters if each.is_evaluated)
        behind = [each for each in looked if relation.next_row - each.begun >= bulk.BULK_ROWS]
        if behind:
            evaluate(behind)
    for each in filters:
        each.absorb()
