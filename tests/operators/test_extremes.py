"""Which extremes a step's changes tell: the kernel against multisets."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from operators.kernels.extremes import extremes

CHANGES = st.lists(st.tuples(st.integers(0, 4), st.sampled_from([1, 1, -1])), max_size=6)
GROUPS = st.lists(
    st.tuples(st.lists(st.integers(0, 4), max_size=4), CHANGES, st.booleans()),
    min_size=1,
    max_size=5,
)


@given(GROUPS)
def test_what_is_known_is_right(
    groups: list[tuple[list[int], list[tuple[int, int]], bool]],
) -> None:
    values: list[int] = []
    diffs: list[int] = []
    starts, key_starts = [0], [0]
    expected: list[int | None] = []
    before: list[list[int]] = []
    for stored, changes, has_more_times in groups:
        left = Counter(stored)
        taken = []
        for value, wanted in changes or [(5, 1)]:
            sign = 1 if left[value] == 0 else wanted  # a group never loses what it lacks
            left[value] += sign
            taken.append((value, sign))
        values += [v for v, _ in taken]
        diffs += [d for _, d in taken]
        starts.append(len(values))
        runs = 1
        if has_more_times:
            starts.append(len(values))
            runs = 2
        key_starts.append(key_starts[-1] + runs)
        expected += [min(left.elements(), default=None)] * runs
        before.append(stored)
    rng = np.random.default_rng(len(values))
    # Rows are found through `order`: they lie anywhere.
    order = rng.permutation(len(values))
    words, diff = np.empty((2, len(values)), np.int64), np.empty(len(values), np.int64)
    words[:, order] = [[1] * len(values), values]
    diff[order] = diffs
    stored = np.array([[1] * len(before), [min(b, default=-1) for b in before]])
    has_stored = np.array([bool(b) for b in before])
    count = len(starts) - 1
    best, known = np.empty(count, np.int64), np.empty(count, np.bool_)
    extremes(
        order, np.array(starts), np.array(key_starts), diff, words, stored, has_stored, best, known
    )
    for g, first in enumerate(key_starts[:-1]):
        if key_starts[g + 1] - first > 1:
            assert not known[first : key_starts[g + 1]].any()
        elif known[first]:
            found = words[1, best[first]] if best[first] >= 0 else stored[1, g]
            assert found == expected[first]
        else:  # somebody left who was as far in front, or nobody is there
            rows = range(starts[first], starts[first + 1])
            in_front = min([*before[g], *(values[i] for i in rows)])
            assert any(values[i] == in_front for i in rows if diffs[i] < 0)
