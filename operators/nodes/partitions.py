"""Rows of an ordered index, partition after partition, in exact order; and when they lived.

Texts are compared in full here: the index has their first bytes. Partitions that share a hash are
told apart by their values.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow.compute as pc

from operators.flight.column import Column, Ints, is_textual
from operators.kernels import fronts, sorting, versions, windows
from operators.state import encode, equality
from operators.state.arrangement import IndexReader, Matches, order_keys
from operators.state.order import sort_keys
from operators.state.rows import Rows
from operators.state.spine import keys_at
from planner import dataflow as ir
from planner.calculus.algebra import SortKey


@dataclass(frozen=True, slots=True)
class Partitions:
    """Distinct partition keys int64[w, groups] of rows, in (bucket, key) order: those of `columns`
    at positions first int64[groups]; starts int64[groups + 1]: how many rows have each. `mixed`:
    whether rows of several values share a key."""

    columns: list[Column]
    words: Ints
    starts: Ints
    first: Ints
    mixed: bool


def partitions_of(index: IndexReader, columns: list[Column], n: int) -> Partitions:
    """The partitions of n rows with these values in the index's partition columns."""
    words = index.partition_words(columns, n)
    order = sort_keys(words)
    starts = np.empty(n + 1, np.int64)
    starts = starts[: sorting.run_starts(words, order, starts) + 1]
    apart = equality.told_apart(words, columns, index.hashed, order, starts)
    first = order[starts[:-1]]
    return Partitions(columns, keys_at(words, first), starts, first, apart is not None)


def partition_fronts(
    index: IndexReader, partitions: Partitions, wanted: Ints, since: int
) -> tuple[Ints, Ints, int]:
    """For each partition its first `wanted` rows that did not die before `since`, and some more, in
    exact order: (group, row), int64[n] each, and how many groups there are."""
    group, rows = front_rows(index, partitions.words, wanted, since)
    groups = len(wanted)

    def values(k: int, probe: Ints) -> Column:
        return partitions.columns[k].take(partitions.first[probe])

    found = Matches(group, rows)
    mixed = partitions.mixed
    if mixed or equality.differing(index, partitions.words, values, found) is not None:
        # Partitions that share a hash: all their rows, dealt out by value.
        every = np.full(groups, index.spine.entries)
        group, rows = front_rows(index, partitions.words, every, since)
        assert isinstance(index.spec, ir.OrderedArrangement)
        columns = [index.relation.gather(c, rows) for c in index.spec.partition]
        keys = np.vstack((group, encode.local_words(columns)))
        _, group = np.unique(keys, axis=1, return_inverse=True)
        order = np.argsort(group, kind="stable")
        group, rows = group[order], rows[order]
        groups = int(group[-1]) + 1 if len(group) else 0
    return group, rows, groups


def front_rows(index: IndexReader, probes: Ints, wanted: Ints, since: int) -> tuple[Ints, Ints]:
    """Of the partitions with these words their first `wanted` rows that did not die before `since`,
    and some more, in exact order by partition: (partition, row), int64[n] each.

    Shapes: probes int64[w, p] in the order of order.sort_keys, wanted int64[p]. Cost: the rows that
    come, those that tie with the last of them on the index's words included.
    """
    spine = index.spine
    dead, _, _, died_row, died_time = index.relation.versions
    wanted = np.minimum(wanted, spine.entries)
    capacity = min(int(wanted.sum()), spine.entries) + 64
    while True:
        group, rows = np.empty(capacity, np.int64), np.empty(capacity, np.int64)
        work = np.zeros(2, np.int64)
        count = fronts.fronts(
            spine.table_with_skips(), spine.width, probes, wanted, since,
            dead, died_row, died_time, group, rows, work,
        )  # fmt: skip
        if count <= capacity:
            break
        capacity = count
    index.looked_up(work)
    return _exactly(index, group[:count], rows[:count])


def neighbouring_rows(index: IndexReader, keys: Ints, reach: int, since: int) -> tuple[Ints, Ints]:
    """The rows around keys int64[w, n] of the index, in the order of order.sort_keys: `reach` of
    them on each side, in the key's partition, that live through the step from `since` on, and all
    others between them that did not die before it. Returns: (group, row), int64[m] each, in exact
    order; a group is of keys near each other, its rows adjacent in the index.
    Cost: the rows that come, and as many again.
    """
    spine = index.spine
    assert isinstance(index.spec, ir.OrderedArrangement)
    dead, born_first, born_time, died_row, died_time = index.relation.versions
    capacity = min(4 * keys.shape[1] * reach, spine.entries) + 64
    while True:
        group, rows = np.empty(capacity, np.int64), np.empty(capacity, np.int64)
        work = np.zeros(2, np.int64)
        count = windows.neighbours(
            spine.table, index.partition_width, keys, reach, since,
            dead, born_first, born_time, died_row, died_time, group, rows, work,
        )  # fmt: skip
        if count <= capacity:
            break
        capacity = count
    index.looked_up(work)
    return _exactly(index, group[:count], rows[:count])


def _exactly(index: IndexReader, group: Ints, rows: Ints) -> tuple[Ints, Ints]:
    assert isinstance(index.spec, ir.OrderedArrangement)
    relation, keys = index.relation, order_keys(index.spec)
    types = [relation.schema[k.column].type for k in keys]
    if encode.order_is_exact(types) or len(rows) < 2:
        return group, rows
    order = sort_rows([relation.gather(k.column, rows) for k in keys], keys, group)
    return group[order], rows[order]


def lives(relation: Rows, rows: Ints) -> tuple[Ints, Ints]:
    """When rows were born and died (versions.NEVER: not yet), int64[n] each."""
    born, died = np.empty(len(rows), np.int64), np.empty(len(rows), np.int64)
    dead, born_first, born_time, died_row, died_time = relation.versions
    versions.lives(rows, dead, born_first, born_time, died_row, died_time, born, died)
    return born, died


def group_starts(group: Ints, groups: int) -> Ints:
    """First position of each group in ascending group numbers int64[n]."""
    return np.searchsorted(group, np.arange(groups))


def sort_rows(columns: list[Column], keys: tuple[SortKey, ...], group: Ints | None = None) -> Ints:
    """Positions in exact SQL order: columns[i] as keys[i] says; texts compare as UTF-8 bytes.

    `group` int64[n] goes before all keys. Needs at least one column.
    """
    words = exact_words(columns, keys)
    return np.lexsort((words if group is None else [group, *words])[::-1])


def exact_words(columns: list[Column], keys: tuple[SortKey, ...]) -> list[Ints]:
    """Words int64[n] that sort as `keys` say, and are equal where values are; those of texts are
    ranks, which mean nothing beside words made by another call."""
    words: list[Ints] = []
    for column, key in zip(columns, keys, strict=True):
        if is_textual(column.type):
            ranks = pc.rank(column.values, tiebreaker="dense").to_numpy().astype(np.int64)
            valid = column.valid if column.valid is not None else np.ones(len(ranks), np.bool_)
            ranks = np.where(valid, ranks, 0)
            words.append(valid.astype(np.int64) if key.nulls_first else 1 - valid)
            words.append(~ranks if key.descending else ranks)
        else:
            words.extend(encode.order_words([column], [key]))
    return words
