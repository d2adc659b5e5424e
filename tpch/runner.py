"""Installs the queries, streams TPC-H through them, measures, verifies.

**What is timed.** All transactions lie in memory as Arrow tables before the clock starts. The clock
runs from the start of the first step to the last commit; loading (`--load`), CREATE and a warm-up
come before. The warm-up runs the same queries in a session of its own over the head of the tables,
so that the compilation of the generic kernels, once per machine and version, is not counted. A
kernel that only larger steps reach may still compile in the timed part: to measure, run twice.
With `--verify every` the time of a run is the sum of its steps' times, since the checks lie between
them; otherwise nothing is left out. The rate of a query is the number of changed rows of the tables
that it reads over that time.

**Modes.** `together`: all views in one session over one stream, so one time for all. `each`: a new
session per query and a stream of the tables that it reads only.

Invariant: a run that returns has verified what it reports as verified; `Outcome.differences` is not
empty if any view ever differed.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from rich.console import Console

import sqlview
from tpch import stream
from tpch.checks import ChangedEpochs, Checks, Oracle, OracleMaker, SessionOracle, StreamOracle
from tpch.generate import MINIMUM_SCALE_FACTOR, generate, load, parquet_file
from tpch.lively import LIVELY_EVEN, LIVELY_SKEW
from tpch.queries import Query, select_queries, tables_of
from tpch.report import (
    Difference,
    QueryReport,
    ResidentMemory,
    RunReport,
    StepProgress,
    Totals,
    cores,
    geometric_mean,
    step_percentiles_ms,
    versions,
)
from tpch.schema import TABLES_BY_NAME

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MODES = ("together", "each")
ORDERS = ("in-order", "shuffled")
PLACEMENTS = ("auto", "inline", "spark")
VERIFY = ("none", "final", "every")

#: The name of the stream, by which a session knows how far it has come.
SOURCE = "tpch"

_WARM_UP_TABLE_ROWS = 2000
_WARM_UP_LOAD = 0.25
_WARM_UP_BATCHES = 3
_WARM_UP_BATCH_ROWS = 1000

#: Parameters of glibc's mallopt.
_M_TRIM_THRESHOLD, _M_MMAP_MAX = -1, -4


@dataclass(frozen=True, slots=True)
class RunOptions:
    """The options of `python -m tpch stream`; see there. `data` is where generated data is kept,
    `path` where Spark's executors find the sessions' files.

    `load_on_spark`: the load reads the Parquet files as Spark DataFrames, and the views are created
    after it, both placed on Spark.
    `store`: where the session is kept, of mode `together`; a run with the same options goes on from
    where another one stopped. `kill_after`: so many steps, then the process kills itself.
    `assert_lively`: in how many epochs at least each view must change after the load. `even`,
    `skew`: the shape of the churn; None: what goes with `params`.
    """

    sf: float = 0.1
    queries: str = "all"
    params: str = "spec"
    mode: str = "together"
    batch_rows: int = 1000
    deletes: float = 0.0
    even: float | None = None
    skew: float | None = None
    changes: int | None = None
    load: float = 0.0
    placement: str = "auto"
    master: str | None = None
    path: Path | None = None
    private: bool = False
    verify: str = "none"
    assert_lively: int | None = None
    order: str = "in-order"
    seed: int = 0
    data: Path | None = None
    load_on_spark: bool = False
    store: Path | None = None
    kill_after: int | None = None

    def __post_init__(self) -> None:
        if not self.sf >= MINIMUM_SCALE_FACTOR:
            raise ValueError(f"a scale factor is at least {MINIMUM_SCALE_FACTOR}, not {self.sf:g}")
        if self.load_on_spark and self.order != "in-order":
            raise ValueError("the load on Spark reads the files as they are: in order")
        if self.store is not None and self.mode != "together":
            raise ValueError("a store keeps one session: of mode together")
        if self.assert_lively is not None and self.assert_lively < 1:
            raise ValueError(
                f"a lively view changes in at least one epoch, not {self.assert_lively}"
            )
        select_queries(self.queries, self.params)
        stream.loaded_rows({}, self.load)
        self.stream_options()

    def stream_options(self) -> stream.StreamOptions:
        is_lively = self.params == "lively"
        even = (LIVELY_EVEN if is_lively else 0.0) if self.even is None else self.even
        skew = (LIVELY_SKEW if is_lively else 0.0) if self.skew is None else self.skew
        return stream.StreamOptions(
            self.batch_rows,
            self.deletes,
            changes=self.changes,
            seed=self.seed,
            even=even,
            skew=skew,
        )


@dataclass(frozen=True, slots=True)
class Outcome:
    """`still`: views that changed in fewer epochs than were asked for."""

    report: RunReport
    differences: tuple[Difference, ...]
    still: tuple[QueryReport, ...] = ()


@dataclass(frozen=True, slots=True)
class _Measured:
    """One session's part of a run."""

    queries: tuple[QueryReport, ...]
    rows: int
    seconds: float
    steps: int
    steps_inline: int
    steps_spark: int
    install_seconds: float
    load_rows: int
    load_seconds: float
    state_bytes: int
    table_bytes: int
    index_builds: int
    rss_start_bytes: int
    rss_peak_bytes: int
    arrangements: tuple[dict[str, Any], ...]


