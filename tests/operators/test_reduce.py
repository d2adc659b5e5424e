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

from operators.flight.column import Ints
from operators.kernels import grouping, sorting
from operators.nodes.runs import group_rows
from planner import dataflow as ir
from planner.calculus import types as t
from planner.calculus.algebra import SortKey, identity
from planner.calculus.types import Field
from planner.errors import ViewError
from tests.conftest import Connect
from tests.operators.columns import Row, ints
from tests.operators.running import Running, Updates, installed, reduce_, signed
from tests.reference import exact
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
        pair, three = np.empty((2, runs), np.int64), np.empty((3, runs), np.int64)
        count = np.empty(runs, np.int64)
        grouping.sum_runs(order, starts, runs, diff, values, mask, pair)
        grouping.sum_runs(order, starts, runs, diff, values, mask, three)
        grouping.count_runs(order, starts, runs, diff, mask, count)
        expected = naive.sums((g, v if ok else None, d) for g, v, d, ok in counted)
        assert _numbers(pair) == _numbers(three) == [expected[g] for g in sorted(expected)]
        counts = naive.sums((g, 1 if ok else None, d) for g, _, d, ok in counted)
        assert count.tolist() == [counts[g] for g in sorted(counts)]


@given(st.lists(st.tuples(st.integers(0, 2), _INT128, _DIFF), max_size=20))
def test_wide_sums(rows: list[tuple[int, int, int]]) -> None:
    order, starts, runs = _runs([r[0] for r in rows])
    values = np.array([naive.words(r[1]) for r in rows], np.int64).reshape(-1, 2)
    pair, three = np.empty((2, runs), np.int64), np.empty((3, runs), np.int64)
    diff = ints(*(r[2] for r in rows))
    for out in (pair, three):
        grouping.sum_runs_wide(order, starts, runs, diff, values, np.empty(0, np.bool_), out)
    expected = naive.sums(rows)
    assert _numbers(three) == [expected[g] for g in sorted(expected)]
    assert _numbers(pair) == [naive.wrapped(expected[g]) for g in sorted(expected)]


def _numbers(words: Ints) -> list[int]:
    return [naive.from_words(*column) for column in words.T.tolist()]


_KEYS = st.lists(
    st.tuples(st.sampled_from([0, 1, -1, 2**63 - 1]), st.integers(-2, 2), st.integers(1, 3)),
    max_size=600,
)


@given(_KEYS, st.booleans())
def test_group_rows(rows: list[tuple[int, int, int]], many: bool) -> None:
    if many:  # more groups than the first table holds, and than it takes to give it up
        rows = [(a + 7 * i, b, c) for i, (a, b, c) in enumerate(rows * 40)]
    words = np.array([[r[0] % 2**63, r[1]] for r in rows], np.int64).reshape(-1, 2).T.copy()
    time = ints(*(r[2] for r in rows))
    grouped = group_rows(words, time)
    keyed = [(tuple(words[:, i].tolist()), r[2]) for i, r in enumerate(rows)]
    buckets = np.empty(len(rows), np.int64)
    sorting.buckets_of(words[0], buckets)
    order = sorted(range(len(rows)), key=lambda i: (int(buckets[i]), *keyed[i], i))
    runs = [list(members) for _, members in groupby(order, keyed.__getitem__)]
    keys = [len(list(g)) for _, g in groupby(runs, lambda run: keyed[run[0]][0])]
    assert grouped.order.tolist() == order
    assert grouped.starts.tolist() == np.cumsum([0, *map(len, runs)]).tolist()
    assert grouped.key_starts.tolist() == np.cumsum([0, *keys]).tolist()


_MODE = ints(*(getattr(grouping, m) for m in "ADD WIDE ADD WIDER ADD ADD ADD".split()))


def _spread(accumulators: tuple[int, ...]) -> tuple[int, ...]:
    """(count, 128-bit sum, 192-bit sum, sum) as the kernel's words."""
    count, wide, wider, other = accumulators
    return (count, *naive.words(wide), *naive.words(wider, 3), other)


