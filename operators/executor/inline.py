"""The inline executor: the whole step in this process, node by node in topological order."""

from __future__ import annotations

from operators.dataflow import Dataflow, Key
from operators.flight.delta import Delta


class InlineExecutor:
    """Runs every operator here. Cost: microseconds a node, then in proportion to the changes."""

    name = "inline"

    def step(self, dataflow: Dataflow, changes: dict[Key, Delta]) -> None:
        dataflow.run_reached(changes)
