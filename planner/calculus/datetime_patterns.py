"""Patterns of dates and times, as `date_format` and `to_timestamp` take them: text to parts.

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
#: letter -> the widths in which it is read. `MMM` and longer are names, and `a` is AM or PM.
_READ = {
    **dict.fromkeys("dHhms", (1, 2)),
    "y": (2, 4),
    "M": (1, 2, 3, 4),
    "S": range(1, 10),
    "a": (1,),
}


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
    """Raises: ValueError, which names the part, if no time can be read by the pattern: each letter
    is there once, hours in one way, and where digits follow digits their number tells where one
    ends. (A year that they follow takes all but those of fixed widths, so that S is too much.)
    """
    seen: set[str] = set()
    chain: list[Field] = []
    for part in pattern_parts(pattern):
        if not isinstance(part, Field):
            chain = []
            continue
        fraction = part.letter == "S"
        if chain and _has_digits(part):
            loose = chain[-1].width == 1 or chain[-1].letter == "S"
            if loose or (chain[0].letter == "y" if fraction else part.width == 1):
                raise ValueError(part.letter * part.width)
        if part.width not in _READ.get(part.letter, ()) or part.letter in seen:
            raise ValueError(part.letter * part.width)
        seen.add(part.letter)
        chain = [*chain, part] if _has_digits(part) else []
    if not seen or ("H" in seen and seen & {"h", "a"}):
        raise ValueError("".join(sorted(seen)) or "''")


def _has_digits(field: Field) -> bool:
    return field.letter != "a" and (field.letter != "M" or field.width < 3)
