"""Joins whose other inputs throw away most rows of some of them, and find at most one for each.

Of a join, some inputs are *led to* by others: at most one row of each matches, by a unique key
whose columns equal columns that are there already (an order leads to its customer, a supplier to
its nation). Such an input adds no rows; its filter takes some away.

    part = the product of the selectivities of the filters of the inputs that are led to

Guesses (planner.analysis.selectivity) decide what is worth while, never what is right; that an
input adds no rows is proved from keys.
"""

from __future__ import annotations

from collections.abc import Iterable

from planner.analysis.equality import classes, equality, links
from planner.analysis.join_view import JoinView
from planner.analysis.keys import TableKey, matches_once
from planner.analysis.selectivity import selectivity
from planner.calculus.algebra import Filter, Join, Plan, Project, Scan
from planner.calculus.expr import Column, Expr, condition, remap
from planner.calculus.failing import may_fail
from planner.calculus.visit import walk

#: Rows left of a hundred for which it is worth while to keep them apart.
_WORTH_WHILE = 0.25


def is_selective(plan: Plan, columns: tuple[int, ...], table_key: TableKey) -> bool:
    """Whether the plan is a join of tables in which the inputs with these columns lead to all
    others, and keep few rows by estimate for them."""
    while isinstance(plan, Project):
        found = [plan.exprs[c] for c in columns]
        plain = [e.index for e in found if isinstance(e, Column)]
        if len(plain) < len(found):
            return False
        plan, columns = plan.input, tuple(plain)
    if not isinstance(plan, Join) or has_stream(plan):
        return False
    view = JoinView.of(plan)
    start = frozenset(view.home[c] for c in columns)
    found_inputs = led_to(view, start, table_key)
    if len(start) + len(found_inputs) < len(plan.inputs):
        return False
    part = 1.0
    for i in found_inputs:
        part *= passing(plan.inputs[i])
    return part <= _WORTH_WHILE


def led_to(
    view: JoinView,
    start: frozenset[int],
    table_key: TableKey,
    among: Iterable[int] | None = None,
) -> tuple[int, ...]:
    """Inputs of the join, those `among` alone (None: all), of which at most one row matches given
    rows of the inputs `start`, each found through a key that equals columns of these and of those
    before it."""
    places = [[(view.home[c], c) for c in sorted(g)] for g in view.equal]
    others = [i for i in (range(len(view.inputs)) if among is None else among) if i not in start]
    known = set(start)
    found: list[int] = []
    while True:
        bound: dict[int, set[int]] = {}
        for group in places:
            if any(i in known for i, _ in group):
                for i, c in group:
                    bound.setdefault(i, set()).add(c - view.starts[i])
        following = next(
            (
                i
                for i in others
                if i not in known
                and i in bound
                and matches_once(view.inputs[i], frozenset(bound[i]), table_key)
            ),
            None,
        )
        if following is None:
            return tuple(found)
        known.add(following)
        found.append(following)


def passing(plan: Plan) -> float:
    """The part of a table's rows that the plan, filters and projections over it, lets pass."""
    part = 1.0
    while isinstance(plan, (Filter, Project)):
        if isinstance(plan, Filter):
            part *= selectivity(plan.predicate)
        plan = plan.input
    return part


def has_stream(plan: Plan) -> bool:
    """Whether the plan reads events, which are not retained."""
    return any(isinstance(p, Scan) and p.stream for p in walk(plan))


def chain(view: JoinView, seed: int, table_key: TableKey) -> tuple[int, ...]:
    """The seed, and the tables with a filter that it leads to, by way of tables."""
    start = frozenset((seed,))
    tables = [i for i, x in enumerate(view.inputs) if i == seed or is_table(x)]
    kept = [seed, *led_to(view, start, table_key, tables)]
    for m in reversed(kept[1:]):
        rest = [k for k in kept if k != m]
        if (
            passing(view.inputs[m]) == 1
            and len(led_to(view, start, table_key, rest)) == len(rest) - 1
        ):
            kept.remove(m)
    return tuple(kept)


def join_of(view: JoinView, members: tuple[int, ...]) -> tuple[Join, dict[int, int]]:
    """The join of some inputs, with what the condition says or implies of them alone and cannot
    fail, and where the join's columns are in it."""
    at = view.together(members)
    inside = [p for p in view.parts if is_inside(view, p, members)]
    inside += _implied(view, frozenset(at), tuple(inside))
    predicate = condition([remap(p, at) for p in inside])
    return Join(tuple(view.inputs[m] for m in members), predicate), at


def is_inside(view: JoinView, predicate: Expr, members: tuple[int, ...]) -> bool:
    """Whether `join_of` takes a conjunct: it cannot fail and reads inputs of `members` alone."""
    readers = view.readers(predicate)
    return bool(readers) and readers.issubset(members) and not may_fail(predicate)


def is_table(plan: Plan) -> bool:
    """Whether the plan is columns of a table's rows, filtered by what cannot fail."""
    while isinstance(plan, (Filter, Project)):
        exprs = (plan.predicate,) if isinstance(plan, Filter) else plan.exprs
        if any(may_fail(e) for e in exprs):
            return False
        plan = plan.input
    return isinstance(plan, Scan) and not plan.stream


def _implied(view: JoinView, columns: frozenset[int], known: tuple[Expr, ...]) -> list[Expr]:
    """Equalities of `columns` that follow from the condition by way of others, and not from
    `known`, which is a part of it."""
    linked: dict[int, int] = {}  # by column that `known` equates with another: one of its class
    for group in classes(links(known)):
        for c in group.columns:
            linked[c.index] = group.columns[0].index
    found: list[Expr] = []
    for group in view.classes:
        own = [c for c in group.columns if c.index in columns]
        there = {linked.get(c.index, c.index) for c in own[:1]}
        for c in own[1:]:
            its = linked.get(c.index, c.index)
            if its not in there:
                found.append(equality(own[0], c, group.null_safe))
                there.add(its)
    return found
