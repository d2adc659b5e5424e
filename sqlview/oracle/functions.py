"""Functions that DuckDB lacks, or has with another meaning or name, for the oracle alone.

`Databricks` as sqlglot reads it changes some calls into others' shapes (formats of dates into those
of C, LOCATE into INSTR); those of `BY_NAME` stay as they were written, and `rewritten` says what
stands for each in DuckDB, and its type.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import ClassVar

from sqlglot import exp
from sqlglot.dialects.databricks import Databricks
from sqlglot.parsers.databricks import DatabricksParser

from planner.bind.lambdas import LAMBDAS
from planner.bind.library import FORMS
from planner.calculus import types as t
from planner.calculus.library import LIBRARY
from planner.parse.shifts import UnsignedShifts
from sqlview.oracle.protocol import CannotSay

BY_NAME = frozenset(
    "LPAD RPAD REPEAT REVERSE SPACE INSTR LOCATE TRANSLATE ASCII CONCAT_WS SUBSTRING_INDEX EXP LN "
    "LOG LOG10 LOG2 CBRT RINT DEGREES RADIANS PI NEXT_DAY DATE_FORMAT DAYNAME MONTHNAME UNIX_DATE "
    "DATE_FROM_UNIX_DATE TO_DATE TO_TIMESTAMP TRY_ADD TRY_SUBTRACT TRY_MULTIPLY TRY_DIVIDE "
    "SHIFTLEFT SHIFTRIGHT BIT_COUNT BIT_GET GETBIT NANVL EQUAL_NULL ELT SHA TO_UNIX_TIMESTAMP "
    "FROM_UNIXTIME FROM_UTC_TIMESTAMP TO_UTC_TIMESTAMP TYPEOF EXPLODE EXPLODE_OUTER POSEXPLODE "
    "POSEXPLODE_OUTER INLINE INLINE_OUTER STACK ELEMENT_AT TRY_ELEMENT_AT SEQUENCE TRANSFORM "
    "FILTER AGGREGATE REDUCE ARRAY_SORT ARRAYS_ZIP "
    "JSON_TUPLE PRINTF TO_BINARY TRY_TO_BINARY CONVERT_TIMEZONE DATEPART "
    "TRY_MAKE_TIMESTAMP_LTZ XXHASH64 HASH ARRAY_APPEND ARRAY_PREPEND TO_VARCHAR COLLATION".split()
) | {name.upper() for name in LIBRARY}


_SAME = frozenset("sin cos tan asin acos atan sinh cosh tanh asinh atan2".split())
#: Functions that Spark alone computes as views do, but for what `_nested` says of some of them.
BY_SPARK = (
    LIBRARY.keys()
    | FORMS.keys()
    | LAMBDAS.keys()
    | {
        "arrays_zip",
        *("from_unixtime", "from_utc_timestamp", "to_utc_timestamp"),
        *("convert_timezone", "datepart", "to_varchar", "unix_timestamp", "to_unix_timestamp"),
        *("to_timestamp_ltz", "to_timestamp_ntz", "try_to_date", "try_to_timestamp"),
        *("make_ym_interval", "make_dt_interval", "assert_true", "time_bucket", "xpath_number"),
    }
) - _SAME
_BITS = (
    *(exp.BitwiseAnd, exp.BitwiseOr, exp.BitwiseXor, exp.BitwiseNot, exp.BitwiseLeftShift),
    *(exp.BitwiseRightShift, exp.Overlay, exp.Decode, exp.DecodeCase),
)


class Spoken(Databricks):
    """Databricks SQL, with the functions of BY_NAME as they were written."""

    class Parser(UnsignedShifts, DatabricksParser):
        FUNCTIONS: ClassVar = {
            name: build for name, build in DatabricksParser.FUNCTIONS.items() if name not in BY_NAME
        }
        NO_PAREN_FUNCTION_PARSERS: ClassVar = {
            name: parse
            for name, parse in DatabricksParser.NO_PAREN_FUNCTION_PARSERS.items()
            if name not in BY_NAME
        }


#: Letters whose case DuckDB does not map as Spark, as in a character class. All of Greek Extended
#: and of the ligatures are in it, as most of them are such.
LONG_CAPITALS = "\u00df\u0149\u01f0\u0390\u03b0\u0587\u1e96-\u1e9a\u1f00-\u1fff\ufb00-\ufb17"
ODD_SMALL = "\u0130\u03a3"
TITLES = "\u01c4-\u01cc\u01f1-\u01f3"

#: Any NULL gives NULL unless a macro says otherwise. Strings are counted in code points.
FUNCTION_MACROS = (
    """CREATE MACRO sqlview_fill(s, n, p) AS substr(repeat(p, n), 1, n - length(s))""",
    """CREATE MACRO sqlview_lpad(s, n, p) AS CASE
       WHEN s IS NULL OR n IS NULL OR p IS NULL THEN NULL
       WHEN n <= length(s) OR p = '' THEN substr(s, 1, greatest(n, 0))
       ELSE sqlview_fill(s, n, p) || s END""",
    """CREATE MACRO sqlview_rpad(s, n, p) AS CASE
       WHEN s IS NULL OR n IS NULL OR p IS NULL THEN NULL
       WHEN n <= length(s) OR p = '' THEN substr(s, 1, greatest(n, 0))
       ELSE s || sqlview_fill(s, n, p) END""",
    """CREATE MACRO sqlview_repeat(s, n) AS
       CASE WHEN n IS NULL THEN NULL ELSE repeat(s, greatest(n, 0)) END""",
    """CREATE MACRO sqlview_reverse(s) AS CASE WHEN s IS NULL THEN NULL ELSE
       array_to_string(list_reverse(regexp_extract_all(s, '(?s).')), '') END""",
    """CREATE MACRO sqlview_pattern(s, p, valid) AS CASE
       WHEN s IS NULL OR p IS NULL OR regexp_full_match(p, valid) THEN p
       ELSE error('invalid LIKE pattern') END""",
    # Letters whose other case is several letters, another one at the end of a word, or a title's
    # own, are left to Spark.
    """CREATE MACRO sqlview_letters(s, other) AS CASE WHEN regexp_matches(s, other)
       THEN error('cannot say: the case of such a letter') ELSE s END""",
    f"CREATE MACRO sqlview_upper(s) AS upper(sqlview_letters(s, '[{LONG_CAPITALS}]'))",
    f"CREATE MACRO sqlview_lower(s) AS lower(sqlview_letters(s, '[{ODD_SMALL}]'))",
    f"CREATE MACRO sqlview_small(s) AS sqlview_letters(s, '[{ODD_SMALL}]')",
    f"""CREATE MACRO sqlview_initcap(s) AS CASE WHEN s IS NULL THEN NULL ELSE array_to_string(
       list_transform(str_split(lower(
       sqlview_letters(s, '[{LONG_CAPITALS}{ODD_SMALL}{TITLES}]')), ' '),
       lambda w: upper(w[1:1]) || w[2:]), ' ') END""",
    """CREATE MACRO sqlview_locate(part, s, start) AS CASE
       WHEN start IS NULL THEN 0
       WHEN part IS NULL OR s IS NULL THEN NULL
       WHEN start < 1 THEN 0
       WHEN part = '' THEN 1
       WHEN strpos(substr(s, start), part) = 0 THEN 0
       ELSE strpos(substr(s, start), part) + start - 1 END""",
    """CREATE MACRO sqlview_left(s, n) AS
       CASE WHEN n IS NULL THEN NULL ELSE left(s, greatest(n, 0)) END""",
    """CREATE MACRO sqlview_right(s, n) AS
       CASE WHEN n IS NULL THEN NULL ELSE right(s, greatest(n, 0)) END""",
    "CREATE MACRO sqlview_ascii(s) AS CASE WHEN s = '' THEN 0 ELSE unicode(s) END",
    """CREATE MACRO sqlview_chr(n) AS
       CASE WHEN n < 0 THEN '' ELSE chr(CAST(n & 255 AS INTEGER)) END""",
    """CREATE MACRO sqlview_width(parts, n, d) AS CAST(
       list_sum(list_transform(parts, lambda w: length(w))) + (n - 1) * length(d) AS BIGINT)""",
    """CREATE MACRO sqlview_substring_index(s, d, n) AS CASE
       WHEN s IS NULL OR d IS NULL OR n IS NULL THEN NULL
       WHEN d = '' OR n = 0 THEN ''
       WHEN len(str_split(s, d)) <= abs(n) THEN s
       WHEN n > 0 THEN left(s, sqlview_width(str_split(s, d)[1:n], n, d))
       ELSE right(s, sqlview_width(str_split(s, d)[n:], -n, d)) END""",
    "CREATE MACRO sqlview_ln(x) AS CASE WHEN x > 0 THEN ln(x) END",
    "CREATE MACRO sqlview_log10(x) AS CASE WHEN x > 0 THEN log10(x) END",
    "CREATE MACRO sqlview_log2(x) AS CASE WHEN x > 0 THEN log2(x) END",
    "CREATE MACRO sqlview_log(b, x) AS CASE WHEN b > 0 AND x > 0 THEN ln(x) / ln(b) END",
    """CREATE MACRO sqlview_log1p(x) AS CASE WHEN abs(x) < 1e-5 THEN x - x * x / 2 + x * x * x / 3
       WHEN x > -1 THEN ln(1 + x) END""",
    """CREATE MACRO sqlview_expm1(x) AS CASE WHEN abs(x) < 1e-5 THEN x + x * x / 2 + x * x * x / 6
       ELSE exp(x) - 1 END""",
    "CREATE MACRO sqlview_pmod(a, b) AS CASE WHEN a % b < 0 THEN (a % b + b) % b ELSE a % b END",
    """CREATE MACRO sqlview_second(ts) AS CAST(CAST(
       (epoch_us(ts) % 60000000 + 60000000) % 60000000 AS DECIMAL(18,0))
       * CAST('0.000001' AS DECIMAL(7,6)) AS DECIMAL(8,6))""",
    """CREATE MACRO sqlview_next_day(day, n) AS
       CAST(day + CAST((n + 7 - dayofweek(day) - 1) % 7 + 1 AS INTEGER) AS DATE)""",
)

_WEEKDAYS = {name: i for i, name in enumerate("SU MO TU WE TH FR SA".split())}

#: Spark's name -> DuckDB's, the types of the arguments (the last for all after it), the result's.
_CALLS: dict[str, tuple[str, tuple[t.SqlType, ...], t.SqlType]] = {
    "lpad": ("sqlview_lpad", (t.STRING, t.INT, t.STRING), t.STRING),
    "rpad": ("sqlview_rpad", (t.STRING, t.INT, t.STRING), t.STRING),
    "repeat": ("sqlview_repeat", (t.STRING, t.INT), t.STRING),
    "reverse": ("sqlview_reverse", (t.STRING,), t.STRING),
    "translate": ("translate", (t.STRING,), t.STRING),
    "ascii": ("sqlview_ascii", (t.STRING,), t.INT),
    "substring_index": ("sqlview_substring_index", (t.STRING, t.STRING, t.INT), t.STRING),
    "exp": ("exp", (t.DOUBLE,), t.DOUBLE),
    "expm1": ("sqlview_expm1", (t.DOUBLE,), t.DOUBLE),
    "ln": ("sqlview_ln", (t.DOUBLE,), t.DOUBLE),
    "log10": ("sqlview_log10", (t.DOUBLE,), t.DOUBLE),
    "log2": ("sqlview_log2", (t.DOUBLE,), t.DOUBLE),
    "log1p": ("sqlview_log1p", (t.DOUBLE,), t.DOUBLE),
    "cbrt": ("cbrt", (t.DOUBLE,), t.DOUBLE),
    "degrees": ("degrees", (t.DOUBLE,), t.DOUBLE),
    "radians": ("radians", (t.DOUBLE,), t.DOUBLE),
    "pi": ("pi", (), t.DOUBLE),
    "make_date": ("make_date", (t.BIGINT,), t.DATE),
}


_Typed = tuple[t.SqlType | None, exp.Expr | None]
_SECONDS = ("SECOND", "SECONDS", "SEC", "SECS", "S")


_KINDS = (
    *(exp.Anonymous, exp.Left, exp.Right, exp.StrPosition, exp.Chr),
    *(exp.Initcap, exp.Upper, exp.Lower),
    *_BITS,
)


def is_rewritten(node: exp.Expr) -> bool:
    """Whether `rewritten` has to do with the node."""
    if isinstance(node, exp.Extract):
        return node.name.upper() in _SECONDS
    return isinstance(node, _KINDS)


def rewritten(node: exp.Expr, of: Callable[[exp.Expr], t.SqlType | None]) -> _Typed:
    """Spark's type of a call, and what stands for it in DuckDB (None: the call itself).

    `of`: the types of the arguments.
    """
    match node:
        case _ if isinstance(node, _BITS):
            raise CannotSay(f"{type(node).__name__} is computed by Spark alone")
        case exp.Extract():
            return t.DecimalType(8, 6), _call("sqlview_second", node.expression.copy())
        case exp.Left() | exp.Right():
            name = "sqlview_left" if isinstance(node, exp.Left) else "sqlview_right"
            text, count = node.this.copy(), node.expression.copy()
            return t.STRING, _call(name, _cast(text, t.STRING), _cast(count, t.INT))
        case exp.StrPosition():
            part, start = node.args["substr"].copy(), node.args.get("position")
            return t.INT, _located(part, node.this.copy(), start and start.copy())
        case exp.Chr():
            code = _cast(node.expressions[0].copy(), t.BIGINT)
            return t.STRING, _call("sqlview_chr", code)
        case exp.Initcap() | exp.Upper() | exp.Lower():
            name = f"sqlview_{type(node).__name__.lower()}"
            return t.STRING, _call(name, _cast(node.this.copy(), t.STRING))
        case _:
            return _named(node, [of(a) for a in node.expressions])


def _named(node: exp.Expr, kinds: list[t.SqlType | None]) -> _Typed:
    """A call of a function that stays by its name."""
    name, args = node.name.lower(), [a.copy() for a in node.expressions]
    if name in _SAME:
        return t.DOUBLE, _call(name, *(_cast(a, t.DOUBLE) for a in args))
    nested = _nested(name, args, kinds)
    if nested is not None:
        return nested
    if name in BY_SPARK:
        raise CannotSay(f"{name} is computed by Spark alone")
    if name in ("lpad", "rpad") and len(args) == 2:
        args.append(exp.Literal.string(" "))
    if name in _CALLS:
        duckdb_name, takes, kind = _CALLS[name]
        cast = [_cast(a, takes[min(i, len(takes) - 1)]) for i, a in enumerate(args)]
        return kind, _call(duckdb_name, *cast)
    match name, args:
        case "space", [times]:
            return t.STRING, _call("sqlview_repeat", exp.Literal.string(" "), _cast(times, t.INT))
        case "instr", [text, part]:
            return t.INT, _located(part, text, None)
        case "locate", [part, text, *rest]:
            return t.INT, _located(part, text, rest[0] if rest else None)
        case "concat_ws", [separator, *parts]:
            joined = _call("concat_ws", *(_cast(p, t.STRING) for p in (separator, *parts)))
            nothing = exp.Literal.string("")
            empty = exp.If(this=_is_null(separator), true=exp.Null(), false=nothing)
            return t.STRING, joined if parts else empty
        case "log", [value]:
            return t.DOUBLE, _call("sqlview_ln", _cast(value, t.DOUBLE))
        case "log", [base, value]:
            return t.DOUBLE, _call("sqlview_log", _cast(base, t.DOUBLE), _cast(value, t.DOUBLE))
        case "rint", [value]:
            rounded = _call("round_even", _cast(value, t.DOUBLE), exp.Literal.number(0))
            return t.DOUBLE, _cast(rounded, t.DOUBLE)
        case "e", []:
            return t.DOUBLE, _call("exp", exp.Literal.number("1e0"))
        case "next_day", [day, weekday]:
            number = exp.Literal.number(_WEEKDAYS.get(weekday.name.strip().upper()[:2], 0))
            return t.DATE, _call("sqlview_next_day", _cast(day, t.DATE), number)
        case "dayname", [day]:
            return t.STRING, _written(_cast(day, t.DATE), "E")
        case "monthname", [day]:
            return t.STRING, _written(_cast(day, t.DATE), "MMM")
        case "date_format", [value, pattern]:
            moment = value if kinds[0] != t.STRING else _cast(value, t.TIMESTAMP_NTZ)
            return t.STRING, _written(moment, pattern.name)
        case "unix_date", [day]:
            since = exp.Sub(this=_cast(day, t.DATE), expression=_epoch())
            return t.INT, _cast(exp.paren(since), t.INT)
        case "date_from_unix_date", [days]:
            return t.DATE, _cast(exp.Add(this=_epoch(), expression=_cast(days, t.INT)), t.DATE)
        case "to_date", [value, pattern] if kinds[0] == t.STRING:
            if not _OF_DAYS.fullmatch(pattern.name):
                raise CannotSay("texts are read by this pattern by Spark alone")
            return t.DATE, _cast(_call("strptime", value, _read(pattern.name)), t.DATE)
        case "to_date", [value, *_]:
            return t.DATE, _cast(value, t.DATE)
        case "to_timestamp", [_, _] if kinds[0] == t.STRING:
            raise CannotSay("texts are read by this pattern by Spark alone")
        case "to_timestamp", [value, *_]:
            return t.TIMESTAMP, _cast(value, t.TIMESTAMP)
        case "binary", [value]:
            return t.BINARY, _call("encode", _cast(value, t.STRING))
        case "decimal", [value]:
            return t.DecimalType(10, 0), _cast(value, t.DecimalType(10, 0))
        case _:
            return None, None


def _nested(name: str, args: list[exp.Expr], kinds: list[t.SqlType | None]) -> _Typed | None:
    """A function of arrays or maps that DuckDB has as well; None for another."""
    first = kinds[0] if kinds else None
    match name, args:
        case "unnest", [_]:
            if isinstance(first, t.MapType):
                raise CannotSay("EXPLODE of a map without two names is computed by Spark alone")
            return (first.element if isinstance(first, t.ArrayType) else None), None
        case "range" | "len" | "map_keys" | "map_values", _:
            key = 0 if name == "map_keys" else 1
            parts = t.parts_of(first) if isinstance(first, t.MapType) else ()
            kind = t.ArrayType(parts[key]) if parts else None
            return (kind if name.startswith("map") else None), None
        case "size" | "cardinality" | "array_size", [value]:
            size = "cardinality" if isinstance(first, t.MapType) else "len"
            return t.INT, _cast(_call(size, value), t.INT)
        case "get", [value, index] if isinstance(first, t.ArrayType):
            one = exp.Add(this=exp.paren(index.copy()), expression=exp.Literal.number(1))
            inside = exp.GTE(this=exp.paren(index), expression=exp.Literal.number(0))
            found = _call("list_extract", value, one)
            return first.element, exp.Case(ifs=[exp.If(this=inside, true=found)])
        case _:
            return None


def _located(part: exp.Expr, text: exp.Expr, start: exp.Expr | None) -> exp.Expr:
    """LOCATE(part, text, start)."""
    first = exp.Literal.number(1) if start is None else _cast(start, t.INT)
    return _call("sqlview_locate", _cast(part, t.STRING), _cast(text, t.STRING), first)


#: Letters of a format -> what strftime has for them.
_DIRECTIVES = {
    "y": "%Y", "yyyy": "%Y", "yy": "%y", "M": "%-m", "L": "%-m", "MM": "%m", "LL": "%m",
    "MMM": "%b", "MMMM": "%B", "d": "%-d", "dd": "%d", "D": "%-j", "DDD": "%j",
    "E": "%a", "EE": "%a", "EEE": "%a", "EEEE": "%A", "H": "%-H", "HH": "%H", "h": "%-I",
    "hh": "%I", "m": "%-M", "mm": "%M", "s": "%-S", "ss": "%S", "a": "%p",
}  # fmt: skip
_LETTERS = re.compile(r"([A-Za-z])\1*|'((?:[^']|'')*)'|[^A-Za-z']+")


def _written(moment: exp.Expr, pattern: str) -> exp.Expr:
    """date_format: the pieces of the format, joined."""
    pieces: list[exp.Expr] = []
    for found in _LETTERS.finditer(pattern):
        word = found[0]
        if found[1] is None:
            quoted = found[2]
            literal = word if quoted is None else quoted.replace("''", "'") or "'"
            pieces.append(exp.Literal.string(literal))
        elif found[1] == "S":
            digits = exp.Concat(
                expressions=[_strftime(moment, "%f"), exp.Literal.string("000")], safe=False
            )
            start, width = exp.Literal.number(1), exp.Literal.number(len(word))
            pieces.append(_call("substr", digits, start, width))
        elif found[1] in "qQ":
            quarter = _cast(_call("quarter", moment.copy()), t.STRING)
            pieces += [exp.Literal.string("0")] * (len(word) - 1) + [quarter]
        else:
            pieces.append(_strftime(moment, _DIRECTIVES[word]))
    return exp.Concat(expressions=[exp.Literal.string(""), *pieces], safe=False)


def _strftime(moment: exp.Expr, directive: str) -> exp.Expr:
    return _call("strftime", moment.copy(), exp.Literal.string(directive))


#: What DuckDB reads as Spark does.
_OF_DAYS = re.compile(r"(?:yyyy|M{1,2}(?!M)|d{1,2}(?!d)|[^A-Za-z])+")


def _read(pattern: str) -> exp.Expr:
    directives = {"yyyy": "%Y", "MM": "%m", "M": "%m", "dd": "%d", "d": "%d"}
    return exp.Literal.string(
        _LETTERS.sub(lambda found: directives.get(found[0], found[2] or found[0]), pattern)
    )


def _epoch() -> exp.Expr:
    return _cast(exp.Literal.string("1970-01-01"), t.DATE)


def _is_null(value: exp.Expr) -> exp.Expr:
    return exp.Is(this=exp.paren(value), expression=exp.Null())


def _call(name: str, *args: exp.Expr) -> exp.Expr:
    return exp.Anonymous(this=name, expressions=list(args))


def _cast(node: exp.Expr, kind: t.SqlType) -> exp.Expr:
    return exp.Cast(this=node, to=exp.DataType.build(str(kind), dialect="databricks"))
