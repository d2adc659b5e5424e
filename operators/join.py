"""Delta joins: the change of one input, extended through the indexes of the others.

An n-way join holds no state of its own. Path i turns a change of input i into changes of the join
by one half join per other input; what it carries are row ids, so that values are gathered once, at
the end, for the rows that came through. Which version of each index a path sees (as of the change's
time, or just before it) is in the plan.

Invariant: over the paths, each change of the join comes out once, at the time of the latest change
that it needs.
Source: 3DF §8.2 and §13.4; Shared Arrangements §5.3.1.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from operators import delta as deltas
from operators import scalar
from operators.column import Ints
from operators.delta import Delta
from operators.linear import passing, without_unchanged
from operators.range_join import RangeJoinOperator
from operators.state import encode
from operators.state.arrangement import ArrangementState
from operators.state.filters import Filter
from operators.state.relation import Relation
from planner import dataflow as ir
from planner.expr import columns_used

_NONE = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class Occurrence:
    """One input of the join at run time; its columns start at `first` among the join's. The
    relation of an input that gives events has no rows."""

    relation: Relation
    filter: Filter | None
    first: int


class HalfJoinOperator:
    """One step of a path: look an occurrence up, test its filter and the residual predicates."""

    def __init__(self, node: ir.HalfJoin, index: ArrangementState, occurrence: Occurrence) -> None:
        self.node = node
        self.index = index
        self.occurrence = occurrence
        self._residual = [scalar.compile(r) for r in node.residual]
        tested = occurrence.filter
        if tested is not None and tested.predicate == node.index.filter:
            tested = None  # the index has no other rows
        self._filter = tested

    def probe(self, prefix: Delta) -> tuple[Delta, Ints]:
        """The updates that can match (no NULL in the probe), and their key words."""
        columns = [prefix.column(c) for c in self.node.probe]
        finds_null = self.node.null_safe or (False,) * len(columns)
        # An index over a column that is never NULL has no word for NULL to find.
        safe = [a and b for a, b in zip(finds_null, self.index.null_words, strict=False)]
        strict = [c for c, finds in zip(columns, safe, strict=True) if not finds]
        present = encode.not_null(strict)
        if present is not None and not present.all():
            prefix = prefix.filter(present)
            columns = [prefix.column(c) for c in self.node.probe]
        return prefix, self.index.probe_words(columns, len(prefix))

    def extend(self, prefix: Delta, as_of: bool) -> Delta:
        """The matches of every update of `prefix`. Cost: see ArrangementState.lookup."""
        prefix, words = self.probe(prefix)
        return self.extend_probed(prefix, words, as_of)

    def extend_probed(self, prefix: Delta, words: Ints, as_of: bool) -> Delta:
        """`extend`, with the key words at hand (they may have been sent here by an exchange)."""
        occurrence = self.occurrence
        bits = _NONE if self._filter is None else self._filter.bits
        matches = self.index.lookup(words, prefix.time, as_of, bits)
        joined = prefix.select(matches.probe).extend(
            occurrence.first, occurrence.relation, matches.row
        )
        for residual in self._residual:
            if len(joined) == 0:
                break
            value, errors = residual.evaluate(joined.column, len(joined))
            assert errors is None, "a residual predicate cannot fail"
            joined = joined.filter(passing(value))
        occurrence.relation.work.prefixes += len(joined)
        return joined


class DeltaJoinOperator:
    """The paths of one n-way join."""

    def __init__(
        self,
        node: ir.DeltaJoin,
        relations: list[Relation],
        filters: list[Filter | None],
        indexes: dict[ir.Index, ArrangementState],
    ) -> None:
        self.node = node
        firsts = ir.offsets(tuple(i.schema for i in node.inputs))
        self.occurrences = [
            Occurrence(r, f, first) for r, f, first in zip(relations, filters, firsts, strict=True)
        ]
        #: By source; an input that is only looked up, by events, has none.
        self.paths: list[list[HalfJoinOperator | RangeJoinOperator]] = [[] for _ in node.inputs]
        for path in node.paths:
            self.paths[path.source] = [
                _step(s, indexes[s.index], self.occurrences[s.input]) for s in path.steps
            ]
        self._events = next(
            (i for i, x in enumerate(node.inputs) if ir.gives_events(x.relation)), None
        )
        self._wanted: set[int] = set()
        self._reads = [self._columns_read(i) for i in range(len(node.inputs))]

    def add_reader(self, columns: tuple[int, ...]) -> None:
        """A consumer reads these columns of the join: updates of others alone may be cancelled."""
        self._wanted.update(columns)
        self._reads = [self._columns_read(i) for i in range(len(self.node.inputs))]

    @property
    def wanted(self) -> tuple[int, ...]:
        """Columns that the consumers read."""
        return tuple(sorted(self._wanted))

    def reads(self, source: int) -> tuple[int, ...]:
        """Columns of an input whose change can change the join as its consumers read it."""
        return self._reads[source]

    def start(self, source: int, delta: Delta) -> Delta:
        """The changes of occurrence `source` that pass its filter, over the join's columns."""
        occurrence = self.occurrences[source]
        if source == self._events:
            return self._start_events(occurrence, delta)
        delta = without_unchanged(delta, self._reads[source])
        rows = delta.bindings[0].rows
        if occurrence.filter is not None and len(rows):
            kept = np.flatnonzero(occurrence.filter.test(rows))
            if len(kept) < len(rows):
                delta, rows = delta.select(kept), rows[kept]
        occurrence.relation.work.prefixes += len(rows)
        origins: list[deltas.Origin] = [None] * len(self.node.schema)
        prefix = Delta(self.node.schema, delta.time, delta.diff, origins)
        return prefix.extend(occurrence.first, occurrence.relation, rows)

    def _start_events(self, occurrence: Occurrence, delta: Delta) -> Delta:
        """Events over the join's columns: as they came, since no relation has their rows."""
        occurrence.relation.work.prefixes += len(delta)
        origins: list[deltas.Origin] = [None] * len(self.node.schema)
        for i in range(len(delta.schema)):
            origins[occurrence.first + i] = delta.origin(i)
        return Delta(self.node.schema, delta.time, delta.diff, origins, delta.bindings)

    def step(self, changes: list[Delta]) -> Delta:
        """The join's changes from those of its inputs, one delta per occurrence."""
        parts: list[Delta] = []
        for path in self.node.paths:
            delta = changes[path.source]
            if len(delta):
                parts.append(self.follow(path.source, delta))
        return merge_bound(self.node, parts)

    def follow(self, source: int, delta: Delta, snapshot: bool = False) -> Delta:
        """Path `source` for `delta`. `snapshot`: delta is all of the input as of its one time, and
        every other input is seen as of that time too."""
        prefix = self.start(source, delta)
        for half_join in self.paths[source]:
            if len(prefix) == 0:
                break
            prefix = half_join.extend(prefix, snapshot or half_join.node.as_of)
        return prefix

    def _columns_read(self, source: int) -> tuple[int, ...]:
        """Columns of an input whose change can change the join as its consumers read it."""
        node = self.node
        first = self.occurrences[source].first
        width = len(node.inputs[source].schema)
        used = set(self._wanted)
        for path in node.paths:
            for s in path.steps:
                used.update(s.reads)
                used.update(columns_used(*s.residual))
                if s.input == source:
                    used.update(first + c for c in s.compared)
        own = {c - first for c in used if first <= c < first + width}
        filter_of = node.inputs[source].filter
        if filter_of is not None:
            own |= columns_used(filter_of)
        return tuple(sorted(own))


