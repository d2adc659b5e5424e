"""Intervals as columns: kept, grouped, joined, added up, stored and sent; the judge is Python."""

from __future__ import annotations

import datetime
import random
from collections import defaultdict
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import sqlview

_US = datetime.timedelta(microseconds=1)
_TABLE = (
    "CREATE TABLE t (id INT PRIMARY KEY, g INT, a TIMESTAMP, b TIMESTAMP, "
    "i INTERVAL DAY TO SECOND, h INTERVAL HOUR, m INTERVAL YEAR TO MONTH)"
)
_VIEWS = {
    "sums": "SELECT g, count(i) AS n, sum(i) AS s, avg(i) AS v, sum(m) AS sm, avg(m) AS vm FROM t "
    "GROUP BY g",
    "ends": "SELECT g, min(i) AS least, max(m) AS most, min(a - b) AS gap FROM t GROUP BY g",
    "kinds": "SELECT m, count(*) AS n, count(DISTINCT h) AS d FROM t GROUP BY m",
    "pairs": "SELECT x.id AS x, y.id AS y FROM t AS x JOIN t AS y ON x.i = y.i AND x.id < y.id",
    "late": "SELECT id, a - b AS gap FROM t WHERE a - b > INTERVAL '1' DAY",
    "ranked": "SELECT id, row_number() OVER (PARTITION BY g ORDER BY i, id) AS r FROM t",
    "longest": "SELECT id, i FROM t ORDER BY i DESC, id LIMIT 3",
    "moved": "SELECT id, a + i AS later, b - m AS before FROM t",
}
_Row = tuple[Any, ...]


def _rows(random: random.Random, ids: range) -> list[_Row]:
    def some(value: Any) -> Any:
        return None if random.random() < 0.15 else value

    start = datetime.datetime(2024, 1, 1, tzinfo=datetime.timezone.utc)
    return [
        (
            i,
            random.randrange(4),
            some(start + datetime.timedelta(hours=random.randrange(-99, 99))),
            some(start + datetime.timedelta(minutes=random.randrange(-999, 999))),
            some(random.choice((-3, 0, 1, 5, 7)) * datetime.timedelta(hours=7, microseconds=3)),
            some(datetime.timedelta(hours=random.randrange(-3, 3))),
            some(random.randrange(-20, 20)),
        )
        for i in ids
    ]


def _half_up(total: int, count: int) -> int:
    whole = int(abs(Fraction(total, count)) + Fraction(1, 2))
    return whole if total >= 0 else -whole


