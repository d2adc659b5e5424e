"""Map: filter and project.

A map throws rows away predicate by predicate, each on the rows that are left (those that read the
same numbers on the same rows: comparing again costs less than gathering again), and computes its
outputs last, so that columns are gathered only for rows that matter. An update that changes no
column the map reads is cancelled before anything is computed (DESIGN §6).
Source: Shared Arrangements §5.1-5.2.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import numpy as np
from typing_extensions import Self

from operators import scalar
from operators.flight import delta as deltas
from operators.flight.arrow import from_column
from operators.flight.column import Bools, Column, is_textual, passing
from operators.flight.delta import Delta, Origin
from operators.flight.rendering import texts
from operators.flight.unchanged import without_unchanged
from operators.nodes.errors import ErrorState
from operators.nodes.operator import Inputs, Kept, Operator, Place
from operators.nodes.programs import FEW_ROWS, program_of
from operators.scalar.text import shortened
from operators.scalar.value import Errors, only_where
from operators.state.shared import Shared
from planner import dataflow as ir
from planner.calculus.expr import Column as ColumnRef
from planner.calculus.expr import columns_used

#: Of one value, in the message of a row that cannot be computed.
_SHOWN_CHARACTERS = 100
#: Names of accumulators that no query has.
_KEPT = re.compile(
    r"(sum_top|sum_double|sum_square\w*|count_rows|first|least|greatest)\(|count\(\*\)"
)


class MapOperator(Operator[ir.Map]):
    """State: the messages of failing rows."""

    def __init__(self, node: ir.Map, shared: Shared | None = None) -> None:
        self.node = node
        self.errors = ErrorState(shared)
        self._nothing = deltas.empty(node.schema)
        self.used = tuple(sorted(columns_used(*node.predicates, *node.outputs)))
        #: Predicates that are tested on the same rows, and the columns that they read.
        self._tests: list[tuple[list[scalar.Compiled], tuple[int, ...]]] = []
        self._tests_ahead = 0
        #: So many of them come before `_program`, which has all others and outputs.
        self._ahead = len(node.predicates)
        self._program = program_of((), node.outputs)
        while self._ahead and (
            longer := program_of(node.predicates[self._ahead - 1 :], node.outputs)
        ):
            self._ahead, self._program = self._ahead - 1, longer
        for number, p in enumerate(node.predicates):
            columns = tuple(sorted(columns_used(p)))
            textual = any(is_textual(node.input.schema[c].type) for c in columns)
            if not self._tests or self._tests[-1][1] != columns or textual or number == self._ahead:
                self._tests.append(([], columns))
            self._tests[-1][0].append(scalar.compile(p))
            if number < self._ahead:
                self._tests_ahead = len(self._tests)
        self._output_columns = [tuple(sorted(columns_used(o))) for o in node.outputs]
        self._outputs = [
            o.index if isinstance(o, ColumnRef) else scalar.compile(o) for o in node.outputs
        ]

    @classmethod
    def install(cls, node: ir.Map, place: Place) -> Self:
        return cls(node, place.shared)

    @property
    def failing(self) -> ErrorState:
        return self.errors

    def kept(self) -> Kept:
        return {"errors": [list(error) for error in self.errors.counts]}

    def load(self, kept: Kept) -> None:
        self.errors.restore(dict(kept["errors"]))

    def columns_read(self, node: ir.Node) -> tuple[int, ...]:
        return self.used

    def start(self, inputs: Inputs) -> Iterator[Delta]:
        return (self.step([piece]) for piece in inputs.pieces(self.node.input))

    def rows(self, inputs: Inputs) -> Iterator[Delta]:
        # By another one: failing rows were counted when they came.
        return MapOperator(self.node).start(inputs)

    def step(self, changes: Sequence[Delta | None]) -> Delta:
        """Cost: one evaluation per surviving row and expression."""
        (delta,) = changes
        if delta is None:
            return self._nothing
        delta = without_unchanged(delta, self.used)
        with scalar.quiet():
            return self._mapped(delta)

    def _mapped(self, delta: Delta) -> Delta:
        program = self._program
        if program is None or len(delta) > FEW_ROWS:
            return self._projected(self._tested(delta, self._tests), [])
        delta = self._tested(delta, self._tests[: self._tests_ahead])
        if len(delta) == 0:
            return self._nothing
        done = program.run(delta)
        if done is None:
            return self._projected(self._tested(delta, self._tests[self._tests_ahead :]), [])
        if done.kept is not None:
            delta = delta.select(done.kept)
        return self._projected(delta, done.columns)

    def _tested(
        self, delta: Delta, tests: Sequence[tuple[list[scalar.Compiled], tuple[int, ...]]]
    ) -> Delta:
        """What passes the predicates."""
        for predicates, columns in tests:
            if len(delta) == 0:
                break
            keep: Bools | None = None
            for predicate in predicates:
                value, errors = predicate.computed(delta.column, len(delta))
                errors = only_where(errors, keep)
                if errors is not None:
                    self._count(errors, delta, columns)
                keep = passing(value) if keep is None else keep & passing(value)
            assert keep is not None
            delta = delta.filter(keep)
        return delta

    def _projected(self, delta: Delta, computed: list[tuple[int, Column]]) -> Delta:
        """The outputs of what passed; `computed`: those that are there, by their numbers."""
        if len(delta) == 0:
            return self._nothing
        there = {i for i, _ in computed}
        failed: Bools | None = None
        for i, output in enumerate(self._outputs):
            if isinstance(output, int) or i in there:
                continue
            value, errors = output.computed(delta.column, len(delta))
            if errors is not None:
                mask = errors.mask
                fresh = errors if failed is None else only_where(errors, ~failed)
                if fresh is not None:
                    self._count(fresh, delta, self._output_columns[i])
                failed = mask if failed is None else failed | mask
            computed.append((i, value))
        origins: list[Origin | None] = [None] * len(self._outputs)
        if failed is not None:
            rows = np.flatnonzero(~failed)
            delta = delta.select(rows)
            computed = [(i, c.take(rows)) for i, c in computed]
        for i, output in enumerate(self._outputs):
            if isinstance(output, int):
                origins[i] = delta.origin(output)
        for i, value in computed:
            origins[i] = value
        return delta.project(self.node.schema, origins)

    def _count(self, errors: Errors, delta: Delta, columns: tuple[int, ...]) -> None:
        """Count failing rows under their messages, with the values that the expression reads.

        The values are the same when the row leaves, whatever changes in its other columns.
        """
        rows = np.flatnonzero(errors.mask)
        columns = _shown(self.node.input, columns, self.used)
        named = [f"{self.node.input.schema[c].name} = " for c in columns]
        values = [
            texts(from_column(delta.peek(c, rows), delta.schema[c].type), quoted=True)
            for c in columns
        ]
        for i, row in enumerate(rows.tolist()):
            message = errors.message(row)
            assert message is not None
            if columns:
                cells = (shortened(column[i], _SHOWN_CHARACTERS) for column in values)
                listed = ", ".join(n + cell for n, cell in zip(named, cells, strict=True))
                message = f"{message} (where {listed})"
            self.errors.count(message, int(delta.diff[row]))


def _shown(input: ir.Node, columns: tuple[int, ...], used: tuple[int, ...]) -> tuple[int, ...]:
    """The columns that a message names, of those that an expression reads: a group by its keys,
    which the query has, and not by its accumulators, which it has not."""
    if ir.is_grouped(input):
        keys = input.keys if isinstance(input, ir.Reduce) else input.index.columns
        return tuple(k for k in range(len(keys)) if k in used)
    names = [f.name for f in input.schema]
    # What was joined with groups has their accumulators too.
    halves = {name.replace("sum_top", "sum", 1) for name in names if name.startswith("sum_top(")}
    return tuple(c for c in columns if not _KEPT.match(names[c]) and names[c] not in halves)
