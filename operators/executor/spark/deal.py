"""Which task takes what: rows of an exchange by the hash of their keys' leading words.

Up to 64 tasks have whole buckets each, as the batches of an index do; more have slices of them, of
which there are 65,536. One key that has much more than a task's share, or a few that meet in a
slice, would make one task do the work of many: who may look a row up in any task, since an index is
mapped by all, deals such slices out by turns.

Law: the target of a row is a function of the job and of the task that sends it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np

from operators.flight.column import Ints
from operators.kernels import sorting
from operators.kernels.memory import BLOCK_ROWS
from operators.kernels.sorting import BUCKET_BITS, BUCKETS, SLICE_BITS, SLICES
from operators.state.relation import Relation

#: Tasks of a stage at the most.
MOST_TASKS = 1 << 12
#: Fewer rows than this are left to one task, whatever key they have.
LEAST_ROWS = 1 << 12
#: Where rows are fewer than this a task, more tasks than buckets do not pay.
_ROWS_A_TASK = BLOCK_ROWS


def tasks_for(wanted: int, rows: int) -> int:
    """How many of the tasks that are `wanted` so many rows are worth."""
    return min(wanted, max(BUCKETS, -(-rows // _ROWS_A_TASK)), MOST_TASKS)


def slices_of(leading: Ints) -> Ints:
    """The slice of each key, by its leading word."""
    slices = np.empty(len(leading), np.int64)
    sorting.slices_of(leading, slices)
    return slices


def targets_of(slices: Ints, tasks: int) -> Ints:
    """The task of each slice: ascending with it."""
    if tasks <= BUCKETS:
        return (slices >> (SLICE_BITS - BUCKET_BITS)) * tasks >> BUCKET_BITS
    return slices * tasks >> SLICE_BITS


def slices_from(tasks: int) -> tuple[int, ...]:
    """The first slice of each task, and behind those of the last."""
    slices = np.arange(SLICES)
    return (*np.searchsorted(targets_of(slices, tasks), np.arange(tasks)).tolist(), SLICES)


def heavy(slices: Ints, tasks: int, least: int) -> Ints:
    """The slices of which there is more than half of a task's share, and `least` at least."""
    most = max(len(slices) // (2 * tasks), least)
    if tasks < 2 or len(slices) <= most:
        return np.empty(0, np.int64)
    return np.flatnonzero(np.bincount(slices, minlength=SLICES) > most)


def spread(slices: Ints, targets: Ints, tasks: int, sender: int) -> int:
    """Deal what is of heavy slices out by turns, which begin with the sender's own task. Returns:
    how many rows that is."""
    found = heavy(slices, tasks, LEAST_ROWS)
    if len(found) == 0:
        return 0
    (at,) = np.isin(slices, found).nonzero()
    targets[at] = (np.arange(len(at)) + sender) % tasks
    return len(at)


def dealt(targets: Ints, tasks: int) -> Iterator[tuple[int, Ints]]:
    """The positions of each task's rows, in their order, of those tasks that have some."""
    order = np.argsort(targets.astype(np.uint16), kind="stable")
    ends = np.cumsum(np.bincount(targets, minlength=tasks)).tolist()
    for target, (start, end) in enumerate(pairwise([0, *ends])):
        if start < end:
            yield target, order[start:end]


def even_starts(relation: Relation, blocks: Sequence[int], tasks: int) -> tuple[int, ...]:
    """Where the blocks of each task begin, and behind those of the last: about as many rows each,
    however few are in some blocks. Requires: the blocks follow each other."""
    first = blocks[0] if len(blocks) else 0
    rows = np.cumsum([0, *(relation.stored_rows(block) for block in blocks)])
    shares = np.arange(1, tasks) * (rows[-1] / tasks)
    return (first, *(first + np.searchsorted(rows, shares)).tolist(), first + len(blocks))
