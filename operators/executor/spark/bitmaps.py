"""Bitmaps of filters by tasks: a predicate over many rows, evaluated where its blocks are mapped.

A job of one stage. Each task writes the bitmaps of its full blocks into one file, and hands over
that of the block that is being filled; what comes back says where they lie.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

from operators import interrupts, scalar
from operators.executor.spark.indexes import new_name
from operators.flight.column import Ints
from operators.kernels import memory
from operators.kernels.memory import BLOCK_BITS, BLOCK_MASK, BLOCK_ROWS
from operators.state.files import check_directory, create, discard
from operators.state.filters import Filter
from operators.state.hashing import Hashing
from operators.state.pieces import Array, Home, MappedFiles, Pack, Stored, checksum
from operators.state.publish import REFERENCES, Attachment, Publication, Publisher, RelationRef
from operators.state.rows import Rows
from operators.state.shared import Shared
from planner.expr import Expr, columns_used
from planner.serialise import PLAN_CLASSES, Format

_RESULT = "task int, name string, places array<bigint>, last binary"
_TOLD = pa.schema(
    [
        ("task", pa.int32()),
        ("name", pa.string()),
        ("places", pa.list_(pa.int64())),
        ("last", pa.binary()),
    ]
)


@dataclass(frozen=True, slots=True)
class FilterJob:
    """`relation` with the columns of `predicate`. Task t takes blocks [starts[t], starts[t + 1]);
    `token`: of the files that tasks write into `values`."""

    relation: RelationRef
    predicate: Expr
    starts: tuple[int, ...]
    values: str
    token: str
    hashing: tuple[int, ...]


_JOB = Format("sqlview filter job", 1, (*PLAN_CLASSES, FilterJob, *REFERENCES))


def evaluate(
    spark: SparkSession,
    publisher: Publisher,
    tasks: int,
    filter: Filter,
    values: Iterable[Stored],
    dead: Iterable[Stored],
) -> None:
    """Let a filter that nobody has looked at have the bits of all rows. Raises: as indexes.build;
    nothing has changed then."""
    store, relation = publisher.values, filter.relation
    lent, path = store.lend(), publisher.name("filter")
    publication: Publication | None = None
    kept = False
    try:
        blocks = (relation.next_row + BLOCK_MASK) >> BLOCK_BITS
        with publisher.publication(values, dead) as publication:
            job = FilterJob(
                publication.relation(relation, columns_used(filter.predicate), None),
                filter.predicate,
                tuple(blocks * t // tasks for t in range(tasks + 1)),
                store.directory,
                lent.token,
                relation.shared.hashing.numbers,
            )
        with create(path) as out:
            out.write(_JOB.write(job).encode())
        with interrupts.let_through():
            frame = spark.range(0, tasks, 1, tasks).mapInArrow(_stage(path), _RESULT)
            told: list[dict[str, Any]] = frame.toArrow().to_pylist()
        homes: dict[int, Home] = {}
        last: list[Array] = []
        for row in sorted(told, key=lambda row: int(row["task"])):
            if row["last"] is not None:
                last.append(np.frombuffer(row["last"], np.uint8))
            places = np.array(row["places"], np.int64).reshape(-1, 4)
            for block, *place in places.tolist():
                homes[block] = Home(row["name"], np.array([(0, *place)], np.int64))
        filter.load(relation.next_row, 0, homes, last, MappedFiles(store.directory))
        store.adopt(lent.token, {home.file for home in homes.values()})
        kept = True
    finally:
        if not kept:
            store.give_back(lent.token)
        if publication is not None:
            publication.drop()
        discard(path)


def _stage(path: str) -> Any:
    def call(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from operators.executor.spark.bitmaps import run

        yield from run(path, batches)

    return call


def run(path: str, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Do the tasks whose numbers are given."""
    directory = os.path.dirname(path)
    check_directory(directory)
    with open(path, "rb") as file:
        job = _JOB.read(file.read(), FilterJob)
    check_directory(job.values)
    shared = Shared(hashing=Hashing(job.hashing))
    relation = Attachment(job.values, directory, shared).relation(job.relation)
    predicate = scalar.compile(job.predicate)
    for batch in batches:
        for task in batch.column(0).to_pylist():
            pack = Pack(os.path.join(job.values, new_name("small", job.token)))
            places: list[int] = []
            last: bytes | None = None
            for block in range(*job.starts[task : task + 2]):
                first = block << BLOCK_BITS
                rows = relation.visible_to_any(first, min(first + BLOCK_ROWS, relation.next_row))
                bitmap = np.zeros(BLOCK_ROWS // 8, np.uint8)
                memory.set_bits(bitmap, _passing(predicate, relation, rows) - first)
                if block == relation.next_row >> BLOCK_BITS:
                    last = bitmap.tobytes()
                else:
                    place = pack.add(bitmap)
                    places += [block, place.offset, place.nbytes, checksum(bitmap)]
            pack.write(durable=True)
            name = os.path.basename(pack.path)
            row = {"task": task, "name": name, "places": places, "last": last}
            yield pa.RecordBatch.from_pylist([row], _TOLD)


def _passing(predicate: scalar.Compiled, relation: Rows, rows: Ints) -> Ints:
    value, errors = predicate.evaluate(lambda column: relation.gather(column, rows), len(rows))
    assert errors is None, "a bitmap's predicate cannot fail"
    return rows[value.values if value.valid is None else value.values & value.valid]
