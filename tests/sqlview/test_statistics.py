"""Who asks for statistics does not wait for a step, and gets no torn values."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

import sqlview
from operators.executor.inline import InlineExecutor
from sqlview import statistics
from sqlview.statistics import IDLE_STEPS


def _db() -> sqlview.Session:
    db = sqlview.connect(placement="inline")
    db.sql("CREATE TABLE t (a INT, b INT)")
    db.sql("CREATE MATERIALIZED VIEW v AS SELECT b, count(*) AS n FROM t GROUP BY b")
    _commit(db, 0)
    return db


def _commit(db: sqlview.Session, a: int) -> None:
    with db.transaction() as tx:
        tx.insert("t", [(a, a % 3)])


class Blocked:
    """A step of another thread that stays in its midst until it is let go."""

    def __init__(self, db: sqlview.Session, patch: pytest.MonkeyPatch) -> None:
        self.inside, self.go = threading.Event(), threading.Event()
        step: Callable[..., Any] = InlineExecutor.step

        def waiting(executor: InlineExecutor, *arguments: Any) -> None:
            step(executor, *arguments)
            self.inside.set()
            assert self.go.wait(60)

        patch.setattr(InlineExecutor, "step", waiting)
        self.thread = threading.Thread(target=_commit, args=(db, 7))
        self.thread.start()
        assert self.inside.wait(60)

    def end(self) -> None:
        self.go.set()
        self.thread.join()


def _asked(db: sqlview.Session) -> tuple[Any, ...]:
    shown = db.sql("SHOW ARRANGEMENTS").to_arrow()
    return db.arrangements(), db.state(), db.metrics(), shown


@pytest.mark.parametrize("again", [False, True])
def test_a_step_is_not_waited_for(again: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    with _db() as db:
        _asked(db)
        _commit(db, 1)
        if again:
            before = _asked(db)
            assert before[2].steps[-1] is db.last_step
        step = Blocked(db, monkeypatch)
        found = _asked(db)
        assert len(found[2].steps) == 2 and (not again or found == before)
        step.end()
        after = _asked(db)
        assert after != found and len(after[2].steps) == 3


def test_nor_is_a_long_one_that_nobody_expected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlview.session, "LONG_ROWS", 1)
    with _db() as db:
        before = _asked(db)
        for a in range(IDLE_STEPS + 2):
            _commit(db, a)
        step = Blocked(db, monkeypatch)
        found = _asked(db)
        assert len(found[2].steps) == len(before[2].steps) + IDLE_STEPS + 2
        step.end()


def test_what_nobody_asks_for_is_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    counted = []
    count = sqlview.introspect.state
    with _db() as db:
        monkeypatch.setattr(
            sqlview.introspect, "state", lambda *some: counted.append(1) or count(*some)
        )
        _commit(db, 1)
        assert counted == []
        db.state()
        for a in range(3 * IDLE_STEPS):
            _commit(db, a)
        assert 1 < len(counted) <= IDLE_STEPS + 1
        assert statistics.LONG_ROWS > 1
