"""The catalog: tables, streams and views by name, and what the planner may ask of them.

Names are case-insensitive, as in Spark, and keep the spelling of their creation. Tables, streams
and views of a schema share one namespace; a name is the full one (planner.names). Names are looked
up here alone: plans, records and whatever else refers to an entry knows it by its id, which is
drawn here and stays when it is renamed. Indexes are the dataflow's (`operators.dataflow`), which
shares them by identity; this catalog says which are live, and who reads what.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from typing_extensions import assert_never

from operators.dataflow import Dataflow, Key
from operators.flight.rows import RowReader
from operators.table import TableState
from planner import dataflow as ir
from planner.calculus.algebra import SortKey
from planner.calculus.types import Schema
from planner.calculus.zones import Zone
from planner.context import CLOCK, RelationInfo, Trait, UserFunction
from planner.errors import CatalogError, suggestion
from planner.names import DEFAULT_SCHEMA, folded, full_name, schema_of


@dataclass(slots=True, eq=False)
class Table:
    """A base table. `key`: positions of its primary key's columns, None for a bag; an `enforced`
    key is checked at every change. `traits`: one a column. `reader` takes rows,
    `key_reader` those to delete by their key."""

    name: str
    schema: Schema
    key: tuple[int, ...] | None
    enforced: bool
    state: TableState
    traits: tuple[Trait, ...]
    comment: str | None
    reader: RowReader = field(init=False, repr=False, compare=False)
    key_reader: RowReader | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        self.reader, self.key_reader = RowReader(self.schema), None
        if self.key is not None:
            self.key_reader = RowReader(tuple(self.schema[k] for k in self.key), self.schema)

    @property
    def id(self) -> str:
        return self.state.source.relation

    @property
    def node(self) -> ir.Stored:
        return self.state.source


@dataclass(slots=True)
class Stream:
    """A source of events, none of which is kept. `events` counts those that came. `traits`: one a
    column. `reader` takes rows."""

    id: str
    name: str
    schema: Schema
    traits: tuple[Trait, ...]
    comment: str | None
    events: int = field(default=0)
    reader: RowReader = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        self.reader = RowReader(self.schema)

    @property
    def node(self) -> ir.Stream:
        return ir.Stream(self.id, self.schema)


@dataclass(slots=True)
class View:
    """A materialized view. `text` is its query as written, `order` how reads present it, `reads`
    the ids of what it reads itself, `owner` the name under which it keeps private state ("" where
    it shares), `reader` the one under which the dataflow knows it: its own, unless another view of
    that name was replaced by it. `key`: columns that no two rows agree on, if the query tells of
    some. `zone`: the time zone that its text means, and `zoned`, whether it means something else in
    others. `traits`: one a column. A `lazy` one is not `computed` before somebody reads it: the
    dataflow does not know it. `changes` counts the rows of signed deltas that it has emitted."""

    id: str
    name: str
    text: str
    schema: Schema
    root: ir.Store
    order: tuple[SortKey, ...]
    reads: tuple[str, ...]
    owner: str
    reader: str
    key: tuple[int, ...] | None
    zone: Zone
    zoned: bool
    traits: tuple[Trait, ...]
    comment: str | None
    lazy: bool
    computed: bool
    changes: int = field(default=0)

    @property
    def node(self) -> ir.Stored:
        return self.root


@dataclass(frozen=True, slots=True)
class Space:
    """A schema: what the names in it begin with."""

    name: str
    comment: str | None


#: Names that a message lists.
MOST_LISTED = 20

Entry: TypeAlias = Table | Stream | View


class _Called(NamedTuple):
    """Entries with their names and what is said of them, and views with their texts and whether
    they are computed, before these change."""

    entries: list[tuple[Entry, str, tuple[Trait, ...], str | None]]
    views: list[tuple[View, str, bool]]
    spaces: dict[str, Space]
    functions: dict[str, UserFunction]
    last_id: int


def _full(name: str) -> str:
    """Raises: CatalogError for what is no name of a relation."""
    try:
        return full_name(name.split("."))
    except ValueError as error:
        raise CatalogError(
            f'"{name}" is no name of a relation',
            detail=f"{str(error)[0].upper()}{str(error)[1:]}.",
            hint="Write name, or schema.name.",
        ) from None


class Catalog:
    """Implements planner.context.CatalogReader."""

    def __init__(self, dataflow: Dataflow) -> None:
        self._dataflow = dataflow
        #: By id, in the order of creation.
        self._entries: dict[str, Entry] = {}
        self._named: dict[str, Entry] = {}
        self._spaces = {DEFAULT_SCHEMA: Space(DEFAULT_SCHEMA, None)}
        self._functions: dict[str, UserFunction] = {}
        self._last_id = 0
        self._kept_by: dict[Key, list[tuple[int, View]]] | None = None

    def mark(self) -> _Called:
        views = [(view, view.text, view.computed) for view in self.views()]
        called = [(e, e.name, e.traits, e.comment) for e in self.entries]
        spaces, functions = dict(self._spaces), dict(self._functions)
        return _Called(called, views, spaces, functions, self._last_id)

    def restore(self, mark: _Called) -> None:
        """What was added, removed or renamed since was not."""
        for entry, name, traits, comment in mark.entries:
            entry.name, entry.traits, entry.comment = name, traits, comment
        for view, text, computed in mark.views:
            view.text, view.computed = text, computed
        self._entries = {entry.id: entry for entry, *_ in mark.entries}
        self._named = {folded(name): entry for entry, name, *_ in mark.entries}
        self._spaces, self._functions = dict(mark.spaces), dict(mark.functions)
        self._last_id, self._kept_by = mark.last_id, None

    def add(self, entry: Entry) -> None:
        self._dataflow.undo.before(self)
        self._entries[entry.id] = self._named[folded(entry.name)] = entry
        self._last_id = max(self._last_id, int(entry.id))
        self._kept_by = None

    def remove(self, entry: Entry) -> None:
        self._dataflow.undo.before(self)
        del self._entries[entry.id], self._named[folded(entry.name)]
        self._kept_by = None

    def rename(self, entry: Entry, name: str) -> None:
        """Call an entry by a name that is free."""
        self._dataflow.undo.before(self)
        del self._named[folded(entry.name)]
        entry.name = name
        self._named[folded(name)] = entry

    def describe(self, entry: Entry, traits: tuple[Trait, ...], comment: str | None) -> None:
        """Say something else of an entry and its columns."""
        self._dataflow.undo.before(self)
        entry.traits, entry.comment = traits, comment

    def compute(self, view: View) -> None:
        """A lazy view is computed from now on."""
        self._dataflow.undo.before(self)
        view.computed, self._kept_by = True, None

    def clear(self) -> None:
        """Nothing is there any more."""
        self._entries, self._named, self._kept_by = {}, {}, None
        self._spaces = {}

    def find(self, name: str) -> Entry | None:
        found = self._named.get(folded(name))
        if found is None and "." in name:  # default.t is t
            found = self._named.get(folded(_full(name)))
        return found

    # -- schemas ---------------------------------------------------------------------------------

    def spaces(self) -> tuple[Space, ...]:
        """The schemas, in the order of creation; the default one is the first."""
        return tuple(self._spaces.values())

    def space(self, name: str) -> Space:
        """Raises: CatalogError if there is no such schema."""
        found = self._spaces.get(folded(name))
        if found is None:
            known = [s.name for s in self.spaces()]
            listed = ", ".join(f'"{n}"' for n in known[:MOST_LISTED])
            raise CatalogError(
                f'schema "{name}" does not exist',
                detail=f"There are {listed}.",
                hint=suggestion(name, known),
            )
        return found

    def has_space(self, name: str) -> bool:
        return folded(name) in self._spaces

    def add_space(self, space: Space) -> None:
        self._dataflow.undo.before(self)
        self._spaces[folded(space.name)] = space

    def remove_space(self, space: Space) -> None:
        self._dataflow.undo.before(self)
        del self._spaces[folded(space.name)]

    # -- functions -------------------------------------------------------------------------------

    def function(self, name: str) -> UserFunction | None:
        return self._functions.get(folded(name))

    def functions(self) -> tuple[UserFunction, ...]:
        """The user's functions, in the order of their registration."""
        return tuple(self._functions.values())

    def add_function(self, function: UserFunction) -> None:
        self._dataflow.undo.before(self)
        self._functions[folded(function.name)] = function

    def remove_function(self, function: UserFunction) -> None:
        self._dataflow.undo.before(self)
        del self._functions[folded(function.name)]

    def entries_in(self, schema: str) -> tuple[Entry, ...]:
        """What is in a schema, in the order of creation."""
        return tuple(
            e
            for e in self.entries
            if folded(schema_of(e.name)) == folded(schema) and e.name != CLOCK
        )

    def new_name(self, name: str) -> str:
        """The full name under which something is to be created, as its schema is spelled.

        Raises: CatalogError for a schema that is not there, and for what is no name.
        """
        full = _full(name)
        space = self.space(schema_of(full))
        return full if space.name == DEFAULT_SCHEMA else f"{space.name}{full[len(space.name) :]}"

    def has(self, entry: Entry) -> bool:
        """Whether this entry, as it is, is there."""
        return self._entries.get(entry.id) is entry

    def exchange(self, entry: Entry) -> None:
        """An entry as it is now, in the place of the one of its id and name."""
        self._dataflow.undo.before(self)
        self._entries[entry.id] = self._named[folded(entry.name)] = entry

    def new_id(self) -> str:
        """One that nothing has that is there."""
        return str(self._last_id + 1)

    def entry(self, id: str) -> Entry:
        """What has this id, and is there."""
        return self._entries[id]

    def called(self, id: str) -> str:
        """The name of what has this id."""
        return self._entries[id].name

    def table(self, name: str) -> Table:
        """Raises: CatalogError if there is no such table."""
        entry = self.find(name)
        if isinstance(entry, Table) and entry.name != CLOCK:
            return entry
        if isinstance(entry, Stream):
            raise CatalogError(f'"{entry.name}" is a stream, not a table')
        if isinstance(entry, View):
            raise CatalogError(
                f'"{entry.name}" is a view, not a table',
                hint="Change the tables under the view; the view follows.",
            )
        raise self._missing("table", name)

    @property
    def clock(self) -> Table | None:
        """The table of one row that has the time; None before it was set."""
        entry = self.find(CLOCK)
        return entry if isinstance(entry, Table) else None

    def stream(self, name: str) -> Stream:
        """Raises: CatalogError if there is no such stream."""
        entry = self.find(name)
        if isinstance(entry, Stream):
            return entry
        if entry is not None:
            kind = "table" if isinstance(entry, Table) else "materialized view"
            raise CatalogError(f'"{entry.name}" is a {kind}, not a stream')
        raise self._missing("stream", name)

    def changeable(self, name: str) -> Table | Stream:
        """What a transaction can change. Raises: CatalogError as `table`."""
        entry = self.find(name)
        return entry if isinstance(entry, Stream) else self.table(name)

    def of_kind(self, name: str, kind: str) -> Entry:
        """A "table", "stream" or "view". Raises: CatalogError if there is none of that name."""
        match kind:
            case "table":
                return self.table(name)
            case "stream":
                return self.stream(name)
            case _:
                return self.view(name)

    def any(self, name: str) -> Entry:
        """Raises: CatalogError if there is nothing of that name."""
        entry = self.find(name)
        if entry is None:
            raise self._missing("table or view", name)
        return entry

    def view(self, name: str) -> View:
        """Raises: CatalogError if there is no such view."""
        entry = self.find(name)
        if isinstance(entry, View):
            return entry
        if entry is not None:
            kind = "table" if isinstance(entry, Table) else "stream"
            raise CatalogError(f'"{entry.name}" is a {kind}, not a materialized view')
        raise self._missing("materialized view", name)

    def readers(self, entry: Entry) -> tuple[str, ...]:
        """Views that read the table, stream or view directly."""
        return tuple(v.name for v in self.views() if entry.id in v.reads)

    def free_reader(self, name: str) -> str:
        """A name for a new view's part in the dataflow: its own, if no other view goes by it."""
        taken = {v.reader for v in self.views()}
        number, reader = 1, name
        while reader in taken:
            number += 1
            reader = f"{name} ({number})"
        return reader

    def reader_names(self) -> dict[str, str]:
        """The name of each view by what it goes by in the dataflow."""
        return {v.reader: v.name for v in self.views()}

    @property
    def entries(self) -> tuple[Entry, ...]:
        """All there is, in the order of creation."""
        return tuple(self._entries.values())

    def tables(self) -> Iterator[Table]:
        return (e for e in self._entries.values() if isinstance(e, Table))

    def streams(self) -> Iterator[Stream]:
        return (e for e in self._entries.values() if isinstance(e, Stream))

    def streams_under(self, view: View) -> tuple[str, ...]:
        """The streams that the view reads, itself or through other views, in order of name."""
        found: set[str] = set()
        for id in view.reads:
            entry = self.entry(id)
            if isinstance(entry, Stream):
                found.add(entry.name)
            elif isinstance(entry, View):
                found.update(self.streams_under(entry))
        return tuple(sorted(found))

    def views_under(self, view: View) -> tuple[View, ...]:
        """The view, and those that it reads, itself or through others."""
        found = {view.name: view}
        for id in view.reads:
            entry = self.entry(id)
            if isinstance(entry, View):
                found.update((v.name, v) for v in self.views_under(entry))
        return tuple(found.values())

    def views(self) -> Iterator[View]:
        """Views in the order of their creation, so that each comes after those it reads."""
        return (e for e in self._entries.values() if isinstance(e, View))

    def views_kept_by(self, nodes: Iterable[Key]) -> list[View]:
        """The computed views whose rows are those of one of the nodes, in the order of their
        creation."""
        if self._kept_by is None:
            self._kept_by = {}
            for number, view in enumerate(v for v in self.views() if v.computed):
                self._kept_by.setdefault((view.owner, view.root), []).append((number, view))
        found = [some for key in nodes for some in self._kept_by.get(key, ())]
        return [view for _, view in sorted(found, key=lambda some: some[0])]

    # -- planner.context.CatalogReader -----------------------------------------------------------

    def relation(self, name: str) -> RelationInfo | None:
        return self._info(self.find(name))

    def source(self, id: str) -> RelationInfo | None:
        return self._info(self._entries.get(id))

    def _info(self, entry: Entry | None) -> RelationInfo | None:
        match entry:
            case Table():
                key = entry.key
                rows = self._rows(entry)
                said = tuple(t.default for t in entry.traits)
                return RelationInfo(entry.name, entry.schema, key, entry.node, rows, False, said)
            case View():
                rows = self._rows(entry)
                return RelationInfo(entry.name, entry.schema, None, entry.node, rows, True)
            case Stream():
                said = tuple(t.default for t in entry.traits)
                return RelationInfo(entry.name, entry.schema, None, entry.node, 0, False, said)
            case None:
                return None

    def _rows(self, entry: Entry) -> int:
        """How many rows there are; of a view that is not computed as many as of the largest that it
        reads."""
        match entry:
            case Table():
                return entry.state.relation.live_rows
            case View(computed=True):
                return self._dataflow.relation(entry.root, entry.owner).live_rows
            case View():
                return max((self._rows(self.entry(id)) for id in entry.reads), default=0)
            case Stream():
                return 0
            case _:
                assert_never(entry)

    def names(self) -> tuple[str, ...]:
        return tuple(e.name for e in self.entries if e.name != CLOCK)

    def live_indexes(self) -> frozenset[ir.Index]:
        asked = (i.spec for i in self._dataflow.indexes if i.owner == "" and not i.deferred)
        return frozenset((*self._dataflow.planned.named(""), *asked))

    def _missing(self, kind: str, name: str) -> CatalogError:
        known = sorted(self.names())
        listed = ", ".join(f'"{n}"' for n in known[:MOST_LISTED])
        if len(known) > MOST_LISTED:
            listed += f" and {len(known) - MOST_LISTED} more"
        return CatalogError(
            f'{kind} "{name}" does not exist',
            detail=f"There are {listed}." if known else "The catalog is empty.",
            hint=suggestion(name, known),
        )
