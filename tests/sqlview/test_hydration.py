"""A view that is created over several pieces of rows is the one that saw them come."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest

import sqlview
from operators.hydration import PIECE_ROWS

ROWS = 2 * PIECE_ROWS + 12_345

VIEWS = {
    "few_groups": "SELECT g, COUNT(*) AS n, SUM(v) AS s, AVG(d) AS a, MIN(v) AS low, MAX(d) AS top "
    "FROM t GROUP BY g",
    "most_groups_once": "SELECT k % 290000 AS k, COUNT(v) AS n, SUM(d) AS s FROM t GROUP BY 1",
    "no_keys": "SELECT COUNT(*) AS n, SUM(v) AS s FROM t WHERE v > 10",
    "no_rows": "SELECT COUNT(*) AS n, SUM(v) AS s FROM t WHERE v < -10",
    "of_rare_rows": "SELECT g, SUM(v) AS s FROM t WHERE k = 7 OR k = 270000 GROUP BY g",
    "stored": "SELECT k, g || '!' AS g FROM t WHERE v = 3",
    "united": "SELECT g, SUM(x) AS s FROM (SELECT g, v AS x FROM t UNION ALL SELECT g, 1 FROM t) "
    "GROUP BY g",
    "without": "SELECT g, COUNT(*) AS n FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE u.k = t.v) "
    "GROUP BY g",
    "joined": "SELECT u.name, SUM(t.v) AS s FROM t JOIN u ON u.k = t.v GROUP BY u.name",
    "left_joined": "SELECT g, COUNT(u.k) AS n, COUNT(*) AS m FROM t LEFT JOIN u ON u.k = t.v "
    "GROUP BY g",
    "read_twice": "WITH c AS (SELECT g, v + 1 AS w FROM t WHERE v < 50) "
    "SELECT g, COUNT(*) AS n FROM (SELECT g, w FROM c UNION ALL SELECT g, w * 2 FROM c) GROUP BY g",
}


@pytest.fixture(scope="module")
def loaded() -> Iterator[sqlview.Session]:
    rng = np.random.default_rng(3)
    rows = pa.table(
        {
            "k": rng.permutation(ROWS),
            "g": pa.array(np.array(["a", "b", "c", "dd"])[rng.integers(0, 4, ROWS)]),
            "v": pa.array(rng.integers(0, 100, ROWS), mask=rng.random(ROWS) < 0.1),
            "d": rng.normal(size=ROWS),
        }
    )
    with sqlview.connect(placement="inline") as db:
        db.sql("CREATE TABLE t (k BIGINT PRIMARY KEY, g STRING, v BIGINT, d DOUBLE)")
        db.sql("CREATE TABLE u (k BIGINT PRIMARY KEY, name STRING)")
        with db.transaction() as tx:
            tx.insert("t", rows)
            tx.insert(
                "u", pa.table({"k": range(0, 60, 2), "name": [str(k % 7) for k in range(30)]})
            )
        with db.transaction() as tx:
            tx.delete("t", pa.table({"k": np.arange(100, ROWS, 1000)}))
        yield db


@pytest.mark.parametrize("name", VIEWS)
def test_a_view_over_many_rows_is_right(loaded: sqlview.Session, name: str) -> None:
    loaded.sql(f"CREATE MATERIALIZED VIEW {name} AS {VIEWS[name]}")
    outcome = loaded.verify(name)
    assert outcome.equal, outcome
    with loaded.transaction() as tx:
        tx.delete("t", pa.table({"k": [1, 7, ROWS - 1]}))
    outcome = loaded.verify(name)
    assert outcome.equal, outcome
    with loaded.transaction() as tx:
        tx.insert(
            "t", pa.table({"k": [1, 7, ROWS - 1], "g": ["a"] * 3, "v": [3] * 3, "d": [0.5] * 3})
        )
    loaded.sql(f"DROP MATERIALIZED VIEW {name}")


def test_rows_that_fail_are_counted_once(loaded: sqlview.Session) -> None:
    loaded.sql(
        "CREATE MATERIALIZED VIEW failing AS SELECT g, SUM(100 DIV (k - 5)) AS s FROM t GROUP BY g"
    )
    with pytest.raises(sqlview.ViewError):
        loaded.view("failing").to_arrow()
    row = pa.table({"k": [5], "g": ["a"], "v": [1], "d": [1.0]})
    with loaded.transaction() as tx:
        tx.delete("t", row.select(["k"]))
    assert loaded.view("failing").to_arrow().num_rows == 4
    with loaded.transaction() as tx:
        tx.insert("t", row)
    loaded.sql("DROP MATERIALIZED VIEW failing")
