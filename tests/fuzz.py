"""`python -m tests.fuzz --pairs P --seed S`: random queries over random change streams.

Runs the property of `tests/properties` over seeds from S upwards, in several processes, until M
minutes are over, P pairs are compared or C cases are done, and prints what it covered: pairs of a
query and an epoch compared with the oracle, how many of them had rows and changed, how often each
SQL feature was used, and how often the engine refused it. Progress goes to stderr. A difference is
cut down and printed as a script at once; after as many as `--failures` the run ends, with exit code
1. Queries to which DuckDB has two answers, one of which is the engine's, are counted and listed
apart (`tests.harness.Dispute`). A run that is stopped (Ctrl-C, SIGTERM) prints what it has covered.
`--output FILE` keeps one line of JSON for each case as it ends.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import json
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from pathlib import Path
from random import Random
from types import FrameType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from tests import spark_answers
from tests.harness import Checked, Mismatch
from tests.properties import events
from tests.properties.cases import Tally, fault, make, run, shrink
from tests.properties.features import FEATURES, SUPPORTED
from tests.properties.values import MAX_ROWS, MAX_WORK
from tests.reference.engine import BUGS, ReferenceSession

#: How often a run tells how far it is, if not to a terminal.
_PROGRESS_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Plan:
    """What is done for each seed. `reference`: the reference engine, "none" or with that bug.
    `attempts`: how many smaller cases are tried when one fails.
    """

    epochs: int
    features: tuple[str, ...]
    reference: str | None
    share: bool
    attempts: int
    placement: str
    judge: str

    def connect(self, seed: int) -> Checked:
        import sqlview

        db: Any = None
        share = self.share and seed % 4 != 3
        if self.reference is not None:
            db = ReferenceSession(None if self.reference == "none" else self.reference)
        elif self.placement == "spark" or (self.placement == "mixed" and seed % 50 == 49):
            db = sqlview.connect(spark=_spark(), placement="spark", share=share)
        else:
            db = sqlview.connect(placement="inline", share=share)
        return Checked(db, form="mixed", most_rows=MAX_ROWS, most_work=MAX_WORK)


@functools.cache
def _spark() -> Any:
    """This process's Spark."""
    from sqlview import start_spark

    spark = start_spark("local[1]")
    spark.conf.set("spark.sql.shuffle.partitions", "1")
    return spark


@dataclass(frozen=True, slots=True)
class Outcome:
    """One case. `difference`: a script that shows it, and the error. `disputes`: DuckDB's own."""

    seed: int
    seconds: float
    tally: Tally
    difference: str | None
    disputes: tuple[str, ...]


@dataclass(slots=True)
class Total:
    """All cases so far."""

    seeds: set[int] = field(default_factory=set)
    tally: Tally = field(default_factory=Tally)
    differences: int = 0
    disputes: list[str] = field(default_factory=list)

    def add(self, outcome: Outcome) -> None:
        self.seeds.add(outcome.seed)
        self.tally.merge(outcome.tally)
        self.differences += outcome.difference is not None
        self.disputes += [f"seed {outcome.seed}, {text}" for text in outcome.disputes]


