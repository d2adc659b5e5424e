"""Key words: equal values have equal words and no others do, but for hashes that are made to
collide; order words sort as SQL does."""

from __future__ import annotations

import functools
import math
from datetime import date, datetime, timezone
from decimal import Decimal
from itertools import pairwise, product
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.flight.column import Column, Ints
from operators.kernels import encoding, sorting
from operators.nodes.partitions import sort_rows
from operators.state import encode, hashing
from operators.state import relation as relations
from operators.state.hashing import Hashing
from operators.state.relation import Relation
from planner.calculus import types as t
from planner.calculus.algebra import SortKey
from planner.calculus.types import Field
from tests.operators.columns import ints, schema, to_columns
from tests.reference.siphash import siphash128

HASHING = Hashing.drawn()

WIDE = t.DecimalType(38, 2)
NARROW = t.DecimalType(9, 3)

#: Values of each type in SQL order; values in one tuple are equal.
ORDERED: dict[t.SqlType, list[tuple[Any, ...]]] = {
    t.BOOLEAN: [(False,), (True,)],
    t.TINYINT: [(-128,), (-1,), (0,), (127,)],
    t.INT: [(-(2**31),), (-1,), (0,), (1,), (2**31 - 1,)],
    t.BIGINT: [(-(2**63),), (-(2**40),), (-1,), (0,), (1,), (2**63 - 1,)],
    t.DOUBLE: [
        (-math.inf,), (-1.5,), (-5e-324,), (-0.0, 0.0), (5e-324,), (1.5,), (math.inf,),
        (math.nan, -math.nan),
    ],
    t.FLOAT: [(-math.inf,), (-1.5,), (-0.0, 0.0), (0.25,), (math.inf,), (math.nan,)],
    t.DATE: [(date(1, 1, 1),), (date(1969, 12, 31),), (date(1970, 1, 1),), (date(9999, 12, 31),)],
    t.TIMESTAMP: [
        (datetime(1960, 1, 1, tzinfo=timezone.utc),),
        (datetime(2020, 1, 1, 0, 0, 0, 1, tzinfo=timezone.utc),),
    ],
    NARROW: [(Decimal("-999999.999"),), (Decimal("-0.001"),), (Decimal("0"),), (Decimal("7.5"),)],
    WIDE: [
        (Decimal("-1e35"),), (Decimal(-(2**64)),), (Decimal("-184467440737095516.16"),),
        (Decimal("-0.01"),), (Decimal("0"),), (Decimal("0.01"),),
        (Decimal("92233720368547758.08"),), (Decimal("184467440737095516.15"),),
        (Decimal("184467440737095516.16"),), (Decimal("1e35"),),
    ],
    t.STRING: [
        ("",), ("\0",), ("\0\0",), ("A",), ("Z",), ("a",), ("a\0",), ("ab",), ("abcdefghijklmnop",),
        ("abcdefghijklmnop\0",), ("abcdefghijklmnopq",), ("abcdefghijklmnopr",), ("b",), ("é",),
        ("€",), ("\uffff",), ("😀",),
    ],
    t.BINARY: [(b"",), (b"\0",), (b"\0\0",), (b"\x7f",), (b"\x80",), (b"\xff" * 20,)],
}  # fmt: skip
KINDS = pytest.mark.parametrize("kind", list(ORDERED), ids=str)


def column(kind: t.SqlType, values: list[Any]) -> Column:
    return to_columns([(v,) for v in values], schema(kind))[0]


def ranked(kind: t.SqlType) -> list[tuple[int, Any]]:
    """(rank, value): equal values have one rank; NULL has rank -1."""
    pairs = [(i, v) for i, group in enumerate(ORDERED[kind]) for v in group]
    return [(-1, None), *pairs]


def keys_of(words: Ints) -> list[tuple[int, ...]]:
    return list(zip(*words.tolist(), strict=True))


@KINDS
def test_equality_words(kind: t.SqlType) -> None:
    pairs = ranked(kind)
    words = keys_of(encode.equality_words([column(kind, [v for _, v in pairs])], [True], HASHING))
    assert len(words[0]) == encode.key_width([kind], [True])
    for (a, x), (b, y) in product(zip(pairs, words, strict=True), repeat=2):
        assert (a[0] == b[0]) == (x == y)


