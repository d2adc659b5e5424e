"""An outer join whose padded rows are thrown away above it is an inner join.

    Filter[rejects NULLs of b](LeftJoin(a, b))   ->   Filter(Join(a, b))
    Filter[rejects NULLs of a](FullJoin(a, b))   ->   Filter(LeftJoin(a, b))     (likewise for b)

A condition rejects the NULLs of some columns if it is not TRUE whenever they are all NULL. The same
holds for the condition of an inner join above.

Law: the filter, unchanged, still stands above the join.
"""

from __future__ import annotations

from planner.analysis.join_view import JoinView
from planner.calculus.algebra import Filter, Join, OuterJoin, Plan, Project, identity
from planner.calculus.expr import Call, Column, Expr, Literal, columns_used, conjuncts, remap
from planner.calculus.expr import transform as transform_expr
from planner.calculus.primitives import STRICT
from planner.calculus.visit import transform, with_inputs


def apply(plan: Plan) -> Plan:
    return transform(plan, _simplify)


def _simplify(plan: Plan) -> Plan:
    match plan:
        case Filter() if _ends_in_outer_join(plan.input):
            below = _rejecting(plan.input, conjuncts(plan.predicate))
            return with_inputs(plan, (below,))
        case Join() if any(map(_ends_in_outer_join, plan.inputs)):
            view = JoinView.of(plan)
            inputs = tuple(
                _rejecting(i, tuple(_localized(p, view.columns(k)) for p in view.parts))
                for k, i in enumerate(plan.inputs)
            )
            return with_inputs(plan, inputs)
        case _:
            return plan


def _ends_in_outer_join(plan: Plan) -> bool:
    """Whether `_rejecting` comes to an outer join."""
    while isinstance(plan, (Filter, Project)):
        plan = plan.input
    return isinstance(plan, OuterJoin)


#: A column of which nothing is known.
_UNKNOWN = 1 << 40


def _localized(expr: Expr, own: range) -> Expr:
    """The expression over the input with columns `own`; nothing is known of the others'."""
    at = {c: c - own.start if c in own else _UNKNOWN for c in columns_used(expr)}
    return remap(expr, at)


def _rejecting(plan: Plan, predicates: tuple[Expr, ...]) -> Plan:
    """The plan, whose rows are kept only where all predicates are TRUE."""
    match plan:
        case OuterJoin():
            width = len(plan.left.schema)
            columns = range(len(plan.schema))
            left = any(rejects_nulls(p, frozenset(columns[:width])) for p in predicates)
            right = any(rejects_nulls(p, frozenset(columns[width:])) for p in predicates)
            if right and (left or not plan.full):
                return Join((plan.left, plan.right), plan.condition)
            if plan.full and left:
                return OuterJoin(plan.left, plan.right, False, plan.condition)
            if plan.full and right:
                return _mirrored(plan)
            return plan
        case Filter():
            return with_inputs(plan, (_rejecting(plan.input, predicates),))
        case Project():
            below = tuple(_through(p, plan.exprs) for p in predicates)
            return with_inputs(plan, (_rejecting(plan.input, below),))
        case _:
            return plan


def _through(expr: Expr, exprs: tuple[Expr, ...]) -> Expr:
    """The expression over a projection's columns, over those of its input."""

    def change(e: Expr) -> Expr:
        return exprs[e.index] if isinstance(e, Column) and e.index != _UNKNOWN else e

    return transform_expr(expr, change)


def _mirrored(plan: OuterJoin) -> Plan:
    """The left join with the sides exchanged, its columns in the old order."""
    a, b = len(plan.left.schema), len(plan.right.schema)
    at = {**{c: b + c for c in range(a)}, **{a + c: c for c in range(b)}}
    condition = None if plan.condition is None else remap(plan.condition, at)
    join = OuterJoin(plan.right, plan.left, False, condition)
    columns = identity(join.schema)
    exprs = (*columns[b:], *columns[:b])
    return Project(join, exprs, tuple(join.schema[e.index] for e in exprs))


def rejects_nulls(expr: Expr, columns: frozenset[int]) -> bool:
    """Whether a predicate is never TRUE where all of these columns are NULL. True is a proof."""
    match expr:
        case Call(function="and"):
            return any(rejects_nulls(a, columns) for a in expr.args)
        case Call(function="or"):
            return all(rejects_nulls(a, columns) for a in expr.args)
        case Call(function="not", args=(Call(function="is_null", args=(arg,)),)):
            return _is_null_then(arg, columns)
        case Literal():
            return expr.value is not True
        case _:
            return _is_null_then(expr, columns)


def _is_null_then(expr: Expr, columns: frozenset[int]) -> bool:
    """Whether the value is NULL (or an error is lost) where all of these columns are NULL."""
    match expr:
        case Column():
            return expr.index in columns
        case Literal():
            return expr.value is None
        case Call(function="in", args=(first, *_)):
            return _is_null_then(first, columns)
        case Call(function="and" | "or"):
            return all(_is_null_then(a, columns) for a in expr.args)
        case Call(function="case", args=args):
            return all(_is_null_then(a, columns) for a in (*args[1:-1:2], args[-1]))
        case Call() if expr.function in STRICT:
            return any(_is_null_then(a, columns) for a in expr.args)
        case _:
            return False
