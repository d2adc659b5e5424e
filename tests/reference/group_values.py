"""Aggregates that read a whole group, one group at a time, with fractions: slow and obvious."""

from __future__ import annotations

import functools
import math
import operator
from collections import Counter
from collections.abc import Sequence
from decimal import Context, Decimal
from fractions import Fraction
from typing import Any

from planner.calculus.algebra import BITMAP_BYTES, SortKey
from planner.calculus.expr import Literal

Row = tuple[Any, ...]

_DIGITS = Context(prec=100, Emax=999_999, Emin=-999_999)
_BITS = {"bit_and": operator.and_, "bit_or": operator.or_, "bit_xor": operator.xor}


def group_value(
    function: str,
    rows: Sequence[Row],
    order: tuple[SortKey, ...],
    parameters: tuple[Literal, ...],
    distinct: bool,
) -> Any:
    """What algebra.RECOMPUTED says of rows of arguments; None where there is none."""
    telling = {"max_by": (1,), "min_by": (1,), "listagg": (0,)}
    width = len(rows[0]) if rows else 0
    kept = [
        r for r in rows if all(r[c] is not None for c in telling.get(function, tuple(range(width))))
    ]
    if distinct:
        kept = list({tuple(map(_same, r)): r for r in kept}.values())
    if not kept:
        return None
    first = [r[0] for r in kept]
    match function:
        case "percentile_cont" | "percentile_disc":
            doubles = _sorted([(float(v),) for v in first], order)
            fraction: Any = parameters[0].value
            return _percentile(function, [v for (v,) in doubles], fraction)
        case "mode":
            copies = Counter(map(_same, first))
            most = max(copies.values())
            return _sorted([(v,) for v in first if copies[_same(v)] == most], order)[0][0]
        case "max_by" | "min_by":
            by = SortKey(1, descending=function == "max_by")
            return _sorted(kept, (by, SortKey(0, nulls_first=False)))[0][0]
        case "listagg":
            separator: Any = parameters[0].value
            return separator.join(r[0] for r in _sorted(kept, (*order, SortKey(0))))
        case "collect_list":
            return tuple(v for (v,) in _sorted([(v,) for v in first], (SortKey(0),)))
        case "collect_union":
            elements = {_same(v): v for a in first for v in a if v is not None}
            return tuple(v for (v,) in _sorted([(v,) for v in elements.values()], (SortKey(0),)))
        case "bitmap_construct_agg":
            return sum(1 << bit for bit in set(first)).to_bytes(BITMAP_BYTES, "little")
        case "bitmap_or_agg" | "bitmap_and_agg":
            whole = [int.from_bytes(b[:BITMAP_BYTES], "little") for b in first]
            both = operator.or_ if function == "bitmap_or_agg" else operator.and_
            return functools.reduce(both, whole).to_bytes(BITMAP_BYTES, "little")
        case "bit_and" | "bit_or" | "bit_xor":
            return functools.reduce(_BITS[function], first)
        case _:
            pairs = [(float(r[0]), float(r[-1])) for r in kept]
            return _moment(function, pairs)


def _same(value: Any) -> Any:
    """Equal for equal SQL values: one NaN."""
    return "NaN" if isinstance(value, float) and math.isnan(value) else value


def _sorted(rows: Sequence[Row], keys: tuple[SortKey, ...]) -> list[Row]:
    """Stable sorts, the least key first. NaN is the greatest number."""
    made = list(rows)
    for key in reversed(keys):
        there = [r for r in made if r[key.column] is not None]
        there.sort(key=lambda r: _rank(r[key.column]), reverse=key.descending)
        nulls = [r for r in made if r[key.column] is None]
        made = nulls + there if key.nulls_first else there + nulls
    return made


def _rank(value: Any) -> tuple[bool, Any]:
    odd = isinstance(value, float) and math.isnan(value)
    return odd, 0 if odd else value


def _percentile(function: str, values: list[float], fraction: float) -> float:
    if function == "percentile_disc":
        return values[max(math.ceil(len(values) * fraction), 1) - 1]
    position = (len(values) - 1) * fraction
    low, high = math.floor(position), math.ceil(position)
    if low == high or values[low] == values[high]:
        return values[low]
    return (high - position) * values[low] + (position - low) * values[high]


def _moment(function: str, pairs: list[tuple[float, float]]) -> float | None:
    n = len(pairs)
    first, second = _Deviations([p[0] for p in pairs]), _Deviations([p[1] for p in pairs])
    a, b = first.power(2), second.power(2)
    match function:
        case "skewness" | "kurtosis" if a is None:
            return math.nan
        case "skewness" | "kurtosis" if a == 0:
            return None
        case "skewness":
            third = first.power(3)
            assert a is not None and third is not None
            return _root(n * third**2 / a**3, third)
        case "kurtosis":
            fourth = first.power(4)
            assert a is not None and fourth is not None
            return _rounded(n * fourth / a**2 - 3)
        case "regr_sxx":
            return math.nan if b is None else _rounded(b)
        case "regr_syy":
            return math.nan if a is None else _rounded(a)
        case "corr" | "covar_samp" if n < 2:
            return None
        case "regr_r2" | "regr_slope" | "regr_intercept" if b == 0:
            return None
        case "regr_r2" if a == 0:
            return 1.0
        case "corr" if 0 in (a, b):
            return None
    if a is None or b is None:
        return math.nan
    cross = sum((x * y for x, y in zip(first.exact, second.exact, strict=True)), Fraction())
    match function:
        case "covar_pop":
            return _rounded(cross / n)
        case "covar_samp":
            return _rounded(cross / (n - 1))
        case "corr":
            return _root(cross**2 / (a * b), cross)
        case "regr_r2":
            return _rounded(cross**2 / (a * b))
        case "regr_slope":
            return _rounded(cross / b)
        case "regr_intercept":
            return _rounded(first.mean - cross / b * second.mean)
        case "regr_sxy":
            return _rounded(cross)
        case _:
            raise AssertionError(function)


class _Deviations:
    """Exact differences from the mean; none where a value is not finite."""

    def __init__(self, values: list[float]) -> None:
        self.finite = all(map(math.isfinite, values))
        numbers = [Fraction(v) for v in values] if self.finite else []
        self.mean = sum(numbers, Fraction()) / len(values)
        self.exact = [v - self.mean for v in numbers]

    def power(self, exponent: int) -> Fraction | None:
        """The sum of their powers; None where it is NaN."""
        return sum((d**exponent for d in self.exact), Fraction()) if self.finite else None


def _rounded(number: Fraction) -> float:
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def _root(square: Fraction, sign: Fraction) -> float:
    ratio = _DIGITS.divide(Decimal(square.numerator), Decimal(square.denominator))
    return float(_DIGITS.sqrt(ratio)) * (-1 if sign < 0 else 1)
