"""Ranges of an ordered index: the rows between two ends, for each of many probes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from operators.flight.column import Ints
from operators.kernels import ranges
from operators.state.arrangement import IndexReader


@dataclass(frozen=True, slots=True)
class Bound:
    """One end of a range for each of m probes: order words int64[o, m] (encode.order_words), how
    many of them count int64[m], and whether what equals it is left out bool[m]."""

    words: Ints
    count: Ints
    open: np.ndarray[tuple[int], np.dtype[np.bool_]]

    def within(self, start: int, end: int) -> Bound:
        """The bounds of probes [start, end)."""
        return Bound(self.words[:, start:end], self.count[start:end], self.open[start:end])


def slices(
    index: IndexReader,
    partition: Ints,
    low: Bound,
    high: Bound,
    times: Ints,
    as_of: bool,
    most: int,
) -> Iterator[tuple[Ints, Ints]]:
    """As `between`, handed out for some probes after the other: about `most` rows at a time, more
    only where one probe has more."""
    n = len(times)
    step = n
    start = 0
    while start < n:
        end = min(start + step, n)
        found = _found(
            index,
            partition[:, start:end],
            low.within(start, end),
            high.within(start, end),
            times[start:end],
            as_of,
            most if end - start > 1 else None,
        )
        if isinstance(found, int):
            step = max(1, min((end - start) // 2, (end - start) * most // found))
            continue
        probe, row = found
        yield probe + start, row
        start = end


def between(
    index: IndexReader, partition: Ints, low: Bound, high: Bound, times: Ints, as_of: bool
) -> tuple[Ints, Ints]:
    """Visible rows of each probe's partition between its ends: (probe, row), int64[n] each.

    Shapes: partition int64[p, m] (IndexReader.partition_words), times int64[m]; rows are seen
    as of their probe's time, or just before it.
    Cost: one seek per probe and batch, and the entries in between.
    """
    found = _found(index, partition, low, high, times, as_of, None)
    assert not isinstance(found, int), "no limit was given"
    return found


def _found(
    index: IndexReader,
    partition: Ints,
    low: Bound,
    high: Bound,
    times: Ints,
    as_of: bool,
    most: int | None,
) -> tuple[Ints, Ints] | int:
    """As `between`; where there are more rows than `most`, only their number."""
    capacity = 4 * len(times) + 64
    dead, born_first, born_time, died_row, died_time = index.relation.versions
    while True:
        probe, row = np.empty(capacity, np.int64), np.empty(capacity, np.int64)
        work = np.zeros(2, np.int64)
        count = ranges.between(
            index.spine.table, np.ascontiguousarray(partition),
            np.ascontiguousarray(low.words), low.count, low.open,
            np.ascontiguousarray(high.words), high.count, high.open,
            times, as_of, dead, born_first, born_time, died_row, died_time, probe, row, work,
        )  # fmt: skip
        if count <= capacity:
            break
        if most is not None and count > most:
            return int(count)
        capacity = count
    index.looked_up(work)
    return probe[:count], row[:count]
