"""What a task of a job does: one stage of it, for one range of keys' slices (see `deal`).

Stage 0 takes a chunk of each changed node through filters, maps and the first half joins; every
exchange is followed by a stage that probes an index with what came for its buckets, and the first
one by windows and top-k of partitions, too; what arrives at a sink is added up and goes to the task
of its bucket. The same operators as inline do the work, over attached state. What goes between
tasks: see `outbox`.

Law: what a task emits is a byte-deterministic function of what it was given. It takes its rows in
the order of (source, sequence), whatever the order of arrival.
"""

from __future__ import annotations

import json
import os
import secrets
import uuid
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from itertools import count
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from operators.executor.spark import applied, blobs
from operators.executor.spark.job import (
    ColumnsRef,
    Job,
    PartitionedRef,
    PartitionsRef,
    Route,
    SinkRef,
    Source,
    SourceRef,
    ThresholdRef,
    read_manifest,
)
from operators.executor.spark.outbox import Outbox, Row
from operators.executor.spark.run import Probe
from operators.executor.spark.sinks import MembersSink, Part, Sink, reads_of, sink_of
from operators.flight import delta as deltas
from operators.flight.column import Column, Ints
from operators.flight.delta import Delta, Pairs
from operators.hydration import pieces_of
from operators.kernels.memory import BLOCK_BITS
from operators.nodes.delta_join import DeltaJoinOperator
from operators.nodes.errors import ErrorState
from operators.nodes.explode import ExplodeOperator
from operators.nodes.half_join import HalfJoinOperator
from operators.nodes.map import MapOperator
from operators.nodes.partitions import lives
from operators.nodes.repeat import RepeatOperator
from operators.nodes.threshold import ThresholdOperator
from operators.nodes.top_k import TopKOperator
from operators.nodes.window import WindowOperator
from operators.state import encode
from operators.state.arrangement import ArrangementState, IndexReader, IndexVersion
from operators.state.files import check_directory
from operators.state.hashing import Hashing
from operators.state.publish import Attachment
from operators.state.relation import PIECE_ROWS, Relation
from operators.state.shared import Shared
from planner import dataflow as ir
from planner.calculus.types import BIGINT

_KEPT_JOBS = 2
#: What takes updates of one input, in any task.
_Linear: TypeAlias = MapOperator | RepeatOperator | ExplodeOperator | ThresholdOperator
#: Prefixes of so many rows are extended at once.
_MOST_ROWS = 1 << 20


def run(
    path: str, stage: int, batches: Iterable[pa.RecordBatch], probe: Probe | None
) -> Iterator[pa.RecordBatch]:
    """Run a stage of the job at `path` on a partition; stage 0 is given its tasks' numbers."""
    attached = attach(path)
    last = stage == attached.job.stages - 1
    work: dict[int, list[Row]] = {}
    for batch in batches:
        if stage == 0:
            work.update((task, []) for task in batch.column(0).to_pylist())
        else:
            columns = [batch.column(i).to_pylist() for i in range(5)]
            for target, *row in zip(*columns, strict=True):
                work.setdefault(target, []).append(Row(*row))
    for task in sorted(work):
        rows = sorted(work.pop(task), key=lambda r: (r.source, r.sequence))
        out = Outbox(attached.job, task, last)
        attached.run(stage, task, rows, out)
        if probe is not None:
            probe(stage, task)
        yield from out.results(path) if last else out.exchange()


def attach(path: str) -> AttachedJob:
    """The job with its state, attached once in a worker process."""
    attached = _jobs.pop(path, None)
    if attached is None:
        directory = os.path.dirname(path)
        check_directory(directory)
        job = read_manifest(path)
        check_directory(job.values)
        attached = AttachedJob(job, path)
    _jobs[path] = attached
    while len(_jobs) > _KEPT_JOBS:
        _jobs.popitem(last=False)
    return attached


_jobs: OrderedDict[str, AttachedJob] = OrderedDict()


