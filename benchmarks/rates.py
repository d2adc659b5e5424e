"""TPC-H streaming rates: python -m benchmarks.rates --sf 1 --batch-rows 1000 100000

Each query alone, inline, on one core, its tables streamed round-robin in batches of so many changed
rows (`python -m tpch stream --mode each` says what is timed), beside differential dataflow's rates.

Small batches over whole tables would take hours. A run that is bounded, by default below 10,000
rows, loads half of each table first and streams so many rows after it. The next rows of all tables
then come in equal numbers, so that changes of small tables, each of which reaches many rows of
large ones, are more frequent than in a whole stream.

Invariant: a rate is that of a run whose view was equal to its recompute at the end.
"""

from __future__ import annotations

import argparse
import contextlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import common
from tpch.queries import select_queries
from tpch.report import QueryReport, geometric_mean
from tpch.runner import ORDERS, RunOptions, run

#: Million rows per second: differential dataflow, one worker, E5-4650 v2, scale factor 10, logical
#: batches of 100,000 rows. "Shared Arrangements" (PVLDB 13, 2020), Figure 12.
DIFFERENTIAL_SF10 = {
    "q01": 9.34, "q02": 4.39, "q03": 11.05, "q04": 9.05, "q05": 5.80, "q06": 33.09, "q07": 7.55,
    "q08": 4.95, "q09": 2.93, "q10": 9.71, "q11": 1.72, "q12": 11.26, "q13": 1.45, "q14": 21.91,
    "q15": 5.06, "q16": 4.44, "q17": 5.22, "q18": 5.85, "q19": 22.70, "q20": 16.09, "q21": 1.97,
    "q22": 1.84,
}  # fmt: skip

BATCH_ROWS = (1, 10, 100, 1_000, 10_000, 100_000)

#: A bounded run has this many steps, or as many as its rows make.
_BOUNDED_STEPS = 500
_BOUNDED_LOAD = 0.5
# From here on whole streams take seconds to minutes.
_WHOLE_BATCH_ROWS = 10_000


@dataclass(frozen=True, slots=True)
class Rate:
    """One query at one scale factor and batch size: the run with the median rate of `runs`.

    `changes`: the bound on the stream, None for whole tables.
    """

    sf: float
    batch_rows: int
    changes: int | None
    runs: tuple[float, ...]
    report: QueryReport

    @property
    def million(self) -> float:
        return self.report.rows_per_second / 1e6


def main(arguments: Sequence[str] | None = None) -> int:
    parser = common.parser("rates", __doc__)
    common.add_tpch_options(parser)
    parser.add_argument("--sf", type=float, nargs="+", default=[0.1], help="scale factors (0.1)")
    parser.add_argument(
        "--batch-rows",
        type=common.positive,
        nargs="+",
        default=list(BATCH_ROWS),
        metavar="N",
        help="changed rows per transaction (1 10 100 … 100,000)",
    )
    parser.add_argument(
        "--changes",
        type=common.positive,
        metavar="N",
        help="stream at most so many rows at every batch size (default: "
        f"{_BOUNDED_STEPS} steps below {_WHOLE_BATCH_ROWS:,} rows, else whole tables)",
    )
    parser.add_argument("--order", choices=ORDERS, default="in-order", help="(%(default)s)")
    parser.add_argument(
        "--runs", type=common.positive, default=3, metavar="N", help="report the median (3)"
    )
    parser.add_argument(
        "--cores", type=common.positive, default=1, metavar="N", help="cores to use (1)"
    )
    given = parser.parse_args(arguments)
    return common.guarded(lambda: _main(given))


def _main(given: argparse.Namespace) -> None:
    select_queries(given.queries)
    results = common.Results("rates", given)
    sizes = sorted(set(given.batch_rows))
    with _cores(given.cores):
        rates = [rate for sf in given.sf for size in sizes for rate in measure(given, sf, size)]
        means = [
            {
                "sf": sf,
                "batch_rows": size,
                "geometric_mean_rows_per_second": geometric_mean(
                    [r.report.rows_per_second for r in rates if (r.sf, r.batch_rows) == (sf, size)]
                ),
                "geometric_mean_ratio_to_differential": _mean_ratio(rates, sf, size),
            }
            for sf in given.sf
            for size in sizes
        ]
        results.write(
            {
                "rates": rates,
                "means": means,
                "differential_sf10_million_rows_per_second": DIFFERENTIAL_SF10,
            }
        )
    for sf in given.sf:
        _print(rates, sf, sizes)
    _draw(results, rates, given.sf, sizes[-1])


