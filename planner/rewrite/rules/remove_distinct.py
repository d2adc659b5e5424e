"""DISTINCT over columns that are already unique is a projection.

    Aggregate[keys, no aggregates](x)  ->  Project[keys](x)     if the keys hold a unique key of x

Keys of tables are not known here, only those that grouping makes; see analysis.keys.
"""

from __future__ import annotations

from planner.analysis.keys import plan_keys
from planner.calculus.algebra import Aggregate, Plan, Project
from planner.calculus.expr import Column
from planner.calculus.visit import transform


def apply(plan: Plan) -> Plan:
    return transform(plan, _remove)


def _remove(plan: Plan) -> Plan:
    if not isinstance(plan, Aggregate) or plan.aggregates or not plan.keys:
        return plan
    kept = {k.index for k in plan.keys if isinstance(k, Column)}
    if any(set(key) <= kept for key in plan_keys(plan.input)):
        return Project(plan.input, plan.keys, plan.schema)
    return plan
