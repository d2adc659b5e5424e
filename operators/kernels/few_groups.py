"""Kernels of the group operator for few rows at one time: what they add to which groups, and what
becomes of the groups' rows.

Rows are numbered by their keys through a hash table that has room for all of them. The group of a
key is sought by itself in each batch of the index. See `operators.kernels.grouping` for modes and
words of accumulators.
"""

from __future__ import annotations

import numpy as np

from operators.kernels.encoding import HASHED
from operators.kernels.grouping import (
    NOTHING,
    WIDER,
    _add,
    _add_words,
    _empty_table,
    _scaled,
)
from operators.kernels.jit import (
    BOOL,
    BOOLS2_OUT,
    INT64,
    INTS,
    INTS2,
    INTS2_OUT,
    INTS_OUT,
    kernel,
)
from operators.kernels.lookup import living_of
from operators.kernels.memory import BLOCK_BITS, load_i64, place

#: What an accumulator does with its argument.
COUNT_ROWS, COUNT, SUM = range(3)
#: What is known of an argument: it may be NULL; it has a second word, in the register behind.
MAY_BE_NULL, TWO_WORDS = 1, 2
#: Instead of how many groups there are: keys are hashed.
GIVE_UP = np.int64(-1)
_S32 = np.uint64(32)
_MIX = np.uint64(0x9E3779B97F4A7C15)


@kernel
def _same_key(words, i, j):
    for w in range(words.shape[0]):
        if words[w, i] != words[w, j]:
            return False
    return True


@kernel
def _number(words, number, first):
    """number[i] = the number of row i's key in order of appearance; first[g] = its first row."""
    n = words.shape[1]
    size = np.int64(16)
    while size < 2 * n:
        size *= 2
    table = _empty_table(size)
    mask = np.uint64(size - 1)
    count = np.int64(0)
    for i in range(n):
        if i > 0 and _same_key(words, i, i - 1):
            number[i] = number[i - 1]
            continue
        h = np.uint64(words[0, i]) * _MIX
        for w in range(1, words.shape[0]):
            h = ((h ^ (h >> _S32)) ^ np.uint64(words[w, i])) * _MIX
        slot = (h ^ (h >> _S32)) & mask
        found = np.int64(table[slot])
        while found >= 0 and not _same_key(words, first[found], i):
            slot = (slot + np.uint64(1)) & mask
            found = np.int64(table[slot])
        if found < 0:
            found = count
            table[slot] = count
            first[count] = i
            count += 1
        number[i] = found
    return count


@kernel
def _sum(number, groups, diff, args, none, register, known, wider, word, change):
    """change[word:, g] = the sum of an argument over the rows of group g, times their diffs."""
    # Halves of the values whose diff is 1 or -1 add up without a carry.
    lower = np.zeros(groups, np.int64)
    upper = np.zeros(groups, np.int64)
    for i in range(number.shape[0]):
        if known & MAY_BE_NULL and none[register, i]:
            continue
        g = number[i]
        value = args[register, i]
        high = args[register + 1, i] if known & TWO_WORDS else value >> 63
        d = diff[i]
        if high == value >> 63 and d == 1:
            lower[g] += value & 0xFFFFFFFF
            upper[g] += value >> 32
        elif high == value >> 63 and d == -1:
            lower[g] -= value & 0xFFFFFFFF
            upper[g] -= value >> 32
        else:
            a, b, c = _scaled(value, high, d)
            top = change[word + 2, g] if wider else np.int64(0)
            a, b, c = _add(change[word, g], change[word + 1, g], top, a, b, c)
            change[word, g], change[word + 1, g] = a, b
            if wider:
                change[word + 2, g] = c
    for g in range(groups):
        top = change[word + 2, g] if wider else np.int64(0)
        a, b, c = _add(
            change[word, g],
            change[word + 1, g],
            top,
            upper[g] << 32,
            upper[g] >> 32,
            upper[g] >> 63,
        )
        a, b, c = _add(a, b, c, lower[g], lower[g] >> 63, lower[g] >> 63)
        change[word, g], change[word + 1, g] = a, b
        if wider:
            change[word + 2, g] = c


