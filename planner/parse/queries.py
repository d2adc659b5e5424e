"""Queries: text to sqlglot's tree, and back to text for the oracle.

sqlglot's Spark parser is lenient, and some texts it silently misreads. Those that do not show in
its tree are refused here; the rest is the binder's, which refuses every part of the tree that it
does not use.

Invariant: offsets in a query's tree count in `Query.source`, so every node that sqlglot positions
can be named by line and column of the text the user wrote.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from typing import ClassVar, cast

import sqlglot
from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ParseError, SqlglotError
from sqlglot.parsers.spark import SparkParser

from planner.calculus.library import LIBRARY
from planner.errors import BindError, SqlSyntaxError, UnsupportedError
from planner.names import DEFAULT_SCHEMA, folded
from planner.parse.recursion import put_levels, without_levels
from planner.parse.relations import (
    edited,
    full_spans,
    named_relations,
    plain_spans,
    put_names,
    short_spans,
)
from planner.parse.shifts import UnsignedShifts
from planner.parse.tokens import Cursor, Token, lexemes, line_and_column, shortened
from planner.room import with_room

_INTERVAL_UNITS = frozenset(
    f"{unit}{plural}"
    for unit in "YEAR QUARTER MONTH WEEK DAY HOUR MINUTE SECOND MILLISECOND MICROSECOND".split()
    for plural in ("", "S")
)
#: What the function WINDOW is called in a tree: a name as long, which no clause has.
PERIODS = "_windo"
#: Where text may begin that sqlglot misreads: see `_refuse_misread`.
_SUSPECT = _INTERVAL_UNITS | {",", "PERCENTILE", "LIMIT", "|>", "ALL"}


#: Functions that sqlglot's tree would hold in another form than they were written in: under one
#: name for several, with other arguments, or with a format of another language.
_BY_NAME = frozenset(
    "LPAD RPAD REPEAT REVERSE SPACE INSTR LOCATE TRANSLATE ASCII CONCAT_WS "
    "SUBSTRING_INDEX EXP LN LOG LOG10 LOG2 CBRT RINT DEGREES RADIANS PI NEXT_DAY DATE_FORMAT "
    "DAYNAME MONTHNAME UNIX_DATE DATE_FROM_UNIX_DATE TO_DATE TO_TIMESTAMP HEX NANVL TRY_ADD "
    "TRY_SUBTRACT TRY_MULTIPLY TRY_DIVIDE SHIFTLEFT SHIFTRIGHT BIT_COUNT BIT_GET GETBIT ELT "
    "EQUAL_NULL TYPEOF SHA UNIX_TIMESTAMP TO_UNIX_TIMESTAMP FROM_UNIXTIME FROM_UTC_TIMESTAMP "
    "TO_UTC_TIMESTAMP ARRAY STRUCT NAMED_STRUCT MAP ELEMENT_AT TRY_ELEMENT_AT MAP_CONCAT "
    "SEQUENCE EXPLODE EXPLODE_OUTER POSEXPLODE POSEXPLODE_OUTER INLINE INLINE_OUTER STACK "
    "TRANSFORM FILTER AGGREGATE REDUCE ARRAY_SORT ARRAYS_ZIP "
    "JSON_TUPLE PRINTF TO_BINARY TRY_TO_BINARY CONVERT_TIMEZONE DATEPART "
    "TRY_MAKE_TIMESTAMP_LTZ XXHASH64 HASH ARRAY_APPEND ARRAY_PREPEND PERCENTILE_APPROX "
    "APPROX_PERCENTILE BITMAP_CONSTRUCT_AGG BITMAP_OR_AGG BITMAP_AND_AGG COLLECT_UNION TRY_SUM "
    "TRY_AVG TO_VARCHAR COLLATION".split()
) | {name.upper() for name in LIBRARY}


class _ViewLanguage(Spark):
    """Spark SQL, with the functions of `_BY_NAME` left as they were written."""

    class Parser(UnsignedShifts, SparkParser):
        FUNCTIONS: ClassVar = {
            name: build for name, build in SparkParser.FUNCTIONS.items() if name not in _BY_NAME
        }
        FUNCTION_PARSERS: ClassVar = {
            name: parse
            for name, parse in SparkParser.FUNCTION_PARSERS.items()
            if name not in ("PERCENTILE_APPROX", "APPROX_PERCENTILE")
        }
        NO_PAREN_FUNCTION_PARSERS: ClassVar = {
            name: parse
            for name, parse in SparkParser.NO_PAREN_FUNCTION_PARSERS.items()
            if name not in _BY_NAME
        }


@dataclass(frozen=True, slots=True)
class Query:
    """A parsed query. `text` is the query as written, `source` the statement around it."""

    text: str
    source: str = field(repr=False)
    tree: exp.Expression = field(compare=False, repr=False)


def parse_query(text: str) -> Query:
    """Parse the text of a query alone. Raises: as `parse_statement`."""
    return query_at(Cursor(text))


def _any(name: str) -> bool:
    return True


def oracle_sql(query: Query) -> str:
    """The query in DuckDB's dialect, to recompute a view from scratch.

    Read as Databricks SQL, not as Spark SQL: sqlglot then keeps that casts and divisions may fail.
    The caller must still cast each column to the view's Spark type (sums, averages and decimal
    arithmetic have other types in DuckDB), give ORDER BY … LIMIT the view's tie columns, compare
    as multisets, and keep away from it what DuckDB computes differently (casts to integers, 64-bit
    overflow, division by zero, decimal division, wide decimal products).
    """
    return sqlglot.transpile(normalise(plain(query.text)), read="databricks", write="duckdb")[0]


def may_take(query: Query, columns: frozenset[str]) -> bool:
    """Whether the query may mean something else where a table that it reads has more columns, of
    these names (folded): it takes columns that it does not name, or has such a name somewhere."""
    for node in query.tree.walk():
        if isinstance(node, exp.Star) and not isinstance(node.parent, exp.Count):
            return True
        if isinstance(node, exp.Join) and str(node.args.get("method") or "").upper() == "NATURAL":
            return True
        if isinstance(node, exp.Identifier) and folded(str(node.this)) in columns:
            return True
        if isinstance(node, exp.Table) and not isinstance(node.parent, (exp.From, exp.Join)):
            return True  # TABLE t, which is all columns of it
    return False


def offset_of(node: exp.Expression) -> int | None:
    """Where the node, or else its first positioned descendant, starts in `Query.source`."""
    own = node.meta.get("start") if node.meta else None
    if own is not None:
        return int(own)
    below = [n.meta["start"] for n in node.walk() if n.meta and "start" in n.meta]
    return min(below, default=None)


def written_name(node: exp.Expression) -> str | None:
    """The name of a function as the text has it, which sqlglot changes into its own."""
    return node.meta.get(_NAME) if node.meta else None


@contextmanager
def placed(query: Query) -> Iterator[None]:
    """Errors about the query that say no place, as it is planned and compiled, get one: that of the
    string that their message quotes, or else the query's."""
    try:
        yield
    except (BindError, UnsupportedError) as error:
        if error.line is None:
            start = query.source.rfind(query.text)
            for token in lexemes(query.text):
                quoted = token.text[1:-1].replace("\\\\", "\\")
                if token.kind == "string" and f"'{quoted}'" in error.message:
                    start += token.start
                    break
            error.line, error.column = line_and_column(query.source, start)
        raise


