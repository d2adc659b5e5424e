"""Map and Union: what needs no state.

A map throws rows away predicate by predicate, each on the rows that are left (those that read the
same numbers on the same rows: comparing again costs less than gathering again), and computes its
outputs last, so that columns are gathered only for rows that matter. An update that changes no
column the map reads is cancelled before anything is computed (DESIGN §6).
Source: Shared Arrangements §5.1-5.2.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pyarrow.compute as pc

from operators import delta as deltas
from operators import scalar
from operators.arrow import from_column
from operators.column import Bools, Column, concat, is_textual
from operators.delta import Delta, Origin, Pairs
from operators.errors import ErrorState
from operators.rendering import texts
from operators.scalar.text import shortened
from operators.scalar.value import Errors, only_where
from operators.state.undo import Undo
from planner import dataflow as ir
from planner.expr import Column as ColumnRef
from planner.expr import columns_used

#: Of one value, in the message of a row that cannot be computed.
_SHOWN_CHARACTERS = 100
#: Names of accumulators that no query has.
_KEPT = re.compile(
    r"(sum_top|sum_double|sum_square\w*|count_rows|first|least|greatest)\(|count\(\*\)"
)
#: So many pairs are compared as quickly as a part of them.
_FEW_PAIRS = 1024


class MapOperator:
    """Filter and project a delta. State: the messages of failing rows."""

    def __init__(self, node: ir.Map, undo: Undo | None = None) -> None:
        self.node = node
        self.errors = ErrorState(undo)
        self._nothing = deltas.empty(node.schema)
        self.used = tuple(sorted(columns_used(*node.predicates, *node.outputs)))
        #: Predicates that are tested on the same rows, and the columns that they read.
        self._tests: list[tuple[list[scalar.Compiled], tuple[int, ...]]] = []
        for p in node.predicates:
            columns = tuple(sorted(columns_used(p)))
            textual = any(is_textual(node.input.schema[c].type) for c in columns)
            if not self._tests or self._tests[-1][1] != columns or textual:
                self._tests.append(([], columns))
            self._tests[-1][0].append(scalar.compile(p))
        self._output_columns = [tuple(sorted(columns_used(o))) for o in node.outputs]
        self._outputs = [
            o.index if isinstance(o, ColumnRef) else scalar.compile(o) for o in node.outputs
        ]

    def step(self, delta: Delta) -> Delta:
        """The output's delta. Cost: one evaluation per surviving row and expression."""
        delta = without_unchanged(delta, self.used)
        for predicates, columns in self._tests:
            if len(delta) == 0:
                break
            keep: Bools | None = None
            for predicate in predicates:
                value, errors = predicate.evaluate(delta.column, len(delta))
                errors = only_where(errors, keep)
                if errors is not None:
                    self._count(errors, delta, columns)
                keep = passing(value) if keep is None else keep & passing(value)
            assert keep is not None
            delta = delta.filter(keep)
        if len(delta) == 0:
            return self._nothing
        computed: list[tuple[int, Column]] = []
        failed: Bools | None = None
        for i, output in enumerate(self._outputs):
            if isinstance(output, int):
                continue
            value, errors = output.evaluate(delta.column, len(delta))
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


class UnionOperator:
    """All updates of all inputs, those of negated inputs with the opposite sign."""

    def __init__(self, node: ir.Union) -> None:
        self.node = node

    def step(self, parts: list[Delta | None]) -> Delta:
        """`parts[i]`: the delta of input i, or None where it has none."""
        negated = self.node.negated or (False,) * len(parts)
        signed = [
            part.negated() if minus else part
            for part, minus in zip(parts, negated, strict=True)
            if part is not None and len(part)
        ]
        return deltas.concatenate(self.node.schema, signed)


