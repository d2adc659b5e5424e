"""Half joins: one step of a delta path that looks an occurrence up by a key.

Source: 3DF §8.2.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from operators import scalar
from operators.flight.column import Bools, Ints, passing
from operators.flight.delta import Delta, Sought
from operators.quick import quick
from operators.state import encode, equality
from operators.state.arrangement import FEW_KEYS, IndexReader, Matches
from operators.state.filters import FilterReader
from operators.state.probes import Probes, sort_probes
from operators.state.rows import Rows
from operators.state.ticks import ROUND_BITS
from planner import dataflow as ir

_NONE = np.empty(0, np.int64)
_NO_RUNS = np.empty((0, 4), np.int64)


@dataclass(frozen=True, slots=True)
class Occurrence:
    """One input of the join at run time; its `width` columns start at `first` among the join's. The
    relation, which may have more by now, has no rows of an input that gives events. `outside`: it
    is outside of the loop that the join is in, so that its versions are epochs, not ticks."""

    relation: Rows
    filter: FilterReader | None
    first: int
    width: int
    outside: bool = False

    def times(self, time: Ints) -> Ints:
        """Times of the join as those of the relation's versions."""
        return time >> ROUND_BITS if self.outside else time


@quick
@dataclass(frozen=True, slots=True)
class Found:
    """Lookups of n updates, found in an index but not visited: of those at `present` (None: of
    all), their keys, with their `runs` (see IndexReader.find) where they are not few. entries
    int64[n]: how many entries each has, rows that are not seen included."""

    present: Ints | None
    probes: Probes | Ints
    runs: Ints
    entries: Ints


