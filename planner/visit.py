"""Walking and rebuilding algebra plans.

Invariant: a rewrite that changes nothing returns the object that it was given, so that "did this
rule do anything" is an identity test; and a subtree that occurs twice (a CTE used twice) is
rewritten once and stays one object.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from typing_extensions import assert_never

from planner.algebra import (
    Aggregate,
    Filter,
    Join,
    Plan,
    Project,
    Scan,
    TopK,
    UnionAll,
    inputs,
)
from planner.expr import Expr


def with_inputs(plan: Plan, new: tuple[Plan, ...]) -> Plan:
    """The same node over other inputs; the same object if they are the same objects."""
    old = inputs(plan)
    if len(old) == len(new) and all(a is b for a, b in zip(old, new, strict=True)):
        return plan
    match plan:
        case Scan():
            raise ValueError("a scan has no inputs")
        case Filter():
            return Filter(new[0], plan.predicate)
        case Project():
            return Project(new[0], plan.exprs, plan.schema)
        case Join():
            return Join(new, plan.predicate)
        case Aggregate():
            return Aggregate(new[0], plan.keys, plan.aggregates, plan.schema)
        case UnionAll():
            return UnionAll(new, plan.schema)
        case TopK():
            return TopK(new[0], plan.order, plan.ties, plan.limit, plan.offset)
        case _:
            assert_never(plan)


def transform(plan: Plan, change: Callable[[Plan], Plan]) -> Plan:
    """Rebuild bottom-up, applying `change` to every node over its rebuilt inputs.

    Cost: one call of `change` per distinct node object.
    """
    done: dict[int, Plan] = {}

    def visit(node: Plan) -> Plan:
        known = done.get(id(node))
        if known is None:
            known = change(with_inputs(node, tuple(visit(i) for i in inputs(node))))
            done[id(node)] = known
        return known

    return visit(plan)


def walk(plan: Plan) -> Iterator[Plan]:
    """`plan` and every node under it, parents first; a shared subtree once per occurrence."""
    yield plan
    for i in inputs(plan):
        yield from walk(i)


def expressions(plan: Plan) -> tuple[Expr, ...]:
    """The expressions of this node alone, over its input's columns."""
    match plan:
        case Filter():
            return (plan.predicate,)
        case Project():
            return plan.exprs
        case Join():
            return () if plan.predicate is None else (plan.predicate,)
        case Aggregate():
            return plan.keys + tuple(a.arg for a in plan.aggregates if a.arg is not None)
        case Scan() | UnionAll() | TopK():
            return ()
        case _:
            assert_never(plan)
