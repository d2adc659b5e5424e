"""What a store on disk costs: python -m benchmarks.durability

*Small steps* of one query, in memory and in a store with each durability, and beside them what a
write of the same bytes and one fdatasync take on this disk. *Small steps of all views*, in memory
and in a store. All sessions of a part take each step one after the other, so that what else the
machine does falls on all of them alike. *Large batches*: each query's whole stream, in memory and
in a store that writes checkpoints meanwhile, in turns.

Invariant: at the end each view is compared with its recompute, in every session and, of small
steps, after opening the store again.
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

import sqlview
from benchmarks import common
from benchmarks.arrival import RoundRobin, step
from sqlview.store import DURABILITIES
from tpch import stream
from tpch.generate import generate, load
from tpch.queries import Query, select_queries, tables_of
from tpch.report import geometric_mean
from tpch.schema import TABLES_BY_NAME

_MEMORY = "memory"
_LOADED = 0.9
_UNCOUNTED_STEPS = 20
_GOAL_MS, _GOAL_ALL, _GOAL_RATE = 0.3, 1.25, 0.8


@dataclass(frozen=True, slots=True)
class Mode:
    """Steps of one session: by the clock, and in CPU time. Of a store: `log_bytes` for all that
    came, `reopen_seconds` until its views can be read again."""

    name: str
    step_ms: list[float]
    figures: dict[str, float]
    cpu_p50_ms: float
    log_bytes: int
    reopen_seconds: float


@dataclass(frozen=True, slots=True)
class Rate:
    """A query's whole stream: rows a second of each run, by the clock and for a second of CPU time
    of all threads, and checkpoints written on the way."""

    query: str
    rows: int
    memory: list[float] = field(default_factory=list)
    store: list[float] = field(default_factory=list)
    memory_cpu: list[float] = field(default_factory=list)
    store_cpu: list[float] = field(default_factory=list)
    checkpoints: list[int] = field(default_factory=list)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = common.parser("durability", __doc__)
    common.add_tpch_options(parser)
    parser.add_argument("--small", default="q03", help="query of the small steps (%(default)s)")
    parser.add_argument("--sf", type=float, default=1.0, help="scale factor (%(default)s)")
    parser.add_argument(
        "--rows", type=common.positive, default=1000, help="rows of a small step (%(default)s)"
    )
    parser.add_argument(
        "--steps", type=common.positive, default=300, metavar="N", help="(%(default)s)"
    )
    parser.add_argument(
        "--batch-rows", type=common.positive, default=100_000, metavar="N",
        help="rows of a large batch (%(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--repeat", type=common.positive, default=2, metavar="N", help="of the large (%(default)s)"
    )
    quick = {"sf": 0.01, "steps": 30, "rows": 100, "batch_rows": 10_000, "repeat": 1}
    given = common.parse(parser, arguments, quick)
    return common.guarded(lambda: _main(given))


def _main(given: argparse.Namespace) -> None:
    results = common.Results("durability", given)
    console = common.progress()
    small, queries = select_queries(given.small), select_queries(given.queries)
    every = tuple(dict.fromkeys((*small, *queries)))
    rows_of = load(generate(given.sf, given.data), tables_of(every))
    common.warm_up(every, rows_of)
    with tempfile.TemporaryDirectory(dir=given.data) as directory:
        path = Path(directory)
        console.print(f"steps of {given.small}")
        batches = _batches(given, small, rows_of)
        modes = _small_steps(path / "small", (_MEMORY, *DURABILITIES), small, batches)
        nbytes = [sum(change.rows.nbytes for change in batch.changes) for batch in batches]
        sync_ms = _sync_ms(path / "synced", sum(nbytes[1:]) // (len(batches) - 1), given.steps)
        console.print("steps of all views")
        batches = _batches(given, queries, rows_of)
        together = _small_steps(path / "all", (_MEMORY, "commit"), queries, batches)
        del batches  # another copy of nearly all rows
        rates = [_rates(given, path, query, rows_of) for query in queries]
    found = results.write(
        {
            "modes": modes,
            "given_bytes": sum(nbytes),
            "sync": sync_ms,
            "together": together,
            "rates": rates,
        }
    )
    common.show_figures(tables(found))
    common.show_targets(targets(found))
    _draw(results, found)


def _batches(
    given: argparse.Namespace, queries: Sequence[Query], rows_of: Mapping[str, pa.Table]
) -> list[stream.Batch]:
    """What is loaded in one step, and the small steps."""
    tables = {name: rows_of[name] for name in tables_of(queries)}
    table_rows = {name: rows.num_rows for name, rows in tables.items()}
    loaded = stream.loaded_rows(table_rows, _LOADED)
    changes = (given.steps + _UNCOUNTED_STEPS) * given.rows
    options = stream.StreamOptions(given.rows, deletes=0.2, changes=changes, seed=given.seed)
    steps = stream.prebatch(stream.plan_stream(table_rows, loaded, options), tables)
    return [stream.initial_batch(tables, loaded), *steps]


def _small_steps(
    directory: Path,
    names: Sequence[str],
    queries: Sequence[Query],
    batches: Sequence[stream.Batch],
) -> list[Mode]:
    """One session for each name, of which each takes a batch before any takes the next one."""
    seconds: dict[str, list[float]] = {name: [] for name in names}
    cpu: dict[str, list[float]] = {name: [] for name in names}
    log_bytes = dict.fromkeys(names, 0)
    with ExitStack() as sessions:
        opened = {
            name: sessions.enter_context(_session(name, directory / name, queries))
            for name in names
        }
        for batch in batches:
            for name, db in opened.items():
                began, began_cpu = time.perf_counter(), time.process_time()
                with db.transaction() as tx:
                    stream.apply(batch, tx)
                seconds[name].append(time.perf_counter() - began)
                cpu[name].append(time.process_time() - began_cpu)
        for name, db in opened.items():
            _check(db, queries, name)
            log_bytes[name] = 0 if db._store is None else db._store.appended_bytes
    found = []
    for name in names:
        reopen = 0.0
        if name != _MEMORY:
            began = time.perf_counter()
            with sqlview.connect(directory / name, placement="inline") as db:
                reopen = time.perf_counter() - began
                _check(db, queries, f"{name}, opened again")
        counted = slice(1 + _UNCOUNTED_STEPS, None)
        found.append(
            Mode(
                name=name,
                step_ms=[1000 * s for s in seconds[name][counted]],
                figures=common.percentiles_ms(seconds[name][counted]),
                cpu_p50_ms=common.percentiles_ms(cpu[name][counted])["p50_ms"],
                log_bytes=log_bytes[name],
                reopen_seconds=reopen,
            )
        )
    return found


def _rates(
    given: argparse.Namespace, directory: Path, query: Query, rows_of: Mapping[str, pa.Table]
) -> Rate:
    tables = {name: rows_of[name] for name in query.tables}
    found = Rate(query.name, sum(rows.num_rows for rows in tables.values()))
    for _ in range(given.repeat):
        for name, rates, cpu_rates in (
            (_MEMORY, found.memory, found.memory_cpu),
            ("commit", found.store, found.store_cpu),
        ):
            arrival = RoundRobin(tables)
            batches = arrival.next(given.batch_rows, math.ceil(arrival.total / given.batch_rows))
            with (
                tempfile.TemporaryDirectory(dir=directory) as path,
                _session(name, Path(path), [query]) as db,
            ):
                began = time.process_time()
                rates.append(found.rows / sum([step(db, batch) for batch in batches]))
                cpu_rates.append(found.rows / (time.process_time() - began))
                if db._store is not None:
                    found.checkpoints.append(db._store.checkpoints_written)
                _check(db, [query], f"{query.name}, {name}")
    common.progress().print(
        f"{query.name}: M rows/s in memory {statistics.median(found.memory) / 1e6:.3g}, "
        f"in a store {statistics.median(found.store) / 1e6:.3g}"
    )
    return found


def _session(name: str, path: Path, queries: Sequence[Query]) -> sqlview.Session:
    """With the tables and views, in memory or in a store."""
    if name == _MEMORY:
        db = sqlview.connect(placement="inline")
    else:
        db = sqlview.connect(path, placement="inline", durability=name)
    for table in tables_of(queries):
        db.sql(TABLES_BY_NAME[table].sql)
    for query in queries:
        db.sql(query.create_sql)
    return db


def _check(db: sqlview.Session, queries: Sequence[Query], where: str) -> None:
    for query in queries:
        found = db.verify(query.name)
        if not found.equal:
            raise common.WrongAnswerError(f"{where}: {found}")


def _sync_ms(path: Path, size: int, times: int) -> dict[str, float]:
    """Milliseconds that a write of so many bytes to reserved space, and a sync, take."""
    data, seconds = os.urandom(size), []
    file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        os.posix_fallocate(file, 0, max(times * size, 1))
        os.fsync(file)
        for i in range(times):
            began = time.perf_counter()
            os.pwrite(file, data, i * size)
            os.fdatasync(file)
            seconds.append(time.perf_counter() - began)
    finally:
        os.close(file)
    return common.percentiles_ms(seconds)


def tables(result: dict[str, Any]) -> list[common.Figures]:
    settings, number = result["settings"], common.number
    percentiles = ("p50_ms", "p95_ms", "p99_ms")
    small = []
    for mode in result["modes"]:
        figures = [number(mode["figures"][k]) for k in percentiles]
        rest = ["-", "-"]
        if mode["log_bytes"]:
            log = number(mode["log_bytes"] / result["given_bytes"])
            rest = [log, number(mode["reopen_seconds"])]
        small.append((mode["name"], *figures, number(mode["cpu_p50_ms"]), *rest))
    sync = [number(result["sync"][k]) for k in percentiles]
    small.append(("a write and fdatasync", *sync, "-", "-", "-"))
    together = [
        (m["name"], *(number(m["figures"][k]) for k in percentiles), number(m["cpu_p50_ms"]))
        for m in result["together"]
    ]
    rates = []
    for rate in result["rates"]:
        memory, store = statistics.median(rate["memory"]), statistics.median(rate["store"])
        million = number(memory / 1e6), number(store / 1e6)
        cpu = statistics.median(rate["store_cpu"]) / statistics.median(rate["memory_cpu"])
        checkpoints = number(statistics.mean(rate["checkpoints"]))
        rates.append((rate["query"], *million, number(_share(rate)), number(cpu), checkpoints))
    head = ("", "p50 ms", "p95 ms", "p99 ms", "CPU p50 ms")
    rows, sf = f"Steps of {settings['rows']:,} rows", f"SF {settings['sf']:g}"
    return [
        common.Figures(
            f"{rows} of {settings['small']}, {sf}",
            (*head, "bytes of log a byte of rows", "s to open again"),
            tuple(small),
        ),
        common.Figures(f"{rows} of all views together, {sf}", head, tuple(together)),
        common.Figures(
            f"Batches of {settings['batch_rows']:,} rows, {sf}, million rows a second",
            ("", "in memory", "in a store", "store / memory", "of CPU time", "checkpoints"),
            tuple(rates),
        ),
    ]


def _share(rate: Mapping[str, Any]) -> float:
    """How much of the rate in memory a store has."""
    return statistics.median(rate["store"]) / statistics.median(rate["memory"])


def targets(result: dict[str, Any]) -> list[common.Target]:
    by_name = {mode["name"]: mode["figures"]["p50_ms"] for mode in result["modes"]}
    more = by_name["commit"] - by_name[_MEMORY] - result["sync"]["p50_ms"]
    memory, store = (mode["figures"]["p50_ms"] for mode in result["together"])
    shares = {rate["query"]: _share(rate) for rate in result["rates"]}
    least = min(shares, key=lambda query: shares[query])
    return [
        common.Target(
            f"a step that is on disk at most that in memory, one sync and {_GOAL_MS} ms",
            f"{more:+.2f} ms beside them",
            more <= _GOAL_MS,
        ),
        common.Target(
            f"a step of all views on disk at most {_GOAL_ALL} times that in memory",
            f"{store / memory:.2f} times",
            store <= _GOAL_ALL * memory,
        ),
        common.Target(
            f"large batches at {_GOAL_RATE} of the rate in memory, checkpoints running, each query",
            f"{shares[least]:.2f} ({least}; geometric mean "
            f"{geometric_mean(list(shares.values())):.2f})",
            shares[least] >= _GOAL_RATE,
        ),
    ]


def _draw(results: common.Results, result: dict[str, Any]) -> None:
    with results.chart() as (axes,):
        for mode in result["modes"]:
            common.draw_ccdf(axes, mode["step_ms"], mode["name"])
        axes.legend()


if __name__ == "__main__":
    raise SystemExit(main())
