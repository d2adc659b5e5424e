"""What the benchmarks have in common: options, environment, answers, results as JSON, charts.

Invariant: every result file holds what it was measured on: processor, cores, memory, versions, the
load of the machine before and after, and the options of the command.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import os
import platform
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from rich import box
from rich.console import Console
from rich.table import Table

import sqlview
from sqlview import oracle
from tpch import report, stream
from tpch.generate import GenerateError
from tpch.queries import Query, UnknownQueryError, tables_of
from tpch.runner import RunOptions, open_session

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
        default=Path("build/benchmarks"),
        metavar="DIRECTORY",
        help=f"where {name}.json and {name}.png go (%(default)s)",
    )
    made.add_argument("--seed", type=int, default=0, help="of all random choices (%(default)s)")
    return made


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


def check_view(db: sqlview.Session, name: str, expected: pa.Table, *, is_ordered: bool) -> None:
    """Raises: WrongAnswerError unless the view holds the rows `expected`."""
    found = oracle.compare(db.view(name).to_arrow(), expected, is_ordered)
    if found is not None:
        raise WrongAnswerError(f'view "{name}" differs from its recompute: {found}')


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


class Results:
    """The files of one run, `NAME.json` and `NAME.png` in the directory `--out`."""

    def __init__(self, name: str, given: argparse.Namespace) -> None:
        self._name = name
        self._out: Path = given.out
        self._settings = dict(vars(given))
        self._load_before = _load_average()

    def write(self, results: Mapping[str, Any]) -> None:
        """Write the JSON; dataclasses become objects."""
        whole = {
            "benchmark": self._name,
            "environment": environment() | {"load_average_before": self._load_before},
            "settings": self._settings,
            **results,
        }
        self._out.mkdir(parents=True, exist_ok=True)
        path = self._out / f"{self._name}.json"
        text = json.dumps(whole, indent=2, default=_plain)
        path.write_text(text + "\n", encoding="utf-8")
        print(f"written: {path}", file=sys.stderr)

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
    return Console(stderr=True, highlight=False)
