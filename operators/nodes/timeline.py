"""Timeline: the groups of a relation inside of a loop, in every round.

A row carries the rounds [from, to) in which it is there. A group's row is there for a stretch of
rounds through which its values are the same, so that it is there for them as any other row is. A
group is looked at in a round if what it is of begins or ends there, or did; the values of later
rounds stay what they were until their turn comes. So a round reads no later one: what holds itself
up, on a cycle that was cut off from its source, goes round by round, and does not count on.

Invariant: after a round all groups are what their rows make of them in all rounds up to it, in
stretches that are as long as they can be; a group that is to be looked at later waits.
Source: K-Pg (rounds as a coordinate of time); differential dataflow, its interesting times.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from typing_extensions import Self

from operators.flight import delta as deltas
from operators.flight.column import Bools, Column, Ints, concat
from operators.flight.delta import Delta, Origin
from operators.nodes.half_join import HalfJoinOperator, Occurrence
from operators.nodes.operator import Inputs, InRounds, Place
from operators.nodes.reduce import ReduceOperator
from operators.nodes.store import consolidate
from operators.state import encode
from operators.state.arrangement import ArrangementState, IndexReader
from operators.state.relation import Relation
from operators.state.ticks import round_of
from planner import dataflow as ir
from planner.calculus.algebra import FOREVER
from planner.calculus.expr import Column as ColumnRef
from planner.calculus.types import BIGINT, Field, Schema

_COUNT = ir.Accumulator("count_rows", None)


class TimelineOperator(InRounds[ir.Timeline]):
    """The groups of `node`. State: `relation`."""

    def __init__(self, node: ir.Timeline, place: Place) -> None:
        self.node = node
        self.relation = place.own_relation(node)
        self.stretches = Stretches(
            node.counted, node.keys, node.accumulators, self.relation,
            place.index(ir.timeline_index(node)), place,
        )  # fmt: skip

    @classmethod
    def install(cls, node: ir.Timeline, place: Place) -> Self:
        return cls(node, place)

    @property
    def waiting(self) -> dict[int, list[Delta]]:
        return self.stretches.waiting

    def turn(self, tick: int, changes: Sequence[Delta | None]) -> Delta:
        (delta,) = changes
        round = round_of(tick)
        if delta is not None and len(delta):
            self.stretches.take(delta, round)
        return self.stretches.advance(round, tick)

    def start(self, inputs: Inputs) -> Iterator[Delta]:
        raise AssertionError("its loop fills it")

    def rows(self, inputs: Inputs) -> Iterator[Delta]:
        raise AssertionError("nobody reads what is in a loop as of an epoch")


@dataclass(frozen=True, slots=True)
class _Held:
    """Rows of groups as they are: of which group each is, its row id, its rounds [begin, end) and
    its values. All of the same length."""

    group: Ints
    row: Ints
    begin: Ints
    end: Ints
    values: list[Column]


class Stretches:
    """Keeps the groups of a counted relation in a relation of their own."""

    def __init__(
        self,
        counted: ir.Reduce,
        keys: int,
        accumulators: Sequence[ir.Accumulator],
        relation: Relation,
        index: IndexReader,
        place: Place,
    ) -> None:
        #: By round, groups to look at in it.
        self.waiting: dict[int, list[Delta]] = {}
        self._relation = relation
        self._keys = keys
        self._schema: Schema = counted.schema[:keys]
        #: Where a row of the counted relation has its rounds, and how often it is there.
        self._begin = len(counted.schema) - 3
        self._counts = bool(accumulators)
        self._made = lookup_of(self._schema, place.index(ir.group_index(counted)),
            place.relation(counted))  # fmt: skip
        self._held = lookup_of(self._schema, index, relation)
        self._groups = None
        if accumulators:
            self._groups = _groups(counted, accumulators, relation.schema[keys:-2], place)

    def take(self, changes: Delta, round: int) -> None:
        """Let the groups of changed rows wait for the first round that the change touches, `round`
        at the earliest."""
        if changes.pairs is not None and not self._counts:
            # Made once more, or once less, and still made.
            keep = np.ones(len(changes), np.bool_)
            keep[changes.pairs.old] = keep[changes.pairs.new] = False
            changes = changes.filter(keep)
        if len(changes):
            begin = np.asarray(changes.column(self._begin).values)
            keys = changes.project(self._schema, [changes.origin(i) for i in range(self._keys)])
            put(self.waiting, keys, np.maximum(begin, round))

    def advance(self, round: int, tick: int) -> Delta:
        """Look at the groups that wait for `round`; the changes of their rows, which are written,
        and not indexed.

        Cost: a lookup of each group, and its rows; the stretches that it has.
        """
        parts = self.waiting.pop(round, None)
        if parts is None:
            return deltas.empty(self._relation.schema)
        columns = [concat([p.column(i) for p in parts]) for i in range(self._keys)]
        ones = np.ones(len(columns[0]), np.int64)
        one = consolidate(columns, ones, ones, self._relation.hashing, one_time=True).row
        columns, n = [c.take(one) for c in columns], len(one)
        coming = np.full(n, FOREVER)
        place, values = self._now(columns, n, round, tick, coming)
        held = self._stretches(columns, n, tick)
        changed = self._write(columns, n, round, tick, place, values, held)
        _come(coming, held.group, held.begin, held.end, round)
        waits = np.flatnonzero(coming < FOREVER)
        if len(waits):
            keys = Delta(self._schema, np.full(len(waits), tick), ones[: len(waits)],
                [c.take(waits) for c in columns])  # fmt: skip
            put(self.waiting, keys, coming[waits])
        return changed

    def _now(
        self, columns: list[Column], n: int, round: int, tick: int, coming: Ints
    ) -> tuple[Ints, list[Column]]:
        """What the groups are in a round: of each its place among `values`, or -1; `coming` becomes
        the round in which something of it begins or ends next."""
        group, found = found_of(self._made, self._schema, columns, n, tick)
        first = self._keys + 1
        begin, end, count = (
            np.asarray(found.column(first + self._begin + i).values) for i in range(3)
        )
        _come(coming, group, begin, end, round)
        there = np.flatnonzero((begin <= round) & (round < end))
        place = np.full(n, -1, np.int64)
        if self._groups is None:
            place[group[there]] = 0
            return place, []
        node = self._groups.node
        origins: list[Origin] = [None] * len(node.input.schema)
        origins[0] = Column(BIGINT, group[there])
        for slot in node.accumulators:
            if slot.arg is not None:
                assert isinstance(slot.arg, ColumnRef)
                origins[slot.arg.index] = found.column(first + slot.arg.index - 1).take(there)
        times = np.full(len(there), tick)
        given = Delta(node.input.schema, times, count[there], origins, one_time=True)
        if len(there) == 0:
            return place, deltas.empty(node.schema[2:]).columns()
        number, _, *values = self._groups.by_themselves(given)
        place[np.asarray(number.values)] = np.arange(len(number))
        return place, values

    def _stretches(self, columns: list[Column], n: int, tick: int) -> _Held:
        """The rows that the groups have."""
        group, found = found_of(self._held, self._schema, columns, n, tick)
        first, end = self._keys + 1, self._keys + 1 + len(self._relation.schema)
        return _Held(
            group,
            found.binding_of(first).rows,
            np.asarray(found.column(end - 2).values),
            np.asarray(found.column(end - 1).values),
            [found.column(i) for i in range(first + self._keys, end - 2)],
        )

    def _write(
        self,
        columns: list[Column],
        n: int,
        round: int,
        tick: int,
        place: Ints,
        values: list[Column],
        held: _Held,
    ) -> Delta:
        """Let each group have its values from `round` on, until they are known to be others.

        Of the stretches of a group one may end at the round, `before`, and one be there then,
        `now`, which may have begun earlier.
        """
        every = np.arange(len(held.group))
        now, before = np.full(n, -1, np.int64), np.full(n, -1, np.int64)
        covers = (held.begin <= round) & (round < held.end)
        now[held.group[covers]] = every[covers]
        ends = held.end == round
        before[held.group[ends]] = every[ends]
        until = np.full(n, FOREVER)
        later = held.begin > round
        np.minimum.at(until, held.group[later], held.begin[later])
        there = now >= 0
        until[there] = held.end[now[there]]
        goes_on = there.copy()
        goes_on[there] = held.begin[now[there]] < round
        as_now = self._agree(place, values, now, held)
        as_before = self._agree(place, values, before, held)
        is_there = place >= 0
        cut = goes_on & ~as_now
        joins = ~goes_on & as_before
        starts = is_there & ~goes_on & ~as_before & ~as_now
        begins = np.full(n, round, np.int64)
        begins[joins] = held.begin[before[joins]]
        dies = np.concatenate((
            now[cut], before[joins], now[joins & there], now[there & ~goes_on & ~joins & ~as_now],
        ))  # fmt: skip
        dead = held.row[dies]
        cuts, news = np.flatnonzero(cut), np.flatnonzero((cut & is_there) | joins | starts)
        group = np.concatenate((cuts, news))
        begin = np.concatenate((held.begin[now[cuts]], begins[news]))
        end = np.concatenate((np.full(len(cuts), round, np.int64), until[news]))
        born = [c.take(group) for c in columns]
        for old, new in zip(held.values, values, strict=True):
            parts = [old.take(now[cuts]), new.take(place[news])]
            born.append(concat([p for p in parts if len(p)] or parts[:1]))
        born += [Column(BIGINT, begin), Column(BIGINT, end)]
        relation = self._relation
        first = relation.append(born, np.full(len(group), tick))
        relation.kill(dead, np.full(len(dead), tick))
        rows = np.concatenate((dead, np.arange(first, first + len(group))))
        diff = np.ones(len(rows), np.int64)
        diff[: len(dead)] = -1
        return deltas.bound(relation, rows, np.full(len(rows), tick), diff)

    def _agree(self, place: Ints, values: list[Column], other: Ints, held: _Held) -> Bools:
        """Whether the groups' values are those of other stretches of theirs, -1 for none."""
        agree = (place >= 0) & (other >= 0)
        some = np.flatnonzero(agree)
        for old, new in zip(held.values, values, strict=True):
            if len(some):
                agree[some] &= encode.equal_values(new.take(place[some]), old.take(other[some]))
        return agree


