"""Commits a second of several threads, each of whose transactions is on disk when it returns:
python -m benchmarks.commits

Threads insert into one table under a view, so their transactions share steps and syncs. Runs of all
numbers of threads take turns, on the disk of the directory that they are started in.

Invariant: at the end of a run all that was committed is in the table and in the view, once.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import sqlview
from benchmarks import common


@dataclass(frozen=True, slots=True)
class Rate:
    """Commits a second of each run: of so many threads, in transactions of so many rows."""

    threads: int
    rows: int
    runs: list[float] = field(default_factory=list)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = common.parser("commits", __doc__)
    parser.add_argument(
        "--threads", type=common.positive, nargs="+", default=[1, 2, 4, 8], help="(1 2 4 8)"
    )
    parser.add_argument(
        "--rows", type=common.positive, nargs="+", default=[1, 100], help="of a commit (1 100)"
    )
    parser.add_argument("--seconds", type=float, default=1.5, help="of a run (%(default)s)")
    parser.add_argument("--repeat", type=common.positive, default=3, help="(%(default)s)")
    given = common.parse(parser, arguments, {"threads": [1, 2], "seconds": 0.05, "repeat": 1})
    return common.guarded(lambda: _main(given))


def _main(given: argparse.Namespace) -> None:
    results = common.Results("commits", given)
    _run(1, 1, given.seconds)
    rates = [Rate(threads, rows) for rows in given.rows for threads in given.threads]
    for _ in range(given.repeat):
        for rate in rates:
            rate.runs.append(_run(rate.threads, rate.rows, given.seconds))
    found = results.write({"rates": rates})
    common.show_figures(tables(found))
    common.show_targets(targets(found))
    _draw(results, found)


def _run(threads: int, rows: int, seconds: float) -> float:
    counts = [0] * threads
    with (
        tempfile.TemporaryDirectory(dir=".") as directory,
        sqlview.connect(Path(directory) / "store") as db,
    ):
        db.sql("CREATE TABLE t (k BIGINT PRIMARY KEY, g BIGINT)")
        db.sql("CREATE MATERIALIZED VIEW v AS SELECT count(*) AS n FROM t")
        start = threading.Barrier(threads)

        def work(number: int) -> None:
            start.wait()
            end = time.perf_counter() + seconds
            while time.perf_counter() < end:
                first = number * 10**9 + counts[number] * rows
                with db.transaction() as tx:
                    keys = list(range(first, first + rows))
                    tx.insert("t", {"k": keys, "g": [number] * rows})
                counts[number] += 1

        workers = [threading.Thread(target=work, args=(i,)) for i in range(threads)]
        started = time.perf_counter()
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        took = time.perf_counter() - started
        there = list(db.view("v"))
        if db.epoch != sum(counts) or there != [(sum(counts) * rows,)]:
            raise common.WrongAnswerError(f"{sum(counts)} commits made {there} rows")
    return sum(counts) / took


def tables(result: dict[str, Any]) -> list[common.Figures]:
    rates = result["rates"]
    rows = sorted({rate["rows"] for rate in rates})
    by_threads: dict[int, dict[int, float]] = {}
    for rate in rates:
        median = statistics.median(rate["runs"])
        by_threads.setdefault(rate["threads"], {})[rate["rows"]] = median
    return [
        common.Figures(
            "Commits a second that are on disk",
            ("threads", *(f"{n:,} rows each" if n > 1 else "one row each" for n in rows)),
            tuple(
                (str(threads), *(common.number(found[n]) for n in rows))
                for threads, found in sorted(by_threads.items())
            ),
        )
    ]


def targets(result: dict[str, Any]) -> list[common.Target]:
    """There is no goal but that threads help."""
    return []


def _draw(results: common.Results, result: dict[str, Any]) -> None:
    with results.chart() as (axes,):
        for rows in sorted({rate["rows"] for rate in result["rates"]}):
            some = [rate for rate in result["rates"] if rate["rows"] == rows]
            axes.plot(
                [rate["threads"] for rate in some],
                [statistics.median(rate["runs"]) for rate in some],
                marker="o",
                label=f"{rows:,} rows a commit" if rows > 1 else "one row a commit",
            )
        axes.set_xlabel("threads")
        axes.set_ylabel("commits a second")
        axes.set_ylim(bottom=0)
        axes.legend()


if __name__ == "__main__":
    raise SystemExit(main())
