"""The behaviour suite with keys that collide: hashes of a bit or two, and texts of every length and
all rows hashed. What the views hold may not change.

Any other test runs so with `python -m pytest --hash-bits N …`: see tests/collisions.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from tests.collisions import colliding
from tests.conftest import Connect
from tests.harness import Checked
from tests.properties.cases import Tally, make, run
from tests.sql.scenario import Scenario, install, run_as_one_step, run_random, run_written
from tests.sql.test_traps import SCENARIOS

TABLES = {
    "k": ("s STRING, x INT, y INT, u STRING", ("s", "x")),
    "w": ("s STRING, x INT", ("s",)),
    "b": ("s STRING, u STRING, x INT", ()),
}
#: Of every operator one that has texts for its keys.
VIEWS = {
    "rows_of_a_bag": "SELECT s, u FROM b",
    "groups": "SELECT s, u, count(*) AS n, sum(x) AS t, avg(y) AS a FROM k GROUP BY s, u",
    "extremes": "SELECT s, min(x) AS lo, max(y) AS hi, max(u) AS last FROM k GROUP BY s",
    "extremes_of_texts": "SELECT max(u) AS last, min(s) AS first FROM b",
    "recomputed": "SELECT s, median(x) AS m, mode(u) AS o FROM b GROUP BY s",
    "distinct_in_groups": "SELECT s, count(DISTINCT u) AS d FROM b GROUP BY s",
    "distinct": "SELECT DISTINCT s, u FROM b",
    "joined": "SELECT b.s, w.x, k.u FROM b JOIN w ON b.s = w.s JOIN k ON k.s = b.s",
    "by_part_of_a_key": "SELECT w.s, k.y FROM w JOIN k ON k.s = w.s",
    "null_safe": "SELECT b.x, k.y FROM b JOIN k ON b.u <=> k.u",
    "left_joined": "SELECT b.s, b.u, w.x FROM b LEFT JOIN w ON b.u = w.s",
    "full_joined": "SELECT b.u, w.s FROM b FULL JOIN w ON b.s = w.s AND b.x < w.x",
    "semi": "SELECT s, x FROM b WHERE EXISTS (SELECT 1 FROM w WHERE w.s = b.u AND w.x <> b.x)",
    "anti": "SELECT s, x FROM w WHERE s NOT IN (SELECT u FROM b WHERE b.x = w.x)",
    "sets": "SELECT s FROM b EXCEPT ALL SELECT s FROM k",
    "fronts": "SELECT w.s, f.y FROM w, LATERAL"
    " (SELECT y FROM k WHERE k.s = w.s ORDER BY y DESC, x LIMIT 1) AS f",
    "thresholds": "SELECT s, x FROM b WHERE x > (SELECT avg(k.x) FROM k WHERE k.s = b.s)",
    "front": "SELECT s, u FROM b ORDER BY u, s, x LIMIT 3",
}


@pytest.fixture(scope="module", params=[1])
def found(request: pytest.FixtureRequest) -> Iterator[Counter[str]]:
    """How often keys that collide were found, by the module that compared them."""
    with colliding(request.param) as counted:
        yield counted


@pytest.mark.parametrize("scenario", SCENARIOS, ids=str)
def test_traps(scenario: Scenario, connect: Connect, found: Counter[str]) -> None:
    """Every other one in one step: what a step of many transactions does differently is the same
    for all (see `--hash-bits` for both of each)."""
    before = found.total()
    checked = connect(form="arrow")
    install(scenario, checked)
    (run_as_one_step if SCENARIOS.index(scenario) % 2 else run_written)(scenario, checked)
    if scenario.name == "distinct_last_copy_leaves":
        assert found.total() > before


def test_every_operator(connect: Connect, found: Counter[str]) -> None:
    before = found.copy()
    checked = connect(form="arrow")
    _create(checked)
    run_random(checked, seed=0, epochs=40)
    modules = {name for name, n in (found - before).items() if n}
    nodes = ("store", "reduce", "runs", "recompute", "half_join", "partitions", "threshold")
    assert modules >= {"operators.table", *(f"operators.nodes.{name}" for name in nodes)}


def test_random_queries(connect: Connect, found: Counter[str]) -> None:
    before, tally = found.total(), Tally()
    run(make(5_000, 12), connect(), tally)
    assert tally.lively > 0 and found.total() > before


@pytest.mark.spark
def test_on_spark_too(connect: Connect, found: Counter[str]) -> None:
    checked = connect(placement="spark", form="arrow")
    _create(checked)
    run_random(checked, seed=7, epochs=6)


def _create(checked: Checked) -> None:
    for name, (columns, key) in TABLES.items():
        checked.create_table(name, columns, key)
    for name, query in VIEWS.items():
        checked.create_view(name, query)
