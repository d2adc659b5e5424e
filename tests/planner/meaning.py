"""Bound plans by their definition: what each node means, row by row, subqueries included.

A subquery is evaluated anew for each row around it, with that row's values as literals in place of
its outer references.
"""

from __future__ import annotations

import functools
import itertools
import statistics
from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Any

from planner.bind.outer import rewrite
from planner.calculus.algebra import (
    RECOMPUTED,
    Aggregate,
    AggregateCall,
    Apply,
    Explode,
    Filter,
    Join,
    OuterJoin,
    Plan,
    Project,
    Repeat,
    Scan,
    SemiJoin,
    TopK,
    UnionAll,
    Values,
    Window,
    identity,
)
from planner.calculus.expr import Call, Expr, Literal, Outer, transform
from planner.calculus.types import BOOLEAN, DecimalType, FloatType, IntegerType, SqlType
from tests.reference.expressions import evaluate, order, to_scale
from tests.reference.group_values import group_value
from tests.reference.windows import windowed

Row = tuple[Any, ...]
Tables = Mapping[str, list[Row]]


class TooManyRows(Exception):
    """A scalar subquery with more than one row."""


def rows(plan: Plan, tables: Tables) -> list[Row]:
    """The plan's result. Raises: Failure where a row fails, TooManyRows."""
    below = functools.partial(rows, tables=tables)
    match plan:
        case Scan():
            return tables[plan.relation]
        case Values():
            return [tuple(evaluate(v, ()) for v in row) for row in plan.rows]
        case Filter():
            return [r for r in below(plan.input) if evaluate(plan.predicate, r)]
        case Project():
            return [tuple(evaluate(e, r) for e in plan.exprs) for r in below(plan.input)]
        case Join():
            product = itertools.product(*map(below, plan.inputs))
            return [r for r in (sum(p, ()) for p in product) if _holds(plan.predicate, r)]
        case OuterJoin():
            return _outer_join(plan, below(plan.left), below(plan.right))
        case SemiJoin():
            right = below(plan.right)
            return [
                r
                for r in below(plan.left)
                if any(_holds(plan.condition, r + s) for s in right) is not plan.anti
            ]
        case Aggregate():
            return _aggregate(plan, below(plan.input))
        case UnionAll():
            return [r for i in plan.inputs for r in below(i)]
        case Explode():
            nothing = [(None, None)] if plan.outer else []
            return [
                (*r, *pair)
                for r in below(plan.input)
                for pair in list(enumerate(r[plan.array] or ())) or nothing
            ]
        case Repeat():
            return [r for r in below(plan.input) for _ in range(r[plan.count])]
        case TopK():
            found = below(plan.input)
            for column in reversed(plan.ties):
                found.sort(key=lambda r: _sortable(r[column], True))
            for key in reversed(plan.order):
                first = key.nulls_first is not key.descending
                found.sort(key=lambda r: _sortable(r[key.column], first), reverse=key.descending)
            return found[plan.offset : plan.offset + plan.limit]
        case Window():
            return _windowed(plan, below(plan.input))
        case Apply() if plan.is_lateral:
            nothing = [(None,) * len(plan.subquery.schema)] if plan.kind == "left" else []
            return [
                (*r, *s)
                for r in below(plan.input)
                for s in rows(_seen_from(plan.subquery, r), tables) or nothing
            ]
        case Apply():
            return [(*r, _applied(plan, r, tables)) for r in below(plan.input)]
        case _:
            raise AssertionError(f"the binder makes no {type(plan).__name__}")


def _holds(condition: Expr | None, row: Row) -> bool:
    return condition is None or bool(evaluate(condition, row))


def _sortable(value: Any, nulls_first: bool) -> tuple[int, Any]:
    return (0 if nulls_first else 2, 0) if value is None else (1, order(value))


def _outer_join(plan: OuterJoin, left: list[Row], right: list[Row]) -> list[Row]:
    padding = (None,) * len(plan.right.schema)
    result, matched = [], set()
    for r in left:
        matches = [i for i, s in enumerate(right) if _holds(plan.condition, r + s)]
        matched.update(matches)
        result += [r + right[i] for i in matches] or [r + padding]
    if plan.full:
        alone = (None,) * len(plan.left.schema)
        result += [alone + s for i, s in enumerate(right) if i not in matched]
    return result


