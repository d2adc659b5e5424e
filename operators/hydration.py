"""Hydration: the first rows of new nodes, in pieces.

A new view reads whole tables. What needs no state (maps, unions, joins by lookups) and has one
reader flows: it is computed piece by piece, each when its reader has done with the one before. A
new group operator adds each piece up by itself, then the pieces' groups, and writes its rows once.
So the arrays at work fit the caches, and beside the new state the memory is that of a piece,
however large the tables are.

Invariant: the pieces of a node together are its rows as of the time of the installation.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from operators.flight import delta as deltas
from operators.flight.delta import Delta
from operators.state.relation import PIECE_ROWS
from operators.state.rows import Rows
from planner import dataflow as ir


def pieces_of(
    relation: Rows, time: int, start: int = 0, stop: int | None = None
) -> Iterator[Delta]:
    """The rows of a stored relation as of `time`, as births at that time, by row id; of
    [start, stop), where `start` begins a block."""
    stop = relation.next_row if stop is None else min(stop, relation.next_row)
    for first in range(start, stop, PIECE_ROWS):
        end = min(first + PIECE_ROWS, stop)
        rows = relation.visible(time, first, end)
        if len(rows):
            yield deltas.births(relation, rows, np.full(len(rows), time, np.int64))


def sliced(delta: Delta) -> Iterator[Delta]:
    """A delta at hand in pieces."""
    n = len(delta)
    if n <= PIECE_ROWS:
        yield delta
        return
    for first in range(0, n, PIECE_ROWS):
        yield delta.select(np.arange(first, min(first + PIECE_ROWS, n)))


def flowing(order: tuple[ir.Node, ...]) -> frozenset[ir.Node]:
    """The nodes without state that are read once, by a node that takes pieces: of `order`, a plan's
    nodes."""
    readers: dict[ir.Node, list[ir.Node]] = {}
    for node in order:
        for i in ir.inputs(node):
            readers.setdefault(i, []).append(node)
    flows = (ir.Map, ir.Union, ir.Repeat, ir.Explode, ir.DeltaJoin)
    taking = (ir.Map, ir.Union, ir.Repeat, ir.Explode, ir.Reduce, ir.Store)
    return frozenset(
        node
        for node, (reader, *others) in readers.items()
        if isinstance(node, flows) and not others and isinstance(reader, taking)
    )
