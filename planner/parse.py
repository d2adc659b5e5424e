"""Statements: SQL text to a closed set of small values.

Statements about tables and views are read here by a cursor over tokens; only queries go to
sqlglot's Spark parser. That parser is lenient, and some texts it silently misreads; those that do
not show in its tree are refused here, the rest by the binder, which refuses every part of the tree
that it does not use.

Invariant: offsets in a query's tree count in `Query.source`, so every node that sqlglot positions
can be named by line and column of the text the user wrote.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NoReturn, TypeAlias

import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError, SqlglotError

from planner import types
from planner.errors import SqlSyntaxError, SqlViewError, UnsupportedError
from planner.types import Field, SqlType


@dataclass(frozen=True, slots=True)
class Query:
    """A parsed query. `text` is the query as written, `source` the statement around it."""

    text: str
    source: str = field(repr=False)
    tree: exp.Expression = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class CreateTable:
    """`primary_key` is empty for a bag; `enforced` False is NOT ENFORCED RELY."""

    name: str
    columns: tuple[Field, ...]
    primary_key: tuple[str, ...]
    enforced: bool
    if_not_exists: bool


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
class DropView:
    name: str
    if_exists: bool


@dataclass(frozen=True, slots=True)
class ExplainView:
    """EXPLAIN of an existing view, or (`create` set) of one that would be created."""

    name: str
    create: CreateView | None


@dataclass(frozen=True, slots=True)
class ShowArrangements:
    pass


@dataclass(frozen=True, slots=True)
class ShowTables:
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


Statement: TypeAlias = (
    CreateTable
    | CreateView
    | DropTable
    | DropView
    | ExplainView
    | ShowArrangements
    | ShowTables
    | ShowViews
    | VerifyView
    | Select
)

_STATEMENTS = (
    "CREATE TABLE, CREATE MATERIALIZED VIEW, DROP TABLE, DROP MATERIALIZED VIEW, "
    "EXPLAIN MATERIALIZED VIEW, EXPLAIN CREATE MATERIALIZED VIEW, SHOW TABLES, SHOW VIEWS, "
    "SHOW ARRANGEMENTS, VERIFY MATERIALIZED VIEW and queries"
)

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
_INTERVAL_UNITS = frozenset(
    f"{unit}{plural}"
    for unit in "YEAR QUARTER MONTH WEEK DAY HOUR MINUTE SECOND MILLISECOND MICROSECOND".split()
    for plural in ("", "S")
)
_QUERY_STARTS = ("SELECT", "WITH", "FROM", "VALUES", "TABLE", "(")

_TOKEN = re.compile(
    r"""
    (?P<space> \s+ | --[^\n]* | /\*.*?\*/ )
    | (?P<raw> [rR](?: '[^']*' | "[^"]*" ) )
    | (?P<string> '(?: \\. | '' | [^'\\] )*' | "(?: \\. | "" | [^"\\] )*" )
    | (?P<quoted> `(?: `` | [^`] )*` )
    | (?P<number> (?: \d+\.?\d* | \.\d+ ) (?: [eE][+-]?\d+ )? )
    | (?P<word> [^\W\d]\w* )
    | (?P<open> /\* | ['"`] )
    | (?P<symbol> \|> | \S )
    """,
    re.VERBOSE | re.DOTALL,
)
_OPENED = {"'": "string", '"': "string", "`": "quoted identifier", "/*": "comment"}


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    start: int

    @property
    def word(self) -> str:
        """The upper-case keyword or symbol; empty for strings and quoted identifiers."""
        return self.text.upper() if self.kind in ("word", "symbol") else ""


def parse_statement(text: str) -> Statement:
    """Parse one statement; a closing semicolon is allowed.

    Raises: SqlSyntaxError for text that is no statement, UnsupportedError for Spark SQL that this
    library has no counterpart for; both with line and column.
    """
    cursor = _Cursor(text)
    match cursor.peek().word:
        case "CREATE":
            return _create(cursor)
        case "DROP":
            return _drop(cursor)
        case "EXPLAIN":
            return _explain(cursor)
        case "SHOW":
            return _show(cursor)
        case "VERIFY":
            cursor.expect("VERIFY", "MATERIALIZED", "VIEW")
            name = cursor.name("view")
            cursor.end()
            return VerifyView(name)
        case word if word in _QUERY_STARTS:
            return Select(text[cursor.peek().start : cursor.stop].rstrip())
        case _:
            cursor.fail(hint=f"The statements are {_STATEMENTS}.")


def parse_query(text: str) -> Query:
    """Parse the text of a query alone. Raises: as `parse_statement`."""
    return _query(_Cursor(text))


def oracle_sql(query: Query) -> str:
    """The query in DuckDB's dialect, to recompute a view from scratch.

    Read as Databricks SQL, not as Spark SQL: sqlglot then keeps that casts and divisions may fail.
    The caller must still cast each column to the view's Spark type (sums, averages and decimal
    arithmetic have other types in DuckDB), give ORDER BY … LIMIT the view's tie columns, compare
    as multisets, and keep away from it what DuckDB computes differently (casts to integers, 64-bit
    overflow, division by zero, decimal division, wide decimal products).
    """
    return sqlglot.transpile(_normalise(query.text), read="databricks", write="duckdb")[0]


def line_and_column(text: str, offset: int) -> tuple[int, int]:
    """The 1-based place of a character offset."""
    return text.count("\n", 0, offset) + 1, offset - (text.rfind("\n", 0, offset) + 1) + 1


def offset_of(node: exp.Expression) -> int | None:
    """Where the node, or else its first positioned descendant, starts in `Query.source`."""
    own = node.meta.get("start") if node.meta else None
    if own is not None:
        return int(own)
    below = [n.meta["start"] for n in node.walk() if n.meta and "start" in n.meta]
    return min(below, default=None)


# --- statements --------------------------------------------------------------------------------


def _create(cursor: _Cursor) -> CreateTable | CreateView:
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
    if cursor.accept("VIEW") or cursor.accept("TEMPORARY") or cursor.accept("TEMP"):
        cursor.unsupported(
            "a view that is not materialized",
            start,
            "keeps no result that could be maintained",
            "Write CREATE MATERIALIZED VIEW.",
        )
    cursor.fail(hint=f"The statements are {_STATEMENTS}.")


def _create_view(cursor: _Cursor, or_replace: bool) -> CreateView:
    exists = cursor.accept("IF", "NOT", "EXISTS")
    name = cursor.name("view")
    columns = cursor.name_list("column") if cursor.peek().word == "(" else None
    if cursor.peek().word != "AS":
        cursor.fail(hint="Write CREATE MATERIALIZED VIEW name [(column, …)] AS query.")
    cursor.next()
    return CreateView(name, _query(cursor), columns, or_replace, exists)


def _create_table(cursor: _Cursor) -> CreateTable:
    exists = cursor.accept("IF", "NOT", "EXISTS")
    name = cursor.name("table")
    cursor.expect("(")
    columns: list[Field] = []
    key: tuple[str, ...] = ()
    key_token: _Token | None = None
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
            column, is_key = _column(cursor)
            if any(column.name.lower() == c.name.lower() for c in columns):
                cursor.fail_at(here, f'column "{column.name}" is specified more than once')
            columns.append(column)
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
    cursor.end(hint="A table of this library has columns and a primary key, and no other clauses.")
    by_name = {c.name.lower(): c.name for c in columns}
    spelled: list[str] = []
    for part in key:
        assert key_token is not None
        if part.lower() not in by_name:
            cursor.fail_at(key_token, f'the primary key names an unknown column "{part}"')
        if by_name[part.lower()] in spelled:
            cursor.fail_at(key_token, f'the primary key names column "{part}" twice')
        spelled.append(by_name[part.lower()])
    fields = tuple(Field(c.name, c.type, c.nullable and c.name not in spelled) for c in columns)
    return CreateTable(name, fields, tuple(spelled), enforced, exists)


def _column(cursor: _Cursor) -> tuple[Field, bool]:
    """A column, and whether PRIMARY KEY follows its type."""
    name = cursor.name("column")
    kind = _type(cursor)
    nullable = True
    while True:
        if cursor.accept("NOT", "NULL"):
            nullable = False
        elif cursor.accept("PRIMARY", "KEY"):
            return Field(name, kind, nullable), True
        elif cursor.accept("COMMENT"):
            cursor.take("string", "a string")
        elif cursor.peek().word in ("DEFAULT", "GENERATED", "CHECK", "UNIQUE", "REFERENCES"):
            _refuse_constraint(cursor)
        else:
            return Field(name, kind, nullable), False


def _enforcement(cursor: _Cursor) -> bool:
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


def _refuse_constraint(cursor: _Cursor) -> NoReturn:
    word = cursor.peek().word
    cursor.unsupported(
        f"the column clause {word}",
        cursor.peek(),
        "is not checked or computed by this library",
        "Leave it out; NOT NULL and PRIMARY KEY are checked.",
    )


def _type(cursor: _Cursor) -> SqlType:
    token = cursor.take("word", "a type")
    name = token.text.upper()
    if name in _DECIMALS:
        sizes = _sizes(cursor, 2)
        precision, scale = (*sizes, *(10, 0)[len(sizes) :])
        if not (0 < precision <= types.MAX_PRECISION and scale <= precision):
            cursor.fail_at(
                token,
                f"there is no type DECIMAL({precision},{scale})",
                detail="The precision is 1 to 38, and the scale 0 to the precision.",
            )
        return types.DecimalType(precision, scale)
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
        cursor.fail_at(token, f'unknown type "{token.text}"', hint=f"Types: {', '.join(_TYPES)}.")
    return _TYPES[name]


def _sizes(cursor: _Cursor, most: int) -> tuple[int, ...]:
    if not cursor.accept("("):
        return ()
    sizes = [cursor.integer()]
    while len(sizes) < most and cursor.accept(","):
        sizes.append(cursor.integer())
    cursor.expect(")")
    return tuple(sizes)


def _drop(cursor: _Cursor) -> DropTable | DropView:
    start = cursor.expect("DROP")
    is_view = cursor.accept("MATERIALIZED", "VIEW")
    if not is_view and cursor.accept("VIEW"):
        cursor.fail_at(start, "views are dropped with DROP MATERIALIZED VIEW")
    if not is_view:
        cursor.expect("TABLE")
    exists = cursor.accept("IF", "EXISTS")
    name = cursor.name("view" if is_view else "table")
    cursor.end()
    return DropView(name, exists) if is_view else DropTable(name, exists)


def _explain(cursor: _Cursor) -> ExplainView:
    cursor.expect("EXPLAIN")
    if cursor.peek().word == "CREATE":
        created = _create(cursor)
        if isinstance(created, CreateTable):
            cursor.fail_at(cursor.first, "EXPLAIN shows how a view is maintained, not a table")
        return ExplainView(created.name, created)
    if cursor.peek().word != "MATERIALIZED":
        cursor.fail(
            hint="Write EXPLAIN MATERIALIZED VIEW name, or EXPLAIN CREATE MATERIALIZED VIEW …"
        )
    cursor.expect("MATERIALIZED", "VIEW")
    name = cursor.name("view")
    cursor.end()
    return ExplainView(name, None)


def _show(cursor: _Cursor) -> ShowArrangements | ShowTables | ShowViews:
    cursor.expect("SHOW")
    shown: ShowArrangements | ShowTables | ShowViews
    if cursor.accept("ARRANGEMENTS"):
        shown = ShowArrangements()
    elif cursor.accept("TABLES"):
        shown = ShowTables()
    elif cursor.accept("VIEWS") or cursor.accept("MATERIALIZED", "VIEWS"):
        shown = ShowViews()
    else:
        cursor.fail(hint="SHOW knows TABLES, VIEWS and ARRANGEMENTS.")
    cursor.end()
    return shown


# --- queries -----------------------------------------------------------------------------------


def _query(cursor: _Cursor) -> Query:
    """The rest of the text as a query; everything before it is blanked, so that offsets hold."""
    _refuse_misread(cursor)
    start, text = cursor.peek().start, cursor.text
    blank = re.sub(r"\S", " ", text[:start])
    tree = _parse_tree(cursor, blank + _normalise(text[start : cursor.stop]))
    return Query(text[start : cursor.stop].rstrip(), text, tree)


def _parse_tree(cursor: _Cursor, text: str) -> exp.Expression:
    logger = logging.getLogger("sqlglot")
    disabled, logger.disabled = logger.disabled, True  # sqlglot warns where it falls back
    try:
        tree = sqlglot.parse_one(text, read="spark")
    except ParseError as error:
        raise _syntax_error(cursor, error) from None
    except SqlglotError:
        raise cursor.error(cursor.peek(), "the text cannot be split into tokens") from None
    finally:
        logger.disabled = disabled
    if not isinstance(tree, exp.Query) or (
        type(tree) is exp.Select and not tree.expressions and not tree.args.get("from_")
    ):
        raise cursor.error(
            cursor.peek(), "this is not a query", hint="A query starts with SELECT or WITH."
        )
    return tree


def _syntax_error(cursor: _Cursor, error: ParseError) -> SqlSyntaxError:
    first = error.errors[0]
    description = str(first.get("description") or "")
    near = str(first.get("highlight") or "")
    line, column = int(first.get("line") or 1), int(first.get("col") or 1)
    if "SENTINEL" in description or not near:
        message = "syntax error at end of input"
    else:
        message = f'syntax error at or near "{near}"'
        column = max(1, column - len(near) + 1)
    detail = None
    arguments = re.match(r"The number of provided arguments \((\d+)\)", description)
    if arguments:
        detail = f"{arguments[1]} arguments are too many for this function."
    elif missing := re.match(r"Required keyword: '\w+' missing for <class '.*\.(\w+)'>", description):
        detail = f"Something is missing in {missing[1].upper()}."
    elif description.startswith("Expect") and "<" not in description:
        detail = description.rstrip(".") + "."
    return SqlSyntaxError(message, detail=detail, line=line, column=column)


def _normalise(text: str) -> str:
    r"""Doubled quotes inside a string written \' instead: sqlglot reads 'it''s' as two strings.

    The length stays the same, and with it every offset.
    """

    def change(token: re.Match[str]) -> str:
        if token.lastgroup != "string":
            return token[0]
        quote = token[0][0]
        return re.sub(
            rf"\\.|{quote}{quote}",
            lambda m: m[0] if m[0][0] == "\\" else "\\" + quote,
            token[0][1:-1],
            flags=re.DOTALL,
        ).join((quote, quote))

    return _TOKEN.sub(change, text)


def _refuse_misread(cursor: _Cursor) -> None:
    """Refuse what sqlglot accepts with another meaning than Spark's and leaves no trace of."""
    tokens = cursor.rest()
    for i, token in enumerate(tokens):
        after = [t.word for t in tokens[i + 1 : i + 4]] + [""] * 3
        if token.word in _INTERVAL_UNITS and after[0] == "(" and _in_interval(tokens, i):
            raise cursor.error(
                token,
                f"an interval unit takes no precision: {token.text} (…)",
                hint=f"Write the interval without it, as in interval '90' {token.text}.",
            )
        if token.word == "," and (after[0] in (")", "FROM") or i + 1 == len(tokens)):
            raise cursor.error(token, 'syntax error at or near ","')
        if token.word == "LIMIT" and after[1] == ",":
            raise cursor.error(
                tokens[i + 2], 'syntax error at or near ","', hint="Write LIMIT n OFFSET m."
            )
        if token.word == "|>":
            cursor.unsupported(
                "pipe syntax", token, "is not part of the view language", "Nest subqueries in FROM."
            )


