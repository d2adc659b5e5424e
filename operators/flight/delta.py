"""Deltas: signed rows at times, with columns that are gathered as late as possible.

A delta is n updates (row, time, diff). Its columns are either computed values or *bound*: column c
of a stored relation at known row ids, gathered when somebody asks, and only for the rows that are
still there. Selecting rows moves row ids, not values. What is gathered through a binding, and the
lookups that are sorted for it, stay with the binding: the views that read a table's changes share
them.

Invariant: deltas are immutable; `column(i)` always has n rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TypeAlias

import numpy as np

from operators.flight.column import Bools, Column, Ints, concat, is_textual, ones
from operators.kernels import memory
from operators.quick import quick
from operators.state.encode import Worded
from operators.state.filters import FilterReader
from operators.state.probes import Probes
from operators.state.relation import Relation
from operators.state.rows import Rows
from planner.calculus.types import Field, Schema, SqlType


@quick
@dataclass(frozen=True, slots=True)
class Sought:
    """The lookups of a binding's rows by some of its columns: the rows that have a key (None: all
    of them), and their keys: sorted, or int64[w, n] where they are few."""

    present: Ints | None
    probes: Probes | Ints


#: The columns of a key; for each, whether NULL has a word, and whether NULL finds it.
KeySpec: TypeAlias = tuple[tuple[int, ...], tuple[bool, ...], tuple[bool, ...]]


class Binding:
    """Row ids, int64[n], into a relation; what has been made of their columns so far."""

    __slots__ = ("_columns", "relation", "rows", "sought")

    def __init__(self, relation: Rows, rows: Ints) -> None:
        self.relation = relation
        self.rows = rows
        self.sought: dict[KeySpec, Sought] = {}
        self._columns: dict[int, Column] = {}

    def column(self, index: int) -> Column:
        """The values of a column. Cost: a gather on first use."""
        values = self._columns.get(index)
        if values is None:
            values = self._columns[index] = self.relation.gather(index, self.rows)
        return values

    def key(self, index: int) -> Column | Worded:
        """A column for those who read its key words alone: short texts are not gathered."""
        kind = self.relation.schema[index].type
        if is_textual(kind) and index not in self._columns:
            words = np.empty((2, len(self.rows)), np.int64)
            if self.relation.text_words(index, self.rows, words):
                return Worded(kind, words)
        return self.column(index)

    def peek(self, index: int, at: Ints) -> Column:
        """The values of a column at positions `at` alone."""
        values = self._columns.get(index)
        return self.relation.gather(index, self.rows[at]) if values is None else values.take(at)

    def select(self, rows: Ints) -> Binding:
        """The binding at positions `rows`."""
        return Binding(self.relation, self.rows.take(rows))


@dataclass(frozen=True, slots=True)
class Bound:
    """A column of binding number `binding`."""

    binding: int
    column: int


@quick
@dataclass(frozen=True, slots=True)
class Picked:
    """Rows of a column that was at hand before a selection."""

    column: Column
    rows: Ints


#: None: a column of a join that is not bound yet.
Origin: TypeAlias = Column | Bound | Picked | None


@dataclass(frozen=True, slots=True)
class Pairs:
    """Updates of one row: positions of the old (-1) and the new (+1) version, at the same time.

    `may_be_equal`: whether the versions may agree in every column. `same`: by column, in which
    pairs it has not changed, as far as somebody has compared it for all; `without`: by the bytes of
    a mask of the pairs, the delta without those, which the views that read it share.
    """

    old: Ints
    new: Ints
    may_be_equal: bool
    same: dict[int, Bools] = field(default_factory=dict, repr=False, compare=False)
    without: dict[bytes, Delta] = field(default_factory=dict, repr=False, compare=False)


class Delta:
    """n updates over `schema`. time, diff: int64[n]; `pairs` is a hint to cancel updates early.

    `one_time`, `one_diff`: whether all times, or all diffs, are known to be the same; selecting
    rows then copies none.
    """

    __slots__ = (
        "_origins",
        "_passing",
        "_values",
        "bindings",
        "diff",
        "one_diff",
        "one_time",
        "pairs",
        "schema",
        "time",
    )

    def __init__(
        self,
        schema: Schema,
        time: Ints,
        diff: Ints,
        origins: Sequence[Origin],
        bindings: tuple[Binding, ...] = (),
        pairs: Pairs | None = None,
        one_time: bool = False,
        one_diff: bool = False,
    ) -> None:
        values = {i: o for i, o in enumerate(origins) if isinstance(o, (Column, Picked))}
        self._set(schema, time, diff, origins, values, bindings, pairs, one_time, one_diff)

    def _set(
        self,
        schema: Schema,
        time: Ints,
        diff: Ints,
        origins: Sequence[Origin],
        values: dict[int, Column | Picked],
        bindings: tuple[Binding, ...],
        pairs: Pairs | None,
        one_time: bool,
        one_diff: bool,
    ) -> None:
        self.schema = schema
        self.time = time
        self.diff = diff
        self.bindings = bindings
        self.pairs = pairs
        self.one_time = one_time
        self.one_diff = one_diff
        # Where columns come from, but for those in `values`.
        self._origins = origins
        self._values = values
        # None where it is all of this one, which would hold itself.
        self._passing: dict[FilterReader, Delta | None] = {}

    def __len__(self) -> int:
        return len(self.time)

    def column(self, index: int) -> Column:
        """The values of a column. Cost: a gather on first use, unless it was computed."""
        # Not by `match`, which takes a bound one apart in six times the time.
        origin = self.origin(index)
        if isinstance(origin, Bound):
            return self.bindings[origin.binding].column(origin.column)
        if isinstance(origin, Picked):
            values = self._values[index] = origin.column.take(origin.rows)
            return values
        if origin is None:
            raise LookupError(f"column {index} is not bound yet")
        return origin

    def key(self, index: int) -> Column | Worded:
        """A column for those who read its key words alone."""
        origin = self.origin(index)
        if isinstance(origin, Bound):
            return self.bindings[origin.binding].key(origin.column)
        return self.column(index)

    def peek(self, index: int, rows: Ints) -> Column:
        """The values of a column at positions `rows` alone."""
        origin = self.origin(index)
        match origin:
            case Column():
                return origin.take(rows)
            case Picked(source, before):
                return source.take(before[rows])
            case Bound(binding, column):
                return self.bindings[binding].peek(column, rows)
            case None:
                raise LookupError(f"column {index} is not bound yet")

    def origin(self, index: int) -> Origin:
        """Where a column comes from, to hand it on without gathering it."""
        value = self._values.get(index)
        return self._origins[index] if value is None else value

    def binding_of(self, index: int) -> Binding:
        """The binding behind column `index`, which must be bound."""
        origin = self._origins[index]
        if isinstance(origin, Bound):
            return self.bindings[origin.binding]
        raise LookupError(f"column {index} is not bound")

    def home(self, columns: tuple[int, ...]) -> tuple[Binding, tuple[int, ...]] | None:
        """The one binding behind all of `columns`, and their positions in its relation."""
        number, own = -1, []
        for index in columns:
            origin = self.origin(index)
            if not isinstance(origin, Bound) or number not in (-1, origin.binding):
                return None
            number = origin.binding
            own.append(origin.column)
        return None if number < 0 else (self.bindings[number], tuple(own))

    def select(self, rows: Ints) -> Delta:
        """The updates at positions `rows` (int64[m], any order, repeats allowed)."""
        values: dict[int, Column | Picked] = {}
        for i, value in self._values.items():
            if isinstance(value, Picked):
                values[i] = Picked(value.column, value.rows[rows])
            else:
                values[i] = Picked(value, rows)
        return self._derived(
            _taken(self.time, rows, self.one_time),
            _taken(self.diff, rows, self.one_diff),
            self._origins,
            values,
            tuple([b.select(rows) for b in self.bindings]),
        )

    def passing(self, test: FilterReader) -> Delta:
        """The updates of a relation's own rows that pass a filter of it; found once."""
        if test not in self._passing:
            found = self.filter(test.test(self.bindings[0].rows))
            self._passing[test] = None if found is self else found
        known = self._passing[test]
        return self if known is None else known

    def extend(self, first: int, width: int, relation: Rows, rows: Ints) -> Delta:
        """Bind `width` columns from position `first` on to those of `relation` at `rows`."""
        origins = list(self._origins)
        origins[first : first + width] = _columns_of(len(self.bindings), width)
        bindings = (*self.bindings, Binding(relation, rows))
        return self._derived(self.time, self.diff, origins, self._values, bindings)

    def filter(self, keep: Bools) -> Delta:
        """The updates where `keep` is set; the same object if that is all of them."""
        rows = keep.nonzero()[0]
        return self if len(rows) == len(self) else self.select(rows)

    def project(self, schema: Schema, origins: Sequence[Origin]) -> Delta:
        """The same updates over other columns; origins are values, or this delta's `origin`s."""
        return Delta(
            schema,
            self.time,
            self.diff,
            origins,
            self.bindings,
            one_time=self.one_time,
            one_diff=self.one_diff,
        )

    def rebound(self, schema: Schema, origins: Sequence[Bound | None]) -> Delta:
        """The same updates over columns all of which are bound, or not bound yet."""
        delta = self._derived(self.time, self.diff, origins, {}, self.bindings)
        delta.schema = schema
        return delta

    def at(self, time: int) -> Delta:
        """The same updates, all at one time. Where they were so before, pairs stay pairs."""
        times = np.full(len(self), time, np.int64)
        delta = self._derived(times, self.diff, self._origins, self._values, self.bindings)
        if self.pairs is not None and self.one_time:
            # What was made of them has the old time.
            delta.pairs = Pairs(self.pairs.old, self.pairs.new, self.pairs.may_be_equal)
        delta.one_time = True
        return delta

    def negated(self) -> Delta:
        """The same updates with the opposite sign."""
        return self._derived(self.time, -self.diff, self._origins, self._values, self.bindings)

    def times(self, factor: Ints) -> Delta:
        """The same updates, `factor` int64[n] times each."""
        diff = self.diff * factor
        delta = self._derived(self.time, diff, self._origins, self._values, self.bindings)
        delta.one_diff = False
        return delta

    def columns(self) -> list[Column]:
        return [self.column(i) for i in range(len(self.schema))]

    def _derived(
        self,
        time: Ints,
        diff: Ints,
        origins: Sequence[Origin],
        values: dict[int, Column | Picked],
        bindings: tuple[Binding, ...],
    ) -> Delta:
        derived = Delta.__new__(Delta)
        derived._set(
            self.schema, time, diff, origins, values, bindings, None, self.one_time, self.one_diff
        )
        return derived


