"""Function calls that the parser leaves by their name: `planner.parse.queries` says which.

One entry of `NAMED` for each name, with the number of arguments that it takes. Functions that are
others in disguise (PMOD, NEXT_DAY, ZEROIFNULL) are built here; `planner.calculus.functions` knows
the types.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from sqlglot import exp

from planner.bind import lambdas, library, nested
from planner.bind.buckets import time_bucket
from planner.bind.lambdas import LAMBDAS, Variables
from planner.bind.naming import not_true
from planner.bind.report import Refusal, Report
from planner.bind.tables import EXTRACT
from planner.calculus import coercion, functions, intervals, types, xpaths
from planner.calculus.expr import Expr, Literal
from planner.calculus.library import LIBRARY
from planner.calculus.types import (
    DATE,
    DOUBLE,
    INT,
    INTERVAL_MICROSECONDS,
    INTERVAL_MONTHS,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    DateType,
    IntervalType,
    NullType,
    SqlType,
    StringType,
    TimestampType,
)
from planner.calculus.xpaths import Kind
from planner.errors import SqlViewError
from planner.parse.tokens import shortened


class Binder(Protocol):
    """What a function needs of the binder of its clause."""

    report: Report

    def bind(self, node: exp.Expression) -> Expr:
        """The bound argument."""

    def argument(self, node: exp.Expression, name: str) -> Expr:
        """The argument of that name, which must be there."""

    @property
    def base(self) -> Literal:
        """The number of the first variable of a lambda that is written here."""

    def body(self, node: exp.Expression, kinds: Variables, least: int) -> Expr:
        """The body of a lambda."""

    def clock(self, node: exp.Expression) -> Expr:
        """The time, for a call of NOW."""

    def rlike(self, value: exp.Expression, pattern: exp.Expression) -> Expr:
        """value RLIKE pattern."""


_Args = Sequence[exp.Expression]
_Bind = Callable[[Binder, exp.Expression, _Args], Expr]


@dataclass(frozen=True, slots=True)
class Named:
    """A function of `least` to `most` arguments."""

    least: int
    most: int
    bind: _Bind


def bind_named(binder: Binder, node: exp.Expression) -> Expr:
    """A call of a function of NAMED. Raises: BindError for a wrong number of arguments."""
    name = str(node.this).lower()
    known, args = NAMED[name], node.expressions
    if not known.least <= len(args) <= known.most:
        counts = f"{known.least}" if known.least == known.most else f"{known.least} to {known.most}"
        if known.most >= _MANY:
            counts = f"at least {known.least}"
        plural = "" if counts == "1" else "s"
        binder.report.fail(node, f"{name.upper()} takes {counts} argument{plural}, not {len(args)}")
    return known.bind(binder, node, args)


_MANY = 1_000_000


def _plain(function: str, *defaults: Literal) -> _Bind:
    """A function of planner.calculus.functions, with literals for arguments left out at the end."""

    def bind(binder: Binder, node: exp.Expression, args: _Args) -> Expr:
        bound = [binder.bind(a) for a in args]
        missing = len(bound) - _ARGUMENTS.get(function, len(bound))
        return functions.scalar(function, [*bound, *(defaults[missing:] if missing else ())])

    return bind


#: The arguments of functions of which some may be left out.
_ARGUMENTS = {"lpad": 3, "rpad": 3}


def _cast_to(kind: SqlType) -> _Bind:
    return lambda binder, node, args: coercion.explicit_cast(binder.bind(args[0]), kind, False)


def field_of(binder: Binder, node: exp.Expression, field: str, value: exp.Expression) -> Expr:
    """EXTRACT(field FROM value)."""
    bound = binder.bind(value)
    if isinstance(bound.type, IntervalType) and field in EXTRACT:
        return intervals.field(EXTRACT[field].removesuffix("_fraction").upper(), bound)
    if field not in EXTRACT:
        binder.report.refuse(
            node,
            Refusal(
                f"EXTRACT({field} …)",
                "is not among the functions",
                "The fields are year, quarter, month, week, day, dayofweek, doy, hour, minute and "
                "second.",
            ),
        )
    return functions.scalar(EXTRACT[field], [bound])


def _make_interval(kind: IntervalType) -> _Bind:
    return lambda binder, node, args: intervals.of_parts(kind, [binder.bind(a) for a in args])


def _date_part(binder: Binder, node: exp.Expression, args: _Args) -> Expr:
    field = _word(binder, args[0], "DATE_PART needs the name of a field, as a string")
    return field_of(binder, node, field.upper(), args[1])


def _word(binder: Binder, node: exp.Expression, problem: str) -> str:
    """The text of an argument that must be a string as it stands."""
    binder.report.check(node)
    if not (isinstance(node, exp.Literal) and node.is_string):
        binder.report.fail(node, problem)
    return str(node.this)


def _missing(negated: bool) -> _Bind:
    def bind(binder: Binder, node: exp.Expression, args: _Args) -> Expr:
        missing = functions.is_null(binder.bind(args[0]))
        return functions.negation(missing) if negated else missing

    return bind


def _weekday(binder: Binder, node: exp.Expression, args: _Args) -> Expr:
    """0 = Monday, where day_of_week has 1 = Sunday."""
    sunday_first = functions.scalar("day_of_week", [binder.bind(args[0])])
    shifted = functions.arithmetic("add", sunday_first, Literal(5, INT))
    return functions.arithmetic("remainder", shifted, Literal(7, INT))


def locate(text: Expr, part: Expr, start: Expr) -> Expr:
    """LOCATE, which is 0 where the start is NULL."""
    found = functions.scalar("locate", [text, part, start])
    if not start.nullable:
        return found
    return functions.conditional([(functions.is_null(start), Literal(0, INT))], found, "LOCATE")


def _locate(binder: Binder, node: exp.Expression, args: _Args) -> Expr:
    part, text, *rest = [binder.bind(a) for a in args]
    return locate(text, part, rest[0] if rest else Literal(1, INT))


def _instr(binder: Binder, node: exp.Expression, args: _Args) -> Expr:
    text, part = [binder.bind(a) for a in args]
    return locate(text, part, Literal(1, INT))


def _space(binder: Binder, node: exp.Expression, args: _Args) -> Expr:
    return functions.scalar("repeat", [Literal(" ", STRING), binder.bind(args[0])])


def _log(binder: Binder, node: exp.Expression, args: _Args) -> Expr:
    bound = [binder.bind(a) for a in args]
    return functions.scalar("ln" if len(bound) == 1 else "log", bound)


def _times(factor: float) -> _Bind:
    """The product of a DOUBLE and a constant."""

    def bind(binder: Binder, node: exp.Expression, args: _Args) -> Expr:
        value = coercion.cast(functions.positive(binder.bind(args[0])), DOUBLE)
        return functions.arithmetic("multiply", value, Literal(factor, DOUBLE))

    return bind


def _constant(value: float) -> _Bind:
    return lambda binder, node, args: Literal(value, DOUBLE)


def _pmod(binder: Binder, node: exp.Expression, args: _Args) -> Expr:
    return functions.positive_remainder(binder.bind(args[0]), binder.bind(args[1]))


def _null_if_zero(binder: Binder, node: exp.Expression, args: _Args) -> Expr:
    return functions.null_if(binder.bind(args[0]), Literal(0, INT))


def _zero_if_null(binder: Binder, node: exp.Expression, args: _Args) -> Expr:
    return functions.coalesce([binder.bind(args[0]), Literal(0, INT)])


def _next_day(binder: Binder, node: exp.Expression, args: _Args) -> Expr:
    day = _word(binder, args[1], "NEXT_DAY needs the name of a day, as a string")
    return functions.next_day(binder.bind(args[0]), day)


_EPOCH = Literal(datetime.date(1970, 1, 1), DATE)


def _unix_date(binder: Binder, node: exp.Expression, args: _Args) -> Expr:
    return functions.scalar("date_diff", [binder.bind(args[0]), _EPOCH])


def _date_from_unix_date(binder: Binder, node: exp.Expression, args: _Args) -> Expr:
    return functions.add_days(_EPOCH, binder.bind(args[0]))


def _day_name(pattern: str, what: str) -> _Bind:
    return lambda binder, node, args: functions.day_format(binder.bind(args[0]), pattern, what)


def _date_format(binder: Binder, node: exp.Expression, args: _Args) -> Expr:
    value, pattern = binder.bind(args[0]), _pattern(binder, args[1])
    try:
        return functions.date_format(value, pattern)
    except ValueError as unknown:
        raise _unknown_pattern(binder, args[1], "DATE_FORMAT", pattern, unknown) from None


def _read_as(kind: SqlType, tried: bool = False) -> _Bind:
    """TO_DATE, TO_TIMESTAMP and the like: a cast, or a text read by a pattern. `tried`: NULL where
    that fails."""

    def bind(binder: Binder, node: exp.Expression, args: _Args) -> Expr:
        value = binder.bind(args[0])
        if not isinstance(value.type, (StringType, DateType, TimestampType, NullType)) and tried:
            raise coercion.TypeMismatch(f"a text, date or timestamp is needed, not {value.type}")
        if len(args) > 1 and isinstance(value.type, StringType):
            value = _by_pattern(binder, value, _pattern(binder, args[1]), args[1], tried)
        return coercion.explicit_cast(value, kind, tried)

    return bind


def _by_pattern(
    binder: Binder, value: Expr, pattern: str, node: exp.Expression, tried: bool
) -> Expr:
    try:
        return functions.parse_timestamp(value, pattern, tried)
    except ValueError as unknown:
        raise _unknown_pattern(binder, node, "TO_TIMESTAMP", pattern, unknown) from None


def _seconds_since(binder: Binder, node: exp.Expression, args: _Args) -> Expr:
    """UNIX_TIMESTAMP of a DATE or TIMESTAMP, or of a text by a pattern."""
    value = binder.bind(args[0])
    if isinstance(value.type, StringType):
        pattern = "yyyy-MM-dd HH:mm:ss" if len(args) == 1 else _pattern(binder, args[1])
        moment = _by_pattern(binder, value, pattern, args[-1], False)
        value = coercion.explicit_cast(moment, TIMESTAMP, False)
    return library.call("unix_timestamp", [value])


def _pattern(binder: Binder, node: exp.Expression) -> str:
    refusal = Refusal(
        "a format that is not a string",
        "would have to be read for each row",
        "Write the format as a literal.",
    )
    return _literal(binder, node, refusal)


def _unknown_pattern(
    binder: Binder, node: exp.Expression, name: str, pattern: str, part: ValueError
) -> Exception:
    refusal = Refusal(
        f"'{part}' in the format of {name}",
        f"is not among the letters that {name} knows here",
        "Use yyyy, MM and dd, each once."
        if name == "TO_DATE"
        else "Use yyyy, yy, MM, MMM, MMMM, dd, E, EEEE, HH, hh, mm, ss, SSS and a.",
    )
    return binder.report.refusal(node, refusal)


#: Functions of the library that have no name in SQL, or a syntax of their own.
_OTHERWISE = {
    *("hex_of_number", "levenshtein_within", "decode", "overlay", "unix_timestamp"),
    *("reverse_array", "item", "element_of", "try_element_of", "map_value", "array_join"),
    *("array_join_all", "from_json", "from_csv", "json_fields", "parse_url_key"),
    *("bytes_in", "bytes_in_or_null", "bitmap_place", "to_char", "to_number", "try_to_number"),
}
#: Functions of XML by a path -> their names in the library.
_OF_XML = {name: name for name in LIBRARY if name.startswith("xpath")}
_OF_XML["xpath_number"] = "xpath_double"


def _of_library(name: str) -> Named:
    def bind(binder: Binder, node: exp.Expression, args: _Args) -> Expr:
        return library.call(name, [binder.bind(a) for a in args])

    return Named(library.least(name), len(LIBRARY[name].takes), bind)


def _form(least: int, most: int, form: Callable[[Sequence[Expr]], Expr]) -> Named:
    return Named(least, most, lambda binder, node, args: form([binder.bind(a) for a in args]))


def _of_lambda(least: int, most: int, bind: Callable[[lambdas.Binder, _Args], Expr]) -> Named:
    return Named(least, most, lambda binder, node, args: bind(binder, args))


def _struct(binder: Binder, node: exp.Expression, args: _Args) -> Expr:
    """STRUCT(a, b AS c, …): a field is called as its column, or col1, col2 …"""
    names, values = _named_values(binder, args, lambda i: f"col{i + 1}")
    return nested.struct(names, values)


def _arrays_zip(binder: Binder, node: exp.Expression, args: _Args) -> Expr:
    """ARRAYS_ZIP: a field is called as its column, or 0, 1 …"""
    return nested.zipped(*_named_values(binder, args, str))


def _named_values(
    binder: Binder, args: _Args, otherwise: Callable[[int], str]
) -> tuple[list[str], list[Expr]]:
    names, values = [], []
    for i, arg in enumerate(args):
        named = isinstance(arg, exp.Alias)
        if named:
            binder.report.check(arg)
        value = arg.this if named else arg
        inner = value.expression if isinstance(value, exp.Dot) else value
        own = str(inner.name) if isinstance(inner, (exp.Column, exp.Identifier)) else otherwise(i)
        names.append(str(arg.alias) if named else own)
        values.append(binder.bind(value))
    return names, values


def _from_unixtime(binder: Binder, node: exp.Expression, args: _Args) -> Expr:
    seconds = binder.bind(args[0])
    if len(args) == 1:
        return library.written_seconds(seconds, "yyyy-MM-dd HH:mm:ss")
    pattern = _pattern(binder, args[1])
    try:
        return library.written_seconds(seconds, pattern)
    except ValueError as unknown:
        raise _unknown_pattern(binder, args[1], "FROM_UNIXTIME", pattern, unknown) from None


def _moved(to_utc: bool) -> _Bind:
    name = "TO_UTC_TIMESTAMP" if to_utc else "FROM_UTC_TIMESTAMP"

    def bind(binder: Binder, node: exp.Expression, args: _Args) -> Expr:
        zone = _zone(binder, args[1], name)
        return library.moved(binder.bind(args[0]), zone, to_utc)

    return bind


def _converted(binder: Binder, node: exp.Expression, args: _Args) -> Expr:
    """CONVERT_TIMEZONE([from,] to, time): what clocks of a zone show when another's show it."""
    zones = [_zone(binder, arg, "CONVERT_TIMEZONE") for arg in args[:-1]]
    return library.converted(binder.bind(args[-1]), zones)


