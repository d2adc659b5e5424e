"""All scalar functions on one row of Python values: the slow, obvious twin of operators.scalar.

NULL is None; DATE is datetime.date; TIMESTAMP and TIMESTAMP_NTZ are naive datetimes (UTC); decimals
are decimal.Decimal; FLOAT is a Python float that is exact in 32 bits. Dates stay in years 1 to
9999. A row in error raises `Failure` with Spark's error class.
"""

from __future__ import annotations

import calendar
import datetime
import decimal
import math
import re
from decimal import ROUND_HALF_EVEN, ROUND_HALF_UP, Decimal
from typing import Any

import numpy as np

from operators.scalar import text
from planner.calculus import expr as e
from planner.calculus import types as t
from planner.calculus.zones import UTC

EPOCH = datetime.datetime(1970, 1, 1)
MICRO = datetime.timedelta(microseconds=1)
WIDE = decimal.Context(prec=1000, rounding=ROUND_HALF_UP, Emax=99999, Emin=-99999)
SCALA = decimal.Context(prec=34, rounding=ROUND_HALF_EVEN, Emax=99999, Emin=-99999)
SPARK = decimal.Context(prec=39, rounding=ROUND_HALF_UP, Emax=99999, Emin=-99999)


class Failure(Exception):
    """The row is in error; the argument is the error class."""


def evaluate(expr: e.Expr, row: tuple[Any, ...]) -> Any:
    """The value of `expr` on `row`. Raises Failure."""
    if isinstance(expr, e.Column):
        return row[expr.index]
    if isinstance(expr, e.Literal):
        return from_literal(expr)
    args = expr.args
    match expr.function:
        case "and" | "or":
            settles = expr.function == "or"
            left = evaluate(args[0], row)
            if left is settles:
                return left
            right = evaluate(args[1], row)
            return right if left is not None or right is settles else None
        case "case":
            for i in range(0, len(args) - 1, 2):
                if evaluate(args[i], row):
                    return evaluate(args[i + 1], row)
            return evaluate(args[-1], row)
        case "concat_ws":
            separator, *parts = [evaluate(a, row) for a in args]
            if separator is None:
                return None
            return separator.join(p for p in parts if p is not None)
        case "coalesce":
            for arg in args:
                value = evaluate(arg, row)
                if value is not None:
                    return value
            return None
        case "is_null":
            return evaluate(args[0], row) is None
        case "eq_null_safe":
            left, right = evaluate(args[0], row), evaluate(args[1], row)
            if left is None or right is None:
                return left is right
            return order(left) == order(right)
        case "in":
            left, *listed = [evaluate(a, row) for a in args]
            if left is None:
                return None
            if any(x is not None and order(x) == order(left) for x in listed):
                return True
            return None if None in listed else False
        case "greatest" | "least":
            present = [v for v in (evaluate(a, row) for a in args) if v is not None]
            extreme = max if expr.function == "greatest" else min
            return extreme(present, key=order) if present else None
        case "try_cast":
            value = evaluate(args[0], row)
            try:
                return None if value is None else cast(value, args[0].type, expr.type)
            except Failure:
                return None
    values = []
    for arg in args:
        value = evaluate(arg, row)
        if value is None:
            return None
        values.append(value)
    return apply(expr, values)


def from_literal(literal: e.Literal) -> Any:
    if isinstance(literal.type, t.TimestampType) and literal.value is not None:
        return EPOCH + literal.value * MICRO  # type: ignore[operator]
    return literal.value


def order(value: Any) -> Any:
    """A sort key: NaN equal to itself and last, texts by their bytes."""
    if isinstance(value, float):
        return (1, 0.0) if math.isnan(value) else (0, value)
    return value.encode() if isinstance(value, str) else value


