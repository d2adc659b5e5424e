"""Key words of texts and rows. See `operators.state.encode` for what is encoded how.

A text of a few bytes is its own key: its bytes and its length, mixed without loss. What is longer,
and a row of many words, is hashed with a secret (SipHash-1-3 of 128 bits), so that nobody who does
not know it can find two that collide. `hashing` is int64[5]: the secret's two words, a mask for
each word of a hash, and the most bytes of a text that is kept as it is.
Source: Aumasson and Bernstein, SipHash: a fast short-input PRF (2012), with the 128-bit output of
the authors' reference code, and rounds as in Rust and Python, one a word and three at the end.
"""

from __future__ import annotations

import numpy as np

from operators.kernels.jit import (
    BYTES,
    BYTES_OUT,
    INT32S,
    INT64,
    INTS,
    INTS2,
    INTS2_OUT,
    kernel,
)
from operators.kernels.memory import BLOCK_BITS, load_i32, load_i64, load_u8, place

#: The most bytes of a text that two words hold beside its length.
EXACT_BYTES = 15
#: In the second word of a text: whether it is hashed.
HASHED = 1

#: Keys that are hashed together.
_LANES = 64
_A = np.uint64(0x9E3779B97F4A7C15)
_B = np.uint64(0xBF58476D1CE4E5B9)
_ONE = np.uint64(1)
_S8 = np.uint64(8)
_S29 = np.uint64(29)
_S32 = np.uint64(32)
_S56 = np.uint64(56)
_V0 = np.uint64(0x736F6D6570736575)
_V1 = np.uint64(0x646F72616E646F6D ^ 0xEE)
_V2 = np.uint64(0x6C7967656E657261)
_V3 = np.uint64(0x7465646279746573)
_SHORT_END = np.uint64(0xEE)
_LONG_END = np.uint64(0xDD)


@kernel
def _rotated(x, by):
    return (x << np.uint64(by)) | (x >> np.uint64(64 - by))


@kernel
def _round(v0, v1, v2, v3):
    v0 += v1
    v2 += v3
    v1 = _rotated(v1, 13) ^ v0
    v3 = _rotated(v3, 16) ^ v2
    v0 = _rotated(v0, 32)
    v2 += v1
    v0 += v3
    v1 = _rotated(v1, 17) ^ v2
    v3 = _rotated(v3, 21) ^ v0
    v2 = _rotated(v2, 32)
    return v0, v1, v2, v3


@kernel
def _absorbed(v0, v1, v2, v3, word):
    v0, v1, v2, v3 = _round(v0, v1, v2, v3 ^ word)
    return v0 ^ word, v1, v2, v3


@kernel
def _three_rounds(v0, v1, v2, v3):
    v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    return _round(v0, v1, v2, v3)


@kernel
def _finished(v0, v1, v2, v3):
    """The two words of the hash."""
    v0, v1, v2, v3 = _three_rounds(v0, v1, v2 ^ _SHORT_END, v3)
    low = v0 ^ v1 ^ v2 ^ v3
    v0, v1, v2, v3 = _three_rounds(v0, v1 ^ _LONG_END, v2, v3)
    return low, v0 ^ v1 ^ v2 ^ v3


@kernel
def _bytes_of(address, length, available):
    """`length` bytes, 0 to 8, as a word; `available` may be read from the address on."""
    if available >= 8:
        word = np.uint64(np.int64(load_i64(address, 0)))
        if length < 8:
            word &= (_ONE << np.uint64(8 * length)) - _ONE
        return word
    word = np.uint64(0)
    for j in range(length):
        word |= np.uint64(load_u8(address, j)) << np.uint64(8 * j)
    return word


@kernel
def _mixed(low, high):
    """Each half of a short text mixed into the other, as words."""
    product = low * _A
    high ^= (product ^ (product >> _S32)) & ~_ONE
    product = high * _B
    return np.int64(low ^ product ^ (product >> _S29)), np.int64(high)


@kernel(signatures=[(INT32S, BYTES, INTS, INTS2_OUT)])
def text_words(offsets, text, hashing, out):
    """Two words of Arrow texts: offsets int32[n + 1], text uint8[m], out int64[2, n].

    Short texts differ in them if they differ. Each half is mixed into the other, since texts that
    agree in their first bytes are to spread over shards; what is mixed in can be taken out again.
    """
    key0 = np.uint64(hashing[0])
    key1 = np.uint64(hashing[1])
    exact = hashing[4]
    base = np.int64(text.ctypes.data)
    size = np.int64(text.shape[0])
    for i in range(out.shape[1]):
        at = np.int64(offsets[i])
        end = np.int64(offsets[i + 1])
        length = end - at
        if length <= exact:
            low = _bytes_of(base + at, min(length, 8), size - at)
            high = np.uint64(length) << _ONE
            if length > 8:
                high |= _bytes_of(base + at + 8, length - 8, size - at - 8) << _S8
            out[0, i], out[1, i] = _mixed(low, high)
            continue
        v0, v1, v2, v3 = _V0 ^ key0, _V1 ^ key1, _V2 ^ key0, _V3 ^ key1
        while end - at >= 8:
            v0, v1, v2, v3 = _absorbed(v0, v1, v2, v3, np.uint64(np.int64(load_i64(base + at, 0))))
            at += 8
        last = _bytes_of(base + at, end - at, size - at) | np.uint64(length) << _S56
        v0, v1, v2, v3 = _absorbed(v0, v1, v2, v3, last)
        low, high = _finished(v0, v1, v2, v3)
        out[0, i] = np.int64(low) & hashing[2]
        out[1, i] = (np.int64(high) & hashing[3]) | HASHED


