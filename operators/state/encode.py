"""Keys as words: what indexes sort by and compare.

An equality key is the words of its columns in turn: one exact, order-preserving int64 for any type
that fits 64 bits (booleans, integers, dates, timestamps, decimals of at most 18 digits, floats
with -0.0 as 0.0 and one NaN); the two words of a wider decimal; two words for a text or a binary,
exact up to 15 bytes, else a hash of 127 bits, as the lowest bit of the second word says. A
null-safe key has one more word behind each column that may be NULL: 0 for NULL, else 1. A row's key
is the hash of its words, or the words themselves where there are no more than two.

An order key sorts as SQL's ORDER BY does: the same words, complemented where descending, behind a
word that places NULLs; a text contributes its first 16 bytes and ends the key, for words after an
inexact one would not sort right. Ties are compared through the row (operators.nodes.partitions).

Hashes are made with the store's secret (operators.state.hashing): nobody else can choose values
that collide.

Invariant: equal values have equal words; unequal values have unequal words, except that two of
which both are hashed may collide; an order key never sorts two rows against their SQL order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow.compute as pc

from operators.flight.column import Bools, Column, Ints, is_textual, narrow, ones, widen
from operators.kernels import encoding
from operators.state.hashing import Hashing
from planner.calculus import types as t
from planner.calculus.algebra import SortKey

_PREFIX_WORDS = 2
#: Columns of a key whose words may be a hash, each with the word whose lowest bit tells whether
#: they are; -1 where they always are.
Hashed: TypeAlias = tuple[tuple[int, int], ...]
#: Columns of a row that share a word for their NULLs.
_FLAGS = 63


@dataclass(frozen=True, slots=True)
class Worded:
    """A column of texts without NULLs, for those who read its key words alone: int64[2, n]."""

    type: t.SqlType
    words: Ints
    valid: None = None

    def __len__(self) -> int:
        return int(self.words.shape[1])


def equality_words(
    columns: Sequence[Column | Worded], nulls: Sequence[bool], hashing: Hashing
) -> Ints:
    """Words int64[w, n] of an equality key; nulls[i] says whether column i has a NULL word.

    Columns without one must have no NULLs, or their rows must be left out (see `not_null`).
    """
    if len(columns) == 1 and not nulls[0]:
        (column,) = columns
        if isinstance(column, Worded):
            return column.words
        if _width(column.type) == 1:
            return np.ascontiguousarray(_value_word(column)).reshape(1, -1)
    out = np.empty((key_width([c.type for c in columns], nulls), len(columns[0])), np.int64)
    word = 0
    for column, has_null_word in zip(columns, nulls, strict=True):
        width = _width(column.type)
        _words_into(column, hashing, out[word : word + width])
        word += width
        if has_null_word:
            out[word] = 1 if column.valid is None else column.valid
            word += 1
    return out


def key_width(types: Sequence[t.SqlType], nulls: Sequence[bool]) -> int:
    """Words of an equality key over columns of these types."""
    pairs = zip(types, nulls, strict=True)
    return sum(_width(kind) + has_null_word for kind, has_null_word in pairs)


def hashed_words(types: Sequence[t.SqlType], nulls: Sequence[bool]) -> Hashed:
    """The texts of an equality key over columns of these types."""
    word, found = 0, []
    for column, (kind, has_null_word) in enumerate(zip(types, nulls, strict=True)):
        if is_textual(kind):
            found.append((column, word + 1))
        word += _width(kind) + has_null_word
    return tuple(found)


def local_words(columns: Sequence[Column]) -> Ints:
    """Words int64[w, n] that are equal where rows are, NULLs like any value, and nowhere else; they
    mean nothing beside words made by another call. At least one column.

    Cost: a hash table of each column of texts.
    """
    words: list[Ints] = []
    for column in columns:
        if is_textual(column.type):
            numbers = column.values.dictionary_encode().indices
            words += _masked([numbers.to_numpy(zero_copy_only=False).astype(np.int64)], column)
        elif _width(column.type) == 2:
            words += _masked(list(widen(column).values.T), column)
        else:
            words.append(_value_word(column))
        words.append(_null_word(column))
    return _stacked(words)


def local_width(types: Sequence[t.SqlType]) -> int:
    """Words that `local_words` makes of columns of these types."""
    return sum(1 if is_textual(kind) else _width(kind) for kind in types) + len(types)


def equal_values(left: Column, right: Column) -> Bools:
    """Whether values are equal as keys are, NULL with NULL, bool[n]."""
    same: Bools
    if is_textual(left.type):
        same = pc.equal(left.values, right.values).to_numpy(zero_copy_only=False)
    elif left.wide or right.wide:
        same = (widen(left).values == widen(right).values).all(axis=1)
    else:
        same = _value_word(left) == _value_word(right)
    if left.valid is None and right.valid is None:
        return same
    left_null, right_null = _null_word(left), _null_word(right)
    equal: Bools = (left_null == right_null) & (same | (left_null == 0))
    return equal


def not_null(columns: Sequence[Column]) -> Bools | None:
    """Mask of rows without NULL in any of the columns, or None where no row has one."""
    mask = None
    for column in columns:
        if column.valid is not None:
            mask = column.valid if mask is None else mask & column.valid
    return mask


def row_words(columns: Sequence[Column], hashing: Hashing) -> Ints:
    """Key of whole rows, int64[2, n]; NULL is a value of its own. At least one column.

    It is exact where `rows_are_exact`, else a hash.
    """
    widths = [_width(column.type) for column in columns]
    n, width = len(columns[0]), sum(widths)
    words = np.empty((width + -(-len(columns) // _FLAGS), n), np.int64)
    word = 0
    for column, own in zip(columns, widths, strict=True):
        _words_into(column, hashing, words[word : word + own])
        word += own
    # Behind the values a bit for each column: whether it is NULL.
    words[width:] = 0
    for i, column in enumerate(columns):
        if column.valid is not None:
            flags = words[width + i // _FLAGS]
            flags |= (~column.valid).astype(np.int64) << (i % _FLAGS)
    if rows_are_exact([column.type for column in columns], hashing):
        return words
    out = np.empty((2, n), np.int64)
    encoding.hash_words(words, hashing.array, out)
    return out


def rows_are_exact(types: Sequence[t.SqlType], hashing: Hashing) -> bool:
    """Whether rows of these types whose keys are equal are equal."""
    return len(types) == 1 and _width(types[0]) < hashing.exact_words


def order_words(columns: Sequence[Column], keys: Sequence[SortKey]) -> Ints:
    """Words int64[w, n] of an order key: columns[i] sorted as keys[i] says.

    The width depends on the types alone. At least one word.
    """
    words: list[Ints] = []
    for column, key in zip(columns, keys, strict=True):
        nulls = _null_word(column)
        words.append(nulls if key.nulls_first else 1 - nulls)
        if is_textual(column.type):
            offsets, text = text_buffers(column)
            parts = np.empty((_PREFIX_WORDS, len(column)), np.int64)
            encoding.text_prefixes(offsets, text, parts)
            values = _masked(list(parts), column)
        elif isinstance(column.type, t.DecimalType) and not column.type.narrow:
            pair = widen(column).values
            values = _masked([pair[:, 1], pair[:, 0] ^ np.int64(-(2**63))], column)
        else:
            values = [_value_word(column)]
        words.extend(~v if key.descending else v for v in values)
        if is_textual(column.type):
            break
    if not words:
        return np.zeros((1, len(columns[0]) if columns else 0), np.int64)
    return _stacked(words)


def _stacked(words: Sequence[Ints]) -> Ints:
    """Words int64[n] each, one under the other."""
    out = np.empty((len(words), len(words[0])), np.int64)
    for row, word in zip(out, words, strict=True):
        row[:] = word
    return out


def order_width(types: Sequence[t.SqlType]) -> int:
    """Words of an order key over columns of these types."""
    width = 0
    for kind in types:
        if is_textual(kind):
            return width + 1 + _PREFIX_WORDS
        width += 2 if not (isinstance(kind, t.DecimalType) and not kind.narrow) else 3
    return max(width, 1)


def order_is_exact(types: Sequence[t.SqlType]) -> bool:
    """Whether equal order keys over these types prove equal values."""
    return not any(is_textual(kind) for kind in types)


def _width(kind: t.SqlType) -> int:
    """Words of a value of the type."""
    return 2 if is_textual(kind) or (isinstance(kind, t.DecimalType) and not kind.narrow) else 1


def _null_word(column: Column) -> Ints:
    if column.valid is None:
        return ones(len(column))
    return column.valid.astype(np.int64)


def _value_word(column: Column) -> Ints:
    """The one word of each value; that of NULLs is 0, so that a null-safe key has one for them."""
    kind = column.type
    if isinstance(kind, t.DecimalType):
        slim = narrow(column)
        assert slim is not None, "18 digits fit 64 bits"
        word = slim.values
    elif isinstance(kind, t.FloatType):
        word = _float_words(column.values)
    elif column.values.dtype == np.bool_:
        word = column.values.astype(np.int64)
    else:
        word = column.values
    return _masked([word], column)[0]


def _words_into(column: Column | Worded, hashing: Hashing, out: Ints) -> None:
    """The words of each value into out int64[w, n]; those of NULLs are 0."""
    if isinstance(column, Worded):
        out[:] = column.words
        return
    if is_textual(column.type):
        offsets, text = text_buffers(column)
        encoding.text_words(offsets, text, hashing.array, out)
    elif len(out) == 2:
        out[:] = widen(column).values.T
    else:
        out[0] = _value_word(column)
        return
    if column.valid is not None:
        out *= column.valid


def _masked(words: list[Ints], column: Column) -> list[Ints]:
    """The words with 0 for NULLs, under which any harmless value may lie."""
    if column.valid is None:
        return words
    return [np.where(column.valid, w, 0) for w in words]


def _float_words(values: np.ndarray[tuple[int], np.dtype[np.float64]]) -> Ints:
    """Order-preserving bits of doubles: -0.0 as 0.0, every NaN alike and greatest."""
    doubles = values.astype(np.float64) + 0.0
    doubles = np.where(np.isnan(doubles), np.nan, doubles)
    bits = doubles.view(np.int64)
    return np.where(bits < 0, bits ^ np.int64(2**63 - 1), bits)


def text_buffers(column: Column) -> tuple[Any, Any]:
    """Arrow's offsets int32[n + 1] and bytes uint8[m] of a column of texts."""
    array = column.values
    _, raw_offsets, raw_text = array.buffers()
    if len(array) == 0:
        return np.zeros(1, np.int32), np.empty(0, np.uint8)
    offsets = np.frombuffer(raw_offsets, np.int32, len(array) + 1, array.offset * 4)
    has_text = raw_text is not None and raw_text.size
    text = np.frombuffer(raw_text, np.uint8) if has_text else np.empty(0, np.uint8)
    return offsets, text
