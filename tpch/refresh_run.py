"""`python -m tpch refresh`: loads all tables, then runs pairs of refresh functions and times them.

RF1 and RF2 are one transaction each. With a session per query (`each`) every view has a time of its
own for each pair, with the upkeep of its tables in it; a session gets the changes of the tables
that its queries read only, so that a view of neither orders nor lineitem has nothing to do.

Invariant: a run that returns has verified what it reports as verified; `Outcome.differences` is not
empty if any view ever differed.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich import box
from rich.console import Console
from rich.table import Table

import sqlview
from tpch import stream
from tpch.checks import Checks, Oracle, SessionOracle, StreamOracle
from tpch.generate import generate, load
from tpch.queries import Query, select_queries, tables_of
from tpch.refresh import Pair, refresh_pairs
from tpch.report import Difference, cores, versions
from tpch.runner import RunOptions, open_session, spark_session
from tpch.stream import Batch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: In place of a query's name where one session has all views.
ALL = "all"


@dataclass(frozen=True, slots=True)
class PairReport:
    """One pair in one session: changed rows of the tables that it has, and the steps' times.

    `query` is ALL where the session has all views. `changes`: rows of signed deltas of its views.
    """

    query: str
    pair: int
    insert_rows: int
    insert_ms: float
    delete_rows: int
    delete_ms: float
    changes: int


@dataclass(frozen=True, slots=True)
class ViewReport:
    """`verified`: None if it was not, else whether it was always right, at `verified_epochs`."""

    query: str
    verified: bool | None
    verified_epochs: int


@dataclass(frozen=True, slots=True)
class RefreshReport:
    """The run. `load_rows`, `load_seconds`: over all sessions, before the pairs."""

    sf: float
    params: str
    mode: str
    placement: str
    seed: int
    cores: int
    versions: dict[str, str]
    load_rows: int
    load_seconds: float
    pairs: tuple[PairReport, ...]
    queries: tuple[ViewReport, ...]

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self), indent=2) + "\n"


@dataclass(frozen=True, slots=True)
class Outcome:
    report: RefreshReport
    differences: tuple[Difference, ...]


def run(
    options: RunOptions,
    pairs: int,
    *,
    console: Console | None = None,
    spark: SparkSession | None = None,
) -> Outcome:
    """Run the first `pairs` pairs as `options` say; progress goes to `console`."""
    console = console or Console(stderr=True)
    queries = select_queries(options.queries, options.params)
    console.print(f"Reading TPC-H at scale factor {options.sf:g}", highlight=False)
    tables = load(generate(options.sf, options.data))
    changes = list(refresh_pairs(tables, pairs, options.seed))
    groups = [queries] if options.mode == "together" else [(query,) for query in queries]
    checks = Checks()
    reports: list[PairReport] = []
    load_rows, load_seconds = 0, 0.0
    with spark_session(options, spark) as session:
        for group in groups:
            names = tables_of(group)
            base = {name: tables[name] for name in names}
            initial = stream.initial_batch(base, {n: t.num_rows for n, t in base.items()})
            make = StreamOracle if options.verify == "every" else SessionOracle
            with (
                open_session(options, group, session) as db,
                contextlib.closing(make(group)) as oracle,
            ):
                runner = _Pairs(db, group, oracle, options.verify == "every", checks)
                load_seconds += runner.commit(initial)
                load_rows += initial.rows
                console.print(f"{runner.name}: {initial.rows:,} rows loaded", highlight=False)
                for pair in changes:
                    if checks.differences:
                        break
                    reports.append(runner.run(pair))
                if options.verify == "final":
                    checks.run(oracle, db, group)
            if checks.differences:
                break
    views = tuple(
        ViewReport(query.name, checks.verdict(query.name), checks.epochs.get(query.name, 0))
        for query in queries
    )
    report = RefreshReport(
        sf=options.sf,
        params=options.params,
        mode=options.mode,
        placement=options.placement,
        seed=options.seed,
        cores=cores(),
        versions=versions(),
        load_rows=load_rows,
        load_seconds=load_seconds,
        pairs=tuple(reports),
        queries=views,
    )
    return Outcome(report, tuple(checks.differences))


@dataclass(frozen=True, slots=True)
class _Pairs:
    """Runs pairs in one session."""

    db: sqlview.Session
    queries: Sequence[Query]
    oracle: Oracle
    is_checked: bool
    checks: Checks

    @property
    def name(self) -> str:
        return self.queries[0].name if len(self.queries) == 1 else ALL

    def run(self, pair: Pair) -> PairReport:
        before = self._changes()
        inserts, deletes = self._part(pair.inserts), self._part(pair.deletes)
        insert_seconds = self.commit(inserts)
        delete_seconds = self.commit(deletes)
        return PairReport(
            query=self.name,
            pair=pair.number,
            insert_rows=inserts.rows,
            insert_ms=insert_seconds * 1000,
            delete_rows=deletes.rows,
            delete_ms=delete_seconds * 1000,
            changes=self._changes() - before,
        )

    def commit(self, batch: Batch) -> float:
        """Apply `batch` in one transaction, and verify if each is to be; the seconds it took."""
        if not batch.rows:
            return 0.0
        started = time.perf_counter()
        with self.db.transaction() as tx:
            stream.apply(batch, tx)
        seconds = time.perf_counter() - started
        if self.is_checked:
            self.checks.apply(self.oracle, batch)
            self.checks.run(self.oracle, self.db, self.queries)
        return seconds

    def _part(self, batch: Batch) -> Batch:
        names = tables_of(self.queries)
        return Batch(tuple(change for change in batch.changes if change.table in names))

    def _changes(self) -> int:
        return sum(self.db.view(query.name).changes for query in self.queries)


def print_report(report: RefreshReport, console: Console) -> None:
    """A row per session: the median time of each function, and the rows."""
    table = Table(
        title=f"TPC-H refresh functions at scale factor {report.sf:g}",
        title_justify="left",
        box=box.SIMPLE_HEAD,
    )
    table.add_column("view")
    for name in ("pairs", "RF1 rows", "RF1 p50 ms", "RF1 max", "RF2 rows", "RF2 p50 ms", "RF2 max"):
        table.add_column(name, justify="right")
    table.add_column("changes\nout", justify="right")
    table.add_column("verified")
    verified = {view.query: view for view in report.queries}
    for name in dict.fromkeys(pair.query for pair in report.pairs):
        pairs = [pair for pair in report.pairs if pair.query == name]
        views = list(report.queries) if name == ALL else [verified[name]]
        table.add_row(
            name,
            f"{len(pairs):,}",
            f"{sum(pair.insert_rows for pair in pairs):,}",
            *_times([pair.insert_ms for pair in pairs]),
            f"{sum(pair.delete_rows for pair in pairs):,}",
            *_times([pair.delete_ms for pair in pairs]),
            f"{sum(pair.changes for pair in pairs):,}",
            _verdict(views),
        )
    console.print(table)
    console.print(
        f"{report.load_rows:,} rows loaded in {report.load_seconds:.2f} s", highlight=False
    )


def _times(milliseconds: Sequence[float]) -> tuple[str, str]:
    ordered = sorted(milliseconds)
    return f"{ordered[len(ordered) // 2]:.2f}", f"{ordered[-1]:.1f}"


def _verdict(views: Sequence[ViewReport]) -> str:
    if all(view.verified is None for view in views):
        return "-"
    wrong = [view.query for view in views if view.verified is False]
    if wrong:
        return f"[bold red]NO: {', '.join(wrong)}[/]"
    return f"{min(view.verified_epochs for view in views):,} epochs"
