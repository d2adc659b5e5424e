"""Traps: HAVING in both directions, groups that come and go, aggregates and their types."""

from __future__ import annotations

from decimal import Decimal as D

from tests.reference.tables import delete, insert, upsert
from tests.sql.scenario import Scenario, epoch, table

SCENARIOS = (
    Scenario(
        "having_in_both_directions",
        (table("t", "id INT, g INT, v INT", "id"),),
        {"v": "SELECT g, sum(v) AS s FROM t GROUP BY g HAVING sum(v) > 10",
         "w": "SELECT g FROM t GROUP BY g HAVING count(*) < 2",
         "x": "SELECT g FROM t WHERE v > 0 GROUP BY g HAVING avg(v) >= 5 AND count(v) > 1"},
        (
            epoch(insert("t", (1, 1, 10), (2, 2, 11)), v=[(2, 11)], w=[(1,), (2,)], x=[]),
            epoch(insert("t", (3, 1, 1)), v=[(1, 11), (2, 11)], w=[(2,)], x=[(1,)]),
            epoch(upsert("t", (2, 2, 10), (3, 1, -1)), v=[], w=[(2,)], x=[]),
            epoch(upsert("t", (2, 2, None)), delete("t", (3, 1, -1)), v=[], w=[(1,), (2,)]),
            epoch(upsert("t", (1, 2, 12)), v=[(2, 12)], w=[]),
        ),
    ),
    Scenario(
        "group_emptied_then_back",
        (table("t", "g INT, v INT"),),
        {"v": "SELECT g, count(*) AS n, sum(v) AS s FROM t GROUP BY g"},
        (
            epoch(insert("t", (1, 5)), v=[(1, 1, 5)]),
            epoch(delete("t", (1, 5)), v=[]),
            epoch(insert("t", (1, 6)), v=[(1, 1, 6)]),
            epoch(delete("t", (1, 6)), insert("t", (1, 6)), v=[(1, 1, 6)]),
            epoch(delete("t", (1, 6)), insert("t", (1, 0)), v=[(1, 1, 0)]),
            epoch(delete("t", (1, 0)), v=[]),
        ),
    ),
    Scenario(
        "average_and_sum_of_decimals_with_sparks_types",
        (table("t", "id INT, p DECIMAL(10,2), q DECIMAL(4,0)", "id"),),
        {"v": "SELECT sum(p) AS s, avg(p) AS a, avg(q) AS b FROM t",
         "w": "SELECT sum(p * (1 - p)) AS s, avg(p * 2) AS a, sum(p + q) AS t FROM t"},
        (
            epoch(insert("t", (1, D("0.01"), D(1)), (2, D("0.02"), D(1)), (3, D("0.02"), D(0))),
                  v=[(D("0.05"), D("0.016667"), D("0.6667"))]),
            epoch(upsert("t", (1, D("-0.05"), D(-1)), (2, D("0.00"), D(-1)), (3, None, D(0))),
                  v=[(D("-0.05"), D("-0.025000"), D("-0.6667"))]),
            epoch(delete("t", (1, None, None), (2, None, None)), v=[(None, None, D("0.0000"))]),
            epoch(upsert("t", (3, D("99999999.99"), D(9999))),
                  v=[(D("99999999.99"), D("99999999.990000"), D("9999.0000"))]),
        ),
    ),
    Scenario(
        "average_rounds_half_up",
        (table("t", "p DECIMAL(4,0)"),),
        {"v": "SELECT avg(p) AS a, sum(p) AS s, count(*) AS n FROM t"},
        (
            epoch(insert("t", *([(D(1),)] + [(D(0),)] * 31)), v=[(D("0.0313"), D(1), 32)]),
            epoch(delete("t", (D(1),)), insert("t", (D(-1),)), v=[(D("-0.0313"), D(-1), 32)]),
            epoch(insert("t", (D(2),)), delete("t", (D(0),)), v=[(D("0.0313"), D(1), 32)]),
        ),
    ),
    Scenario(
        "float_sums_do_not_drift_under_retraction",
        (table("t", "id INT, g INT, f DOUBLE", "id"),),
        {"v": "SELECT g, sum(f) AS s, avg(f) AS a FROM t GROUP BY g"},
        (
            epoch(insert("t", (1, 1, 1e15), (2, 1, 1.0)),
                  v=[(1, 1000000000000001.0, 500000000000000.5)]),
            epoch(delete("t", (1, 1, 1e15)), v=[(1, 1.0, 1.0)]),
            epoch(insert("t", (3, 1, -3e12), (4, 1, 0.1)), v=[(1, 1.1 - 3e12, 1.1 / 3 - 1e12)]),
            epoch(delete("t", (3, 1, -3e12)), v=[(1, 1.1, 0.55)]),
            epoch(upsert("t", (2, 1, float("inf"))), v=[(1, float("inf"), float("inf"))]),
            epoch(upsert("t", (2, 1, float("nan"))), v=[(1, float("nan"), float("nan"))]),
            epoch(upsert("t", (2, 1, 1.0)), delete("t", (4, 1, 0.1)), v=[(1, 1.0, 1.0)]),
        ),
    ),
    Scenario(
        "integer_averages_are_doubles",
        (table("t", "g INT, v BIGINT"),),
        {"v": "SELECT g, avg(v) AS a, sum(v) AS s FROM t GROUP BY g"},
        (
            epoch(insert("t", (1, 1), (1, 2)), v=[(1, 1.5, 3)]),
            epoch(insert("t", (1, None), (1, -9)), v=[(1, -2.0, -6)]),
            epoch(delete("t", (1, 1), (1, 2), (1, -9)), v=[(1, None, None)]),
            epoch(insert("t", (1, 9007199254740993)),
                  v=[(1, 9007199254740992.0, 9007199254740993)]),
        ),
    ),
    Scenario(
        "case_over_aggregates_and_aggregates_over_case",
        (table("t", "g INT, v INT"),),
        {"v": "SELECT g, CASE WHEN count(v) = 0 THEN 'none' WHEN sum(v) > 5 THEN 'big'"
              " ELSE 'small' END AS size FROM t GROUP BY g",
         "w": "SELECT sum(CASE WHEN v > 2 THEN 1 ELSE 0 END) AS hits,"
              " sum(CASE WHEN v > 2 THEN v END) AS total FROM t",
         "x": "SELECT g + 1 AS h, 2 * sum(v) - count(*) AS y FROM t GROUP BY g + 1"},
        (
            epoch(w=[(None, None)], v=[]),
            epoch(insert("t", (1, 4), (2, None)),
                  v=[(1, "small"), (2, "none")], w=[(1, 4)], x=[(2, 7), (3, None)]),
            epoch(insert("t", (1, 2), (2, 1)),
                  v=[(1, "big"), (2, "small")], w=[(1, 4)], x=[(2, 10), (3, 0)]),
            epoch(delete("t", (1, 4)), v=[(1, "small"), (2, "small")], w=[(0, None)]),
        ),
    ),
    Scenario(
        "aggregate_of_an_aggregate",
        (table("t", "id INT, g INT, h INT, v INT", "id"),),
        {"v": "SELECT h, sum(s) AS total, count(*) AS groups FROM"
              " (SELECT g, h, sum(v) AS s FROM t GROUP BY g, h) q GROUP BY h",
         "w": "SELECT n, count(*) AS customers FROM"
              " (SELECT g, count(*) AS n FROM t GROUP BY g) q GROUP BY n"},
        (
            epoch(insert("t", (1, 1, 1, 5), (2, 1, 1, 6), (3, 2, 1, 7)),
                  v=[(1, 18, 2)], w=[(2, 1), (1, 1)]),
            epoch(upsert("t", (2, 2, 1, 6)), v=[(1, 18, 2)], w=[(2, 1), (1, 1)]),
            epoch(delete("t", (1, 1, 1, 5)), v=[(1, 13, 1)], w=[(2, 1)]),
            epoch(delete("t", (2, 2, 1, 6), (3, 2, 1, 7)), v=[], w=[]),
        ),
    ),
    Scenario(
        "group_by_position_alias_and_expression",
        (table("t", "a INT, b INT"),),
        {"v": "SELECT a % 2 AS odd, count(*) AS n FROM t GROUP BY 1",
         "w": "SELECT a + b AS c, count(*) AS n FROM t GROUP BY c",
         "x": "SELECT count(*) AS n FROM t GROUP BY a"},
        (
            epoch(insert("t", (1, 1), (2, 0), (3, None)),
                  v=[(1, 2), (0, 1)], w=[(2, 2), (None, 1)], x=[(1,), (1,), (1,)]),
            epoch(delete("t", (2, 0)), insert("t", (3, 1)),
                  v=[(1, 3)], w=[(2, 1), (4, 1), (None, 1)], x=[(1,), (2,)]),
        ),
    ),
)  # fmt: skip
