"""Dates as text and text as dates by a pattern of letters, and dates from their fields.

A pattern is a literal, and compiled once. Letters as in Java's DateTimeFormatter, in English:

    y  year (yy: last two digits)            H  hour 0 to 23       E  day of the week (EEEE: whole)
    M, L  month (MMM, MMMM: its name)        h  hour 1 to 12       q, Q  quarter
    d  day of the month, D  of the year      m  minute, s  second  a  AM or PM
    S  digits of the fraction of a second    'text' and other characters stand for themselves

To read a date, `yyyy`, `MM` and `dd` take exactly so many digits, `M` and `d` one or more.

Source: Spark `DateTimeFormatterHelper` (letters that it refuses, ResolverStyle.STRICT), Java
`DateTimeFormatterBuilder`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from operators.flight.column import Values
from operators.scalar import text
from operators.scalar.dates import MICROS_PER_DAY
from operators.scalar.strings import rowwise, text_of
from operators.scalar.value import Builder, Node, Run, unary
from operators.scalar.zones import call_clocks
from planner.calculus import types as t
from planner.calculus.datetime_patterns import Field, pattern_parts
from planner.calculus.expr import Call

_MONTHS = (
    "January February March April May June July August September October November December".split()
)
_DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()

#: Writes a field, or all, from (days, microseconds of the day).
_Write = Callable[[int, int], str]


def formatter(pattern: str) -> _Write:
    writers = [_writer(part) for part in pattern_parts(pattern)]
    return lambda days, rest: "".join([write(days, rest) for write in writers])


def _writer(part: Field | str) -> _Write:
    if isinstance(part, str):
        return lambda days, rest: part
    width = part.width
    match part.letter:
        case "y":
            return lambda days, rest: _year(text.civil_of(days)[0], width)
        case "M" | "L" if width > 2:
            short = 3 if width == 3 else None
            return lambda days, rest: _MONTHS[text.civil_of(days)[1] - 1][:short]
        case "E":
            short = 3 if width <= 3 else None
            return lambda days, rest: _DAYS[(days + 3) % 7][:short]
        case "a":
            return lambda days, rest: "AM" if rest < MICROS_PER_DAY // 2 else "PM"
        case "S":
            return lambda days, rest: f"{rest % 1_000_000:06d}000"[:width]
        case letter:
            value = _NUMBERS[letter]
            return lambda days, rest: f"{value(days, rest):0{width}d}"


def _day_of_year(days: int) -> int:
    first = text.days_from(text.civil_of(days)[0], 1, 1)
    assert first is not None
    return days - first + 1


_NUMBERS: dict[str, Callable[[int, int], int]] = {
    "M": lambda days, rest: text.civil_of(days)[1],
    "L": lambda days, rest: text.civil_of(days)[1],
    "q": lambda days, rest: (text.civil_of(days)[1] + 2) // 3,
    "Q": lambda days, rest: (text.civil_of(days)[1] + 2) // 3,
    "d": lambda days, rest: text.civil_of(days)[2],
    "D": lambda days, rest: _day_of_year(days),
    "H": lambda days, rest: rest // 3_600_000_000,
    "h": lambda days, rest: (rest // 3_600_000_000 + 11) % 12 + 1,
    "m": lambda days, rest: rest // 60_000_000 % 60,
    "s": lambda days, rest: rest // 1_000_000 % 60,
}


def _year(year: int, width: int) -> str:
    """The year before 1 is 0, those before have a sign; so do years of more digits than four."""
    if width == 2:
        return f"{abs(year) % 100:02d}"
    sign = "-" if year < 0 else "+" if width >= 4 and year >= 10**width else ""
    return f"{sign}{abs(year):0{width}d}"


def _date_format(call: Call, args: tuple[Node, ...]) -> Run:
    written = formatter(text_of(args[1]) or "")
    clocks = call_clocks(args, 2)
    is_day = isinstance(args[0].type, t.DateType)

    def op(a: Any) -> Values:
        days, rest = (a, np.zeros(len(a), np.int64)) if is_day else clocks.local(a)
        return pa.array([*map(written, days.tolist(), rest.tolist())], pa.string())

    return unary(args[0], op)


#: Digits that a date is read from; a year of more than four has a sign.
_DIGITS = {1: "([0-9]{1,19})", 2: "([0-9]{2})", 4: r"([0-9]{4}|\+[0-9]{5,9})"}


#: Of a timestamp of 64 bits.
_LAST_DAY = (2**63 - 1) // MICROS_PER_DAY


def parser(pattern: str) -> Callable[[str], int]:
    """Text to days since 1970. Raises: ValueError for text that is not of the pattern."""
    regex, order = "", ""
    for part in pattern_parts(pattern):
        if isinstance(part, str):
            regex += re.escape(part)
        else:
            order += part.letter
            regex += _DIGITS[part.width]
    whole = re.compile(regex)

    def days(value: str) -> int:
        found = whole.fullmatch(value)
        if found is not None:
            year, month, day = (int(found[order.index(c) + 1]) for c in "yMd")
            parsed = text.days_from(year, month, day) if year > 0 else None
            if parsed is not None and parsed <= _LAST_DAY:
                return parsed
            if parsed is not None:  # Spark reads a timestamp, and takes the date of it
                raise ValueError(f"[DATETIME_OVERFLOW] TIMESTAMP overflow in to_date of '{value}'")
        shown = text.shortened(value)
        raise ValueError(
            f"[CANNOT_PARSE_TIMESTAMP] '{shown}' is not a date of the form '{pattern}'"
        )

    return days


def _parse_date(call: Call, args: tuple[Node, ...]) -> Run:
    return rowwise(args[:1], parser(text_of(args[1]) or ""), pa.int64())


def make_date(year: int, month: int, day: int) -> int:
    """Raises: ValueError if there is no such day."""
    days = text.days_from(year, month, day) if -999_999_999 <= year <= 999_999_999 else None
    if days is None or not -(2**31) <= days < 2**31:
        raise ValueError(
            f"[DATETIME_FIELD_OUT_OF_BOUNDS] there is no day {day} of month {month} of year {year}"
        )
    return days


def _make_date(call: Call, args: tuple[Node, ...]) -> Run:
    return rowwise(args, make_date, pa.int64())


def _second_fraction(call: Call, args: tuple[Node, ...]) -> Run:
    """A DECIMAL(8,6): its unscaled value is the microseconds of the minute."""
    if len(args) == 1:
        return unary(args[0], lambda a: a % 60_000_000)
    clocks = call_clocks(args, 1)
    return unary(args[0], lambda a: clocks.local(a)[1] % 60_000_000)


BUILDERS: dict[str, Builder] = {
    "date_format": _date_format,
    "parse_date": _parse_date,
    "make_date": _make_date,
    "second_fraction": _second_fraction,
}
