"""Fingerprints: lookups find with them what they find without, and seek little where nothing is."""

from __future__ import annotations

import numpy as np
import pytest

from operators.flight.column import Column, Ints
from operators.state import fingerprints
from operators.state.arrangement import ArrangementState
from operators.state.fingerprints import Fingerprints
from operators.state.order import sort_keys
from operators.state.relation import Relation
from planner import dataflow as ir
from planner.calculus import types as t
from tests.operators.columns import schema

FIELDS = schema(t.BIGINT, t.BIGINT)
SOURCE = ir.Source("r", FIELDS)


@pytest.mark.parametrize("words", [1, 2])
def test_whatever_is_entered_is_told(words: int) -> None:
    rng = np.random.default_rng(words)
    keys = rng.integers(-(2**63), 2**63 - 1, (2, 40_000))
    keys = np.ascontiguousarray(keys[:, sort_keys(keys)])
    half = np.ascontiguousarray(keys[:, ::2])
    prints = Fingerprints(words, half.shape[1])
    assert prints.add([half])
    found = prints.narrow(np.ascontiguousarray(keys[:words]), keys.shape[1])
    there = set(range(0, 40_000, 2))
    assert there <= set(found.numbers.tolist())
    assert len(found.numbers) < 20_000 * 1.05
    assert (found.keys[:, : len(found.numbers)] == keys[:words, found.numbers]).all()
    assert found.buckets[0] == 0
    assert found.buckets[-1] == len(found.numbers)


def test_they_are_made_anew_when_they_are_full() -> None:
    prints = Fingerprints(1, 100)
    keys = np.arange(1_000_000).reshape(1, -1)
    assert not prints.add([keys])


class Life:
    """An index and the same one that never has fingerprints, through inserts, deaths, merges and
    steps that are taken back."""

    def __init__(self, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
        self.rng, self.patch = np.random.default_rng(seed), monkeypatch
        self.relation, self.time = Relation(FIELDS), 1
        spec = ir.Arrangement(SOURCE, (0, 1))
        self.index = ArrangementState(spec, self.relation)
        self.plain = ArrangementState(spec, self.relation)

    def insert(self, n: int, keys: int) -> None:
        columns = [Column(t.BIGINT, self.rng.integers(0, keys, n)) for _ in range(2)]
        self.relation.append(columns, np.full(n, self.time, np.int64))
        self.index.absorb()
        self.plain.absorb()

    def step(self, n: int, keys: int) -> None:
        self.insert(n, keys)
        living = self.relation.visible(self.time)
        dying = self.rng.choice(living, len(living) // 10, replace=False)
        self.relation.kill(np.sort(dying), np.full(len(dying), self.time, np.int64))
        self.relation.advance(self.time)
        self.time += 1
        for index in (self.index, self.plain):
            index.maintain(n)

    def undone(self, n: int, keys: int) -> None:
        marks = self.relation.mark(), self.index.mark(), self.plain.mark()
        self.insert(n, keys)
        self.index.restore(marks[1])
        self.plain.restore(marks[2])
        self.relation.restore(marks[0])

    def compare(self, keys: int, words: int) -> None:
        probes = self.rng.integers(0, keys, (words, 300))
        times = np.full(300, self.time, np.int64)
        self.patch.setattr(fingerprints, "FEW_KEYS", 1)
        self.patch.setattr(fingerprints, "_SPARSE", 1)
        found = self.index.lookup(probes, times, True)
        living = self.index.living(probes, np.full(300, 2))
        self.patch.setattr(fingerprints, "FEW_KEYS", 1 << 62)
        expected = self.plain.lookup(probes, times, True)
        assert pairs(found.probe, found.row) == pairs(expected.probe, expected.row)
        limited = self.plain.living(probes, np.full(300, 2))
        assert pairs(living.probe, living.row) == pairs(limited.probe, limited.row)


def pairs(probe: Ints, row: Ints) -> list[tuple[int, int]]:
    return sorted(zip(probe.tolist(), row.tolist(), strict=True))


@pytest.mark.parametrize("seed", range(4))
def test_lookups_find_the_same(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    life = Life(seed, monkeypatch)
    had = 0
    for step in range(12):
        life.step(500, 60 if step % 4 else 10_000)
        life.undone(100, 10_000)
        for words in (1, 2):
            life.compare(10_000, words)
            life.compare(60, words)
        had += life.index.spine.known.nbytes > 0
    assert had > 0
    assert life.plain.spine.known.nbytes == 0


def test_a_lookup_in_vain_seeks_little() -> None:
    """What it pays for merging it does not pay either: fewer seeks, fewer merges."""
    relation, n = Relation(FIELDS), 5_000
    index = ArrangementState(ir.Arrangement(SOURCE, (0, 1)), relation)
    rng = np.random.default_rng(5)
    seeks = []
    for time in range(1, 20):
        keys = rng.integers(0, 2**62, (2, n))
        before = index.work.seeks
        assert len(index.lookup(keys, np.full(n, time, np.int64), True).row) == 0
        seeks.append(index.work.seeks - before)
        columns = [Column(t.BIGINT, key) for key in keys]
        relation.append(columns, np.full(n, time, np.int64))
        index.absorb()
    assert max(seeks) > 3 * n, "every sixteenth lookup shows what it costs without"
    assert sorted(seeks[-8:])[-2] < n / 2
