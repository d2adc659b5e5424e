"""Functions of words: how they sound and differ, lists in them, numbers as texts.

Source: Spark `UTF8String` (soundex, levenshteinDistance, findInSet), `Mask`, `Luhncheck`,
`Overlay`, `Quote`, `Elt`, `FormatNumber` (Java's DecimalFormat).
"""

from __future__ import annotations

import decimal
import math
from typing import Any

import numpy as np
import pyarrow as pa

from operators.scalar.strings import rowwise, substring, text_of
from operators.scalar.value import (
    Builder,
    Fetch,
    Node,
    Result,
    Run,
    failures,
    first_of,
    only_where,
)
from planner.calculus import types as t
from planner.calculus.expr import Call

_MAX_INT = (1 << 31) - 1


#: Of the table of two texts, up to which it is computed cell by cell.
_FEW_CELLS = 4096


def _find_in_set(call: Call, args: tuple[Node, ...]) -> Run:
    def place(text: str, listed: str) -> int:
        words = listed.split(",")
        return words.index(text) + 1 if text in words else 0

    return rowwise(args, place, pa.int64())


def distance(a: str, b: str) -> int:
    """Characters to be put in, taken out or replaced."""
    if len(a) * len(b) > _FEW_CELLS:
        return _long_distance(a, b)
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        corner, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            corner, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, corner + (x != y))
    return row[-1]


def _long_distance(a: str, b: str) -> int:
    """The same, a row of the table at once: what is put in is the least of what stands before."""
    codes = np.frombuffer(b.encode("utf-32-le"), np.uint32)
    place = np.arange(len(b) + 1)
    row = place.copy()
    for i, x in enumerate(a, 1):
        changed = np.empty_like(row)
        changed[0] = i
        np.minimum(row[1:] + 1, row[:-1] + (codes != ord(x)), out=changed[1:])
        row = np.minimum.accumulate(changed - place) + place
    return int(row[-1])


def _levenshtein(call: Call, args: tuple[Node, ...]) -> Run:
    return rowwise(args, distance, pa.int64())


def _levenshtein_within(call: Call, args: tuple[Node, ...]) -> Run:
    def within(a: str, b: str, limit: int) -> int:
        found = distance(a, b)
        return found if found <= limit else -1

    return rowwise(args, within, pa.int64())


#: For A to Z: the code, "7" of letters that are passed over, "0" of vowels, which part two codes.
_SOUNDS = "01230127022455012623017202"


def soundex(text: str) -> str:
    """The first letter and three digits; a text that does not begin with a letter as it is."""
    first = text[:1].upper()
    if not ("A" <= first <= "Z"):
        return text
    code, last = first, _SOUNDS[ord(first) - 65]
    for c in text[1:].upper():
        if not ("A" <= c <= "Z"):
            last = "0"
            continue
        sound = _SOUNDS[ord(c) - 65]
        if sound == "7":
            continue
        if sound not in ("0", last):
            code += sound
            if len(code) == 4:
                break
        last = sound
    return code.ljust(4, "0")


def _soundex(call: Call, args: tuple[Node, ...]) -> Run:
    return rowwise(args, soundex, pa.string())


def luhn(text: str) -> bool:
    if not text or not (text.isascii() and text.isdigit()):
        return False
    total = 0
    for i, c in enumerate(reversed(text)):
        digit = int(c) * (1 + i % 2)
        total += digit - 9 if digit > 9 else digit
    return total % 10 == 0


def _luhn(call: Call, args: tuple[Node, ...]) -> Run:
    return rowwise(args, luhn)


def _mask(call: Call, args: tuple[Node, ...]) -> Run:
    upper, lower, digit = (text_of(a) or "" for a in args[1:])

    def masked(text: str) -> str:
        return "".join(
            upper if c.isupper() else lower if c.islower() else digit if c.isdecimal() else c
            for c in text
        )

    return rowwise(args[:1], masked, pa.string())


def _overlay(call: Call, args: tuple[Node, ...]) -> Run:
    def laid(text: str, by: str, start: int, length: int) -> str:
        length = len(by) if length < 0 else length
        return substring(text, 1, start - 1) + by + substring(text, start + length, _MAX_INT)

    return rowwise(args, laid, pa.string())


def _quote(call: Call, args: tuple[Node, ...]) -> Run:
    def quoted(text: str) -> str:
        return "'" + text.replace("'", "\\'") + "'"

    return rowwise(args, quoted, pa.string())


def _elt(call: Call, args: tuple[Node, ...]) -> Run:
    """The argument that is chosen is the only one that counts."""
    number, *options = args

    def run(columns: Fetch, n: int) -> Result:
        chosen, valid, errors = number.run(columns, n)
        there = np.ones(n, np.bool_) if valid is None else valid.copy()
        beyond = there & ((chosen < 1) | (chosen > len(options)))
        messages = [
            f"[INVALID_ARRAY_INDEX] index {k} of {len(options)} elements" for k in chosen[beyond]
        ]
        errors = first_of(errors, failures(n, np.flatnonzero(beyond), messages))
        out: list[Any] = [""] * n
        if isinstance(call.type, t.BinaryType):
            out = [b""] * n
        for k, option in enumerate(options, 1):
            rows = there & (chosen == k)
            if not rows.any():
                continue
            values, own_valid, own = option.run(columns, n)
            errors = first_of(errors, only_where(own, rows))
            for i in np.flatnonzero(rows):
                out[i] = values[i].as_py()
            if own_valid is not None:
                there &= ~rows | own_valid
        kind = pa.binary() if isinstance(call.type, t.BinaryType) else pa.string()
        return pa.array(out, kind), there, errors

    return run


#: Behind the point, as Java has them at most.
_MOST_DIGITS = 340
_ENOUGH = decimal.Context(prec=800, Emax=10_000, Emin=-10_000)


def _format_number(call: Call, args: tuple[Node, ...]) -> Run:
    kind = args[0].type
    scale = kind.scale if isinstance(kind, t.DecimalType) else 0

    def formatted(value: Any, digits: int) -> str | None:
        if digits < 0:
            return None
        digits = min(digits, _MOST_DIGITS)
        if isinstance(value, float):
            if not math.isfinite(value):
                return "NaN" if math.isnan(value) else "∞" if value > 0 else "-∞"
            number = _tied(value, digits)
        else:
            number = decimal.Decimal(int(value)).scaleb(-scale, _ENOUGH)
        unit = decimal.Decimal((0, (1,), -digits))
        return f"{number.quantize(unit, decimal.ROUND_HALF_EVEN, _ENOUGH):,f}"

    return rowwise(args, formatted, pa.string())


def _tied(value: float, digits: int) -> decimal.Decimal:
    """The shortest decimal that denotes the value, and where that is halfway between two results,
    the value itself."""
    number = decimal.Decimal(repr(value))
    twice = _ENOUGH.multiply(number.scaleb(digits, _ENOUGH), 2)
    is_tie = twice == twice.to_integral_value() and int(twice) % 2 != 0
    return decimal.Decimal(value) if is_tie else number


BUILDERS: dict[str, Builder] = {
    "find_in_set": _find_in_set,
    "levenshtein": _levenshtein,
    "levenshtein_within": _levenshtein_within,
    "soundex": _soundex,
    "luhn_check": _luhn,
    "mask": _mask,
    "overlay": _overlay,
    "quote": _quote,
    "elt": _elt,
    "format_number": _format_number,
}
