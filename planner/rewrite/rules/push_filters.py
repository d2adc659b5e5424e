"""Move predicates towards the scans, merging filters on the way.

Law (p a conjunct, in the order in which the query evaluates them):

    below           cannot fail                    may fail
    Filter          merges, after its conjuncts    merges, after its conjuncts
    Project         yes, columns substituted       yes: it meets the same rows
    UnionAll, Keep  yes, into every input          yes: it meets the same rows
    Minus           yes, into both                 no: it would meet rows that cancel out
    Join            into the one input that it     no: a join removes rows; it joins the join's
                    reads, else into the join's    predicate, at the end
                    predicate
    Aggregate       if it reads keys alone, and    only if also all conjuncts before it go
                    at least one (a constant on
                    a global aggregate stays)
    OuterJoin       left: if it reads the left     no
                    input alone; full: no
    SemiJoin,       if it reads the left input     no: a join removes rows
    MarkJoin        alone
    Apply, Repeat   if it reads the input alone    only if also all conjuncts before it go
    TopK, Window    if it reads the partition      no
                    alone; else it would change
                    which rows are first
    SingleRow       no: it changes how many rows there are
    Retain          yes                            yes: it meets the same rows
    Scan, Values    ends here

A conjunct of the condition of an outer, semi or mark join that reads the right input alone and
cannot fail becomes a filter of it; of a semi join (not anti) also one that reads the left alone.

A conjunct that may fail never overtakes another conjunct. One that cannot may be evaluated before
it, which can only keep rows from failing. Not done where substitution would copy much
(expr.substitution_grows).
"""

from __future__ import annotations

from dataclasses import replace

from planner.analysis.join_view import JoinView
from planner.calculus.algebra import (
    Aggregate,
    Apply,
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
    Retain,
    SemiJoin,
    TopK,
    UnionAll,
    Window,
)
from planner.calculus.expr import (
    Expr,
    columns_used,
    condition,
    conjunction,
    conjuncts,
    substitute,
    substitution_grows,
)
from planner.calculus.failing import may_fail
from planner.calculus.visit import transform


def apply(plan: Plan) -> Plan:
    return transform(plan, _push)


def filtered(plan: Plan, predicates: tuple[Expr, ...]) -> Plan:
    """`plan` under a filter; predicates that it already has directly on top are not repeated."""
    if isinstance(plan, Filter):
        present = conjuncts(plan.predicate)
        new = tuple(dict.fromkeys(p for p in predicates if p not in present))
        return Filter(plan.input, conjunction(present + new)) if new else plan
    return Filter(plan, conjunction(predicates)) if predicates else plan


def _push(plan: Plan) -> Plan:
    match plan:
        case Filter():
            return _push_filter(plan)
        case Join(predicate=predicate) if predicate is not None:
            return _push_into_join(plan)
        case OuterJoin() | SemiJoin() | MarkJoin() if plan.condition is not None:
            return _push_condition(plan)
        case _:
            return plan


def _push_condition(
    plan: OuterJoin | SemiJoin | MarkJoin,
) -> OuterJoin | SemiJoin | MarkJoin:
    """Conjuncts of a condition into the input that they read."""
    view = JoinView.of(plan)
    left: list[Expr] = []
    right: list[Expr] = []
    rest: list[Expr] = []
    for p in view.parts:
        readers = frozenset() if may_fail(p) else view.readers(p)
        if readers == {1} and not _is_full(plan):
            right.append(view.local(p, 1))
        elif readers == {0} and isinstance(plan, SemiJoin) and not plan.anti:
            left.append(p)
        else:
            rest.append(p)
    if not left and not right:
        return plan
    return replace(
        plan,
        left=_below(plan.left, tuple(left)) if left else plan.left,
        right=_below(plan.right, tuple(right)) if right else plan.right,
        condition=condition(rest),
    )


def _is_full(plan: Plan) -> bool:
    return isinstance(plan, OuterJoin) and plan.full


