"""Casts, by the ANSI table of Spark: which pairs exist, and which values fail.

Between numbers, dates and timestamps a cast works on whole arrays; from and to strings it goes row
by row through `operators.scalar.text`, once per distinct string. TRY_CAST is the same cast with
failing rows turned into NULL.

Between a TIMESTAMP and what clocks show (text, DATE, TIMESTAMP_NTZ) a cast has the time zone as its
second argument, but for UTC, where all of these convert by arithmetic alone.
"""

from __future__ import annotations

import decimal
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from operators.flight.column import Bools, Column, Values, null_column
from operators.kernels import scalar as kernels
from operators.scalar import decimals, intervals, lists, text
from operators.scalar.value import (
    Builder,
    Conversion,
    Errors,
    Fetch,
    Node,
    Result,
    Run,
    both_valid,
    constant,
    failures,
    first_of,
    plain_decimal,
)
from operators.scalar.zones import UTC_CLOCKS, Clocks, call_zone, clocks_of
from planner.calculus import types as t
from planner.calculus.expr import Call
from planner.calculus.zones import UTC, Zone
from planner.errors import UnsupportedError

_MICROS = 1_000_000
_MIN, _MAX = -(1 << 63), (1 << 63) - 1
_EXACT = decimal.Context(prec=2000, rounding=decimal.ROUND_HALF_UP, Emax=99_999, Emin=-99_999)


def _build(call: Call, args: tuple[Node, ...]) -> Run:
    arg = args[0]
    source, target = arg.type, call.type
    if isinstance(source, t.NullType):
        return _nulls(arg, target)
    if source == target:
        return arg.run
    convert = conversion(source, target, call_zone(args, 1))
    inner = arg.run
    tolerant = call.function == "try_cast"

    def run(columns: Fetch, n: int) -> Result:
        a, valid, errors = inner(columns, n)
        values, kept, own = convert(a, valid, n)
        if kept is not None:
            valid = both_valid(valid, kept)
        if own is None:
            return values, valid, errors
        if tolerant:
            return values, both_valid(valid, ~own.mask), errors
        return values, valid, first_of(errors, own)

    return run


def _nulls(arg: Node, target: t.SqlType) -> Run:
    blank = constant(target, None).run

    def run(columns: Fetch, n: int) -> Result:
        values, valid, _ = blank(columns, n)
        return values, valid, arg.run(columns, n)[2]

    return run


def conversion(source: t.SqlType, target: t.SqlType, zone: Zone = UTC) -> Conversion:
    """How values of `source` become values of `target`, by the clocks of a time zone.

    Raises: UnsupportedError where Spark's ANSI mode has no such cast.
    """
    found: Conversion | None
    if isinstance(source, t.NestedType):
        found = _nested(source, target, zone)
    elif isinstance(source, t.StringType):
        found = _from_string(target, zone)
    elif isinstance(target, t.IntervalType) or (
        isinstance(source, t.IntervalType) and not isinstance(target, t.DecimalType)
    ):
        found = intervals.conversion(source, target)
    elif isinstance(target, t.StringType):
        found = _to_string(source, zone)
    else:
        match target:
            case t.BooleanType():
                found = _to_boolean(source)
            case t.IntegerType():
                found = _to_integer(source, target)
            case t.FloatType():
                found = _to_float(source, np.float32 if target.bits == 32 else np.float64)
            case t.DecimalType():
                found = _to_decimal(source, target)
            case t.DateType() | t.TimestampType():
                found = _to_moment(source, target, zone)
            case _:
                found = None
    if found is None:
        raise UnsupportedError(f"cannot cast {source} to {target}")
    return found


def _plain(op: Callable[[Any], Values]) -> Conversion:
    return lambda a, valid, n: (op(a), None, None)


def _failed(bad: Bools, valid: Bools | None, n: int, show: Callable[[int], str]) -> Errors | None:
    rows = np.flatnonzero(bad if valid is None else bad & valid)
    return failures(n, rows, [show(int(i)) for i in rows])


def _overflow(value: str, source: t.SqlType, target: t.SqlType) -> str:
    return f"[CAST_OVERFLOW] {value} of type {source} cannot be cast to {target}"


def _to_boolean(source: t.SqlType) -> Conversion | None:
    match source:
        case t.IntegerType() | t.FloatType():
            return _plain(lambda a: a != 0)
        case t.DecimalType():
            return _plain(lambda a: a != 0 if a.ndim == 1 else (a != 0).any(axis=1))
        case _:
            return None


