"""The dataflow IR: how a view is maintained, and the only contract between planner and operators.

Every decision is made here (which index, which order, which version of it), so that execution is
straight-line. Nodes are frozen and compare by structure: two views whose subplans are equal share
one node, its operator and its state.

There are two kinds of node.

- *Stored* nodes keep their rows in a relation (rows once, row ids, versions): `Source` (a base
  table, or another view's stored result), `Store` (a derived bag), `Reduce` and `Recompute` (one
  row per group).
  They can be indexed and joined.
  A `Variable`, the rows of a recursive relation, is stored too; its `Loop` keeps it. So is a
  `Timeline`, groups in every round of a loop.
- *Stateless* nodes only turn deltas into deltas: `Map`, `Union`, `DeltaJoin`; `TopK` and
  `Window` read an ordered index of their stored input.

Source: 3DF §8 (delta queries), §13.4 (their order in time); Shared Arrangements §5.3.
"""

from __future__ import annotations

from dataclasses import field
from typing import TypeAlias, TypeGuard

from planner.calculus.algebra import MOST_DELAY, RANKED, Frame, SortKey, element_fields
from planner.calculus.expr import Expr, Literal, columns_used
from planner.calculus.node import node
from planner.calculus.types import Schema


@node
class Source:
    """The rows of a table, by the id that the catalog drew for it: what it is called is the
    catalog's alone, and may change. State: the table's own relation, shared by all.

    `schema`: the columns that the table had when the plan was made. It may have more behind them by
    now, and is the same table; so whatever reads a source takes columns by their positions, and
    what would have them all, as they come, reads a Map of those that there were (`is_open`).
    """

    relation: str
    schema: Schema = field(hash=False, compare=False)


@node
class Stream:
    """The events of a stream, by its id, as the view `reader` sees them: those after its
    installation, each at its own time alone. It is never looked up, and as of any time it has no
    rows. State: none.

    What a node makes of events depends on since when it runs: the reader in the leaf keeps views
    from sharing it.
    """

    relation: str
    schema: Schema = field(hash=False)
    reader: str = ""


@node
class Map:
    """Filter, then project: rows where every predicate is TRUE, in order, each tested only on rows
    that passed those before; then `outputs` over the same input columns. A row whose predicate or
    output fails goes to the view's errors instead.

    State: none, but the multiset of errors.
    """

    input: Node
    predicates: tuple[Expr, ...]
    outputs: tuple[Expr, ...]
    schema: Schema = field(hash=False)


@node
class Union:
    """UNION ALL; an input whose `negated` is set counts with the opposite sign, and its rows are a
    part of the others' (this is how rows without a match are told). State: none."""

    inputs: tuple[Node, ...]
    schema: Schema = field(hash=False)
    negated: tuple[bool, ...] = ()


@node
class Repeat:
    """Each row as many times as its BIGINT column `count` says; none for 0 or less. State: none."""

    input: Node
    count: int

    @property
    def schema(self) -> Schema:
        return self.input.schema


@node
class Explode:
    """Each row once for each element of its column `array`, with its position and itself behind;
    both NULL, once, where there is none and `outer` is set. State: none."""

    input: Node
    array: int
    outer: bool

    @property
    def schema(self) -> Schema:
        return (*self.input.schema, *element_fields(self.input.schema[self.array].type, self.outer))


@node
class Constant:
    """Rows that are always there. State: none."""

    rows: tuple[tuple[Literal, ...], ...]
    schema: Schema = field(hash=False)


@node
class Threshold:
    """Rows of an ordered relation on one side of a scalar that moves: those whose column
    `index.order[0]` compares by `comparison` (lt, le, gt, ge) with column `scalar` of the row of
    `bound` whose key columns `index.partition` of the rows match; without partition, of its one
    row. NULL on either side keeps a row out. Columns: those of the rows.

    `bound`: an index with at most one row a key, over the relation that holds the scalar (a Reduce,
    or a Store of its rows). When the scalar moves, exactly the rows between its old and its new
    value are visited. State: the two indexes.
    """

    index: OrderedArrangement
    bound: Arrangement
    scalar: int
    comparison: str

    @property
    def schema(self) -> Schema:
        return self.index.relation.schema


