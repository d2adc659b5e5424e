"""Store: a derived collection kept as a bag of rows with row ids.

The delta is consolidated per (row, time) first; a retraction kills one living copy of an equal row,
found through the index on the row's hash. What comes out is the same delta, bound to row ids.
The index is made when the first row is retracted: where rows only come, nobody needs it.

Invariant: the relation's rows as of t are the multiset that the deltas up to t add up to.
"""

from __future__ import annotations

import numpy as np

from operators import delta as deltas
from operators.column import Column, Ints
from operators.delta import Delta, Pairs
from operators.kernels import bags
from operators.state import changes, encode
from operators.state.arrangement import ArrangementState
from operators.state.changes import Normalised
from operators.state.relation import Relation
from operators.state.spine import keys_at, sort_keys
from planner import dataflow as ir

_NONE = np.empty(0, np.int64)


class StoreOperator:
    """A derived bag. State: `relation`, and after the first retraction `index` on row hashes."""

    def __init__(self, node: ir.Store, relation: Relation, index: ArrangementState) -> None:
        self.node = node
        self.relation = relation
        self.index = index
        #: Whether a row was ever retracted; the index has all rows from then on.
        self._retracts = False

    def step(self, delta: Delta) -> Delta:
        """Apply a delta; returns it consolidated and bound to the stored rows.

        Cost: O(n) after hashing and sorting, plus one lookup per distinct retracted row.
        """
        if len(delta) == 0:
            return deltas.empty(self.node.schema)
        columns = delta.columns()
        words, row, sign = consolidate(columns, delta.time, delta.diff, delta.one_time)
        if len(row) == 0:
            return deltas.empty(self.node.schema)
        # One action per copy, in (hash, time) order.
        copies = np.abs(sign)
        if copies.max() > 1:
            row, sign = np.repeat(row, copies), np.repeat(np.sign(sign), copies)
        applied = self._normalise(words, row, sign, delta.time[row], delta.one_time)
        if applied.problem != changes.OK:
            raise AssertionError("a derived bag lost a row that it did not have")
        births = row[applied.births]
        # Births at one time are in order of their hashes already.
        order = np.arange(len(births)) if delta.one_time else None
        delta = apply_changes(self.relation, [c.take(births) for c in columns], applied)
        # The delta tells the dead first.
        rows = delta.bindings[0].rows
        if self._retracts:
            self.index.insert(rows[len(rows) - len(births) :], keys_at(words, births), order)
        return delta

    def _normalise(
        self, words: Ints, row: Ints, sign: Ints, time: Ints, one_time: bool
    ) -> Normalised:
        n = len(row)
        starts, losing = np.empty(n + 1, np.int64), np.empty(n, np.int64)
        keys, some = bags.keys_that_lose(words, row, sign, starts, losing)
        starts, losing = starts[: keys + 1], losing[:some]
        if some == 0:
            births = np.arange(n) if one_time else np.argsort(time, kind="stable")
            return Normalised(
                births, time[births], _NONE, _NONE, _NONE, _NONE, _NONE, changes.OK, 0
            )
        self._retracts = True
        self.index.absorb()
        # Only keys that lose a row need their living copies.
        probes = keys_at(words, row[starts[losing]])
        live_start, live_rows = living(self.index, probes, losing, starts)
        return changes.normalise(np.arange(n), starts, sign, time, live_start, live_rows, False)


def consolidate(
    columns: list[Column], time: Ints, diff: Ints, one_time: bool = False
) -> tuple[Ints, Ints, Ints]:
    """Add up the updates of each (row, time), in the order of (bucket of the hash, hash, time).

    Returns: hashes int64[2, n] of all rows; the position of one row of each sum that is not zero;
    those sums. `one_time`: all times are the same. Cost: O(n) after hashing and sorting.
    """
    n = len(time)
    words = encode.row_hash(columns) if columns else np.zeros((2, n), np.int64)
    order = sort_keys(words if one_time else np.vstack((words, time)))
    row, net = np.empty(n, np.int64), np.empty(n, np.int64)
    count = bags.add_up(words, time, diff, order, row, net)
    return words, row[:count], net[:count]


def living(index: ArrangementState, probes: Ints, groups: Ints, starts: Ints) -> tuple[Ints, Ints]:
    """Rows alive now for keys probes int64[w, m], in the order of spine.sort_keys, of the groups
    numbered `groups` (ascending), as many as the group has actions at most; starts
    int64[count + 1] delimits those.

    Returns: start int64[count + 1] into rows, and rows, by group.
    """
    limit = starts[groups + 1] - starts[groups]
    matches = index.living(probes, limit, order=np.arange(len(groups)))
    start, rows = np.empty(len(starts), np.int64), np.empty(len(matches.row), np.int64)
    bags.by_key(matches.probe, matches.row, groups, start, rows)
    return start, rows


def apply_changes(relation: Relation, born: list[Column], applied: Normalised) -> Delta:
    """Write births and deaths to a relation, not to its indexes; returns them as its delta.

    `born`: the values of applied.births, in that order.
    """
    first = relation.append(born, applied.birth_time)
    if len(applied.killed) == 0 and len(applied.ended) == 0:
        return deltas.births(relation, relation.appended, applied.birth_time)
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
