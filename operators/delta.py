"""Deltas: signed rows at times, with columns that are gathered as late as possible.

A delta is n updates (row, time, diff). Its columns are either computed values or *bound*: column c
of a stored relation at known row ids, gathered when somebody asks, and only for the rows that are
still there. Selecting rows moves row ids, not values.

Invariant: deltas are immutable; `column(i)` always has n rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TypeAlias

import numpy as np

from operators.column import Bools, Column, Ints, concat
from operators.state.relation import Relation
from planner.types import Field, Schema, SqlType


@dataclass(frozen=True, slots=True)
class Binding:
    """Row ids, int64[n], into a relation."""

    relation: Relation
    rows: Ints


@dataclass(frozen=True, slots=True)
class Bound:
    """A column of binding number `binding`."""

    binding: int
    column: int


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

    `may_be_equal`: whether the versions may agree in every column.
    """

    old: Ints
    new: Ints
    may_be_equal: bool


class Delta:
    """n updates over `schema`. time, diff: int64[n]; `pairs` is a hint to cancel updates early."""

    __slots__ = ("_cache", "_origins", "bindings", "diff", "pairs", "schema", "time")

    def __init__(
        self,
        schema: Schema,
        time: Ints,
        diff: Ints,
        origins: list[Origin],
        bindings: tuple[Binding, ...] = (),
        pairs: Pairs | None = None,
    ) -> None:
        self.schema = schema
        self.time = time
        self.diff = diff
        self.bindings = bindings
        self.pairs = pairs
        self._origins = origins
        self._cache: list[Column | None] = [None] * len(origins)

    def __len__(self) -> int:
        return len(self.time)

    def column(self, index: int) -> Column:
        """The values of a column. Cost: a gather on first use, unless it was computed."""
        cached = self._cache[index]
        if cached is None:
            match self._origins[index]:
                case Bound(binding, column):
                    bound = self.bindings[binding]
                    cached = bound.relation.gather(column, bound.rows)
                case Picked(source, rows):
                    cached = source.take(rows)
                case Column() as computed:
                    cached = computed
                case None:
                    raise LookupError(f"column {index} is not bound yet")
            self._cache[index] = cached
        return cached

    def peek(self, index: int, rows: Ints) -> Column:
        """The values of a column at positions `rows` alone."""
        origin = self.origin(index)
        match origin:
            case Column():
                return origin.take(rows)
            case Picked(source, before):
                return source.take(before[rows])
            case Bound(binding, column):
                bound = self.bindings[binding]
                return bound.relation.gather(column, bound.rows[rows])
            case None:
                raise LookupError(f"column {index} is not bound yet")

    def origin(self, index: int) -> Origin:
        """Where a column comes from, to hand it on without gathering it."""
        return self._cache[index] or self._origins[index]

    def binding_of(self, index: int) -> Binding:
        """The binding behind column `index`, which must be bound."""
        origin = self._origins[index]
        if isinstance(origin, Bound):
            return self.bindings[origin.binding]
        raise LookupError(f"column {index} is not bound")

    def select(self, rows: Ints) -> Delta:
        """The updates at positions `rows` (int64[m], any order, repeats allowed)."""
        origins: list[Origin] = []
        for cached, origin in zip(self._cache, self._origins, strict=True):
            match origin:
                case Bound():
                    origins.append(origin)
                case Picked(source, before):
                    if cached is None:
                        origins.append(Picked(source, before[rows]))
                    else:
                        origins.append(Picked(cached, rows))
                case Column():
                    origins.append(Picked(origin, rows))
                case None:
                    origins.append(None)
        bindings = tuple(Binding(b.relation, b.rows[rows]) for b in self.bindings)
        return Delta(self.schema, self.time[rows], self.diff[rows], origins, bindings)

    def extend(self, first: int, relation: Relation, rows: Ints) -> Delta:
        """Bind the columns from position `first` on to the columns of `relation` at `rows`."""
        origins = list(self._origins)
        for i in range(len(relation.schema)):
            origins[first + i] = Bound(len(self.bindings), i)
        extended = Delta(
            self.schema, self.time, self.diff, origins, (*self.bindings, Binding(relation, rows))
        )
        for i, cached in enumerate(self._cache):
            extended._cache[i] = cached
        return extended

    def filter(self, keep: Bools) -> Delta:
        """The updates where `keep` is set; the same object if that is all of them."""
        rows = np.flatnonzero(keep)
        return self if len(rows) == len(self) else self.select(rows)

    def negated(self) -> Delta:
        """The same updates with the opposite sign."""
        return self.times(np.full(len(self), -1, np.int64))

    def times(self, factor: Ints) -> Delta:
        """The same updates, `factor` int64[n] times each."""
        origins = [self.origin(i) for i in range(len(self.schema))]
        return Delta(self.schema, self.time, self.diff * factor, origins, self.bindings)

    def columns(self) -> list[Column]:
        return [self.column(i) for i in range(len(self.schema))]


def empty(schema: Schema) -> Delta:
    """No updates. It is bound to nothing."""
    none = np.empty(0, np.int64)
    return Delta(schema, none, none, [_no_values(f.type) for f in schema])


@cache
def _no_values(kind: SqlType) -> Column:
    return Relation((Field("", kind),)).gather(0, np.empty(0, np.int64))


def bound(
    relation: Relation, rows: Ints, time: Ints, diff: Ints, pairs: Pairs | None = None
) -> Delta:
    """Updates of a stored relation's own rows."""
    origins: list[Origin] = [Bound(0, i) for i in range(len(relation.schema))]
    return Delta(relation.schema, time, diff, origins, (Binding(relation, rows),), pairs)


def concatenate(schema: Schema, parts: list[Delta]) -> Delta:
    """All updates of `parts`, one part after the other. Cost: gathers every column."""
    parts = [p for p in parts if len(p)]
    if not parts:
        return empty(schema)
    if len(parts) == 1:
        return parts[0]
    columns: list[Origin] = [concat([p.column(i) for p in parts]) for i in range(len(schema))]
    time = np.concatenate([p.time for p in parts])
    diff = np.concatenate([p.diff for p in parts])
    return Delta(schema, time, diff, columns)
