"""The first rows of each partition by their number are a top-k.

    Filter[row_number <= k](Window[row_number, …](x))  ->  Window[row_number, …](TopK[k](x))

So also for < and, with k = 1, for =; for = with a greater k the filter stays, above k rows a
partition. Legal where each call of the window is, in the first k rows, what it is among the first
k + m: row_number, rank, dense_rank, a row before (m = 0) or m behind, a frame that ends so. Others
hang on rows further behind, or on how many there are. Where nobody reads the number, the window
goes when columns are pruned. A change then costs k rows from the front, instead of its partition.
"""

from __future__ import annotations

from dataclasses import replace

from planner.algebra import Filter, Plan, TopK, Window, WindowCall
from planner.expr import Call, Column, Expr, Literal, conjunction, conjuncts
from planner.visit import transform

#: Larger partitions than this are read as a whole.
_MOST_ROWS = 1 << 20


def apply(plan: Plan) -> Plan:
    return transform(plan, _limit)


def _limit(plan: Plan) -> Plan:
    if not isinstance(plan, Filter) or not isinstance(plan.input, Window):
        return plan
    window = plan.input
    reaches = [_reach(call) for call in window.calls]
    further = max((r for r in reaches if r is not None), default=0)
    if None in reaches or not any(c.function == "row_number" for c in window.calls):
        return plan
    parts = conjuncts(plan.predicate)
    bounds = [_bound(part, window) for part in parts]
    limits = [limit for limit, _ in filter(None, bounds)]
    if not limits or not 0 <= min(limits) <= _MOST_ROWS:
        return plan
    least = min(limits)
    first = TopK(window.input, window.order, window.ties, least + further, 0, window.partition)
    rest = tuple(
        part
        for part, bound in zip(parts, bounds, strict=True)
        if bound is None or further or bound[0] != least or not (bound[1] or least <= 1)
    )
    kept: Plan = replace(window, input=first)
    return Filter(kept, conjunction(rest)) if rest else kept


def _reach(call: WindowCall) -> int | None:
    """How many rows behind its own the value may depend on; None: any number."""
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
            return max(end.offset, 0) if end.kind == "rows" else None


def _bound(part: Expr, window: Window) -> tuple[int, bool] | None:
    """The greatest row number that passes, and whether all up to it do."""
    match part:
        case Call(function=name, args=(Column(index=index), Literal(value=int(value)))):
            pass
        case Call(function=name, args=(Literal(value=int(value)), Column(index=index))):
            name = {"ge": "le", "gt": "lt", "eq": "eq"}.get(name, "")
        case _:
            return None
    width = len(window.input.schema)
    if index < width or window.calls[index - width].function != "row_number":
        return None
    match name:
        case "le":
            return value, True
        case "lt":
            return value - 1, True
        case "eq":
            return value, False
        case _:
            return None
