"""Map and Union: what needs no state.

A map throws rows away predicate by predicate, each on the rows that are left, and computes its
outputs last, so that columns are gathered only for rows that matter. An update that changes no
column the map reads is cancelled before anything is computed (DESIGN §6).
Source: Shared Arrangements §5.1-5.2.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow.compute as pc

from operators import delta as deltas
from operators import scalar
from operators.arrow import from_column
from operators.column import Bools, Column, concat
from operators.delta import Delta, Origin
from operators.errors import ErrorState
from operators.scalar.value import Errors, only_where
from planner import dataflow as ir
from planner.expr import Column as ColumnRef
from planner.expr import columns_used

#: Of one value, in the message of a row that cannot be computed.
_SHOWN_CHARACTERS = 100


class MapOperator:
    """Filter and project a delta. State: the messages of failing rows."""

    def __init__(self, node: ir.Map) -> None:
        self.node = node
        self.errors = ErrorState()
        self._nothing = deltas.empty(node.schema)
        self.used = tuple(sorted(columns_used(*node.predicates, *node.outputs)))
        self._predicates = [scalar.compile(p) for p in node.predicates]
        self._predicate_columns = [tuple(sorted(columns_used(p))) for p in node.predicates]
        self._output_columns = [tuple(sorted(columns_used(o))) for o in node.outputs]
        self._outputs = [
            o.index if isinstance(o, ColumnRef) else scalar.compile(o) for o in node.outputs
        ]

    def step(self, delta: Delta) -> Delta:
        """The output's delta. Cost: one evaluation per surviving row and expression."""
        delta = without_unchanged(delta, self.used)
        for predicate, predicate_columns in zip(
            self._predicates, self._predicate_columns, strict=True
        ):
            if len(delta) == 0:
                break
            value, errors = predicate.evaluate(delta.column, len(delta))
            if errors is not None:
                self._count(errors, delta, predicate_columns)
            delta = delta.filter(passing(value))
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
        named = [f"{self.node.input.schema[c].name} = " for c in columns]
        values = [
            from_column(delta.peek(c, rows), delta.schema[c].type).to_pylist() for c in columns
        ]
        for i, row in enumerate(rows.tolist()):
            message = errors.message(row)
            assert message is not None
            if columns:
                cells = (_shown(column[i]) for column in values)
                listed = ", ".join(n + cell for n, cell in zip(named, cells, strict=True))
                message = f"{message} (where {listed})"
            self.errors.count(message, int(delta.diff[row]))


def _shown(value: object) -> str:
    text = "NULL" if value is None else repr(value) if isinstance(value, str) else str(value)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…"


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

    Cost: a gather and a comparison of those columns for the rows in pairs.
    """
    if delta.pairs is None or len(delta.pairs.old) == 0:
        return delta
    if len(used) == len(delta.schema) and not delta.pairs.may_be_equal:
        return delta
    old, new = delta.pairs.old, delta.pairs.new
    same = np.ones(len(old), np.bool_)
    for column in used:
        at = np.flatnonzero(same)
        if len(at) == 0:
            break
        same[at] = equal_rows(delta.peek(column, old[at]), delta.peek(column, new[at]))
    if not same.any():
        return delta
    keep = np.ones(len(delta), np.bool_)
    keep[old[same]] = False
    keep[new[same]] = False
    return delta.select(np.flatnonzero(keep))


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
