"""Statements: SQL text to a closed set of small values.

What is said about tables and views is read here by a cursor over tokens, so that a clause nobody
knows is an error at its place; only queries go to sqlglot.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from planner.calculus.types import Field, MapType, holds
from planner.context import Trait
from planner.errors import SqlSyntaxError
from planner.names import DEFAULT_SCHEMA, folded
from planner.parse.alter import AddColumns, AlterColumn, Comment, Rename, alter, comment_on
from planner.parse.changes import (
    Delete,
    Insert,
    Merge,
    Update,
    delete,
    insert,
    insert_after_with,
    merge,
    truncate,
    update,
)
from planner.parse.columns import (
    DESCRIBED,
    PLACED,
    column_at,
    comment_at,
    enforcement,
    refuse_constraint,
)
from planner.parse.queries import Query, query_at
from planner.parse.schemas import (
    WORDS,
    CreateSchema,
    DescribeSchema,
    DropSchema,
    ShowSchemas,
    UseSchema,
    create_schema,
    drop_schema,
    in_schema,
    schema_name,
    use_schema,
)
from planner.parse.tokens import Cursor, Token, meant
from planner.room import with_room


@dataclass(frozen=True, slots=True)
class CreateTable:
    """`primary_key` is empty for a bag; `enforced` False is NOT ENFORCED RELY. `traits`: one a
    column."""

    name: str
    columns: tuple[Field, ...]
    primary_key: tuple[str, ...]
    enforced: bool
    if_not_exists: bool
    traits: tuple[Trait, ...]
    comment: str | None


@dataclass(frozen=True, slots=True)
class CreateTableAs:
    """A table with the columns and rows of a query that Spark SQL runs once. `text`: the query,
    with blanks before it so that its lines and columns are those of the statement."""

    name: str
    text: str
    if_not_exists: bool


@dataclass(frozen=True, slots=True)
class CreateStream:
    """A source of events, which have `columns` and are not kept."""

    name: str
    columns: tuple[Field, ...]
    if_not_exists: bool
    traits: tuple[Trait, ...]
    comment: str | None


@dataclass(frozen=True, slots=True)
class CreateView:
    """`columns` renames the query's columns; None keeps their names. `schema`: of names in the
    query that say none. `comments`: of the columns, if any. `lazy`: nothing is computed before
    somebody reads the view."""

    name: str
    query: Query
    columns: tuple[str, ...] | None
    or_replace: bool
    if_not_exists: bool
    schema: str = DEFAULT_SCHEMA
    comment: str | None = None
    comments: tuple[str | None, ...] = ()
    lazy: bool = False


@dataclass(frozen=True, slots=True)
class DropTable:
    name: str
    if_exists: bool


@dataclass(frozen=True, slots=True)
class DropStream:
    name: str
    if_exists: bool


@dataclass(frozen=True, slots=True)
class DropView:
    name: str
    if_exists: bool


@dataclass(frozen=True, slots=True)
class DropFunction:
    name: str
    if_exists: bool


@dataclass(frozen=True, slots=True)
class ShowFunctions:
    """Those of the user."""


@dataclass(frozen=True, slots=True)
class ExplainView:
    """EXPLAIN of an existing view, or (`create` set) of one that would be created."""

    name: str
    create: CreateView | None


@dataclass(frozen=True, slots=True)
class Describe:
    """The columns of a table, stream or view; `kind` is what it must be: "table" (anything, as in
    Spark), "stream" or "view"."""

    name: str
    kind: str


@dataclass(frozen=True, slots=True)
class ShowColumns:
    name: str


@dataclass(frozen=True, slots=True)
class ShowCreate:
    """The statement that makes it again; `kind` as in Describe."""

    name: str
    kind: str


@dataclass(frozen=True, slots=True)
class ShowArrangements:
    pass


@dataclass(frozen=True, slots=True)
class ShowTables:
    """Those of a schema."""

    schema: str


@dataclass(frozen=True, slots=True)
class ShowStreams:
    """Those of a schema."""

    schema: str


@dataclass(frozen=True, slots=True)
class ShowViews:
    """Those of a schema."""

    schema: str


@dataclass(frozen=True, slots=True)
class VerifyView:
    name: str


@dataclass(frozen=True, slots=True)
class Select:
    """A query over tables and views that Spark SQL runs; its text is not parsed here."""

    text: str


@dataclass(frozen=True, slots=True)
class SetTimeZone:
    """SET TIME ZONE: the name or offset, as written."""

    zone: str


Statement: TypeAlias = (
    CreateTable
    | CreateTableAs
    | CreateStream
    | CreateView
    | DropTable
    | DropStream
    | DropView
    | Rename
    | AddColumns
    | AlterColumn
    | Comment
    | ExplainView
    | Describe
    | ShowColumns
    | ShowCreate
    | ShowArrangements
    | ShowTables
    | ShowStreams
    | ShowViews
    | VerifyView
    | Select
    | Insert
    | Update
    | Delete
    | Merge
    | SetTimeZone
    | CreateSchema
    | DropSchema
    | DropFunction
    | ShowFunctions
    | UseSchema
    | DescribeSchema
    | ShowSchemas
)

_STATEMENTS = (
    "CREATE TABLE, CREATE STREAM, CREATE MATERIALIZED VIEW, DROP TABLE, DROP STREAM, "
    "DROP MATERIALIZED VIEW, ALTER TABLE, ALTER STREAM, ALTER MATERIALIZED VIEW, DESCRIBE, "
    "EXPLAIN MATERIALIZED VIEW, EXPLAIN CREATE MATERIALIZED VIEW, SHOW, VERIFY MATERIALIZED VIEW, "
    "CREATE SCHEMA, DROP SCHEMA, DROP FUNCTION, USE, COMMENT ON, SET TIME ZONE, INSERT, "
    "UPDATE, DELETE, MERGE, TRUNCATE TABLE "
    "and queries"
)
_KEYWORDS = (
    "CREATE DROP ALTER DESCRIBE EXPLAIN SHOW SET VERIFY SELECT WITH VALUES INSERT UPDATE DELETE "
    "MERGE TRUNCATE USE COMMENT".split()
)
_CREATED = ("TABLE", "STREAM", "MATERIALIZED", "VIEW", "SCHEMA")
_SHOWN = ("TABLES", "STREAMS", "VIEWS", "SCHEMAS", "FUNCTIONS", "ARRANGEMENTS", "COLUMNS", "CREATE")

_STORED = ("says how files are laid out, and rows are kept in memory here", "Leave it out.")
#: Clauses of Spark's CREATE TABLE: what each would do, and what to write.
_CLAUSES = {
    **dict.fromkeys(("USING", "STORED", "ROW", "OPTIONS"), _STORED),
    **dict.fromkeys(("PARTITIONED", "CLUSTERED", "CLUSTER", "SORTED"), PLACED),
    **dict.fromkeys(("TBLPROPERTIES", "DEFAULT", "WITH"), DESCRIBED),
    "LOCATION": (
        "names files that others may change, and a view would not hear of it",
        "Leave it out, and load the files: db.load(table, path).",
    ),
}
_QUERY_STARTS = ("SELECT", "WITH", "FROM", "VALUES", "TABLE", "(")


def parse_statement(text: str, schema: str = DEFAULT_SCHEMA) -> Statement:
    """Parse one statement; a closing semicolon is allowed. `schema`: of names that say none.

    Raises: SqlSyntaxError for text that is no statement, UnsupportedError for Spark SQL that this
    library has no counterpart for; both with line and column.
    """
    cursor = Cursor(text, schema)
    match cursor.peek().word:
        case "CREATE":
            return _create(cursor)
        case "DROP":
            return _drop(cursor)
        case "ALTER":
            return alter(cursor)
        case "EXPLAIN":
            return _explain(cursor)
        case "SHOW":
            return _show(cursor)
        case "DESCRIBE" | "DESC":
            return _describe(cursor)
        case "SET":
            return _set(cursor)
        case "COMMENT":
            return comment_on(cursor)
        case "USE":
            return use_schema(cursor)
        case "VERIFY":
            cursor.expect("VERIFY", "MATERIALIZED", "VIEW")
            name = cursor.relation("view")
            cursor.end()
            return VerifyView(name)
        case "INSERT":
            return insert(cursor)
        case "UPDATE":
            return with_room(lambda: update(cursor))
        case "DELETE":
            return delete(cursor)
        case "TRUNCATE":
            return truncate(cursor)
        case "MERGE":
            return with_room(lambda: merge(cursor))
        case "WITH" if (inserted := insert_after_with(cursor)) is not None:
            return inserted
        case word if word in _QUERY_STARTS:
            return Select(text[cursor.peek().start : cursor.stop].rstrip())
        case _:
            raise _unknown(cursor, _KEYWORDS)


def _unknown(cursor: Cursor, known: Sequence[str]) -> SqlSyntaxError:
    """The next word begins no statement, nor goes on with one."""
    return cursor.near(hint=meant(cursor.peek(), known) or f"The statements are {_STATEMENTS}.")


_Created: TypeAlias = CreateTable | CreateTableAs | CreateStream | CreateView | CreateSchema


def _create(cursor: Cursor) -> _Created:
    start = cursor.expect("CREATE")
    or_replace = cursor.accept("OR", "REPLACE")
    if cursor.accept("MATERIALIZED", "VIEW"):
        return _create_view(cursor, or_replace)
    if cursor.accept("TABLE"):
        if or_replace:
            cursor.unsupported(
                "CREATE OR REPLACE TABLE",
                start,
                "would empty a table under its views",
                "Drop the table and create it again.",
            )
        return _create_table(cursor)
    if not or_replace and cursor.accept("STREAM"):
        return _create_stream(cursor)
    if not or_replace and any(map(cursor.accept, WORDS)):
        return create_schema(cursor)
    if cursor.accept("VIEW") or cursor.accept("TEMPORARY") or cursor.accept("TEMP"):
        cursor.unsupported(
            "a view that is not materialized",
            start,
            "keeps no result that could be maintained",
            "Write CREATE MATERIALIZED VIEW.",
        )
    raise _unknown(cursor, _CREATED)


def _create_view(cursor: Cursor, or_replace: bool) -> CreateView:
    exists = cursor.accept("IF", "NOT", "EXISTS")
    name = cursor.relation("view")
    columns: tuple[str, ...] | None = None
    comments: tuple[str | None, ...] = ()
    if cursor.accept("("):
        named = [_view_column(cursor)]
        while cursor.accept(","):
            named.append(_view_column(cursor))
        cursor.expect(")")
        columns, comments = tuple(n for n, _ in named), tuple(c for _, c in named)
    comment = comment_at(cursor)
    lazy = _view_options(cursor)
    if cursor.peek().word != "AS":
        cursor.fail(
            hint="Write CREATE MATERIALIZED VIEW name [(column, …)] [COMMENT text] "
            "[WITH (lazy = true)] AS query."
        )
    cursor.next()
    query = query_at(cursor)
    if not any(comments):
        comments = ()
    return CreateView(
        name, query, columns, or_replace, exists, cursor.schema, comment, comments, lazy
    )


def _view_options(cursor: Cursor) -> bool:
    """WITH (lazy = true): whether the view is lazy."""
    if not cursor.accept("WITH"):
        return False
    cursor.expect("(")
    if not cursor.accept("LAZY"):
        cursor.fail(hint="A view has one option: WITH (lazy = true).")
    cursor.expect("=")
    lazy = cursor.peek()
    if lazy.word not in ("TRUE", "FALSE"):
        cursor.fail(hint="Write true or false.")
    cursor.next()
    cursor.expect(")")
    return lazy.word == "TRUE"


def _view_column(cursor: Cursor) -> tuple[str, str | None]:
    return cursor.name("column"), comment_at(cursor)


def _create_table(cursor: Cursor) -> CreateTable | CreateTableAs:
    exists = cursor.accept("IF", "NOT", "EXISTS")
    name = cursor.relation("table")
    _refuse_clauses(cursor)
    if cursor.accept("AS"):
        start = cursor.peek().start
        if cursor.peek().word not in _QUERY_STARTS:
            cursor.fail(detail="Expected a query.")
        blanks = re.sub(r"[^\n]", " ", cursor.text[:start])
        return CreateTableAs(name, blanks + cursor.text[start : cursor.stop], exists)
    if cursor.peek().word != "(":
        cursor.fail(hint="Write CREATE TABLE name (column type, …), or CREATE TABLE name AS query.")
    cursor.expect("(")
    columns: list[Field] = []
    taken: set[str] = set()
    traits: list[Trait] = []
    key: tuple[str, ...] = ()
    key_token: Token | None = None
    enforced = True
    while True:
        here = cursor.peek()
        if cursor.accept("CONSTRAINT"):
            cursor.name("constraint")
            if cursor.peek().word != "PRIMARY":
                refuse_constraint(cursor)
        if cursor.accept("PRIMARY", "KEY"):
            names = cursor.name_list("column")
        elif cursor.peek().word in ("CHECK", "UNIQUE", "FOREIGN"):
            refuse_constraint(cursor)
        else:
            column, is_key, trait = column_at(cursor)
            if folded(column.name) in taken:
                cursor.fail_at(here, f'column "{column.name}" is specified more than once')
            taken.add(folded(column.name))
            columns.append(column)
            traits.append(trait)
            names = (column.name,) if is_key else ()
        if names:
            if key:
                cursor.fail_at(here, f'table "{name}" has more than one primary key')
            key, key_token, enforced = names, here, enforcement(cursor)
            if not cursor.accept("NOT", "NULL"):
                cursor.accept("NULL")
            if here.word not in ("CONSTRAINT", "PRIMARY") and cursor.peek().word == "COMMENT":
                traits[-1] = replace(traits[-1], comment=comment_at(cursor))
        if not cursor.accept(","):
            break
    cursor.expect(")")
    _refuse_clauses(cursor)
    comment = comment_at(cursor)
    _refuse_clauses(cursor)
    if cursor.peek().word == "AS":
        cursor.fail(
            detail="A table that is made of a query has the query's columns.",
            hint="Write CREATE TABLE name AS query, with aliases and casts in the query.",
        )
    cursor.end(hint="A table has columns, a primary key and a comment, and no other clauses.")
    by_name = {folded(c.name): c.name for c in columns}
    spelled: list[str] = []
    for part in key:
        assert key_token is not None
        if folded(part) not in by_name:
            cursor.fail_at(key_token, f'the primary key names an unknown column "{part}"')
        if by_name[folded(part)] in spelled:
            cursor.fail_at(key_token, f'the primary key names column "{part}" twice')
        spelled.append(by_name[folded(part)])
        if any(c.name == spelled[-1] and holds(c.type, MapType) for c in columns):
            cursor.fail_at(
                key_token,
                f'the primary key names column "{part}", which has maps',
                detail="Two maps are never compared, as in Spark.",
            )
    fields = tuple(replace(c, nullable=c.nullable and c.name not in spelled) for c in columns)
    return CreateTable(name, fields, tuple(spelled), enforced, exists, tuple(traits), comment)


def _refuse_clauses(cursor: Cursor) -> None:
    """Refuse what Spark's tables have and say of it why these do not."""
    clause = _CLAUSES.get(cursor.peek().word)
    if clause is not None:
        why, hint = clause
        cursor.unsupported(f"a table with {cursor.peek().word}", cursor.peek(), why, hint)


