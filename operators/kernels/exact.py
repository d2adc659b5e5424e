"""Kernels of exact floating-point sums: see `operators.scalar.exact_sum` for the bytes of a state.

While it is worked on, a sum is a row of limbs: limb k counts multiples of 2**(32 * k) units, in an
int64 that has room for 2**31 carries, which are propagated once, when the state is written. Beside
them stand the three counts of specials. States are laid out as Arrow lays out binaries: offsets
int32[n + 1] into bytes uint8[m].
"""

from __future__ import annotations

import math

import numpy as np

from operators.kernels.grouping import _multiply
from operators.kernels.jit import BOOL, BOOLS, BYTES, FLOATS_OUT, INT32S, INTS, kernel
from operators.kernels.memory import load_u8

#: Squares of doubles reach 2**4196 units, multiplicities 2**63 and rows 2**31.
_LIMBS = 140
#: More bytes than any state has.
_STATE_BYTES = 4 * _LIMBS + 32
_NAN, _PINF, _NINF = 0, 1, 2
_LOW32 = np.int64(0xFFFFFFFF)
_FRACTION = np.int64((1 << 52) - 1)
_ONE = np.uint64(1)
_S32 = np.uint64(32)
_LOWER = np.uint64(0xFFFFFFFF)


@kernel
def _add_word(limbs, bit, word, negative):
    """Add or take off word * 2**bit units, of an unsigned word of 64 bits."""
    k = bit >> 5
    shift = np.uint64(bit & 31)
    low = (word & _LOWER) << shift
    high = (word >> _S32) << shift
    a = np.int64(low & _LOWER)
    b = np.int64(low >> _S32) + np.int64(high & _LOWER)
    c = np.int64(high >> _S32)
    if negative:
        limbs[k] -= a
        limbs[k + 1] -= b
        limbs[k + 2] -= c
    else:
        limbs[k] += a
        limbs[k + 1] += b
        limbs[k + 2] += c


@kernel
def _add_value(limbs, counts, bits, diff, square):
    """Add diff times the double of these bits, or its square. Returns (first, end) of the limbs
    that may have changed."""
    biased = (bits >> 52) & 0x7FF
    fraction = bits & _FRACTION
    if biased == 0x7FF:
        if fraction != 0:
            counts[_NAN] += diff
        elif bits < 0 and not square:
            counts[_NINF] += diff
        else:
            counts[_PINF] += diff
        return np.int64(_LIMBS), np.int64(0)
    mantissa = np.uint64(fraction)
    at = np.int64(0)
    if biased > 0:
        mantissa |= _ONE << np.uint64(52)
        at = biased - 1
    negative = (bits < 0) != (diff < 0)
    low, high = mantissa, np.uint64(0)
    if square:
        low, high = _multiply(mantissa, mantissa)
        at = 2 * at
        negative = diff < 0
    first = at >> 5
    times = np.uint64(diff) if diff >= 0 else np.uint64(0) - np.uint64(diff)
    if times == _ONE:
        _add_word(limbs, at, low, negative)
        if high != np.uint64(0):
            _add_word(limbs, at + 64, high, negative)
        return first, first + 5
    a, b = _multiply(low, times)
    _add_word(limbs, at, a, negative)
    _add_word(limbs, at + 64, b, negative)
    if high != np.uint64(0):
        a, b = _multiply(high, times)
        _add_word(limbs, at + 64, a, negative)
        _add_word(limbs, at + 128, b, negative)
    return first, first + 7


@kernel
def _integer(data, at, size):
    """The little-endian unsigned integer of `size` bytes, `at` bytes behind address `data`."""
    out = np.uint64(0)
    for j in range(size):
        out |= np.uint64(load_u8(data, at + j)) << np.uint64(8 * j)
    return out


