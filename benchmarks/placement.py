"""Where a step runs: python -m benchmarks.placement --sf 1

The same steps inline and on Spark, over loaded tables, by size: rows that arrive in all tables of
the views, in proportion to what these have left. Once with one view (q03), once with eight, on
Spark with one core, with two, and with two executors of a local cluster. Then the initial load of
the tables from Parquet files, read and indexed through Spark, beside the same load inline.

`auto` estimates the work of a step (`operators.executor.placement.estimate`) and takes Spark from a
break-even on that follows from its cores and from what a small job takes there (`SparkCosts`). For
each Spark the benchmark fits seconds = fixed + slope × work to both placements; where the lines
cross is the break-even that was measured, none where inline has the lesser slope.
The load is timed with the last list of views.

Invariant: the views equalled their recompute after the steps of each Spark; inline and Spark steps
alternate over the same state.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import sqlview
from benchmarks import common
from operators.executor import placement
from operators.executor.spark.costs import costs_of
from tpch import stream
from tpch.generate import generate, load, parquet_file
from tpch.queries import Query, select_queries, tables_of
from tpch.runner import RunOptions, open_session

MASTERS = ("local[1]", "local[2]", "local-cluster[2,1,1024]")
VIEWS = ("q03", "q01,q03,q05,q06,q10,q12,q14,q19")
SIZES = (1_000, 10_000, 100_000, 500_000)
PLACEMENTS = ("inline", "spark")

_LOADED_SHARE = 0.3


@dataclass(frozen=True, slots=True)
class Step:
    """Median over the steps of one size. `work`: as `auto` estimates it."""

    master: str
    views: int
    placement: str
    rows: int
    work: int
    median_ms: float
    max_ms: float


@dataclass(frozen=True, slots=True)
class Load:
    """The tables of all views from Parquet files, into a session with the views."""

    master: str
    views: int
    placement: str
    rows: int
    seconds: float


@dataclass(frozen=True, slots=True)
class _Task:
    master: str
    given: argparse.Namespace


def main(arguments: Sequence[str] | None = None) -> int:
    parser = common.parser("placement", __doc__)
    parser.add_argument("--sf", type=float, default=1.0, help="scale factor (%(default)s)")
    parser.add_argument(
        "--data", type=Path, metavar="DIRECTORY", help="where generated data is kept"
    )
    parser.add_argument(
        "--views", nargs="+", default=list(VIEWS), metavar="LIST", help="lists of queries"
    )
    parser.add_argument(
        "--masters", nargs="+", default=list(MASTERS), metavar="URL", help="of Spark"
    )
    parser.add_argument(
        "--batch-rows", type=common.positive, nargs="+", default=list(SIZES), metavar="N",
        help="changed rows of a step (1,000 10,000 100,000 500,000)",
    )  # fmt: skip
    parser.add_argument(
        "--repeat", type=common.positive, default=3, metavar="N",
        help="steps of each size and placement; one before them does not count (%(default)s)",
    )  # fmt: skip
    quick = {"sf": 0.01, "views": ["q03"], "masters": ["local[2]"], "batch_rows": [100, 1_000],
             "repeat": 1}  # fmt: skip
    given = common.parse(parser, arguments, quick)
    return common.guarded(lambda: _main(given))


def _main(given: argparse.Namespace) -> None:
    for names in given.views:
        select_queries(names)
    results = common.Results("placement", given)
    steps: list[Step] = []
    loads: list[Load] = []
    autos: dict[str, float | None] = {}
    for master in given.masters:
        # A process for each: a JVM belongs to one Spark.
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
            own_steps, own_loads, autos[master] = pool.submit(
                measure, _Task(master, given)
            ).result()
        steps += own_steps
        loads += own_loads
    found = results.write(
        {
            "steps": steps,
            "loads": loads,
            "break_evens": [
                each | {"auto_work": autos[each["master"]]} for each in break_evens(steps)
            ],
        }
    )
    common.show_figures(tables(found))
    common.show_targets(targets(found))
    _draw(results, found)


def measure(task: _Task) -> tuple[list[Step], list[Load], float | None]:
    """All steps and loads on one Spark, and the break-even that `auto` uses there.

    Raises: common.WrongAnswerError if a view differs from its recompute.
    """
    given, console = task.given, common.progress()
    directory = generate(given.sf, given.data)
    steps: list[Step] = []
    loads: list[Load] = []
    spark = sqlview.start_spark(task.master)
    try:
        for names in given.views:
            queries = select_queries(names)
            rows = load(directory, tables_of(queries))
            common.warm_up(queries, rows)
            console.print(f"{task.master}, {len(queries)} views: steps")
            answers = common.Answers(queries, rows)
            with open_session(RunOptions(placement="inline"), queries, spark) as db:
                steps += _steps(db, task, queries, rows)
                answers.check(db, queries, f"{task.master}, steps")
            wheres = PLACEMENTS if task.master == given.masters[0] else ("spark",)
            for where in wheres if names == given.views[-1] else ():
                console.print(f"{task.master}, {len(queries)} views: load, {where}")
                with open_session(RunOptions(placement="inline"), queries, spark) as db:
                    started = time.perf_counter()
                    with db.transaction(placement=where) as tx:
                        for name in rows:
                            tx.insert(name, spark.read.parquet(str(parquet_file(directory, name))))
                    seconds = time.perf_counter() - started
                    _refuse_failures(db)
                    answers.check(db, queries, f"{task.master}, load, {where}")
                total = sum(table.num_rows for table in rows.values())
                loads.append(Load(task.master, len(queries), where, total, seconds))
            answers.close()
        even = costs_of(spark, None).break_even
    finally:
        spark.stop()
    return steps, loads, even if math.isfinite(even) else None


def _steps(
    db: sqlview.Session, task: _Task, queries: Sequence[Query], rows: Mapping[str, pa.Table]
) -> list[Step]:
    given = task.given
    loaded = {name: int(table.num_rows * _LOADED_SHARE) for name, table in rows.items()}
    with db.transaction() as tx:
        stream.apply(stream.initial_batch(rows, loaded), tx)
    arrived = dict(loaded)
    found: list[Step] = []
    for size in sorted(set(given.batch_rows)):
        seconds: dict[str, list[float]] = {where: [] for where in PLACEMENTS}
        work = 0
        for turn in range(given.repeat + 1):
            for where in PLACEMENTS:
                batch = _next(rows, arrived, size)
                if not batch.rows:
                    continue
                work = _work(db, batch)
                started = time.perf_counter()
                with db.transaction(placement=where) as tx:
                    stream.apply(batch, tx)
                if turn:
                    seconds[where].append(time.perf_counter() - started)
        for where, took in seconds.items():
            if took:
                ms = np.asarray(took) * 1000
                found.append(
                    Step(task.master, len(queries), where, size, work,
                         float(np.median(ms)), float(ms.max()))
                )  # fmt: skip
    _refuse_failures(db)
    rest = {name: table.slice(arrived[name]) for name, table in rows.items()}
    with db.transaction() as tx:
        for name, table in rest.items():
            if table.num_rows:
                tx.insert(name, table)
    return found


def _refuse_failures(db: sqlview.Session) -> None:
    """Raises: BenchmarkError if the driver had to do what a Spark job was to: its step's time is
    not Spark's. The public API does not tell."""
    side = db._spark_side
    if side is not None and side.executor.failures:
        raise common.BenchmarkError(
            f"{side.executor.failures} Spark jobs failed; the log says why: nothing is measured"
        )


