"""What is done beside a block, and what is told of Spark's jobs, of one that is made up."""

from __future__ import annotations

import logging
import threading
from typing import Any, NamedTuple

import pytest

from operators.executor import watch
from operators.executor.watch import JobProgress, Watch
from operators.repeating import repeating


def test_until_the_block_is_over(caplog: pytest.LogCaptureFixture) -> None:
    """It goes on after an error, which is logged, and no more behind the block."""
    done, often = list[int](), threading.Event()

    def work() -> None:
        done.append(1)
        if len(done) == 2:
            raise OSError("full")
        if len(done) == 4:
            often.set()

    with caplog.at_level(logging.WARNING), repeating(0.001, work, "sqlview-test"):
        assert often.wait(60)
    count = len(done)
    assert [record.message for record in caplog.records] == ["sqlview-test failed"]
    assert not any(thread.name == "sqlview-test" for thread in threading.enumerate())
    assert len(done) == count


class _Stage(NamedTuple):
    numTasks: int
    numCompletedTasks: int


class _Tracker:
    """Stage 7 is another's; stages 8 and 9 run in turn, of two tasks, and end."""

    def __init__(self, fails_at: int) -> None:
        self.looks, self.asked = 0, list[int]()
        self._fails_at, self.over = fails_at, threading.Event()

    def getActiveStageIds(self) -> list[int]:
        self.looks += 1
        if self.looks == 8:
            self.over.set()
        if self.looks == self._fails_at:
            raise ConnectionError
        return [7] if self.looks == 1 else [7, 8] if self.looks < 4 else [7, 9]

    def getStageInfo(self, stage: int) -> _Stage:
        self.asked.append(stage)
        return _Stage(2, 1)


def _told(tracker: _Tracker, monkeypatch: pytest.MonkeyPatch) -> list[JobProgress | None]:
    class Spark:
        _sc = sparkContext = property(lambda self: self)
        statusTracker = staticmethod(lambda: tracker)

    spark: Any = Spark()
    monkeypatch.setattr(watch, "_SECONDS", 0.001)
    told: list[JobProgress | None] = []
    watching = Watch()
    with watching.told(told.append), watching.job(spark, stages=2):
        assert tracker.over.wait(60) or tracker.looks == 1
    return told


def test_stages_that_have_ended_are_not_asked_about(monkeypatch: pytest.MonkeyPatch) -> None:
    tracker = _Tracker(fails_at=3)  # which is one look that tells nothing
    told = _told(tracker, monkeypatch)
    assert told[-1] is None
    assert 7 not in tracker.asked
    assert tracker.asked.count(8) == 2 and tracker.asked.count(9) >= 4
    stages = [(each.stage, each.stages, each.done) for each in told if each is not None]
    assert stages[0] == (1, 2, 1) and stages[-1] == (2, 2, 1)


def test_a_job_does_not_fail_for_what_is_told_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    tracker = _Tracker(fails_at=1)
    monkeypatch.setattr(tracker.over, "wait", lambda seconds: True)
    assert _told(tracker, monkeypatch) == [None]
    assert tracker.asked == []
