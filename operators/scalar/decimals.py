"""Decimals: exact arithmetic on unscaled integers, in one word while it fits, else in two words,
else in Python ints.

Invariant: a function here takes narrow and wide values alike and returns narrow ones whenever all
rows fit. Sums, products and quotients of two words are kernels, some 10 to 100 ns a row. Object
arrays of Python ints are the way for the rest, and for batches with an error: exact, about 0.3 µs a
row and more.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from operators.flight.column import Bools, Values, two_words
from operators.kernels import quotients as division
from operators.kernels import scalar as kernels
from operators.scalar.value import Errors, failures, plain_decimal
from planner.calculus.types import DecimalType

Objects: TypeAlias = npt.NDArray[Any]

_WORD = (1 << 64) - 1
#: Of sums in two words (see kernels.scalar.sums_in_range).
NO_TOPS = np.empty(0, np.int64)
_MIN, _MAX = -(1 << 63), (1 << 63) - 1
#: Spark computes products and quotients to 39 significant digits before it rounds to the scale.
_CONTEXT_LIMIT = 10**39


def objects(values: Values) -> Objects:
    """The values as an object array of Python ints."""
    array = np.asarray(values)
    if array.ndim == 1:
        return array.astype(object)
    low = np.ascontiguousarray(array[:, 0]).view(np.uint64).astype(object)
    result: Objects = (array[:, 1].astype(object) << 64) | low
    return result


def packed(numbers: Objects) -> Values:
    """The inverse of `objects`: narrow if all fit 64 bits. Every number fits 128 bits."""
    if len(numbers) == 0:
        return np.empty(0, np.int64)
    if numbers.min() >= _MIN and numbers.max() <= _MAX:
        return numbers.astype(np.int64)
    low = (numbers & _WORD).astype(np.uint64).view(np.int64)
    return np.stack([low, (numbers >> 64).astype(np.int64)], axis=1)


def divided(numerators: Objects, divisor: int) -> Objects:
    """numerators / divisor > 0 rounded half away from zero."""
    magnitude = np.abs(numerators)
    quotient = (2 * magnitude + divisor) // (2 * divisor)
    result: Objects = np.where(numerators < 0, -quotient, quotient)
    return result


def to_context(number: int) -> tuple[int, int]:
    """The number at 39 significant digits, half away from zero: (digits, dropped places)."""
    if -_CONTEXT_LIMIT < number < _CONTEXT_LIMIT:
        return number, 0
    dropped = len(str(abs(number))) - 39
    unit = 10**dropped
    kept = (2 * abs(number) + unit) // (2 * unit)
    return (-kept if number < 0 else kept), dropped


def to_34_digits(numbers: Objects) -> Objects:
    """Half even, which is what Scala's arithmetic of decimals leaves."""
    limit = 10**34
    if not len(numbers) or (numbers.max() < limit and numbers.min() > -limit):
        return numbers
    out: Objects = numbers.copy()
    for i in np.flatnonzero((numbers >= limit) | (numbers <= -limit)).tolist():
        unit = 10 ** (len(str(abs(numbers[i]))) - 34)
        quotient, rest = divmod(abs(numbers[i]), unit)
        quotient += 2 * rest > unit or (2 * rest == unit and quotient % 2)
        out[i] = (-quotient if numbers[i] < 0 else quotient) * unit
    return out


def shift_right(numbers: Objects, places: int) -> Objects:
    """numbers / 10**places in two roundings, as Spark does: to 39 digits first."""
    if places == 0:
        return numbers
    divisor = 10**places
    if len(numbers) and (numbers.max() >= _CONTEXT_LIMIT or numbers.min() <= -_CONTEXT_LIMIT):
        shortened = []
        for number in numbers:
            kept, dropped = to_context(number)
            shortened.append(kept * 10**dropped)
        numbers = np.array([*shortened, None], object)[:-1]
    return divided(numbers, divisor)


def checked(
    numbers: Objects, target: DecimalType, valid: Bools | None, n: int
) -> tuple[Values, Errors | None]:
    """Exact results packed into `target`; those beyond its precision fail."""
    bound = 10**target.precision
    bad = (numbers >= bound) | (numbers <= -bound)
    if not bad.any():
        return packed(numbers), None
    bad = bad.astype(np.bool_)
    safe = np.where(bad, 0, numbers)
    rows = np.flatnonzero(bad if valid is None else bad & valid)
    messages = [out_of_range(plain_decimal(numbers[i], target.scale), target) for i in rows]
    return packed(safe), failures(n, rows, messages)


