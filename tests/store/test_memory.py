"""Memory limits: larger state lies in files, and what takes too much fails as a whole."""

from __future__ import annotations

import gc
import os
import weakref
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import sqlview
from operators import budget, slabs
from operators.budget import Budget
from operators.state import relation, values
from planner.errors import DataError, MemoryLimitError
from sqlview import arguments, memory, transaction
from sqlview.progress import Bar
from tests.store.life import LIFE, state_of, states

MIB = 1 << 20
SUMS = "SELECT g, count(*) AS n, sum(v) AS v FROM t GROUP BY g"
JOIN = "SELECT a.k FROM t a JOIN t b ON a.k = b.v AND b.g = 7"


def _used() -> int:
    return budget.anonymous_bytes()


def _rows(first: int, n: int) -> pa.Table:
    keys = np.arange(first, first + n)
    return pa.table(
        {"k": keys, "g": keys % 1000, "v": keys * 3, "s": pa.array(map(str, keys.tolist()))}
    )


def test_state_beyond_the_limit_is_in_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Far more rows and index entries than the limit leaves room for."""
    monkeypatch.setattr(slabs, "ROWS", slabs.Slabs())
    monkeypatch.setattr(relation, "ROWS", slabs.ROWS)
    monkeypatch.setattr(arguments, "LEAST_MEMORY", 0)
    limit = _used() + 120 * MIB
    step, steps = 100_000, 40
    with sqlview.connect(tmp_path / "s", durability="close", memory_limit=limit) as db:
        db.sql("CREATE TABLE t (k BIGINT PRIMARY KEY, g BIGINT, v BIGINT, s STRING)")
        db.sql(f"CREATE MATERIALIZED VIEW v AS {SUMS}")
        db.sql(f"CREATE MATERIALIZED VIEW j AS {JOIN}")
        most = 0
        for i in range(steps):
            with db.transaction() as tx:
                tx.insert("t", _rows(i * step, step))
            most = max(most, _used())
        metrics = db.metrics()
        assert metrics.table_bytes + metrics.state_bytes > 180 * MIB
        assert most < limit
        with db.transaction() as tx:
            tx.delete("t", _rows(0, step).select(["k"]))
        groups = db.view("v").to_arrow()
        assert sum(groups["n"].to_pylist()) == (steps - 1) * step
        assert not [name for name in os.listdir(tmp_path / "s") if name.startswith("spill")]
    with sqlview.connect(tmp_path / "s", read_only=True) as db:
        assert db.view("v").to_arrow().sort_by("g") == groups.sort_by("g")
        assert sum(groups["v"].to_pylist()) == sum(3 * k for k in range(step, steps * step))


def test_first_rows_beyond_the_limit_are_in_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A view of as many groups as there are rows."""
    monkeypatch.setattr(arguments, "LEAST_MEMORY", 0)
    table = "CREATE TABLE t (k BIGINT PRIMARY KEY, g BIGINT, v BIGINT, s STRING)"
    view = "CREATE MATERIALIZED VIEW v AS SELECT k, sum(v) AS s, avg(g) AS g FROM t GROUP BY k"
    with sqlview.connect() as db:  # kernels are loaded
        db.create_table("t", _rows(0, 300_000), key="k")
        db.sql(view)
    limit, n = _used() + 200 * MIB, 900_000
    with sqlview.connect(tmp_path / "s", durability="close", memory_limit=limit) as db:
        db.sql(table)
        for first in range(0, n, 100_000):
            with db.transaction() as tx:
                tx.insert("t", _rows(first, 100_000))
        most = _used()

        def read(rows: int) -> None:
            nonlocal most
            most = max(most, _used())

        monkeypatch.setattr(db._progress, "task", lambda *a, **k: nullcontext(Bar(read)))
        db.sql(view)
        most = max(most, _used())
        assert db.metrics().state_bytes > 30 * MIB
        assert most < limit
        groups = db.view("v").to_arrow()
        assert groups.num_rows == n
        assert pc.sum(groups["s"]).as_py() == 3 * n * (n - 1) // 2


def test_a_step_that_needs_too_much_fails_as_a_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit = _used() + 200 * MIB
    with sqlview.connect(tmp_path / "s", memory_limit=limit) as db:
        db.sql("CREATE TABLE t (k BIGINT PRIMARY KEY, g BIGINT, v BIGINT, s STRING)")
        db.sql(f"CREATE MATERIALIZED VIEW v AS {SUMS}")
        with db.transaction() as tx:
            tx.insert("t", _rows(0, 1000))
        before = state_of(db)
        monkeypatch.setattr(Budget, "check", _over)
        with pytest.raises(MemoryLimitError) as raised, db.transaction() as tx:
            tx.insert("t", _rows(1000, 1000))
        assert "the step needs more memory than memory_limit" in str(raised.value)
        assert f"of {limit:,}" in str(raised.value) and "Commit less" in str(raised.value)
        with pytest.raises(MemoryLimitError, match='CREATE of "w" needs more memory'):
            db.sql("CREATE MATERIALIZED VIEW w AS SELECT max(v) AS v FROM t")
        monkeypatch.undo()
        assert state_of(db) == before
        with db.transaction() as tx:
            tx.insert("t", _rows(1000, 1000))
        assert db.verify("v").equal


def _over(self: Budget) -> None:
    raise budget.OverBudgetError("of a test")


