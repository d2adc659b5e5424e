"""Windows whose answers are recorded from Spark: also what DuckDB cannot say, or says otherwise.

`python -m tests.sql.window_cases` asks Spark and rewrites `window_answers.json`: of each query the
names and types of its columns, and its rows at both moments. Orders are total where a value hangs
on ties, which Spark leaves open.
"""

from __future__ import annotations

import datetime
import json
import math
from decimal import Decimal
from pathlib import Path
from typing import Any

ANSWERS = Path(__file__).parent / "window_answers.json"

COLUMNS = "id INT, g STRING, x INT, p DECIMAL(7,2), f DOUBLE, d DATE, ts TIMESTAMP"

_DAY = datetime.date(2024, 1, 29)
_NOON = datetime.datetime(2024, 2, 28, 12, tzinfo=datetime.timezone.utc)


def _row(i: int, shift: int = 0) -> tuple[Any, ...]:
    k = (7 * i + shift) % 23
    return (
        i,
        None if i % 11 == 5 else "abc"[k % 3],
        None if k % 7 == 3 else k % 5 - 1,
        None if k % 6 == 4 else Decimal(k * k % 97) / 4,
        None if k % 5 == 2 else math.inf if k == 20 else k / 8 - 1,
        None if k % 9 == 1 else _DAY + datetime.timedelta(days=5 * k % 37),
        None if k % 8 == 1 else _NOON + datetime.timedelta(hours=7 * k % 50),
    )


#: The rows at each moment.
MOMENTS = (
    tuple(_row(i) for i in range(24)),
    tuple(_row(i, 9 if i % 4 == 0 else 0) for i in range(30) if i % 5),
)

