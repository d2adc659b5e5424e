"""Expressions and values for the tests of scalar evaluation."""

from __future__ import annotations

import datetime
import math
from decimal import Context, Decimal
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from operators import scalar
from operators.flight.column import Column
from planner.calculus import expr as e
from planner.calculus import types as t

EPOCH = datetime.datetime(1970, 1, 1)
MICRO = datetime.timedelta(microseconds=1)
WORD = (1 << 64) - 1
EXACT = Context(prec=100)

D = t.DecimalType
NARROW, MONEY, WIDE = D(9, 2), D(15, 2), D(38, 6)
INTEGERS = (t.TINYINT, t.SMALLINT, t.INT, t.BIGINT)
FLOATS = (t.FLOAT, t.DOUBLE)
DECIMALS = (NARROW, MONEY, D(18, 0), D(20, 10), WIDE, D(38, 0), D(38, 18), D(3, 3))
MOMENTS = (t.DATE, t.TIMESTAMP, t.TIMESTAMP_NTZ)
TYPES = (t.BOOLEAN, *INTEGERS, *FLOATS, *DECIMALS, t.STRING, *MOMENTS)


def column_of(kind: t.SqlType, values: list[Any]) -> Column:
    """A column of Python values (as in tests.reference.expressions), NULL where None."""
    valid = np.array([v is not None for v in values], np.bool_)
    mask = None if valid.all() else valid
    match kind:
        case t.StringType():
            data: Any = pa.array(["" if v is None else v for v in values], pa.string())
        case t.BinaryType():
            data = pa.array([b"" if v is None else v for v in values], pa.binary())
        case t.FloatType():
            dtype = np.float32 if kind.bits == 32 else np.float64
            data = np.array([0 if v is None else v for v in values], dtype)
        case t.BooleanType():
            data = np.array([bool(v) for v in values], np.bool_)
        case _:
            numbers = [0 if v is None else unscaled(kind, v) for v in values]
            if all(-(1 << 63) <= x < 1 << 63 for x in numbers):
                data = np.array(numbers, np.int64)
            else:
                low = np.array([x & WORD for x in numbers], np.uint64).view(np.int64)
                data = np.stack([low, np.array([x >> 64 for x in numbers], np.int64)], axis=1)
    if isinstance(data, np.ndarray):
        data.flags.writeable = False
    return Column(kind, data, mask)


def unscaled(kind: t.SqlType, value: Any) -> int:
    match kind:
        case t.DecimalType():
            return int(value.scaleb(kind.scale, EXACT))
        case t.DateType():
            return (value - EPOCH.date()).days
        case t.TimestampType():
            return (value - EPOCH) // MICRO
        case _:
            return int(value)


def python_values(column: Column) -> list[Any]:
    """The inverse of `column_of`."""
    values: Any = column.values
    if column.wide:
        raw = [(int(h) << 64) | (int(x) & WORD) for x, h in values]
    else:
        raw = values.tolist() if isinstance(values, np.ndarray) else values.to_pylist()
    match column.type:
        case t.DecimalType(scale=scale):
            raw = [Decimal(x).scaleb(-scale, EXACT) for x in raw]
        case t.DateType():
            raw = [EPOCH.date() + datetime.timedelta(x) for x in raw]
        case t.TimestampType():
            raw = [moment(x) for x in raw]
        case _:
            pass
    if column.valid is None:
        return raw
    return [v if ok else None for v, ok in zip(raw, column.valid, strict=True)]


def moment(micros: int) -> Any:
    """A datetime, or the bare number beyond Python's years."""
    try:
        return EPOCH + micros * MICRO
    except OverflowError:
        return micros


def evaluate(
    expr: e.Expr, columns: list[Column], n: int | None = None
) -> list[Any | tuple[str, str]]:
    """Per row its value, or ("error", class)."""
    rows = len(columns[0]) if n is None else n
    column, errors = scalar.compile(expr).evaluate(columns.__getitem__, rows)
    assert len(column) == rows
    assert column.type == expr.type
    if errors is not None:
        assert errors.mask.any()
        safe = np.array(column.valid if column.valid is not None else np.ones(rows, np.bool_))
        safe[errors.mask] = False
        column = Column(column.type, column.values, safe)
    out = python_values(_harmless(column))
    if errors is not None:
        for i in np.flatnonzero(errors.mask):
            message = errors.message(int(i))
            assert message is not None
            out[i] = ("error", message[1 : message.index("]")])
    return out


def _harmless(column: Column) -> Column:
    """Zeros on rows without a value, so that Python's smaller date range takes them."""
    if column.valid is None or not isinstance(column.values, np.ndarray):
        return column
    keep = column.valid[:, None] if column.wide else column.valid
    zero = np.zeros((), column.values.dtype)
    return Column(column.type, np.where(keep, column.values, zero), column.valid)


def same(left: Any, right: Any, loose: bool = False) -> bool:
    """Equal, NaN with itself, zeros with their sign."""
    if isinstance(left, float) and isinstance(right, float):
        if math.isnan(left) or math.isnan(right):
            return math.isnan(left) and math.isnan(right)
        if loose:
            return math.isclose(left, right, rel_tol=1e-14)
        return left == right and math.copysign(1, left) == math.copysign(1, right)
    return type(left) is type(right) and bool(left == right)


