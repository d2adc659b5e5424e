"""Texts kept under tests/plans; `pytest --bless` rewrites them."""

from __future__ import annotations

from pathlib import Path

import pytest

_PLANS = Path(__file__).parent.parent / "plans"


def check_golden(name: str, text: str, request: pytest.FixtureRequest) -> None:
    """Compare with tests/plans/<name>, or write it under --bless."""
    path = _PLANS / name
    if request.config.getoption("--bless", default=False):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    assert path.exists(), f"there is no {path}: run pytest --bless and review it"
    assert text + "\n" == path.read_text()
