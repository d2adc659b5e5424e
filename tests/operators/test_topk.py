"""Top-k against sorting all rows at every time."""

from __future__ import annotations

import functools
import math
from collections import Counter
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from operators.kernels import fronts
from planner import dataflow as ir
from planner.calculus import types as t
from planner.calculus.algebra import SortKey
from planner.calculus.types import Field
from tests.operators.columns import Row, ints
from tests.operators.running import Running, Updates, installed, signed, top_k
from tests.reference.bag import accumulate
from tests.reference.tables import Change, delete, insert, upsert

LONG = "0123456789abcdef"  # as many bytes as an index holds
FIELDS = (
    Field("id", t.INT, False),
    Field("name", t.STRING, True),
    Field("score", t.DOUBLE, True),
    Field("team", t.INT, True),
)
_NAMES = (None, "", "a", LONG, LONG + "a", LONG + "b", LONG + "é", "é")
_SCORES = (None, math.nan, math.inf, -math.inf, 0.0, -0.0, 1.5, -1.5)
ORDERS = {
    "score": (SortKey(2),),
    "score descending, NULLs last": (SortKey(2, True, False),),
    "name descending": (SortKey(1, True, False),),
    "name, then score": (SortKey(1), SortKey(2, True)),
    "score, then name": (SortKey(2), SortKey(1, False, False)),
}


def _rank(value: Any) -> Any:
    """Python's order of two values of one type as SQL has it: NaN is greatest."""
    if not isinstance(value, float):
        return value
    return (1, 0.0) if math.isnan(value) else (0, value)


def _compare(a: Row, b: Row, keys: tuple[SortKey, ...]) -> int:
    for key in keys:
        x, y = a[key.column], b[key.column]
        if x is None or y is None:
            if x is not y:
                return -1 if (x is None) == key.nulls_first else 1
        elif _rank(x) != _rank(y):
            return -1 if (_rank(x) < _rank(y)) != key.descending else 1
    return 0


class Model:
    """The view's rows from all rows, by sorting."""

    def __init__(self, node: ir.TopK) -> None:
        self.node = node
        self.keys = (*node.index.order, *(SortKey(c) for c in node.index.ties))

    def rows(self, table: Counter[Row]) -> Counter[Row]:
        partitions: dict[Row, list[Row]] = {}
        for row in table.elements():
            key = tuple(row[c] for c in self.node.index.partition)
            partitions.setdefault(key, []).append(row)
        low, high = self.node.offset, self.node.offset + self.node.limit
        compare = functools.cmp_to_key(lambda a, b: _compare(a, b, self.keys))
        return Counter(r for p in partitions.values() for r in sorted(p, key=compare)[low:high])


class Changes:
    """Random changes of one keyed table, several epochs, with few ids and values."""

    def __init__(self, rng: Random, rows: int) -> None:
        self.rng, self.rows = rng, rows
        self.ids: set[int] = set()

    def epoch(self) -> list[Change]:
        rng = self.rng
        made: list[Change] = []
        for _ in range(rng.choice((1, 1, 2, 5))):
            new = rng.randrange(self.rows)
            row = (new, rng.choice(_NAMES), rng.choice(_SCORES), rng.choice((None, 0, 1)))
            if new in self.ids and rng.random() < 0.5:
                self.ids.discard(new)
                made.append(delete("players", row))
            else:
                self.ids.add(new)
                made.append(upsert("players", row))
        return made


def _install(running: Running, node: ir.TopK) -> ir.Store:
    """Without the harness's own model, which does not know NaN and partitions."""
    root = ir.Store(node)
    births = installed(running.dataflow, "top", root, running.epoch)
    running.views["top"] = ("", root)
    running.updates["top"] = signed(births)
    return root


def _players() -> tuple[Running, ir.Source]:
    running = Running()
    return running, running.add_table("players", FIELDS, key=(0,))


@pytest.mark.parametrize("partition", [(), (3,)], ids=["whole", "by team"])
@pytest.mark.parametrize("order", list(ORDERS))
@settings(max_examples=12)
@given(st.integers(0, 10**6), st.integers(0, 4), st.integers(0, 3), st.integers(0, 3))
def test_every_epoch(
    order: str, partition: tuple[int, ...], seed: int, limit: int, offset: int, late: int
) -> None:
    running, source = _players()
    rng = Random(seed)
    changes = Changes(rng, rng.choice((5, 12)))
    keys = ORDERS[order]
    others = tuple({*range(4)} - {k.column for k in keys} - {*partition})
    node = ir.TopK(ir.OrderedArrangement(source, keys, others, partition), limit, offset)
    model = Model(node)
    for _ in range(late):
        running.apply([changes.epoch() for _ in range(rng.choice((1, 3)))])
    root = _install(running, node)
    total: Updates = running.updates["top"]
    assert accumulate(total, running.epoch) == model.rows(running.tables["players"].rows)
    for _ in range(5):
        epochs = [changes.epoch() for _ in range(rng.choice((1, 1, 3, 4)))]
        states = []
        shadow = running.tables["players"].copy()
        for epoch in epochs:
            for change in epoch:
                shadow.apply(change)
            states.append(model.rows(shadow.rows))
        first = running.epoch + 1
        running.apply(epochs)
        for time, expected in enumerate(states, start=first):
            assert accumulate(total, time) == expected
        # As a new view would see it now: the input of the Store, computed from what is kept.
        snapshot = signed(running.dataflow.snapshot(node, running.epoch))
        assert accumulate(snapshot, running.epoch) == states[-1]
        assert (
            accumulate(signed(running.dataflow.snapshot(root, running.epoch)), running.epoch)
            == (states[-1])
        )


