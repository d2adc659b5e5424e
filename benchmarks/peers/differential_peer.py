"""Beside differential dataflow: python -m benchmarks.compare --peer differential --sf 0.1

The crate in benchmarks/peers/differential has the 22 queries as dataflows on the crates timely and
differential-dataflow, with the answers of the SQL: plans written by hand after those of the peer's
authors, sums kept as differences, whole rows of a struct's type as input. It is built by cargo, for
this machine's processor, and left out with a message where there is none.

Both sides get the same rows in the same order and the same transactions, parsed and cut in memory
beforehand, and take each as a step of its own, on the one core that the process is pinned to, in
turn: `--runs` times, and the run with the median rate counts. Orders of arrival: round-robin with
each table in the order of its keys (in-order) or at random (shuffled), or one table after the other
(by-table). A stream of more than 200 steps is not timed as a whole but in 8 windows of `--steps`
steps together spread over it, with batches of 100,000 rows between them.

What the peer does not do: check types and keys, keep the tables' rows and the result, and ORDER BY
and LIMIT, which it has not. What is compared for q02, q03, q10, q18 and q21 is the whole result,
before LIMIT. A sum over no rows is no row there, and NULL in SQL; that is not told apart.

Memory is that of a process which runs the query once in the largest batches: at most, input
included, and beyond what it held before it had the input.

Invariant: before a query is timed at a size of batch, the peer's result of the same transactions
was DuckDB's, exact numbers exactly, ratios and averages within 1e-9; afterwards the view was its
recompute.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import decimal
import json
import math
import multiprocessing
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from benchmarks import common
from benchmarks.arrival import RoundRobin, TableAfterTable, step
from tpch import stream
from tpch.generate import generate, load
from tpch.queries import Query, select_queries, tables_of
from tpch.report import ResidentMemory, geometric_mean
from tpch.runner import RunOptions, garbage_collected, open_session
from tpch.schema import TABLES

ORDERS = ("in-order", "shuffled", "by-table")
BATCH_ROWS = (100_000, 1_000, 10, 1)

_CRATE = Path(__file__).parent / "differential"
_BULK_ROWS = 100_000
_WHOLE_STEPS = 200
_WINDOWS = 8
_BUILD_SECONDS = 3_600
_RUN_SECONDS = 600
_TOLERANCE = 1e-9
_SIDES = ("sqlview", "differential")
#: By size of batch, the least geometric mean of the ratios; each query's is 1 from _EACH_ROWS on.
_LEAST_MEANS = {100_000: 2.0, 1_000: 1.5, 10: 1.0, 1: 1.0}
_EACH_ROWS = 1_000


@dataclass(frozen=True, slots=True)
class Timed:
    """A transaction, and whether its step counts."""

    batch: stream.Batch
    is_timed: bool


@dataclass(frozen=True, slots=True)
class Side:
    """The median run of one system; `runs`: rows per second of each."""

    rows_per_second: float
    cpu_rows_per_second: float
    p50_ms: float
    p95_ms: float
    runs: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Cell:
    """One query, size of batch and order of arrival; `rows` and `steps` are those timed."""

    order: str
    query: str
    batch_rows: int
    rows: int
    steps: int
    sqlview: Side
    differential: Side


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """Of a process with one query, beyond what it held before: its input ready, and at most."""

    query: str
    sqlview_input_bytes: int
    sqlview_peak_bytes: int
    differential_input_bytes: int
    differential_peak_bytes: int


def add_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("beside differential dataflow")
    group.add_argument(
        "--batch-rows", type=common.positive, nargs="+", default=list(BATCH_ROWS), metavar="N",
        help="rows per transaction (100,000 1,000 10 1)",
    )  # fmt: skip
    group.add_argument(
        "--orders", choices=ORDERS, nargs="+", default=["in-order", "shuffled"],
        help="of arrival (in-order shuffled)",
    )  # fmt: skip
    group.add_argument(
        "--runs", type=common.positive, default=3, metavar="N", help="of each side, in turn (3)"
    )
    group.add_argument(
        "--steps", type=common.positive, default=160, metavar="N",
        help="to time where there are more than 200 (%(default)s)",
    )  # fmt: skip


def compare(given: argparse.Namespace) -> None:
    """Measure, write differential.json and .png, and print the tables."""
    console = common.progress()
    problem, program = build(given.environments)
    if program is None:
        console.print(f"differential is left out: {problem}")
        return
    queries = select_queries(given.queries)
    results = common.Results("differential", given)
    directory = generate(given.sf, given.data)
    cells: list[Cell] = []
    memory: list[MemoryUse] = []
    with common.pinned(1), tempfile.TemporaryDirectory() as scratch:
        for order in given.orders:
            console.print(f"Reading TPC-H at scale factor {given.sf:g}, {order}")
            seed = given.seed if order == "shuffled" else None
            loaded = load(directory, tables_of(queries), shuffle_seed=seed)
            peer = Peer(program, Path(scratch) / order, loaded)
            common.warm_up(queries, loaded)
            answers = common.Answers(queries, loaded)
            for query in queries:
                own = {name: loaded[name] for name in query.tables}
                expected = expected_rows(query, own)
                for size in sorted(given.batch_rows, reverse=True):
                    cell = _measured(query, own, peer, answers, expected, order, size, given)
                    cells.append(cell)
                    console.print(
                        f"{order} {query.name}, {size:,} rows: sqlview "
                        f"{cell.sqlview.rows_per_second / 1e6:.3g} M rows/s, differential "
                        f"{cell.differential.rows_per_second / 1e6:.3g}"
                    )
            answers.close()
            if order == given.orders[0]:
                console.print("Memory")
                memory = [_memory(query, directory, seed, peer, loaded) for query in queries]
    found = results.write({"cells": cells, "memory": memory, "peer": versions()})
    common.show_figures(tables(found))
    common.show_targets(targets(found))
    _draw(results, found)


def build(directory: Path) -> tuple[str, Path | None]:
    """The peer's program, built where it is not; or why there is none. It takes minutes once."""
    cargo = shutil.which("cargo")
    if cargo is None:
        return "there is no cargo here; install Rust, https://rustup.rs", None
    target = (directory / "differential").absolute()
    command = [
        cargo, "build", "--release", "--locked", "--quiet", "--jobs", "1",
        "--manifest-path", str(_CRATE / "Cargo.toml"), "--target-dir", str(target),
    ]  # fmt: skip
    environment = {**os.environ, "RUSTFLAGS": "-C target-cpu=native"}
    try:
        ran = subprocess.run(
            command, env=environment, capture_output=True, text=True, check=False,
            timeout=_BUILD_SECONDS,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"the crate cannot be built: {error}", None
    if ran.returncode:
        last = ran.stderr.strip().splitlines()[-1:]
        return f"the crate cannot be built: {''.join(last)}", None
    return "", target / "release" / "differential-peer"


def versions() -> dict[str, str]:
    """Of the peer's crates, as the lock file has them."""
    text = (_CRATE / "Cargo.lock").read_text(encoding="utf-8")
    found = dict(re.findall(r'name = "([^"]+)"\nversion = "([^"]+)"', text))
    return {name: found[name] for name in ("differential-dataflow", "timely")}


class Peer:
    """The program, with the tables as it reads them in `directory`."""

    def __init__(self, program: Path, directory: Path, tables: Mapping[str, pa.Table]) -> None:
        self._program = program
        self._directory = directory
        directory.mkdir(parents=True)
        for name, rows in tables.items():
            write_table(directory / f"{name}.rows", rows)

    def schedule(self, steps: Sequence[Timed]) -> None:
        """What the runs from now on take."""
        places = {table.name: place for place, table in enumerate(TABLES, 1)}
        words = np.zeros((len(steps), 1 + len(TABLES)), "<i4")
        for row, each in zip(words, steps, strict=True):
            row[0] = each.is_timed
            for change in each.batch.changes:
                assert change.verb == "insert", "rows only arrive here"
                row[places[change.table]] += change.rows.num_rows
        (self._directory / "schedule").write_bytes(words.tobytes())

    def run(self, query: Query, *options: str) -> dict[str, Any]:
        """What one run printed, see the crate's main.rs.

        Raises: common.BenchmarkError if it fails.
        """
        command = [
            str(self._program), query.name, str(self._directory),
            str(self._directory / "schedule"), *options,
        ]  # fmt: skip
        ran = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=_RUN_SECONDS
        )
        if ran.returncode:
            last = "".join(ran.stderr.strip().splitlines()[-1:])
            raise common.BenchmarkError(f"the peer failed at {query.name}: {last}")
        found: dict[str, Any] = json.loads(ran.stdout)
        return found


