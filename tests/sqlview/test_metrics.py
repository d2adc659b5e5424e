"""What a session remembers of its steps."""

from __future__ import annotations

import pytest

import sqlview
import sqlview.writer


def test_the_latest_steps_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlview.writer, "STEPS_KEPT", 2)
    with sqlview.connect(placement="inline") as db:
        db.sql("CREATE TABLE t (a INT)")
        assert db.last_step is None
        for rows in (1, 2, 3):
            with db.transaction() as tx:
                tx.insert("t", [(i,) for i in range(rows)])
        steps = db.metrics().steps
        assert [step.rows_in for step in steps] == [2, 3]
        assert db.last_step == steps[-1]
