"""Traps: joins and correlation by inequalities alone."""

from __future__ import annotations

import datetime

from tests.reference.tables import delete, insert, upsert
from tests.sql.scenario import Scenario, epoch, table

_TWO = (table("t", "id INT, x INT, s STRING", "id"), table("u", "k INT, y BIGINT, z INT"))


def _day(n: int) -> datetime.date:
    return datetime.date(2024, 1, n)


SCENARIOS = (
    Scenario(
        "joins_by_one_inequality",
        _TWO,
        {
            "lt": "SELECT id, k FROM t JOIN u ON x < y",
            "le": "SELECT id, k FROM t JOIN u ON x <= y",
            "gt": "SELECT id, k FROM t JOIN u ON x > y",
            "ge": "SELECT id, k FROM t, u WHERE x >= y",
            "ne": "SELECT id, k FROM t JOIN u ON x <> y",
            "either": "SELECT id, k FROM t JOIN u ON x < y OR id = k",
        },
        (
            epoch(
                insert("t", (1, 5, "a"), (2, None, "b")),
                insert("u", (1, 5, 0), (2, 6, 0)),
                lt=[(1, 2)],
                le=[(1, 1), (1, 2)],
                gt=[],
                ge=[(1, 1)],
                ne=[(1, 2)],
                either=[(1, 2), (1, 1), (2, 2)],
            ),
            epoch(
                insert("u", (3, None, 0), (4, 1, 0), (4, 1, 0)),
                lt=[(1, 2)],
                gt=[(1, 4), (1, 4)],
                ge=[(1, 1), (1, 4), (1, 4)],
                ne=[(1, 2), (1, 4), (1, 4)],
            ),
            epoch(
                upsert("t", (2, 6, "b")),
                delete("u", (1, 5, 0)),
                delete("u", (4, 1, 0)),
                lt=[(1, 2)],
                le=[(1, 2), (2, 2)],
                gt=[(1, 4), (2, 4)],
            ),
            epoch(
                delete("t", (1, 5, "a")),
                insert("u", (9, 7, 0)),
                lt=[(2, 9)],
                le=[(2, 2), (2, 9)],
                gt=[(2, 4)],
                ne=[(2, 4), (2, 9)],
            ),
            epoch(
                delete("u", (2, 6, 0), (4, 1, 0), (9, 7, 0)),
                upsert("t", (2, None, "c")),
                lt=[],
                le=[],
                gt=[],
                ge=[],
                ne=[],
                either=[],
            ),
        ),
        late={"late": "SELECT id, k FROM t JOIN u ON x < y AND z >= id"},
    ),
    Scenario(
        "a_range_with_two_ends",
        (table("t", "id INT, lo DATE, hi DATE", "id"), table("u", "k INT, d DATE")),
        {
            "v": "SELECT id, k FROM t JOIN u ON d BETWEEN lo AND hi",
            "w": "SELECT id, k FROM t JOIN u ON d > lo AND d < hi",
            "x": "SELECT id, k FROM t JOIN u ON d >= lo AND d < date_add(lo, 3)",
            "y": "SELECT t.id, r.id AS other FROM t JOIN t r ON t.lo <= r.hi AND r.lo <= t.hi"
            " AND t.id <> r.id",
        },
        (
            epoch(
                insert("t", (1, _day(1), _day(5)), (2, _day(4), _day(4)), (3, None, _day(9))),
                insert("u", (1, _day(1)), (2, _day(4)), (3, None)),
                v=[(1, 1), (1, 2), (2, 2)],
                w=[(1, 2)],
                x=[(1, 1), (2, 2)],
                y=[(1, 2), (2, 1)],
            ),
            epoch(
                upsert("t", (3, _day(6), _day(2))),
                insert("u", (4, _day(3))),
                v=[(1, 1), (1, 2), (2, 2), (1, 4)],
                w=[(1, 2), (1, 4)],
                x=[(1, 1), (2, 2), (1, 4)],
            ),
            epoch(
                upsert("t", (2, _day(3), _day(6))),
                delete("u", (2, _day(4))),
                v=[(1, 1), (1, 4), (2, 4)],
                w=[(1, 4)],
                x=[(1, 1), (1, 4), (2, 4)],
            ),
        ),
    ),
    Scenario(
        "texts_that_agree_in_their_first_bytes",
        (table("t", "id INT, s STRING", "id"), table("u", "r STRING")),
        {"lt": "SELECT id, r FROM t JOIN u ON s < r", "ge": "SELECT id, r FROM t JOIN u ON s >= r"},
        (
            epoch(
                insert("t", (1, "the same first twenty bytes b"), (2, "")),
                insert(
                    "u",
                    ("the same first twenty bytes a",),
                    ("the same first twenty bytes c",),
                    (None,),
                ),
                lt=[
                    (1, "the same first twenty bytes c"),
                    (2, "the same first twenty bytes a"),
                    (2, "the same first twenty bytes c"),
                ],
                ge=[(1, "the same first twenty bytes a")],
            ),
            epoch(
                insert("u", ("the same first twenty bytes b",), ("",)),
                delete("u", ("the same first twenty bytes a",)),
                ge=[(1, "the same first twenty bytes b"), (1, ""), (2, "")],
            ),
        ),
    ),
    Scenario(
        "computed_sides_of_an_inequality",
        _TWO,
        {
            "v": "SELECT id, k FROM t JOIN u ON x + 1 < y * 2",
            "w": "SELECT id, k FROM t JOIN (SELECT k, sum(y) AS total FROM u GROUP BY k) g"
            " ON x < total",
            "p": "SELECT id, k FROM t JOIN u ON length(s) > y",
            "q": "SELECT id, k FROM t JOIN u ON x < y + z",
        },
        (
            epoch(
                insert("t", (1, 5, "abc"), (2, 0, "")),
                insert("u", (1, 3, 1), (2, 1, 9)),
                v=[(2, 1), (2, 2)],
                w=[(2, 1), (2, 2)],
                p=[(1, 2)],
                q=[(1, 2), (2, 1), (2, 2)],
            ),
            epoch(
                insert("u", (1, 3, None)),
                upsert("t", (2, 5, "abcdef")),
                v=[],
                w=[(1, 1), (2, 1)],
                p=[(1, 2), (2, 1), (2, 1), (2, 2)],
                q=[(1, 2), (2, 2)],
            ),
            epoch(delete("u", (1, 3, 1), (2, 1, 9)), w=[], p=[(2, 1)], q=[]),
        ),
    ),
    Scenario(
        "an_inequality_between_three",
        (table("t", "id INT, x INT", "id"), table("u", "k INT, y INT"), table("w", "k INT, z INT")),
        {
            "v": "SELECT id, u.k FROM t JOIN u ON x < y JOIN w ON w.k = u.k AND z > x",
            "p": "SELECT t.id, y, z FROM t, u, w WHERE x < y AND y < z",
        },
        (
            epoch(
                insert("t", (1, 1)),
                insert("u", (7, 2)),
                insert("w", (7, 3), (7, 1)),
                v=[(1, 7)],
                p=[(1, 2, 3)],
            ),
            epoch(
                insert("t", (2, 2)),
                insert("u", (7, 9)),
                upsert("t", (1, 0)),
                v=[(1, 7), (1, 7), (1, 7), (1, 7), (2, 7)],
                p=[(1, 2, 3)],
            ),
            epoch(delete("w", (7, 3)), v=[(1, 7), (1, 7)], p=[]),
        ),
    ),
    Scenario(
        "outer_and_semi_joins_by_an_inequality",
        _TWO,
        {
            "l": "SELECT id, k FROM t LEFT JOIN u ON x < y",
            "f": "SELECT id, k FROM t FULL JOIN u ON x < y",
            "s": "SELECT id FROM t LEFT SEMI JOIN u ON x < y",
            "a": "SELECT id FROM t LEFT ANTI JOIN u ON x < y AND z <> id",
            "e": "SELECT id FROM t WHERE EXISTS (SELECT 1 FROM u WHERE y > x)",
            "n": "SELECT id FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE y > x)",
            "m": "SELECT id, EXISTS (SELECT 1 FROM u WHERE y <= x) AS b FROM t",
            "k": "SELECT id FROM t WHERE EXISTS (SELECT 1 FROM u WHERE k = id AND y > x)",
            "nk": "SELECT id FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE z <=> x AND y < id)",
        },
        (
            epoch(
                insert("t", (1, 5, "a"), (2, None, "b"), (3, 1, "c")),
                l=[(1, None), (2, None), (3, None)],
                f=[(1, None), (2, None), (3, None)],
                s=[],
                a=[(1,), (2,), (3,)],
                e=[],
                n=[(1,), (2,), (3,)],
                m=[(1, False), (2, False), (3, False)],
            ),
            epoch(
                insert("u", (1, 3, 3), (2, None, 0)),
                l=[(1, None), (2, None), (3, 1)],
                f=[(1, None), (2, None), (3, 1), (None, 2)],
                s=[(3,)],
                a=[(1,), (2,), (3,)],
                e=[(3,)],
                n=[(1,), (2,)],
                m=[(1, True), (2, False), (3, False)],
            ),
            epoch(
                insert("u", (3, 9, None), (4, 9, 1)),
                delete("u", (1, 3, 3)),
                l=[(1, 3), (1, 4), (2, None), (3, 3), (3, 4)],
                s=[(1,), (3,)],
                a=[(1,), (2,)],
                e=[(1,), (3,)],
                n=[(2,)],
                m=[(1, False), (2, False), (3, False)],
            ),
            epoch(
                upsert("t", (1, 9, "a")),
                delete("u", (4, 9, 1)),
                l=[(1, None), (2, None), (3, 3)],
                f=[(1, None), (2, None), (3, 3), (None, 2)],
                s=[(3,)],
                e=[(3,)],
                n=[(1,), (2,)],
                m=[(1, True), (2, False), (3, False)],
            ),
        ),
    ),
    Scenario(
        "subqueries_correlated_by_an_inequality_alone",
        _TWO,
        {
            "c": "SELECT id, (SELECT count(*) FROM u WHERE y > x) AS n FROM t",
            "s": "SELECT id, (SELECT sum(z) FROM u WHERE y <= x AND z <> id) AS n FROM t",
            "i": "SELECT id FROM t WHERE id IN (SELECT k FROM u WHERE y > x)",
            "o": "SELECT id FROM t WHERE id NOT IN (SELECT k FROM u WHERE y > x)",
            "f": "SELECT id, (SELECT k FROM u WHERE y > x ORDER BY y, k LIMIT 1) AS next FROM t",
            "a": "SELECT id FROM t WHERE x > ALL (SELECT z FROM u WHERE y < id)",
        },
        (
            epoch(
                insert("t", (1, 5, "a"), (2, 5, "b"), (3, None, "c")),
                c=[(1, 0), (2, 0), (3, 0)],
                s=[(1, None), (2, None), (3, None)],
                i=[],
                o=[(1,), (2,), (3,)],
                f=[(1, None), (2, None), (3, None)],
                a=[(1,), (2,), (3,)],
            ),
            epoch(
                insert("u", (1, 6, 1), (2, 7, 1), (2, 1, 2)),
                c=[(1, 2), (2, 2), (3, 0)],
                s=[(1, 2), (2, None), (3, None)],
                i=[(1,), (2,)],
                o=[(3,)],
                f=[(1, 1), (2, 1), (3, None)],
                a=[(1,), (2,)],
            ),
            epoch(
                delete("u", (1, 6, 1)),
                insert("u", (None, 8, None)),
                c=[(1, 2), (2, 2), (3, 0)],
                i=[(2,)],
                o=[(3,)],
                f=[(1, 2), (2, 2), (3, None)],
            ),
            epoch(
                upsert("t", (2, 7, "b")),
                delete("u", (2, 1, 2)),
                c=[(1, 2), (2, 1), (3, 0)],
                s=[(1, None), (2, 1), (3, None)],
                i=[],
                o=[(3,)],
                f=[(1, 2), (2, None), (3, None)],
            ),
        ),
    ),
)
