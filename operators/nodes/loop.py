"""Loop: the rows of a recursive relation, kept up round by round.

A row inside a loop carries its round as a column: epochs stay totally ordered, and a change costs
the rows whose round it changes, not the rows that there are. Within an epoch the loop has a time of
its own, the tick `epoch << ROUND_BITS | round + 1`: at tick 0 of an epoch the nodes inside take
the changes from outside, at the tick of a round those of the variable in that round. What is inside
of a loop is at ticks; what is outside is read as of the epoch. A round comes once in an epoch: all
that is made of earlier rounds is there by then.

Where rows are there once, a row is in its first round: the least one in which the body makes it. A
row is looked at in a round if what makes it there came or went, or if it is without a round and
this is the next one that makes it; only what makes it by then counts. (The least round of all would
count to infinity on a cycle that was cut off from its source: its rows hold each other up.)

Where rounds take rows back a row has all its rounds, as groups have (operators.nodes.timeline), and
those that are there for good are the loop's.

Invariant: after an epoch the variable's rows are just those that its body makes of them, a round
later; where they are there once, each in the least round.
Source: Shared Arrangements §5.4, K-Pg (rounds as a coordinate of time); rounds as data are this
project's own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from typing_extensions import Self

from operators import budget, interrupts, scalar
from operators.flight import delta as deltas
from operators.flight.column import Bools, Column, Ints, concat
from operators.flight.delta import Delta
from operators.hydration import pieces_of
from operators.nodes.errors import ErrorState
from operators.nodes.operator import Inputs, Inside, Kept, Operator, Place
from operators.nodes.store import StoreOperator, consolidate
from operators.nodes.timeline import Stretches, found_of, lookup_of, put
from operators.state.arrangement import IndexReader
from operators.state.relation import Relation
from operators.state.ticks import epoch_end, tick_of
from planner import dataflow as ir
from planner.calculus.algebra import FOREVER
from planner.calculus.types import BIGINT, Schema
from planner.errors import DataError

if TYPE_CHECKING:
    from operators.nodes.fused import Changed

#: Rows that UNION ALL may have, as Spark's spark.sql.cteRecursionRowLimit says.
MOST_WAYS = 1_000_000
_NO_ROUND = np.iinfo(np.int64).max
#: What a row that may not be made any more counts among those that are told of.
_LOOK = 1 << 40


class VariableOperator(Operator[ir.Variable]):
    """The rows of a variable, which its loop changes. State: `relation`."""

    def __init__(self, node: ir.Variable, relation: Relation) -> None:
        self.node = node
        self.relation = relation

    @classmethod
    def install(cls, node: ir.Variable, place: Place) -> Self:
        return cls(node, place.own_relation(node))

    def step(self, changes: Sequence[Delta | None]) -> Delta:
        raise AssertionError("a variable takes no changes but its loop's")

    def start(self, inputs: Inputs) -> Iterator[Delta]:
        return iter(())

    def rows(self, inputs: Inputs) -> Iterator[Delta]:
        raise AssertionError("nobody reads a variable as of an epoch")


class LoopOperator(Operator[ir.Loop]):
    """Runs the nodes inside of it. State: `rows`, those of the variable, and the count of those in
    the round that is too many."""

    def __init__(self, node: ir.Loop, place: Place) -> None:
        self.node = node
        self._inside: Inside = place.inside(node)
        self._relation = place.relation(node.variable)
        self.errors = ErrorState(place.shared)
        self._shared = place.shared
        self._takes = ir.entering(node)
        self._delay = None if node.delay is None else scalar.compile(node.delay)
        index = place.index(ir.variable_index(node.variable))
        self._rows: _Bag | _Firsts | _Spans
        if node.variable.marks > 1:
            self._rows = _Spans(node, self._relation, index, place)
        elif node.variable.all:
            self._rows = _Bag(
                node, self._relation, StoreOperator(node.variable, self._relation, index)
            )
        else:
            assert isinstance(node.counted, ir.Reduce)
            groups = place.index(ir.group_index(node.counted))
            counted = place.relation(node.counted)
            self._rows = _Firsts(node, self._relation, index, counted, groups)
        # Its kernel, which takes long to compile, is for those who have a loop.
        from operators.nodes.fused import Fused, NotFusedError

        #: What runs all rounds of a small change, if the nodes inside are of such a kind; else what
        #: it does not take.
        self.fused: Fused | None = None
        self.not_fused: str | None = None
        try:
            self.fused = Fused(node, place, self._inside.operator)
        except NotFusedError as error:
            self.not_fused = str(error)
        #: What is to be looked at, by round, of all that waits for rounds.
        self._waiting = [self._rows.waiting, *self._inside.waiting()]

    @classmethod
    def install(cls, node: ir.Loop, place: Place) -> Self:
        return cls(node, place)

    @property
    def takes(self) -> tuple[ir.Node, ...]:
        """What enters the loop."""
        return self._takes

    @property
    def failing(self) -> ErrorState:
        return self.errors

    def kept(self) -> Kept:
        return {"errors": [list(e) for e in self.errors.counts], "rows": self._rows.kept()}

    def load(self, kept: Kept) -> None:
        self.errors.restore(dict(kept["errors"]))
        self._rows.load(kept["rows"])

    def start(self, inputs: Inputs) -> Iterator[Delta]:
        """From no rows on. A join inside has none to match what enters it before round 0."""
        first = {
            i for n in ir.inside(self.node) if not isinstance(n, ir.DeltaJoin) for i in ir.inputs(n)
        }
        given = {n: inputs.whole(n) for n in self._takes if n in first}
        yield self._epoch(inputs.time, {n: d for n, d in given.items() if len(d)})

    def rows(self, inputs: Inputs) -> Iterator[Delta]:
        for piece in pieces_of(self._relation, epoch_end(inputs.time)):
            interrupts.raise_pending()
            budget.check()
            yield self._shown(piece, inputs.time)

    def step(self, changes: Sequence[Delta | None]) -> Delta:
        """Epoch by epoch: a change of a later one meets the rows that the earlier ones left.

        Cost: the changes of the body and of the rows' rounds, some operators' calls a round."""
        given = {
            n: d for n, d in zip(self._takes, changes, strict=True) if d is not None and len(d)
        }
        times = np.unique(np.concatenate([d.time for d in given.values()]))
        parts = [
            self._epoch(
                time,
                {
                    n: d if d.one_time and len(times) == 1 else d.filter(d.time == time)
                    for n, d in given.items()
                },
            )
            for time in times.tolist()
        ]
        return deltas.concatenate(self.node.schema, parts)

    def _epoch(self, time: int, given: Mapping[ir.Node, Delta]) -> Delta:
        """What the changes from outside at one epoch make of the rows, as changes at that epoch."""
        for waiting in self._waiting:
            waiting.clear()  # of a step that was undone in its middle
        done = None if self.fused is None else self.fused.run(time, given)
        if done is not None:
            return self._enter(*done, time)
        start, variable = tick_of(time), self.node.variable
        rows, nothing = self._rows, deltas.empty(variable.schema)
        outside = {n: d.at(start) for n, d in given.items() if len(d)}
        rows.take(self._inside.run(outside, start), 0)
        parts: list[Delta] = []
        while any(self._waiting):
            round = min(min(waiting) for waiting in self._waiting if waiting)
            if round > self.node.last:
                for waiting in self._waiting:
                    waiting.clear()
                break
            tick = start + round + 1
            changed = rows.advance(round, tick) if round in rows.waiting else nothing
            self._shared.work.rounds += 1
            given = {}
            if len(changed):
                self._shared.work.keys += len(changed)
                self._count(changed)
                parts.append(self._shown(changed, time))
                self._inside.enter(variable, changed)
                given = {variable: changed}
            if given or any(round in waiting for waiting in self._waiting[1:]):
                rows.take(self._inside.run(given, tick), round + 1)
        return deltas.concatenate(self.node.schema, parts)

    def _enter(self, found: Sequence[Changed], rounds: int, keys: int, time: int) -> Delta:
        """What was written in all rounds of an epoch together, and how much was done for it."""
        work = self._shared.work
        work.rounds += rounds
        work.keys += keys
        shown = deltas.empty(self.node.schema)
        for node, changes in found:
            self._inside.enter(node, changes)
            if node == self.node.variable:
                self._count(changes)
                shown = self._shown(changes, time)
        return shown

    def _count(self, changed: Delta) -> None:
        """Count what changes in the round that is too many: where labels wait, of those rows that
        stay, since those that go again are not there where labels do not wait."""
        node, first = self.node, len(self.node.schema)
        begin = np.asarray(changed.column(first).values)
        if self._delay is not None:
            waited, _ = self._delay.evaluate(changed.column, len(changed))
            end = np.asarray(changed.column(first + 1).values)
            late = (begin - waited.values >= node.limit) & (end == FOREVER)
        else:
            late = begin >= node.limit
            if node.variable.marks > 1:
                end = np.asarray(changed.column(first + 1).values)
                late |= (end >= node.limit) & (end < FOREVER)
        too_many = int(changed.diff[late].sum())
        if too_many:
            self.errors.count(
                f"the recursion exceeds its limit of {node.limit // node.turns} rounds, "
                "MAX RECURSION LEVEL (RECURSION_LEVEL_LIMIT_EXCEEDED)",
                too_many,
            )

    def _shown(self, changed: Delta, time: int) -> Delta:
        """Changes of the variable's rows, of those that stay, without their rounds, at an epoch."""
        schema = self.node.schema
        if self.node.variable.marks > 1:
            changed = changed.filter(np.asarray(changed.column(len(schema) + 1).values) == FOREVER)
        return changed.project(schema, [changed.origin(i) for i in range(len(schema))]).at(time)


