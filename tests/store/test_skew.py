"""Heavy keys and skewed partitions: how many rows each task takes, by count, and that the answers
are the same. Tasks run here, one after the other."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from statistics import median
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sqlview
from operators.executor.spark import SparkExecutor, deal, indexes
from operators.kernels import sorting
from operators.kernels.memory import BLOCK_BITS
from operators.state import bulk
from operators.state.hashing import Hashing
from sqlview import DataError, Session
from tests.spark.in_process import InProcess, opened
from tests.spark.twins import TABLES, VIEWS, Twins, changes
from tests.store.test_hydration import MORE, _change, _fill, _same
from tests.store.test_index_builds import _entries

ROWS, TASKS = 16_000, 8
#: Views of joins and groups, and of windows.
_SOME = ["three", "running"]
#: Each key of `heavy` is in a fact of its own or, half of all, in the heavy one.
VIEW = (
    "SELECT heavy.k, names.g, count(*) AS n, sum(heavy.x) AS x, min(heavy.x) AS least "
    "FROM heavy JOIN names ON heavy.k = names.k GROUP BY heavy.k, names.g"
)


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[tuple[tuple[int, ...], ...]]:
    """Of each job, by stage, how many rows each task took."""
    found: list[tuple[tuple[int, ...], ...]] = []
    outcome = SparkExecutor._outcome

    def seen(self: Any, *job: Any) -> Any:
        made = outcome(self, *job)
        found.append(made.taken)
        return made

    monkeypatch.setattr(SparkExecutor, "_outcome", seen)
    monkeypatch.setattr(deal, "LEAST_ROWS", 200)
    return found


def _heavy(seed: int, rows: int, first: int = 0) -> pa.Table:
    """Half of the rows have one key; those are behind the others where `seed` is odd."""
    rng = np.random.default_rng(seed)
    keys = np.where(np.arange(rows) % 2 == 0, 7, rng.integers(0, rows // 4, rows))
    if seed % 2:
        keys = keys[np.argsort(keys == 7, kind="stable")]
    return pa.table(
        {"id": np.arange(first, first + rows), "k": keys, "x": rng.integers(0, 99, rows)}
    )


def _tables(db: Session, *keys: str) -> None:
    db.sql("CREATE TABLE heavy (id BIGINT, k BIGINT, x BIGINT)")
    db.sql("CREATE TABLE names (k BIGINT, g BIGINT)")
    with db.transaction() as tx:
        tx.insert("names", pa.table({"k": np.arange(ROWS), "g": np.arange(ROWS) % 5}))


def _load(db: Session, rows: pa.Table) -> None:
    """In parts, as a load is."""
    txs = []
    for part in (rows.slice(0, 100), rows.slice(100)):
        txs.append(db.begin())
        txs[-1].insert("heavy", part)
    db.apply(txs)


def _is_even(stages: tuple[tuple[int, ...], ...]) -> None:
    for rows in stages:
        assert len(rows) == TASKS and max(rows) <= 2 * median(rows), stages


def test_a_heavy_key(tmp_path: Path, taken: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of the rows of a flood, and of a table under a new view, have one key: no task takes
    more than twice what others take, in the lookup of a join or where groups are added up."""
    seed = 1
    limits = {"task_rows": 1, "small_index_rows": 0, "combine_rows": 0, "apply_rows": 0}
    with (
        opened(tmp_path, step_limits=limits, tasks=TASKS) as db,
        sqlview.connect() as other,
    ):
        for each in (db, other):
            _tables(each)
            each.sql(f"CREATE MATERIALIZED VIEW flooded AS {VIEW}")
            with each.transaction() as tx:
                tx.insert("heavy", _heavy(seed, ROWS))
        flood = max(taken, key=lambda stages: sum(stages[0]))
        assert len(flood) == 3 and sum(flood[0]) == sum(flood[1]) == ROWS
        _is_even(flood)
        executor: Any = db._inline
        assert sum(sum(job.heavy_rows) for job in executor.jobs) >= ROWS // 3
        side = SimpleNamespace(costs=None, heavy_exchanges=executor.heavy_exchanges)
        with monkeypatch.context() as patch:
            patch.setattr(db, "_spark_side", side)
            assert db.metrics().heavy_exchanges == executor.heavy_exchanges > 0
        taken.clear()
        for each in (db, other):
            each.sql(f"CREATE MATERIALIZED VIEW hydrated AS {VIEW.replace('count(*)', 'count(x)')}")
        assert taken
        for hydrated in taken:
            _is_even(hydrated[1:])  # first of all they read blocks, which are few here
        for each in (db, other):
            with each.transaction() as tx:
                tx.insert("heavy", _heavy(seed + 1, 2_000, ROWS))
                tx.delete("heavy", _heavy(seed, ROWS).slice(0, 1_000))
        _same(db, other, ["flooded", "hydrated"])


