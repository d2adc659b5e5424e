"""The writer: what takes the statements of transactions through one step.

A step of the dataflow (`operators.step`) is all or nothing; then comes what cannot be taken back:
to put down what subscribers are to hear, to forget old versions, to count the epochs.

Invariant: `epoch` is complete: every table and view holds exactly the transactions up to it. A
writer that failed after the step is `broken`, and takes no more.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from operators import interrupts
from operators.dataflow import Dataflow, Key
from operators.executor.protocol import Executor
from operators.flight import arrow
from operators.flight.column import Ints
from operators.flight.delta import Delta
from operators.flight.rendering import texts
from operators.scalar.text import shortened
from operators.state.changes import DELETE, DUPLICATE
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
from sqlview.transaction import Statement

#: A statement, and its epoch or those of its rows.
Dated: TypeAlias = tuple[Statement, int | Ints]
#: A view that a step changed, how many rows, and what if somebody is to hear that.
Told: TypeAlias = tuple[View, int, pa.Table | None]
#: Who runs a step that changes so many rows of each table.
ExecutorFor: TypeAlias = Callable[[dict[ir.Source, int]], Executor]
#: Told of each table's changes.
Follow: TypeAlias = Callable[[Table, Delta], None]
#: Keeps the changes of a step, of so many epochs from the first one on, and the positions to which
#: sources came.
Keep: TypeAlias = Callable[[Sequence[Dated], int, int, dict[str, Position]], object]


class Writer:
    """State: `epoch`, the metrics of the latest `steps`, and why it is `broken`, if it is."""

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
        self.broken: BaseException | None = None
        #: Called when a step has run, before anybody sees it; if it raises, nothing has happened.
        self.keep: Keep | None = None
        #: Called when `epoch` has come to an end of a step.
        self.ended: Callable[[], None] | None = None
        self.steps: deque[StepMetrics] = deque(maxlen=STEPS_KEPT)

    def step(
        self,
        statements: Sequence[Dated],
        count: int,
        executor_for: ExecutorFor,
        positions: Positions | None = None,
    ) -> range:
        """Run the dataflow once for the statements of `count` transactions; their epochs.

        `positions`: of all sources after it; None: as they are.
        Raises: DataError, and whatever else, with nothing changed.
        """
        started = time.perf_counter()
        work_before = self._dataflow.work.copy()
        epochs = range(self.epoch + 1, self.epoch + 1 + count)
        by_table: dict[str, list[Dated]] = {}
        by_stream: dict[str, list[Dated]] = {}
        for s, epoch in statements:
            if self._catalog.find(s.table.name) is not s.table:
                raise DataError(f'"{s.table.name}" was dropped since the transaction began')
            batches = by_stream if isinstance(s.table, Stream) else by_table
            batches.setdefault(s.table.name, []).append((s, epoch))
        given = {
            self._catalog.table(name).state.source: [
                Change(s.action, s.columns, epoch) for s, epoch in batch
            ]
            for name, batch in by_table.items()
        }
        executor = executor_for({x: sum(c.rows for c in batch) for x, batch in given.items()})
        told: list[Told] = []

        def before_end(found: dict[Key, Delta]) -> None:
            told.extend(self._told(found))
            if self.keep is not None:
                moved = {} if positions is None else positions.moved(self.positions)
                self.keep(statements, epochs[0], count, moved)

        with interrupts.held():
            events = self._events(by_stream)
            try:
                changes = step(self._dataflow, executor, given, events, before_end)
            except Refused as refused:
                table = self._catalog.entry(refused.source.relation)
                assert isinstance(table, Table), "it is the source of one"
                statement, _ = by_table[table.name][refused.refusal.change]
                raise _refusal(table, statement, refused.refusal) from None
            work = self._dataflow.work.since(work_before)
            try:
                self._end(told, by_table, by_stream, changes, count)
                self.positions = self.positions if positions is None else positions
            except BaseException as error:
                self.broken = error  # for good
                raise
        self.steps.append(
            StepMetrics(
                placement=executor.name,
                seconds=time.perf_counter() - started,
                rows_in=sum(s.rows for s, _ in statements),
                epochs=count,
                entries_visited=work.entries,
                rows_gathered=work.rows,
                prefixes=work.prefixes,
                seeks=work.seeks,
                batches_visited=work.batches,
            )
        )
        return epochs

    def _events(self, by_stream: dict[str, list[Dated]]) -> dict[Key, Delta]:
        """The events as each view that reads the stream sees them."""
        found: dict[Key, Delta] = {}
        for name, batch in by_stream.items():
            stream = self._catalog.stream(name)
            delta = events(stream.schema, [(s.columns, epoch) for s, epoch in batch])
            found.update({("", node): delta for node in self._dataflow.streams(stream.id)})
        return found

    def _told(self, changes: dict[Key, Delta]) -> Iterator[Told]:
        """Of each view that changed how many rows, and what if somebody is to hear that."""
        for view in self._catalog.views_kept_by(changes):
            delta, table = changes[view.owner, view.root], None
            heard = self._history.keeps(view.name) or self._subscriptions.hears(view.name)
            if heard and len(delta):
                table = signed(view.schema, delta, delta.diff)
            yield view, len(delta), table

    def _end(
        self,
        told: list[Told],
        by_table: Iterable[str],
        by_stream: dict[str, list[Dated]],
        changes: dict[Key, Delta],
        count: int,
    ) -> None:
        """What cannot be taken back, when the step has run."""
        for view, rows, table in told:
            view.changes += rows
            if table is None:
                continue
            self._subscriptions.put_down(self._subscriptions.untold(view.name, table))
            if self._history.keeps(view.name):
                self._history.add(view.name, self.epoch + count, table)
        self._history.trim(self.epoch + count)
        for name, batch in by_stream.items():
            self._catalog.stream(name).events += sum(s.rows for s, _ in batch)
        for name in by_table:
            table = self._catalog.table(name)
            delta = changes.get(("", table.state.source))
            if delta is not None:
                self._follow(table, delta)
        self._dataflow.commit(self.epoch + count, changes)
        self.epoch += count
        if self.ended is not None:
            self.ended()


def _refusal(table: Table, statement: Statement, refusal: Refusal) -> DataError:
    key = table.key if table.key is not None else tuple(range(len(table.schema)))
    columns = statement.columns
    if table.key is not None and statement.action != DELETE:
        columns = [columns[k] for k in key]
    row = np.array([refusal.row], np.int64)
    fields = tuple(table.schema[k] for k in key)
    values = arrow.from_columns([c.take(row) for c in columns], fields)
    shown = (shortened(texts(column, quoted=True)[0], 100) for column in values.columns)
    listed = ", ".join(f"{f.name} = {text}" for f, text in zip(fields, shown, strict=True))
    place, nothing = f"Row {refusal.row} of the data", "Nothing of the transaction was applied."
    if statement.times is not None:
        place += f", at time {statement.times[refusal.row]},"
        nothing = "None of the transactions was applied."
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
