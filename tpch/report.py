"""What a run reports: figures as dataclasses, as JSON, as tables, as a chart; and its progress.

Invariant: the keys of the JSON are the fields of the dataclasses here, so what is measured, written
and printed has one definition. Keys are added, never renamed.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import os
import platform
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import pyarrow as pa
from rich import box
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Table
from typing_extensions import Self

_PLAIN_INTERVAL_SECONDS = 5.0
_REFRESH_INTERVAL_SECONDS = 0.1
_SHOWN_ROWS = 20
_SHOWN_ARRANGEMENTS = 25
_PLAIN_WIDTH = 140
_KEY_WIDTH = (26, 48)
_OTHER_WIDTH = 60
_LISTED_READERS = 4
_KIB = 1024


@dataclass(frozen=True, slots=True)
class QueryReport:
    """One view in one run.

    `rows`: changed rows of the tables that it reads, in the timed part. `seconds`: wall time of the
    timed part, of all views together where they share a session. The percentiles are over the
    steps that changed a table that it reads; `own_ms` is what the operators under the view took of
    such a step, on the average, those that it shares included. `changes`: rows of signed deltas
    that it has emitted since CREATE. `state_bytes`: what it reads or keeps, shared or not.
    `shared_arrangements` of its `arrangements` (indexes) are read by `shared_with` other views too.
    `steps_inline` and `steps_spark` count the load, `steps` does not. `verified` is None if nothing
    was verified, else whether it equalled its recompute at all `verified_epochs`. `changed_epochs`:
    in how many epochs of the timed part it changed, where that was counted.
    """

    query: str
    rows: int
    seconds: float
    rows_per_second: float
    steps: int
    steps_inline: int
    steps_spark: int
    p50_ms: float
    p95_ms: float
    max_ms: float
    own_ms: float
    changes: int
    state_bytes: int
    arrangements: int
    shared_arrangements: int
    shared_with: int
    verified: bool | None
    verified_epochs: int
    changed_epochs: int | None


@dataclass(frozen=True, slots=True)
class Totals:
    """The run as a whole; with a session per query, sums over the sessions.

    `rows`: changed rows in the timed part. `install_seconds`: CREATE of tables and views.
    `load_rows`, `load_seconds`: the step before the timed part, which counts in `steps_inline` or
    `steps_spark` but not in `steps`. `state_bytes`: indexes, derived
    relations and filters, each once; `table_bytes`: the rows of the tables. `rss_start_bytes`,
    `rss_peak_bytes`: this process, input data included, before a session and at most during its
    steps; the largest of the sessions.
    """

    rows: int
    seconds: float
    rows_per_second: float
    geometric_mean_rows_per_second: float
    steps: int
    steps_inline: int
    steps_spark: int
    install_seconds: float
    load_rows: int
    load_seconds: float
    verify_seconds: float
    state_bytes: int
    table_bytes: int
    index_builds: int
    rss_start_bytes: int
    rss_peak_bytes: int
    arrangements: tuple[dict[str, Any], ...]


@dataclass(frozen=True, slots=True)
class RunReport:
    sf: float
    params: str
    batch_rows: int
    mode: str
    placement: str
    order: str
    deletes: float
    load: float
    seed: int
    sharing: bool
    cores: int
    versions: dict[str, str]
    queries: tuple[QueryReport, ...]
    totals: Totals

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self), indent=2) + "\n"


@dataclass(frozen=True, slots=True)
class Difference:
    """A view that differed from its recompute at `epoch`: rows it lacks, rows it has too many.

    `position`: the first row out of order where the rows are right and their order is not.
    """

    view: str
    epoch: int
    missing: pa.Table
    extra: pa.Table
    position: int | None = None


def versions() -> dict[str, str]:
    """What ran, by name."""
    names = {"sqlview": "sqlview-spark"}
    names |= {name: name for name in ("pyspark", "pyarrow", "numpy", "numba", "duckdb", "sqlglot")}
    found = {"python": platform.python_version()}
    for name, distribution in names.items():
        try:
            found[name] = metadata.version(distribution)
        except metadata.PackageNotFoundError:
            found[name] = "not installed"
    return found


def cores() -> int:
    """The processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def step_percentiles_ms(seconds: Sequence[float]) -> tuple[float, float, float]:
    """Median, 95th percentile and maximum in milliseconds; zeros where there was no step."""
    if not seconds:
        return 0.0, 0.0, 0.0
    p50, p95, most = np.percentile(np.asarray(seconds) * 1000, [50, 95, 100])
    return float(p50), float(p95), float(most)


def geometric_mean(values: Sequence[float]) -> float:
    if not values or min(values) <= 0:
        return 0.0
    return math.exp(sum(math.log(value) for value in values) / len(values))


