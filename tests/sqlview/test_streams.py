"""Streams: what their views hold, what is refused and why, what is shown."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import sqlview
from sqlview import (
    BindError,
    CatalogError,
    DataError,
    Session,
    SqlSyntaxError,
    UnsupportedError,
    ViewError,
)


@pytest.fixture
def db() -> Iterator[Session]:
    with sqlview.connect(placement="inline") as session:
        session.sql("CREATE STREAM clicks (who STRING, n INT NOT NULL)")
        session.sql("CREATE TABLE people (name STRING PRIMARY KEY, country STRING)")
        yield session


def rows(db: Session, view: str) -> list[tuple[object, ...]]:
    return sorted(db.view(view).rows(), key=repr)


def send(db: Session, *events: tuple[object, ...]) -> None:
    with db.transaction() as tx:
        tx.insert("clicks", list(events))


def test_a_view_sees_the_events_after_its_installation(db: Session) -> None:
    db.sql("CREATE MATERIALIZED VIEW early AS SELECT who, sum(n) AS s FROM clicks GROUP BY who")
    send(db, ("ann", 1), ("ann", 2))
    db.sql("CREATE MATERIALIZED VIEW late AS SELECT who, sum(n) AS s FROM clicks GROUP BY who")
    assert rows(db, "late") == []
    send(db, ("ann", 4))
    assert rows(db, "early") == [("ann", 7)]
    assert rows(db, "late") == [("ann", 4)]
    db.sql("DROP MATERIALIZED VIEW early")
    db.sql("CREATE MATERIALIZED VIEW early AS SELECT who, sum(n) AS s FROM clicks GROUP BY who")
    send(db, ("ann", 8))
    assert rows(db, "early") == [("ann", 8)]
    assert rows(db, "late") == [("ann", 12)]


def test_replacing_a_view_starts_it_anew(db: Session) -> None:
    db.sql("CREATE MATERIALIZED VIEW v AS SELECT who, n FROM clicks")
    send(db, ("ann", 1))
    db.sql("CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT who, n FROM clicks")
    assert rows(db, "v") == []


def test_an_event_meets_the_tables_of_its_own_epoch_alone(db: Session) -> None:
    db.sql("""CREATE MATERIALIZED VIEW v AS
              SELECT country, n FROM clicks LEFT JOIN people ON who = name""")
    with db.transaction() as tx:  # before and after the table's change in the same transaction
        tx.insert("clicks", [("ann", 1)])
        tx.insert("people", [("ann", "FR")])
        tx.insert("clicks", [("ann", 2), ("bob", 3)])
    assert rows(db, "v") == [("FR", 1), ("FR", 2), (None, 3)]
    with db.transaction() as tx:
        tx.upsert("people", [("ann", "DE")])
        tx.insert("people", [("bob", "DE")])
    assert rows(db, "v") == [("FR", 1), ("FR", 2), (None, 3)]
    send(db, ("ann", 4))
    assert rows(db, "v") == [("DE", 4), ("FR", 1), ("FR", 2), (None, 3)]


def test_each_transaction_of_a_step_has_its_own_instant(db: Session) -> None:
    db.sql("CREATE MATERIALIZED VIEW v AS SELECT country, n FROM clicks JOIN people ON who = name")
    begun = [db.begin() for _ in range(4)]
    begun[0].insert("clicks", [("ann", 0)])
    begun[1].insert("people", [("ann", "FR")])
    begun[2].insert("clicks", [("ann", 2)])
    begun[3].delete("people", [("ann",)])
    begun[3].insert("clicks", [("ann", 3)])
    db.apply(begun)
    assert rows(db, "v") == [("FR", 2)]


def test_what_is_made_of_events_follows_like_a_table(db: Session) -> None:
    """An aggregate over events is a collection that stays: a join with it follows both sides."""
    db.sql("""CREATE MATERIALIZED VIEW v AS
              SELECT country, s FROM people
              JOIN (SELECT who, sum(n) AS s FROM clicks GROUP BY who) ON who = name""")
    send(db, ("ann", 1), ("ann", 2))
    assert rows(db, "v") == []
    with db.transaction() as tx:
        tx.insert("people", [("ann", "FR")])
    assert rows(db, "v") == [("FR", 3)]


def test_views_over_views_of_a_stream(db: Session) -> None:
    db.sql("CREATE MATERIALIZED VIEW kept AS SELECT * FROM clicks")
    send(db, ("ann", 1))
    db.sql(
        "CREATE MATERIALIZED VIEW pairs AS SELECT a.n, b.n AS m FROM kept a JOIN kept b USING (who)"
    )
    send(db, ("ann", 2))
    assert rows(db, "pairs") == [(1, 1), (1, 2), (2, 1), (2, 2)]


def test_subscribers_see_the_changes(db: Session) -> None:
    seen: list[dict[str, object]] = []
    db.sql("CREATE MATERIALIZED VIEW v AS SELECT max(n) AS top FROM clicks")
    db.subscribe("v", lambda changes: seen.extend(changes.to_pylist()))
    send(db, ("ann", 5))
    send(db, ("bob", 4))
    assert seen == [
        {"top": None, "__time": 1, "__diff": -1},
        {"top": 5, "__time": 1, "__diff": 1},
    ]


def test_a_failing_event_puts_the_view_in_error_for_good(db: Session) -> None:
    db.sql("CREATE MATERIALIZED VIEW v AS SELECT who, 1 / n AS part FROM clicks")
    send(db, ("ann", 0))
    send(db, ("ann", 2))
    with pytest.raises(ViewError, match="division by zero"):
        db.view("v").rows()


def test_nothing_of_a_stream_is_kept(db: Session) -> None:
    db.sql("""CREATE MATERIALIZED VIEW v AS
              SELECT count(*) AS c, max(n) AS top, min(who) AS first
              FROM clicks JOIN people ON who = name""")
    with db.transaction() as tx:
        tx.insert("people", [("ann", "FR")])
    send(db, ("ann", 0))
    before = db.metrics()
    for i in range(20):
        send(db, *(("ann", i) for i in range(1000)))
    after = db.metrics()
    assert rows(db, "v") == [(20_001, 999, "ann")]
    assert after.table_bytes <= before.table_bytes
    assert after.state_bytes - before.state_bytes < 10_000


REFUSED = {
    "SELECT a.n FROM clicks a JOIN clicks b USING (who)": "with itself",
    "SELECT n FROM people LEFT JOIN clicks ON who = name": "an outer, semi or anti join",
    "SELECT n FROM clicks FULL JOIN people ON who = name": "a FULL JOIN of the stream",
    "SELECT name FROM people WHERE name IN (SELECT who FROM clicks)": "a subquery in an expression",
    "SELECT name FROM people WHERE EXISTS (SELECT 1 FROM clicks WHERE who = name)":
        "a subquery in an expression",
    "SELECT name FROM people WHERE 3 < (SELECT sum(n) FROM clicks WHERE who = name)":
        "a correlated subquery over the stream",
}  # fmt: skip


@pytest.mark.parametrize("query", REFUSED)
def test_what_would_need_past_events_is_refused(db: Session, query: str) -> None:
    with pytest.raises(UnsupportedError) as caught:
        db.sql(f"CREATE MATERIALIZED VIEW v AS {query}")
    assert REFUSED[query] in caught.value.message
    assert '"clicks"' in caught.value.message
    assert caught.value.detail and "CREATE MATERIALIZED VIEW kept" in (caught.value.hint or "")
    assert len(db.sql("SHOW VIEWS")) == 0


def test_the_remedy_works(db: Session) -> None:
    db.sql("CREATE MATERIALIZED VIEW kept AS SELECT * FROM clicks")
    for number, query in enumerate(REFUSED):
        db.sql(f"CREATE MATERIALIZED VIEW v{number} AS {query.replace('clicks', 'kept')}")
    db.sql("""CREATE MATERIALIZED VIEW w AS
              SELECT name FROM people WHERE name IN (SELECT DISTINCT who FROM clicks)""")


def test_verification_is_refused(db: Session) -> None:
    db.sql("CREATE MATERIALIZED VIEW v AS SELECT who FROM clicks")
    db.sql("CREATE MATERIALIZED VIEW over AS SELECT DISTINCT who FROM v")
    for view in ("v", "over"):
        with pytest.raises(ViewError, match=f'cannot verify view "{view}", which reads a stream'):
            db.sql(f"VERIFY MATERIALIZED VIEW {view}")


def test_changes_of_a_stream(db: Session) -> None:
    for verb in ("delete", "upsert"):
        with pytest.raises(DataError, match=r'"clicks", which is a stream'), db.transaction() as tx:
            getattr(tx, verb)("clicks", [("ann", 1)])
    with pytest.raises(DataError, match="clicks"), db.transaction() as tx:
        tx.insert("clicks", [("ann", None)])
    with (
        pytest.raises(DataError, match='row 0 has no value for column "n"'),
        db.transaction() as tx,
    ):
        tx.insert("clicks", [{"who": "ann"}])
    assert db.epoch == 0


def test_a_transaction_does_not_outlive_its_stream(db: Session) -> None:
    tx = db.begin()
    tx.insert("clicks", [("ann", 1)])
    db.sql("DROP STREAM clicks")
    db.sql("CREATE STREAM clicks (who STRING)")
    with pytest.raises(DataError, match='"clicks" was dropped since the transaction began'):
        db.apply([tx])
    assert db.epoch == 0


def test_statements(db: Session) -> None:
    db.sql("CREATE STREAM IF NOT EXISTS Clicks (x INT)")
    for name in ("clicks", "people"):
        with pytest.raises(CatalogError, match=f'"{name}" exists already'):
            db.sql(f"CREATE STREAM {name} (x INT)")
    with pytest.raises(CatalogError, match='"clicks" exists already'):
        db.sql("CREATE TABLE clicks (x INT)")
    with pytest.raises(UnsupportedError, match="cannot maintain a primary key of a stream"):
        db.sql("CREATE STREAM t (x INT PRIMARY KEY)")
    with pytest.raises(SqlSyntaxError, match='column "X" is specified more than once'):
        db.sql("CREATE STREAM t (x INT, X INT)")
    with pytest.raises(CatalogError, match='"clicks" is a stream, not a table'):
        db.sql("DROP TABLE clicks")
    with pytest.raises(CatalogError, match='"people" is a table, not a stream'):
        db.sql("DROP STREAM people")
    with pytest.raises(CatalogError, match='"clicks" is a stream, not a materialized view'):
        db.view("clicks")
    with pytest.raises(BindError, match='"click" does not exist') as caught:
        db.sql("CREATE MATERIALIZED VIEW v AS SELECT who FROM click")
    assert "clicks" in (caught.value.hint or "")
    db.sql("CREATE MATERIALIZED VIEW v AS SELECT who FROM clicks")
    with pytest.raises(CatalogError, match='cannot drop "clicks" because views depend on it'):
        db.sql("DROP STREAM clicks")
    db.sql("DROP MATERIALIZED VIEW v")
    db.sql("DROP STREAM clicks")
    db.sql("DROP STREAM IF EXISTS clicks")
    with pytest.raises(CatalogError, match='stream "clicks" does not exist'):
        db.sql("DROP STREAM clicks")


def test_what_is_shown(db: Session) -> None:
    db.sql(
        "CREATE MATERIALIZED VIEW v AS SELECT n FROM clicks JOIN people ON who = name WHERE n > 1"
    )
    send(db, ("ann", 1), ("ann", 2))
    assert db.sql("SHOW STREAMS").rows() == [("clicks", 2, 0, ["v"])]
    assert db.sql("SHOW TABLES").rows() == [("people",)]
    shown = [line.strip() for line in str(db.sql("EXPLAIN MATERIALIZED VIEW v")).splitlines()]
    assert "Retain what each event gave at its epoch" in shown
    assert "Scan clicks (stream)" in shown
    place = shown.index("Stream clicks")
    assert shown[place + 1] == "state: none; its events are gone after their epoch"
    paths = [line for line in shown if line.startswith("path ")]
    assert paths == ["path Map %3: 1 index lookup per changed row, and per row found on the way"]


def test_private_sessions(db: Session) -> None:
    with sqlview.connect(placement="inline", share=False) as private:
        private.sql("CREATE STREAM clicks (who STRING, n INT)")
        private.sql("CREATE MATERIALIZED VIEW v AS SELECT who, n FROM clicks")
        with pytest.raises(UnsupportedError, match='cannot keep a private copy of the view "v"'):
            private.sql("CREATE MATERIALIZED VIEW w AS SELECT who FROM v")
        send(private, ("ann", 1))
        assert rows(private, "v") == [("ann", 1)]


@pytest.mark.spark
def test_spark_cannot_read_a_stream(db: Session) -> None:
    with pytest.raises(CatalogError, match='stream "clicks" has no rows to read'):
        db.sql("SELECT * FROM clicks")
    assert db.sql("SELECT 1 AS clicks").rows() == [(1,)]