class AttachedJob:
    """A job over state attached from a directory. Tasks of one process run one after the other."""

    def __init__(self, job: Job, path: str) -> None:
        self.job = job
        self._path = path
        hashing = Hashing(job.hashing)
        attachment = Attachment(job.values, os.path.dirname(path), Shared(hashing=hashing))
        self._attachment = attachment
        self._relations = [attachment.relation(r) for r in job.relations]
        filters = [attachment.filter(ref, self._relations[r]) for r, ref in job.filters]
        indexes = [attachment.index(ref, self._relations[r]) for r, ref in job.indexes]
        self._joins: list[DeltaJoinOperator] = []
        for ref in job.joins:
            node = job.nodes[ref.node]
            assert isinstance(node, ir.DeltaJoin)
            specs = zip(ir.indexes(node), ref.indexes, strict=True)
            operator = DeltaJoinOperator(
                node,
                [self._relations[r] for r in ref.relations],
                [None if f is None else filters[f] for f in ref.filters],
                {spec: indexes[i] for spec, i in specs if i is not None},
                ref.sources,
            )
            operator.add_reader(ref.wanted)
            self._joins.append(operator)
        self._maps = {n: MapOperator(m) for n, m in enumerate(job.nodes) if isinstance(m, ir.Map)}
        #: Unions need no operator: each takes its inputs' updates as they come.
        self._linear: dict[int, _Linear] = {
            **self._maps,
            **{n: RepeatOperator(r) for n, r in enumerate(job.nodes) if isinstance(r, ir.Repeat)},
            **{n: ExplodeOperator(x) for n, x in enumerate(job.nodes) if isinstance(x, ir.Explode)},
        }
        for each in job.thresholds:
            threshold = job.nodes[each.node]
            assert isinstance(threshold, ir.Threshold)
            rows = IndexReader(threshold.index, self._relations[each.rows])
            if each.index is not None:
                rows = indexes[each.index]
            self._linear[each.node] = ThresholdOperator(threshold, rows, indexes[each.bound])
        self._partitioned = {
            source.node: _partitioned(job.nodes[source.node], indexes[source.index])
            for source in job.sources
            if isinstance(source, PartitionsRef)
        } | {
            each.node: _partitioned(job.nodes[each.node], indexes[each.index])
            for each in job.partitioned
        }
        self._indexes = indexes
        self._sinks = {n: sink_of(job.nodes[n], hashing) for n in job.sinks}
        for applied_to in job.applied:
            sink = self._sinks[applied_to.node]
            if isinstance(sink, MembersSink):
                assert applied_to.members is not None
                sink.members = self._relations[applied_to.members]
                read = reads_of(job.nodes[applied_to.node])
                sink.indexes = {spec: IndexVersion(spec, sink.members, ()) for spec in read}
                if applied_to.reads:
                    found = (indexes[i] for i in applied_to.reads)
                    sink.indexes = dict(zip(read, found, strict=True))
        self._sink_tags = {n: job.first_sink + i for i, n in enumerate(job.sinks)}
        self._error_tag = job.first_sink + len(job.sinks)
        #: Those that take the updates of each node.
        self._routes: dict[int, list[int]] = {}
        for number, route in enumerate(job.routes):
            self._routes.setdefault(route.node, []).append(number)
        self._applied = {ref.node: ref for ref in job.applied}
        #: Rows that the task which runs has taken.
        self._taken_rows = 0
        #: Half joins of each route that follow an exchange.
        self._arrivals = [
            [s for s, exchanged in enumerate(r.exchanged) if exchanged] for r in job.routes
        ]

    def run(self, stage: int, task: int, rows: list[Row], out: Outbox) -> None:
        """Do the work of one task of one stage."""
        for operator in self._maps.values():
            operator.errors = ErrorState()
        parts: dict[int, list[Part]] = {}
        self._taken_rows = 0
        if stage == 0:
            for source in self.job.sources:
                for delta in self._chunks(source, task):
                    self._taken_rows += len(delta)
                    self._push(source.node, delta, out, parts)
                    for number, each in enumerate(self.job.partitioned):
                        if each.source == source.node:
                            self._deal(number, each, delta, out)
            for threshold in self.job.thresholds:
                if threshold.moves is not None:
                    moved = self._moved(threshold, threshold.moves, task)
                    self._push(threshold.node, moved, out, parts)
        else:
            self._receive(stage, task, rows, out, parts)
        for node, some in parts.items():
            part = some[0]
            if len(some) > 1:
                part = self._sinks[node].merge([p.columns for p in some])
            if len(part):
                out.put_part(self._sink_tags[node], part)
        failing = [
            (n, message, times)
            for n, operator in self._maps.items()
            if n not in self.job.counted
            for message, times in operator.errors.counts
        ]
        if failing:
            out.put(task, self._error_tag, json.dumps(failing).encode())
        said = [stage, task, self._taken_rows, out.heavy_rows]
        out.put(task, taken_tag(self.job), json.dumps(said).encode())

    def _receive(
        self, stage: int, task: int, rows: list[Row], out: Outbox, parts: dict[int, list[Part]]
    ) -> None:
        by_tag: dict[int, list[bytes]] = {}
        for row in rows:
            by_tag.setdefault(row.tag, []).append(row.payload)
        combining = self.job.combined and stage == self.job.stages - 1
        for tag in sorted(by_tag):
            payloads = by_tag[tag]
            if tag < len(self.job.routes):
                route = self.job.routes[tag]
                self._resume(tag, route, self._arrivals[tag][stage - 1], payloads, out, parts)
            elif tag < self.job.first_sink:
                self._step(self.job.partitioned[tag - len(self.job.routes)], payloads, out, parts)
            elif tag < self._error_tag and combining:
                node = self.job.sinks[tag - self.job.first_sink]
                sink = self._sinks[node]
                found = [blobs.decode_columns(p, sink.types) for p in payloads]
                self._taken_rows += sum(len(part[0]) for part in found)
                ref = self._applied.get(node)
                if ref is not None and self._applies(ref, sink, found):
                    said = self._apply(ref, sink, found)
                    if said is not None:
                        out.put(task, applied_tag(self.job, tag), said)
                else:
                    parts[node] = [sink.merge(found)]
            else:
                for payload in payloads:
                    out.pass_on(tag, payload)

    def _deal(self, number: int, each: PartitionedRef, delta: Delta, out: Outbox) -> None:
        """Send changes to the tasks of their partitions."""
        index = self._partitioned[each.node].index
        assert isinstance(index.spec, ir.OrderedArrangement)
        words = index.partition_words([delta.column(c) for c in index.spec.partition], len(delta))
        told = np.vstack((delta.bindings[0].rows, delta.time, delta.diff))
        out.put_words(len(self.job.routes) + number, told, words[0], False)

    def _step(
        self,
        each: PartitionedRef,
        payloads: list[bytes],
        out: Outbox,
        parts: dict[int, list[Part]],
    ) -> None:
        """Take all changes of some partitions through the node."""
        operator = self._partitioned[each.node]
        rows, time, diff = blobs.decode_words(payloads, 3)
        self._taken_rows += len(rows)
        changed = operator.step([deltas.bound(operator.index.relation, rows, time, diff)])
        if len(changed):
            self._push(each.node, changed, out, parts)

    def _moved(self, each: ThresholdRef, moves: SourceRef, task: int) -> Delta:
        """What the changes of a threshold's scalars do to this task's rows."""
        operator = self._linear[each.node]
        assert isinstance(operator, ThresholdOperator)
        if each.shared:
            return operator.moved(self._chunk(moves, 0), task, self.job.tasks)
        return operator.moved(self._chunk(moves, task))

    def _resume(
        self,
        tag: int,
        route: Route,
        step: int,
        payloads: list[bytes],
        out: Outbox,
        parts: dict[int, list[Part]],
    ) -> None:
        """Probe with the prefixes of a route that an exchange brought here."""
        join = self._joins[route.join]
        steps = join.paths[route.source][:step]
        bound = [route.source, *(i for h in steps for i in h.node.inputs)]
        half_join = join.paths[route.source][step]
        assert isinstance(half_join, HalfJoinOperator), "no others are exchanged"
        width = len(bound) + 2 + _probe_width(half_join.index, len(half_join.node.probe))
        for some in _in_pieces(payloads, 8 * width):
            words = blobs.decode_words(some, width)
            self._taken_rows += words.shape[1]
            prefix, key = _prefix(join, bound, words), words[len(bound) + 2 :]
            joined = half_join.extend_probed(prefix, key, self.job.snapshot)
            self._follow(tag, route, step + 1, joined, out, parts)

    def _follow(
        self,
        tag: int,
        route: Route,
        step: int,
        prefix: Delta,
        out: Outbox,
        parts: dict[int, list[Part]],
    ) -> None:
        """Take a route's prefix on from `step`, to the next exchange or to the end."""
        join = self._joins[route.join]
        path = join.paths[route.source]
        while step < len(path) and len(prefix):
            half_join = path[step]
            if route.exchanged[step]:
                assert isinstance(half_join, HalfJoinOperator), "no others are exchanged"
                prefix, key = half_join.probe(prefix)
                if len(prefix):
                    bound = [route.source, *(i for h in path[:step] for i in h.node.inputs)]
                    firsts = (join.occurrences[i].first for i in bound)
                    bindings = [prefix.binding_of(first).rows for first in firsts]
                    words = np.vstack([*bindings, prefix.time, prefix.diff, key])
                    out.put_words(tag, words, key[0], True)
                return
            prefix = half_join.extend(prefix, self.job.snapshot)
            step += 1
        if len(prefix):
            self._push(self.job.joins[route.join].node, prefix, out, parts)

    def _applies(self, ref: SinkRef, sink: Sink, found: list[list[Column]]) -> bool:
        """Whether the changes of a sink are applied here, not in the driver."""
        # Of several times, the driver could not append rows between those of tasks.
        few = sum(len(part[0]) for part in found) < self.job.apply_rows
        if few and self.job.time is not None:
            return False
        return ref.relation is None or ref.index is not None or not sink.needs_index(found)

    def _apply(self, ref: SinkRef, sink: Sink, found: list[list[Column]]) -> bytes | None:
        """Apply them, and write what is new into files of names that no other attempt has."""
        from pyspark import TaskContext

        job, context, numbers = self.job, TaskContext.get(), count(secrets.randbits(30))
        attempt = secrets.randbits(60) if context is None else context.taskAttemptId()
        head = os.path.join(job.values, f"rows-{job.token}-{attempt}")
        if ref.relation is None:
            relation = Relation(job.nodes[ref.node].schema, self._attachment.shared)
            index = ArrangementState(sink.index, relation)
        else:
            entries = None if ref.index is None else job.indexes[ref.index][1]
            rows = job.relations[ref.relation]
            relation, index = self._attachment.fork(sink.index, rows, entries)
        return applied.apply(
            sink,
            found,
            relation,
            index,
            ref.index is not None,
            job.apply_rows,
            lambda: f"{head}-{next(numbers)}",
            f"{self._path}-applied-{attempt}-{uuid.uuid4().hex}",
        )

    def _push(self, node: int, delta: Delta, out: Outbox, parts: dict[int, list[Part]]) -> None:
        """Take updates of a node through what consumes them."""
        for consumer, sign in self.job.consumers[node]:
            taken = delta if sign > 0 else delta.negated()
            if consumer in self._sinks:
                some = parts.setdefault(consumer, [])
                some.append(self._sinks[consumer].part(taken))
                self._keep_few(consumer, some)
                continue
            operator = self._linear.get(consumer)
            output = taken if operator is None else operator.step(_given(operator, taken))
            if len(output):
                self._push(consumer, output, out, parts)
        for number in self._routes.get(node, ()):
            route = self.job.routes[number]
            prefix = self._joins[route.join].begin(route.source, delta)
            self._follow(number, route, 0, prefix, out, parts)

    def _keep_few(self, sink: int, parts: list[Part]) -> None:
        """Add up the parts of a sink where the latest are as many rows as the first has."""
        if sum(map(len, parts[1:])) >= max(2 * PIECE_ROWS, len(parts[0])):
            parts[:] = [self._sinks[sink].merge([part.columns for part in parts])]

    def _chunks(self, source: Source, task: int) -> Iterator[Delta]:
        """What of a node's changes, or of its rows, is this task's; nothing that is empty."""
        if isinstance(source, SourceRef):
            delta = self._chunk(source, task)
            if len(delta):
                yield delta
            return
        if isinstance(source, ColumnsRef):
            for place in source.chunks[task]:
                yield self._told(source.node, self._attachment.bytes(place))
            return
        time = self.job.time
        assert time is not None
        if isinstance(source, PartitionsRef):
            rows = self._indexes[source.index].rows_in(*source.starts[task : task + 2])
            operator = self._partitioned[source.node]
            born, died = lives(operator.index.relation, rows)
            rows = rows[(born <= time) & (time < died)]
            if len(rows):
                yield from (d for d in operator.rows_among(rows, time) if len(d))
            return
        first, end = (block << BLOCK_BITS for block in source.starts[task : task + 2])
        yield from pieces_of(self._relations[source.relation], time, first, end)

    def _told(self, node: int, blob: bytes) -> Delta:
        """Changes that came as values."""
        schema = self.job.nodes[node].schema
        types = (*(field.type for field in schema), BIGINT, BIGINT)
        *columns, time, diff = blobs.decode_columns(blob, types)
        return Delta(schema, time.values, diff.values, list(columns))

    def _chunk(self, source: SourceRef, task: int) -> Delta:
        """The part of a node's changes that is this task's."""
        start, end = source.starts[task], source.starts[task + 1]
        rows, time, diff = (
            self._attachment.ints(p.within(8 * start, 8 * end))
            for p in (source.rows, source.time, source.diff)
        )
        n, updated = end - start, source.pairs[task]
        pairs = None
        if updated:
            middle = n - updated
            old, new = np.arange(middle - updated, middle), np.arange(middle, n)
            pairs = Pairs(old, new, may_be_equal=True)
        return deltas.bound(self._relations[source.relation], rows, time, diff, pairs)


