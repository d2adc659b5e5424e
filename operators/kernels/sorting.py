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
        if words[0, i - 1] >= words[0, i] and compare(words, i - 1, i) > 0:
            return False
    return True


@kernel
def _insert(words, out):
    """Sort positions `out` by their keys, stable; quick where few are out of place."""
    leading = words[0]
    for i in range(1, out.shape[0]):
        x = out[i]
        word = leading[x]
        j = i
        while j > 0 and (
            leading[out[j - 1]] > word
            or (leading[out[j - 1]] == word and compare(words, out[j - 1], x) > 0)
        ):
            out[j] = out[j - 1]
            j -= 1
        out[j] = x


@kernel
def _varying(column, order):
    """The bits in which the words at positions `order`, one at least, differ."""
    first = column[order[0]]
    varies = np.uint64(0)
    for i in range(1, order.shape[0]):
        varies |= np.uint64(column[order[i]] ^ first)
    return varies


@kernel
def _spread(column, source, target, shift, mask, counts):
    """Move positions `source` to `target`, stable, by a digit of their words; the end of each
    digit's run is in `counts`."""
    step = np.uint64(shift)
    for d in range(np.int64(mask) + 1):
        counts[d] = 0
    for i in range(source.shape[0]):
        counts[np.int64((np.uint64(column[source[i]] ^ SIGN) >> step) & mask)] += 1
    total = np.int64(0)
    for d in range(np.int64(mask) + 1):
        count = counts[d]
        counts[d] = total
        total += count
    for i in range(source.shape[0]):
        row = source[i]
        d = np.int64((np.uint64(column[row] ^ SIGN) >> step) & mask)
        target[counts[d]] = row
        counts[d] += 1


@kernel
def _copy(source, target):
    for i in range(source.shape[0]):
        target[i] = source[i]


@kernel
def _radix(words, out, scratch, counts):
    """Sort positions `out` by their keys, stable, least significant digit first, passing over
    digits in which no keys differ. `scratch` is as long as `out`."""
    n = out.shape[0]
    if n <= 48:
        _insert(words, out)
        return
    digit_bits = 11 if n >= 8192 else 8
    mask = (np.uint64(1) << np.uint64(digit_bits)) - np.uint64(1)
    source = out
    target = scratch
    swapped = False
    for back in range(words.shape[0]):
        column = words[words.shape[0] - 1 - back]
        varies = _varying(column, out)
        shift = 0
        while shift < 64:
            if (varies >> np.uint64(shift)) & mask != np.uint64(0):
                _spread(column, source, target, shift, mask, counts)
                source, target = target, source
                swapped = not swapped
            shift += digit_bits
    if swapped:
        _copy(scratch, out)


@kernel(signatures=[(INTS2, INTS_OUT, INTS_OUT)])
def argsort(words, out, scratch):
    """Stable order of the keys words int64[w, n] into out int64[n]; scratch int64[n].

    Time: O(n × digits that vary). Sorted input costs one pass.
    """
    n = words.shape[1]
    for i in range(n):
        out[i] = i
    if n < 2 or _is_sorted(words):
        return
    _radix(words, out, scratch, np.empty(2048, np.int64))


@kernel(signatures=[(INTS2, INTS_OUT, INTS_OUT)])
def argsort_by_bucket(words, out, scratch):
    """Stable order of the keys words int64[w, n] by (bucket of the leading word, key) into out
    int64[n]; scratch int64[n].

    Buckets are told apart first, then the leading bits that differ within each: keys without many
    duplicates are nearly sorted then. Keys in order cost a pass for the check and one to spread.
    """
    n = words.shape[1]
    leading = words[0]
    offsets = np.zeros(BUCKETS + 1, np.int64)
    for i in range(n):
        offsets[bucket_of(leading[i]) + 1] += 1
    for b in range(BUCKETS):
        offsets[b + 1] += offsets[b]
    ends = np.empty(BUCKETS, np.int64)
    for b in range(BUCKETS):
        ends[b] = offsets[b]
    if _is_sorted(words):
        for i in range(n):
            b = bucket_of(leading[i])
            out[ends[b]] = i
            ends[b] += 1
        return
    for i in range(n):
        b = bucket_of(leading[i])
        scratch[ends[b]] = i
        ends[b] += 1
    counts = np.empty(2048, np.int64)
    inner = np.empty(2048, np.int64)
    for b in range(BUCKETS):
        part = out[offsets[b] : offsets[b + 1]]
        source = scratch[offsets[b] : offsets[b + 1]]
        n = part.shape[0]
        varies = np.uint64(0)
        if n > 48:
            varies = _varying(leading, source)
        if varies == np.uint64(0):
            _copy(source, part)
            _radix(words, part, source, counts)
            continue
        digit_bits = 1
        while digit_bits < 11 and (np.int64(1) << digit_bits) < n:
            digit_bits += 1
        top = 0
        while top < 63 and varies >> np.uint64(top + 1) != np.uint64(0):
            top += 1
        shift = max(0, top + 1 - digit_bits)
        # The bits above `top` are the same in all: they only choose where the digits begin.
        mask = (np.uint64(1) << np.uint64(digit_bits)) - np.uint64(1)
        _spread(leading, source, part, shift, mask, counts)
        at = np.int64(0)
        for d in range(np.int64(mask) + 1):
            if counts[d] - at > 48:
                _radix(words, part[at : counts[d]], source[at : counts[d]], inner)
            at = counts[d]
        _insert(words, part)


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


@kernel(signatures=[(INTS2, INTS)])
def ascends(words, after):
    """Whether the keys words int64[w, n] ascend strictly, from more than `after` int64[w] on (of
    length 0: from any)."""
    for w in range(after.shape[0]):
        if words[w, 0] > after[w]:
            break
        if words[w, 0] < after[w] or w == after.shape[0] - 1:
            return False
    for i in range(1, words.shape[1]):
        if words[0, i - 1] >= words[0, i] and compare(words, i - 1, i) >= 0:
            return False
    return True


@kernel(signatures=[(INTS2,)])
def greatest(words):
    """Position of a greatest key of words int64[w, n], n > 0."""
    best = np.int64(0)
    for i in range(1, words.shape[1]):
        if words[0, i] >= words[0, best] and compare(words, i, best) > 0:
            best = np.int64(i)
    return best
