"""What ends a job: changes of groups and bags, added up where they arise and where they meet.

A job ends at nodes that keep rows. Tasks add up what these have to apply, to one row for each
(group, time) or (row, time), and send it to the task of its bucket, or to the driver: who has all
of it applies it. Sums of exact numbers may be added in any order, so that a heavy group costs an
exchange one row per task and time.

Invariant: applying the merged parts to the operator is applying all the deltas they came from.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from operators.flight import delta as deltas
from operators.flight.column import Column, Ints, concat
from operators.flight.delta import Delta
from operators.kernels import grouping, sorting
from operators.nodes.recompute import RecomputeOperator
from operators.nodes.reduce import EXACT, EXTREME, ReduceOperator, extreme_key, slots_of
from operators.nodes.runs import Runs, add_up
from operators.nodes.store import StoreOperator, consolidate
from operators.state.arrangement import ArrangementState, IndexReader
from operators.state.hashing import Hashing
from operators.state.order import order_of
from operators.state.relation import Relation
from operators.state.shared import Shared
from planner import dataflow as ir
from planner import types as t
from planner.expr import Column as ColumnRef


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
    """Changes of a Reduce: its keys, the time, the words to add, the exact sums to add, and the
    extremes of rows that come."""

    def __init__(self, node: ir.Reduce, hashing: Hashing) -> None:
        self._operator = _group_operator(node, hashing)
        self._node, self._hashing = node, hashing
        self._keys = [k.index for k in node.keys if isinstance(k, ColumnRef)]
        slots, self._mode = slots_of(node)
        self._added = self._mode != grouping.SET
        self._exact = sum(s.kind in EXACT for s in slots)
        self._extremes = [(s.column, extreme_key(s)) for s in slots if s.kind in EXTREME]
        self.types: tuple[t.SqlType, ...] = (
            *(node.input.schema[k].type for k in self._keys),
            t.BIGINT,
            *(t.BIGINT,) * int(self._added.sum()),
            *(t.BINARY,) * self._exact,
            *(node.schema[column].type for column, _ in self._extremes),
        )

    def part(self, delta: Delta) -> Part:
        """The changes of one delta of the node's input."""
        runs = self._operator.runs(delta)
        return self._part(runs, [delta.peek(k, runs.first_row) for k in self._keys])

    def merge(self, parts: Sequence[list[Column]]) -> Part:
        """The sum of several parts."""
        keys, runs = self._merged(parts)
        return self._part(runs, [k.take(runs.first_row) for k in keys])

    @property
    def index(self) -> ir.Index:
        """What finds the rows that go."""
        return ir.group_index(self._node)

    def operator_over(
        self, relation: Relation, index: ArrangementState, is_indexed: bool
    ) -> ReduceOperator:
        """The operator of the groups in `relation`."""
        return ReduceOperator(self._node, relation, index, {})

    def needs_index(self, parts: Sequence[list[Column]]) -> bool:
        """Whether parts can be applied only where the index has all rows."""
        return True

    def apply(self, operator: SinkOperator, parts: Sequence[list[Column]]) -> Delta:
        """Apply the sum of several parts to the operator's state."""
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
        words = self._operator.index.probe_words(keys, n)
        added = np.zeros((len(self._mode), n), np.int64)
        at = width + 1
        for word in self._added.nonzero()[0].tolist():
            added[word], at = columns[at].values, at + 1
        exact = tuple(c.values for c in columns[at : at + self._exact])
        keyed = zip(columns[at + self._exact :], (k for _, k in self._extremes), strict=True)
        hashed = self._operator.index.hashed
        return keys, add_up(words, keys, hashed, time, added, exact, self._mode, tuple(keyed))

    def _part(self, runs: Runs, keys: list[Column]) -> Part:
        buckets = np.empty(runs.words.shape[1], np.int64)
        sorting.buckets_of(runs.words[0], buckets)
        columns = [
            *keys,
            Column(t.BIGINT, runs.time),
            *(Column(t.BIGINT, words) for words in runs.change[self._added]),
            *(Column(t.BINARY, states) for states in runs.exact),
            *runs.extreme,
        ]
        return Part(columns, np.repeat(buckets, np.diff(runs.key_starts)))


