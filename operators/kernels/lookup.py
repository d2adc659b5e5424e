"""Looking keys up in the batches of an index: where they are, then which of their rows are seen.

`group` lays the distinct keys of sorted probes out, so that a key that many probes ask for is
sought once. `seek` walks a batch and the distinct keys together, bucket by bucket, each leaping
over what the other does not have: the work follows the smaller of the two, and a batch whose keys
lie elsewhere costs a few comparisons a bucket. What it finds, runs of entries with one key, `emit`
turns into pairs; it tests filter and visibility once for a key and time, however many probes share
them. Where a key has many versions and is asked for at many times, `_sweep` goes through both once,
in order of time.

A spine is an int64[b, 4] table: the addresses of keys, rows and offsets, and n, for each of its b
batches (see operators.kernels.spines). Probes are laid out as in operators.state.probes.
Source: Shared Arrangements §5.3.1 (alternating seeks).
"""

from __future__ import annotations

import numpy as np

from operators.kernels.jit import BOOL, BOOLS_OUT, INT64, INTS, INTS2, INTS2_OUT, INTS_OUT, kernel
from operators.kernels.memory import bit_is_set, load_i64, prefetch
from operators.kernels.sorting import BUCKETS, argsort, bucket_of, bucket_starts
from operators.kernels.versions import NEVER, born_at, died_at, is_visible

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
#: Entries to leap over, for each key sought, from which a guess beats galloping.
_SPARSE = 256
#: Entries of a run that are looked at one by one; beyond them its end is leapt to.
_NEAR = 8
#: Entries of a key times its probes, from which sorting both by time pays.
_MANY = 64
#: Runs whose rows are on their way from memory while one is read.
_AHEAD = 12


@kernel(signatures=[(INTS2, INTS, INTS2_OUT, INTS_OUT, INTS_OUT)])
def group(words, order, out_keys, out_starts, out_buckets):
    """Distinct keys of words int64[w, n] in `order`, int64[n]; returns how many, m.

    Shapes: out_keys int64[w, n], the first m columns; out_starts int64[n + 1], out_starts[m] = n;
    out_buckets int64[65].
    """
    n = order.shape[0]
    count = np.int64(0)
    for i in range(n):
        p = order[i]
        fresh = i == 0
        for w in range(words.shape[0]):
            fresh = fresh or words[w, p] != out_keys[w, count - 1]
        if fresh:
            for w in range(words.shape[0]):
                out_keys[w, count] = words[w, p]
            out_starts[count] = i
            count += 1
    out_starts[count] = n
    bucket_starts(out_keys[0], count, out_buckets)
    return count


@kernel
def _compare(a, a_stride, i, b, b_stride, j, words):
    """-1, 0 or 1 as key i at address a sorts before, with or after key j at address b."""
    for w in range(words):
        x = load_i64(a, w * a_stride + i)
        y = load_i64(b, w * b_stride + j)
        if x < y:
            return -1
        if x > y:
            return 1
    return 0


@kernel
def _leap(a, a_stride, start, end, b, b_stride, j, words, guess):
    """First position in (start, end] from which keys at `a` are not below key j at `b`; the key at
    `start` is. The work is logarithmic in the distance from `start` or, if that is not 0, from
    the position `guess` of (start, end)."""
    low = start
    high = end
    step = np.int64(1)
    if guess > 0 and _compare(a, a_stride, guess, b, b_stride, j, words) >= 0:
        high = guess
        while high - step > low and _compare(a, a_stride, high - step, b, b_stride, j, words) >= 0:
            high -= step
            step <<= 1
        low = max(low, high - step)
    else:
        low = max(low, guess)
        while low + step < high and _compare(a, a_stride, low + step, b, b_stride, j, words) < 0:
            low += step
            step <<= 1
        high = min(low + step, high)
    low += 1
    while low < high:
        middle = (low + high) >> 1
        if _compare(a, a_stride, middle, b, b_stride, j, words) < 0:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def _run_end(keys, n, at, end, wanted, stride, p, words):
    """First position in (at, end] whose key is not key p at `wanted`; that at `at` is. The work is
    that of the run where it is short, else logarithmic in it: who counts does not visit."""
    low = at + 1
    near = min(low + _NEAR, end)
    while low < near and _compare(keys, n, low, wanted, stride, p, words) == 0:
        low += 1
    if low < near or low == end:
        return low
    step = np.int64(_NEAR)
    low -= 1
    while low + step < end and _compare(keys, n, low + step, wanted, stride, p, words) == 0:
        low += step
        step <<= 1
    high = min(low + step, end)
    low += 1
    while low < high:
        middle = (low + high) >> 1
        if _compare(keys, n, middle, wanted, stride, p, words) == 0:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def _guess(keys, start, end, wanted):
    """Where in (start, end) the leading word `wanted` is if words are spread evenly; 0 if they are
    all the same."""
    first = np.float64(load_i64(keys, start))
    last = np.float64(load_i64(keys, end - 1))
    if not first < last:
        return np.int64(0)
    share = (np.float64(wanted) - first) / (last - first)
    return start + 1 + np.int64(min(max(share, 0.0), 1.0) * (end - 2 - start))


