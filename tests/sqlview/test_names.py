"""Names of tables, views and columns: whatever they hold, they are names and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import sqlview
from planner.names import folded
from planner.parse import words_of
from sqlview.quoting import decoded, encoded

NAMES = (
    "it's", 'say "x"', "semi;colon", "br{ace}s", "{0}", "{", "back`tick", "NUL\0x",
    "-- comment", "/* comment */", "new\nline", " ", "select", "rowid", "sqlite_master", "%s",
    "Été", "İ", "ß", "ſ", "é", "e\u0301", "日本", "😀", "n_x", "$1", "w;e", "a" * 10_000,
    'x" as select 1; drop table "y',
)  # fmt: skip


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


def _ids(name: str) -> str:
    return ascii(name[:12])


def _make(db: sqlview.Session, name: str) -> None:
    """A table, a view and columns of that name, with the rows a and b, of which a stays."""
    quoted = _quoted(name)
    db.sql(f"CREATE TABLE {quoted} (id INT PRIMARY KEY, {quoted} STRING)")
    db.sql(
        f"CREATE MATERIALIZED VIEW v AS SELECT {quoted}, count(*) AS n FROM {quoted}"
        f" GROUP BY {quoted}"
    )
    with db.transaction() as tx:
        tx.insert(name, [{"id": 1, name: "a"}, {"id": 2, name: "b"}])


@pytest.mark.parametrize("name", NAMES, ids=_ids)
def test_names_are_names(name: str) -> None:
    quoted = _quoted(name)
    told: list[Any] = []
    with sqlview.connect(placement="inline") as db:
        _make(db, name)
        db.sql(
            f"CREATE MATERIALIZED VIEW {_quoted(name + '2')} AS SELECT {quoted}.{quoted} AS o,"
            f" v.{quoted} FROM {quoted} JOIN v ON v.{quoted} = {quoted}.{quoted}"
        )
        db.subscribe(name + "2", told.append)
        assert db.verify("v").equal
        with db.transaction() as tx:
            tx.delete(name, [(2,)])
            tx.upsert(name, [{"id": 3, name: "c"}])
        assert db.view(name + "2").rows() == [("a", "a"), ("c", "c")]
        assert told[0].column_names == ["o", name, "__time", "__diff"]
        for view in ("v", name + "2"):
            assert db.verify(view, engine="duckdb").equal
        (found,) = db.sql(f"VERIFY MATERIALIZED VIEW {_quoted(name + '2')}").to_arrow().to_pylist()
        assert found["view"] == name + "2" and found["equal"]
        assert db.sql(f"EXPLAIN MATERIALIZED VIEW {_quoted(name + '2')}").rows()
        assert db.sql("SHOW TABLES").rows() == [(name,)]
        assert ("v",) in db.sql("SHOW VIEWS").rows()
        assert db.sql("SHOW ARRANGEMENTS").rows()
        for statement in (f"VIEW {_quoted(name + '2')}", "VIEW v"):
            db.sql(f"DROP MATERIALIZED {statement}")
        db.sql(f"DROP TABLE {quoted}")


@pytest.mark.spark
def test_names_are_names_in_spark(spark: Any) -> None:
    with sqlview.connect(spark=spark, placement="inline") as db:
        for name in NAMES:
            quoted = _quoted(name)
            _make(db, name)
            query = f"SELECT t.{quoted} AS o, n FROM {quoted} t JOIN v ON v.{quoted} = t.{quoted}"
            assert sorted(db.sql(query).rows()) == [("a", 1), ("b", 1)], name[:20]
            assert db.view("v").to_df().columns == [name, "n"]
            found = db.verify("v", engine="spark")
            assert found.equal and found.engine == "Spark", name[:20]
            db.sql("DROP MATERIALIZED VIEW v")
            db.sql(f"DROP TABLE {quoted}")


def test_a_name_cannot_run_sql(tmp_path: Path) -> None:
    written = tmp_path / "stolen"
    name = (
        "x\" as select 1 as a; copy (select content from read_text('/etc/hostname'))"
        f" to '{written}'; create table \"y"
    )
    with sqlview.connect(placement="inline") as db:
        db.sql(f"CREATE TABLE {_quoted(name)} (a INT, {_quoted(name)} STRING)")
        db.sql(
            f"CREATE MATERIALIZED VIEW v AS SELECT a, count(*) AS n FROM {_quoted(name)} GROUP BY a"
        )
        with db.transaction() as tx:
            tx.insert(name, [(1, name), (1, "'")])
        assert db.verify("v").equal
        with db.transaction() as tx:
            tx.delete(name, [(1, name)])
        assert db.verify("v").equal
        assert db.view("v").rows() == [(1, 1)]
    assert not list(tmp_path.iterdir())


def test_columns_have_dots_and_relations_have_none() -> None:
    with sqlview.connect(placement="inline") as db:
        db.sql("CREATE TABLE t (`dots.in.it` INT)")
        db.sql("CREATE MATERIALIZED VIEW v AS SELECT t.`dots.in.it` AS `a.b` FROM t")
        with db.transaction() as tx:
            tx.insert("t", [(1,)])
        assert db.verify("v", engine="duckdb").equal and db.view("v").rows() == [(1,)]
        for statement in ("TABLE `dots.in.it` (a INT)", "STREAM `a.b` (a INT)"):
            with pytest.raises(sqlview.SqlSyntaxError, match="there can be no relation"):
                db.sql(f"CREATE {statement}")


_EMPTY = (
    "CREATE TABLE `` (a INT)",
    "CREATE TABLE t (`` INT)",
    "CREATE STREAM `` (a INT)",
    "CREATE MATERIALIZED VIEW `` AS SELECT 1",
    "CREATE MATERIALIZED VIEW v AS SELECT 1 AS ``",
    "CREATE MATERIALIZED VIEW v (``) AS SELECT 1",
)


@pytest.mark.parametrize("statement", _EMPTY)
def test_an_empty_name_is_refused(statement: str) -> None:
    with sqlview.connect(placement="inline") as db:
        with pytest.raises(sqlview.SqlSyntaxError, match="a name is empty") as caught:
            db.sql(statement)
        assert caught.value.column == statement.index("``") + 1
        assert db.sql("SHOW TABLES").rows() == []


@pytest.mark.parametrize(
    ("left", "right", "same"),
    [("A", "a", True), ("É", "é", True), ("ſ", "S", True), ("İ", "i", True), ("ς", "Σ", True),
     ("ß", "ss", False), ("ß", "ẞ", True), ("é", "e\u0301", False), ("ﬁ", "fi", False),
     ("a b", "a_b", False), ("$61$", "a", False)],
)  # fmt: skip
def test_two_names_are_one_as_in_spark(left: str, right: str, same: bool) -> None:
    assert (folded(left) == folded(right)) is same
    assert (encoded(left) == encoded(right)) is same
    assert decoded(encoded(left)) == folded(left)
    with sqlview.connect(placement="inline") as db:
        db.sql(f"CREATE TABLE {_quoted(left)} (id INT)")
        if same:
            with pytest.raises(sqlview.CatalogError, match="exists already"):
                db.sql(f"CREATE TABLE {_quoted(right)} (id INT)")
            with pytest.raises(sqlview.SqlSyntaxError, match="more than once"):
                db.sql(f"CREATE TABLE t ({_quoted(left)} INT, {_quoted(right)} INT)")
            return
        columns = f"{_quoted(left)} INT, {_quoted(right)} INT"
        db.sql(f"CREATE TABLE {_quoted(right)} ({columns}, PRIMARY KEY ({_quoted(right)}))")
        db.sql(
            f"CREATE MATERIALIZED VIEW v AS SELECT {_quoted(right)} AS r, {_quoted(left)} AS l"
            f" FROM {_quoted(right)}"
        )
        with db.transaction() as tx:
            tx.insert(right, [(1, 2), (1, 3)])
            tx.insert(left, [(7,)])
        assert sorted(db.view("v").rows()) == [(2, 1), (3, 1)]
        assert db.verify("v", engine="duckdb").equal


def test_words_of_a_text() -> None:
    text = "SELECT `a``b`.c, 'd', \"e\" -- f\n FROM 1g, `H.i` /* j */"
    assert set(words_of(text)) >= {"a`b", "c", "1g", "h.i", "select"}
    assert set(words_of(text)).isdisjoint("defj")