def measure(given: argparse.Namespace, sf: float, batch_rows: int) -> list[Rate]:
    """All queries at one scale factor and batch size.

    Raises: common.WrongAnswerError if a view differs from its recompute.
    """
    changes: int | None = given.changes
    if changes is None and batch_rows < _WHOLE_BATCH_ROWS:
        changes = batch_rows * _BOUNDED_STEPS
    data: Path | None = given.data
    options = RunOptions(
        sf=sf,
        queries=given.queries,
        mode="each",
        batch_rows=batch_rows,
        changes=changes,
        load=0.0 if changes is None else _BOUNDED_LOAD,
        placement="inline",
        order=given.order,
        verify="final",
        seed=given.seed,
        data=data,
    )
    console = common.progress()
    console.print(f"Scale factor {sf:g}, batches of {batch_rows:,} rows")
    by_query: dict[str, list[QueryReport]] = {}
    for _ in range(given.runs):
        outcome = run(options, console=console)
        for difference in outcome.differences:
            raise common.WrongAnswerError(
                f'view "{difference.view}" differs from its recompute at epoch {difference.epoch}'
            )
        for report in outcome.report.queries:
            by_query.setdefault(report.query, []).append(report)
    rates: list[Rate] = []
    for reports in by_query.values():
        ascending = sorted(reports, key=lambda report: report.rows_per_second)
        runs = tuple(report.rows_per_second for report in reports)
        rates.append(Rate(sf, batch_rows, changes, runs, ascending[len(ascending) // 2]))
    return rates


@contextlib.contextmanager
def _cores(count: int) -> Iterator[None]:
    """Run on the first `count` of this process's cores, where the system lets a process choose."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(before)[:count])
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def _mean_ratio(rates: Sequence[Rate], sf: float, batch_rows: int) -> float:
    return geometric_mean(
        [
            rate.million / DIFFERENTIAL_SF10[rate.report.query]
            for rate in rates
            if (rate.sf, rate.batch_rows) == (sf, batch_rows)
        ]
    )


def _print(rates: Sequence[Rate], sf: float, sizes: Sequence[int]) -> None:
    by_place = {(r.report.query, r.batch_rows): r.million for r in rates if r.sf == sf}
    queries = sorted({query for query, _ in by_place})
    columns = [*(f"{size:,}" for size in sizes), "DD SF 10", "ratio"]
    table = common.table(f"Million rows per second, scale factor {sf:g}", "query", columns)
    for query in queries:
        found = [by_place[query, size] for size in sizes]
        peer = DIFFERENTIAL_SF10[query]
        cells = [f"{rate:.3g}" for rate in [*found, peer]]
        table.add_row(query, *cells, f"{found[-1] / peer:.2f}")
    means = [geometric_mean([by_place[query, size] for query in queries]) for size in sizes]
    peers = geometric_mean([DIFFERENTIAL_SF10[query] for query in queries])
    cells = [f"{rate:.3g}" for rate in [*means, peers]]
    table.add_section()
    table.add_row("geometric mean", *cells, f"{_mean_ratio(rates, sf, sizes[-1]):.2f}")
    common.show(table)


def _draw(
    results: common.Results, rates: Sequence[Rate], factors: Sequence[float], batch_rows: int
) -> None:
    """A bar per query beside differential dataflow's, a panel per scale factor."""
    width = 0.4
    with results.chart(len(factors)) as panels:
        for sf, axes in zip(factors, panels, strict=True):
            shown: list[Any] = [r for r in rates if (r.sf, r.batch_rows) == (sf, batch_rows)]
            names = [rate.report.query for rate in shown]
            places = range(len(names))
            axes.bar([p - width / 2 for p in places], [r.million for r in shown], width,
                     label=f"sqlview, SF {sf:g}")  # fmt: skip
            axes.bar([p + width / 2 for p in places], [DIFFERENTIAL_SF10[n] for n in names], width,
                     label="differential dataflow, SF 10 (published)")  # fmt: skip
            axes.set_xticks(places, names, rotation=45)
            axes.set_ylabel("million rows per second")
            axes.set_title(f"TPC-H, each query alone, batches of {batch_rows:,} rows")
            axes.legend()


if __name__ == "__main__":
    raise SystemExit(main())
