"""Where a step runs: in this process, or as Spark jobs."""

from __future__ import annotations

from collections.abc import Mapping

from operators.dataflow import Dataflow
from planner import dataflow as ir

#: Estimated work (changed rows times the paths and operators that read them) from which the
#: executors break even.
BREAK_EVEN = 20_000_000


def estimate(dataflow: Dataflow, rows: Mapping[ir.Source, int]) -> int:
    """Changed rows of each table, times the operators that read it."""
    consumers: dict[ir.Node, int] = {}
    for installed in dataflow.installed:
        for node in ir.inputs(installed.node):
            consumers[node] = consumers.get(node, 0) + 1
    return sum(n * consumers.get(source, 0) for source, n in rows.items())


def choose(dataflow: Dataflow, rows: Mapping[ir.Source, int]) -> str:
    """ "spark" where the estimated work exceeds BREAK_EVEN, else "inline"."""
    return "spark" if estimate(dataflow, rows) > BREAK_EVEN else "inline"
