"""Cutting a dataflow into jobs.

A step's jobs run *layer* by layer. A layer is every node that keeps rows (a *sink*) whose input is
a function of changes that are known by then, with the stateless nodes between (its *region*): all
its views, and all paths of all their joins, make one job. What a layer's sinks emit is what the
next layer starts from, so there are as many jobs as sinks lie one behind the other, however many
views there are.

Invariant: every sink is in exactly one layer, behind all layers that it depends on; a stateless
node may be in several, and counts its failing rows in the first.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from operators.dataflow import Dataflow, Installed, Key
from planner import dataflow as ir


@dataclass(frozen=True, slots=True)
class SinkCut:
    """A sink, the stateless nodes under it (inputs first), and the nodes whose changes it takes."""

    sink: Installed
    region: tuple[Key, ...]
    leaves: tuple[Key, ...]


@dataclass(frozen=True, slots=True)
class Layer:
    """TopK nodes, which the driver runs first, and the sinks of one job."""

    tops: tuple[Installed, ...]
    sinks: tuple[SinkCut, ...]


def layers(dataflow: Dataflow) -> Iterator[Layer]:
    """The layers of the installed nodes, in the order in which they run."""
    level: dict[Key, int] = {}
    cuts: dict[int, list[SinkCut]] = {}
    tops: dict[int, list[Installed]] = {}
    for installed in dataflow.installed:
        node, key = installed.node, (installed.owner, installed.node)
        match node:
            case ir.Store() | ir.Reduce():
                cut = _cut(installed)
                at = max((level.get(leaf, 0) for leaf in cut.leaves), default=0)
                cuts.setdefault(at, []).append(cut)
                level[key] = at + 1
            case ir.TopK():
                at = level.get(key_of(node.index.relation, installed.owner), 0)
                tops.setdefault(at, []).append(installed)
                level[key] = at
            case _:
                pass
    for at in range(max((*cuts, *tops), default=-1) + 1):
        yield Layer(tuple(tops.get(at, ())), tuple(cuts.get(at, ())))


def key_of(node: ir.Node, owner: str) -> Key:
    """A node as installed for `owner`; base tables are always shared."""
    return ("" if isinstance(node, ir.Source) else owner, node)


def edges(node: ir.Node) -> tuple[ir.Node, ...]:
    """Nodes whose updates this one takes: a union that names one twice takes them twice."""
    return node.inputs if isinstance(node, ir.Union) else ir.inputs(node)


def _cut(sink: Installed) -> SinkCut:
    region: dict[Key, None] = {}
    leaves: dict[Key, None] = {}

    def visit(node: ir.Node) -> None:
        key = key_of(node, sink.owner)
        if isinstance(node, ir.Map | ir.Union | ir.DeltaJoin):
            if key not in region:
                for i in ir.inputs(node):
                    visit(i)
                region[key] = None
        else:
            leaves[key] = None

    for i in ir.inputs(sink.node):
        visit(i)
    return SinkCut(sink, tuple(region), tuple(leaves))
