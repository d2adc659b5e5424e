"""Rows of Python values: what is taken, what is refused and how; all as it is through Arrow."""

from __future__ import annotations

import dataclasses
import datetime
from collections import namedtuple
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.flight import rows as row_values
from operators.flight.arrow import to_columns
from operators.flight.column import Column, Unread
from operators.flight.rows import RowReader
from planner.calculus import types as t
from planner.errors import DataError
from tests.operators.scalar_cases import MONEY, TYPES, WIDE, D, columns, python_values, same
from tests.reference.rows import rows_to_table

KINDS = (*TYPES, t.BINARY)


def field(kind: t.SqlType, nullable: bool = True) -> t.Field:
    return t.Field("x", kind, nullable)


@pytest.mark.parametrize(
    ("rows", "kind", "message"),
    [
        ([("1",)], t.INT, "column \"x\" is INT, but row 0 has '1'"),
        ([(1,), (2**31,)], t.INT, 'column "x" is INT, but row 1 has 2147483648'),
        ([(True,)], t.INT, 'column "x" is INT, but row 0 has True'),
        ([(1,)], t.STRING, 'column "x" is STRING, but row 0 has 1'),
        ([(1.5,)], D(9, 2), 'column "x" is DECIMAL(9,2), but row 0 has 1.5'),
        (
            [(Decimal("1.005"),)],
            D(9, 2),
            "column \"x\" is DECIMAL(9,2), but row 0 has Decimal('1.005')",
        ),
        ([(10**7,)], D(9, 2), 'column "x" is DECIMAL(9,2), but row 0 has 10000000'),
        (
            [(Decimal("NaN"),)],
            D(9, 2),
            "column \"x\" is DECIMAL(9,2), but row 0 has Decimal('NaN')",
        ),
        ([("2020-01-01",)], t.DATE, "column \"x\" is DATE, but row 0 has '2020-01-01'"),
        ([(2**53 + 1,)], t.DOUBLE, 'column "x" is DOUBLE, but row 0 has 9007199254740993'),
        ([()], t.INT, "row 0 has 0 values, but there are 1 columns"),
        ([{"y": 1}], t.INT, "the data does not fit for 2 reasons"),
        ([{"x": 1, "y": 1}], t.INT, 'row 0 has an unknown column "y"'),
        ([{}], t.INT, 'row 0 has no value for column "x"'),
        ([5], t.INT, "row 0 is neither a tuple nor a dict"),
    ],
)
def test_rows_refused(rows: Any, kind: t.SqlType, message: str) -> None:
    with pytest.raises(DataError) as raised:
        RowReader((field(kind),)).columns(rows)
    assert raised.value.message == message


def test_friendly_rows() -> None:
    schema = (field(D(9, 2)), t.Field("d", t.DOUBLE), t.Field("t", t.TIMESTAMP))
    zone = datetime.timezone(datetime.timedelta(hours=2))
    rows = [
        (3, 2, datetime.datetime(2020, 1, 1, 2, tzinfo=zone)),
        (np.int64(4), np.float64(0.5), None),
        (Decimal("5.5"), 1, pd.Timestamp("2020-01-01")),
        (pd.NA, None, pd.NaT),
    ]
    assert [python_values(c) for c in RowReader(schema).columns(rows)] == [
        [Decimal("3.00"), Decimal("4.00"), Decimal("5.50"), None],
        [2.0, 0.5, 1.0, None],
        [datetime.datetime(2020, 1, 1), None, datetime.datetime(2020, 1, 1), None],
    ]


# -------------------------------------------------------------------------- the same as by Arrow


