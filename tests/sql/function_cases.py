"""Functions on rows with edges: `python -m tests.sql.function_cases` records what Spark makes of
them, where it is not recorded yet.

The answers (the type, the name of the column, and per row the value as text or the class of the
error) go to function_answers.json, which test_functions reads without Spark.
"""

# ruff: noqa: E501 - a table of data

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
    " day DATE, ts TIMESTAMP, a ARRAY<INT>, a2 ARRAY<INT>, w ARRAY<STRING>, st STRUCT<x: INT, y: STRING>,"
    " mp MAP<STRING, INT>, aa ARRAY<ARRAY<INT>>, sa ARRAY<STRUCT<x: INT, y: STRING>>, f ARRAY<DOUBLE>"
)
#: Values of the nested columns by id; NULL in the other rows.
_NESTED: dict[int, tuple[Any, ...]] = {
    1: (
        [1, 2, 2, None],
        [2, 3, None],
        ["a", None, "b"],
        (1, "u"),
        {"j": None, "k": 1},
        [[1], [2, None]],
        [(1, "u"), (None, None)],
        [1.5, float("nan"), None],
    ),
    2: ([], [], [], (None, None), {}, [], [], []),
    3: ([None], [1], [None], (3, ""), {"": -1}, [None, [1]], [None], [float("inf"), -1.0]),
    4: (
        [5, -1, 5, 3],
        [3, 4],
        ["x,y", ""],
        (-1, "é"),
        {"k": 7},
        [[], [3, 3]],
        [(2, "b"), (1, "c"), (1, "a")],
        [0.0, 2.0],
    ),
    5: (
        [2147483647, -2147483648],
        [-2147483648],
        ["😀", "a"],
        (2, None),
        {"a": 1, "b": 2, "k": 3},
        [[9]],
        [(5, "z")],
        [3.25],
    ),
    6: ([1, 2, 3, 4, 5], [], ["b", "a", "b"], (9, "ab"), {"K": 1}, [[1, 2], [3]], [], [1.0, 1.0]),
}
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
ROWS = tuple((*row, *_NESTED.get(row[0], (None,) * 8)) for row in ROWS)

