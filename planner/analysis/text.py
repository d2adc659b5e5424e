"""Expressions as SQL-like text, for EXPLAIN and for the display names of derived columns.

The text is a function of the expression's structure and of the given column names alone, so equal
subplans get equal names and stay shareable.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence

from planner.calculus.expr import Call, Column, Expr, Literal, Outer, Parameter
from planner.calculus.intervals import interval_text
from planner.calculus.types import (
    DateType,
    IntervalType,
    Schema,
    StringType,
    TimestampType,
)

_INFIX = {
    "or": ("OR", 1),
    "and": ("AND", 2),
    "eq": ("=", 4),
    "ne": ("<>", 4),
    "lt": ("<", 4),
    "le": ("<=", 4),
    "gt": (">", 4),
    "ge": (">=", 4),
    "eq_null_safe": ("<=>", 4),
    "add": ("+", 5),
    "subtract": ("-", 5),
    "multiply": ("*", 6),
    "divide": ("/", 6),
    "integral_divide": ("DIV", 6),
    "remainder": ("%", 6),
}
_NOT = 3
_COMPARISON = 4
_ATOM = 9
_EPOCH = datetime.datetime(1970, 1, 1)


def expr_text(expr: Expr, names: Sequence[str]) -> str:
    """The expression in SQL's notation; column i is called names[i].

    Casts are shown, since they are where an expression may fail or round.
    """
    return _text(expr, names)[0]


def column_names(schema: Schema) -> tuple[str, ...]:
    """Display names of a schema's columns; a repeated name gets its position, as in `id#3`."""
    counts: dict[str, int] = {}
    for f in schema:
        counts[f.name] = counts.get(f.name, 0) + 1
    return tuple(f.name if counts[f.name] == 1 else f"{f.name}#{i}" for i, f in enumerate(schema))


def _text(expr: Expr, names: Sequence[str]) -> tuple[str, int]:
    """Text and binding strength of its outermost operator."""
    match expr:
        case Column():
            return names[expr.index], _ATOM
        case Literal():
            return _literal(expr), _ATOM
        case Call():
            return _call(expr, names)
        case Outer():
            return f"outer({expr.depth}).{expr.name}", _ATOM
        case Parameter():
            return f"v{expr.number}", _ATOM


def _call(call: Call, names: Sequence[str]) -> tuple[str, int]:
    def inner(arg: Expr, least: int) -> str:
        text, strength = _text(arg, names)
        return text if strength >= least else f"({text})"

    args = call.args
    if call.function in _INFIX:
        sign, strength = _INFIX[call.function]
        # Comparisons do not chain; - and / are not associative.
        left = strength + 1 if strength == _COMPARISON else strength
        right = strength if call.function in ("and", "or") else strength + 1
        return f"{inner(args[0], left)} {sign} {inner(args[1], right)}", strength
    tight = _COMPARISON + 1
    match call.function:
        case "user":
            given = ", ".join(_text(a, names)[0] for a in args[2:])
            return f"{_literal_text(args[0])}({given})", _ATOM
        case "not":
            return f"NOT {inner(args[0], _NOT)}", _NOT
        case "is_null":
            return f"{inner(args[0], tight)} IS NULL", _COMPARISON
        case "in":
            items = ", ".join(_text(a, names)[0] for a in args[1:])
            return f"{inner(args[0], tight)} IN ({items})", _COMPARISON
        case "like":
            text = f"{inner(args[0], tight)} LIKE {inner(args[1], tight)}"
            if len(args) > 2 and args[2] != Literal("\\", args[2].type):
                text += f" ESCAPE {inner(args[2], tight)}"
            return text, _COMPARISON
        case "negate":
            return f"-{inner(args[0], _ATOM)}", _ATOM
        case "cast" | "try_cast":
            zone = f", {_text(args[1], names)[0]}" if len(args) > 1 else ""
            return f"{call.function}({_text(args[0], names)[0]} AS {call.type}{zone})", _ATOM
        case "case":
            return _case(call, names), _ATOM
        case _:
            return f"{call.function}({', '.join(_text(a, names)[0] for a in args)})", _ATOM


def _case(call: Call, names: Sequence[str]) -> str:
    texts = [_text(a, names)[0] for a in call.args]
    arms = "".join(
        f" WHEN {when} THEN {then}" for when, then in zip(texts[0:-1:2], texts[1::2], strict=True)
    )
    return f"CASE{arms} ELSE {texts[-1]} END"


def _literal_text(expr: Expr) -> str:
    assert isinstance(expr, Literal)
    return str(expr.value)


def _literal(literal: Literal) -> str:
    value, kind = literal.value, literal.type
    if value is None:
        return "NULL"
    if isinstance(value, bytes):
        return f"X'{value.hex().upper()}'"
    match kind:
        case StringType():
            return "'" + str(value).replace("'", "''") + "'"
        case DateType():
            return f"DATE '{value}'"
        case TimestampType() if isinstance(value, int):
            end = "" if kind.local else "Z"
            return f"{kind} '{_EPOCH + datetime.timedelta(microseconds=value)}{end}'"
        case IntervalType():
            assert isinstance(value, int)
            return interval_text(value, kind)
        case _:
            return str(value).upper() if isinstance(value, bool) else str(value)
