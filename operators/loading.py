"""Loads: many rows that are only inserted, in parts, or that lie in files; and rows in files that
come in place of others, or whose keys say what goes.

The parts become blocks as they came, one after the other, so that no column is ever in one piece;
what lies in files stays there. Keys are looked at when the rows are there, and if one was there
already the step takes them back. A table that nobody reads gets no delta: nothing but its own state
grows with the rows.

Rows that replace others are appended, too; those of the same keys are found by the index and die.
Of rows that go the keys alone lie in files, which the table's index is asked for.

Invariant: what is kept is what a single insert, upsert or delete of all rows leaves, and so is the
refusal; but a key that is there twice among rows in files, which have no order, is refused.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from operators import budget, interrupts
from operators.dataflow import Dataflow
from operators.flight import delta as deltas
from operators.flight.column import counting
from operators.flight.delta import Delta, Pairs
from operators.live import TABLE_READER
from operators.state import changes, unique
from operators.state.arrangement import ArrangementState
from operators.state.bulk import Built
from operators.state.order import order_of
from operators.state.relation import Relation
from operators.state.spine import make_batch
from operators.state.unique import Matched
from operators.table import Change, Refusal, TableState

#: Inserts of so many rows in all, in more statements than one, are taken as parts.
MANY_ROWS = 1 << 20


def is_load(batch: Sequence[Change]) -> bool:
    """Whether the changes of a table, in the order of their statements, are taken as a load."""
    if len(batch) == 1:
        return batch[0].stored is not None and isinstance(batch[0].time, int)
    if all(c.stored is None for c in batch):
        if sum(c.rows for c in batch) < MANY_ROWS:
            return False
    if any(c.action != changes.INSERT for c in batch):
        return False
    times = [c.time for c in batch if isinstance(c.time, int)]
    return len(times) == len(batch) and times == sorted(times)


def load(dataflow: Dataflow, state: TableState, batch: Sequence[Change]) -> Delta | Refusal:
    """Write a load, as a part of a step.

    Returns: the table's delta, which is empty if nobody reads it; or why they cannot be taken: the
    step is to be taken back then. Cost: O(parts) beside the state that grows, if keys ascend from
    part to part; else a batch of the index with a copy of its entries,
    unless others build it (`Shared.build`, `Shared.match`).
    """
    if batch[0].action != changes.INSERT:
        return _changed(dataflow, state, batch[0])
    index: ArrangementState | None = None
    deferred = True
    if state.key is not None and state.enforced:
        live = dataflow.index_of_table(state)
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


def _changed(dataflow: Dataflow, state: TableState, change: Change) -> Delta | Refusal:
    """Rows in files that replace others, or the keys of rows that go."""
    assert change.stored is not None and state.key is not None and isinstance(change.time, int)
    dataflow.index(state.row_index, TABLE_READER)
    live = dataflow.live_index(state.row_index)
    assert live is not None
    index, relation, stored = live.state, state.relation, change.stored
    index.absorb()
    comes = change.action == changes.UPSERT
    changed = relation if comes else Relation(stored.schema, relation.shared)
    first = _appended(changed, change)
    found = _matched(index, changed, first)
    if found.repeated is not None:
        later, earlier = (stored.row_at(row - first) for row in found.repeated)
        problem = changes.DUPLICATE if comes else changes.ABSENT
        return Refusal(problem, 0, later, (0, earlier))
    if found.missing is not None and not comes:
        return Refusal(changes.ABSENT, 0, stored.row_at(found.missing - first))
    born = np.empty(0, np.int64)
    if comes:
        born = relation.rows_from(first)
        index.take(*found.batches)
        state.passed(state.greatest_with(found.greatest))
    order = order_of(found.old)
    gone = found.old[order]
    relation.kill(gone, np.full(len(gone), change.time, np.int64))
    dataflow.absorb(state.source)
    if not dataflow.consumers(("", state.source)):
        return deltas.empty(state.source.schema)
    rows = np.concatenate((gone, born))
    diff = np.ones(len(rows), np.int64)
    diff[: len(gone)] = -1
    pairs = None
    if comes and len(gone):
        new = np.searchsorted(born, found.rows[order]) + len(gone)
        pairs = Pairs(counting(len(gone)), new, may_be_equal=True)
    times = np.full(len(rows), change.time, np.int64)
    return deltas.bound(relation, rows, times, diff, pairs)


def _matched(index: ArrangementState, changed: Relation, first: int) -> Matched:
    """The rows of `changed` from `first` on, and those of the table that have their keys."""
    match = index.relation.shared.match
    found = None if match is None else match(index, changed, first)
    if found is not None:
        return found
    rows = changed.rows_from(first)
    if changed is index.relation:
        return unique.matched(index, index, index.batch_of(rows))
    reader = unique.keys_alone(index, changed)
    return unique.matched(index, reader, make_batch(*reader.key_words(rows)))


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
