"""Bits that tell of most keys that an index has none of them.

A blocked Bloom filter: a key has four bits in one word, so that asking for it touches one cache
line, and the words of many keys are on their way at once.
Source: Putze, Sanders, Singler, Cache-, Hash- and Space-Efficient Bloom Filters (2007), §3.
"""

from __future__ import annotations

import numpy as np

from operators.kernels.jit import INT64, INTS, INTS2, INTS2_OUT, INTS_OUT, kernel
from operators.kernels.memory import prefetch
from operators.kernels.sorting import bucket_starts

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX = np.uint64(0xBF58476D1CE4E5B9)
_SIX = np.uint64(63)
_ONE = np.uint64(1)
#: Keys whose words are on their way from memory while one is looked at.
_AHEAD = 24


@kernel
def _place_and_bits(keys, words, i, shift):
    """The word of the first `words` words of key i, and its bits there."""
    x = np.uint64(0)
    for w in range(words):
        x = (x ^ (x >> np.uint64(32)) ^ np.uint64(keys[w, i])) * _GOLDEN
    y = (x ^ (x >> np.uint64(29))) * _MIX
    bits = _ONE << (y >> np.uint64(58))
    bits |= _ONE << ((y >> np.uint64(52)) & _SIX)
    bits |= _ONE << ((y >> np.uint64(46)) & _SIX)
    bits |= _ONE << ((y >> np.uint64(40)) & _SIX)
    return np.int64(x >> np.uint64(shift)), np.int64(bits)


@kernel(signatures=[(INTS2, INT64, INT64, INTS_OUT)])
def add(keys, words, shift, prints):
    """Enter the first `words` words of keys int64[w, n] into prints int64[2**(64 - shift)]."""
    n = keys.shape[1]
    address = np.int64(prints.ctypes.data)
    for i in range(n):
        if i + _AHEAD < n:
            prefetch(address + 8 * _place_and_bits(keys, words, i + _AHEAD, shift)[0])
        place, bits = _place_and_bits(keys, words, i, shift)
        prints[place] |= bits


@kernel(signatures=[(INTS2, INT64, INT64, INTS, INTS2_OUT, INTS_OUT, INTS_OUT)])
def narrow(keys, count, shift, prints, out_keys, out_numbers, out_buckets):
    """Those of the first `count` keys int64[w, *], in the order of buckets, that may have been
    entered: the keys, int64[w, count], their numbers, int64[count], and where each bucket begins
    among them, int64[65]. Returns how many they are."""
    words = keys.shape[0]
    address = np.int64(prints.ctypes.data)
    found = np.int64(0)
    for i in range(count):
        if i + _AHEAD < count:
            prefetch(address + 8 * _place_and_bits(keys, words, i + _AHEAD, shift)[0])
        place, bits = _place_and_bits(keys, words, i, shift)
        out_numbers[found] = i
        found += np.int64(prints[place] & bits == bits)
    for w in range(words):
        for i in range(found):
            out_keys[w, i] = keys[w, out_numbers[i]]
    bucket_starts(out_keys[0], found, out_buckets)
    return found
