"""Reduce: one row per group, with accumulators, kept as a relation.

A step sorts its input by (group, time), sums what each run adds, finds the stored rows of the
groups touched with one lookup, and sweeps each group's times once. Every change of a group is a new
row: the old one dies at that time. So the output is a relation like any other, indexed by the
group's keys, and a join on those keys reads it as it is.

Invariant: a group's living row carries the exact sums over its input rows as of now; a group
without rows has no row, but for the one group of a global aggregate.
Source: Shared Arrangements §5.3.2 (output arrangements); K-Pg §5.3.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from operators import delta as deltas
from operators import exact_sum
from operators.column import Column, Ints, null_column
from operators.delta import Delta, Pairs
from operators.kernels import grouping, sorting
from operators.state import encode
from operators.state.arrangement import ArrangementState, order_keys
from operators.state.relation import Relation
from operators.state.spine import keys_at, sort_keys
from operators.topk import sort_rows
from planner import dataflow as ir
from planner.expr import Column as ColumnRef

_ALL_VALID = np.empty(0, np.bool_)

#: Accumulators that are states of an exact sum, and what a run of values adds to them.
EXACT = {"sum_double": exact_sum.from_values, "sum_square_double": exact_sum.of_squares}


@dataclass(frozen=True, slots=True)
class Runs:
    """What a delta adds to groups: run r belongs to group group_of its key and one time.

    words int64[w, groups]: keys in (bucket, key) order; key_starts int64[groups + 1] into the runs;
    first_row int64[runs]: an input row of each run; time int64[runs]; change int64[words, runs] as
    `sweep_groups` takes it; exact[a]: for the a-th exact sum, what each run adds.
    """

    words: Ints
    key_starts: Ints
    first_row: Ints
    time: Ints
    change: Ints
    exact: tuple[tuple[exact_sum.Sum, ...], ...]


class ReduceOperator:
    """The group operator. State: `relation`, and `index` on its keys. It reads `ordered`, the
    indexes of its input that MIN and MAX stand in front of."""

    def __init__(
        self,
        node: ir.Reduce,
        relation: Relation,
        index: ArrangementState,
        ordered: dict[ir.OrderedArrangement, ArrangementState],
    ) -> None:
        self.node = node
        self.relation = relation
        self.index = index
        self._keys = [_position(k) for k in node.keys]
        self._args = [None if a.arg is None else _position(a.arg) for a in node.accumulators]
        self._kinds = [a.kind for a in node.accumulators]
        self._ordered = ordered
        mode: list[int] = []
        for accumulator, field in zip(
            node.accumulators, node.schema[len(node.keys) :], strict=True
        ):
            match accumulator.kind:
                case "sum":
                    mode.extend((grouping.WIDE, grouping.ADD))
                case "first":
                    mode.extend([grouping.SET] * encode.key_width([field.type], [True]))
                case kind if kind in EXACT:
                    pass
                case _:
                    mode.append(grouping.ADD)
        self._mode = np.array(mode, np.int64)

    def step(self, delta: Delta) -> Delta:
        """Apply a delta to the groups; returns the changes of the stored rows."""
        if len(delta) == 0:
            return deltas.empty(self.node.schema)
        return self.apply(delta, self.runs(delta))

    def start(self, delta: Delta, time: int) -> Delta:
        """The first delta, at one time: a global aggregate gets its row even from no input."""
        if self._keys or len(delta):
            return self.step(delta)
        one = np.zeros(1, np.int64)
        exact = tuple((exact_sum.Sum(),) for kind in self._kinds if kind in EXACT)
        runs = Runs(
            words=np.zeros((1, 1), np.int64),
            key_starts=np.array([0, 1], np.int64),
            first_row=one,
            time=np.array([time], np.int64),
            change=np.zeros((len(self._mode), 1), np.int64),
            exact=exact,
        )
        return self.apply(delta, runs)

    def runs(self, delta: Delta) -> Runs:
        """Sort by (group, time) and sum each run. Cost: O(n) after a radix sort of n keys."""
        n = len(delta)
        columns = [delta.column(k) for k in self._keys]
        words, _ = self.index.key_words(np.arange(n), columns)
        framed = np.empty((words.shape[0] + 2, n), np.int64)
        sorting.buckets_of(words[0], framed[0])
        framed[1:-1] = words
        framed[-1] = delta.time
        order, starts = np.empty(n, np.int64), np.empty(n + 1, np.int64)
        sorting.argsort(framed, order, np.empty(n, np.int64))
        count = sorting.run_starts(framed, order, starts)
        first_row = order[starts[:count]]
        run_words = keys_at(words, first_row)
        key_starts = np.empty(count + 1, np.int64)
        groups = sorting.run_starts(run_words, np.arange(count), key_starts)
        key_starts = key_starts[: groups + 1]
        change = np.empty((len(self._mode), count), np.int64)
        exact: list[tuple[exact_sum.Sum, ...]] = []
        word = 0
        for kind, arg in zip(self._kinds, self._args, strict=True):
            column = None if arg is None else delta.column(arg)
            valid = _ALL_VALID if column is None or column.valid is None else column.valid
            if kind in ("count_rows", "count"):
                grouping.count_runs(order, starts, count, delta.diff, valid, change[word])
                word += 1
            elif kind == "first":
                word += self._first_width(arg)
            elif kind == "sum":
                assert column is not None
                add: Any = grouping.sum_runs_wide if column.wide else grouping.sum_runs
                add(
                    order, starts, count, delta.diff, column.values, valid,
                    change[word], change[word + 1],
                )  # fmt: skip
                word += 2
            else:
                assert column is not None
                exact.append(_exact_runs(kind, column, order, starts[: count + 1], delta.diff))
        return Runs(
            words=keys_at(run_words, key_starts[:-1]),
            key_starts=key_starts,
            first_row=first_row,
            time=delta.time[first_row],
            change=change,
            exact=tuple(exact),
        )

    def apply(self, delta: Delta, runs: Runs) -> Delta:
        """Change the stored groups by `runs`, whose keys' values are in `delta`."""
        groups, count = len(runs.key_starts) - 1, len(runs.time)
        old_row, old = self._stored(runs.words, runs.time)
        firsts = self._firsts(delta, runs)
        touched = np.zeros(count, np.bool_)
        for changes in runs.exact:
            touched |= np.fromiter((c != exact_sum.Sum() for c in changes), np.bool_, count)
        event_time, event_prior = np.empty(count, np.int64), np.empty(count, np.int64)
        event_birth, birth_run = np.empty(count, np.int64), np.empty(count, np.int64)
        birth_time, birth_prior = np.empty(count, np.int64), np.empty(count, np.int64)
        births = np.empty((len(self._mode), count), np.int64)
        sizes = np.zeros(2, np.int64)
        bad = grouping.sweep_groups(
            runs.key_starts, groups, runs.time, runs.change, self._mode, touched, old_row, old,
            not self._keys, event_time, event_prior, event_birth, birth_run, birth_time,
            birth_prior, births, sizes,
        )  # fmt: skip
        if bad >= 0:
            raise AssertionError("a group lost more rows than it had: its input is not a multiset")
        n_events, n_births = sizes.tolist()
        if n_events == 0:
            return deltas.empty(self.node.schema)
        # Row ids ascend with time.
        by_time = np.argsort(birth_time[:n_births], kind="stable")
        columns = self._rows(delta, runs, firsts, births, birth_run, birth_prior, by_time)
        first = self.relation.append(columns, birth_time[:n_births][by_time])
        row_of = np.empty(n_births, np.int64)
        row_of[by_time] = np.arange(first, first + n_births)
        born = event_birth[:n_events]
        prior, time = event_prior[:n_events], event_time[:n_events]
        has_old, has_new = prior != grouping.NOTHING, born >= 0
        old_rows = prior.copy()
        chained = prior < grouping.NOTHING
        old_rows[chained] = row_of[-2 - prior[chained]]
        dead, dead_time = old_rows[has_old], time[has_old]
        self.relation.kill(dead, dead_time)
        group_of_run = np.repeat(np.arange(groups), np.diff(runs.key_starts))
        born_groups = group_of_run[birth_run[:n_births][by_time]]
        self.index.insert(np.arange(first, first + n_births), keys_at(runs.words, born_groups))
        new_rows = row_of[born[has_new]]
        rows = np.concatenate((dead, new_rows))
        times = np.concatenate((dead_time, time[has_new]))
        diff = np.ones(len(rows), np.int64)
        diff[: len(dead)] = -1
        both = has_old & has_new
        pairs = Pairs(
            old=(np.cumsum(has_old) - 1)[both],
            new=(np.cumsum(has_new) - 1 + len(dead))[both],
            may_be_equal=False,
        )
        return deltas.bound(self.relation, rows, times, diff, pairs)

    def _stored(self, words: Ints, times: Ints) -> tuple[Ints, Ints]:
        """Stored row of each group before the step, or -1, and its accumulators' words."""
        groups = words.shape[1]
        old_row = np.full(groups, -1, np.int64)
        last = np.full(groups, times.max() if len(times) else 0, np.int64)
        matches = self.index.lookup(words, last, True, order=np.arange(groups))
        old_row[matches.probe] = matches.row
        old = np.zeros((len(self._mode), groups), np.int64)
        word = 0
        for i, kind in enumerate(self._kinds):
            if kind in EXACT:
                continue
            column = self.relation.gather(len(self._keys) + i, matches.row)
            values = column.values
            if kind == "first":
                words_of = encode.equality_words([column], [True])
                old[word : word + len(words_of), matches.probe] = words_of
                word += len(words_of)
            elif kind == "sum":
                old[word, matches.probe] = values[:, 0]
                old[word + 1, matches.probe] = values[:, 1]
                word += 2
            else:
                old[word, matches.probe] = values
                word += 1
        return old_row, old

    def _firsts(self, delta: Delta, runs: Runs) -> list[Column]:
        """For each accumulator `first` its value after each run, also entered into runs.change."""
        values: list[Column] = []
        word = 0
        for accumulator, arg in zip(self.node.accumulators, self._args, strict=True):
            if accumulator.index is None:
                word += {"sum": 2, **dict.fromkeys(EXACT, 0)}.get(accumulator.kind, 1)
                continue
            assert arg is not None
            index = self._ordered[accumulator.index]
            keys = [delta.peek(k, runs.first_row) for k in self._keys]
            rows = first_rows(index, keys, runs.time)
            value = gather_or_null(index.relation, arg, rows)
            words = encode.equality_words([value], [True])
            runs.change[word : word + len(words)] = words
            word += len(words)
            values.append(value)
        return values

    def _first_width(self, arg: int | None) -> int:
        assert arg is not None
        return encode.key_width([self.node.input.schema[arg].type], [True])

    def _rows(
        self,
        delta: Delta,
        runs: Runs,
        firsts: list[Column],
        births: Ints,
        birth_run: Ints,
        birth_prior: Ints,
        by_time: Ints,
    ) -> list[Column]:
        """The new rows in order of time: keys from the input, accumulators from the sweep."""
        n = len(by_time)
        run = birth_run[:n][by_time]
        source = runs.first_row[run]
        fields = self.node.schema
        columns = [
            Column(fields[i].type, _normal(c.values), c.valid)
            for i, c in enumerate(delta.peek(k, source) for k in self._keys)
        ]
        word, exact, ordered = 0, 0, 0
        for i, kind in enumerate(self._kinds, start=len(self._keys)):
            values: Any
            if kind == "sum":
                values = np.ascontiguousarray(births[word : word + 2, by_time].T)
                word += 2
            elif kind in EXACT:
                states = self._exact_states(i, runs.exact[exact], birth_run[:n], birth_prior[:n])
                values = pa.array([states[b] for b in by_time.tolist()], pa.binary())
                exact += 1
            elif kind == "first":
                value = firsts[ordered].take(run)
                columns.append(Column(fields[i].type, value.values, value.valid))
                word += encode.key_width([fields[i].type], [True])
                ordered += 1
                continue
            else:
                values = births[word, by_time]
                word += 1
            columns.append(Column(fields[i].type, values))
        return columns

    def _exact_states(
        self, column: int, change: tuple[exact_sum.Sum, ...], birth_run: Ints, birth_prior: Ints
    ) -> list[bytes]:
        """Exact floating-point sums of every birth, each from its prior version."""
        stored_births = np.flatnonzero(birth_prior >= 0)
        stored = self.relation.gather(column, birth_prior[stored_births]).values.to_pylist()
        before = dict(zip(stored_births.tolist(), stored, strict=True))
        states: list[bytes] = []
        for b, (run, prior) in enumerate(
            zip(birth_run.tolist(), birth_prior.tolist(), strict=True)
        ):
            base = before[b] if prior >= 0 else states[-2 - prior] if prior < -1 else b""
            states.append(exact_sum.add(base, change[run]))
        return states


