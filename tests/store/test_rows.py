"""Rows in records of the log: what was packed is unpacked, copied or not."""

from __future__ import annotations

import datetime
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from operators.flight import arrow
from planner.calculus import types as t
from planner.calculus.types import Field
from sqlview.store import rows

SCHEMA = (
    Field("i", t.IntegerType(16)),
    Field("l", t.BIGINT),
    Field("d", t.DecimalType(12, 2)),
    Field("w", t.DecimalType(38, 3)),
    Field("f", t.DOUBLE),
    Field("b", t.BOOLEAN),
    Field("s", t.STRING),
    Field("x", t.BINARY),
    Field("day", t.DATE),
    Field("at", t.TIMESTAMP),
)
_AT = datetime.datetime(2024, 2, 29, 12, tzinfo=datetime.UTC)


def _table(n: int, nulls: bool) -> pa.Table:
    values = {
        "i": [i % 99 for i in range(n)],
        "l": [i << 40 for i in range(n)],
        "d": [Decimal(i) / 4 for i in range(n)],
        "w": [Decimal(i) * 10**30 for i in range(n)],
        "f": [i / 3 for i in range(n)],
        "b": [i % 3 == 0 for i in range(n)],
        "s": [f"é{i}" * (i % 5) for i in range(n)],
        "x": [bytes([i % 256]) * (i % 7) for i in range(n)],
        "day": [datetime.date(2024, 1, 1) + datetime.timedelta(i) for i in range(n)],
        "at": [_AT + datetime.timedelta(microseconds=i) for i in range(n)],
    }
    if nulls:
        values = {k: [None if i % 4 == j % 4 else v for i, v in enumerate(vs)]
                  for j, (k, vs) in enumerate(values.items())}  # fmt: skip
    return pa.table(values, schema=arrow.arrow_schema(SCHEMA))


@pytest.mark.parametrize("nulls", [False, True])
@pytest.mark.parametrize("large", [1, 1 << 30])
def test_what_is_packed_is_unpacked(
    nulls: bool, large: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows, "_LARGE_ROWS", large)
    for part in (_table(0, nulls), _table(100, nulls), _table(1000, nulls).slice(13, 600)):
        columns = arrow.to_columns(part.combine_chunks(), SCHEMA)
        body = b"".join(rows.packed(columns, SCHEMA))
        again = rows.unpacked(memoryview(body), SCHEMA)
        assert arrow.from_columns(again, SCHEMA).equals(part)


def test_rows_as_they_came_in_are_not_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "_LARGE_ROWS", 1)
    (column,) = arrow.to_columns(_table(1000, False).select(["l"]), SCHEMA[1:2])
    parts = rows.packed([column], SCHEMA[1:2])
    assert isinstance(column.values, np.ndarray)
    assert column.values.ctypes.data in [pa.py_buffer(part).address for part in parts]
