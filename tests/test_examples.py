"""The examples run, and verify what they say."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import examples
from examples import (
    bill_of_materials,
    components,
    game_positions,
    program_analysis,
    reachability,
    same_generation,
    shortest_paths,
    triangles,
)

MAINS: dict[str, Callable[[], None]] = {
    "reachability": lambda: reachability.main(teams=60, people=10),
    "bill_of_materials": lambda: bill_of_materials.main(products=5, width=15, levels=4),
    "shortest_paths": lambda: shortest_paths.main(side=5),
    "same_generation": lambda: same_generation.main(people=40),
    "components": lambda: components.main(accounts=40),
    "triangles": lambda: triangles.main(people=60),
    "program_analysis": lambda: program_analysis.main(variables=60),
    "game_positions": lambda: game_positions.main(counters=36),
}


def test_all_are_here() -> None:
    found = {p.stem for p in Path(examples.__file__).parent.glob("*.py")}
    assert found == {"__init__", *MAINS}


@pytest.mark.parametrize("name", MAINS)
def test_example(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    MAINS[name]()
    assert "equals its recompute" in capsys.readouterr().out
