"""The Spark executor: a step as a few Spark jobs over published state.

The driver keeps the state. For each layer of the dataflow (see `cut`) it publishes what the layer
reads, runs one job whose tasks read that, and lets the layer's sinks have what comes back, in the
order of the dataflow: changes that it applies, or files with what tasks have applied (see
`applied`). Jobs change nothing: one that fails for good is done again by the driver itself, from
the same state, and the step goes on inline.

Source: DESIGN §7.
"""

from __future__ import annotations

import logging
import math
import mmap
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import pyarrow as pa
from pyspark.sql import SparkSession

from operators.checkpoint import stored_dead, stored_values
from operators.dataflow import Dataflow, Installed, Key, node_key
from operators.executor.spark import applied, bitmaps, blobs, hydration, indexes, outbox, task
from operators.executor.spark.applied import Applied
from operators.executor.spark.builder import JobBuilder, Limits
from operators.executor.spark.costs import cores_of
from operators.executor.spark.cut import SinkCut, cut_of, layers
from operators.executor.spark.job import JOB_FORMAT, Job
from operators.executor.spark.run import Frames, Probe, Run, running
from operators.executor.spark.sinks import SinkOperator, sink_of
from operators.executor.watch import Watch
from operators.flight.delta import Delta
from operators.nodes.map import MapOperator
from operators.nodes.recompute import RecomputeOperator
from operators.nodes.reduce import ReduceOperator
from operators.nodes.store import StoreOperator
from operators.state.arrangement import ArrangementState
from operators.state.bulk import Built
from operators.state.files import absolute, mapped
from operators.state.filters import Filter
from operators.state.publish import Publisher
from operators.state.relation import Relation
from operators.state.unique import Matched
from operators.state.values import ValueFiles
from planner import dataflow as ir
from planner.lower.distribution import flows, is_of_partitions, is_stateless, reads_members

_log = logging.getLogger("sqlview.executor")

Found = TypeVar("Found")

DEFAULT_TASKS = 4
#: Fewer changed rows than this per task cost more to start than to process.
TASK_ROWS = 16_384
#: A task that probes an index of this size as it is reads at most 16 MB more than its share.
SMALL_INDEX_ROWS = 1 << 20
#: One more stage costs what the driver needs to add up about so many rows.
COMBINE_ROWS = 1 << 18
#: So many changed groups or rows of a task become blocks of their own.
APPLY_ROWS = 1 << 14


@dataclass(slots=True)
class JobMetrics:
    """One job: changed rows it started from, tasks per stage, rows that each task of each stage
    took, rows of heavy keys that each stage dealt out to all tasks, bytes published and returned.
    """

    rows: int
    tasks: int
    stages: int
    routes: int
    published_bytes: int
    result_bytes: int
    publish_seconds: float
    run_seconds: float
    apply_seconds: float
    taken_rows: tuple[tuple[int, ...], ...]
    heavy_rows: tuple[int, ...]


