"""Patterns of dates and times, as `date_format` and `to_date` take them: text to parts.

Those letters of Java's DateTimeFormatter that do not depend on the time zone, in widths that Spark
takes; `operators.scalar.formats` says what each writes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

#: letter -> the widths that are known
_WIDTHS = {
    "y": (1, 2, 4),
    "M": (1, 2, 3, 4),
    "L": (1, 2),
    "q": (1, 2),
    "Q": (1, 2),
    "d": (1, 2),
    "D": (1, 3),
    "E": (1, 2, 3, 4),
    "H": (1, 2),
    "h": (1, 2),
    "m": (1, 2),
    "s": (1, 2),
    "S": range(1, 10),
    "a": (1,),
}
_PART = re.compile(r"([A-Za-z])\1*|'((?:[^']|'')*)'|[^A-Za-z'#{}\[\]]+")
#: What a date is read by: each once.
_READ = {"y": (4,), "M": (1, 2), "d": (1, 2)}


@dataclass(frozen=True, slots=True)
class Field:
    letter: str
    width: int


def pattern_parts(pattern: str) -> tuple[Field | str, ...]:
    """Fields, and text between them.

    Raises: ValueError, which names the part, for what is not known.
    """
    parts: list[Field | str] = []
    at = 0
    while at < len(pattern):
        found = _PART.match(pattern, at)
        if found is None:
            raise ValueError(pattern[at])
        at = found.end()
        letter = found[1]
        if letter is None:
            quoted = found[2]
            parts.append(found[0] if quoted is None else quoted.replace("''", "'") or "'")
        elif len(found[0]) in _WIDTHS.get(letter, ()):
            parts.append(Field(letter, len(found[0])))
        else:
            raise ValueError(found[0])
    return tuple(parts)


def check_readable(pattern: str) -> None:
    """Raises: ValueError, which names the part, if no date can be read by the pattern."""
    parts = pattern_parts(pattern)
    for before, part in zip((None, *parts), parts, strict=False):
        if not isinstance(part, Field):
            continue
        # Where digits follow digits, only fixed widths tell where one number ends.
        adjacent = isinstance(before, Field) and 1 in (before.width, part.width)
        if part.width not in _READ.get(part.letter, ()) or adjacent:
            raise ValueError(part.letter * part.width)
    letters = [p.letter for p in parts if isinstance(p, Field)]
    if sorted(letters) != sorted(_READ):
        raise ValueError("".join(letters) or "''")
