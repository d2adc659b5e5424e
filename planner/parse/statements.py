"""Statements: SQL text to a closed set of small values.

What is said about tables and views is read here by a cursor over tokens, so that a clause nobody
knows is an error at its place; only queries go to sqlglot.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn, TypeAlias

from planner import types
from planner.errors import SqlSyntaxError, UnsupportedError, suggestion
from planner.names import folded
from planner.parse.queries import Query, query_at, string_value
from planner.parse.tokens import Cursor, Token, line_and_column, shortened
from planner.types import Field, SqlType


@dataclass(frozen=True, slots=True)
class CreateTable:
    """`primary_key` is empty for a bag; `enforced` False is NOT ENFORCED RELY. `comments`: one a
    column, or None."""

    name: str
    columns: tuple[Field, ...]
    primary_key: tuple[str, ...]
    enforced: bool
    if_not_exists: bool
    comments: tuple[str | None, ...]


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
    comments: tuple[str | None, ...]


@dataclass(frozen=True, slots=True)
class CreateView:
    """`columns` renames the query's columns; None keeps their names."""

    name: str
    query: Query
    columns: tuple[str, ...] | None
    or_replace: bool
    if_not_exists: bool


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
    pass


@dataclass(frozen=True, slots=True)
class ShowStreams:
    pass


@dataclass(frozen=True, slots=True)
class ShowViews:
    pass


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
    | SetTimeZone
)

_STATEMENTS = (
    "CREATE TABLE, CREATE STREAM, CREATE MATERIALIZED VIEW, DROP TABLE, DROP STREAM, "
    "DROP MATERIALIZED VIEW, ALTER TABLE, ALTER STREAM, ALTER MATERIALIZED VIEW, DESCRIBE, "
    "EXPLAIN MATERIALIZED VIEW, EXPLAIN CREATE MATERIALIZED VIEW, SHOW, VERIFY MATERIALIZED VIEW, "
    "SET TIME ZONE "
    "and queries"
)
_KEYWORDS = (
    "CREATE DROP ALTER DESCRIBE EXPLAIN SHOW SET VERIFY SELECT WITH VALUES INSERT UPDATE DELETE "
    "MERGE".split()
)
_CREATED = ("TABLE", "STREAM", "MATERIALIZED", "VIEW")
_SHOWN = ("TABLES", "STREAMS", "VIEWS", "ARRANGEMENTS", "COLUMNS", "CREATE")

_TYPES: dict[str, SqlType] = {
    "BOOLEAN": types.BOOLEAN,
    "TINYINT": types.TINYINT,
    "BYTE": types.TINYINT,
    "SMALLINT": types.SMALLINT,
    "SHORT": types.SMALLINT,
    "INT": types.INT,
    "INTEGER": types.INT,
    "BIGINT": types.BIGINT,
    "LONG": types.BIGINT,
    "FLOAT": types.FLOAT,
    "REAL": types.FLOAT,
    "DOUBLE": types.DOUBLE,
    "STRING": types.STRING,
    "BINARY": types.BINARY,
    "DATE": types.DATE,
    "TIMESTAMP": types.TIMESTAMP,
    "TIMESTAMP_LTZ": types.TIMESTAMP,
    "TIMESTAMP_NTZ": types.TIMESTAMP_NTZ,
}
_DECIMALS = ("DECIMAL", "DEC", "NUMERIC")
_PADDED = ("CHAR", "CHARACTER", "VARCHAR")
_OTHER_TYPES = ("ARRAY", "MAP", "STRUCT", "INTERVAL", "VARIANT", "VOID", "GEOMETRY", "GEOGRAPHY")
_STORED = ("says how files are laid out, and rows are kept in memory here", "Leave it out.")
_PLACED = (
    "says where rows lie, and they are kept in memory and found through indexes here",
    "Leave it out; indexes are made as views need them.",
)
_DESCRIBED = ("is kept by no table of this library", "Leave it out.")
#: Clauses of Spark's CREATE TABLE: what each would do, and what to write.
_CLAUSES = {
    **dict.fromkeys(("USING", "STORED", "ROW", "OPTIONS"), _STORED),
    **dict.fromkeys(("PARTITIONED", "CLUSTERED", "CLUSTER", "SORTED"), _PLACED),
    **dict.fromkeys(("COMMENT", "TBLPROPERTIES", "DEFAULT", "WITH"), _DESCRIBED),
    "LOCATION": (
        "names files that others may change, and a view would not hear of it",
        "Leave it out, and load the files: db.load(table, path).",
    ),
}
_OTHER_COLUMNS = (
    "changes what the rows of a table are, which views and indexes rest on",
    "Create another table with the columns that you need, and fill it from this one.",
)
_ALTER_HINT = "Write ALTER TABLE name RENAME TO other, or ALTER TABLE name ADD COLUMN column type."
#: Of ALTER: what each would do, and what to write.
_ALTERATIONS = {
    **dict.fromkeys(("DROP", "ALTER", "CHANGE", "REPLACE", "RENAME", "ADD"), _OTHER_COLUMNS),
    "SET": _DESCRIBED,
    "UNSET": _DESCRIBED,
    "AS": (
        "would give a view another query in its place",
        "Write CREATE OR REPLACE MATERIALIZED VIEW.",
    ),
    "RECOVER": _PLACED,
    "PARTITION": _PLACED,
}
_QUERY_STARTS = ("SELECT", "WITH", "FROM", "VALUES", "TABLE", "(")


