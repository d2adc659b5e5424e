"""Derive from an OR over several join inputs what it implies for each of them.

    (a.x = 1 AND b.y = 2) OR (a.x = 2 AND b.y = 1)
        ->   the same, AND (a.x = 1 OR a.x = 2), AND (b.y = 2 OR b.y = 1)

TPC-H Q7 and Q19 restrict their tables in no other way. Runs once, after the predicates that come
with the query have sunk: the derived ones sink too, and would be derived again.

Law: each branch must restrict the input by conjuncts that cannot fail; the derived predicate then
cannot fail and follows from the OR.
"""

from __future__ import annotations

from planner.analysis.join_view import JoinView
from planner.calculus.algebra import Join, Plan
from planner.calculus.expr import (
    Call,
    Expr,
    columns_used,
    conjunction,
    conjuncts,
    disjunction,
    disjuncts,
)
from planner.calculus.failing import may_fail
from planner.calculus.visit import transform
from planner.rewrite.rules.push_filters import filtered


def apply(plan: Plan) -> Plan:
    return transform(plan, _derive)


def _derive(plan: Plan) -> Plan:
    if not isinstance(plan, Join) or plan.predicate is None:
        return plan
    inputs: list[Plan] = []
    view = JoinView.of(plan)
    for k, i in enumerate(plan.inputs):
        implied = (_implied(p, frozenset(view.columns(k))) for p in view.parts)
        inputs.append(filtered(i, tuple(view.local(e, k) for e in implied if e is not None)))
    if all(a is b for a, b in zip(inputs, plan.inputs, strict=True)):
        return plan
    return Join(tuple(inputs), plan.predicate)


def _implied(expr: Expr, columns: frozenset[int]) -> Expr | None:
    """What an OR implies for the columns of one input, or None."""
    if not (isinstance(expr, Call) and expr.function == "or"):
        return None
    branches = []
    for branch in disjuncts(expr):
        own = tuple(
            c
            for c in conjuncts(branch)
            if columns_used(c) and columns_used(c) <= columns and not may_fail(c)
        )
        if not own:
            return None
        branches.append(conjunction(own))
    return disjunction(tuple(dict.fromkeys(branches)))
