"""Kernels of decimal products and quotients beyond a word, rounded as Spark rounds them.

Both are a quotient of integers: a product a * b at a smaller scale is a * b / 10**drop, a quotient
is a * 10**places / b. Spark rounds to 39 significant digits first and to the scale of the result
then, both half away from zero. With q and rest of numerator / denominator, q of d digits, the first
rounding keeps k = 39 - d digits of the fraction; it lifts one below a half to a half exactly if
denominator - 2 * rest <= denominator / 10**k.

Numbers of 128 bits are int64[n, 2], low and high word; inside, limbs of 32 bits in uint64, the
lowest first. Source: Knuth, TAOCP 2, 4.3.1, algorithm D.
"""

from __future__ import annotations

import numpy as np

from operators.kernels.grouping import _magnitude, _multiply
from operators.kernels.jit import BOOL, INTS, INTS2, INTS2_OUT, kernel

_ZERO = np.uint64(0)
_ONE = np.uint64(1)
_S32 = np.uint64(32)
_LOW = np.uint64(0xFFFFFFFF)
_BASE = np.uint64(1 << 32)
_DIGITS = 39
#: Words of 10**0 … 10**38.
_POWERS_LOW = np.array([10**k % 2**64 for k in range(_DIGITS)], np.uint64)
_POWERS_HIGH = np.array([10**k >> 64 for k in range(_DIGITS)], np.uint64)


@kernel
def _set_product(a, b, c, d, limbs):
    """limbs[:8] = (a, b) * (c, d), unsigned numbers of 128 bits."""
    first, carry = _multiply(a, c)
    x, x_high = _multiply(a, d)
    y, y_high = _multiply(b, c)
    z, z_high = _multiply(b, d)
    second = carry + x
    over = _ONE if second < carry else _ZERO
    total = second + y
    over += _ONE if total < second else _ZERO
    third = x_high + y_high
    top = _ONE if third < x_high else _ZERO
    more = third + z
    top += _ONE if more < third else _ZERO
    last = more + over
    top += _ONE if last < more else _ZERO
    fourth = z_high + top
    limbs[0] = first & _LOW
    limbs[1] = first >> _S32
    limbs[2] = total & _LOW
    limbs[3] = total >> _S32
    limbs[4] = last & _LOW
    limbs[5] = last >> _S32
    limbs[6] = fourth & _LOW
    limbs[7] = fourth >> _S32


@kernel
def _divide(u, v, q):
    """q[:8] = u[:8] // v[:4] > 0, and u[:4] = the remainder; u has 9 limbs. v is changed."""
    n = 4
    while v[n - 1] == _ZERO:
        n -= 1
    m = 8
    while m > n and u[m - 1] == _ZERO:
        m -= 1
    for j in range(8):
        q[j] = _ZERO
    if n == 1:
        rest = _ZERO
        for j in range(m - 1, -1, -1):
            part = (rest << _S32) | u[j]
            q[j] = part // v[0]
            rest = part - q[j] * v[0]
            u[j] = _ZERO
        u[0] = rest
        return
    shift = _ZERO
    while (v[n - 1] << shift) >> np.uint64(31) == _ZERO:
        shift += _ONE
    back = _S32 - shift
    for i in range(n - 1, 0, -1):
        v[i] = ((v[i] << shift) | (v[i - 1] >> back)) & _LOW
    v[0] = (v[0] << shift) & _LOW
    u[m] = u[m - 1] >> back
    for i in range(m - 1, 0, -1):
        u[i] = ((u[i] << shift) | (u[i - 1] >> back)) & _LOW
    u[0] = (u[0] << shift) & _LOW
    for j in range(m - n, -1, -1):
        part = (u[j + n] << _S32) | u[j + n - 1]
        guess = part // v[n - 1]
        rest = part - guess * v[n - 1]
        while guess >= _BASE or guess * v[n - 2] > ((rest << _S32) | u[j + n - 2]):
            guess -= _ONE
            rest += v[n - 1]
            if rest >= _BASE:
                break
        borrow = np.int64(0)
        for i in range(n):
            product = guess * v[i]
            left = np.int64(u[i + j]) - borrow - np.int64(product & _LOW)
            u[i + j] = np.uint64(left) & _LOW
            borrow = np.int64(product >> _S32) - (left >> 32)
        left = np.int64(u[j + n]) - borrow
        u[j + n] = np.uint64(left) & _LOW
        if left < 0:
            guess -= _ONE
            carry = _ZERO
            for i in range(n):
                total = u[i + j] + v[i] + carry
                u[i + j] = total & _LOW
                carry = total >> _S32
            u[j + n] = (u[j + n] + carry) & _LOW
        q[j] = guess
    for i in range(n):
        u[i] = (u[i] >> shift) | ((u[i + 1] << back) & _LOW)
    for i in range(n, 9):
        u[i] = _ZERO


