"""Sustained latency: python -m benchmarks.flatness --after 1000 100000 1000000

A fixed number of live rows under churn. In each step the tasks that are due first are deleted, as
many new ones with ascending keys arrive, and others, at random, are upserted with new values; all
due times move on, so that the front of every ordered index is made of rows that have just died.
Three views: a join with an aggregate, the tasks that are due next (top-k), the least of each group
(MIN). Compared are the step's CPU time and the most bytes of state in windows of updates that begin
after 1,000, 100,000 and 1,000,000 of them. Before them, the live set is turned over once
(settling). The latency by the clock is shown beside: minutes lie between the windows, and it tells
what else the machine does in each as well.

Invariant: the views equalled their recompute after the settling and after every window.
"""

from __future__ import annotations

import argparse
import gc
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

import sqlview
from benchmarks import common
from sqlview import oracle
from tpch.report import ResidentMemory

TABLES = {
    "tasks": "CREATE TABLE tasks (id BIGINT PRIMARY KEY, owner INT NOT NULL, cost BIGINT NOT NULL, "
    "due BIGINT NOT NULL)",
    "owners": "CREATE TABLE owners (owner INT PRIMARY KEY, team INT NOT NULL)",
}
VIEWS = {
    "team_cost": "SELECT o.team, count(*) AS tasks, sum(t.cost) AS cost "
    "FROM tasks t JOIN owners o ON t.owner = o.owner GROUP BY o.team",
    "due_next": "SELECT id, owner, due FROM tasks ORDER BY due, id LIMIT 100",
    "least_cost": "SELECT owner, min(cost) AS least FROM tasks GROUP BY owner",
}

_OWNERS = 1_000
_TEAMS = 50
_COSTS = 1_000_000
AFTER = (1_000, 100_000, 1_000_000)

_BYTES_SAMPLES = 500
_WARM_UP_ROWS = 5_000
_WARM_UP_STEPS = 10

Ints = npt.NDArray[np.int64]


