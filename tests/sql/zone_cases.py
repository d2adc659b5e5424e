"""Rows and expressions that depend on the session's time zone, and what Spark makes of them.

python -m tests.sql.zone_cases records zone_answers.json, which test_zones reads without Spark.
"""

from __future__ import annotations

import datetime
import json
import random
from pathlib import Path
from typing import Any

import pyarrow as pa

from planner.calculus import zones

ANSWERS = Path(__file__).with_name("zone_answers.json")
ZONES = (
    "Europe/Paris", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe", "America/Toronto",
    "Pacific/Apia", "+05:45", "UTC",
)  # fmt: skip
TABLE = "CREATE TABLE t (id INT, at TIMESTAMP, clock TIMESTAMP_NTZ, day DATE, text STRING)"
SCHEMA = pa.schema(
    [
        ("id", pa.int32()), ("at", pa.timestamp("us", "UTC")), ("clock", pa.timestamp("us")),
        ("day", pa.date32()), ("text", pa.string()),
    ]
)  # fmt: skip
UNITS = "year quarter month week day hour minute second".split()
EXPRESSIONS = (
    "at", "clock", "hour(at)", "minute(at)", "second(at)", "extract(second from at)",
    "hour(clock)", "hour(text)", "minute(day)", "cast(at as string)", "cast(clock as string)",
    "concat(at, '|', day)", "cast(at as date)", "cast(clock as date)",
    "cast(at as timestamp_ntz)", "cast(clock as timestamp)", "cast(day as timestamp)",
    "cast(day as timestamp_ntz)", "cast(text as timestamp)", "cast(text as timestamp_ntz)",
    "try_cast(text as timestamp)", "to_timestamp(text)", "to_date(at)", "cast(at as bigint)",
    "cast(cast(at as double) as timestamp)", "year(at)", "quarter(at)", "month(at)", "day(at)",
    "dayofweek(at)", "dayofyear(at)", "weekofyear(at)", "weekday(at)", "last_day(at)",
    "next_day(at, 'MON')", "add_months(at, 1)", "date_add(at, 1)", "datediff(at, clock)",
    "trunc(at, 'MM')", "unix_date(cast(at as date))", "dayname(at)", "dayname(day)",
    "monthname(clock)",
    *(f"date_trunc('{unit}', at)" for unit in UNITS),
    "date_trunc('hour', clock)", "date_trunc('day', day)", "date_trunc('day', text)",
    "date_format(at, 'yyyy-MM-dd HH:mm:ss.SSSSSS E a')",
    "date_format(clock, 'yyyy-MM-dd HH:mm:ss')", "date_format(day, 'yyyy-MM-dd HH:mm')",
    "date_format(text, 'dd.MM.yyyy H')", "at + interval 1 day", "at - interval 1 day",
    "at + interval 1 month", "at - interval 11 months", "at + interval '36' hour",
    "at - interval '25' hour", "at + interval 3 hours",
    "at + interval '1 02:03:04' day to second", "at + interval 1 week", "day + interval 1 hour",
    "clock + interval 1 day", "clock + interval 1 month", "day - interval '30' minute",
    "at < clock", "at = day", "clock >= day", "at <=> text", "clock < at + interval 1 hour",
    "at >= timestamp '2024-03-31 02:30:00'", "at < '2024-10-27 02:30:00'",
    "at between date '2024-03-31' and date '2024-10-27'",
    "at in (timestamp '2024-10-27 00:30:00', date '1919-03-31')", "at > date '2011-12-30'",
    "least(at, clock)", "greatest(day, at)", "coalesce(at, day)", "if(id % 2 = 0, at, day)",
    "case when id % 2 = 0 then clock else at end", "nullif(at, clock)",
    "timestamp '2024-03-31 02:30:00'", "timestamp '1919-03-31'",
    "cast(date '1919-03-31' as timestamp)", "cast('1890-01-01' as timestamp)",
    "hour(timestamp '2024-07-01 12:00:00')",
    "cast('2024-07-01 12:00:00 Europe/Berlin' as timestamp)",
    "cast('2024-07-01 12:00:00-03:30' as timestamp)",
)  # fmt: skip
QUERIES = (
    f"SELECT id, {', '.join(f'{e} AS c{i}' for i, e in enumerate(EXPRESSIONS))} FROM t",
    "SELECT hour(at) AS h, count(*) AS n, count(DISTINCT at, day) AS d FROM t GROUP BY hour(at)",
    "SELECT date_trunc('day', at) AS d, max(day) AS m FROM t GROUP BY 1",
    "SELECT a.id, b.id AS other FROM t a JOIN t b ON cast(a.at AS date) = b.day",
    "SELECT a.id, b.id AS other FROM t a JOIN t b ON a.clock = b.at",
    "SELECT at AS x FROM t UNION ALL SELECT day FROM t UNION ALL SELECT clock FROM t",
    "SELECT id FROM t WHERE at IN (SELECT clock FROM t) OR day IN (SELECT at FROM t)",
    "SELECT id FROM t WHERE at > (SELECT min(day) FROM t) AND at < timestamp '2030-01-01'",
    "SELECT * FROM VALUES (timestamp '2024-03-31 02:30:00', 1), (date '1919-03-31', 2) AS v(x, y)",
    "SELECT listagg(at, ',') WITHIN GROUP (ORDER BY at) AS a, max_by(at, clock) AS m FROM t",
)