def run(
    options: RunOptions,
    *,
    console: Console | None = None,
    spark: SparkSession | None = None,
    connect: Callable[..., sqlview.Session] = sqlview.connect,
    oracle: OracleMaker | None = None,
    inspect: Callable[[sqlview.Session], None] | None = None,
) -> Outcome:
    """Run the stream as `options` say; progress goes to `console` (standard error by default).

    `spark`: the session to use; without one, one is started where it is needed and stopped at the
    end. `oracle` makes the oracle of each session; by default the session's own, or for every epoch
    one that follows the stream. `inspect` is called with each session at its end, while it is open.
    """
    console = console or Console(stderr=True)
    queries = select_queries(options.queries, options.params)
    names = tables_of(queries)
    console.print(f"Reading TPC-H at scale factor {options.sf:g}", highlight=False)
    directory = generate(options.sf, options.data)
    shuffle_seed = options.seed if options.order == "shuffled" else None
    tables = load(directory, names, shuffle_seed=shuffle_seed)
    groups = [queries] if options.mode == "together" else [(query,) for query in queries]
    checks, memory = Checks(), ResidentMemory()
    if oracle is None:
        oracle = StreamOracle if options.verify == "every" else SessionOracle
    measured: list[_Measured] = []
    with spark_session(options, spark) as session:
        runner = _Runner(
            options, directory, tables, session, connect, oracle, checks, memory, console, inspect
        )
        console.print("Warming up", highlight=False)
        runner.warm_up(queries)
        for group in groups:
            measured.append(runner.measure(group))
            if checks.differences:
                break
    report = _summarise(options, measured, checks)
    least = options.assert_lively or 0
    still = tuple(query for query in report.queries if (query.changed_epochs or 0) < least)
    return Outcome(report, tuple(checks.differences), still)


@contextlib.contextmanager
def spark_session(options: RunOptions, given: SparkSession | None) -> Iterator[SparkSession | None]:
    """The Spark session to share between sessions, or None where nothing asks for one yet."""
    wanted = options.master is not None or options.placement == "spark" or options.load_on_spark
    if given is not None or not wanted:
        yield given
        return
    spark = sqlview.start_spark(options.master)
    try:
        yield spark
    finally:
        spark.stop()


@contextlib.contextmanager
def open_session(
    options: RunOptions,
    queries: Sequence[Query],
    spark: SparkSession | None,
    connect: Callable[..., sqlview.Session] = sqlview.connect,
    load: Callable[[sqlview.Session], None] | None = None,
) -> Iterator[sqlview.Session]:
    """A session with the tables and views of `queries`: empty, or as the store has them. `load`:
    brings rows into new tables before the views are created."""
    with contextlib.ExitStack() as stack:
        path: Path | str | None = options.store
        if (
            path is None and options.path is not None
        ):  # a store of this run alone, of which nothing is to stay
            options.path.mkdir(parents=True, exist_ok=True)
            path = stack.enter_context(TemporaryDirectory(prefix="tpch-", dir=options.path))
        db = stack.enter_context(
            connect(
                path,
                spark=spark,
                placement="spark" if options.load_on_spark else options.placement,
                share=not options.private,
                durability="close" if options.store is None else "commit",
            )
        )
        there: set[str] = set()
        if options.store is not None:
            there.update(db.sql("SHOW TABLES").to_arrow()["table"].to_pylist())
            there.update(db.sql("SHOW VIEWS").to_arrow()["view"].to_pylist())
        for name in tables_of(queries):
            if name not in there:
                db.sql(TABLES_BY_NAME[name].sql)
        if load is not None and db.position(SOURCE) is None:
            load(db)
        for query in queries:
            if query.name not in there:
                db.sql(query.create_sql)
        yield db


