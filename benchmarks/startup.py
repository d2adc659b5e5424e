"""From nothing to the first maintained row: python -m benchmarks.startup

New processes import sqlview, create a table and a view, insert rows and read the view: `warm`, with
the kernels in numba's cache, and `cold`, with an empty cache. `all cold` goes on to run the 22
queries of TPC-H over a little data with deletes and updates, so that every kernel that they reach
compiles; listed are the kernels that took longest. Spark is not started.

The clock of a process starts before the interpreter does. CPU time is shown too, since it is what
remains of the figure on a machine with nothing else to do.

Invariant: each process asserted the rows of its view.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import common

_PROGRAM = """
import json, os, sys, time
from numba.core import event

class Compiled(event.Listener):
    def __init__(self):
        self.starts, self.total, self.kernels = [], 0.0, {}
    def on_start(self, e):
        self.starts.append(time.monotonic())
    def on_end(self, e):
        seconds = time.monotonic() - self.starts.pop()
        if not self.starts:
            function = e.data["dispatcher"].py_func
            name = f"{function.__module__}.{function.__name__}"
            self.kernels[name] = self.kernels.get(name, 0.0) + seconds
            self.total += seconds

compiled = Compiled()
event.register("numba:compile", compiled)
began = time.monotonic()
import sqlview
imported = time.monotonic()
db = sqlview.connect(placement="inline")
db.sql("CREATE TABLE orders (id BIGINT PRIMARY KEY, country STRING, price DECIMAL(15,2))")
db.sql("CREATE MATERIALIZED VIEW revenue AS "
       "SELECT country, sum(price) AS total, count(*) AS n FROM orders GROUP BY country")
created = time.monotonic()
with db.transaction() as tx:
    tx.insert("orders", [(1, "FR", 10), (2, "DE", 20), (3, "FR", 5)])
rows = db.view("revenue").rows()
first = time.monotonic()
assert sorted((c, int(t), n) for c, t, n in rows) == [("DE", 20, 1), ("FR", 15, 2)], rows
if len(sys.argv) > 1:
    from benchmarks import common
    from pathlib import Path
    from tpch.generate import generate, load
    from tpch.queries import all_queries, tables_of
    queries = all_queries()
    directory = generate(0.01, Path(sys.argv[1]) if sys.argv[1] else None)
    common.warm_up(queries, load(directory, tables_of(queries)))
times = os.times()
print(json.dumps({
    "import_seconds": imported - began, "create_seconds": created - imported,
    "first_row_seconds": first - created, "finished": first,
    "cpu_seconds": times.user + times.system, "compile_seconds": compiled.total,
    "kernels": compiled.kernels,
}))
"""

_SHOWN_KERNELS = 12
_WARM_GOAL_SECONDS = 2.0
_COLD_GOAL_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class Startup:
    """One kind of process, the median run. `first_row_seconds`: from before its start to the rows
    of the view; the next three are parts of it. `cpu_seconds`: of the whole process."""

    name: str
    runs: tuple[float, ...]
    first_row_seconds: float
    import_seconds: float
    create_seconds: float
    step_seconds: float
    cpu_seconds: float
    compile_seconds: float
    kernels: dict[str, float]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = common.parser("startup", __doc__)
    parser.add_argument(
        "--data", type=Path, metavar="DIRECTORY", help="where generated data is kept"
    )
    parser.add_argument(
        "--repeat", type=common.positive, default=5, metavar="N",
        help="processes with warm caches, of which the median counts (%(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--cold", type=int, default=1, metavar="N",
        help="processes with an empty cache of each kind (%(default)s)",
    )  # fmt: skip
    given = common.parse(parser, arguments, {"repeat": 1, "cold": 0})
    return common.guarded(lambda: _main(given))


def _main(given: argparse.Namespace) -> None:
    results = common.Results("startup", given)
    console = common.progress()
    console.print("Warm: one process that does not count, then those that do")
    _run({}, None)
    startups = [_startup("warm", [_run({}, None) for _ in range(given.repeat)])]
    for name, data in (("cold", None), ("all cold", str(given.data or ""))):
        runs = []
        for _ in range(given.cold):
            console.print(f"{name}: kernels compile, some twenty seconds")
            with tempfile.TemporaryDirectory() as cache:
                runs.append(_run({"NUMBA_CACHE_DIR": cache}, data))
        if runs:
            startups.append(_startup(name, runs))
    console.print("Import times")
    found = results.write({"startups": startups, "imports": _imports()})
    common.show_figures(tables(found))
    common.show_targets(targets(found))
    _draw(results, found)


def _run(environment: Mapping[str, str], data: str | None) -> dict[str, Any]:
    command = [sys.executable, "-c", _PROGRAM, *([] if data is None else [data])]
    started = time.monotonic()
    done = subprocess.run(
        command, env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise common.WrongAnswerError(f"the process failed: {done.stderr.strip()}")
    found: dict[str, Any] = json.loads(done.stdout)
    found["total_seconds"] = found["finished"] - started
    return found


def _startup(name: str, runs: Sequence[Mapping[str, Any]]) -> Startup:
    middle = sorted(runs, key=lambda run: run["total_seconds"])[len(runs) // 2]
    return Startup(
        name=name,
        runs=tuple(run["total_seconds"] for run in runs),
        first_row_seconds=middle["total_seconds"],
        import_seconds=middle["import_seconds"],
        create_seconds=middle["create_seconds"],
        step_seconds=middle["first_row_seconds"],
        cpu_seconds=float(np.median([run["cpu_seconds"] for run in runs])),
        compile_seconds=middle["compile_seconds"],
        kernels=dict(sorted(middle["kernels"].items(), key=lambda pair: -pair[1])[:_SHOWN_KERNELS]),
    )


def _imports() -> dict[str, float]:
    """Seconds by top-level package of `import sqlview`, what it imports itself included once."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", "import sqlview"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    found: dict[str, float] = {}
    for line in done.stderr.splitlines():
        parts = line.removeprefix("import time:").split("|")
        if len(parts) == 3 and parts[0].strip().isdigit():
            package = parts[2].strip().split(".")[0]
            found[package] = found.get(package, 0.0) + int(parts[0]) / 1e6
    return dict(sorted(found.items(), key=lambda pair: -pair[1])[:_SHOWN_KERNELS])


