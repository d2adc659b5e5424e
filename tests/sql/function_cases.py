"""Functions on rows with edges: `python -m tests.sql.function_cases` records what Spark makes of
them, where it is not recorded yet.

The answers (the type, the name of the column, and per row the value as text or the class of the
error) go to function_answers.json, which test_functions reads without Spark.
"""

from __future__ import annotations

import datetime
import json
import re
from decimal import Decimal as D
from pathlib import Path
from typing import Any

#: What Spark says: "type", "name" and "values", or "error".
Answer = dict[str, Any]
ANSWERS = Path(__file__).with_name("function_answers.json")

COLUMNS = (
    "id INT, s STRING, p STRING, n INT, m INT, b BIGINT, x DOUBLE, y DOUBLE, d DECIMAL(10,2),"
    " day DATE, ts TIMESTAMP"
)
_DAY, _TIME = datetime.date, datetime.datetime
_UTC = datetime.timezone.utc
ROWS: tuple[tuple[Any, ...], ...] = (
    (1, "abcab", "ab", 3, 2, 7, 1.0, 2.0, D("7.25"), _DAY(2024, 2, 29),
     _TIME(2024, 2, 29, 13, 5, 9, 120_000, _UTC)),
    (2, "", "", 0, 5, -7, 0.0, 3.0, D("-7.25"), _DAY(1970, 1, 1), _TIME(1970, 1, 1, tzinfo=_UTC)),
    (3, "  b c ", " ", -2, 3, 2**62, -1.5, 2.5, D("0.00"), _DAY(1969, 12, 31),
     _TIME(1969, 12, 31, 23, 59, 59, 999_999, _UTC)),
    (4, "héllo wörld", "ö", 12, 31, -1, 2.5, -1.0, D("99999999.99"), _DAY(1999, 12, 31),
     _TIME(1999, 12, 31, 0, 0, 1, 1, _UTC)),
    (5, "😀x日本😀", "😀", 65, -5, 0, 100.0, 0.5, D("-0.01"), _DAY(2021, 1, 3),
     _TIME(2021, 1, 3, 12, 30, 0, 0, _UTC)),
    (6, "a_b%c", "a!_b!%%", 233, 1, 5, 1e-3, 10.0, D("3.50"), _DAY(1000, 10, 5),
     _TIME(1000, 10, 5, 1, 2, 3, 0, _UTC)),
    (7, "20240229", "29/02/2024", 1, 1, 1, 8.0, 2.0, D("1.00"), _DAY(2020, 6, 15),
     _TIME(2020, 6, 15, 23, 0, 0, 0, _UTC)),
    (8, "2024-02-29", "%b%", 4, 2, 9, 0.1, 7.0, D("2.00"), _DAY(2023, 7, 9),
     _TIME(2023, 7, 9, 0, 59, 59, 500_000, _UTC)),
    (9, "xABCabcx", "aBc", 300, 3, 3, -0.0, 1.0, D("0.50"), _DAY(2024, 12, 30),
     _TIME(2024, 12, 30, 11, 11, 11, 0, _UTC)),
    (10, "yxyxa", "yx", 2, 2, 6, 1e300, 2.0, D("10.00"), _DAY(2100, 3, 1),
     _TIME(2100, 3, 1, 0, 0, 0, 0, _UTC)),
    (11, None, None, None, None, None, None, None, None, None, None),
    (12, "abc", None, None, 2, None, 4.0, None, D("4.00"), None, None),
    (13, None, "a", 1, None, 1, None, 1.0, None, _DAY(2000, 1, 1), _TIME(2000, 1, 1, tzinfo=_UTC)),
    (14, "a\nb", "a_b", -1, -3, -9, float("nan"), 2.0, D("-4.50"), _DAY(2016, 2, 29),
     _TIME(2016, 2, 29, 6, 7, 8, 9, _UTC)),
    (15, "50%", "50\\%", 7, 7, 2, float("inf"), -2.0, D("6.00"), _DAY(2024, 1, 1),
     _TIME(2024, 1, 1, 12, 0, 0, 0, _UTC)),
)  # fmt: skip

