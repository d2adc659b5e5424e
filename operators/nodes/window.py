"""Windows: each row of an ordered index with values of its place among those of its partition.

A step finds the partitions that it touches and reads each one's rows once, in order: those that
lived before the step, and those born in it; where values are of some rows before and behind alone,
or of the row's session, it reads the rows around those that change. From their lives it tells which
of them there are before the step and as of each touched time, computes the values of all these
(`window_values`), and emits where a row's differ from one version of its partition to the next.
Nothing is stored: what a row's values were is computed again, and is the same.

Invariant: the deltas add up to the rows that there are, each once, with the values that they have
in their partitions as of now. Cost of a step: the rows of the partitions that it touches, or around
the rows that change, and for each touched time those as of then.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from typing_extensions import Self

from operators.flight import delta as deltas
from operators.flight.column import Column, Ints
from operators.flight.delta import Binding, Bound, Delta, Origin
from operators.kernels.versions import NEVER
from operators.nodes.operator import Inputs, Operator, Place
from operators.nodes.partitions import (
    Partitions,
    group_starts,
    lives,
    neighbouring_rows,
    partition_fronts,
    partitions_of,
)
from operators.nodes.runs import CHUNK_ROWS, chunks, elements
from operators.nodes.window_values import Rows, window_value
from operators.state import encode
from operators.state.arrangement import IndexReader
from operators.state.order import sort_keys
from operators.state.spine import keys_at
from planner import dataflow as ir

#: Rows on each side of one that changes that are looked at for the edges of its session, first.
_FIRST_NEIGHBOURS = 8


@dataclass(frozen=True, slots=True)
class _Versions:
    """Versions of partitions, one after the other, int64[versions]: the number of the partition,
    and the time as of which; those of a partition ascend."""

    partition: Ints
    time: Ints


@dataclass(frozen=True, slots=True)
class _Held:
    """Rows of partitions, in order: those of partition p are at starts[p] to starts[p + 1]; with
    their lives, int64[n] each."""

    rows: Ints
    starts: Ints
    born: Ints
    died: Ints

    def members(self, versions: _Versions) -> tuple[Ints, Ints]:
        """The rows that the versions have, one version after the other, by their positions here;
        and where each version begins, int64[versions + 1]."""
        size = np.diff(self.starts)[versions.partition]
        version, inside = elements(size)
        row = self.starts[versions.partition][version] + inside
        time = versions.time[version]
        there = (self.born[row] <= time) & (time < self.died[row])
        return row[there], np.searchsorted(version[there], np.arange(len(size) + 1))


class WindowOperator(Operator[ir.Window]):
    """The window of `node`. State: its index alone."""

    def __init__(self, node: ir.Window, index: IndexReader) -> None:
        self.node = node
        self.index = index
        self._partition = node.index.partition

    @classmethod
    def install(cls, node: ir.Window, place: Place) -> Self:
        return cls(node, place.index(node.index))

    def start(self, inputs: Inputs) -> Iterator[Delta]:
        yield from self.rows(inputs)

    def rows(self, inputs: Inputs) -> Iterator[Delta]:
        yield from self.rows_among(self.index.relation.visible(inputs.time), inputs.time)

    def rows_among(self, everything: Ints, now: int) -> Iterator[Delta]:
        """The node's rows as of `now`, the latest, of partitions all of whose rows are these."""
        relation = self.index.relation
        columns = [relation.gather(c, everything) for c in self._partition]
        partitions = partitions_of(self.index, columns, len(everything) if columns else 1)
        wanted = np.diff(partitions.starts) if columns else np.array([len(everything)])
        held = self._held(partitions, wanted, now + 1)
        each = np.arange(len(held.starts) - 1)
        for part in _parts(held, _Versions(each, np.full(len(each), now))):
            row, starts = held.members(part)
            if len(row):
                ones, time = np.ones(len(row), np.int64), np.full(len(row), now)
                yield self._delta(held.rows[row], time, ones, self._values(held, row, starts))

    def step(self, changes: Sequence[Delta | None]) -> Delta:
        """What the input's changes do to the rows and their values."""
        (delta,) = changes
        if delta is None or len(delta) == 0:
            return deltas.empty(self.node.schema)
        since = int(delta.time.min())
        held = self._around(delta, since)
        if held is None:
            columns = [delta.column(c) for c in self._partition]
            partitions = partitions_of(self.index, columns, len(delta))
            every = np.full(len(partitions.starts) - 1, self.index.spine.entries)
            held = self._held(partitions, every, since)
        parts = [self._changes(held, part) for part in _parts(held, _versions(held, since))]
        return deltas.concatenate(self.node.schema, parts)

    def _around(self, delta: Delta, since: int) -> _Held | None:
        """The rows around those that change, as partitions of their own; None where values are of
        more rows than some neighbours, or where partitions share a hash.

        A row's values are of `before` rows and of `behind`. So those that may differ are that near
        to a change, and all they are of is among as many again. What is nearer to the edge of the
        rows that are read has other values than its own, the same in all versions.
        """
        reach = self.node.reach
        if reach is None and self.node.sessions is None:
            return None
        keys, _ = self.index.key_words(np.unique(delta.bindings[0].rows))
        keys = keys_at(keys, sort_keys(keys))
        if reach is not None:
            return self._near(keys, sum(reach), since)
        rows = _FIRST_NEIGHBOURS
        while (held := self._near(keys, rows, since)) is not None:
            if self._has_sessions(held, rows, since):
                return held
            rows *= 4
        return None

    def _near(self, keys: Ints, reach: int, since: int) -> _Held | None:
        """So many rows on each side of the keys; None where the partitions are the shorter way, or
        share a hash."""
        if 2 * keys.shape[1] * reach > self.index.spine.entries:
            return None
        group, rows = neighbouring_rows(self.index, keys, max(reach, 1), since)
        if self.index.hashed and len(rows):
            columns = [self.index.relation.gather(c, rows) for c in self._partition]
            words = encode.local_words(columns)
            if ((words[:, 1:] != words[:, :-1]).any(axis=0) & (np.diff(group) == 0)).any():
                return None
        born, died = lives(self.index.relation, rows)
        groups = int(group[-1]) + 1 if len(group) else 0
        return _Held(rows, np.append(group_starts(group, groups), len(rows)), born, died)

    def _has_sessions(self, held: _Held, reach: int, since: int) -> bool:
        """Whether the sessions that change are among the rows held, `reach` rows on each side.

        A gap between rows of any version is one in all of them. Where there are fewer rows than
        asked for, the partition ends.
        """
        sessions = self.node.sessions
        assert sessions is not None
        time = self.index.relation.gather(sessions.args[0], held.rows).values
        parameter = sessions.parameters[0].value
        assert isinstance(parameter, int)
        stays = (held.born < since) & (held.died == NEVER)
        before = np.append(0, np.cumsum(stays))
        for first, end in zip(held.starts[:-1], held.starts[1:], strict=True):
            changed = first + np.flatnonzero(~stays[first:end])
            if len(changed) == 0:
                continue
            gaps = first + 1 + np.flatnonzero(np.diff(time[first:end].view(np.uint64)) > parameter)
            low, high = changed[0], changed[-1]
            if before[low] - before[first] >= reach and not (gaps <= low).any():
                return False
            if before[end] - before[high] >= reach and not (gaps > high).any():
                return False
        return True

    def _held(self, partitions: Partitions, wanted: Ints, since: int) -> _Held:
        group, rows, groups = partition_fronts(self.index, partitions, wanted, since)
        born, died = lives(self.index.relation, rows)
        return _Held(rows, np.append(group_starts(group, groups), len(rows)), born, died)

    def _values(self, held: _Held, row: Ints, starts: Ints) -> list[Column]:
        """The values of rows, by their positions among those held; starts: of each version."""
        found: dict[int, Column] = {}

        def column(c: int) -> Column:
            if c not in found:
                found[c] = self.index.relation.gather(c, held.rows).take(row)
            return found[c]

        rows = Rows(starts, column, self.node.index.order)
        kinds = self.node.schema[len(self.node.columns) :]
        return [
            window_value(value, field.type, rows)
            for value, field in zip(self.node.values, kinds, strict=True)
        ]

    def _changes(self, held: _Held, versions: _Versions) -> Delta:
        """What each version changes in the one before it of its partition."""
        row, starts = held.members(versions)
        version = np.repeat(np.arange(len(versions.time)), np.diff(starts))
        values = self._values(held, row, starts)
        # A row in one version and the same row in the next.
        order = np.lexsort((version, row))
        follows = np.diff(row[order]) == 0
        follows &= np.diff(version[order]) == 1
        before, after = order[:-1][follows], order[1:][follows]
        changed = np.zeros(len(before), np.bool_)
        for value in values:
            changed |= ~encode.equal_values(value.take(before), value.take(after))
        goes, comes = np.ones(len(row), np.bool_), np.ones(len(row), np.bool_)
        goes[before], comes[after] = changed, changed
        edge = np.diff(versions.partition, prepend=-1, append=-1) != 0
        goes &= ~edge[1:][version]
        comes &= ~edge[:-1][version]
        left, came = np.flatnonzero(goes), np.flatnonzero(comes)
        time = np.concatenate((versions.time[version[left] + 1], versions.time[version[came]]))
        diff = np.ones(len(time), np.int64)
        diff[: len(left)] = -1
        both = np.concatenate((left, came))
        return self._delta(held.rows[row[both]], time, diff, [v.take(both) for v in values])

    def _delta(self, rows: Ints, time: Ints, diff: Ints, values: list[Column]) -> Delta:
        origins: list[Origin] = [Bound(0, c) for c in self.node.columns]
        binding = Binding(self.index.relation, rows)
        return Delta(self.node.schema, time, diff, [*origins, *values], (binding,))


def _versions(held: _Held, since: int) -> _Versions:
    """Each partition as of just before `since`, and as of each time at which one of its rows comes
    or goes."""
    partition = np.repeat(np.arange(len(held.starts) - 1), np.diff(held.starts))
    born = (held.born >= since) & (held.born < held.died)
    died = (held.died != NEVER) & (held.born < held.died)
    touched = np.concatenate((partition[born], partition[died]))
    time = np.concatenate((held.born[born], held.died[died]))
    before = np.unique(touched)
    found = np.stack((np.append(before, touched), np.append(np.full(len(before), since - 1), time)))
    return _Versions(*np.unique(found, axis=1))


def _parts(held: _Held, versions: _Versions) -> Iterator[_Versions]:
    """The versions, some at a time; one that goes on with a partition begins with the version that
    the one before it ended with."""
    sizes = np.diff(held.starts)[versions.partition]
    for begin, end in chunks(sizes, CHUNK_ROWS):
        goes_on = begin and versions.partition[begin] == versions.partition[begin - 1]
        first = begin - 1 if goes_on else begin
        yield _Versions(versions.partition[first:end], versions.time[first:end])
