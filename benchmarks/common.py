"""What the benchmarks have in common: options, environment, answers, results as JSON, charts.

A benchmark measures, writes its result file, and makes all that is shown from what it wrote:
`tables(result)` gives the figures, on the terminal and in BENCHMARKS.md (`benchmarks.report`)
alike, `targets(result)` the goals and whether they are met, and the chart is drawn from it too.

Invariant: every result file holds what it was measured on: processor, cores, memory, versions, the
load of the machine before and after, and the options of the command; no paths.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import datetime
import json
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from rich import box
from rich.console import Console
from rich.table import Table

import sqlview
from operators import budget
from operators.repeating import repeating
from sqlview import oracle
from tpch import report, stream
from tpch.generate import GenerateError
from tpch.queries import Query, UnknownQueryError, tables_of
from tpch.runner import RunOptions, open_session

DEFAULT_OUT = Path("build/benchmarks")

_WARM_UP_TABLE_ROWS = 2000
_WARM_UP_LOAD = 0.25
_WARM_UP_BATCHES = 3
_WARM_UP_BATCH_ROWS = 1000


class BenchmarkError(Exception):
    """The benchmark ends with this message and exit code 1."""


class WrongAnswerError(BenchmarkError):
    """A view differed from its recompute: there is no figure to report."""


def parser(name: str, description: str | None) -> argparse.ArgumentParser:
    """The options of every benchmark. `description`: the module's docstring."""
    made = argparse.ArgumentParser(
        prog=f"python -m benchmarks.{name}",
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument(
        "--out",
        type=Path,
        default=DEFAULT_OUT,
        metavar="DIRECTORY",
        help=f"where {name}.json and {name}.png go (%(default)s)",
    )
    made.add_argument("--seed", type=int, default=0, help="of all random choices (%(default)s)")
    made.add_argument(
        "--quick",
        action="store_true",
        help="the smallest run, to see that it works; its figures mean nothing",
    )
    return made


def parse(
    made: argparse.ArgumentParser, arguments: Sequence[str] | None, quick: Mapping[str, Any]
) -> argparse.Namespace:
    """The options as given; with --quick, `quick` are the defaults of those not given."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    if "--quick" in given:
        made.set_defaults(**quick)
    return made.parse_args(given)


def add_tpch_options(made: argparse.ArgumentParser) -> None:
    """Which queries, and where the generated data is kept."""
    made.add_argument("--queries", default="all", help="all, or a list such as q01,q03 (all)")
    made.add_argument("--data", type=Path, metavar="DIRECTORY", help="where generated data is kept")


def positive(text: str) -> int:
    """An option's whole number from 1 on."""
    number = int(text.replace("_", "").replace(",", ""))
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is less than 1")
    return number


def guarded(body: Callable[[], None]) -> int:
    """Run a benchmark; its exit code. What the user can mend ends in a message."""
    try:
        body()
    except (BenchmarkError, GenerateError, UnknownQueryError, sqlview.SqlViewError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def check_view(
    db: sqlview.Session, name: str, expected: pa.Table, *, is_ordered: bool, where: str = ""
) -> None:
    """Raises: WrongAnswerError unless the view holds the rows `expected`; it says `where`."""
    found = oracle.compare(db.view(name).to_arrow(), expected, is_ordered)
    if found is not None:
        place = f" ({where})" if where else ""
        raise WrongAnswerError(f'view "{name}" differs from its recompute{place}: {found}')


def warm_up(queries: Sequence[Query], tables: Mapping[str, pa.Table]) -> None:
    """Compile the generic kernels: the queries over the heads of the tables, thrown away."""
    heads = {name: tables[name].slice(0, _WARM_UP_TABLE_ROWS) for name in tables_of(queries)}
    table_rows = {name: rows.num_rows for name, rows in heads.items()}
    loaded = stream.loaded_rows(table_rows, _WARM_UP_LOAD)
    options = stream.StreamOptions(
        _WARM_UP_BATCH_ROWS, deletes=0.2, changes=_WARM_UP_BATCHES * _WARM_UP_BATCH_ROWS
    )
    batches = stream.prebatch(stream.plan_stream(table_rows, loaded, options), heads)
    with open_session(RunOptions(placement="inline"), queries, None) as db:
        for batch in [stream.initial_batch(heads, loaded), *batches]:
            with db.transaction() as tx:
                stream.apply(batch, tx)


class Answers:
    """What the views must hold once the whole of `tables` has arrived, each computed once."""

    def __init__(self, queries: Sequence[Query], tables: Mapping[str, pa.Table]) -> None:
        self._oracle = oracle.DuckDBOracle()
        for name in tables_of(queries):
            self._oracle.load(name, tables[name])
        self._expected: dict[str, pa.Table] = {}

    def check(self, db: sqlview.Session, queries: Sequence[Query], where: str = "") -> None:
        """Raises: WrongAnswerError if a view differs from its recompute."""
        for query in queries:
            if query.name not in self._expected:
                schema = db.view(query.name).schema
                self._expected[query.name] = self._oracle.query(query.sql, schema)
            is_ordered = self._oracle.is_ordered(query.sql)
            check_view(
                db, query.name, self._expected[query.name], is_ordered=is_ordered, where=where
            )

    def close(self) -> None:
        self._oracle.close()


@contextlib.contextmanager
def pinned(count: int) -> Iterator[None]:
    """Run on the first `count` of this process's cores, where the system lets a process choose."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    before = os.sched_getaffinity(0)
    _pin(set(sorted(before)[:count]))
    try:
        yield
    finally:
        _pin(before)


def _pin(cores: set[int]) -> None:
    """All threads: a new one inherits from its maker only."""
    for thread in os.listdir("/proc/self/task"):
        with contextlib.suppress(ProcessLookupError):
            os.sched_setaffinity(int(thread), cores)


@contextlib.contextmanager
def measuring() -> Iterator[Callable[[], tuple[float, float, float, int]]]:
    """What the block took: seconds, this process's CPU seconds and that with all its children's,
    and bytes of its heap."""
    budget.release()
    heap, cpu, children = budget.anonymous_bytes(), time.process_time(), _Children()
    started = time.perf_counter()
    taken: list[tuple[float, float, float, int]] = []
    try:
        with repeating(1, children.look, "benchmark-children"):
            yield lambda: taken[0]
    finally:
        theirs = children.seconds()
    seconds = time.perf_counter() - started
    own = time.process_time() - cpu - children.looking_seconds
    budget.release()
    heap = budget.anonymous_bytes() - heap
    taken.append((seconds, own, own + theirs, heap))


class _Children:
    """CPU time of all processes under this one. They are to be looked at once a second: what those
    took that end is added to nobody's where their parents have ended before them; one that lives
    for less than that may be missed."""

    def __init__(self) -> None:
        self._before = _children_ticks()
        self._seen = dict(self._before)
        #: This process's CPU time that went into looking.
        self.looking_seconds = 0.0

    def look(self) -> None:
        began = time.thread_time()
        self._seen.update(_children_ticks())
        self.looking_seconds += time.thread_time() - began

    def seconds(self) -> float:
        """Since the beginning."""
        self.look()
        ticks = sum(self._seen.values()) - sum(self._before.values())
        return ticks / os.sysconf("SC_CLK_TCK")


def _children_ticks() -> dict[tuple[int, int], int]:
    """CPU time of each process under this one, without its children's, by number and when it
    began."""
    parents: dict[int, int] = {}
    ticks: dict[int, tuple[int, int]] = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            text = Path(f"/proc/{name}/stat").read_text(encoding="utf-8")
        except OSError:
            continue
        fields = text.rpartition(")")[2].split()
        parents[int(name)] = int(fields[1])
        ticks[int(name)] = int(fields[19]), int(fields[11]) + int(fields[12])
    found: dict[tuple[int, int], int] = {}
    for process, (began, own) in ticks.items():
        above = parents[process]
        while above in parents and above != os.getpid():
            above = parents[above]
        if above == os.getpid():
            found[process, began] = own
    return found


@dataclass(frozen=True, slots=True)
class Figures:
    """A table to show: text in cells, the first column names the rows; `footer` rows are means and
    the like."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    footer: tuple[tuple[str, ...], ...] = ()

    def markdown(self) -> str:
        lines = [f"**{self.title}**", ""] if self.title else []
        lines.append("| " + " | ".join(name.replace("\n", " ") for name in self.columns) + " |")
        lines.append("|---" * len(self.columns) + "|")
        lines += ["| " + " | ".join(row) + " |" for row in (*self.rows, *self.footer)]
        return "\n".join(lines) + "\n"


@dataclass(frozen=True, slots=True)
class Target:
    """A goal, what was measured, and whether that meets it (None: nothing was measured)."""

    goal: str
    measured: str
    is_met: bool | None


def show_figures(figures: Sequence[Figures]) -> None:
    """Print the tables on standard output."""
    for each in figures:
        made = table(each.title, each.columns[0], each.columns[1:])
        for row in each.rows:
            made.add_row(*row)
        if each.footer:
            made.add_section()
            for row in each.footer:
                made.add_row(*row)
        show(made)


def show_targets(found: Sequence[Target]) -> None:
    """Print the targets on standard output."""
    if found:
        rows = tuple((each.goal, each.measured, verdict(each)) for each in found)
        show_figures([Figures("Targets", ("goal", "measured", "met"), rows)])


def verdict(target: Target) -> str:
    return {True: "yes", False: "no", None: "-"}[target.is_met]


def percentiles_ms(seconds: Sequence[float]) -> dict[str, float]:
    """p50_ms, p95_ms, p99_ms, max_ms; zeros where there was no step."""
    if not len(seconds):
        return dict.fromkeys(("p50_ms", "p95_ms", "p99_ms", "max_ms"), 0.0)
    found = np.percentile(np.asarray(seconds) * 1000, [50, 95, 99, 100])
    return {
        name: float(value)
        for name, value in zip(("p50_ms", "p95_ms", "p99_ms", "max_ms"), found, strict=True)
    }


def number(value: float) -> str:
    """Three digits that count; thousands apart."""
    if value == 0:
        return "0"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def mib(size_bytes: float) -> str:
    return f"{size_bytes / 2**20:,.0f}"


def draw_ccdf(
    axes: Any, milliseconds: Sequence[float] | npt.NDArray[np.float64], label: str
) -> None:
    """The share of steps that took longer than so many milliseconds, both axes logarithmic."""
    ascending = np.sort(np.asarray(milliseconds))
    above = 1 - np.arange(len(ascending)) / len(ascending)
    axes.step(ascending, above, where="post", label=label)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("ms per step")
    axes.set_ylabel("share of steps that took longer")


class Results:
    """The files of one run, `NAME.json` and `NAME.png` in the directory `--out`."""

    def __init__(self, name: str, given: argparse.Namespace) -> None:
        self._name = name
        self._out: Path = given.out
        self._settings = {
            name: value for name, value in vars(given).items() if not isinstance(value, Path)
        }
        self._load_before = _load_average()

    def before(self) -> dict[str, Any] | None:
        """What the JSON file has, if there is one."""
        path = self._out / f"{self._name}.json"
        if not path.is_file():
            return None
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return found

    def write(self, results: Mapping[str, Any]) -> dict[str, Any]:
        """Write the JSON; dataclasses become objects. Returns: what was written."""
        whole = {
            "benchmark": self._name,
            "measured_on": datetime.date.today().isoformat(),
            "environment": environment() | {"load_average_before": self._load_before},
            "settings": self._settings,
            **results,
        }
        self._out.mkdir(parents=True, exist_ok=True)
        path = self._out / f"{self._name}.json"
        text = json.dumps(whole, indent=2, default=_plain)
        path.write_text(text + "\n", encoding="utf-8")
        print(f"written: {path}", file=sys.stderr)
        written: dict[str, Any] = json.loads(text)
        return written

    @contextlib.contextmanager
    def chart(self, rows: int = 1, *, height_inches: float = 4.5) -> Iterator[list[Any]]:
        """Axes of `rows` panels, one above the other; written as PNG at the end of the block."""
        import matplotlib as mpl

        mpl.use("agg")
        from matplotlib import pyplot as plt

        figure, axes = plt.subplots(
            rows, figsize=(9, height_inches * rows), layout="constrained", squeeze=False
        )
        try:
            yield [row[0] for row in axes]
            self._out.mkdir(parents=True, exist_ok=True)
            path = self._out / f"{self._name}.png"
            figure.savefig(path, format="png", dpi=120)
        finally:
            plt.close(figure)
        print(f"written: {path}", file=sys.stderr)


def _plain(value: Any) -> Any:
    return str(value) if isinstance(value, Path) else dataclasses.asdict(value)


def environment() -> dict[str, Any]:
    """The machine as this process sees it, now."""
    return {
        "processor": _processor(),
        "cores": report.cores(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "system": platform.platform(),
        "versions": report.versions(),
        "load_average_after": _load_average(),
    }


def _processor() -> str:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _load_average() -> list[float]:
    return list(os.getloadavg())


def table(title: str, first: str, columns: Sequence[str]) -> Table:
    """A table for people: names at the left, figures at the right."""
    made = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    made.add_column(first)
    for name in columns:
        made.add_column(name, justify="right")
    return made


def show(made: Table) -> None:
    report.output_console().print(made)


def progress() -> Console:
    """Where a benchmark says what it is doing: standard error."""
    return Console(stderr=True, highlight=False, soft_wrap=True)
