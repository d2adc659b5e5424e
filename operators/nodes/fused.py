"""The rounds of a small change of a loop, in one kernel (operators.kernels.rounds).

What a loop's nodes do to a change is written down once as a program: paths from what changed to the
rows that the loop counts, over joins, filters and maps. That works where values are words of 64
bits, joins look up by equality, and no path looks rows up that rounds change; what else there is
inside of a loop, and changes that turn out to be large, take the operators' way, a round at a time.

Invariant: the loop's relations are afterwards what the operators would have made of them, but for
row ids, and rows that come and go within an epoch, which are never written.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from operators.flight import delta as deltas
from operators.flight.column import Column, Ints
from operators.flight.delta import Delta
from operators.kernels import rounds as k
from operators.nodes.delta_join import DeltaJoinOperator
from operators.nodes.half_join import HalfJoinOperator
from operators.nodes.operator import AnyOperator, Place
from operators.state.arrangement import ArrangementState, IndexReader
from operators.state.relation import Relation
from operators.state.storage import layout_of
from operators.state.ticks import tick_of
from planner import dataflow as ir
from planner.calculus import types as t
from planner.calculus.expr import Call, Expr, Literal
from planner.calculus.expr import Column as ColumnRef
from planner.calculus.types import Schema

#: So many rows that change outside are a small change.
MOST_ROWS = 1 << 12
#: Room for keys, and for rows of keys, at first and at most; it grows by so much.
LEAST_ROOM, MOST_ROOM, _GROWTH = 1 << 8, 1 << 17, 8
#: So many changes at most are not tried after one that was too large.
_MOST_UNTRIED = 64
#: Entries of indexes that may be looked at.
_MOST_ENTRIES = 1 << 23
#: The most sites, and columns of a row.
_MOST_SITES, _MOST_COLUMNS = 64, 60
_EPOCH_DAY = datetime.date(1970, 1, 1).toordinal()

_BINARY = {
    "add": k.ADD, "subtract": k.SUBTRACT, "multiply": k.MULTIPLY,
    "remainder": k.REMAINDER, "eq": k.EQ, "ne": k.NE,
    "lt": k.LT, "le": k.LE, "gt": k.GT, "ge": k.GE, "eq_null_safe": k.SAME, "and": k.AND,
    "or": k.OR, "least": k.LEAST, "greatest": k.GREATEST, "coalesce": k.COALESCE,
}  # fmt: skip
_ARITHMETIC = ("add", "subtract", "multiply", "remainder")
_UNARY = {"negate": k.NEGATE, "not": k.NOT, "is_null": k.IS_NULL, "magnitude": k.MAGNITUDE}
_ACCUMULATORS = {
    "least": k.LEAST_OF, "greatest": k.GREATEST_OF, "count": k.COUNT_OF, "count_rows": k.COUNT_ROWS,
    "sum": k.SUM_OF,
}  # fmt: skip


class NotFusedError(Exception):
    """The kernel cannot do what some node does: it says what."""


_NO_WORD = "values that are no numbers of 64 bits"


@dataclass(frozen=True, slots=True)
class Site:
    """A relation that rounds change, and the groups that it is made of, with their indexes."""

    holder: ir.Variable | ir.Timeline
    held: Relation
    held_index: IndexReader
    counted_node: ir.Reduce
    counted: Relation
    counted_index: IndexReader

    @property
    def marks(self) -> int:
        """How many of the holder's columns are rounds."""
        return self.holder.marks if isinstance(self.holder, ir.Variable) else 2

    @property
    def keys(self) -> int:
        if isinstance(self.holder, ir.Variable):
            return len(self.holder.schema) - self.holder.marks
        return self.holder.keys

    @property
    def accumulators(self) -> tuple[ir.Accumulator, ...]:
        return () if isinstance(self.holder, ir.Variable) else self.holder.accumulators


@dataclass(frozen=True, slots=True)
class _Join:
    """Look `probe` registers up; what is found has its columns from register `first` on."""

    step: HalfJoinOperator
    probe: tuple[int, ...]
    first: int


@dataclass(frozen=True, slots=True)
class _Test:
    code: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Set:
    register: int
    code: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Emit:
    site: int
    registers: tuple[int, ...]
    sign: int
    #: Registers that say how often.
    times: tuple[int, ...]


_Op = _Join | _Test | _Set | _Emit