@dataclass(frozen=True, slots=True)
class Cut:
    """The first `rows` rows of a table: those whose `column` is less than `key`."""

    rows: int
    column: str
    key: int


def spark_load_cuts(tables: Mapping[str, pa.Table], share: float) -> dict[str, Cut]:
    """About `share` of each table, cut where the leading column of its key changes.

    Requires: tables in the order of their keys.
    """
    cuts: dict[str, Cut] = {}
    for name, rows in tables.items():
        column = TABLES_BY_NAME[name].primary_key[0]
        keys = rows.column(column).to_numpy()
        key = keys[min(int(len(keys) * share), len(keys) - 1)]
        cuts[name] = Cut(int(keys.searchsorted(key)), column, int(key))
    return cuts


@dataclass(frozen=True, slots=True)
class _Runner:
    """What all sessions of a run have in common."""

    options: RunOptions
    directory: Path
    tables: Mapping[str, pa.Table]
    spark: SparkSession | None
    connect: Callable[..., sqlview.Session]
    oracle: OracleMaker
    checks: Checks
    memory: ResidentMemory
    console: Console
    inspect: Callable[[sqlview.Session], None] | None

    def warm_up(self, queries: Sequence[Query]) -> None:
        """Run the queries over the head of each table, in a session that is thrown away."""
        heads = {name: rows.slice(0, _WARM_UP_TABLE_ROWS) for name, rows in self.tables.items()}
        options = replace(
            self.options.stream_options(),
            batch_rows=_WARM_UP_BATCH_ROWS,
            changes=_WARM_UP_BATCHES * _WARM_UP_BATCH_ROWS,
        )
        table_rows = {name: rows.num_rows for name, rows in heads.items()}
        loaded = stream.loaded_rows(table_rows, _WARM_UP_LOAD)
        batches = stream.prebatch(stream.plan_stream(table_rows, loaded, options), heads)
        path = self.options.path
        if path is None and self.options.store is not None:
            path = self.options.store.absolute().parent  # which executors see, too
        with self._session(
            queries, replace(self.options, store=None, path=path, load_on_spark=False)
        ) as db:
            for batch in [stream.initial_batch(heads, loaded), *batches]:
                with db.transaction() as tx:
                    stream.apply(batch, tx)

    def measure(self, queries: Sequence[Query]) -> _Measured:
        """Stream the tables that `queries` read through one new session, timed."""
        tables = {name: self.tables[name] for name in tables_of(queries)}
        table_rows = {name: rows.num_rows for name, rows in tables.items()}
        cuts = spark_load_cuts(tables, self.options.load) if self.options.load_on_spark else {}
        loaded = stream.loaded_rows(table_rows, self.options.load)
        loaded |= {name: cut.rows for name, cut in cuts.items()}
        initial = stream.initial_batch(tables, loaded)
        plans = stream.plan_stream(table_rows, loaded, self.options.stream_options())
        batches = stream.prebatch(plans, tables)
        warm_memory(2 * sum(rows.nbytes for rows in tables.values()))
        self.memory.start()
        load_seconds = 0.0

        def load(db: sqlview.Session) -> None:
            nonlocal load_seconds
            before = time.perf_counter()
            self._load(db, initial, cuts)
            load_seconds += time.perf_counter() - before

        started = time.perf_counter()
        with (
            self._session(queries, self.options, load if cuts else None) as db,
            contextlib.closing(self.oracle(queries)) as oracle,
        ):
            install_seconds = time.perf_counter() - started - load_seconds
            done = None if self.options.store is None else db.position(SOURCE)
            if done is not None and not load_seconds:
                self.console.print(f"Going on after step {done} of {len(batches)}", highlight=False)
                batches = batches[done:]
            elif initial.rows and not load_seconds:
                load(db)
            changed = ChangedEpochs()
            if self.options.assert_lively is not None:
                changed.follow(db, queries)
            placements: list[str] = []
            before = {name: view.seconds for name, view in db.metrics().views.items()}
            step_seconds, seconds = self._stream(
                db, queries, oracle, initial, batches, placements, done or 0
            )
            rss_peak_bytes = self.memory.peak_bytes()
            metrics = db.metrics()
            arrangements = db.arrangements().to_pylist()
            if self.options.verify == "final":
                self.checks.run(oracle, db, queries)
            if self.inspect is not None:
                self.inspect(db)
        batches = batches[: len(step_seconds)]
        return _Measured(
            queries=tuple(
                replace(
                    _query_report(
                        q,
                        batches,
                        step_seconds,
                        placements,
                        seconds,
                        metrics,
                        arrangements,
                        before[q.name],
                    ),
                    changed_epochs=changed.count(q.name),
                )
                for q in queries
            ),
            rows=sum(batch.rows for batch in batches),
            seconds=seconds,
            steps=len(step_seconds),
            steps_inline=placements.count("inline"),
            steps_spark=placements.count("spark"),
            install_seconds=install_seconds,
            load_rows=initial.rows if load_seconds else 0,
            load_seconds=load_seconds,
            state_bytes=metrics.state_bytes,
            table_bytes=metrics.table_bytes,
            index_builds=metrics.index_builds,
            rss_start_bytes=self.memory.start_bytes,
            rss_peak_bytes=rss_peak_bytes,
            arrangements=tuple(arrangements),
        )

    def _session(
        self,
        queries: Sequence[Query],
        options: RunOptions,
        load: Callable[[sqlview.Session], None] | None = None,
    ) -> contextlib.AbstractContextManager[sqlview.Session]:
        return open_session(options, queries, self.spark, self.connect, load)

    def _load(self, db: sqlview.Session, initial: stream.Batch, cuts: Mapping[str, Cut]) -> None:
        """Bring in the first rows of each table, in one transaction."""
        if not cuts:
            with db.transaction() as tx:
                stream.apply(initial, tx)
                self._mark(tx, 0)
            return
        assert self.spark is not None
        self.console.print(f"Loading {initial.rows:,} rows through Spark", highlight=False)
        with db.transaction(placement="spark") as tx:
            for name, cut in cuts.items():
                frame = self.spark.read.parquet(str(parquet_file(self.directory, name)))
                tx.insert(name, frame.where(frame[cut.column] < cut.key))
            self._mark(tx, 0)

    def _mark(self, tx: sqlview.Transaction, number: int) -> None:
        """Commit with a step which one it is, where another run is to go on from it."""
        if self.options.store is not None:
            tx.source(SOURCE, number)

    def _stream(
        self,
        db: sqlview.Session,
        queries: Sequence[Query],
        oracle: Oracle,
        initial: stream.Batch,
        batches: Sequence[stream.Batch],
        placements: list[str],
        done: int,
    ) -> tuple[list[float], float]:
        """Apply the batches, before which there were so many, until the end or the first
        difference: each step's time, and all's. Where each ran is entered into `placements`."""
        every = self.options.verify == "every"
        if every and initial.rows:
            self.checks.apply(oracle, initial)
            if not self.checks.run(oracle, db, queries):
                return [], 0.0
        title = queries[0].name if self.options.mode == "each" else "Streaming"
        step_seconds: list[float] = []
        clock = time.perf_counter
        progress = StepProgress(title, sum(batch.rows for batch in batches), self.console)
        with garbage_collected(), progress:
            started = finished = clock()
            for number, batch in enumerate(batches, done + 1):
                before = clock()
                with db.transaction(self.options.placement) as tx:
                    stream.apply(batch, tx)
                    self._mark(tx, number)
                finished = clock()
                if number == self.options.kill_after:
                    os.kill(os.getpid(), signal.SIGKILL)
                step_seconds.append(finished - before)
                assert db.last_step is not None
                placements.append(db.last_step.placement)
                progress.step(batch.rows, finished - before)
                if every:
                    self.checks.apply(oracle, batch)
                    if not self.checks.run(oracle, db, queries):
                        break
        return step_seconds, sum(step_seconds) if every else finished - started


