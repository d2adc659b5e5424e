"""Kernels of scalar expressions: checked arithmetic, calendar, and matching of short texts.

All arrays of one call have the length of the batch, but for the needles of the matching kernels.
Texts come as Arrow lays them out: offsets int32[n + 1] into bytes uint8[…]. Kernels that can
overflow say so for the whole batch; the caller then finds the rows on its exact path.
"""

from __future__ import annotations

import numpy as np

from operators.kernels.grouping import _multiply
from operators.kernels.jit import (
    BOOLS_OUT,
    BYTES,
    INT32S,
    INT64,
    INTS,
    INTS2,
    INTS2_OUT,
    INTS_OUT,
    kernel,
)

_ZERO = np.uint64(0)
SAFE_PRODUCT = 9.2e18  # below 2**63 by more than a product of doubles can be off

WORD, PAIR, LONGER = 0, 1, 2

YEAR, QUARTER, MONTH, DAY, DAY_OF_WEEK, DAY_OF_YEAR, WEEK = range(7)


@kernel(signatures=[(INTS, INTS, INTS_OUT)])
def add_checked(left, right, out):
    """out = left + right, wrapping; whether any row overflowed."""
    bad = np.int64(0)
    for i in range(left.shape[0]):
        a = left[i]
        b = right[i]
        c = a + b
        out[i] = c
        bad |= (a ^ c) & (b ^ c)
    return bad < 0


@kernel(signatures=[(INTS, INTS, INTS_OUT)])
def subtract_checked(left, right, out):
    """out = left - right, wrapping; whether any row overflowed."""
    bad = np.int64(0)
    for i in range(left.shape[0]):
        a = left[i]
        b = right[i]
        c = a - b
        out[i] = c
        bad |= (a ^ b) & (a ^ c)
    return bad < 0


@kernel(signatures=[(INTS, INTS, INTS_OUT)])
def multiply_checked(left, right, out):
    """out = left * right, wrapping; False proves that no row overflowed."""
    bad = False
    for i in range(left.shape[0]):
        a = left[i]
        b = right[i]
        out[i] = a * b
        bad |= abs(np.float64(a) * np.float64(b)) >= SAFE_PRODUCT
    return bad


@kernel(signatures=[(INTS, INT64, INT64)])
def outside(values, low, high):
    """Whether any value lies outside [low, high]."""
    bad = False
    for i in range(values.shape[0]):
        bad |= (values[i] < low) | (values[i] > high)
    return bad


@kernel(signatures=[(INTS, INT64, INTS_OUT)])
def divide_half_up(values, divisor, out):
    """out = values / divisor > 1, rounded half away from zero."""
    for i in range(values.shape[0]):
        v = values[i]
        quotient = v // divisor
        rest = v - quotient * divisor  # 0 <= rest < divisor, as // floors
        # half away from zero: up for positives at the half, up for negatives only past it
        if rest > divisor - rest or (rest == divisor - rest and v > 0):
            quotient += 1
        out[i] = quotient


@kernel(signatures=[(INTS, INTS, INT64, INTS_OUT)])
def quotient_half_up(numerators, denominators, factor, out):
    """out = numerators * factor / denominators, rounded half away from zero.

    Requires: no product overflows, no denominator is 0 or -2**63.
    """
    for i in range(numerators.shape[0]):
        top = abs(numerators[i]) * factor
        bottom = abs(denominators[i])
        quotient = top // bottom
        rest = top - quotient * bottom
        if rest >= bottom - rest:
            quotient += 1
        out[i] = quotient if (numerators[i] < 0) == (denominators[i] < 0) else -quotient


@kernel(signatures=[(INTS2, INTS, INTS, INTS_OUT)])
def sums_in_range(sums, tops, bound, out):
    """How long sums of three words are: WORD if each fits int64, PAIR if not, but each lies between
    -bound and bound, LONGER otherwise.

    Shapes: sums int64[n, 2], low and high word; tops int64[n], or length 0: sums of two words;
    bound: the two words of an unsigned number, itself outside; out int64[n]: the sums, if WORD.
    """
    length = WORD
    for i in range(sums.shape[0]):
        low = sums[i, 0]
        high = sums[i, 1]
        out[i] = low
        if tops.shape[0] != 0 and tops[i] != high >> 63:
            return LONGER
        a = np.uint64(low)
        b = np.uint64(high)
        if high < 0:
            a = np.uint64(0) - a
            b = ~b
            if a == np.uint64(0):
                b += np.uint64(1)
        most = np.uint64(bound[1])
        if b > most or (b == most and a >= np.uint64(bound[0])):
            return LONGER
        if high != low >> 63:
            length = PAIR
    return length


@kernel
def _times(low, high, factor):
    """The 128-bit number (low, high) times factor, two words of an unsigned number, and whether
    that overflows."""
    negative = high < 0
    a = np.uint64(low)
    b = np.uint64(high)
    if negative:
        a, b = _negated(a, b)
    f = np.uint64(factor[0])
    g = np.uint64(factor[1])
    first, carry = _multiply(a, f)
    second, lost = _multiply(b, f)
    other, more = _multiply(a, g)
    bad = lost != _ZERO or more != _ZERO or (b != _ZERO and g != _ZERO)
    total = carry + second
    bad |= total < second
    sum_ = total + other
    bad |= sum_ < other
    bad |= sum_ >> np.uint64(63) != _ZERO
    if negative:
        first, sum_ = _negated(first, sum_)
    return np.int64(first), np.int64(sum_), bad