def _normal(values: Any) -> Any:
    """Key values of which equal ones are the same: -0.0 is 0.0, and there is one NaN, as in Spark
    (otherwise the row that came first would show)."""
    if isinstance(values, np.ndarray) and values.dtype.kind == "f":
        return np.where(np.isnan(values), values.dtype.type(np.nan), values + values.dtype.type(0))
    return values


def _position(expr: object) -> int:
    assert isinstance(expr, ColumnRef), "the plan computes keys and arguments in a Map below"
    return expr.index


def gather_or_null(relation: Relation, column: int, rows: Ints) -> Column:
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


def first_rows(index: ArrangementState, keys: list[Column], times: Ints) -> Ints:
    """The row in front of each partition as of its time, or -1; ties on the index's words (texts
    that share their first bytes) are broken by the values.

    Shapes: keys[i] of n rows, times int64[n]; returns int64[n].
    """
    n = len(times)
    words = index.partition_words(keys, n)
    framed = np.vstack((words, times))
    order = sort_keys(framed)
    matches = index.first(keys_at(words, order), times[order])
    out = np.full(n, -1, np.int64)
    probe, row = matches.probe, matches.row
    if len(probe) > len(np.unique(probe)):
        spec = index.spec
        assert isinstance(spec, ir.OrderedArrangement)
        key = order_keys(spec)[0]
        values = [index.relation.gather(key.column, row)]
        ranks = np.empty(len(row), np.int64)
        ranks[sort_rows(values, (key,))] = np.arange(len(row))
        best = np.lexsort((ranks, probe))
        probe, row = probe[best], row[best]
        starts = np.flatnonzero(np.diff(probe, prepend=-1))
        probe, row = probe[starts], row[starts]
    out[order[probe]] = row
    return out


def _exact_runs(
    kind: str, column: Column, order: Ints, starts: Ints, diff: Ints
) -> tuple[exact_sum.Sum, ...]:
    """What each run adds to an exact floating-point sum."""
    out = []
    for start, end in zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True):
        rows = order[start:end]
        if column.valid is not None:
            rows = rows[column.valid[rows]]
        out.append(EXACT[kind](column.values[rows].astype(np.float64), diff[rows]))
    return tuple(out)
