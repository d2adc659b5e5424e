"""Give every column of an equality class the constant that one of them is compared with.

    a.x = b.y AND a.x = 5   ->   … AND b.y = 5      (also for IN with literals)

Runs once: the copies sink further afterwards, where a second run would no longer see them.

Law: the copies cannot fail and follow from the predicate, so they remove no result row.
"""

from __future__ import annotations

from planner.analysis.join_view import JoinView
from planner.calculus.algebra import Filter, Join, Plan
from planner.calculus.expr import Call, Column, Expr, Literal, conjunction, conjuncts
from planner.calculus.types import BOOLEAN
from planner.calculus.visit import transform


def apply(plan: Plan) -> Plan:
    return transform(plan, _propagate)


def _propagate(plan: Plan) -> Plan:
    if not isinstance(plan, Join) or plan.predicate is None:
        return plan
    view = JoinView.of(plan)
    known = tuple(e for e in _all_conjuncts(view) if _constant(e) is not None)
    copies: list[Expr] = []
    for group in view.classes:
        for fact in known:
            source = _constant(fact)
            if source is None or source.index not in {c.index for c in group.columns}:
                continue
            for target in group.columns:
                copy = _copy(fact, target)
                if target.type == source.type and copy not in known and copy not in copies:
                    copies.append(copy)
    return Join(plan.inputs, conjunction((*view.parts, *copies))) if copies else plan


def _all_conjuncts(view: JoinView) -> tuple[Expr, ...]:
    """Those of the join, and those directly on its inputs, over the join's columns."""
    found = list(view.parts)
    for k, i in enumerate(view.inputs):
        if isinstance(i, Filter):
            found.extend(view.placed(e, k) for e in conjuncts(i.predicate))
    return tuple(found)


def _constant(expr: Expr) -> Column | None:
    """The column of `column = literal` or `column IN (literals)`."""
    match expr:
        case Call(function="eq", args=(Column() as c, Literal())):
            return c
        case Call(function="eq", args=(Literal(), Column() as c)):
            return c
        case Call(function="in", args=(Column() as c, *items)):
            return c if all(isinstance(i, Literal) for i in items) else None
        case _:
            return None


def _copy(fact: Expr, target: Column) -> Expr:
    assert isinstance(fact, Call)
    args = tuple(target if isinstance(a, Column) else a for a in fact.args)
    return Call(fact.function, args, BOOLEAN, any(a.nullable for a in args))
