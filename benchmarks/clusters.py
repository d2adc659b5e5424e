"""Whose work a load, a hydration and a flood are, and what more cores would make of it:
python -m benchmarks.clusters

On Sparks of 1, 2 and 4 tasks at a time, at each scale factor: TPC-H's tables come as DataFrames
into a store, views are created over them, and over a part of the tables the rest comes in one step.
All is placed on Spark. The CPU time is this process's, the driver's, and that of its children, the
JVM and Python workers; heap is what this process keeps that belongs to no file, for each MB of
Parquet.

From lines through what was measured at several scale factors, times on clusters are predicted:

    seconds = fixed + driver's CPU a row × rows + tasks' CPU a row × rows ÷ cores

with what is assumed: a core there is one of here; there are as many tasks as cores, and parts of
files; nothing waits for the network or the disks; each task has its share of the rows; sorting more
rows costs no more for each, nor does an index in more batches. With one scale factor there is no
line: all that was measured counts as in proportion to the rows.

A view over few rows costs the driver what a job does, whatever else: the goal of a small share is
for all views together, which are created one after the other. `--add` keeps what the result file
has of other scale factors, numbers of tasks and phases.

`--executors 1 2` loads and creates on a local cluster of one executor of one core, and of two: how
much sooner views have their first rows. It needs as many free cores, and one for this process.

Invariant: views have the same rows whatever the tasks; at the smallest scale factor they are
verified.
"""

from __future__ import annotations

import argparse
import hashlib
import multiprocessing
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import sqlview
from benchmarks import common
from operators.executor.placement import SparkCosts
from operators.executor.spark.costs import job_seconds
from operators.executor.spark.deal import MOST_TASKS
from tpch import generate
from tpch.queries import Query, select_queries, tables_of
from tpch.schema import TABLES_BY_NAME

PHASES = ("load", "hydration", "flood")
#: Of each table, before a flood.
_LOADED_SHARE = 0.6
_CLUSTER_CORES = (8, 64, 512)
_CLUSTER_SCALES = (100, 1_000)
_EXECUTOR_MIB = 2048
_MOST_SHARE = 0.05
_MOST_HEAP_BYTES_A_MB = 1024
_NO_SUMS = ("tasks", "sf", "phase", "name")


@dataclass(frozen=True, slots=True)
class Cost:
    """Of all tables (load), of one view (hydration), or of all views (flood). `rows` that are read
    or arrive; `file_bytes` of Parquet that holds them."""

    tasks: int
    sf: float
    phase: str
    name: str
    rows: int
    file_bytes: int
    seconds: float
    driver_cpu_seconds: float
    cpu_seconds: float
    heap_bytes: int


@dataclass(frozen=True, slots=True)
class Cluster:
    """Of executors with a core each: `load` of all tables, and `views` that were created."""

    executors: int
    sf: float
    views: int
    load_seconds: float
    hydration_seconds: float
    hydration_driver_cpu_seconds: float
    hydration_cpu_seconds: float


@dataclass(frozen=True, slots=True)
class _Task:
    tasks: int
    given: argparse.Namespace


@dataclass(frozen=True, slots=True)
class _Table:
    """Its rows as two files, those before a flood and those of it; as one without a flood."""

    files: tuple[Path, ...]
    file_rows: tuple[int, ...]

    @property
    def paths(self) -> list[str]:
        return [str(file) for file in self.files]

    @property
    def rows(self) -> int:
        return sum(self.file_rows)

    @property
    def size_bytes(self) -> int:
        return sum(file.stat().st_size for file in self.files)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = common.parser("clusters", __doc__)
    parser.add_argument(
        "--sf", type=float, nargs="+", default=[0.1, 1.0], help="scale factors (0.1 1)"
    )
    parser.add_argument(
        "--tasks", type=common.positive, nargs="+", default=[1, 2, 4], metavar="N",
        help="at a time (1 2 4)",
    )  # fmt: skip
    parser.add_argument(
        "--queries", default="q01,q03,q09,q15,q17,q18", help="of the views, or all (%(default)s)"
    )
    parser.add_argument(
        "--phases", nargs="+", choices=PHASES, default=list(PHASES), help="what is measured (all)"
    )
    parser.add_argument(
        "--executors", type=common.positive, nargs="*", default=[], metavar="N",
        help="of a core each, on a local cluster, at the largest scale factor (none)",
    )  # fmt: skip
    parser.add_argument(
        "--add", action="store_true", help="to what the result file has of other runs"
    )
    parser.add_argument("--data", type=Path, metavar="DIRECTORY", help="where data is kept")
    quick = {"sf": [0.01], "tasks": [1, 2], "queries": "q03"}
    given = common.parse(parser, arguments, quick)
    return common.guarded(lambda: _main(given))


