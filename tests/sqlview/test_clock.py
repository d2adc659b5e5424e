"""The clock: rows that come and go by themselves, and what that costs."""

from __future__ import annotations

import datetime
from collections import Counter
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest

import sqlview
from planner.errors import CatalogError, DataError, SqlViewError, UnsupportedError
from sqlview.clock import SystemClock, instant_in, move

START = datetime.datetime(2024, 2, 28, 12, tzinfo=datetime.timezone.utc)
EVENTS = "CREATE TABLE e (k INT PRIMARY KEY, ts TIMESTAMP, day DATE, g INT)"
VIEWS = (
    "SELECT k FROM e WHERE ts > now() - interval 3 hours",
    (
        "SELECT g, count(*) AS n, max(ts) AS m FROM e "
        "WHERE ts BETWEEN current_timestamp() - interval 6 hours AND current_timestamp GROUP BY g"
    ),
    "SELECT k, day FROM e WHERE day = current_date",
    "SELECT k FROM e WHERE datediff(current_date(), day) BETWEEN 1 AND 2",
    "SELECT g FROM e GROUP BY g HAVING max(ts) < now() - interval 2 hours",
    (
        "SELECT e.k, o.k AS o FROM e JOIN e AS o ON e.g = o.g AND e.k < o.k "
        "WHERE e.ts >= now() AND o.ts < now() + interval 4 hours"
    ),
    "SELECT k FROM e WHERE ts < now() OR g IS NULL",
    "SELECT k, g FROM e WHERE ts + interval 1 day > now() AND k >= 0 AND ts < now()",
    "SELECT count_if(ts < now()) AS past, max(now()) AS at FROM e",
    "SELECT k, ts FROM e WHERE ts <= localtimestamp() ORDER BY ts DESC LIMIT 3",
    "SELECT k FROM v0 WHERE k NOT IN (SELECT k FROM e WHERE ts > now())",
)


def _moment(random: Random, now: datetime.datetime) -> datetime.datetime:
    return now + timedelta(minutes=random.randrange(-3000, 3000))


def _row(random: Random, now: datetime.datetime, key: int) -> tuple[Any, ...]:
    at = _moment(random, now)
    return key, random.choice([at, at, now, None]), at.date(), random.choice([0, 1, 2, None])


def _session(path: Path | None = None, **options: Any) -> sqlview.Session:
    db = sqlview.connect(path, placement="inline", **options)
    db.sql(EVENTS)
    return db


@pytest.mark.parametrize("seed", [1, 2])
def test_changes_and_moves_of_the_clock(seed: int, tmp_path: Path) -> None:
    random, now = Random(seed), START
    path = tmp_path / "s" if seed == 2 else None
    db = _session(path)
    db.advance(now)
    for i, query in enumerate(VIEWS):
        db.sql(f"CREATE MATERIALIZED VIEW v{i} AS {query}")
    moved = 0
    for step in range(6):
        keys = random.sample(range(30), 8)
        with db.transaction() as tx:
            tx.upsert("e", [_row(random, now, k) for k in keys])
        db.sql(f"DELETE FROM e WHERE k = {random.randrange(30)}")
        before = [Counter(db.view(f"v{i}").rows()) for i in range(len(VIEWS))]
        now += timedelta(minutes=random.choice([0, 1, 90, 700, 3000]))
        db.advance(now)
        after = [Counter(db.view(f"v{i}").rows()) for i in range(len(VIEWS))]
        moved += sum(a != b for a, b in zip(after, before, strict=True))
        for i in range(len(VIEWS)):
            found = db.verify(f"v{i}", "duckdb")
            assert found.equal, str(found)
        if path is not None and step % 2:
            db.close()
            db = sqlview.connect(path, placement="inline")
            assert db.clock == now
    db.close()
    assert moved > 6


