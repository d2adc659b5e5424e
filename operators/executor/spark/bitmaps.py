"""Bitmaps of filters by tasks: predicates over many rows of a relation, evaluated where its blocks
are mapped.

A job of one stage for all of them. Each task writes the bitmaps of its full blocks into one file,
and hands over those of the block that is being filled; what comes back says where they lie. A block
that was begun before is evaluated as a whole.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
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

_RESULT = "task int, name string, places array<bigint>, last array<binary>"
_TOLD = pa.schema(
    [
        ("task", pa.int32()),
        ("name", pa.string()),
        ("places", pa.list_(pa.int64())),
        ("last", pa.list_(pa.binary())),
    ]
)


@dataclass(frozen=True, slots=True)
class FilterJob:
    """`relation` with the columns of `predicates`. Task t takes blocks [starts[t], starts[t + 1]);
    `token`: of the files that tasks write into `values`."""

    relation: RelationRef
    predicates: tuple[Expr, ...]
    starts: tuple[int, ...]
    values: str
    token: str
    hashing: tuple[int, ...]


_JOB = Format("sqlview filter job", 2, (*PLAN_CLASSES, FilterJob, *REFERENCES))


def evaluate(run: Run, tasks: int, filters: Sequence[Filter]) -> None:
    """Let filters of one relation have the bits of all rows. Raises: as indexes.build; nothing has
    changed then."""
    relation = filters[0].relation
    first = min(each.begun for each in filters) >> BLOCK_BITS
    blocks = ((relation.next_row + BLOCK_MASK) >> BLOCK_BITS) - first
    predicates = tuple(each.predicate for each in filters)
    with run.publication() as publication:
        job = FilterJob(
            publication.relation(relation, columns_used(*predicates), None),
            predicates,
            tuple(first + blocks * t // tasks for t in range(tasks + 1)),
            run.directory,
            run.token,
            relation.shared.hashing.numbers,
        )
    run.write(_JOB, job)
    told: list[dict[str, Any]] = run.collect(__name__, tasks, (_RESULT,)).to_pylist()
    homes: list[dict[int, Home]] = [{} for _ in filters]
    last: list[list[Array]] = [[] for _ in filters]
    for row in sorted(told, key=lambda row: int(row["task"])):
        for number, bitmap in enumerate(row["last"]):
            last[number].append(np.frombuffer(bitmap, np.uint8))
        places = np.array(row["places"], np.int64).reshape(-1, 5)
        for number, block, *place in places.tolist():
            homes[number][block] = Home(row["name"], np.array([(0, *place)], np.int64))
    files = MappedFiles(run.directory)
    for each, full, begun in zip(filters, homes, last, strict=True):
        each.take(full, begun, files)
    run.keep({home.file for full in homes for home in full.values()})


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
    predicates = [scalar.compile(predicate) for predicate in job.predicates]
    for batch in batches:
        for task in batch.column(0).to_pylist():
            pack = Pack(os.path.join(job.values, new_name("small", job.token)))
            places: list[int] = []
            last: list[bytes] = []
            for block in range(*job.starts[task : task + 2]):
                first = block << BLOCK_BITS
                rows = relation.visible_to_any(first, min(first + BLOCK_ROWS, relation.next_row))
                for number, predicate in enumerate(predicates):
                    bitmap = np.zeros(BLOCK_ROWS // 8, np.uint8)
                    memory.set_bits(bitmap, _passing(predicate, relation, rows) - first)
                    if block == relation.next_row >> BLOCK_BITS:
                        last.append(bitmap.tobytes())
                    else:
                        place = pack.add(bitmap)
                        places += [number, block, place.offset, place.nbytes, checksum(bitmap)]
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
