"""Kernels of top-k: reading an ordered index from the front, and following its first rows."""

from __future__ import annotations

import numpy as np

from operators.kernels.jit import BOOL, BOOLS_OUT, INT64, INTS, INTS2, INTS_OUT, kernel
from operators.kernels.memory import load_i64, store_i64
from operators.kernels.sorting import bucket_of
from operators.kernels.spines import _is_gone, leading
from operators.kernels.versions import died_at, is_visible


@kernel
def _equal(keys, n, i, probes, p):
    for w in range(probes.shape[0]):
        if load_i64(keys, w * n + i) != probes[w, p]:
            return False
    return True


@kernel
def _gallop(keys, n, start, end, probes, p):
    """First position in [start, end) whose key is not below probe p, on the probe's words; the work
    is logarithmic in the distance from start (Shared Arrangements §5.3.1, alternating seeks)."""
    sought = np.int64(probes.ctypes.data)
    words, m = probes.shape
    return start + leading(keys, n, start, end, sought, m, p, words, False)


@kernel
def _entry_before(a_keys, a_n, i, b_keys, b_n, j, width):
    for w in range(width):
        x = load_i64(a_keys, w * a_n + i)
        y = load_i64(b_keys, w * b_n + j)
        if x < y:
            return True
        if x > y:
            return False
    return False


@kernel
def _entries_equal(a_keys, a_n, i, b_keys, b_n, j, width):
    for w in range(width):
        if load_i64(a_keys, w * a_n + i) != load_i64(b_keys, w * b_n + j):
            return False
    return True


@kernel
def _leap(batch, start, end, probes, p, dead, died_row, work):
    """First entry from `start` on that somebody may see, or that is of another partition. Leaves a
    skip at `start` over what nobody can see again."""
    keys, rows, n, skips = batch[0], batch[1], batch[3], batch[4]
    i = start
    while i < end:
        skip = load_i64(skips, i)
        if skip > 0:
            i += skip
            continue
        if not _equal(keys, n, i, probes, p) or not _is_gone(load_i64(rows, i), dead, died_row):
            break
        work[0] += 1
        i += 1
    if i > start:
        store_i64(skips, start, i - start)
    return i


@kernel(
    signatures=[(INTS2, INT64, INTS2, INTS, INT64, INTS, INTS, INTS, INTS_OUT, INTS_OUT, INTS_OUT)]
)
def fronts(
    spine, width, probes, wanted, since, dead, died_row, died_time, out_group, out_row, work
):
    """For each partition the rows in front that did not die before `since`, in key order: the first
    wanted[g], and all whose key equals that of the last of them.

    Shapes: spine int64[b, 5] (addresses of keys, rows, offsets; n; skips), probes int64[p, groups]
    sorted by (bucket, key), wanted int64[groups], out int64[capacity], work int64[2].
    Returns: how many; beyond the capacity they are counted only.
    """
    count = np.int64(0)
    batches = spine.shape[0]
    heads = np.zeros(batches, np.int64)
    ends = np.zeros(batches, np.int64)
    bucket_at = np.full(batches, -1, np.int64)
    for g in range(probes.shape[1]):
        bucket = bucket_of(probes[0, g])
        for b in range(batches):
            ends[b] = load_i64(spine[b, 2], bucket + 1)
            if bucket_at[b] != bucket:
                bucket_at[b] = bucket
                heads[b] = load_i64(spine[b, 2], bucket)
            heads[b] = _gallop(spine[b, 0], spine[b, 3], heads[b], ends[b], probes, g)
            heads[b] = _leap(spine[b], heads[b], ends[b], probes, g, dead, died_row, work)
            work[1] += 1
        found = np.int64(0)
        last_batch = np.int64(-1)
        last_entry = np.int64(0)
        while True:
            best = np.int64(-1)
            for b in range(batches):
                if heads[b] < ends[b] and _equal(spine[b, 0], spine[b, 3], heads[b], probes, g):
                    if best < 0 or _entry_before(
                        spine[b, 0], spine[b, 3], heads[b],
                        spine[best, 0], spine[best, 3], heads[best], width,
                    ):  # fmt: skip
                        best = b
            if best < 0:
                break
            entry = heads[best]
            row = load_i64(spine[best, 1], entry)
            work[0] += 1
            if died_at(row, dead, died_row, died_time) >= since:
                if found >= wanted[g] and (
                    last_batch < 0
                    or not _entries_equal(
                        spine[best, 0], spine[best, 3], entry,
                        spine[last_batch, 0], spine[last_batch, 3], last_entry, width,
                    )
                ):  # fmt: skip
                    break
                if count < out_row.shape[0]:
                    out_group[count] = g
                    out_row[count] = row
                count += 1
                found += 1
                if found <= wanted[g]:
                    last_batch = best
                    last_entry = entry
            heads[best] = entry + 1
    return count