def test_moves_between_the_epochs_of_one_step() -> None:
    """The same changes in one step, and one by one, with the same deltas at each epoch."""
    heard: list[list[Counter[Any]]] = []
    for together in (True, False):
        random, now = Random(5), START
        db = _session()
        db.advance(now)
        deltas: list[Counter[Any]] = [Counter() for _ in VIEWS]
        for i, query in enumerate(VIEWS):
            db.sql(f"CREATE MATERIALIZED VIEW v{i} AS {query}")

            def hear(table: Any, sum_of: Counter[Any] = deltas[i]) -> None:
                for row in table.to_pylist():
                    diff = row.pop("__diff")
                    sum_of[tuple(row.items())] += diff

            db.subscribe(f"v{i}", hear)
        clock = db._catalog.clock
        assert clock is not None
        for _ in range(2):
            transactions = []
            for part in range(6):
                tx = db.begin()
                if part % 2:
                    now += timedelta(minutes=random.choice([0, 20, 400]))
                    before = instant_in(clock, db.epoch)
                    instant = round(now.timestamp() * 1_000_000)
                    tx._keep([move(clock, before, instant)])
                else:
                    tx.upsert("e", [_row(random, now, k) for k in random.sample(range(12), 5)])
                transactions.append(tx)
            for some in [transactions] if together else [[tx] for tx in transactions]:
                db.apply(some)
        assert all(db.verify(f"v{i}", "duckdb").equal for i in range(len(VIEWS)))
        heard.append([Counter({row: n for row, n in d.items() if n}) for d in deltas])
        db.close()
    assert heard[0] == heard[1]
    assert all(heard[0])


@pytest.mark.parametrize(
    ("query", "moved"),
    [
        ("SELECT k FROM e WHERE ts > now() - interval 7 days", 5),
        ("SELECT k, g FROM e WHERE now() - interval 1 day < ts AND g = 1", 5),
        ("SELECT k FROM e WHERE ts BETWEEN now() - interval 1 day AND now()", 10),
        ("SELECT e.k FROM e JOIN g ON e.g = g.g WHERE ts < current_timestamp()", 5),
        ("SELECT k FROM e WHERE ts < now() AND now() < ts + interval 1 day", 10),
        ("SELECT g, count(*) AS n FROM e WHERE ts < now() GROUP BY g", 5),
        ("SELECT k FROM e WHERE day = current_date()", 0),
        ("SELECT k FROM e WHERE datediff(current_date(), day) < 3", 0),
        ("SELECT k FROM e WHERE ts >= date_trunc('hour', now())", 0),
    ],
)
def test_a_move_visits_the_rows_that_it_moves(query: str, moved: int) -> None:
    with _session() as db:
        db.sql("CREATE TABLE g (g INT PRIMARY KEY)")
        db.advance(START)
        with db.transaction() as tx:
            minutes = [START + timedelta(minutes=i, seconds=30) for i in range(-5_000, 5_000)]
            tx.insert("e", [(i, at, at.date(), i % 3) for i, at in enumerate(minutes)])
            tx.insert("g", [(0,), (1,), (2,)])
        db.sql(f"CREATE MATERIALIZED VIEW v AS {query}")
        db.advance(START + timedelta(minutes=5))
        db.advance(START + timedelta(minutes=10))
        step = db.last_step
        assert step is not None
        visited = step.entries_visited + step.prefixes + step.rows_gathered + step.seeks
        assert visited <= 60 + 20 * moved
        assert db.verify("v", "duckdb").equal


def test_before_the_clock_is_set() -> None:
    with _session() as db:
        assert db.clock is None
        with pytest.raises(UnsupportedError, match=r"db\.advance"):
            db.sql(f"CREATE MATERIALIZED VIEW v AS {VIEWS[0]}")
        with pytest.raises(UnsupportedError, match="before the clock"):
            db.sql("DELETE FROM e WHERE ts < now()")
        assert db.advance(START) == 1
        db.sql(f"CREATE MATERIALIZED VIEW v AS {VIEWS[0]}")
        assert db.clock == START