def _query_report(
    query: Query,
    batches: Sequence[stream.Batch],
    step_seconds: Sequence[float],
    placements: Sequence[str],
    seconds: float,
    metrics: sqlview.Metrics,
    arrangements: Sequence[Mapping[str, Any]],
    seconds_before: float,
) -> QueryReport:
    """What the timed part, `batches`, did to one view, whose operators had taken `seconds_before`
    when it began."""
    rows = [
        sum(change.rows.num_rows for change in batch.changes if change.table in query.tables)
        for batch in batches
    ]
    touching = [took for took, read in zip(step_seconds, rows, strict=True) if read]
    p50_ms, p95_ms, max_ms = step_percentiles_ms(touching)
    own = [placement for placement, read in zip(placements, rows, strict=True) if read]
    readers = {
        reader
        for index in arrangements
        if query.name in index["readers"]
        for reader in index["readers"]
        if not reader.startswith("(")
    }
    view = metrics.views[query.name]
    return QueryReport(
        query=query.name,
        rows=sum(rows),
        seconds=seconds,
        rows_per_second=sum(rows) / seconds if seconds else 0.0,
        steps=len(touching),
        steps_inline=own.count("inline"),
        steps_spark=own.count("spark"),
        p50_ms=p50_ms,
        p95_ms=p95_ms,
        max_ms=max_ms,
        own_ms=1000 * (view.seconds - seconds_before) / max(len(touching), 1),
        changes=view.changes,
        state_bytes=view.state_bytes,
        arrangements=view.arrangements,
        shared_arrangements=view.shared_arrangements,
        shared_with=len(readers - {query.name}),
        verified=None,
        verified_epochs=0,
        changed_epochs=None,
    )


