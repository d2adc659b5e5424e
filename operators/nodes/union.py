"""Union: all updates of all inputs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from typing_extensions import Self

from operators.flight import delta as deltas
from operators.flight.delta import Delta
from operators.nodes.operator import Inputs, Operator, Place
from planner import dataflow as ir


class UnionOperator(Operator[ir.Union]):
    """All updates of all inputs, those of negated inputs with the opposite sign. State: none."""

    def __init__(self, node: ir.Union) -> None:
        self.node = node

    @classmethod
    def install(cls, node: ir.Union, place: Place) -> Self:
        return cls(node)

    def step(self, changes: Sequence[Delta | None]) -> Delta:
        negated = self.node.negated or (False,) * len(changes)
        signed = [
            part.negated() if minus else part
            for part, minus in zip(changes, negated, strict=True)
            if part is not None and len(part)
        ]
        return deltas.concatenate(self.node.schema, signed)

    def start(self, inputs: Inputs) -> Iterator[Delta]:
        return self.rows(inputs)

    def rows(self, inputs: Inputs) -> Iterator[Delta]:
        for at, i in enumerate(self.node.inputs):
            for piece in inputs.pieces(i):
                parts: list[Delta | None] = [None] * len(self.node.inputs)
                parts[at] = piece
                yield self.step(parts)
