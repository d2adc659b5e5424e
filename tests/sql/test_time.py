"""Traps: views and readers that come and go while tables change."""

from __future__ import annotations

from collections import Counter
from itertools import count
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from operators.dataflow import Dataflow, _Rows
from operators.kernels.memory import BLOCK_ROWS
from operators.table import TableState
from planner.errors import CatalogError
from sqlview.oracle import canonical_rows
from sqlview.writer import Writer
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


def test_a_held_result_outlives_the_compaction_of_its_rows(connect: Connect) -> None:
    """Tables of more than one block: what was read stays, and a late view finds what is left."""
    db = connect().db
    query = "SELECT id, s, v FROM t WHERE v % 2 = 0"
    db.sql("CREATE TABLE t (id INT PRIMARY KEY, s STRING, v BIGINT)")
    db.sql(f"CREATE MATERIALIZED VIEW v AS {query}")
    n = 3 * BLOCK_ROWS
    heard: list[pa.Table] = []
    db.subscribe("v", heard.append)
    rows = {"id": pa.array(range(n), pa.int32()), "s": [f"text {i}" for i in range(n)],
            "v": pa.array(range(n), pa.int64())}  # fmt: skip
    with db.transaction() as tx:
        tx.insert("t", pa.table(rows))
    held = db.view("v").to_arrow()
    copies = [pa.Table.from_pylist(x.to_pylist(), schema=x.schema) for x in (held, heard[0])]
    full = db.metrics().table_bytes
    for part in range(3):
        gone = range(part * BLOCK_ROWS, (part + 1) * BLOCK_ROWS - 10)
        with db.transaction() as tx:
            tx.delete("t", pa.table({"id": pa.array(gone, pa.int32())}))
            tx.upsert("t", [(part, "again", 2)])
    assert db.metrics().table_bytes < full / 2, "nothing was compacted"
    assert held.equals(copies[0])
    assert heard[0].equals(copies[1])
    db.sql(f"CREATE MATERIALIZED VIEW late AS {query}")
    db.sql("CREATE MATERIALIZED VIEW pairs AS SELECT a.id, b.s FROM t a JOIN t b ON a.v = b.id")
    with db.transaction() as tx:
        tx.upsert("t", [(n - 1, "last", 4), (1, "first", 0)])
        tx.delete("t", [(0,)])
    for name in ("v", "late", "pairs"):
        assert db.verify(name).equal


def _fail_at(patch: pytest.MonkeyPatch, owner: type, method: str, nth: int) -> None:
    plain, calls = getattr(owner, method), count(1)

    def failing(*args: object, **kwargs: object) -> object:
        if next(calls) == nth:
            raise MemoryError("as if")
        return plain(*args, **kwargs)

    patch.setattr(owner, method, failing)


def _insert_both(db: Any) -> None:
    with db.transaction() as tx:
        tx.insert("a", [(99, 1, 1)])
        tx.insert("b", [(1, 1)])


@pytest.mark.parametrize(
    ("owner", "method", "nth"),
    [
        (TableState, "write", 1),
        (TableState, "write", 2),
        (Dataflow, "run", 1),
        (Dataflow, "run", 4),
        (Writer, "_count", 1),
    ],
)
def test_a_step_that_dies_between_two_writes_never_was(
    owner: type, method: str, nth: int, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No reader ever sees tables and views at different epochs."""
    checked = _session(connect)
    for name, query in VIEWS.items():
        checked.create_view(name, query)
    run_random(checked, seed=21, epochs=3)
    before = checked.db.epoch
    with monkeypatch.context() as patch:
        _fail_at(patch, owner, method, nth)
        checked.unchanged_by(MemoryError, lambda: _insert_both(checked.db), before)
    run_random(checked, seed=22, epochs=3)
    checked.verify()


def test_what_fails_at_the_end_of_a_step_is_done_by_the_next_one(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The step has happened; forgetting old versions and merging are taken up later."""
    checked = _session(connect)
    for name, query in VIEWS.items():
        checked.create_view(name, query)
    run_random(checked, seed=21, epochs=3)
    before = checked.db.epoch
    with monkeypatch.context() as patch:
        _fail_at(patch, Dataflow, "commit", 1)
        checked.step(insert("a", (99, 1, 1)), insert("b", (1, 1)))
    assert checked.db.epoch == before + 1
    run_random(checked, seed=22, epochs=3)
    checked.verify()


@each_view
def test_a_view_that_fails_while_it_is_built_leaves_nothing(
    name: str, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    def live() -> list[dict[str, object]]:
        held = checked.db.arrangements().select(["relation", "key", "readers"])
        rows: list[dict[str, object]] = held.to_pylist()
        return rows

    checked = _session(connect)
    checked.create_view("other", VIEWS["joined"])
    run_random(checked, seed=22, epochs=4)
    before, failures = live(), 0
    calls = ((Dataflow, "keep"), (Dataflow, "index"), (_Rows, "start"), (_Rows, "whole"))
    for kind, method in calls:
        for nth in (1, 2, 3):
            failed = False
            with monkeypatch.context() as patch:
                _fail_at(patch, kind, method, nth)
                try:
                    checked.db.sql(f"CREATE MATERIALIZED VIEW v AS {VIEWS[name]}")
                except MemoryError:
                    failed = True
            if not failed:  # it has fewer such calls
                checked.db.sql("DROP MATERIALIZED VIEW v")
            failures += failed
            with pytest.raises(CatalogError):
                checked.db.view("v")
            assert live() == before
    assert failures > 0
    checked.create_view("v", VIEWS[name])
    run_random(checked, seed=23, epochs=4)
