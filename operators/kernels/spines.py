"""Searching and merging the sorted batches of an index.

A batch is keys int64[w, n] and rows int64[n], sorted by (bucket, key, row), with the first position
of each of the 64 buckets in offsets int64[65]. A spine is handed over as one int64[b, 4] table:
the addresses of keys, rows and offsets, and n, for each of its b batches; key word w of entry i of
a batch is at keys + 8 * (w * n + i).
"""

from __future__ import annotations

import numpy as np

from operators.kernels.jit import BOOLS_OUT, INT64, INTS, INTS2, INTS2_OUT, INTS_OUT, kernel
from operators.kernels.memory import bit_is_set, load_i64
from operators.kernels.sorting import BUCKETS, bucket_of

#: Entries that a batch has in a row before a merge looks for the whole run.
STREAK = 6


@kernel(signatures=[(INTS2, INTS, INTS, INTS2_OUT, INTS_OUT, INTS_OUT)])
def copy_batch(keys, rows, order, out_keys, out_rows, out_offsets):
    """Gather a new batch into its sorted order; out_offsets int64[65]: where each bucket begins."""
    out_offsets[:] = 0
    leading = keys[0]
    for i in range(order.shape[0]):
        at = order[i]
        out_rows[i] = rows[at]
        out_keys[0, i] = leading[at]
        out_offsets[bucket_of(leading[at]) + 1] += 1
    for w in range(1, keys.shape[0]):
        for i in range(order.shape[0]):
            out_keys[w, i] = keys[w, order[i]]
    for b in range(BUCKETS):
        out_offsets[b + 1] += out_offsets[b]


@kernel(signatures=[(INTS2, INTS, INTS2_OUT, BOOLS_OUT)])
def follow(keys, offsets, last, some):
    """Whether a batch goes after all that came before it: in each bucket its keys are not below
    `last` int64[w, 64], the greatest so far where there are `some` bool[64]. Both become those with
    the batch, or of the batch alone if it does not."""
    follows = True
    for b in range(BUCKETS):
        first = offsets[b]
        if some[b] and first < offsets[b + 1]:
            for w in range(keys.shape[0]):
                if keys[w, first] != last[w, b]:
                    follows = follows and keys[w, first] > last[w, b]
                    break
    for b in range(BUCKETS):
        end = offsets[b + 1]
        if offsets[b] < end:
            for w in range(keys.shape[0]):
                last[w, b] = keys[w, end - 1]
            some[b] = True
        elif not follows:
            some[b] = False
    return follows


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


@kernel(signatures=[(INTS2, INTS, INTS, INTS2_OUT, INTS_OUT, INTS_OUT, INTS_OUT, INT64)])
def concatenate(spine, dead, died_row, out_keys, out_rows, out_offsets, state, fuel):
    """Go on joining batches each of which goes after those before it, for about `fuel` entries;
    entries whose row is gone are left out. spine int64[b, 4]: see the module. state int64[4] =
    (bucket, batch, entries of it taken, entries written); done when the bucket is 64."""
    clean = True
    for address in dead:
        clean = clean and address == 0
    bucket, batch, taken, at = state[0], state[1], state[2], state[3]
    words = out_keys.shape[0]
    while bucket < BUCKETS:
        while batch < spine.shape[0]:
            keys = spine[batch, 0]
            rows = spine[batch, 1]
            n = spine[batch, 3]
            first = load_i64(spine[batch, 2], bucket) + taken
            count = min(load_i64(spine[batch, 2], bucket + 1) - first, fuel)
            if clean:
                for i in range(count):
                    out_rows[at + i] = load_i64(rows, first + i)
                for w in range(words):
                    source = keys + 8 * (w * n + first)
                    for i in range(count):
                        out_keys[w, at + i] = load_i64(source, i)
                at += count
            else:
                for i in range(first, first + count):
                    row = load_i64(rows, i)
                    if not _is_gone(row, dead, died_row):
                        out_rows[at] = row
                        for w in range(words):
                            out_keys[w, at] = load_i64(keys, w * n + i)
                        at += 1
            fuel -= count
            taken += count
            if fuel <= 0:
                state[0], state[1], state[2], state[3] = bucket, batch, taken, at
                return
            batch += 1
            taken = 0
        bucket += 1
        batch = 0
        out_offsets[bucket] = at
    state[0], state[1], state[2], state[3] = bucket, batch, taken, at


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
