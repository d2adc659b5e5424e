"""Refresh against recompute: python -m benchmarks.recompute --sf 0.1

Each query alone, inline, over loaded tables. A change touches a share of the rows of the tables
that the query reads, at random and of each table alike: half are deleted, half are updated in one
group of columns. The next change undoes it, so the tables stay as large as they are; both are
timed. The recompute is DuckDB's, of the query's own text over tables in its memory, with its
default settings; what it costs to bring the change into these tables is not counted.

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

import duckdb
import numpy as np
import pyarrow as pa

import sqlview
from benchmarks import common
from tpch import stream
from tpch.checks import StreamOracle
from tpch.generate import generate, load
from tpch.queries import Query, select_queries, tables_of
from tpch.report import geometric_mean
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
    """One query. `break_even`: a share; None where the refresh is quicker at the largest tried, 0
    where it is at none."""

    query: str
    table_rows: int
    recompute_ms: float
    refreshes: tuple[Refresh, ...]
    break_even: float | None


def main(arguments: Sequence[str] | None = None) -> int:
    parser = common.parser("recompute", __doc__)
    common.add_tpch_options(parser)
    parser.add_argument("--sf", type=float, default=0.1, help="scale factor (%(default)s)")
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
        "--threads", type=common.positive, metavar="N", help="of DuckDB (default: all cores)"
    )
    given = parser.parse_args(arguments)
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
    tables = load(generate(given.sf, data), tables_of(queries))
    console.print("Warming up")
    common.warm_up(queries, tables)
    console.print("DuckDB recomputes")
    recompute_ms = recompute(queries, tables, given.recomputes, given.threads)
    shares = sorted(set(given.shares))
    comparisons: list[Comparison] = []
    for query in queries:
        console.print(f"{query.name}")
        own = {name: tables[name] for name in query.tables}
        refreshes = refresh(query, own, shares, given.pairs, given.seed)
        once_ms = recompute_ms[query.name]
        comparisons.append(
            Comparison(
                query.name,
                sum(rows.num_rows for rows in own.values()),
                once_ms,
                refreshes,
                break_even([(r.share, r.median_ms / once_ms) for r in refreshes]),
            )
        )
    results.write({"comparisons": comparisons})
    _print(comparisons, shares, given.sf)
    _draw(results, comparisons, shares, given.sf)


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
    query: Query, tables: Mapping[str, pa.Table], shares: Sequence[float], pairs: int, seed: int
) -> tuple[Refresh, ...]:
    """Time the steps after changes of each share.

    Raises: common.WrongAnswerError if the view differs from its recompute.
    """
    rng = np.random.default_rng(seed)
    initial = stream.initial_batch(tables, {name: rows.num_rows for name, rows in tables.items()})
    recomputed = StreamOracle((query,))
    refreshes: list[Refresh] = []
    try:
        with open_session(RunOptions(placement="inline"), (query,), None) as db:
            _step(db, initial)
            recomputed.apply(initial)
            _check(recomputed, db, query)
            for share in shares:
                for batch in change_and_undo(tables, share, rng):
                    _step(db, batch)
                    recomputed.apply(batch)
                    _check(recomputed, db, query)
                step_ms: list[float] = []
                for _ in range(pairs):
                    batches = change_and_undo(tables, share, rng)
                    step_ms += [_step(db, batch) * 1000 for batch in batches]
                refreshes.append(
                    Refresh(share, batches[0].rows, float(np.median(step_ms)), max(step_ms))
                )
            _check(recomputed, db, query)
    finally:
        recomputed.close()
    return tuple(refreshes)


def _step(db: sqlview.Session, batch: stream.Batch) -> float:
    started = time.perf_counter()
    with db.transaction() as tx:
        stream.apply(batch, tx)
    return time.perf_counter() - started


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


def _print(comparisons: Sequence[Comparison], shares: Sequence[float], sf: float) -> None:
    columns = ["recompute ms", *(f"{share * 100:g} %" for share in shares), "break-even"]
    table = common.table(f"Refresh in ms after a change, scale factor {sf:g}", "query", columns)
    for found in comparisons:
        if found.break_even is None:
            where = f"> {shares[-1] * 100:g} %"
        elif found.break_even:
            where = f"{found.break_even * 100:.2g} %"
        else:
            where = f"< {shares[0] * 100:g} %"
        cells = [f"{each.median_ms:.2f}" for each in found.refreshes]
        table.add_row(found.query, f"{found.recompute_ms:.2f}", *cells, where)
    table.add_section()
    gains = [
        geometric_mean([c.recompute_ms / c.refreshes[place].median_ms for c in comparisons])
        for place in range(len(shares))
    ]
    table.add_row("recompute / refresh", "", *(f"{gain:.3g}" for gain in gains), "")
    common.show(table)


def _draw(
    results: common.Results, comparisons: Sequence[Comparison], shares: Sequence[float], sf: float
) -> None:
    """A line per query, refresh over recompute; below 1 the refresh is quicker."""
    percent = [share * 100 for share in shares]
    with results.chart(height_inches=5.5) as (axes,):
        ratios = [[r.median_ms / c.recompute_ms for r in c.refreshes] for c in comparisons]
        for found, ratio in zip(comparisons, ratios, strict=True):
            axes.plot(percent, ratio, color="silver", linewidth=1)
            axes.annotate(found.query, (percent[-1], ratio[-1]), fontsize="xx-small")
        means = [geometric_mean(column) for column in zip(*ratios, strict=True)]
        axes.plot(percent, means, "o-", color="black", label="geometric mean")
        axes.axhline(1, linestyle="--", color="firebrick", label="break-even")
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlabel("changed rows, % of all")
        axes.set_ylabel("refresh / recompute by DuckDB")
        axes.set_title(f"TPC-H SF {sf:g}, each query alone")
        axes.legend()


if __name__ == "__main__":
    raise SystemExit(main())
