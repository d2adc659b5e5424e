"""The writer: what takes the statements of transactions through one step.

Check, write the tables, run the dataflow once, commit, put down what subscribers are to hear.

Invariant: `epoch` is complete: every table and view holds exactly the transactions up to it. A
writer whose step failed in the middle is `broken`, and takes no more.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

from operators import arrow
from operators.column import Ints
from operators.dataflow import Dataflow, Key
from operators.delta import Delta
from operators.executor.protocol import Executor
from operators.live import TABLE_READER
from operators.rendering import texts
from operators.scalar.text import shortened
from operators.state.changes import DELETE, DUPLICATE, INSERT
from operators.stream import events
from operators.table import Change, Checked, Refusal
from planner import dataflow as ir
from planner.errors import DataError
from sqlview.catalog import Catalog, Stream, Table
from sqlview.metrics import STEPS_KEPT, StepMetrics
from sqlview.subscriptions import Subscriptions
from sqlview.transaction import Statement

#: A statement, and its epoch or those of its rows.
Dated: TypeAlias = tuple[Statement, int | Ints]
#: Who runs a step that changes so many rows of each table.
ExecutorFor: TypeAlias = Callable[[dict[ir.Source, int]], Executor]
#: Told of each table's changes before they are committed.
Follow: TypeAlias = Callable[[Table, Delta], None]


class Writer:
    """State: `epoch`, the metrics of the latest `steps`, and why it is `broken`, if it is."""

    def __init__(
        self, catalog: Catalog, dataflow: Dataflow, subscriptions: Subscriptions, follow: Follow
    ) -> None:
        self._catalog = catalog
        self._dataflow = dataflow
        self._subscriptions = subscriptions
        self._follow = follow
        self.epoch = 0
        self.broken: BaseException | None = None
        self.steps: deque[StepMetrics] = deque(maxlen=STEPS_KEPT)

    def step(self, statements: Sequence[Dated], count: int, executor_for: ExecutorFor) -> range:
        """Run the dataflow once for the statements of `count` transactions; their epochs.

        Raises: DataError, with nothing changed.
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
        executor = executor_for(
            {
                self._catalog.table(name).state.source: sum(s.rows for s, _ in batch)
                for name, batch in by_table.items()
            }
        )
        checked = [self._check(name, batch) for name, batch in by_table.items()]
        try:
            changes = self._write(checked)
            for name, batch in by_stream.items():
                changes |= self._take_events(self._catalog.stream(name), batch)
            executor.step(self._dataflow, changes)
            work = self._dataflow.work.since(work_before)
            self._publish(changes)
            self._dataflow.commit(self.epoch + count, changes)
        except BaseException as error:
            self.broken = error  # for good
            raise
        self.epoch += count
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

    def _check(self, name: str, batch: list[Dated]) -> tuple[Table, Checked]:
        table = self._catalog.table(name)
        state = table.state
        live = None
        plain = all(s.action == INSERT for s, _ in batch)
        if not (plain and (table.key is None or not table.enforced)):
            self._dataflow.index(state.row_index, TABLE_READER)
            live = self._dataflow.live_index(state.row_index)
        result = state.check(
            [Change(s.action, s.columns, epoch) for s, epoch in batch],
            None if live is None else live.state,
            deferred=live is not None and live.deferred,
        )
        if isinstance(result, Refusal):
            raise _refusal(table, batch[result.change][0], result)
        return table, result

    def _write(self, checked: list[tuple[Table, Checked]]) -> dict[Key, Delta]:
        changes: dict[Key, Delta] = {}
        for table, result in checked:
            live = self._dataflow.live_index(table.state.row_index)
            delta = table.state.write(result, None if live is None else live.state)
            self._dataflow.absorb(table.state.source)
            if len(delta):
                changes["", table.state.source] = delta
            self._follow(table, delta)
        return changes

    def _take_events(self, stream: Stream, batch: list[Dated]) -> dict[Key, Delta]:
        """The events as each view that reads the stream sees them."""
        delta = events(stream.schema, [(s.columns, epoch) for s, epoch in batch])
        stream.events += len(delta)
        return {("", node): delta for node in self._dataflow.streams(stream.name)}

    def _publish(self, changes: dict[Key, Delta]) -> None:
        for view in self._catalog.views():
            delta = changes.get((view.owner, view.root))
            if delta is not None:
                view.changes += len(delta)
                self._subscriptions.put_down(view, delta)


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
