"""A session's edges: what is given twice, other threads, and what comes after close."""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import sqlview
from operators.nodes.reduce import ReduceOperator
from operators.nodes.store import StoreOperator


@pytest.fixture
def db() -> Iterator[sqlview.Session]:
    with sqlview.connect() as session:
        session.sql("CREATE TABLE t (a INT PRIMARY KEY, b INT)")
        session.sql("CREATE MATERIALIZED VIEW v AS SELECT b, count(*) AS n FROM t GROUP BY b")
        yield session


def test_a_transaction_given_twice_is_refused(db: sqlview.Session) -> None:
    tx, other = db.begin(), db.begin()
    tx.insert("t", [(1, 1)])
    other.insert("t", [(2, 1)])
    with pytest.raises(sqlview.DataError, match="given twice"):
        db.apply([tx, other, tx])
    assert db.epoch == 0 and not db.view("v").rows()
    assert db.apply([tx, other]) == [1, 2]
    with pytest.raises(sqlview.DataError, match="committed already"):
        db.apply([tx])


USES: dict[str, Callable[[sqlview.Session, sqlview.Transaction, sqlview.ViewReader], object]] = {
    "sql": lambda db, tx, view: db.sql("SHOW TABLES"),
    "select": lambda db, tx, view: db.sql("SELECT * FROM t"),
    "transaction": lambda db, tx, view: db.transaction(),
    "transactions": lambda db, tx, view: db.transactions(),
    "begin": lambda db, tx, view: db.begin(),
    "apply": lambda db, tx, view: db.apply([tx]),
    "commit": lambda db, tx, view: tx.__exit__(None, None, None),
    "view": lambda db, tx, view: db.view("v"),
    "rows": lambda db, tx, view: view.rows(),
    "to_df": lambda db, tx, view: view.to_df(),
    "subscribe": lambda db, tx, view: db.subscribe("v", print),
    "verify": lambda db, tx, view: db.verify("v"),
    "state": lambda db, tx, view: db.state(),
    "arrangements": lambda db, tx, view: db.arrangements(),
    "metrics": lambda db, tx, view: db.metrics(),
}


@pytest.mark.parametrize("use", list(USES))
def test_a_closed_session_says_so(db: sqlview.Session, use: str) -> None:
    tx, view = db.begin(), db.view("v")
    tx.insert("t", [(1, 1)])
    db.close()
    db.close()
    with pytest.raises(sqlview.SqlViewError, match="the session is closed"):
        USES[use](db, tx, view)
    assert db.epoch == 0


def test_looking_and_closing_beside_changes(db: sqlview.Session) -> None:
    """Other threads look at everything while one creates, drops and commits; then one closes."""
    failures: list[BaseException] = []
    stop = threading.Event()

    def looking() -> None:
        try:
            while not stop.is_set():
                for use in ("state", "arrangements", "metrics"):
                    USES[use](db, None, None)  # type: ignore[arg-type]
                db.view("v").rows()
        except sqlview.SqlViewError as error:
            if "closed" not in str(error):
                failures.append(error)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=looking) for _ in range(3)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for t in threads:
            t.start()
        for i in range(40):
            db.sql(f"CREATE MATERIALIZED VIEW w{i} AS SELECT a, b + {i} AS c FROM t WHERE b > {i}")
            with db.transaction() as tx:
                tx.insert("t", [(i, i)])
            if i > 3:
                db.sql(f"DROP MATERIALIZED VIEW w{i - 3}")
        closing = threading.Thread(target=db.close)
        tx = db.begin()
        tx.insert("t", [(100 + i, i) for i in range(1000)])
        closing.start()
        with contextlib.suppress(sqlview.SqlViewError):  # closed first
            assert db.apply([tx]) == [41]
        closing.join()
        with pytest.raises(sqlview.SqlViewError, match="closed"):
            db.state()
    finally:
        sys.setswitchinterval(interval)
        stop.set()
        for t in threads:
            t.join()
    assert not failures


class TestFailingSteps:
    """Whatever raises in the middle of a step: the session is where it was, and goes on."""

    def db(self) -> sqlview.Session:
        db = sqlview.connect(placement="inline")
        db.sql("CREATE TABLE t (a INT PRIMARY KEY, b INT)")
        db.sql("CREATE MATERIALIZED VIEW v AS SELECT b, count(*) AS n FROM t GROUP BY b")
        with db.transaction() as tx:
            tx.insert("t", [(1, 1), (2, 1)])
        return db

    def goes_on(self, db: sqlview.Session, heard: list[Any]) -> None:
        assert db.epoch == 1 and not heard
        assert db.view("v").rows() == [(1, 2)]
        with db.transaction() as tx:
            tx.upsert("t", [(2, 2), (3, 2)])
        assert db.epoch == 2 and len(heard) == 1
        assert sorted(db.view("v").rows()) == [(1, 1), (2, 2)]
        assert db.verify("v", engine="duckdb")

    @pytest.mark.parametrize("kind", [MemoryError, ValueError, SystemExit])
    def test_an_exception(self, kind: type[BaseException], monkeypatch: pytest.MonkeyPatch) -> None:
        with self.db() as db:
            heard: list[Any] = []
            db.subscribe("v", heard.append)
            with monkeypatch.context() as patch:
                patch.setattr(StoreOperator, "step", _raising(kind))
                with pytest.raises(kind), db.transaction() as tx:
                    tx.upsert("t", [(2, 2), (3, 2)])
            self.goes_on(db, heard)

    def test_an_interrupt_waits_for_the_end_of_an_operator(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        done: list[str] = []
        step = ReduceOperator.step
        before = signal.signal(signal.SIGINT, signal.default_int_handler)  # it may be ignored

        def interrupted(self: ReduceOperator, delta: Any) -> Any:
            signal.raise_signal(signal.SIGINT)
            found = step(self, delta)
            done.append("all of it")
            return found

        try:
            with self.db() as db:
                heard: list[Any] = []
                db.subscribe("v", heard.append)
                with monkeypatch.context() as patch:
                    patch.setattr(ReduceOperator, "step", interrupted)
                    with pytest.raises(KeyboardInterrupt), db.transaction() as tx:
                        tx.upsert("t", [(2, 2), (3, 2)])
                assert done == ["all of it"]
                self.goes_on(db, heard)
            assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        finally:
            signal.signal(signal.SIGINT, before)


def _raising(kind: type[BaseException]) -> Any:
    def step(*args: Any) -> None:
        raise kind("in the middle")

    return step
