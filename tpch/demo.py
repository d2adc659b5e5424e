"""`python -m tpch demo`: the main job from end to end on real input, in a few minutes.

Half of every table comes in through Spark, as Parquet files that Spark reads, in one step placed on
Spark; the rest of all eight tables streams in, with deletes and updates, placed step by step as
the engine chooses; the views are then read, and verified against DuckDB.

Invariant: the last line and the exit code say whether every view was right.
"""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

import sqlview
from tpch import report, runner

OPTIONS = runner.RunOptions(
    sf=0.1,
    queries="all",
    batch_rows=2500,
    deletes=0.1,
    load=0.5,
    load_on_spark=True,
    placement="auto",
    verify="final",
)
_SELECT = "SELECT n_name, revenue FROM q05 WHERE revenue > 0 ORDER BY revenue DESC"


def main(console: Console, data: Path | None) -> int:
    """Run the demonstration; 1 if any view differs from its recompute."""
    started = time.perf_counter()
    options = dataclasses.replace(OPTIONS, data=data)
    output = report.output_console()
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