@kernel(signatures=[(INTS2, INTS2, INTS, INTS2_OUT, INTS_OUT)])
def seek(spine, probes, buckets, out, work):
    """Find the distinct keys probes int64[w, *], in buckets int64[65], in every batch.

    Shapes: out int64[h, 4], a row for each run of entries: batch, key, first entry, end. There has
    to be room for min(m, n) runs a batch. work[1] counts seeks.
    Returns: how many runs there are; they come in (batch, bucket, key) order.
    """
    count = np.int64(0)
    seeks = np.int64(0)
    words = np.int64(probes.shape[0])
    stride = np.int64(probes.shape[1])
    wanted = np.int64(probes.ctypes.data)
    for batch in range(spine.shape[0]):
        keys = spine[batch, 0]
        offsets = spine[batch, 2]
        n = spine[batch, 3]
        for bucket in range(BUCKETS):
            p = buckets[bucket]
            p_end = buckets[bucket + 1]
            if p == p_end:
                continue
            at = load_i64(offsets, bucket)
            end = load_i64(offsets, bucket + 1)
            while p < p_end and at < end:
                seeks += 1
                order = _compare(keys, n, at, wanted, stride, p, words)
                if order < 0:
                    guess = np.int64(0)
                    if end - at > _SPARSE * (p_end - p):
                        guess = _guess(keys, at, end, load_i64(wanted, p))
                    at = _leap(keys, n, at, end, wanted, stride, p, words, guess)
                elif order > 0:
                    p = _leap(wanted, stride, p, p_end, keys, n, at, words, np.int64(0))
                else:
                    out[count, 0] = batch
                    out[count, 1] = p
                    out[count, 2] = at
                    at = _run_end(keys, n, at, end, wanted, stride, p, words)
                    out[count, 3] = at
                    count += 1
                    p += 1
    work[1] += seeks
    return count


@kernel
def _digest(words, stride, i, shift):
    """A hash of key i, of as many bits as a shift by `shift` leaves."""
    x = np.uint64(0)
    for w in range(words[1]):
        x = (x ^ (x >> np.uint64(32)) ^ np.uint64(load_i64(words[0], w * stride + i))) * _GOLDEN
    return np.int64(x >> np.uint64(shift))


@kernel(signatures=[(INTS2, INTS2, INTS_OUT, INTS_OUT)])
def candidates(spine, probes, bits, out):
    """Positions of the keys probes int64[w, n] that some batch may have: all that one has, and few
    others.

    Shapes: bits int64[a power of two], zero, at least a quarter as many as there are entries; out
    int64[n]. Returns: how many positions there are. Cost: O(entries + n), a bit each.
    """
    shift = np.int64(58)
    while np.int64(1) << (58 - shift) < bits.shape[0]:
        shift -= 1
    width = np.int64(probes.shape[0])
    for batch in range(spine.shape[0]):
        n = spine[batch, 3]
        for i in range(n):
            digest = _digest((spine[batch, 0], width), n, i, shift)
            bits[digest >> 6] |= np.int64(1) << (digest & 63)
    count = np.int64(0)
    n = np.int64(probes.shape[1])
    words = np.int64(probes.ctypes.data)
    for i in range(n):
        digest = _digest((words, width), n, i, shift)
        out[count] = i
        count += (bits[digest >> 6] >> (digest & 63)) & 1
    return count


@kernel
def _has_times(order, start, end, times):
    """Whether the probes order[start:end] have more than one time."""
    for j in range(start + 1, end):
        if times[order[j]] != times[order[start]]:
            return True
    return False


