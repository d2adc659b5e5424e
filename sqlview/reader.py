"""The reader: rows of versions of views and tables.

Invariant: nothing here changes anything, or waits for the writer, but for an index that nobody has
asked for before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from operators.flight import arrow
from operators.flight.column import Ints, concat
from operators.flight.rows import RowReader
from operators.naive import naive_in
from operators.nodes.partitions import sort_rows
from operators.nodes.store import consolidate
from operators.state import equality
from operators.state.rows import Rows
from planner import dataflow as ir
from planner.calculus.algebra import SortKey
from planner.calculus.types import Schema
from planner.calculus.zones import Zone
from planner.errors import DataError, ViewError, suggestion
from planner.names import folded
from sqlview.catalog import Table, View
from sqlview.history import Change
from sqlview.versions import Version, Versions
from sqlview.view import Given

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class Reader:
    """Reads versions, in any thread. `zone`: the session's, in which instants are shown."""

    def __init__(self, versions: Versions, zone: Callable[[], Zone]) -> None:
        self._versions = versions
        self._zone = zone

    def rows(self, version: Version, first: int | None = None) -> pa.Table:
        """The rows, of a view in its order; all or the `first`.

        Raises: ViewError while a row under the view cannot be computed. Cost: the rows read; of an
        ordered view also a sort of all.
        """
        check(version.entry, version.messages)
        relation, entry = version.rows, version.entry
        rows = in_order(entry, relation, relation.visible(version.epoch))
        return arrow.from_columns(relation.gather_all(rows[:first]), entry.schema)

    def shown(self, table: pa.Table) -> pa.Table:
        """The table with its instants in the session's time zone, as Spark gives them: the same
        instants in Arrow, other clocks where they become text or Python's values."""
        if not any(map(arrow.is_instant, table.schema.types)):
            return table
        return arrow.in_zone(table, self._zone())

    def count(self, version: Version) -> int:
        """How many rows there are. Raises: as `rows`."""
        check(version.entry, version.messages)
        return version.rows.live_rows

    def before(self, version: Version, changes: Sequence[Change]) -> pa.Table:
        """A view's rows before the changes that have made them what they are in the version, in the
        view's order. Cost: a sort of the rows and the changes."""
        check(version.entry, version.messages)
        relation, entry = version.rows, version.entry
        assert isinstance(entry, View), "changes are of views"
        came = [c.table for c in changes if c.table.num_rows]
        now = relation.gather_all(relation.visible(version.epoch))
        columns = [
            concat([column, *(arrow.to_column(t.column(i).combine_chunks(), f) for t in came)])
            for i, (column, f) in enumerate(zip(now, entry.schema, strict=True))
        ]
        diff = [np.ones(len(now[0]) if now else 0, np.int64)]
        diff += [-t.column("__diff").to_numpy() for t in came]
        every = np.concatenate(diff)
        zeros = np.zeros(len(every), np.int64)
        net = consolidate(columns, zeros, every, relation.hashing, one_time=True)
        rows = np.repeat(net.row, net.sum)
        columns = [c.take(rows) for c in columns]
        if entry.order and len(rows):
            keys = _whole_order(entry)
            order = sort_rows([columns[k.column] for k in keys], keys)
            columns = [c.take(order) for c in columns]
        return arrow.from_columns(columns, entry.schema)

    def lookup(self, version: Version, columns: Sequence[int], values: Sequence[Any]) -> pa.Table:
        """The view's rows whose `columns` have these values; NULL finds NULL.

        Raises: DataError for values that the columns cannot hold; as `rows`. Cost: the first look
        at these columns builds an index of the view's rows, which every later step keeps; then a
        seek, and the rows found.
        """
        check(version.entry, version.messages)
        relation, entry = version.rows, version.entry
        assert isinstance(entry, View), "views are looked up"
        fields = tuple(replace(entry.schema[c], nullable=True) for c in columns)
        with naive_in(self._zone):
            given = RowReader(fields).columns([tuple(values)])
        nullable = any(entry.schema[c].nullable for c in columns)
        if not nullable and any(v is None for v in values):
            return arrow.from_columns(relation.gather_all(_NONE), entry.schema)
        spec = ir.Arrangement(entry.root, tuple(columns), null_safe=nullable)
        index = self._versions.index(version, spec)
        probe = index.probe_words(list(given), 1)
        found = equality.matching(
            index,
            probe,
            lambda k, at: given[k].take(at),
            index.lookup(probe, np.array([version.epoch]), as_of=True),
        ).row
        return arrow.from_columns(relation.gather_all(np.sort(found)), entry.schema)