@given(st.data())
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_rows_are_what_arrow_makes_of_them(kind: t.SqlType, data: st.DataObject) -> None:
    """Columns equal in type, layout, values and NULLs to those that come through Arrow."""
    if kind == t.BINARY:
        drawn: Any = data.draw(st.lists(st.none() | st.binary(max_size=3), max_size=8))
    else:
        (drawn,) = data.draw(columns((kind,)))
    schema = (field(kind), t.Field("n", t.INT))
    reader = RowReader(schema)
    direct = reader.columns([(v, i) for i, v in enumerate(drawn)])
    _equal(direct, to_columns(rows_to_table([(v, i) for i, v in enumerate(drawn)], schema), schema))
    _equal(reader.columns({"N": i, "x": v} for i, v in enumerate(drawn)), direct)
    assert all(map(same, python_values(direct[0]), drawn))


#: Values of any kind, at the edges of the types and beyond.
_ANY = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.sampled_from(
        [s * 2**b + d for b in (7, 15, 31, 53, 63) for s in (1, -1) for d in (-1, 0, 1)]
    ),
    st.floats(),
    st.decimals(allow_nan=True, allow_infinity=True),
    st.decimals(-1000, 1000, places=2),
    st.sampled_from([Decimal("1E+30"), Decimal("1E-30"), Decimal("-0"), Decimal("sNaN"), 10**38]),
    st.text(max_size=3),
    st.binary(max_size=3),
    st.dates(),
    st.datetimes(),
    st.datetimes(timezones=st.just(datetime.timezone.utc)),
    st.timedeltas(),
    st.builds(np.int64, st.integers(-(2**63), 2**63 - 1)),
    st.builds(np.float32, st.floats(width=32)),
    st.just(np.bool_(True)),
    st.builds(list),
)


@given(st.lists(_ANY, min_size=1, max_size=4))
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_what_arrow_refuses_is_refused(kind: t.SqlType, values: list[Any]) -> None:
    schema = (field(kind),)
    rows = [(v,) for v in values]
    got, wanted = (
        _outcome(make)
        for make in (
            lambda: RowReader(schema).columns(rows),
            lambda: to_columns(rows_to_table(rows, schema), schema),
        )
    )
    if isinstance(wanted, str):
        assert got == wanted
    else:
        assert not isinstance(got, str), got
        _equal(got, wanted)


def _outcome(make: Callable[[], list[Column]]) -> list[Column] | str:
    """The columns, or the message of the refusal."""
    try:
        with np.errstate(over="ignore"):
            return make()
    except DataError as error:
        return error.message


def _equal(left: list[Column], right: list[Column]) -> None:
    for a, b in zip(left, right, strict=True):
        assert a.type == b.type and a.wide == b.wide and len(a) == len(b)
        assert (a.valid is None) == (b.valid is None)
        if a.valid is not None:
            assert np.array_equal(a.valid, b.valid)
        values = [c.values for c in (a, b)]
        if isinstance(values[0], np.ndarray):
            assert values[0].dtype == values[1].dtype
            assert np.array_equal(*values, equal_nan=values[0].dtype.kind == "f")
        else:
            assert values[0].equals(values[1])


# ------------------------------------------------------------------------------------ what rows are

PAIR = (t.Field("a", t.INT, False), t.Field("b", t.STRING))
Pair = namedtuple("Pair", ["b", "a"])


@dataclasses.dataclass
class Record:
    B: str | None
    a: int


@pytest.mark.parametrize(
    "row",
    [(1, "x"), [1, "x"], {"b": "x", "a": 1}, {"B": "x", "A": 1}, Pair("x", 1), Record("x", 1)],
    ids=str,
)
def test_rows_have_an_order_or_names(row: Any) -> None:
    for rows in ([row], iter([row]), (r for r in (row,)), (row,)):
        assert [python_values(c) for c in RowReader(PAIR).columns(rows)] == [[1], ["x"]]


def test_spark_rows_have_names() -> None:
    from pyspark.sql import Row

    rows = [Row(b="x", a=1), Row(a=2, b=None)]
    assert [python_values(c) for c in RowReader(PAIR).columns(rows)] == [[1, 2], ["x", None]]


