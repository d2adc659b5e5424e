"""The order of keys, and of numbers."""

from __future__ import annotations

import numpy as np

from operators.flight.column import Ints, counting
from operators.kernels import sorting
from operators.slabs import scratch

#: As many numbers are sorted as they are.
_FEW = 64


def sort_keys(keys: Ints) -> Ints:
    """Positions that sort keys int64[w, n] by (bucket, key), stable.

    Cost: keys in order one pass; others are packed, with their positions, into a word each, which
    NumPy sorts (with vector instructions where there are). Only many keys that begin alike, in all
    that fits, are sorted by digits.
    """
    n = keys.shape[1]
    order = scratch((n,), np.int64)
    bits = sorting.pack(keys, order)
    if bits == sorting.IN_ORDER:
        sorting.by_bucket(keys[0], counting(n), order)
    elif bits != sorting.DONE:
        order.view(np.uint64).sort()
        np.bitwise_and(order, (1 << abs(bits)) - 1, out=order)
        if bits < 0 and not sorting.mend(keys, order):
            by_key = scratch((n,), np.int64)
            sorting.argsort(keys, by_key, scratch((n,), np.int64))
            sorting.by_bucket(keys[0], by_key, order)
    return order


def order_of(values: Ints) -> Ints:
    """Positions that sort values int64[n], stable. Cost: as `sort_keys`, where values and positions
    fit into a word together."""
    n = len(values)
    if n <= _FEW:
        return values.argsort(kind="stable")
    bits, least = (n - 1).bit_length(), values.min()
    if (int(values.max()) - int(least)).bit_length() + bits >= 64:
        return values.argsort(kind="stable")
    packed: Ints = (values - least) << bits
    packed |= counting(n)
    packed.sort()
    packed &= (1 << bits) - 1
    return packed
