"""Reduce: one row per group, with accumulators, kept as a relation.

A step groups its input by (key, time), sums what each run adds, finds the stored rows of the
groups touched with one lookup, and sweeps each group's times once. Every change of a group is a new
row: the old one dies at that time. So the output is a relation like any other, indexed by the
group's keys, and a join on those keys reads it as it is.

Invariant: a group's living row carries the exact sums over its input rows as of now; a group
without rows has no row, but for the one group of a global aggregate.
Source: Shared Arrangements §5.3.2 (output arrangements); K-Pg §5.3.2.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
from typing_extensions import Self

from operators.flight import delta as deltas
from operators.flight.column import Bools, Column, Ints, concat, null_column, ones, taken
from operators.flight.delta import Delta, Pairs
from operators.kernels import grouping, memory
from operators.kernels.extremes import extremes
from operators.nodes.extreme_rows import first_rows
from operators.nodes.few_groups import FewGroups
from operators.nodes.operator import Inputs, Operator, Place
from operators.nodes.partitions import exact_words, sort_rows
from operators.nodes.runs import Runs, Totals, first_of_runs, group_rows, normal_key
from operators.scalar import exact_sum
from operators.state import encode, equality
from operators.state.arrangement import ArrangementState, IndexReader
from operators.state.order import order_of
from operators.state.relation import Relation
from operators.state.rows import Rows
from operators.state.spine import keys_at
from planner import dataflow as ir
from planner.calculus.algebra import SortKey
from planner.calculus.expr import Column as ColumnRef

_ALL_VALID = np.empty(0, np.bool_)
_NONE_TOUCHED = np.empty(0, np.bool_)
_IN_ORDER = np.empty(0, np.int64)

#: Accumulators that are the extreme of rows that never leave, and whether it is the greatest.
EXTREME = {"least": False, "greatest": True}

#: Accumulators that are states of an exact sum of doubles, and whether these are squared.
EXACT = {"sum_double": False, "sum_square_double": True}


@dataclass(frozen=True, slots=True)
class Slot:
    """Where an accumulator lies: its column in the stored rows, its first word among the words of
    `sweep_groups` and how many it has (none for an exact sum of doubles)."""

    kind: str
    arg: int | None
    column: int
    word: int
    width: int


def slots_of(node: ir.Reduce) -> tuple[tuple[Slot, ...], Ints]:
    """The accumulators' slots, and each word's mode (see kernels.grouping)."""
    slots: list[Slot] = []
    mode: list[int] = []
    kinds = [a.kind for a in node.accumulators]
    for i, accumulator in enumerate(node.accumulators):
        column = len(node.keys) + i
        arg = None if accumulator.arg is None else _position(accumulator.arg)
        word = len(mode)
        match accumulator.kind:
            case "sum" if kinds[i + 1 : i + 2] == ["sum_top"]:
                mode += [grouping.WIDER, grouping.ADD]
            case "sum":
                mode += [grouping.WIDE, grouping.ADD]
            case "first" | "least" | "greatest":
                width = encode.local_width([node.schema[column].type])
                mode += [grouping.SET] * width
            case kind if kind in EXACT:
                pass
            case _:
                mode.append(grouping.ADD)
        slots.append(Slot(accumulator.kind, arg, column, word, len(mode) - word))
    return tuple(slots), np.array(mode, np.int64)


class ReduceOperator(Operator[ir.Reduce]):
    """The group operator. State: `relation`, and `index` on its keys. It reads `ordered`, the
    indexes of its input that MIN and MAX stand in front of. `keys`: columns of the input; `mode`:
    of each word of its accumulators (see kernels.grouping)."""

    def __init__(
        self,
        node: ir.Reduce,
        relation: Relation,
        index: ArrangementState,
        ordered: Mapping[ir.Index, IndexReader],
    ) -> None:
        self.node = node
        self.relation = relation
        self.index = index
        self.keys = [_position(k) for k in node.keys]
        self._slots, self.mode = slots_of(node)
        self._extremes = [s for s in self._slots if s.kind in EXTREME]
        valued = ("first", *EXTREME)
        added = [(s.column, s.word) for s in self._slots if s.kind not in valued and s.width]
        self._added = relation.word_slots(added)
        self._exact = sum(s.kind in EXACT for s in self._slots)
        self._ordered = ordered
        self._firsts_of = [
            (slot, ordered[a.index])
            for slot, a in zip(self._slots, node.accumulators, strict=True)
            if a.index is not None
        ]
        self._few = FewGroups.of(node, self._slots, self.mode, self.keys, relation, index)

    @classmethod
    def install(cls, node: ir.Reduce, place: Place) -> Self:
        relation = place.own_relation(node)
        index = place.index(ir.group_index(node))
        firsts = (a.index for a in node.accumulators if a.index is not None)
        return cls(node, relation, index, {spec: place.index(spec) for spec in firsts})

    @property
    def reads(self) -> Mapping[ir.Index, IndexReader]:
        """The indexes of its input in which it looks rows up."""
        return self._ordered

    def rows(self, inputs: Inputs) -> Iterator[Delta]:
        return inputs.read(self.relation)

    def step(self, changes: Sequence[Delta | None]) -> Delta:
        """Apply a delta to the groups; returns the changes of the stored rows."""
        (delta,) = changes
        if delta is None or len(delta) == 0:
            return deltas.empty(self.node.schema)
        changed = None if self._few is None else self._few.step(delta)
        return self.apply(delta, self.runs(delta)) if changed is None else changed

    def start(self, inputs: Inputs) -> Iterator[Delta]:
        """Each piece is added up by itself, then the pieces' groups; the rows are written once.

        Cost: that of adding up each piece, then a sort of their groups.
        """
        pieces = inputs.pieces(self.node.input)
        first, second = next(pieces, None), next(pieces, None)
        schema = self.node.input.schema
        if first is None:
            if not self.keys:  # a global aggregate has its row even from no input
                yield self.apply(deltas.empty(schema), self.no_runs(inputs.time))
        elif second is None:
            yield self.step([first])
        else:
            totals = Totals(self.runs, self.keys, self.index.hashed, self.mode)
            for piece in chain((first, second), pieces):
                totals.add(piece)
            keys, runs = totals.sum()
            origins: list[deltas.Origin] = [None] * len(schema)
            for position, column in zip(self.keys, keys, strict=True):
                origins[position] = column
            zeros = np.zeros(len(runs.time), np.int64)
            yield self.apply(Delta(schema, zeros, zeros, origins), runs)

    def no_runs(self, time: int) -> Runs:
        """The one group of a global aggregate, to which nothing is added."""
        return Runs(
            words=np.zeros((1, 1), np.int64),
            key_starts=np.array([0, 1], np.int64),
            first_row=np.zeros(1, np.int64),
            time=np.array([time], np.int64),
            change=np.zeros((len(self.mode), 1), np.int64),
            exact=(exact_sum.nothing(1),) * self._exact,
            extreme=tuple(null_column(self.node.schema[s.column].type, 1) for s in self._extremes),
        )

    def by_themselves(self, delta: Delta) -> list[Column]:
        """The rows that the groups of a delta of one time would have if there was nothing else, in
        order of their keys; nothing is kept. Accumulators are not `first`."""
        runs = self.runs(delta)
        every, nothing = np.arange(len(runs.time)), np.full(len(runs.time), -1, np.int64)
        valued = self._running_extremes(runs, nothing)
        states = self._exact_states(runs, every, nothing)
        return self._rows(delta, runs, valued, every, runs.change, states)

    def runs(self, delta: Delta) -> Runs:
        """Group by (key, time) and sum each run. Cost: O(n), and sorting the runs."""
        keys = [delta.column(k) for k in self.keys]
        words = self.index.probe_words(keys, len(delta))
        grouped = group_rows(words, delta.time, keys, self.index.hashed)
        order, starts = grouped.order, grouped.starts
        count = len(starts) - 1
        first_row = grouped.first_row
        change = np.empty((len(self.mode), count), np.int64)
        exact: list[pa.Array] = []
        extreme: list[Column] = []
        for slot in self._slots:
            column = None if slot.arg is None else delta.column(slot.arg)
            valid = _ALL_VALID if column is None or column.valid is None else column.valid
            match slot.kind:
                case "count_rows" | "count":
                    grouping.count_runs(order, starts, count, delta.diff, valid, change[slot.word])
                case "sum":
                    assert column is not None
                    add: Any = grouping.sum_runs_wide if column.wide else grouping.sum_runs
                    end = slot.word + (3 if self.mode[slot.word] == grouping.WIDER else 2)
                    add(
                        order, starts, count, delta.diff, column.values, valid,
                        change[slot.word : end],
                    )  # fmt: skip
                case kind if kind in EXACT:
                    assert column is not None
                    exact.append(
                        exact_sum.of_values(
                            column.values, column.valid, delta.diff, order, starts, EXACT[kind]
                        )
                    )
                case kind if kind in EXTREME:
                    assert column is not None
                    extreme.append(first_of_runs(column, extreme_key(slot), order, starts))
                case _:  # first comes from its index, sum_top with its sum
                    pass
        return Runs(
            words=keys_at(words, first_row[grouped.key_starts[:-1]]),
            key_starts=grouped.key_starts,
            first_row=first_row,
            time=delta.time[first_row],
            change=change,
            exact=tuple(exact),
            extreme=tuple(extreme),
            grouped=grouped,
        )

    def apply(self, delta: Delta, runs: Runs) -> Delta:
        """Change the stored groups by `runs`, whose keys' values are in `delta`."""
        groups, count = len(runs.key_starts) - 1, len(runs.time)
        if self.relation.next_row == 0 and groups == count and self.keys:
            return self._born(delta, runs)
        old_row, old = self._stored(delta, runs)
        valued = self._firsts(delta, runs, old_row) | self._running_extremes(runs, old_row)
        for slot, value in valued.items():
            self._enter(slot, value, old_row, runs.change, old)
        touched = _NONE_TOUCHED
        for changes in runs.exact:
            adds = exact_sum.changed(changes)
            touched = adds if len(touched) == 0 else touched | adds
        events = np.empty((3, count), np.int64)
        births, totals = (
            np.empty((4, count), np.int64),
            np.empty((len(self.mode), count), np.int64),
        )
        sizes = np.empty(3, np.int64)
        bad = grouping.sweep_groups(
            runs.key_starts, groups, runs.time, runs.change, self.mode, touched, old_row, old,
            not self.keys, events, births, totals, sizes,
        )  # fmt: skip
        if bad >= 0:
            raise AssertionError("a group lost more rows than it had: its input is not a multiset")
        n_events, n_births, ascending = sizes.tolist()
        if n_events == 0:
            return deltas.empty(self.node.schema)
        births, totals = births[:, :n_births], totals[:, :n_births]
        place, states = _IN_ORDER, self._exact_states(runs, births[0], births[3])
        if not ascending:  # row ids ascend with time
            by_time = order_of(births[2])
            place = np.empty(n_births, np.int64)
            place[by_time] = np.arange(n_births)
            births, totals = keys_at(births, by_time), keys_at(totals, by_time)
            states = [taken(s, by_time) for s in states]
        columns = self._rows(delta, runs, valued, births[0], totals, states)
        first = self.relation.append(columns, births[2])
        rows, times, diff = (np.empty(2 * n_events, np.int64) for _ in range(3))
        pairs = np.empty((2, n_events), np.int64)
        deaths, total, paired = grouping.replace_rows(
            events, n_events, first, place, rows, times, diff, pairs
        )
        self.relation.kill(rows[:deaths], times[:deaths])
        # Births in order of their groups are in order of their keys already.
        order = np.arange(n_births) if ascending else None
        self.index.insert(np.arange(first, first + n_births), keys_at(runs.words, births[1]), order)
        return deltas.bound(
            self.relation, rows[:total], times[:total], diff[:total],
            Pairs(pairs[0, :paired], pairs[1, :paired], may_be_equal=False),
        )  # fmt: skip

    def _born(self, delta: Delta, runs: Runs) -> Delta:
        """`apply` where no group was ever stored and each has one run: no history to sweep."""
        count = runs.change[0]
        if count.min() < 0:
            raise AssertionError("a group lost more rows than it had: its input is not a multiset")
        nothing_stored = np.full(len(count), -1, np.int64)
        valued = self._firsts(delta, runs, nothing_stored)
        valued |= self._running_extremes(runs, nothing_stored)
        run = count.nonzero()[0]
        n = len(run)
        if n == 0:
            return deltas.empty(self.node.schema)
        every = n == len(count)
        totals, words = runs.change, runs.words
        if not every:
            totals, words = keys_at(totals, run), keys_at(words, run)
        time, place = runs.time[run], _IN_ORDER
        states = self._exact_states(runs, run, nothing_stored[:n])
        if (time[1:] < time[:-1]).any():
            place = order_of(time)
            run, time, totals = run[place], time[place], keys_at(totals, place)
            words, states = keys_at(words, place), [taken(s, place) for s in states]
        first = self.relation.append(self._rows(delta, runs, valued, run, totals, states), time)
        rows = np.arange(first, first + n)
        self.index.insert(rows, words, np.arange(n) if len(place) == 0 else None)
        return deltas.births(self.relation, rows, time)

    def _stored(self, delta: Delta, runs: Runs) -> tuple[Ints, Ints]:
        """Stored row of each group before the step, or -1, and the words of what is added up."""
        groups = runs.words.shape[1]
        old = np.zeros((len(self.mode), groups), np.int64)
        first = runs.first_row[runs.key_starts[:-1]]
        old_row = own_rows(
            self.index, runs.words, lambda k, group: delta.peek(self.keys[k], first[group])
        )
        stored = (old_row >= 0).nonzero()[0]
        if len(stored):
            self.relation.gather_words(self._added, old_row[stored], stored, old)
        return old_row, old

    def _enter(self, slot: Slot, value: Column, old_row: Ints, change: Ints, old: Ints) -> None:
        """Enter an accumulator's value after each run, and the one that is stored, into `change`
        and `old`, as words that are equal where the values are."""
        stored = gather_or_null(self.relation, slot.column, old_row)
        words = encode.local_words([concat([value, stored])])
        change[slot.word : slot.word + slot.width] = words[:, : len(value)]
        old[slot.word : slot.word + slot.width] = words[:, len(value) :]

    def _running_extremes(self, runs: Runs, old_row: Ints) -> dict[Slot, Column]:
        """For each accumulator of EXTREME its value after each run: the
        best so far of the group's stored value and its runs'."""
        values: dict[Slot, Column] = {}
        groups, count = len(old_row), len(runs.time)
        for slot, found in zip(self._extremes, runs.extreme, strict=True):
            stored = gather_or_null(self.relation, slot.column, old_row)
            candidates = concat([stored, found])
            ranked = sort_rows([candidates], (extreme_key(slot),))
            rank = np.empty(groups + count, np.int64)
            rank[ranked] = np.arange(groups + count)
            # In turn, for each group: its stored value, then its runs. Lower numbers for each
            # further group let one running minimum start anew with it.
            group = np.repeat(np.arange(groups), np.diff(runs.key_starts))
            at = np.arange(count) + group + 1
            series = np.empty(groups + count, np.int64)
            series[runs.key_starts[:-1] + np.arange(groups)] = rank[:groups]
            series[at] = rank[groups:]
            below = np.zeros(groups + count, np.int64)
            below[runs.key_starts[1:-1] + np.arange(1, groups)] = groups + count
            below = np.cumsum(below)
            running = (np.minimum.accumulate(series - below) + below)[at]
            value = candidates.take(ranked[running])
            values[slot] = value
        return values

    def _firsts(self, delta: Delta, runs: Runs, old_row: Ints) -> dict[Slot, Column]:
        """For each accumulator `first` its value after each run: what was in front or came in,
        where that is sure, else from the index."""
        values: dict[Slot, Column] = {}
        if not self._firsts_of:
            return values
        count = len(runs.time)
        group = np.repeat(np.arange(len(old_row)), np.diff(runs.key_starts))
        for slot, index in self._firsts_of:
            assert slot.arg is not None
            best, known = self._told(delta, runs, old_row, slot, index)
            sought = np.flatnonzero(~known)
            came, stays = np.flatnonzero(known & (best >= 0)), np.flatnonzero(known & (best < 0))
            parts: list[Column] = []
            if len(sought):
                first_row, times = runs.first_row[sought], runs.time[sought]
                keys = [delta.peek(k, first_row) for k in self.keys]
                changed = None
                if runs.grouped is not None:
                    rows_of = np.diff(runs.grouped.starts[runs.key_starts])
                    changed = rows_of[group[sought]]
                rows = first_rows(index, keys, times, changed)
                parts.append(gather_or_null(index.relation, slot.arg, rows))
            if len(came):
                parts.append(delta.peek(slot.arg, best[came]))
            if len(stays):
                parts.append(self.relation.gather(slot.column, old_row[group[stays]]))
            value = parts[0]
            if len(parts) > 1:
                place = np.empty(count, np.int64)
                place[np.concatenate((sought, came, stays))] = np.arange(count)
                value = concat(parts).take(place)
            values[slot] = value
        return values

    def _told(
        self, delta: Delta, runs: Runs, old_row: Ints, slot: Slot, index: IndexReader
    ) -> tuple[Ints, Bools]:
        """Of each run the row in front after it, as `extremes` finds it, and whether that is sure.
        It is not for the one group of a global aggregate, whose stored NULL may stand for no
        row."""
        best, known = np.empty(len(runs.time), np.int64), np.zeros(len(runs.time), np.bool_)
        grouped, kind = runs.grouped, self.node.schema[slot.column].type
        if grouped is None or not self.keys:
            return best, known
        assert slot.arg is not None and isinstance(index.spec, ir.OrderedArrangement)
        order = index.spec.order
        n, came = len(delta), delta.column(slot.arg)
        stored = gather_or_null(self.relation, slot.column, old_row)
        if encode.order_is_exact([kind]):
            words, before = encode.order_words([came], order), encode.order_words([stored], order)
        else:
            both = np.stack(exact_words([concat([came, stored])], order))
            words, before = both[:, :n].copy(), both[:, n:].copy()
        extremes(
            grouped.order, grouped.starts, grouped.key_starts, delta.diff, words, before,
            old_row >= 0, best, known,
        )  # fmt: skip
        return best, known

    def _rows(
        self,
        delta: Delta,
        runs: Runs,
        valued: dict[Slot, Column],
        run: Ints,
        totals: Ints,
        states: list[pa.Array],
    ) -> list[Column]:
        """The new rows, of runs run[b]: keys from the input, accumulators from the sweep."""
        fields = self.node.schema
        source = runs.first_row[run]
        every = 0 < len(source) == len(delta) and source[0] == 0 and memory.ascends_by_one(source)
        keys = (delta.column(k) if every else delta.peek(k, source) for k in self.keys)
        columns = [
            normal_key(Column(field.type, key.values, key.valid))
            for field, key in zip(fields, keys, strict=False)
        ]
        exact = iter(states)
        for slot in self._slots:
            kind = fields[slot.column].type
            match slot.kind:
                case "sum":
                    pair = np.ascontiguousarray(totals[slot.word : slot.word + 2].T)
                    columns.append(Column(kind, pair))
                case "first" | "least" | "greatest":
                    value = valued[slot].take(run)
                    columns.append(Column(kind, value.values, value.valid))
                case name if name in EXACT:
                    columns.append(Column(kind, next(exact)))
                case _:
                    columns.append(Column(kind, totals[slot.word]))
        return columns

    def _exact_states(self, runs: Runs, run: Ints, prior: Ints) -> list[pa.Array]:
        """For each exact floating-point sum its state in every birth, of its run and from its prior
        version, both int64[births]."""
        if self._exact == 0:
            return []
        columns = [s.column for s in self._slots if s.kind in EXACT]
        prior = prior.copy()
        stored = np.flatnonzero(prior >= 0)
        rows = prior[stored]
        prior[stored] = np.arange(len(stored))
        return [
            exact_sum.successive(run, prior, change, self.relation.gather(column, rows).values)
            for column, change in zip(columns, runs.exact, strict=True)
        ]


