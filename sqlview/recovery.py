"""Recovery: a new session becomes what its store says.

The latest checkpoint is loaded, and the records behind it are taken through the ordinary step. Of a
store that is repaired, what lies in damaged files is computed anew, from what is whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from typing_extensions import assert_never

from operators import checkpoint
from operators.dataflow import Dataflow, Key
from operators.executor.inline import InlineExecutor
from operators.state.hashing import Hashing
from planner import dataflow as ir
from planner.context import UserFunction
from planner.errors import SqlViewError, StoreError
from sqlview.catalog import Catalog, Entry, Space, Stream, Table, View
from sqlview.definitions import Definitions
from sqlview.history import History
from sqlview.positions import Positions
from sqlview.store import Checkpoint, Store, records
from sqlview.writer import Writer


class Recovery:
    """Of a session that has nothing yet."""

    def __init__(
        self,
        catalog: Catalog,
        dataflow: Dataflow,
        definitions: Definitions,
        writer: Writer,
        history: History,
    ) -> None:
        self._catalog = catalog
        self._dataflow = dataflow
        self._definitions = definitions
        self._writer = writer
        self._history = history
        self._inline = InlineExecutor()

    def run(self, store: Store, advance: Callable[[int], None], damaged: Mapping[str, str]) -> None:
        """Be what the store says, and let it begin. `advance` is told of the bytes that were read;
        `damaged`: files that are not to be read, and why.

        Raises: StoreError, also where rows of a table, or a view over a stream, lie in damaged
        files: neither can be computed.
        """
        if store.checkpoint is not None:
            self._resume(store.checkpoint, damaged)
            store.checkpoint = replace(store.checkpoint, document={})
        unfilled = None
        for record in store.records():
            try:
                said = records.read(record.body, self._catalog, store.path)
                if isinstance(said, records.Step):
                    store.refers(records.files_in(said.statements), record.number)
                if unfilled is not None and not records.fills(said, unfilled):
                    self._definitions.drop(self._catalog.entry(unfilled), unfilled=True)
                self._do_again(said)
            except SqlViewError as error:
                raise StoreError(
                    f'record {record.number} of the store "{store.path}" cannot be applied',
                    detail=str(error),
                    hint="Open it with the version of sqlview that wrote it.",
                ) from error
            unfilled = records.awaiting(said)
            advance(len(record.body))
        self._writer.steps.clear()
        store.begin()
        if unfilled is not None:
            self._definitions.drop(self._catalog.entry(unfilled), unfilled=True)

    def _resume(self, found: Checkpoint, damaged: Mapping[str, str]) -> None:
        names = found.contents.names
        lost = checkpoint.lost_relations(names, found.document, frozenset(damaged))
        self._dataflow.hashing = Hashing(tuple(found.document["hashing"]))
        for schema in found.contents.schemas:
            self._catalog.add_space(Space(schema.name, schema.comment))
        for function in found.contents.functions:
            self._definitions.add_function(function)
        again: list[View] = []
        for defined, counter in zip(found.contents.definitions, found.counters, strict=True):
            entry = records.entry_of(defined)
            if isinstance(entry, View):
                entry.changes = counter
                if _rests_on(entry, lost):
                    again.append(entry)
                    continue
            elif isinstance(entry, Stream):
                entry.events = counter
            elif ("", entry.state.source) in lost:
                raise _lost(f'rows of table "{entry.name}" are', damaged)
            self._definitions.resume(entry)
            if isinstance(entry, View) and entry.computed:
                self._history.begin(entry, found.epoch)
        self._history.load(found.document["history"])
        try:
            checkpoint.load(self._dataflow, names, found.document, found.files, frozenset(damaged))
        except (OSError, ValueError) as error:
            raise StoreError(
                f'the checkpoint "{found.path}" cannot be read',
                detail=f"{error}.",
                hint="Restore the store from a backup, or try python -m sqlview repair.",
            ) from error
        self._writer.epoch = found.epoch
        self._writer.positions = Positions(found.positions)
        for view in again:
            if self._catalog.streams_under(view):
                raise _lost(f'view "{view.name}", which reads a stream, is', damaged)
            self._definitions.add_view(view, found.epoch)

    def _do_again(self, record: records.Definition | records.Step) -> None:
        definitions = self._definitions
        match record:
            case records.Step():
                if record.first != self._writer.epoch + (record.count > 0):
                    raise StoreError(f"epoch {record.first} follows on epoch {self._writer.epoch}")
                positions = self._writer.positions.copy()
                for source, position in record.positions.items():
                    positions.set(source, position)
                self._writer.step(
                    record.statements, record.count, lambda rows: self._inline, positions
                )
            case records.DefinedTable():
                definitions.add_table(records.table_of(record))
            case records.DefinedStream():
                definitions.add_stream(records.stream_of(record))
            case records.DefinedView():
                definitions.add_view(records.view_of(record), self._writer.epoch)
            case records.DefinedSchema():
                definitions.add_schema(Space(record.name, record.comment))
            case records.DroppedSchema():
                definitions.drop_space(self._catalog.space(record.name))
            case UserFunction():
                definitions.add_function(record)
            case records.DroppedFunction():
                function = self._catalog.function(record.name)
                assert function is not None, "it was there"
                definitions.remove_function(function)
            case records.Computed():
                view = self._catalog.entry(record.id)
                assert isinstance(view, View), "others are there with their rows"
                definitions.compute(view, self._writer.epoch)
            case records.Described():
                definitions.described(record)
            case records.Dropped():
                definitions.drop(self._catalog.entry(record.id))
            case records.Renamed():
                definitions.renamed(record)
            case records.AddedColumns():
                definitions.added_columns(record)
            case _:
                assert_never(record)


def affected(found: Checkpoint, damaged: Mapping[str, str]) -> Iterator[str]:
    """What of a checkpoint lies in damaged files: tables and views; indexes alone are not told."""
    names = found.contents.names
    lost = checkpoint.lost_relations(names, found.document, frozenset(damaged))
    for defined in found.contents.definitions:
        entry = records.entry_of(defined)
        if isinstance(entry, Table) and ("", entry.state.source) in lost:
            yield f'Rows of table "{entry.name}" are lost.'
        if isinstance(entry, View) and _rests_on(entry, lost):
            yield f'View "{entry.name}" has to be computed anew.'


def counter_of(entry: Entry) -> int:
    """What a checkpoint counts: of a view the rows of its changes, of a stream its events."""
    match entry:
        case View():
            return entry.changes
        case Stream():
            return entry.events
        case _:
            return 0


def _rests_on(view: View, lost: frozenset[Key]) -> bool:
    """Whether the rows of some node of a view are lost."""
    return view.computed and not lost.isdisjoint(
        (view.owner, node) for node in ir.topological(view.root)
    )


def _lost(what: str, damaged: Mapping[str, str]) -> StoreError:
    return StoreError(
        f"{what} in a damaged file, and cannot be computed",
        detail=" ".join(damaged.values()),
        hint="Restore the store from a backup.",
    )