@dataclass(frozen=True, slots=True)
class _Path:
    """From a node whose columns are the first registers."""

    source: ir.Node
    ops: tuple[_Op, ...]


class Changed(NamedTuple):
    """What an epoch changed in a stored node."""

    node: ir.Variable | ir.Timeline | ir.Reduce
    changes: Delta


class Fused:
    """The program of a loop. State: none but what it was made of."""

    def __init__(
        self, loop: ir.Loop, place: Place, operator: Callable[[ir.Node], AnyOperator]
    ) -> None:
        """`operator`: what runs a node inside. Raises: NotFusedError where there is no program."""
        self._loop = loop
        self.sites = _sites(loop, place)
        self._operator = operator
        self._paths = tuple(_Paths(loop, self.sites, operator).all())
        self._made: _Program | None = None
        #: How much room a changed row took of late: changes are alike.
        self._room_each = 0.0
        #: Of how many epochs it was found in turn that they need too much, and how many from now
        #: on are not tried for that.
        self._larger, self._untried = 0, 0

    def run(
        self, time: int, given: Mapping[ir.Node, Delta]
    ) -> tuple[list[Changed], int, int] | None:
        """Write what changes from outside at an epoch make of the loop's relations, which indexes
        do not have yet: what changed, the variable's first; rounds, and changes of the variable in
        them. None if that is for the operators: nothing has happened then.

        Cost: the keys that change in each round and the rows that they have, some tens of calls.
        """
        many_rows = sum(map(len, given.values()))
        if self._untried or many_rows > MOST_ROWS:
            self._untried = max(self._untried - 1, 0)
            return None
        made = self._made
        if made is None or not made.is_current:
            made = self._made = _Program(self._loop, self.sites, self._paths)
        start = tick_of(time)
        sources, rows = made.rows(given)
        relations, indexes = made.tables(time, start)
        ops = made.operations()
        room = LEAST_ROOM
        while room < min(2 * self._room_each * many_rows, MOST_ROOM):  # too little costs a run
            room = min(room * _GROWTH, MOST_ROOM)
        while True:
            counts = np.zeros(9, np.int64)
            counts[k.C_MOST] = _MOST_ENTRIES
            seeks = np.zeros(len(indexes), np.int64)
            arena = made.room(room)
            went = k.run(
                relations, indexes, made.paths, ops, made.lists, made.code, made.sites, sources,
                rows, self._loop.last, made.registers, counts, seeks, *arena,
            )  # fmt: skip
            if went == k.DONE:
                break
            if went != k.FULL or room >= MOST_ROOM:
                made.looked_up(seeks, int(counts[k.C_ENTRIES]))
                if went != k.GIVE_UP:
                    self._untried = min(1 << self._larger, _MOST_UNTRIED)
                    self._larger += 1
                return None
            room = min(room * _GROWTH, MOST_ROOM)
        self._larger = 0
        needed = int(counts[[k.C_KEYS, k.C_COUNTED, k.C_HELD]].max())
        self._room_each = (self._room_each + needed / max(many_rows, 1)) / 2
        made.looked_up(seeks, int(counts[k.C_ENTRIES]))
        parts = np.empty((2 * len(self.sites), 4), np.int64)
        many = int(counts[k.C_COUNTED] + counts[k.C_HELD])
        dead, born = np.empty(many, np.int64), np.empty((made.widest + 1, many), np.int64)
        key_words, keys, counted_words, counted, held_words, held, *_ = arena
        if not k.changes_of(
            made.sites, counts, key_words, keys, counted_words, counted, held_words, held,
            parts, dead, born,
        ):  # fmt: skip
            raise AssertionError("a group lost more rows than it had: its input is not a multiset")
        found = []
        for number, site in enumerate(self.sites):
            holds = _write(site.held, dead, born, parts[2 * number + 1].tolist(), start + 1)
            groups = _write(site.counted, dead, born, parts[2 * number].tolist(), start + 1)
            for node, changes in ((site.holder, holds), (site.counted_node, groups)):
                if changes is not None:
                    found.append(Changed(node, changes))
        return found, int(counts[k.C_ROUNDS]), int(counts[k.C_CHANGED])