def available_bytes() -> int | None:
    """Memory that can be taken without swapping, where the system tells."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return None


def warm_memory(nbytes: int, keep: bool = False) -> None:
    """Touch that much memory, at most half of what is free, and give it back to the system.

    The host of a virtual machine takes back pages that lie idle, and to get them again costs the
    stream up to three times what it does itself. `keep`: it may take back freed ones too, so they
    stay in the process, those that it frees later included; its resident memory tells nothing then.
    """
    if keep:
        _keep_freed_memory()
    there = available_bytes()
    if there is not None:
        touched = np.empty(min(nbytes, there // 2), np.uint8)
        touched[::4096] = 1


def _keep_freed_memory() -> None:
    """Have glibc take large arrays from its heap and never give that back; nothing elsewhere."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if os.name == "posix" else None
    if mallopt is not None:
        mallopt(_M_MMAP_MAX, 0)
        mallopt(_M_TRIM_THRESHOLD, -1)


@contextlib.contextmanager
def garbage_collected() -> Iterator[None]:
    """Keep the garbage collector from walking the prepared batches again and again."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def _summarise(
    options: RunOptions,
    measured: Sequence[_Measured],
    checks: Checks,
) -> RunReport:
    queries = tuple(
        replace(
            query,
            verified=checks.verdict(query.query),
            verified_epochs=checks.epochs.get(query.query, 0),
        )
        for part in measured
        for query in part.queries
    )
    rows = sum(part.rows for part in measured)
    seconds = sum(part.seconds for part in measured)
    totals = Totals(
        rows=rows,
        seconds=seconds,
        rows_per_second=rows / seconds if seconds else 0.0,
        geometric_mean_rows_per_second=geometric_mean([query.rows_per_second for query in queries]),
        steps=sum(part.steps for part in measured),
        steps_inline=sum(part.steps_inline for part in measured),
        steps_spark=sum(part.steps_spark for part in measured),
        install_seconds=sum(part.install_seconds for part in measured),
        load_rows=sum(part.load_rows for part in measured),
        load_seconds=sum(part.load_seconds for part in measured),
        verify_seconds=checks.seconds,
        state_bytes=sum(part.state_bytes for part in measured),
        table_bytes=sum(part.table_bytes for part in measured),
        index_builds=sum(part.index_builds for part in measured),
        rss_start_bytes=max((part.rss_start_bytes for part in measured), default=0),
        rss_peak_bytes=max((part.rss_peak_bytes for part in measured), default=0),
        arrangements=tuple(row for part in measured for row in part.arrangements),
    )
    return RunReport(
        sf=options.sf,
        params=options.params,
        batch_rows=options.batch_rows,
        mode=options.mode,
        placement=options.placement,
        order=options.order,
        deletes=options.deletes,
        load=options.load,
        seed=options.seed,
        sharing=not options.private,
        cores=cores(),
        versions=versions(),
        queries=queries,
        totals=totals,
    )
