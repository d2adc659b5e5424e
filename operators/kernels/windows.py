"""Kernels of windows: where frames begin and end, sums and extremes over them, and the rows around
those that change.

Rows lie partition after partition, in order; the frame of row i is rows [low[i], high[i]), of its
own partition.
"""

from __future__ import annotations

import numpy as np

from operators.kernels.fronts import _entries_equal, _entry_before
from operators.kernels.grouping import _add
from operators.kernels.jit import BOOL, BOOLS, INT64, INTS, INTS2, INTS2_OUT, INTS_OUT, kernel
from operators.kernels.memory import load_i64
from operators.kernels.sorting import bucket_of
from operators.kernels.spines import leading
from operators.kernels.versions import NEVER, born_at, died_at


@kernel
def _compared(keys, i, bounds, j):
    for w in range(keys.shape[0]):
        if keys[w, i] != bounds[w, j]:
            return -1 if keys[w, i] < bounds[w, j] else 1
    return 0


@kernel(signatures=[(INTS2, INTS2, INTS, INTS, BOOL, INTS_OUT)])
def seek(keys, bounds, start, end, behind, out):
    """For each row the first of [start[i], end[i]) whose key is not before its bound; `behind`: is
    behind it. Keys and bounds int64[w, n], keys ascending within a partition.
    Cost: a binary search a row."""
    for i in range(out.shape[0]):
        low, high = start[i], end[i]
        while low < high:
            middle = (low + high) >> 1
            order = _compared(keys, middle, bounds, i)
            if order < 0 or (behind and order == 0):
                low = middle + 1
            else:
                high = middle
        out[i] = low


@kernel(signatures=[(INTS2, BOOLS, INTS, INTS, INTS2_OUT)])
def sums(values, valid, low, high, out):
    """Exact sums of the valid values of each frame (length 0: all are). Shapes: values int64[n, 2],
    of two words; out int64[3, frames]: low word, high word, and the one above. Cost: O(n)."""
    n = values.shape[0]
    before = np.zeros((3, n + 1), np.int64)
    for i in range(n):
        a, b, c = before[0, i], before[1, i], before[2, i]
        if valid.shape[0] == 0 or valid[i]:
            a, b, c = _add(a, b, c, values[i, 0], values[i, 1], values[i, 1] >> 63)
        before[0, i + 1], before[1, i + 1], before[2, i + 1] = a, b, c
    for i in range(low.shape[0]):
        first, last = low[i], high[i]
        # Minus x is the complement of x, plus one.
        a, b, c = ~before[0, first], ~before[1, first], ~before[2, first]
        one, none = np.int64(1), np.int64(0)
        a, b, c = _add(a, b, c, one, none, none)
        a, b, c = _add(a, b, c, before[0, last], before[1, last], before[2, last])
        out[0, i], out[1, i], out[2, i] = a, b, c


@kernel(signatures=[(INTS, BOOLS, INTS, INTS, INTS, INTS_OUT)])
def least(rank, valid, starts, low, high, out):
    """The row of the least rank in each frame, of those that are valid (length 0: all are), or -1.

    starts int64[partitions + 1]. Requires: low and high do not descend within a partition.
    Cost: O(n): what is behind a lesser rank is no candidate any more.
    """
    waiting = np.empty(rank.shape[0], np.int64)
    for p in range(starts.shape[0] - 1):
        head = tail = np.int64(0)
        taken = starts[p]
        for i in range(starts[p], starts[p + 1]):
            while taken < high[i]:
                if valid.shape[0] == 0 or valid[taken]:
                    while tail > head and rank[waiting[tail - 1]] > rank[taken]:
                        tail -= 1
                    waiting[tail] = taken
                    tail += 1
                taken += 1
            while head < tail and waiting[head] < low[i]:
                head += 1
            out[i] = waiting[head] if head < tail and low[i] < high[i] else np.int64(-1)


@kernel
def _extreme_entry(spine, at, shift, start, end, key, place, stride, words, width, last):
    """The batch whose entry at at[b] + shift comes first, or, if `last`, comes last, of those in
    [start[b], end[b]) whose first `words` words are those of key `place`; -1: there is none."""
    best = np.int64(-1)
    for b in range(spine.shape[0]):
        i = at[b] + shift
        if i < start[b] or i >= end[b]:
            continue
        if not _entries_equal(spine[b, 0], spine[b, 3], i, key, stride, place, words):
            continue
        if best >= 0:
            j = at[best] + shift
            if last:
                better = _entry_before(
                    spine[best, 0], spine[best, 3], j, spine[b, 0], spine[b, 3], i, width
                )
            else:
                better = _entry_before(
                    spine[b, 0], spine[b, 3], i, spine[best, 0], spine[best, 3], j, width
                )
            if not better:
                continue
        best = np.int64(b)
    return best


