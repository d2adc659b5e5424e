"""Traps: peers, ties, frames at the edges, rows that change partitions, NULLs in the order."""

from __future__ import annotations

from tests.reference.tables import delete, insert, upsert
from tests.sql.scenario import ERROR, Scenario, epoch, table

_T = (table("t", "id INT, g STRING, x INT, y INT", "id"),)

SCENARIOS = (
    Scenario(
        "a_deletion_in_the_middle_moves_the_numbers_behind_it",
        _T,
        {
            "v": "SELECT id, row_number() OVER (PARTITION BY g ORDER BY x, id) AS n,"
            " lag(id) OVER (PARTITION BY g ORDER BY x, id) AS b,"
            " lead(id, 1, -1) OVER (PARTITION BY g ORDER BY x, id) AS a FROM t",
            "w": "SELECT id FROM t QUALIFY row_number() OVER (PARTITION BY g ORDER BY x DESC) = 1",
        },
        (
            epoch(
                insert("t", (1, "a", 1, 0), (2, "a", 2, 0), (3, "a", 3, 0), (4, "b", 9, 0)),
                v=[(1, 1, None, 2), (2, 2, 1, 3), (3, 3, 2, -1), (4, 1, None, -1)],
                w=[(3,), (4,)],
            ),
            epoch(
                delete("t", (2, "a", 2, 0)),
                v=[(1, 1, None, 3), (3, 2, 1, -1), (4, 1, None, -1)],
                w=[(3,), (4,)],
            ),
            epoch(  # a row moves to another partition
                upsert("t", (3, "b", 3, 0)),
                v=[(1, 1, None, -1), (3, 1, None, 4), (4, 2, 3, -1)],
                w=[(1,), (4,)],
            ),
            epoch(delete("t", (1, "a", 1, 0), (3, "b", 3, 0), (4, "b", 9, 0)), v=[], w=[]),
        ),
    ),
    Scenario(
        "peers_are_equal_in_the_order_and_rows_are_not",
        _T,
        {
            "v": "SELECT id, sum(y) OVER (ORDER BY x) AS peers,"
            " sum(y) OVER (ORDER BY x ROWS UNBOUNDED PRECEDING) AS rows,"
            " rank() OVER (ORDER BY x) AS r, dense_rank() OVER (ORDER BY x) AS d FROM t",
            "w": "SELECT id, count(*) OVER (ORDER BY x RANGE BETWEEN 1 PRECEDING AND CURRENT ROW)"
            " AS c, last_value(y) OVER (ORDER BY x) AS l FROM t",
        },
        (
            epoch(
                insert("t", (1, "", 5, 1), (2, "", 5, 2), (3, "", 6, 4), (4, "", None, 8)),
                v=[(4, 8, 8, 1, 1), (1, 11, 9, 2, 2), (2, 11, 11, 2, 2), (3, 15, 15, 4, 3)],
                w=[(4, 1, 8), (1, 2, 2), (2, 2, 2), (3, 3, 4)],
            ),
            epoch(
                upsert("t", (4, "", 5, 8)),
                v=[(1, 11, 1, 1, 1), (2, 11, 3, 1, 1), (4, 11, 11, 1, 1), (3, 15, 15, 4, 2)],
                w=[(1, 3, 8), (2, 3, 8), (4, 3, 8), (3, 4, 4)],
            ),
        ),
    ),
    Scenario(
        "frames_that_are_empty_at_the_edges_and_sums_of_nothing_but_null",
        _T,
        {
            "v": "SELECT id, sum(x) OVER (ORDER BY id ROWS BETWEEN 2 FOLLOWING AND 3 FOLLOWING)"
            " AS s, count(*) OVER (ORDER BY id ROWS BETWEEN 2 PRECEDING AND 1 PRECEDING) AS c,"
            " max(x) OVER (PARTITION BY g) AS m, sum(x) OVER () AS a,"
            " first_value(x) IGNORE NULLS OVER (ORDER BY id) AS f FROM t",
        },
        (
            epoch(
                insert("t", (1, "a", None, 0), (2, "a", None, 0), (3, "b", 7, 0)),
                v=[(1, 7, 0, None, 7, None), (2, None, 1, None, 7, None), (3, None, 2, 7, 7, 7)],
            ),
            epoch(
                upsert("t", (3, "b", None, 0)),
                v=[
                    (1, None, 0, None, None, None),
                    (2, None, 1, None, None, None),
                    (3, None, 2, None, None, None),
                ],
            ),
        ),
    ),
    Scenario(
        "windows_over_aggregates_over_distinct_and_below_them",
        _T,
        {
            "v": "SELECT g, sum(x) AS s, rank() OVER (ORDER BY sum(x) DESC) AS r,"
            " sum(sum(x)) OVER () AS a FROM t GROUP BY g",
            "w": "SELECT g, count(*) AS c FROM"
            " (SELECT g, dense_rank() OVER (ORDER BY x) AS d FROM t) q WHERE d = 1 GROUP BY g",
            "d": "SELECT DISTINCT count(*) OVER (PARTITION BY g) AS c FROM t",
            "c": "SELECT id, (SELECT max(r) FROM (SELECT rank() OVER (ORDER BY y) AS r FROM t u"
            " WHERE u.g = t.g) q) AS m FROM t",
        },
        (
            epoch(
                insert("t", (1, "a", 1, 1), (2, "a", 2, 2), (3, "b", 1, 3)),
                v=[("a", 3, 1, 4), ("b", 1, 2, 4)],
                w=[("a", 1), ("b", 1)],
                d=[(2,), (1,)],
                c=[(1, 2), (2, 2), (3, 1)],
            ),
            epoch(
                upsert("t", (3, "b", 5, 3), (2, "b", 2, 3)),
                v=[("b", 7, 1, 8), ("a", 1, 2, 8)],
                w=[("a", 1)],
                d=[(2,), (1,)],
                c=[(1, 1), (2, 1), (3, 1)],
            ),
        ),
    ),
    Scenario(
        "a_sum_over_a_frame_leaves_its_type_and_comes_back",
        (table("t", "id INT, x BIGINT", "id"),),
        {"v": "SELECT id, sum(x) OVER (ORDER BY id ROWS 1 PRECEDING) AS s FROM t"},
        (
            epoch(insert("t", (1, 2**62), (2, 1)), v=[(1, 2**62), (2, 2**62 + 1)]),
            epoch(insert("t", (3, 2**63 - 1)), v=ERROR),
            epoch(delete("t", (2, 1)), v=ERROR),
            epoch(delete("t", (1, 2**62)), v=[(3, 2**63 - 1)]),
        ),
    ),
    Scenario(
        "what_stands_around_windows_is_computed_where_it_is_reached",
        _T,
        {
            "v": "SELECT id, if(x < 0, 1 / 0, x - lag(x) OVER (ORDER BY id)) AS a,"
            " CASE WHEN x = 0 THEN lag(y) OVER (ORDER BY id) WHEN 6 / x > 2 THEN 6 DIV x"
            " ELSE row_number() OVER (ORDER BY g) END AS b,"
            " coalesce(y, CAST(g AS INT), row_number() OVER (ORDER BY x)) AS c FROM t",
            # Keys of GROUP BY in parts that are not always reached; the sum of no row fails.
            "w": "SELECT if(sum(y) = 0, -1, (x + 1) * 12 / sum(y) + row_number() OVER"
            " (ORDER BY t.x + 1)) AS q FROM t GROUP BY t.x + 1",
            "q": "SELECT id FROM t QUALIFY x <> 0 AND 6 / x > 1 AND"
            " row_number() OVER (ORDER BY id) < 4",
            "e": "SELECT id, 6 / x - lag(x) OVER (ORDER BY id) AS d FROM t",
        },
        (
            epoch(
                insert("t", (1, "7", 2, None), (2, "a", 0, 4), (3, "b", 12, 6), (4, "a", 1, 0)),
                v=[(1, None, 3, 7), (2, -2, None, 4), (3, 12, 4, 6), (4, -11, 6, 0)],
                w=[(-1.0,), (4.0,), (None,), (30.0,)],
                q=[(1,)],
                e=ERROR,
            ),
            epoch(  # the only row that 1 / 0 is reached for
                upsert("t", (4, "a", -1, 0)),
                v=ERROR,
                w=[(-1.0,), (5.0,), (None,), (30.0,)],
                q=[(1,)],
                e=ERROR,
            ),
            epoch(
                delete("t", (4, "a", -1, 0), (2, "a", 0, 4)),
                v=[(1, None, 3, 7), (3, 10, 2, 6)],
                w=[(None,), (28.0,)],
                q=[(1,)],
                e=[(1, None), (3, -1.5)],
            ),
        ),
    ),
)
