"""What tasks apply: the rows of a sink that come and go, found by the task of their bucket.

The task that has all changes of some buckets runs the sink's own operator on a fork of its state:
relation and index as they were published, which go on in that task's memory. What is new there it
writes into files: the rows that come as segments, the entries of the index as a sorted batch, and
which rows go. Rows that come are numbered from 0 on; the driver gives them ids, task by task, and
takes the files into its state. So its work is in proportion to the blocks and to the rows that go,
but for some 50 bytes of row ids for each row that comes.

Invariant: the sink has the rows that it would have if the driver had applied all changes.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from operators.executor.spark.load import segment_of, told_of
from operators.executor.spark.sinks import Sink, SinkOperator
from operators.flight import delta as deltas
from operators.flight.column import Column, Ints, counting
from operators.flight.delta import Delta, Pairs
from operators.nodes.store import StoreOperator
from operators.state.arrangement import ArrangementState
from operators.state.pieces import MappedFiles, Pack
from operators.state.relation import PIECE_ROWS, Relation
from operators.state.spine import Batch
from operators.state.stored import StoredBlock, write_rows

_INT64 = np.dtype(np.int64)


def apply(
    sink: Sink,
    parts: Sequence[list[Column]],
    relation: Relation,
    index: ArrangementState,
    is_indexed: bool,
    new_path: Callable[[], str],
    pack_path: str,
) -> bytes | None:
    """Apply parts to a fork of a sink's state, and write what is new; None if nothing is.

    is_indexed: see Sink.operator_over; new_path: of each segment; pack_path: of what is for this
    job alone. Returns: what `told` reads.
    """
    first, known = relation.next_row, len(index.spine.batches)
    delta = sink.apply(sink.operator_over(relation, index, is_indexed), parts)
    if len(delta) == 0:
        return None
    rows, dies = delta.bindings[0].rows, delta.diff < 0
    gone, born = rows[dies], relation.rows_from(first)
    assert len(born) + len(gone) == len(rows), "rows of one time do not come and go"
    none = np.empty(0, np.int64)
    old, new = none, none
    if delta.pairs is not None:
        old = (np.cumsum(dies) - 1)[delta.pairs.old]
        new = rows[delta.pairs.new] - first
    starts = range(0, len(born), PIECE_ROWS)
    pieces = (relation.gather_all(born[at : at + PIECE_ROWS]) for at in starts)
    segments = [told_of(s) for s in write_rows(pieces, relation.schema, (), new_path)]
    arrays = [gone, old, new]
    for batch in index.spine.batches[known:]:
        arrays += [batch.keys, batch.rows - first, batch.offsets]
    pack = Pack(pack_path)
    places = [pack.add(array) for array in arrays]
    pack.write()
    said = {
        "segments": segments,
        "pack": os.path.basename(pack.path),
        "places": [[place.offset, place.nbytes] for place in places],
    }
    return json.dumps(said).encode()


@dataclass(frozen=True, slots=True)
class Applied:
    """What one task has applied: blocks of rows that come, in `files`, and the columns with NULLs;
    entries of the index for them, keys, rows by number, offsets; ids of rows that are `gone`;
    positions in those of the ones that are replaced, `old`, and the `new` rows by number."""

    blocks: tuple[StoredBlock, ...]
    nulls: tuple[int, ...]
    files: MappedFiles
    entries: tuple[tuple[Ints, Ints, Ints], ...]
    gone: Ints
    old: Ints
    new: Ints

    @property
    def names(self) -> list[str]:
        """Of the files of rows."""
        return list(dict.fromkeys(block.home.file for block in self.blocks))


def told(payloads: Iterable[bytes], values: str, directory: str, width: int) -> Iterator[Applied]:
    """What tasks told, in their order. `values`: the directory of segments, `directory`: of the
    session; `width`: words of a key."""
    for payload in payloads:
        said: dict[str, Any] = json.loads(payload)
        own, files = MappedFiles(directory), MappedFiles(values)
        gone, old, new, *entries = (
            own.array(said["pack"], offset, nbytes, _INT64) for offset, nbytes in said["places"]
        )
        segments = [segment_of(segment, 0) for segment in said["segments"]]
        numbered = ((n, b) for s in segments for n, b in zip(s.numbers, s.blocks, strict=True))
        blocks = tuple(block for _, block in sorted(numbered, key=lambda each: each[0]))
        found = Applied(
            blocks,
            tuple(sorted({column for segment in segments for column in segment.nulls})),
            files,
            tuple(
                (keys.reshape(width, -1), rows, offsets)
                for keys, rows, offsets in zip(*(entries[i::3] for i in range(3)), strict=True)
            ),
            gone,
            old,
            new,
        )
        files.open(found.names)
        yield found


def take(operator: SinkOperator, found: Sequence[Applied], time: int) -> Delta:
    """Let a sink have what tasks applied, as of `time`; what changes in it."""
    relation, index = operator.relation, operator.index
    born, batches, pairs = [], list[Batch](), list[tuple[Ints, Ints]]()
    births = deaths = 0
    for each in found:
        if each.blocks:
            blocks = [(block.home, block.rows) for block in each.blocks]
            first = relation.append_stored(blocks, each.nulls, each.files, time)
            n = sum(block.rows for block in each.blocks)
            batches += [Batch(keys, rows + first, at) for keys, rows, at in each.entries]
            born.append(counting(n) + first)
            pairs.append((each.old + deaths, each.new + births))
            births += n
        deaths += len(each.gone)
    gone = np.concatenate([each.gone for each in found])
    if not isinstance(operator, StoreOperator) or operator.retracts:
        index.take(*batches)
    relation.kill(gone, np.full(len(gone), time, np.int64))
    rows = np.concatenate((gone, *born))
    diff = np.ones(len(rows), np.int64)
    diff[: len(gone)] = -1
    replaced = None
    if any(len(old) for old, _ in pairs):
        old, new = (np.concatenate(side) for side in zip(*pairs, strict=True))
        replaced = Pairs(old, new + len(gone), may_be_equal=False)
    return deltas.bound(relation, rows, np.full(len(rows), time, np.int64), diff, replaced)


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
