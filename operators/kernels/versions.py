"""Which rows are visible when.

A row is born at one time and dies at most once; as of t it is visible when born <= t < died, just
before t when born < t <= died. Both are kept compactly: births as a short ascending table (first
row id, time) that covers rows from `first[0]` on (rows before it were born before every reader),
deaths as one bit a row plus the ascending (row, time) of those that some reader may still see.
A set bit without an entry is a row dead for every reader.
"""

from __future__ import annotations

import numpy as np

from operators.kernels.jit import INT64, INTS, INTS_OUT, kernel
from operators.kernels.memory import BLOCK_BITS, BLOCK_ROWS, bit_is_set, load_u8, load_u16

NEVER = np.int64(2**63 - 1)
ALWAYS = np.int64(-(2**63))


@kernel
def find(values, x):
    """First position in ascending int64 values whose value is >= x."""
    left = np.int64(0)
    right = np.int64(values.shape[0])
    while left < right:
        middle = (left + right) >> 1
        if values[middle] < x:
            left = middle + 1
        else:
            right = middle
    return left


@kernel
def born_at(row, first, time):
    """Time of birth, or ALWAYS where it precedes every reader."""
    if first.shape[0] == 0 or row < first[0]:
        return ALWAYS
    return time[find(first, row + 1) - 1]


@kernel
def died_at(row, dead, died_row, died_time):
    """Time of death; NEVER for the living, ALWAYS where it precedes every reader."""
    if not bit_is_set(dead, row):
        return NEVER
    at = find(died_row, row)
    if at < died_row.shape[0] and died_row[at] == row:
        return died_time[at]
    return ALWAYS


@kernel
def is_visible(row, t, as_of, dead, born_first, born_time, died_row, died_time):
    """Whether `row` is visible as of t (`as_of`) or just before t."""
    if born_first.shape[0] != 0 and row >= born_first[0]:
        born = born_time[find(born_first, row + 1) - 1]
        if born > t or (born == t and not as_of):
            return False
    if bit_is_set(dead, row):
        at = find(died_row, row)
        if at == died_row.shape[0] or died_row[at] != row:
            return False
        died = died_time[at]
        return t < died or (t == died and not as_of)
    return True


@kernel(signatures=[(INT64, INT64, INT64, INTS, INTS, INTS, INTS, INTS, INTS, INTS, INTS_OUT)])
def visible_rows(start, end, t, dead, born_first, born_time, died_row, died_time, ids, kept, out):
    """The rows of [start, end) visible as of t, ascending, into out; returns how many. `start`
    begins a block; kept[b] rows of block b are stored; out has room for all of them."""
    # Row ids ascend with the time of birth: those that were born by t come first.
    later = find(born_time, t + 1)
    if later < born_first.shape[0]:
        end = min(end, born_first[later])
    count = 0
    first = np.int64(start)
    while first < end:
        block = first >> BLOCK_BITS
        address, deaths, stored = ids[block], dead[block], kept[block]
        if address == 0 and deaths == 0:
            stored = min(end - first, stored)
            for i in range(stored):
                out[count + i] = first + i
            count += stored
        elif address == 0:
            for i in range(min(end - first, stored)):
                living = (np.int64(load_u8(deaths, i >> 3)) >> (i & 7)) & 1 == 0
                if living or died_at(first + i, dead, died_row, died_time) > t:
                    out[count] = first + i
                    count += 1
        else:
            for i in range(stored):
                row = first + np.int64(load_u16(address, i))
                if row >= end:
                    break
                if died_at(row, dead, died_row, died_time) > t:
                    out[count] = row
                    count += 1
        first += BLOCK_ROWS
    return count


@kernel(signatures=[(INTS, INTS, INTS, INTS, INTS, INTS, INTS_OUT, INTS_OUT)])
def lives(rows, dead, born_first, born_time, died_row, died_time, out_born, out_died):
    """When each of `rows` was born and died: see born_at and died_at. Shapes: all int64[n]."""
    for i in range(rows.shape[0]):
        out_born[i] = born_at(rows[i], born_first, born_time)
        out_died[i] = died_at(rows[i], dead, died_row, died_time)
