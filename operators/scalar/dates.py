"""Functions of dates and timestamps.

A DATE is days, a TIMESTAMP microseconds since 1970-01-01. A function of what clocks show at an
instant has the time zone as its last argument (operators.scalar.zones), but for UTC, where an
instant and its local time are the same number. Years go beyond 1 to 9999 as in Spark, so the
calendar is integer arithmetic (operators.kernels.scalar).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from operators.flight.column import Bools, Ints, Values
from operators.kernels import scalar as kernels
from operators.scalar.strings import text_of
from operators.scalar.value import (
    Builder,
    Errors,
    Fetch,
    Node,
    Result,
    Run,
    binary,
    binary_checked,
    failures,
    first_of,
    unary,
    unary_checked,
)
from operators.scalar.zones import Clocks, call_clocks
from planner.calculus import types as t
from planner.calculus.expr import Call, Literal

MICROS_PER_SECOND = 1_000_000
MICROS_PER_DAY = 86_400 * MICROS_PER_SECOND
_INT_MIN, _INT_MAX = -(1 << 31), (1 << 31) - 1
_WORD = (1 << 32) - 1
_MAX = (1 << 63) - 1

_PARTS = {
    "year": kernels.YEAR,
    "quarter": kernels.QUARTER,
    "month": kernels.MONTH,
    "day": kernels.DAY,
    "day_of_week": kernels.DAY_OF_WEEK,
    "day_of_year": kernels.DAY_OF_YEAR,
    "week": kernels.WEEK,
}
_UNITS = {"hour": (3600, 24), "minute": (60, 60), "second": (1, 60)}
_TRUNCATED = {
    **dict.fromkeys(("YEAR", "YYYY", "YY"), kernels.YEAR),
    "QUARTER": kernels.QUARTER,
    **dict.fromkeys(("MONTH", "MM", "MON"), kernels.MONTH),
    "WEEK": kernels.WEEK,
}
_TRUNCATED_MICROS = {
    "DAY": MICROS_PER_DAY,
    "DD": MICROS_PER_DAY,
    "HOUR": 3600 * MICROS_PER_SECOND,
    "MINUTE": 60 * MICROS_PER_SECOND,
    "SECOND": MICROS_PER_SECOND,
    "MILLISECOND": 1000,
    "MICROSECOND": 1,
}


def days_of(kind: t.SqlType, values: Any) -> Ints:
    """The date of a DATE or TIMESTAMP, contiguous."""
    if isinstance(kind, t.TimestampType):
        days: Ints = values // MICROS_PER_DAY
        return days
    return np.ascontiguousarray(values)


def _part(call: Call, args: tuple[Node, ...]) -> Run:
    part = _PARTS[call.function]
    kind = args[0].type

    def op(a: Any) -> Values:
        out = np.empty(len(a), np.int64)
        kernels.date_part(days_of(kind, a), part, out)
        return out

    return unary(args[0], op)


def _clock(call: Call, args: tuple[Node, ...]) -> Run:
    seconds, modulus = _UNITS[call.function]
    unit = seconds * MICROS_PER_SECOND
    if len(args) == 1:
        return unary(args[0], lambda a: a // unit % modulus)
    clocks = call_clocks(args, 1)
    return unary(args[0], lambda a: clocks.local(a)[1] // unit % modulus)


def in_date_range(
    days: Ints, valid: Bools | None, n: int, what: str
) -> tuple[Values, Errors | None]:
    """Dates, those beyond 32 bits of days replaced by an error."""
    if not kernels.outside(days, _INT_MIN, _INT_MAX):
        return days, None
    bad = (days < _INT_MIN) | (days > _INT_MAX)
    rows = np.flatnonzero(bad if valid is None else bad & valid)
    message = f"[ARITHMETIC_OVERFLOW] DATE overflow in {what}"
    return np.where(bad, 0, days), failures(n, rows, [message] * len(rows))


def wrapped(days: Any) -> Values:
    """Days as Java's int arithmetic leaves them: Spark does not check these functions."""
    result: Values = ((days - _INT_MIN) & _WORD) + _INT_MIN
    return result


def _date_add(call: Call, args: tuple[Node, ...]) -> Run:
    return binary(args[0], args[1], lambda a, b: wrapped(a + b))


def _date_diff(call: Call, args: tuple[Node, ...]) -> Run:
    return binary(args[0], args[1], lambda a, b: wrapped(a - b))


def _next(days: Any, weekday: Any) -> Values:
    """1 to 7 days on. Spark takes the difference of day and weekday in 32 bits."""
    # It counts days of the week from Thursday, which 1970-01-01 was: the fifth day here.
    ahead = np.fmod(wrapped((weekday + 2) % 7 - 1 - days), 7)
    return wrapped(days + 1 + (ahead + 7) % 7)


def _next_day(call: Call, args: tuple[Node, ...]) -> Run:
    return binary(args[0], args[1], _next)


