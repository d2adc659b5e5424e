"""Hydration by tasks: the first rows of a group or a bag, in files that tasks write.

A hydration is a job like that of a step (see `job` and `task`) whose changes are all rows that
there are: its tasks map blocks of what lies under the sink, take them through maps, unions and one
path of each join, and send what they add up to the tasks of the groups' or the rows' buckets. Those
write the sink's rows as segments; what comes back says where these lie, so that the driver's work
is in proportion to the blocks.

Invariant: the sink has the rows that it would have after `Operator.start`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from operators.dataflow import Dataflow, Installed, Key, node_key
from operators.executor.spark import blobs
from operators.executor.spark.cut import SinkCut, cut_of, is_local, is_of_the_driver
from operators.executor.spark.job import (
    JobBuilder,
    Limits,
    SinkRef,
    SnapshotRef,
    is_applied,
)
from operators.executor.spark.sinks import sink_of
from operators.flight import delta as deltas
from operators.flight.delta import Delta
from operators.kernels.memory import BLOCK_BITS, BLOCK_MASK
from operators.nodes.delta_join import DeltaJoinOperator
from operators.nodes.reduce import EXTREME, ReduceOperator
from operators.state.hashing import Hashing
from operators.state.publish import Publication
from operators.state.relation import Relation
from planner import dataflow as ir
from planner.distribution import is_stateless

#: More rows than this a task are more than it is to take at once.
MOST_ROWS = 1 << 23


@dataclass(frozen=True, slots=True)
class Everything:
    """All rows of a relation."""

    relation: Relation

    def __len__(self) -> int:
        return self.relation.live_rows


@dataclass(frozen=True, slots=True)
class Plan:
    """How a sink is hydrated: `leaves`, all rows of which are taken, and of each join the input
    that it is computed from. `counted`: maps that have counted their failing rows."""

    cut: SinkCut
    counted: frozenset[Key]
    leaves: Mapping[Key, Everything]
    sources: Mapping[Key, int]

    @property
    def rows(self) -> int:
        return sum(map(len, self.leaves.values()))


def plan(dataflow: Dataflow, sink: Installed, new: Mapping[ir.Node, Delta | None]) -> Plan | None:
    """How tasks may compute the first rows of a sink that is `new`, as other nodes, with the rows
    that the driver has of them, if it has them; None where they cannot: it reads events or an
    order, or something that only the driver has."""
    if not isinstance(sink.node, ir.Reduce | ir.Store) or is_local(sink.node):
        return None
    if isinstance(sink.node, ir.Reduce) and any(a.kind in EXTREME for a in sink.node.accumulators):
        return None
    cut = cut_of(sink)
    if is_of_the_driver(cut) or any(new.get(node) is not None for _, node in cut.region):
        return None
    counted = frozenset(key for key in cut.region if key[1] not in new)
    leaves: dict[Key, Everything] = {}
    sources: dict[Key, int] = {}
    for reader in (*cut.region, sink.key):
        operator = dataflow.operator(reader[1], reader[0])
        inputs = operator.takes
        if isinstance(reader[1], ir.Constant):
            return None
        if isinstance(operator, DeltaJoinOperator):
            sources[reader] = operator.first_source()
            inputs = inputs[sources[reader] :][:1]
        for i in inputs:
            if ir.is_stored(i):
                relation = dataflow.relation(i, sink.owner)
                leaves[node_key(i, sink.owner)] = Everything(relation)
            elif not is_stateless(i):
                return None
    return Plan(cut, counted, leaves, sources)


class HydrationBuilder(JobBuilder):
    """Makes the job of a plan, as of a time, whose tasks write files of `token`."""

    snapshot = True

    def __init__(
        self,
        dataflow: Dataflow,
        plan: Plan,
        time: int,
        limits: Limits,
        publication: Publication,
        token: str,
    ) -> None:
        tasks = max(2, limits.tasks, -(-plan.rows // MOST_ROWS))
        limits = replace(limits, tasks=tasks, task_rows=1, apply_rows=0)
        self._plan, self._at = plan, time
        super().__init__(
            dataflow, plan.leaves, (plan.cut,), plan.counted, limits, publication, token
        )

    def _one_time(self) -> int:
        return self._at

    def _combines(self, tasks: int) -> bool:
        return True

    def _applied(self) -> tuple[SinkRef, ...]:
        sinks = (cut.sink for cut in self.active if is_applied(cut.sink.node))
        return tuple(SinkRef(self.keys[sink.key], None, None) for sink in sinks)

    def _follows(self, join: Key, source: int) -> bool:
        return self._plan.sources[join] == source

    def _source(self, key: Key, needed: set[int], tasks: int) -> SnapshotRef:
        relation = self._plan.leaves[key].relation
        number = self._relation(relation, needed)
        self._relation_blocks[number] = None
        blocks = (relation.next_row + BLOCK_MASK) >> BLOCK_BITS
        starts = tuple(blocks * t // tasks for t in range(tasks + 1))
        return SnapshotRef(self.keys[key], number, starts)


def is_left_to_readers(join: Installed, least: int) -> bool:
    """Whether a new node with more readers than one, which would be computed as a whole, is better
    computed by each of them: a join of many rows, which tasks can do."""
    operator = join.operator
    if not isinstance(operator, DeltaJoinOperator) or operator.takes_events:
        return False
    return max(o.relation.live_rows for o in operator.occurrences) >= least


def add_up(sink: Installed, payloads: Sequence[bytes], hashing: Hashing, time: int) -> None:
    """Let a new group without keys have its row as of `time`, of what tasks told."""
    operator = sink.operator
    assert isinstance(operator, ReduceOperator)
    if payloads:
        sums = sink_of(sink.node, hashing)
        sums.apply(operator, [blobs.decode_columns(p, sums.types) for p in payloads])
    else:
        nothing = deltas.empty(operator.node.input.schema)
        operator.apply(nothing, operator.no_runs(time))