@kernel
def _sweep(
    rows, start, end, probes, times, as_of, bits,
    dead, born_first, born_time, died_row, died_time,
    out_probe, out_row, skip, count,
):  # fmt: skip
    """Pairs of the entries [start, end) of one key and its probes, in order of the probes' times,
    from the probe numbered `skip` in that order on.

    Rows that all the times see are told apart first; the others come in as they are born and go as
    they die. Returns: the probe to go on with, how many pairs there are, and the room that it
    needs; no room where all probes are done.
    Cost: a look at each entry, a sort of the probes, and the pairs.
    """
    n = probes.shape[0]
    # Just before a time is as of the one before it.
    when = np.empty((1, n), np.int64)
    for j in range(n):
        when[0, j] = times[probes[j]] - (0 if as_of else 1)
    by_time, scratch = np.empty(n, np.int64), np.empty(n, np.int64)
    argsort(when, by_time, scratch)
    first, last = when[0, by_time[0]], when[0, by_time[n - 1]]
    lasting, row_of = np.empty(end - start, np.int64), np.empty(end - start, np.int64)
    born, died = np.empty((1, end - start), np.int64), np.empty(end - start, np.int64)
    n_lasting, moving = np.int64(0), np.int64(0)
    for i in range(start, end):
        row = load_i64(rows, i)
        if bits.shape[0] != 0 and not bit_is_set(bits, row):
            continue
        birth = born_at(row, born_first, born_time)
        death = died_at(row, dead, died_row, died_time)
        if birth <= first and death > last:
            lasting[n_lasting] = row
            n_lasting += 1
        elif birth <= last and death > first and birth < death:
            row_of[moving], born[0, moving], died[moving] = row, birth, death
            moving += 1
    by_birth, more = np.empty(moving, np.int64), np.empty(moving, np.int64)
    argsort(born[:, :moving].copy(), by_birth, more)
    seen = np.empty(moving, np.int64)
    n_seen, entered = np.int64(0), np.int64(0)
    begin = np.int64(-1)
    for j in range(skip, n):
        t = when[0, by_time[j]]
        same = begin >= 0 and t == when[0, by_time[j - 1]]
        if not same:
            while entered < moving and born[0, by_birth[entered]] <= t:
                seen[n_seen] = by_birth[entered]
                n_seen += 1
                entered += 1
            kept = np.int64(0)
            for i in range(n_seen):
                if died[seen[i]] > t:
                    seen[kept] = seen[i]
                    kept += 1
            n_seen = kept
        room = n_lasting + n_seen
        if count + room > out_probe.shape[0]:
            return np.int64(j), count, room
        for i in range(room):
            out_probe[count + i] = probes[by_time[j]]
        if same:
            for i in range(room):
                out_row[count + i] = out_row[begin + i]
        else:
            for i in range(n_lasting):
                out_row[count + i] = lasting[i]
            for i in range(n_seen):
                out_row[count + n_lasting + i] = row_of[seen[i]]
        begin = count
        count += room
    return np.int64(n), count, np.int64(0)