@pytest.mark.parametrize("unique", [False, True])
def test_an_index_on_a_heavy_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unique: bool
) -> None:
    """Half of the entries of an index have one key, or one leading column of a primary key, whose
    rows each task has some of; a key that is there twice is found."""
    monkeypatch.setattr(bulk, "BULK_ROWS", 1000)
    monkeypatch.setattr("operators.loading.MANY_ROWS", 1)
    sorted_rows: list[int] = []
    sort = indexes._Task.sort

    def counted(self: Any, target: int, payloads: list[bytes]) -> Any:
        told = sort(self, target, payloads)
        sorted_rows.append(told["length"][0].as_py())
        return told

    said = []
    table = _heavy(2, 2 * (1 << BLOCK_BITS)).take(
        np.random.default_rng(4).permutation(2 * (1 << BLOCK_BITS))
    )
    for by_tasks in (True, False):
        with opened(tmp_path / str(by_tasks), tasks=TASKS) as db:
            if not by_tasks:
                db._dataflow.shared.build = None
            db._dataflow.hashing = Hashing((7, 8, -1, -1, 15, 2))
            key = ", PRIMARY KEY (k, id)" if unique else ""
            db.sql(f"CREATE TABLE heavy (id BIGINT, k BIGINT, x BIGINT{key})")
            db.sql("CREATE TABLE names (k BIGINT, g BIGINT)")
            with monkeypatch.context() as patch:
                if by_tasks and unique:
                    patch.setattr(indexes._Task, "sort", counted)
                _load(db, table)
            with monkeypatch.context() as patch:
                if by_tasks and not unique:
                    patch.setattr(indexes._Task, "sort", counted)
                db.sql("CREATE MATERIALIZED VIEW v AS SELECT id, g FROM heavy JOIN names USING (k)")
            with db.transaction() as tx:
                tx.insert("names", [(7, 1), (8, 2), (None, 3)])
            with db.transaction() as tx:
                tx.delete("heavy", table.select(["id", "k", "x"]).slice(0, 50) if not unique else
                          table.select(["k", "id"]).slice(0, 50))  # fmt: skip
            assert db.verify("v", engine="duckdb").equal
            if unique:
                again = pa.concat_tables([_heavy(2, 70_000, 1 << 30), table.slice(60, 1)])
                with pytest.raises(DataError, match="the key is there already") as refused:
                    _load(db, again)
                assert str(refused.value.detail).startswith("Row 69900 of the data has ")
            said.append(_entries(db))
    assert len(sorted_rows) == TASKS and max(sorted_rows) <= 2 * median(sorted_rows)
    assert said[0] == said[1]


def test_more_tasks_than_buckets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Seventy tasks have parts of buckets: first rows of views, also those of partitions."""
    monkeypatch.setattr(deal, "_ROWS_A_TASK", 1)
    most: list[int] = []
    with (
        opened(tmp_path, lambda stage, task: most.append(task), tasks=70) as db,
        sqlview.connect() as other,
    ):
        names = _SOME
        for each in (db, other):
            _fill(each)
            for name in names:
                each.sql(f"CREATE MATERIALIZED VIEW {name} AS {(VIEWS | MORE)[name]}")
        assert max(most) == 69
        _same(db, other, names)
        for each in (db, other):
            _change(each, 1)
        _same(db, other, names)


def test_steps_of_more_tasks_than_buckets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deal, "_ROWS_A_TASK", 1)
    spark: Any = InProcess(lambda stage, task: None)
    limits = {"task_rows": 1, "small_index_rows": 0, "combine_rows": 0, "apply_rows": 0}
    views = {name: (VIEWS | MORE)[name] for name in _SOME}
    pair = Twins(SparkExecutor(spark, str(tmp_path), 70, **limits), TABLES, views)
    stream, changed = changes(3), 0
    for _ in range(2):
        changed += pair.step([stream.transaction(80)])
    assert changed > 5 and pair.executor.failures == 0
    pair.close()


def test_slices_are_of_buckets() -> None:
    """A bucket is 1,024 slices, and tasks have what follows on each other of them."""
    words = np.random.default_rng(1).integers(-(2**63), 2**63, 5_000, np.int64)
    slices, buckets = deal.slices_of(words), np.empty(5_000, np.int64)
    sorting.buckets_of(words, buckets)
    assert (slices >> 10 == buckets).all()
    for tasks in (1, 3, 63, 64, 65, 1000):
        starts = deal.slices_from(tasks)
        assert (len(starts), starts[0], starts[-1]) == (tasks + 1, 0, sorting.SLICES)
        targets = deal.targets_of(slices, tasks)
        assert (np.searchsorted(starts, slices, "right") - 1 == targets).all()
        assert tasks > 64 or all(start % 1024 == 0 for start in starts)


def test_blocks_of_few_rows() -> None:
    """What a task is to read are rows, however they lie in blocks."""

    class Blocks:
        def stored_rows(self, block: int) -> int:
            return 65_536 if block < 14 else 100

    blocks: Any = Blocks()
    for tasks in (1, 2, 3, 4, 200):
        starts = deal.even_starts(blocks, range(10, 80), tasks)
        rows = [sum(map(blocks.stored_rows, range(*pair))) for pair in pairwise(starts)]
        assert sum(rows) == 4 * 65_536 + 66 * 100
        assert (starts[0], starts[-1], len(starts)) == (10, 80, tasks + 1)
        if tasks <= 4:
            assert max(rows) <= sum(rows) / tasks + 65_536
            assert min(rows) > 0
    assert deal.even_starts(blocks, range(0), 3) == (0, 0, 0, 0)
