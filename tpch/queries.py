"""The TPC-H queries: one file each, in the specification's text with its validation parameters.

Three spellings differ from it: `interval '90' day (3)` is written `interval '90' day`, "first n
rows only" is written LIMIT n, and the view of q15 is a common table expression.

`parameters` chooses the substitution parameters: "spec", the text as it is in the file, or
"lively", the same text with the literals of `tpch.lively`.

Invariant: `all_queries()` is what is on disk; no list of names exists beside the files.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import sqlglot
from sqlglot import exp

from tpch import lively
from tpch.schema import TABLES

PARAMETERS = ("spec", "lively")

_DIRECTORY = Path(__file__).parent / "queries"


class UnknownQueryError(ValueError):
    """A name in `--queries` that is no query's."""


@dataclass(frozen=True, slots=True)
class Query:
    """`tables`: the tables that the text reads, in the order of `schema.TABLES`."""

    name: str
    sql: str
    tables: tuple[str, ...]

    @property
    def create_sql(self) -> str:
        return f"CREATE MATERIALIZED VIEW {self.name} AS\n{self.sql}"


@functools.cache
def all_queries(parameters: str = "spec") -> tuple[Query, ...]:
    """Every query that has a file, by number.

    Raises: ValueError if there are no such `parameters`.
    """
    if parameters not in PARAMETERS:
        raise ValueError(f'the parameters are {" or ".join(PARAMETERS)}, not "{parameters}"')
    paths = sorted(_DIRECTORY.glob("q[0-9][0-9].sql"))
    return tuple(_read(path, parameters) for path in paths)


def select_queries(names: str, parameters: str = "spec") -> tuple[Query, ...]:
    """The queries of a list such as `q01,q03`, each once, by number; `all`: every file.

    Raises: UnknownQueryError naming each part that is no query, and the ones there are.
    """
    by_name = {query.name: query for query in all_queries(parameters)}
    wanted = [name.strip().lower() for name in names.split(",") if name.strip()]
    if wanted == ["all"]:
        return all_queries(parameters)
    unknown = [name for name in wanted if name not in by_name]
    if unknown or not wanted:
        what = ", ".join(f'"{name}"' for name in unknown) if unknown else "an empty list"
        raise UnknownQueryError(f"no such query: {what} (there are all, {', '.join(by_name)})")
    return tuple(query for query in by_name.values() if query.name in wanted)


def tables_of(queries: Sequence[Query]) -> tuple[str, ...]:
    """The tables that any of the queries reads, in the order of `schema.TABLES`."""
    read = {table for query in queries for table in query.tables}
    return tuple(table.name for table in TABLES if table.name in read)


def _read(path: Path, parameters: str) -> Query:
    sql = re.sub(r"[;\s]+\Z", "", path.read_text(encoding="utf-8"))
    if parameters == "lively":
        sql = lively.substitute(path.stem, sql)
    named = {table.name for table in sqlglot.parse_one(sql, read="databricks").find_all(exp.Table)}
    return Query(path.stem, sql, tuple(t.name for t in TABLES if t.name in named))