#: Where a function's node keeps its name in the text.
_NAME = "name"


def query_at(cursor: Cursor) -> Query:
    """The rest of the text as a query; everything before it is blanked, so that offsets hold."""
    if cursor.peek().kind == "end":
        cursor.fail()
    tree = _tree_at(cursor)
    put_names(tree, cursor)
    start, text = cursor.peek().start, cursor.text
    return Query(text[start : cursor.stop].rstrip(), text, tree)


def _tree_at(cursor: Cursor) -> exp.Expression:
    """The tree of the rest of the text, as it is written."""
    _refuse_misread(cursor)
    start, text = cursor.peek().start, cursor.text
    blank = re.sub(r"\S", " ", text[:start])
    said, levels = without_levels(normalise(text[start : cursor.stop]))
    tree = _parse_tree(cursor, blank + said)
    put_levels(tree, tuple((start + at, level) for at, level in levels))
    for node in tree.find_all(exp.Func):
        if node.meta and "start" in node.meta:
            node.meta[_NAME] = text[node.meta["start"] : node.meta["end"] + 1]
    return tree


def qualified(text: str, schema: str) -> str:
    """The text of a query that means in the default schema what it means in that one."""
    if schema == DEFAULT_SCHEMA:
        return text
    return edited(text, full_spans(_tree_at(Cursor(text)), Cursor(text, schema)))


