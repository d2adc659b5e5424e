"""Kernels of the group operator: sums per run, and the sweep over each group's times.

A 128-bit sum is two int64 words, low (as bits) and high, two's complement.
"""

from __future__ import annotations

import numpy as np

from operators.kernels.jit import BOOL, BOOLS, INT64, INTS, INTS2, INTS2_OUT, INTS_OUT, kernel

_LOW = np.uint64(0xFFFFFFFF)
_S32 = np.uint64(32)
#: What a group's event replaces: a stored row (>= 0), nothing, or birth b (-2 - b).
NOTHING = np.int64(-1)
#: How a run's word changes an accumulator's.
ADD, WIDE, SET = 0, 1, 2


@kernel
def _multiply(value, diff):
    """value * diff as 128 bits; |diff| < 2**31."""
    negative = (value < 0) != (diff < 0)
    a = np.uint64(value) if value >= 0 else np.uint64(0) - np.uint64(value)
    b = np.uint64(diff) if diff >= 0 else np.uint64(0) - np.uint64(diff)
    low = (a & _LOW) * b
    high = (a >> _S32) * b + (low >> _S32)
    result_low = (high << _S32) | (low & _LOW)
    result_high = high >> _S32
    if negative:
        result_low = np.uint64(0) - result_low
        result_high = ~result_high
        if result_low == np.uint64(0):
            result_high += np.uint64(1)
    return np.int64(result_low), np.int64(result_high)


@kernel
def _add(low, high, add_low, add_high):
    total = np.uint64(low) + np.uint64(add_low)
    carry = np.int64(1) if total < np.uint64(low) else np.int64(0)
    return np.int64(total), high + add_high + carry


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


@kernel(signatures=[(INTS, INTS, INT64, INTS, INTS, BOOLS, INTS_OUT, INTS_OUT)])
def sum_runs(order, starts, runs, diff, values, valid, out_low, out_high):
    """Exact 128-bit sums of values[row] * diff[row] per run; values int64[n]."""
    for r in range(runs):
        low = np.int64(0)
        high = np.int64(0)
        for i in range(starts[r], starts[r + 1]):
            row = order[i]
            if valid.shape[0] == 0 or valid[row]:
                if diff[row] == 1:
                    low, high = _add(low, high, values[row], values[row] >> 63)
                else:
                    a, b = _multiply(values[row], diff[row])
                    low, high = _add(low, high, a, b)
        out_low[r] = low
        out_high[r] = high


@kernel(signatures=[(INTS, INTS, INT64, INTS, INTS2, BOOLS, INTS_OUT, INTS_OUT)])
def sum_runs_wide(order, starts, runs, diff, values, valid, out_low, out_high):
    """`sum_runs` for values int64[n, 2] of two words; modulo 2**128. One addition per copy."""
    for r in range(runs):
        low = np.int64(0)
        high = np.int64(0)
        for i in range(starts[r], starts[r + 1]):
            row = order[i]
            if valid.shape[0] == 0 or valid[row]:
                a = values[row, 0]
                b = values[row, 1]
                copies = diff[row]
                if copies < 0:
                    copies = -copies
                    a = np.int64(np.uint64(0) - np.uint64(a))
                    b = ~b
                    if a == 0:
                        b += 1
                for _ in range(copies):
                    low, high = _add(low, high, a, b)
        out_low[r] = low
        out_high[r] = high


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
            INTS_OUT,
            INTS_OUT,
            INTS_OUT,
            INTS_OUT,
            INTS_OUT,
            INTS_OUT,
            INTS2_OUT,
            INTS_OUT,
        )
    ]
)
def sweep_groups(
    key_starts, keys, run_time, change, mode, touched, old_row, old, always,
    event_time, event_prior, event_birth, birth_run, birth_time, birth_prior, births, sizes,
):  # fmt: skip
    """Sweep each group's runs in order of time.

    key_starts[k]..key_starts[k+1] are the runs of group k, one per time. change int64[words, runs]:
    what each run adds to the accumulators, word 0 being the count of rows, or, where mode[word] is
    SET, what the word is from then on; WIDE is the low word of a 128-bit sum, whose high word
    follows. touched[run]: something changes beside `change`.
    old_row[k] is the stored row of the group or -1, old int64[words, groups] its accumulators.
    `always`: the group lives at count 0 too.
    Out: events (time; prior: NOTHING, a stored row, or -2 - birth; birth or -1), births (their run,
    time, prior as of the event, and words int64[words, runs]). sizes int64[2] = events, births.
    Returns: -1, or a run where a group's count would be negative.
    """
    words = change.shape[0]
    current = np.empty(words, np.int64)
    events = np.int64(0)
    born = np.int64(0)
    for k in range(keys):
        prior = old_row[k]
        for w in range(words):
            current[w] = old[w, k] if prior >= 0 else 0
        for run in range(key_starts[k], key_starts[k + 1]):
            same = not touched[run]
            for w in range(words):
                if change[w, run] != (current[w] if mode[w] == SET else 0):
                    same = False
            if same and not (always and prior == NOTHING):
                continue
            w = 0
            while w < words:
                if mode[w] == SET:
                    current[w] = change[w, run]
                    w += 1
                elif mode[w] == WIDE:
                    current[w], current[w + 1] = _add(
                        current[w], current[w + 1], change[w, run], change[w + 1, run]
                    )
                    w += 2
                else:
                    current[w] += change[w, run]
                    w += 1
            if current[0] < 0:
                return np.int64(run)
            lives = always or current[0] > 0
            if not lives and prior == NOTHING:
                continue
            event_time[events] = run_time[run]
            event_prior[events] = prior
            event_birth[events] = -1
            if lives:
                event_birth[events] = born
                birth_run[born] = run
                birth_time[born] = run_time[run]
                birth_prior[born] = prior
                for v in range(words):
                    births[v, born] = current[v]
                prior = -2 - born
                born += 1
            else:
                prior = NOTHING
            events += 1
    sizes[0] = events
    sizes[1] = born
    return np.int64(-1)
