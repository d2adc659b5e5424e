"""CREATE SCHEMA, DROP SCHEMA, USE, and what SHOW says of schemas."""

from __future__ import annotations

from dataclasses import dataclass

from planner.names import CATALOG, folded
from planner.parse.columns import DESCRIBED, PLACED
from planner.parse.queries import string_value
from planner.parse.tokens import Cursor

#: What a schema is called in statements.
WORDS = ("SCHEMA", "DATABASE", "NAMESPACE")
_CLAUSES = {"LOCATION": PLACED, "MANAGED": PLACED, "WITH": DESCRIBED}


@dataclass(frozen=True, slots=True)
class CreateSchema:
    name: str
    if_not_exists: bool
    comment: str | None


@dataclass(frozen=True, slots=True)
class DropSchema:
    """`cascade`: with all that is in it."""

    name: str
    if_exists: bool
    cascade: bool


@dataclass(frozen=True, slots=True)
class UseSchema:
    """Names without a schema are of this one from now on, in statements of the session."""

    name: str


@dataclass(frozen=True, slots=True)
class DescribeSchema:
    name: str


@dataclass(frozen=True, slots=True)
class ShowSchemas:
    pass


def create_schema(cursor: Cursor) -> CreateSchema:
    """Behind CREATE SCHEMA."""
    exists = cursor.accept("IF", "NOT", "EXISTS")
    name = schema_name(cursor)
    comment = None
    if cursor.accept("COMMENT"):
        comment = string_value(cursor.take("string", "a string"))
    clause = _CLAUSES.get(cursor.peek().word)
    if clause is not None:
        cursor.unsupported(f"a schema with {cursor.peek().word}", cursor.peek(), *clause)
    cursor.end(hint="A schema has a name and a comment, and no other clauses.")
    return CreateSchema(name, exists, comment)


def drop_schema(cursor: Cursor) -> DropSchema:
    """Behind DROP SCHEMA."""
    exists = cursor.accept("IF", "EXISTS")
    name = schema_name(cursor)
    cascade = cursor.accept("CASCADE")
    if not cascade:
        cursor.accept("RESTRICT")
    cursor.end()
    return DropSchema(name, exists, cascade)


def use_schema(cursor: Cursor) -> UseSchema:
    """USE [SCHEMA] name."""
    cursor.expect("USE")
    ahead = cursor.ahead()
    if cursor.peek().word in WORDS and ahead is not None:
        cursor.next()
    name = schema_name(cursor)
    cursor.end()
    return UseSchema(name)


def schema_name(cursor: Cursor) -> str:
    """The name of a schema, behind that of the catalog if that is written."""
    start = cursor.peek()
    parts = [cursor.name("schema")]
    while cursor.accept("."):
        parts.append(cursor.name("schema"))
    if len(parts) == 2 and folded(parts[0]) == CATALOG:
        parts = parts[1:]
    if len(parts) > 1 or "." in parts[0] or not parts[0]:
        cursor.fail_at(
            start,
            f"there can be no schema {'.'.join(f'`{p}`' for p in parts)}",
            detail=f"A schema is in the one catalog, {CATALOG}, and its name has no dot.",
        )
    return parts[0]


def in_schema(cursor: Cursor) -> str:
    """What SHOW is of: IN a schema, or the one in use."""
    if cursor.accept("IN") or cursor.accept("FROM"):
        return schema_name(cursor)
    return cursor.schema