def _to_integer(source: t.SqlType, target: t.IntegerType) -> Conversion | None:
    def in_range(
        values: Any, valid: Bools | None, n: int
    ) -> tuple[Values, Bools | None, Errors | None]:
        if not kernels.outside(values, target.min, target.max):
            return values, None, None
        bad = (values < target.min) | (values > target.max)
        errors = _failed(bad, valid, n, lambda i: _overflow(str(values[i]), source, target))
        return np.where(bad, 0, values), None, errors

    match source:
        case t.BooleanType():
            return _plain(lambda a: a.astype(np.int64))
        case t.IntegerType():
            if source.bits <= target.bits:
                return _plain(lambda a: a)
            return lambda a, valid, n: in_range(np.ascontiguousarray(a), valid, n)
        case t.TimestampType(local=False):
            return lambda a, valid, n: in_range(a // _MICROS, valid, n)
        case t.FloatType():
            return _float_to_integer(source, target)
        case t.DecimalType():
            return _decimal_to_integer(source, target)
        case _:
            return None


def _float_to_integer(source: t.FloatType, target: t.IntegerType) -> Conversion:
    def op(a: Any, valid: Bools | None, n: int) -> tuple[Values, Bools | None, Errors | None]:
        whole = np.trunc(a.astype(np.float64))
        bad = ~((whole >= float(target.min)) & (whole <= float(target.max)))
        errors = None
        if bad.any():
            errors = _failed(
                bad, valid, n, lambda i: _overflow(text.format_float(a[i]), source, target)
            )
            whole = np.where(bad, 0.0, whole)
        if target.bits == 64:  # 2**63 itself passes Spark's check, and saturates
            return _saturated(whole), None, errors
        return whole.astype(np.int64), None, errors

    return op


def _decimal_to_integer(source: t.DecimalType, target: t.IntegerType) -> Conversion:
    unit = 10**source.scale
    if not source.narrow and target.bits < 64:
        return _wide_decimal_to_integer(source, target)

    def op(a: Any, valid: Bools | None, n: int) -> tuple[Values, Bools | None, Errors | None]:
        numbers = decimals.objects(a) if a.ndim == 2 or source.scale > 18 else a
        whole = numbers // unit
        whole = whole + ((numbers < 0) & (whole * unit != numbers))
        bad = ((whole < target.min) | (whole > target.max)).astype(np.bool_)
        errors = None
        if bad.any():
            exact = decimals.objects(a)
            errors = _failed(
                bad,
                valid,
                n,
                lambda i: _overflow(plain_decimal(exact[i], source.scale), source, target),
            )
            whole = np.where(bad, 0, whole)
        return whole.astype(np.int64), None, errors

    return op


def _wide_decimal_to_integer(source: t.DecimalType, target: t.IntegerType) -> Conversion:
    """Spark goes by way of a double where a decimal does not fit a word by its type."""

    def op(a: Any, valid: Bools | None, n: int) -> tuple[Values, Bools | None, Errors | None]:
        doubles = _decimal_to_double(a, source.scale)
        bad = (np.floor(doubles) > target.max) | (np.ceil(doubles) < target.min)
        exact = decimals.objects(a)
        errors = _failed(
            bad,
            valid,
            n,
            lambda i: _overflow(plain_decimal(exact[i], source.scale), source, target),
        )
        return np.trunc(np.where(bad, 0.0, doubles)).astype(np.int64), None, errors

    return op


def _to_float(source: t.SqlType, dtype: Any) -> Conversion | None:
    match source:
        case t.BooleanType() | t.IntegerType() | t.FloatType():
            return _plain(lambda a: a.astype(dtype))
        case t.TimestampType(local=False):
            return _plain(lambda a: (a / 1e6).astype(dtype))
        case t.DecimalType():
            return _plain(lambda a: _decimal_to_double(a, source.scale).astype(dtype))
        case _:
            return None


def _decimal_to_double(a: Any, scale: int) -> Any:
    """Correctly rounded: one division of exact doubles, or Python's division of integers."""
    bound = 1 << 53
    if a.ndim == 1 and scale <= 22 and not kernels.outside(np.ascontiguousarray(a), -bound, bound):
        return a / float(10**scale)
    unit = 10**scale
    return np.array([x / unit for x in decimals.objects(a).tolist()], np.float64)


def _to_decimal(source: t.SqlType, target: t.DecimalType) -> Conversion | None:
    def exactly(
        kind: t.DecimalType, a: Any, valid: Bools | None, n: int
    ) -> tuple[Values, Bools | None, Errors | None]:
        values, errors = decimals.rescaled(a, kind, target, valid, n)
        return values, None, errors

    match source:
        case t.BooleanType():
            bit = t.DecimalType(1, 0)
            return lambda a, valid, n: exactly(bit, a.astype(np.int64), valid, n)
        case t.IntegerType():
            # 19 digits, one less than the DECIMAL(20,0) of the type rules: 2**63 has no more.
            kind = t.DecimalType({8: 3, 16: 5, 32: 10, 64: 19}[source.bits], 0)
            return lambda a, valid, n: exactly(kind, a, valid, n)
        case t.DecimalType():
            return lambda a, valid, n: exactly(source, a, valid, n)
        case t.IntervalType(last="SECOND"):
            return lambda a, valid, n: exactly(t.DecimalType(19, 6), a, valid, n)
        case t.IntervalType():
            whole = t.DecimalType(19, 0)
            return lambda a, valid, n: exactly(whole, intervals.whole_units(a, source), valid, n)
        case t.FloatType():
            return lambda a, valid, n: _from_numbers(_shortest(a), target, valid, n)
        case t.TimestampType(local=False):
            return lambda a, valid, n: _from_numbers(_shortest(a / 1e6), target, valid, n)
        case _:
            return None


def _shortest(a: Any) -> list[decimal.Decimal | None]:
    """The shortest decimals that denote the doubles; None for NaN and infinities."""
    return [decimal.Decimal(repr(x)) if x - x == 0 else None for x in a.tolist()]


def _from_numbers(
    numbers: list[decimal.Decimal | None], target: t.DecimalType, valid: Bools | None, n: int
) -> tuple[Values, Bools | None, Errors | None]:
    """Decimals rounded half up to `target`; None becomes NULL (as for NaN, even in ANSI mode)."""
    unscaled = np.zeros(n, object)
    kept = np.ones(n, np.bool_)
    bound = 10**target.precision
    failed: dict[int, str] = {}
    for i, number in enumerate(numbers):
        if number is None:
            kept[i] = False
            continue
        value = round_to(number, target.scale)
        if value is not None and -bound < value < bound:
            unscaled[i] = value
        elif valid is None or valid[i]:
            failed[i] = decimals.out_of_range(text.shortened(str(number)), target)
    errors = failures(n, failed, failed.values())
    return decimals.packed(unscaled), None if kept.all() else kept, errors


def round_to(number: decimal.Decimal, scale: int) -> int | None:
    """The unscaled value, half up; None if it is far beyond 38 digits."""
    if number.adjusted() > 40:
        return None if number else 0
    if number.adjusted() < -scale - 2:
        return 0
    return int(number.scaleb(scale, _EXACT).to_integral_value(decimal.ROUND_HALF_UP, _EXACT))


def _to_moment(source: t.SqlType, target: t.SqlType, zone: Zone) -> Conversion | None:
    if not zone.is_utc:
        by_clock = _by_clock(source, target, clocks_of(zone))
        if by_clock is not None:
            return by_clock
    match source, target:
        case t.TimestampType(), t.DateType():
            return _plain(lambda a: a // text.MICROS_PER_DAY)
        case t.TimestampType(), t.TimestampType():
            return _plain(lambda a: a)
        case t.DateType(), t.TimestampType():
            return lambda a, valid, n: _midnights(a, target, valid, n)
        case t.IntegerType(), t.TimestampType(local=False):
            # Saturating, as Java's TimeUnit is.
            top, bottom = _MAX // _MICROS, -(_MAX // _MICROS)

            def seconds(a: Any) -> Values:
                micros = np.clip(a, bottom, top) * _MICROS
                return np.where(a > top, _MAX, np.where(a < bottom, _MIN, micros))

            return _plain(seconds)
        case t.FloatType(), t.TimestampType(local=False):
            return lambda a, valid, n: _double_seconds(a, source, target, valid, n)
        case t.DecimalType(), t.TimestampType(local=False):
            return _plain(lambda a: _decimal_seconds(a, source.scale))
        case _:
            return None


def _by_clock(source: t.SqlType, target: t.SqlType, clocks: Clocks) -> Conversion | None:
    """Between instants and what clocks of a zone show; None for other casts."""

    def checked(
        found: tuple[Values, Bools], valid: Bools | None, n: int
    ) -> tuple[Values, Bools | None, Errors | None]:
        values, bad = found
        message = f"[DATETIME_OVERFLOW] a value of type {source} cannot be cast to {target}"
        errors = _failed(bad, valid, n, lambda i: message) if bad.any() else None
        return values, None, errors

    match source, target:
        case t.TimestampType(local=False), t.DateType():
            return _plain(lambda a: clocks.local(a)[0])
        case t.DateType(), t.TimestampType(local=False):
            return lambda a, valid, n: checked(clocks.starts(a), valid, n)
        case t.TimestampType(local=False), t.TimestampType(local=True):
            return lambda a, valid, n: checked(UTC_CLOCKS.instants(*clocks.local(a)), valid, n)
        case t.TimestampType(local=True), t.TimestampType(local=False):
            return lambda a, valid, n: checked(clocks.instants(*UTC_CLOCKS.local(a)), valid, n)
        case _:
            return None


def _midnights(
    days: Any, target: t.SqlType, valid: Bools | None, n: int
) -> tuple[Values, Bools | None, Errors | None]:
    limit = _MAX // text.MICROS_PER_DAY
    bad = (days > limit) | (days < -limit)
    errors = None
    if bad.any():
        errors = _failed(
            bad, valid, n, lambda i: _overflow(text.format_date(int(days[i])), t.DATE, target)
        )
        days = np.where(bad, 0, days)
    return days * text.MICROS_PER_DAY, None, errors


def _double_seconds(
    a: Any, source: t.SqlType, target: t.SqlType, valid: Bools | None, n: int
) -> tuple[Values, Bools | None, Errors | None]:
    micros = a.astype(np.float64) * 1e6
    invalid = ~np.isfinite(a)
    # 2**63 itself passes Spark's check, and saturates
    bad = invalid | (micros > 2.0**63) | (micros < -(2.0**63))
    errors = None
    if bad.any():

        def show(row: int) -> str:
            value = text.format_float(a[row])
            if invalid[row]:
                return f"[CAST_INVALID_INPUT] {value} cannot be cast to {target}"
            return _overflow(value, source, target)

        errors = _failed(bad, valid, n, show)
        micros = np.where(bad, 0.0, micros)
    return _saturated(micros), None, errors


def _nested(source: t.NestedType, target: t.SqlType, zone: Zone) -> Conversion | None:
    """What is inside, as by itself: to a type of the same form, or as text."""
    parts = t.parts_of(source)
    wanted = t.parts_of(target) if isinstance(target, t.NestedType) else (t.STRING,) * len(parts)
    inside = {
        pair: conversion(*pair, zone)
        for pair in zip(parts, wanted, strict=True)
        if pair[0] != pair[1] and not isinstance(pair[0], t.NullType)
    }

    def inner(column: Column, to: t.SqlType) -> tuple[Column, Errors | None]:
        if column.type == to:
            return column, None
        if isinstance(column.type, t.NullType):
            return null_column(to, len(column)), None
        if (column.type, to) not in inside:  # an entry of a map
            return lists.convert(column, to, inner)
        values, kept, errors = inside[column.type, to](column.values, column.valid, len(column))
        return Column(to, values, both_valid(column.valid, kept)), errors

    def op(a: Any, valid: Bools | None, n: int) -> tuple[Values, Bools | None, Errors | None]:
        given = Column(source, a, valid)
        if isinstance(target, t.StringType):
            return lists.shown(given, inner), None, None
        made, errors = lists.convert(given, target, inner)
        return made.values, None, errors

    return op


def _saturated(whole: Any) -> Any:
    """Doubles up to 2**63 as 64-bit integers; 2**63 becomes the greatest."""
    top = whole >= 2.0**63
    return np.where(top, _MAX, np.where(top, 0.0, whole).astype(np.int64))


def _decimal_seconds(a: Any, scale: int) -> Values:
    """Truncated microseconds, wrapping like Java's BigDecimal.longValue; of 34 digits before."""
    unit = 10**scale
    exact = decimals.to_34_digits(decimals.objects(a) * _MICROS)
    whole = np.where(exact < 0, -(-exact // unit), exact // unit)
    return ((whole - _MIN) % (1 << 64) + _MIN).astype(np.int64)


def _from_string(target: t.SqlType, zone: Zone) -> Conversion | None:
    parse: Callable[[str], Any]
    dtype: Any
    match target:
        case t.BinaryType():
            return _plain(lambda a: a.cast(pa.binary()))
        case t.BooleanType():
            parse, dtype = text.parse_boolean, np.bool_
        case t.IntegerType():
            parse, dtype = _integer_parser(target), np.int64
        case t.FloatType():
            parse, dtype = text.parse_double, np.float32 if target.bits == 32 else np.float64
        case t.DateType():
            parse, dtype = text.parse_date, np.int64
        case t.TimestampType():
            parse, dtype = _timestamp_parser(None if target.local else zone), np.int64
        case t.DecimalType():
            return lambda a, valid, n: _parsed_decimals(a, target, valid, n)
        case _:
            return None

    def op(a: Any, valid: Bools | None, n: int) -> tuple[Values, Bools | None, Errors | None]:
        values, failed = _parsed(a, parse, target, valid)
        out = np.array([0 if v is None else v for v in values], dtype)
        return out, None, failures(n, failed, failed.values())

    return op


def _integer_parser(target: t.IntegerType) -> Callable[[str], int | None]:
    def parse(word: str) -> int | None:
        value = text.parse_integer(word)
        return value if value is not None and target.min <= value <= target.max else None

    return parse


def _timestamp_parser(session: Zone | None) -> Callable[[str], int | None]:
    return lambda word: text.parse_timestamp(word, session)


def _parsed(
    a: Any, parse: Callable[[str], Any], target: t.SqlType, valid: Bools | None
) -> tuple[list[Any], dict[int, str]]:
    """What `parse` makes of each distinct text once, and the rows where it makes nothing."""
    known: dict[str, Any] = {}
    failed: dict[int, str] = {}
    values: list[Any] = []
    for i, word in enumerate(a.to_pylist()):
        if valid is not None and not valid[i]:
            values.append(None)
            continue
        if word in known:
            value = known[word]
        else:
            value = known[word] = parse(word)
        if value is None:
            failed[i] = f"[CAST_INVALID_INPUT] '{text.shortened(word)}' cannot be cast to {target}"
        values.append(value)
    return values, failed


def _parsed_decimals(
    a: Any, target: t.DecimalType, valid: Bools | None, n: int
) -> tuple[Values, Bools | None, Errors | None]:
    zero = decimal.Decimal(0)
    numbers, failed = _parsed(a, text.parse_decimal, target, valid)
    filled: list[decimal.Decimal | None] = [zero if v is None else v for v in numbers]
    values, _, beyond = _from_numbers(filled, target, valid, n)
    return values, None, first_of(failures(n, failed, failed.values()), beyond)


def _to_string(source: t.SqlType, zone: Zone) -> Conversion | None:
    show: Callable[[Any], str]
    match source:
        case t.BooleanType() | t.IntegerType():
            casting = pc.get_function("cast")
            options = pc.CastOptions.safe(pa.string())
            return _plain(lambda a: casting.call([pa.array(a)], options=options))
        case t.BinaryType():
            return _binary_to_string
        case t.DecimalType():
            return _plain(lambda a: _strings(_decimal_texts(a, source.scale)))
        case t.FloatType():
            return _plain(lambda a: _strings([text.format_float(x) for x in a]))
        case t.DateType():
            show = text.format_date
        case t.TimestampType():
            clocks = UTC_CLOCKS if source.local else clocks_of(zone)
            return _plain(
                lambda a: _strings([*map(text.format_timestamp, *_lists(clocks.local(a)))])
            )
        case _:
            return None
    return _plain(lambda a: _strings([show(x) for x in a.tolist()]))


def _lists(local: tuple[Any, Any]) -> tuple[list[int], list[int]]:
    return local[0].tolist(), local[1].tolist()


def _decimal_texts(a: Any, scale: int) -> list[str]:
    return [plain_decimal(x, scale) for x in decimals.objects(a).tolist()]


def _strings(values: list[str]) -> pa.Array:
    return pa.array(values, pa.string())


def _binary_to_string(
    a: Any, valid: Bools | None, n: int
) -> tuple[Values, Bools | None, Errors | None]:
    """Bytes as text; bytes that are no UTF-8 fail, since strings here are always valid."""
    out, failed = [""] * n, {}
    for i, data in enumerate(a.to_pylist()):
        try:
            out[i] = data.decode()
        except UnicodeDecodeError:
            if valid is None or valid[i]:
                failed[i] = (
                    f"[CAST_INVALID_INPUT] X'{text.shortened(data.hex().upper())}' cannot be cast"
                    " to STRING"
                )
    return _strings(out), None, failures(n, failed, failed.values())


BUILDERS: dict[str, Builder] = {"cast": _build, "try_cast": _build}