def short(text: str) -> str:
    """The text of a query in which columns are named behind no schema, so that it goes on to mean
    the same where the relation gets an alias."""
    if "." not in text:
        return text
    cursor = Cursor(text)
    tree = _tree_at(cursor)
    return edited(text, short_spans(tree, named_relations(tree, cursor)))


def plain(text: str, schema: str = DEFAULT_SCHEMA, known: Callable[[str], bool] = _any) -> str:
    """The text of a query in which each relation, if it is `known` by its full name, has that as
    one identifier: for engines that know nothing of schemas. A text that is not read here stays as
    it is."""
    if schema == DEFAULT_SCHEMA and "." not in text:
        return text
    try:
        cursor = Cursor(text, schema)
        return edited(text, plain_spans(_tree_at(cursor), cursor, known))
    except (SqlSyntaxError, UnsupportedError):
        return text


def string_value(token: Token) -> str:
    """What a string token stands for, as in a query."""
    return str(sqlglot.parse_one(_normal(token), read=_ViewLanguage).this)


def _parse_tree(cursor: Cursor, text: str) -> exp.Expression:
    logger = logging.getLogger("sqlglot")
    disabled, logger.disabled = logger.disabled, True  # sqlglot warns where it falls back
    try:
        tree = with_room(
            lambda: sqlglot.parse_one(text, read=_ViewLanguage, error_message_context=len(text))
        )
    except ParseError as error:
        raise _syntax_error(cursor.text, error) from None
    except UnsupportedError as error:
        raise cursor.error(cursor.peek(), error.message, hint=error.hint) from None
    except SqlglotError:
        raise cursor.error(cursor.peek(), "the text cannot be split into tokens") from None
    finally:
        logger.disabled = disabled
    if not isinstance(tree, (exp.Query, exp.Values)) or (
        type(tree) is exp.Select and not tree.expressions and not tree.args.get("from_")
    ):
        raise cursor.error(
            cursor.peek(), "this is not a query", hint="A query starts with SELECT or WITH."
        )
    return cast(exp.Expression, tree)


def _syntax_error(text: str, error: ParseError) -> SqlSyntaxError:
    first = error.errors[0]
    description = str(first.get("description") or "")
    near = str(first.get("highlight") or "")
    # All of the text before the place: sqlglot counts lines in another way than editors.
    line, column = line_and_column(text, len(first.get("start_context") or ""))
    if "SENTINEL" in description or not near:
        message = "syntax error at end of input"
    else:
        message = f'syntax error at or near "{shortened(near)}"'
    detail = None
    arguments = re.match(r"The number of provided arguments \((\d+)\)", description)
    if arguments:
        message = f"too many arguments of a function: {arguments[1]}"
    elif missing := re.match(
        r"Required keyword: '\w+' missing for <class '.*\.(\w+)'>", description
    ):
        detail = f"Something is missing in {missing[1].upper()}."
    elif description.startswith("Expect") and "<" not in description:
        detail = description.rstrip(".") + "."
    return SqlSyntaxError(message, detail=detail, line=line, column=column)


