"""Rounding, roots and powers, and the value of an exact floating-point sum."""

from __future__ import annotations

import decimal
import math
from typing import Any

import numpy as np

from operators import exact_sum
from operators.column import Bools, Values
from operators.scalar import decimals
from operators.scalar.value import (
    Builder,
    Errors,
    Fetch,
    Node,
    Result,
    Run,
    binary,
    element,
    failures,
    first_of,
    unary,
    unary_checked,
)
from planner import types as t
from planner.expr import Call

_ENOUGH = decimal.Context(prec=800, Emax=10_000, Emin=-10_000)


def _round(call: Call, args: tuple[Node, ...]) -> Run:
    arg, digits_node = args
    if not digits_node.literal or digits_node.value is None:
        raise ValueError("round takes a literal number of digits")
    digits = int(digits_node.value)
    match arg.type, call.type:
        case t.DecimalType() as source, t.DecimalType() as target:
            return unary_checked(arg, _round_decimal(source, target, digits))
        case t.IntegerType() as kind, _:
            return unary_checked(arg, _round_integer(kind, digits))
        case t.FloatType(), _:
            return unary(arg, lambda a: _round_floats(a, digits))
        case _:
            raise ValueError(f"round of {arg.type}")


def _round_decimal(source: t.DecimalType, target: t.DecimalType, digits: int) -> Any:
    if digits >= source.scale:
        return lambda a, valid, n: decimals.rescaled(a, source, target, valid, n)

    def op(a: Any, valid: Bools | None, n: int) -> tuple[Values, Errors | None]:
        if digits >= 0 and target.scale == digits:
            return decimals.rescaled(a, source, target, valid, n)
        numbers = decimals.divided(decimals.objects(a), 10 ** (source.scale - digits))
        return decimals.checked(numbers * 10 ** (target.scale - digits), target, valid, n)

    return op


def _round_integer(kind: t.IntegerType, digits: int) -> Any:
    def op(a: Any, valid: Bools | None, n: int) -> tuple[Values, Errors | None]:
        if digits >= 0:
            return a, None
        unit = 10**-digits
        exact = decimals.divided(a.astype(object), unit) * unit
        bad = ((exact < kind.min) | (exact > kind.max)).astype(np.bool_)
        rows = np.flatnonzero(bad if valid is None else bad & valid)
        messages = [f"[ARITHMETIC_OVERFLOW] {kind} overflow in round of {a[i]}" for i in rows]
        return np.where(bad, 0, exact).astype(np.int64), failures(n, rows, messages)

    return op


def _round_floats(values: Any, digits: int) -> Values:
    """Half up of the shortest decimal that denotes the value, as Spark does."""
    out = [_round_float(x, digits) for x in values.tolist()]
    return np.array(out, values.dtype)


def _round_float(value: float, digits: int) -> float:
    if not math.isfinite(value):
        return value
    number = decimal.Decimal(repr(value))
    if number.as_tuple().exponent >= -digits:  # type: ignore[operator]
        return value + 0.0  # a BigDecimal has no negative zero
    unit = decimal.Decimal((0, (1,), -digits))
    return float(number.quantize(unit, decimal.ROUND_HALF_UP, _ENOUGH)) + 0.0


def _whole(call: Call, args: tuple[Node, ...]) -> Run:
    (arg,) = args
    source, target = arg.type, call.type
    up = call.function == "ceil"
    if isinstance(source, t.IntegerType):
        return arg.run
    if isinstance(source, t.DecimalType) and isinstance(target, t.DecimalType):
        return unary_checked(arg, _whole_decimal(source, target, up))
    rounding = np.ceil if up else np.floor
    if isinstance(target, t.FloatType):
        return unary(arg, rounding)

    def op(a: Any, valid: Bools | None, n: int) -> tuple[Values, Errors | None]:
        whole = rounding(a.astype(np.float64))
        whole = np.where(whole == whole, whole, 0.0)  # noqa: PLR0124 - NaN gives 0, as in Java
        bad = (whole >= 2.0**63) | (whole < -(2.0**63))
        if not bad.any():
            return whole.astype(np.int64), None
        rows = np.flatnonzero(bad if valid is None else bad & valid)
        messages = [
            f"[ARITHMETIC_OVERFLOW] BIGINT overflow in {call.function} of {a[i]}" for i in rows
        ]
        return np.where(bad, 0.0, whole).astype(np.int64), failures(n, rows, messages)

    return unary_checked(arg, op)


