"""Bound plans as short text, one node a line, for tables of expected plans."""

from __future__ import annotations

from collections.abc import Iterator

from planner import algebra
from planner.algebra import Aggregate, Filter, Join, Plan, Project, Scan, SortKey, TopK, UnionAll
from planner.expr import Call, Column, Expr, Literal


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
            calls = [
                f"{c.function}({'' if c.arg is None else _expr(c.arg)}):{c.type}"
                for c in plan.aggregates
            ]
            return f"Aggregate [{keys}] {', '.join(calls)}"
        case UnionAll():
            return "UnionAll"
        case TopK():
            ties = ",".join(map(str, plan.ties))
            return f"TopK [{_order(plan.order)}] ties {ties} limit {plan.limit} + {plan.offset}"


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
        case Literal():
            return f"{str(expr.value) if expr.value is not None else 'NULL'}:{expr.type}"
        case Call():
            args = ", ".join(_expr(a) for a in expr.args)
            return f"{expr.function}({args}):{expr.type}{'?' if expr.nullable else ''}"
