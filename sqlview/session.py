"""The session: statements, transactions, reads.

A session owns the catalog, the running dataflow and its executors. Every change goes through
`apply`: check, write the tables, run the dataflow once, commit, tell subscribers. Readers see the
state between steps, so all views at one epoch (DESIGN §4).

Invariant: `epoch` is complete: every table and view holds exactly the transactions up to it. A
session whose step failed in the middle refuses everything from then on.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pyarrow as pa
from typing_extensions import assert_never

from operators import arrow
from operators.column import Ints
from operators.dataflow import Dataflow, Key
from operators.delta import Delta
from operators.executor.inline import InlineExecutor
from operators.executor.placement import choose
from operators.executor.protocol import Executor
from operators.live import TABLE_READER
from operators.state.changes import DELETE, DUPLICATE, INSERT
from operators.stream import events
from operators.table import Change, Checked, Refusal, TableState
from operators.topk import sort_rows
from planner import algebra, parse
from planner import dataflow as ir
from planner.bind import bind_query, bind_view
from planner.errors import (
    CatalogError,
    DataError,
    SqlViewError,
    UnsupportedError,
    ViewError,
)
from planner.explain import explain_dataflow, explain_logical
from planner.lower import lower
from planner.optimizer import optimize
from sqlview import introspect
from sqlview.catalog import Catalog, Entry, Stream, Table, View
from sqlview.metrics import STEPS_KEPT, Metrics, StepMetrics
from sqlview.subscriptions import Subscriber, Subscriptions
from sqlview.transaction import Statement, Transaction, Transactions
from sqlview.verify import Verification, Verifier
from sqlview.view import Result, ViewReader

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from sqlview.spark import SparkSide

PLACEMENTS = ("auto", "inline", "spark")
#: A statement, and its epoch or those of its rows.
_Dated = tuple[Statement, int | Ints]
_Dropped = TypeVar("_Dropped", Table, Stream, View)


class Session:
    """See `sqlview.connect`. One session is used by one thread at a time; a lock sees to it."""

    def __init__(
        self,
        path: str | None = None,
        *,
        spark: SparkSession | None = None,
        placement: str = "auto",
        share: bool = True,
    ) -> None:
        if placement not in PLACEMENTS:
            raise ValueError(f"placement is one of {', '.join(PLACEMENTS)}, not {placement!r}")
        self._path = path
        self._given_spark = spark
        self._placement = placement
        self._share = share
        self._dataflow = Dataflow()
        self._catalog = Catalog(self._dataflow)
        self._inline = InlineExecutor()
        self._spark_side: SparkSide | None = None
        self._verifier: Verifier | None = None
        self._subscriptions = Subscriptions()
        self._steps: deque[StepMetrics] = deque(maxlen=STEPS_KEPT)
        self._epoch = 0
        self._broken: BaseException | None = None
        self._lock = threading.RLock()

    # -- statements ------------------------------------------------------------------------------

    def sql(self, text: str) -> Result:
        """Run one statement; see the README for the list. Raises: SqlViewError and subclasses."""
        statement = parse.parse_statement(text)
        with self._working():
            match statement:
                case parse.CreateTable():
                    self._create_table(statement)
                case parse.CreateStream():
                    self._create_stream(statement)
                case parse.CreateView():
                    self._create_view(statement)
                case parse.DropTable():
                    self._drop_table(statement)
                case parse.DropStream():
                    self._drop_stream(statement)
                case parse.DropView():
                    self._drop_view(statement)
                case parse.ExplainView():
                    return self._explain(statement)
                case parse.ShowArrangements():
                    return self._result(self.arrangements())
                case parse.ShowStreams():
                    return self._result(introspect.streams(self._catalog))
                case parse.ShowTables():
                    return self._result(
                        pa.table({"table": [t.name for t in self._catalog.tables()]})
                    )
                case parse.ShowViews():
                    return self._result(pa.table({"view": [v.name for v in self._catalog.views()]}))
                case parse.VerifyView():
                    return self._verification(self.verify(statement.name))
                case parse.Select():
                    return self._select(statement.text)
                case _:
                    assert_never(statement)
        return self._result(pa.table({}))

    # -- changes ---------------------------------------------------------------------------------

    def transaction(self, placement: str | None = None) -> Transaction:
        """A transaction to be used in a `with` block, which commits it.

        `placement`: overrides the session's for this step.
        """
        return self._begin(lambda tx: self._apply([tx], placement))

    def transactions(self, placement: str | None = None) -> Transactions:
        """Many small transactions as columns, each row with its time, to be used in a `with` block,
        which commits them in one step. For few, see `apply`.

        `placement`: overrides the session's for this step.
        """
        return Transactions(
            self._catalog, self._read_dataframe, lambda txs: self._apply_columns(txs, placement)
        )

    def begin(self) -> Transaction:
        """A transaction to be handed to `apply`."""
        return self._begin(lambda tx: self._apply([tx], None))

    def apply(self, transactions: Sequence[Transaction], placement: str | None = None) -> list[int]:
        """Commit transactions in turn, each at an epoch of its own, in one physical step.

        Returns: their epochs. Raises: DataError, naming table, problem and row; then none of the
        transactions is applied.
        """
        return self._apply(transactions, placement)

    @property
    def epoch(self) -> int:
        """The current epoch: all transactions up to it are in all views."""
        return self._epoch

    # -- reads -----------------------------------------------------------------------------------

    def view(self, name: str) -> ViewReader:
        """Raises: CatalogError if there is no such view."""
        view = self._catalog.view(name)
        return ViewReader(
            view.name,
            view.schema,
            lambda: self._read(self._catalog.view(name)),
            lambda: self._dataframe(name),
            lambda: view.changes,
        )

    def subscribe(self, name: str, callback: Subscriber) -> None:
        """Call back after every later step that changes the view, before the commit returns.

        callback(table): the view's columns, then `__time` (the epoch, int64) and `__diff` (int64).
        If it raises, the commit raises SubscriberError when all subscribers have been called; the
        change stays.
        """
        self._subscriptions.add(self._catalog.view(name).name, callback)

    def verify(self, name: str) -> Verification:
        """Compare the view with a recompute of its query by DuckDB.

        Raises: ViewError for a view over a stream, whose events are gone.
        """
        with self._working():
            view = self._catalog.view(name)
            self._refuse_streams(view)
            if self._verifier is None:
                self._verifier = Verifier(self._catalog)
            return self._verifier.verify(view, self._read(view), self._epoch)

    def arrangements(self) -> pa.Table:
        """Every live index: see introspect.ARRANGEMENTS_SCHEMA."""
        return introspect.arrangements(self._catalog, self._dataflow)

    def state(self) -> pa.Table:
        """All that is kept in memory and who reads it: see introspect.STATE_SCHEMA."""
        return introspect.state(self._catalog, self._dataflow)

    @property
    def last_step(self) -> StepMetrics | None:
        """What the latest step cost; None before the first."""
        return self._steps[-1] if self._steps else None

    def metrics(self) -> Metrics:
        """What the latest steps and the views have cost, and what is kept. Cost: O(all that is
        kept, in pieces): `last_step` is for each step."""
        derived, tables = introspect.state_bytes(self._dataflow)
        return Metrics(
            steps=tuple(self._steps),
            views={
                v.name: introspect.view_metrics(self._dataflow, v.name, v.changes)
                for v in self._catalog.views()
            },
            state_bytes=derived,
            table_bytes=tables,
            index_builds=self._dataflow.index_builds,
            operators=len(self._dataflow.installed),
        )

    def close(self) -> None:
        """Release files, DuckDB, and the Spark session if this session started it."""
        if self._verifier is not None:
            self._verifier.close()
        if self._spark_side is not None:
            self._spark_side.close()

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # -- DDL -------------------------------------------------------------------------------------

    def _create_table(self, statement: parse.CreateTable) -> None:
        if self._catalog.find(statement.name) is not None:
            if statement.if_not_exists:
                return
            raise CatalogError(f'"{statement.name}" exists already')
        names = [f.name.casefold() for f in statement.columns]
        key = tuple(names.index(k.casefold()) for k in statement.primary_key) or None
        source = ir.Source(statement.name, statement.columns)
        state = TableState(source, key)
        self._dataflow.add_table(state, enforced=key is not None and statement.enforced)
        table = Table(statement.name, statement.columns, key, statement.enforced, state)
        self._catalog.add(table)

    def _create_stream(self, statement: parse.CreateStream) -> None:
        if self._catalog.find(statement.name) is not None:
            if statement.if_not_exists:
                return
            raise CatalogError(f'"{statement.name}" exists already')
        self._catalog.add(Stream(statement.name, statement.columns))

    def _create_view(self, statement: parse.CreateView) -> None:
        existing = self._catalog.find(statement.name)
        if existing is not None:
            if statement.if_not_exists:
                return
            if not (statement.or_replace and isinstance(existing, View)):
                raise CatalogError(f'"{existing.name}" exists already')
        with parse.placed(statement.query):
            self._install(statement, existing)

    def _install(self, statement: parse.CreateView, existing: Entry | None) -> None:
        planned = self._plan(statement)
        if existing is not None:
            self._drop_view(parse.DropView(statement.name, if_exists=False))
        self._catalog.add(planned)
        try:
            births = self._dataflow.install(planned.name, planned.root, self._epoch, planned.owner)
        except BaseException:
            self._catalog.remove(planned.name)
            self._dataflow.retire(planned.name)
            raise
        planned.changes = len(births)

    def _plan(self, statement: parse.CreateView) -> View:
        bound = bind_view(statement, self._catalog)
        root = ir.Store(lower(optimize(bound.plan), self._catalog, reader=statement.name))
        view = View(
            name=statement.name,
            text=statement.query.text,
            schema=root.schema,
            root=root,
            order=bound.order,
            reads=tuple(dict.fromkeys(_scanned(bound.plan))),
            owner="" if self._share else statement.name,
        )
        if not self._share:
            self._refuse_private(view)
        return view

    def _refuse_private(self, view: View) -> None:
        """A private copy of what another view made of a stream would lack the past events."""
        for name in view.reads:
            entry = self._catalog.find(name)
            if isinstance(entry, View) and self._catalog.streams_under(entry):
                raise UnsupportedError(
                    f'cannot keep a private copy of the view "{entry.name}"',
                    detail="It is over a stream, whose past events are gone.",
                    hint="Open the session with share=True, or read the stream itself.",
                )

    def _refuse_streams(self, view: View) -> None:
        streams = self._catalog.streams_under(view)
        if streams:
            listed = ", ".join(f'"{s}"' for s in streams)
            raise ViewError(
                f'cannot verify view "{view.name}", which reads a stream',
                detail=f"The events of {listed} are not kept, so there is nothing to recompute "
                "the view from.",
                hint="Keep the events in a table too, and verify a view over the table.",
            )

    def _drop_table(self, statement: parse.DropTable) -> None:
        table = self._dropped(statement, self._catalog.table)
        if table is not None:
            self._dataflow.drop_table(table.state.source)
            if self._verifier is not None:
                self._verifier.forget(table.name)

    def _drop_stream(self, statement: parse.DropStream) -> None:
        self._dropped(statement, self._catalog.stream)

    def _drop_view(self, statement: parse.DropView) -> None:
        view = self._dropped(statement, self._catalog.view)
        if view is not None:
            self._dataflow.retire(view.name)
            self._subscriptions.forget(view.name)
            if self._verifier is not None:
                self._verifier.forget(view.name)

    def _dropped(
        self,
        statement: parse.DropTable | parse.DropStream | parse.DropView,
        named: Callable[[str], _Dropped],
    ) -> _Dropped | None:
        """What a DROP names, taken out of the catalog; None if there is no such thing and IF EXISTS
        says so."""
        if self._catalog.find(statement.name) is None and statement.if_exists:
            return None
        entry = named(statement.name)
        self._refuse_read(entry.name)
        self._catalog.remove(entry.name)
        return entry

    def _refuse_read(self, name: str) -> None:
        readers = self._catalog.readers(name)
        if readers:
            listed = ", ".join(f'"{r}"' for r in readers)
            raise CatalogError(
                f'cannot drop "{name}" because views depend on it',
                detail=f"It is read by {listed}.",
                hint="Drop those views first.",
            )

    # -- the step --------------------------------------------------------------------------------

    def _begin(self, commit: Callable[[Transaction], Any]) -> Transaction:
        return Transaction(self._catalog, self._read_dataframe, commit)

    def _apply(self, transactions: Sequence[Transaction], placement: str | None) -> list[int]:
        with self._working():
            for tx in transactions:
                if tx.is_committed:
                    raise DataError("the transaction is committed already")
            first = self._epoch + 1
            statements: list[_Dated] = [
                (s, epoch) for epoch, tx in enumerate(transactions, first) for s in tx.statements
            ]
            epochs = self._step(statements, len(transactions), placement)
            for tx, epoch in zip(transactions, epochs, strict=True):
                tx.epoch = epoch
            self._subscriptions.tell()
            return list(epochs)

    def _apply_columns(self, transactions: Transactions, placement: str | None) -> None:
        with self._working():
            if transactions.is_committed:
                raise DataError("the transactions are committed already")
            first = self._epoch + 1
            statements: list[_Dated] = [
                (s, first + s.times) for s in transactions.statements if s.times is not None
            ]
            transactions.epochs = self._step(statements, transactions.count, placement)
            self._subscriptions.tell()

    def _step(self, statements: list[_Dated], count: int, placement: str | None) -> range:
        """Run the dataflow once for the statements of `count` transactions; their epochs."""
        started = time.perf_counter()
        work_before = self._dataflow.work.copy()
        epochs = range(self._epoch + 1, self._epoch + 1 + count)
        by_table: dict[str, list[_Dated]] = {}
        by_stream: dict[str, list[_Dated]] = {}
        for s, epoch in statements:
            if self._catalog.find(s.table.name) is not s.table:
                raise DataError(f'"{s.table.name}" was dropped since the transaction began')
            batches = by_stream if isinstance(s.table, Stream) else by_table
            batches.setdefault(s.table.name, []).append((s, epoch))
        executor = self._executor(by_table, placement)
        checked = [self._check(name, batch) for name, batch in by_table.items()]
        with self._failing_for_good():
            changes = self._write(checked)
            for name, batch in by_stream.items():
                changes |= self._take_events(self._catalog.stream(name), batch)
            executor.step(self._dataflow, changes)
            work = self._dataflow.work.since(work_before)
            self._publish(changes)
            self._dataflow.commit(self._epoch + count, changes)
            self._epoch += count
        self._steps.append(
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

    def _check(self, name: str, batch: list[_Dated]) -> tuple[Table, Checked]:
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
            if self._verifier is not None:
                self._verifier.follow(table, delta)
        return changes

    def _take_events(self, stream: Stream, batch: list[_Dated]) -> dict[Key, Delta]:
        """The events as each view that reads the stream sees them."""
        delta = events(stream.schema, [(s.columns, epoch) for s, epoch in batch])
        stream.events += len(delta)
        return {("", node): delta for node in self._dataflow.streams(stream.name)}

    def _executor(self, by_table: dict[str, list[_Dated]], placement: str | None) -> Executor:
        """Who runs the step. "auto" only considers a Spark session that is there already, and whose
        executors see this session's files."""
        wanted = placement or self._placement
        if wanted not in PLACEMENTS:
            raise ValueError(f"placement is one of {', '.join(PLACEMENTS)}, not {wanted!r}")
        if wanted == "auto":
            rows = {
                self._catalog.table(name).state.source: sum(s.rows for s, _ in batch)
                for name, batch in by_table.items()
            }
            has_spark = self._spark_side is not None or self._given_spark is not None
            wanted = "inline"
            if has_spark and self._side().sees_files:
                wanted = choose(self._dataflow, rows)
        return self._inline if wanted == "inline" else self._side().executor

    def _publish(self, changes: dict[Key, Delta]) -> None:
        for view in self._catalog.views():
            delta = changes.get((view.owner, view.root))
            if delta is not None:
                view.changes += len(delta)
                self._subscriptions.put_down(view, delta)

    # -- reading ---------------------------------------------------------------------------------

    def _read(self, view: View) -> pa.Table:
        with self._working():
            messages = self._dataflow.errors_of(view.name)
            if messages:
                raise ViewError(
                    f'view "{view.name}" is in error: {messages[0]}',
                    detail=f"{len(messages)} kinds of rows under it cannot be computed."
                    if len(messages) > 1
                    else "A row under it cannot be computed.",
                    hint="Delete or correct the row; the view recovers with it.",
                )
            relation = self._dataflow.relation(view.root, view.owner)
            columns = relation.gather_all(relation.visible(self._epoch))
            if view.order:
                ties = tuple(algebra.SortKey(i) for i in range(len(view.schema)))
                keys = view.order + ties
                order = sort_rows([columns[k.column] for k in keys], keys)
                columns = [c.take(order) for c in columns]
            return arrow.from_columns(columns, view.schema)

    def _read_any(self, name: str) -> pa.Table:
        entry = self._catalog.find(name)
        if isinstance(entry, View):
            return self._read(entry)
        table = self._catalog.table(name)
        relation = table.state.relation
        columns = relation.gather_all(relation.visible(self._epoch))
        return arrow.from_columns(columns, table.schema)

    def _dataframe(self, name: str) -> DataFrame:
        return self._side().dataframe(self._read_any(name))

    def _select(self, text: str) -> Result:
        streams = [s.name for s in self._catalog.streams()]
        kept = [name for name in self._catalog.names() if name not in streams]
        result = self._side().select(text, kept, self._read_any, streams)
        return Result(result.toArrow, lambda: result)

    def _explain(self, statement: parse.ExplainView) -> Result:
        if statement.create is not None:
            with parse.placed(statement.create.query):
                planned = self._plan(statement.create)
            logical = optimize(bind_query(statement.create.query, self._catalog).plan)
        else:
            planned = self._catalog.view(statement.name)
            logical = optimize(bind_query(parse.parse_query(planned.text), self._catalog).plan)
        live = self._dataflow.indexes
        readers = {spec: len(i.readers) for i in live for spec in (i.spec, *i.served)}
        whole: dict[ir.Index, ir.Index] = {spec: i.spec for i in live for spec in i.served}
        lines = [
            "== Logical plan ==",
            explain_logical(logical),
            "== Dataflow ==",
            explain_dataflow(planned.root, lambda index: readers.get(index, 0), whole.get),
        ]
        return self._result(pa.table({"plan": "\n".join(lines).splitlines()}))

    def _verification(self, outcome: Verification) -> Result:
        return self._result(
            pa.table(
                {
                    "view": [outcome.view],
                    "epoch": [outcome.epoch],
                    "rows": [outcome.rows],
                    "equal": [outcome.equal],
                    "detail": [str(outcome)],
                }
            )
        )

    def _result(self, table: pa.Table) -> Result:
        return Result(lambda: table, lambda: self._side().dataframe(table))

    # -- Spark -----------------------------------------------------------------------------------

    def _side(self) -> SparkSide:
        if self._spark_side is None:
            from sqlview.spark import SparkSide  # Spark costs seconds: only when it is needed

            self._spark_side = SparkSide(self._given_spark, self._path)
        return self._spark_side

    def _read_dataframe(self, data: Any) -> pa.Table:
        return self._side().read(data)

    # -- guards ----------------------------------------------------------------------------------

    @contextmanager
    def _working(self) -> Iterator[None]:
        with self._lock:
            if self._broken is not None:
                raise SqlViewError(
                    "the session is unusable since a step failed in the middle",
                    detail=f"{type(self._broken).__name__}: {self._broken}",
                    hint="Open a new session and load the tables again.",
                ) from self._broken
            yield

    @contextmanager
    def _failing_for_good(self) -> Iterator[None]:
        try:
            yield
        except BaseException as error:
            self._broken = error
            raise


def _scanned(plan: algebra.Plan) -> Iterator[str]:
    if isinstance(plan, algebra.Scan):
        yield plan.relation
    for i in algebra.inputs(plan):
        yield from _scanned(i)


def _refusal(table: Table, statement: Statement, refusal: Refusal) -> DataError:
    key = table.key if table.key is not None else tuple(range(len(table.schema)))
    columns = statement.columns
    if table.key is not None and statement.action != DELETE:
        columns = [columns[k] for k in key]
    row = np.array([refusal.row], np.int64)
    fields = tuple(table.schema[k] for k in key)
    values = arrow.from_columns([c.take(row) for c in columns], fields).to_pylist()[0]
    listed = ", ".join(f"{name} = {value!r}" for name, value in values.items())
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
