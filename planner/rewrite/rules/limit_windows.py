"""The first rows of each partition by their number or rank are a top-k.

    Filter[row_number <= k](Window[…](x))  ->  Window[…](TopK[k](x))
    Filter[rank <= k](Window[…](x))        ->  Window[…](SemiJoin(x, places of TopK[k](x)))
    Filter[dense_rank <= k](Window[…](x))  ->  Window[…](SemiJoin(x, TopK[k](places of x)))

A place is a value of the partition and the order; the semi-join is on both, NULL equal to NULL:
rows that tie share a place, and come together. So also for < and, with k = 1, for =; for = with a
greater
k the filter stays, above the first rows. Legal where each call of the window is, in the rows that
are left, what it is among all: row_number, rank, dense_rank, a row before or some behind, a frame
that ends so; among whole ties also a frame that ends with them. Others hang on rows further behind,
or on how many there are. Where nobody reads the number, the window goes when columns are pruned. A
change then costs k rows from the front and those that tie with it, instead of its partition.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from planner.calculus import functions
from planner.calculus.algebra import (
    Aggregate,
    Filter,
    Plan,
    Project,
    SemiJoin,
    SortKey,
    TopK,
    Window,
    WindowCall,
)
from planner.calculus.expr import Call, Column, Expr, Literal, conjunction, conjuncts
from planner.calculus.visit import transform

#: Larger partitions than this are read as a whole.
_MOST_ROWS = 1 << 20


@dataclass(frozen=True, slots=True)
class _Bound:
    """A test of a window's call: the greatest number that passes, and whether all up to it do."""

    function: str
    limit: int
    all: bool


def apply(plan: Plan) -> Plan:
    return transform(plan, _limit)


def _limit(plan: Plan) -> Plan:
    if not isinstance(plan, Filter) or not isinstance(plan.input, Window):
        return plan
    window = plan.input
    parts = conjuncts(plan.predicate)
    bounds = [_bound(part, window) for part in parts]
    for function in ("row_number", "rank", "dense_rank"):
        limits = [b.limit for b in bounds if b is not None and b.function == function]
        reaches = [_reach(call, function != "row_number") for call in window.calls]
        further = max((r for r in reaches if r is not None), default=0)
        if not limits or None in reaches or (function == "rank" and further):
            continue
        least = min(limits)
        if 0 <= least <= _MOST_ROWS:
            break
    else:
        return plan
    rest = tuple(
        part
        for part, bound in zip(parts, bounds, strict=True)
        if further
        or (
            bound != _Bound(function, least, True)
            and (bound != _Bound(function, least, False) or least > 1)
        )
    )
    kept: Plan = replace(window, input=_first(window, function, least + further))
    return Filter(kept, conjunction(rest)) if rest else kept


def _first(window: Window, function: str, count: int) -> Plan:
    """The rows of each partition of which the function is at most `count`."""
    if function == "row_number":
        return TopK(window.input, window.order, window.ties, count, 0, window.partition)
    columns = tuple(dict.fromkeys((*window.partition, *(k.column for k in window.order))))
    schema = window.input.schema
    fields = tuple(schema[c] for c in columns)
    exprs = tuple(
        Column(c, f.type, f.nullable, f.name) for c, f in zip(columns, fields, strict=True)
    )
    if function == "rank":
        first = TopK(window.input, window.order, (), count, 0, window.partition)
        places: Plan = Project(first, exprs, fields)
    else:
        at = {c: i for i, c in enumerate(columns)}
        order = tuple(SortKey(at[k.column], k.descending, k.nulls_first) for k in window.order)
        every = Aggregate(window.input, exprs, (), fields)
        places = TopK(every, order, (), count, 0, tuple(at[c] for c in window.partition))
    same = (
        functions.compare("eq_null_safe", expr, replace(expr, index=len(schema) + i))
        for i, expr in enumerate(exprs)
    )
    return SemiJoin(window.input, places, conjunction(tuple(same)), False)


def _reach(call: WindowCall, ties: bool) -> int | None:
    """How many rows behind its own the value may depend on, where all `ties` of a row are there or
    not; None: any number."""
    match call.function:
        case "row_number" | "rank" | "dense_rank":
            return 0
        case "shift":
            by = call.parameters[0].value
            assert isinstance(by, int)
            return None if by > 0 and call.ignore_nulls else max(by, 0)
        case "percent_rank" | "cume_dist" | "ntile":
            return None
        case _:
            end = call.frame.end
            if end.kind == "peers" and ties:
                return 0
            return max(end.offset, 0) if end.kind == "rows" else None


def _bound(part: Expr, window: Window) -> _Bound | None:
    match part:
        case Call(function=name, args=(Column(index=index), Literal(value=int(value)))):
            pass
        case Call(function=name, args=(Literal(value=int(value)), Column(index=index))):
            name = {"ge": "le", "gt": "lt", "eq": "eq"}.get(name, "")
        case _:
            return None
    width = len(window.input.schema)
    if index < width:
        return None
    function = window.calls[index - width].function
    match name:
        case "le":
            return _Bound(function, value, True)
        case "lt":
            return _Bound(function, value - 1, True)
        case "eq":
            return _Bound(function, value, False)
        case _:
            return None