def _main(given: argparse.Namespace) -> None:
    select_queries(given.queries)
    results = common.Results("clusters", given)
    before = results.before() if given.add else None
    costs: list[Cost] = []
    answers: dict[tuple[float, str, str], str] = {}
    jobs: list[float] = []
    for tasks in given.tasks:
        # A process for each: a JVM belongs to one Spark.
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
            own, found, seconds = pool.submit(measure, _Task(tasks, given)).result()
        for key, answer in found.items():
            if answers.setdefault(key, answer) != answer:
                raise common.WrongAnswerError(f"{key} differs with {tasks} tasks")
        costs += own
        jobs.append(seconds)
    clusters: list[Cluster] = []
    for executors in given.executors:
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
            clusters.append(pool.submit(on_cluster, executors, given).result())
    found = results.write(
        _together({"costs": costs, "job_seconds": min(jobs), "clusters": clusters}, before)
    )
    common.show_figures(tables(found))
    common.show_targets(targets(found))
    _draw(results, found)


def _together(found: dict[str, Any], before: Mapping[str, Any] | None) -> dict[str, Any]:
    """With what was measured before of other scale factors, tasks and phases."""
    if before is None:
        return found
    own = {(c.sf, c.tasks, c.phase) for c in found["costs"]}
    kept = [c for c in before["costs"] if (c["sf"], c["tasks"], c["phase"]) not in own]
    return {
        "costs": [*kept, *found["costs"]],
        "job_seconds": min(found["job_seconds"], before["job_seconds"]),
        "clusters": found["clusters"] or before.get("clusters", []),
    }


def measure(task: _Task) -> tuple[list[Cost], dict[tuple[float, str, str], str], float]:
    """All costs on one Spark, a hash of each view's rows, and the seconds of an empty job.

    Raises: common.WrongAnswerError if a view differs from its recompute.
    """
    given = task.given
    queries = select_queries(given.queries)
    costs: list[Cost] = []
    answers: dict[tuple[float, str, str], str] = {}
    spark = sqlview.start_spark(f"local[{task.tasks}]")
    try:
        empty = min(job_seconds(spark, task.tasks) for _ in range(3))
        for sf in sorted(given.sf):
            directory = generate.generate(sf, given.data)
            verified = sf == min(given.sf) and task.tasks == min(given.tasks)
            with tempfile.TemporaryDirectory(dir=".") as name:
                here = Path(name).absolute()
                divided = _split if "flood" in given.phases else _whole
                files = {t: divided(directory, t, here) for t in tables_of(queries)}
                for cost, view, answer in _measured(
                    task, sf, files, queries, here, spark, verified
                ):
                    costs.append(cost)
                    answers |= {(sf, cost.phase, v): a for v, a in zip(view, answer, strict=True)}
    finally:
        spark.stop()
    return costs, answers, empty


def on_cluster(executors: int, given: argparse.Namespace) -> Cluster:
    """Tables loaded, and views created over them, on so many executors, when they are warm."""
    queries, sf = select_queries(given.queries), max(given.sf)
    directory = generate.generate(sf, given.data)
    spark = sqlview.start_spark(f"local-cluster[{executors},1,{_EXECUTOR_MIB}]")
    try:
        with tempfile.TemporaryDirectory(dir=".") as name:
            here = Path(name).absolute()
            files = {t: _whole(directory, t, here) for t in tables_of(queries)}
            _warm_up(files, here, spark)
            with _opened(here / "store", files, spark) as db:
                with common.measuring() as load:
                    for table, own in files.items():
                        db.load(table, spark.read.parquet(*own.paths))
                for query in queries:  # once before, for what every process does once
                    db.sql(query.create_sql)
                for query in queries:
                    db.sql(f"DROP MATERIALIZED VIEW {query.name}")
                with common.measuring() as hydration:
                    for query in queries:
                        db.sql(query.create_sql)
                for query in queries:
                    _answer(db, query, verified=True)
    finally:
        spark.stop()
    seconds, driver, cpu, _ = hydration()
    return Cluster(executors, sf, len(queries), load()[0], seconds, driver, cpu)


