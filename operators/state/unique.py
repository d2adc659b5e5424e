"""Keys that are to be unique: where new entries have one twice, or one that an index has."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from operators import interrupts
from operators.flight.column import Column, Ints
from operators.kernels import sorting
from operators.kernels.versions import NEVER
from operators.state import encode, equality
from operators.state.arrangement import IndexReader
from operators.state.relation import PIECE_ROWS
from operators.state.rows import Rows
from operators.state.spine import Batch
from planner import dataflow as ir


@dataclass(frozen=True, slots=True, eq=False)
class Matched:
    """Changed rows, and the living rows that have their keys. `batches`, `greatest`: as of `Built`,
    of rows that come. `repeated`: the first changed row whose key an earlier one has, and that;
    else `missing`, the first whose key no living row has, and `rows` int64[n] with the rows `old`
    int64[n] of their keys."""

    batches: tuple[Batch, ...]
    greatest: Ints
    repeated: tuple[int, int] | None
    missing: int | None
    rows: Ints
    old: Ints


def keys_alone(index: IndexReader, keys: Rows) -> IndexReader:
    """What makes words of rows that have the columns of the index's key alone."""
    source = ir.Source("", keys.schema)
    return IndexReader(ir.Arrangement(source, tuple(range(len(keys.schema)))), keys)


def matched(index: IndexReader, changed: IndexReader, added: Batch) -> Matched:
    """The changed rows `added`, which the index has not. `changed`: what has made their words.
    Cost: a seek for each key."""
    none = np.empty(0, np.int64)
    pairs = [
        pair for later, earlier in _repeated(changed, added) for pair in _least(later, earlier)
    ]
    if pairs:
        return Matched((), added.keys[:, :0], min(pairs), None, none, none)
    rows, old, missing = [none], [none], None
    for start in range(0, len(added), PIECE_ROWS):
        interrupts.raise_pending()
        at = slice(start, start + PIECE_ROWS)
        here, there = _known(
            index, changed, np.ascontiguousarray(added.keys[:, at]), added.rows[at]
        )
        rows.append(here)
        old.append(there)
        absent = np.setdiff1d(added.rows[at], here)
        if len(absent):
            missing = int(absent[0]) if missing is None else min(missing, int(absent[0]))
    return Matched((added,), added.keys, None, missing, np.concatenate(rows), np.concatenate(old))


def first_repeated(index: IndexReader, added: Batch) -> tuple[int, int] | None:
    """The first of the rows in `added`, which the index has not, whose key is one of an earlier
    row's, and that row; None if all keys are new. Cost: a seek for each key where the index has
    entries."""
    found: list[tuple[int, int]] = []
    for start in range(0, len(added), PIECE_ROWS):
        interrupts.raise_pending()
        at = slice(start, start + PIECE_ROWS)
        keys, rows = np.ascontiguousarray(added.keys[:, at]), added.rows[at]
        found += _least(*_known(index, index, keys, rows))
    for later, earlier in _repeated(index, added):
        found += _least(later, earlier)
    return min(found, default=None)


def _least(later: Ints, earlier: Ints) -> list[tuple[int, int]]:
    """Of pairs of rows, the one with the first later one, if there are any."""
    if len(later) == 0:
        return []
    at = int(np.argmin(later))
    return [(int(later[at]), int(earlier[at]))]


def _known(index: IndexReader, changed: IndexReader, keys: Ints, rows: Ints) -> tuple[Ints, Ints]:
    """The rows whose keys int64[w, n], made by `changed`, the index has, and those that it has them
    of."""
    none = np.empty(0, np.int64)
    if index.spine.entries == 0:
        return none, none
    now = np.full(len(rows), NEVER - 1, np.int64)
    found = index.lookup(keys, now, True, order=np.arange(len(rows)))
    if len(found.row) == 0:
        return none, none

    def values(column: int, at: Ints) -> Column:
        return changed.relation.gather(changed.columns[column], rows[at])

    found = equality.matching(index, keys, values, found)
    return rows[found.probe], found.row


def _repeated(index: IndexReader, added: Batch) -> Iterator[tuple[Ints, Ints]]:
    """Rows whose key an earlier row of the same batch has, and those, piece by piece."""
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
            yield _equal_values(index, rows, again)
        elif len(again):
            yield rows[again], rows[again - 1]
        start = max(end - 1, start + 1)


def _equal_values(index: IndexReader, rows: Ints, again: Ints) -> tuple[Ints, Ints]:
    """Of entries at positions `again`, whose words are those of the entry before: the rows whose
    values are those of an earlier row, and that row."""
    at = np.union1d(again, again - 1)
    sought = np.sort(rows[at])
    columns = [index.relation.gather(c, sought) for c in index.columns]
    words = encode.local_words(columns)
    order = np.lexsort(words[::-1])  # stable: equal ones stay in the order of their rows
    starts = np.empty(len(order) + 1, np.int64)
    starts = starts[: sorting.run_starts(words, order, starts) + 1]
    later = np.ones(len(order), np.bool_)
    later[starts[:-1]] = False
    places = np.flatnonzero(later)
    return sought[order[places]], sought[order[places - 1]]
