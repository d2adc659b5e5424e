"""Typed construction of what has to do with intervals.

An interval is a number of months or of microseconds, and what is done with intervals is done with
these numbers: `units_of` takes an interval as its number, `interval_of` a number as an interval.

Source: Spark SQL, BinaryArithmeticWithDatetimeResolver and intervalExpressions.scala.
"""

from __future__ import annotations

import datetime
from decimal import Decimal

from planner.calculus import functions
from planner.calculus.coercion import (
    INTERVAL_UNITS,
    MICROSECONDS_PER_DAY,
    TypeMismatch,
    as_decimal,
    cast,
    explicit_cast,
)
from planner.calculus.expr import Call, Expr, Literal
from planner.calculus.types import (
    BIGINT,
    DATE,
    DOUBLE,
    INT,
    INTERVAL_MICROSECONDS,
    INTERVAL_MONTHS,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    TINYINT,
    DateType,
    DecimalType,
    FloatType,
    IntegerType,
    IntervalType,
    NullType,
    SqlType,
    StringType,
    TimestampType,
)

_DAY = IntervalType("DAY", "DAY")
_SECONDS = DecimalType(18, 6)
#: Of the number of microseconds in a second.
_MICROS = DecimalType(7, 0)
_Moment = (DateType, TimestampType)


def units_of(value: Expr) -> Expr:
    """The months of an interval as INT, or its microseconds as BIGINT."""
    kind = value.type
    assert isinstance(kind, IntervalType)
    if isinstance(value, Literal):
        return Literal(value.value, kind.number)
    if isinstance(value, Call) and value.function == "interval_of":
        (number,) = value.args
        if number.type == kind.number:  # else it may be none
            return number
    return Call("units_of", (value,), kind.number, value.nullable)


def interval_of(number: Expr, kind: IntervalType) -> Expr:
    """The interval of so many months, as INT or BIGINT, or microseconds; fails where none is."""
    if number.type == INT:
        number = cast(number, kind.number)
    if isinstance(number, Literal) and (number.type == kind.number or number.value is None):
        return Literal(number.value, kind)
    return Call("interval_of", (number,), kind, number.nullable)


def arithmetic(function: str, left: Expr, right: Expr) -> Expr:
    """The operators +, -, *, / and DIV where an operand is an interval, or both are moments; those
    on numbers for others."""
    match left.type, right.type:
        case IntervalType(), IntervalType():
            return _of_two(function, left, right)
        case ((DateType() | TimestampType()), IntervalType()) if function in ("add", "subtract"):
            return moved(left, negative(right) if function == "subtract" else right)
        case IntervalType(), (DateType() | TimestampType()) if function == "add":
            return moved(right, left)
        case ((DateType() | TimestampType()), _) if function == "subtract":
            if isinstance(right.type, (*_Moment, StringType)):
                return difference(left, right)
        case StringType(), (DateType() | TimestampType()) if function == "subtract":
            return difference(left, right)
        case IntervalType(), (IntegerType() | DecimalType() | FloatType() | StringType()):
            if function in ("multiply", "divide"):
                return _scaled(function, left, right)
        case ((IntegerType() | DecimalType() | FloatType() | StringType()), IntervalType()):
            if function == "multiply":
                return _scaled(function, right, left)
        case (IntervalType() as kind, NullType()) | (NullType(), (IntervalType() as kind)):
            if function in ("add", "subtract"):
                return Literal(None, kind)
        case _:
            pass
    return functions.arithmetic(function, left, right)


def _of_two(function: str, left: Expr, right: Expr) -> Expr:
    assert isinstance(left.type, IntervalType) and isinstance(right.type, IntervalType)
    kind = left.type.widened(right.type)
    if kind is None:
        raise TypeMismatch(
            f"operator {functions.SYMBOLS[function]} does not take {left.type} and {right.type}",
            hint="Months have no fixed length: add one interval after the other to a date.",
        )
    numbers = units_of(left), units_of(right)
    match function:
        case "add" | "subtract":
            return interval_of(_computed(function, *numbers), kind)
        case "integral_divide":
            return functions.arithmetic(function, *numbers)
        case _:
            raise TypeMismatch(
                f"operator {functions.SYMBOLS[function]} does not take {left.type} and {right.type}"
            )


