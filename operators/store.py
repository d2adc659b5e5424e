"""Store: a derived collection kept as a bag of rows with row ids.

The delta is consolidated per (row, time) first; a retraction kills one living copy of an equal row,
found through the index on the row's hash. What comes out is the same delta, bound to row ids.

Invariant: the relation's rows as of t are the multiset that the deltas up to t add up to.
"""

from __future__ import annotations

import numpy as np

from operators import delta as deltas
from operators.column import Column, Ints
from operators.delta import Delta, Pairs
from operators.kernels import grouping, sorting
from operators.state import changes, encode
from operators.state.arrangement import ArrangementState
from operators.state.changes import Normalised
from operators.state.relation import Relation
from operators.state.spine import keys_at, sort_keys
from planner import dataflow as ir

_ALL_VALID = np.empty(0, np.bool_)


class StoreOperator:
    """A derived bag. State: `relation`, and `index` on the rows' hashes."""

    def __init__(self, node: ir.Store, relation: Relation, index: ArrangementState) -> None:
        self.node = node
        self.relation = relation
        self.index = index

    def step(self, delta: Delta) -> Delta:
        """Apply a delta; returns it consolidated and bound to the stored rows.

        Cost: O(n) after hashing and sorting, plus one lookup per distinct retracted row.
        """
        if len(delta) == 0:
            return deltas.empty(self.node.schema)
        columns = delta.columns()
        words, row, sign = consolidate(columns, delta.time, delta.diff)
        if len(row) == 0:
            return deltas.empty(self.node.schema)
        # One action per copy, in (hash, time) order.
        copies = np.abs(sign)
        if copies.max() > 1:
            row, sign = np.repeat(row, copies), np.repeat(np.sign(sign), copies)
        applied = self._normalise(keys_at(words, row), sign, delta.time[row])
        if applied.problem != changes.OK:
            raise AssertionError("a derived bag lost a row that it did not have")
        births = row[applied.births]
        delta = apply_changes(self.relation, [c.take(births) for c in columns], applied)
        # The delta tells the dead first.
        rows = delta.bindings[0].rows
        self.index.insert(rows[len(rows) - len(births) :], keys_at(words, births))
        return delta

    def _normalise(self, words: Ints, action: Ints, time: Ints) -> Normalised:
        n = words.shape[1]
        starts = np.empty(n + 1, np.int64)
        order = np.arange(n)
        groups = sorting.run_starts(words, order, starts)
        starts = starts[: groups + 1]
        # Only keys that lose a row need their living copies.
        loses = np.flatnonzero(np.minimum.reduceat(action, starts[:-1]) < 0)
        live_start, live_rows = living(self.index, keys_at(words, starts[loses]), loses, starts)
        return changes.normalise(order, starts, action, time, live_start, live_rows, False)


def consolidate(columns: list[Column], time: Ints, diff: Ints) -> tuple[Ints, Ints, Ints]:
    """Add up the updates of each (row, time), in the order of (bucket of the hash, hash, time).

    Returns: hashes int64[2, n] of all rows; the position of one row of each sum that is not zero;
    those sums. Cost: O(n) after hashing and sorting.
    """
    n = len(time)
    words = encode.row_hash(columns) if columns else np.zeros((2, n), np.int64)
    timed = np.vstack((words, time))
    order, starts = sort_keys(timed), np.empty(n + 1, np.int64)
    count = sorting.run_starts(timed, order, starts)
    net = np.empty(count, np.int64)
    grouping.count_runs(order, starts, count, diff, _ALL_VALID, net)
    runs = np.flatnonzero(net)
    return words, order[starts[runs]], net[runs]


def living(index: ArrangementState, probes: Ints, groups: Ints, starts: Ints) -> tuple[Ints, Ints]:
    """Rows alive now for keys probes int64[w, m], in the order of spine.sort_keys, of the groups
    numbered `groups` (ascending), as many as the group has actions at most; starts
    int64[count + 1] delimits those.

    Returns: start int64[count + 1] into rows, and rows, by group.
    """
    matches = index.living(probes, np.diff(starts)[groups], order=np.arange(len(groups)))
    group = groups[matches.probe]
    order = np.argsort(group, kind="stable")
    start = np.zeros(len(starts), np.int64)
    np.cumsum(np.bincount(group, minlength=len(starts) - 1), out=start[1:])
    return start, matches.row[order]


def apply_changes(relation: Relation, born: list[Column], applied: Normalised) -> Delta:
    """Write births and deaths to a relation, not to its indexes; returns them as its delta.

    `born`: the values of applied.births, in that order.
    """
    first = relation.append(born, applied.birth_time)
    if len(applied.killed) == 0 and len(applied.ended) == 0:
        rows = np.arange(first, first + len(applied.births))
        return deltas.bound(relation, rows, applied.birth_time, np.ones(len(rows), np.int64))
    dead = np.concatenate((applied.killed, applied.ended + first))
    dead_time = np.concatenate((applied.killed_time, applied.ended_time))
    relation.kill(dead, dead_time)
    births = len(applied.births)
    rows = np.concatenate((dead, np.arange(first, first + births)))
    time = np.concatenate((dead_time, applied.birth_time))
    diff = np.ones(len(rows), np.int64)
    diff[: len(dead)] = -1
    replaced = np.flatnonzero(applied.killed_by >= 0)
    pairs = None
    if len(replaced):
        pairs = Pairs(replaced, applied.killed_by[replaced] + len(dead), may_be_equal=True)
    return deltas.bound(relation, rows, time, diff, pairs)
