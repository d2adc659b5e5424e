"""Refresh against recompute: python -m benchmarks.recompute --sf 1

Each query alone, inline, over loaded tables. A change touches a share of the rows of the tables
that the query reads, at random and of each table alike: half are deleted, half are updated in one
group of columns. The next change undoes it, so the tables stay as large as they are; both are
timed. The recomputes are of the query's own text: DuckDB's over tables in its memory, with its
default settings, and Spark SQL's in local mode from Parquet files, each result fetched as Arrow and
the first run not counted. What it costs them to take the change in is not counted.

The break-even is the share of rows from which on the recompute is quicker.

Invariant: before it is timed, a share's first change and its undoing have left the view equal to
its recompute; so have all changes together at the end.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

import sqlview
from benchmarks import common
from benchmarks.arrival import step
from tpch import stream
from tpch.checks import StreamOracle
from tpch.generate import generate, load, parquet_file
from tpch.queries import Query, select_queries, tables_of
from tpch.report import cores, geometric_mean
from tpch.runner import RunOptions, open_session
from tpch.schema import TABLES_BY_NAME

SHARES = (1e-5, 1e-4, 1e-3, 1e-2, 1e-1)


@dataclass(frozen=True, slots=True)
class Refresh:
    """The steps after changes of `rows` rows, a `share` of all."""

    share: float
    rows: int
    median_ms: float
    max_ms: float


@dataclass(frozen=True, slots=True)
class Comparison:
    """One query. `break_even`, of `duckdb_ms`, and `spark_break_even`: a share; None where the
    refresh is quicker at the largest tried, 0 where it is at none. `spark_ms`: None: not run."""

    query: str
    table_rows: int
    duckdb_ms: float
    spark_ms: float | None
    refreshes: tuple[Refresh, ...]
    break_even: float | None
    spark_break_even: float | None


def main(arguments: Sequence[str] | None = None) -> int:
    parser = common.parser("recompute", __doc__)
    common.add_tpch_options(parser)
    parser.add_argument("--sf", type=float, default=1.0, help="scale factor (%(default)s)")
    parser.add_argument(
        "--shares", type=_share, nargs="+", default=list(SHARES), metavar="F",
        help="changed rows over all rows (0.00001 … 0.1)",
    )  # fmt: skip
    parser.add_argument(
        "--pairs", type=common.positive, default=5, metavar="N",
        help="changes of each share, each with its undoing (%(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--recomputes", type=common.positive, default=5, metavar="N",
        help="recomputes of each query, of which the median counts (%(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--seconds", type=float, default=2.0, metavar="S",
        help="of the changes of each share, after which there are no more (%(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--threads", type=common.positive, metavar="N",
        help="of DuckDB and Spark (default: all cores)",
    )  # fmt: skip
    parser.add_argument(
        "--spark-recomputes", type=int, default=1, metavar="N",
        help="by Spark, after one that does not count; 0: without Spark (%(default)s)",
    )  # fmt: skip
    quick = {"sf": 0.01, "shares": [1e-3, 1e-1], "pairs": 1, "recomputes": 1}
    given = common.parse(parser, arguments, quick)
    return common.guarded(lambda: _main(given))


def _share(text: str) -> float:
    share = float(text)
    if not 0 < share <= 0.5:
        raise argparse.ArgumentTypeError("a share is more than 0 and at most 0.5")
    return share


def _main(given: argparse.Namespace) -> None:
    queries = select_queries(given.queries)
    results = common.Results("recompute", given)
    console = common.progress()
    data: Path | None = given.data
    directory = generate(given.sf, data)
    spark_ms: dict[str, float] = {}
    if given.spark_recomputes:
        console.print("Spark recomputes")
        threads = given.threads or cores()
        spark_ms = spark_recompute(queries, directory, given.spark_recomputes, threads)
    rows = load(directory, tables_of(queries))
    console.print("Warming up")
    common.warm_up(queries, rows)
    console.print("DuckDB recomputes")
    duckdb_ms = recompute(queries, rows, given.recomputes, given.threads)
    comparisons: list[Comparison] = []
    for query in queries:
        own = {name: rows[name] for name in query.tables}
        refreshes = refresh(query, own, given)
        steps = [(r.share, r.median_ms) for r in refreshes]
        once_ms, spark_once_ms = duckdb_ms[query.name], spark_ms.get(query.name)
        console.print(
            f"{query.name}  recompute {once_ms:.1f} ms, refresh "
            + ", ".join(f"{share * 100:g} %: {ms:.2f} ms" for share, ms in steps)
        )
        comparisons.append(
            Comparison(
                query.name,
                sum(table.num_rows for table in own.values()),
                once_ms,
                spark_once_ms,
                refreshes,
                break_even([(share, ms / once_ms) for share, ms in steps]),
                None
                if spark_once_ms is None
                else break_even([(share, ms / spark_once_ms) for share, ms in steps]),
            )
        )
    found = results.write({"comparisons": comparisons})
    common.show_figures(tables(found))
    common.show_targets(targets(found))
    _draw(results, found)


def spark_recompute(
    queries: Sequence[Query], directory: Path, times: int, threads: int
) -> dict[str, float]:
    """The median time in ms in which Spark SQL runs each query from Parquet, its result in Arrow.

    One run of all before them is not counted.
    """
    found: dict[str, list[float]] = {query.name: [] for query in queries}
    spark = sqlview.start_spark(f"local[{threads}]")
    try:
        for name in tables_of(queries):
            frame = spark.read.parquet(str(parquet_file(directory, name)))
            frame.createOrReplaceTempView(name)
        for turn in range(times + 1):
            for query in queries:
                started = time.perf_counter()
                spark.sql(query.sql).toArrow()
                if turn:
                    found[query.name].append(time.perf_counter() - started)
    finally:
        spark.stop()
    return {name: float(np.median(seconds)) * 1000 for name, seconds in found.items()}


def recompute(
    queries: Sequence[Query], tables: Mapping[str, pa.Table], times: int, threads: int | None
) -> dict[str, float]:
    """The median time in ms in which DuckDB runs each query, its result in Arrow; one run before
    them is not counted."""
    found: dict[str, float] = {}
    with duckdb.connect() as db:
        if threads is not None:
            db.execute(f"SET threads = {threads:d}")
        for name, rows in tables.items():
            db.register("loading", rows)
            db.execute(f"CREATE TABLE {name} AS SELECT * FROM loading")
            db.unregister("loading")
        for query in queries:
            seconds: list[float] = []
            for _ in range(times + 1):
                started = time.perf_counter()
                db.sql(query.sql).to_arrow_table()
                seconds.append(time.perf_counter() - started)
            found[query.name] = float(np.median(seconds[1:])) * 1000
    return found


def refresh(
    query: Query, tables: Mapping[str, pa.Table], given: argparse.Namespace
) -> tuple[Refresh, ...]:
    """Time the steps after changes of each share.

    Raises: common.WrongAnswerError if the view differs from its recompute.
    """
    rng = np.random.default_rng(given.seed)
    initial = stream.initial_batch(tables, {name: rows.num_rows for name, rows in tables.items()})
    recomputed = StreamOracle((query,))
    refreshes: list[Refresh] = []
    try:
        with open_session(RunOptions(placement="inline"), (query,), None) as db:
            step(db, initial)
            recomputed.apply(initial)
            _check(recomputed, db, query)
            for share in sorted(set(given.shares)):
                for batch in change_and_undo(tables, share, rng):
                    step(db, batch)
                    recomputed.apply(batch)
                    _check(recomputed, db, query)
                step_ms: list[float] = []
                for _ in range(given.pairs):
                    batches = change_and_undo(tables, share, rng)
                    step_ms += [step(db, batch) * 1000 for batch in batches]
                    if sum(step_ms) > given.seconds * 1000:
                        break
                refreshes.append(
                    Refresh(share, batches[0].rows, float(np.median(step_ms)), max(step_ms))
                )
            _check(recomputed, db, query)
    finally:
        recomputed.close()
    return tuple(refreshes)


def _check(recomputed: StreamOracle, db: sqlview.Session, query: Query) -> None:
    found = recomputed.difference(db, query)
    if found is not None:
        raise common.WrongAnswerError(
            f'view "{query.name}" differs from its recompute at epoch {found.epoch}: '
            f"{found.missing.num_rows} missing, {found.extra.num_rows} extra"
        )


def change_and_undo(
    tables: Mapping[str, pa.Table], share: float, rng: np.random.Generator
) -> tuple[stream.Batch, stream.Batch]:
    """A transaction that deletes and updates `share` of the rows of the whole `tables`, one row of
    the largest at least, and the one that undoes it."""
    change: list[stream.Change] = []
    undo: list[stream.Change] = []
    largest = max(tables, key=lambda name: tables[name].num_rows)
    for name, rows in tables.items():
        # A fraction of a row counts as one so often that the shares are right on average.
        count = int(rows.num_rows * share + rng.random())
        if name == largest:
            count = max(count, 1)
        chosen = rng.choice(rows.num_rows, count, replace=False)
        updated, deleted = chosen[: (count + 1) // 2], chosen[(count + 1) // 2 :]
        definition = TABLES_BY_NAME[name]
        if len(deleted):
            gone = rows.take(pa.array(deleted))
            keys = gone.select(list(definition.primary_key))
            change.append(stream.Change("delete", name, keys))
            undo.append(stream.Change("insert", name, gone))
        if len(updated):
            before = rows.take(pa.array(updated))
            after = before
            groups = definition.update_groups
            donors = rows.take(pa.array(rng.integers(0, rows.num_rows, len(updated))))
            for column in groups[rng.integers(len(groups))]:
                place = rows.column_names.index(column)
                after = after.set_column(place, rows.schema.field(place), donors.column(column))
            change.append(stream.Change("upsert", name, after))
            undo.append(stream.Change("upsert", name, before))
    return stream.Batch(tuple(change)), stream.Batch(tuple(undo))


def break_even(ratios: Sequence[tuple[float, float]]) -> float | None:
    """The share from which on refresh over recompute, at ascending shares, is at least 1; straight
    lines between the logarithms. None: it is less at the last; 0: it is never less."""
    share, ratio = ratios[-1]
    if ratio < 1:
        return None
    for less_share, less_ratio in reversed(ratios[:-1]):
        if less_ratio < 1:
            part = math.log(less_ratio) / (math.log(less_ratio) - math.log(ratio))
            return math.exp(math.log(less_share) + part * math.log(share / less_share))
        share, ratio = less_share, less_ratio
    return 0.0


def tables(result: Mapping[str, Any]) -> list[common.Figures]:
    comparisons = result["comparisons"]
    shares = [refresh["share"] for refresh in comparisons[0]["refreshes"]]
    has_spark = comparisons[0]["spark_ms"] is not None
    rows: list[tuple[str, ...]] = []
    for each in comparisons:
        cells = [each["query"], common.number(each["duckdb_ms"])]
        if has_spark:
            cells.append(common.number(each["spark_ms"]))
        cells += [common.number(refresh["median_ms"]) for refresh in each["refreshes"]]
        cells.append(_share_text(each["break_even"], shares))
        if has_spark:
            cells.append(_share_text(each["spark_break_even"], shares))
        rows.append(tuple(cells))
    footer = [_gains(comparisons, "duckdb_ms", has_spark)]
    if has_spark:
        footer.append(_gains(comparisons, "spark_ms", has_spark))
    spark, spark_even = (("Spark ms",), ("of Spark",)) if has_spark else ((), ())
    return [
        common.Figures(
            f"Refresh in ms after a change of so many of the rows, scale factor "
            f"{result['settings']['sf']:g}",
            ("query", "DuckDB ms", *spark, *(f"{share * 100:g} %" for share in shares),
             "break-even", *spark_even),
            tuple(rows),
            tuple(footer),
        )
    ]  # fmt: skip


def _gains(comparisons: Sequence[Mapping[str, Any]], peer: str, has_spark: bool) -> tuple[str, ...]:
    """Recompute over refresh for each share, geometric means."""
    gains = [
        geometric_mean([each[peer] / each["refreshes"][i]["median_ms"] for each in comparisons])
        for i in range(len(comparisons[0]["refreshes"]))
    ]
    name = {"duckdb_ms": "DuckDB", "spark_ms": "Spark"}[peer]
    blank = [""] * (2 if has_spark else 1)
    return (f"{name} / refresh", *blank, *map(common.number, gains), *blank)


def _share_text(share: float | None, shares: Sequence[float]) -> str:
    if share is None:
        return f"> {shares[-1] * 100:g} %"
    return f"{share * 100:.2g} %" if share else f"< {shares[0] * 100:g} %"


def targets(result: Mapping[str, Any]) -> list[common.Target]:
    """None beyond what the tables of the peers say: a refresh after 1,000 of 8.7 M rows some 500
    times cheaper than a recompute, after 100,000 some 10 times."""
    comparisons = result["comparisons"]
    if result["settings"]["sf"] != 1:
        return []
    found = []
    for share, gain in ((1e-4, 500.0), (1e-2, 10.0)):
        ratios = [
            each["duckdb_ms"] / refresh["median_ms"]
            for each in comparisons
            for refresh in each["refreshes"]
            if refresh["share"] == share
        ]
        if ratios:
            mean = geometric_mean(ratios)
            found.append(
                common.Target(
                    f"refresh after {share * 100:g} % some {gain:g} times cheaper than DuckDB's "
                    "recompute, SF 1",
                    f"{mean:.3g} times",
                    mean >= gain,
                )
            )
    return found


def _draw(results: common.Results, result: Mapping[str, Any]) -> None:
    """A line per query, refresh over recompute; below 1 the refresh is quicker."""
    comparisons = result["comparisons"]
    percent = [refresh["share"] * 100 for refresh in comparisons[0]["refreshes"]]
    peers = [("duckdb_ms", "DuckDB")]
    if comparisons[0]["spark_ms"] is not None:
        peers.append(("spark_ms", "Spark SQL"))
    with results.chart(len(peers), height_inches=5.5) as panels:
        for axes, (peer, name) in zip(panels, peers, strict=True):
            ratios = [[r["median_ms"] / c[peer] for r in c["refreshes"]] for c in comparisons]
            for found, ratio in zip(comparisons, ratios, strict=True):
                axes.plot(percent, ratio, color="silver", linewidth=1)
                axes.annotate(found["query"], (percent[-1], ratio[-1]), fontsize="xx-small")
            means = [geometric_mean(column) for column in zip(*ratios, strict=True)]
            axes.plot(percent, means, "o-", color="black", label="geometric mean")
            axes.axhline(1, linestyle="--", color="firebrick", label="break-even")
            axes.set_xscale("log")
            axes.set_yscale("log")
            axes.set_xlabel("changed rows, % of all")
            axes.set_ylabel(f"refresh / recompute by {name}")
            axes.set_title(f"TPC-H SF {result['settings']['sf']:g}, each query alone")
            axes.legend()


if __name__ == "__main__":
    raise SystemExit(main())
