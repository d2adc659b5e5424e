"""A broad table of constant expressions, each as Spark SQL and as planner.calculus.expr."""

# ruff: noqa: E501 - a table of data

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal

from planner.calculus import expr as e
from planner.calculus import types as t
from tests.operators.scalar_cases import call, decimal_result, lit

D = t.DecimalType
Case = tuple[str, e.Expr]

TEXTS = (
    "", " ", "1", " 12\t", "+7", "-0", "1.5", ".5", "1.", "1e3", "-1E-2", "1e400", "0x1p3", "1.5d", "2F",
    "NaN", "inf", "-Infinity", "true", "T", " no ", "maybe", "127", "128", "-129", "2147483648",
    "9223372036854775807", "9223372036854775808", "12345678901234567890123456789012345678901", "1_000",
    "0.005", "-0.005", "99999999.995", "abc", "2020", "2020-2", "2020-2-29", "2021-02-29", "2020-01-05 x",
    "2020-01-05T12", "2020-1-5 1:2:3", "2020-01-05 12:03:04.1234567", "2020-01-05T12:03:04Z",
    "2020-01-05 12:03:04+01:00", "2020-01-05 12:03:04 -3:30", "2020-01-05 12:03:04 UTC+1",
    "2020-07-05 12:03:04 Europe/Paris", "2020-01-05 12:03", "2020-01-05 24:00:00", "2020-01-05 12",
    "20200105", "123-01-01", "+12020-01-05", "-0044-03-15", "2020-13-01", "0000-01-01", "9999-12-31",
    "2020-01-05 12:03:04.", "2020-01-05 12:03:04.5 +0100", "1970-01-01 ", "Ｎ",
)  # fmt: skip
DOUBLES = (
    "0", "-0.0", "1", "-1.5", "2.5", "-2.5", "0.001", "0.0001", "1234567", "12345678", "1e7", "1e10",
    "1.005", "123456.789", "1e22", "9.3e18", "9.223372036854775807e18", "-9.3e18", "1e300", "5e-324", "127.9",
    "-128.9", "2147483647.9", "NaN", "Infinity", "-Infinity", "0.1", "1e-5",
)  # fmt: skip
LONGS = (0, 1, -1, 127, 128, -129, 32768, 2147483647, 2147483648, 2**63 - 1, -(2**63), 1577836800)
DECIMALS = (
    ("0.00", D(10, 2)), ("-0.05", D(10, 2)), ("99.50", D(10, 2)), ("-99.50", D(10, 2)),
    ("12345678.99", D(10, 2)), ("0.005", D(3, 3)), ("1.50", D(3, 2)), ("128", D(5, 0)),
    ("99999999999999999999999999999999999999", D(38, 0)), ("-0.000000000000000001", D(38, 18)),
    ("12345678901234567890.123456789012345678", D(38, 18)), ("9223372036854775808", D(20, 0)),
)  # fmt: skip
DATES = (
    "1970-01-01",
    "2020-02-29",
    "1999-12-31",
    "2021-01-03",
    "0001-01-01",
    "1582-10-10",
    "9999-12-31",
)
TIMES = (
    "1970-01-01 00:00:00", "2020-02-29 12:34:56.789", "1969-12-31 23:59:59.999999", "1900-01-01 00:00:01",
    "2021-12-31 23:59:59.5",
)  # fmt: skip
TARGETS = (
    t.BOOLEAN, t.TINYINT, t.SMALLINT, t.INT, t.BIGINT, t.FLOAT, t.DOUBLE, D(10, 2), D(38, 18), D(2, 0),
    D(20, 0), t.STRING, t.DATE, t.TIMESTAMP, t.TIMESTAMP_NTZ,
)  # fmt: skip


def text(value: str) -> Case:
    escaped = (
        value.replace("\\", "\\\\").replace("'", "\\'").replace("\t", "\\t").replace("\n", "\\n")
    )
    return f"'{escaped}'", lit(value, t.STRING)


def number(value: str, kind: t.SqlType) -> Case:
    literal = lit(float(value.replace("Infinity", "inf")), kind)
    return f"CAST('{value}' AS {kind})", literal


def integer(value: int, kind: t.SqlType) -> Case:
    return f"CAST('{value}' AS {kind})", lit(value, kind)


def exact(value: str, kind: t.DecimalType) -> Case:
    return f"CAST('{value}' AS {kind})", lit(Decimal(value), kind)


