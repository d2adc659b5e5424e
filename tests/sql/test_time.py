"""Traps: views and readers that come and go while tables change."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from sqlview.oracle import canonical_rows
from tests.conftest import Connect
from tests.harness import Checked
from tests.properties.streams import Stream
from tests.reference.tables import Row, delete, insert, upsert
from tests.sql.scenario import run_random

#: Views of each kind of state: joins, padding, presence, extremes, distinct values, thresholds.
VIEWS = {
    "joined": "SELECT a.id, b.y FROM a JOIN b ON a.k = b.k",
    "padded": "SELECT a.id, b.y FROM a LEFT JOIN b ON a.k = b.k",
    "present": "SELECT id FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.k = a.k AND b.y > a.x)",
    "absent": "SELECT id FROM a WHERE k NOT IN (SELECT k FROM b)",
    "extremes": "SELECT k, min(y) AS lo, max(y) AS hi FROM b GROUP BY k",
    "different": "SELECT count(DISTINCT k) AS n, sum(DISTINCT y) AS s FROM b",
    "above": "SELECT id FROM a WHERE x > (SELECT avg(y) FROM b)",
    "first": "SELECT k, y FROM b ORDER BY y DESC LIMIT 3",
    "without": "SELECT k FROM a EXCEPT ALL SELECT k FROM b",
}

each_view = pytest.mark.parametrize("name", list(VIEWS))


def _session(connect: Connect) -> Checked:
    checked = connect()
    checked.create_table("a", "id INT, k INT, x INT", ("id",))
    checked.create_table("b", "k INT, y INT")
    return checked


@each_view
def test_a_new_view_on_live_arrangements_sees_all_of_one_epoch(name: str, connect: Connect) -> None:
    checked = _session(connect)
    for other, query in VIEWS.items():
        checked.create_view(other, query)
    run_random(checked, seed=len(name), epochs=6)
    # Everything that it needs is live, also with rows that have died since.
    checked.create_view("late", VIEWS[name])
    run_random(checked, seed=len(name) + 1, epochs=6)
    checked.create_view("later", f"SELECT count(*) AS n FROM {name}")
    run_random(checked, seed=len(name) + 2, epochs=3)


@each_view
def test_a_dropped_view_leaves_what_it_shared_to_others(name: str, connect: Connect) -> None:
    checked = _session(connect)
    checked.create_view("one", VIEWS[name])
    checked.create_view("two", VIEWS[name])
    run_random(checked, seed=7, epochs=4)
    checked.drop_view("one")
    run_random(checked, seed=8, epochs=4)
    checked.drop_view("two")
    left = checked.db.arrangements().num_rows
    run_random(checked, seed=9, epochs=2)
    checked.create_view("one", VIEWS[name])
    run_random(checked, seed=10, epochs=4)
    checked.drop_view("one")
    assert checked.db.arrangements().num_rows == left


@each_view
def test_a_late_subscriber_hears_what_follows(name: str, connect: Connect) -> None:
    checked = _session(connect)
    checked.create_view("v", VIEWS[name])
    run_random(checked, seed=11, epochs=5)
    before = Counter(canonical_rows(checked.db.view("v").to_arrow()))
    heard: list[object] = []
    checked.db.subscribe("v", heard.append)
    epoch = checked.db.epoch
    run_random(checked, seed=12, epochs=8)
    total: Counter[Row] = before.copy()
    for batch in heard:
        for *row, time, diff in canonical_rows(batch):
            assert time > epoch
            total[tuple(row)] += diff
    assert +total == Counter(canonical_rows(checked.db.view("v").to_arrow()))


def test_views_over_tables_that_are_filled_in_any_order(connect: Connect) -> None:
    for order in (("a", "b"), ("b", "a")):
        checked = _session(connect)
        for name, query in VIEWS.items():
            checked.create_view(name, query)
        stream = Stream(Random(3), checked.tables)
        filling = stream.filling()
        for table in order:
            checked.step(*(change for change in filling if change.table == table))
        for table in order:
            rows = checked.tables[table].rows.elements()
            checked.step(delete(table, *rows))


def test_a_late_view_over_a_view_in_error(connect: Connect) -> None:
    checked = _session(connect)
    checked.step(insert("a", (1, 0, 5), (2, 2, 5)))
    checked.create_view("q", "SELECT id, x / k AS q FROM a")
    checked.create_view("n", "SELECT count(*) AS n FROM q")
    checked.error("q")
    checked.error("n")
    checked.step(upsert("a", (1, 5, 5)))
    assert checked.rows("n") == [(2,)]
    assert sorted(checked.rows("q")) == [(1, 1.0), (2, 2.5)]
    checked.step(upsert("a", (1, 0, 5)))
    checked.step(delete("a", (1, 0, 5)))
    assert checked.rows("n") == [(1,)]