@kernel(
    signatures=[
        (INTS2, INT64, INTS2, INT64, INT64, INTS, INTS, INTS, INTS, INTS, INTS_OUT, INTS_OUT,
         INTS_OUT)
    ]
)  # fmt: skip
def neighbours(
    spine, words, keys, reach, since, dead, born_first, born_time, died_row, died_time,
    out_group, out_row, work,
):  # fmt: skip
    """The rows around some keys of an ordered index: `reach` rows on each side, in the same
    partition, that lived before `since` and still do, and what lies between; those that died
    earlier left out. Rows of one group lie one behind the other in the index.

    Shapes: spine int64[b, 4] (addresses of keys, rows, offsets; n), keys int64[width, m] sorted by
    (bucket, key), of which `words` are the partition's, out int64[capacity], work int64[2]. Returns
    how many; beyond the capacity they are counted only. Rows whose keys are equal are all there,
    or none of them.
    Cost: a seek for each group and batch, and the rows around the keys.
    """
    batches, width, m = spine.shape[0], keys.shape[0], keys.shape[1]
    sought = np.int64(keys.ctypes.data)
    head = np.zeros(batches, np.int64)
    tail = np.zeros(batches, np.int64)
    start = np.zeros(batches, np.int64)
    end = np.zeros(batches, np.int64)
    count, group, i = np.int64(0), np.int64(-1), np.int64(0)
    zero, one = np.int64(0), np.int64(1)
    while i < m:
        group += 1
        first = i
        bucket = bucket_of(keys[0, i])
        for b in range(batches):
            start[b] = load_i64(spine[b, 2], bucket)
            end[b] = load_i64(spine[b, 2], bucket + 1)
            before = leading(spine[b, 0], spine[b, 3], start[b], end[b], sought, m, i, width, False)
            head[b] = tail[b] = start[b] + before
            work[1] += 1
        # Backwards: what comes last of what is before the key.
        begin, stable = count, np.int64(0)
        kept_batch, kept_entry = np.int64(-1), np.int64(0)
        while True:
            b = _extreme_entry(spine, tail, -one, start, end, sought, first, m, words, width, True)
            if b < 0:
                break
            entry = tail[b] - 1
            if stable >= reach and not _entries_equal(
                spine[b, 0], spine[b, 3], entry,
                spine[kept_batch, 0], spine[kept_batch, 3], kept_entry, width,
            ):  # fmt: skip
                break
            tail[b] = entry
            work[0] += 1
            row = load_i64(spine[b, 1], entry)
            died = died_at(row, dead, died_row, died_time)
            if died < since:
                continue
            if count < out_row.shape[0]:
                out_group[count], out_row[count] = group, row
            count += 1
            kept_batch, kept_entry = b, entry
            if died == NEVER and born_at(row, born_first, born_time) < since:
                stable += 1
        low, high = begin, min(count, out_row.shape[0]) - 1
        while low < high:
            out_row[low], out_row[high] = out_row[high], out_row[low]
            low += 1
            high -= 1
        # Forwards, as far again as to see whether the next key is near.
        committed = count
        stable = np.int64(0)
        kept_batch = np.int64(-1)
        while True:
            b = _extreme_entry(spine, head, zero, start, end, sought, first, m, words, width, False)
            while i < m and _entries_equal(sought, m, i, sought, m, first, words):
                if b >= 0 and _entry_before(spine[b, 0], spine[b, 3], head[b], sought, m, i, width):
                    break
                i += 1
                stable = np.int64(0)
                committed = count
            if b < 0:
                break
            entry = head[b]
            tied = kept_batch >= 0 and _entries_equal(
                spine[b, 0], spine[b, 3], entry,
                spine[kept_batch, 0], spine[kept_batch, 3], kept_entry, width,
            )  # fmt: skip
            if stable >= 2 * reach and not tied:
                break
            head[b] = entry + 1
            work[0] += 1
            row = load_i64(spine[b, 1], entry)
            died = died_at(row, dead, died_row, died_time)
            if died < since:
                continue
            if count < out_row.shape[0]:
                out_group[count], out_row[count] = group, row
            all_before = committed == count
            count += 1
            if stable < reach or (tied and all_before):
                committed = count
            kept_batch, kept_entry = b, entry
            if died == NEVER and born_at(row, born_first, born_time) < since:
                stable += 1
        count = committed
    return count
