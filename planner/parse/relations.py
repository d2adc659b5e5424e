"""The relations that a query names: which of a catalog they are, by their full names.

A relation is written with its schema or without, as `s.t`, and everything behind the parser knows
it by one full name (planner.names). In a tree that name is one identifier, under the last part as
an alias; in a text that is kept, names that say no schema get the one that was in use; in a text
that goes to an engine without schemas, full names are single identifiers.

Invariant: what stands in a tree and is no name of a relation stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from sqlglot import exp

from planner.errors import SqlSyntaxError
from planner.names import DEFAULT_SCHEMA, folded, quoted, quoted_relation, short_name
from planner.parse.tokens import Cursor, Token

#: Of an alias that the text does not have.
IMPLIED = "implied"
#: Between the name of a relation and its alias, where Spark has them.
_BEFORE_ALIAS = ("version", "sample")
#: Places of a text, and what is written there.
Spans = list[tuple[int, int, str]]


def put_names(tree: exp.Expression, cursor: Cursor) -> None:
    """Give relations of the tree their full names. Raises: SqlSyntaxError for what is none."""
    renamed = []
    for node, name in list(_named(tree, cursor)):
        if name == node.name and node.args.get("db") is None:
            continue
        start, end = _span(node)
        renamed.append((node, _parts(node)))
        here = exp.Identifier(this=name, quoted=True)
        here.meta.update(start=start, end=end - 1)
        node.set("this", here)
        node.set("db", None)
        node.set("catalog", None)
        if node.args.get("alias") is None:
            alias = exp.TableAlias(this=exp.Identifier(this=short_name(name), quoted=True))
            alias.meta[IMPLIED] = True
            node.set("alias", alias)
    for column in _long_columns(tree, renamed):
        column.set("db", None)
        column.set("catalog", None)


def full_spans(tree: exp.Expression, cursor: Cursor) -> Spans:
    """What to write so that each name has its schema."""
    return [(*_span(node), quoted_relation(name)) for node, name in _named(tree, cursor)]


def plain_spans(tree: exp.Expression, cursor: Cursor, known: Callable[[str], bool]) -> Spans:
    """What to write so that each relation which is known has its full name as one identifier."""
    spans: Spans = []
    renamed = []
    for node in _written(tree, cursor):
        try:
            name = _full(node, cursor)
        except SqlSyntaxError:
            continue  # of another catalog, which the engine may have
        if not known(name) or (name == node.name and node.args.get("db") is None):
            continue
        renamed.append((node, _parts(node)))
        has_alias = node.args.get("alias") is not None
        has_alias = has_alias or any(node.args.get(a) for a in _BEFORE_ALIAS)
        alias = "" if has_alias else f" AS {quoted(short_name(name))}"
        spans.append((*_span(node), f"`{name.replace('`', '``')}`{alias}"))
    return spans + short_spans(tree, renamed)


def short_spans(tree: exp.Expression, renamed: list[tuple[exp.Table, list[str]]]) -> Spans:
    """What to write so that columns of these relations are behind no schema."""
    spans: Spans = []
    for column in _long_columns(tree, renamed):
        first, table = column.parts[0], column.args["table"]
        spans.append((first.meta["start"], table.meta["end"] + 1, quoted(table.name)))
    return spans


def named_relations(tree: exp.Expression, cursor: Cursor) -> list[tuple[exp.Table, list[str]]]:
    """The relations that are written with their schema, and its parts."""
    return [(node, _parts(node)) for node, _ in _named(tree, cursor)]


def edited(text: str, spans: Spans) -> str:
    """The text with these in their places."""
    for start, end, new in sorted(spans, reverse=True):
        text = text[:start] + new + text[end:]
    return text


def _named(tree: exp.Expression, cursor: Cursor) -> Iterator[tuple[exp.Table, str]]:
    """The places of relations that are no CTE, and their full names."""
    return ((node, _full(node, cursor)) for node in _written(tree, cursor))


def _written(tree: exp.Expression, cursor: Cursor) -> Iterator[exp.Table]:
    """The places of relations that are no CTE, and may have other full names than they say."""
    for node in tree.find_all(exp.Table):
        if not isinstance(node.this, (exp.Identifier, exp.Dot)) or "start" not in _first(node).meta:
            continue
        if len(_parts(node)) > 1 or not (cursor.schema == DEFAULT_SCHEMA or _is_cte(node)):
            yield node


def _full(node: exp.Table, cursor: Cursor) -> str:
    parts = _parts(node)
    return cursor.full(Token("word", parts[0], _first(node).meta["start"], ""), parts)


def _first(node: exp.Table) -> exp.Expression:
    found = node.parts[0]
    assert isinstance(found, exp.Expression)
    return found


def _parts(node: exp.Table) -> list[str]:
    return [part.name for part in node.parts]


def _span(node: exp.Table) -> tuple[int, int]:
    return int(node.parts[0].meta["start"]), int(node.parts[-1].meta["end"]) + 1


def _long_columns(
    tree: exp.Expression, renamed: list[tuple[exp.Table, list[str]]]
) -> list[exp.Column]:
    """The columns that are written behind the schema of one of these relations, of no alias."""
    if not renamed:
        return []
    known = {
        tuple(map(folded, parts[-2:]))
        for node, parts in renamed
        if (alias := node.args.get("alias")) is None or IMPLIED in alias.meta
    }
    return [
        c
        for c in tree.find_all(exp.Column)
        if c.args.get("db") is not None and (folded(c.text("db")), folded(c.table)) in known
    ]


def _is_cte(node: exp.Table) -> bool:
    """Whether the name is that of a WITH around it."""
    name = folded(node.name)
    child: exp.Expr = node
    around = node.parent
    while around is not None:
        heads: list[exp.Expr] = []
        if isinstance(around, exp.With):
            at = next(i for i, c in enumerate(around.expressions) if c is child)
            heads = around.expressions[: at + bool(around.args.get("recursive"))]
        elif (head := around.args.get("with_")) is not None and head is not child:
            heads = head.expressions
        if any(folded(c.alias) == name for c in heads):
            return True
        child, around = around, around.parent
    return False
