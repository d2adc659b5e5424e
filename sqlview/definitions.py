"""Definitions: what CREATE, ALTER and DROP do to the catalog and the running dataflow.

Invariant: a statement that fails leaves both as they were; a view that is to be replaced goes when
its successor is there.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol, TypeAlias

from operators import interrupts
from operators.dataflow import Dataflow
from operators.scalar import user
from operators.scalar.user import Function
from operators.table import TableState
from planner import dataflow as ir
from planner import parse
from planner.analysis.keys import plan_keys
from planner.bind import bind_default, bind_view, is_taken
from planner.calculus import algebra
from planner.calculus.expr import children
from planner.calculus.types import Schema, SqlType
from planner.calculus.visit import expressions, walk
from planner.calculus.zones import Zone
from planner.context import Trait, UserFunction
from planner.errors import CatalogError, UnsupportedError, suggestion
from planner.lower.indexes import Migration
from planner.lower.views import lower, table_key
from planner.names import DEFAULT_SCHEMA, folded
from planner.rewrite.optimizer import optimize
from planner.room import refuse_deep, with_room
from planner.serialise import PLAN
from sqlview.catalog import MOST_LISTED, Catalog, Entry, Space, Stream, Table, View
from sqlview.defaults import columns_of, default_of
from sqlview.rewriting import Texts, namings, narrowed_texts, renamed_texts
from sqlview.settings import Settings
from sqlview.store.records import (
    AddedColumns,
    Alteration,
    Computed,
    DefinedSchema,
    Described,
    Dropped,
    DroppedFunction,
    DroppedSchema,
    Renamed,
)

_log = logging.getLogger(__name__)

#: Told of a view that is there from an epoch on.
Created: TypeAlias = Callable[[View, int], None]
#: Told the name of a table or view that is no more.
Forget: TypeAlias = Callable[[str], None]
#: Told of a view and its successor, while both are there.
Replaced: TypeAlias = Callable[[View, View], None]


#: Told the name of what is called otherwise from now on, and the new one.
RenamedTo: TypeAlias = Callable[[str, str], None]


#: Keeps what is created, or what else is done, as the last part of doing it.
class Record(Protocol):
    def __call__(self, entry: Entry | Alteration, awaits_rows: bool = False) -> None:
        """`awaits_rows`: a table that is there only if the next record is a step with its rows."""


class Definitions:
    """CREATE, ALTER and DROP. `share`: whether views share indexes and operators. `created` is told
    of each view that comes, `dropped` of each table and view that goes, `replaced` of each view
    that another one takes the place of, `renamed` of each new name, `altered` of each table with
    more columns. `settings`: the time zone, and what else a query's meaning depends on."""

    def __init__(
        self,
        catalog: Catalog,
        dataflow: Dataflow,
        *,
        share: bool,
        created: Created,
        dropped: Forget,
        replaced: Replaced,
        renamed: RenamedTo,
        altered: Callable[[], None],
        settings: Settings,
    ) -> None:
        self._settings = settings
        self._catalog = catalog
        self._dataflow = dataflow
        self._share = share
        self._tell_created = created
        self._tell_dropped = dropped
        self._tell_replaced = replaced
        self._tell_renamed = renamed
        self._tell_altered = altered
        self.record: Record = _not_recorded
        #: Of the user's functions that a store names, by folded name.
        self.code: Mapping[str, Function] = {}
        #: Called when a statement has changed something.
        self.ended: Callable[[], None] = _nothing

    def create_table(self, statement: parse.CreateTable) -> None:
        if self._catalog.find(statement.name) is None or not statement.if_not_exists:
            self.add_table(self.new_table(statement))

    def new_table(self, statement: parse.CreateTable) -> Table:
        """A table that is not in the catalog yet. Raises: CatalogError if its name is taken."""
        name = self._free(statement.name)
        names = [folded(f.name) for f in statement.columns]
        key = tuple(names.index(folded(k)) for k in statement.primary_key) or None
        source = ir.Source(self._catalog.new_id(), statement.columns)
        state = TableState(source, key)
        self._check_defaults(statement.columns, statement.traits)
        said = statement.traits, statement.comment
        return Table(name, statement.columns, key, statement.enforced, state, *said)

    def _check_defaults(self, columns: Schema, traits: Sequence[Trait]) -> None:
        """Raises: BindError for a default that no row can have."""
        for field, trait in zip(columns, traits, strict=True):
            if trait.default is not None:
                bind_default(trait.default, field, self._catalog, self._settings.zone())

    def _free(self, name: str) -> str:
        """The name under which something new is created. Raises: CatalogError if it is taken."""
        if self._catalog.find(name) is not None:
            raise CatalogError(f'"{name}" exists already')
        return self._catalog.new_name(name)

    def add_table(self, table: Table, awaits_rows: bool = False) -> None:
        """A table without rows. `awaits_rows`: the next step brings some, as a part of the same
        work, or it is dropped as `unfilled`."""

        def work() -> None:
            enforced = table.key is not None and table.enforced
            self._dataflow.add_table(table.state, enforced=enforced)
            self._catalog.add(table)
            self.record(table, awaits_rows)

        self._all_or_nothing(work)

    def create_stream(self, statement: parse.CreateStream) -> None:
        if statement.if_not_exists and self._catalog.find(statement.name) is not None:
            return
        name, id = self._free(statement.name), self._catalog.new_id()
        self._check_defaults(statement.columns, statement.traits)
        self.add_stream(Stream(id, name, statement.columns, statement.traits, statement.comment))

    def add_stream(self, stream: Stream) -> None:
        def work() -> None:
            self._catalog.add(stream)
            self.record(stream)

        self._all_or_nothing(work)

    def create_view(self, statement: parse.CreateView, epoch: int) -> None:
        """Install a view, computed as of `epoch`; a lazy one is known, and no more. One that
        replaces another is built beside it, under a reader of its own, and takes over its name when
        it is whole; what replaces a computed view is computed, for those who read it."""
        existing = self._catalog.find(statement.name)
        if existing is not None:
            if statement.if_not_exists:
                return
            if not (statement.or_replace and isinstance(existing, View)):
                raise CatalogError(f'"{existing.name}" exists already')
            self._refuse_read(existing, "replace")
        with parse.placed(statement.query):
            planned = self.plan(statement)
            if existing is not None and existing.id in planned.reads:
                raise CatalogError(
                    f'cannot replace "{existing.name}" by a view that reads it',
                    detail="The new view would have no rows but its own to read.",
                    hint="Write out the old query under the new one, or give the new view another "
                    "name.",
                )
            self.add_view(planned, epoch)

    def add_view(self, planned: View, epoch: int) -> None:
        """Know a planned view, and install it if it is computed, in the place of one of its name if
        there is one."""
        existing = self._catalog.find(planned.name)
        replaced = existing if isinstance(existing, View) else None
        if replaced is not None and replaced.computed:
            planned.computed = True

        def work() -> None:
            if replaced is not None and not replaced.computed:
                self._catalog.remove(replaced)
                self._tell_dropped(replaced.name)
                self._install(planned, epoch)
            else:
                self._install(planned, epoch, replaced)
            self._catalog.add(planned)
            self.record(planned)

        self._all_or_nothing(work)

    def compute(self, view: View, epoch: int) -> None:
        """Install a lazy view that nobody has read so far, computed as of `epoch`."""

        def work() -> None:
            self._catalog.compute(view)
            self._install(view, epoch)
            self.record(Computed(view.id))

        self._all_or_nothing(work)

    def _install(self, view: View, epoch: int, replaced: View | None = None) -> None:
        """Nothing of a lazy view that nobody has read."""
        if not view.computed:
            return
        migration = self.migration(view, replaced)
        births = self._dataflow.install(view.reader, view.root, epoch, migration, view.owner)
        view.changes = len(births)
        if replaced is None:
            self._dataflow.migrate(migration)
        else:
            self._tell_replaced(replaced, view)
            self._catalog.remove(replaced)
            self._dataflow.retire(replaced.reader, migration)
        self._tell_created(view, epoch)

    def resume(self, entry: Entry) -> None:
        """Put in place what a checkpoint has, whose rows, indexes and operators come later."""
        match entry:
            case Table():
                self.add_table(entry)
            case Stream():
                self.add_stream(entry)
            case View():
                if entry.computed:
                    migration = self.migration(entry)
                    self._dataflow.resume(entry.reader, entry.root, migration, entry.owner)
                self._catalog.add(entry)

    def migration(self, view: View, replaced: View | None = None) -> Migration:
        """What one more view does to the indexes, and one less if it replaces that."""
        now = self._dataflow.planned
        then = now.with_view(view.reader, view.root, view.owner)
        if replaced is not None and replaced.computed:
            then = then.without(replaced.reader)
        return now.to(then)

    def plan(self, statement: parse.CreateView) -> View:
        """The view of a CREATE, not installed.

        Raises: UnsupportedError where Spark would take the text for something else.
        """
        self._settings.check()
        zone = self._settings.zone()  # asked here: Spark's active session is the thread's
        return with_room(lambda: self._plan(statement, zone))

    def _plan(self, statement: parse.CreateView, zone: Zone) -> View:
        bound = bind_view(statement, self._catalog, zone)
        reader = self._catalog.free_reader(statement.name)
        plan, root = lowered(bound.plan, self._catalog, reader)
        keys = plan_keys(plan, table_key(self._catalog))
        there = self._catalog.find(statement.name)
        view = View(
            id=there.id if isinstance(there, View) else self._catalog.new_id(),
            name=self._catalog.new_name(statement.name),
            text=parse.qualified(statement.query.text, statement.schema),
            schema=tuple(
                replace(made, limit=said.limit, padded=said.padded)
                for made, said in zip(root.schema, bound.plan.schema, strict=True)
            ),
            root=root,
            order=bound.order,
            reads=tuple(self._catalog.any(name).id for name in _scanned(bound.plan)),
            owner="" if self._share else reader,
            reader=reader,
            key=min(keys, key=lambda key: (len(key), key), default=None),
            zone=zone,
            zoned=bound.zoned,
            traits=_view_traits(statement, len(root.schema)),
            comment=statement.comment,
            lazy=statement.lazy,
            computed=not statement.lazy,
        )
        if view.lazy:
            self._refuse_past(view)
        if not self._share:
            self._refuse_private(view)
        return view

    def _refuse_past(self, view: View) -> None:
        """A lazy view over a stream would lack the events before it is first read."""
        for id in view.reads:
            entry = self._catalog.entry(id)
            if isinstance(entry, Stream):
                raise UnsupportedError(
                    f'cannot keep the lazy view "{view.name}" over the stream "{entry.name}"',
                    detail="A stream keeps none of its events, and those before the first read "
                    "would be missing.",
                    hint="Leave WITH (lazy = true) out.",
                )

    def _refuse_private(self, view: View) -> None:
        """A private copy of what another view made of a stream would lack the past events."""
        for id in view.reads:
            entry = self._catalog.entry(id)
            if isinstance(entry, View) and self._catalog.streams_under(entry):
                raise UnsupportedError(
                    f'cannot keep a private copy of the view "{entry.name}"',
                    detail="It is over a stream, whose past events are gone.",
                    hint="Open the session with share=True, or read the stream itself.",
                )

    def rename(self, statement: parse.Rename) -> None:
        """Call a table, stream or view otherwise; the texts of views that read it follow.

        Raises: CatalogError for names that are unknown or taken, and where the text of a view
        cannot follow: then nothing has changed.
        """
        entry = self._catalog.of_kind(statement.name, statement.kind)
        there = self._catalog.find(statement.to)
        if there is not None and there is not entry:
            raise CatalogError(f'cannot rename "{entry.name}": "{there.name}" exists already')
        to = self._catalog.new_name(statement.to)
        old, before = entry.name, with_room(lambda: namings(self._catalog, entry))

        def work() -> None:
            self._catalog.rename(entry, to)
            texts = with_room(lambda: renamed_texts(self._catalog, entry, old, before))
            self._rename(entry, old, texts)
            self.record(Renamed(entry.id, to, texts))

        self._all_or_nothing(work)

    def renamed(self, record: Renamed) -> None:
        """Do what a record says."""
        entry = self._catalog.entry(record.id)
        old = entry.name

        def work() -> None:
            self._catalog.rename(entry, record.name)
            self._rename(entry, old, record.texts)

        self._all_or_nothing(work)

    def _rename(self, entry: Entry, old: str, texts: Texts) -> None:
        self._set_texts(texts)
        self._tell_renamed(old, entry.name)

    def _set_texts(self, texts: Texts) -> None:
        for id, text in texts:
            view = self._catalog.entry(id)
            assert isinstance(view, View), "only they have a text"
            view.text = text

    def add_columns(self, statement: parse.AddColumns) -> None:
        """More columns of a table, behind the others. Views go on with those that they know.

        Raises: CatalogError for an unknown table and columns that are there; DataError for a
        default that the column does not hold, and for none where it is NOT NULL and there are rows:
        then nothing has changed.
        """
        table = self._catalog.table(statement.name)
        zone = self._settings.zone()
        taken = {folded(f.name): f.name for f in table.schema}
        for column in statement.columns:
            if folded(column.field.name) in taken:
                named = taken[folded(column.field.name)]
                raise CatalogError(
                    f'"{table.name}" has a column "{named}" already',
                    hint="Give the new column another name.",
                )
        record = AddedColumns(
            id=table.id,
            columns=tuple(column.field for column in statement.columns),
            values=tuple(
                default_of(table, column, self._catalog, zone) for column in statement.columns
            ),
            traits=tuple(column.trait for column in statement.columns),
            texts=(),
        )
        before = with_room(lambda: namings(self._catalog, table))

        def work() -> None:
            self._catalog.exchange(_with_columns(table, record))
            texts = with_room(lambda: narrowed_texts(self._catalog, table, record.columns, before))
            self._add_columns(table, record, texts)
            self._tell_altered()
            self.record(replace(record, texts=texts))

        self._all_or_nothing(work)

    def added_columns(self, record: AddedColumns) -> None:
        """Do what a record says."""
        table = self._catalog.entry(record.id)
        assert isinstance(table, Table), "others have no columns of their own"

        def work() -> None:
            self._catalog.exchange(_with_columns(table, record))
            self._add_columns(table, record, record.texts)

        self._all_or_nothing(work)

    def _add_columns(self, table: Table, record: AddedColumns, texts: Texts) -> None:
        values = columns_of(record.columns, record.values)
        self._dataflow.add_columns(table.state.source, record.columns, values)
        self._set_texts(texts)

    def alter_column(self, statement: parse.AlterColumn) -> None:
        """Raises: CatalogError for an unknown column; BindError for a default that no row can
        have."""
        entry = self._catalog.any(statement.name)
        place = _place_of(entry, statement.column)
        trait = replace(entry.traits[place], **{statement.sets: statement.value})
        self._check_defaults((entry.schema[place],), (trait,))
        self._describe(entry, _with(entry.traits, place, trait), entry.comment)

    def comment(self, statement: parse.Comment) -> None:
        """Raises: CatalogError for what is not there."""
        if statement.kind == "schema":
            space = replace(self._catalog.space(statement.name), comment=statement.text)
            self.add_schema(space)
            return
        if statement.column is None:
            entry = self._catalog.of_kind(statement.name, statement.kind)
            self._describe(entry, entry.traits, statement.text)
            return
        entry = self._catalog.any(statement.name)
        place = _place_of(entry, statement.column)
        trait = replace(entry.traits[place], comment=statement.text)
        self._describe(entry, _with(entry.traits, place, trait), entry.comment)

    def _describe(self, entry: Entry, traits: tuple[Trait, ...], comment: str | None) -> None:
        self.described(Described(entry.id, traits, comment))

    def described(self, record: Described) -> None:
        """Do what a record says."""

        def work() -> None:
            entry = self._catalog.entry(record.id)
            self._catalog.describe(entry, record.traits, record.comment)
            self.record(record)

        self._all_or_nothing(work)

    def register(self, name: str, function: Function, kind: SqlType) -> None:
        """A function of the user; one of the name and type that is there gets its code, if this
        process has none for it.

        Raises: CatalogError for a name of Spark's, and for another function in the place of one
        that views call.
        """
        if is_taken(name):
            raise CatalogError(
                f'there is a function "{name}" of Spark', hint="Give yours another name."
            )
        there = self._catalog.function(name)
        if there is not None and there.type == kind:
            if not user.is_known(there.id) or user.known(there.id, there.name) is function:
                user.know(there.id, function)
                return
        if there is not None:
            self._refuse_called(there, "register another function as")
        made = UserFunction(name, uuid.uuid4().hex, kind)
        user.know(made.id, function)
        self.add_function(made)

    def add_function(self, function: UserFunction) -> None:
        code = self.code.get(folded(function.name))
        if code is not None:
            user.know(function.id, code)

        def work() -> None:
            self._catalog.add_function(function)
            self.record(function)

        self._all_or_nothing(work)

    def drop_function(self, statement: parse.DropFunction) -> None:
        """Raises: CatalogError for an unknown function, and one that views call."""
        function = self._catalog.function(statement.name)
        if function is None:
            if statement.if_exists:
                return
            known = [f.name for f in self._catalog.functions()]
            raise CatalogError(
                f'function "{statement.name}" does not exist',
                hint=suggestion(statement.name, known),
            )
        self._refuse_called(function, "drop")
        self.remove_function(function)

    def remove_function(self, function: UserFunction) -> None:
        def work() -> None:
            self._catalog.remove_function(function)
            self.record(DroppedFunction(function.name))

        self._all_or_nothing(work)

    def _refuse_called(self, function: UserFunction, verb: str) -> None:
        # Ids are random: nothing else in a plan has one.
        callers = [v.name for v in self._catalog.views() if function.id in PLAN.write(v.root)]
        if callers:
            raise CatalogError(
                f'cannot {verb} "{function.name}" because views call it',
                detail="They are " + ", ".join(f'"{name}"' for name in callers) + ".",
                hint="Drop those views first, or register the other function by another name.",
            )

    def create_schema(self, statement: parse.CreateSchema) -> None:
        if self._catalog.has_space(statement.name):
            if statement.if_not_exists:
                return
            raise CatalogError(f'schema "{statement.name}" exists already')
        self.add_schema(Space(statement.name, statement.comment))

    def add_schema(self, space: Space) -> None:
        def work() -> None:
            self._catalog.add_space(space)
            self.record(DefinedSchema(space.name, space.comment))

        self._all_or_nothing(work)

    def drop_schema(self, statement: parse.DropSchema) -> None:
        """With CASCADE views go before what they read.

        Raises: CatalogError for the default schema, one that is not empty, and one that views of
        other schemas read: then all is as before.
        """
        if statement.if_exists and not self._catalog.has_space(statement.name):
            return
        space = self._catalog.space(statement.name)
        if space.name == DEFAULT_SCHEMA:
            raise CatalogError(f'cannot drop schema "{space.name}"')
        inside = self._catalog.entries_in(space.name)
        if inside and not statement.cascade:
            listed = ", ".join(f'"{e.name}"' for e in inside[:MOST_LISTED])
            more = f" and {len(inside) - MOST_LISTED} more" if len(inside) > MOST_LISTED else ""
            raise CatalogError(
                f'cannot drop schema "{space.name}", which is not empty',
                detail=f"There are {listed}{more} in it.",
                hint="Drop these first, or write CASCADE.",
            )
        outside = [
            v.name
            for v in self._catalog.views()
            if v not in inside and any(e.id in v.reads for e in inside)
        ]
        if outside:
            raise CatalogError(
                f'cannot drop schema "{space.name}" because views depend on what is in it',
                detail="They are " + ", ".join(f'"{name}"' for name in outside) + ".",
                hint="Drop those views first.",
            )
        # A view comes after what it reads, unless it was replaced since.
        waiting = list(inside)
        while waiting:
            read = {id for e in waiting if isinstance(e, View) for id in e.reads}
            for entry in [e for e in waiting if e.id not in read]:
                self.drop(entry)
                waiting.remove(entry)
        self.drop_space(space)

    def drop_space(self, space: Space) -> None:
        """One that is empty."""

        def work() -> None:
            self._catalog.remove_space(space)
            self.record(DroppedSchema(space.name))

        self._all_or_nothing(work)

    def drop_table(self, statement: parse.DropTable) -> None:
        self._drop(statement, self._catalog.table)

    def drop_stream(self, statement: parse.DropStream) -> None:
        self._drop(statement, self._catalog.stream)

    def drop_view(self, statement: parse.DropView) -> None:
        self._drop(statement, self._catalog.view)

    def _drop(
        self,
        statement: parse.DropTable | parse.DropStream | parse.DropView,
        named: Callable[[str], Entry],
    ) -> None:
        if self._catalog.find(statement.name) is not None or not statement.if_exists:
            self.drop(named(statement.name))

    def drop(self, entry: Entry, unfilled: bool = False) -> None:
        """`unfilled`: it is a table that awaited rows, and nothing is recorded.

        Raises: CatalogError for what views read."""
        self._refuse_read(entry, "drop")

        def work() -> None:
            match entry:
                case Table():
                    self._dataflow.drop_table(entry.state.source)
                case View(computed=True):
                    now = self._dataflow.planned
                    self._dataflow.retire(entry.reader, now.to(now.without(entry.reader)))
            self._catalog.remove(entry)
            if not isinstance(entry, Stream):
                self._tell_dropped(entry.name)
            if not unfilled:
                self.record(Dropped(entry.id))

        self._all_or_nothing(work)

    def _all_or_nothing(self, work: Callable[[], None]) -> None:
        with interrupts.held():
            self._dataflow.undo.all_or_nothing(work)
            try:
                self.ended()
            except Exception:
                _log.warning("what was published is made again when it is asked for", exc_info=True)

    def _refuse_read(self, entry: Entry, verb: str) -> None:
        readers = self._catalog.readers(entry)
        if readers:
            listed = ", ".join(f'"{r}"' for r in readers)
            raise CatalogError(
                f'cannot {verb} "{entry.name}" because views depend on it',
                detail=f"It is read by {listed}.",
                hint="Drop those views first.",
            )