class ResidentMemory:
    """Resident memory of this process: at the start, and the most since, where the system tells.

    Linux resets its high-water mark on request; elsewhere the most is that of the whole process.
    """

    def __init__(self) -> None:
        self.start_bytes = 0

    def start(self) -> None:
        pa.default_memory_pool().release_unused()
        with contextlib.suppress(OSError):
            Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
        self.start_bytes = self._status("VmRSS")

    def now_bytes(self) -> int:
        return self._status("VmRSS")

    def peak_bytes(self) -> int:
        return self._status("VmHWM")

    @staticmethod
    def _status(field: str) -> int:
        try:
            lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
        except OSError:
            import resource

            most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            return most if sys.platform == "darwin" else most * _KIB
        return next(int(line.split()[1]) * _KIB for line in lines if line.startswith(f"{field}:"))


class StepProgress:
    """Shows how far a stream is and at what rate: a bar on a terminal, else a line now and then.

    The rate is that of the steps alone, whatever lies between them. Writes to the console's stream
    (standard error by default), so that standard output holds results only.
    """

    def __init__(self, title: str, total_rows: int, console: Console | None = None) -> None:
        self._console = console or Console(stderr=True)
        self._title = title
        self._total_rows = total_rows
        self._rows = 0
        self._steps = 0
        self._step_seconds = 0.0
        self._shown = time.perf_counter()
        self._bar: Progress | None = None
        self._task = TaskID(0)

    def __enter__(self) -> Self:
        self._shown = time.perf_counter()
        if self._console.is_terminal:
            self._bar = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                TextColumn("{task.percentage:>3.0f}%  {task.fields[rate]}"),
                TimeRemainingColumn(),
                console=self._console,
                refresh_per_second=5,
            )
            self._task = self._bar.add_task(self._title, total=self._total_rows, rate="")
            self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._show()
        if self._bar is not None:
            self._bar.stop()

    def step(self, rows: int, seconds: float) -> None:
        """One more transaction, of `rows` changed rows. Cost: microseconds, unless it shows."""
        self._rows += rows
        self._step_seconds += seconds
        self._steps += 1
        interval = _PLAIN_INTERVAL_SECONDS if self._bar is None else _REFRESH_INTERVAL_SECONDS
        if time.perf_counter() - self._shown >= interval:
            self._show()

    def _show(self) -> None:
        self._shown = time.perf_counter()
        rate = self._rows / max(self._step_seconds, 1e-9)
        text = f"{_rate(rate)}, {self._steps:,} steps"
        if self._bar is not None:
            self._bar.update(self._task, completed=self._rows, rate=text)
        else:
            done = self._rows / self._total_rows if self._total_rows else 1.0
            self._console.print(f"{self._title}: {done:.0%}, {self._rows:,} rows, {text}")


def output_console() -> Console:
    """For results, on standard output; wide enough for the tables where it is no terminal."""
    console = Console()
    return console if console.is_terminal else Console(width=_PLAIN_WIDTH)


def print_report(report: RunReport, console: Console) -> None:
    """The table of views, then the totals. The table fits a terminal of 80 columns.

    Where views share a session they share one rate, which stands in the totals, and steps of all
    together, beside which stands what each view's own operators take of one, on the average; with a
    session for each no index is shared.
    """
    totals, is_each = report.totals, report.mode == "each"
    table = Table(
        title=f"TPC-H at scale factor {report.sf:g}",
        title_justify="left",
        box=box.SIMPLE_HEAD,
        padding=0,
    )
    table.add_column("view")
    for name in (
        "rows in",
        *(("rows/s",) if is_each else ()),
        "changes\nout",
        "own\nms",
        *(("p50\nms", "p95\nms", "max\nms") if is_each else ("all\np50", "all\nmax")),
        "state",
        "indexes",
        *(() if is_each else ("shared",)),
        "inline\n+ Spark",
    ):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("equal")
    for query in report.queries:
        shared = f"{query.shared_arrangements} by {query.shared_with}" if query.shared_with else "-"
        table.add_row(
            query.query,
            f"{query.rows:,}",
            *((_scaled(query.rows_per_second),) if is_each else ()),
            f"{query.changes:,}",
            _milliseconds(query.own_ms),
            _milliseconds(query.p50_ms),
            *((_milliseconds(query.p95_ms),) if is_each else ()),
            _milliseconds(query.max_ms),
            _size(query.state_bytes),
            f"{query.arrangements}",
            *(() if is_each else (shared,)),
            f"{query.steps_inline:,} + {query.steps_spark:,}",
            _verdict(query),
        )
    console.print(table)
    parts = [
        f"{totals.rows:,} changed rows in {totals.seconds:.2f} s ({_rate(totals.rows_per_second)})",
        f"{totals.steps_inline:,} steps inline, {totals.steps_spark:,} on Spark",
        f"state {_size(totals.state_bytes)} beside {_size(totals.table_bytes)} of rows",
        f"resident memory at most {_size(totals.rss_peak_bytes)}",
    ]
    if totals.load_rows:
        parts.insert(0, f"{totals.load_rows:,} rows loaded in {totals.load_seconds:.2f} s")
    if totals.verify_seconds:
        parts.append(f"verification {totals.verify_seconds:.1f} s apart")
    for part in parts:
        console.print(f" {part}", soft_wrap=True)


