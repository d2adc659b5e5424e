"""Rows by key and time, and what each such run adds to its group.

A run is the rows of one key at one time. What a group operator is to apply is one sum for each run,
so that a step of many times is one pass; parts that were added up by themselves, in pieces or in
Spark tasks, are added up as rows are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from operators.flight.column import Column, Ints, concat, counting
from operators.flight.delta import Delta
from operators.kernels import grouping
from operators.nodes.partitions import sort_rows
from operators.quick import quick
from operators.scalar import exact_sum
from operators.slabs import joined, kept, scratch
from operators.state import encode, equality
from operators.state.order import sort_keys
from operators.state.relation import PIECE_ROWS
from operators.state.spine import keys_at
from planner.calculus.algebra import SortKey

#: So many groups of pieces are added up before the last piece, where that makes them fewer.
_MOST_GROUPS = 2 * PIECE_ROWS

#: Elements of groups, of some of them together, that are in memory at once.
CHUNK_ROWS = 1 << 20


def chunks(sizes: Ints, most: int) -> Iterator[tuple[int, int]]:
    """Groups of these sizes, int64[n], some at a time: [begin, end) of about `most` elements."""
    chunk = (np.cumsum(sizes) - sizes) // most
    edges = np.flatnonzero(np.diff(chunk, prepend=-1, append=-1)).tolist()
    return pairwise(edges)


def elements(sizes: Ints) -> tuple[Ints, Ints]:
    """Of groups of these sizes, one after the other, for each element its group and its place."""
    group = np.repeat(np.arange(len(sizes)), sizes)
    return group, np.arange(len(group)) - np.repeat(np.cumsum(sizes) - sizes, sizes)


@quick
@dataclass(frozen=True, slots=True)
class Grouping:
    """Rows by key and time: run r is rows order[starts[r]:starts[r + 1]], in (bucket, key, time)
    order; group g is runs key_starts[g] to key_starts[g + 1]. All int64."""

    order: Ints
    starts: Ints
    key_starts: Ints

    @property
    def first_row(self) -> Ints:
        """The first row of each run."""
        return self.order[self.starts[:-1]]


def group_rows(
    words: Ints, time: Ints, columns: Sequence[Column] = (), hashed: encode.Hashed = ()
) -> Grouping:
    """Rows of keys int64[w, n] at times int64[n], grouped; `columns`: what the keys are made of, as
    far as they are `hashed` (see operators.state.equality). Groups of one hash come one after the
    other.

    Cost: O(n), and a sort of one row of each run where rows share keys; where they do not, of one
    row of each stretch of neighbours that do, or of the rows themselves.
    """
    grouped = _grouped(words, time)
    if hashed:
        starts = grouped.starts[grouped.key_starts]
        apart = equality.told_apart(words, columns, hashed, grouped.order, starts)
        if apart is not None:
            return _grouped(apart, time)
    return grouped


def _grouped(words: Ints, time: Ints) -> Grouping:
    n = len(time)
    starts, key_starts = scratch((n + 1,), np.int64), scratch((n + 1,), np.int64)
    number, first = scratch((n,), np.int32), scratch((n,), np.int32)
    units, keys = grouping.number_rows(words, time, number, first)
    if units >= 0:
        order = scratch((n,), np.int64)
        runs, groups = grouping.lay_out(
            words, time, number, first[:units], sort_keys(keys), order, starts, key_starts
        )
    else:
        row_keys = words if units == grouping.ONE_TIME else np.vstack((words, time))
        order = sort_keys(row_keys)
        runs, groups = grouping.lay_out(
            words, time, number[:0], first[:0], order, order, starts, key_starts
        )
    return Grouping(order, starts[: runs + 1], key_starts[: groups + 1])


@quick
@dataclass(frozen=True, slots=True)
class Runs:
    """What a delta adds to groups: run r belongs to group group_of its key and one time.

    words int64[w, groups]: keys in (bucket, key) order, hashes may recur; key_starts
    int64[groups + 1] into the runs; first_row int64[runs]: an input row of each run; time
    int64[runs]; change int64[words, runs] as `sweep_groups` takes it, but for values, which
    `apply` enters; exact[a]: for the a-th exact sum, the states of what each run adds;
    extreme[e]: for the e-th accumulator of EXTREME, the value of each run.
    grouped: the delta's rows by run, where they are at hand.
    """

    words: Ints
    key_starts: Ints
    first_row: Ints
    time: Ints
    change: Ints
    exact: tuple[pa.Array, ...]
    extreme: tuple[Column, ...] = ()
    grouped: Grouping | None = None


def add_up(
    words: Ints,
    columns: Sequence[Column],
    hashed: encode.Hashed,
    time: Ints,
    change: Ints,
    exact: tuple[pa.Array, ...],
    mode: Ints,
    extreme: Sequence[tuple[Column, SortKey]] = (),
) -> Runs:
    """What parts add to groups, as one; of each part and run, its key (see group_rows), its time,
    and change int64[words, n], states and extremes as Runs has them, these with the order in which
    each is the first. `first_row` is a part's, by position."""
    grouped = group_rows(words, time, columns, hashed)
    order, starts, first_row = grouped.order, grouped.starts, grouped.first_row
    added = scratch((len(mode), len(first_row)), np.int64)
    grouping.add_runs(order, starts, len(first_row), change, mode, added)
    return Runs(
        words=keys_at(words, first_row[grouped.key_starts[:-1]]),
        key_starts=grouped.key_starts,
        first_row=first_row,
        time=time[first_row],
        change=added,
        exact=tuple(exact_sum.added_up(states, order, starts) for states in exact),
        extreme=tuple(first_of_runs(values, key, order, starts) for values, key in extreme),
    )


