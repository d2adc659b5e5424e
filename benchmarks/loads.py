"""What a load costs, and whom: python -m benchmarks.loads --sf 1

TPC-H's lineitem goes from Parquet files into an empty table of a store, in the order of its key and
shuffled: as files that this process reads, or Spark's tasks; and as a Spark DataFrame that comes
through this process, or whose rows the tasks write. The CPU time is this process's, the driver's,
and that of its children, the JVM and Python workers; a scan by Spark alone is beside it. Heap is
the memory of this process that belongs to no file, after the load, beyond what it was.

Invariant: the table's count and sums are those of the files.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pyarrow.parquet as pq

import sqlview
from benchmarks import common
from operators import budget
from tpch import generate
from tpch.schema import TABLES_BY_NAME

ORDERS = ("in order", "shuffled")
WAYS = ("files", "through the driver", "by tasks", "files, by tasks")
_TABLE = "lineitem"
_FILES = 8
_CHECK = f"""SELECT count(*) AS n, sum(l_orderkey) AS keys, sum(l_quantity) AS quantity,
    sum(length(l_comment)) AS texts FROM {_TABLE}"""


@dataclass(frozen=True, slots=True)
class Load:
    order: str
    way: str
    rows: int
    file_bytes: int
    seconds: float
    driver_cpu_seconds: float
    cpu_seconds: float
    heap_bytes: int


def main(arguments: Sequence[str] | None = None) -> int:
    parser = common.parser("loads", __doc__)
    parser.add_argument("--sf", type=float, default=1.0, help="scale factor (%(default)s)")
    parser.add_argument("--data", type=Path, metavar="DIRECTORY", help="where data is kept")
    parser.add_argument("--tasks", type=common.positive, default=2, help="at a time (%(default)s)")
    given = common.parse(parser, arguments, {"sf": 0.01})
    return common.guarded(lambda: _main(given))


def _main(given: argparse.Namespace) -> None:
    results = common.Results("loads", given)
    directory = generate.generate(given.sf, given.data)
    spark = sqlview.start_spark(f"local[{given.tasks}]")
    loads: list[Load] = []
    try:
        with tempfile.TemporaryDirectory(dir=".") as name:
            for place, order in enumerate(ORDERS):
                files = Path(name).absolute() / order.replace(" ", "-")
                expected = _write(directory, files, None if place == 0 else given.seed)
                frame = spark.read.parquet(str(files))
                loads.append(_scan(order, frame, expected, files))
                _load(Path(name), spark, frame.limit(1000), "by tasks")  # workers are there
                for way in WAYS:
                    common.progress().print(f"{order}, {way}")
                    loads.append(_measured(Path(name), spark, frame, files, order, way, expected))
    finally:
        spark.stop()
    found = results.write({"loads": loads})
    common.show_figures(tables(found))
    common.show_targets(targets(found))
    _draw(results, found)


def _write(directory: Path, files: Path, shuffle_seed: int | None) -> tuple[Any, ...]:
    """The table as several files; what `_CHECK` says of it."""
    rows = generate.load(directory, [_TABLE], shuffle_seed=shuffle_seed)[_TABLE]
    files.mkdir()
    size = -(-rows.num_rows // _FILES)
    for i in range(_FILES):
        pq.write_table(rows.slice(i * size, size), files / f"{i:02}.parquet")
    lengths = pc.sum(pc.utf8_length(rows["l_comment"]))
    return (
        rows.num_rows,
        pc.sum(rows["l_orderkey"]).as_py(),
        pc.sum(rows["l_quantity"]).as_py(),
        lengths.as_py(),
    )


def _scan(order: str, frame: Any, expected: tuple[Any, ...], files: Path) -> Load:
    with _measuring() as measured:
        frame.write.format("noop").mode("overwrite").save()
    return Load(order, "scan by Spark", expected[0], _size(files), *measured())


def _measured(
    directory: Path,
    spark: Any,
    frame: Any,
    files: Path,
    order: str,
    way: str,
    expected: tuple[Any, ...],
) -> Load:
    data = str(files) if way.startswith("files") else frame
    return Load(
        order, way, expected[0], _size(files), *_load(directory, spark, data, way, expected)
    )


def _load(
    directory: Path, spark: Any, data: Any, way: str, expected: tuple[Any, ...] | None = None
) -> tuple[float, float, float, int]:
    """What it cost. Raises: common.WrongAnswerError."""
    placement = "spark" if way.endswith("by tasks") else "inline"
    with (
        tempfile.TemporaryDirectory(dir=directory) as name,
        sqlview.connect(Path(name) / "store", spark=spark, placement=placement) as db,
    ):
        db.sql(TABLES_BY_NAME[_TABLE].sql)
        with _measuring() as measured:
            db.load(_TABLE, data)
        cost = measured()
        if expected is not None:
            db.sql(f"CREATE MATERIALIZED VIEW found AS {_CHECK}")
            found = tuple(db.view("found").to_arrow().to_pylist()[0].values())
            if found != expected:
                raise common.WrongAnswerError(f"{found} was loaded, not {expected}")
    return cost


@contextmanager
def _measuring() -> Iterator[Callable[[], tuple[float, float, float, int]]]:
    """What the block took: seconds, this process's CPU seconds and that with all its children's,
    and bytes of its heap."""
    budget.release()
    heap, cpu, children = budget.anonymous_bytes(), time.process_time(), _children_seconds()
    started = time.perf_counter()
    taken: list[tuple[float, float, float, int]] = []
    yield lambda: taken[0]
    seconds = time.perf_counter() - started
    own = time.process_time() - cpu
    budget.release()
    heap = budget.anonymous_bytes() - heap
    taken.append((seconds, own, own + _children_seconds() - children, heap))


def _children_seconds() -> float:
    """CPU time of all processes under this one, those that have ended included."""
    parents: dict[int, int] = {}
    ticks: dict[int, int] = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            text = Path(f"/proc/{name}/stat").read_text(encoding="utf-8")
        except OSError:
            continue
        fields = text.rpartition(")")[2].split()
        parents[int(name)] = int(fields[1])
        ticks[int(name)] = sum(map(int, fields[11:15]))
    total = 0
    for process, own in ticks.items():
        above = parents[process]
        while above in parents and above != os.getpid():
            above = parents[above]
        if above == os.getpid():
            total += own
    return total / os.sysconf("SC_CLK_TCK")


def _size(files: Path) -> int:
    return sum(path.stat().st_size for path in files.iterdir())


def tables(result: dict[str, Any]) -> list[common.Figures]:
    rows = tuple(
        (
            f"{load['order']}, {load['way']}",
            common.number(load["seconds"]),
            common.number(load["driver_cpu_seconds"]),
            common.number(load["cpu_seconds"]),
            f"{_share(load):.1%}",
            common.mib(load["heap_bytes"]),
        )
        for load in result["loads"]
    )
    first = result["loads"][0]
    title = f"lineitem, {first['rows']:,} rows in {common.mib(first['file_bytes'])} MiB of Parquet"
    columns = ("load", "s", "driver, CPU s", "all, CPU s", "driver's share", "heap, MiB more")
    return [common.Figures(title, columns, rows)]


def _share(load: dict[str, Any]) -> float:
    share: float = load["driver_cpu_seconds"] / load["cpu_seconds"] if load["cpu_seconds"] else 0.0
    return share


def targets(result: dict[str, Any]) -> list[common.Target]:
    found: list[common.Target] = []
    for order in ORDERS:
        by_way = {load["way"]: load for load in result["loads"] if load["order"] == order}
        driver = by_way["through the driver"]
        for way in ("by tasks", "files, by tasks"):
            tasks = by_way[way]
            found += [
                common.Target(
                    f"{order}, {way}: at most 5% of the CPU time in the driver",
                    f"{_share(tasks):.1%}",
                    _share(tasks) <= 0.05,
                ),
                common.Target(
                    "… at most half the CPU time of a load through the driver",
                    f"{tasks['cpu_seconds'] / driver['cpu_seconds']:.0%}",
                    2 * tasks["cpu_seconds"] <= driver["cpu_seconds"],
                ),
            ]
    return found


def _draw(results: common.Results, result: dict[str, Any]) -> None:
    with results.chart() as (axes,):
        names = [f"{load['order']},\n{load['way']}" for load in result["loads"]]
        driver = [load["driver_cpu_seconds"] for load in result["loads"]]
        others = [load["cpu_seconds"] - load["driver_cpu_seconds"] for load in result["loads"]]
        axes.barh(names, driver, label="driver")
        axes.barh(names, others, left=driver, label="JVM and workers")
        axes.invert_yaxis()
        axes.set_xlabel("CPU seconds")
        axes.legend()


if __name__ == "__main__":
    raise SystemExit(main())
