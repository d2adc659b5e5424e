"""All rounds of a small change of a loop, in one kernel (see operators.nodes.fused).

A loop's *sites* are the relations that rounds change: the variable is site 0, the timelines inside
follow, inputs before consumers. A site has keys; of each key there are *counted* rows, how often
the body makes what in which rounds, and *held* rows, what of it is there when. Both lie in
relations; a key's are read from there when something comes to it first, and changed here alone:
nothing is written.

The program is numbers. A *path* leads from a site, or from what changed outside, over operations on
registers to the counted rows of a site: JOIN looks a key up in an index and goes on with each row
that is found, TEST goes on where an expression is TRUE, SET computes a register, EMIT counts a row.
Expressions are in postfix order, with SQL's NULLs; whatever would fail, or is not done here, ends
the kernel with GIVE_UP.

Every array is int64. A row of words has a mask behind it: bit i is set where word i is NULL, which
is 0 then.

Invariant: what came out is as if every round had been run by itself; who is told otherwise has read
nothing but what there was.
"""

from __future__ import annotations

import numpy as np

from operators.kernels.jit import INT64, INTS, INTS2, INTS2_OUT, INTS_OUT, kernel
from operators.kernels.memory import BLOCK_BITS, BLOCK_MASK, load_i32, load_i64, load_u8, load_u16
from operators.kernels.sorting import bucket_of

#: How the kernel ends: all is done; more room is needed; this is not for it; rounds have so many
#: keys that operators, which sort them, are faster.
DONE, FULL, GIVE_UP, LARGE = 0, 1, 2, 3
#: Operations.
JOIN, TEST, SET, EMIT = 0, 1, 2, 3
#: What expressions are made of.
(
    REGISTER, CONSTANT, NULL, ADD, SUBTRACT, MULTIPLY, REMAINDER, NEGATE, EQ, NE, LT, LE, GT, GE,
    SAME, AND, OR, NOT, IS_NULL, LEAST, GREATEST, IF, COALESCE, CAST, MAGNITUDE,
) = tuple(range(25))  # fmt: skip
#: Accumulators.
LEAST_OF, GREATEST_OF, COUNT_OF, COUNT_ROWS, SUM_OF = 0, 1, 2, 3, 4
#: Columns of the table of relations.
R_BASE, R_STRIDE, R_DEAD, R_BORN, R_BORN_AT, R_BIRTHS, R_DIED, R_DIED_AT, R_DEATHS, R_TIME = range(
    10
)
#: Columns of the table of indexes.
I_TABLE, I_BATCHES, I_RELATION = range(3)
#: Columns of the table of sites. Masks say which key columns have a word for NULL in the index.
(
    S_STRETCHES, S_KEYS, S_RESTS, S_BEGIN, S_COUNTED, S_COUNTED_NULLS, S_COUNTED_LOADS, S_HELDS,
    S_HELD, S_HELD_NULLS, S_HELD_LOADS, S_VALUES, S_MANY_VALUES, S_COUNTS,
) = range(14)  # fmt: skip
#: Columns of the table of paths, and of that of operations.
P_SOURCE, P_BEGIN, P_LOADS, P_MANY_LOADS = range(4)
(O_KIND, O_A, O_B, O_C, O_D, O_E, O_F, O_G) = range(8)
#: What is counted: keys, counted and held rows, rounds that wait, rows that change; entries looked
#: at, and how many at most; rounds, and changes of the variable.
(
    C_KEYS, C_COUNTED, C_HELD, C_WAITING, C_CHANGES, C_ENTRIES, C_MOST, C_ROUNDS, C_CHANGED,
) = range(9)  # fmt: skip
#: The most joins of a path, key words of an index, and nested operands of an expression.
MOST_JOINS, MOST_WORDS, MOST_OPERANDS = 8, 24, 32
FOREVER = np.int64(1 << 40)
_KEY_BITS = np.int64(28)
_KEY_MASK = np.int64((1 << 28) - 1)
_SITE_BITS = np.int64(6)
_SITE_MASK = np.int64(63)
_NOWHERE = np.int64(-(2**62))
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
#: Rounds are large that have so many keys each, counted from so many on. An entry of an index that
#: is looked at counts a quarter of a key.
_LARGE_ROUND = np.int64(1 << 10)
_LARGE_AT_ALL = np.int64(1 << 12)


@kernel
def _mixed(digest, word):
    return ((digest ^ (digest >> np.uint64(29))) ^ np.uint64(word)) * _GOLDEN


# -- what is stored ------------------------------------------------------------------------------


@kernel
def _found(address, n, wanted):
    """First position of the ascending words at `address` whose word is >= wanted."""
    left, right = np.int64(0), np.int64(n)
    while left < right:
        middle = (left + right) >> 1
        if load_i64(address, middle) < wanted:
            left = middle + 1
        else:
            right = middle
    return left


