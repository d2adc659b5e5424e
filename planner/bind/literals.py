"""Constants: numbers with Spark's types for them, and intervals."""

from __future__ import annotations

import decimal
import math
import re

from sqlglot import exp

from planner import types
from planner.bind.report import Report
from planner.expr import Literal
from planner.functions import Interval
from planner.types import BIGINT, DOUBLE, INT, DecimalType


def number(node: exp.Expression, sign: str, report: Report) -> Literal:
    """A numeric literal: the smallest of INT, BIGINT, DECIMAL; DOUBLE with an exponent."""
    text = sign + str(node.this)
    if "e" in text.lower():
        if math.isinf(float(text)):
            report.fail(node, f"the number {text} is outside the range of DOUBLE")
        return Literal(float(text), DOUBLE)
    value = decimal.Decimal(text)
    if "." not in text:
        for kind in (INT, BIGINT):
            if kind.min <= int(text) <= kind.max:
                return Literal(int(text), kind)
    digits, exponent = value.as_tuple().digits, value.as_tuple().exponent
    assert isinstance(exponent, int)
    precision = max(len(digits) if value else 1, -exponent)
    if precision > types.MAX_PRECISION:
        report.fail(node, f"the number {text} has more than 38 digits")
    return Literal(value if value else abs(value), DecimalType(precision, -exponent))


def has_suffix(node: exp.Expression) -> bool:
    """Whether the numeric literal was written with its type: sqlglot makes a cast of it."""
    if not isinstance(node, exp.Literal) or node.is_string or "end" not in node.meta:
        return False
    return bool(node.meta["end"] - node.meta["start"] + 1 > len(str(node.this)))


def interval_value(text: str, unit: exp.Expression) -> Interval | None:
    if isinstance(unit, exp.IntervalSpan):
        span = (str(unit.this.this).upper(), str(unit.expression.this).upper())
        parts = re.fullmatch(r"([+-]?)(\d{1,6})-(\d{1,2})", text)
        if span != ("YEAR", "MONTH") or not parts or int(parts[3]) > 11:
            return None
        months = int(parts[2]) * 12 + int(parts[3])
        return Interval(months=-months if parts[1] == "-" else months)
    if not re.fullmatch(r"[+-]?\d{1,8}", text):
        return None
    number = int(text)
    match str(unit.this).upper().removesuffix("S"):
        case "YEAR":
            return Interval(months=12 * number)
        case "MONTH":
            return Interval(months=number)
        case "WEEK":
            return Interval(days=7 * number)
        case "DAY":
            return Interval(days=number)
        case "HOUR":
            return Interval(microseconds=3_600_000_000 * number, timed=True)
        case "MINUTE":
            return Interval(microseconds=60_000_000 * number, timed=True)
        case "SECOND":
            return Interval(microseconds=1_000_000 * number, timed=True)
        case _:
            return None
