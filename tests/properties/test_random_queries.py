"""Random queries over random change streams against the oracle: the part with fixed seeds.

`python -m tests.fuzz` runs the same property for as long as one likes.
"""

from __future__ import annotations

import pytest

from tests.conftest import Connect
from tests.properties.cases import Tally, fault, make, run, shrink

#: Each block is one test, so that a fault in one does not hide the others.
BLOCKS = tuple(range(0, 24, 4))
EPOCHS = 20


def _passes(seed: int, connect: Connect, tally: Tally, placement: str, share: bool) -> None:
    case = make(seed, EPOCHS)
    checked = connect(placement=placement, share=share)
    try:
        run(case, checked, tally)
    except Exception as error:
        small = shrink(case, lambda: connect(placement=placement, share=share))
        found = fault(small, lambda: connect(placement=placement, share=share))
        cut, script = found if found is not None else (error, "\n".join(checked.script))
        text = f"seed {seed} fails; cut down to:\n{script}\n{type(cut).__name__}: {cut}"
        raise AssertionError(text) from error


@pytest.mark.parametrize("first", BLOCKS)
def test_every_view_equals_the_oracle_at_every_epoch(first: int, connect: Connect) -> None:
    tally = Tally()
    for seed in range(first, first + 4):
        _passes(seed, connect, tally, "inline", share=seed % 4 != 3)
    assert tally.pairs > 100
    assert tally.lively > tally.pairs // 6
    assert tally.refused <= tally.views // 2


@pytest.mark.spark
def test_on_spark_too(connect: Connect) -> None:
    tally = Tally()
    _passes(1_000, connect, tally, "spark", share=True)
    assert tally.lively > 0


def test_the_same_seed_makes_the_same_case() -> None:
    assert make(7, EPOCHS) == make(7, EPOCHS)