_TOTALS = st.tuples(
    st.integers(1, 3),
    st.integers(-(2**126), 2**126),
    st.integers(-(2**180), 2**180) | st.just(-(2**128)),
    st.integers(-5, 5),
)
_ADDS = st.tuples(
    st.integers(-2, 2),
    st.integers(-(2**100), 2**100) | st.just(0),
    st.sampled_from([0, 1, -1, 2**128 - 1, -(2**64), 2**127]),
    st.integers(-1, 1),
)


@given(st.lists(st.tuples(st.integers(0, 2), _ADDS), max_size=12))
def test_add_runs(rows: list[tuple[int, tuple[int, ...]]]) -> None:
    order, starts, runs = _runs([r[0] for r in rows])
    words = np.array([_spread(r[1]) for r in rows], np.int64).reshape(-1, 7).T.copy()
    out = np.empty((7, runs), np.int64)
    grouping.add_runs(order, starts, runs, words, _MODE, out)
    expected = []
    for g in sorted({r[0] for r in rows}):
        members = [a for group, a in rows if group == g]
        expected.append(_spread(tuple(map(sum, zip(*members, strict=True)))))
    assert [tuple(c) for c in out.T.tolist()] == expected


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
    change = np.array([_spread(a) for _, _, a in changes], np.int64).reshape(-1, 7).T.copy()
    old = np.zeros((7, groups), np.int64)
    for k, total in stored.items():
        old[:, k] = _spread(total)
    events, births = np.empty((3, runs), np.int64), np.empty((4, runs), np.int64)
    totals, sizes = np.empty((7, runs), np.int64), np.zeros(3, np.int64)
    bad = grouping.sweep_groups(
        np.cumsum([0, *(len(adds) for _, adds in drawn)]), groups, ints(*(c[1] for c in changes)),
        change, _MODE, np.zeros(runs, np.bool_),
        ints(*(100 + k if k in stored else -1 for k in range(groups))), old, always,
        events, births, totals, sizes,
    )  # fmt: skip
    try:
        expected = naive.sweep(changes, stored, always)
    except naive.NegativeCount:
        assert bad >= 0
        return
    assert bad == -1
    n_events, n_births, ascending = sizes.tolist()
    assert ascending == (births[2, :n_births].tolist() == sorted(births[2, :n_births].tolist()))
    found = []
    for time, prior, birth in events[:, :n_events].T.tolist():
        old_words = (
            None
            if prior == grouping.NOTHING
            else tuple(old[:, prior - 100].tolist())
            if prior >= 0
            else tuple(totals[:, -2 - prior].tolist())
        )
        new_words = None if birth < 0 else tuple(totals[:, birth].tolist())
        if birth >= 0:
            assert births[2:, birth].tolist() == [time, prior]
            assert changes[births[0, birth]][:2] == (births[1, birth], time)
        found.append((time, old_words, new_words))
    assert found == [(e.time, e.old and _spread(e.old), e.new and _spread(e.new)) for e in expected]
    assert n_births == sum(e.new is not None for e in expected)
    _check_replaced(events, n_events, births[2, :n_births])


def _check_replaced(events: Ints, n: int, birth_times: Ints) -> None:
    """Rows that events replace, with births as rows from 1000 on in order of time."""
    place = np.argsort(np.argsort(birth_times, kind="stable"))
    out = [np.empty(2 * n, np.int64) for _ in range(3)]
    pairs = np.empty((2, n), np.int64)
    deaths, total, paired = grouping.replace_rows(events, n, 1000, place, *out, pairs)
    row_of = {b: 1000 + int(r) for b, r in enumerate(place)}
    dead, born, both = [], [], []
    for time, prior, birth in events[:, :n].T.tolist():
        if prior != grouping.NOTHING:
            dead.append((prior if prior >= 0 else row_of[-2 - prior], time, -1))
        if birth >= 0:
            born.append((row_of[birth], time, 1))
        if prior != grouping.NOTHING and birth >= 0:
            both.append((dead[-1], born[-1]))
    rows = list(zip(*(o[:total].tolist() for o in out), strict=True))
    assert rows == dead + born and deaths == len(dead)
    assert [(rows[a], rows[b]) for a, b in pairs[:, :paired].T.tolist()] == both


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
    total: Updates = signed(installed(running.dataflow, "v", root, 0))
    running.views["v"], running.updates["v"] = ("", root), total
    changes = Changes(Random(seed))
    for size in (1, 4, 1, 7, 2):
        running.apply([changes.epoch() for _ in range(size)])
        expected = Counter()
        rows = sorted(running.tables["t"].rows.elements(), key=lambda r: repr(r[1]))
        for key, members in groupby(rows, key=lambda r: r[1]):
            listed = list(members)
            fresh = [r[4] for r in listed if r[4] is not None]
            expected[key, len(listed), exact.state_of((x, 1) for x in fresh)] += 1
        assert accumulate(total, running.epoch) == expected