@node
class Store:
    """The input's rows as a bag with row ids. State: each row once, and an index on its hash."""

    input: Node

    @property
    def schema(self) -> Schema:
        return self.input.schema


@node
class Accumulator:
    """One accumulable aggregate of a `Reduce`; `arg` None only for count_rows.

    kind          stored as                        meaning
    count_rows    BIGINT, never NULL               rows of the group
    count         BIGINT, never NULL               rows whose arg is not NULL
    sum           DECIMAL(38, s), never NULL       exact 128-bit sum of arg (integer: s = 0;
                                                   decimal: its scale), NULLs skipped, 0 if none
    sum_top       BIGINT, never NULL               the word above those 128 bits, which makes it
                                                   exact; it stands behind the sum of a decimal arg
                                                   of more than 18 digits. Read both with the
                                                   function checked_sum
    sum_double    BINARY, never NULL               exact sum of a FLOAT or DOUBLE arg; read it with
                                                   the function exact_sum_to_double
    sum_square_double  BINARY, never NULL          exact sum of the squares of a FLOAT or DOUBLE
                                                   arg; read it with the function variance
    first         the arg's type                   value of arg in the first row of the group that
                                                   `index` puts in front (MIN, MAX); NULL if none
    least, greatest  the arg's type                the same of rows that never leave, for which no
                                                   row is kept, and no index (`only_appends`)
    """

    kind: str
    arg: Expr | None
    index: OrderedArrangement | None = None


@node
class Reduce:
    """One row per group: the keys, then the accumulators. accumulators[0] is count_rows; a group
    lives while that is not 0, except that without keys the one row always lives.

    An accumulator `first` needs a stored input, and its index: over that input, partitioned by the
    keys' columns, ordered by its arg with NULLs last.

    State: one row per group, and the index on its keys (shared with joins on the same keys).
    """

    input: Node
    keys: tuple[Expr, ...]
    accumulators: tuple[Accumulator, ...]
    schema: Schema = field(hash=False)


@node
class GroupValue:
    """One aggregate of a `Recompute`: `function`, one of algebra.RECOMPUTED, of the input's columns
    `args`; the columns of `order` are positions in `args`. `distinct`: rows that are equal in all
    of `args` count once."""

    function: str
    args: tuple[int, ...]
    order: tuple[SortKey, ...] = ()
    parameters: tuple[Literal, ...] = ()
    distinct: bool = False


@node
class Recompute:
    """One row per group: the columns `index.columns` of the input, which are the group's key, then
    `values`, each computed from all rows of the group as of each time at which one of them changes.
    Without key columns there is always the one group. The results of before are kept, so that only
    the new ones are computed.

    State: one row per group, and the index on its keys (shared with joins on the same keys);
    `index`, where it has NULL in a key column NULL-safe, over the input.
    """

    index: Arrangement
    values: tuple[GroupValue, ...]
    schema: Schema = field(hash=False)


@node
class Arrangement:
    """An index: the identity by which the catalog shares it.

    `columns`: key columns of the relation, the leading (sharding) one first. Rows with NULL in
    any of them are left out, unless `null_safe`, where NULL is a value of its own (GROUP BY, <=>).
    `filter`: a partial index has only the rows of which this predicate is TRUE; it is over the
    relation's columns and cannot fail. Joins whose input has just this filter share the index.
    """

    relation: Stored
    columns: tuple[int, ...]
    null_safe: bool = False
    filter: Expr | None = None


@node
class HashArrangement:
    """An index of a bag by the hash of its whole row (to find the copy to delete)."""

    relation: Stored


@node
class OrderedArrangement:
    """An index in the order of `order`, then `ties` (see algebra.TopK): reads from the front, of
    the whole, or of the rows with equal columns `partition` (NULLs are equal to each other)."""

    relation: Stored
    order: tuple[SortKey, ...]
    ties: tuple[int, ...]
    partition: tuple[int, ...] = ()


