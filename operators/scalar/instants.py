"""Instants as numbers and made of parts, and the months between two.

Source: Spark `DateTimeUtils.monthsBetween`, `SecondsToTimestamp`, `UnixTime`, `MakeTimestamp`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from operators.flight.column import Bools, Ints, Values
from operators.kernels import scalar as kernels
from operators.scalar.formats import make_date
from operators.scalar.strings import rowwise
from operators.scalar.value import (
    Builder,
    Errors,
    Fetch,
    Node,
    Result,
    Run,
    both_valid,
    failures,
    first_of,
    inherited,
    unary,
    unary_checked,
)
from operators.scalar.zones import MICROS_PER_DAY, MICROS_PER_SECOND, call_clocks
from planner.calculus.expr import Call

_MAX = (1 << 63) - 1
_UNITS = {"seconds": 1_000_000, "millis": 1_000, "micros": 1}
#: Seconds of the months that parts of a month are measured in.
_MONTH_SECONDS = 31 * 86_400


def _from_number(call: Call, args: tuple[Node, ...]) -> Run:
    unit = _UNITS[call.function.removeprefix("timestamp_")]
    limit = _MAX // unit

    def op(a: Any, valid: Bools | None, n: int) -> tuple[Values, Errors | None]:
        bad = (a > limit) | (a < -limit)
        if not bad.any():
            return a * unit, None
        rows = np.flatnonzero(bad if valid is None else bad & valid)
        message = f"[DATETIME_OVERFLOW] TIMESTAMP overflow in {call.function}"
        return np.where(bad, 0, a) * unit, failures(n, rows, [message] * len(rows))

    return args[0].run if unit == 1 else unary_checked(args[0], op)


def _to_number(call: Call, args: tuple[Node, ...]) -> Run:
    unit = _UNITS[call.function.removeprefix("unix_")]
    return args[0].run if unit == 1 else unary(args[0], lambda a: a // unit)


def _seconds(call: Call, args: tuple[Node, ...]) -> Run:
    return unary(args[0], lambda a: np.sign(a) * (np.abs(a) // MICROS_PER_SECOND))


def _months_between(call: Call, args: tuple[Node, ...]) -> Run:
    clocks, rounded = call_clocks(args, 3), bool(args[2].value)

    def op(a: Ints, b: Ints) -> Values:
        (days, rest), (other_days, other_rest) = clocks.local(a), clocks.local(b)
        months, day, is_last = _month_and_day(days)
        other_months, other_day, other_is_last = _month_and_day(other_days)
        whole = (months - other_months).astype(np.float64)
        seconds = (day - other_day) * 86_400
        seconds += rest // MICROS_PER_SECOND - other_rest // MICROS_PER_SECOND
        parts = whole + seconds / float(_MONTH_SECONDS)
        if rounded:
            parts = np.floor(parts * 1e8 + 0.5) / 1e8
        return np.where((day == other_day) | (is_last & other_is_last), whole, parts)

    first, second = args[0].run, args[1].run

    def run(columns: Fetch, n: int) -> Result:
        a, valid, errors = first(columns, n)
        b, other_valid, other_errors = second(columns, n)
        found = inherited(valid, errors, other_errors)
        return op(a, b), both_valid(valid, other_valid), found

    return run


def _month_and_day(days: Ints) -> tuple[Ints, Ints, Bools]:
    """Months since the year 0, the day of the month, and whether it is the last."""
    days = np.ascontiguousarray(days)
    parts = []
    for part, of in ((kernels.YEAR, days), (kernels.MONTH, days), (kernels.DAY, days)):
        out = np.empty(len(days), np.int64)
        kernels.date_part(of, part, out)
        parts.append(out)
    following = np.empty(len(days), np.int64)
    kernels.date_part(days + 1, kernels.DAY, following)
    return parts[0] * 12 + parts[1], parts[2], following == 1


def _make_timestamp(call: Call, args: tuple[Node, ...]) -> Run:
    """The local time by rows, its instant for all together."""
    clocks = call_clocks(args, 6)
    tries = call.function.startswith("try_")
    local = rowwise(args[:6], _local_or_null if tries else local_micros, pa.int64())

    def run(columns: Fetch, n: int) -> Result:
        micros, valid, errors = local(columns, n)
        days = micros // MICROS_PER_DAY
        instants, bad = clocks.instants(days, micros - days * MICROS_PER_DAY)
        rows = np.flatnonzero(bad if valid is None else bad & valid)
        if tries:
            return instants, both_valid(valid, ~bad), errors
        messages = ["[ARITHMETIC_OVERFLOW] TIMESTAMP overflow in make_timestamp"] * len(rows)
        return instants, valid, first_of(errors, failures(n, rows, messages))

    return run


def _local_or_null(*parts: int) -> int | None:
    try:
        return local_micros(*parts)
    except ValueError:
        return None


def local_micros(year: int, month: int, day: int, hour: int, minute: int, micros: int) -> int:
    """A local time since 1970; 60 seconds are a minute more. Raises: ValueError."""
    days = make_date(year, month, day)
    for name, value, end in (("hour", hour, 24), ("minute", minute, 60)):
        if not 0 <= value < end:
            raise ValueError(f"[DATETIME_FIELD_OUT_OF_BOUNDS] there is no {name} {value} in a day")
    if 60_000_000 < micros < 61_000_000:
        raise ValueError(
            "[INVALID_FRACTION_OF_SECOND] the fraction of a second belongs to 0 to 59 seconds"
        )
    if not 0 <= micros <= 60_000_000:
        raise ValueError("[DATETIME_FIELD_OUT_OF_BOUNDS] seconds are from 0 to 59")
    return ((days * 24 + hour) * 60 + minute) * 60_000_000 + micros


BUILDERS: dict[str, Builder] = {
    **{f"timestamp_{unit}": _from_number for unit in _UNITS},
    **{f"unix_{unit}": _to_number for unit in _UNITS},
    "unix_timestamp": _seconds,
    "months_between": _months_between,
    "make_timestamp": _make_timestamp,
    "make_timestamp_ntz": _make_timestamp,
    "try_make_timestamp": _make_timestamp,
    "try_make_timestamp_ntz": _make_timestamp,
}
