"""Few rows of an Arrow batch, all columns at once: read where the batch says that they lie, seen to
ascend, and appended to a block of a relation.

Arrow's C data interface is a struct of 64-bit words for the batch and one for each column: length,
NULLs, offset, number of buffers, number of children, their addresses, and more that is not read.
Source: https://arrow.apache.org/docs/format/CDataInterface.html
"""

from __future__ import annotations

import numpy as np

from operators.kernels.jit import INT64, INTS, INTS2, INTS2_OUT, INTS_OUT, kernel
from operators.kernels.memory import (
    load_i32,
    load_i64,
    load_u8,
    load_u16,
    store_i32,
    store_i64,
    store_u8,
)
from operators.kernels.texts import is_ascii_at

#: How long the struct is; places in it.
STRUCT_WORDS = 10
_NULLS, _OFFSET, _BUFFERS, _CHILDREN, RELEASE = 1, 2, 5, 6, 8
#: Forms of values: integers by their bits, without a sign or with one; decimals of 128 bits, of
#: which the low word is taken; texts, of which it is seen whether they are ASCII; whatever else.
INT8, INT16, INT32, INT64S, UINT8, UINT16, UINT32, DECIMAL, TEXT, OTHER = range(10)
#: What became of a column: it was taken; somebody has to look closer.
TAKEN, LEFT = 0, 1
#: Of a column that was taken: that, and of texts the addresses of Arrow's offsets and of the bytes,
#: and the place of the first offset.
HEAD_WORDS = 4
#: How a column lies in a block: integers of 4 or 8 bytes; texts by 4 bytes of offsets.
BYTES4, BYTES8, TEXTS = range(3)


@kernel
def _take_numbers(form, values, offset, n, out, c):
    if form == INT64S:
        for i in range(n):
            out[c, i] = load_i64(values, offset + i)
    elif form == DECIMAL:
        for i in range(n):
            out[c, i] = load_i64(values, 2 * (offset + i))
    elif form == INT32:
        for i in range(n):
            out[c, i] = load_i32(values, offset + i)
    elif form == UINT32:
        for i in range(n):
            out[c, i] = np.int64(load_i32(values, offset + i)) & 0xFFFFFFFF
    elif form == INT16:
        for i in range(n):
            out[c, i] = (np.int64(load_u16(values, offset + i)) ^ 0x8000) - 0x8000
    elif form == UINT16:
        for i in range(n):
            out[c, i] = load_u16(values, offset + i)
    elif form == INT8:
        for i in range(n):
            out[c, i] = (np.int64(load_u8(values, offset + i)) ^ 0x80) - 0x80
    else:
        for i in range(n):
            out[c, i] = load_u8(values, offset + i)


@kernel(signatures=[(INT64, INTS2, INT64, INTS2_OUT, INTS2_OUT)])
def take(batch, columns, n, out, heads):
    """Values of columns of the batch of `n` rows whose struct is at an address.

    Shapes: columns int64[c, 2]: which one, and its form; out int64[c, n]: of texts nothing; heads
    int64[c, HEAD_WORDS]: TAKEN, or LEFT where there are NULLs, or may be, or texts beyond ASCII, or
    what has another form. Returns: how many are left.
    """
    children = load_i64(batch, _CHILDREN)
    left = np.int64(0)
    for c in range(columns.shape[0]):
        form = columns[c, 1]
        heads[c, 0] = TAKEN
        if form == OTHER:
            heads[c, 0] = LEFT
            left += 1
            continue
        column = np.int64(load_i64(children, columns[c, 0]))
        offset = np.int64(load_i64(column, _OFFSET))
        buffers = np.int64(load_i64(column, _BUFFERS))
        values = np.int64(load_i64(buffers, 1))
        if load_i64(column, _NULLS) != 0 and load_i64(buffers, 0) != 0:
            heads[c, 0] = LEFT
            left += 1
        elif form != TEXT:
            _take_numbers(form, values, offset, n, out, c)
        else:
            text = np.int64(load_i64(buffers, 2))
            heads[c, 1], heads[c, 2], heads[c, 3] = values, text, offset
            if n != 0 and not is_ascii_at(values, text, offset, n):
                heads[c, 0] = LEFT
                left += 1
    return left


@kernel(signatures=[(INTS2, INTS2, INTS, INTS, INTS_OUT)])
def ascend(values, heads, keys, after, last):
    """Whether all columns of a key were taken, and the keys ascend strictly from more than `after`.

    Shapes: values int64[c, n], n > 0, and heads int64[c, HEAD_WORDS] as `take` made them; keys
    int64[w]: the columns; after int64[w], or of length 0: from any; last int64[w]: the last key.
    """
    w = keys.shape[0]
    n = values.shape[1]
    for k in range(w):
        if heads[keys[k], 0] != TAKEN:
            return False
        last[k] = values[keys[k], n - 1]
    for k in range(after.shape[0]):
        first = values[keys[k], 0]
        if first > after[k]:
            break
        if first < after[k] or k == w - 1:
            return False
    for i in range(1, n):
        for k in range(w):
            a = values[keys[k], i - 1]
            b = values[keys[k], i]
            if b > a:
                break
            if b < a or k == w - 1:
                return False
    return True


@kernel
def _append_texts(offsets, text, at, others, source, first, count):
    begin = np.int64(load_i32(others, first))
    used = np.int64(load_i32(offsets, at))
    for i in range(count):
        end = np.int64(load_i32(others, first + i + 1)) - begin + used
        store_i32(offsets, at + i + 1, np.int32(end))
    for i in range(np.int64(load_i32(others, first + count)) - begin):
        store_u8(text, used + i, np.uint8(load_u8(source, begin + i)))


@kernel(signatures=[(INTS2, INT64, INT64, INTS2, INTS, INTS2, INTS2, INT64, INT64)])
def append(addresses, block, at, layouts, rooms, values, heads, start, count):
    """Let rows `at` and on of a block be rows start to start + count of what was taken.

    Shapes: addresses int64[slots, blocks]; layouts int64[c, 2]: of each column its first slot, and
    how it lies; rooms int64[c]: of texts the bytes that there is room for in the block; values
    int64[c, n] and heads int64[c, HEAD_WORDS] as `take` made them: what is left is not written.
    Returns: a column whose texts lack room, and the bytes that it needs: nothing is written then;
    or -1 and 0.
    """
    for c in range(layouts.shape[0]):
        if layouts[c, 1] == TEXTS and heads[c, 0] == TAKEN:
            others, first = heads[c, 1], heads[c, 3] + start
            needed = np.int64(load_i32(addresses[layouts[c, 0], block], at))
            needed += np.int64(load_i32(others, first + count)) - np.int64(load_i32(others, first))
            if needed > rooms[c]:
                return c, needed
    for c in range(layouts.shape[0]):
        if heads[c, 0] != TAKEN:
            continue
        slot, kind = layouts[c, 0], layouts[c, 1]
        target = addresses[slot, block]
        if kind == TEXTS:
            text, others, source = addresses[slot + 2, block], heads[c, 1], heads[c, 2]
            _append_texts(target, text, at, others, source, heads[c, 3] + start, count)
        elif kind == BYTES4:
            for i in range(count):
                store_i32(target, at + i, np.int32(values[c, start + i]))
        else:
            for i in range(count):
                store_i64(target, at + i, values[c, start + i])
        valid = addresses[slot + 1, block]
        if valid != 0:
            for i in range(count):
                store_u8(valid, at + i, np.uint8(1))
    return -1, np.int64(0)