def test_a_clock_that_goes_back() -> None:
    with _session() as db:
        db.advance(START)
        with pytest.raises(DataError, match="does not go back"):
            db.advance(START - timedelta(microseconds=1))
        assert (db.clock, db.epoch) == (START, 1)
        assert db.advance(START) == 1
        with pytest.raises(TypeError, match="datetime"):
            db.advance("2024-01-01")  # type: ignore[arg-type]


def test_nothing_else_touches_the_clock() -> None:
    with _session() as db:
        db.advance(START)
        assert db.sql("SHOW TABLES").rows() == [("e",)]
        for text in (
            "INSERT INTO `clock()` VALUES (1, NULL)",
            "DELETE FROM `clock()`",
            "DROP TABLE `clock()`",
            "ALTER TABLE `clock()` RENAME TO c",
            "ALTER TABLE `clock()` ADD COLUMN c INT",
            "CREATE TABLE `clock()` (a INT)",
        ):
            with pytest.raises(CatalogError):
                db.sql(text)
        with pytest.raises(CatalogError), db.transaction() as tx:
            tx.insert("clock()", [(1, START)])
        assert db.clock == START


def test_statements_have_the_time() -> None:
    with _session() as db:
        db.advance(START)
        db.sql("CREATE MATERIALIZED VIEW v AS SELECT * FROM e")
        db.sql("INSERT INTO e SELECT 1, now(), current_date(), 0")
        assert db.view("v").rows() == [(1, START, START.date(), 0)]
        db.advance(START + timedelta(hours=2))
        db.sql("DELETE FROM e WHERE ts < now() - interval 1 hour")
        assert not len(db.view("v"))


def test_the_date_of_a_time_zone() -> None:
    paris = _session(timezone="Europe/Paris")
    paris.advance(datetime.datetime(2024, 7, 1, 23, 30))
    paris.sql("CREATE MATERIALIZED VIEW v AS SELECT current_date() AS day, localtimestamp() AS at")
    assert paris.clock == datetime.datetime(2024, 7, 1, 21, 30, tzinfo=datetime.timezone.utc)
    assert paris.view("v").rows() == [
        (datetime.date(2024, 7, 1), datetime.datetime(2024, 7, 1, 23, 30))
    ]
    paris.advance(datetime.datetime(2024, 7, 2))
    assert paris.view("v").rows()[0][0] == datetime.date(2024, 7, 2)
    paris.close()


def test_the_system_s_clock() -> None:
    with _session() as db:
        times = iter([5, 7, 6, 9])
        clock = SystemClock(db, 3600, lambda: next(times) * 10**18)
        seen = []
        for _ in range(4):
            clock.tick()
            assert db.clock is not None
            seen.append(db.clock.timestamp() / 10**9)
        assert seen == [5, 7, 7, 9]
        clock.stop()


def test_a_session_that_follows_the_system(tmp_path: Path) -> None:
    before = datetime.datetime.now(datetime.timezone.utc)
    with sqlview.connect(tmp_path / "s", clock="system", tick="24h", placement="inline") as db:
        assert db.clock is not None and db.clock >= before
        db.sql(EVENTS)
        db.sql(f"CREATE MATERIALIZED VIEW v AS {VIEWS[0]}")
        found = db.clock
    with sqlview.connect(tmp_path / "s", read_only=True, clock="system") as reader:
        assert reader.clock == found
        with pytest.raises(SqlViewError):
            reader.advance(START + timedelta(days=20_000))


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        ({"clock": "atomic"}, ValueError),
        ({"tick": "soon"}, ValueError),
        ({"tick": 0}, ValueError),
        ({"tick": None}, TypeError),
    ],
)
def test_wrong_options(options: dict[str, Any], kind: type[Exception]) -> None:
    with pytest.raises(kind):
        sqlview.connect(**options)
