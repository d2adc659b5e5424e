"""Stores against a multiset of rows with times."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.flight.delta import Delta
from operators.nodes.store import StoreOperator
from operators.state.arrangement import FEW_KEYS, ArrangementState
from operators.state.relation import Relation
from planner import dataflow as ir
from planner.calculus import types as t
from tests.operators.columns import Row, ints, schema, to_columns, to_rows
from tests.reference.bag import accumulate, consolidate

FIELDS = schema(t.BIGINT, t.STRING, t.DOUBLE)
Update = tuple[Row, int, int]


class Store:
    def __init__(self) -> None:
        node = ir.Store(ir.Source("r", FIELDS))
        self.relation = Relation(FIELDS)
        self.index = ArrangementState(ir.HashArrangement(node), self.relation)
        self.operator = StoreOperator(node, self.relation, self.index)

    def step(self, updates: list[Update]) -> list[Update]:
        rows, times, diffs = ([u[i] for u in updates] for i in range(3))
        one_time = len(set(times)) == 1
        columns = to_columns(rows, FIELDS)
        delta = Delta(FIELDS, ints(*times), ints(*diffs), [*columns], one_time=one_time)
        out = self.operator.step([delta])
        got = to_rows(out.columns(), FIELDS)
        return list(zip(got, out.time.tolist(), out.diff.tolist(), strict=True))

    def rows(self, time: int) -> Counter[Row]:
        return Counter(to_rows(self.relation.gather_all(self.relation.visible(time)), FIELDS))


_POOL: list[Row] = [(1, "a", 0.0), (1, "a", 1.5), (None, "", 0.0), (None, None, float("nan"))]
_CHANGES = st.lists(
    st.lists(st.tuples(st.integers(0, 3), st.integers(-2, 3), st.integers(0, 2)), max_size=10),
    max_size=6,
)


#: Of each step, whether updates that cancel are among its, and how many are few.
_WAYS = st.lists(st.tuples(st.booleans(), st.sampled_from((0, FEW_KEYS))), min_size=6, max_size=6)


@given(_CHANGES, st.integers(0, 3), _WAYS)
def test_lockstep(
    steps: list[list[tuple[int, int, int]]], hold: int, ways: list[tuple[bool, int]]
) -> None:
    """Steps by the kernel of few updates and others in turn."""
    with pytest.MonkeyPatch.context() as patch:
        _lockstep(steps, hold, ways, patch)


def _lockstep(
    steps: list[list[tuple[int, int, int]]],
    hold: int,
    ways: list[tuple[bool, int]],
    patch: pytest.MonkeyPatch,
) -> None:
    store = Store()
    every: Counter[tuple[Row, int]] = Counter()
    now: Counter[int] = Counter()
    time = since = 0
    for step, (cancels, few) in zip(steps, ways, strict=False):
        patch.setattr("operators.nodes.store.FEW_KEYS", few)
        time += 1
        start = time
        updates: list[Update] = []
        for row, drawn, later in step:
            time += later
            diff = max(drawn, -now[row])
            now[row] += diff
            update = _POOL[row], time, diff
            # Updates that cancel at one time come out as nothing.
            updates += [(*update[:2], 1), update, (*update[:2], -1)] if cancels else [update]
        out = store.step(updates)
        assert all(diff in (-1, 1) for _, _, diff in out)
        net = consolidate((_canonical(r), at, d) for r, at, d in updates)
        assert consolidate(out) == net
        assert len(out) == sum(map(abs, net.values())), "what cancels does not come out"
        for key, diff in net.items():
            every[key] += diff
        for at in range(max(since, start - 1), time + 1):
            assert store.rows(at) == accumulate(every, at)
        since = max(since, time - hold)
        store.relation.advance(since)
        store.index.maintain(len(out))
    assert store.relation.live_rows == now.total()


def _canonical(row: Row) -> Row:
    return to_rows(to_columns([row], FIELDS), FIELDS)[0]


def test_equal_values_written_differently_are_one_row() -> None:
    store = Store()
    store.step([((1, "a", -0.0), 1, 1)])
    out = store.step([((1, "a", 0.0), 2, -1)])
    assert [(at, diff) for _, at, diff in out] == [(2, -1)]
    assert store.rows(2) == Counter()


def test_many_copies() -> None:
    store = Store()
    row: Row = (1, "x", 2.0)
    assert len(store.step([(row, 1, 5), (row, 2, -2), (row, 3, 4)])) == 11
    assert [store.rows(at)[row] for at in (0, 1, 2, 3)] == [0, 5, 3, 7]
    assert store.step([(row, 4, -7)]) == [(row, 4, -1)] * 7
    assert store.rows(4) == Counter()


def test_losing_a_row_that_is_not_there_is_a_bug_of_ours() -> None:
    store = Store()
    with pytest.raises(AssertionError, match="a derived bag lost a row"):
        store.step([((1, "a", 1.0), 1, -1)])


def test_rows_without_change_cost_no_lookup() -> None:
    store = Store()
    store.step([((i, "a", 0.0), 1, 1) for i in range(100)])
    seeks = store.index.work.seeks
    store.step([((i, "b", 0.0), 2, 1) for i in range(100)])
    assert store.index.work.seeks == seeks
    assert store.step([]) == []


def test_state_of_a_churning_store_is_bounded() -> None:
    store = Store()
    fields: Any = FIELDS
    n = 500
    texts = to_columns([(0, "t", 0.0)] * n, fields)
    before: np.ndarray[Any, Any] | None = None
    most = 0
    for time in range(1, 400):
        new = np.arange(time * n, (time + 1) * n)
        for numbers, diff in ((before, -1), (new, 1)):
            if numbers is not None:
                key = type(texts[0])(t.BIGINT, numbers)
                times, diffs = np.full(n, time, np.int64), np.full(n, diff, np.int64)
                store.operator.step([Delta(fields, times, diffs, [key, texts[1], texts[2]])])
        before = new
        store.relation.advance(time)
        store.index.maintain(2 * n)
        most = max(most, store.index.spine.entries)
    assert store.relation.live_rows == n
    assert most < 20 * n
    assert len(store.relation.empty_blocks) >= 2


def test_a_copy_is_found_among_many_without_looking_at_them() -> None:
    store = Store()
    store.step([((1, "x", 2.0), 1, 5000)])
    before = store.index.work.entries
    for time in range(2, 12):
        store.step([((1, "x", 2.0), time, -1)])
    assert store.index.work.entries - before < 200


def test_the_index_is_made_when_a_row_is_retracted() -> None:
    store = Store()
    store.step([(_POOL[0], 1, 2), (_POOL[1], 1, 1)])
    store.step([(_POOL[0], 2, 1)])
    assert store.index.spine.entries == 0
    store.step([(_POOL[0], 3, -1), (_POOL[2], 3, 1)])
    assert store.index.spine.entries == 5
    store.step([(_POOL[3], 4, 1)])
    assert store.index.spine.entries == 6
    store.step([(_POOL[0], 5, -2), (_POOL[3], 5, -1)])
    assert store.rows(5) == Counter({_POOL[1]: 1, _POOL[2]: 1})
