"""Base tables: user changes checked, normalised, and written.

Changes are taken in statement order, each at its transaction's time, against the current rows and
the earlier changes of the same step. A table with a key holds at most one row a key: inserting a
present key and deleting an absent one are errors, an upsert replaces. A bag takes any row, and a
delete kills one equal row. Nothing is written until all changes of all tables have been checked.

Rows that come in ascending order of their keys are known to be new without a look: the greatest key
so far is enough. The index on the key is therefore brought up to date for a check that needs it, or
for its first reader, and not before: a table that is loaded in order pays nothing for its key.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from operators import delta as deltas
from operators.column import Column, Ints, concat
from operators.delta import Delta
from operators.kernels import sorting
from operators.state import changes, encode
from operators.state.arrangement import ArrangementState
from operators.state.changes import Normalised
from operators.state.relation import Relation
from operators.state.spine import keys_at, sort_keys
from operators.store import apply_changes, living
from planner import dataflow as ir

_NONE = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class Change:
    """A batch of one statement: `action` is INSERT, DELETE or UPSERT of operators.state.changes.

    `columns`: all columns of the table, except that a delete by key has the key's columns, in the
    key's order. `time`: the transaction's epoch.
    """

    action: int
    columns: list[Column]
    time: int


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why changes cannot be taken: DUPLICATE or ABSENT, in which change, at which of its rows."""

    problem: int
    change: int
    row: int


@dataclass(frozen=True, slots=True)
class Sorted:
    """Key words int64[w, n] of new rows, and the positions that sort them (spine.sort_keys)."""

    words: Ints
    order: Ints


@dataclass(frozen=True, slots=True)
class Checked:
    """Changes that passed; `born` are the values of applied.births, `keys` their keys in the index
    that found the rows, where the check has them sorted already. `greatest` int64[w]: a key that
    none of the table's rows exceeds after them; None if it is not known."""

    born: list[Column]
    applied: Normalised
    greatest: Ints | None
    keys: Sorted | None = None