def _taken(values: Ints, rows: Ints, one: bool) -> Ints:
    """`values` at positions `rows`; `one`: all of them are the same."""
    m = len(rows)
    if not one:
        return values.take(rows)
    return values[:m] if m <= len(values) else np.full(m, values[0])


@cache
def _columns_of(binding: int, width: int) -> tuple[Bound, ...]:
    return tuple(Bound(binding, i) for i in range(width))


def empty(schema: Schema) -> Delta:
    """No updates. It is bound to nothing."""
    none = np.empty(0, np.int64)
    return Delta(schema, none, none, [_no_values(f.type) for f in schema])


@cache
def _no_values(kind: SqlType) -> Column:
    return Relation((Field("", kind),)).gather(0, np.empty(0, np.int64))


def bound(relation: Rows, rows: Ints, time: Ints, diff: Ints, pairs: Pairs | None = None) -> Delta:
    """Updates of a stored relation's own rows."""
    return _own(relation, rows, time, diff, pairs, memory.all_same(time), memory.all_same(diff))


def births(relation: Rows, rows: Ints, time: Ints) -> Delta:
    """Births of a stored relation's own rows, at times that ascend."""
    one_time = len(time) == 0 or bool(time[0] == time[-1])
    return _own(relation, rows, time, ones(len(time)), None, one_time, True)


