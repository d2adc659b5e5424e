"""Traps: outer, semi and anti joins: what flips when the first match comes and the last goes."""

from __future__ import annotations

from tests.reference.tables import delete, insert, upsert
from tests.sql.scenario import Scenario, epoch, table

_TWO = (table("a", "id INT, k INT, x INT", "id"), table("b", "k INT, y INT"))

SCENARIOS = (
    Scenario(
        "left_join_padding_when_the_first_match_comes_and_the_last_goes",
        _TWO,
        {"v": "SELECT a.id, b.y FROM a LEFT JOIN b ON a.k = b.k"},
        (
            epoch(insert("a", (1, 1, 0), (2, None, 0)), v=[(1, None), (2, None)]),
            epoch(insert("b", (1, 5)), v=[(1, 5), (2, None)]),
            epoch(insert("b", (1, 5), (1, None)), v=[(1, 5), (1, 5), (1, None), (2, None)]),
            epoch(delete("b", (1, 5), (1, 5)), v=[(1, None), (2, None)]),
            epoch(delete("b", (1, None)), v=[(1, None), (2, None)]),
            epoch(insert("b", (1, 7)), upsert("a", (2, 1, 0)), v=[(1, 7), (2, 7)]),
            epoch(delete("b", (1, 7)), insert("b", (1, 8)), v=[(1, 8), (2, 8)]),
            epoch(delete("a", (1, 1, 0)), delete("b", (1, 8)), v=[(2, None)]),
        ),
    ),
    Scenario(
        "right_join_padding",
        _TWO,
        {"v": "SELECT a.id, b.k, b.y FROM a RIGHT JOIN b ON a.k = b.k"},
        (
            epoch(insert("b", (1, 5), (1, 5), (None, 6)),
                  v=[(None, 1, 5), (None, 1, 5), (None, None, 6)]),
            epoch(insert("a", (1, 1, 0)), v=[(1, 1, 5), (1, 1, 5), (None, None, 6)]),
            epoch(upsert("a", (1, 2, 0)), v=[(None, 1, 5), (None, 1, 5), (None, None, 6)]),
            epoch(delete("b", (1, 5)), insert("b", (2, 7)),
                  v=[(None, 1, 5), (1, 2, 7), (None, None, 6)]),
            epoch(delete("a", (1, 2, 0)), delete("b", (None, 6)), v=[(None, 1, 5), (None, 2, 7)]),
        ),
    ),
    Scenario(
        "full_join_both_sides_emptying",
        _TWO,
        {"v": "SELECT a.id, b.y FROM a FULL OUTER JOIN b ON a.k = b.k",
         "n": "SELECT count(*) AS n, count(a.id) AS l, count(b.y) AS r"
              " FROM a FULL JOIN b ON a.k = b.k"},
        (
            epoch(v=[], n=[(0, 0, 0)]),
            epoch(insert("a", (1, 1, 0), (2, 2, 0)), insert("b", (2, 20), (3, 30)),
                  v=[(1, None), (2, 20), (None, 30)], n=[(3, 2, 2)]),
            epoch(delete("a", (2, 2, 0)), v=[(1, None), (None, 20), (None, 30)], n=[(3, 1, 2)]),
            epoch(delete("b", (2, 20), (3, 30)), v=[(1, None)], n=[(1, 1, 0)]),
            epoch(insert("b", (1, 10)), v=[(1, 10)]),
            epoch(delete("a", (1, 1, 0)), delete("b", (1, 10)), v=[], n=[(0, 0, 0)]),
            epoch(insert("a", (1, None, 0)), insert("b", (None, 1)),
                  v=[(1, None), (None, 1)], n=[(2, 1, 1)]),
            epoch(delete("b", (None, 1)), v=[(1, None)]),
        ),
    ),
    Scenario(
        "outer_join_with_further_conditions_in_on",
        _TWO,
        {"v": "SELECT a.id, b.y FROM a LEFT JOIN b ON a.k = b.k AND b.y > a.x",
         "w": "SELECT a.id, b.y FROM a LEFT JOIN b ON a.k = b.k AND a.x > 1",
         "x": "SELECT a.id, b.y FROM a LEFT JOIN b ON a.k = b.k AND b.y > 5",
         "y": "SELECT a.id, b.y FROM a LEFT JOIN b ON a.k = b.k WHERE b.y > 5",
         "z": "SELECT a.id, b.y FROM a FULL JOIN b ON a.k = b.k AND a.x < b.y",
         "u": "SELECT a.id FROM a LEFT JOIN b ON a.k = b.k WHERE b.k IS NULL"},
        (
            epoch(insert("a", (1, 1, 1), (2, 1, 9)), insert("b", (1, 5)),
                  v=[(1, 5), (2, None)], w=[(1, None), (2, 5)], x=[(1, None), (2, None)], y=[],
                  z=[(1, 5), (2, None)], u=[]),
            epoch(insert("b", (1, 10)),
                  v=[(1, 5), (1, 10), (2, 10)], w=[(1, None), (2, 5), (2, 10)],
                  x=[(1, 10), (2, 10)], y=[(1, 10), (2, 10)]),
            epoch(upsert("a", (1, 1, 10), (2, 2, 0)),
                  v=[(1, None), (2, None)], w=[(1, 5), (1, 10), (2, None)],
                  z=[(1, None), (2, None), (None, 5), (None, 10)], u=[(2,)]),
            epoch(delete("b", (1, 5), (1, 10)), v=[(1, None), (2, None)],
                  z=[(1, None), (2, None)], u=[(1,), (2,)]),
        ),
    ),
    Scenario(
        "outer_joins_with_using",
        (table("a", "k INT, x INT"), table("b", "k INT, y INT")),
        {"l": "SELECT * FROM a LEFT JOIN b USING (k)",
         "r": "SELECT * FROM a RIGHT JOIN b USING (k)",
         "f": "SELECT k, x, y FROM a FULL JOIN b USING (k)",
         "n": "SELECT k, count(*) AS n FROM a FULL JOIN b USING (k) GROUP BY k"},
        (
            epoch(insert("a", (1, 1), (None, 2)), insert("b", (1, 3), (None, 4), (5, 5)),
                  l=[(1, 1, 3), (None, 2, None)], r=[(1, 1, 3), (None, None, 4), (5, None, 5)],
                  f=[(1, 1, 3), (None, 2, None), (None, None, 4), (5, None, 5)],
                  n=[(1, 1), (None, 2), (5, 1)]),
            epoch(delete("a", (1, 1)), r=[(1, None, 3), (None, None, 4), (5, None, 5)],
                  f=[(1, None, 3), (None, 2, None), (None, None, 4), (5, None, 5)]),
            epoch(delete("b", (1, 3)), insert("a", (5, 6)),
                  f=[(None, 2, None), (None, None, 4), (5, 6, 5)], n=[(None, 2), (5, 1)]),
        ),
    ),
    Scenario(
        "outer_joins_on_top_of_each_other",
        (table("a", "id INT, k INT", "id"), table("b", "k INT, l INT", "k"),
         table("c", "l INT, name STRING", "l")),
        {"v": "SELECT a.id, b.l, c.name FROM a LEFT JOIN b ON a.k = b.k LEFT JOIN c ON b.l = c.l",
         "w": "SELECT a.id, c.name FROM a JOIN b ON a.k = b.k LEFT JOIN c ON b.l = c.l",
         "x": "SELECT a.id, c.name FROM a LEFT JOIN b ON a.k = b.k JOIN c ON b.l = c.l",
         "y": "SELECT a.id, b.l, c.l AS m FROM a FULL JOIN b ON a.k = b.k"
              " FULL JOIN c ON b.l = c.l"},
        (
            epoch(insert("a", (1, 1), (2, 9)), insert("b", (1, 7)), insert("c", (7, "s"), (8, "t")),
                  v=[(1, 7, "s"), (2, None, None)], w=[(1, "s")], x=[(1, "s")],
                  y=[(1, 7, 7), (2, None, None), (None, None, 8)]),
            epoch(upsert("b", (1, 8)), delete("c", (7, "s")),
                  v=[(1, 8, "t"), (2, None, None)], w=[(1, "t")]),
            epoch(delete("c", (8, "t")), v=[(1, 8, None), (2, None, None)], w=[(1, None)], x=[],
                  y=[(1, 8, None), (2, None, None)]),
            epoch(delete("b", (1, 8)), insert("c", (8, "u")),
                  v=[(1, None, None), (2, None, None)], w=[],
                  y=[(1, None, None), (2, None, None), (None, None, 8)]),
        ),
    ),
    Scenario(
        "rows_padded_on_either_side_may_be_equal",
        (table("t", "k INT"), table("s", "k INT")),
        {"d": "SELECT DISTINCT a.k AS x, b.k AS y"
              " FROM (SELECT k, count(*) AS n FROM t GROUP BY k) a"
              " FULL JOIN (SELECT k, count(*) AS n FROM s GROUP BY k) b ON a.k = b.k"},
        (
            epoch(insert("t", (None,), (1,)), insert("s", (None,)),
                  d=[(None, None), (1, None)]),
            epoch(delete("t", (None,)), d=[(None, None), (1, None)]),
            epoch(delete("s", (None,)), insert("s", (1,)), d=[(1, 1)]),
        ),
    ),
    Scenario(
        "a_condition_that_reads_no_column",
        (table("l", "id INT, part INT, supp INT", "id"), table("p", "id INT, a INT, b INT", "id"),
         table("u", "id INT, x INT", "id")),
        {"v": "SELECT l.id, u.x FROM l, p, u WHERE l.part = p.id AND l.supp = u.id"
              " AND p.a = 1 AND p.b = 2 AND lower('A') = 'b'",
         "w": "SELECT l.id, u.x FROM l, p, u WHERE l.part = p.id AND l.supp = u.id"
              " AND p.a = 1 AND p.b = 2 AND lower('A') = 'a'"},
        (
            epoch(insert("l", (1, 1, 1), (2, 2, 1)), insert("p", (1, 1, 2), (2, 1, 3)),
                  insert("u", (1, 7)), v=[], w=[(1, 7)]),
            epoch(upsert("p", (2, 1, 2)), v=[], w=[(1, 7), (2, 7)]),
            epoch(delete("u", (1, 7)), v=[], w=[]),
        ),
    ),
    Scenario(
        "both_sides_of_an_outer_self_join_change",
        (table("t", "id INT, parent INT", "id"),),
        {"v": "SELECT c.id, p.id AS p FROM t c LEFT JOIN t p ON c.parent = p.id",
         "w": "SELECT c.id, p.id AS p FROM t c FULL JOIN t p ON c.parent = p.id"},
        (
            epoch(insert("t", (1, 2), (2, 3)), v=[(1, 2), (2, None)],
                  w=[(1, 2), (2, None), (None, 1)]),
            epoch(insert("t", (3, 1)), v=[(1, 2), (2, 3), (3, 1)], w=[(1, 2), (2, 3), (3, 1)]),
            epoch(delete("t", (2, 3)), upsert("t", (3, 3)), v=[(1, None), (3, 3)],
                  w=[(1, None), (3, 3), (None, 1)]),
            epoch(delete("t", (1, 2), (3, 3)), insert("t", (2, 2)), v=[(2, 2)], w=[(2, 2)]),
        ),
    ),
    Scenario(
        "semi_and_anti_joins",
        _TWO,
        {"s": "SELECT a.id FROM a LEFT SEMI JOIN b ON a.k = b.k",
         "n": "SELECT a.id FROM a LEFT ANTI JOIN b ON a.k = b.k",
         "t": "SELECT a.id FROM a SEMI JOIN b ON a.k = b.k AND b.y > a.x",
         "m": "SELECT a.id FROM a ANTI JOIN b ON a.k = b.k AND b.y > a.x"},
        (
            epoch(insert("a", (1, 1, 0), (2, None, 0), (3, 3, 9)), insert("b", (1, 1), (3, 5)),
                  s=[(1,), (3,)], n=[(2,)], t=[(1,)], m=[(2,), (3,)]),
            epoch(insert("b", (1, 1)), s=[(1,), (3,)], n=[(2,)]),
            epoch(delete("b", (1, 1)), s=[(1,), (3,)], n=[(2,)]),
            epoch(delete("b", (1, 1)), upsert("a", (3, 3, 4)),
                  s=[(3,)], n=[(1,), (2,)], t=[(3,)], m=[(1,), (2,)]),
            epoch(delete("b", (3, 5)), insert("b", (3, None), (None, 1)),
                  s=[(3,)], n=[(1,), (2,)], t=[], m=[(1,), (2,), (3,)]),
            epoch(delete("b", (3, None)), delete("a", (1, 1, 0)), s=[], n=[(2,), (3,)]),
        ),
    ),
    Scenario(
        "cross_join_and_a_threshold_of_one_row",
        (table("a", "x INT"), table("b", "y INT")),
        {"c": "SELECT a.x, b.y FROM a CROSS JOIN b",
         "t": "SELECT a.x FROM a JOIN (SELECT max(y) AS m FROM b) q ON a.x > q.m",
         "u": "SELECT a.x, q.n FROM a, (SELECT count(*) AS n FROM b) q WHERE a.x <= q.n"},
        (
            epoch(insert("a", (1,), (2,), (2,)), c=[], t=[], u=[]),
            epoch(insert("b", (1,)), c=[(1, 1), (2, 1), (2, 1)], t=[(2,), (2,)], u=[(1, 1)]),
            epoch(insert("b", (2,)), delete("a", (2,)),
                  c=[(1, 1), (1, 2), (2, 1), (2, 2)], t=[], u=[(1, 2), (2, 2)]),
            epoch(delete("b", (2,), (1,)), insert("b", (0,), (None,)),
                  c=[(1, 0), (2, 0), (1, None), (2, None)], t=[(1,), (2,)], u=[(1, 2), (2, 2)]),
            epoch(delete("b", (0,)), t=[], u=[(1, 1)]),
        ),
    ),
)  # fmt: skip
