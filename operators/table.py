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

from operators.flight import delta as deltas
from operators.flight.column import Column, Ints, concat, counting
from operators.flight.delta import Delta
from operators.flight.few import FewRows
from operators.kernels import batches, sorting
from operators.nodes.store import apply_changes, living_copies
from operators.quick import quick
from operators.state import ascending, changes, encode, equality
from operators.state.arrangement import ArrangementState
from operators.state.changes import Normalised
from operators.state.order import order_of, sort_keys
from operators.state.relation import Relation
from operators.state.stored import StoredRows
from planner import dataflow as ir
from planner.calculus import types as t

_NONE = np.empty(0, np.int64)


@quick
@dataclass(frozen=True, slots=True)
class Change:
    """A batch of one statement: `action` is INSERT, DELETE or UPSERT of operators.state.changes.

    `columns`: all columns of the table, except that a delete by key has the key's columns, in the
    key's order. `time`: the transaction's epoch; or int64[n], the epoch of each row, in any order.
    `stored`: instead of columns, of an insert that is a part of a load (`operators.loading`).
    """

    action: int
    columns: Sequence[Column]
    time: int | Ints
    stored: StoredRows | None = None

    @property
    def rows(self) -> int:
        return len(self.columns[0]) if self.stored is None else len(self.stored)


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why changes cannot be taken: DUPLICATE or ABSENT, in which change, at which of its rows.
    `earlier`: of a load, the change and the row that has the key too, unless that was there."""

    problem: int
    change: int
    row: int
    earlier: tuple[int, int] | None = None


@quick
@dataclass(frozen=True, slots=True)
class Sorted:
    """Key words int64[w, n] of new rows, and the positions that sort them (order.sort_keys)."""

    words: Ints
    order: Ints


@quick
@dataclass(frozen=True, slots=True)
class Checked:
    """Changes that passed; `born` are the values of applied.births, `keys` their keys in the index
    that found the rows, where the check has them sorted already. `greatest` int64[w]: a key that
    none of the table's rows exceeds after them; None if it is not known."""

    born: Sequence[Column]
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
        #: Whether inserts are checked for keys that are there already; told by the dataflow.
        self.enforced = False
        self.relation = Relation(source.schema)
        #: Words of a key that no row exceeds; empty before the first row, None if not known.
        self._greatest: Ints | None = _NONE
        #: The columns of a key whose values are its words as they are; else None.
        self._seen_key: Ints | None = None
        if key is not None and ascending.can_be_seen([source.schema[k].type for k in key]):
            self._seen_key = np.array(key, np.int64)
        self._row_index: ir.Index | None = None

    def add_columns(self, fields: t.Schema, values: Sequence[Column]) -> None:
        """See Dataflow.add_columns."""
        self.relation.undo.before(self)
        self.relation.add_columns(fields, values)
        self.source = ir.Source(self.source.relation, self.relation.schema)

    @property
    def row_index(self) -> ir.Index:
        """The identity of the index that finds the row to delete or replace."""
        known = self._row_index
        if known is None or known.relation is not self.source:
            if self.key is None:
                known = ir.HashArrangement(self.source)
            else:
                known = ir.Arrangement(self.source, self.key)
            self._row_index = known
        return known

    def check(
        self, batch: Sequence[Change], index: ArrangementState | None, deferred: bool = False
    ) -> Checked | Refusal:
        """Normalise a step's changes: those of a time in the order of `batch`. Writes nothing but
        to `index`.

        `index`: the state of `row_index`; None only where no change needs it: inserts into a bag,
        or into a key that is not enforced. `deferred`: nobody else reads it, so that it need not
        have the rows of earlier steps, nor get those of this one.
        """
        if len(batch) == 1 and index is not None:
            few = self._few_that_ascend(batch[0], index, deferred)
            if few is not None:
                return few
        plain = all(c.action == changes.INSERT for c in batch)
        inserts = [c for c in batch if c.action != changes.DELETE]
        times, places = _in_time(batch)
        values = self._values(inserts) if inserts else self.relation.gather_all(_NONE)
        if plain and (index is None or self.key is None):
            return Checked(_taken(values, places), _plain_births(times), None)
        assert index is not None, "the index on the key finds the rows that go"
        if plain and places is None:
            end = self._ascended(values, index, self._greatest)
            if end is not None:
                return self._ascending(values, times, end, None, index, deferred)
        actions = _actions(batch)
        words = self._words(batch, values, actions, index)
        if places is not None:
            words, actions = words.take(places, axis=1), actions[places]
        if plain and self._greatest is not None and sorting.ascends(words, self._greatest):
            end = np.ascontiguousarray(words[:, -1])
            return self._ascending(_taken(values, places), times, end, words, index, deferred)
        index.absorb()
        columns = self._columns(batch, values, places) if index.hashed else []
        applied, order = self._normalise(words, columns, actions, times, index)
        if applied.problem != changes.OK:
            row = applied.problem_row if places is None else int(places[applied.problem_row])
            sizes = np.cumsum(_sizes(batch))
            change = int(np.searchsorted(sizes, row, side="right"))
            return Refusal(applied.problem, change, row - int(sizes[change] - _rows(batch[change])))
        if not inserts:
            return Checked(values, applied, self._greatest)
        greatest = self._greatest if self.key is None else self.greatest_with(words)
        # Births are taken from the values of the inserted rows.
        rows = applied.births if places is None else places[applied.births]
        if len(inserts) < len(batch):
            rows = (np.cumsum(_actions(batch) != changes.DELETE) - 1)[rows]
        all_born = order is not None and len(rows) == words.shape[1]
        keys = Sorted(words, order) if all_born and order is not None else None
        if len(rows) == len(values[0]) and bool((np.diff(rows) > 0).all()):
            return Checked(values, applied, greatest, keys)
        return Checked(_taken(values, rows), applied, greatest, keys)

    def write(self, checked: Checked, index: ArrangementState | None) -> Delta:
        """Write checked changes to the relation and to the index that they were checked with, if it
        is to have them now; returns the table's delta."""
        self.relation.undo.before(self)
        delta = apply_changes(self.relation, checked.born, checked.applied)
        self._greatest = checked.greatest
        if index is not None and checked.keys is not None:
            # Every change is a birth: the delta tells the dead first.
            rows = delta.bindings[0].rows[-len(checked.keys.order) :]
            index.insert(rows, checked.keys.words, checked.keys.order)
        return delta

    def ascended(self, parts: Sequence[Change], index: ArrangementState) -> Ints | None:
        """The last key of inserts if all keys ascend from the greatest so far, which is seen
        without making words of them; else None."""
        greatest = self._greatest
        for part in parts:
            if part.stored is None:
                greatest = self._ascended(part.columns, index, greatest)
            else:
                greatest = part.stored.ascended(greatest)
        return greatest

    def greatest_with(self, keys: Ints) -> Ints | None:
        """A key that neither the table's rows nor the new ones' keys int64[w, n] exceed."""
        if self._greatest is None or keys.shape[1] == 0:
            return self._greatest
        top = keys[:, sorting.greatest(keys)].reshape(-1, 1).copy()
        return top[:, 0] if sorting.ascends(top, self._greatest) else self._greatest

    def passed(self, greatest: Ints | None) -> None:
        """Rows were appended; `greatest`: a key that none exceeds, None if it is not known."""
        self.relation.undo.before(self)
        self._greatest = greatest

    def kept(self) -> Ints | None:
        """What it keeps beside its relation and index."""
        return self._greatest

    def load(self, kept: Ints | None) -> None:
        """Be what another one of its source was when `kept` was taken."""
        self._greatest = kept

    def mark(self) -> tuple[Ints | None, ir.Source]:
        return self._greatest, self.source

    def restore(self, mark: tuple[Ints | None, ir.Source]) -> None:
        self._greatest, self.source = mark

    def snapshot(self, time: int) -> Delta:
        """All rows visible as of `time`, as births at that time."""
        return snapshot(self.relation, time)

    def _normalise(
        self,
        words: Ints,
        columns: list[Column],
        actions: Ints,
        times: Ints,
        index: ArrangementState,
    ) -> tuple[Normalised, Ints | None]:
        """The births and deaths of changes with the key words int64[w, n]; and their order, where
        that is the order of the words alone. `columns`: the keys' values, if they may be hashed."""
        n = words.shape[1]
        order, starts = _runs(words)
        apart = equality.told_apart(words, columns, index.hashed, order, starts)
        if apart is not None:
            order, starts = _runs(apart)
        groups = len(starts) - 1
        wanted = np.arange(groups)
        if self.key is None:
            sorted_actions = actions[order]
            wanted = np.flatnonzero(np.minimum.reduceat(sorted_actions, starts[:-1]) < 0)
        live_start, live_rows = living_copies(
            index, words, columns, order[starts[wanted]], wanted, starts
        )
        in_order = order if apart is None else None
        if len(live_rows) == 0 and groups == n and (actions != changes.DELETE).all():
            return _plain_births(times), in_order
        unique = self.key is not None
        applied = changes.normalise(order, starts, actions, times, live_start, live_rows, unique)
        return applied, in_order

    def _few_that_ascend(
        self, change: Change, index: ArrangementState, deferred: bool
    ) -> Checked | None:
        """Few rows of one time, in the order of their keys, which are greater than all before."""
        rows, keys, greatest = change.columns, self._seen_key, self._greatest
        if (
            change.action != changes.INSERT
            or not isinstance(rows, FewRows)
            or not isinstance(change.time, int)
            or keys is None
            or greatest is None
        ):
            return None
        last = np.empty(len(keys), np.int64)
        if not batches.ascend(rows.values, rows.heads, keys, greatest, last):
            return None
        times = np.empty(rows.values.shape[1], np.int64)
        times.fill(change.time)
        return self._ascending(rows, times, last, None, index, deferred)

    def _ascended(
        self, values: Sequence[Column], index: ArrangementState, greatest: Ints | None
    ) -> Ints | None:
        """The last key of `values` if the keys are seen to ascend from the greatest so far without
        being made into words: they are integers, as they lie."""
        if self.key is None or greatest is None:
            return None
        keys = [values[k] for k in self.key]
        ends = ascending.ends(keys)
        if ends is None or not sorting.ascends(ends[:1].T.copy(), greatest):
            return None
        return ends[1] if ascending.ascend(keys) else None

    def _ascending(
        self,
        values: Sequence[Column],
        times: Ints,
        greatest: Ints,
        words: Ints | None,
        index: ArrangementState,
        deferred: bool,
    ) -> Checked:
        """Inserts of keys that ascend from the greatest so far to `greatest`, which cannot fail.
        `words`: their key words, if they are known."""
        keys = None
        if not deferred:
            index.absorb()
            if words is None:
                words = self._key_words([values[k] for k in self.key or ()], index)
            keys = Sorted(words, sort_keys(words))
        return Checked(values, _plain_births(times), greatest, keys)

    def _values(self, inserts: Sequence[Change]) -> Sequence[Column]:
        if len(inserts) == 1:
            return inserts[0].columns
        fields = range(len(self.source.schema))
        return [concat([c.columns[i] for c in inserts]) for i in fields]

    def _words(
        self,
        batch: Sequence[Change],
        values: Sequence[Column],
        actions: Ints,
        index: ArrangementState,
    ) -> Ints:
        """Key words int64[w, n] of all changes; `values` are those of the inserted rows. Rows of
        many statements are encoded together."""
        deletes = [c.columns for c in batch if c.action == changes.DELETE]
        if not deletes:
            return self._key_words(
                [values[k] for k in self.key] if self.key else list(values), index
            )
        given = [concat([columns[i] for columns in deletes]) for i in range(len(deletes[0]))]
        deleted = self._key_words(given, index)
        if len(deletes) == len(batch):
            return deleted
        inserted = self._key_words(
            [values[k] for k in self.key] if self.key else list(values), index
        )
        words = np.empty((len(deleted), len(actions)), np.int64)
        words[:, actions == changes.DELETE] = deleted
        words[:, actions != changes.DELETE] = inserted
        return words

    def _columns(
        self, batch: Sequence[Change], values: Sequence[Column], places: Ints | None
    ) -> list[Column]:
        """The values that the key words of all changes are made of, in the same order."""
        inserted = [values[k] for k in self.key] if self.key else values
        deletes = [c.columns for c in batch if c.action == changes.DELETE]
        place = np.argsort(_actions(batch) == changes.DELETE, kind="stable").argsort()
        if places is not None:
            place = place[places]
        return [
            concat([column, *(columns[i] for columns in deletes)]).take(place)
            for i, column in enumerate(inserted)
        ]

    def _key_words(self, columns: list[Column], index: ArrangementState) -> Ints:
        if self.key is None:
            return encode.row_words(columns, self.relation.hashing)
        return index.probe_words(columns, len(columns[0]))


