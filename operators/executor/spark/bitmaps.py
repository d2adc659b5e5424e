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

from operators import scalar
from operators.executor.spark.indexes import new_name
from operators.executor.spark.run import Probe, Run
from operators.flight.column import Ints
from operators.kernels import memory
from operators.kernels.memory import BLOCK_BITS, BLOCK_MASK, BLOCK_ROWS
from operators.state.files import check_directory, read
from operators.state.filters import Filter
from operators.state.hashing import Hashing
from operators.state.pieces import Array, Home, MappedFiles, Pack, checksum
from operators.state.publish import REFERENCES, Attachment, RelationRef
from operators.state.rows import Rows
from operators.state.shared import Shared
from planner.calculus.expr import Expr, columns_used
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


def evaluate(run: Run, tasks: int, filter: Filter) -> None:
    """Let a filter that nobody has looked at have the bits of all rows. Raises: as indexes.build;
    nothing has changed then."""
    relation = filter.relation
    blocks = (relation.next_row + BLOCK_MASK) >> BLOCK_BITS
    with run.publication() as publication:
        job = FilterJob(
            publication.relation(relation, columns_used(filter.predicate), None),
            filter.predicate,
            tuple(blocks * t // tasks for t in range(tasks + 1)),
            run.directory,
            run.token,
            relation.shared.hashing.numbers,
        )
    run.write(_JOB, job)
    told: list[dict[str, Any]] = run.collect(__name__, tasks, (_RESULT,)).to_pylist()
    homes: dict[int, Home] = {}
    last: list[Array] = []
    for row in sorted(told, key=lambda row: int(row["task"])):
        if row["last"] is not None:
            last.append(np.frombuffer(row["last"], np.uint8))
        places = np.array(row["places"], np.int64).reshape(-1, 4)
        for block, *place in places.tolist():
            homes[block] = Home(row["name"], np.array([(0, *place)], np.int64))
    filter.load(relation.next_row, 0, homes, last, MappedFiles(run.directory))
    run.keep({home.file for home in homes.values()})


def run(
    path: str, stage: int, batches: Iterable[pa.RecordBatch], probe: Probe | None = None
) -> Iterator[pa.RecordBatch]:
    """Do the tasks whose numbers are given."""
    directory = os.path.dirname(path)
    check_directory(directory)
    job = _JOB.read(read(path), FilterJob)
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
            if probe is not None:
                probe(stage, task)
            yield pa.RecordBatch.from_pylist([row], _TOLD)


def _passing(predicate: scalar.Compiled, relation: Rows, rows: Ints) -> Ints:
    value, errors = predicate.evaluate(lambda column: relation.gather(column, rows), len(rows))
    assert errors is None, "a bitmap's predicate cannot fail"
    return rows[value.values if value.valid is None else value.values & value.valid]
