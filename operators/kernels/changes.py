"""The kernel behind `operators.state.changes`."""

from __future__ import annotations

import numpy as np

from operators.kernels.jit import BOOL, INT64, INTS, INTS_OUT, kernel

OK, DUPLICATE, ABSENT = 0, 1, 2
INSERT, DELETE, UPSERT = 1, -1, 2


@kernel(
    signatures=[
        (
            INTS,
            INT64,
            INTS,
            INTS,
            INTS,
            INTS,
            INTS,
            BOOL,
            INTS_OUT,
            INTS_OUT,
            INTS_OUT,
            INTS_OUT,
            INTS_OUT,
            INTS_OUT,
            INTS_OUT,
            INTS_OUT,
            INTS_OUT,
        )
    ]
)
def sweep(
    starts, count, order, action, times, live_start, live_rows, unique,
    birth_row, birth_time, killed, killed_time, killed_by, ended, ended_time, stack, sizes,
):  # fmt: skip
    """Sweep each key's actions in order.

    starts[g]..starts[g+1] are positions in `order` of the actions of key g, in statement order.
    live_rows[live_start[g]:live_start[g+1]] are its living rows, all of them or as many as it has
    actions. `stack` (as long as live_rows and actions together) holds the copies of one key: row
    ids, or -1 - birth number.
    A birth and death at the same time leave no trace. sizes int64[3] = births, killed, ended.
    Returns (problem, row of the action): of the first action in statement order that has one.
    """
    problem, at = np.int64(OK), np.int64(len(action))
    births = np.int64(0)
    kills = np.int64(0)
    ends = np.int64(0)
    for g in range(count):
        depth = np.int64(0)
        for i in range(live_start[g], live_start[g + 1]):
            stack[depth] = live_rows[i]
            depth += 1
        for i in range(starts[g], starts[g + 1]):
            row = order[i]
            what = action[row]
            t = times[row]
            if what == DELETE or (what == UPSERT and depth > 0):
                if depth == 0:
                    if row < at:
                        problem, at = np.int64(ABSENT), row
                    break
                depth -= 1
                copy = stack[depth]
                if copy >= 0:
                    killed[kills] = copy
                    killed_time[kills] = t
                    killed_by[kills] = births if what == UPSERT else -1
                    kills += 1
                elif birth_time[-1 - copy] == t:
                    birth_row[-1 - copy] = -1  # never visible
                else:
                    ended[ends] = -1 - copy
                    ended_time[ends] = t
                    ends += 1
            if what != DELETE:
                if unique and depth > 0:
                    if row < at:
                        problem, at = np.int64(DUPLICATE), row
                    break
                birth_row[births] = row
                birth_time[births] = t
                stack[depth] = -1 - births
                depth += 1
                births += 1
    sizes[0] = births
    sizes[1] = kills
    sizes[2] = ends
    return problem, at
