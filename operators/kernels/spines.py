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

#: Entries that a batch has in a row before a merge looks for the whole run.
STREAK = 6


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


@kernel(signatures=[(INTS2, INTS2, INTS, INTS, INTS, INTS_OUT, INTS_OUT, INTS_OUT)])
def living(spine, probes, order, limit, dead, out_probe, out_row, work):
    """Pairs (probe, row with that key that has not died), at most limit[p] for probe p.

    Shapes: as half_join; limit int64[n]; out int64[limit.sum()]. Returns: how many pairs.
    Cost: one seek per probe and batch; entries are visited until the limit is reached.
    """
    count = np.int64(0)
    found = np.zeros(probes.shape[1], np.int64)
    for b in range(spine.shape[0]):
        keys, rows, offsets, n = spine[b, 0], spine[b, 1], spine[b, 2], spine[b, 3]
        bucket = np.int64(-1)
        at = np.int64(0)
        end = np.int64(0)
        for o in range(order.shape[0]):
            p = order[o]
            here = bucket_of(probes[0, p])
            if here != bucket:
                bucket = here
                at = load_i64(offsets, bucket)
                end = load_i64(offsets, bucket + 1)
            at = _gallop(keys, n, at, end, probes, p)
            work[1] += 1
            i = at
            while i < end and found[p] < limit[p] and _equal(keys, n, i, probes, p):
                row = load_i64(rows, i)
                work[0] += 1
                if not bit_is_set(dead, row):
                    out_probe[count] = p
                    out_row[count] = row
                    count += 1
                    found[p] += 1
                i += 1
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


@kernel
def _leading(keys, rows, start, end, other_keys, other_rows, other, first):
    """How many entries from `start` on, at least one, go before entry `other` of the other batch;
    `first`: these are of the first batch, which goes first at a tie. The first one does."""
    low = start
    step = np.int64(1)
    while low + step < end and _goes_before(
        keys, rows, low + step, other_keys, other_rows, other, first
    ):
        low += step
        step <<= 1
    high = min(low + step, end)
    low += 1
    while low < high:
        middle = (low + high) >> 1
        if _goes_before(keys, rows, middle, other_keys, other_rows, other, first):
            low = middle + 1
        else:
            high = middle
    return low - start


@kernel
def _goes_before(keys, rows, i, other_keys, other_rows, other, first):
    if first:
        return _before(keys, rows, i, other_keys, other_rows, other)
    return not _before(other_keys, other_rows, other, keys, rows, i)


@kernel
def _move(keys, rows, start, count, clean, dead, died_row, out_keys, out_rows, at):
    """Append `count` entries, less those that are gone; returns the entries written so far."""
    if clean and count > 1:
        out_rows[at : at + count] = rows[start : start + count]
        for w in range(keys.shape[0]):
            out_keys[w, at : at + count] = keys[w, start : start + count]
        return at + count
    for i in range(start, start + count):
        row = rows[i]
        if clean or not _is_gone(row, dead, died_row):
            out_rows[at] = row
            for w in range(keys.shape[0]):
                out_keys[w, at] = keys[w, i]
            at += 1
    return at


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

    Where one batch has many entries in a row, as with ascending keys, they are found by galloping
    and copied at once.
    """
    clean = True
    for address in dead:
        clean = clean and address == 0
    bucket, i, j, at = state[0], state[1], state[2], state[3]
    streak = np.int64(0)
    words = a_keys.shape[0]
    while bucket < BUCKETS:
        a_end = a_offsets[bucket + 1]
        b_end = b_offsets[bucket + 1]
        while i < a_end or j < b_end:
            if fuel <= 0:
                state[0], state[1], state[2], state[3] = bucket, i, j, at
                return np.int64(0)
            if j >= b_end:
                from_a = True
            elif i >= a_end:
                from_a = False
            else:
                x = a_keys[0, i]
                y = b_keys[0, j]
                from_a = x < y or (x == y and _before(a_keys, a_rows, i, b_keys, b_rows, j))
            streak = max(streak, 0) + 1 if from_a else min(streak, 0) - 1
            if -STREAK < streak < STREAK:
                fuel -= 1
                row = a_rows[i] if from_a else b_rows[j]
                if clean or not _is_gone(row, dead, died_row):
                    out_rows[at] = row
                    for w in range(words):
                        out_keys[w, at] = a_keys[w, i] if from_a else b_keys[w, j]
                    at += 1
                if from_a:
                    i += 1
                else:
                    j += 1
                continue
            if from_a:
                stop = min(a_end, i + fuel)
                run = stop - i
                if j < b_end:
                    run = _leading(a_keys, a_rows, i, stop, b_keys, b_rows, j, True)
                at = _move(a_keys, a_rows, i, run, clean, dead, died_row, out_keys, out_rows, at)
                i += run
            else:
                stop = min(b_end, j + fuel)
                run = stop - j
                if i < a_end:
                    run = _leading(b_keys, b_rows, j, stop, a_keys, a_rows, i, False)
                at = _move(b_keys, b_rows, j, run, clean, dead, died_row, out_keys, out_rows, at)
                j += run
            fuel -= run
        bucket += 1
        out_offsets[bucket] = at
    state[0], state[1], state[2], state[3] = bucket, i, j, at
    return fuel
