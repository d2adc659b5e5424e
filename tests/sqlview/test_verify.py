"""VERIFY never calls a right view wrong, and raises nothing but errors of this library."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import sqlview
from sqlview import session, verify
from sqlview.oracle import CannotSay, DuckDBOracle

_UTC = datetime.timezone.utc
_ROWS = [
    (1, 0.0, "ß", datetime.date(2020, 1, 1), datetime.datetime(2020, 1, 1, 2, 3, 4, 50_000, _UTC),
     Decimal("1.50")),
    (2, 2.0, "ΑΣ", datetime.date(999, 1, 1), datetime.datetime(2020, 1, 1, tzinfo=_UTC), None),
    (3, 1e20, "a1", None, datetime.datetime(1, 1, 1, tzinfo=_UTC), Decimal("0.00")),
    (4, 2.0, "İé", None, None, None),
]  # fmt: skip


@pytest.fixture
def db() -> Iterator[sqlview.Session]:
    with sqlview.connect(placement="inline") as made:
        _fill(made)
        yield made


def _fill(db: sqlview.Session) -> None:
    db.sql("CREATE TABLE t (id INT PRIMARY KEY, x DOUBLE, s STRING, d DATE, ts TIMESTAMP,"
           " dec DECIMAL(10,2))")  # fmt: skip
    with db.transaction() as tx:
        tx.insert("t", _ROWS)


def _nested(depth: int) -> str:
    query = "SELECT id, x FROM t"
    for i in range(depth):
        query = f"SELECT id, x FROM ({query}) AS s{i} WHERE id > {-i}"
    return query


_EACH = [f"id + {i} <> {i}" for i in range(800)]

#: What DuckDB recomputes as Spark means it.
SAID = {
    "a guarded argument": "SELECT id, sum(1 / x) FILTER (WHERE x <> 0) AS s FROM t GROUP BY id",
    "guarded averages": "SELECT avg(dec / dec) FILTER (WHERE dec > 0) AS a,"
    " count(1 / x) FILTER (WHERE x <> 0) AS n, count(DISTINCT 1 / x) FILTER (WHERE x <> 0) AS m,"
    " stddev(1 / x) FILTER (WHERE x <> 0) AS v FROM t",
    "a guarded join": "SELECT a.id, b.x FROM t a LEFT JOIN t b"
    " ON a.id = b.id AND b.x <> 0 AND 1 / b.x > 0",
    "times as text": "SELECT CAST(ts AS STRING) AS a, CAST(d AS STRING) AS b, s || ts AS c FROM t",
    "semi joins": "SELECT a.id FROM t a LEFT SEMI JOIN t b"
    " ON a.id = b.id AND EXISTS (SELECT 1 FROM t c WHERE c.id > b.id)",
    "anti joins": "SELECT a.id FROM t a LEFT ANTI JOIN t b"
    " ON a.id = b.id AND EXISTS (SELECT 1 FROM t c WHERE c.id > b.id)",
    "columns": "SELECT id AS `Été`, s AS `w;e`, x AS `İ` FROM t",
    "many ANDs": f"SELECT id FROM t WHERE {' AND '.join(_EACH)}",
    "many ORs": f"SELECT id FROM t WHERE {' OR '.join(_EACH)}",
    "nested": _nested(100),
    "a long IN": f"SELECT id FROM t WHERE id IN ({', '.join(map(str, range(3_000)))})",
    "a long sum": f"SELECT {' + '.join(['x'] * 200)} AS s FROM t",
}
#: What it does not, and Spark does.
UNSAID = {
    "letters": "SELECT upper(s) AS u, lower(s) AS l, initcap(s) AS i FROM t",
    "exponents": "SELECT CAST(x AS STRING) AS s FROM t",
    "natural joins": "SELECT * FROM t NATURAL JOIN (SELECT 1 AS q UNION ALL SELECT 2) s",
    "divisions": f"SELECT {' / '.join(['(dec + 1)'] * 9)} AS q FROM t",
}


@pytest.mark.parametrize("query", SAID.values(), ids=SAID)
def test_right_views_are_right(query: str, db: sqlview.Session) -> None:
    db.sql(f"CREATE MATERIALIZED VIEW v AS {query}")
    found = db.verify("v", engine="duckdb")
    assert found.equal, str(found)
    assert (found.engine, found.note) == ("DuckDB", None)


@pytest.mark.parametrize("query", UNSAID.values(), ids=UNSAID)
def test_what_duckdb_cannot_say_is_said(query: str, db: sqlview.Session) -> None:
    db.sql(f"CREATE MATERIALIZED VIEW v AS {query}")
    with pytest.raises(sqlview.ViewError, match='cannot verify view "v"') as caught:
        db.verify("v", engine="duckdb")
    assert str(caught.value.detail).startswith("DuckDB cannot say this query: ")
    assert 'engine="spark"' in str(caught.value.hint)


@pytest.mark.spark
def test_spark_recomputes_what_duckdb_cannot_say(spark: Any) -> None:
    with sqlview.connect(spark=spark, placement="inline") as db:
        _fill(db)
        for i, query in enumerate(UNSAID.values()):
            db.sql(f"CREATE MATERIALIZED VIEW v{i} AS {query}")
            found = db.verify(f"v{i}")
            assert found.equal, str(found)
            assert found.engine == "Spark"
            assert str(found.note).startswith("DuckDB cannot say this query: ")
            assert f'view "v{i}" equals its recompute by Spark at epoch 1' in str(found)


@pytest.mark.spark
def test_spark_recomputes_views_over_views_from_the_tables(spark: Any) -> None:
    with sqlview.connect(spark=spark, placement="inline") as db:
        _fill(db)
        db.sql("CREATE MATERIALIZED VIEW v (`a b`, n) AS"
               " SELECT x, count(*) FROM t GROUP BY x -- a comment")  # fmt: skip
        db.sql("CREATE MATERIALIZED VIEW w AS WITH t AS (SELECT `a b` AS x, n FROM v)"
               " SELECT x, n, any_value(x) AS y FROM t GROUP BY x, n")  # fmt: skip
        db.sql("CREATE MATERIALIZED VIEW top AS SELECT n FROM w ORDER BY n DESC LIMIT 2")
        for view in ("v", "w", "top"):
            found = db.verify(view, engine="spark")
            assert found.equal and found.engine == "Spark", str(found)
        (row,) = db.sql("VERIFY MATERIALIZED VIEW top").to_arrow().to_pylist()
        assert (row["equal"], row["engine"]) == (True, "DuckDB")
        db.sql("CREATE MATERIALIZED VIEW chosen AS SELECT max_by(s, x) AS m FROM t")
        with pytest.raises(sqlview.ViewError, match="several right results"):
            db.verify("chosen", engine="spark")
        # A view in error, and one over it.
        db.sql("CREATE MATERIALIZED VIEW wrong AS SELECT 1 / x AS q FROM t")
        db.sql("CREATE MATERIALIZED VIEW over AS SELECT count(*) AS n FROM wrong")
        for view in ("wrong", "over"):
            found = db.verify(view, engine="spark")
            assert found.equal and found.error is not None
            assert "DIVIDE_BY_ZERO" in str(found.recompute_error)


def _lying(monkeypatch: pytest.MonkeyPatch) -> None:
    """DuckDB loses the first row of every result."""
    honest = DuckDBOracle.query

    def query(self: DuckDBOracle, *args: Any) -> pa.Table:
        return honest(self, *args).slice(1)

    monkeypatch.setattr(DuckDBOracle, "query", query)


class _Other(DuckDBOracle):
    """In the place of Spark."""

    engine = "Spark"


@pytest.fixture
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    def nowhere(self: sqlview.Session) -> Any:
        raise RuntimeError("no Java 17 or later was found")

    monkeypatch.setattr(session.Session, "_side", nowhere)


def test_a_difference_is_confirmed(db: sqlview.Session, monkeypatch: pytest.MonkeyPatch) -> None:
    db.sql("CREATE MATERIALIZED VIEW v AS SELECT id FROM t WHERE id < 3")
    verifier = verify.Verifier(db._catalog, db._rows_of, lambda zone: _Other(zone=zone))
    view = db._catalog.view("v")
    _lying(monkeypatch)
    found = verifier.verify(view, db.epoch)
    assert not found.equal
    assert (found.engine, found.note) == ("Spark", "DuckDB says so too.")
    monkeypatch.undo()
    honest = _Other.query
    _lying(monkeypatch)
    monkeypatch.setattr(_Other, "query", honest, raising=False)
    found = verifier.verify(view, db.epoch)
    assert found.equal and found.engine == "Spark"
    assert 'DuckDB says otherwise: view "v" DIFFERS' in str(found)
    verifier.close()


@pytest.mark.usefixtures("no_spark")
def test_without_spark_a_difference_says_so(
    db: sqlview.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    db.sql("CREATE MATERIALIZED VIEW v AS SELECT id FROM t WHERE id < 3")
    db.sql(f"CREATE MATERIALIZED VIEW w AS {UNSAID['natural joins']}")
    with pytest.raises(sqlview.ViewError) as caught:
        db.verify("w")
    assert "DuckDB cannot say this query" in str(caught.value)
    assert "no Java 17 or later was found" in str(caught.value)
    _lying(monkeypatch)
    found = db.verify("v")
    assert not found.equal and found.extra is not None
    assert "no Java 17" in str(found)


def test_a_view_in_error_is_right_where_its_recompute_is(db: sqlview.Session) -> None:
    db.sql("CREATE MATERIALIZED VIEW v AS SELECT id, 1 / x AS q FROM t")
    db.sql("CREATE MATERIALIZED VIEW w AS SELECT count(*) AS n FROM v")
    db.sql("CREATE MATERIALIZED VIEW z AS SELECT n FROM w")
    for name in ("v", "w", "z"):
        found = db.verify(name, engine="duckdb")
        assert found.equal and found.view == name and found.rows == 0
        assert "DIVIDE_BY_ZERO" in str(found.error)
        assert "division by zero" in str(found.recompute_error)
        first = str(found).splitlines()[0]
        assert first == f'view "{name}" is in error, and so is its recompute at epoch 1'
    assert 'reads view "v"' in str(db.verify("z").note)
    with db.transaction() as tx:
        tx.delete("t", [(1,)])
    assert db.verify("z").equal and db.verify("z").error is None


def test_a_view_that_lacks_an_error_is_wrong(
    db: sqlview.Session, no_spark: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    db.sql("CREATE MATERIALIZED VIEW v AS SELECT id, 1 / x AS q FROM t")
    monkeypatch.setattr(db._reader, "rows", lambda version: pa.table({"id": [1], "q": [1.0]}))
    found = db.verify("v")
    assert not found.equal and found.difference is None and found.missing is None
    assert "which fails: " in str(found)


def test_unknown_engines(db: sqlview.Session) -> None:
    db.sql("CREATE MATERIALIZED VIEW v AS SELECT id FROM t")
    with pytest.raises(ValueError, match="engine is one of duckdb, spark or None, not 'java'"):
        db.verify("v", engine="java")


def test_duckdb_is_made_anew_after_it_failed(
    db: sqlview.Session, no_spark: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    db.sql("CREATE MATERIALIZED VIEW v AS SELECT id FROM t")

    def broken(self: DuckDBOracle, *args: Any) -> pa.Table:
        self.sound = False
        raise CannotSay("out of memory")

    monkeypatch.setattr(DuckDBOracle, "query", broken)
    with pytest.raises(sqlview.ViewError, match="out of memory"):
        db.verify("v")
    monkeypatch.undo()
    with db.transaction() as tx:
        tx.delete("t", [(1,)])
    assert db.verify("v", engine="duckdb").equal


def test_the_order_is_compared_as_far_as_columns_tell(db: sqlview.Session) -> None:
    """The keys behind one that is no output column do not order what is read."""
    db.sql("CREATE TABLE places (id INT, a INT, b INT)")
    with db.transaction() as tx:
        tx.insert("places", [(9 - i, i % 2, i) for i in range(9)])
    order = "a, CASE WHEN a = 0 THEN b END DESC, b"
    db.sql(f"CREATE MATERIALIZED VIEW v AS SELECT id, a, b FROM places ORDER BY {order} LIMIT 8")
    assert db.verify("v", engine="duckdb").equal
    rows = db.view("v").rows()
    assert [a for _, a, _ in rows] == [0] * 5 + [1] * 3
