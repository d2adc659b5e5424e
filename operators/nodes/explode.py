"""Explode: each update once for each element of an array, with the element."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from typing_extensions import Self

from operators.flight import delta as deltas
from operators.flight import nested
from operators.flight.column import Bools, Column, Ints, null_column
from operators.flight.delta import Delta, Origin
from operators.flight.nested import Lists, Pieces
from operators.nodes.operator import Inputs, Operator, Place
from operators.nodes.runs import elements
from planner import dataflow as ir
from planner.calculus.types import INT, SqlType


class ExplodeOperator(Operator[ir.Explode]):
    """State: none."""

    def __init__(self, node: ir.Explode) -> None:
        self.node = node

    @classmethod
    def install(cls, node: ir.Explode, place: Place) -> Self:
        return cls(node)

    def step(self, changes: Sequence[Delta | None]) -> Delta:
        """Cost: the bytes of the arrays of the changed rows."""
        (delta,) = changes
        node = self.node
        if delta is None or len(delta) == 0:
            return deltas.empty(node.schema)
        array = delta.column(node.array)
        found = nested.lists(array)
        counts = np.diff(found.offsets)
        if array.valid is not None:
            counts = np.where(array.valid, counts, 0)
        times = np.maximum(counts, 1) if node.outer else counts
        rows, at = elements(times)
        there = None if counts.all() else at < counts[rows]
        position = Column(INT, at, there)
        element = _elements(node.schema[-1].type, found, found.offsets[rows] + at, there)
        selected = delta.select(rows)
        origins: list[Origin] = [selected.origin(i) for i in range(len(node.input.schema))]
        return selected.project(node.schema, [*origins, position, element])

    def start(self, inputs: Inputs) -> Iterator[Delta]:
        return self.rows(inputs)

    def rows(self, inputs: Inputs) -> Iterator[Delta]:
        return (self.step([piece]) for piece in inputs.pieces(self.node.input))


def _elements(kind: SqlType, found: Lists, places: Ints, there: Bools | None) -> Column:
    """The elements at places, NULL where they are not there."""
    if not len(found.pieces):
        return null_column(kind, len(places))
    if there is None:
        return nested.values(kind, found.pieces.take(places))
    some = found.pieces.take(np.where(there, places, 0))
    return nested.values(
        kind, Pieces(some.data, some.first, np.where(there, some.last, some.first))
    )
