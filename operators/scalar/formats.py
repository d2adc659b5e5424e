"""Times as text and text as times by a pattern of letters, and dates from their fields.

A pattern is a literal, and compiled once. Letters as in Java's DateTimeFormatter, in English:

    y  year (yy: last two digits)            H  hour 0 to 23       E  day of the week (EEEE: whole)
    M, L  month (MMM, MMMM: its name)        h  hour 1 to 12       q, Q  quarter
    d  day of the month, D  of the year      m  minute, s  second  a  AM or PM
    S  digits of the fraction of a second    'text' and other characters stand for themselves

To read a time, `yyyy` and letters that stand twice take exactly so many digits, letters that stand
once any number of them, and S up to its number. What is not written is 1970-01-01 00:00:00.

Source: Spark `DateTimeFormatterHelper` (letters that it refuses, ResolverStyle.STRICT), Java
`DateTimeFormatterBuilder`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
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


#: Digits that a number is read from; a year of more than four has a sign.
_DIGITS = {1: "([0-9]{1,19})", 2: "([0-9]{2})", 4: r"([0-9]{4}|\+[0-9]{5,9}|-[0-9]{4,9})"}
#: Of a timestamp of 64 bits.
_LAST_DAY = (2**63 - 1) // MICROS_PER_DAY
#: What a part that is not written is.
_MISSING = {"y": 1970, "M": 1, "d": 1, "m": 0, "s": 0, "S": 0}
_MOST = {"m": 59, "s": 59, "H": 23, "h": 12}


def parser(pattern: str) -> Callable[[str], int]:
    """Text to microseconds since 1970, as clocks show them. Raises: ValueError for text that is not
    of the pattern."""
    fields, regex = [], ""
    for part in pattern_parts(pattern):
        if isinstance(part, str):
            regex += re.escape(part)
        else:
            fields.append(part)
            regex += _read(part)
    whole = re.compile(regex, re.IGNORECASE | re.ASCII)

    def moment(value: str) -> int:
        found = whole.fullmatch(value)
        numbers = found and _numbers(fields, found)
        if numbers is not None:
            day = text.days_from(numbers["y"], numbers["M"], numbers["d"])
            if day is not None and day <= _LAST_DAY:
                seconds = (numbers["H"] * 60 + numbers["m"]) * 60 + numbers["s"]
                return day * MICROS_PER_DAY + seconds * 1_000_000 + numbers["S"]
            if day is not None:
                raise ValueError(f"[DATETIME_OVERFLOW] TIMESTAMP overflow of '{value}'")
        raise ValueError(
            f"[CANNOT_PARSE_TIMESTAMP] '{text.shortened(value)}' is not of the form '{pattern}'"
        )

    return moment


def _read(part: Field) -> str:
    match part.letter:
        case "S":
            return f"([0-9]{{1,{part.width}}})"
        case "a":
            return "(AM|PM)"
        case "M" if part.width > 2:
            names = _MONTHS if part.width == 4 else [m[:3] for m in _MONTHS]
            return f"({'|'.join(names)})"
        case _:
            return _DIGITS[part.width]


def _numbers(fields: Sequence[Field], found: re.Match[str]) -> dict[str, int] | None:
    """The number of each letter, `S` in microseconds; None if one is none."""
    numbers = dict(_MISSING)
    for field, word in zip(fields, found.groups(), strict=True):
        match field.letter:
            case "S":
                numbers["S"] = int(word.ljust(9, "0")) // 1000
            case "a":
                numbers["a"] = int(word.upper() == "PM")
            case "M" if field.width > 2:
                short = [m[:3].lower() for m in _MONTHS]
                numbers["M"] = short.index(word[:3].lower()) + 1
            case "y" if field.width == 2:
                numbers["y"] = 2000 + int(word)
            case letter:
                numbers[letter] = int(word)
    if any(numbers.get(letter, 0) > most for letter, most in _MOST.items()):
        return None
    if numbers.get("h") == 0:
        return None
    if "H" not in numbers:
        half = numbers.get("a", 0) * 12
        numbers["H"] = numbers["h"] % 12 + half if "h" in numbers else half
    return numbers


def _parse_timestamp(call: Call, args: tuple[Node, ...]) -> Run:
    return rowwise(args[:1], parser(text_of(args[1]) or ""), pa.int64())


def _try_parse_timestamp(call: Call, args: tuple[Node, ...]) -> Run:
    moment = parser(text_of(args[1]) or "")

    def or_null(value: str) -> int | None:
        try:
            return moment(value)
        except ValueError:
            return None

    return rowwise(args[:1], or_null, pa.int64())


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
    "parse_timestamp": _parse_timestamp,
    "try_parse_timestamp": _try_parse_timestamp,
    "make_date": _make_date,
    "second_fraction": _second_fraction,
}