def _zone(binder: Binder, arg: exp.Expression, function: str) -> str:
    """The time zone that an argument of a function says."""
    refusal = Refusal(
        f"{function} with a time zone that is not a string",
        "would have to be looked up for each row",
        "Write the zone as a literal.",
    )
    return _literal(binder, arg, refusal)


def _literal(binder: Binder, node: exp.Expression, otherwise: Refusal) -> str:
    """The text of a literal; what is none is refused."""
    bound = binder.bind(node)
    if not (isinstance(bound, Literal) and isinstance(bound.value, str)):
        binder.report.refuse(node, otherwise)
    return bound.value


def _read_by_schema(name: str) -> _Bind:
    """FROM_JSON and FROM_CSV."""
    shown = name.upper()

    def bind(binder: Binder, node: exp.Expression, args: _Args) -> Expr:
        refusal = Refusal(
            f"{shown} with a schema that is not a string",
            "would have another type for each row",
            "Write the schema as a literal, such as 'a INT, b STRING'.",
        )
        schema = _literal(binder, args[1], refusal)
        try:
            kind = library.SCHEMAS[name](schema)
        except (SqlViewError, coercion.TypeMismatch) as wrong:
            binder.report.fail(
                args[1],
                f"{shown} cannot read the schema '{shortened(schema)}': {wrong.message}",
                wrong.detail,
                wrong.hint,
            )
        return library.read_as(name, binder.bind(args[0]), kind)

    return bind


