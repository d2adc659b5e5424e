"""FORMAT_STRING and PRINTF: texts with places for values, as Java writes them.

Cost: a change is written row by row in Python. Source: Java's `java.util.Formatter`; Spark
`FormatString`, which gives it a date as its days and a time as its microseconds.
"""

from __future__ import annotations

import decimal
import re
from typing import Any

import numpy as np
import pyarrow as pa

from operators.scalar.strings import rowwise
from operators.scalar.text import format_float
from operators.scalar.value import Builder, Fetch, Node, Result, Run
from planner.calculus import types as t
from planner.calculus.expr import Call

_PLACE = re.compile(r"%(\d+\$|<)?([-#+ 0,(]*)(\d+)?(?:\.(\d+))?([tT][a-zA-Z]|[a-zA-Z%])")
_UP = decimal.Context(prec=800, rounding=decimal.ROUND_HALF_UP)


class _Wrong(ValueError):
    """What Java raises."""


def _build(call: Call, args: tuple[Node, ...]) -> Run:
    """NULL where the template is; arguments may be NULL."""
    kinds = [a.type for a in args[1:]]

    def shown(template: str, *given: Any) -> str:
        values = given[: len(kinds)]
        there = given[len(kinds) :]
        return _filled(
            template, kinds, [v if h else None for v, h in zip(values, there, strict=True)]
        )

    values = [_present(a) for a in args[1:]]
    return rowwise((args[0], *values, *(_is_there(a) for a in args[1:])), shown, pa.string())


def _present(arg: Node) -> Node:
    """The argument, never NULL."""

    def run(columns: Fetch, n: int) -> Result:
        values, _, errors = arg.run(columns, n)
        return values, None, errors

    return Node(arg.type, run)


def _is_there(arg: Node) -> Node:
    def run(columns: Fetch, n: int) -> Result:
        _, valid, _ = arg.run(columns, n)
        return np.ones(n, np.bool_) if valid is None else valid, None, None

    return Node(t.BOOLEAN, run)


def _filled(template: str, kinds: list[t.SqlType], values: list[Any]) -> str:
    out: list[str] = []
    at, following, last = 0, 0, -1
    while at < len(template):
        mark = template.find("%", at)
        if mark < 0:
            break
        out.append(template[at:mark])
        found = _PLACE.match(template, mark)
        if found is None:
            raise _Wrong(f"[FORMAT] '{template[mark : mark + 2]}' is no place for a value")
        at = found.end()
        which, flags, width, digits, letter = found.groups()
        if len(set(flags)) < len(flags):
            raise _Wrong(f"[FORMAT] the flags '{flags}' repeat")
        if letter in "%n":
            out.append("\n" if letter == "n" else _padded("%", flags, width))
            continue
        if which == "<":
            place = last
        elif which:
            place = int(which[:-1]) - 1
        else:
            place, following = following, following + 1
        last = place
        if not 0 <= place < len(values):
            raise _Wrong(f"[FORMAT] there is no value for '{found[0]}'")
        out.append(_one(letter, flags, width, digits, values[place], kinds[place]))
    out.append(template[at:])
    return "".join(out)


def _one(
    letter: str, flags: str, width: str | None, digits: str | None, value: Any, kind: t.SqlType
) -> str:
    small = letter.lower()
    if letter != small and small[0] not in "bhscxegt":
        raise _Wrong(f"[FORMAT] there is no conversion '{letter}'")
    if width is None and ("-" in flags or "0" in flags):
        raise _Wrong("[FORMAT] a width is missing")
    if "-" in flags and "0" in flags:
        raise _Wrong("[FORMAT] the flags '-0' exclude each other")
    number = len(small) == 1 and small in "doxefg"
    if len(small) == 1 and small in "bhsc":
        if set(flags) - {"-", "#"} or (small == "c" and digits):
            raise _Wrong(f"[FORMAT] '{letter}' does not take the flags '{flags}'")
        shown = _text(small, value, kind)
        if digits is not None:
            shown = _cut(shown, int(digits))
        done = _padded(shown, flags, width)
    elif small.startswith("t") and value is None:
        done = _padded("null", flags, width)
    elif number:
        done = _number(small, flags, width, digits, value, kind)
    else:
        raise _Wrong(f"[FORMAT] there is no conversion '{letter}' of {kind}")
    return done.upper() if letter[0].isupper() else done


def _text(small: str, value: Any, kind: t.SqlType) -> str:
    if small == "b":
        return str(bool(value) if isinstance(kind, t.BooleanType) else value is not None).lower()
    if value is None:
        return "null"
    if small == "c":
        if not isinstance(kind, t.IntegerType) or not 0 <= value <= 0x10FFFF:
            raise _Wrong(f"[FORMAT] '{value}' is no character")
        return chr(value)
    if small == "h":
        raise _Wrong("[FORMAT] the conversion 'h' is of what Java holds")
    if isinstance(kind, t.BooleanType):
        return str(value).lower()
    if isinstance(kind, t.FloatType):
        return format_float(np.float32(value) if kind.bits == 32 else value)
    return str(value)


