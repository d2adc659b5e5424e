"""Base tables: user changes checked, normalised, and written.

Changes are taken in statement order, each at its transaction's time, against the current rows and
the earlier changes of the same step. A table with a key holds at most one row a key: inserting a
present key and deleting an absent one are errors, an upsert replaces. A bag takes any row, and a
delete kills one equal row. Nothing is written until all changes of all tables have been checked.
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
    that found the rows, where the check has them sorted already."""

    born: list[Column]
    applied: Normalised
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

    @property
    def row_index(self) -> ir.Index:
        """The identity of the index that finds the row to delete or replace."""
        if self.key is None:
            return ir.HashArrangement(self.source)
        return ir.Arrangement(self.source, self.key)

    def check(self, batch: Sequence[Change], index: ArrangementState | None) -> Checked | Refusal:
        """Normalise a step's changes (times not falling). Writes nothing.

        `index`: the state of `row_index`; None only where no change needs it: inserts into a bag,
        or into a key that is not enforced.
        """
        actions = np.concatenate([np.full(_rows(c), c.action, np.int64) for c in batch])
        times = np.concatenate([np.full(_rows(c), c.time, np.int64) for c in batch])
        inserts = [c for c in batch if c.action != changes.DELETE]
        # Row of an action among the inserted rows; births are taken from those.
        inserted_at = np.cumsum(actions != changes.DELETE) - 1
        keys = None
        if index is None:
            applied = _plain_births(times)
        else:
            applied, keys = self._normalise(batch, actions, times, index)
        if applied.problem != changes.OK:
            sizes = np.cumsum([_rows(c) for c in batch])
            change = int(np.searchsorted(sizes, applied.problem_row, side="right"))
            before = int(sizes[change - 1]) if change else 0
            return Refusal(applied.problem, change, applied.problem_row - before)
        fields = range(len(self.source.schema))
        if not inserts:
            nothing = np.empty(0, np.int64)
            return Checked(self.relation.gather_all(nothing), applied)
        whole = [concat([c.columns[i] for c in inserts]) for i in fields]
        rows = inserted_at[applied.births]
        if len(rows) < len(whole[0]) or (len(rows) > 1 and (np.diff(rows) < 0).any()):
            whole = [c.take(rows) for c in whole]
        return Checked(whole, applied, keys)

    def write(self, checked: Checked, indexes: Sequence[ArrangementState]) -> Delta:
        """Write checked changes to the relation and its live indexes; returns the table's delta."""
        delta = apply_changes(self.relation, checked.born, checked.applied)
        for index in indexes:
            keys = checked.keys
            if keys is not None and index.spec == self.row_index:
                end = self.relation.next_row
                rows = np.arange(end - len(keys.order), end)
                index.insert(rows, keys.words, keys.order)
            else:
                index.absorb()
        return delta

    def snapshot(self, time: int) -> Delta:
        """All rows visible as of `time`, as births at that time."""
        return snapshot(self.relation, time)

    def _normalise(
        self,
        batch: Sequence[Change],
        actions: Ints,
        times: Ints,
        index: ArrangementState,
    ) -> tuple[Normalised, Sorted | None]:
        """The births and deaths; and the keys, where every action is the birth of a key."""
        words = np.concatenate([self._words(c, index) for c in batch], axis=1)
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
            return _plain_births(times), Sorted(words, order)
        unique = self.key is not None
        return (
            changes.normalise(order, starts, actions, times, live_start, live_rows, unique),
            None,
        )

    def _words(self, change: Change, index: ArrangementState) -> Ints:
        if self.key is None:
            return encode.row_hash(change.columns)
        columns = change.columns
        if change.action != changes.DELETE:
            columns = [columns[k] for k in self.key]
        return index.probe_words(columns, len(columns[0]))


def snapshot(relation: Relation, time: int) -> Delta:
    """All rows of a stored relation as of `time`, as births at that time."""
    rows = relation.visible(time)
    n = len(rows)
    return deltas.bound(relation, rows, np.full(n, time, np.int64), np.ones(n, np.int64))


def _rows(change: Change) -> int:
    return len(change.columns[0])


def _plain_births(times: Ints) -> Normalised:
    none = np.empty(0, np.int64)
    return Normalised(np.arange(len(times)), times, none, none, none, none, none, changes.OK, 0)
