"""Lambdas in views that change: in filters, joins, groups and correlated subqueries.

What they compute is compared with Spark in test_functions; here, every epoch is compared with views
of the same texts that are made anew.
"""

from __future__ import annotations

import random
from typing import Any

import pytest

import sqlview

VIEWS = {
    "f": "SELECT id, filter(a, x -> x > id) AS f FROM t WHERE exists(a, x -> x = id)",
    "j": "SELECT t.id, u.k, transform(a, x -> x + k) AS p FROM t JOIN u ON exists(a, x -> x = u.k)",
    "lj": "SELECT u.k, aggregate(t.a, u.k, (p, x) -> p + x) AS p FROM u LEFT JOIN t"
    " ON u.k = t.id AND forall(t.a, x -> x > 0)",
    "g": "SELECT transform(a, x -> x % 2) AS p, count(*) AS c, transform(collect_list(id),"
    " i -> i * 2) AS ids FROM t GROUP BY transform(a, x -> x % 2)",
    "e": "SELECT id, (SELECT sum(size(filter(b, x -> x >= 0))) FROM u"
    " WHERE exists(b, x -> x = t.id)) AS n FROM t",
    "n": "SELECT id, transform(filter(a, x -> x > 0), x -> transform(a, y -> x * y + id)) AS p"
    " FROM t",
    "m": "SELECT id, map_filter(m, (k, v) -> v = id) AS p, s.* FROM t",
    "w": "SELECT id, array_sort(transform(a, x -> 10 / (x + 9))) AS p, t.s.* FROM t",
}


def test_views_with_lambdas_follow_their_tables() -> None:
    rng = random.Random(7)

    def numbers() -> Any:
        size = rng.choice((0, 1, 2, 3, None))
        return size if size is None else [rng.choice((0, 1, 2, 5, None)) for _ in range(size)]

    with sqlview.connect(placement="inline") as db:
        db.sql(
            "CREATE TABLE t (id INT PRIMARY KEY, a ARRAY<INT>, m MAP<STRING, INT>,"
            " s STRUCT<x: INT, y: STRING>)"
        )
        db.sql("CREATE TABLE u (k INT, b ARRAY<INT>)")
        for name, text in VIEWS.items():
            db.sql(f"CREATE MATERIALIZED VIEW {name} AS {text}")
        bag: list[Any] = []
        for _ in range(6):
            with db.transaction() as tx:
                for i in rng.sample(range(6), 3):
                    struct = rng.choice((None, (i, "y")))
                    tx.upsert("t", [(i, numbers(), [("k", rng.randrange(6))], struct)])
                new = [(rng.randrange(6), numbers()) for _ in range(2)]
                tx.insert("u", new)
                if bag:
                    tx.delete("u", [bag.pop(0)])
                bag += new
            for name, text in VIEWS.items():
                db.sql(f"CREATE MATERIALIZED VIEW again AS {text}")
                assert _rows(db, name) == _rows(db, "again"), name
                db.sql("DROP MATERIALIZED VIEW again")
        assert all(_rows(db, name) for name in VIEWS)


def _rows(db: sqlview.Session, view: str) -> list[str]:
    return sorted(map(repr, db.view(view).rows()))


def test_a_row_that_a_lambda_fails_on_can_leave() -> None:
    with sqlview.connect(placement="inline") as db:
        db.sql("CREATE TABLE t (id INT PRIMARY KEY, a ARRAY<INT>)")
        db.sql("CREATE MATERIALIZED VIEW v AS SELECT id, transform(a, x -> 6 DIV x) AS p FROM t")
        db.sql("CREATE MATERIALIZED VIEW w AS SELECT exists(a, x -> 6 DIV x = 3) AS p FROM t")
        with db.transaction() as tx:
            tx.insert("t", [(1, [2, 0]), (2, [3])])
        assert sorted(db.view("w").rows()) == [(False,), (True,)]
        with pytest.raises(sqlview.ViewError, match="DIVIDE_BY_ZERO"):
            db.view("v").rows()
        with db.transaction() as tx:
            tx.delete("t", [(1,)])
        assert db.view("v").rows() == [(2, [2])]


def test_a_sort_that_contradicts_itself_is_an_error_of_its_row() -> None:
    query = "SELECT array_sort(sequence(1, n), (x, y) -> {}) AS a FROM t"
    with sqlview.connect(placement="inline") as db:
        db.sql("CREATE TABLE t (n INT)")
        db.sql(f"CREATE MATERIALIZED VIEW v AS {query.format('if(x < y, 1, 0)')}")
        db.sql(f"CREATE MATERIALIZED VIEW w AS {query.format('y % 7 - x % 7')}")
        with db.transaction() as tx:
            tx.insert("t", [(50,)])
        ((found,),) = db.view("w").rows()
        assert found == sorted(range(1, 51), key=lambda n: -(n % 7))
        with pytest.raises(sqlview.ViewError, match="contradicts itself"):
            db.view("v").rows()
