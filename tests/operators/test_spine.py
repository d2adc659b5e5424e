"""Spines in lockstep with a list of entries: insert, die, merge under fuel, sweep, look up."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.flight.column import Ints
from operators.kernels import lookup as lookup_kernels
from operators.kernels import sorting, spines
from operators.kernels.memory import BLOCK_ROWS
from operators.state.probes import sort_probes
from operators.state.spine import MOST_PARTS, SEEK_WORTH, Spine, make_batch
from tests.operators.columns import ints

_NONE = np.empty(0, np.int64)


class Deaths:
    """Dead bits of so many rows, and the deaths that some reader can still tell."""

    def __init__(self, rows: int = 1000) -> None:
        self.bits = np.zeros((rows // BLOCK_ROWS + 1, BLOCK_ROWS // 8), np.uint8)
        self.addresses = np.array([b.ctypes.data for b in self.bits], np.int64)
        self.told = _NONE

    def kill(self, rows: Ints, told: bool) -> None:
        bit = (1 << (rows & 7)).astype(np.uint8)
        np.bitwise_or.at(self.bits.reshape(-1), rows >> 3, bit)
        if told:
            self.told = np.union1d(self.told, rows)

    def forget(self) -> None:
        self.told = _NONE


def entries(spine: Spine) -> Counter[tuple[int, ...]]:
    found: Counter[tuple[int, ...]] = Counter()
    for batch in spine.batches:
        found.update(zip(*batch.keys.tolist(), batch.rows.tolist(), strict=True))
    return found


def check_sorted(spine: Spine) -> None:
    for batch in spine.batches:
        buckets = np.empty(len(batch), np.int64)
        sorting.buckets_of(batch.keys[0], buckets)
        triples = list(zip(buckets, *batch.keys.tolist(), batch.rows.tolist(), strict=True))
        assert triples == sorted(triples)
        for bucket in range(sorting.BUCKETS):
            part = buckets[batch.offsets[bucket] : batch.offsets[bucket + 1]]
            assert (part == bucket).all()
        assert batch.offsets[0] == 0
        assert batch.offsets[-1] == len(batch)


def lookup(spine: Spine, probes: Ints) -> set[tuple[int, int]]:
    """Pairs that the kernel finds, whatever is dead."""
    sought, work = sort_probes(probes), np.zeros(2, np.int64)
    runs = np.empty((10_000, 4), np.int64)
    n_runs = lookup_kernels.seek(spine.table, sought.keys, sought.buckets, runs, work)
    probe, row = np.empty(10_000, np.int64), np.empty(10_000, np.int64)
    found = lookup_kernels.living(
        spine.table, runs, n_runs, sought.order, sought.starts,
        np.full(probes.shape[1], 10_000), np.zeros(100, np.int64), probe, row,
        np.zeros(probes.shape[1], np.bool_), work,
    )  # fmt: skip
    return set(zip(probe[:found].tolist(), row[:found].tolist(), strict=True))


_KEYS = st.lists(st.tuples(st.integers(-3, 3), st.integers(-(2**63), 2**63 - 1)), max_size=40)
_STEPS = st.lists(
    st.tuples(_KEYS, st.lists(st.integers(0, 199), max_size=30), st.booleans(), st.booleans()),
    max_size=10,
)


@given(_STEPS)
def test_lockstep(steps: list[tuple[list[tuple[int, int]], list[int], bool, bool]]) -> None:
    spine, deaths = Spine(2), Deaths()
    alive: dict[int, tuple[int, int]] = {}
    held: dict[int, tuple[int, int]] = {}
    ever: Counter[tuple[int, ...]] = Counter()
    row = 0
    for keys, kills, told, forget in steps:
        rows = np.arange(row, row + len(keys))
        row += len(keys)
        alive.update(zip(rows.tolist(), keys, strict=True))
        ever.update((*k, r) for r, k in zip(rows.tolist(), keys, strict=True))
        spine.insert(make_batch(np.array(keys, np.int64).reshape(-1, 2).T.copy(), rows))
        dying = ints(*sorted({k for k in kills if k in alive}))
        deaths.kill(dying, told)
        gone = {r: alive.pop(r) for r in dying.tolist()}
        if told:
            held |= gone
        if forget:
            deaths.forget()
            held.clear()
        kept = alive | held
        spine.sweep(len(alive), deaths.addresses, deaths.told)
        spine.work(len(keys), deaths.addresses, deaths.told)
        check_sorted(spine)
        found = entries(spine)
        assert found <= ever
        assert found >= Counter((*k, r) for r, k in kept.items())
        assert spine.entries == found.total()
        probes = np.array([[1, -2, 0], [7, 0, 0]], np.int64)
        for width in (1, 2):
            expected = {
                (p, e[-1])
                for p in range(3)
                for e in found
                if e[:width] == tuple(probes[:width, p].tolist())
            }
            assert lookup(spine, np.ascontiguousarray(probes[:width])) == expected


@given(st.data())
def test_merging_a_bit_at_a_time_is_merging_at_once(data: st.DataObject) -> None:
    deaths = Deaths()
    made = []
    row = 0
    for _ in range(2):
        keys = data.draw(st.lists(st.integers(-9, 9), max_size=60))
        made.append(make_batch(ints(*keys).reshape(1, -1), np.arange(row, row + len(keys))))
        row += len(keys)
    deaths.kill(ints(*data.draw(st.sets(st.integers(0, 119), max_size=60))), told=False)
    left, right = made
    n = len(left) + len(right)
    results = []
    for fuel in (10**6, data.draw(st.integers(1, 9))):
        keys, rows = np.empty((1, n), np.int64), np.empty(n, np.int64)
        offsets, state = np.zeros(sorting.BUCKETS + 1, np.int64), np.zeros(4, np.int64)
        while state[0] < sorting.BUCKETS:
            spines.merge(
                left.keys, left.rows, left.offsets, right.keys, right.rows, right.offsets,
                deaths.addresses, deaths.told, keys, rows, offsets, state, fuel,
            )  # fmt: skip
        size = int(state[3])
        results.append((keys[:, :size].tolist(), rows[:size].tolist(), offsets.tolist()))
    assert results[0] == results[1]
    dead = deaths.bits.reshape(-1)
    both = list(zip(left.keys[0].tolist(), left.rows.tolist(), strict=True))
    both += zip(right.keys[0].tolist(), right.rows.tolist(), strict=True)
    kept = [(k, r) for k, r in both if not dead[r >> 3] >> (r & 7) & 1]
    assert Counter(zip(results[0][0][0], results[0][1], strict=True)) == Counter(kept)


def _grow(spine: Spine, sizes: list[int]) -> None:
    dead = np.zeros(1000, np.int64)
    row = sum(len(b) for b in spine.batches)
    for size in sizes:
        rows = np.arange(row, row + size)
        row += size
        spine.insert(make_batch((rows * 7919 % 10_007).reshape(1, -1), rows))
        spine.work(size, dead, _NONE)


@pytest.mark.parametrize(
    "sizes",
    [[1] * 3000, [100] * 500, [1, 5000] * 60, [20_000, *[3] * 500, 20_000, *[50] * 200]],
    ids=["ones", "hundreds", "uneven", "bursts"],
)
def test_batches_stay_logarithmic(sizes: list[int]) -> None:
    spine = Spine(1)
    most = 0
    for start in range(0, len(sizes), 50):
        _grow(spine, sizes[start : start + 50])
        logarithm = 2 * math.log2(spine.entries + 1) + 6
        most = max(most, len(spine.batches) - max(logarithm, MOST_PARTS + 6))
    assert most <= 0
    assert spine.entries == sum(sizes)
    check_sorted(spine)


def test_lookups_pay_for_merges() -> None:
    """Without any, batches stay as they are up to a limit; with many, they are logarithmic."""
    for seeks, most in ((0, MOST_PARTS), (SEEK_WORTH * 1000, 2)):
        spine = Spine(1)
        for _ in range(64):
            _grow(spine, [1000])
            assert spine.entries == sum(map(len, spine.batches))
            spine.looked_up(seeks)
        _grow(spine, [0])
        unread = seeks == 0
        assert (len(spine.batches) >= most - 4) if unread else (len(spine.batches) <= 2 * most + 6)
        assert len(spine.batches) <= MOST_PARTS + 6
        check_sorted(spine)


@pytest.mark.parametrize(
    "sizes", [[1] * 3000, [1000] * 300, [1, 5000] * 60, [20_000, *[3] * 500, 20_000]]
)
def test_ascending_batches_are_joined(sizes: list[int]) -> None:
    """In fours of a size: an entry is moved once a level, and the levels are logarithmic."""
    spine, dead = Spine(1), np.zeros(1000, np.int64)
    row, most = 0, 0.0
    for size in sizes:
        rows = np.arange(row, row + size)
        row += size
        spine.insert(make_batch((rows // 3).reshape(1, -1), rows))
        spine.work(size, dead, _NONE)
        logarithm = 4 * math.log(spine.entries + 1, 4) + 8
        most = max(most, len(spine.batches) - max(logarithm, MOST_PARTS + 8))
    assert most <= 0
    assert len({b.chain for b in spine.batches}) == 1
    assert spine.entries == row
    check_sorted(spine)
    assert lookup(spine, ints(5, row // 3 - 1).reshape(1, 2)) == {
        (p, r) for p, key in enumerate((5, row // 3 - 1)) for r in range(3 * key, 3 * key + 3)
    }


def test_a_batch_among_the_others_begins_a_new_chain() -> None:
    spine, dead = Spine(1), np.zeros(1000, np.int64)
    for row, keys in enumerate((range(64), range(64, 128), range(32, 96), range(96, 160))):
        rows = np.arange(row * 64, row * 64 + 64)
        spine.insert(make_batch(np.array([keys], np.int64), rows))
    assert [b.chain for b in spine.batches] == [0, 0, 1, 1]
    for _ in range(10):
        spine.work(64, dead, _NONE)
    assert spine.entries == 256
    check_sorted(spine)
    assert lookup(spine, ints(70).reshape(1, 1)) == {(0, 70), (0, 128 + 70 - 32)}


def test_a_small_insertion_pays_for_no_big_merge() -> None:
    """Two large batches merge over many insertions, and readers use both until it is done."""
    spine = Spine(1)
    dead = np.zeros(100, np.int64)
    n = 200_000
    for i in range(2):
        rows = np.arange(i * n, (i + 1) * n)
        spine.insert(make_batch((rows % 1000).reshape(1, -1), rows))
    steps = 0
    while len(spine.batches) > 1:
        spine.looked_up(500)
        spine.work(0, dead, _NONE)
        steps += 1
        assert spine.entries == 2 * n
        assert len(lookup(spine, ints(999).reshape(1, 1))) == 2 * n // 1000
    assert steps > 100
    check_sorted(spine)


def test_entries_of_dead_rows_go_even_without_insertions() -> None:
    spine, deaths = Spine(1), Deaths(100_000)
    n = 100_000
    spine.insert(make_batch((np.arange(n) % 50).reshape(1, -1), np.arange(n)))
    deaths.kill(np.arange(0, n - 10), told=True)
    for _ in range(100):
        spine.sweep(10, deaths.addresses, deaths.told)
        spine.work(0, deaths.addresses, deaths.told)
    assert spine.entries == n  # a reader may still look back
    deaths.forget()
    for _ in range(100):
        spine.sweep(10, deaths.addresses, deaths.told)
        spine.work(0, deaths.addresses, deaths.told)
    assert entries(spine) == Counter((r % 50, r) for r in range(n - 10, n))
    check_sorted(spine)


@pytest.mark.parametrize("batch", [10, 1000, 9000])
@pytest.mark.parametrize("live", [0, 500, 20_000])
@pytest.mark.parametrize("spread", [7919, 1])
def test_entries_stay_in_proportion_to_living_rows(batch: int, live: int, spread: int) -> None:
    """A queue: what comes in goes out again, `live` rows later."""
    steps = min(300, 600_000 // batch)
    spine, deaths = Spine(1), Deaths(steps * batch)
    row, dead_below, most = 0, 0, 0
    for _ in range(steps):
        rows = np.arange(row, row + batch)
        row += batch
        keys = rows if spread == 1 else rows * spread % 100_003
        spine.insert(make_batch(keys.reshape(1, -1).copy(), rows))
        alive_from = max(row - live, dead_below)
        deaths.kill(np.arange(dead_below, alive_from), told=False)
        dead_below = alive_from
        spine.sweep(row - dead_below, deaths.addresses, deaths.told)
        spine.work(2 * batch, deaths.addresses, deaths.told)
        most = max(most, spine.entries)
    assert most <= 2 * live + BLOCK_ROWS // 16 + 4 * batch
    assert {e[1] for e in entries(spine)} >= set(range(dead_below, row))


def test_random_updates_of_a_large_table() -> None:
    """Each step replaces a hundredth of the rows: dead entries lie everywhere."""
    rng = np.random.default_rng(7)
    spine, deaths = Spine(1), Deaths(400_000)
    live = np.arange(20_000)
    spine.insert(make_batch(live.reshape(1, -1).copy(), live))
    row, most = len(live), 0
    for _ in range(1500):
        at = rng.choice(len(live), 200, replace=False)
        deaths.kill(live[at], told=False)
        fresh = np.arange(row, row + 200)
        row += 200
        spine.insert(make_batch(np.ascontiguousarray(at.reshape(1, -1)), fresh))
        live[at] = fresh
        spine.sweep(len(live), deaths.addresses, deaths.told)
        spine.work(400, deaths.addresses, deaths.told)
        most = max(most, spine.entries)
    assert most <= 2 * len(live) + BLOCK_ROWS // 16 + 1000
    assert {e[1] for e in entries(spine)} >= set(live.tolist())
