"""Traps: scalar functions of the class, and views in time."""

from __future__ import annotations

from datetime import date
from decimal import Decimal as D

from tests.reference.tables import delete, insert, upsert
from tests.sql.scenario import Scenario, epoch, table

SCENARIOS = (
    Scenario(
        "like_with_escape",
        (table("t", "s STRING"),),
        {"v": "SELECT s FROM t WHERE s LIKE 'a!_%' ESCAPE '!'",
         "w": "SELECT s FROM t WHERE s LIKE 'a\\\\_%'",
         "x": "SELECT s FROM t WHERE s NOT LIKE '%b%'",
         "y": "SELECT s FROM t WHERE s LIKE '_'"},
        (
            epoch(insert("t", ("a_b",), ("ab",), ("A_",), (None,), ("",), ("ü",)),
                  v=[("a_b",)], w=[("a_b",)], x=[("A_",), ("",), ("ü",)], y=[("ü",)]),
            epoch(delete("t", ("a_b",)), insert("t", ("a_",), ("a\nb",)),
                  v=[("a_",)], w=[("a_",)], x=[("A_",), ("",), ("ü",), ("a_",)]),
        ),
    ),
    Scenario(
        "decimals_of_different_scales",
        (table("t", "id INT, a DECIMAL(22,6), b DECIMAL(6,2), n DECIMAL(18,0)", "id"),),
        {"v": "SELECT id, a + b AS x, b - a AS y, n - a AS z FROM t",
         "w": "SELECT id FROM t WHERE a + b > n - b",
         "s": "SELECT sum(a - n) AS s, max(n + b) AS m FROM t"},
        (
            epoch(insert("t", (1, D("1.123456"), D("2.25"), D("7")),
                         (2, D("10"), D("-2.25"), None)),
                  v=[(1, D("3.373456"), D("1.126544"), D("5.876544")),
                     (2, D("7.750000"), D("-12.250000"), None)],
                  w=[], s=[(D("-5.876544"), D("9.25"))]),
            epoch(upsert("t", (2, D("10"), D("-2.25"), D("-8"))),
                  w=[(2,)], s=[(D("12.123456"), D("9.25"))]),
            epoch(delete("t", (1, D("1.123456"), D("2.25"), D("7"))),
                  v=[(2, D("7.750000"), D("-12.250000"), D("-18.000000"))],
                  s=[(D("18.000000"), D("-10.25"))]),
        ),
    ),
    Scenario(
        "date_intervals_at_month_ends",
        (table("t", "id INT, d DATE", "id"),),
        {"v": "SELECT id, d + INTERVAL '1' MONTH AS m, d - INTERVAL '1' DAY AS y FROM t",
         "w": "SELECT id FROM t WHERE d >= DATE '1995-12-31' + INTERVAL '2' MONTH"
              " AND d < DATE '1998-12-01' - INTERVAL '90' DAY",
         "x": "SELECT d + INTERVAL '1' YEAR AS y FROM t"},
        (
            epoch(insert("t", (1, date(1996, 1, 31)), (2, date(1995, 12, 31)), (3, None)),
                  v=[(1, date(1996, 2, 29), date(1996, 1, 30)),
                     (2, date(1996, 1, 31), date(1995, 12, 30)), (3, None, None)],
                  w=[], x=[(date(1997, 1, 31),), (date(1996, 12, 31),), (None,)]),
            epoch(upsert("t", (3, date(1996, 2, 29))),
                  w=[(3,)], x=[(date(1997, 1, 31),), (date(1996, 12, 31),), (date(1997, 2, 28),)]),
            epoch(upsert("t", (3, date(1998, 9, 2)), (1, date(1998, 9, 1))), w=[(1,)]),
        ),
    ),
    Scenario(
        "extract_and_groups_by_parts_of_dates",
        (table("t", "id INT, d DATE", "id"),),
        {"v": "SELECT extract(YEAR FROM d) AS y, extract(MONTH FROM d) AS m, count(*) AS n"
              " FROM t GROUP BY extract(YEAR FROM d), extract(MONTH FROM d)",
         "w": "SELECT id, year(d) AS y, day(d) AS k FROM t WHERE month(d) = 2"},
        (
            epoch(insert("t", (1, date(1996, 2, 29)), (2, date(1996, 2, 1)), (3, None)),
                  v=[(1996, 2, 2), (None, None, 1)], w=[(1, 1996, 29), (2, 1996, 1)]),
            epoch(upsert("t", (1, date(1969, 12, 31)), (3, date(1900, 2, 28))),
                  v=[(1996, 2, 1), (1969, 12, 1), (1900, 2, 1)],
                  w=[(2, 1996, 1), (3, 1900, 28)]),
        ),
    ),
    Scenario(
        "case_coalesce_between_in",
        (table("t", "id INT, a INT, s STRING", "id"),),
        {"v": "SELECT id, CASE WHEN a > 2 THEN 'hi' WHEN a IS NULL THEN 'no' END AS c,"
              " coalesce(s, 'none') AS s FROM t",
         "w": "SELECT id FROM t WHERE a BETWEEN 1 AND 3 AND s IN ('x', 'y')",
         "x": "SELECT id FROM t WHERE s NOT IN ('x', 'y')",
         "y": "SELECT CASE s WHEN 'x' THEN 1 WHEN 'y' THEN 2 ELSE 0 END AS k, count(*) AS n"
              " FROM t GROUP BY CASE s WHEN 'x' THEN 1 WHEN 'y' THEN 2 ELSE 0 END"},
        (
            epoch(insert("t", (1, 3, "x"), (2, None, None), (3, 1, "z")),
                  v=[(1, "hi", "x"), (2, "no", "none"), (3, None, "z")],
                  w=[(1,)], x=[(3,)], y=[(1, 1), (0, 2)]),
            epoch(upsert("t", (3, 1, "y"), (1, 4, None)),
                  v=[(1, "hi", "none"), (2, "no", "none"), (3, None, "y")],
                  w=[(3,)], x=[], y=[(2, 1), (0, 2)]),
        ),
    ),
    Scenario(
        "arithmetic_and_casts_with_sparks_types",
        (table("t", "i INT, b BIGINT, p DECIMAL(6,2), f DOUBLE"),),
        {"v": "SELECT i + b AS x, i * p AS y, p + f AS z, -p AS n, b % 3 AS m FROM t",
         "w": "SELECT cast(i AS DECIMAL(8,3)) AS d, cast(p AS DOUBLE) AS f, cast(i AS BIGINT) AS b,"
              " cast(p AS DECIMAL(6,1)) AS r FROM t",
         "x": "SELECT i FROM t WHERE i = p OR i < f"},
        (
            epoch(insert("t", (2, 5, D("2.00"), 0.5), (-1, -5, D("-0.15"), None)),
                  v=[(7, D("4.00"), 2.5, D("-2.00"), 2), (-6, D("0.15"), None, D("0.15"), -2)],
                  w=[(D("2.000"), 2.0, 2, D("2.0")), (D("-1.000"), -0.15, -1, D("-0.2"))],
                  x=[(2,)]),
            epoch(delete("t", (-1, -5, D("-0.15"), None)), insert("t", (0, 0, D("0.05"), 1.0)),
                  w=[(D("2.000"), 2.0, 2, D("2.0")), (D("0.000"), 0.05, 0, D("0.1"))],
                  x=[(2,), (0,)]),
        ),
    ),
    Scenario(
        "names_in_any_case",
        (table("Orders", "Id INT, Amount INT", "Id"),),
        {"V": "SELECT ORDERS.id, aMount FROM orders WHERE Amount > 1",
         "w": "SELECT o.ID FROM ORDERS o JOIN v ON o.id = V.iD"},
        (
            epoch(insert("Orders", (1, 1), (2, 2)), V=[(2, 2)], w=[(2,)]),
            epoch(upsert("Orders", (1, 5)), V=[(1, 5), (2, 2)], w=[(1,), (2,)]),
        ),
    ),
    Scenario(
        "strings_are_compared_by_case_and_spaces",
        (table("t", "s STRING"), table("u", "s STRING, n INT")),
        {"v": "SELECT t.s, u.n FROM t JOIN u ON t.s = u.s",
         "w": "SELECT s, count(*) AS n FROM t GROUP BY s"},
        (
            epoch(insert("t", ("a",), ("A",), ("a ",), ("",)),
                  insert("u", ("a", 1), ("a ", 2), ("", 3)),
                  v=[("a", 1), ("a ", 2), ("", 3)],
                  w=[("a", 1), ("A", 1), ("a ", 1), ("", 1)]),
            epoch(insert("t", ("ab", ), ("a\0",)), insert("u", ("a\0", 4)),
                  v=[("a", 1), ("a ", 2), ("", 3), ("a\0", 4)]),
        ),
    ),
    Scenario(
        "new_view_on_live_arrangements_sees_all_of_one_epoch",
        (table("a", "id INT, k INT", "id"), table("b", "k INT, g INT")),
        {"v": "SELECT a.id, b.g FROM a JOIN b ON a.k = b.k",
         "n": "SELECT g, count(*) AS n FROM b GROUP BY g"},
        (
            epoch(insert("a", (1, 1), (2, 2)), insert("b", (1, 5), (2, 5))),
            epoch(delete("a", (1, 1)), upsert("a", (2, 1)), insert("b", (1, 6)),
                  v=[(2, 5), (2, 6)], n=[(5, 2), (6, 1)]),
        ),
        late={
            "same": "SELECT a.id, b.g FROM a JOIN b ON a.k = b.k",
            "counted": "SELECT a.k, count(*) AS n FROM a JOIN b ON a.k = b.k GROUP BY a.k",
            "over": "SELECT v.id, n.n FROM v JOIN n ON v.g = n.g",
        },
    ),
    Scenario(
        "a_cast_to_char_neither_pads_nor_cuts",
        (table("t", "id INT, s STRING", "id"),),
        {"v": "SELECT id, cast(s AS CHAR(3)) AS c, length(cast(s AS CHAR(3))) AS n FROM t",
         "w": "SELECT id FROM t WHERE cast(s AS CHAR(3)) = 'a'",
         "x": "SELECT cast(s AS VARCHAR(1)) AS c, count(*) AS n FROM t"
              " GROUP BY cast(s AS VARCHAR(1))"},
        (
            epoch(insert("t", (1, "a"), (2, "a  "), (3, "abcd")),
                  v=[(1, "a", 1), (2, "a  ", 3), (3, "abcd", 4)], w=[(1,)],
                  x=[("a", 1), ("a  ", 1), ("abcd", 1)]),
            epoch(upsert("t", (2, "a")), w=[(1,), (2,)], x=[("a", 2), ("abcd", 1)]),
            epoch(delete("t", (1, "a")), upsert("t", (3, None)), v=[(2, "a", 1), (3, None, None)],
                  w=[(2,)], x=[("a", 1), (None, 1)]),
        ),
    ),
    Scenario(
        "months_taken_away_and_dates_that_meet_at_month_ends",
        (table("t", "id INT, d DATE", "id"),),
        {"v": "SELECT id, d - INTERVAL '1' MONTH AS m, d - INTERVAL '1' YEAR AS y,"
              " (d + INTERVAL '1' MONTH) - INTERVAL '1' MONTH AS back FROM t",
         "g": "SELECT d + INTERVAL '1' MONTH AS m, count(*) AS n FROM t"
              " GROUP BY d + INTERVAL '1' MONTH",
         "j": "SELECT t.id, u.id AS other FROM t JOIN t u ON t.d + INTERVAL '1' MONTH = u.d"},
        (
            epoch(insert("t", (1, date(2024, 1, 31)), (2, date(2024, 1, 30)),
                         (3, date(2024, 3, 31))),
                  v=[(1, date(2023, 12, 31), date(2023, 1, 31), date(2024, 1, 29)),
                     (2, date(2023, 12, 30), date(2023, 1, 30), date(2024, 1, 29)),
                     (3, date(2024, 2, 29), date(2023, 3, 31), date(2024, 3, 30))],
                  g=[(date(2024, 2, 29), 2), (date(2024, 4, 30), 1)], j=[]),
            epoch(upsert("t", (3, date(2024, 2, 29))),
                  v=[(1, date(2023, 12, 31), date(2023, 1, 31), date(2024, 1, 29)),
                     (2, date(2023, 12, 30), date(2023, 1, 30), date(2024, 1, 29)),
                     (3, date(2024, 1, 29), date(2023, 2, 28), date(2024, 2, 29))],
                  g=[(date(2024, 2, 29), 2), (date(2024, 3, 29), 1)], j=[(1, 3), (2, 3)]),
            epoch(delete("t", (1, None)), g=[(date(2024, 2, 29), 1), (date(2024, 3, 29), 1)],
                  j=[(2, 3)]),
            epoch(upsert("t", (2, None)),
                  v=[(2, None, None, None),
                     (3, date(2024, 1, 29), date(2023, 2, 28), date(2024, 2, 29))],
                  g=[(None, 1), (date(2024, 3, 29), 1)], j=[]),
        ),
    ),
    Scenario(
        "division_of_integers_and_of_decimals",
        (table("t", "id INT, i INT, p DECIMAL(6,2)", "id"),),
        {"v": "SELECT id, i / 3 AS a, p / 3 AS b, p / i AS c, i DIV 2 AS d FROM t WHERE i <> 0"},
        (
            epoch(insert("t", (1, 7, D("1.00")), (2, -7, D("-0.05"))),
                  v=[(1, 7 / 3, D("0.333333"), D("0.1428571428571"), 3),
                     (2, -7 / 3, D("-0.016667"), D("0.0071428571429"), -3)]),
            epoch(upsert("t", (1, 2, D("1.00"))), delete("t", (2, 0, None)),
                  v=[(1, 2 / 3, D("0.333333"), D("0.5000000000000"), 1)]),
            epoch(upsert("t", (1, 2, None)), v=[(1, 2 / 3, None, None, 1)]),
            epoch(upsert("t", (1, 0, D("1.00"))), v=[]),
        ),
    ),
)  # fmt: skip