@kernel
def _visible(relations, r, row, as_of):
    """Whether a row is there at the time of its relation's table entry, or just before."""
    time = relations[r, R_TIME]
    births = relations[r, R_BIRTHS]
    if births != 0 and row >= load_i64(relations[r, R_BORN], 0):
        at = _found(relations[r, R_BORN], births, row + 1) - 1
        born = load_i64(relations[r, R_BORN_AT], at)
        if born > time or (born == time and as_of == 0):
            return False
    bits = load_i64(
        relations[r, R_BASE], relations[r, R_DEAD] * relations[r, R_STRIDE] + (row >> BLOCK_BITS)
    )
    low = row & BLOCK_MASK
    if bits != 0 and (np.int64(load_u8(bits, low >> 3)) >> (low & 7)) & 1 == 1:
        at = _found(relations[r, R_DIED], relations[r, R_DEATHS], row)
        if at == relations[r, R_DEATHS] or load_i64(relations[r, R_DIED], at) != row:
            return False
        died = load_i64(relations[r, R_DIED_AT], at)
        return time < died or (time == died and as_of == 0)
    return True


@kernel
def _place(relations, r, row):
    """Where a row is in its block's buffers."""
    base, stride = relations[r, R_BASE], relations[r, R_STRIDE]
    dead, block, low = relations[r, R_DEAD], row >> BLOCK_BITS, row & BLOCK_MASK
    ids = load_i64(base, (dead + 1) * stride + block)
    if ids == 0:
        return low
    left, right = np.int64(0), load_i64(base, (dead + 2) * stride + block)
    while left < right:
        middle = (left + right) >> 1
        if np.int64(load_u16(ids, middle)) < low:
            left = middle + 1
        else:
            right = middle
    return left


@kernel
def _load(relations, r, slot, size, block, at, out, i):
    """Put a value into out[i]; returns 1 if it is NULL, and 2 if it is no word."""
    base, stride = relations[r, R_BASE], relations[r, R_STRIDE]
    valid = load_i64(base, (slot + 1) * stride + block)
    if valid != 0 and load_u8(valid, at) == 0:
        out[i] = 0
        return 1
    values = load_i64(base, slot * stride + block)
    if size == 8:
        out[i] = load_i64(values, at)
    elif size == 16:
        out[i] = load_i64(values, 2 * at)
        if load_i64(values, 2 * at + 1) != out[i] >> 63:
            return 2
    elif size == 4:
        out[i] = np.int64(load_i32(values, at))
    else:
        out[i] = np.int64(load_u8(values, at))
    return 0


@kernel
def _compared(address, stride, i, key, words):
    """-1, 0 or 1 as entry i's key begins before, with or after `key`."""
    for w in range(words):
        x = load_i64(address, w * stride + i)
        if x < key[w]:
            return -1
        if x > key[w]:
            return 1
    return 0


@kernel
def _next(indexes, index, cursor, key, words, seeks):
    """The next row under `key`, or -1; cursor int64[3] is its batch, entry and last entry, and
    begins with -1, 0, 0. Searches of batches are counted in seeks[index]."""
    table = indexes[index, I_TABLE]
    while True:
        batch = cursor[0]
        if batch >= 0 and cursor[1] < cursor[2]:
            at = cursor[1]
            keys, n = load_i64(table, 4 * batch), load_i64(table, 4 * batch + 3)
            if _compared(keys, n, at, key, words) == 0:
                cursor[1] = at + 1
                return load_i64(load_i64(table, 4 * batch + 1), at)
        batch += 1
        if batch == indexes[index, I_BATCHES]:
            return np.int64(-1)
        keys, n = load_i64(table, 4 * batch), load_i64(table, 4 * batch + 3)
        seeks[index] += 1
        offsets, bucket = load_i64(table, 4 * batch + 2), bucket_of(key[0])
        left, end = load_i64(offsets, bucket), load_i64(offsets, bucket + 1)
        right = end
        while left < right:
            middle = (left + right) >> 1
            if _compared(keys, n, middle, key, words) < 0:
                left = middle + 1
            else:
                right = middle
        cursor[0], cursor[1], cursor[2] = batch, left, end


# -- expressions ---------------------------------------------------------------------------------


