"""Kernels of the group operator: rows to runs, sums per run, and the sweep over each group's times.

A wide sum is two or three int64 words in two's complement, the lowest (as bits) first. Sums of
three words are exact: a sum of 128-bit numbers, as many as an int64 counts, fits 192 bits.
"""

from __future__ import annotations

import numpy as np

from operators.kernels.jit import (
    BOOL,
    BOOLS,
    INT32S,
    INT32S_OUT,
    INT64,
    INTS,
    INTS2,
    INTS2_OUT,
    INTS_OUT,
    kernel,
)

_LOW = np.uint64(0xFFFFFFFF)
_S32 = np.uint64(32)
_ZERO = np.uint64(0)
_ONE = np.uint64(1)
_MIX = np.uint64(0x9E3779B97F4A7C15)
_FIRST_TABLE = 256
#: So many distinct keys say whether keys recur.
_SAMPLE = 4096
#: Rows hashed at once.
_CHUNK = 4096
#: What a group's event replaces: a stored row (>= 0), nothing, or birth b (-2 - b).
NOTHING = np.int64(-1)
#: Answers of `number_rows`: the rows are to be sorted, with their times or by words alone.
MANY_TIMES, ONE_TIME = -1, -2
#: How a run's word changes an accumulator's: added; the lowest of two or of three words that are
#: added as one number; put in its place.
ADD, WIDE, WIDER, SET = 0, 1, 2, 3


@kernel
def _hashes(words, time, start, end, out):
    """out[i - start] = a hash of row i's (key, time). Word by word, so that rows overlap."""
    for i in range(start, end):
        out[i - start] = (np.uint64(words[0, i]) ^ np.uint64(time[i] - time[0])) * _MIX
    for w in range(1, words.shape[0]):
        for i in range(start, end):
            h = out[i - start]
            out[i - start] = ((h ^ (h >> _S32)) ^ np.uint64(words[w, i])) * _MIX
    for i in range(end - start):
        out[i] ^= out[i] >> _S32


@kernel
def _same(words, time, i, j):
    for w in range(words.shape[0]):
        if words[w, i] != words[w, j]:
            return False
    return time[i] == time[j]


@kernel
def _empty_table(size):
    table = np.empty(size, np.int32)
    for i in range(size):
        table[i] = -1
    return table


@kernel
def _number(words, time, number, first):
    """number[i] = the number of row i's (key, time), in order of appearance, and first[r] = the
    first row of number r, by a hash table that grows: few keys stay in the cache.

    Returns how many; or -1 - s if more than half of the keys met were new, where a table is a
    detour: the rows before had s stretches of neighbours with one key, out of first[0] rows.
    """
    n = time.shape[0]
    size = _FIRST_TABLE
    table = _empty_table(size)
    mask = np.uint64(size - 1)
    hashes = np.empty(min(n, _CHUNK), np.uint64)
    met = np.empty(n, np.uint64)
    count = np.int64(0)
    stretches = np.int64(0)
    before = _ZERO
    for i in range(n):
        at = i % _CHUNK
        if at == 0:
            _hashes(words, time, i, min(n, i + _CHUNK), hashes)
        h = hashes[at]
        if i > 0 and h == before and _same(words, time, i - 1, i):
            number[i] = number[i - 1]
            continue
        before = h
        stretches += 1
        slot = h & mask
        found = np.int64(table[slot])
        while found >= 0 and (met[found] != h or not _same(words, time, first[found], i)):
            slot = (slot + _ONE) & mask
            found = np.int64(table[slot])
        if found < 0:
            found = count
            table[slot] = count
            met[count] = h
            first[count] = i
            count += 1
            if 2 * count > size:
                if count > _SAMPLE and 2 * count > stretches:
                    first[0] = i
                    return -1 - stretches
                size *= 4
                table = _empty_table(size)
                mask = np.uint64(size - 1)
                for r in range(count):
                    slot = met[r] & mask
                    while table[slot] >= 0:
                        slot = (slot + _ONE) & mask
                    table[slot] = r
        number[i] = found
    return count


@kernel
def _stretches(words, time, number, first):
    """`_number` for each stretch of neighbours with one (key, time)."""
    count = np.int64(0)
    for i in range(time.shape[0]):
        if i == 0 or not _same(words, time, i - 1, i):
            first[count] = i
            count += 1
        number[i] = count - 1
    return count


