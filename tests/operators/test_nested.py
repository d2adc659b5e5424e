"""Nested values as bytes: there and back, equal and ordered as the values are, on random ones."""

from __future__ import annotations

import datetime
import functools
import math
import struct
from decimal import Context, Decimal
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from operators.flight import nested
from operators.flight.arrow import arrow_type, from_column, to_column
from operators.flight.rows import ColumnReader
from planner.calculus import types as t
from planner.errors import DataError

WIDE = t.DecimalType(38, 2)
PAIR = t.StructType((t.Field("x", t.INT), t.Field("y", t.STRING)))
KINDS: tuple[t.SqlType, ...] = (
    t.ArrayType(t.BIGINT),
    t.ArrayType(t.BOOLEAN),
    t.ArrayType(t.DOUBLE),
    t.ArrayType(t.FLOAT),
    t.ArrayType(t.STRING),
    t.ArrayType(t.BINARY),
    t.ArrayType(t.DATE),
    t.ArrayType(t.DecimalType(9, 2)),
    t.ArrayType(WIDE),
    t.ArrayType(t.ArrayType(t.INT)),
    t.ArrayType(PAIR),
    PAIR,
    t.StructType((t.Field("a", t.ArrayType(t.STRING)), t.Field("p", PAIR), t.Field("z", t.INT))),
    t.MapType(t.STRING, t.ArrayType(t.INT)),
)
_LEAVES: dict[t.SqlType, tuple[Any, ...]] = {
    t.INT: (-(2**31), -1, 0, 1, 2**31 - 1),
    t.BIGINT: (-(2**63), -1, 0, 1, 255, 256, 2**63 - 1),
    t.BOOLEAN: (False, True),
    t.DOUBLE: (-math.inf, -1.5, 0.0, 5e-324, 2.25, math.inf),
    t.FLOAT: (-math.inf, -1.5, 0.0, 2.25, math.inf),
    t.STRING: ("", "\0", "\0a", "a", "a\0", "a\0b", "ab", "é", "\U0010ffff"),
    t.BINARY: (b"", b"\0", b"\0\0", b"\0\xff", b"\xff", b"a"),
    t.DATE: (datetime.date(1, 1, 1), datetime.date(1969, 12, 31), datetime.date(9999, 12, 31)),
    t.DecimalType(9, 2): (Decimal("-9999999.99"), Decimal("0.00"), Decimal("0.01")),
    WIDE: (
        Decimal("-123456789012345678901234567890123456.78"),
        Decimal("0.00"),
        Decimal("12345678901234567890.25"),
    ),
}


def value(rng: Random, kind: t.SqlType) -> Any:
    if rng.random() < 0.15:
        return None
    match kind:
        case t.ArrayType(element=element):
            return [value(rng, element) for _ in range(rng.choice((0, 1, 2, 3)))]
        case t.StructType(fields=fields):
            return {f.name: value(rng, f.type) for f in fields}
        case t.MapType(key=key, value=inner):
            keys = rng.sample(_LEAVES[key], rng.choice((0, 1, 2)))
            return [(k, value(rng, inner)) for k in keys]
        case _:
            return rng.choice(_LEAVES[kind])


def encoded(kind: t.SqlType, given: Any) -> bytes:
    """The twin: one value, not NULL, in the plainest words."""
    match kind:
        case t.ArrayType(element=element):
            return b"".join(marked(element, v) for v in given) + b"\0"
        case t.MapType(key=key, value=inner):
            return b"".join(b"\2" + marked(key, k) + marked(inner, v) for k, v in given) + b"\0"
        case t.StructType(fields=fields):
            return b"".join(marked(f.type, given[f.name]) for f in fields)
        case t.StringType():
            return given.encode().replace(b"\0", b"\0\xff") + b"\0\0"
        case t.BinaryType():
            return bytes(given).replace(b"\0", b"\0\xff") + b"\0\0"
        case t.BooleanType():
            return b"\1" if given else b"\0"
        case t.FloatType():
            (bits,) = struct.unpack(">q", struct.pack(">d", given))
            number = bits if bits >= 0 else bits ^ (2**63 - 1)
        case t.DateType():
            number = given.toordinal() - datetime.date(1970, 1, 1).toordinal()
        case t.DecimalType(scale=scale):
            number = int(given.scaleb(scale, Context(prec=60)))
        case _:
            number = given
    width = 16 if kind == WIDE else 8
    shifted: bytes = (number + (1 << 8 * width - 1)).to_bytes(width, "big")
    return shifted


