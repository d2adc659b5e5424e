"""Random views over a stream, random events and changes of tables, against the oracle."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

import sqlview
from tests.properties.events import ABOVE, LINEAR, Checked, run


def _run(seed: int, epochs: int, placement: str | None = None) -> Checked:
    checked = Checked(sqlview.connect(placement="inline"), Random(seed))
    try:
        run(checked, seed, epochs, placement)
    finally:
        checked.close()
    return checked


@pytest.mark.parametrize("seed", range(4))
def test_every_view_equals_the_oracle_at_every_epoch(seed: int) -> None:
    checked = _run(seed, 16)
    assert checked.lively > checked.pairs // 4


def test_every_kind_of_events_and_every_kind_of_view() -> None:
    """Each query whose rows are events, and each thing made of them, at least once."""
    checked = Checked(sqlview.connect(placement="inline"), Random(0))
    try:
        for i, linear in enumerate(LINEAR):
            checked.create(linear, ABOVE[i % len(ABOVE)])
        for _ in range(6):
            checked.step(2)
    finally:
        checked.close()
    assert checked.lively > checked.pairs // 4


@pytest.mark.spark
def test_on_spark_too(spark: Any) -> None:
    checked = Checked(sqlview.connect(spark=spark, placement="spark"), Random(0))
    try:
        for i in (2, 4, 10):
            checked.create(LINEAR[i], ABOVE[i % len(ABOVE)])
        for _ in range(2):
            checked.step(2)
    finally:
        checked.close()
    assert checked.lively