def parse_statement(text: str) -> Statement:
    """Parse one statement; a closing semicolon is allowed.

    Raises: SqlSyntaxError for text that is no statement, UnsupportedError for Spark SQL that this
    library has no counterpart for; both with line and column.
    """
    cursor = Cursor(text)
    match cursor.peek().word:
        case "CREATE":
            return _create(cursor)
        case "DROP":
            return _drop(cursor)
        case "ALTER":
            return _alter(cursor)
        case "EXPLAIN":
            return _explain(cursor)
        case "SHOW":
            return _show(cursor)
        case "DESCRIBE" | "DESC":
            return _describe(cursor)
        case "SET":
            return _set(cursor)
        case "VERIFY":
            cursor.expect("VERIFY", "MATERIALIZED", "VIEW")
            name = cursor.name("view")
            cursor.end()
            return VerifyView(name)
        case "INSERT" | "UPDATE" | "DELETE" | "MERGE" | "TRUNCATE" as word:
            line, column = line_and_column(text, cursor.peek().start)
            raise UnsupportedError(
                f"cannot run {word}",
                detail="Tables change by transactions, each of which is one epoch.",
                hint="Use db.transaction(): its insert, upsert and delete take rows, Arrow tables "
                "and DataFrames.",
                line=line,
                column=column,
            )
        case word if word in _QUERY_STARTS:
            return Select(text[cursor.peek().start : cursor.stop].rstrip())
        case _:
            raise _unknown(cursor, _KEYWORDS)


def _unknown(cursor: Cursor, known: Sequence[str]) -> SqlSyntaxError:
    """The next word begins no statement, nor goes on with one."""
    return cursor.near(hint=_meant(cursor.peek(), known) or f"The statements are {_STATEMENTS}.")


def _meant(token: Token, known: Sequence[str]) -> str | None:
    """A hint that names the keyword that the word is nearly."""
    return None if token.word in known else suggestion(token.word, known)


def _create(cursor: Cursor) -> CreateTable | CreateTableAs | CreateStream | CreateView:
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
    name = cursor.name("view")
    columns = cursor.name_list("column") if cursor.peek().word == "(" else None
    if cursor.peek().word != "AS":
        cursor.fail(hint="Write CREATE MATERIALIZED VIEW name [(column, …)] AS query.")
    cursor.next()
    return CreateView(name, query_at(cursor), columns, or_replace, exists)


def _create_table(cursor: Cursor) -> CreateTable | CreateTableAs:
    exists = cursor.accept("IF", "NOT", "EXISTS")
    name = cursor.name("table")
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
    comments: list[str | None] = []
    key: tuple[str, ...] = ()
    key_token: Token | None = None
    enforced = True
    while True:
        here = cursor.peek()
        if cursor.accept("CONSTRAINT"):
            cursor.name("constraint")
            if cursor.peek().word != "PRIMARY":
                _refuse_constraint(cursor)
        if cursor.accept("PRIMARY", "KEY"):
            names = cursor.name_list("column")
        elif cursor.peek().word in ("CHECK", "UNIQUE", "FOREIGN"):
            _refuse_constraint(cursor)
        else:
            column, is_key, comment = _column(cursor)
            if folded(column.name) in taken:
                cursor.fail_at(here, f'column "{column.name}" is specified more than once')
            taken.add(folded(column.name))
            columns.append(column)
            comments.append(comment)
            names = (column.name,) if is_key else ()
        if names:
            if key:
                cursor.fail_at(here, f'table "{name}" has more than one primary key')
            key, key_token, enforced = names, here, _enforcement(cursor)
            if not cursor.accept("NOT", "NULL"):
                cursor.accept("NULL")
        if not cursor.accept(","):
            break
    cursor.expect(")")
    _refuse_clauses(cursor)
    if cursor.peek().word == "AS":
        cursor.fail(
            detail="A table that is made of a query has the query's columns.",
            hint="Write CREATE TABLE name AS query, with aliases and casts in the query.",
        )
    cursor.end(hint="A table of this library has columns and a primary key, and no other clauses.")
    by_name = {folded(c.name): c.name for c in columns}
    spelled: list[str] = []
    for part in key:
        assert key_token is not None
        if folded(part) not in by_name:
            cursor.fail_at(key_token, f'the primary key names an unknown column "{part}"')
        if by_name[folded(part)] in spelled:
            cursor.fail_at(key_token, f'the primary key names column "{part}" twice')
        spelled.append(by_name[folded(part)])
    fields = tuple(Field(c.name, c.type, c.nullable and c.name not in spelled) for c in columns)
    return CreateTable(name, fields, tuple(spelled), enforced, exists, tuple(comments))