@kernel(
    signatures=[
        (
            INTS2,
            INTS2,
            INT64,
            INTS,
            INTS,
            INTS,
            BOOL,
            INTS,
            INTS,
            INTS,
            INTS,
            INTS,
            INTS,
            INTS_OUT,
            INTS_OUT,
            INTS_OUT,
            INTS_OUT,
        )
    ]
)
def emit(
    spine, runs, n_runs, order, starts, times, as_of, bits,
    dead, born_first, born_time, died_row, died_time,
    out_probe, out_row, state, work,
):  # fmt: skip
    """Pairs (probe, visible row of its key) from the runs int64[n_runs, 4] that `seek` found: as of
    the probe's time, or just before it.

    Shapes: times int64[n]; bits is a slot of filter bitmaps, or of length 0 for no filter;
    out_probe, out_row int64[capacity]. state int64[3] says where to go on: run, probe of its key
    (in order of time if that is how they are taken), and pairs written; all 0 at first. work[0]
    counts entries visited.
    Returns: 0 when done; else at least so much more room is needed to go on.
    """
    capacity = out_probe.shape[0]
    filtered = bits.shape[0] != 0
    earliest = times[0]
    latest = times[0]
    for t in times:
        earliest = min(earliest, t)
        latest = max(latest, t)
    # Rows before `young` are born for every probe, those from `unborn` on for none.
    young = NEVER
    unborn = NEVER
    for i in range(born_first.shape[0] - 1, -1, -1):
        born = born_time[i]
        if born > earliest or (born == earliest and not as_of):
            young = born_first[i]
        if born > latest or (born == latest and not as_of):
            unborn = born_first[i]
    deadly = False
    for address in dead:
        deadly = deadly or address != 0
    visited = np.int64(0)
    skip = state[1]
    count = state[2]
    for r in range(state[0], n_runs):
        if r + _AHEAD < n_runs:
            prefetch(spine[runs[r + _AHEAD, 0], 1] + 8 * runs[r + _AHEAD, 2])
        rows = spine[runs[r, 0], 1]
        key = runs[r, 1]
        start = runs[r, 2]
        end = runs[r, 3]
        sought = order[starts[key] : starts[key + 1]]
        if (
            len(sought) > 1
            and len(sought) * (end - start) >= _MANY
            and end - start > 1
            and _has_times(sought, 0, len(sought), times)
        ):
            visited += end - start
            skip, count, room = _sweep(
                rows, start, end, sought, times, as_of, bits,
                dead, born_first, born_time, died_row, died_time,
                out_probe, out_row, skip, count,
            )  # fmt: skip
            if room:
                state[0], state[1], state[2] = r, skip, count
                work[0] += visited
                return room
            skip = np.int64(0)
            continue
        # Pairs [begin, done) are those of the probe before, at time `last`.
        begin = np.int64(-1)
        done = np.int64(-1)
        last = np.int64(0)
        for j in range(starts[key] + skip, starts[key + 1]):
            p = order[j]
            t = times[p]
            same = begin >= 0 and t == last
            room = done - begin if same else end - start
            if count + room > capacity:
                state[0], state[1], state[2] = r, j - starts[key], count
                work[0] += visited
                return room
            if same:
                for i in range(begin, done):
                    out_probe[count] = p
                    out_row[count] = out_row[i]
                    count += 1
                continue
            begin = count
            last = t
            visited += end - start
            for i in range(start, end):
                row = load_i64(rows, i)
                seen = row < unborn
                if filtered:
                    seen &= bit_is_set(bits, row)
                if row >= young or (deadly and bit_is_set(dead, row)):
                    seen = seen and is_visible(
                        row, t, as_of, dead, born_first, born_time, died_row, died_time
                    )
                out_probe[count] = p
                out_row[count] = row
                count += np.int64(seen)
            done = count
        skip = np.int64(0)
    state[0], state[1], state[2] = n_runs, 0, count
    work[0] += visited
    return np.int64(0)


@kernel(
    signatures=[
        (INTS2, INTS2, INT64, INTS, INTS, INTS, INTS, INTS_OUT, INTS_OUT, BOOLS_OUT, INTS_OUT)
    ]
)
def living(spine, runs, n_runs, order, starts, limit, dead, out_probe, out_row, left, work):
    """Pairs (probe, row of its key that has not died), at most limit[p] for probe p.

    Shapes: as for emit; limit int64[n]; out int64[limit.sum()]; left bool[n], false: whether the
    key has entries that were not visited. Returns: how many pairs.
    Cost: entries are visited until the limit is reached, the latest first: where rows come and go
    under one key, those are the ones that live.
    """
    count = np.int64(0)
    found = np.zeros(order.shape[0], np.int64)
    for r in range(n_runs - 1, -1, -1):
        rows = spine[runs[r, 0], 1]
        key = runs[r, 1]
        for j in range(starts[key], starts[key + 1]):
            p = order[j]
            i = runs[r, 3]
            while i > runs[r, 2] and found[p] < limit[p]:
                i -= 1
                row = load_i64(rows, i)
                work[0] += 1
                if not bit_is_set(dead, row):
                    out_probe[count] = p
                    out_row[count] = row
                    count += 1
                    found[p] += 1
            if i > runs[r, 2]:
                left[p] = True
    return count


@kernel
def _bound(keys, count, low, end, wanted, stride, p, words, above):
    """The first entry of [low, end) whose key is not below key p at `wanted`; or, if `above`, is
    above it."""
    while low < end:
        middle = (low + end) >> 1
        order = _compare(keys, count, middle, wanted, stride, p, words)
        if order < 0 or (above and order == 0):
            low = middle + 1
        else:
            end = middle
    return low


@kernel(signatures=[(INTS2, INTS2, INTS_OUT, INTS_OUT)])
def entries_of_few(spine, probes, out, work):
    """How many entries each of the keys probes int64[w, n] has, out int64[n], zeros: sought one by
    one, in any order, and not visited. work[1] counts seeks."""
    words = np.int64(probes.shape[0])
    n = np.int64(probes.shape[1])
    wanted = np.int64(probes.ctypes.data)
    for p in range(n):
        bucket = bucket_of(probes[0, p])
        for batch in range(spine.shape[0]):
            low = np.int64(load_i64(spine[batch, 2], bucket))
            end = np.int64(load_i64(spine[batch, 2], bucket + 1))
            if low == end:
                continue
            work[1] += 1
            keys, size = spine[batch, 0], spine[batch, 3]
            low = _bound(keys, size, low, end, wanted, n, p, words, False)
            out[p] += _bound(keys, size, low, end, wanted, n, p, words, True) - low