def _whole_decimal(source: t.DecimalType, target: t.DecimalType, up: bool) -> Any:
    unit = 10**source.scale
    factor = 10**target.scale

    def op(a: Any, valid: Bools | None, n: int) -> tuple[Values, Errors | None]:
        numbers = decimals.objects(a) if a.ndim == 2 or source.scale > 18 else a
        whole = numbers // unit
        if up:
            whole = whole + (numbers % unit != 0)
        if a.ndim == 1 and factor == 1 and source.scale <= 18:
            return decimals.in_precision(whole, target, valid, n)
        return decimals.checked(whole.astype(object) * factor, target, valid, n)

    return op


def _sqrt(call: Call, args: tuple[Node, ...]) -> Run:
    return unary(args[0], np.sqrt)


def _power(call: Call, args: tuple[Node, ...]) -> Run:
    def op(a: Any, b: Any) -> Values:
        # Java's pow has no exception for bases of magnitude 1: not 1.0 but NaN.
        odd = ((a == 1) & (b != b)) | ((np.abs(a) == 1) & np.isinf(b))  # noqa: PLR0124
        return np.where(odd, np.nan, np.power(a, b))

    return binary(args[0], args[1], op)


def _exact_sum_to_double(call: Call, args: tuple[Node, ...]) -> Run:
    (arg,) = args

    return unary(arg, lambda a: np.array([exact_sum.to_double(s) for s in a.to_pylist()], float))


def _variance(call: Call, args: tuple[Node, ...]) -> Run:
    """Sums that are exact give a quotient of integers, rounded once."""
    count_of, total_of, squares_of, reduction = args
    assert reduction.literal and isinstance(reduction.value, int)
    less = reduction.value
    kind = total_of.type

    def run(columns: Fetch, n: int) -> Result:
        count, _, first_errors = count_of.run(columns, n)
        total, _, then_errors = total_of.run(columns, n)
        squares, _, last_errors = squares_of.run(columns, n)
        errors = first_of(first_errors, first_of(then_errors, last_errors))
        values = np.zeros(n, np.float64)
        valid = np.asarray(count) > less
        for row in np.flatnonzero(valid).tolist():
            rows = int(count[row])
            sums = (element(kind, total, row), element(squares_of.type, squares, row))
            if isinstance(kind, t.DecimalType):
                first, second = (int(s or 0) for s in sums)
                unit = 10 ** (2 * kind.scale)
                values[row] = exact_sum.ratio(rows * second - first**2, rows * (rows - less) * unit)
            else:
                assert isinstance(sums[0], bytes) and isinstance(sums[1], bytes)
                values[row] = exact_sum.variance(rows, sums[0], sums[1], rows - less)
        return values, None if valid.all() else valid, errors

    return run


def _single_value(call: Call, args: tuple[Node, ...]) -> Run:
    count_of, value_of = args

    def run(columns: Fetch, n: int) -> Result:
        count, _, count_errors = count_of.run(columns, n)
        values, valid, value_errors = value_of.run(columns, n)
        many = np.flatnonzero(np.asarray(count) > 1).tolist()
        own = failures(n, many, [_TOO_MANY_ROWS] * len(many))
        return values, valid, first_of(first_of(count_errors, value_errors), own)

    return run


_TOO_MANY_ROWS = (
    "[SCALAR_SUBQUERY_TOO_MANY_ROWS] more than one row returned by a subquery used as an expression"
)


BUILDERS: dict[str, Builder] = {
    "round": _round,
    "floor": _whole,
    "ceil": _whole,
    "sqrt": _sqrt,
    "power": _power,
    "exact_sum_to_double": _exact_sum_to_double,
    "single_value": _single_value,
    "variance": _variance,
}
