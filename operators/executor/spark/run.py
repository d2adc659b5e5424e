"""The run of a job: what its tasks are lent, what they read, and what is kept of what they write.

Before a job the driver publishes the state that tasks read, and writes the job itself into a file.
Its path travels as a property of Spark's job, so that DataFrames are made once for all jobs of one
shape: to make them takes the driver some 150 calls of the JVM, longer than all else that a small
job costs it. Where there are no such properties the path travels by Spark's closures. So does, in
either case, that of a file with the user's functions, pickled apart from the job, which a session
writes once for all jobs that have the same.

Files that tasks write among the values carry a token that the run lends. When the run ends,
whatever raised, what was for it alone is deleted, and so is what its tasks wrote, unless the driver
keeps it: then that is like what the driver wrote.

Only the DataFrame API is used: a job is `range`, then `mapInArrow` and `repartitionById` in turn.
"""

from __future__ import annotations

import logging
import os
import pickle
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any, TypeAlias

import pyarrow as pa
from pyspark import SparkContext, cloudpickle
from pyspark.sql import DataFrame, SparkSession

from operators import interrupts
from operators.checkpoint import stored_dead, stored_values
from operators.dataflow import Dataflow
from operators.executor.watch import Watch
from operators.scalar import user
from operators.state.files import check_directory, discard, read, written
from operators.state.publish import Publication, Publisher
from planner.serialise import Format

_log = logging.getLogger(__name__)

#: Called in every task with (stage, task) before it hands over its results.
Probe: TypeAlias = Callable[[int, int], None]


@contextmanager
def running(
    spark: SparkSession,
    publisher: Publisher,
    dataflow: Dataflow,
    watch: Watch,
    frames: Frames,
) -> Iterator[Run]:
    """The run of a job, which is over with the block."""
    run = Run(spark, publisher, dataflow, watch, frames)
    try:
        yield run
    finally:
        run.end()


class Run:
    """See above. `path`: of the job's file; `token`: of files that tasks write into `directory`."""

    def __init__(
        self,
        spark: SparkSession,
        publisher: Publisher,
        dataflow: Dataflow,
        watch: Watch,
        frames: Frames,
    ) -> None:
        self._spark, self._publisher, self._dataflow = spark, publisher, dataflow
        self._watch = watch
        self._frames = frames
        self._lent = publisher.values.lend()
        self._publication: Publication | None = None
        self._kept = False
        #: How often an exchange dealt rows of a heavy key out to all tasks.
        self.heavy_exchanges = 0
        self.token = self._lent.token
        self.path = publisher.name("job")

    @property
    def directory(self) -> str:
        """That of the values."""
        return self._publisher.values.directory

    @contextmanager
    def publication(self) -> Iterator[Publication]:
        """What tasks read: added in the block, written when that ends. Raises: OSError."""
        values, dead = stored_values(self._dataflow), stored_dead(self._dataflow)
        with self._publisher.publication(values, dead) as publication:
            self._publication = publication
            yield publication

    def write(self, format: Format, job: object) -> None:
        """Write the job's file, complete when the name appears. Raises: OSError."""
        with written(self.path) as out:
            out.write(format.write(job).encode())

    def collect(
        self, module: str, tasks: int, schemas: Sequence[str], rows: int | None = None
    ) -> pa.Table:
        """The rows of the last stage. Stage s of a task is `run(path, s, batches, probe)` of the
        module; the first is given its tasks' numbers, and between two of them, whose rows have
        schemas[s], each goes to the task that its column `target` says. `rows`: that are read.

        Raises: Spark's exceptions; KeyboardInterrupt, with the job cancelled.
        """
        kind = JobKind(module, tasks, tuple(schemas), self._functions())
        tag, interrupted = os.path.basename(self.path), False

        def cancel() -> None:
            nonlocal interrupted
            interrupted = True
            self._spark.interruptTag(tag)

        self._spark.addTag(tag)
        try:
            # Spark waits for its job where Python has left: it is to hear of it first.
            watched = self._watch.job(self._spark, len(schemas), rows)
            with (
                watched,
                interrupts.let_through(cancel),
                self._frames.of(kind, self.path) as frame,
            ):
                return frame.toArrow()
        except Exception as error:
            if interrupted:
                raise KeyboardInterrupt from error
            raise
        finally:
            self._spark.removeTag(tag)

    def _functions(self) -> str | None:
        """The file with the user's functions; None if there are none. Raises: OSError."""
        found = travelling()
        return self._publisher.once("functions", pickle.dumps(found)) if found else None

    def keep(self, names: Iterable[str]) -> None:
        """State is in these files that tasks wrote."""
        self._publisher.values.adopt(self.token, names)
        self._kept = True

    def end(self) -> None:
        """Delete what was for the run alone."""
        if not self._kept:
            self._publisher.values.give_back(self.token)
        if self._publication is not None:
            self._publication.drop()
        discard(self.path)
        self._publisher.discard_named(os.path.basename(self.path) + "-")


