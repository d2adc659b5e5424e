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
from dataclasses import dataclass

import numpy as np
import pyarrow.compute as pc
from typing_extensions import Self

from operators.flight import delta as deltas
from operators.flight.column import Column, Ints, is_textual
from operators.flight.delta import Delta
from operators.kernels import fronts, sorting, versions
from operators.nodes.operator import Inputs, Kept, Operator, Place
from operators.state import encode, equality
from operators.state.arrangement import ArrangementState, Matches, order_keys
from operators.state.relation import Relation
from operators.state.spine import keys_at, sort_keys
from planner import dataflow as ir
from planner.algebra import SortKey


@dataclass(frozen=True, slots=True)
class _Partitions:
    """Distinct partition keys int64[w, groups] of rows, in (bucket, key) order: those of `columns`
    at positions first int64[groups]; starts int64[groups + 1]: how many rows have each. `mixed`:
    whether rows of several values share a key."""

    columns: list[Column]
    words: Ints
    starts: Ints
    first: Ints
    mixed: bool


class TopKOperator(Operator[ir.TopK]):
    """Rows [offset, offset + limit) of `index`. State: that index, and the ids of those rows where
    it has no partitions."""

    def __init__(self, node: ir.TopK, index: ArrangementState) -> None:
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
        rows = self._first(inputs.time)
        time, births = np.full(len(rows), inputs.time, np.int64), np.ones(len(rows), np.int64)
        yield deltas.bound(self.index.relation, rows, time, births)

    def step(self, changes: Sequence[Delta | None]) -> Delta:
        """What the input's changes do to the first rows."""
        (delta,) = changes
        if delta is None or len(delta) == 0 or self.node.limit == 0:
            return deltas.empty(self.node.schema)
        start, end = int(delta.time.min()), int(delta.time.max())
        if not self._partition and start == end:
            return self._replace(start)
        partitions = self._partitions([delta.column(c) for c in self._partition], len(delta))
        # Rows that some time of the step does not see yet, or any more, come in between.
        wanted = self._high + np.diff(partitions.starts)
        followed = self._follow(*self._fronts(partitions, wanted, start), start)
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

    def _first(self, time: int) -> Ints:
        """Rows at ranks [offset, offset + limit) of every partition as of `time`, the latest."""
        relation = self.index.relation
        if self._partition:
            everything = relation.visible(time)
            columns = [relation.gather(c, everything) for c in self._partition]
            partitions = self._partitions(columns, len(everything))
        else:
            partitions = self._partitions([], 1)
        wanted = np.full(len(partitions.starts) - 1, self._high)
        group, rows, groups = self._fronts(partitions, wanted, time + 1)
        rank = np.arange(len(rows)) - _starts(group, groups)[group]
        return rows[(rank >= self.node.offset) & (rank < self._high)]

    def _partitions(self, columns: list[Column], n: int) -> _Partitions:
        """The partitions of n rows with these values in its columns."""
        words = self.index.partition_words(columns, n)
        order = sort_keys(words)
        starts = np.empty(n + 1, np.int64)
        starts = starts[: sorting.run_starts(words, order, starts) + 1]
        apart = equality.told_apart(words, columns, self.index.hashed, order, starts)
        first = order[starts[:-1]]
        return _Partitions(columns, keys_at(words, first), starts, first, apart is not None)

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
        place_start = np.append(_starts(group, groups), len(rows))
        event_start = np.append(_starts(group[place], groups), len(place))
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

    def _fronts(self, partitions: _Partitions, wanted: Ints, since: int) -> tuple[Ints, Ints, int]:
        """For each partition its first `wanted` rows that did not die before `since`, and some
        more, in exact order: (group, row), int64[n] each, and how many groups there are."""
        group, rows = front_rows(self.index, partitions.words, wanted, since)
        groups = len(wanted)

        def values(k: int, probe: Ints) -> Column:
            return partitions.columns[k].take(partitions.first[probe])

        found = Matches(group, rows)
        mixed = partitions.mixed
        if mixed or equality.differing(self.index, partitions.words, values, found) is not None:
            # Partitions that share a hash: all their rows, dealt out by value.
            every = np.full(groups, self.index.spine.entries)
            group, rows = front_rows(self.index, partitions.words, every, since)
            columns = [self.index.relation.gather(c, rows) for c in self._partition]
            keys = np.vstack((group, encode.local_words(columns)))
            _, group = np.unique(keys, axis=1, return_inverse=True)
            order = np.argsort(group, kind="stable")
            group, rows = group[order], rows[order]
            groups = int(group[-1]) + 1 if len(group) else 0
        return group, rows, groups