def apply(expr: e.Call, values: list[Any]) -> Any:
    """A function of arguments that are not NULL."""
    function, kind = expr.function, expr.type
    source = expr.args[0].type
    a = values[0]
    b = values[1] if len(values) > 1 else None
    match function:
        case "integral_divide" if isinstance(a, Decimal) and b != 0:
            quotient = int(WIDE.divide_int(a, b))
            left, right = source, expr.args[1].type
            assert isinstance(left, t.DecimalType) and isinstance(right, t.DecimalType)
            digits = min(max(left.precision - left.scale + right.scale, 1), t.MAX_PRECISION)
            if abs(quotient) >= 10**digits:
                raise Failure("NUMERIC_VALUE_OUT_OF_RANGE")
            return (quotient + 2**63) % 2**64 - 2**63
        case "add" | "subtract" | "multiply" | "divide" | "integral_divide" | "remainder":
            return arithmetic(function, a, b, kind)
        case "negate":
            return checked(SCALA.minus(a) if isinstance(a, Decimal) else -a, kind)
        case "abs" if isinstance(a, Decimal):
            return checked(SCALA.minus(a) if a < 0 else a, kind)
        case "abs":
            return checked(abs(a), kind)
        case "eq":
            return order(a) == order(b)
        case "ne":
            return order(a) != order(b)
        case "lt":
            return order(a) < order(b)
        case "le":
            return order(a) <= order(b)
        case "gt":
            return order(a) > order(b)
        case "ge":
            return order(a) >= order(b)
        case "not":
            return not a
        case "cast":
            return cast(a, source, kind)
        case "like":
            return like(a, b, values[2])
        case "rlike":
            return re.search(b, a) is not None
        case "substring":
            return substring(a, b, values[2])
        case "upper":
            return a.upper()
        case "lower":
            return a.lower()
        case "trim" | "ltrim" | "rtrim":
            return trimmed(a, " " if b is None else b, function)
        case "length":
            return len(a)
        case "concat":
            return "".join(values)
        case "replace":
            return a.replace(b, values[2]) if b else a
        case "split_part":
            return split_part(a, b, values[2])
        case "starts_with":
            return a.startswith(b)
        case "ends_with":
            return a.endswith(b)
        case "contains":
            return b in a
        case "repeat":
            return "".join(a for _ in range(b))
        case "reverse":
            return "".join(reversed(a))
        case "initcap":
            return initcap(a)
        case "lpad" | "rpad":
            return padded(a, b, values[2], function == "lpad")
        case "locate":
            return locate(a, b, values[2])
        case "translate":
            return "".join(values[2][b.index(c) : b.index(c) + 1] if c in b else c for c in a)
        case "ascii":
            return ord(a[0]) if a else 0
        case "chr":
            return chr(a % 256) if a >= 0 else ""
        case "substring_index":
            return substring_index(a, b, values[2])
        case "exp" | "expm1" | "cbrt" | "rint":
            with np.errstate(all="ignore"):
                return float(getattr(np, function)(np.float64(a)))
        case "ln" | "log2" | "log10":
            names = {"ln": "log"}
            with np.errstate(all="ignore"):
                return None if a <= 0 else float(getattr(np, names.get(function, function))(a))
        case "log1p":
            return None if a <= -1 else float(np.log1p(a))
        case "log":
            with np.errstate(all="ignore"):
                return None if a <= 0 or b <= 0 else float(np.log(b) / np.log(a))
        case "second_fraction":
            return Decimal(a.second * 10**6 + a.microsecond).scaleb(-6)
        case "make_date":
            try:
                return datetime.date(a, b, values[2])
            except ValueError:
                raise Failure("DATETIME_FIELD_OUT_OF_BOUNDS") from None
        case "date_format":
            return a.strftime(strftime_of(b))
        case "round":
            return rounded(a, b, kind)
        case "floor" | "ceil":
            return whole(a, function == "ceil", kind)
        case "sqrt":
            return math.sqrt(a) if a >= 0 else math.nan
        case "power":
            return power(a, b)
        case "date_trunc":
            return truncated(a, b)
        case "period_edge":
            micros = (a - EPOCH) // MICRO
            return EPOCH + (micros - (micros - values[2]) % b - values[3]) * MICRO
        case _:
            return moment(function, a, b)


