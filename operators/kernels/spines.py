"""Searching and merging the sorted batches of an index.

A batch is keys int64[w, n] and rows int64[n], sorted by (bucket, key, row), with the first position
of each of the 64 buckets in offsets int64[65]. A spine is handed over as one int64[b, 4] table:
the addresses of keys, rows and offsets, and n, for each of its b batches; key word w of entry i of
a batch is at keys + 8 * (w * n + i).
"""

from __future__ import annotations

import numpy as np

from operators.kernels.jit import BOOL, INT64, INTS, INTS2, INTS2_OUT, INTS_OUT, kernel
from operators.kernels.memory import bit_is_set, load_i64
from operators.kernels.sorting import BUCKETS, bucket_of
from operators.kernels.versions import is_visible


@kernel
def _below(keys, n, i, probes, p):
    """Whether entry i's key sorts before probe p, on the probe's words."""
    for w in range(probes.shape[0]):
        a = load_i64(keys, w * n + i)
        b = probes[w, p]
        if a < b:
            return True
        if a > b:
            return False
    return False


@kernel
def _equal(keys, n, i, probes, p):
    for w in range(probes.shape[0]):
        if load_i64(keys, w * n + i) != probes[w, p]:
            return False
    return True


@kernel
def _gallop(keys, n, start, end, probes, p):
    """First position in [start, end) whose key is not below probe p; the work is logarithmic in
    the distance from start (Shared Arrangements §5.3.1, alternating seeks)."""
    if start >= end or not _below(keys, n, start, probes, p):
        return start
    low = start
    step = np.int64(1)
    while low + step < end and _below(keys, n, low + step, probes, p):
        low += step
        step <<= 1
    high = min(low + step, end)
    low += 1
    while low < high:
        middle = (low + high) >> 1
        if _below(keys, n, middle, probes, p):
            low = middle + 1
        else:
            high = middle
    return low


@kernel(
    signatures=[
        (
            INTS2,
            INTS2,
            INTS,
            INTS,
            BOOL,
            BOOL,
            INTS,
            INTS,
            INTS,
            INTS,
            INTS,
            INTS,
            INTS_OUT,
            INTS_OUT,
            INTS_OUT,
        )
    ]
)
def half_join(
    spine, probes, order, times, as_of, check_time, bits,
    dead, born_first, born_time, died_row, died_time,
    out_probe, out_row, work,
):  # fmt: skip
    """Pairs (probe, visible row of the index with that key prefix).

    Shapes: probes int64[w, n], times int64[n]; order int64[n] sorts probes by (bucket, key); bits
    is a slot of filter bitmaps, or of length 0 for no filter. out_probe, out_row int64[capacity].
    `check_time` False sees every version that is in the index at all (callers filter).
    work int64[2] counts index entries visited and seeks.
    Returns: how many pairs there are; if that exceeds the capacity, call again with more.
    """
    count = np.int64(0)
    capacity = out_probe.shape[0]
    n_probes = order.shape[0]
    visited = np.int64(0)
    seeks = np.int64(0)
    for b in range(spine.shape[0]):
        keys = spine[b, 0]
        rows = spine[b, 1]
        offsets = spine[b, 2]
        n = spine[b, 3]
        bucket = np.int64(-1)
        at = np.int64(0)
        end = np.int64(0)
        for o in range(n_probes):
            p = order[o]
            here = bucket_of(probes[0, p])
            if here != bucket:
                bucket = here
                at = load_i64(offsets, bucket)
                end = load_i64(offsets, bucket + 1)
            at = _gallop(keys, n, at, end, probes, p)
            seeks += 1
            i = at
            while i < end and _equal(keys, n, i, probes, p):
                row = load_i64(rows, i)
                visited += 1
                if bits.shape[0] == 0 or bit_is_set(bits, row):
                    if not check_time or is_visible(
                        row, times[p], as_of, dead, born_first, born_time, died_row, died_time
                    ):
                        if count < capacity:
                            out_probe[count] = p
                            out_row[count] = row
                        count += 1
                i += 1
    work[0] += visited
    work[1] += seeks
    return count


@kernel(signatures=[(INTS2, INTS, INTS, INTS2_OUT, INTS_OUT, INTS_OUT)])
def copy_batch(keys, rows, order, out_keys, out_rows, out_buckets):
    """Gather a new batch into its sorted order."""
    for i in range(order.shape[0]):
        source = order[i]
        out_rows[i] = rows[source]
        for w in range(keys.shape[0]):
            out_keys[w, i] = keys[w, source]
        out_buckets[i] = bucket_of(keys[0, source])


@kernel
def _before(a_keys, a_rows, i, b_keys, b_rows, j):
    for w in range(a_keys.shape[0]):
        x = a_keys[w, i]
        y = b_keys[w, j]
        if x < y:
            return True
        if x > y:
            return False
    return a_rows[i] <= b_rows[j]


@kernel
def _is_gone(row, dead, died_row):
    """Whether no reader can see the row any more: dead, and not among the deaths still told."""
    if not bit_is_set(dead, row):
        return False
    left = np.int64(0)
    right = np.int64(died_row.shape[0])
    while left < right:
        middle = (left + right) >> 1
        if died_row[middle] < row:
            left = middle + 1
        else:
            right = middle
    return left == died_row.shape[0] or died_row[left] != row


@kernel(
    signatures=[
        (
            INTS2,
            INTS,
            INTS,
            INTS2,
            INTS,
            INTS,
            INTS,
            INTS,
            INTS2_OUT,
            INTS_OUT,
            INTS_OUT,
            INTS_OUT,
            INT64,
        )
    ]
)
def merge(
    a_keys, a_rows, a_offsets, b_keys, b_rows, b_offsets,
    dead, died_row, out_keys, out_rows, out_offsets, state, fuel,
):  # fmt: skip
    """Go on merging two batches, for at most about `fuel` entries; entries whose row is gone are
    left out. state int64[4] = (bucket, position in a, position in b, entries written); done when
    the bucket is 64. Returns the fuel left (0 if not done).
    """
    bucket, i, j, at = state[0], state[1], state[2], state[3]
    while bucket < BUCKETS:
        a_end = a_offsets[bucket + 1]
        b_end = b_offsets[bucket + 1]
        while i < a_end or j < b_end:
            if fuel <= 0:
                state[0], state[1], state[2], state[3] = bucket, i, j, at
                return np.int64(0)
            fuel -= 1
            if j >= b_end or (i < a_end and _before(a_keys, a_rows, i, b_keys, b_rows, j)):
                row = a_rows[i]
                if not _is_gone(row, dead, died_row):
                    out_rows[at] = row
                    for w in range(a_keys.shape[0]):
                        out_keys[w, at] = a_keys[w, i]
                    at += 1
                i += 1
            else:
                row = b_rows[j]
                if not _is_gone(row, dead, died_row):
                    out_rows[at] = row
                    for w in range(b_keys.shape[0]):
                        out_keys[w, at] = b_keys[w, j]
                    at += 1
                j += 1
        bucket += 1
        out_offsets[bucket] = at
    state[0], state[1], state[2], state[3] = bucket, i, j, at
    return fuel
