"""What ends a job: changes of groups and bags, added up where they arise and where they meet.

A job ends at nodes that keep rows. Their state is the driver's, so tasks only add up what it has to
apply: one row for each (group, time) or (row, time). Sums of exact numbers may be added in any
order, so that a heavy group costs an exchange one row per task and time.

Invariant: applying the merged parts to the operator is applying all the deltas they came from.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from operators import delta as deltas
from operators import exact_sum
from operators.column import Column, Ints, concat
from operators.delta import Delta
from operators.kernels import grouping, sorting
from operators.reduce import EXACT, ReduceOperator, Runs
from operators.state.arrangement import ArrangementState
from operators.state.relation import Relation
from operators.state.spine import keys_at
from operators.store import StoreOperator, consolidate
from planner import dataflow as ir
from planner import types as t
from planner.expr import Column as ColumnRef

_ALL_VALID = np.empty(0, np.bool_)


@dataclass(frozen=True, slots=True)
class Part:
    """Added-up changes for one node: `columns` as the sink lays them out, of rows in ascending
    order of `buckets`, int64[n]."""

    columns: list[Column]
    buckets: Ints

    def __len__(self) -> int:
        return len(self.buckets)

    def between(self, start: int, end: int) -> list[Column]:
        """The rows at positions [start, end)."""
        if start == 0 and end == len(self):
            return self.columns
        return [_sliced(c, start, end) for c in self.columns]


class GroupSink:
    """Changes of a Reduce: its keys, the time, the words to add, the exact sums to add."""

    def __init__(self, node: ir.Reduce) -> None:
        relation = Relation(node.schema)
        self._operator = ReduceOperator(
            node, relation, ArrangementState(ir.group_index(node), relation), {}
        )
        self._node = node
        self._keys = [k.index for k in node.keys if isinstance(k, ColumnRef)]
        kinds = [a.kind for a in node.accumulators]
        self._exact = sum(k in EXACT for k in kinds)
        #: For each accumulator that is words: how many.
        self._widths = [2 if k == "sum" else 1 for k in kinds if k not in EXACT]
        self.types: tuple[t.SqlType, ...] = (
            *(node.input.schema[k].type for k in self._keys),
            t.BIGINT,
            *(t.BIGINT,) * sum(self._widths),
            *(t.BINARY,) * self._exact,
        )

    def part(self, delta: Delta) -> Part:
        """The changes of one delta of the node's input."""
        runs = self._operator.runs(delta)
        return self._part(runs, [delta.peek(k, runs.first_row) for k in self._keys])

    def merge(self, parts: Sequence[list[Column]]) -> Part:
        """The sum of several parts."""
        keys, runs = self._merged(parts)
        return self._part(runs, [k.take(runs.first_row) for k in keys])

    def apply(
        self, operator: ReduceOperator | StoreOperator, parts: Sequence[list[Column]]
    ) -> Delta:
        """Apply the sum of several parts to the driver's state."""
        assert isinstance(operator, ReduceOperator)
        keys, runs = self._merged(parts)
        origins: list[deltas.Origin] = [None] * len(self._node.input.schema)
        for position, column in zip(self._keys, keys, strict=True):
            origins[position] = column
        n = sum(len(p[0]) for p in parts)
        zeros = np.zeros(n, np.int64)
        return operator.apply(Delta(self._node.input.schema, zeros, zeros, origins), runs)

    def _merged(self, parts: Sequence[list[Column]]) -> tuple[list[Column], Runs]:
        columns = [concat([p[i] for p in parts]) for i in range(len(self.types))]
        n, width = len(columns[0]), len(self._keys)
        keys = columns[:width]
        time = columns[width].values
        words, _ = self._operator.index.key_words(np.arange(n), keys)
        framed = np.empty((words.shape[0] + 2, n), np.int64)
        sorting.buckets_of(words[0], framed[0])
        framed[1:-1] = words
        framed[-1] = time
        order, starts = np.empty(n, np.int64), np.empty(n + 1, np.int64)
        sorting.argsort(framed, order, np.empty(n, np.int64))
        count = sorting.run_starts(framed, order, starts)
        first_row = order[starts[:count]]
        run_words = keys_at(words, first_row)
        key_starts = np.empty(count + 1, np.int64)
        groups = sorting.run_starts(run_words, np.arange(count), key_starts)
        key_starts = key_starts[: groups + 1]
        change = np.empty((sum(self._widths), count), np.int64)
        ones = np.ones(n, np.int64)
        word = 0
        for added in self._widths:
            low = columns[width + 1 + word].values
            if added == 1:
                grouping.count_runs(order, starts, count, low, _ALL_VALID, change[word])
            else:
                pair = np.stack((low, columns[width + 2 + word].values), axis=1)
                grouping.sum_runs_wide(
                    order, starts, count, ones, pair, _ALL_VALID, change[word], change[word + 1]
                )
            word += added
        exact = tuple(
            _sum_exact(c.values, order, starts[: count + 1])
            for c in columns[len(columns) - self._exact :]
        )
        return keys, Runs(
            words=keys_at(run_words, key_starts[:-1]),
            key_starts=key_starts,
            first_row=first_row,
            time=time[first_row],
            change=change,
            exact=exact,
        )

    def _part(self, runs: Runs, keys: list[Column]) -> Part:
        buckets = np.empty(runs.words.shape[1], np.int64)
        sorting.buckets_of(runs.words[0], buckets)
        exact: list[Any] = [
            pa.array([exact_sum.encode(s.total, s.nan, s.pinf, s.ninf) for s in sums], pa.binary())
            for sums in runs.exact
        ]
        columns = [
            *keys,
            Column(t.BIGINT, runs.time),
            *(Column(t.BIGINT, words) for words in runs.change),
            *(Column(t.BINARY, states) for states in exact),
        ]
        return Part(columns, np.repeat(buckets, np.diff(runs.key_starts)))


