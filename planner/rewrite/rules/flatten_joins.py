"""One n-way Join from nested inner joins, with projections and filters between them pulled up.

    Join[p](Project[e](Join[q](a, b)), c)   ->   Project[e, c.*](Join[q AND p'](a, b, c))

A join in one node can be maintained by delta paths, with no state between its parts. Also a
projection straight over any other input is pulled up, so that the input is what is stored.

Law: expressions of a pulled projection are evaluated above the join, on fewer rows; predicates
between the joins come before those of the outer join, as they did. A filter moves only from above
an inner join. Not done where substitution would copy much (expr.substitution_grows).
"""

from __future__ import annotations

from dataclasses import dataclass

from planner.calculus.algebra import Filter, Join, Plan, Project, identity
from planner.calculus.expr import (
    Column,
    Expr,
    condition,
    conjuncts,
    remap,
    substitute,
    substitution_grows,
)
from planner.calculus.visit import transform


def apply(plan: Plan) -> Plan:
    return transform(plan, _flatten)


@dataclass(frozen=True, slots=True)
class _Parts:
    """A plan as inputs of a join, predicates over their columns, and what it outputs of them."""

    inputs: tuple[Plan, ...]
    predicates: tuple[Expr, ...]
    outputs: tuple[Expr, ...]


def _flatten(plan: Plan) -> Plan:
    if not isinstance(plan, Join):
        return plan
    pieces = [_parts(i) for i in plan.inputs]
    if all(p.inputs == (i,) and _bare(p) for p, i in zip(pieces, plan.inputs, strict=True)):
        return plan
    inputs: list[Plan] = []
    predicates: list[Expr] = []
    outputs: list[Expr] = []
    width = 0
    for piece in pieces:
        columns = sum(len(i.schema) for i in piece.inputs)
        shift = {c: width + c for c in range(columns)}
        inputs.extend(piece.inputs)
        predicates.extend(remap(p, shift) for p in piece.predicates)
        outputs.extend(remap(o, shift) for o in piece.outputs)
        width += columns
    values = tuple(outputs)
    if plan.predicate is not None:
        if substitution_grows((plan.predicate,), values):
            return plan
        predicates.extend(conjuncts(substitute(plan.predicate, values)))
    flat = Join(tuple(inputs), condition(predicates))
    if values == identity(flat.schema):
        return flat
    return Project(flat, values, plan.schema)


def _bare(piece: _Parts) -> bool:
    return all(isinstance(e, Column) and e.index == i for i, e in enumerate(piece.outputs))


def _parts(plan: Plan) -> _Parts:
    match plan:
        case Join():
            return _Parts(plan.inputs, conjuncts(plan.predicate), identity(plan.schema))
        case Project():
            inner = _parts(plan.input)
            if not substitution_grows(plan.exprs, inner.outputs):
                exprs = tuple(substitute(e, inner.outputs) for e in plan.exprs)
                return _Parts(inner.inputs, inner.predicates, exprs)
        case Filter():
            inner = _parts(plan.input)
            if len(inner.inputs) > 1 and not substitution_grows((plan.predicate,), inner.outputs):
                own = conjuncts(substitute(plan.predicate, inner.outputs))
                return _Parts(inner.inputs, inner.predicates + own, inner.outputs)
        case _:
            pass
    return _Parts((plan,), (), identity(plan.schema))