#: Of Spark, and not among the functions of views.
_REFUSED = (
    "octet_length(s)", "bit_length(s)", "sin(x)", "nanvl(x, y)", "equal_null(s, p)",
    "bround(x, 0)", "ceil(d, 1)", "try_divide(n, m)", "date_format(day, 'u')",
    "unix_timestamp(ts)", "unix_seconds(ts)", "timestamp_seconds(n)",
    "months_between(day, date '2020-02-29')", "timestampdiff(DAY, day, ts)",
    "make_timestamp(2024, n, m, 1, 2, 3)",
    # Spark refuses these as well, the first for each row.
    "next_day(day, 'noday')", "locate('a')", "ascii()", "lpad(s)",
)  # fmt: skip
EXPRESSIONS = (
    "trim(BOTH 'ab' FROM s)", "trim(LEADING 'ab' FROM s)", "trim(TRAILING p FROM s)",
    "trim(p FROM s)", "trim('ba', s)", "ltrim('ab', s)", "rtrim('ba', s)", "btrim(s, 'xy')",
    "btrim(s, p)", "btrim(s, '')", "trim(BOTH FROM s)", "ltrim(p, s)",
    "lpad(s, 7, 'xy')", "lpad(s, n)", "rpad(s, n, p)", "rpad(s, 7)", "lpad(s, 7, '')",
    "lpad(n, 4, '0')", "repeat(s, 3)", "repeat(s, m)", "reverse(s)", "initcap(s)",
    "instr(s, 'b')", "instr(s, p)", "locate('b', s)", "locate('b', s, 3)", "locate(p, s, n)",
    "locate(p, s, 2)", "position('b' IN s)", "position('b', s)", "position('b', s, 2)",
    "translate(s, 'abx', 'xy')",
    "translate(s, p, 'zé')", "ascii(s)", "chr(n)", "char(65)", "concat_ws('-', s, p)",
    "concat_ws(p, s, 'x')", "concat_ws(',', s, n)", "concat_ws('-')", "concat_ws('-', s)",
    "substring_index(s, 'b', 1)", "substring_index(s, 'b', -1)", "substring_index(s, '', 1)",
    "substring_index(s, p, n)", "substring_index(s, 'x', 2)",
    "s LIKE p", "s LIKE concat('%', p, '%')", "s ILIKE p", "s NOT LIKE p", "s LIKE p ESCAPE '!'",
    "s ILIKE p ESCAPE '!'", "p LIKE s", "like(s, p)", "ilike(s, 'AB%')", "n LIKE p",
    "space(m)",
    "exp(x)", "ln(x)", "log(x)", "log(2, x)", "log(y, x)", "log10(x)", "log2(x)", "log1p(x)",
    "expm1(x)", "cbrt(x)", "degrees(x)", "radians(x)", "exp(n)", "ln(d)", "log10(n)", "rint(x)",
    "pi()", "e()",
    "pmod(n, m)", "pmod(n, 3)", "pmod(d, 2.5)", "pmod(x, y)", "pmod(b, m)", "pmod(d, m)",
    "pmod(-7, 3)", "nullifzero(n)", "nullifzero(d)", "zeroifnull(n)", "zeroifnull(x)",
    "zeroifnull(d)",
    "extract(SECOND FROM ts)", "extract(SECONDS FROM ts)", "date_part('second', ts)",
    "date_part('SECS', ts)", "extract(S FROM ts)",
    "next_day(day, 'MON')", "next_day(day, 'friday')", "next_day(ts, 'Su')",
    "make_date(2024, n, m)", "make_date(n + 2000, 2, 28)", "make_date(2023, 2, n)",
    "date_format(day, 'yyyy-MM')", "date_format(ts, 'yyyy-MM-dd HH:mm:ss')",
    "date_format(day, 'dd/MM/yy')", "date_format(day, 'yyyyMMdd')", "date_format(day, 'MMM yyyy')",
    "date_format(day, 'EEEE, d MMMM')", "date_format(day, 'E d.M.y')",
    "date_format(ts, 'HH:mm:ss.SSS')", "date_format(ts, 'h:m:s a')", "date_format(ts, 'SSSSSS')",
    "date_format(ts, \"yyyy-MM-dd'T'HH:mm\")", "date_format(day, 'yyyy')", "date_format(day, 'MM')",
    "date_format(day, \"yyyy-'Q'q\")", "date_format(day, 'D')", "date_format(day, 'L')",
    "date_format('2024-03-01', 'dd')", "date_format(ts, 'H')",
    "unix_date(day)", "date_from_unix_date(n)", "to_date(s)", "to_date(s, 'yyyyMMdd')",
    "to_date(s, 'yyyy-MM-dd')", "to_date(p, 'dd/MM/yyyy')", "to_date(p, 'd/M/yyyy')",
    "to_date(day, 'yyyy')", "to_timestamp(s)", "to_timestamp(day)", "timestamp(day)",
    "dayname(day)", "monthname(day)", "decimal(n)", "binary(s)",
    "if(n > 0, s, p)", "nvl2(n, s, p)", "ifnull(s, p)", "left(s, 2)", "right(s, n)",
    "last_day(day)",
    "quarter(day)", "dayofweek(day)", "dayofyear(day)", "weekofyear(day)", "weekday(day)",
    "n % m", "n DIV m", "mod(n, m)", "sign(d)", "abs(n)", "round(x, 1)", "to_date(ts)",
    "initcap('ß ǆa ŉ ﬁx İX ΑΣ o''NEIL-x')", "date_format(day, 'qq QQ LL DDD EE')",
    "date_format(ts, \"hh ''yy SSSSSSSSS\")", "s LIKE concat(s, '\\\\')",
    "s LIKE concat('\\\\a', s)", "translate(s, 'aab', 'xyz')", "left(s, n)", "nvl(s, p)",
    "repeat(s, b % 3)", "lpad(s, b)", "make_date(b % 100 + 2000, 1, 1)", "chr(x)",
    "PMOD(n, 3)", "Zeroifnull(n)", "LPad(s, 7, 'xy')",
    "concat_ws('-', s, NULL)", "trim(NULL FROM s)", "s LIKE NULL",
    *_REFUSED,
)  # fmt: skip


