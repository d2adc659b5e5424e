"""Progress of long work: a bar in terminals and notebooks, nothing elsewhere.

Invariant: what is shown disappears again, and what takes less than half a second shows nothing.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from operators.executor.watch import Tell

if TYPE_CHECKING:
    from rich.console import Console

#: Told that so many rows more are done.
Advance: TypeAlias = Callable[[int], None]

_WAIT_SECONDS = 0.5


def ignore(rows: int) -> None:
    """Progress that nobody wants to see."""


@dataclass(frozen=True, slots=True)
class Bar:
    """Told of progress: of rows, and of Spark's jobs, where somebody looks on."""

    advance: Advance = ignore
    on_job: Tell | None = None


class Progress:
    """`enabled` None: where a person looks on, a terminal or a notebook, and not under CI."""

    def __init__(self, enabled: bool | None = None) -> None:
        self._enabled = enabled
        self._console: Console | None = None

    @property
    def is_shown(self) -> bool:
        if self._enabled is None:
            self._enabled = self._is_watched()
        return self._enabled

    @contextmanager
    def task(self, title: str, total: int | None = None, unit: str = "rows") -> Iterator[Bar]:
        """Work of `total` rows (None: not known); what it yields is told how far it is. Of a job
        of Spark the title tells the stage, and how long it may still take.

        The work may be interrupted: the bar goes, whatever ends the block.
        """
        if not self.is_shown:
            yield Bar()
            return
        from rich import progress as bars

        columns = [bars.TextColumn("{task.description}"), bars.TimeElapsedColumn()]
        if total is not None:
            columns[1:1] = [bars.BarColumn(), bars.TextColumn("{task.completed:,}/{task.total:,}")]
            columns[3:3] = [bars.TextColumn(unit), bars.TimeRemainingColumn()]
        else:
            columns[1:1] = [bars.SpinnerColumn(), bars.TextColumn("{task.completed:,} " + unit)]
        bar = bars.Progress(*columns, console=self._stderr(), transient=True)
        number = bar.add_task(title, total=total)
        start = threading.Timer(_WAIT_SECONDS, bar.start)
        start.daemon = True
        start.start()
        try:
            yield Bar(
                lambda rows: bar.advance(number, rows),
                lambda job: bar.update(
                    number, description=title if job is None else f"{title}: {job}"
                ),
            )
        finally:
            start.cancel()
            start.join()  # a bar that is about to start is stopped after it has
            bar.stop()

    def _is_watched(self) -> bool:
        if os.environ.get("CI"):
            return False
        console = self._stderr()
        return console.is_terminal or console.is_jupyter

    def _stderr(self) -> Console:
        if self._console is None:
            from rich.console import Console

            self._console = Console(stderr=True)
        return self._console
