"""The running dataflow: installed nodes, their operators, relations, indexes and filters.

Nodes are shared by structure: two views with an equal subplan have one operator, and every index
and every filter of a relation exists once, whoever asks for it first. Each has the set of views
that read it and goes when the last one does. With an `owner` other than "" a view keeps its own.
Which indexes there are, and which one a join reads, is planned (`planner.lower.indexes`): a view
comes and goes by a `Migration`.

Invariant: `nodes` is in topological order; after a relation's operator has run, and before any
consumer does, all indexes over that relation hold its new rows, but for one that only its table
reads (see LiveIndex.deferred); filters take them in when somebody looks. Between calls the indexes
are those of `planned`, and those that somebody asked for.
Source: Shared Arrangements §4.3 (import), §3 (sharing).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count
from time import perf_counter
from typing import NamedTuple, TypeAlias, TypeVar

import numpy as np

from operators import budget, interrupts
from operators.flight import delta as deltas
from operators.flight.column import Column, Ints
from operators.flight.delta import Delta
from operators.hydration import flowing, pieces_of, sliced
from operators.live import TABLE_READER, LiveFilter, LiveIndex, Over
from operators.nodes.delta_join import DeltaJoinOperator
from operators.nodes.operator import AnyOperator, InRounds
from operators.nodes.registry import operator_of
from operators.state import filters
from operators.state.arrangement import ArrangementState
from operators.state.filters import Filter
from operators.state.hashing import Hashing
from operators.state.relation import Relation
from operators.state.rows import Rows
from operators.state.shared import Shared
from operators.state.ticks import epoch_end, round_of
from operators.state.undo import Undo
from operators.state.work import Work
from operators.table import TableState, snapshot
from planner import dataflow as ir
from planner.calculus.expr import Expr
from planner.calculus.types import Schema
from planner.lower.indexes import Indexes, Migration, Named

Answered = TypeVar("Answered")


class _TakeBack(BaseException):
    """What was installed for answers is to go."""


class Only(NamedTuple):
    """The rows of a table that matter, as row ids int64[n], ascending."""

    table: ir.Source
    rows: Ints


#: Old versions are forgotten and indexes merged after so many steps, or when so many rows came to
#: a relation since, or so many of one died, which who looks for the first of an order passes over.
STEPS_BEHIND, ROWS_BEHIND, DEATHS_BEHIND = 8, 4096, 64
#: A node as installed: "" where it is shared, else the view whose own it is.
Key: TypeAlias = tuple[str, ir.Node]


@dataclass(slots=True)
class Installed:
    """A node with its operator, and the views that need it. `number`: greater than those of all
    nodes under it. `seconds`: what its steps took."""

    node: ir.Node
    owner: str
    operator: AnyOperator
    number: int
    readers: set[str] = field(default_factory=set)
    seconds: float = 0.0
    #: The loop that it is inside of, which runs it; None for what each step runs.
    loop: str | None = field(init=False)
    key: Key = field(init=False)
    #: Of each input in turn, one that occurs twice included.
    reads: tuple[Key, ...] = field(init=False)

    def __post_init__(self) -> None:
        self.key = self.owner, self.node
        self.loop = ir.loop_of(self.node)
        self.reads = tuple(node_key(i, self.owner) for i in self.operator.takes)


#: See Dataflow.hydrate.
Hydrate: TypeAlias = Callable[[Installed, int, Mapping[ir.Node, Delta | None]], bool]


class _Structure(NamedTuple):
    """What is installed, and who reads it, before that changes; `failing`: see Shared."""

    tables: dict[ir.Source, TableState]
    installed: dict[Key, tuple[Installed, set[str]]]
    relations: dict[Key, Relation]
    indexes: dict[Named, tuple[LiveIndex, frozenset[str], set[str]]]
    filters: dict[tuple[Key, str, Expr], tuple[LiveFilter, set[str]]]
    streams: dict[ir.Stream, set[str]]
    failing: set[object]
    planned: Indexes


class Dataflow:
    """Everything that is kept for the installed views, and how a step runs through it."""

    def __init__(self) -> None:
        self.shared = Shared()
        self.tables: dict[ir.Source, TableState] = {}
        self._installed: dict[Key, Installed] = {}
        self._numbers = count()
        self._consumers: dict[Key, list[Installed]] | None = None
        self._relations: dict[Key, Relation] = {}
        self._indexes: dict[Named, LiveIndex] = {}
        #: The choice of indexes that runs.
        self.planned = Indexes()
        self._filters: dict[tuple[Key, str, Expr], LiveFilter] = {}
        self._over: dict[Key, Over] | None = None
        self._streams: dict[ir.Stream, set[str]] = {}
        #: Relations that have to forget old versions, and how many rows came to the indexes over
        #: them since those were merged.
        self._behind: dict[Key, int] = {}
        #: For so many steps now.
        self._steps_behind = 0
        self.index_builds = 0
        #: Told how many rows more a new view has read.
        self.on_read: Callable[[int], None] = _ignore
        #: Asked whether a new node that keeps rows has them as of a time already, made elsewhere,
        #: or one that keeps none is left to those who read it; and told of the other new ones:
        #: their rows, or None if their one reader is to take them.
        self.hydrate: Hydrate = _here

    @property
    def undo(self) -> Undo:
        """What the step that is going on has changed so far."""
        return self.shared.undo

    @property
    def hashing(self) -> Hashing:
        """One secret for all keys of the store."""
        return self.shared.hashing

    @hashing.setter
    def hashing(self, hashing: Hashing) -> None:
        """Before there is a table or view."""
        self.shared.hashing = hashing

    @property
    def work(self) -> Work:
        return self.shared.work

    def clear(self) -> None:
        """Let all state go, for good."""
        self.tables, self._installed, self._streams, self._behind = {}, {}, {}, {}
        self._relations, self._indexes, self._filters = {}, {}, {}
        self._consumers, self._over = None, None
        self.shared.take_waiting()  # which know what they share
        self.planned, self.shared = Indexes(), Shared()

    # -- tables ----------------------------------------------------------------------------------

    def add_table(self, table: TableState, enforced: bool) -> None:
        """Register a base table; an enforced key gets its index now."""
        self.undo.before(self)
        self.tables[table.source] = table
        self._relations["", table.source] = table.relation
        table.relation.share(self.shared)
        table.enforced = enforced
        if enforced:
            self.index(table.row_index, TABLE_READER)

    def add_columns(self, source: ir.Source, fields: Schema, values: Sequence[Column]) -> None:
        """More columns of a table, behind the others, between steps; each of `values` has the one
        value that all rows have in it. What reads the table goes on with the columns that it knows.

        Cost: an array of each column for every block; the index on the hash of a bag's rows is
        built anew by who needs it next.
        """
        self.undo.before(self)
        table = self.tables[source]
        table.add_columns(fields, values)
        if table.key is None and ("", table.row_index) in self._indexes:
            self._drop_index(("", table.row_index))
            self._over = None

    def drop_table(self, source: ir.Source) -> None:
        """Forget a table that no installed node reads."""
        self.undo.before(self)
        del self.tables[source]
        del self._relations["", source]
        for key in [k for k, i in self._indexes.items() if i.spec.relation == source]:
            self._drop_index(key)
        self._over = None

    # -- views -----------------------------------------------------------------------------------

    def install(
        self,
        view: str,
        root: ir.Store,
        time: int,
        migration: Migration,
        owner: str = "",
        only: Only | None = None,
    ) -> Delta:
        """Install the nodes under `root` that do not run yet, and compute them as of `time`.

        `migration`: to the choice of indexes with the view, which `migrate` is to be told next; all
        that it takes is built here. `only`: see `answer`.
        Returns: the view's rows as births at `time`. Cost: an import of what is live, one pass over
        a snapshot for the rest.
        """
        flows = flowing(ir.topological(root))
        first_rows = _Rows(self, time, owner, only)
        place = _Place(self, view, owner, migration.after)
        self._put(root, place, lambda i: first_rows.start(i, flows=i.node in flows))
        self._build(migration)
        rows = first_rows.whole(root)
        for relation in self._relations.values():
            relation.leave_fresh()
        return rows

    def resume(self, view: str, root: ir.Store, migration: Migration, owner: str = "") -> None:
        """Install the nodes under `root` that do not run yet, and compute nothing: what they keep
        is loaded when all views are there (see `operators.checkpoint`)."""
        self._put(root, _Place(self, view, owner, migration.after), lambda operator: None)
        self._build(migration)
        self.migrate(migration)

    def _put(self, root: ir.Store, place: _Place, start: Callable[[Installed], None]) -> None:
        self.undo.before(self)
        view, owner = place.view, place.owner
        for node in ir.topological(root):
            if isinstance(node, ir.Source):
                continue
            if isinstance(node, ir.Stream):
                self._streams.setdefault(node, set()).add(view)
                continue
            key = (owner, node)
            if key not in self._installed:
                interrupts.raise_pending()
                operator = operator_of(node, place)
                installed = Installed(node, owner, operator, next(self._numbers))
                self._installed[key] = installed
                self._consumers = None
                self._tell_joins(operator, owner)
                start(installed)
                self._absorb(key)
            self._installed[key].readers.add(view)
            for spec in ir.indexes(node):
                place.index(spec)
            if isinstance(node, ir.DeltaJoin):
                for i in node.inputs:
                    if i.filter is not None:
                        self.filter(node_key(i.relation, owner), i.filter, view, owner)

    def migrate(self, migration: Migration) -> None:
        """Read the indexes that were planned from now on, all of which are built; what nobody reads
        is dropped."""
        self.undo.before(self)
        self.planned = migration.after
        self._move_joins(migration)
        for name, readers in migration.readers:
            live = self._indexes.get(name)
            if live is not None:
                live.planned = readers
        self._drop_unread()

    def _move_joins(self, migration: Migration) -> None:
        for move in migration.moves:
            state = self._indexes[move.owner, move.index].state
            for installed in self._installed.values():
                if installed.owner == move.owner:
                    if isinstance(installed.operator, DeltaJoinOperator):
                        installed.operator.read_through(move.named, state)

    def _build(self, migration: Migration) -> None:
        """Build what joins are to read."""
        readers = dict(migration.readers)
        for move in migration.moves:
            name = move.owner, move.index
            self._planned_index(*name, sorted(readers.get(name, ())))

    def retire(self, view: str, migration: Migration) -> None:
        """Take a view's readers away; what nobody reads is dropped. `migration`: to the choice of
        indexes without it.

        Cost: where an index comes back in whose place another one was read, a pass over its rows.
        """
        self.undo.before(self)
        self._build(migration)
        for key, installed in list(self._installed.items()):
            installed.readers.discard(view)
            if not installed.readers:
                self.shared.failing.discard(installed.operator.failing)
                del self._installed[key]
                self._relations.pop(key, None)
        for stream, readers in list(self._streams.items()):
            readers.discard(view)
            if not readers:
                del self._streams[stream]
        for index in self._indexes.values():
            index.asked.discard(view)
        for key_filter, live in list(self._filters.items()):
            live.readers.discard(view)
            if not live.readers:
                del self._filters[key_filter]
        self._over = self._consumers = None
        self.migrate(migration)

    def streams(self, id: str) -> tuple[ir.Stream, ...]:
        """A stream as each view that reads it sees it."""
        return tuple(s for s in self._streams if s.relation == id)

    def nodes_of(self, view: str) -> Iterator[Installed]:
        return (i for i in self._installed.values() if view in i.readers)

    def errors_of(self, view: str) -> tuple[str, ...]:
        """Messages of rows under the view that cannot be computed now, sorted. Cost: nothing, but
        for those of other views too, where there are any."""
        if not self.shared.failing:
            return ()
        messages: set[str] = set()
        for installed in self.nodes_of(view):
            failing = installed.operator.failing
            if failing is not None:
                messages.update(failing.messages)
        return tuple(sorted(messages))

    # -- answers ---------------------------------------------------------------------------------

    def answering(self, work: Callable[[], Answered]) -> Answered:
        """Do what asks for answers, and take back all that was installed for them.

        Requires: no other work is going on. Cost: O(all that is installed), small.
        """
        assert not self.undo.is_at_work, "what is installed for answers goes at the end"
        found: list[Answered] = []

        def done() -> None:
            found.append(work())
            raise _TakeBack

        with suppress(_TakeBack):
            self.undo.all_or_nothing(done)
        return found[0]

    def answer(
        self, reader: str, root: ir.Store, time: int, owner: str = "", only: Only | None = None
    ) -> list[Column]:
        """The rows of a plan as of `time` (the latest epoch), which is installed for that under a
        reader of its own; within `answering`. `errors_of(reader)` has what could not be computed.

        only: of a table the rows outside of which the plan has none, as row ids, ascending; it is
        read by the plan once, and by nothing that keeps rows but the root.
        Cost: that of a view's first rows; of what is live, an import.
        """
        migration = self.planned.to(self.planned.with_view(reader, root, owner))
        rows = self.install(reader, root, time, migration, owner, only)
        self.migrate(migration)
        return rows.columns()

    # -- taking back -----------------------------------------------------------------------------

    def mark(self) -> _Structure:
        """What is installed, and who reads it. Cost: O(that)."""
        return _Structure(
            dict(self.tables),
            {key: (i, set(i.readers)) for key, i in self._installed.items()},
            dict(self._relations),
            {key: (i, i.planned, set(i.asked)) for key, i in self._indexes.items()},
            {key: (f, set(f.readers)) for key, f in self._filters.items()},
            {stream: set(readers) for stream, readers in self._streams.items()},
            set(self.shared.failing),
            self.planned,
        )

    def restore(self, mark: _Structure) -> None:
        """What was installed since is gone, and what was retired is there."""
        for index in self._indexes.values():
            index.state.dropped = True
        for installed, readers in mark.installed.values():
            installed.readers = set(readers)
        for index, planned, asked in mark.indexes.values():
            index.planned, index.asked, index.state.dropped = planned, set(asked), False
        for live, readers in mark.filters.values():
            live.readers = set(readers)
        self.tables, self._relations = dict(mark.tables), dict(mark.relations)
        self._installed = {key: installed for key, (installed, _) in mark.installed.items()}
        self._indexes = {key: index for key, (index, _, _) in mark.indexes.items()}
        self._filters = {key: live for key, (live, _) in mark.filters.items()}
        self._streams = {stream: set(readers) for stream, readers in mark.streams.items()}
        self.shared.failing = set(mark.failing)
        self._over = self._consumers = None
        self._move_joins(self.planned.to(mark.planned))
        self.planned = mark.planned

    # -- state -----------------------------------------------------------------------------------

    def relation(self, node: ir.Stored, owner: str = "") -> Relation:
        return self._relations[node_key(node, owner)]

    def keep(self, node: ir.Stored, owner: str, relation: Relation) -> None:
        """From now on the rows of a new node are in `relation`."""
        self._relations[node_key(node, owner)] = relation

    def operator(self, node: ir.Node, owner: str = "") -> AnyOperator:
        """What runs an installed node."""
        return self._installed[owner, node].operator

    def at(self, key: Key) -> Installed:
        """A node that is installed."""
        return self._installed[key]

    def index(self, spec: ir.Index, reader: str, owner: str = "") -> ArrangementState:
        """The index, built now if it does not exist, beside what was planned: `reader` asks."""
        live = self._live_index(spec, owner, (reader,))
        if reader not in live.asked:
            self.undo.before(self)
            live.asked.add(reader)
        if not live.deferred:
            live.state.absorb()
        return live.state

    def index_of_table(self, table: TableState) -> LiveIndex:
        """The index that finds a table's rows, up to date but where nobody else reads it; built now
        if it does not exist."""
        live = self._indexes.get(("", table.row_index))
        if live is None or TABLE_READER not in live.asked:
            self.index(table.row_index, TABLE_READER)
            live = self._indexes["", table.row_index]
        elif not live.deferred:
            live.state.absorb()
        return live

    def _planned_index(
        self, owner: str, spec: ir.Index, readers: Iterable[str]
    ) -> ArrangementState:
        """The index, which is up to date; built now if it does not exist."""
        known = self._indexes.get((owner, spec))
        live = self._live_index(spec, owner, readers)
        if not live.is_bag and (known is None or known.deferred):
            live.state.absorb()
        return live.state

    def _live_index(self, spec: ir.Index, owner: str, readers: Iterable[str]) -> LiveIndex:
        """The index, which is new and empty if it did not exist, and so is its filter."""
        passing = None
        if isinstance(spec, ir.Arrangement) and spec.filter is not None:
            for reader in readers:
                passing = self.filter(node_key(spec.relation, owner), spec.filter, reader, owner)
        live = self._indexes.get((owner, spec))
        if live is None:
            self.undo.before(self)
            state = ArrangementState(spec, self.relation(spec.relation, owner), passing)
            over = self._over_relation(node_key(spec.relation, owner))
            live = self._indexes[owner, spec] = LiveIndex(spec, owner, state)
            over.indexes.append(live)
            self.index_builds += 1
        return live

    def live_index(self, spec: ir.Index, owner: str = "") -> LiveIndex | None:
        """The index if it exists itself."""
        return self._indexes.get((owner, spec))

    def filter(self, relation: Key, predicate: Expr, reader: str, owner: str = "") -> Filter:
        """The bitmap of a predicate over a relation, built now if it does not exist."""
        key = (relation, owner, predicate)
        live = self._filters.get(key)
        if live is None:
            self.undo.before(self)
            over = self._over_relation(relation)
            live = self._filters[key] = LiveFilter(Filter(self._relations[relation], predicate))
            over.filters.append(live.state)
        live.readers.add(reader)
        return live.state

    def live_filter(self, relation: Key, predicate: Expr, owner: str = "") -> Filter | None:
        """The filter if it exists."""
        live = self._filters.get((relation, owner, predicate))
        return None if live is None else live.state

    @property
    def indexes(self) -> tuple[LiveIndex, ...]:
        return tuple(self._indexes.values())

    @property
    def filters(self) -> tuple[LiveFilter, ...]:
        return tuple(self._filters.values())

    def filters_over(self) -> tuple[tuple[Key, str, LiveFilter], ...]:
        """The filters, each with the relation that it is over, and its owner."""
        return tuple((relation, owner, f) for (relation, owner, _), f in self._filters.items())

    @property
    def installed(self) -> tuple[Installed, ...]:
        """All nodes but the sources, inputs before consumers."""
        return tuple(self._installed.values())

    def consumers(self, key: Key) -> Sequence[Installed]:
        """The nodes that take the changes of a node or table."""
        if self._consumers is None:
            self._consumers = {}
            for installed in self._installed.values():
                for read in dict.fromkeys(installed.reads):
                    self._consumers.setdefault(read, []).append(installed)
        return self._consumers.get(key, ())

    def relations(self) -> tuple[tuple[Key, Relation], ...]:
        return tuple(self._relations.items())

    @property
    def live_rows(self) -> int:
        """Of tables and all that is stored of views."""
        return sum(relation.live_rows for relation in self._relations.values())

    # -- running ---------------------------------------------------------------------------------

    def run(self, installed: Installed, changes: dict[Key, Delta]) -> Delta | None:
        """Run one operator on its inputs' changes of this step; None if there are none.

        The output is entered into `changes`, and into the indexes over it.
        """
        inputs = [changes.get(key) for key in installed.reads]
        if not any(inputs):
            return None
        interrupts.raise_pending()
        budget.check()
        started = perf_counter()
        output = installed.operator.step(inputs)
        entered = self.enter(installed.key, output, changes)
        installed.seconds += perf_counter() - started
        return entered

    def reached(self, changes: Mapping[Key, Delta]) -> tuple[Installed, ...]:
        """The nodes that changes of these nodes can come to, inputs before consumers, for who has
        to know before anything runs. Cost: O(those)."""
        found: dict[int, Installed] = {}
        waiting = list(changes)
        while waiting:
            for installed in self.consumers(waiting.pop()):
                if installed.loop is None and installed.number not in found:
                    found[installed.number] = installed
                    waiting.append(installed.key)
        return tuple(found[number] for number in sorted(found))

    def run_reached(self, changes: dict[Key, Delta]) -> None:
        """Run the operators that changes come to, inputs before consumers, and enter what they make
        of them: what no change comes to costs nothing, whatever is installed."""
        found: dict[int, Installed] = {}
        waiting: list[int] = []
        fresh = [key for key, delta in changes.items() if len(delta)]
        while True:
            for key in fresh:
                for installed in self.consumers(key):
                    number = installed.number
                    if installed.loop is None and number not in found:
                        found[number] = installed
                        heappush(waiting, number)
            if not waiting:
                return
            installed = found[heappop(waiting)]
            fresh = [installed.key] if self.run(installed, changes) is not None else []

    def enter(self, key: Key, output: Delta, changes: dict[Key, Delta]) -> Delta | None:
        """Make a node's output known to its consumers and to the indexes over it; None if empty."""
        if len(output) == 0:
            return None
        changes[key] = output
        self._absorb(key)
        return output

    def absorb(self, source: ir.Source) -> None:
        """Bring indexes and filters over a table up to date with its relation."""
        self._absorb(("", source))

    def commit(self, since: int, changes: dict[Key, Delta]) -> None:
        """End a step: forget the versions before `since`, merge indexes under fuel; after a few
        small steps for all of them at once.

        No answer depends on it. Raises: what went wrong; that is taken up at the end of the next
        step, and all else is done.
        """
        behind, deaths = self._behind, 0
        for key, delta in changes.items():
            relation = self._relations.get(key)
            if relation is not None:
                relation.leave_fresh()
                behind[key] = behind.get(key, 0) + len(delta)
                deaths = max(deaths, relation.recent_deaths)
        self._steps_behind += 1
        few = deaths < DEATHS_BEHIND and max(behind.values(), default=0) < ROWS_BEHIND
        if few and self._steps_behind < STEPS_BEHIND:
            return
        self._steps_behind = 0
        failed: BaseException | None = None
        waiting = self.shared.take_waiting()
        for key in tuple(behind):
            try:
                self._forget(key, since, behind[key])
                del behind[key]
            except BaseException as error:
                failed = failed or error
        for state in waiting:
            try:
                if not state.waits:
                    state.settle()
            except BaseException as error:
                self.shared.wait(state)
                failed = failed or error
        if failed is not None:
            raise failed

    def _forget(self, key: Key, since: int, rows: int) -> None:
        """`commit` of one relation; so many rows came to it."""
        relation = self._relations.get(key)
        if relation is not None:
            installed = self._installed.get(key)
            inside = installed is not None and installed.loop is not None
            relation.advance(epoch_end(since) if inside else since)
            over = self._kept_over()
            for index in over[key].indexes if key in over else ():
                index.state.maintain(rows)

    def snapshot(self, node: ir.Node, time: int, owner: str = "") -> Delta:
        """All rows of a running node as of `time` (the latest epoch), as births at that time."""
        return _Rows(self, time, owner).whole(node)

    # -- internals -------------------------------------------------------------------------------

    def _drop_unread(self) -> None:
        """Drop the indexes that nobody reads."""
        unread = [name for name, live in self._indexes.items() if not live.readers]
        for name in unread:
            self._drop_index(name)
        if unread:
            self._over = None

    def _drop_index(self, name: Named) -> None:
        self._indexes.pop(name).state.dropped = True

    def _absorb(self, key: Key) -> None:
        over = self._kept_over().get(key)
        if over is None:
            return
        # Partial indexes take in what the filters let pass.
        filters.absorb(over.filters)
        for index in over.indexes:
            if not index.deferred:
                index.state.absorb()

    def _over_relation(self, relation: Key) -> Over:
        return self._kept_over().setdefault(relation, Over())

    def _kept_over(self) -> dict[Key, Over]:
        """By relation, the filters and indexes over it."""
        if self._over is None:
            self._over = {}
            for (relation, _, _), live in self._filters.items():
                self._over.setdefault(relation, Over()).filters.append(live.state)
            for index in self._indexes.values():
                relation = node_key(index.spec.relation, index.owner)
                self._over.setdefault(relation, Over()).indexes.append(index)
        return self._over

    def _tell_joins(self, operator: AnyOperator, owner: str) -> None:
        """Tell the joins that an operator reads which of their columns it does."""
        for i in ir.inputs(operator.node):
            if isinstance(i, ir.DeltaJoin):
                join = self._installed[owner, i].operator
                assert isinstance(join, DeltaJoinOperator)
                join.add_reader(operator.columns_read(i))


