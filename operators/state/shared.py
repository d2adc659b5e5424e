"""What all relations and indexes of one dataflow share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, TypeAlias

from operators.state.hashing import Hashing
from operators.state.undo import Undo
from operators.state.work import Work

if TYPE_CHECKING:
    from operators.state.arrangement import ArrangementState
    from operators.state.bulk import Built
    from operators.state.filters import Filter
    from operators.state.relation import Relation
    from operators.state.unique import Matched

#: Makes the entries that an index is to have of the rows from one on, and sees, if it is told to,
#: whether their keys are unique; None if the index is to make them itself.
Build: TypeAlias = "Callable[[ArrangementState, int, bool], Built | None]"


#: Matches the rows of a relation from one on with the living rows of a table, by its index: rows of
#: the table itself, or of its key's columns alone; None if whoever asks is to do that.
Match: TypeAlias = "Callable[[ArrangementState, Relation, int], Matched | None]"


class Settling(Protocol):
    """An index. `waits`: whether it has merges to do, which are done between steps."""

    waits: bool

    def settle(self) -> None:
        """Go on with them."""


#: Lets filters of one relation have the bits of all rows that they have none of; False if they are
#: to do that themselves.
Evaluate: TypeAlias = "Callable[[Sequence[Filter]], bool]"


@dataclass(slots=True)
class Shared:
    """`work`: what is counted. `hashing`: how keys are made, one secret for all. `undo`: whom to
    tell before a change. `waiting`: the indexes that have merges to do, each once. `failing`: the
    errors of operators, where there are any. `build`: who is asked first for an index of many
    rows, `match`: for the rows that many others have the keys of; `evaluate`: for the bits of
    filters."""

    work: Work = field(default_factory=Work)
    hashing: Hashing = field(default_factory=Hashing.drawn)
    undo: Undo = field(default_factory=Undo)
    waiting: list[Settling] = field(default_factory=list)
    failing: set[object] = field(default_factory=set)
    build: Build | None = None
    match: Match | None = None
    evaluate: Evaluate | None = None

    def wait(self, index: Settling) -> None:
        """An index has merges to do."""
        if not index.waits:
            index.waits = True
            self.waiting.append(index)

    def take_waiting(self) -> list[Settling]:
        """Those that have waited; from now on they do not."""
        taken, self.waiting = self.waiting, []
        for index in taken:
            index.waits = False
        return taken