@kernel
def _compute(code, begin, end, values, nulls, stack, none):
    """The value of an expression into stack[0], and whether it is NULL into none[0]; returns
    whether it could be computed."""
    top = np.int64(0)
    at = begin
    while at < end:
        kind, given = code[at], code[at + 1]
        at += 2
        if kind <= NULL:
            if kind == REGISTER:
                stack[top], none[top] = values[given], nulls[given]
            else:
                stack[top], none[top] = given, np.int64(kind == NULL)
            top += 1
            continue
        if kind == NOT:
            stack[top - 1] = 1 - stack[top - 1]
        elif kind == IS_NULL:
            stack[top - 1], none[top - 1] = none[top - 1], 0
        elif kind == MAGNITUDE:
            bits, rest = np.int64(0), stack[top - 1]
            while rest > 0:
                bits, rest = bits + 1, rest >> 1
            stack[top - 1] = bits
        elif kind == NEGATE or kind == CAST:
            if kind == NEGATE:
                if stack[top - 1] == _NOWHERE * 2:
                    return False
                stack[top - 1] = -stack[top - 1]
            if given < 64 and none[top - 1] == 0:
                bound = np.int64(1) << (given - 1)
                if stack[top - 1] >= bound or stack[top - 1] < -bound:
                    return False
        elif kind == IF:
            top -= 2
            if none[top - 1] == 0 and stack[top - 1] == 1:
                stack[top - 1], none[top - 1] = stack[top], none[top]
            else:
                stack[top - 1], none[top - 1] = stack[top + 1], none[top + 1]
        else:
            top -= 1
            a, b = stack[top - 1], stack[top]
            no_a, no_b = none[top - 1], none[top]
            either = no_a | no_b
            if kind == SAME:
                stack[top - 1] = np.int64(no_a == no_b and (no_a == 1 or a == b))
                none[top - 1] = 0
            elif kind == AND or kind == OR:
                # What decides by itself.
                alone = np.int64(kind == OR)
                if (no_a == 0 and a == alone) or (no_b == 0 and b == alone):
                    stack[top - 1], none[top - 1] = alone, 0
                else:
                    stack[top - 1], none[top - 1] = 1 - alone, either
            elif kind == COALESCE or ((kind == LEAST or kind == GREATEST) and either == 1):
                if no_a == 1:
                    stack[top - 1], none[top - 1] = b, no_b
            elif either == 1:
                stack[top - 1], none[top - 1] = 0, 1
            elif kind == LEAST:
                stack[top - 1] = min(a, b)
            elif kind == GREATEST:
                stack[top - 1] = max(a, b)
            elif kind == EQ:
                stack[top - 1] = np.int64(a == b)
            elif kind == NE:
                stack[top - 1] = np.int64(a != b)
            elif kind == LT:
                stack[top - 1] = np.int64(a < b)
            elif kind == LE:
                stack[top - 1] = np.int64(a <= b)
            elif kind == GT:
                stack[top - 1] = np.int64(a > b)
            elif kind == GE:
                stack[top - 1] = np.int64(a >= b)
            else:
                if kind == MULTIPLY:
                    most = np.int64(1) << 31
                    if a >= most or b >= most or a <= -most or b <= -most:
                        return False
                    result = a * b
                elif kind == REMAINDER:
                    if b <= 0:
                        return False
                    # The sign is that of a.
                    result = a % b
                    if a < 0 and result != 0:
                        result -= b
                elif kind == ADD:
                    result = a + b
                    if ((a ^ result) & (b ^ result)) < 0:
                        return False
                else:
                    result = a - b
                    if ((a ^ b) & (a ^ result)) < 0:
                        return False
                if given < 64:
                    bound = np.int64(1) << (given - 1)
                    if result >= bound or result < -bound:
                        return False
                stack[top - 1] = result
        if none[top - 1] == 1:
            stack[top - 1] = 0
    return True


# -- keys, and their rows ------------------------------------------------------------------------


@kernel
def _words_of(word_nulls, keys, row, mask, out):
    """The words of a key of so many columns in an index, into `out`; returns how many."""
    words = np.int64(0)
    for i in range(keys):
        out[words] = row[i]
        words += 1
        if (word_nulls >> i) & 1:
            out[words] = 1 - ((mask >> i) & 1)
            words += 1
    if words == 0:
        out[0] = 0
        words = np.int64(1)
    return words