def _sites(loop: ir.Loop, place: Place) -> tuple[Site, ...]:
    timelines = [n for n in ir.inside(loop) if isinstance(n, ir.Timeline)]
    found: list[Site] = []
    if loop.variable.all:
        raise NotFusedError("rows that count each way (UNION ALL)")
    assert isinstance(loop.counted, ir.Reduce)
    every: list[tuple[ir.Variable | ir.Timeline, ir.Reduce, ir.Index]] = [
        (loop.variable, loop.counted, ir.variable_index(loop.variable))
    ]
    every += [(n, n.counted, ir.timeline_index(n)) for n in timelines]
    for holder, counted, index in every:
        site = Site(
            holder, place.relation(holder), place.index(index), counted, place.relation(counted),
            place.index(ir.group_index(counted)),
        )  # fmt: skip
        for indexed in (site.held_index, site.counted_index):
            _check(indexed, site.keys)
            if indexed.columns[: site.keys] != tuple(range(site.keys)):
                raise NotFusedError("the order of a key's columns")
        own = (*holder.schema, *counted.schema)
        if not all(_is_word(f.type) or _may_be_word(f.type) for f in own):
            raise NotFusedError(_NO_WORD)
        if not all(a.kind in _ACCUMULATORS for a in site.accumulators):
            raise NotFusedError("an aggregate other than MIN, MAX, COUNT and SUM")
        if len(holder.schema) + len(counted.schema) > _MOST_COLUMNS:
            raise NotFusedError("so many columns")
        found.append(site)
    if len(found) > _MOST_SITES or len({s.counted_node for s in found}) < len(found):
        raise NotFusedError("aggregates that share their groups, or so many")
    return tuple(found)


def _check(index: IndexReader, words: int) -> None:
    """An index that keys of so many columns can be looked up in."""
    if index.hashed or index.width > k.MOST_WORDS or not isinstance(index.spec, ir.Arrangement):
        raise NotFusedError("keys of texts, or of so many columns")
    fields = index.relation.schema
    if not all(_is_word(fields[c].type) for c in index.columns[:words]):
        raise NotFusedError(_NO_WORD)


def _is_word(kind: t.SqlType) -> bool:
    """Whether values are words that are equal where these are, as keys are."""
    layout = layout_of(kind)
    return not (
        layout.textual
        or layout.words > 1
        or layout.storage.kind == "f"
        or isinstance(kind, t.NullType)
    )


def _may_be_word(kind: t.SqlType) -> bool:
    """Whether values are numbers of two words, of which the second most often says nothing."""
    return isinstance(kind, t.DecimalType) and not kind.narrow


