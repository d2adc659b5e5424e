"""Casts: what converts without loss, what does not, and that a value is named by its row."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.flight.arrow import arrow_type, to_column
from operators.flight.casting import castable
from operators.flight.rows import RowReader
from planner.calculus import types as t
from planner.errors import DataError
from tests.operators.scalar_cases import D, python_values

DAY = datetime.date(2024, 1, 31)
NOON = datetime.datetime(2024, 1, 31, 12)
WIDE = 2**60


def cast(array: pa.Array, kind: t.SqlType) -> list[Any]:
    return python_values(to_column(array, t.Field("x", kind), cast=True))


@pytest.mark.parametrize(
    ("values", "kind", "wanted"),
    [
        (["1", " 2 ", "+3", None, "5.0", "6e2", "007"], t.INT, [1, 2, 3, None, 5, 600, 7]),
        (["9223372036854775807", "-9223372036854775808"], t.BIGINT, [2**63 - 1, -(2**63)]),
        (["1.5", "1", "1.500", "-0.05"], D(9, 2), [Decimal(v) for v in "1.5 1 1.5 -.05".split()]),
        (["0.1", "1e3", "inf", "-Infinity"], t.DOUBLE, [0.1, 1000.0, float("inf"), -float("inf")]),
        (["2024-01-31", None], t.DATE, [DAY, None]),
        (["2024-01-31", "2024-01-31 12:00", "2024-01-31T12:00:00.000000"], t.TIMESTAMP_NTZ,
         [datetime.datetime(2024, 1, 31), NOON, NOON]),
        (["2024-01-31 12:00:00", "2024-01-31 14:00:00+02:00", "2024-01-31 12:00:00Z"], t.TIMESTAMP,
         [NOON] * 3),
        (["true", "FALSE", "1", "0"], t.BOOLEAN, [True, False, True, False]),
        (["ab"], t.BINARY, [b"ab"]),
        ([1.0, -2.0, None], t.INT, [1, -2, None]),
        ([Decimal("7.00")], t.INT, [7]),
        ([0.1, 12.35, 1e-2, -0.0, 3.0], D(9, 2), [Decimal(v) for v in "0.1 12.35 .01 0 3".split()]),
        ([Decimal("1.500"), Decimal("2.000")], D(9, 2), [Decimal("1.5"), Decimal("2")]),
        ([1, WIDE >> 8], t.DOUBLE, [1.0, float(WIDE >> 8)]),
        ([0.5, float("nan"), float("inf")], t.FLOAT, [0.5, None, float("inf")]),
        ([Decimal("0.10"), Decimal("12.35")], t.DOUBLE, [0.1, 12.35]),
        ([1, None], t.STRING, ["1", None]),
        ([Decimal("1.50")], t.STRING, ["1.50"]),
        ([True], t.STRING, ["true"]),
        ([DAY], t.STRING, ["2024-01-31"]),
        ([b"ab"], t.STRING, ["ab"]),
        ([datetime.datetime(2024, 1, 31)], t.DATE, [DAY]),
        ([DAY], t.TIMESTAMP_NTZ, [datetime.datetime(2024, 1, 31)]),
        ([DAY], t.TIMESTAMP, [datetime.datetime(2024, 1, 31)]),
        ([1, 2], t.INT, [1, 2]),
        (["a"], t.STRING, ["a"]),
        ([], t.INT, []),
        ([None, None], t.DATE, [None, None]),
    ],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("form", ["plain", "dictionary", "chunked", "sliced", "rows"])
def test_what_converts(values: list[Any], kind: t.SqlType, wanted: list[Any], form: str) -> None:
    array: Any = pa.array(values)
    if form == "dictionary" and not pa.types.is_null(array.type):
        array = array.dictionary_encode()
    elif form == "chunked":
        array = pa.chunked_array([array[:1], array[1:]], array.type)
    elif form == "sliced":
        array = pa.concat_arrays([array, array])[len(array) :]
    if form == "rows":
        (column,) = RowReader((t.Field("x", kind),)).columns([(v,) for v in values], cast=True)
        got = python_values(column)
    else:
        got = cast(array, kind)
    if values and isinstance(values[0], float) and kind == t.FLOAT:
        assert np.isnan(got[1])
        got[1] = None
    assert got == wanted


@pytest.mark.parametrize(
    "given_type", [pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string_view())]
)
def test_text_of_any_layout_reads(given_type: pa.DataType) -> None:
    assert cast(pa.array(["1", "2"]).cast(given_type), t.INT) == [1, 2]


@pytest.mark.parametrize(
    ("values", "kind", "row", "says"),
    [
        (["1", "x", "y"], t.INT, 1, "has 'x', which does not read as INT"),
        (["1", "300"], t.TINYINT, 1, "has '300', which"),
        (["0x10"], t.INT, 0, "has '0x10'"),
        (["1.5"], t.INT, 0, "has '1.5'"),
        (["1", ""], t.INT, 1, "has ''"),
        (["1.5", "1.555"], D(9, 2), 1, "has '1.555', which does not read as DECIMAL(9,2)"),
        (["12345678.00"], D(9, 2), 0, "has '12345678.00'"),
        (["0.1", "1e999"], t.DOUBLE, 1, "has '1e999'"),
        (["1e39"], t.FLOAT, 0, "has '1e39'"),
        (["2024-01-31", "31.1.2024"], t.DATE, 1, "has '31.1.2024'"),
        (["2024-02-30"], t.DATE, 0, "has '2024-02-30'"),
        (["2024-01-31 12:00:00Z"], t.TIMESTAMP_NTZ, 0, "Z'"),
        (["2024-01-31 12:00:00.1234567"], t.TIMESTAMP, 0, "1234567'"),
        (["yes"], t.BOOLEAN, 0, "has 'yes'"),
        ([1.0, 1.5], t.INT, 1, "has 1.5, which INT does not hold exactly"),
        ([float("nan")], t.INT, 0, "has nan"),
        ([2.0**63], t.BIGINT, 0, "has 9.22"),
        ([0.1, 0.1 + 0.2], D(9, 2), 1, "has 0.30000000000000004"),
        ([float("inf")], D(9, 2), 0, "has inf"),
        ([1.0, 0.1], t.FLOAT, 1, "has 0.1, which FLOAT does not hold exactly"),
        ([WIDE, WIDE + 1], t.DOUBLE, 1, f"has {WIDE + 1}"),
        ([Decimal("1.005")], D(9, 2), 0, "has 1.005"),
        ([Decimal("12345678901234567890.1")], t.DOUBLE, 0, "has 12345678901234567890.1"),
        ([b"\xff"], t.STRING, 0, "has b'\\xff'"),
        ([datetime.datetime(2024, 1, 31), NOON], t.DATE, 1, "has 2024-01-31 12:00:00"),
    ],
    ids=str,
)
def test_what_loses_something(values: list[Any], kind: t.SqlType, row: int, says: str) -> None:
    for array in (pa.array(values), pa.array([*values, *values])):
        with pytest.raises(DataError) as caught:
            cast(array, kind)
        assert caught.value.message.startswith(f'column "x" is {kind}, but the data has a')
        assert caught.value.detail is not None
        assert (
            caught.value.detail.startswith(f"Row {row} of the data ")
            and says in caught.value.detail
        )
    if kind == t.FLOAT and isinstance(values[0], float):
        return  # Python has no such floats: they are rounded
    with pytest.raises(DataError) as caught:
        RowReader((t.Field("x", kind),)).columns([(v,) for v in values], cast=True)
    assert str(row) in str(caught.value)


@pytest.mark.parametrize(
    ("array", "kind"),
    [
        (pa.array([1]), t.DATE),
        (pa.array([1]), t.BOOLEAN),
        (pa.array([True]), t.INT),
        (pa.array([DAY]), t.INT),
        (pa.array([1.5]), t.STRING),
        (pa.array([NOON], pa.timestamp("us", "UTC")), t.TIMESTAMP_NTZ),
        (pa.array([[1]]), t.INT),
        (pa.array([{"a": 1}]), t.STRING),
        (pa.array([datetime.time(12)]), t.STRING),
    ],
)
def test_what_has_no_cast(array: pa.Array, kind: t.SqlType) -> None:
    assert not castable(array.type, kind, arrow_type(kind))
    with pytest.raises(DataError, match=r'column "x" is .*, but the data has'):
        cast(array, kind)


def test_rows_of_several_types() -> None:
    schema = (t.Field("n", t.INT), t.Field("d", t.DATE))
    rows = [(1, "2024-01-31"), ("2", DAY), (3.0, datetime.datetime(2024, 1, 31)), (None, None)]
    columns = RowReader(schema).columns(rows, cast=True)
    assert [python_values(c) for c in columns] == [[1, 2, 3, None], [DAY, DAY, DAY, None]]
    with pytest.raises(DataError) as caught:
        RowReader(schema).columns([*rows, (object(), "x")], cast=True)
    assert "row 4 has" in str(caught.value).lower() and "Row 4 of the data has 'x'" in str(
        caught.value
    )


@given(st.lists(st.none() | st.floats(allow_nan=False, allow_infinity=False)))
def test_floats_as_decimals_print_alike(values: list[float | None]) -> None:
    """Either the decimal is what Python prints of the float, or the float is refused."""
    try:
        got = cast(pa.array(values, pa.float64()), D(38, 6))
    except DataError:
        assert any(not _fits(v, 38, 6) for v in values)
        return
    assert got == [None if v is None else Decimal(repr(v)) for v in values]


def _fits(value: float | None, precision: int, scale: int) -> bool:
    if value is None:
        return True
    scaled = Decimal(repr(value)).scaleb(scale)
    return scaled == scaled.to_integral_value() and abs(scaled) < Decimal(10) ** precision


@pytest.mark.parametrize("value", ["3.4028226692093847e+38", "1e100", "-7E+39", "1" + "0" * 40])
def test_numbers_beyond_a_decimal_are_refused(value: str) -> None:
    """Arrow 26 takes the first for a number within it."""
    for values in (pa.array(["1", value]), pa.array([1.0, float(value)])):
        with pytest.raises(DataError):
            cast(values, D(38, 6))
    for text in ("+99", " 1.5 ", ".5", "5.", "1e3", "-0e0"):
        assert cast(pa.array([text]), D(38, 6)) == [Decimal(text)]


@given(st.lists(st.integers(-(2**70), 2**70) | st.decimals(-(10**6), 10**6, places=3)))
def test_numbers_in_text_are_read_exactly(values: list[Any]) -> None:
    texts = pa.array([str(v) for v in values], pa.string())
    for kind, low, high in ((t.BIGINT, -(2**63), 2**63 - 1), (t.SMALLINT, -(2**15), 2**15 - 1)):
        fits = [v == int(v) and low <= v <= high for v in values]
        if all(fits):
            assert cast(texts, kind) == [int(v) for v in values]
        else:
            with pytest.raises(DataError, match=f"Row {fits.index(False)} of the data"):
                cast(texts, kind)