@kernel
def _read_key(program, arena, counts, scratch, k):
    """Read what is stored of a new key; returns how that went."""
    relations, indexes, _, _, lists, _, sites, seeks = program
    key_words, keys, counted_words, counted, held_words, held, _, places, _, _ = arena
    site = keys[k, 0]
    n = sites[site, S_KEYS]
    cursor, key = scratch[0], scratch[1]
    mask = key_words[k, key_words.shape[1] - 1]
    for kind in range(2):
        first = kind == 0
        index = sites[site, S_COUNTED if first else S_HELD]
        loads = sites[site, S_COUNTED_LOADS if first else S_HELD_LOADS]
        many = sites[site, S_RESTS if first else S_HELDS]
        nulls = sites[site, S_COUNTED_NULLS if first else S_HELD_NULLS]
        r = indexes[index, I_RELATION]
        words = _words_of(nulls, n, key_words[k], mask, key)
        cursor[0], cursor[1], cursor[2] = -1, 0, 0
        while True:
            row = _next(indexes, index, cursor, key, words, seeks)
            if row < 0:
                break
            counts[C_ENTRIES] += 1
            if not _visible(relations, r, row, np.int64(0)):
                continue
            block, at = row >> BLOCK_BITS, _place(relations, r, row)
            e = counts[C_COUNTED if first else C_HELD]
            if e == (counted if first else held).shape[0]:
                return FULL
            own = counted_words[e] if first else held_words[e]
            missing = np.int64(0)
            for i in range(many):
                went = _load(
                    relations, r, lists[loads + 2 * i], lists[loads + 2 * i + 1], block, at, own, i
                )
                if went == 2:
                    return GIVE_UP
                missing |= np.int64(went) << i
            own[own.shape[0] - 1] = missing
            if first:
                last = loads + 2 * many
                _load(relations, r, lists[last], lists[last + 1], block, at, key, MOST_WORDS - 1)
                number = key[MOST_WORDS - 1]
                counted[e, 0], counted[e, 1] = k, keys[k, 1]
                counted[e, 2], counted[e, 3], counted[e, 4] = number, number, row
                keys[k, 1] = e
                counts[C_COUNTED] += 1
                p = _place_of(places, counted_words, counted, k, own, many)
                places[p] = e
            else:
                held[e, 0], held[e, 1], held[e, 2], held[e, 3] = k, keys[k, 2], row, 1
                keys[k, 2] = e
                counts[C_HELD] += 1
    if counts[C_ENTRIES] > counts[C_MOST]:
        return GIVE_UP
    return DONE


@kernel
def _place_of(places, words, rows, k, row, many):
    """Where the number of key k's counted row with these words is, or is to be put."""
    mask = row[row.shape[0] - 1]
    digest = _mixed(np.uint64(k), mask)
    for i in range(many):
        digest = _mixed(digest, row[i])
    p = np.int64(digest >> np.uint64(32)) & (places.shape[0] - 1)
    while places[p] >= 0:
        e = places[p]
        same = rows[e, 0] == k and words[e, words.shape[1] - 1] == mask
        for i in range(many):
            same = same and words[e, i] == row[i]
        if same:
            return p
        p = (p + 1) & (places.shape[0] - 1)
    return p


@kernel
def _push(waiting, counts, round, site, k):
    """Let a key wait for its round; returns whether there was room."""
    n = counts[C_WAITING]
    if n == waiting.shape[0]:
        return False
    item = ((((round + 1) << _SITE_BITS) | site) << _KEY_BITS) | k
    while n > 0:
        above = (n - 1) >> 1
        if waiting[above] <= item:
            break
        waiting[n] = waiting[above]
        n = above
    waiting[n] = item
    counts[C_WAITING] += 1
    return True


@kernel
def _pop(waiting, counts):
    counts[C_WAITING] -= 1
    n = counts[C_WAITING]
    item = waiting[n]
    at = np.int64(0)
    while True:
        below = 2 * at + 1
        if below >= n:
            break
        if below + 1 < n and waiting[below + 1] < waiting[below]:
            below += 1
        if item <= waiting[below]:
            break
        waiting[at] = waiting[below]
        at = below
    waiting[at] = item


