"""The tests can fail: an obviously right engine passes them, and every planted mistake is found."""

from __future__ import annotations

import pytest

from planner.errors import DataError
from tests.harness import Checked, Mismatch
from tests.properties.cases import MakeView, Step, fault, make, run, shrink
from tests.reference.engine import BUGS, ReferenceSession
from tests.reference.tables import insert
from tests.sql import test_traps, traps_nested, traps_order, traps_subqueries
from tests.sql.scenario import Scenario, install, run_as_one_step, run_written

#: The slow engine counts rows as they are, and lists have no hash.
SCENARIOS = [s for s in test_traps.SCENARIOS if s not in traps_nested.SCENARIOS]
#: Where to look for mistakes that few scenarios show.
_WHERE = {
    "wrong_order": traps_order.SCENARIOS,
    "stays_in_error": traps_subqueries.SCENARIOS,
    "swallows_errors": traps_subqueries.SCENARIOS,
}


def _reference(bug: str | None = None) -> Checked:
    return Checked(ReferenceSession(bug), form="mixed")


def _found(bug: str, scenario: Scenario) -> bool:
    """Whether the scenario, one by one or as one step, shows the mistake."""
    for runner in (run_written, run_as_one_step):
        checked = _reference(bug)
        try:
            install(scenario, checked)
            runner(scenario, checked)
        except Mismatch:
            return True
        finally:
            checked.close()
    return False


def test_the_right_engine_passes_written_and_random_cases() -> None:
    for scenario in SCENARIOS[::6]:
        checked = _reference()
        install(scenario, checked)
        run_written(scenario, checked)
        checked.close()
    for seed in range(4):
        checked = _reference()
        run(make(seed, 12), checked)
        checked.close()


@pytest.mark.parametrize("bug", sorted(set(BUGS) - {"partial_apply"}))
def test_traps_find_every_planted_mistake(bug: str) -> None:
    scenarios = _WHERE.get(bug, SCENARIOS)
    assert any(_found(bug, scenario) for scenario in scenarios), BUGS[bug]


@pytest.mark.parametrize("bug", ["ignores_updates", "last_version", "loses_copies", "last_time"])
def test_random_cases_find_planted_mistakes_and_shrink_them(bug: str) -> None:
    def connect() -> Checked:
        return _reference(bug)

    failing = next(c for c in (make(seed, 6) for seed in range(40)) if fault(c, connect))
    small = shrink(failing, connect, attempts=15)
    assert fault(small, connect) is not None
    assert len(small.operations) < len(failing.operations)
    assert any(isinstance(o, MakeView) for o in small.operations)
    assert any(isinstance(o, Step) for o in small.operations)


def test_a_failure_shows_the_session_as_a_script() -> None:
    checked = _reference("drops_nulls")
    checked.create_table("t", "a INT")
    checked.create_view("v", "SELECT a FROM t")
    with pytest.raises(Mismatch) as failure:
        checked.step(insert("t", (None,)))
    text = str(failure.value)
    assert "missing 1: (None,)" in text
    assert "sql: CREATE MATERIALIZED VIEW v AS SELECT a FROM t" in text
    assert "step(insert('t', (None,)))" in text
    checked.close()


def test_a_transaction_applied_in_part_is_found() -> None:
    for bug in (None, "partial_apply"):
        checked = _reference(bug)
        checked.create_table("t", "a INT", ("a",))
        checked.create_view("v", "SELECT a FROM t")
        checked.step(insert("t", (1,)))
        if bug is None:
            checked.rejected(DataError, insert("t", (2,), (1,)))
        else:
            with pytest.raises(Mismatch, match="by a failed change"):
                checked.rejected(DataError, insert("t", (2,), (1,)))
        checked.close()


def test_an_error_that_does_not_come_is_found() -> None:
    checked = _reference()
    checked.create_table("t", "a INT")
    with pytest.raises(Mismatch, match="DataError was not raised"):
        checked.rejected(DataError, insert("t", (2,)))
    checked.close()