@kernel
def living_of(spine, probes, p, limit, dead, out, at, work):
    """Rows of key p of probes int64[w, *] that have not died, the latest first, into out[at:]:
    `limit` at most. Returns how many, and whether the key has entries that were not visited."""
    words = np.int64(probes.shape[0])
    stride = np.int64(probes.shape[1])
    wanted = np.int64(probes.ctypes.data)
    bucket = bucket_of(probes[0, p])
    found = np.int64(0)
    for back in range(spine.shape[0]):
        batch = spine.shape[0] - 1 - back
        start = np.int64(load_i64(spine[batch, 2], bucket))
        end = np.int64(load_i64(spine[batch, 2], bucket + 1))
        if start == end:
            continue
        work[1] += 1
        keys, count = spine[batch, 0], spine[batch, 3]
        first = _bound(keys, count, start, end, wanted, stride, p, words, False)
        i = _bound(keys, count, first, end, wanted, stride, p, words, True)
        while i > first:
            if found == limit:
                return found, True
            i -= 1
            row = np.int64(load_i64(spine[batch, 1], i))
            work[0] += 1
            if not bit_is_set(dead, row):
                out[at + found] = row
                found += 1
    return found, False


@kernel(signatures=[(INTS2, INTS2, INTS, INTS, INTS_OUT, INTS_OUT, BOOLS_OUT, INTS_OUT)])
def living_of_few(spine, probes, limit, dead, out_probe, out_row, left, work):
    """`living` of the keys probes int64[w, n] in any order, each sought by itself."""
    count = np.int64(0)
    for p in range(probes.shape[1]):
        found, more = living_of(spine, probes, p, limit[p], dead, out_row, count, work)
        left[p] = more
        for i in range(count, count + found):
            out_probe[i] = p
        count += found
    return count


@kernel(
    signatures=[
        (
            INTS2,
            INTS2,
            INT64,
            BOOL,
            INTS,
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
def visible_of_few(
    spine, probes, time, as_of, bits,
    dead, born_first, born_time, died_row, died_time, out_probe, out_row, work,
):  # fmt: skip
    """`seek` and `emit` for the keys probes int64[w, n] in any order, all at one time, each sought
    by itself; the pairs come in the order of the probes. Returns how many there are: if that is
    more than there is room for, those beyond are not written.
    """
    words = np.int64(probes.shape[0])
    n = np.int64(probes.shape[1])
    wanted = np.int64(probes.ctypes.data)
    capacity = np.int64(out_row.shape[0])
    filtered = bits.shape[0] != 0
    starts = np.zeros(n + 1, np.int64)
    count = np.int64(0)
    for p in range(n):
        starts[p] = starts[p + 1] = count
        # A key that was sought is not sought again: it may have many entries that are not seen.
        twin = np.int64(0)
        while twin < p and (
            probes[0, twin] != probes[0, p] or _compare(wanted, n, twin, wanted, n, p, words) != 0
        ):
            twin += 1
        if twin < p:
            for i in range(starts[twin], starts[twin + 1]):
                if count < capacity:
                    out_probe[count] = p
                    out_row[count] = out_row[i]
                count += 1
            continue
        bucket = bucket_of(probes[0, p])
        for batch in range(spine.shape[0]):
            low = np.int64(load_i64(spine[batch, 2], bucket))
            end = np.int64(load_i64(spine[batch, 2], bucket + 1))
            if low == end:
                continue
            work[1] += 1
            keys, size, rows = spine[batch, 0], spine[batch, 3], spine[batch, 1]
            i = _bound(keys, size, low, end, wanted, n, p, words, False)
            while i < end and _compare(keys, size, i, wanted, n, p, words) == 0:
                row = np.int64(load_i64(rows, i))
                i += 1
                work[0] += 1
                if filtered and not bit_is_set(bits, row):
                    continue
                if is_visible(row, time, as_of, dead, born_first, born_time, died_row, died_time):
                    if count < capacity:
                        out_probe[count] = p
                        out_row[count] = row
                    count += 1
    return count