class _Bag:
    """Rows that are there once for each way to them: a linear body makes the rows of a round of
    those of the round before alone."""

    def __init__(self, node: ir.Loop, relation: Relation, store: StoreOperator) -> None:
        self.waiting: dict[int, list[Delta]] = {}
        self._node = node
        self._relation = relation
        self._store = store

    def kept(self) -> Kept:
        return self._store.kept()

    def load(self, kept: Kept) -> None:
        self._store.load(kept)

    def take(self, changes: Mapping[ir.Node, Delta], round: int) -> None:
        """Let what the body makes, of rounds from `round` on, wait for them."""
        made = changes.get(self._node.counted)
        if made is None:
            return
        columns = made.columns()
        net = consolidate(columns, made.time, made.diff, self._relation.hashing)
        if len(net.row) == 0:
            return
        columns = [c.take(net.row) for c in columns]
        schema = self._node.variable.schema
        rounds = np.asarray(columns[-1].values)
        put(self.waiting, Delta(schema, made.time[net.row], net.sum, columns), rounds)

    def advance(self, round: int, tick: int) -> Delta:
        """The changes of the rows in a round, written and indexed by hash.

        Raises: DataError for more rows than there may be: ways may be many more than rows."""
        schema = self._node.variable.schema
        made = deltas.concatenate(schema, self.waiting.pop(round))
        if self._relation.live_rows + int(made.diff.sum()) > MOST_WAYS:
            raise DataError(
                f"a recursive relation would have more than {MOST_WAYS} rows "
                "(RECURSION_ROW_LIMIT_EXCEEDED)",
                detail=f"It is round {round}; UNION ALL has a row once for each way to it.",
                hint="Use UNION, which has it once, or a condition that ends the ways earlier.",
            )
        return self._store.step([made.at(tick)])