def print_arrangements(report: RunReport, console: Console) -> None:
    """The largest of the indexes that were live at the end, and a line for the others."""
    table = Table(title="Arrangements", title_justify="left", box=box.SIMPLE_HEAD, padding=0)
    table.add_column("relation", no_wrap=True)
    key_width = min(max(_KEY_WIDTH[0], console.width - _OTHER_WIDTH), _KEY_WIDTH[1])
    table.add_column("key", no_wrap=True, overflow="ellipsis", max_width=key_width)
    for name in ("rows", "bytes"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("readers")
    rows = sorted(report.totals.arrangements, key=lambda row: -int(row["bytes"]))
    others = rows[_SHOWN_ARRANGEMENTS:]
    for row in rows[:_SHOWN_ARRANGEMENTS]:
        table.add_row(
            str(row["relation"]),
            str(row["key"]),
            f"{row['rows']:,}",
            _size(row["bytes"]),
            _readers(row["readers"]),
        )
    console.print(table)
    if others:
        size = _size(sum(int(row["bytes"]) for row in others))
        console.print(f"  and {len(others)} smaller ones, {size} together")


def print_difference(difference: Difference, console: Console) -> None:
    """The rows by which a view differs from its recompute, some of them if they are many."""
    if difference.position is not None:
        how = f"row {difference.position} is out of order"
    else:
        how = f"{difference.missing.num_rows} missing, {difference.extra.num_rows} extra"
    console.print(
        f'view "{difference.view}" differs from its recompute at epoch {difference.epoch}: {how}',
        style="bold red",
        soft_wrap=True,
    )
    for sign, rows in (("missing", difference.missing), ("extra", difference.extra)):
        for row in rows.slice(0, _SHOWN_ROWS).to_pylist():
            text = ", ".join(f"{name}={value!r}" for name, value in row.items())
            console.print(f"  {sign}: {text}", soft_wrap=True, markup=False, highlight=False)
        if rows.num_rows > _SHOWN_ROWS:
            console.print(f"  {sign}: and {rows.num_rows - _SHOWN_ROWS} more")


def print_changed_epochs(report: RunReport, console: Console) -> None:
    """In how many epochs each view changed, on one line, where that was counted."""
    counted = [query for query in report.queries if query.changed_epochs is not None]
    if counted:
        counts = ", ".join(f"{query.query} {query.changed_epochs:,}" for query in counted)
        console.print(f"epochs of {report.totals.steps:,} that changed a view: {counts}")


def write_chart(report: RunReport, path: Path) -> None:
    """A bar per view with its rate, written as PNG."""
    import matplotlib as mpl

    mpl.use("agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(8, 4.5), layout="constrained")
    names = [query.query for query in report.queries]
    axes.bar(names, [query.rows_per_second / 1e6 for query in report.queries])
    axes.set_ylabel("million rows per second")
    axes.set_title(
        f"TPC-H SF {report.sf:g}, {report.mode}, batches of {report.batch_rows:,}, "
        f"{report.deletes:.0%} deletes and updates, {report.cores} cores",
        fontsize="medium",
    )
    figure.savefig(path, format="png", dpi=120)
    plt.close(figure)


def _verdict(query: QueryReport) -> str:
    if query.verified is None:
        return "-"
    if not query.verified:
        return "[bold red]NO[/]"
    return "yes" if query.verified_epochs == 1 else f"{query.verified_epochs:,} epochs"


def _readers(names: Sequence[str]) -> str:
    """The readers of an index, or how many they are: its own table first, if it is the key's."""
    if len(names) <= _LISTED_READERS:
        return ", ".join(names)
    views = [name for name in names if name != "(table)"]
    return ("(table), " if len(views) < len(names) else "") + f"{len(views)} views"


def _milliseconds(number: float) -> str:
    """Three digits or more."""
    return (
        f"{number:,.0f}" if number >= 100 else f"{number:.1f}" if number >= 10 else f"{number:.2f}"
    )


def _rate(rows_per_second: float) -> str:
    return f"{_scaled(rows_per_second)} rows/s"


def _scaled(number: float) -> str:
    if number >= 1e6:
        return f"{number / 1e6:.2f} M"
    return f"{number / 1e3:.0f} k" if number >= 1e4 else f"{number:.0f}"


def _size(size_bytes: float) -> str:
    size = float(size_bytes)
    for unit in ("B", "KiB", "MiB"):
        if size < _KIB:
            return f"{size:.0f} {unit}" if unit == "B" or size >= 100 else f"{size:.1f} {unit}"
        size /= _KIB
    return f"{size:.2f} GiB"
