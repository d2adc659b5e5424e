"""Constant: rows that are always there. They come once, when the view is installed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from typing_extensions import Self

from operators import scalar
from operators.flight import delta as deltas
from operators.flight.delta import Delta, Origin
from operators.nodes.operator import Inputs, Operator, Place
from planner import dataflow as ir


class ConstantOperator(Operator[ir.Constant]):
    """State: none."""

    def __init__(self, node: ir.Constant) -> None:
        self.node = node

    @classmethod
    def install(cls, node: ir.Constant, place: Place) -> Self:
        return cls(node)

    def step(self, changes: Sequence[Delta | None]) -> Delta:
        return deltas.empty(self.node.schema)

    def start(self, inputs: Inputs) -> Iterator[Delta]:
        return self.rows(inputs)

    def rows(self, inputs: Inputs) -> Iterator[Delta]:
        n = len(self.node.rows)
        if n == 0:
            return
        columns: list[Origin] = [
            scalar.literals([row[i] for row in self.node.rows])
            for i in range(len(self.node.schema))
        ]
        time = np.full(n, inputs.time, np.int64)
        yield Delta(self.node.schema, time, np.ones(n, np.int64), columns)