def _in_interval(tokens: list[_Token], unit: int) -> bool:
    """Whether the unit at that position ends INTERVAL value unit [TO unit]."""
    start = max(0, unit - 7)
    return any(t.word == "INTERVAL" for t in tokens[start:unit]) and (
        tokens[unit - 1].kind in ("string", "number") or tokens[unit - 1].word == "TO"
    )


class _Cursor:
    """Tokens of one statement. `stop` is where it ends, before a closing semicolon."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._index = 0
        self._tokens = list(self._tokenise())
        while self._tokens and self._tokens[-1].word == ";":
            self._tokens.pop()
        last = self._tokens[-1] if self._tokens else _Token("end", "", 0)
        self.stop = last.start + len(last.text)
        if not self._tokens:
            raise SqlSyntaxError("the statement is empty")
        self.first = self._tokens[0]
        for token in self._tokens:
            if token.word == ";":
                raise self.error(token, "there is more than one statement in the text")

    def _tokenise(self) -> Iterator[_Token]:
        for found in _TOKEN.finditer(self.text):
            token = _Token(str(found.lastgroup), found[0], found.start())
            if token.kind == "open":
                raise self.error(token, f"unterminated {_OPENED[token.text]}")
            if token.kind != "space":
                yield token

    def peek(self) -> _Token:
        if self._index < len(self._tokens):
            return self._tokens[self._index]
        return _Token("end", "", self.stop)

    def rest(self) -> list[_Token]:
        return self._tokens[self._index :]

    def next(self) -> _Token:
        token = self.peek()
        self._index += 1
        return token

    def accept(self, *words: str) -> bool:
        """Skip these words if all of them come next."""
        ahead = self._tokens[self._index : self._index + len(words)]
        if tuple(t.word for t in ahead) != words:
            return False
        self._index += len(words)
        return True

    def expect(self, *words: str) -> _Token:
        first = self.peek()
        for word in words:
            if not self.accept(word):
                self.fail(detail=f"Expected {word}.")
        return first

    def take(self, kind: str, what: str) -> _Token:
        if self.peek().kind != kind:
            self.fail(detail=f"Expected {what}.")
        return self.next()

    def integer(self) -> int:
        token = self.take("number", "a number")
        if not token.text.isdigit():
            self.fail_at(token, f'syntax error at or near "{token.text}"')
        return int(token.text)

    def name(self, what: str) -> str:
        token = self.peek()
        if token.kind not in ("word", "quoted"):
            self.fail(detail=f"Expected the name of a {what}.")
        self.next()
        if self.peek().word == ".":
            self.unsupported(
                "a qualified name",
                token,
                "names a catalog or schema, and this library has one flat catalog",
                "Use a simple name.",
            )
        return _unquote(token.text) if token.kind == "quoted" else token.text

    def name_list(self, what: str) -> tuple[str, ...]:
        self.expect("(")
        names = [self.name(what)]
        while self.accept(","):
            names.append(self.name(what))
        self.expect(")")
        return tuple(names)

    def end(self, hint: str | None = None) -> None:
        if self.peek().kind != "end":
            self.fail(hint=hint)

    def fail(self, detail: str | None = None, hint: str | None = None) -> NoReturn:
        token = self.peek()
        near = f'at or near "{token.text}"' if token.kind != "end" else "at end of input"
        self.fail_at(token, f"syntax error {near}", detail, hint)

    def fail_at(
        self, token: _Token, message: str, detail: str | None = None, hint: str | None = None
    ) -> NoReturn:
        raise self.error(token, message, detail, hint)

    def error(
        self, token: _Token, message: str, detail: str | None = None, hint: str | None = None
    ) -> SqlViewError:
        line, column = line_and_column(self.text, token.start)
        return SqlSyntaxError(message, detail=detail, hint=hint, line=line, column=column)

    def unsupported(self, what: str, token: _Token, why: str, hint: str) -> NoReturn:
        line, column = line_and_column(self.text, token.start)
        shown = what[0].upper() + what[1:]
        raise UnsupportedError(
            f"cannot maintain {what}",
            detail=f"{shown} at line {line}, column {column} {why}.",
            hint=hint,
            line=line,
            column=column,
        )


def _unquote(text: str) -> str:
    return text[1:-1].replace("``", "`")