def date(value: str) -> Case:
    return f"DATE'{value}'", call("cast", lit(value, t.STRING), type=t.DATE)


def time(value: str, kind: t.SqlType = t.TIMESTAMP) -> Case:
    return f"{kind}'{value}'", call("cast", lit(value, t.STRING), type=kind)


def _cases() -> Iterator[Case]:
    yield from _casts()
    yield from _arithmetic()
    yield from _strings()
    yield from _dates()
    yield from _others()


def _casts() -> Iterator[Case]:
    sources: list[Case] = [text(v) for v in TEXTS]
    sources += [number(v, t.DOUBLE) for v in DOUBLES]
    sources += [
        number(v, t.FLOAT) for v in ("0.1", "1.1", "16777217", "NaN", "3.4e38", "-2147483648")
    ]
    sources += [integer(v, t.BIGINT) for v in LONGS]
    sources += [integer(v, t.TINYINT) for v in (-128, 0, 127)]
    sources += [exact(v, k) for v, k in DECIMALS]
    sources += [date(v) for v in DATES]
    sources += [time(v) for v in TIMES]
    sources += [time(v, t.TIMESTAMP_NTZ) for v in TIMES[:2]]
    sources += [("true", lit(True, t.BOOLEAN)), ("false", lit(False, t.BOOLEAN))]
    for sql, expr in sources:
        for target in TARGETS:
            if target != expr.type:
                yield f"CAST({sql} AS {target})", call("cast", expr, type=target)
    for sql, expr in (text("abc"), text("5"), number("NaN", t.DOUBLE), number("1e30", t.DOUBLE)):
        yield f"TRY_CAST({sql} AS INT)", call("try_cast", expr, type=t.INT)


SIGNS = {"add": "+", "subtract": "-", "multiply": "*", "divide": "/", "remainder": "%"}


def _arithmetic() -> Iterator[Case]:
    for a in (-(2**63), -7, 0, 5, 2**62, 2**63 - 1):
        for b in (-(2**63), -1, 0, 2, 2**63 - 1):
            (left, x), (right, y) = integer(a, t.BIGINT), integer(b, t.BIGINT)
            for function in ("add", "subtract", "multiply", "remainder"):
                yield f"({left} {SIGNS[function]} {right})", call(function, x, y, type=t.BIGINT)
            yield f"({left} div {right})", call("integral_divide", x, y, type=t.BIGINT)
    for a, b in ((127, 1), (-128, -1), (100, 28), (-128, 1), (64, 2)):
        (left, x), (right, y) = integer(a, t.TINYINT), integer(b, t.TINYINT)
        for function in ("add", "subtract", "multiply"):
            yield f"({left} {SIGNS[function]} {right})", call(function, x, y, type=t.TINYINT)
    for kind, values in ((t.BIGINT, (5, -(2**63))), (t.TINYINT, (-128, 127))):
        for value in values:
            sql, x = integer(value, kind)
            yield f"(- {sql})", call("negate", x, type=kind)
            yield f"abs({sql})", call("abs", x, type=kind)
            yield f"round({sql}, -1)", call("round", x, lit(-1, t.INT), type=kind)
    for a_text in ("0", "-0.0", "1.5", "NaN", "Infinity", "-3"):
        for b_text in ("0", "2", "NaN", "-Infinity", "-0.7"):
            (left, x), (right, y) = number(a_text, t.DOUBLE), number(b_text, t.DOUBLE)
            for function, sign in SIGNS.items():
                yield f"({left} {sign} {right})", call(function, x, y, type=t.DOUBLE)
            yield f"power({left}, {right})", call("power", x, y, type=t.DOUBLE)
            for function in ("greatest", "least"):
                yield f"{function}({left}, {right})", call(function, x, y, type=t.DOUBLE)
            for function, sign in (("eq", "="), ("lt", "<"), ("ge", ">="), ("eq_null_safe", "<=>")):
                yield f"({left} {sign} {right})", call(function, x, y, type=t.BOOLEAN)
    wide = (
        ("12345678901234567890.123456789012345678", D(38, 18)),
        ("-0.333333333333333333", D(38, 18)),
        ("99999999999999999999999999999999999999", D(38, 0)),
        ("1.0000000005", D(38, 10)),
        ("4444444444.44444444449999999995", D(38, 20)),
        ("1234.56", D(15, 2)),
        ("-0.06", D(15, 2)),
        ("3", D(10, 0)),
        ("0.00", D(15, 2)),
    )
    for a_value, a_type in wide:
        for b_value, b_type in wide:
            (left, x), (right, y) = exact(a_value, a_type), exact(b_value, b_type)
            for function, sign in SIGNS.items():
                result = decimal_result(function, a_type, b_type)
                yield f"({left} {sign} {right})", call(function, x, y, type=result)
            yield f"({left} div {right})", call("integral_divide", x, y, type=t.BIGINT)
    for value, kind in DECIMALS:
        sql, x = exact(value, kind)
        yield f"(- {sql})", call("negate", x, type=kind)
        whole = t.bounded_decimal(kind.precision - kind.scale + (kind.scale > 0), 0)
        rounded = t.bounded_decimal(kind.precision - kind.scale + 1, 0)
        for function in ("floor", "ceil"):
            yield f"{function}({sql})", call(function, x, type=whole)
        yield f"round({sql}, 0)", call("round", x, lit(0, t.INT), type=rounded)
    for value in DOUBLES:
        sql, x = number(value, t.DOUBLE)
        for function in ("floor", "ceil"):
            yield f"{function}({sql})", call(function, x, type=t.BIGINT)
        for digits in (0, 2, -1):
            yield f"round({sql}, {digits})", call("round", x, lit(digits, t.INT), type=t.DOUBLE)
        yield f"sqrt({sql})", call("sqrt", x, type=t.DOUBLE)