def checked(value: Any, kind: t.SqlType) -> Any:
    """An exact result, if the type holds it."""
    if isinstance(kind, t.IntegerType) and not kind.min <= value <= kind.max:
        raise Failure("ARITHMETIC_OVERFLOW")
    return value if not isinstance(kind, t.DecimalType) else to_scale(value, kind)


def to_scale(value: Decimal, kind: t.DecimalType) -> Decimal:
    if value.adjusted() > 60 and value:
        raise Failure("NUMERIC_VALUE_OUT_OF_RANGE")
    result = value.quantize(Decimal(1).scaleb(-kind.scale), ROUND_HALF_UP, WIDE)
    if result.copy_abs() >= Decimal(10) ** (kind.precision - kind.scale):
        raise Failure("NUMERIC_VALUE_OUT_OF_RANGE")
    return result


def arithmetic(function: str, a: Any, b: Any, kind: t.SqlType) -> Any:
    if function in ("divide", "integral_divide", "remainder") and b == 0:
        raise Failure("REMAINDER_BY_ZERO" if function == "remainder" else "DIVIDE_BY_ZERO")
    if isinstance(a, float):
        result = floats(function, a, b)
        return single(result) if kind == t.FLOAT else result
    if isinstance(a, Decimal):
        exact = {
            "add": lambda: WIDE.add(a, b),
            "subtract": lambda: WIDE.subtract(a, b),
            "multiply": lambda: SPARK.multiply(a, b),
            "divide": lambda: SPARK.divide(a, b),
            "remainder": lambda: WIDE.remainder(a, b),
        }[function]()
        return checked(exact, kind)
    quotient = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1) if b else 0
    results = {
        "add": a + b,
        "subtract": a - b,
        "multiply": a * b,
        "integral_divide": quotient,
        "remainder": a - quotient * b,
    }
    return checked(results[function], kind)


def floats(function: str, a: float, b: float) -> float:
    match function:
        case "add":
            return a + b
        case "subtract":
            return a - b
        case "multiply":
            return a * b
        case "divide":
            with np.errstate(all="ignore"):
                return float(np.float64(a) / np.float64(b))
        case _:
            return math.fmod(a, b) if math.isfinite(a) and not math.isnan(b) else math.nan


def single(value: float) -> float:
    with np.errstate(all="ignore"):
        return float(np.float32(value))


