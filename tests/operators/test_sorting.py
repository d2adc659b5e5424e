"""Sorting kernels against Python's sort."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.flight.column import Ints
from operators.kernels import sorting
from operators.kernels.sorting import BUCKETS
from operators.state.order import order_of, sort_keys
from operators.state.spine import make_batch

_WORDS = st.one_of(
    st.integers(-2, 2),
    st.integers(-(2**63), 2**63 - 1),
    st.sampled_from([-(2**63), 2**63 - 1, 0, -1, 255, 256, 2**32]),
)


def argsort(words: Ints) -> list[int]:
    n = words.shape[1]
    out = np.empty(n, np.int64)
    sorting.argsort(words, out, np.empty(n, np.int64))
    return out.tolist()


def argsort_by_bucket(words: Ints) -> list[int]:
    return sort_keys(words).tolist()


def by_bucket(words: Ints) -> Ints:
    """The words with the bucket in front."""
    buckets = np.empty(words.shape[1], np.int64)
    sorting.buckets_of(words[0], buckets)
    return np.vstack((buckets, words))


def naive(words: Ints) -> list[int]:
    rows = list(zip(*words.tolist(), strict=True))
    return sorted(range(len(rows)), key=rows.__getitem__)


@given(st.integers(1, 3), st.data())
def test_argsort(width: int, data: st.DataObject) -> None:
    rows = data.draw(st.lists(st.tuples(*[_WORDS] * width), max_size=60))
    words = np.array(rows, np.int64).reshape(-1, width).T.copy()
    assert argsort(words) == naive(words)
    assert argsort_by_bucket(words) == naive(by_bucket(words))


@pytest.mark.parametrize("n", [0, 1, 2, 47, 48, 49, 300, 8191, 8192, 8193, 20_000])
@pytest.mark.parametrize("spread", [1, 300, 2**40, 2**63 - 1])
def test_argsort_around_thresholds(n: int, spread: int) -> None:
    """Insertion sort up to 48 rows, digits of 8 bits, of 11 bits from 8192 rows; packed words with
    all of the key, with some of it, and with too little."""
    rng = np.random.default_rng(n)
    for width in (1, 2, 3):
        words = rng.integers(-spread, spread, (width, n), endpoint=True)
        words[:-1] %= 3  # leading words with many duplicates
        assert argsort(words) == naive(words)
        assert argsort_by_bucket(words) == naive(by_bucket(words))
        few = np.ascontiguousarray(words[::-1])  # leading words that differ
        assert argsort_by_bucket(few) == naive(by_bucket(few))
    descending = np.arange(n, 0, -1).reshape(1, -1).copy()
    assert argsort(descending) == list(range(n))[::-1]
    ascending = np.ascontiguousarray(descending[:, ::-1])
    assert argsort(ascending) == list(range(n))
    assert argsort_by_bucket(ascending) == naive(by_bucket(ascending))
    outlier = words.copy()
    outlier[0, n // 2 : n // 2 + 1] = 2**63 - 1  # the others begin alike
    assert argsort_by_bucket(outlier) == naive(by_bucket(outlier))
    clustered = np.concatenate((descending, descending + 2**40, descending - 2**50), axis=1)
    assert argsort_by_bucket(clustered) == naive(by_bucket(clustered))


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), max_size=30))
def test_run_starts(rows: list[tuple[int, int]]) -> None:
    words = np.array(rows, np.int64).reshape(-1, 2).T.copy()
    order = np.array(argsort(words), np.int64)
    out = np.empty(len(rows) + 1, np.int64)
    count = sorting.run_starts(words, order, out)
    ordered = [rows[i] for i in order.tolist()]
    starts = [i for i, r in enumerate(ordered) if i == 0 or r != ordered[i - 1]]
    assert out[: count + 1].tolist() == [*starts, len(rows)]


def test_buckets_are_even() -> None:
    """Also of keys that differ in few bits."""
    for words in (np.arange(64_000), np.arange(64_000) * 2**20, -np.arange(64_000) * 8):
        out = np.empty(len(words), np.int64)
        sorting.buckets_of(words, out)
        counts = np.bincount(out, minlength=BUCKETS)
        assert counts.shape == (BUCKETS,)
        assert counts.min() > 700
        assert counts.max() < 1400


@given(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=200), st.booleans())
def test_bucket_starts(words: list[int], few_buckets: bool) -> None:
    given = np.array([w % 3 for w in words] if few_buckets else words, np.int64)
    batch = make_batch(given.reshape(1, -1), np.arange(len(words)))
    buckets = np.empty(len(words), np.int64)
    sorting.buckets_of(batch.keys[0], buckets)
    assert batch.offsets.tolist() == np.searchsorted(buckets, np.arange(BUCKETS + 1)).tolist()


@pytest.mark.parametrize("n", [0, 1, 64, 65, 5_000])
@pytest.mark.parametrize("spread", [0, 3, 2**40, 2**63 - 1])
def test_order_of(n: int, spread: int) -> None:
    values = np.random.default_rng(n).integers(-spread, spread, n, endpoint=True)
    assert order_of(values).tolist() == np.argsort(values, kind="stable").tolist()