def _refuse_clauses(cursor: Cursor) -> None:
    """Refuse what Spark's tables have and say of it why these do not."""
    clause = _CLAUSES.get(cursor.peek().word)
    if clause is not None:
        why, hint = clause
        cursor.unsupported(f"a table with {cursor.peek().word}", cursor.peek(), why, hint)


def _create_stream(cursor: Cursor) -> CreateStream:
    exists = cursor.accept("IF", "NOT", "EXISTS")
    name = cursor.name("stream")
    cursor.expect("(")
    columns: list[Field] = []
    comments: list[str | None] = []
    while True:
        here = cursor.peek()
        constraint = here.word in ("CONSTRAINT", "PRIMARY")
        column, is_key, comment = (None, True, None) if constraint else _column(cursor)
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
        comments.append(comment)
        if not cursor.accept(","):
            break
    cursor.expect(")")
    cursor.end(hint="A stream has columns, and no other clauses.")
    return CreateStream(name, tuple(columns), exists, tuple(comments))


def _column(cursor: Cursor) -> tuple[Field, bool, str | None]:
    """A column, whether it is PRIMARY KEY, and its comment."""
    name = cursor.name("column")
    kind = _type(cursor)
    nullable = True
    comment = None
    while True:
        if cursor.accept("NOT", "NULL"):
            nullable = False
        elif cursor.accept("PRIMARY", "KEY"):
            return Field(name, kind, nullable), True, comment
        elif cursor.accept("COMMENT"):
            comment = string_value(cursor.take("string", "a string"))
        elif cursor.peek().word in ("DEFAULT", "GENERATED", "CHECK", "UNIQUE", "REFERENCES"):
            _refuse_constraint(cursor)
        else:
            return Field(name, kind, nullable), False, comment


def _enforcement(cursor: Cursor) -> bool:
    """What follows PRIMARY KEY: whether the key is checked."""
    start = cursor.peek()
    if not cursor.accept("NOT", "ENFORCED"):
        cursor.accept("ENFORCED")
        cursor.accept("RELY")
        return True
    if not cursor.accept("RELY"):
        cursor.unsupported(
            "a primary key that is NOT ENFORCED without RELY",
            start,
            "promises nothing that could be relied on",
            "Write NOT ENFORCED RELY where the source guarantees the key, or leave both out.",
        )
    return False


def _refuse_constraint(cursor: Cursor) -> NoReturn:
    word = cursor.peek().word
    cursor.unsupported(
        f"the column clause {word}",
        cursor.peek(),
        "is not checked or computed by this library",
        "Leave it out; NOT NULL and PRIMARY KEY are checked.",
    )


def _type(cursor: Cursor) -> SqlType:
    token = cursor.take("word", "a type")
    name = token.text.upper()
    if name in _DECIMALS:
        sizes = _sizes(cursor, 2)
        kind = types.written_decimal(*sizes)
        if kind is None:
            named = shortened(f"DECIMAL({','.join(sizes)})")
            cursor.fail_at(token, f"there is no type {named}", detail=types.DECIMAL_SIZES)
        return kind
    if name in _PADDED:
        cursor.unsupported(
            f"a column of type {name}",
            token,
            "has a length that Spark checks on write, and pads CHAR to; this library does not",
            "Use STRING.",
        )
    if name in _OTHER_TYPES:
        cursor.unsupported(
            f"a column of type {name}",
            token,
            "is not among the types that can be maintained",
            "Use columns of scalar types.",
        )
    if name not in _TYPES:
        known = (*_TYPES, *_DECIMALS)
        cursor.fail_at(
            token,
            f'unknown type "{shortened(token.text)}"',
            hint=suggestion(token.text, known) or f"Types: {', '.join(known)}.",
        )
    return _TYPES[name]