def _next(rows: Mapping[str, pa.Table], arrived: dict[str, int], size: int) -> stream.Batch:
    """The next `size` rows, of each table in proportion to what it has left; none if there are
    fewer left."""
    left = {name: table.num_rows - arrived[name] for name, table in rows.items()}
    total = sum(left.values())
    if total < size:
        return stream.Batch(())
    changes = []
    for name, table in rows.items():
        count = min(math.ceil(size * left[name] / total), left[name])
        if count:
            changes.append(stream.Change("insert", name, table.slice(arrived[name], count)))
            arrived[name] += count
    return stream.Batch(tuple(changes))


def _work(db: sqlview.Session, batch: stream.Batch) -> int:
    """What `auto` would estimate: the public API tells only what it chose."""
    rows = {
        db._catalog.table(change.table).state.source: change.rows.num_rows
        for change in batch.changes
    }
    return placement.estimate(db._dataflow, rows)


def break_evens(steps: Sequence[Step]) -> list[dict[str, Any]]:
    """For each Spark, the lines fitted to all its steps, and the work at which they cross."""
    found = []
    for master in dict.fromkeys(step.master for step in steps):
        own = [step for step in steps if step.master == master]
        fits = {where: _fit([s for s in own if s.placement == where]) for where in PLACEMENTS}
        (inline_fixed, inline_slope), (spark_fixed, spark_slope) = fits["inline"], fits["spark"]
        gain = inline_slope - spark_slope
        found.append(
            {
                "master": master,
                "inline_fixed_seconds": inline_fixed,
                "inline_seconds_per_million": inline_slope * 1e6,
                "spark_fixed_seconds": spark_fixed,
                "spark_seconds_per_million": spark_slope * 1e6,
                "break_even_work": (spark_fixed - inline_fixed) / gain if gain > 0 else None,
            }
        )
    return found


