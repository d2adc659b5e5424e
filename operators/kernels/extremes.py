"""The kernel of MIN and MAX: which extremes a step's changes tell without a look at the index."""

from __future__ import annotations

import numpy as np

from operators.kernels.jit import BOOLS, BOOLS_OUT, INTS, INTS2, INTS_OUT, kernel


@kernel
def _compared(a, i, b, j):
    """-1, 0 or 1: how column i of a sorts to column j of b, word by word."""
    for w in range(a.shape[0]):
        if a[w, i] != b[w, j]:
            return -1 if a[w, i] < b[w, j] else 1
    return 0


@kernel(signatures=[(INTS, INTS, INTS, INTS, INTS2, INTS2, BOOLS, INTS_OUT, BOOLS_OUT)])
def extremes(order, starts, key_starts, diff, words, stored, has_stored, best, known):
    """The row in front of each group after its changes, where those tell: what came in or was in
    front before is in front, and nothing that sorts as far to the front left.

    Shapes: order, starts, key_starts as operators.nodes.runs.Grouping has them; diff int64[n];
    words int64[w, n], what rows are ordered by; stored int64[w, groups], that of the front before,
    where has_stored bool[groups]; best int64[runs], known bool[runs]: an input row, or -1 for what
    was stored. A group with more times than one is not known.
    """
    for g in range(key_starts.shape[0] - 1):
        first = key_starts[g]
        if key_starts[g + 1] != first + 1:
            for r in range(first, key_starts[g + 1]):
                known[r] = False
            continue
        front = np.int64(-1)
        for i in range(starts[first], starts[first + 1]):
            row = order[i]
            if diff[row] < 0:
                continue
            if front >= 0:
                comes_before = _compared(words, row, words, front) < 0
            else:
                comes_before = not has_stored[g] or _compared(words, row, stored, g) < 0
            if comes_before:
                front = row
        sure = front >= 0 or has_stored[g]
        for i in range(starts[first], starts[first + 1]):
            row = order[i]
            if sure and diff[row] < 0:
                if front >= 0:
                    sure = _compared(words, row, words, front) > 0
                else:
                    sure = _compared(words, row, stored, g) > 0
        best[first] = front
        known[first] = sure
