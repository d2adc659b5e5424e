"""Range joins: one step of a delta path that looks an occurrence up by an inequality.

A half join finds the rows with one key; a range join those between two ends, in an index that is in
the order of the compared column. What it costs are a seek per update and batch, and the matches.

Invariant: as HalfJoinOperator: the matches of every update, at its time, that pass the occurrence's
filter and the residual predicates.
"""

from __future__ import annotations

import numpy as np

from operators import scalar
from operators.flight.column import Column, Ints, passing
from operators.flight.delta import Delta
from operators.nodes.half_join import Occurrence
from operators.state import encode
from operators.state.arrangement import IndexReader
from operators.state.ranges import Bound, slices
from planner import dataflow as ir

#: Pairs that wait for the residual predicates at a time: a range with one end may be half an index.
MOST_PAIRS = 1 << 20


class RangeJoinOperator:
    """One step of a path: look an occurrence up by a range, test its filter and the residuals."""

    def __init__(self, node: ir.RangeJoin, index: IndexReader, occurrence: Occurrence) -> None:
        key = node.index.order[0]
        if key.descending or key.nulls_first:
            raise ValueError("a range is sought in ascending order, NULLs last")
        self.node = node
        self.index = index
        self.occurrence = occurrence
        self._ends = tuple(
            None if e is None else scalar.compile(e.value) for e in (node.low, node.high)
        )
        #: Texts are indexed by their first bytes: there the residual has the comparison too.
        self._exact = encode.order_is_exact([index.relation.schema[key.column].type])
        self._residual = [scalar.compile(r) for r in node.residual]

    @property
    def lookups(self) -> tuple[RangeJoinOperator, ...]:
        return (self,)

    def extend(self, prefix: Delta, snapshot: bool) -> Delta:
        """The matches of every update of `prefix`. Cost: see ranges.between; what the residuals
        throw away is never there all at once."""
        values = [self._value(e, prefix) for e in self._ends]
        present = encode.not_null([v for v in values if v is not None])
        if present is not None and not present.all():
            prefix = prefix.filter(present)
            values = [None if v is None else v.filter(present) for v in values]
        n = len(prefix)
        occurrence = self.occurrence
        low = self._bound(values[0], self.node.low, n)
        high = self._bound(values[1], self.node.high, n)
        partition = np.zeros((1, n), np.int64)
        times, as_of = occurrence.times(prefix.time), snapshot or self.node.as_of
        found = slices(self.index, partition, low, high, times, as_of, MOST_PAIRS)
        kept = [self._tested(prefix, probe, row) for probe, row in found]
        probe = np.concatenate([p for p, _ in kept]) if kept else np.empty(0, np.int64)
        row = np.concatenate([r for _, r in kept]) if kept else np.empty(0, np.int64)
        occurrence.relation.work.prefixes += len(row)
        return prefix.select(probe).extend(
            occurrence.first, occurrence.width, occurrence.relation, row
        )

    def _tested(self, prefix: Delta, probe: Ints, row: Ints) -> tuple[Ints, Ints]:
        """The pairs that pass the occurrence's filter and the residual predicates."""
        occurrence = self.occurrence
        if occurrence.filter is not None and len(row):
            passed = np.flatnonzero(occurrence.filter.test(row))
            probe, row = probe[passed], row[passed]
        for residual in self._residual:
            if len(row) == 0:
                break
            joined = prefix.select(probe).extend(
                occurrence.first, occurrence.width, occurrence.relation, row
            )
            value, errors = residual.evaluate(joined.column, len(joined))
            assert errors is None, "a residual predicate cannot fail"
            passed = np.flatnonzero(passing(value))
            probe, row = probe[passed], row[passed]
        return probe, row

    def _value(self, end: scalar.Compiled | None, prefix: Delta) -> Column | None:
        if end is None:
            return None
        value, errors = end.evaluate(prefix.column, len(prefix))
        assert errors is None, "the end of a range cannot fail"
        return value

    def _bound(self, value: Column | None, end: ir.RangeEnd | None, n: int) -> Bound:
        key = self.node.index.order[0]
        if value is None or end is None:
            # All values but NULL: only the word that tells them counts, 0 for what is not NULL.
            words = np.zeros((self.index.spine.width - 1, n), np.int64)
            return Bound(words, np.ones(n, np.int64), np.zeros(n, np.bool_))
        words = encode.order_words([value], [key])
        every = np.full(n, words.shape[0], np.int64)
        return Bound(words, every, np.full(n, self._exact and not end.inclusive, np.bool_))
