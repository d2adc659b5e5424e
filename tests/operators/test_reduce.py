"""The group operator: its kernels against Python's integers, its rows against recomputed groups."""

from __future__ import annotations

import math
from collections import Counter
from decimal import Decimal
from itertools import groupby
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from operators import exact_sum
from operators.column import Ints
from operators.kernels import grouping
from planner import dataflow as ir
from planner import types as t
from planner.algebra import SortKey, identity
from planner.errors import ViewError
from planner.types import Field
from tests.conftest import Connect
from tests.operators.columns import Row, ints
from tests.operators.running import Running, Updates, reduce_, signed
from tests.reference import groups as naive
from tests.reference.bag import accumulate
from tests.reference.tables import Change, delete, insert, upsert

_INT64 = st.one_of(
    st.integers(-(2**63), 2**63 - 1),
    st.integers(-3, 3),
    st.sampled_from([-(2**63), 2**63 - 1, -(2**32), 2**32 - 1, 2**31]),
)
_INT128 = st.one_of(st.integers(-(2**127), 2**127 - 1), _INT64)
_DIFF = st.one_of(st.sampled_from([1, -1]), st.integers(-(2**31) + 1, 2**31 - 1))


def _runs(groups: list[int]) -> tuple[Ints, Ints, int]:
    """Order and starts of runs of equal group numbers, as sorting gives them."""
    order = sorted(range(len(groups)), key=groups.__getitem__)
    sizes = [len(list(g)) for _, g in groupby(sorted(groups))]
    return ints(*order), np.cumsum([0, *sizes]), len(sizes)


@given(st.lists(st.tuples(st.integers(0, 2), _INT64, _DIFF, st.booleans()), max_size=30))
def test_sums(rows: list[tuple[int, int, int, bool]]) -> None:
    order, starts, runs = _runs([r[0] for r in rows])
    values, diff = ints(*(r[1] for r in rows)), ints(*(r[2] for r in rows))
    valid = np.array([r[3] for r in rows], np.bool_)
    for mask, counted in ((valid, rows), (np.empty(0, np.bool_), [(*r[:3], True) for r in rows])):
        low, high, count = (np.empty(runs, np.int64) for _ in range(3))
        grouping.sum_runs(order, starts, runs, diff, values, mask, low, high)
        grouping.count_runs(order, starts, runs, diff, mask, count)
        expected = naive.sums((g, v if ok else None, d) for g, v, d, ok in counted)
        assert _numbers(low, high) == [expected[g] for g in sorted(expected)]
        counts = naive.sums((g, 1 if ok else None, d) for g, _, d, ok in counted)
        assert count.tolist() == [counts[g] for g in sorted(counts)]


@given(st.lists(st.tuples(st.integers(0, 2), _INT128, st.integers(-3, 3)), max_size=20))
def test_wide_sums(rows: list[tuple[int, int, int]]) -> None:
    order, starts, runs = _runs([r[0] for r in rows])
    values = np.array([naive.words(r[1]) for r in rows], np.int64).reshape(-1, 2)
    low, high = np.empty(runs, np.int64), np.empty(runs, np.int64)
    diff = ints(*(r[2] for r in rows))
    grouping.sum_runs_wide(order, starts, runs, diff, values, np.empty(0, np.bool_), low, high)
    expected = naive.sums(rows)
    assert _numbers(low, high) == [naive.wrapped(expected[g]) for g in sorted(expected)]


def _numbers(low: Ints, high: Ints) -> list[int]:
    return [naive.from_words(a, b) for a, b in zip(low.tolist(), high.tolist(), strict=True)]


_MODE = ints(grouping.ADD, grouping.WIDE, grouping.ADD, grouping.ADD)


def _spread(accumulators: tuple[int, ...]) -> tuple[int, ...]:
    """(count, 128-bit sum, sum) as the kernel's words."""
    count, wide, other = accumulators
    return (count, *naive.words(wide), other)


_TOTALS = st.tuples(st.integers(1, 3), st.integers(-(2**126), 2**126), st.integers(-5, 5))
_ADDS = st.tuples(
    st.integers(-2, 2), st.integers(-(2**100), 2**100) | st.just(0), st.integers(-1, 1)
)


