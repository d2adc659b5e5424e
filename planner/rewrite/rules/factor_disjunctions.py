"""Take conjuncts that all branches of an OR share out of it.

    (A AND x) OR (A AND y)   ->   A AND (x OR y)
    A OR (A AND x)           ->   A

TPC-H Q19 writes its join condition in each of three branches; only outside the OR can it be seen
to link the two tables.

Law: the distributive law holds for three-valued logic. Only conjuncts that cannot fail are taken
out, as they come to be evaluated first.
"""

from __future__ import annotations

from planner.calculus.algebra import Filter, Join, Plan
from planner.calculus.expr import Call, Expr, conjunction, conjuncts, disjunction, disjuncts
from planner.calculus.failing import may_fail
from planner.calculus.visit import transform


def apply(plan: Plan) -> Plan:
    return transform(plan, _factor_node)


def _factor_node(plan: Plan) -> Plan:
    match plan:
        case Filter():
            predicate = factor(plan.predicate)
            return plan if predicate is plan.predicate else Filter(plan.input, predicate)
        case Join(predicate=predicate) if predicate is not None:
            factored = factor(predicate)
            return plan if factored is predicate else Join(plan.inputs, factored)
        case _:
            return plan


def factor(predicate: Expr) -> Expr:
    """The predicate with each of its top-level conjuncts factored; the same object if none is."""
    parts = conjuncts(predicate)
    factored = tuple(_factor_or(p) for p in parts)
    if all(a is b for a, b in zip(parts, factored, strict=True)):
        return predicate
    return conjunction(factored)


def _factor_or(expr: Expr) -> Expr:
    if not (isinstance(expr, Call) and expr.function == "or"):
        return expr
    branches = [conjuncts(b) for b in disjuncts(expr)]
    common = tuple(
        dict.fromkeys(
            c for c in branches[0] if not may_fail(c) and all(c in b for b in branches[1:])
        )
    )
    if not common:
        return expr
    rests = [tuple(c for c in branch if c not in common) for branch in branches]
    if not all(rests):
        return conjunction(common)
    return conjunction((*common, disjunction(tuple(conjunction(r) for r in rests))))
