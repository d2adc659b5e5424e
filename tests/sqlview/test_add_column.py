"""ALTER TABLE … ADD COLUMN: rows have the default, views go on with the columns that they know."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import sqlview
from operators.state import relation
from planner.errors import (
    CatalogError,
    DataError,
    SqlSyntaxError,
    SqlViewError,
    StoreError,
    UnsupportedError,
)
from tests.alterations import DEFAULTS, VIEWS, live


@pytest.mark.parametrize(("seed", "bulk"), [(1, 3), (2, 1 << 14)])
def test_a_life_with_more_and_more_columns(
    seed: int, bulk: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`bulk`: rows from which on they become blocks of their own."""
    monkeypatch.setattr(relation, "BULK_ROWS", bulk)
    live(seed, tmp_path / "s", steps=10)


def _session(path: Path | None = None) -> sqlview.Session:
    db = sqlview.connect(path, placement="inline")
    db.sql("CREATE TABLE t (k INT PRIMARY KEY, a INT)")
    db.sql("CREATE TABLE bag (a INT, s STRING)")
    for i, query in enumerate(VIEWS[:2]):
        db.sql(f"CREATE MATERIALIZED VIEW v{i} AS {query.format(t='t')}")
    with db.transaction() as tx:
        tx.insert("t", [(1, 1), (2, None)])
        tx.insert("bag", [(1, "x"), (1, "x")])
    return db


@pytest.mark.parametrize(("kind", "default", "value"), DEFAULTS)
def test_rows_that_are_there_have_the_default(kind: str, default: str, value: Any) -> None:
    with _session() as db:
        db.sql(f"ALTER TABLE t ADD COLUMN c {kind} {default} COMMENT 'new'")
        db.sql("CREATE MATERIALIZED VIEW w AS SELECT k, c FROM t")
        assert sorted(db.view("w").rows()) == [(1, value), (2, value)]
        assert sorted(db.view("v0").rows()) == [(1, 1), (2, None)]
        shown = db.sql("DESCRIBE t").to_arrow().to_pylist()[-1]
        assert (shown["col_name"], shown["comment"]) == ("c", "new")
        assert shown["nullable"] == ("NOT NULL" not in kind)
        with db.transaction() as tx:
            tx.upsert("t", [{"c": value, "a": 9, "k": 1}, {"k": 5, "a": None, "c": value}])
        assert db.verify("w").equal and db.verify("v0").equal


def test_several_columns_and_their_order() -> None:
    with _session() as db:
        db.sql("ALTER TABLE bag ADD COLUMNS (c INT DEFAULT 1, d STRING)")
        db.sql("ALTER TABLE bag ADD e DATE")
        assert [r[0] for r in db.sql("SHOW COLUMNS IN bag").rows()] == ["a", "s", "c", "d", "e"]
        with db.transaction() as tx:
            tx.delete("bag", [(1, "x", 1, None, None)])
        db.sql("CREATE MATERIALIZED VIEW w AS SELECT * FROM bag")
        assert db.view("w").rows() == [(1, "x", 1, None, None)]
        assert db.view("v1").rows() == [(1, "x")]


def test_readers_and_subscribers_go_on(tmp_path: Path) -> None:
    with _session(tmp_path / "s") as db:
        heard: list[Any] = []
        db.subscribe("v0", lambda table: heard.append(table.column_names))
        with db.snapshot() as before:
            db.sql("ALTER TABLE t ADD COLUMN c INT DEFAULT 3")
            with db.transaction() as tx:
                tx.upsert("t", [(1, 5, 6), (7, 8, 9)])
            assert sorted(before.table("t").rows()) == [(1, 1), (2, None)]
        assert heard == [["k", "a", "__time", "__diff"]]
        with sqlview.connect(tmp_path / "s", read_only=True) as reading:
            assert sorted(reading.view("v0").rows()) == [(1, 5), (2, None), (7, 8)]
            with pytest.raises(StoreError):
                reading.sql("ALTER TABLE t ADD COLUMN d INT")
            assert len(reading.sql("SHOW COLUMNS IN t").rows()) == 3


def test_old_and_new_views_share_what_they_can() -> None:
    with _session() as db:
        join = "SELECT bag.s FROM t JOIN bag ON t.a = bag.a"
        db.sql(f"CREATE MATERIALIZED VIEW before AS {join}")
        operators = db.metrics().operators
        db.sql("ALTER TABLE bag ADD COLUMN c INT")
        builds = db.metrics().index_builds
        db.sql("CREATE MATERIALIZED VIEW same AS SELECT a, s FROM bag")
        assert db.metrics().operators == operators
        db.sql(f"CREATE MATERIALIZED VIEW wider AS {join.replace('bag.s', 'bag.*')}")
        assert db.metrics().index_builds == builds + 1  # its own, for its retractions
        with db.transaction() as tx:
            tx.insert("bag", [(1, "new", 4)])
        assert all(db.verify(v).equal for v in ("before", "same", "wider", "v1"))


def test_a_transaction_that_began_before_is_refused() -> None:
    with _session() as db:
        tx = db.begin()
        tx.insert("t", [(9, 9)])
        db.sql("ALTER TABLE t ADD COLUMN c INT")
        with pytest.raises(DataError, match="has got more columns since the transaction began"):
            db.apply([tx])
        assert db.view("v0").rows() == [(1, 1), (2, None)]


