"""Loading by tasks: they write rows as a store keeps them, and tell the files.

Each task takes its partition of a DataFrame as Arrow batches, or reads its part of a source itself,
checks the rows as the driver would, and writes segments (`operators.state.stored`) into the store;
what it returns is a row for each file. So the driver's work is in proportion to the blocks of
65,536 rows, and no row passes through it. A task that is tried again writes other files; only those
count that the job returned.

Invariant: the blocks hold the rows of the source once each, and files that are told are on disk.
Source: the commit protocol of Hadoop's output committers, without renaming: attempts have names of
their own, and who commits lists those that count.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import count
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from operators.executor.spark.ingest import check_types
from operators.flight import arrow
from operators.naive import naive_in
from operators.state.files import read
from operators.state.pieces import Home, MappedFiles
from operators.state.stored import Segment, StoredBlock, StoredRows, write_rows
from operators.state.values import ValueFiles
from planner.calculus import zones
from planner.calculus.types import Schema
from planner.errors import DataError, SqlViewError

#: At the least so many tasks look whether they see a store.
_PROBES = 4
_SCHEMA = (
    "partition int, name string, numbers array<bigint>, rows array<bigint>, "
    "ends array<bigint>, nulls array<bigint>, places array<bigint>, error string"
)
_LISTS = ("numbers", "rows", "ends", "nulls", "places")
_TOLD = pa.schema(
    [("partition", pa.int32()), ("name", pa.string())]
    + [(name, pa.list_(pa.int64())) for name in _LISTS]
    + [("error", pa.string())]
)


@dataclass(frozen=True, slots=True)
class _Order:
    """What a task needs. `mark`: what the store's own file says, by which a task sees that it is
    there. `zone`: of data without one."""

    directory: str
    mark: bytes
    token: str
    schema: Schema
    key: tuple[int, ...]
    cast: bool
    zone: str
    more: bool


class PartError(Exception):
    """Rows of one part, or partition, do not fit."""

    def __init__(self, part: int, error: DataError) -> None:
        super().__init__(part, error)
        self.part = part
        self.error = error


#: Arrow data of a part, piece by piece, each with the number of rows before it.
Read: TypeAlias = "Callable[[int], Iterator[tuple[pa.Table, int]]]"


@dataclass(frozen=True, slots=True)
class Target:
    """Where rows go, and how: the files of a store; for a table with these columns, `key` those of
    its primary key, or for those alone, where what is given may have `more`; whether values are
    converted; the id of the `zone` of data without one."""

    values: ValueFiles
    schema: Schema
    key: tuple[int, ...]
    cast: bool
    zone: str
    more: bool = False


def write_dataframe(df: DataFrame, target: Target) -> StoredRows:
    """Write the rows of `df`.

    Returns: the rows; files without a reference go with it.
    Raises: DataError for what does not fit, see operators.flight.arrow; SqlViewError where tasks do
    not see the store; Spark's exceptions if computing the rows fails.
    Cost: one Spark job; in the driver O(blocks).
    """
    check_types(df)
    try:
        found = _written(df, None, target)
        last = max((block.part for block in found.blocks), default=-1)
        names = (f"partition {part} of the DataFrame" for part in range(last + 1))
        return replace(found, parts=tuple((name, 0) for name in names))
    except PartError as refused:
        error, where = refused.error, f"In partition {refused.part} of the DataFrame: "
        detail = error.detail and where + error.detail
        raise DataError(error.message, detail=detail, hint=error.hint) from None


def write_parts(spark: SparkSession, parts: int, read: Read, target: Target) -> StoredRows:
    """As `write_dataframe` the rows of parts that tasks `read`, by their numbers from 0 on: it
    travels by value.

    Raises: PartError for what does not fit, and for what `read` raises as DataError; as above.
    """
    numbers = spark.range(0, parts, 1, max(parts, 1))
    return _written(numbers, read, target)


def sees_store(spark: SparkSession, directory: str) -> bool:
    """Whether executors see the store that this process has in a directory. Cost: a job of a small
    task for each core that Spark says it has."""
    mark = _mark(directory)
    context = getattr(spark, "_sc", None)  # none over Spark Connect
    tasks = max(_PROBES, 0 if context is None else int(context.defaultParallelism))

    def look(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from operators.executor.spark.load import has_mark

        for batch in batches:
            seen = [has_mark(directory, mark)] * batch.num_rows
            yield pa.RecordBatch.from_arrays([pa.array(seen)], ["seen"])

    told = spark.range(0, tasks, 1, tasks).mapInArrow(look, "seen boolean").toArrow()
    return all(told["seen"].to_pylist())


def unseen(directory: str) -> SqlViewError:
    """What says that executors do not see the store."""
    return SqlViewError(
        "Spark's executors do not see the store",
        detail=f"A task found no such store in {directory}.",
        hint="Open the store in a directory that all executors see under this path, or go on with "
        'placement="inline".',
    )


def has_mark(directory: str, mark: bytes) -> bool:
    """Whether the store in the directory is the one whose own file says `mark`."""
    try:
        return _mark(directory) == mark
    except OSError:
        return False


def _mark(directory: str) -> bytes:
    return read(os.path.join(directory, "store.json"))


def _written(df: DataFrame, read: Read | None, target: Target) -> StoredRows:
    values, schema, key = target.values, target.schema, target.key
    mark = _mark(values.directory)
    lent = values.lend()
    order = _Order(
        values.directory, mark, lent.token, schema, key, target.cast, target.zone, target.more
    )
    try:
        told = df.mapInArrow(_writer(order, read), _SCHEMA).toArrow().to_pylist()
        errors = [row for row in told if row["error"] is not None]
        if errors:
            raise _error(min(errors, key=lambda row: int(row["partition"])), values.directory)
        return StoredRows(schema, *_found(told, len(key), values.directory), lent)
    except BaseException:
        values.give_back(lent.token)  # whoever keeps the error keeps this one
        raise


def _found(
    told: list[dict[str, Any]], width: int, directory: str
) -> tuple[MappedFiles, tuple[StoredBlock, ...], tuple[int, ...]]:
    """The files, their blocks in order, and the columns with NULLs. `width`: columns of the key."""
    found: list[tuple[tuple[int, int], StoredBlock]] = []
    nulls: set[int] = set()
    for row in told:
        segment = segment_of(row, width)
        nulls.update(segment.nulls)
        places = ((row["partition"], number) for number in segment.numbers)
        found += zip(places, segment.blocks, strict=True)
    blocks: list[tuple[tuple[int, ...], StoredBlock]] = []
    before: dict[int, int] = {}
    for place, block in sorted(found, key=lambda each: each[0]):
        part = place[0]
        at = before.get(part, 0)
        before[part] = at + block.rows
        blocks.append((place, replace(block, part=part, before=at)))
    ends = [block.ends for _, block in blocks if block.ends is not None]
    if len(ends) == len(blocks):
        # Spark deals files out by size: where keys ascend in each block, they may in all.
        blocks = [
            (tuple(first.tolist()), block)
            for (first, _), (_, block) in zip(ends, blocks, strict=True)
        ]
    files = MappedFiles(directory)
    files.open([row["name"] for row in told])
    ordered = tuple(block for _, block in sorted(blocks, key=lambda each: each[0]))
    return files, ordered, tuple(sorted(nulls))


def _writer(order: _Order, read: Read | None) -> Any:
    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from operators.executor.spark.load import write_partition

        yield from write_partition(order, read, batches)

    return write


def write_partition(
    order: _Order, read: Read | None, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Write one partition, or the parts that it numbers, in a task; yields a row for each complete
    file, or for what is wrong."""
    from pyspark import TaskContext

    context = TaskContext.get()
    # Attempts have names of their own; outside of Spark drawn ones.
    partition, attempt = (
        (0, secrets.randbits(60))
        if context is None
        else (context.partitionId(), context.taskAttemptId())
    )
    if not has_mark(order.directory, order.mark):
        yield _told(partition, error={"unseen": True})
        return
    numbers = count(1)

    def new_path() -> str:
        return os.path.join(order.directory, f"rows-{order.token}-{attempt}-{next(numbers)}")

    zone = zones.find(order.zone)
    assert zone is not None, "the driver knows it"
    tables = _batches(batches) if read is None else _parts(read, batches)
    try:
        with naive_in(lambda: zone):
            reader = arrow.TableReader(order.schema, exact=not order.more)
            columns = (reader.columns(table, order.cast, first) for table, first in tables)
            for segment in write_rows(columns, order.schema, order.key, new_path):
                yield _told(partition, segment)
    except DataError as error:
        said = {"message": error.message, "detail": error.detail, "hint": error.hint}
        yield _told(partition, error=said)


