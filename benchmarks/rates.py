"""TPC-H streaming rates: python -m benchmarks.rates --sf 0.1 1

Each query alone, inline, on one core: a session with its view, into which its tables arrive
round-robin. The clock runs from the begin of a step to its commit; the batches lie in memory.

Logical batches: a step is one transaction of so many rows. Where that makes at most 200 steps the
whole stream is timed, `--repeat` times, and the median run counts. Smaller batches are timed in
windows spread over the stream, with batches of 100,000 rows between them, for at most `--seconds` a
query and size: their rate is that of the windows together.

Physical batches: a step of 100,000 rows carries many transactions of so many rows, each at a time
of its own (`Session.transactions`), down to 100,000 of one row. The whole stream comes in such
steps, whose sizes of transaction take turns; a short stream comes again until each size had a few.

Invariant: a rate is that of a session whose view was equal to its recompute at the end.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from benchmarks import common
from benchmarks.arrival import RoundRobin, physical_step, step
from tpch.generate import generate, load
from tpch.queries import Query, select_queries, tables_of
from tpch.report import geometric_mean
from tpch.runner import ORDERS, RunOptions, garbage_collected, open_session, warm_memory

#: Million rows per second: differential dataflow, one worker, E5-4650 v2, scale factor 10, logical
#: batches of 100,000 rows. "Shared Arrangements" (PVLDB 13, 2020), Figure 12.
DIFFERENTIAL_SF10 = {
    "q01": 9.34, "q02": 4.39, "q03": 11.05, "q04": 9.05, "q05": 5.80, "q06": 33.09, "q07": 7.55,
    "q08": 4.95, "q09": 2.93, "q10": 9.71, "q11": 1.72, "q12": 11.26, "q13": 1.45, "q14": 21.91,
    "q15": 5.06, "q16": 4.44, "q17": 5.22, "q18": 5.85, "q19": 22.70, "q20": 16.09, "q21": 1.97,
    "q22": 1.84,
}  # fmt: skip

BATCH_ROWS = (1, 10, 100, 1_000, 10_000, 100_000)

_BULK_ROWS = 100_000
_WHOLE_STEPS = 200
_WINDOWS = 8
#: Of physical batches: steps of each size of transaction, and streams for them, at most.
_PHYSICAL_STEPS = 6
_PHYSICAL_STREAMS = 3
_MOST_WINDOW_STEPS = 1_000
#: No second run of a stream whose runs took so long already.
_ENOUGH_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Cell:
    """One query at one size of batch: `time_rows` rows at a logical time, `step_rows` in a step.

    `is_whole`: the whole stream was timed; `runs`: the rates of its runs, or of each window.
    `is_physical`: one of the steps that show physical batching.
    """

    sf: float
    order: str
    query: str
    time_rows: int
    step_rows: int
    is_whole: bool
    is_physical: bool
    rows: int
    steps: int
    rows_per_second: float
    runs: tuple[float, ...]
    p50_ms: float
    p95_ms: float
    p99_ms: float
    max_ms: float
    state_bytes: int


def main(arguments: Sequence[str] | None = None) -> int:
    parser = common.parser("rates", __doc__)
    common.add_tpch_options(parser)
    parser.add_argument(
        "--sf", type=float, nargs="+", default=[0.1, 1.0], help="scale factors (0.1 1)"
    )
    parser.add_argument(
        "--batch-rows", type=common.positive, nargs="+", default=list(BATCH_ROWS), metavar="N",
        help="changed rows per transaction (1 10 100 … 100,000)",
    )  # fmt: skip
    parser.add_argument(
        "--orders", choices=ORDERS, nargs="+", default=list(ORDERS),
        help="of arrival; all but in-order only with the largest batch (in-order shuffled)",
    )  # fmt: skip
    parser.add_argument(
        "--repeat", type=common.positive, default=3, metavar="N",
        help="of whole streams in order; a shuffled one runs once (3)",
    )  # fmt: skip
    parser.add_argument(
        "--seconds", type=float, default=1.2, metavar="S",
        help="of timed windows, per query and size of batch (%(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--physical-rows", type=int, default=_BULK_ROWS, metavar="N",
        help="rows in a physical batch; 0: no physical batches (%(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--cores", type=common.positive, default=1, metavar="N", help="cores to use (1)"
    )
    quick = {"sf": [0.01], "batch_rows": [10, 1_000], "repeat": 1, "seconds": 0.02,
             "physical_rows": 5_000}  # fmt: skip
    given = common.parse(parser, arguments, quick)
    return common.guarded(lambda: _main(given))


def _main(given: argparse.Namespace) -> None:
    select_queries(given.queries)
    results = common.Results("rates", given)
    cells: list[Cell] = []
    with common.pinned(given.cores):
        for sf in sorted(set(given.sf)):
            for order in given.orders:
                cells += _measure(given, sf, order)
    found = results.write({"cells": cells})
    common.show_figures(tables(found))
    common.show_targets(targets(found))
    _draw(results, found)


def _measure(given: argparse.Namespace, sf: float, order: str) -> list[Cell]:
    """All queries at one scale factor and order of arrival."""
    queries = select_queries(given.queries)
    console = common.progress()
    console.print(f"Reading TPC-H at scale factor {sf:g}, {order}")
    seed = given.seed if order == "shuffled" else None
    tables = load(generate(sf, given.data), tables_of(queries), shuffle_seed=seed)
    answers = common.Answers(queries, tables)
    console.print("Warming up")
    common.warm_up(queries, tables)
    sizes = sorted(set(given.batch_rows))
    if order != "in-order":
        sizes = sizes[-1:]
    cells: list[Cell] = []
    repeat = given.repeat if order == "in-order" else 1
    started = time.perf_counter()
    try:
        for number, query in enumerate(queries, 1):
            rows = RoundRobin({name: tables[name] for name in query.tables}).total
            wholes = [size for size in sizes if math.ceil(rows / size) <= _WHOLE_STEPS]
            sampled = [size for size in sizes if size not in wholes]
            runner = _Runner(query, tables, answers, sf, order)
            own = [runner.whole(size, repeat) for size in wholes]
            if sampled:
                own += runner.windows(sampled, given.seconds)
            if order == "in-order" and sf == max(given.sf) and given.physical_rows:
                times = [size for size in sizes if size <= given.physical_rows]
                own += runner.physical(times, given.physical_rows)
            shown = ", ".join(
                f"{cell.time_rows:,}{' a time' if cell.is_physical else ''}: "
                f"{cell.rows_per_second / 1e6:.3g}"
                for cell in own
            )
            minutes = (time.perf_counter() - started) / 60
            console.print(
                f"{query.name} ({number} of {len(queries)}, {minutes:.1f} min)  "
                f"M rows/s by batch: {shown}"
            )
            cells += own
    finally:
        answers.close()
    return cells


@dataclass(frozen=True, slots=True)
class _Runner:
    query: Query
    tables: Mapping[str, pa.Table]
    answers: common.Answers
    sf: float
    order: str

    def whole(self, batch_rows: int, repeat: int) -> Cell:
        """Time the whole stream; the run with the median rate."""
        runs: list[tuple[float, list[float], int]] = []
        for _ in range(repeat):
            arrival = self._arrival()
            batches = arrival.next(batch_rows, arrival.total)
            self._warm_memory()
            with self._session() as db, garbage_collected():
                seconds = [step(db, batch) for batch in batches]
                if not runs:
                    self.answers.check(db, [self.query], f"batches of {batch_rows:,} rows")
                runs.append((arrival.total / sum(seconds), seconds, db.metrics().state_bytes))
            del batches
            if sum(sum(run[1]) for run in runs) > _ENOUGH_SECONDS:
                break
        rates = tuple(rate for rate, _, _ in runs)
        rate, seconds, state_bytes = sorted(runs)[len(runs) // 2]
        return self._cell(
            batch_rows, batch_rows, arrival.total, seconds, rates, state_bytes, rate=rate
        )

    def windows(self, sizes: Sequence[int], seconds: float) -> list[Cell]:
        """Time logical batches of `sizes` in windows spread over one stream."""
        arrival = self._arrival()
        timed: dict[int, list[tuple[int, list[float]]]] = {size: [] for size in sizes}
        self._warm_memory()
        with self._session() as db, garbage_collected():
            for window in range(_WINDOWS):
                start = arrival.total * (2 * window + 1) // (2 * _WINDOWS)
                arrival.apply_up_to(db, start, _BULK_ROWS)
                for size, found in timed.items():
                    share = seconds / _WINDOWS
                    found.append(arrival.window(db, size, _MOST_WINDOW_STEPS, share))
            arrival.apply_up_to(db, arrival.total, _BULK_ROWS)
            self.answers.check(db, [self.query], "windows")
        return [self._sampled(size, size, found) for size, found in timed.items()]

    def physical(self, sizes: Sequence[int], step_rows: int) -> list[Cell]:
        """Time steps of `step_rows` rows in transactions of each of `sizes`, in turns."""
        timed: dict[int, list[tuple[int, list[float]]]] = {size: [] for size in sizes}
        for run in range(_PHYSICAL_STREAMS):
            batches = list(self._arrival().numbered(step_rows))
            self._warm_memory()
            with self._session() as db, garbage_collected():
                for i, numbered in enumerate(batches):
                    # Each stream begins with another size; they differ along a stream.
                    size = sizes[(i + run * len(sizes) // _PHYSICAL_STREAMS) % len(sizes)]
                    took = physical_step(db, numbered, size)
                    if numbered.batch.rows == step_rows:
                        timed[size].append((step_rows, [took]))
                self.answers.check(db, [self.query], "physical batches")
            if min(map(len, timed.values())) >= _PHYSICAL_STEPS:
                break
        return [
            self._sampled(size, step_rows, found, is_physical=True)
            for size, found in timed.items()
            if found
        ]

    def _sampled(
        self,
        time_rows: int,
        step_rows: int,
        windows: Sequence[tuple[int, list[float]]],
        *,
        is_physical: bool = False,
    ) -> Cell:
        full = [(rows, took) for rows, took in windows if took]
        seconds = [each for _, took in full for each in took]
        rates = tuple(rows / sum(took) for rows, took in full)
        rows = sum(rows for rows, _ in full)
        return self._cell(time_rows, step_rows, rows, seconds, rates, 0, is_physical=is_physical)

    def _cell(
        self,
        time_rows: int,
        step_rows: int,
        rows: int,
        seconds: Sequence[float],
        runs: tuple[float, ...],
        state_bytes: int,
        rate: float | None = None,
        is_physical: bool = False,
    ) -> Cell:
        return Cell(
            sf=self.sf,
            order=self.order,
            query=self.query.name,
            time_rows=time_rows,
            step_rows=step_rows,
            is_whole=rate is not None,
            is_physical=is_physical,
            rows=rows,
            steps=len(seconds),
            rows_per_second=rows / sum(seconds) if rate is None else rate,
            runs=runs,
            state_bytes=state_bytes,
            **common.percentiles_ms(seconds),
        )

    def _warm_memory(self) -> None:
        warm_memory(2 * sum(self.tables[name].nbytes for name in self.query.tables), keep=True)

    def _arrival(self) -> RoundRobin:
        return RoundRobin({name: self.tables[name] for name in self.query.tables})

    def _session(self) -> Any:
        return open_session(RunOptions(placement="inline"), (self.query,), None)


def tables(result: Mapping[str, Any]) -> list[common.Figures]:
    """Rates by scale factor, physical batches, and the steps of the view after q03."""
    cells = result["cells"]
    found = [
        _rates_table([cell for cell in cells if cell["sf"] == sf], sf)
        for sf in sorted({cell["sf"] for cell in cells})
    ]
    physical = [cell for cell in cells if cell["is_physical"]]
    if physical:
        found.append(_physical_table(physical))
    found.append(_steps_table([cell for cell in cells if cell["order"] == "in-order"]))
    return found


def _logical(cells: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [cell for cell in cells if not cell["is_physical"]]


def _rates_table(cells: Sequence[Mapping[str, Any]], sf: float) -> common.Figures:
    columns = sorted({(c["order"], c["time_rows"]) for c in _logical(cells)})
    by_place = {(c["query"], c["order"], c["time_rows"]): c for c in _logical(cells)}
    names = sorted({cell["query"] for cell in cells})
    last = max((c for c in columns if c[0] == "in-order"), default=columns[-1])

    def rate(name: str, column: tuple[str, int]) -> float:
        return float(by_place[name, column[0], column[1]]["rows_per_second"]) / 1e6

    def row(
        name: str, rates: Sequence[float], peer: float, marks: Sequence[str] = ()
    ) -> tuple[str, ...]:
        shown = [common.number(each) for each in rates]
        shown = [a + b for a, b in zip(shown, marks or [""] * len(shown), strict=True)]
        ratio = rates[columns.index(last)] / peer
        return (name, *shown, common.number(peer), f"{ratio:.2f}")

    rows: list[tuple[str, ...]] = []
    for name in names:
        marks = ["" if by_place[name, order, size]["is_whole"] else "*" for order, size in columns]
        rows.append(row(name, [rate(name, c) for c in columns], DIFFERENTIAL_SF10[name], marks))
    means = [geometric_mean([rate(name, c) for name in names]) for c in columns]
    peers = geometric_mean([DIFFERENTIAL_SF10[name] for name in names])
    heads = [f"{size:,}" + ("" if order == "in-order" else f" {order}") for order, size in columns]
    return common.Figures(
        f"Million rows per second by rows per transaction, scale factor {sf:g} (* sampled)",
        ("query", *heads, "DD SF 10", "ratio"),
        tuple(rows),
        (row("geometric mean", means, peers),),
    )


def _physical_table(cells: Sequence[Mapping[str, Any]]) -> common.Figures:
    sizes = sorted({cell["time_rows"] for cell in cells})
    by_place = {(cell["query"], cell["time_rows"]): cell for cell in cells}
    names = [
        n for n in sorted({c["query"] for c in cells}) if all((n, s) in by_place for s in sizes)
    ]
    rates = {
        name: [by_place[name, size]["rows_per_second"] / 1e6 for size in sizes] for name in names
    }
    means = [geometric_mean([rates[name][i] for name in names]) for i in range(len(sizes))]
    return common.Figures(
        f"Million rows per second by rows per logical time, {cells[0]['step_rows']:,} rows in one "
        f"step, scale factor {cells[0]['sf']:g}",
        ("query", *(f"{size:,}" for size in sizes)),
        tuple((name, *map(common.number, rates[name])) for name in names),
        (("geometric mean", *map(common.number, means)),),
    )


def _steps_table(cells: Sequence[Mapping[str, Any]]) -> common.Figures:
    sf = max(cell["sf"] for cell in cells)
    logical = _logical([cell for cell in cells if cell["sf"] == sf])
    sizes = sorted({cell["time_rows"] for cell in logical})
    shown = sorted({max((s for s in sizes if s <= 1_000), default=sizes[0]), sizes[-1]})
    by_place = {(cell["query"], cell["time_rows"]): cell for cell in logical}
    rows: list[tuple[str, ...]] = []
    for name in sorted({cell["query"] for cell in logical}):
        figures: list[str] = [name]
        for size in shown:
            cell = by_place[name, size]
            figures += [common.number(cell[k]) for k in ("p50_ms", "p95_ms", "max_ms")]
        state_bytes = max(by_place[name, size]["state_bytes"] for size in sizes)
        rows.append((*figures, common.mib(state_bytes) if state_bytes else "-"))
    heads = [f"{size:,} rows: {k}" for size in shown for k in ("p50 ms", "p95 ms", "max ms")]
    return common.Figures(
        f"Steps and state (indexes, derived relations, filters) at the end, scale factor {sf:g}",
        ("query", *heads, "state MiB"),
        tuple(rows),
    )


def targets(result: Mapping[str, Any]) -> list[common.Target]:
    cells = [c for c in result["cells"] if c["order"] == "in-order" and c["sf"] == 1]
    largest = {c["query"]: c for c in _logical(cells) if c["time_rows"] == _BULK_ROWS}
    if not largest:
        return []
    ratios = {n: c["rows_per_second"] / 1e6 / DIFFERENTIAL_SF10[n] for n, c in largest.items()}
    mean = geometric_mean(list(ratios.values()))
    below = sorted(name for name, ratio in ratios.items() if ratio < 1)
    found = [
        common.Target(
            "each query at least DD SF 10, batches of 100,000 rows, SF 1",
            f"{len(ratios) - len(below)} of {len(ratios)}"
            + (f"; below: {', '.join(below)}" if below else ""),
            not below,
        ),
        common.Target("twice DD SF 10 as geometric mean", f"{mean:.2f} times", mean >= 2),
    ]
    trickle = [c for c in _logical(cells) if (c["query"], c["time_rows"]) == ("q03", 1_000)]
    for cell in trickle:
        p50, most = cell["p50_ms"], cell["max_ms"]
        found.append(
            common.Target(
                "1,000-row step of q03 at most 1 ms median, SF 1", f"{p50:.2f} ms", p50 <= 1
            )
        )
        found.append(
            common.Target(
                "slowest 1,000-row step of q03 at most 10 times the median",
                f"{most / p50:.1f} times",
                most <= 10 * p50,
            )
        )
    return found


def _draw(results: common.Results, result: Mapping[str, Any]) -> None:
    """A bar per query beside differential dataflow's, a panel per scale factor; then the geometric
    means over the size of the batch."""
    cells = [cell for cell in result["cells"] if cell["order"] == "in-order"]
    factors = sorted({cell["sf"] for cell in cells})
    width = 0.4
    with results.chart(len(factors) + 1) as panels:
        for sf, axes in zip(factors, panels, strict=False):
            logical = _logical([cell for cell in cells if cell["sf"] == sf])
            size = max(cell["time_rows"] for cell in logical)
            shown = {
                c["query"]: c["rows_per_second"] / 1e6 for c in logical if c["time_rows"] == size
            }
            places = range(len(shown))
            axes.bar([p - width / 2 for p in places], list(shown.values()), width,
                     label=f"sqlview, SF {sf:g}")  # fmt: skip
            axes.bar([p + width / 2 for p in places], [DIFFERENTIAL_SF10[n] for n in shown], width,
                     label="differential dataflow, SF 10 (published)")  # fmt: skip
            axes.set_xticks(places, list(shown), rotation=45)
            axes.set_ylabel("million rows per second")
            axes.set_title(f"TPC-H, each query alone, batches of {size:,} rows")
            axes.legend()
        for sf in factors:
            logical = _logical([cell for cell in cells if cell["sf"] == sf])
            _draw_means(panels[-1], logical, f"one time a step, SF {sf:g}")
        physical = [cell for cell in cells if cell["is_physical"]]
        if physical:
            label = f"{physical[0]['step_rows']:,} rows a step, SF {physical[0]['sf']:g}"
            _draw_means(panels[-1], physical, label)
        panels[-1].set_xscale("log")
        panels[-1].set_yscale("log")
        panels[-1].set_xlabel("rows per logical time")
        panels[-1].set_ylabel("million rows per second, geometric mean")
        panels[-1].legend()


def _draw_means(axes: Any, cells: Sequence[Mapping[str, Any]], label: str) -> None:
    sizes = sorted({cell["time_rows"] for cell in cells})
    means = [
        geometric_mean([c["rows_per_second"] / 1e6 for c in cells if c["time_rows"] == size])
        for size in sizes
    ]
    axes.plot(sizes, means, "o-", label=label)


if __name__ == "__main__":
    raise SystemExit(main())
