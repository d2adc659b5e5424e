"""Drop a Project that outputs its input's columns as they are (a mere renaming).

Names are for display: the optimizer puts the root's names back if this drops them.
"""

from __future__ import annotations

from planner.calculus.algebra import Plan, Project
from planner.calculus.expr import Column
from planner.calculus.visit import transform


def apply(plan: Plan) -> Plan:
    return transform(plan, _remove)


def _remove(plan: Plan) -> Plan:
    if isinstance(plan, Project) and len(plan.exprs) == len(plan.input.schema):
        if all(isinstance(e, Column) and e.index == i for i, e in enumerate(plan.exprs)):
            return plan.input
    return plan