def _push_filter(plan: Filter) -> Plan:
    inner, parts = plan.input, conjuncts(plan.predicate)
    match inner:
        case Filter():
            return filtered(inner, parts)
        case Project():
            if substitution_grows(parts, inner.exprs):
                return plan
            below = tuple(substitute(p, inner.exprs) for p in parts)
            return Project(_below(inner.input, below), inner.exprs, inner.schema)
        case UnionAll():
            return replace(inner, inputs=tuple(_below(i, parts) for i in inner.inputs))
        case Keep():
            return Keep(_below(inner.input, parts))
        case Minus():
            below, above = _split(parts, frozenset(range(len(inner.schema))), True)
            if not below:
                return plan
            pushed: Plan = Minus(_below(inner.input, below), _below(inner.part, below))
            return Filter(pushed, conjunction(above)) if above else pushed
        case Retain():
            return Retain(_below(inner.input, parts))
        case Join():
            own = conjuncts(inner.predicate)
            return _push_into_join(Join(inner.inputs, conjunction(own + parts)))
        case Aggregate():
            return _push_into_aggregate(plan, inner, parts)
        case OuterJoin(full=False) | SemiJoin() | MarkJoin():
            own_columns = frozenset(range(len(inner.left.schema)))
            below, above = _split(parts, own_columns, True)
            if not below:
                return plan
            pushed = replace(inner, left=_below(inner.left, below))
            return Filter(pushed, conjunction(above)) if above else pushed
        case Apply() | Repeat() | Explode() | TopK() | Window():
            by_partition = isinstance(inner, (TopK, Window))
            every = range(len(inner.input.schema))
            columns = inner.partition if isinstance(inner, (TopK, Window)) else every
            below, above = _split(parts, frozenset(columns), by_partition)
            if not below:
                return plan
            pushed = replace(inner, input=_below(inner.input, below))
            return Filter(pushed, conjunction(above)) if above else pushed
        case _:
            return plan


def _split(
    parts: tuple[Expr, ...], columns: frozenset[int], safe_only: bool
) -> tuple[tuple[Expr, ...], tuple[Expr, ...]]:
    """Conjuncts that may go below a node, which read `columns` alone, and those that stay."""
    below: list[Expr] = []
    above: list[Expr] = []
    for p in parts:
        used = columns_used(p)
        if used and used <= columns and not (may_fail(p) and (safe_only or above)):
            below.append(p)
        else:
            above.append(p)
    return tuple(below), tuple(above)


def _below(plan: Plan, predicates: tuple[Expr, ...]) -> Plan:
    """A new filter on `plan`, pushed as far as it goes at once."""
    result = filtered(plan, predicates)
    return _push(result) if isinstance(result, Filter) and result is not plan else result


def _push_into_join(join: Join) -> Plan:
    view = JoinView.of(join)
    single: dict[int, list[Expr]] = {}
    rest = []
    for p in view.parts:
        readers = view.readers(p)
        if len(readers) == 1 and not may_fail(p):
            (i,) = readers
            single.setdefault(i, []).append(view.local(p, i))
        else:
            rest.append(p)
    if not single:
        return join
    inputs = tuple(
        _below(x, tuple(single[i])) if i in single else x for i, x in enumerate(join.inputs)
    )
    return Join(inputs, condition(rest))


def _push_into_aggregate(plan: Filter, inner: Aggregate, parts: tuple[Expr, ...]) -> Plan:
    keys = frozenset(range(len(inner.keys)))
    below: list[Expr] = []
    above: list[Expr] = []
    for p in parts:
        used = columns_used(p)
        if used and used <= keys and not (may_fail(p) and above):
            below.append(substitute(p, inner.keys))
        else:
            above.append(p)
    if not below:
        return plan
    pushed = Aggregate(
        _below(inner.input, tuple(below)), inner.keys, inner.aggregates, inner.schema
    )
    return Filter(pushed, conjunction(tuple(above))) if above else pushed
