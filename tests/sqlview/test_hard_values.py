"""Values that are hard to hold, from insert to print: dates that Python lacks, text that is no
UTF-8."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sqlview

DAYS = np.array([2_932_897, -(2**31), 0], np.int32)
MICROS = np.array([2**63 - 1, -(2**63), 0], np.int64)
BAD = pa.array([b"fine", b"\xc3("], pa.binary()).view(pa.string())


def _stored(values: Any, kind: pa.DataType) -> pa.Array:
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(values)])


def _dates(key: int = 0) -> pa.Table:
    return pa.table(
        {
            "id": pa.array(range(key, key + 3), pa.int32()),
            "day": _stored(DAYS, pa.date32()),
            "at": _stored(MICROS, pa.timestamp("us", "UTC")),
        }
    )


def change(db: sqlview.Session, action: str, table: str, data: Any) -> None:
    with db.transaction() as tx:
        getattr(tx, action)(table, data)


@pytest.fixture
def db() -> Iterator[sqlview.Session]:
    with sqlview.connect(placement="inline") as session:
        session.sql("CREATE TABLE d (id INT, day DATE, at TIMESTAMP, PRIMARY KEY (id))")
        session.sql("CREATE TABLE s (id INT, s STRING, PRIMARY KEY (id))")
        session.sql("CREATE STREAM e (id INT, s STRING)")
        yield session


def test_dates_are_printed_and_kept_but_not_given_as_python(db: sqlview.Session) -> None:
    db.sql("CREATE MATERIALIZED VIEW v AS SELECT id, day, at FROM d ORDER BY id")
    printed: list[str] = []
    db.subscribe("v", lambda changes: printed.append(str(changes)))
    change(db, "insert", "d", _dates())
    view = db.view("v")
    assert str(view).splitlines()[2:] == [
        "0   +10000-01-01    +294247-01-10 04:00:54.775807+00:00",
        "1   -5877641-06-23  -290308-12-21 19:59:05.224192+00:00",
        "2   1970-01-01      1970-01-01 00:00:00+00:00",
    ]
    assert repr(view)
    assert view.to_arrow().drop_columns(["id"]).equals(_dates().drop_columns(["id"]))
    with pytest.raises(sqlview.DataError, match=r'column "day" .*\n.*\+10000-01-01.*\n.*to_arrow'):
        view.rows()
    assert len(printed) == 1


@pytest.mark.parametrize(
    "expression",
    ["1 / (id - id)", "CAST(day AS TIMESTAMP)", "CAST(year(day) / 0 AS INT)", "id DIV (id - id)"],
)
def test_rows_that_fail_with_such_dates_are_errors(db: sqlview.Session, expression: str) -> None:
    db.sql(
        f"CREATE MATERIALIZED VIEW v AS SELECT {expression} AS x FROM d"
        " WHERE day IS NOT NULL AND at IS NOT NULL AND day <> DATE '1970-01-01'"
    )
    change(db, "insert", "d", _dates())
    with pytest.raises(sqlview.ViewError):
        db.view("v").rows()
    change(db, "delete", "d", [(0,), (1,), (2,)])
    assert db.view("v").rows() == []


def test_such_dates_in_the_message_of_a_refusal(db: sqlview.Session) -> None:
    db.sql("CREATE TABLE k (day DATE, at TIMESTAMP, PRIMARY KEY (day, at))")
    data = _dates().drop_columns(["id"])
    change(db, "insert", "k", data)
    with pytest.raises(sqlview.DataError, match=r"day = \+10000-01-01, at = \+294247-01-10 04:00"):
        change(db, "insert", "k", data)
    change(db, "delete", "k", data)
    with pytest.raises(sqlview.DataError, match=r"day = \+10000-01-01, at = \+294247-01-10 04:00"):
        change(db, "delete", "k", data)


def test_bad_utf8_is_refused_by_every_change(db: sqlview.Session) -> None:
    db.sql("CREATE MATERIALIZED VIEW v AS SELECT id, upper(s) AS u, reverse(s) AS r FROM s")
    db.sql("CREATE MATERIALIZED VIEW w AS SELECT count(*) AS n, max(s) AS s FROM e")
    db.sql("CREATE TABLE bag (s STRING)")
    bad = pa.table({"id": pa.array([1, 2], pa.int32()), "s": BAD})
    wanted = r'text in column "s" is not UTF-8\nDetail: Row 1 of the data has the bytes c3 28\.'
    with pytest.raises(sqlview.DataError, match=wanted):
        change(db, "insert", "s", bad)
    with pytest.raises(sqlview.DataError, match=wanted):
        change(db, "upsert", "s", bad)
    with pytest.raises(sqlview.DataError, match=wanted):
        change(db, "insert", "e", bad)
    with pytest.raises(sqlview.DataError, match=wanted):
        change(db, "delete", "bag", bad.drop_columns(["id"]))
    with pytest.raises(sqlview.DataError, match=wanted), db.transactions() as several:
        several.insert("s", bad, times=[0, 1])
    with pytest.raises(sqlview.DataError, match="lone surrogate"):
        change(db, "insert", "s", [(1, "\udfff")])
    change(db, "insert", "s", bad.slice(0, 1))
    assert db.view("v").rows() == [(1, "FINE", "enif")]
    assert db.view("w").rows() == [(0, None)]
