"""Lowering of what is grouped inside of a recursion: values of groups in every round.

    Timeline[keys, calls](x)
        ->  Map[results](Timeline[keys, accumulators](Reduce[all columns](Map[keys, arguments](x))))

The Reduce says how often each row is there, rounds included. Results are written over accumulators
as elsewhere (planner.lower.reduces).
"""

from __future__ import annotations

from planner.calculus import algebra
from planner.calculus.algebra import identity
from planner.calculus.expr import Column, Expr
from planner.calculus.types import BIGINT, Field, SqlType
from planner.dataflow import Accumulator, Node, Reduce, Timeline
from planner.lower.linear import closed, map_over
from planner.lower.reduces import Results, summed


def counted_rows(node: Node) -> Reduce:
    """The node's rows, each once, and how often it is there."""
    count = Accumulator("count_rows", None)
    schema = (*node.schema, Field("count(*)", BIGINT, False))
    return Reduce(node, identity(node.schema), (count,), schema)


def lower_timeline(plan: algebra.Timeline, node: Node) -> Node:
    """The nodes that maintain `plan` over its lowered input.

    State: how often the input has each row; one row per group and stretch of rounds.
    """
    *_, begin, end = identity(node.schema)
    args = tuple(x for a in plan.aggregates for x in summed(a))
    exprs = tuple(dict.fromkeys((*plan.keys, *args)))
    below = counted_rows(closed(map_over(node, (), (*exprs, begin, end))))
    columns = {e: i for i, e in enumerate(exprs)}
    keys = len(dict.fromkeys(plan.keys))
    builder = _Timeline(below, columns, keys)
    results = tuple(builder.result(call) for call in plan.aggregates)
    timeline = builder.timeline()
    every = identity(timeline.schema)
    return map_over(timeline, (), (*(every[columns[k]] for k in plan.keys), *results, *every[-2:]))


class _Timeline(Results):
    """Collects the accumulators of one Timeline while results are written in terms of them."""

    never_empty = True

    def __init__(self, below: Reduce, columns: dict[Expr, int], keys: int) -> None:
        super().__init__(below, columns)
        self._counted = below
        self._keys = keys
        self._accumulators: dict[Accumulator, Field] = {}

    def timeline(self) -> Timeline:
        fields = self._below.schema
        schema = (*fields[: self._keys], *self._accumulators.values(), *fields[-3:-1])
        return Timeline(self._counted, self._keys, tuple(self._accumulators), schema)

    def _first(self, arg: Expr, descending: bool) -> Expr:
        column = self._column(arg)
        return self._kept("greatest" if descending else "least", column, column.type, arg.nullable)

    def _keep(self, kind: str, arg: Expr | None, type: SqlType) -> Column:
        return self._kept(kind, None if arg is None else self._column(arg), type)

    def _kept(self, kind: str, arg: Column | None, type: SqlType, nullable: bool = False) -> Column:
        accumulator = Accumulator(kind, arg)
        field = Field(f"{kind}({'*' if arg is None else arg.name})", type, nullable)
        self._accumulators.setdefault(accumulator, field)
        position = self._keys + list(self._accumulators).index(accumulator)
        return Column(position, type, nullable, field.name)