def _sizes(cursor: Cursor, most: int) -> list[str]:
    if not cursor.accept("("):
        return []
    sizes = [cursor.take("number", "a number").text]
    while len(sizes) < most and cursor.accept(","):
        sizes.append(cursor.take("number", "a number").text)
    cursor.expect(")")
    return sizes


def _drop(cursor: Cursor) -> DropTable | DropStream | DropView:
    start = cursor.expect("DROP")
    made: type[DropTable | DropStream | DropView]
    if cursor.accept("MATERIALIZED", "VIEW"):
        made, kind = DropView, "view"
    elif cursor.accept("STREAM"):
        made, kind = DropStream, "stream"
    elif cursor.accept("VIEW"):
        cursor.fail_at(start, "views are dropped with DROP MATERIALIZED VIEW")
    else:
        cursor.expect("TABLE")
        made, kind = DropTable, "table"
    exists = cursor.accept("IF", "EXISTS")
    name = cursor.name(kind)
    cursor.end()
    return made(name, exists)


def _alter(cursor: Cursor) -> Rename | AddColumns:
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
        raise _unknown(cursor, ("TABLE", "STREAM", "MATERIALIZED"))
    name = cursor.name(kind)
    action = cursor.peek()
    if cursor.accept("RENAME", "TO"):
        to = cursor.name(kind)
        cursor.end(hint="RENAME TO takes a name, and nothing else.")
        return Rename(name, kind, to)
    if kind == "table" and cursor.accept("ADD"):
        if cursor.peek().word in ("COLUMN", "COLUMNS", "("):
            return _add_columns(cursor, name)
        if cursor.peek().word in ("CONSTRAINT", "PRIMARY", "CHECK", "UNIQUE", "FOREIGN"):
            _refuse_constraint(cursor)
        if cursor.peek().word == "PARTITION":
            cursor.unsupported("ALTER with ADD PARTITION", action, *_PLACED)
        return _add_columns(cursor, name)
    if action.word in _ALTERATIONS:
        why, hint = _ALTERATIONS[action.word]
        cursor.unsupported(f"ALTER with {action.word}", action, why, hint)
    hint = _meant(action, ("RENAME", "ADD")) or _ALTER_HINT
    raise cursor.near(hint=hint)


def _add_columns(cursor: Cursor, table: str) -> AddColumns:
    several = cursor.accept("COLUMNS")
    if not several:
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
    kind, nullable, default, comment = _type(cursor), True, None, None
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


def _explain(cursor: Cursor) -> ExplainView:
    cursor.expect("EXPLAIN")
    if cursor.peek().word == "CREATE":
        created = _create(cursor)
        if not isinstance(created, CreateView):
            kind = "stream" if isinstance(created, CreateStream) else "table"
            cursor.fail_at(cursor.first, f"EXPLAIN shows how a view is maintained, not a {kind}")
        return ExplainView(created.name, created)
    if cursor.peek().word != "MATERIALIZED":
        cursor.fail(
            hint="Write EXPLAIN MATERIALIZED VIEW name, or EXPLAIN before CREATE MATERIALIZED VIEW."
        )
    cursor.expect("MATERIALIZED", "VIEW")
    name = cursor.name("view")
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


def _describe(cursor: Cursor) -> Describe:
    cursor.next()
    kind = _kind(cursor)
    name = cursor.name(kind)
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
    ShowArrangements | ShowTables | ShowStreams | ShowViews | ShowColumns | ShowCreate
)


def _show(cursor: Cursor) -> _Shown:
    cursor.expect("SHOW")
    shown: _Shown
    if cursor.accept("ARRANGEMENTS"):
        shown = ShowArrangements()
    elif cursor.accept("TABLES"):
        shown = ShowTables()
    elif cursor.accept("STREAMS"):
        shown = ShowStreams()
    elif cursor.accept("VIEWS") or cursor.accept("MATERIALIZED", "VIEWS"):
        shown = ShowViews()
    elif cursor.accept("COLUMNS"):
        if not cursor.accept("IN"):
            cursor.expect("FROM")
        shown = ShowColumns(cursor.name("table"))
    elif cursor.accept("CREATE"):
        if cursor.peek().word not in _CREATED:
            cursor.fail(detail="Expected TABLE, STREAM or MATERIALIZED VIEW.")
        kind = _kind(cursor)
        shown = ShowCreate(cursor.name(kind), kind)
    else:
        known = f"SHOW knows {', '.join(_SHOWN)} TABLE and MATERIALIZED VIEW."
        cursor.fail(hint=_meant(cursor.peek(), _SHOWN) or known)
    cursor.end()
    return shown