def _measured(
    task: _Task,
    sf: float,
    files: Mapping[str, _Table],
    queries: Sequence[Query],
    here: Path,
    spark: Any,
    verified: bool,
) -> Iterator[tuple[Cost, list[str], list[str]]]:
    """Each cost, with the views that it is of and hashes of their rows."""
    progress, phases = common.progress(), task.given.phases
    names = [query.name for query in queries]

    def cost(
        phase: str, name: str, rows: int, size: int, found: tuple[float, float, float, int]
    ) -> Cost:
        return Cost(task.tasks, sf, phase, name, rows, size, *found)

    def frame(*paths: str) -> Any:
        return spark.read.parquet(*paths)

    _warm_up(files, here, spark)
    if "load" in phases or "hydration" in phases:
        with _opened(here / "whole", files, spark) as db:
            progress.print(f"{task.tasks} tasks, scale factor {sf:g}: load")
            with common.measuring() as measured:
                for table, own in files.items():
                    db.load(table, frame(*own.paths))
            rows, size = (sum(each) for each in zip(
                *((own.rows, own.size_bytes) for own in files.values()), strict=True
            ))  # fmt: skip
            if "load" in phases:
                yield cost("load", "all tables", rows, size, measured()), [], []
            for query in queries if "hydration" in phases else ():
                progress.print(f"{task.tasks} tasks, scale factor {sf:g}: {query.name}")
                with common.measuring() as measured:
                    db.sql(query.create_sql)
                own = [files[table] for table in query.tables]
                rows, size = sum(t.rows for t in own), sum(t.size_bytes for t in own)
                answer = _answer(db, query, verified)
                yield cost("hydration", query.name, rows, size, measured()), [query.name], [answer]
    if "flood" in phases:
        with _opened(here / "part", files, spark) as db:
            for table, own in files.items():
                db.load(table, frame(own.paths[0]))
            for query in queries:
                db.sql(query.create_sql)
            progress.print(f"{task.tasks} tasks, scale factor {sf:g}: flood")
            frames = {table: frame(own.paths[1]) for table, own in files.items()}
            with common.measuring() as measured, db.transaction() as tx:
                for table, each in frames.items():
                    tx.insert(table, each)
            rows = sum(own.file_rows[1] for own in files.values())
            size = sum(own.files[1].stat().st_size for own in files.values())
            answers = [_answer(db, query, verified) for query in queries]
            yield cost("flood", f"{len(queries)} views", rows, size, measured()), names, answers


def _opened(path: Path, files: Mapping[str, _Table], spark: Any) -> sqlview.Session:
    """A new store with the tables, all of which is placed on Spark."""
    db = sqlview.connect(path, spark=spark, placement="spark")
    for table in files:
        db.sql(TABLES_BY_NAME[table].sql)
    return db


def _warm_up(files: Mapping[str, _Table], here: Path, spark: Any) -> None:
    """Let workers be there, with all that they and this process have from their first loads on."""
    with (
        tempfile.TemporaryDirectory(dir=here) as name,
        _opened(Path(name) / "store", files, spark) as db,
    ):
        for table, own in files.items():
            few = Path(name) / f"{table}.parquet"
            rows = next(pq.ParquetFile(own.files[0]).iter_batches(1000))
            pq.write_table(pa.Table.from_batches([rows]), few)
            db.load(table, spark.read.parquet(str(few)))


def _answer(db: sqlview.Session, query: Query, verified: bool) -> str:
    """A hash of the rows, whatever their order. Raises: common.WrongAnswerError."""
    if verified:
        found = db.sql(f"VERIFY MATERIALIZED VIEW {query.name}").to_arrow().to_pylist()
        if not all(each["equal"] for each in found):
            raise common.WrongAnswerError(f"{query.name} differs from its recompute: {found}")
    rows = sorted(map(repr, db.view(query.name).rows()))
    return hashlib.sha256("\n".join(rows).encode()).hexdigest()


def _split(directory: Path, table: str, here: Path) -> _Table:
    """A table's file as two, without ever having more than some of it at hand."""
    source = pq.ParquetFile(generate.parquet_file(directory, table))
    rows = source.metadata.num_rows
    middle, done = int(rows * _LOADED_SHARE), 0
    first, rest = here / f"{table}-first.parquet", here / f"{table}-rest.parquet"
    schema = source.schema_arrow
    with pq.ParquetWriter(first, schema) as before, pq.ParquetWriter(rest, schema) as behind:
        for batch in source.iter_batches(1 << 18):
            cut = min(max(middle - done, 0), batch.num_rows)
            for out, some in ((before, batch.slice(0, cut)), (behind, batch.slice(cut))):
                if some.num_rows:
                    out.write_table(pa.Table.from_batches([some]))
            done += batch.num_rows
    return _Table((first, rest), (middle, rows - middle))


