"""The session: statements, transactions, reads.

A session owns the catalog, the running dataflow and its executors. `definitions` does what CREATE
and DROP say, `writer` takes the statements of transactions through one step; then subscribers are
told. Readers see the state between steps, so all views at one epoch (DESIGN §4).

Invariant: whatever reads or changes the state holds the session's lock, and is done whole or not at
all, whatever raises, and wherever Ctrl-C comes. A session that is closed refuses everything.
"""

from __future__ import annotations

import datetime
import logging
import os
import sys
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from typing_extensions import assert_never

from operators import checkpoint, interrupts
from operators.budget import OverBudgetError
from operators.dataflow import Dataflow
from operators.executor.inline import InlineExecutor
from operators.executor.placement import LEAST_WORK, estimate
from operators.executor.protocol import Executor
from operators.executor.watch import Watch
from operators.flight.column import Column
from operators.flight.delta import Delta
from operators.flight.rows import represented
from operators.state.changes import DELETE
from operators.state.stored import StoredRows, write_stored
from planner import dataflow as ir
from planner import parse
from planner.context import CLOCK, Trait
from planner.errors import (
    CatalogError,
    DataError,
    SqlViewError,
    StoreError,
    UnsupportedError,
    ViewError,
)
from planner.lower.indexes import Migration
from planner.names import DEFAULT_SCHEMA, folded, short_name
from planner.room import with_room
from sqlview import describe, introspect
from sqlview.arguments import (
    check_callable,
    check_flag,
    check_placement,
    check_spark,
    check_text,
    check_word,
    checked_bytes,
    checked_cache,
    checked_path,
    checked_sequence,
    kind_of,
)
from sqlview.building import Building
from sqlview.catalog import Catalog, Entry, Stream, Table, View
from sqlview.clock import (
    CLOCKS,
    SystemClock,
    checked_instant,
    checked_tick,
    first_row,
    instant_in,
    move,
    shown,
)
from sqlview.clock import KEY as CLOCK_KEY
from sqlview.commits import Commits
from sqlview.definitions import Definitions
from sqlview.history import Change, History, checked_retention
from sqlview.memory import MemoryLimit
from sqlview.metrics import Metrics, StepMetrics
from sqlview.oracle import CannotSay, Oracle
from sqlview.parameters import checked_types
from sqlview.positions import NOWHERE, Positions
from sqlview.prepared import Prepared, Statement
from sqlview.progress import Advance, Progress, ignore
from sqlview.reader import Reader, ViewRows
from sqlview.reads import Planned, Readable, Reads
from sqlview.recovery import Recovery, counter_of
from sqlview.settings import Settings
from sqlview.sink import MODES as SINK_MODES
from sqlview.sink import Sink
from sqlview.snapshot import Snapshot
from sqlview.sources.files import TYPED, File, Loaded, Paths, find_files
from sqlview.sources.given import Given as GivenRows
from sqlview.sources.given import is_spark_dataframe, is_unicode, recognised
from sqlview.sources.schemas import fields, typed
from sqlview.statements import Changing, Statements, as_inserted, fills_in
from sqlview.statistics import Statistics
from sqlview.store import DURABILITIES, Store, Taken, records
from sqlview.subscriptions import Subscriber, Subscriptions
from sqlview.transaction import Data, Transaction, Transactions, about
from sqlview.verify import ENGINES, Verification, Verifier
from sqlview.versions import Version, Versions
from sqlview.view import Explanation, Given, Result, Selected, ViewReader
from sqlview.writer import Dated, Writer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from operators.executor.spark import SparkExecutor
    from sqlview.spark import SparkSide

_log = logging.getLogger(__name__)


