"""Kernels of derived bags: adding updates up, and finding the copies that go."""

from __future__ import annotations

import numpy as np

from operators.kernels.jit import BOOL, INTS, INTS2, INTS_OUT, kernel
from operators.kernels.lookup import living_of
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


@kernel(
    signatures=[
        (INTS2, INTS, INTS, INTS2, INTS, BOOL, INTS_OUT, INTS_OUT, INTS_OUT, INTS_OUT, INTS_OUT)
    ]
)
def few_changes(words, diff, order, spine, dead, exact, births, by_key, killed, sizes, work):
    """What a few updates of one time change in a bag: which of them are born, which rows die.

    Shapes: words int64[2, n] are the updates' keys, diff int64[n], `order` int64[n] sorts them;
    spine: the batches of the bag's index. `exact`: rows of one key are equal.
    Out: births int64[n], positions of the updates that are born, ascending, as often as they are;
    by_key int64[n]: places in those that sort them by key; killed int64[n], rows; sizes int64[2]:
    how many births and killed; work: see lookup.seek. Returns False where it does not tell: values
    have to be compared, there is no room, or a row that goes was not there.
    """
    n = np.int64(order.shape[0])
    born = np.int64(0)
    kills = np.int64(0)
    place = np.zeros(n + 1, np.int64)
    start = np.int64(0)
    while start < n:
        row = order[start]
        net = diff[row]
        end = start + 1
        while end < n and compare(words, row, order[end]) == 0:
            net += diff[order[end]]
            end += 1
        if (end - start > 1 and not exact) or born + net > n or kills - net > n:
            return False
        if net < 0:
            found, more = living_of(spine, words, row, -net, dead, killed, kills, work)
            if found < -net or (not exact and (more or found > 1)):
                return False
            kills += found
        for _ in range(net):
            births[born] = row
            born += 1
            place[row + 1] += 1
        start = end
    for i in range(n):
        place[i + 1] += place[i]
    for b in range(born):
        row = births[b]
        by_key[b] = place[row]
        place[row] += 1
    # Each start has moved on to the next update's.
    for i in range(n):
        for b in range(place[i - 1] if i > 0 else 0, place[i]):
            births[b] = i
    sizes[0] = born
    sizes[1] = kills
    return True
