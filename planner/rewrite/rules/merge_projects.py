"""Project over Project becomes one Project.

Law: an inner expression that the outer drops is no longer evaluated (fewer errors, never more).
Not done where it would copy large expressions: see `expr.substitution_grows`.
"""

from __future__ import annotations

from planner.calculus.algebra import Plan, Project
from planner.calculus.expr import substitute, substitution_grows
from planner.calculus.visit import transform


def apply(plan: Plan) -> Plan:
    return transform(plan, _merge)


def _merge(plan: Plan) -> Plan:
    if not (isinstance(plan, Project) and isinstance(plan.input, Project)):
        return plan
    inner = plan.input
    if substitution_grows(plan.exprs, inner.exprs):
        return plan
    exprs = tuple(substitute(e, inner.exprs) for e in plan.exprs)
    return Project(inner.input, exprs, plan.schema)
