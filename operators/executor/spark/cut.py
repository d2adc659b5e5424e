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

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from operators.dataflow import Dataflow, Installed, Key, node_key
from planner import dataflow as ir
from planner.distribution import is_stateless, why_local, why_not_sent


@dataclass(frozen=True, slots=True)
class SinkCut:
    """A sink, the stateless nodes under it (inputs first), and the nodes whose changes it takes."""

    sink: Installed
    region: tuple[Key, ...]
    leaves: tuple[Key, ...]


@dataclass(frozen=True, slots=True)
class Layer:
    """Nodes that the driver runs first, and the sinks of one job.

    `local`: nodes that read a stored input through an index of it: top-k, thresholds, MIN and MAX
    with a few seeks in an order, a recomputed group by its key, in state that only the driver has
    as of now.
    `events`: sinks of streams' events and of windows' rows, which the driver runs next: only it has
    the events, and the windows' values.
    """

    local: tuple[Installed, ...]
    events: tuple[SinkCut, ...]
    sinks: tuple[SinkCut, ...]


def layers(dataflow: Dataflow) -> Iterator[Layer]:
    """The layers of the installed nodes, in the order in which they run."""
    level: dict[Key, int] = {}
    cuts: dict[int, list[SinkCut]] = {}
    local: dict[int, list[Installed]] = {}
    for installed in dataflow.installed:
        node, key = installed.node, (installed.owner, installed.node)
        if installed.loop is not None or is_stateless(node):
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
        events = tuple(c for c in here if is_of_the_driver(c))
        sinks = tuple(c for c in here if not is_of_the_driver(c))
        yield Layer(tuple(local.get(at, ())), events, sinks)


def is_of_the_driver(cut: SinkCut) -> bool:
    """Whether it takes what no relation has the rows of, or is a loop."""
    if isinstance(cut.sink.node, ir.Loop):
        return True
    return any(why_not_sent(node) is not None for _, node in cut.leaves)


def is_local(node: ir.Node) -> bool:
    """Whether the node reads a stored input through an index of it."""
    return not isinstance(node, ir.Loop) and why_local(node) is not None


def edges(node: ir.Node) -> tuple[tuple[ir.Node, int], ...]:
    """Nodes whose updates this one takes, and with which sign: a union that names one twice takes
    them twice. Of a threshold those of its rows: tasks run it where its scalars stand still."""
    if isinstance(node, ir.Threshold):
        return ((node.index.relation, 1),)
    if isinstance(node, ir.Union):
        negated = node.negated or (False,) * len(node.inputs)
        return tuple(zip(node.inputs, (-1 if minus else 1 for minus in negated), strict=True))
    return tuple((i, 1) for i in ir.inputs(node))


def cut_of(sink: Installed, flows: Callable[[ir.Node], bool] = is_stateless) -> SinkCut:
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