def _partitioned(node: ir.Node, index: IndexReader) -> TopKOperator | WindowOperator:
    if isinstance(node, ir.TopK):
        return TopKOperator(node, index)
    assert isinstance(node, ir.Window)
    return WindowOperator(node, index)


def _given(operator: _Linear, taken: Delta) -> list[Delta | None]:
    """What one takes whose input changes so; scalars do not."""
    return [taken, None] if isinstance(operator, ThresholdOperator) else [taken]


def _in_pieces(payloads: list[bytes], row_bytes: int) -> Iterator[list[bytes]]:
    """Payloads with some million rows in all at a time."""
    some: list[bytes] = []
    rows = 0
    for payload in payloads:
        some.append(payload)
        rows += len(payload) // row_bytes
        if rows >= _MOST_ROWS:
            yield some
            some, rows = [], 0
    if some:
        yield some


def applied_tag(job: Job, tag: int) -> int:
    """The tag of what tasks applied for the sink with this one."""
    return tag + len(job.sinks) + 1


def taken_tag(job: Job) -> int:
    """The tag of how many rows tasks have taken."""
    return job.first_sink + 2 * len(job.sinks) + 1


def taken(payloads: Iterable[bytes]) -> tuple[tuple[tuple[int, ...], ...], tuple[int, ...]]:
    """How many rows each task has taken, by stage, of those tasks that something came to; and how
    many of heavy keys each stage has dealt out to all."""
    found: dict[int, list[int]] = {}
    dealt: dict[int, int] = {}
    for stage, _, rows, heavy in sorted(map(json.loads, payloads)):
        found.setdefault(stage, []).append(rows)
        dealt[stage] = dealt.get(stage, 0) + heavy
    return tuple(map(tuple, found.values())), tuple(dealt.values())


def failing(payloads: Iterable[bytes]) -> Iterator[tuple[int, str, int]]:
    """Node, message and count of the failing rows that tasks reported."""
    for payload in payloads:
        yield from map(tuple, json.loads(payload))


def _prefix(join: DeltaJoinOperator, bound: list[int], words: Ints) -> Delta:
    """The prefix that binds the inputs `bound`, in that order, to the first rows of `words`."""
    time, diff = words[len(bound)], words[len(bound) + 1]
    origins: list[deltas.Origin] = [None] * len(join.node.schema)
    prefix = Delta(join.node.schema, time, diff, origins)
    for place, source in enumerate(bound):
        occurrence = join.occurrences[source]
        prefix = prefix.extend(
            occurrence.first, occurrence.width, occurrence.relation, words[place]
        )
    return prefix


def _probe_width(index: IndexReader, columns: int) -> int:
    """Words of a probe by the first `columns` key columns."""
    spec = index.spec
    assert isinstance(spec, ir.Arrangement)
    fields = [spec.relation.schema[c] for c in spec.columns[:columns]]
    nulls = [spec.null_safe and f.nullable for f in fields]
    return max(1, encode.key_width([f.type for f in fields], nulls))