@node
class JoinInput:
    """One occurrence of a relation in a join, with the filter on its own columns, if any.

    The filter cannot fail (failing.may_fail is False): it is evaluated once per stored row into a
    bitmap that views share. An input that gives events is any node, with no filter here. `width`:
    how many columns of the relation are the join's; -1: those that its schema says.
    """

    relation: Node
    filter: Expr | None
    width: int = -1

    def __post_init__(self) -> None:
        if self.width < 0:
            object.__setattr__(self, "width", len(self.relation.schema))

    @property
    def schema(self) -> Schema:
        return self.relation.schema[: self.width]

    @property
    def stored(self) -> Stored:
        """The relation of an input that is looked up."""
        assert is_stored(self.relation), "events are never looked up"
        return self.relation


@node
class HalfJoin:
    """One step of a delta path: look occurrence `input` up through `index`.

    `probe`: positions, among the join's columns, of the bound columns whose values are sought, one
    for each leading column of the index (they may be fewer than the index's columns). The two sides
    encode alike: same type, or both integers.
    `as_of` True sees the index as of the probe's time, False as of just before it.
    `residual`: predicates over the join's columns bound after this step, tested at once; they
    cannot fail.
    The input's filter is tested per entry found, unless the index is partial: by that filter then.
    `null_safe`: for each probe column, whether its NULL finds the index's NULLs (`<=>`; the index
    is then null_safe); otherwise a NULL finds nothing. Empty: none does.
    """

    input: int
    index: Arrangement
    probe: tuple[int, ...]
    as_of: bool
    residual: tuple[Expr, ...]
    null_safe: tuple[bool, ...] = ()

    @property
    def reads(self) -> frozenset[int]:
        """Bound columns of the join that the lookup needs."""
        return frozenset(self.probe)

    @property
    def compared(self) -> tuple[int, ...]:
        """Columns of the occurrence that the lookup compares."""
        return self.index.columns[: len(self.probe)]

    @property
    def inputs(self) -> tuple[int, ...]:
        return (self.input,)

    @property
    def lookups(self) -> tuple[HalfJoin, ...]:
        return (self,)


@node
class RangeEnd:
    """One end of the range that a `RangeJoin` seeks: `value`, over the join's bound columns (it
    cannot fail; NULL finds nothing), and whether rows that equal it are found."""

    value: Expr
    inclusive: bool


@node
class RangeJoin:
    """One step of a delta path: look occurrence `input` up by an inequality, through an index that
    is ordered by one column, ascending, NULLs last: rows whose value is between the ends.

    An end is None where there is no bound; at least one is there. The index's column and the ends
    encode alike. Where its order words are not exact (texts), `residual` compares again.
    `as_of` and `residual` are as in `HalfJoin`.
    """

    input: int
    index: OrderedArrangement
    low: RangeEnd | None
    high: RangeEnd | None
    as_of: bool
    residual: tuple[Expr, ...]

    @property
    def ends(self) -> tuple[RangeEnd, ...]:
        return tuple(e for e in (self.low, self.high) if e is not None)

    @property
    def reads(self) -> frozenset[int]:
        """Bound columns of the join that the lookup needs."""
        return columns_used(*(e.value for e in self.ends))

    @property
    def compared(self) -> tuple[int, ...]:
        """Columns of the occurrence that the lookup compares."""
        return (self.index.order[0].column,)

    @property
    def inputs(self) -> tuple[int, ...]:
        return (self.input,)

    @property
    def lookups(self) -> tuple[RangeJoin, ...]:
        return (self,)


@node
class CountedJoin:
    """One step of a delta path, through a cycle of equalities: several occurrences lack the same
    values, and each prefix takes them from the one that has the fewest rows for it.

    `ways`: each binds the same occurrences, in another order. The first lookup of a way proposes
    rows, the others validate them: they compare what it has bound too. Every occurrence proposes in
    one way. A prefix goes the way whose first lookup finds the fewest entries of its index (rows
    that died or that a filter leaves out are counted as well: an upper bound), or that of all
    together where it makes no difference to speak of.
    Source: 3DF §9, §13 (worst-case optimal delta paths).
    """

    ways: tuple[tuple[HalfJoin, ...], ...]

    def __post_init__(self) -> None:
        orders = [[step.input for step in way] for way in self.ways]
        if len(orders) < 2 or any(sorted(o) != sorted(orders[0]) for o in orders):
            raise ValueError("the ways of a counted join do not bind the same occurrences")
        if sorted(o[0] for o in orders) != sorted(set(orders[0])):
            raise ValueError("an occurrence of a counted join does not propose in just one way")

    @property
    def reads(self) -> frozenset[int]:
        """Columns of the join that the lookups need, and this step does not bind."""
        return frozenset[int]().union(*(way[0].reads for way in self.ways))

    @property
    def inputs(self) -> tuple[int, ...]:
        return tuple(step.input for step in self.ways[0])

    @property
    def lookups(self) -> tuple[HalfJoin, ...]:
        return tuple(step for way in self.ways for step in way)


