"""Taking a step back: what it has changed so far, as it was before.

State of the dataflow that a step changes says so first, `undo.before(self)`, and is marked at most
once a step: numbers and references, O(1), since what a step adds goes behind what is there. If the
step fails, whatever raised, each is restored to its mark, and the dataflow is what it was.

What may stay as the step made it is what no answer depends on: memory that was reserved, counts of
work, kernels that were prepared, and what merging has been paid for.

Invariant: outside a step nothing is marked, and changes (a view's first rows, merging between
steps) cost a comparison.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol


class Restorable(Protocol):
    """State that a step changes."""

    def mark(self) -> Any:
        """What `restore` needs. Cost: O(1)."""

    def restore(self, mark: Any) -> None:
        """Be as when `mark` was made; nothing but one step's changes lie between. It cannot fail
        for what the step did, wherever that ended."""


class Undo:
    """The marks of the step that is going on; one for a whole dataflow."""

    __slots__ = ("_marks",)

    def __init__(self) -> None:
        self._marks: dict[int, tuple[Restorable, Any]] | None = None

    def before(self, state: Restorable) -> None:
        """`state` is about to change."""
        marks = self._marks
        if marks is not None and id(state) not in marks:
            marks[id(state)] = state, state.mark()

    @contextmanager
    def step(self) -> Iterator[None]:
        """All that changes inside is as before if anything is raised there."""
        assert self._marks is None, "one step at a time"
        self._marks = {}
        try:
            yield
        except BaseException:
            # The latest first: what was marked later may rest on what was marked before.
            for state, mark in reversed(self._marks.values()):
                state.restore(mark)
            raise
        finally:
            self._marks = None
