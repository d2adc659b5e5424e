"""Counted joins: one step of a delta path that binds several occurrences, in a cycle of equalities.

All of them lack the same values. Every occurrence is sought by what is bound, and each prefix goes
on with the rows of the one that has the fewest entries for it; whether the others have them too is
looked up by all columns. What is read is so the least of the counts, summed over the prefixes (and
a constant for each of them, see FEW_EACH, and for all, see FEW_ENTRIES), and no sum of products of
runs.

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

#: A way that has so many entries a prefix at most is taken by all, without looking at the others:
#: to seek there costs as much.
FEW_EACH = 8
#: All prefixes go one way if that reads so many entries more at most: to part them costs more.
FEW_ENTRIES = 512
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
        """The matches of every update of `prefix`, bound in any order. Cost: a seek per way and
        distinct key, up to a way with few entries, then for each update the fewest entries, each
        with a lookup per further occurrence."""
        found: list[Found] = []
        for way in self._ways:
            found.append(way[0].find(prefix))
            if found[-1].entries.sum() <= min(FEW_EACH * len(prefix), MOST_ENTRIES):
                return _along(way, prefix, found[-1], None, snapshot)
        entries = np.vstack([each.entries for each in found])
        least, totals = entries.min(axis=0), entries.sum(axis=1)
        slices, best = _slices(least), int(totals.argmin())
        if slices[0] is None and totals[best] - least.sum() <= FEW_ENTRIES:
            return _along(self._ways[best], prefix, found[best], None, snapshot)
        chosen = np.where(least > 0, entries.argmin(axis=0), -1)
        # The last binding tells an update's place in the prefix.
        place = len(prefix.bindings)
        placed = prefix.extend(0, 0, self._bound[0].relation, np.arange(len(prefix)))
        parts: list[Delta] = []
        for some in slices:
            for number, way in enumerate(self._ways):
                taken = chosen == number if some is None else (chosen == number) & some
                if taken.any():
                    parts.append(_along(way, placed, found[number], taken, snapshot))
        parts = [p for p in parts if len(p)]
        # Ways bind in different orders: all updates have their bindings in one.
        result = prefix.select(_joined([p.bindings[place].rows for p in parts]))
        for o in self._bound:
            own = _joined([p.binding_of(o.first).rows for p in parts])
            result = result.extend(o.first, o.width, o.relation, own)
        return result


def _along(
    way: list[HalfJoinOperator], prefix: Delta, found: Found, taken: Bools | None, snapshot: bool
) -> Delta:
    prefix = way[0].extend_found(prefix, found, taken, snapshot)
    for half_join in way[1:]:
        if len(prefix) == 0:
            break
        prefix = half_join.extend(prefix, snapshot)
    return prefix


def _slices(least: Ints) -> list[Bools | None]:
    """Parts of the updates that have so many entries to be read; None for all."""
    if least.sum() <= MOST_ENTRIES:
        return [None]
    slices = (np.cumsum(least) - least) // MOST_ENTRIES
    return [slices == number for number in np.unique(slices)]


def _joined(parts: list[Ints]) -> Ints:
    return np.concatenate(parts) if parts else np.empty(0, np.int64)