@kernel
def _feed(program, arena, counts, scratch, op, values, nulls, diff, round):
    """Count a row for a site, `diff` times more; returns how that went."""
    _, _, _, ops, lists, _, sites, _ = program
    key_words, keys, counted_words, counted, _, _, table, places, waiting, _ = arena
    site, given = ops[op, O_A], ops[op, O_B]
    n, many = sites[site, S_KEYS], sites[site, S_RESTS]
    # The key.
    k = counts[C_KEYS]
    if k == keys.shape[0]:
        return FULL
    mask, width = np.int64(0), key_words.shape[1] - 1
    digest = _mixed(np.uint64(0), site)
    for i in range(n):
        from_register = lists[given + i]
        key_words[k, i] = values[from_register]
        mask |= nulls[from_register] << i
        digest = _mixed(digest, values[from_register])
    key_words[k, width] = mask
    digest = _mixed(digest, mask)
    p = np.int64(digest >> np.uint64(32)) & (table.shape[0] - 1)
    found = np.int64(-1)
    while table[p] >= 0 and found < 0:
        other = table[p]
        same = keys[other, 0] == site and key_words[other, width] == mask
        for i in range(n):
            same = same and key_words[other, i] == key_words[k, i]
        if same:
            found = other
        p = (p + 1) & (table.shape[0] - 1)
    if found >= 0:
        k = found
    else:
        table[p] = k
        keys[k, 0], keys[k, 1], keys[k, 2], keys[k, 3] = site, -1, -1, _NOWHERE
        counts[C_KEYS] += 1
        went = _read_key(program, arena, counts, scratch, k)
        if went != DONE:
            return went
    # Its counted row.
    e = counts[C_COUNTED]
    if e == counted.shape[0]:
        return FULL
    row, mask = counted_words[e], np.int64(0)
    for i in range(many):
        from_register = lists[given + n + i]
        row[i] = values[from_register]
        mask |= nulls[from_register] << i
    row[row.shape[0] - 1] = mask
    p = _place_of(places, counted_words, counted, k, row, many)
    if places[p] >= 0:
        e = places[p]
    else:
        places[p] = e
        counted[e, 0], counted[e, 1] = k, keys[k, 1]
        counted[e, 2], counted[e, 3], counted[e, 4] = 0, 0, -1
        keys[k, 1] = e
        counts[C_COUNTED] += 1
    before = counted[e, 2]
    counted[e, 2] = before + diff
    if (before > 0) != (before + diff > 0) or sites[site, S_COUNTS] == 1:
        begin = counted_words[e, sites[site, S_BEGIN]]
        at = max(begin, round + 1 if site == 0 else round)
        if keys[k, 3] != at:
            keys[k, 3] = at
            if not _push(waiting, counts, at, site, k):
                return FULL
    return DONE


# -- paths ---------------------------------------------------------------------------------------


@kernel
def _follow(program, arena, counts, scratch, cursors, path, values, nulls, diff, round):
    """Follow a path for one row, whose columns are in the registers; returns how that went."""
    relations, indexes, paths, ops, lists, code, _, seeks = program
    stack, none = scratch[2], scratch[3]
    depth, op = np.int64(0), paths[path, P_BEGIN]
    while True:
        kind = ops[op, O_KIND]
        goes_on = True
        if kind == JOIN:
            # O_A index, O_B the key's list, O_C its columns, O_D as of, O_E bits, O_F the list of
            # columns to load, O_G how many.
            key, words = cursors[2 * depth + 1], np.int64(0)
            for i in range(ops[op, O_C]):
                at = ops[op, O_B] + 3 * i
                register = lists[at]
                key[words] = values[register]
                words += 1
                if nulls[register] == 1 and lists[at + 2] == 0:
                    goes_on = False
                if lists[at + 1] == 1:
                    key[words] = 1 - nulls[register]
                    words += 1
            if words == 0:
                key[0] = 0
                words = np.int64(1)
            if goes_on:
                cursor = cursors[2 * depth]
                cursor[0], cursor[1], cursor[2], cursor[3], cursor[4] = -1, 0, 0, op, words
                depth += 1
            goes_on = False
        elif kind == TEST:
            if not _compute(code, ops[op, O_A], ops[op, O_B], values, nulls, stack, none):
                return GIVE_UP
            goes_on = none[0] == 0 and stack[0] == 1
        elif kind == SET:
            if not _compute(code, ops[op, O_A], ops[op, O_B], values, nulls, stack, none):
                return GIVE_UP
            values[ops[op, O_C]], nulls[ops[op, O_C]] = stack[0], none[0]
        else:
            times = diff * ops[op, O_C]
            for i in range(ops[op, O_E]):
                times *= values[lists[ops[op, O_D] + i]]
            went = _feed(program, arena, counts, scratch, op, values, nulls, times, round)
            if went != DONE:
                return went
            goes_on = False
        if goes_on:
            op += 1
            continue
        while depth > 0:
            cursor, key = cursors[2 * depth - 2], cursors[2 * depth - 1]
            op = cursor[3]
            index = ops[op, O_A]
            r = indexes[index, I_RELATION]
            row = _next(indexes, index, cursor, key, cursor[4], seeks)
            if row < 0:
                depth -= 1
                continue
            counts[C_ENTRIES] += 1
            if counts[C_ENTRIES] > counts[C_MOST]:
                return GIVE_UP
            bits = ops[op, O_E]
            if bits != 0:
                bitmap, low = load_i64(bits, row >> BLOCK_BITS), row & BLOCK_MASK
                if bitmap == 0 or (np.int64(load_u8(bitmap, low >> 3)) >> (low & 7)) & 1 == 0:
                    continue
            if not _visible(relations, r, row, ops[op, O_D]):
                continue
            block, at = row >> BLOCK_BITS, _place(relations, r, row)
            for i in range(ops[op, O_G]):
                load = ops[op, O_F] + 3 * i
                register = lists[load + 2]
                went = _load(
                    relations, r, lists[load], lists[load + 1], block, at, values, register
                )
                nulls[register] = went  # a path reads words
            goes_on = True
            break
        if not goes_on:
            return DONE
        op += 1


