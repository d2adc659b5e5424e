"""ALTER … RENAME TO: what reads a table, stream or view goes on, whatever that is called."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import sqlview
from planner.errors import CatalogError, SqlSyntaxError, SqlViewError, UnsupportedError

_VIEWS = {
    "plain": "SELECT t.a, T.b FROM t WHERE t.b > 0",
    "twice": "SELECT x.a, t.b FROM t AS x JOIN t ON x.a = t.b",
    "star": "SELECT t.*, s.* FROM t, `odd one` AS s WHERE t.a = s.k",
    "below": "SELECT max(b) AS m FROM (SELECT b FROM t) q WHERE b IN (SELECT a FROM t)",
    "named": "WITH w AS (SELECT * FROM t), t AS (SELECT a FROM w) SELECT t.a FROM t",
    "within": "WITH c AS (SELECT k FROM `odd one`) SELECT t.a FROM t, c",
    "over": "SELECT plain.a FROM plain",
}


def _session(path: Path | None = None) -> sqlview.Session:
    db = sqlview.connect(path, placement="inline", retain=1000)
    db.sql("CREATE TABLE t (a INT PRIMARY KEY, b INT)")
    db.sql("CREATE TABLE `odd one` (k INT, v STRING)")
    for name, query in _VIEWS.items():
        db.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
    with db.transaction() as tx:
        tx.insert("t", [(1, 1), (2, 1), (3, 2)])
        tx.insert("odd one", [(1, "x"), (3, "y")])
    return db


def _all_right(db: sqlview.Session) -> None:
    for view in db.sql("SHOW VIEWS").to_arrow()["view"].to_pylist():
        assert db.verify(view, engine="duckdb").equal, view
        assert db.sql(f"EXPLAIN MATERIALIZED VIEW {view}").rows()


@pytest.mark.parametrize("opened", ["not", "closed", "killed"])
def test_views_go_on(tmp_path: Path, opened: str) -> None:
    there = tmp_path / "s"
    db = _session(None if opened == "not" else there)
    heard: list[int] = []
    db.subscribe("plain", lambda table: heard.append(table.num_rows))
    begun = db.begin()
    begun.insert("t", [(4, 2)])
    db.sql("ALTER TABLE t RENAME TO `new name`")
    db.sql("ALTER TABLE `odd one` RENAME TO u")
    db.sql("ALTER MATERIALIZED VIEW plain RENAME TO Simple")
    _all_right(db)
    db.apply([begun])
    db.sql("CREATE TABLE t (z STRING)")
    db.sql("CREATE MATERIALIZED VIEW plain AS SELECT z FROM t")
    with db.transaction() as tx:
        tx.upsert("new name", [(1, 7), (9, 9)])
        tx.insert("t", [("other",)])
    assert heard == [1, 3]
    _all_right(db)
    if opened == "closed":
        db.close()
        db = sqlview.connect(there)
    elif opened == "killed":
        shutil.copytree(there, tmp_path / "copy")
        db.close()
        db = sqlview.connect(tmp_path / "copy")
    _all_right(db)
    with db.transaction() as tx:
        tx.upsert("new name", [(2, 5)])
    _all_right(db)
    assert (2, 5) in db.view("simple").rows()
    assert db.view("plain").rows() == [("other",)]
    if opened == "not":
        assert [c.epoch for c in db.changes("Simple", since=0)][-1] == db.epoch
    with pytest.raises(CatalogError, match="views depend on it"):
        db.sql("DROP TABLE `new name`")
    db.sql("DROP MATERIALIZED VIEW over")
    db.sql("ALTER MATERIALIZED VIEW Simple RENAME TO SIMPLE")
    db.sql("DROP MATERIALIZED VIEW simple")
    db.close()


def test_what_is_shown_can_be_run_again() -> None:
    with _session() as db:
        expected = db.view("twice").rows()
        db.sql("ALTER TABLE t RENAME TO `from`")
        text = db.sql("SHOW CREATE MATERIALIZED VIEW twice").rows()[0][0]
        assert text.endswith("SELECT x.a, t.b FROM `from` AS x JOIN `from` AS t ON x.a = t.b"), text
        plan = "\n".join(str(r[0]) for r in db.sql("EXPLAIN MATERIALIZED VIEW twice").rows())
        assert "Source from" in plan
        db.sql("DROP MATERIALIZED VIEW twice")
        db.sql(text)
        assert sorted(db.view("twice").rows()) == sorted(expected)


def test_streams_are_renamed() -> None:
    with sqlview.connect() as db:
        db.sql("CREATE STREAM s (a INT)")
        db.sql("CREATE MATERIALIZED VIEW v AS SELECT count(*) AS n FROM s")
        db.sql("ALTER STREAM s RENAME TO events")
        with db.transaction() as tx:
            tx.insert("events", [(1,), (2,)])
        assert db.view("v").rows() == [(2,)]
        assert db.sql("SHOW STREAMS").rows() == [("events", 2, 0, ["v"])]


@pytest.mark.parametrize(
    ("statement", "kind", "said"),
    [
        ("ALTER TABLE x RENAME TO y", CatalogError, 'table "x" does not exist'),
        ("ALTER TABLE t RENAME TO Star", CatalogError, '"t" to|"star" exists already'),
        ("ALTER TABLE t RENAME TO C", CatalogError, 'because of view "within"'),
        ("ALTER TABLE plain RENAME TO y", CatalogError, "is a view, not a table"),
        ("ALTER MATERIALIZED VIEW t RENAME TO y", CatalogError, "not a materialized view"),
        ("ALTER STREAM t RENAME TO y", CatalogError, "is a table, not a stream"),
        ("ALTER VIEW plain RENAME TO y", SqlSyntaxError, "ALTER MATERIALIZED VIEW"),
        ("ALTER INDEX t RENAME TO y", SqlSyntaxError, "near .INDEX"),
        ("ALTER TABLE t RENAME TO a.b", CatalogError, 'schema "a" does not exist'),
        ("ALTER TABLE t RENAME y", UnsupportedError, "RENAME"),
        ("ALTER TABLE t DROP COLUMN b", UnsupportedError, "ALTER with DROP"),
        ("ALTER TABLE t RENAME COLUMN b TO c", UnsupportedError, "ALTER with RENAME"),
        ("ALTER TABLE t SET TBLPROPERTIES ('a' = 'b')", UnsupportedError, "ALTER with SET"),
        ("ALTER MATERIALIZED VIEW plain AS SELECT 1", UnsupportedError, "ALTER with AS"),
        ("ALTER TABLE t RENAM TO y", SqlSyntaxError, "RENAM"),
        ("ALTER TABLE t", SqlSyntaxError, "at end of input"),
    ],
)
def test_what_is_refused_changes_nothing(
    statement: str, kind: type[SqlViewError], said: str
) -> None:
    with _session() as db:
        with pytest.raises(kind, match=said):
            db.sql(statement)
        _all_right(db)
        assert db.sql("SHOW TABLES").rows() == [("t",), ("odd one",)]


def test_a_reading_session_cannot_rename(tmp_path: Path) -> None:
    _session(tmp_path / "s").close()
    with sqlview.connect(tmp_path / "s", read_only=True) as db:
        with pytest.raises(SqlViewError, match="read"):
            db.sql("ALTER TABLE t RENAME TO u")
        _all_right(db)
