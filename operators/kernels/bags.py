"""Kernels of derived bags: adding updates up, and finding the copies that go."""

from __future__ import annotations

from operators.kernels.jit import INTS, INTS2, INTS_OUT, kernel
from operators.kernels.sorting import compare


@kernel(signatures=[(INTS2, INTS, INTS, INTS, INTS_OUT, INTS_OUT)])
def add_up(words, time, diff, order, out_row, out_net):
    """The sum of the updates of each key and time where it is not zero; returns how many there are,
    and how many of the updates have the key of the one before.

    Shapes: words int64[w, n], time, diff, order int64[n], of which `order` sorts by key, then time;
    out int64[n]: one row of each sum, and the sum.
    """
    n = order.shape[0]
    count = 0
    again = 0
    start = 0
    while start < n:
        row = order[start]
        net = diff[row]
        end = start + 1
        while end < n and compare(words, row, order[end]) == 0:
            again += 1
            if time[order[end]] != time[row]:
                break
            net += diff[order[end]]
            end += 1
        if net != 0:
            out_row[count] = row
            out_net[count] = net
            count += 1
        start = end
    return count, again


@kernel(signatures=[(INTS2, INTS, INTS, INTS_OUT, INTS_OUT)])
def keys_that_lose(words, row, sign, starts, losing):
    """Number the keys of actions sorted by key, and note those with an action that takes a copy.

    Shapes: words int64[w, n], row int64[m] into it, sign int64[m]; starts int64[m + 1]: where the
    actions of each key begin; losing int64[m]: numbers of keys. Returns (keys, losing ones).
    """
    m = row.shape[0]
    keys = 0
    some = 0
    for i in range(m):
        if i == 0 or compare(words, row[i - 1], row[i]) != 0:
            starts[keys] = i
            keys += 1
        if sign[i] < 0 and (some == 0 or losing[some - 1] != keys - 1):
            losing[some] = keys - 1
            some += 1
    starts[keys] = m
    return keys, some


@kernel(signatures=[(INTS, INTS, INTS, INTS_OUT, INTS_OUT)])
def by_key(probe, found, keys, out_start, out):
    """Sort rows found by the number of their key, stable.

    Shapes: probe, found, out int64[m]: row found[i] is of key keys[probe[i]];
    out_start int64[count + 1]: where the rows of each key begin in `out`.
    """
    out_start[:] = 0
    for i in range(probe.shape[0]):
        out_start[keys[probe[i]] + 1] += 1
    for g in range(1, out_start.shape[0]):
        out_start[g] += out_start[g - 1]
    # Each start moves on as its rows are laid down, and so becomes that of the next key.
    for i in range(probe.shape[0]):
        key = keys[probe[i]]
        out[out_start[key]] = found[i]
        out_start[key] += 1
    for g in range(out_start.shape[0] - 1, 0, -1):
        out_start[g] = out_start[g - 1]
    out_start[0] = 0
