"""Aggregates apart that are kept in different ways; one of distinct values is over a DISTINCT.

    Aggregate[k; count(DISTINCT x), sum(y)](r)
        ->  Join[k <=> k](Aggregate[k; sum(y)](r), Aggregate[k; count(x)](Distinct[k, x](r)))
    Aggregate[k; mode(x), sum(y)](r)
        ->  Join[k <=> k](Aggregate[k; sum(y)](r), Aggregate[k; mode(x)](r))

All have a row for the same groups, and the join reads their group indexes. MIN, MAX and ANY_VALUE
do not care for copies; what recomputes a group (RECOMPUTED) tells the distinct values itself.
"""

from __future__ import annotations

from dataclasses import replace

from planner.calculus.algebra import (
    RECOMPUTED,
    Aggregate,
    AggregateCall,
    Join,
    Plan,
    Project,
    identity,
)
from planner.calculus.expr import Call, Column, Expr, conjunction
from planner.calculus.types import BOOLEAN, Field
from planner.calculus.visit import transform

_WHATEVER_COPIES = frozenset(("min", "max", "any_value"))
_RECOMPUTED = "recomputed"


def apply(plan: Plan) -> Plan:
    return transform(plan, split)


def split(plan: Plan) -> Plan:
    if not isinstance(plan, Aggregate):
        return plan
    #: What each piece computes: positions of calls, by the argument whose values are distinct.
    pieces: dict[Expr | str | None, list[int]] = {}
    for i, call in enumerate(plan.aggregates):
        pieces.setdefault(_kind(call), []).append(i)
    if set(pieces) <= {None} or set(pieces) == {_RECOMPUTED}:
        return plan
    plans = [_piece(plan, arg, positions) for arg, positions in pieces.items()]
    width = len(plan.keys)
    starts = [sum(len(p.schema) for p in plans[:i]) for i in range(len(plans))]
    at = {
        position: starts[i] + width + k
        for i, positions in enumerate(pieces.values())
        for k, position in enumerate(positions)
    }
    joined: Plan = plans[0]
    if len(plans) > 1:
        columns = tuple(c for p, start in zip(plans, starts, strict=True)
                        for c in identity(p.schema, start))  # fmt: skip
        equal = tuple(
            _same(columns[k], columns[start + k]) for start in starts[1:] for k in range(width)
        )
        joined = Join(tuple(plans), conjunction(equal) if equal else None)
    columns = identity(joined.schema)
    exprs = (*columns[:width], *(columns[at[i]] for i in range(len(plan.aggregates))))
    fields = tuple(
        Field(f.name, e.type, e.nullable) for f, e in zip(plan.schema, exprs, strict=True)
    )
    return Project(joined, exprs, fields)


def _kind(call: AggregateCall) -> Expr | str | None:
    """None for calls that one Reduce keeps, the argument of one of distinct values."""
    if call.function in RECOMPUTED:
        return _RECOMPUTED
    return call.arg if call.distinct and call.function not in _WHATEVER_COPIES else None


def _piece(plan: Aggregate, arg: Expr | str | None, positions: list[int]) -> Aggregate:
    width = len(plan.keys)
    calls = tuple(plan.aggregates[i] for i in positions)
    fields = tuple(plan.schema[width + i] for i in positions)
    if isinstance(arg, str):
        return Aggregate(plan.input, plan.keys, calls, plan.schema[:width] + fields)
    calls = tuple(replace(c, distinct=False) for c in calls)
    if arg is None:
        return Aggregate(plan.input, plan.keys, calls, plan.schema[:width] + fields)
    key_fields = plan.schema[:width]
    values = Aggregate(
        plan.input,
        (*plan.keys, arg),
        (),
        (*key_fields, Field("value", arg.type, arg.nullable)),
    )
    columns = identity(values.schema)
    moved: tuple[AggregateCall, ...] = tuple(replace(c, arg=columns[width]) for c in calls)
    return Aggregate(values, columns[:width], moved, key_fields + fields)


def _same(left: Column, right: Column) -> Expr:
    if left.nullable or right.nullable:
        return Call("eq_null_safe", (left, right), BOOLEAN, False)
    return Call("eq", (left, right), BOOLEAN, False)