def _computed(function: str, left: Expr, right: Expr) -> Expr:
    """The sum or difference, done here for literals where it does not overflow."""
    if isinstance(left, Literal) and isinstance(right, Literal):
        a, b, kind = left.value, right.value, left.type
        if isinstance(a, int) and isinstance(b, int) and isinstance(kind, IntegerType):
            value = a + b if function == "add" else a - b
            if kind.min <= value <= kind.max:
                return Literal(value, kind)
    return functions.arithmetic(function, left, right)


def negative(value: Expr) -> Expr:
    """-a, of a number too."""
    if not isinstance(value.type, IntervalType):
        return functions.negative(value)
    number = units_of(value)
    if isinstance(number, Literal) and isinstance(number.value, int):
        if number.value > value.type.number.min:
            return Literal(-number.value, value.type)
    return interval_of(functions.negative(number), value.type)


def positive(value: Expr) -> Expr:
    """+a, also of an interval."""
    return value if isinstance(value.type, IntervalType) else functions.positive(value)


def sign(value: Expr) -> Expr:
    """SIGN, also of an interval."""
    return functions.sign(units_of(value) if isinstance(value.type, IntervalType) else value)


def magnitude(value: Expr) -> Expr:
    """ABS, also of an interval."""
    if isinstance(value.type, IntervalType):
        return interval_of(functions.scalar("abs", [units_of(value)]), value.type)
    return functions.scalar("abs", [value])


def moved(value: Expr, interval: Expr) -> Expr:
    """DATE or TIMESTAMP plus an interval: a DATE stays one where the interval's unit is DAY, or it
    is of months."""
    kind = interval.type
    assert isinstance(kind, IntervalType)
    number = units_of(interval)
    nullable = value.nullable or number.nullable
    if kind.unit == "month":
        folded = _folded(value, number, 1, 0)
        args = (value, number, *functions.zone_of(value))
        return folded or Call("add_months", args, value.type, nullable)
    if isinstance(value.type, DateType) and kind == _DAY:
        folded = _folded(value, number, 0, MICROSECONDS_PER_DAY)
        days = cast(_quotient(number, MICROSECONDS_PER_DAY), INT)
        return folded or Call("date_add", (value, days), DATE, nullable)
    if isinstance(value.type, DateType):
        value = cast(value, TIMESTAMP)
    # Whole days are added to what clocks show, whatever unit they were written in.
    known = number.value if isinstance(number, Literal) else None
    short = isinstance(known, int) and abs(known) < MICROSECONDS_PER_DAY
    zone = () if short else functions.zone_of(value)
    return Call("add_microseconds", (value, number, *zone), value.type, nullable)


def _folded(value: Expr, number: Expr, months: int, day: int) -> Expr | None:
    """A literal date, moved by so many months, or by microseconds of whole days."""
    if not (isinstance(value, Literal) and isinstance(number, Literal)):
        return None
    if not (isinstance(value.value, datetime.date) and isinstance(number.value, int)):
        return None
    days = number.value // day if day else 0
    moved = functions.shift_date(value.value, months * number.value, days)
    return None if moved is None else Literal(moved, DATE)


def _quotient(number: Expr, divisor: int) -> Expr:
    """Towards zero."""
    if isinstance(number, Literal) and isinstance(number.value, int):
        value = abs(number.value) // divisor
        return Literal(-value if number.value < 0 else value, BIGINT)
    return functions.arithmetic("integral_divide", number, Literal(divisor, BIGINT))


def difference(left: Expr, right: Expr) -> Expr:
    """What lies between two dates, an INTERVAL DAY, or between two times as clocks show them."""
    if isinstance(left.type, StringType):
        left = cast(left, right.type)
    if isinstance(right.type, StringType):
        right = cast(right, left.type)
    if isinstance(left.type, DateType) and isinstance(right.type, DateType):
        days = functions.arithmetic("subtract", _clock(left), _clock(right))
        day = Literal(MICROSECONDS_PER_DAY, BIGINT)
        return interval_of(functions.arithmetic("multiply", days, day), _DAY)
    first, second = (_clock(cast(moment, TIMESTAMP_NTZ)) for moment in (left, right))
    return interval_of(functions.arithmetic("subtract", first, second), INTERVAL_MICROSECONDS)


def _clock(moment: Expr) -> Expr:
    """The days of a DATE, or the microseconds of a local time, since 1970."""
    return Call("clock_of", (moment,), BIGINT, moment.nullable)


def times(interval: Expr, count: Expr) -> Expr:
    """An interval so many times."""
    return _scaled("multiply", interval, count)


