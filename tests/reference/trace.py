"""A multi-version collection as a list of rows with their lives.

A row is visible as of t while born <= t < died, and just before t while born < t <= died.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

Row = tuple[Any, ...]


@dataclass(slots=True)
class Life:
    row: Row
    born: int
    died: int | None = None

    def visible(self, time: int, as_of: bool) -> bool:
        if as_of:
            return self.born <= time and (self.died is None or time < self.died)
        return self.born < time and (self.died is None or time <= self.died)


@dataclass(slots=True)
class Trace:
    """`lives[i]` is the row with id i."""

    lives: list[Life] = field(default_factory=list)

    def append(self, row: Row, time: int) -> int:
        self.lives.append(Life(row, time))
        return len(self.lives) - 1

    def kill(self, row_id: int, time: int) -> None:
        self.lives[row_id].died = time

    def living(self) -> list[int]:
        return [i for i, life in enumerate(self.lives) if life.died is None]

    def visible(self, time: int, as_of: bool = True) -> list[int]:
        return [i for i, life in enumerate(self.lives) if life.visible(time, as_of)]

    def lookup(self, columns: tuple[int, ...], key: Row, time: int, as_of: bool) -> list[int]:
        """Rows whose `columns` hold `key`, NULL being equal to NULL."""
        found = self.visible(time, as_of)
        return [i for i in found if tuple(self.lives[i].row[c] for c in columns) == key]

    def needed(self, since: int) -> Iterator[int]:
        """Rows that a reader at or after `since` may see."""
        for i, life in enumerate(self.lives):
            if life.died is None or life.died > since:
                yield i
