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
#: Of a bucket, where what is of it is too much for one task.
SLICE_BITS = 16
SLICES = 1 << SLICE_BITS
#: What `pack` says where there is nothing to sort.
DONE, IN_ORDER = 0, 64
#: As many keys are sorted by insertion.
_FEW = 24
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


@kernel(signatures=[(INTS, INTS_OUT)])
def slices_of(words, out):
    """out[i] = the slice, 0 to 65535, of a key whose leading word is words[i]: 1024 of them are the
    keys of a bucket. Shapes: words int64[n], out int64[n]."""
    for i in range(words.shape[0]):
        x = np.uint64(words[i]) * _GOLDEN
        x = (x ^ (x >> np.uint64(32))) * _MIX
        out[i] = np.int64(x >> np.uint64(64 - SLICE_BITS))


@kernel
def bucket_starts(words, n, out):
    """Where each bucket begins in the first n words, which are in the order of their buckets, into
    out int64[65]. Every bucket is searched for: few steps, and no word is hashed that is passed."""
    start = np.int64(0)
    out[0] = 0
    for b in range(BUCKETS):
        # The first word of a later bucket is in [start, end]; most often it is near.
        step = np.int64(1)
        low = start
        while low + step <= n and bucket_of(words[low + step - 1]) <= b:
            low += step
            step <<= 1
        end = min(low + step, n + 1) - 1
        while low < end:
            middle = (low + end) >> 1
            if bucket_of(words[middle]) <= b:
                low = middle + 1
            else:
                end = middle
        out[b + 1] = low
        start = low


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


@kernel
def _bits(x):
    """How many bits the unsigned x has."""
    bits = np.int64(0)
    while x != np.uint64(0):
        bits += 1
        x >>= np.uint64(1)
    return bits


@kernel
def _least_and_most(column):
    least = column[0]
    most = column[0]
    for i in range(column.shape[0]):
        least = min(least, column[i])
        most = max(most, column[i])
    return least, most


@kernel
def _insert_by_bucket(words, out):
    """Positions of few keys in the order of (bucket of the leading word, key), stable."""
    leading = words[0]
    for i in range(out.shape[0]):
        word = leading[i]
        bucket = bucket_of(word)
        j = i
        while j > 0:
            before = out[j - 1]
            if leading[before] == word:
                if compare(words, before, i) <= 0:
                    break
            else:
                other = bucket_of(leading[before])
                if other < bucket or (other == bucket and leading[before] < word):
                    break
            out[j] = before
            j -= 1
        out[j] = i


@kernel(signatures=[(INTS2, INTS_OUT)])
def pack(words, out):
    """Begin to sort the keys words int64[w, n] by (bucket of the leading word, key), stable: one
    word for each into out int64[n], the bucket above the key above the position.

    Of a key its words follow each other, as distances from the least. What does not fit is left
    out at the end: ties are left to `mend` then.
    Returns: how many low bits the positions have, less than 0 where something was left out. DONE:
    out has the order already (few keys). IN_ORDER: the keys ascend, and out has nothing.
    """
    n = words.shape[1]
    if n <= _FEW:
        _insert_by_bucket(words, out)
        return DONE
    if _is_sorted(words):
        return IN_ORDER
    place_bits = _bits(np.uint64(n - 1))
    room = 64 - BUCKET_BITS - place_bits
    leading = words[0]
    for i in range(n):
        out[i] = bucket_of(leading[i])
    for w in range(words.shape[0]):
        column = words[w]
        least, most = _least_and_most(column)
        bits = _bits(np.uint64(most) - np.uint64(least))
        taken = min(bits, room)
        up, down = np.uint64(taken), np.uint64(bits - taken)
        if taken > 0:
            for i in range(n):
                distance = (np.uint64(column[i]) - np.uint64(least)) >> down
                out[i] = np.int64((np.uint64(out[i]) << up) | distance)
        room -= bits
        if room < 0:
            break
    up = np.uint64(place_bits)
    for i in range(n):
        out[i] = np.int64((np.uint64(out[i]) << up) | np.uint64(i))
    return place_bits if room >= 0 else -place_bits


@kernel(signatures=[(INTS2, INTS_OUT)])
def mend(words, out):
    """Sort positions out int64[n], which are in order but for keys that begin alike. Returns
    whether it is done: too many ties take too long."""
    leading = words[0]
    moves = 4 * out.shape[0]
    for i in range(1, out.shape[0]):
        x = out[i]
        word = leading[x]
        j = i
        while j > 0:
            before = out[j - 1]
            if leading[before] < word:
                break
            if leading[before] == word:
                if compare(words, before, x) <= 0:
                    break
            elif bucket_of(leading[before]) != bucket_of(word):
                break
            out[j] = before
            j -= 1
        out[j] = x
        moves -= i - j
        if moves < 0:
            return False
    return True


@kernel(signatures=[(INTS, INTS, INTS_OUT)])
def by_bucket(leading, order, out):
    """Positions order int64[n] by the bucket of their leading words int64[n], stable, into out."""
    n = order.shape[0]
    which = np.empty(n, np.uint8)
    for i in range(n):
        which[i] = bucket_of(leading[order[i]])
    ends = np.zeros(BUCKETS, np.int64)
    for i in range(n):
        ends[which[i]] += 1
    total = np.int64(0)
    for b in range(BUCKETS):
        count = ends[b]
        ends[b] = total
        total += count
    for i in range(n):
        b = which[i]
        out[ends[b]] = order[i]
        ends[b] += 1


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