def test_ties_are_broken_by_all_columns() -> None:
    running = Running()
    pairs = running.add_table("pairs", (Field("a", t.INT, True), Field("b", t.STRING, True)))
    running.install("top", top_k(pairs, [SortKey(0)], 3))
    running.apply([[insert("pairs", (1, "b"), (1, "a"), (1, "a"), (1, None), (2, "z"))]])
    top = running.updates["top"]
    assert accumulate(top, 1) == Counter({(1, None): 1, (1, "a"): 2})
    running.apply([[delete("pairs", (1, "a"))], [delete("pairs", (1, None))]])
    assert accumulate(top, 2) == Counter({(1, None): 1, (1, "a"): 1, (1, "b"): 1})
    assert accumulate(top, 3) == Counter({(1, "a"): 1, (1, "b"): 1, (2, "z"): 1})
    running.check()


def test_members_that_die_and_are_compacted() -> None:
    """The first rows change by the hundred thousand; what is remembered names only living rows."""
    running = Running()
    numbers = running.add_table("numbers", (Field("n", t.BIGINT, False),), key=(0,))
    running.install("top", top_k(numbers, [SortKey(0)], 2))
    n = 70_000
    rows = [(i,) for i in range(n)]
    running.apply([[insert("numbers", *rows)]])
    assert accumulate(running.updates["top"], 1) == Counter([(0,), (1,)])
    running.apply([[delete("numbers", *rows[: n - 3])]])
    running.apply([[insert("numbers", (-1,))]])
    running.install("late", top_k(numbers, [SortKey(0)], 2))
    for name in ("top", "late"):
        running.check()
        assert accumulate(running.updates[name], 3) == Counter([(-1,), (n - 3,)])
    state = next(
        i.state for i in running.dataflow.indexes if isinstance(i.spec, ir.OrderedArrangement)
    )
    assert state.spine.entries < n / 4


_EVENTS = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 1)), max_size=14)


@given(
    st.lists(st.booleans(), min_size=1, max_size=10), st.integers(0, 3), st.integers(0, 3), _EVENTS
)
def test_follow(alive: list[bool], low: int, length: int, drawn: list[tuple[int, int]]) -> None:
    """The kernel against ranking all living places after each time."""
    high = low + length
    if length == 0:
        return
    place, time, sign = [], [], []
    now, at, touched = list(alive), 0, set[int]()
    expected = []
    before = {p for r, p in enumerate(p for p, a in enumerate(now) if a) if low <= r < high}

    def finish() -> None:
        nonlocal before
        after = {p for r, p in enumerate(p for p, a in enumerate(now) if a) if low <= r < high}
        expected.extend((p, at, 1 if p in after else -1) for p in sorted(before ^ after))
        before = after

    for which, later in drawn:
        p = which % len(alive)
        if later or p in touched:
            finish()
            at, touched = at + 1, set()
        touched.add(p)
        place.append(p)
        time.append(at)
        sign.append(-1 if now[p] else 1)
        now[p] = not now[p]
    finish()
    capacity = 100
    out = [np.empty(capacity, np.int64) for _ in range(3)]
    count = fronts.follow_groups(
        ints(0, len(alive)), np.array(alive), low, high,
        ints(0, len(place)), ints(*place), ints(*time), ints(*sign), *out,
    )  # fmt: skip
    assert list(zip(*(o[:count].tolist() for o in out), strict=True)) == expected


def test_reading_the_front_costs_what_is_in_front() -> None:
    running = Running()
    numbers = running.add_table("numbers", (Field("n", t.BIGINT, False),), key=(0,))
    running.install("top", top_k(numbers, [SortKey(0, True)], 10))
    running.apply([[insert("numbers", *((i,) for i in range(50_000)))]])
    state = next(
        i.state for i in running.dataflow.indexes if isinstance(i.spec, ir.OrderedArrangement)
    )
    before = state.work.entries
    running.apply(
        [[insert("numbers", (-5,)), insert("numbers", (50_000,)), delete("numbers", (3,))]]
    )
    assert state.work.entries - before < 100
    running.check()


@pytest.mark.parametrize("hold", [0, 10])
def test_deaths_in_another_partition_cost_nothing(hold: int) -> None:
    """Those in front are passed over once, or as long as a reader can tell them."""
    running = Running(hold=hold)
    fields = (Field("n", t.BIGINT, False), Field("team", t.BIGINT, False))
    numbers = running.add_table("numbers", fields, key=(0,))
    index = ir.OrderedArrangement(numbers, (SortKey(0),), (), partition=(1,))
    root = ir.Store(ir.TopK(index, 3, 0))
    installed(running.dataflow, "top", root, 0)
    running.apply([[insert("numbers", *((i, i % 2) for i in range(20_000)))]])
    state = next(
        i.state for i in running.dataflow.indexes if isinstance(i.spec, ir.OrderedArrangement)
    )
    running.apply([[delete("numbers", *((i, i % 2) for i in range(1, 8_000, 2)))]])
    before = state.work.entries
    running.apply([[delete("numbers", (0, 0))], [delete("numbers", (2, 0))]])
    assert state.work.entries - before < 100
    for number in (20_001, 20_005):
        before = state.work.entries
        running.apply([[insert("numbers", (number + d, 1))] for d in (0, 2)])
    assert state.work.entries - before < (100 if hold == 0 else 5_000)
    snapshot = signed(running.dataflow.snapshot(root, running.epoch))
    teams = [[4, 6, 8], [8_001, 8_003, 8_005]]
    assert {row for row, _ in snapshot} == {(n, i) for i, team in enumerate(teams) for n in team}
