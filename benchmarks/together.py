"""All queries at once: python -m benchmarks.together --sf 1

One session holds all the views, and the tables arrive round-robin in batches of `--batch-rows`; in
windows spread over the stream, batches of `--trickle-rows` are timed instead. When all rows have
arrived, a churn follows: transactions that delete and update rows of every table at random, each
undone by the next. Twice over: with arrangements shared between the views, and with none shared,
which keeps for every view what it would keep alone. Base rows are in memory once in both.

Shown are the rates, each base row counted once; the distribution of the step latency; state and
memory over time (after Shared Arrangements, Figure 1 b and c).

Invariant: all views equalled their recompute when the stream had ended and when the churn had.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import sqlview
from benchmarks import common
from benchmarks.arrival import RoundRobin, step
from benchmarks.recompute import change_and_undo
from tpch.generate import generate, load
from tpch.queries import select_queries, tables_of
from tpch.report import ResidentMemory
from tpch.runner import RunOptions, garbage_collected, open_session, warm_memory

SETTINGS = ("shared", "private")

_WINDOWS = 8
_MOST_WINDOW_STEPS = 1_000
#: State is measured so often over the stream.
_SAMPLES = 40
_LARGEST = 12


@dataclass(slots=True)
class Measured:
    """One setting. Seconds of each step, by kind; samples after so many rows of the stream.

    `rss_bytes`: of the process; `rss_start_bytes` of it are the input and the oracle's copy of it.
    `largest`: indexes with the most bytes.
    """

    setting: str
    rows: int = 0
    bulk_rows: int = 0
    bulk_seconds: list[float] = field(default_factory=list)
    trickle_rows: int = 0
    trickle_seconds: list[float] = field(default_factory=list)
    churn_rows: int = 0
    churn_seconds: list[float] = field(default_factory=list)
    sample_rows: list[int] = field(default_factory=list)
    state_bytes: list[int] = field(default_factory=list)
    table_bytes: list[int] = field(default_factory=list)
    rss_bytes: list[int] = field(default_factory=list)
    rss_start_bytes: int = 0
    rss_peak_bytes: int = 0
    arrangements: int = 0
    operators: int = 0
    largest: list[dict[str, Any]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Task:
    setting: str
    given: argparse.Namespace


def main(arguments: Sequence[str] | None = None) -> int:
    parser = common.parser("together", __doc__)
    common.add_tpch_options(parser)
    parser.add_argument("--sf", type=float, default=1.0, help="scale factor (%(default)s)")
    for name, default, text in (
        ("batch-rows", 100_000, "changed rows per transaction of the stream"),
        ("trickle-rows", 1_000, "changed rows per transaction in the windows and the churn"),
    ):
        parser.add_argument(
            f"--{name}", type=common.positive, default=default, metavar="N",
            help=f"{text} (%(default)s)",
        )  # fmt: skip
    parser.add_argument(
        "--seconds", type=float, default=20.0, metavar="S",
        help="of windows in the stream, and of the churn, in each setting (%(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--settings", choices=SETTINGS, nargs="+", default=list(SETTINGS), help="(shared private)"
    )
    quick = {"sf": 0.01, "batch_rows": 5_000, "trickle_rows": 100, "seconds": 0.5}
    given = common.parse(parser, arguments, quick)
    return common.guarded(lambda: _main(given))


def _main(given: argparse.Namespace) -> None:
    select_queries(given.queries)
    results = common.Results("together", given)
    measured: list[Measured] = []
    for setting in given.settings:
        # A process for each: what one setting leaves to the allocator is not the next one's.
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
            measured.append(pool.submit(measure, _Task(setting, given)).result())
    found = results.write({"measured": measured})
    common.show_figures(tables(found))
    common.show_targets(targets(found))
    _draw(results, found)


def measure(task: _Task) -> Measured:
    """Run the stream and the churn in one setting.

    Raises: common.WrongAnswerError if a view differs from its recompute.
    """
    given, console = task.given, common.progress()
    queries = select_queries(given.queries)
    console.print(f"{len(queries)} queries, arrangements {task.setting}: reading and warming up")
    tables = load(generate(given.sf, given.data), tables_of(queries))
    common.warm_up(queries, tables)
    answers = common.Answers(queries, tables)
    found, arrival, memory = Measured(task.setting), RoundRobin(tables), ResidentMemory()
    found.rows = arrival.total
    options = RunOptions(placement="inline", private=task.setting == "private")
    warm_memory(4 * sum(rows.nbytes for rows in tables.values()))
    with open_session(options, queries, None) as db, garbage_collected():
        memory.start()
        found.rss_start_bytes = memory.start_bytes
        sample_at = [arrival.total * i // _SAMPLES for i in range(1, _SAMPLES + 1)]
        trickle_at = [arrival.total * (2 * i + 1) // (2 * _WINDOWS) for i in range(_WINDOWS)]
        while arrival.position < arrival.total:
            rows, seconds = arrival.window(db, given.batch_rows, 1, math.inf)
            found.bulk_rows += rows
            found.bulk_seconds += seconds
            if trickle_at and arrival.position >= trickle_at[0]:
                trickle_at.pop(0)
                rows, seconds = arrival.window(
                    db, given.trickle_rows, _MOST_WINDOW_STEPS, given.seconds / _WINDOWS
                )
                found.trickle_rows += rows
                found.trickle_seconds += seconds
            if sample_at and arrival.position >= sample_at[0]:
                while sample_at and arrival.position >= sample_at[0]:
                    sample_at.pop(0)
                _sample(db, found, arrival.position, memory)
                console.print(
                    f"{task.setting}: {arrival.position / arrival.total:.0%} of "
                    f"{arrival.total:,} rows, {found.bulk_rows / sum(found.bulk_seconds):,.0f} "
                    f"rows/s, state {found.state_bytes[-1] / 2**20:,.0f} MiB"
                )
        found.rss_peak_bytes = memory.peak_bytes()
        answers.check(db, queries, f"{task.setting}, after the stream")
        console.print(f"{task.setting}: churn of {given.trickle_rows:,} rows a step")
        rng = np.random.default_rng(given.seed)
        while sum(found.churn_seconds) < given.seconds:
            for batch in change_and_undo(tables, given.trickle_rows / arrival.total, rng):
                found.churn_seconds.append(step(db, batch))
                found.churn_rows += batch.rows
        answers.check(db, queries, f"{task.setting}, after the churn")
        indexes = sorted(db.arrangements().to_pylist(), key=lambda row: -int(row["bytes"]))
        found.arrangements, found.largest = len(indexes), indexes[:_LARGEST]
        found.operators = db.metrics().operators
    answers.close()
    return found


def _sample(db: sqlview.Session, found: Measured, rows: int, memory: ResidentMemory) -> None:
    metrics = db.metrics()
    found.sample_rows.append(rows)
    found.state_bytes.append(metrics.state_bytes)
    found.table_bytes.append(metrics.table_bytes)
    found.rss_bytes.append(memory.now_bytes())


def tables(result: Mapping[str, Any]) -> list[common.Figures]:
    settings = result["settings"]
    measured = result["measured"]
    kinds = (
        ("bulk", f"{settings['batch_rows']:,}-row steps"),
        ("trickle", f"{settings['trickle_rows']:,}-row steps"),
        ("churn", f"{settings['trickle_rows']:,}-row churn steps"),
    )
    steps: list[tuple[str, ...]] = []
    for kind, title in kinds:
        for each in measured:
            seconds, rows = each[f"{kind}_seconds"], each[f"{kind}_rows"]
            if not seconds:
                continue
            ms = common.percentiles_ms(seconds)
            steps.append(
                (
                    f"{title}, {each['setting']}",
                    f"{len(seconds):,}",
                    common.number(rows / sum(seconds)),
                    *(common.number(ms[k]) for k in ("p50_ms", "p95_ms", "p99_ms", "max_ms")),
                )
            )
    state = tuple(
        (
            each["setting"],
            common.mib(each["state_bytes"][-1]),
            common.mib(each["table_bytes"][-1]),
            common.mib(each["rss_start_bytes"]),
            common.mib(each["rss_peak_bytes"]),
            str(each["arrangements"]),
            str(each["operators"]),
        )
        for each in measured
    )
    sf, rows = settings["sf"], measured[0]["rows"]
    return [
        common.Figures(
            f"Steps of all queries together, scale factor {sf:g}, {rows:,} rows",
            ("", "steps", "rows/s", "p50 ms", "p95 ms", "p99 ms", "max ms"),
            tuple(steps),
        ),
        common.Figures(
            "Memory at the end of the stream, MiB",
            ("", "state", "base rows", "process before", "process at most", "indexes", "operators"),
            state,
        ),
        common.Figures(
            f"Largest indexes, {measured[0]['setting']}",
            ("relation and key", "rows", "MiB", "readers"),
            tuple(
                (
                    f"{row['relation']} ({row['key']})",
                    f"{row['rows']:,}",
                    common.mib(row["bytes"]),
                    str(len(row["readers"])),
                )
                for row in measured[0]["largest"]
            ),
        ),
    ]


def targets(result: Mapping[str, Any]) -> list[common.Target]:
    settings = result["settings"]
    if settings["sf"] != 1:
        return []
    by_setting = {each["setting"]: each for each in result["measured"]}
    found: list[common.Target] = []
    if shared := by_setting.get("shared"):
        rate = shared["bulk_rows"] / sum(shared["bulk_seconds"])
        found.append(
            common.Target(
                "all 22 together at least 500,000 base rows/s, batches of 100,000 rows, SF 1",
                f"{rate:,.0f} rows/s",
                rate >= 500_000,
            )
        )
        for kind in ("trickle", "churn"):
            ms = common.percentiles_ms(shared[f"{kind}_seconds"])
            p50, most = ms["p50_ms"], ms["max_ms"]
            found += [
                common.Target(
                    f"1,000-row {kind} step of all 22 at most 20 ms median",
                    f"{p50:.1f} ms",
                    p50 <= 20,
                ),
                common.Target(
                    f"slowest 1,000-row {kind} step at most 10 times the median",
                    f"{most / p50:.1f} times",
                    most <= 10 * p50,
                ),
            ]
    if len(by_setting) == len(SETTINGS):
        ratio = by_setting["shared"]["state_bytes"][-1] / by_setting["private"]["state_bytes"][-1]
        found.append(
            common.Target(
                "shared state at most a third of the private runs' sum",
                f"{ratio:.2f}",
                ratio <= 1 / 3,
            )
        )
    return found


def _draw(results: common.Results, result: Mapping[str, Any]) -> None:
    """Step latency as complementary CDFs; bytes over the stream."""
    settings = result["settings"]
    with results.chart(3) as (bulk, trickle, memory):
        for each in result["measured"]:
            name = each["setting"]
            common.draw_ccdf(bulk, np.asarray(each["bulk_seconds"]) * 1000, name)
            for kind in ("trickle", "churn"):
                milliseconds = np.asarray(each[f"{kind}_seconds"]) * 1000
                common.draw_ccdf(trickle, milliseconds, f"{name}, {kind}")
            million = np.asarray(each["sample_rows"]) / 1e6
            for kind, style in (("state", "-"), ("table", ":"), ("rss", "--")):
                above = each["rss_start_bytes"] if kind == "rss" else 0
                gib = (np.asarray(each[f"{kind}_bytes"]) - above) / 2**30
                label = {"table": "base rows", "rss": "growth of the process"}.get(kind, kind)
                memory.plot(million, gib, style, label=f"{name}: {label}")
        bulk.set_title(f"All queries together, steps of {settings['batch_rows']:,} rows")
        trickle.set_title(f"Steps of {settings['trickle_rows']:,} rows")
        memory.set_xlabel("million rows arrived")
        memory.set_ylabel("GiB")
        for axes in (bulk, trickle, memory):
            axes.legend()


if __name__ == "__main__":
    raise SystemExit(main())
