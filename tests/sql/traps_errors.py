"""Traps: a row that cannot be computed puts its views in error until it leaves; others live on."""

from __future__ import annotations

from datetime import date
from decimal import Decimal as D

from tests.reference.tables import delete, insert, upsert
from tests.sql.scenario import ERROR, Scenario, epoch, table

_TOP = D("9" * 36 + ".99")
_BIG = D("9" + "0" * 37)

SCENARIOS = (
    Scenario(
        "division_by_zero_comes_and_goes",
        (table("t", "id INT, a INT, b INT", "id"),),
        {"d": "SELECT id, a / b AS q FROM t", "m": "SELECT id, a % b AS r FROM t",
         "i": "SELECT id, a DIV b AS r FROM t", "f": "SELECT id FROM t WHERE a / b > 1",
         "s": "SELECT sum(a / b) AS s FROM t", "ok": "SELECT id, a FROM t WHERE b = 0",
         "safe": "SELECT id FROM t WHERE b <> 0 AND a / b > 1",
         "case": "SELECT id, CASE WHEN b = 0 THEN -1 ELSE a % b END AS r FROM t",
         "over": "SELECT id FROM d", "beyond": "SELECT count(*) AS n FROM over"},
        (
            epoch(insert("t", (1, 4, 2), (2, None, 0), (3, 3, None)),
                  d=[(1, 2.0), (2, None), (3, None)], f=[(1,)], s=[(2.0,)], ok=[(2, None)]),
            epoch(insert("t", (4, 7, 0)), d=ERROR, m=ERROR, i=ERROR, f=ERROR, s=ERROR,
                  ok=[(2, None), (4, 7)], safe=[(1,)],
                  case=[(1, 0), (2, -1), (3, None), (4, -1)], over=ERROR, beyond=ERROR),
            epoch(insert("t", (5, 9, 0)), upsert("t", (1, 6, 2)), d=ERROR, over=ERROR),
            epoch(delete("t", (4, 7, 0)), d=ERROR, m=ERROR, s=ERROR, beyond=ERROR),
            epoch(upsert("t", (5, 9, 3)), d=[(1, 3.0), (2, None), (3, None), (5, 3.0)],
                  m=[(1, 0), (2, None), (3, None), (5, 0)], f=[(1,), (5,)], s=[(6.0,)],
                  over=[(1,), (2,), (3,), (5,)], beyond=[(4,)]),
            epoch(insert("t", (6, 1, 0)), delete("t", (6, 1, 0)), s=[(6.0,)], beyond=[(4,)]),
            epoch(upsert("t", (2, 1, 0)), d=ERROR),
            epoch(upsert("t", (2, None, 0)), d=[(1, 3.0), (2, None), (3, None), (5, 3.0)]),
        ),
    ),
    Scenario(
        "connectives_guard_from_left_to_right",
        (table("t", "id INT, a INT, b INT", "id"),),
        {"both": "SELECT id, (b <> 0 AND a / b > 1) AS c FROM t",
         "one": "SELECT id, (b = 0 OR a / b > 1) AS c FROM t",
         "none": "SELECT id FROM t WHERE NOT (b <> 0 AND a / b > 1)",
         "unguarded": "SELECT id, (a / b > 1 AND b <> 0) AS c FROM t"},
        (
            epoch(insert("t", (1, 4, 2), (2, 1, 2)), both=[(1, True), (2, False)],
                  one=[(1, True), (2, False)], none=[(2,)], unguarded=[(1, True), (2, False)]),
            epoch(insert("t", (3, 7, 0), (4, 7, None)),
                  both=[(1, True), (2, False), (3, False), (4, None)],
                  one=[(1, True), (2, False), (3, True), (4, None)], none=[(2,), (3,)],
                  unguarded=ERROR),
            epoch(delete("t", (3, 7, 0)), both=[(1, True), (2, False), (4, None)], none=[(2,)],
                  unguarded=[(1, True), (2, False), (4, None)]),
        ),
    ),
    Scenario(
        "division_of_aggregates_by_zero",
        (table("t", "g INT, v INT, p DECIMAL(10,2)"),),
        {"v": "SELECT g, sum(p) / sum(v) AS q FROM t GROUP BY g",
         "h": "SELECT g FROM t GROUP BY g HAVING 10 / sum(v) > 1",
         "n": "SELECT g, count(*) AS n FROM t GROUP BY g"},
        (
            epoch(insert("t", (1, 2, D("1.00")), (2, 5, D("1.00"))), h=[(1,), (2,)],
                  n=[(1, 1), (2, 1)]),
            epoch(insert("t", (1, -2, D("1.00"))), v=ERROR, h=ERROR, n=[(1, 2), (2, 1)]),
            epoch(delete("t", (2, 5, D("1.00"))), v=ERROR, h=ERROR, n=[(1, 2)]),
            epoch(insert("t", (1, 5, D("1.00"))), h=[(1,)], n=[(1, 3)]),
            epoch(delete("t", (1, 5, D("1.00"))), v=ERROR),
            epoch(delete("t", (1, 2, D("1.00")), (1, -2, D("1.00"))), v=[], h=[], n=[]),
        ),
    ),
    Scenario(
        "casts_that_fail",
        (table("t", "id INT, s STRING, b BIGINT", "id"),),
        {"i": "SELECT id, cast(s AS INT) AS i FROM t",
         "y": "SELECT id, try_cast(s AS INT) AS i FROM t",
         "d": "SELECT cast(s AS DATE) AS d FROM t WHERE id > 10",
         "n": "SELECT id, cast(b AS INT) AS i FROM t",
         "j": "SELECT t.id FROM t JOIN t u ON cast(t.s AS INT) = u.id"},
        (
            epoch(insert("t", (1, "1", 1), (2, None, None)), i=[(1, 1), (2, None)],
                  y=[(1, 1), (2, None)], n=[(1, 1), (2, None)], j=[(1,)], d=[]),
            epoch(insert("t", (3, "three", 3)), i=ERROR, y=[(1, 1), (2, None), (3, None)],
                  n=[(1, 1), (2, None), (3, 3)], j=ERROR),
            epoch(upsert("t", (3, "3", 2**31)), i=[(1, 1), (2, None), (3, 3)], n=ERROR,
                  j=[(1,), (3,)]),
            epoch(insert("t", (11, "1996-02-30", 0)), d=ERROR, i=ERROR, n=ERROR),
            epoch(upsert("t", (11, "1996-02-29", 0)), d=[(date(1996, 2, 29),)], i=ERROR),
            epoch(delete("t", (11, "", 0), (3, "", 0)), d=[], i=[(1, 1), (2, None)],
                  n=[(1, 1), (2, None)]),
        ),
    ),
    Scenario(
        "overflow_of_integers",
        (table("t", "id INT, i INT, b BIGINT", "id"),),
        {"a": "SELECT id, i + 1 AS x FROM t", "m": "SELECT id, i * i AS x FROM t",
         "n": "SELECT id, -b AS x FROM t", "w": "SELECT id, cast(i AS BIGINT) * i AS x FROM t"},
        (
            epoch(insert("t", (1, 1, 1)), a=[(1, 2)], m=[(1, 1)], n=[(1, -1)], w=[(1, 1)]),
            epoch(upsert("t", (1, 2**31 - 1, -(2**63))), a=ERROR, m=ERROR, n=ERROR,
                  w=[(1, (2**31 - 1) ** 2)]),
            epoch(upsert("t", (1, 2**31 - 2, 5)), a=[(1, 2**31 - 1)], m=ERROR, n=[(1, -5)]),
            epoch(delete("t", (1, 0, 0)), a=[], m=[], n=[], w=[]),
        ),
    ),
    Scenario(
        "overflow_of_decimals",
        (table("t", "id INT, g INT, p DECIMAL(38,2), q DECIMAL(38,0)", "id"),),
        {"a": "SELECT id, p + 0.01 AS x FROM t",
         "c": "SELECT id, cast(p AS DECIMAL(6,2)) AS r FROM t",
         "s": "SELECT g, sum(q) AS s FROM t GROUP BY g",
         "ok": "SELECT g, max(p) AS m, count(*) AS n FROM t GROUP BY g"},
        (
            epoch(insert("t", (1, 1, D("1.25"), D(5))), a=[(1, D("1.26"))], c=[(1, D("1.25"))],
                  s=[(1, D(5))], ok=[(1, D("1.25"), 1)]),
            epoch(insert("t", (2, 1, _TOP, _BIG)), a=ERROR, c=ERROR,
                  s=[(1, D("9" + "0" * 36 + "5"))], ok=[(1, _TOP, 2)]),
            epoch(insert("t", (3, 1, D("0.00"), _BIG)), a=ERROR, c=ERROR, s=ERROR,
                  ok=[(1, _TOP, 3)]),
            epoch(upsert("t", (3, 2, D("0.00"), _BIG)), a=ERROR,
                  s=[(1, D("9" + "0" * 36 + "5")), (2, _BIG)]),
            epoch(upsert("t", (2, 1, D("-0.05"), D(-5))),
                  a=[(1, D("1.26")), (2, D("-0.04")), (3, D("0.01"))],
                  c=[(1, D("1.25")), (2, D("-0.05")), (3, D("0.00"))],
                  s=[(1, D(0)), (2, _BIG)]),
            epoch(delete("t", (3, 2, None, None)), a=[(1, D("1.26")), (2, D("-0.04"))],
                  s=[(1, D(0))]),
        ),
    ),
)  # fmt: skip
