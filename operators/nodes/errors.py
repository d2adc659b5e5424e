"""Errors as data: rows that cannot be computed, as a multiset of messages.

A row that fails is not in the result; its message is counted here, and uncounted when the row
leaves, for it fails with the same message then. A view is in error while any count is not zero.
"""

from __future__ import annotations

from operators.state.undo import Undo


class ErrorState:
    """Messages with how many rows fail so now."""

    def __init__(self, undo: Undo | None = None) -> None:
        self._undo = Undo() if undo is None else undo
        self._counts: dict[str, int] = {}

    def count(self, message: str, diff: int) -> None:
        """`diff` more rows (fewer where negative) fail with `message`."""
        self._undo.before(self)
        count = self._counts.get(message, 0) + diff
        if count:
            self._counts[message] = count
        else:
            self._counts.pop(message, None)

    def mark(self) -> dict[str, int]:
        return dict(self._counts)

    def restore(self, mark: dict[str, int]) -> None:
        self._counts = mark

    @property
    def counts(self) -> tuple[tuple[str, int], ...]:
        """Messages with their counts, sorted. Counts of a part of the rows may be negative."""
        return tuple(sorted(self._counts.items()))

    @property
    def messages(self) -> tuple[str, ...]:
        """Messages in force, sorted."""
        return tuple(sorted(self._counts))
