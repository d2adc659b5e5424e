"""What the records of a store say: a definition, or the changes of a step.

A definition is the text of `planner.serialise`: tables and streams with their columns, views with
their plan, so that opening a store plans nothing, whatever statistics or versions say by then. A
step is JSON, filled up to 8 bytes, and then for each statement its rows (`rows`).
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from typing_extensions import assert_never

from operators.flight.column import Column
from operators.state.changes import DELETE
from operators.table import TableState
from planner import dataflow as ir
from planner import zones
from planner.algebra import SortKey
from planner.errors import FormatError, StoreError
from planner.expr import Literal
from planner.serialise import PLAN_CLASSES, Format
from planner.types import BIGINT, Field, Schema
from sqlview.catalog import Catalog, Entry, Stream, Table, View
from sqlview.positions import Position
from sqlview.store.log import Parts
from sqlview.store.rows import packed, unpacked
from sqlview.transaction import Statement
from sqlview.writer import Dated

#: A step of so many rows is written while it runs.
LARGE_ROWS = 10_000
_DEFINITION, _STEP = b"defined\0", b"stepped\0"
_LENGTH = struct.Struct("<Q")
_TIMES = Field("__time", BIGINT, False)


@dataclass(frozen=True, slots=True)
class DefinedTable:
    """`key`: empty where there is none. `awaits_rows`: the table is there when the next record, a
    step, brings its rows."""

    id: str
    name: str
    schema: Schema
    key: tuple[int, ...]
    enforced: bool
    comments: tuple[str | None, ...]
    awaits_rows: bool


@dataclass(frozen=True, slots=True)
class DefinedStream:
    id: str
    name: str
    schema: Schema
    comments: tuple[str | None, ...]


@dataclass(frozen=True, slots=True)
class DefinedView:
    """`keyed`: whether `key` says anything. `zone`: by name. A view of that name that is there
    already is replaced."""

    id: str
    name: str
    text: str
    schema: Schema
    root: ir.Store
    order: tuple[SortKey, ...]
    reads: tuple[str, ...]
    owner: str
    reader: str
    keyed: bool
    key: tuple[int, ...]
    zone: str
    zoned: bool


@dataclass(frozen=True, slots=True)
class Dropped:
    """A table, stream or view that is no more."""

    id: str


@dataclass(frozen=True, slots=True)
class Renamed:
    """Another name of a table, stream or view. `texts`: of views that name it, each by its id."""

    id: str
    name: str
    texts: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class AddedColumns:
    """More columns of a table, behind the others: each with the value that the rows there are have
    in it, and its comment. `texts`: of views that name the table, each by its id."""

    id: str
    columns: tuple[Field, ...]
    values: tuple[Literal, ...]
    comments: tuple[str | None, ...]
    texts: tuple[tuple[str, str], ...]


#: What is done to what is there.
Alteration: TypeAlias = Dropped | Renamed | AddedColumns
Definition: TypeAlias = DefinedTable | DefinedStream | DefinedView | Alteration
#: Of what is there.
DEFINITIONS = (DefinedTable, DefinedStream, DefinedView)
_CLASSES = (*DEFINITIONS, Dropped, Renamed, AddedColumns)
_FORMAT = Format("sqlview definition", 1, (*PLAN_CLASSES, *_CLASSES))


@dataclass(frozen=True, slots=True)
class Step:
    """The changes of the epochs from `first` on, `count` of them. `positions`: those to which
    sources came."""

    first: int
    count: int
    statements: list[Dated]
    positions: dict[str, Position]


def of_table(table: Table, awaits_rows: bool = False) -> DefinedTable:
    return DefinedTable(
        id=table.id,
        name=table.name,
        schema=table.schema,
        key=table.key or (),
        enforced=table.enforced,
        comments=table.comments,
        awaits_rows=awaits_rows,
    )


def of_stream(stream: Stream) -> DefinedStream:
    return DefinedStream(stream.id, stream.name, stream.schema, stream.comments)


def of_view(view: View) -> DefinedView:
    return DefinedView(
        id=view.id,
        name=view.name,
        text=view.text,
        schema=view.schema,
        root=view.root,
        order=view.order,
        reads=view.reads,
        owner=view.owner,
        reader=view.reader,
        keyed=view.key is not None,
        key=view.key or (),
        zone=view.zone.id,
        zoned=view.zoned,
    )


def view_of(defined: DefinedView) -> View:
    """Raises: StoreError for a time zone that is not known here."""
    zone = zones.find(defined.zone)
    if zone is None:
        raise StoreError(
            f'view "{defined.name}" is in the time zone "{defined.zone}", which is not known here',
            hint="Install a newer tzdata.",
        )
    return View(
        id=defined.id,
        name=defined.name,
        text=defined.text,
        schema=defined.schema,
        root=defined.root,
        order=defined.order,
        reads=defined.reads,
        owner=defined.owner,
        reader=defined.reader,
        key=defined.key if defined.keyed else None,
        zone=zone,
        zoned=defined.zoned,
    )


def awaiting(record: Definition | Step) -> str | None:
    """The id of the table that is not there unless the next record brings its rows."""
    return record.id if isinstance(record, DefinedTable) and record.awaits_rows else None


def fills(record: Definition | Step, table: str) -> bool:
    """Whether a record brings rows of the table of that id."""
    return isinstance(record, Step) and any(s.table.id == table for s, _ in record.statements)


def entry_of(defined: DefinedTable | DefinedStream | DefinedView) -> Entry:
    """What the definition says, without rows. Raises: as `view_of`."""
    match defined:
        case DefinedTable():
            return table_of(defined)
        case DefinedStream():
            return stream_of(defined)
        case DefinedView():
            return view_of(defined)
        case _:
            assert_never(defined)


def stream_of(defined: DefinedStream) -> Stream:
    return Stream(defined.id, defined.name, defined.schema, defined.comments)


def table_of(defined: DefinedTable) -> Table:
    """A table without rows."""
    key = defined.key or None
    state = TableState(ir.Source(defined.id, defined.schema), key)
    return Table(defined.name, defined.schema, key, defined.enforced, state, defined.comments)


def parts_of(entry: Entry | Alteration, awaits_rows: bool = False) -> Parts:
    """The record of what is created, or of another definition."""
    defined: Definition
    if isinstance(entry, (Dropped, Renamed, AddedColumns)):
        defined = entry
    elif isinstance(entry, Table):
        defined = of_table(entry, awaits_rows)
    else:
        defined = definition_of(entry)
    return [_DEFINITION, _FORMAT.write(defined).encode()]


def definition_of(entry: Entry) -> DefinedTable | DefinedStream | DefinedView:
    match entry:
        case Table():
            return of_table(entry)
        case Stream():
            return of_stream(entry)
        case View():
            return of_view(entry)
        case _:
            assert_never(entry)


def is_large(statements: Iterable[Dated]) -> bool:
    """Whether a thread of its own writes the record sooner."""
    return sum(statement.rows for statement, _ in statements) >= LARGE_ROWS


def step_parts(
    statements: Sequence[Dated], first: int, count: int, positions: Mapping[str, Position]
) -> Parts:
    """Cost: a copy of the rows."""
    heads: list[dict[str, Any]] = []
    bodies: Parts = []
    for statement, epochs in statements:
        table = statement.table
        fields, columns = _fields(table, statement.action), statement.columns
        if not isinstance(epochs, int):
            fields, columns = (*fields, _TIMES), [*columns, Column(BIGINT, epochs - first)]
        body = packed(columns, fields)
        heads.append(
            {
                "table": table.id,
                "action": statement.action,
                "epoch": epochs - first if isinstance(epochs, int) else None,
                "bytes": len(body),
            }
        )
        bodies += [body, bytes(-len(body) % 8)]
    said = {"first": first, "count": count, "statements": heads, "sources": _plain(positions)}
    head = json.dumps(said).encode()
    return [_STEP, _LENGTH.pack(len(head)), head, bytes(-len(head) % 8), *bodies]


def read(body: memoryview, catalog: Catalog) -> Definition | Step:
    """What a record says. `catalog`: as it was when the record was written.

    Raises: StoreError for what this version does not know.
    """
    kind, rest = bytes(body[:8]), body[8:]
    if kind == _DEFINITION:
        try:
            return _definition(rest)
        except FormatError as error:
            raise _unknown(error.detail) from error
    if kind != _STEP:
        raise _unknown(f"It has a record of the kind {kind!r}.")
    (length,) = _LENGTH.unpack_from(rest)
    head = json.loads(bytes(rest[8 : 8 + length]))
    at = 8 + length + -length % 8
    first, statements = head["first"], []
    for one in head["statements"]:
        table = catalog.entry(one["table"])
        assert not isinstance(table, View), "views are not changed"
        statements.append(_statement(table, one, rest[at : at + one["bytes"]], first))
        at += one["bytes"] + -one["bytes"] % 8
    return Step(first, head["count"], statements, _positions(head["sources"]))


def _unknown(detail: str | None) -> StoreError:
    return StoreError(
        "the store is of another version of this library",
        detail=detail,
        hint="Open it with the version that wrote it.",
    )


def _plain(positions: Mapping[str, Position]) -> dict[str, list[int]]:
    return {name: [at.offset, at.epoch] for name, at in positions.items()}


def _positions(plain: Mapping[str, Sequence[int]]) -> dict[str, Position]:
    return {name: Position(offset, epoch) for name, (offset, epoch) in plain.items()}


def _definition(text: memoryview) -> Definition:
    read = _FORMAT.read(bytes(text), object)
    assert isinstance(read, _CLASSES), "a definition is one of these"
    return read


def _statement(table: Table | Stream, head: dict[str, Any], body: memoryview, first: int) -> Dated:
    fields, epoch = _fields(table, head["action"]), head["epoch"]
    if epoch is not None:
        return Statement(table, head["action"], unpacked(body, fields)), first + epoch
    *columns, times = unpacked(body, (*fields, _TIMES))
    return Statement(table, head["action"], columns, times.values), times.values + first


def _fields(table: Table | Stream, action: int) -> Schema:
    if action == DELETE and isinstance(table, Table) and table.key is not None:
        return tuple(table.schema[k] for k in table.key)
    return table.schema