def refused() -> frozenset[str]:
    """Expressions of Spark that views do not have."""
    return frozenset(_REFUSED)


def main() -> None:
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

    session = (
        SparkSession.builder.master("local[1]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.ansi.enabled", "true")
        .config("spark.sql.shuffle.partitions", "1")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    answers: dict[str, Any] = {}
    known: dict[str, Any] = {}
    if ANSWERS.exists():
        recorded = json.loads(ANSWERS.read_text())
        known = recorded["answers"] if recorded["spark"] == session.version else {}
    try:
        schema = StructType.fromDDL(COLUMNS)
        session.createDataFrame(list(ROWS), schema).coalesce(1).createOrReplaceTempView("t")

        def values(expression: str, where: str) -> list[str | None]:
            text = f"SELECT CAST({expression} AS STRING) AS v FROM t {where} ORDER BY id"
            return [row[0] for row in session.sql(text).collect()]

        for expression in EXPRESSIONS:
            if expression in known:
                answers[expression] = known[expression]
                continue
            try:
                column = session.sql(f"SELECT {expression} FROM t").schema[0]
            except PySparkException as error:
                answers[expression] = {"error": _error_class(error)}
                continue
            listed: list[Any]
            try:
                listed = list(values(expression, ""))
            except PySparkException:
                listed = []
                for row in ROWS:
                    try:
                        listed += values(expression, f"WHERE id = {row[0]}")
                    except PySparkException as error:
                        listed.append({"error": _error_class(error)})
            kind = column.dataType.simpleString().upper()
            answers[expression] = {"type": kind, "name": column.name, "values": listed}
        recorded = {"spark": session.version, "answers": answers}
    finally:
        session.stop()
    ANSWERS.write_text(json.dumps(recorded, indent=0, ensure_ascii=False) + "\n")


def _error_class(error: Exception) -> str:
    found = re.search(r"\[([A-Z_]+)", str(error))
    return found[1] if found else str(error)[:80]


if __name__ == "__main__":
    main()