def _create_stream(cursor: Cursor) -> CreateStream:
    exists = cursor.accept("IF", "NOT", "EXISTS")
    name = cursor.relation("stream")
    cursor.expect("(")
    columns: list[Field] = []
    traits: list[Trait] = []
    while True:
        here = cursor.peek()
        constraint = here.word in ("CONSTRAINT", "PRIMARY")
        column, is_key, trait = (None, True, Trait()) if constraint else column_at(cursor)
        if column is None or is_key:
            cursor.unsupported(
                "a primary key of a stream",
                here,
                "would be checked against past events, which are not kept",
                "Leave it out, or create a table.",
            )
        if any(folded(column.name) == folded(c.name) for c in columns):
            cursor.fail_at(here, f'column "{column.name}" is specified more than once')
        columns.append(column)
        traits.append(trait)
        if not cursor.accept(","):
            break
    cursor.expect(")")
    comment = comment_at(cursor)
    cursor.end(hint="A stream has columns and a comment, and no other clauses.")
    return CreateStream(name, tuple(columns), exists, tuple(traits), comment)


def _drop(cursor: Cursor) -> DropTable | DropStream | DropView | DropSchema | DropFunction:
    start = cursor.expect("DROP")
    made: type[DropTable | DropStream | DropView]
    if cursor.accept("MATERIALIZED", "VIEW"):
        made, kind = DropView, "view"
    elif cursor.accept("STREAM"):
        made, kind = DropStream, "stream"
    elif any(map(cursor.accept, WORDS)):
        return drop_schema(cursor)
    elif cursor.accept("FUNCTION"):
        exists = cursor.accept("IF", "EXISTS")
        function = cursor.name("function")
        cursor.end()
        return DropFunction(function, exists)
    elif cursor.accept("VIEW"):
        cursor.fail_at(start, "views are dropped with DROP MATERIALIZED VIEW")
    else:
        cursor.expect("TABLE")
        made, kind = DropTable, "table"
    exists = cursor.accept("IF", "EXISTS")
    name = cursor.relation(kind)
    cursor.end()
    return made(name, exists)


