"""Whoever waits for kernels to compile is told so; nobody else is."""

from __future__ import annotations

import logging

import numba
import pytest


def test_compiling_is_announced_once(caplog: pytest.LogCaptureFixture) -> None:
    from sqlview import _compiling

    progress = _compiling._Progress()
    _compiling.event.register("numba:compile", progress)
    try:
        with caplog.at_level(logging.WARNING, logger="sqlview"):
            for turn in (1, 2):
                compiled = numba.njit(lambda x, turn=turn: x + turn)
                assert [compiled(1), compiled(2)] == [1 + turn, 2 + turn]
    finally:
        _compiling.event.unregister("numba:compile", progress)
    told = [r.getMessage() for r in caplog.records if "compiling kernels" in r.getMessage()]
    assert 1 <= len(told) <= 2  # the process has a listener of its own since the import
    assert progress._kernels == 2 and progress._depth == 0


def test_progress_is_told_every_few_seconds(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sqlview import _compiling

    clock = iter([1.0, 4.0, 10.0, 11.0])
    monkeypatch.setattr(_compiling.time, "monotonic", lambda: next(clock))
    progress = _compiling._Progress()
    with caplog.at_level(logging.WARNING, logger="sqlview"):
        for _ in range(2):
            progress.on_start(None)
            progress.on_end(None)
    assert [r.getMessage() for r in caplog.records] == [
        "compiling kernels for this machine, once: some twenty seconds",
        "compiled 1 kernels in 3 s so far",
    ]
