"""Top-k: the first rows of an ordered index, or of each of its partitions, through a step.

At any time within a step the first k rows of a partition are among the first k + d + b entries of
it that did not die before the step, d and b being its deaths and births in the step. Those are
read from the front, put in exact order (texts are compared in full here, the index has their first
bytes), and followed through the step's births and deaths in order of time. Where there is one
partition and one time, neither need be counted in: the rows before the step are remembered.

Invariant: the deltas add up to the rows at [offset, offset + limit) in the documented order.
Cost of a step: O(k + d + b) entries for each partition that changes, plus those that tie with the
last on the index's words.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from typing_extensions import Self

from operators.flight import delta as deltas
from operators.flight.column import Ints
from operators.flight.delta import Delta
from operators.kernels import fronts, versions
from operators.nodes.operator import Inputs, Kept, Operator, Place
from operators.nodes.partitions import group_starts, lives, partition_fronts, partitions_of
from operators.state.arrangement import IndexReader, order_keys
from planner import dataflow as ir


class TopKOperator(Operator[ir.TopK]):
    """Rows [offset, offset + limit) of `index`. State: that index, and the ids of those rows where
    it has no partitions."""

    def __init__(self, node: ir.TopK, index: IndexReader) -> None:
        self.node = node
        self.index = index
        self._partition = node.index.partition
        self._keys = order_keys(node.index)
        self._high = node.offset + node.limit
        self._members = np.empty(0, np.int64)

    @classmethod
    def install(cls, node: ir.TopK, place: Place) -> Self:
        return cls(node, place.index(node.index))

    def kept(self) -> Kept:
        return {"members": self._members}

    def load(self, kept: Kept) -> None:
        self._members = kept["members"]

    def start(self, inputs: Inputs) -> Iterator[Delta]:
        if self._partition:
            yield from self.rows(inputs)
        else:
            yield self._replace(inputs.time)

    def rows(self, inputs: Inputs) -> Iterator[Delta]:
        yield self._births(self._first(inputs.time), inputs.time)

    def rows_among(self, rows: Ints, time: int) -> Iterator[Delta]:
        """The node's rows as of `time`, the latest, of partitions all of whose rows are these."""
        yield self._births(self._first(time, rows), time)

    def step(self, changes: Sequence[Delta | None]) -> Delta:
        """What the input's changes do to the first rows."""
        (delta,) = changes
        if delta is None or len(delta) == 0 or self.node.limit == 0:
            return deltas.empty(self.node.schema)
        start, end = int(delta.time.min()), int(delta.time.max())
        if not self._partition and start == end:
            return self._replace(start)
        partitions = partitions_of(
            self.index, [delta.column(c) for c in self._partition], len(delta)
        )
        # Rows that some time of the step does not see yet, or any more, come in between.
        wanted = self._high + np.diff(partitions.starts)
        followed = self._follow(*partition_fronts(self.index, partitions, wanted, start), start)
        if not self._partition:
            self._keep(self._first(end))
        return followed

    def mark(self) -> Ints:
        return self._members

    def restore(self, mark: Ints) -> None:
        self._members = mark

    def _keep(self, members: Ints) -> None:
        self.index.relation.undo.before(self)
        self._members = members

    def _replace(self, time: int) -> Delta:
        """The step that makes the first rows as of `time` the present ones."""
        before, after = self._members, self._first(time)
        self._keep(after)
        left, came = _without(before, after), _without(after, before)
        rows = np.concatenate((left, came))
        diff = np.ones(len(rows), np.int64)
        diff[: len(left)] = -1
        return deltas.bound(self.index.relation, rows, np.full(len(rows), time, np.int64), diff)

    def _births(self, rows: Ints, time: int) -> Delta:
        return deltas.births(self.index.relation, rows, np.full(len(rows), time, np.int64))

    def _first(self, time: int, everything: Ints | None = None) -> Ints:
        """Rows at ranks [offset, offset + limit) of every partition as of `time`, the latest, or of
        those with the rows `everything`."""
        relation = self.index.relation
        if self._partition:
            everything = relation.visible(time) if everything is None else everything
            columns = [relation.gather(c, everything) for c in self._partition]
            partitions = partitions_of(self.index, columns, len(everything))
        else:
            partitions = partitions_of(self.index, [], 1)
        wanted = np.full(len(partitions.starts) - 1, self._high)
        group, rows, groups = partition_fronts(self.index, partitions, wanted, time + 1)
        rank = np.arange(len(rows)) - group_starts(group, groups)[group]
        return rows[(rank >= self.node.offset) & (rank < self._high)]

    def _follow(self, group: Ints, rows: Ints, groups: int, start: int) -> Delta:
        """Changes of the ranks [offset, high) from `start` on; rows in exact order by group."""
        born, died = lives(self.index.relation, rows)
        alive = (born < start) & (died >= start)
        births = np.flatnonzero((born >= start) & (born < died))
        ends = np.flatnonzero((died >= start) & (died != versions.NEVER) & (born < died))
        place = np.concatenate((births, ends))
        time = np.concatenate((born[births], died[ends]))
        sign = np.ones(len(place), np.int64)
        sign[len(births) :] = -1
        order = np.lexsort((time, group[place]))
        place, time, sign = place[order], time[order], sign[order]
        place_start = np.append(group_starts(group, groups), len(rows))
        event_start = np.append(group_starts(group[place], groups), len(place))
        capacity = 2 * len(place) + 16
        while True:
            out = [np.empty(capacity, np.int64) for _ in range(3)]
            count = fronts.follow_groups(
                place_start, alive.copy(), self.node.offset, self._high,
                event_start, place, time, sign, out[0], out[1], out[2],
            )  # fmt: skip
            if count <= capacity:
                break
            capacity = count
        places, times, diffs = (o[:count] for o in out)
        return deltas.bound(self.index.relation, rows[places], times, diffs)


def _without(rows: Ints, others: Ints) -> Ints:
    """Those of `rows` that are not among `others`; no row is twice among either."""
    if len(others) == 0:
        return rows
    others = np.sort(others)
    at = np.minimum(others.searchsorted(rows), len(others) - 1)
    absent: Ints = rows[others[at] != rows]
    return absent