def _explain(cursor: Cursor) -> ExplainView:
    cursor.expect("EXPLAIN")
    if cursor.peek().word == "CREATE":
        created = _create(cursor)
        if not isinstance(created, CreateView):
            kind = "stream" if isinstance(created, CreateStream) else "table"
            if isinstance(created, CreateSchema):
                kind = "schema"
            cursor.fail_at(cursor.first, f"EXPLAIN shows how a view is maintained, not a {kind}")
        return ExplainView(created.name, created)
    if cursor.peek().word != "MATERIALIZED":
        cursor.fail(
            hint="Write EXPLAIN MATERIALIZED VIEW name, or EXPLAIN before CREATE MATERIALIZED VIEW."
        )
    cursor.expect("MATERIALIZED", "VIEW")
    name = cursor.relation("view")
    cursor.end()
    return ExplainView(name, None)


def _set(cursor: Cursor) -> SetTimeZone:
    cursor.expect("SET")
    if not cursor.accept("TIME", "ZONE"):
        cursor.fail(hint="SET TIME ZONE is known; set others with spark.conf.set(name, value).")
    if cursor.peek().word in ("LOCAL", "INTERVAL"):
        cursor.fail(hint="Write the zone as a string: SET TIME ZONE 'Europe/Paris', or '+02:00'.")
    token = cursor.take("string", "a time zone, as a string")
    cursor.end()
    return SetTimeZone(token.text[1:-1])