@kernel(
    signatures=[
        (INTS2, INTS, INTS, INTS2, BOOLS2_OUT, INTS, INTS2, INTS, INTS_OUT, INTS2_OUT),
    ]
)
def add_up(words, texts, diff, args, none, known, adds, mode, first, change):
    """What the rows of each key add to its group.

    Shapes: words int64[w, n] are keys, in which `texts` int64[t] numbers the words that say whether
    a text is hashed; diff int64[n]; args int64[r, n]: arguments, with masks none bool[r, n] of
    NULLs, and known int64[r] of each; adds int64[a, 3] of each accumulator: what it does, its
    argument, its first word; mode int64[m]. Out: first int64[n]: the first row of each group;
    change int64[m, n]: what is added to its words. Returns: how many groups, and their keys
    int64[w, groups]; or GIVE_UP. Cost: O(n).
    """
    n = words.shape[1]
    for t in range(texts.shape[0]):
        for i in range(n):
            if words[texts[t], i] & HASHED:
                return GIVE_UP, np.empty((0, 0), np.int64)
    number = np.empty(n, np.int64)
    groups = _number(words, number, first)
    for g in range(groups):
        for w in range(mode.shape[0]):
            change[w, g] = 0
    for a in range(adds.shape[0]):
        what, register, word = adds[a, 0], adds[a, 1], adds[a, 2]
        if what == COUNT_ROWS:
            for i in range(n):
                change[word, number[i]] += diff[i]
        elif what == COUNT:
            for i in range(n):
                if not none[register, i]:
                    change[word, number[i]] += diff[i]
        else:
            _sum(
                number, groups, diff, args, none, register, known[register],
                mode[word] == WIDER, word, change,
            )  # fmt: skip
    keys = np.empty((words.shape[0], groups), np.int64)
    for w in range(words.shape[0]):
        for g in range(groups):
            keys[w, g] = words[w, first[g]]
    return groups, keys


@kernel(
    signatures=[
        (
            INTS2,
            INTS,
            INTS2,
            INTS,
            BOOL,
            INTS_OUT,
            BOOL,
            INTS2,
            INTS2,
            INT64,
            INT64,
            INT64,
            INTS2,
            INTS_OUT,
            INTS2_OUT,
            INTS2_OUT,
            INTS_OUT,
            INTS_OUT,
        )
    ]
)
def replace(
    keys, order, change, mode, always, stored, known, spine, addresses, dead_slot, ids_slot,
    kept_slot, slots, born, totals, pairs, sizes, work,
):  # fmt: skip
    """What becomes of the groups' rows.

    Shapes: keys int64[w, g], which `order` int64[g] sorts, change int64[m, n] as `add_up` made it,
    mode int64[m]; `always`: a group lives at count 0 too; stored int64[g]: the living row of each
    or -1, if these are `known`; else they are sought in the index `spine`. addresses
    int64[all slots, blocks] of the groups' relation, slots as memory.gather_words takes them.
    Out: stored[:deaths]: rows that die, in order of their keys; born int64[g]: the groups that have
    a new row, and totals int64[m, g] its words; pairs int64[2, g]: places in both of a row and the
    one that replaces it; sizes int64[3]: how many die, are born, and are pairs; work: see
    lookup.seek. Returns: -1, or a group whose count would be negative.
    """
    width = mode.shape[0]
    current = np.empty(width, np.int64)
    found = np.empty(1, np.int64)
    killed = np.empty(order.shape[0], np.int64)
    dead, ids, kept = addresses[dead_slot], addresses[ids_slot], addresses[kept_slot]
    deaths = np.int64(0)
    births = np.int64(0)
    paired = np.int64(0)
    for k in range(order.shape[0]):
        g = order[k]
        prior = stored[g] if known else NOTHING
        if not known:
            there, _ = living_of(spine, keys, g, 1, dead, found, 0, work)
            if there > 0:
                prior = found[0]
        for w in range(width):
            current[w] = 0
        same = not (always and prior == NOTHING)
        for w in range(width):
            same &= change[w, g] == 0
        if same:
            continue
        if prior != NOTHING:
            block, at = prior >> BLOCK_BITS, place(prior, ids, kept)
            for s in range(slots.shape[0]):
                address, words = addresses[slots[s, 0], block], slots[s, 1]
                for w in range(words):
                    current[slots[s, 2] + w] = load_i64(address, words * at + w)
        _add_words(current, change, mode, g)
        if current[0] < 0:
            return np.int64(g)
        lives = always or current[0] > 0
        if prior != NOTHING:
            killed[deaths] = prior
            deaths += 1
        if lives:
            born[births] = g
            for w in range(width):
                totals[w, births] = current[w]
            if prior != NOTHING:
                pairs[0, paired], pairs[1, paired] = deaths - 1, births
                paired += 1
            births += 1
    for i in range(deaths):
        stored[i] = killed[i]
    sizes[0], sizes[1], sizes[2] = deaths, births, paired
    return np.int64(-1)
