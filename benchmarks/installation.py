"""From CREATE to the first result: python -m benchmarks.installation --sf 1

Parsing, planning, building what indexes are missing, the first result and reading it, in two parts.

Live queries (after Shared Arrangements, Figure 1 a): the tables arrive round-robin, lineitem as a
stream of events of which nothing is retained. Queries come and go while they do: `--live` views are
installed at any time; at `--installations` moments spread over the arrival the oldest is dropped,
and one that is not installed, at random, takes its place. A query over lineitem is *windowed*: it
sees the events from its installation on, so its first result is empty; the others are over the
history of their tables. Once with arrangements shared between the views, once with none shared.

History: each query over loaded tables, lineitem among them:

    live     all the other queries are installed, and the new one reads their indexes where it can
    first    nothing is installed: the query builds all that it reads
    private  nothing is shared (`share=False`): as `first`, and what two parts of the query could
             read together is built twice

Each query is created and dropped again `--runs` times; the median counts.

Invariant: every result was equal to its recompute: in the history before it was timed; of the live
queries, all that can be maintained over the stream are installed once more when only lineitem is
left to arrive, and compared with a recompute over the tables and the events that they saw.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

import sqlview
from benchmarks import common
from benchmarks.arrival import RoundRobin, step
from sqlview.oracle import DuckDBOracle
from tpch import stream
from tpch.generate import generate, load
from tpch.queries import Query, select_queries, tables_of
from tpch.report import geometric_mean
from tpch.runner import RunOptions, garbage_collected, open_session, warm_memory
from tpch.schema import TABLES_BY_NAME

#: Of the live queries: whether views share arrangements.
SHARING = ("shared", "private")
#: Of the history.
SETTINGS = ("live", "first", "private")
#: The table that arrives as a stream.
WINDOWED = "lineitem"

#: Of the arrival, after which the queries are installed to be checked: all but lineitem is there.
_CHECKED_FROM = 0.95
#: Touched before the clock starts.
_WARM_BYTES = 2 << 30


@dataclass(frozen=True, slots=True)
class Arrival:
    """One installation among live queries, after `position` rows had arrived. `cpu_ms`: of it, on
    the processor; `rows`: of the first result; `index_builds`: the indexes that it had to build,
    its own rows' included."""

    query: str
    sharing: str
    is_windowed: bool
    position: int
    ms: float
    cpu_ms: float
    rows: int
    index_builds: int


