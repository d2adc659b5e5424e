"""Transactions and subscribers used as nobody meant them: each use has an outcome, and the session
goes on."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sqlview
from sqlview import SqlViewError


def fresh() -> sqlview.Session:
    session = sqlview.connect()
    session.sql("CREATE TABLE t (a INT PRIMARY KEY, b INT)")
    session.sql("CREATE MATERIALIZED VIEW v AS SELECT b, count(*) AS n FROM t GROUP BY b")
    return session


@pytest.fixture
def db() -> Iterator[sqlview.Session]:
    with fresh() as session:
        yield session


def insert(db: sqlview.Session, a: int, b: int = 0) -> None:
    with db.transaction() as tx:
        tx.insert("t", [(a, b)])


# -- transactions --------------------------------------------------------------------------------


def test_a_transaction_of_another_session(db: sqlview.Session) -> None:
    with fresh() as other:
        ours, theirs = db.begin(), other.begin()
        ours.insert("t", [(1, 1)])
        theirs.insert("t", [(2, 1)])
        with pytest.raises(sqlview.DataError, match="of another session"):
            db.apply([ours, theirs])
        assert (db.epoch, other.epoch) == (0, 0)
        assert db.apply([ours]) == [1]
        assert other.apply([theirs]) == [1]


def test_a_table_that_was_dropped_and_made_again(db: sqlview.Session) -> None:
    tx = db.begin()
    tx.insert("t", [(1, 1)])
    db.sql("DROP MATERIALIZED VIEW v")
    db.sql("DROP TABLE t")
    with pytest.raises(sqlview.CatalogError, match="does not exist"):
        tx.insert("t", [(2, 1)])
    db.sql("CREATE TABLE t (a INT PRIMARY KEY, b INT)")
    with pytest.raises(sqlview.DataError, match="was dropped since the transaction began"):
        db.apply([tx])
    assert db.epoch == 0
    insert(db, 3)
    assert db.epoch == 1


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit, GeneratorExit])
def test_a_block_that_raises(db: sqlview.Session, error: type[BaseException]) -> None:
    def failing(tx: sqlview.Transaction) -> None:
        with tx:
            tx.insert("t", [(1, 1)])
            raise error

    tx = db.transaction()
    with pytest.raises(error):
        failing(tx)
    with pytest.raises(sqlview.DataError, match="was given up when its block raised"):
        tx.insert("t", [(1, 1)])
    with pytest.raises(sqlview.DataError, match="was given up"):
        db.apply([tx])
    assert db.epoch == 0 and not db.view("v").rows()
    insert(db, 1)


def test_a_refused_call_leaves_the_others(db: sqlview.Session) -> None:
    with db.transaction() as tx:
        tx.insert("t", [(1, 1)])
        for bad in ([(2, "x")], [(None, 1)], [(2, 1, 1)], object()):
            with pytest.raises(sqlview.DataError):
                tx.insert("t", bad)  # type: ignore[arg-type]
        tx.insert("t", [(3, 1)])
    assert db.view("v").rows() == [(1, 2)]


def test_a_refused_transaction_can_be_applied_later(db: sqlview.Session) -> None:
    insert(db, 1)
    tx, remove = db.begin(), db.begin()
    tx.insert("t", [(1, 2)])
    with pytest.raises(sqlview.DataError, match="the key is there already"):
        db.apply([tx])
    remove.delete("t", [(1,)])
    assert db.apply([remove, tx]) == [2, 3]
    with pytest.raises(sqlview.DataError, match="is committed already"):
        tx.insert("t", [(5, 5)])


def test_a_transaction_that_two_threads_use(db: sqlview.Session) -> None:
    """One adds while the other commits: what was added is in it, or the call is refused."""
    added: list[int] = []
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for round_ in range(20):
            tx = db.begin()
            started = threading.Event()

            def adding(
                tx: sqlview.Transaction = tx,
                started: threading.Event = started,
                first: int = 1000 * round_,
            ) -> None:
                for a in range(first, first + 1000):
                    try:
                        tx.insert("t", [(a, 0)])
                    except sqlview.DataError:
                        return
                    added.append(a)
                    started.set()

            thread = threading.Thread(target=adding)
            thread.start()
            started.wait()
            assert db.apply([tx]) == [round_ + 1]
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert db._read("t").column("a").to_pylist() == added


def test_commits_from_many_threads(db: sqlview.Session) -> None:
    """Each has an epoch of its own; subscribers hear all of them in order."""
    heard: list[int] = []
    db.subscribe("v", lambda changes: heard.extend(changes.column("__time").to_pylist()))
    epochs: list[int] = []

    def committing(first: int) -> None:
        for a in range(first, first + 25):
            tx = db.begin()
            tx.insert("t", [(a, a % 5)])
            epochs.extend(db.apply([tx]))

    threads = [threading.Thread(target=committing, args=(100 * i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert sorted(epochs) == list(range(1, 101))
    assert heard == sorted(heard) and set(heard) == set(range(1, 101))
    assert db.view("v").rows() and db.verify("v").equal


# -- subscribers ---------------------------------------------------------------------------------


def times(changes: pa.Table) -> set[int]:
    return set(changes.column("__time").to_pylist())


def test_a_subscriber_that_commits(db: sqlview.Session) -> None:
    """What it commits is told when all have heard of this; each of its own, in the end."""
    heard: list[tuple[str, set[int]]] = []

    def committing(changes: pa.Table) -> None:
        heard.append(("first", times(changes)))
        if db.epoch < 3:
            insert(db, db.epoch)

    db.subscribe("v", committing)
    db.subscribe("v", lambda changes: heard.append(("second", times(changes))))
    insert(db, 100)
    assert db.epoch == 3
    assert heard == [(who, {epoch}) for epoch in (1, 2, 3) for who in ("first", "second")]


def test_a_subscriber_whose_commit_is_refused(db: sqlview.Session) -> None:
    """It is its own failure."""

    def committing(changes: pa.Table) -> None:
        insert(db, 1)

    db.subscribe("v", committing)
    with pytest.raises(sqlview.SubscriberError, match="the key is there already") as caught:
        insert(db, 1)
    assert isinstance(caught.value.__cause__, sqlview.DataError)
    assert db.epoch == 1 and db.view("v").rows() == [(0, 1)]


def test_a_subscriber_that_closes_the_session() -> None:
    db = fresh()
    heard: list[set[int]] = []
    db.subscribe("v", lambda changes: db.close())
    db.subscribe("v", lambda changes: heard.append(times(changes)))
    insert(db, 1)
    assert heard == [{1}]
    with pytest.raises(sqlview.SqlViewError, match="the session is closed"):
        insert(db, 2)


@pytest.mark.parametrize(
    "statement",
    ["DROP MATERIALIZED VIEW v", "CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT a FROM t"],
)
def test_a_subscriber_that_drops_its_view(db: sqlview.Session, statement: str) -> None:
    """All hear of the step that was; after a drop nobody hears of later ones."""
    heard: list[list[str]] = []

    def dropping(changes: pa.Table) -> None:
        if len(heard) == 1:
            db.sql(statement)

    db.subscribe("v", lambda changes: heard.append(changes.column_names))
    db.subscribe("v", dropping)
    insert(db, 1)
    insert(db, 2)
    signed = ["__time", "__diff"]
    first, rest = heard[0], heard[1:]
    assert first == ["b", "n", *signed]
    if statement.startswith("DROP"):
        assert rest == []
    else:
        assert rest == [["b", "n", *signed], ["a", *signed], ["a", *signed]]


def test_a_subscriber_that_subscribes(db: sqlview.Session) -> None:
    """The new one hears of what comes after."""
    heard: list[set[int]] = []

    def subscribing(changes: pa.Table) -> None:
        db.subscribe("v", lambda changes: heard.append(times(changes)))

    db.subscribe("v", subscribing)
    insert(db, 1)
    assert heard == []
    insert(db, 2)
    assert heard == [{2}]
    insert(db, 3)
    assert heard == [{2}, {3}, {3}]


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_a_subscriber_that_interrupts(db: sqlview.Session, error: type[BaseException]) -> None:
    """It goes through the commit, which is done; others hear of it with the next step."""
    heard: list[set[int]] = []
    interrupting = [True]

    def callback(changes: pa.Table) -> None:
        if interrupting.pop():
            raise error

    db.subscribe("v", callback)
    db.subscribe("v", lambda changes: heard.append(times(changes)))
    tx = db.begin()
    tx.insert("t", [(1, 1)])
    with pytest.raises(error):
        db.apply([tx])
    assert tx.epoch == db.epoch == 1 and db.view("v").rows() == [(1, 1)]
    assert heard == []
    interrupting.append(False)
    insert(db, 2)
    assert heard == [{1}, {2}]


def test_a_subscriber_that_looks(db: sqlview.Session) -> None:
    looked: list[object] = []
    uses: list[Callable[[], object]] = [
        lambda: db.view("v").rows(),
        lambda: db.verify("v").equal,
        lambda: db.state().num_rows,
        lambda: db.metrics().operators,
        lambda: len(db.sql("SHOW VIEWS")),
    ]
    db.subscribe("v", lambda changes: looked.extend(use() for use in uses))
    insert(db, 1)
    assert looked[:2] == [[(0, 1)], True] and len(looked) == len(uses)


def _endless() -> list[Any]:
    values: list[Any] = [1]
    values.append(values)
    return values


def test_lists_that_hold_themselves_are_refused(db: sqlview.Session) -> None:
    """pyarrow would take the process along."""
    db.sql("CREATE TABLE endless (k INT PRIMARY KEY, v STRING)")
    with pytest.raises(SqlViewError, match="of no one type"):
        db.create_table("more", {"k": [1, 2], "v": _endless()})
    with pytest.raises(SqlViewError, match="of no one type"):
        db.create_table("more", [{"k": 1, "v": {"of": _endless()}}])
    for rows in ([(1, _endless())], {"k": np.array([1, _endless()], dtype=object), "v": ["", ""]}):
        for cast in (False, True):
            with pytest.raises(SqlViewError), db.transaction() as tx:
                tx.insert("endless", rows, cast=cast)
    for times in (_endless(), np.array([1, _endless()], dtype=object), [_endless(), _endless()]):
        with pytest.raises(SqlViewError, match="times are integers"), db.transactions() as txs:
            txs.insert("endless", [(1, "a"), (2, "b")], times=times)
