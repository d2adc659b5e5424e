"""The small part of the soak: bytes of state that are counted, no clock and no resident memory."""

from __future__ import annotations

import pytest

from tests import soak


def test_state_stays_flat_under_churn_and_falls_when_all_rows_go() -> None:
    assert soak.small(0) > 40


def test_what_grows_is_found() -> None:
    flat, growing = soak.Series("flat"), soak.Series("growing")
    flat.samples = [100 << 20, 101 << 20] * 50
    growing.samples = [(100 + i) << 20 for i in range(100)]
    assert "in 100 samples" in flat.check()
    with pytest.raises(soak.Grown, match="growing"):
        growing.check()
