"""Joins whose condition has a subquery about both sides, and LATERAL joins.

A condition that asks a subquery for each pair of rows is a filter of the right side, as a query
that sees the row on its left:

    l LEFT JOIN r ON c        for each row of l, the rows of r that meet c, or NULLs
    l RIGHT JOIN r            the same of r
    l FULL JOIN r             the first, and the rows of r that no row of l meets
    l LEFT SEMI or ANTI JOIN  the rows of l for which there is such a row, or is none

Invariant: what was bound beside the other side is moved one query further in (`deeper`), once.
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from planner.bind.outer import deeper
from planner.bind.subqueries import FIRST, Placement, Subqueries, first_columns
from planner.calculus.algebra import Apply, Filter, Plan, Project, UnionAll, identity, nullable
from planner.calculus.expr import Call, Column, Expr, Literal, Outer, columns_used, transform
from planner.calculus.types import BOOLEAN


def asks_pairs(condition: Expr | None, subqueries: Subqueries, width: int) -> bool:
    """Whether a subquery in the condition reads columns before `width` and from it on."""
    for column in columns_used(condition) if condition is not None else ():
        if column >= FIRST:
            reads = [c for c in subqueries.columns(subqueries.reference(column)) if c < FIRST]
            if any(c < width for c in reads) and any(c >= width for c in reads):
                return True
    return False


def pairs_join(
    form: str,
    left: Plan,
    right: Plan,
    condition: Expr,
    subqueries: Subqueries,
    node: exp.Expression,
) -> Plan:
    """A LEFT, RIGHT, FULL, SEMI or ANTI join by a condition that asks pairs. Columns: those of
    left, then right; of left alone for SEMI and ANTI."""
    split = len(left.schema)
    own, other = range(split), range(split, split + len(right.schema))
    behind = meeting(deeper(right), own, other, condition, subqueries, node)
    if form in ("SEMI", "ANTI"):
        return _having(left, behind, form == "SEMI")
    before = meeting(deeper(left), other, own, condition, subqueries, node)
    if form == "RIGHT":
        mirrored = Apply(right, before, "left", "lateral")
        moved = identity(mirrored.schema)
        columns = (*moved[len(other) :], *moved[: len(other)])
        return Project(mirrored, columns, tuple(mirrored.schema[c.index] for c in columns))
    matched = Apply(left, behind, "left", "lateral")
    if form == "LEFT":
        return matched
    alone = _having(right, before, False)
    nulls = tuple(Literal(None, f.type) for f in left.schema)
    schema = nullable((*left.schema, *right.schema))
    padded = Project(alone, (*nulls, *identity(alone.schema)), (*schema[:split], *right.schema))
    return UnionAll((matched, padded), schema)


def meeting(
    plan: Plan,
    around: range,
    own: range,
    condition: Expr,
    subqueries: Subqueries,
    node: exp.Expression,
) -> Plan:
    """The rows of `plan`, a query that sees a row on its left, which meet a condition over both:
    the row's columns are at `around`, the plan's at `own`."""

    def move(expr: Expr) -> Expr:
        match expr:
            case Column() if expr.index in around:
                at = expr.index - around.start
                return Outer(1, at, expr.type, expr.nullable, expr.name)
            case Column() if expr.index in own:
                return replace(expr, index=expr.index - own.start)
            case Outer():
                return replace(expr, depth=expr.depth + 1)
            case _:
                return expr

    placement = Placement(plan, subqueries.further_in(), lambda e, _: transform(e, move))
    placement.filter(condition, node)
    return first_columns(placement.plan, plan.schema)


def _having(plan: Plan, subquery: Plan, some: bool) -> Plan:
    """The rows for which the subquery has some row, or none."""
    applied = Apply(plan, subquery, "exists", "exists")
    found: Expr = Column(len(plan.schema), BOOLEAN, False, "exists")
    if not some:
        found = Call("not", (found,), BOOLEAN, False)
    return first_columns(Filter(applied, found), plan.schema)
