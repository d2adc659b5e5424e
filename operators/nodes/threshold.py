"""Threshold: the rows on one side of a scalar that moves.

A change of a row meets the scalar as of its time: one lookup. A move of the scalar changes the
result of exactly the rows between its old and its new value: one range of the ordered index, seen
just before the move, so that a row and the scalar moving at once are counted once.

Invariant: the deltas add up to the rows whose column compares with their scalar as the plan says.
Cost: a lookup per changed row, or per time where all rows share one scalar; for each move of a
scalar a seek per batch and the rows that flip.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from typing_extensions import Self

from operators import scalar
from operators.flight import delta as deltas
from operators.flight.column import Column, Ints, is_textual, passing
from operators.flight.delta import Delta
from operators.kernels import ranges
from operators.nodes.operator import Inputs, Operator, Place
from operators.nodes.runs import group_rows
from operators.state import encode, equality
from operators.state.arrangement import IndexReader, Matches
from operators.state.ranges import Bound, between
from planner import dataflow as ir
from planner.calculus.expr import Call, column
from planner.calculus.types import BOOLEAN

_ALL = np.empty(0, np.bool_)
#: For each comparison: whether rows above the scalar pass, and whether the scalar itself does.
_SIDES = {"gt": (True, False), "ge": (True, True), "lt": (False, False), "le": (False, True)}


class ThresholdOperator(Operator[ir.Threshold]):
    """State: `index` of the rows, and `bound`, the index that finds the scalar."""

    def __init__(self, node: ir.Threshold, index: IndexReader, bound: IndexReader) -> None:
        if node.index.order[0].descending:
            raise ValueError("a threshold's index is ascending")
        self.node = node
        self.index = index
        self.bound = bound
        self._column = node.index.order[0].column
        self._above, self._inclusive = _SIDES[node.comparison]
        kind = index.relation.schema[self._column].type
        self._exact = not is_textual(kind)
        args = (column(0, kind), column(1, kind))
        self._compare = scalar.compile(Call(node.comparison, args, BOOLEAN, True))

    @classmethod
    def install(cls, node: ir.Threshold, place: Place) -> Self:
        return cls(node, place.index(node.index), place.index(node.bound))

    @property
    def takes(self) -> tuple[ir.Node, ...]:
        """The rows, and what holds the scalar; it may be the same."""
        return self.node.index.relation, self.node.bound.relation

    def start(self, inputs: Inputs) -> Iterator[Delta]:
        return self.rows(inputs)

    def rows(self, inputs: Inputs) -> Iterator[Delta]:
        yield self.step([inputs.whole(self.node.index.relation), None])

    def step(self, changes: Sequence[Delta | None]) -> Delta:
        rows, scalars = changes
        parts = []
        if rows is not None and len(rows):
            parts.append(self._row_changes(rows))
        if scalars is not None and len(scalars):
            parts.append(self.moved(scalars))
        return merged(self.index, parts)

    def _row_changes(self, rows: Delta) -> Delta:
        """Changed rows that pass the scalar as of their time."""
        keys = [rows.column(c) for c in self.node.index.partition]
        present = encode.not_null([*keys, rows.column(self._column)])
        if present is not None and not present.all():
            rows = rows.filter(present)
            keys = [rows.column(c) for c in self.node.index.partition]
        place, scalars = self._scalars(keys, rows.time)
        values = rows.column(self._column).take(place)
        return rows.select(place[self._passes(values, scalars)])

    def _scalars(self, keys: list[Column], times: Ints) -> tuple[Ints, Column]:
        """The scalar of each key as of its time: positions that have one, and those scalars. One
        that all rows share is looked up once for each time."""
        relation, n = self.bound.relation, len(times)
        if keys:
            words = self.bound.probe_words(keys, n)
            matches = equality.matching(
                self.bound,
                words,
                lambda k, at: keys[k].take(at),
                self.bound.lookup(words, times, True),
            )
            return matches.probe, relation.gather(self.node.scalar, matches.row)
        each, time_of = np.unique(times, return_inverse=True)
        matches = self.bound.lookup(self.bound.probe_words([], len(each)), each, True)
        found = np.full(len(each), -1, np.int64)
        found[matches.probe] = np.arange(len(matches.probe))
        at = found[time_of]
        place = np.flatnonzero(at >= 0)
        return place, relation.gather(self.node.scalar, matches.row).take(at[place])

    def moved(self, scalars: Delta, part: int = 0, parts: int = 1) -> Delta:
        """Rows that moves of the scalar take in or throw out; one of some parts of them."""
        spec = self.node.bound
        keys = [scalars.column(c) for c in spec.columns]
        present = encode.not_null(keys)
        if present is not None and not present.all():
            scalars = scalars.filter(present)
            keys = [scalars.column(c) for c in spec.columns]
        value = scalars.column(self.node.scalar)
        scalar_keys = self.bound.probe_words(keys, len(scalars))
        grouped = group_rows(scalar_keys, scalars.time, keys, self.bound.hashed)
        words = encode.order_words([value], [self.node.index.order[0]])
        most = len(grouped.starts) - 1
        places, counts = np.empty((2, most), np.int64), np.empty((2, most), np.int64)
        low, high = (np.empty((len(words), most), np.int64) for _ in range(2))
        opens = np.empty((2, most), np.bool_)
        count = ranges.moves(
            grouped.order, grouped.starts, words, scalars.diff,
            _ALL if value.valid is None else value.valid,
            self._above, self._inclusive, self._exact, places, low, high, counts, opens,
        )  # fmt: skip
        old, new = places[:, :count]
        at = np.where(old >= 0, old, new)  # a change of each move, for its key and time
        partition = self.index.partition_words([k.take(at) for k in keys], count)
        times = scalars.time[at]
        start, end = (
            Bound(words[:, :count], counts[i, :count], opens[i, :count])
            for i, words in enumerate((low, high))
        )
        probe, row = between(self.index, partition, start, end, times, False)
        own = slice(len(row) * part // parts, len(row) * (part + 1) // parts)
        probe, row = probe[own], row[own]
        found = equality.matching(
            self.index, partition, lambda k, p: keys[k].take(at[p]), Matches(probe, row)
        )
        probe, row = found.probe, found.row
        values = self.index.relation.gather(self._column, row)
        before = self._passes_at(values, value, old[probe])
        after = self._passes_at(values, value, new[probe])
        flips = np.flatnonzero(before != after)
        diff = np.where(after[flips], 1, -1)
        return deltas.bound(self.index.relation, row[flips], times[probe[flips]], diff)

    def _passes(self, rows: Column, scalars: Column) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        value, errors = self._compare.evaluate((rows, scalars).__getitem__, len(rows))
        assert errors is None, "a comparison cannot fail"
        return passing(value)

    def _passes_at(
        self, rows: Column, scalars: Column, at: Ints
    ) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """Whether each row passes the scalar at its position; none passes at -1."""
        there = at >= 0
        if not there.any():
            return there
        return there & self._passes(rows, scalars.take(np.where(there, at, at.max())))


def merged(index: IndexReader, parts: list[Delta]) -> Delta:
    """Deltas of rows of one relation as one."""
    rows = [p.bindings[0].rows for p in parts]
    if not parts:
        return deltas.empty(index.relation.schema)
    return deltas.bound(
        index.relation,
        np.concatenate(rows),
        np.concatenate([p.time for p in parts]),
        np.concatenate([p.diff for p in parts]),
    )
