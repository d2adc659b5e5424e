"""When two names are one name, and how a name is written.

Spark compares identifiers without regard to case, character by character, as Java's
equalsIgnoreCase does: two are the same if the lower cases of their upper cases are. So `ſ` is `s`
and `İ` is `i`, but `ß` is not `ss`, and a letter with its accent apart is not the letter with it.
"""

from __future__ import annotations

import re

_PLAIN = re.compile(r"[a-z_][a-z0-9_]*", re.IGNORECASE | re.ASCII)
#: Words that have a meaning where a name may stand.
_RESERVED = frozenset(
    "AS CHECK CONSTRAINT EXISTS FOREIGN IF MATERIALIZED NOT OR PRIMARY STREAM TABLE UNIQUE "
    "VIEW".split()
)


def quoted(name: str) -> str:
    """The name as a statement has it: in backticks, if it needs them."""
    if _PLAIN.fullmatch(name) and name.upper() not in _RESERVED:
        return name
    return "`" + name.replace("`", "``") + "`"


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