#: Looks one occurrence up.
Lookup: TypeAlias = HalfJoin | RangeJoin
#: Binds one occurrence, or several.
Step: TypeAlias = HalfJoin | RangeJoin | CountedJoin


@node
class DeltaPath:
    """What a change of occurrence `source` does to the join: filtered by its own filter, it is
    extended by each step in turn. A predicate on its columns alone that could not go into a bitmap
    was applied before the input was stored.
    """

    source: int
    steps: tuple[Step, ...]

    @property
    def lookups(self) -> tuple[Lookup, ...]:
        """Those of all steps, in turn."""
        return tuple(lookup for step in self.steps for lookup in step.lookups)


@node
class DeltaJoin:
    """An n-way inner join as one path per occurrence; paths[i].source == i.

    Occurrence j is seen by path i as of t where j < i, as of just before t where j > i, so that
    simultaneous changes come out once; what is inside of a loop counts as behind what is not.
    Columns: those of the inputs one after the other.
    Where one input gives events, its path is the only one, and sees all others as of t.
    State: none; it reads the indexes that its steps name.
    """

    inputs: tuple[JoinInput, ...]
    paths: tuple[DeltaPath, ...]

    def __hash__(self) -> int:
        # The paths name each input's whole subplan again in every step: hashing them too would
        # multiply over joins that are nested in views over views.
        return hash(self.inputs)

    @property
    def schema(self) -> Schema:
        return tuple(f for i in self.inputs for f in i.schema)


@node
class TopK:
    """The rows at [offset, offset + limit) of the ordered index. State: that index."""

    index: OrderedArrangement
    limit: int
    offset: int

    @property
    def schema(self) -> Schema:
        return self.index.relation.schema


@node
class WindowValue:
    """A column of a `Window`: `function` is one of algebra.RANKED or algebra.RECOMPUTED, min, max,
    or a kind of `Accumulator` that adds up; of the relation's columns `args`. The rest is as in
    algebra.WindowCall, columns of `frame` being the relation's."""

    function: str
    args: tuple[int, ...]
    frame: Frame
    order: tuple[SortKey, ...] = ()
    parameters: tuple[Literal, ...] = ()
    ignore_nulls: bool = False


@node
class Window:
    """The rows of the ordered index, of which the columns `columns`, with a column for each of
    `values` behind them. State: that index; what a row's values were is computed again."""

    index: OrderedArrangement
    columns: tuple[int, ...]
    values: tuple[WindowValue, ...]
    schema: Schema = field(hash=False)

    @property
    def reach(self) -> tuple[int, int] | None:
        """How many rows before and behind its own a row's values are of; None: any number."""
        reaches = [_reach(value) for value in self.values]
        before = [r[0] for r in reaches if r is not None]
        behind = [r[1] for r in reaches if r is not None]
        return (max(before), max(behind)) if len(before) == len(reaches) else None

    @property
    def sessions(self) -> WindowValue | None:
        """The one value, where it is of the row's session alone."""
        of_sessions = len(self.values) == 1 and self.values[0].function == "session_start"
        return self.values[0] if of_sessions else None


def _reach(value: WindowValue) -> tuple[int, int] | None:
    start, end = value.frame.start, value.frame.end
    if value.function == "shift" and not value.ignore_nulls:
        by = value.parameters[0].value
        assert isinstance(by, int)
        found = (by, by)
    elif value.function not in RANKED - {"first_value", "last_value", "nth_value"} and (
        start.kind == end.kind == "rows"
    ):
        found = (start.offset, end.offset)
    else:
        return None
    before, behind = max(-found[0], 0), max(found[1], 0)
    return (before, behind) if before + behind <= _MOST_NEIGHBOURS else None


#: With more rows on a side the whole partition is read.
_MOST_NEIGHBOURS = 1 << 14