@kernel
def _runs_in_order(words, time, order, first, starts, key_starts, rank):
    """Starts of runs and keys in sorted `order`, of rows, or of numbers whose first rows `first`
    says (length 0: of rows); rank[u] = the run of number u, if it has room. Returns how many."""
    units = order.shape[0]
    runs = np.int64(0)
    groups = np.int64(0)
    before = np.int64(0)
    for k in range(units):
        row = first[order[k]] if first.shape[0] else order[k]
        new_key = k == 0
        if k > 0:
            for w in range(words.shape[0]):
                new_key |= words[w, before] != words[w, row]
        if new_key:
            key_starts[groups] = runs
            groups += 1
        if new_key or time[before] != time[row]:
            starts[runs] = k
            runs += 1
        if rank.shape[0]:
            rank[order[k]] = runs - 1
        before = row
    starts[runs] = units
    key_starts[groups] = runs
    return runs, groups


@kernel(signatures=[(INTS2, INTS, INT32S_OUT, INT32S_OUT)])
def number_rows(words, time, number, first):
    """Number the rows by key and time, so that only one row of each number has to be sorted.

    Shapes: words int64[w, n], time int64[n]; out: number int32[n], of each row; first int32[n], a
    row of each number. Returns how many numbers there are and their keys int64[w + 1, numbers],
    words and time; or, where the rows themselves are to be sorted, no keys, and ONE_TIME if they
    have one, else MANY_TIMES. Cost: O(n).
    """
    n = time.shape[0]
    width = words.shape[0]
    units = _number(words, time, number, first)
    if units < 0 and 2 * (-1 - units) > first[0]:
        answer = np.int64(ONE_TIME)
        for i in range(n):
            if time[i] != time[0]:
                answer = np.int64(MANY_TIMES)
        return answer, np.empty((width + 1, 0), np.int64)
    if units < 0:
        units = _stretches(words, time, number, first)
    keys = np.empty((width + 1, units), np.int64)
    for w in range(width):
        for u in range(units):
            keys[w, u] = words[w, first[u]]
    for u in range(units):
        keys[width, u] = time[first[u]]
    return units, keys


@kernel(signatures=[(INTS2, INTS, INT32S_OUT, INT32S, INTS, INTS_OUT, INTS_OUT, INTS_OUT)])
def lay_out(words, time, number, first, by_key, order, starts, key_starts):
    """Runs of rows with one key and one time, in order of (bucket, key, time).

    Shapes: number, first as `number_rows` left them (`number` is used up) and by_key int64[units],
    the order of the numbers' keys; or both of length 0, and by_key that of the rows: it is `order`
    then. Out: order int64[n], positions of the rows run by run, ascending in each; starts
    int64[n + 1] of the runs in `order`; key_starts int64[n + 1] of the keys in the runs; both end
    with what comes behind the last. Returns how many (runs, keys).
    """
    n = number.shape[0]
    rank = np.empty(first.shape[0], np.int64)
    runs, groups = _runs_in_order(words, time, by_key, first, starts, key_starts, rank)
    if n == 0:
        return runs, groups
    for k in range(runs + 1):
        starts[k] = 0
    for i in range(n):
        k = rank[number[i]]
        number[i] = k
        starts[k + 1] += 1
    for k in range(runs):
        starts[k + 1] += starts[k]
    ends = rank  # it has served, and runs are no more than units
    for k in range(runs):
        ends[k] = starts[k]
    for i in range(n):
        k = number[i]
        order[ends[k]] = i
        ends[k] += 1
    return runs, groups


@kernel
def _multiply(a, b):
    """The 128 bits of a * b, as (low, high) uint64, of uint64 factors."""
    a0 = a & _LOW
    a1 = a >> _S32
    b0 = b & _LOW
    b1 = b >> _S32
    low = a0 * b0
    middle = a1 * b0 + (low >> _S32)
    other = a0 * b1 + (middle & _LOW)
    return (other << _S32) | (low & _LOW), a1 * b1 + (middle >> _S32) + (other >> _S32)


@kernel
def _add(low, high, top, add_low, add_high, add_top):
    """The sum of two numbers of three words."""
    first = np.uint64(low) + np.uint64(add_low)
    carry = _ONE if first < np.uint64(low) else _ZERO
    second = np.uint64(high) + np.uint64(add_high)
    over = _ONE if second < np.uint64(high) else _ZERO
    third = second + carry
    if third < second:
        over = _ONE
    return np.int64(first), np.int64(third), top + add_top + np.int64(over)


@kernel
def _magnitude(low, high):
    a = np.uint64(low)
    b = np.uint64(high)
    if high < 0:
        a = _ZERO - a
        b = ~b
        if a == _ZERO:
            b += _ONE
    return a, b