def _strings() -> Iterator[Case]:
    words = (
        "",
        "abc",
        "  ab ",
        "héllo wörld",
        "日本語",
        "😀x",
        "Straße",
        "ΑΣ Σ",
        "İ",
        "a_b%c",
        "x\ny",
        "\tz\t",
    )
    for sql, x in map(text, words):
        for function, name in (
            ("upper", "upper"), ("lower", "lower"), ("trim", "trim"), ("ltrim", "ltrim"), ("rtrim", "rtrim"),
        ):  # fmt: skip
            yield f"{name}({sql})", call(function, x, type=t.STRING)
        yield f"length({sql})", call("length", x, type=t.INT)
        for start, count in (
            (1, 2),
            (0, 2),
            (2, 1),
            (-2, 1),
            (-9, 8),
            (-9, 3),
            (2, -1),
            (3, 2**31 - 1),
        ):
            args = (lit(start, t.INT), lit(count, t.INT))
            yield f"substring({sql}, {start}, {count})", call("substring", x, *args, type=t.STRING)
        for pattern in ("", "%", "a%", "%c", "%b%", "_b_", "__", "a!_b!%c", "%!%%", "x_y"):
            args = (lit(pattern, t.STRING), lit("!", t.STRING))
            yield f"({sql} LIKE '{pattern}' ESCAPE '!')", call("like", x, *args, type=t.BOOLEAN)
        for regex in ("^a", "b.?$", "[lä]+", "x.y"):
            yield f"({sql} RLIKE '{regex}')", call("rlike", x, lit(regex, t.STRING), type=t.BOOLEAN)
        for part in (0, 1, 2, -1, -3):
            args = (lit("b", t.STRING), lit(part, t.INT))
            yield f"split_part({sql}, 'b', {part})", call("split_part", x, *args, type=t.STRING)
        args = (lit("", t.STRING), lit(1, t.INT))
        yield f"split_part({sql}, '', 1)", call("split_part", x, *args, type=t.STRING)
        args = (lit("b", t.STRING), lit("éé", t.STRING))
        yield f"replace({sql}, 'b', 'éé')", call("replace", x, *args, type=t.STRING)
        args = (lit("", t.STRING), lit("z", t.STRING))
        yield f"replace({sql}, '', 'z')", call("replace", x, *args, type=t.STRING)
        for function, name in (
            ("starts_with", "startswith"),
            ("ends_with", "endswith"),
            ("contains", "contains"),
        ):
            for needle in ("", "a", "c"):
                yield (
                    f"{name}({sql}, '{needle}')",
                    call(function, x, lit(needle, t.STRING), type=t.BOOLEAN),
                )
        for other, y in map(text, ("abc", "é", "ab", "")):
            yield f"({sql} < {other})", call("lt", x, y, type=t.BOOLEAN)
    null = lit(None, t.STRING)
    yield (
        "concat('a', CAST(NULL AS STRING))",
        call("concat", lit("a", t.STRING), null, type=t.STRING),
    )
    yield (
        "('a' IN ('b', CAST(NULL AS STRING)))",
        call("in", lit("a", t.STRING), lit("b", t.STRING), null, type=t.BOOLEAN),
    )


