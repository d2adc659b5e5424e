"""WITH RECURSIVE as a loop over tables, for engines that mean something else by it or lack it.

DuckDB's step sees the rows of the round before alone, which is no least set of rows where it reads
itself twice; and it does not stop where Spark does. So a text is taken apart: each recursive
relation becomes a table that a loop fills, and the rest of the text reads that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import sqlglot
from sqlglot import exp

from planner.names import folded
from planner.parse.queries import normalise
from planner.parse.recursion import LEVEL, put_levels, without_levels
from sqlview.oracle.functions import Spoken
from sqlview.oracle.protocol import CannotSay

#: As planner.bind.recursion has them: Spark's for UNION ALL, ours for UNION.
_LEVELS, _STEPS = 100, 10_000


@dataclass(frozen=True, slots=True)
class Relation:
    """A recursive relation: the table `name`, its columns where the text names them, and the texts
    that begin it and go on with it."""

    name: str
    columns: tuple[str, ...]
    anchors: tuple[str, ...]
    steps: tuple[str, ...]
    is_all: bool
    limit: int


@dataclass(frozen=True, slots=True)
class Apart:
    """A text over the tables of its recursive relations, each of which may read those before."""

    relations: tuple[Relation, ...]
    text: str


def apart(text: str) -> Apart | None:
    """The text taken apart; None if it has no recursive relation.

    Raises: CannotSay for one that is not in the WITH at the top; what sqlglot raises.
    """
    if "recursive" not in text.lower():
        return None
    said, levels = without_levels(normalise(text))
    tree = sqlglot.parse_one(said, read=Spoken)
    if not any(w.args.get("recursive") for w in tree.find_all(exp.With)):
        return None
    put_levels(tree, levels)
    with_ = tree.args.get("with_")
    inner = [w for w in tree.find_all(exp.With) if w is not with_ and w.args.get("recursive")]
    if with_ is None or inner:
        raise CannotSay("it has WITH RECURSIVE inside of a query")
    relations: list[Relation] = []
    before: list[exp.CTE] = []
    for cte in with_.expressions:
        if _reads(cte.this, cte.alias):
            name = f"sqlview_recursive_{len(relations) + 1}"
            columns = tuple(c.name for c in cte.args["alias"].args.get("columns") or ())
            kept = cte.alias
            for table in list(_reads(tree, kept)):
                if table.args.get("alias") is None:
                    table.set("alias", exp.TableAlias(this=exp.to_identifier(kept, quoted=True)))
                table.set("this", exp.to_identifier(name))
            relations.append(_relation(cte, name, columns, before))
        else:
            before.append(cte)
    with_.set("recursive", False)
    with_.set("expressions", before)
    if not before:
        tree.set("with_", None)
    return Apart(tuple(relations), tree.sql(dialect=Spoken))


def _reads(node: exp.Expr, name: str) -> list[exp.Table]:
    tables = node.find_all(exp.Table)
    return [t for t in tables if folded(t.name) == folded(name) and not t.args.get("db")]


def _relation(
    cte: exp.CTE, name: str, columns: tuple[str, ...], before: Sequence[exp.CTE]
) -> Relation:
    body = cte.this
    if type(body) is not exp.Union:
        raise CannotSay("a recursive relation is no UNION")
    distinct = bool(body.args.get("distinct"))
    own = body.args.get("with_")
    around = [*before, *(own.expressions if own is not None else ())]
    branches: list[exp.Expression] = []
    left: exp.Expression = body
    while type(left) is exp.Union and bool(left.args.get("distinct")) == distinct:
        branches.insert(0, left.expression)
        left = left.this
    branches.insert(0, left)
    texts = [(bool(_reads(b, name)), _text(b, around)) for b in branches]
    limit = cte.meta.get(LEVEL, _STEPS if distinct else _LEVELS)
    return Relation(
        name,
        columns,
        tuple(text for is_step, text in texts if not is_step),
        tuple(text for is_step, text in texts if is_step),
        not distinct,
        limit,
    )


def _text(query: exp.Expression, around: Sequence[exp.CTE]) -> str:
    query = query.copy()
    if around:
        own = query.args.get("with_")
        inner = own.expressions if own is not None else []
        query.set("with_", exp.With(expressions=[*(c.copy() for c in around), *inner]))
    return query.sql(dialect=Spoken)
