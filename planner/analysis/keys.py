"""Unique keys: sets of columns on which no two rows of a collection agree.

NULL counts as a value here, as in GROUP BY. A key is a proof; an empty tuple of keys claims
nothing; the empty key says that there is at most one row.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

from typing_extensions import assert_never

from planner import dataflow
from planner.algebra import Aggregate, Filter, Join, Plan, Project, Scan, TopK, UnionAll
from planner.expr import Column, Expr

Key = tuple[int, ...]

#: More combinations than this for a join's keys are of no use to anybody.
_MOST_KEYS = 8


def plan_keys(plan: Plan) -> tuple[Key, ...]:
    """Unique keys of an algebra plan. Tables' own keys are not known to the algebra."""
    match plan:
        case Scan() | UnionAll():
            return ()
        case Filter() | TopK():
            return plan_keys(plan.input)
        case Project():
            return _projected(plan_keys(plan.input), plan.exprs)
        case Join():
            widths = [len(i.schema) for i in plan.inputs]
            return _joined([plan_keys(i) for i in plan.inputs], widths)
        case Aggregate():
            return (tuple(range(len(plan.keys))),)
        case _:
            assert_never(plan)


def node_keys(
    node: dataflow.Node, primary_key: Callable[[dataflow.Source], Key | None]
) -> tuple[Key, ...]:
    """Unique keys of a dataflow node; `primary_key` tells those of tables."""
    match node:
        case dataflow.Source():
            key = primary_key(node)
            return () if key is None else (key,)
        case dataflow.Reduce():
            return (tuple(range(len(node.keys))),)
        case dataflow.Store():
            return node_keys(node.input, primary_key)
        case dataflow.TopK():
            return node_keys(node.index.relation, primary_key)
        case dataflow.Map():
            return _projected(node_keys(node.input, primary_key), node.outputs)
        case dataflow.DeltaJoin():
            widths = [len(i.schema) for i in node.inputs]
            return _joined([node_keys(i.relation, primary_key) for i in node.inputs], widths)
        case dataflow.Union():
            return ()
        case _:
            assert_never(node)


def _projected(keys: tuple[Key, ...], exprs: tuple[Expr, ...]) -> tuple[Key, ...]:
    """The keys all of whose columns are among the outputs."""
    place: dict[int, int] = {}
    for position, e in enumerate(exprs):
        if isinstance(e, Column):
            place.setdefault(e.index, position)
    return tuple(tuple(place[c] for c in key) for key in keys if all(c in place for c in key))


def _joined(keys: list[tuple[Key, ...]], widths: list[int]) -> tuple[Key, ...]:
    """One key of each input together."""
    starts = [sum(widths[:i]) for i in range(len(widths))]
    choices = [
        [tuple(start + c for c in key) for key in some]
        for start, some in zip(starts, keys, strict=True)
    ]
    combined = (sum(parts, ()) for parts in product(*choices))
    return tuple(key for key, _ in zip(combined, range(_MOST_KEYS), strict=False))