def _dates() -> Iterator[Case]:
    parts = {
        "year": "year", "quarter": "quarter", "month": "month", "day": "day", "day_of_week": "dayofweek",
        "day_of_year": "dayofyear", "week": "weekofyear",
    }  # fmt: skip
    for sql, x in [date(v) for v in DATES] + [time(v) for v in TIMES]:
        for function, name in parts.items():
            yield f"{name}({sql})", call(function, x, type=t.INT)
    for sql, x in map(time, TIMES):
        for function in ("hour", "minute", "second"):
            yield f"{function}({sql})", call(function, x, type=t.INT)
        for (
            unit
        ) in "year quarter month mm week day hour minute second millisecond microsecond no".split():
            yield (
                f"date_trunc('{unit}', {sql})",
                call("date_trunc", lit(unit, t.STRING), x, type=t.TIMESTAMP),
            )
        for months in (1, -11):
            yield (
                f"({sql} + INTERVAL '{months}' MONTH)",
                call("add_months", x, lit(months, t.INT), type=t.TIMESTAMP),
            )
        micros = lit(-90 * 60_000_000, t.INTERVAL_MICROSECONDS)
        yield (
            f"({sql} - INTERVAL '90' MINUTE)",
            call("add_microseconds", x, micros, type=t.TIMESTAMP),
        )
    for sql, x in map(date, DATES):
        for unit in "year quarter mon week day".split():
            yield f"trunc({sql}, '{unit}')", call("date_trunc", lit(unit, t.STRING), x, type=t.DATE)
        for months in (1, -1, 12, 13):
            yield (
                f"add_months({sql}, {months})",
                call("add_months", x, lit(months, t.INT), type=t.DATE),
            )
        yield f"date_add({sql}, 60)", call("date_add", x, lit(60, t.INT), type=t.DATE)
        other, y = date("2000-01-01")
        yield f"datediff({sql}, {other})", call("date_diff", x, y, type=t.INT)


def _others() -> Iterator[Case]:
    boolean = {"true": True, "false": False, "CAST(NULL AS BOOLEAN)": None}
    for a, x in boolean.items():
        for b, y in boolean.items():
            left, right = lit(x, t.BOOLEAN), lit(y, t.BOOLEAN)
            for function, word in (
                ("and", "AND"),
                ("or", "OR"),
                ("eq", "="),
                ("eq_null_safe", "<=>"),
            ):
                yield f"({a} {word} {b})", call(function, left, right, type=t.BOOLEAN)
        yield f"(NOT {a})", call("not", lit(x, t.BOOLEAN), type=t.BOOLEAN)
    failing = call("integral_divide", lit(1, t.BIGINT), lit(0, t.BIGINT), type=t.BIGINT)
    bad = call("gt", failing, lit(1, t.BIGINT), type=t.BOOLEAN)
    no, yes, null = (lit(v, t.BOOLEAN) for v in (False, True, None))
    sql = "(1L div 0L > 1L)"
    yield f"(false AND {sql})", call("and", no, bad, type=t.BOOLEAN)
    yield f"(true AND {sql})", call("and", yes, bad, type=t.BOOLEAN)
    yield f"(CAST(NULL AS BOOLEAN) AND {sql})", call("and", null, bad, type=t.BOOLEAN)
    yield f"({sql} AND false)", call("and", bad, no, type=t.BOOLEAN)
    yield f"(true OR {sql})", call("or", yes, bad, type=t.BOOLEAN)
    yield "coalesce(2L, 1L div 0L)", call("coalesce", lit(2, t.BIGINT), failing, type=t.BIGINT)
    yield (
        "CASE WHEN false THEN 1L div 0L ELSE 3L END",
        call("case", no, failing, lit(3, t.BIGINT), type=t.BIGINT),
    )
    yield (
        "CASE WHEN true THEN 1L div 0L ELSE 3L END",
        call("case", yes, failing, lit(3, t.BIGINT), type=t.BIGINT),
    )


CASES: tuple[Case, ...] = tuple(dict(_cases()).items())