def out_of_range(value: str, target: DecimalType) -> str:
    return f"[NUMERIC_VALUE_OUT_OF_RANGE] {value} cannot be represented as {target}"


def in_precision(
    values: Values, target: DecimalType, valid: Bools | None, n: int
) -> tuple[Values, Errors | None]:
    """Unscaled values at the scale of `target`; those beyond its precision fail."""
    array = np.asarray(values)
    if array.ndim == 1:
        if not target.narrow:
            return values, None
        bound = 10**target.precision - 1
        if not kernels.outside(np.ascontiguousarray(array), -bound, bound):
            return values, None
    else:
        out = np.empty(n, np.int64)
        bounds = words_of(10**target.precision)
        length = kernels.sums_in_range(np.ascontiguousarray(array), NO_TOPS, bounds, out)
        if length != kernels.LONGER:
            return (out if length == kernels.WORD else values), None
    return checked(objects(values), target, valid, n)


def words_of(number: int) -> npt.NDArray[np.int64]:
    """The low and the high word of a number of at most 128 bits, not negative."""
    return np.array([number & _WORD, number >> 64], np.uint64).view(np.int64)


def added(
    left: Values, right: Values, left_places: int, right_places: int, sign: int, n: int
) -> Values | None:
    """left * 10**left_places + sign * right * 10**right_places in two words a number, or None
    where that needs more. Shapes: n rows each, in one word or two, or a scalar."""
    if max(left_places, right_places) > 38:
        return None
    out = np.empty((n, 2), np.int64)
    factors = words_of(10**left_places), words_of(10**right_places)
    over = kernels.add_pairs(_pairs(left, n), _pairs(right, n), *factors, sign, out)
    return None if over else out


def multiplied(left: Values, right: Values, drop: int, n: int) -> Values | None:
    """left * right / 10**drop as Spark rounds it (kernels.quotients), in two words a number, or
    None where that needs more. Shapes: as `added`."""
    return _quotients(left, right, 0, drop, True, n)


def quotients(left: Values, right: Values, places: int, n: int) -> Values | None:
    """left * 10**places / right, as `multiplied`; 0 where right is 0."""
    return _quotients(left, right, max(places, 0), max(-places, 0), False, n)


def is_zero(values: Values, n: int) -> Bools:
    """Which of n numbers are 0. Shapes: as `added`."""
    pairs = _pairs(values, n)
    result: Bools = (pairs[:, 0] | pairs[:, 1]) == 0
    return result


def _quotients(
    left: Values, right: Values, up: int, down: int, product: bool, n: int
) -> Values | None:
    if max(up, down) > 38:
        return None
    out = np.empty((n, 2), np.int64)
    powers = words_of(10**up), words_of(10**down)
    over = division.quotients(_pairs(left, n), _pairs(right, n), *powers, product, out)
    return None if over else out


def _pairs(values: Values, n: int) -> npt.NDArray[np.int64]:
    array = np.asarray(values)
    if array.ndim == 2:
        return np.ascontiguousarray(array)
    return two_words(array if array.ndim else np.broadcast_to(array, n))


def scaled_up(values: Values, places: int) -> Values | None:
    """values * 10**places in one word, or None where that needs more."""
    array = np.asarray(values)
    if array.ndim == 2 or places > 18:
        return None
    if places == 0:
        return values
    factor = 10**places
    if kernels.outside(np.ascontiguousarray(array), -(_MAX // factor), _MAX // factor):
        return None
    result: Values = array * factor
    return result


def rescaled(
    values: Values, source: DecimalType, target: DecimalType, valid: Bools | None, n: int
) -> tuple[Values, Errors | None]:
    """A cast between decimals: half up where places go, failing where integral digits do not fit.

    Cost: one pass where source and target prove that nothing can go wrong, two otherwise.
    """
    places = target.scale - source.scale
    grows = target.precision - target.scale >= source.precision - source.scale
    if places == 0 and grows:
        return values, None
    if places >= 0:
        if source.precision + places <= 18 and np.ndim(values) == 1:
            wider = values * 10**places
            return (wider, None) if grows else in_precision(wider, target, valid, n)
        up = scaled_up(values, places)
        if up is not None:
            return (up, None) if grows else in_precision(up, target, valid, n)
        return checked(objects(values) * 10**places, target, valid, n)
    if np.ndim(values) == 1 and -places <= 18:
        out = np.empty(n, np.int64)
        kernels.divide_half_up(np.ascontiguousarray(values), 10**-places, out)
        return in_precision(out, target, valid, n)
    return checked(divided(objects(values), 10**-places), target, valid, n)
