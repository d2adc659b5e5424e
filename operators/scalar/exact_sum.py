"""Exact sums of doubles, so that retractions never leave a residue.

Every finite double is an integer multiple of 2**-1074, so a sum of doubles is one too: it is kept
as that integer, of whatever length, with counts of NaN, +inf and -inf beside it. Adding a value and
retracting it gives back the very same state; the sum is rounded to a double once, when it is read.
Sums of squares are multiples of 2**-2148; the squares of both infinities count as +inf.

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
import pyarrow as pa

from operators.flight.column import Bools, Ints
from operators.kernels import exact

_UNIT_BITS = 1074
_COUNTS = struct.Struct("<qqq")
_SHIFT = struct.Struct("<H")
_SPECIAL = b"\x01"
_ALL_VALID = np.empty(0, np.bool_)
_NO_PRIOR = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class Sum:
    """`total` multiples of the unit plus counted specials."""

    total: int = 0
    nan: int = 0
    pinf: int = 0
    ninf: int = 0


def decode(state: bytes) -> Sum:
    """What a state's bytes say."""
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


def of_values(
    values: npt.NDArray[Any],
    valid: Bools | None,
    diff: Ints,
    order: Ints,
    starts: Ints,
    square: bool,
) -> pa.Array:
    """States of the sums of values * diff in each run, or of their squares'.

    Shapes: values float64 or float32[n], valid bool[n] or None, diff int64[n]; run r is rows
    order[starts[r]:starts[r + 1]]. Cost: some 20 ns a row.
    """
    bits = np.ascontiguousarray(values, np.float64).view(np.int64)
    mask = _ALL_VALID if valid is None else valid
    return _states(*exact.sum_values(order, starts, bits, mask, diff, square))


def added_up(states: pa.Array, order: Ints, starts: Ints) -> pa.Array:
    """The sum of the states of each run: as `of_values`."""
    buffers = _buffers(states)
    return _states(*exact.sum_states(order, starts, _NO_PRIOR, *buffers, *buffers))


def successive(run: Ints, prior: Ints, changes: pa.Array, stored: pa.Array) -> pa.Array:
    """States of n versions: what run[b] of `changes` makes of that before version b.

    Shapes: run int64[n]; prior int64[n]: -1 for none, p >= 0 for stored[p], -2 - b for version b.
    """
    each = np.arange(len(run) + 1)
    return _states(*exact.sum_states(run, each, prior, *_buffers(changes), *_buffers(stored)))


def to_doubles(states: pa.Array) -> npt.NDArray[np.float64]:
    """The sums, correctly rounded (half to even), as IEEE addition treats specials."""
    out = np.empty(len(states), np.float64)
    exact.to_doubles(*_buffers(states), out)
    return out


def changed(states: pa.Array) -> Bools:
    """Which states are not empty."""
    offsets, _ = _buffers(states)
    return np.not_equal(offsets[1:], offsets[:-1])


def nothing(n: int) -> pa.Array:
    """`n` states of empty sums."""
    return _states(np.zeros(n + 1, np.int32), np.empty(0, np.uint8))


def _states(offsets: npt.NDArray[np.int32], data: npt.NDArray[np.uint8]) -> pa.Array:
    if len(data) >= 1 << 31:
        raise OverflowError("exact sums of a step of more than 2 GiB")
    return pa.Array.from_buffers(
        pa.binary(), len(offsets) - 1, [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    )


def _buffers(states: pa.Array) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.uint8]]:
    _, raw_offsets, raw = states.buffers()
    if len(states) == 0:
        return np.zeros(1, np.int32), np.empty(0, np.uint8)
    offsets = np.frombuffer(raw_offsets, np.int32, len(states) + 1, states.offset * 4)
    has_bytes = raw is not None and raw.size
    return offsets, np.frombuffer(raw, np.uint8) if has_bytes else np.empty(0, np.uint8)


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