@dataclass(frozen=True, slots=True)
class Live:
    """The run of live queries in one setting: seconds of its steps, state at most."""

    sharing: str
    rows: int
    step_seconds: tuple[float, ...]
    state_peak_bytes: int


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A query that cannot be maintained over the stream, and why."""

    query: str
    reason: str


@dataclass(frozen=True, slots=True)
class Installation:
    """One query over history in one setting. `index_builds`: the indexes that it had to build;
    `state_bytes`: by how much it made the state grow."""

    query: str
    setting: str
    median_ms: float
    max_ms: float
    index_builds: int
    state_bytes: int


def main(arguments: Sequence[str] | None = None) -> int:
    parser = common.parser("installation", __doc__)
    common.add_tpch_options(parser)
    parser.add_argument("--sf", type=float, default=1.0, help="scale factor (%(default)s)")
    for name, default, text in (
        ("live", 10, "queries that are live at a time"),
        ("installations", 200, "installations while the tables arrive"),
        ("batch-rows", 10_000, "changed rows per transaction of the arrival"),
        ("runs", 5, "installations of each query in each setting over history"),
    ):
        parser.add_argument(
            f"--{name}", type=common.positive, default=default, metavar="N",
            help=f"{text} (%(default)s)",
        )  # fmt: skip
    quick = {"sf": 0.01, "installations": 20, "batch_rows": 2_000, "runs": 1}
    given = common.parse(parser, arguments, quick)
    return common.guarded(lambda: _main(given))


def _main(given: argparse.Namespace) -> None:
    queries = select_queries(given.queries)
    results = common.Results("installation", given)
    console = common.progress()
    data = load(generate(given.sf, given.data), tables_of(queries))
    console.print("Warming up")
    common.warm_up(queries, data)
    maintained, left_out = _maintained(queries, data)
    arrivals: list[Arrival] = []
    runs: list[Live] = []
    for sharing in SHARING:
        console.print(f"Live queries, arrangements {sharing}")
        own, run = live(sharing, maintained, data, given)
        arrivals += own
        runs.append(run)
    installations: list[Installation] = []
    answers = common.Answers(queries, data)
    for setting in SETTINGS:
        console.print(f"History: {setting}")
        installations += history(setting, queries, data, answers, given.runs)
    answers.close()
    found = results.write(
        {
            "arrivals": arrivals,
            "live": runs,
            "left_out": left_out,
            "installations": installations,
        }
    )
    common.show_figures(tables(found))
    common.show_targets(targets(found))
    _draw(results, found)


# -- live queries ------------------------------------------------------------------------------


@contextmanager
def _streaming(sharing: str, tables: Mapping[str, pa.Table]) -> Iterator[sqlview.Session]:
    """A session with empty tables, lineitem a stream."""
    with sqlview.connect(placement="inline", share=sharing == "shared") as db:
        for name in tables:
            table = TABLES_BY_NAME[name]
            if name == WINDOWED:
                columns = ", ".join(f"{column} {kind} NOT NULL" for column, kind in table.columns)
                db.sql(f"CREATE STREAM {name} ({columns})")
            else:
                db.sql(table.sql)
        yield db


def _maintained(
    queries: Sequence[Query], tables: Mapping[str, pa.Table]
) -> tuple[list[Query], list[LeftOut]]:
    """The queries that can be maintained over the stream, and the others."""
    maintained: list[Query] = []
    left_out: list[LeftOut] = []
    with _streaming("shared", tables) as db:
        for query in queries:
            try:
                db.sql(query.create_sql)
                maintained.append(query)
            except sqlview.UnsupportedError as error:
                left_out.append(LeftOut(query.name, error.message))
    return maintained, left_out


def live(
    sharing: str,
    queries: Sequence[Query],
    tables: Mapping[str, pa.Table],
    given: argparse.Namespace,
) -> tuple[list[Arrival], Live]:
    """Let queries come and go while the tables arrive.

    Raises: common.WrongAnswerError if a view differs from its recompute.
    """
    rng = np.random.default_rng(given.seed)
    arrival = RoundRobin(tables)
    checked_from = int(arrival.total * _CHECKED_FROM)
    moments = np.linspace(0, checked_from, given.installations, endpoint=False).astype(int)
    arrivals: list[Arrival] = []
    seconds: list[float] = []
    peak_bytes = 0
    installed: list[Query] = []
    warm_memory(_WARM_BYTES, keep=True)
    with _streaming(sharing, tables) as db, garbage_collected():

        def install(query: Query) -> None:
            before = db.metrics().index_builds
            created = _create(db, query)
            builds = db.metrics().index_builds - before
            is_windowed = WINDOWED in query.tables
            arrivals.append(
                Arrival(query.name, sharing, is_windowed, arrival.position, *created, builds)
            )
            installed.append(query)

        for moment in moments.tolist():
            seconds += _arrive(db, arrival, moment, given.batch_rows)
            if len(installed) == min(given.live, len(queries) - 1):
                _drop(db, [installed.pop(0)])
            waiting = [query for query in queries if query not in installed]
            install(waiting[int(rng.integers(len(waiting)))])
            peak_bytes = max(peak_bytes, db.metrics().state_bytes)
        seconds += _arrive(db, arrival, checked_from, given.batch_rows)
        _drop(db, installed)
        seen = arrival.arrived(WINDOWED) if WINDOWED in tables else 0
        for query in queries:
            _create(db, query)
        _arrive(db, arrival, arrival.total, given.batch_rows)
        _check_live(db, queries, tables, seen)
    return arrivals, Live(sharing, arrival.total, tuple(seconds), peak_bytes)


def _arrive(
    db: sqlview.Session, arrival: RoundRobin, position: int, batch_rows: int
) -> list[float]:
    """Apply what comes before `position`; the seconds of each step."""
    seconds: list[float] = []
    while arrival.position < position:
        batches = arrival.next(min(batch_rows, position - arrival.position), 1)
        arrival.arrive(batches)
        seconds += [step(db, batch) for batch in batches]
    return seconds


def _check_live(
    db: sqlview.Session, queries: Sequence[Query], tables: Mapping[str, pa.Table], seen: int
) -> None:
    """Compare views that were installed when `seen` events had gone by and, lineitem being by far
    the largest, all other tables were complete."""
    with DuckDBOracle() as oracle:
        for name, rows in tables.items():
            oracle.load(name, rows.slice(seen) if name == WINDOWED else rows)
        for query in queries:
            expected = oracle.query(query.sql, db.view(query.name).schema)
            ordered = oracle.is_ordered(query.sql)
            common.check_view(db, query.name, expected, is_ordered=ordered, where="live queries")


# -- history -----------------------------------------------------------------------------------


def history(
    setting: str,
    queries: Sequence[Query],
    tables: Mapping[str, pa.Table],
    answers: common.Answers,
    runs: int,
) -> list[Installation]:
    """Install and drop each query in turn, in one session with loaded tables.

    Raises: common.WrongAnswerError if a view differs from its recompute.
    """
    found: list[Installation] = []
    options = RunOptions(placement="inline", private=setting == "private")
    initial = stream.initial_batch(tables, {name: rows.num_rows for name, rows in tables.items()})
    warm_memory(_WARM_BYTES, keep=True)
    with open_session(options, queries, None) as db, garbage_collected():
        _drop(db, queries)
        step(db, initial)
        if setting == "live":
            for query in queries:
                _create(db, query)
        for query in queries:
            if setting == "live":
                _drop(db, [query])
            _create(db, query)
            answers.check(db, [query], f"history, {setting}")
            install_ms: list[float] = []
            for _ in range(runs):
                _drop(db, [query])
                before = db.metrics()
                install_ms.append(_create(db, query)[0])
                after = db.metrics()
            if setting != "live":
                _drop(db, [query])
            found.append(
                Installation(
                    query.name,
                    setting,
                    float(np.median(install_ms)),
                    max(install_ms),
                    after.index_builds - before.index_builds,
                    after.state_bytes - before.state_bytes,
                )
            )
    return found


def _create(db: sqlview.Session, query: Query) -> tuple[float, float, int]:
    """The milliseconds from CREATE to the rows of the view, those on the processor (a shared
    machine's are fewer), and how many rows they are."""
    started, cpu_started = time.perf_counter(), time.thread_time()
    db.sql(query.create_sql)
    rows: pa.Table = db.view(query.name).to_arrow()
    ms = (time.perf_counter() - started) * 1000
    return ms, (time.thread_time() - cpu_started) * 1000, rows.num_rows


def _drop(db: sqlview.Session, queries: Sequence[Query]) -> None:
    for query in queries:
        db.sql(f"DROP MATERIALIZED VIEW {query.name}")


# -- what is shown -----------------------------------------------------------------------------


def _latencies(
    result: Mapping[str, Any], sharing: str, is_windowed: bool, clock: str = "ms"
) -> list[float]:
    return [
        each[clock]
        for each in result["arrivals"]
        if each["sharing"] == sharing and each["is_windowed"] == is_windowed
    ]


def _kind(is_windowed: bool) -> str:
    return "windowed" if is_windowed else "over history"


def tables(result: Mapping[str, Any]) -> list[common.Figures]:
    settings = result["settings"]
    spread: list[tuple[str, ...]] = []
    for is_windowed in (True, False):
        for sharing in SHARING:
            found = _latencies(result, sharing, is_windowed)
            if found:
                ms = common.percentiles_ms([each / 1000 for each in found])
                cpu = _latencies(result, sharing, is_windowed, "cpu_ms")
                spread.append(
                    (
                        f"{_kind(is_windowed)}, {sharing}",
                        str(len(found)),
                        *(common.number(ms[k]) for k in ("p50_ms", "p95_ms", "max_ms")),
                        common.number(float(np.median(cpu))),
                    )
                )
    steps: list[tuple[str, ...]] = []
    for each in result["live"]:
        ms = common.percentiles_ms(each["step_seconds"])
        steps.append(
            (
                each["sharing"],
                *(common.number(ms[k]) for k in ("p50_ms", "p95_ms", "p99_ms", "max_ms")),
                common.mib(each["state_peak_bytes"]),
            )
        )
    left_out = ", ".join(each["query"] for each in result["left_out"])
    note = f" (not over a stream: {left_out})" if left_out else ""
    return [
        common.Figures(
            f"CREATE to first result among {settings['live']} live queries, scale factor "
            f"{settings['sf']:g}{note}",
            ("", "installations", "p50 ms", "p95 ms", "max ms", "p50 CPU ms"),
            tuple(spread),
        ),
        common.Figures(
            f"Steps of {settings['batch_rows']:,} rows meanwhile",
            ("", "p50 ms", "p95 ms", "p99 ms", "max ms", "state at most, MiB"),
            tuple(steps),
        ),
        _history_figures(result),
    ]


def _history_figures(result: Mapping[str, Any]) -> common.Figures:
    by_place = {(each["query"], each["setting"]): each for each in result["installations"]}
    names = list(dict.fromkeys(each["query"] for each in result["installations"]))
    rows = [
        (
            name,
            *(common.number(by_place[name, s]["median_ms"]) for s in SETTINGS),
            *(str(by_place[name, s]["index_builds"]) for s in SETTINGS),
            *(f"{by_place[name, s]['state_bytes'] / 1024:,.0f}" for s in SETTINGS),
        )
        for name in names
    ]
    means = (
        common.number(geometric_mean([by_place[name, s]["median_ms"] for name in names]))
        for s in SETTINGS
    )
    return common.Figures(
        f"CREATE to first result over loaded tables, scale factor {result['settings']['sf']:g}",
        (
            "query",
            *(f"{s} ms" for s in SETTINGS),
            *(f"{s}\nindexes built" for s in SETTINGS),
            *(f"{s}\nKiB" for s in SETTINGS),
        ),
        tuple(rows),
        (("geometric mean", *means, *[""] * 6),),
    )


def targets(result: Mapping[str, Any]) -> list[common.Target]:
    found: list[common.Target] = []
    windowed = _latencies(result, "shared", True)
    if windowed:
        median = float(np.median(windowed))
        found.append(
            common.Target(
                "a windowed view on live arrangements at most 10 ms median",
                f"{median:.1f} ms",
                median <= 10,
            )
        )
    if result["settings"]["sf"] == 1:
        slowest = max(
            (each for each in result["installations"] if each["setting"] == "live"),
            key=lambda each: float(each["median_ms"]),
        )
        found.append(
            common.Target(
                "each view over history at most 1 s, SF 1",
                f"{slowest['median_ms']:,.0f} ms ({slowest['query']})",
                slowest["median_ms"] <= 1000,
            )
        )
    return found


def _draw(results: common.Results, result: Mapping[str, Any]) -> None:
    """Live queries: how many took longer. History: three bars per query."""
    settings = result["settings"]
    with results.chart(2) as (above, below):
        for is_windowed in (True, False):
            for sharing in SHARING:
                found = _latencies(result, sharing, is_windowed)
                if found:
                    common.draw_ccdf(above, found, f"{_kind(is_windowed)}, {sharing}")
        above.set_xlabel("ms from CREATE to first result")
        above.set_ylabel("share of installations that took longer")
        above.set_title(f"{settings['live']} live queries while TPC-H SF {settings['sf']:g} loads")
        above.legend()
        width = 0.27
        names = list(dict.fromkeys(each["query"] for each in result["installations"]))
        for place, setting in enumerate(SETTINGS):
            own = [e["median_ms"] for e in result["installations"] if e["setting"] == setting]
            at = [i + (place - 1) * width for i in range(len(names))]
            below.bar(at, own, width, label=setting)
        below.set_yscale("log")
        below.set_xticks(range(len(names)), names, rotation=45)
        below.set_ylabel("ms from CREATE to first result")
        below.set_title(f"Over loaded tables, TPC-H SF {settings['sf']:g}")
        below.legend()


if __name__ == "__main__":
    raise SystemExit(main())
