"""Which values the columns of a plan can take: the bindings of a subquery, of a semi join.

A binding is a row of distinct values of some columns of an outer query. To enumerate bindings the
whole outer query need not run: the smallest part of it that has the columns gives a superset of
them, which is as good, as bindings that occur nowhere are never looked up.

Invariant: `provider` returns a plan whose projection to the columns contains that of `plan`.
"""

from __future__ import annotations

from planner.analysis.join_view import JoinView
from planner.calculus.algebra import (
    Aggregate,
    Apply,
    Filter,
    Join,
    MarkJoin,
    OuterJoin,
    Plan,
    Project,
    Scan,
    SemiJoin,
    Threshold,
    identity,
)
from planner.calculus.expr import (
    Column,
    Expr,
    Outer,
    condition,
    conjunction,
    conjuncts,
    remap,
    walk,
)
from planner.calculus.failing import may_fail


def domain(plan: Plan, columns: tuple[int, ...]) -> Aggregate:
    """The distinct values of these columns of `plan`, or of a superset of its rows."""
    source, at = provider(plan, columns)
    keys = tuple(identity(source.schema)[c] for c in at)
    return Aggregate(source, keys, (), tuple(source.schema[c] for c in at))


def provider(plan: Plan, columns: tuple[int, ...]) -> tuple[Plan, tuple[int, ...]]:
    """A part of the plan that holds all values of these columns, and where they are in it."""
    match plan:
        case Filter():
            return _filtered(plan, columns)
        case Project():
            return _projected(plan, columns)
        case Join():
            return _joined(plan, columns)
        case SemiJoin():
            return provider(plan.left, columns)
        case MarkJoin() if max(columns, default=0) < len(plan.left.schema):
            return provider(plan.left, columns)
        case OuterJoin(full=False) if max(columns, default=0) < len(plan.left.schema):
            return provider(plan.left, columns)
        case Apply() if max(columns, default=0) < len(plan.input.schema):
            return provider(plan.input, columns)
        case Threshold():
            return provider(plan.input, columns)
        case _:
            return plan, columns


def _filtered(plan: Filter, columns: tuple[int, ...]) -> tuple[Plan, tuple[int, ...]]:
    """A filter stays where it is cheap: over a table, if it cannot fail."""
    below, at = provider(plan.input, columns)
    if below is plan.input and isinstance(below, Scan):
        kept = tuple(
            p for p in conjuncts(plan.predicate) if not may_fail(p) and not _is_correlated(p)
        )
        if kept:
            return Filter(below, conjunction(kept)), at
    return below, at


def _is_correlated(expr: Expr) -> bool:
    return any(isinstance(e, Outer) for e in walk(expr))


def _projected(plan: Project, columns: tuple[int, ...]) -> tuple[Plan, tuple[int, ...]]:
    found = [plan.exprs[c] for c in columns]
    plain = [e.index for e in found if isinstance(e, Column)]
    if len(plain) < len(found):
        return plan, columns
    return provider(plan.input, tuple(plain))


def _joined(plan: Join, columns: tuple[int, ...]) -> tuple[Plan, tuple[int, ...]]:
    """Only the inputs that have the columns, under the part of the condition that is about them,
    as long as it connects them."""
    view = JoinView.of(plan)
    wanted = sorted({view.home[c] for c in columns})
    if len(wanted) == 1:
        start = view.starts[wanted[0]]
        return provider(plan.inputs[wanted[0]], tuple(c - start for c in columns))
    inside = tuple(p for p in view.parts if view.readers(p).issubset(wanted))
    if not _connected(wanted, [view.readers(p) for p in inside]):
        return plan, columns
    at = view.together(wanted)
    predicate = condition([remap(p, at) for p in inside])
    join = Join(tuple(plan.inputs[i] for i in wanted), predicate)
    return join, tuple(at[c] for c in columns)


def _connected(inputs: list[int], edges: list[frozenset[int]]) -> bool:
    reached = {inputs[0]}
    for _ in inputs:
        for edge in edges:
            if edge & reached:
                reached |= edge
    return reached.issuperset(inputs)
