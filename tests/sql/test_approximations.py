"""Functions that Spark estimates, and views compute: every epoch against the oracle."""

from __future__ import annotations

import random

import pytest

import sqlview
from tests.conftest import Connect
from tests.reference.tables import delete, upsert

_VIEWS = {
    "grouped": "SELECT g, approx_count_distinct(x) AS a, approx_count_distinct(s, 0.01) AS b, "
    "approx_count_distinct(s) FILTER (WHERE x > 1) AS c, count(DISTINCT x) AS d FROM t GROUP BY g",
    "whole": "SELECT approx_count_distinct(s) AS n, approx_count_distinct(DISTINCT x) AS m FROM t",
    "having": "SELECT g FROM t GROUP BY g HAVING approx_count_distinct(x) > 2",
}


def test_distinct_values_are_counted_exactly(connect: Connect) -> None:
    rng = random.Random(7)
    rows: dict[int, tuple[object, ...]] = {}
    checked = connect(form="arrow")
    checked.create_table("t", "id INT, g INT, x DOUBLE, s STRING", ("id",))
    for name, query in _VIEWS.items():
        checked.create_view(name, query)
    for _ in range(12):
        changes = []
        for i in rng.sample(range(20), 5):
            if i in rows and rng.random() < 0.4:
                changes.append(delete("t", (i, *rows.pop(i))))
                continue
            x = rng.choice([None, 0.0, -0.0, 1.5, float("nan"), 3.0])
            rows[i] = (rng.randrange(3), x, rng.choice([None, "", "a", "A", "é"]))
            changes.append(upsert("t", (i, *rows[i])))
        checked.step(*changes)


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("SELECT approx_count_distinct(x, g) AS n FROM t GROUP BY g", "needs a literal deviation"),
        ("SELECT approx_count_distinct(*) AS n FROM t", "takes one argument"),
        ("SELECT approx_count_distinct(x) OVER (PARTITION BY g) AS n FROM t", "no DISTINCT"),
    ],
)
def test_bad_calls(query: str, said: str) -> None:
    with sqlview.connect() as db:
        db.sql("CREATE TABLE t (g INT, x DOUBLE)")
        with pytest.raises(sqlview.BindError, match=said):
            db.sql(f"CREATE MATERIALIZED VIEW v AS {query}")
