"""DESCRIBE, SHOW COLUMNS and SHOW CREATE; names that are nearly right."""

from __future__ import annotations

import re

import pyarrow as pa
import pytest

import sqlview
from planner.errors import CatalogError, DataError, SqlSyntaxError, SqlViewError

TABLE = (
    "CREATE TABLE t (a BIGINT, `b c` DECIMAL(15,2) NOT NULL COMMENT 'it''s \\\\ \\'here\\'',"
    " m TIMESTAMP_NTZ, PRIMARY KEY (`b c`, a))"
)


@pytest.fixture
def db() -> sqlview.Session:
    db = sqlview.connect()
    db.sql(TABLE)
    db.sql("CREATE STREAM clicks (who STRING, n INT NOT NULL COMMENT 'times')")
    db.sql(
        "CREATE MATERIALIZED VIEW totals (what, `how much`) AS"
        " SELECT a, sum(`b c`) FROM t GROUP BY a"
    )
    return db


def rows(db: sqlview.Session, text: str) -> list[tuple[object, ...]]:
    table = db.sql(text).to_arrow()
    return list(zip(*(c.to_pylist() for c in table.columns), strict=True))


@pytest.mark.parametrize("text", ["DESCRIBE t", "desc table T", "DESCRIBE TABLE `t`;"])
def test_describe_table(db: sqlview.Session, text: str) -> None:
    assert rows(db, text) == [
        ("a", "bigint", False, 2, None, None),
        ("b c", "decimal(15,2)", False, 1, "it's \\ 'here'", None),
        ("m", "timestamp_ntz", True, None, None, None),
    ]
    names = ["col_name", "data_type", "nullable", "key", "comment", "default"]
    assert db.sql(text).to_arrow().column_names == names


def test_describe_view_and_stream(db: sqlview.Session) -> None:
    for text in ("DESCRIBE totals", "DESCRIBE TABLE totals", "DESCRIBE MATERIALIZED VIEW totals"):
        assert [r[:3] for r in rows(db, text)] == [
            ("what", "bigint", False),
            ("how much", "decimal(25,2)", False),
        ]
    assert rows(db, "DESCRIBE STREAM clicks") == [
        ("who", "string", True, None, None, None),
        ("n", "int", False, None, "times", None),
    ]


def test_names_that_are_keywords_here() -> None:
    db = sqlview.connect()
    for name in ("stream", "table", "materialized", "view"):
        db.sql(f"CREATE TABLE `{name}` (a INT)")
        assert rows(db, f"DESCRIBE {name}") == [("a", "int", True, None, None, None)]
        assert rows(db, f"DESCRIBE TABLE {name}") == [("a", "int", True, None, None, None)]
        assert rows(db, f"SHOW CREATE TABLE {name}") == [(f"CREATE TABLE `{name}` (\n  a INT)",)]


def test_show_columns(db: sqlview.Session) -> None:
    assert rows(db, "SHOW COLUMNS IN t") == [("a",), ("b c",), ("m",)]
    assert rows(db, "show columns from totals") == [("what",), ("how much",)]
    assert db.sql("SHOW COLUMNS IN clicks").to_arrow().column_names == ["col_name"]


def test_show_create(db: sqlview.Session) -> None:
    ((table,),) = rows(db, "SHOW CREATE TABLE t")
    assert table == (
        "CREATE TABLE t (\n  a BIGINT NOT NULL,\n"
        "  `b c` DECIMAL(15,2) NOT NULL COMMENT 'it\\'s \\\\ \\'here\\'',\n"
        "  m TIMESTAMP_NTZ,\n  PRIMARY KEY (`b c`, a))"
    )
    ((view,),) = rows(db, "SHOW CREATE MATERIALIZED VIEW totals")
    assert view == (
        "CREATE MATERIALIZED VIEW totals (what, `how much`) AS\n"
        "SELECT a, sum(`b c`) FROM t GROUP BY a"
    )


ODD = [
    *"a b|a`b|``|select|PRIMARY|Constraint|if|not|exists|table|1a|é|İ|日本|😀".split("|"),
    *"a\nb|--|/*|*/|a;b".split("|"),
    *("a'b", 'a"b', "a\\", "(", ")", ".", "a.b", " ", "\0", "x" * 10_000),
]


