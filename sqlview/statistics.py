"""What is kept and what it costs, for those who ask while another thread is at work.

Who asks while nobody is at work counts what there is. While somebody is, that would be torn: then
there is what was counted when the latest step had ended. That is done for what somebody has asked
for within some steps, and before a view is created over many rows, so that it need not be done for
each step.

Invariant: what `of` returns is as of the end of some step during the call, or the latest before it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any

from operators import interrupts
from sqlview.commits import SessionLock

#: What nobody has asked for within so many steps is not counted at their ends any more.
IDLE_STEPS = 8
#: As many rows as a view is made of in a tenth of a second, about.
LONG_ROWS = 50_000


class Statistics:
    """State: what was counted last, by kind, and for how many steps more that is done."""

    def __init__(
        self,
        lock: SessionLock,
        working: Callable[[], AbstractContextManager[None]],
        count: Mapping[str, Callable[[], Any]],
    ) -> None:
        """`lock`: held by who is at work; `working`: does so; `count`: by kind, makes a value."""
        self._lock = lock
        self._working = working
        self._count = count
        self._counted: dict[str, Any] = {}
        self._left: dict[str, int] = {}

    def of(self, kind: str) -> Any:
        """The statistics of a kind. Cost: a pass over what is kept, if nobody is at work; waits for
        the step that goes on, if nobody has asked for IDLE_STEPS steps."""
        self._left[kind] = IDLE_STEPS
        with interrupts.held():
            if self._lock.acquire(blocking=False):
                try:
                    return self._now(kind)
                finally:
                    self._lock.release()
        counted = self._counted.get(kind)
        return self._now(kind) if counted is None else counted

    def _now(self, kind: str) -> Any:
        with self._working():
            counted = self._counted[kind] = self._count[kind]()
            return counted

    def before_long(self, rows: int) -> None:
        """What begins may go through so many rows; whoever calls is at work, and has changed
        nothing yet. Where it is soon done, who asks can wait: to count costs as much as there is.
        """
        if rows < LONG_ROWS:
            return
        self._counted = {kind: count() for kind, count in self._count.items()}

    def publish(self) -> None:
        """A step has ended, or a statement; whoever calls is still at work. If that fails, who asks
        waits."""
        if not self._left and not self._counted:
            return
        self._counted = {}
        left = {kind: steps - 1 for kind, steps in self._left.items() if steps > 0}
        self._left = left
        self._counted = {kind: self._count[kind]() for kind in left}