def first_of_runs(values: Column, key: SortKey, order: Ints, starts: Ints) -> Column:
    """Of runs of values, as Grouping has them, the first of each in the order of a key."""
    ranked = sort_rows([values], (key,))
    rank = np.empty(len(values), np.int64)
    rank[ranked] = counting(len(values))
    return values.take(ranked[np.minimum.reduceat(rank[order], starts[:-1])])


def normal_key(column: Column) -> Column:
    """A key column of which equal values are the same: -0.0 is 0.0, and there is one NaN, as in
    Spark (otherwise the row that came first would show)."""
    values = column.values
    if not (isinstance(values, np.ndarray) and values.dtype.kind == "f"):
        return column
    kind = values.dtype.type
    alike = np.where(np.isnan(values), kind(np.nan), values + kind(0))
    return Column(column.type, alike, column.valid)


class Totals:
    """The groups of the pieces so far: one run for each group of a piece."""

    def __init__(
        self, runs: Callable[[Delta], Runs], keys: Sequence[int], hashed: encode.Hashed, mode: Ints
    ) -> None:
        """`runs` adds a piece up; `keys`: its columns."""
        self._runs = runs
        self._keys = keys
        self._hashed = hashed
        self._mode = mode
        self._parts: list[_Part] = []
        self._groups = 0
        self._limit = _MOST_GROUPS

    def add(self, piece: Delta) -> None:
        runs = self._runs(piece)
        keys = [piece.peek(k, runs.first_row) for k in self._keys]
        self._parts.append(_Part(keys, runs.words, runs.time, runs.change, runs.exact).kept())
        self._groups += len(runs.time)
        if self._groups > self._limit:
            before = self._groups
            self._parts = [self._merged().kept()]
            self._groups = len(self._parts[0].time)
            # Groups that hardly recur are better sorted once, at the end.
            self._limit = max(self._limit, (2 if 2 * self._groups < before else 16) * before)

    def sum(self) -> tuple[list[Column], Runs]:
        """All pieces as one; the columns of the keys have one row for each run."""
        part, self._parts = self._merged(), []
        n = len(part.time)
        runs = Runs(part.words, np.arange(n + 1), np.arange(n), part.time, part.change, part.exact)
        return part.keys, runs

    def _merged(self) -> _Part:
        """All parts as one, which are taken."""
        if len(self._parts) == 1:
            return self._parts[0]
        parts, self._parts = self._parts, []
        keys = [concat([p.keys[i] for p in parts]) for i in range(len(self._keys))]
        words, time = joined([p.words for p in parts]), joined([p.time for p in parts])
        change = joined([p.change for p in parts])
        exact = tuple(map(pa.concat_arrays, zip(*(p.exact for p in parts), strict=True)))
        del parts
        runs = add_up(words, keys, self._hashed, time, change, exact, self._mode)
        keys = [k.take(runs.first_row) for k in keys]
        return _Part(keys, runs.words, runs.time, runs.change, runs.exact)


class _Part(NamedTuple):
    """Runs of one time, so one for each group, and the values of the groups' keys."""

    keys: list[Column]
    words: Ints
    time: Ints
    change: Ints
    exact: tuple[pa.Array, ...]

    def kept(self) -> _Part:
        """The same to be kept for a while."""
        keys = [Column(k.type, _kept(k.values), k.valid) for k in self.keys]
        return _Part(keys, _kept(self.words), _kept(self.time), _kept(self.change), self.exact)


def _kept(values: Any) -> Any:
    return kept(values) if isinstance(values, np.ndarray) else values
