"""The algebra by its definition: slow and obvious, over multisets of Python tuples."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from planner.algebra import (
    Aggregate,
    AggregateCall,
    Filter,
    Join,
    Plan,
    Project,
    Scan,
    TopK,
    UnionAll,
)
from planner.expr import Expr, conjuncts
from planner.types import DecimalType, IntegerType
from tests.reference.scalar import Row, fit, passes, sort_rows, value

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
        case TopK():
            keys = [(k.column, k.descending, k.nulls_first) for k in plan.order]
            keys += [(c, False, True) for c in plan.ties]
            ordered = sort_rows(_rows(plan.input, tables), tuple(keys))
            return ordered[plan.offset : plan.offset + plan.limit]


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
    values = [v for v in (value(call.arg, r) for r in members) if v is not None]
    if call.function == "count":
        return len(values)
    if not values:
        return None
    total = sum(map(Fraction, values), Fraction(0))
    if call.function == "sum":
        return fit(total, call.type)
    if isinstance(call.arg.type, IntegerType) and not isinstance(call.type, DecimalType):
        return float(total) / len(values)
    return fit(total / len(values), call.type)
