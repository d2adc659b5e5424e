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

import numpy as np
from typing_extensions import assert_never

from operators.flight.column import Column
from operators.state import pieces
from operators.state.changes import DELETE
from operators.state.pieces import MappedFiles
from operators.state.stored import StoredBlock, StoredRows
from operators.table import TableState
from planner import dataflow as ir
from planner.calculus import zones
from planner.calculus.algebra import SortKey
from planner.calculus.expr import Literal
from planner.calculus.types import BIGINT, Field, Schema
from planner.context import Trait, UserFunction
from planner.errors import FormatError, StoreError
from planner.serialise import PLAN_CLASSES, Format
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
    traits: tuple[Trait, ...]
    comment: str | None
    awaits_rows: bool


@dataclass(frozen=True, slots=True)
class DefinedStream:
    id: str
    name: str
    schema: Schema
    traits: tuple[Trait, ...]
    comment: str | None


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
    traits: tuple[Trait, ...]
    comment: str | None
    lazy: bool
    computed: bool


@dataclass(frozen=True, slots=True)
class Computed:
    """A lazy view that is computed from now on."""

    id: str


@dataclass(frozen=True, slots=True)
class DefinedSchema:
    """Of the default one there is none."""

    name: str
    comment: str | None


@dataclass(frozen=True, slots=True)
class DroppedSchema:
    """One that is empty."""

    name: str


@dataclass(frozen=True, slots=True)
class DroppedFunction:
    name: str


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
    in it, and what is said of it. `texts`: of views that name the table, each by its id."""

    id: str
    columns: tuple[Field, ...]
    values: tuple[Literal, ...]
    traits: tuple[Trait, ...]
    texts: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Described:
    """What is said of a table, stream or view, and of its columns, from now on."""

    id: str
    traits: tuple[Trait, ...]
    comment: str | None


#: What is done to what is there.
Alteration: TypeAlias = (
    DefinedSchema
    | DroppedSchema
    | UserFunction
    | DroppedFunction
    | Dropped
    | Renamed
    | AddedColumns
    | Described
    | Computed
)
Definition: TypeAlias = DefinedTable | DefinedStream | DefinedView | Alteration
#: Of what is there.
DEFINITIONS = (DefinedTable, DefinedStream, DefinedView)
_ALTERATIONS = (
    *(DefinedSchema, DroppedSchema, UserFunction, DroppedFunction),
    *(Dropped, Renamed, AddedColumns, Described, Computed),
)
_CLASSES = (*DEFINITIONS, *_ALTERATIONS)
#: What all of these are made of.
PARTS = (*PLAN_CLASSES, Trait)
_FORMAT = Format("sqlview definition", 1, (*PARTS, *_CLASSES))


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
        traits=table.traits,
        comment=table.comment,
        awaits_rows=awaits_rows,
    )


def of_stream(stream: Stream) -> DefinedStream:
    return DefinedStream(stream.id, stream.name, stream.schema, stream.traits, stream.comment)


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
        traits=view.traits,
        comment=view.comment,
        lazy=view.lazy,
        computed=view.computed,
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
        traits=defined.traits,
        comment=defined.comment,
        lazy=defined.lazy,
        computed=defined.computed,
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
    return Stream(defined.id, defined.name, defined.schema, defined.traits, defined.comment)


def table_of(defined: DefinedTable) -> Table:
    """A table without rows."""
    key = defined.key or None
    state = TableState(ir.Source(defined.id, defined.schema), key)
    said = defined.traits, defined.comment
    return Table(defined.name, defined.schema, key, defined.enforced, state, *said)


def parts_of(entry: Entry | Alteration, awaits_rows: bool = False) -> Parts:
    """The record of what is created, or of another definition."""
    defined: Definition
    if isinstance(entry, _ALTERATIONS):
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
    return sum(s.rows for s, _ in statements if s.stored is None) >= LARGE_ROWS


def step_parts(
    statements: Sequence[Dated], first: int, count: int, positions: Mapping[str, Position]
) -> Parts:
    """Cost: as `packed` of the rows of each."""
    heads: list[dict[str, Any]] = []
    bodies: Parts = []
    for statement, epochs in statements:
        table = statement.table
        if statement.stored is not None:
            assert isinstance(epochs, int), "rows of a load have one epoch"
            stored, places = _stored_parts(statement.stored)
            heads.append(_head(statement, epochs - first, len(places)) | {"stored": stored})
            bodies.append(places)
            continue
        fields, columns = _fields(table, statement.action), statement.columns
        if not isinstance(epochs, int):
            fields, columns = (*fields, _TIMES), [*columns, Column(BIGINT, epochs - first)]
        body = packed(columns, fields)
        nbytes = sum(map(len, body))
        epoch = epochs - first if isinstance(epochs, int) else None
        heads.append(_head(statement, epoch, nbytes))
        bodies += [*body, bytes(-nbytes % 8)]
    said = {"first": first, "count": count, "statements": heads, "sources": _plain(positions)}
    head = json.dumps(said).encode()
    return [_STEP, _LENGTH.pack(len(head)), head, bytes(-len(head) % 8), *bodies]


def _head(statement: Statement, epoch: int | None, nbytes: int) -> dict[str, Any]:
    table, action = statement.table.id, statement.action
    return {"table": table, "action": action, "epoch": epoch, "bytes": nbytes}


def _stored_parts(stored: StoredRows) -> tuple[dict[str, Any], bytes]:
    """What a record says of rows that lie in files."""
    names: dict[str, int] = {}
    places = pieces.table_of(enumerate(block.home for block in stored.blocks), names)
    head = {
        "rows": [block.rows for block in stored.blocks],
        "ends": [None if block.ends is None else block.ends.tolist() for block in stored.blocks],
        "nulls": list(stored.nulls),
        "files": list(names),
    }
    return head, places.tobytes()


def files_in(statements: Sequence[Dated]) -> list[str]:
    """The files that a record of these refers to."""
    return [name for s, _ in statements if s.stored is not None for name in s.stored.names]


def files_of(body: memoryview) -> list[str]:
    """The files that a record refers to."""
    if bytes(body[:8]) != _STEP:
        return []
    statements = _head_of(body)[0]["statements"]
    return [name for one in statements if "stored" in one for name in one["stored"]["files"]]


def _head_of(body: memoryview) -> tuple[dict[str, Any], int]:
    """The head of a step's record, and where its rows begin."""
    (length,) = _LENGTH.unpack_from(body, 8)
    head: dict[str, Any] = json.loads(bytes(body[16 : 16 + length]))
    return head, 16 + length + -length % 8


