"""Rounding, roots and powers, and the value of an exact floating-point sum."""

from __future__ import annotations

import decimal
import math
from typing import Any

import numpy as np

from operators.flight.column import Bools, Values, two_words
from operators.kernels import scalar as kernels
from operators.scalar import decimals, exact_sum
from operators.scalar.value import (
    Builder,
    Errors,
    Fetch,
    Node,
    Result,
    Run,
    binary,
    both_valid,
    element,
    failures,
    first_of,
    inherited,
    only_where,
    plain_decimal,
    unary,
    unary_checked,
)
from planner.calculus import types as t
from planner.calculus.expr import Call

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
        return _integers(kind, exact, "round", a, valid, n)

    return op


def _integers(
    kind: t.IntegerType, exact: Any, function: str, a: Any, valid: Bools | None, n: int
) -> tuple[Values, Errors | None]:
    """What `function` made of integers `a`, as such; those beyond the type are errors."""
    bad = ((exact < kind.min) | (exact > kind.max)).astype(np.bool_)
    rows = np.flatnonzero(bad if valid is None else bad & valid)
    messages = [f"[ARITHMETIC_OVERFLOW] {kind} overflow in {function} of {a[i]}" for i in rows]
    return np.where(bad, 0, exact).astype(np.int64), failures(n, rows, messages)


def _rounded_by(call: Call, args: tuple[Node, ...]) -> Run:
    """As `_round`, but half to even, up or down."""
    arg, digits_node = args
    digits = int(digits_node.value or 0)
    kind, target = arg.type, call.type
    if isinstance(kind, t.FloatType):
        return unary(arg, lambda a: _round_floats(a, digits, decimal.ROUND_HALF_EVEN))
    scale = kind.scale if isinstance(kind, t.DecimalType) else 0
    to_scale = target.scale if isinstance(target, t.DecimalType) else 0

    def op(a: Any, valid: Bools | None, n: int) -> tuple[Values, Errors | None]:
        unit = 10 ** max(scale - digits, 0)
        exact = decimals.objects(a) if a.ndim == 2 else a.astype(object)
        whole, rest = exact // unit, exact % unit
        match call.function:
            case "ceil_to":
                up = rest > 0
            case "floor_to":
                up = rest < 0
            case _:
                up = (2 * rest > unit) | ((2 * rest == unit) & (whole % 2 == 1))
        numbers = (whole + up.astype(np.bool_)) * unit
        numbers = numbers * 10 ** max(to_scale - scale, 0) // 10 ** max(scale - to_scale, 0)
        if isinstance(target, t.DecimalType):
            return decimals.checked(numbers, target, valid, n)
        assert isinstance(target, t.IntegerType)
        return _integers(target, numbers, "bround", a, valid, n)

    return unary_checked(arg, op)


def _round_floats(values: Any, digits: int, rounding: str = decimal.ROUND_HALF_UP) -> Values:
    """Of the shortest decimal that denotes the value, as Spark does."""
    out = [_round_float(x, digits, rounding) for x in values.tolist()]
    return np.array(out, values.dtype)


def _round_float(value: float, digits: int, rounding: str) -> float:
    if not math.isfinite(value):
        return value
    number = decimal.Decimal(repr(value))
    if number.as_tuple().exponent >= -digits:  # type: ignore[operator]
        return value + 0.0  # a BigDecimal has no negative zero
    unit = decimal.Decimal((0, (1,), -digits))
    return float(number.quantize(unit, rounding, _ENOUGH)) + 0.0


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


def _whole_domain(function: Any) -> Builder:
    return lambda call, args: unary(args[0], function)


def _logarithm(function: Any, bound: float) -> Builder:
    """NULL at or below the bound; NaN is its own logarithm."""

    def build(call: Call, args: tuple[Node, ...]) -> Run:
        inner = args[0].run

        def run(columns: Fetch, n: int) -> Result:
            values, valid, errors = inner(columns, n)
            inside = np.logical_not(np.asarray(values) <= bound)
            safe = np.where(inside, values, 1.0)
            return function(safe), both_valid(valid, None if inside.all() else inside), errors

        return run

    return build


def _log(call: Call, args: tuple[Node, ...]) -> Run:
    base_of, value_of = args

    def run(columns: Fetch, n: int) -> Result:
        base, base_valid, base_errors = base_of.run(columns, n)
        value, value_valid, value_errors = value_of.run(columns, n)
        inside = np.logical_not((np.asarray(base) <= 0) | (np.asarray(value) <= 0))
        logs = np.log(np.where(inside, value, 1.0)) / np.log(np.where(inside, base, 2.0))
        valid = both_valid(both_valid(base_valid, value_valid), inside)
        return logs, valid, inherited(base_valid, base_errors, value_errors)

    return run


