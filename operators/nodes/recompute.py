"""Recompute: one row per group, computed anew from all rows of a group that changes.

For aggregates without a state that changes could be added to. A step finds the groups that it
touches, reads each one's rows once (those from before the step through the index on the keys, the
step's own from the delta), tells from their lives which of them there are as of each touched time,
and computes the values for all those (group, time) together, in chunks of bounded size. The result
is a relation keyed by group: what a group was is read, not computed.

Invariant: a group's living row has the values of the input rows as of now; a group without rows has
no row, but for the one group of a global aggregate. Cost of a step: the rows of the groups that it
touches, and for each of their touched times the rows as of then.
Source: K-Pg §5.3.2; DESIGN §6 (basic).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from typing_extensions import Self

from operators.flight import delta as deltas
from operators.flight.column import Bools, Column, Ints, concat
from operators.flight.delta import Delta, Pairs
from operators.flight.unchanged import without_unchanged
from operators.kernels import versions
from operators.nodes.group_values import group_value
from operators.nodes.operator import Inputs, Operator, Place
from operators.nodes.reduce import gather_or_null, own_rows
from operators.nodes.runs import CHUNK_ROWS, chunks, elements, group_rows, normal_key
from operators.state import encode, equality
from operators.state.arrangement import ArrangementState, IndexReader
from operators.state.order import order_of
from operators.state.relation import Relation
from operators.state.spine import keys_at
from planner import dataflow as ir


@dataclass(frozen=True, slots=True)
class _Touched:
    """What a step touches: run r is one group at one time.

    words int64[w, groups]: keys in (bucket, key) order; starts int64[groups + 1] into the runs;
    time int64[runs], ascending in a group; first int64[groups]: an update of each group; and for
    each update of the step its group or -1, int64[n].
    """

    words: Ints
    starts: Ints
    time: Ints
    first: Ints
    group: Ints


@dataclass(frozen=True, slots=True)
class _Members:
    """Rows of the groups: row r of group g is at positions starts[g] and after; with its life."""

    rows: Ints
    starts: Ints
    born: Ints
    died: Ints


class RecomputeOperator(Operator[ir.Recompute]):
    """The group operator of `node`. State: `relation`, and `index` on its keys; it reads `members`,
    the index of its input on the same keys."""

    def __init__(
        self,
        node: ir.Recompute,
        relation: Relation,
        index: ArrangementState,
        members: IndexReader,
    ) -> None:
        self.node = node
        self.relation = relation
        self.index = index
        self.members = members
        self._keys = node.index.columns
        self._args = tuple(dict.fromkeys(c for v in node.values for c in v.args))

    @classmethod
    def install(cls, node: ir.Recompute, place: Place) -> Self:
        relation = place.own_relation(node)
        return cls(node, relation, place.index(ir.group_index(node)), place.index(node.index))

    @property
    def reads(self) -> Mapping[ir.Index, IndexReader]:
        """The indexes of its input in which it looks rows up."""
        return {self.node.index: self.members}

    def rows(self, inputs: Inputs) -> Iterator[Delta]:
        return inputs.read(self.relation)

    def step(self, changes: Sequence[Delta | None]) -> Delta:
        """What the input's changes do to the groups' rows."""
        (delta,) = changes
        if delta is None or len(delta) == 0:
            return deltas.empty(self.node.schema)
        touched = self._touched(delta)
        relevant = without_unchanged(delta, (*self._keys, *self._args))
        if relevant is not delta:
            if len(relevant) == 0:
                return deltas.empty(self.node.schema)
            same = np.isin(delta.bindings[0].rows, relevant.bindings[0].rows, invert=True)
            touched = _without(touched, same)
        groups = len(touched.starts) - 1
        before = self.members.lookup(
            touched.words, np.full(groups, delta.time.min()), False, order=np.arange(groups)
        )
        before = equality.matching(
            self.members, touched.words, self._group_values(delta, touched), before
        )
        born = np.flatnonzero((delta.diff > 0) & (touched.group >= 0))
        group = np.concatenate((before.probe, touched.group[born]))
        rows = np.concatenate((before.row, delta.bindings[0].rows[born]))
        return self._apply(delta, touched, self._lives(group, rows, groups))

    def start(self, inputs: Inputs) -> Iterator[Delta]:
        delta = inputs.whole(self.node.index.relation)
        if len(delta):
            touched = self._touched(delta)
        elif self._keys:
            return
        else:
            none, one = np.zeros(0, np.int64), np.zeros(1, np.int64)
            now = np.array([inputs.time], np.int64)
            touched = _Touched(one.reshape(1, 1), np.array([0, 1], np.int64), now, one, none)
        rows = delta.bindings[0].rows if len(delta) else np.zeros(0, np.int64)
        yield self._apply(delta, touched, self._lives(touched.group, rows, len(touched.starts) - 1))

    def _touched(self, delta: Delta) -> _Touched:
        n = len(delta)
        keys = [delta.column(c) for c in self._keys]
        words = self.index.probe_words(keys, n)
        grouped = group_rows(words, delta.time, keys, self.index.hashed)
        groups = len(grouped.key_starts) - 1
        first = grouped.first_row
        group = np.empty(n, np.int64)
        group[grouped.order] = np.repeat(
            np.arange(groups), np.diff(grouped.starts[grouped.key_starts])
        )
        group_first = first[grouped.key_starts[:-1]]
        return _Touched(
            words=keys_at(words, group_first),
            starts=grouped.key_starts,
            time=delta.time[first],
            first=group_first,
            group=group,
        )

    def _lives(self, group: Ints, rows: Ints, groups: int) -> _Members:
        """Rows int64[n] of groups int64[n], in any order, by group."""
        order = order_of(group)
        rows = rows[order]
        starts = np.searchsorted(group[order], np.arange(groups + 1))
        born, died = np.empty(len(rows), np.int64), np.empty(len(rows), np.int64)
        dead, born_first, born_time, died_row, died_time = self.members.relation.versions
        versions.lives(rows, dead, born_first, born_time, died_row, died_time, born, died)
        return _Members(rows, starts, born, died)

    def _apply(self, delta: Delta, touched: _Touched, members: _Members) -> Delta:
        """Put the new rows of the touched groups in the place of the old ones."""
        present, values = self._values(touched, members)
        old_row, old = self._stored(delta, touched)
        group = np.repeat(np.arange(len(old_row)), np.diff(touched.starts))
        before = np.empty_like(present)
        before[1:] = present[:-1]
        before[touched.starts[:-1]] = old_row >= 0
        # What each run's values are compared with: the run's before it, or what is stored.
        runs = len(present)
        source = np.arange(-1, runs - 1)
        source[touched.starts[:-1]] = np.arange(runs, runs + len(old_row))
        changed = present != before
        for value, stored in zip(values, old, strict=True):
            changed |= present & ~encode.equal_values(value, concat([value, stored]).take(source))
        births = np.flatnonzero(changed & present)
        deaths = np.flatnonzero(changed & before)
        births = births[order_of(touched.time[births])]  # row ids ascend with time
        sources = touched.first[group[births]]
        fields = self.node.schema
        columns = [
            normal_key(Column(f.type, c.values, c.valid))
            for f, c in zip(fields, (delta.peek(k, sources) for k in self._keys), strict=False)
        ]
        columns += [v.take(births) for v in values]
        first = self.relation.append(columns, touched.time[births])
        # What a run replaces was born at the last change of its group before it, or is stored.
        row_of = np.full(len(present), -1, np.int64)
        row_of[births] = np.arange(first, first + len(births))
        last = np.maximum.accumulate(np.where(changed, np.arange(len(present)), -1))
        prior = np.append(-1, last[:-1])[deaths]
        in_step = prior >= touched.starts[group[deaths]]
        dead = np.where(in_step, row_of[prior], old_row[group[deaths]])
        self.relation.kill(dead, touched.time[deaths])
        self.index.insert(row_of[births], keys_at(touched.words, group[births]))
        rows = np.concatenate((dead, row_of[births]))
        times = np.concatenate((touched.time[deaths], touched.time[births]))
        diff = np.ones(len(rows), np.int64)
        diff[: len(dead)] = -1
        place = np.full(len(present), -1, np.int64)
        place[births] = np.arange(len(births)) + len(dead)
        replaced = np.flatnonzero(place[deaths] >= 0)
        pairs = Pairs(replaced, place[deaths[replaced]], may_be_equal=False)
        return deltas.bound(self.relation, rows, times, diff, pairs)

    def _group_values(self, delta: Delta, touched: _Touched) -> equality.Values:
        return lambda k, group: delta.peek(self._keys[k], touched.first[group])

    def _stored(self, delta: Delta, touched: _Touched) -> tuple[Ints, list[Column]]:
        """The stored row of each group from before the step, or -1, and its values."""
        old_row = own_rows(self.index, touched.words, self._group_values(delta, touched))
        first, end = len(self._keys), len(self.node.schema)
        return old_row, [gather_or_null(self.relation, c, old_row) for c in range(first, end)]

    def _values(self, touched: _Touched, members: _Members) -> tuple[Bools, list[Column]]:
        """For each run whether its group has a row then, bool[runs], and its values."""
        relation = self.members.relation
        columns = {c: relation.gather(c, members.rows) for c in self._args}
        fields = self.node.schema[len(self._keys) :]
        parts: list[list[Column]] = [[] for _ in fields]
        counts: list[Ints] = []
        for runs, run, row in _alive(touched, members):
            counts.append(np.bincount(run, minlength=runs))
            chosen = {c: column.take(row) for c, column in columns.items()}
            for part, value, field in zip(parts, self.node.values, fields, strict=True):
                args = [chosen[c] for c in value.args]
                part.append(group_value(value, field.type, args, run, runs))
        present = np.concatenate(counts) > 0
        return present | (not self._keys), [concat(p) for p in parts]


def _without(touched: _Touched, same: Bools) -> _Touched:
    """Without the groups all of whose updates, bool[n], leave them the same."""
    groups = len(touched.starts) - 1
    changes = np.zeros(groups, np.bool_)
    changes[touched.group[~same]] = True
    kept = np.flatnonzero(changes)
    number = np.full(groups, -1, np.int64)
    number[kept] = np.arange(len(kept))
    sizes = np.diff(touched.starts)
    return _Touched(
        words=keys_at(touched.words, kept),
        starts=np.append(0, np.cumsum(sizes[kept])),
        time=touched.time[np.repeat(changes, sizes)],
        first=touched.first[kept],
        group=number[touched.group],
    )


def _alive(touched: _Touched, members: _Members) -> Iterator[tuple[int, Ints, Ints]]:
    """Chunks of runs, in order: how many, and of each pair of a run of the chunk and a row that its
    group has then both numbers, int64[n], ascending by run."""
    group = np.repeat(np.arange(len(touched.starts) - 1), np.diff(touched.starts))
    sizes = np.diff(members.starts)[group]
    for begin, end in chunks(sizes, CHUNK_ROWS):
        run, inside = elements(sizes[begin:end])
        row = members.starts[group[begin:end]][run] + inside
        time = touched.time[begin:end][run]
        there = (members.born[row] <= time) & (time < members.died[row])
        yield end - begin, run[there], row[there]
