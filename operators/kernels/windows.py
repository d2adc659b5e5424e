"""Kernels of windows: where frames begin and end, and sums and extremes over them.

Rows lie partition after partition, in order; the frame of row i is rows [low[i], high[i]), of its
own partition.
"""

from __future__ import annotations

import numpy as np

from operators.kernels.grouping import _add
from operators.kernels.jit import BOOL, BOOLS, INTS, INTS2, INTS2_OUT, INTS_OUT, kernel


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