def _seen_from(subquery: Plan, row: Row) -> Plan:
    """The subquery for one row around it."""

    def literal(expr: Expr, depth: int) -> Expr:
        return transform(expr, lambda e: _bound(e, depth, row))

    return rewrite(subquery, literal)


def _applied(plan: Apply, row: Row, tables: Tables) -> Any:
    found = rows(_seen_from(plan.subquery, row), tables)
    if plan.kind == "exists":
        return bool(found)
    if plan.kind == "scalar":
        if len(found) > 1:
            raise TooManyRows
        return found[0][0] if found else None
    operands = tuple(evaluate(o, row) for o in plan.operands)
    kinds = [o.type for o in plan.operands]
    results = [_compared(plan.comparison, operands, r, kinds) for r in found]
    return True if True in results else None if None in results else False


def _compared(comparison: str, left: Row, right: Row, kinds: list[SqlType]) -> bool | None:
    """Of several columns, all are equal."""
    pairs = zip(left, right, kinds, strict=True)
    single = [
        evaluate(Call(comparison, (_constant(a, k), _constant(b, k)), BOOLEAN, True), ())
        for a, b, k in pairs
    ]
    return False if False in single else None if None in single else True


def _bound(expr: Expr, depth: int, row: Row) -> Expr:
    """An outer reference: a literal, or one subquery nearer to what it means."""
    if not isinstance(expr, Outer) or expr.depth < depth:
        return expr
    if expr.depth > depth:
        return replace(expr, depth=expr.depth - 1)
    return _constant(row[expr.index], expr.type)


def _constant(value: Any, kind: SqlType) -> Literal:
    return Literal(value, kind)


def _aggregate(plan: Aggregate, found: list[Row]) -> list[Row]:
    groups: dict[Row, tuple[Row, list[Row]]] = {} if plan.keys else {(): ((), [])}
    for r in found:
        key = tuple(evaluate(k, r) for k in plan.keys)
        same = tuple(None if v is None else order(v) for v in key)
        groups.setdefault(same, (key, []))[1].append(r)
    return [
        key + tuple(_call(a, members) for a in plan.aggregates) for key, members in groups.values()
    ]


def _windowed(plan: Window, found: list[Row]) -> list[Row]:
    columns = identity(plan.input.schema)

    def aggregate(number: int, members: list[Row]) -> Any:
        call = plan.calls[number]
        args = tuple(columns[c] for c in call.args)
        made = AggregateCall(
            call.function,
            args[0] if args else None,
            call.type,
            True,
            False,
            args[1:],
            call.order,
            call.parameters,
        )
        return _call(made, members)

    made = windowed(found, plan.partition, plan.order, plan.ties, plan.calls, aggregate)
    return [(*r, *values) for r, values in made]


def _call(call: AggregateCall, members: list[Row]) -> Any:
    if call.arg is None:
        return len(members)
    if call.function in RECOMPUTED:
        rows = [tuple(evaluate(a, r) for a in call.args) for r in members]
        return group_value(call.function, rows, call.order, call.parameters, call.distinct)
    values = [v for v in (evaluate(call.arg, r) for r in members) if v is not None]
    if call.distinct:
        values = list({order(v): v for v in values}.values())
    match call.function:
        case "count":
            return len(values)
        case "min" | "any_value":
            return min(values, key=order, default=None)
        case "max":
            return max(values, key=order, default=None)
        case "stddev_samp":
            return float(statistics.stdev(values)) if len(values) > 1 else None
        case "var_samp":
            return float(statistics.variance(values)) if len(values) > 1 else None
        case "stddev_pop":
            return float(statistics.pstdev(values)) if values else None
        case "var_pop":
            return float(statistics.pvariance(values)) if values else None
    if not values:
        return None
    total = sum(values)
    if call.function == "sum":
        return total
    match call.type:
        case DecimalType() as kind:
            return to_scale(Decimal(total) / len(values), kind)
        case IntegerType() | FloatType():
            return float(total) / len(values)
        case other:
            raise AssertionError(other)
