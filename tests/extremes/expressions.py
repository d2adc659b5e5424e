"""Expressions: each function on each of the types that it takes, with arguments that are columns,
literals or, at random, calls of other functions."""

# ruff: noqa: E501 - a table of data

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeVar

_KINDS: dict[str, tuple[str, ...]] = {
    "bool": ("o",),
    "int": ("ti", "si", "i", "b"),
    "int32": ("ti", "si", "i"),
    "float": ("f", "d"),
    "dec": ("n9", "n18", "n38", "m38", "z38"),
    "str": ("s", "w"),
    "bin": ("y",),
    "date": ("day",),
    "time": ("at", "lt"),
}
_KINDS["num"] = (*_KINDS["int"], *_KINDS["float"], *_KINDS["dec"])
_KINDS["moment"] = (*_KINDS["date"], *_KINDS["time"])
_KINDS["any"] = ("o", *_KINDS["num"], *_KINDS["str"], "y", *_KINDS["moment"])
#: What is shown as text by an implicit cast.
_KINDS["text"] = ("s", "w", "s", "w", "o", "i", "b", "d", "n9", "m38", "day", "at")
#: Operands of one operator: numbers of any two types, else two of one type.
_TARGETS = (
    "BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL(9,2)", "DECIMAL(38,0)",
    "DECIMAL(38,18)", "DECIMAL(38,38)", "DECIMAL(2,0)", "STRING", "BINARY", "DATE", "TIMESTAMP", "TIMESTAMP_NTZ",
)  # fmt: skip
_LITERALS: dict[str, tuple[str, ...]] = {
    "count": (
        "0", "1", "2", "3", "-1", "-2", "7", "100", "1000", "2147483647", "(-2147483647 - 1)", "ti", "si", "i", "CAST(NULL AS INT)",
    ),
    "few": ("0", "1", "2", "3", "-1", "7", "100", "(-2147483647 - 1)", "ti", "CAST(NULL AS INT)"),
    "days": ("0", "1", "-1", "365", "2147483647", "(-2147483647 - 1)", "i", "si", "ti"),
    "months": ("0", "1", "-1", "12", "-13", "2147483647", "(-2147483647 - 1)", "i", "si", "ti"),
    "digits": ("0", "1", "2", "-1", "-2", "5", "18", "37", "38", "-18", "-37", "-38", "400", "-400"),
    "part": (
        "YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "DAYOFWEEK", "DOY", "HOUR", "MINUTE", "SECOND",
    ),
    "unit": ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND"),
    "dateunit": ("YEAR", "QUARTER", "MONTH", "WEEK"),
    "weekday": ("MON", "su", "Friday"),
    "interval": (
        "1' DAY", "-1' DAY", "99999999' DAY", "1' MONTH", "-1' MONTH", "99999999' MONTH", "9999999' YEAR", "1' HOUR",
        "-1' MICROSECOND", "1' MICROSECOND", "99999999' HOUR", "1.5' SECOND", "99999999' WEEK", "-99999999' MINUTE",
    ),
    "dateinterval": (
        "1' DAY", "-1' DAY", "99999999' DAY", "1' MONTH", "-1' MONTH", "99999999' MONTH", "9999999' YEAR", "1' HOUR",
    ),
    "format": (
        "yyyy-MM-dd", "yyyy", "yy", "y", "MMM yyyy", "EEEE, d MMMM", "D", "DDD", "HH:mm:ss.SSSSSS", "h a", "SSSSSSSSS",
        "''Q''q", "dd/MM/yy",
    ),
    "readformat": ("yyyy-MM-dd", "yyyyMMdd", "dd/MM/yyyy", "d/M/yyyy"),
    "pattern": ("'%'", "'a%'", "'%b%'", "'_'", "'__'", "'%\\\\%%'", "'\\\\_%'", "''", "'%é_'"),
    "regex": ("'^a'", "'b.?$'", "'[a-zé]+'", "'^$'", "'.'", "'\\\\s'", "'\\\\d+'", "'(?i)ABC'"),
    "few_texts": ("'a'", "''", "' '", "'ab'", "'é'", "'😀'", "s", "s2", "w"),
    "target": _TARGETS,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Template:
    """A call with places for its arguments, as in `{int} + {int}`; `gives`: the kind of its result.

    A place is a kind or a set of literals; `{same}` is another column of the type before it.
    """

    text: str
    gives: str = "any"

    @property
    def name(self) -> str:
        """The function or operator, for counts."""
        words = re.sub(r"'?\{\w+\}'?|'[^']*'|[-()0-9]+(?=[,)]|$)", " ", self.text)
        found = re.search(r"[A-Za-z_][A-Za-z_0-9]*|[^\s(),]+", words)
        return found[0].lower() if found else "-"


def _templates() -> Iterator[Template]:
    for sign in ("+", "-", "*", "/", "%"):
        yield Template(f"({{num}} {sign} {{num}})", "num")
        yield Template(f"({{num}} {sign} {{same}})", "num")
    yield from (
        Template(x, "int") for x in ("({int} DIV {int})", "({dec} DIV {dec})", "({dec} DIV {int})")
    )
    for name in (
        "abs",
        "-",
        "sign",
        "positive",
        "negative",
        "zeroifnull",
        "nullifzero",
        "floor",
        "ceil",
    ):
        yield Template(f"{name}({{num}})", "num")
    yield Template("pmod({num}, {num})", "num")
    yield Template("pmod({num}, {same})", "num")
    yield Template("mod({num}, {same})", "num")
    yield Template("round({num}, {digits})", "num")
    for name in (
        "sqrt", "exp", "expm1", "ln", "log10", "log2", "log1p", "cbrt", "rint", "degrees", "radians", "isnan",
    ):  # fmt: skip
        yield Template(f"{name}({{num}})", "bool" if name == "isnan" else "float")
    yield Template("power({num}, {num})", "float")
    yield Template("log({num}, {num})", "float")
    for sign in ("=", "<>", "<", "<=", ">", ">=", "<=>", "IS DISTINCT FROM"):
        yield Template(f"({{any}} {sign} {{same}})", "bool")
        yield Template(f"({{num}} {sign} {{num}})", "bool")
        yield Template(f"({{moment}} {sign} {{moment}})", "bool")
        yield Template(f"({{any}} {sign} {{str}})", "bool")
    yield Template("({any} BETWEEN {same} AND {same})", "bool")
    yield Template("({int} IN (0, 1, -1, 127, 9223372036854775807))", "bool")
    yield Template("({float} IN (0.0D, 1.5D, 1e308))", "bool")
    yield Template("({dec} IN (0, 1.5, -0.01))", "bool")
    yield Template("({str} IN ('', 'a', 'abc', '1', NULL))", "bool")
    yield Template("({date} IN (DATE '1970-01-01', DATE '9999-12-31'))", "bool")
    yield Template("({any} IS NULL)", "bool")
    yield Template("({any} IS NOT NULL)", "bool")
    for word in ("AND", "OR"):
        yield Template(f"({{bool}} {word} {{bool}})", "bool")
        yield Template(f"(({{num}} > 0) {word} ({{num}} / {{num}} > 1))", "bool")
    yield Template("(NOT {bool})", "bool")
    yield Template("if({bool}, {any}, {same})")
    yield Template("CASE WHEN {int} > 1 THEN {any} WHEN {float} < 0 THEN {same} END")
    yield Template("CASE {int} WHEN 1 THEN {num} WHEN 2 THEN {num} ELSE {num} END", "num")
    for name in ("coalesce", "nvl", "ifnull", "nullif", "greatest", "least"):
        yield Template(f"{name}({{any}}, {{same}})")
        yield Template(f"{name}({{num}}, {{num}})", "num")
    yield Template("nvl2({any}, {num}, {num})", "num")
    for _ in range(3):
        yield Template("CAST({any} AS {target})")
    yield Template("CAST({str} AS {target})")
    yield Template("TRY_CAST({any} AS {target})")
    for name in ("upper", "lower", "trim", "ltrim", "rtrim", "reverse", "initcap"):
        yield Template(f"{name}({{text}})", "str")
    for name in ("length", "char_length", "ascii"):
        yield Template(f"{name}({{text}})", "int32")
    yield from (
        Template(text, "str")
        for text in (
            "trim(BOTH {few_texts} FROM {str})", "ltrim({few_texts}, {str})", "rtrim({few_texts}, {str})",
            "btrim({str}, {few_texts})", "substring({text}, {count}, {count})", "substring({str}, {count})",
            "left({str}, {count})", "right({str}, {count})", "concat({text}, {text})", "({text} || {text})",
            "concat_ws({few_texts}, {text}, {text})", "replace({str}, {few_texts}, {few_texts})",
            "split_part({str}, {few_texts}, {count})", "lpad({str}, {few}, {few_texts})",
            "rpad({str}, {few}, {few_texts})", "lpad({str}, {few})", "repeat({few_texts}, {few})", "space({few})",
            "translate({str}, {few_texts}, {few_texts})", "chr({num})", "substring_index({str}, {few_texts}, {count})",
        )
    )  # fmt: skip
    yield from (
        Template(text, "int32")
        for text in (
            "locate({few_texts}, {str})", "locate({few_texts}, {str}, {count})", "instr({str}, {few_texts})",
            "position({few_texts} IN {str})",
        )
    )  # fmt: skip
    yield from (
        Template(text, "bool")
        for text in (
            "startswith({str}, {few_texts})", "endswith({str}, {few_texts})", "contains({str}, {few_texts})",
            "({text} LIKE {pattern})", "({str} LIKE {few_texts})", "({str} ILIKE {pattern})", "({str} RLIKE {regex})",
            "({str} LIKE {few_texts} ESCAPE '!')",
        )
    )  # fmt: skip
    for name in (
        "year", "quarter", "month", "day", "dayofmonth", "dayofweek", "dayofyear", "weekofyear", "weekday",
    ):  # fmt: skip
        yield Template(f"{name}({{moment}})", "int32")
    for name in ("hour", "minute", "second"):
        yield Template(f"{name}({{time}})", "int32")
    yield Template("EXTRACT({part} FROM {moment})", "num")
    yield Template("date_part('{part}', {time})", "num")
    for name in ("date_add", "date_sub"):
        yield Template(f"{name}({{moment}}, {{days}})", "date")
        yield Template(f"{name}({{str}}, {{days}})", "date")
    yield Template("({date} + {days})", "date")
    yield Template("({date} - {days})", "date")
    yield Template("add_months({moment}, {months})", "date")
    yield Template("datediff({moment}, {moment})", "int32")
    yield Template("last_day({moment})", "date")
    yield Template("next_day({moment}, '{weekday}')", "date")
    yield Template("trunc({moment}, '{dateunit}')", "date")
    yield Template("date_trunc('{unit}', {moment})", "time")
    yield Template("({time} + INTERVAL '{interval})", "time")
    yield Template("({time} - INTERVAL '{interval})", "time")
    yield Template("({date} + INTERVAL '{dateinterval})", "moment")
    yield Template("({date} - INTERVAL '{dateinterval})", "moment")
    yield Template("make_date({int32}, {few}, {few})", "date")
    yield Template("make_date({int32}, 2, 29)", "date")
    yield Template("date_format({moment}, '{format}')", "str")
    yield Template("to_date({str})", "date")
    yield Template("to_date({str}, '{readformat}')", "date")
    yield Template("to_timestamp({text})", "time")
    yield Template("unix_date({date})", "int32")
    yield Template("date_from_unix_date({int32})", "date")
    for name in ("dayname", "monthname"):
        yield Template(f"{name}({{moment}})", "str")
    for name in ("bigint", "smallint", "tinyint", "float", "decimal", "int", "double", "boolean"):
        yield Template(f"{name}({{any}})", "num")
    for name in ("date", "timestamp", "string", "binary"):
        yield Template(f"{name}({{any}})")


TEMPLATES: tuple[Template, ...] = tuple(_templates())
#: What may stand in for a column of a kind.
_GIVING = {
    kind: tuple(t for t in TEMPLATES if t.gives == kind)
    for kind in _KINDS
    if kind not in ("any", "text")
}
_T = TypeVar("_T")
_PLACE = re.compile(r"\{(\w+)\}")


def expressions(seed: int, nested: float = 0.2) -> Iterator[tuple[str, str]]:
    """(name of the function, expression) without end: each template in turn with other arguments,
    a part of them calls."""
    drawn = random.Random(seed)
    seen: set[str] = set()
    for turn in itertools.count():
        for template in TEMPLATES:
            text = _filled(template, drawn, nested if turn else 0.0)
            if text not in seen:
                seen.add(text)
                yield template.name, text


def _filled(template: Template, drawn: random.Random, nested: float) -> str:
    last = "i"

    def argument(place: re.Match[str]) -> str:
        nonlocal last
        kind = place[1]
        if kind in _LITERALS:
            return _choice(_LITERALS[kind], drawn)
        if kind == "same":
            return f"{last}2" if f"{last}2" in _SECOND else last.removesuffix("2")
        if drawn.random() < nested and _GIVING.get(kind):
            last = _filled(_choice(_GIVING[kind], drawn), drawn, nested / 2)
        else:
            last = _choice(_KINDS[kind], drawn)
            if last + "2" in _SECOND and drawn.random() < 0.3:
                last += "2"
        return last

    return _PLACE.sub(argument, template.text)


_SECOND = {f"{name}2" for name in _KINDS["any"] if name != "o"}


def _choice(options: tuple[_T, ...], drawn: random.Random) -> _T:
    return options[int(drawn.random() * len(options))]