class BagSink:
    """Changes of a Store: its columns, the time, how many copies come or go."""

    def __init__(self, node: ir.Store) -> None:
        self._node = node
        self.types: tuple[t.SqlType, ...] = (*(f.type for f in node.schema), t.BIGINT, t.BIGINT)

    def part(self, delta: Delta) -> Part:
        """The changes of one delta of the node's input."""
        return _consolidated(delta.columns(), delta.time, delta.diff)

    def merge(self, parts: Sequence[list[Column]]) -> Part:
        """The sum of several parts."""
        *columns, time, diff = self._joined(parts)
        return _consolidated(columns, time.values, diff.values)

    def apply(
        self, operator: ReduceOperator | StoreOperator, parts: Sequence[list[Column]]
    ) -> Delta:
        """Apply the sum of several parts to the driver's state."""
        assert isinstance(operator, StoreOperator)
        *columns, time, diff = self._joined(parts)
        origins: list[deltas.Origin] = list(columns)
        return operator.step(Delta(self._node.schema, time.values, diff.values, origins))

    def _joined(self, parts: Sequence[list[Column]]) -> list[Column]:
        return [concat([p[i] for p in parts]) for i in range(len(self.types))]


Sink: TypeAlias = GroupSink | BagSink


def sink_of(node: ir.Node) -> Sink:
    """The sink of a node that keeps rows."""
    if isinstance(node, ir.Reduce):
        return GroupSink(node)
    assert isinstance(node, ir.Store)
    return BagSink(node)


def _consolidated(columns: list[Column], time: Ints, diff: Ints) -> Part:
    words, rows, net = consolidate(columns, time, diff)
    buckets = np.empty(len(rows), np.int64)
    sorting.buckets_of(words[0][rows], buckets)
    out = [c.take(rows) for c in columns]
    return Part([*out, Column(t.BIGINT, time[rows]), Column(t.BIGINT, net)], buckets)


def _sum_exact(states: pa.Array, order: Ints, starts: Ints) -> tuple[exact_sum.Sum, ...]:
    decoded = [exact_sum.decode(s) for s in states.to_pylist()]
    sums = []
    for start, end in zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True):
        total = exact_sum.Sum()
        for row in order[start:end].tolist():
            total += decoded[row]
        sums.append(total)
    return tuple(sums)


def _sliced(column: Column, start: int, end: int) -> Column:
    valid = None if column.valid is None else column.valid[start:end]
    return Column(column.type, column.values[start:end], valid)
