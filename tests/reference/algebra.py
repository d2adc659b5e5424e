"""The algebra by its definition: slow and obvious, over multisets of Python tuples."""

from __future__ import annotations

import itertools
import operator
from collections import Counter
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from planner.calculus.algebra import (
    RECOMPUTED,
    Aggregate,
    AggregateCall,
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
    Scan,
    SemiJoin,
    SingleRow,
    Threshold,
    TopK,
    UnionAll,
    Values,
    Window,
    identity,
    inputs,
)
from planner.calculus.expr import Call, Expr, Literal, Outer, conjunction, conjuncts, transform
from planner.calculus.types import BOOLEAN, DecimalType, IntegerType
from planner.calculus.visit import with_expressions, with_inputs
from tests.reference.group_values import group_value
from tests.reference.scalar import Row, RowError, fit, passes, sort_rows, value
from tests.reference.windows import windowed

Tables = Mapping[str, list[Row]]


def rows(plan: Plan, tables: Tables) -> Counter[Row]:
    """The plan's result. Raises RowError where a row fails."""
    return Counter(_rows(plan, tables))


def _rows(plan: Plan, tables: Tables) -> list[Row]:
    match plan:
        case Scan():
            return tables[plan.relation]
        case Filter():
            return [r for r in _rows(plan.input, tables) if _keeps(plan.predicate, r)]
        case Project():
            return [tuple(value(e, r) for e in plan.exprs) for r in _rows(plan.input, tables)]
        case Join():
            parts = [_rows(i, tables) for i in plan.inputs]
            product = [sum(p, ()) for p in itertools.product(*parts)]
            return [r for r in product if plan.predicate is None or _keeps(plan.predicate, r)]
        case Aggregate():
            return _aggregate(plan, _rows(plan.input, tables))
        case UnionAll():
            return [r for i in plan.inputs for r in _rows(i, tables)]
        case Minus():
            return _minus(plan, tables)
        case Keep():
            return _rows(plan.input, tables)
        case TopK():
            return [r for g in _groups(plan.input, plan.partition, tables) for r in _top(plan, g)]
        case Window():
            return _windowed(plan, _rows(plan.input, tables))
        case Values():
            return [tuple(v.value for v in row) for row in plan.rows]
        case Explode():
            nothing = [(None, None)] if plan.outer else []
            return [
                (*r, *pair)
                for r in _rows(plan.input, tables)
                for pair in list(enumerate(r[plan.array] or ())) or nothing
            ]
        case Repeat():
            return [r for r in _rows(plan.input, tables) for _ in range(r[plan.count])]
        case OuterJoin():
            return _outer_join(plan, tables)
        case SemiJoin():
            return [r for r, m in _marked(plan, tables) if m != plan.anti]
        case MarkJoin():
            return [(*r, m) for r, m in _marked(plan, tables)]
        case SingleRow():
            groups = _groups(plan.input, plan.keys, tables)
            if any(len(g) > 1 for g in groups):
                raise RowError("more than one row")
            return [r for g in groups for r in g]
        case Threshold():
            bound = _rows(plan.bound, tables)
            return [r for r in _rows(plan.input, tables) if _passes(plan, r, bound)]
        case Apply() if plan.is_lateral:
            nothing = [(None,) * len(plan.subquery.schema)] if plan.kind == "left" else []
            return [
                (*r, *s)
                for r in _rows(plan.input, tables)
                for s in _rows(_bound(plan.subquery, r, 1), tables) or nothing
            ]
        case Apply():
            return [(*r, _applied(plan, r, tables)) for r in _rows(plan.input, tables)]


def _minus(plan: Minus, tables: Tables) -> list[Row]:
    whole, part = (Counter(_rows(i, tables)) for i in (plan.input, plan.part))
    assert part <= whole, "what is taken away is a part of what it is taken from"
    return list((whole - part).elements())


def _groups(plan: Plan, keys: tuple[int, ...], tables: Tables) -> list[list[Row]]:
    groups: dict[Row, list[Row]] = {}
    for r in _rows(plan, tables):
        groups.setdefault(tuple(r[k] for k in keys), []).append(r)
    return list(groups.values())


def _top(plan: TopK, below: list[Row]) -> list[Row]:
    keys = [(k.column, k.descending, k.nulls_first) for k in plan.order]
    keys += [(c, False, True) for c in plan.ties]
    return sort_rows(below, tuple(keys))[plan.offset : plan.offset + plan.limit]


