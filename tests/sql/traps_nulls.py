"""Traps: NULLs, NaN and -0.0."""

from __future__ import annotations

from decimal import Decimal
from math import nan

from tests.reference.tables import delete, insert, upsert
from tests.sql.scenario import Scenario, epoch, table

SCENARIOS = (
    Scenario(
        "null_in_group_key",
        (table("t", "id INT, g INT, v INT", "id"),),
        {"v": "SELECT g, count(*) AS n, sum(v) AS s FROM t GROUP BY g"},
        (
            epoch(insert("t", (1, None, 10), (2, None, 5), (3, 1, None)),
                  v=[(None, 2, 15), (1, 1, None)]),
            epoch(upsert("t", (1, 1, 10)), v=[(None, 1, 5), (1, 2, 10)]),
            epoch(delete("t", (2, None, 5)), v=[(1, 2, 10)]),
            epoch(upsert("t", (3, None, 7)), v=[(None, 1, 7), (1, 1, 10)]),
        ),
    ),
    Scenario(
        "null_in_two_group_keys",
        (table("t", "g INT, h STRING, v INT"),),
        {"v": "SELECT g, h, count(v) AS n FROM t GROUP BY g, h"},
        (
            epoch(insert("t", (None, None, 1), (None, "a", 1), (1, None, None), (None, None, None)),
                  v=[(None, None, 1), (None, "a", 1), (1, None, 0)]),
            epoch(delete("t", (None, None, 1)),
                  v=[(None, None, 0), (None, "a", 1), (1, None, 0)]),
            epoch(delete("t", (None, None, None)), v=[(None, "a", 1), (1, None, 0)]),
        ),
    ),
    Scenario(
        "null_never_equals_null_in_joins",
        (table("a", "id INT, k INT", "id"), table("b", "k INT, w STRING")),
        {"v": "SELECT a.id, b.w FROM a JOIN b ON a.k = b.k",
         "w": "SELECT a.id, b.w FROM a, b WHERE a.k = b.k AND b.w IS NULL"},
        (
            epoch(insert("a", (1, None), (2, 7)), insert("b", (None, "x"), (7, "y")),
                  v=[(2, "y")], w=[]),
            epoch(upsert("a", (1, 7)), insert("b", (7, None)),
                  v=[(1, "y"), (2, "y"), (1, None), (2, None)], w=[(1, None), (2, None)]),
            epoch(upsert("a", (2, None)), v=[(1, "y"), (1, None)], w=[(1, None)]),
            epoch(delete("b", (7, "y")), v=[(1, None)]),
        ),
    ),
    Scenario(
        "null_safe_equality_beside_a_join_key",
        (table("a", "k INT, x INT"), table("b", "k INT, y INT")),
        {"v": "SELECT a.k, a.x FROM a JOIN b ON a.k = b.k AND a.x <=> b.y",
         "w": "SELECT k, x <=> NULL AS missing FROM a WHERE NOT (x <=> 1)"},
        (
            epoch(insert("a", (1, None), (1, 1)), insert("b", (1, None), (1, None)),
                  v=[(1, None), (1, None)], w=[(1, True)]),
            epoch(insert("b", (1, 1)), delete("b", (1, None)), v=[(1, None), (1, 1)]),
            epoch(delete("a", (1, None)), insert("a", (1, 2)), v=[(1, 1)], w=[(1, False)]),
        ),
    ),
    Scenario(
        "null_with_using",
        (table("a", "k INT, x INT"), table("b", "k INT, y INT")),
        {"v": "SELECT * FROM a JOIN b USING (k)"},
        (
            epoch(insert("a", (None, 1), (2, 2)), insert("b", (None, 3), (2, 4)), v=[(2, 2, 4)]),
            epoch(delete("a", (2, 2)), insert("a", (2, None)), v=[(2, None, 4)]),
            epoch(delete("b", (2, 4)), v=[]),
        ),
    ),
    Scenario(
        "sum_of_a_group_without_values_is_null",
        (table("t", "id INT, g INT, v INT", "id"),),
        {"v": "SELECT g, sum(v) AS s, count(v) AS c, avg(v) AS a, count(*) AS n"
              " FROM t GROUP BY g"},
        (
            epoch(insert("t", (1, 1, 4), (2, 1, None)), v=[(1, 4, 1, 4.0, 2)]),
            epoch(upsert("t", (1, 1, None)), v=[(1, None, 0, None, 2)]),
            epoch(upsert("t", (2, 1, 0)), v=[(1, 0, 1, 0.0, 2)]),
            epoch(delete("t", (2, 1, 0)), v=[(1, None, 0, None, 1)]),
        ),
    ),
    Scenario(
        "global_aggregate_over_nothing_has_its_row",
        (table("t", "v DECIMAL(10,2)"),),
        {"v": "SELECT count(*) AS n, count(v) AS c, sum(v) AS s, avg(v) AS a FROM t",
         "w": "SELECT sum(v) + 1 AS s, coalesce(sum(v), 0) AS z FROM t WHERE v > 100",
         "x": "SELECT count(*) AS n FROM t HAVING count(*) > 0"},
        (
            epoch(v=[(0, 0, None, None)], w=[(None, Decimal("0.00"))], x=[]),
            epoch(insert("t", (Decimal("1.25"),), (None,)),
                  v=[(2, 1, Decimal("1.25"), Decimal("1.250000"))], x=[(2,)]),
            epoch(delete("t", (Decimal("1.25"),)), v=[(1, 0, None, None)], x=[(1,)]),
            epoch(delete("t", (None,)), v=[(0, 0, None, None)], x=[]),
        ),
    ),
    Scenario(
        "three_valued_logic_in_filters",
        (table("t", "id INT, a INT, b BOOLEAN", "id"),),
        {"v": "SELECT id FROM t WHERE a > 1 OR b",
         "w": "SELECT id FROM t WHERE NOT (a > 1 AND b)",
         "x": "SELECT id FROM t WHERE a IN (1, NULL)",
         "y": "SELECT id FROM t WHERE a NOT IN (1, NULL)",
         "z": "SELECT id FROM t WHERE a NOT BETWEEN 1 AND 2"},
        (
            epoch(insert("t", (1, None, True), (2, None, False), (3, 2, None), (4, 0, None)),
                  v=[(1,), (3,)], w=[(2,), (4,)], x=[], y=[], z=[(4,)]),
            epoch(upsert("t", (1, 1, None), (2, 3, False)),
                  v=[(2,), (3,)], w=[(1,), (2,), (4,)], x=[(1,)], y=[], z=[(2,), (4,)]),
            epoch(upsert("t", (1, None, None)), w=[(2,), (4,)], x=[]),
        ),
    ),
    Scenario(
        "nan_and_negative_zero_in_keys",
        (table("t", "f DOUBLE, v INT"), table("u", "f DOUBLE, w INT")),
        {"v": "SELECT f, count(*) AS n FROM t GROUP BY f",
         "w": "SELECT t.v, u.w FROM t JOIN u ON t.f = u.f",
         "x": "SELECT DISTINCT f FROM t",
         "y": "SELECT v FROM t WHERE f > 1e300"},
        (
            epoch(insert("t", (0.0, 1), (-0.0, 2), (nan, 3), (nan, 4)),
                  insert("u", (-0.0, 5), (nan, 6)),
                  v=[(0.0, 2), (nan, 2)], w=[(1, 5), (2, 5), (3, 6), (4, 6)],
                  x=[(0.0,), (nan,)], y=[(3,), (4,)]),
            epoch(delete("t", (nan, 3)), delete("u", (nan, 6)),
                  v=[(0.0, 2), (nan, 1)], w=[(1, 5), (2, 5)], y=[(4,)]),
            epoch(delete("t", (nan, 4), (-0.0, 2)), v=[(0.0, 1)], x=[(0.0,)], y=[]),
        ),
    ),
    Scenario(
        "null_safe_equality_as_the_only_join_condition",
        (table("a", "id INT, k INT", "id"), table("b", "k INT, y INT")),
        {"j": "SELECT a.id, b.y FROM a JOIN b ON a.k <=> b.k",
         "l": "SELECT a.id, b.y FROM a LEFT JOIN b ON a.k <=> b.k",
         "f": "SELECT a.id, b.y FROM a FULL JOIN b ON a.k <=> b.k",
         "s": "SELECT a.id FROM a LEFT SEMI JOIN b ON a.k <=> b.k",
         "n": "SELECT a.id FROM a LEFT ANTI JOIN b ON a.k <=> b.k"},
        (
            epoch(insert("a", (1, None), (2, 7)), insert("b", (None, 5), (None, 5), (8, 6)),
                  j=[(1, 5), (1, 5)], l=[(1, 5), (1, 5), (2, None)],
                  f=[(1, 5), (1, 5), (2, None), (None, 6)], s=[(1,)], n=[(2,)]),
            epoch(delete("b", (None, 5)), j=[(1, 5)], l=[(1, 5), (2, None)],
                  f=[(1, 5), (2, None), (None, 6)], s=[(1,)], n=[(2,)]),
            epoch(delete("b", (None, 5)), j=[], l=[(1, None), (2, None)],
                  f=[(1, None), (2, None), (None, 6)], s=[], n=[(1,), (2,)]),
            epoch(upsert("a", (2, None)), insert("b", (None, 9)), j=[(1, 9), (2, 9)],
                  l=[(1, 9), (2, 9)], f=[(1, 9), (2, 9), (None, 6)], s=[(1,), (2,)], n=[]),
            epoch(upsert("a", (1, 8)), insert("b", (8, None)), j=[(1, 6), (1, None), (2, 9)],
                  f=[(1, 6), (1, None), (2, 9)], s=[(1,), (2,)], n=[]),
            epoch(delete("a", (2, None)), delete("b", (8, 6), (8, None)), j=[], l=[(1, None)],
                  f=[(1, None), (None, 9)], s=[], n=[(1,)]),
        ),
    ),
    Scenario(
        "nan_and_negative_zero_as_primary_key_and_computed",
        (table("t", "f DOUBLE, v INT", "f"), table("u", "f DOUBLE")),
        {"v": "SELECT f, v FROM t",
         "s": "SELECT v FROM t LEFT SEMI JOIN u ON t.f = u.f",
         "n": "SELECT v FROM t WHERE f NOT IN (SELECT f FROM u)",
         "d": "SELECT count(DISTINCT f) AS n FROM u",
         "g": "SELECT -f AS m, count(*) AS n FROM u GROUP BY -f"},
        (
            epoch(insert("t", (0.0, 1), (nan, 2), (1.0, 3)),
                  insert("u", (-0.0,), (nan,), (nan,), (None,)),
                  v=[(0.0, 1), (nan, 2), (1.0, 3)], s=[(1,), (2,)], n=[], d=[(2,)],
                  g=[(0.0, 1), (nan, 2), (None, 1)]),
            epoch(upsert("t", (-0.0, 10)), delete("u", (None,)),
                  v=[(0.0, 10), (nan, 2), (1.0, 3)], s=[(10,), (2,)], n=[(3,)],
                  g=[(0.0, 1), (nan, 2)]),
            epoch(delete("t", (nan, 2)), delete("u", (0.0,)), v=[(0.0, 10), (1.0, 3)], s=[],
                  n=[(10,), (3,)], d=[(1,)], g=[(nan, 2)]),
            epoch(insert("t", (nan, 5)), delete("t", (-0.0, 0)), delete("u", (nan,)),
                  v=[(nan, 5), (1.0, 3)], s=[(5,)], n=[(3,)], d=[(1,)], g=[(nan, 1)]),
            epoch(delete("u", (nan,)), s=[], n=[(5,), (3,)], d=[(0,)], g=[]),
        ),
    ),
)  # fmt: skip
