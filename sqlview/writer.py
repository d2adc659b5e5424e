"""The writer: what takes the statements of transactions through one step.

A step of the dataflow (`operators.step`) is all or nothing, and so is all that it comes with: what
subscribers are to hear, the history, the epoch, and at the end its record in the log. What is left
then, to forget old versions, to merge indexes, to show readers the new rows, changes no answer:
where it fails, that is told in the log of Python, and taken up at the next step.

Invariant: `epoch` is complete: every table and view holds exactly the transactions up to it,
whatever raised.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TypeAlias

import numpy as np

from operators import interrupts
from operators.dataflow import Dataflow, Key
from operators.executor.protocol import Executor
from operators.flight import arrow
from operators.flight.column import Ints
from operators.flight.delta import Delta
from operators.flight.rendering import texts
from operators.loading import is_load
from operators.scalar.text import shortened
from operators.state.changes import DELETE, DUPLICATE, UPSERT
from operators.state.work import Counted
from operators.step import Refused, step
from operators.stream import events
from operators.table import Change, Refusal
from planner import dataflow as ir
from planner.errors import DataError
from sqlview.catalog import Catalog, Stream, Table, View
from sqlview.history import History, signed
from sqlview.metrics import STEPS_KEPT, StepMetrics
from sqlview.positions import Position, Positions
from sqlview.subscriptions import Subscriptions
from sqlview.transaction import TWICE, Statement

_log = logging.getLogger(__name__)

#: A statement, and its epoch or those of its rows.
Dated: TypeAlias = tuple[Statement, int | Ints]
#: Who runs a step that changes so many rows of each table.
ExecutorFor: TypeAlias = Callable[[dict[ir.Source, int]], Executor]
#: Told of each table's changes; an empty delta: of those of a load that nobody reads.
Follow: TypeAlias = Callable[[Table, Delta], None]
#: Keeps the changes of a step, of so many epochs from the first one on, and the positions to which
#: sources came. Entered before the step; what that returns is called when the step has run, before
#: anybody sees it: if it raises, nothing has happened.
Keep: TypeAlias = Callable[
    [Sequence[Dated], int, int, dict[str, Position]], AbstractContextManager[Callable[[], object]]
]


class Writer:
    """State: `epoch`, `positions`, and the metrics of the latest `steps`."""

    def __init__(
        self,
        catalog: Catalog,
        dataflow: Dataflow,
        subscriptions: Subscriptions,
        history: History,
        follow: Follow,
    ) -> None:
        self._catalog = catalog
        self._dataflow = dataflow
        self._subscriptions = subscriptions
        self._history = history
        self._follow = follow
        self.epoch = 0
        self.positions = Positions()
        #: What views and streams counted before the step that goes on.
        self._counted: list[tuple[View | Stream, int]] = []
        self.keep: Keep = _keep_nothing
        #: Called, all of them, when a step has ended.
        self.ended: tuple[Callable[[], None], ...] = ()
        self.steps: deque[StepMetrics] = deque(maxlen=STEPS_KEPT)

    def step(
        self,
        statements: Sequence[Dated],
        count: int,
        executor_for: ExecutorFor,
        positions: Positions | None = None,
    ) -> None:
        """Run the dataflow once for the statements of `count` transactions, at as many epochs.

        `positions`: of all sources after it; None: as they are.
        Raises: DataError, and whatever else, with nothing changed.
        """
        started = time.perf_counter()
        work_before = self._dataflow.work.counted()
        by_table: dict[str, list[Dated]] = {}
        by_stream: dict[str, list[Dated]] = {}
        for s, epoch in statements:
            if not self._catalog.has(s.table):
                there = self._catalog.find(s.table.name)
                is_wider = there is not None and there.id == s.table.id
                did = "has got more columns" if is_wider else "was dropped"
                raise DataError(
                    f'"{s.table.name}" {did} since the transaction began',
                    hint="Begin the transaction anew.",
                )
            batches = by_stream if isinstance(s.table, Stream) else by_table
            batches.setdefault(s.table.name, []).append((s, epoch))
        given: dict[ir.Source, list[Change]] = {}
        rows: dict[ir.Source, int] = {}
        for name, batch in by_table.items():
            made = _changes(batch)
            if any(c.stored is not None for c in made) and not is_load(made):
                by_table[name] = [(s.read(), epoch) for s, epoch in batch]
                made = _changes(by_table[name])
            changed = batch[0][0].table
            assert isinstance(changed, Table), "streams are apart"
            given[changed.state.source] = made
            rows[changed.state.source] = sum([c.rows for c in made])
        executor = executor_for(rows)
        moved = self.positions if positions is None else positions
        before, changes = self.epoch, dict[Key, Delta]()

        def at_end(found: dict[Key, Delta]) -> None:
            nonlocal changes
            self._dataflow.undo.before(self)
            self._count(found, by_stream, self.epoch + count)
            keep()
            changes = found
            self.epoch, self.positions = self.epoch + count, moved

        #: What is left when the step has happened: all of it is done, whatever raises.
        left = (
            lambda: self._follow_all(by_table.values(), changes),
            lambda: self._dataflow.commit(self.epoch, changes),
            lambda: self._history.trim(self.epoch),
            lambda: self._measure(executor, statements, count, work_before, started),
            *self.ended,
        )
        with interrupts.held():
            events = self._events(by_stream)
            failed: list[BaseException] = []
            try:
                with self.keep(
                    statements, self.epoch + 1, count, moved.moved(self.positions)
                ) as keep:
                    step(self._dataflow, executor, given, events, at_end)
            except Refused as refused:
                table = self._catalog.entry(refused.source.relation)
                assert isinstance(table, Table), "it is the source of one"
                given_to = [statement for statement, _ in by_table[table.name]]
                raise _refusal(table, given_to, refused.refusal) from None
            except BaseException as error:
                if self.epoch == before:
                    raise
                failed.append(error)  # it has happened
            for work in left:  # here: a call of anything else might raise
                try:
                    work()
                except BaseException as error:
                    failed.append(error)
            for each in failed:
                if not isinstance(each, Exception):
                    raise each
                _log.warning("what a step left to do is taken up later", exc_info=each)

    def mark(self) -> tuple[int, Positions]:
        self._counted = []
        return self.epoch, self.positions

    def restore(self, mark: tuple[int, Positions]) -> None:
        """The step was not: nothing is counted of it."""
        self.epoch, self.positions = mark
        for entry, before in reversed(self._counted):
            if isinstance(entry, View):
                entry.changes = before
            else:
                entry.events = before

    def _events(self, by_stream: dict[str, list[Dated]]) -> dict[Key, Delta]:
        """The events as each view that reads the stream sees them."""
        found: dict[Key, Delta] = {}
        for name, batch in by_stream.items():
            stream = self._catalog.stream(name)
            delta = events(stream.schema, [(s.columns, epoch) for s, epoch in batch])
            found.update({("", node): delta for node in self._dataflow.streams(stream.id)})
        return found

    def _count(
        self, changes: dict[Key, Delta], by_stream: dict[str, list[Dated]], epoch: int
    ) -> None:
        """What views and streams count, and what is to be heard of a step up to `epoch`."""
        for view in self._catalog.views_kept_by(changes):
            delta = changes[view.owner, view.root]
            self._counted.append((view, view.changes))
            view.changes += len(delta)
            heard, kept = self._subscriptions.hears(view.name), self._history.keeps(view.name)
            if len(delta) and (heard or kept):
                table = signed(view.schema, delta, delta.diff)
                if heard:
                    self._subscriptions.put_down(self._subscriptions.untold(view.name, table))
                if kept:
                    self._history.add(view.name, epoch, table)
        for name, batch in by_stream.items():
            stream = self._catalog.stream(name)
            self._counted.append((stream, stream.events))
            stream.events += sum(s.rows for s, _ in batch)

    def _measure(
        self,
        executor: Executor,
        statements: Sequence[Dated],
        count: int,
        work_before: Counted,
        started: float,
    ) -> None:
        work, rows_in = self._dataflow.work, sum([s.rows for s, _ in statements])
        entries, seeks, batches, rows, prefixes, rounds, keys = work_before
        self.steps.append(
            StepMetrics(
                executor.name,
                time.perf_counter() - started,
                rows_in,
                count,
                work.entries - entries,
                work.rows - rows,
                work.prefixes - prefixes,
                work.seeks - seeks,
                work.batches - batches,
                work.rounds - rounds,
                work.keys - keys,
            )
        )

    def _follow_all(self, batches: Iterable[list[Dated]], changes: dict[Key, Delta]) -> None:
        for batch in batches:
            table = batch[0][0].table
            assert isinstance(table, Table), "streams are apart"
            delta = changes.get(("", table.state.source))
            if delta is not None:
                self._follow(table, delta)


def _keep_nothing(*changes: object) -> AbstractContextManager[Callable[[], object]]:
    return _NOTHING


_NOTHING: AbstractContextManager[Callable[[], object]] = nullcontext(lambda: None)


def _changes(batch: Sequence[Dated]) -> list[Change]:
    return [Change(s.action, s.columns, epoch, s.stored) for s, epoch in batch]


def _refusal(table: Table, statements: Sequence[Statement], refusal: Refusal) -> DataError:
    statement = statements[refusal.change]
    key = table.key if table.key is not None else tuple(range(len(table.schema)))
    columns = statement.columns
    if table.key is not None and statement.action != DELETE and columns:
        columns = [columns[k] for k in key]
    row = np.array([refusal.row], np.int64)
    if statement.stored is not None:
        columns, row = statement.stored.row(refusal.row), np.zeros(1, np.int64)
        if statement.action != DELETE:
            columns = [columns[k] for k in key]
    fields = tuple(table.schema[k] for k in key)
    values = arrow.from_columns([c.take(row) for c in columns], fields)
    shown = (shortened(texts(column, quoted=True)[0], 100) for column in values.columns)
    listed = ", ".join(f"{f.name} = {text}" for f, text in zip(fields, shown, strict=True))
    place = f"Row {statement.first + refusal.row} of the data"
    if statement.stored is not None:  # whose rows have no order
        place = _row_of(statement, refusal.row) or "A row of the data"
    nothing = "Nothing of the transaction was applied."
    if statement.times is not None:
        place += f", at time {statement.times[refusal.row]},"
        nothing = "None of the transactions was applied."
    listed += _who_too(statements, refusal)
    if refusal.problem == DUPLICATE and statement.action == UPSERT:
        return DataError(
            f'cannot upsert into "{table.name}": {TWICE}',
            detail=f"{place} has {listed}.",
            hint=f"Leave one row of each key. {nothing}",
        )
    if refusal.problem == DUPLICATE:
        return DataError(
            f'cannot insert into "{table.name}": the key is there already',
            detail=f"{place} has {listed}.",
            hint=f"Use upsert to replace the row. {nothing}",
        )
    return DataError(
        f'cannot delete from "{table.name}": there is no such row',
        detail=f"{place} has {listed}.",
        hint=nothing,
    )


def _row_of(statement: Statement, row: int) -> str | None:
    found = None if statement.stored is None else statement.stored.source_of(row)
    return None if found is None else f"Row {found[1]} of {found[0]}"


def _who_too(statements: Sequence[Statement], refusal: Refusal) -> str:
    """Which row has the key of a refused one, where that can be told."""
    if refusal.earlier is None:
        return ""
    change, row = refusal.earlier
    place = _row_of(statements[change], row)
    return "" if place is None else f", as row {place.removeprefix('Row ')} has"
