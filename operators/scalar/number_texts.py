"""Numbers as texts and texts as numbers, by a pattern (planner.calculus.number_patterns).

Written: places of a run of 9s that the number does not fill are spaces, which signs go behind; a
number that the pattern has no room for is written in #. Read: spaces among digits are passed over.

Cost: a change is computed row by row. Source: Spark `ToNumberParser`, as recorded.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from operators.flight.column import Bools
from operators.scalar import decimals
from operators.scalar.strings import text_of
from operators.scalar.value import (
    Builder,
    Fetch,
    Node,
    Result,
    Run,
    both_valid,
    failures,
    first_of,
    unary,
)
from planner.calculus import types as t
from planner.calculus.expr import Call
from planner.calculus.number_patterns import Mark, NumberPattern, Point, number_pattern


def _to_char(call: Call, args: tuple[Node, ...]) -> Run:
    kind, pattern = args[0].type, number_pattern(text_of(args[1]) or "")
    assert isinstance(kind, t.DecimalType)
    write = _writer(pattern, kind.scale)
    return unary(
        args[0],
        lambda values: pa.array([write(int(v)) for v in decimals.objects(values)], pa.string()),
    )


def _writer(pattern: NumberPattern, scale: int) -> Callable[[int], str]:
    """Of unscaled values."""
    places = pattern.whole, pattern.scale

    def write(number: int) -> str:
        digits = str(abs(number)).rjust(scale + 1, "0")
        cut = len(digits) - scale
        whole, fraction = digits[:cut].lstrip("0"), digits[cut:].rstrip("0")
        if len(whole) > places[0] or len(fraction) > places[1]:
            whole, fraction = "#" * places[0], "#" * places[1]
        return _written(pattern, number < 0, whole.rjust(places[0]), fraction.ljust(places[1], "0"))

    return write


def _written(pattern: NumberPattern, negative: bool, whole: str, fraction: str) -> str:
    out, at, behind = "", 0, False
    for part in pattern.parts:
        match part:
            case Point():
                if out.endswith(" "):
                    out = out[:-1] + "0"
                out += "."
                behind = True
            case Mark("$"):
                out += "$"
            case Mark("<"):
                out += "<" if negative else ""
            case Mark(">"):
                out = _without_point(out)
                out = _signed(out, ">") if negative else out + "  "
            case Mark("S"):
                out = _signed(_without_point(out), "-" if negative else "+")
            case Mark():
                out = _signed(_without_point(out), "-") if negative else out + " "
            case runs if behind:
                out += fraction
            case runs:
                for i, run in enumerate(runs):
                    if i:
                        out = out + "," if out[-1:].isdigit() else _spaced(out)
                    for digit in whole[at : at + run.digits]:
                        if digit != " ":
                            out += digit
                        else:
                            out = out + "0" if run.exact else _spaced(out)
                    at += run.digits
    out = _without_point(out)
    return "0" if out in ("", "+", "-") else out


def _without_point(out: str) -> str:
    """With a space for a point that no digit follows."""
    at = out.find(".")
    alone = at >= 0 and out[at + 1 : at + 2] in ("", " ")
    return out[:at] + " " + out[at + 1 :] if alone else out


def _signed(out: str, sign: str) -> str:
    """The sign goes before the spaces at the end."""
    bare = out.rstrip(" ")
    return bare + sign + out[len(bare) :]


def _spaced(out: str) -> str:
    """A space goes before signs at the end."""
    bare = out.rstrip("+-<")
    return bare + " " + out[len(bare) :]


def _to_number(strict: bool) -> Builder:
    def build(call: Call, args: tuple[Node, ...]) -> Run:
        written = text_of(args[1]) or ""
        pattern = number_pattern(written)

        def run(columns: Fetch, n: int) -> Result:
            texts, valid, errors = args[0].run(columns, n)
            out: list[int] = [0] * n
            read: Bools = np.ones(n, np.bool_)
            failed: dict[int, str] = {}
            for i, text in enumerate(pa.array(texts, pa.string()).to_pylist()):
                if text is None or (valid is not None and not valid[i]):
                    continue
                number = _read(pattern, text)
                if number is not None:
                    out[i] = number
                elif strict:
                    failed[i] = (
                        f"[INVALID_FORMAT.MISMATCH_INPUT] '{text}' is not of the format '{written}'"
                    )
                else:
                    read[i] = False
            errors = first_of(errors, failures(n, failed, failed.values()))
            return decimals.packed(np.array(out, object)), both_valid(valid, read), errors

        return run

    return build


def _read(pattern: NumberPattern, text: str) -> int | None:
    """The unscaled value; None for what is not of the pattern."""
    at, negative, opened, closed, behind = 0, False, False, False, False
    whole = fraction = ""
    for part in pattern.parts:
        here = text[at : at + 1]
        match part:
            case Point():
                behind = behind or here == "."
                at += here == "."
            case Mark("$"):
                if here not in ("$", ""):
                    return None
                at += len(here)
            case Mark("<"):
                opened = here == "<"
                at += opened
            case Mark(">"):
                closed = here == ">"
                if closed and not opened:
                    return None
                negative ^= closed
                at += closed
            case Mark(sign):
                found = here == "-" or (here == "+" and sign == "S")
                negative ^= here == "-"
                at += found
            case runs:
                end = at
                while end < len(text) and (
                    _blank(text[end]) or text[end].isdecimal() or text[end] == ","
                ):
                    end += 1
                groups = ["".join(c for c in g if c.isdecimal()) for g in text[at:end].split(",")]
                if len(groups) > len(runs):
                    return None
                groups = [""] * (len(runs) - len(groups)) + groups
                for run, group in zip(runs, groups, strict=True):
                    if len(group) > run.digits or (run.exact and len(group) < run.digits):
                        return None
                if behind:
                    fraction += "".join(groups)
                else:
                    whole += "".join(groups)
                at = end
    if at < len(text) or opened != closed or not (whole or fraction):
        return None
    number = int((whole or "0") + fraction.ljust(pattern.scale, "0"))
    return -number if negative else number


def _blank(character: str) -> bool:
    return character.isspace() and character not in "\u00a0\u2007\u202f\u0085"


BUILDERS: dict[str, Builder] = {
    "to_char": _to_char,
    "to_number": _to_number(strict=True),
    "try_to_number": _to_number(strict=False),
}
