"""Errors as data: rows that cannot be computed, as a multiset of messages.

A row that fails is not in the result; its message is counted here, and uncounted when the row
leaves, for it fails with the same message then. A view is in error while any count is not zero.
"""

from __future__ import annotations

from operators.state.shared import Shared


class ErrorState:
    """Messages with how many rows fail so now."""

    def __init__(self, shared: Shared | None = None) -> None:
        self._shared = Shared() if shared is None else shared
        self._counts: dict[str, int] = {}

    def count(self, message: str, diff: int) -> None:
        """`diff` more rows (fewer where negative) fail with `message`."""
        self._shared.undo.before(self)
        count = self._counts.get(message, 0) + diff
        if count:
            self._counts[message] = count
        else:
            self._counts.pop(message, None)
        self._tell()

    def mark(self) -> dict[str, int]:
        return dict(self._counts)

    def restore(self, mark: dict[str, int]) -> None:
        self._counts = mark
        self._tell()

    def _tell(self) -> None:
        if self._counts:
            self._shared.failing.add(self)
        else:
            self._shared.failing.discard(self)

    @property
    def counts(self) -> tuple[tuple[str, int], ...]:
        """Messages with their counts, sorted. Counts of a part of the rows may be negative."""
        return tuple(sorted(self._counts.items()))

    @property
    def messages(self) -> tuple[str, ...]:
        """Messages in force, sorted."""
        return tuple(sorted(self._counts))
