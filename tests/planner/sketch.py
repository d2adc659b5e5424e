"""Bound plans as short text, one node a line, for tables of expected plans."""

from __future__ import annotations

from collections.abc import Iterator

from planner.calculus import algebra
from planner.calculus.algebra import (
    Aggregate,
    AggregateCall,
    Apply,
    Explode,
    Filter,
    Join,
    MarkJoin,
    OuterJoin,
    Plan,
    Project,
    Repeat,
    Scan,
    SemiJoin,
    SingleRow,
    SortKey,
    TopK,
    UnionAll,
    Values,
    Window,
    WindowCall,
)
from planner.calculus.expr import Call, Column, Expr, Literal, Outer


def sketch(plan: Plan, order: tuple[SortKey, ...] = ()) -> str:
    """The plan, its schema, and the order in which its rows are shown."""
    lines = list(_lines(plan, 0))
    lines.append("=> " + ", ".join(map(str, plan.schema)))
    if order:
        lines.append("order " + _order(order))
    return "\n".join(lines)


def _lines(plan: Plan, depth: int) -> Iterator[str]:
    yield "  " * depth + _head(plan).rstrip()
    for child in algebra.inputs(plan):
        yield from _lines(child, depth + 1)


def _head(plan: Plan) -> str:
    match plan:
        case Scan():
            return f"Scan {plan.relation}"
        case Filter():
            return f"Filter {_expr(plan.predicate)}"
        case Project():
            return "Project " + ", ".join(_expr(e) for e in plan.exprs)
        case Join():
            return "Join" if plan.predicate is None else f"Join {_expr(plan.predicate)}"
        case Aggregate():
            keys = ", ".join(_expr(k) for k in plan.keys)
            calls = [_call(c) for c in plan.aggregates]
            return f"Aggregate [{keys}] {', '.join(calls)}"
        case UnionAll():
            return "UnionAll"
        case TopK():
            ties = ",".join(map(str, plan.ties))
            return f"TopK [{_order(plan.order)}] ties {ties} limit {plan.limit} + {plan.offset}"
        case Window():
            ties = ",".join(map(str, plan.ties))
            each = f" each {','.join(map(str, plan.partition))}" if plan.partition else ""
            calls = ", ".join(_window_call(c) for c in plan.calls)
            return f"Window [{_order(plan.order)}] ties {ties}{each}: {calls}"
        case Values():
            rows = ["(" + ", ".join(_expr(v) for v in row) + ")" for row in plan.rows]
            return f"Values {', '.join(rows)}"
        case OuterJoin():
            return f"{'Full' if plan.full else 'Left'}Join {_condition(plan.condition)}"
        case SemiJoin():
            return f"{'Anti' if plan.anti else 'Semi'}Join {_condition(plan.condition)}"
        case MarkJoin():
            return f"MarkJoin {_condition(plan.condition)}"
        case Explode():
            return f"Explode #{plan.array}{' outer' if plan.outer else ''}"
        case Repeat():
            return f"Repeat #{plan.count}"
        case SingleRow():
            return f"SingleRow [{', '.join(map(str, plan.keys))}]"
        case Apply(kind="any"):
            return f"Apply {plan.comparison} any ({', '.join(map(_expr, plan.operands))})"
        case Apply():
            return f"Apply {plan.kind}"
        case _:
            raise AssertionError(f"the binder makes no {type(plan).__name__}")


def _condition(condition: Expr | None) -> str:
    return "" if condition is None else _expr(condition)


def _call(call: AggregateCall) -> str:
    args = ", ".join(_expr(a) for a in (*call.args, *call.parameters))
    order = f" by {_order(call.order)}" if call.order else ""
    return f"{call.function}({'distinct ' if call.distinct else ''}{args}{order}):{call.type}"


def _window_call(call: WindowCall) -> str:
    args = ", ".join([*(f"#{a}" for a in call.args), *map(_expr, call.parameters)])
    ends = [f"{e.kind}{e.offset if e.kind in ('rows', 'value') else ''}"
            for e in (call.frame.start, call.frame.end)]  # fmt: skip
    nulls = " ignore nulls" if call.ignore_nulls else ""
    order = f" by {_order(call.order)}" if call.order else ""
    return f"{call.function}({args}{order}){nulls} {ends[0]}..{ends[1]}:{call.type}"


def _order(order: tuple[SortKey, ...]) -> str:
    return ", ".join(
        f"#{k.column} {'desc' if k.descending else 'asc'}"
        f" nulls {'first' if k.nulls_first else 'last'}"
        for k in order
    )


def _expr(expr: Expr) -> str:
    match expr:
        case Column():
            return f"#{expr.index}"
        case Outer():
            return f"outer{expr.depth}#{expr.index}"
        case Literal():
            return f"{str(expr.value) if expr.value is not None else 'NULL'}:{expr.type}"
        case Call():
            args = ", ".join(_expr(a) for a in expr.args)
            return f"{expr.function}({args}):{expr.type}{'?' if expr.nullable else ''}"