class RepeatOperator:
    """Each update as many times as its row says."""

    def __init__(self, node: ir.Repeat) -> None:
        self.node = node

    def step(self, delta: Delta) -> Delta:
        count = delta.column(self.node.count)
        assert count.valid is None, "a count of rows is never NULL"
        rows = np.flatnonzero(count.values > 0)
        return delta.select(rows).times(count.values[rows])


class ConstantOperator:
    """Rows that are always there: they come once, when the view is installed."""

    def __init__(self, node: ir.Constant) -> None:
        self.node = node

    def start(self, time: int) -> Delta:
        """All rows, as births at `time`."""
        n = len(self.node.rows)
        columns: list[Origin] = []
        for i in range(len(self.node.schema)):
            literals = [scalar.compile(row[i]) for row in self.node.rows]
            values = [literal.evaluate(_no_column, 1)[0] for literal in literals]
            columns.append(concat(values))
        return Delta(self.node.schema, np.full(n, time, np.int64), np.ones(n, np.int64), columns)


def _no_column(index: int) -> Column:
    raise LookupError(f"a constant reads no column {index}")


def passing(value: Column) -> Bools:
    """Rows whose BOOLEAN is TRUE, not FALSE or NULL."""
    result: Bools = value.values if value.valid is None else value.values & value.valid
    return result


def without_unchanged(delta: Delta, used: tuple[int, ...]) -> Delta:
    """Drop each update of a row, its -/+ pair, that changes none of the columns `used`.

    Readers that are left with the same updates get the same object. Cost: a gather and a
    comparison of those columns for the rows in pairs, once for all who read the delta.
    """
    pairs = delta.pairs
    if pairs is None or len(pairs.old) == 0:
        return delta
    if len(used) == len(delta.schema) and not pairs.may_be_equal:
        return delta
    same = _unchanged(delta, pairs, used)
    if not same.any():
        return delta
    mask = same.tobytes()
    left = pairs.without.get(mask)
    if left is None:
        keep = np.ones(len(delta), np.bool_)
        keep[pairs.old[same]] = False
        keep[pairs.new[same]] = False
        left = pairs.without[mask] = delta.select(keep.nonzero()[0])
    return left


def _unchanged(delta: Delta, pairs: Pairs, used: tuple[int, ...]) -> Bools:
    """The pairs whose versions agree in all columns `used`, bool[pairs]."""
    known = pairs.same
    same = np.ones(len(pairs.old), np.bool_)
    fresh: list[int] = []
    for column in used:
        found = known.get(column)
        if found is None:
            fresh.append(column)
        else:
            same &= found
    for column in fresh:
        at = same.nonzero()[0]
        if len(at) and (len(same) <= _FEW_PAIRS or 2 * len(at) >= len(same)):
            found = equal_rows(delta.peek(column, pairs.old), delta.peek(column, pairs.new))
            known[column] = found
            same &= found
        elif len(at):  # what is left is not worth comparing the rest
            old, new = pairs.old[at], pairs.new[at]
            same[at] = equal_rows(delta.peek(column, old), delta.peek(column, new))
    return same


def equal_rows(left: Column, right: Column) -> Bools:
    """Whether values are the same, NULL with NULL (bytes of doubles, so that -0.0 is not 0.0)."""
    if isinstance(left.values, np.ndarray):
        a, b = left.values, right.values
        if a.dtype.kind == "f":
            whole = np.int64 if a.dtype.itemsize == 8 else np.int32
            a, b = a.view(whole), b.view(whole)
        same: Any = a == b
        if same.ndim == 2:
            same = same.all(axis=1)
    else:
        same = pc.equal(left.values, right.values).to_numpy(zero_copy_only=False)
    if left.valid is None and right.valid is None:
        both: Bools = same
        return both
    ones = np.ones(len(left), np.bool_)
    left_valid = ones if left.valid is None else left.valid
    right_valid = ones if right.valid is None else right.valid
    equal: Bools = (left_valid == right_valid) & (same | ~left_valid)
    return equal


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
