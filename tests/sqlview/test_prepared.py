"""Prepared statements: one view for all values that somebody subscribes to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import date
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

import sqlview
from sqlview import BindError, CatalogError, DataError, SqlViewError, UnsupportedError

Rows = list[tuple[Any, ...]]


def _opened(path: Path | None = None) -> sqlview.Session:
    db = sqlview.connect(path, placement="inline")
    db.sql("CREATE TABLE t (x INT, y INT)")
    db.sql("CREATE TABLE u (y INT, s STRING, d DATE)")
    return db


class Heard:
    """Rows as a subscriber has them."""

    def __init__(self) -> None:
        self.rows: Counter[tuple[Any, ...]] = Counter()

    def __call__(self, table: pa.Table) -> None:
        assert table.column_names[-2:] == ["__time", "__diff"]
        for *row, _, diff in zip(*(c.to_pylist() for c in table.columns), strict=True):
            self.rows[tuple(row)] += diff
        assert all(n >= 0 for n in self.rows.values())

    def all(self) -> Rows:
        return sorted(self.rows.elements(), key=str)


def _from(t: Rows, starts: set[Any]) -> set[Any]:
    """What is reached over t from what is reached already, NULL a dead end."""
    found = set(starts)
    while more := {y for x, y in t if x is not None and x in found} - found:
        found |= more
    return found


def _tc(t: Rows, u: Rows, p: Any) -> Rows:
    return [(y,) for y in _from(t, {y for x, y in t if x == p})]


def _steps(t: Rows, u: Rows, p: Any) -> Rows:
    found = level = {(y, 0) for x, y in t if x == p}
    while level:
        level = {(y, n + 1) for a, n in level for x, y in t if x == a and a is not None and n < p}
        found = found | level
    return [(len(found),)]


#: Statements over t(x, y) and u(y, s, d), and their rows for values.
STATEMENTS: tuple[tuple[str, Callable[[Rows, Rows, Any], Rows]], ...] = (
    ("SELECT x, y FROM t WHERE x = :p", lambda t, u, p: [r for r in t if r[0] == p]),
    (
        "SELECT count(*) AS n, sum(y) AS s FROM t WHERE t.x > :p",
        lambda t, u, p: [
            (len(ys := [y for x, y in t if x is not None and x > p]),
             sum(y for y in ys if y is not None) if any(y is not None for y in ys) else None)
        ],
    ),
    (
        "SELECT u.s, :p + 1 AS q FROM t JOIN u ON t.y = u.y WHERE :p = x",
        lambda t, u, p: [(s, p + 1) for x, y in t for v, s, _ in u if x == p and y is not None
            and v == y],
    ),
    (
        (
            "WITH c AS (SELECT DISTINCT y FROM t WHERE x <= :p)\n"
            "SELECT y FROM c -- :q is no parameter\nWHERE y NOT BETWEEN 2 AND :p"
        ),
        lambda t, u, p: [(y,) for y in {y for x, y in t if x is not None and x <= p}
            if y is not None and not 2 <= y <= p],
    ),
    (
        "SELECT y FROM t WHERE x = :p ORDER BY y DESC LIMIT 1",
        lambda t, u, p: sorted([(y,) for x, y in t if x == p],
            key=lambda r: (r[0] is not None, r[0] or 0))[-1:],
    ),
    (
        ("WITH RECURSIVE r(a, b) AS (SELECT x, y FROM t UNION "
        "SELECT r.a, t.y FROM r JOIN t ON t.x = r.b) SELECT b FROM r WHERE a = :p"),
        _tc,
    ),
    (
        ("WITH RECURSIVE r(a, b) AS (SELECT x, y FROM t UNION "
        "SELECT t.x, r.b FROM t JOIN r ON t.y = r.a) SELECT b FROM r WHERE a = :p"),
        _tc,
    ),
    (
        ("WITH RECURSIVE r(b, n) MAX RECURSION LEVEL 9 AS (SELECT y, 0 FROM t WHERE x = :p UNION "
        "SELECT t.y, n + 1 FROM t, r AS q WHERE t.x = q.b AND n < :p) SELECT count(*) AS c FROM r"),
        _steps,
    ),
    (
        ("WITH RECURSIVE `odd r`(b) AS (SELECT y FROM t WHERE x = :p UNION SELECT s.b FROM s), "
        "s(b) AS (SELECT DISTINCT t.y FROM t JOIN `odd r` ON t.x = `odd r`.b), k(y) AS (SELECT 7) "
        "SELECT q.b FROM `odd r` AS q WHERE :p = :p AND q.b NOT IN (SELECT y FROM k) OR b IS NULL"),
        _tc,
    ),
)  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), STATEMENTS)
def test_random(text: str, expected: Callable[[Rows, Rows, Any], Rows]) -> None:
    random = Random(text)
    t: Rows = []
    u: Rows = []
    with _opened() as db:
        statement = db.prepare(text)
        assert statement.parameters == {"p": "INT"}
        live: list[tuple[sqlview.Subscription, Heard]] = []
        for epoch in range(25):
            with db.transaction() as tx:
                gone = random.sample(t, min(len(t), random.randrange(3)))
                for row in gone:
                    t.remove(row)
                tx.delete("t", gone)
                come = [
                    (random.choice([None, 1, 2, 3]), random.choice([None, 1, 2, 3, 4]))
                    for _ in range(random.randrange(4))
                ]
                tx.insert("t", come)
                t += come
                if random.random() < 0.3:
                    u.append((random.randrange(4), "é", date(2026, 1, 1)))
                    tx.insert("u", [u[-1]])
            if random.random() < 0.6:
                heard = Heard()
                live.append((statement.subscribe(heard, p=random.randrange(4)), heard))
            if live and random.random() < 0.3:
                live.pop(random.randrange(len(live)))[0].close()
            for subscription, heard in live:
                right = sorted(expected(t, u, subscription.values["p"]), key=str)
                assert sorted(subscription.rows(), key=str) == right, (epoch, text)
                assert heard.all() == right, (epoch, text)
            assert len(statement) == len({s.values["p"] for s, _ in live})
            rows = db.snapshot().table(f"{statement.name}_parameters").rows()
            assert sorted(rows) == sorted({s.key for s, _ in live})
        assert db.verify(statement.name, engine="duckdb").equal


def test_several_parameters_and_types() -> None:
    with _opened() as db:
        db.sql("INSERT INTO u VALUES (1, 'a', DATE '2026-01-01'), (2, 'a', DATE '2026-03-01')")
        statement = db.prepare(
            "SELECT y FROM u AS v "
            "WHERE v.s = :s AND d >= :since AND y < CAST(:most AS DECIMAL(4, 1))"
        )
        assert statement.parameters == {"s": "STRING", "since": "DATE", "most": "DECIMAL(4,1)"}
        with statement.subscribe(s="a", since=date(2026, 2, 1), most=9) as subscription:
            assert subscription.rows() == [(2,)]
            assert subscription.values["most"] == 9
            assert "1 values" in repr(statement)
        assert len(statement) == 0
        with pytest.raises(SqlViewError, match="closed"):
            subscription.rows()
        subscription.close()
        heard = Heard()
        statement.subscribe(heard, s="a", since=date(2026, 2, 1), most=9).close()
        assert heard.all() == [(2,)]  # it is not told that they leave


def test_operators_are_shared_and_nothing_is_left() -> None:
    with _opened() as db:
        before = db.arrangements().num_rows
        db.sql("INSERT INTO t VALUES (1, 2), (3, 4)")
        statement = db.prepare("SELECT y FROM t WHERE x = :p", name="by_x")
        assert db.prepare("SELECT y FROM t WHERE x = :p", name="by_x") is statement
        statement.subscribe(p=0).rows()
        builds = db.metrics().index_builds
        subscriptions = [statement.subscribe(p=p) for p in (1, 2, 3, 3)]
        assert [s.rows() for s in subscriptions] == [[(2,)], [], [(4,)], [(4,)]]
        assert db.metrics().index_builds == builds
        assert len(statement) == 4
        statement.drop()
        assert db.sql("SHOW TABLES").rows() == [("t",), ("u",)]
        assert db.arrangements().num_rows == before
        assert db.prepare("SELECT y FROM t WHERE x = :p", name="by_x") is not statement


def test_a_store_forgets_who_is_gone(tmp_path: Path) -> None:
    text = "SELECT y FROM t WHERE x = :p"
    with _opened(tmp_path / "store") as db:
        db.sql("INSERT INTO t VALUES (1, 2)")
        statement = db.prepare(text)
        statement.subscribe(p=1)
    with sqlview.connect(tmp_path / "store", placement="inline") as db:
        assert len(db.view(statement.name)) == 1
        again = db.prepare(text)
        assert again.name == statement.name
        assert len(db.view(again.name)) == 0
        assert again.subscribe(p=1).rows() == [(2,)]


def test_a_failing_subscriber_leaves_the_others_their_changes() -> None:
    def fails(table: pa.Table) -> None:
        raise ValueError("no")

    with _opened() as db:
        db.sql("INSERT INTO t VALUES (1, 2)")
        statement = db.prepare("SELECT y FROM t WHERE x = :p")
        with pytest.raises(sqlview.SubscriberError):
            statement.subscribe(fails, p=1)
        assert len(statement) == 1  # the step is committed: it subscribes
        heard = Heard()
        statement.subscribe(heard, p=1)
        with pytest.raises(sqlview.SubscriberError):
            db.sql("INSERT INTO t VALUES (1, 3)")
        assert heard.all() == [(2,), (3,)]


def test_a_recursion_is_computed_for_its_values_alone() -> None:
    with _opened() as db:
        with db.transaction() as tx:
            tx.insert("t", [(i, i + 1) for i in range(100)])
        statement = db.prepare(
            "WITH RECURSIVE r(a, b) AS (SELECT x, y FROM t UNION "
            "SELECT r.a, t.y FROM r JOIN t ON t.x = r.b) SELECT b FROM r WHERE r.a = :p"
        )
        assert statement.parameters == {"p": "INT"}
        assert len(statement.subscribe(p=90).rows()) == 10
        assert db.metrics().steps[-1].keys == 10
        statement.subscribe(p=40)
        assert db.metrics().steps[-1].keys == 60


@pytest.mark.parametrize(
    ("text", "detail"),
    [
        ("r(a) AS (SELECT y FROM t WHERE x = :p UNION SELECT r.a FROM r JOIN r AS s ON r.a = s.a)",
            "several times"),
        ("r(a) AS (SELECT y FROM t WHERE x = :p UNION SELECT max(a) FROM r)", "an aggregate"),
        ("r(a) AS (SELECT y FROM t WHERE x = :p UNION SELECT * FROM r)", "It says *"),
        ("r(a) AS (SELECT y FROM t WHERE x = :p UNION SELECT x FROM t LEFT JOIN r ON a = y)",
            "pads it"),
        (("r(a) AS (SELECT y FROM t WHERE x = :p UNION SELECT x FROM t WHERE EXISTS "
            "(SELECT 1 FROM r WHERE a = y))"), "inside of another"),
        ("r AS (SELECT y AS a FROM t WHERE x = :p UNION SELECT x FROM t JOIN r ON a = y)",
            "does not name its columns"),
    ],
)  # fmt: skip
def test_recursion_that_cannot_be_for_values(text: str, detail: str) -> None:
    with _opened() as db:
        with pytest.raises(UnsupportedError, match="cannot prepare parameters in") as error:
            db.prepare(f"WITH RECURSIVE {text} SELECT a FROM r")
        assert detail in str(error.value.detail)
        assert error.value.line == 1 and error.value.hint
        assert db.sql("SHOW TABLES").rows() == [("t",), ("u",)]


def test_what_is_refused() -> None:
    with _opened() as db:
        with pytest.raises(SqlViewError, match="has no parameter"):
            db.prepare("SELECT y FROM t WHERE s = ':p'")
        with pytest.raises(BindError, match="type of :p is not known") as unknown:
            db.prepare("SELECT y\nFROM t WHERE x + 1 = :p")
        assert (unknown.value.line, unknown.value.column) == (2, 22)
        with pytest.raises(BindError, match="compared with INT, STRING"):
            db.prepare("SELECT t.y FROM t, u WHERE x = :p AND s = :p")
        with pytest.raises(SqlViewError, match="no parameter :q"):
            db.prepare("SELECT y FROM t WHERE x = :p", types={"q": "INT"})
        with pytest.raises(BindError, match="nowhere") as error:
            db.prepare("SELECT y FROM t WHERE x = :p\n AND :p < nowhere")
        assert (error.value.line, error.value.column) == (2, 11)
        with pytest.raises(UnsupportedError) as refused:
            db.prepare("SELECT rand() FROM t WHERE x = :p")
        assert (refused.value.line, refused.value.column) == (1, 8)
        with pytest.raises(CatalogError, match="exists already"):
            db.prepare("SELECT y FROM t WHERE x = :p", name="t")
        with pytest.raises(UnsupportedError, match="a query that may have a row") as twice:
            db.prepare(
                "WITH RECURSIVE r(a) AS (SELECT y FROM t WHERE x = :p UNION SELECT a FROM s),\n"
                " s(a) AS (SELECT y FROM t JOIN r ON x = r.a) SELECT a FROM r"
            )
        assert "at line 2, column 17 would" in str(twice.value.detail)
        assert db.sql("SHOW TABLES").rows() == [("t",), ("u",)]
        statement = db.prepare("SELECT y FROM t WHERE x + 0 = :p", types={"p": "SMALLINT"})
        with pytest.raises(SqlViewError, match="no value for parameter :p"):
            statement.subscribe()
        with pytest.raises(SqlViewError, match="no parameter :q"):
            statement.subscribe(p=1, q=2)
        for wrong in ("1", 1.5, True, 40_000, [1]):
            with pytest.raises(DataError, match="parameter :p takes SMALLINT"):
                statement.subscribe(p=wrong)
        with pytest.raises(DataError, match="is NULL"):
            statement.subscribe(p=None)
        with pytest.raises(TypeError):
            statement.subscribe(3, p=1)  # type: ignore[arg-type]
        assert len(statement) == 0
