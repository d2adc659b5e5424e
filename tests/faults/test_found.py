"""What faults at every call have found, one by one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sqlview
from operators.scalar import Compiled
from planner.calculus import types as t
from tests.store.life import changing


class _Once:
    """In place of a function: raises the first time."""

    def __init__(self, call: Any, error: BaseException) -> None:
        self._call, self._error = call, error
        self.raised = False

    def __call__(self, *args: Any) -> Any:
        if not self.raised:
            self.raised = True
            raise self._error
        return self._call(*args)


@pytest.fixture
def db() -> Iterator[sqlview.Session]:
    with sqlview.connect(placement="inline") as db:
        db.sql("CREATE TABLE t (a INT)")
        db.sql("CREATE MATERIALIZED VIEW v AS SELECT a FROM t")
        changing(("insert", "t", [(1,)]))(db)
        assert db.view("v").rows() == [(1,)]
        yield db


_TWO = changing(("insert", "t", [(2,)]))
_THREE = changing(("insert", "t", [(3,)]))


def test_what_a_step_left_unpublished_is_published_by_who_reads(db: sqlview.Session) -> None:
    db._writer.ended = (_Once(lambda: None, MemoryError()),)
    _TWO(db)
    assert sorted(db.view("v").rows()) == [(1,), (2,)]


def test_a_commit_that_failed_before_it_began_is_not_done_with_the_next(
    db: sqlview.Session,
) -> None:
    lead = db._commits._lead
    db._commits._lead = _Once(lead, MemoryError())  # type: ignore[method-assign]
    with pytest.raises(MemoryError):
        _TWO(db)
    _THREE(db)
    assert sorted(db.view("v").rows()) == [(1,), (3,)]


def test_a_transaction_that_cannot_be_told_is_committed(db: sqlview.Session) -> None:
    tx = db.begin()
    tx.insert("t", [(2,)])
    tx._settle = _Once(tx._settle, MemoryError())  # type: ignore[method-assign]
    db.apply([tx])
    assert sorted(db.view("v").rows()) == [(1,), (2,)]


def test_nobody_hears_of_a_step_that_is_still_to_be_taken_back(db: sqlview.Session) -> None:
    heard: list[pa.Table] = []
    db.subscribe("v", heard.append)
    subscriptions, restore = db._subscriptions, db._subscriptions.restore
    subscriptions.restore = _Once(restore, MemoryError())  # type: ignore[method-assign]

    @contextmanager
    def keep(*changes: object) -> Iterator[Any]:
        yield _Once(lambda: None, OSError())

    db._writer.keep, before = keep, db._writer.keep
    with pytest.raises(MemoryError):
        _TWO(db)
    db._writer.keep = before
    _THREE(db)
    assert [row["a"] for table in heard for row in table.to_pylist()] == [3]


def test_what_is_not_raised_again_is_not_the_error_of_a_row() -> None:
    values = np.array([5], np.int32)
    run = _Once(lambda columns, n: (values, None, None), RuntimeError())
    column, errors = Compiled(t.IntegerType(32), False, run).evaluate(lambda i: None, 1)  # type: ignore[arg-type,return-value]
    assert errors is None
    assert column.values.tolist() == [5]


def test_a_log_that_could_not_be_cut_off_for_want_of_memory_is_cut_off_later(
    tmp_path: Path,
) -> None:
    with sqlview.connect(tmp_path / "s") as db:
        db.sql("CREATE TABLE t (a INT)")
        assert db._store is not None
        log = db._store._log
        assert log is not None
        log._appended = _Once(log._appended, MemoryError())  # type: ignore[method-assign]
        log._cut = _Once(log._cut, MemoryError())  # type: ignore[method-assign]
        with pytest.raises(MemoryError):
            _TWO(db)
        _THREE(db)
    with sqlview.connect(tmp_path / "s") as db:
        assert db._read("t")["a"].to_pylist() == [3]
