"""Names and texts on their way to another engine: nothing leaves for DuckDB or Spark but through
here, or as a node of sqlglot's.

Every identifier that leaves for DuckDB is `encoded` as well: injective on folded names, and made of
lower case ASCII letters, digits, `_` and `$` alone, so that neither DuckDB's way of folding names
nor a name that means something there (rowid, sqlite_master) has any part in what a query means.
Spark gets names as they are, in backticks.
"""

from __future__ import annotations

import re
import string

from planner.names import folded

#: Encoded names start with this, which no name of DuckDB's own does.
PREFIX = "n_"
_PLAIN = frozenset(string.ascii_lowercase + string.digits + "_")


def encoded(name: str) -> str:
    """The name for DuckDB: equal for two names if and only if they are one name in SQL.

    Characters beyond lower case ASCII letters, digits and `_` become `$`, their code, `$`.
    """
    return PREFIX + "".join(c if c in _PLAIN else f"${ord(c):x}$" for c in folded(name))


def decoded(name: str) -> str:
    """The folded name that was `encoded`; a name that was not is itself."""
    if not name.startswith(PREFIX):
        return name
    return re.sub(r"\$([0-9a-f]+)\$", lambda code: chr(int(code[1], 16)), name[len(PREFIX) :])


def duckdb_name(name: str) -> str:
    """An identifier in DuckDB's SQL text, whatever it holds."""
    return '"' + name.replace('"', '""') + '"'


def duckdb_literal(value: str) -> str:
    """A string in DuckDB's SQL text, whatever it holds."""
    return "'" + value.replace("'", "''") + "'"


def spark_name(name: str) -> str:
    """An identifier in Spark's SQL text, whatever it holds."""
    return "`" + name.replace("`", "``") + "`"


def spark_relation(name: str) -> str:
    """The full name of a relation in SQL text."""
    return ".".join(map(spark_name, name.split(".")))


def spark_template(text: str) -> str:
    """A text that stands for itself where Spark puts DataFrames in the place of {name}."""
    return text.replace("{", "{{").replace("}", "}}")