def marked(kind: t.SqlType, given: Any) -> bytes:
    return b"\1" if given is None else b"\2" + encoded(kind, given)


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_there_and_back(kind: t.SqlType) -> None:
    rng = Random(str(kind))
    field = t.Field("c", kind)
    values = [value(rng, kind) for _ in range(200)]
    array = pa.array(values, arrow_type(kind))
    column = to_column(array, field)
    for made in (column, ColumnReader(field).column(values)):
        there = [v for v in zip(made.values.to_pylist(), values, strict=True) if v[1] is not None]
        assert all(data == encoded(kind, v) for data, v in there)
        assert from_column(made, kind).to_pylist() == array.to_pylist()
    some = array.slice(37, 90)
    assert from_column(to_column(some, field), kind).to_pylist() == some.to_pylist()
    rows = np.array([rng.randrange(200) for _ in range(50)])
    assert from_column(column.take(rows), kind).to_pylist() == [
        array.to_pylist()[i] for i in rows.tolist()
    ]


@pytest.mark.parametrize("kind", [k for k in KINDS if not t.holds(k, t.MapType)], ids=str)
def test_bytes_are_ordered_as_values(kind: t.SqlType) -> None:
    rng = Random(7)
    values = [v for v in (value(rng, kind) for _ in range(150)) if v is not None]
    column = ColumnReader(t.Field("c", kind)).column(values)
    order = functools.cmp_to_key(lambda a, b: compared(kind, a, b))
    by_bytes = [
        v
        for _, v in sorted(
            zip(column.values.to_pylist(), values, strict=True), key=lambda pair: pair[0]
        )
    ]
    assert list(map(order, by_bytes)) == sorted(map(order, values))


def compared(kind: t.SqlType, a: Any, b: Any) -> int:
    """Below, equal or above: NULL first, then by parts, the shorter array first."""
    if a is None or b is None:
        return (a is not None) - (b is not None)
    match kind:
        case t.ArrayType(element=element):
            for x, y in zip(a, b, strict=False):
                if (found := compared(element, x, y)) != 0:
                    return found
            return (len(a) > len(b)) - (len(a) < len(b))
        case t.StructType(fields=fields):
            for f in fields:
                if (found := compared(f.type, a[f.name], b[f.name])) != 0:
                    return found
            return 0
        case t.StringType():
            return compared(t.BINARY, a.encode(), b.encode())
        case _:
            return (a > b) - (a < b)


def test_zeros_and_nan_have_one_form() -> None:
    kind = t.ArrayType(t.DOUBLE)
    column = ColumnReader(t.Field("c", kind)).column([[0.0, math.nan], [-0.0, -math.nan]])
    assert column.values[0] == column.values[1]
    found = nested.lists(column)
    assert found.offsets.tolist() == [0, 2, 4]
    assert str(nested.values(t.DOUBLE, found.pieces).values.tolist()) == "[0.0, nan, 0.0, nan]"


@pytest.mark.parametrize(
    ("kind", "given", "says"),
    [
        (t.ArrayType(t.INT), [[1], ["x"]], "row 1"),
        (t.ArrayType(t.INT), [[1], [2, 2**31]], "INT"),
        (t.ArrayType(t.INT), [5], "takes a list"),
        (PAIR, [{"x": 1}], "a dict or a tuple"),
        (t.MapType(t.STRING, t.INT), [{"a": 1}, [("a", 1), ("a", 2)]], "a key twice"),
        (t.MapType(t.STRING, t.INT), [[(None, 1)]], "NOT NULL"),
    ],
)
def test_what_does_not_fit_is_said(kind: t.SqlType, given: Any, says: str) -> None:
    with pytest.raises(DataError) as caught:
        ColumnReader(t.Field("c", kind)).column(given)
    assert says in str(caught.value)