def tables(result: Mapping[str, Any]) -> list[common.Figures]:
    rows = tuple(
        (
            each["name"],
            *(
                f"{each[k]:.2f}"
                for k in ("first_row_seconds", "import_seconds", "create_seconds", "step_seconds",
                          "cpu_seconds", "compile_seconds")
            ),
        )
        for each in result["startups"]
    )  # fmt: skip
    found = [
        common.Figures(
            "A new process, seconds",
            ("kernels", "to the first row", "import", "CREATE", "step and read", "CPU, to its end",
             "compiling"),
            rows,
        ),
        common.Figures(
            "What the import spends itself, by package",
            ("package", "seconds"),
            tuple((name, f"{seconds:.2f}") for name, seconds in result["imports"].items()),
        ),
    ]  # fmt: skip
    for each in result["startups"]:
        if each["name"] == "all cold":
            kernels = tuple((name, f"{s:.2f}") for name, s in each["kernels"].items())
            found.append(
                common.Figures("Kernels that compile longest", ("kernel", "seconds"), kernels)
            )
    return found


def targets(result: Mapping[str, Any]) -> list[common.Target]:
    by_name = {each["name"]: each for each in result["startups"]}
    warm = by_name["warm"]["first_row_seconds"]
    found = [
        common.Target(
            "import to first maintained row, kernels cached, at most 2 s",
            f"{warm:.2f} s",
            warm <= _WARM_GOAL_SECONDS,
        )
    ]
    if "all cold" in by_name:
        cold = by_name["all cold"]["compile_seconds"]
        found.append(
            common.Target(
                "cold kernel compilation at most 20 s in total",
                f"{cold:.1f} s",
                cold <= _COLD_GOAL_SECONDS,
            )
        )
    return found


def _draw(results: common.Results, result: Mapping[str, Any]) -> None:
    with results.chart(height_inches=3) as (axes,):
        names = [each["name"] for each in result["startups"]]
        left = np.zeros(len(names))
        for key, label in (
            ("import_seconds", "import"), ("create_seconds", "CREATE"), ("step_seconds", "step"),
        ):  # fmt: skip
            values = np.array([each[key] for each in result["startups"]])
            axes.barh(names, values, left=left, label=label)
            left += values
        axes.set_xlabel("seconds to the first maintained row")
        axes.legend()


if __name__ == "__main__":
    raise SystemExit(main())