class _Paths:
    """Writes down what becomes of changes."""

    def __init__(
        self, loop: ir.Loop, sites: Sequence[Site], operator: Callable[[ir.Node], AnyOperator]
    ) -> None:
        self._operator = operator
        self._here = {loop.variable, *ir.inside(loop)}
        self._entering = ir.entering(loop)
        self._sites = sites
        self._sinks = {site.counted_node: number for number, site in enumerate(sites)}
        self._consumers: dict[ir.Node, list[ir.Node]] = {}
        for node in ir.inside(loop):
            for i in dict.fromkeys(ir.inputs(node)):
                self._consumers.setdefault(i, []).append(node)

    def all(self) -> Iterator[_Path]:
        for source in (*(s.holder for s in self._sites), *self._entering):
            columns = tuple(range(len(source.schema)))
            for ops in self._from(source, source, columns, (), len(columns), 1, ()):
                path = _Path(source, ops)
                self._check_words(path)
                yield path

    def _check_words(self, path: _Path) -> None:
        """A path reads words alone of what is not a site's."""
        used = {r for op in path.ops for r in _registers(op)}
        read = [
            (op.step.occurrence.relation.schema, op.first, op.step.occurrence.width)
            for op in path.ops
            if isinstance(op, _Join)
        ]
        if path.source in self._entering:
            read.append((path.source.schema, 0, len(path.source.schema)))
        for schema, first, width in read:
            for c in range(width):
                if first + c in used and not _is_word(schema[c].type):
                    raise NotFusedError(_NO_WORD)

    def _from(
        self,
        source: ir.Node,
        node: ir.Node,
        columns: tuple[int, ...],
        ops: tuple[_Op, ...],
        free: int,
        sign: int,
        times: tuple[int, ...],
    ) -> Iterator[tuple[_Op, ...]]:
        """The ways on from a node whose columns are in registers; those from `free` on are not
        taken."""
        for consumer in self._consumers.get(node, ()):
            match consumer:
                case ir.Map():
                    more: list[_Op] = [_Test(_code(p, columns)) for p in consumer.predicates]
                    outputs = []
                    end = free
                    for output in consumer.outputs:
                        if isinstance(output, ColumnRef):
                            outputs.append(columns[output.index])
                        else:
                            more.append(_Set(end, _code(output, columns)))
                            outputs.append(end)
                            end += 1
                    yield from self._from(
                        source, consumer, tuple(outputs), (*ops, *more), end, sign, times
                    )
                case ir.Union():
                    negated = consumer.negated or (False,) * len(consumer.inputs)
                    for i, minus in zip(consumer.inputs, negated, strict=True):
                        if i == node:
                            own = -sign if minus else sign
                            yield from self._from(source, consumer, columns, ops, free, own, times)
                case ir.Repeat():
                    count = columns[consumer.count]
                    more = [_Test((k.REGISTER, count, k.CONSTANT, 0, k.GT, 0))]
                    yield from self._from(
                        source, consumer, columns, (*ops, *more), free, sign, (*times, count)
                    )
                case ir.DeltaJoin():
                    yield from self._joined(source, consumer, node, columns, ops, free, sign, times)
                case ir.Reduce() if consumer in self._sinks:
                    registers = []
                    for key in consumer.keys:
                        if not isinstance(key, ColumnRef):
                            raise NotFusedError("groups by an expression")
                        registers.append(columns[key.index])
                    yield (*ops, _Emit(self._sinks[consumer], tuple(registers), sign, times))
                    if any(
                        not isinstance(c, ir.Timeline) for c in self._consumers.get(consumer, ())
                    ):
                        raise NotFusedError("an aggregate that is read in other ways")
                case _:
                    raise NotFusedError(f"a node {type(consumer).__name__}")

    def _joined(
        self,
        source: ir.Node,
        join: ir.DeltaJoin,
        node: ir.Node,
        columns: tuple[int, ...],
        ops: tuple[_Op, ...],
        free: int,
        sign: int,
        times: tuple[int, ...],
    ) -> Iterator[tuple[_Op, ...]]:
        operator = self._operator(join)
        assert isinstance(operator, DeltaJoinOperator)
        if operator.takes_events:
            raise NotFusedError("a join of events")
        for path in join.paths:
            given = join.inputs[path.source]
            if given.relation != node:
                continue
            more, end = list(ops), free
            if given.filter is not None:
                more.append(_Test(_code(given.filter, columns)))
            known: list[int] = [-1] * len(join.schema)
            own = operator.occurrences[path.source]
            known[own.first : own.first + own.width] = columns[: own.width]
            for step in operator.paths[path.source]:
                if not isinstance(step, HalfJoinOperator):
                    raise NotFusedError("a join by a range, or by counts")
                found = join.inputs[step.node.input]
                if found.relation in self._here and source in self._here:
                    # What rounds change by then is not in its index.
                    raise NotFusedError("a join of the recursion with itself")
                _check(step.index, len(step.node.probe))
                at = step.occurrence
                more.append(_Join(step, tuple(known[c] for c in step.node.probe), end))
                known[at.first : at.first + at.width] = range(end, end + at.width)
                end += at.width
                more += [_Test(_code(r, tuple(known))) for r in step.node.residual]
            if sum(isinstance(op, _Join) for op in more) > k.MOST_JOINS:
                raise NotFusedError("so many joins")
            yield from self._from(source, join, tuple(known), tuple(more), end, sign, times)


def _code(expr: Expr, columns: tuple[int, ...]) -> tuple[int, ...]:
    """An expression over columns in registers, in postfix order."""
    code = tuple(_postfix(expr, columns))
    if len(code) > 2 * k.MOST_OPERANDS:
        raise NotFusedError("so long an expression")
    return code


