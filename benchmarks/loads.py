"""What a load and a view cost, and whom: python -m benchmarks.loads

TPC-H's lineitem goes from Parquet files into an empty table of a store, in the order of its key and
shuffled: as files that this process reads, or Spark's tasks; and as a Spark DataFrame that comes
through this process, or whose rows the tasks write. The CPU time is this process's, the driver's,
and that of its children, the JVM and Python workers; a scan by Spark alone is beside it. Heap is
the memory of this process that belongs to no file, after the load, beyond what it was. Keys that
are shuffled need an index, which tasks build where the load is theirs and large.

Then views are created over loaded tables, by this process and by tasks: their indexes, and their
first rows. And floods come to views over a part of the tables: the rest of the rows, as DataFrames,
in one step.

Invariant: the table's count and sums are those of the files, the views' rows those of the driver.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pyarrow.parquet as pq

import sqlview
from benchmarks import common
from tpch import generate
from tpch.queries import Query, select_queries, tables_of
from tpch.schema import TABLES_BY_NAME

ORDERS = ("in order", "shuffled")
PLACEMENTS = ("inline", "spark")
WAYS = ("files", "through the driver", "by tasks", "files, by tasks")
PARTS = ("loads", "views", "floods")
#: Of each table, before a flood.
_LOADED_SHARE = 0.3
#: Before tasks wrote what they read, six million rows took this process 2.6 s, and the JVM and
#: workers 47.
_MOST_CPU_SECONDS_A_ROW = (2.6 + 47) / 2 / 6_001_215
_TABLE = "lineitem"
_FILES = 8
_CHECK = f"""SELECT count(*) AS n, sum(l_orderkey) AS keys, sum(l_quantity) AS quantity,
    sum(length(l_comment)) AS texts FROM {_TABLE}"""


@dataclass(frozen=True, slots=True)
class Load:
    sf: float
    order: str
    way: str
    rows: int
    file_bytes: int
    seconds: float
    driver_cpu_seconds: float
    cpu_seconds: float
    heap_bytes: int


@dataclass(frozen=True, slots=True)
class View:
    """`rows` of the tables that it reads; of several, to which a flood comes, those that arrive."""

    sf: float
    query: str
    placement: str
    rows: int
    seconds: float
    driver_cpu_seconds: float
    cpu_seconds: float
    heap_bytes: int


def main(arguments: Sequence[str] | None = None) -> int:
    parser = common.parser("loads", __doc__)
    parser.add_argument(
        "--sf", type=float, nargs="+", default=[0.1, 1.0], help="scale factors (0.1 1)"
    )
    parser.add_argument("--queries", default="q01,q03,q18", help="of the views (%(default)s)")
    parser.add_argument(
        "--parts", nargs="+", choices=PARTS, default=list(PARTS), help="what is measured (all)"
    )
    parser.add_argument("--data", type=Path, metavar="DIRECTORY", help="where data is kept")
    parser.add_argument("--tasks", type=common.positive, default=2, help="at a time (%(default)s)")
    parser.add_argument(
        "--orders", nargs="+", choices=ORDERS, default=list(ORDERS), help="of the rows (both)"
    )
    quick = {"sf": [0.01], "queries": "q03", "orders": ["shuffled"]}
    given = common.parse(parser, arguments, quick)
    return common.guarded(lambda: _main(given))


def _main(given: argparse.Namespace) -> None:
    queries = select_queries(given.queries)
    results = common.Results("loads", given)
    spark = sqlview.start_spark(f"local[{given.tasks}]")
    loads: list[Load] = []
    views: list[View] = []
    floods: list[View] = []
    try:
        for sf in given.sf:
            directory = generate.generate(sf, given.data)
            with tempfile.TemporaryDirectory(dir=".") as name:
                here = Path(name).absolute()
                if "loads" in given.parts:
                    loads += _loads(sf, directory, here, spark, given.orders, given.seed)
                if "views" in given.parts:
                    views += _views(sf, directory, here, spark, queries)
                if "floods" in given.parts:
                    floods += _floods(sf, directory, here, spark, queries)
    finally:
        spark.stop()
    found = results.write({"loads": loads, "views": views, "floods": floods})
    common.show_figures(tables(found))
    common.show_targets(targets(found))
    _draw(results, found)


def _loads(
    sf: float, directory: Path, here: Path, spark: Any, orders: Sequence[str], seed: int
) -> Iterator[Load]:
    for order in orders:
        files = here / order.replace(" ", "-")
        expected = _write(directory, files, seed if order == "shuffled" else None)
        frame, size = spark.read.parquet(str(files)), _size(files)
        _load(here, spark, frame.limit(1000), "by tasks")  # workers are there
        with common.measuring() as measured:
            frame.write.format("noop").mode("overwrite").save()
        yield Load(sf, order, "scan by Spark", expected[0], size, *measured())
        for way in WAYS:
            common.progress().print(f"{sf:g}, {order}, {way}")
            data = str(files) if way.startswith("files") else frame
            cost = _load(here, spark, data, way, expected)
            yield Load(sf, order, way, expected[0], size, *cost)


def _views(
    sf: float, directory: Path, here: Path, spark: Any, queries: Sequence[Query]
) -> Iterator[View]:
    """Raises: common.WrongAnswerError."""
    expected: dict[str, list[Any]] = {}
    for placement in PLACEMENTS:
        with (
            tempfile.TemporaryDirectory(dir=here) as name,
            sqlview.connect(Path(name) / "store", spark=spark, placement=placement) as db,
        ):
            rows: dict[str, int] = {}
            for table in tables_of(queries):
                db.sql(TABLES_BY_NAME[table].sql)
                rows[table] = db.load(table, str(directory / f"{table}.parquet")).rows
            for query in queries:
                common.progress().print(f"{sf:g}, {query.name}, {placement}")
                with common.measuring() as measured:
                    db.sql(query.create_sql)
                found = sorted(db.view(query.name).rows(), key=repr)
                if found != expected.setdefault(query.name, found):
                    raise common.WrongAnswerError(f"{query.name} differs by placement")
                read = sum(rows[table] for table in query.tables)
                yield View(sf, query.name, placement, read, *measured())


def _floods(
    sf: float, directory: Path, here: Path, spark: Any, queries: Sequence[Query]
) -> Iterator[View]:
    """Twice each, of which the second counts. Raises: common.WrongAnswerError."""
    tables = generate.load(directory, tables_of(queries))
    first = {name: int(rows.num_rows * _LOADED_SHARE) for name, rows in tables.items()}
    for name, rows in tables.items():
        pq.write_table(rows.slice(first[name]), here / f"{name}.parquet")
    expected: dict[str, list[Any]] = {}
    for placement in PLACEMENTS:
        for turn in range(2):
            with (
                tempfile.TemporaryDirectory(dir=here) as name,
                sqlview.connect(Path(name) / "store", spark=spark, placement="inline") as db,
            ):
                for table, rows in tables.items():
                    db.sql(TABLES_BY_NAME[table].sql)
                    with db.transaction() as tx:
                        tx.insert(table, rows.slice(0, first[table]))
                for query in queries:
                    db.sql(query.create_sql)
                common.progress().print(f"{sf:g}, flood, {placement}")
                frames = {t: spark.read.parquet(str(here / f"{t}.parquet")) for t in tables}
                with common.measuring() as measured, db.transaction(placement=placement) as tx:
                    for table, frame in frames.items():
                        tx.insert(table, frame)
                for query in queries:
                    found = sorted(db.view(query.name).rows(), key=repr)
                    if found != expected.setdefault(query.name, found):
                        raise common.WrongAnswerError(f"{query.name} differs by placement")
            if turn:
                came = sum(rows.num_rows - first[table] for table, rows in tables.items())
                names = ", ".join(query.name for query in queries)
                yield View(sf, names, placement, came, *measured())


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
        with common.measuring() as measured:
            db.load(_TABLE, data)
        cost = measured()
        if expected is not None:
            db.sql(f"CREATE MATERIALIZED VIEW found AS {_CHECK}")
            found = tuple(db.view("found").to_arrow().to_pylist()[0].values())
            if found != expected:
                raise common.WrongAnswerError(f"{found} was loaded, not {expected}")
    return cost


def _size(files: Path) -> int:
    return sum(path.stat().st_size for path in files.iterdir())


def tables(result: dict[str, Any]) -> list[common.Figures]:
    figures: list[common.Figures] = []
    costs = ("s", "driver, CPU s", "all, CPU s", "driver's share", "heap, MiB more")
    for sf in sorted({load["sf"] for load in result["loads"]}):
        loads = [load for load in result["loads"] if load["sf"] == sf]
        first = loads[0]
        title = (
            f"lineitem, {first['rows']:,} rows in {common.mib(first['file_bytes'])} MiB of Parquet"
        )
        rows = tuple((f"{load['order']}, {load['way']}", *_cost(load)) for load in loads)
        figures.append(common.Figures(title, ("load", *costs), rows))
        rows = tuple(
            (f"{view['query']}, {view['placement']}", f"{view['rows']:,}", *_cost(view))
            for view in sorted(result["views"], key=lambda view: view["query"])
            if view["sf"] == sf
        )
        title = f"First rows of views, scale factor {sf:g}"
        if rows:
            figures.append(common.Figures(title, ("view", "rows under it", *costs), rows))
    floods = result.get("floods", [])
    if floods:
        rows = tuple(
            (f"{each['sf']:g}, {each['placement']}", f"{each['rows']:,}", *_cost(each))
            for each in floods
        )
        title = f"Floods that come to {floods[0]['query']}"
        figures.append(common.Figures(title, ("scale factor", "rows that arrive", *costs), rows))
    return figures


def _cost(measured: dict[str, Any]) -> tuple[str, ...]:
    return (
        common.number(measured["seconds"]),
        common.number(measured["driver_cpu_seconds"]),
        common.number(measured["cpu_seconds"]),
        f"{_share(measured):.1%}",
        common.mib(measured["heap_bytes"]),
    )


def _share(load: dict[str, Any]) -> float:
    share: float = load["driver_cpu_seconds"] / load["cpu_seconds"] if load["cpu_seconds"] else 0.0
    return share


def targets(result: dict[str, Any]) -> list[common.Target]:
    """Of the largest scale factor."""
    if not result["loads"]:
        return []
    sf = max(load["sf"] for load in result["loads"])
    found: list[common.Target] = []
    for order in dict.fromkeys(load["order"] for load in result["loads"]):
        by_way = {
            load["way"]: load
            for load in result["loads"]
            if (load["order"], load["sf"]) == (order, sf)
        }
        for way in ("by tasks", "files, by tasks"):
            tasks = by_way[way]
            most = _MOST_CPU_SECONDS_A_ROW * tasks["rows"]
            found += [
                _at_most_5_percent(f"{order}, {way}", tasks),
                common.Target(
                    f"… at most {most:.1f} s of CPU time, half of what it took before tasks loaded",
                    f"{tasks['cpu_seconds']:.1f} s",
                    tasks["cpu_seconds"] <= most,
                ),
            ]
    for view in result["views"]:
        if view["sf"] == sf and view["placement"] == "spark":
            found.append(_at_most_5_percent(f"{view['query']} by tasks", view))
    return found


def _at_most_5_percent(name: str, measured: dict[str, Any]) -> common.Target:
    share = _share(measured)
    return common.Target(
        f"{name}: at most 5% of the CPU time in the driver", f"{share:.1%}", share <= 0.05
    )


def _draw(results: common.Results, result: dict[str, Any]) -> None:
    """Of the largest scale factor."""
    if not result["loads"]:
        return
    sf = max(load["sf"] for load in result["loads"])
    bars = [(f"{x['order']}, {x['way']}", x) for x in result["loads"] if x["sf"] == sf]
    bars += [(f"{x['query']}, {x['placement']}", x) for x in result["views"] if x["sf"] == sf]
    with results.chart() as (axes,):
        names = [name for name, _ in bars]
        driver = [x["driver_cpu_seconds"] for _, x in bars]
        others = [max(x["cpu_seconds"] - x["driver_cpu_seconds"], 0) for _, x in bars]
        axes.barh(names, driver, label="driver")
        axes.barh(names, others, left=driver, label="JVM and workers")
        axes.tick_params(axis="y", labelsize=7)
        axes.invert_yaxis()
        axes.set_xlabel("CPU seconds")
        axes.legend()


if __name__ == "__main__":
    raise SystemExit(main())
