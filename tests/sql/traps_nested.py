"""Traps: arrays, maps and structs as values of columns."""

from __future__ import annotations

from tests.reference.tables import delete, insert, upsert
from tests.sql.scenario import Scenario, epoch, table

_NESTED = "a ARRAY<INT>, s STRUCT<x: INT, y: STRING>, n ARRAY<ARRAY<DOUBLE>>"

SCENARIOS = (
    Scenario(
        "nested_values_are_equal_as_wholes",
        (table("t", f"id INT, {_NESTED}", "id"), table("u", _NESTED)),
        {
            "v": "SELECT * FROM t",
            "d": "SELECT DISTINCT a, s FROM t",
            "g": "SELECT a, count(*) AS c, max(id) AS m FROM t GROUP BY a",
            "gs": "SELECT s, count(*) AS c FROM u GROUP BY s",
            "j": "SELECT t.id, u.n FROM t JOIN u ON t.a = u.a AND t.s <=> u.s",
            "e": "SELECT a, s, n FROM u EXCEPT SELECT a, s, n FROM t",
            "i": "SELECT id FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.n = t.n)",
            "c": "SELECT id, coalesce(a, array(1)) AS a, CASE WHEN id > 2 THEN s END AS s FROM t",
            "cd": "SELECT count(DISTINCT a) AS c, count(DISTINCT n) AS n FROM u",
        },
        (
            epoch(
                insert(
                    "t",
                    (1, (1, None), (1, "a"), ((0.5,), ())),
                    (2, (), (None, None), ()),
                    (3, None, None, None),
                    (4, (1, None), (1, "a"), ((float("nan"), -0.0), None)),
                ),
                insert("u", ((1, None), (1, "a"), ((0.5,), ())), (None, None, None)),
                insert("u", ((), (None, None), ()), ((), (None, None), ())),
                d=[((1, None), (1, "a")), ((), (None, None)), (None, None)],
                g=[((1, None), 2, 4), ((), 1, 2), (None, 1, 3)],
                gs=[((1, "a"), 1), (None, 1), ((None, None), 2)],
                j=[(1, ((0.5,), ())), (4, ((0.5,), ())), (2, ()), (2, ())],
                e=[],
                i=[(1,), (2,)],
                cd=[(2, 2)],
            ),
            epoch(
                delete("u", ((), (None, None), ())),
                upsert("t", (1, (1,), (1, "b"), ())),
                delete("t", (2, None, None, None)),
                d=[((1,), (1, "b")), (None, None), ((1, None), (1, "a"))],
                j=[(4, ((0.5,), ()))],
                e=[((1, None), (1, "a"), ((0.5,), ())), ((), (None, None), ())],
            ),
        ),
    ),
    Scenario(
        "maps_are_kept_and_never_compared",
        (table("t", "id INT, m MAP<STRING, INT>", "id"), table("u", "m MAP<INT, STRING>, k INT")),
        {
            "v": "SELECT id, m FROM t",
            "w": "SELECT k, m FROM u WHERE m IS NOT NULL",
            "j": "SELECT t.id, t.m, u.k FROM t JOIN u ON t.id = u.k",
        },
        (
            epoch(
                insert("t", (1, (("a", 1), ("b", None))), (2, ()), (3, None)),
                insert("u", (((1, "x"),), 1), (((1, "x"),), 1), (None, 2)),
                v=[(1, (("a", 1), ("b", None))), (2, ()), (3, None)],
                w=[(1, ((1, "x"),)), (1, ((1, "x"),))],
                j=[(1, (("a", 1), ("b", None)), 1)] * 2 + [(2, (), 2)],
            ),
            epoch(
                delete("u", (((1, "x"),), 1)),
                upsert("t", (1, (("a", 2),))),
                j=[(1, (("a", 2),), 1), (2, (), 2)],
            ),
        ),
    ),
    Scenario(
        "generators_make_a_row_of_each_element",
        (
            table("t", "id INT, a ARRAY<INT>, n ARRAY<ARRAY<INT>>, m MAP<STRING, INT>", "id"),
            table("u", "a ARRAY<INT>, k INT"),
        ),
        {
            "e": "SELECT id, explode(a) AS x FROM t",
            "o": "SELECT k, x FROM u LATERAL VIEW OUTER explode(a) g AS x",
            "p": "SELECT id, i, x FROM t LATERAL VIEW posexplode(a) g AS i, x WHERE x > 0",
            "po": "SELECT id, i, x FROM t LATERAL VIEW OUTER posexplode(a) g AS i, x",
            "m": "SELECT id, k, v FROM t LATERAL VIEW explode(m) g AS k, v",
            "nn": "SELECT id, y FROM t LATERAL VIEW explode(n) g AS x"
            " LATERAL VIEW explode(x) h AS y",
            "c": "SELECT x, count(*) AS c FROM u LATERAL VIEW explode(a) g AS x GROUP BY x",
            "j": "SELECT t.id, u.k, g.x FROM t JOIN u ON t.id = u.k"
            " LATERAL VIEW explode(u.a) g AS x",
            "l": "SELECT id, y FROM t JOIN LATERAL explode(a) AS g(y) ON y > id",
            "s": "SELECT id, size(a) AS s, get(a, 1) AS x FROM t",
            "cl": "SELECT k, collect_list(x) AS l, collect_set(x) AS s, count(*) AS c FROM u"
            " LATERAL VIEW OUTER explode(a) g AS x GROUP BY k",
            "cs": "SELECT id, (SELECT array_agg(k) FROM u WHERE u.k = t.id) AS ks FROM t",
            "x": "SELECT id FROM t WHERE EXISTS (SELECT 1 FROM explode(t.a) AS g(y) WHERE y = 2)",
        },
        (
            epoch(
                insert("t", (1, (1, 2, 2), ((1,), (), None), (("k", 1),)), (2, (), None, ())),
                insert("t", (3, None, (), None), (4, (None, 7), ((3, None),), (("a", None),))),
                insert("u", ((1, 1), 1), ((1, 1), 1), ((), 2), (None, 3)),
                e=[(1, 1), (1, 2), (1, 2), (4, None), (4, 7)],
                o=[(1, 1)] * 4 + [(2, None), (3, None)],
                p=[(1, 0, 1), (1, 1, 2), (1, 2, 2), (4, 1, 7)],
                m=[(1, "k", 1), (4, "a", None)],
                nn=[(1, 1), (4, 3), (4, None)],
                c=[(1, 4)],
                l=[(1, 2), (1, 2), (4, 7)],
                s=[(1, 3, 2), (2, 0, None), (3, None, None), (4, 2, 7)],
                cl=[(1, (1, 1, 1, 1), (1,), 4), (2, (), (), 1), (3, (), (), 1)],
                cs=[(1, (1, 1)), (2, (2,)), (3, (3,)), (4, ())],
                x=[(1,)],
            ),
            epoch(
                upsert("t", (1, (5,), None, None), (2, (2,), ((),), ())),
                delete("u", ((1, 1), 1), (None, 3)),
                insert("u", ((None,), 2)),
                e=[(1, 5), (2, 2), (4, None), (4, 7)],
                o=[(1, 1), (1, 1), (2, None), (2, None)],
                c=[(1, 2), (None, 1)],
                j=[(1, 1, 1), (1, 1, 1), (2, 2, None)],
                x=[(2,)],
            ),
        ),
    ),
)
