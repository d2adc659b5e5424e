"""Moments of a group's doubles, exact and rounded once: skewness, covariance, regression.

Finite doubles of a group are integers times one power of two, so sums of their products are exact
integers, and each result is a quotient of integers, or its root, rounded to the nearest double. It
depends on no order of the rows. Where a value is infinite or NaN, the result is NaN as the formulas
of IEEE arithmetic give it; where Spark divides by zero it is None, SQL's NULL.

Source: Spark SQL, CentralMomentAgg, Covariance, PearsonCorrelation, linearRegression (their
evaluateExpression); which sums they are of follows from their definitions, not from their updates.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Doubles = npt.NDArray[np.float64]

#: Bits of a root beyond which one more bit, for a remainder, decides the rounding.
_ROOT_BITS = 64


def of_one(function: str, values: Doubles) -> float | None:
    """`skewness` or `kurtosis` of at least one value. Cost: O(n) on Python's integers."""
    if not np.isfinite(values).all():
        return math.nan
    x = _scaled(values)
    second = sum(d * d for d in x.deviations)
    if second == 0:
        return None
    n = len(values)
    if function == "skewness":
        third = sum(d * d * d for d in x.deviations)
        return _signed_root(third, n, second**3)
    fourth = sum((d * d) ** 2 for d in x.deviations)
    return _ratio(n * fourth - 3 * second * second, second * second)


def of_two(function: str, first: Doubles, second: Doubles) -> float | None:
    """A covariance, `corr`, or `regr_…` of y and x, of at least one pair of values.

    Cost: O(n) on Python's integers.
    """
    n = len(first)
    if function in ("corr", "covar_samp") and n < 2:
        return None
    a, b = _Spread.of(first), _Spread.of(second)
    match function:
        case "regr_syy":
            return math.nan if a is None else _ratio(a.square, n * n, 2 * a.exponent)
        case "regr_sxx":
            return math.nan if b is None else _ratio(b.square, n * n, 2 * b.exponent)
        case "regr_r2" | "regr_slope" | "regr_intercept" if b is not None and b.square == 0:
            return None
        case "regr_r2" if a is not None and a.square == 0:
            return 1.0
        case "corr" if any(x is not None and x.square == 0 for x in (a, b)):
            return None
    if a is None or b is None:
        return math.nan
    both = sum(d * e for d, e in zip(a.deviations, b.deviations, strict=True))
    exponent = a.exponent + b.exponent
    match function:
        case "covar_pop":
            return _ratio(both, n**3, exponent)
        case "covar_samp":
            return _ratio(both, n * n * (n - 1), exponent)
        case "regr_sxy":
            return _ratio(both, n * n, exponent)
        case "corr":
            return _signed_root(both, 1, a.square * b.square)
        case "regr_r2":
            return _ratio(both * both, a.square * b.square)
        case "regr_slope":
            return _ratio(both, b.square, a.exponent - b.exponent)
        case "regr_intercept":
            return _ratio(a.total * b.square - both * b.total, n * b.square, a.exponent)
        case _:
            raise AssertionError(function)


@dataclass(frozen=True, slots=True)
class _Scaled:
    """n doubles x[i]: `total` * 2**exponent is their sum, and deviations[i] * 2**exponent is
    n * x[i] minus it."""

    total: int
    deviations: list[int]
    exponent: int


@dataclass(frozen=True, slots=True)
class _Spread:
    """The same, with the sum of the squares of the deviations."""

    total: int
    deviations: list[int]
    exponent: int
    square: int

    @staticmethod
    def of(values: Doubles) -> _Spread | None:
        """None where a value is infinite or NaN."""
        if not np.isfinite(values).all():
            return None
        x = _scaled(values)
        return _Spread(x.total, x.deviations, x.exponent, sum(d * d for d in x.deviations))


def _scaled(values: Doubles) -> _Scaled:
    fractions, exponents = np.frexp(values)
    wholes: Any = (fractions * 2.0**53).astype(np.int64)
    present = wholes != 0
    least = int(exponents[present].min()) if present.any() else 53
    shifts = np.where(present, exponents - least, 0)
    integers = [w << s for w, s in zip(wholes.tolist(), shifts.tolist(), strict=True)]
    n, total = len(integers), sum(integers)
    return _Scaled(total, [n * i - total for i in integers], least - 53)


def _ratio(dividend: int, divisor: int, exponent: int = 0) -> float:
    """dividend / divisor * 2**exponent, rounded to the nearest double; divisor > 0."""
    if exponent >= 0:
        dividend <<= exponent
    else:
        divisor <<= -exponent
    try:
        return dividend / divisor  # of integers: rounded once
    except OverflowError:
        return -math.inf if dividend < 0 else math.inf


def _signed_root(number: int, factor: int, divisor: int) -> float:
    """number * sqrt(factor / divisor), rounded to the nearest double, where its magnitude is that
    of a skewness or a correlation."""
    if number == 0:
        return 0.0
    dividend = number * number * factor
    shift = max(0, _ROOT_BITS - (dividend.bit_length() - divisor.bit_length()) // 2)
    scaled, rest = divmod(dividend << 2 * shift, divisor)
    root = math.isqrt(scaled)
    inexact = rest != 0 or root * root != scaled
    magnitude = math.ldexp(float(2 * root + inexact), -shift - 1)
    return -magnitude if number < 0 else magnitude
