"""Arrow in and out: what is shared, what is converted, what is refused and how."""

# ruff: noqa: E501 - messages as a user sees them

from __future__ import annotations

import datetime
import weakref
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.flight import arrow
from operators.flight.arrow import (
    arrow_schema,
    from_column,
    from_columns,
    sql_type,
    to_column,
    to_columns,
)
from operators.flight.column import Column
from planner.calculus import types as t
from planner.errors import DataError
from tests.operators.scalar_cases import TYPES, D, column_of, columns, python_values, same

KINDS = (*TYPES, t.BINARY)


def field(kind: t.SqlType, nullable: bool = True) -> t.Field:
    return t.Field("x", kind, nullable)


@given(st.data())
@pytest.mark.parametrize("kind", TYPES, ids=str)
def test_round_trip(kind: t.SqlType, data: st.DataObject) -> None:
    (drawn,) = data.draw(columns((kind,)))
    array = from_column(column_of(kind, drawn), kind)
    array.validate(full=True)
    assert array.null_count == sum(v is None for v in drawn)
    cut = data.draw(st.integers(0, len(drawn)))
    for part, wanted in ((array, drawn), (array[cut:], drawn[cut:]), (array[:cut], drawn[:cut])):
        back = to_column(part, field(kind))
        assert all(map(same, python_values(back), wanted))
    chunked = pa.chunked_array([array[:cut], array[cut:]], array.type)
    assert all(map(same, python_values(to_column(chunked, field(kind))), drawn))


def test_buffers_are_shared() -> None:
    longs = pa.array(np.arange(10))
    column = to_column(longs, field(t.BIGINT))
    assert isinstance(column.values, np.ndarray)
    assert column.values.ctypes.data == longs.buffers()[1].address
    assert from_column(column, t.BIGINT).buffers()[1].address == longs.buffers()[1].address
    texts = pa.array(["a", "b"])
    assert to_column(texts, field(t.STRING)).values is texts
    wide = pa.array([Decimal(10**30), Decimal(1)], pa.decimal128(38, 0))
    words = to_column(wide, field(D(38, 0)))
    assert words.wide
    assert words.values.ctypes.data == wide.buffers()[1].address  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("array", "kind", "wanted"),
    [
        (pa.array([1, None], pa.int32()), t.BIGINT, [1, None]),
        (pa.array([1, 2], pa.uint64()), t.BIGINT, [1, 2]),
        (pa.array([127], pa.int64()), t.TINYINT, [127]),
        (pa.array(["a", None]).cast(pa.string_view()), t.STRING, ["a", None]),
        (pa.array(["a"], pa.large_string()), t.STRING, ["a"]),
        (pa.array(["a", None, "a"]).dictionary_encode(), t.STRING, ["a", None, "a"]),
        (pa.array([b"ab"], pa.binary(2)), t.BINARY, [b"ab"]),
        (pa.array([Decimal("1.50")], pa.decimal128(5, 2)), D(15, 2), [Decimal("1.50")]),
        (pa.array([Decimal("1.5")], pa.decimal128(38, 1)), D(15, 2), [Decimal("1.50")]),
        (pa.array([Decimal("1.5")], pa.decimal256(50, 1)), D(15, 2), [Decimal("1.50")]),
        (pa.array([7, None], pa.int64()), D(15, 2), [Decimal("7.00"), None]),
        (pa.array([1.5], pa.float32()), t.DOUBLE, [1.5]),
        (
            pa.array([1], pa.timestamp("s", "UTC")),
            t.TIMESTAMP,
            [datetime.datetime(1970, 1, 1, 0, 0, 1)],
        ),
        (
            pa.array([1000], pa.timestamp("ns")),
            t.TIMESTAMP_NTZ,
            [datetime.datetime(1970, 1, 1, 0, 0, 0, 1)],
        ),
        (pa.array([86_400_000], pa.date64()), t.DATE, [datetime.date(1970, 1, 2)]),
        (pa.nulls(2), t.DATE, [None, None]),
        (pa.array([], pa.string()), t.STRING, []),
    ],
)
def test_lossless_conversions(array: pa.Array, kind: t.SqlType, wanted: list[Any]) -> None:
    assert python_values(to_column(array, field(kind))) == wanted


