"""The running dataflow: installed nodes, their operators, relations, indexes and filters.

Nodes are shared by structure: two views with an equal subplan have one operator, and every index
and every filter of a relation exists once, whoever asks for it first. Each has the set of views
that read it and goes when the last one does. With an `owner` other than "" a view keeps its own.

Invariant: `nodes` is in topological order; after a relation's operator has run, and before any
consumer does, all indexes over that relation hold its new rows, but for one that only its table
reads (see LiveIndex.deferred); filters take them in when somebody looks. No index that joins alone
read is kept beside one that serves for it (operators.live).
Source: Shared Arrangements §4.3 (import), §3 (sharing).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from time import perf_counter
from typing import TypeAlias

from typing_extensions import assert_never

from operators import delta as deltas
from operators import interrupts
from operators.delta import Delta
from operators.hydration import flowing, pieces_of, sliced, start_groups
from operators.join import DeltaJoinOperator
from operators.linear import ConstantOperator, MapOperator, RepeatOperator, UnionOperator
from operators.live import TABLE_READER, LiveFilter, LiveIndex, Over
from operators.recompute import RecomputeOperator
from operators.reduce import ReduceOperator
from operators.state.arrangement import ArrangementState
from operators.state.filters import Filter
from operators.state.hashing import Hashing
from operators.state.relation import Relation
from operators.state.undo import Undo
from operators.state.work import Work
from operators.store import StoreOperator
from operators.table import TableState, snapshot
from operators.threshold import ThresholdOperator
from operators.topk import TopKOperator
from planner import dataflow as ir
from planner.expr import Expr
from planner.types import Schema

Operator: TypeAlias = (
    MapOperator
    | UnionOperator
    | RepeatOperator
    | ConstantOperator
    | StoreOperator
    | ReduceOperator
    | RecomputeOperator
    | DeltaJoinOperator
    | TopKOperator
    | ThresholdOperator
)
#: A node as installed: "" where it is shared, else the view whose own it is.
Key: TypeAlias = tuple[str, ir.Node]


@dataclass(slots=True)
class Installed:
    """A node with its operator, and the views that need it. `seconds`: what its steps took."""

    node: ir.Node
    owner: str
    operator: Operator
    readers: set[str] = field(default_factory=set)
    seconds: float = 0.0
    #: Of each input in turn, one that occurs twice included.
    reads: tuple[Key, ...] = field(init=False)

    def __post_init__(self) -> None:
        self.reads = tuple(node_key(i, self.owner) for i in _occurrences(self.node))


class Dataflow:
    """Everything that is kept for the installed views, and how a step runs through it."""

    def __init__(self) -> None:
        #: What the step that is going on has changed so far.
        self.undo = Undo()
        #: One secret for all keys of the store.
        self.hashing = Hashing.drawn()
        self.tables: dict[ir.Source, TableState] = {}
        self._installed: dict[Key, Installed] = {}
        self._relations: dict[Key, Relation] = {}
        self._indexes: dict[tuple[str, ir.Index], LiveIndex] = {}
        self._filters: dict[tuple[Key, str, Expr], LiveFilter] = {}
        self._over: dict[Key, Over] | None = None
        self._streams: dict[ir.Stream, set[str]] = {}
        self.index_builds = 0
        self.work = Work()
        #: Told how many rows more a new view has read.
        self.on_read: Callable[[int], None] = _ignore

    # -- tables ----------------------------------------------------------------------------------

    def add_table(self, table: TableState, enforced: bool) -> None:
        """Register a base table; an enforced key gets its index now."""
        self.tables[table.source] = table
        self._relations["", table.source] = table.relation
        table.relation.work, table.relation.hashing = self.work, self.hashing
        table.relation.undo, table.enforced = self.undo, enforced
        if enforced:
            self.index(table.row_index, TABLE_READER)

    def drop_table(self, source: ir.Source) -> None:
        """Forget a table that no installed node reads."""
        del self.tables[source]
        del self._relations["", source]
        for key in [k for k, i in self._indexes.items() if i.spec.relation == source]:
            del self._indexes[key]
        self._over = None

    # -- views -----------------------------------------------------------------------------------

    def install(self, view: str, root: ir.Store, time: int, owner: str = "") -> Delta:
        """Install the nodes under `root` that do not run yet, and compute them as of `time`.

        Returns: the view's rows as births at `time`. Cost: an import of what is live, one pass over
        a snapshot for the rest.
        """
        order = ir.topological(root)
        flows = flowing(order)
        fresh: dict[ir.Node, Delta | None] = {}
        for node in order:
            if isinstance(node, ir.Source):
                continue
            if isinstance(node, ir.Stream):
                self._streams.setdefault(node, set()).add(view)
                continue
            key = (owner, node)
            if key not in self._installed:
                operator = self._build(node, view, owner)
                self._installed[key] = Installed(node, owner, operator)
                fresh[node] = None
                if node not in flows:  # else it is computed when its reader starts
                    fresh[node] = self._start(node, operator, fresh, time, owner)
                self._absorb(key)
            self._installed[key].readers.add(view)
            for spec in ir.indexes(node):
                self.index(spec, view, owner, isinstance(node, ir.DeltaJoin))
            if isinstance(node, ir.DeltaJoin):
                for i in node.inputs:
                    if i.filter is not None:
                        self.filter(node_key(i.relation, owner), i.filter, view, owner)
        rows = fresh.get(root)
        return self.snapshot(root, time, owner) if rows is None else rows

    def retire(self, view: str) -> None:
        """Take a view's readers away; what nobody reads is dropped."""
        for key, installed in list(self._installed.items()):
            installed.readers.discard(view)
            if not installed.readers:
                del self._installed[key]
                self._relations.pop(key, None)
        for stream, readers in list(self._streams.items()):
            readers.discard(view)
            if not readers:
                del self._streams[stream]
        for key_index, index in list(self._indexes.items()):
            index.readers.discard(view)
            if not index.readers:
                del self._indexes[key_index]
        for key_filter, live in list(self._filters.items()):
            live.readers.discard(view)
            if not live.readers:
                del self._filters[key_filter]
        for index in list(self._indexes.values()):
            index.served = {spec: some - {view} for spec, some in index.served.items()}
            index.served = {spec: some for spec, some in index.served.items() if some}
            if index.served and not self._is_planned(index):
                self._restore_served(index)
        self._over = None

    def streams(self, name: str) -> tuple[ir.Stream, ...]:
        """A stream as each view that reads it sees it."""
        return tuple(s for s in self._streams if s.relation == name)

    def nodes_of(self, view: str) -> Iterator[Installed]:
        return (i for i in self._installed.values() if view in i.readers)

    def errors_of(self, view: str) -> tuple[str, ...]:
        """Messages of rows under the view that cannot be computed now, sorted."""
        messages: set[str] = set()
        for installed in self.nodes_of(view):
            if isinstance(installed.operator, MapOperator):
                messages.update(installed.operator.errors.messages)
        return tuple(sorted(messages))

    # -- state -----------------------------------------------------------------------------------

    def relation(self, node: ir.Stored, owner: str = "") -> Relation:
        return self._relations[node_key(node, owner)]

    def index(
        self, spec: ir.Index, reader: str, owner: str = "", joined: bool = False
    ) -> ArrangementState:
        """The index, built now if it does not exist, with one reader more; so is the filter of a
        partial one. For a join (`joined`) it may be one that serves for it; a new one takes the
        place of those that it serves for.
        """
        key = (owner, spec)
        live = self._indexes.get(key)
        passing = None
        if isinstance(spec, ir.Arrangement) and spec.filter is not None:
            passing = self.filter(node_key(spec.relation, owner), spec.filter, reader, owner)
        if joined and isinstance(spec, ir.Arrangement) and (live is None or live.deferred):
            serving = self._serving(spec, owner)
            if serving is not None:
                serving.served.setdefault(spec, set()).add(reader)
                serving.readers.add(reader)
                return serving.state
        if live is None:
            state = ArrangementState(spec, self.relation(spec.relation, owner), passing)
            over = self._over_relation(node_key(spec.relation, owner))
            live = self._indexes[key] = LiveIndex(spec, owner, state)
            over.indexes.append(live)
            self.index_builds += 1
        is_read = bool(live.readers) and not live.deferred
        live.readers.add(reader)
        if not live.deferred:
            live.state.absorb()
            if passing is None and not is_read:
                self._take_place(live)
        return live.state

    def live_index(self, spec: ir.Index, owner: str = "") -> LiveIndex | None:
        """The index if it exists itself."""
        return self._indexes.get((owner, spec))

    def filter(self, relation: Key, predicate: Expr, reader: str, owner: str = "") -> Filter:
        """The bitmap of a predicate over a relation, built now if it does not exist."""
        key = (relation, owner, predicate)
        live = self._filters.get(key)
        if live is None:
            over = self._over_relation(relation)
            live = self._filters[key] = LiveFilter(Filter(self._relations[relation], predicate))
            over.filters.append(live.state)
        live.readers.add(reader)
        return live.state

    @property
    def indexes(self) -> tuple[LiveIndex, ...]:
        return tuple(self._indexes.values())

    @property
    def planned_indexes(self) -> tuple[tuple[str, ir.Index], ...]:
        """Owner and identity of the indexes that plans of views name, whichever serves."""
        served = ((i.owner, spec) for i in self._indexes.values() for spec in i.served)
        read = ((i.owner, i.spec) for i in self._indexes.values() if not i.deferred)
        return (*read, *served)

    @property
    def filters(self) -> tuple[LiveFilter, ...]:
        return tuple(self._filters.values())

    def filters_over(self) -> tuple[tuple[Key, LiveFilter], ...]:
        """The filters, each with the relation that it is over."""
        return tuple((relation, live) for (relation, _, _), live in self._filters.items())

    @property
    def installed(self) -> tuple[Installed, ...]:
        """All nodes but the sources, inputs before consumers."""
        return tuple(self._installed.values())

    def relations(self) -> tuple[tuple[Key, Relation], ...]:
        return tuple(self._relations.items())

    # -- running ---------------------------------------------------------------------------------

    def run(self, installed: Installed, changes: dict[Key, Delta]) -> Delta | None:
        """Run one operator on its inputs' changes of this step; None if there are none.

        The output is entered into `changes`, and into the indexes over it.
        """
        operator = installed.operator
        inputs = [changes.get(key) for key in installed.reads]
        if not any(inputs):
            return None
        interrupts.raise_pending()
        started = perf_counter()
        match operator:
            case DeltaJoinOperator() | UnionOperator():
                output = operator.step(inputs)
            case ThresholdOperator():
                rows, scalars = inputs
                output = operator.step(rows, scalars)
            case ConstantOperator():
                return None
            case (
                MapOperator()
                | RepeatOperator()
                | StoreOperator()
                | ReduceOperator()
                | RecomputeOperator()
                | TopKOperator()
            ):
                (delta,) = inputs
                assert delta is not None
                output = operator.step(delta)
            case _:
                assert_never(operator)
        entered = self.enter((installed.owner, installed.node), output, changes)
        installed.seconds += perf_counter() - started
        return entered

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
        """End a step: forget the versions before `since`, merge indexes under fuel."""
        over = self._kept_over()
        for key, delta in changes.items():
            relation = self._relations.get(key)
            if relation is not None:
                relation.advance(since)
                for index in over[key].indexes if key in over else ():
                    index.state.maintain(len(delta))
        for key, kept in over.items():
            for index in () if key in changes else kept.indexes:
                index.state.settle()

    def snapshot(self, node: ir.Node, time: int, owner: str = "") -> Delta:
        """All rows of a running node as of `time` (the latest epoch), as births at that time."""
        match node:
            case ir.Source() | ir.Store() | ir.Reduce() | ir.Recompute():
                return snapshot(self.relation(node, owner), time)
            case ir.Map():
                # An operator of its own: errors were counted when the rows came.
                return MapOperator(node).step(self.snapshot(node.input, time, owner))
            case ir.Union():
                return UnionOperator(node).step(
                    [self.snapshot(i, time, owner) for i in node.inputs]
                )
            case ir.Constant():
                return ConstantOperator(node).start(time)
            case ir.Repeat():
                return RepeatOperator(node).step(self.snapshot(node.input, time, owner))
            case ir.Threshold():
                threshold = self._installed[owner, node].operator
                assert isinstance(threshold, ThresholdOperator)
                return threshold.step(self.snapshot(node.index.relation, time, owner), None)
            case ir.Stream():
                return deltas.empty(node.schema)
            case ir.DeltaJoin():
                join = self._installed[owner, node].operator
                assert isinstance(join, DeltaJoinOperator)
                return self._join_snapshot(join, time)
            case ir.TopK():
                top = self._installed[owner, node].operator
                assert isinstance(top, TopKOperator)
                return top.snapshot(time)
            case _:
                assert_never(node)

    # -- internals -------------------------------------------------------------------------------

    def _serving(self, spec: ir.Arrangement, owner: str) -> LiveIndex | None:
        """An index that is read in place of `spec`, if any."""
        over = self._over_relation(node_key(spec.relation, owner)).indexes
        return next((i for i in over if i.owner == owner and i.serves(spec)), None)

    def _take_place(self, new: LiveIndex) -> None:
        """Drop the indexes that a new one serves for, if joins alone read them."""
        over = self._over_relation(node_key(new.spec.relation, new.owner)).indexes
        for old in list(over):
            spec = old.spec
            if old.owner != new.owner or not isinstance(spec, ir.Arrangement):
                continue
            if new.serves(spec) and self._is_joined(old):
                del self._indexes[old.owner, spec]
                over.remove(old)
                old.served[spec] = old.readers
                for each, readers in old.served.items():
                    new.served.setdefault(each, set()).update(readers)
                    new.readers |= readers
                    self._read_through(each, new.owner, new.state)

    def _restore_served(self, index: LiveIndex) -> None:
        """Build the indexes anew in whose place alone `index` was read."""
        served, index.served = index.served, {}
        index.readers.intersection_update((TABLE_READER,))
        if not index.readers:
            del self._indexes[index.owner, index.spec]
        self._over = None
        # One of them may serve for others.
        for spec in sorted(served, key=lambda s: (s.filter is not None, -len(s.columns))):
            for reader in sorted(served[spec]):
                state = self.index(spec, reader, index.owner, joined=True)
                self._read_through(spec, index.owner, state)

    def _is_joined(self, index: LiveIndex) -> bool:
        """Whether joins alone read the index."""
        return TABLE_READER not in index.readers and not any(
            installed.owner == index.owner
            and not isinstance(installed.node, ir.DeltaJoin)
            and index.spec in ir.indexes(installed.node)
            for installed in self._installed.values()
        )

    def _is_planned(self, index: LiveIndex) -> bool:
        """Whether the plan of an installed node names the index."""
        return any(
            installed.owner == index.owner and index.spec in ir.indexes(installed.node)
            for installed in self._installed.values()
        )

    def _read_through(self, spec: ir.Arrangement, owner: str, state: ArrangementState) -> None:
        for installed in self._installed.values():
            if installed.owner == owner and isinstance(installed.operator, DeltaJoinOperator):
                installed.operator.read_through(spec, state)

    def _absorb(self, key: Key) -> None:
        over = self._kept_over().get(key)
        if over is None:
            return
        # Partial indexes take in what the filters let pass.
        for test in over.filters:
            test.absorb()
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

    def _build(self, node: ir.Node, view: str, owner: str) -> Operator:
        operator = self._new_operator(node, view, owner)
        for i in ir.inputs(node):
            if isinstance(i, ir.DeltaJoin):
                join = self._installed[owner, i].operator
                assert isinstance(join, DeltaJoinOperator)
                every = tuple(range(len(i.schema)))
                join.add_reader(operator.used if isinstance(operator, MapOperator) else every)
        return operator

    def _new_operator(self, node: ir.Node, view: str, owner: str) -> Operator:
        match node:
            case ir.Map():
                return MapOperator(node, self.undo)
            case ir.Union():
                return UnionOperator(node)
            case ir.Repeat():
                return RepeatOperator(node)
            case ir.Constant():
                return ConstantOperator(node)
            case ir.Threshold():
                return ThresholdOperator(
                    node, self.index(node.index, view, owner), self.index(node.bound, view, owner)
                )
            case ir.Store():
                relation = self._relations[owner, node] = self._new_relation(node.schema)
                return StoreOperator(
                    node, relation, self.index(ir.HashArrangement(node), view, owner)
                )
            case ir.Recompute():
                relation = self._relations[owner, node] = self._new_relation(node.schema)
                group_index = self.index(ir.group_index(node), view, owner)
                members = self.index(node.index, view, owner)
                return RecomputeOperator(node, relation, group_index, members)
            case ir.Reduce():
                relation = self._relations[owner, node] = self._new_relation(node.schema)
                group_index = self.index(ir.group_index(node), view, owner)
                ordered = {
                    a.index: self.index(a.index, view, owner)
                    for a in node.accumulators
                    if a.index is not None
                }
                return ReduceOperator(node, relation, group_index, ordered)
            case ir.DeltaJoin():
                keys = [node_key(i.relation, owner) for i in node.inputs]
                specs = ir.indexes(node)
                for spec in specs:
                    self.index(spec, view, owner, joined=True)
                return DeltaJoinOperator(
                    node,
                    [
                        self._new_relation(i.schema)
                        if ir.gives_events(i.relation)
                        else self._relations[k]
                        for i, k in zip(node.inputs, keys, strict=True)
                    ],
                    [
                        None if i.filter is None else self.filter(k, i.filter, view, owner)
                        for i, k in zip(node.inputs, keys, strict=True)
                    ],
                    # Again: a later one may have taken the place of an earlier one.
                    {spec: self.index(spec, view, owner, joined=True) for spec in specs},
                )
            case ir.TopK():
                return TopKOperator(node, self.index(node.index, view, owner))
            case ir.Source() | ir.Stream():
                raise AssertionError("tables are added, not installed, and streams do nothing")
            case _:
                assert_never(node)

    def _new_relation(self, schema: Schema) -> Relation:
        return Relation(schema, self.work, self.hashing, self.undo)

    def _start(
        self,
        node: ir.Node,
        operator: Operator,
        fresh: dict[ir.Node, Delta | None],
        time: int,
        owner: str,
    ) -> Delta:
        """The first output of a new operator: its inputs as of `time` pushed through it. `fresh`:
        the first outputs of the other new ones, None of those that flow."""

        def flows(i: ir.Node) -> bool:
            return i in fresh and fresh[i] is None

        def pieces(i: ir.Node) -> Iterator[Delta]:
            return (p for p in self._pieces(i, fresh, time, owner) if len(p))

        def rows_of(i: ir.Node) -> Delta:
            if flows(i):
                return deltas.concatenate(i.schema, list(pieces(i)))
            known = fresh.get(i)
            return self.snapshot(i, time, owner) if known is None else known

        match operator:
            case MapOperator() | UnionOperator() | RepeatOperator() if any(
                map(flows, ir.inputs(node))
            ):
                return rows_of(node)
            case MapOperator() | RepeatOperator():
                assert isinstance(node, (ir.Map, ir.Repeat))
                return operator.step(rows_of(node.input))
            case UnionOperator():
                return operator.step([rows_of(i) for i in ir.inputs(node)])
            case DeltaJoinOperator():
                return self._join_snapshot(operator, time)
            case TopKOperator() | ConstantOperator():
                return operator.start(time)
            case ThresholdOperator():
                assert isinstance(node, ir.Threshold)
                return operator.step(rows_of(node.index.relation), None)
            case RecomputeOperator():
                assert isinstance(node, ir.Recompute)
                return operator.start(rows_of(node.index.relation), time)
            case ReduceOperator():
                assert isinstance(node, ir.Reduce)
                return start_groups(operator, pieces(node.input), time)
            case StoreOperator():
                assert isinstance(node, ir.Store)
                return operator.step(rows_of(node.input))
            case _:
                assert_never(operator)

    def _pieces(
        self, node: ir.Node, fresh: dict[ir.Node, Delta | None], time: int, owner: str
    ) -> Iterator[Delta]:
        """The first output of a new node, or all rows of another as of `time`, piece by piece."""
        known = fresh.get(node)
        if known is not None:
            yield from sliced(known)
            return
        flows = node in fresh
        match node:
            case ir.Source() | ir.Store() | ir.Reduce() | ir.Recompute():
                yield from self._read(self.relation(node, owner), time)
            case ir.DeltaJoin():
                join = self._installed[owner, node].operator
                assert isinstance(join, DeltaJoinOperator)
                yield from self._join_pieces(join, time)
            case ir.Map() | ir.Repeat():
                operator = self._installed[owner, node].operator
                if not flows and isinstance(node, ir.Map):
                    operator = MapOperator(node)  # errors were counted when the rows came
                assert isinstance(operator, (MapOperator, RepeatOperator))
                for piece in self._pieces(node.input, fresh, time, owner):
                    yield operator.step(piece)
            case ir.Union():
                union = self._installed[owner, node].operator
                assert isinstance(union, UnionOperator)
                for at, i in enumerate(node.inputs):
                    for piece in self._pieces(i, fresh, time, owner):
                        parts: list[Delta | None] = [None] * len(node.inputs)
                        parts[at] = piece
                        yield union.step(parts)
            case _:
                yield from sliced(self.snapshot(node, time, owner))

    def _read(self, relation: Relation, time: int) -> Iterator[Delta]:
        """All rows of a stored relation as of `time`, piece by piece, and a word of each."""
        for piece in pieces_of(relation, time):
            yield piece
            self.on_read(len(piece))

    def _join_snapshot(self, join: DeltaJoinOperator, time: int) -> Delta:
        return join.merged([p for p in self._join_pieces(join, time) if len(p)])

    def _join_pieces(self, join: DeltaJoinOperator, time: int) -> Iterator[Delta]:
        """The whole join by one path (3DF §8: one delta query), of those with the fewest lookups of
        half an index (ranges with one end) that from the smallest input, without what its filter
        leaves out. A join of events has no rows as of any time."""
        if ir.gives_events(join.node):
            return
        halves = [sum(map(_is_half_open, path.steps)) for path in join.node.paths]
        sizes = [
            o.relation.live_rows if o.filter is None else o.filter.passing_rows
            for o in join.occurrences
        ]
        source = min(range(len(sizes)), key=lambda i: (halves[i], sizes[i]))
        for piece in self._read(join.occurrences[source].relation, time):
            yield join.follow(source, piece, snapshot=True)


def _ignore(rows: int) -> None:
    """Nobody looks on."""


def _is_half_open(step: ir.HalfJoin | ir.RangeJoin) -> bool:
    return isinstance(step, ir.RangeJoin) and len(step.ends) == 1 and bool(step.residual)


def node_key(node: ir.Node, owner: str) -> Key:
    """Base tables are always shared; so are streams, each of which names its reader."""
    return ("" if isinstance(node, (ir.Source, ir.Stream)) else owner, node)


def _occurrences(node: ir.Node) -> tuple[ir.Node, ...]:
    """The inputs of a node, in its operator's order."""
    match node:
        case ir.DeltaJoin():
            return tuple(i.relation for i in node.inputs)
        case ir.Threshold():
            return node.index.relation, node.bound.relation
        case _:
            return ir.inputs(node)
