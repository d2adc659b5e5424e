"""Reads that others do: what Spark's tasks read of a table or view, planned between two steps.

Rows in files of the store are read where they lie; what is in no file comes along: rows of the
block that is being filled, those of records behind the checkpoint where the store is only read, and
views with an order, which are sorted here.
"""

from __future__ import annotations

import json
import weakref
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import takewhile
from typing import Any

import numpy as np
import pyarrow as pa

from operators.dataflow import Dataflow
from operators.flight import arrow
from operators.flight.column import Ints
from operators.flight.rows import RowReader
from operators.naive import naive_in
from operators.state import readable
from operators.state.arrangement import ArrangementState
from operators.state.encode import equal_values
from operators.state.reading import Part, Reading, dealt
from operators.state.relation import Relation
from planner import dataflow as ir
from planner.calculus.zones import Zone
from planner.errors import CatalogError, DataError, suggestion
from planner.names import folded
from sqlview.catalog import Catalog, Stream, Table, View
from sqlview.reader import Reader, check, in_order
from sqlview.store import Store
from sqlview.store.hold import claim, hold
from sqlview.versions import Version, Versions


@dataclass(frozen=True, slots=True)
class Planned:
    """A read at one epoch, in parts."""

    reading: Reading
    parts: list[Part]

    @property
    def files(self) -> set[str]:
        """The names of the files that it reads."""
        return {block.file for part in self.parts for block in part.blocks}


@dataclass(frozen=True, slots=True)
class Readable:
    """Rows that Spark is to read, about so many bytes: all of them as a `table`, or by a `plan`,
    if they lie in files. Those of one `key` are the same."""

    key: Hashable
    nbytes: int
    table: Callable[[], pa.Table]
    plan: Callable[[], Planned] | None = None


class Reads:
    """Plans the reads of one session; whoever calls holds it, between two steps. `store`: where its
    state lies, if it does."""

    def __init__(
        self,
        catalog: Catalog,
        dataflow: Dataflow,
        versions: Versions,
        reader: Reader,
        zone: Callable[[], Zone],
    ) -> None:
        self._catalog = catalog
        self._dataflow = dataflow
        self._versions = versions
        self._reader = reader
        self._zone = zone
        self.store: Store | None = None

    def version(self, name: str) -> Version:
        """A table or view now. Raises: CatalogError if there is none, and for a stream; ViewError
        for a view in error."""
        return self._versions.taken(self._entry(name))

    def readable(self, name: str) -> Readable:
        """What Spark reads of a table or view now. Raises: as `version`."""
        entry = self._entry(name)
        relation = self._relation(entry)
        every = range(len(entry.schema))
        return Readable(
            (entry.id, self._versions.epoch, weakref.ref(relation), len(every)),
            relation.nbytes,
            lambda: self._reader.shown(self._reader.rows(self._versions.taken(entry))),
            None if self.store is None else lambda: self._plan(entry, every),
        )

    def plan(
        self,
        name: str,
        columns: Iterable[str] | None = None,
        where: Mapping[str, Any] | None = None,
    ) -> Planned:
        """What others read of a table or view of the store at the latest epoch: all rows, or those
        that have the values of `where`; all columns, or some.

        Raises: as `version`; DataError for an unknown column, and as `rows_with`; OSError. Cost:
        O(blocks), and what comes along.
        """
        entry = self._entry(name)
        places = chosen(entry, columns)
        if where is None:
            return self._plan(entry, places)
        with naive_in(self._zone):
            only = rows_with(entry, self._dataflow, self._versions.epoch, where)
        return self._plan(entry, places, only)

    def given(
        self, name: str, columns: Iterable[str] | None, rows: pa.Table, epoch: int
    ) -> Planned:
        """A read of some columns of rows of a table or view that are at hand."""
        return given(rows.select(chosen(self._entry(name), columns)), epoch)

    def _entry(self, name: str) -> Table | View:
        entry = self._catalog.any(name)
        if isinstance(entry, Stream):
            raise CatalogError(
                f'stream "{entry.name}" has no rows to read',
                detail="A stream keeps none of its events.",
                hint="Create a materialized view over it, and read that.",
            )
        if isinstance(entry, View):
            self._versions.ready(entry)
            check(entry, self._dataflow.errors_of(entry.reader))
        return entry

    def _relation(self, entry: Table | View) -> Relation:
        if isinstance(entry, Table):
            return entry.state.relation
        return self._dataflow.relation(entry.root, entry.owner)

    def _plan(
        self, entry: Table | View, columns: Sequence[int], only: Ints | None = None
    ) -> Planned:
        """`only`: these visible rows, ascending. Of who writes the store, blocks that no file has
        are written; of others they come along, and files that they read are claimed
        (sqlview.store.hold)."""
        store = self.store
        assert store is not None, "what lies in no store has no files"
        if not store.read_only:
            return self._placed(entry, columns, only, store)
        with hold(store.path):
            planned = self._placed(entry, columns, only, store)
            if not planned.files:
                return planned
            claimed = claim(store.path, planned.files)
        return replace(planned, reading=replace(planned.reading, claim=claimed))

    def _placed(
        self, entry: Table | View, columns: Sequence[int], only: Ints | None, store: Store
    ) -> Planned:
        relation, epoch = self._relation(entry), self._versions.epoch
        if only is not None or (isinstance(entry, View) and entry.order):
            rows = in_order(entry, relation, relation.visible(epoch) if only is None else only)
            pieces = readable.pieces(relation, columns, rows)
            parts = [Part(rows=some) for some in pieces] or [Part()]
        else:
            if not store.read_only:
                readable.write_blocks(relation, store.values)
            blocks, rows = readable.stored_blocks(relation, columns, epoch, store.missing)
            parts = dealt(blocks, readable.pieces(relation, columns, rows))
        reading = Reading(
            store.path,
            arrow.arrow_schema(tuple(entry.schema[c] for c in columns)),
            readable.stored_columns(relation, columns),
            relation.form(()).ids_slot,
            epoch,
            None,
        )
        return Planned(reading, parts)