def _exact_sum_to_double(call: Call, args: tuple[Node, ...]) -> Run:
    (arg,) = args

    return unary(arg, exact_sum.to_doubles)


def _checked_sum(call: Call, args: tuple[Node, ...]) -> Run:
    """A sum as a value of its type, from the two or three words that keep it exact."""
    sum_of, *top_of = args
    target, scale = call.type, _scale(args[0].type)
    most = 1 << 127 if isinstance(target, t.IntegerType) else 10 ** _precision(target)
    bound = decimals.words_of(most)

    def run(columns: Fetch, n: int) -> Result:
        sums, valid, errors = sum_of.run(columns, n)
        tops = decimals.NO_TOPS
        if top_of:
            tops, _, top_errors = top_of[0].run(columns, n)
            errors = first_of(errors, top_errors)
        values, own = _in_range(np.asarray(sums), np.asarray(tops), n)
        if own is not None and valid is not None:
            own = only_where(own, valid)
        return values, valid, first_of(errors, own)

    def _in_range(sums: Any, tops: Any, n: int) -> tuple[Values, Errors | None]:
        if sums.ndim == 1:
            sums = two_words(sums)
        out = np.empty(n, np.int64)
        length = kernels.sums_in_range(np.ascontiguousarray(sums), tops, bound, out)
        if length == kernels.WORD:
            return out, None
        if length == kernels.PAIR and isinstance(target, t.DecimalType):
            return sums, None
        numbers = decimals.objects(sums)
        if len(tops):
            numbers = numbers + ((tops.astype(object) + (sums[:, 1] < 0)) << 128)
        if isinstance(target, t.IntegerType):
            bad = ((numbers < target.min) | (numbers > target.max)).astype(np.bool_)
        else:
            bad = ((numbers >= most) | (numbers <= -most)).astype(np.bool_)
        rows = np.flatnonzero(bad).tolist()
        shown = [
            f"[ARITHMETIC_OVERFLOW] {target} overflow in SUM: {plain_decimal(numbers[i], scale)}"
            for i in rows
        ]
        return decimals.packed(np.where(bad, 0, numbers)), failures(n, rows, shown)

    return run


def _precision(kind: t.SqlType) -> int:
    assert isinstance(kind, t.DecimalType), "a sum is an integer or a decimal"
    return kind.precision


def _scale(kind: t.SqlType) -> int:
    assert isinstance(kind, t.DecimalType), "sums of integers are kept as decimals, too"
    return kind.scale


def _variance(call: Call, args: tuple[Node, ...]) -> Run:
    """Sums that are exact give a quotient of integers, rounded once."""
    count_of, total_of, squares_of, reduction, *top_of = args
    assert reduction.literal and isinstance(reduction.value, int)
    less = reduction.value
    kind = total_of.type

    def run(columns: Fetch, n: int) -> Result:
        count, _, first_errors = count_of.run(columns, n)
        total, _, then_errors = total_of.run(columns, n)
        squares, _, last_errors = squares_of.run(columns, n)
        errors = first_of(first_errors, first_of(then_errors, last_errors))
        tops = top_of[0].run(columns, n)[0] if top_of else None
        values = np.zeros(n, np.float64)
        valid = np.asarray(count) > less
        for row in np.flatnonzero(valid).tolist():
            rows = int(count[row])
            sums = (element(kind, total, row), element(squares_of.type, squares, row))
            if isinstance(kind, t.DecimalType):
                first, second = (int(s or 0) for s in sums)
                if tops is not None:
                    second += (int(tops[row]) + (second < 0)) << 128
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
    **dict.fromkeys(("bround", "ceil_to", "floor_to"), _rounded_by),
    "floor": _whole,
    "ceil": _whole,
    "sqrt": _sqrt,
    "power": _power,
    "exp": _whole_domain(np.exp),
    "expm1": _whole_domain(np.expm1),
    "ln": _logarithm(np.log, 0.0),
    "log10": _logarithm(np.log10, 0.0),
    "log2": _logarithm(np.log2, 0.0),
    "log1p": _logarithm(np.log1p, -1.0),
    "log": _log,
    "cbrt": _whole_domain(np.cbrt),
    "rint": _whole_domain(np.rint),
    "exact_sum_to_double": _exact_sum_to_double,
    "checked_sum": _checked_sum,
    "single_value": _single_value,
    "variance": _variance,
}
