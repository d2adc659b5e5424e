"""CREATE OR REPLACE: the successor is built beside the old view, and takes its place whole."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

import sqlview
from operators.dataflow import Dataflow


@pytest.fixture
def db() -> Iterator[sqlview.Session]:
    with sqlview.connect() as session:
        session.sql("CREATE TABLE t (a INT PRIMARY KEY, b INT)")
        session.sql("CREATE MATERIALIZED VIEW v AS SELECT b, count(*) AS n FROM t GROUP BY b")
        with session.transaction() as tx:
            tx.insert("t", [(1, 1), (2, 1), (3, 2)])
        yield session


def add(db: sqlview.Session, *rows: tuple[int, int]) -> None:
    with db.transaction() as tx:
        tx.insert("t", list(rows))


@pytest.mark.parametrize(
    "query", ["SELECT * FROM v", "SELECT b FROM (SELECT b, n FROM V) WHERE n > 1"]
)
def test_a_view_cannot_be_replaced_by_one_that_reads_it(db: sqlview.Session, query: str) -> None:
    with pytest.raises(sqlview.CatalogError, match='cannot replace "v" by a view that reads it'):
        db.sql(f"CREATE OR REPLACE MATERIALIZED VIEW v AS {query}")
    add(db, (4, 2))
    assert sorted(db.view("v").rows()) == [(1, 2), (2, 2)]
    assert db.verify("v").equal
    db.sql("DROP MATERIALIZED VIEW v")


def test_a_view_that_others_read_is_not_replaced(db: sqlview.Session) -> None:
    db.sql("CREATE MATERIALIZED VIEW w AS SELECT n FROM v")
    with pytest.raises(sqlview.CatalogError, match='cannot replace "v" because views depend on it'):
        db.sql("CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT b FROM t")
    with pytest.raises(sqlview.CatalogError, match="depend"):
        db.sql("CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT n FROM w")
    assert sorted(db.view("w").rows()) == [(1,), (2,)]


def test_the_new_view_is_maintained_and_the_old_one_leaves_nothing(db: sqlview.Session) -> None:
    db.sql("CREATE MATERIALIZED VIEW fresh AS SELECT a, b FROM t WHERE b > 1")
    fresh = db.state().num_rows
    db.sql("DROP MATERIALIZED VIEW fresh")
    db.sql("DROP MATERIALIZED VIEW v")
    db.sql("CREATE MATERIALIZED VIEW v AS SELECT b, count(*) AS n FROM t GROUP BY b")
    reader = db.view("v")
    for _ in range(3):
        db.sql("CREATE OR REPLACE MATERIALIZED VIEW V AS SELECT b, count(*) AS n FROM t GROUP BY b")
        db.sql("CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT a, b FROM t WHERE b > 1")
    assert reader.rows() == [(3, 2)]
    assert db.state().num_rows < fresh  # v's and its index, without fresh beside it
    assert {r for readers in db.state()["readers"].to_pylist() for r in readers} <= {"v", "(table)"}
    add(db, (4, 5))
    assert sorted(reader.rows()) == [(3, 2), (4, 5)]
    assert db.verify("v").equal
    db.sql("DROP MATERIALIZED VIEW v")
    assert set(db.state()["kind"].to_pylist()) <= {"table", "index"}


@pytest.mark.parametrize("share", [True, False])
def test_a_replacement_that_fails_leaves_the_old_view_and_its_subscribers(
    share: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[pa.Table] = []
    with sqlview.connect(share=share) as db:
        db.sql("CREATE TABLE t (a INT PRIMARY KEY, b INT)")
        db.sql("CREATE MATERIALIZED VIEW v AS SELECT b, count(*) AS n FROM t GROUP BY b")
        db.subscribe("v", heard.append)
        add(db, (1, 1))
        before = db.state()
        install = Dataflow.install

        def failing(self: Dataflow, *args: object) -> object:
            install(self, *args)  # type: ignore[arg-type]
            raise MemoryError

        monkeypatch.setattr(Dataflow, "install", failing)
        with pytest.raises(MemoryError):
            db.sql("CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT a FROM t")
        monkeypatch.undo()
        with pytest.raises(sqlview.BindError):
            db.sql("CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT nothing FROM t")
        assert db.state().equals(before)
        add(db, (2, 1))
        assert db.view("v").rows() == [(1, 2)]
        assert [sorted(t.drop_columns("__time").to_pylist(), key=str) for t in heard] == [
            [{"b": 1, "n": 1, "__diff": 1}],
            [{"b": 1, "n": 1, "__diff": -1}, {"b": 1, "n": 2, "__diff": 1}],
        ]


def test_subscribers_hear_of_the_replacement_and_go_on(db: sqlview.Session) -> None:
    heard: list[pa.Table] = []
    db.subscribe("v", heard.append)
    db.sql(
        "CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT b, 10 * count(*) AS n FROM t GROUP BY b"
    )
    (change,) = heard
    assert sorted(map(str, change.to_pylist())) == sorted(
        str({"b": b, "n": n, "__time": 1, "__diff": diff})
        for b, n, diff in [(1, 2, -1), (2, 1, -1), (1, 20, 1), (2, 10, 1)]
    )
    heard.clear()
    db.sql("CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT a FROM t WHERE b = 2")
    left, came = heard
    assert left["__diff"].to_pylist() == [-1, -1] and left.column_names[:2] == ["b", "n"]
    assert came.to_pylist() == [{"a": 3, "__time": 1, "__diff": 1}]
    heard.clear()
    add(db, (9, 2))
    assert [t.to_pylist() for t in heard] == [[{"a": 9, "__time": 2, "__diff": 1}]]


def test_a_replaced_view_of_a_stream_starts_anew(db: sqlview.Session) -> None:
    db.sql("CREATE STREAM s (x INT)")
    text = "CREATE OR REPLACE MATERIALIZED VIEW seen AS SELECT count(*) AS n FROM s"
    for _ in range(3):
        db.sql(text)
        assert db.view("seen").rows() == [(0,)]
        with db.transaction() as tx:
            tx.insert("s", [(1,), (2,)])
        assert db.view("seen").rows() == [(2,)]
    assert db.sql("SHOW STREAMS").rows()[0][-1] == ["seen"]
