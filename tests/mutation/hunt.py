"""The nets, one after the other, until one finds something wrong with the sources that run them.

`python -m tests.mutation.hunt CASES`, in a copy of the sources: CASES holds random cases as
`tests.mutation.__main__` wrote them. Prints one line of JSON: the net, how many cases and compared
pairs of a view and an epoch it took, and what was wrong; `net` is null where nothing was.
"""

from __future__ import annotations

import json
import pickle
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import sqlview
from tests import soak
from tests.harness import Checked
from tests.properties import events
from tests.properties.cases import Case, Tally, run
from tests.properties.values import MAX_ROWS, MAX_WORK
from tests.sql.scenario import install, run_as_one_step, run_written
from tests.sql.test_traps import SCENARIOS

#: A net does its cases one by one; each yields the pairs that it compared, or raises.
Net = Callable[[], Iterator[int]]


def random_cases(cases: list[Case]) -> Iterator[int]:
    """`python -m tests.fuzz`."""
    for case in cases:
        db = sqlview.connect(placement="inline", share=case.seed % 4 != 3)
        checked, tally = Checked(db, form="mixed", most_rows=MAX_ROWS, most_work=MAX_WORK), Tally()
        try:
            run(case, checked, tally)
        except Exception:
            tally.add(checked)
            yield tally.pairs
            raise
        finally:
            checked.close()
        yield tally.pairs


def random_events() -> Iterator[int]:
    """`tests/properties/test_random_events.py`."""
    for seed in range(6):
        checked = events.Checked(sqlview.connect(placement="inline"), Random(seed))
        try:
            events.run(checked, seed, 12)
        except Exception:
            yield checked.pairs
            raise
        finally:
            checked.close()
        yield checked.pairs


def traps() -> Iterator[int]:
    """`tests/sql/test_traps.py`."""
    for scenario in SCENARIOS:
        for runner in (run_written, run_as_one_step):
            checked = Checked(sqlview.connect(placement="inline"))
            try:
                install(scenario, checked)
                runner(scenario, checked)
            finally:
                pairs = sum(view.epochs for view in checked.views.values())
                checked.close()
            yield pairs


def churn() -> Iterator[int]:
    """The part of `python -m tests.soak` that the tests run."""
    for round_number in range(3):
        yield soak.small(round_number)


def hunt(nets: dict[str, Net]) -> dict[str, object]:
    cases = pairs = 0
    for name, net in nets.items():
        going = net()
        while True:
            try:
                pairs += next(going)
                cases += 1
            except StopIteration:
                break
            except Exception as error:
                found = f"{type(error).__name__}: {error}".splitlines()[0]
                return {"net": name, "cases": cases + 1, "pairs": pairs, "found": found[:200]}
    return {"net": None, "cases": cases, "pairs": pairs, "found": ""}


if __name__ == "__main__":
    written: list[Case] = pickle.loads(Path(sys.argv[1]).read_bytes())
    print(
        json.dumps(
            hunt(
                {
                    "random cases": lambda: random_cases(written),
                    "random events": random_events,
                    "traps": traps,
                    "churn": churn,
                }
            )
        )
    )