def replacing(relation: Rows, dead: Ints, born: Ints, time: int) -> Delta:
    """Of a stored relation some rows die, others are born, all at one time."""
    n = len(dead) + len(born)
    times, diff = np.empty(n, np.int64), np.empty(n, np.int64)
    times.fill(time)
    diff[: len(dead)], diff[len(dead) :] = -1, 1
    one_diff = len(dead) == 0 or len(born) == 0
    return _own(relation, np.concatenate((dead, born)), times, diff, None, True, one_diff)


def _own(
    relation: Rows,
    rows: Ints,
    time: Ints,
    diff: Ints,
    pairs: Pairs | None,
    one_time: bool,
    one_diff: bool,
) -> Delta:
    delta = Delta.__new__(Delta)
    origins, bindings = _columns_of(0, len(relation.schema)), (Binding(relation, rows),)
    delta._set(relation.schema, time, diff, origins, {}, bindings, pairs, one_time, one_diff)
    return delta


def concatenate(schema: Schema, parts: list[Delta]) -> Delta:
    """All updates of `parts`, one part after the other. Cost: gathers every column."""
    parts = [p for p in parts if len(p)]
    if not parts:
        return empty(schema)
    if len(parts) == 1:
        return parts[0]
    columns: list[Origin] = [concat([p.column(i) for p in parts]) for i in range(len(schema))]
    return joined(schema, parts, columns)


def joined(
    schema: Schema, parts: list[Delta], origins: list[Origin], bindings: tuple[Binding, ...] = ()
) -> Delta:
    """The updates of `parts`, of which none is empty, one part after the other, over `origins`."""
    time = np.concatenate([p.time for p in parts])
    diff = np.concatenate([p.diff for p in parts])
    one_time = all(p.one_time and p.time[0] == time[0] for p in parts)
    one_diff = all(p.one_diff and p.diff[0] == diff[0] for p in parts)
    return Delta(schema, time, diff, origins, bindings, one_time=one_time, one_diff=one_diff)