@node
class Variable:
    """The rows of a recursive relation inside its `Loop`, with `marks` columns BIGINT behind them:
    the round in which a row is there first, from 0 on; or, of two, the rounds [from, to), to
    FOREVER where it does not end. `all`: rows are there once for each way to them (UNION ALL), in
    their round alone.

    `loop` identifies the loop by what it computes (planner.lower.loops). The nodes over a variable
    are inside its loop, which runs them, round by round; their versions are ticks of the loop's own
    time (operators.nodes.loop). State: the rows.
    """

    loop: str
    schema: Schema = field(hash=False)
    all: bool
    marks: int = 1


@node
class Timeline:
    """The groups of a relation inside of a loop in every round: `keys` columns, the accumulators,
    and the rounds [from, to) in which the group has these values; it has no row in rounds in which
    it has none of the relation's. Without accumulators: its keys' distinct values.

    `counted`: how often the relation has each row, rounds included; its columns are the keys, what
    the accumulators take, from, to and the count.
    State: one row per group and stretch of rounds, and the index on its keys.
    """

    counted: Reduce
    keys: int
    accumulators: tuple[Accumulator, ...]
    schema: Schema = field(hash=False)


@node
class Loop:
    """The rows of a recursive relation, without their rounds, once `body`, over `variable`, gives
    no other ones. The body says of its rows in which rounds they are there, as the variable does,
    all of them behind the rounds of what they are made of.

    `counted`: where rows are there once (not `variable.all`), the groups of the body's rows, rounds
    included, with their count; else the body. What changes in round `limit` puts the view in error,
    and nothing is computed behind that. `turns`: rounds of the loop that are one of the query's.
    `delay`: rounds, over the variable's columns, that a row has waited for its label's turn, which
    is when its label is there first; they do not count.
    State: the variable's rows, and the index by which a row is found.
    """

    variable: Variable
    counted: Node
    limit: int
    turns: int = 1
    delay: Expr | None = None

    @property
    def last(self) -> int:
        """The last round that is computed."""
        return self.limit + self.turns - 1 + (0 if self.delay is None else MOST_DELAY)

    @property
    def body(self) -> Node:
        if self.variable.all:
            return self.counted
        assert isinstance(self.counted, Reduce)
        return self.counted.input

    @property
    def schema(self) -> Schema:
        return self.variable.schema[: -self.variable.marks]


Stored: TypeAlias = Source | Store | Reduce | Recompute | Variable | Timeline
Node: TypeAlias = (
    Source
    | Stream
    | Constant
    | Map
    | Union
    | Repeat
    | Explode
    | Store
    | Reduce
    | Recompute
    | DeltaJoin
    | TopK
    | Window
    | Threshold
    | Variable
    | Timeline
    | Loop
)
Index: TypeAlias = Arrangement | HashArrangement | OrderedArrangement


def inputs(node: Node) -> tuple[Node, ...]:
    """Nodes whose deltas this node consumes."""
    match node:
        case Source() | Stream() | Constant() | Variable():
            return ()
        case Loop():
            return (node.counted, node.variable)
        case Timeline():
            return (node.counted,)
        case Map() | Store() | Reduce() | Repeat() | Explode():
            return (node.input,)
        case Union():
            return node.inputs
        case DeltaJoin():
            return tuple(dict.fromkeys(i.relation for i in node.inputs))
        case TopK() | Window() | Recompute():
            return (node.index.relation,)
        case Threshold():
            return tuple(dict.fromkeys((node.index.relation, node.bound.relation)))


def gives_events(node: Node) -> bool:
    """Whether the node's changes are all there is of it: events of a stream, and what is made of
    them at their instant. Such a node has no rows to be looked up or taken a snapshot of."""
    match node:
        case Stream():
            return True
        case Map() | Repeat() | Explode():
            return gives_events(node.input)
        case Union():
            return all(map(gives_events, node.inputs))
        case DeltaJoin():
            return any(gives_events(i.relation) for i in node.inputs)
        case Source() | Constant() | Store() | Reduce() | Recompute():
            return False
        case TopK() | Window() | Threshold() | Variable() | Timeline() | Loop():
            return False


