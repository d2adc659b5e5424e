"""Traps: aggregates that lose what they are made of: extremes, distinct values, moments."""

from __future__ import annotations

from datetime import date
from decimal import Decimal as D
from math import nan, sqrt

from tests.reference.tables import delete, insert, upsert
from tests.sql.scenario import ERROR, Scenario, epoch, table

_MOST = 9223372036854775807

SCENARIOS = (
    Scenario(
        "min_and_max_lose_the_extreme",
        (table("t", "id INT, g INT, v INT", "id"),),
        {"v": "SELECT g, min(v) AS lo, max(v) AS hi, count(*) AS n FROM t GROUP BY g",
         "w": "SELECT min(v) AS lo, max(v) AS hi FROM t",
         "x": "SELECT g FROM t GROUP BY g HAVING max(v) > 5"},
        (
            epoch(v=[], w=[(None, None)], x=[]),
            epoch(insert("t", (1, 1, 5), (2, 1, 9), (3, 1, 9), (4, 1, None), (5, 2, None)),
                  v=[(1, 5, 9, 4), (2, None, None, 1)], w=[(5, 9)], x=[(1,)]),
            epoch(delete("t", (3, 1, 9)), v=[(1, 5, 9, 3), (2, None, None, 1)], w=[(5, 9)]),
            epoch(delete("t", (2, 1, 9)), v=[(1, 5, 5, 2), (2, None, None, 1)], w=[(5, 5)], x=[]),
            epoch(upsert("t", (1, 2, 5)), v=[(1, None, None, 1), (2, 5, 5, 2)], w=[(5, 5)]),
            epoch(upsert("t", (1, 2, 7), (4, 1, -1)), v=[(1, -1, -1, 1), (2, 7, 7, 2)],
                  w=[(-1, 7)], x=[(2,)]),
            epoch(delete("t", (1, 2, 7), (4, 1, -1), (5, 2, None)), v=[], w=[(None, None)], x=[]),
        ),
    ),
    Scenario(
        "extremes_of_copies_in_a_bag",
        (table("t", "g INT, v INT"),),
        {"v": "SELECT g, min(v) AS lo, max(v) AS hi, any_value(v) AS a FROM t GROUP BY g"},
        (
            epoch(insert("t", (1, 3), (1, 3), (1, 8)), v=[(1, 3, 8, 3)]),
            epoch(delete("t", (1, 3)), v=[(1, 3, 8, 3)]),
            epoch(delete("t", (1, 3)), v=[(1, 8, 8, 8)]),
            epoch(delete("t", (1, 8)), insert("t", (1, 8)), v=[(1, 8, 8, 8)]),
            epoch(delete("t", (1, 8)), insert("t", (1, None)), v=[(1, None, None, None)]),
        ),
    ),
    Scenario(
        "extremes_of_all_types",
        (table("t", "s STRING, d DATE, p DECIMAL(10,2), f DOUBLE, b BOOLEAN, i BIGINT"),),
        {"v": "SELECT min(s) AS a, max(s) AS b, min(d) AS c, max(d) AS d, min(p) AS e,"
              " max(p) AS f FROM t",
         "w": "SELECT min(f) AS a, max(f) AS b, min(b) AS c, max(b) AS d, min(i) AS e, max(i) AS f"
              " FROM t"},
        (
            epoch(insert("t", ("b", date(1996, 1, 1), D("1.00"), 1.0, True, _MOST),
                         ("B", date(1995, 1, 1), D("-1.00"), nan, False, -_MOST),
                         (None, None, None, None, None, None)),
                  v=[("B", "b", date(1995, 1, 1), date(1996, 1, 1), D("-1.00"), D("1.00"))],
                  w=[(1.0, nan, False, True, -_MOST, _MOST)]),
            epoch(delete("t", ("B", date(1995, 1, 1), D("-1.00"), nan, False, -_MOST)),
                  v=[("b", "b", date(1996, 1, 1), date(1996, 1, 1), D("1.00"), D("1.00"))],
                  w=[(1.0, 1.0, True, True, _MOST, _MOST)]),
            epoch(insert("t", ("ü", None, D("0.99"), -0.0, None, None)),
                  v=[("b", "ü", date(1996, 1, 1), date(1996, 1, 1), D("0.99"), D("1.00"))],
                  w=[(0.0, 1.0, True, True, _MOST, _MOST)]),
        ),
    ),
    Scenario(
        "distinct_aggregates",
        (table("t", "g INT, v INT, p DECIMAL(6,2)"),),
        {"v": "SELECT g, count(DISTINCT v) AS n, sum(DISTINCT v) AS s, count(v) AS c, sum(v) AS t"
              " FROM t GROUP BY g",
         "w": "SELECT count(DISTINCT g) AS g, count(DISTINCT p) AS p, sum(DISTINCT p) AS s,"
              " avg(DISTINCT p) AS a FROM t",
         "x": "SELECT count(DISTINCT g, v) AS n FROM t"},
        (
            epoch(v=[], w=[(0, 0, None, None)], x=[(0,)]),
            epoch(insert("t", (1, 5, D("0.10")), (1, 5, D("0.10")), (1, 6, None), (2, None, D(1))),
                  v=[(1, 2, 11, 3, 16), (2, 0, None, 0, None)],
                  w=[(2, 2, D("1.10"), D("0.550000"))], x=[(2,)]),
            epoch(delete("t", (1, 5, D("0.10"))), v=[(1, 2, 11, 2, 11), (2, 0, None, 0, None)],
                  w=[(2, 2, D("1.10"), D("0.550000"))]),
            epoch(delete("t", (1, 5, D("0.10"))), v=[(1, 1, 6, 1, 6), (2, 0, None, 0, None)],
                  w=[(2, 1, D("1.00"), D("1.000000"))], x=[(1,)]),
            epoch(insert("t", (None, 6, D(1))), delete("t", (2, None, D(1))),
                  v=[(1, 1, 6, 1, 6), (None, 1, 6, 1, 6)], w=[(1, 1, D("1.00"), D("1.000000"))],
                  x=[(1,)]),
            epoch(delete("t", (1, 6, None), (None, 6, D(1))), v=[], w=[(0, 0, None, None)]),
        ),
    ),
    Scenario(
        "filter_and_booleans",
        (table("t", "id INT, g INT, v INT, b BOOLEAN", "id"),),
        {"v": "SELECT g, count(*) FILTER (WHERE v > 2) AS n, sum(v) FILTER (WHERE b) AS s,"
              " max(v) FILTER (WHERE NOT b) AS m FROM t GROUP BY g",
         "w": "SELECT g, bool_and(b) AS a, bool_or(b) AS o, count_if(v > 2) AS n FROM t GROUP BY g",
         "x": "SELECT every(v > 0) AS e, count(DISTINCT v) FILTER (WHERE b) AS d,"
              " avg(v) FILTER (WHERE v < 0) AS a FROM t"},
        (
            epoch(x=[(None, 0, None)]),
            epoch(insert("t", (1, 1, 5, True), (2, 1, 1, None), (3, 2, None, False)),
                  v=[(1, 1, 5, None), (2, 0, None, None)],
                  w=[(1, True, True, 1), (2, False, False, 0)], x=[(True, 1, None)]),
            epoch(upsert("t", (2, 1, 7, False)), v=[(1, 2, 5, 7), (2, 0, None, None)],
                  w=[(1, False, True, 2), (2, False, False, 0)]),
            epoch(delete("t", (1, 1, 5, True)), upsert("t", (3, 2, -2, None)),
                  v=[(1, 1, None, 7), (2, 0, None, None)],
                  w=[(1, False, False, 1), (2, None, None, 0)], x=[(False, 0, -2.0)]),
        ),
    ),
    Scenario(
        "spread_under_retraction",
        (table("t", "id INT, g INT, i INT, p DECIMAL(8,2), f DOUBLE", "id"),),
        {"v": "SELECT g, stddev(i) AS a, variance(i) AS b, stddev_pop(i) AS c, var_pop(i) AS d"
              " FROM t GROUP BY g",
         "w": "SELECT stddev_samp(p) AS a, var_samp(p) AS b, var_pop(f) AS c, stddev_pop(f) AS d"
              " FROM t"},
        (
            epoch(v=[], w=[(None, None, None, None)]),
            epoch(insert("t", (1, 1, 4, D("0.10"), 0.5)), v=[(1, None, None, 0.0, 0.0)],
                  w=[(None, None, 0.0, 0.0)]),
            epoch(insert("t", (2, 1, 8, D("0.30"), 1.5), (3, 1, None, None, None)),
                  v=[(1, sqrt(8), 8.0, 2.0, 4.0)], w=[(sqrt(0.02), 0.02, 0.25, 0.5)]),
            epoch(insert("t", (4, 1, 10**9, D("99999.99"), 1e9))),
            epoch(delete("t", (4, 1, 10**9, D("99999.99"), 1e9)),
                  v=[(1, sqrt(8), 8.0, 2.0, 4.0)], w=[(sqrt(0.02), 0.02, 0.25, 0.5)]),
            epoch(upsert("t", (2, 1, 4, D("0.10"), 0.5)), v=[(1, 0.0, 0.0, 0.0, 0.0)],
                  w=[(0.0, 0.0, 0.0, 0.0)]),
            epoch(upsert("t", (2, 1, 4, D("0.10"), nan)), w=[(0.0, 0.0, nan, nan)]),
            epoch(upsert("t", (2, 2, 4, D("0.10"), 0.5)), delete("t", (1, 1, 4, None, None)),
                  v=[(1, None, None, None, None), (2, None, None, 0.0, 0.0)],
                  w=[(None, None, 0.0, 0.0)]),
        ),
    ),
    Scenario(
        "sum_beyond_bigint_is_an_error_until_it_is_not",
        (table("t", "id INT, v BIGINT", "id"),),
        {"v": "SELECT sum(v) AS s FROM t", "n": "SELECT count(*) AS n, max(v) AS m FROM t",
         "g": "SELECT id % 2 AS odd, sum(v) AS s FROM t GROUP BY id % 2"},
        (
            epoch(insert("t", (1, _MOST)), v=[(_MOST,)], n=[(1, _MOST)]),
            epoch(insert("t", (2, 1)), v=ERROR, n=[(2, _MOST)], g=[(1, _MOST), (0, 1)]),
            epoch(insert("t", (3, 1)), v=ERROR, g=ERROR),
            epoch(insert("t", (4, -2)), v=[(_MOST,)], g=ERROR),
            epoch(delete("t", (3, 1)), v=[(_MOST - 1,)], g=[(1, _MOST), (0, -1)]),
            epoch(delete("t", (1, _MOST)), v=[(-1,)], n=[(2, 1)]),
        ),
    ),
    Scenario(
        "an_average_does_not_overflow_where_its_sum_does",
        (table("t", "id INT, v BIGINT", "id"),),
        {"a": "SELECT avg(v) AS a, count(v) AS n FROM t", "s": "SELECT sum(v) AS s FROM t"},
        (
            epoch(insert("t", (1, _MOST), (2, _MOST)), a=[(float(_MOST), 2)], s=ERROR),
            epoch(upsert("t", (2, -_MOST)), a=[(0.0, 2)], s=[(0,)]),
            epoch(delete("t", (1, _MOST)), insert("t", (3, -_MOST)),
                  a=[(-float(_MOST), 2)], s=ERROR),
            epoch(delete("t", (2, 0), (3, 0)), a=[(None, 0)], s=[(None,)]),
        ),
    ),
)  # fmt: skip
