"""ns per probe of an index lookup, step by step: python -m benchmarks.kernels.lookup

An index of 4 M entries in batches as a stream leaves them, its keys in order or shuffled, unique or
four rows each; the probes are those of the newest rows, or any. Each answer is asserted before it
is timed; the figure is the best of five rounds, in CPU time.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

import numpy as np

from operators.flight.column import Column, Ints
from operators.state.arrangement import ArrangementState
from operators.state.probes import sort_probes
from operators.state.relation import Relation
from planner import dataflow as ir
from planner.calculus import types as t
from planner.calculus.types import Field

ENTRIES = 4_000_000
BATCH = 100_000
FIELDS = (Field("key", t.BIGINT, False),)


def index(keys: Ints) -> tuple[ArrangementState, int]:
    """An index on `keys` that came in steps, and the time of the last one."""
    relation = Relation(FIELDS)
    state = ArrangementState(ir.Arrangement(ir.Source("t", FIELDS), (0,)), relation)
    now = 0
    for start in range(0, len(keys), BATCH):
        part = keys[start : start + BATCH]
        now += 1
        relation.append([Column(t.BIGINT, part)], np.full(len(part), now))
        state.absorb()
        relation.advance(now)
        state.maintain(len(part))
    return state, now


def main() -> None:
    rng = np.random.default_rng(1)
    unique, four = np.arange(ENTRIES) * 3, np.repeat(np.arange(ENTRIES // 4) * 3, 4)
    indexes = {
        "unique, in order": unique,
        "unique, shuffled": rng.permutation(unique),
        "4 each, in order": four,
        "4 each, shuffled": rng.permutation(four),
    }
    print(f"{'index':18} {'probes':14} {'batches':>7} {'sort':>6} {'look up':>8} {'pairs':>6}")
    for name, keys in indexes.items():
        state, now = index(keys)
        each = 1 if "unique" in name else 4
        probes = {
            "60,000 newest": keys[-60_000:],
            "60,000 any": rng.choice(keys, 60_000),
            "1,000 newest": keys[-1_000:],
            "1,000 any": rng.choice(keys, 1_000),
            "60,000 absent": rng.choice(keys, 60_000) + 1,
        }
        for kind, wanted in probes.items():
            words = np.ascontiguousarray(wanted.reshape(1, -1))
            times = np.full(len(wanted), now, np.int64)
            sought = sort_probes(words)
            found = state.lookup_sorted(sought, times, True)
            assert len(found.row) == (0 if "absent" in kind else each * len(wanted))
            stored = state.relation.gather(0, found.row).values
            assert (stored == wanted[found.probe]).all()
            sort = best(partial(sort_probes, words)) / len(wanted)
            look = best(partial(state.lookup_sorted, sought, times, True)) / len(wanted)
            batches = len(state.spine.batches)
            print(f"{name:18} {kind:14} {batches:7} {sort:6.0f} {look:8.0f} {len(found.row):6}")


def best(run: Callable[[], object]) -> float:
    """The fastest of five calls, in ns of this thread's CPU time."""
    seconds = []
    for _ in range(5):
        start = time.thread_time()
        run()
        seconds.append(time.thread_time() - start)
    return min(seconds) * 1e9


if __name__ == "__main__":
    main()
