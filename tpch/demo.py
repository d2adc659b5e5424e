"""`python -m tpch demo`: the main job from end to end on real input, in a few minutes.

Half of every table comes in through Spark: its tasks read Parquet files, write them into the
store, and compute the views' first rows where there are many. The rest of all eight tables streams
in, with deletes and updates, placed step by step as the engine chooses. In the middle of that the
process kills itself (SIGKILL), and another one goes on with its store; the views are then read, and
verified against DuckDB.

Invariant: the last line and the exit code say whether every view was right.
"""

from __future__ import annotations

import dataclasses
import multiprocessing
import signal
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

import sqlview
from tpch import report, runner

OPTIONS = runner.RunOptions(
    sf=0.2,
    queries="all",
    batch_rows=2500,
    deletes=0.1,
    load=0.5,
    load_on_spark=True,
    placement="auto",
    verify="final",
)
#: Steps that the first process takes.
KILL_AFTER = 100
_SELECT = "SELECT n_name, revenue FROM q05 WHERE revenue > 0 ORDER BY revenue DESC"


def main(console: Console, data: Path | None) -> int:
    """Run the demonstration; 1 if any view differs from its recompute."""
    started = time.perf_counter()
    output = report.output_console()
    with tempfile.TemporaryDirectory(prefix="sqlview-demo-") as directory:
        options = dataclasses.replace(OPTIONS, data=data, store=Path(directory) / "store")
        first = dataclasses.replace(options, kill_after=KILL_AFTER)
        process = multiprocessing.get_context("spawn").Process(target=_run, args=(first,))
        process.start()
        process.join()
        if process.exitcode != -signal.SIGKILL:
            output.print(f"FAILED: the first process ended with exit code {process.exitcode}")
            return 1
        console.print(f"Killed after {KILL_AFTER} steps; another process goes on", highlight=False)
        outcome = runner.run(options, console=console, inspect=lambda db: _read_back(db, output))
    report.print_report(outcome.report, output)
    report.print_arrangements(outcome.report, output)
    for difference in outcome.differences:
        report.print_difference(difference, console)
    took = time.perf_counter() - started
    views = len(outcome.report.queries)
    if outcome.differences:
        wrong = len({difference.view for difference in outcome.differences})
        output.print(f"FAILED: {wrong} of {views} views differ from DuckDB ({took:.0f} s)")
        return 1
    output.print(f"OK: all {views} views are equal to DuckDB's recompute ({took:.0f} s)")
    return 0


def _run(options: runner.RunOptions) -> None:
    """The first process; it has Spark, and does not come to the end."""
    runner.run(options, console=Console(stderr=True))


def _read_back(db: sqlview.Session, output: Console) -> None:
    """Read a view by Spark SQL, as a user would."""
    frame = db.sql(_SELECT).to_df()
    output.print(f"Spark SQL: {_SELECT}", soft_wrap=True, highlight=False)
    table = Table()
    for name in frame.columns:
        table.add_column(name, justify="right" if name == "revenue" else "left")
    for row in frame.collect():
        table.add_row(*(str(value) for value in row))
    output.print(table)