@KINDS
def test_words_do_not_depend_on_neighbours(kind: t.SqlType) -> None:
    """Neither on NULLs beside a value nor on the slice that it lies in."""
    values = [v for group in ORDERED[kind] for v in group]
    whole = column(kind, [None, *values, None])
    part = Column(kind, whole.values[1:-1], None)
    alone = column(kind, values)
    for words in (
        lambda c: encode.equality_words([c], [False], HASHING),
        lambda c: encode.order_words([c], [SortKey(0)]),
    ):
        middle = words(whole)[:, 1:-1]
        assert np.array_equal(middle, words(alone))
        assert np.array_equal(middle, words(part))


@KINDS
@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("nulls_first", [False, True])
def test_order_words(kind: t.SqlType, descending: bool, nulls_first: bool) -> None:
    key = SortKey(0, descending, nulls_first)
    pairs = ranked(kind)
    words = encode.order_words([column(kind, [v for _, v in pairs])], [key])
    assert words.shape[0] == encode.order_width([kind])
    for (a, x), (b, y) in product(zip(pairs, keys_of(words), strict=True), repeat=2):
        order = compare_ranks(a[0], b[0], key)
        if order < 0:
            assert x <= y if encode.order_is_exact([kind]) is False else x < y
        elif order == 0:
            assert x == y


def compare_ranks(a: int, b: int, key: SortKey) -> int:
    if a == b:
        return 0
    if -1 in (a, b):
        return -1 if (a == -1) == key.nulls_first else 1
    return (1 if a < b else -1) if key.descending else (-1 if a < b else 1)


_KINDS = st.sampled_from(list(ORDERED))


@given(st.lists(st.tuples(_KINDS, st.booleans(), st.booleans()), min_size=1, max_size=3), st.data())
def test_sorting_by_several_columns(
    order: list[tuple[t.SqlType, bool, bool]], data: st.DataObject
) -> None:
    """Words never contradict SQL's order, tell rows apart where they claim to be exact, and
    `sort_rows` is exact always."""
    kinds = [kind for kind, _, _ in order]
    keys = tuple(SortKey(i, down, first) for i, (_, down, first) in enumerate(order))
    options = [ranked(kind) for kind in kinds]
    rows = data.draw(st.lists(st.tuples(*(st.sampled_from(o) for o in options)), max_size=12))
    if not rows:
        return
    columns = [column(kind, [r[i][1] for r in rows]) for i, kind in enumerate(kinds)]

    def compare(x: int, y: int) -> int:
        for i, key in enumerate(keys):
            found = compare_ranks(rows[x][i][0], rows[y][i][0], key)
            if found:
                return found
        return 0

    words = keys_of(encode.order_words(columns, keys))
    for x, y in product(range(len(rows)), repeat=2):
        if compare(x, y) < 0:
            assert words[x] <= words[y]
        if encode.order_is_exact(kinds):
            assert (compare(x, y) == 0) == (words[x] == words[y])
    expected = sorted(range(len(rows)), key=functools.cmp_to_key(compare))
    assert sort_rows(columns, keys).tolist() == expected


@pytest.mark.parametrize("kind", [WIDE, t.STRING, t.BINARY, t.BIGINT], ids=str)
def test_what_lies_under_a_null_does_not_count(kind: t.SqlType) -> None:
    """The value under a NULL is harmless, but it may be any."""
    two = [group[0] for group in ORDERED[kind][-2:]]
    visible = column(kind, two)
    hidden = Column(kind, visible.values, np.zeros(2, np.bool_))
    for words in (
        encode.equality_words([hidden], [True], HASHING),
        encode.order_words([hidden], [SortKey(0)]),
        encode.order_words([hidden], [SortKey(0, descending=True)]),
        encode.row_words([hidden], HASHING),
    ):
        first, second = keys_of(words)
        assert first == second
    number = column(t.BIGINT, [2, 1])
    keys = (SortKey(0), SortKey(1))
    assert sort_rows([hidden, number], keys).tolist() == [1, 0]


def test_wide_and_narrow_representations_agree() -> None:
    """A decimal of many digits may lie in one word while its values fit."""
    narrow = Column(WIDE, ints(-5, 0, 7, 2**62))
    wide = Column(WIDE, np.stack([narrow.values, narrow.values >> 63], axis=1))
    for make in (
        lambda c: encode.equality_words([c], [True], HASHING),
        lambda c: encode.order_words([c], [SortKey(0)]),
        lambda c: encode.row_words([c], HASHING),
    ):
        assert np.array_equal(make(narrow), make(wide))


