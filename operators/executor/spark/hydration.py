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
from operators.executor.spark import blobs, deal
from operators.executor.spark.builder import JobBuilder, Limits, is_applied
from operators.executor.spark.cut import SinkCut, cut_of
from operators.executor.spark.job import PartitionsRef, SinkRef, SnapshotRef
from operators.executor.spark.sinks import members_of, sink_of
from operators.flight import delta as deltas
from operators.flight.delta import Delta
from operators.hydration import pieces_of
from operators.kernels.memory import BLOCK_BITS, BLOCK_MASK
from operators.nodes.delta_join import DeltaJoinOperator
from operators.nodes.recompute import RecomputeOperator
from operators.nodes.reduce import ReduceOperator
from operators.nodes.threshold import ThresholdOperator
from operators.nodes.top_k import TopKOperator
from operators.nodes.window import WindowOperator
from operators.state.hashing import Hashing
from operators.state.publish import Publication
from operators.state.relation import Relation
from planner import dataflow as ir
from planner.lower.distribution import flows_at_first, is_of_partitions

#: More rows than this a task are more than it is to take at once.
MOST_ROWS = 1 << 23
#: This part of what is worth a job, a join may come to on its way in the driver.
_LITTLE = 8


@dataclass(frozen=True, slots=True)
class Everything:
    """All rows of a relation."""

    relation: Relation

    def __len__(self) -> int:
        return self.relation.live_rows


@dataclass(frozen=True, slots=True)
class Plan:
    """How a sink is hydrated: `leaves`, all rows of which are taken, and of each join the input
    that it is computed from; nodes whose rows are those of partitions are leaves like what they
    read. `counted`: maps that have counted their failing rows."""

    cut: SinkCut
    counted: frozenset[Key]
    leaves: Mapping[Key, Everything]
    sources: Mapping[Key, int]

    @property
    def rows(self) -> int:
        return sum(map(len, self.leaves.values()))


def plan(
    dataflow: Dataflow,
    sink: Installed,
    new: Mapping[ir.Node, Delta | None],
    time: int,
    least: int,
) -> Plan | None:
    """How tasks may compute the first rows, as of `time`, of a sink that is `new`, as other nodes,
    with the rows that the driver has of them, if it has them; None where they cannot: it reads
    events, or something that only the driver has."""
    if not isinstance(sink.node, ir.Reduce | ir.Store | ir.Recompute):
        return None
    cut = cut_of(sink, flows_at_first)
    if any(new.get(node) is not None for _, node in cut.region):
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
            sources[reader] = operator.first = _source(operator, time, least)
            inputs = inputs[sources[reader] :][:1]
        elif isinstance(reader[1], ir.Threshold):
            inputs = inputs[:1]
        for i in inputs:
            key = node_key(i, sink.owner)
            if ir.is_stored(i):
                leaves[key] = Everything(dataflow.relation(i, sink.owner))
            elif is_of_partitions(i) and new.get(i) is None:
                leaves[key] = Everything(dataflow.relation(i.index.relation, sink.owner))
            elif not flows_at_first(i):
                return None
    return Plan(cut, counted, leaves, sources)


def _source(join: DeltaJoinOperator, time: int, least: int) -> int:
    """The input that a join is computed from. The smallest may have few rows that reach far, a
    nation its customers and all their orders: then it is the smallest that tasks can share, unless
    the rows of another small one reach a small part of `least`, which the driver has soon done."""
    order = join.by_size()
    for source in order:
        relation = join.occurrences[source].relation
        if relation.live_rows >= least:
            return source
        if not join.reaches(source, pieces_of(relation, time), least // _LITTLE):
            return source
    return order[0]


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

    def _node(self, key: Key) -> ir.Node:
        return by_themselves(key[1])

    def _applied(self) -> tuple[SinkRef, ...]:
        sinks = (cut.sink for cut in self.active if is_applied(cut.sink.node))
        return tuple(SinkRef(self.keys[s.key], None, None, self._read(s)) for s in sinks)

    def _read(self, sink: Installed) -> int | None:
        """The rows of groups that are computed from all of them, if the sink's are."""
        if not isinstance(sink.operator, RecomputeOperator):
            return None
        return self._members(members_of(sink.operator))

    def _follows(self, join: Key, source: int) -> bool:
        return self._plan.sources[join] == source

    def _source(self, key: Key, needed: set[int], tasks: int) -> SnapshotRef | PartitionsRef:
        if is_of_partitions(key[1]):
            operator = self._dataflow.at(key).operator
            assert isinstance(operator, TopKOperator | WindowOperator)
            read = operator.index.relation
            self._relation_blocks[self._relation(read, range(len(read.schema)))] = None
            slices = deal.slices_from(tasks)
            return PartitionsRef(self.keys[key], self._index(operator.index), slices)
        relation = self._plan.leaves[key].relation
        number = self._relation(relation, needed)
        self._relation_blocks[number] = None
        blocks = range((relation.next_row + BLOCK_MASK) >> BLOCK_BITS)
        return SnapshotRef(self.keys[key], number, deal.even_starts(relation, blocks, tasks))


def by_themselves(node: ir.Node) -> ir.Node:
    """A node as tasks compute its first rows: MIN and MAX need no order where all rows come."""
    if not isinstance(node, ir.Reduce):
        return node
    return replace(node, accumulators=tuple(map(_by_itself, node.accumulators)))


def _by_itself(accumulator: ir.Accumulator) -> ir.Accumulator:
    if accumulator.index is None:
        return accumulator
    kind = "greatest" if accumulator.index.order[0].descending else "least"
    return ir.Accumulator(kind, accumulator.arg)


def is_left_to_readers(new: Installed, least: int) -> bool:
    """Whether a new node that keeps no rows, and would be computed as a whole, is better computed
    by each who reads it: one of many rows, which tasks can do."""
    operator = new.operator
    if isinstance(operator, ThresholdOperator | TopKOperator | WindowOperator):
        flows = flows_at_first(new.node) or is_of_partitions(new.node)
        return flows and operator.index.relation.live_rows >= least
    if not isinstance(operator, DeltaJoinOperator) or operator.takes_events:
        return False
    return max(o.relation.live_rows for o in operator.occurrences) >= least


def add_up(sink: Installed, payloads: Sequence[bytes], hashing: Hashing, time: int) -> None:
    """Let a new group without keys have its row as of `time`, of what tasks told."""
    operator, node = sink.operator, by_themselves(sink.node)
    assert isinstance(operator, ReduceOperator) and isinstance(node, ir.Reduce)
    if payloads:
        sums = sink_of(node, hashing)
        own = ReduceOperator(node, operator.relation, operator.index, {})
        sums.apply(own, [blobs.decode_columns(p, sums.types) for p in payloads])
    else:
        nothing = deltas.empty(operator.node.input.schema)
        operator.apply(nothing, operator.no_runs(time))