def test_rows_are_taken_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_values, "PIECE_ROWS", 3)
    rows = [(i, None if i % 4 == 0 else str(i)) for i in range(10)]
    for given_rows in (rows, iter(rows)):
        got = [python_values(c) for c in RowReader(PAIR).columns(given_rows)]
        assert got == [list(column) for column in zip(*rows, strict=True)]
    with pytest.raises(DataError) as caught:
        RowReader(PAIR).columns((i if i < 7 else None, 5 if i > 7 else "x") for i in range(10))
    assert 'NULL in column "a"' in str(caught.value) and "Row 7" in str(caught.value)
    with pytest.raises(DataError, match="row 8 has 1 values"):
        RowReader(PAIR).columns((1, "x")[: 2 - (i == 8)] for i in range(10))


def test_keys_are_cut_from_whole_rows() -> None:
    reader = RowReader(PAIR[:1], PAIR)
    rows = [(1,), (2, "x"), {"a": 3}, {"A": 4, "b": 5, "more": 6}, Pair("x", 5), Record("x", 6)]
    assert [python_values(c) for c in reader.columns(rows)] == [[1, 2, 3, 4, 5, 6]]
    with pytest.raises(DataError, match='row 0 has no value for column "a"'):
        reader.columns([{"b": "x"}])


def test_all_columns_are_named_at_once() -> None:
    schema = (*PAIR, t.Field("d", t.DATE), t.Field("n", t.TINYINT))
    with pytest.raises(DataError) as caught:
        RowReader(schema).columns([(1, "x", "2020-01-01", 1), (None, 5, None, 300)])
    assert str(caught.value) == (
        "the data does not fit for 4 reasons\n"
        'Detail: NULL in column "a", which is NOT NULL. Row 1 of the data has it first.\n'
        '  Column "b" is STRING, but row 1 has 5. That is a Python int, and a column of type STRING'
        " takes str.\n"
        "  Column \"d\" is DATE, but row 0 has '2020-01-01'. That is a Python str, and a column of"
        " type DATE takes datetime.date.\n"
        '  Column "n" is TINYINT, but row 1 has 300. A column of type TINYINT holds -128 to 127.\n'
        "Hint: Fill in a value, or leave such rows out.\n"
        "  Convert it: str(value).\n"
        "  Convert it: datetime.date.fromisoformat(value); or pass cast=True, which reads text.\n"
        "  Declare the column with a wider type, BIGINT or DECIMAL."
    )
    with pytest.raises(DataError) as caught:
        RowReader(schema).columns([{"a": 1, "b": "x", "day": None, "m": 5}])
    assert 'unknown columns "day", "m"' in str(caught.value)
    assert 'no value for columns "d", "n"' in str(caught.value)


def test_extremes_of_time() -> None:
    zone = datetime.timezone(datetime.timedelta(hours=14))
    moments = [
        datetime.datetime.min,
        datetime.datetime.max,
        datetime.datetime.min.replace(tzinfo=zone),
    ]
    (column,) = RowReader((field(t.TIMESTAMP),)).columns([(m,) for m in moments])
    micros = [(m.replace(tzinfo=None) - datetime.datetime(1970, 1, 1)) for m in moments]
    wanted = [m // datetime.timedelta(microseconds=1) for m in micros]
    wanted[2] -= 14 * 3600 * 1_000_000
    assert column.values.tolist() == wanted
    with pytest.raises(DataError, match="finer") as caught:
        RowReader((field(t.TIMESTAMP),)).columns([(pd.Timestamp(1),)])
    assert caught.value.hint == "Cut it: value.floor('us')."


def test_conversion_of_one_row_makes_no_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """What makes one row cheap: no Arrow but an array for each text."""
    made: list[Any] = []
    array = row_values.pa.array
    monkeypatch.setattr(row_values.pa, "array", lambda *a: made.append(a) or array(*a))
    schema = (*PAIR, t.Field("p", MONEY), t.Field("w", WIDE), t.Field("d", t.DATE))
    row = (1, "x", Decimal("1.50"), Decimal(10) ** 30, datetime.date(2020, 1, 1))
    columns = RowReader(schema).columns([row])
    assert len(made) == 1 and not any(isinstance(c, Unread) for c in columns)