# -- rounds --------------------------------------------------------------------------------------


@kernel
def _begins(arena, counts, k, like, many):
    """A held row of key k that is not yet stored, with the words of row `like`, or any where that
    is -1; returns its number, or -1 where there is no room."""
    _, keys, _, _, held_words, held, _, _, _, changes = arena
    e = counts[C_HELD]
    if e == held.shape[0] or counts[C_CHANGES] == changes.shape[0]:
        return np.int64(-1)
    if like >= 0:
        for i in range(held_words.shape[1]):
            held_words[e, i] = held_words[like, i]
    held[e, 0], held[e, 1], held[e, 2], held[e, 3] = k, keys[k, 2], -1, 1
    keys[k, 2] = e
    changes[counts[C_CHANGES], 0], changes[counts[C_CHANGES], 1] = e, 1
    counts[C_CHANGES] += 1
    counts[C_HELD] += 1
    return e


@kernel
def _ends(arena, counts, e):
    """A held row goes; returns whether there was room to say so."""
    _, _, _, _, _, held, _, _, _, changes = arena
    if counts[C_CHANGES] == changes.shape[0]:
        return False
    held[e, 3] = 0
    changes[counts[C_CHANGES], 0], changes[counts[C_CHANGES], 1] = e, -1
    counts[C_CHANGES] += 1
    return True


@kernel
def _advance_first(program, arena, counts, k, round):
    """Look at a row that is there in its first round alone (see operators.nodes.loop._Firsts);
    returns how that went."""
    _, keys, counted_words, counted, held_words, held, _, _, waiting, _ = arena
    made, later = False, FOREVER
    e = keys[k, 1]
    while e >= 0:
        if counted[e, 2] > 0:
            if counted_words[e, 0] <= round:
                made = True
            else:
                later = min(later, counted_words[e, 0])
        e = counted[e, 1]
    e = keys[k, 2]
    while e >= 0 and held[e, 3] == 0:
        e = held[e, 1]
    begin = FOREVER if e < 0 else held_words[e, 0]
    if begin < round:
        return DONE
    if made:
        if begin == round:
            return DONE
        if e >= 0 and not _ends(arena, counts, e):
            return FULL
        e = _begins(arena, counts, k, np.int64(-1), np.int64(1))
        if e < 0:
            return FULL
        held_words[e, 0], held_words[e, held_words.shape[1] - 1] = round, 0
        return DONE
    if begin == round:
        if not _ends(arena, counts, e):
            return FULL
    elif begin < FOREVER:
        return DONE
    if later < FOREVER:
        keys[k, 3] = later
        if not _push(waiting, counts, later, np.int64(0), k):
            return FULL
    return DONE


@kernel
def _values_now(program, arena, k, site, round, out):
    """What the accumulators of a key are in a round, into `out`, the mask last; returns whether it
    has a row then, the round behind it in which some row begins or ends, and whether the values
    could be computed."""
    _, _, _, _, lists, _, sites, _ = program
    key_words, keys, counted_words, counted, _, _, _, _, _, _ = arena
    begins, rests = sites[site, S_BEGIN], sites[site, S_RESTS]
    first, many = sites[site, S_VALUES], sites[site, S_MANY_VALUES]
    for i in range(many):
        out[i] = 0
    # Of those that have a value yet, a bit.
    some, there, coming = np.int64(0), False, FOREVER
    most = np.int64(1) << 31
    e = keys[k, 1]
    while e >= 0:
        if counted[e, 2] > 0:
            begin, end = counted_words[e, begins], counted_words[e, begins + 1]
            if begin > round:
                coming = min(coming, begin)
            elif end > round:
                coming = min(coming, end)
                there = True
                for i in range(many):
                    kind, place = lists[first + 2 * i], lists[first + 2 * i + 1]
                    if kind == COUNT_ROWS:
                        out[i] += counted[e, 2]
                        continue
                    if place < rests:
                        x = counted_words[e, place]
                        missing = counted_words[e, counted_words.shape[1] - 1] >> place
                    else:
                        x = key_words[k, place - rests]
                        missing = key_words[k, key_words.shape[1] - 1] >> (place - rests)
                    if missing & 1:
                        continue
                    if kind == COUNT_OF:
                        out[i] += counted[e, 2]
                    elif kind == SUM_OF:
                        if x >= most or x <= -most or counted[e, 2] >= most:
                            return there, coming, False
                        out[i] += x * counted[e, 2]
                        if out[i] >= most << 30 or out[i] <= -(most << 30):
                            return there, coming, False
                    elif (some >> i) & 1 == 0:
                        out[i] = x
                    elif kind == LEAST_OF:
                        out[i] = min(out[i], x)
                    else:
                        out[i] = max(out[i], x)
                    some |= np.int64(1) << i
        e = counted[e, 1]
    mask = np.int64(0)
    for i in range(many):
        if lists[first + 2 * i] <= GREATEST_OF and (some >> i) & 1 == 0:
            mask |= np.int64(1) << i
    out[out.shape[0] - 1] = mask
    return there, coming, True


