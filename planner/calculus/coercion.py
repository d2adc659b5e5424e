"""Casts and common types: Spark's ANSI coercions.

One function, `common_type`, decides what comparisons, IN, COALESCE, CASE and UNION have in common,
as in Spark. Casts of literals are done here where they are exact and cannot fail, so that plans
stay simple. Text, dates and local times become a TIMESTAMP, and back, in the session's time zone
(planner.calculus.session_zone).

Source: Spark SQL, AnsiTypeCoercion; tests/planner/spark_types.tsv has the types Spark gives.
"""

from __future__ import annotations

import datetime
import decimal
import re
from collections.abc import Sequence
from dataclasses import replace

from planner.calculus import types
from planner.calculus.expr import Call, Expr, Literal
from planner.calculus.session_zone import cast_argument, session_zone
from planner.calculus.types import (
    BIGINT,
    BOOLEAN,
    DOUBLE,
    TIMESTAMP,
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    FloatType,
    IntegerType,
    IntervalType,
    NestedType,
    NullType,
    SqlType,
    StringType,
    StructType,
    TimestampType,
    integer_as_decimal,
)
from planner.calculus.zones import find


class TypeMismatch(Exception):
    """Operands that do not fit; the binder turns it into a BindError with a place."""

    def __init__(self, message: str, detail: str | None = None, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.detail = detail
        self.hint = hint


# --- casts -------------------------------------------------------------------------------------

_DATE_TEXT = re.compile(r"(\d{4})(?:-(\d{1,2})(?:-(\d{1,2}))?)?")
_TIMESTAMP_TEXT = re.compile(
    r"(\d{4}-\d{1,2}-\d{1,2})(?:[ T](\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.(\d*))?)?)?"
)
#: A time, and its zone.
_ZONED = re.compile(r"(.*\d:\d{1,2}:\d{1,2}(?:\.\d*)?)\s*([^\s\d:.].*)")
_NUMBER_TEXT = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
_EPOCH = datetime.date(1970, 1, 1)
MICROSECONDS = 1_000_000
MICROSECONDS_PER_DAY = 86_400 * MICROSECONDS
#: How many months or microseconds the units of intervals are.
INTERVAL_UNITS = {
    "YEAR": 12,
    "MONTH": 1,
    "DAY": MICROSECONDS_PER_DAY,
    "HOUR": 3600 * MICROSECONDS,
    "MINUTE": 60 * MICROSECONDS,
    "SECOND": MICROSECONDS,
}
_EXACT = decimal.Context(prec=120, rounding=decimal.ROUND_HALF_UP)


def cast(expr: Expr, target: SqlType) -> Expr:
    """An explicit or implicit cast of types that allow it; no node where nothing changes."""
    if expr.type == target:
        return expr
    if isinstance(expr, Literal):
        folded = _fold_cast(expr, target)
        if folded is not None:
            return folded
    return Call("cast", (expr, *cast_argument(expr.type, target)), target, expr.nullable)


def explicit_cast(expr: Expr, target: SqlType, safe: bool) -> Expr:
    """CAST, or TRY_CAST where `safe`."""
    if not _can_cast(expr.type, target):
        raise TypeMismatch(f"cannot cast {expr.type} to {target}")
    if safe and isinstance(expr.type, NestedType):
        raise TypeMismatch(f"TRY_CAST of {expr.type} is not among the casts", hint="Use CAST.")
    if expr.type == target:
        return expr
    # An integer literal is typed by its digits beside a decimal, a cast to an integer is not.
    if isinstance(expr, Literal) and not isinstance(target, IntegerType):
        folded = _fold_cast(expr, target)
        if folded is not None:
            return folded
    args = (expr, *cast_argument(expr.type, target))
    if safe:
        return Call("try_cast", args, target, True)
    return Call("cast", args, target, expr.nullable)


def _can_cast(source: SqlType, target: SqlType) -> bool:
    """Spark's table of ANSI casts."""
    match source, target:
        case (NullType(), _) | (_, StringType()):
            return True
        case StringType(), _:
            return not isinstance(target, NestedType)
        case (BooleanType(), BooleanType()) | (BooleanType(), IntegerType()):
            return True
        case (BooleanType(), FloatType()) | (BooleanType(), DecimalType()):
            return True
        case IntegerType(), BinaryType():
            return True
        case ((IntegerType() | FloatType() | DecimalType()), TimestampType()):
            return not target.local
        case ((IntegerType() | DecimalType()), IntervalType()):
            return target.first == target.last
        case ((IntegerType() | FloatType() | DecimalType()), _):
            return types.is_numeric(target) or target == BOOLEAN
        case TimestampType(), (IntegerType() | FloatType() | DecimalType()):
            return not source.local
        case ((DateType() | TimestampType()), (DateType() | TimestampType())):
            return True
        case NestedType(), NestedType():
            parts = types.parts_of(source), types.parts_of(target)
            alike = type(source) is type(target) and len(parts[0]) == len(parts[1])
            return alike and all(map(_can_cast, *parts))
        case IntervalType(), IntervalType():
            return source.unit == target.unit
        case IntervalType(), (IntegerType() | DecimalType()):
            return source.first == source.last
        case _:
            return source == target


def _fold_cast(literal: Literal, target: SqlType) -> Literal | None:
    """The cast literal, where that is exact and certain; None leaves the cast to run time."""
    value = literal.value
    if value is None:
        return Literal(None, target)
    match literal.type, target:
        case IntegerType(), IntegerType():
            assert isinstance(value, int)
            return Literal(value, target) if target.min <= value <= target.max else None
        case ((IntegerType() | DecimalType()), DecimalType()):
            assert isinstance(value, (int, decimal.Decimal))
            return decimal_literal(decimal.Decimal(value), target)
        case ((IntegerType() | DecimalType()), FloatType(bits=64)):
            assert isinstance(value, (int, decimal.Decimal))
            return Literal(float(value), target)
        case FloatType(), FloatType(bits=64):
            return Literal(value, target)
        case StringType(), _:
            assert isinstance(value, str)
            return _fold_text(value.strip(" \t\n\r"), target)
        case IntervalType(), IntervalType() if literal.type.widened(target) == target:
            return Literal(value, target)
        case DateType(), TimestampType():
            assert isinstance(value, datetime.date)
            days = (value - _EPOCH).days
            if target.local:
                return Literal(days * MICROSECONDS_PER_DAY, target)
            return Literal(session_zone().start_of_day(days) * MICROSECONDS, target)
        case _:
            return None


def _fold_text(text: str, target: SqlType) -> Literal | None:
    match target:
        case DateType():
            day = parse_date(text)
            return None if day is None else Literal(day, target)
        case TimestampType():
            zoned = _ZONED.fullmatch(text)
            local = parse_timestamp(text if zoned is None else zoned[1])
            zone = session_zone() if zoned is None else find(zoned[2])
            if local is None or zone is None:
                return None
            seconds, fraction = divmod(local, MICROSECONDS)
            instant = seconds if target.local else zone.instant_of(seconds)
            return Literal(instant * MICROSECONDS + fraction, target)
        case IntegerType() if re.fullmatch(r"[+-]?\d+", text, re.ASCII):
            number = int(text)
            return Literal(number, target) if target.min <= number <= target.max else None
        case FloatType(bits=64) if _NUMBER_TEXT.fullmatch(text) and text.isascii():
            return Literal(float(text), target)
        case DecimalType() if _NUMBER_TEXT.fullmatch(text):
            return decimal_literal(decimal.Decimal(text), target)
        case _:
            return None


def decimal_literal(value: decimal.Decimal, target: DecimalType) -> Literal | None:
    """The literal of exactly the target's scale, rounded half up; None where it does not fit."""
    if value and not -80 < value.adjusted() < 40:
        return None
    scaled = value.quantize(decimal.Decimal(1).scaleb(-target.scale), context=_EXACT)
    if len(scaled.as_tuple().digits) > target.precision and scaled:
        return None
    return Literal(scaled if scaled else abs(scaled), target)


def parse_date(text: str) -> datetime.date | None:
    """A date as Spark reads it from text: yyyy, yyyy-m or yyyy-m-d."""
    found = _DATE_TEXT.fullmatch(text.strip())
    if not found:
        return None
    try:
        return datetime.date(int(found[1]), int(found[2] or 1), int(found[3] or 1))
    except ValueError:
        return None


def parse_timestamp(text: str) -> int | None:
    """Local microseconds since 1970-01-01 of yyyy-m-d[ h:m[:s[.f…]]], of six digits of f."""
    found = _TIMESTAMP_TEXT.fullmatch(text.strip())
    day = parse_date(found[1]) if found else None
    if found is None or day is None:
        return None
    hour, minute, second = (int(found[i] or 0) for i in (2, 3, 4))
    if hour > 23 or minute > 59 or second > 59:
        return None
    fraction = int((found[5] or "").ljust(6, "0")[:6])
    seconds = ((day - _EPOCH).days * 24 + hour) * 3600 + minute * 60 + second
    return seconds * 1_000_000 + fraction


# --- common types ------------------------------------------------------------------------------


def common_type(left: SqlType, right: SqlType) -> SqlType | None:
    """The type in which two values are compared or united, or None."""
    if left == right or isinstance(right, NullType):
        return left
    if isinstance(left, NullType):
        return right
    if isinstance(left, StringType):
        return _common_with_text(right)
    if isinstance(right, StringType):
        return _common_with_text(left)
    match left, right:
        case IntegerType(), IntegerType():
            return left if left.bits > right.bits else right
        case ((IntegerType() | FloatType() | DecimalType()), FloatType()):
            return DOUBLE
        case FloatType(), (IntegerType() | DecimalType()):
            return DOUBLE
        case ((IntegerType() | DecimalType()), (IntegerType() | DecimalType())):
            return _wider_decimal(as_decimal(left), as_decimal(right))
        case DateType(), TimestampType():
            return right
        case TimestampType(), DateType():
            return left
        case TimestampType(), TimestampType():
            return TIMESTAMP
        case IntervalType(), IntervalType():
            return left.widened(right)
        case NestedType(), NestedType():
            return _common_nested(left, right)
        case _:
            return None


def _common_nested(left: SqlType, right: SqlType) -> SqlType | None:
    """Part by part; a struct has the names of the first."""
    first, second = types.parts_of(left), types.parts_of(right)
    if type(left) is not type(right) or len(first) != len(second):
        return None
    common = tuple(map(common_type, first, second))
    if any(kind is None for kind in common):
        return None
    match left, right:
        case StructType(fields=a), _:
            pairs = zip(a, common, strict=True)
            return StructType(tuple(replace(f, type=kind) for f, kind in pairs if kind))
        case _:
            return type(left)(*common)


def _common_with_text(other: SqlType) -> SqlType | None:
    match other:
        case IntegerType():
            return BIGINT
        case FloatType() | DecimalType():
            return DOUBLE
        case NestedType():
            return None
        case _:
            return other


def as_decimal(kind: IntegerType | DecimalType) -> DecimalType:
    return kind if isinstance(kind, DecimalType) else integer_as_decimal(kind)


def _wider_decimal(left: DecimalType, right: DecimalType) -> DecimalType:
    """Holds both; beyond 38 digits the fraction gives way (Spark's boundedPreferIntegralDigits)."""
    scale = max(left.scale, right.scale)
    integral = max(left.precision - left.scale, right.precision - right.scale)
    if integral + scale <= types.MAX_PRECISION:
        return DecimalType(integral + scale, scale)
    return DecimalType(types.MAX_PRECISION, max(0, types.MAX_PRECISION - integral))


def unify(exprs: Sequence[Expr], what: str) -> tuple[Expr, ...]:
    """The expressions cast to one common type."""
    kind = exprs[0].type
    for expr in exprs[1:]:
        wider = common_type(kind, expr.type)
        if wider is None:
            raise TypeMismatch(f"{what} has operands of types {kind} and {expr.type}")
        kind = wider
    return tuple(cast(e, kind) for e in exprs)