def front_rows(
    index: ArrangementState, probes: Ints, wanted: Ints, since: int
) -> tuple[Ints, Ints]:
    """Of the partitions with these words their first `wanted` rows that did not die before `since`,
    and some more, in exact order by partition: (partition, row), int64[n] each.

    Shapes: probes int64[w, p] in the order of spine.sort_keys, wanted int64[p]. Cost: the rows that
    come, those that tie with the last of them on the index's words included.
    """
    spine = index.spine
    dead, _, _, died_row, died_time = index.relation.versions
    wanted = np.minimum(wanted, spine.entries)
    capacity = min(int(wanted.sum()), spine.entries) + 64
    while True:
        group, rows = np.empty(capacity, np.int64), np.empty(capacity, np.int64)
        work = np.zeros(2, np.int64)
        count = fronts.fronts(
            spine.table_with_skips(), spine.width, probes, wanted, since,
            dead, died_row, died_time, group, rows, work,
        )  # fmt: skip
        if count <= capacity:
            break
        capacity = count
    index.looked_up(work)
    return _exactly(index, group[:count], rows[:count])


def _exactly(index: ArrangementState, group: Ints, rows: Ints) -> tuple[Ints, Ints]:
    assert isinstance(index.spec, ir.OrderedArrangement)
    relation, keys = index.relation, order_keys(index.spec)
    types = [relation.schema[k.column].type for k in keys]
    if encode.order_is_exact(types) or len(rows) < 2:
        return group, rows
    order = sort_rows([relation.gather(k.column, rows) for k in keys], keys, group)
    return group[order], rows[order]


def lives(relation: Relation, rows: Ints) -> tuple[Ints, Ints]:
    """When rows were born and died (versions.NEVER: not yet), int64[n] each."""
    born, died = np.empty(len(rows), np.int64), np.empty(len(rows), np.int64)
    dead, born_first, born_time, died_row, died_time = relation.versions
    versions.lives(rows, dead, born_first, born_time, died_row, died_time, born, died)
    return born, died


def _without(rows: Ints, others: Ints) -> Ints:
    """Those of `rows` that are not among `others`; no row is twice among either."""
    if len(others) == 0:
        return rows
    others = np.sort(others)
    at = np.minimum(others.searchsorted(rows), len(others) - 1)
    absent: Ints = rows[others[at] != rows]
    return absent


def _starts(group: Ints, groups: int) -> Ints:
    """First position of each group in ascending group numbers int64[n]."""
    return np.searchsorted(group, np.arange(groups))


def sort_rows(columns: list[Column], keys: tuple[SortKey, ...], group: Ints | None = None) -> Ints:
    """Positions in exact SQL order: columns[i] as keys[i] says; texts compare as UTF-8 bytes.

    `group` int64[n] goes before all keys. Needs at least one column.
    """
    words = exact_words(columns, keys)
    return np.lexsort((words if group is None else [group, *words])[::-1])


def exact_words(columns: list[Column], keys: tuple[SortKey, ...]) -> list[Ints]:
    """Words int64[n] that sort as `keys` say, and are equal where values are; those of texts are
    ranks, which mean nothing beside words made by another call."""
    words: list[Ints] = []
    for column, key in zip(columns, keys, strict=True):
        if is_textual(column.type):
            ranks = pc.rank(column.values, tiebreaker="dense").to_numpy().astype(np.int64)
            valid = column.valid if column.valid is not None else np.ones(len(ranks), np.bool_)
            ranks = np.where(valid, ranks, 0)
            words.append(valid.astype(np.int64) if key.nulls_first else 1 - valid)
            words.append(~ranks if key.descending else ranks)
        else:
            words.extend(encode.order_words([column], [key]))
    return words
