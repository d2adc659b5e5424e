"""Traps: LATERAL, which gives each row the rows of a query that sees it."""

from __future__ import annotations

from tests.reference.tables import delete, insert, upsert
from tests.sql.scenario import Scenario, epoch, table

_TWO = (table("t", "id INT, k INT, x INT", "id"), table("u", "k INT, y INT"))

SCENARIOS = (
    Scenario(
        "lateral_rows_of_each_row",
        _TWO,
        {
            "v": "SELECT id, s.y FROM t, LATERAL (SELECT y FROM u WHERE u.k = t.k) AS s",
            "w": "SELECT t.id, s.b, s.a FROM t JOIN LATERAL"
            " (SELECT y + t.x AS a, y FROM u WHERE u.k = t.k) AS s(a, b) ON s.a > t.id",
            "l": "SELECT id, s.y FROM t LEFT JOIN LATERAL (SELECT y FROM u WHERE u.k = t.k) s",
            "lo": "SELECT id, s.y, s.z FROM t LEFT JOIN LATERAL"
            " (SELECT y, y + x AS z, 7 AS c FROM u WHERE u.k = t.k) s ON s.y > t.id",
            "star": "SELECT t.*, s.y FROM t CROSS JOIN LATERAL (SELECT * FROM u WHERE y > x) s",
        },
        (
            epoch(
                insert("t", (1, 1, 10), (2, 1, None), (3, None, 0)),
                v=[],
                w=[],
                l=[(1, None), (2, None), (3, None)],
                lo=[(1, None, None), (2, None, None), (3, None, None)],
                star=[],
            ),
            epoch(
                insert("u", (1, 5), (1, 5), (1, None), (2, 1)),
                v=[(1, 5), (1, 5), (1, None), (2, 5), (2, 5), (2, None)],
                w=[(1, 5, 15), (1, 5, 15)],
                l=[(1, 5), (1, 5), (1, None), (2, 5), (2, 5), (2, None), (3, None)],
                lo=[(1, 5, 15), (1, 5, 15), (2, 5, None), (2, 5, None), (3, None, None)],
                star=[(3, None, 0, 5), (3, None, 0, 5), (3, None, 0, 1)],
            ),
            epoch(
                upsert("t", (2, 2, 1)),
                delete("u", (1, 5), (1, 5)),
                v=[(1, None), (2, 1)],
                w=[],
                l=[(1, None), (2, 1), (3, None)],
                lo=[(1, None, None), (2, None, None), (3, None, None)],
                star=[(3, None, 0, 1)],
            ),
            epoch(
                delete("t", (1, 1, 10)),
                insert("u", (2, 9)),
                v=[(2, 1), (2, 9)],
                lo=[(2, 9, 10), (3, None, None)],
            ),
        ),
    ),
    Scenario(
        "lateral_aggregates",
        _TWO,
        {
            "v": "SELECT id, n, s FROM t, LATERAL"
            " (SELECT count(*) AS n, sum(y) AS s FROM u WHERE u.k = t.k) a",
            "w": "SELECT id, m FROM t, LATERAL (SELECT max(y) AS m FROM u WHERE u.k = t.k"
            " HAVING count(*) > 1) a",
            "l": "SELECT id, m, n FROM t LEFT JOIN LATERAL"
            " (SELECT max(y) AS m, count(*) AS n FROM u"
            " WHERE u.k = t.k) a ON m > x",
            "g": "SELECT id, g.k, g.n FROM t, LATERAL"
            " (SELECT k, count(*) AS n FROM u WHERE y >= x GROUP BY k) g",
            "d": "SELECT id, y FROM t LEFT JOIN LATERAL"
            " (SELECT DISTINCT y FROM u WHERE u.k = t.k) d",
        },
        (
            epoch(
                insert("t", (1, 1, 1), (2, 2, 5), (3, None, 0)),
                v=[(1, 0, None), (2, 0, None), (3, 0, None)],
                w=[],
                l=[(1, None, None), (2, None, None), (3, None, None)],
                g=[],
                d=[(1, None), (2, None), (3, None)],
            ),
            epoch(
                insert("u", (1, 3), (1, 3), (2, 4), (None, 7)),
                v=[(1, 2, 6), (2, 1, 4), (3, 0, None)],
                w=[(1, 3)],
                l=[(1, 3, 2), (2, None, None), (3, None, None)],
                g=[
                    (1, 1, 2),
                    (1, 2, 1),
                    (1, None, 1),
                    (2, None, 1),
                    (3, 1, 2),
                    (3, 2, 1),
                    (3, None, 1),
                ],
                d=[(1, 3), (2, 4), (3, None)],
            ),
            epoch(
                delete("u", (1, 3)),
                upsert("t", (2, 2, 4)),
                insert("u", (2, 6)),
                v=[(1, 1, 3), (2, 2, 10), (3, 0, None)],
                w=[(2, 6)],
                l=[(1, 3, 1), (2, 6, 2), (3, None, None)],
                d=[(1, 3), (2, 4), (2, 6), (3, None)],
            ),
        ),
    ),
    Scenario(
        "lateral_first_rows_of_each_row",
        _TWO,
        {
            "v": "SELECT id, y FROM t, LATERAL"
            " (SELECT y FROM u WHERE u.k = t.k ORDER BY y DESC LIMIT 2) s",
            "w": "SELECT id, y FROM t LEFT JOIN LATERAL"
            " (SELECT y FROM u WHERE u.k = t.k AND y > x ORDER BY y LIMIT 1) s",
            "o": "SELECT id, y FROM t, LATERAL (SELECT y FROM u WHERE y <> x ORDER BY y LIMIT 1"
            " OFFSET 1) s",
            "p": "SELECT id, y FROM t, LATERAL (SELECT y + x AS y FROM u ORDER BY y LIMIT 1) s",
        },
        (
            epoch(
                insert("t", (1, 1, 2), (2, 1, 9), (3, 2, 0)),
                insert("u", (1, 1), (1, 5), (1, 3)),
                v=[(1, 5), (1, 3), (2, 5), (2, 3)],
                w=[(1, 3), (2, None), (3, None)],
                o=[(1, 3), (2, 3), (3, 3)],
                p=[(1, 3), (2, 10), (3, 1)],
            ),
            epoch(
                delete("u", (1, 3)),
                insert("u", (2, 4), (2, 4)),
                v=[(1, 5), (1, 1), (2, 5), (2, 1), (3, 4), (3, 4)],
                w=[(1, 5), (2, None), (3, 4)],
                o=[(1, 4), (2, 4), (3, 4)],
            ),
            epoch(
                delete("u", (1, 1)),
                delete("u", (1, 5)),
                v=[(3, 4), (3, 4)],
                w=[(1, None), (2, None), (3, 4)],
                o=[(1, 4), (2, 4), (3, 4)],
                p=[(1, 6), (2, 13), (3, 4)],
            ),
            epoch(delete("t", (3, 2, 0)), delete("u", (2, 4), (2, 4)), v=[], o=[], p=[]),
        ),
    ),
    Scenario(
        "lateral_behind_lateral_and_inside_subqueries",
        (*_TWO, table("w", "y INT, z INT")),
        {
            "v": "SELECT id, a.y, b.z FROM t, LATERAL (SELECT y FROM u WHERE u.k = t.k) a,"
            " LATERAL (SELECT z FROM w WHERE w.y = a.y AND w.z > t.x) b",
            "n": "SELECT id, q.z FROM t, LATERAL (SELECT b.z FROM u, LATERAL"
            " (SELECT z FROM w WHERE w.y = u.y AND w.z > t.x) b WHERE u.k = t.k) q",
            "e": "SELECT id FROM t WHERE EXISTS (SELECT 1 FROM u, LATERAL"
            " (SELECT z FROM w WHERE w.y = u.y AND w.z > t.x) b WHERE u.k = t.k)",
            "c": "SELECT id, (SELECT sum(b.z) FROM u, LATERAL"
            " (SELECT max(z) AS z FROM w WHERE w.y = u.y) b WHERE u.k = t.k) AS s FROM t",
            "x": "SELECT id, s.q FROM t, LATERAL"
            " (SELECT y, y IN (SELECT w.y FROM w WHERE z > x) AS q"
            " FROM u WHERE u.k = t.k) s",
            "un": "SELECT id, s.c FROM t, LATERAL (SELECT x AS c UNION ALL SELECT y FROM u"
            " WHERE u.k = t.k) s",
            "g": "SELECT k, s.m, count(*) AS n FROM t, LATERAL"
            " (SELECT max(y) AS m FROM u WHERE u.k = t.k) s GROUP BY k, s.m",
        },
        (
            epoch(
                insert("t", (1, 1, 0), (2, 2, 5)),
                insert("u", (1, 7), (2, 7), (2, 8)),
                insert("w", (7, 3), (8, 9)),
                v=[(1, 7, 3), (2, 8, 9)],
                n=[(1, 3), (2, 9)],
                e=[(1,), (2,)],
                c=[(1, 3), (2, 12)],
                x=[(1, True), (2, False), (2, True)],
                un=[(1, 0), (1, 7), (2, 5), (2, 7), (2, 8)],
                g=[(1, 7, 1), (2, 8, 1)],
            ),
            epoch(
                delete("w", (8, 9)),
                insert("w", (7, 6)),
                upsert("t", (1, 2, 7)),
                v=[(2, 7, 6)],
                n=[(2, 6)],
                e=[(2,)],
                c=[(1, 6), (2, 6)],
                x=[(1, False), (1, False), (2, True), (2, False)],
                g=[(2, 8, 2)],
            ),
            epoch(
                delete("u", (2, 8)),
                delete("u", (2, 7)),
                v=[],
                n=[],
                e=[],
                c=[(1, None), (2, None)],
                un=[(1, 7), (2, 5)],
                g=[(2, None, 2)],
            ),
        ),
    ),
    Scenario(
        "subqueries_in_on_about_both_sides",
        (*_TWO, table("w", "y INT, z INT")),
        {
            "l": "SELECT id, u.y FROM t LEFT JOIN u ON u.k = t.k AND EXISTS"
            " (SELECT 1 FROM w WHERE w.y = u.y AND w.z > t.x)",
            "r": "SELECT id, u.y FROM t RIGHT JOIN u ON EXISTS"
            " (SELECT 1 FROM w WHERE w.y = u.y AND w.z > t.x)",
            "f": "SELECT id, u.y FROM t FULL JOIN u ON u.k = t.k AND t.x <"
            " (SELECT max(z) FROM w WHERE w.y = u.y AND w.z <> t.id)",
            "s": "SELECT id FROM t LEFT SEMI JOIN u ON u.y NOT IN"
            " (SELECT w.y FROM w WHERE w.z > t.x)",
            "a": "SELECT id FROM t LEFT ANTI JOIN u ON u.k = t.k AND EXISTS"
            " (SELECT 1 FROM w WHERE w.y = u.y AND w.z > t.x)",
            "n": "SELECT id FROM t WHERE EXISTS"
            " (SELECT 1 FROM u r LEFT JOIN u ON u.k = r.k AND EXISTS"
            " (SELECT 1 FROM w WHERE w.y = u.y AND w.z > r.y AND w.z > t.x)"
            " WHERE r.k = t.k AND u.y IS NULL)",
            "c": "SELECT id, s.y FROM t LEFT JOIN LATERAL (SELECT y FROM u WHERE u.k = t.k) s"
            " ON s.y IN (SELECT w.y FROM w WHERE w.z > t.x)",
        },
        (
            epoch(
                insert("t", (1, 1, 0), (2, 2, 5)),
                insert("u", (1, 7), (2, 7), (2, 8)),
                l=[(1, None), (2, None)],
                r=[(None, 7), (None, 7), (None, 8)],
                f=[(1, None), (2, None), (None, 7), (None, 7), (None, 8)],
                s=[(1,), (2,)],
                a=[(1,), (2,)],
                n=[(1,), (2,)],
                c=[(1, None), (2, None)],
            ),
            epoch(
                insert("w", (7, 3), (8, 9)),
                l=[(1, 7), (2, 8)],
                r=[(1, 7), (1, 7), (1, 8), (2, 8)],
                f=[(1, 7), (2, 8), (None, 7)],
                s=[(2,)],
                a=[],
                n=[(1,)],
                c=[(1, 7), (2, 8)],
            ),
            epoch(
                upsert("t", (1, 1, 4)),
                insert("w", (None, 5)),
                l=[(1, None), (2, 8)],
                r=[(1, 8), (2, 8), (None, 7), (None, 7)],
                f=[(1, None), (2, 8), (None, 7), (None, 7)],
                s=[(2,)],
                a=[(1,)],
                n=[(1,)],
                c=[(1, None), (2, 8)],
            ),
            epoch(
                delete("w", (8, 9)),
                delete("u", (2, 8)),
                delete("t", (2, 2, 5)),
                l=[(1, None)],
                r=[(None, 7), (None, 7)],
                f=[(1, None), (None, 7), (None, 7)],
                s=[],
                a=[(1,)],
                c=[(1, None)],
            ),
        ),
    ),
)
