"""Normalising changes: from signed rows to births and deaths.

A relation's history within a step is a set of births (new rows) and deaths. Writers give signed
rows at times; the functions here find, key by key and in order of time, which living row each
retraction kills. One kernel serves tables with and without a key, derived bags, and groups.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from operators.flight.column import Ints
from operators.kernels.changes import ABSENT, DELETE, DUPLICATE, INSERT, OK, UPSERT, sweep
from operators.quick import quick
from operators.state.order import order_of

__all__ = ["ABSENT", "DELETE", "DUPLICATE", "INSERT", "OK", "UPSERT", "Normalised", "normalise"]


@quick
@dataclass(frozen=True, slots=True)
class Normalised:
    """births: which input rows become new rows, int64[b], ascending in time; birth_time int64[b].
    killed: living rows that die, int64[k], at killed_time; killed_by: the birth (position) of the
    upsert that replaced each, or -1. ended: births (positions in `births`)
    that die within the same step, at ended_time.
    """

    births: Ints
    birth_time: Ints
    killed: Ints
    killed_time: Ints
    killed_by: Ints
    ended: Ints
    ended_time: Ints
    problem: int
    problem_row: int

    def killed_by_row(self) -> Normalised:
        """The same without upserts, the killed by row id: nothing that anybody sees is in an order
        that depends on the hash's secret."""
        if len(self.killed) < 2:
            return self
        order = order_of(self.killed)
        return Normalised(
            self.births, self.birth_time, self.killed[order], self.killed_time[order],
            self.killed_by, self.ended, self.ended_time, self.problem, self.problem_row,
        )  # fmt: skip


def normalise(
    order: Ints,
    starts: Ints,
    action: Ints,
    times: Ints,
    live_start: Ints,
    live_rows: Ints,
    unique: bool,
) -> Normalised:
    """Births and deaths of a step's actions.

    Arrays: order int64[n] groups the actions by key, each key's in statement order (times do not
    fall); starts int64[g + 1]; action int64[n] of INSERT, DELETE, UPSERT; live_start int64[g + 1]
    into live_rows: the rows of each key that live before the step, all of them or as many as the
    key has actions. `unique`: at most one row a key.
    Returns: see Normalised; with a problem (DUPLICATE or ABSENT at action problem_row) the rest
    is meaningless. Cost: O(actions + living rows of their keys).
    """
    n, groups = len(order), len(starts) - 1
    births, birth_time = np.empty(n, np.int64), np.empty(n, np.int64)
    killed, killed_time = np.empty(n, np.int64), np.empty(n, np.int64)
    killed_by = np.empty(n, np.int64)
    ended, ended_time = np.empty(n, np.int64), np.empty(n, np.int64)
    sizes = np.zeros(3, np.int64)
    stack = np.empty(n + len(live_rows), np.int64)
    problem, row = sweep(
        starts, groups, order, action, times, live_start, live_rows, unique,
        births, birth_time, killed, killed_time, killed_by, ended, ended_time, stack, sizes,
    )  # fmt: skip
    b, k, e = sizes.tolist()
    # New row ids ascend with time: put births in that order, dropping those never visible.
    kept = (births[:b] >= 0).nonzero()[0]
    if len(kept) > 1:
        kept = kept[np.lexsort((births[kept], birth_time[kept]))]
    place = np.empty(b, np.int64)
    place.fill(-1)
    place[kept] = np.arange(len(kept))
    return Normalised(
        births=births[kept],
        birth_time=birth_time[kept],
        killed=killed[:k],
        killed_time=killed_time[:k],
        killed_by=np.where(killed_by[:k] >= 0, place[killed_by[:k]], -1) if b else killed_by[:k],
        ended=place[ended[:e]],
        ended_time=ended_time[:e],
        problem=int(problem),
        problem_row=int(row),
    )
