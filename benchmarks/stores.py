"""Opening a store, churning in it, reading beside its writer: python -m benchmarks.stores --sf 1

*Opening*: a store of all 22 views is closed, or its process killed with SIGKILL in the middle of
its steps; another process opens it, and goes on. *Churn*: updates of random rows; what is written
for each byte that changed, and what is on disk for each byte that is kept. *Readers*: threads that
take snapshots and check that views agree, beside a writer; the same writer beside threads that only
hold Python's lock shows what that costs.

Invariant: every view equalled its recompute at the end, and no read was torn.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import sqlview
from benchmarks import common
from tpch import stream
from tpch.generate import generate, load
from tpch.queries import Query, select_queries, tables_of
from tpch.schema import TABLES_BY_NAME

_LOADED = 0.95
_STEP_ROWS = 1000
_TABLE_ROWS = 100_000
_READERS = 4
_SPUN_STEPS = 20
_GROUPS = "SELECT g, count(*) AS n, sum(v) AS s FROM t GROUP BY g"


@dataclass(frozen=True, slots=True)
class Opening:
    """Seconds until the store was open and the first step was over; milliseconds of the steps."""

    how: str
    open_seconds: float
    first_step_seconds: float
    step_ms: list[float]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = common.parser("stores", __doc__)
    common.add_tpch_options(parser)
    parser.add_argument("--sf", type=float, default=1.0, help="scale factor (%(default)s)")
    parser.add_argument("--steps", type=common.positive, default=100, help="(%(default)s)")
    parser.add_argument(
        "--updates", type=common.positive, default=1_000_000, help="of the churn (%(default)s)"
    )
    parser.add_argument(
        "--reads", type=common.positive, default=20_000, help="of all readers (%(default)s)"
    )
    quick = {"sf": 0.01, "steps": 5, "updates": 20_000, "reads": 40}
    given = common.parse(parser, arguments, quick)
    return common.guarded(lambda: _main(given))


def _main(given: argparse.Namespace) -> None:
    results, console = common.Results("stores", given), common.progress()
    with tempfile.TemporaryDirectory(dir=given.data) as directory:
        path = Path(directory) / "opening"
        console.print("opening")
        made = _elsewhere(_make, given, path, 0)
        closed = _elsewhere(_open, given, path, 1)
        killed = _elsewhere(_make, given, path, 2)
        opened = _elsewhere(_open, given, path, 3)
        console.print("churn")
        churn = _churn(Path(directory) / "churn", given.updates, given.seed)
        console.print("readers")
        readers = _readers(Path(directory) / "readers", given.reads, given.seed)
    assert killed is None, "it was killed"
    openings = [
        Opening("made", *made),
        Opening("after a close", *closed),
        Opening("after SIGKILL", *opened),
    ]
    found = results.write({"openings": openings, "churn": churn, "readers": readers})
    common.show_figures(tables(found))
    common.show_targets(targets(found))
    _draw(results, found)


# -- opening -------------------------------------------------------------------------------------


def _elsewhere(
    work: Callable[[argparse.Namespace, Path, int, Connection], None],
    given: argparse.Namespace,
    path: Path,
    part: int,
) -> Any:
    """What `work` sends from a process of its own, with that part of the steps; None if it was
    killed before."""
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=work, args=(given, path, part, sender))
    process.start()
    sender.close()
    try:
        return receiver.recv()
    except EOFError:
        return None
    finally:
        process.join()
        if process.exitcode not in (0, -signal.SIGKILL):
            raise common.BenchmarkError(f"a process ended with {process.exitcode}")


def _batches(
    given: argparse.Namespace, queries: Sequence[Query], part: int
) -> tuple[stream.Batch, list[stream.Batch]]:
    """What is loaded, and the steps of a part of the stream."""
    rows_of = load(generate(given.sf, given.data), tables_of(queries))
    table_rows = {name: rows.num_rows for name, rows in rows_of.items()}
    loaded = stream.loaded_rows(table_rows, _LOADED)
    changes = 4 * given.steps * _STEP_ROWS
    options = stream.StreamOptions(_STEP_ROWS, deletes=0.2, changes=changes, seed=given.seed)
    steps = stream.prebatch(stream.plan_stream(table_rows, loaded, options), rows_of)
    count = max(len(steps) // 4, 1)
    return stream.initial_batch(rows_of, loaded), steps[part * count : (part + 1) * count]


def _make(given: argparse.Namespace, path: Path, part: int, sender: Connection) -> None:
    """Part 0 makes the store, takes steps and closes it; part 2 goes on and kills itself."""
    queries = select_queries(given.queries)
    initial, steps = _batches(given, queries, part)
    began = time.perf_counter()
    db = sqlview.connect(path, placement="inline")
    if part == 0:
        for table in tables_of(queries):
            db.sql(TABLES_BY_NAME[table].sql)
        with db.transaction() as tx:
            stream.apply(initial, tx)
        for query in queries:
            db.sql(query.create_sql)
    opened = time.perf_counter() - began
    seconds = _take(db, steps)
    if part == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    db.close()
    sender.send((opened, seconds[0], [1000 * s for s in seconds]))


def _open(given: argparse.Namespace, path: Path, part: int, sender: Connection) -> None:
    queries = select_queries(given.queries)
    _, steps = _batches(given, queries, part)
    began = time.perf_counter()
    db = sqlview.connect(path, placement="inline")
    opened = time.perf_counter() - began
    seconds = _take(db, steps)
    for query in queries:
        found = db.verify(query.name)
        if not found.equal:
            raise common.WrongAnswerError(f"opened again: {found}")
    db.close()
    sender.send((opened, seconds[0], [1000 * s for s in seconds]))


def _take(db: sqlview.Session, steps: Sequence[stream.Batch]) -> list[float]:
    seconds = []
    for batch in steps:
        began = time.perf_counter()
        with db.transaction() as tx:
            stream.apply(batch, tx)
        seconds.append(time.perf_counter() - began)
    return seconds


# -- churn ---------------------------------------------------------------------------------------


def _table(db: sqlview.Session) -> None:
    db.sql("CREATE TABLE t (k BIGINT PRIMARY KEY, g BIGINT, v BIGINT, s STRING)")
    db.sql(f"CREATE MATERIALIZED VIEW groups AS {_GROUPS}")
    db.sql("CREATE MATERIALIZED VIEW total AS SELECT sum(v) AS s, count(*) AS n FROM t")
    db.sql("CREATE MATERIALIZED VIEW some AS SELECT k, s FROM t WHERE v % 10 = 3")


def _rows(keys: Any, rng: np.random.Generator) -> pa.Table:
    values = rng.integers(0, 1_000_000, len(keys))
    texts = pa.array([f"text {v}" for v in values.tolist()])
    return pa.table({"k": keys, "g": values % 1000, "v": values, "s": texts})


def _churn(path: Path, updates: int, seed: int) -> dict[str, float]:
    rng = np.random.default_rng(seed)
    with sqlview.connect(path, placement="inline") as db:
        _table(db)
        with db.transaction() as tx:
            tx.insert("t", _rows(np.arange(_TABLE_ROWS), rng))
        written, changed, began = _written_bytes(), 0, time.perf_counter()
        for _ in range(updates // _STEP_ROWS):
            rows = _rows(rng.choice(_TABLE_ROWS, _STEP_ROWS, replace=False), rng)
            changed += rows.nbytes
            with db.transaction() as tx:
                tx.upsert("t", rows)
        seconds = time.perf_counter() - began
        db.checkpoint(even_if_same=True)
        written = _written_bytes() - written
        metrics = db.metrics()
        live = metrics.table_bytes + metrics.state_bytes
        for view in ("groups", "total", "some"):
            found = db.verify(view)
            if not found.equal:
                raise common.WrongAnswerError(str(found))
    return {
        "updates": updates,
        "seconds": seconds,
        "changed_bytes": changed,
        "written_bytes": written,
        "live_bytes": live,
        "store_bytes": sum(f.stat().st_blocks * 512 for f in path.iterdir()),
    }


def _written_bytes() -> int:
    """What this process has had written to disk."""
    lines = Path("/proc/self/io").read_text(encoding="ascii").splitlines()
    return int(dict(line.split(": ") for line in lines)["write_bytes"])


# -- readers -------------------------------------------------------------------------------------


def _readers(path: Path, reads: int, seed: int) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    with sqlview.connect(path, placement="inline", durability="close") as db:
        _table(db)
        with db.transaction() as tx:
            tx.insert("t", _rows(np.arange(_TABLE_ROWS), rng))
        steps = [_rows(rng.choice(_TABLE_ROWS, _STEP_ROWS, replace=False), rng) for _ in range(200)]
        alone = _commit(db, steps, lambda: False)
        done = [0] * _READERS
        beside, wrong = _beside(
            db,
            steps,
            [lambda i=i: _read(db, done, i) for i in range(_READERS)],
            lambda: sum(done) < reads,
        )
        if wrong:
            raise common.WrongAnswerError(f"a torn read: {wrong[0]}")
        spinning, _ = _beside(db, steps[:_SPUN_STEPS], [_spin] * _READERS, lambda: False)
    return {
        "reads": sum(done),
        "alone_ms": [1000 * s for s in alone],
        "beside_ms": [1000 * s for s in beside],
        "spinning_ms": [1000 * s for s in spinning],
    }


def _commit(
    db: sqlview.Session, steps: Sequence[pa.Table], go_on: Callable[[], bool]
) -> list[float]:
    """The steps, once, and again while it is to go on: seconds of each."""
    seconds: list[float] = []
    while not seconds or go_on():
        for rows in steps:
            began = time.perf_counter()
            with db.transaction() as tx:
                tx.upsert("t", rows)
            seconds.append(time.perf_counter() - began)
    return seconds


def _beside(
    db: sqlview.Session,
    steps: Sequence[pa.Table],
    works: Sequence[Callable[[], None]],
    go_on: Callable[[], bool],
) -> tuple[list[float], list[BaseException]]:
    """`_commit` beside threads that do their work again and again, and what those raised."""
    over, wrong = threading.Event(), list[BaseException]()

    def repeat(work: Callable[[], None]) -> None:
        try:
            while not over.is_set():
                work()
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=repeat, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    try:
        return _commit(db, steps, lambda: go_on() and not wrong), wrong
    finally:
        over.set()
        for thread in threads:
            thread.join()


def _read(db: sqlview.Session, done: list[int], i: int) -> None:
    """One read: two views of one epoch that have to agree."""
    with db.snapshot() as snapshot:
        ((total, count),) = snapshot.view("total").rows()
        groups = snapshot.view("groups").to_arrow()
    if (sum(groups["s"].to_pylist()), sum(groups["n"].to_pylist())) != (total, count):
        raise AssertionError(f"epoch {snapshot.epoch}")
    done[i] += 1


def _spin() -> None:
    sum(range(10_000))


# -- what is shown -------------------------------------------------------------------------------


def tables(result: dict[str, Any]) -> list[common.Figures]:
    settings, churn, readers = result["settings"], result["churn"], result["readers"]
    number, median = common.number, lambda ms: float(np.median(ms))
    openings = [
        (
            o["how"],
            number(o["open_seconds"]),
            number(o["first_step_seconds"]),
            number(median(o["step_ms"])),
            number(max(o["step_ms"])),
        )
        for o in result["openings"]
    ]
    return [
        common.Figures(
            f"Opening a store of {settings['queries']} views, SF {settings['sf']:g}",
            ("", "s to open", "s of the first step", "p50 ms of steps", "max ms"),
            tuple(openings),
        ),
        common.Figures(
            f"{churn['updates']:,} updates of {_TABLE_ROWS:,} rows, {_STEP_ROWS:,} a step",
            ("rows/s", "MiB changed", "MiB written", "MiB kept", "MiB on disk"),
            (
                (
                    f"{churn['updates'] / churn['seconds']:,.0f}",
                    *(
                        common.mib(churn[f"{kind}_bytes"])
                        for kind in ("changed", "written", "live", "store")
                    ),
                ),
            ),
        ),
        common.Figures(
            f"{readers['reads']:,} reads by {_READERS} threads beside steps of {_STEP_ROWS:,} rows",
            ("", "p50 ms of steps", "p95 ms"),
            tuple(
                (name, number(median(ms)), number(float(np.percentile(ms, 95))))
                for name, ms in (
                    ("alone", readers["alone_ms"]),
                    ("beside readers", readers["beside_ms"]),
                    ("beside threads that hold Python's lock", readers["spinning_ms"]),
                )
            ),
        ),
    ]


def targets(result: dict[str, Any]) -> list[common.Target]:
    by_how = {o["how"]: o for o in result["openings"]}
    closed, killed = by_how["after a close"], by_how["after SIGKILL"]
    first = closed["open_seconds"] + closed["first_step_seconds"]
    after_kill = killed["open_seconds"] + killed["first_step_seconds"]
    steady = float(np.median(by_how["made"]["step_ms"]))
    slowest = float(np.median(closed["step_ms"])) / steady
    churn, readers = result["churn"], result["readers"]
    amplified = churn["store_bytes"] / churn["live_bytes"]
    beside = float(np.median(readers["beside_ms"])) / float(np.median(readers["alone_ms"]))
    return [
        common.Target(
            "open and take a step within 1 s after a close", f"{first:.2f} s", first <= 1
        ),
        common.Target(
            "open and take a step within 3 s after SIGKILL", f"{after_kill:.2f} s", after_kill <= 3
        ),
        common.Target(
            "the first 100 steps within 3 times the steady median", f"{slowest:.2f}", slowest <= 3
        ),
        common.Target(
            "on disk at most twice what is kept, after churn", f"{amplified:.2f}", amplified <= 2
        ),
        common.Target(
            "the writer beside 4 readers at most 1.2 times alone", f"{beside:.2f}", beside <= 1.2
        ),
    ]


def _draw(results: common.Results, result: dict[str, Any]) -> None:
    with results.chart() as (axes,):
        for opening in result["openings"]:
            common.draw_ccdf(axes, opening["step_ms"], f"all views, {opening['how']}")
        for name in ("alone", "beside"):
            common.draw_ccdf(axes, result["readers"][f"{name}_ms"], f"readers: {name}")
        axes.legend()


if __name__ == "__main__":
    raise SystemExit(main())
