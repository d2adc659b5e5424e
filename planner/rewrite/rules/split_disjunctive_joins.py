"""A join whose only link is an OR of equalities is a union of joins.

    Join[a.x = b.x OR a.y = b.y](a, b)
        ->  UnionAll(Join[a.x = b.x](a, b), Join[a.y = b.y AND (a.x = b.x) IS NOT TRUE](a, b))

Each branch excludes those before it, so that no pair comes twice, and can be looked up.

Law: the OR cannot fail. Applied only where inputs would not be connected otherwise.
"""

from __future__ import annotations

from planner.analysis.constants import FALSE
from planner.analysis.join_view import JoinView
from planner.calculus.algebra import Join, Plan, UnionAll
from planner.calculus.expr import Call, Expr, conjunction, conjuncts, disjuncts
from planner.calculus.failing import may_fail
from planner.calculus.types import BOOLEAN
from planner.calculus.visit import transform

_MOST_BRANCHES = 4


def apply(plan: Plan) -> Plan:
    return transform(plan, _split)


def _split(plan: Plan) -> Plan:
    if not isinstance(plan, Join) or plan.predicate is None:
        return plan
    view = JoinView.of(plan)
    component = view.components()
    for position, p in enumerate(view.parts):
        branches = disjuncts(p)
        if not 1 < len(branches) <= _MOST_BRANCHES or may_fail(p):
            continue
        if all(_connects(view, b, component) for b in branches):
            rest = (*view.parts[:position], *view.parts[position + 1 :])
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


def _connects(view: JoinView, branch: Expr, component: list[int]) -> bool:
    links = map(view.linked, conjuncts(branch))
    return any(x is not None and component[x[0]] != component[x[1]] for x in links)
