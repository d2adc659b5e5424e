"""How far sources have come: what makes changes that are sent again count once.

A transaction may say where a source stands when its changes are in (`Transaction.source`). That is
committed with its epoch, in one record of a store, so that whoever sends changes and whoever has
them never disagree about which there are.

Invariant: the position of a source only grows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from planner.errors import DataError

#: Of a source of which nothing has been committed.
NOWHERE = -1


@dataclass(frozen=True, slots=True)
class Position:
    """Where a source stands, and the epoch at which it came there."""

    offset: int
    epoch: int


@dataclass(frozen=True, slots=True)
class Move:
    """A source comes to `offset`, from `after` if that is said."""

    offset: int
    after: int | None


class Positions:
    """The position of each source."""

    def __init__(self, at: Mapping[str, Position] | None = None) -> None:
        self._at = dict(at or {})

    def copy(self) -> Positions:
        return Positions(self._at)

    def items(self) -> list[tuple[str, Position]]:
        return list(self._at.items())

    def of(self, source: str) -> Position:
        return self._at.get(source, Position(NOWHERE, 0))

    def set(self, source: str, position: Position) -> None:
        self._at[source] = position

    def take(self, moves: Mapping[str, Move], epoch: int) -> int | None:
        """Make a transaction's moves at `epoch`; or, if they were made before, say at which epoch.

        Raises: DataError if changes between are missing, or only some of the moves were made.
        """
        made = {name for name, move in moves.items() if move.offset <= self.of(name).offset}
        if made:
            if len(made) < len(moves):
                new = sorted(set(moves) - made)
                raise DataError(
                    f'the changes of source "{min(made)}" were committed before, and those of '
                    f'"{new[0]}" were not',
                    hint="Commit them in transactions of their own.",
                )
            return max(self.of(name).epoch for name in made)
        for name, move in moves.items():
            at = self.of(name).offset
            if move.after is not None and move.after != at:
                raise _gap(name, at, move)
        for name, move in moves.items():
            self._at[name] = Position(move.offset, epoch)
        return None

    def moved(self, before: Positions) -> dict[str, Position]:
        """The positions that are not those of `before`."""
        return {name: at for name, at in self._at.items() if at != before.of(name)}


def _gap(name: str, at: int, move: Move) -> DataError:
    stands = "nothing of it has been committed" if at == NOWHERE else f"it stands at {at}"
    return DataError(
        f'changes of source "{name}" are missing',
        detail=f"These follow on {move.after}, and {stands}.",
        hint="Send them from there on. A Spark stream whose checkpoint has outlived the tables "
        "needs the store that it wrote to, or a new checkpoint.",
    )
