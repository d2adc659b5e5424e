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
from dataclasses import replace
from itertools import chain

import numpy as np
import pyarrow as pa

from operators import delta as deltas
from operators.column import Column, concat
from operators.delta import Delta
from operators.reduce import ReduceOperator, Runs, add_up
from operators.state.relation import PIECE_ROWS, Relation
from planner import dataflow as ir

#: So many groups of pieces are added up before the last piece, where that makes them fewer.
_MOST_GROUPS = 2 * PIECE_ROWS


def pieces_of(relation: Relation, time: int) -> Iterator[Delta]:
    """The rows of a stored relation as of `time`, as births at that time, by row id."""
    for first in range(0, relation.next_row, PIECE_ROWS):
        end = min(first + PIECE_ROWS, relation.next_row)
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
    flows = (ir.Map, ir.Union, ir.Repeat, ir.DeltaJoin)
    taking = (ir.Map, ir.Union, ir.Repeat, ir.Reduce, ir.Store)
    return frozenset(
        node
        for node, (reader, *others) in readers.items()
        if isinstance(node, flows) and not others and isinstance(reader, taking)
    )


def start_groups(operator: ReduceOperator, pieces: Iterator[Delta], time: int) -> Delta:
    """The first rows of a group operator over `pieces`, none of them empty: births at `time`.

    Cost: that of adding up each piece, then a sort of their groups.
    """
    first = next(pieces, None)
    second = next(pieces, None)
    if second is None:
        none = deltas.empty(operator.node.input.schema)
        return operator.start(none if first is None else first, time)
    assert first is not None
    totals = _Totals(operator)
    for piece in chain((first, second), pieces):
        totals.add(piece)
    return totals.apply()


class _Totals:
    """The groups of the pieces so far: one run for each group of a piece."""

    def __init__(self, operator: ReduceOperator) -> None:
        self._operator = operator
        self._parts: list[tuple[list[Column], Runs]] = []
        self._groups = 0
        self._limit = _MOST_GROUPS

    def add(self, piece: Delta) -> None:
        runs = self._operator.runs(piece)
        keys = [piece.peek(k, runs.first_row) for k in self._operator.keys]
        self._parts.append((keys, runs))
        self._groups += len(runs.time)
        if self._groups > self._limit:
            before = self._groups
            self._parts = [self._merged()]
            self._groups = len(self._parts[0][1].time)
            # Groups that hardly recur are better sorted once, at the end.
            self._limit = max(self._limit, (2 if 2 * self._groups < before else 16) * before)

    def apply(self) -> Delta:
        """Write the groups' rows; returns them."""
        operator = self._operator
        keys, runs = self._merged()
        self._parts = []
        schema = operator.node.input.schema
        origins: list[deltas.Origin] = [None] * len(schema)
        for position, column in zip(operator.keys, keys, strict=True):
            origins[position] = column
        zeros = np.zeros(len(runs.time), np.int64)
        return operator.apply(Delta(schema, zeros, zeros, origins), runs)

    def _merged(self) -> tuple[list[Column], Runs]:
        """All parts as one, with the values of the groups' keys."""
        if len(self._parts) == 1:
            keys, runs = self._parts[0]
            return keys, _numbered(runs)
        parts = [runs for _, runs in self._parts]
        count = len(self._operator.keys)
        keys = [concat([k[i] for k, _ in self._parts]) for i in range(count)]
        runs = add_up(
            np.concatenate([p.words for p in parts], axis=1),
            keys,
            self._operator.index.hashed,
            np.concatenate([p.time for p in parts]),
            np.concatenate([p.change for p in parts], axis=1),
            tuple(map(pa.concat_arrays, zip(*(p.exact for p in parts), strict=True))),
            self._operator.mode,
        )
        return [k.take(runs.first_row) for k in keys], _numbered(runs)


def _numbered(runs: Runs) -> Runs:
    """Runs whose keys' values are laid out run by run."""
    return replace(runs, first_row=np.arange(len(runs.time)), grouped=None)
