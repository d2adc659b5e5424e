"""Loads: many rows that are only inserted, in parts, or that lie in files.

The parts become blocks as they came, one after the other, so that no column is ever in one piece;
what lies in files stays there. Keys are looked at when the rows are there, and if one was there
already the step takes them back. A table that nobody reads gets no delta: nothing but its own state
grows with the rows.

Invariant: what is kept is what a single insert of all rows leaves, and so is the refusal.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from operators import budget, interrupts
from operators.dataflow import Dataflow
from operators.flight import delta as deltas
from operators.flight.column import Column, Ints
from operators.flight.delta import Delta
from operators.kernels import sorting
from operators.kernels.versions import NEVER
from operators.live import TABLE_READER
from operators.state import changes, encode, equality
from operators.state.arrangement import ArrangementState
from operators.state.relation import PIECE_ROWS, Relation
from operators.state.spine import Batch
from operators.table import Change, Refusal, TableState

#: Inserts of so many rows in all, in more statements than one, are taken as parts.
MANY_ROWS = 1 << 20
_NONE = np.empty(0, np.int64)


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
    part to part; else a batch of the index with a copy of its entries.
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
        added = index.batch_of(state.relation.rows_from(firsts[0]))
        row = _first_duplicate(index, added)
        if row is not None:
            change = int(np.searchsorted(np.array(firsts), row, side="right")) - 1
            place, stored = row - firsts[change], batch[change].stored
            place = place if stored is None else stored.row_at(place)
            return Refusal(changes.DUPLICATE, change, place)
        index.take(added)
        state.passed(state.greatest_with(added.keys))
    dataflow.absorb(state.source)
    if not dataflow.consumers(("", state.source)):
        return deltas.empty(state.source.schema)
    rows = state.relation.rows_from(firsts[0])
    times = np.repeat(np.array([c.time for c in batch], np.int64), [c.rows for c in batch])
    return deltas.births(state.relation, rows, times)


def _appended(relation: Relation, change: Change) -> int:
    """The first row id of a part."""
    interrupts.raise_pending()
    budget.check()
    if change.stored is not None:
        blocks = [(block.home, block.rows) for block in change.stored.blocks]
        assert isinstance(change.time, int), "rows of a load have one time"
        return relation.append_stored(blocks, change.stored.nulls, change.stored.files, change.time)
    return relation.append(change.columns, np.full(change.rows, change.time, np.int64))


def _first_duplicate(index: ArrangementState, added: Batch) -> int | None:
    """The first of the rows in `added`, which the index has not, whose key is one of an earlier
    row's; None if all keys are new. Cost: a seek for each key where the index has entries."""
    found: list[int] = []
    for start in range(0, len(added), PIECE_ROWS):
        interrupts.raise_pending()
        at = slice(start, start + PIECE_ROWS)
        keys, rows = np.ascontiguousarray(added.keys[:, at]), added.rows[at]
        known = _known(index, keys, rows)
        if len(known):
            found.append(int(known.min()))
    found.extend(_repeated(index, added))
    return min(found, default=None)


def _known(index: ArrangementState, keys: Ints, rows: Ints) -> Ints:
    """The rows whose keys int64[w, n] the index has."""
    if index.spine.entries == 0:
        return _NONE
    now = np.full(len(rows), NEVER - 1, np.int64)
    found = index.lookup(keys, now, True, order=np.arange(len(rows)))
    if len(found.row) == 0:
        return _NONE

    def values(column: int, at: Ints) -> Column:
        return index.relation.gather(index.columns[column], rows[at])

    return rows[equality.matching(index, keys, values, found).probe]


def _repeated(index: ArrangementState, added: Batch) -> Iterator[int]:
    """Rows whose key an earlier row of the same batch has, the first of each piece."""
    keys, rows = added.keys, added.rows
    start = 0
    while start < len(rows) - 1:
        interrupts.raise_pending()
        end = min(start + PIECE_ROWS, len(rows))
        same = (keys[:, start + 1 : end] == keys[:, start : end - 1]).all(axis=0)
        again = np.flatnonzero(same) + start + 1
        if len(again) and index.hashed:
            # A run of equal words goes on to where it ends, so that all its values are compared.
            while end < len(rows) and (keys[:, end] == keys[:, end - 1]).all():
                again, end = np.append(again, end), end + 1
            again = _equal_values(index, rows, again)
            if len(again):
                yield int(again.min())
        elif len(again):
            yield int(rows[again].min())
        start = max(end - 1, start + 1)


def _equal_values(index: ArrangementState, rows: Ints, again: Ints) -> Ints:
    """Of entries at positions `again`, whose words are those of the entry before: the rows whose
    values are those of an earlier row."""
    at = np.union1d(again, again - 1)
    sought = np.sort(rows[at])
    columns = [index.relation.gather(c, sought) for c in index.columns]
    words = encode.local_words(columns)
    order = np.lexsort(words[::-1])  # stable: equal ones stay in the order of their rows
    starts = np.empty(len(order) + 1, np.int64)
    starts = starts[: sorting.run_starts(words, order, starts) + 1]
    later = np.ones(len(order), np.bool_)
    later[starts[:-1]] = False
    return sought[order[later]]