class Session:
    """See `sqlview.connect`. One session is used by one thread at a time; a lock sees to it."""

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        spark: SparkSession | None = None,
        placement: str = "auto",
        share: bool = True,
        progress: bool | None = None,
        timezone: str | None = None,
        durability: str = "commit",
        read_only: bool = False,
        memory_limit: int | str | None = None,
        retain: int | str | None = None,
        clock: str = "manual",
        tick: float | str = 1,
        repair: bool = False,
        udfs: Mapping[str, Callable[..., Any]] | None = None,
        cache: str | os.PathLike[str] | None = None,
    ) -> None:
        """`repair`: what lies in damaged files is computed anew, see `python -m sqlview repair`."""
        check_spark(spark)
        check_word("durability", durability, DURABILITIES, optional=False)
        check_flag("read_only", read_only)
        check_word("clock", clock, CLOCKS, optional=False)
        tick_seconds = checked_tick(tick)
        check_placement(placement, optional=False)
        check_flag("share", share)
        check_flag("progress", progress, optional=True)
        if timezone is not None:
            check_text("timezone", timezone)
        path, limit = checked_path(path), checked_bytes("memory_limit", memory_limit)
        if limit is not None and (path is None or read_only):
            raise ValueError("memory_limit is for a session that writes a store: give its path")
        cache = checked_cache(cache, path)
        #: Where Spark's executors find files; a reader leaves none in the store.
        self._spark_path = None if read_only else path
        self._given_spark = spark
        self._placement = placement
        self._share = share
        self._progress = Progress(progress)
        self._watch = Watch()
        self._dataflow = Dataflow()
        self._building = Building(
            self._dataflow, placement, partial(_builder_of, weakref.ref(self))
        )
        self._catalog = Catalog(self._dataflow)
        self._prepared = Prepared(self, self._catalog)
        self._inline = InlineExecutor()
        self._spark_side: SparkSide | None = None
        self._verifier: Verifier | None = None
        undo = self._dataflow.undo
        self._subscriptions = Subscriptions(undo)
        self._history = History(checked_retention(retain), undo)
        #: Of names in statements that say none; USE sets it.
        self._schema = DEFAULT_SCHEMA
        self._settings = Settings(spark, self._active_spark, timezone)
        self._definitions = Definitions(
            self._catalog,
            self._dataflow,
            share=share,
            created=self._history.begin,
            dropped=self._dropped,
            replaced=self._replaced,
            renamed=self._renamed,
            altered=self._altered,
            settings=self._settings,
        )
        self._writer = Writer(
            self._catalog, self._dataflow, self._subscriptions, self._history, self._follow
        )
        self._closed = False
        self._lock = threading.RLock()
        self._commits = Commits(
            self._lock,
            self._check_usable,
            self._catalog,
            self._writer,
            self._subscriptions,
            self._run_step,
        )
        self._versions = Versions(
            self._catalog,
            self._dataflow,
            lambda: self._writer.epoch,
            self._lock,
            self._working,
            self._compute,
        )
        self._statements = Statements(self._catalog, self._dataflow, share, self._versions.ready)
        self._statistics = Statistics(
            self._lock,
            self._working,
            lambda: introspect.kept(
                self._catalog,
                self._dataflow,
                tuple(self._writer.steps),
                None if self._spark_side is None else self._spark_side.costs,
                0 if self._spark_side is None else self._spark_side.heavy_exchanges,
            ),
        )
        self._definitions.ended = self._statistics.publish
        self._writer.ended = (self._versions.publish, self._statistics.publish)
        self._reader = Reader(self._versions, self._settings.zone)
        self._reads = Reads(
            self._catalog, self._dataflow, self._versions, self._reader, self._settings.zone
        )
        for name, function in (udfs or {}).items():
            check_text("udfs", name)
            check_callable("udfs", function)
        self._definitions.code = {folded(name): f for name, f in (udfs or {}).items()}
        self._store: Store | None = None
        #: Why it is not to be used, once a file of the store was found damaged.
        self._damaged: StoreError | None = None
        self._memory: MemoryLimit | None = None
        if path is not None:
            self._open(Store(path, durability, read_only, repair, cache), limit, repair)
        elif read_only:
            raise ValueError("read_only=True is for a store: give its path")
        self._system_clock: SystemClock | None = None
        if clock == "system" and not read_only:
            self._system_clock = SystemClock(self, tick_seconds)
            self._system_clock.start()

    # -- statements ------------------------------------------------------------------------------

    def sql(self, text: str) -> Result:
        """Run one statement; see the README for the list.

        Raises: SqlViewError and subclasses; TypeError if `text` is no str.
        """
        check_text("text", text)
        return self._run(text, self._schema)

    def _run(self, text: str, schema: str) -> Result:
        """As `sql`; `schema`: of names that say none."""
        statement = parse.parse_statement(text, schema)
        if isinstance(statement, parse.ShowArrangements):  # it need not wait
            return self._result(self.arrangements())
        with self._working():
            match statement:
                case parse.CreateTable():
                    self._definitions.create_table(statement)
                case parse.CreateTableAs():
                    self._create_table_as(statement)
                case parse.CreateStream():
                    self._definitions.create_stream(statement)
                case parse.CreateView():
                    self._create_view(statement)
                case parse.DropTable():
                    self._definitions.drop_table(statement)
                case parse.DropStream():
                    self._definitions.drop_stream(statement)
                case parse.DropView():
                    self._definitions.drop_view(statement)
                case parse.Rename():
                    self._definitions.rename(statement)
                case parse.AddColumns():
                    with self._within_memory(f'ALTER of "{statement.name}"'):
                        self._definitions.add_columns(statement)
                case parse.AlterColumn():
                    self._definitions.alter_column(statement)
                case parse.Comment():
                    self._definitions.comment(statement)
                case parse.ExplainView():
                    return self._explain(statement)
                case parse.Describe() | parse.ShowColumns() | parse.ShowCreate():
                    return self._result(describe.shown(statement, self._catalog))
                case parse.ShowStreams():
                    space = self._catalog.space(statement.schema)
                    return self._result(introspect.streams(self._catalog, space.name))
                case parse.ShowTables():
                    return self._result(self._listed("table", Table, statement.schema))
                case parse.ShowViews():
                    return self._result(self._listed("view", View, statement.schema))
                case parse.ShowSchemas():
                    return self._result(describe.schemas(self._catalog))
                case parse.DescribeSchema():
                    return self._result(describe.schema(self._catalog.space(statement.name)))
                case parse.CreateSchema():
                    self._definitions.create_schema(statement)
                case parse.DropSchema():
                    self._definitions.drop_schema(statement)
                    if not self._catalog.has_space(self._schema):
                        self._schema = DEFAULT_SCHEMA
                case parse.DropFunction():
                    self._definitions.drop_function(statement)
                case parse.ShowFunctions():
                    return self._result(describe.functions(self._catalog))
                case parse.UseSchema():
                    self._schema = self._catalog.space(statement.name).name
                case parse.VerifyView():
                    return self._result(self.verify(statement.name).to_arrow())
                case parse.Select():
                    return self._select(statement.text)
                case parse.Insert() | parse.Update() | parse.Delete() | parse.Merge():
                    return self._change(statement)
                case parse.SetTimeZone():
                    self._settings.set_zone(statement.zone)
                case _:
                    assert_never(statement)
        return self._result(pa.table({}))

    def _listed(self, column: str, kind: type[Entry], schema: str) -> pa.Table:
        """The names of what is of a kind in a schema, in the order of creation."""
        inside = self._catalog.entries_in(self._catalog.space(schema).name)
        names = [short_name(e.name) for e in inside if isinstance(e, kind)]
        return pa.table({column: pa.array(names, pa.string())})

    # -- changes ---------------------------------------------------------------------------------

    def transaction(self, placement: str | None = None) -> Transaction:
        """A transaction to be used in a `with` block, which commits it.

        `placement`: overrides the session's for this step. The commit raises what `apply` raises.
        """
        check_placement(placement)
        return self._begin(lambda tx: self._apply([tx], placement), placement)

    def transactions(self, placement: str | None = None) -> Transactions:
        """Many small transactions as columns, each row with its time, to be used in a `with` block,
        which commits them in one step. For few, see `apply`.

        `placement`: overrides the session's for this step. The commit raises what `apply` raises.
        """
        check_placement(placement)
        self._check_open()
        return Transactions(
            self._catalog,
            self._read_dataframe,
            self._settings.zone,
            lambda txs: self._commits.run(txs, placement),
        )

    def begin(self) -> Transaction:
        """A transaction to be handed to `apply`."""
        return self._begin(lambda tx: self._apply([tx], None))

    def apply(self, transactions: Sequence[Transaction], placement: str | None = None) -> list[int]:
        """Commit transactions in turn, each at an epoch of its own, in one physical step.

        Returns: their epochs. Raises: DataError, naming table, problem and row; SqlViewError if the
        step is placed on a Spark that was stopped; TypeError and ValueError for other arguments:
        then none of the transactions is applied. SubscriberError: they are, see `subscribe`.
        """
        check_placement(placement)
        hint = "; many as columns commit themselves, at the end of their with block"
        return self._apply(
            checked_sequence("transactions", transactions, Transaction, hint), placement
        )

    def create_table(
        self, name: str, data: Data | pa.Schema, key: str | Sequence[str] = ()
    ) -> None:
        """Create a table with the columns of `data`, and insert its rows at one epoch.

        data: as for Transaction.insert, with names for its columns; or a pyarrow schema, for a
        table without rows. key: the columns of the primary key, which are NOT NULL. Types are those
        of Arrow data; Python's values make BIGINT, DOUBLE, STRING …, and decimals of 18 digits, or
        38 if need be.
        Raises: CatalogError if there is such a table or view; DataError for types that no table has
        and for rows that it refuses: then there is no table; TypeError for other arguments.
        """
        check_text("name", name)
        if not name or not is_unicode(name):
            raise CatalogError(f"no table can have the name {represented(name)}")
        columns = (key,) if isinstance(key, str) else tuple(checked_sequence("key", key, str, ""))
        with self._working():
            if isinstance(data, pa.Schema):
                self._create_table(name, data, columns, None)
            else:
                with _creating(name):
                    schema, given = typed(recognised(data, self._read_dataframe))
                self._create_table(name, schema, columns, given)

    def load(
        self,
        table: str,
        paths: Paths | DataFrame,
        *,
        cast: bool = True,
        format: str | None = None,
    ) -> Loaded:
        """Insert the rows of files into a table or stream, in one transaction.

        paths: a file, a directory of files or a pattern such as "day=*/*.parquet", or several in a
        list; or a Spark DataFrame, as of `spark.read.parquet(…)`, see Transaction.insert. format:
        "csv", "tsv", "json" (an object a line), "parquet" or "arrow"; None: by the names' endings.
        cast: whether values of Parquet and Arrow files are converted as far as that loses nothing;
        those of text always are: see sqlview.sources.files.
        Raises: CatalogError; DataError, naming file and row: then nothing is loaded; TypeError and
        ValueError for other arguments.
        """
        check_text("table", table)
        check_flag("cast", cast)
        if format is not None:
            check_text("format", format)
        tx = self.begin()
        given: Any = paths
        is_frame = is_spark_dataframe(given)
        if is_frame and format is not None:
            raise ValueError("format is for paths: a DataFrame has none")
        files = [] if is_frame else find_files(given, format)
        with self._told(f'loading "{table}"') as advance:
            if is_frame:
                tx.insert(table, given, cast=cast)
            elif not tx._insert_written(table, lambda t: self._write_files(t, files, cast)):
                for file in files:
                    tx._insert_file(table, file, cast or file.is_text, advance)
            rows = sum(s.rows for s in tx.statements)
            epoch = self._apply([tx], None)[0] if rows else None
        return Loaded(rows, len(given.inputFiles() if is_frame else files), epoch)

    def sink(self, table: str, mode: str = "insert") -> Sink:
        """What `writeStream.foreachBatch` takes: each batch of a Spark stream is committed once,
        whatever stops Spark or this session.

        mode: "insert"; "upsert", for a table with a primary key; "changes", for a change data feed:
        the column `_change_type` says what a row is (insert, update_preimage, update_postimage,
        delete), `_commit_version`, if it is there, in which order they came. The checkpoint's
        identity and the batch's number are committed with the rows (see Transaction.source). The
        query fails with DataError where its checkpoint and the tables do not fit.
        Raises: CatalogError if there is no such table; DataError for "upsert" without a key;
        TypeError and ValueError.
        """
        check_text("table", table)
        check_word("mode", mode, SINK_MODES, optional=False)
        with self._working():
            entry = self._catalog.changeable(table)
        keyed = isinstance(entry, Table) and entry.key is not None
        if (mode == "upsert" and not keyed) or (mode == "changes" and isinstance(entry, Stream)):
            raise DataError(
                f'"{entry.name}" cannot be the sink of mode "{mode}"',
                hint='Use a table with a primary key, or mode="insert".',
            )
        return Sink(self, entry.name, mode, keyed)

    def position(self, source: str) -> int | None:
        """Where a source stands (see Transaction.source); None if nothing of it was committed."""
        check_text("source", source)
        with self._working():
            offset = self._writer.positions.of(source).offset
        return None if offset == NOWHERE else offset

    @property
    def epoch(self) -> int:
        """The current epoch: all transactions up to it are in all views."""
        return self._writer.epoch

    # -- time ------------------------------------------------------------------------------------

    def advance(self, to: datetime.datetime) -> int:
        """Move the clock, which `now()` in views is, to a later time (the first call: to any), as a
        commit of its own; returns the epoch. At the time that it has nothing happens.

        to: a datetime; one without a time zone is of the session's.
        Raises: DataError for an earlier time, with nothing applied; TypeError; as a commit.
        Cost: that of a step; each view that reads the clock, the rows that come or go by it.
        """
        instant = checked_instant(to, self._settings.zone)
        with self._working():
            clock = self._catalog.clock
            if clock is None:
                schema, given = typed(recognised(first_row(instant), self._read_dataframe))
                self._create_table(CLOCK, schema, CLOCK_KEY, given)
            else:
                before = instant_in(clock, self.epoch)
                statement = move(clock, before, instant)
                if instant > before:
                    tx = self.begin()
                    tx._keep([statement])
                    self._commit_within(tx)
            return self.epoch

    @property
    def clock(self) -> datetime.datetime | None:
        """The time that `now()` in views is, in UTC; None before it was set."""
        with self._working():
            clock = self._catalog.clock
            return None if clock is None else shown(instant_in(clock, self.epoch))

    # -- reads -----------------------------------------------------------------------------------

    def view(self, name: str) -> ViewReader:
        """Raises: CatalogError if there is no such view; TypeError if `name` is no str."""
        check_text("name", name)
        rows = ViewRows(
            lambda: self._version(name),
            self._reader,
            self._dataframe,
            lambda epoch: self._past(name, epoch),
            lambda: self._frame(name),
        )
        return ViewReader(self._version(name).entry.name, rows)

    def snapshot(self) -> Snapshot:
        """All tables and views as they are now, to be read in any thread while others commit, until
        it is closed (a `with` block does): what later steps change is kept for it as it was. Lazy
        views that nobody has read are not in it.

        Cost: waits for the step that goes on; O(blocks of the tables and views), and a copy of what
        is still as it came in (see sqlview.versions).
        """
        with self._working():
            epoch, versions = self.epoch, self._versions.all()
            lazy = [v.name for v in self._catalog.views() if not v.computed]
        return Snapshot(epoch, versions, lazy, self._reader, self._dataframe, self._check_open)

    def changes(self, name: str, since: int) -> Iterator[Change]:
        """What changed in a view after the epoch `since`, up to the latest one.

        Each Change is what one step brought: `table` has the view's columns, `__time` and `__diff`,
        and `epoch` says up to where they go; the last one's is the latest epoch, whose table may be
        empty. Who has consumed it goes on with `since=change.epoch`, also in another session of the
        same store. To begin, take a snapshot, its rows and its epoch.
        Raises: DataError for changes that are not retained (see `retain` of sqlview.connect) or
        have not come; CatalogError for an unknown view; TypeError.
        """
        check_text("name", name)
        with self._working():
            view = self._catalog.view(name)
            self._versions.ready(view)
            return iter(self._since(view, since))

    def subscribe(self, name: str, callback: Subscriber, since: int | None = None) -> None:
        """Call back after every later step that changes the view, before the commit returns; and
        at once, where it is said, with what changed after the epoch `since` (see `changes`).

        callback(table): the view's columns, then `__time` (the epoch, int64) and `__diff` (int64).
        If it raises, the commit raises SubscriberError when all subscribers have been called; the
        change stays. What is no Exception, as KeyboardInterrupt, goes through the commit at once:
        the change stays then too, and who has not heard of it hears with the next step.

        It is called in the thread that commits, which holds the session: it may read, commit (who
        hears of that is called when all have heard of this), create, drop, subscribe to what comes
        later, and close the session.
        Raises: CatalogError if there is no such view; TypeError.
        """
        check_text("name", name)
        check_callable("callback", callback)
        with self._working():
            view = self._catalog.view(name)
            self._versions.ready(view)
            before = [] if since is None else self._since(view, since)
            self._subscriptions.add(view.name, callback)
            self._subscriptions.put_down(
                [(view.name, callback, c.table) for c in before if c.table.num_rows]
            )
            self._subscriptions.tell()

    def prepare(
        self, text: str, *, name: str | None = None, types: Mapping[str, str] | None = None
    ) -> Statement:
        """A query with parameters, `:name`, to subscribe to with values: see Statement.subscribe.

        All values that are subscribed to are one view. `name`: of the view, and with "_parameters"
        behind of the table of the values; None: made of the text. Prepared again, it is the same
        statement. types: the SQL type of a parameter; else it is that of the column with which it
        is compared, or of the CAST around it.
        Raises: SqlViewError for a text without parameters, or a type that is not known;
        UnsupportedError for what cannot be maintained; CatalogError for a name that is taken.
        Cost: that of CREATE MATERIALIZED VIEW, without a row to compute.
        """
        check_text("text", text)
        if name is not None:
            check_text("name", name)
        said = checked_types(types)
        with self._working():
            return self._prepared.prepare(parse.qualified(text, self._schema), name, said)

    def udf(self, name: str, function: Callable[..., Any], type: str) -> None:
        """Register a function for views and statements, `name(arguments)`.

        function(*arrays): takes a pyarrow.Array for each argument (of a call without arguments the
        number of rows), and returns one of as many values, which are of the SQL type `type`. It is
        deterministic, and the value of a row depends on that row alone: it is called with any rows
        together, some more than once, in this process and in Spark's tasks. NULLs are given to it.
        Where it raises, or returns something else, the row is in error.
        A store keeps the name and the type: register it again when it is opened, or give it to
        `connect` as `udfs`, if commits are to be taken up that no checkpoint has.
        Raises: CatalogError for a name of Spark's, and another function in the place of one that
        views call; SqlSyntaxError for what is no type; TypeError.
        """
        check_text("name", name)
        check_callable("function", function)
        check_text("type", type)
        kind = parse.schema_type(type)
        with self._working():
            self._definitions.register(name, function, kind)

    def unsubscribe(self, name: str, callback: Subscriber) -> None:
        """Call `callback` back no more: it hears nothing of later steps.

        Raises: CatalogError for an unknown view; SqlViewError if it does not subscribe to it;
        TypeError.
        """
        check_text("name", name)
        check_callable("callback", callback)
        with self._working():
            self._subscriptions.remove(self._catalog.view(name).name, callback)

    def verify(self, name: str, engine: str | None = None) -> Verification:
        """Compare the view with a recompute of its query from the tables.

        `engine`: who recomputes, "duckdb" or "spark". None: DuckDB, and Spark (started if need be)
        where DuckDB cannot say the query as Spark means it, or finds something wrong. A view in
        error is right where its recompute fails as well.
        Raises: ViewError for a view over a stream, whose events are gone, and where no engine can
        say the query; CatalogError for an unknown view; TypeError and ValueError for other
        arguments.
        Cost: a recompute; in Spark also a copy of the tables.
        """
        check_text("name", name)
        check_word("engine", engine, tuple(ENGINES))
        with self._working():
            view = self._catalog.view(name)
            self._refuse_streams(view)
            self._versions.ready(view)
            if self._verifier is None:
                self._verifier = Verifier(self._catalog, self._rows_of, self._spark_oracle)
            try:
                with self._progress.task(f'verifying "{view.name}"'), interrupts.let_through():
                    return self._verifier.verify(view, self._writer.epoch, engine)
            except SqlViewError:
                raise
            except BaseException:
                self._verifier.close()  # its copy of the tables may be half made
                raise

    def arrangements(self) -> pa.Table:
        """Every live index: see introspect.ARRANGEMENTS_SCHEMA. While another thread is at work, as
        of the latest epoch; so are `state` and `metrics`, see sqlview.statistics."""
        self._check_open()
        return introspect.arrangements(self._statistics.of())

    def state(self) -> pa.Table:
        """All that is kept in memory and who reads it: see introspect.STATE_SCHEMA."""
        self._check_open()
        return introspect.state(self._statistics.of())

    @property
    def last_step(self) -> StepMetrics | None:
        """What the latest step cost; None before the first."""
        steps = self._writer.steps
        return steps[-1] if steps else None

    def metrics(self) -> Metrics:
        """What the latest steps and the views have cost, and what is kept. Cost: O(all that is
        kept, in pieces): `last_step` is for each step."""
        self._check_open()
        return introspect.metrics(self._statistics.of())

    def checkpoint(self, even_if_same: bool = False) -> None:
        """Write down all there is, so that opening the store reads that and applies only what was
        committed since. A session does so by itself, beside its steps, every ten seconds if there
        was anything, and when it is closed. Steps wait while what changes in place is copied.

        even_if_same: also if nothing was committed since the last one.
        Raises: StoreError without a store, and where it cannot be written: nothing is lost then.
        Cost: what changed since the last one is written: full blocks of rows, merged indexes.
        """
        check_flag("even_if_same", even_if_same)
        with self._working():
            if self._store is None or self._store.read_only:
                raise StoreError(
                    "there is no store to write a checkpoint to",
                    hint="sqlview.connect(path) opens one.",
                )
        me = weakref.ref(self)
        self._store.save(lambda writing: _present_of(me, writing), even_if_same)

    def close(self) -> None:
        """Write a checkpoint, release files, DuckDB, and the Spark session if this session started
        it, when what runs in other threads is over. The session refuses everything from then on;
        so does what it handed out, but for results that are at hand."""
        if self._system_clock is not None:
            self._system_clock.stop()
        if self._store is not None:
            self._store.stop()  # one that waits for the lock below would wait for ever
        with self._lock, ExitStack() as released:  # each, whatever another one raises
            closed, self._closed = self._closed, True
            released.callback(self._dataflow.clear)  # at the end, and not when cycles are collected
            released.callback(self._catalog.clear)
            if self._verifier is not None:
                released.callback(self._verifier.close)
            if self._store is not None:
                released.callback(self._close_store)
            if self._memory is not None:
                released.callback(self._memory.close)
            if self._spark_side is not None:
                released.callback(self._spark_side.close)
            if self._store is not None and not closed:
                released.callback(self._save_last, self._store)  # first of all
            self._verifier = None
            self._versions.clear()

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _create_table(
        self, name: str, schema: pa.Schema, key: tuple[str, ...], given: GivenRows | None
    ) -> None:
        """A table with the rows given; without them it has what the schema says of NULLs."""
        with _creating(name):
            columns = fields(schema, key, given is None)
        traits = (Trait(),) * len(columns)
        statement = parse.CreateTable(name, columns, key, True, False, traits, None)
        table, tx = self._definitions.new_table(statement), self.begin()
        if given is not None:
            tx._fill(table, given)

        def work() -> None:
            self._definitions.add_table(table, awaits_rows=bool(tx.statements))
            if tx.statements:
                self._commits.run_within(tx)

        with interrupts.held(), self._within_memory("step"):
            self._dataflow.undo.all_or_nothing(work)

    def _create_table_as(self, statement: parse.CreateTableAs) -> None:
        if self._catalog.find(statement.name) is not None:
            if statement.if_not_exists:
                return
            raise CatalogError(f'"{statement.name}" exists already')
        rows = self._read_dataframe(self._select(statement.text).to_df())
        self._create_table(statement.name, rows.schema, (), rows)

    def _change(self, statement: Changing) -> Result:
        """A statement reads and commits while nobody else does."""
        self._settings.check()
        try:
            with self._within_memory("statement"):
                changed = self._statements.changed(statement, self.epoch, self._settings.zone())
        except UnsupportedError:
            if not isinstance(statement, parse.Insert) or parse.says_clock(statement.query.text):
                raise  # the time is the session's, not Spark's
            if fills_in(self._catalog, statement):
                raise  # and Spark knows no defaults
            return self._insert_by_spark(statement)
        tx = self.begin()
        tx._keep(changed.changes)
        self._commit_within(tx)
        return self._result(changed.result())

    def _insert_by_spark(self, statement: parse.Insert) -> Result:
        """INSERT of a query that no view can be made of: Spark runs it, as for CREATE TABLE AS."""
        rows = self._read_dataframe(self._select(statement.query.text).to_df())
        tx = self.begin()
        tx.insert(statement.name, as_inserted(self._catalog, statement, rows), cast=True)
        self._commit_within(tx)
        return self._result(pa.table({"num_affected_rows": pa.array([len(rows)], pa.int64())}))

    def _commit_within(self, tx: Transaction) -> None:
        """Commit a transaction next, whoever else waits to commit."""
        self._commits.run_within(tx)
        self._subscriptions.tell()

    @contextmanager
    def _told(self, title: str, unit: str = "rows") -> Iterator[Advance]:
        """Long work, with a bar of that, and of the jobs of Spark in it; yields what is told how
        many more are done."""
        with self._progress.task(title, unit=unit) as bar, self._watch.told(bar.on_job):
            yield bar.advance

    def _create_view(self, statement: parse.CreateView) -> None:
        with self._computing(statement.name, "creating", "CREATE"):
            self._definitions.create_view(statement, self.epoch)
        self._subscriptions.tell()

    def _compute(self, view: View) -> None:
        """Compute a lazy view, since somebody reads it."""
        if self._store is not None and self._store.read_only:
            raise StoreError(
                f'view "{view.name}" is lazy, and nobody has read it so far',
                detail="It is computed when it is first read by the session that writes the store; "
                "this one only reads.",
                hint=f"Read it there once: db.view({view.name!r}).",
            )
        # Also in a SELECT, which lets Ctrl-C through: a checkpoint may be made for room in memory.
        with interrupts.held(), self._computing(view.name, "computing", "first read"):
            self._definitions.compute(view, self.epoch)

    @contextmanager
    def _computing(self, name: str, doing: str, what: str) -> Iterator[None]:
        with self._told(f'{doing} "{name}"', "rows read") as advance:
            self._dataflow.on_read = advance
            try:
                self._statistics.before_long(self._dataflow.live_rows)
                with self._within_memory(f'{what} of "{name}"'):
                    yield
            finally:
                self._dataflow.on_read = ignore

    # -- the store -------------------------------------------------------------------------------

    def _open(self, store: Store, limit: int | None, repair: bool) -> None:
        """Be what the store says, within a limit of memory."""
        self._store = self._reads.store = store
        self._close_store = weakref.finalize(self, store.close)
        try:
            if limit is not None:
                self._memory = MemoryLimit(limit, store, self._dataflow)
                weakref.finalize(self, self._memory.close)
            self._recover(store, repair)
        except BaseException as error:
            self._close_store()
            if self._memory is not None and isinstance(error, (OverBudgetError, MemoryError)):
                raise self._memory.too_small() from error
            raise

    def _recover(self, store: Store, repair: bool) -> None:
        """Be what the store says; then record what comes."""
        recovery = Recovery(
            self._catalog, self._dataflow, self._definitions, self._writer, self._history
        )
        with self._told(f'opening "{store.path}"', "bytes read") as advance:
            recovery.run(store, advance, store.damaged() if repair else {})

        undo = self._dataflow.undo

        def record(entry: Entry | records.Alteration, awaits_rows: bool = False) -> None:
            store.append(records.parts_of(entry, awaits_rows), undo)

        self._definitions.record = record
        self._writer.keep = lambda statements, *rest: store.appending(
            lambda: records.step_parts(statements, *rest),
            undo,
            records.is_large(statements),
            records.files_in(statements),
        )
        me = weakref.ref(self)
        store.verify_beside(lambda error: _refuse(me, error))
        if not store.read_only:
            store.save_beside(lambda writing: _present_of(me, writing), lambda: _map_of(me))
            self._building.begin()

    def _present(self, writing: threading.Lock) -> Taken:
        """What there is now, see store.Present; whoever calls holds the lock."""
        assert self._store is not None
        self._dataflow.undo.finish()
        entries, spaces = self._catalog.entries, self._catalog.spaces()
        writing.acquire()
        try:
            return Taken(
                self._store.end,
                self.epoch,
                dict(self._writer.positions.items()),
                tuple(map(records.definition_of, entries)),
                tuple(records.DefinedSchema(s.name, s.comment) for s in spaces),
                self._catalog.functions(),
                tuple(map(counter_of, entries)),
                self._history.image(),
                checkpoint.cut(self._dataflow, self._store.values),
            )
        except BaseException:
            writing.release()
            raise

    def _save_last(self, store: Store) -> None:
        try:
            store.save_last(self._present)
        except SqlViewError:
            _log.warning("the last checkpoint could not be written; the log has all", exc_info=True)

    # -- the step --------------------------------------------------------------------------------

    def _apply(self, transactions: Sequence[Transaction], placement: str | None) -> list[int]:
        return list(self._commits.run(transactions, placement))

    def _begin(
        self, commit: Callable[[Transaction], Any], placement: str | None = None
    ) -> Transaction:
        self._check_open()
        return Transaction(
            self._catalog,
            self._read_dataframe,
            self._settings.zone,
            commit,
            lambda table, action, data, cast: self._write_dataframe(
                table, action, data, cast, placement
            ),
            None if self._memory is None else self._write_columns,
        )

    def _run_step(
        self, statements: list[Dated], count: int, placement: str | None, positions: Positions
    ) -> None:
        with self._within_memory("step"):
            self._building.placement = placement or self._placement
            try:
                self._writer.step(
                    statements, count, lambda rows: self._executor(rows, placement), positions
                )
            finally:
                self._building.placement = self._placement

    def _within_memory(self, what: str) -> AbstractContextManager[None]:
        """What takes memory; nothing of it happens where there is not enough."""
        memory = self._memory
        if memory is None or self._dataflow.undo.is_at_work:
            return nullcontext()
        return memory.held(what, self._present)

    def _executor(self, rows: dict[ir.Source, int], placement: str | None) -> Executor:
        """Who runs a step that changes so many rows of each table. "auto" only considers a Spark
        session that is there already, runs, and whose executors see this session's files."""
        wanted = placement or self._placement
        if wanted == "auto":  # the cheapest question first: most sessions have no Spark
            work = estimate(self._dataflow, rows) if self._has_spark else 0
            pays = work > LEAST_WORK and self._side().can_run_steps
            wanted = "spark" if pays and work > self._side().break_even() else "inline"
        return self._inline if wanted == "inline" else self._side().executor

    def _placed(self) -> str | None:
        """Where steps run, for EXPLAIN; None where there is no choice."""
        if self._placement == "spark":
            return "spark: all steps run on Spark"
        if self._placement == "inline" or not self._has_spark:
            return None
        side = self._side()
        return introspect.placed_by_work(side.costs) if side.can_run_steps else None

    # -- what goes along with changes ------------------------------------------------------------

    def _follow(self, table: Table, delta: Delta) -> None:
        if self._verifier is None:
            return
        try:
            if len(delta):
                self._verifier.follow(table, delta)
            else:
                self._verifier.forget(table.name)
        except Exception:
            # A copy that can be made again must not fail the step.
            _log.warning("the verifier's copy of the tables is given up", exc_info=True)
            self._verifier.close()
            self._verifier = None

    def _dropped(self, name: str) -> None:
        self._subscriptions.forget(name)
        self._history.forget(name)
        if self._verifier is not None:
            self._verifier.forget(name)

    def _renamed(self, old: str, new: str) -> None:
        self._subscriptions.rename(old, new)
        self._history.rename(old, new)
        self._altered()

    def _altered(self) -> None:
        """Copies of tables by their names are not what they were."""
        if self._verifier is not None:
            self._verifier.close()

    def _replaced(self, old: View, new: View) -> None:
        epoch = self._writer.epoch
        rows = (self._dataflow.snapshot(v.root, epoch, v.owner) for v in (old, new))
        self._subscriptions.replace(old, new, *rows)
        if self._verifier is not None:
            self._verifier.forget(old.name)

    # -- reading ---------------------------------------------------------------------------------

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

    def _since(self, view: View, epoch: int) -> list[Change]:
        if isinstance(epoch, bool) or not isinstance(epoch, int):
            raise TypeError(f"since is an epoch, not {kind_of(epoch)}")
        return self._history.since(view.name, epoch, self.epoch)

    def _past(self, name: str, epoch: int) -> tuple[Version, Sequence[Change]]:
        with self._working():
            view = self._catalog.view(name)
            return self._versions.taken(view), self._since(view, epoch)

    def _version(self, name: str) -> Version:
        self._check_open()
        return self._versions.of(name)

    def _rows_of(self, view: View) -> pa.Table:
        return self._reader.rows(self._versions.taken(view))

    def _read(self, name: str) -> pa.Table:
        """All rows of a table or view."""
        with self._working():
            version = self._reads.version(name)
        return self._reader.rows(version)

    def _plan_read(
        self,
        name: str,
        columns: Sequence[str] | None = None,
        epoch: int | None = None,
        where: Mapping[str, Any] | None = None,
    ) -> Planned:
        """See Reads.plan; at an earlier epoch, what is retained of a view comes along."""
        with self._working():
            if epoch is None or epoch == self.epoch:
                return self._reads.plan(name, columns, where)
            return self._reads.given(name, columns, self._rows_as_of(name, epoch), epoch)

    def _frame(self, name: str) -> DataFrame:
        with self._working():
            return self._side().dataframe(self._reads.readable(self._catalog.view(name).name))

    def _dataframe(self, table: pa.Table) -> DataFrame:
        with self._working():
            return self._side().dataframe(table)

    def _select(self, text: str) -> Result:
        streams = [s.name for s in self._catalog.streams()]
        kept = [name for name in self._catalog.names() if name not in streams]
        text = parse.plain(text, self._schema, lambda name: self._catalog.find(name) is not None)
        text, asked = parse.without_epochs(text, self._catalog.names())
        past = {a.called: self._rows_as_of(a.name, a.epoch) for a in asked}

        def read(name: str) -> pa.Table | Readable:
            return past[name] if name in past else self._reads.readable(name)

        with interrupts.let_through():
            side = self._side()
            side.start()  # Spark, if it is started for this, has a say in the time zone
            zone = self._settings.zone()
            functions = self._catalog.functions()
            rows = side.select(text, [*kept, *past], read, zone, streams, functions)
        return Result(Selected(rows, zone))

    def _rows_as_of(self, name: str, epoch: int) -> pa.Table:
        entry = self._catalog.any(name)
        if not isinstance(entry, View):
            kind = "table" if isinstance(entry, Table) else "stream"
            raise DataError(
                f'cannot read {kind} "{entry.name}" as of an epoch',
                detail="Only the changes of materialized views are retained.",
                hint=f'Create a view "SELECT * FROM {entry.name}", and read that as of an epoch.',
            )
        return self._reader.before(*self._past(name, epoch))

    def _explain(self, statement: parse.ExplainView) -> Result:
        migration: Migration | None
        if statement.create is not None:
            with parse.placed(statement.create.query):
                planned = self._definitions.plan(statement.create)
                there = self._catalog.find(planned.name)
                migration = self._definitions.migration(
                    planned, there if isinstance(there, View) else None
                )
            query = statement.create.query
        else:
            planned = self._catalog.view(statement.name)
            migration = None if planned.computed else self._definitions.migration(planned)
            query = parse.parse_query(planned.text)
        placed = self._placed()
        plan = with_room(
            lambda: introspect.explanation(
                self._catalog, self._dataflow, planned, query, migration, placed
            )
        )
        return Explanation(Given(plan, self._dataframe))

    def _result(self, table: pa.Table) -> Result:
        return Result(Given(table, self._dataframe))

    # -- Spark -----------------------------------------------------------------------------------

    @property
    def _has_spark(self) -> bool:
        """Whether a Spark session may be there already; none is started to find out."""
        return self._given_spark is not None or self._spark_side is not None

    def _side(self) -> SparkSide:
        if self._spark_side is None:
            from sqlview.spark import SparkSide  # Spark costs seconds: only when it is needed

            values = None if self._spark_path is None or self._store is None else self._store.values
            self._spark_side = side = SparkSide(
                self._given_spark, self._spark_path, values, self._watch
            )
            if self._store is not None:
                self._store.lent = side.lending.files
        return self._spark_side

    def _spark_oracle(self, zone: str) -> Oracle:
        """Raises: CannotSay if there is no Spark and none can be started."""
        try:
            return self._side().oracle(zone, self._catalog.functions())
        except Exception as error:
            raise CannotSay(f"there is no Spark: {error}") from error

    def _active_spark(self) -> SparkSession | None:
        """The Spark session that queries would run on now; None if one would be started."""
        side = self._spark_side
        if side is not None and side.is_started:
            return side.spark
        if "pyspark.sql" not in sys.modules:
            return None
        from sqlview.spark.running import active_session

        return active_session()

    def _write_dataframe(
        self, table: Table, action: int, data: Any, cast: bool, placement: str | None
    ) -> StoredRows | None:
        """The rows of a Spark DataFrame in files of the store, if they are to be written there: of
        those that go the keys, where there is one."""
        wanted = placement or self._placement
        if self._spark_path is None or wanted == "inline":
            return None
        if action == DELETE and table.key is None:
            return None
        with self._working():
            side = self._side()
        if not side.writes(data, always=wanted == "spark"):
            return None
        return side.write(data, table, cast, self._settings.zone(), keys=action == DELETE)

    def _write_columns(self, table: Table, parts: Iterable[Sequence[Column]]) -> StoredRows:
        """The rows in files of the store. Raises: StoreError, and what `parts` raise."""
        assert self._store is not None, "what memory is limited by is in a store"
        lent = self._store.values.lend()
        try:
            return write_stored(
                parts, table.schema, table.key or (), self._store.path, lent.token, lent
            )
        except OSError as error:
            raise StoreError(
                f'the rows could not be written to the store "{self._store.path}"',
                detail=f"{error.strerror or error}.",
                hint="Make room, or mend what the detail says, and try again.",
            ) from error

    def _write_files(self, table: Table, files: Sequence[File], cast: bool) -> StoredRows | None:
        """As `_write_dataframe` the rows of files: those that have types, where all is placed on
        Spark."""
        if self._spark_path is None or self._placement != "spark":
            return None
        with self._working():
            side = self._side()
        if not side.can_write or any(file.format not in TYPED for file in files):
            return None
        return side.write_files(files, table, cast, self._settings.zone())

    def _read_dataframe(self, data: Any) -> pa.Table:
        with self._working():
            side = self._side()
        return side.read(data)

    # -- guards ----------------------------------------------------------------------------------

    @contextmanager
    def _working(self) -> Iterator[None]:
        """Hold the session. Ctrl-C is kept to the end of the block, but for where it is let
        through."""
        with interrupts.held():
            interrupts.acquire(self._lock)
            try:
                self._check_usable()
                yield
            finally:
                self._lock.release()

    def _check_usable(self) -> None:
        self._check_open()
        self._dataflow.undo.finish()

    def _check_open(self) -> None:
        if self._closed:
            raise SqlViewError("the session is closed", hint="Open another with sqlview.connect().")
        if self._damaged is not None:
            raise self._damaged.with_traceback(None)


