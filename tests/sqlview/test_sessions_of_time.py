"""session_window(ts, gap): sessions that grow, merge and part, compared with a slow twin."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable
from datetime import timedelta
from random import Random
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pytest

import sqlview
from planner.errors import BindError, SqlViewError, UnsupportedError

_START = datetime.datetime(2024, 1, 1, tzinfo=ZoneInfo("UTC"))
_GAP = timedelta(minutes=10)
#: Half of the times touch a gap exactly, or miss it by a microsecond.
_STEPS = (0, 300, 600, 600, 600.000001, 599.999999, 601, 5000)

_Row = tuple[int, datetime.datetime | None, int | None]
_Session = tuple[int | None, datetime.datetime, datetime.datetime, int, int]


def _sessions(rows: Iterable[_Row]) -> list[_Session]:
    """Each group's sessions, with the count and the greatest key of their rows."""
    found: list[_Session] = []
    there = [(g, ts, k) for k, ts, g in rows if ts is not None]
    for g, ts, k in sorted(there, key=lambda r: (r[0] is None, r[0] or 0, r[1])):
        last = found[-1] if found else None
        if last is not None and last[0] == g and ts <= last[2]:
            found[-1] = (g, last[1], ts + _GAP, last[3] + 1, max(last[4], k))
        else:
            found.append((g, ts, ts + _GAP, 1, k))
    return found


def _by_text(rows: Iterable[tuple[object, ...]]) -> list[str]:
    return sorted(map(str, rows))


def test_sessions_merge_and_part() -> None:
    random = Random(7)
    with sqlview.connect(placement="inline") as db:
        db.sql("CREATE TABLE e (k INT PRIMARY KEY, ts TIMESTAMP, g INT)")
        db.sql(
            "CREATE MATERIALIZED VIEW v AS SELECT g, session_window.start,"
            " session_window(ts, '10 minutes').end AS e, count(*) AS n, max(k) AS m"
            " FROM e GROUP BY g, session_window(ts, '10 minutes')"
        )
        db.sql(
            "CREATE MATERIALIZED VIEW w AS SELECT session_window(ts, interval '10' minute) AS s,"
            " count(*) AS n FROM e WHERE k > 0 GROUP BY s HAVING count(*) > 1"
        )
        db.sql("CREATE MATERIALIZED VIEW x AS SELECT window_time(s) AS t, s.start FROM w")
        places = np.cumsum([random.choice(_STEPS) for _ in range(120)])
        times = [_START + timedelta(seconds=float(p)) for p in places]
        rows: dict[int, _Row] = {}
        sizes = set()
        for _ in range(25):
            with db.transaction() as tx:
                changed = random.sample(range(60), random.choice((1, 3, 12)))
                new = [k for k in changed if k not in rows or random.random() < 0.6]
                gone = [k for k in changed if k not in new]
                upserts: list[_Row] = [
                    (k, random.choice([*times, None]), random.choice((1, 1, 2, None))) for k in new
                ]
                tx.upsert("e", upserts)
                tx.delete("e", [(k,) for k in gone])
            rows.update((r[0], r) for r in upserts)
            for k in gone:
                del rows[k]
            expected = _sessions(rows.values())
            sizes.add(len(expected))
            assert _by_text(db.view("v").rows()) == _by_text(expected)
            joined = _sessions((k, ts, 0) for k, ts, _ in rows.values() if k)
            several = [s for s in joined if s[3] > 1]
            assert _by_text(db.view("w").rows()) == _by_text(
                ({"start": s[1], "end": s[2]}, s[3]) for s in several
            )
            last = timedelta(microseconds=1)
            assert _by_text(db.view("x").rows()) == _by_text((s[2] - last, s[1]) for s in several)
        assert len(sizes) > 8


def test_the_sessions_that_change_are_all_that_is_read() -> None:
    with sqlview.connect(placement="inline") as db:
        db.sql("CREATE TABLE e (k BIGINT PRIMARY KEY, ts TIMESTAMP_NTZ)")
        db.sql(
            "CREATE MATERIALIZED VIEW v AS SELECT session_window.start, session_window.end AS e,"
            " count(*) AS n FROM e GROUP BY session_window(ts, '9 seconds')"
        )
        db.sql("CREATE MATERIALIZED VIEW held AS SELECT ts FROM e WHERE ts IS NOT NULL")
        place = np.arange(50_000)
        seconds = 10 * (place // 20 * 20) + 8 * (place % 20)
        start = np.datetime64("2024-01-01", "us")
        with db.transaction() as tx:
            tx.insert("e", {"k": place, "ts": start + seconds.astype("m8[s]")})
        assert len(db.view("v").rows()) == 2500
        middle, s = datetime.datetime(2024, 1, 1) + timedelta(seconds=199_975), timedelta(seconds=1)
        changes: tuple[Callable[[Any], None], ...] = (
            lambda tx: tx.insert("e", [(60_000, middle), (60_001, middle - 9 * s), (60_002, None)]),
            lambda tx: tx.insert("e", [(60_003 + i, middle + 8 * i * s) for i in range(1, 6)]),
            lambda tx: tx.delete("e", [(k,) for k in (60_000, 25, 30, 35, 49_999)]),
        )
        for change in changes:
            with db.transaction() as tx:
                change(tx)
            assert db.last_step.entries_visited < 1500
            held = sorted(t for (t,) in db.view("held").rows())
            first = [t for i, t in enumerate(held) if i == 0 or t - held[i - 1] > 9 * s]
            assert sorted(row[0] for row in db.view("v").rows()) == first


@pytest.mark.parametrize(
    ("query", "kind", "message"),
    [
        ("SELECT k, session_window(ts, '1 hour') AS s FROM e", BindError, "belongs to GROUP BY"),
        (("SELECT count(*) AS n FROM e WHERE session_window(ts, '1 hour').start > now()"
         " GROUP BY session_window(ts, '1 hour')"), BindError, "belongs to GROUP BY"),
        ("SELECT count(*) AS n FROM e GROUP BY session_window(ts, '0 hours')", BindError, "more"),
        ("SELECT count(*) AS n FROM e GROUP BY session_window(ts, '1 month')", BindError, "cannot"),
        ("SELECT count(*) AS n FROM e GROUP BY session_window(ts)", BindError, "takes a time"),
        ("SELECT count(*) AS n FROM e GROUP BY session_window(g, '1 hour')", BindError, "not INT"),
        ("SELECT count(*) AS n FROM e GROUP BY ROLLUP (session_window(ts, '1 hour'))",
         UnsupportedError, "no grouping expression"),
        (("SELECT count(*) AS n FROM e GROUP BY session_window(ts, '1 hour'),"
         " session_window(ts, '2 hours')"), BindError, "one window"),
        ("SELECT ts, count(*) AS n FROM e GROUP BY session_window(ts, '1 hour')", BindError,
         "must appear"),
    ],
)  # fmt: skip
def test_refused(query: str, kind: type[SqlViewError], message: str) -> None:
    with sqlview.connect(placement="inline") as db:
        db.sql("CREATE TABLE e (k INT PRIMARY KEY, ts TIMESTAMP, g INT)")
        with pytest.raises(kind, match=message):
            db.sql(f"CREATE MATERIALIZED VIEW v AS {query}")
