"""Aggregates that read a whole group, against Spark itself: values, NULLs, types and names."""

from __future__ import annotations

import math
from datetime import date
from decimal import Decimal as D
from typing import Any

import pytest

from sqlview.oracle import compare
from tests.conftest import Connect
from tests.oracle_spark import SparkOracle
from tests.reference.tables import delete, insert, upsert

pytestmark = pytest.mark.spark

#: Spark has no order of its own among ties: no two rows tie where that would show.
CALLS = (
    "median(i)", "median(f)", "median(DISTINCT p)", "percentile(p, 0.3)", "percentile(f, 1)",
    "percentile_cont(0.3) WITHIN GROUP (ORDER BY i DESC)",
    "percentile_disc(0.3) WITHIN GROUP (ORDER BY p)",
    "percentile_disc(0.7) WITHIN GROUP (ORDER BY i DESC)",
    "percentile_disc(0.1) WITHIN GROUP (ORDER BY f)",
    "mode(i, true)", "mode() WITHIN GROUP (ORDER BY s)", "mode() WITHIN GROUP (ORDER BY p DESC)",
    "max_by(s, id)", "min_by(d, id)", "max_by(i, s)", "max_by(id, f)", "min_by(f, NULL)",
    "listagg(s, ', ') WITHIN GROUP (ORDER BY id DESC)",
    "listagg(i) WITHIN GROUP (ORDER BY f, id)", "listagg(p, '|') WITHIN GROUP (ORDER BY id)",
    "listagg(DISTINCT s, '+') WITHIN GROUP (ORDER BY s DESC)",
    "string_agg(d, '/') WITHIN GROUP (ORDER BY s NULLS LAST, id)",
    "bit_and(i)", "bit_or(b)", "bit_xor(i)", "bit_xor(DISTINCT i)",
    "skewness(i)", "skewness(f)", "kurtosis(i)", "kurtosis(p)",
    "corr(i, p)", "corr(f, i)", "covar_pop(i, p)", "covar_samp(f, i)", "covar_samp(i, id)",
    "regr_slope(i, p)", "regr_intercept(i, p)", "regr_r2(p, i)", "regr_sxx(i, p)",
    "regr_syy(i, p)", "regr_sxy(f, i)", "regr_count(i, p)", "regr_avgx(i, p)", "regr_avgy(i, f)",
    "median(i) FILTER (WHERE f > 0)", "mode(s, true) FILTER (WHERE i IS NULL)",
    "max_by(s, id) FILTER (WHERE i > 0)", "corr(i, p) FILTER (WHERE i <> 7)",
)  # fmt: skip

#: Spark fails where LISTAGG(DISTINCT …) stands beside other aggregates.
_DISTINCT = tuple(c for c in CALLS if "DISTINCT" in c)
PARTS = (tuple(c for c in CALLS if c not in _DISTINCT), *((c,) for c in _DISTINCT))

_COLUMNS = "id INT, g INT, i INT, b BIGINT, p DECIMAL(10,2), f DOUBLE, s STRING, d DATE"
_ROWS: tuple[tuple[Any, ...], ...] = (
    (1, 1, 7, 2**61, D("1.25"), 2.5, "a", date(1996, 1, 31)),
    (2, 1, -7, -(2**61), D("-0.15"), -2.5, "b", date(2000, 2, 29)),
    (3, 1, 0, 2**61 - 1, D("99.99"), 3.75, None, None),
    (4, 1, None, None, None, None, "c", date(1969, 12, 31)),
    (5, 1, 7, -5, D("0.05"), 0.125, "d", date(1582, 10, 15)),
    (6, 2, 5, 1, D("2.00"), 1.0, "x", None),
    (7, 2, 5, 2, D("3.00"), math.inf, "x", None),
    (8, 3, 1, 3, D("4.00"), math.nan, "y", None),
    (9, 3, 2, 4, D("4.00"), -1.5, "z", None),
    (10, 4, None, None, None, None, None, None),
    (11, None, 3, 6, D("4.50"), 0.5, "n", date(2024, 1, 1)),
)


def test_views_equal_spark(connect: Connect, spark: Any) -> None:
    checked = connect()
    db = checked.db
    db.sql(f"CREATE TABLE t ({_COLUMNS}, PRIMARY KEY (id))")
    texts: dict[str, str] = {}
    for part, calls in enumerate(PARTS):
        columns = ", ".join(f"{call} AS c{n}" for n, call in enumerate(calls))
        texts[f"v{part}"] = f"SELECT g, {columns} FROM t GROUP BY g"
        texts[f"w{part}"] = f"SELECT {columns} FROM t WHERE g <> 3"
    for name, text in texts.items():
        db.sql(f"CREATE MATERIALIZED VIEW {name} AS {text}")
    db.sql("CREATE MATERIALIZED VIEW rows AS SELECT * FROM t")
    oracle = SparkOracle(spark)
    for change in (
        insert("t", *_ROWS),
        delete("t", _ROWS[4], _ROWS[10]),
        upsert("t", (2, *_ROWS[4][1:]), (9, 1, *_ROWS[5][2:6], "w", None)),
    ):
        with db.transaction() as tx:
            getattr(tx, change.op)("t", list(change.rows))
        oracle.load("t", db.view("rows").to_arrow())
        for name, text in texts.items():
            difference = compare(db.view(name).to_arrow(), oracle.query(text))
            assert difference is None, f"{name}: {difference}"
    oracle.close()


def test_names_are_those_of_spark(connect: Connect, spark: Any) -> None:
    db = connect().db
    db.sql(f"CREATE TABLE t ({_COLUMNS}, PRIMARY KEY (id))")
    db.sql("CREATE MATERIALIZED VIEW rows AS SELECT * FROM t")
    oracle = SparkOracle(spark)
    oracle.load("t", db.view("rows").to_arrow())
    for part, calls in enumerate(PARTS):
        text = f"SELECT {', '.join(calls)} FROM t"
        db.sql(f"CREATE MATERIALIZED VIEW v{part} AS {text}")
        assert db.view(f"v{part}").to_arrow().column_names == oracle.query(text).column_names
    oracle.close()