def _describe(cursor: Cursor) -> Describe | DescribeSchema:
    cursor.next()
    if cursor.ahead() is not None and any(map(cursor.accept, WORDS)):
        space = schema_name(cursor)
        cursor.end()
        return DescribeSchema(space)
    kind = _kind(cursor)
    name = cursor.relation(kind)
    cursor.end()
    return Describe(name, kind)


def _kind(cursor: Cursor) -> str:
    """TABLE, STREAM or MATERIALIZED VIEW before a name; "table" where none is written."""
    if cursor.ahead() is None:  # a table may be called stream
        return "table"
    if cursor.accept("MATERIALIZED", "VIEW") or cursor.accept("VIEW"):
        return "view"
    if cursor.accept("STREAM"):
        return "stream"
    cursor.accept("TABLE")
    return "table"


_Shown: TypeAlias = (
    ShowArrangements
    | ShowTables
    | ShowStreams
    | ShowViews
    | ShowSchemas
    | ShowFunctions
    | ShowColumns
    | ShowCreate
)


def _show(cursor: Cursor) -> _Shown:
    cursor.expect("SHOW")
    shown: _Shown
    if cursor.accept("ARRANGEMENTS"):
        shown = ShowArrangements()
    elif cursor.accept("TABLES"):
        shown = ShowTables(in_schema(cursor))
    elif cursor.accept("STREAMS"):
        shown = ShowStreams(in_schema(cursor))
    elif cursor.accept("VIEWS") or cursor.accept("MATERIALIZED", "VIEWS"):
        shown = ShowViews(in_schema(cursor))
    elif any(cursor.accept(f"{word}S") for word in WORDS):
        shown = ShowSchemas()
    elif cursor.accept("FUNCTIONS") or cursor.accept("USER", "FUNCTIONS"):
        shown = ShowFunctions()
    elif cursor.accept("COLUMNS"):
        if not cursor.accept("IN"):
            cursor.expect("FROM")
        shown = ShowColumns(cursor.relation("table"))
    elif cursor.accept("CREATE"):
        if cursor.peek().word not in _CREATED:
            cursor.fail(detail="Expected TABLE, STREAM or MATERIALIZED VIEW.")
        kind = _kind(cursor)
        shown = ShowCreate(cursor.relation(kind), kind)
    else:
        known = f"SHOW knows {', '.join(_SHOWN)} TABLE and MATERIALIZED VIEW."
        cursor.fail(hint=meant(cursor.peek(), _SHOWN) or known)
    cursor.end()
    return shown
