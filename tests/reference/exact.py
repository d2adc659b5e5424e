"""Exact sums of doubles with Python's integers: the twin of operators.kernels.exact.

The bytes are those that operators.scalar.exact_sum describes.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable

from operators.scalar.exact_sum import Sum, decode, ratio

_UNIT_BITS = 1074
_COUNTS = struct.Struct("<qqq")
_SHIFT = struct.Struct("<H")


def encode(total: int, nan: int = 0, pinf: int = 0, ninf: int = 0) -> bytes:
    """The canonical bytes of a state; b"" for an empty sum."""
    special = bool(nan or pinf or ninf)
    if not total and not special:
        return b""
    shift = (total & -total).bit_length() - 1 if total else 0
    rest = total >> shift
    body = rest.to_bytes(rest.bit_length() // 8 + 1, "little", signed=True) if total else b""
    head = b"\x01" + _COUNTS.pack(nan, pinf, ninf) if special else b"\x00"
    return head + _SHIFT.pack(shift) + body


def add(state: bytes, delta: Sum) -> bytes:
    """The state after `delta`."""
    old = decode(state)
    return encode(
        old.total + delta.total, old.nan + delta.nan, old.pinf + delta.pinf, old.ninf + delta.ninf
    )


def units(value: float) -> int:
    """A finite double in multiples of 2**-1074."""
    numerator, denominator = value.as_integer_ratio()
    return (numerator << _UNIT_BITS) // denominator


def sum_of(rows: Iterable[tuple[float, int]], square: bool = False) -> Sum:
    """The exact sum of value * diff, or of value ** 2 * diff in multiples of 2**-2148."""
    total = nan = pinf = ninf = 0
    for value, diff in rows:
        if math.isnan(value):
            nan += diff
        elif math.isinf(value):
            if value > 0 or square:
                pinf += diff
            else:
                ninf += diff
        else:
            total += (units(value) ** 2 if square else units(value)) * diff
    return Sum(total, nan, pinf, ninf)


def state_of(rows: Iterable[tuple[float, int]], square: bool = False) -> bytes:
    return add(b"", sum_of(rows, square))


def to_double(state: bytes) -> float:
    """The sum, correctly rounded (half to even), as IEEE addition treats specials."""
    sums = decode(state)
    if sums.nan or (sums.pinf and sums.ninf):
        return math.nan
    if sums.pinf:
        return math.inf
    if sums.ninf:
        return -math.inf
    return ratio(sums.total, 1 << _UNIT_BITS)
