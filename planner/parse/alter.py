"""ALTER and COMMENT ON: names, further columns of tables, and what is said of them."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from planner.calculus.types import Field
from planner.context import Trait
from planner.names import folded, schema_of
from planner.parse.columns import (
    DESCRIBED,
    PLACED,
    default_at,
    refuse_constraint,
    typed_column,
)
from planner.parse.queries import Query, query_at, string_value
from planner.parse.schemas import WORDS, schema_name
from planner.parse.tokens import Cursor, meant


@dataclass(frozen=True, slots=True)
class Rename:
    """ALTER … RENAME TO; `kind`: "table", "stream" or "view"."""

    name: str
    kind: str
    to: str


@dataclass(frozen=True, slots=True)
class NewColumn:
    """`default`: a query of one literal, for the rows that there are; None: NULL."""

    field: Field
    default: Query | None
    trait: Trait


@dataclass(frozen=True, slots=True)
class AlterColumn:
    """ALTER TABLE … ALTER COLUMN: what it sets, the default (None: NULL) or the comment."""

    name: str
    column: str
    sets: str
    value: str | None


@dataclass(frozen=True, slots=True)
class Comment:
    """COMMENT ON a "table", "stream", "view", "schema", or a "column" of one of the former;
    `text` None: none any more."""

    kind: str
    name: str
    column: str | None
    text: str | None


@dataclass(frozen=True, slots=True)
class AddColumns:
    """ALTER TABLE … ADD COLUMN."""

    name: str
    columns: tuple[NewColumn, ...]


#: What follows ALTER and a name, and changes columns; of each kind what that would do, and what to
#: write.
_COLUMNS = ("DROP", "ALTER", "CHANGE", "REPLACE", "RENAME", "ADD")
_OTHER_COLUMNS = {
    "table": (
        "changes what the rows of a table are, which views and indexes rest on",
        "Create another table with the columns that you need, and fill it from this one.",
    ),
    "stream": (
        "changes what the events of a stream are, which views rest on",
        "Create another stream with the columns that you need, and views over it.",
    ),
    "view": (
        "changes what a query says, and a view is what its query says",
        "Write CREATE OR REPLACE MATERIALIZED VIEW.",
    ),
}
_ALTER_HINT = "Write ALTER TABLE name RENAME TO other, or ALTER TABLE name ADD COLUMN column type."
#: Of ALTER: what each would do, and what to write.
_ALTERATIONS = {
    "SET": DESCRIBED,
    "UNSET": DESCRIBED,
    "AS": (
        "would give a view another query in its place",
        "Write CREATE OR REPLACE MATERIALIZED VIEW.",
    ),
    "RECOVER": PLACED,
    "PARTITION": PLACED,
}


def comment_on(cursor: Cursor) -> Comment:
    """The statement."""
    cursor.expect("COMMENT", "ON")
    column = None
    if cursor.accept("COLUMN"):
        kind, start = "column", cursor.peek()
        parts = [cursor.name("column")]
        while cursor.accept("."):
            parts.append(cursor.name("column"))
        if len(parts) < 2:
            cursor.fail(detail="Expected the name of a column behind that of its table.")
        name, column = cursor.full(start, parts[:-1]), parts[-1]
    elif any(map(cursor.accept, WORDS)):
        kind, name = "schema", schema_name(cursor)
    else:
        kind = "table"
        if cursor.accept("MATERIALIZED", "VIEW") or cursor.accept("VIEW"):
            kind = "view"
        elif cursor.accept("STREAM"):
            kind = "stream"
        else:
            cursor.expect("TABLE")
        name = cursor.relation(kind)
    cursor.expect("IS")
    text = None
    if not cursor.accept("NULL"):
        text = string_value(cursor.take("string", "a string, or NULL"))
    cursor.end()
    return Comment(kind, name, column, text)


def alter(cursor: Cursor) -> Rename | AddColumns | AlterColumn:
    """The statement."""
    start = cursor.expect("ALTER")
    if cursor.accept("MATERIALIZED", "VIEW"):
        kind = "view"
    elif cursor.accept("STREAM"):
        kind = "stream"
    elif cursor.accept("VIEW"):
        cursor.fail_at(start, "views are altered with ALTER MATERIALIZED VIEW")
    elif cursor.accept("TABLE"):
        kind = "table"
    else:
        known = ("TABLE", "STREAM", "MATERIALIZED")
        raise cursor.near(hint=meant(cursor.peek(), known) or _ALTER_HINT)
    name = cursor.relation(kind)
    action = cursor.peek()
    if cursor.accept("RENAME", "TO"):
        to = cursor.relation(kind, schema_of(name))
        cursor.end(hint="RENAME TO takes a name, and nothing else.")
        return Rename(name, kind, to)
    if kind == "table" and cursor.accept("ADD"):
        if cursor.peek().word in ("CONSTRAINT", "PRIMARY", "CHECK", "UNIQUE", "FOREIGN"):
            refuse_constraint(cursor)
        if cursor.peek().word == "PARTITION":
            cursor.unsupported("ALTER with ADD PARTITION", action, *PLACED)
        return _add_columns(cursor, name)
    if cursor.accept("ALTER") or cursor.accept("CHANGE"):
        cursor.accept("COLUMN")
        if (altered := _altered(cursor, name, kind)) is not None:
            return altered
    if action.word in _COLUMNS:
        cursor.unsupported(f"ALTER with {action.word}", action, *_OTHER_COLUMNS[kind])
    if action.word in _ALTERATIONS:
        why, hint = _ALTERATIONS[action.word]
        cursor.unsupported(f"ALTER with {action.word}", action, why, hint)
    hint = meant(action, ("RENAME", "ADD")) or _ALTER_HINT
    raise cursor.near(hint=hint)


def _altered(cursor: Cursor, name: str, kind: str) -> AlterColumn | None:
    """What is said of a column beside its type; None for what is not."""
    if cursor.peek().kind not in ("word", "quoted"):
        return None
    column = cursor.name("column")
    if cursor.accept("COMMENT"):
        altered = AlterColumn(
            name, column, "comment", string_value(cursor.take("string", "a string"))
        )
    elif kind != "view" and cursor.accept("SET", "DEFAULT"):
        altered = AlterColumn(name, column, "default", default_at(cursor))
    elif kind != "view" and cursor.accept("DROP", "DEFAULT"):
        altered = AlterColumn(name, column, "default", None)
    else:
        return None
    cursor.end()
    return altered


def _add_columns(cursor: Cursor, table: str) -> AddColumns:
    if not cursor.accept("COLUMNS"):
        cursor.accept("COLUMN")
    several = cursor.accept("(")
    columns = [_new_column(cursor)]
    while several and cursor.accept(","):
        here = cursor.peek()
        columns.append(_new_column(cursor))
        if folded(columns[-1].field.name) in [folded(c.field.name) for c in columns[:-1]]:
            named = columns[-1].field.name
            cursor.fail_at(here, f'column "{named}" is specified more than once')
    if several:
        cursor.expect(")")
    cursor.end(hint="ADD COLUMN takes a name, a type, NOT NULL, DEFAULT literal and COMMENT text.")
    return AddColumns(table, tuple(columns))


def _new_column(cursor: Cursor) -> NewColumn:
    if cursor.peek().word == "IF" and (ahead := cursor.ahead()) and ahead.word == "NOT":
        cursor.fail(hint="There is no IF NOT EXISTS here: DESCRIBE says which columns there are.")
    column, default, trait = typed_column(cursor), None, Trait()
    while True:
        here = cursor.peek()
        if cursor.accept("NOT", "NULL"):
            column = replace(column, nullable=False)
        elif cursor.accept("NULL"):
            pass
        elif cursor.accept("DEFAULT"):
            start = cursor.peek().start
            default = _literal(cursor)
            said = cursor.text[start : cursor.peek().start].rstrip()
            trait = replace(trait, default=None if default is None else said)
        elif cursor.accept("COMMENT"):
            comment = string_value(cursor.take("string", "a string"))
            trait = replace(trait, comment=comment)
        elif here.word in ("PRIMARY", "GENERATED", "CHECK", "UNIQUE", "REFERENCES"):
            cursor.unsupported(
                f"a new column with {here.word}",
                here,
                "is not checked or computed for rows that are there",
                "Leave it out; NOT NULL is checked. For another key create another table.",
            )
        elif here.word in ("FIRST", "AFTER"):
            cursor.unsupported(
                f"a new column with {here.word}",
                here,
                "would move the columns that rows are given by",
                "Leave it out: the new column is the last one.",
            )
        else:
            return NewColumn(column, default, trait)


def _literal(cursor: Cursor) -> Query | None:
    """A literal, as a query of it that has its place in the text; None for NULL."""
    first = last = cursor.next()
    if first.word == "NULL":
        return None
    if first.text in ("-", "+"):
        last = cursor.take("number", "a number")
    elif first.word in ("DATE", "TIMESTAMP", "TIMESTAMP_NTZ", "TIMESTAMP_LTZ", "X"):
        last = cursor.take("string", "a string")
    elif first.kind not in ("number", "string") and first.word not in ("TRUE", "FALSE"):
        cursor.unsupported(
            "a default that is no literal",
            first,
            "would be computed anew for each row",
            "Write a number, a string, DATE '…', TIMESTAMP '…', TRUE, FALSE or NULL.",
        )
    blank = re.sub(r"\S", " ", cursor.text[: first.start])
    keyword = "SELECT "
    end = last.start + len(last.text)
    return query_at(Cursor(blank[: -len(keyword)] + keyword + cursor.text[first.start : end]))
