"""Joins whose other inputs throw away most rows of some of them, and find at most one for each.

Of a join, some inputs are *led to* by others: at most one row of each matches, by a unique key
whose columns equal columns that are there already (an order leads to its customer, a supplier to
its nation). Such an input adds no rows; its filter takes some away.

    part = the product of the selectivities of the filters of the inputs that are led to

Guesses (planner.analysis.selectivity) decide what is worth while, never what is right; that an
input adds no rows is proved from keys.
"""

from __future__ import annotations

from planner.algebra import Filter, Join, Plan, Project, Scan
from planner.analysis.equality import as_link, classes
from planner.analysis.keys import TableKey, matches_once
from planner.analysis.selectivity import selectivity
from planner.expr import Column, conjuncts
from planner.visit import walk

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
    home = [i for i, x in enumerate(plan.inputs) for _ in x.schema]
    start = frozenset(home[c] for c in columns)
    found_inputs = led_to(plan, start, table_key)
    if len(start) + len(found_inputs) < len(plan.inputs):
        return False
    part = 1.0
    for i in found_inputs:
        part *= passing(plan.inputs[i])
    return part <= _WORTH_WHILE


def led_to(plan: Join, start: frozenset[int], table_key: TableKey) -> tuple[int, ...]:
    """Inputs of the join of which at most one row matches given rows of the inputs `start`, each
    found through a key that equals columns of these and of those before it."""
    home = [i for i, x in enumerate(plan.inputs) for _ in x.schema]
    starts = [home.index(i) for i in range(len(plan.inputs))]
    parts = () if plan.predicate is None else conjuncts(plan.predicate)
    links = tuple(link for link in map(as_link, parts) if link is not None and not link.null_safe)
    groups = [frozenset(c.index for c in g.columns) for g in classes(links)]
    known = set(start)
    found: list[int] = []
    while True:
        bound = {c for g in groups if any(home[k] in known for k in g) for c in g}
        following = next(
            (
                i
                for i, x in enumerate(plan.inputs)
                if i not in known
                and (own := frozenset(c - starts[i] for c in bound if home[c] == i))
                and matches_once(x, own, table_key)
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
