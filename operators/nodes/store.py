"""Store: a derived collection kept as a bag of rows with row ids.

The delta is consolidated per (row, time) first; a retraction kills one living copy of an equal row,
found through the index on the row's hash. What comes out is the same delta, bound to row ids.
The index is made when the first row is retracted: where rows only come, nobody needs it.

Invariant: the relation's rows as of t are the multiset that the deltas up to t add up to.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from typing_extensions import Self

from operators.flight import delta as deltas
from operators.flight.column import Column, Ints
from operators.flight.delta import Delta, Pairs
from operators.kernels import bags, sorting
from operators.nodes.operator import Inputs, Kept, Operator, Place
from operators.state import changes as signed_rows
from operators.state import encode, equality
from operators.state.arrangement import FEW_KEYS, ArrangementState
from operators.state.changes import Normalised
from operators.state.hashing import Hashing
from operators.state.order import order_of, sort_keys
from operators.state.relation import Relation
from operators.state.spine import keys_at
from planner import dataflow as ir

_NONE = np.empty(0, np.int64)


class StoreOperator(Operator[ir.Store | ir.Variable]):
    """A derived bag. State: `relation`, and after the first retraction `index` on row hashes."""

    def __init__(
        self, node: ir.Store | ir.Variable, relation: Relation, index: ArrangementState
    ) -> None:
        self.node = node
        self.relation = relation
        self.index = index
        #: Whether a row was ever retracted; the index has all rows from then on.
        self._retracts = False

    @classmethod
    def install(cls, node: ir.Store | ir.Variable, place: Place) -> Self:
        relation = place.own_relation(node)
        return cls(node, relation, place.index(ir.HashArrangement(node)))

    @property
    def retracts(self) -> bool:
        """Whether a row was ever retracted: the index has all rows then, else none."""
        return self._retracts

    def kept(self) -> Kept:
        return {"retracts": self._retracts}

    def load(self, kept: Kept) -> None:
        self._retracts = kept["retracts"]

    def mark(self) -> bool:
        return self._retracts

    def restore(self, mark: bool) -> None:
        """The index has no rows of before the first retraction, if that is undone."""
        self._retracts = mark

    def start(self, inputs: Inputs) -> Iterator[Delta]:
        assert isinstance(self.node, ir.Store), "a variable is its loop's"
        yield self.step([inputs.whole(self.node.input)])

    def rows(self, inputs: Inputs) -> Iterator[Delta]:
        return inputs.read(self.relation)

    def step(self, changes: Sequence[Delta | None]) -> Delta:
        """Apply a delta; returns it consolidated and bound to the stored rows.

        Cost: O(n) after hashing and sorting, plus one lookup per distinct retracted row.
        """
        (delta,) = changes
        if delta is None or len(delta) == 0:
            return deltas.empty(self.node.schema)
        columns = delta.columns()
        words = row_words(columns, len(delta), self.relation.hashing)
        if self._retracts and delta.one_time and len(delta) <= FEW_KEYS:
            changed = self._few(delta, columns, words)
            if changed is not None:
                return changed
        hashing, one_time = self.relation.hashing, delta.one_time
        net = consolidate(columns, delta.time, delta.diff, hashing, one_time, words)
        row, sign = net.row, net.sum
        if len(row) == 0:
            return deltas.empty(self.node.schema)
        # One action per copy; `order` puts those that lie in the order of their rows, which is that
        # of the births, into the order of (hash, time).
        copies = np.abs(sign)
        if copies.max() > 1:
            row, sign = np.repeat(row, copies), np.repeat(np.sign(sign), copies)
        place, order = _in_place(row, len(delta))
        applied = self._normalise(columns, net, row, sign, delta, place, order)
        if applied.problem != signed_rows.OK:
            raise AssertionError("a derived bag lost a row that it did not have")
        applied = applied.killed_by_row()
        births = place[applied.births]
        delta = apply_changes(self.relation, [c.take(births) for c in columns], applied)
        if self._retracts:
            # The delta tells the dead first.
            rows = delta.bindings[0].rows[len(delta) - len(births) :]
            birth = np.empty(len(row), np.int64)
            birth.fill(-1)
            birth[applied.births] = np.arange(len(births))
            by_key = birth[order]
            sorted_births = by_key[by_key >= 0] if net.keys is net.words else None
            self.index.insert(rows, keys_at(net.words, births), sorted_births)
        return delta

    def _few(self, delta: Delta, columns: list[Column], words: Ints) -> Delta | None:
        """`step` of few updates of one time, by one kernel; None if it takes more than that."""
        n, index, relation = len(delta), self.index, self.relation
        index.absorb()
        births, by_key, killed = np.empty((3, n), np.int64)
        sizes, work = np.zeros(2, np.int64), np.zeros(2, np.int64)
        order = sort_keys(words)
        told = bags.few_changes(
            words, delta.diff, order, index.spine.table, relation.versions[0],
            not index.hashed, births, by_key, killed, sizes, work,
        )  # fmt: skip
        if not told:
            return None
        index.looked_up(work)
        born, dead = sizes.tolist()
        if born + dead == 0:
            return deltas.empty(self.node.schema)
        births, killed = births[:born], killed[:dead]
        killed.sort()  # nothing that anybody sees is in an order that depends on the hash's secret
        relation.append([c.take(births) for c in columns], delta.time[:born])
        relation.kill(killed, delta.time[:dead])
        rows = relation.appended if born else _NONE
        index.insert(rows, keys_at(words, births), by_key[:born])
        return deltas.replacing(relation, killed, rows, int(delta.time[0]))

    def _normalise(
        self,
        columns: list[Column],
        net: Consolidated,
        row: Ints,
        sign: Ints,
        delta: Delta,
        place: Ints,
        order: Ints,
    ) -> Normalised:
        """The births and deaths of actions `sign` on rows `row`, in the order of (hash, time);
        place[order] is `row`, and births are positions in `place`."""
        n = len(row)
        starts, losing = np.empty(n + 1, np.int64), np.empty(n, np.int64)
        keys, some = bags.keys_that_lose(net.keys, row, sign, starts, losing)
        starts, losing = starts[: keys + 1], losing[:some]
        time = delta.time[place]
        if some == 0:
            births = np.arange(n) if delta.one_time else order_of(time)
            return Normalised(
                births, time[births], _NONE, _NONE, _NONE, _NONE, _NONE, signed_rows.OK, 0
            )
        if not self._retracts:
            self.relation.undo.before(self)
            self._retracts = True
        self.index.absorb()
        # Only keys that lose a row need their living copies.
        lost = row[starts[losing]]
        live_start, live_rows = living_copies(
            self.index, net.words, columns, lost, losing, starts, has_them=True
        )
        action = np.empty(n, np.int64)
        action[order] = sign
        return signed_rows.normalise(order, starts, action, time, live_start, live_rows, False)


def _in_place(row: Ints, n: int) -> tuple[Ints, Ints]:
    """Positions `row`, below n, ascending; and where each of `row` is among those, equal ones in
    the order in which they are. Both int64[len(row)]. Cost: O(n)."""
    every = np.arange(len(row))
    start, ascending = np.empty(n + 1, np.int64), np.empty(len(row), np.int64)
    bags.by_key(every, every, row, start, ascending)
    order = np.empty(len(row), np.int64)
    order[ascending] = every
    return row[ascending], order


@dataclass(frozen=True, slots=True)
class Consolidated:
    """Updates added up, in the order of (bucket of the hash, hash, time).

    words int64[2, n]: the key of every row; keys int64[w, n]: the same, or with further words that
    tell rows apart; row int64[m]: one row of each sum that is not zero; sum int64[m].
    """

    words: Ints
    keys: Ints
    row: Ints
    sum: Ints


def consolidate(
    columns: list[Column],
    time: Ints,
    diff: Ints,
    hashing: Hashing,
    one_time: bool = False,
    words: Ints | None = None,
) -> Consolidated:
    """Add up the updates of each (row, time).

    `one_time`: all times are the same; `words`: the rows' keys, where they are at hand. Cost: O(n)
    after hashing and sorting, and a look at the rows that have the hash of another.
    """
    n = len(time)
    keys = words = row_words(columns, n, hashing) if words is None else words
    order = _sorted_updates(keys, time, one_time)
    row, net = np.empty(n, np.int64), np.empty(n, np.int64)
    count, again = bags.add_up(keys, time, diff, order, row, net)
    if again and columns and not encode.rows_are_exact([c.type for c in columns], hashing):
        starts = np.empty(n + 1, np.int64)
        starts = starts[: sorting.run_starts(words, order, starts) + 1]
        every = tuple((c, -1) for c in range(len(columns)))
        apart = equality.told_apart(words, columns, every, order, starts)
        if apart is not None:
            keys = apart
            order = _sorted_updates(keys, time, one_time)
            count, _ = bags.add_up(keys, time, diff, order, row, net)
    return Consolidated(words, keys, row[:count], net[:count])


def row_words(columns: list[Column], n: int, hashing: Hashing) -> Ints:
    """The keys of n rows, int64[2, n]."""
    return encode.row_words(columns, hashing) if columns else np.zeros((2, n), np.int64)


def _sorted_updates(keys: Ints, time: Ints, one_time: bool) -> Ints:
    return sort_keys(keys if one_time else np.vstack((keys, time)))


def living_copies(
    index: ArrangementState,
    words: Ints,
    columns: list[Column],
    at: Ints,
    groups: Ints,
    starts: Ints,
    has_them: bool = False,
) -> tuple[Ints, Ints]:
    """Rows alive now of the groups numbered `groups` (ascending), whose keys have the words
    words[:, at], in the order of order.sort_keys, and the values of `columns` at positions `at`:
    as many as the group has actions, or more; starts int64[count + 1] delimits those.

    `has_them`: see equality.living. Returns: start int64[count + 1] into rows, and rows, by group.
    """
    limit = starts[groups + 1] - starts[groups]
    matches = equality.living(
        index, keys_at(words, at), lambda c, probe: columns[c].take(at[probe]), limit, has_them
    )
    start, rows = np.empty(len(starts), np.int64), np.empty(len(matches.row), np.int64)
    bags.by_key(matches.probe, matches.row, groups, start, rows)
    return start, rows


def apply_changes(relation: Relation, born: Sequence[Column], applied: Normalised) -> Delta:
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
    diff = np.empty(len(rows), np.int64)
    diff[: len(dead)], diff[len(dead) :] = -1, 1
    replaced = (applied.killed_by >= 0).nonzero()[0]
    pairs = None
    if len(replaced):
        pairs = Pairs(replaced, applied.killed_by[replaced] + len(dead), may_be_equal=True)
    return deltas.bound(relation, rows, time, diff, pairs)