@kernel(
    signatures=[
        (INTS, BOOLS_OUT, INT64, INT64, INTS, INTS, INTS, INTS, INTS_OUT, INTS_OUT, INTS_OUT)
    ]
)
def follow_groups(
    place_start, alive, low, high, event_start, event_place, event_time, event_sign,
    out_place, out_time, out_diff,
):  # fmt: skip
    """Changes of the rows at ranks [low, high) among the living ones of each group, in order of
    place.

    The places of group g are place_start[g]..place_start[g + 1] (int64[groups + 1]) of alive
    bool[m], as of before the events (changed in place); its events, in order of time, are
    event_start[g]..event_start[g + 1]: at event_time[e] the row at place event_place[e] is born
    (+1) or dies (-1). Out: (place, time, +1 or -1). Returns how many; beyond the capacity they are
    counted only. Cost: O(events), and O(places) for each time at which the first `high` rows of a
    group change.
    """
    member = np.empty(alive.shape[0], np.bool_)
    count = np.int64(0)
    for g in range(place_start.shape[0] - 1):
        start = place_start[g]
        end = place_start[g + 1]
        rank = np.int64(0)
        last = end
        for p in range(start, end):
            member[p] = alive[p] and low <= rank < high
            if alive[p]:
                rank += 1
                if rank == high:
                    last = min(last, p)
        e = event_start[g]
        n = event_start[g + 1]
        while e < n:
            time = event_time[e]
            affected = False
            while e < n and event_time[e] == time:
                place = event_place[e]
                alive[place] = event_sign[e] > 0
                if place <= last:
                    affected = True
                e += 1
            if not affected:
                continue
            rank = np.int64(0)
            reach = last
            last = end
            p = start
            while p < end and (last == end or p <= reach):
                now = False
                if alive[p]:
                    now = low <= rank < high
                    rank += 1
                    if rank == high:
                        last = p
                if now != member[p]:
                    member[p] = now
                    if count < out_place.shape[0]:
                        out_place[count] = p
                        out_time[count] = time
                        out_diff[count] = 1 if now else -1
                    count += 1
                p += 1
    return count


@kernel
def _first_in_batch(
    batch, start, end, probes, p, time, dead, born_first, born_time, died_row, died_time, work
):
    """Place of the first entry from `start` on with probe p's prefix that is visible as of time,
    or -1, and from which entry on to look for it as of later times. Leaves a skip at `start` over
    the entries that nobody can see again."""
    keys, rows, n, skips = batch[0], batch[1], batch[3], batch[4]
    i = start
    alive_from = start
    all_dead = True
    leading = True
    while i < end:
        skip = load_i64(skips, i)
        if skip > 0:
            i += skip
            if all_dead:
                alive_from = i
            continue
        if not _equal(keys, n, i, probes, p):
            break
        row = load_i64(rows, i)
        work[0] += 1
        if leading and not _is_gone(row, dead, died_row):
            leading = False
            if i > start:
                store_i64(skips, start, i - start)
        if is_visible(row, time, True, dead, born_first, born_time, died_row, died_time):
            return i, alive_from
        i += 1
        if all_dead and died_at(row, dead, died_row, died_time) <= time:
            alive_from = i
        else:
            all_dead = False
    if leading and i > start:
        store_i64(skips, start, i - start)
    return np.int64(-1), alive_from