@kernel
def _add_state(limbs, counts, data, start, end):
    """Add the state in bytes [start, end) behind address `data`. Returns (first, end) of the limbs
    that may have changed."""
    if start == end:
        return np.int64(_LIMBS), np.int64(0)
    at = np.int64(start) + 1
    if load_u8(data, start) != 0:
        for c in range(3):
            counts[c] += np.int64(_integer(data, at, 8))
            at += 8
    bit = np.int64(_integer(data, at, 2))
    at += 2
    first = bit >> 5
    if at == end:
        return np.int64(_LIMBS), np.int64(0)
    negative = load_u8(data, end - 1) >= 128
    while at < end:
        size = min(end - at, 8)
        _add_word(limbs, bit, _integer(data, at, size), False)
        bit += 8 * size
        at += size
    if negative:
        limbs[bit >> 5] -= np.int64(1) << (bit & 31)
    return first, (bit >> 5) + 3


@kernel
def _carry(limbs, first, end):
    """Propagate carries through limbs [first, end): each is below 2**32 then. Returns the carry
    out, 0 or -1: the sign of the sum."""
    carry = np.int64(0)
    for k in range(first, end):
        value = limbs[k] + carry
        limbs[k] = value & _LOW32
        carry = value >> 32
    return carry


@kernel
def _lowest_bit(value):
    at = 0
    while value & 1 == 0:
        value >>= 1
        at += 1
    return at


@kernel
def _length(value):
    length = 0
    while value > 0:
        value >>= 1
        length += 1
    return length


