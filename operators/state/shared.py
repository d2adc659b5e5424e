"""What all relations and indexes of one dataflow share."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from operators.state.hashing import Hashing
from operators.state.undo import Undo
from operators.state.work import Work


class Settling(Protocol):
    """An index. `waits`: whether it has merges to do, which are done between steps."""

    waits: bool

    def settle(self) -> None:
        """Go on with them."""


@dataclass(slots=True)
class Shared:
    """`work`: what is counted. `hashing`: how keys are made, one secret for all. `undo`: whom to
    tell before a change. `waiting`: the indexes that have merges to do, each once. `failing`: the
    errors of operators, where there are any."""

    work: Work = field(default_factory=Work)
    hashing: Hashing = field(default_factory=Hashing.drawn)
    undo: Undo = field(default_factory=Undo)
    waiting: list[Settling] = field(default_factory=list)
    failing: set[object] = field(default_factory=set)

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
