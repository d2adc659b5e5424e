"""Few rows of an Arrow batch, all columns at once, where the batch says that they lie.

Arrow's C data interface is a struct of 64-bit words for the batch and one for each column: length,
NULLs, offset, number of buffers, number of children, their addresses, and more that is not read.
Source: https://arrow.apache.org/docs/format/CDataInterface.html
"""

from __future__ import annotations

import numpy as np

from operators.kernels.jit import INT64, INTS2, INTS2_OUT, INTS_OUT, kernel
from operators.kernels.memory import load_i32, load_i64, load_u8, load_u16
from operators.kernels.texts import is_ascii_at

#: How long the struct is; places in it.
STRUCT_WORDS = 10
_NULLS, _OFFSET, _BUFFERS, _CHILDREN, RELEASE = 1, 2, 5, 6, 8
#: Forms of values: integers by their bits, without a sign or with one; decimals of 128 bits, of
#: which the low word is taken; texts, of which it is seen whether they are ASCII.
INT8, INT16, INT32, INT64S, UINT8, UINT16, UINT32, DECIMAL, TEXT = range(9)
#: What became of a column: it was taken; somebody has to look closer.
TAKEN, LEFT = 0, 1


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


@kernel(signatures=[(INT64, INTS2, INT64, INTS2_OUT, INTS_OUT)])
def take(batch, columns, n, out, status):
    """Values of columns of the batch of `n` rows whose struct is at an address.

    Shapes: columns int64[c, 2]: which one, and its form; out int64[c, n]: of texts nothing;
    status int64[c]: TAKEN, or LEFT where there are NULLs, or may be, or texts beyond ASCII.
    """
    children = load_i64(batch, _CHILDREN)
    for c in range(columns.shape[0]):
        column = np.int64(load_i64(children, columns[c, 0]))
        form = columns[c, 1]
        offset = np.int64(load_i64(column, _OFFSET))
        buffers = np.int64(load_i64(column, _BUFFERS))
        values = np.int64(load_i64(buffers, 1))
        status[c] = TAKEN
        if load_i64(column, _NULLS) != 0 and load_i64(buffers, 0) != 0:
            status[c] = LEFT
        elif form != TEXT:
            _take_numbers(form, values, offset, n, out, c)
        elif n != 0 and not is_ascii_at(values, np.int64(load_i64(buffers, 2)), offset, n):
            status[c] = LEFT
