"""Taking work back: what it has changed so far, as it was before.

State that a step or a statement changes says so first, `undo.before(self)`, and is marked at most
once: numbers and references, O(1) in what a step changes, since what it adds goes behind what is
there. If the work fails, whatever raised, each is restored to its mark, and all is what it was.
What makes the work last, as a record of a log, is marked like all else, and written at the end.

What may stay as the work made it is what no answer depends on: memory that was reserved, counts of
work, kernels that were prepared, and what merging has been paid for.

Invariant: outside of work nothing is marked, and changes (merging between steps) cost a comparison;
but for what could not be restored, for lack of memory say: `finish` goes on with it, and nobody
reads or changes anything before that has succeeded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

Result = TypeVar("Result")


class Restorable(Protocol):
    """State that can be taken back."""

    def mark(self) -> Any:
        """What `restore` needs."""

    def restore(self, mark: Any) -> None:
        """Be as when `mark` was made; nothing but one piece of work's changes lie between, wherever
        it ended. If this fails it is called again."""


class Undo:
    """The marks of the work that is going on; one for a whole dataflow."""

    __slots__ = ("_at_work", "_marks")

    def __init__(self) -> None:
        self._marks: dict[int, tuple[Restorable, Any]] | None = None
        self._at_work = False

    @property
    def is_at_work(self) -> bool:
        return self._at_work

    def before(self, state: Restorable) -> None:
        """`state` is about to change."""
        marks = self._marks
        if marks is not None and id(state) not in marks:
            marks[id(state)] = state, state.mark()

    def all_or_nothing(self, work: Callable[[], Result]) -> Result:
        """Do the work, and if it raises, take back all that it has changed. Work inside other work
        is a part of that."""
        if self._at_work:
            return work()
        self.finish()
        self._marks, self._at_work = {}, True
        try:
            result = work()
            self._marks, self._at_work = None, False
            return result
        except BaseException:
            self._at_work = False
            self.finish()
            raise

    def finish(self) -> None:
        """Restore what is still to be restored, if anything is; not while work goes on."""
        marks = self._marks
        if marks is None or self._at_work:
            return
        while marks:
            # The latest first: what was marked later may rest on what was marked before.
            latest = next(reversed(marks))
            state, mark = marks[latest]
            state.restore(mark)
            del marks[latest]
        self._marks = None
