"""WITH RECURSIVE as text: who reads whom, and `MAX RECURSION LEVEL n`, which sqlglot lacks."""

from __future__ import annotations

import re
from collections.abc import Sequence

from sqlglot import exp

from planner.names import folded
from planner.parse.tokens import lexemes

#: Where a CTE's node keeps its level.
LEVEL = "max_recursion_level"
#: Rounds that are not exceeded where the text does not say how many: Spark's for UNION ALL, and
#: where rows may come and go for ever; other UNIONs end where no row is new.
MOST_LEVELS, MOST_STEPS = 100, 10_000


def without_levels(text: str) -> tuple[str, tuple[tuple[int, int], ...]]:
    """The text with blanks in place of the clauses, and of each its place and its number."""
    tokens = [t for t in lexemes(text) if t.kind not in ("space", "comment")]
    found: list[tuple[int, int]] = []
    for at in range(len(tokens) - 4):
        words = [t.word for t in tokens[at : at + 3]]
        number, after = tokens[at + 3], tokens[at + 4]
        if (
            words == ["MAX", "RECURSION", "LEVEL"]
            and number.kind == "number"
            and after.word == "AS"
        ):
            if not number.text.isdigit():
                continue
            start, stop = tokens[at].start, number.start + len(number.text)
            blank = re.sub(r"\S", " ", text[start:stop])
            text = text[:start] + blank + text[stop:]
            found.append((start, int(number.text)))
    return text, tuple(found)


def put_levels(tree: exp.Expr, levels: tuple[tuple[int, int], ...]) -> None:
    """Say in the CTE in front of each clause what its level is."""
    placed = [(c.args["alias"].this.meta.get("start", 0), c) for c in tree.find_all(exp.CTE)]
    for start, level in levels:
        before = [(at, cte) for at, cte in placed if at < start]
        if before:
            max(before, key=lambda pair: pair[0])[1].meta[LEVEL] = level


def mentions(node: exp.Expr, name: str) -> list[exp.Table]:
    """Where the text reads a relation of this name."""
    tables = node.find_all(exp.Table)
    found = [t for t in tables if isinstance(t.this, exp.Identifier) and not t.args.get("db")]
    named = [t for t in found if folded(t.name) == folded(name)]
    return sorted(named, key=lambda t: t.this.meta.get("start", 0))


def cycles(ctes: Sequence[exp.CTE]) -> list[tuple[exp.CTE, ...]]:
    """The relations of a WITH RECURSIVE, those that lead to each other together in the order of the
    text, each group behind those that its members read further up."""
    reads = [{i for i, other in enumerate(ctes) if mentions(cte.this, other.alias)} for cte in ctes]
    leads = [set(r) for r in reads]
    for _ in ctes:
        for i, found in enumerate(leads):
            leads[i] = found.union(*(leads[k] for k in found))
    groups: list[tuple[int, ...]] = []
    done: set[int] = set()

    def visit(at: int) -> None:
        if at in done:
            return
        group = tuple(k for k in range(len(ctes)) if k == at or (k in leads[at] and at in leads[k]))
        done.update(group)
        for member in group:
            for before in sorted(reads[member]):
                if before < member:
                    visit(before)
        groups.append(group)

    for at in range(len(ctes)):
        visit(at)
    return [tuple(ctes[k] for k in group) for group in groups]


def begins(query: exp.Expression, unknown: Sequence[str]) -> exp.Expression | None:
    """A query of the same columns without the sides of UNIONs, and the conditions, that read what
    is unknown; None if it reads it all the same."""

    def reads(node: exp.Expression) -> bool:
        return any(mentions(node, name) for name in unknown)

    whole = exp.Subquery(this=query.copy())
    for clause in list(whole.find_all(exp.Where, exp.Having)):
        if reads(clause):
            clause.pop()
    for union in reversed(list(whole.find_all(exp.Union))):
        left, right = reads(union.this), reads(union.expression)
        if left == right:
            continue
        side, names = (union.expression, column_names(union)) if left else (union.this, [])
        with_ = union.args.get("with_")
        side = side.pop()
        if with_ is not None and not reads(with_) and side.args.get("with_") is None:
            side.set("with_", with_)
        if len(names) == len(column_names(side)):
            side = _called(side, names)
        union.replace(side)
    begun: exp.Expression = whole.this
    return None if reads(begun) else begun


def column_names(query: exp.Expression) -> list[str]:
    """The names of a query's columns, of a UNION those of its first side; none where the text does
    not say them."""
    first = query
    while isinstance(first, (exp.Union, exp.Subquery)):
        first = first.this
    if not isinstance(first, exp.Select) or any(e.is_star for e in first.expressions):
        return []
    return [e.alias_or_name or f"_{i}" for i, e in enumerate(first.expressions)]


def _called(query: exp.Expression, names: Sequence[str]) -> exp.Expression:
    """The query with these names for its columns, if there are any."""
    if not names:
        return query
    columns = [exp.to_identifier(name, quoted=True) for name in names]
    alias = exp.TableAlias(this=exp.to_identifier("begun"), columns=columns)
    inner = exp.Subquery(this=query.unnest(), alias=alias)
    return exp.Select(expressions=[exp.Star()], from_=exp.From(this=inner))


def takes_back(query: exp.Expression) -> bool:
    """Whether the text has what may take rows back in a later round: an aggregate, NOT, EXCEPT or
    an outer join."""
    kinds = (exp.AggFunc, exp.Group, exp.Not, exp.Except, exp.Intersect)
    return query.find(*kinds) is not None or any(j.side for j in query.find_all(exp.Join))


def levels(ctes: Sequence[exp.CTE]) -> int | None:
    """The least level that is said of these relations."""
    said = [cte.meta[LEVEL] for cte in ctes if LEVEL in cte.meta]
    return min(said, default=None)


def most_rounds(ctes: Sequence[exp.CTE]) -> int:
    """How many rounds relations that have each row once may have where the text does not say it."""
    return MOST_LEVELS if any(takes_back(cte.this) for cte in ctes) else MOST_STEPS


def rounds_of(group: Sequence[exp.CTE]) -> tuple[exp.CTE, ...]:
    """Those of relations over each other that go round: what reads itself, or is read further up.
    The others are queries over these."""
    return tuple(
        cte
        for at, cte in enumerate(group)
        if any(mentions(other.this, cte.alias) for other in group[: at + 1])
    )