def _shifted(moment: datetime.datetime, months: int) -> datetime.datetime:
    month = moment.year * 12 + moment.month - 1 + months
    year, month = divmod(month, 12)
    following = datetime.date(year + month // 11 * (month == 11), (month + 1) % 12 + 1, 1)
    last = (following - datetime.timedelta(days=1)).day
    return moment.replace(year=year, month=month + 1, day=min(moment.day, last))


def _expected(rows: list[_Row]) -> dict[str, list[_Row]]:
    groups: dict[int, list[_Row]] = defaultdict(list)
    kinds: dict[Any, list[_Row]] = defaultdict(list)
    for row in rows:
        groups[row[1]].append(row)
        kinds[row[6]].append(row)
    found: dict[str, list[_Row]] = {name: [] for name in _VIEWS}
    for g, members in groups.items():
        spans = [r[4] // _US for r in members if r[4] is not None]
        months = [r[6] for r in members if r[6] is not None]
        gaps = [r[2] - r[3] for r in members if r[2] is not None and r[3] is not None]
        found["sums"].append((
            g, len(spans), sum(spans) * _US if spans else None,
            _half_up(sum(spans), len(spans)) * _US if spans else None,
            sum(months) if months else None,
            _half_up(sum(months), len(months)) if months else None,
        ))  # fmt: skip
        found["ends"].append((
            g, min(spans) * _US if spans else None, max(months, default=None),
            min(gaps, default=None),
        ))  # fmt: skip
        order = sorted(members, key=lambda r: (r[4] is not None, r[4] or 0 * _US, r[0]))
        found["ranked"] += [(r[0], place + 1) for place, r in enumerate(order)]
    for m, members in kinds.items():
        found["kinds"].append((m, len(members), len({r[5] for r in members} - {None})))
    for x in rows:
        later = None if x[2] is None or x[4] is None else x[2] + x[4]
        before = None if x[3] is None or x[6] is None else _shifted(x[3], -x[6])
        found["moved"].append((x[0], later, before))
        if x[2] is not None and x[3] is not None and x[2] - x[3] > datetime.timedelta(days=1):
            found["late"].append((x[0], x[2] - x[3]))
        found["pairs"] += [
            (x[0], y[0]) for y in rows if x[4] is not None and x[4] == y[4] and x[0] < y[0]
        ]
    there = sorted((r for r in rows if r[4] is not None), key=lambda r: (-(r[4] // _US), r[0]))
    missing = sorted(r for r in (x[0] for x in rows if x[4] is None))
    longest = [(r[0], r[4]) for r in there] + [(r, None) for r in missing]
    found["longest"] = longest[:3]
    return found


def _compare(db: sqlview.Session, rows: list[_Row]) -> None:
    for name, expected in _expected(rows).items():
        assert sorted(db.view(name).rows(), key=repr) == sorted(expected, key=repr), name


def test_views_over_intervals_under_any_change(tmp_path: Path) -> None:
    draw = random.Random(5)
    rows = {r[0]: r for r in _rows(draw, range(40))}
    path = tmp_path / "store"
    with sqlview.connect(path, placement="inline") as db:
        db.sql(_TABLE)
        with db.transaction() as tx:
            tx.insert("t", list(rows.values()))
        for name, query in _VIEWS.items():
            db.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
        _compare(db, list(rows.values()))
        for step in range(12):
            dead = draw.sample(sorted(rows), 4)
            new = _rows(draw, range(100 + 5 * step, 105 + 5 * step))
            stay = draw.sample(sorted(set(rows) - set(dead)), 6)
            changed = [(old, *_rows(draw, range(1))[0][1:]) for old in stay]
            with db.transaction() as tx:
                tx.delete("t", [(k,) for k in dead])
                tx.insert("t", new)
                tx.upsert("t", changed)
            for k in dead:
                del rows[k]
            rows |= {r[0]: r for r in (*new, *changed)}
            _compare(db, list(rows.values()))
    with sqlview.connect(path, placement="inline") as db:
        _compare(db, list(rows.values()))
        with db.transaction() as tx:
            tx.delete("t", [(k,) for k in rows])
        _compare(db, [])


def test_types_that_leave_and_come() -> None:
    with sqlview.connect(placement="inline") as db:
        db.sql(_TABLE)
        with db.transaction() as tx:
            tx.insert("t", _rows(random.Random(1), range(9)))
        db.sql("CREATE MATERIALIZED VIEW v AS SELECT id, i, m, a - b AS gap FROM t")
        table = db.view("v").to_arrow()
        assert table.schema.field("i").type == pa.duration("us")
        assert table.schema.field("m").type == pa.int32()
        shown = [str(f.type) for f in db.view("v").schema]
        assert shown == [
            "INT", "INTERVAL DAY TO SECOND", "INTERVAL YEAR TO MONTH", "INTERVAL DAY TO SECOND",
        ]  # fmt: skip
        db.sql(
            "CREATE TABLE u (id INT, i INTERVAL DAY TO SECOND, m INTERVAL MONTH, gap INTERVAL DAY)"
        )
        with db.transaction() as tx:
            tx.insert("u", table)
        db.sql("CREATE MATERIALIZED VIEW w AS SELECT * FROM u")
        assert sorted(db.view("w").rows(), key=repr) == sorted(db.view("v").rows(), key=repr)


def test_null_and_what_is_beyond_its_type() -> None:
    with sqlview.connect(placement="inline") as db:
        db.sql("CREATE TABLE t (id INT PRIMARY KEY, n INT)")
        nothing = "CAST(NULL AS INTERVAL DAY) + interval 1 day"
        db.sql(f"CREATE MATERIALIZED VIEW v AS SELECT {nothing} AS x FROM t")
        years = "make_ym_interval(n)"
        db.sql(f"CREATE MATERIALIZED VIEW w AS SELECT {years} - {years} AS x FROM t")
        with db.transaction() as tx:
            tx.insert("t", [(1, None), (2, 100)])
        assert db.view("v").rows() == [(None,), (None,)]
        assert sorted(db.view("w").rows(), key=repr) == [(0,), (None,)]
        with db.transaction() as tx:
            tx.insert("t", [(3, 2_000_000_000)])
        with pytest.raises(sqlview.ViewError, match="INTERVAL_ARITHMETIC_OVERFLOW"):
            db.view("w").rows()
        with db.transaction() as tx:
            tx.delete("t", [(3,)])
        assert sorted(db.view("w").rows(), key=repr) == [(0,), (None,)]


def test_a_table_of_a_views_data_has_its_intervals() -> None:
    with sqlview.connect(placement="inline") as db:
        db.sql(_TABLE)
        db.sql("CREATE MATERIALIZED VIEW v AS SELECT m, CAST(m AS INTERVAL YEAR) AS y FROM t")
        db.create_table("u", db.view("v").to_arrow())
        assert "m INTERVAL YEAR TO MONTH,\n  y INTERVAL YEAR)" in str(db.sql("SHOW CREATE TABLE u"))


def test_a_span_beyond_64_bits_is_refused_with_its_row() -> None:
    with sqlview.connect(placement="inline") as db:
        db.sql("CREATE TABLE t (i INTERVAL DAY TO SECOND)")
        for beyond in (datetime.timedelta.max, datetime.timedelta.min):
            with pytest.raises(sqlview.DataError) as caught, db.transaction() as tx:
                tx.insert("t", [(_US,), (beyond,)])
            assert "row 1 has" in str(caught.value)
            assert "beyond 64 bits of microseconds" in str(caught.value)


def test_signs_are_functions_too() -> None:
    with sqlview.connect(placement="inline") as db:
        db.sql("CREATE TABLE t (i INTERVAL HOUR, m INTERVAL MONTH)")
        db.sql("CREATE MATERIALIZED VIEW v AS SELECT negative(i), positive(i), negative(m) FROM t")
        with db.transaction() as tx:
            tx.insert("t", [(datetime.timedelta(hours=3), 2)])
        hours = datetime.timedelta(hours=3)
        assert db.view("v").rows() == [(-hours, hours, -2)]


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("SELECT i + m AS x FROM t", "does not take INTERVAL DAY TO SECOND and INTERVAL YEAR TO"),
        ("SELECT i > m AS x FROM t", "INTERVAL YEAR TO MONTH"),
        ("SELECT i * i AS x FROM t", "operator * does not take"),
        ("SELECT sum(try_add(i, i)) AS x FROM t", "operator + does not take"),
        ("SELECT extract(MONTH FROM i) AS x FROM t", "INTERVAL DAY TO SECOND has no MONTH"),
        ("SELECT CAST(i AS INT) AS x FROM t", "cannot cast INTERVAL DAY TO SECOND to INT"),
        ("SELECT CAST('1' AS INTERVAL DAY) AS x FROM t", "cannot cast STRING to INTERVAL DAY"),
        ("SELECT CAST(i AS INTERVAL SECOND TO DAY) AS x FROM t", "there is no type INTERVAL"),
        ("SELECT sqrt(i) AS x FROM t", "SQRT needs a number"),
        ("SELECT sin(i) AS x FROM t", "POSITIVE needs a number"),
        ("SELECT make_dt_interval(i) AS x FROM t", "POSITIVE needs a number"),
        ("SELECT stddev(i) AS x FROM t", "STDDEV"),
        (
            "SELECT from_json('{}', 'a ARRAY<INTERVAL DAY>') AS x",
            "FROM_JSON does not read INTERVAL",
        ),
    ],
)
def test_what_is_no_sum_of_intervals_is_refused(query: str, said: str) -> None:
    with sqlview.connect(placement="inline") as db:
        db.sql(_TABLE)
        with pytest.raises(sqlview.SqlViewError) as caught:
            db.sql(f"CREATE MATERIALIZED VIEW v AS {query}")
    assert said in str(caught.value)


def test_spark_gives_takes_and_verifies_them(spark: Any) -> None:
    with sqlview.connect(spark=spark, placement="spark") as db:
        db.sql(_TABLE)
        rows = _rows(random.Random(2), range(60))
        for name, query in _VIEWS.items():
            db.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
        with db.transaction() as tx:
            tx.insert("t", rows)
        _compare(db, rows)
        for name in ("sums", "late", "moved", "kinds"):
            assert db.verify(name).equal
        frame = db.view("late").to_df()
        assert frame.schema["gap"].dataType.simpleString() == "interval day to second"
        kinds = db.view("kinds").to_df()
        assert kinds.schema["m"].dataType.simpleString() == "interval year to month"
        db.sql("CREATE TABLE kept AS SELECT interval '1-2' year to month AS m, 1 AS n, 2 AS d")
        assert "m INTERVAL YEAR TO MONTH" in str(db.sql("SHOW CREATE TABLE kept"))
        with db.transaction() as tx:
            tx.insert("kept", kinds.selectExpr("m", "INT(n) AS n", "INT(d) AS d"))
        db.sql("CREATE MATERIALIZED VIEW all_kept AS SELECT m FROM kept")
        found = sorted(db.view("all_kept").rows(), key=repr)
        assert found == sorted([(14,), *((r[0],) for r in db.view("kinds").rows())], key=repr)
        with pytest.raises(sqlview.SqlViewError, match="of a type that Arrow lacks"):
            db.sql("SELECT array(interval '1' month) AS a").rows()
        db.sql("CREATE TABLE u (id INT, gap INTERVAL DAY TO SECOND)")
        with db.transaction() as tx:
            tx.insert("u", frame)
        db.sql("CREATE MATERIALIZED VIEW w AS SELECT * FROM u")
        assert sorted(db.view("w").rows()) == sorted(db.view("late").rows())
