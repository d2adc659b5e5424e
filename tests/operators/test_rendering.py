"""Values as text: any of any type, also those that Python has no object for."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from operators.flight.rendering import python_values, texts
from planner.errors import DataError

DAYS = np.array([-(2**31), -719_163, -719_162, 0, 2_932_896, 2_932_897, 2**31 - 1], np.int32)
MICROS = np.array([-(2**63), -62_135_596_800_000_001, 0, 1_500_000, 2**63 - 1], np.int64)


def _stored(values: Any, kind: pa.DataType) -> pa.Array:
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(values)])


def test_dates_beyond_the_years_of_python() -> None:
    assert texts(_stored(DAYS, pa.date32())) == [
        "-5877641-06-23", "0000-12-31", "0001-01-01", "1970-01-01", "9999-12-31", "+10000-01-01",
        "+5881580-07-11",
    ]  # fmt: skip


def test_timestamps_beyond_the_years_of_python() -> None:
    local = [
        "-290308-12-21 19:59:05.224192", "0000-12-31 23:59:59.999999", "1970-01-01 00:00:00",
        "1970-01-01 00:00:01.500000", "+294247-01-10 04:00:54.775807",
    ]  # fmt: skip
    assert texts(_stored(MICROS, pa.timestamp("us"))) == local
    zoned = [f"{text}+00:00" for text in local]
    assert texts(_stored(MICROS, pa.timestamp("us", "UTC"))) == zoned
    for unit, text in (("s", "1970-01-01 00:00:07"), ("ms", "1970-01-01 00:00:00.007000")):
        assert texts(pa.array([7], pa.int64()).cast(pa.timestamp(unit))) == [text]


@pytest.mark.parametrize(
    "values",
    [
        [datetime.date(1, 1, 1), None, datetime.date(9999, 12, 31)],
        [datetime.datetime(2020, 2, 29, 12, 0, 0, 5), None],
        [datetime.datetime(2020, 2, 29, tzinfo=datetime.timezone.utc)],
        [Decimal("-1.50"), None],
        [1.5, float("nan"), float("-inf"), -0.0],
        [True, None],
        [b"\xff\x00"],
        ["", "a'b", "\x00"],
        [datetime.timedelta(days=-1, microseconds=5)],
    ],
)
def test_what_python_has_reads_as_python_says(values: list[Any]) -> None:
    assert texts(pa.array(values)) == ["NULL" if v is None else str(v) for v in values]


def test_text_that_is_no_utf8() -> None:
    bad = pa.array([b"a\xff", None, b"\xc3\xa9"], pa.binary()).view(pa.string())
    assert texts(bad) == ["a\\xff", "NULL", "é"]
    assert texts(bad, quoted=True) == [r"'a\\xff'", "NULL", "'é'"]


def test_values_inside_others() -> None:
    assert texts(pa.array([["a", "b"], None, []])) == ["a, b", "NULL", ""]
    days = pa.ListArray.from_arrays([0, 1], _stored(DAYS[-1:], pa.date32()))
    assert "2147483647" in texts(days)[0]


def test_slices_and_chunks() -> None:
    array = _stored(DAYS, pa.date32())
    assert texts(pa.chunked_array([array.slice(5, 1), array.slice(3, 1)])) == [
        "+10000-01-01",
        "1970-01-01",
    ]
    assert texts(pa.chunked_array([], pa.date32())) == []


def test_python_values_are_refused_where_there_are_none() -> None:
    column = pa.chunked_array([_stored(DAYS[3:], pa.date32())])
    with pytest.raises(DataError) as caught:
        python_values(column, "day")
    assert str(caught.value) == (
        'column "day" has a value that Python cannot hold\n'
        "Detail: Row 2 has +10000-01-01; dates of Python are from year 1 to year 9999.\n"
        "Hint: Read the rows with .to_arrow(), or cast the column to STRING in the view."
    )
    assert python_values(column.slice(0, 1), "day") == [datetime.date(1970, 1, 1)]