def _come(coming: Ints, group: Ints, begin: Ints, end: Ints, round: int) -> None:
    """Let `coming` be the first round behind `round` in which a row of the group begins or ends."""
    np.minimum.at(
        coming, group, np.where(begin > round, begin, np.where(end > round, end, FOREVER))
    )


def _groups(
    counted: ir.Reduce, accumulators: Sequence[ir.Accumulator], kinds: Schema, place: Place
) -> ReduceOperator:
    """What computes groups by number from rows that have the number in front; it keeps nothing."""
    number = Field("number", BIGINT, False)
    schema = (number, *counted.schema)
    moved = []
    for a in accumulators:
        arg = a.arg
        if arg is not None:
            assert isinstance(arg, ColumnRef)
            arg = ColumnRef(arg.index + 1, arg.type, arg.nullable, arg.name)
        moved.append(ir.Accumulator(a.kind, arg))
    node = ir.Reduce(
        ir.Constant((), schema),
        (ColumnRef(0, BIGINT, False, "number"),),
        (_COUNT, *moved),
        (number, Field("count(*)", BIGINT, False), *kinds),
    )
    relation = place.new_relation(node.schema)
    return ReduceOperator(node, relation, ArrangementState(ir.group_index(node), relation), {})


def lookup_of(schema: Schema, index: IndexReader, relation: Relation) -> HalfJoinOperator:
    """Finds the rows of an index that leads with all columns of `schema`; NULLs are equal."""
    spec = index.spec
    assert isinstance(spec, ir.Arrangement)
    width = len(schema)
    step = ir.HalfJoin(1, spec, tuple(range(width)), True, (), (True,) * width)
    occurrence = Occurrence(relation, None, width + 1, len(relation.schema))
    return HalfJoinOperator(step, index, occurrence)


def found_of(
    lookup: HalfJoinOperator, schema: Schema, columns: list[Column], n: int, tick: int
) -> tuple[Ints, Delta]:
    """The rows that `lookup` finds for each of `columns`, and for which of them each is."""
    width = lookup.occurrence.width
    origins: list[Origin] = [*columns, Column(BIGINT, np.arange(n)), *[None] * width]
    schema = (*schema, Field("number", BIGINT, False), *lookup.occurrence.relation.schema)
    times = np.full(n, tick)
    sought = Delta(schema, times, np.ones(n, np.int64), origins, one_time=True, one_diff=True)
    found = lookup.extend(sought, snapshot=False)
    return np.asarray(found.column(len(columns)).values), found


def put(waiting: dict[int, list[Delta]], made: Delta, rounds: Ints) -> None:
    """Put rows to those that wait for their rounds, int64[n]."""
    first = int(rounds[0])
    if (rounds == first).all():
        waiting.setdefault(first, []).append(made)
        return
    order = np.argsort(rounds, kind="stable")
    there, starts = np.unique(rounds[order], return_index=True)
    for round, rows in zip(there.tolist(), np.split(order, starts[1:]), strict=True):
        waiting.setdefault(round, []).append(made.select(rows))