@kernel
def _scaled(low, high, diff):
    """The 128-bit number (low, high) times diff, in three words."""
    negative = (high < 0) != (diff < 0)
    a, b = _magnitude(low, high)
    d = np.uint64(diff) if diff >= 0 else _ZERO - np.uint64(diff)
    first, carry = _multiply(a, d)
    second, third = _multiply(b, d)
    second += carry
    if second < carry:
        third += _ONE
    if negative:
        first = _ZERO - first
        second = ~second
        third = ~third
        if first == _ZERO:
            second += _ONE
            if second == _ZERO:
                third += _ONE
    return np.int64(first), np.int64(second), np.int64(third)


@kernel(signatures=[(INTS, INTS, INT64, INTS, BOOLS, INTS_OUT)])
def count_runs(order, starts, runs, diff, valid, out):
    """out[r] = sum of diff over the rows of run r that are valid (length 0: all).

    Shapes: order int64[n] , starts int64[runs + 1] into order, diff int64[n], out int64[runs].
    """
    for r in range(runs):
        total = np.int64(0)
        for i in range(starts[r], starts[r + 1]):
            row = order[i]
            if valid.shape[0] == 0 or valid[row]:
                total += diff[row]
        out[r] = total


@kernel(signatures=[(INTS, INTS, INT64, INTS, INTS, BOOLS, INTS2_OUT)])
def sum_runs(order, starts, runs, diff, values, valid, out):
    """Exact sums of values[row] * diff[row] per run; values int64[n], out int64[2 or 3, runs]."""
    for r in range(runs):
        # Halves of the values whose diff is 1 or -1 add up without a carry.
        lower = np.int64(0)
        upper = np.int64(0)
        low = np.int64(0)
        high = np.int64(0)
        top = np.int64(0)
        for i in range(starts[r], starts[r + 1]):
            row = order[i]
            if valid.shape[0] != 0 and not valid[row]:
                continue
            value = values[row]
            d = diff[row]
            if d == 1:
                lower += value & 0xFFFFFFFF
                upper += value >> 32
            elif d == -1:
                lower -= value & 0xFFFFFFFF
                upper -= value >> 32
            else:
                a, b, c = _scaled(value, value >> 63, d)
                low, high, top = _add(low, high, top, a, b, c)
        low, high, top = _add(low, high, top, upper << 32, upper >> 32, upper >> 63)
        low, high, top = _add(low, high, top, lower, lower >> 63, lower >> 63)
        out[0, r] = low
        out[1, r] = high
        if out.shape[0] > 2:
            out[2, r] = top


@kernel(signatures=[(INTS, INTS, INT64, INTS, INTS2, BOOLS, INTS2_OUT)])
def sum_runs_wide(order, starts, runs, diff, values, valid, out):
    """`sum_runs` for values int64[n, 2] of two words; modulo 2**128 if out has two words."""
    for r in range(runs):
        low = np.int64(0)
        high = np.int64(0)
        top = np.int64(0)
        for i in range(starts[r], starts[r + 1]):
            row = order[i]
            if valid.shape[0] != 0 and not valid[row]:
                continue
            a = values[row, 0]
            b = values[row, 1]
            c = b >> 63
            if diff[row] != 1:
                a, b, c = _scaled(a, b, diff[row])
            low, high, top = _add(low, high, top, a, b, c)
        out[0, r] = low
        out[1, r] = high
        if out.shape[0] > 2:
            out[2, r] = top


@kernel
def _add_words(total, words, mode, at):
    """total += words[:, at], word by word as `mode` says (SET: put in its place)."""
    w = 0
    while w < total.shape[0]:
        if mode[w] == ADD:
            total[w] += words[w, at]
            w += 1
        elif mode[w] == SET:
            total[w] = words[w, at]
            w += 1
        elif mode[w] == WIDE:
            total[w], total[w + 1], _ = _add(
                total[w], total[w + 1], 0, words[w, at], words[w + 1, at], 0
            )
            w += 2
        else:
            total[w], total[w + 1], total[w + 2] = _add(
                total[w], total[w + 1], total[w + 2],
                words[w, at], words[w + 1, at], words[w + 2, at],
            )  # fmt: skip
            w += 3