def _by_path(name: str) -> _Bind:
    """XPATH and the like."""
    shown = name.upper()

    def bind(binder: Binder, node: exp.Expression, args: _Args) -> Expr:
        refusal = Refusal(
            f"{shown} by a path that is not a string",
            "would have to be read for each row",
            "Write the path as a literal, such as '/a/b'.",
        )
        path = _literal(binder, args[1], refusal)
        try:
            is_nodes = not path or xpaths.kind_of(xpaths.parse(path)) is Kind.NODES
        except ValueError as wrong:
            refusal = Refusal(
                f"{shown} by the path '{shortened(path)}'",
                str(wrong),
                "Write steps, predicates and functions of XPath 1.0, such as '//a[@b = 1]/c'.",
            )
            raise binder.report.refusal(args[1], refusal) from None
        if name == "xpath" and not is_nodes:
            binder.report.fail(
                args[1],
                f"XPATH needs a path to nodes, and '{shortened(path)}' has a value",
                hint="Use XPATH_STRING, XPATH_DOUBLE or XPATH_BOOLEAN.",
            )
        return library.at_path(_OF_XML[name], binder.bind(args[0]), path)

    return bind


def _assert_true(binder: Binder, node: exp.Expression, args: _Args) -> Expr:
    said = binder.bind(args[1]) if len(args) > 1 else Literal(not_true(args[0]), STRING)
    return library.asserted(binder.bind(args[0]), said)


