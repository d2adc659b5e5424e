"""The memory limit of a session: what it keeps beyond it lies in files of its store.

Large arrays are made in files as memory gets short (`operators.budget`). When most of the limit is
in use, a checkpoint is written, and what it has is read from its files from then on, where the
system drops it when it needs the memory. What takes too much in spite of that fails.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from operators import budget, checkpoint
from operators.budget import Budget, OverBudgetError
from operators.dataflow import Dataflow
from operators.state.files import on_this_machine
from operators.state.pieces import MappedFiles
from planner.errors import MemoryLimitError
from sqlview.store import Store
from sqlview.store.store import Present

#: Of the limit: from this share on memory is let go before a step, if so much more is in use than
#: after the last time. A view's first rows may take the rest.
_MUCH, _MORE = 0.4, 0.1


class MemoryLimit:
    """`limit`: bytes. One for each session that has one, from its opening on."""

    def __init__(self, limit: int, store: Store, dataflow: Dataflow) -> None:
        """Raises: MemoryLimitError if more is in use already."""
        self._budget = Budget(limit, on_this_machine(store.path))
        self._store = store
        self._dataflow = dataflow
        self._closed = False
        self._after = 0
        if budget.anonymous_bytes() > limit:
            raise self.too_small()
        budget.enter(self._budget)

    @contextmanager
    def held(self, what: str, present: Present) -> Iterator[None]:
        """Keep the limit in the block; whoever calls holds the session.

        Raises: MemoryLimitError, when what was done in the block has been taken back.
        """
        self._let_go(present)
        try:
            yield
        except (OverBudgetError, MemoryError) as error:
            refused = self._error(f"the {what} needs more memory than memory_limit")
            self._let_go(present)
            raise refused from error

    def map(self) -> None:
        """Let go the memory of what a checkpoint has; whoever calls holds the session."""
        checkpoint.map_stored(self._dataflow, MappedFiles(self._store.path))
        budget.release()

    def too_small(self) -> MemoryLimitError:
        """The store cannot be opened."""
        return self._error("memory_limit is too small to open the store")

    def close(self) -> None:
        """It holds no more."""
        if not self._closed:
            self._closed = True
            budget.leave(self._budget)

    def _let_go(self, present: Present) -> None:
        used, limit = budget.anonymous_bytes(), self._budget.limit
        if used > max(_MUCH * limit, self._after + _MORE * limit):
            self._store.save(present, even_if_same=True)
            self.map()
            self._after = budget.anonymous_bytes()

    def _error(self, message: str) -> MemoryLimitError:
        return MemoryLimitError(
            message,
            detail=f"{budget.anonymous_bytes():,} bytes that belong to no file are in use, of "
            f"{self._budget.limit:,}.",
            hint="Nothing of it was done. Commit less at a time, or raise memory_limit.",
        )
