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

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

import numpy as np
from typing_extensions import Self, assert_never

from operators.flight import delta as deltas
from operators.flight.delta import Delta
from operators.flight.unchanged import without_unchanged
from operators.nodes.counted_join import CountedJoinOperator
from operators.nodes.half_join import HalfJoinOperator, Occurrence
from operators.nodes.operator import Inputs, Operator, Place
from operators.nodes.range_join import RangeJoinOperator
from operators.state.arrangement import IndexReader
from operators.state.filters import FilterReader
from operators.state.rows import Rows
from planner import dataflow as ir
from planner.calculus.expr import columns_used

StepOperator: TypeAlias = HalfJoinOperator | RangeJoinOperator | CountedJoinOperator


class DeltaJoinOperator(Operator[ir.DeltaJoin]):
    """The paths of one n-way join. State: none.

    `first`: the input that the whole join is computed from, if somebody chose it.
    """

    def __init__(
        self,
        node: ir.DeltaJoin,
        relations: Sequence[Rows],
        filters: Sequence[FilterReader | None],
        indexes: Mapping[ir.Index, IndexReader],
        sources: Collection[int] | None = None,
    ) -> None:
        """`relations` and `filters` of the inputs; `indexes` of the paths of `sources`, the inputs
        whose changes are followed (None: all)."""
        self.node = node
        self._schema = node.schema
        self._nothing = deltas.empty(self._schema)
        firsts = ir.offsets(tuple(i.schema for i in node.inputs))
        in_loop = ir.loop_of(node) is not None
        self.occurrences = [
            Occurrence(r, f, first, i.width, in_loop and ir.loop_of(i.relation) is None)
            for r, f, first, i in zip(relations, filters, firsts, node.inputs, strict=True)
        ]
        #: By source: the join's columns where that input alone is bound.
        self._placed = [
            [c for i, o in enumerate(node.inputs) for c in _columns(0 if i == j else None, o)]
            for j in range(len(node.inputs))
        ]
        #: By source; an input that is only looked up has none.
        self.paths: list[list[StepOperator]] = [[] for _ in node.inputs]
        for path in node.paths:
            if sources is None or path.source in sources:
                self.paths[path.source] = [_step(s, indexes, self.occurrences) for s in path.steps]
        self._events = next(
            (i for i, x in enumerate(node.inputs) if ir.gives_events(x.relation)), None
        )
        self.first: int | None = None
        self._wanted: set[int] = set()
        self._used, self._compared = _columns_used(node)
        self._reads = [self._columns_read(i) for i in range(len(node.inputs))]

    @classmethod
    def install(cls, node: ir.DeltaJoin, place: Place) -> Self:
        return cls(
            node,
            [
                place.new_relation(i.schema)
                if ir.gives_events(i.relation)
                else place.relation(i.stored)
                for i in node.inputs
            ],
            [place.filter(i) for i in node.inputs],
            {spec: place.index(spec) for spec in ir.indexes(node)},
        )

    @property
    def takes(self) -> tuple[ir.Node, ...]:
        """Each occurrence's relation."""
        return tuple(i.relation for i in self.node.inputs)

    def add_reader(self, columns: tuple[int, ...]) -> None:
        """A consumer reads these columns of the join: updates of others alone may be cancelled."""
        self._wanted.update(columns)
        self._reads = [self._columns_read(i) for i in range(len(self.node.inputs))]

    def read_through(self, spec: ir.Arrangement, index: IndexReader) -> None:
        """Look up through `index` wherever the plan says `spec`."""
        for path in self.paths:
            for lookup in (h for step in path for h in step.lookups):
                if isinstance(lookup, HalfJoinOperator) and lookup.node.index == spec:
                    lookup.read_through(index)

    @property
    def wanted(self) -> tuple[int, ...]:
        """Columns that the consumers read."""
        return tuple(sorted(self._wanted))

    def reads(self, source: int) -> tuple[int, ...]:
        """Columns of an input whose change can change the join as its consumers read it."""
        return self._reads[source]

    @property
    def takes_events(self) -> bool:
        """Whether an input is one of events."""
        return self._events is not None

    def start(self, inputs: Inputs) -> Iterator[Delta]:
        return self.rows(inputs)

    def rows(self, inputs: Inputs) -> Iterator[Delta]:
        """The whole join by one path (3DF §8: one delta query), of those with the fewest lookups of
        half an index (ranges with one end) that from the smallest input, without what its filter
        leaves out. A join of events has no rows as of any time."""
        if self._events is not None:
            return
        source = self.by_size()[0] if self.first is None else self.first
        for piece in inputs.read(self.occurrences[source].relation):
            yield self.follow(source, piece, snapshot=True)

    def by_size(self) -> list[int]:
        """The inputs, that from which the whole join is computed first, as far as sizes tell."""
        halves = [sum(map(_is_half_open, path.steps)) for path in self.node.paths]
        sizes = [
            o.relation.live_rows if o.filter is None else o.filter.passing_rows
            for o in self.occurrences
        ]
        return sorted(range(len(sizes)), key=lambda i: (halves[i], sizes[i]))

    def reaches(self, source: int, pieces: Iterable[Delta], most: int) -> bool:
        """Whether the path of an input, of whose rows there are `pieces`, comes to `most` rows or
        more in one of its steps. Cost: as long as it does not, that of the path, and then that of
        one step more; rows are followed a few at a time, first one."""
        counts = [0] * (len(self.paths[source]) + 1)
        taken = 1
        for piece in pieces:
            first = 0
            while first < len(piece):
                prefix = piece.select(np.arange(first, min(first + taken, len(piece))))
                first, taken = first + taken, 2 * taken
                prefix = self.begin(source, prefix)
                for step, half_join in enumerate(self.paths[source]):
                    if len(prefix) == 0:
                        break
                    prefix = half_join.extend(prefix, snapshot=True)
                    counts[step] += len(prefix)
                    if counts[step] >= most:
                        return True
        return False

    def begin(self, source: int, delta: Delta) -> Delta:
        """The changes of occurrence `source` that pass its filter, over the join's columns."""
        occurrence = self.occurrences[source]
        if source == self._events:
            return self._begin_events(occurrence, delta)
        delta = without_unchanged(delta, self._reads[source])
        if occurrence.filter is not None and len(delta):
            delta = delta.passing(occurrence.filter)
        occurrence.relation.work.prefixes += len(delta)
        return delta.rebound(self._schema, self._placed[source])

    def _begin_events(self, occurrence: Occurrence, delta: Delta) -> Delta:
        """Events over the join's columns: as they came, since no relation has their rows."""
        occurrence.relation.work.prefixes += len(delta)
        origins: list[deltas.Origin] = [None] * len(self._schema)
        for i in range(len(delta.schema)):
            origins[occurrence.first + i] = delta.origin(i)
        return delta.project(self._schema, origins)

    def step(self, changes: Sequence[Delta | None]) -> Delta:
        parts: list[Delta] = []
        for path in self.node.paths:
            delta = changes[path.source]
            if delta is not None and len(delta):
                parts.append(self.follow(path.source, delta))
        return self.together([p for p in parts if len(p)])

    def follow(self, source: int, delta: Delta, snapshot: bool = False) -> Delta:
        """Path `source` for `delta`. `snapshot`: delta is all of the input as of its one time, and
        every other input is seen as of that time too."""
        prefix = self.begin(source, delta)
        for half_join in self.paths[source]:
            if len(prefix) == 0:
                break
            prefix = half_join.extend(prefix, snapshot)
        return prefix

    def together(self, parts: list[Delta]) -> Delta:
        """Of any paths, each with every input bound: as one that is still bound."""
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
        for s in path.lookups:
            used.update(s.reads)
            used.update(columns_used(*s.residual))
            compared[s.input].update(s.compared)
    return used, compared


def _step(
    node: ir.Step, indexes: Mapping[ir.Index, IndexReader], occurrences: Sequence[Occurrence]
) -> StepOperator:
    match node:
        case ir.HalfJoin():
            return HalfJoinOperator(node, indexes[node.index], occurrences[node.input])
        case ir.RangeJoin():
            return RangeJoinOperator(node, indexes[node.index], occurrences[node.input])
        case ir.CountedJoin():
            return CountedJoinOperator(node, indexes, occurrences)
        case _:
            assert_never(node)


def _is_half_open(step: ir.Step) -> bool:
    return isinstance(step, ir.RangeJoin) and len(step.ends) == 1 and bool(step.residual)


def _columns(binding: int | None, source: ir.JoinInput) -> list[deltas.Bound | None]:
    """The columns of an input, bound by binding number `binding`, or not bound yet."""
    width = len(source.schema)
    return [None if binding is None else deltas.Bound(binding, c) for c in range(width)]
