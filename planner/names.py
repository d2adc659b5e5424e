"""When two names are one name, and how a name is written.

Spark compares identifiers without regard to case, character by character, as Java's
equalsIgnoreCase does: two are the same if the lower cases of their upper cases are. So `ſ` is `s`
and `İ` is `i`, but `ß` is not `ss`, and a letter with its accent apart is not the letter with it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

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


#: The schema of a name that says none, unless USE says another.
DEFAULT_SCHEMA = "default"
#: The one catalog, as Spark calls it.
CATALOG = "spark_catalog"


def full_name(parts: Sequence[str], schema: str = DEFAULT_SCHEMA) -> str:
    """The one name of a relation that is written with these parts, where `schema` is in use:
    `schema.name`, or the name alone if it is of the default schema.

    Raises: ValueError for another catalog, too many parts, and a part that has a dot.
    """
    if any("." in part for part in parts):
        raise ValueError("no name has a dot of its own")
    if len(parts) == 3 and folded(parts[0]) == CATALOG:
        parts = parts[1:]
    if len(parts) > 2:
        raise ValueError(f"there is one catalog, {CATALOG}")
    space, name = (schema, *parts)[-2:]
    return name if folded(space) == DEFAULT_SCHEMA else f"{space}.{name}"


def schema_of(name: str) -> str:
    """The schema in which a full name is."""
    space, dot, _ = name.rpartition(".")
    return space if dot else DEFAULT_SCHEMA


def short_name(name: str) -> str:
    """What a relation goes by in a query that gives it no alias."""
    return name.rpartition(".")[2]


def quoted_relation(name: str) -> str:
    """A full name as a statement has it."""
    return ".".join(map(quoted, name.split(".")))