def _time_bucket(binder: Binder, node: exp.Expression, args: _Args) -> Expr:
    size, time, *origin = [binder.bind(a) for a in args]
    return time_bucket(size, time, origin[0] if origin else None)


def _read_number(name: str) -> _Bind:
    def bind(binder: Binder, node: exp.Expression, args: _Args) -> Expr:
        pattern = _pattern(binder, args[1])
        try:
            return library.read_number(name, binder.bind(args[0]), pattern)
        except ValueError as wrong:
            raise _no_number_pattern(binder, args[1], name, pattern, wrong) from None

    return bind


def _to_char(binder: Binder, node: exp.Expression, args: _Args) -> Expr:
    """TO_CHAR of a number, a day or time, or bytes."""
    value = binder.bind(args[0])
    if isinstance(value.type, (DateType, TimestampType)):
        return _date_format(binder, node, args)
    pattern = _pattern(binder, args[1])
    try:
        return library.written(value, pattern)
    except ValueError as wrong:
        raise _no_number_pattern(binder, args[1], "to_char", pattern, wrong) from None


def _no_number_pattern(
    binder: Binder, node: exp.Expression, name: str, pattern: str, wrong: ValueError
) -> Exception:
    refusal = Refusal(
        f"{name.upper()} with the format '{shortened(pattern)}'",
        str(wrong),
        "Write such as 'S999,990.99', or '$99PR'.",
    )
    return binder.report.refusal(node, refusal)


