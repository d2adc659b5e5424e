"""Top-k: the first rows of an ordered index, followed through a step.

At one time the first k rows are among the first k + d entries that some reader may see, d being the
deaths that readers can still tell; within a step of many times, among k + d + b, with its births.
Those are read from the front of the index, put in exact order
(texts are compared in full here, the index has their first bytes), and followed through the step's
births and deaths in order of time.

Invariant: the deltas add up to the rows at [offset, offset + limit) in the documented order.
Cost of a step: O(k + d + b) entries, plus those that tie with the last on the index's words.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from operators import delta as deltas
from operators.column import Bools, Column, Ints, is_textual
from operators.delta import Delta
from operators.kernels import fronts, versions
from operators.state import encode
from operators.state.arrangement import ArrangementState, order_keys
from planner import dataflow as ir
from planner.algebra import SortKey


class TopKOperator:
    """Rows [offset, offset + limit) of `index`. State: that index, and the ids of those rows."""

    def __init__(self, node: ir.TopK, index: ArrangementState) -> None:
        self.node = node
        self.index = index
        self._keys = order_keys(node.index)
        self._high = node.offset + node.limit
        self._members = np.empty(0, np.int64)

    def step(self, delta: Delta) -> Delta:
        """What the input's changes (already in the index) do to the first rows."""
        if len(delta) == 0:
            return deltas.empty(self.node.schema)
        relation = self.index.relation
        start = int(delta.time.min())
        if start == int(delta.time.max()):
            return self._replace(start)
        # Rows that some time of the step does not see yet, or any more, come in between.
        between = relation.deaths_told + int((delta.diff > 0).sum())
        rows = self._front(self._high + between)
        born, died = self._lives(rows)
        alive = (born < start) & (died >= start)
        births = np.flatnonzero((born >= start) & (born < died))
        ends = np.flatnonzero((died >= start) & (died != versions.NEVER) & (born < died))
        place = np.concatenate((births, ends))
        time = np.concatenate((born[births], died[ends]))
        sign = np.ones(len(place), np.int64)
        sign[len(births) :] = -1
        order = np.argsort(time, kind="stable")
        changes = self._follow(rows, alive, place[order], time[order], sign[order])
        self._members = self._first(int(delta.time.max()))
        return changes

    def start(self, time: int) -> Delta:
        """The first rows as of `time`, as births at that time."""
        self._members = np.empty(0, np.int64)
        return self._replace(time)

    def snapshot(self, time: int) -> Delta:
        """The present rows, as births at `time`."""
        n = len(self._members)
        births = np.ones(n, np.int64)
        return deltas.bound(self.index.relation, self._members, np.full(n, time, np.int64), births)

    def _replace(self, time: int) -> Delta:
        """The step that makes the first rows as of `time` the present ones."""
        before, after = self._members, self._first(time)
        self._members = after
        left, came = np.setdiff1d(before, after), np.setdiff1d(after, before)
        rows = np.concatenate((left, came))
        diff = np.ones(len(rows), np.int64)
        diff[: len(left)] = -1
        return deltas.bound(self.index.relation, rows, np.full(len(rows), time, np.int64), diff)

    def _first(self, time: int) -> Ints:
        """Rows at ranks [offset, offset + limit) as of `time`, the latest time there is."""
        rows = self._front(self._high + self.index.relation.deaths_told)
        born, died = self._lives(rows)
        rows = rows[(born <= time) & (time < died)]
        return rows[self.node.offset : self._high]

    def _follow(self, rows: Ints, alive: Bools, place: Ints, time: Ints, sign: Ints) -> Delta:
        low, high = self.node.offset, self._high
        capacity = 2 * len(place) + 16
        while True:
            out = [np.empty(capacity, np.int64) for _ in range(3)]
            count = fronts.follow(alive.copy(), low, high, place, time, sign, *out)
            if count <= capacity:
                break
            capacity = count
        places, times, diffs = (o[:count] for o in out)
        return deltas.bound(self.index.relation, rows[places], times, diffs)

    def _front(self, wanted: int) -> Ints:
        """The first `wanted` rows that some reader may see, and some more, in exact order."""
        if self.node.limit == 0:
            return np.empty(0, np.int64)
        spine = self.index.spine
        dead, _, _, died_row, _ = self.index.relation.versions
        capacity = wanted + 64
        while True:
            out, work = np.empty(capacity, np.int64), np.zeros(2, np.int64)
            heads = np.zeros(len(spine.table), np.int64)
            count = fronts.front(spine.table, spine.width, wanted, dead, died_row, heads, out, work)
            if count <= capacity:
                break
            capacity = count
        self.index.work.entries += int(work[0])
        self.index.work.seeks += 1
        return self._exactly(out[:count])

    def _exactly(self, rows: Ints) -> Ints:
        relation = self.index.relation
        types = [relation.schema[k.column].type for k in self._keys]
        if encode.order_is_exact(types) or len(rows) < 2:
            return rows
        return rows[sort_rows([relation.gather(k.column, rows) for k in self._keys], self._keys)]

    def _lives(self, rows: Ints) -> tuple[Ints, Ints]:
        born, died = np.empty(len(rows), np.int64), np.empty(len(rows), np.int64)
        versions.lives(rows, *self.index.relation.versions, born, died)
        return born, died


def sort_rows(columns: list[Column], keys: tuple[SortKey, ...]) -> Ints:
    """Positions in exact SQL order: columns[i] as keys[i] says; texts compare as UTF-8 bytes."""
    words: list[Ints] = []
    for column, key in zip(columns, keys, strict=True):
        if is_textual(column.type):
            texts: Any = np.array(column.values.to_pylist(), dtype=object)
            _, ranks = np.unique(texts, return_inverse=True)
            ranks = ranks.astype(np.int64)
            valid = column.valid if column.valid is not None else np.ones(len(ranks), np.bool_)
            ranks = np.where(valid, ranks, 0)
            words.append(valid.astype(np.int64) if key.nulls_first else 1 - valid)
            words.append(~ranks if key.descending else ranks)
        else:
            words.extend(encode.order_words([column], [key]))
    return np.lexsort(words[::-1])
