"""Traps: ORDER BY and LIMIT. Ties: all output columns, left to right, ascending, NULLs first.

Rows are read in the order of ORDER BY where all its columns are output columns; a view does not
keep the others, so there, and without ORDER BY, only the multiset counts.
"""

from __future__ import annotations

from tests.reference.tables import delete, insert, upsert
from tests.sql.scenario import Scenario, epoch, table

SCENARIOS = (
    Scenario(
        "limit_with_ties",
        (table("t", "id INT, v INT, w STRING", "id"),),
        {"v": "SELECT id, v FROM t ORDER BY v DESC LIMIT 2",
         "w": "SELECT w, v FROM t ORDER BY v LIMIT 2"},
        (
            epoch(insert("t", (3, 7, "c"), (1, 7, "b"), (2, 7, None)),
                  v=[(1, 7), (2, 7)], w=[(None, 7), ("b", 7)]),
            epoch(insert("t", (0, 7, "a")), v=[(0, 7), (1, 7)], w=[(None, 7), ("a", 7)]),
            epoch(upsert("t", (1, 8, "b")), v=[(1, 8), (0, 7)]),
            epoch(delete("t", (0, 7, "a"), (1, 8, "b")), v=[(2, 7), (3, 7)],
                  w=[(None, 7), ("c", 7)]),
            epoch(delete("t", (2, 7, None)), v=[(3, 7)], w=[("c", 7)]),
            epoch(delete("t", (3, 7, "c")), v=[], w=[]),
        ),
    ),
    Scenario(
        "limit_over_copies",
        (table("t", "v INT"),),
        {"v": "SELECT v FROM t ORDER BY v LIMIT 3"},
        (
            epoch(insert("t", (2,), (1,), (2,), (2,)), v=[(1,), (2,), (2,)]),
            epoch(insert("t", (1,)), v=[(1,), (1,), (2,)]),
            epoch(delete("t", (2,)), v=[(1,), (1,), (2,)]),
            epoch(delete("t", (1,), (1,)), v=[(2,), (2,)]),
        ),
    ),
    Scenario(
        "order_by_a_column_that_is_not_selected",
        (table("t", "id INT, v INT, w INT", "id"),),
        {"v": "SELECT w FROM t ORDER BY v DESC, id LIMIT 2",
         "w": "SELECT w, count(*) AS n FROM t GROUP BY w ORDER BY sum(v) DESC LIMIT 1"},
        (
            epoch(insert("t", (1, 1, 10), (2, 2, 20), (3, 3, 10)), v=[(10,), (20,)], w=[(10, 2)]),
            epoch(upsert("t", (1, 5, 10)), v=[(10,), (10,)]),
            epoch(upsert("t", (2, 9, 20)), v=[(20,), (10,)], w=[(20, 1)]),
            epoch(delete("t", (2, 9, 20)), v=[(10,), (10,)], w=[(10, 2)]),
        ),
    ),
    Scenario(
        "nulls_first_and_last",
        (table("t", "v INT"),),
        {"v": "SELECT v FROM t ORDER BY v LIMIT 2",
         "w": "SELECT v FROM t ORDER BY v DESC LIMIT 2",
         "x": "SELECT v FROM t ORDER BY v NULLS LAST LIMIT 2",
         "y": "SELECT v FROM t ORDER BY v DESC NULLS FIRST LIMIT 2"},
        (
            epoch(insert("t", (1,), (None,), (3,)), v=[(None,), (1,)], w=[(3,), (1,)],
                  x=[(1,), (3,)], y=[(None,), (3,)]),
            epoch(delete("t", (1,)), v=[(None,), (3,)], w=[(3,), (None,)],
                  x=[(3,), (None,)], y=[(None,), (3,)]),
            epoch(delete("t", (None,)), v=[(3,)], w=[(3,)], x=[(3,)], y=[(3,)]),
        ),
    ),
    Scenario(
        "order_without_limit",
        (table("t", "id INT, v DECIMAL(10,2), d DATE", "id"),),
        {"v": "SELECT id, v FROM t ORDER BY v DESC, id",
         "w": "SELECT d, count(*) AS n FROM t GROUP BY d ORDER BY d"},
        (
            epoch(insert("t", (1, None, None), (2, None, None), (3, None, None)),
                  v=[(1, None), (2, None), (3, None)], w=[(None, 3)]),
            epoch(delete("t", (2, None, None)), v=[(1, None), (3, None)]),
        ),
    ),
    Scenario(
        "limit_without_order",
        (table("t", "id INT, v INT", "id"),),
        {"v": "SELECT v, id FROM t LIMIT 2", "z": "SELECT v FROM t LIMIT 0"},
        (
            epoch(insert("t", (1, 9), (2, 8), (3, 7)), v=[(7, 3), (8, 2)], z=[]),
            epoch(insert("t", (4, None)), v=[(None, 4), (7, 3)]),
            epoch(delete("t", (3, 7)), v=[(None, 4), (8, 2)], z=[]),
        ),
    ),
    Scenario(
        "limit_under_a_join_and_an_aggregate",
        (table("t", "id INT, g INT, v INT", "id"), table("n", "g INT, name STRING", "g")),
        {"v": "SELECT n.name, q.v FROM (SELECT g, v FROM t ORDER BY v DESC LIMIT 2) q"
              " JOIN n ON q.g = n.g",
         "w": "SELECT sum(v) AS s FROM (SELECT v FROM t ORDER BY v LIMIT 2) q",
         "top": "SELECT g, v FROM t ORDER BY v DESC LIMIT 1",
         "x": "SELECT n.name FROM top JOIN n ON top.g = n.g"},
        (
            epoch(insert("n", (1, "a"), (2, "b")), insert("t", (1, 1, 5), (2, 2, 6), (3, 1, 7)),
                  v=[("b", 6), ("a", 7)], w=[(11,)], x=[("a",)]),
            epoch(delete("t", (3, 1, 7)), v=[("a", 5), ("b", 6)], w=[(11,)], x=[("b",)]),
            epoch(upsert("t", (1, 2, 9)), delete("n", (1, "a")), v=[("b", 9), ("b", 6)],
                  w=[(15,)], x=[("b",)]),
            epoch(delete("t", (1, 2, 9), (2, 2, 6)), v=[], w=[(None,)], x=[]),
        ),
    ),
    Scenario(
        "order_by_strings_dates_decimals_and_doubles",
        (table("t", "s STRING, d DATE, p DECIMAL(12,2), f DOUBLE"),),
        {"a": "SELECT s FROM t ORDER BY s DESC LIMIT 3",
         "b": "SELECT d FROM t ORDER BY d LIMIT 3",
         "c": "SELECT p FROM t ORDER BY p DESC LIMIT 3",
         "d": "SELECT f FROM t ORDER BY f DESC LIMIT 3",
         "e": "SELECT s, f FROM t ORDER BY f, s DESC LIMIT 3"},
        (
            epoch(insert("t", ("a", None, None, -0.0), ("B", None, None, float("nan")),
                         ("ä", None, None, -1.5), ("", None, None, 0.0), (None,) * 4),
                  a=[("ä",), ("a",), ("B",)], d=[(float("nan"),), (0.0,), (0.0,)],
                  e=[(None, None), ("ä", -1.5), ("a", 0.0)]),
            epoch(delete("t", ("ä", None, None, -1.5)), a=[("a",), ("B",), ("",)],
                  e=[(None, None), ("a", 0.0), ("", 0.0)]),
        ),
    ),
)  # fmt: skip