@kernel
def _write(limbs, counts, first, end, out, at):
    """Write the canonical state of a sum to out from `at` on, and clear it. Returns its end."""
    end = min(end + 3, _LIMBS)
    sign = _carry(limbs, first, end)
    while first < end and limbs[first] == 0:
        first += 1
    special = counts[0] != 0 or counts[1] != 0 or counts[2] != 0
    if first >= end and not special:
        return at
    out[at] = 1 if special else 0
    at += 1
    if special:
        for c in range(3):
            for j in range(8):
                out[at] = (counts[c] >> (8 * j)) & 255
                at += 1
            counts[c] = 0
    if first >= end:
        out[at] = 0
        out[at + 1] = 0
        return at + 2
    shift = 32 * first + _lowest_bit(limbs[first])
    out[at] = shift & 255
    out[at + 1] = shift >> 8
    at += 2
    fill = sign & _LOW32
    last = end - 1
    while last > first and limbs[last] == fill:
        last -= 1
    # Of a negative number the magnitude is one more than its complement, and it is odd here.
    bits = max(32 * last + _length(limbs[last] ^ fill) - shift, 1)
    for j in range(bits // 8 + 1):
        bit = shift + 8 * j
        k = bit >> 5
        low = limbs[k] if k < end else fill
        high = limbs[k + 1] if k + 1 < end else fill
        out[at] = ((low | (high << 32)) >> (bit & 31)) & 255
        at += 1
    for k in range(first, end):
        limbs[k] = 0
    return at


@kernel
def _room(out, used):
    """`out`, or a larger copy where another state might not fit."""
    if used + _STATE_BYTES <= out.shape[0]:
        return out
    grown = np.empty(2 * out.shape[0], np.uint8)
    for i in range(used):
        grown[i] = out[i]
    return grown


@kernel(signatures=[(INTS, INTS, INTS, BOOLS, INTS, BOOL)])
def sum_values(order, starts, values, valid, diff, square):
    """The states of the sums, or sums of squares, of each run: (offsets, bytes).

    Shapes: order int64[n], starts int64[runs + 1] into it; values: the bits of doubles as int64[n];
    valid bool[n], or length 0: all; diff int64[n], how many times each counts.
    """
    runs = starts.shape[0] - 1
    offsets = np.empty(runs + 1, np.int32)
    offsets[0] = 0
    out = np.empty(16 * runs + 2 * _STATE_BYTES, np.uint8)
    limbs = np.zeros(_LIMBS + 8, np.int64)
    counts = np.zeros(3, np.int64)
    used = np.int64(0)
    for r in range(runs):
        first = np.int64(_LIMBS)
        end = np.int64(0)
        for i in range(starts[r], starts[r + 1]):
            row = order[i]
            if valid.shape[0] == 0 or valid[row]:
                a, b = _add_value(limbs, counts, values[row], diff[row], square)
                first = min(first, a)
                end = max(end, b)
        out = _room(out, used)
        used = _write(limbs, counts, first, end, out, used)
        offsets[r + 1] = used
    return offsets, out[:used]


@kernel(signatures=[(INTS, INTS, INTS, INT32S, BYTES, INT32S, BYTES)])
def sum_states(order, starts, prior, offsets, data, old_offsets, old_data):
    """The sums of the states of each run, and of the one before it: (offsets, bytes).

    Shapes: order int64[n], starts int64[runs + 1] into it, as `sum_values`, of the states
    (offsets, data); prior int64[runs], or length 0 for none: -1 for none, p >= 0 for state p of
    (old_offsets, old_data), -2 - b for the sum of run b, which comes before this one.
    """
    runs = starts.shape[0] - 1
    out_offsets = np.empty(runs + 1, np.int32)
    out_offsets[0] = 0
    out = np.empty(16 * runs + 2 * _STATE_BYTES, np.uint8)
    address = np.int64(data.ctypes.data)
    old_address = np.int64(old_data.ctypes.data)
    limbs = np.zeros(_LIMBS + 8, np.int64)
    counts = np.zeros(3, np.int64)
    used = np.int64(0)
    for r in range(runs):
        first = np.int64(_LIMBS)
        end = np.int64(0)
        for i in range(starts[r], starts[r + 1]):
            row = order[i]
            a, b = _add_state(limbs, counts, address, offsets[row], offsets[row + 1])
            first = min(first, a)
            end = max(end, b)
        p = prior[r] if prior.shape[0] else np.int64(-1)
        if p >= 0:
            a, b = _add_state(limbs, counts, old_address, old_offsets[p], old_offsets[p + 1])
            first, end = min(first, a), max(end, b)
        elif p < -1:
            q = -2 - p
            written = np.int64(out.ctypes.data)
            a, b = _add_state(limbs, counts, written, out_offsets[q], out_offsets[q + 1])
            first, end = min(first, a), max(end, b)
        out = _room(out, used)
        used = _write(limbs, counts, first, end, out, used)
        out_offsets[r + 1] = used
    return out_offsets, out[:used]


@kernel(signatures=[(INT32S, BYTES, FLOATS_OUT)])
def to_doubles(offsets, data, out):
    """out[i] = the sum of values that state i keeps as a double, rounded once (half to even), with
    specials as IEEE addition treats them. Shapes: offsets int32[n + 1], out float64[n]."""
    address = np.int64(data.ctypes.data)
    limbs = np.zeros(_LIMBS + 8, np.int64)
    counts = np.zeros(3, np.int64)
    for i in range(out.shape[0]):
        first, end = _add_state(limbs, counts, address, offsets[i], offsets[i + 1])
        end = min(end + 3, _LIMBS)
        negative = _carry(limbs, first, end) < 0
        if negative:
            for k in range(first, end):
                limbs[k] = -limbs[k]
            _carry(limbs, first, end)
        last = end - 1
        while last >= first and limbs[last] == 0:
            last -= 1
        value = 0.0
        if last >= first:
            length = 32 * last + _length(limbs[last])
            shift = max(length - 53, 0)
            mantissa = np.int64(0)
            k = shift >> 5
            for j in range(3):
                if k + j < end:
                    moved = 32 * j - (shift & 31)
                    part = limbs[k + j]
                    if moved < 0:
                        mantissa |= part >> -moved
                    elif moved < 64:
                        mantissa |= part << moved
            mantissa &= (np.int64(1) << 53) - 1
            if shift > 0:
                half = (limbs[(shift - 1) >> 5] >> ((shift - 1) & 31)) & 1
                rest = (limbs[(shift - 1) >> 5] & ((np.int64(1) << ((shift - 1) & 31)) - 1)) != 0
                for k in range(first, (shift - 1) >> 5):
                    rest |= limbs[k] != 0
                if half == 1 and (rest or mantissa & 1 == 1):
                    mantissa += 1
            value = np.ldexp(np.float64(mantissa), shift - 1074)
        for k in range(first, end):
            limbs[k] = 0
        if counts[_NAN] != 0 or (counts[_PINF] != 0 and counts[_NINF] != 0):
            value = math.nan
        elif counts[_PINF] != 0:
            value = math.inf
        elif counts[_NINF] != 0:
            value = -math.inf
        elif negative:
            value = -value
        for c in range(3):
            counts[c] = 0
        out[i] = value
