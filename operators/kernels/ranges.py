"""The kernel of thresholds: entries of an ordered index between two bounds."""

from __future__ import annotations

import numpy as np

from operators.kernels.jit import BOOL, BOOLS, INTS, INTS2, INTS_OUT, kernel
from operators.kernels.memory import load_i64
from operators.kernels.sorting import bucket_of
from operators.kernels.versions import is_visible


@kernel
def _compare_entry(keys, n, i, partition, p, bound, words):
    """-1, 0 or 1 as entry i's key sorts before, on or after (partition p, bound p), of whose bound
    only the first `words` words count."""
    split = partition.shape[0]
    for w in range(split):
        a = load_i64(keys, w * n + i)
        b = partition[w, p]
        if a != b:
            return -1 if a < b else 1
    for w in range(words):
        a = load_i64(keys, (split + w) * n + i)
        b = bound[w, p]
        if a != b:
            return -1 if a < b else 1
    return 0


@kernel(
    signatures=[
        (
            INTS2,
            INTS2,
            INTS2,
            INTS,
            BOOLS,
            INTS2,
            INTS,
            BOOLS,
            INTS,
            BOOL,
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
def between(
    spine, partition, low, low_words, low_open, high, high_words, high_open, times, as_of,
    dead, born_first, born_time, died_row, died_time, out_probe, out_row, work,
):  # fmt: skip
    """Visible entries of each probe's partition between its bounds.

    Shapes: spine int64[b, 4]; partition int64[p, m]; low, high int64[o, m], of which the first
    low_words[m], high_words[m] count; an open bound leaves out what equals it; out int64[capacity];
    work int64[2]. Returns: how many; beyond the capacity they are counted only.
    Cost: one binary search per probe and batch, and the entries in between.
    """
    count = np.int64(0)
    for b in range(spine.shape[0]):
        keys = spine[b, 0]
        n = spine[b, 3]
        for p in range(partition.shape[1]):
            bucket = bucket_of(partition[0, p])
            left = load_i64(spine[b, 2], bucket)
            end = load_i64(spine[b, 2], bucket + 1)
            right = end
            work[1] += 1
            while left < right:
                middle = (left + right) >> 1
                side = _compare_entry(keys, n, middle, partition, p, low, low_words[p])
                if side < 0 or (side == 0 and low_open[p]):
                    left = middle + 1
                else:
                    right = middle
            while left < end:
                side = _compare_entry(keys, n, left, partition, p, high, high_words[p])
                if side > 0 or (side == 0 and high_open[p]):
                    break
                row = load_i64(spine[b, 1], left)
                work[0] += 1
                if is_visible(
                    row, times[p], as_of, dead, born_first, born_time, died_row, died_time
                ):
                    if count < out_row.shape[0]:
                        out_probe[count] = p
                        out_row[count] = row
                    count += 1
                left += 1
    return count
