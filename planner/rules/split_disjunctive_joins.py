"""A join whose only link is an OR of equalities is a union of joins.

    Join[a.x = b.x OR a.y = b.y](a, b)
        ->  UnionAll(Join[a.x = b.x](a, b), Join[a.y = b.y AND (a.x = b.x) IS NOT TRUE](a, b))

Each branch excludes those before it, so that no pair comes twice, and can be looked up.

Law: the OR cannot fail. Applied only where inputs would not be connected otherwise.
"""

from __future__ import annotations

from planner.algebra import Join, Plan, UnionAll
from planner.analysis.constants import FALSE
from planner.expr import (
    Call,
    Expr,
    columns_used,
    conjunction,
    conjuncts,
    disjuncts,
    may_fail,
)
from planner.types import BOOLEAN
from planner.visit import transform

_MOST_BRANCHES = 4


def apply(plan: Plan) -> Plan:
    return transform(plan, _split)


def _split(plan: Plan) -> Plan:
    if not isinstance(plan, Join) or plan.predicate is None:
        return plan
    home = [i for i, x in enumerate(plan.inputs) for _ in x.schema]
    parts = conjuncts(plan.predicate)
    component = list(range(len(plan.inputs)))
    for p in parts:
        _connect(component, _linked(p, home))
    for position, p in enumerate(parts):
        branches = disjuncts(p)
        if not 1 < len(branches) <= _MOST_BRANCHES or may_fail(p):
            continue
        if all(_connects(b, home, component) for b in branches):
            rest = (*parts[:position], *parts[position + 1 :])
            return _union(plan, branches, rest)
    return plan


def _union(plan: Join, branches: tuple[Expr, ...], rest: tuple[Expr, ...]) -> UnionAll:
    joins: list[Plan] = []
    for k, branch in enumerate(branches):
        others = tuple(_is_not_true(b) for b in branches[:k])
        joins.append(_split(Join(plan.inputs, conjunction((branch, *others, *rest)))))
    return UnionAll(tuple(joins), plan.schema)


def _is_not_true(expr: Expr) -> Expr:
    known: Expr = expr
    if expr.nullable:
        known = Call("coalesce", (expr, FALSE), BOOLEAN, False)
    return Call("not", (known,), BOOLEAN, False)


def _connects(branch: Expr, home: list[int], component: list[int]) -> bool:
    links = (_linked(p, home) for p in conjuncts(branch))
    return any(link is not None and component[link[0]] != component[link[1]] for link in links)


def _linked(predicate: Expr, home: list[int]) -> tuple[int, int] | None:
    """The two inputs that an equality links."""
    if not (isinstance(predicate, Call) and predicate.function in ("eq", "eq_null_safe")):
        return None
    a, b = ({home[c] for c in columns_used(x)} for x in predicate.args)
    if len(a) != 1 or len(b) != 1 or a == b:
        return None
    return a.pop(), b.pop()


def _connect(component: list[int], link: tuple[int, int] | None) -> None:
    if link is not None:
        old, new = component[link[0]], component[link[1]]
        component[:] = [new if c == old else c for c in component]
