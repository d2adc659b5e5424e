"""What never has a row is not computed: plans, and the same rows."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import sqlview

QUERIES = {
    "SELECT a FROM t WHERE 1 = 0": "Values",
    "SELECT t.a FROM t JOIN u ON t.a = u.a AND false": "Values",
    "SELECT t.a, x.b FROM t LEFT JOIN (SELECT * FROM u WHERE false) x ON t.a = x.a": "Project",
    "SELECT t.a, x.b FROM t FULL JOIN (SELECT * FROM u WHERE false) x ON t.a = x.a": "",
    "SELECT a FROM t WHERE EXISTS (SELECT * FROM u WHERE u.a = t.a AND 2 < 1)": "Values",
    "SELECT a FROM t WHERE NOT EXISTS (SELECT * FROM u WHERE u.a = t.a AND 2 < 1)": "",
    "SELECT a, EXISTS (SELECT * FROM u WHERE u.a = t.a AND false) AS e FROM t": "",
    "SELECT a FROM t UNION ALL SELECT a FROM u WHERE CAST(NULL AS BOOLEAN)": "",
    "SELECT a, count(*) AS n FROM t WHERE false GROUP BY a": "Values",
    "SELECT count(*) AS n, sum(b) AS s FROM t WHERE false": "Project",
    "SELECT a, rank() OVER (ORDER BY a) AS r FROM t WHERE false": "Values",
    "SELECT a FROM t WHERE false ORDER BY a LIMIT 3": "Values",
    "SELECT a FROM t EXCEPT SELECT a FROM u WHERE false": "",
    "SELECT a FROM t WHERE a > (SELECT max(a) FROM u WHERE false)": "",
    "SELECT a FROM t WHERE a NOT IN (SELECT a FROM u WHERE false)": "",
}


@pytest.fixture
def db() -> Iterator[sqlview.Session]:
    with sqlview.connect(placement="inline") as made:
        for name in ("t", "u"):
            made.sql(f"CREATE TABLE {name} (a INT, b INT)")
        yield made


def test_the_rows_are_those_of_a_recompute(db: sqlview.Session) -> None:
    for i, query in enumerate(QUERIES):
        db.sql(f"CREATE MATERIALIZED VIEW v{i} AS {query}")
    rows = [(1, 1), (1, None), (None, 2), (3, 4)]
    for action, table, changed in (
        *(("insert", "t", rows), ("insert", "u", rows[1:])),
        *(("delete", "t", rows[:1]), ("delete", "u", rows[1:])),
    ):
        with db.transaction() as tx:
            getattr(tx, action)(table, changed)
        for i, query in enumerate(QUERIES):
            assert db.verify(f"v{i}", engine="duckdb").equal, query


def test_what_is_empty_is_a_constant(db: sqlview.Session) -> None:
    for query, begin in QUERIES.items():
        text = str(db.sql(f"EXPLAIN CREATE MATERIALIZED VIEW v AS {query}"))
        logical = text.partition("== Dataflow ==")[0]
        assert logical.splitlines()[1].startswith(begin), logical
        assert "false" not in logical.lower() or "AS e" in query, logical


def test_events_stay_events(db: sqlview.Session) -> None:
    db.sql("CREATE STREAM e (a INT)")
    db.sql("CREATE MATERIALIZED VIEW v AS SELECT a FROM e WHERE false UNION ALL SELECT a FROM e")
    with db.transaction() as tx:
        tx.insert("e", [(1,), (2,)])
    assert sorted(db.view("v").rows()) == [(1,), (2,)]
