"""Unique keys: sets of columns on which no two rows of a collection agree.

NULL counts as a value here, as in GROUP BY. A key is a proof; an empty tuple of keys claims
nothing; the empty key says that there is at most one row.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

from typing_extensions import assert_never

from planner import dataflow
from planner.analysis.equality import Link, classes, links
from planner.calculus.algebra import (
    Aggregate,
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
    Recursive,
    RecursiveRef,
    Repeat,
    Retain,
    Scan,
    SemiJoin,
    SingleRow,
    Threshold,
    Timeline,
    TopK,
    UnionAll,
    Values,
    Window,
    identity,
)
from planner.calculus.expr import Column, Expr, Literal, conjuncts

Key = tuple[int, ...]

#: The primary key of a table, by its name.
TableKey = Callable[[str], Key | None]

#: More combinations than this for a join's keys are of no use to anybody.
_MOST_KEYS = 8


def no_table_key(relation: str) -> Key | None:
    """Where the keys of tables are not known."""
    return None


def plan_keys(plan: Plan, table_key: TableKey = no_table_key) -> tuple[Key, ...]:
    """Unique keys of an algebra plan; `table_key` tells those of tables, where they are known."""
    match plan:
        case Scan():
            key = table_key(plan.relation)
            return () if key is None else (key,)
        case Values():
            return ((),) if len(plan.rows) < 2 else ()
        case UnionAll():
            return ()
        case Filter() | Threshold() | SemiJoin() | Minus() | Keep():
            below = plan.left if isinstance(plan, SemiJoin) else plan.input
            return plan_keys(below, table_key)
        case MarkJoin():
            return plan_keys(plan.left, table_key)
        case Apply():
            return () if plan.is_lateral else plan_keys(plan.input, table_key)
        case TopK():
            one = (plan.partition,) if plan.limit <= 1 else ()
            return (*one, *plan_keys(plan.input, table_key))
        case Window():
            numbers = [i for i, c in enumerate(plan.calls) if c.function == "row_number"]
            width = len(plan.input.schema)
            own = tuple((*plan.partition, width + i) for i in numbers[:1])
            return (*own, *plan_keys(plan.input, table_key))
        case SingleRow():
            return (plan.keys, *plan_keys(plan.input, table_key))
        case Project():
            return _projected(plan_keys(plan.input, table_key), plan.exprs)
        case Join():
            keys = [plan_keys(i, table_key) for i in plan.inputs]
            return _join_keys(
                keys, [len(i.schema) for i in plan.inputs], links(conjuncts(plan.predicate))
            )
        case OuterJoin():
            sides = (plan.left, plan.right)
            keys = [plan_keys(i, table_key) for i in sides]
            widths = [len(i.schema) for i in sides]
            if plan.full:
                # A row padded on one side and one padded on the other may agree in a key that can
                # be NULL throughout.
                fields = (*plan.left.schema, *plan.right.schema)
                both = _joined(keys, widths)
                return tuple(k for k in both if any(not fields[c].nullable for c in k))
            return _outer_keys(keys, widths, links(conjuncts(plan.condition)))
        case Aggregate():
            # A constant tells no rows apart.
            return (tuple(i for i, k in enumerate(plan.keys) if not isinstance(k, Literal)),)
        case Recursive():
            return () if plan.all else (tuple(range(len(plan.schema))),)
        case Repeat() | Explode() | Retain() | RecursiveRef() | Timeline():
            return ()
        case _:
            assert_never(plan)


def matches_once(plan: Plan, equal: frozenset[int], table_key: TableKey = no_table_key) -> bool:
    """Whether at most one row of the plan has given values in the columns `equal`."""
    return any(equal.issuperset(key) for key in plan_keys(plan, table_key))


def _join_keys(
    keys: list[tuple[Key, ...]], widths: list[int], links: tuple[Link, ...]
) -> tuple[Key, ...]:
    """Starting from a key of each input in turn: an input one of whose keys equals columns that are
    determined already adds nothing (a foreign key finds one row)."""
    starts = [sum(widths[:i]) for i in range(len(widths))]
    equal: dict[int, set[int]] = {}
    for group in classes(links):
        members = {c.index for c in group.columns}
        for c in members:
            equal[c] = members
    found: dict[Key, None] = {}
    for first in range(len(keys)):
        for start_key in keys[first][:2]:
            key = [starts[first] + c for c in start_key]
            order = [first]
            rest = [i for i in range(len(keys)) if i != first]
            known: set[int] = set()
            while True:
                for i in order:
                    for c in range(starts[i], starts[i] + widths[i]):
                        known |= equal.get(c, {c})
                order = [
                    i for i in rest if any(all(starts[i] + c in known for c in k) for k in keys[i])
                ]
                if not order and rest:
                    order = [next((i for i in rest if keys[i]), -1)]
                    if order == [-1]:
                        break
                    key += [starts[order[0]] + c for c in keys[order[0]][0]]
                rest = [i for i in rest if i not in order]
                if not order:
                    break
            if not rest:
                found.setdefault(tuple(sorted(key)))
    return tuple(found)[:_MOST_KEYS]


def _outer_keys(
    keys: list[tuple[Key, ...]], widths: list[int], links: tuple[Link, ...]
) -> tuple[Key, ...]:
    """Of a left join: the keys of the left side, where a row of it has at most one match."""
    linked = {
        (b if a < widths[0] else a) - widths[0]
        for a, b in ((link.left.index, link.right.index) for link in links)
        if (a < widths[0]) != (b < widths[0])
    }
    if any(linked.issuperset(k) for k in keys[1]):
        return keys[0]
    return _joined(keys, widths)


def node_keys(
    node: dataflow.Node, primary_key: Callable[[dataflow.Source], Key | None]
) -> tuple[Key, ...]:
    """Unique keys of a dataflow node; `primary_key` tells those of tables."""
    match node:
        case dataflow.Source():
            key = primary_key(node)
            return () if key is None else (key,)
        case dataflow.Reduce():
            return (tuple(i for i, k in enumerate(node.keys) if not _is_constant(node.input, k)),)
        case dataflow.Recompute():
            below, columns = node.index.relation, node.index.columns
            every = identity(below.schema)
            return (tuple(i for i, c in enumerate(columns) if not _is_constant(below, every[c])),)
        case dataflow.Store():
            return node_keys(node.input, primary_key)
        case dataflow.Variable():
            # A row that comes again begins again.
            own = len(node.schema) - node.marks
            begins = (own,) if node.marks > 1 else ()
            return () if node.all else ((*range(own), *begins),)
        case dataflow.Timeline():
            return ((*range(node.keys), len(node.schema) - 2),)
        case dataflow.Loop():
            return () if node.variable.all else (tuple(range(len(node.schema))),)
        case dataflow.TopK():
            one = (node.index.partition,) if node.limit <= 1 else ()
            return (*one, *node_keys(node.index.relation, primary_key))
        case dataflow.Window():
            relation = node.index.relation
            outputs = tuple(identity(relation.schema)[c] for c in node.columns)
            return _projected(node_keys(relation, primary_key), outputs)
        case dataflow.Map():
            return _projected(node_keys(node.input, primary_key), node.outputs)
        case dataflow.DeltaJoin():
            widths = [len(i.schema) for i in node.inputs]
            return _joined([node_keys(i.relation, primary_key) for i in node.inputs], widths)
        case dataflow.Threshold():
            return node_keys(node.index.relation, primary_key)
        case dataflow.Constant():
            return ((),) if len(node.rows) < 2 else ()
        case dataflow.Union():
            negated = node.negated or (False,) * len(node.inputs)
            kept = [i for i, minus in zip(node.inputs, negated, strict=True) if not minus]
            return node_keys(kept[0], primary_key) if len(kept) == 1 else ()
        case dataflow.Repeat() | dataflow.Explode() | dataflow.Stream():
            return ()
        case _:
            assert_never(node)


def _is_constant(node: dataflow.Node, expr: Expr) -> bool:
    if isinstance(expr, Column) and isinstance(node, dataflow.Store):
        return _is_constant(node.input, expr)
    if isinstance(expr, Column) and isinstance(node, dataflow.Map):
        return isinstance(node.outputs[expr.index], Literal)
    return isinstance(expr, Literal)


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