def _batches(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[pa.RecordBatch, int]]:
    first = 0
    for batch in batches:
        yield batch, first
        first += batch.num_rows


def _parts(read: Read, numbers: Iterator[pa.RecordBatch]) -> Iterator[tuple[pa.Table, int]]:
    """Of a partition that has one number, which is its own."""
    for batch in numbers:
        for number in batch.column(0).to_pylist():
            yield from read(number)


def _told(
    partition: int, segment: Segment | None = None, error: dict[str, Any] | None = None
) -> pa.RecordBatch:
    """A row of _SCHEMA. `ends`: of each block whether it has some, and those; `places`: of each
    array the block, and a row of `Home.places`."""
    row: dict[str, Any] = {"partition": partition, "error": error and json.dumps(error)}
    if segment is not None:
        row |= told_of(segment)
    return pa.RecordBatch.from_pylist([row], _TOLD)


def told_of(segment: Segment) -> dict[str, Any]:
    """A segment as lists of numbers, and its name."""
    blocks = segment.blocks
    ends = [n for b in blocks for n in ([0] if b.ends is None else [1, *b.ends.flat])]
    places = [n for i, b in enumerate(blocks) for at in b.home.places for n in (i, *at)]
    return {
        "name": blocks[0].home.file,
        "numbers": list(segment.numbers),
        "rows": [block.rows for block in blocks],
        "ends": [*map(int, ends)],
        "nulls": list(segment.nulls),
        "places": [*map(int, places)],
    }


def segment_of(row: dict[str, Any], width: int) -> Segment:
    """What `told_of` was given, of a key of so many columns."""
    places = np.array(row["places"], np.int64).reshape(-1, 5)
    ends = iter(row["ends"])
    blocks = []
    for at, rows in enumerate(row["rows"]):
        found = None
        if next(ends):
            found = np.array([next(ends) for _ in range(2 * width)], np.int64).reshape(2, width)
        home = Home(row["name"], places[places[:, 0] == at, 1:].copy())
        blocks.append(StoredBlock(home, rows, found))
    return Segment(tuple(row["numbers"]), tuple(blocks), tuple(row["nulls"]))


def _error(row: dict[str, Any], directory: str) -> Exception:
    said = json.loads(row["error"])
    if "unseen" in said:
        return unseen(directory)
    error = DataError(said["message"], detail=said["detail"], hint=said["hint"])
    return PartError(row["partition"], error)