@kernel(
    signatures=[
        (
            INTS2,
            INT64,
            INTS2,
            INTS,
            BOOL,
            INTS,
            INTS,
            INTS,
            INTS,
            INTS,
            INTS_OUT,
            INTS_OUT,
            INTS_OUT,
        )
    ]
)
def first_visible(
    spine, width, probes, times, exact, dead, born_first, born_time, died_row, died_time,
    out_probe, out_row, work,
):  # fmt: skip
    """For each probe the first entries in key order, under its prefix, visible as of its time: one,
    and, unless keys are `exact`, all visible ones whose key equals its key.

    Shapes: spine int64[b, 5] (addresses of keys, rows, offsets; n; skips), probes int64[p, m]
    sorted by (bucket, key), times int64[m], out int64[capacity]. Returns how many; beyond the
    capacity they are counted only.
    Cost: a seek for each prefix and batch. Where a prefix comes again at a later time, what was
    dead in front of it is passed over.
    """
    count = np.int64(0)
    batches = spine.shape[0]
    at = np.zeros(batches, np.int64)
    alive_from = np.zeros(batches, np.int64)
    bucket_at = np.full(batches, -1, np.int64)
    found = np.empty(batches, np.int64)
    for p in range(probes.shape[1]):
        bucket = bucket_of(probes[0, p])
        best = np.int64(-1)
        goes_on = p > 0 and times[p] >= times[p - 1]
        for w in range(probes.shape[0]):
            goes_on = goes_on and probes[w, p] == probes[w, p - 1]
        for b in range(batches):
            offsets = spine[b, 2]
            end = load_i64(offsets, bucket + 1)
            if bucket_at[b] != bucket:
                bucket_at[b] = bucket
                at[b] = load_i64(offsets, bucket)
            if not goes_on:
                at[b] = _gallop(spine[b, 0], spine[b, 3], at[b], end, probes, p)
                alive_from[b] = at[b]
                work[1] += 1
            found[b], alive_from[b] = _first_in_batch(
                spine[b], alive_from[b], end, probes, p, times[p],
                dead, born_first, born_time, died_row, died_time, work,
            )  # fmt: skip
            if found[b] >= 0 and (
                best < 0
                or _entry_before(
                    spine[b, 0], spine[b, 3], found[b],
                    spine[best, 0], spine[best, 3], found[best], width,
                )
            ):  # fmt: skip
                best = b
        if best < 0:
            continue
        if exact:
            if count < out_row.shape[0]:
                out_probe[count] = p
                out_row[count] = load_i64(spine[best, 1], found[best])
            count += 1
            continue
        for b in range(batches):
            if found[b] < 0:
                continue
            end = load_i64(spine[b, 2], bucket + 1)
            i = found[b]
            while i < end and _entries_equal(
                spine[b, 0], spine[b, 3], i,
                spine[best, 0], spine[best, 3], found[best], width,
            ):  # fmt: skip
                row = load_i64(spine[b, 1], i)
                work[0] += 1
                if is_visible(
                    row, times[p], True, dead, born_first, born_time, died_row, died_time
                ):
                    if count < out_row.shape[0]:
                        out_probe[count] = p
                        out_row[count] = row
                    count += 1
                i += 1
    return count


@kernel(signatures=[(INTS, INTS, INTS, INTS, INTS, INTS_OUT)])
def first_alive(starts, born, died, probe_starts, times, out):
    """For each probe the first candidate of its group that lives as of its time, or -1.

    Shapes: candidates of group g are starts[g]..starts[g + 1], best first, alive in [born, died),
    int64[n]; its probes probe_starts[g]..probe_starts[g + 1], times int64[m] ascending in each
    group; out int64[m]: positions of candidates.
    Cost: nearly linear in both, and a search of the times for each candidate that is looked at.
    """
    # Of each probe the next one that has no candidate yet: found ones are leapt over, and paths
    # are halved on the way (Tarjan's disjoint sets).
    after = np.arange(times.shape[0] + 1)
    for g in range(starts.shape[0] - 1):
        first, end = probe_starts[g], probe_starts[g + 1]
        for i in range(first, end):
            out[i] = -1
        missing = end - first
        for c in range(starts[g], starts[g + 1]):
            if missing == 0:
                break
            low, high = first, end
            while low < high:
                middle = (low + high) >> 1
                if times[middle] < born[c]:
                    low = middle + 1
                else:
                    high = middle
            i = low
            while True:
                while after[i] != i:
                    after[i] = after[after[i]]
                    i = after[i]
                if i >= end or times[i] >= died[c]:
                    break
                out[i] = c
                after[i] = i + 1
                missing -= 1
