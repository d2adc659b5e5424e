"""What is said of columns beside their types: defaults, comments, how many characters they take."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import sqlview
from planner.errors import BindError, CatalogError, DataError, SqlViewError, UnsupportedError
from sqlview import Session

_TABLE = """CREATE TABLE t (
  id INT NOT NULL COMMENT 'it''s the key',
  code CHAR(3) DEFAULT 'x',
  note VARCHAR(4) NOT NULL DEFAULT concat('a', 'b'),
  price DECIMAL(5,2) DEFAULT -1.5 COMMENT 'a price',
  day DATE DEFAULT DATE '2024-02-29',
  PRIMARY KEY (id)) COMMENT 'a table'"""
_VIEWS = {
    "same": "SELECT id, code, length(code) AS n FROM t WHERE code = 'x'",
    "over": "SELECT id FROM same WHERE code IN ('x', 'yy') AND code <> 'xxxx'",
    "pairs": "SELECT a.id, b.id AS other FROM t a JOIN same b ON a.code = b.code",
    "text": "SELECT id FROM t WHERE concat(code, '') = 'x' OR note = 'ab '",
    "least": "SELECT code, count(*) AS n FROM t WHERE code < 'xa' GROUP BY code",
}


def _opened(path: Path | None = None) -> Session:
    db = sqlview.connect(path)
    db.sql(_TABLE)
    for name, query in _VIEWS.items():
        db.sql(f"CREATE MATERIALIZED VIEW {name} (*) AS {query}".replace(" (*)", ""))
    return db


def _rows(db: Session, name: str) -> list[tuple[Any, ...]]:
    return sorted(db.view(name).rows(), key=repr)


def test_statements_fill_in_defaults() -> None:
    with _opened() as db:
        db.sql("CREATE MATERIALIZED VIEW v AS SELECT * FROM t")
        db.sql("INSERT INTO t (id) VALUES (1)")
        db.sql("INSERT INTO t VALUES (2, DEFAULT, 'cd', DEFAULT, NULL)")
        db.sql("INSERT INTO t BY NAME SELECT 3 AS id, 'q' AS note")
        db.sql("UPDATE t SET note = DEFAULT, price = 2 WHERE id = 3")
        db.sql(
            "MERGE INTO t USING (VALUES (3), (4)) s (id) ON t.id = s.id "
            "WHEN MATCHED THEN UPDATE SET day = DEFAULT "
            "WHEN NOT MATCHED THEN INSERT (id, code) VALUES (s.id, DEFAULT)"
        )
        db.sql("ALTER TABLE t ALTER COLUMN price SET DEFAULT 2 * 3")
        db.sql("ALTER TABLE t ALTER COLUMN day DROP DEFAULT")
        db.sql("INSERT INTO t (id) SELECT 5")
        rows = [tuple(str(v) for v in row) for row in _rows(db, "v")]
        assert rows == [
            ("1", "x  ", "ab", "-1.50", "2024-02-29"),
            ("2", "x  ", "cd", "-1.50", "None"),
            ("3", "x  ", "ab", "2.00", "2024-02-29"),
            ("4", "x  ", "ab", "-1.50", "2024-02-29"),
            ("5", "x  ", "ab", "6.00", "None"),
        ]


def test_a_default_may_be_the_time() -> None:
    import datetime

    with sqlview.connect() as db:
        db.sql("CREATE TABLE t (id INT, at TIMESTAMP DEFAULT current_timestamp())")
        with pytest.raises(UnsupportedError, match="CURRENT_TIMESTAMP"):
            db.sql("INSERT INTO t (id) VALUES (1)")
        now = datetime.datetime(2024, 5, 6, tzinfo=datetime.timezone.utc)
        db.advance(now)
        db.sql("INSERT INTO t (id) VALUES (1)")
        db.sql("CREATE MATERIALIZED VIEW v AS SELECT * FROM t")
        assert db.view("v").to_arrow()["at"].to_pylist() == [now]


@pytest.mark.parametrize(
    ("text", "kind", "said"),
    [
        ("a INT DEFAULT 'x'", BindError, "cannot write STRING"),
        ("a INT DEFAULT b", BindError, "reads columns"),
        ("a INT DEFAULT (SELECT 1)", BindError, "reads columns"),
        ("a INT DEFAULT nosuch(1)", BindError, "cannot have the default"),
        ("a VARCHAR", SqlViewError, "says how many characters"),
        ("a VARCHAR(0)", SqlViewError, "says how many characters"),
        ("a ARRAY<CHAR(3)>", UnsupportedError, "CHAR inside another type"),
    ],
)
def test_bad_columns(text: str, kind: type[Exception], said: str) -> None:
    with sqlview.connect() as db:
        with pytest.raises(kind) as caught:
            db.sql(f"CREATE TABLE t ({text})")
        assert said.lower() in str(caught.value).lower()
        assert db.sql("SHOW TABLES").rows() == []


def test_texts_are_as_long_as_their_columns_take(tmp_path: Path) -> None:
    long = "has more characters than"
    with _opened(tmp_path / "store") as db:
        for rows in ([(9, "abcd", "", None, None)], [(9, None, "ééééé", None, None)]):
            with pytest.raises(DataError, match=long) as caught, db.transaction() as tx:
                tx.insert("t", [(8, "a", "b", None, None), *rows])
            assert "Row 1 of the data" in str(caught.value)
        for statement in (
            "INSERT INTO t (id, code) VALUES (9, 'abcd')",
            "INSERT INTO t (id, note) SELECT 9, repeat('a', 5)",
            "ALTER TABLE t ADD COLUMN z VARCHAR(1) DEFAULT 'zz'",
        ):
            with pytest.raises(DataError, match=long):
                db.sql(statement)
        with db.transaction() as tx:  # blanks beyond are cut
            tx.insert("t", [(1, "a   ", "ab    ", None, None), (2, "", "éééé", None, None)])
            given = {"id": [3], "code": ["é"], "note": [" " * 9], "price": [None], "day": [None]}
            tx.insert("t", pa.table(given), cast=True)
        with pytest.raises(DataError, match=long):
            db.sql("UPDATE t SET note = 'abcde' WHERE id = 1")
    with sqlview.connect(tmp_path / "store") as db:
        db.sql("CREATE MATERIALIZED VIEW v AS SELECT id, code, note FROM t")
        assert _rows(db, "v") == [(1, "a  ", "ab  "), (2, "   ", "éééé"), (3, "é  ", "    ")]
        with pytest.raises(DataError, match=long), db.transaction() as tx:
            tx.insert("t", [(9, "abcd", "", None, None)])


def _expected(rows: dict[int, tuple[str | None, str]]) -> dict[str, list[tuple[Any, ...]]]:
    """What Spark makes of the views: CHAR is compared without the blanks at the end."""
    same = [(i, c, 3) for i, (c, _) in rows.items() if c is not None and c.rstrip() == "x"]
    codes = [c for c, _ in rows.values() if c is not None and c < "xa "]
    return {
        "same": same,
        "over": [(i,) for i, _, _ in same],
        "pairs": [(a, b) for a, (c, _) in rows.items() for b, d, _ in same if c == d],
        "text": [(i,) for i, (_, n) in rows.items() if n == "ab "],
        "least": [(c, codes.count(c)) for c in set(codes)],
    }


def test_char_is_compared_as_spark_does() -> None:
    rng = random.Random(5)
    rows: dict[int, tuple[str | None, str]] = {}
    with _opened() as db:
        for _ in range(15):
            with db.transaction() as tx:
                for i in rng.sample(range(8), 3):
                    code = rng.choice([None, "x", "x ", "xa", "y", "", "abc"])
                    note = rng.choice(["ab", "ab ", "", "x"])
                    if i in rows and rng.random() < 0.4:
                        tx.delete("t", [(i,)])
                        del rows[i]
                    else:
                        tx.upsert("t", [(i, code, note, None, None)])
                        rows[i] = (None if code is None else code.ljust(3), note)
            for name, expected in _expected(rows).items():
                assert _rows(db, name) == sorted(expected, key=repr), name


@pytest.mark.spark
def test_spark_recomputes_what_is_compared_as_char(spark: Any) -> None:
    with sqlview.connect(spark=spark, placement="inline") as db:
        db.sql(_TABLE)
        for name, query in _VIEWS.items():
            db.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
        codes = [None, "x", "x ", "xa", "y", "", "abc"]
        with db.transaction() as tx:
            tx.insert("t", [(i, c, "ab ", None, None) for i, c in enumerate(codes)])
        for name in _VIEWS:
            outcome = db.verify(name)
            assert outcome.equal and outcome.engine == "Spark", outcome
        assert db.sql("SELECT id FROM t WHERE code = 'x' ORDER BY id").rows() == [(1,), (2,)]


def test_what_is_said_is_kept(tmp_path: Path) -> None:
    with _opened(tmp_path / "store") as db:
        assert db.sql("SHOW CREATE TABLE t").rows() == [(_TABLE.replace("''", "\\'"),)]
        db.sql("CREATE MATERIALIZED VIEW v (a COMMENT 'key', b) COMMENT 'v' AS SELECT id, 1 FROM t")
        db.sql("CREATE STREAM s (x INT COMMENT 'x') COMMENT 'events'")
        db.checkpoint()
        db.sql("COMMENT ON TABLE t IS 'another'")
        db.sql("COMMENT ON COLUMN t.price IS NULL")
        db.sql("COMMENT ON COLUMN v.b IS 'one'")
        db.sql("COMMENT ON SCHEMA default IS 'all'")
        db.sql("ALTER TABLE t ALTER COLUMN id COMMENT 'plain'")
        with pytest.raises(CatalogError, match='"t" has no column "z"'):
            db.sql("COMMENT ON COLUMN t.z IS 'x'")
        before = [db.sql(f"SHOW CREATE TABLE {name}").rows() for name in "tvs"]
    for _ in range(2):  # from the log, and from a checkpoint
        with sqlview.connect(tmp_path / "store") as db:
            assert [db.sql(f"SHOW CREATE TABLE {name}").rows() for name in "tvs"] == before
            assert db.sql("DESCRIBE SCHEMA default").rows()[2] == ("Comment", "all")
            described = db.sql("DESCRIBE t").to_arrow().to_pylist()
            assert [c["data_type"] for c in described[:3]] == ["int", "char(3)", "varchar(4)"]
            assert [c["default"] for c in described[:3]] == [None, "'x'", "concat('a', 'b')"]
            assert [c["comment"] for c in described] == ["plain", None, None, None, None]
    assert "VIEW v (a COMMENT 'key', b COMMENT 'one') COMMENT 'v' AS" in before[1][0][0]
    assert before[2] == [("CREATE STREAM s (\n  x INT COMMENT 'x') COMMENT 'events'",)]
