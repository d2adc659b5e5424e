"""Where a step runs: in this process, or as Spark jobs."""

from __future__ import annotations

from operators.dataflow import Dataflow, Key
from operators.delta import Delta
from planner import dataflow as ir

#: Estimated work (changed rows times the paths and operators that read them) from which the
#: executors break even.
BREAK_EVEN = 20_000_000


def estimate(dataflow: Dataflow, changes: dict[Key, Delta]) -> int:
    """Changed rows of each table, times the operators and delta paths that read it."""
    consumers: dict[ir.Node, int] = {}
    for installed in dataflow.installed:
        for node in ir.inputs(installed.node):
            consumers[node] = consumers.get(node, 0) + 1
    return sum(len(d) * consumers.get(node, 0) for (_, node), d in changes.items())


def choose(dataflow: Dataflow, changes: dict[Key, Delta]) -> str:
    """ "spark" where the estimated work exceeds BREAK_EVEN, else "inline"."""
    return "spark" if estimate(dataflow, changes) > BREAK_EVEN else "inline"
