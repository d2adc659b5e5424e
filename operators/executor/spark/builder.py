"""Makes the job of one layer of a step, and publishes what its tasks read (see `job`).

What a job has is decided here: how many tasks and exchanges, which half joins are exchanged, what
each task starts from, and which sinks tasks apply.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sized
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from operators.dataflow import Dataflow, Key, node_key
from operators.executor.spark import blobs, deal
from operators.executor.spark.cut import SinkCut, edges
from operators.executor.spark.job import (
    ColumnsRef,
    Job,
    JoinRef,
    PartitionedRef,
    Route,
    SinkRef,
    SnapshotRef,
    Source,
    SourceRef,
    ThresholdRef,
)
from operators.executor.spark.sinks import members_of, reads_of
from operators.flight.column import Column, Ints
from operators.flight.delta import Delta
from operators.kernels.memory import BLOCK_BITS, BLOCK_MASK
from operators.nodes.delta_join import DeltaJoinOperator
from operators.nodes.half_join import HalfJoinOperator
from operators.nodes.map import MapOperator
from operators.nodes.recompute import RecomputeOperator
from operators.nodes.reduce import ReduceOperator
from operators.nodes.store import StoreOperator
from operators.nodes.threshold import ThresholdOperator
from operators.nodes.top_k import TopKOperator
from operators.nodes.window import WindowOperator
from operators.state.arrangement import ArrangementState, IndexReader
from operators.state.filters import Filter, FilterReader
from operators.state.publish import Publication
from operators.state.relation import Relation
from operators.state.rows import Rows
from planner import dataflow as ir
from planner.calculus.expr import Column as ColumnRef
from planner.calculus.expr import columns_used
from planner.calculus.types import BIGINT
from planner.lower.distribution import is_of_partitions, only_adds, reads_members


@dataclass(frozen=True, slots=True)
class Limits:
    """What decides the shape of a job.

    tasks: at most so many per stage; more than 64 have parts of buckets. task_rows: changed rows
    that are worth a task. small_index_rows: indexes up to this size are probed where probes are.
    combine_rows: from so many changed rows on the changes of sinks are added up by one more stage.
    apply_rows: from so many of them in one task on it applies them, too.
    """

    tasks: int
    task_rows: int
    small_index_rows: int
    combine_rows: int
    apply_rows: int


class JobBuilder:
    """Makes the job of one layer and publishes what it reads; tasks write files of `token`."""

    #: Whether it is of first rows.
    snapshot = False

    def __init__(
        self,
        dataflow: Dataflow,
        changes: Mapping[Key, Sized],
        cuts: Iterable[SinkCut],
        counted: frozenset[Key],
        limits: Limits,
        publication: Publication,
        token: str,
    ) -> None:
        self._dataflow = dataflow
        self._token = token
        self._changes = changes
        self._limits = limits
        self._publication = publication
        self._counted = counted
        self._cuts = tuple(cuts)
        self._relations: dict[int, tuple[int, Relation]] = {}
        self._relation_columns: list[set[int]] = []
        self._relation_blocks: list[set[int] | None] = []
        self._filters: dict[int, tuple[int, Filter]] = {}
        self._indexes: dict[int, tuple[int, ArrangementState]] = {}
        #: Nodes of the job: changed leaves, then region nodes and sinks above them.
        self.keys: dict[Key, int] = {}
        for cut in self._cuts:
            for leaf in cut.leaves:
                if leaf in changes:
                    self.keys.setdefault(leaf, len(self.keys))
        for cut in self._cuts:
            for key in (*cut.region, (cut.sink.owner, cut.sink.node)):
                if any(node_key(i, key[0]) in self.keys for i in ir.inputs(key[1])):
                    self.keys.setdefault(key, len(self.keys))
        self._leaves = [k for k in self.keys if k in changes]
        self.rows = sum(len(changes[k]) for k in self._leaves)
        self._time = self._one_time()

    def build(self) -> Job:
        """The job, its state added to the publication, in whose block this is called."""
        limits = self._limits
        tasks = max(1, min(limits.tasks, -(-self.rows // max(limits.task_rows, 1))))
        tasks = deal.tasks_for(tasks, self.rows)
        consumers: list[list[tuple[int, int]]] = [[] for _ in self.keys]
        for key, number in self.keys.items():
            takes = not isinstance(key[1], ir.DeltaJoin) and not is_of_partitions(key[1])
            if number >= len(self._leaves) and takes:
                for i, sign in edges(key[1]):
                    source = self.keys.get(node_key(i, key[0]))
                    if source is not None:
                        consumers[source].append((number, sign))
        needed = self._needed()
        joins: list[JoinRef] = []
        routes: list[Route] = []
        for key in self.keys:
            if isinstance(key[1], ir.DeltaJoin):
                found = self._routes(key, len(joins), tasks)
                joins.append(self._join(key, found, needed[key]))
                routes += found
        sources = [self._source(k, needed[k], tasks) for k in self._leaves]
        above = list(self.keys)[len(self._leaves) :]
        thresholds = [self._threshold(k, tasks) for k in above if isinstance(k[1], ir.Threshold)]
        partitioned = [self._partitioned(k) for k in above if is_of_partitions(k[1])]
        assert tasks > 1 or not partitioned, "of few changes the driver runs them"
        exchanges = max((sum(r.exchanged) for r in routes), default=0)
        exchanges = max(exchanges, int(bool(partitioned)))
        publication, combined = self._publication, self._combines(tasks)
        applied = self._applied() if combined else ()
        return Job(
            nodes=tuple(map(self._node, self.keys)),
            consumers=tuple(map(tuple, consumers)),
            sinks=tuple(self.keys[c.sink.owner, c.sink.node] for c in self.active),
            counted=frozenset(self.keys[k] for k in self.keys if k in self._counted),
            sources=tuple(sources),
            partitioned=tuple(partitioned),
            thresholds=tuple(thresholds),
            joins=tuple(joins),
            routes=tuple(routes),
            relations=tuple(
                publication.relation(r, columns, blocks if blocks is None else sorted(blocks))
                for (_, r), columns, blocks in zip(
                    self._relations.values(),
                    self._relation_columns,
                    self._relation_blocks,
                    strict=True,
                )
            ),
            filters=tuple(
                (self._relation(f.relation), publication.filter(f))
                for _, f in self._filters.values()
            ),
            indexes=tuple(
                (self._relation(i.relation), publication.index(i))
                for _, i in self._indexes.values()
            ),
            tasks=tasks,
            exchanges=exchanges,
            combined=combined,
            values=publication.values,
            hashing=self._dataflow.hashing.numbers,
            time=self._time,
            snapshot=self.snapshot,
            applied=applied,
            apply_rows=limits.apply_rows,
            token=self._token,
        )

    @property
    def active(self) -> tuple[SinkCut, ...]:
        """The sinks that something changes under."""
        return tuple(c for c in self._cuts if (c.sink.owner, c.sink.node) in self.keys)

    def _node(self, key: Key) -> ir.Node:
        """What tasks run for a node."""
        return key[1]

    def _one_time(self) -> int | None:
        """The time of all changes, if it is one."""
        found: list[Delta] = []
        for key in self._leaves:
            delta = self._changes[key]
            assert isinstance(delta, Delta), "of a step"
            found.append(delta)
        return time_of(found)

    def _combines(self, tasks: int) -> bool:
        """Whether one more stage adds up the changes of sinks."""
        return tasks > 1 and self.rows >= self._limits.combine_rows

    def _applied(self) -> tuple[SinkRef, ...]:
        """The sinks whose changes tasks may apply. Who has no keys has one row, and is the
        driver's."""
        found: list[SinkRef] = []
        for cut in self.active:
            operator = cut.sink.operator
            assert isinstance(operator, ReduceOperator | StoreOperator | RecomputeOperator)
            if is_applied(cut.sink.node) and self._is_tasks(cut):
                relation, number, index = operator.relation, None, None
                if relation.next_row:
                    if not isinstance(operator, StoreOperator) or operator.retracts:
                        index = self._index(operator.index)
                    number = self._relation(relation, range(len(relation.schema)))
                    self._relation_blocks[number] = None
                node, members, reads = cut.sink.node, None, tuple[int, ...]()
                if reads_members(node):
                    assert not isinstance(operator, StoreOperator)
                    members = self._members(members_of(operator))
                    reads = tuple(self._index(operator.reads[spec]) for spec in reads_of(node))
                found.append(SinkRef(self.keys[cut.sink.key], number, index, members, reads))
        return tuple(found)

    def _is_tasks(self, cut: SinkCut) -> bool:
        """Whether tasks may apply all that comes to a sink: of several times they have to. A bag is
        indexed by the driver when its first rows go."""
        operator = cut.sink.operator
        if self._time is not None or not isinstance(operator, StoreOperator) or operator.retracts:
            return True
        changes = (self._changes[leaf] for leaf in cut.leaves if leaf in self._changes)
        return operator.relation.next_row == 0 or (
            all(only_adds(node) for _, node in cut.region)
            and all(isinstance(d, Delta) and bool((d.diff > 0).all()) for d in changes)
        )

    def _members(self, rows: Rows) -> int:
        """A relation whose rows are looked up by tasks that are told ids."""
        number = self._relation(rows, range(len(rows.schema)))
        self._relation_blocks[number] = None
        return number

    def _needed(self) -> dict[Key, set[int]]:
        """For each node of the job the columns that its consumers read."""
        needed: dict[Key, set[int]] = {k: set() for k in self.keys}
        for key in reversed(self.keys):
            owner, node = key
            match node:
                case ir.Reduce() if key not in self._changes:
                    args = (a.arg for a in node.accumulators if a.arg is not None)
                    own = {e.index for e in (*node.keys, *args) if isinstance(e, ColumnRef)}
                case ir.Store() if key not in self._changes:
                    own = set(range(len(node.schema)))
                case ir.Recompute() if key not in self._changes:
                    own = {*node.index.columns, *(c for v in node.values for c in v.args)}
                case ir.Threshold() if key not in self._changes:
                    columns = (*node.index.partition, node.index.order[0].column)
                    own = {*needed[key], *columns}
                case ir.Map():
                    operator = self._dataflow.at(key).operator
                    assert isinstance(operator, MapOperator)
                    own = set(operator.used)
                case ir.Union():
                    own = needed[key]
                case ir.Repeat():
                    own = {*needed[key], node.count}
                case ir.Explode():
                    width = len(node.input.schema)
                    own = {*(c for c in needed[key] if c < width), node.array}
                case _:
                    continue
            for i, _ in edges(node):
                if node_key(i, owner) in needed:
                    needed[node_key(i, owner)] |= own
        return needed

    def _routes(self, key: Key, join: int, tasks: int) -> list[Route]:
        owner, node = key
        operator = self._join_operator(key)
        assert isinstance(node, ir.DeltaJoin)
        routes: list[Route] = []
        followed = {path.source for path in node.paths}  # beside events, those alone
        for source, i in enumerate(node.inputs):
            leaf = node_key(i.relation, owner)
            if source in followed and leaf in self.keys and self._follows(key, source):
                exchanged = tuple(
                    tasks > 1
                    and not ir.gives_events(i.relation)  # which have no row ids to send
                    and isinstance(h, HalfJoinOperator)  # others are not of one bucket
                    and h.index.spine.entries > self._limits.small_index_rows
                    for h in operator.paths[source]
                )
                routes.append(Route(join, source, self.keys[leaf], exchanged))
        return routes

    def _follows(self, join: Key, source: int) -> bool:
        """Whether the rows of an input are followed through a join."""
        return True

    def _join(self, key: Key, routes: list[Route], needed: set[int]) -> JoinRef:
        node, operator = key[1], self._join_operator(key)
        assert isinstance(node, ir.DeltaJoin)
        lookups = [h for r in routes for step in operator.paths[r.source] for h in step.lookups]
        read = {h.node.index for h in lookups}
        looked_up = {h.node.input for h in lookups}
        columns = set(needed)
        #: Of each input the columns of keys that a lookup compares.
        compared: dict[int, set[int]] = {}
        for h in lookups:
            own = {h.index.columns[k] for k, _ in h.index.hashed}
            compared.setdefault(h.node.input, set()).update(own)
            columns.update(h.node.reads)
            columns.update(columns_used(*h.node.residual))
        for r in routes:
            first = operator.occurrences[r.source].first
            columns.update(first + c for c in operator.reads(r.source))
        relations: list[int] = []
        filters: list[int | None] = []
        for i, (occurrence, source) in enumerate(
            zip(operator.occurrences, node.inputs, strict=True)
        ):
            width = len(source.schema)
            own = {c - occurrence.first for c in columns} & set(range(width))
            own.update(compared.get(i, ()))
            number = self._relation(occurrence.relation, own)
            if i in looked_up:
                self._relation_blocks[number] = None
            relations.append(number)
            if occurrence.filter is None:
                filters.append(None)
            else:
                filters.append(self._filter(occurrence.filter))
        found = (h for path in operator.paths for step in path for h in step.lookups)
        states = {h.node.index: h.index for h in found}
        indexes = [self._index(states[spec]) if spec in read else None for spec in ir.indexes(node)]
        return JoinRef(
            self.keys[key],
            tuple(r.source for r in routes),
            tuple(relations),
            tuple(filters),
            tuple(indexes),
            operator.wanted,
        )

    def _threshold(self, key: Key, tasks: int) -> ThresholdRef:
        operator, node = self._dataflow.at(key).operator, key[1]
        assert isinstance(operator, ThresholdOperator) and isinstance(node, ir.Threshold)
        bound = self._index(operator.bound)
        scalars = self._relation(operator.bound.relation, (*node.bound.columns, node.scalar))
        self._relation_blocks[scalars] = None
        rows, index = self._relation(operator.index.relation), None
        shared = not node.index.partition
        moves = self._moves(key, 1 if shared else tasks)
        if moves is not None:
            index = self._index(operator.index)
            self._relation(operator.index.relation, range(len(node.schema)))
            self._relation_blocks[rows] = None
        return ThresholdRef(self.keys[key], rows, bound, index, moves, shared)

    def _moves(self, threshold: Key, chunks: int) -> SourceRef | None:
        """The changes of a threshold's scalars; those of first rows stand still."""
        owner, node = threshold
        assert isinstance(node, ir.Threshold)
        scalars = node_key(node.bound.relation, owner)
        delta = self._changes.get(scalars)
        if delta is None or self.snapshot:
            return None
        assert isinstance(delta, Delta), "of a step"
        return self._dealt(scalars, delta, chunks)

    def _partitioned(self, key: Key) -> PartitionedRef:
        operator = self._dataflow.at(key).operator
        assert isinstance(operator, TopKOperator | WindowOperator)
        read = operator.index.relation
        self._relation_blocks[self._relation(read, range(len(read.schema)))] = None
        source = self.keys[node_key(operator.node.index.relation, key[0])]
        return PartitionedRef(self.keys[key], source, self._index(operator.index))

    def _source(self, key: Key, needed: set[int], tasks: int) -> Source:
        delta = self._changes[key]
        assert isinstance(delta, Delta), "of a step"
        if not has_rows(key[1]):
            return self._values(key, delta, tasks)
        binding = delta.bindings[0]
        number = self._relation(binding.relation, needed)
        blocks = self._relation_blocks[number]
        loaded = None if self._time is None else loaded_blocks(delta)
        if loaded is not None and len(loaded) >= tasks:
            if blocks is not None:
                blocks.update(loaded)
            relation = binding.relation
            assert isinstance(relation, Relation), "the driver's own"
            starts = deal.even_starts(relation, loaded, tasks)
            return SnapshotRef(self.keys[key], number, starts)
        if blocks is not None:
            blocks.update(np.unique(binding.rows >> BLOCK_BITS).tolist())
        return self._dealt(key, delta, tasks)

    def _dealt(self, key: Key, delta: Delta, count: int) -> SourceRef:
        binding = delta.bindings[0]
        order, starts, pairs = chunks(delta, count)
        array = self._publication.array
        return SourceRef(
            self.keys[key],
            self._relation(binding.relation),
            array(binding.rows[order]),
            array(delta.time[order]),
            array(delta.diff[order]),
            starts,
            pairs,
        )

    def _values(self, key: Key, delta: Delta, count: int) -> ColumnsRef:
        order, starts, _ = chunks(delta, count)
        told = (*delta.columns(), Column(BIGINT, delta.time), Column(BIGINT, delta.diff))
        columns = [c.take(order) for c in told]
        array = self._publication.array
        dealt = (
            blobs.encode_columns([c.take(np.arange(*ends)) for c in columns])
            for ends in pairwise(starts)
        )
        return ColumnsRef(
            self.keys[key],
            tuple(tuple(array(np.frombuffer(b, np.uint8)) for b in some) for some in dealt),
        )

    def _relation(self, relation: Rows, columns: Iterable[int] = ()) -> int:
        assert isinstance(relation, Relation), "the driver's own"
        number, _ = self._relations.setdefault(id(relation), (len(self._relations), relation))
        if number == len(self._relation_columns):
            self._relation_columns.append(set())
            self._relation_blocks.append(set())
        self._relation_columns[number].update(columns)
        return number

    def _filter(self, state: FilterReader) -> int:
        assert isinstance(state, Filter), "the driver's own"
        return self._filters.setdefault(id(state), (len(self._filters), state))[0]

    def _index(self, state: IndexReader) -> int:
        assert isinstance(state, ArrangementState), "the driver's own"
        return self._indexes.setdefault(id(state), (len(self._indexes), state))[0]

    def _join_operator(self, key: Key) -> DeltaJoinOperator:
        operator = self._dataflow.at(key).operator
        assert isinstance(operator, DeltaJoinOperator)
        return operator


