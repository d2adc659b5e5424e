"""Arrangements in lockstep with a list of rows: look up as of a time and just before it, while a
reader holds the past, whatever was merged, swept or compacted, and whenever the index was built."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.flight.column import Column, Ints
from operators.kernels.memory import BLOCK_ROWS
from operators.state import arrangement
from operators.state.arrangement import ArrangementState, order_keys
from operators.state.filters import Filter
from operators.state.order import sort_keys
from operators.state.relation import Relation
from planner import dataflow as ir
from planner.calculus import expr
from planner.calculus import types as t
from planner.calculus.algebra import SortKey
from tests.operators.columns import Row, ints, schema, to_columns
from tests.reference.scalar import passes, sort_rows
from tests.reference.trace import Trace

FIELDS = schema(t.BIGINT, t.STRING, t.BIGINT)
SOURCE = ir.Source("r", FIELDS)
_PREDICATE = expr.Call("ge", (expr.column(2, t.BIGINT), expr.Literal(1, t.BIGINT)), t.BOOLEAN, True)
SPECS: tuple[ir.Index, ...] = (
    ir.Arrangement(SOURCE, (0,)),
    ir.Arrangement(SOURCE, (1, 0)),
    ir.Arrangement(SOURCE, (0, 1), null_safe=True),
    ir.Arrangement(SOURCE, (1,), filter=_PREDICATE),
    ir.Arrangement(SOURCE, (0, 1), null_safe=True, filter=_PREDICATE),
    ir.HashArrangement(SOURCE),
    ir.OrderedArrangement(SOURCE, (SortKey(2), SortKey(1, descending=True)), (0,)),
    ir.OrderedArrangement(SOURCE, (SortKey(0, nulls_first=False),), (), partition=(1,)),
)
_ROWS: list[Row] = list(product((None, -1, 0, 1), (None, "", "a", "b"), (None, 0, 7)))


class Lockstep:
    def __init__(self) -> None:
        self.relation = Relation(FIELDS)
        self.trace = Trace()
        #: Row ids of the model's rows, and back.
        self.ids: list[int] = []
        self.number: dict[int, int] = {}
        self.indexes: list[ArrangementState] = []
        self.filter = Filter(self.relation, _PREDICATE)
        self.since, self.upper = 0, 1

    def build(self) -> None:
        for spec in SPECS:
            partial = isinstance(spec, ir.Arrangement) and spec.filter is not None
            filter = self.filter if partial else None
            self.indexes.append(ArrangementState(spec, self.relation, filter))

    def step(self, births: list[int], kills: list[int], times: int) -> int:
        """Changes at `times` times; some of the rows die in the step that they are born in."""
        rows = [_ROWS[b % len(_ROWS)] for b in births]
        born = sorted(self.upper + b % times for b in births)
        victims: dict[int, int] = {}
        living = self.trace.living()
        for i, kill in enumerate(kills):
            if living:
                victims[living[kill % len(living)]] = self.upper + i % times
        for i, (row, time) in enumerate(zip(rows, born, strict=True)):
            row_id = self.trace.append(row, time)
            if time + 1 < self.upper + times and births[i] % 3 == 0:
                victims[row_id] = time + 1
        first = self.relation.append(to_columns(rows, FIELDS), np.array(born, np.int64))
        for row in range(first, first + len(rows)):
            self.number[row] = len(self.ids)
            self.ids.append(row)
        for row_id, time in victims.items():
            self.trace.kill(row_id, time)
        self.relation.kill(ints(*(self.ids[v] for v in victims)), ints(*victims.values()))
        self.filter.absorb()
        for index in self.indexes:
            index.absorb()
        self.upper += times
        return len(births) + len(victims)

    def commit(self, changed: int, hold: int) -> None:
        self.since = max(self.since, self.upper - 1 - hold)
        self.relation.advance(self.since)
        for index in self.indexes:
            index.maintain(changed)

    def check(self) -> None:
        for index in self.indexes:
            match index.spec:
                case ir.OrderedArrangement():
                    self._check_first(index, index.spec)
                case ir.HashArrangement():
                    self._check_lookups(index, (0, 1, 2), null_safe=True)
                case ir.Arrangement():
                    for width in range(1, len(index.spec.columns) + 1):
                        columns = index.spec.columns[:width]
                        self._check_lookups(index, columns, index.spec.null_safe)

    def _probes(
        self, index: ArrangementState, columns: tuple[int, ...], null_safe: bool
    ) -> tuple[list[Row], Ints]:
        keys = list(dict.fromkeys(tuple(row[c] for c in columns) for row in _ROWS))
        if not null_safe:
            keys = [k for k in keys if None not in k]
        fields = tuple(FIELDS[c] for c in columns)
        values = to_columns(keys, fields)
        if isinstance(index.spec, ir.HashArrangement):
            return keys, index.key_words(np.arange(len(keys)), values)[0]
        return keys, index.probe_words(values, len(keys))

    def _check_lookups(
        self, index: ArrangementState, columns: tuple[int, ...], null_safe: bool
    ) -> None:
        keys, words = self._probes(index, columns, null_safe)
        left_out = set() if null_safe else self._without_key(index)
        left_out |= self._filtered_out(index)
        n = len(keys)
        for as_of, bits in product((True, False), (None, self.filter.bits)):
            times = [t for t in range(self.since, self.upper + 1) if as_of or t > self.since]
            probes = np.tile(words, len(times))
            at = np.repeat(np.array(times, np.int64), n)
            found = (
                index.lookup(probes, at, as_of)
                if bits is None
                else index.lookup(probes, at, as_of, bits)
            )
            rows = [self.number[row] for row in found.row.tolist()]
            pairs = sorted(zip(found.probe.tolist(), rows, strict=True))
            lives = self.trace.lives
            expected = [
                (i * n + keys.index(tuple(lives[row].row[c] for c in columns)), row)
                for i, time in enumerate(times)
                for row in self.trace.visible(time, as_of)
                if row not in left_out and (bits is None or passes(_PREDICATE, lives[row].row))
            ]
            assert pairs == sorted(expected)
            self._check_few(index, words, times, as_of, bits, expected)

    def _check_few(
        self,
        index: ArrangementState,
        words: Ints,
        times: list[int],
        as_of: bool,
        bits: Ints | None,
        expected: list[tuple[int, int]],
    ) -> None:
        """Each key twice at each time, sought one by one."""
        n = words.shape[1]
        for i, time in enumerate(times):
            found = index.lookup_few(
                np.tile(words, 2), time, as_of, *(() if bits is None else (bits,))
            )
            rows = [self.number[row] for row in found.row.tolist()]
            pairs = sorted(zip(found.probe.tolist(), rows, strict=True))
            here = [(key - i * n, row) for key, row in expected if key // n == i]
            assert pairs == sorted([*here, *((key + n, row) for key, row in here)])

    def _without_key(self, index: ArrangementState) -> set[int]:
        """Rows that the index leaves out: those with NULL in any of its columns."""
        assert isinstance(index.spec, ir.Arrangement)
        columns = index.spec.columns
        lives = enumerate(self.trace.lives)
        return {i for i, life in lives if None in [life.row[c] for c in columns]}

    def _filtered_out(self, index: ArrangementState) -> set[int]:
        """Rows that do not pass a partial index's filter."""
        if index.filter is None:
            return set()
        lives = enumerate(self.trace.lives)
        return {i for i, life in lives if not passes(_PREDICATE, life.row)}

    def _check_first(self, index: ArrangementState, spec: ir.OrderedArrangement) -> None:
        keys: list[Row] = [(None,), ("",), ("a",), ("b",)] if spec.partition else [()]
        values = to_columns(keys, (FIELDS[1],)) if spec.partition else []
        words = index.partition_words(values, len(keys))
        order = sort_keys(words)
        words = np.ascontiguousarray(words[:, order])
        order_by = tuple((k.column, k.descending, k.nulls_first) for k in order_keys(spec))
        times = range(self.since, self.upper + 1)
        for rising in (times, times[::-1]):  # all times of a partition in one call
            many = np.repeat(words, len(times), axis=1)
            found = index.first(many, np.tile(np.array(rising, np.int64), len(keys)))
            asked = ((k, time) for k in order.tolist() for time in rising)
            for place, (k, time) in enumerate(asked):
                rows = [self.trace.lives[i].row for i in self._in(spec, keys[k], time)]
                got = [self.number[i] for i in found.row[found.probe == place].tolist()]
                assert bool(rows) == bool(got)
                best = sort_rows(rows, order_by)[:1]
                front = [self.trace.lives[i].row for i in got]
                assert [_sort_values(spec, r) for r in sort_rows(front, order_by)[:1]] == [
                    _sort_values(spec, r) for r in best
                ]
                assert all(i in self._in(spec, keys[k], time) for i in got)

    def _in(self, spec: ir.OrderedArrangement, key: Row, time: int) -> list[int]:
        return self.trace.lookup(spec.partition, key, time, as_of=True)


