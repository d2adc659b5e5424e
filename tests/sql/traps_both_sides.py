"""Traps: several inputs of one view change in the same epoch."""

from __future__ import annotations

from tests.reference.tables import delete, insert, upsert
from tests.sql.scenario import Scenario, epoch, table

SCENARIOS = (
    Scenario(
        "both_join_sides_change",
        (table("a", "id INT, k INT", "id"), table("b", "id INT, k INT", "id")),
        {"v": "SELECT a.id AS x, b.id AS y FROM a JOIN b ON a.k = b.k"},
        (
            epoch(insert("a", (1, 1)), insert("b", (10, 1)), v=[(1, 10)]),
            epoch(insert("a", (2, 1)), insert("b", (11, 1)),
                  v=[(1, 10), (1, 11), (2, 10), (2, 11)]),
            epoch(delete("a", (1, 1)), delete("b", (10, 1)), v=[(2, 11)]),
            epoch(upsert("a", (2, 2)), upsert("b", (11, 2)), v=[(2, 11)]),
            epoch(upsert("a", (2, 3)), insert("b", (12, 3)), delete("b", (11, 2)), v=[(2, 12)]),
            epoch(delete("a", (2, 3)), insert("b", (13, 3)), v=[]),
        ),
    ),
    Scenario(
        "self_join_both_occurrences_change",
        (table("t", "id INT, parent INT", "id"), table("u", "g INT, x INT")),
        {"v": "SELECT c.id AS child, p.id AS parent FROM t c JOIN t p ON c.parent = p.id",
         "w": "SELECT p.x AS x, q.x AS y FROM u p, u q WHERE p.g = q.g",
         "x": "SELECT p.x + q.x + r.x AS s FROM u p, u q, u r WHERE p.g = q.g AND q.g = r.g"},
        (
            epoch(insert("t", (1, 1), (2, 1)), insert("u", (1, 1), (1, 2)),
                  v=[(1, 1), (2, 1)], w=[(1, 1), (1, 2), (2, 1), (2, 2)],
                  x=[(3,), (4,), (4,), (4,), (5,), (5,), (5,), (6,)]),
            epoch(upsert("t", (1, 2), (2, 2)), delete("u", (1, 1)), insert("u", (1, 3)),
                  v=[(1, 2), (2, 2)], w=[(2, 2), (2, 3), (3, 2), (3, 3)]),
            epoch(delete("t", (2, 2)), delete("u", (1, 2), (1, 3)), v=[], w=[], x=[]),
            epoch(upsert("t", (1, 1)), insert("u", (2, 5), (2, 5)),
                  v=[(1, 1)], w=[(5, 5)] * 4, x=[(15,)] * 8),
        ),
    ),
    Scenario(
        "three_way_change",
        (table("a", "id INT, k INT", "id"), table("b", "k INT, l INT"),
         table("c", "l INT, name STRING", "l")),
        {"v": "SELECT a.id, c.name FROM a, b, c WHERE a.k = b.k AND b.l = c.l",
         "w": "SELECT c.name, count(*) AS n FROM a JOIN b ON a.k = b.k JOIN c ON b.l = c.l"
              " GROUP BY c.name"},
        (
            epoch(insert("a", (1, 1)), insert("b", (1, 7)), insert("c", (7, "s")),
                  v=[(1, "s")], w=[("s", 1)]),
            epoch(insert("a", (2, 1)), insert("b", (1, 7)), upsert("c", (7, "t")),
                  v=[(1, "t")] * 2 + [(2, "t")] * 2, w=[("t", 4)]),
            epoch(delete("a", (1, 1)), delete("b", (1, 7)), insert("c", (8, "u")),
                  v=[(2, "t")], w=[("t", 1)]),
            epoch(delete("b", (1, 7)), insert("b", (1, 8)), delete("c", (7, "t")),
                  v=[(2, "u")], w=[("u", 1)]),
            epoch(delete("a", (2, 1)), delete("b", (1, 8)), delete("c", (8, "u")), v=[], w=[]),
        ),
    ),
    Scenario(
        "join_on_an_expression_over_two_inputs",
        (table("a", "id INT, x INT", "id"), table("b", "id INT, y INT", "id"),
         table("c", "k INT, z INT")),
        {"v": "SELECT a.id, c.z FROM a JOIN b ON a.id = b.id JOIN c ON a.x + b.y = c.k",
         "w": "SELECT q.d FROM (SELECT a.x - b.y AS d FROM a JOIN b ON a.id = b.id) q"
              " JOIN c ON q.d = c.k"},
        (
            epoch(insert("a", (1, 1), (2, 5)), insert("b", (1, 2), (2, 2)),
                  insert("c", (3, 9), (7, 8)), v=[(1, 9), (2, 8)], w=[(3,)]),
            epoch(upsert("a", (1, 5)), upsert("b", (2, None)), v=[(1, 8)], w=[(3,)]),
            epoch(delete("c", (7, 8)), insert("c", (3, 1)), v=[], w=[(3,), (3,)]),
            epoch(upsert("b", (1, -2)), insert("c", (7, 0)), v=[(1, 9), (1, 1)], w=[(7,)]),
        ),
    ),
    Scenario(
        "same_table_twice_in_union_all",
        (table("t", "id INT, v INT", "id"),),
        {"v": "SELECT id, v FROM t UNION ALL SELECT id, v FROM t",
         "w": "SELECT v FROM t WHERE v > 1 UNION ALL SELECT -v FROM t WHERE v < 5",
         "x": "SELECT s, count(*) AS n FROM (SELECT v AS s FROM t UNION ALL SELECT id FROM t) q"
              " GROUP BY s"},
        (
            epoch(insert("t", (1, 2), (2, 9)), v=[(1, 2), (1, 2), (2, 9), (2, 9)],
                  w=[(2,), (9,), (-2,)], x=[(1, 1), (2, 2), (9, 1)]),
            epoch(upsert("t", (1, 1)), v=[(1, 1), (1, 1), (2, 9), (2, 9)],
                  w=[(9,), (-1,)], x=[(1, 2), (2, 1), (9, 1)]),
            epoch(delete("t", (1, 1), (2, 9)), v=[], w=[], x=[]),
        ),
    ),
    Scenario(
        "cte_used_twice",
        (table("t", "id INT, g INT, v INT", "id"),),
        {"v": "WITH s AS (SELECT g, sum(v) AS total FROM t GROUP BY g)"
              " SELECT p.g AS g, p.total + q.total AS both FROM s p JOIN s q ON p.g = q.g",
         "w": "WITH s AS (SELECT g, v FROM t WHERE v > 0)"
              " SELECT g FROM s UNION ALL SELECT v FROM s"},
        (
            epoch(insert("t", (1, 1, 5), (2, 1, 6), (3, 2, 1)),
                  v=[(1, 22), (2, 2)], w=[(1,), (1,), (2,), (5,), (6,), (1,)]),
            epoch(upsert("t", (1, 2, 5)), v=[(1, 12), (2, 12)]),
            epoch(delete("t", (2, 1, 6)), v=[(2, 12)], w=[(2,), (2,), (5,), (1,)]),
        ),
    ),
    Scenario(
        "diamond_of_a_view_and_an_aggregate_over_its_own_base",
        (table("t", "id INT, g INT, v INT", "id"),),
        {"total": "SELECT g, sum(v) AS s, count(*) AS n FROM t GROUP BY g",
         "v": "SELECT t.id, t.v, total.s FROM t JOIN total ON t.g = total.g",
         "w": "SELECT t.id, t.v * q.n AS x FROM t JOIN"
              " (SELECT g, count(*) AS n FROM t GROUP BY g) q ON t.g = q.g WHERE t.v < q.n"},
        (
            epoch(insert("t", (1, 1, 10), (2, 1, 1)), v=[(1, 10, 11), (2, 1, 11)], w=[(2, 2)]),
            epoch(upsert("t", (1, 1, 0)), insert("t", (3, 2, 4)),
                  v=[(1, 0, 1), (2, 1, 1), (3, 4, 4)], w=[(1, 0), (2, 2)]),
            epoch(upsert("t", (2, 2, 1)), v=[(1, 0, 0), (2, 1, 5), (3, 4, 5)],
                  w=[(1, 0), (2, 2)]),
            epoch(delete("t", (1, 1, 0)), insert("t", (1, 2, 0)),
                  v=[(1, 0, 5), (2, 1, 5), (3, 4, 5)], w=[(1, 0), (2, 3)]),
            epoch(delete("t", (3, 2, 4)), v=[(1, 0, 1), (2, 1, 1)], w=[(1, 0), (2, 2)]),
        ),
    ),
    Scenario(
        "view_diamond",
        (table("t", "id INT, g INT, v INT", "id"),),
        {"small": "SELECT id, g, v FROM t WHERE v < 10",
         "even": "SELECT id, g, v FROM small WHERE v % 2 = 0",
         "sums": "SELECT g, sum(v) AS s FROM small GROUP BY g",
         "v": "SELECT even.id, sums.s FROM even JOIN sums ON even.g = sums.g",
         "w": "SELECT id FROM small UNION ALL SELECT id FROM even"},
        (
            epoch(insert("t", (1, 1, 2), (2, 1, 3), (3, 1, 40)),
                  v=[(1, 5)], w=[(1,), (1,), (2,)]),
            epoch(upsert("t", (3, 1, 4)), v=[(1, 9), (3, 9)]),
            epoch(upsert("t", (1, 1, 1)), delete("t", (2, 1, 3)), v=[(3, 5)],
                  w=[(1,), (3,), (3,)]),
            epoch(upsert("t", (3, 1, 10)), v=[], w=[(1,)]),
        ),
    ),
)  # fmt: skip
