"""Aggregates that DuckDB does not have, as Spark has them: its answers, and every group of them
again after each change."""

from __future__ import annotations

import random
from decimal import Decimal
from typing import Any

import pytest

import sqlview

_NAN = float("nan")
_ROWS: list[tuple[Any, ...]] = [
    (1, 1, 2**63 - 1, 1.5, Decimal("1.25"), b"\xf0", [1, None, 2]),
    (2, 1, 1, 2.5, Decimal("2.25"), b"\x0f\x01", [2, 3]),
    (3, 2, None, None, None, None, None),
    (4, 3, 5, _NAN, Decimal("3.50"), b"\x01", []),
    (5, 3, 6, 1.0, None, b"\x03", [None]),
]
#: By aggregate its type, its column's name, its values of groups 1 to 3, and that of no row: as
#: Spark 4.3 says them; arrays ascending.
_ANSWERS: dict[str, tuple[str, str, list[Any], Any]] = {
    "try_sum(b)": ("BIGINT", "try_sum(b)", [None, None, 11], None),
    "try_sum(x)": ("DOUBLE", "try_sum(x)", [4.0, None, _NAN], None),
    "try_sum(d)": ("DECIMAL(13,2)", "try_sum(d)", [Decimal("3.50"), None, Decimal("3.50")], None),
    "try_sum(DISTINCT b)": ("BIGINT", "try_sum(DISTINCT b)", [None, None, 11], None),
    "try_avg(b)": ("DOUBLE", "try_avg(b)", [4.611686018427388e18, None, 5.5], None),
    "try_avg(d)": (
        "DECIMAL(7,6)", "try_avg(d)", [Decimal("1.750000"), None, Decimal("3.500000")], None
    ),
    "percentile_approx(b, 0.5)": (
        "BIGINT", "percentile_approx(b, 0.5, 10000)", [1, None, 5], None
    ),
    "percentile_approx(d, 0.5)": (
        "DECIMAL(3,2)", "percentile_approx(d, 0.5, 10000)",
        [Decimal("1.25"), None, Decimal("3.50")], None,
    ),
    "percentile_approx(x, 0.9, 100)": (
        "DOUBLE", "percentile_approx(x, 0.9, 100)", [2.5, None, _NAN], None
    ),
    "percentile_approx(DISTINCT b, 0.25)": (
        "BIGINT", "percentile_approx(DISTINCT b, 0.25, 10000)", [1, None, 5], None
    ),
    "percentile_approx(b, array(0.0, 0.5, 1.0))": (
        "ARRAY<BIGINT>", "percentile_approx(b, array(0.0, 0.5, 1.0), 10000)",
        [[1, 1, 2**63 - 1], None, [5, 5, 6]], None,
    ),
    "substring(hex(bitmap_construct_agg(b % 10)), 1, 8)": (
        "STRING", "substring(hex(bitmap_construct_agg((b % 10))), 1, 8)",
        ["82000000", "00000000", "60000000"], "00000000",
    ),
    "substring(hex(bitmap_or_agg(y)), 1, 6)": (
        "STRING", "substring(hex(bitmap_or_agg(y)), 1, 6)", ["FF0100", "000000", "030000"],
        "000000",
    ),
    "substring(hex(bitmap_and_agg(y)), 1, 6)": (
        "STRING", "substring(hex(bitmap_and_agg(y)), 1, 6)", ["000000", "FFFFFF", "010000"],
        "FFFFFF",
    ),
    "octet_length(bitmap_and_agg(y))": (
        "INT", "octet_length(bitmap_and_agg(y))", [4096, 4096, 4096], 4096
    ),
    "collect_union(a)": ("ARRAY<INT>", "collect_union(a)", [[1, 2, 3], [], []], []),
    "collect_union(array(x))": (
        "ARRAY<DOUBLE>", "collect_union(array(x))", [[1.5, 2.5], [], [1.0, _NAN]], []
    ),
}  # fmt: skip
_TABLE = "id INT PRIMARY KEY, g INT, b BIGINT, x DOUBLE, d DECIMAL(3,2), y BINARY, a ARRAY<INT>"


