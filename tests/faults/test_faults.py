"""Faults at some calls of a session. The long run, at every call: `python -m tests.faults`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.faults import MODES, PAIRS, run


@pytest.mark.parametrize("mode", MODES)
def test_the_session_goes_on(mode: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    start = 7 + MODES.index(mode)
    stride = 4801 if mode == "interrupt" else 1201
    tried = run(tmp_path / "store", mode, start, stride, verified=mode == "error")
    assert set(tried) == set(PAIRS) and tried["step"] > 4