#: name -> how many arguments, and what it is. Casts: sqlglot knows others, such as int(…), as such.
NAMED: dict[str, Named] = {
    "isnull": Named(1, 1, _missing(False)),
    "isnotnull": Named(1, 1, _missing(True)),
    "positive": Named(1, 1, lambda binder, node, args: intervals.positive(binder.bind(args[0]))),
    "weekday": Named(1, 1, _weekday),
    **{name: Named(2, 2, _read_by_schema(name)) for name in library.SCHEMAS},
    "assert_true": Named(1, 2, _assert_true),
    **{name: Named(2, 2, _by_path(name)) for name in _OF_XML},
    **{name: Named(2, 2, _read_number(name)) for name in ("to_number", "try_to_number")},
    "to_char": Named(2, 2, _to_char),
    "to_varchar": Named(2, 2, _to_char),
    "datepart": Named(2, 2, _date_part),
    "regexp": Named(2, 2, lambda binder, node, args: binder.rlike(args[0], args[1])),
    "date_part": Named(2, 2, _date_part),
    "bigint": Named(1, 1, _cast_to(types.BIGINT)),
    "smallint": Named(1, 1, _cast_to(types.SMALLINT)),
    "tinyint": Named(1, 1, _cast_to(types.TINYINT)),
    "float": Named(1, 1, _cast_to(types.FLOAT)),
    "decimal": Named(1, 1, _cast_to(types.DecimalType(10, 0))),
    "binary": Named(1, 1, _cast_to(types.BINARY)),
    # strings
    "btrim": Named(1, 2, _plain("trim")),
    "lpad": Named(2, 3, _plain("lpad", Literal(" ", STRING))),
    "rpad": Named(2, 3, _plain("rpad", Literal(" ", STRING))),
    "repeat": Named(2, 2, _plain("repeat")),
    "space": Named(1, 1, _space),
    "instr": Named(2, 2, _instr),
    "locate": Named(2, 3, _locate),
    "translate": Named(3, 3, _plain("translate")),
    "ascii": Named(1, 1, _plain("ascii")),
    "concat_ws": Named(1, _MANY, _plain("concat_ws")),
    "substring_index": Named(3, 3, _plain("substring_index")),
    # numbers
    "exp": Named(1, 1, _plain("exp")),
    "expm1": Named(1, 1, _plain("expm1")),
    "ln": Named(1, 1, _plain("ln")),
    "log": Named(1, 2, _log),
    "log10": Named(1, 1, _plain("log10")),
    "log2": Named(1, 1, _plain("log2")),
    "log1p": Named(1, 1, _plain("log1p")),
    "cbrt": Named(1, 1, _plain("cbrt")),
    "rint": Named(1, 1, _plain("rint")),
    "degrees": Named(1, 1, _times(180 / math.pi)),
    "radians": Named(1, 1, _times(math.pi / 180)),
    "pi": Named(0, 0, _constant(math.pi)),
    "e": Named(0, 0, _constant(math.e)),
    "pmod": Named(2, 2, _pmod),
    "nullifzero": Named(1, 1, _null_if_zero),
    "zeroifnull": Named(1, 1, _zero_if_null),
    # dates
    "next_day": Named(2, 2, _next_day),
    "make_ym_interval": Named(0, 2, _make_interval(INTERVAL_MONTHS)),
    "make_dt_interval": Named(0, 4, _make_interval(INTERVAL_MICROSECONDS)),
    "time_bucket": Named(2, 3, _time_bucket),
    "make_date": Named(3, 3, _plain("make_date")),
    "date_format": Named(2, 2, _date_format),
    "dayname": Named(1, 1, _day_name("E", "DAYNAME")),
    "monthname": Named(1, 1, _day_name("MMM", "MONTHNAME")),
    "unix_date": Named(1, 1, _unix_date),
    "date_from_unix_date": Named(1, 1, _date_from_unix_date),
    "to_date": Named(1, 2, _read_as(DATE)),
    "to_timestamp": Named(1, 2, _read_as(TIMESTAMP)),
    "to_timestamp_ltz": Named(1, 2, _read_as(TIMESTAMP)),
    "to_timestamp_ntz": Named(1, 2, _read_as(TIMESTAMP_NTZ)),
    "try_to_date": Named(1, 2, _read_as(DATE, tried=True)),
    "try_to_timestamp": Named(1, 2, _read_as(TIMESTAMP, tried=True)),
    "unix_timestamp": Named(1, 2, _seconds_since),
    "to_unix_timestamp": Named(1, 2, _seconds_since),
    "from_unixtime": Named(1, 2, _from_unixtime),
    "convert_timezone": Named(2, 3, _converted),
    "from_utc_timestamp": Named(2, 2, _moved(False)),
    "to_utc_timestamp": Named(2, 2, _moved(True)),
    **{name: _of_library(name) for name in LIBRARY.keys() - _OTHERWISE - _OF_XML.keys()},
    "struct": Named(1, _MANY, _struct),
    **{name: _form(*form) for name, form in library.FORMS.items()},
    "arrays_zip": Named(0, _MANY, _arrays_zip),
    **{name: _of_lambda(*known) for name, known in LAMBDAS.items() if name != "exists"},
}
