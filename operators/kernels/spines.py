"""Searching and merging the sorted batches of an index.

A batch is keys int64[w, n] and rows int64[n], sorted by (bucket, key, row), with the first position
of each of the 64 buckets in offsets int64[65]. A spine is handed over as one int64[b, 4] table:
the addresses of keys, rows and offsets, and n, for each of its b batches; key word w of entry i of
a batch is at keys + 8 * (w * n + i).
"""

from __future__ import annotations

import numpy as np

from operators.kernels.jit import BOOLS_OUT, INT64, INTS, INTS2, INTS2_OUT, INTS_OUT, kernel
from operators.kernels.memory import bit_is_set, load_i64, store_i64
from operators.kernels.sorting import BUCKETS, bucket_starts

#: Entries that a merge takes one by one before it looks whether one batch has a whole run.
CHUNK = 32


@kernel(signatures=[(INTS2, INTS, INTS, INTS2_OUT, INTS_OUT, INTS_OUT)])
def copy_batch(keys, rows, order, out_keys, out_rows, out_offsets):
    """Gather a new batch into its sorted order; out_offsets int64[65]: where each bucket begins."""
    for i in range(order.shape[0]):
        out_rows[i] = rows[order[i]]
    for w in range(keys.shape[0]):
        for i in range(order.shape[0]):
            out_keys[w, i] = keys[w, order[i]]
    bucket_starts(out_keys[0], order.shape[0], out_offsets)


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
def _in_order(a, a_stride, i, b, b_stride, j, words, tie):
    """Whether key i at address a goes before key j at address b; `tie` if they are equal."""
    for w in range(words):
        x = load_i64(a, w * a_stride + i)
        y = load_i64(b, w * b_stride + j)
        if x != y:
            return x < y
    return tie


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
def leading(a, a_stride, start, end, b, b_stride, j, words, tie):
    """How many keys at address a, from `start` on, go before key j at address b; the work is
    logarithmic in that."""
    low = start - 1
    step = np.int64(1)
    while low + step < end and _in_order(a, a_stride, low + step, b, b_stride, j, words, tie):
        low += step
        step <<= 1
    high = min(low + step, end)
    low += 1
    while low < high:
        middle = (low + high) >> 1
        if _in_order(a, a_stride, middle, b, b_stride, j, words, tie):
            low = middle + 1
        else:
            high = middle
    return low - start


@kernel
def _move(keys, rows, start, count, clean, dead, died_row, out_keys, out_rows, at):
    """Append `count` entries, less those that are gone; returns the entries written so far."""
    if clean and count > 1:
        for i in range(count):
            out_rows[at + i] = rows[start + i]
        for w in range(keys.shape[0]):
            for i in range(count):
                out_keys[w, at + i] = keys[w, start + i]
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

    Requires: of an equal key, the rows of a go before those of b, as they do where a's entries were
    inserted before b's. Which batch is next is arithmetic and no branch, which would be guessed
    wrong every other time. Where one batch has many entries in a row, as with ascending keys, they
    are found by galloping and copied at once.
    """
    clean = True
    for address in dead:
        clean = clean and address == 0
    bucket, i, j, at = state[0], state[1], state[2], state[3]
    words = np.int64(a_keys.shape[0])
    n_a, n_b, n_out = a_rows.shape[0], b_rows.shape[0], out_rows.shape[0]
    a_address, b_address = np.int64(a_keys.ctypes.data), np.int64(b_keys.ctypes.data)
    from_rows, other_rows = np.int64(a_rows.ctypes.data), np.int64(b_rows.ctypes.data)
    to_keys, to_rows = np.int64(out_keys.ctypes.data), np.int64(out_rows.ctypes.data)
    while bucket < BUCKETS:
        a_end = a_offsets[bucket + 1]
        b_end = b_offsets[bucket + 1]
        while i < a_end or j < b_end:
            if fuel <= 0:
                state[0], state[1], state[2], state[3] = bucket, i, j, at
                return np.int64(0)
            # Neither batch can end within the chunk.
            chunk = min(a_end - i, b_end - j, fuel, CHUNK)
            begin = i
            for _ in range(chunk):
                x = load_i64(a_address, i)
                y = load_i64(b_address, j)
                left = x < y
                if x == y:
                    left = _in_order(
                        a_address + 8 * n_a, n_a, i, b_address + 8 * n_b, n_b, j, words - 1, True
                    )
                row = load_i64(from_rows + 8 * i if left else other_rows + 8 * j, 0)
                store_i64(to_rows, at, row)
                store_i64(to_keys, at, x if left else y)
                for w in range(1, words):
                    source = a_address + 8 * (w * n_a + i)
                    other = b_address + 8 * (w * n_b + j)
                    store_i64(to_keys, w * n_out + at, load_i64(source if left else other, 0))
                at += np.int64(clean or not _is_gone(row, dead, died_row))
                i += np.int64(left)
                j += np.int64(not left)
            fuel -= chunk
            if i == begin + chunk and i < a_end:
                run = min(a_end - i, fuel)
                if j < b_end:
                    run = leading(a_address, n_a, i, i + run, b_address, n_b, j, words, True)
                at = _move(a_keys, a_rows, i, run, clean, dead, died_row, out_keys, out_rows, at)
                i += run
                fuel -= run
            elif i == begin and j < b_end:
                run = min(b_end - j, fuel)
                if i < a_end:
                    run = leading(b_address, n_b, j, j + run, a_address, n_a, i, words, False)
                at = _move(b_keys, b_rows, j, run, clean, dead, died_row, out_keys, out_rows, at)
                j += run
                fuel -= run
        bucket += 1
        out_offsets[bucket] = at
    state[0], state[1], state[2], state[3] = bucket, i, j, at
    return fuel
