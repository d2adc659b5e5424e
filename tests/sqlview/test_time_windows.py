"""window(ts, …): periods of time, compared with a slow twin after each change."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from random import Random
from typing import Any

import pytest

import sqlview
from planner.errors import BindError, SqlViewError

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
M = timedelta(minutes=1)


def _periods(
    ts: datetime.datetime | None, width: timedelta, slide: timedelta, offset: timedelta
) -> Iterator[tuple[datetime.datetime, datetime.datetime]]:
    """Every period that has the time."""
    if ts is None:
        return
    start = EPOCH + offset + (ts - EPOCH - offset) // slide * slide
    while ts < start + width:
        yield start, start + width
        start -= slide


@pytest.mark.parametrize(
    ("said", "width", "slide", "offset"),
    [
        ("'10 minutes'", 10 * M, 10 * M, 0 * M),
        ("'20 minutes', '10 minutes'", 20 * M, 10 * M, 0 * M),
        ("interval 1 hour, '25 minutes', '-7 minutes'", 60 * M, 25 * M, -7 * M),
        ("'1 hour 30 minutes', '90 minutes', '1 minute'", 90 * M, 90 * M, 1 * M),
        ("'3 days'", 4320 * M, 4320 * M, 0 * M),
    ],
)
def test_groups_and_rows(said: str, width: timedelta, slide: timedelta, offset: timedelta) -> None:
    random = Random(said)
    with sqlview.connect(placement="inline") as db:
        db.sql("CREATE TABLE e (k INT PRIMARY KEY, ts TIMESTAMP, g INT)")
        db.sql(
            "CREATE MATERIALIZED VIEW v AS SELECT g, window.start, Window.End AS e, count(*) AS n "
            f"FROM e WHERE k >= 0 OR k IS NULL GROUP BY g, window(ts, {said}) HAVING count(*) > 1"
        )
        db.sql(
            f"CREATE MATERIALIZED VIEW w AS SELECT k, window(ts, {said}).start AS s, "
            f"window(ts, {said}).end FROM e"
        )
        assert [f.name for f in db.view("v").to_arrow().schema] == ["g", "start", "e", "n"]
        rows: dict[int, tuple[datetime.datetime | None, int]] = {}
        for _ in range(4):
            changed = {}
            for k in random.sample(range(40), 25):
                at = EPOCH + timedelta(days=19_000, seconds=random.randrange(-20_000, 20_000))
                changed[k] = (random.choice([at, at, at, None]), random.randrange(2))
            rows |= changed
            with db.transaction() as tx:
                tx.upsert("e", [(k, ts, g) for k, (ts, g) in changed.items()])
            found = [
                (k, g, *period)
                for k, (ts, g) in rows.items()
                for period in _periods(ts, width, slide, offset)
            ]
            assert Counter(db.view("w").rows()) == Counter((k, s, e) for k, _, s, e in found)
            groups = Counter((g, s, e) for _, g, s, e in found)
            assert Counter(db.view("v").rows()) == Counter(
                (*key, n) for key, n in groups.items() if n > 1
            )


@pytest.mark.parametrize(
    ("query", "kind", "message"),
    [
        ("SELECT *, window(ts, '2 hours', '1 hour').start AS s FROM e", BindError, "cannot stand"),
        ("SELECT window(ts, '1 parsec').start AS s FROM e", BindError, "cannot be '1 parsec'"),
        ("SELECT window(ts, '1 month').start AS s FROM e", BindError, "cannot be '1 month'"),
        ("SELECT window(ts, 10).start AS s FROM e", BindError, "is a text"),
        ("SELECT window(ts).start AS s FROM e", BindError, "takes a time"),
        ("SELECT window(ts, '1 hour', '2 hours').start AS s FROM e", BindError, "at most its"),
        ("SELECT window(ts, '1 week', '1 second').start AS s FROM e", BindError, "more than 1024"),
        ("SELECT window(g, '1 hour').start AS s FROM e", BindError, "of a TIMESTAMP, not INT"),
        ("SELECT window(ts, '1 hour').start AS s, window(ts, '2 hours').start AS t FROM e",
         BindError, "one window"),
    ],
)  # fmt: skip
def test_refused(query: str, kind: type[SqlViewError], message: str) -> None:
    with sqlview.connect(placement="inline") as db:
        db.sql("CREATE TABLE e (k INT PRIMARY KEY, ts TIMESTAMP, g INT)")
        with pytest.raises(kind, match=message):
            db.sql(f"CREATE MATERIALIZED VIEW v AS {query}")


def test_windows_of_rows_keep_their_clause() -> None:
    with sqlview.connect(placement="inline") as db:
        db.sql("CREATE TABLE e (k INT, ts TIMESTAMP)")
        db.sql("INSERT INTO e VALUES (1, TIMESTAMP '2024-01-01 00:01:00'), (2, NULL)")
        query = "SELECT k, sum(k) OVER w AS s FROM e WINDOW w AS (ORDER BY k)"
        db.sql(f"CREATE MATERIALIZED VIEW v AS {query}")
        rows: list[tuple[Any, ...]] = sorted(db.view("v").rows())
        assert rows == [(1, 1), (2, 3)]


def test_periods_as_values() -> None:
    with sqlview.connect(placement="inline") as db:
        db.sql("CREATE TABLE e (k INT, ts TIMESTAMP)")
        grouped = "SELECT window, count(*) AS n FROM e GROUP BY window(ts, '1 hour')"
        db.sql(f"CREATE MATERIALIZED VIEW v AS {grouped}")
        db.sql("CREATE MATERIALIZED VIEW w AS SELECT window_time(window) AS t, n FROM v")
        db.sql("CREATE MATERIALIZED VIEW x AS SELECT k, window(ts, '1 day') AS p FROM e")
        db.sql("INSERT INTO e VALUES (1, TIMESTAMP '2024-01-01 00:01:00'), (2, NULL)")
        start = EPOCH + timedelta(days=19_723)
        assert db.view("v").rows() == [({"start": start, "end": start + 60 * M}, 1)]
        assert db.view("w").rows() == [(start + 60 * M - timedelta(microseconds=1), 1)]
        assert db.view("x").rows() == [(1, {"start": start, "end": start + 1440 * M})]
        with pytest.raises(BindError, match="needs a period"):
            db.sql("CREATE MATERIALIZED VIEW y AS SELECT window_time(ts) AS t FROM e")
