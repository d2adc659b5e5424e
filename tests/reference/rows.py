"""The twin of operators.flight.rows: Python values one by one to what pyarrow takes, and on by
Arrow."""

from __future__ import annotations

import datetime
import decimal
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from operators.flight.arrow import arrow_type
from operators.flight.rendering import shortened
from planner.calculus import types as t
from planner.errors import DataError

Rows: TypeAlias = Sequence[tuple[Any, ...]] | Sequence[dict[str, Any]]

#: Of one value, in a message.
_SHOWN_CHARACTERS = 60


def rows_to_table(rows: Rows, schema: t.Schema) -> pa.Table:
    """A table from tuples in the order of `schema`, or dicts by its names.

    Values are Python's own for the type: bool, int, float (or int), decimal.Decimal (or int), str,
    bytes, datetime.date, datetime.datetime, datetime.timedelta (int for months); None is NULL.
    Raises: DataError naming column and row for any other, and for rows of the wrong shape.
    """
    count = len(schema)
    columns: list[list[Any]] = [[] for _ in schema]
    by_name = {f.name.lower(): i for i, f in enumerate(schema)}
    for number, row in enumerate(rows):
        values: Sequence[Any]
        if isinstance(row, dict):
            values = _by_name(row, by_name, schema, number)
        elif isinstance(row, (tuple, list)):
            values = row
        else:
            raise DataError(
                f"row {number} is neither a tuple nor a dict", detail=f"It is {_represented(row)}."
            )
        if len(values) != count:
            raise DataError(
                f"row {number} has {len(values)} values, but there are {count} columns",
                detail=f"The columns are {_listed([f.name for f in schema])}.",
            )
        for column, value in zip(columns, values, strict=True):
            column.append(value)
    arrays = [_python_array(c, f) for c, f in zip(columns, schema, strict=True)]
    loose = pa.schema([pa.field(f.name, arrow_type(f.type)) for f in schema])
    return pa.Table.from_arrays(arrays, schema=loose)


def _by_name(
    row: dict[str, Any], by_name: dict[str, int], schema: t.Schema, number: int
) -> list[Any]:
    values: list[Any] = [None] * len(schema)
    seen: set[int] = set()
    for name, value in row.items():
        place = by_name.get(str(name).lower())
        if place is None:
            raise DataError(f'row {number} has an unknown column "{name}"')
        values[place] = value
        seen.add(place)
    for place, field in enumerate(schema):
        if place not in seen:
            raise DataError(f'row {number} has no value for column "{field.name}"')
    return values


def _python_array(values: list[Any], field: t.Field) -> pa.Array:
    convert = _acceptor(field.type)
    out = []
    for number, value in enumerate(values):
        try:
            out.append(None if value is None else convert(value))
        except (TypeError, ValueError, decimal.InvalidOperation):
            raise DataError(
                f'column "{field.name}" is {field.type}, but row {number} has '
                f"{_represented(value)}",
                detail=f"That is a Python {type(value).__name__}, or out of range.",
            ) from None
    if isinstance(field.type, t.NullType):
        return pa.nulls(len(out))
    try:
        return pa.array(out, arrow_type(field.type))
    except UnicodeEncodeError as error:
        row = next(i for i, text in enumerate(out) if text == error.object)
        raise DataError(
            f'text in column "{field.name}" has no UTF-8',
            detail=f"Row {row} has the lone surrogate {error.object[error.start]!a}, half a "
            "character of UTF-16.",
            hint="Join the halves: text.encode('utf-16', 'surrogatepass').decode('utf-16').",
        ) from None


def _represented(value: Any) -> str:
    """`repr` that is short, and there for whatever a caller passes."""
    try:
        text = repr(value)
    except Exception:
        text = f"a {type(value).__name__}"
    return shortened(text, _SHOWN_CHARACTERS)


def _acceptor(kind: t.SqlType) -> Callable[[Any], Any]:
    """What takes a Python value to one that pyarrow converts exactly, or raises."""
    match kind:
        case t.BooleanType():
            return lambda v: _instance(v, (bool, np.bool_), bool)
        case t.IntegerType():
            return lambda v: _integer(v, kind.min, kind.max)
        case t.FloatType():
            return _float if kind.bits == 64 else _float32
        case t.DecimalType():
            return lambda v: _decimal(v, kind)
        case t.StringType():
            return lambda v: _instance(v, str, str)
        case t.BinaryType():
            return lambda v: _instance(v, (bytes, bytearray, memoryview), bytes)
        case t.DateType():
            return _date
        case t.TimestampType():
            return lambda v: _datetime(v, kind.local)
        case t.IntervalType(unit="month"):
            return lambda v: _integer(v, t.INT.min, t.INT.max)
        case t.IntervalType():
            return lambda v: _instance(v, datetime.timedelta, lambda d: d)
        case _:
            raise TypeError(f"no Python values of {kind}")


def _instance(value: Any, kinds: Any, convert: Callable[[Any], Any]) -> Any:
    if not isinstance(value, kinds):
        raise TypeError
    return convert(value)


def _integer(value: Any, low: int, high: int) -> int:
    if isinstance(value, (bool, np.bool_)):
        raise TypeError
    number = operator.index(value)
    if not low <= number <= high:
        raise ValueError
    return number


def _float(value: Any) -> float:
    if isinstance(value, (float, np.floating)):
        return float(value)
    number = _integer(value, -(1 << 1023), 1 << 1023)
    if int(float(number)) != number:
        raise ValueError
    return float(number)


def _float32(value: Any) -> float:
    number = _float(value)
    rounded = float(np.array(number).astype(np.float32))
    if math.isfinite(number) and not math.isfinite(rounded):
        raise ValueError
    if not isinstance(value, (float, np.floating)) and rounded != number:
        raise ValueError
    return number


def _decimal(value: Any, kind: t.DecimalType) -> decimal.Decimal:
    if not isinstance(value, decimal.Decimal):
        value = decimal.Decimal(_integer(value, -(10**38), 10**38))
    if not value.is_finite():
        raise ValueError
    context = decimal.Context(
        prec=kind.precision, traps=[decimal.Inexact, decimal.InvalidOperation]
    )
    try:
        unit = decimal.Decimal(1).scaleb(-kind.scale)
        exact: decimal.Decimal = value.quantize(unit, context=context)
    except decimal.Inexact:
        raise ValueError from None
    return exact


def _date(value: Any) -> datetime.date:
    if isinstance(value, datetime.datetime) or not isinstance(value, datetime.date):
        raise TypeError
    return value


def _datetime(value: Any, local: bool) -> datetime.datetime:
    if not isinstance(value, datetime.datetime) or (local and value.tzinfo is not None):
        raise TypeError
    if local:
        return value
    if value.tzinfo is None:
        return value.replace(tzinfo=datetime.timezone.utc)
    return value.astimezone(datetime.timezone.utc)


def _listed(names: list[str]) -> str:
    return ", ".join(f'"{name}"' for name in names) or "no columns"
