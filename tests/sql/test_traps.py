"""Semantic traps, each with inserts, deletes and updates, written and random."""

from __future__ import annotations

import pytest

from tests.conftest import Connect
from tests.sql import (
    traps_aggregates,
    traps_both_sides,
    traps_errors,
    traps_flips,
    traps_grouping_sets,
    traps_groups,
    traps_inequalities,
    traps_lateral,
    traps_multiplicities,
    traps_nested,
    traps_nulls,
    traps_order,
    traps_outer_joins,
    traps_scalars,
    traps_sets,
    traps_subqueries,
    traps_windows,
)
from tests.sql.scenario import Scenario, install, run_as_one_step, run_random, run_written

SCENARIOS = (
    *traps_nulls.SCENARIOS,
    *traps_both_sides.SCENARIOS,
    *traps_multiplicities.SCENARIOS,
    *traps_nested.SCENARIOS,
    *traps_flips.SCENARIOS,
    *traps_order.SCENARIOS,
    *traps_scalars.SCENARIOS,
    *traps_outer_joins.SCENARIOS,
    *traps_subqueries.SCENARIOS,
    *traps_windows.SCENARIOS,
    *traps_inequalities.SCENARIOS,
    *traps_lateral.SCENARIOS,
    *traps_aggregates.SCENARIOS,
    *traps_groups.SCENARIOS,
    *traps_grouping_sets.SCENARIOS,
    *traps_sets.SCENARIOS,
    *traps_errors.SCENARIOS,
)

each = pytest.mark.parametrize("scenario", SCENARIOS, ids=str)


def test_scenarios_have_different_names() -> None:
    assert len({s.name for s in SCENARIOS}) == len(SCENARIOS)


@each
def test_written_and_random_epochs(scenario: Scenario, connect: Connect) -> None:
    checked = connect()
    install(scenario, checked)
    run_written(scenario, checked)
    run_random(checked, seed=sum(scenario.name.encode()), epochs=12)
    checked.verify()


@each
def test_all_epochs_in_one_physical_step(
    scenario: Scenario, connect: Connect, placement: str
) -> None:
    checked = connect(placement=placement, form="arrow")
    install(scenario, checked)
    run_as_one_step(scenario, checked)


@each
def test_private_arrangements(scenario: Scenario, connect: Connect) -> None:
    checked = connect(share=False)
    install(scenario, checked)
    run_written(scenario, checked)
    run_random(checked, seed=len(scenario.name), epochs=4)