def normalise(text: str) -> str:
    r"""The text for sqlglot, as long as it was, so that every offset holds.

    Doubled quotes inside a string are written \' instead: sqlglot reads 'it''s' as two strings.
    Comments but hints are blanked: it ends some of them elsewhere than Spark does. The function
    WINDOW gets another name: behind GROUP BY it would read a clause.
    """
    tokens = list(lexemes(text))
    said = [i for i, t in enumerate(tokens) if t.kind not in ("space", "comment")]
    called = {i for i, j in pairwise(said) if tokens[i].word == "WINDOW" and tokens[j].word == "("}
    return "".join(PERIODS if i in called else _normal(t) for i, t in enumerate(tokens))


def _normal(token: Token) -> str:
    if token.kind == "comment" and not token.text.startswith("/*+"):
        return re.sub(r"\S", " ", token.text)
    if token.kind != "string":
        return token.text
    quote = token.text[0]
    inner = re.sub(
        rf"\\.|{quote}{quote}",
        lambda m: m[0] if m[0][0] == "\\" else "\\" + quote,
        token.text[1:-1],
        flags=re.DOTALL,
    )
    return f"{quote}{inner}{quote}"


def _refuse_misread(cursor: Cursor) -> None:
    """Refuse what sqlglot accepts with another meaning than Spark's and leaves no trace of."""
    tokens = cursor.rest()
    words = [t.word for t in tokens] + [""] * 2
    for i, token in enumerate(tokens):
        if token.word[:1] == "X" and i and tokens[i - 1].text == "0":
            if tokens[i - 1].start + 1 == token.start:
                raise cursor.error(
                    tokens[i - 1],
                    f"there is no number 0{token.text}",
                    hint="Write a number with digits from 0 to 9, or bytes as in X'1F'.",
                )
        if words[i] not in _SUSPECT:
            continue
        after = words[i + 1 : i + 3]
        if token.word in _INTERVAL_UNITS and after[0] == "(" and _in_interval(tokens, i):
            raise cursor.error(
                token,
                f"an interval unit takes no precision: {token.text} (…)",
                hint=f"Write the interval without it, as in interval '90' {token.text}.",
            )
        if token.word == "," and (after[0] in (")", "FROM") or i + 1 == len(tokens)):
            raise cursor.error(token, 'syntax error at or near ","')
        if token.word == "ALL" and after[0] in (",", "FROM") and words[i - 1] in ("SELECT", "BY"):
            raise cursor.error(
                token,
                "ALL is a word of the language here",
                hint="Write a column of that name in backticks: `all`.",
            )
        if token.word == "PERCENTILE" and after[0] == "(" and _arguments(tokens, i + 1) > 2:
            cursor.unsupported(
                "PERCENTILE with a frequency",
                token,
                "counts each row as often as a column says",
                "Store each row as often, or compute it when reading the view.",
            )
        if token.word == "LIMIT" and after[1] == ",":
            raise cursor.error(
                tokens[i + 2], 'syntax error at or near ","', hint="Write LIMIT n OFFSET m."
            )
        if token.word == "|>":
            cursor.unsupported(
                "pipe syntax", token, "is not part of the view language", "Nest subqueries in FROM."
            )


def _arguments(tokens: list[Token], opening: int) -> int:
    """How many arguments there are between the parenthesis at that position and its closing one."""
    depth, commas = 0, 0
    for token in tokens[opening:]:
        depth += (token.word == "(") - (token.word == ")")
        commas += depth == 1 and token.word == ","
        if depth == 0:
            break
    return commas + 1


def _in_interval(tokens: list[Token], unit: int) -> bool:
    """Whether the unit at that position ends INTERVAL value unit [TO unit]."""
    start = max(0, unit - 7)
    return any(t.word == "INTERVAL" for t in tokens[start:unit]) and (
        tokens[unit - 1].kind in ("string", "number") or tokens[unit - 1].word == "TO"
    )
