"""Which blocks of a relation, or of a filter, are others than when somebody looked at them last."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from operators.flight.column import Ints


@dataclass(frozen=True, slots=True)
class Mark:
    """When somebody looked: at the first `blocks`."""

    look: int
    blocks: int
    forgotten: int


class Touched:
    """Of each block since which look it is another one. State: 8 bytes a block that was changed
    after it was full, or that comes before one that was."""

    __slots__ = ("_at", "_forgotten", "_look")

    def __init__(self) -> None:
        self._at = np.empty(0, np.int64)
        self._look = 0
        self._forgotten = 0

    def touch(self, block: int) -> None:
        """A block is another one from now on."""
        if block >= len(self._at):
            grown = np.full(max(2 * len(self._at), block + 1), -1, np.int64)
            grown[: len(self._at)] = self._at
            self._at = grown
        self._at[block] = self._look

    def forget(self) -> None:
        """Any block may be another one."""
        self._forgotten += 1

    def knows(self, mark: Mark) -> bool:
        """Whether there is an answer for a mark: nothing was forgotten since."""
        return mark.forgotten == self._forgotten

    def since(self, mark: Mark | None, blocks: int) -> tuple[Ints, Mark]:
        """Those of the first `blocks`, which are full, that are others than at a mark (None: all),
        and the mark of this look. Cost: 1 ns a block."""
        self._look += 1
        now = Mark(self._look, blocks, self._forgotten)
        if mark is None or not self.knows(mark):
            return np.arange(blocks), now
        (touched,) = (self._at[: mark.blocks] >= mark.look).nonzero()
        return np.concatenate((touched, np.arange(mark.blocks, blocks))), now
