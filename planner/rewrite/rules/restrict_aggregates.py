"""An aggregate of which a join reads few groups is kept for these groups alone.

    Join[b.k = g.k](b, g: Aggregate by k of x)      b: some rows of a table, one for each k
        ->  Join[b.k = g.k](b, Aggregate by k of Join[x.k = b.k](x, b))

A group that b does not have is never joined, so its rows need not be added up: a row of x costs a
lookup in b's few rows instead of an update of its group (the magic set of a subquery that is
correlated with b; a semi join that copies nothing, as b is unique on k). Inputs that b leads to
(analysis.restriction) come along if they have a filter. Of several candidates for b the one of the
least rows by estimate is taken, then the smallest.

Law: x is aggregated on fewer rows, among them all rows of every group that is read. An aggregate
that others read too is left as it is, unless they would restrict it alike: it is kept once.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

from planner.analysis.equality import encode_alike, equality, plain_column
from planner.analysis.join_view import JoinView
from planner.analysis.keys import TableKey, matches_once
from planner.analysis.restriction import (
    chain,
    has_stream,
    is_table,
    join_of,
    passing,
)
from planner.calculus.algebra import Aggregate, Filter, Join, Plan, Project, identity, inputs
from planner.calculus.expr import Column, Expr, conjunction, conjuncts, remap
from planner.calculus.visit import nodes, with_inputs

#: The largest part of the groups to be kept apart.
_WORTH_WHILE = 0.1


def apply(plan: Plan, table_key: TableKey) -> Plan:
    proposals: dict[Aggregate, list[Aggregate]] = {}
    # How often each aggregate occurs, and for how many of these there is a proposal.
    occurrences: Counter[Aggregate] = Counter()
    proposed: Counter[Aggregate] = Counter()
    for node, times in nodes(plan):
        if isinstance(node, Aggregate):
            occurrences[node] += times
        if isinstance(node, Join):
            for i in range(len(node.inputs)):
                found = _proposal(node, i, table_key)
                if found is not None:
                    proposals.setdefault(found[0], []).append(found[1])
                    proposed[found[0]] += times
    if not proposals:
        return plan
    agreed = {
        old: new[0]
        for old, new in proposals.items()
        if proposed[old] == occurrences[old] and all(n == new[0] for n in new)
    }
    return _Replacing(agreed).visit(plan)


class _Replacing:
    """Puts new aggregates in place of old ones, wherever they are, also inside new ones."""

    def __init__(self, new: dict[Aggregate, Aggregate]) -> None:
        self._new = new
        self._done: dict[int, tuple[Plan, Plan]] = {}

    def visit(self, plan: Plan) -> Plan:
        known = self._done.get(id(plan))
        if known is None:
            new = self._new.get(plan, plan) if isinstance(plan, Aggregate) else plan
            known = (plan, with_inputs(new, tuple(self.visit(i) for i in inputs(new))))
            self._done[id(plan)] = known
        return known[1]


@dataclass(frozen=True, slots=True)
class _Restriction:
    """The inputs `members` of a join, the first of them unique on its `columns` (positions in the
    join), which equal the keys `keys` of an aggregate; `part` of its rows are left."""

    part: float
    members: tuple[int, ...]
    keys: tuple[int, ...]
    columns: tuple[Column, ...]


def _proposal(join: Join, i: int, table_key: TableKey) -> tuple[Aggregate, Aggregate] | None:
    """The aggregate that input i of the join is made of, and its restriction."""
    aggregate, places = _aggregate(join.inputs[i])
    if aggregate is None or not aggregate.keys or has_stream(aggregate):
        return None
    view = JoinView.of(join)
    at = {view.starts[i] + c: k for c, k in places.items()}
    found = [
        r
        for seed in range(len(join.inputs))
        if seed != i and (r := _restriction(view, seed, at, aggregate, table_key)) is not None
    ]
    best = min(found, key=lambda r: (r.part, len(r.members), r.members), default=None)
    if best is None or best.part > _WORTH_WHILE or best.part >= _passing(aggregate.input):
        return None
    return aggregate, _restricted(aggregate, view, best)


def _aggregate(plan: Plan) -> tuple[Aggregate | None, dict[int, int]]:
    """The aggregate under filters and projections, and which columns are which keys of it."""
    if isinstance(plan, Aggregate):
        return plan, {k: k for k in range(len(plan.keys))}
    if isinstance(plan, Filter):
        return _aggregate(plan.input)
    if isinstance(plan, Project):
        aggregate, below = _aggregate(plan.input)
        plain = {c: plain_column(e) for c, e in enumerate(plan.exprs)}
        return aggregate, {
            c: below[e.index] for c, e in plain.items() if e is not None and e.index in below
        }
    return None, {}


def _restriction(
    view: JoinView, seed: int, at: dict[int, int], aggregate: Aggregate, table_key: TableKey
) -> _Restriction | None:
    """How input `seed` restricts the aggregate whose key at[c] is column c of the join."""
    equal: dict[int, Column] = {}
    for group in (g for g in view.classes if not g.null_safe):
        own = next((c for c in group.columns if view.home[c.index] == seed), None)
        for c in group.columns:
            if own is not None and c.index in at:
                key = plain_column(aggregate.keys[at[c.index]])
                if key is not None and encode_alike(key.type, own.type):
                    equal.setdefault(at[c.index], own)
    unique = frozenset(c.index - view.starts[seed] for c in equal.values())
    if not equal or not is_table(view.inputs[seed]):
        return None
    if not matches_once(view.inputs[seed], unique, table_key):
        return None
    members = chain(view, seed, table_key)
    part = 1.0
    for m in members:
        part *= passing(view.inputs[m])
    return _Restriction(part, members, tuple(equal), tuple(equal.values()))


def _restricted(aggregate: Aggregate, view: JoinView, by: _Restriction) -> Aggregate:
    below = aggregate.input
    width = len(below.schema)
    predicates: list[Expr] = []
    if len(by.members) > 1:
        some, at = join_of(view, by.members)
        others = some.inputs
        shift = {c: width + c for c in range(len(some.schema))}
        predicates = [remap(p, shift) for p in conjuncts(some.predicate)]
    else:
        seed = by.members[0]
        others = (view.inputs[seed],)
        at = view.together(by.members)
    columns = identity(tuple(f for x in others for f in x.schema), width)
    for k, c in zip(by.keys, by.columns, strict=True):
        key = plain_column(aggregate.keys[k])
        assert key is not None
        predicates.append(equality(key, columns[at[c.index]], null_safe=False))
    return replace(aggregate, input=Join((below, *others), conjunction(tuple(predicates))))


def _passing(plan: Plan) -> float:
    """The part of the rows that the filters of a plan's tables let pass."""
    while isinstance(plan, Project):
        plan = plan.input
    if not isinstance(plan, Join):
        return passing(plan)
    part = 1.0
    for i in plan.inputs:
        part *= passing(i)
    return part