def test_what_show_create_says_makes_the_same() -> None:
    first, second = sqlview.connect(), sqlview.connect()
    for number, name in enumerate(ODD):
        q = "`" + name.replace("`", "``") + "`"
        comment = "'" + name.replace("\\", "\\\\").replace("'", "''") + "'"
        enforced = " NOT ENFORCED RELY" if number % 2 else ""
        relation = q.replace(".", "·")
        first.sql(
            f"CREATE TABLE {relation} ({q} INT COMMENT {comment}, b TINYINT NOT NULL, c BINARY,"
            f" d DOUBLE, e DATE, f TIMESTAMP, PRIMARY KEY (b, {q}){enforced})"
        )
        first.sql(f"CREATE STREAM s{number} ({q} STRING COMMENT {comment} NOT NULL, z FLOAT)")
        first.sql(
            f"CREATE MATERIALIZED VIEW v{number} ({q}, `c c`) AS SELECT {q}, 'it''s' -- {number}\n"
            f"FROM {relation} WHERE b > 1 -- end"
        )
    names = [*ODD, *(f"{kind}{n}" for n in range(len(ODD)) for kind in "sv")]
    for name in names:
        q = "`" + name.replace("`", "``").replace(".", "·") + "`"
        kind = "TABLE"
        if re.fullmatch(r"[sv]\d+", name):
            kind = "STREAM" if name[0] == "s" else "MATERIALIZED VIEW"
        ((statement,),) = rows(first, f"SHOW CREATE {kind} {q}")
        second.sql(str(statement))
        assert rows(second, f"SHOW CREATE {kind} {q}") == [(statement,)]
        assert rows(second, f"DESCRIBE {q}") == rows(first, f"DESCRIBE {q}")
        assert rows(second, f"SHOW CREATE TABLE {q}") == [(statement,)]


@pytest.mark.parametrize(
    ("text", "error", "hint"),
    [
        ("DESCRIBE totls", CatalogError, 'Did you mean "totals"?'),
        ("DESCRIBE MATERIALIZED VIEW totl", CatalogError, 'Did you mean "totals"?'),
        ("DROP MATERIALIZED VIEW total", CatalogError, 'Did you mean "totals"?'),
        ("DROP STREAM click", CatalogError, 'Did you mean "clicks"?'),
        ("EXPLAIN MATERIALIZED VIEW Totalz", CatalogError, 'Did you mean "totals"?'),
        ("CRAETE TABLE x (a INT)", SqlSyntaxError, 'Did you mean "CREATE"?'),
        ("SELCT 1", SqlSyntaxError, 'Did you mean "SELECT"?'),
        ("CREATE TABEL x (a INT)", SqlSyntaxError, 'Did you mean "TABLE"?'),
        ("CREATE TABLE x (a BIGNT)", SqlSyntaxError, 'Did you mean "BIGINT"?'),
        ("SHOW TABELS", SqlSyntaxError, 'Did you mean "TABLES"?'),
        ("EXPLAIN CREATE MATERIALIZED VIEW v AS SELECT suum(a) FROM t", SqlViewError,
         'Did you mean "sum"?'),
    ],
)  # fmt: skip
def test_names_that_are_nearly_right(
    db: sqlview.Session, text: str, error: type[SqlViewError], hint: str
) -> None:
    with pytest.raises(error) as caught:
        db.sql(text)
    assert caught.value.hint is not None and hint in caught.value.hint


def test_the_kind_that_is_asked_for(db: sqlview.Session) -> None:
    for text in ("DESCRIBE STREAM t", "DESCRIBE MATERIALIZED VIEW t", "SHOW CREATE STREAM totals"):
        with pytest.raises(CatalogError, match="is a"):
            db.sql(text)
    with pytest.raises(CatalogError, match='"nothing" does not exist'):
        db.sql("SHOW COLUMNS IN nothing")


def test_columns_of_data_that_are_nearly_right(db: sqlview.Session) -> None:
    one = pa.table({"a": [1], "b_c": [1], "m": [None]})
    for data in (one, one.to_pylist()):
        with pytest.raises(DataError) as caught, db.transaction() as tx:
            tx.insert("t", data)
        assert caught.value.hint == 'Did you mean "b c"?'
    with pytest.raises(CatalogError) as missing, db.transaction() as tx:
        tx.insert("click", one)
    assert missing.value.hint == 'Did you mean "clicks"?'
    with pytest.raises(CatalogError) as missing:
        db.view("totales")
    assert missing.value.hint == 'Did you mean "totals"?'
    with pytest.raises(DataError) as caught:
        db.view("totals").lookup(whta=1)
    assert caught.value.hint == 'Did you mean "what"?'
