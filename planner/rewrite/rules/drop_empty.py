"""What never has a row goes: under a predicate that is FALSE, joined with what has none, and so on.

Branches like these come from text that programs write, and from the expansion of joins (the rows
without a match, of a condition that holds for others alone). A join under FALSE would be a product.

What reads a stream stays as it is: its rows are events, and an empty constant has none.
Source: Spark's `PropagateEmptyRelation`.
"""

from __future__ import annotations

from planner.calculus.algebra import (
    Aggregate,
    Explode,
    Filter,
    Join,
    Keep,
    MarkJoin,
    Minus,
    OuterJoin,
    Plan,
    Project,
    Repeat,
    Scan,
    SemiJoin,
    TopK,
    UnionAll,
    Values,
    Window,
    identity,
)
from planner.calculus.expr import Expr, Literal
from planner.calculus.types import BOOLEAN
from planner.calculus.visit import nodes, transform


def apply(plan: Plan) -> Plan:
    if any(isinstance(node, Scan) and node.stream for node, _ in nodes(plan)):
        return plan
    return transform(plan, _drop)


def _drop(plan: Plan) -> Plan:
    match plan:
        case Filter(predicate=predicate) if _is_never(predicate):
            return Values((), plan.schema)
        case Join(inputs=inputs, predicate=predicate):
            never = predicate is not None and _is_never(predicate)
            return Values((), plan.schema) if never or any(map(_is_empty, inputs)) else plan
        case Aggregate(keys=()):
            return plan
        case Filter() | Project() | Repeat() | Explode() | TopK() | Window() | Aggregate():
            return Values((), plan.schema) if _is_empty(plan.input) else plan
        case SemiJoin(left=left, right=right, anti=anti):
            if _is_empty(left) or (_is_empty(right) and not anti):
                return Values((), plan.schema)
            return left if _is_empty(right) else plan
        case MarkJoin(left=left, right=right):
            if _is_empty(left):
                return Values((), plan.schema)
            if _is_empty(right):
                return Project(left, (*identity(left.schema), Literal(False, BOOLEAN)), plan.schema)
            return plan
        case OuterJoin(left=left, right=right, full=full):
            if _is_empty(left) and (not full or _is_empty(right)):
                return Values((), plan.schema)
            if _is_empty(right) and not full:
                nothing = tuple(Literal(None, f.type) for f in right.schema)
                return Project(left, (*identity(left.schema), *nothing), plan.schema)
            return plan
        case UnionAll():
            return _union(plan)
        case Minus():
            return plan.input if _is_empty(plan.input) or _is_empty(plan.part) else plan
        case Keep():
            return plan.input if _is_empty(plan.input) else plan
        case _:
            return plan


def _union(plan: UnionAll) -> Plan:
    there = tuple(i for i in plan.inputs if not _is_empty(i))
    if len(there) == len(plan.inputs):
        return plan
    match there:
        case ():
            return Values((), plan.schema)
        case (kept,):
            return Project(kept, identity(kept.schema), plan.schema)
        case _:
            return UnionAll(there, plan.schema)


def _is_never(predicate: Expr) -> bool:
    return isinstance(predicate, Literal) and not predicate.value


def _is_empty(plan: Plan) -> bool:
    return isinstance(plan, Values) and not plan.rows
