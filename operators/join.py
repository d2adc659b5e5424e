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
from operators.delta import Delta, Sought
from operators.linear import passing, without_unchanged
from operators.range_join import RangeJoinOperator
from operators.state import encode, equality
from operators.state.arrangement import ArrangementState
from operators.state.filters import Filter
from operators.state.probes import Probes, sort_probes
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
        self.occurrence = occurrence
        self._residual = [scalar.compile(r) for r in node.residual]
        self.read_through(index)

    def read_through(self, index: ArrangementState) -> None:
        """Look up through `index`: that of the node or, in place of a partial one, a whole one that
        leads with its columns (see Dataflow.index)."""
        self.index = index
        tested = self.occurrence.filter
        if tested is not None and tested.predicate == index.part:
            tested = None  # the index has no other rows
        self._filter = tested
        probed = len(self.node.probe)
        finds_null = self.node.null_safe or (False,) * probed
        self._has_word = index.null_words[:probed]
        # An index over a column that is never NULL has no word for NULL to find.
        self._finds_null = tuple(a and b for a, b in zip(finds_null, self._has_word, strict=True))

    def probe(self, prefix: Delta) -> tuple[Delta, Ints]:
        """The updates that can match (no NULL in the probe), and their key words."""
        present, words = self._key_words(prefix)
        return (prefix if present is None else prefix.select(present)), words

    def _key_words(self, prefix: Delta) -> tuple[Ints | None, Ints]:
        """Positions of the updates that can match, or None for all, and their key words."""
        columns = [prefix.column(c) for c in self.node.probe]
        strict = [c for c, finds in zip(columns, self._finds_null, strict=True) if not finds]
        keep = encode.not_null(strict)
        if keep is None or keep.all():
            return None, self.index.probe_words(columns, len(prefix))
        present = np.flatnonzero(keep)
        columns = [c.take(present) for c in columns]
        return present, self.index.probe_words(columns, len(present))

    def extend(self, prefix: Delta, as_of: bool) -> Delta:
        """The matches of every update of `prefix`. Cost: see ArrangementState.lookup; keys that
        another path or view has looked up by the same rows are sorted already."""
        sought = self._sought(prefix)
        if sought.present is not None:
            prefix = prefix.select(sought.present)
        return self._extend(prefix, sought.probes, as_of)

    def _sought(self, prefix: Delta) -> Sought:
        home = prefix.home(self.node.probe)
        if home is None:
            present, words = self._key_words(prefix)
            return self._candidates(present, words) or Sought(present, sort_probes(words))
        binding, columns = home
        key = (columns, self._has_word, self._finds_null)
        known = binding.sought.get(key)
        if known is None:
            present, words = self._key_words(prefix)
            few = self._candidates(present, words)
            if few is not None:
                return few
            known = binding.sought[key] = Sought(present, sort_probes(words))
        return known

    def _candidates(self, present: Ints | None, words: Ints) -> Sought | None:
        """The lookups of key words that may have a match, where others need not be sorted."""
        kept = self.index.candidates(words)
        if kept is None:
            return None
        words = words.take(kept, axis=1)
        return Sought(kept if present is None else present[kept], sort_probes(words))

    def extend_probed(self, prefix: Delta, words: Ints, as_of: bool) -> Delta:
        """`extend`, with the key words at hand, which an exchange has sent here."""
        return self._extend(prefix, sort_probes(words), as_of)

    def _values(self, prefix: Delta) -> equality.Values:
        return lambda k, at: prefix.column(self.node.probe[k]).take(at)

    def _extend(self, prefix: Delta, probes: Probes, as_of: bool) -> Delta:
        occurrence = self.occurrence
        bits = _NONE if self._filter is None else self._filter.bits
        matches = self.index.lookup_sorted(probes, prefix.time, as_of, bits)
        if self.index.hashed:
            matches = equality.matching(self.index, probes, self._values(prefix), matches)
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
        self._schema = node.schema
        self._nothing = deltas.empty(self._schema)
        firsts = ir.offsets(tuple(i.schema for i in node.inputs))
        self.occurrences = [
            Occurrence(r, f, first) for r, f, first in zip(relations, filters, firsts, strict=True)
        ]
        #: By source: the join's columns where that input alone is bound.
        self._placed = [
            [c for i, o in enumerate(node.inputs) for c in _columns(0 if i == j else None, o)]
            for j in range(len(node.inputs))
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
        self._used, self._compared = _columns_used(node)
        self._reads = [self._columns_read(i) for i in range(len(node.inputs))]

    def add_reader(self, columns: tuple[int, ...]) -> None:
        """A consumer reads these columns of the join: updates of others alone may be cancelled."""
        self._wanted.update(columns)
        self._reads = [self._columns_read(i) for i in range(len(self.node.inputs))]

    def read_through(self, spec: ir.Arrangement, index: ArrangementState) -> None:
        """Look up through `index` wherever the plan says `spec`."""
        for path in self.paths:
            for step in path:
                if isinstance(step, HalfJoinOperator) and step.node.index == spec:
                    step.read_through(index)

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
        if occurrence.filter is not None and len(delta):
            delta = delta.passing(occurrence.filter)
        occurrence.relation.work.prefixes += len(delta)
        return delta.rebound(self._schema, self._placed[source])

    def _start_events(self, occurrence: Occurrence, delta: Delta) -> Delta:
        """Events over the join's columns: as they came, since no relation has their rows."""
        occurrence.relation.work.prefixes += len(delta)
        origins: list[deltas.Origin] = [None] * len(self._schema)
        for i in range(len(delta.schema)):
            origins[occurrence.first + i] = delta.origin(i)
        return delta.project(self._schema, origins)

    def step(self, changes: list[Delta | None]) -> Delta:
        """The join's changes from those of its inputs, one delta per occurrence (None: none)."""
        parts: list[Delta] = []
        for path in self.node.paths:
            delta = changes[path.source]
            if delta is not None and len(delta):
                parts.append(self.follow(path.source, delta))
        return self.merged([p for p in parts if len(p)])

    def follow(self, source: int, delta: Delta, snapshot: bool = False) -> Delta:
        """Path `source` for `delta`. `snapshot`: delta is all of the input as of its one time, and
        every other input is seen as of that time too."""
        prefix = self.start(source, delta)
        for half_join in self.paths[source]:
            if len(prefix) == 0:
                break
            prefix = half_join.extend(prefix, snapshot or half_join.node.as_of)
        return prefix

    def merged(self, parts: list[Delta]) -> Delta:
        """Deltas of several paths, each with every input bound, as one that is still bound."""
        if not parts:
            return self._nothing
        if len(parts) == 1:
            return parts[0]
        # Paths bind the inputs in different orders: line the bindings up by input.
        bindings: list[deltas.Binding] = []
        origins: list[deltas.Origin] = []
        for occurrence, source in zip(self.occurrences, self.node.inputs, strict=True):
            own = [p.binding_of(occurrence.first) for p in parts]
            origins.extend(_columns(len(bindings), source))
            rows = np.concatenate([b.rows for b in own])
            bindings.append(deltas.Binding(occurrence.relation, rows))
        return deltas.joined(self._schema, parts, origins, tuple(bindings))

    def _columns_read(self, source: int) -> tuple[int, ...]:
        """Columns of an input whose change can change the join as its consumers read it."""
        node, first = self.node.inputs[source], self.occurrences[source].first
        width = len(node.schema)
        own = {c - first for c in self._wanted | self._used if first <= c < first + width}
        own |= self._compared[source]
        if node.filter is not None:
            own |= columns_used(node.filter)
        return tuple(sorted(own))


def _columns_used(node: ir.DeltaJoin) -> tuple[set[int], list[set[int]]]:
    """The join's columns that a lookup is made by or tested by, and each input's own columns that
    it is looked up by. Cost: the steps of all paths, once."""
    used: set[int] = set()
    compared: list[set[int]] = [set() for _ in node.inputs]
    for path in node.paths:
        for s in path.steps:
            used.update(s.reads)
            used.update(columns_used(*s.residual))
            compared[s.input].update(s.compared)
    return used, compared


def _step(
    node: ir.HalfJoin | ir.RangeJoin, index: ArrangementState, occurrence: Occurrence
) -> HalfJoinOperator | RangeJoinOperator:
    if isinstance(node, ir.RangeJoin):
        return RangeJoinOperator(node, index, occurrence)
    return HalfJoinOperator(node, index, occurrence)


def _columns(binding: int | None, source: ir.JoinInput) -> list[deltas.Bound | None]:
    """The columns of an input, bound by binding number `binding`, or not bound yet."""
    width = len(source.schema)
    return [None if binding is None else deltas.Bound(binding, c) for c in range(width)]