def travelling() -> Mapping[str, bytes]:
    """The user's functions that this process knows, pickled, by id; some cannot be."""
    found = {}
    for id, function in user.every().items():
        if id not in _PICKLED:
            try:
                _PICKLED[id] = _dumps(function)
            except Exception as error:
                _PICKLED[id] = None
                _log.warning("a function cannot be pickled for Spark: %s", error)
        if (pickled := _PICKLED[id]) is not None:
            found[id] = pickled
    return found


def _dumps(function: user.Function) -> bytes:
    pickled: bytes = cloudpickle.dumps(function)  # type: ignore[no-untyped-call]
    return pickled


#: By id; None for one that cannot be.
_PICKLED: dict[str, bytes | None] = {}


def arrived(path: str) -> None:
    """Know the functions of a file, which a worker process reads once."""
    if path in _ARRIVED:
        return
    check_directory(os.path.dirname(path))
    functions: dict[str, bytes] = pickle.loads(read(path))
    for id, pickled in functions.items():
        if not user.is_known(id):
            try:
                user.know(id, cloudpickle.loads(pickled))
            except Exception as error:  # whatever a module raises: those who call it are told
                user.miss(id, f"{type(error).__name__}: {error}")
    _ARRIVED.add(path)


_ARRIVED: set[str] = set()


@dataclass(frozen=True, slots=True)
class JobKind:
    """What the DataFrames of a job are made of, see `Run.collect`. `functions`: the file with the
    user's."""

    module: str
    tasks: int
    schemas: tuple[str, ...]
    functions: str | None


class Frames:
    """The DataFrames of jobs on one Spark. State: those of the latest kinds. `probe`: for tests."""

    def __init__(self, spark: SparkSession, probe: Probe | None = None) -> None:
        self._spark = spark
        self._probe = probe
        self._made: OrderedDict[JobKind, DataFrame] = OrderedDict()

    @contextmanager
    def of(self, kind: JobKind, path: str) -> Iterator[DataFrame]:
        """That of a job, whose tasks read the file at `path` if it is run in the block."""
        context = _context_of(self._spark)
        if context is None:
            yield self._new(kind, path)
            return
        frame = self._made.pop(kind, None)
        if frame is None:
            frame = self._new(kind, None)
        self._made[kind] = frame
        while len(self._made) > _KEPT_KINDS:
            self._made.popitem(last=False)
        context.setLocalProperty(_PATH, path)
        try:
            # Another name for it is run anew: Spark would take up what stages of the last job left.
            yield frame.alias("job")
        finally:
            context.setLocalProperty(_PATH, None)  # type: ignore[arg-type]

    def _new(self, kind: JobKind, path: str | None) -> DataFrame:
        frame = self._spark.range(0, kind.tasks, 1, kind.tasks)
        for stage, schema in enumerate(kind.schemas):
            if stage:
                frame = frame.repartitionById(kind.tasks, "target")
            call = _stage(kind.module, path, stage, self._probe, kind.functions)
            frame = frame.mapInArrow(call, schema)
        return frame


def _context_of(spark: SparkSession) -> SparkContext | None:
    """What properties of jobs are set with, where they belong to a thread of Python's: neither over
    Spark Connect nor with PYSPARK_PIN_THREAD=false."""
    context: SparkContext | None = getattr(spark, "_sc", None)
    if context is None:
        return None
    from py4j.clientserver import ClientServer  # type: ignore[import-untyped]

    return context if isinstance(context._gateway, ClientServer) else None


_KEPT_KINDS = 32
_PATH = "sqlview.job"


def _stage(
    module: str, path: str | None, stage: int, probe: Probe | None, functions: str | None
) -> Any:
    """The function of one stage. What it closes over is the same for every attempt, and all that
    Spark's own pickling carries: names, and a number (`probe` is for tests alone). `path`: of the
    job; None: as the property says."""
    name = _PATH

    def call(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        at = path
        if at is None:
            from pyspark import TaskContext

            context = TaskContext.get()
            assert context is not None
            at = context.getLocalProperty(name)
            assert at is not None
        if functions is not None:
            arrived(functions)
        yield from import_module(module).run(at, stage, batches, probe)

    return call
