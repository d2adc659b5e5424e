"""INSERT, UPDATE, DELETE, MERGE: against DuckDB at random, and by hand what it does otherwise."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import sqlview
from planner.errors import (
    BindError,
    CatalogError,
    DataError,
    SqlSyntaxError,
    SqlViewError,
    UnsupportedError,
    ViewError,
)
from tests.statements import live


@pytest.mark.parametrize("seed", [0, 1])
def test_random_statements(seed: int, tmp_path: Path) -> None:
    went = live(seed, 25, tmp_path / "s" if seed else None)
    assert went["INSERT"] and went["MERGE"]


def _session(**options: Any) -> sqlview.Session:
    db = sqlview.connect(placement="inline", **options)
    db.sql("CREATE TABLE t (k INT PRIMARY KEY, a INT, s STRING)")
    db.sql("CREATE TABLE b (a INT, s STRING)")
    db.sql("CREATE MATERIALIZED VIEW all_t AS SELECT * FROM t")
    db.sql("CREATE MATERIALIZED VIEW all_b AS SELECT * FROM b")
    db.sql("INSERT INTO t VALUES (1, 10, 'x'), (2, 20, 'y'), (3, NULL, 'x')")
    db.sql("INSERT INTO b VALUES (1, 'x'), (1, 'x'), (2, 'y')")
    return db


def _rows(db: sqlview.Session, name: str = "t") -> list[tuple[Any, ...]]:
    return sorted(db.view(f"all_{name}").rows(), key=repr)


T = [(1, 10, "x"), (2, 20, "y"), (3, None, "x")]


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("INSERT INTO TABLE t (s, k) VALUES ('n', 7)", [*T, (7, None, "n")]),
        ("INSERT INTO t BY NAME SELECT 'n' AS s, 7 AS K", [*T, (7, None, "n")]),
        ("INSERT INTO t (SELECT k + 5, DEFAULT, s FROM t WHERE k = 2)", [*T, (7, None, "y")]),
        (
            "INSERT INTO t VALUES (7, 1.5, NULL), (8, NULL, DATE '2024-01-02')",
            [*T, (7, 1, None), (8, None, "2024-01-02")],
        ),
        ("INSERT INTO t VALUES (2 * 4, cast('5' AS INT) + 1, upper('z'))", [*T, (8, 6, "Z")]),
        ("INSERT INTO t WITH w AS (SELECT max(k) AS m FROM t) SELECT m + 1, m, 'n' FROM w",
         [*T, (4, 3, "n")]),
        ("UPDATE t SET s = concat(s, '!'), t.a = k WHERE k <> 2",
         [(1, 1, "x!"), (2, 20, "y"), (3, 3, "x!")]),
        ("UPDATE t AS z SET z.k = z.k + 1, a = DEFAULT",
         [(2, None, "x"), (3, None, "y"), (4, None, "x")]),
        ("UPDATE t SET a = (SELECT sum(b.a) FROM b WHERE b.s = t.s)",
         [(1, 2, "x"), (2, 2, "y"), (3, 2, "x")]),
        ("DELETE FROM t z WHERE EXISTS (SELECT 1 FROM b WHERE z.k = b.a)", T[2:]),
        (
            "WITH w AS (SELECT max(k) AS m FROM t) INSERT INTO t (k, s) SELECT m + 1, 'n' FROM w;",
            [*T, (4, None, "n")],
        ),
        ("DELETE FROM t", []),
        ("TRUNCATE TABLE t", []),
        (
            "DELETE FROM t WHERE k IN (WITH w AS MATERIALIZED (SELECT a FROM b) SELECT a FROM w)",
            T[2:],
        ),
        ("MERGE INTO t USING b ON t.s = b.s WHEN MATCHED THEN DELETE", []),
        (("MERGE INTO t USING t AS u ON t.k = u.k + 1 WHEN MATCHED THEN UPDATE SET * "
         "WHEN NOT MATCHED BY TARGET THEN INSERT (k) VALUES (u.k + 10)"), None),
        (("MERGE INTO t z USING (SELECT 9 AS k, 'n' AS s, 1 AS a) u ON z.k = u.k "
         "WHEN NOT MATCHED THEN INSERT *"), [*T, (9, 1, "n")]),
        (("MERGE INTO t z USING (VALUES (1, 'n'), (2, 'm')) AS u (k, s) ON z.k = u.k "
         "WHEN MATCHED AND CASE WHEN u.s = 'n' THEN true END THEN UPDATE SET s = u.s, "
         "a = 100 / (z.k - 2) WHEN NOT MATCHED BY SOURCE THEN UPDATE SET s = 'left'"),
         [(1, -100, "n"), (2, 20, "y"), (3, None, "left")]),
    ],
)  # fmt: skip
def test_what_changes(text: str, rows: list[tuple[Any, ...]] | None) -> None:
    with _session() as db:
        epoch = db.epoch
        if rows is None:  # both rows would get a key that another one has, or keep
            with pytest.raises(DataError, match="the key is there already"):
                db.sql(text)
            assert (_rows(db), db.epoch) == (T, epoch)
            return
        db.sql(text)
        assert _rows(db) == sorted(rows, key=repr)
        assert db.epoch == epoch + 1
        assert db.verify("all_t").equal


def test_copies_of_a_row() -> None:
    with _session() as db:
        assert db.sql("UPDATE b SET a = a + 1 WHERE s = 'x'").rows() == [(2,)]
        assert _rows(db, "b") == [(2, "x"), (2, "x"), (2, "y")]
        merge = "MERGE INTO b USING (SELECT 'x' AS s) AS u ON b.s = u.s"
        assert db.sql(f"{merge} WHEN MATCHED THEN UPDATE SET a = 5").rows() == [(2, 2, 0, 0)]
        both = merge.replace("'x' AS s", "a, s FROM b")
        with pytest.raises(DataError, match="matched by more than one row"):
            db.sql(f"{both} WHEN MATCHED AND u.a = 0 THEN UPDATE SET a = 5")
        assert db.sql(f"{both} WHEN MATCHED THEN DELETE").rows() == [(3, 0, 3, 0)]


def test_several_matches_name_a_row() -> None:
    with _session() as db, pytest.raises(DataError) as error:
        db.sql("MERGE INTO t USING b ON t.k = b.a WHEN MATCHED THEN UPDATE SET a = 1")
    assert str(error.value).splitlines()[:2] == [
        'cannot merge into "t": a row is matched by more than one row of the source',
        "Detail: It is the row with k = 1. Nothing has changed.",
    ]


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        ("UPDATE t SET a = 1 / (k - 2)", DataError, 'cannot update "t": .*division by zero'),
        ("INSERT INTO t VALUES (5, 1 / 0, 'x')", DataError, "division by zero"),
        ("INSERT INTO t SELECT 3000000000, 1, 'x'", DataError, "OVERFLOW"),
        ("INSERT INTO t (a) VALUES (5)", DataError, 'NULL in column "k"'),
        ("UPDATE t SET k = NULL", DataError, 'NULL in column "k"'),
        ("INSERT INTO t VALUES (1, 1, 'x')", DataError, "the key is there already"),
        ("UPDATE t SET k = 1", DataError, "the key is there already"),
        ("INSERT INTO t VALUES ('5', 1, 'x')", BindError, 'cannot write STRING to column "k"'),
        ("UPDATE t SET a = s", BindError, 'STRING to column "a", which is INT .line 1, column 18'),
        ("UPDATE t SET a = true", BindError, "cannot write BOOLEAN"),
        ("INSERT INTO t VALUES (5, 1)", BindError, "takes 3 columns here, and the query has 2"),
        ("INSERT INTO t (k, K) VALUES (5, 1)", BindError, "given more than once"),
        ("INSERT INTO t (k, z) VALUES (5, 1)", BindError, 'no column "z"'),
        ("INSERT INTO t BY NAME SELECT 1 AS k, 2", BindError, 'no column "2"'),
        ("UPDATE t SET z = 1", BindError, 'no column "z" .line 1, column 14'),
        ("UPDATE t SET a = 1, A = 2", BindError, "assigned more than once"),
        ("UPDATE t SET u.a = 1", SqlSyntaxError, '"u" is not what changes'),
        ("UPDATE t SET a = sum(k)", BindError, "aggregate"),
        ("UPDATE t SET a = 1 FROM b", SqlSyntaxError, "not an expression"),
        ("UPDATE t SET a =", SqlSyntaxError, "end of input"),
        ("UPDATE t SET a = 1 WHERE q = 1", BindError, 'column "q" does not exist'),
        ("UPDATE all_t SET a = 1", CatalogError, "is a view, not a table"),
        ("DELETE FROM nothing", CatalogError, "does not exist"),
        ("DELETE FROM t WHERE max(k) = 1", BindError, "aggregate"),
        ("DELETE FROM events", CatalogError, "is a stream"),
        ("INSERT INTO b SELECT * FROM events", CatalogError, "events.* are gone"),
        ("INSERT OVERWRITE t SELECT * FROM t", SqlSyntaxError, "INSERT OVERWRITE"),
        ("TRUNCATE TABLE all_t", CatalogError, "is a view"),
        ("INSERT INTO t PARTITION (k = 1) SELECT 1, 1", SqlSyntaxError, "PARTITION"),
        ("UPDATE t SET a = rand()", UnsupportedError, "RAND"),
        ("INSERT INTO b SELECT 1, now()", UnsupportedError, "before the clock"),
        ("MERGE INTO t USING b ON a = 1 WHEN NOT MATCHED THEN INSERT (k) VALUES (1)",
         BindError, "ambiguous"),
        ("MERGE INTO t USING b ON k = 1 WHEN NOT MATCHED THEN INSERT (k) VALUES (max(b.a))",
         BindError, "aggregate"),
        ("MERGE INTO t USING b ON k = 1 WHEN NOT MATCHED THEN INSERT (k) VALUES (t.a)",
         BindError, "t"),
        ("MERGE INTO t USING b ON k = 1 WHEN NOT MATCHED THEN INSERT *", BindError, "b.k"),
        ("MERGE INTO t USING t ON true WHEN MATCHED THEN DELETE", SqlSyntaxError, "both sides"),
        ("MERGE INTO t USING (SELECT 1) ON true WHEN MATCHED THEN DELETE", SqlSyntaxError, "alias"),
        ("MERGE INTO t USING b ON k = 1", SqlSyntaxError, "end of input"),
        ("MERGE INTO t USING b ON k = 1 WHEN MATCHED THEN DELETE WHEN MATCHED THEN DELETE",
         SqlSyntaxError, "follows one that takes all"),
        ("MERGE INTO t USING b ON k = 1 WHEN MATCHED THEN INSERT *", SqlSyntaxError, "INSERT"),
        ("MERGE INTO t USING b ON k = 1 WHEN NOT MATCHED THEN INSERT (k) VALUES (1, 2)",
         SqlSyntaxError, "2 values for 1 columns"),
        ("MERGE INTO t USING b ON k = 1 WHEN NOT MATCHED BY SOURCE THEN UPDATE SET *",
         SqlSyntaxError, "no row of the source"),
    ],
)  # fmt: skip
def test_refused(
    text: str, kind: type[SqlViewError], message: str, unchanged: sqlview.Session
) -> None:
    db = unchanged
    state, epoch = db.arrangements(), db.epoch
    with pytest.raises(kind, match=message):
        db.sql(text)
    assert (_rows(db), db.epoch) == (T, epoch)
    assert db.arrangements().equals(state)


@pytest.fixture(scope="module")
def unchanged() -> Iterator[sqlview.Session]:
    with _session() as db:
        db.sql("CREATE STREAM events (a INT, s STRING)")
        yield db


def test_a_stream_takes_the_rows_of_a_query() -> None:
    with _session() as db:
        db.sql("CREATE STREAM events (a INT, s STRING)")
        db.sql("CREATE MATERIALIZED VIEW n AS SELECT s, count(*) AS n FROM events GROUP BY s")
        db.sql("INSERT INTO events SELECT a, s FROM t")
        assert sorted(db.view("n").rows()) == [("x", 2), ("y", 1)]


def test_a_view_in_error_is_no_source() -> None:
    with _session() as db:
        db.sql("CREATE MATERIALIZED VIEW broken AS SELECT k, 10 / a AS q FROM t")
        db.sql("UPDATE t SET a = 0 WHERE k = 1")
        with pytest.raises(ViewError):
            db.view("broken").rows()
        with pytest.raises(DataError, match="division by zero"):
            db.sql("INSERT INTO b SELECT q, 'x' FROM broken")
        db.sql("UPDATE t SET a = 5 WHERE k = 1")
        assert sorted(db.view("broken").rows(), key=repr) == [(1, 2.0), (2, 0.5), (3, None)]


def test_a_row_is_found_by_its_key() -> None:
    with _session() as db:
        with db.transaction() as tx:
            tx.insert("t", [(k, k, "z") for k in range(100, 20_100)])
        for text in ("UPDATE t SET a = a + 1 WHERE k = 150 AND a > 0",
                     "DELETE FROM t WHERE k IN (151, 152) AND s = 'z'"):  # fmt: skip
            read: list[int] = []
            db._dataflow.on_read = read.append
            db.sql(text)
            assert not read, "rows of the table are read through its key's index"
        db.sql("UPDATE t SET a = 0 WHERE a = 153")
        assert sum(read) >= 20_000
        assert (150, 151, "z") in _rows(db)
        assert db.verify("all_t").equal


def test_what_was_installed_for_an_answer_goes() -> None:
    with _session() as db:
        state = db.state()
        db.sql("DELETE FROM t WHERE a IN (SELECT a * 100 FROM b GROUP BY a) OR s = 'none'")
        kept = ["kind", "relation", "detail", "readers"]
        assert db.state().select(kept).equals(state.select(kept))
        assert [v.name for v in db._catalog.views()] == ["all_t", "all_b"]


def test_without_sharing() -> None:
    with _session(share=False) as db:
        db.sql("CREATE STREAM events (a INT, s STRING)")
        db.sql("CREATE MATERIALIZED VIEW n AS SELECT count(*) AS n FROM events")
        with pytest.raises(CatalogError, match="are gone"):
            db.sql("INSERT INTO b SELECT n, 'x' FROM n")
        db.sql("INSERT INTO b SELECT k, s FROM all_t WHERE k = 3")
        assert (3, "x") in _rows(db, "b")


def test_a_subscriber_runs_a_statement() -> None:
    with _session() as db:
        db.sql("CREATE TABLE log (epoch BIGINT, changes BIGINT)")
        db.sql("CREATE MATERIALIZED VIEW logged AS SELECT * FROM log")

        def note(table: Any) -> None:
            db.sql(f"INSERT INTO log VALUES ({db.epoch}, {table.num_rows})")

        db.subscribe("all_t", note)
        db.sql("UPDATE t SET a = 0 WHERE k < 3")
        assert db.view("logged").rows() == [(3, 4)]


def test_the_session_s_time_zone() -> None:
    with sqlview.connect(placement="inline", timezone="Europe/Paris") as db:
        db.sql("CREATE TABLE calls (id INT, at TIMESTAMP, day DATE)")
        db.sql("CREATE MATERIALIZED VIEW v AS SELECT * FROM calls")
        db.sql("INSERT INTO calls VALUES (1, DATE '2024-07-01', TIMESTAMP '2024-07-01 23:30:00')")
        (row,) = db.view("v").rows()
        assert row[1].isoformat() == "2024-07-01T00:00:00+02:00"
        assert row[2] == datetime.date(2024, 7, 1)


def test_a_store_that_is_read_takes_no_statement(tmp_path: Path) -> None:
    _session(path=tmp_path / "s").close()
    with sqlview.connect(tmp_path / "s", read_only=True) as db:
        with pytest.raises(SqlViewError):
            db.sql("DELETE FROM t")
        assert _rows(db) == T


def test_within_a_limit_of_memory(tmp_path: Path) -> None:
    with _session(path=tmp_path / "s", memory_limit="8GiB") as db:
        db.sql("UPDATE t SET a = a + 1")
        assert _rows(db)[0] == (1, 11, "x")
