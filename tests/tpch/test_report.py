"""Figures and progress."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from tpch import report


def test_percentiles() -> None:
    assert report.step_percentiles_ms([]) == (0.0, 0.0, 0.0)
    assert report.step_percentiles_ms([0.004]) == pytest.approx((4.0, 4.0, 4.0))
    seconds = [i / 1000 for i in range(101)]
    assert report.step_percentiles_ms(seconds) == pytest.approx((50.0, 95.0, 100.0))


def test_geometric_mean() -> None:
    assert report.geometric_mean([2.0, 8.0]) == pytest.approx(4.0)
    assert report.geometric_mean([]) == 0.0
    assert report.geometric_mean([1.0, 0.0]) == 0.0


def test_memory_peak_is_above_the_start() -> None:
    memory = report.ResidentMemory()
    memory.start()
    block = bytearray(64 << 20)
    assert memory.peak_bytes() > memory.start_bytes + len(block) // 2 > 0


def test_progress_without_a_terminal_is_a_line_now_and_then(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    output = io.StringIO()
    now = [0.0]
    monkeypatch.setattr(report.time, "perf_counter", lambda: now[0])
    with report.StepProgress("Streaming", 4000, Console(file=output, width=100)) as progress:
        for _ in range(4):
            now[0] += 3.0
            progress.step(1000, 0.5)
    lines = output.getvalue().splitlines()
    assert lines[0] == "Streaming: 50%, 2,000 rows, 2000 rows/s, 2 steps"
    assert lines[-1] == "Streaming: 100%, 4,000 rows, 2000 rows/s, 4 steps"
    assert len(lines) == 3


def test_progress_on_a_terminal_is_a_bar() -> None:
    output = io.StringIO()
    console = Console(file=output, width=100, force_terminal=True)
    with report.StepProgress("Streaming", 2000, console) as progress:
        progress.step(2000, 0.5)
    assert "100%" in output.getvalue()
    assert "4000 rows/s, 1 steps" in output.getvalue()