class _Place:
    """Implements Place: for operators that `view` needs, with the indexes as `planned`."""

    def __init__(self, dataflow: Dataflow, view: str, owner: str, planned: Indexes) -> None:
        self.view = view
        self.owner = owner
        self._dataflow = dataflow
        self._planned = planned

    @property
    def shared(self) -> Shared:
        return self._dataflow.shared

    def relation(self, node: ir.Stored) -> Relation:
        return self._dataflow.relation(node, self.owner)

    def new_relation(self, schema: Schema) -> Relation:
        return Relation(schema, self._dataflow.shared)

    def own_relation(self, node: ir.Stored) -> Relation:
        made = self.new_relation(node.schema)
        self._dataflow.keep(node, self.owner, made)
        return made

    def index(self, spec: ir.Index) -> ArrangementState:
        read = self._planned.read(self.owner, spec)
        return self._dataflow._planned_index(self.owner, read, (self.view,))

    def inside(self, loop: ir.Loop) -> _Inside:
        return _Inside(self._dataflow, loop, self.owner)

    def filter(self, i: ir.JoinInput) -> Filter | None:
        if i.filter is None:
            return None
        relation = node_key(i.relation, self.owner)
        return self._dataflow.filter(relation, i.filter, self.view, self.owner)


class _Inside:
    """Implements Inside: those of `owner` that a loop runs."""

    def __init__(self, dataflow: Dataflow, loop: ir.Loop, owner: str) -> None:
        self._dataflow = dataflow
        self._nodes = ir.inside(loop)
        self._owner = owner

    def waiting(self) -> list[dict[int, list[Delta]]]:
        operators = (self._dataflow.operator(node, self._owner) for node in self._nodes)
        return [operator.waiting for operator in operators if isinstance(operator, InRounds)]

    def run(self, changes: Mapping[ir.Node, Delta], tick: int) -> Mapping[ir.Node, Delta]:
        dataflow, found, round = self._dataflow, dict(changes), round_of(tick)
        for node in self._nodes:
            operator = dataflow.operator(node, self._owner)
            given = [found.get(i) for i in operator.takes]
            waited = isinstance(operator, InRounds) and round in operator.waiting
            if waited or any(given):
                interrupts.raise_pending()
                budget.check()
                if isinstance(operator, InRounds):
                    changed = operator.turn(tick, given)
                else:
                    changed = operator.step(given)
                if len(changed):
                    found[node] = changed
                    self._follow(node, changed)
        return found

    def enter(self, node: ir.Stored, changed: Delta) -> None:
        self._follow(node, changed)

    def operator(self, node: ir.Node) -> AnyOperator:
        return self._dataflow.operator(node, self._owner)

    def _follow(self, node: ir.Node, changed: Delta) -> None:
        key, dataflow = node_key(node, self._owner), self._dataflow
        if key in dataflow._relations:
            dataflow._behind[key] = dataflow._behind.get(key, 0) + len(changed)
            dataflow._absorb(key)