def _fit(steps: Sequence[Step]) -> tuple[float, float]:
    """Seconds = fixed + slope × work, least squares of the relative error, neither negative."""
    work = np.array([step.work for step in steps], float)
    seconds = np.array([step.median_ms / 1000 for step in steps])
    if len(steps) < 2:
        return (float(seconds.mean()) if len(steps) else 0.0), 0.0
    matrix = np.stack([np.ones_like(work), work], axis=1) / seconds[:, None]
    fixed, slope = np.linalg.lstsq(matrix, np.ones_like(work), rcond=None)[0]
    if fixed < 0:
        return 0.0, float((work / seconds).sum() / (work / seconds @ (work / seconds)))
    if slope < 0:
        return float(np.median(seconds)), 0.0
    return float(fixed), float(slope)


def tables(result: Mapping[str, Any]) -> list[common.Figures]:
    steps, number = result["steps"], common.number
    masters = list(dict.fromkeys(step["master"] for step in steps))
    columns = [("inline", masters[0]), *(("spark", master) for master in masters)]
    by_place = {(s["views"], s["rows"], s["placement"], s["master"]): s for s in steps}
    rows: list[tuple[str, ...]] = []
    for views, size in sorted({(s["views"], s["rows"]) for s in steps}):
        cells = [by_place.get((views, size, where, master)) for where, master in columns]
        work = next(cell["work"] for cell in cells if cell)
        rows.append(
            (
                str(views),
                f"{size:,}",
                number(work / 1e6),
                *(number(cell["median_ms"]) if cell else "-" for cell in cells),
            )
        )
    heads = ["inline ms", *(f"{master} ms" for master in masters)]
    loads = tuple(
        (
            f"{x['placement']}, {x['master']}"
            if x["placement"] == "spark"
            else "inline, read by " + x["master"],
            str(x["views"]),
            f"{x['rows']:,}",
            f"{x['seconds']:.1f}",
            number(x["rows"] / x["seconds"] / 1e6),
        )
        for x in result["loads"]
    )
    evens = tuple(
        (
            each["master"],
            number(each["inline_fixed_seconds"] * 1000),
            number(each["inline_seconds_per_million"] * 1000),
            number(each["spark_fixed_seconds"] * 1000),
            number(each["spark_seconds_per_million"] * 1000),
            *(_work_of(each.get(name), "") for name in ("break_even_work", "auto_work")),
        )
        for each in result["break_evens"]
    )
    sf = result["settings"]["sf"]
    return [
        common.Figures(
            f"Steps over tables that are partly loaded, scale factor {sf:g}",
            ("views", "rows", "M work", *heads),
            tuple(rows),
        ),
        common.Figures(
            "Break-even in million units of work, and what `auto` takes for it",
            ("Spark", "inline: ms", "+ ms per M", "Spark: ms", "+ ms per M", "break-even", "auto"),
            evens,
        ),
        common.Figures(
            f"Initial load from Parquet, scale factor {sf:g}",
            ("placement", "views", "rows", "seconds", "M rows/s"),
            loads,
        ),
    ]


def _work_of(work: float | None, unit: str = " M") -> str:
    return "never" if work is None else common.number(work / 1e6) + unit


def targets(result: Mapping[str, Any]) -> list[common.Target]:
    """What `auto` takes for the break-even of each Spark, beside the one that was measured."""
    if result["settings"]["quick"]:
        return []
    found: list[common.Target] = []
    for each in result["break_evens"]:
        measured, used = each["break_even_work"], each.get("auto_work")
        both = measured is not None and used is not None
        found.append(
            common.Target(
                f"`auto` uses the break-even of {each['master']}, within a factor of three",
                f"{_work_of(used)}; measured {_work_of(measured)}",
                1 / 3 <= used / measured <= 3 if both else measured == used,
            )
        )
    return found


def _draw(results: common.Results, result: Mapping[str, Any]) -> None:
    steps = result["steps"]
    masters = list(dict.fromkeys(step["master"] for step in steps))
    counts = sorted({step["views"] for step in steps})
    with results.chart(len(counts)) as panels:
        for views, axes in zip(counts, panels, strict=True):
            lines = [
                ("inline", masters[0], "inline"),
                *(("spark", m, f"Spark, {m}") for m in masters),
            ]
            for where, master, label in lines:
                own = [
                    s for s in steps
                    if (s["views"], s["placement"], s["master"]) == (views, where, master)
                ]  # fmt: skip
                axes.plot(
                    [s["rows"] for s in own], [s["median_ms"] for s in own], "o-", label=label
                )
            axes.set_xscale("log")
            axes.set_yscale("log")
            axes.set_xlabel("changed rows in a step")
            axes.set_ylabel("ms")
            axes.set_title(f"{views} view{'s' if views > 1 else ''}")
            axes.legend()


if __name__ == "__main__":
    raise SystemExit(main())
