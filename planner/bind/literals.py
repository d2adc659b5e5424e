"""Constants: numbers with Spark's types for them, and intervals."""

from __future__ import annotations

import decimal
import itertools
import math
import re

from sqlglot import exp

from planner.bind.report import Report
from planner.calculus import types
from planner.calculus.coercion import INTERVAL_UNITS
from planner.calculus.expr import Literal
from planner.calculus.types import BIGINT, DOUBLE, INT, DecimalType, IntervalType
from planner.parse.tokens import shortened

_NUMBER = re.compile(r"-?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)


def number(node: exp.Expression, sign: str, report: Report) -> Literal:
    """A numeric literal: the smallest of INT, BIGINT, DECIMAL; DOUBLE with an exponent."""
    text = sign + str(node.this)
    if not _NUMBER.fullmatch(text):
        report.fail(node, f'"{shortened(text)}" is no number')
    if "e" in text.lower():
        if math.isinf(float(text)):
            report.fail(node, f"the number {shortened(text)} is outside the range of DOUBLE")
        return Literal(float(text), DOUBLE)
    value = decimal.Decimal(text)
    digits, exponent = value.as_tuple().digits, value.as_tuple().exponent
    assert isinstance(exponent, int)
    precision = max(len(digits) if value else 1, -exponent)
    if precision > types.MAX_PRECISION:
        report.fail(node, f"the number {shortened(text)} has more than 38 digits")
    if "." not in text:
        for kind in (INT, BIGINT):
            if kind.min <= int(text) <= kind.max:
                return Literal(int(text), kind)
    return Literal(value if value else abs(value), DecimalType(precision, -exponent))


def has_suffix(node: exp.Expression) -> bool:
    """Whether the numeric literal was written with its type: sqlglot makes a cast of it."""
    if not isinstance(node, exp.Literal) or node.is_string or "end" not in node.meta:
        return False
    return bool(node.meta["end"] - node.meta["start"] + 1 > len(str(node.this)))


#: What else a literal may count in: of which unit's type it is, and how many of its numbers.
_OTHER_UNITS = {"WEEK": ("DAY", 7 * INTERVAL_UNITS["DAY"]), "MILLISECOND": ("SECOND", 1_000)}
_OTHER_UNITS["MICROSECOND"] = ("SECOND", 1)


def interval_value(text: str, unit: exp.Expression) -> Literal | None:
    """The interval of a literal's text and unit (or `unit TO unit`), or None."""
    if isinstance(unit, exp.IntervalSpan):
        return _span(text, str(unit.this.this).upper(), str(unit.expression.this).upper())
    name = str(unit.this).upper().removesuffix("S")
    if name == "SECOND" and re.fullmatch(r"[+-]?\d{1,8}\.\d{1,6}", text):
        value = int(decimal.Decimal(text).scaleb(6))
        return Literal(value, IntervalType("SECOND", "SECOND"))
    if not re.fullmatch(r"[+-]?\d{1,8}", text):
        return None
    first, size = _OTHER_UNITS.get(name, (name, INTERVAL_UNITS.get(name, 0)))
    if not size:
        return None
    kind = IntervalType(first, first)
    value = int(text) * size
    return Literal(value, kind) if kind.number.min <= value <= kind.number.max else None


#: Each unit of a span by its pattern; those after the first are bounded.
_UNITS = {
    "DAY": r"(\d{1,9})",
    "HOUR": r"(\d{1,2})",
    "MINUTE": r"(\d{1,2})",
    "SECOND": r"(\d{1,2}(?:\.\d{1,6})?)",
}
_BOUNDS = {"HOUR": 24, "MINUTE": 60, "SECOND": 60}


def _span(text: str, first: str, last: str) -> Literal | None:
    """'years-months' YEAR TO MONTH, 'days hours:minutes:seconds' DAY TO SECOND and its parts."""
    if (first, last) == ("YEAR", "MONTH"):
        parts = re.fullmatch(r"([+-]?)(\d{1,6})-(\d{1,2})", text)
        if not parts or int(parts[3]) > 11:
            return None
        months = int(parts[2]) * 12 + int(parts[3])
        return Literal(-months if parts[1] == "-" else months, IntervalType(first, last))
    names = list(_UNITS)
    if first not in names or last not in names or names.index(first) >= names.index(last):
        return None
    names = names[names.index(first) : names.index(last) + 1]
    pattern = _UNITS[names[0]]
    for before, name in itertools.pairwise(names):
        pattern += (" " if before == "DAY" else ":") + _UNITS[name]
    found = re.fullmatch(rf"([+-]?){pattern}", text)
    if found is None:
        return None
    total = 0
    for name, value in zip(names, found.groups()[1:], strict=True):
        number = decimal.Decimal(value)
        if number >= _BOUNDS.get(name, number + 1):
            return None
        total += int(number * INTERVAL_UNITS[name])
    if total > BIGINT.max:
        return None
    return Literal(-total if found[1] == "-" else total, IntervalType(first, last))