@given(st.lists(st.tuples(st.text(max_size=20), st.none() | st.integers(0, 3)), max_size=20))
def test_row_words(rows: list[tuple[str, int | None]]) -> None:
    hashes = keys_of(encode.row_words(to_columns(rows, schema(t.STRING, t.INT)), HASHING))
    for (a, x), (b, y) in product(zip(rows, hashes, strict=True), repeat=2):
        assert (a == b) == (x == y)


def test_rows_of_many_columns() -> None:
    """Of which one is NULL: more than one word holds the bits that say so."""
    n = 130
    rows = [(None,) * n, *(tuple(None if i == j else 0 for i in range(n)) for j in range(n))]
    columns = to_columns(rows, schema(*(t.INT,) * n))
    assert len(set(keys_of(encode.row_words(columns, HASHING)))) == n + 1


def test_what_siphash_is() -> None:
    """The first of the authors' test vectors for 128 bits."""
    first, second = siphash128(bytes(range(16)), b"", (2, 4))
    expected = "a3817f04ba25a8e66df67214c7550293"
    assert (first.to_bytes(8, "little") + second.to_bytes(8, "little")).hex() == expected


@given(st.lists(st.binary(max_size=40), min_size=1, max_size=20), st.binary())
def test_words_of_texts(texts: list[bytes], behind: bytes) -> None:
    """Short texts can be read from their words; long ones have the hash of the twin."""
    offsets = np.cumsum([0, *map(len, texts)]).astype(np.int32)
    data = np.frombuffer(b"".join(texts) + behind, np.uint8)
    out = np.empty((2, len(texts)), np.int64)
    encoding.text_words(offsets, data, HASHING.array, out)
    for text, (low, high) in zip(texts, keys_of(out), strict=True):
        if len(text) > encoding.EXACT_BYTES:
            low_hash, high_hash = siphash128(_secret(HASHING), text, (1, 3))
            assert (low, high) == (_signed(low_hash), _signed(high_hash | 1))
        else:
            assert _text_of(low, high) == text


@given(st.lists(st.tuples(*[st.integers(-(2**63), 2**63 - 1)] * 3), min_size=1, max_size=140))
def test_hashes_of_words(rows: list[tuple[int, int, int]]) -> None:
    words = np.array(rows, np.int64).T.copy()
    out = np.empty((2, len(rows)), np.int64)
    encoding.hash_words(words, HASHING.array, out)
    for row, found in zip(rows, keys_of(out), strict=True):
        message = b"".join(w.to_bytes(8, "little", signed=True) for w in row)
        first, second = siphash128(_secret(HASHING), message, (1, 3))
        assert found == (_signed(first), _signed(second))


def _secret(of: Hashing) -> bytes:
    return b"".join(w.to_bytes(8, "little", signed=True) for w in of.numbers[:2])


def _signed(x: int) -> int:
    return x - 2**64 if x >= 2**63 else x


def _text_of(low: int, high: int) -> bytes:
    """Takes what is mixed into either word out again."""
    wrap = 2**64 - 1
    low, high = low & wrap, high & wrap
    product = high * 0xBF58476D1CE4E5B9 & wrap
    low ^= product ^ product >> 29
    product = low * 0x9E3779B97F4A7C15 & wrap
    high ^= (product ^ product >> 32) & ~1
    assert high & 1 == 0, "the lowest bit says that this is no hash"
    length = high >> 1 & 127
    return (low.to_bytes(8, "little") + (high >> 8).to_bytes(7, "little"))[:length]


def test_each_store_has_a_secret_of_its_own() -> None:
    """Which nothing shows. The words of short texts and of single numbers do not depend on it."""
    other = Hashing.drawn()
    assert other.numbers[:2] != HASHING.numbers[:2]
    assert repr(other) == str(other) == "Hashing(…)"
    texts = column(t.STRING, ["a", "Clerk#000000951", "Supplier#000000001"])
    ours, theirs = (encode.equality_words([texts], [False], h) for h in (HASHING, other))
    assert (ours[0] == theirs[0]).tolist() == [True, True, False]
    numbers = [column(t.BIGINT, [1, 2])]
    ours, theirs = (encode.row_words(numbers, h) for h in (HASHING, other))
    assert np.array_equal(ours, theirs)
    ours, theirs = (encode.row_words(numbers * 2, h) for h in (HASHING, other))
    assert not np.array_equal(ours, theirs)


