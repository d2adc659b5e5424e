"""Hydration by tasks: the first rows of a group or a bag, in files that tasks write.

A hydration is a job like that of a step (see `job` and `task`) whose changes are all rows that
there are: its tasks map blocks of what lies under the sink, take them through maps, unions and one
path of each join, and send what they add up to the tasks of the groups' or the rows' buckets. Those
write the sink's rows as segments; what comes back says where these lie, so that the driver's work
is in proportion to the blocks.

Invariant: the sink has the rows that it would have after `Operator.start`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from operators.dataflow import Dataflow, Installed, Key, node_key
from operators.executor.spark import blobs
from operators.executor.spark.cut import SinkCut, cut_of, is_local, is_of_the_driver, is_stateless
from operators.executor.spark.job import Job, JobBuilder, Limits, SnapshotRef
from operators.executor.spark.load import segment_of
from operators.executor.spark.sinks import sink_of
from operators.flight import delta as deltas
from operators.flight.delta import Delta
from operators.kernels.memory import BLOCK_BITS, BLOCK_MASK
from operators.nodes.delta_join import DeltaJoinOperator
from operators.nodes.reduce import EXTREME, ReduceOperator
from operators.state.hashing import Hashing
from operators.state.pieces import MappedFiles
from operators.state.publish import Publication
from operators.state.relation import Relation
from operators.state.stored import StoredBlock
from planner import dataflow as ir

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


@dataclass(frozen=True, slots=True)
class Written:
    """Blocks of a sink's first rows, and the columns with NULLs."""

    blocks: tuple[StoredBlock, ...]
    nulls: tuple[int, ...]
    files: MappedFiles

    @property
    def names(self) -> list[str]:
        """Of the files."""
        return list(dict.fromkeys(block.home.file for block in self.blocks))


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

    def __init__(
        self,
        dataflow: Dataflow,
        plan: Plan,
        time: int,
        token: str,
        limits: Limits,
        publication: Publication,
    ) -> None:
        tasks = max(2, limits.tasks, -(-plan.rows // MOST_ROWS))
        limits = replace(limits, tasks=tasks, task_rows=1)
        super().__init__(dataflow, plan.leaves, (plan.cut,), plan.counted, limits, publication)
        self._plan, self._time, self._token = plan, time, token

    def build(self) -> Job:
        job = super().build()
        # Who has no keys has one row, which the driver writes.
        written = job.sinks if is_written(self._plan.cut.sink.node) else ()
        return replace(job, combined=True, time=self._time, written=written, token=self._token)

    def _follows(self, join: Key, source: int) -> bool:
        return self._plan.sources[join] == source

    def _source(self, key: Key, needed: set[int], tasks: int) -> SnapshotRef:
        relation = self._plan.leaves[key].relation
        number = self._relation(relation, needed)
        self._relation_blocks[number] = None
        blocks = (relation.next_row + BLOCK_MASK) >> BLOCK_BITS
        starts = tuple(blocks * t // tasks for t in range(tasks + 1))
        return SnapshotRef(self.keys[key], number, starts)


def is_written(node: ir.Node) -> bool:
    """Whether tasks write the rows of a sink."""
    return not isinstance(node, ir.Reduce) or bool(node.keys)


def is_left_to_readers(join: Installed, least: int) -> bool:
    """Whether a new node with more readers than one, which would be computed as a whole, is better
    computed by each of them: a join of many rows, which tasks can do."""
    operator = join.operator
    if not isinstance(operator, DeltaJoinOperator) or operator.takes_events:
        return False
    return max(o.relation.live_rows for o in operator.occurrences) >= least


def written(payloads: Sequence[bytes], directory: str) -> Written:
    """What tasks told, in their order."""
    segments = [segment_of(json.loads(payload), 0) for payload in payloads]
    found = Written(
        tuple(block for segment in segments for block in segment.blocks),
        tuple(sorted({column for segment in segments for column in segment.nulls})),
        MappedFiles(directory),
    )
    found.files.open(found.names)
    return found


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


def take(dataflow: Dataflow, sink: Installed, found: Written, time: int) -> None:
    """Let a new sink have its first rows as of `time`; indexes over it do not have them yet."""
    if found.blocks:
        assert ir.is_stored(sink.node), "it keeps rows"
        relation = dataflow.relation(sink.node, sink.owner)
        blocks = [(block.home, block.rows) for block in found.blocks]
        relation.append_stored(blocks, found.nulls, found.files, time)
