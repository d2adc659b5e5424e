"""What is kept for whom: an index or a filter with its readers."""

from __future__ import annotations

from dataclasses import dataclass, field

from operators.state.arrangement import ArrangementState
from operators.state.filters import Filter
from planner import dataflow as ir

#: Reader under which a table holds the index of its enforced key.
TABLE_READER = "(table)"


@dataclass(slots=True)
class LiveIndex:
    """An index, the views that read it by what was planned (`planner.lower.indexes`), and those
    that `asked` for it beside that: its table, for the rows that go, and views whose rows somebody
    looks up."""

    spec: ir.Index
    owner: str
    state: ArrangementState
    planned: frozenset[str] = frozenset()
    asked: set[str] = field(default_factory=set)
    #: Whether it finds the rows of a derived bag, which alone reads it.
    is_bag: bool = field(init=False)

    def __post_init__(self) -> None:
        spec = self.spec
        self.is_bag = isinstance(spec, ir.HashArrangement) and isinstance(
            spec.relation, (ir.Store, ir.Variable)
        )

    @property
    def readers(self) -> frozenset[str]:
        return self.planned.union(self.asked)

    @property
    def deferred(self) -> bool:
        """Whether only its table or its derived bag reads it, which brings it up to date when it
        does."""
        return self.is_bag or (not self.planned and self.asked == {TABLE_READER})


@dataclass(slots=True)
class LiveFilter:
    state: Filter
    readers: set[str] = field(default_factory=set)


@dataclass(slots=True)
class Over:
    """What is kept over one relation."""

    filters: list[Filter] = field(default_factory=list)
    indexes: list[LiveIndex] = field(default_factory=list)
