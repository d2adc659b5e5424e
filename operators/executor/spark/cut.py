"""Cutting a dataflow into jobs.

A step's jobs run *layer* by layer. A layer is every node that keeps rows (a *sink*) whose input is
a function of changes that are known by then, with the nodes between (its *region*), which keep no
rows: all its views, and all paths of all their joins, make one job. What a layer's sinks emit is
what the next layer starts from, so there are as many jobs as sinks lie one behind the other,
however many views there are.

Invariant: every sink is in exactly one layer, behind all layers that it depends on; a node that
keeps none may be in several, and counts its failing rows in the first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from operators.dataflow import Installed, Key, node_key
from planner import dataflow as ir
from planner.lower.distribution import flows, why_in_driver


@dataclass(frozen=True, slots=True)
class SinkCut:
    """A sink, the nodes under it that keep no rows (inputs first), and those whose changes it
    takes."""

    sink: Installed
    region: tuple[Key, ...]
    leaves: tuple[Key, ...]


@dataclass(frozen=True, slots=True)
class Layer:
    """Nodes that the driver runs first, and the sinks of one job.

    `local`: nodes that read the front of an order, top-k, MIN and MAX of everything, or all rows of
    one group. `loops`: run in rounds, which the driver does next.
    """

    local: tuple[Installed, ...]
    loops: tuple[SinkCut, ...]
    sinks: tuple[SinkCut, ...]


def layers(nodes: Iterable[Installed]) -> Iterator[Layer]:
    """The layers of installed nodes, in the order in which they run: of some, inputs first, and all
    that takes their changes."""
    level: dict[Key, int] = {}
    cuts: dict[int, list[SinkCut]] = {}
    local: dict[int, list[Installed]] = {}
    for installed in nodes:
        node, key = installed.node, (installed.owner, installed.node)
        if installed.loop is not None or flows(node):
            continue
        if is_local(node):
            inputs = (node_key(i, installed.owner) for i in ir.inputs(node))
            at = max(level.get(i, 0) for i in inputs)
            local.setdefault(at, []).append(installed)
            level[key] = at
        else:
            cut = cut_of(installed)
            at = max((level.get(leaf, 0) for leaf in cut.leaves), default=0)
            cuts.setdefault(at, []).append(cut)
            level[key] = at + 1
    for at in range(max((*cuts, *local), default=-1) + 1):
        here = cuts.get(at, ())
        loops = tuple(c for c in here if isinstance(c.sink.node, ir.Loop))
        sinks = tuple(c for c in here if not isinstance(c.sink.node, ir.Loop))
        yield Layer(tuple(local.get(at, ())), loops, sinks)


def is_local(node: ir.Node) -> bool:
    """Whether the driver runs the node on the changes of its input alone."""
    return not isinstance(node, ir.Loop) and why_in_driver(node) is not None


def edges(node: ir.Node) -> tuple[tuple[ir.Node, int], ...]:
    """Nodes whose updates this one takes, and with which sign: a union that names one twice takes
    them twice. Of a threshold those of its rows; of its scalars each task is told apart."""
    if isinstance(node, ir.Threshold):
        return ((node.index.relation, 1),)
    if isinstance(node, ir.Union):
        negated = node.negated or (False,) * len(node.inputs)
        return tuple(zip(node.inputs, (-1 if minus else 1 for minus in negated), strict=True))
    return tuple((i, 1) for i in ir.inputs(node))


def cut_of(sink: Installed, flows: Callable[[ir.Node], bool] = flows) -> SinkCut:
    """What lies under a sink. `flows`: whether a node is of its region."""
    region: dict[Key, None] = {}
    leaves: dict[Key, None] = {}

    def visit(node: ir.Node) -> None:
        key = node_key(node, sink.owner)
        if flows(node):
            if key not in region:
                for i in ir.inputs(node):
                    visit(i)
                region[key] = None
        else:
            leaves[key] = None

    for i in sink.operator.takes:
        visit(i)
    return SinkCut(sink, tuple(region), tuple(leaves))
