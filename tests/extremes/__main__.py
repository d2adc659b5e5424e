"""Fuzz functions on extremes: python -m tests.extremes --pairs 100000 --seed 1

Each function with columns of each type, literals and calls of other functions, on rows of extreme
values: through views of a session, one row at a time and all at once, and by Spark's own evaluator.
Counted are pairs of an expression and a row; deaths, where a public call raised what it must not;
and differences from Spark, which there should be none of. The exit code says whether there were.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from collections import Counter
from collections.abc import Sequence

from tests.extremes import judge
from tests.extremes.engine import Made, run
from tests.extremes.expressions import expressions
from tests.extremes.spark import Spark
from tests.extremes.values import rows

_AT_ONCE = 40


class Counts:
    """What was run and found, by function."""

    def __init__(self) -> None:
        self.pairs: Counter[str] = Counter()
        self.errors: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self.deaths: Counter[str] = Counter()
        self.different: Counter[str] = Counter()
        self.found: list[str] = []

    def add(self, name: str, made: Made, rows: int) -> None:
        if made.refused is not None:
            self.refused[name] += 1
            return
        self.pairs[name] += rows
        self.errors[name] += sum(a is not None and a[0] == "!" for a in made.answers)
        self.deaths[name] += len(made.deaths)
        self.found += [f"DEATH {made.expression}: {death}" for death in made.deaths]
        self.different[name] += len(made.inconsistent)
        self.found += [f"INCONSISTENT {text}" for text in made.inconsistent]

    def differs(self, name: str, text: str) -> None:
        self.different[name] += 1
        self.found.append(f"DIFFERENT {text}")

    def __str__(self) -> str:
        lines = [
            f"{'function':24}{'pairs':>9}{'errors':>9}{'refused':>9}{'deaths':>9}{'different':>11}"
        ]
        for name in sorted({*self.pairs, *self.refused}):
            columns = (self.pairs, self.errors, self.refused, self.deaths)
            cells = "".join(f"{c[name]:>9,}" for c in columns)
            lines.append(f"{name:24}{cells}{self.different[name]:>11,}")
        sums = (self.pairs, self.errors, self.refused, self.deaths)
        cells = "".join(f"{c.total():>9,}" for c in sums)
        lines.append(f"{'all':24}{cells}{self.different.total():>11,}")
        return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.extremes", description=__doc__)
    parser.add_argument("--pairs", type=int, default=100_000, help="of an expression and a row")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rows", type=int, default=40, help="of one table")
    parser.add_argument("--without-spark", action="store_true", help="look for deaths only")
    options = parser.parse_args(arguments)
    counts = Counts()
    if options.without_spark:
        _fuzz(options, counts, None)
    else:
        with Spark() as spark:
            _fuzz(options, counts, spark)
    print(counts)
    print("\n".join(counts.found) or "no death, no difference")
    return 1 if counts.found else 0


def _fuzz(options: argparse.Namespace, counts: Counts, spark: Spark | None) -> None:
    begun = time.perf_counter()
    stream = expressions(options.seed)
    for turn in itertools.count():
        if counts.pairs.total() >= options.pairs:
            return
        table = rows(options.rows, options.seed * 1000 + turn // 8)
        if spark is not None and turn % 8 == 0:
            spark.load(table)
        batch = list(itertools.islice(stream, _AT_ONCE))
        made = run([text for _, text in batch], table)
        for (name, _), one in zip(batch, made, strict=True):
            counts.add(name, one, table.num_rows)
        if spark is not None:
            _compare(
                [(n, m) for (n, _), m in zip(batch, made, strict=True) if m.answers], spark, counts
            )
        _progress(counts, options.pairs, time.perf_counter() - begun)


def _compare(made: list[tuple[str, Made]], spark: Spark, counts: Counts) -> None:
    answers = spark.answers([m.expression for _, m in made])
    for (name, one), answer in zip(made, answers, strict=True):
        if isinstance(answer, str):
            counts.differs(name, f"{one.expression}: accepted, which Spark refuses by {answer}")
            continue
        kind, values = answer
        if kind != one.kind:
            counts.differs(name, f"{one.expression}: of type {one.kind} where Spark has {kind}")
            continue
        for row, (ours, sparks) in enumerate(zip(one.answers, values, strict=True)):
            text = judge.difference(one.expression, kind, ours, sparks)
            if text is not None:
                counts.differs(name, f"{one.expression} in row {row}: {text}")


def _progress(counts: Counts, wanted: int, seconds: float) -> None:
    print(
        f"{counts.pairs.total():,} of {wanted:,} pairs, {counts.deaths.total()} deaths,"
        f" {counts.different.total()} differences, {seconds:.0f} s",
        file=sys.stderr,
        flush=True,
    )


if __name__ == "__main__":
    sys.exit(main())
