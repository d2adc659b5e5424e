"""What a session remembers of its steps."""

from __future__ import annotations

import pyarrow as pa
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


def test_what_is_kept_is_a_part_of_what_the_process_takes() -> None:
    with sqlview.connect(placement="inline") as db:
        db.sql("CREATE TABLE t (a BIGINT, b BIGINT)")
        with db.transaction() as tx:
            tx.insert("t", pa.table({"a": range(1_000_000), "b": range(1_000_000)}))
        db.sql("CREATE MATERIALIZED VIEW v AS SELECT b, count(*) AS n FROM t GROUP BY b")
        found = db.metrics()
    kept = found.state_bytes + found.table_bytes
    assert kept > 30_000_000
    assert found.process_bytes > found.spare_bytes + kept