class BagSink:
    """Changes of a Store: its columns, the time, how many copies come or go."""

    def __init__(self, node: ir.Store, hashing: Hashing) -> None:
        self._node = node
        self._hashing = hashing
        self.types: tuple[t.SqlType, ...] = (*(f.type for f in node.schema), t.BIGINT, t.BIGINT)

    def part(self, delta: Delta) -> Part:
        """The changes of one delta of the node's input."""
        return self._consolidated(delta.columns(), delta.time, delta.diff)

    def merge(self, parts: Sequence[list[Column]]) -> Part:
        """The sum of several parts."""
        *columns, time, diff = self._joined(parts)
        return self._consolidated(columns, time.values, diff.values)

    @property
    def index(self) -> ir.Index:
        """What finds the rows that go."""
        return ir.HashArrangement(self._node)

    def operator_over(
        self, relation: Relation, index: ArrangementState, is_indexed: bool
    ) -> StoreOperator:
        """The operator of the rows in `relation`. `is_indexed`: the index has them, and is to."""
        operator = StoreOperator(self._node, relation, index)
        operator.load({"retracts": is_indexed})
        return operator

    def needs_index(self, parts: Sequence[list[Column]]) -> bool:
        """Whether parts can be applied only where the index has all rows: some row goes."""
        return any(bool((part[-1].values < 0).any()) for part in parts)

    def apply(self, operator: SinkOperator, parts: Sequence[list[Column]]) -> Delta:
        """Apply the sum of several parts to the operator's state."""
        assert isinstance(operator, StoreOperator)
        *columns, time, diff = self._joined(parts)
        origins: list[deltas.Origin] = list(columns)
        return operator.step([Delta(self._node.schema, time.values, diff.values, origins)])

    def _joined(self, parts: Sequence[list[Column]]) -> list[Column]:
        return [concat([p[i] for p in parts]) for i in range(len(self.types))]

    def _consolidated(self, columns: list[Column], time: Ints, diff: Ints) -> Part:
        net = consolidate(columns, time, diff, self._hashing)
        buckets = np.empty(len(net.row), np.int64)
        sorting.buckets_of(net.words[0][net.row], buckets)
        out = [c.take(net.row) for c in columns]
        return Part([*out, Column(t.BIGINT, time[net.row]), Column(t.BIGINT, net.sum)], buckets)


class MembersSink:
    """Changes of a Recompute: row ids of its input, whose rows are where tasks can read them, the
    time, and whether they come or go. `members`: the index of its input by group, once it is read.
    """

    types: tuple[t.SqlType, ...] = (t.BIGINT,) * 3

    def __init__(self, node: ir.Recompute, hashing: Hashing) -> None:
        self._node = node
        nothing = Relation(node.index.relation.schema, Shared(hashing=hashing))
        self.members: IndexReader = IndexReader(node.index, nothing)

    def part(self, delta: Delta) -> Part:
        """The changes of one delta of the node's input."""
        keys = [delta.column(c) for c in self._node.index.columns]
        return self._part([delta.bindings[0].rows, delta.time, delta.diff], keys)

    def merge(self, parts: Sequence[list[Column]]) -> Part:
        """Several parts together."""
        changed = self._joined(parts)
        gather = self.members.relation.gather
        return self._part(changed, [gather(c, changed[0]) for c in self._node.index.columns])

    @property
    def index(self) -> ir.Index:
        """What finds the rows that go."""
        return ir.group_index(self._node)

    def operator_over(
        self, relation: Relation, index: ArrangementState, is_indexed: bool
    ) -> RecomputeOperator:
        """The operator of the groups in `relation`."""
        return RecomputeOperator(self._node, relation, index, self.members)

    def needs_index(self, parts: Sequence[list[Column]]) -> bool:
        """Whether parts can be applied only where the index has all rows."""
        return True

    def apply(self, operator: SinkOperator, parts: Sequence[list[Column]]) -> Delta:
        """Apply several parts together to the operator's state."""
        assert isinstance(operator, RecomputeOperator)
        rows, time, diff = self._joined(parts)
        order = order_of(rows)
        delta = deltas.bound(operator.members.relation, rows[order], time[order], diff[order])
        return operator.step([delta])

    def _joined(self, parts: Sequence[list[Column]]) -> list[Ints]:
        return [np.concatenate([p[i].values for p in parts]) for i in range(3)]

    def _part(self, changed: Sequence[Ints], keys: list[Column]) -> Part:
        buckets = np.empty(len(changed[0]), np.int64)
        sorting.buckets_of(self.members.probe_words(keys, len(buckets))[0], buckets)
        order = np.argsort(buckets.astype(np.uint8), kind="stable")
        return Part([Column(t.BIGINT, each[order]) for each in changed], buckets[order])


Sink: TypeAlias = GroupSink | BagSink | MembersSink
SinkOperator: TypeAlias = ReduceOperator | StoreOperator | RecomputeOperator


def sink_of(node: ir.Node, hashing: Hashing) -> Sink:
    """The sink of a node that keeps rows; `hashing`: how the store makes keys."""
    if isinstance(node, ir.Reduce):
        return GroupSink(node, hashing)
    if isinstance(node, ir.Recompute):
        return MembersSink(node, hashing)
    assert isinstance(node, ir.Store)
    return BagSink(node, hashing)


def _group_operator(node: ir.Reduce, hashing: Hashing) -> ReduceOperator:
    """One over state of its own."""
    relation = Relation(node.schema, Shared(hashing=hashing))
    return ReduceOperator(node, relation, ArrangementState(ir.group_index(node), relation), {})


def _sliced(column: Column, start: int, end: int) -> Column:
    valid = None if column.valid is None else column.valid[start:end]
    return Column(column.type, column.values[start:end], valid)