def read(body: memoryview, catalog: Catalog, directory: str) -> Definition | Step:
    """What a record says. `catalog`: as it was when the record was written; `directory`: of the
    files that it refers to, which are mapped.

    Raises: StoreError for what this version does not know, and for files that are not there.
    """
    kind, rest = bytes(body[:8]), body[8:]
    if kind == _DEFINITION:
        try:
            return _definition(rest)
        except FormatError as error:
            raise _unknown(error.detail) from error
    if kind != _STEP:
        raise _unknown(f"It has a record of the kind {kind!r}.")
    head, at = _head_of(body)
    first = head["first"]
    statements: list[Dated] = []
    for one in head["statements"]:
        table = catalog.entry(one["table"])
        assert not isinstance(table, View), "views are not changed"
        data = body[at : at + one["bytes"]]
        if "stored" in one:
            fields = _fields(table, one["action"])
            stored = _stored(table, fields, one["stored"], data, directory)
            statement = Statement(table, one["action"], [], stored=stored)
            statements.append((statement, first + one["epoch"]))
        else:
            statements.append(_statement(table, one, data, first))
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


def _stored(
    table: Table | Stream, fields: Schema, head: dict[str, Any], body: memoryview, directory: str
) -> StoredRows:
    places = pieces.values_in(np.frombuffer(body, np.int64).reshape(-1, 6), head["files"])
    files = MappedFiles(directory)
    blocks = (
        StoredBlock(home, rows, None if ends is None else np.array(ends, np.int64))
        for (_, home), rows, ends in zip(places, head["rows"], head["ends"], strict=True)
    )
    found = StoredRows(fields, files, tuple(blocks), tuple(head["nulls"]))
    try:
        files.open(head["files"])
        found.check()
    except (OSError, ValueError) as error:
        raise StoreError(
            f'rows that were loaded into "{table.name}" cannot be read',
            detail=f"{error}.",
            hint="Restore the store from a backup.",
        ) from error
    return found


def _fields(table: Table | Stream, action: int) -> Schema:
    if action == DELETE and isinstance(table, Table) and table.key is not None:
        return tuple(table.schema[k] for k in table.key)
    return table.schema
