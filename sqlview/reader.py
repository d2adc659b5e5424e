"""The reader: rows of views and tables as of the writer's epoch.

Invariant: whoever calls holds the session's lock, so that no step is under way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from operators.dataflow import Dataflow
from operators.flight import arrow
from operators.flight.column import Ints
from operators.flight.rows import RowReader
from operators.naive import naive_in
from operators.nodes.top_k import sort_rows
from operators.state import equality
from operators.state.relation import Relation
from planner import dataflow as ir
from planner.algebra import SortKey
from planner.errors import DataError, ViewError, suggestion
from planner.names import folded
from planner.types import Schema
from planner.zones import Zone
from sqlview.catalog import Catalog, View
from sqlview.writer import Writer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class Reader:
    """State: none; looking rows up may build an index, which its view keeps."""

    def __init__(
        self, catalog: Catalog, dataflow: Dataflow, writer: Writer, zone: Callable[[], Zone]
    ) -> None:
        self._zone = zone
        self._catalog = catalog
        self._dataflow = dataflow
        self._writer = writer

    @property
    def epoch(self) -> int:
        return self._writer.epoch

    def view(self, view: View, first: int | None = None) -> pa.Table:
        """A view's rows in its order, all or the `first`.

        Raises: ViewError while a row under the view cannot be computed. Cost: the rows read; of an
        ordered view also a sort of all.
        """
        relation = self._relation(view)
        rows = relation.visible(self._writer.epoch)
        if view.order:
            ties = tuple(SortKey(i) for i in range(len(view.schema)))
            keys = view.order + ties
            rows = rows[sort_rows([relation.gather(k.column, rows) for k in keys], keys)]
        return arrow.from_columns(relation.gather_all(rows[:first]), view.schema)

    def shown(self, table: pa.Table) -> pa.Table:
        """The table with its instants in the session's time zone, as Spark gives them: the same
        instants in Arrow, other clocks where they become text or Python's values."""
        if not any(map(arrow.is_instant, table.schema.types)):
            return table
        return arrow.in_zone(table, self._zone())

    def count(self, view: View) -> int:
        """How many rows the view has. Raises: as `view`."""
        return self._relation(view).live_rows

    def relation(self, name: str) -> pa.Table:
        """All rows of a table or view. Raises: CatalogError if there is neither; as `view`."""
        entry = self._catalog.find(name)
        if isinstance(entry, View):
            return self.view(entry)
        table = self._catalog.table(name)
        relation = table.state.relation
        rows = relation.visible(self._writer.epoch)
        return arrow.from_columns(relation.gather_all(rows), table.schema)

    def lookup(self, view: View, columns: Sequence[int], values: Sequence[Any]) -> pa.Table:
        """The view's rows whose `columns` have these values; NULL finds NULL.

        Raises: DataError for values that the columns cannot hold; as `view`. Cost: the first look
        at these columns builds an index of the view's rows, which every later step keeps; then a
        seek, and the rows found.
        """
        relation = self._relation(view)
        fields = tuple(replace(view.schema[c], nullable=True) for c in columns)
        with naive_in(self._zone):
            given = RowReader(fields).columns([tuple(values)])
        nullable = any(view.schema[c].nullable for c in columns)
        if not nullable and any(v is None for v in values):
            return arrow.from_columns(relation.gather_all(_NONE), view.schema)
        spec = ir.Arrangement(view.root, tuple(columns), null_safe=nullable)
        index = self._dataflow.index(spec, view.reader, view.owner)
        probe = index.probe_words(given, 1)
        found = equality.matching(
            index,
            probe,
            lambda k, at: given[k].take(at),
            index.lookup(probe, np.array([self._writer.epoch]), as_of=True),
        ).row
        return arrow.from_columns(relation.gather_all(np.sort(found)), view.schema)

    def _relation(self, view: View) -> Relation:
        messages = self._dataflow.errors_of(view.reader)
        if messages:
            raise ViewError(
                f'view "{view.name}" is in error: {messages[0]}',
                detail=f"{len(messages)} kinds of rows under it cannot be computed."
                if len(messages) > 1
                else "A row under it cannot be computed.",
                hint="Delete or correct the row; the view recovers with it.",
            )
        return self._dataflow.relation(view.root, view.owner)


_NONE: Ints = np.empty(0, np.int64)


class ViewRows:
    """What a ViewReader reads: the view of that name, whichever it is then. `working`: holds the
    session's lock."""

    def __init__(
        self,
        name: str,
        working: Callable[[], AbstractContextManager[None]],
        catalog: Catalog,
        reader: Reader,
        dataframe: Callable[[pa.Table], DataFrame],
    ) -> None:
        self._name = name
        self._working = working
        self._catalog = catalog
        self._reader = reader
        self._dataframe = dataframe

    def table(self, first: int | None = None) -> pa.Table:
        with self._working():
            return self._reader.shown(self._reader.view(self._view, first))

    def count(self) -> int:
        with self._working():
            return self._reader.count(self._view)

    def dataframe(self) -> DataFrame:
        with self._working():
            return self._dataframe(self.table())

    def lookup(self, names: tuple[str, ...], values: tuple[Any, ...]) -> pa.Table:
        with self._working():
            view = self._view
            return self._reader.shown(self._reader.lookup(view, positions(view, names), values))

    @property
    def schema(self) -> Schema:
        return self._view.schema

    @property
    def key(self) -> tuple[str, ...] | None:
        view = self._view
        return None if view.key is None else tuple(view.schema[k].name for k in view.key)

    @property
    def changes(self) -> int:
        return self._view.changes

    @property
    def epoch(self) -> int:
        return self._reader.epoch

    @property
    def _view(self) -> View:
        return self._catalog.view(self._name)


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
