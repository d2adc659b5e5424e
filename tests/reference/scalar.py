"""Scalar expressions one row at a time: the plain meaning of the functions that plans in planner
tests use. NULL is None; a row that fails raises `RowError`.
"""

from __future__ import annotations

import functools
import re
from decimal import ROUND_HALF_UP, Context, Decimal
from fractions import Fraction
from typing import Any

from planner.calculus.expr import Call, Column, Expr, Literal, Outer
from planner.calculus.types import DecimalType, FloatType, IntegerType, SqlType

Row = tuple[Any, ...]

_EXACT = Context(prec=120, rounding=ROUND_HALF_UP)


class RowError(Exception):
    """The expression fails on this row under Spark's ANSI rules."""


def value(expr: Expr, row: Row) -> Any:
    """The expression's value on one row."""
    match expr:
        case Column():
            return row[expr.index]
        case Literal():
            return expr.value
        case Call():
            return _call(expr, row)
        case Outer():
            raise AssertionError("a column of an outer query is a constant by now")


def passes(predicate: Expr, row: Row) -> bool:
    return value(predicate, row) is True


def _call(call: Call, row: Row) -> Any:
    lazy = {"and": _and, "or": _or, "case": _case, "coalesce": _coalesce}
    if call.function in lazy:
        return lazy[call.function](call, row)
    args = [value(a, row) for a in call.args]
    match call.function, args:
        case "is_null", [a]:
            return a is None
        case "single_value", [count, a]:
            if count is not None and count > 1:
                raise RowError("more than one row")
            return a
        case "try_cast", [a]:
            try:
                return None if a is None else fit(_exact(a), call.type)
            except RowError:
                return None
        case "eq_null_safe", [a, b]:
            return a == b if a is not None and b is not None else a is b
        case "in", [a, *items]:
            if a is None or (a not in items and None in items):
                return None
            return a in items
    if any(a is None for a in args):
        return None
    return _strict(call, args)


def _strict(call: Call, args: list[Any]) -> Any:
    comparisons = {
        "eq": lambda a, b: a == b,
        "ne": lambda a, b: a != b,
        "lt": lambda a, b: a < b,
        "le": lambda a, b: a <= b,
        "gt": lambda a, b: a > b,
        "ge": lambda a, b: a >= b,
    }
    if call.function in comparisons:
        return comparisons[call.function](*args)
    match call.function, args:
        case "not", [a]:
            return not a
        case "add", [a, b]:
            return fit(_exact(a) + _exact(b), call.type)
        case "subtract", [a, b]:
            return fit(_exact(a) - _exact(b), call.type)
        case "multiply", [a, b]:
            return fit(_exact(a) * _exact(b), call.type)
        case "divide", [a, b]:
            if b == 0:
                raise RowError("division by zero")
            return fit(_exact(a) / _exact(b), call.type)
        case "integral_divide", [a, b]:
            if b == 0:
                raise RowError("division by zero")
            return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
        case "cast", [a]:
            return fit(_exact(a), call.type)
        case "least", items:
            return min(items)
        case "greatest", items:
            return max(items)
        case "checked_sum", [a, *_]:
            return fit(_exact(a), call.type)
        case "exact_sum_to_double", [a]:
            return float(a)
        case "like", [a, pattern, _]:
            regex = re.escape(pattern).replace("%", ".*").replace("_", ".")
            return re.fullmatch(regex, a, re.DOTALL) is not None
        case function, _:
            raise NotImplementedError(function)


def _exact(number: Any) -> Fraction:
    return Fraction(number)


def fit(number: Fraction, kind: SqlType) -> Any:
    """The number as a value of the type; RowError where it overflows."""
    match kind:
        case IntegerType():
            whole = int(number)
            if not kind.min <= whole <= kind.max:
                raise RowError("overflow")
            return whole
        case DecimalType():
            scaled = abs(number) * 10**kind.scale
            digits = int(scaled + Fraction(1, 2)) * (1 if number >= 0 else -1)
            if abs(digits) >= 10**kind.precision:
                raise RowError("overflow")
            return _EXACT.scaleb(Decimal(digits), -kind.scale)
        case FloatType():
            return float(number)
        case _:
            raise NotImplementedError(str(kind))


def _and(call: Call, row: Row) -> Any:
    left = value(call.args[0], row)
    if left is False:
        return False
    right = value(call.args[1], row)
    return False if right is False else None if None in (left, right) else True


def _or(call: Call, row: Row) -> Any:
    left = value(call.args[0], row)
    if left is True:
        return True
    right = value(call.args[1], row)
    return True if right is True else None if None in (left, right) else False


def _case(call: Call, row: Row) -> Any:
    pairs = zip(call.args[0:-1:2], call.args[1::2], strict=True)
    for when, then in pairs:
        if value(when, row) is True:
            return value(then, row)
    return value(call.args[-1], row)


def _coalesce(call: Call, row: Row) -> Any:
    found = (value(a, row) for a in call.args)
    return next((v for v in found if v is not None), None)


def compare_rows(left: Row, right: Row, keys: tuple[tuple[int, bool, bool], ...]) -> int:
    """Order by (column, descending, nulls first) in turn: negative, 0 or positive."""
    for column, descending, nulls_first in keys:
        a, b = left[column], right[column]
        if a == b:
            continue
        if a is None or b is None:
            return -1 if (a is None) == nulls_first else 1
        return (1 if a < b else -1) if descending else (-1 if a < b else 1)
    return 0


def sort_rows(rows: list[Row], keys: tuple[tuple[int, bool, bool], ...]) -> list[Row]:
    def compare(left: Row, right: Row) -> int:
        return compare_rows(left, right, keys)

    return sorted(rows, key=functools.cmp_to_key(compare))
