"""The row in front of each group, which MIN and MAX are: read off an ordered index.

Invariant: as of each time asked for, the row is the first of those that live then, in the exact
order of their values.
"""

from __future__ import annotations

import numpy as np

from operators.flight.column import Column, Ints
from operators.kernels import fronts
from operators.nodes.partitions import front_rows, lives, sort_rows
from operators.state import encode, equality
from operators.state.arrangement import IndexReader, Matches, order_keys
from operators.state.order import sort_keys
from operators.state.spine import keys_at
from planner import dataflow as ir


def first_rows(
    index: IndexReader, keys: list[Column], times: Ints, changed: Ints | None = None
) -> Ints:
    """The row in front of each partition as of its time, or -1; ties on the index's words (texts
    that share their first bytes) are broken by the values.

    Shapes: keys[i] of n rows, times int64[n]; changed int64[n]: how many rows came to or left the
    partition since before the earliest time, at most, if that is known. Returns int64[n].
    """
    n = len(times)
    given = index.partition_words(keys, n)
    order = sort_keys(np.vstack((given, times)))
    words, times = keys_at(given, order), times[order]
    out, starts = np.full(n, -1, np.int64), _partitions(words)
    if (
        changed is not None
        and 2 * (len(starts) - 1) <= n
        and not _is_exact(index)
        and equality.told_apart(given, keys, index.hashed, order, starts) is None
    ):
        rows = _over_time(index, keys, words, times, order, starts, 1 + changed[order])
        out[order] = rows
        left = rows < 0
        words, times, order = words[:, left].copy(), times[left], order[left]

    def values(k: int, probe: Ints) -> Column:
        return keys[k].take(order[probe])

    found = index.first(words, times)
    differs = equality.differing(index, words, values, found)
    if differs is not None:
        # Who is in front of several partitions is looked for among all their rows.
        mixed = np.zeros(len(order), np.bool_)
        mixed[found.probe[differs]] = True
        kept, sought = ~mixed[found.probe], np.flatnonzero(mixed)
        every = index.lookup(keys_at(words, sought), times[sought], True)
        every = equality.matching(index, words, values, Matches(sought[every.probe], every.row))
        found = Matches(
            np.concatenate((found.probe[kept], every.probe)),
            np.concatenate((found.row[kept], every.row)),
        )
    probe, row = found.probe, found.row
    if len(probe) > len(np.unique(probe)):
        spec = index.spec
        assert isinstance(spec, ir.OrderedArrangement)
        ordered = order_keys(spec)[:1]
        ranks = np.empty(len(row), np.int64)
        columns = [index.relation.gather(k.column, row) for k in ordered]
        ranks[sort_rows(columns, ordered)] = np.arange(len(row))
        best = np.lexsort((ranks, probe))
        probe, row = probe[best], row[best]
        starts = np.flatnonzero(np.diff(probe, prepend=-1))
        probe, row = probe[starts], row[starts]
    out[order[probe]] = row
    return out


def _over_time(
    index: IndexReader,
    keys: list[Column],
    words: Ints,
    times: Ints,
    order: Ints,
    starts: Ints,
    wanted: Ints,
) -> Ints:
    """`first_rows` of probes sorted by partition and time, of partitions starts[p]..starts[p + 1]:
    candidates are read and ranked once for all times. -1 too where the first wanted[i] rows did not
    tell, since of a row whose other columns changed several versions may be among them, and where
    partitions share a hash."""
    probes, first = keys_at(words, starts[:-1]), order[starts[:-1]]
    group, rows = front_rows(index, probes, wanted[starts[:-1]], int(times.min()))
    best = np.full(len(times), -1, np.int64)

    def values(k: int, probe: Ints) -> Column:
        return keys[k].take(first[probe])

    if equality.differing(index, probes, values, Matches(group, rows)) is None:
        born, died = lives(index.relation, rows)
        candidates = np.searchsorted(group, np.arange(len(starts)))
        fronts.first_alive(candidates, born, died, starts, times, best)
    return np.append(rows, -1)[best]


def _partitions(words: Ints) -> Ints:
    """Where the runs of equal keys begin, and the end, int64[runs + 1]."""
    n = words.shape[1]
    begins = np.ones(n + 1, np.bool_)
    begins[1:n] = (words[:, 1:] != words[:, :-1]).any(axis=0)
    return np.flatnonzero(begins)


def _is_exact(index: IndexReader) -> bool:
    """Whether rows whose words are equal are equal in what they are ordered by."""
    assert isinstance(index.spec, ir.OrderedArrangement)
    schema = index.relation.schema
    return encode.order_is_exact([schema[k.column].type for k in order_keys(index.spec)])