_NONE: Ints = np.empty(0, np.int64)


def in_order(entry: View | Table, relation: Rows, rows: Ints) -> Ints:
    """Rows of a table or view, in its order. Cost: a sort where there is one."""
    if not (isinstance(entry, View) and entry.order):
        return rows
    keys = _whole_order(entry)
    return rows[sort_rows([relation.gather(k.column, rows) for k in keys], keys)]


def _whole_order(view: View) -> tuple[SortKey, ...]:
    """A view's order, ties broken by its columns from left to right."""
    return view.order + tuple(SortKey(i) for i in range(len(view.schema)))


def check(entry: View | Table, messages: Sequence[str]) -> None:
    """Raises: ViewError if there are messages of rows under a view that cannot be computed."""
    if messages:
        raise ViewError(
            f'view "{entry.name}" is in error: {messages[0]}',
            detail=f"{len(messages)} kinds of rows under it cannot be computed."
            if len(messages) > 1
            else "A row under it cannot be computed.",
            hint="Delete or correct the row; the view recovers with it.",
        )


class ViewRows:
    """What a ViewReader reads: the `version` that is given when it reads."""

    def __init__(
        self,
        version: Callable[[], Version],
        reader: Reader,
        dataframe: Callable[[pa.Table], DataFrame],
        past: Callable[[int], tuple[Version, Sequence[Change]]] | None = None,
        frame: Callable[[], DataFrame] | None = None,
    ) -> None:
        """`past`: the latest version, and what has made it of that of an epoch. `frame`: a
        DataFrame of the latest version that need not read it."""
        self._past = past
        self._frame = frame
        self._version = version
        self._reader = reader
        self._dataframe = dataframe

    def table(self, first: int | None = None) -> pa.Table:
        return self._reader.shown(self._reader.rows(self._version(), first))

    def count(self) -> int:
        return self._reader.count(self._version())

    def dataframe(self) -> DataFrame:
        return self._dataframe(self.table()) if self._frame is None else self._frame()

    def lookup(self, names: tuple[str, ...], values: tuple[Any, ...]) -> pa.Table:
        version = self._version()
        found = self._reader.lookup(version, positions(_view(version), names), values)
        return self._reader.shown(found)

    def as_of(self, epoch: int) -> Given:
        if self._past is None:
            raise DataError(
                "a snapshot is of one epoch", hint="Ask the session for the view as of others."
            )
        version, changes = self._past(epoch)
        table = self._reader.shown(self._reader.before(version, changes))
        return Given(table, self._dataframe)

    @property
    def schema(self) -> Schema:
        return self._version().entry.schema

    @property
    def key(self) -> tuple[str, ...] | None:
        view = _view(self._version())
        return None if view.key is None else tuple(view.schema[k].name for k in view.key)

    @property
    def changes(self) -> int:
        return self._version().changes

    @property
    def epoch(self) -> int:
        return self._version().epoch


def _view(version: Version) -> View:
    assert isinstance(version.entry, View), "the reader of a view"
    return version.entry


def positions(view: View, names: Sequence[str]) -> tuple[int, ...]:
    """Columns of a view by name, case-insensitively. Raises: DataError for one that it lacks."""
    known = {folded(f.name): i for i, f in enumerate(view.schema)}
    missing = [n for n in names if folded(n) not in known]
    if missing:
        listed = ", ".join(f'"{f.name}"' for f in view.schema)
        raise DataError(
            f'view "{view.name}" has no column "{missing[0]}"',
            detail=f"It has {listed}.",
            hint=suggestion(missing[0], [f.name for f in view.schema]),
        )
    return tuple(known[folded(n)] for n in names)