def _whole(directory: Path, table: str, here: Path) -> _Table:
    """A table's file as it is."""
    file = generate.parquet_file(directory, table)
    return _Table((file,), (pq.ParquetFile(file).metadata.num_rows,))


def lines(result: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    """For each phase, of its work at each scale factor with the most tasks: seconds that do not
    grow with rows, and CPU seconds a row, of the driver and of all others; `rows` of scale factor
    1."""
    costs, found = result["costs"], {}
    tasks = max(each["tasks"] for each in costs)
    for phase in PHASES:
        by_sf = {
            sf: [c for c in costs if (c["phase"], c["tasks"], c["sf"]) == (phase, tasks, sf)]
            for sf in sorted({c["sf"] for c in costs})
        }
        sums = [
            (
                sf,
                sum(c["rows"] for c in some),
                sum(c["seconds"] for c in some),
                sum(c["driver_cpu_seconds"] for c in some),
                sum(max(c["cpu_seconds"] - c["driver_cpu_seconds"], 0.0) for c in some),
            )
            for sf, some in by_sf.items()
            if some
        ]
        if sums:
            scales, rows, seconds, driver, others = map(np.array, zip(*sums, strict=True))
            fixed = fit(rows, seconds)[0]
            found[phase] = {
                "rows": float((rows / scales).mean()),
                "fixed_seconds": fixed,
                "driver_cpu_seconds": fit(rows, driver)[1],
                "others_cpu_seconds": fit(rows, others)[1],
            }
    return found


def fit(rows: Any, seconds: Any) -> tuple[float, float]:
    """Seconds = fixed + slope × rows, least squares of the relative error, neither negative; all in
    proportion to the rows if there is one point."""
    rows, seconds = np.asarray(rows, float), np.maximum(np.asarray(seconds, float), 1e-9)
    proportional = float((rows / seconds).sum() / (rows / seconds @ (rows / seconds)))
    if len(rows) < 2:
        return 0.0, proportional
    matrix = np.stack([np.ones_like(rows), rows], axis=1) / seconds[:, None]
    fixed, slope = np.linalg.lstsq(matrix, np.ones_like(rows), rcond=None)[0]
    if fixed < 0:
        return 0.0, proportional
    return (float(fixed), float(slope)) if slope >= 0 else (float(seconds.mean()), 0.0)


def predicted_seconds(line: Mapping[str, float], sf: float, cores: int) -> float:
    """Of a phase on a cluster; see the module."""
    rows = line["rows"] * sf
    others = line["others_cpu_seconds"] * rows / min(cores, MOST_TASKS)
    return line["fixed_seconds"] + line["driver_cpu_seconds"] * rows + others


def tables(result: Mapping[str, Any]) -> list[common.Figures]:
    costs, number = result["costs"], common.number
    figures: list[common.Figures] = []
    for sf in sorted({c["sf"] for c in costs}):
        own = [c for c in costs if c["sf"] == sf]
        own += _totals(own)
        rows = tuple(
            (
                f"{c['phase']}, {c['name']}, {c['tasks']} tasks",
                f"{c['rows']:,}",
                number(c["seconds"]),
                number(c["driver_cpu_seconds"]),
                number(c["cpu_seconds"]),
                f"{_share(c):.1%}",
                number(_heap_a_mb(c)),
            )
            for c in sorted(own, key=lambda c: (PHASES.index(c["phase"]), c["name"], c["tasks"]))
        )
        heads = ("rows", "s", "driver, CPU s", "all, CPU s", "driver's share", "heap, KiB per MB")
        figures.append(common.Figures(f"Scale factor {sf:g}", ("work", *heads), rows))
    scales = sorted({c["sf"] for c in costs})
    said = " and ".join(f"{sf:g}" for sf in scales)
    figures.append(
        common.Figures(
            f"Predicted from scale factors {said}: seconds on clusters of so many cores",
            ("work, scale factor", *(f"{cores} cores" for cores in _CLUSTER_CORES)),
            tuple(
                (
                    f"{phase}, {sf:,}",
                    *(number(predicted_seconds(line, sf, c)) for c in _CLUSTER_CORES),
                )
                for phase, line in lines(result).items()
                for sf in _CLUSTER_SCALES
            ),
        )
    )
    figures.append(
        common.Figures(
            f"Work from which `auto` takes Spark: jobs of {result['job_seconds']:.2f} s, as here",
            ("cores", "break-even, M units of work"),
            tuple(
                (str(c), number(SparkCosts(result["job_seconds"], c).break_even / 1e6))
                for c in _CLUSTER_CORES
            ),
        )
    )
    clusters = result.get("clusters", [])
    if clusters:
        first = clusters[0]
        title = f"{first['views']} views at scale factor {first['sf']:g}, executors of one core"
        heads = ("load, s", "first rows, s", "driver, CPU s", "all, CPU s", "times as fast")
        figures.append(
            common.Figures(
                title,
                ("executors", *heads),
                tuple(
                    (
                        str(c["executors"]),
                        number(c["load_seconds"]),
                        number(c["hydration_seconds"]),
                        number(c["hydration_driver_cpu_seconds"]),
                        number(c["hydration_cpu_seconds"]),
                        number(first["hydration_seconds"] / c["hydration_seconds"]),
                    )
                    for c in clusters
                ),
            )
        )
    return figures


def _totals(costs: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Of the first rows of all views, by scale factor and tasks, where there are several views."""
    found: list[dict[str, Any]] = []
    views = [c for c in costs if c["phase"] == "hydration"]
    for sf, tasks in dict.fromkeys((c["sf"], c["tasks"]) for c in views):
        own = [c for c in views if (c["sf"], c["tasks"]) == (sf, tasks)]
        if len(own) > 1:
            numbers = {of: sum(c[of] for c in own) for of in own[0] if of not in _NO_SUMS}
            same = {"sf": sf, "tasks": tasks, "phase": "hydration"}
            found.append(numbers | same | {"name": f"all {len(own)} views"})
    return found


def _share(cost: Mapping[str, Any]) -> float:
    whole: float = cost["cpu_seconds"]
    return float(cost["driver_cpu_seconds"]) / whole if whole else 0.0


def _heap_a_mb(cost: Mapping[str, Any]) -> float:
    """KiB."""
    return max(float(cost["heap_bytes"]), 0.0) / 1024 / (float(cost["file_bytes"]) / 1e6)


def targets(result: Mapping[str, Any]) -> list[common.Target]:
    """Of scale factor 1 and larger ones, or the largest; of views all together."""
    costs = result["costs"]
    least = min(1.0, max(c["sf"] for c in costs))
    several = {(c["sf"], c["tasks"]) for c in _totals(costs)}
    found: list[common.Target] = []
    for cost in (*costs, *_totals(costs)):
        sf, tasks = cost["sf"], cost["tasks"]
        is_part = (sf, tasks) in several and cost["phase"] == "hydration"
        if sf >= least and (not is_part or cost["name"].startswith("all ")):
            what = f"{cost['phase']}, {cost['name']}, {tasks} tasks, scale factor {sf:g}"
            share, heap = _share(cost), _heap_a_mb(cost)
            goal = f"{what}: at most {_MOST_SHARE:.0%} of the CPU time in the driver"
            found.append(common.Target(goal, f"{share:.1%}", share <= _MOST_SHARE))
            if cost["phase"] == "load":
                goal = "… and at most 1 KiB of its heap for each MB"
                most = _MOST_HEAP_BYTES_A_MB / 1024
                found.append(common.Target(goal, f"{common.number(heap)} KiB", heap <= most))
    return found


def _draw(results: common.Results, result: Mapping[str, Any]) -> None:
    costs = result["costs"]
    with results.chart(2) as (shares, times):
        most = max(c["tasks"] for c in costs)
        for tasks in sorted({c["tasks"] for c in costs}):
            for phase, mark in zip(PHASES, "os^", strict=True):
                own = [c for c in costs if (c["tasks"], c["phase"]) == (tasks, phase)]
                if own:
                    shares.plot(
                        [c["rows"] for c in own], [_share(c) for c in own], mark,
                        label=f"{phase}, {tasks} tasks",
                    )  # fmt: skip
        shares.axhline(_MOST_SHARE, color="grey", linewidth=0.8)
        shares.set_xscale("log")
        shares.set_yscale("log")
        shares.set_xlabel("rows")
        shares.set_ylabel("driver's share of the CPU time")
        shares.legend(fontsize=7)
        cores = [2**i for i in range(10)]
        for phase, line in lines(result).items():
            for sf, style in zip(_CLUSTER_SCALES, ("--", "-"), strict=True):
                seconds = [predicted_seconds(line, sf, c) for c in cores]
                times.plot(cores, seconds, style, label=f"{phase}, scale factor {sf:,}")
        times.set_xscale("log", base=2)
        times.set_yscale("log")
        times.set_xlabel(f"cores (predicted from {most} tasks)")
        times.set_ylabel("seconds")
        times.legend(fontsize=7)


if __name__ == "__main__":
    raise SystemExit(main())
