"""Traps: copies of equal rows, and what one epoch does to one key."""

from __future__ import annotations

from tests.reference.tables import delete, insert, upsert
from tests.sql.scenario import Scenario, epoch, table

SCENARIOS = (
    Scenario(
        "bag_without_a_key",
        (table("t", "a INT, b STRING"),),
        {"v": "SELECT a, b FROM t", "w": "SELECT b FROM t WHERE a IS NOT NULL"},
        (
            epoch(insert("t", (1, "x"), (1, "x"), (None, None)),
                  v=[(1, "x"), (1, "x"), (None, None)], w=[("x",), ("x",)]),
            epoch(delete("t", (1, "x")), v=[(1, "x"), (None, None)], w=[("x",)]),
            epoch(insert("t", (1, "x")), delete("t", (1, "x")), v=[(1, "x"), (None, None)]),
            epoch(delete("t", (None, None)), insert("t", (None, None), (None, None)),
                  v=[(1, "x"), (None, None), (None, None)]),
            epoch(delete("t", (None, None), (1, "x"), (None, None)), v=[], w=[]),
        ),
    ),
    Scenario(
        "join_multiplies_copies",
        (table("a", "k INT"), table("b", "k INT")),
        {"v": "SELECT a.k FROM a JOIN b ON a.k = b.k",
         "n": "SELECT count(*) AS n FROM a JOIN b ON a.k = b.k"},
        (
            epoch(insert("a", (1,), (1,)), insert("b", (1,), (1,), (1,)), v=[(1,)] * 6, n=[(6,)]),
            epoch(delete("a", (1,)), v=[(1,)] * 3, n=[(3,)]),
            epoch(delete("b", (1,)), insert("a", (1,)), v=[(1,)] * 4, n=[(4,)]),
            epoch(delete("a", (1,), (1,)), v=[], n=[(0,)]),
        ),
    ),
    Scenario(
        "distinct_last_copy_leaves",
        (table("t", "a INT, b INT"),),
        {"v": "SELECT DISTINCT a FROM t", "w": "SELECT DISTINCT a, b FROM t WHERE b > 0",
         "n": "SELECT count(*) AS n FROM (SELECT DISTINCT a FROM t) q"},
        (
            epoch(insert("t", (1, 1), (1, 2), (1, 2), (None, 3)),
                  v=[(1,), (None,)], w=[(1, 1), (1, 2), (None, 3)], n=[(2,)]),
            epoch(delete("t", (1, 2)), v=[(1,), (None,)], w=[(1, 1), (1, 2), (None, 3)]),
            epoch(delete("t", (1, 1), (1, 2)), v=[(None,)], w=[(None, 3)], n=[(1,)]),
            epoch(delete("t", (None, 3)), insert("t", (1, 0)), v=[(1,)], w=[], n=[(1,)]),
        ),
    ),
    Scenario(
        "insert_then_delete_of_one_key_in_an_epoch",
        (table("t", "id INT, v INT", "id"),),
        {"v": "SELECT id, v FROM t", "s": "SELECT sum(v) AS s FROM t"},
        (
            epoch(insert("t", (1, 5)), v=[(1, 5)], s=[(5,)]),
            epoch(insert("t", (2, 6)), delete("t", (2, 6)), v=[(1, 5)], s=[(5,)]),
            epoch(insert("t", (2, 7)), upsert("t", (2, 8)), delete("t", (2, 8)),
                  insert("t", (2, 9)), v=[(1, 5), (2, 9)], s=[(14,)]),
        ),
    ),
    Scenario(
        "delete_then_insert_of_one_key_in_an_epoch",
        (table("t", "id INT, v INT", "id"),),
        {"v": "SELECT id, v FROM t", "n": "SELECT v, count(*) AS n FROM t GROUP BY v"},
        (
            epoch(insert("t", (1, 5)), v=[(1, 5)]),
            epoch(delete("t", (1, 5)), insert("t", (1, 6)), v=[(1, 6)], n=[(6, 1)]),
            epoch(delete("t", (1, 6)), insert("t", (1, 6)), v=[(1, 6)], n=[(6, 1)]),
            epoch(delete("t", (1, 6)), insert("t", (1, 7)), delete("t", (1, 7)), v=[], n=[]),
        ),
    ),
    Scenario(
        "key_deleted_and_inserted_again_later",
        (table("t", "id INT, v INT", "id"), table("u", "id INT, w INT")),
        {"v": "SELECT t.id, t.v, u.w FROM t JOIN u ON t.id = u.id"},
        (
            epoch(insert("t", (1, 5)), insert("u", (1, 0)), v=[(1, 5, 0)]),
            epoch(delete("t", (1, 5)), v=[]),
            epoch(insert("t", (1, 5)), v=[(1, 5, 0)]),
            epoch(delete("t", (1, 5)), v=[]),
            epoch(insert("t", (1, 6)), insert("u", (1, 1)), v=[(1, 6, 0), (1, 6, 1)]),
        ),
    ),
    Scenario(
        "update_of_a_join_key",
        (table("a", "id INT, k INT", "id"), table("b", "id INT, k INT", "id")),
        {"v": "SELECT a.id, b.id AS other FROM a JOIN b ON a.k = b.k"},
        (
            epoch(insert("a", (1, 1)), insert("b", (1, 1), (2, 2)), v=[(1, 1)]),
            epoch(upsert("a", (1, 2)), v=[(1, 2)]),
            epoch(upsert("b", (1, 2), (2, 1)), v=[(1, 1)]),
            epoch(upsert("a", (1, None)), v=[]),
        ),
    ),
    Scenario(
        "update_of_a_group_key",
        (table("t", "id INT, g STRING, v INT", "id"),),
        {"v": "SELECT g, sum(v) AS s FROM t GROUP BY g"},
        (
            epoch(insert("t", (1, "a", 1), (2, "a", 2)), v=[("a", 3)]),
            epoch(upsert("t", (1, "b", 1)), v=[("a", 2), ("b", 1)]),
            epoch(upsert("t", (2, "b", 2), (1, "a", 1)), v=[("a", 1), ("b", 2)]),
            epoch(upsert("t", (1, None, 1)), v=[(None, 1), ("b", 2)]),
        ),
    ),
    Scenario(
        "update_of_a_primary_key",
        (table("t", "a INT, b STRING, v INT", "a", "b"),
         table("u", "a INT, b STRING")),
        {"v": "SELECT t.v FROM t JOIN u ON t.a = u.a AND t.b = u.b", "w": "SELECT a, b FROM t"},
        (
            epoch(insert("t", (1, "x", 1)), insert("u", (1, "x"), (2, "x"), (2, "x")), v=[(1,)]),
            epoch(delete("t", (1, "x", 1)), insert("t", (2, "x", 1)),
                  v=[(1,), (1,)], w=[(2, "x")]),
            epoch(insert("t", (1, "x", 7)), delete("t", (2, "x", 1)), insert("t", (2, "y", 1)),
                  v=[(7,)], w=[(1, "x"), (2, "y")]),
        ),
    ),
    Scenario(
        "update_that_changes_nothing",
        (table("t", "id INT, v INT, unused STRING", "id"),),
        {"v": "SELECT id, v FROM t", "s": "SELECT v, count(*) AS n FROM t GROUP BY v"},
        (
            epoch(insert("t", (1, 5, "a")), v=[(1, 5)], s=[(5, 1)]),
            epoch(upsert("t", (1, 5, "b")), v=[(1, 5)], s=[(5, 1)]),
            epoch(upsert("t", (1, 5, "b")), v=[(1, 5)]),
            epoch(v=[(1, 5)]),
        ),
    ),
)  # fmt: skip