class _Rows:
    """Implements Inputs, for the nodes that run and for new ones, which it starts."""

    def __init__(self, dataflow: Dataflow, time: int, owner: str, only: Only | None = None) -> None:
        self.time = time
        self._only = only
        self._dataflow = dataflow
        self._owner = owner
        #: First rows of new nodes; None of those that flow, until their reader takes them.
        self._fresh: dict[ir.Node, Delta | None] = {}

    def start(self, installed: Installed, flows: bool) -> None:
        """Start a new operator: now, or when its one reader takes its pieces."""
        node, operator = installed.node, installed.operator
        if installed.loop is not None:  # its loop fills it, which starts when all inside is there
            self._fresh[node] = deltas.empty(node.schema)
            return
        here = flows or self._only is not None
        if not here and self._dataflow.hydrate(installed, self.time, self._fresh):
            return  # it is like one that ran before
        self._fresh[node] = None
        if not flows:
            self._fresh[node] = operator.together(_not_empty(operator.start(self)))

    def pieces(self, node: ir.Node) -> Iterator[Delta]:
        known = self._fresh.get(node)
        found = self._pieces(node) if known is None else sliced(known)
        return (piece for piece in found if len(piece))

    def whole(self, node: ir.Node) -> Delta:
        known = self._fresh.get(node)
        if known is not None:
            return known
        if ir.is_stored(node):
            return snapshot(self._dataflow.relation(node, self._owner), self.time)
        if isinstance(node, ir.Stream):
            return deltas.empty(node.schema)
        operator = self._dataflow.operator(node, self._owner)
        return operator.together(_not_empty(self._pieces(node)))

    def read(self, relation: Rows) -> Iterator[Delta]:
        for piece in pieces_of(relation, self.time):
            interrupts.raise_pending()
            budget.check()
            yield piece
            self._dataflow.on_read(len(piece))

    def _pieces(self, node: ir.Node) -> Iterator[Delta]:
        if isinstance(node, ir.Source):
            relation = self._dataflow.relation(node)
            if self._only is not None and self._only.table == node:
                rows = self._only.rows
                times = np.full(len(rows), self.time, np.int64)
                return iter((deltas.births(relation, rows, times),))
            return self.read(relation)
        if isinstance(node, ir.Stream):
            return iter(())
        operator = self._dataflow.operator(node, self._owner)
        return operator.start(self) if node in self._fresh else operator.rows(self)


def _not_empty(pieces: Iterator[Delta]) -> list[Delta]:
    return [piece for piece in pieces if len(piece)]


def _ignore(rows: int) -> None:
    """Nobody looks on."""


def _here(installed: Installed, time: int, new: Mapping[ir.Node, Delta | None]) -> bool:
    """Nothing is made elsewhere."""
    return False


def node_key(node: ir.Node, owner: str) -> Key:
    """Base tables are always shared; so are streams, each of which names its reader."""
    return ("" if isinstance(node, (ir.Source, ir.Stream)) else owner, node)