@given(
    st.lists(st.tuples(st.none() | _TOTALS, st.lists(_ADDS, max_size=4)), max_size=4), st.booleans()
)
def test_sweep_groups(drawn: list[tuple[Any, list[tuple[int, int, int]]]], always: bool) -> None:
    """Words may be anything where the model would not refuse; group k's runs have times 1, 2, …"""
    stored = {k: old for k, (old, _) in enumerate(drawn) if old is not None}
    changes = [
        (k, time, add)
        for k, (_, adds) in enumerate(drawn)
        for time, add in enumerate(adds, start=1)
    ]
    groups, runs = len(drawn), len(changes)
    change = np.array([_spread(a) for _, _, a in changes], np.int64).reshape(-1, 4).T.copy()
    old = np.zeros((4, groups), np.int64)
    for k, total in stored.items():
        old[:, k] = _spread(total)
    names = ["event_time", "event_prior", "event_birth", "birth_run", "birth_time", "birth_prior"]
    out = {name: np.empty(runs, np.int64) for name in names}
    births, sizes = np.empty((4, runs), np.int64), np.zeros(2, np.int64)
    bad = grouping.sweep_groups(
        np.cumsum([0, *(len(adds) for _, adds in drawn)]), groups, ints(*(c[1] for c in changes)),
        change, _MODE, np.zeros(runs, np.bool_),
        ints(*(100 + k if k in stored else -1 for k in range(groups))), old, always,
        *out.values(), births, sizes,
    )  # fmt: skip
    try:
        expected = naive.sweep(changes, stored, always)
    except naive.NegativeCount:
        assert bad >= 0
        return
    assert bad == -1
    n_events, n_births = sizes.tolist()
    found = []
    for e in range(n_events):
        prior, birth = int(out["event_prior"][e]), int(out["event_birth"][e])
        old_words = (
            None
            if prior == grouping.NOTHING
            else tuple(old[:, prior - 100].tolist())
            if prior >= 0
            else tuple(births[:, -2 - prior].tolist())
        )
        new_words = None if birth < 0 else tuple(births[:, birth].tolist())
        if birth >= 0:
            assert out["birth_prior"][birth] == prior
            assert out["birth_time"][birth] == out["event_time"][e]
        found.append((int(out["event_time"][e]), old_words, new_words))
    assert found == [(e.time, e.old and _spread(e.old), e.new and _spread(e.new)) for e in expected]
    assert n_births == sum(e.new is not None for e in expected)


# -- the operator ----------------------------------------------------------------------------------

FIELDS = (
    Field("id", t.INT, False),
    Field("group", t.STRING, True),
    Field("wide", t.DecimalType(38, 4), True),
    Field("big", t.BIGINT, True),
    Field("double", t.DOUBLE, True),
)
_GROUPS = (None, "", "a", "0123456789abcdef!")
_WIDES = (None, Decimal("1e33"), Decimal("-1e33"), Decimal("0.0001"), Decimal("-99999999999.5"))
_BIGS = (None, 2**63 - 1, -(2**63), 1, 0)
_DOUBLES = (None, 1e308, -1e308, 1e-300, 0.1, -0.1, math.inf, math.nan, 3.0)


class Changes:
    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.rows: dict[int, Row] = {}

    def epoch(self) -> list[Change]:
        rng, made = self.rng, []
        for _ in range(rng.choice((1, 2, 6))):
            number = rng.randrange(8)
            row: Row = (number, *map(rng.choice, (_GROUPS, _WIDES, _BIGS, _DOUBLES)))
            if number in self.rows and rng.random() < 0.5:
                made.append(delete("t", self.rows.pop(number)))
            else:
                self.rows[number] = row
                made.append(upsert("t", row))
        return made


def _table() -> tuple[Running, ir.Source]:
    running = Running()
    return running, running.add_table("t", FIELDS, key=(0,))


@settings(max_examples=15)
@given(st.integers(0, 10**6))
def test_sums_by_group(seed: int) -> None:
    running, table = _table()
    accumulators = (("sum", 2), ("count", 3), ("sum", 3))
    running.install("by group", reduce_(table, (1,), *accumulators))
    running.install("by two", reduce_(table, (3, 1), *accumulators))
    running.install("all", reduce_(table, (), *accumulators))
    changes = Changes(Random(seed))
    for size in (1, 5, 1, 1, 3, 8):
        running.apply([changes.epoch() for _ in range(size)])
        running.check()
    for row in list(changes.rows.values()):
        running.apply([[delete("t", row)]])
    running.check()
    assert running.dataflow.relation(running.views["by group"][1]).live_rows == 0
    assert running.dataflow.relation(running.views["all"][1]).live_rows == 1