def _number(
    small: str, flags: str, width: str | None, digits: str | None, value: Any, kind: t.SqlType
) -> str:
    whole = small in "dox"
    fits = (t.IntegerType, t.DateType, t.TimestampType) if whole else (t.FloatType,)
    if value is None:
        shown = "null" if digits is None else "null"[: int(digits)]
        return _padded(shown, flags.replace("0", ""), width)
    if not isinstance(kind, fits):
        raise _Wrong(f"[FORMAT] the conversion '{small}' is not of {kind}")
    if whole and digits is not None:
        raise _Wrong(f"[FORMAT] '{small}' takes no precision")
    if "+" in flags and " " in flags:
        raise _Wrong("[FORMAT] the flags '+ ' exclude each other")
    if small in "ox":
        if set(flags) - set("-#0"):
            raise _Wrong(f"[FORMAT] '{small}' does not take the flags '{flags}'")
        bits = kind.bits if isinstance(kind, t.IntegerType) else 32
        bits = 64 if isinstance(kind, t.TimestampType) else bits
        shown = format(value & ((1 << bits) - 1), small)
        head = {"x": "0x", "o": "0"}[small] if "#" in flags else ""
        fill = int(width or 0) - len(head) if "0" in flags else 0
        return _padded(head + shown.rjust(fill, "0"), flags, width)
    if ("#" in flags and small in "dg") or ("," in flags and small == "e"):
        raise _Wrong(f"[FORMAT] '{small}' does not take the flags '{flags}'")
    if not whole and not np.isfinite(value):
        missing = bool(np.isnan(value))
        name = "NaN" if missing else "Infinity"
        return _padded(_signed(name, value < 0, flags, missing), flags.replace("0", ""), width)
    negative = value < 0 or (value == 0 and not whole and bool(np.signbit(value)))
    if whole:
        body = str(abs(value))
    else:
        body = _decimals(small, abs(value), 6 if digits is None else int(digits))
        if "#" in flags and "." not in body:
            body += "."
    if "," in flags and "e" not in body:
        head, dot, tail = body.partition(".")
        body = f"{int(head):,}{dot}{tail}"
    if "0" in flags:
        signs = len(_signed("", negative, flags, False))
        body = body.rjust(int(width or 0) - signs, "0")
    return _padded(_signed(body, negative, flags, False), flags, width)


def _signed(body: str, negative: bool, flags: str, plain: bool) -> str:
    if plain:
        return body
    if negative:
        return f"({body})" if "(" in flags else f"-{body}"
    return f"+{body}" if "+" in flags else f" {body}" if " " in flags else body


def _decimals(small: str, value: float, digits: int) -> str:
    """The shortest digits that mean the number, rounded half up."""
    exact = decimal.Decimal(format_float(value).replace("E", "e"))
    if small == "g":
        digits = digits or 1
        if exact == 0:
            return f"{decimal.Decimal(0):.{digits - 1}f}"
        exact = _UP.create_decimal(exact)
        exact = decimal.Context(prec=digits, rounding=decimal.ROUND_HALF_UP).create_decimal(exact)
        places = exact.adjusted()
        if -4 <= places < digits:
            return _fixed(exact, digits - places - 1)
        digits -= 1
    if small == "f":
        return _fixed(exact, digits)
    if exact == 0:
        return f"{decimal.Decimal(0):.{digits}f}e+00"
    rounded = decimal.Context(prec=digits + 1, rounding=decimal.ROUND_HALF_UP).create_decimal(exact)
    power = rounded.adjusted()
    return (
        f"{_fixed(rounded.scaleb(-power, _UP), digits)}e{'-' if power < 0 else '+'}{abs(power):02}"
    )


def _fixed(value: decimal.Decimal, digits: int) -> str:
    return f"{value.quantize(decimal.Decimal(1).scaleb(-digits), context=_UP):f}"


def _cut(shown: str, count: int) -> str:
    """The first units of 16 bits; half a character is a question mark."""
    if len(shown.encode("utf-16-le")) <= 2 * count:
        return shown
    cut = shown.encode("utf-16-le")[: 2 * count]
    return cut.decode("utf-16-le", "replace").replace("\ufffd", "?")


def _padded(shown: str, flags: str, width: str | None) -> str:
    count = int(width or 0) - sum(c > "\uffff" for c in shown)
    return shown.ljust(count) if "-" in flags else shown.rjust(count)


BUILDERS: dict[str, Builder] = {"format_string": _build}