def test_the_only_change_is_in_a_sum_of_doubles() -> None:
    """The count and every integer stay: the group must still get a new row."""
    running, table = _table()
    reduced = reduce_(table, (1,), ("sum_double", 4))
    running.views["v"] = ("", ir.Store(reduced))
    running.updates["v"] = signed(installed(running.dataflow, "v", running.views["v"][1], 0))
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
    total = signed(installed(running.dataflow, "v", root, running.epoch))
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
        installed.operator.step([twice])


# -- sums beyond their type ------------------------------------------------------------------------

_MOST = Decimal(9) * 10**37


@pytest.mark.parametrize("rows", [2, 4, 37])
@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("function", ["SUM", "AVG"])
def test_a_decimal_sum_of_more_than_38_digits_is_an_error(
    connect: Connect, function: str, sign: int, rows: int
) -> None:
    """It is an error as long as the sum is beyond the type, through any wrap of 128 bits."""
    db = connect().db
    db.sql("CREATE TABLE t (id INT PRIMARY KEY, x DECIMAL(38, 0))")
    db.sql(f"CREATE MATERIALIZED VIEW v AS SELECT {function}(x) AS s FROM t")
    with db.transaction() as tx:
        tx.insert("t", [(i, sign * _MOST) for i in range(rows)])
    with pytest.raises(ViewError, match=r"ARITHMETIC_OVERFLOW.*overflow in SUM") as raised:
        db.view("v").rows()
    assert f"overflow in SUM: {sign * rows * 9}0000" in str(raised.value.__dict__)
    with db.transaction() as tx:
        tx.delete("t", [(i,) for i in range(1, rows)])
    if function == "SUM":
        assert db.view("v").rows() == [(sign * _MOST,)]
        with db.transaction() as tx:  # there and back within a group that stays in range
            tx.insert("t", [(i, sign * -_MOST) for i in (1, 2)])
        assert db.view("v").rows() == [(sign * -_MOST,)]


def test_a_bigint_sum_beyond_64_bits_is_an_overflow_of_the_sum(connect: Connect) -> None:
    db = connect().db
    db.sql("CREATE TABLE t (id INT PRIMARY KEY, g INT, x BIGINT)")
    db.sql("CREATE MATERIALIZED VIEW v AS SELECT g, SUM(x) AS s FROM t GROUP BY g")
    with db.transaction() as tx:
        tx.insert("t", [(1, 1, 2**63 - 1), (2, 1, 1), (3, 2, 5), (4, 3, -(2**63))])
    with pytest.raises(ViewError, match="BIGINT overflow in SUM: 9223372036854775808"):
        db.view("v").rows()
    with db.transaction() as tx:
        tx.delete("t", [(2,)])
    assert sorted(db.view("v").rows()) == [(1, 2**63 - 1), (2, 5), (3, -(2**63))]


def test_squares_beyond_128_bits(connect: Connect) -> None:
    """The sum of the squares of wide values passes 2**127 after some hundred rows."""
    db = connect().db
    db.sql("CREATE TABLE t (id INT PRIMARY KEY, x DECIMAL(18, 0))")
    db.sql("CREATE MATERIALIZED VIEW v AS SELECT VAR_POP(x) AS s FROM t")
    with db.transaction() as tx:
        tx.insert("t", [(i, (10**18 - 1) * (-1) ** i) for i in range(1000)])
    assert db.view("v").rows() == [(float((10**18 - 1) ** 2),)]