def extreme_key(slot: Slot) -> SortKey:
    """The order whose first value is the extreme."""
    return SortKey(0, EXTREME[slot.kind], nulls_first=False)


def _position(expr: object) -> int:
    assert isinstance(expr, ColumnRef), "the plan computes keys and arguments in a Map below"
    return expr.index


def gather_or_null(relation: Rows, column: int, rows: Ints) -> Column:
    """Values of a column at `rows`; NULL for row -1."""
    present = rows >= 0
    if present.all():
        return relation.gather(column, rows)
    some = np.flatnonzero(present)
    if len(some) == 0:
        return null_column(relation.schema[column].type, len(rows))
    # Absent rows borrow a present one's value, which is harmless, under the NULL.
    value = relation.gather(column, np.where(present, rows, rows[some[0]]))
    return Column(
        value.type, value.values, present if value.valid is None else value.valid & present
    )


def own_rows(index: ArrangementState, words: Ints, values: equality.Values) -> Ints:
    """The living row of each group of `index`, at most one, or -1. Shapes: words int64[w, groups]
    as Runs has them; `values` of the keys' columns; returns int64[groups]."""
    groups = words.shape[1]
    found = equality.living(index, words, values, ones(groups))
    row = np.empty(groups, np.int64)
    row.fill(-1)
    row[found.probe] = found.row
    return row
