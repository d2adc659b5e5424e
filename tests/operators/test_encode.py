"""Key words: equal values have equal words and no others do; order words sort as SQL does."""

from __future__ import annotations

import functools
import math
from datetime import date, datetime, timezone
from decimal import Decimal
from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.column import Column, Ints
from operators.kernels import encoding
from operators.state import encode
from operators.topk import sort_rows
from planner import types as t
from planner.algebra import SortKey
from tests.operators.columns import ints, schema, to_columns

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
    words = keys_of(encode.equality_words([column(kind, [v for _, v in pairs])], [True]))
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
    for words in (encode.equality_words, lambda c, _: encode.order_words(c, [SortKey(0)])):
        middle = words([whole], [False])[:, 1:-1]
        assert np.array_equal(middle, words([alone], [False]))
        assert np.array_equal(middle, words([part], [False]))


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
        encode.equality_words([hidden], [True]),
        encode.order_words([hidden], [SortKey(0)]),
        encode.order_words([hidden], [SortKey(0, descending=True)]),
        encode.row_hash([hidden]),
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
        lambda c: encode.equality_words([c], [True]),
        lambda c: encode.order_words([c], [SortKey(0)]),
        lambda c: encode.row_hash([c]),
    ):
        assert np.array_equal(make(narrow), make(wide))


@given(st.lists(st.tuples(st.text(max_size=20), st.none() | st.integers(0, 3)), max_size=20))
def test_row_hash(rows: list[tuple[str, int | None]]) -> None:
    hashes = keys_of(encode.row_hash(to_columns(rows, schema(t.STRING, t.INT))))
    for (a, x), (b, y) in product(zip(rows, hashes, strict=True), repeat=2):
        assert (a == b) == (x == y)


@given(st.lists(st.binary(max_size=24), min_size=1, max_size=20))
def test_hashes_of_texts_are_their_own(texts: list[bytes]) -> None:
    """The twin spells the hash out with Python's integers."""
    offsets = np.cumsum([0, *map(len, texts)]).astype(np.int32)
    out = np.empty((2, len(texts)), np.int64)
    encoding.hash_texts(offsets, np.frombuffer(b"".join(texts) + b"-", np.uint8), out)
    assert keys_of(out) == [_hash(text) for text in texts]


def test_short_texts_that_recur_hash_as_they_do_alone() -> None:
    """So many come from the cache of short texts."""
    texts = [bytes(p) for n in range(4) for p in product(b"\0a\xff", repeat=n)]
    texts = [text * k for text in texts for k in (1, 2, 3, 4)] * 10
    assert len(texts) >= 1024
    words = encode.equality_words([column(t.BINARY, texts)], [False])
    assert keys_of(words) == [_hash(text) for text in texts]


def _hash(text: bytes) -> tuple[int, int]:
    wrap = 2**64 - 1
    a, b, c, d = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB, 0xD6E8FEB86659FD93

    def mix1(h: int, x: int) -> int:
        h = (h ^ x) * b & wrap
        h = (h ^ h >> 31) * c & wrap
        return h ^ h >> 29

    def mix2(h: int, x: int) -> int:
        h = (h + x) * d & wrap
        h = (h ^ h >> 32) * a & wrap
        return h ^ h >> 31

    h1, h2 = mix1(0x243F6A8885A308D3, len(text)), mix2(0x13198A2E03707344, len(text))
    for i in range(0, len(text), 8):
        word = int.from_bytes(text[i : i + 8], "little")
        h1, h2 = mix1(h1, word), mix2(h2, word)
    signed = [x - 2**64 if x >= 2**63 else x for x in (mix1(h1, h2), mix2(h2, h1))]
    return signed[0], signed[1]


def test_lengths_and_texts_do_not_make_up_for_each_other() -> None:
    """All texts of up to three of these bytes, of which zero is one."""
    texts = [bytes(p) for n in range(4) for p in product(b"\0\1\2abc", repeat=n)]
    longer = [b"12345678" + text for text in texts]
    words = encode.equality_words([column(t.BINARY, texts + longer)], [False])
    assert len(set(keys_of(words))) == 2 * len(texts)


def test_hashes_spread_over_both_words() -> None:
    """Small integers and short texts collide in neither word."""
    numbers = np.arange(50_000).reshape(1, -1).copy()
    texts = column(t.STRING, [f"Customer#{i:09d}" for i in range(50_000)])
    for words in (encode.row_hash([Column(t.BIGINT, numbers[0])]), encode.row_hash([texts])):
        for word in words:
            assert len(np.unique(word)) == 50_000


def test_prefixes_of_texts_sort_as_bytes() -> None:
    texts = sorted(x for group in ORDERED[t.STRING] for x in group)
    words = keys_of(encode.order_words([column(t.STRING, texts)], [SortKey(0)]))
    assert all(a <= b for a, b in pairwise(words))
    assert texts == sorted(texts, key=str.encode)