_TEXT = """
SELECT id, row_number() OVER (PARTITION BY g ORDER BY id) AS a, ntile(4) OVER (PARTITION BY g
ORDER BY id) AS b, lag(p) OVER (PARTITION BY g ORDER BY id) AS c, lead(x, 2, 7.6) OVER
(PARTITION BY g ORDER BY id) AS d, lag(f, -1) IGNORE NULLS OVER (PARTITION BY g ORDER BY id) AS
e, lead(g, 0) OVER (PARTITION BY g ORDER BY id) AS h FROM t;

SELECT id, rank() OVER (PARTITION BY g ORDER BY x) AS a, dense_rank() OVER (PARTITION BY g ORDER
BY x) AS b, percent_rank() OVER (PARTITION BY g ORDER BY x) AS c, cume_dist() OVER (PARTITION BY
g ORDER BY x) AS d FROM t;

SELECT id, first_value(x) OVER (PARTITION BY g ORDER BY id) AS a, last_value(p) IGNORE NULLS
OVER (PARTITION BY g ORDER BY id) AS b, nth_value(d, 2) IGNORE NULLS OVER (PARTITION BY g ORDER
BY id) AS c, first_value(f, true) OVER (PARTITION BY g ORDER BY id ROWS BETWEEN 1 FOLLOWING AND
3 FOLLOWING) AS e FROM t;

SELECT id, sum(x) OVER w AS a, sum(p) OVER w AS b, sum(f) OVER w AS c, avg(x) OVER w AS d,
avg(p) OVER w AS e, count(f) OVER w AS h, min(d) OVER w AS i, max(g) OVER w AS j, stddev(x) OVER
w AS k, var_pop(p) OVER w AS l FROM t WINDOW w AS (PARTITION BY g ORDER BY id ROWS BETWEEN 2
PRECEDING AND 1 FOLLOWING);

SELECT id, corr(x, f) OVER w AS b, bit_or(x) OVER w AS c, kurtosis(x)
OVER w AS d, regr_slope(f, x) OVER w AS e FROM t WINDOW w AS (PARTITION BY g ORDER BY id ROWS
UNBOUNDED PRECEDING);

SELECT id, median(x) OVER (PARTITION BY g) AS a, percentile(p, 0.3) OVER (PARTITION BY g) AS b,
count_if(x > 1) OVER (ORDER BY id) AS c, bool_and(x > -1) OVER (ORDER BY id ROWS 3 PRECEDING) AS
e FROM t;

SELECT id, count(*) OVER (ORDER BY x RANGE BETWEEN 1 PRECEDING AND CURRENT ROW) AS a, sum(x)
OVER (ORDER BY x DESC RANGE BETWEEN CURRENT ROW AND 2 FOLLOWING) AS b, count(*) OVER (ORDER BY p
RANGE BETWEEN 1.5 PRECEDING AND 2 FOLLOWING) AS c, sum(x) OVER (ORDER BY f NULLS LAST RANGE
BETWEEN 0.25 PRECEDING AND 0.25 FOLLOWING) AS d, count(*) OVER (ORDER BY x RANGE BETWEEN
UNBOUNDED PRECEDING AND 1 FOLLOWING) AS e FROM t;

SELECT id, count(*) OVER (ORDER BY d RANGE BETWEEN INTERVAL 7 DAYS PRECEDING AND CURRENT ROW) AS
a, sum(x) OVER (ORDER BY d DESC RANGE INTERVAL 1 MONTH PRECEDING) AS b, count(*) OVER (ORDER BY
d RANGE BETWEEN 3 PRECEDING AND 3 FOLLOWING) AS c, count(*) OVER (ORDER BY ts RANGE BETWEEN
INTERVAL 90 MINUTES PRECEDING AND INTERVAL 1440 MINUTES FOLLOWING) AS e FROM t;

SELECT g, sum(x) AS s, rank() OVER (ORDER BY sum(x) DESC) AS r, sum(sum(x)) OVER () AS a,
count(*) * 100 / sum(count(*)) OVER () AS share FROM t GROUP BY g;

SELECT g, x, grouping(g) AS h, count(*) AS c, rank() OVER (PARTITION BY grouping(g) +
grouping(x) ORDER BY count(*), g, x) AS r FROM t GROUP BY CUBE (g, x);

SELECT id, g FROM t QUALIFY row_number() OVER (PARTITION BY g ORDER BY p DESC, id) <= 2 AND
count(*) OVER (PARTITION BY g) > 1;

SELECT DISTINCT g, max(x) OVER (PARTITION BY g) AS m, count(*) OVER (PARTITION BY g, x) AS c
FROM t WHERE id > 2;

SELECT id, (SELECT max(r) FROM (SELECT rank() OVER (ORDER BY x) AS r FROM t u WHERE u.g = t.g)
q) AS m FROM t
"""
QUERIES = tuple(" ".join(query.split()) for query in _TEXT.split(";"))


def plain(value: Any) -> Any:
    """A value as JSON has it."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, datetime.datetime):
        moment = value if value.tzinfo else value.replace(tzinfo=datetime.timezone.utc)
        return moment.astimezone(datetime.timezone.utc).isoformat()
    return str(value) if isinstance(value, (Decimal, datetime.date)) else value


def main() -> None:
    from sqlview import start_spark

    spark = start_spark()
    answers: list[dict[str, Any]] = []
    spark.conf.set("spark.sql.shuffle.partitions", "1")
    frames = [spark.createDataFrame(list(m), COLUMNS).coalesce(1).cache() for m in MOMENTS]
    for query in QUERIES:
        rows = []
        for moment in frames:
            moment.createOrReplaceTempView("t")
            frame = spark.sql(query)
            found = [[plain(v) for v in row] for row in frame.collect()]
            rows.append(sorted(found, key=repr))
        kinds = [f.dataType.simpleString().upper() for f in frame.schema.fields]
        answers.append({"query": query, "types": kinds, "rows": rows})
    lines = ",\n".join(json.dumps(a, ensure_ascii=False) for a in answers)
    ANSWERS.write_text(f"[\n{lines}\n]\n", encoding="utf-8")


if __name__ == "__main__":
    main()
