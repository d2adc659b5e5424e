"""Exact sums of doubles, so that retractions never leave a residue.

Every finite double is an integer multiple of 2**-1074, so a sum of doubles is one too: it is kept
as that integer, of whatever length, with counts of NaN, +inf and -inf beside it. Adding a value and
retracting it gives back the very same state; the sum is rounded to a double once, when it is read.

The state of a group is stored as bytes: empty for a sum of zero; otherwise a flag byte, the three
counts (int64 each, only if the flag says that one is not zero), the number of trailing zero bits
that were cut off (uint16), and the odd rest in little-endian two's complement of minimal length.

Invariant: equal sums have equal bytes. Counts never go below zero over a stream without negative
multiplicities, but nothing here relies on it.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

_UNIT_BITS = 1074
_UNIT = 1 << _UNIT_BITS
_COUNTS = struct.Struct("<qqq")
_SHIFT = struct.Struct("<H")
_FINITE, _SPECIAL = b"\x00", b"\x01"


@dataclass(frozen=True, slots=True)
class Sum:
    """`total` multiples of 2**-1074 plus counted specials. Sums form a group under +."""

    total: int = 0
    nan: int = 0
    pinf: int = 0
    ninf: int = 0

    def __add__(self, other: Sum) -> Sum:
        return Sum(
            self.total + other.total,
            self.nan + other.nan,
            self.pinf + other.pinf,
            self.ninf + other.ninf,
        )


def encode(total: int, nan: int = 0, pinf: int = 0, ninf: int = 0) -> bytes:
    """The canonical bytes of a state; b"" for an empty sum."""
    special = bool(nan or pinf or ninf)
    if not total and not special:
        return b""
    shift = (total & -total).bit_length() - 1 if total else 0
    rest = total >> shift
    body = rest.to_bytes(rest.bit_length() // 8 + 1, "little", signed=True) if total else b""
    head = _SPECIAL + _COUNTS.pack(nan, pinf, ninf) if special else _FINITE
    return head + _SHIFT.pack(shift) + body


def decode(state: bytes) -> Sum:
    """The inverse of `encode`."""
    if not state:
        return Sum()
    counts = (0, 0, 0)
    at = 1
    if state[:1] == _SPECIAL:
        counts = _COUNTS.unpack_from(state, at)
        at += _COUNTS.size
    (shift,) = _SHIFT.unpack_from(state, at)
    total = int.from_bytes(state[at + _SHIFT.size :], "little", signed=True) << shift
    return Sum(total, *counts)


def add(state: bytes, delta: Sum) -> bytes:
    """The state after `delta`."""
    new = decode(state) + delta
    return encode(new.total, new.nan, new.pinf, new.ninf)


def of_squares(values: npt.NDArray[Any], diffs: npt.NDArray[np.int64]) -> Sum:
    """The exact sum of values[i] ** 2 * diffs[i], in multiples of 2**-2148.

    The squares of both infinities count as +inf. Cost: one Python integer per row.
    """
    total = nan = inf = 0
    for value, diff in zip(
        np.asarray(values, np.float64).tolist(), np.asarray(diffs).tolist(), strict=True
    ):
        if value - value == 0:
            total += units(value) ** 2 * diff
        elif value != value:  # noqa: PLR0124 - NaN
            nan += diff
        else:
            inf += diff
    # Squares have 106 bits: what trails them is cut off by `encode`.
    return Sum(total, nan, inf, 0)


def units(value: float) -> int:
    """A finite double in multiples of 2**-1074."""
    fraction, exponent = math.frexp(value)
    return _scaled(int(fraction * 9007199254740992.0), exponent - 53 + _UNIT_BITS)


def variance(count: int, total: bytes, squares: bytes, divisor: int) -> float:
    """(sum of squares - sum ** 2 / count) / divisor of doubles, rounded once.

    Requires: count and divisor > 0.
    """
    first, second = decode(total), decode(squares)
    if first.nan or first.pinf or first.ninf or second.nan or second.pinf:
        return math.nan
    return ratio(count * second.total - first.total**2, count * divisor << 2 * _UNIT_BITS)


def ratio(numerator: int, denominator: int) -> float:
    """The quotient of integers as a double, correctly rounded."""
    try:
        return numerator / denominator
    except OverflowError:
        return math.inf if numerator > 0 else -math.inf


def from_values(values: npt.NDArray[Any], diffs: npt.NDArray[np.int64]) -> Sum:
    """The exact sum of values[i] * diffs[i]. Shapes: float64 (or float32)[n], int64[n].

    Cost: O(n) in NumPy plus one Python integer per distinct exponent; without NumPy for few rows.
    """
    values = np.asarray(values, np.float64)
    if len(values) <= 16:
        return _by_row(values.tolist(), np.asarray(diffs).tolist())
    finite = np.isfinite(values)
    nan = pinf = ninf = 0
    if not finite.all():
        nan = int(diffs[np.isnan(values)].sum())
        pinf = int(diffs[values == np.inf].sum())
        ninf = int(diffs[values == -np.inf].sum())
        values, diffs = values[finite], diffs[finite]
    limit = (1 << 35) // max(len(values), 1)
    if len(values) and (int(diffs.max()) > limit or int(diffs.min()) < -limit):
        rest = _by_row(values.tolist(), diffs.tolist())
        return Sum(rest.total, nan, pinf, ninf)
    fractions, exponents = np.frexp(values)
    mantissas = np.ldexp(fractions, 53).astype(np.int64)
    # Halves of at most 27 bits, so that n products with diffs stay below 2**63.
    high, low = mantissas >> 26, mantissas & ((1 << 26) - 1)
    distinct, place = np.unique(exponents, return_inverse=True)
    highs, lows = np.zeros(len(distinct), np.int64), np.zeros(len(distinct), np.int64)
    np.add.at(highs, place, high * diffs)
    np.add.at(lows, place, low * diffs)
    total = 0
    for exponent, upper, lower in zip(
        distinct.tolist(), highs.tolist(), lows.tolist(), strict=True
    ):
        total += _scaled((upper << 26) + lower, exponent - 53 + _UNIT_BITS)
    return Sum(total, nan, pinf, ninf)


def _by_row(values: list[float], diffs: list[int]) -> Sum:
    total = nan = pinf = ninf = 0
    for value, diff in zip(values, diffs, strict=True):
        if value - value == 0:
            total += units(value) * diff
        elif value != value:  # noqa: PLR0124 - NaN
            nan += diff
        elif value > 0:
            pinf += diff
        else:
            ninf += diff
    return Sum(total, nan, pinf, ninf)


def _scaled(integer: int, shift: int) -> int:
    """integer * 2**shift, exact: subnormals have as many trailing zeros as shift is negative."""
    return integer << shift if shift >= 0 else integer >> -shift


def to_double(state: bytes) -> float:
    """The sum, correctly rounded (half to even), as IEEE addition treats specials."""
    sums = decode(state)
    if sums.nan or (sums.pinf and sums.ninf):
        return math.nan
    if sums.pinf:
        return math.inf
    if sums.ninf:
        return -math.inf
    return ratio(sums.total, _UNIT)