class SparkExecutor:
    """Runs steps on Spark.

    `directory`: for files of jobs; all executors of the cluster must see it under this path, as
    that of `values`, a store's (None: what is published lies in `directory`, too).
    `tasks`: per stage; None: twice the cores that Spark has, DEFAULT_TASKS at least.
    `driver_rows`: of a step's layers, those behind the first job with fewer changed rows than this
    run in the driver (0: none does).
    `watch`: of who looks on. `probe`: called in every task, for tests.
    """

    name = "spark"

    def __init__(
        self,
        spark: SparkSession,
        directory: str,
        tasks: int | None = None,
        *,
        values: ValueFiles | None = None,
        task_rows: int = TASK_ROWS,
        small_index_rows: int = SMALL_INDEX_ROWS,
        combine_rows: int = COMBINE_ROWS,
        apply_rows: int = APPLY_ROWS,
        driver_rows: int = 0,
        watch: Watch | None = None,
        probe: Probe | None = None,
    ) -> None:
        self._spark = spark
        self._publisher = Publisher(absolute(directory), values)
        self._limits = Limits(
            default_tasks(spark) if tasks is None else tasks,
            task_rows,
            small_index_rows,
            combine_rows,
            apply_rows,
        )
        self._driver_rows = driver_rows
        self._watch = Watch() if watch is None else watch
        self._frames = Frames(spark, probe)
        #: Jobs that failed for good; the driver did their work.
        self.failures = 0
        #: Exchanges of jobs, those of indexes too, that dealt rows of a heavy key out to all tasks.
        self.heavy_exchanges = 0
        #: The jobs of the last step.
        self.jobs: list[JobMetrics] = []

    def step(self, dataflow: Dataflow, changes: dict[Key, Delta]) -> None:
        """Run the installed nodes; `changes` gains the deltas of those that keep rows."""
        self.jobs = []
        counted: set[Key] = set()
        done: set[Key] = set()
        inline = False
        for layer in layers(dataflow.reached(changes)):
            for installed in layer.local:
                dataflow.run(installed, changes)
            run_inline(layer.loops, dataflow, changes, counted)
            if not inline:
                sinks = self._few_in_driver(layer.sinks, dataflow, changes, done)
                here = self._sent(sinks, changes)
                if not self._is_small(here, changes):
                    if self._run(here, dataflow, changes, counted):
                        run_inline(_without(sinks, here), dataflow, changes, counted)
                        continue
                    inline = True
            run_inline(layer.sinks, dataflow, changes, counted)
        self._publisher.collect(stored_values(dataflow), stored_dead(dataflow))

    def build_index(
        self, dataflow: Dataflow, index: ArrangementState, first: int, unique: bool
    ) -> Built | None:
        """What an index of a store is to have of the rows from `first` on, made by tasks, see
        `operators.state.shared.Build`; None if Spark gives the job up, which is then the driver's.
        """
        tasks = self._limits.tasks
        return self._tried(
            dataflow,
            lambda run: indexes.build(run, tasks, index, first, unique),
            "the driver builds the index",
        )

    def match(
        self, dataflow: Dataflow, index: ArrangementState, changed: Relation, first: int
    ) -> Matched | None:
        """The rows of a table that others have the keys of, found by tasks, see
        `operators.state.shared.Match`; None if Spark gives the job up."""
        tasks = self._limits.tasks
        return self._tried(
            dataflow,
            lambda run: indexes.match(run, tasks, index, changed, first),
            "the driver looks the keys up",
        )

    def evaluate(self, dataflow: Dataflow, filters: Sequence[Filter]) -> bool:
        """Let filters over one relation of a store have the bits of all rows, which tasks evaluate.
        False, with nothing changed: for who is about to publish a job, or if Spark gives this one
        up."""
        if self._publisher.values.is_writing:
            return False

        def evaluated(run: Run) -> bool:
            bitmaps.evaluate(run, self._limits.tasks, filters)
            return True

        return bool(self._tried(dataflow, evaluated, "the driver evaluates filters"))

    def hydrate(
        self,
        dataflow: Dataflow,
        sink: Installed,
        time: int,
        new: Mapping[ir.Node, Delta | None],
        least: int,
    ) -> int | None:
        """Compute the first rows of a new sink by tasks, which write them into the files of the
        store, if there are `least` rows at least under it. `new`: see hydration.plan. A join that
        several sinks read is left to these.

        Returns: how many rows were read; None if they are to be computed by the driver: the tasks
        cannot, or Spark gives the job up. Raises: KeyboardInterrupt, with no file left.
        """
        if hydration.is_left_to_readers(sink, least):
            return 0
        planned = hydration.plan(dataflow, sink, new, time, least)
        if planned is None or planned.rows < least:
            return None

        def computed(run: Run) -> _Outcome:
            with run.publication() as publication:
                builder = hydration.HydrationBuilder(
                    dataflow, planned, time, self._limits, publication, run.token
                )
                job = builder.build()
            return self._outcome(run, job, builder)

        outcome = self._tried(dataflow, computed, "the driver computes the view")
        if outcome is None:
            return None
        if outcome.job.applied:
            outcome.apply(dataflow, {})
        else:
            hydration.add_up(sink, outcome.of_sink(0), dataflow.hashing, time)
            outcome.count_failing(dataflow)
        return planned.rows

    def close(self) -> None:
        """Delete what was published. The Spark session stays."""
        self._publisher.close()

    def _few_in_driver(
        self,
        sinks: tuple[SinkCut, ...],
        dataflow: Dataflow,
        changes: dict[Key, Delta],
        done: set[Key],
    ) -> tuple[SinkCut, ...]:
        """The sinks, over what the driver runs for them: windows and top-k of partitions that few
        changes come to, which are `done` then."""
        least = self._least
        for cut in sinks:
            for key in cut.region:
                if is_of_partitions(key[1]) and key not in done:
                    delta = changes.get(node_key(key[1].index.relation, key[0]))
                    if delta is not None and len(delta) < least:
                        dataflow.run(dataflow.at(key), changes)
                        done.add(key)

        def over(cut: SinkCut) -> SinkCut:
            def below(node: ir.Node) -> bool:
                return flows(node) and node_key(node, cut.sink.owner) not in done

            return cut_of(cut.sink, below)

        return tuple(over(cut) if done.intersection(cut.region) else cut for cut in sinks)

    @property
    def _least(self) -> float:
        """So many changes are worth an exchange by partitions or groups."""
        limits = self._limits
        return math.inf if limits.tasks < 2 else max(limits.combine_rows, limits.task_rows + 1)

    def _sent(self, sinks: tuple[SinkCut, ...], changes: dict[Key, Delta]) -> tuple[SinkCut, ...]:
        """The sinks whose changes tasks take: of groups that look their rows up many, which the
        task of the bucket applies."""
        least = self._least

        def is_sent(cut: SinkCut) -> bool:
            rows = sum(len(changes[leaf]) for leaf in cut.leaves if leaf in changes)
            return rows >= least or not reads_members(cut.sink.node)

        return tuple(filter(is_sent, sinks))

    def _is_small(self, sinks: tuple[SinkCut, ...], changes: dict[Key, Delta]) -> bool:
        leaves = {leaf for cut in sinks for leaf in cut.leaves}
        rows = sum(len(changes[leaf]) for leaf in leaves if leaf in changes)
        return rows == 0 or (bool(self.jobs) and rows < self._driver_rows)

    def _run(
        self,
        sinks: tuple[SinkCut, ...],
        dataflow: Dataflow,
        changes: dict[Key, Delta],
        counted: set[Key],
    ) -> bool:
        """One job, and its outcome applied; False, with nothing applied, if Spark gives it up."""
        publisher = self._publisher
        started, written = time.perf_counter(), publisher.written_bytes

        def ran(run: Run) -> tuple[_Outcome, float]:
            with run.publication() as publication:
                builder = JobBuilder(
                    dataflow,
                    changes,
                    sinks,
                    frozenset(counted),
                    self._limits,
                    publication,
                    run.token,
                )
                job = builder.build()
            published = time.perf_counter()
            return self._outcome(run, job, builder), published

        both = self._tried(dataflow, ran, "the step goes on in the driver")
        if both is None:
            return False
        (outcome, published), over = both, time.perf_counter()
        outcome.apply(dataflow, changes)
        counted.update(maps_of(outcome.builder.active))
        job = outcome.job
        self.jobs.append(
            JobMetrics(
                rows=outcome.builder.rows,
                tasks=job.tasks,
                stages=job.stages,
                routes=len(job.routes),
                published_bytes=publisher.written_bytes - written,
                result_bytes=sum(len(p) for some in outcome.rows.values() for p in some),
                publish_seconds=published - started,
                run_seconds=over - published,
                apply_seconds=time.perf_counter() - over,
                taken_rows=outcome.taken,
                heavy_rows=outcome.heavy_rows,
            )
        )
        return True

    def _outcome(self, run: Run, job: Job, builder: JobBuilder) -> _Outcome:
        """What the tasks of a job tell, whose state is published."""
        run.write(JOB_FORMAT, job)
        schemas = [outbox.EXCHANGE_SCHEMA] * (job.stages - 1) + [outbox.RESULT_SCHEMA]
        collected = run.collect(task.__name__, job.tasks, schemas, builder.rows)
        directory = self._publisher.directory
        rows = _results(collected, directory)
        done: dict[int, list[Applied]] = {}
        for number, cut in enumerate(builder.active):
            payloads = rows.get(task.applied_tag(job, job.first_sink + number), [])
            if payloads:
                operator = _operator_of(cut)
                done[number] = list(applied.told(payloads, run.directory, directory, operator))
        if done:
            run.keep(name for some in done.values() for each in some for name in each.names)
        taken, heavy_rows = task.taken(rows.get(task.taken_tag(job), []))
        run.heavy_exchanges += sum(dealt > 0 for dealt in heavy_rows)
        return _Outcome(job, builder, rows, done, taken, heavy_rows)

    def _tried(
        self, dataflow: Dataflow, work: Callable[[Run], Found], instead: str
    ) -> Found | None:
        """What comes of the run of a job, of which nothing is left if it raises; None if Spark
        gives it up. `instead`: what happens then."""
        try:
            with running(self._spark, self._publisher, dataflow, self._watch, self._frames) as run:
                found = work(run)
                self.heavy_exchanges += run.heavy_exchanges
                return found
        except Exception as error:
            self.failures += 1
            self._publisher.distrust()
            _log.warning("a Spark job failed; %s", instead, exc_info=error)
            return None