@kernel
def _agree(held_words, e, now, many):
    same = held_words[e, held_words.shape[1] - 1] == now[now.shape[0] - 1]
    for i in range(many):
        same = same and held_words[e, i] == now[i]
    return same


@kernel
def _advance_stretches(program, arena, counts, k, site, round, now):
    """Look at a key that has stretches of rounds (see operators.nodes.timeline.Stretches); returns
    how that went."""
    sites = program[6]
    _, keys, _, _, held_words, held, _, _, waiting, _ = arena
    many = sites[site, S_MANY_VALUES]
    last = held_words.shape[1] - 1
    is_there, coming, computed = _values_now(program, arena, k, site, round, now)
    if not computed:
        return GIVE_UP
    here, before, until = np.int64(-1), np.int64(-1), FOREVER
    e = keys[k, 2]
    while e >= 0:
        if held[e, 3] == 1:
            begin, end = held_words[e, many], held_words[e, many + 1]
            if begin > round:
                until = min(until, begin)
                coming = min(coming, begin)
            elif end > round:
                here = e
                coming = min(coming, end)
            elif end == round:
                before = e
        e = held[e, 1]
    if here >= 0:
        until = held_words[here, many + 1]
    goes_on = here >= 0 and held_words[here, many] < round
    as_now = is_there and here >= 0 and _agree(held_words, here, now, many)
    as_before = is_there and before >= 0 and _agree(held_words, before, now, many)
    begin = round
    starts = False
    if goes_on:
        if not as_now:
            if not _ends(arena, counts, here):
                return FULL
            e = _begins(arena, counts, k, here, many)
            if e < 0:
                return FULL
            held_words[e, many + 1] = round
            starts = is_there
    elif as_before:
        begin = held_words[before, many]
        if not _ends(arena, counts, before):
            return FULL
        if here >= 0 and not _ends(arena, counts, here):
            return FULL
        starts = True
    elif not as_now:
        if here >= 0 and not _ends(arena, counts, here):
            return FULL
        starts = is_there
    if starts:
        e = _begins(arena, counts, k, np.int64(-1), many)
        if e < 0:
            return FULL
        for i in range(many):
            held_words[e, i] = now[i]
        held_words[e, many], held_words[e, many + 1] = begin, until
        held_words[e, last] = now[now.shape[0] - 1]
    if coming < FOREVER:
        keys[k, 3] = coming
        if not _push(waiting, counts, coming, site, k):
            return FULL
    return DONE


