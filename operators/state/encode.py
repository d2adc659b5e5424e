"""Keys as words: what indexes sort by and compare.

An equality key is the words of its columns in turn: one exact, order-preserving int64 for any type
that fits 64 bits (booleans, integers, dates, timestamps, decimals of at most 18 digits, floats
with -0.0 as 0.0 and one NaN), two hash words for the rest (128 bits; the real value stays in the
row). A null-safe key has one more word behind each column that may be NULL: 0 for NULL, else 1.

An order key sorts as SQL's ORDER BY does: the same words, complemented where descending, behind a
word that places NULLs; a text contributes its first 16 bytes and ends the key, for words after an
inexact one would not sort right. Ties are compared through the row (see operators.topk).

Invariant: equal values have equal words; unequal values have unequal words, but for a collision of
128-bit hashes; an order key never sorts two rows against their SQL order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from operators.column import Column, Ints, is_textual, narrow, widen
from operators.kernels import encoding
from planner import types as t
from planner.algebra import SortKey

_PREFIX_WORDS = 2


def equality_words(columns: Sequence[Column], nulls: Sequence[bool]) -> Ints:
    """Words int64[w, n] of an equality key; nulls[i] says whether column i has a NULL word.

    Columns without one must have no NULLs, or their rows must be left out (see `not_null`).
    """
    if len(columns) == 1 and not nulls[0] and not _hashed(columns[0].type):
        return np.ascontiguousarray(_value_word(columns[0])).reshape(1, -1)
    out = np.empty((key_width([c.type for c in columns], nulls), len(columns[0])), np.int64)
    word = 0
    for column, has_null_word in zip(columns, nulls, strict=True):
        if _hashed(column.type):
            _hash_into(column, out[word : word + 2])
            word += 2
        else:
            out[word] = _value_word(column)
            word += 1
        if has_null_word:
            out[word] = 1 if column.valid is None else column.valid
            word += 1
    return out


def key_width(types: Sequence[t.SqlType], nulls: Sequence[bool]) -> int:
    """Words of an equality key over columns of these types."""
    pairs = zip(types, nulls, strict=True)
    return sum((2 if _hashed(kind) else 1) + has_null_word for kind, has_null_word in pairs)


def not_null(columns: Sequence[Column]) -> np.ndarray[tuple[int], np.dtype[np.bool_]] | None:
    """Mask of rows without NULL in any of the columns, or None where no row has one."""
    mask = None
    for column in columns:
        if column.valid is not None:
            mask = column.valid if mask is None else mask & column.valid
    return mask


def row_hash(columns: Sequence[Column]) -> Ints:
    """128-bit hash of whole rows, int64[2, n]; NULL is a value of its own."""
    words = equality_words(columns, [True] * len(columns))
    out = np.empty((2, words.shape[1]), np.int64)
    encoding.hash_words(words, out)
    return out


def order_words(columns: Sequence[Column], keys: Sequence[SortKey]) -> Ints:
    """Words int64[w, n] of an order key: columns[i] sorted as keys[i] says.

    The width depends on the types alone. At least one word.
    """
    words: list[Ints] = []
    for column, key in zip(columns, keys, strict=True):
        nulls = _null_word(column)
        words.append(nulls if key.nulls_first else 1 - nulls)
        if is_textual(column.type):
            offsets, text = _text_buffers(column)
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
    return np.stack(words)


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


def _hashed(kind: t.SqlType) -> bool:
    return is_textual(kind) or (isinstance(kind, t.DecimalType) and not kind.narrow)


def _null_word(column: Column) -> Ints:
    if column.valid is None:
        return np.ones(len(column), np.int64)
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


def _hash_into(column: Column, out: Ints) -> None:
    """The hashes of texts or wide decimals into out int64[2, n]; that of NULLs is 0."""
    if is_textual(column.type):
        offsets, text = _text_buffers(column)
        encoding.hash_texts(offsets, text, out)
    else:
        encoding.hash_words(np.ascontiguousarray(widen(column).values.T), out)
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


def _text_buffers(column: Column) -> tuple[Any, Any]:
    array = column.values
    _, raw_offsets, raw_text = array.buffers()
    if len(array) == 0:
        return np.zeros(1, np.int32), np.empty(0, np.uint8)
    offsets = np.frombuffer(raw_offsets, np.int32, len(array) + 1, array.offset * 4)
    has_text = raw_text is not None and raw_text.size
    text = np.frombuffer(raw_text, np.uint8) if has_text else np.empty(0, np.uint8)
    return offsets, text