@kernel
def _negated(low, high):
    low = _ZERO - low
    high = ~high
    if low == _ZERO:
        high += np.uint64(1)
    return low, high


@kernel(signatures=[(INTS2, INTS2, INTS, INTS, INT64, INTS2_OUT)])
def add_pairs(left, right, left_factor, right_factor, sign, out):
    """out = left * left_factor + sign * right * right_factor, of numbers of two words, low and
    high, int64[n, 2]; factors: two words of an unsigned number. Whether any row overflowed."""
    bad = False
    for i in range(left.shape[0]):
        a, b, over = _times(left[i, 0], left[i, 1], left_factor)
        c, d, more = _times(right[i, 0], right[i, 1], right_factor)
        bad |= over | more
        if sign < 0:  # neither word pair is the least 128-bit number: `_times` refuses that
            x, y = _negated(np.uint64(c), np.uint64(d))
            c = np.int64(x)
            d = np.int64(y)
        low = np.uint64(a) + np.uint64(c)
        high = b + d + (np.int64(1) if low < np.uint64(a) else np.int64(0))
        bad |= ((b ^ high) & (d ^ high)) < 0
        out[i, 0] = np.int64(low)
        out[i, 1] = high
    return bad


@kernel(signatures=[(INTS, INTS, BOOLS_OUT)])
def is_in_ints(values, needles, out):
    """out[i] = whether values[i] is among the sorted needles."""
    m = needles.shape[0]
    for i in range(values.shape[0]):
        v = values[i]
        low = 0
        high = m
        while low < high:
            middle = (low + high) >> 1
            if needles[middle] < v:
                low = middle + 1
            else:
                high = middle
        out[i] = low < m and needles[low] == v


@kernel(signatures=[(INT32S, BYTES, INT32S, BYTES, BOOLS_OUT)])
def is_in_texts(offsets, data, needle_offsets, needle_data, out):
    """out[i] = whether text i equals any needle."""
    for i in range(out.shape[0]):
        start = offsets[i]
        length = offsets[i + 1] - start
        found = False
        for k in range(needle_offsets.shape[0] - 1):
            base = needle_offsets[k]
            if needle_offsets[k + 1] - base != length:
                continue
            j = 0
            while j < length and data[start + j] == needle_data[base + j]:
                j += 1
            if j == length:
                found = True
                break
        out[i] = found


@kernel
def civil(day):
    """(year, month, day of month) of days since 1970-01-01, in the proleptic Gregorian calendar.

    Source: H. Hinnant, "chrono-compatible low-level date algorithms".
    """
    shifted = day + 719468
    era = shifted // 146097
    in_era = shifted - era * 146097
    year_in_era = (in_era - in_era // 1460 + in_era // 36524 - in_era // 146096) // 365
    in_year = in_era - (365 * year_in_era + year_in_era // 4 - year_in_era // 100)
    shifted_month = (5 * in_year + 2) // 153
    month = shifted_month + 3 if shifted_month < 10 else shifted_month - 9
    year = year_in_era + era * 400 + (1 if month <= 2 else 0)
    return year, month, in_year - (153 * shifted_month + 2) // 5 + 1


@kernel
def days_of(year, month, day):
    """Days since 1970-01-01 of a civil date; the inverse of `civil`."""
    y = year - 1 if month <= 2 else year
    era = y // 400
    in_era = y - era * 400
    shifted_month = month - 3 if month > 2 else month + 9
    in_year = (153 * shifted_month + 2) // 5 + day - 1
    return era * 146097 + in_era * 365 + in_era // 4 - in_era // 100 + in_year - 719468


@kernel
def _is_leap(year):
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)


@kernel(signatures=[(INTS, INT64, INTS_OUT)])
def date_part(days, part, out):
    """out = the part (a constant of this module) of each date."""
    for i in range(days.shape[0]):
        d = days[i]
        if part == DAY_OF_WEEK:
            out[i] = (d + 4) % 7 + 1
            continue
        if part == WEEK:
            thursday = d - (d + 3) % 7 + 3
            year, _, _ = civil(thursday)
            out[i] = (thursday - days_of(year, 1, 1)) // 7 + 1
            continue
        year, month, day = civil(d)
        if part == YEAR:
            out[i] = year
        elif part == QUARTER:
            out[i] = (month + 2) // 3
        elif part == MONTH:
            out[i] = month
        elif part == DAY:
            out[i] = day
        else:
            out[i] = d - days_of(year, 1, 1) + 1


@kernel(signatures=[(INTS, INTS, INTS_OUT)])
def add_months(days, months, out):
    """out = each date that many months later, at most the last day of its month."""
    for i in range(days.shape[0]):
        year, month, day = civil(days[i])
        total = year * 12 + month - 1 + months[i]
        year = total // 12
        month = total - year * 12 + 1
        if month == 2:
            last = 29 if _is_leap(year) else 28
        elif month in (4, 6, 9, 11):
            last = 30
        else:
            last = 31
        out[i] = days_of(year, month, min(day, last))


@kernel(signatures=[(INTS, INT64, INTS_OUT)])
def truncate_date(days, part, out):
    """out = the first day of each date's YEAR, QUARTER, MONTH or (Monday) WEEK."""
    for i in range(days.shape[0]):
        d = days[i]
        if part == WEEK:
            out[i] = d - (d + 3) % 7
            continue
        year, month, _ = civil(d)
        if part == YEAR:
            month = 1
        elif part == QUARTER:
            month = (month - 1) // 3 * 3 + 1
        out[i] = days_of(year, month, 1)
