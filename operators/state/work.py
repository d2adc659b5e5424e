"""What running a dataflow costs, counted: two integer additions a call, never reset.

Everything that a step reads of what is stored goes through an index or is gathered by row id, so
these counters bound its work; merges and compaction, which only tidy up, are not in them.

Invariant: every counter only grows; a step's work is the difference of two copies.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from operators.flight.column import Ints

#: The counters in their order.
Counted: TypeAlias = tuple[int, int, int, int, int, int, int]


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

    def counted(self) -> Counted:
        """All counters, as they are."""
        return (
            self.entries, self.seeks, self.batches, self.rows, self.prefixes, self.rounds, self.keys
        )  # fmt: skip

    def copy(self) -> Work:
        return Work(*self.counted())

    def since(self, earlier: Work) -> Work:
        """What was done after the copy `earlier` was made."""
        return Work(*(a - b for a, b in zip(self.counted(), earlier.counted(), strict=True)))