@pytest.mark.parametrize(
    ("array", "kind", "message"),
    [
        (pa.array([1, 128]), t.TINYINT, 'value out of range for column "x" of type TINYINT\nDetail: Row 1 of the data has 128 of type int64.'),
        (pa.array([2**63], pa.uint64()), t.BIGINT, 'value out of range for column "x" of type BIGINT\nDetail: Row 0 of the data has 9223372036854775808 of type uint64.'),
        (pa.array([1.0]), t.BIGINT, "column \"x\" is BIGINT, but the data has double\nDetail: Not every value of that type is one of the column's.\nHint: Pass cast=True, which converts where nothing is lost; or convert it first, as it is meant: column.cast(pa.int64())."),
        (pa.array([1.0]), t.FLOAT, "column \"x\" is FLOAT, but the data has double\nDetail: Not every value of that type is one of the column's.\nHint: Pass cast=True, which converts where nothing is lost; or convert it first, as it is meant: column.cast(pa.float32())."),
        (pa.array(["2020-01-01"]), t.DATE, "column \"x\" is DATE, but the data has string\nDetail: Not every value of that type is one of the column's.\nHint: Pass cast=True, which converts where nothing is lost; or convert it first, as it is meant: column.cast(pa.date32())."),
        (pa.array([[1]]), t.INT, 'column "x" is INT, but the data has list<item: int64>\nDetail: A column of this type holds one plain value a row.\nHint: Take its fields, or flatten it, first.'),
        (pa.array([Decimal("1.005")]), D(9, 2), "column \"x\" is DECIMAL(9,2), but the data has decimal128(4, 3)\nDetail: Not every value of that type is one of the column's.\nHint: Pass cast=True, which converts where nothing is lost; or convert it first, as it is meant: column.cast(pa.decimal128(9, 2))."),
        (pa.array([Decimal("1234.5"), Decimal("12345.6")]), D(5, 1), 'value out of range for column "x" of type DECIMAL(5,1)\nDetail: Row 1 of the data has 12345.6 of type decimal128(6, 1).'),
        (pa.array([1001], pa.timestamp("ns", "UTC")), t.TIMESTAMP, 'column "x" is TIMESTAMP, which cannot hold a value of timestamp[ns, tz=UTC]\nDetail: Row 0 of the data would lose a part of timestamp[ns, tz=UTC].'),
        (pa.array([1], pa.timestamp("us", "UTC")), t.TIMESTAMP_NTZ, 'column "x" is TIMESTAMP_NTZ, but the data has timestamp[us, tz=UTC]\nDetail: An instant has no time of day until a zone is named.\nHint: Name one: pyarrow.compute.local_timestamp(column), of a column in that zone.'),
        (pa.array([2**62], pa.timestamp("s")), t.TIMESTAMP_NTZ, 'value out of range for column "x" of type TIMESTAMP_NTZ\nDetail: Row 0 of the data is beyond 64 bits of microseconds.'),
    ],
)  # fmt: skip
def test_refused(array: pa.Array, kind: t.SqlType, message: str) -> None:
    with pytest.raises(DataError) as raised:
        to_column(array, field(kind))
    assert str(raised.value) == message


def test_null_in_not_null_column() -> None:
    with pytest.raises(DataError) as raised:
        to_column(pa.array([1, None, None]), field(t.BIGINT, nullable=False))
    assert str(raised.value) == (
        'NULL in column "x", which is NOT NULL\nDetail: Row 1 of the data has it first.\n'
        "Hint: Fill in a value, or leave such rows out."
    )


def test_columns_are_found_by_name() -> None:
    schema = (t.Field("a", t.BIGINT), t.Field("b", t.STRING))
    table = pa.table({"B": ["x"], "A": [1]})
    assert [python_values(c) for c in to_columns(table, schema)] == [[1], ["x"]]
    batch = table.to_batches()[0]
    assert [python_values(c) for c in to_columns(batch, schema)] == [[1], ["x"]]
    twice = (t.Field("a", t.BIGINT), t.Field("a", t.BIGINT))
    pairs = pa.Table.from_arrays([pa.array([1]), pa.array([2])], ["a", "a"])
    assert [python_values(c) for c in to_columns(pairs, twice)] == [[1], [2]]
    for data, message in (
        (pa.table({"a": [1]}), 'the data lacks column "b"'),
        (table.append_column("c", pa.array([1])), 'the data has column "c", which the table lacks'),
        (
            pa.Table.from_arrays([pa.array([1])] * 2 + [pa.array(["x"])], ["a", "A", "b"]),
            'the data has column "A" twice',
        ),
    ):
        with pytest.raises(DataError) as raised:
            to_columns(data, schema)
        assert raised.value.message == message