@pytest.mark.parametrize("much", [0.0, 0.4])
def test_a_life_whose_state_is_all_in_files(
    much: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before each step, or each that takes much, all is written, and read from its files."""
    monkeypatch.setattr(memory, "_MUCH", much)
    monkeypatch.setattr(memory, "_MORE", -1.0)
    monkeypatch.setattr(budget, "_SPILL", 0.0)
    monkeypatch.setattr(relation, "BULK_ROWS", 3)
    monkeypatch.setattr(values, "_OWN_FILE", 0)
    expected, limit = states(), _used() + 512 * MIB
    db = sqlview.connect(tmp_path / "s", memory_limit=limit)
    for operation, state in zip(LIFE, expected[1:], strict=True):
        if isinstance(operation, str):
            db.close()
            db = sqlview.connect(tmp_path / "s", memory_limit=limit)
        else:
            operation(db)
        assert state_of(db) == state
    db.close()


def test_large_arrays_are_in_files_where_memory_is_short(tmp_path: Path) -> None:
    small, large = 1 << 16, 8 * MIB
    taken = Budget(1 << 50, str(tmp_path))
    budget.enter(taken)
    try:
        assert budget.room(large) is None  # there is enough
        taken.limit = 1
        made = slabs.Slabs()
        arrays = [made.empty((n // 8,), np.int64) for n in (small, large, 100)]
        assert [slabs.is_slab(slabs.owner_of(a)) for a in arrays] == [True, True, False]
        for array in arrays:
            array[:] = 7
        assert os.listdir(tmp_path) == []  # without a name
        with pytest.raises(budget.OverBudgetError, match="bytes are in use, of 1"):
            budget.check()
    finally:
        budget.leave(taken)
    assert budget.room(large) is None
    budget.check()
    gone = Budget(1, str(tmp_path / "gone"))
    budget.enter(gone)
    try:
        with pytest.raises(MemoryError, match="no room for"):
            slabs.Slabs().empty((large,), np.uint8)
    finally:
        budget.leave(gone)


def test_a_limit_that_makes_no_sense_is_refused(tmp_path: Path) -> None:
    for wrong in ("4 apples", "", "-1GiB", 1000, "1KB", 0):
        with pytest.raises(ValueError, match="memory_limit is"):
            sqlview.connect(tmp_path / "s", memory_limit=wrong)
    for wrong in (True, 1.5, [1]):
        with pytest.raises(TypeError, match="memory_limit is"):
            sqlview.connect(tmp_path / "s", memory_limit=wrong)  # type: ignore[arg-type]
    for given in ({}, {"path": tmp_path / "s", "read_only": True}):
        with pytest.raises(ValueError, match="give its path"):
            sqlview.connect(**given, memory_limit="4GiB")  # type: ignore[arg-type]
    assert not (tmp_path / "s").exists()
    sqlview.connect(tmp_path / "s", memory_limit="1.5 GB").close()


def test_a_limit_that_is_too_small_to_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "anonymous_bytes", lambda: 3 << 30)
    with pytest.raises(MemoryLimitError, match="too small to open the store"):
        sqlview.connect(tmp_path / "s", memory_limit="2GiB")
    monkeypatch.undo()
    assert not budget._BUDGETS
    sqlview.connect(tmp_path / "s", memory_limit="4GiB").close()
    assert not budget._BUDGETS


@pytest.mark.parametrize("stored", [False, True], ids=["memory", "store"])
def test_a_closed_session_lets_its_state_go(tmp_path: Path, stored: bool) -> None:
    """At once: rows are arrays, of which the collector of cycles knows no size."""
    gc.disable()
    try:
        db = sqlview.connect(tmp_path / "s") if stored else sqlview.connect()
        kept: list[weakref.ref[Any]] = []
        for operation in LIFE:
            if not isinstance(operation, str):
                operation(db)
                kept += [weakref.ref(rows) for _, rows in db._dataflow.relations()]
                kept += [weakref.ref(index.state) for index in db._dataflow.indexes]
        assert len({id(state()) for state in kept}) > 20
        db.close()
        assert {state() for state in kept} == {None}
    finally:
        gc.enable()


def test_a_load_beyond_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts of a load go into files as they come: the driver never has more than some of them."""
    monkeypatch.setattr(arguments, "LEAST_MEMORY", 0)
    monkeypatch.setattr(transaction, "PART_ROWS", 1 << 17)
    pieces, rows = 40, 1 << 17
    read: list[int] = []

    def coming() -> Iterator[pa.RecordBatch]:
        for i in range(pieces):
            read.append(_used())
            yield from _wide(i * rows, rows).to_batches()

    limit = _used() + 260 * MIB
    path = tmp_path / "s"
    with sqlview.connect(path, durability="close", memory_limit=limit) as db:
        db.sql("CREATE TABLE t (k BIGINT PRIMARY KEY, s STRING)")
        with db.transaction() as tx:
            tx.insert("t", coming())
        assert db.metrics().table_bytes > 270 * MIB
        assert max(read) < read[0] + 120 * MIB
        assert _used() < read[0] + 120 * MIB
        db.sql("CREATE MATERIALIZED VIEW v AS SELECT count(*) AS n, sum(k) AS k FROM t")
        n = pieces * rows
        assert list(db.view("v")) == [(n, n * (n - 1) // 2)]
        with pytest.raises(DataError, match="the key is there already"), db.transaction() as tx:
            tx.insert("t", [(n // 2, "again")])
    with sqlview.connect(path) as db:
        assert list(db.view("v")) == [(n, n * (n - 1) // 2)]


def _wide(first: int, n: int) -> pa.Table:
    keys = np.arange(first, first + n)
    text = pa.array(["a text of some length, the same for all rows of it"]).take(np.zeros(n, int))
    return pa.table({"k": keys, "s": text})
