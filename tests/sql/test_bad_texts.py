"""A fixed part of `python -m tests.bad_sql`, and texts that it found."""

from __future__ import annotations

import pytest

import sqlview
from planner.errors import SqlViewError
from tests import bad_sql


def test_every_text_has_a_result_or_a_refusal() -> None:
    outcome = bad_sql.run(seed=1, first=0, texts=600)
    assert outcome.faults == ()
    assert outcome.kinds["no error"] > 60


@pytest.mark.parametrize(
    "query",
    [
        "SELECT IF(a > 1, 2) FROM t",
        "SELECT CAST(a AS DECIMAL(NULL, 3)) AS x FROM t",
        "SELECT CAST(a AS DECIMAL(6, t.a)) AS x FROM t",
        "SELECT CAST(a AS DECIMAL(8, 32768S)) AS x FROM t",
        f"SELECT CAST(a AS DECIMAL({'9' * 5000})) AS x FROM t",
        f"SELECT a + {'9' * 5000} AS x FROM t",
        "SELECT 1e AS x FROM t",
        "SELECT 1.5F(a) AS x FROM t",
        "SELECT 1E+5.a AS x FROM t",
        "SELECT a FRO\rM t",
        "SELECT check(a) AS x FROM t",
        "SELECT FROM t",
        "SELECT a FROM t WHERE EXISTS (SELECT FROM t)",
        f"SELECT a FROM t LIMIT {'9' * 5000}",
        f"SELECT a FROM t ORDER BY {'9' * 5000}",
        "SELECT '\ud800' AS x FROM t",
        "SELECT a AS `\udfff` FROM t",
        "SELECT 1 IN () FROM t",
        "SELECT (a, a) NOT IN () FROM t",
        "SELECT ALL, a FROM t",
        "SELECT ALL FROM t",
        "SELECT count(*) FROM t GROUP BY ALL, a",
        "SELECT count(*) FROM (SELECT a AS `all` FROM t) GROUP BY ALL",
        "SELECT a, e FROM t LATERAL VIEW a g AS e",
        "SELECT a, e FROM t LATERAL VIEW OUTER abs(a) g AS e",
        "SELECT max_by(a, a, 2) OVER () FROM t",
    ],
)
def test_queries_that_are_refused(query: str) -> None:
    db = sqlview.connect()
    db.sql("CREATE TABLE t (a INT)")
    with pytest.raises(SqlViewError) as caught:
        db.sql(f"EXPLAIN CREATE MATERIALIZED VIEW v AS {query}")
    assert caught.value.line == 1
    assert bad_sql.fault_of(caught.value, query) is None
    assert len(str(caught.value)) < 500
