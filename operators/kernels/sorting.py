"""Sorting rows of key words, and finding where they differ.

A key is w int64 words, held as int64[w, n]: word by word, so that each is contiguous. Words compare
as signed integers, in turn.
"""

from __future__ import annotations

import numpy as np

from operators.kernels.jit import INTS, INTS2, INTS_OUT, kernel

SIGN = np.int64(-(2**63))
BUCKET_BITS = 6
BUCKETS = 1 << BUCKET_BITS
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX = np.uint64(0xBF58476D1CE4E5B9)


@kernel
def bucket_of(word):
    """The shard, 0 to 63, of a key whose leading word this is."""
    x = np.uint64(word) * _GOLDEN
    x = (x ^ (x >> np.uint64(32))) * _MIX
    return np.int64(x >> np.uint64(64 - BUCKET_BITS))


@kernel(signatures=[(INTS, INTS_OUT)])
def buckets_of(words, out):
    """out[i] = bucket_of(words[i]). Shapes: words int64[n], out int64[n]."""
    for i in range(words.shape[0]):
        out[i] = bucket_of(words[i])


@kernel
def compare(words, i, j):
    """-1, 0 or 1 as key i sorts before, with or after key j of words int64[w, n]."""
    for w in range(words.shape[0]):
        a = words[w, i]
        b = words[w, j]
        if a < b:
            return -1
        if a > b:
            return 1
    return 0


@kernel
def _is_sorted(words):
    for i in range(1, words.shape[1]):
        if compare(words, i - 1, i) > 0:
            return False
    return True


@kernel(signatures=[(INTS2, INTS_OUT, INTS_OUT)])
def argsort(words, out, scratch):
    """Stable order of the keys words int64[w, n] into out int64[n]; scratch int64[n].

    Least significant digit first, passing over digits in which no keys differ: time
    O(n × digits that vary). Sorted input costs one pass.
    """
    n = words.shape[1]
    for i in range(n):
        out[i] = i
    if n < 2 or _is_sorted(words):
        return
    if n <= 48:
        for i in range(1, n):
            x = out[i]
            j = i
            while j > 0 and compare(words, out[j - 1], x) > 0:
                out[j] = out[j - 1]
                j -= 1
            out[j] = x
        return
    digit_bits = 11 if n >= 8192 else 8
    size = np.int64(1) << digit_bits
    mask = np.uint64(size - 1)
    counts = np.empty(size, np.int64)
    source = out
    target = scratch
    swapped = False
    for back in range(words.shape[0]):
        column = words[words.shape[0] - 1 - back]
        first = column[0]
        varies = np.uint64(0)
        for i in range(1, n):
            varies |= np.uint64(column[i] ^ first)
        shift = 0
        while shift < 64:
            step = np.uint64(shift)
            if (varies >> step) & mask != np.uint64(0):
                counts[:] = 0
                for i in range(n):
                    counts[np.int64((np.uint64(column[i] ^ SIGN) >> step) & mask)] += 1
                total = np.int64(0)
                for d in range(size):
                    count = counts[d]
                    counts[d] = total
                    total += count
                for i in range(n):
                    row = source[i]
                    d = np.int64((np.uint64(column[row] ^ SIGN) >> step) & mask)
                    target[counts[d]] = row
                    counts[d] += 1
                source, target = target, source
                swapped = not swapped
            shift += digit_bits
    if swapped:
        for i in range(n):
            scratch_value = source[i]
            out[i] = scratch_value


@kernel(signatures=[(INTS2, INTS, INTS_OUT)])
def run_starts(words, order, out):
    """Start of each run of equal keys in sorted order; returns how many.

    Shapes: words int64[w, n], order int64[n], out int64[n + 1]; out[count] = n.
    """
    n = order.shape[0]
    count = 0
    for i in range(n):
        if i == 0 or compare(words, order[i - 1], order[i]) != 0:
            out[count] = i
            count += 1
    out[count] = n
    return count


@kernel(signatures=[(INTS, INTS_OUT)])
def bucket_offsets(buckets, out):
    """out[b] = first position of bucket b in ascending buckets int64[n]; out int64[65]."""
    n = buckets.shape[0]
    b = 0
    for i in range(n):
        while b <= buckets[i]:
            out[b] = i
            b += 1
    while b <= BUCKETS:
        out[b] = n
        b += 1