class HalfJoinOperator:
    """One step of a path: look an occurrence up, test its filter and the residual predicates.

    `filter`: what is tested of rows that are found; None where the index has no others. Of each
    column of the probe, `has_word`: whether the index has a word for NULL; `finds_null`: whether
    NULL finds it.
    """

    def __init__(self, node: ir.HalfJoin, index: IndexReader, occurrence: Occurrence) -> None:
        self.node = node
        self.occurrence = occurrence
        self._residual = [scalar.compile(r) for r in node.residual]
        self.read_through(index)

    def read_through(self, index: IndexReader) -> None:
        """Look up through `index`: that of the node or, in place of a partial one, a whole one that
        leads with its columns (see planner.lower.indexes)."""
        self.index = index
        tested = self.occurrence.filter
        if tested is not None and tested.predicate == index.part:
            tested = None  # the index has no other rows
        self.filter = tested
        probed = len(self.node.probe)
        finds_null = self.node.null_safe or (False,) * probed
        self.has_word = index.null_words[:probed]
        # An index over a column that is never NULL has no word for NULL to find.
        self.finds_null = tuple(a and b for a, b in zip(finds_null, self.has_word, strict=True))

    def probe(self, prefix: Delta) -> tuple[Delta, Ints]:
        """The updates that can match (no NULL in the probe), and their key words."""
        present, words = self._key_words(prefix)
        return (prefix if present is None else prefix.select(present)), words

    def _key_words(self, prefix: Delta) -> tuple[Ints | None, Ints]:
        """Positions of the updates that can match, or None for all, and their key words."""
        columns = [prefix.column(c) for c in self.node.probe]
        strict = [c for c, finds in zip(columns, self.finds_null, strict=True) if not finds]
        keep = encode.not_null(strict)
        if keep is None or keep.all():
            return None, self.index.probe_words(columns, len(prefix))
        present = np.flatnonzero(keep)
        columns = [c.take(present) for c in columns]
        return present, self.index.probe_words(columns, len(present))

    @property
    def lookups(self) -> tuple[HalfJoinOperator, ...]:
        return (self,)

    def extend(self, prefix: Delta, snapshot: bool) -> Delta:
        """The matches of every update of `prefix`. Cost: see IndexReader.lookup; keys that
        another path or view has looked up by the same rows are sorted already."""
        sought = self._sought(prefix)
        if sought.present is not None:
            prefix = prefix.select(sought.present)
        return self._extend(prefix, sought.probes, snapshot)

    def find(self, prefix: Delta) -> Found:
        """Where the matches of every update of `prefix` are, for `extend_found`."""
        sought = self._sought(prefix)
        probes = sought.probes
        if isinstance(probes, Probes):
            runs = self.index.find(probes)
            of_keys = np.zeros(probes.distinct, np.int64)
            np.add.at(of_keys, runs[:, 1], runs[:, 3] - runs[:, 2])
            entries = probes.each(of_keys)
        else:
            runs, entries = _NO_RUNS, self.index.entries_of_few(probes)
        if sought.present is not None:
            entries, some = np.zeros(len(prefix), np.int64), entries
            entries[sought.present] = some
        return Found(sought.present, probes, runs, entries)

    def extend_found(
        self, prefix: Delta, found: Found, chosen: Bools | None, snapshot: bool
    ) -> Delta:
        """`extend`, of the updates where `chosen` bool[n] is set (None: of all). Cost: their
        entries."""
        probes = found.probes
        if found.present is not None:
            prefix = prefix.select(found.present)
            chosen = None if chosen is None else chosen[found.present]
        if not isinstance(probes, Probes):
            if chosen is not None:
                prefix, probes = prefix.filter(chosen), probes.compress(chosen, axis=1)
            return self._extend(prefix, probes, snapshot)
        some = probes if chosen is None else probes.those(chosen)
        times, as_of = self.occurrence.times(prefix.time), self._as_of(snapshot)
        matches = self.index.found(some, found.runs, times, as_of, self._bits)
        return self._matched(prefix, probes, matches)

    def _sought(self, prefix: Delta) -> Sought:
        home = prefix.home(self.node.probe)
        if home is None:
            present, words = self._key_words(prefix)
            return self._candidates(present, words) or Sought(present, _probes(words, prefix))
        binding, columns = home
        key = (columns, self.has_word, self.finds_null)
        known = binding.sought.get(key)
        if known is None:
            present, words = self._key_words(prefix)
            few = self._candidates(present, words)
            if few is not None:
                return few
            known = binding.sought[key] = Sought(present, _probes(words, prefix))
        return known

    def _candidates(self, present: Ints | None, words: Ints) -> Sought | None:
        """The lookups of key words that may have a match, where others need not be sorted."""
        kept = self.index.candidates(words)
        if kept is None:
            return None
        words = words.take(kept, axis=1)
        return Sought(kept if present is None else present[kept], sort_probes(words))

    def extend_probed(self, prefix: Delta, words: Ints, snapshot: bool) -> Delta:
        """`extend`, with the key words at hand, which an exchange has sent here."""
        return self._extend(prefix, sort_probes(words), snapshot)

    def _values(self, prefix: Delta) -> equality.Values:
        return lambda k, at: prefix.column(self.node.probe[k]).take(at)

    def _as_of(self, snapshot: bool) -> bool:
        """Whether versions are seen as of an update's time; a snapshot is all of that time."""
        return snapshot or self.node.as_of

    @property
    def _bits(self) -> Ints:
        return _NONE if self.filter is None else self.filter.bits

    def _extend(self, prefix: Delta, probes: Probes | Ints, snapshot: bool) -> Delta:
        times, as_of = self.occurrence.times(prefix.time), self._as_of(snapshot)
        if isinstance(probes, Probes) or not prefix.one_time or len(times) == 0:
            probes = probes if isinstance(probes, Probes) else sort_probes(probes)
            matches = self.index.lookup_sorted(probes, times, as_of, self._bits)
        else:
            matches = self.index.lookup_few(probes, int(times[0]), as_of, self._bits)
        return self._matched(prefix, probes, matches)

    def _matched(self, prefix: Delta, probes: Probes | Ints, matches: Matches) -> Delta:
        """The updates with what they match, of that what passes the residual predicates."""
        occurrence = self.occurrence
        if self.index.hashed:
            matches = equality.matching(self.index, probes, self._values(prefix), matches)
        joined = prefix.select(matches.probe).extend(
            occurrence.first, occurrence.width, occurrence.relation, matches.row
        )
        for residual in self._residual:
            if len(joined) == 0:
                break
            value, errors = residual.evaluate(joined.column, len(joined))
            assert errors is None, "a residual predicate cannot fail"
            joined = joined.filter(passing(value))
        occurrence.relation.work.prefixes += len(joined)
        return joined


def _probes(words: Ints, prefix: Delta) -> Probes | Ints:
    """The keys of a prefix's lookups: sorted, unless they are few, at one time."""
    few = words.shape[1] <= FEW_KEYS and prefix.one_time
    return words if few else sort_probes(words)
