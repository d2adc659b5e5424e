"""Move predicates towards the scans, merging filters on the way.

Law (p a conjunct, in the order in which the query evaluates them):

    below           cannot fail                    may fail
    Filter          merges, after its conjuncts    merges, after its conjuncts
    Project         yes, columns substituted       yes: it meets the same rows
    UnionAll        yes, into every input          yes: it meets the same rows
    Join            into the one input that it     no: a join removes rows; it joins the join's
                    reads, else into the join's    predicate, at the end
                    predicate
    Aggregate       if it reads keys alone, and    only if also all conjuncts before it go
                    at least one (a constant on
                    a global aggregate stays)
    TopK            no: it changes which rows are first
    Scan            ends here

A conjunct that may fail never overtakes another conjunct. One that cannot may be evaluated before
it, which can only keep rows from failing. Not done where substitution would copy much
(expr.substitution_grows).
"""

from __future__ import annotations

from planner.algebra import Aggregate, Filter, Join, Plan, Project, UnionAll
from planner.expr import (
    Expr,
    columns_used,
    conjunction,
    conjuncts,
    may_fail,
    remap,
    substitute,
    substitution_grows,
)
from planner.visit import transform


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
            return _push_into_join(plan, conjuncts(predicate))
        case _:
            return plan


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
            return UnionAll(tuple(_below(i, parts) for i in inner.inputs), inner.schema)
        case Join():
            own = () if inner.predicate is None else conjuncts(inner.predicate)
            return _push_into_join(Join(inner.inputs, conjunction(own + parts)), own + parts)
        case Aggregate():
            return _push_into_aggregate(plan, inner, parts)
        case _:
            return plan


def _below(plan: Plan, predicates: tuple[Expr, ...]) -> Plan:
    """A new filter on `plan`, pushed as far as it goes at once."""
    result = filtered(plan, predicates)
    return _push(result) if isinstance(result, Filter) and result is not plan else result


def _push_into_join(join: Join, parts: tuple[Expr, ...]) -> Plan:
    start, home, positions = 0, {}, {}
    for i, schema in enumerate(x.schema for x in join.inputs):
        for k in range(len(schema)):
            home[start + k], positions[start + k] = i, k
        start += len(schema)
    single: dict[int, list[Expr]] = {}
    rest = []
    for p in parts:
        readers = {home[c] for c in columns_used(p)}
        if len(readers) == 1 and not may_fail(p):
            single.setdefault(readers.pop(), []).append(remap(p, positions))
        else:
            rest.append(p)
    if not single:
        return join
    inputs = tuple(
        _below(x, tuple(single[i])) if i in single else x for i, x in enumerate(join.inputs)
    )
    return Join(inputs, conjunction(tuple(rest)) if rest else None)


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