@kernel(
    signatures=[
        (
            INTS2, INTS2, INTS2, INTS2, INTS, INTS, INTS2, INTS2, INTS2, INT64, INT64,
            INTS_OUT, INTS_OUT, INTS2_OUT, INTS2_OUT, INTS2_OUT, INTS2_OUT, INTS2_OUT, INTS2_OUT,
            INTS_OUT, INTS_OUT, INTS_OUT, INTS2_OUT,
        )
    ]
)  # fmt: skip
def run(
    relations, indexes, paths, ops, lists, code, sites, sources, rows, last, many_registers,
    counts, seeks,
    key_words, keys, counted_words, counted, held_words, held, table, places, waiting, changes,
):  # fmt: skip
    """Run all rounds up to `last` of the changes `rows`: of each a row of words, its mask and how
    often it comes; sources int64[s, 2] are where those of each source outside begin and end.

    Shapes: see the constants of this module for the tables; counts int64[9], 0 but for C_MOST;
    seeks int64[indexes], 0, counts the searches of batches. The others are room: table and places,
    a power of two, are -1.
    Returns: DONE, or FULL, GIVE_UP or LARGE, after which the room means nothing.
    """
    program = (relations, indexes, paths, ops, lists, code, sites, seeks)
    arena = (
        key_words, keys, counted_words, counted, held_words, held, table, places, waiting, changes,
    )  # fmt: skip
    scratch = np.zeros((4, max(MOST_WORDS, MOST_OPERANDS)), np.int64)
    cursors = np.zeros((2 * MOST_JOINS, MOST_WORDS), np.int64)
    registers = np.zeros((2, many_registers), np.int64)
    values, nulls = registers[0], registers[1]
    now = np.zeros(held_words.shape[1], np.int64)
    round, site, many_sites = np.int64(-1), np.int64(-1), sites.shape[0]
    seen = np.int64(-1)
    while True:
        # The changes of one site in one round, or at first of what is outside, along the paths.
        for path in range(paths.shape[0]):
            source, first = paths[path, P_SOURCE], paths[path, P_LOADS]
            begin, end = np.int64(0), np.int64(0)
            if site >= 0 and source == site:
                end = counts[C_CHANGES]
            elif site < 0 and source >= many_sites:
                begin, end = sources[source - many_sites, 0], sources[source - many_sites, 1]
            for at in range(begin, end):
                for i in range(paths[path, P_MANY_LOADS]):
                    place, register = lists[first + 2 * i], lists[first + 2 * i + 1]
                    if site < 0:
                        mask = rows[at, rows.shape[1] - 2]
                        values[register] = rows[at, place]
                    else:
                        e = changes[at, 0]
                        n = sites[site, S_KEYS]
                        if place < n:
                            mask = key_words[held[e, 0], key_words.shape[1] - 1]
                            values[register] = key_words[held[e, 0], place]
                        else:
                            place -= n
                            mask = held_words[e, held_words.shape[1] - 1]
                            values[register] = held_words[e, place]
                    nulls[register] = (mask >> place) & 1
                diff = rows[at, rows.shape[1] - 1] if site < 0 else changes[at, 1]
                went = _follow(
                    program, arena, counts, scratch, cursors, path, values, nulls, diff, round
                )
                if went != DONE:
                    return went
        if site == 0:
            counts[C_CHANGED] += counts[C_CHANGES]
        counts[C_CHANGES] = 0
        # The keys that wait for the next one.
        if counts[C_WAITING] == 0:
            break
        turn = waiting[0] >> _KEY_BITS
        round, site = (turn >> _SITE_BITS) - 1, turn & _SITE_MASK
        if round > last:
            break
        if round >= 0 and round != seen:
            seen = round
            counts[C_ROUNDS] += 1
            many = counts[C_KEYS] + (counts[C_ENTRIES] >> 2)
            if many > max(_LARGE_AT_ALL, _LARGE_ROUND * counts[C_ROUNDS]):
                return LARGE
        looked = np.int64(-1)
        while counts[C_WAITING] and waiting[0] >> _KEY_BITS == turn:
            k = waiting[0] & _KEY_MASK
            _pop(waiting, counts)
            if k == looked:
                continue
            looked = k
            keys[k, 3] = _NOWHERE
            if sites[site, S_STRETCHES] == 0:
                went = _advance_first(program, arena, counts, k, round)
            else:
                went = _advance_stretches(program, arena, counts, k, site, round, now)
            if went != DONE:
                return went
    return DONE


@kernel(
    signatures=[
        (INTS2, INTS, INTS2, INTS2, INTS2, INTS2, INTS2, INTS2, INTS2_OUT, INTS_OUT, INTS2_OUT)
    ]
)
def changes_of(
    sites, counts, key_words, keys, counted_words, counted, held_words, held, parts, dead, born
):
    """What `run` changed: of each site's counted rows, then its held rows, a row of parts
    int64[2 * sites, 4], where those that died begin and end in `dead`, and those that were born in
    `born`, whose rows are columns, and the mask of NULLs last.

    Returns: whether no count is below 0.
    """
    deaths, births = np.int64(0), np.int64(0)
    mask_at = born.shape[0] - 1
    for site in range(sites.shape[0]):
        n = sites[site, S_KEYS]
        for kind in range(2):
            part = 2 * site + kind
            parts[part, 0], parts[part, 2] = deaths, births
            rows, words = (counted, counted_words) if kind == 0 else (held, held_words)
            many = sites[site, S_RESTS if kind == 0 else S_HELDS]
            for e in range(counts[C_COUNTED if kind == 0 else C_HELD]):
                k = rows[e, 0]
                if keys[k, 0] != site:
                    continue
                if kind == 0:
                    if rows[e, 2] < 0:
                        return False
                    if rows[e, 2] == rows[e, 3]:
                        continue
                    dies, comes, row = rows[e, 4] >= 0, rows[e, 2] > 0, rows[e, 4]
                else:
                    row = rows[e, 2]
                    dies, comes = row >= 0 and rows[e, 3] == 0, row < 0 and rows[e, 3] == 1
                if dies:
                    dead[deaths] = row
                    deaths += 1
                if comes:
                    for i in range(n):
                        born[i, births] = key_words[k, i]
                    for i in range(many):
                        born[n + i, births] = words[e, i]
                    if kind == 0:
                        born[n + many, births] = rows[e, 2]
                    born[mask_at, births] = key_words[k, key_words.shape[1] - 1] | (
                        words[e, words.shape[1] - 1] << n
                    )
                    births += 1
            parts[part, 1], parts[part, 3] = deaths, births
    return True
