"""Lowering of windows: what a `dataflow.Window` computes, and how results are read from it.

    Window[calls](x)  ->  Map[results](Window[values](Map[arguments](x)))

The lower Map computes what is summed, and its rows are stored and indexed by partition, order and
ties, unless the input is stored with them already: then the Window reads what is there. Aggregates
are written in terms of accumulators, as those of a Reduce are (planner.lower.reduces), so that a
sum that leaves its type is an error of its rows. Equal values are computed once.
"""

from __future__ import annotations

from dataclasses import replace

from planner.analysis.text import column_names
from planner.calculus.algebra import RANKED, RECOMPUTED, AggregateCall, Frame, Window, WindowCall
from planner.calculus.algebra import identity as columns_of
from planner.calculus.expr import Column, Expr
from planner.calculus.types import Field, SqlType
from planner.dataflow import Node, OrderedArrangement, WindowValue
from planner.dataflow import Window as WindowNode
from planner.lower.joins import stored_columns
from planner.lower.linear import map_over
from planner.lower.reduces import Results, summed


def lower_window(plan: Window, node: Node) -> Node:
    """The nodes that maintain `plan` over its lowered input.

    State: the input's rows and an index in the window's order, where they are not there.
    """
    own = columns_of(node.schema)[: len(plan.input.schema)]
    calls = {c: _aggregate_call(c, own) for c in plan.calls if _is_accumulated(c)}
    further = (e for call in calls.values() for e in summed(call))
    exprs = tuple(dict.fromkeys((*own, *further)))
    relation, at = stored_columns(map_over(node, (), exprs))
    columns = {e: at[i] for i, e in enumerate(exprs)}
    places = dict(enumerate(at))
    results = _Results(relation, columns, len(own))
    made: list[Expr] = []
    for call in plan.calls:
        results.frame = call.frame.moved(places)
        if call in calls:
            made.append(results.result(calls[call]))
        else:
            args = tuple(at[c] for c in call.args)
            value = WindowValue(
                call.function, args, results.frame, call.order, call.parameters, call.ignore_nulls
            )
            made.append(results.kept(value, call.type, call.nullable))
    order = tuple(replace(k, column=at[k.column]) for k in plan.order)
    ties, partition = (tuple(at[c] for c in some) for some in (plan.ties, plan.partition))
    index = OrderedArrangement(relation, order, ties, partition)
    fields = tuple(relation.schema[c] for c in at[: len(own)])
    window = WindowNode(index, at[: len(own)], tuple(results.values), (*fields, *results.fields()))
    return map_over(window, (), (*columns_of(window.schema)[: len(own)], *made))


def _is_accumulated(call: WindowCall) -> bool:
    return call.function not in RANKED | RECOMPUTED


def _aggregate_call(call: WindowCall, columns: tuple[Column, ...]) -> AggregateCall:
    arg = columns[call.args[0]] if call.args else None
    return AggregateCall(call.function, arg, call.type, call.nullable)


class _Results(Results):
    """Collects the values of one window. `frame`: of the call whose result is being written."""

    frame: Frame

    def __init__(self, below: Node, columns: dict[Expr, int], width: int) -> None:
        super().__init__(below, columns)
        self._width = width
        self.values: dict[WindowValue, tuple[SqlType, bool]] = {}

    def fields(self) -> list[Field]:
        names = column_names(self._below.schema)
        return [
            Field(f"{v.function}({', '.join(names[c] for c in v.args) or '*'})", kind, nullable)
            for v, (kind, nullable) in self.values.items()
        ]

    def kept(self, value: WindowValue, kind: SqlType, nullable: bool) -> Column:
        self.values.setdefault(value, (kind, nullable))
        position = self._width + list(self.values).index(value)
        return Column(position, kind, nullable, value.function)

    def _keep(self, kind: str, arg: Expr | None, type: SqlType) -> Column:
        args = () if arg is None else (self._column(arg).index,)
        return self.kept(WindowValue(kind, args, self.frame), type, False)

    def _first(self, arg: Expr, descending: bool) -> Expr:
        column = self._column(arg)
        value = WindowValue("max" if descending else "min", (column.index,), self.frame)
        return self.kept(value, column.type, True)
