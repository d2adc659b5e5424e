"""Subscribers that fail, read, and change tables."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

import sqlview


@pytest.fixture
def db() -> Iterator[sqlview.Session]:
    with sqlview.connect() as session:
        session.sql("CREATE TABLE k (id BIGINT PRIMARY KEY)")
        session.sql("CREATE TABLE log (n BIGINT)")
        session.sql("CREATE MATERIALIZED VIEW size AS SELECT count(*) AS n FROM k")
        session.sql("CREATE MATERIALIZED VIEW logged AS SELECT count(*) AS n FROM log")
        yield session


def insert(db: sqlview.Session, table: str, value: int) -> sqlview.Transaction:
    with db.transaction() as tx:
        tx.insert(table, [(value,)])
    return tx


def test_a_subscriber_that_fails_undoes_nothing_and_stops_nobody(db: sqlview.Session) -> None:
    heard: list[pa.Table] = []

    def fail(_: pa.Table) -> None:
        raise RuntimeError("no disk")

    db.subscribe("size", fail)
    db.subscribe("size", heard.append)
    tx = db.begin()
    tx.insert("k", [(1,)])
    with pytest.raises(sqlview.SubscriberError, match='view "size" failed: RuntimeError: no disk'):
        db.apply([tx])
    assert tx.epoch == db.epoch == 1
    assert db.view("size").rows() == [(1,)]
    assert len(heard) == 1
    with pytest.raises(sqlview.SubscriberError):
        insert(db, "k", 2)
    assert db.view("size").rows() == [(2,)]
    assert db.verify("size").equal
    assert len(heard) == 2


def test_a_subscriber_sees_the_epoch_that_it_is_told_of(db: sqlview.Session) -> None:
    seen: list[tuple[int, object]] = []
    db.subscribe("size", lambda _: seen.append((db.epoch, db.view("size").rows())))
    insert(db, "k", 1)
    insert(db, "k", 2)
    assert seen == [(1, [(1,)]), (2, [(2,)])]


def test_what_a_subscriber_changes_is_told_after_what_it_heard(db: sqlview.Session) -> None:
    order: list[str] = []

    def log(_: pa.Table) -> None:
        insert(db, "log", 1)
        order.append("size, first")

    db.subscribe("size", log)
    db.subscribe("logged", lambda _: order.append("logged"))
    db.subscribe("size", lambda _: order.append("size, second"))
    insert(db, "k", 1)
    assert order == ["size, first", "size, second", "logged"]
    assert db.epoch == 2
