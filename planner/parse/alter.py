"""ALTER: names, and further columns of tables."""

from __future__ import annotations

import re
from dataclasses import dataclass

from planner.names import folded, schema_of
from planner.parse.columns import DESCRIBED, PLACED, refuse_constraint, type_at
from planner.parse.queries import Query, query_at, string_value
from planner.parse.tokens import Cursor, meant
from planner.types import Field


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
    comment: str | None


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


def alter(cursor: Cursor) -> Rename | AddColumns:
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
    if action.word in _COLUMNS:
        cursor.unsupported(f"ALTER with {action.word}", action, *_OTHER_COLUMNS[kind])
    if action.word in _ALTERATIONS:
        why, hint = _ALTERATIONS[action.word]
        cursor.unsupported(f"ALTER with {action.word}", action, why, hint)
    hint = meant(action, ("RENAME", "ADD")) or _ALTER_HINT
    raise cursor.near(hint=hint)


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
    name = cursor.name("column")
    kind, nullable, default, comment = type_at(cursor), True, None, None
    while True:
        here = cursor.peek()
        if cursor.accept("NOT", "NULL"):
            nullable = False
        elif cursor.accept("NULL"):
            pass
        elif cursor.accept("DEFAULT"):
            default = _literal(cursor)
        elif cursor.accept("COMMENT"):
            comment = string_value(cursor.take("string", "a string"))
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
            return NewColumn(Field(name, kind, nullable), default, comment)


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
