"""A store whose disk fails, or whose process or machine stops, at any call. The long run, at every
call: `python -m tests.store`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.store.kills import killed
from tests.store.life import MODES, State, run, states


@pytest.fixture(scope="module")
def expected() -> list[State]:
    return states()


@pytest.mark.parametrize("mode", MODES)
def test_nothing_is_lost_and_nothing_doubled(
    mode: str, expected: list[State], tmp_path: Path
) -> None:
    at = 1 + MODES.index(mode)
    tried = 0
    while run(tmp_path / str(at), mode, at, expected):
        tried += 1
        at += 149
    assert tried >= 5


def test_a_killed_writer_loses_nothing(tmp_path: Path) -> None:
    killed(tmp_path, seed=1)
