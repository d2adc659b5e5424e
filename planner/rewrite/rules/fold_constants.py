"""Evaluate constant subexpressions and trivial boolean forms; drop filters that are always TRUE.

Law: folding never drops an error that would occur on every row (see analysis.constants); `x AND
FALSE` is FALSE whatever x does, as SQL may evaluate either side first.
"""

from __future__ import annotations

from planner.analysis.constants import TRUE, fold, fold_predicate
from planner.calculus.algebra import Aggregate, Filter, Join, Plan, Project
from planner.calculus.expr import Expr
from planner.calculus.visit import transform


def apply(plan: Plan) -> Plan:
    return transform(plan, _fold_node)


def _fold_node(plan: Plan) -> Plan:
    match plan:
        case Filter():
            predicate = fold_predicate(plan.predicate)
            if predicate == TRUE:
                return plan.input
            return plan if predicate is plan.predicate else Filter(plan.input, predicate)
        case Join(predicate=predicate) if predicate is not None:
            folded = fold_predicate(predicate)
            if folded == TRUE:
                return Join(plan.inputs, None)
            return plan if folded is predicate else Join(plan.inputs, folded)
        case Project():
            exprs = _fold_all(plan.exprs)
            return plan if exprs is plan.exprs else Project(plan.input, exprs, plan.schema)
        case Aggregate():
            keys = _fold_all(plan.keys)
            aggregates = tuple(a.over(fold) for a in plan.aggregates)
            if keys is plan.keys and all(
                a is b for a, b in zip(aggregates, plan.aggregates, strict=True)
            ):
                return plan
            return Aggregate(plan.input, keys, aggregates, plan.schema)
        case _:
            return plan


def _fold_all(exprs: tuple[Expr, ...]) -> tuple[Expr, ...]:
    folded = tuple(fold(e) for e in exprs)
    return exprs if all(a is b for a, b in zip(folded, exprs, strict=True)) else folded
