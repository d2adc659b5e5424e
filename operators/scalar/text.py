"""Values as text and text as values, one at a time, in the formats of Spark's casts.

Parsers return None for text that is not a value of the type. Whitespace and control characters
around a value are ignored. Days and microseconds count from 1970-01-01 UTC.

Deviations: times without a date are refused, as they would depend on the clock. Doubles are
printed with the fewest digits that denote them, as Java does since version 19.

Source: Spark `UTF8String.trimAll`, `SparkDateTimeUtils.stringToDate` and
`parseTimestampString`, `Cast.processFloatingPointSpecialLiterals`; Java `Double.toString`.
"""

from __future__ import annotations

import datetime
import decimal
import math
import re
import zoneinfo
from typing import Any

import numpy as np

MICROS_PER_DAY = 86_400_000_000
_BLANK = "".join(map(chr, range(0x21))) + "\x7f"
_INTEGER = re.compile(r"[+-]?[0-9]+\Z")
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?\Z")
_DOUBLE = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?[dDfF]?\Z")
_HEX_DOUBLE = re.compile(
    r"[+-]?0[xX]([0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+[dDfF]?\Z"
)
_SPECIALS = {
    **dict.fromkeys(("inf", "+inf", "infinity", "+infinity"), math.inf),
    **dict.fromkeys(("-inf", "-infinity"), -math.inf),
    "nan": math.nan,
}
_TRUE = frozenset(("t", "true", "y", "yes", "1"))
_FALSE = frozenset(("f", "false", "n", "no", "0"))
_DATE = re.compile(
    r"([+-]?)([0-9]{4,7})(?:-([0-9]{1,2})(?:-([0-9]{1,2})(?:[ T].*)?)?)?\Z", re.DOTALL
)
_TIMESTAMP = re.compile(
    r"([+-]?)([0-9]{4,6})(?:-([0-9]{1,2})(?:-([0-9]{1,2})(?:[ T]([0-9]{1,2})"
    r"(?::([0-9]{1,2})(?::([0-9]{1,2})(?:\.([0-9]*))?)?\s*(\S.*)?)?|[ T])?)?)?\Z",
    re.DOTALL,
)
_OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])([0-9]{1,2})(?::([0-9]{1,2})(?::([0-9]{1,2}))?)?\Z")
_OFFSET_DIGITS = re.compile(r"(?:UTC|GMT|UT)?([+-])([0-9]{2})([0-9]{2})([0-9]{2})?\Z")


def trimmed(text: str) -> str:
    return text.strip(_BLANK)


def parse_boolean(text: str) -> bool | None:
    word = trimmed(text).lower()
    return True if word in _TRUE else False if word in _FALSE else None


def parse_integer(text: str) -> int | None:
    word = trimmed(text)
    return int(word) if _INTEGER.match(word) else None


def parse_double(text: str) -> float | None:
    word = trimmed(text)
    if _DOUBLE.match(word):
        return float(word.rstrip("dDfF"))
    if _HEX_DOUBLE.match(word):
        try:
            return float.fromhex(word.rstrip("dDfF") if "p" in word.lower() else word)
        except OverflowError:
            return -math.inf if word.startswith("-") else math.inf
    return _SPECIALS.get(word.lower())


def parse_decimal(text: str) -> decimal.Decimal | None:
    word = trimmed(text)
    return decimal.Decimal(word) if _NUMBER.match(word) else None


def civil_of(days: int) -> tuple[int, int, int]:
    """(year, month, day); see operators.kernels.scalar.civil."""
    cycles, rest = divmod(days + 719_162, 146_097)  # whole 400 years since 0001-01-01
    date = datetime.date.fromordinal(rest + 1)
    return date.year + 400 * cycles, date.month, date.day


def days_from(year: int, month: int, day: int) -> int | None:
    """Days of a civil date, None if there is no such date."""
    cycles, rest = divmod(year - 1, 400)
    try:
        ordinal = datetime.date(rest + 1, month, day).toordinal()
    except ValueError:
        return None
    return cycles * 146_097 + ordinal - 719_163


def parse_date(text: str) -> int | None:
    found = _DATE.match(trimmed(text))
    if found is None:
        return None
    sign, year, month, day = found.groups()
    days = days_from(-int(year) if sign == "-" else int(year), int(month or 1), int(day or 1))
    return days if days is None or -(2**31) <= days < 2**31 else None


def parse_timestamp(text: str, local: bool) -> int | None:
    """Microseconds; a zone in the text shifts an instant and is ignored in a local time."""
    found = _TIMESTAMP.match(trimmed(text))
    if found is None:
        return None
    sign, year, month, day, hour, minute, second, fraction, zone = found.groups()
    days = days_from(-int(year) if sign == "-" else int(year), int(month or 1), int(day or 1))
    h, m, s = int(hour or 0), int(minute or 0), int(second or 0)
    if days is None or h > 23 or m > 59 or s > 59:
        return None
    micros = int(((fraction or "") + "000000")[:6])
    instant = days * MICROS_PER_DAY + (h * 3600 + m * 60 + s) * 1_000_000 + micros
    if zone is not None:
        shift = _zone_shift(zone.strip(), instant)
        if shift is None:
            return None
        instant -= 0 if local else shift
    return instant if -(2**63) <= instant < 2**63 else None


def _zone_shift(zone: str, local_micros: int) -> int | None:
    """Microseconds that the zone is ahead of UTC at a local time."""
    if zone in ("Z", "UTC", "GMT", "UT"):
        return 0
    found = _OFFSET.match(zone) or _OFFSET_DIGITS.match(zone)
    if found is not None:
        hours, minutes, seconds = (int(g or 0) for g in found.groups()[1:])
        total = hours * 3600 + minutes * 60 + seconds
        if hours > 18 or minutes > 59 or seconds > 59 or total > 18 * 3600:
            return None
        return (-total if found[1] == "-" else total) * 1_000_000
    try:
        info = zoneinfo.ZoneInfo(zone)
        day, micros = divmod(local_micros, MICROS_PER_DAY)
        moment = datetime.datetime(1970, 1, 1) + datetime.timedelta(day, 0, micros)
        offset = moment.replace(tzinfo=info).utcoffset()
    except (ValueError, OverflowError, zoneinfo.ZoneInfoNotFoundError, OSError):
        return None
    return offset // datetime.timedelta(microseconds=1) if offset is not None else None


def format_date(days: int) -> str:
    year, month, day = civil_of(days)
    if 0 <= year <= 9999:
        return f"{year:04d}-{month:02d}-{day:02d}"
    return f"{'-' if year < 0 else '+'}{abs(year):04d}-{month:02d}-{day:02d}"


def format_timestamp(micros: int) -> str:
    days, rest = divmod(micros, MICROS_PER_DAY)
    seconds, fraction = divmod(rest, 1_000_000)
    clock = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    tail = f".{fraction:06d}".rstrip("0") if fraction else ""
    return f"{format_date(days)} {clock}{tail}"


def format_float(value: Any) -> str:
    """Java's Double.toString, or Float.toString of a numpy.float32."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    sign = "-" if math.copysign(1.0, value) < 0 else ""
    if value == 0:
        return sign + "0.0"
    mantissa, exponent = np.format_float_scientific(abs(value), unique=True, trim="-").split("e")
    digits, power = mantissa.replace(".", ""), int(exponent)
    if -3 <= power < 7:
        if power < 0:
            return f"{sign}0.{'0' * (-power - 1)}{digits}"
        padded = digits.ljust(power + 1, "0")
        return f"{sign}{padded[: power + 1]}.{padded[power + 1 :] or '0'}"
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{power}"
