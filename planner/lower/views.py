"""From algebra to dataflow: every decision on how a view is maintained.

    Scan                     the catalog's stored node
    Filter, Project          one fused Map (lower.linear)
    Join                     DeltaJoin below a Map (lower.joins, lower.join_order)
    Aggregate, DISTINCT      Reduce between two Maps (lower.reduces); Recompute for aggregates
                             that have no state to keep (lower.recomputes)
    UnionAll, Minus          Union, of both where a union has differences
    Keep                     a bag of the rows
    TopK                     TopK over the ordered index of its stored input
    Window                   Window over the ordered index of its stored input (lower.windows)
    Threshold                Threshold over the ordered index of its stored input, and the index on
                             the keys of the relation that holds the scalars
    Repeat, Values           Repeat, Constant
    Recursive                Loop over a Variable (lower.loops)
    Timeline                 Timeline over a Reduce (lower.timelines)
    Retain                   nothing of its own below what keeps rows; else a Store

All other nodes are expressed by these first (rewrite.optimizer.prepare).

Deterministic: the same plan over the same catalog gives equal nodes, and equal subplans, also of
different views, give equal nodes, whatever their columns are called.
"""

from __future__ import annotations

import dataclasses

from typing_extensions import assert_never

from planner import dataflow
from planner.analysis.keys import TableKey
from planner.analysis.streams import refuse_history, stream_of
from planner.calculus.algebra import (
    RECOMPUTED,
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
    SortKey,
    Threshold,
    Timeline,
    TopK,
    UnionAll,
    Values,
    Window,
    identity,
)
from planner.calculus.types import Field
from planner.calculus.visit import with_inputs
from planner.context import CatalogReader
from planner.dataflow import (
    Arrangement,
    Node,
    OrderedArrangement,
    Store,
    Stream,
    Union,
    group_index,
    is_grouped,
)
from planner.errors import CatalogError
from planner.lower.join_order import Facts
from planner.lower.joins import lower_join, stored, stored_columns
from planner.lower.linear import closed, map_over, named
from planner.lower.loops import loop_over, variable_of
from planner.lower.recomputes import lower_recomputed
from planner.lower.reduces import lower_aggregate
from planner.lower.timelines import lower_timeline
from planner.lower.windows import lower_window
from planner.rewrite.optimizer import prepare


def lower(plan: Plan, catalog: CatalogReader, reader: str = "") -> Node:
    """The dataflow that maintains the plan's rows, under the plan's column names.

    `reader`: the view that they are for; it keeps what the view makes of streams its own.
    Requires: `plan` is optimized (joins are flat, filters are where they can be looked up).
    The caller stores the result.
    Raises: UnsupportedError for what cannot be maintained; CatalogError for an unknown relation.
    """
    prepared = prepare(plan, table_key(catalog))
    return named(closed(_Lowering(catalog, reader).kept(prepared)), plan.schema)


def table_key(catalog: CatalogReader) -> TableKey:
    """The primary keys of the catalog's tables, by name."""

    def key(name: str) -> tuple[int, ...] | None:
        info = catalog.relation(name)
        return None if info is None or info.is_view else info.primary_key

    return key