def cast(value: Any, source: t.SqlType, target: t.SqlType) -> Any:
    if source == target:
        return value
    if isinstance(source, t.StringType):
        return from_string(value, target)
    if isinstance(source, t.TimestampType) and t.is_numeric(target):
        micros = (value - EPOCH) // MICRO
        if isinstance(target, t.IntegerType):
            return in_range(micros // 1_000_000, target)
        return cast(micros / 1e6, t.DOUBLE, target)
    match target:
        case t.StringType():
            return to_string(value, source)
        case t.BooleanType():
            return value != 0
        case t.IntegerType():
            if isinstance(value, float):
                if not math.isfinite(value):
                    raise Failure("CAST_OVERFLOW")
                if value == 2.0**63 and target.bits == 64:
                    return target.max
            return in_range(int(value), target)
        case t.FloatType():
            return single(float(value)) if target.bits == 32 else float(value)
        case t.DecimalType():
            if isinstance(value, float):
                if not math.isfinite(value):
                    return None
                value = Decimal(repr(value))
            return to_scale(Decimal(value), target)
        case t.DateType():
            return value.date()
        case t.TimestampType():
            if isinstance(value, datetime.datetime):
                return value
            if isinstance(value, datetime.date):
                return datetime.datetime(value.year, value.month, value.day)
            return from_seconds(value)
    raise NotImplementedError(f"{source} to {target}")


def from_seconds(value: Any) -> Any:
    if isinstance(value, float):
        if not math.isfinite(value):
            raise Failure("CAST_INVALID_INPUT")
        return EPOCH + int(value * 1e6) * MICRO
    return EPOCH + int(WIDE.multiply(Decimal(value), Decimal(10**6))) * MICRO


def in_range(value: int, target: t.IntegerType) -> int:
    if not target.min <= value <= target.max:
        raise Failure("CAST_OVERFLOW")
    return value


def from_string(value: str, target: t.SqlType) -> Any:
    """Formats are data, not an algorithm: the table recorded from Spark checks them."""
    result: Any
    match target:
        case t.BooleanType():
            result = text.parse_boolean(value)
        case t.IntegerType():
            result = text.parse_integer(value)
            if result is not None and not target.min <= result <= target.max:
                result = None
        case t.FloatType():
            result = text.parse_double(value)
            result = single(result) if result is not None and target.bits == 32 else result
        case t.DecimalType():
            number = text.parse_decimal(value)
            result = None if number is None else to_scale(number, target)
        case t.DateType():
            days = text.parse_date(value)
            result = None if days is None else datetime.date(1970, 1, 1) + datetime.timedelta(days)
        case t.TimestampType():
            micros = text.parse_timestamp(value, None if target.local else UTC)
            result = None if micros is None else EPOCH + micros * MICRO
        case _:
            raise NotImplementedError(f"STRING to {target}")
    if result is None:
        raise Failure("CAST_INVALID_INPUT")
    return result


def to_string(value: Any, source: t.SqlType) -> str:
    match value:
        case bool():
            return str(value).lower()
        case Decimal():
            return f"{value if value else value.copy_abs():f}"
        case float():
            return text.format_float(np.float32(value) if source == t.FLOAT else value)
        case datetime.datetime():
            shown = value.isoformat(" ")
            return shown.rstrip("0") if value.microsecond else shown
        case datetime.date():
            return value.isoformat()
        case _:
            return str(value)


def like(value: str, pattern: str, escape: str) -> bool:
    """By recursion over the pattern."""
    if not pattern:
        return not value
    c, rest = pattern[0], pattern[1:]
    if c == escape:
        return bool(value) and value[0] == rest[0] and like(value[1:], rest[1:], escape)
    if c == "%":
        return any(like(value[i:], rest, escape) for i in range(len(value) + 1))
    return bool(value) and c in ("_", value[0]) and like(value[1:], rest, escape)


def substring(value: str, start: int, length: int) -> str:
    first = start - 1 if start > 0 else start + len(value) if start else 0
    return "".join(c for i, c in enumerate(value) if first <= i < first + length)


def trimmed(value: str, characters: str, function: str) -> str:
    first, last = 0, len(value)
    while function != "rtrim" and first < last and value[first] in characters:
        first += 1
    while function != "ltrim" and first < last and value[last - 1] in characters:
        last -= 1
    return value[first:last]


def padded(value: str, length: int, padding: str, left: bool) -> str:
    if length <= len(value):
        return value[: max(length, 0)]
    fill = ""
    while padding and len(fill) + len(value) < length:
        fill += padding[len(fill) % len(padding)]
    return fill + value if left else value + fill


def initcap(value: str) -> str:
    out = ""
    for word in value.split(" "):
        lower = word.lower()
        if lower.startswith("i\u0307"):
            lower = "\u0130" + lower[2:]
        out += lower[:1].title() + lower[1:] + " "
    return out[:-1]


def locate(value: str, part: str, start: int) -> int:
    if start < 1:
        return 0
    if not part:
        return 1
    places = [i + 1 for i in range(len(value)) if value[i : i + len(part)] == part]
    return min((p for p in places if p >= start), default=0)


def substring_index(value: str, delimiter: str, count: int) -> str:
    if not delimiter or not count:
        return ""
    if count < 0:
        turned = substring_index(value[::-1], delimiter[::-1], -count)
        return turned[::-1]
    place = -1
    for _ in range(count):
        place = value.find(delimiter, place + 1)
        if place < 0:
            return value
    return value[:place]


def strftime_of(pattern: str) -> str:
    """Of the few patterns that the tests use."""
    names = {"yyyy": "%Y", "MM": "%m", "dd": "%d", "HH": "%H", "mm": "%M", "ss": "%S"}
    names |= {"EEEE": "%A", "MMM": "%b", "SSSSSS": "%f", "a": "%p", "DDD": "%j"}
    return re.sub(r"([A-Za-z])\1*", lambda found: names[found[0]], pattern)


def split_part(value: str, delimiter: str, part: int) -> str:
    if part == 0:
        raise Failure("INVALID_INDEX_OF_ZERO")
    pieces = value.split(delimiter) if delimiter else [value]
    if abs(part) > len(pieces):
        return ""
    return pieces[part - 1 if part > 0 else part]


def rounded(value: Any, digits: int, kind: t.SqlType) -> Any:
    unit = Decimal(1).scaleb(-digits)
    if isinstance(value, float):
        if not math.isfinite(value):
            return value
        number = float(Decimal(repr(value)).quantize(unit, ROUND_HALF_UP, WIDE)) + 0.0
        return single(number) if kind == t.FLOAT else number
    if isinstance(value, int):
        unit = Decimal(1).scaleb(max(-digits, 0))
        return checked(int(Decimal(value).quantize(unit, ROUND_HALF_UP, WIDE)), kind)
    return checked(value.quantize(unit, ROUND_HALF_UP, WIDE), kind)


def whole(value: Any, up: bool, kind: t.SqlType) -> Any:
    if isinstance(value, float):
        if math.isnan(value):
            return 0
        if math.isinf(value):
            raise Failure("ARITHMETIC_OVERFLOW")
        return checked(math.ceil(value) if up else math.floor(value), kind)
    if isinstance(value, int):
        return value
    rounding = decimal.ROUND_CEILING if up else decimal.ROUND_FLOOR
    return checked(value.to_integral_value(rounding, WIDE), kind)


def power(a: float, b: float) -> float:
    if abs(a) == 1 and (math.isinf(b) or (math.isnan(b) and a == 1)):
        return math.nan
    with np.errstate(all="ignore"):
        return float(np.power(np.float64(a), np.float64(b)))


def moment(function: str, a: Any, b: Any) -> Any:
    match function:
        case "year" | "month" | "day" | "hour" | "minute" | "second":
            return getattr(a, function)
        case "quarter":
            return (a.month + 2) // 3
        case "day_of_week":
            return a.isoweekday() % 7 + 1
        case "day_of_year":
            return a.timetuple().tm_yday
        case "week":
            return a.isocalendar()[1]
        case "date_add":
            return a + datetime.timedelta(b)
        case "date_diff":
            return (a - b).days
        case "next_day":
            return a + datetime.timedelta((b - 3 - a.weekday()) % 7 + 1)
        case "last_day":
            return a.replace(day=calendar.monthrange(a.year, a.month)[1])
        case "add_months":
            months = a.year * 12 + a.month - 1 + b
            year, month = months // 12, months % 12 + 1
            day = min(a.day, calendar.monthrange(year, month)[1])
            return a.replace(year=year, month=month, day=day)
        case "add_microseconds":
            return a + b * MICRO
    raise NotImplementedError(function)


def truncated(unit: str, a: Any) -> Any:
    unit = unit.upper()
    timed = isinstance(a, datetime.datetime)
    midnight = a.replace(hour=0, minute=0, second=0, microsecond=0) if timed else a
    match unit:
        case "YEAR" | "YYYY" | "YY":
            return midnight.replace(month=1, day=1)
        case "QUARTER":
            return midnight.replace(month=(a.month - 1) // 3 * 3 + 1, day=1)
        case "MONTH" | "MM" | "MON":
            return midnight.replace(day=1)
        case "WEEK":
            return midnight - datetime.timedelta(a.weekday())
        case "DAY" | "DD" if timed:
            return midnight
        case "HOUR" if timed:
            return a.replace(minute=0, second=0, microsecond=0)
        case "MINUTE" if timed:
            return a.replace(second=0, microsecond=0)
        case "SECOND" if timed:
            return a.replace(microsecond=0)
        case "MILLISECOND" if timed:
            return a.replace(microsecond=a.microsecond // 1000 * 1000)
        case "MICROSECOND" if timed:
            return a
        case _:
            return None
