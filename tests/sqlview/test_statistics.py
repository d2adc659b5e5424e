"""Who asks for statistics does not wait for a step, and gets no torn values."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

import sqlview
from operators.dataflow import Dataflow
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
    """What another thread does, which stays in its midst until it is let go."""

    def __init__(
        self,
        patch: pytest.MonkeyPatch,
        work: Callable[[], Any],
        among: type = InlineExecutor,
        part: str = "step",
    ) -> None:
        """`work` stays behind the method `part` of `among`."""
        self.inside, self.go = threading.Event(), threading.Event()
        run: Callable[..., Any] = getattr(among, part)

        def waiting(*arguments: Any) -> Any:
            found = run(*arguments)
            self.inside.set()
            assert self.go.wait(60)
            return found

        patch.setattr(among, part, waiting)
        self.thread = threading.Thread(target=work)
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
        step = Blocked(monkeypatch, lambda: _commit(db, 7))
        found = _asked(db)
        assert len(found[2].steps) == 2 and (not again or found == before)
        step.end()
        after = _asked(db)
        assert after != found and len(after[2].steps) == 3


def test_nor_is_the_creation_of_a_view(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether or not somebody has asked of late, where it may take long."""
    monkeypatch.setattr(statistics, "LONG_ROWS", 1)
    with _db() as db:
        before = _asked(db)
        for a in range(IDLE_STEPS + 2):
            _commit(db, a)
        create = "CREATE MATERIALIZED VIEW w AS SELECT sum(a) AS s FROM t"
        work = Blocked(monkeypatch, lambda: db.sql(create), Dataflow, "install")
        found = _asked(db)
        assert len(found[2].steps) == len(before[2].steps) + IDLE_STEPS + 2
        work.end()
        assert len(_asked(db)[1]) > len(found[1])


def test_what_nobody_asks_for_is_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    counted = []
    count = sqlview.introspect.kept
    with _db() as db:
        monkeypatch.setattr(
            sqlview.introspect, "kept", lambda *some: counted.append(1) or count(*some)
        )
        _commit(db, 1)
        db.sql("CREATE MATERIALIZED VIEW w AS SELECT sum(a) AS s FROM t")
        assert counted == [], "neither for a step nor for a view over few rows"
        db.state()
        for a in range(3 * IDLE_STEPS):
            _commit(db, a)
        assert 1 < len(counted) <= IDLE_STEPS + 1
