"""+ − × / DIV % and sign, by Spark's ANSI rules.

Integers are computed in 64 bits and checked: by range where the type is smaller, by kernels that
report overflow where it is BIGINT. Only a batch that has an overflow pays for finding its rows.
Decimals are multiplied and added in one word while they fit, whatever their declared precision;
where precision proves that they do, nothing is checked.

Source: Spark `arithmetic.scala`, `Decimal.scala`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any

import numpy as np

from operators.flight.column import Bools, Values
from operators.kernels import scalar as kernels
from operators.scalar import decimals
from operators.scalar.value import (
    Builder,
    Errors,
    Node,
    Run,
    binary,
    binary_checked,
    failures,
    first_of,
    fits_word,
    unary,
    unary_checked,
)
from planner.calculus import types as t
from planner.calculus.expr import Call

_MIN, _MAX = -(1 << 63), (1 << 63) - 1
_WORD = (1 << 64) - 1
_QUOTIENT = Context(prec=39, rounding=ROUND_HALF_UP, Emax=10_000, Emin=-10_000)
_EXACT = Context(prec=200, rounding=ROUND_HALF_UP)

_PLAIN: dict[str, Callable[[Any, Any], Any]] = {
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": operator.mul,
}
_KERNELS: dict[str, Callable[..., bool]] = {
    "add": kernels.add_checked,
    "subtract": kernels.subtract_checked,
    "multiply": kernels.multiply_checked,
}
_SIGNS = {"add": "+", "subtract": "-", "multiply": "*"}


def _build(call: Call, args: tuple[Node, ...]) -> Run:
    left, right = args
    match call.type:
        case t.IntegerType():
            return _integers(call.function, left, right, call.type)
        case t.DecimalType():
            if call.function == "multiply":
                return _decimal_product(left, right, call.type)
            return _decimal_sum(call.function, left, right, call.type)
        case _:
            return binary(left, right, _PLAIN[call.function])


def _integers(function: str, left: Node, right: Node, kind: t.IntegerType) -> Run:
    plain, kernel = _PLAIN[function], _KERNELS[function]

    def small(a: Any, b: Any, valid: Bools | None, n: int) -> tuple[Values, Errors | None]:
        values = plain(a, b)
        if not kernels.outside(values, kind.min, kind.max):
            return values, None
        return _integer_overflow(plain, _SIGNS[function], kind, a, b, valid, n)

    def big(a: Any, b: Any, valid: Bools | None, n: int) -> tuple[Values, Errors | None]:
        out = np.empty(n, np.int64)
        if not kernel(np.ascontiguousarray(a), np.ascontiguousarray(b), out):
            return out, None
        return _integer_overflow(plain, _SIGNS[function], kind, a, b, valid, n)

    return binary_checked(left, right, big if kind.bits == 64 else small)


def _integer_overflow(
    plain: Callable[[Any, Any], Any],
    sign: str,
    kind: t.IntegerType,
    a: Any,
    b: Any,
    valid: Bools | None,
    n: int,
) -> tuple[Values, Errors | None]:
    """The same in exact integers: overflowing rows get 0 and, where valid, an error."""
    exact = plain(a.astype(object), b.astype(object))
    bad = ((exact < kind.min) | (exact > kind.max)).astype(np.bool_)
    rows = np.flatnonzero(bad if valid is None else bad & valid)
    messages = [f"[ARITHMETIC_OVERFLOW] {kind} overflow in {a[i]} {sign} {b[i]}" for i in rows]
    return np.where(bad, 0, exact).astype(np.int64), failures(n, rows, messages)


def _decimal_of(node: Node) -> t.DecimalType:
    if not isinstance(node.type, t.DecimalType):
        raise ValueError(f"decimal arithmetic over {node.type}")
    return node.type


def _decimal_sum(function: str, left: Node, right: Node, target: t.DecimalType) -> Run:
    plain = _PLAIN[function]
    a_type, b_type = _decimal_of(left), _decimal_of(right)
    scale = max(a_type.scale, b_type.scale)
    a_places, b_places = scale - a_type.scale, scale - b_type.scale
    drop = scale - target.scale
    digits = max(a_type.precision + a_places, b_type.precision + b_places)
    if drop < 0:
        raise ValueError(f"{function} of {a_type} and {b_type} has no scale {target.scale}")
    a_factor, b_factor = 10**a_places, 10**b_places
    fits = target.precision - target.scale >= digits + 1 - scale

    def exact(a: Any, b: Any, valid: Bools | None, n: int) -> tuple[Values, Errors | None]:
        if drop == 0:
            pairs = decimals.added(a, b, a_places, b_places, 1 if function == "add" else -1, n)
            if pairs is not None:
                return decimals.in_precision(pairs, target, valid, n)
        numbers = plain(decimals.objects(a) * a_factor, decimals.objects(b) * b_factor)
        return decimals.checked(decimals.divided(numbers, 10**drop), target, valid, n)

    def checked(a: Any, b: Any, valid: Bools | None, n: int) -> tuple[Values, Errors | None]:
        x = decimals.scaled_up(a, a_places)
        y = decimals.scaled_up(b, b_places)
        if x is None or y is None or drop:
            return exact(a, b, valid, n)
        out = np.empty(n, np.int64)
        kernel = _KERNELS[function]
        if kernel(np.ascontiguousarray(x), np.ascontiguousarray(y), out):
            return exact(a, b, valid, n)
        return (out, None) if fits else decimals.in_precision(out, target, valid, n)

    if digits <= 18 and fits and drop == 0:
        return binary(left, right, _unchecked_sum(plain, a_factor, b_factor, exact, target))
    return binary_checked(left, right, checked)


def _unchecked_sum(
    plain: Callable[[Any, Any], Any],
    a_factor: int,
    b_factor: int,
    exact: Callable[..., tuple[Values, Errors | None]],
    target: t.DecimalType,
) -> Callable[[Any, Any], Values]:
    """The sum where precision proves that one word holds it."""

    def op(a: Any, b: Any) -> Values:
        if np.ndim(a) == 2 or np.ndim(b) == 2:
            n = max(np.shape(a)[0] if np.ndim(a) else 0, np.shape(b)[0] if np.ndim(b) else 0)
            a, b = _as_rows(a, n), _as_rows(b, n)
            return exact(a, b, None, n)[0]
        if a_factor != 1:
            a = a * a_factor
        if b_factor != 1:
            b = b * b_factor
        result: Values = plain(a, b)
        return result

    return op


def _as_rows(values: Any, n: int) -> Any:
    return values if np.ndim(values) else np.full(n, values, np.int64)


def _decimal_product(left: Node, right: Node, target: t.DecimalType) -> Run:
    a_type, b_type = _decimal_of(left), _decimal_of(right)
    scale = a_type.scale + b_type.scale
    drop = scale - target.scale
    digits = a_type.precision + b_type.precision
    if drop < 0:
        raise ValueError(f"multiply of {a_type} and {b_type} has no scale {target.scale}")
    fits = target.precision - target.scale >= digits - scale + (1 if drop else 0)

    def op(a: Any, b: Any, valid: Bools | None, n: int) -> tuple[Values, Errors | None]:
        if a.ndim == 1 and b.ndim == 1 and (drop == 0 or scale <= t.MAX_PRECISION):
            out = np.empty(n, np.int64)
            if not kernels.multiply_checked(np.ascontiguousarray(a), np.ascontiguousarray(b), out):
                if drop:
                    return decimals.rescaled(out, t.DecimalType(38, scale), target, valid, n)
                return (out, None) if fits else decimals.in_precision(out, target, valid, n)
        pairs = decimals.multiplied(a, b, drop, n)
        if pairs is not None:
            return decimals.in_precision(pairs, target, valid, n)
        exact = decimals.objects(a) * decimals.objects(b)
        return decimals.checked(decimals.shift_right(exact, drop), target, valid, n)

    return binary_checked(left, right, op)


def _divide(call: Call, args: tuple[Node, ...]) -> Run:
    left, right = args
    target = call.type
    if isinstance(target, t.DecimalType):
        return _decimal_quotient(left, right, target)

    def op(a: Any, b: Any, valid: Bools | None, n: int) -> tuple[Values, Errors | None]:
        zero = b == 0
        if not zero.any():
            return a / b, None
        errors = _by_zero("[DIVIDE_BY_ZERO] division by zero", zero, valid, n)
        return a / np.where(zero, b.dtype.type(1), b), errors

    return binary_checked(left, right, op, right_first=True)


def _decimal_quotient(left: Node, right: Node, target: t.DecimalType) -> Run:
    a_type, b_type = _decimal_of(left), _decimal_of(right)
    # a / b = unscaled a / unscaled b * 10**(b.scale - a.scale); times 10**target.scale as unscaled
    places = target.scale + b_type.scale - a_type.scale

    def op(a: Any, b: Any, valid: Bools | None, n: int) -> tuple[Values, Errors | None]:
        quick = _small_quotient(a, b, places, n)
        if quick is not None:
            return decimals.in_precision(quick, target, valid, n)
        pairs = decimals.quotients(a, b, places, n)
        if pairs is not None:
            zero = decimals.is_zero(b, n)
            errors = _by_zero("[DIVIDE_BY_ZERO] division by zero", zero, valid, n)
            values, overflow = decimals.in_precision(pairs, target, valid, n)
            return values, first_of(errors, overflow)
        x, y = decimals.objects(a), decimals.objects(b)
        zero = (y == 0).astype(np.bool_)
        errors = _by_zero("[DIVIDE_BY_ZERO] division by zero", zero, valid, n)
        numbers = [
            0 if q == 0 else _quotient(int(p), int(q), places) for p, q in zip(x, y, strict=True)
        ]
        values, overflow = decimals.checked(_as_objects(numbers), target, valid, n)
        return values, first_of(errors, overflow)

    return binary_checked(left, right, op, right_first=True)


def _small_quotient(a: Any, b: Any, places: int, n: int) -> Values | None:
    """a / b * 10**places where all of it fits one word and no b is 0; else None.

    There the rounding to 39 digits of `_quotient` changes nothing: a quotient of words that is not
    a half is further from it than that.
    """
    if np.ndim(a) == 2 or np.ndim(b) == 2 or not 0 <= places <= 18:
        return None
    if not all(fits_word(v) for v in (a, b) if isinstance(v, int)):
        return None
    x = np.ascontiguousarray(_as_rows(a, n), np.int64)
    y = np.ascontiguousarray(_as_rows(b, n), np.int64)
    limit = (_MAX // 10**places) - 1
    if kernels.outside(x, -limit, limit) or kernels.outside(y, -_MAX, _MAX):
        return None
    if not y.all():
        return None
    out = np.empty(n, np.int64)
    kernels.quotient_half_up(x, y, 10**places, out)
    return out


def _quotient(numerator: int, denominator: int, places: int) -> int:
    """numerator / denominator * 10**places, rounded to 39 digits and then to an integer."""
    top = Decimal(numerator * 10 ** max(places, 0))
    first = _QUOTIENT.divide(top, Decimal(denominator * 10 ** max(-places, 0)))
    return int(first.quantize(Decimal(1), ROUND_HALF_UP, _EXACT))


def _as_objects(numbers: list[int]) -> decimals.Objects:
    out = np.empty(len(numbers), object)
    out[:] = numbers
    return out


def _by_zero(message: str, zero: Bools, valid: Bools | None, n: int) -> Errors | None:
    rows = np.flatnonzero(zero if valid is None else zero & valid)
    return failures(n, rows, [message] * len(rows))


def _integral_divide(call: Call, args: tuple[Node, ...]) -> Run:
    left, right = args
    a_type, b_type = left.type, right.type
    if isinstance(a_type, t.DecimalType) and isinstance(b_type, t.DecimalType):
        return binary_checked(left, right, _decimal_whole_quotient(a_type, b_type), True)

    def op(x: Any, y: Any, valid: Bools | None, n: int) -> tuple[Values, Errors | None]:
        zero = y == 0
        errors = None
        if zero.any():
            errors = _by_zero("[DIVIDE_BY_ZERO] division by zero", zero, valid, n)
            y = np.where(zero, 1, y)
        overflows = (y == -1) & (x == _MIN)
        if not overflows.any():
            quotient = x // y
            quotient += (quotient * y != x) & ((x ^ y) < 0)
            return quotient, errors
        rows = np.flatnonzero(overflows if valid is None else overflows & valid)
        shown = [f"[ARITHMETIC_OVERFLOW] BIGINT overflow in {_MIN} DIV -1"] * len(rows)
        quotient = _truncated(x.astype(object), y.astype(object))
        return (
            np.where(overflows, 0, quotient).astype(np.int64),
            first_of(errors, failures(n, rows, shown)),
        )

    return binary_checked(left, right, op, right_first=True)


def _truncated(x: Any, y: Any) -> Any:
    """x / y towards zero, of Python ints."""
    quotient = np.abs(x) // np.abs(y)
    return np.where((x < 0) != (y < 0), -quotient, quotient)


def _decimal_whole_quotient(
    a_type: t.DecimalType, b_type: t.DecimalType
) -> Callable[[Any, Any, Bools | None, int], tuple[Values, Errors | None]]:
    """Spark checks the quotient as a decimal; a BIGINT takes the lowest 64 bits of it."""
    scale = max(a_type.scale, b_type.scale)
    a_factor, b_factor = 10 ** (scale - a_type.scale), 10 ** (scale - b_type.scale)
    digits = a_type.precision - a_type.scale + b_type.scale
    kind = t.bounded_decimal(max(digits, 1), 0)

    def op(a: Any, b: Any, valid: Bools | None, n: int) -> tuple[Values, Errors | None]:
        x, y = decimals.objects(a) * a_factor, decimals.objects(b) * b_factor
        zero = (y == 0).astype(np.bool_)
        errors = _by_zero("[DIVIDE_BY_ZERO] division by zero", zero, valid, n)
        whole = _truncated(x, np.where(zero, 1, y))
        bad = (np.abs(whole) >= 10**kind.precision).astype(np.bool_)
        rows = np.flatnonzero(bad if valid is None else bad & valid)
        shown = [decimals.out_of_range(str(whole[i]), kind) for i in rows.tolist()]
        low = ((np.where(bad, 0, whole) - _MIN) & _WORD) + _MIN
        return low.astype(np.int64), first_of(errors, failures(n, rows, shown))

    return op


def _remainder(call: Call, args: tuple[Node, ...]) -> Run:
    left, right = args
    target = call.type
    if isinstance(target, t.DecimalType):
        return _decimal_remainder(left, right, target)

    def op(a: Any, b: Any, valid: Bools | None, n: int) -> tuple[Values, Errors | None]:
        zero = b == 0
        errors = None
        if zero.any():
            errors = _by_zero("[REMAINDER_BY_ZERO] remainder by zero", zero, valid, n)
            b = np.where(zero, b.dtype.type(1), b)
        return np.fmod(a, b), errors

    return binary_checked(left, right, op, right_first=True)


def _decimal_remainder(left: Node, right: Node, target: t.DecimalType) -> Run:
    a_type, b_type = _decimal_of(left), _decimal_of(right)
    scale = max(a_type.scale, b_type.scale)
    a_factor, b_factor = 10 ** (scale - a_type.scale), 10 ** (scale - b_type.scale)

    def op(a: Any, b: Any, valid: Bools | None, n: int) -> tuple[Values, Errors | None]:
        x, y = decimals.objects(a) * a_factor, decimals.objects(b) * b_factor
        zero = (y == 0).astype(np.bool_)
        errors = _by_zero("[REMAINDER_BY_ZERO] remainder by zero", zero, valid, n)
        rest = np.abs(x) % np.where(zero, 1, np.abs(y))
        rest = np.where(x < 0, -rest, rest)
        exact = t.DecimalType(38, scale)
        numbers, overflow = decimals.checked(rest, exact, valid, n)
        values, rounded = decimals.rescaled(numbers, exact, target, valid, n)
        return values, first_of(errors, first_of(overflow, rounded))

    return binary_checked(left, right, op, right_first=True)


def _sign(call: Call, args: tuple[Node, ...]) -> Run:
    (arg,) = args
    kind = call.type
    change = np.negative if call.function == "negate" else np.abs

    def op(a: Any, valid: Bools | None, n: int) -> tuple[Values, Errors | None]:
        low = kind.min if isinstance(kind, t.IntegerType) else _MIN
        if a.ndim == 1 and not kernels.outside(np.ascontiguousarray(a), low + 1, _MAX):
            return change(a), None
        exact = decimals.objects(a)
        if isinstance(kind, t.DecimalType):
            changes = (exact < 0).astype(np.bool_) | (call.function == "negate")
            exact = np.where(changes, -decimals.to_34_digits(exact), exact)
            return decimals.checked(exact, kind, valid, n)
        exact = change(exact)
        bad = (exact > -low - 1).astype(np.bool_)
        rows = np.flatnonzero(bad if valid is None else bad & valid)
        form = "-({})" if call.function == "negate" else "abs({})"
        messages = [f"[ARITHMETIC_OVERFLOW] {kind} overflow in {form.format(a[i])}" for i in rows]
        return np.where(bad, 0, exact).astype(np.int64), failures(n, rows, messages)

    if isinstance(kind, t.FloatType):
        return unary(arg, change)
    return unary_checked(arg, op)


BUILDERS: dict[str, Builder] = {
    "add": _build,
    "subtract": _build,
    "multiply": _build,
    "divide": _divide,
    "integral_divide": _integral_divide,
    "remainder": _remainder,
    "negate": _sign,
    "abs": _sign,
}