def only_appends(node: Node) -> bool:
    """Whether the node gives events none of which is taken back at the same time."""
    match node:
        case Stream():
            return True
        case Map() | Repeat() | Explode():
            return only_appends(node.input)
        case Union():
            return not any(node.negated) and all(map(only_appends, node.inputs))
        case DeltaJoin():
            return any(only_appends(i.relation) for i in node.inputs)
        case _:
            return False


def is_stored(node: Node) -> TypeGuard[Stored]:
    """Whether the node keeps its rows itself."""
    return isinstance(node, (Source, Store, Reduce, Recompute, Variable, Timeline))


def is_open(node: Node) -> bool:
    """Whether rows of the node are those of a table, with whatever columns that has by now."""
    match node:
        case Source():
            return True
        case TopK() | Threshold():
            return is_open(node.index.relation)
        case _:
            return False


def is_grouped(node: Node) -> TypeGuard[Reduce | Recompute]:
    """Whether the node keeps one row per group, with an index on the groups' keys."""
    return isinstance(node, (Reduce, Recompute))


def indexes(node: Node) -> tuple[Index, ...]:
    """Indexes that this node reads or keeps, each once."""
    match node:
        case Store():
            return (HashArrangement(node),)
        case Reduce():
            ordered = (a.index for a in node.accumulators if a.index is not None)
            return tuple(dict.fromkeys((group_index(node), *ordered)))
        case DeltaJoin():
            return tuple(dict.fromkeys(s.index for p in node.paths for s in p.lookups))
        case Recompute():
            return (group_index(node), node.index)
        case TopK() | Window():
            return (node.index,)
        case Threshold():
            return (node.index, node.bound)
        case Timeline():
            return (timeline_index(node),)
        case Loop():
            return (variable_index(node.variable),)
        case _:
            return ()


def variable_index(node: Variable) -> Index:
    """The index by which a row of a recursive relation is found."""
    if node.all:
        return HashArrangement(node)
    return Arrangement(node, tuple(range(len(node.schema) - node.marks)), null_safe=True)


def timeline_index(node: Timeline) -> Arrangement:
    """The index on the keys of a `Timeline`."""
    return Arrangement(node, tuple(range(node.keys)), null_safe=True)


def loop_of(node: Node) -> str | None:
    """The loop that the node is inside of, so that it runs in rounds; None for what is outside of
    any. Cost: the nodes under it."""
    seen: set[Node] = set()
    waiting = [node]
    while waiting:
        below = waiting.pop()
        if isinstance(below, Variable):
            return below.loop
        if below not in seen and not isinstance(below, Loop):
            seen.add(below)
            waiting.extend(inputs(below))
    return None


def inside(loop: Loop) -> tuple[Node, ...]:
    """The nodes that a loop runs, inputs before consumers, but its variable."""
    here: dict[Node, bool] = {loop.variable: True}
    for below in topological(loop.counted):
        reads = not isinstance(below, Loop) and any(here.get(i, False) for i in inputs(below))
        here[below] = reads or below == loop.variable
    return tuple(n for n, is_inside in here.items() if is_inside and n != loop.variable)


def entering(loop: Loop) -> tuple[Node, ...]:
    """The nodes outside of a loop whose changes the nodes inside of it take."""
    ran = inside(loop)
    own = {loop.variable, *ran}
    return tuple(dict.fromkeys(i for n in ran for i in inputs(n) if i not in own))


def group_index(node: Reduce | Recompute) -> Arrangement:
    """The index on the keys of a `Reduce` or `Recompute`."""
    keys = len(node.keys) if isinstance(node, Reduce) else len(node.index.columns)
    return Arrangement(node, tuple(range(keys)), null_safe=True)


def topological(root: Node) -> tuple[Node, ...]:
    """`root` and all nodes under it, each once, inputs before consumers."""
    order: dict[Node, None] = {}

    def visit(node: Node) -> None:
        if node not in order:
            for i in inputs(node):
                visit(i)
            order[node] = None

    visit(root)
    return tuple(order)


def offsets(fields: tuple[Schema, ...]) -> tuple[int, ...]:
    """Position of each input's first column in a join's columns."""
    starts = [0]
    for schema in fields[:-1]:
        starts.append(starts[-1] + len(schema))
    return tuple(starts)