#: Of Spark, and not among the functions of views.
_REFUSED = (
    "to_char(n, '99X')", "to_char(n, '')", "to_char(n, '9,')", "to_char(n, 'S9S')", "to_number(s, '$')", "to_number(s, '9.9,9')",
    "date_format(day, 'u')", "ceil(d, n)", "make_timestamp(2024, 1, 1, 1, 1, 1, s)",
    "regexp_extract(s, p)", "from_json(s, p)", "from_json(s, 'a BAD')", "from_json(s, 'INT')", "to_json(n)", "format_string('%s', a)", "regexp_replace(s, '\\\\p{L}', '')", "encode(s, 'cp1252')",
    "from_utc_timestamp(ts, s)",
    # Spark refuses these as well, the first for each row.
    "aggregate(f, 0, (acc, x) -> acc + x)", "transform(mp, x -> x)", "filter(a, x -> x)",
    "array_sort(a, (l, r) -> l - r + 0.5)",
    "get_json_object(s, '$.*')", "hash(a)", "map()", "array_contains(mp, 1)", "sort_array(array(mp))", "map(mp, 1)", "size(s)",
    "next_day(day, 'noday')", "locate('a')", "ascii()", "lpad(s)",
    "from_csv(s, p)", "from_csv(s, 'a BAD')", "from_csv(s, 'INT')", "from_csv(s, 'a ARRAY<INT>')", "to_csv(a)", "from_csv(n, 'a INT')", "time_bucket(interval '0' day, ts)", "time_bucket(interval '1' day, day)", "time_bucket(ts - day, ts)", "vector_norm(f)", "vector_norm(array(1F), 2)", "assert_true(s)",
    "xpath(s, '1')", "xpath_string(s, s)", "xpath_int(n, 'a')", "xpath_string(s, 'a b')", "xpath_string(s, 1)", "xpath(s)", "xpath_string(s, 'a:b')", "xpath_string(s, NULL)",
    "hmac(n, s)", "hmac(s, p, 'SHA3')", "hmac(s, p, s)", "collation(n)", "collate(s, 'UTF8_LCASE')", "hmac(s, p, '-SHA-1')",
)  # fmt: skip
_VECTOR, _VECTOR2 = "CAST(f AS ARRAY<FLOAT>)", "CAST(a AS ARRAY<FLOAT>)"
#: Of 1 to some hundred elements whose sum depends on the order.
_LONG = "transform(sequence(1, n), i -> CAST(i * x / 7 + m AS FLOAT))"
#: Texts of values, good and bad.
_READ = (
    "array('1', ' 1', '+1', '-7', '01', '1.5', '1.', '.5', '1e3', '1e40', '1d', '4294967296', '9223372036854775808', '-129', '1_0', '0x1p3', 'NaN', 'nan', 'Inf', '-Inf', 'Infinity', '1.235', '-1.235', '999.994',"
    " '999.995', '1e-400', '1E400', 'true', 'FALSE', 't', '2020-01-02', '2020-1-2', '2020', '2020-02-30', '2020-01-02T03:04:05.678Z', '2020-01-02 03:04:05+01:00', '20200102', ' 2020-01-02 ', '٣', s, p)"
)
_NUMBERS = "array(' 12', '-1,234.5', '$12', '<12>', '12-', '1 2', '.5', '12.', '+7', '', '1,2', '12 ', '<7', s)"
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
    # intervals
    "day - DATE '2000-01-01'", "ts - TIMESTAMP '2000-01-01 00:00:00'", "ts - day", "day - ts",
    "day - '2001-02-03'", "CAST(ts AS TIMESTAMP_NTZ) - ts", "DATE '9999-12-31' - day",
    "day + (day - DATE '2000-01-01')", "day - (ts - day)", "ts + (day - DATE '2020-06-15') / 50",
    "day + make_ym_interval(n, m)", "ts - make_ym_interval(m, n)", "ts - make_dt_interval(n, m)",
    "make_ym_interval(n)", "make_ym_interval()", "make_ym_interval(n, m)", "make_ym_interval(b, 0)",
    "make_dt_interval(n)", "make_dt_interval(n, m)", "make_dt_interval(n, m, 7)",
    "make_dt_interval(n, m, 7, d)", "make_dt_interval(0, 0, 0, x)", "make_dt_interval()",
    "make_dt_interval(b)", "make_ym_interval(200000000, n)", "make_dt_interval(100000000 + n * n * n * n)",
    "interval '1-2' year to month * n", "interval '5' month * x", "interval '5' month * d",
    "interval '5' month / n", "interval '5' month / y", "interval '5' month / d", "interval '7' month * b",
    "interval '1 02:03:04.5' day to second * n", "interval '1 02' day to hour * x",
    "interval '03:04' hour to minute * d", "interval '7' second / m", "interval '7' minute / n",
    "interval '7' hour / x", "interval '7' hour / d", "interval '7' day * b", "b * interval '7' microsecond",
    "interval '7' day / s", "s * interval '7' day", "m * interval 2 weeks",
    "-make_ym_interval(n, m)", "-make_dt_interval(n, m)", "+make_dt_interval(n, m)", "abs(make_dt_interval(-n, m))",
    "abs(make_ym_interval(-n, m))", "sign(make_ym_interval(n))", "signum(make_dt_interval(n))",
    "make_ym_interval(n) + interval '3' month", "make_ym_interval(n) - interval '1-1' year to month",
    "make_dt_interval(n) + interval '3' minute", "make_dt_interval(n) - interval '25' hour",
    "make_dt_interval(n) DIV interval '7' hour", "make_ym_interval(n) DIV make_ym_interval(0, m)",
    "make_dt_interval(n) DIV make_dt_interval(m - 2)",
    "extract(YEAR FROM make_ym_interval(n, m))", "extract(MONTH FROM make_ym_interval(n, m))",
    "extract(DAY FROM ts - day)", "extract(HOUR FROM ts - TIMESTAMP '2000-01-01 00:00:00')",
    "extract(MINUTE FROM ts - TIMESTAMP '2000-01-01 00:00:00')", "extract(SECOND FROM ts - TIMESTAMP '2000-01-01 00:00:00')",
    "date_part('day', day - DATE '2000-01-01')", "datepart('hours', make_dt_interval(n, m))",
    "make_dt_interval(n) > interval '3' hour", "make_ym_interval(n) = interval '0' month",
    "greatest(make_dt_interval(n), interval '3' hour)", "coalesce(day - DATE '2000-01-01', interval '3' hour)",
    "if(n > 2, make_ym_interval(n), interval '3' month)", "nullif(make_dt_interval(n), interval '3' day)",
    "make_dt_interval(n) IN (interval '3' day, interval '0' hour)", "make_ym_interval(n) BETWEEN interval '1' month AND interval '9' year",
    "CAST(make_ym_interval(n, m) AS STRING)", "CAST(make_dt_interval(n, m, -7, d) AS STRING)", "CAST(ts - day AS STRING)",
    "CAST(day - DATE '2000-01-01' AS STRING)", "CAST(CAST(n AS INTERVAL YEAR) AS STRING)", "CAST(CAST(n AS INTERVAL MONTH) AS STRING)",
    "CAST(CAST(make_dt_interval(n, m) AS INTERVAL HOUR) AS STRING)", "CAST(CAST(ts - day AS INTERVAL HOUR TO SECOND) AS STRING)",
    "CAST(CAST(ts - day AS INTERVAL DAY TO MINUTE) AS STRING)", "CAST(CAST(ts - day AS INTERVAL MINUTE TO SECOND) AS STRING)",
    "CAST(CAST(make_ym_interval(n, m) AS INTERVAL YEAR) AS STRING)", "CAST(CAST(d AS INTERVAL SECOND) AS STRING)",
    "CAST(day - DATE '2000-01-01' AS INT)", "CAST(CAST(ts - day AS INTERVAL HOUR) AS TINYINT)", "CAST(CAST(ts - day AS INTERVAL SECOND) AS DECIMAL(12,3))",
    "CAST(CAST(ts - day AS INTERVAL MINUTE) AS DECIMAL(12,1))", "CAST(b AS INTERVAL DAY)", "CAST(n AS INTERVAL SECOND)", "CAST(d AS INTERVAL YEAR)", "CAST(d AS INTERVAL DAY)",
    "CAST(b AS INTERVAL YEAR)", "hash(make_ym_interval(n))", "xxhash64(make_dt_interval(n), make_ym_interval(m))", "typeof(ts - day)", "typeof(day - day)",
    "array(make_dt_interval(n), interval '3' hour)", "to_json(named_struct('i', ts - day))", "concat(CAST(make_ym_interval(n) AS STRING), s)",
    "NULL + interval '3' day", "day + interval '1 2' day to hour", "day + make_dt_interval(n)", "ts + interval '40' hour",
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
    "octet_length(s)", "bit_length(s)", "octet_length(binary(s))", "nanvl(x, y)", "nanvl(n, m)",
    "equal_null(s, p)", "equal_null(n, 3)", "bround(x, 0)", "bround(d, 1)", "bround(d)",
    "bround(n, -1)", "bround(x, 1)", "try_divide(n, m)", "try_divide(n, 0)", "try_add(b, b)",
    "try_add(n, m)", "try_subtract(-b, b)", "try_multiply(b, b)", "try_mod(n, m)", "try_mod(n, 0)",
    "try_add(d, d)", "try_multiply(x, y)", "try_divide(d, d - 3.5)", "try_add(1 / n, m)",
    "unix_timestamp(ts)", "unix_timestamp(day)", "to_unix_timestamp(ts)", "unix_seconds(ts)",
    "unix_millis(ts)", "unix_micros(ts)", "timestamp_seconds(n)", "timestamp_seconds(b)",
    "timestamp_millis(b)", "timestamp_micros(b % 1000000)", "from_unixtime(n)",
    "from_unixtime(n, 'yyyy-MM-dd')", "months_between(day, date '2020-02-29')",
    "months_between(ts, day)", "months_between(ts, timestamp '2020-02-29 13:05:09', false)",
    "make_timestamp(2024, n, m, 1, 2, 3)", "make_timestamp(2024, 2, 29, n, m, d)",
    "make_timestamp(2024, 2, 29, 23, 59, 60)", "make_timestamp(2024, 2, 29, 23, 59, 60.5)",
    "from_utc_timestamp(ts, 'Europe/Paris')", "to_utc_timestamp(ts, 'America/New_York')",
    "from_utc_timestamp(day, '+05:30')", "try_to_timestamp(s)", "try_to_date(s)", "try_to_date(ts)",
    *(f"{f}(x)" for f in ("sin", "cos", "tan", "cot", "sec", "csc", "asin", "acos", "atan", "sinh",
                          "cosh", "tanh", "asinh", "acosh", "atanh")),
    "sin(n)", "cos(d)", "atan2(x, y)", "hypot(x, y)", "asin(x / 10)", "acosh(1 + abs(n))",
    "atanh(x / 200)", "factorial(n)", "bin(n)", "bin(b)", "bin(x)", "hex(n)", "hex(b)", "hex(s)", "hex(binary(p))",
    "hex(x)", "unhex(hex(s))", "conv(s, 16, 10)", "conv(n, 10, 2)", "conv('-15', 10, -16)",
    "conv('-15', 10, 16)", "conv('zz', 36, 10)", "conv(s, 10, 1)", "conv('ffffffffffffffffff', 16, 10)",
    "conv('18446744073709551615', 10, -10)", "conv('  12', 10, 16)", "conv('', 10, 16)",
    "width_bucket(x, 0, 10, 5)", "width_bucket(x, 10, 0, 5)", "width_bucket(d, 0, 8, n)",
    "width_bucket(x, y, y, 3)",
    "n & m", "n | m", "n ^ m", "~n", "b & n", "~b", "n << 2", "b << m", "n >> 1", "b >> m",
    "shiftleft(n, m)", "shiftright(b, 1)", "shiftrightunsigned(n, 1)", "shiftrightunsigned(b, m)",
    "shiftleft(n, 33)", "(n & 6) | (m & 9)", "bit_count(n)", "bit_count(b)", "bit_count(n > 2)",
    "bit_get(n, 1)", "getbit(b, 63)", "bit_get(n, m)", "bit_get(n, 40)",
    "md5(s)", "sha(s)", "sha1(s)", "sha2(s, 256)", "sha2(s, 0)", "sha2(s, 224)", "sha2(s, 384)",
    "sha2(s, 512)", "sha2(s, n)", "crc32(s)", "md5(binary(s))", "base64(s)",
    "base64(binary(p))", "decode(unbase64(base64(s)), 'UTF-8')", "hex(unbase64('YQ'))",
    "hex(unbase64('YWI=='))", "hex(unbase64('Y W\nI='))",
    "hex(encode(s, 'UTF-8'))", "hex(encode(s, 'utf-16'))", "hex(encode(s, 'US-ASCII'))",
    "hex(encode(s, 'ISO-8859-1'))", "hex(encode(s, 'UTF-16LE'))", "decode(binary(s), 'UTF-8')",
    "decode(unhex('e9'), 'ISO-8859-1')", "decode(unhex('e9'), 'UTF-8')", "decode(s, 'US-ASCII')",
    "decode(n, 1, 'one', 3, 'three')", "decode(n, 1, 'one', 3, 'three', 'other')",
    "decode(s, NULL, 'nothing', 'abc', 'x')", "url_encode(s)", "url_decode(url_encode(s))",
    "url_decode(s)", "try_url_decode(s)", "url_decode('a+b%20c%C3%A9')",
    "find_in_set('ab', 'x,ab,c')", "find_in_set(s, 'abcab,,a')", "find_in_set(s, p)",
    "levenshtein(s, p)", "levenshtein(s, 'abc')", "levenshtein(s, p, 3)", "levenshtein(s, p, n)",
    "soundex(s)", "soundex('Miller')", "soundex('Robert')", "soundex('Tymczak')", "soundex('Pfister')",
    "soundex('Ashcraft')", "soundex('hermann')", "soundex(' x')",
    "luhn_check(s)", "luhn_check('79927398713')", "luhn_check('4111-1111')", "luhn_check('8112189876')",
    "mask(s)", "mask(s, 'Q')", "mask(s, 'Q', 'q', '9')", "mask('AÉß ǅ٣1')",
    "overlay(s, 'XYZ', 2)", "overlay(s PLACING 'XYZ' FROM 2)", "overlay(s PLACING p FROM 2 FOR 4)",
    "overlay(s, p, n, m)", "quote(s)", "quote('it''s')", "elt(n, s, p)", "elt(2, s, p)", "elt(n, s, 'b', p, 'd')",
    *(f"to_char(d, '{f}')" for f in ("999999999.99", "S00000000.00", "$99,999,999.99MI", "999PR", "9,999.9", "MI0G000D00", "S9.99", ".99", "9")),
    *(f"to_char({c}, '{f}')" for c in ("n", "b") for f in ("999", "S000", "999,999MI", "99PR", "$9G999S")),
    "to_char(x, '9999.999')", "to_char(m, 'mi99')", "to_varchar(n, '9999')", "to_char(day, 'yyyy/MM')", "to_varchar(ts, 'HH:mm')",
    "to_char(encode(s, 'utf-8'), 'hex')", "to_char(encode(s, 'utf-8'), 'base64')", "to_char(encode(s, 'utf-8'), 'utf-8')",
    *(f"transform({_NUMBERS}, v -> try_to_number(v, '{f}'))" for f in ("99", "S9,999.99", "$99", "99PR", "99S", "MI99", "00.0", "999,999", "0,00")),
    "to_number(s, '99999999')", "to_number(concat(n, ''), 'S999')", "to_number(concat(d, ''), 'S999999999.99')", "to_number(p, '9')",
    "format_number(x, 2)", "format_number(d, 1)", "format_number(b, 0)", "format_number(n, 3)",
    "format_number(x, n)", "format_number(0.125D, 2)", "format_number(1234567.891, 2)",
    "regexp_count(s, 'b')", "regexp_count(s, 'b*')", "regexp_extract(s, '(a)(b)', 2)",
    "regexp_extract(s, '([a-z]+)')", "regexp_extract(s, 'b.', 0)", "regexp_extract(s, '(q)?b', 1)",
    "regexp_substr(s, 'b.?')", "regexp_instr(s, 'b')", "regexp_instr(s, '[^a-z]')",
    "regexp_replace(s, 'b', 'X')", "regexp_replace(s, '(a)(b)', '$2$1')", "regexp_replace(s, 'b*', '-')",
    "regexp_replace(s, '', '-')", "regexp_replace(s, '\\\\w+', '<$0>')", "regexp_replace(s, '.', '\\\\$')",
    "regexp_replace(s, 'b', 'X', 3)", "regexp_replace(s, '$', '!')", "regexp_replace(s, '^', '!')",
    "regexp_replace(s, '(?i)ab', '<$0>')", "regexp_replace(s, '(?<x>a)', '$1$1')",
    "regexp_replace(s, '[\\\\s_%]+', ' ')", "regexp_replace(s, '(?=b)', '|')", "regexp_replace(s, 'a{1,2}+b', '.')",
    "regexp_replace('a\nb\n', '$', '!')", "regexp_replace('a\r\n', '$', '!')", "regexp_replace('a\n\r', '.', '!')",
    "regexp_replace('aXbX', 'X(b)?', '[$1]')", "typeof(n)", "typeof(d)", "typeof(ts)", "typeof(s)", "typeof(b + x)",
    # arrays, maps, structs
    "array(1, 2, n)", "array()", "array('a', NULL, s)", "array(1, x)", "array(n, d)", "array(a, a2)",
    "named_struct('p', n, 'q', a)", "struct(n, s)", "struct(n AS k, st.x, n + 1)", "map('k', n, 'j', 2)",
    "map(n, s)", "map('a', 1, 'a', 2)", "st.x", "st.y", "a[0]", "a[n]", "mp['k']", "mp[s]", "mp.k",
    "sa.x", "sa[0].y", "get(a, 0)", "get(a, n)", "size(a)", "size(mp)", "cardinality(a)", "array_size(a)",
    "array_contains(a, 2)", "array_contains(a, n)", "array_contains(w, 'a')", "array_contains(aa, array(1))",
    "array_position(a, 5)", "array_position(a, n)", "array_distinct(a)", "array_distinct(sa)",
    "array_distinct(f)", "array_union(a, a2)", "array_intersect(a, a2)", "array_except(a, a2)",
    "array_except(a2, a)", "arrays_overlap(a, a2)", "arrays_overlap(a, array(n))", "array_remove(a, 2)",
    "array_compact(a)", "array_compact(w)", "array_repeat(n, 3)", "array_repeat(s, m)", "array_repeat(a, 2)",
    "flatten(aa)", "slice(a, 2, 2)", "slice(a, -2, 2)", "slice(a, n, m)", "slice(a, 0, 1)", "slice(a, 1, 0)",
    "slice(a, -9, 2)", "sort_array(a)", "sort_array(a, false)", "sort_array(w)", "sort_array(sa)",
    "sort_array(f)", "sort_array(aa)", "array_min(a)", "array_max(a)", "array_max(f)", "array_min(f)",
    "array_max(w)", "array_max(sa)", "array_join(w, ',')", "array_join(w, '-', '?')", "array_join(w, s)",
    "reverse(a)", "reverse(w)", "concat(a, a2)", "concat(w, array(s))", "concat(a, f)", "a || a2",
    "element_at(a, 1)", "element_at(a, -1)", "element_at(a, n)", "element_at(mp, 'k')", "element_at(a, 0)",
    "try_element_at(a, 3)", "try_element_at(mp, 'zz')", "try_element_at(a, 0)", "split(s, 'b')",
    "split(s, '')", "split(s, 'b', 2)", "split(s, '[ab]+')", "split(p, '/')", "split(s, 'b', -1)",
    "split(s, '(?=b)')", "split('a,b,,', ',')", "split(',a', ',')",
    "sequence(1, m)", "sequence(n, m)", "sequence(5, 1, -2)", "sequence(1, n, 2)", "sequence(b, b + 2)",
    "map_keys(mp)", "map_values(mp)", "map_entries(mp)", "map_contains_key(mp, 'k')",
    "map_contains_key(mp, s)", "map_from_arrays(array('a', 'b'), array(n, m))", "map_from_arrays(w, a)",
    "map_from_arrays(a, a)", "map_from_entries(sa)", "map_from_entries(map_entries(mp))",
    "map_concat(mp, map('z', 1))", "map_concat(mp, map('k', 1))", "CAST(a AS STRING)", "CAST(st AS STRING)",
    "CAST(a AS ARRAY<STRING>)", "CAST(w AS ARRAY<INT>)", "CAST(st AS STRUCT<p: BIGINT, q: STRING>)",
    "CAST(mp AS MAP<STRING, DOUBLE>)", "a = a2", "a < a2", "a <=> a2", "st = struct(1, 'u')", "sa > array()",
    "f = array(0.0D, 2.0D)", "coalesce(a, a2)", "if(n > 1, a, array(0))", "a IN (array(1), array())",
    "greatest(a, a2)", "array(n, s)", "typeof(sa)", "typeof(mp)", "mp[n]",
    # lambdas
    "transform(a, x -> x + 1)", "transform(a, (x, i) -> x * i)", "transform(a, x -> x + n)", "transform(w, x -> concat(x, s))",
    "transform(aa, x -> transform(x, y -> y + size(x) + m))", "transform(sa, x -> x.y)", "transform(a, x -> 10 / (x - 1))",
    "transform(a, X -> x)", "transform(a, n -> n)", "transform(f, x -> NULL)", "transform(a, x -> struct(x, n))",
    "filter(a, x -> x > 1)", "filter(a, (x, i) -> i < 2 AND x IS NOT NULL)", "filter(w, x -> x <> s)", "filter(a, x -> 4 / x > 1)",
    "exists(a, x -> x = 2)", "exists(a, x -> x IS NULL)", "exists(a, x -> 6 / (x - 2) > 0)", "forall(a, x -> x > 0)",
    "forall(a, x -> x IS NOT NULL)", "forall(a, x -> 6 / (x - 2) > 0)", "exists(w, x -> x LIKE p)",
    "aggregate(a, 0, (acc, x) -> acc + x)", "aggregate(a, 0, (acc, x) -> acc + coalesce(x, n))", "reduce(a, 1, (p, q) -> p * q)",
    "aggregate(w, '', (acc, x) -> concat(acc, x), acc -> length(acc))", "aggregate(f, 0.0D, (acc, x) -> acc + x, acc -> acc / size(f))",
    "aggregate(a, named_struct('s', 0, 'n', 0), (acc, x) -> named_struct('s', acc.s + coalesce(x, 0), 'n', acc.n + 1), acc -> acc.s / acc.n)",
    "aggregate(aa, 0, (acc, x) -> acc + aggregate(x, 0, (b, y) -> b + coalesce(y, 0)))", "aggregate(a, CAST(n AS BIGINT), (acc, x) -> acc + x)",
    "zip_with(a, a2, (x, y) -> x + y)", "zip_with(a, w, (x, y) -> concat(y, x))", "zip_with(a, f, (x, y) -> coalesce(y, x))",
    "array_sort(a)", "array_sort(w)", "array_sort(f)", "array_sort(aa)", "array_sort(sa)",
    "array_sort(w, (l, r) -> CASE WHEN l < r THEN 1 WHEN l > r THEN -1 ELSE 0 END)",
    "array_sort(a, (l, r) -> CASE WHEN l IS NULL AND r IS NULL THEN 0 WHEN l IS NULL THEN -1 WHEN r IS NULL THEN 1 WHEN l > r THEN -1 WHEN l < r THEN 1 ELSE 0 END)",
    "array_sort(sequence(1, 40), (l, r) -> CASE WHEN l % m < r % m THEN -1 WHEN l % m > r % m THEN 1 ELSE 0 END)",
    "map_filter(mp, (k, v) -> v > 1)", "map_filter(mp, (k, v) -> k = 'k' OR k = s)", "transform_keys(mp, (k, v) -> concat(k, '!'))",
    "transform_keys(mp, (k, v) -> v)", "transform_keys(mp, (k, v) -> 1)", "transform_values(mp, (k, v) -> v + n)",
    "transform_values(mp, (k, v) -> concat(k, v))", "map_zip_with(mp, map('k', n, 'z', m), (k, x, y) -> concat(k, x, y))",
    "map_zip_with(mp, mp, (k, x, y) -> x + y)", "map_zip_with(mp, map('k', 1.5D), (k, x, y) -> coalesce(x, y))",
    "arrays_zip(a, a2)", "arrays_zip(a, array(1))", "arrays_zip(sa.x, w)", "arrays_zip(a)",
    # hashes, JSON
    "hash(s)", "hash(n, b)", "hash(x, day, ts)", "hash(d, s, NULL)", "hash(n > 1)", "hash(CAST(d AS DECIMAL(30,4)))",
    "hash(CAST(x AS FLOAT))", "hash(binary(s), n)", "xxhash64(s)", "xxhash64(n, b)", "xxhash64(x, day, ts)",
    "xxhash64(d, s, NULL)", "xxhash64(CAST(d * d AS DECIMAL(30,4)), n > 1)", "xxhash64(repeat(concat(s, 'é'), 9))",
    "xxhash64(CAST(x AS FLOAT), CAST(n AS SMALLINT))", "hash(concat(s, p))",
    "array_append(a, n)", "array_prepend(a, NULL)", "array_append(w, s)", "array_prepend(a, 1.5D)",
    "to_timestamp_ntz(day)", "to_timestamp_ltz(ts)", "make_timestamp_ltz(2024, n, m, 1, 2, 3)",
    "regexp_extract_all(s, '(b)(.)?', 2)", "regexp_extract_all(s, '[a-z]', 0)", "regexp_extract_all(s, '(a)')",
    "get_json_object(concat('{\"a\": [1, {\"b\": ', n, '.50}], \"a\": 2}'), '$.a[1].b')",
    "get_json_object('{\"a\": {\"b c\": [1.0e5, \"x\\u00e9\\n\", null, true]}}', '$.a')",
    "get_json_object('{\"a\": {\"b c\": [1.0e5, \"x\\u00e9\"]}}', \"$['a']['b c'][1]\")",
    "get_json_object(\"{'a': 1} x\", '$.a')", "get_json_object('{\"a\": 1, bad', '$.a')", "get_json_object(s, '$')",
    "get_json_object('{\"a\": null, \"a\": 3}', '$.a')", "get_json_object('[1, [2, 3]]', '$[1]')", "get_json_object('[1]', '$[3]')",
    "get_json_object('{\"a\": 12345678901234567890.120}', '$.a')", "get_json_object('{\"a\":01}', '$.a')",
    "get_json_object('{\"a\": {}}', '$.a')", "get_json_object('\"x\"', '$')", "get_json_object('', '$.a')",
    "get_json_object('{\"a\": 1e400}', '$')", "get_json_object('{\"a\": -0.0, \"b\": 1E2}', '$')",
    "json_array_length('[1, [2], {}]')", "json_array_length(s)", "json_array_length('{}')", "json_array_length('[1, 2')",
    "json_array_length(concat('[', n, ']'))", "json_object_keys('{\"b\": 1, \"a\": {\"c\": 2}}')", "json_object_keys('[]')",
    "json_object_keys('{}')", "json_object_keys(concat('{\"', id, '\": 1'))",
    # JSON as values
    "from_json(concat('{\"a\": ', n, ', \"b\": \"', id, '\"}'), 'a INT, b STRING')", "from_json(s, 'a INT')",
    "from_json(concat('[', n, ', ', b, ']'), 'ARRAY<INT>')", "from_json(concat('{\"k\": ', x + 0.0D, '}'), 'MAP<STRING, DOUBLE>')",
    "from_json(concat('{\"a\": ', x + 0.0D, ', \"b\": ', d, ', \"c\": \"', day, '\", \"d\": \"', ts, '\"}'), 'a DOUBLE, b DECIMAL(5,1), c DATE, d TIMESTAMP')",
    "from_json(concat('{\"a\": [{\"b\": ', n, '}, {\"b\": \"', id, '\"}], \"c\": ', m, '}'), 'a ARRAY<STRUCT<b: INT>>, c TINYINT')",
    "from_json(to_json(st), 'STRUCT<x: INT, y: STRING>')", "from_json(to_json(a), 'ARRAY<BIGINT>')", "from_json(to_json(sa), 'ARRAY<STRUCT<x: STRING, y: STRING>>')",
    "from_json('{\"a\": {\"b\": \"x\", \"c\": 1}}', 'a STRUCT<b: INT, c: INT>')",
    "from_json('[{\"a\": 1}, {\"a\": \"x\"}]', 'ARRAY<STRUCT<a: INT>>')", "from_json('{\"k\": {\"a\": \"x\"}}', 'MAP<STRING, STRUCT<a: INT>>')",
    "from_json('{\"a\": 1700000000, \"c\": \"2024-02\", \"d\": \"x\"}', 'a TIMESTAMP, c DATE, d TIMESTAMP_NTZ')",
    "from_json('{\"a\": -INF, \"b\": \"+Infinity\", \"c\": 1e400, \"d\": 1e39}', 'a DOUBLE, b FLOAT, c DOUBLE, d FLOAT')",
    "from_json('{\"a\": \" 5\", \"b\": \"1,5\", \"c\": \"0x1\", \"d\": 1e2}', 'a DECIMAL(5,1), b DECIMAL(5,1), c DECIMAL(5,1), d DECIMAL(5,1)')",
    "from_json('{\"a\": 12345678901234567890, \"b\": 1E2, \"c\": 1.5, \"d\": NaN}', 'a STRING, b STRING, c INT, d STRING')",
    "to_json(st)", "to_json(a)", "to_json(mp)", "to_json(sa)", "to_json(f)", "to_json(aa)", "to_json(w)", "to_json(named_struct('n', n, 's', s, 'd', d, 'x', x + 0.0D, 'day', day, 'ts', ts))",
    "to_json(map(n, d))", "to_json(map(day, b))", "to_json(array(x + 0.0D))", "to_json(array(CAST(x + 0.0D AS FLOAT)))", "to_json(array(binary(s)))",
    "schema_of_json('{\"a\": [1, 2.5], \"b\": {\"c\": null}}')", "schema_of_json('[{\"b\": 1}, {\"a\": \"x\", \"b\": 99999999999999999999}]')",
    "schema_of_json('{\"a\": [1, \"x\"], \"a b\": [], \"c\": [[1], [null]]}')", "schema_of_json('[1, {\"a\": 1}]')", "schema_of_json('{\"a\"')",
    # templates
    "format_string('%s|%5d|%-4d|%05d|%x', s, n, m, n, b)", "format_string('%.2f %8.1f %,.3f %e %g', x, x, x, x, x)", "printf('%s %s %s %s', x, d, n > 1, day)",
    "format_string('%+d % d (%(d) %,d', b, b, b, b)", "format_string(p, s)", "format_string('%2$s %1$s %s %<S', s, p)", "format_string('%c%%%n', n)",
    "format_string('%b %B %10b', n > 1, s, s)", "format_string('%d', x)", "format_string('%f', n)", "format_string('%s')", "format_string('%.3s|%10.2s', s, p)",
    "format_string('%o %X %#x', n, n, n)", "format_string('%.0f %.1f %10.3e %.3g', x / 3, y, x, y)", "format_string('%s %tY', n, n)", "format_string('%d %s', day, ts)",
    # URLs, pairs, codes
    *(f"parse_url(concat('http://u:p@', 'host.org:80/a/b?k=', id, '&n=v#f'), '{part}')" for part in ("HOST", "PATH", "QUERY", "REF", "PROTOCOL", "FILE", "AUTHORITY", "USERINFO", "X")),
    "parse_url(concat('http://h?k=', id, '&n=v'), 'QUERY', 'k')", "parse_url('http://h?k=1', 'QUERY', 'z')", "parse_url('http://h?k=1', 'HOST', 'k')", "parse_url(s, 'PATH')", "try_parse_url(s, 'PATH')", "try_parse_url(p, 'FILE')",
    "parse_url('http://a_b.c/x', 'HOST')", "parse_url('http://a_b.c/x', 'AUTHORITY')", "parse_url('mailto:a@b', 'PATH')", "parse_url('http://[::1]:80/', 'HOST')", "try_parse_url('http:///p', 'PATH')",
    "try_parse_url('http://', 'PATH')", "try_parse_url('1a:b', 'PATH')", "try_parse_url('http://1.2.3.4/x', 'HOST')", "try_parse_url('http://1.2.3/x', 'HOST')", "try_parse_url('http://h/[x]', 'PATH')", "try_parse_url('/a?b[c]', 'QUERY')",
    "str_to_map(s)", "str_to_map(s, 'b', 'a')", "str_to_map(concat('k:', n, ',j:', s))", "str_to_map('a=1&b=2', '&', '=')", "str_to_map('a1b2', '[0-9]')", "str_to_map(p, '', '')",
    "is_valid_utf8(s)", "is_valid_utf8(unhex('c3'))", "validate_utf8(s)", "try_validate_utf8(s)", "make_valid_utf8(s)", "to_base32(s)", "from_base32(to_base32(s)) = binary(s)", "hex(from_base32(s))", "hex(from_base32('nbswy3dpeb'))", "hex(from_base32('MZXW6YTB=OI'))",
    "bitmap_bucket_number(b)", "bitmap_bit_position(b)", "bitmap_bit_position(n * 40000)", "bitmap_bucket_number(n * 40000)", "bitmap_count(binary(s))", "jaro_winkler_similarity(s, p)", "jaro_winkler_similarity('dwayne', 'duane')", "jaro_winkler_similarity(s, 'abc')",
    "array_insert(a, 2, n)", "array_insert(a, n, 9)", "array_insert(a, -2, 9)", "array_insert(a, -9, NULL)", "array_insert(w, 7, s)", "array_insert(a, 0, 1)", "array_insert(aa, 1, a)", "array_insert(a, m - 3, 1.5D)",
    "hex(to_binary(s, 'utf-8'))", "hex(to_binary(s))", "hex(try_to_binary(s, 'hex'))", "hex(try_to_binary(s, 'base64'))", "hex(to_binary('YQ', 'BASE64'))",
    "convert_timezone('Europe/Paris', 'America/New_York', to_timestamp_ntz(ts))", "convert_timezone('UTC', 'Asia/Tokyo', to_timestamp_ntz(day))",
    "make_timestamp_ntz(2024, n, m, 1, 2, 3)", "try_make_timestamp(2024, n, m, 1, 2, d)", "try_make_timestamp_ntz(2024, 2, 29, n, m, d)", "try_make_timestamp_ltz(2024, 2, 29, 23, 59, 60.5)",
    "datepart('week', day)",
    "n >>> 1", "b >>> m", "n + 1 >>> m", "-8 >>> n", "(b >>> 1) | n", "n >>> 1 >>> 1", "d >>> 1", "s >>> 1",
    "if(n > 2, raise_error(concat('bad ', s)), n)", "if(n > 2, n, raise_error(s))", "coalesce(n, raise_error('none'))",
    "CASE WHEN n > 5 THEN 'big' WHEN n > 0 THEN raise_error(NULL) END", "CAST(assert_true(n > 0) AS INT)", "CAST(assert_true(n > 0, s) AS INT)", "coalesce(assert_true(n < 100), s)",
    *(f"{f}({_VECTOR}, {_VECTOR2})" for f in ("vector_inner_product", "vector_l2_distance", "vector_cosine_similarity")),
    *(f"{f}({_LONG}, reverse({_LONG}))" for f in ("vector_inner_product", "vector_l2_distance", "vector_cosine_similarity")),
    *(f"{f}({a})" for f in ("vector_norm", "vector_normalize") for a in (_VECTOR, _LONG, f"{_LONG}, 1.0F", f"{_LONG}, CAST('inf' AS FLOAT)", f"{_VECTOR}, CAST(m AS FLOAT)")),
    "vector_norm(array(3.0F, NULL))", "vector_normalize(array(0F, -0F), 1F)", "vector_l2_distance(CAST(array() AS ARRAY<FLOAT>), CAST(array() AS ARRAY<FLOAT>))",
    "vector_cosine_similarity(array(1.5F, -2F), array(0F, 0F))", "vector_inner_product(array(1e30F), array(1e30F))", "vector_normalize(array(1e-30F, 1e-45F))",
    *(f"from_csv({t}, 'a INT, b STRING')" for t in ("s", "p", "concat_ws(',', n, s)", "concat(n, ',\"', s, '\"')", "concat(n, ',\"', p, '\",x')")),
    "from_csv(concat_ws(',', s, d, y, day), 'a STRING, d DECIMAL(8,1), x DOUBLE, day DATE')", "from_csv(concat_ws(',', b, y, n = 3, ts), 'b BIGINT, x FLOAT, o BOOLEAN, ts TIMESTAMP')",
    "from_csv(concat_ws(',', x, n, d, s), 'n INT, b TINYINT, m SMALLINT, ts TIMESTAMP_NTZ')", "from_csv(s, 'b BINARY').b",
    *(f"transform({_READ}, v -> from_csv(v, 'a {k}').a)" for k in ("INT", "BIGINT", "TINYINT", "FLOAT", "DOUBLE", "DECIMAL(5,2)", "DECIMAL(38,0)", "BOOLEAN", "DATE", "TIMESTAMP", "TIMESTAMP_NTZ", "STRING")),
    "to_csv(struct(s, n, p))", "to_csv(struct(nvl(p, '')))", "to_csv(struct(nvl(n, 0)))", "to_csv(named_struct('a', d, 'y', y, 'f', CAST(y AS FLOAT), 'b', b))", "to_csv(named_struct('day', day, 'ts', ts, 'l', CAST(ts AS TIMESTAMP_NTZ)))",
    "to_csv(named_struct('o', n > 2, 'b', binary(p), 'i', ts - day, 'm', make_ym_interval(n)))", "to_csv(st)", "to_csv(if(n > 2, st, NULL))", "to_csv(named_struct('d', CAST(d / 100000000 AS DECIMAL(30,15)), 's', concat(' #', s, ' ')))",
    *(f"schema_of_csv('{t}')" for t in ("1,2.5,abc,,true", '1,"a,b",-7,2147483648', "2024-02-29,2024-02-30,2024-02-29 1:2:3,12:30", "5.,1e3, 1,0x1p3,NaN,Inf", "99999999999999999999,12345678901234567890123456789012345678,1.50,123456789012345678901234567890123456789")),
    *(f"time_bucket(interval {i}, {t})" for i in ("'15' minute", "'36' hour", "'7' day", "'5' month", "'1-1' year to month") for t in ("ts", "CAST(ts AS TIMESTAMP_NTZ)")),
    *(f"{f}(concat('<a x=\"', n, '\"><b>', x, '</b><b>', b, '</b>', s, '</a>'), '{p}')" for f in ("xpath_string", "xpath_double", "xpath_number", "xpath_float", "xpath_long", "xpath_int", "xpath_short", "xpath_boolean") for p in ("a/b", "a/b[2]", "a/@x", "sum(a/b[1])", "a/b > 2")),
    *(f"xpath(concat('<a x=\"', n, '\"><b>', x, '</b>', s, '</a>'), '{p}')" for p in ("a/b/text()", "a/@x", "a/text()", "a", "c")), "xpath(s, 'a')", "xpath_string(s, '')", "xpath_int(NULL, 'a')", "xpath_string('<a/>', concat('a', '/b'))", "xpath_string('<a>', 'a')", "xpath_boolean('<a/>', 'substring(\\'ab\\', 2, -1)')",
    "hex(hmac(s, p))", "hex(hmac(concat('k', p), s))", *(f"hex(hmac('key', s, '{a}'))" for a in ("SHA-224", "SHA-256", "SHA-384", "SHA-512", "SHA-1", "MD5", "sha1", "Sha512", "SHA224", "md5")), "hex(hmac(unhex('00ff'), binary(s)))", "hex(hmac(NULL, s))", "hex(hmac('', s))", "hex(hmac(repeat('k', 200), s))", "collation(s)", "collation(NULL)", "collation(concat(s, p))",
    *(f"time_bucket(interval {i}, ts, TIMESTAMP '2020-01-31 12:30:00')" for i in ("'7' second", "'3' day", "'1' month", "'2' year")), "time_bucket(NULL, ts)",
    # units of time, and times read by patterns
    *(f"timestampadd({u}, {n}, {t})" for u in ("MICROSECOND", "SECOND", "HOUR", "DAY", "WEEK", "MONTH", "QUARTER", "YEAR") for n, t in (("n", "ts"), ("-m", "day"))),
    *(f"timestampdiff({u}, {a}, {b})" for u in ("MILLISECOND", "MINUTE", "DAY", "MONTH", "QUARTER", "YEAR") for a, b in (("ts", "TIMESTAMP '2020-02-29 12:00:00'"), ("day", "ts"), ("CAST(ts AS TIMESTAMP_NTZ)", "day"))),
    "dateadd(DAY, n, day)", "date_add(MONTH, n, ts)", "dateadd(HOUR, n, CAST(ts AS TIMESTAMP_NTZ))", "datediff(WEEK, day, ts)", "date_diff(SECOND, day, ts)", "timestampadd(DAYOFYEAR, 1.5, ts)",
    *(f"{f}(date_format(ts, '{p}'), '{p}')" for f in ("to_timestamp", "to_date", "unix_timestamp", "try_to_timestamp") for p in ("yyyy-MM-dd HH:mm:ss.SSSSSS", "dd MMM yy hh:mm a", "yyyyMMddHHmm", "d/M/yyyy H:m:s")),
    *(f"{f}(s, 'yyyy-MM-dd')" for f in ("to_timestamp", "to_date", "try_to_timestamp", "try_to_date", "to_unix_timestamp")),
    "to_timestamp(date_format(ts, 'HH:mm'), 'HH:mm')", "to_timestamp('5 PM', 'h a')", "to_timestamp('7.25', 's.SSS')", "to_date('Feb 2024', 'MMM yyyy')", "to_timestamp('1-2-0003', 'd-M-yyyy')",
    "CAST(to_timestamp('-0044-03-15', 'yyyy-MM-dd') AS STRING)", "to_timestamp('+12024-03-15', 'yyyy-MM-dd') > ts", "try_to_timestamp('2024-02-30', 'yyyy-MM-dd')", "try_to_timestamp('24:00', 'HH:mm')", "try_to_timestamp('13 PM', 'hh a')",
    "to_timestamp(day, 'yyyy')", "to_timestamp_ntz('2024 5', 'yyyy M')", "to_timestamp_ltz('2024 5', 'yyyy M')", "unix_timestamp('2024-02-29 01:02:03')", "to_unix_timestamp('2024-02-29 01:02:03')", "unix_timestamp(ts, 'yyyy')", "split('hello', '', 3)", "split(s, '', 2)",
    # numbers to digits, times of zones, bytes
    *(f"{f}({a}, {k})" for f in ("ceil", "floor") for a, k in (("d", 1), ("d", -1), ("x", 2), ("n", -1), ("b", -3), ("d", 3), ("n", 2))),
    "make_timestamp(2024, n, m, 1, 2, d, 'Europe/Paris')", "try_make_timestamp(2024, n, m, 1, 2, 3, 'Asia/Tokyo')", "make_timestamp_ltz(2024, n, 1, 1, 2, 3, 'UTC')",
    "hex(X'0ab')", "X'6162' = binary(s)",
    *_REFUSED,
)  # fmt: skip


def refused() -> frozenset[str]:
    """Expressions of Spark that views do not have."""
    return frozenset(_REFUSED)


def main() -> None:
    from py4j.protocol import Py4JJavaError
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
            except (PySparkException, Py4JJavaError):
                listed = []
                for row in ROWS:
                    try:
                        listed += values(expression, f"WHERE id = {row[0]}")
                    except (PySparkException, Py4JJavaError) as error:
                        listed.append({"error": _error_class(error)})
            kind = column.dataType.simpleString().upper()
            answers[expression] = {"type": kind, "name": column.name, "values": listed}
        recorded = {"spark": session.version, "answers": answers}
    finally:
        session.stop()
    ANSWERS.write_text(json.dumps(recorded, indent=0, ensure_ascii=False) + "\n")


def _error_class(error: Exception) -> str:
    """Of Spark's classes, or the text's beginning; empty for what Java's Formatter raises."""
    if re.search(r"java\.util\.\w*Format\w*Exception|Format specifier", str(error)):
        return ""
    found = re.search(r"\[([A-Z_]+)", str(error))
    return found[1] if found else "" if "java.lang." in str(error) else str(error)[:80]


if __name__ == "__main__":
    main()
