"""The kernels of thresholds: moves of scalars, and index entries between two bounds."""

from __future__ import annotations

import numpy as np

from operators.kernels.jit import (
    BOOL,
    BOOLS,
    BOOLS2_OUT,
    INTS,
    INTS2,
    INTS2_OUT,
    INTS_OUT,
    kernel,
)
from operators.kernels.memory import load_i64
from operators.kernels.sorting import bucket_of, compare
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


@kernel(
    signatures=[
        (
            INTS,
            INTS,
            INTS2,
            INTS,
            BOOLS,
            BOOL,
            BOOL,
            BOOL,
            INTS2_OUT,
            INTS2_OUT,
            INTS2_OUT,
            INTS2_OUT,
            BOOLS2_OUT,
        )
    ]
)
def moves(
    order, starts, words, diff, told, above, inclusive, exact, places, low, high, counts, opens
):
    """The moves of scalars, and between which keys rows flip.

    Scalars of one key and time are order[starts[r]:starts[r + 1]]: one that goes (diff -1), one
    that comes (+1), or both; words int64[w, n] are their order keys. told bool[n], or length 0: all
    are; one that is not, a NULL, is as good as none. above: rows above the scalar pass, and it does
    itself if inclusive. exact: equal words prove equal values.
    Out, for m moves: places int64[2, m], where the old and the new scalar are, or -1; low, high
    int64[w, m]; counts int64[2, m], how many words of each count; opens bool[2, m], whether what
    equals them is left out. Returns: m, at most as many as there are runs.
    """
    every = words.shape[0]
    strict = exact and above != inclusive
    loose = exact and above == inclusive
    count = np.int64(0)
    for r in range(starts.shape[0] - 1):
        old = np.int64(-1)
        new = np.int64(-1)
        for i in range(starts[r], starts[r + 1]):
            row = order[i]
            if told.shape[0] == 0 or told[row]:
                if diff[row] < 0:
                    old = row
                else:
                    new = row
        if old < 0 and new < 0:
            continue
        # One scalar alone: all rows on its side, to the end of the values that are not NULL.
        alone = old < 0 or new < 0
        small = new if old < 0 else old
        great = old if new < 0 else new
        if not alone:
            side = compare(words, old, new)
            if side == 0 and exact:
                continue
            if side > 0:
                small, great = new, old
        places[0, count] = old
        places[1, count] = new
        for w in range(every):
            low[w, count] = words[w, small]
            high[w, count] = words[w, great]
        counts[0, count] = 1 if alone and not above else every
        counts[1, count] = 1 if alone and above else every
        opens[0, count] = strict and (above or not alone)
        opens[1, count] = loose and (not above or not alone)
        count += 1
    return count
