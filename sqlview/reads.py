"""Reads that others do: what Spark's tasks read of a table or view, planned between two steps.

Rows in files of the store are read where they lie; what is in no file comes along: rows of the
block that is being filled, those of records behind the checkpoint where the store is only read, and
views with an order, which are sorted here.
"""

from __future__ import annotations

import json
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
from operators.state import readable
from operators.state.arrangement import ArrangementState
from operators.state.encode import equal_values
from operators.state.reading import Part, Reading, dealt
from operators.state.relation import Relation
from operators.state.values import ValueFiles
from planner import dataflow as ir
from planner.errors import DataError, suggestion
from planner.names import folded
from sqlview.catalog import Table, View
from sqlview.reader import in_order
from sqlview.store.hold import claim, hold


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


def plan(
    entry: Table | View,
    relation: Relation,
    epoch: int,
    columns: Sequence[int],
    directory: str,
    values: ValueFiles | None,
    only: Ints | None = None,
) -> Planned:
    """Plan a read of some columns as of the latest epoch, between steps. `values`: the files of
    who writes the store, where blocks are written that no file has; None: they come along, as do
    those whose file is gone. `only`: these visible rows, ascending, which come along.

    Raises: OSError. Cost: O(blocks), and what comes along.
    """
    if only is not None or (isinstance(entry, View) and entry.order):
        rows = in_order(entry, relation, relation.visible(epoch) if only is None else only)
        parts = [Part(rows=some) for some in readable.pieces(relation, columns, rows)] or [Part()]
    else:
        if values is not None:
            readable.write_blocks(relation, values)
        blocks, rows = readable.stored_blocks(relation, columns, epoch, directory)
        parts = dealt(blocks, readable.pieces(relation, columns, rows))
    reading = Reading(
        directory,
        arrow.arrow_schema(tuple(entry.schema[c] for c in columns)),
        readable.stored_columns(relation, columns),
        relation.form(()).ids_slot,
        epoch,
        None,
    )
    return Planned(reading, parts)


def claimed_plan(
    entry: Table | View,
    relation: Relation,
    epoch: int,
    columns: Sequence[int],
    directory: str,
    only: Ints | None = None,
) -> Planned:
    """A `plan` of who does not write the store, whose files are claimed: see sqlview.store.hold."""
    with hold(directory):
        planned = plan(entry, relation, epoch, columns, directory, None, only)
        if not planned.files:
            return planned
        claimed = claim(directory, planned.files)
    return replace(planned, reading=replace(planned.reading, claim=claimed))


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