def has_rows(node: ir.Node) -> bool:
    """Whether a node's changes are of rows that a relation has, all of one."""
    return ir.is_stored(node) or isinstance(node, ir.TopK | ir.Threshold)


def time_of(changes: Iterable[Delta]) -> int | None:
    """The time of all updates, if it is one."""
    times = set[int]()
    for delta in changes:
        if not delta.one_time:
            return None
        times.update(delta.time[:1].tolist())
    return times.pop() if len(times) == 1 else None


def is_applied(node: ir.Node) -> bool:
    """Whether tasks can apply the changes of a sink."""
    if isinstance(node, ir.Reduce):
        return bool(node.keys)
    return isinstance(node, ir.Store | ir.Recompute)


def loaded_blocks(delta: Delta) -> range | None:
    """The last blocks of a relation, if the delta is the births of all their rows at one time; else
    None. Cost: O(blocks), and a look at each row id."""
    relation, rows = delta.bindings[0].relation, delta.bindings[0].rows
    if not (len(rows) and delta.one_time and delta.one_diff and delta.diff[0] == 1):
        return None
    first = int(rows[0])
    blocks = range(first >> BLOCK_BITS, (relation.next_row + BLOCK_MASK) >> BLOCK_BITS)
    if first & BLOCK_MASK or sum(map(relation.stored_rows, blocks)) != len(rows):
        return None
    return blocks if int(rows.min()) == first else None


def chunks(delta: Delta, count: int) -> tuple[Ints, tuple[int, ...], tuple[int, ...]]:
    """Deal the updates out to `count` chunks, both versions of an updated row to the same one.

    Returns: the order of the updates, and starts and pairs as SourceRef has them.
    """
    none = np.empty(0, np.int64)
    old, new = (none, none) if delta.pairs is None else (delta.pairs.old, delta.pairs.new)
    single = np.ones(len(delta), np.bool_)
    single[old] = False
    single[new] = False
    alone = np.flatnonzero(single)
    order: list[Ints] = []
    starts, pairs = [0], []
    for c in range(count):
        some = alone[len(alone) * c // count : len(alone) * (c + 1) // count]
        low, high = len(old) * c // count, len(old) * (c + 1) // count
        order += [some, old[low:high], new[low:high]]
        pairs.append(high - low)
        starts.append(starts[-1] + len(some) + 2 * (high - low))
    return np.concatenate(order), tuple(starts), tuple(pairs)
