"""A join that only compares rows with a scalar is a threshold.

    Project(Join[a.k = s.k AND a.x > s.v](a, s))  ->  Project(Threshold[x > v for each k](a, s))

Of several comparisons with s (a window between two bounds) each is a threshold over the rows of the
one before.

where s is an aggregate (or the first row of an order) with at most one row for each k, and nothing
above reads s but its keys. All other inputs of
the join come first: what is ordered and stored are rows that only wait for the comparison. When v
moves, the rows between its old and its new value are visited; the join would visit all rows of k.
A k that is unique among the rows finds one row, and stays a join.

Law: neither side of the comparison may fail, unless there is no k (then s is computed in any case),
and for x unless s has always one row: then x is computed for the rows that pass the comparisons
before, as in the join.
Runs once, when only those columns are left in a join that something reads.
"""

from __future__ import annotations

from dataclasses import dataclass

from planner.analysis.equality import as_link, classes, links
from planner.analysis.join_view import JoinView
from planner.analysis.keys import TableKey, matches_once
from planner.analysis.ranges import MIRRORED
from planner.analysis.streams import gives_events
from planner.calculus.algebra import (
    Aggregate,
    Filter,
    Join,
    Plan,
    Project,
    Threshold,
    TopK,
    identity,
)
from planner.calculus.expr import Call, Column, Expr, columns_used, conjunction, remap
from planner.calculus.failing import may_fail
from planner.calculus.types import BOOLEAN
from planner.calculus.visit import expressions, is_recursive, transform
from planner.rewrite.unnest import project


def apply(plan: Plan, table_key: TableKey) -> Plan:
    return transform(plan, lambda p: _consumer(p, table_key))


def _consumer(plan: Plan, table_key: TableKey) -> Plan:
    if not isinstance(plan, (Project, Aggregate)):
        return plan
    while isinstance(plan.input, Join):
        found = _threshold(plan.input, columns_used(*expressions(plan)), table_key)
        if found is None:
            break
        plan = _over(plan, *found)
    return plan


def _over(plan: Project | Aggregate, below: Plan, at: dict[int, int]) -> Project | Aggregate:
    if isinstance(plan, Project):
        return Project(below, tuple(remap(e, at) for e in plan.exprs), plan.schema)
    keys = tuple(remap(k, at) for k in plan.keys)
    calls = tuple(a.over(lambda e: remap(e, at)) for a in plan.aggregates)
    return Aggregate(below, keys, calls, plan.schema)


@dataclass(frozen=True, slots=True)
class _Bound:
    """The input that holds the scalars: its position, the equalities of its columns with others',
    the comparisons (function, value, scalar), and the rest of the condition."""

    position: int
    links: tuple[tuple[Column, Column], ...]  # (of others, of the bound)
    comparisons: tuple[tuple[str, Expr, Expr], ...]
    rest: tuple[Expr, ...]


def _threshold(
    join: Join, needed: frozenset[int], table_key: TableKey
) -> tuple[Plan, dict[int, int]] | None:
    """The threshold, and where the needed columns of the join are in it. Events meet the scalar at
    their own instant alone, and rows of a recursion at its rounds: their comparison stays in the
    join."""
    if gives_events(join) or is_recursive(join):
        return None
    view = JoinView.of(join)
    for position in range(len(join.inputs)):
        own = view.columns(position)
        bound = _bound(view, position, table_key)
        if bound is not None and all(c not in own or _linked(bound, c) is not None for c in needed):
            made = _made(join, bound, own, needed, table_key)
            if made is not None:
                return made
    return None


def _linked(bound: _Bound, column: int) -> Column | None:
    """The column of another input that equals a key of the bound in type too."""
    return next(
        (a for a, b in bound.links if b.index == column and a.type == b.type),
        None,
    )


def _bound(view: JoinView, position: int, table_key: TableKey) -> _Bound | None:
    if not _is_computed(view.inputs[position]):
        return None
    own = view.columns(position)
    links: list[tuple[Column, Column]] = []
    comparisons: list[tuple[str, Expr, Expr]] = []
    rest: list[Expr] = []
    for p in view.parts:
        readers = view.readers(p)
        if position not in readers:
            rest.append(p)
            continue
        link = as_link(p)
        if link is not None and not link.null_safe and len(readers) > 1:
            a, b = (link.left, link.right)
            links.append((a, b) if b.index in own else (b, a))
            continue
        comparison = _comparison(view, p, position)
        if comparison is None:
            return None
        comparisons.append(comparison)
    if not comparisons:
        return None
    keys = frozenset(b.index - own.start for _, b in links)
    if not matches_once(view.inputs[position], keys, table_key):
        return None
    for _, value, scalar in comparisons:
        if links and (may_fail(value) or may_fail(scalar)):
            return None
        if may_fail(value) and not _is_one_row(view.inputs[position]):
            return None
    return _Bound(position, tuple(links), tuple(comparisons), tuple(rest))


