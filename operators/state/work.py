"""What running a dataflow costs, counted: two integer additions a call, never reset.

Everything that a step reads of what is stored goes through an index or is gathered by row id, so
these counters bound its work; merges and compaction, which only tidy up, are not in them.

Invariant: every counter only grows; a step's work is the difference of two copies.
"""

from __future__ import annotations

from dataclasses import dataclass

from operators.flight.column import Ints


@dataclass(slots=True)
class Work:
    """`entries`: index entries visited, those of dead rows and of rows that a filter then throws
    away too. `seeks`: searches for a key in a batch of an index. `batches`: batches of an index,
    once for each lookup of many keys. `rows`: rows gathered by row id, whether one column of them
    is read or all. `prefixes`: rows of delta paths, the changes that they begin with and the
    matches of each half join, that came through the filters. `rounds` of loops, and the `keys`
    that changed in them.
    """

    entries: int = 0
    seeks: int = 0
    batches: int = 0
    rows: int = 0
    prefixes: int = 0
    rounds: int = 0
    keys: int = 0

    def looked_up(self, counts: Ints, batches: int) -> None:
        """Count a lookup: `counts` int64[2] are its entries and its seeks, as kernels fill it."""
        self.entries += int(counts[0])
        self.seeks += int(counts[1])
        self.batches += batches

    def copy(self) -> Work:
        return self.since(_NOTHING)

    def since(self, earlier: Work) -> Work:
        """What was done after the copy `earlier` was made."""
        return Work(
            self.entries - earlier.entries,
            self.seeks - earlier.seeks,
            self.batches - earlier.batches,
            self.rows - earlier.rows,
            self.prefixes - earlier.prefixes,
            self.rounds - earlier.rounds,
            self.keys - earlier.keys,
        )


_NOTHING = Work()