class TableState:
    """One base table. `key`: positions of the primary key's columns, or None for a bag.

    State: `relation`. The index that finds rows (on the key, or on the row's hash) is asked for by
    `index` when it is first needed; an enforced key needs it from the start.
    """

    def __init__(self, source: ir.Source, key: tuple[int, ...] | None) -> None:
        self.source = source
        self.key = key
        self.relation = Relation(source.schema)
        #: Words of a key that no row exceeds; empty before the first row, None if not known.
        self._greatest: Ints | None = _NONE

    @property
    def row_index(self) -> ir.Index:
        """The identity of the index that finds the row to delete or replace."""
        if self.key is None:
            return ir.HashArrangement(self.source)
        return ir.Arrangement(self.source, self.key)

    def check(
        self, batch: Sequence[Change], index: ArrangementState | None, deferred: bool = False
    ) -> Checked | Refusal:
        """Normalise a step's changes (times not falling). Writes nothing but to `index`.

        `index`: the state of `row_index`; None only where no change needs it: inserts into a bag,
        or into a key that is not enforced. `deferred`: nobody else reads it, so that it need not
        have the rows of earlier steps, nor get those of this one.
        """
        plain = all(c.action == changes.INSERT for c in batch)
        if plain and (index is None or self.key is None):
            return Checked(self._values(batch), _plain_births(_times(batch)), None)
        assert index is not None, "the index on the key finds the rows that go"
        words = self._words(batch, index)
        if plain and self._greatest is not None and sorting.ascends(words, self._greatest):
            return self._ascending(batch, words, index, deferred)
        actions = np.concatenate([np.full(_rows(c), c.action, np.int64) for c in batch])
        times = _times(batch)
        inserts = [c for c in batch if c.action != changes.DELETE]
        # Row of an action among the inserted rows; births are taken from those.
        inserted_at = np.cumsum(actions != changes.DELETE) - 1
        index.absorb()
        applied, order = self._normalise(words, actions, times, index)
        if applied.problem != changes.OK:
            sizes = np.cumsum([_rows(c) for c in batch])
            change = int(np.searchsorted(sizes, applied.problem_row, side="right"))
            before = int(sizes[change - 1]) if change else 0
            return Refusal(applied.problem, change, applied.problem_row - before)
        if not inserts:
            return Checked(self.relation.gather_all(_NONE), applied, self._greatest)
        greatest = self._greatest
        if self.key is not None and greatest is not None:
            top = words[:, sorting.greatest(words)].reshape(-1, 1).copy()
            greatest = top[:, 0] if sorting.ascends(top, greatest) else greatest
        born = self._values(inserts)
        rows = inserted_at[applied.births]
        if len(rows) == len(born[0]) and bool((np.diff(rows) > 0).all()):
            keys = Sorted(words, order) if len(rows) == words.shape[1] else None
            return Checked(born, applied, greatest, keys)
        return Checked([c.take(rows) for c in born], applied, greatest)

    def write(self, checked: Checked, index: ArrangementState | None) -> Delta:
        """Write checked changes to the relation and to the index that they were checked with, if it
        is to have them now; returns the table's delta."""
        delta = apply_changes(self.relation, checked.born, checked.applied)
        self._greatest = checked.greatest
        if index is not None and checked.keys is not None:
            # Every change is a birth: the delta tells the dead first.
            rows = delta.bindings[0].rows[-len(checked.keys.order) :]
            index.insert(rows, checked.keys.words, checked.keys.order)
        return delta

    def snapshot(self, time: int) -> Delta:
        """All rows visible as of `time`, as births at that time."""
        return snapshot(self.relation, time)

    def _normalise(
        self, words: Ints, actions: Ints, times: Ints, index: ArrangementState
    ) -> tuple[Normalised, Ints]:
        """The births and deaths of changes with the key words int64[w, n], and their order."""
        n = words.shape[1]
        order, starts = sort_keys(words), np.empty(n + 1, np.int64)
        groups = sorting.run_starts(words, order, starts)
        starts = starts[: groups + 1]
        wanted = np.arange(groups)
        if self.key is None:
            sorted_actions = actions[order]
            wanted = np.flatnonzero(np.minimum.reduceat(sorted_actions, starts[:-1]) < 0)
        probes = keys_at(words, order[starts[wanted]])
        live_start, live_rows = living(index, probes, wanted, starts)
        if len(live_rows) == 0 and groups == n and (actions != changes.DELETE).all():
            return _plain_births(times), order
        unique = self.key is not None
        applied = changes.normalise(order, starts, actions, times, live_start, live_rows, unique)
        return applied, order

    def _ascending(
        self, batch: Sequence[Change], words: Ints, index: ArrangementState, deferred: bool
    ) -> Checked:
        """Inserts of keys that ascend from the greatest so far, which cannot fail."""
        greatest = np.ascontiguousarray(words[:, -1])
        keys = None
        if not deferred:
            index.absorb()
            keys = Sorted(words, sort_keys(words))
        return Checked(self._values(batch), _plain_births(_times(batch)), greatest, keys)

    def _values(self, batch: Sequence[Change]) -> list[Column]:
        fields = range(len(self.source.schema))
        return [concat([c.columns[i] for c in batch]) for i in fields]

    def _words(self, batch: Sequence[Change], index: ArrangementState) -> Ints:
        parts: list[Ints] = []
        for change in batch:
            columns = change.columns
            if self.key is None:
                parts.append(encode.row_hash(columns))
                continue
            if change.action != changes.DELETE:
                columns = [columns[k] for k in self.key]
            parts.append(index.probe_words(columns, len(columns[0])))
        return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)


def snapshot(relation: Relation, time: int) -> Delta:
    """All rows of a stored relation as of `time`, as births at that time."""
    rows = relation.visible(time)
    n = len(rows)
    return deltas.bound(relation, rows, np.full(n, time, np.int64), np.ones(n, np.int64))


def _rows(change: Change) -> int:
    return len(change.columns[0])


def _times(batch: Sequence[Change]) -> Ints:
    return np.repeat(np.array([c.time for c in batch], np.int64), [_rows(c) for c in batch])


def _plain_births(times: Ints) -> Normalised:
    none = _NONE
    return Normalised(np.arange(len(times)), times, none, none, none, none, none, changes.OK, 0)