class _Firsts:
    """Rows that are there once, in the first round in which the body makes them."""

    def __init__(
        self,
        node: ir.Loop,
        relation: Relation,
        index: IndexReader,
        counted: Relation,
        groups: IndexReader,
    ) -> None:
        #: By round, rows to look at in it.
        self.waiting: dict[int, list[Delta]] = {}
        self._node = node
        self._relation = relation
        self._schema: Schema = node.variable.schema[:-1]
        self._width = len(self._schema)
        self._made = lookup_of(self._schema, groups, counted)
        self._held = lookup_of(self._schema, index, relation)

    def kept(self) -> Kept:
        return {}

    def load(self, kept: Kept) -> None:
        assert not kept

    def take(self, changes: Mapping[ir.Node, Delta], round: int) -> None:
        groups = changes.get(self._node.counted)
        if groups is None:
            return
        if groups.pairs is not None:  # made once more, or once less, and still made
            keep = np.ones(len(groups), np.bool_)
            keep[groups.pairs.old] = keep[groups.pairs.new] = False
            groups = groups.filter(keep)
        if len(groups):
            rounds = np.asarray(groups.column(self._width).values)
            keys = groups.project(self._schema, [groups.origin(i) for i in range(self._width)])
            put(self.waiting, keys, rounds)

    def advance(self, round: int, tick: int) -> Delta:
        """The changes of rows whose first round is `round` now, or was, written and not indexed.

        Cost: a lookup of each row that is looked at, and of the rounds in which it is made where
        not all that is told of it is that the body makes it in this one.
        """
        columns, made = self._told(self.waiting.pop(round))
        n = len(made)
        number, found = found_of(self._held, self._schema, columns, n, tick)
        held_round, held_row = np.full(n, _NO_ROUND), np.full(n, -1, np.int64)
        held_round[number] = np.asarray(found.column(2 * self._width + 1).values)
        held_row[number] = found.binding_of(self._width + 1).rows
        opened = held_round >= round
        next_round = np.full(n, _NO_ROUND)
        sought = np.flatnonzero(opened & ~made)
        if len(sought):
            asked = [c.take(sought) for c in columns]
            number, found = found_of(self._made, self._schema, asked, len(sought), tick)
            number, lands = sought[number], np.asarray(found.column(2 * self._width + 1).values)
            made[number[lands <= round]] = True
            later = lands > round
            np.minimum.at(next_round, number[later], lands[later])
        born = np.flatnonzero(opened & made & (held_round != round))
        lost = opened & ~made & (held_round == round)
        dead = held_row[np.flatnonzero(lost)]
        dead = np.concatenate((dead, held_row[born][held_row[born] >= 0]))
        waits = np.flatnonzero(
            (lost | (opened & ~made & (held_row < 0))) & (next_round <= self._node.last)
        )
        if len(waits):
            time, diff = np.full(len(waits), tick), np.full(len(waits), -1, np.int64)
            keys = Delta(self._schema, time, diff, [c.take(waits) for c in columns])
            put(self.waiting, keys, next_round[waits])
        return self._write([c.take(born) for c in columns], round, len(born), dead, tick)

    def _told(self, parts: list[Delta]) -> tuple[list[Column], Bools]:
        """The rows that wait for a round, each once, and whether all that is told of one is that
        the body makes it then, so that it does."""
        if len(parts) == 1 and (parts[0].diff > 0).all():
            (part,) = parts  # of one step, which gives a row one group in a round
            return part.columns(), np.ones(len(part), np.bool_)
        columns = [concat([p.column(i) for p in parts]) for i in range(self._width)]
        weights = np.concatenate([np.where(p.diff > 0, 1, _LOOK) for p in parts])
        zeros = np.zeros(len(weights), np.int64)
        told = consolidate(columns, zeros, weights, self._relation.hashing, one_time=True)
        return [c.take(told.row) for c in columns], told.sum < _LOOK

    def _write(self, born: list[Column], round: int, births: int, dead: Ints, tick: int) -> Delta:
        relation = self._relation
        rounds = Column(BIGINT, np.full(births, round, np.int64))
        first = relation.append([*born, rounds], np.full(births, tick))
        relation.kill(dead, np.full(len(dead), tick))
        rows = np.concatenate((dead, np.arange(first, first + births)))
        diff = np.ones(len(rows), np.int64)
        diff[: len(dead)] = -1
        return deltas.bound(relation, rows, np.full(len(rows), tick), diff)


class _Spans:
    """Rows with all their rounds."""

    def __init__(self, node: ir.Loop, relation: Relation, index: IndexReader, place: Place) -> None:
        assert isinstance(node.counted, ir.Reduce)
        self._counted = node.counted
        self._stretches = Stretches(node.counted, len(node.schema), (), relation, index, place)
        self.waiting = self._stretches.waiting

    def kept(self) -> Kept:
        return {}

    def load(self, kept: Kept) -> None:
        assert not kept

    def take(self, changes: Mapping[ir.Node, Delta], round: int) -> None:
        made = changes.get(self._counted)
        if made is not None:
            self._stretches.take(made, round)

    def advance(self, round: int, tick: int) -> Delta:
        return self._stretches.advance(round, tick)