def _operator_of(cut: SinkCut) -> SinkOperator:
    operator = cut.sink.operator
    assert isinstance(operator, ReduceOperator | StoreOperator | RecomputeOperator)
    return operator


@dataclass(frozen=True, slots=True)
class _Outcome:
    """What the tasks of a job told: payloads by tag, and what they `applied`, by the number of the
    sink among the active. `taken` rows, of each task of each stage, and of heavy keys."""

    job: Job
    builder: JobBuilder
    rows: dict[int, list[bytes]]
    applied: dict[int, list[Applied]]
    taken: tuple[tuple[int, ...], ...]
    heavy_rows: tuple[int, ...]

    def of_sink(self, number: int) -> list[bytes]:
        """Payloads for the sink of this number among the active."""
        return self.rows.get(self.job.first_sink + number, [])

    def apply(self, dataflow: Dataflow, changes: dict[Key, Delta]) -> None:
        """Let the sinks have their changes, and `changes` what they emit."""
        for number, cut in enumerate(self.builder.active):
            operator, payloads = _operator_of(cut), self.of_sink(number)
            changed: list[Delta] = []
            if number in self.applied:
                changed.append(applied.take(operator, self.applied[number]))
            if payloads:
                several = number in self.applied and self.job.time is None
                assert not several, "row ids ascend with time"
                sink = sink_of(cut.sink.node, dataflow.hashing)
                parts = [blobs.decode_columns(p, sink.types) for p in payloads]
                changed.append(sink.apply(operator, parts))
            changed = [delta for delta in changed if len(delta)]
            if changed:
                output = applied.together(operator.relation, changed)
                dataflow.enter(cut.sink.key, output, changes)
        self.count_failing(dataflow)

    def count_failing(self, dataflow: Dataflow) -> None:
        """Count the rows that fail in maps."""
        keys = list(self.builder.keys)
        for node, message, count in task.failing(self.of_sink(len(self.job.sinks))):
            operator = dataflow.operator(keys[node][1], keys[node][0])
            assert isinstance(operator, MapOperator)
            operator.errors.count(message, count)


