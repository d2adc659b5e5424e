"""Constant folding: what an expression over literals is worth, and trivial boolean forms.

Folding matters beyond speed: `l_shipdate <= DATE '1998-12-01' - 90 days` could fail as far as
`failing.may_fail` can tell, so it could not be evaluated below a join; folded, it is a comparison
with a literal, which cannot.

Invariant: only a call that would succeed, with a result of its type, is folded. One that would
fail stays as it is, and fails where and when the query evaluates it.
"""

from __future__ import annotations

import calendar
import datetime
import decimal
from decimal import Decimal

from planner.calculus.expr import Call, Expr, Literal, Scalar, transform
from planner.calculus.failing import NEGATED_DIGITS
from planner.calculus.primitives import STRICT
from planner.calculus.types import (
    BOOLEAN,
    DateType,
    DecimalType,
    FloatType,
    IntegerType,
    SqlType,
    StringType,
)

TRUE = Literal(True, BOOLEAN)
FALSE = Literal(False, BOOLEAN)

#: Wide enough that sums and products of two 38-digit decimals are exact before they are rounded.
_EXACT = decimal.Context(prec=100, rounding=decimal.ROUND_HALF_UP)


def fold(expr: Expr) -> Expr:
    """The expression with its constant parts evaluated; the same object if there are none."""
    return transform(expr, _fold_call)


def fold_predicate(expr: Expr) -> Expr:
    """`fold` for a predicate whose NULL means what FALSE means (a filter's, a join's)."""
    folded = fold(expr)
    if isinstance(folded, Literal) and folded.value is None:
        return FALSE
    return folded


def _fold_call(expr: Expr) -> Expr:
    if not isinstance(expr, Call):
        return expr
    logic = _fold_logic(expr)
    if logic is not expr:
        return logic
    literals = [a for a in expr.args if isinstance(a, Literal)]
    if not literals or len(literals) < len(expr.args):
        return expr
    if expr.function in STRICT and any(a.value is None for a in literals):
        return Literal(None, expr.type)
    try:
        value = _evaluate(expr, [a.value for a in literals])
    except (ArithmeticError, ValueError, OverflowError):
        return expr
    return expr if value is None else Literal(value, expr.type)


def _fold_logic(call: Call) -> Expr:
    """AND, OR, NOT and CASE with a constant operand."""
    match call.function, call.args:
        case "and", (left, right):
            if FALSE in (left, right):
                return FALSE
            return right if left == TRUE else left if right == TRUE else call
        case "or", (left, right):
            if TRUE in (left, right):
                return TRUE
            return right if left == FALSE else left if right == FALSE else call
        case "not", (Literal(value=bool() as value),):
            return Literal(not value, BOOLEAN)
        case "not", (Call(function="not", args=(inner,)),):
            return inner
        case "is_null", (Literal(value=value),):
            return Literal(value is None, BOOLEAN)
        case "is_null", (arg,) if not arg.nullable and not _computes(arg):
            return FALSE
        case "case", (when, then, *rest) if isinstance(when, Literal):
            if when == TRUE:
                return then
            if len(rest) == 1:
                return rest[0]
            return _fold_logic(Call("case", tuple(rest), call.type, call.nullable))
        case _:
            return call


def _computes(expr: Expr) -> bool:
    """Whether dropping the expression could drop an error with it."""
    return isinstance(expr, Call)


_COMPARISONS = frozenset("eq ne lt le gt ge".split())


def _evaluate(call: Call, values: list[Scalar]) -> Scalar:
    """The value of a call of non-NULL literals; None where folding is not attempted."""
    if any(isinstance(v, float) for v in values) or isinstance(call.type, FloatType):
        return None  # the executor's arithmetic decides
    match call.function, values:
        case "add", [a, b] if _numbers(a, b):
            return _fit(_EXACT.add(_dec(a), _dec(b)), call.type)
        case "subtract", [a, b] if _numbers(a, b):
            return _fit(_EXACT.subtract(_dec(a), _dec(b)), call.type)
        case "multiply", [a, b] if _numbers(a, b):
            return _fit(_EXACT.multiply(_dec(a), _dec(b)), call.type)
        case "negate", [a] if _numbers(a) and len(str(a)) <= NEGATED_DIGITS:
            return _fit(_EXACT.minus(_dec(a)), call.type)
        case "cast", [a]:
            return _cast(a, call.args[0].type, call.type)
        case "date_add", [datetime.date() as day, int() as days]:
            return day + datetime.timedelta(days=days)
        case "add_months", [datetime.date() as day, int() as months]:
            return _add_months(day, months)
        case "year", [datetime.date() as day]:
            return day.year
        case "month", [datetime.date() as day]:
            return day.month
        case "day", [datetime.date() as day]:
            return day.day
        case function, [a, b] if (
            function in _COMPARISONS and call.args[0].type == call.args[1].type
        ):
            return _compare(function, a, b)
        case _:
            return None


def _numbers(*values: Scalar) -> bool:
    return all(isinstance(v, (int, Decimal)) and not isinstance(v, bool) for v in values)


def _dec(value: Scalar) -> Decimal:
    assert isinstance(value, (int, Decimal))
    return Decimal(value)


def _fit(value: Decimal, kind: SqlType) -> Scalar:
    """`value` as a literal of `kind`; ArithmeticError where it does not fit."""
    match kind:
        case IntegerType():
            whole = int(value)
            if whole != value or not kind.min <= whole <= kind.max:
                raise OverflowError
            return whole
        case DecimalType():
            scaled = _EXACT.quantize(value, Decimal(1).scaleb(-kind.scale))
            if abs(scaled) >= Decimal(10) ** (kind.precision - kind.scale):
                raise OverflowError
            return scaled
        case _:
            return None


def _cast(value: Scalar, source: SqlType, target: SqlType) -> Scalar:
    match source, target:
        case _ if source == target:
            return value
        case IntegerType() | DecimalType(), DecimalType():
            return _fit(_dec(value), target)
        case IntegerType(), IntegerType():
            return _fit(_dec(value), target)
        case StringType(), DateType() if isinstance(value, str) and len(value) == 10:
            return datetime.date.fromisoformat(value)
        case _:
            return None


def _add_months(day: datetime.date, months: int) -> datetime.date:
    """Spark's rule: the same day of the month, or that month's last."""
    years, month = divmod(day.year * 12 + day.month - 1 + months, 12)
    last = calendar.monthrange(years, month + 1)[1]
    return datetime.date(years, month + 1, min(day.day, last))


def _compare(function: str, left: Scalar, right: Scalar) -> Scalar:
    if isinstance(left, str) and isinstance(right, str):
        less = left.encode() < right.encode()  # the order of UTF-8 bytes, as Spark's
    elif isinstance(left, datetime.date) and isinstance(right, datetime.date):
        less = left < right
    elif _numbers(left, right):
        less = _dec(left) < _dec(right)
    else:
        return None
    same = left == right
    return {
        "eq": same,
        "ne": not same,
        "lt": less,
        "le": less or same,
        "gt": not (less or same),
        "ge": not less,
    }[function]