def lowered(bound: algebra.Plan, catalog: Catalog, reader: str) -> tuple[algebra.Plan, ir.Store]:
    """What a bound plan becomes: optimized, and as it runs for `reader`.

    Raises: UnsupportedError for what cannot be maintained, or is too deep.
    """
    plan = optimize(bound)
    refuse_deep((e for p in walk(plan) for e in expressions(p)), children, "an expression")
    root = ir.Store(lower(plan, catalog, reader=reader))
    refuse_deep(ir.inputs(root), ir.inputs, "a query")
    return plan, root


def _with_columns(table: Table, record: AddedColumns) -> Table:
    return Table(
        table.name,
        (*table.schema, *record.columns),
        table.key,
        table.enforced,
        table.state,
        (*table.traits, *record.traits),
        table.comment,
    )


def _view_traits(statement: parse.CreateView, count: int) -> tuple[Trait, ...]:
    return tuple(map(Trait, statement.comments)) or (Trait(),) * count


def _place_of(entry: Entry, column: str) -> int:
    for place, field in enumerate(entry.schema):
        if folded(field.name) == folded(column):
            return place
    known = [f.name for f in entry.schema]
    raise CatalogError(f'"{entry.name}" has no column "{column}"', hint=suggestion(column, known))


def _with(traits: tuple[Trait, ...], place: int, trait: Trait) -> tuple[Trait, ...]:
    return (*traits[:place], trait, *traits[place + 1 :])


def _not_recorded(entry: Entry | Alteration, awaits_rows: bool = False) -> None:
    """There is no store."""


def _nothing() -> None:
    """Nobody is told."""


def _scanned(plan: algebra.Plan) -> tuple[str, ...]:
    """The names of the relations that the plan reads, from left to right."""
    scans = [p.relation for p in walk(plan) if isinstance(p, algebra.Scan)]
    return tuple(dict.fromkeys(reversed(scans)))