@kernel(signatures=[(INTS, INTS, INT64, INTS2, INTS, INTS2_OUT)])
def add_runs(order, starts, runs, words, mode, out):
    """Changes added up: out[:, r] = the sum of words[:, row] over the rows of run r.

    Shapes: words int64[w, n] as `sweep_groups` takes them, mode int64[w], out int64[w, runs].
    """
    total = np.empty(words.shape[0], np.int64)
    for r in range(runs):
        for w in range(words.shape[0]):
            total[w] = 0
        for i in range(starts[r], starts[r + 1]):
            _add_words(total, words, mode, order[i])
        for w in range(words.shape[0]):
            out[w, r] = total[w]


@kernel(
    signatures=[
        (
            INTS,
            INT64,
            INTS,
            INTS2,
            INTS,
            BOOLS,
            INTS,
            INTS2,
            BOOL,
            INTS2_OUT,
            INTS2_OUT,
            INTS2_OUT,
            INTS_OUT,
        )
    ]
)
def sweep_groups(
    key_starts, keys, run_time, change, mode, touched, old_row, old, always,
    events, births, totals, sizes,
):  # fmt: skip
    """Sweep each group's runs in order of time.

    key_starts[k]..key_starts[k+1] are the runs of group k, one per time. change int64[words, runs]:
    what each run adds to the accumulators, word 0 being the count of rows; mode[word]: how (see
    ADD). touched[run], or length 0 for none: something changes beside `change`.
    old_row[k] is the stored row of the group or -1, old int64[words, groups] its accumulators.
    `always`: the group lives at count 0 too.
    Out: events int64[3, runs] (time; prior: NOTHING, a stored row, or -2 - birth; birth or -1);
    births int64[4, runs] (their run, group, time, prior as of the event), and their accumulators
    totals int64[words, runs]. sizes int64[3] = events, births, 1 if births ascend in time, else 0.
    Returns: -1, or a run where a group's count would be negative.
    """
    words = change.shape[0]
    current = np.empty(words, np.int64)
    n_events = np.int64(0)
    born = np.int64(0)
    ascending = np.int64(1)
    for k in range(keys):
        prior = old_row[k]
        for w in range(words):
            current[w] = old[w, k] if prior >= 0 else 0
        for run in range(key_starts[k], key_starts[k + 1]):
            same = touched.shape[0] == 0 or not touched[run]
            for w in range(words):
                if change[w, run] != (current[w] if mode[w] == SET else 0):
                    same = False
            if same and not (always and prior == NOTHING):
                continue
            _add_words(current, change, mode, run)
            if current[0] < 0:
                return np.int64(run)
            lives = always or current[0] > 0
            if not lives:
                for w in range(words):  # as it is in any group without rows
                    current[w] = 0
            if not lives and prior == NOTHING:
                continue
            events[0, n_events] = run_time[run]
            events[1, n_events] = prior
            events[2, n_events] = -1
            if lives:
                events[2, n_events] = born
                births[0, born] = run
                births[1, born] = k
                births[2, born] = run_time[run]
                births[3, born] = prior
                if born > 0 and births[2, born - 1] > run_time[run]:
                    ascending = 0
                for v in range(words):
                    totals[v, born] = current[v]
                prior = -2 - born
                born += 1
            else:
                prior = NOTHING
            n_events += 1
    sizes[0] = n_events
    sizes[1] = born
    sizes[2] = ascending
    return np.int64(-1)


@kernel(signatures=[(INTS2, INT64, INT64, INTS, INTS_OUT, INTS_OUT, INTS_OUT, INTS2_OUT)])
def replace_rows(events, count, first, place, rows, times, diff, pairs):
    """The changes of the stored rows that `events` of `sweep_groups` are: deaths, then births.

    Birth b is row first + place[b] (length 0: first + b). Out: rows, times, diff int64[2 * count];
    pairs int64[2, count], positions of an old and its new row. Returns how many (deaths, rows,
    pairs).
    """
    deaths = np.int64(0)
    for e in range(count):
        if events[1, e] != NOTHING:
            deaths += 1
    dead = np.int64(0)
    at = deaths
    paired = np.int64(0)
    for e in range(count):
        prior = events[1, e]
        birth = events[2, e]
        if prior != NOTHING:
            if prior < NOTHING:
                before = -2 - prior
                prior = first + (place[before] if place.shape[0] else before)
            rows[dead] = prior
            times[dead] = events[0, e]
            diff[dead] = -1
            if birth >= 0:
                pairs[0, paired] = dead
                pairs[1, paired] = at
                paired += 1
            dead += 1
        if birth >= 0:
            rows[at] = first + (place[birth] if place.shape[0] else birth)
            times[at] = events[0, e]
            diff[at] = 1
            at += 1
    return deaths, at, paired