def _last_day(call: Call, args: tuple[Node, ...]) -> Run:
    def op(a: Any) -> Values:
        first, following = np.empty_like(a), np.empty_like(a)
        kernels.truncate_date(np.ascontiguousarray(a), kernels.MONTH, first)
        kernels.add_months(first, np.ones(len(a), np.int64), following)
        return wrapped(following - 1)

    return unary(args[0], op)


def _truncated_date(part: int) -> Callable[[Any, Bools | None, int], tuple[Values, Errors | None]]:
    """The start of a part of the calendar. Spark checks that of quarters, and wraps the others."""

    def op(a: Any, valid: Bools | None, n: int) -> tuple[Values, Errors | None]:
        if part == kernels.WEEK:
            return _next(wrapped(a - 7), 2), None
        out = np.empty(n, np.int64)
        kernels.truncate_date(np.ascontiguousarray(a), part, out)
        if part == kernels.QUARTER:
            return in_date_range(out, valid, n, "trunc")
        return wrapped(out), None

    return op


def _add_months(call: Call, args: tuple[Node, ...]) -> Run:
    kind = args[0].type
    if len(args) > 2:
        return _add_local_months(args, call_clocks(args, 2))

    def op(a: Any, b: Any, valid: Bools | None, n: int) -> tuple[Values, Errors | None]:
        out = np.empty(n, np.int64)
        days = days_of(kind, a)
        kernels.add_months(days, np.ascontiguousarray(b), out)
        if isinstance(kind, t.DateType):
            return in_date_range(out, valid, n, "add_months")
        return _timestamps(out, a - days * MICROS_PER_DAY, valid, n)

    return binary_checked(args[0], args[1], op)


def _add_local_months(args: tuple[Node, ...], clocks: Clocks) -> Run:
    def op(a: Any, b: Any, valid: Bools | None, n: int) -> tuple[Values, Errors | None]:
        days, rest = clocks.local(a)
        out = np.empty(n, np.int64)
        kernels.add_months(days, np.ascontiguousarray(b), out)
        return _checked(clocks.instants(out, rest, near=a), valid, n)

    return binary_checked(args[0], args[1], op)


def _checked(
    found: tuple[Values, Bools], valid: Bools | None, n: int
) -> tuple[Values, Errors | None]:
    """Timestamps, and an error where they are beyond 64 bits."""
    values, bad = found
    if not bad.any():
        return values, None
    rows = np.flatnonzero(bad if valid is None else bad & valid)
    return values, failures(n, rows, ["[DATETIME_OVERFLOW] TIMESTAMP overflow"] * len(rows))


def _timestamps(
    days: Ints, micros: Ints, valid: Bools | None, n: int
) -> tuple[Values, Errors | None]:
    """Midnight of each day plus micros, checked."""
    limit = _MAX // MICROS_PER_DAY - 1
    if not kernels.outside(days, -limit, limit):
        return days * MICROS_PER_DAY + micros, None
    return _wide_timestamps(days.astype(object) * MICROS_PER_DAY + micros, valid, n)


def _wide_timestamps(exact: Any, valid: Bools | None, n: int) -> tuple[Values, Errors | None]:
    bad = ((exact > _MAX) | (exact < -_MAX - 1)).astype(np.bool_)
    rows = np.flatnonzero(bad if valid is None else bad & valid)
    message = "[DATETIME_OVERFLOW] TIMESTAMP overflow"
    safe = np.where(bad, 0, exact).astype(np.int64)
    return safe, failures(n, rows, [message] * len(rows))


def _add_microseconds(call: Call, args: tuple[Node, ...]) -> Run:
    if len(args) > 2:
        return _add_local_days(args, call_clocks(args, 2))

    def op(a: Any, b: Any, valid: Bools | None, n: int) -> tuple[Values, Errors | None]:
        out = np.empty(n, np.int64)
        if not kernels.add_checked(np.ascontiguousarray(a), np.ascontiguousarray(b), out):
            return out, None
        return _wide_timestamps(a.astype(object) + b.astype(object), valid, n)

    return binary_checked(args[0], args[1], op)


def _add_local_days(args: tuple[Node, ...], clocks: Clocks) -> Run:
    """The whole days of an interval move the clocks, the rest of it the instant."""

    def op(a: Any, b: Any, valid: Bools | None, n: int) -> tuple[Values, Errors | None]:
        whole = (b - np.fmod(b, MICROS_PER_DAY)) // MICROS_PER_DAY
        days, rest = clocks.local(a)
        moved, bad = clocks.instants(days + whole, rest, near=a)
        out = np.empty(n, np.int64)
        if not kernels.add_checked(moved, b - whole * MICROS_PER_DAY, out):
            return _checked((out, bad), valid, n)
        exact = moved.astype(object) + (b - whole * MICROS_PER_DAY).astype(object)
        values, errors = _wide_timestamps(exact, valid, n)
        return values, first_of(errors, _checked((values, bad), valid, n)[1])

    return binary_checked(args[0], args[1], op)


