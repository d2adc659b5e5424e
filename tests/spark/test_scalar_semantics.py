"""Views against Spark itself, on the scalars where DuckDB differs: casts to integers, division and
wide products of decimals, 64-bit sums, remainders, and the types of everything."""

from __future__ import annotations

from datetime import date
from decimal import Decimal as D
from typing import Any

import pyarrow as pa
import pytest

from sqlview.oracle import canonical_rows
from tests.conftest import Connect
from tests.oracle_spark import SparkOracle
from tests.reference.tables import arrow_table, delete, insert, upsert

pytestmark = pytest.mark.spark

QUERIES = (
    "SELECT id, cast(f AS INT) AS a, cast(p AS INT) AS b, cast(f AS BIGINT) AS c FROM t",
    "SELECT id, p / q AS a, p / 3 AS b, i / 3 AS c, p / f AS d FROM t WHERE q <> 0 AND f <> 0",
    "SELECT id, w * w AS a, w * p AS b, w / q AS c, w + p AS d FROM t WHERE q <> 0",
    "SELECT i % 3 AS a, p % q AS b, -i % 4 AS c, i DIV 2 AS d FROM t WHERE q <> 0",
    ("SELECT g, avg(p) AS a, avg(w) AS b, sum(p) / count(*) AS c, sum(w) AS d, avg(i) AS e"
    " FROM t GROUP BY g"),
    (
        "SELECT 100.00 * sum(CASE WHEN i > 0 THEN p * (1 - q) ELSE 0 END) / sum(p * (1 + q)) AS a"
        " FROM t"
    ),
    ("SELECT cast(p AS DECIMAL(10,1)) AS a, cast(p AS STRING) AS b, cast(i AS STRING) AS c,"
    " cast(d AS STRING) AS e FROM t"),
    ("SELECT id, coalesce(p, i) AS a, CASE WHEN i > 0 THEN p ELSE f END AS b,"
    " CASE WHEN i > 0 THEN 1 ELSE 2.5 END AS c FROM t"),
    "SELECT p FROM t UNION ALL SELECT i FROM t UNION ALL SELECT w FROM t",
    "SELECT id, d + INTERVAL '1' MONTH AS a, d - INTERVAL '1' DAY AS b, year(d) AS c FROM t",
    "SELECT sum(b) AS a, avg(b) AS c, count(b) AS n FROM t",
    "SELECT id FROM t WHERE s LIKE 'a\\\\%%' OR s LIKE '_!%' ESCAPE '!' OR s = 1",
    "SELECT id, i + b AS a, i * 2 AS c, b * 2 AS e, p * 2 AS h, p + 1 AS j, i + 0.5 AS k FROM t",
)  # fmt: skip

_COLUMNS = (
    "id INT, g INT, i INT, b BIGINT, p DECIMAL(10,2), q DECIMAL(6,4), w DECIMAL(30,10),"
    " f DOUBLE, s STRING, d DATE"
)
_ROWS: tuple[tuple[Any, ...], ...] = (
    (1, 1, 7, 2**61, D("1.25"), D("0.0300"), D("1234567890123456.0123456789"), 2.5, "a%b",
     date(1996, 1, 31)),
    (2, 1, -7, -(2**61), D("-0.15"), D("0.0700"), D("-0.0000000001"), -2.5, "1",
     date(2000, 2, 29)),
    (3, 2, 0, 2**61 - 1, D("99999999.99"), D("-1.5000"), None, 3.999, "x%", None),
    (4, None, None, None, None, D("0.0000"), D("5"), None, None, date(1969, 12, 31)),
    (5, 2, 3, -5, D("0.05"), D("3.0000"), D("0.5"), 0.1, "01", date(1582, 10, 15)),
)  # fmt: skip


@pytest.mark.parametrize("query", QUERIES)
def test_view_equals_spark(query: str, connect: Connect, spark: Any) -> None:
    checked = connect()
    db = checked.db
    db.sql(f"CREATE TABLE t ({_COLUMNS}, PRIMARY KEY (id))")
    db.sql(f"CREATE MATERIALIZED VIEW v AS {query}")
    rows = {row[0]: row for row in _ROWS}
    changes = (
        insert("t", *_ROWS),
        delete("t", _ROWS[4]),
        upsert("t", (2, *_ROWS[4][1:]), (3, 1, *_ROWS[2][2:])),
    )
    oracle = SparkOracle(spark)
    for change in changes:
        with db.transaction() as tx:
            getattr(tx, change.op)("t", list(change.rows))
        for row in change.rows:
            if change.op == "delete":
                del rows[row[0]]
            else:
                rows[row[0]] = row
        schema = _schema()
        oracle.load("t", arrow_table(schema, list(rows.values())))
        expected = oracle.query(query)
        actual = db.view("v").to_arrow()
        assert [f.type for f in actual.schema] == [f.type for f in expected.schema]
        assert _sorted(actual) == _sorted(expected)
    oracle.close()


def _schema() -> Any:
    import sqlglot
    from sqlglot import exp

    from tests.reference.engine import parse_table

    tree = sqlglot.parse_one(f"CREATE TABLE t ({_COLUMNS})", read="databricks")
    assert isinstance(tree, exp.Create)
    return parse_table(tree)[1]


def _sorted(table: pa.Table) -> list[str]:
    return sorted(
        repr([f"{v:.12g}" if isinstance(v, float) else v for v in row])
        for row in canonical_rows(table)
    )
