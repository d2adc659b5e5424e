"""Patterns of numbers, as `to_number` and `to_char` take them: text to parts.

    [MI or S] [$] digits [. or D] digits [MI or S or PR]

A digit is 0 or 9; before the point, runs of them may stand between commas (or G). A run that begins
with 0 has just so many digits, one that begins with 9 at most so many. S is a sign, MI a minus sign
or nothing, PR puts < and > around what is negative. Letters may be small.

`operators.scalar.number_texts` reads and writes by them. Source: Spark `ToNumberParser`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_PATTERN = re.compile(r"(MI|S)?(\$)?([09,G]*)([.D]?)([09]*)(MI|S|PR)?", re.DOTALL)
_RUN = re.compile(r"[09]+")


@dataclass(frozen=True, slots=True)
class Run:
    """So many digits; `exact`: no fewer."""

    digits: int
    exact: bool


@dataclass(frozen=True, slots=True)
class Point:
    """Between whole digits and others."""


@dataclass(frozen=True, slots=True)
class Mark:
    """S, MI, $, or < and > for PR."""

    sign: str


#: Runs of digits with commas between them are one part.
Part = tuple[Run, ...] | Point | Mark


@dataclass(frozen=True, slots=True)
class NumberPattern:
    parts: tuple[Part, ...]
    whole: int
    scale: int

    @property
    def precision(self) -> int:
        return self.whole + self.scale


def number_pattern(text: str) -> NumberPattern:
    """Raises: ValueError, which says what is wrong, for what is no pattern."""
    found = _PATTERN.fullmatch(text.upper())
    if found is None:
        raise ValueError("is not [MI|S] [$] digits [.] digits [MI|S|PR]")
    before, dollar, whole, point, fraction, after = found.groups()
    if before is not None and before == after:
        raise ValueError(f"has {before} twice")
    if not _RUN.search(whole + fraction):
        raise ValueError("has no digit, 0 or 9")
    if whole and not all(re.split("[,G]", whole)):
        raise ValueError("has a comma that is not between digits")
    runs = tuple(Run(len(r), r[0] == "0") for r in _RUN.findall(whole))
    parts: list[Part] = [Mark("<")] if after == "PR" else []
    parts += [Mark(mark) for mark in (before, dollar) if mark]
    parts += [runs] if runs else []
    parts += [Point()] if point else []
    parts += [(Run(len(fraction), False),)] if fraction else []
    parts += [Mark(">" if after == "PR" else after)] if after else []
    made = NumberPattern(tuple(parts), sum(r.digits for r in runs), len(fraction))
    if made.precision > 38:
        raise ValueError("has more than 38 digits")
    return made
