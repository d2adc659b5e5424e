"""A selective part of a join is kept where that spares indexes of its large input.

    Join[f.a = d.a AND f.b = e.b …](f, d, e, …)
        ->  Join[k.b = e.b …](kept Join[f.a = d.a](f, d), e, …)

d and what it leads to (analysis.restriction) have filters that few rows of f survive. A change of e
would look all rows of f up by b, to throw most of them away, and the index that it needs takes in
every row of f. Now it finds the few rows k that are kept, by an index of these alone; the rows of f
are indexed for the changes of d only. (Q8: a supplier's change would reach 600 lineitems to keep 4,
through an index of all lineitems by supplier.)

To keep a row costs several times as much as to index it, hence only where less than a tenth is left
by estimate. Law: predicates that cannot fail move inside.
"""

from __future__ import annotations

from math import prod

from planner.analysis.join_view import JoinView
from planner.analysis.keys import TableKey
from planner.analysis.restriction import (
    chain,
    has_stream,
    is_inside,
    is_table,
    join_of,
    led_to,
    passing,
)
from planner.calculus.algebra import Join, Keep, Plan, Project, identity
from planner.calculus.expr import condition, remap
from planner.calculus.visit import transform

_WORTH_WHILE = 0.1


def apply(plan: Plan, table_key: TableKey) -> Plan:
    return transform(plan, lambda p: _keep(p, table_key))


def _keep(plan: Plan, table_key: TableKey) -> Plan:
    if not isinstance(plan, Join) or len(plan.inputs) < 3 or has_stream(plan):
        return plan
    if prod(map(passing, plan.inputs)) >= _WORTH_WHILE:
        return plan
    view = JoinView.of(plan)
    tables = [i for i, x in enumerate(plan.inputs) if is_table(x)]
    chains: dict[int, tuple[int, ...]] = {}
    found = [
        (part, members)
        for fact in tables
        for seed in led_to(view, frozenset((fact,)), table_key)
        if seed in tables
        for part, members in _candidate(view, fact, seed, table_key, chains)
    ]
    if not found:
        return plan
    return _kept(plan, view, min(found)[1])


def _candidate(
    view: JoinView,
    fact: int,
    seed: int,
    table_key: TableKey,
    chains: dict[int, tuple[int, ...]],
) -> list[tuple[float, tuple[int, ...]]]:
    """The inputs to keep as one join: the fact, and the seed with the tables it leads to; and the
    part of the fact's rows that is left. None where no index is spared. `chains`: of the seeds that
    have been asked for."""
    if seed not in chains:
        chains[seed] = chain(view, seed, table_key)
    along = tuple(m for m in chains[seed] if m != fact)
    members = (fact, *along)
    part = prod(passing(view.inputs[m]) for m in along)
    if part >= _WORTH_WHILE:
        return []
    led = led_to(view, frozenset((fact,)), table_key, members)
    if len(led) < len(along) or not _spares(view, fact, members):
        return []
    return [(part, members)]


def _spares(view: JoinView, fact: int, members: tuple[int, ...]) -> bool:
    """Whether inputs that are not members are linked with the fact."""
    linked = ({view.home[c.index] for c in g.columns} for g in view.classes)
    return any(fact in some and some - set(members) for some in linked)


def _kept(plan: Join, view: JoinView, members: tuple[int, ...]) -> Plan:
    small, _ = join_of(view, members)
    rest = [i for i in range(len(plan.inputs)) if i not in members]
    at = view.together((*members, *rest))
    outside = [remap(p, at) for p in view.parts if not is_inside(view, p, members)]
    join = Join((Keep(small), *(plan.inputs[i] for i in rest)), condition(outside))
    columns = identity(join.schema)
    return Project(join, tuple(columns[at[c]] for c in range(len(plan.schema))), plan.schema)
