"""One batch of very many entries, sorted in pieces that fit the caches.

Sorting positions of keys that lie all over memory costs a cache miss for each look at a key, some
150 ns an entry. So the entries are dealt out to the shards piece by piece first, and each shard is
sorted by itself.

Invariant: the batch is the one that `make_batch` makes of all entries at once.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from operators.flight.column import Ints
from operators.kernels import sorting
from operators.kernels.sorting import BUCKETS
from operators.slabs import BATCHES
from operators.state.relation import PIECE_ROWS
from operators.state.spine import Batch

#: From so many entries on it pays to deal them out.
BULK_ROWS = 4 * PIECE_ROWS


def build(pieces: Iterable[tuple[Ints, Ints]], width: int) -> Batch:
    """A batch of all pieces' entries: keys int64[width, n] and rows int64[n] each.

    Requires: rows ascending over all pieces. Memory: a copy of the entries beside the batch.
    Cost: O(n) to deal them out, and a sort of each shard.
    """
    dealt = [_dealt(keys, rows) for keys, rows in pieces]
    ends = np.array([d.ends for d in dealt], np.int64).reshape(-1, BUCKETS + 1)
    offsets = np.zeros(BUCKETS + 1, np.int64)
    np.cumsum(np.diff(ends).sum(axis=0), out=offsets[1:])
    n = int(offsets[-1])
    out_keys = BATCHES.empty((width, n), np.int64)
    out_rows = BATCHES.empty((n,), np.int64)
    for shard in range(BUCKETS):
        start, end = int(offsets[shard]), int(offsets[shard + 1])
        if start == end:
            continue
        parts = [(d, slice(d.ends[shard], d.ends[shard + 1])) for d in dealt]
        keys = np.concatenate([d.keys[:, at] for d, at in parts], axis=1)
        rows = np.concatenate([d.rows[at] for d, at in parts])
        order = np.empty(end - start, np.int64)
        sorting.argsort(keys, order, np.empty(end - start, np.int64))
        out_keys[:, start:end] = np.take(keys, order, axis=1)
        out_rows[start:end] = rows[order]
    return Batch(out_keys, out_rows, offsets)


@dataclass(frozen=True, slots=True, eq=False)
class Built:
    """New entries of an index, in batches that have no bucket in common. `greatest` int64[w, n]:
    keys among which the greatest is. `repeated`: the first row whose key an earlier one has, and
    that; None where there is none, or nobody asked: then the batches count."""

    batches: tuple[Batch, ...]
    greatest: Ints
    repeated: tuple[int, int] | None


@dataclass(frozen=True, slots=True)
class _Dealt:
    """Entries by shard, each shard's in the order that they came in: those of shard s are from
    ends[s] to ends[s + 1]."""

    keys: Ints
    rows: Ints
    ends: list[int]


def _dealt(keys: Ints, rows: Ints) -> _Dealt:
    shards = np.empty(len(rows), np.int64)
    sorting.buckets_of(keys[0], shards)
    counts = np.bincount(shards, minlength=BUCKETS)
    # A stable sort of single bytes is one pass.
    order = np.argsort(shards.astype(np.uint8), kind="stable")
    ends = [0, *np.cumsum(counts).tolist()]
    return _Dealt(np.take(keys, order, axis=1), rows[order], ends)
