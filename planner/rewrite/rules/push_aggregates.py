"""An aggregate of the right side of a left join is computed before the join.

    Aggregate[l.k; count(r.x)](LeftJoin[l.a = r.b](l, r))             k: a unique key of l
        ->  Project[l.k, coalesce(n, 0)](LeftJoin[l.a = b](l, Aggregate[r.b; count(r.x) AS n](r)))

Each row of l is a group by itself, and its rows of r are those of one value of b. So r is added up
by b, which the left join has to keep anyway to tell which rows of l have a match; there is no
second sum by k, and no index to look r up by b.

Law: only for aggregates that cannot fail (counts, MIN, MAX, ANY_VALUE of plain columns), as rows of
r are aggregated that no row of l meets; equalities of plain columns alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from planner.analysis.equality import Link, as_link, equality
from planner.analysis.join_view import JoinView
from planner.analysis.keys import TableKey, matches_once
from planner.calculus.algebra import (
    Aggregate,
    AggregateCall,
    OuterJoin,
    Plan,
    Project,
    identity,
)
from planner.calculus.expr import Call, Column, Expr, Literal, conjunction
from planner.calculus.types import BIGINT, Field
from planner.calculus.visit import transform

#: Aggregates that cannot fail, and what they are for a row of l without a match.
_OF_NO_MATCH = {"count": 0, "count_rows": 1, "min": None, "max": None, "any_value": None}


def apply(plan: Plan, table_key: TableKey) -> Plan:
    return transform(plan, lambda p: _push(p, table_key))


@dataclass(frozen=True, slots=True)
class _Shape:
    """An aggregate over a left join: positions of its keys, and of each call's argument, in the
    join; the pairs (column of left, column of right) that are equal."""

    join: OuterJoin
    keys: tuple[int, ...]
    args: tuple[int | None, ...]
    pairs: tuple[Link, ...]


def _push(plan: Plan, table_key: TableKey) -> Plan:
    if not isinstance(plan, Aggregate):
        return plan
    shape = _shape(plan)
    if shape is None or not matches_once(shape.join.left, frozenset(shape.keys), table_key):
        return plan
    left, right = shape.join.left, shape.join.right
    width = len(left.schema)
    columns = identity(right.schema)
    keys = tuple(columns[p.right.index - width] for p in shape.pairs)
    calls = tuple(
        replace(c, arg=None if a is None else columns[a - width])
        for c, a in zip(plan.aggregates, shape.args, strict=True)
    )
    fields = tuple(
        [Field(k.name, k.type, k.nullable) for k in keys]
        + [
            Field(f.name, c.type, _nullable(c))
            for f, c in zip(plan.schema[len(plan.keys) :], calls, strict=True)
        ]
    )
    counted = Aggregate(right, keys, calls, fields)
    of_right = identity(fields, width)
    condition = conjunction(
        tuple(equality(p.left, k, p.null_safe) for p, k in zip(shape.pairs, of_right, strict=False))
    )
    joined = OuterJoin(left, counted, False, condition)
    every = identity(joined.schema)
    found = every[width + len(keys) :]
    exprs = (
        *(every[k] for k in shape.keys),
        *(_padded(e, c) for e, c in zip(found, calls, strict=True)),
    )
    return Project(joined, exprs, plan.schema)


def _shape(plan: Aggregate) -> _Shape | None:
    below, outputs = plan.input, identity(plan.input.schema)
    if isinstance(below, Project):
        plain = [e for e in below.exprs if isinstance(e, Column)]
        if len(plain) < len(below.exprs):
            return None
        below, outputs = below.input, tuple(plain)
    if not isinstance(below, OuterJoin) or below.full or below.condition is None:
        return None
    width = len(below.left.schema)
    keys = [outputs[k.index].index for k in plan.keys if isinstance(k, Column)]
    if len(keys) < len(plan.keys) or not keys or max(keys) >= width:
        return None
    args: list[int | None] = []
    for call in plan.aggregates:
        if call.function not in _OF_NO_MATCH or call.distinct:
            return None
        if call.arg is None:
            args.append(None)
        elif isinstance(call.arg, Column) and outputs[call.arg.index].index >= width:
            args.append(outputs[call.arg.index].index)
        else:
            return None
    view = JoinView.of(below)
    pairs = [_pair(view, c) for c in view.parts]
    known = tuple(p for p in pairs if p is not None)
    if len(known) < len(pairs):
        return None
    return _Shape(below, tuple(keys), tuple(args), known)


def _pair(view: JoinView, predicate: Expr) -> Link | None:
    """The equality of a column of left and one of right, in this order."""
    link = as_link(predicate)
    if link is None or view.linked(predicate) is None:
        return None
    return link if view.home[link.left.index] == 0 else Link(link.right, link.left, link.null_safe)


def _nullable(call: AggregateCall) -> bool:
    """Whether the aggregate of a group of rows of r, one at least, may be NULL."""
    return call.function not in ("count", "count_rows") and (call.arg is None or call.arg.nullable)


def _padded(found: Expr, call: AggregateCall) -> Expr:
    """The aggregate for a row of l: that of its rows of r, or of none."""
    value = _OF_NO_MATCH[call.function]
    if value is None:
        return found
    return Call("coalesce", (found, Literal(value, BIGINT)), BIGINT, False)
