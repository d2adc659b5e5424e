"""Programs of expressions over words: all predicates and outputs of a map in one kernel.

A program is instructions int64[k, 5] of (what, out, a, b, c). Registers are rows of `words`
int64[registers, n], with a mask `none` bool[registers, n] of NULLs where `nullable`
int64[registers] says that there may be some; what a NULL has for a word means nothing. The first
registers are the inputs. An instruction is done for all rows before the next one begins, so that
its loop is of one kind; of few rows all registers stay in the cache.

KEEP throws away the rows of which a register is not TRUE, and moves the others together in all
inputs: what is computed before it, but constants, must not be read behind it.

Invariant: what is computed is what `operators.scalar` computes. Whatever fails there, or has no
result of 64 bits, ends the program: nothing was done then.
"""

from __future__ import annotations

import numpy as np

from operators.kernels.jit import BOOLS2_OUT, INT64, INTS, INTS2, INTS2_OUT, INTS_OUT, kernel
from operators.kernels.memory import BLOCK_BITS, load_i32, load_i64, load_u8, place
from operators.kernels.scalar import SAFE_PRODUCT

#: Instructions. RANGE: a lies between b and c. PAIR: the number of the words a and b, and of c
#: above them, or -1. SCALE, DOWN: times c, and divided by c > 1, half away from zero. QUOTIENT:
#: a * c / b, rounded likewise. IF: b where a is TRUE, else c.
(
    KEEP, FILL, NULLS, RANGE, PAIR, ADD, SUBTRACT, MULTIPLY, SCALE, DOWN, QUOTIENT, NEGATE, ABS,
    EQ, NE, LT, LE, GT, GE, SAME, AND, OR, NOT, IS_NULL, COALESCE, LEAST, GREATEST, IF,
) = tuple(range(28))  # fmt: skip
#: What `run` returns if the program is not for these rows.
GIVE_UP = -1
_LOWEST = np.int64(-(2**63))
_MOST = np.int64(2**63 - 1)


@kernel(signatures=[(INTS2, INT64, INT64, INTS2, INTS, INTS2_OUT, BOOLS2_OUT, INTS_OUT)])
def load(addresses, ids_slot, kept_slot, slots, rows, words, none, nullable):
    """Registers from the blocks of a relation: of row rows[i] into place i of each.

    Shapes: addresses int64[all slots, blocks]; slots int64[k, 4] of (slot of the values, bytes of
    each, slot of their validity, register), two registers for 16 bytes; rows int64[n].
    """
    ids = addresses[ids_slot]
    kept = addresses[kept_slot]
    for k in range(slots.shape[0]):
        slot, size, validity, out = slots[k, 0], slots[k, 1], slots[k, 2], slots[k, 3]
        for i in range(rows.shape[0]):
            block = rows[i] >> BLOCK_BITS
            address = addresses[slot, block]
            at = place(rows[i], ids, kept)
            if size == 4:
                words[out, i] = load_i32(address, at)
            elif size == 8:
                words[out, i] = load_i64(address, at)
            elif size == 16:
                words[out, i] = load_i64(address, 2 * at)
                words[out + 1, i] = load_i64(address, 2 * at + 1)
            else:
                words[out, i] = load_u8(address, at)
            valid = addresses[validity, block]
            if valid != 0 and load_u8(valid, at) == 0:
                none[out, i] = True
                nullable[out] = 1


@kernel
def _compare(what, out, a, b, n, words):
    if what == EQ:
        for i in range(n):
            words[out, i] = words[a, i] == words[b, i]
    elif what == NE:
        for i in range(n):
            words[out, i] = words[a, i] != words[b, i]
    elif what == LT:
        for i in range(n):
            words[out, i] = words[a, i] < words[b, i]
    elif what == LE:
        for i in range(n):
            words[out, i] = words[a, i] <= words[b, i]
    elif what == GT:
        for i in range(n):
            words[out, i] = words[a, i] > words[b, i]
    else:
        for i in range(n):
            words[out, i] = words[a, i] >= words[b, i]


