"""Traps: aggregates without a state: percentiles, the most frequent, rows of extremes, texts."""

from __future__ import annotations

from decimal import Decimal as D
from math import inf, nan, sqrt

from tests.reference.tables import delete, insert, upsert
from tests.sql.scenario import ERROR, Scenario, epoch, table

SCENARIOS = (
    Scenario(
        "percentiles_of_groups_that_come_and_go",
        (table("t", "id INT, g INT, v INT, p DECIMAL(6,2)", "id"),),
        {"v": "SELECT g, median(v) AS m, percentile(p, 0.25) AS q, count(*) AS n FROM t GROUP BY g",
         "w": "SELECT median(v) AS m, percentile(v, 1) AS hi, percentile(v, 0.0) AS lo FROM t",
         "x": "SELECT g FROM t GROUP BY g HAVING median(v) > 5",
         "y": "SELECT percentile_cont(0.25) WITHIN GROUP (ORDER BY v) AS a,"
              " percentile_cont(0.25) WITHIN GROUP (ORDER BY v DESC) AS b,"
              " percentile_disc(0.5) WITHIN GROUP (ORDER BY v) AS c,"
              " percentile_disc(0.5) WITHIN GROUP (ORDER BY v DESC) AS d FROM t"},
        (
            epoch(v=[], w=[(None, None, None)], x=[], y=[(None, None, None, None)]),
            epoch(insert("t", (1, 1, 5, D("0.50")), (2, 1, 8, D("1.50")), (3, None, 1, None),
                         (4, None, None, None)),
                  v=[(1, 6.5, 0.75, 2), (None, 1.0, None, 2)], w=[(5.0, 8.0, 1.0)], x=[(1,)],
                  y=[(3.0, 6.5, 5.0, 5.0)]),
            epoch(delete("t", (3, None, 1, None)), v=[(1, 6.5, 0.75, 2), (None, None, None, 1)],
                  w=[(6.5, 8.0, 5.0)], y=[(5.75, 7.25, 5.0, 8.0)]),
            epoch(upsert("t", (1, 1, 2, D("0.50")), (4, 2, 6, None)),
                  v=[(1, 5.0, 0.75, 2), (2, 6.0, None, 1)], w=[(6.0, 8.0, 2.0)], x=[(2,)]),
            epoch(upsert("t", (1, 1, 2, D("0.75"))), v=[(1, 5.0, 0.9375, 2), (2, 6.0, None, 1)]),
            epoch(delete("t", (1, 1, 2, None), (2, 1, 8, None), (4, 2, 6, None)), v=[],
                  w=[(None, None, None)], x=[], y=[(None, None, None, None)]),
            epoch(insert("t", (5, 1, 7, D("7.00"))), v=[(1, 7.0, 7.0, 1)], x=[(1,)]),
        ),
    ),
    Scenario(
        "ties_are_broken_by_the_values",
        (table("t", "g INT, s STRING, v INT"),),
        {"v": "SELECT g, mode(s) AS m, mode() WITHIN GROUP (ORDER BY s DESC) AS n FROM t"
              " GROUP BY g",
         "w": "SELECT g, max_by(s, v) AS a, min_by(s, v) AS b, max_by(v, s) AS c FROM t GROUP BY g",
         "x": "SELECT mode(g) AS g, max_by(g, v) AS h FROM t"},
        (
            epoch(v=[], w=[], x=[(None, None)]),
            epoch(insert("t", (1, "b", 3), (1, "a", 3), (1, "b", None), (1, "a", 1), (1, None, 1)),
                  v=[(1, "a", "b")], w=[(1, "a", "a", 3)], x=[(1, 1)]),
            epoch(insert("t", (1, "b", 0), (1, None, 9)), v=[(1, "b", "b")],
                  w=[(1, None, "b", 0)]),
            epoch(insert("t", (1, "c", 9)), v=[(1, "b", "b")], w=[(1, "c", "b", 9)]),
            epoch(delete("t", (1, "c", 9), (1, "b", 3)), v=[(1, "a", "b")], w=[(1, None, "b", 0)]),
            epoch(insert("t", (2, None, None), (2, "z", None)), v=[(1, "a", "b"), (2, "z", "z")],
                  w=[(1, None, "b", 0), (2, None, None, None)], x=[(1, 1)]),
            epoch(insert("t", (2, "long text with a common beginning 2", 1),
                         (2, "long text with a common beginning 1", 1)),
                  v=[(1, "a", "b"), (2, "long text with a common beginning 1", "z")],
                  w=[(1, None, "b", 0), (2, "long text with a common beginning 1",
                                         "long text with a common beginning 1", None)]),
        ),
    ),
    Scenario(
        "texts_in_order",
        (table("t", "id INT, g INT, s STRING, v INT", "id"),),
        {"v": "SELECT g, listagg(s, ', ') WITHIN GROUP (ORDER BY v DESC) AS a,"
              " string_agg(s) WITHIN GROUP (ORDER BY s) AS b FROM t GROUP BY g",
         "w": "SELECT listagg(DISTINCT s, '|') WITHIN GROUP (ORDER BY s DESC) AS a,"
              " listagg(v, '<') WITHIN GROUP (ORDER BY v, s) AS b,"
              " listagg(s, '+') WITHIN GROUP (ORDER BY v NULLS LAST)"
              " FILTER (WHERE g > 1 OR v IS NULL) AS c FROM t"},
        (
            epoch(v=[], w=[(None, None, None)]),
            epoch(insert("t", (1, 1, "b", 2), (2, 1, "a", 2), (3, 1, None, 3), (4, 1, "b", None)),
                  v=[(1, "a, b, b", "abb")], w=[("b|a", "2<2<3", "b")]),
            epoch(upsert("t", (2, 2, "ü", 1), (3, 1, "", 3)),
                  v=[(1, ", b, b", "bb"), (2, "ü", "ü")], w=[("ü|b|", "1<2<3", "ü+b")]),
            epoch(delete("t", (1, 1, "b", 2), (4, 1, "b", None)), v=[(1, "", ""), (2, "ü", "ü")],
                  w=[("ü|", "1<3", "ü")]),
            epoch(upsert("t", (3, 1, None, 3)), v=[(1, None, None), (2, "ü", "ü")]),
        ),
    ),
    Scenario(
        "bits_and_distinct_values",
        (table("t", "g INT, v BIGINT, w INT"),),
        {"v": "SELECT g, bit_and(v) AS a, bit_or(v) AS o, bit_xor(v) AS x, bit_xor(DISTINCT v) AS d"
              " FROM t GROUP BY g",
         "w": "SELECT median(DISTINCT w) AS m, count(DISTINCT w) AS n, sum(w) AS s, median(w) AS k"
              " FROM t",
         "x": "SELECT g, bit_or(v) FILTER (WHERE v < 0) AS neg FROM t GROUP BY g"},
        (
            epoch(v=[], w=[(None, 0, None, None)]),
            epoch(insert("t", (1, 6, 1), (1, 3, 1), (1, 3, 4), (2, -1, None)),
                  v=[(1, 2, 7, 6, 5), (2, -1, -1, -1, -1)], w=[(2.5, 2, 6, 1.0)],
                  x=[(1, None), (2, -1)]),
            epoch(delete("t", (1, 3, 1)), v=[(1, 2, 7, 5, 5), (2, -1, -1, -1, -1)],
                  w=[(2.5, 2, 5, 2.5)]),
            epoch(delete("t", (1, 3, 4)), insert("t", (2, None, 8)),
                  v=[(1, 6, 6, 6, 6), (2, -1, -1, -1, -1)], w=[(4.5, 2, 9, 4.5)]),
        ),
    ),
    Scenario(
        "moments_of_pairs",
        (table("t", "id INT, y DOUBLE, x INT", "id"),),
        {"v": "SELECT corr(y, x) AS r, covar_pop(y, x) AS p, covar_samp(y, x) AS s,"
              " regr_r2(y, x) AS q FROM t",
         "w": "SELECT regr_slope(y, x) AS m, regr_intercept(y, x) AS b, regr_count(y, x) AS n,"
              " regr_avgx(y, x) AS ax, regr_avgy(y, x) AS ay FROM t",
         "x": "SELECT regr_sxx(y, x) AS a, regr_syy(y, x) AS b, regr_sxy(y, x) AS c,"
              " skewness(y) AS s, kurtosis(y) AS k FROM t"},
        (
            epoch(v=[(None, None, None, None)], w=[(None, None, 0, None, None)],
                  x=[(None, None, None, None, None)]),
            epoch(insert("t", (1, 1.0, 2), (2, None, 9), (3, 7.0, None)),
                  v=[(None, 0.0, None, None)], w=[(None, None, 1, 2.0, 1.0)],
                  x=[(0.0, 0.0, 0.0, 0.0, -2.0)]),
            epoch(upsert("t", (2, 5.0, 4)), v=[(1.0, 2.0, 4.0, 1.0)],
                  w=[(2.0, -3.0, 2, 3.0, 3.0)], x=[(2.0, 8.0, 4.0, -0.38180177416060623, -1.5)]),
            epoch(upsert("t", (3, 1.0, 8)), v=[(-sqrt(1 / 28), -8 / 9, -4 / 3, 1 / 28)]),
            epoch(upsert("t", (1, 1.0, 4), (3, 7.0, 4)), v=[(None, 0.0, 0.0, None)],
                  w=[(None, None, 3, 4.0, 13 / 3)]),
            epoch(upsert("t", (1, 5.0, 1), (3, 5.0, 2)), v=[(None, 0.0, 0.0, 1.0)],
                  w=[(0.0, 5.0, 3, 7 / 3, 5.0)]),
            epoch(upsert("t", (1, nan, 1)), v=[(nan, nan, nan, nan)]),
            epoch(delete("t", (1, None, None), (2, None, None), (3, None, None)),
                  v=[(None, None, None, None)], x=[(None, None, None, None, None)]),
        ),
    ),
    Scenario(
        "percentiles_of_odd_doubles",
        (table("t", "f DOUBLE"),),
        {"v": "SELECT median(f) AS m, percentile(f, 0.75) AS q, mode(f) AS o, max_by(f, f) AS x"
              " FROM t"},
        (
            epoch(insert("t", (-0.0,), (0.0,), (1.0,)), v=[(0.0, 0.5, 0.0, 1.0)]),
            epoch(insert("t", (nan,), (inf,)), v=[(1.0, inf, 0.0, nan)]),
            epoch(insert("t", (nan,), (nan,)), v=[(inf, nan, nan, nan)]),
        ),
    ),
    Scenario(
        "groups_by_expressions_and_correlated",
        (table("t", "id INT, g INT, v INT", "id"), table("u", "k INT, lim INT", "k")),
        {"v": "SELECT id % 2 AS odd, median(v + 1) AS m, max_by(id, v) AS b FROM t GROUP BY id % 2",
         "w": "SELECT k, (SELECT median(v) FROM t WHERE t.g = u.k) AS m,"
              " (SELECT regr_count(v, id) FROM t WHERE t.g = u.k) AS n FROM u",
         "x": "SELECT k FROM u WHERE lim > (SELECT median(v) FROM t WHERE t.g = u.k)",
         "y": "SELECT id FROM t WHERE v > (SELECT median(v) FROM t)",
         "z": "SELECT k, m FROM u JOIN (SELECT g, mode(v) AS m FROM t GROUP BY g) ON g = k"},
        (
            epoch(insert("u", (1, 5), (2, 5), (3, None)), v=[],
                  w=[(1, None, 0), (2, None, 0), (3, None, 0)], x=[], y=[], z=[]),
            epoch(insert("t", (1, 1, 4), (2, 1, 5), (3, 2, 9), (4, None, 1)),
                  v=[(1, 7.5, 3), (0, 4.0, 2)], w=[(1, 4.5, 2), (2, 9.0, 1), (3, None, 0)],
                  x=[(1,)], y=[(2,), (3,)], z=[(1, 4), (2, 9)]),
            epoch(upsert("t", (2, 2, 5), (3, 2, 3)), v=[(1, 4.5, 1), (0, 4.0, 2)],
                  w=[(1, 4.0, 1), (2, 4.0, 2), (3, None, 0)], x=[(1,), (2,)], y=[(1,), (2,)],
                  z=[(1, 4), (2, 3)]),
            epoch(delete("t", (1, 1, 4)), w=[(1, None, 0), (2, 4.0, 2), (3, None, 0)], x=[(2,)],
                  y=[(2,)], z=[(2, 3)]),
        ),
    ),
    Scenario(
        "a_row_that_fails_below_a_median",
        (table("t", "id INT, g INT, v INT", "id"),),
        {"v": "SELECT g, median(10 / v) AS m FROM t GROUP BY g",
         "w": "SELECT g, median(10 / v) FILTER (WHERE v <> 0) AS m FROM t GROUP BY g"},
        (
            epoch(insert("t", (1, 1, 5), (2, 1, 2)), v=[(1, 3.5)], w=[(1, 3.5)]),
            epoch(upsert("t", (2, 1, 0)), v=ERROR, w=[(1, 2.0)]),
            epoch(upsert("t", (2, 1, 10)), v=[(1, 1.5)], w=[(1, 1.5)]),
        ),
    ),
    Scenario(
        "a_median_of_extremes_and_an_extreme_of_medians",
        (table("t", "id INT, g INT, h INT, v INT", "id"),),
        {"v": "SELECT h, median(m) AS m FROM (SELECT g, h, max(v) AS m FROM t GROUP BY g, h)"
              " GROUP BY h",
         "w": "SELECT h, max(m) AS m, mode(m) AS o FROM (SELECT g, h, median(v) AS m FROM t"
              " GROUP BY g, h) GROUP BY h"},
        (
            epoch(insert("t", (1, 1, 1, 4), (2, 1, 1, 8), (3, 2, 1, 2), (4, 2, 2, 6)),
                  v=[(1, 5.0), (2, 6.0)], w=[(1, 6.0, 2.0), (2, 6.0, 6.0)]),
            epoch(delete("t", (2, 1, 1, 8)), v=[(1, 3.0), (2, 6.0)],
                  w=[(1, 4.0, 2.0), (2, 6.0, 6.0)]),
            epoch(upsert("t", (4, 3, 1, 2)), v=[(1, 2.0)], w=[(1, 4.0, 2.0)]),
        ),
    ),
)  # fmt: skip
