"""Keys that are equal are equal values: what a hash confuses is told apart here.

An index finds candidates by their words; values decide. Words of numbers, dates and short texts
prove what they say, and the lowest bit of the words of a text tells where they do not. There, and
where whole rows are hashed, the values are compared: of rows that a step takes to have one key with
each other, and of a key with the rows found for it. Nearly always they agree, and that was all.
Where they do not, the operation goes on with further words that tell its own rows apart, or looks
at all rows that an index has under the words. So an index may hold several values under one key.

Invariant: what comes out depends on values alone, whatever collides.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from operators.flight.column import Bools, Column, Ints
from operators.kernels import encoding
from operators.kernels.versions import NEVER
from operators.state import encode
from operators.state.arrangement import ArrangementState, IndexReader, Matches
from operators.state.probes import Probes
from operators.state.spine import keys_at

#: The values of a key's column, by number, at positions int64[m] among the keys.
Values = Callable[[int, Ints], Column]


def told_apart(
    words: Ints, columns: Sequence[Column], hashed: encode.Hashed, order: Ints, starts: Ints
) -> Ints | None:
    """None if the rows of each run of equal keys have equal values; else words that are equal where
    words and values are, in the order of `words`.

    Shapes: words int64[w, n], made of `columns`, of which `hashed` may be hashes; order int64[n]
    sorts them, starts int64[runs + 1]. Cost: a look at what is hashed and not alone.
    """
    runs = len(starts) - 1
    if runs < len(order) and not all(
        _runs_agree(columns[c], None if w < 0 else words[w], order, starts) for c, w in hashed
    ):
        return np.vstack((words, encode.local_words([columns[c] for c, _ in hashed])))
    return None


def _runs_agree(column: Column, flags: Ints | None, order: Ints, starts: Ints) -> bool:
    """Whether the values of each run are equal, where `flags`, if there are any, say so."""
    if flags is not None:
        offsets, text = encode.text_buffers(column)
        return bool(encoding.runs_agree(order, starts, flags, offsets, text))
    again = np.ones(len(order), np.bool_)
    again[starts[:-1]] = False
    at = np.flatnonzero(again)
    left, right = column.take(order[at - 1]), column.take(order[at])
    return bool(encode.equal_values(left, right).all())


def differing(
    index: IndexReader, words: Ints | Probes, values: Values, found: Matches
) -> Bools | None:
    """Pairs of a key and a row found under its words whose values differ, bool[pairs]; None if
    there are none.

    Shapes: words int64[w, n] of the index's leading columns; `values` of those of column c. Cost:
    a look at the pairs with a hash: at the columns that are long texts; at all, of whole rows.
    """
    differs: Bools | None = None
    for column, word in index.hashed:
        probe, row, at = found.probe, found.row, None
        if word >= 0:
            flags = _hashed_keys(words, word)
            if flags is None:
                continue
            at = np.flatnonzero(flags[probe])
            probe, row = probe[at], row[at]
        if len(row) == 0:
            continue
        stored = index.relation.gather(index.columns[column], row)
        unequal = ~encode.equal_values(values(column, probe), stored)
        if not unequal.any():
            continue
        if at is not None:
            every = np.zeros(len(found.row), np.bool_)
            every[at] = unequal
            unequal = every
        differs = unequal if differs is None else differs | unequal
    return differs


def _hashed_keys(words: Ints | Probes, word: int) -> Bools | None:
    """The keys that are hashed, bool[n], as `word` tells; None if none is, or if they are keys of
    fewer words."""
    keys = words.keys[:, : words.distinct] if isinstance(words, Probes) else words
    if word >= len(keys) or not (keys[word] & encoding.HASHED).any():
        return None
    each = words.word(word) if isinstance(words, Probes) else words[word]
    flags: Bools = each & encoding.HASHED != 0
    return flags


def matching(index: IndexReader, words: Ints | Probes, values: Values, found: Matches) -> Matches:
    """The pairs of a key and a row found under its words whose values are equal."""
    differs = differing(index, words, values, found)
    return found if differs is None else _picked(found, ~differs)


def living(
    index: ArrangementState, words: Ints, values: Values, limit: Ints, has_them: bool = False
) -> Matches:
    """Rows alive now with each key, limit[p] of key p or all that there are, or more.

    Shapes: words int64[w, n] in the order of order.sort_keys, limit int64[n]. `has_them`: each key
    that loses copies has them. Then a row found alone needs no look: it is a copy of the key, or
    nobody takes it. Cost: as ArrangementState.living, and `differing`.
    """
    n = len(limit)
    left = np.zeros(n, np.bool_)
    found = index.living(words, limit, np.arange(n), left)
    if not index.hashed or len(found.row) == 0:
        return found
    doubtful = found
    if has_them:
        if n == len(found.row) == 1 and not left[0]:
            return found
        several = left | (np.bincount(found.probe, minlength=n) > 1)
        if not several.any():
            return found
        doubtful = _picked(found, several[found.probe])
    differs = differing(index, words, values, doubtful)
    if differs is None:
        return found
    # The rows of those keys, as many as there are, and the others' as they were found.
    sought = np.unique(doubtful.probe[differs])
    among = np.zeros(n, np.bool_)
    among[sought] = True
    rest = _picked(found, ~among[found.probe])
    now = np.full(len(sought), NEVER - 1, np.int64)
    every = index.lookup(keys_at(words, sought), now, True, order=np.arange(len(sought)))
    every = matching(index, words, values, Matches(sought[every.probe], every.row))
    return Matches(np.concatenate((rest.probe, every.probe)), np.concatenate((rest.row, every.row)))


def _picked(found: Matches, keep: Bools) -> Matches:
    return Matches(found.probe[keep], found.row[keep])
