"""A store whose disk fails, or whose process or machine stops, at some of its calls. The long run,
at every call: `python -m tests.store`."""

from __future__ import annotations

from pathlib import Path

from tests.store.faults import error, stopped, stops
from tests.store.kills import killed


def test_a_call_that_fails_fails_its_operation_alone() -> None:
    at, tried = 1, 0
    while True:
        there, wrong = error(at)
        assert wrong is None
        if not there:
            break
        tried += 1
        at += 149
    assert tried >= 20


def test_wherever_it_stops_nothing_is_lost_and_nothing_doubled() -> None:
    found = stops()
    assert {mode for at in found for mode, _, _ in at.times} == {"kill", "torn", "power"}
    assert len(found) > 1_000
    assert [wrong for at in found[::97] for wrong in stopped(at)] == []


def test_a_killed_writer_loses_nothing(tmp_path: Path) -> None:
    killed(tmp_path, seed=1)