def _windowed(plan: Window, below: list[Row]) -> list[Row]:
    columns = identity(plan.input.schema)

    def aggregate(number: int, members: list[Row]) -> Any:
        call = plan.calls[number]
        args = tuple(columns[c] for c in call.args)
        first = args[0] if args else None
        made = AggregateCall(
            call.function, first, call.type, True, False, args[1:], call.order, call.parameters
        )
        return _call(made, members)

    found = windowed(below, plan.partition, plan.order, plan.ties, plan.calls, aggregate)
    return [(*r, *values) for r, values in found]


def _meet(condition: Expr | None, left: Row, right: Row) -> bool:
    return condition is None or _keeps(condition, (*left, *right))


def _outer_join(plan: OuterJoin, tables: Tables) -> list[Row]:
    left, right = _rows(plan.left, tables), _rows(plan.right, tables)
    pairs = [(a, b) for a in left for b in right if _meet(plan.condition, a, b)]
    result = [(*a, *b) for a, b in pairs]
    found, met = {a for a, _ in pairs}, {b for _, b in pairs}
    result += [(*a, *(None for _ in plan.right.schema)) for a in left if a not in found]
    if plan.full:
        result += [(*(None for _ in plan.left.schema), *b) for b in right if b not in met]
    return result


def _marked(plan: SemiJoin | MarkJoin, tables: Tables) -> list[tuple[Row, bool]]:
    right = _rows(plan.right, tables)
    return [(a, any(_meet(plan.condition, a, b) for b in right)) for a in _rows(plan.left, tables)]


def _passes(plan: Threshold, row: Row, bound: list[Row]) -> bool:
    for b in bound:
        pairs = zip(plan.partition, plan.keys, strict=True)
        if all(row[p] is not None and row[p] == b[k] for p, k in pairs):
            left, right = row[plan.column], b[plan.scalar]
            if left is None or right is None:
                return False
            return bool(getattr(operator, plan.comparison)(left, right))
    return False


def _applied(plan: Apply, row: Row, tables: Tables) -> Any:
    """The value of a subquery for one row of the outer query, by nested loops."""
    found = _rows(_bound(plan.subquery, row, 1), tables)
    match plan.kind:
        case "exists":
            return bool(found)
        case "scalar":
            if len(found) > 1:
                raise RowError("more than one row")
            return found[0][0] if found else None
        case _:
            operands = tuple(Literal(value(e, row), e.type) for e in plan.operands)
            tests = [_comparison(plan, operands, other) for other in found]
            return True if True in tests else None if None in tests else False


def _comparison(plan: Apply, operands: tuple[Literal, ...], other: Row) -> Any:
    """One row compared: AND of the columns."""
    calls: list[Expr] = [
        Call(plan.comparison, (o, Literal(v, o.type)), BOOLEAN, True)
        for o, v in zip(operands, other, strict=True)
    ]
    return value(conjunction(tuple(calls)), ())


def _bound(plan: Plan, row: Row, depth: int) -> Plan:
    """The subquery for one row: columns of the row `depth` subqueries out are constants."""

    def change(e: Expr) -> Expr:
        return Literal(row[e.index], e.type) if isinstance(e, Outer) and e.depth == depth else e

    below = tuple(
        _bound(i, row, depth + (isinstance(plan, Apply) and i is plan.subquery))
        for i in inputs(plan)
    )
    return with_expressions(with_inputs(plan, below), lambda x: transform(x, change))


def _keeps(predicate: Expr, row: Row) -> bool:
    """Conjuncts in turn, each only if those before it are TRUE."""
    return all(passes(p, row) for p in conjuncts(predicate))


def _aggregate(plan: Aggregate, below: list[Row]) -> list[Row]:
    groups: dict[Row, list[Row]] = {} if plan.keys else {(): []}
    for r in below:
        groups.setdefault(tuple(value(k, r) for k in plan.keys), []).append(r)
    return [
        key + tuple(_call(a, members) for a in plan.aggregates) for key, members in groups.items()
    ]


def _call(call: AggregateCall, members: list[Row]) -> Any:
    if call.arg is None:
        return len(members)
    if call.function in RECOMPUTED:
        rows = [tuple(value(a, r) for a in call.args) for r in members]
        return group_value(call.function, rows, call.order, call.parameters, call.distinct)
    values = [v for v in (value(call.arg, r) for r in members) if v is not None]
    if call.distinct:
        values = list(set(values))
    if call.function == "count":
        return len(values)
    if not values:
        return None
    if call.function in ("min", "any_value"):
        return min(values)
    if call.function == "max":
        return max(values)
    total = sum(map(Fraction, values), Fraction(0))
    if call.function == "sum":
        return fit(total, call.type)
    if isinstance(call.arg.type, IntegerType) and not isinstance(call.type, DecimalType):
        return float(total) / len(values)
    return fit(total / len(values), call.type)