def rows(count: int = 32, seed: str = "zones") -> pa.Table:
    """Instants and clocks of all years, thick around changes of the zones."""
    random_ = random.Random(seed)
    changes = [t for name in ZONES for t in _zone(name).transitions]
    recent = [t for t in changes if 1_500_000_000 < t < 1_800_000_000]
    seconds: list[int] = []
    while len(seconds) < 2 * count:
        match len(seconds) % 4:
            case 0:
                seconds.append(random_.randrange(-60_000_000_000, 250_000_000_000))
            case 1:
                seconds.append(random_.choice(changes) + random_.randrange(-8000, 8000))
            case 2:
                seconds.append(random_.choice(recent) + random_.choice((-1, 0, 1, 3599, 3600)))
            case _:
                seconds.append(random_.choice(recent) + random_.randrange(-100_000, 100_000))
    epoch = datetime.datetime(1970, 1, 1)
    # In each pair, the clock is near what those of some zone show at the instant.
    pairs = [
        (s, c if i % 3 else s + random_.randrange(-5, 15) * 3600)
        for i, (s, c) in enumerate(zip(seconds[::2], seconds[1::2], strict=True))
    ]
    micros = [(s * 1_000_000, c * 1_000_000 + random_.choice((0, 0, 123_456))) for s, c in pairs]
    texts = [str(epoch + datetime.timedelta(microseconds=c)) for _, c in micros]
    for i, end in enumerate((" Europe/Paris", "+02:00", " UTC", "Z", " -3:30", " GMT+1", " PST")):
        texts[3 * i] += end
    columns: list[Any] = [
        range(1, count + 1),
        [s for s, _ in micros],
        [c for _, c in micros],
        [c // 86_400_000_000 for _, c in micros],
        texts,
    ]
    for i, column in enumerate(columns[1:]):
        column[7 + i] = None
    for i, column in enumerate(columns):
        stored = {1: pa.int64(), 2: pa.int64(), 3: pa.int32()}.get(i, SCHEMA[i].type)
        columns[i] = pa.array(column, stored).cast(SCHEMA[i].type)
    return pa.table(columns, schema=SCHEMA)


def _zone(name: str) -> zones.Zone:
    found = zones.find(name)
    assert found is not None
    return found


def plain(table: pa.Table) -> list[list[Any]]:
    """The rows, timestamps and dates as numbers, in an order of their own."""

    def simple(column: pa.ChunkedArray) -> list[Any]:
        if pa.types.is_timestamp(column.type):
            column = column.cast(pa.int64())
        elif pa.types.is_date(column.type):
            column = column.cast(pa.int32())
        elif pa.types.is_decimal(column.type):
            column = column.cast(pa.string())
        return list(column.to_pylist())

    found = zip(*map(simple, table.columns), strict=True)
    return sorted(map(list, found), key=lambda row: json.dumps(row, ensure_ascii=False))


def main() -> None:
    import sqlview

    spark = sqlview.start_spark("local[2]")
    answers: dict[str, list[Any]] = {}
    try:
        with sqlview.connect(spark=spark) as db:
            db.sql(TABLE)
            with db.transaction() as tx:
                tx.insert("t", rows())
            for zone in ZONES:
                spark.conf.set("spark.sql.session.timeZone", zone)
                answers[zone] = [plain(db.sql(query).to_arrow()) for query in QUERIES]
        version = spark.version
    finally:
        spark.stop()
    lines = [
        json.dumps(zone) + ": [\n" + ",\n".join(
            "[" + ",\n".join(json.dumps(row, ensure_ascii=False) for row in found) + "]"
            for found in answers[zone]
        ) + "]"
        for zone in ZONES
    ]  # fmt: skip
    ANSWERS.write_text(
        '{"spark": ' + json.dumps(version) + ', "answers": {\n' + ",\n".join(lines) + "}}\n"
    )


if __name__ == "__main__":
    main()
