"""Schemas: names of relations in statements, in the texts of views, and on their way to engines."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import sqlview
from planner import parse
from planner.errors import CatalogError, SqlSyntaxError, SqlViewError
from sqlview import Session

#: Views over relations of two schemas, as they are created while "sales" is in use.
_VIEWS = {
    "bare": "SELECT t.id, u.v FROM t JOIN default.t AS u ON t.id = u.id",
    "long": "SELECT sales.t.id, sales.t.v FROM sales.t WHERE sales.t.v > 1",
    "cte": "WITH t AS (SELECT id, v + 1 AS v FROM t) SELECT t.id, t.v, x.v AS w FROM t "
    "JOIN spark_catalog.default.t AS x USING (id)",
    "sub": "SELECT id FROM t WHERE EXISTS (SELECT 1 FROM default.t AS o WHERE o.id = t.id) "
    "AND v >= (SELECT min(v) FROM t)",
    "over": "SELECT count(*) AS n, sum(v) AS s FROM bare",
    "star": "SELECT sales.t.* FROM sales.t UNION ALL SELECT * FROM default.t",
}


def _opened(path: Path | None = None) -> Session:
    db = sqlview.connect(path)
    db.sql("CREATE SCHEMA Sales COMMENT 'what is sold'")
    db.sql("CREATE TABLE t (id INT PRIMARY KEY, v INT)")
    db.sql("USE sales")
    db.sql("CREATE TABLE t (id INT PRIMARY KEY, v INT)")
    for name, query in _VIEWS.items():
        db.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
    return db


def _check(db: Session) -> None:
    for name in _VIEWS:
        outcome = db.verify(f"sales.{name}", engine="duckdb")
        assert outcome.difference is None, outcome


def _change(db: Session, rng: random.Random) -> None:
    """A step of both tables, with deletes and updates, by statements and by transactions."""
    table = rng.choice(["t", "sales.t", "default.t", "spark_catalog.sales.t"])
    some = rng.randrange(8)
    action = rng.randrange(3)
    if action == 0:
        db.sql(f"UPDATE {table} SET v = {rng.randrange(5)} WHERE id = {some}")
    elif action == 1:
        db.sql(f"DELETE FROM {table} WHERE id = {some}")
    else:
        db.sql(
            f"MERGE INTO {table} AS d USING (SELECT {some} AS id, {rng.randrange(5)} AS v) s "
            "ON d.id = s.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        )


def test_views_of_two_schemas_follow_their_tables(tmp_path: Path) -> None:
    rng = random.Random(3)
    with _opened(tmp_path / "store") as db:
        with db.transaction() as tx:
            tx.insert("Sales.t", [(i, i % 3) for i in range(0, 8, 2)])
            tx.insert("default.t", [(i, i % 4) for i in range(6)])
        _check(db)
        for _ in range(12):
            _change(db, rng)
            _check(db)
    with sqlview.connect(tmp_path / "store") as db:  # and with another schema in use
        for _ in range(4):
            _change(db, rng)
            _check(db)
        said = db.sql("DESCRIBE SCHEMA sales").to_arrow().to_pylist()
        assert said[1:] == [
            {"info_name": "Namespace Name", "info_value": "Sales"},
            {"info_name": "Comment", "info_value": "what is sold"},
        ]


def test_the_text_of_a_view_means_the_same_in_another_schema() -> None:
    with _opened() as db, sqlview.connect() as other:
        other.sql("CREATE SCHEMA sales")
        for name in ("default.t", "sales.t"):
            other.sql(db.sql(f"SHOW CREATE TABLE {name}").to_arrow()["createtab_stmt"][0].as_py())
        for name in _VIEWS:
            text = db.sql(f"SHOW CREATE MATERIALIZED VIEW {name}").to_arrow()[0][0].as_py()
            other.sql(text)
        for session in (db, other):
            with session.transaction() as tx:
                tx.insert("sales.t", [(1, 1), (2, 3)])
                tx.insert("t", [(1, 7), (3, 3)])
        for name in _VIEWS:
            rows = [s.view(f"sales.{name}").to_arrow().to_pylist() for s in (db, other)]
            assert rows[0] == rows[1]


def test_names_are_shown_by_schema() -> None:
    with _opened() as db:
        db.sql("CREATE STREAM default.e (x INT)")
        assert db.sql("SHOW TABLES").to_arrow()["table"].to_pylist() == ["t"]
        assert db.sql("SHOW VIEWS IN sales").to_arrow()["view"].to_pylist() == list(_VIEWS)
        assert db.sql("SHOW VIEWS FROM default").to_arrow().num_rows == 0
        assert db.sql("SHOW STREAMS").to_arrow().num_rows == 0
        assert db.sql("SHOW STREAMS IN default").to_arrow()["stream"].to_pylist() == ["e"]
        assert db.sql("SHOW DATABASES").to_arrow()["namespace"].to_pylist() == ["default", "Sales"]


def test_a_table_is_renamed_into_another_schema() -> None:
    with _opened() as db:
        with db.transaction() as tx:
            tx.insert("sales.t", [(1, 1), (2, 3)])
        db.sql("ALTER TABLE sales.t ADD COLUMN more INT")
        db.sql("ALTER TABLE t RENAME TO t2")  # beside the old one
        db.sql("ALTER TABLE t2 RENAME TO default.t2")
        with db.transaction() as tx:
            tx.insert("t2", [(3, 4, 5)])
        _check(db)
        with pytest.raises(CatalogError, match='schema "nowhere" does not exist'):
            db.sql("ALTER TABLE default.t2 RENAME TO nowhere.t2")
        _check(db)


def test_prepared_queries_are_of_the_schema_in_use() -> None:
    with _opened() as db:
        with db.transaction() as tx:
            tx.insert("sales.t", [(1, 1), (2, 3)])
            tx.insert("t", [(1, 7)])
        statement = db.prepare("SELECT v FROM t WHERE id = :id", name="sales.of_id")
        held = statement.subscribe(id=2)
        assert held.rows() == [(3,)]
        db.sql("USE default")
        again = db.prepare("SELECT v FROM Sales.t WHERE id = :id", name="sales.of_id")
        assert again is statement


def test_a_schema_is_dropped_with_what_is_in_it(tmp_path: Path) -> None:
    with _opened(tmp_path / "store") as db:
        db.sql("CREATE SCHEMA empty")
        db.sql("DROP SCHEMA empty")
        db.sql("CREATE MATERIALIZED VIEW default.outside AS SELECT v FROM sales.t")
        for text, said in (
            ("DROP SCHEMA sales", "which is not empty"),
            ("DROP SCHEMA sales CASCADE", "because views depend on what is in it"),
            ("DROP SCHEMA default CASCADE", 'cannot drop schema "default"'),
            ("DROP SCHEMA nowhere", 'schema "nowhere" does not exist'),
        ):
            with pytest.raises(CatalogError, match=said):
                db.sql(text)
        _check(db)
        db.sql("DROP MATERIALIZED VIEW default.outside")
        db.sql("DROP SCHEMA sales CASCADE")
        db.sql("DROP SCHEMA IF EXISTS sales")
        assert db.sql("SHOW TABLES").to_arrow()["table"].to_pylist() == ["t"]  # of default
    with sqlview.connect(tmp_path / "store") as db:
        assert db.sql("SHOW SCHEMAS").to_arrow()["namespace"].to_pylist() == ["default"]


@pytest.mark.parametrize(
    ("text", "kind", "said"),
    [
        ("USE nowhere", CatalogError, 'schema "nowhere" does not exist'),
        ("CREATE TABLE nowhere.t (a INT)", CatalogError, 'schema "nowhere" does not exist'),
        ("CREATE SCHEMA sales", CatalogError, 'schema "sales" exists already'),
        ("CREATE TABLE `a.b` (a INT)", SqlSyntaxError, "there can be no relation `a.b`"),
        ("CREATE TABLE hive.sales.t (a INT)", SqlSyntaxError, "no relation `hive`.`sales`.`t`"),
        ("CREATE SCHEMA a.b", SqlSyntaxError, "there can be no schema `a`.`b`"),
        ("SELECT * FROM a.b.c.d", SqlViewError, ""),
        ("CREATE MATERIALIZED VIEW v AS SELECT * FROM sales.x", SqlViewError, '"sales.x" does not'),
        ("CREATE MATERIALIZED VIEW v AS SELECT * FROM a.b.x", SqlSyntaxError, "`a`.`b`.`x`"),
        ("CREATE SCHEMA x LOCATION '/'", SqlViewError, "a schema with LOCATION"),
        ("SHOW TABLES IN nowhere", CatalogError, 'schema "nowhere" does not exist'),
    ],
)
def test_bad_names(text: str, kind: type[Exception], said: str) -> None:
    with sqlview.connect() as db:
        db.sql("CREATE SCHEMA sales")
        if text.startswith("SELECT"):
            with pytest.raises(SqlViewError):
                parse.parse_query(text)
            return
        with pytest.raises(kind, match=said):
            db.sql(text)
        with pytest.raises(CatalogError):
            db.create_table("a.b.c", [{"x": 1}])
        assert db.sql("SHOW TABLES").to_arrow().num_rows == 0


@pytest.mark.parametrize(
    ("text", "plain", "full"),
    [
        ("SELECT * FROM a.b", "SELECT * FROM `a.b` AS b", "SELECT * FROM a.b"),
        ("SELECT a.b.c FROM a.b", "SELECT b.c FROM `a.b` AS b", "SELECT a.b.c FROM a.b"),
        ("SELECT x.c FROM b x", "SELECT x.c FROM `s.b` x", "SELECT x.c FROM s.b x"),
        (
            "WITH b AS (SELECT * FROM b) SELECT * FROM b",
            "WITH b AS (SELECT * FROM `s.b` AS b) SELECT * FROM b",
            "WITH b AS (SELECT * FROM s.b) SELECT * FROM b",
        ),
        (
            "SELECT a.b FROM default.a, (SELECT 1 AS x) q",
            "SELECT a.b FROM `a` AS a, (SELECT 1 AS x) q",
            "SELECT a.b FROM a, (SELECT 1 AS x) q",
        ),
    ],
)
def test_names_in_texts(text: str, plain: str, full: str) -> None:
    assert parse.plain(text, "s") == plain
    assert parse.qualified(text, "s") == full


def test_relations_of_other_catalogs_are_left_to_spark() -> None:
    text = "SELECT * FROM ice.db.t JOIN a.b USING (id)"
    assert parse.plain(text) == "SELECT * FROM ice.db.t JOIN `a.b` AS b USING (id)"
