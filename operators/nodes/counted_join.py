"""Counted joins: one step of a delta path that binds several occurrences, in a cycle of equalities.

All of them lack the same values. Every occurrence is sought by what is bound, and each prefix goes
on with the rows of the one that has the fewest entries for it; whether the others have them too is
looked up by all columns. What is read is so the least of the counts, summed over the prefixes, and
no sum of products of runs.

Invariant: the same updates as of any one of the ways, taken for all prefixes.
Source: 3DF §9, §13.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from operators.flight.column import Bools, Ints
from operators.flight.delta import Delta
from operators.nodes.half_join import Found, HalfJoinOperator, Occurrence
from operators.state.arrangement import IndexReader
from planner import dataflow as ir

#: Entries of which rows are proposed before they are validated: a hub's may be many.
MOST_ENTRIES = 1 << 20


class CountedJoinOperator:
    """One step of a path: of each prefix the way with the fewest entries."""

    def __init__(
        self,
        node: ir.CountedJoin,
        indexes: Mapping[ir.Index, IndexReader],
        occurrences: Sequence[Occurrence],
    ) -> None:
        self.node = node
        self._ways = [
            [HalfJoinOperator(h, indexes[h.index], occurrences[h.input]) for h in way]
            for way in node.ways
        ]
        self._bound = [occurrences[i] for i in node.inputs]

    @property
    def lookups(self) -> tuple[HalfJoinOperator, ...]:
        return tuple(half_join for way in self._ways for half_join in way)

    def extend(self, prefix: Delta, snapshot: bool) -> Delta:
        """The matches of every update of `prefix`. Cost: a seek per way and distinct key, then for
        each update the fewest entries, each with a lookup per further occurrence."""
        found = [way[0].find(prefix) for way in self._ways]
        entries = np.vstack([f.entries for f in found])
        least, chosen = entries.min(axis=0), entries.argmin(axis=0)
        chosen[least == 0] = -1
        # Which binding tells an update's place in the prefix.
        place = len(prefix.bindings)
        placed = prefix.extend(0, 0, self._bound[0].relation, np.arange(len(prefix)))
        parts: list[Delta] = []
        for some in _slices(least):
            for number, way in enumerate(self._ways):
                taken = chosen == number if some is None else (chosen == number) & some
                if taken.any():
                    parts.append(_along(way, placed, found[number], taken, snapshot))
        parts = [p for p in parts if len(p)]
        rows = _joined([p.bindings[place].rows for p in parts])
        result = prefix.select(rows)
        # Ways bind in different orders: all updates have their bindings in one.
        for o in self._bound:
            own = _joined([p.binding_of(o.first).rows for p in parts])
            result = result.extend(o.first, o.width, o.relation, own)
        return result


def _along(
    way: list[HalfJoinOperator], prefix: Delta, found: Found, taken: Bools, snapshot: bool
) -> Delta:
    prefix = way[0].extend_found(prefix, found, taken, snapshot)
    for half_join in way[1:]:
        if len(prefix) == 0:
            break
        prefix = half_join.extend(prefix, snapshot)
    return prefix


def _slices(least: Ints) -> list[Bools | None]:
    """Parts of the updates that have so many entries to be read; None for all."""
    before = np.cumsum(least) - least
    slices = before // MOST_ENTRIES
    last = int(slices[-1]) if len(slices) else 0
    return [None] if last == 0 else [slices == number for number in range(last + 1)]


def _joined(parts: list[Ints]) -> Ints:
    return np.concatenate(parts) if parts else np.empty(0, np.int64)