@kernel
def _less(a, b, c, d):
    """Whether (a, b) < (c, d), low and high words of unsigned numbers."""
    return b < d or (b == d and a < c)


@kernel
def _subtract(a, b, c, d):
    return a - c, b - d - (_ONE if a < c else _ZERO)


@kernel
def _limbs(low, high, out):
    out[0] = low & _LOW
    out[1] = low >> _S32
    out[2] = high & _LOW
    out[3] = high >> _S32


@kernel
def _rounds_up(q_low, q_high, rest_low, rest_high, d_low, d_high, product):
    """Whether q + rest / d becomes q + 1 (see the module)."""
    gap_low, gap_high = _subtract(d_low, d_high, rest_low, rest_high)
    if not _less(rest_low, rest_high, gap_low, gap_high):
        return True  # at least a half
    digits = 0
    while digits < _DIGITS and not _less(q_low, q_high, _POWERS_LOW[digits], _POWERS_HIGH[digits]):
        digits += 1
    k = _DIGITS - digits
    if k == 0 or k == _DIGITS or _less(d_low, d_high, _POWERS_LOW[k], _POWERS_HIGH[k]):
        return False
    gap_low, gap_high = _subtract(gap_low, gap_high, rest_low, rest_high)
    # Of integers, gap <= d / 10**k where gap * 10**k <= d.
    _set_product(gap_low, gap_high, _POWERS_LOW[k], _POWERS_HIGH[k], product)
    if (product[4] | product[5] | product[6] | product[7]) != _ZERO:
        return False
    low = product[0] | (product[1] << _S32)
    high = product[2] | (product[3] << _S32)
    return not _less(d_low, d_high, low, high)


@kernel(signatures=[(INTS2, INTS2, INTS, INTS, BOOL, INTS2_OUT)])
def quotients(left, right, up, down, product, out):
    """out = left * right / down if `product`, else left * up / (right * down); rounded.

    Shapes: left, right, out int64[n, 2]; up, down: two words of a positive number. A denominator of
    0 gives 0. Returns: whether any row needs more than 127 bits in its result or denominator.
    """
    u = np.zeros(9, np.uint64)
    v = np.zeros(4, np.uint64)
    q = np.zeros(9, np.uint64)
    wide = np.zeros(9, np.uint64)
    up_low, up_high = np.uint64(up[0]), np.uint64(up[1])
    down_low, down_high = np.uint64(down[0]), np.uint64(down[1])
    bad = False
    for i in range(left.shape[0]):
        a, b = _magnitude(left[i, 0], left[i, 1])
        c, d = _magnitude(right[i, 0], right[i, 1])
        u[8] = _ZERO
        d_low, d_high = down_low, down_high
        if product:
            _set_product(a, b, c, d, u)
        else:
            _set_product(a, b, up_low, up_high, u)
            _set_product(c, d, down_low, down_high, wide)
            bad |= (wide[4] | wide[5] | wide[6] | wide[7] | (wide[3] >> np.uint64(31))) != _ZERO
            d_low = wide[0] | (wide[1] << _S32)
            d_high = wide[2] | (wide[3] << _S32)
        if bad:
            return True
        if d_low == _ZERO and d_high == _ZERO:
            out[i, 0] = 0
            out[i, 1] = 0
            continue
        _limbs(d_low, d_high, v)
        _divide(u, v, q)
        if (q[4] | q[5] | q[6] | q[7] | (q[3] >> np.uint64(31))) != _ZERO:
            return True
        low = q[0] | (q[1] << _S32)
        high = q[2] | (q[3] << _S32)
        rest_low = u[0] | (u[1] << _S32)
        rest_high = u[2] | (u[3] << _S32)
        if (rest_low != _ZERO or rest_high != _ZERO) and _rounds_up(
            low, high, rest_low, rest_high, d_low, d_high, wide
        ):
            low += _ONE
            if low == _ZERO:
                high += _ONE
        if (left[i, 1] < 0) != (right[i, 1] < 0):
            low = _ZERO - low
            high = ~high
            if low == _ZERO:
                high += _ONE
        out[i, 0] = np.int64(low)
        out[i, 1] = np.int64(high)
    return False
