"""What ends a job: changes of groups and bags, added up where they arise and where they meet.

A job ends at nodes that keep rows. Tasks add up what these have to apply, to one row for each
(group, time) or (row, time), and send it to the task of its bucket, or to the driver: who has all
of it applies it. Sums of exact numbers may be added in any order, so that a heavy group costs an
exchange one row per task and time.

Invariant: applying the merged parts to the operator is applying all the deltas they came from.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from operators.flight import delta as deltas
from operators.flight.column import Column, Ints, concat
from operators.flight.delta import Delta
from operators.kernels import grouping
from operators.nodes.recompute import RecomputeOperator
from operators.nodes.reduce import EXACT, EXTREME, ReduceOperator, extreme_key, slots_of
from operators.nodes.runs import Runs, add_up
from operators.nodes.store import StoreOperator, consolidate
from operators.state.arrangement import ArrangementState, IndexReader
from operators.state.hashing import Hashing
from operators.state.order import order_of
from operators.state.relation import Relation
from operators.state.rows import Rows
from operators.state.shared import Shared
from planner import dataflow as ir
from planner.calculus import types as t
from planner.calculus.expr import Column as ColumnRef
from planner.lower.distribution import reads_members


@dataclass(frozen=True, slots=True)
class Part:
    """Added-up changes for one node: `columns` as the sink lays them out, and the `leading` words
    of their keys, int64[n]."""

    columns: list[Column]
    leading: Ints

    def __len__(self) -> int:
        return len(self.leading)

    def at(self, positions: Ints) -> list[Column]:
        """The rows at ascending positions."""
        first, n = int(positions[0]), len(positions)
        if int(positions[-1]) - first + 1 != n:
            return [c.take(positions) for c in self.columns]
        return (
            self.columns if n == len(self) else [_sliced(c, first, first + n) for c in self.columns]
        )


class GroupSink:
    """Changes of a Reduce: its keys, the time, the words to add, the exact sums to add, and the
    extremes of rows that come."""

    def __init__(self, node: ir.Reduce, hashing: Hashing) -> None:
        self._operator = _group_operator(node, hashing)
        self._node, self._hashing = node, hashing
        self._keys = keys_of(node)
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
        columns = [
            *keys,
            Column(t.BIGINT, runs.time),
            *(Column(t.BIGINT, words) for words in runs.change[self._added]),
            *(Column(t.BINARY, states) for states in runs.exact),
            *runs.extreme,
        ]
        return Part(columns, np.repeat(runs.words[0], np.diff(runs.key_starts)))


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
        out = [c.take(net.row) for c in columns]
        leading = net.words[0][net.row]
        return Part([*out, Column(t.BIGINT, time[net.row]), Column(t.BIGINT, net.sum)], leading)


class MembersSink:
    """Changes of a node that looks its input's rows up by group: their ids, the time, and whether
    they come or go. `members`: the input's rows, and `indexes` of them, once they are read."""

    types: tuple[t.SqlType, ...] = (t.BIGINT,) * 3

    def __init__(self, node: ir.Recompute | ir.Reduce, hashing: Hashing) -> None:
        self._node = node
        shared = Shared(hashing=hashing)
        self._groups = IndexReader(self.index, Rows(node.schema, shared))
        self._keys = keys_of(node)
        (read,) = ir.inputs(node)
        self.members = Rows(read.schema, shared)
        self.indexes: Mapping[ir.Index, IndexReader] = {}

    def part(self, delta: Delta) -> Part:
        """The changes of one delta of the node's input."""
        keys = [delta.column(c) for c in self._keys]
        return self._part([delta.bindings[0].rows, delta.time, delta.diff], keys)

    def merge(self, parts: Sequence[list[Column]]) -> Part:
        """Several parts together."""
        changed = self._joined(parts)
        return self._part(changed, [self.members.gather(c, changed[0]) for c in self._keys])

    @property
    def index(self) -> ir.Index:
        """What finds the rows that go."""
        return ir.group_index(self._node)

    def operator_over(
        self, relation: Relation, index: ArrangementState, is_indexed: bool
    ) -> ReduceOperator | RecomputeOperator:
        """The operator of the groups in `relation`."""
        node = self._node
        if isinstance(node, ir.Recompute):
            return RecomputeOperator(node, relation, index, self.indexes[node.index])
        return ReduceOperator(node, relation, index, self.indexes)

    def needs_index(self, parts: Sequence[list[Column]]) -> bool:
        """Whether parts can be applied only where the index has all rows."""
        return True

    def apply(self, operator: SinkOperator, parts: Sequence[list[Column]]) -> Delta:
        """Apply several parts together to the operator's state."""
        assert isinstance(operator, ReduceOperator | RecomputeOperator)
        rows, time, diff = self._joined(parts)
        order, members = order_of(rows), members_of(operator)
        return operator.step([deltas.bound(members, rows[order], time[order], diff[order])])

    def _joined(self, parts: Sequence[list[Column]]) -> list[Ints]:
        return [np.concatenate([p[i].values for p in parts]) for i in range(3)]

    def _part(self, changed: Sequence[Ints], keys: list[Column]) -> Part:
        leading = self._groups.probe_words(keys, len(changed[0]))[0]
        return Part([Column(t.BIGINT, each) for each in changed], leading)


Sink: TypeAlias = GroupSink | BagSink | MembersSink
SinkOperator: TypeAlias = ReduceOperator | StoreOperator | RecomputeOperator


def sink_of(node: ir.Node, hashing: Hashing) -> Sink:
    """The sink of a node that keeps rows; `hashing`: how the store makes keys."""
    if reads_members(node):
        return MembersSink(node, hashing)
    if isinstance(node, ir.Reduce):
        return GroupSink(node, hashing)
    assert isinstance(node, ir.Store)
    return BagSink(node, hashing)


def keys_of(node: ir.Recompute | ir.Reduce) -> tuple[int, ...]:
    """The columns of the input that groups are by."""
    if isinstance(node, ir.Recompute):
        return node.index.columns
    return tuple(k.index for k in node.keys if isinstance(k, ColumnRef))


def reads_of(node: ir.Node) -> tuple[ir.Index, ...]:
    """The indexes of its input in which a sink's groups look their rows up."""
    if isinstance(node, ir.Recompute):
        return (node.index,)
    assert isinstance(node, ir.Reduce)
    return tuple(dict.fromkeys(a.index for a in node.accumulators if a.index is not None))


def members_of(operator: ReduceOperator | RecomputeOperator) -> Rows:
    """The rows of those groups."""
    return next(iter(operator.reads.values())).relation


def _group_operator(node: ir.Reduce, hashing: Hashing) -> ReduceOperator:
    """One over state of its own."""
    relation = Relation(node.schema, Shared(hashing=hashing))
    return ReduceOperator(node, relation, ArrangementState(ir.group_index(node), relation), {})


def _sliced(column: Column, start: int, end: int) -> Column:
    valid = None if column.valid is None else column.valid[start:end]
    return Column(column.type, column.values[start:end], valid)
