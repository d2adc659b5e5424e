"""What the executor leaves to the driver is what EXPLAIN says."""

from __future__ import annotations

import re

import sqlview
from operators.executor.spark.cut import layers
from planner.lower.distribution import why_in_driver

TABLES = (
    "CREATE TABLE t (k BIGINT PRIMARY KEY, g BIGINT, x BIGINT)",
    "CREATE STREAM s (g BIGINT, x BIGINT)",
)
#: What one task takes all changes of.
OF_ONE_TASK = {
    "SELECT k, lag(x) OVER (ORDER BY k) AS x FROM t": ["the one partition"],
    "SELECT k, lag(x) OVER (PARTITION BY g ORDER BY k) AS x FROM t": ["each partition"],
    "SELECT g, min(x) AS x FROM t GROUP BY g": ["each group"],
    "SELECT g, median(x) AS x FROM t GROUP BY g": ["each group"],
    "SELECT min(x) AS x FROM t": [],
    "SELECT g, sum(x) AS x FROM t GROUP BY g": [],
}
#: Queries, and how many of their nodes the driver runs, each for a reason with these words.
VIEWS = {
    "SELECT g, count(*) AS n, sum(x) AS x FROM t GROUP BY g": {},
    "SELECT t.k, u.x FROM t JOIN t u ON t.x = u.g": {},
    "SELECT g, min(x) AS x FROM t GROUP BY g": {},
    "SELECT min(x) AS x FROM t": {"front of an order": 1},
    "SELECT k FROM t ORDER BY x LIMIT 3": {"front of an order": 1},
    "SELECT k FROM t WHERE x > (SELECT avg(x) FROM t)": {},
    "SELECT g, median(x) AS x FROM t GROUP BY g": {},
    "SELECT median(x) AS x FROM t": {"all rows of its one group": 1},
    "SELECT k, sum(x) OVER (PARTITION BY g ORDER BY k) AS x FROM t": {},
    "SELECT k, g FROM (SELECT k, g, row_number() OVER (PARTITION BY g ORDER BY x, k) AS r FROM t) "
    "WHERE r <= 2": {},
    "SELECT g, sum(x) AS x FROM s GROUP BY g": {},
    "WITH RECURSIVE r AS (SELECT k, x FROM t UNION SELECT t.k, r.x FROM r JOIN t ON t.g = r.k) "
    "SELECT x, count(*) AS n FROM r GROUP BY x": {"each round": 1},
}


def test_explain_says_what_the_driver_runs() -> None:
    with sqlview.connect() as db:
        for statement in TABLES:
            db.sql(statement)
        for number, (query, reasons) in enumerate(VIEWS.items()):
            db.sql(f"CREATE MATERIALIZED VIEW v{number} AS {query}")
            lines = db.sql(f"EXPLAIN MATERIALIZED VIEW v{number}").to_arrow()[0].to_pylist()
            said = re.findall("in the driver, also .*: (.*)", "\n".join(lines))
            assert len(said) == sum(reasons.values()), query
            for words, count in reasons.items():
                assert sum(words in reason for reason in said) == count, query
        flow = db._dataflow
        run = {
            installed.node
            for layer in layers(flow.installed)
            for installed in (*layer.local, *(cut.sink for cut in layer.loops))
        }
        assert run == {
            i.node for i in flow.installed if i.loop is None and why_in_driver(i.node) is not None
        }


def test_explain_says_what_one_task_takes() -> None:
    with sqlview.connect() as db:
        for statement in TABLES:
            db.sql(statement)
        for number, (query, taken) in enumerate(OF_ONE_TASK.items()):
            db.sql(f"CREATE MATERIALIZED VIEW v{number} AS {query}")
            lines = db.sql(f"EXPLAIN MATERIALIZED VIEW v{number}").to_arrow()[0].to_pylist()
            assert re.findall("one task takes (.*)", "\n".join(lines)) == taken, query
