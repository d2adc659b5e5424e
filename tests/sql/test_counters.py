"""COUNTER_DIFF against what Spark has answered to the same rows, as they change."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

import sqlview


def _day(day: int) -> datetime.datetime:
    return datetime.datetime(2020, 1, day, tzinfo=datetime.UTC)


#: (id, counter, start), Spark's difference, and Spark's with starts.
ROWS: tuple[
    tuple[tuple[int, int | None, datetime.datetime | None], int | None, int | None], ...
] = (
    ((1, 5, _day(1)), None, None),
    ((2, None, _day(5)), None, None),
    ((3, 8, None), 3, 3),
    ((4, 9, _day(1)), 1, 1),
    ((5, 12, _day(2)), 3, None),
    ((6, 13, None), 1, 1),
    ((7, 14, _day(3)), 1, 1),
    ((8, 15, _day(3)), 1, 1),
)


def test_differences_follow_the_rows_and_errors_go_with_them() -> None:
    with sqlview.connect(placement="inline") as db:
        db.sql("CREATE TABLE t (id INT, v INT, s TIMESTAMP, PRIMARY KEY (id))")
        for name, args in (("a", "v"), ("b", "v, s")):
            call = f"counter_diff({args}) OVER (ORDER BY id)"
            db.sql(f"CREATE MATERIALIZED VIEW {name} AS SELECT id, {call} AS d FROM t")

        def found(view: str) -> list[Any]:
            return [d for _, d in sorted(db.view(view).rows())]

        with db.transaction() as tx:
            tx.insert("t", [row for row, _, _ in ROWS])
        assert found("a") == [plain for _, plain, _ in ROWS]
        assert found("b") == [started for _, _, started in ROWS]
        with db.transaction() as tx:  # a reset: the counter falls
            tx.upsert("t", [(8, 3, _day(3)), (9, 10, _day(3))])
        assert found("a")[-3:] == found("b")[-3:] == [1, None, 7]
        with db.transaction() as tx:
            tx.delete("t", [(8,)])
            tx.upsert("t", [(9, -1, _day(3))])
        for view in ("a", "b"):
            with pytest.raises(sqlview.ViewError, match="COUNTER_DIFF_NEGATIVE_COUNTER_VALUE"):
                db.view(view).rows()
        with db.transaction() as tx:
            tx.upsert("t", [(9, 20, _day(2))])
        assert found("a")[-1] == 6
        with pytest.raises(sqlview.ViewError, match="COUNTER_DIFF_START_TIME_DECREASED"):
            db.view("b").rows()
        with db.transaction() as tx:
            tx.delete("t", [(9,), (3,)])
        assert found("b") == [None, None, 4, None, 1, 1]


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ("counter_diff(v) OVER (PARTITION BY id)", "needs ORDER BY"),
        ("counter_diff(s) OVER (ORDER BY id)", "needs a number"),
        ("counter_diff(v, v) OVER (ORDER BY id)", "needs a TIMESTAMP"),
        ("counter_diff(v, s, s) OVER (ORDER BY id)", "1 to 2 arguments"),
        ("counter_diff(v) OVER (ORDER BY id ROWS 1 PRECEDING)", "takes neither a frame"),
    ],
)
def test_what_is_no_counter_is_refused(call: str, said: str) -> None:
    with sqlview.connect(placement="inline") as db:
        db.sql("CREATE TABLE t (id INT, v INT, s TIMESTAMP)")
        with pytest.raises(sqlview.SqlViewError, match=said):
            db.sql(f"CREATE MATERIALIZED VIEW w AS SELECT {call} AS d FROM t")