def _scaled(function: str, value: Expr, by: Expr) -> Expr:
    """An interval times or divided by a number, rounded half up."""
    assert isinstance(value.type, IntervalType)
    kind = INTERVAL_MONTHS if value.type.unit == "month" else INTERVAL_MICROSECONDS
    number = units_of(value)
    if isinstance(by.type, StringType):
        by = cast(by, DOUBLE)
    match by.type:
        case IntegerType() if function == "multiply":
            return interval_of(
                functions.arithmetic(function, cast(number, BIGINT), cast(by, BIGINT)), kind
            )
        case IntegerType():
            args = (cast(number, BIGINT), cast(by, BIGINT))
            nullable = number.nullable or by.nullable
            return interval_of(Call("rounded_quotient", args, BIGINT, nullable), kind)
        case DecimalType():
            assert isinstance(number.type, IntegerType)
            exact = cast(number, as_decimal(number.type))
            result = functions.arithmetic(function, exact, by)
        case _:
            result = functions.arithmetic(function, cast(number, DOUBLE), by)
    whole = functions.scalar("round", [result, Literal(0, INT)])
    return interval_of(explicit_cast(whole, kind.number, False), kind)


#: The fields of intervals, and the type of each.
_FIELDS: dict[str, SqlType] = {
    "YEAR": INT,
    "MONTH": TINYINT,
    "DAY": INT,
    "HOUR": TINYINT,
    "MINUTE": TINYINT,
    "SECOND": DecimalType(8, 6),
}


def field(unit: str, value: Expr) -> Expr:
    """EXTRACT(unit FROM interval)."""
    kind = value.type
    assert isinstance(kind, IntervalType)
    if unit not in kind.units[kind.units.index(kind.first) : kind.units.index(kind.last) + 1]:
        raise TypeMismatch(f"an {kind} has no {unit}")
    size, number = INTERVAL_UNITS[unit], units_of(value)
    above = kind.units[: kind.units.index(unit)]
    if above:
        limit = Literal(INTERVAL_UNITS[above[-1]], number.type)
        number = functions.arithmetic("remainder", number, limit)
    if unit == "SECOND":
        divisor = Literal(Decimal(size), _MICROS)
        seconds = functions.arithmetic("divide", cast(number, DecimalType(20, 0)), divisor)
        return cast(seconds, _FIELDS[unit])
    whole = functions.arithmetic("integral_divide", number, Literal(size, number.type))
    return cast(whole, _FIELDS[unit])


def of_parts(kind: IntervalType, parts: list[Expr]) -> Expr:
    """MAKE_YM_INTERVAL and MAKE_DT_INTERVAL: so many of each unit, of which the last may be left
    out; seconds have six digits after the point."""
    given: list[Expr] = []
    for unit, part in zip(kind.units, parts, strict=False):
        value = functions.positive(part)
        second = unit == "SECOND"
        given.append(explicit_cast(value, _SECONDS, False) if second else cast(value, INT))
    total: Expr = Literal(0, BIGINT)
    for unit, number in zip(kind.units, given, strict=False):
        size = INTERVAL_UNITS[unit]
        if unit == "SECOND":
            exact = functions.arithmetic("multiply", number, Literal(Decimal(size), _MICROS))
            count = cast(exact, BIGINT)
        else:
            count = functions.arithmetic("multiply", cast(number, BIGINT), Literal(size, BIGINT))
        total = functions.arithmetic("add", total, count)
    whole = interval_of(total, kind)
    unknown = [functions.is_null(number) for number in given if number.nullable]
    if not unknown:
        return whole
    # What is NULL fails nowhere.
    nothing = Literal(None, kind)
    return Call("case", (functions.chain("or", unknown), nothing, whole), kind, True)


def interval_text(value: int, kind: IntervalType) -> str:
    """An interval as its literal, INTERVAL 'value' units."""
    sign, rest = ("-", -value) if value < 0 else ("", value)
    shown = ""
    units = kind.units[kind.units.index(kind.first) : kind.units.index(kind.last) + 1]
    for unit in units:
        if unit == "SECOND":
            whole, fraction = divmod(rest, INTERVAL_UNITS[unit])
            part = f"{whole:02}" + f".{fraction:06}".rstrip("0").rstrip(".")
        else:
            number, rest = divmod(rest, INTERVAL_UNITS[unit])
            part = f"{number:02}" if unit in ("HOUR", "MINUTE") else str(number)
        shown += part
        if unit != kind.last:
            shown += {"YEAR": "-", "DAY": " "}.get(unit, ":")
    return f"INTERVAL '{sign}{shown}' {str(kind).removeprefix('INTERVAL ')}"