def _postfix(expr: Expr, columns: tuple[int, ...]) -> Iterator[int]:
    match expr:
        case ColumnRef():
            if not _is_word(expr.type):
                raise NotFusedError(_NO_WORD)
            yield from (k.REGISTER, columns[expr.index])
        case Literal():
            yield from _literal(expr)
        case Call(function="cast", args=(arg,)):
            if not (isinstance(expr.type, t.IntegerType) and isinstance(arg.type, t.IntegerType)):
                raise NotFusedError(f"a cast from {arg.type} to {expr.type}")
            yield from _postfix(arg, columns)
            yield from (k.CAST, expr.type.bits)
        case Call(function="in"):
            first, *others = expr.args
            if not _is_plain(first.type) or any(a.type != first.type for a in others):
                raise NotFusedError(f"IN over {first.type}")
            for number, other in enumerate(others):
                yield from _postfix(first, columns)
                yield from _postfix(other, columns)
                yield from (k.EQ, 0)
                if number:
                    yield from (k.OR, 0)
        case Call(function="checked_sum", args=(ColumnRef() as total,)):
            if expr.type != t.BIGINT or _is_word(total.type) or total.type != t.DecimalType(38, 0):
                raise NotFusedError(_NO_WORD)
            yield from (k.REGISTER, columns[total.index])
        case Call(function="case"):
            *branches, last = expr.args
            for arg in branches:
                yield from _postfix(arg, columns)
            yield from _postfix(last, columns)
            yield from (k.IF, 0) * (len(branches) // 2)
        case Call() if expr.function in _UNARY:
            (arg,) = expr.args
            if expr.function == "negate" and not isinstance(expr.type, t.IntegerType):
                raise NotFusedError(f"{expr.function} of {expr.type}")
            yield from _postfix(arg, columns)
            yield from (_UNARY[expr.function], _bits(expr.type))
        case Call() if expr.function in _BINARY:
            first, *others = expr.args
            if any(a.type != first.type or not _is_plain(a.type) for a in expr.args):
                raise NotFusedError(f"{expr.function} of {first.type}")
            if expr.function in _ARITHMETIC and not isinstance(expr.type, t.IntegerType):
                raise NotFusedError(f"{expr.function} of {expr.type}")
            yield from _postfix(first, columns)
            for other in others:
                yield from _postfix(other, columns)
                yield from (_BINARY[expr.function], _bits(expr.type))
        case _:
            raise NotFusedError(_no_expression(expr))


def _no_expression(expr: Expr) -> str:
    return f"the function {expr.function}" if isinstance(expr, Call) else type(expr).__name__


def _is_plain(kind: t.SqlType) -> bool:
    """Whether values compare as their words do."""
    return isinstance(kind, (t.IntegerType, t.BooleanType, t.DateType))


def _bits(kind: t.SqlType) -> int:
    return kind.bits if isinstance(kind, t.IntegerType) else 64


def _literal(literal: Literal) -> tuple[int, int]:
    value = literal.value
    if value is None:
        return k.NULL, 0
    if isinstance(value, int) and isinstance(literal.type, (t.IntegerType, t.BooleanType)):
        return k.CONSTANT, int(value)
    if isinstance(literal.type, t.DateType) and type(value) is datetime.date:
        return k.CONSTANT, value.toordinal() - _EPOCH_DAY
    raise NotFusedError(f"a literal of {literal.type}")


class _Program:
    """The tables that the kernel takes, as the joins' indexes are chosen now."""

    def __init__(self, loop: ir.Loop, sites: Sequence[Site], paths: Sequence[_Path]) -> None:
        self._all_sites = sites
        self._inside = {s.held for s in sites} | {s.counted for s in sites}
        self._relations: list[Relation] = []
        self._columns: list[set[int]] = []
        self._indexes: list[ArrangementState] = []
        self._takes = ir.entering(loop)
        #: The columns that are read of each node outside.
        self._read: list[list[int]] = [[] for _ in self._takes]
        self._lists: list[int] = []
        self._code: list[int] = []
        self._ops: list[list[int]] = []
        #: Of each operation that looks up, by its number.
        self._steps: dict[int, HalfJoinOperator] = {}
        table = [self._site(site) for site in sites]
        self.sites = np.array(table, np.int64)
        places: dict[ir.Node, int] = {s.holder: i for i, s in enumerate(sites)}
        places |= {n: len(sites) + i for i, n in enumerate(self._takes)}
        self.paths = np.array(
            [self._path(path, places[path.source]) for path in paths], np.int64
        ).reshape(-1, 4)
        self.lists, self.code = np.array(self._lists, np.int64), np.array(self._code, np.int64)
        self._operations = np.array(self._ops, np.int64).reshape(-1, 8)
        written = (
            op.first + op.step.occurrence.width if isinstance(op, _Join) else op.register + 1
            for path in paths
            for op in path.ops
            if isinstance(op, (_Join, _Set))
        )
        #: How many registers the paths need.
        self.registers = max((*written, *(len(p.source.schema) for p in paths), 1))
        self._key_width = max(s.keys for s in sites) + 1
        self._rest_width = max(len(s.counted_node.schema) - 1 - s.keys for s in sites) + 1
        self._held_width = max(len(s.holder.schema) - s.keys for s in sites) + 1
        #: The most columns of a stored row.
        self.widest = max(max(len(s.counted.schema), len(s.held.schema)) for s in sites)
        self._reads_by = [(step.index, step.filter) for step in self._steps.values()]

    @property
    def is_current(self) -> bool:
        """Whether the joins read the indexes that they read when this was made."""
        now = ((step.index, step.filter) for step in self._steps.values())
        return all(a is c and b is d for (a, b), (c, d) in zip(self._reads_by, now, strict=True))

    def looked_up(self, seeks: Ints, entries: int) -> None:
        """Count lookups where they were made, which pays for merging; entries at the first."""
        for index, count in zip(self._indexes, seeks.tolist(), strict=True):
            if count:
                index.looked_up(np.array((entries, count), np.int64))
                entries = 0

    def rows(self, given: Mapping[ir.Node, Delta]) -> tuple[Ints, Ints]:
        """Where the changes of each node outside begin and end, and all (see rounds.run)."""
        width = max(map(len, self._read), default=0)
        sources = np.zeros((len(self._takes), 2), np.int64)
        rows = np.zeros((sum(map(len, given.values())), width + 2), np.int64)
        end = 0
        for number, (node, read) in enumerate(zip(self._takes, self._read, strict=True)):
            delta = given.get(node)
            if delta is None:
                continue
            begin, end = end, end + len(delta)
            sources[number] = begin, end
            own = rows[begin:end]
            for i, c in enumerate(read):
                column = delta.column(c)
                own[:, i] = column.values
                if column.valid is not None:
                    own[:, i] *= column.valid
                    own[:, -2] |= (~column.valid).astype(np.int64) << i
            own[:, -1] = delta.diff
        return sources, rows

    def tables(self, epoch: int, tick: int) -> tuple[Ints, Ints]:
        """The relations and indexes as they are: outside at an epoch, inside at a tick."""
        relations = np.array(
            [
                (*r.addresses(c), tick if r in self._inside else epoch)
                for r, c in zip(self._relations, self._columns, strict=True)
            ],
            np.int64,
        )
        indexes = []
        for index in self._indexes:
            table = index.spine.table
            indexes.append((table.ctypes.data, len(table), self._relations.index(index.relation)))
        return relations, np.array(indexes, np.int64)

    def operations(self) -> Ints:
        """The operations, with the filters' bitmaps as they are."""
        for number, step in self._steps.items():
            if step.filter is not None:
                self._operations[number, k.O_E] = step.filter.bits.ctypes.data
        return self._operations

    def room(self, many: int) -> tuple[Ints, ...]:
        """For so many keys, counted and held rows each."""
        table = np.full((2, 4 * many), -1, np.int64)
        return (
            np.empty((many, self._key_width), np.int64), np.empty((many, 4), np.int64),
            np.empty((many, self._rest_width), np.int64), np.empty((many, 5), np.int64),
            np.empty((many, self._held_width), np.int64), np.empty((many, 4), np.int64),
            table[0], table[1], np.empty(2 * many, np.int64), np.empty((many, 2), np.int64),
        )  # fmt: skip

    def _site(self, site: Site) -> list[int]:
        keys, marks = site.keys, site.marks
        rests = len(site.counted_node.schema) - 1 - keys
        helds = len(site.holder.schema) - keys
        values: list[int] = []
        for a in site.accumulators:
            place = 0
            if a.arg is not None:
                assert isinstance(a.arg, ColumnRef)
                place = a.arg.index - keys if a.arg.index >= keys else rests + a.arg.index
            values += (_ACCUMULATORS[a.kind], place)
        loads = []
        for relation, many in ((site.counted, rests + 1), (site.held, helds)):
            columns = range(keys, keys + many)
            self._relation(relation, columns)
            loads.append(self._put([x for c in columns for x in relation.slot_of(c)]))
        counts = not all(a.kind in ("least", "greatest") for a in site.accumulators)
        return [
            int(marks > 1), keys, rests, rests - marks, self._index(site.counted_index),
            _mask(site.counted_index.null_words[:keys]), loads[0], helds,
            self._index(site.held_index), _mask(site.held_index.null_words[:keys]), loads[1],
            self._put(values), len(site.accumulators), int(counts),
        ]  # fmt: skip

    def _path(self, path: _Path, source: int) -> list[int]:
        used = {r for op in path.ops for r in _registers(op)}
        own = [r for r in range(len(path.source.schema)) if r in used]
        outside = source - len(self._all_sites)
        loads: list[int] = []
        for register in own:
            place = register
            if outside >= 0:
                read = self._read[outside]
                if register not in read:
                    read.append(register)
                place = read.index(register)
            loads += (place, register)
        first, begin = self._put(loads), len(self._ops)
        for op in path.ops:
            self._ops.append(self._op(op, used))
        return [source, begin, first, len(own)]

    def _op(self, op: _Op, used: set[int]) -> list[int]:
        match op:
            case _Join():
                step = op.step
                relation = step.occurrence.relation
                assert isinstance(relation, Relation)
                loads: list[int] = []
                columns = [c for c in range(step.occurrence.width) if op.first + c in used]
                for c in columns:
                    loads += (*relation.slot_of(c), op.first + c)
                self._relation(relation, columns)
                probe: list[int] = []
                for register, word, finds in zip(
                    op.probe, step.has_word, step.finds_null, strict=True
                ):
                    probe += (register, int(word), int(finds))
                assert isinstance(step.index, ArrangementState)
                self._steps[len(self._ops)] = step
                return [
                    k.JOIN, self._index(step.index), self._put(probe), len(op.probe),
                    int(step.node.as_of), 0, self._put(loads), len(columns),
                ]  # fmt: skip
            case _Test():
                return [k.TEST, *self._coded(op.code), 0, 0, 0, 0, 0]
            case _Set():
                return [k.SET, *self._coded(op.code), op.register, 0, 0, 0, 0]
            case _Emit():
                return [
                    k.EMIT, op.site, self._put(op.registers), op.sign, self._put(op.times),
                    len(op.times), 0, 0,
                ]  # fmt: skip

    def _relation(self, relation: Relation, columns: Sequence[int]) -> int:
        if relation not in self._relations:
            self._relations.append(relation)
            self._columns.append(set())
        number = self._relations.index(relation)
        self._columns[number].update(columns)
        return number

    def _index(self, index: IndexReader) -> int:
        assert isinstance(index, ArrangementState)
        self._relation(index.relation, ())
        if index not in self._indexes:
            self._indexes.append(index)
        return self._indexes.index(index)

    def _put(self, numbers: Sequence[int]) -> int:
        """Add to the lists; returns where they begin."""
        at = len(self._lists)
        self._lists.extend(numbers)
        return at

    def _coded(self, code: Sequence[int]) -> tuple[int, int]:
        at = len(self._code)
        self._code.extend(code)
        return at, len(self._code)


def _registers(op: _Op) -> Iterator[int]:
    """The registers that an operation reads."""
    match op:
        case _Join():
            yield from op.probe
        case _Test() | _Set():
            for kind, given in zip(op.code[::2], op.code[1::2], strict=True):
                if kind == k.REGISTER:
                    yield given
        case _Emit():
            yield from op.registers
            yield from op.times


def _mask(bits: Sequence[bool]) -> int:
    return sum(1 << i for i, bit in enumerate(bits) if bit)


def _write(relation: Relation, dead: Ints, born: Ints, part: list[int], tick: int) -> Delta | None:
    """Write deaths and births of rows; returns them as the relation's changes."""
    first_dead, end_dead, first, end = part
    deaths, births = end_dead - first_dead, end - first
    if deaths + births == 0:
        return None
    columns, masks = [], born[-1, first:end]
    some = bool(masks.any())
    schema: Schema = relation.schema
    for i, field in enumerate(schema):
        values = born[i, first:end]
        valid = None
        if some:
            valid = (masks >> i) & 1 == 0
            if valid.all():
                valid = None
        if isinstance(field.type, t.BooleanType):
            columns.append(Column(field.type, values.astype(np.bool_), valid))
        else:
            columns.append(Column(field.type, values, valid))
    gone = dead[first_dead:end_dead]
    row = relation.append(columns, np.full(births, tick))
    relation.kill(gone, np.full(deaths, tick))
    rows = np.concatenate((gone, np.arange(row, row + births)))
    diff = np.ones(len(rows), np.int64)
    diff[:deaths] = -1
    return deltas.bound(relation, rows, np.full(len(rows), tick), diff)
