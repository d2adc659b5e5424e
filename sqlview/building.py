"""Who builds what has many rows: this process, or Spark's tasks, which write into the store.

Asked by the dataflow, under the session's lock, for an index of many rows (`Shared.build`), for the
rows that many others have the keys of (`Shared.match`), for the bits of
filters (`Shared.evaluate`) and for the first rows of a view (`Dataflow.hydrate`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from operators.dataflow import Dataflow, Installed
from operators.executor.placement import least_rows
from operators.flight.delta import Delta
from operators.state.arrangement import ArrangementState
from operators.state.bulk import Built
from operators.state.filters import Filter
from operators.state.relation import Relation
from operators.state.unique import Matched
from planner import dataflow as ir

if TYPE_CHECKING:
    from operators.executor.spark import SparkExecutor

#: What builds where all is placed so, if tasks can; None where this process is to.
BuilderOf: TypeAlias = "Callable[[str], SparkExecutor | None]"


class Building:
    """`placement`: of the session, but for what goes on with one of its own."""

    def __init__(self, dataflow: Dataflow, placement: str, builder_of: BuilderOf) -> None:
        self.placement = placement
        self._dataflow = dataflow
        self._builder_of = builder_of

    def begin(self) -> None:
        """Be asked from now on."""
        self._dataflow.shared.build = self._build
        self._dataflow.shared.match = self._match
        self._dataflow.shared.evaluate = self._evaluate
        self._dataflow.hydrate = self._hydrate

    def _build(self, index: ArrangementState, first: int, unique: bool) -> Built | None:
        if index.relation.next_row - first < least_rows(self.placement):
            return None
        builder = self._builder_of(self.placement)
        if builder is None:
            return None
        return builder.build_index(self._dataflow, index, first, unique)

    def _match(self, index: ArrangementState, changed: Relation, first: int) -> Matched | None:
        if changed.next_row - first < least_rows(self.placement):
            return None
        builder = self._builder_of(self.placement)
        if builder is None:
            return None
        return builder.match(self._dataflow, index, changed, first)

    def _evaluate(self, filters: Sequence[Filter]) -> bool:
        relation = filters[0].relation
        fresh = relation.next_row - min(each.begun for each in filters)
        if min(relation.live_rows, fresh) < least_rows(self.placement):
            return False
        builder = self._builder_of(self.placement)
        return builder is not None and builder.evaluate(self._dataflow, filters)

    def _hydrate(self, sink: Installed, time: int, new: Mapping[ir.Node, Delta | None]) -> bool:
        least = least_rows(self.placement)
        if self._dataflow.live_rows < least:
            return False
        builder = self._builder_of(self.placement)
        if builder is None:
            return False
        rows = builder.hydrate(self._dataflow, sink, time, new, least)
        self._dataflow.on_read(rows or 0)
        return rows is not None