# ------------------------------------------------------------------------------------ strategies

TEXTS = (
    "", " ", "a", "b", "ab", "abc", "PROMO BRUSHED", "é", "ßx", "日本語", "😀a", "a%b", "a_b", "1",
    "-7", " 12 ", "1.5", "1e3", "abc.", "NaN", "inf", "true", "F", "2020-02-29",
    "1999-1-1", "2020-13-01",
    "2021-06-30 12:34:56.789", "9223372036854775808", "0.005", "x\ny", "Straße", "ΑΣ",
)  # fmt: skip
DOUBLES = (
    0.0, -0.0, 1.0, -1.0, 0.5, 2.5, -2.5, 1.005, 0.1, 1e10, 1e-10, 1e22, 9.3e18, -9.3e18, 1e300,
    5e-324, math.inf, -math.inf, math.nan, 127.9, -129.0, 2147483648.0, 16777217.0,
)  # fmt: skip
DATES = tuple(
    datetime.date.fromisoformat(s)
    for s in "1970-01-01 2000-02-29 1900-02-28 2024-12-31 2021-01-03 1969-12-31 0004-02-29".split()
)


def values(kind: t.SqlType) -> st.SearchStrategy[Any]:
    """Values of a type, extremes among them; never None."""
    match kind:
        case t.BooleanType():
            return st.booleans()
        case t.IntegerType():
            ends = (kind.min, kind.min + 1, -1, 0, 1, 2, kind.max - 1, kind.max)
            return st.one_of(
                st.sampled_from(ends), st.integers(-50, 50), st.integers(kind.min, kind.max)
            )
        case t.FloatType(bits=bits):
            exact = [float(np.float32(x)) for x in DOUBLES if abs(x) < 1e38 or not math.isfinite(x)]
            fixed = st.sampled_from(exact if bits == 32 else DOUBLES)
            return st.one_of(fixed, st.floats(width=bits), st.integers(-99, 99).map(float))
        case t.DecimalType():
            top = 10**kind.precision - 1
            ends = st.sampled_from([0, 1, -1, top, -top, min(top, 5 * 10**kind.scale // 10)])
            ints = st.one_of(
                ends, st.integers(-min(top, 999), min(top, 999)), st.integers(-top, top)
            )
            return ints.map(lambda x: Decimal(x).scaleb(-kind.scale, EXACT))
        case t.StringType():
            return st.one_of(st.sampled_from(TEXTS), st.text("aAbé日😀 %_1.", max_size=6))
        case t.DateType():
            low, high = datetime.date(1000, 1, 1), datetime.date(8999, 12, 31)
            return st.one_of(st.sampled_from(DATES), st.dates(low, high))
        case t.TimestampType():
            low, high = datetime.datetime(1000, 1, 1), datetime.datetime(8999, 12, 31)
            whole = st.datetimes(low, high).map(lambda d: d.replace(microsecond=0))
            return st.one_of(st.datetimes(low, high), whole)
        case _:
            raise TypeError(kind)


def columns(
    kinds: tuple[t.SqlType, ...], rows: st.SearchStrategy[int] | None = None
) -> st.SearchStrategy[list[list[Any]]]:
    """For each type a list of values with NULLs, all of one length."""

    def of_length(n: int) -> st.SearchStrategy[list[list[Any]]]:
        lists = []
        for kind in kinds:
            some = st.lists(values(kind), min_size=n, max_size=n)
            nulls = st.lists(st.one_of(st.none(), values(kind)), min_size=n, max_size=n)
            lists.append(st.one_of(some, nulls))
        return st.tuples(*lists).map(list)

    return (rows or st.integers(1, 5)).flatmap(of_length)


# ----------------------------------------------------------------------------------- expressions


def col(index: int, kind: t.SqlType) -> e.Column:
    return e.column(index, kind)


def lit(value: Any, kind: t.SqlType) -> e.Literal:
    if isinstance(kind, t.TimestampType) and isinstance(value, datetime.datetime):
        value = (value - EPOCH) // MICRO
    return e.Literal(value, kind)


def call(function: str, *args: e.Expr, type: t.SqlType) -> e.Call:
    return e.Call(function, args, type, True)


def decimal_result(function: str, a: t.DecimalType, b: t.DecimalType) -> t.DecimalType:
    """Spark's result types (DecimalPrecision)."""
    integral = max(a.precision - a.scale, b.precision - b.scale)
    match function:
        case "add" | "subtract":
            scale = max(a.scale, b.scale)
            return t.adjusted_decimal(integral + scale + 1, scale)
        case "multiply":
            return t.adjusted_decimal(a.precision + b.precision + 1, a.scale + b.scale)
        case "divide":
            scale = max(6, a.scale + b.precision + 1)
            return t.adjusted_decimal(a.precision - a.scale + b.scale + scale, scale)
        case _:
            scale = max(a.scale, b.scale)
            least = min(a.precision - a.scale, b.precision - b.scale)
            return t.adjusted_decimal(least + scale, scale)
