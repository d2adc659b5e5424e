"""What a store on disk costs: python -m benchmarks.durability

A TPC-H query is fed the same stream of small steps in memory and in a store, with each durability.
Beside it stands what a write of the same bytes and one fdatasync take on this disk, then how long
the store takes to open again and how many bytes its log has for each byte of the rows.

Invariant: at the end the view is compared with its recompute, in every session and after opening.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sqlview
from benchmarks import common
from sqlview.store import DURABILITIES
from tpch import stream
from tpch.generate import generate, load
from tpch.queries import Query, select_queries, tables_of
from tpch.schema import TABLES_BY_NAME

_MEMORY = "memory"
_LOADED = 0.9
_UNCOUNTED_STEPS = 20
_GOAL_MS = 0.3


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


def main(arguments: Sequence[str] | None = None) -> int:
    parser = common.parser("durability", __doc__)
    common.add_tpch_options(parser)
    parser.set_defaults(queries="q03")
    parser.add_argument("--sf", type=float, default=0.1, help="scale factor (%(default)s)")
    parser.add_argument(
        "--rows", type=common.positive, default=1000, help="rows a step (%(default)s)"
    )
    parser.add_argument(
        "--steps", type=common.positive, default=300, metavar="N", help="(%(default)s)"
    )
    given = common.parse(parser, arguments, {"sf": 0.01, "steps": 30, "rows": 100})
    return common.guarded(lambda: _main(given))


def _main(given: argparse.Namespace) -> None:
    results = common.Results("durability", given)
    console = common.progress()
    queries = select_queries(given.queries)
    rows_of = load(generate(given.sf, given.data), tables_of(queries))
    common.warm_up(queries, rows_of)
    table_rows = {name: rows.num_rows for name, rows in rows_of.items()}
    loaded = stream.loaded_rows(table_rows, _LOADED)
    changes = (given.steps + _UNCOUNTED_STEPS) * given.rows
    options = stream.StreamOptions(given.rows, deletes=0.2, changes=changes, seed=given.seed)
    batches = stream.prebatch(stream.plan_stream(table_rows, loaded, options), rows_of)
    batches.insert(0, stream.initial_batch(rows_of, loaded))
    given_bytes = sum(change.rows.nbytes for batch in batches for change in batch.changes)
    modes: list[Mode] = []
    with tempfile.TemporaryDirectory(dir=given.data) as directory:
        for name in (_MEMORY, *DURABILITIES):
            console.print(name)
            modes.append(_run(name, Path(directory) / name, queries, batches))
        steps = sum(change.rows.nbytes for batch in batches[1:] for change in batch.changes)
        sync_ms = _sync_ms(Path(directory) / "synced", steps // (len(batches) - 1), given.steps)
    found = results.write({"modes": modes, "given_bytes": given_bytes, "sync": sync_ms})
    common.show_figures(tables(found))
    common.show_targets(targets(found))
    _draw(results, found)


def _run(name: str, path: Path, queries: Sequence[Query], batches: Sequence[stream.Batch]) -> Mode:
    stored = name != _MEMORY
    seconds: list[float] = []
    cpu: list[float] = []
    with sqlview.connect(
        path if stored else None,
        placement="inline",
        durability=name if stored else "commit",
    ) as db:
        for table in tables_of(queries):
            db.sql(TABLES_BY_NAME[table].sql)
        for query in queries:
            db.sql(query.create_sql)
        for batch in batches:
            began, began_cpu = time.perf_counter(), time.process_time()
            with db.transaction() as tx:
                stream.apply(batch, tx)
            seconds.append(time.perf_counter() - began)
            cpu.append(time.process_time() - began_cpu)
        _check(db, queries, name)
        log_bytes = 0 if db._store is None else db._store.appended_bytes
    reopen = 0.0
    if stored:
        began = time.perf_counter()
        with sqlview.connect(path, placement="inline") as db:
            reopen = time.perf_counter() - began
            _check(db, queries, f"{name}, opened again")
    seconds, cpu = seconds[1 + _UNCOUNTED_STEPS :], cpu[1 + _UNCOUNTED_STEPS :]
    return Mode(
        name=name,
        step_ms=[1000 * s for s in seconds],
        figures=common.percentiles_ms(seconds),
        cpu_p50_ms=common.percentiles_ms(cpu)["p50_ms"],
        log_bytes=log_bytes,
        reopen_seconds=reopen,
    )


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
    rows = []
    for mode in result["modes"]:
        figures = [common.number(mode["figures"][k]) for k in ("p50_ms", "p95_ms", "p99_ms")]
        rest = ["-", "-"]
        if mode["log_bytes"]:
            rest = [
                common.number(mode["log_bytes"] / result["given_bytes"]),
                common.number(mode["reopen_seconds"]),
            ]
        rows.append((mode["name"], *figures, common.number(mode["cpu_p50_ms"]), *rest))
    sync = [common.number(result["sync"][k]) for k in ("p50_ms", "p95_ms", "p99_ms")]
    rows.append(("a write and fdatasync", *sync, "-", "-", "-"))
    settings = result["settings"]
    return [
        common.Figures(
            f"Steps of {settings['rows']:,} rows of {settings['queries']}, SF {settings['sf']:g}",
            ("", "p50 ms", "p95 ms", "p99 ms", "CPU p50 ms", "bytes of log a byte of rows",
             "s to open again"),
            tuple(rows),
        )
    ]  # fmt: skip


def targets(result: dict[str, Any]) -> list[common.Target]:
    by_name = {mode["name"]: mode["figures"]["p50_ms"] for mode in result["modes"]}
    more = by_name["commit"] - by_name[_MEMORY] - result["sync"]["p50_ms"]
    return [
        common.Target(
            f"a step that is on disk at most that in memory, one sync and {_GOAL_MS} ms",
            f"{more:+.2f} ms beside them",
            more <= _GOAL_MS,
        )
    ]


def _draw(results: common.Results, result: dict[str, Any]) -> None:
    with results.chart() as (axes,):
        for mode in result["modes"]:
            common.draw_ccdf(axes, mode["step_ms"], mode["name"])
        axes.legend()


if __name__ == "__main__":
    raise SystemExit(main())
