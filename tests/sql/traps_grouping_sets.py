"""Traps: a row in a group of each of several sets, and keys that are NULL for two reasons."""

from __future__ import annotations

from tests.reference.tables import delete, insert, upsert
from tests.sql.scenario import Scenario, epoch, table

_T = (table("t", "id INT, a INT, b STRING, n INT NOT NULL", "id"),)

SCENARIOS = (
    Scenario(
        "keys_that_are_null_beside_those_that_are_not_in_the_set",
        _T,
        {
            "v": "SELECT a, b, sum(n) AS s, grouping(a) AS ga, grouping_id() AS g FROM t"
            " GROUP BY ROLLUP (a, b)",
            "w": "SELECT a, count(*) AS c FROM t GROUP BY CUBE (a) HAVING grouping(a) = 0",
            "x": "SELECT a IS NULL AS no, n + 1 AS m, count(*) AS c FROM t"
            " GROUP BY a, n WITH ROLLUP",
        },
        (
            epoch(v=[], w=[], x=[]),  # no total of nothing
            epoch(
                insert("t", (1, None, None, 1), (2, None, "x", 2), (3, 7, None, 4)),
                v=[
                    (None, None, 1, 0, 0),
                    (None, "x", 2, 0, 0),
                    (None, None, 3, 0, 1),
                    (7, None, 4, 0, 0),
                    (7, None, 4, 0, 1),
                    (None, None, 7, 1, 3),
                ],
                w=[(None, 2), (7, 1)],
                x=[
                    (True, 2, 1),
                    (True, 3, 1),
                    (True, None, 2),
                    (False, 5, 1),
                    (False, None, 1),
                    (True, None, 3),
                ],
            ),
            epoch(
                upsert("t", (2, 7, None, 2)),
                v=[
                    (None, None, 1, 0, 0),
                    (None, None, 1, 0, 1),
                    (7, None, 6, 0, 0),
                    (7, None, 6, 0, 1),
                    (None, None, 7, 1, 3),
                ],
                w=[(None, 1), (7, 2)],
                x=[
                    (True, 2, 1),
                    (True, None, 1),
                    (False, 3, 1),
                    (False, 5, 1),
                    (False, None, 2),
                    (True, None, 3),
                ],
            ),
            epoch(
                delete("t", (1, None, None, 1), (2, 7, None, 2), (3, 7, None, 4)), v=[], w=[], x=[]
            ),
        ),
    ),
    Scenario(
        "sets_that_are_there_twice_and_sets_of_nothing",
        _T,
        {
            "v": "SELECT a, count(*) AS c FROM t GROUP BY GROUPING SETS ((a), (a), ())",
            "w": "SELECT count(*) AS c, sum(n) AS s FROM t GROUP BY GROUPING SETS (())",
            "x": "SELECT count(*) AS c FROM t GROUP BY GROUPING SETS ((), ())",
            "z": "SELECT count(*) AS c FROM t GROUP BY GROUPING SETS (GROUPING SETS ((), ()))",
            "y": "SELECT a, a + 1 AS b, count(*) AS c FROM t GROUP BY a, ROLLUP (a, a + 1)",
        },
        (
            epoch(v=[], w=[(0, None)], x=[], z=[], y=[]),
            epoch(
                insert("t", (1, 5, None, 1), (2, 5, "x", 2)),
                v=[(5, 2), (5, 2), (None, 2)],
                w=[(2, 3)],
                x=[(2,), (2,)],
                z=[(2,), (2,)],
                y=[(5, 6, 2), (5, None, 2), (5, None, 2)],
            ),
            epoch(
                upsert("t", (2, 6, "x", 2)),
                v=[(5, 1), (5, 1), (6, 1), (6, 1), (None, 2)],
                w=[(2, 3)],
                x=[(2,), (2,)],
                z=[(2,), (2,)],
                y=[(5, 6, 1), (5, None, 1), (5, None, 1), (6, 7, 1), (6, None, 1), (6, None, 1)],
            ),
            epoch(
                delete("t", (1, 5, None, 1), (2, 6, "x", 2)), v=[], w=[(0, None)], x=[], z=[], y=[]
            ),
        ),
    ),
    Scenario(
        "aggregates_are_over_values_that_are_keys_too",
        _T,
        {
            "v": "SELECT b, sum(a) AS s, count(DISTINCT a) AS d, max(a) AS m, median(a) AS h FROM t"
            " GROUP BY GROUPING SETS ((a, b), (b))",
            "w": "SELECT coalesce(a, 0) + 1 AS k, count(*) AS c FROM t"
            " GROUP BY CUBE (coalesce(a, 0))",
            "x": "SELECT upper(b) AS u, c FROM"
            " (SELECT b, count(*) AS c FROM t GROUP BY ROLLUP (b)) q"
            " WHERE b IS NULL OR c > 1 ORDER BY c DESC LIMIT 2",
            "y": "SELECT a, n, count(*) AS c FROM t GROUP BY ALL",
            "z": "SELECT a, count(DISTINCT *) AS d FROM t GROUP BY ROLLUP (a)",
        },
        (
            epoch(
                insert("t", (1, 1, "x", 1), (2, 3, "x", 1), (3, 3, "x", 1), (4, None, None, 2)),
                v=[
                    ("x", 1, 1, 1, 1.0),
                    ("x", 6, 1, 3, 3.0),
                    ("x", 7, 2, 3, 3.0),
                    (None, None, 0, None, None),
                    (None, None, 0, None, None),
                ],
                w=[(2, 1), (4, 2), (1, 1), (None, 4)],
                x=[(None, 4), ("X", 3)],
                y=[(1, 1, 1), (3, 1, 2), (None, 2, 1)],
                z=[(1, 1), (3, 2), (None, 0), (None, 3)],
            ),
            epoch(
                delete("t", (3, 3, "x", 1)),
                upsert("t", (4, 1, None, 2)),
                v=[
                    ("x", 1, 1, 1, 1.0),
                    ("x", 3, 1, 3, 3.0),
                    ("x", 4, 2, 3, 2.0),
                    (None, 1, 1, 1, 1.0),
                    (None, 1, 1, 1, 1.0),
                ],
                w=[(2, 2), (4, 1), (None, 3)],
                x=[(None, 3), ("X", 2)],
                y=[(1, 1, 1), (3, 1, 1), (1, 2, 1)],
                z=[(1, 1), (3, 1), (None, 2)],
            ),
        ),
    ),
)
