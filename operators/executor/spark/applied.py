"""What tasks apply: the rows of a sink that come and go, found by the task of their bucket.

The task that has all changes of some buckets runs the sink's own operator on a fork of its state:
relation and index as they were published, which go on in that task's memory. What is new there it
writes into files: the rows that come as segments, the entries of the index as a sorted batch, and
which rows go. Rows that come are numbered from 0 on; the driver gives them ids, and takes the files
into its state. So its work is in proportion to the blocks and to the rows that go, but for some 50
bytes of row ids for each row that comes.

Row ids ascend with time, in all tasks together: the rows of each time are blocks of their own, or
values that the driver appends where they are few, and it takes those of all tasks time by time.

Invariant: the sink has the rows that it would have if the driver had applied all changes.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from operator import itemgetter
from typing import Any

import numpy as np

from operators.executor.spark import blobs
from operators.executor.spark.load import segment_of, told_of
from operators.executor.spark.sinks import Sink, SinkOperator
from operators.flight import delta as deltas
from operators.flight.column import Column, Ints, concat, counting
from operators.flight.delta import Delta, Pairs
from operators.nodes.store import StoreOperator
from operators.state.arrangement import ArrangementState
from operators.state.pieces import MappedFiles, Pack
from operators.state.relation import PIECE_ROWS, Relation
from operators.state.spine import Batch
from operators.state.stored import StoredBlock, write_rows

_INT64 = np.dtype(np.int64)
_BYTES = np.dtype(np.uint8)


def apply(
    sink: Sink,
    parts: Sequence[list[Column]],
    relation: Relation,
    index: ArrangementState,
    is_indexed: bool,
    block_rows: int,
    new_path: Callable[[], str],
    pack_path: str,
) -> bytes | None:
    """Apply parts to a fork of a sink's state, and write what is new; None if nothing is.

    is_indexed: see Sink.operator_over; block_rows: so many of one time become blocks; new_path: of
    each segment; pack_path: of what is for this job alone. Returns: what `told` reads.
    """
    first, known = relation.next_row, len(index.spine.batches)
    delta = sink.apply(sink.operator_over(relation, index, is_indexed), parts)
    if len(delta) == 0:
        return None
    rows, dies = delta.bindings[0].rows, delta.diff < 0
    gone, born = rows[dies], relation.rows_from(first)
    assert len(born) + len(gone) == len(rows), "each row comes once and goes once"
    none = np.empty(0, np.int64)
    old, new = none, none
    if delta.pairs is not None:
        old = (np.cumsum(dies) - 1)[delta.pairs.old]
        new = rows[delta.pairs.new] - first
    birth = np.empty(len(born), np.int64)
    birth[rows[~dies] - first] = delta.time[~dies]
    runs: list[list[Any]] = []
    few: list[Ints] = []
    for some in np.split(born, np.flatnonzero(np.diff(birth)) + 1):
        segments = None
        if len(some) >= block_rows:
            starts = range(0, len(some), PIECE_ROWS)
            pieces = (relation.gather_all(some[at : at + PIECE_ROWS]) for at in starts)
            segments = [told_of(s) for s in write_rows(pieces, relation.schema, (), new_path)]
        elif len(some):
            few.append(some)
        if len(some):
            runs.append([int(birth[some[0] - first]), len(some), segments])
    # Those that come and go in one step are told by number, as -1, -2, …
    gone = np.where(gone < first, gone, first - 1 - gone)
    arrays: list[Any] = [gone, delta.time[dies], old, new]
    for batch in index.spine.batches[known:]:
        arrays += [batch.keys, batch.rows - first, batch.offsets]
    pack = Pack(pack_path)
    places = [pack.add(array) for array in arrays]
    values = []
    if few:
        columns = relation.gather_all(np.concatenate(few))
        values = [pack.add(np.frombuffer(b, np.uint8)) for b in blobs.encode_columns(columns)]
    pack.write()
    said = {
        "runs": runs,
        "pack": os.path.basename(pack.path),
        "places": [[place.offset, place.nbytes] for place in places],
        "values": [[place.offset, place.nbytes] for place in values],
    }
    return json.dumps(said).encode()


@dataclass(frozen=True, slots=True)
class Born:
    """`rows` of one time that come: in `blocks`, or else, if there are none, among the few."""

    time: int
    rows: int
    blocks: tuple[StoredBlock, ...]


@dataclass(frozen=True, slots=True)
class Applied:
    """What one task has applied: rows that come, in the order of their numbers, in `files` and the
    columns with NULLs there, or `few`, as values; entries of the index for them, keys, rows by
    number, offsets; ids of rows that are `gone`, numbers n of those that come as -1 - n, and when;
    positions in those of the ones that are replaced, `old`, and the `new` rows by number."""

    born: tuple[Born, ...]
    nulls: tuple[int, ...]
    files: MappedFiles
    few: list[Column]
    entries: tuple[tuple[Ints, Ints, Ints], ...]
    gone: Ints
    gone_time: Ints
    old: Ints
    new: Ints

    @property
    def names(self) -> list[str]:
        """Of the files of rows."""
        return list(dict.fromkeys(block.home.file for run in self.born for block in run.blocks))

    def __len__(self) -> int:
        """How many rows come."""
        return sum(run.rows for run in self.born)


def told(
    payloads: Iterable[bytes], values: str, directory: str, operator: SinkOperator
) -> Iterator[Applied]:
    """What tasks told of a sink, in their order. `values`: the directory of segments, `directory`:
    of the session."""
    types = [field.type for field in operator.relation.schema]
    for payload in payloads:
        said: dict[str, Any] = json.loads(payload)
        own, files = MappedFiles(directory), MappedFiles(values)
        gone, gone_time, old, new, *entries = (
            own.array(said["pack"], offset, nbytes, _INT64) for offset, nbytes in said["places"]
        )
        few = [
            blobs.decode_columns(own.array(said["pack"], offset, nbytes, _BYTES).tobytes(), types)
            for offset, nbytes in said["values"]
        ]
        born, nulls = list[Born](), set[int]()
        for time, rows, written in said["runs"]:
            segments = [segment_of(segment, 0) for segment in written or ()]
            nulls.update(column for segment in segments for column in segment.nulls)
            numbered = ((n, b) for s in segments for n, b in zip(s.numbers, s.blocks, strict=True))
            blocks = tuple(block for _, block in sorted(numbered, key=itemgetter(0)))
            born.append(Born(time, rows, blocks))
        found = Applied(
            tuple(born),
            tuple(sorted(nulls)),
            files,
            [concat(list(parts)) for parts in zip(*few, strict=True)],
            tuple(
                (keys.reshape(operator.index.width, -1), rows, offsets)
                for keys, rows, offsets in zip(*(entries[i::3] for i in range(3)), strict=True)
            ),
            gone,
            gone_time,
            old,
            new,
        )
        files.open(found.names)
        yield found


def take(operator: SinkOperator, found: Sequence[Applied]) -> Delta:
    """Let a sink have what tasks applied; what changes in it."""
    relation, index = operator.relation, operator.index
    ids = _take_born(relation, found)
    if not isinstance(operator, StoreOperator) or operator.retracts:
        index.take(
            *(
                Batch(keys, own[rows], offsets)
                for own, each in zip(ids, found, strict=True)
                for keys, rows, offsets in each.entries
            )
        )
    gone = np.concatenate([each.gone for each in found])
    gone_time = np.concatenate([each.gone_time for each in found])
    born = np.concatenate(ids)
    births = [0, *accumulate(map(len, ids))]
    deaths = [0, *accumulate(len(each.gone) for each in found)]
    for own, start, end in zip(ids, deaths, deaths[1:], strict=False):
        (here,) = (gone[start:end] < 0).nonzero()
        gone[start + here] = own[-1 - gone[start + here]]
    relation.kill(gone, gone_time)
    birth = [np.repeat([r.time for r in e.born], [r.rows for r in e.born]) for e in found]
    replaced = None
    if any(len(each.old) for each in found):
        old = np.concatenate([e.old + at for e, at in zip(found, deaths, strict=False)])
        new = np.concatenate([e.new + at for e, at in zip(found, births, strict=False)])
        replaced = Pairs(old, new + len(gone), may_be_equal=False)
    rows, diff = np.concatenate((gone, born)), np.ones(len(gone) + len(born), np.int64)
    diff[: len(gone)] = -1
    times = np.concatenate((gone_time, *birth)).astype(np.int64)
    return deltas.bound(relation, rows, times, diff, replaced)


def _take_born(relation: Relation, found: Sequence[Applied]) -> list[Ints]:
    """Let a relation have the rows that come, time by time; of each task their ids, by number."""
    ids = [np.empty(len(each), np.int64) for each in found]
    turns: list[tuple[int, Applied, Born, Ints, list[Column]]] = []
    for own, each in zip(ids, found, strict=True):
        at = few = 0
        for run in each.born:
            values = list[Column]()
            if not run.blocks:
                values = [column.part(few, few + run.rows) for column in each.few]
                few += run.rows
            turns.append((run.time, each, run, own[at : at + run.rows], values))
            at += run.rows
    waiting: list[tuple[Born, Ints, list[Column]]] = []

    def append_few() -> None:
        if waiting:
            columns = [concat(list(parts)) for parts in zip(*(w[2] for w in waiting), strict=True)]
            times = np.repeat([w[0].time for w in waiting], [w[0].rows for w in waiting])
            first = relation.append(columns, times)
            for run, own, _ in waiting:
                own[:] = counting(run.rows) + first
                first += run.rows
            waiting.clear()

    for time, each, run, own, values in sorted(turns, key=itemgetter(0)):
        if values:
            waiting.append((run, own, values))
            continue
        append_few()
        blocks = [(block.home, block.rows) for block in run.blocks]
        own[:] = counting(run.rows) + relation.append_stored(blocks, each.nulls, each.files, time)
    append_few()
    return ids


def together(relation: Relation, some: Sequence[Delta]) -> Delta:
    """Changes of a relation's own rows, one after the other."""
    if len(some) == 1:
        return some[0]
    old, new, before = list[Ints](), list[Ints](), 0
    for delta in some:
        if delta.pairs is not None:
            old.append(delta.pairs.old + before)
            new.append(delta.pairs.new + before)
        before += len(delta)
    rows, time, diff = (
        np.concatenate(parts)
        for parts in (
            [d.bindings[0].rows for d in some], [d.time for d in some], [d.diff for d in some],
        )
    )  # fmt: skip
    pairs = None
    if old:
        pairs = Pairs(np.concatenate(old), np.concatenate(new), may_be_equal=False)
    return deltas.bound(relation, rows, time, diff, pairs)
