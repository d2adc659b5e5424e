"""Anti, mark and left joins rise above inner joins, so that they see fewer rows and the inner joins
come together in one node.

    Join[p](AntiJoin[c](a, r), b)   ->   AntiJoin[c](Join[p](a, b), r)
    Join[p](LeftJoin[c](a, r), b)   ->   LeftJoin[c](Join[p](a, b), r)     if p reads nothing of r

Not above a single row that rows are only compared with: that comparison comes last (see
make_thresholds), when all other rows are gone.

Law: a conjunct of p that may fail stays above what rose. Semi joins need not rise: they become
inner joins themselves.
"""

from __future__ import annotations

from planner.analysis.join_view import JoinView, is_equality
from planner.analysis.keys import plan_keys
from planner.calculus.algebra import (
    Filter,
    Join,
    MarkJoin,
    OuterJoin,
    Plan,
    Project,
    SemiJoin,
    identity,
)
from planner.calculus.expr import Expr, columns_used, condition, conjunction, remap
from planner.calculus.failing import may_fail
from planner.calculus.visit import transform


def apply(plan: Plan) -> Plan:
    return transform(plan, _lift)


def _lift(plan: Plan) -> Plan:
    if not isinstance(plan, Join):
        return plan
    for position, i in enumerate(plan.inputs):
        if _rises(i):
            lifted = _lifted(JoinView.of(plan), position)
            if lifted is not None:
                return lifted
    return plan


def _rises(plan: Plan) -> bool:
    match plan:
        case SemiJoin(anti=anti):
            return anti
        case MarkJoin():
            return True
        case OuterJoin(full=full):
            return not full
        case _:
            return False


def _lifted(view: JoinView, position: int) -> Plan | None:
    node, start = view.inputs[position], view.starts[position]
    assert isinstance(node, (SemiJoin, MarkJoin, OuterJoin))
    kept = len(node.left.schema)
    gone = len(node.schema) - kept
    own = range(start + kept, start + kept + gone)
    if any(() in plan_keys(i) for i in view.inputs if i is not node) and not any(
        map(is_equality, view.parts)
    ):
        return None
    inside: list[Expr] = []
    above: list[Expr] = []
    for p in view.parts:
        (above if may_fail(p) or columns_used(p) & set(own) else inside).append(p)
    if any(not may_fail(p) for p in above):
        return None
    every = range(len(view.home))
    width = len(every) - gone
    # Columns of the join, without those that the node adds; these come last then.
    at = {c: c if c < own.start else c - gone for c in every if c not in own}
    at.update({c: width + k for k, c in enumerate(own)})
    inputs = (*view.inputs[:position], node.left, *view.inputs[position + 1 :])
    join = Join(inputs, condition([remap(p, at) for p in inside]))
    moved = {c: start + c for c in range(kept)}
    moved.update({kept + c: width + c for c in range(len(node.right.schema))})
    own_condition = None if node.condition is None else remap(node.condition, moved)
    result: Plan
    match node:
        case SemiJoin():
            result = SemiJoin(join, node.right, own_condition, node.anti)
        case MarkJoin():
            result = MarkJoin(join, node.right, own_condition, node.name)
        case OuterJoin():
            result = OuterJoin(join, node.right, node.full, own_condition)
    if above:
        result = Filter(result, conjunction(tuple(remap(p, at) for p in above)))
    columns = identity(result.schema)
    exprs = tuple(columns[at[c]] for c in every)
    if exprs == columns:
        return result
    return Project(result, exprs, tuple(result.schema[e.index] for e in exprs))
