"""Indexes by tasks: the entries of many rows, in batches that lie in files; and the rows that go
since others have their keys.

A job of two stages. Each task of the first maps its blocks of the relation and sends the keys of
their rows, with the rows' ids, to the tasks of their buckets. Those sort them, look for keys that
are there already if keys are to be unique, and write each a batch into the store; of rows that
replace others, and of keys of rows that go, they write which those are. What comes back is a row
for each task. So the driver's work is in proportion to the blocks and the tasks, and to the rows
that go.

Law: what a task sends is a byte-deterministic function of the job; entries are taken in the order
of (source, sequence), in which their rows ascend.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from operators.executor.spark import blobs, deal
from operators.executor.spark.run import Probe, Run
from operators.flight.column import Ints
from operators.kernels import sorting
from operators.kernels.memory import BLOCK_BITS, BLOCK_MASK, BLOCK_ROWS
from operators.state import bulk, unique
from operators.state.arrangement import ArrangementState, IndexReader
from operators.state.bulk import Built
from operators.state.files import check_directory, read
from operators.state.filters import FilterReader
from operators.state.hashing import Hashing
from operators.state.pieces import Home, MappedFiles, Pack, Place, checksum
from operators.state.publish import (
    REFERENCES,
    Attachment,
    FilterRef,
    IndexRef,
    Publication,
    RelationRef,
)
from operators.state.relation import PIECE_ROWS, Relation
from operators.state.rows import Rows
from operators.state.shared import Shared
from operators.state.spine import Batch, mapped_batch
from operators.state.unique import Matched
from planner.serialise import PLAN_CLASSES, Format

#: So many rows show which keys are heavy: of a slice as many as this at the least.
_SAMPLED, _LEAST_SAMPLED = 1 << 12, 8
#: Of so many blocks, from places that differ from block to block, among the first so many rows.
_SAMPLED_BLOCKS, _STRIDE, _SPREAD = 1 << 6, 40_503, 1 << 12
_ODD = np.int64(0x2545F4914F6CDD1D)
#: More entries than this are more than a task is to sort at once: 24 bytes each, and a copy.
MOST_ENTRIES = 1 << 24
_EXCHANGE = "target int, source int, sequence int, payload binary"
_RESULT = (
    "task int, name string, length bigint, places array<bigint>, greatest array<bigint>, "
    "later bigint, earlier bigint, missing bigint, pairs string, found bigint"
)
_INTS = pa.list_(pa.int64())
_TOLD = pa.schema(
    [
        ("task", pa.int32()),
        ("name", pa.string()),
        ("length", pa.int64()),
        ("places", _INTS),
        ("greatest", _INTS),
        ("later", pa.int64()),
        ("earlier", pa.int64()),
        ("missing", pa.int64()),
        ("pairs", pa.string()),
        ("found", pa.int64()),
    ]
)


@dataclass(frozen=True, slots=True)
class IndexJob:
    """`relation` with the columns of the key; `index`: what is there already, of rows before
    `first`; the rows of partial indexes pass `filter`. `unique`: keys are to be so; `matches`: the
    rows that have them are to be told. `keys`: a relation of keys alone, whose rows are taken
    instead, and which have no entries. Task t of the first stage takes blocks
    [starts[t], starts[t + 1]). `heavy`: slices of keys whose entries are dealt out to all tasks,
    ascending. `token`: of the files that tasks write into `values`, the directory
    of the store."""

    relation: RelationRef
    index: IndexRef
    filter: FilterRef | None
    first: int
    starts: tuple[int, ...]
    heavy: tuple[int, ...]
    unique: bool
    matches: bool
    keys: RelationRef | None
    values: str
    token: str
    hashing: tuple[int, ...]

    @property
    def tasks(self) -> int:
        return len(self.starts) - 1


_JOB = Format("sqlview index job", 2, (*PLAN_CLASSES, IndexJob, *REFERENCES))


def build(run: Run, tasks: int, index: ArrangementState, first: int, is_unique: bool) -> Built:
    """What `index`, which has the rows before `first`, is to have of those from there on.

    tasks: at most, unless they would have too many entries each. Raises: OSError; Spark's
    exceptions; KeyboardInterrupt. Nothing is kept then, nor where keys are repeated.
    """
    if index.filter is not None:
        index.filter.look()  # which may be a job, too
    with run.publication() as publication:
        job = _job(publication, tasks, index, first, is_unique, run)
    run.write(_JOB, job)
    collected = run.collect(__name__, job.tasks, (_EXCHANGE, _RESULT)).to_pylist()
    run.heavy_exchanges += bool(job.heavy)
    told: list[dict[str, Any]] = sorted(collected, key=lambda row: int(row["task"]))
    repeated = _repeated(told)
    if repeated is not None:
        return Built((), np.empty((index.width, 0), np.int64), repeated)
    built = _built(told, index.width, run.directory)
    run.keep(t["name"] for t in told if t["name"] is not None)
    return built


def match(run: Run, tasks: int, index: ArrangementState, changed: Relation, first: int) -> Matched:
    """The rows of `changed` from `first` on, matched with the rows of the table that `index` is of;
    where they are its own, what the index is to have of them, too.

    tasks, raises: as `build`. Nothing is kept where keys are repeated.
    """
    keys = None if changed is index.relation else changed
    with run.publication() as publication:
        job = _job(publication, tasks, index, first, False, run, keys, True)
    run.write(_JOB, job)
    collected = run.collect(__name__, job.tasks, (_EXCHANGE, _RESULT)).to_pylist()
    run.heavy_exchanges += bool(job.heavy)
    told: list[dict[str, Any]] = sorted(collected, key=lambda row: int(row["task"]))
    none, repeated = np.empty(0, np.int64), _repeated(told)
    if repeated is not None:
        return Matched((), np.empty((index.width, 0), np.int64), repeated, None, none, none)
    built = _built(told, index.width, run.directory)
    own = MappedFiles(os.path.dirname(run.path))
    pairs = [none.reshape(2, 0)]
    for row in told:
        if row["found"]:
            found = own.array(row["pairs"], 0, 16 * row["found"], np.dtype(np.int64))
            pairs.append(found.reshape(2, -1))
    rows, old = np.concatenate(pairs, axis=1)
    missing = [row["missing"] for row in told if row["missing"] is not None]
    if built.batches:
        run.keep(t["name"] for t in told if t["name"] is not None)
    return Matched(built.batches, built.greatest, None, min(missing, default=None), rows, old)


def _repeated(told: Iterable[dict[str, Any]]) -> tuple[int, int] | None:
    return min(((t["later"], t["earlier"]) for t in told if t["later"] is not None), default=None)


def _job(
    publication: Publication,
    tasks: int,
    index: ArrangementState,
    first: int,
    is_unique: bool,
    run: Run,
    keys: Relation | None = None,
    matches: bool = False,
) -> IndexJob:
    relation = index.relation if keys is None else keys
    start, end = first >> BLOCK_BITS, (relation.next_row + BLOCK_MASK) >> BLOCK_BITS
    rows = sum(relation.stored_rows(block) for block in range(start, end))
    tasks = deal.tasks_for(max(tasks, -(-rows // MOST_ENTRIES)), rows)
    return IndexJob(
        publication.relation(index.relation, index.columns, None),
        publication.index(index),
        None if index.filter is None else publication.filter(index.filter),
        first,
        deal.even_starts(relation, range(start, end), tasks),
        _heavy(
            index if keys is None else unique.keys_alone(index, keys),
            first,
            range(start, end),
            tasks,
        ),
        is_unique,
        matches,
        None if keys is None else publication.relation(keys, range(len(keys.schema)), None),
        run.directory,
        run.token,
        index.relation.shared.hashing.numbers,
    )


def _heavy(index: IndexReader, first: int, blocks: range, tasks: int) -> tuple[int, ...]:
    """The slices that have much more than a task's share of the entries of rows from `first` on, as
    some rows of some blocks show. Cost: those rows' keys."""
    relation, sample = index.relation, list[Ints]()
    if tasks < 2:
        return ()
    looked_at = blocks[:: max(len(blocks) // _SAMPLED_BLOCKS, 1)]
    if not looked_at:
        return ()
    most = max(_SAMPLED // len(looked_at), 1)
    for number, block in enumerate(looked_at):
        # Somewhere else in each block, but not far in: what is before is looked at, too.
        start = block << BLOCK_BITS
        least = max(start, first)
        end = min(least + _SPREAD + most, start + BLOCK_ROWS, relation.next_row)
        rows = relation.visible_to_any(start, end)
        rows = rows[np.searchsorted(rows, least) :]
        at = number * _STRIDE % max(len(rows) - most, 1)
        sample.append(rows[at : at + most])
    keys, _ = index.key_words(np.concatenate(sample))
    return tuple(deal.heavy(deal.slices_of(keys[0]), tasks, _LEAST_SAMPLED).tolist())


def _built(told: list[dict[str, Any]], width: int, directory: str) -> Built:
    files = MappedFiles(directory)
    batches: list[Batch] = []
    greatest: list[list[int]] = []
    for row in told:
        if row["name"] is not None:
            home = Home(row["name"], np.array(row["places"], np.int64).reshape(-1, 4))
            batches.append(mapped_batch(home, width, row["length"], files))
            greatest.append(row["greatest"])
    keys = np.array(greatest, np.int64).reshape(-1, width).T.copy()
    return Built(tuple(batches), keys, None)


def run(
    path: str, stage: int, batches: Iterable[pa.RecordBatch], probe: Probe | None = None
) -> Iterator[pa.RecordBatch]:
    """Run a stage of the job at `path` on a partition; the first is given its tasks' numbers."""
    task = _Task(path)
    if stage == 0:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from task.deal(number)
                if probe is not None:
                    probe(stage, number)
        return
    arrived: dict[int, list[tuple[int, int, bytes]]] = {}
    for batch in batches:
        columns = (batch.column(i).to_pylist() for i in range(4))
        for target, source, sequence, payload in zip(*columns, strict=True):
            arrived.setdefault(target, []).append((source, sequence, payload))
    for target in sorted(arrived):
        rows = sorted(arrived.pop(target), key=lambda row: row[:2])
        told = task.sort(target, [payload for _, _, payload in rows])
        if probe is not None:
            probe(stage, target)
        yield told


class _Task:
    """A job with its state attached."""

    relation: Rows
    index: IndexReader
    changed: IndexReader
    filter: FilterReader | None

    def __init__(self, path: str) -> None:
        directory = os.path.dirname(path)
        check_directory(directory)
        self._path = path
        self.job = job = _JOB.read(read(path), IndexJob)
        check_directory(job.values)
        attachment = Attachment(job.values, directory, Shared(hashing=Hashing(job.hashing)))
        self.relation = attachment.relation(job.relation)
        self.index = self.changed = attachment.index(job.index, self.relation)
        if job.keys is not None:
            self.changed = unique.keys_alone(self.index, attachment.relation(job.keys))
        self.filter = None if job.filter is None else attachment.filter(job.filter, self.relation)
        blocks = range(job.starts[0], job.starts[-1]) if job.heavy else ()
        #: Rows of the job's blocks before each.
        self._before = np.cumsum([0, *map(self.changed.relation.stored_rows, blocks)])

    def deal(self, task: int) -> Iterator[pa.RecordBatch]:
        """The entries of a task's blocks, for the tasks of their buckets: rows of _EXCHANGE, some
        at a time."""
        first, end = (block << BLOCK_BITS for block in self.job.starts[task : task + 2])
        relation = self.changed.relation
        end = min(end, relation.next_row)
        sequence = 0
        for start in range(first, end, PIECE_ROWS):
            rows = relation.visible_to_any(start, min(start + PIECE_ROWS, end))
            rows = rows[np.searchsorted(rows, self.job.first) :]
            if self.filter is not None:
                rows = rows[self.filter.test(rows)]
            keys, rows = self.changed.key_words(rows)
            if len(rows) == 0:
                continue
            dealt = self._dealt(keys, rows)
            yield pa.record_batch(
                [
                    pa.array([target for target, _ in dealt], pa.int32()),
                    pa.array([task] * len(dealt), pa.int32()),
                    pa.array(range(sequence, sequence + len(dealt)), pa.int32()),
                    pa.array([payload for _, payload in dealt], pa.binary()),
                ],
                ["target", "source", "sequence", "payload"],
            )
            sequence += len(dealt)

    def _dealt(self, keys: Ints, rows: Ints) -> list[tuple[int, bytes]]:
        """The entries for each task that is to have some, in their order.

        Of heavy slices equal keys meet in one task where they are compared; else each task has
        those of its share of the rows, so that rows of one key ascend from batch to batch.
        """
        job, slices = self.job, deal.slices_of(keys[0])
        targets = deal.targets_of(slices, job.tasks)
        if job.heavy:
            (at,) = np.isin(slices, job.heavy).nonzero()
            if job.unique or job.matches:
                words = np.bitwise_xor.reduce(keys[:, at] * _ODD ** np.arange(len(keys))[:, None])
                targets[at] = deal.targets_of(deal.slices_of(words), job.tasks)
            else:
                targets[at] = self._places_of(rows[at]) * job.tasks // max(int(self._before[-1]), 1)
        words = np.vstack((keys, rows))
        return [
            (target, payload)
            for target, positions in deal.dealt(targets, job.tasks)
            for payload in blobs.encode_words(words[:, positions])
        ]

    def _places_of(self, rows: Ints) -> Ints:
        """How many rows of the job's blocks precede each, less than there are."""
        blocks = (rows >> BLOCK_BITS) - self.job.starts[0]
        stored = self._before[blocks + 1] - self._before[blocks]
        places: Ints = self._before[blocks] + np.minimum(rows & BLOCK_MASK, stored - 1)
        return places

    def sort(self, target: int, payloads: list[bytes]) -> pa.RecordBatch:
        """Write the batch of a task's buckets; a row of _RESULT."""
        width = self.index.width
        matrices = (blobs.decode_words([payload], width + 1) for payload in payloads)
        batch = bulk.build(((words[:-1], words[-1]) for words in matrices), width)
        row: dict[str, Any] = {"task": target}
        repeated = unique.first_repeated(self.index, batch) if self.job.unique else None
        if self.job.matches:
            found = unique.matched(self.index, self.changed, batch)
            repeated, row["missing"] = found.repeated, found.missing
            row["found"] = len(found.rows)
            row["pairs"] = self._told(np.stack((found.rows, found.old)))
        if repeated is not None:
            row["later"], row["earlier"] = repeated
        elif self.job.keys is None:
            home = self._written(batch)
            last = batch.keys[:, sorting.greatest(batch.keys)]
            row |= {
                "name": home.file,
                "length": len(batch),
                "places": home.places.reshape(-1).tolist(),
                "greatest": last.tolist(),
            }
        return pa.RecordBatch.from_pylist([row], _TOLD)

    def _told(self, pairs: Ints) -> str:
        """The name of a file for this job alone."""
        pack = Pack(f"{self._path}-{new_name('matched', self.job.token)}")
        pack.add(pairs)
        pack.write()
        return os.path.basename(pack.path)

    def _written(self, batch: Batch) -> Home:
        """The batch in a file."""
        name = new_name("large", self.job.token)
        pack = Pack(os.path.join(self.job.values, name))
        arrays = (batch.keys, batch.rows, batch.offsets)
        places: list[Place] = [pack.add(array) for array in arrays]
        pack.write(durable=True)
        told = [
            (i, place.offset, place.nbytes, checksum(array))
            for i, (place, array) in enumerate(zip(places, arrays, strict=True))
        ]
        return Home(name, np.array(told, np.int64))


def new_name(kind: str, token: str) -> str:
    """A name for a file of values that no other attempt of a task has."""
    from pyspark import TaskContext

    context = TaskContext.get()
    attempt = secrets.randbits(60) if context is None else context.taskAttemptId()
    # A stage may be tried again under the same number.
    return f"{kind}-{token}-{attempt}-{secrets.randbits(30)}"
