"""Rows that lie in files as blocks, before a relation has them.

Who loads much, a task of a Spark job mostly, writes the rows as segments, numbered within each
block. A relation takes the blocks as they are: what goes between processes says which file has
which rows, and no row is read. Blocks may have few rows; the ids that they leave unused name none.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count, pairwise

import numpy as np

from operators.flight.column import Column, Ints, joined
from operators.kernels.memory import BLOCK_BITS, BLOCK_MASK, BLOCK_ROWS
from operators.state import ascending
from operators.state.files import sync_directory
from operators.state.pieces import Home, MappedFiles, checksum
from operators.state.relation import BULK_ROWS, Relation
from operators.state.segments import MOST_BLOCKS, SegmentWriter, arrays_of
from planner.calculus.types import Schema


@dataclass(frozen=True, slots=True, eq=False)
class StoredBlock:
    """`rows` of them, in a file. `ends` int64[2, w]: its first and last key, where they are seen to
    ascend from the one to the other, else None. `part`: which part of the source they came from,
    and how many of its rows `before` them."""

    home: Home
    rows: int
    ends: Ints | None
    part: int = 0
    before: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class StoredRows:
    """Blocks in the order in which a relation is to have them. `nulls`: the columns that have any.
    `holds`: what keeps the files as long as it lives. `parts`: of each part of the source, if it
    has some, what it is called and how many rows of that come before."""

    schema: Schema
    files: MappedFiles
    blocks: tuple[StoredBlock, ...]
    nulls: tuple[int, ...]
    holds: object = None
    parts: tuple[tuple[str, int], ...] = ()

    def __len__(self) -> int:
        return sum(block.rows for block in self.blocks)

    @property
    def names(self) -> list[str]:
        """Of the files."""
        return list(dict.fromkeys(block.home.file for block in self.blocks))

    def ascended(self, greatest: Ints | None) -> Ints | None:
        """The last key if all ascend from `greatest` (empty: from any), which the ends of the
        blocks show; else None."""
        for block in self.blocks:
            if block.ends is None or greatest is None:
                return None
            first, last = block.ends
            if len(greatest) and tuple(first.tolist()) <= tuple(greatest.tolist()):
                return None
            greatest = last
        return greatest

    def row_at(self, place: int) -> int:
        """Which row it is whose id is `place` more than that of the first."""
        before = sum(block.rows for block in self.blocks[: place >> BLOCK_BITS])
        return before + (place & BLOCK_MASK)

    def source_of(self, number: int) -> tuple[str, int] | None:
        """What a row is from, a file mostly, and which of its rows it is; None if that is not
        known."""
        for block in self.blocks if self.parts else ():
            if number < block.rows:
                path, first = self.parts[block.part]
                return path, first + block.before + number
            number -= block.rows
        return None

    def read(self) -> Sequence[Column]:
        """The rows. Cost: a copy of them."""
        relation = self._relation(self.blocks)
        return relation.gather_all(relation.rows_from(0))

    def row(self, number: int) -> Sequence[Column]:
        """One of them."""
        for block in self.blocks:
            if number < block.rows:
                return self._relation([block]).gather_all(np.array([number]))
            number -= block.rows
        raise IndexError(number)

    def check(self) -> None:
        """Raises: ValueError, naming a file that is not what was written. Cost: all is read."""
        for block in self.blocks:
            for _, offset, nbytes, written in block.home.places.tolist():
                found = self.files.array(block.home.file, offset, nbytes, np.dtype(np.uint8))
                if checksum(found) != written:
                    raise ValueError(f'the file "{block.home.file}" is not what was written')

    def _relation(self, blocks: Sequence[StoredBlock]) -> Relation:
        relation = Relation(self.schema)
        relation.append_stored([(b.home, b.rows) for b in blocks], self.nulls, self.files, 0)
        return relation


@dataclass(frozen=True, slots=True, eq=False)
class Segment:
    """A file of blocks, by their numbers among those that its writer made. `nulls`: the columns
    that have any."""

    numbers: tuple[int, ...]
    blocks: tuple[StoredBlock, ...]
    nulls: tuple[int, ...]


def write_rows(
    pieces: Iterable[Sequence[Column]],
    schema: Schema,
    key: Sequence[int],
    new_path: Callable[[], str],
) -> Iterator[Segment]:
    """Write rows into files, which are on disk, under their names, when they are told. `key`: the
    columns whose values may be seen to ascend.

    Raises: OSError, and what `pieces` raise, with no file but those that were told. Memory: about
    two blocks and a piece.
    """
    making: dict[frozenset[int], _Making] = {}
    try:
        for number, columns in enumerate(_blocks(_runs(pieces, schema, key))):
            relation = Relation(schema)
            relation.append(columns, np.zeros(len(columns[0]), np.int64))
            arrays = arrays_of(relation.form(), relation.block(0))
            slots = frozenset(arrays)
            if slots not in making:
                out = SegmentWriter(new_path(), relation.form(), durable=True)
                making[slots] = _Making(out, relation.has_nulls)
            making[slots].add(number, columns, key, arrays)
            if len(making[slots].out) == MOST_BLOCKS:
                yield making.pop(slots).finish()
        while making:
            yield making.pop(next(iter(making))).finish()
    finally:
        for left in making.values():
            left.out.close()


def write_stored(
    pieces: Iterable[Sequence[Column]],
    schema: Schema,
    key: Sequence[int],
    directory: str,
    token: str,
    holds: object,
) -> StoredRows:
    """Write rows into files of this process, in their order, by a token that `holds` them (see
    `ValueFiles.lend`). Raises, memory: as `write_rows`."""
    numbers = count(1)

    def new_path() -> str:
        return os.path.join(directory, f"rows-{token}-0-{next(numbers)}")

    blocks: dict[int, StoredBlock] = {}
    nulls: set[int] = set()
    for segment in write_rows(pieces, schema, key, new_path):
        blocks.update(zip(segment.numbers, segment.blocks, strict=True))
        nulls.update(segment.nulls)
    files = MappedFiles(directory)
    found = StoredRows(
        schema, files, tuple(blocks[n] for n in sorted(blocks)), tuple(sorted(nulls)), holds
    )
    files.open(found.names)
    return found


class _Making:
    """A segment in the making."""

    def __init__(self, out: SegmentWriter, has_nulls: Sequence[bool]) -> None:
        self.out = out
        self._nulls = tuple(i for i, some in enumerate(has_nulls) if some)
        self._numbers: list[int] = []
        self._told: list[tuple[int, Ints | None]] = []

    def add(
        self,
        number: int,
        columns: Sequence[Column],
        key: Sequence[int],
        arrays: dict[int, np.ndarray[tuple[int], np.dtype[np.uint8]]],
    ) -> None:
        rows = len(columns[0])
        self.out.add(rows, arrays)
        keys = [columns[k] for k in key]
        ends = ascending.ends(keys)
        if ends is not None and not ascending.ascend(keys):
            ends = None
        self._numbers.append(number)
        self._told.append((rows, ends))

    def finish(self) -> Segment:
        try:
            places = self.out.finish()
        finally:
            self.out.close()
        sync_directory(os.path.dirname(self.out.path))
        name = os.path.basename(self.out.path)
        blocks = (
            StoredBlock(Home(name, where), rows, ends)
            for where, (rows, ends) in zip(places, self._told, strict=True)
        )
        return Segment(tuple(self._numbers), tuple(blocks), self._nulls)


def _runs(
    pieces: Iterable[Sequence[Column]], schema: Schema, key: Sequence[int]
) -> Iterator[tuple[Sequence[Column], bool]]:
    """The rows, and of each piece whether a block is to begin with it: where keys fall that have
    ascended for long, as where a file ends and the next one begins."""
    if not ascending.can_be_seen([schema[k].type for k in key]):
        yield from ((piece, False) for piece in pieces)
        return
    last: list[int] = []
    run = 0
    for piece in pieces:
        n = len(piece[0])
        if n == 0:
            continue
        keys = [piece[k].values for k in key]
        falls = ascending.falls(keys, last)
        lengths = np.diff(falls, prepend=-run)
        cuts = falls[lengths >= BULK_ROWS].tolist()
        run = n - int(falls[-1]) if len(falls) else run + n
        last = [int(values[-1]) for values in keys]
        for start, end in pairwise(sorted({0, *cuts, n})):
            yield [column.part(start, end) for column in piece], start in cuts


def _blocks(pieces: Iterable[tuple[Sequence[Column], bool]]) -> Iterator[Sequence[Column]]:
    """The rows, as many as a block has at a time, or fewer where another one is to begin."""
    waiting: list[Sequence[Column]] = []
    rows = 0
    for piece, begins in pieces:
        if begins and rows:
            yield joined(waiting)
            waiting, rows = [], 0
        if len(piece[0]):
            waiting.append(piece)
            rows += len(piece[0])
        if rows >= BLOCK_ROWS:
            whole = joined(waiting)
            for start in range(0, rows - BLOCK_ROWS + 1, BLOCK_ROWS):
                yield [c.part(start, start + BLOCK_ROWS) for c in whole]
            left = rows % BLOCK_ROWS
            waiting = [[c.part(rows - left, rows) for c in whole]] if left else []
            rows = left
    if rows:
        yield joined(waiting)