def _runs(words: Ints) -> tuple[Ints, Ints]:
    """The order of keys int64[w, n], and where the runs of equal ones start in it."""
    order, starts = sort_keys(words), np.empty(words.shape[1] + 1, np.int64)
    return order, starts[: sorting.run_starts(words, order, starts) + 1]


def snapshot(relation: Relation, time: int) -> Delta:
    """All rows of a stored relation as of `time`, as births at that time."""
    rows = relation.visible(time)
    n = len(rows)
    return deltas.bound(relation, rows, np.full(n, time, np.int64), np.ones(n, np.int64))


def _rows(change: Change) -> int:
    return len(change.columns[0])


def _sizes(batch: Sequence[Change]) -> list[int]:
    return [_rows(c) for c in batch]


def _actions(batch: Sequence[Change]) -> Ints:
    return np.repeat(np.array([c.action for c in batch], np.int64), _sizes(batch))


def _times(batch: Sequence[Change]) -> Ints:
    if len(batch) == 1 and isinstance(batch[0].time, int):
        times = np.empty(_rows(batch[0]), np.int64)
        times.fill(batch[0].time)
        return times
    if all(isinstance(c.time, int) for c in batch):
        return np.repeat(np.array([c.time for c in batch], np.int64), _sizes(batch))
    return np.concatenate([np.broadcast_to(np.asarray(c.time), _rows(c)) for c in batch])


def _in_time(batch: Sequence[Change]) -> tuple[Ints, Ints | None]:
    """The times in order, and the positions that put them so; None where they do not fall."""
    times = _times(batch)
    if (len(batch) == 1 and isinstance(batch[0].time, int)) or (times[1:] >= times[:-1]).all():
        return times, None
    places = order_of(times)
    return times[places], places


def _taken(values: Sequence[Column], places: Ints | None) -> Sequence[Column]:
    return values if places is None else [c.take(places) for c in values]


def _plain_births(times: Ints) -> Normalised:
    none = _NONE
    return Normalised(counting(len(times)), times, none, none, none, none, none, changes.OK, 0)
