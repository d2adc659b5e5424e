"""Rows of exchanges and results, as tasks send them to other tasks and to the driver.

A row of an exchange is (target, source, sequence, tag, payload): the task it is for, the task that
made it, its number there, and whose payload it is: route r is tag r, the changes for the
partitioned node p are tag routes + p, sinks follow from tag `Job.first_sink` on, then failing rows;
what was applied for sink s is its tag + sinks + 1; how many rows each task of each stage has taken
is the last tag.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from operators.executor.spark import blobs, deal
from operators.executor.spark.job import Job
from operators.executor.spark.sinks import Part
from operators.flight.column import Ints
from operators.state.files import written

#: Rows of an exchange, and of a job's result: where `file` is set, the payload is in that file of
#: the job's directory.
EXCHANGE_SCHEMA = "target int, source int, sequence int, tag int, payload binary"
RESULT_SCHEMA = (
    "source int, sequence int, tag int, payload binary, file string, offset long, nbytes long"
)
#: Results of a task beyond this are handed over in a file.
RESULT_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Row:
    """A row of an exchange but for its target."""

    source: int
    sequence: int
    tag: int
    payload: bytes


class Outbox:
    """Rows on their way to other tasks, or to the driver."""

    def __init__(self, job: Job, task: int, last: bool) -> None:
        self._job = job
        self._task = task
        self._last = last
        self._targets: list[int] = []
        self._tags: list[int] = []
        self._payloads: list[bytes] = []
        #: Rows of heavy slices that were dealt out to all tasks.
        self.heavy_rows = 0

    def put(self, target: int, tag: int, payload: bytes) -> None:
        self._targets.append(target)
        self._tags.append(tag)
        self._payloads.append(payload)

    def pass_on(self, tag: int, payload: bytes) -> None:
        """Keep what is here already for this task in the next stage."""
        self.put(self._task, tag, payload)

    def put_words(self, tag: int, words: Ints, leading: Ints, is_spread: bool) -> None:
        """Send matrix columns to the tasks of the slices of `leading`; where it `is_spread`, as any
        task can do the work of a column, those of heavy ones to all."""
        tasks, slices = self._job.tasks, deal.slices_of(leading)
        targets = deal.targets_of(slices, tasks)
        if is_spread:
            self.heavy_rows += deal.spread(slices, targets, tasks, self._task)
        for target, positions in deal.dealt(targets, tasks):
            for payload in blobs.encode_words(words[:, positions]):
                self.put(target, tag, payload)

    def put_part(self, tag: int, part: Part) -> None:
        """Send a sink's rows to the tasks of their slices, or to the driver."""
        if self._last or not self._job.combined:
            for payload in blobs.encode_columns(part.columns):
                self.put(self._task, tag, payload)
            return
        if len(part) == 0:
            return
        targets = deal.targets_of(deal.slices_of(part.leading), self._job.tasks)
        for target, positions in deal.dealt(targets, self._job.tasks):
            for payload in blobs.encode_columns(part.at(positions)):
                self.put(target, tag, payload)

    def exchange(self) -> Iterator[pa.RecordBatch]:
        for start, end in self._batches():
            yield pa.record_batch(
                [
                    pa.array(self._targets[start:end], pa.int32()),
                    *self._stamps(start, end),
                    pa.array(self._payloads[start:end], pa.binary()),
                ],
                ["target", "source", "sequence", "tag", "payload"],
            )

    def results(self, path: str) -> Iterator[pa.RecordBatch]:
        """Rows for the driver: small payloads as they are, large ones as places in a file, whose
        name nobody else has (a stage may be tried again under the same attempt number)."""
        names = ["source", "sequence", "tag", "payload", "file", "offset", "nbytes"]
        if sum(map(len, self._payloads)) <= RESULT_BYTES:
            n = len(self._payloads)
            if n:
                nothing = [pa.nulls(n, k) for k in (pa.string(), pa.int64(), pa.int64())]
                payloads = pa.array(self._payloads, pa.binary())
                yield pa.record_batch([*self._stamps(0, n), payloads, *nothing], names)
            return
        from pyspark import TaskContext

        context = TaskContext.get()
        attempt = 0 if context is None else context.taskAttemptId()
        name = f"{path}-result-{attempt}-{uuid.uuid4().hex}"
        offsets = []
        with written(name) as file:
            for payload in self._payloads:
                offsets.append(file.tell())
                file.write(payload)
        n = len(offsets)
        yield pa.record_batch(
            [
                *self._stamps(0, n),
                pa.nulls(n, pa.binary()),
                pa.array([os.path.basename(name)] * n, pa.string()),
                pa.array(offsets, pa.int64()),
                pa.array([len(p) for p in self._payloads], pa.int64()),
            ],
            names,
        )

    def _stamps(self, start: int, end: int) -> list[pa.Array]:
        return [
            pa.array([self._task] * (end - start), pa.int32()),
            pa.array(range(start, end), pa.int32()),
            pa.array(self._tags[start:end], pa.int32()),
        ]

    def _batches(self) -> Iterator[tuple[int, int]]:
        """Ranges of rows with about one largest payload's bytes each."""
        start, size = 0, 0
        for end, payload in enumerate(self._payloads, start=1):
            size += len(payload)
            if size >= blobs.MAX_BYTES or end == len(self._payloads):
                yield start, end
                start, size = end, 0