def _present_of(session: weakref.ref[Session], writing: threading.Lock) -> Taken | None:
    """What a session has, as soon as nobody uses it, see store.Present; None if it ends before."""
    with _held(session) as held:
        if held is None or held._closed:
            return None
        return held._present(writing)


@contextmanager
def _held(session: weakref.ref[Session]) -> Iterator[Session | None]:
    """The session, as soon as nobody else holds it; None if it is closed before: who closes it may
    hold it, and waits for whoever waits here."""
    while (held := session()) is not None and held._store is not None:
        if held._store.is_stopping:
            break
        if held._lock.acquire(timeout=0.1):
            try:
                yield held
            finally:
                held._lock.release()
            return
        del held
    yield None


def _builder_of(session: weakref.ref[Session], placement: str) -> SparkExecutor | None:
    """See sqlview.building; the session holds what asks."""
    held = session()
    if held is None or placement == "inline":
        return None
    if placement == "auto" and not (held._has_spark and held._side().can_run_steps):
        return None
    return held._side().builder


def _refuse(session: weakref.ref[Session], error: StoreError) -> None:
    """The store is damaged: nobody is to use the session any more."""
    held = session()
    if held is not None:
        held._damaged = error
        held._versions.clear()


def _map_of(session: weakref.ref[Session]) -> None:
    """Let go the memory of what a checkpoint has, where it is limited."""
    with _held(session) as held:
        if held is not None and held._memory is not None and not held._closed:
            held._memory.map()


@contextmanager
def _creating(name: str) -> Iterator[None]:
    try:
        yield
    except DataError as error:
        raise about(f'create "{name}"', error) from None