@settings(max_examples=15)
@given(st.integers(0, 10**6))
def test_sums_of_doubles_leave_no_residue(seed: int) -> None:
    """After any history a group's state is that of a fresh exact sum over its rows."""
    running, table = _table()
    node = reduce_(table, (1,), ("sum_double", 4))
    root = ir.Store(node)
    total: Updates = signed(running.dataflow.install("v", root, 0))
    running.views["v"], running.updates["v"] = ("", root), total
    changes = Changes(Random(seed))
    for size in (1, 4, 1, 7, 2):
        running.apply([changes.epoch() for _ in range(size)])
        expected = Counter()
        rows = sorted(running.tables["t"].rows.elements(), key=lambda r: repr(r[1]))
        for key, members in groupby(rows, key=lambda r: r[1]):
            listed = list(members)
            fresh = [r[4] for r in listed if r[4] is not None]
            sums = exact_sum.from_values(np.array(fresh, np.float64), np.ones(len(fresh), np.int64))
            state = exact_sum.encode(sums.total, sums.nan, sums.pinf, sums.ninf)
            expected[key, len(listed), state] += 1
        assert accumulate(total, running.epoch) == expected


def test_the_only_change_is_in_a_sum_of_doubles() -> None:
    """The count and every integer stay: the group must still get a new row."""
    running, table = _table()
    reduced = reduce_(table, (1,), ("sum_double", 4))
    running.views["v"] = ("", ir.Store(reduced))
    running.updates["v"] = signed(running.dataflow.install("v", running.views["v"][1], 0))
    running.apply([[insert("t", (1, "a", None, None, 0.5))]])
    out = running.apply([[upsert("t", (1, "a", None, None, 0.25))]])["v"]
    assert sorted(out.values()) == [-1, 1]
    assert running.apply([[upsert("t", (1, "a", None, 7, 0.25))]])["v"] == Counter()


def _first(table: ir.Source, column: int, descending: bool) -> ir.Reduce:
    """MIN or MAX of a column by group."""
    index = ir.OrderedArrangement(table, (SortKey(column, descending, False),), (), partition=(1,))
    every = identity(table.schema)
    field = table.schema[column]
    return ir.Reduce(
        table,
        (every[1],),
        (ir.Accumulator("count_rows", None), ir.Accumulator("first", every[column], index)),
        (table.schema[1], Field("rows", t.BIGINT, False), Field("first", field.type, True)),
    )


@pytest.mark.parametrize("column", [2, 3])
@pytest.mark.parametrize("descending", [False, True])
@settings(max_examples=10)
@given(st.integers(0, 10**6))
def test_extremes(column: int, descending: bool, seed: int) -> None:
    running, table = _table()
    changes = Changes(Random(seed))
    running.apply([changes.epoch()])
    root = ir.Store(_first(table, column, descending))
    total = signed(running.dataflow.install("v", root, running.epoch))
    running.views["v"], running.updates["v"] = ("", root), total
    for size in (1, 5, 1, 3, 8):
        states, shadow = [], running.tables["t"].copy()
        epochs = [changes.epoch() for _ in range(size)]
        for epoch in epochs:
            for change in epoch:
                shadow.apply(change)
            states.append(_extremes(shadow.rows, column, descending))
        first = running.epoch + 1
        running.apply(epochs)
        for time, expected in enumerate(states, start=first):
            assert accumulate(total, time) == expected


def _extremes(rows: Counter[Row], column: int, descending: bool) -> Counter[Row]:
    found: Counter[Row] = Counter()
    for key, members in groupby(sorted(rows.elements(), key=lambda r: repr(r[1])), lambda r: r[1]):
        listed = list(members)
        values = [r[column] for r in listed if r[column] is not None]
        best = (max if descending else min)(values) if values else None
        found[key, len(listed), best] += 1
    return found


def test_losing_rows_that_are_not_there_is_a_bug_of_ours() -> None:
    running, table = _table()
    node = reduce_(table, (1,))
    running.install("v", node)
    installed = next(i for i in running.dataflow.installed if i.node == node)
    running.apply([[insert("t", (1, "a", None, None, None))]])
    source = running.dataflow.snapshot(table, 1)
    twice = source.select(ints(0, 0)).negated()
    with pytest.raises(AssertionError, match="lost more rows than it had"):
        installed.operator.step(twice)  # type: ignore[union-attr,call-arg]


@pytest.mark.xfail(strict=True, reason="sums beyond 127 bits wrap around without an error")
@pytest.mark.parametrize("rows", [2, 4])
def test_a_decimal_sum_of_more_than_38_digits_is_an_error(connect: Connect, rows: int) -> None:
    db = connect().db
    db.sql("CREATE TABLE t (id INT PRIMARY KEY, x DECIMAL(38, 0))")
    db.sql("CREATE MATERIALIZED VIEW v AS SELECT SUM(x) AS s FROM t")
    with db.transaction() as tx:
        tx.insert("t", [(i, Decimal(9) * 10**37) for i in range(rows)])
    with pytest.raises(ViewError):
        db.view("v").rows()