def test_answers_of_spark() -> None:
    with sqlview.connect(placement="inline") as db:
        db.sql(f"CREATE TABLE t ({_TABLE})")
        for i, aggregate in enumerate(_ANSWERS):
            db.sql(f"CREATE MATERIALIZED VIEW v{i} AS SELECT g, {aggregate} FROM t GROUP BY g")
            db.sql(f"CREATE MATERIALIZED VIEW w{i} AS SELECT {aggregate} FROM t")
        with db.transaction() as tx:
            tx.insert("t", _ROWS)
        for i, (kind, name, values, _) in enumerate(_ANSWERS.values()):
            field = db.view(f"v{i}").schema[1]
            assert (str(field.type), field.name) == (kind, name)
            found = [row[1] for row in sorted(db.view(f"v{i}").rows())]
            assert str(found) == str(values), name
        with db.transaction() as tx:
            tx.delete("t", [row[:1] for row in _ROWS])
        for i, (_, name, _, none) in enumerate(_ANSWERS.values()):
            assert db.view(f"w{i}").rows() == [(none,)], name
            assert db.view(f"v{i}").rows() == []


def test_groups_under_changes() -> None:
    """What changes make is what the same rows make at once."""
    rng = random.Random(3)
    views = {f"v{i}": f"SELECT g, {a} AS n FROM t GROUP BY g" for i, a in enumerate(_ANSWERS)}
    rows: dict[int, tuple[Any, ...]] = {}
    with sqlview.connect(placement="inline") as db:
        db.sql(f"CREATE TABLE t ({_TABLE})")
        for name, query in views.items():
            db.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
        for _ in range(8):
            new, gone = [], []
            for i in rng.sample(range(12), 5):
                if i in rows and rng.random() < 0.4:
                    gone.append((i,))
                    del rows[i]
                    continue
                parts = [rng.choice([row[c] for row in _ROWS]) for c in range(2, 7)]
                rows[i] = (i, rng.randrange(3), *parts)
                new.append(rows[i])
            with db.transaction() as tx:
                tx.upsert("t", new)
                tx.delete("t", gone)
            with sqlview.connect(placement="inline") as fresh:
                fresh.sql(f"CREATE TABLE t ({_TABLE})")
                with fresh.transaction() as tx:
                    tx.insert("t", list(rows.values()))
                for name, query in views.items():
                    fresh.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
                    assert str(sorted(db.view(name).rows(), key=str)) == str(
                        sorted(fresh.view(name).rows(), key=str)
                    ), query


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ("try_sum(CAST(d AS DECIMAL(38,2)))", "at most 28 digits"),
        ("percentile_approx(b, 1.5)", "between 0 and 1"),
        ("percentile_approx(b, x)", "needs a literal percentage"),
        ("percentile_approx(b, 0.5, 0)", "needs a literal INT of at least 1"),
        ("percentile_approx(b)", "takes 2 or 3 arguments"),
        ("percentile_approx(a, 0.5)", "needs a number"),
        ("collect_union(b)", "needs an ARRAY"),
        ("bitmap_or_agg(b)", "needs BINARY"),
        ("try_avg(a)", "needs a number"),
    ],
)
def test_bad_calls(call: str, said: str) -> None:
    with sqlview.connect(placement="inline") as db:
        db.sql(f"CREATE TABLE t ({_TABLE})")
        with pytest.raises(sqlview.BindError, match=said):
            db.sql(f"CREATE MATERIALIZED VIEW v AS SELECT {call} AS n FROM t")


def test_a_place_beyond_a_bitmap_is_an_error_of_its_row() -> None:
    with sqlview.connect(placement="inline") as db:
        db.sql(f"CREATE TABLE t ({_TABLE})")
        db.sql("CREATE MATERIALIZED VIEW v AS SELECT hex(bitmap_construct_agg(b)) AS n FROM t")
        with db.transaction() as tx:
            tx.insert("t", _ROWS[:2])
        with pytest.raises(sqlview.ViewError, match="INVALID_BITMAP_POSITION"):
            db.view("v").rows()
        db.sql("DELETE FROM t WHERE id = 1")
        assert db.view("v").rows() == [("02".ljust(8192, "0"),)]