@pytest.mark.parametrize(
    ("statement", "kind", "said"),
    [
        ("ALTER TABLE x ADD COLUMN c INT", CatalogError, 'table "x" does not exist'),
        ("ALTER TABLE v0 ADD COLUMN c INT", CatalogError, "is a view, not a table"),
        ("ALTER TABLE t ADD COLUMN A INT", CatalogError, 'has a column "a" already'),
        ("ALTER TABLE t ADD COLUMNS (c INT, C INT)", SqlSyntaxError, "more than once"),
        ("ALTER TABLE t ADD COLUMN c INT NOT NULL", DataError, "it is NOT NULL"),
        ("ALTER TABLE t ADD COLUMN c INT NOT NULL DEFAULT NULL", DataError, "it is NOT NULL"),
        ("ALTER TABLE t ADD COLUMN c INT DEFAULT 1.5", DataError, '"c"'),
        ("ALTER TABLE t ADD COLUMN c INT DEFAULT 'a'", DataError, '"c"'),
        ("ALTER TABLE t ADD COLUMN c TINYINT DEFAULT 300", DataError, '"c"'),
        ("ALTER TABLE t ADD COLUMN c INT DEFAULT 1 + 1", SqlSyntaxError, "near"),
        ("ALTER TABLE t ADD COLUMN c INT DEFAULT now()", UnsupportedError, "no literal"),
        ("ALTER TABLE t ADD COLUMN c INT FIRST", UnsupportedError, "FIRST"),
        ("ALTER TABLE t ADD COLUMN c INT AFTER k", UnsupportedError, "AFTER"),
        ("ALTER TABLE t ADD COLUMN c INT PRIMARY KEY", UnsupportedError, "PRIMARY"),
        ("ALTER TABLE t ADD CONSTRAINT c CHECK (a > 1)", UnsupportedError, "CONSTRAINT"),
        ("ALTER TABLE t ADD COLUMN c ARRAY<VARIANT>", UnsupportedError, "VARIANT"),
        ("ALTER TABLE t ADD COLUMN c", SqlSyntaxError, "end of input"),
        ("ALTER TABLE t ADD COLUMN IF NOT EXISTS c INT", SqlSyntaxError, "near"),
        ("ALTER STREAM t ADD COLUMN c INT", UnsupportedError, "Create another stream"),
        ("ALTER MATERIALIZED VIEW v0 ADD COLUMN c INT", UnsupportedError, "OR REPLACE"),
    ],
)
def test_a_column_that_is_refused_changes_nothing(
    statement: str, kind: type[SqlViewError], said: str
) -> None:
    with _session() as db:
        with pytest.raises(kind, match=said):
            db.sql(statement)
        with db.transaction() as tx:
            tx.insert("t", [(3, 3)])
        assert db.verify("v0").equal and db.verify("v1").equal
        assert len(db.sql("SHOW COLUMNS IN t").rows()) == 2


def test_not_null_without_a_default_is_for_tables_without_rows() -> None:
    with sqlview.connect() as db:
        db.sql("CREATE TABLE t (k INT PRIMARY KEY)")
        db.sql("ALTER TABLE t ADD COLUMN c INT NOT NULL")
        with db.transaction() as tx:
            tx.insert("t", [(1, 2)])
        with pytest.raises(DataError), db.transaction() as tx:
            tx.insert("t", [(2, None)])


def test_what_fails_in_the_middle_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> Any:
        raise MemoryError("no more")

    with _session(tmp_path / "s") as db:
        with monkeypatch.context() as patched:
            patched.setattr(relation, "repeated", full)
            with pytest.raises(MemoryError):
                db.sql("ALTER TABLE t ADD COLUMN c INT DEFAULT 1")
        with db.transaction() as tx:
            tx.insert("t", [(3, 3)])
        assert db.verify("v0").equal
    with sqlview.connect(tmp_path / "s") as db:
        assert len(db.sql("SHOW COLUMNS IN t").rows()) == 2
        assert db.verify("v0").equal


@pytest.mark.spark
def test_spark_steps_and_queries_follow(tmp_path: Path) -> None:
    db = sqlview.connect(placement="spark")
    try:
        db.sql("CREATE TABLE t (k INT PRIMARY KEY, a INT)")
        db.sql("CREATE TABLE bag (a INT, s STRING)")
        for i in (0, 2, 5, 6, 7):
            db.sql(f"CREATE MATERIALIZED VIEW v{i} AS {VIEWS[i].format(t='t')}".replace(
                "SELECT * FROM t JOIN", "SELECT k, s FROM t JOIN"))  # fmt: skip
        for n in range(2):
            with db.transaction() as tx:
                tx.insert("t", [(k, k % 3, *["x"] * n) for k in range(50 * n, 50 * n + 50)])
                tx.insert("bag", [(k % 3, "s") for k in range(5)])
            db.sql(f"ALTER TABLE t ADD COLUMN c{n} STRING DEFAULT 'd'")
        db.sql(
            "CREATE MATERIALIZED VIEW w AS SELECT * FROM t JOIN (SELECT a AS b FROM bag) ON a = b"
        )
        with db.transaction() as tx:
            tx.upsert("t", [(k, 1, "y", "z") for k in range(0, 100, 7)])
        assert db.last_step is not None and db.last_step.placement == "spark"
        for view in db.sql("SHOW VIEWS").to_arrow()["view"].to_pylist():
            assert db.verify(view).equal, view
        assert db.sql("SELECT count(c1) AS n FROM t").rows() == [(100,)]
    finally:
        db.close()