def test_schemas() -> None:
    schema = tuple(t.Field(f"c{i}", kind, i % 2 == 0) for i, kind in enumerate(KINDS))
    arrow = arrow_schema(schema)
    assert [sql_type(f.type) for f in arrow] == list(KINDS)
    assert [f.nullable for f in arrow] == [f.nullable for f in schema]
    assert sql_type(pa.uint64()) == D(20, 0)
    assert sql_type(pa.uint8()) == t.SMALLINT
    assert sql_type(pa.dictionary(pa.int8(), pa.string_view())) == t.STRING
    with pytest.raises(DataError):
        sql_type(pa.list_(pa.time32("s")))
    assert sql_type(pa.list_(pa.int8())) == t.ArrayType(t.TINYINT)
    table = from_columns([Column(k, column_of(k, []).values) for k in KINDS], schema)
    assert table.schema == arrow
    assert table.num_rows == 0


_FORMS: list[tuple[pa.DataType, t.SqlType, tuple[Any, ...]]] = [
    (pa.int8(), t.BIGINT, (-128, -1, 0, 127)),
    (pa.int16(), t.INT, (-(2**15), -1, 0, 2**15 - 1)),
    (pa.int32(), t.INT, (-(2**31), -1, 0, 2**31 - 1)),
    (pa.int64(), t.BIGINT, (-(2**63), -1, 0, 2**63 - 1)),
    (pa.uint8(), t.INT, (0, 127, 128, 255)),
    (pa.uint16(), t.INT, (0, 2**15 - 1, 2**15, 2**16 - 1)),
    (pa.uint32(), t.BIGINT, (0, 2**31 - 1, 2**31, 2**32 - 1)),
    (
        pa.date32(),
        t.DATE,
        (datetime.date(1, 1, 1), datetime.date(1970, 1, 1), datetime.date(9999, 12, 31)),
    ),
    (pa.decimal128(9, 2), t.DecimalType(9, 2), (Decimal("-9999999.99"), Decimal("0.01"))),
    (pa.string(), t.STRING, ("", "a", "twenty bytes of text")),
    (pa.string(), t.STRING, ("", "é", "€uro")),
    (pa.float64(), t.DOUBLE, (-0.5, 0.0, 1e300)),
]


@given(st.data())
def test_few_rows_are_taken_as_many_are(data: st.DataObject) -> None:
    """Of each type, NULLs or none, as slices, in one piece or several, in tables and batches."""
    n = data.draw(st.integers(0, 9))
    arrays = [
        pa.array([data.draw(st.sampled_from((*values, *nulls))) for _ in range(n)], kind)
        for kind, _, values in _FORMS
        for nulls in [data.draw(st.sampled_from(((), (None,))))]
    ]
    names = [f"c{i}" for i in range(len(arrays))]
    table = pa.Table.from_arrays(arrays, names).slice(data.draw(st.integers(0, 3)))
    if data.draw(st.booleans()):
        table = pa.concat_tables([table, table])
    if data.draw(st.booleans()) and len(table.to_batches()) == 1:
        table = table.to_batches()[0]
    kinds = [kind for _, kind, _ in _FORMS]
    fields = tuple(t.Field(name, kind) for name, kind in zip(names, kinds, strict=True))
    with pytest.MonkeyPatch.context() as patch:
        taken = []
        for most in (arrow._FEW_ROWS, 0):
            patch.setattr(arrow, "_FEW_ROWS", most)
            taken.append(to_columns(table, fields))
    few, many = (from_columns(columns, fields) for columns in taken)
    assert few.equals(many)
    assert few.num_rows == table.num_rows


def test_few_rows_let_the_batch_go() -> None:
    held = weakref.ref(batch := pa.record_batch({"c": pa.array([1, 2], pa.int64())}))
    before = pa.total_allocated_bytes()
    columns = to_columns(batch, (t.Field("c", t.BIGINT),))
    del batch
    assert held() is None
    assert pa.total_allocated_bytes() < before
    assert columns[0].values.tolist() == [1, 2]