def run_inline(
    sinks: tuple[SinkCut, ...], dataflow: Dataflow, changes: dict[Key, Delta], counted: set[Key]
) -> None:
    """Run sinks of a layer in the driver, on an operator of its own where a map has counted its
    failing rows in an earlier layer."""
    known = dict(changes)
    for key in _region(sinks):
        if key not in known:
            node = dataflow.at(key)
            if key in counted:
                assert isinstance(node.operator, MapOperator)
                node = Installed(
                    node.node, node.owner, MapOperator(node.operator.node), node.number
                )
            dataflow.run(node, known)
            if key in known and not is_stateless(key[1]):
                changes[key] = known[key]  # which another layer may read, too
    for cut in sinks:
        dataflow.run(cut.sink, known)
    counted.update(maps_of(sinks))
    for cut in sinks:
        key = (cut.sink.owner, cut.sink.node)
        if key in known:
            changes[key] = known[key]


def _without(sinks: tuple[SinkCut, ...], others: tuple[SinkCut, ...]) -> tuple[SinkCut, ...]:
    return tuple(cut for cut in sinks if cut not in others)


def maps_of(cuts: tuple[SinkCut, ...]) -> Iterator[Key]:
    """The maps under some sinks."""
    return (k for cut in cuts for k in cut.region if isinstance(k[1], ir.Map))


def default_tasks(spark: SparkSession) -> int:
    """Twice the cores, as Spark tells them; on a cluster DEFAULT_TASKS at least."""
    local = (spark.conf.get("spark.master", "") or "").startswith("local[")
    return max(2 * cores_of(spark), 0 if local else DEFAULT_TASKS)


def _region(cuts: tuple[SinkCut, ...]) -> tuple[Key, ...]:
    return tuple(dict.fromkeys(k for cut in cuts for k in cut.region))


def _results(table: pa.Table, directory: str) -> dict[int, list[bytes]]:
    """Payloads of a job's result by tag, each tag's in the order of (source, sequence); those in
    files are in the directory."""
    rows = sorted(
        zip(*(table.column(i).to_pylist() for i in range(table.num_columns)), strict=True),
        key=lambda r: r[:2],
    )
    files: dict[str, mmap.mmap] = {}
    out: dict[int, list[bytes]] = {}
    for _, _, tag, payload, name, offset, nbytes in rows:
        payloads = out.setdefault(tag, [])
        if name is None or nbytes == 0:
            payloads.append(payload or b"")
            continue
        if name not in files:
            files[name] = mapped(os.path.join(directory, os.path.basename(name)))
        payloads.append(files[name][offset : offset + nbytes])
    return out