def rows_with(
    entry: Table | View, dataflow: Dataflow, epoch: int, where: Mapping[str, Any]
) -> Ints:
    """The rows that have these values in these columns as of the latest epoch, ascending; None
    finds NULL. They are found by an index that the dataflow has.

    Raises: DataError for a column that is not there, a value that it cannot hold, and where there
    is no index whose first column is among them. Cost: a seek, and the rows under the key.
    """
    places = chosen(entry, where)
    fields = tuple(replace(entry.schema[c], nullable=True) for c in places)
    values = RowReader(fields).columns([tuple(where.values())], cast=True)
    given = dict(zip(places, values, strict=True))
    index, width = _index(entry, dataflow, {c for c, v in given.items() if v.valid is None})
    probe = index.probe_words([given[c] for c in index.columns[:width]], 1)
    rows = np.sort(index.lookup(probe, np.array([epoch]), as_of=True).row)
    for column, value in given.items():  # a hash may have confused some
        here = index.relation.gather(column, rows)
        rows = rows[equal_values(here, value.take(np.zeros(len(rows), np.int64)))]
    return rows


def _index(
    entry: Table | View, dataflow: Dataflow, known: AbstractSet[int]
) -> tuple[ArrangementState, int]:
    """The index that has the most leading columns among those that are known, and how many."""
    owner = entry.owner if isinstance(entry, View) else ""
    best, width = None, 0
    there: list[str] = []
    for live in dataflow.indexes:
        spec = live.spec
        if live.owner != owner or not isinstance(spec, ir.Arrangement) or spec.filter is not None:
            continue
        if spec.relation != entry.node:
            continue
        there.append(f"({', '.join(entry.schema[c].name for c in spec.columns)})")
        leading = len(list(takewhile(known.__contains__, spec.columns)))
        if leading > width:
            best, width = live.state, leading
    if best is None:
        raise DataError(
            f'"{entry.name}" has no index by which to find these rows',
            detail=f"It has {', '.join(sorted(there)) or 'none'}.",
            hint="Leave the option where out, and call .where(…) of the DataFrame, which reads all "
            "rows.",
        )
    dataflow.undo.all_or_nothing(best.absorb)
    return best, width


def given(table: pa.Table, epoch: int) -> Planned:
    """A read of rows that are at hand."""
    parts = [
        Part(rows=readable.packed(table.slice(start, readable.PIECE_ROWS)))
        for start in range(0, table.num_rows, readable.PIECE_ROWS)
    ]
    return Planned(Reading("", table.schema, (), 0, epoch, None), parts or [Part()])


def chosen(entry: Table | View, names: Iterable[str] | None) -> tuple[int, ...]:
    """Columns by name, case-insensitively; None: all. Raises: DataError."""
    if names is None:
        return tuple(range(len(entry.schema)))
    known = {folded(f.name): i for i, f in enumerate(entry.schema)}
    found: list[int] = []
    for name in names:
        if folded(name) not in known:
            listed = ", ".join(f'"{f.name}"' for f in entry.schema)
            raise DataError(
                f'"{entry.name}" has no column "{name}"',
                detail=f"It has {listed}.",
                hint=suggestion(name, [f.name for f in entry.schema]),
            )
        found.append(known[folded(name)])
    if not found:
        raise DataError("a read has one column at least", hint="Leave columns out to read all.")
    return tuple(found)


def values_in(text: str) -> dict[str, Any]:
    """Columns and their values as an option has them: a JSON object. Raises: DataError."""
    try:
        said = json.loads(text, parse_float=Decimal)
    except ValueError as error:
        raise DataError("the option where is a JSON object", detail=f"{error}.") from None
    if not isinstance(said, dict):
        raise DataError(
            "the option where is a JSON object", hint="""Write '{"id": 5, "day": "2024-01-30"}'."""
        )
    return said


def names_in(text: str) -> list[str]:
    """Names as an option has them: with commas between them, or as a JSON list."""
    if text.lstrip().startswith("["):
        try:
            said = json.loads(text)
        except ValueError as error:
            raise DataError("the option columns is no JSON list", detail=f"{error}.") from None
        return [str(name) for name in said]
    return [name.strip() for name in text.split(",") if name.strip()]
