"""A batch built in pieces is the batch of all entries at once."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.state import bulk
from operators.state.spine import make_batch


@pytest.mark.parametrize("width", [1, 2, 3])
@pytest.mark.parametrize("values", [1, 3, 1000, 2**62])
@given(seed=st.integers(0, 2**32 - 1), sizes=st.lists(st.integers(0, 400), max_size=6))
def test_pieces_make_the_same_batch(width: int, values: int, seed: int, sizes: list[int]) -> None:
    rng = np.random.default_rng(seed)
    n = sum(sizes)
    keys = rng.integers(-values, values, (width, n))
    rows = np.cumsum(rng.integers(1, 4, n))
    ends = np.cumsum([0, *sizes]).tolist()
    pieces = [(keys[:, a:b], rows[a:b]) for a, b in pairwise(ends)]
    built, whole = bulk.build(pieces, width), make_batch(keys, rows)
    assert np.array_equal(built.keys, whole.keys)
    assert np.array_equal(built.rows, whole.rows)
    assert np.array_equal(built.offsets, whole.offsets)
