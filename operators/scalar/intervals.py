"""Intervals: numbers of months or of microseconds, as expressions and casts see them.

Source: Spark SQL, IntervalUtils.scala and intervalExpressions.scala.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from operators.flight.column import Bools, Values
from operators.scalar import decimals
from operators.scalar.value import (
    Builder,
    Conversion,
    Errors,
    Node,
    Run,
    binary_checked,
    failures,
    unary_checked,
)
from planner.calculus import types as t
from planner.calculus.coercion import INTERVAL_UNITS
from planner.calculus.expr import Call
from planner.calculus.intervals import interval_text

_MIN = -(1 << 63)
_BY_ZERO = "[INTERVAL_DIVIDED_BY_ZERO] an interval is divided by zero"
_BEYOND = "[INTERVAL_ARITHMETIC_OVERFLOW] an interval is beyond its type"


def _interval_of(call: Call, args: tuple[Node, ...]) -> Run:
    kind = call.type
    assert isinstance(kind, t.IntervalType)
    if args[0].type == kind.number:
        return args[0].run
    low, high = kind.number.min, kind.number.max

    def op(a: Any, valid: Bools | None, n: int) -> tuple[Values, Errors | None]:
        bad = (a < low) | (a > high)
        if not bad.any():
            return a, None
        rows = np.flatnonzero(bad if valid is None else bad & valid)
        return np.where(bad, 0, a), failures(n, rows, [_BEYOND] * len(rows))

    return unary_checked(args[0], op)


def _same(call: Call, args: tuple[Node, ...]) -> Run:
    """The same number, as another type."""
    return args[0].run


def _rounded_quotient(call: Call, args: tuple[Node, ...]) -> Run:
    def op(x: Any, y: Any, valid: Bools | None, n: int) -> tuple[Values, Errors | None]:
        zero, beyond = y == 0, (y == -1) & (x == _MIN)
        bad = zero | beyond
        errors = None
        if bad.any():
            rows = np.flatnonzero(bad if valid is None else bad & valid)
            said = [_BY_ZERO if at_zero else _BEYOND for at_zero in zero[rows].tolist()]
            errors = failures(n, rows, said)
            y = np.where(bad, 1, y)
        top, under = _magnitude(x), _magnitude(y)
        whole = top // under
        whole += top - whole * under >= under - (top - whole * under)
        quotient = whole.view(np.int64)
        return np.where((x < 0) != (y < 0), -quotient, quotient), errors

    return binary_checked(args[0], args[1], op)


def _magnitude(values: Any) -> npt.NDArray[np.uint64]:
    """|values|, also of the least number."""
    bits = np.ascontiguousarray(values, np.int64).view(np.uint64)
    return np.where(values < 0, ~bits + np.uint64(1), bits)


# --- casts -------------------------------------------------------------------------------------


def conversion(source: t.SqlType, target: t.SqlType) -> Conversion | None:
    """Casts from and to intervals, but for those to DECIMAL; else None."""
    match source, target:
        case t.IntervalType(), t.StringType():
            return lambda a, valid, n: (
                pa.array([interval_text(v, source) for v in a.tolist()], pa.string()), None, None,
            )  # fmt: skip
        case t.IntervalType(), t.IntervalType():
            return lambda a, valid, n: (a - np.fmod(a, _least(target)), None, None)
        case t.IntervalType(), t.IntegerType():
            return _counted(source, target)
        case t.IntegerType(), t.IntervalType():
            return _multiplied(source, target)
        case t.DecimalType(), t.IntervalType():
            return _rounded(source, target)
        case _:
            return None


def _least(kind: t.IntervalType) -> int:
    """The number of the least interval of a type."""
    return 1 if kind.last == "SECOND" else INTERVAL_UNITS[kind.last]


def whole_units(values: Any, kind: t.IntervalType) -> Values:
    """How many whole units intervals of one unit are, towards zero. int64[n]"""
    size = INTERVAL_UNITS[kind.last]
    return (values - np.fmod(values, size)) // size


def _counted(source: t.IntervalType, target: t.IntegerType) -> Conversion:
    def op(a: Any, valid: Bools | None, n: int) -> tuple[Values, Bools | None, Errors | None]:
        whole = whole_units(a, source)
        bad = (whole < target.min) | (whole > target.max)
        return np.where(bad, 0, whole), None, _beyond(bad, valid, n, whole, source, target)

    return op


def _multiplied(source: t.SqlType, target: t.IntervalType) -> Conversion:
    size, number = INTERVAL_UNITS[target.last], target.number
    low, high = -(-number.min // size), number.max // size

    def op(a: Any, valid: Bools | None, n: int) -> tuple[Values, Bools | None, Errors | None]:
        bad = (a < low) | (a > high)
        return np.where(bad, 0, a) * size, None, _beyond(bad, valid, n, a, source, target)

    return op


def _rounded(source: t.DecimalType, target: t.IntervalType) -> Conversion:
    """Half up."""
    size, number, scale = INTERVAL_UNITS[target.last], target.number, 10**source.scale

    def op(a: Any, valid: Bools | None, n: int) -> tuple[Values, Bools | None, Errors | None]:
        exact = [int(value) for value in decimals.objects(a)]
        found = [(abs(v) * size * 2 + scale) // (2 * scale) * (-1 if v < 0 else 1) for v in exact]
        fits = np.array([number.min <= v <= number.max for v in found], np.bool_)
        values = np.array([v if fit else 0 for v, fit in zip(found, fits, strict=True)], np.int64)
        shown = np.array([str(Decimal(v).scaleb(-source.scale)) for v in exact], object)
        return values, None, _beyond(~fits, valid, n, shown, source, target)

    return op


def _beyond(
    bad: Any, valid: Bools | None, n: int, values: Any, source: t.SqlType, target: t.SqlType
) -> Errors | None:
    if not bad.any():
        return None
    rows = np.flatnonzero(bad if valid is None else bad & valid)
    said = [
        f"[CAST_OVERFLOW] {value} of type {source} cannot be cast to {target}"
        for value in values[rows].tolist()
    ]
    return failures(n, rows, said)


BUILDERS: dict[str, Builder] = {
    "interval_of": _interval_of,
    "units_of": _same,
    "clock_of": _same,
    "rounded_quotient": _rounded_quotient,
}
