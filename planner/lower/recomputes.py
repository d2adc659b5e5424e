"""Lowering of aggregates that cannot be kept up: their groups are computed anew, one at a time.

    Aggregate[keys, calls](x)
        ->  Map[keys, values](Recompute[keys, values](Map[keys, arguments](x)))

The lower Map computes every key and argument once, and its rows are stored and indexed by the keys,
unless the input is stored with them already: then the Recompute reads what is there. A change costs
the rows of its group, never more. Equal values are kept once.

All calls are of algebra.RECOMPUTED: rules.split_aggregates put them apart from those with a state.
"""

from __future__ import annotations

from planner.analysis.text import column_names
from planner.calculus.algebra import Aggregate, AggregateCall
from planner.calculus.expr import Column, Expr
from planner.calculus.types import Field
from planner.dataflow import Arrangement, GroupValue, Node, Recompute
from planner.lower.joins import stored_columns
from planner.lower.linear import map_over


def lower_recomputed(plan: Aggregate, node: Node) -> Node:
    """The nodes that maintain `plan` over its lowered input.

    State: one row per group; the input's rows and an index on the keys, where they are not there.
    """
    wanted = (*plan.keys, *(e for a in plan.aggregates for e in a.args))
    exprs = tuple(dict.fromkeys(wanted))
    below, at = stored_columns(map_over(node, (), exprs))
    columns = {e: at[i] for i, e in enumerate(exprs)}
    keys = tuple(dict.fromkeys(columns[k] for k in plan.keys))
    null_safe = not keys or any(below.schema[c].nullable for c in keys)
    made = [_value(a, columns) for a in plan.aggregates]
    values = tuple(dict.fromkeys(made))
    names = column_names(below.schema)
    fields = [Field(names[c], below.schema[c].type, below.schema[c].nullable) for c in keys]
    for value in values:
        call = plan.aggregates[made.index(value)]
        texts = ", ".join(names[c] for c in value.args)
        fields.append(Field(f"{value.function}({texts})", call.type, True))
    recompute = Recompute(Arrangement(below, keys, null_safe), values, tuple(fields))
    outputs: list[Expr] = []
    for k in plan.keys:
        position = keys.index(columns[k])
        field = recompute.schema[position]
        outputs.append(Column(position, field.type, field.nullable, field.name))
    for value in made:
        position = len(keys) + values.index(value)
        field = recompute.schema[position]
        outputs.append(Column(position, field.type, field.nullable, field.name))
    return map_over(recompute, (), tuple(outputs))


def _value(call: AggregateCall, columns: dict[Expr, int]) -> GroupValue:
    args = tuple(columns[e] for e in call.args)
    return GroupValue(call.function, args, call.order, call.parameters, call.distinct)