class Tasks:
    """The live rows, and the changes of each step, made outside the clock. State: the live rows."""

    def __init__(self, live_rows: int, seed: int) -> None:
        self._rng = np.random.default_rng(seed)
        self._next_id = live_rows
        self._now = 0
        self._live_rows = live_rows
        self._id = np.arange(live_rows)
        self._owner, self._cost, self._due = self._values(live_rows)

    def owners(self) -> pa.Table:
        owner = np.arange(_OWNERS, dtype=np.int32)
        return pa.table({"owner": owner, "team": (owner % _TEAMS).astype(np.int32)})

    def live(self) -> pa.Table:
        return self._rows(np.arange(self._live_rows))

    def change(self, rows: int) -> tuple[pa.Table, pa.Table]:
        """The next step, of `rows` changed rows: keys to delete, then rows to upsert."""
        gone = max(rows // 4, min(rows // 2, 1))
        self._now += rows
        order = np.argpartition(self._due, gone)
        leaving = order[:gone]
        deleted = pa.table({"id": self._id[leaving]})
        self._id[leaving] = np.arange(self._next_id, self._next_id + gone)
        self._next_id += gone
        changed = self._rng.choice(order[gone:], rows - 2 * gone, replace=False)
        places = np.concatenate([leaving, changed])
        self._owner[places], self._cost[places], self._due[places] = self._values(len(places))
        return deleted, self._rows(places)

    def _values(self, rows: int) -> tuple[npt.NDArray[np.int32], Ints, Ints]:
        rng = self._rng
        owner = rng.integers(0, _OWNERS, rows, dtype=np.int32)
        due = self._now + rng.integers(0, 2 * self._live_rows, rows)
        return owner, rng.integers(0, _COSTS, rows), due

    def _rows(self, places: npt.NDArray[Any]) -> pa.Table:
        columns = (self._id, self._owner, self._cost, self._due)
        names = ["id", "owner", "cost", "due"]
        return pa.table([column[places] for column in columns], names=names)


@dataclass(frozen=True, slots=True)
class Part:
    """A window of updates: step latency, by the clock and in CPU time, and the most bytes of state
    and of the table's rows.

    The most, since both are sawtooths: what is dead goes when a block of rows is full.
    """

    after: int
    steps: int
    p50_ms: float
    p95_ms: float
    p99_ms: float
    max_ms: float
    p50_cpu_ms: float
    p95_cpu_ms: float
    max_cpu_ms: float
    state_bytes: int
    table_bytes: int
    rss_bytes: int


#: The figures of a Part that are compared.
FIGURES = ("p50_cpu_ms", "p95_cpu_ms", "max_cpu_ms", "state_bytes", "table_bytes")


@dataclass(slots=True)
class Measured:
    """Per step: seconds, and those of CPU. Per sample: how many updates there had been, and the
    bytes then."""

    step_seconds: list[float]
    step_cpu_seconds: list[float]
    sample_updates: list[int]
    state_bytes: list[int]
    table_bytes: list[int]
    rss_bytes: list[int]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = common.parser("flatness", __doc__)
    parser.add_argument(
        "--after", type=common.positive, nargs="+", default=list(AFTER), metavar="N",
        help="updates before each window (1,000 100,000 1,000,000)",
    )  # fmt: skip
    for name, default, text in (
        ("live-rows", 100_000, "rows in the table, always"),
        ("window", 100_000, "changed rows of a window"),
        ("batch-rows", 1_000, "changed rows per transaction"),
    ):
        parser.add_argument(
            f"--{name}", type=common.positive, default=default, metavar="N",
            help=f"{text} (%(default)s)",
        )  # fmt: skip
    parser.add_argument(
        "--tolerance",
        type=float,
        metavar="SHARE",
        help="exit with 1 if a figure of a later window is above that of the first by more than "
        "this share (default: report it only)",
    )
    quick = {"live_rows": 300, "after": [20, 200, 400], "window": 200, "batch_rows": 20}
    given = common.parse(parser, arguments, quick)
    if given.batch_rows > min(given.window, *given.after):
        parser.error("a window, and what lies before the first, is at least a batch")
    if given.batch_rows > given.live_rows // 2:
        parser.error("a batch is at most half of the live rows")
    return common.guarded(lambda: _main(given))


def _main(given: argparse.Namespace) -> None:
    results = common.Results("flatness", given)
    console = common.progress()
    console.print("Warming up")
    rows = min(_WARM_UP_ROWS, given.live_rows)
    warm = min(given.batch_rows, rows // 2)
    run(rows, warm, [warm], _WARM_UP_STEPS * warm, given.seed)
    after = sorted(set(given.after))
    console.print(f"{after[-1] + given.window:,} updates of {given.live_rows:,} live rows")
    measured = run(given.live_rows, given.batch_rows, after, given.window, given.seed)
    parts = [_part(measured, start, given.window, given.batch_rows) for start in after]
    growth = {f: max(_growth(getattr(p, f), getattr(parts[0], f)) for p in parts) for f in FIGURES}
    found = results.write(
        {"parts": parts, "growth_over_first_window": growth, "measured": measured}
    )
    common.show_figures(tables(found))
    common.show_targets(targets(found))
    _draw(results, found)
    if given.tolerance is not None:
        beyond = {name: share for name, share in growth.items() if share > given.tolerance}
        if beyond:
            listed = ", ".join(f"{name} by {share:.0%}" for name, share in beyond.items())
            raise common.BenchmarkError(f"not flat within {given.tolerance:.0%}: {listed}")


def run(live_rows: int, batch_rows: int, after: Sequence[int], window: int, seed: int) -> Measured:
    """Load, settle, churn; a check after the settling and after each window.

    Raises: common.WrongAnswerError if a view differs from its recompute.
    """
    tasks = Tasks(live_rows, seed)
    steps = (after[-1] + window) // batch_rows
    sample_every = max(1, min(steps // _BYTES_SAMPLES, window // batch_rows // 10))
    check_after = {(start + window) // batch_rows for start in after}
    measured = Measured([], [], [], [], [], [])
    memory = ResidentMemory()
    with sqlview.connect(placement="inline") as db:
        for text in TABLES.values():
            db.sql(text)
        for name, text in VIEWS.items():
            db.sql(f"CREATE MATERIALIZED VIEW {name} AS {text}")
        with db.transaction() as tx:
            tx.insert("owners", tasks.owners())
            tx.insert("tasks", tasks.live())
        for _ in range(live_rows // batch_rows):
            _step(db, tasks, batch_rows)
        _check(db, tasks)
        gc.collect()
        for step in range(steps):
            seconds, cpu_seconds = _step(db, tasks, batch_rows)
            measured.step_seconds.append(seconds)
            measured.step_cpu_seconds.append(cpu_seconds)
            if (step + 1) % sample_every == 0:
                metrics = db.metrics()
                measured.sample_updates.append((step + 1) * batch_rows)
                measured.state_bytes.append(metrics.state_bytes)
                measured.table_bytes.append(metrics.table_bytes)
                measured.rss_bytes.append(memory.now_bytes())
            if step + 1 in check_after:
                _check(db, tasks)
    return measured


def _step(db: sqlview.Session, tasks: Tasks, rows: int) -> tuple[float, float]:
    """One transaction; how long it took, by the clock and of CPU time."""
    deleted, upserted = tasks.change(rows)
    started, cpu_started = time.perf_counter(), time.thread_time()
    with db.transaction() as tx:
        tx.delete("tasks", deleted)
        tx.upsert("tasks", upserted)
    return time.perf_counter() - started, time.thread_time() - cpu_started


def _check(db: sqlview.Session, tasks: Tasks) -> None:
    """Recompute from the rows that ought to be live, not from those that the session keeps."""
    with oracle.DuckDBOracle() as recompute:
        recompute.load("tasks", tasks.live(), ["id"])
        recompute.load("owners", tasks.owners(), ["owner"])
        for name, text in VIEWS.items():
            expected = recompute.query(text, db.view(name).schema)
            common.check_view(db, name, expected, is_ordered=recompute.is_ordered(text))


def _part(measured: Measured, after: int, window: int, batch_rows: int) -> Part:
    steps = slice(after // batch_rows, (after + window) // batch_rows)
    seconds = measured.step_seconds[steps]
    cpu = common.percentiles_ms(measured.step_cpu_seconds[steps])
    inside = [i for i, at in enumerate(measured.sample_updates) if after < at <= after + window]
    most = [
        max(values[i] for i in inside)
        for values in (measured.state_bytes, measured.table_bytes, measured.rss_bytes)
    ]
    state_bytes, table_bytes, rss_bytes = most
    return Part(
        after=after,
        steps=len(seconds),
        p50_cpu_ms=cpu["p50_ms"],
        p95_cpu_ms=cpu["p95_ms"],
        max_cpu_ms=cpu["max_ms"],
        state_bytes=state_bytes,
        table_bytes=table_bytes,
        rss_bytes=rss_bytes,
        **common.percentiles_ms(seconds),
    )


def _growth(value: float, first: float) -> float:
    return value / first - 1 if first else 0.0


def tables(result: Mapping[str, Any]) -> list[common.Figures]:
    settings, growth = result["settings"], result["growth_over_first_window"]
    latencies = ("p50_cpu_ms", "p95_cpu_ms", "max_cpu_ms", "p50_ms", "p95_ms", "p99_ms", "max_ms")
    rows = tuple(
        (
            f"{part['after']:,}",
            *(common.number(part[k]) for k in latencies),
            *(f"{part[k] / 2**20:.1f}" for k in ("state_bytes", "table_bytes", "rss_bytes")),
        )
        for part in result["parts"]
    )
    shown = (*latencies, "state_bytes", "table_bytes", "rss_bytes")
    above = [f"{growth[name]:+.0%}" if name in growth else "" for name in shown]
    return [
        common.Figures(
            f"Steps of {settings['batch_rows']:,} updates over {settings['live_rows']:,} live "
            f"rows, in windows of {settings['window']:,} updates",
            ("after updates", "p50 CPU ms", "p95 CPU ms", "max CPU ms", "p50 ms", "p95 ms",
             "p99 ms", "max ms", "state MiB", "table MiB", "process MiB"),
            rows,
            (("most above the first", *above),),
        )
    ]  # fmt: skip


def targets(result: Mapping[str, Any]) -> list[common.Target]:
    if max(part["after"] for part in result["parts"]) < AFTER[-1]:
        return []
    growth = result["growth_over_first_window"]
    compared = ("p50_cpu_ms", "p95_cpu_ms", "state_bytes", "table_bytes")
    worst = max(compared, key=lambda name: growth[name])
    return [
        common.Target(
            "sustained latency flat: p50 and p95 of CPU time, and bytes, after 1,000,000 updates "
            "within a quarter of those after 1,000",
            f"{worst.rpartition('_')[0]} {growth[worst]:+.0%} at most",
            growth[worst] <= 0.25,
        )
    ]


def _draw(results: common.Results, result: Mapping[str, Any]) -> None:
    """Latency of every step, and bytes, over the updates; the windows' complementary CDFs."""
    settings, measured = result["settings"], result["measured"]
    batch_rows = settings["batch_rows"]
    with results.chart(3, height_inches=3.5) as (latency, size, windows):
        milliseconds = np.asarray(measured["step_cpu_seconds"]) * 1000
        updates = (np.arange(len(milliseconds)) + 1) * batch_rows
        latency.plot(updates, milliseconds, ".", markersize=2)
        latency.set_yscale("log")
        latency.set_ylabel("CPU ms per step")
        latency.set_title(f"Steps of {batch_rows:,} updates over a fixed live set")
        for name, values in (("state", "state_bytes"), ("tables", "table_bytes")):
            size.plot(measured["sample_updates"], np.asarray(measured[values]) / 2**20, label=name)
        size.set_ylim(bottom=0)
        size.set_ylabel("MiB")
        size.set_xlabel("updates")
        size.legend()
        for part in result["parts"]:
            start = part["after"] // batch_rows
            inside = milliseconds[start : start + part["steps"]]
            common.draw_ccdf(windows, inside, f"after {part['after']:,} updates")
        windows.legend()


if __name__ == "__main__":
    raise SystemExit(main())
