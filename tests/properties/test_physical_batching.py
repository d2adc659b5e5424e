"""A step with many transactions emits what one step for each would, at the same times."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest

from sqlview.oracle import canonical_rows
from tests.conftest import Connect
from tests.harness import Checked
from tests.properties.streams import Stream
from tests.reference.tables import Change, Row
from tests.sql.scenario import Scenario, install
from tests.sql.traps_aggregates import SCENARIOS as AGGREGATES
from tests.sql.traps_both_sides import SCENARIOS as BOTH_SIDES
from tests.sql.traps_flips import SCENARIOS as FLIPS
from tests.sql.traps_groups import SCENARIOS as GROUPS
from tests.sql.traps_multiplicities import SCENARIOS as MULTIPLICITIES
from tests.sql.traps_order import SCENARIOS as ORDER
from tests.sql.traps_outer_joins import SCENARIOS as OUTER_JOINS
from tests.sql.traps_sets import SCENARIOS as SETS
from tests.sql.traps_subqueries import SCENARIOS as SUBQUERIES

#: Queries with more than one path from a table to the result.
CASES = (
    *BOTH_SIDES,
    *FLIPS[:2],
    *MULTIPLICITIES[:3],
    *ORDER[:2],
    ORDER[6],
    *OUTER_JOINS[2:8],
    *(s for s in SUBQUERIES if not {"two", "inequality"} & set(s.name.split("_"))),
    AGGREGATES[0],
    AGGREGATES[3],
    *GROUPS[:3],
    *GROUPS[-3:-1],
    *SETS[:3],
)

Deltas = dict[str, Counter[tuple[Row, int]]]


def listen(checked: Checked) -> dict[str, list[Any]]:
    heard: dict[str, list[Any]] = {name: [] for name in checked.views}
    for name, batches in heard.items():
        checked.db.subscribe(name, batches.append)
    return heard


def consolidated(heard: dict[str, list[Any]]) -> Deltas:
    deltas: Deltas = {}
    for name, batches in heard.items():
        counts: Counter[tuple[Row, int]] = Counter()
        for batch in batches:
            for *row, time, diff in canonical_rows(batch):
                counts[tuple(row), time] += diff
        deltas[name] = Counter({k: n for k, n in counts.items() if n})
    return deltas


def _transactions(checked: Checked, seed: int, many: int) -> list[list[Change]]:
    stream = Stream(Random(seed), checked.tables)
    return [stream.filling(), *(stream.transaction() for _ in range(many - 1))]


@pytest.mark.parametrize("scenario", CASES, ids=str)
@pytest.mark.parametrize("seed", [1, 2])
def test_one_step_equals_many(scenario: Scenario, seed: int, connect: Connect) -> None:
    results = []
    for sizes in ([1] * 24, [24], [5, 1, 11, 7]):
        checked = connect(form="arrow")
        install(scenario, checked)
        heard = listen(checked)
        transactions = _transactions(checked, seed, 24)
        for size in sizes:
            checked.batch(*transactions[:size])
            transactions = transactions[size:]
        results.append(consolidated(heard))
    assert results[0] == results[1] == results[2]
    assert any(results[0].values())


def test_a_thousand_times_in_one_step(connect: Connect) -> None:
    diamond = next(s for s in BOTH_SIDES if s.name.startswith("diamond"))
    results = []
    for sizes in ([1_000], [1] * 1_000):
        checked = connect(form="tuples")
        install(diamond, checked)
        heard = listen(checked)
        transactions = _transactions(checked, 5, 1_000)
        for size in sizes:
            begun = []
            for changes in transactions[:size]:
                begun.append(checked.db.begin())
                checked.fill(begun[-1], changes)
            checked.db.apply(begun)
            transactions = transactions[size:]
        results.append(consolidated(heard))
    assert results[0] == results[1]
    assert all(len({time for _, time in deltas}) > 300 for deltas in results[0].values())
