"""Loads: many rows that are only inserted, in parts, or that lie in files.

The parts become blocks as they came, one after the other, so that no column is ever in one piece;
what lies in files stays there. Keys are looked at when the rows are there, and if one was there
already the step takes them back. A table that nobody reads gets no delta: nothing but its own state
grows with the rows.

Invariant: what is kept is what a single insert of all rows leaves, and so is the refusal.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from operators import budget, interrupts
from operators.dataflow import Dataflow
from operators.flight import delta as deltas
from operators.flight.delta import Delta
from operators.live import TABLE_READER
from operators.state import changes, unique
from operators.state.arrangement import ArrangementState
from operators.state.bulk import Built
from operators.state.relation import Relation
from operators.table import Change, Refusal, TableState

#: Inserts of so many rows in all, in more statements than one, are taken as parts.
MANY_ROWS = 1 << 20


def is_load(batch: Sequence[Change]) -> bool:
    """Whether the changes of a table, in the order of their statements, are taken as a load."""
    if all(c.stored is None for c in batch):
        if len(batch) < 2 or sum(c.rows for c in batch) < MANY_ROWS:
            return False
    if any(c.action != changes.INSERT for c in batch):
        return False
    times = [c.time for c in batch if isinstance(c.time, int)]
    return len(times) == len(batch) and times == sorted(times)


def load(dataflow: Dataflow, state: TableState, batch: Sequence[Change]) -> Delta | Refusal:
    """Write the inserts of a load, as a part of a step.

    Returns: the table's delta, which is empty if nobody reads it; or why they cannot be taken: the
    step is to be taken back then. Cost: O(parts) beside the state that grows, if keys ascend from
    part to part; else a batch of the index with a copy of its entries,
    unless others build it (`Shared.build`).
    """
    index: ArrangementState | None = None
    deferred = True
    if state.key is not None and state.enforced:
        dataflow.index(state.row_index, TABLE_READER)
        live = dataflow.live_index(state.row_index)
        assert live is not None
        index, deferred = live.state, live.deferred
    ends = None if index is None else state.ascended(batch, index)
    if index is not None and (ends is None or not deferred):
        index.absorb()  # what was there before
    firsts = [_appended(state.relation, change) for change in batch]
    if index is None or ends is not None:
        state.passed(ends)
    else:
        built = _built(index, firsts[0])
        if built.repeated is not None:
            later, earlier = (_place(row, firsts, batch) for row in built.repeated)
            assert later is not None, "it is a row of the load"
            return Refusal(changes.DUPLICATE, *later, earlier)
        index.take(*built.batches)
        state.passed(state.greatest_with(built.greatest))
    dataflow.absorb(state.source)
    if not dataflow.consumers(("", state.source)):
        return deltas.empty(state.source.schema)
    rows = state.relation.rows_from(firsts[0])
    times = np.repeat(np.array([c.time for c in batch], np.int64), [c.rows for c in batch])
    return deltas.births(state.relation, rows, times)


def _built(index: ArrangementState, first: int) -> Built:
    """What the index is to have of the rows from `first` on, whose keys are to be new."""
    build = index.relation.shared.build
    built = None if build is None else build(index, first, True)
    if built is not None:
        return built
    added = index.batch_of(index.relation.rows_from(first))
    return Built((added,), added.keys, unique.first_repeated(index, added))


def _place(row: int, firsts: Sequence[int], batch: Sequence[Change]) -> tuple[int, int] | None:
    """Which row of which change has the id; None: one that was there before."""
    change = int(np.searchsorted(np.array(firsts), row, side="right")) - 1
    if change < 0:
        return None
    place, stored = row - firsts[change], batch[change].stored
    return change, place if stored is None else stored.row_at(place)


def _appended(relation: Relation, change: Change) -> int:
    """The first row id of a part."""
    interrupts.raise_pending()
    budget.check()
    if change.stored is not None:
        blocks = [(block.home, block.rows) for block in change.stored.blocks]
        assert isinstance(change.time, int), "rows of a load have one time"
        return relation.append_stored(blocks, change.stored.nulls, change.stored.files, change.time)
    return relation.append(change.columns, np.full(change.rows, change.time, np.int64))