def _sort_values(spec: ir.OrderedArrangement, row: Row) -> tuple[Any, ...]:
    return tuple(row[k.column] for k in order_keys(spec))


_STEPS = st.lists(
    st.tuples(
        st.lists(st.integers(0, 200), max_size=10),
        st.lists(st.integers(0, 200), max_size=8),
        st.integers(1, 3),
        st.integers(0, 4),
        st.booleans(),
    ),
    max_size=7,
)


@given(_STEPS)
def test_lockstep(steps: list[tuple[list[int], list[int], int, int, bool]]) -> None:
    lockstep = Lockstep()
    for births, kills, times, hold, build in steps:
        changed = lockstep.step(births, kills, times)
        if build and len(lockstep.indexes) < 2 * len(SPECS):
            lockstep.build()  # in the middle of a step, with versions held
        lockstep.check()
        lockstep.commit(changed, hold)
        lockstep.check()


@pytest.mark.parametrize("live", [200, 10_000])
def test_state_stays_in_proportion_to_living_rows(live: int) -> None:
    """Updates of random keys for a long time, with a reader some steps back."""
    fields = schema(t.BIGINT, t.BIGINT, nullable=False)
    relation = Relation(fields)
    source = ir.Source("r", fields)
    index = ArrangementState(ir.Arrangement(source, (0,)), relation)
    rng = np.random.default_rng(3)
    rows = np.arange(live)
    relation.append([Column(t.BIGINT, rows), Column(t.BIGINT, rows)], np.full(live, 1, np.int64))
    index.absorb()
    held, size = 5, live // 10
    most_entries = most_bytes = 0
    for time in range(2, 4000 if live < 1000 else 400):
        keys = rng.choice(live, size, replace=False)
        values = np.full(size, time, np.int64)
        first = relation.append([Column(t.BIGINT, keys), Column(t.BIGINT, values)], values)
        relation.kill(rows[keys], values)
        rows[keys] = np.arange(first, first + size)
        index.absorb()
        relation.advance(max(1, time - held))
        index.maintain(2 * size)
        most_entries = max(most_entries, index.spine.entries)
        most_bytes = max(most_bytes, relation.nbytes)
    needed = live + held * size
    assert most_entries <= 2 * needed + BLOCK_ROWS // 16 + 4 * size
    assert (
        most_bytes
        <= 16 * (4 * needed + 2 * BLOCK_ROWS) + 400 * relation.next_row // BLOCK_ROWS * 20
    )
    assert len(relation.versions[1]) <= held + 1
    found = index.lookup(np.arange(live).reshape(1, -1), np.full(live, time, np.int64), True)
    assert np.array_equal(np.sort(found.row), np.sort(rows))