def write_table(path: Path, rows: pa.Table) -> None:
    """A table by columns, as benchmarks/peers/differential/src/rows.rs reads it.

    Requires: no NULLs, no decimal beyond 64 bits.
    """
    with path.open("wb") as file:
        file.write(np.uint64(rows.num_rows).tobytes())
        for column in rows.combine_chunks().columns:
            for array in column.chunks or [pa.array([], column.type)]:
                for part in _column_bytes(array):
                    file.write(part)


def _column_bytes(array: pa.Array) -> Iterator[bytes]:
    assert array.null_count == 0
    first, stop = array.offset, array.offset + len(array)
    data = array.buffers()[-1]
    if pa.types.is_string(array.type):
        offsets = np.frombuffer(array.buffers()[1] or bytes(4), np.int32)[first : stop + 1]
        yield (offsets - offsets[0]).tobytes()
        yield b"" if data is None else data[int(offsets[0]) : int(offsets[-1])].to_pybytes()
        return
    if data is None:
        return
    if pa.types.is_decimal128(array.type):
        words = np.frombuffer(data, np.int64).reshape(-1, 2)[first:stop]
        assert (words[:, 1] == words[:, 0] >> 63).all(), "a decimal is beyond 64 bits"
        yield words[:, 0].tobytes()
        return
    yield np.frombuffer(data, f"<i{array.type.byte_width}")[first:stop].tobytes()


