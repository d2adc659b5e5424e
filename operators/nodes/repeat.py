"""Repeat: each update as many times as its row says."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from typing_extensions import Self

from operators.flight import delta as deltas
from operators.flight.delta import Delta
from operators.nodes.operator import Inputs, Operator, Place
from planner import dataflow as ir


class RepeatOperator(Operator[ir.Repeat]):
    """State: none."""

    def __init__(self, node: ir.Repeat) -> None:
        self.node = node

    @classmethod
    def install(cls, node: ir.Repeat, place: Place) -> Self:
        return cls(node)

    def step(self, changes: Sequence[Delta | None]) -> Delta:
        (delta,) = changes
        if delta is None:
            return deltas.empty(self.node.schema)
        count = delta.column(self.node.count)
        assert count.valid is None, "a count of rows is never NULL"
        rows = np.flatnonzero(count.values > 0)
        return delta.select(rows).times(count.values[rows])

    def start(self, inputs: Inputs) -> Iterator[Delta]:
        return self.rows(inputs)

    def rows(self, inputs: Inputs) -> Iterator[Delta]:
        return (self.step([piece]) for piece in inputs.pieces(self.node.input))
