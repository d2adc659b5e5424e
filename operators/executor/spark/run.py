"""The run of a job: what its tasks are lent, what they read, and what is kept of what they write.

Before a job the driver publishes the state that tasks read, and writes the job itself into a file,
whose path travels by Spark's closures; so does that of a file with the user's functions, pickled
apart from the job, which a session writes once for all jobs that have the same.

Files that tasks write among the values carry a token that the run lends. When the run ends,
whatever raised, what was for it alone is deleted, and so is what its tasks wrote, unless the driver
keeps it: then that is like what the driver wrote.

Only the DataFrame API is used: a job is `range`, then `mapInArrow` and `repartitionById` in turn.
"""

from __future__ import annotations

import logging
import os
import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any, TypeAlias

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql import SparkSession

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
    probe: Probe | None = None,
) -> Iterator[Run]:
    """The run of a job, which is over with the block."""
    run = Run(spark, publisher, dataflow, watch, probe)
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
        probe: Probe | None,
    ) -> None:
        self._spark, self._publisher, self._dataflow = spark, publisher, dataflow
        self._watch = watch
        self._probe = probe
        self._lent = publisher.values.lend()
        self._publication: Publication | None = None
        self._kept = False
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
        frame, functions = self._spark.range(0, tasks, 1, tasks), self._functions()
        for stage, schema in enumerate(schemas):
            if stage:
                frame = frame.repartitionById(tasks, "target")
            call = _stage(module, self.path, stage, self._probe, functions)
            frame = frame.mapInArrow(call, schema)
        tag, interrupted = os.path.basename(self.path), False

        def cancel() -> None:
            nonlocal interrupted
            interrupted = True
            self._spark.interruptTag(tag)

        self._spark.addTag(tag)
        try:
            # Spark waits for its job where Python has left: it is to hear of it first.
            watched = self._watch.job(self._spark, len(schemas), rows)
            with watched, interrupts.let_through(cancel):
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
            user.know(id, cloudpickle.loads(pickled))
    _ARRIVED.add(path)


_ARRIVED: set[str] = set()


def _stage(module: str, path: str, stage: int, probe: Probe | None, functions: str | None) -> Any:
    """The function of one stage. What it closes over is the same for every attempt, and all that
    Spark's own pickling carries: names, and a number (`probe` is for tests alone). `functions`: the
    file with the user's."""

    def call(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        if functions is not None:
            arrived(functions)
        yield from import_module(module).run(path, stage, batches, probe)

    return call
