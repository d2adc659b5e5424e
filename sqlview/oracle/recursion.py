"""WITH RECURSIVE as a loop over tables, for engines that mean something else by it or lack it.

DuckDB's step sees the rows of the round before alone, which is no least set of rows where it reads
itself twice; it has no relations over each other, nor rows that a round takes back; and it does not
stop where Spark does. So a text is taken apart: each recursive relation becomes a table that a loop
fills, and the rest of the text reads that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import sqlglot
from sqlglot import exp

from planner.parse.queries import normalise
from planner.parse.recursion import (
    MOST_LEVELS,
    begins,
    cycles,
    levels,
    mentions,
    most_rounds,
    put_levels,
    rounds_of,
    without_levels,
)
from sqlview.oracle.functions import Spoken
from sqlview.oracle.protocol import CannotSay


@dataclass(frozen=True, slots=True)
class Relation:
    """A recursive relation: the table `name`, its columns where the text names them, a query that
    begins it, and those of its rows over the tables' rows; with UNION ALL, over its level's."""

    name: str
    columns: tuple[str, ...]
    begins: str
    goes_on: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Group:
    """Relations over each other, in the order in which they take turns in a round, at most `limit`
    times. `is_all`: one with UNION ALL, each round of which is made of the round before."""

    relations: tuple[Relation, ...]
    is_all: bool
    limit: int


@dataclass(frozen=True, slots=True)
class Apart:
    """A text over the tables of its recursive relations, each group of which may read those
    before."""

    groups: tuple[Group, ...]
    text: str


def apart(text: str) -> Apart | None:
    """The text taken apart; None if it has no recursive relation.

    Raises: CannotSay for one that is not in the WITH at the top; what sqlglot raises.
    """
    if "recursive" not in text.lower():
        return None
    said, given = without_levels(normalise(text))
    tree = sqlglot.parse_one(said, read=Spoken)
    if not any(w.args.get("recursive") for w in tree.find_all(exp.With)):
        return None
    put_levels(tree, given)
    with_ = tree.args.get("with_")
    inner = [w for w in tree.find_all(exp.With) if w is not with_ and w.args.get("recursive")]
    if with_ is None or inner:
        raise CannotSay("it has WITH RECURSIVE inside of a query")
    groups: list[Group] = []
    tables = 0
    plain: list[exp.CTE] = []  # in an order in which they can be read
    for group in cycles(with_.expressions):
        goes_round = rounds_of(group)
        is_all, limit = _is_all(group), levels(goes_round)
        if limit is None:
            limit = MOST_LEVELS if is_all else most_rounds(group)
        begun = [_begun(cte, group) for cte in goes_round]
        goes_on = [_goes_on(cte, is_all) for cte in goes_round]
        names = [f"sqlview_recursive_{tables + i + 1}" for i in range(len(goes_round))]
        tables += len(names)
        for cte, name in zip(goes_round, names, strict=True):
            for table in mentions(tree, cte.alias):
                if table.args.get("alias") is None:
                    kept = exp.to_identifier(cte.alias, quoted=True)
                    table.set("alias", exp.TableAlias(this=kept))
                table.set("this", exp.to_identifier(name))
        before = list(plain)
        plain += [c for c in group if c not in goes_round]
        relations = []
        for cte, name, (first, known), rest in zip(goes_round, names, begun, goes_on, strict=True):
            own = cte.this.args.get("with_")
            around = [*plain, *(own.expressions if own is not None and is_all else ())]
            relations.append(
                Relation(
                    name,
                    tuple(c.name for c in cte.args["alias"].args.get("columns") or ()),
                    _text(first, [*before, *known]),
                    tuple(_text(query, around) for query in rest),
                )
            )
        if relations:
            groups.append(Group(tuple(relations), is_all, limit))
    with_.set("recursive", False)
    with_.set("expressions", plain)
    if not plain:
        tree.set("with_", None)
    return Apart(tuple(groups), tree.sql(dialect=Spoken))


def _begun(cte: exp.CTE, group: Sequence[exp.CTE]) -> tuple[exp.Expression, list[exp.CTE]]:
    """A query with the relation's columns, and those that it reads: what they are where the others
    have no rows."""
    unknown, known = [c.alias for c in group], []
    while (begun := begins(cte.this, unknown)) is None:
        for other in group:
            found = begins(other.this, unknown) if other.alias in unknown else None
            if found is not None:
                unknown.remove(other.alias)
                known.append(other.copy())
                known[-1].set("this", found)
                break
        else:
            raise CannotSay("a recursive relation has no query to begin with")
    return begun, known


def _is_all(group: Sequence[exp.CTE]) -> bool:
    first = group[0].this
    return len(group) == 1 and type(first) is exp.Union and not first.args.get("distinct")


def _goes_on(cte: exp.CTE, is_all: bool) -> list[exp.Expression]:
    """The queries of a round: with UNION ALL those that read the relation."""
    if not is_all:
        return [cte.this]
    found: list[exp.Expression] = []
    left: exp.Expression = cte.this
    while type(left) is exp.Union and not left.args.get("distinct"):
        found.append(left.expression)
        left = left.this
    return [q for q in found if mentions(q, cte.alias)]


def _text(query: exp.Expression, around: Sequence[exp.CTE]) -> str:
    query = query.copy()
    if around:
        own = query.args.get("with_")
        inner = own.expressions if own is not None else []
        query.set("with_", exp.With(expressions=[*(c.copy() for c in around), *inner]))
    return query.sql(dialect=Spoken)