def _step(
    node: ir.HalfJoin | ir.RangeJoin, index: ArrangementState, occurrence: Occurrence
) -> HalfJoinOperator | RangeJoinOperator:
    if isinstance(node, ir.RangeJoin):
        return RangeJoinOperator(node, index, occurrence)
    return HalfJoinOperator(node, index, occurrence)


def merge_bound(node: ir.DeltaJoin, parts: list[Delta]) -> Delta:
    """Deltas of several paths as one, still bound to row ids. Each has every input bound."""
    parts = [p for p in parts if len(p)]
    if not parts:
        return deltas.empty(node.schema)
    if len(parts) == 1:
        return parts[0]
    # Paths bind the inputs in different orders: line the bindings up by input.
    firsts = ir.offsets(tuple(i.schema for i in node.inputs))
    bindings: list[deltas.Binding] = []
    origins: list[deltas.Origin] = []
    for first, source in zip(firsts, node.inputs, strict=True):
        own = [p.binding_of(first) for p in parts]
        origins.extend(deltas.Bound(len(bindings), c) for c in range(len(source.schema)))
        rows = np.concatenate([b.rows for b in own])
        bindings.append(deltas.Binding(own[0].relation, rows))
    time = np.concatenate([p.time for p in parts])
    diff = np.concatenate([p.diff for p in parts])
    return Delta(node.schema, time, diff, origins, tuple(bindings))
