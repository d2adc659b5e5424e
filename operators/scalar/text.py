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
from typing import Any

import numpy as np

from planner.calculus import zones

MICROS_PER_DAY = 86_400_000_000
_BLANK = "".join(map(chr, range(0x21))) + "\x7f"
_INTEGER = re.compile(r"[+-]?[0-9]+\Z")
#: Of any alphabet, which Java's decimals take.
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\Z")
_DOUBLE = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?[dDfF]?\Z")
_HEX_DOUBLE = re.compile(
    r"[+-]?0[xX]([0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+[dDfF]?\Z"
)
_SPECIALS = {
    **dict.fromkeys(("inf", "+inf", "infinity", "+infinity"), math.inf),
    **dict.fromkeys(("-inf", "-infinity"), -math.inf),
    "nan": math.nan,
}
#: Of an integer.
_MOST_DIGITS = 40
_TRUE = frozenset(("t", "true", "y", "yes", "1"))
_FALSE = frozenset(("f", "false", "n", "no", "0"))
_DATE = re.compile(
    r"([+-]?)([0-9]{4,7})(?:-([0-9]{1,2})(?:-([0-9]{1,2})(?:[ T].*)?)?)?\Z", re.DOTALL
)
_TIMESTAMP = re.compile(
    r"([+-]?)([0-9]{4,6})(?:-([0-9]{1,2})(?:-([0-9]{1,2})(?:[ T]([0-9]{1,2})"
    r"(?::([0-9]{1,2})(?::([0-9]{1,2})(?:\.([0-9]*))?\s*(\S.*)?)?)?|[ T])?)?)?\Z",
    re.DOTALL,
)


#: Of a value in the message of an error.
SHOWN_CHARACTERS = 100


def shortened(text: str, characters: int = SHOWN_CHARACTERS) -> str:
    """At most so many characters and "…": a message does not grow with a value."""
    return text if len(text) <= characters else f"{text[:characters]}…"


def trimmed(text: str) -> str:
    return text.strip(_BLANK)


def parse_boolean(text: str) -> bool | None:
    word = trimmed(text).lower()
    return True if word in _TRUE else False if word in _FALSE else None


def parse_integer(text: str) -> int | None:
    """None also for numbers of so many digits that no type holds them."""
    word = trimmed(text)
    if not _INTEGER.match(word):
        return None
    sign, digits = word[:1].strip("0123456789"), word.lstrip("+-").lstrip("0") or "0"
    return int(sign + digits) if len(digits) <= _MOST_DIGITS else None


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
    """None also where the exponent has more than 32 bits, which Java does not read."""
    word = trimmed(text)
    found = _NUMBER.match(word)
    if found is None:
        return None
    exponent = decimal.Decimal((found[2] or "e0")[1:])
    return decimal.Decimal(word) if abs(exponent) < 2**31 and max(word) <= "\uffff" else None


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


def parse_timestamp(text: str, session: zones.Zone | None) -> int | None:
    """Microseconds of the instant, by the zone in the text or else the session's. Without a session
    (None) those of the local time, whatever zone the text has."""
    found = _TIMESTAMP.match(trimmed(text))
    if found is None:
        return None
    sign, year, month, day, hour, minute, second, fraction, written = found.groups()
    days = days_from(-int(year) if sign == "-" else int(year), int(month or 1), int(day or 1))
    h, m, s = int(hour or 0), int(minute or 0), int(second or 0)
    if days is None or h > 23 or m > 59 or s > 59:
        return None
    micros = int(((fraction or "") + "000000")[:6])
    seconds = days * 86_400 + h * 3600 + m * 60 + s
    zone = session if written is None else zones.find(written.strip())
    if written is not None and zone is None:
        return None
    if session is not None and zone is not None:
        seconds = zone.instant_of(seconds)
    instant = seconds * 1_000_000 + micros
    return instant if -(2**63) <= instant < 2**63 else None


def has_zone(text: str) -> bool:
    """Whether a text that is a timestamp says of which time zone."""
    found = _TIMESTAMP.match(trimmed(text))
    return found is not None and found[9] is not None


def format_date(days: int) -> str:
    year, month, day = civil_of(days)
    if 0 <= year <= 9999:
        return f"{year:04d}-{month:02d}-{day:02d}"
    return f"{'-' if year < 0 else '+'}{abs(year):04d}-{month:02d}-{day:02d}"


def format_timestamp(days: int, rest: int) -> str:
    """A day, and microseconds since its midnight."""
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
    if len(mantissa) == 1:  # Java takes the nearest of two digits where one would do
        mantissa, exponent = f"{abs(float(value)):.1e}".split("e")
    digits, power = mantissa.replace(".", "").rstrip("0"), int(exponent)
    if -3 <= power < 7:
        if power < 0:
            return f"{sign}0.{'0' * (-power - 1)}{digits}"
        padded = digits.ljust(power + 1, "0")
        return f"{sign}{padded[: power + 1]}.{padded[power + 1 :] or '0'}"
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{power}"