class _Lowering:
    def __init__(self, catalog: CatalogReader, reader: str) -> None:
        self._catalog = catalog
        self._reader = reader
        self._facts = Facts(catalog)
        self._done: dict[int, tuple[Plan, Node]] = {}

    def lower(self, plan: Plan) -> Node:
        """A shared subtree is lowered once. The plan is kept, so that its id stays its own."""
        known = self._done.get(id(plan))
        if known is None:
            known = self._done[id(plan)] = (plan, self._lower(plan))
        return known[1]

    def kept(self, plan: Plan) -> Node:
        """The changes of a plan whose rows its consumer keeps. Raises: UnsupportedError for events
        that no Retain makes rows that stay: they are those of one epoch, and were rewritten into
        something that would need all (the distinct values of past events, a threshold)."""
        below = _without_retain(plan)
        if below is not None:
            return self.lower(below)
        return self._rows(plan)

    def _rows(self, plan: Plan) -> Node:
        node = self.lower(plan)
        if dataflow.gives_events(node):
            raise refuse_history(
                stream_of(plan),
                "this subquery of a query over {}",
                "To keep it up to date, past events would have to be compared with new rows.",
            )
        return node

    def _lower(self, plan: Plan) -> Node:
        match plan:
            case Scan():
                return self._scan(plan)
            case Filter():
                node = self.lower(plan.input)
                return map_over(node, (plan.predicate,), identity(node.schema))
            case Project(input=Filter() as inner):
                # In one go, so that no column survives only between the two.
                return map_over(self.lower(inner.input), (inner.predicate,), plan.exprs)
            case Project():
                return map_over(self.lower(plan.input), (), plan.exprs)
            case Join():
                return lower_join(plan, tuple(self.lower(i) for i in plan.inputs), self._facts)
            case Aggregate():
                recomputed = any(a.function in RECOMPUTED for a in plan.aggregates)
                way = lower_recomputed if recomputed else lower_aggregate
                return way(plan, self.kept(plan.input))
            case UnionAll() | Minus():
                return self._union(plan)
            case Keep():
                return stored(self._rows(plan.input))
            case TopK():
                relation = stored(self.kept(plan.input))
                index = OrderedArrangement(relation, plan.order, plan.ties, plan.partition)
                return dataflow.TopK(index, plan.limit, plan.offset)
            case Window():
                return lower_window(plan, self.kept(plan.input))
            case Threshold():
                return self._threshold(plan)
            case Retain():
                return Store(closed(self.lower(plan.input)))
            case Repeat():
                return dataflow.Repeat(closed(self.lower(plan.input)), plan.count)
            case RecursiveRef():
                return variable_of(plan)
            case Recursive():
                return loop_over(plan, closed(self.lower(plan.body)))
            case Timeline():
                return lower_timeline(plan, self.lower(plan.input))
            case Explode():
                return dataflow.Explode(closed(self.lower(plan.input)), plan.array, plan.outer)
            case Values():
                return dataflow.Constant(plan.rows, plan.schema)
            case OuterJoin() | SemiJoin() | MarkJoin() | SingleRow() | Apply():
                raise AssertionError(f"{type(plan).__name__} is expanded before lowering")
            case _:
                assert_never(plan)

    def _scan(self, plan: Scan) -> Node:
        info = self._catalog.relation(plan.relation)
        if info is None:
            raise CatalogError(f'relation "{plan.relation}" does not exist')
        if isinstance(info.node, Stream):
            return dataclasses.replace(info.node, reader=self._reader)
        self._facts.learn(info)
        return info.node

    def _threshold(self, plan: Threshold) -> Node:
        rows, at = stored_columns(self.kept(plan.input))
        bound, place = stored_columns(self.kept(plan.bound))
        order = (SortKey(at[plan.column], nulls_first=False),)
        index = OrderedArrangement(rows, order, (), tuple(at[c] for c in plan.partition))
        keys = tuple(place[c] for c in plan.keys)
        if is_grouped(bound) and set(keys) == set(group_index(bound).columns):
            # Its own index serves; the partition goes into the order of its keys.
            pairs = sorted(zip(keys, index.partition, strict=True))
            keys = tuple(k for k, _ in pairs)
            index = dataclasses.replace(index, partition=tuple(p for _, p in pairs))
            found = group_index(bound)
        else:
            found = Arrangement(bound, keys, null_safe=not keys)
        node = dataflow.Threshold(index, found, place[plan.scalar], plan.comparison)
        columns = identity(rows.schema)
        return map_over(node, (), tuple(columns[c] for c in at))

    def _union(self, plan: UnionAll | Minus) -> Node:
        parts = _signed(plan)
        nodes = tuple(closed(self.lower(i)) for i, _ in parts)
        if any(map(dataflow.gives_events, nodes)) and not all(map(dataflow.gives_events, nodes)):
            nodes = tuple(closed(self.kept(i)) for i, _ in parts)
        fields = tuple(
            Field(f.name, f.type, any(n.schema[i].nullable for n in nodes))
            for i, f in enumerate(nodes[0].schema)
        )
        negated = tuple(taken for _, taken in parts)
        return Union(nodes, fields, negated if any(negated) else ())


def _signed(plan: UnionAll | Minus) -> tuple[tuple[Plan, bool], ...]:
    """What one Union is made of, and whether it is taken away; differences in it are its parts."""
    if isinstance(plan, Minus):
        return ((plan.input, False), (plan.part, True))
    found: list[tuple[Plan, bool]] = []
    for i in plan.inputs:
        found += _signed(i) if isinstance(i, Minus) else ((i, False),)
    return tuple(found)


def _without_retain(plan: Plan) -> Plan | None:
    """The events whose rows stay under `plan`, a Retain or functions of its rows; else None."""
    match plan:
        case Retain():
            return plan.input
        case Filter() | Project():
            below = _without_retain(plan.input)
            return None if below is None else with_inputs(plan, (below,))
        case _:
            return None