def main(arguments: list[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    minutes = options.minutes
    if minutes is None:
        minutes = float("inf") if options.pairs or options.cases is not None else 1.0
    share, attempts = not options.private, options.attempts
    plan = Plan(
        options.epochs, options.features, options.reference, share, attempts,
        options.placement, options.judge,
    )  # fmt: skip
    end = None if options.cases is None else options.seed + options.cases
    started, total = time.monotonic(), Total()
    output = None if options.output is None else options.output.open("a")
    with _stoppable() as stop, _progress(total, options.pairs) as tick:
        try:
            for outcome in _outcomes(plan, options.seed, end, options.processes):
                if outcome is not None:
                    total.add(outcome)
                    if outcome.difference is not None:
                        print(outcome.difference, flush=True)
                    if output is not None:
                        output.write(json.dumps(dataclasses.asdict(outcome)) + "\n")
                        output.flush()
                tick()
                if (
                    time.monotonic() - started >= 60 * minutes
                    or total.differences >= options.failures
                    or (options.pairs and total.tally.pairs >= options.pairs)
                ):
                    break
        except KeyboardInterrupt:
            print(f"stopped by {stop[0].name}", file=sys.stderr)
    if output is not None:
        output.close()
    print(report(total, time.monotonic() - started))
    if total.differences:
        return 1
    return 128 + stop[0] if stop else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, help="stop after so long (default: 1, or never)")
    parser.add_argument("--pairs", type=int, help="stop after so many (query, epoch) pairs")
    parser.add_argument("--cases", type=int, help="stop after so many cases")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--epochs", type=int, default=25, help="transactions in each case")
    parser.add_argument("--failures", type=int, default=1, help="stop after so many differences")
    parser.add_argument("--attempts", type=int, default=200, help="to cut a difference down")
    parser.add_argument("--private", action="store_true", help="do not share arrangements")
    parser.add_argument(
        "--placement",
        choices=("inline", "spark", "mixed"),
        default="inline",
        help="mixed: every fiftieth case on Spark",
    )
    parser.add_argument(
        "--judge",
        choices=("duckdb", "spark"),
        default="duckdb",
        help="spark: beside DuckDB, Spark recomputes the views as they are at the end of a case",
    )
    parser.add_argument("--processes", type=int, default=min(4, os.cpu_count() or 1))
    parser.add_argument("--output", type=Path, metavar="FILE", help="one line of JSON per case")
    parser.add_argument(
        "--features",
        type=_features,
        default=SUPPORTED,
        metavar="F,…",
        help="all, supported, none or a list, where -F leaves F out: " + ", ".join(FEATURES),
    )
    parser.add_argument(
        "--reference",
        metavar="BUG",
        choices=["none", *BUGS],
        help="run the reference engine instead, with a planted mistake or none",
    )
    return parser


def _outcomes(plan: Plan, first: int, end: int | None, processes: int) -> Iterator[Outcome | None]:
    """The outcomes of the seeds as they come, and None where none has come for a while."""
    if processes == 1:
        for seed in _seeds(first, end, 1):
            yield _run_case(seed, plan)
        return
    # Not forked: the engine has threads.
    context = multiprocessing.get_context("spawn")
    workers = {}
    for i in range(processes if end is None else min(processes, end - first)):
        receiver, sender = context.Pipe(duplex=False)
        arguments = (sender, plan, first + i, end, processes)
        workers[receiver] = context.Process(target=_work, args=arguments, daemon=True)
        workers[receiver].start()
        sender.close()
    try:
        while workers:
            ready = wait(list(workers), timeout=1.0)
            for receiver in [r for r in workers if r in ready]:
                try:
                    yield receiver.recv()
                except EOFError:
                    worker = workers.pop(receiver)
                    worker.join()
                    if worker.exitcode:
                        raise RuntimeError(
                            f"a process died with exit code {worker.exitcode}: its next seed is "
                            f"one that the output lacks"
                        ) from None
            if not ready:
                yield None
    finally:
        for worker in workers.values():
            worker.terminate()


def _work(sender: Connection, plan: Plan, first: int, end: int | None, stride: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends us
    for seed in _seeds(first, end, stride):
        sender.send(_run_case(seed, plan))
    sender.close()


def _seeds(first: int, end: int | None, stride: int) -> Iterator[int]:
    seed = first
    while end is None or seed < end:
        yield seed
        seed += stride


def _run_case(seed: int, plan: Plan) -> Outcome:
    started, tally, difference = time.monotonic(), Tally(), None
    if seed % 25 == 24 and plan.reference is None:
        return _run_events(seed, plan, started)
    case = make(seed, plan.epochs, plan.features)
    checked = plan.connect(seed)
    try:
        run(case, checked, tally)
        if plan.judge == "spark":
            compared, wrong = spark_answers.judged(checked, _spark())
            tally.count("judged by Spark", compared)
            if wrong:
                raise Mismatch("\n".join(["Spark gives something else", *wrong, *checked.script]))
    except Exception as error:
        difference = _cut_down(seed, plan) or (
            f"seed {seed} failed, but not when run again\n{type(error).__name__}: {error}"
        )
    finally:
        checked.close()
    disputes = tuple(str(d) for d in checked.disputes)
    return Outcome(seed, time.monotonic() - started, tally, difference, disputes)


def _run_events(seed: int, plan: Plan, started: float) -> Outcome:
    """Views over a stream: see `tests.properties.events`."""
    import sqlview

    tally, difference = Tally(), None
    checked = events.Checked(sqlview.connect(placement="inline", share=plan.share), Random(seed))
    try:
        events.run(checked, seed, plan.epochs)
    except Exception as error:
        difference = f"seed {seed} fails over a stream\n{type(error).__name__}: {error}"
    finally:
        checked.close()
    tally.pairs = tally.nonempty = checked.pairs
    tally.changed = tally.lively = checked.lively
    tally.count("views over streams, epochs", checked.pairs)
    return Outcome(seed, time.monotonic() - started, tally, difference, ())


def _cut_down(seed: int, plan: Plan) -> str | None:
    case = make(seed, plan.epochs, plan.features)

    def connect() -> Checked:
        return plan.connect(seed)

    small = shrink(case, connect, plan.attempts)
    found = fault(small, connect) or fault(case, connect)
    if found is None:
        return None
    error, script = found
    return f"seed {seed} fails; cut down to:\n{script}\n{type(error).__name__}: {error}"


@contextmanager
def _stoppable() -> Iterator[list[signal.Signals]]:
    """Ctrl-C and SIGTERM raise KeyboardInterrupt; which of them is then in the list."""
    received: list[signal.Signals] = []

    def stop(number: int, frame: FrameType | None) -> None:
        received.append(signal.Signals(number))
        raise KeyboardInterrupt

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _progress(total: Total, pairs: int | None) -> Iterator[Callable[[], None]]:
    """A function to call now and then, which shows on stderr how far the run is."""
    started = time.monotonic()
    console = Console(stderr=True)

    def line() -> str:
        t, seconds = total.tally, max(time.monotonic() - started, 1e-9)
        return (
            f"{t.pairs:,} pairs, {t.lively / max(t.pairs, 1):.1%} lively, "
            f"{t.pairs / seconds:.0f}/s, {len(total.seeds):,} cases, {t.refused} refused, "
            f"{len(total.disputes)} disputed, {total.differences} differences"
        )

    if console.is_terminal:
        columns = (BarColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
        with Progress(*columns, console=console, transient=True) as bar:
            task = bar.add_task(line(), total=pairs)
            yield lambda: bar.update(task, completed=total.tally.pairs, description=line())
        return
    shown = started

    def tick() -> None:
        nonlocal shown
        now = time.monotonic()
        if now - shown >= _PROGRESS_SECONDS:
            shown = now
            print(f"{now - started:6.0f} s  {line()}", file=sys.stderr, flush=True)

    yield tick


def report(total: Total, seconds: float) -> str:
    """What a run covered, as text."""
    tally = total.tally
    pairs = max(tally.pairs, 1)
    without = "without a difference"
    if total.differences:
        without = f"{total.differences} of them with a difference"
    span = f"seeds {min(total.seeds)} to {max(total.seeds)}: " if total.seeds else ""
    lines = [
        f"{span}{len(total.seeds)} cases in {seconds:.0f} s, {without}",
        f"(query, epoch) pairs compared   {tally.pairs:>9,}",
        f"  with rows                     {tally.nonempty:>9,}  {tally.nonempty / pairs:6.1%}",
        f"  changing                      {tally.changed:>9,}  {tally.changed / pairs:6.1%}",
        f"  with rows and changing        {tally.lively:>9,}  {tally.lively / pairs:6.1%}",
        f"  in error                      {tally.errors:>9,}  {tally.errors / pairs:6.1%}",
        f"cases cut short: too many rows  {tally.cut_short:>9,}",
        f"views                           {tally.views:>9,}",
        f"  refused, and not counted      {tally.refused:>9,}",
        "uses of each SQL feature              in views  in refused",
    ]
    lines += [
        f"  {name:<36}{tally.features.get(name, 0):>8,}{tally.refused_features.get(name, 0):>12,}"
        for name in sorted(tally.features.keys() | tally.refused_features.keys())
    ]
    if tally.reasons:
        lines.append("reasons to refuse")
        ranked = sorted(tally.reasons.items(), key=lambda item: (-item[1], item[0]))
        lines += [f"  {count:>6,}  {reason}" for reason, count in ranked]
    if total.disputes:
        lines.append(
            f"results to which DuckDB has two answers, the engine's being the one without its "
            f"optimizer: {len(total.disputes):,}"
        )
        lines += [f"  {line}" for text in total.disputes for line in text.splitlines()]
    return "\n".join(lines)


def _features(text: str) -> tuple[str, ...]:
    """all, supported, none, or names with commas between them; -name leaves one out."""
    sets = {"all": FEATURES, "supported": SUPPORTED, "none": ()}
    chosen: list[str] = []
    for part in text.split(","):
        name = part.strip()
        if name in sets:
            chosen += sets[name]
        elif name.removeprefix("-") not in FEATURES:
            raise argparse.ArgumentTypeError(f"there is no feature {name!r}")
        elif name.startswith("-"):
            chosen = [c for c in chosen or SUPPORTED if c != name[1:]]
        else:
            chosen.append(name)
    return tuple(dict.fromkeys(chosen))


if __name__ == "__main__":
    sys.exit(main())
