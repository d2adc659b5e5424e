"""What is kept and what it costs, for those who ask while another thread is at work.

Who asks while nobody is at work counts what there is. While somebody is, that would be torn: then
there is what was counted when the latest step had ended. That is done for what somebody has asked
for within some steps, and before a view is created over many rows, so that it need not be done for
each step.

Invariant: what `of` returns is as of the end of some step during the call, or the latest before it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

from operators import interrupts
from sqlview.commits import SessionLock
from sqlview.introspect import Kept

#: What nobody has asked for within so many steps is not counted at their ends any more.
IDLE_STEPS = 8
#: As many rows as a view is made of in a tenth of a second, about.
LONG_ROWS = 50_000


class Statistics:
    """State: what was counted last, and for how many steps more that is done."""

    def __init__(
        self,
        lock: SessionLock,
        working: Callable[[], AbstractContextManager[None]],
        count: Callable[[], Kept],
    ) -> None:
        """`lock`: held by who is at work; `working`: does so; `count`: what is kept."""
        self._lock = lock
        self._working = working
        self._count = count
        self._counted: Kept | None = None
        self._left = 0

    def of(self) -> Kept:
        """What is kept. Cost: a pass over it, if nobody is at work; waits for the step that goes
        on, if nobody has asked for IDLE_STEPS steps."""
        self._left = IDLE_STEPS
        with interrupts.held():
            if self._lock.acquire(blocking=False):
                try:
                    return self._now()
                finally:
                    self._lock.release()
        counted = self._counted
        return self._now() if counted is None else counted

    def _now(self) -> Kept:
        with self._working():
            counted = self._counted = self._count()
            return counted

    def before_long(self, rows: int) -> None:
        """What begins may go through so many rows; whoever calls is at work, and has changed
        nothing yet. Where it is soon done, who asks can wait: to count costs as much as there is.
        """
        if rows >= LONG_ROWS:
            self._counted = self._count()

    def publish(self) -> None:
        """A step has ended, or a statement; whoever calls is still at work. If that fails, who asks
        waits."""
        self._counted = None
        if self._left > 0:
            self._left -= 1
            self._counted = self._count()
