"""A scripted life of a store: what a session does, one operation after the other, with every kind
of operator under change, stores that are opened again, and checkpoints.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

import sqlview
from operators.checkpoint import stored_dead, stored_values
from operators.state.publish import Publisher
from sqlview.oracle import canonical_rows

Operation = Callable[[Any], None]
State = dict[str, Any]


def statement(text: str) -> Operation:
    """Run it."""
    return lambda db: db.sql(text)


def _view(name: str, query: str) -> Operation:
    return statement(f"CREATE MATERIALIZED VIEW IF NOT EXISTS {name} AS {query}")


def changing(*changes: tuple[str, str, list[Any]]) -> Operation:
    """Commit changes, each a method of transactions, a table and rows."""

    def commit(db: Any) -> None:
        with db.transaction() as tx:
            for action, table, rows in changes:
                getattr(tx, action)(table, rows)

    return commit


def _many(db: Any) -> None:
    with db.transactions() as txs:
        txs.upsert("t", [(2, 9, "z", 1.5), (7, 1, None, None)], times=[0, 2])
        txs.delete("t", [(3,)], times=[1])


def _refused(db: Any) -> None:
    """Of which nothing is kept."""
    with pytest.raises(sqlview.DataError), db.transaction() as tx:
        tx.insert("t", [(i, 0, "refused" * 200, None) for i in (60, 61, 62, 2)])


def _together(db: Any) -> None:
    """Commits of three threads that wait for the session, which share a step and a record."""
    errors: list[BaseException] = []

    def commit(tx: Any) -> None:
        try:
            db.apply([tx])
        except BaseException as error:
            errors.append(error)

    threads = []
    for k in (70, 71, 72):
        tx = db.begin()
        tx.upsert("t", [(k, 1, "together", float(k))])
        threads.append(threading.Thread(target=commit, args=(tx,)))
    with db._lock:
        for at, thread in enumerate(threads):
            thread.start()
            while len(db._commits._waiting) == at and thread.is_alive():
                threading.Event().wait(0.0001)  # in order
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def _checkpoint(db: Any) -> None:
    if db._store is not None:
        db.checkpoint()


def _publish(db: Any) -> None:
    """What a step on Spark publishes; if it cannot, the step goes on without."""
    if db._store is None:
        return
    flow = db._dataflow
    publisher = Publisher(os.path.join(db._store.path, "session-1"), db._store.values)
    with (
        suppress(OSError),
        publisher.publication(stored_values(flow), stored_dead(flow)) as job,
    ):
        for _, rows in flow.relations():
            job.relation(rows, range(len(rows.schema)), None)
        for index in flow.indexes:
            job.index(index.state)
    publisher.collect(stored_values(flow), stored_dead(flow))


def _created_with_rows(db: Any) -> None:
    if "made" not in db.sql("SHOW TABLES").to_arrow()["table"].to_pylist():
        db.create_table("made", {"a": [1, 2, 2], "b": ["x", None, "y"]})


def _widened(db: Any) -> None:
    if len(db.sql("SHOW COLUMNS IN made").rows()) == 2:
        db.sql("ALTER TABLE made ADD COLUMN c STRING NOT NULL DEFAULT 'there'")


def _renamed(db: Any) -> None:
    if "made" in db.sql("SHOW TABLES").to_arrow()["table"].to_pylist():
        db.sql("ALTER TABLE made RENAME TO finished")


LIFE: tuple[Operation | str, ...] = (
    statement("CREATE TABLE IF NOT EXISTS t (k INT PRIMARY KEY, g INT, s STRING, f DOUBLE)"),
    statement("CREATE TABLE IF NOT EXISTS bag (g INT, d DECIMAL(20,3), day DATE)"),
    changing(("insert", "t", [(i, i % 3, "abc"[i % 3], i / 2) for i in range(6)])),
    _view("sums", "SELECT g, count(*) AS n, sum(f) AS f, max(s) AS top FROM t GROUP BY g"),
    _view(
        "joined",
        "SELECT t.k, bag.d, sums.n FROM t LEFT JOIN bag ON t.g = bag.g JOIN sums ON sums.g = t.g",
    ),
    changing(("insert", "bag", [(0, 1, None), (0, 1, None), (2, 3, None)])),
    _view("firsts", "SELECT k, s FROM t ORDER BY s DESC, k LIMIT 2"),
    _view("above", "SELECT k FROM t WHERE f > (SELECT avg(n) FROM sums)"),
    "open",
    changing(
        ("upsert", "t", [(1, 2, "q", None), (9, 0, "new", 8.0)]), ("delete", "bag", [(0, 1, None)])
    ),
    statement("CREATE STREAM IF NOT EXISTS events (g INT)"),
    _view("seen", "SELECT g, count(*) AS n, max(g) AS m FROM events GROUP BY g"),
    changing(("insert", "events", [(1,), (1,), (None,)]), ("delete", "t", [(5,)])),
    _many,
    _refused,
    _together,
    "open",
    changing(("insert", "events", [(1,)]), ("insert", "bag", [(1, 2, None)])),
    statement(
        "CREATE OR REPLACE MATERIALIZED VIEW above AS SELECT g, median(f) AS m,"
        " listagg(s) WITHIN GROUP (ORDER BY s) AS l FROM t GROUP BY g"
    ),
    _created_with_rows,
    _view("star", "SELECT * FROM made"),
    _widened,
    statement("DROP MATERIALIZED VIEW IF EXISTS firsts"),
    changing(("upsert", "t", [(1, 1, "again", 0.25)])),
    statement("DROP MATERIALIZED VIEW IF EXISTS seen"),
    _publish,
    _checkpoint,
    _view("kinds", "SELECT DISTINCT g, d FROM bag WHERE d > 0.5"),
    changing(("insert", "bag", [(5, 7, None)]), ("delete", "t", [(0,)])),
    _publish,
    _checkpoint,
    "open",
    _publish,
    _checkpoint,
    changing(("insert", "t", [(50, 5, "last", -0.0)])),
    _renamed,
    changing(
        ("insert", "finished", [(3, None, "new")]), ("delete", "finished", [(1, "x", "there")])
    ),
    statement("DROP MATERIALIZED VIEW IF EXISTS star"),
    statement("DROP TABLE IF EXISTS finished"),
)


#: Whose events are gone.
OVER_STREAMS = ("seen",)


def state_of(db: Any) -> State:
    """All that a session shows."""
    found: State = {"epoch": db.epoch}
    for name in db.sql("SHOW VIEWS").to_arrow()["view"].to_pylist():
        found[name] = sorted(canonical_rows(db.view(name).to_arrow()), key=str)
    for name in db.sql("SHOW TABLES").to_arrow()["table"].to_pylist():
        found[f"table {name}"] = sorted(canonical_rows(db._read(name)), key=str)
    return found


def states(verified: bool = False) -> list[State]:
    """What is there after each operation, and before all of them. `verified`: DuckDB says so, too;
    then it is right wherever it is found again."""
    with sqlview.connect() as db:
        found = [state_of(db)]
        for operation in LIFE:
            if not isinstance(operation, str):
                operation(db)
                if verified:
                    verify(db)
            found.append(state_of(db))
    return found


def verify(db: Any) -> None:
    """Every view is what DuckDB makes of the tables."""
    for name in db.sql("SHOW VIEWS").to_arrow()["view"].to_pylist():
        if name not in OVER_STREAMS:
            assert db.verify(name, engine="duckdb").equal, name
