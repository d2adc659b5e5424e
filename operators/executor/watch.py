"""How far Spark's jobs are, for those who wait for them.

Spark is asked twice a second which of its stages run, in a thread of its own, and only where
somebody looks on. Stages that ran before a job began are another's; those that somebody else begins
meanwhile cannot be told from the job's own.

Invariant: no job fails for what is told of it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeAlias

from operators.repeating import repeating

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_log = logging.getLogger(__name__)
_SECONDS = 0.5
_UNTOLD = "how far a Spark job is cannot be told"


@dataclass(frozen=True, slots=True)
class JobProgress:
    """A job in its `stage`, from 1 on, of `stages`, as far as they are known; `done` of the stage's
    `tasks` have ended. `seconds`: since it began. `rows`: that it reads, where that is known."""

    stage: int
    stages: int
    done: int
    tasks: int
    seconds: float
    rows: int | None = None

    @property
    def left(self) -> float | None:
        """Seconds that it may still take, as if all its tasks and stages took the same; None while
        nothing has ended."""
        share = (self.stage - 1 + self.done / max(self.tasks, 1)) / self.stages
        return self.seconds * (1 - share) / share if share else None

    def __str__(self) -> str:
        parts = [f"stage {self.stage} of {self.stages}", f"{self.done} of {self.tasks} tasks"]
        if self.rows is not None:
            parts.append(f"{self.rows:,} rows")
        if self.left is not None:
            parts.append(f"{self.left:.0f} s left")
        return ", ".join(parts)


#: Told how far a job is; None: there is none any more.
Tell: TypeAlias = Callable[[JobProgress | None], None]


class Watch:
    """Tells how far the jobs of a session are, while somebody wants to know."""

    def __init__(self) -> None:
        self._tell: Tell | None = None

    @contextmanager
    def told(self, tell: Tell | None) -> Iterator[None]:
        """Within the block, tell of jobs."""
        before, self._tell = self._tell, tell
        try:
            yield
        finally:
            self._tell = before

    @contextmanager
    def job(
        self, spark: SparkSession, stages: int | None = None, rows: int | None = None
    ) -> Iterator[None]:
        """The block is a job, of so many stages and rows, if that is known."""
        tell = self._tell
        if tell is None:
            yield
            return
        follow = _followed if getattr(spark, "_sc", None) is not None else _connected
        try:
            began = monotonic()
            with follow(spark, lambda s: tell(_progress(s, stages, monotonic() - began, rows))):
                yield
        finally:
            tell(None)


#: Of each stage that was seen, by its number, how many tasks have ended, of how many.
_Seen: TypeAlias = dict[int, tuple[int, int]]


def _progress(seen: _Seen, stages: int | None, seconds: float, rows: int | None) -> JobProgress:
    """Of stages that were seen, at least one: the first that runs, or else the last."""
    running = [i for i, (done, tasks) in enumerate(seen.values()) if done < tasks]
    here = len(seen) - len(running) if running else len(seen) - 1
    done, tasks = list(seen.values())[running[0] if running else -1]
    return JobProgress(here + 1, max(stages or 0, len(seen)), done, tasks, seconds, rows)


@contextmanager
def _followed(spark: SparkSession, tell: Callable[[_Seen], None]) -> Iterator[None]:
    """Ask the Spark of this process."""
    seen: _Seen = {}
    ended: set[int] = set()
    try:
        tracker = spark.sparkContext.statusTracker()
        ended.update(tracker.getActiveStageIds())  # others', of which nobody asks
    except Exception:
        _log.debug(_UNTOLD, exc_info=True)
        yield
        return
    others = frozenset(ended)

    def look() -> None:
        try:
            active = {i for i in tracker.getActiveStageIds() if i not in others}
            for stage in (active | seen.keys()) - ended:
                info = tracker.getStageInfo(stage)
                if info is not None:
                    done = info.numCompletedTasks if stage in active else info.numTasks
                    seen[stage] = done, info.numTasks
                if stage not in active:
                    ended.add(stage)
            if seen:
                tell(dict(sorted(seen.items())))
        except Exception:
            _log.debug(_UNTOLD, exc_info=True)

    with repeating(_SECONDS, look, "sqlview-watch"):
        yield


@contextmanager
def _connected(spark: Any, tell: Callable[[_Seen], None]) -> Iterator[None]:
    """Be told by a server, which tells of each command of the session."""

    def handle(stages: Any, inflight_tasks: int, operation_id: Any, done: bool) -> None:
        known = sorted(stages or (), key=lambda stage: stage.stage_id)
        seen = {s.stage_id: (s.num_completed_tasks, s.num_tasks) for s in known}
        if seen:
            tell(seen)

    spark.registerProgressHandler(handle)
    try:
        yield
    finally:
        spark.removeProgressHandler(handle)