def test_a_partial_index_stays_in_proportion_to_its_living_rows() -> None:
    """A twentieth of the rows pass; rows of either kind are replaced, and in the end only die."""
    fields = schema(t.BIGINT, t.BIGINT, nullable=False)
    relation = Relation(fields)
    live, size, share = 20_000, 1_000, 20
    bound = expr.Literal(live // share, t.BIGINT)
    passing = expr.Call("lt", (expr.column(0, t.BIGINT), bound), t.BOOLEAN, False)
    filter = Filter(relation, passing)
    spec = ir.Arrangement(ir.Source("r", fields), (0,), filter=passing)
    index = ArrangementState(spec, relation, filter)
    rng = np.random.default_rng(3)
    rows = np.empty(live, np.int64)

    def step(time: int, born: Ints, dying: Ints) -> None:
        times = np.full(len(born), time, np.int64)
        first = relation.append([Column(t.BIGINT, born), Column(t.BIGINT, times)], times)
        relation.kill(rows[dying], np.full(len(dying), time, np.int64))
        rows[born] = np.arange(first, first + len(born))
        filter.absorb()
        index.absorb()
        relation.advance(time)
        index.maintain(len(born) + len(dying))

    step(1, np.arange(live), np.empty(0, np.int64))
    most = 0
    for time in range(2, 300):
        keys = rng.choice(live, size, replace=False)
        step(time, keys, keys)
        most = max(most, index.spine.entries)
    assert most <= 4 * live // share + BLOCK_ROWS // 16
    none, time = np.empty(0, np.int64), 300
    for dying in np.array_split(rng.permutation(live)[: live - 100], 40):
        step(time, none, dying)
        time += 1
    assert index.spine.entries <= BLOCK_ROWS // 16


def test_a_lookup_with_more_matches_than_expected() -> None:
    """The first guess at the output's size is too small; counters count once."""
    relation = Relation(FIELDS)
    n = 1000
    relation.append(to_columns([(1, "a", i) for i in range(n)], FIELDS), np.full(n, 1, np.int64))
    index = ArrangementState(SPECS[0], relation)
    found = index.lookup(ints(1, 2, 1).reshape(1, -1), ints(1, 1, 0), True)
    assert sorted(found.row.tolist()) == list(range(n))
    assert set(found.probe.tolist()) == {0}
    assert index.work.entries == 2 * n
    assert index.work.seeks == 1  # for both probes of key 1; the bucket of key 2 is empty


def test_work_follows_the_smaller_side() -> None:
    """A few probes into a large index visit what they find, no more."""
    fields = schema(t.BIGINT, nullable=False)
    relation = Relation(fields)
    n = 100_000
    relation.append([Column(t.BIGINT, np.arange(n))], np.full(n, 1, np.int64))
    index = ArrangementState(ir.Arrangement(ir.Source("r", fields), (0,)), relation)
    probes = ints(5, 99_999, n + 1, -1).reshape(1, -1)
    assert index.lookup(probes, ints(1, 1, 1, 1), True).row.tolist() in ([5, 99_999], [99_999, 5])
    assert index.work.entries == 2


@pytest.mark.parametrize("few", [0, arrangement.FEW_KEYS])
@given(st.lists(st.integers(0, 3), max_size=30), st.lists(st.integers(0, 29), max_size=20))
def test_living_rows_up_to_a_limit(few: int, keys: list[int], kills: list[int]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(arrangement, "FEW_KEYS", few)
        _living_rows_up_to_a_limit(keys, kills)


def _living_rows_up_to_a_limit(keys: list[int], kills: list[int]) -> None:
    relation = Relation(FIELDS)
    index = ArrangementState(SPECS[0], relation)
    for part in (keys[: len(keys) // 2], keys[len(keys) // 2 :]):
        rows = to_columns([(k, "", 0) for k in part], FIELDS)
        relation.append(rows, np.full(len(part), 1, np.int64))
        index.absorb()
    dead = {k for k in kills if k < len(keys)}
    relation.kill(ints(*dead), np.full(len(dead), 2, np.int64))
    limit = ints(0, 1, 2, 99)
    found = index.living(np.arange(4).reshape(1, -1), limit)
    alive = {k: {i for i, key in enumerate(keys) if key == k and i not in dead} for k in range(4)}
    for k, most in enumerate(limit.tolist()):
        got = found.row[found.probe == k].tolist()
        assert len(got) == len(set(got)) == min(most, len(alive[k]))
        assert set(got) <= alive[k]
