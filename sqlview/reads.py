"""Reads that others do: what Spark's tasks read of a table or view, planned between two steps.

Rows in files of the store are read where they lie; what is in no file comes along: rows of the
block that is being filled, those of records behind the checkpoint where the store is only read, and
views with an order, which are sorted here.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from operators.flight import arrow
from operators.state import readable
from operators.state.reading import Part, Reading, dealt
from operators.state.relation import Relation
from operators.state.values import ValueFiles
from planner.errors import DataError, suggestion
from planner.names import folded
from sqlview.catalog import Table, View
from sqlview.reader import in_order


@dataclass(frozen=True, slots=True)
class Planned:
    """A read at one epoch, in parts."""

    reading: Reading
    parts: list[Part]

    @property
    def files(self) -> set[str]:
        """The names of the files that it reads."""
        return {block.file for part in self.parts for block in part.blocks}


def plan(
    entry: Table | View,
    relation: Relation,
    epoch: int,
    columns: Sequence[int],
    directory: str,
    values: ValueFiles | None,
) -> Planned:
    """Plan a read of some columns as of the latest epoch, between steps. `values`: the files of
    those that write the store, where blocks are written that no file has; None: they come along.

    Raises: OSError. Cost: O(blocks), and what comes along.
    """
    if isinstance(entry, View) and entry.order:
        rows = in_order(entry, relation, relation.visible(epoch))
        parts = [Part(rows=some) for some in readable.pieces(relation, columns, rows)] or [Part()]
    else:
        if values is not None:
            readable.write_blocks(relation, values)
        blocks, rows = readable.stored_blocks(relation, columns, epoch)
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


def names_in(text: str) -> list[str]:
    """Names as an option has them: with commas between them, or as a JSON list."""
    if text.lstrip().startswith("["):
        said = json.loads(text)
        if not all(isinstance(name, str) for name in said):
            raise DataError("the names of columns are texts", detail=f"They are {text}.")
        return list(said)
    return [name.strip() for name in text.split(",") if name.strip()]