def _date_trunc(call: Call, args: tuple[Node, ...]) -> Run:
    unit_node, arg = args[:2]
    kind = arg.type
    inner = arg.run
    unit = (text_of(unit_node) or "").upper()
    is_date = isinstance(kind, t.DateType)

    if not unit_node.literal:
        raise ValueError("date_trunc takes a literal unit")
    if len(args) > 2:
        return _truncated_local(unit, arg, call_clocks(args, 2))
    if unit in _TRUNCATED:
        part = _TRUNCATED[unit]
        if is_date:
            return unary_checked(arg, _truncated_date(part))

        def op(a: Any, valid: Bools | None, n: int) -> tuple[Values, Errors | None]:
            out = np.empty(n, np.int64)
            kernels.truncate_date(days_of(kind, a), part, out)
            return _timestamps(out, np.zeros(1, np.int64), valid, n)

        return unary_checked(arg, op)
    if unit in _TRUNCATED_MICROS and not is_date:
        micros = _TRUNCATED_MICROS[unit]
        lowest = -((_MAX + 1) // micros)

        def to_unit(a: Any, valid: Bools | None, n: int) -> tuple[Values, Errors | None]:
            return _checked((a // micros * micros, a // micros < lowest), valid, n)

        return unary_checked(arg, to_unit)

    def unknown(columns: Fetch, n: int) -> Result:
        values, _, errors = inner(columns, n)
        return values, np.zeros(n, np.bool_), errors

    return unknown


def _truncated_local(unit: str, arg: Node, clocks: Clocks) -> Run:
    """date_trunc by the clocks of a zone: to the start of a day, or by setting clocks back."""

    def op(a: Any, valid: Bools | None, n: int) -> tuple[Values, Errors | None]:
        days, rest = clocks.local(a)
        if unit in _TRUNCATED:
            out = np.empty(n, np.int64)
            kernels.truncate_date(days, _TRUNCATED[unit], out)
            return _checked(clocks.starts(out), valid, n)
        micros = _TRUNCATED_MICROS[unit]
        return _checked(clocks.instants(days, rest // micros * micros, near=a), valid, n)

    return unary_checked(arg, op)


def _period_edge(call: Call, args: tuple[Node, ...]) -> Run:
    slide, offset = (a.value for a in call.args[1:3] if isinstance(a, Literal))
    assert isinstance(slide, int) and isinstance(offset, int), "numbers of the plan"

    def op(a: Any, b: Any, valid: Bools | None, n: int) -> tuple[Values, Errors | None]:
        begun = a - (a % slide - offset % slide) % slide
        edge = begun - b
        bad = (begun > a) | (edge > begun) & (b > 0) | (edge < begun) & (b < 0)
        return _checked((edge, bad), valid, n)

    return binary_checked(args[0], args[3], op)


#: Months in a unit of TIMESTAMPDIFF, and microseconds in the others.
_UNIT_MONTHS = {"MONTH": 1, "QUARTER": 3, "YEAR": 12}
_UNIT_MICROSECONDS = {
    "MICROSECOND": 1,
    "MILLISECOND": 1_000,
    "SECOND": 1_000_000,
    "MINUTE": 60_000_000,
    "HOUR": 3_600_000_000,
    "DAY": MICROS_PER_DAY,
    "WEEK": 7 * MICROS_PER_DAY,
}


def _units_between(call: Call, args: tuple[Node, ...]) -> Run:
    """Whole units between two times without a zone. Months are counted as java.time does: by the
    dates, the second of which is a day nearer where its time of day is not reached yet."""
    unit = call.args[2]
    assert isinstance(unit, Literal)
    name = str(unit.value)

    def towards_zero(number: Any, size: int) -> Values:
        result: Values = np.sign(number) * (np.abs(number) // size)
        return result

    def of_time(start: Any, end: Any) -> Values:
        return towards_zero(end - start, _UNIT_MICROSECONDS[name])

    def of_months(start: Any, end: Any) -> Values:
        (first, begun), (last, ended) = (np.divmod(x, MICROS_PER_DAY) for x in (start, end))
        last = last - ((last > first) & (ended < begun)) + ((last < first) & (ended > begun))
        places = []
        for days in (first, last):
            months = days.astype("M8[D]").astype("M8[M]")
            day = (days - months.astype("M8[D]").astype(np.int64)).astype(np.int64)
            places.append(months.astype(np.int64) * 32 + day)
        return towards_zero(towards_zero(places[1] - places[0], 32), _UNIT_MONTHS[name])

    return binary(args[0], args[1], of_months if name in _UNIT_MONTHS else of_time)


BUILDERS: dict[str, Builder] = {
    **dict.fromkeys(_PARTS, _part),
    **dict.fromkeys(_UNITS, _clock),
    "date_add": _date_add,
    "next_day": _next_day,
    "last_day": _last_day,
    "date_diff": _date_diff,
    "units_between": _units_between,
    "add_months": _add_months,
    "add_microseconds": _add_microseconds,
    "date_trunc": _date_trunc,
    "period_edge": _period_edge,
}
