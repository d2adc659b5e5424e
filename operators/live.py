"""What is kept for whom: an index or a filter with its readers, and which index serves for another.

An index of a plan need not exist itself. A *whole* index that views read serves for every index of
fewer rows or fewer columns that it leads with: half joins look those up through it, by a part of
its key, and test the filter's bitmap where the other would have been partial. Lookups find the same
rows; the second index would cost its memory and its upkeep for every row.

Invariant: an index that is served for is read by joins alone; all else holds its index itself.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from operators.state.arrangement import ArrangementState
from operators.state.filters import Filter
from planner import dataflow as ir

#: Reader under which a table holds the index of its enforced key.
TABLE_READER = "(table)"


@dataclass(slots=True)
class LiveIndex:
    """An index, and the views (or the table) that read it, those of `served` included: the indexes
    in whose place it is read, and by whom."""

    spec: ir.Index
    owner: str
    state: ArrangementState
    readers: set[str] = field(default_factory=set)
    served: dict[ir.Arrangement, set[str]] = field(default_factory=dict)

    @property
    def deferred(self) -> bool:
        """Whether only its table or its derived bag reads it, which brings it up to date when it
        does."""
        bag = isinstance(self.spec, ir.HashArrangement) and isinstance(self.spec.relation, ir.Store)
        return bag or self.readers == {TABLE_READER}

    def serves(self, other: ir.Arrangement) -> bool:
        """Whether views read this index, and it has all rows of another one under the same words:
        it is whole, leads with its columns, and leaves out no row for a NULL that the other has."""
        spec = self.spec
        if self.deferred or not isinstance(spec, ir.Arrangement) or spec == other:
            return False
        columns = len(other.columns)
        if spec.filter is not None or not columns or spec.columns[:columns] != other.columns:
            return False
        fields = spec.relation.schema
        alike = spec.null_safe == other.null_safe or not any(
            fields[c].nullable for c in other.columns
        )
        further = any(fields[c].nullable for c in spec.columns[columns:])
        return alike and (spec.null_safe or not further) and spec.relation == other.relation


@dataclass(slots=True)
class LiveFilter:
    state: Filter
    readers: set[str] = field(default_factory=set)


@dataclass(slots=True)
class Over:
    """What is kept over one relation."""

    filters: list[Filter] = field(default_factory=list)
    indexes: list[LiveIndex] = field(default_factory=list)