def test_fewer_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    """What other tests make collisions with."""
    monkeypatch.setattr(hashing, "HASH_BITS", 8)
    monkeypatch.setattr(hashing, "EXACT_BYTES", 0)
    monkeypatch.setattr(hashing, "EXACT_WORDS", 0)
    few = Hashing.drawn()
    texts = column(t.BINARY, [b"", *(bytes([i, j]) for i in range(64) for j in range(64))])
    assert len(set(keys_of(encode.equality_words([texts], [False], few)))) == 1 + 256
    numbers = Column(t.BIGINT, np.arange(4096))
    assert len(set(keys_of(encode.row_words([numbers], few)))) == 256


def test_lengths_and_texts_do_not_make_up_for_each_other() -> None:
    """All texts of up to three of these bytes, of which zero is one."""
    texts = [bytes(p) for n in range(4) for p in product(b"\0\1\2abc", repeat=n)]
    longer = [front + text for front in (b"12345678", b"1234567890123") for text in texts]
    words = encode.equality_words([column(t.BINARY, texts + longer)], [False], HASHING)
    assert len(set(keys_of(words))) == 3 * len(texts)


def test_words_spread() -> None:
    """Texts of every length are dealt out to shards evenly, as rows are, and neither word of a hash
    collides."""
    for form in ("{}", "{:08d}", "{:09d}", "Clerk#{:09d}", "Customer#{:09d}"):
        texts = column(t.STRING, [form.format(i) for i in range(50_000)])
        words = encode.equality_words([texts], [False], HASHING)
        buckets = np.empty(50_000, np.int64)
        sorting.buckets_of(words[0], buckets)
        assert np.bincount(buckets, minlength=64).max() < 1.2 * 50_000 / 64
        assert len(np.unique(words[0])) == 50_000
    for hashes in (words, encode.row_words([texts], HASHING)):
        for word in hashes:
            assert len(np.unique(word)) == 50_000


@KINDS
def test_local_words(kind: t.SqlType) -> None:
    pairs = ranked(kind) * 2
    words = keys_of(encode.local_words([column(kind, [v for _, v in pairs])]))
    for (a, x), (b, y) in product(zip(pairs, words, strict=True), repeat=2):
        assert (a[0] == b[0]) == (x == y)


@KINDS
def test_equal_values(kind: t.SqlType) -> None:
    left, right = zip(*product(ranked(kind), repeat=2), strict=True)
    columns = [column(kind, [v for _, v in side]) for side in (left, right)]
    expected = [a == b for (a, _), (b, _) in zip(left, right, strict=True)]
    assert encode.equal_values(*columns).tolist() == expected


def test_prefixes_of_texts_sort_as_bytes() -> None:
    texts = sorted(x for group in ORDERED[t.STRING] for x in group)
    words = keys_of(encode.order_words([column(t.STRING, texts)], [SortKey(0)]))
    assert all(a <= b for a, b in pairwise(words))
    assert texts == sorted(texts, key=str.encode)


@given(st.lists(st.lists(st.binary(max_size=15).map(bytes.hex), max_size=9), max_size=5), st.data())
def test_words_of_texts_where_they_lie(batches: list[list[str]], data: st.DataObject) -> None:
    """The words of stored short texts are those of the texts; long ones and NULLs are not told."""
    relation = Relation((Field("a", t.STRING, True),))
    with mock.patch.object(
        relations, "BULK_ROWS", 100
    ):  # else they wait in the columns they came in
        for batch in batches:
            short = [text[:15] for text in batch]
            relation.append(to_columns([(text,) for text in short], relation.schema), _times(short))
        texts = [text[:15] for batch in batches for text in batch]
        places = st.lists(st.integers(0, len(texts) - 1), max_size=20) if texts else st.just([])
        rows = np.array(data.draw(places), np.int64)
        out = np.empty((2, len(rows)), np.int64)
        assert relation.text_words(0, rows, out)
        expected = encode.equality_words([relation.gather(0, rows)], (False,), relation.hashing)
        assert out.tolist() == expected.tolist()
        first = relation.append(to_columns([("sixteen bytes ..",)], relation.schema), _times(["x"]))
        assert not relation.text_words(0, np.array([first]), np.empty((2, 1), np.int64))
        relation.append(to_columns([(None,)], relation.schema), _times(["x"]))
        assert not relation.text_words(0, rows, out)


def _times(rows: list[str]) -> Ints:
    return np.ones(len(rows), np.int64)
