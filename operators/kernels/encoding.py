"""Key words and hashes of column values. See `operators.state.encode` for what is encoded how."""

from __future__ import annotations

import numpy as np

from operators.kernels.jit import BYTES, BYTES_OUT, INT32S, INTS, INTS2, INTS2_OUT, kernel

_A = np.uint64(0x9E3779B97F4A7C15)
_B = np.uint64(0xBF58476D1CE4E5B9)
_C = np.uint64(0x94D049BB133111EB)
_D = np.uint64(0xD6E8FEB86659FD93)
_SEED1 = np.uint64(0x243F6A8885A308D3)
_SEED2 = np.uint64(0x13198A2E03707344)
_S29 = np.uint64(29)
_S31 = np.uint64(31)
_S32 = np.uint64(32)
_S56 = np.uint64(56)
_CACHE = 256


@kernel
def _mix1(h, x):
    h = (h ^ x) * _B
    h = (h ^ (h >> _S31)) * _C
    return h ^ (h >> _S29)


@kernel
def _mix2(h, x):
    h = (h + x) * _D
    h = (h ^ (h >> _S32)) * _A
    return h ^ (h >> _S31)


@kernel(signatures=[(INT32S, BYTES, INTS2_OUT)])
def hash_texts(offsets, text, out):
    """128-bit hashes of Arrow texts: offsets int32[n + 1], text uint8[m], out int64[2, n].

    Texts of at most 8 bytes, flags and codes that recur, are looked up in a small cache first.
    """
    n = out.shape[1]
    slots = _CACHE if n >= 4 * _CACHE else 0
    cached_length = np.full(slots, -1, np.int64)
    cached = np.empty((slots, 3), np.uint64)
    for i in range(n):
        start = np.int64(offsets[i])
        end = np.int64(offsets[i + 1])
        if slots and end - start <= 8:
            word = np.uint64(0)
            for j in range(end - start):
                word |= np.uint64(text[start + j]) << np.uint64(8 * j)
            slot = np.int64((word * _A) >> _S56)
            if cached_length[slot] != end - start or cached[slot, 0] != word:
                h1 = _mix1(_SEED1, np.uint64(end - start))
                h2 = _mix2(_SEED2, np.uint64(end - start))
                if end > start:
                    h1 = _mix1(h1, word)
                    h2 = _mix2(h2, word)
                cached_length[slot] = end - start
                cached[slot, 0] = word
                cached[slot, 1] = _mix1(h1, h2)
                cached[slot, 2] = _mix2(h2, h1)
            out[0, i] = np.int64(cached[slot, 1])
            out[1, i] = np.int64(cached[slot, 2])
            continue
        # Mixed in like a word: only added, a length could make up for a difference in the text.
        h1 = _mix1(_SEED1, np.uint64(end - start))
        h2 = _mix2(_SEED2, np.uint64(end - start))
        at = start
        while at < end:
            word = np.uint64(0)
            stop = min(at + 8, end)
            shift = np.uint64(0)
            while at < stop:
                word |= np.uint64(text[at]) << shift
                shift += np.uint64(8)
                at += 1
            h1 = _mix1(h1, word)
            h2 = _mix2(h2, word)
        out[0, i] = np.int64(_mix1(h1, h2))
        out[1, i] = np.int64(_mix2(h2, h1))


@kernel(signatures=[(INTS2, INTS2_OUT)])
def hash_words(words, out):
    """128-bit hashes of keys. Shapes: words int64[w, n], out int64[2, n]."""
    for i in range(words.shape[1]):
        h1 = _SEED1
        h2 = _SEED2
        for w in range(words.shape[0]):
            x = np.uint64(words[w, i])
            h1 = _mix1(h1, x)
            h2 = _mix2(h2, x)
        out[0, i] = np.int64(h1)
        out[1, i] = np.int64(h2)


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
