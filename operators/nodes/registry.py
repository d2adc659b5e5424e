"""Which operator runs which kind of node."""

from __future__ import annotations

from operators.nodes.constant import ConstantOperator
from operators.nodes.delta_join import DeltaJoinOperator
from operators.nodes.explode import ExplodeOperator
from operators.nodes.loop import LoopOperator, VariableOperator
from operators.nodes.map import MapOperator
from operators.nodes.operator import AnyOperator, Place
from operators.nodes.recompute import RecomputeOperator
from operators.nodes.reduce import ReduceOperator
from operators.nodes.repeat import RepeatOperator
from operators.nodes.store import StoreOperator
from operators.nodes.threshold import ThresholdOperator
from operators.nodes.timeline import TimelineOperator
from operators.nodes.top_k import TopKOperator
from operators.nodes.union import UnionOperator
from operators.nodes.window import WindowOperator
from planner import dataflow as ir

#: Tables and streams have none: they are given, not computed.
OPERATORS: dict[type[ir.Node], type[AnyOperator]] = {
    ir.Constant: ConstantOperator,
    ir.Map: MapOperator,
    ir.Union: UnionOperator,
    ir.Repeat: RepeatOperator,
    ir.Explode: ExplodeOperator,
    ir.Store: StoreOperator,
    ir.Reduce: ReduceOperator,
    ir.Recompute: RecomputeOperator,
    ir.DeltaJoin: DeltaJoinOperator,
    ir.TopK: TopKOperator,
    ir.Window: WindowOperator,
    ir.Threshold: ThresholdOperator,
    ir.Variable: VariableOperator,
    ir.Timeline: TimelineOperator,
    ir.Loop: LoopOperator,
}


def operator_of(node: ir.Node, place: Place) -> AnyOperator:
    """A new operator of the node, in its place."""
    return OPERATORS[type(node)].install(node, place)
