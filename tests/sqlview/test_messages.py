"""Messages of rows that cannot be computed name what the query has, and nothing of the engine's."""

from __future__ import annotations

import re
from decimal import Decimal

import pyarrow as pa
import pytest

import sqlview
from planner.errors import ViewError
from tests.harness import Checked
from tests.sql.scenario import ERROR, Scenario, install
from tests.sql.test_traps import SCENARIOS

INTERNAL = re.compile(
    r"sum_top|sum_double|sum_square|count_rows|first\(|least\(|greatest\(|single_value|checked_sum|"
    r"exact_sum|negate|subtract|integral_divide|add_micro|eq_null_safe|__\w|#\d|\bnode\b|outer\(|"
    r"<class|\bNone\b|count\(\*\)|Decimal\("
)
FAILING = [
    s for s in SCENARIOS if any(rows is ERROR for e in s.epochs for rows in e.expect.values())
]
VIEWS = {
    "sum": ("SELECT g, sum(d) AS s FROM t GROUP BY g", "(where g = 1)"),
    "all": ("SELECT sum(d) AS s FROM t", "SUM"),
    "average": ("SELECT g, avg(d) AS s FROM t GROUP BY g", "(where g = 1)"),
    "having": ("SELECT g FROM t GROUP BY g HAVING sum(b + 1) > 5", "(where b = "),
    "more": ("SELECT sum(b) * 2 AS s FROM t GROUP BY i", "* 2"),
    "of sums": ("SELECT sum(y) AS z FROM (SELECT sum(b) AS y FROM t GROUP BY i)", "SUM"),
    "scalar": ("SELECT id, (SELECT u.b FROM t u WHERE u.id <> t.id) AS s FROM t", "more than one"),
    "joined": ("SELECT id, s FROM t JOIN (SELECT g, sum(d) s FROM t GROUP BY g) q USING (g)",
               "SUM"),
    "filtered": ("SELECT id FROM t WHERE d > (SELECT sum(u.d) FROM t u WHERE u.g = t.g)", "SUM"),
    "negative": ("SELECT -b AS x FROM t", "-(-9223372036854775808)"),
    "absolute": ("SELECT abs(b) AS x FROM t", "abs(-9223372036854775808)"),
    "distinct": ("SELECT sum(DISTINCT d) AS s, count(DISTINCT b) AS n FROM t", "SUM"),
    "median": ("SELECT g, median(b) + sum(d) AS m FROM t GROUP BY g", "SUM"),
}  # fmt: skip


@pytest.mark.parametrize("name", VIEWS)
def test_a_message_names_what_the_query_has(name: str) -> None:
    query, part = VIEWS[name]
    db = sqlview.connect()
    db.sql("CREATE TABLE t (id INT PRIMARY KEY, g INT, b BIGINT, d DECIMAL(38,2), i INT)")
    db.sql(f"CREATE MATERIALIZED VIEW v AS {query}")
    most = 2**63 - 1
    large = [Decimal("9" * 36 + f".{i}") for i in range(4)]
    rows = [(1, 1, most, large[0], 1), (2, 1, most, large[1], 2), (3, 1, -most - 1, large[2], 2),
            (4, 1, most, large[3], 3)]  # fmt: skip
    with db.transaction() as tx:
        tx.insert("t", rows)
    with pytest.raises(ViewError) as caught:
        db.view("v").to_arrow()
    assert part in caught.value.message
    assert not INTERNAL.search(str(caught.value))
    with db.transaction() as tx:
        tx.upsert("t", [(1, 2, most, large[0], 1)])
    with db.transaction() as tx:
        tx.delete("t", pa.table({"id": pa.array([1, 2, 3, 4], pa.int32())}))
    db.view("v").to_arrow()  # every message that was counted has left


@pytest.mark.parametrize("scenario", FAILING, ids=str)
def test_messages_of_the_traps(scenario: Scenario) -> None:
    db = sqlview.connect()
    install(scenario, checked := Checked(db))
    seen = 0
    for one in scenario.epochs:
        checked.step(*one.changes)
        for name, rows in one.expect.items():
            if rows is ERROR:
                with pytest.raises(ViewError) as caught:
                    db.view(name).to_arrow()
                assert not INTERNAL.search(str(caught.value)), str(caught.value)
                seen += 1
    assert seen
