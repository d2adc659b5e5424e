"""Lookups by the kernels against a dictionary: every distribution, repeated probes, little room."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.flight.column import Ints
from operators.kernels import lookup
from operators.kernels.memory import BLOCK_ROWS
from operators.state.probes import Probes, sort_probes
from operators.state.spine import Spine, make_batch
from tests.operators.columns import ints

_NONE = np.empty(0, np.int64)
_EDGES = (-(2**63), -1, 0, 1, 2**63 - 1)

#: How words are spread: where a guess is right, far off, or impossible.
SPREADS: dict[str, Callable[[np.random.Generator, int], Any]] = {
    "even": lambda rng, n: rng.integers(0, 4 * n, n),
    "the whole range": lambda rng, n: rng.integers(-(2**63), 2**63 - 1, n),
    "few and many": lambda rng, n: np.minimum(rng.geometric(0.2, n), 9),
    "exponential": lambda rng, n: 2 ** rng.integers(0, 62, n),
    "one": lambda rng, n: np.full(n, 7),
    "two far apart": lambda rng, n: rng.choice(np.array([-(2**62), 2**62]), n),
}


def build(batches: list[Ints]) -> Spine:
    """A spine of batches of keys int64[w, n], with ascending row ids, not merged."""
    spine, row = Spine(batches[0].shape[0]), 0
    for keys in batches:
        n = keys.shape[1]
        spine.insert(make_batch(np.ascontiguousarray(keys), np.arange(row, row + n)))
        row += n
    return spine


def found(
    spine: Spine, probes: Probes, dead: Ints, capacity: int, bits: Ints = _NONE
) -> Counter[tuple[int, int]]:
    """Pairs of all probes, at one time, with room for `capacity` at first and for what is asked."""
    runs = np.empty((spine.entries, 4), np.int64)
    work, state = np.zeros(2, np.int64), np.zeros(3, np.int64)
    count = lookup.seek(spine.table, probes.keys, probes.buckets, runs, work)
    times = np.zeros(int(probes.order.max(initial=-1)) + 1, np.int64)
    probe, row = np.empty(capacity, np.int64), np.empty(capacity, np.int64)
    while needed := lookup.emit(
        spine.table, runs, count, probes.order, probes.starts, times, True, bits,
        dead, _NONE, _NONE, _NONE, _NONE, probe, row, state, work,
    ):  # fmt: skip
        more = np.empty(needed, np.int64)
        probe, row = np.append(probe, more), np.append(row, more)
    n = int(state[2])
    return Counter(zip(probe[:n].tolist(), row[:n].tolist(), strict=True))


def expected(batches: list[Ints], words: Ints, gone: set[int]) -> Counter[tuple[int, int]]:
    width = words.shape[0]
    keys = [tuple(k) for b in batches for k in b[:width].T.tolist()]
    rows: dict[tuple[int, ...], list[int]] = {}
    for row, key in enumerate(keys):
        if row not in gone:
            rows.setdefault(key, []).append(row)
    probes = enumerate(tuple(k) for k in words.T.tolist())
    return Counter((p, row) for p, key in probes for row in rows.get(key, ()))


@pytest.mark.parametrize("probed", [1, 20, 3000])
@pytest.mark.parametrize("spread", SPREADS)
def test_every_spread(spread: str, probed: int) -> None:
    rng = np.random.default_rng(probed)
    words = [SPREADS[spread](rng, n).astype(np.int64) for n in (20_000, 700, 1)]
    spine = build([w.reshape(1, -1) for w in words])
    stored = np.concatenate(words)
    probes = np.concatenate((rng.choice(stored, probed), ints(*_EDGES), stored[:2] + 1))
    sought = sort_probes(probes.reshape(1, -1))
    runs = np.empty((spine.entries, 4), np.int64)
    count = lookup.seek(spine.table, sought.keys, sought.buckets, runs, np.zeros(2, np.int64))
    places = {(b, k): (first, end) for b, k, first, end in runs[:count].tolist()}
    for b, batch in enumerate(spine.batches):
        at: dict[int, list[int]] = {}
        for i, key in enumerate(batch.keys[0].tolist()):
            at.setdefault(key, []).append(i)
        for k, key in enumerate(sought.keys[0, : sought.distinct].tolist()):
            where = at.get(key, [])
            assert places.get((b, k)) == ((where[0], where[-1] + 1) if where else None)


_WORD = st.sampled_from((*_EDGES, 2, 3))
_KEYS = st.lists(st.tuples(_WORD, _WORD), min_size=1, max_size=30)


@given(
    st.lists(_KEYS, min_size=1, max_size=4),
    _KEYS,
    st.sampled_from((1, 2)),
    st.sets(st.integers(0, 119)),
    st.integers(0, 50),
    st.booleans(),
)
def test_pairs(
    batches: list[list[tuple[int, int]]],
    probes: list[tuple[int, int]],
    width: int,
    gone: set[int],
    capacity: int,
    filtered: bool,
) -> None:
    """Whole keys and prefixes; dead rows, or rows that a filter leaves out; any room to start."""
    keys = [np.array(b, np.int64).T for b in batches]
    words = np.ascontiguousarray(np.array(probes, np.int64).T[:width])
    bits = np.zeros(BLOCK_ROWS // 8 + 120, np.uint8)
    for row in range(120):
        if (row in gone) != filtered:
            bits[row >> 3] |= np.uint8(1 << (row & 7))
    addresses = np.array([bits.ctypes.data + i * (BLOCK_ROWS // 8) for i in range(120)], np.int64)
    addresses = addresses[: 1 + 119 // BLOCK_ROWS]
    none_dead = np.zeros(len(addresses), np.int64)
    dead, passing = (none_dead, addresses) if filtered else (addresses, _NONE)
    got = found(build(keys), sort_probes(words), dead, capacity, passing)
    assert got == expected(keys, words, gone)


@pytest.mark.parametrize("as_of", [True, False])
@pytest.mark.parametrize("width", [1, 2])
@given(
    st.lists(st.tuples(st.integers(0, 12), st.integers(0, 20), st.integers(0, 3)), min_size=12),
    st.lists(st.tuples(st.integers(0, 2), st.integers(-2, 15)), min_size=12, max_size=60),
    st.sets(st.integers(0, 99)),
    st.integers(0, 50),
    st.integers(1, 3),
)
def test_versions_at_many_times(
    as_of: bool,
    width: int,
    rows: list[tuple[int, int, int]],
    probes: list[tuple[int, int]],
    hidden: set[int],
    capacity: int,
    keys: int,
) -> None:
    """Rows (birth, death or later than all, key), born in order of their ids, probed at many times,
    by whole keys or a prefix, with a filter or without."""
    rows = sorted((b, d if d > b else 99, k % keys) for b, d, k in rows)
    n = len(rows)
    born_first = [i for i in range(n) if i == 0 or rows[i][0] != rows[i - 1][0]]
    dead_bits, bits = (np.zeros(BLOCK_ROWS // 8, np.uint8) for _ in range(2))
    for i, (_, death, _) in enumerate(rows):
        dead_bits[i >> 3] |= np.uint8((death < 99) << (i & 7))
        bits[i >> 3] |= np.uint8((i not in hidden) << (i & 7))
    died = [i for i in range(n) if rows[i][1] < 99]
    words = np.array([[k for _, _, k in rows], [i % 3 for i in range(n)]], np.int64)
    half = n // 2
    parts = [words[:, :half], words[:, half:]] if half else [words]
    spine = Spine(2)
    for start, part in zip((0, half), parts, strict=False):
        spine.insert(
            make_batch(np.ascontiguousarray(part), np.arange(start, start + part.shape[1]))
        )
    asked = np.array([[k for k, _ in probes], [k % 3 for k, _ in probes]], np.int64)[:width]
    sought = sort_probes(np.ascontiguousarray(asked))
    runs = np.empty((2 * n + 2, 4), np.int64)
    work, state = np.zeros(2, np.int64), np.zeros(3, np.int64)
    count = lookup.seek(spine.table, sought.keys, sought.buckets, runs, work)
    times = ints(*(t for _, t in probes))
    probe, row = np.empty(capacity, np.int64), np.empty(capacity, np.int64)
    while needed := lookup.emit(
        spine.table, runs, count, sought.order, sought.starts, times, as_of,
        ints(bits.ctypes.data) if hidden else _NONE, ints(dead_bits.ctypes.data),
        ints(*born_first), ints(*(rows[i][0] for i in born_first)),
        ints(*died), ints(*(rows[i][1] for i in died)), probe, row, state, work,
    ):  # fmt: skip
        more = np.empty(needed, np.int64)
        probe, row = np.append(probe, more), np.append(row, more)
    pairs = zip(probe[: state[2]].tolist(), row[: state[2]].tolist(), strict=True)
    expected = Counter(
        (p, i)
        for p, (key, t) in enumerate(probes)
        for i, (birth, death, _) in enumerate(rows)
        if (birth <= t < death if as_of else birth < t <= death)
        and words[:width, i].tolist() == [key, key % 3][:width]
        and not (hidden and i in hidden)
    )
    assert Counter(pairs) == expected


def test_a_key_is_sought_once_and_its_rows_tested_once() -> None:
    keys = np.repeat(np.arange(1000), 4).reshape(1, -1)
    index = build([keys])
    probes = sort_probes(np.full((1, 500), 77))
    runs, work, state = np.empty((4000, 4), np.int64), np.zeros(2, np.int64), np.zeros(3, np.int64)
    count = lookup.seek(index.table, probes.keys, probes.buckets, runs, work)
    assert count == 1
    room = np.empty(2000, np.int64)
    assert not lookup.emit(
        index.table, runs, count, probes.order, probes.starts, np.zeros(500, np.int64), True,
        _NONE, np.zeros(1, np.int64), _NONE, _NONE, _NONE, _NONE, room, room.copy(), state, work,
    )  # fmt: skip
    assert state[2] == 2000
    assert work[0] == 4


def test_a_batch_of_other_keys_costs_a_few_comparisons() -> None:
    """Keys beyond all that are stored: one leap a bucket at most."""
    index = build([np.arange(100_000).reshape(1, -1)])
    probes = sort_probes(np.arange(100_000, 140_000).reshape(1, -1))
    work = np.zeros(2, np.int64)
    runs = np.empty((40_000, 4), np.int64)
    assert lookup.seek(index.table, probes.keys, probes.buckets, runs, work) == 0
    assert work[1] <= 64


@pytest.mark.parametrize("width", [1, 2])
@pytest.mark.parametrize("spread", SPREADS)
def test_entries_are_counted_without_a_visit(spread: str, width: int) -> None:
    """By runs of sorted keys, whatever their length, and key by key; a part of a key counts too."""
    rng = np.random.default_rng(width)
    batches = [
        np.vstack([SPREADS[spread](rng, n).astype(np.int64) for _ in range(2)])
        for n in (4_000, 300, 1)
    ]
    spine = build(batches)
    words = np.ascontiguousarray(np.hstack(batches)[:width, rng.integers(0, 4_301, 200)])
    words[0, :40] += 1
    keys = Counter(tuple(k) for b in batches for k in b[:width].T.tolist())
    wanted = [keys[tuple(k)] for k in words.T.tolist()]
    probes = sort_probes(words)
    runs, work = np.empty((spine.entries, 4), np.int64), np.zeros(2, np.int64)
    count = lookup.seek(spine.table, probes.keys, probes.buckets, runs, work)
    of_keys = np.zeros(probes.distinct, np.int64)
    np.add.at(of_keys, runs[:count, 1], runs[:count, 3] - runs[:count, 2])
    assert probes.each(of_keys).tolist() == wanted
    one_by_one = np.zeros(200, np.int64)
    lookup.entries_of_few(spine.table, words, one_by_one, work)
    assert one_by_one.tolist() == wanted
    assert work[0] == 0
    keep = rng.random(200) < 0.3
    some = probes.those(keep)
    both = found(spine, some, _NONE, 100)
    assert Counter(p for p, _ in both.elements()) == {
        p: n for p, n in enumerate(wanted) if keep[p] and n
    }
