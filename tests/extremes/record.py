"""Record what Spark makes of a fixed sample: python -m tests.extremes.record

The answers go to answers.json, one line for each expression, which test_extremes.py compares with
the engine's without Spark.
"""

from __future__ import annotations

import argparse
import itertools
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.extremes.expressions import expressions
from tests.extremes.spark import Answer, Spark
from tests.extremes.values import rows

ANSWERS = Path(__file__).with_name("answers.json")
_AT_ONCE = 100


@dataclass(frozen=True, slots=True)
class Recorded:
    """Of each expression its function, its type, and Spark's answer on each of the rows; the type
    is "" and there is the error's class alone where Spark refuses it."""

    spark: str
    seed: int
    row_count: int
    answers: dict[str, tuple[str, str, list[Answer]]]


def read(path: Path = ANSWERS) -> Recorded:
    found = json.loads(path.read_text())
    answers = {e: (name, kind, values) for e, (name, kind, values) in found["answers"].items()}
    return Recorded(found["spark"], found["seed"], found["rows"], answers)


def write(recorded: Recorded, path: Path = ANSWERS) -> None:
    lines = ",\n".join(
        f"{json.dumps(e, ensure_ascii=False)}: {json.dumps(answer)}"
        for e, answer in recorded.answers.items()
    )
    head = f'"spark": "{recorded.spark}", "seed": {recorded.seed}, "rows": {recorded.row_count}'
    path.write_text(f'{{{head}, "answers": {{\n{lines}\n}}}}\n')


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.extremes.record", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rows", type=int, default=40)
    parser.add_argument("--count", type=int, default=240, help="of expressions")
    parser.add_argument("--file", type=Path, default=ANSWERS)
    options = parser.parse_args(arguments)
    sample = list(itertools.islice(expressions(options.seed), options.count))
    answers: dict[str, tuple[str, str, list[Answer]]] = {}
    with Spark() as spark:
        spark.load(rows(options.rows, options.seed))
        for start in range(0, len(sample), _AT_ONCE):
            part = sample[start : start + _AT_ONCE]
            for (name, text), answer in zip(part, spark.answers([e for _, e in part]), strict=True):
                kind, values = ("", [f"!{answer}"]) if isinstance(answer, str) else answer
                answers[text] = (name, kind, values)
            print(f"{len(answers):,} of {len(sample):,}", flush=True)
            write(Recorded(spark.version, options.seed, options.rows, answers), options.file)


if __name__ == "__main__":
    main()
