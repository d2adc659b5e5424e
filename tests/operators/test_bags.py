"""The kernels of derived bags against plain Python."""

from __future__ import annotations

from collections import Counter, defaultdict

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from operators.kernels import bags
from operators.state.order import sort_keys

UPDATES = st.lists(
    st.tuples(st.integers(-3, 3), st.integers(0, 2), st.integers(1, 3), st.integers(-2, 2)),
    max_size=30,
)


@given(UPDATES)
def test_add_up_and_number_the_keys(updates: list[tuple[int, int, int, int]]) -> None:
    n = len(updates)
    table = np.array(updates, np.int64).reshape(n, 4)
    words = np.ascontiguousarray(table[:, :2].T)
    time, diff = np.ascontiguousarray(table[:, 2]), np.ascontiguousarray(table[:, 3])
    order = sort_keys(np.vstack((words, time)))
    row, net = np.empty(n, np.int64), np.empty(n, np.int64)
    count, again = bags.add_up(words, time, diff, order, row, net)
    assert again == n - len({(a, b) for a, b, _, _ in updates})
    expected: Counter[tuple[int, int, int]] = Counter()
    for a, b, at, d in updates:
        expected[a, b, at] += d
    found = [(tuple(map(int, table[row[i], :3])), int(net[i])) for i in range(count)]
    assert dict(found) == {key: d for key, d in expected.items() if d}
    assert len(found) == count
    starts, losing = np.empty(count + 1, np.int64), np.empty(count, np.int64)
    keys, some = bags.keys_that_lose(words, row[:count], net[:count], starts, losing)
    runs = [found[starts[k] : starts[k + 1]] for k in range(keys)]
    assert starts[keys] == count
    assert all(len({key[:2] for key, _ in run}) == 1 for run in runs)
    assert len({run[0][0][:2] for run in runs}) == keys
    assert losing[:some].tolist() == [k for k, run in enumerate(runs) if min(run, key=_net)[1] < 0]


def _net(entry: tuple[tuple[int, ...], int]) -> int:
    return entry[1]


@given(st.lists(st.integers(0, 3), max_size=12))
def test_rows_by_key(probes: list[int]) -> None:
    keys = np.array([0, 2, 3, 6])
    probe, found = np.array(probes, np.int64), np.arange(100, 100 + len(probes))
    start, out = np.empty(8, np.int64), np.empty(len(probes), np.int64)
    bags.by_key(probe, found, keys, start, out)
    expected: dict[int, list[int]] = defaultdict(list)
    for p, row in zip(probes, found.tolist(), strict=True):
        expected[int(keys[p])].append(row)
    assert [out[start[k] : start[k + 1]].tolist() for k in range(7)] == [
        expected[k] for k in range(7)
    ]