@kernel(signatures=[(INTS2, INT64, INT64, INT64, INTS, INTS, INTS2_OUT)])
def stored_text_words(addresses, slot, ids_slot, kept_slot, rows, hashing, out):
    """`text_words` of texts where they lie in the blocks of a relation, at rows int64[n], from
    `slot` on. Returns False, with nothing to be read in `out`, where one of them is to be hashed.
    """
    ids = addresses[ids_slot]
    kept = addresses[kept_slot]
    for i in range(rows.shape[0]):
        block = rows[i] >> BLOCK_BITS
        at = place(rows[i], ids, kept)
        start = np.int64(load_i32(addresses[slot, block], at))
        length = np.int64(load_i32(addresses[slot, block], at + 1)) - start
        if length > hashing[4]:
            return False
        address = addresses[slot + 2, block] + start
        low = _bytes_of(address, min(length, 8), length)
        high = np.uint64(length) << _ONE
        if length > 8:
            high |= _bytes_of(address + 8, length - 8, length - 8) << _S8
        out[0, i], out[1, i] = _mixed(low, high)
    return True


@kernel(signatures=[(INTS2, INTS, INTS2_OUT)])
def hash_words(words, hashing, out):
    """Hashes of keys. Shapes: words int64[w, n], out int64[2, n].

    Keys are hashed _LANES at a time, step by step, in loops that are vectorised.
    """
    key0 = np.uint64(hashing[0])
    key1 = np.uint64(hashing[1])
    width, n = words.shape
    # The four words of the state, then the next word of the key: one array, so that the compiler
    # sees that they do not overlap.
    v = np.empty(5 * _LANES, np.uint64)
    for start in range(0, n, _LANES):
        m = min(_LANES, n - start)
        for j in range(_LANES):
            v[j] = _V0 ^ key0
            v[_LANES + j] = _V1 ^ key1
            v[2 * _LANES + j] = _V2 ^ key0
            v[3 * _LANES + j] = _V3 ^ key1
        for w in range(width + 1):
            if w < width:
                for j in range(m):
                    v[4 * _LANES + j] = np.uint64(words[w, start + j])
            else:
                for j in range(m):
                    v[4 * _LANES + j] = np.uint64(8 * width) << _S56
            for j in range(_LANES):
                a, b, c, d = _absorbed(
                    v[j], v[_LANES + j], v[2 * _LANES + j], v[3 * _LANES + j], v[4 * _LANES + j]
                )
                v[j] = a
                v[_LANES + j] = b
                v[2 * _LANES + j] = c
                v[3 * _LANES + j] = d
        for half in range(2):
            # Rows 2 and 1 of the state, before the first and the second word of the hash.
            for j in range((2 - half) * _LANES, (3 - half) * _LANES):
                v[j] ^= _LONG_END if half else _SHORT_END
            for _ in range(3):
                for j in range(_LANES):
                    a, b, c, d = _round(v[j], v[_LANES + j], v[2 * _LANES + j], v[3 * _LANES + j])
                    v[j] = a
                    v[_LANES + j] = b
                    v[2 * _LANES + j] = c
                    v[3 * _LANES + j] = d
            for j in range(m):
                mixed = v[j] ^ v[_LANES + j] ^ v[2 * _LANES + j] ^ v[3 * _LANES + j]
                out[half, start + j] = np.int64(mixed) & hashing[2 + half]


@kernel(signatures=[(INTS, INTS, INTS, INT32S, BYTES)])
def runs_agree(order, starts, words, offsets, text):
    """Whether the texts of each run of equal keys are the same where they are hashed.

    Shapes: order int64[n], starts int64[runs + 1] into it, words int64[n]: of each text the word
    whose lowest bit tells; offsets int32[n + 1], text uint8[m].
    """
    base = np.int64(text.ctypes.data)
    for r in range(starts.shape[0] - 1):
        before = order[starts[r]]
        if words[before] & HASHED == 0:
            continue
        for i in range(starts[r] + 1, starts[r + 1]):
            row = order[i]
            length = np.int64(offsets[row + 1]) - np.int64(offsets[row])
            if np.int64(offsets[before + 1]) - np.int64(offsets[before]) != length:
                return False
            a = base + offsets[before]
            b = base + offsets[row]
            j = np.int64(0)
            while j + 8 <= length:
                if load_i64(a + j, 0) != load_i64(b + j, 0):
                    return False
                j += 8
            while j < length:
                if load_u8(a, j) != load_u8(b, j):
                    return False
                j += 1
            before = row
    return True


@kernel(signatures=[(INT32S, BYTES, INTS2_OUT)])
def text_prefixes(offsets, text, out):
    """Order-preserving words of the first 8·w bytes. Shapes: out int64[w, n]; short texts are
    padded with zero bytes, so that equal words do not prove equal texts."""
    for i in range(out.shape[1]):
        start = np.int64(offsets[i])
        end = np.int64(offsets[i + 1])
        for w in range(out.shape[0]):
            word = np.uint64(0)
            for j in range(8):
                at = start + 8 * w + j
                byte = np.uint64(text[at]) if at < end else np.uint64(0)
                word = (word << np.uint64(8)) | byte
            out[w, i] = np.int64(word ^ np.uint64(0x8000000000000000))


@kernel(signatures=[(INTS, BYTES_OUT), (INT32S, BYTES_OUT)])
def falls(column, equal):
    """Whether a value is less than the one before it, of rows that agree so far.

    Shapes: column int64[n] or int32[n], n > 0; equal uint8[n - 1], 1 where row i + 1 agrees with
    row i in the columns before, and in this one too afterwards. No branches: it is vectorised.
    """
    found = np.uint8(0)
    for i in range(column.shape[0] - 1):
        a = column[i]
        b = column[i + 1]
        found |= equal[i] & np.uint8(b < a)
        equal[i] &= np.uint8(a == b)
    return found != 0