def cut(tables: Mapping[str, pa.Table], order: str, batch_rows: int, steps: int) -> list[Timed]:
    """The whole stream as transactions; timed are all, or windows of it with `steps` steps."""
    arrival = TableAfterTable(tables) if order == "by-table" else RoundRobin(tables)
    if math.ceil(arrival.total / batch_rows) <= _WHOLE_STEPS:
        return [Timed(each, True) for each in arrival.next(batch_rows, arrival.total)]
    found: list[Timed] = []

    def take(rows: int, most: int, *, is_timed: bool) -> None:
        batches = arrival.next(rows, most)
        arrival.arrive(batches)
        found.extend(Timed(each, is_timed) for each in batches)

    def take_up_to(position: int) -> None:
        while arrival.position < position:
            take(min(_BULK_ROWS, position - arrival.position), 1, is_timed=False)

    for window in range(_WINDOWS):
        take_up_to(arrival.total * (2 * window + 1) // (2 * _WINDOWS))
        take(batch_rows, max(steps // _WINDOWS, 1), is_timed=True)
    take_up_to(arrival.total)
    return found


def _measured(
    query: Query,
    tables: Mapping[str, pa.Table],
    peer: Peer,
    answers: common.Answers,
    expected: Sequence[tuple[Any, ...]],
    order: str,
    batch_rows: int,
    given: argparse.Namespace,
) -> Cell:
    steps = cut(tables, order, batch_rows, given.steps)
    peer.schedule(steps)
    check(query, peer.run(query, "--answers")["answer"], expected)
    rows = sum(each.batch.rows for each in steps if each.is_timed)
    ours: list[tuple[list[float], float]] = []
    theirs: list[tuple[list[float], float]] = []
    for run in range(given.runs):
        with open_session(RunOptions(placement="inline"), (query,), None) as db:
            with garbage_collected():
                ours.append(_steps(db, steps))
            if not run:
                answers.check(db, [query], f"{order}, batches of {batch_rows:,} rows")
        found = peer.run(query)
        assert found["rows"] == rows
        theirs.append((found["seconds"], found["cpu_seconds"]))
    count = sum(each.is_timed for each in steps)
    return Cell(order, query.name, batch_rows, rows, count, _side(ours, rows), _side(theirs, rows))


def _steps(db: Any, steps: Sequence[Timed]) -> tuple[list[float], float]:
    """Apply all; the seconds of each timed step, and their processor time together."""
    seconds: list[float] = []
    cpu_seconds = 0.0
    for each in steps:
        before = time.process_time()
        took = step(db, each.batch)
        if each.is_timed:
            cpu_seconds += time.process_time() - before
            seconds.append(took)
    return seconds, cpu_seconds


def _side(runs: Sequence[tuple[list[float], float]], rows: int) -> Side:
    seconds, cpu_seconds = sorted(runs, key=lambda run: sum(run[0]))[len(runs) // 2]
    found = common.percentiles_ms(seconds)
    return Side(
        rows / sum(seconds),
        rows / cpu_seconds if cpu_seconds else 0.0,
        found["p50_ms"],
        found["p95_ms"],
        tuple(rows / sum(each) for each, _ in runs),
    )


def expected_rows(query: Query, tables: Mapping[str, pa.Table]) -> list[tuple[Any, ...]]:
    """DuckDB's result before ORDER BY and LIMIT."""
    with duckdb.connect() as db:
        for name, rows in tables.items():
            db.register(name, rows)
        found = db.sql(whole(query.sql)).fetchall()
    # A sum over no rows: see the module's text.
    return [row for row in found if any(value is not None for value in row)]


def check(
    query: Query, answer: Sequence[Sequence[str]], expected: Sequence[tuple[Any, ...]]
) -> None:
    """Raises: common.WrongAnswerError unless `answer` is the rows `expected`, in any order."""
    problem = difference(answer, expected)
    if problem:
        raise common.WrongAnswerError(f"the peer's answer of {query.name} is wrong: {problem}")


def whole(sql: str) -> str:
    """The query without its ORDER BY and LIMIT."""
    return re.sub(r"(?is)\border\s+by\b[^()]*$", "", sql)


def difference(answer: Sequence[Sequence[str]], expected: Sequence[tuple[Any, ...]]) -> str | None:
    """How the texts differ from the rows as a multiset; doubles may differ a little."""
    if len(answer) != len(expected):
        return f"{len(answer):,} rows instead of {len(expected):,}"
    floats = [i for i, value in enumerate(expected[0] if expected else ()) if _is_double(value)]

    def split(row: Sequence[Any]) -> tuple[list[str], list[float]]:
        texts = [_text(value) for i, value in enumerate(row) if i not in floats]
        return texts, [float(row[i]) for i in floats]

    pairs = zip(sorted(map(split, answer)), sorted(map(split, expected)), strict=True)
    for (texts, numbers), (right_texts, right_numbers) in pairs:
        if texts != right_texts or not all(
            math.isclose(a, b, rel_tol=_TOLERANCE)
            for a, b in zip(numbers, right_numbers, strict=True)
        ):
            return f"{texts} {numbers} instead of {right_texts} {right_numbers}"
    return None


def _is_double(value: Any) -> bool:
    return isinstance(value, float)


def _text(value: Any) -> str:
    """One text for one exact number, however many zeros it ends in."""
    if isinstance(value, decimal.Decimal) or (
        isinstance(value, str) and re.fullmatch(r"-?\d+\.\d+", value)
    ):
        text = f"{decimal.Decimal(value):f}"
        return text.rstrip("0").rstrip(".") if "." in text else text
    return str(value)


def _memory(
    query: Query, directory: Path, seed: int | None, peer: Peer, tables: Mapping[str, pa.Table]
) -> MemoryUse:
    own = {name: tables[name] for name in query.tables}
    peer.schedule(cut(own, "in-order", _BULK_ROWS, 0))
    theirs = peer.run(query)
    # A fresh process, since the kernels' first use and earlier runs leave memory behind.
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as pool:
        ours = pool.submit(_own_memory, query.name, directory, seed).result()
    base = theirs["base_bytes"]
    return MemoryUse(query.name, *ours, theirs["loaded_bytes"] - base, theirs["peak_bytes"] - base)


def _own_memory(name: str, directory: Path, seed: int | None) -> tuple[int, int]:
    """The input's and the greatest memory of a run, beyond that of the warm process."""
    (query,) = select_queries(name)
    tables = load(directory, query.tables, shuffle_seed=seed)
    common.warm_up([query], tables)
    memory = ResidentMemory()
    memory.start()
    before = memory.start_bytes - sum(rows.nbytes for rows in tables.values())
    steps = cut(tables, "in-order", _BULK_ROWS, 0)
    del tables
    memory.start()
    with open_session(RunOptions(placement="inline"), (query,), None) as db:
        _steps(db, steps)
        return memory.start_bytes - before, memory.peak_bytes() - before


def tables(result: Mapping[str, Any]) -> list[common.Figures]:
    """Rates side by side by order of arrival, their ratios in short, memory."""
    cells = result["cells"]
    made = [
        _rates(order, [c for c in cells if c["order"] == order], result)
        for order in ORDERS
        if any(c["order"] == order for c in cells)
    ]
    ratios = _by_batch(cells)
    made.append(
        common.Figures(
            "sqlview's rate over differential dataflow's",
            ("order", "rows per transaction", "geometric mean", "by processor time", "least", "of",
             "queries below 1"),
            tuple(
                (order, f"{size:,}", f"{geometric_mean(list(found.values())):.2f}",
                 f"{geometric_mean(_cpu_ratios(cells, order, size)):.2f}",
                 f"{min(found.values()):.2f}", min(found, key=lambda name: found[name]),
                 str(sum(each < 1 for each in found.values())))
                for (order, size), found in ratios.items()
            ),
        )
    )  # fmt: skip
    if result["memory"]:
        names = ("sqlview_input", "differential_input", "sqlview_peak", "differential_peak")
        made.append(
            common.Figures(
                "Memory of a process beyond what it held before its input, MiB",
                ("query", *(" ".join(name.split("_")) for name in names)),
                tuple(
                    (each["query"], *(common.mib(each[f"{name}_bytes"]) for name in names))
                    for each in result["memory"]
                ),
            )
        )
    return made


def _rates(
    order: str, cells: Sequence[Mapping[str, Any]], result: Mapping[str, Any]
) -> common.Figures:
    sizes = sorted({c["batch_rows"] for c in cells}, reverse=True)
    by_place = {(c["query"], c["batch_rows"]): c for c in cells}
    rows = []
    for name in sorted({c["query"] for c in cells}):
        row = [name]
        for size in sizes:
            sides = [by_place[name, size][side]["rows_per_second"] for side in _SIDES]
            row += [common.number(each / 1e6) for each in sides]
            row.append(f"{sides[0] / sides[1]:.2f}")
        rows.append(tuple(row))
    means = ["geometric mean"]
    for size in sizes:
        sides = [
            geometric_mean(
                [c[side]["rows_per_second"] / 1e6 for c in cells if c["batch_rows"] == size]
            )
            for side in _SIDES
        ]
        means += [*map(common.number, sides), f"{sides[0] / sides[1]:.2f}"]
    peer = ", ".join(f"{name} {version}" for name, version in result["peer"].items())
    return common.Figures(
        f"Million rows per second by rows per transaction, {order}, scale factor "
        f"{result['settings']['sf']:g}, one core, {peer}",
        ("query", *(f"{size:,} {head}" for size in sizes for head in ("sqlview", "DD", "ratio"))),
        tuple(rows),
        (tuple(means),),
    )


def _by_batch(cells: Sequence[Mapping[str, Any]]) -> dict[tuple[str, int], dict[str, float]]:
    """By order and size of batch, each query's ratio of rates."""
    found: dict[tuple[str, int], dict[str, float]] = {}
    for cell in cells:
        ratio = cell["sqlview"]["rows_per_second"] / cell["differential"]["rows_per_second"]
        found.setdefault((cell["order"], cell["batch_rows"]), {})[cell["query"]] = ratio
    return dict(sorted(found.items(), key=lambda each: (ORDERS.index(each[0][0]), -each[0][1])))


def _cpu_ratios(cells: Sequence[Mapping[str, Any]], order: str, size: int) -> list[float]:
    return [
        cell["sqlview"]["cpu_rows_per_second"] / cell["differential"]["cpu_rows_per_second"]
        for cell in cells
        if (cell["order"], cell["batch_rows"]) == (order, size)
    ]


def targets(result: Mapping[str, Any]) -> list[common.Target]:
    """Ahead at every size of batch."""
    found: list[common.Target] = []
    for (order, size), ratios in _by_batch(result["cells"]).items():
        if size not in _LEAST_MEANS:
            continue
        mean, least = geometric_mean(list(ratios.values())), _LEAST_MEANS[size]
        found.append(
            common.Target(
                f"times differential dataflow's rate, {order}, batches of {size:,}, "
                f"geometric mean ≥ {least:g}",
                f"{mean:.2f}",
                mean >= least,
            )
        )
        if size >= _EACH_ROWS:
            worst = min(ratios.values())
            found.append(
                common.Target(
                    f"the same for each query, {order}, batches of {size:,}, ≥ 1",
                    f"{worst:.2f}",
                    worst >= 1,
                )
            )
    return found


def _draw(results: common.Results, result: Mapping[str, Any]) -> None:
    """The ratio of rates by query, a panel per order of arrival."""
    by_batch = _by_batch(result["cells"])
    orders = list(dict.fromkeys(order for order, _ in by_batch))
    with results.chart(len(orders)) as panels:
        for axes, order in zip(panels, orders, strict=True):
            series = {size: found for (each, size), found in by_batch.items() if each == order}
            width = 0.8 / len(series)
            names = sorted({name for found in series.values() for name in found})
            for place, (size, found) in enumerate(series.items()):
                axes.bar(
                    [i + place * width for i in range(len(names))],
                    [found[name] for name in names],
                    width,
                    label=f"{size:,} rows",
                )
            axes.axhline(1, color="black", linewidth=0.8)
            axes.set_xticks(range(len(names)), names, rotation=45)
            axes.set_yscale("log")
            axes.set_ylabel("sqlview's rate over differential dataflow's")
            axes.set_title(order)
            axes.legend()
