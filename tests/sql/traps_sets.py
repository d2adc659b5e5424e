"""Traps: UNION, INTERSECT and EXCEPT with and without ALL, VALUES, OFFSET."""

from __future__ import annotations

from math import nan

from tests.reference.tables import delete, insert, upsert
from tests.sql.scenario import Scenario, epoch, table

_TWO = (table("a", "x INT"), table("b", "y INT"))

SCENARIOS = (
    Scenario(
        "set_operations_with_and_without_all",
        _TWO,
        {"u": "SELECT x FROM a UNION SELECT y FROM b",
         "i": "SELECT x FROM a INTERSECT SELECT y FROM b",
         "ia": "SELECT x FROM a INTERSECT ALL SELECT y FROM b",
         "e": "SELECT x FROM a EXCEPT SELECT y FROM b",
         "ea": "SELECT x FROM a EXCEPT ALL SELECT y FROM b",
         "m": "SELECT x FROM a MINUS SELECT y FROM b"},
        (
            epoch(insert("a", (1,), (1,), (1,), (2,), (None,)), u=[(1,), (2,), (None,)], i=[],
                  ia=[], e=[(1,), (2,), (None,)], ea=[(1,), (1,), (1,), (2,), (None,)],
                  m=[(1,), (2,), (None,)]),
            epoch(insert("b", (1,), (1,), (3,)), u=[(1,), (2,), (3,), (None,)], i=[(1,)],
                  ia=[(1,), (1,)], e=[(2,), (None,)], ea=[(1,), (2,), (None,)]),
            epoch(insert("b", (None,), (None,)), i=[(1,), (None,)], ia=[(1,), (1,), (None,)],
                  e=[(2,)], ea=[(1,), (2,)], m=[(2,)]),
            epoch(delete("b", (1,)), i=[(1,), (None,)], ia=[(1,), (None,)],
                  ea=[(1,), (1,), (2,)]),
            epoch(delete("a", (1,), (1,)), delete("b", (1,)), i=[(None,)], ia=[(None,)],
                  e=[(1,), (2,)], ea=[(1,), (2,)]),
            epoch(delete("a", (1,), (2,)), insert("b", (2,)), u=[(None,), (2,), (3,)],
                  e=[], ea=[]),
            epoch(delete("a", (None,)), delete("b", (None,), (None,)), u=[(2,), (3,)], i=[]),
        ),
    ),
    Scenario(
        "a_union_loses_its_last_copy_on_either_side",
        _TWO,
        {"v": "SELECT x FROM a UNION SELECT y FROM b",
         "w": "SELECT x FROM a UNION SELECT x FROM a UNION ALL SELECT y FROM b"},
        (
            epoch(insert("a", (1,), (1,)), insert("b", (1,)), v=[(1,)], w=[(1,), (1,)]),
            epoch(delete("a", (1,), (1,)), v=[(1,)], w=[(1,)]),
            epoch(delete("b", (1,)), insert("a", (1,)), v=[(1,)], w=[(1,)]),
            epoch(delete("a", (1,)), v=[], w=[]),
        ),
    ),
    Scenario(
        "the_same_table_on_both_sides_of_a_set_operation",
        (table("t", "id INT, x INT", "id"),),
        {"e": "SELECT id FROM t EXCEPT SELECT x FROM t",
         "i": "SELECT id FROM t INTERSECT ALL SELECT x FROM t",
         "n": "SELECT x FROM t EXCEPT ALL SELECT x FROM t WHERE x > 1"},
        (
            epoch(insert("t", (1, 2), (2, 2), (3, None)), e=[(1,), (3,)], i=[(2,)], n=[(None,)]),
            epoch(upsert("t", (1, 3)), e=[(1,)], i=[(2,), (3,)]),
            epoch(delete("t", (2, 2)), insert("t", (4, 1)), e=[(4,)], i=[(1,), (3,)],
                  n=[(1,), (None,)]),
            epoch(upsert("t", (3, 1)), n=[(1,), (1,)], i=[(1,), (3,)]),
        ),
    ),
    Scenario(
        "set_operations_over_several_columns_and_types",
        (table("a", "x INT, s STRING, f DOUBLE"), table("b", "x BIGINT, s STRING, f DOUBLE")),
        {"e": "SELECT x, s FROM a EXCEPT ALL SELECT x, s FROM b",
         "i": "SELECT f FROM a INTERSECT SELECT f FROM b",
         "u": "SELECT x, f FROM a UNION SELECT x, f FROM b"},
        (
            epoch(insert("a", (1, "p", 0.0), (1, None, nan), (None, None, -0.0)),
                  insert("b", (1, "p", -0.0), (1, "q", nan)),
                  e=[(1, None), (None, None)], i=[(0.0,), (nan,)],
                  u=[(1, 0.0), (1, nan), (None, 0.0)]),
            epoch(insert("b", (1, None, 1.0), (None, None, 1.0)), delete("b", (1, "q", nan)),
                  e=[], i=[(0.0,)], u=[(1, 0.0), (1, nan), (None, 0.0), (1, 1.0), (None, 1.0)]),
            epoch(delete("b", (1, "p", -0.0)), e=[(1, "p")], i=[]),
        ),
    ),
    Scenario(
        "values_beside_tables",
        (table("t", "id INT, k INT", "id"),),
        {"v": "SELECT t.id, q.s FROM t JOIN (VALUES (1, 'one'), (2, 'two'), (2, NULL)) AS q(k, s)"
              " ON t.k = q.k",
         "w": "SELECT q.k, count(t.id) AS n FROM (VALUES (1), (2)) AS q(k) LEFT JOIN t"
              " ON t.k = q.k GROUP BY q.k",
         "x": "SELECT id FROM t WHERE k NOT IN (VALUES (1), (3))"},
        (
            epoch(v=[], w=[(1, 0), (2, 0)], x=[]),
            epoch(insert("t", (1, 1), (2, 2), (3, None)), v=[(1, "one"), (2, "two"), (2, None)],
                  w=[(1, 1), (2, 1)], x=[(2,)]),
            epoch(upsert("t", (1, 2), (3, 4)), w=[(1, 0), (2, 2)], x=[(1,), (2,), (3,)]),
            epoch(delete("t", (2, 2)), v=[(1, "two"), (1, None)], w=[(1, 0), (2, 1)]),
        ),
    ),
    Scenario(
        "offset_with_and_without_limit",
        (table("t", "id INT, v INT", "id"),),
        {"v": "SELECT id, v FROM t ORDER BY v, id LIMIT 2 OFFSET 1",
         "w": "SELECT id FROM t ORDER BY id OFFSET 2",
         "x": "SELECT v FROM t LIMIT 2 OFFSET 1",
         "y": "SELECT v, count(*) AS n FROM t GROUP BY v ORDER BY n DESC LIMIT 1 OFFSET 1"},
        (
            epoch(insert("t", (1, 5)), v=[], w=[], x=[], y=[]),
            epoch(insert("t", (2, 5), (3, 1), (4, None)), v=[(3, 1), (1, 5)], w=[(3,), (4,)],
                  x=[(1,), (5,)], y=[(None, 1)]),
            epoch(delete("t", (4, None)), v=[(1, 5), (2, 5)], w=[(3,)], x=[(5,), (5,)],
                  y=[(1, 1)]),
            epoch(upsert("t", (1, 0)), v=[(3, 1), (2, 5)], x=[(1,), (5,)]),
            epoch(delete("t", (1, 0), (3, 1)), v=[], w=[], x=[], y=[]),
        ),
    ),
)  # fmt: skip
