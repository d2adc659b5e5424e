"""When two names are one name.

Spark compares identifiers without regard to case, character by character, as Java's
equalsIgnoreCase does: two are the same if the lower cases of their upper cases are. So `ſ` is `s`
and `İ` is `i`, but `ß` is not `ss`, and a letter with its accent apart is not the letter with it.
"""

from __future__ import annotations


def folded(name: str) -> str:
    """Equal for two names if and only if they are one name."""
    return name.lower() if name.isascii() else "".join(map(_folded, name))


def _folded(char: str) -> str:
    """Case mappings that change the number of characters are not made, except of the capital I with
    a dot, whose lower case is i where characters are mapped one by one."""
    upper = char.upper()
    char = upper if len(upper) == 1 else char
    lower = char.lower()
    return lower if len(lower) == 1 else lower[0] if char == "\u0130" else char
