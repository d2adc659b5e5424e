"""PIVOT and UNPIVOT: `python -m tests.sql.pivot_cases` records what Spark makes of them.

The answers (names and types of columns, and the rows, or the class of the error) go to
pivot_answers.json, which test_pivots reads without Spark.
"""

# ruff: noqa: E501 - a table of data

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

ANSWERS = Path(__file__).with_name("pivot_answers.json")
COLUMNS = "id INT, g STRING, k STRING, j INT, v INT, w INT, s STRING"
ROWS: tuple[tuple[Any, ...], ...] = (
    (1, "x", "a", 1, 10, 1, "p"),
    (2, "x", "b", 1, 5, None, "q"),
    (3, "y", "a", 2, 7, 2, None),
    (4, "y", "c", 1, 1, 1, "r"),
    (5, None, None, 1, 2, 3, "z"),
    (6, "x", "a", 2, None, None, "y"),
)
_T = "(SELECT g, k, v FROM t)"
QUERIES = (
    f"SELECT * FROM {_T} PIVOT (sum(v) FOR k IN ('a', 'b'))",
    f"SELECT * FROM {_T} PIVOT (sum(v) AS s FOR k IN ('a' AS x, 'b', NULL AS n))",
    f"SELECT * FROM {_T} PIVOT (count(*) FOR k IN ('a', 'b', 'zz'))",
    f"SELECT * FROM {_T} PIVOT (sum(v) AS s, count(v) FOR k IN ('a' AS x, 'b'))",
    f"SELECT g, a + 1 AS a FROM {_T} AS i PIVOT (max(v) FOR k IN ('a', 'b')) AS p WHERE b IS NOT NULL",
    "SELECT * FROM (SELECT g, k, j, v FROM t) PIVOT (sum(v) FOR (k, j) IN (('a', 1) AS x, ('b', 1), ('a', 2)))",
    "SELECT * FROM (SELECT k, v FROM t) PIVOT (sum(v) AS s, avg(v) AS m FOR k IN ('a', 'c'))",
    "SELECT * FROM (SELECT g, j, s, v FROM t) PIVOT (max(s) AS s, count(v) AS n FOR j IN (1, 2, 3))",
    "SELECT * FROM (SELECT g, j, v FROM t) PIVOT (count(v) FILTER (WHERE v > 5) FOR j IN (1, -2))",
    "SELECT * FROM t PIVOT (sum(v) FOR k IN ('a', 'b'))",
    "SELECT * FROM t UNPIVOT (n FOR c IN (v, w AS ww))",
    "SELECT id, c, n FROM t UNPIVOT INCLUDE NULLS (n FOR c IN (v, w))",
    "SELECT u.c, sum(u.n) AS n FROM t UNPIVOT (n FOR c IN (v, w)) AS u GROUP BY u.c",
    "SELECT * FROM (SELECT id, v, w, j, s, g FROM t) UNPIVOT ((n, x) FOR c IN ((v, s) AS a, (w, g)))",
    "SELECT * FROM t UNPIVOT (n FOR c IN (v, s))",
    "SELECT * FROM (SELECT g, k, v FROM t) PIVOT (v FOR k IN ('a'))",
    "SELECT * FROM (SELECT g, k, v FROM t) PIVOT (sum(v) FOR k IN (concat('a', 'b')))",
)  # fmt: skip


def main() -> None:
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    session = (
        SparkSession.builder.master("local[1]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "1")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    answers: dict[str, Any] = {}
    try:
        session.createDataFrame(list(ROWS), COLUMNS).coalesce(1).createOrReplaceTempView("t")
        for query in QUERIES:
            try:
                frame = session.sql(query)
                rows = [list(row) for row in frame.collect()]
            except PySparkException as error:
                answers[query] = {"error": error.getCondition()}
                continue
            columns = [[f.name, f.dataType.simpleString().upper()] for f in frame.schema]
            answers[query] = {"columns": columns, "rows": sorted(rows, key=repr)}
        recorded = {"spark": session.version, "answers": answers}
    finally:
        session.stop()
    ANSWERS.write_text(json.dumps(recorded, indent=0, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