def _comparison(view: JoinView, predicate: Expr, position: int) -> tuple[str, Expr, Expr] | None:
    """(function, the side of the others, the side of the bound)."""
    if not (isinstance(predicate, Call) and predicate.function in MIRRORED):
        return None
    a, b = predicate.args
    of_a, of_b = view.readers(a), view.readers(b)
    if of_a and position not in of_a and of_b == {position}:
        return predicate.function, a, b
    if of_b and position not in of_b and of_a == {position}:
        return MIRRORED[predicate.function], b, a
    return None


def _made(
    join: Join, bound: _Bound, own: range, needed: frozenset[int], table_key: TableKey
) -> tuple[Plan, dict[int, int]] | None:
    others = tuple(x for i, x in enumerate(join.inputs) if i != bound.position)
    shift = {
        c: c if c < own.start else c - len(own) for c in range(len(join.schema)) if c not in own
    }
    first: dict[int, Column] = {}
    tests = list(bound.rest)
    for a, b in bound.links:
        if b.index not in first:
            first[b.index] = a
        elif first[b.index].type == a.type:
            tests.append(Call("eq", (first[b.index], a), BOOLEAN, a.nullable))
        else:
            return None
    moved_tests = tuple(remap(t, shift) for t in tests)
    predicate = conjunction(moved_tests) if moved_tests else None
    if len(others) > 1:
        rows: Plan = Join(others, predicate)
    else:
        rows = others[0] if predicate is None else Filter(others[0], predicate)
    partition = tuple(shift[a.index] for a in first.values())
    if partition and matches_once(rows, _equal_to(partition, moved_tests), table_key):
        return None
    wanted = {shift[c] if c in shift else shift[_of(bound, c).index] for c in needed}
    kept = sorted(wanted | set(partition))
    values = [remap(value, shift) for _, value, _ in bound.comparisons]
    columns = identity(rows.schema)
    exprs: list[Expr] = [columns[c] for c in kept]
    early = [v for v in values if not may_fail(v)]
    early += [columns[c] for v in values if may_fail(v) for c in sorted(columns_used(v))]
    exprs += [v for v in dict.fromkeys(early) if v not in exprs]
    made = project(rows, exprs)
    there = {e.index: i for i, e in enumerate(exprs) if isinstance(e, Column)}
    place = {c: k for k, c in enumerate(kept)}
    local = {c: c - own.start for c in own}
    source = join.inputs[bound.position]
    scalars = [remap(b, local) for b in {b.index: b for _, b in bound.links}.values()]
    for value, (function, _, scalar) in zip(values, bound.comparisons, strict=True):
        if value not in exprs:  # it may fail: only now, for the rows that are left
            made = project(made, (*identity(made.schema), remap(value, there)))
            exprs.append(value)
        made = Threshold(
            input=made,
            bound=project(source, (*scalars, remap(scalar, local))),
            column=exprs.index(value),
            comparison=function,
            scalar=len(scalars),
            partition=tuple(place[c] for c in partition),
            keys=tuple(range(len(scalars))),
        )
    at = {c: place[shift[c] if c in shift else shift[_of(bound, c).index]] for c in needed}
    return made, at


def _equal_to(columns: tuple[int, ...], tests: tuple[Expr, ...]) -> frozenset[int]:
    """The columns, and those that equal them."""
    found = set(columns)
    for group in classes(links(tests)):
        members = {c.index for c in group.columns}
        if members & found:
            found |= members
    return frozenset(found)


def _is_computed(plan: Plan) -> bool:
    """Whether the plan holds results that move with other rows, not rows of a table: those stay as
    they are, and a join with them needs no state."""
    while isinstance(plan, (Project, Filter)):
        plan = plan.input
    return isinstance(plan, (Aggregate, TopK))


def _is_one_row(plan: Plan) -> bool:
    while isinstance(plan, Project):
        plan = plan.input
    return isinstance(plan, Aggregate) and not plan.keys


def _of(bound: _Bound, column: int) -> Column:
    found = _linked(bound, column)
    assert found is not None, "keys that are read have a column that equals them"
    return found