@kernel
def _compute(what, out, a, b, c, n, words, none):
    """Arithmetic; returns whether it has a result for all rows that are not NULL in `out`."""
    bad = np.int64(0)
    if what == RANGE:
        for i in range(n):
            bad += words[a, i] < b or words[a, i] > c
    elif what == ADD:
        for i in range(n):
            x, y = words[a, i], words[b, i]
            z = x + y
            words[out, i] = z
            bad |= ((x ^ z) & (y ^ z)) < 0
    elif what == SUBTRACT:
        for i in range(n):
            x, y = words[a, i], words[b, i]
            z = x - y
            words[out, i] = z
            bad |= ((x ^ y) & (x ^ z)) < 0
    elif what == MULTIPLY:
        for i in range(n):
            x, y = words[a, i], words[b, i]
            words[out, i] = x * y
            bad |= abs(np.float64(x) * np.float64(y)) >= SAFE_PRODUCT
    elif what == SCALE:
        most = _MOST // c
        for i in range(n):
            x = words[a, i]
            words[out, i] = x * c
            bad |= x > most or x < -most
    elif what == NEGATE:
        for i in range(n):
            x = words[a, i]
            words[out, i] = -x
            bad |= x == _LOWEST
    elif what == ABS:
        for i in range(n):
            x = words[a, i]
            words[out, i] = -x if x < 0 else x
            bad |= x == _LOWEST
    elif what == PAIR:
        for i in range(n):
            x, y = words[a, i], words[b, i]
            words[out, i] = x
            bad |= y != x >> 63
            if c >= 0:
                bad |= words[c, i] != y >> 63
    elif what == DOWN:
        for i in range(n):
            x = words[a, i]
            quotient = x // c
            rest = x - quotient * c  # 0 <= rest < c
            if rest > c - rest or (rest == c - rest and x > 0):
                quotient += 1
            words[out, i] = quotient
    else:
        most = _MOST // c - 1
        for i in range(n):
            x, y = words[a, i], words[b, i]
            words[out, i] = 0
            if none[out, i]:
                continue
            if y == 0 or y == _LOWEST or x > most or x < -most:
                return False
            top, bottom = abs(x) * c, abs(y)
            quotient = top // bottom
            rest = top - quotient * bottom
            if rest >= bottom - rest:
                quotient += 1
            words[out, i] = quotient if (x < 0) == (y < 0) else -quotient
    return bad == 0


@kernel(signatures=[(INTS2, INT64, INT64, INTS2_OUT, BOOLS2_OUT, INTS_OUT, INTS_OUT, INTS_OUT)])
def run(code, inputs, n, words, none, nullable, kept, moved):
    """Run a program over n rows, of which registers below `inputs` are there, and the masks of all
    others are unset. Returns how many rows are left, or GIVE_UP.

    Shapes: kept int64[n]: which rows are left; moved int64[n] for work.
    """
    for i in range(n):
        kept[i] = i
    for k in range(code.shape[0]):
        what, out, a, b, c = code[k, 0], code[k, 1], code[k, 2], code[k, 3], code[k, 4]
        if what == KEEP:
            m = np.int64(0)
            for i in range(n):
                moved[m] = i
                m += words[a, i] != 0 and not none[a, i]
            if m == n:
                continue
            for r in range(inputs):
                for i in range(m):
                    words[r, i] = words[r, moved[i]]
                if nullable[r]:
                    for i in range(m):
                        none[r, i] = none[r, moved[i]]
            for i in range(m):
                kept[i] = kept[moved[i]]
            # Of what was computed before, nothing is read but constants.
            n = m
            continue
        if what == FILL or what == NULLS:
            for i in range(n):
                words[out, i] = a
            if what == NULLS:
                nullable[out] = 1
                for i in range(n):
                    none[out, i] = True
            continue
        if what == RANGE:
            if not _compute(what, out, a, b, c, n, words, none):
                return GIVE_UP
            continue
        if what <= ABS:
            # NULL where an argument is.
            one = what >= NEGATE or what == SCALE or what == DOWN or what == PAIR
            if nullable[a] or (not one and nullable[b]):
                nullable[out] = 1
                for i in range(n):
                    none[out, i] = none[a, i] or (not one and none[b, i])
            if not _compute(what, out, a, b, c, n, words, none):
                return GIVE_UP
            continue
        if what <= GE:
            _compare(what, out, a, b, n, words)
            if nullable[a] or nullable[b]:
                nullable[out] = 1
                for i in range(n):
                    none[out, i] = none[a, i] or none[b, i]
            continue
        for i in range(n):
            x, no_x = words[a, i], none[a, i]
            y, no_y = words[b, i], none[b, i]
            no = False
            if what == NOT:
                z, no = np.int64(x == 0), no_x
            elif what == IS_NULL:
                z = np.int64(no_x)
            elif what == SAME:
                z = np.int64(no_x == no_y and (no_x or x == y))
            elif what == IF:
                if x != 0 and not no_x:
                    z, no = y, no_y
                else:
                    z, no = words[c, i], none[c, i]
            elif what == AND or what == OR:
                # What decides by itself.
                alone = np.int64(what == OR)
                if (not no_x and x == alone) or (not no_y and y == alone):
                    z = alone
                else:
                    z, no = 1 - alone, no_x or no_y
            elif no_x or (what != COALESCE and not no_y and (y < x) == (what == LEAST) and x != y):
                z, no = y, no_y
            else:
                z, no = x, no_x
            words[out, i] = z
            if no:
                none[out, i] = True
                nullable[out] = 1
    return n
