"""What windows cost: entries of indexes visited, in a partition of many rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import sqlview

_ROWS = 100_000


_QUERIES = {
    "shifts": "lag(x) OVER (PARTITION BY g ORDER BY id) AS a, lead(x, 3, -1) OVER w AS b",
    "frames": "sum(x) OVER (w ROWS BETWEEN 4 PRECEDING AND 2 FOLLOWING) AS a",
    "another_order": "lag(id) OVER (ORDER BY x, id) AS a,"
    " max(name) OVER (ORDER BY x, id ROWS 2 PRECEDING) AS b",
}


def test_neighbours_are_all_that_is_read() -> None:
    """A change of some rows in a partition of 100,000, whose values differ in some more."""
    with sqlview.connect() as db:
        db.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, g INT, x BIGINT, name STRING)")
        place = np.arange(_ROWS)
        with db.transaction() as tx:
            names = [f"a name that is longer than sixteen bytes {i % 1000}" for i in range(_ROWS)]
            tx.insert("t", {"id": 2 * place, "g": 0 * place, "x": 7 * place % 1009, "name": names})
        for name, over in _QUERIES.items():
            query = over.replace("w ROWS", "PARTITION BY g ORDER BY id ROWS")
            window = " WINDOW w AS (PARTITION BY g ORDER BY id)" if " w " in query else ""
            db.sql(f"CREATE MATERIALIZED VIEW {name} AS SELECT id, {query} FROM t{window}")
        told: dict[str, list[Any]] = {name: [] for name in _QUERIES}
        for name, heard in told.items():
            db.subscribe(name, heard.append)
        changes: tuple[Callable[[Any], None], ...] = (
            lambda tx: tx.insert("t", [(50_001, 0, 5, "new")]),
            lambda tx: tx.upsert("t", [(50_000, 0, 6, "changed"), (20, 0, 1, "far away")]),
            lambda tx: tx.delete("t", [(50_001,), (50_002,), (50_004,), (50_000,)]),
            lambda tx: tx.insert("t", [(1, 0, 0, ""), (10**9, 0, 1008, ""), (50_002, 0, 1, "b")]),
        )
        for change in changes:
            with db.transaction() as tx:
                change(tx)
            assert db.last_step.entries_visited < 1000
            for heard in told.values():
                assert 0 < sum(map(len, heard)) < 60
                heard.clear()
        assert all(db.verify(name, engine="duckdb") for name in _QUERIES)


def test_neighbours_through_many_times_in_one_step() -> None:
    """Each epoch of a step has its own neighbours; rows come and go within it."""
    with sqlview.connect() as db:
        db.sql("CREATE TABLE t (id INT PRIMARY KEY, g STRING, x INT)")
        for name, over in (("a", "PARTITION BY g ORDER BY x"), ("b", "ORDER BY g, x")):
            db.sql(
                f"CREATE MATERIALIZED VIEW {name} AS SELECT id, lag(id, 2) OVER ({over}) AS l,"
                f" sum(x) OVER ({over} ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING) AS s FROM t"
            )
        rng = np.random.default_rng(5)
        long = "a partition whose name is longer than sixteen bytes "
        rows = {int(i): (int(i), long + str(i % 3), int(rng.integers(40))) for i in range(400)}
        with db.transaction() as tx:
            tx.insert("t", list(rows.values()))
        for _ in range(12):
            with db.transactions() as txs:
                ids = rng.integers(0, 450, 8)
                changes = [(int(i), long + str(i % 3), int(rng.integers(40))) for i in ids]
                txs.upsert("t", changes, times=list(range(len(ids))))
                txs.delete("t", [(int(ids[0]),)], times=[len(ids)])
            assert db.verify("a", engine="duckdb")
            assert db.verify("b", engine="duckdb")


def test_the_first_rows_are_a_top_k() -> None:
    with sqlview.connect() as db:
        db.sql("CREATE TABLE t (id INT PRIMARY KEY, g INT, x INT)")
        number = "row_number() OVER (PARTITION BY g ORDER BY x DESC)"
        db.sql(f"CREATE MATERIALIZED VIEW a AS SELECT * FROM t QUALIFY {number} <= 2")
        db.sql(
            f"CREATE MATERIALIZED VIEW b AS SELECT id, n, l FROM (SELECT id, {number} AS n,"
            " lead(x) OVER (PARTITION BY g ORDER BY x DESC) AS l FROM t) q WHERE 3 > n AND l > 0"
        )
        db.sql(f"CREATE MATERIALIZED VIEW c AS SELECT id, {number} AS n FROM t QUALIFY n = 2")
        with db.transaction() as tx:
            tx.insert("t", [(i, i % 3, 7 * i % 1009) for i in range(3000)])
        for i in (5, 100, 2999, 1500):
            with db.transaction() as tx:
                tx.upsert("t", [(i, 0, 2000 + i), (i + 1, 1, -5)])
                tx.delete("t", [(i - 3,)])
            assert db.last_step.entries_visited < 300
            assert all(db.verify(name, engine="duckdb") for name in "abc")


def test_the_first_ranks_are_a_top_k() -> None:
    """Rows that tie come and go together; what is visited are they, not their partitions."""
    with sqlview.connect() as db:
        db.sql("CREATE TABLE t (id INT PRIMARY KEY, g INT, x INT, y DOUBLE)")
        over = "(PARTITION BY g ORDER BY x DESC, y)"
        db.sql(f"CREATE MATERIALIZED VIEW a AS SELECT * FROM t QUALIFY rank() OVER {over} <= 3")
        db.sql(
            f"CREATE MATERIALIZED VIEW b AS SELECT id FROM t QUALIFY dense_rank() OVER {over} < 3"
        )
        db.sql(
            "CREATE MATERIALIZED VIEW c AS SELECT id, n, s FROM (SELECT id, rank() OVER"
            f" {over} AS n, sum(id) OVER {over} AS s FROM t) q WHERE 4 >= n AND s > 5"
        )
        db.sql(
            "CREATE MATERIALIZED VIEW d AS SELECT id, l, n FROM (SELECT id, dense_rank() OVER"
            f" {over} AS n, lead(id, 2) OVER {over} AS l FROM t) q WHERE n = 2"
        )
        db.sql("CREATE MATERIALIZED VIEW e AS SELECT * FROM t QUALIFY rank() OVER (ORDER BY x) = 1")
        rows = [(i, i % 3, 7 * i % 1009, (None, 0.0, -0.0)[i % 3]) for i in range(3000)]
        with db.transaction() as tx:
            tx.insert("t", rows)
        rng = np.random.default_rng(3)
        for i in range(12):
            with db.transaction() as tx:
                ids = [int(n) for n in rng.choice(3000, 5, replace=False)]
                xs = [None if n % 7 == 0 else int(rng.integers(1005, 1010)) for n in ids[:3]]
                new = zip(ids, xs, strict=False)
                tx.upsert("t", [(n, int(rng.integers(4)) or None, x, -0.0) for n, x in new])
                tx.delete("t", [(ids[3],)])
                tx.upsert("t", [(ids[4], 1, 0, float("nan"))])
            assert db.last_step.entries_visited < 600, i
            for name in "abcde":
                assert db.verify(name, engine="duckdb"), name
                assert db.view(name).rows(), name
