"""Steps whose tasks apply what sinks are to have, against steps that the driver runs. Tasks run
here, one after the other."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import sqlview
from operators.executor.spark import SparkExecutor, applied
from operators.executor.spark.builder import JobBuilder
from operators.executor.spark.job import ColumnsRef, Job
from operators.kernels.memory import BLOCK_ROWS
from planner.lower.distribution import reads_members
from tests.spark.in_process import InProcess, opened
from tests.spark.twins import TABLES, VIEWS, Twins, _rows, changes
from tests.store.test_hydration import MORE, _change, _fill, _same

MakeTwins = Callable[..., Twins]


class Counted(list[int]):
    """How many tasks each sink's changes were applied by; `members`: the kinds of those whose
    groups look their rows up; `between`: how often the jobs had a kind of node between what
    changed and sinks, `moves`: thresholds whose scalars changed, `values`: changes that no relation
    has the rows of; `times`: how often the rows were of several."""

    def __init__(self) -> None:
        super().__init__()
        self.times = 0
        self.members: set[str] = set()
        self.between: Counter[str] = Counter()
        self.moves: Counter[bool] = Counter()
        self.values: Counter[str] = Counter()


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counted:
    found = Counted()
    take = applied.take

    def counting(operator: Any, some: Any) -> Any:
        found.append(len(some))
        found.times += len({run.time for each in some for run in each.born}) > 1
        if reads_members(operator.node):
            found.members.add(type(operator.node).__name__)
        return take(operator, some)

    build = JobBuilder.build

    def built(builder: JobBuilder) -> Job:
        job = build(builder)
        leaves = {source.node for source in job.sources}
        above = (node for n, node in enumerate(job.nodes) if n not in leaves)
        found.between.update(type(node).__name__ for node in above)
        found.moves.update(each.shared for each in job.thresholds if each.moves is not None)
        told = (job.nodes[s.node] for s in job.sources if isinstance(s, ColumnsRef))
        found.values.update(type(node).__name__ for node in told)
        return job

    monkeypatch.setattr(applied, "take", counting)
    monkeypatch.setattr(JobBuilder, "build", built)
    return found


@pytest.fixture
def twins(tmp_path: Path) -> Iterator[MakeTwins]:
    made: list[Twins] = []

    def make(
        views: dict[str, str], tasks: int = 3, more: tuple[str, ...] = (), **limits: Any
    ) -> Twins:
        spark: Any = InProcess(lambda stage, task: None)
        limits = {
            "task_rows": 1,
            "small_index_rows": 0,
            "combine_rows": 0,
            "apply_rows": 0,
        } | limits
        executor = SparkExecutor(spark, str(tmp_path), tasks, **limits)
        made.append(Twins(executor, (*TABLES, *more), views))
        return made[-1]

    yield make
    for pair in made:
        assert pair.executor.failures == 0
        pair.close()
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(("seed", "apply_rows"), [(1, 0), (2, 6)])
def test_random_steps(twins: MakeTwins, counted: Counted, seed: int, apply_rows: int) -> None:
    """All kinds of views, steps of one epoch and of several, which tasks apply; where few changes
    of a sink meet in a task in one epoch the driver does, beside what others have."""
    pair, stream, changed = twins(VIEWS | MORE, apply_rows=apply_rows), changes(seed), 0
    for epochs in (1, 4, 1, 3):
        changed += pair.step([stream.transaction(25) for _ in range(epochs)])
    assert changed > 200
    assert len(counted) > 15
    assert counted.times > 10
    assert max(counted) > 1
    assert counted.members == {"Reduce", "Recompute"}
    assert min(counted.between[each] for each in ("Window", "TopK", "Threshold")) > 3
    assert set(counted.moves) == {True, False}


def test_few_changes_of_partitions(twins: MakeTwins, counted: Counted) -> None:
    """The driver runs windows and top-k of groups that few changes come to, once for all that
    reads them, and tasks go on with what it found, as values where no relation has these."""
    names = ("ranked", "running", "in_line", "first_of_each", "above", "above_own")
    views = {name: MORE[name] for name in names} | {"linear": VIEWS["linear"]}
    pair, stream = twins(views, combine_rows=1 << 20), changes(3)
    for _ in range(4):
        pair.step([stream.transaction(40)])
    assert counted.between["Window"] == counted.between["TopK"] == 0 < counted.between["Threshold"]
    assert counted.values["Window"] > 4


EVENTS = {
    "bag": "SELECT g, x + 1 AS y, t FROM e WHERE x <> 3",
    "sums": "SELECT g, count(*) AS n, sum(x) AS x, min(t) AS t, max(x) AS m FROM e GROUP BY g",
    "joined": "SELECT e.t, a.s, e.x FROM e JOIN a ON a.k = e.g WHERE a.x > 2 OR e.x > 5",
    "joined_twice": (
        "SELECT a.s, sum(b.y) AS y, count(*) AS n FROM (SELECT g + 1 AS g, x FROM e WHERE x > 1) e "
        "JOIN a ON a.k = e.g JOIN b ON b.a = a.k GROUP BY a.s"
    ),
    "fails": "SELECT g, 10 / (x - 4) AS q FROM e",
    "ranked_events": "SELECT g, row_number() OVER (PARTITION BY g ORDER BY x, t) AS r FROM e",
    "elements": "SELECT g, explode(array(x, t)) AS v FROM (SELECT g, x, 7L AS t FROM e)",
}


def test_events(twins: MakeTwins, counted: Counted) -> None:
    """Events reach sinks and joins as values, in steps of one epoch and of several."""
    pair, stream = (
        twins(EVENTS, more=("CREATE STREAM e (g BIGINT, x BIGINT, t STRING)",)),
        changes(4),
    )
    chance, changed = random.Random(4), 0
    for epochs in (1, 3, 1, 1):
        step = []
        for _ in range(epochs):
            texts = ["", "ü", None, "a text of more than fifteen bytes"]
            events = [
                (chance.randrange(30), chance.choice([None, *range(9)]), chance.choice(texts))
                for _ in range(20)
            ]
            step.append([*stream.transaction(12), ("insert", "e", events)])
        changed += pair.step(step)
    assert changed > 200
    assert counted.values["Stream"] > 8
    assert counted.between["DeltaJoin"] > 4


def test_rows_that_go(twins: MakeTwins, counted: Counted) -> None:
    """A bag that loses its first rows is the driver's, which has no index of them yet, and the
    tasks' from then on; groups and bags are emptied and come back."""
    pair = twins({"bag": VIEWS["everything"], "groups": VIEWS["linear"], "twice": VIEWS["twice"]})
    rows = [(k, k % 11, "uvw"[k % 3]) for k in range(40)]
    pairs = [(k, k % 13, None) for k in range(40)]
    for _ in range(2):
        pair.step([[("insert", "a", rows), ("insert", "b", pairs)]])
        pair.step([[("delete", "a", [{"k": k} for k in range(20)])]])
        pair.step([[("delete", "a", [{"k": k} for k in range(20, 40)])]])
        pair.step([[("delete", "b", [{"k": k} for k in range(40)])]])
    assert len(counted) > 16
    bag = pair.spark._catalog.view("bag")
    assert pair.spark._dataflow.relation(bag.root, bag.owner).live_rows == 0


@pytest.mark.parametrize("apply_rows", [0, 12])
def test_several_epochs(twins: MakeTwins, counted: Counted, apply_rows: int) -> None:
    """Rows come and go within a step: all first rows, those of a bag that loses some for the first
    time, which its driver applies, and then again."""
    names = ("everything", "linear", "twice", "three", "on_view", "extremes", "medians")
    pair = twins({n: (VIEWS | MORE)[n] for n in names}, apply_rows=apply_rows)
    stream, before = changes(8), 0
    rows = [(k, k % 11, "uvw"[k % 3]) for k in range(40)]
    pair.step([[("insert", "a", rows[at : at + 13])] for at in (0, 13, 26)])
    for _ in range(2):
        before = counted.times
        pair.step([stream.transaction(40) for _ in range(5)])
    assert counted.times - before >= 5


def test_a_step_that_is_taken_back(twins: MakeTwins, monkeypatch: pytest.MonkeyPatch) -> None:
    """What tasks applied is gone if the step ends in an error, and comes with the next one."""
    views = {n: VIEWS[n] for n in ("three", "everything", "on_view")}
    pair, stream = twins(views), changes(5)
    for _ in range(2):
        pair.step([stream.transaction(40)])
    step, failed = stream.transaction(40), 0
    while True:
        tx = pair.spark.begin()
        for action, table, rows in step:
            getattr(tx, action)(table, rows)
        try:
            with monkeypatch.context() as patch:
                patch.setattr(applied, "take", _failing(applied.take, failed + 1))
                pair.spark.apply([tx])
        except KeyError:
            failed += 1
        else:
            break
    assert failed
    tx = pair.inline.begin()
    for action, table, rows in step:
        getattr(tx, action)(table, rows)
    pair.inline.apply([tx])
    assert all(_rows(pair.spark, v) == _rows(pair.inline, v) for v in views)
    pair.step([stream.transaction(40)])


def _failing(take: Any, after: int) -> Any:
    taken = 0

    def failing(*how: Any) -> Any:
        nonlocal taken
        found, taken = take(*how), taken + 1
        if taken == after:
            raise KeyError("here")
        return found

    return failing


def test_many_rows_of_a_task(twins: MakeTwins, counted: Counted) -> None:
    """More than a block has, in files with and without NULLs; they are changed by the next step."""
    pair = twins({"copies": "SELECT k, s FROM a WHERE x > 0"}, tasks=2)
    n = 2 * BLOCK_ROWS + 5000
    rows = [(k, 1 + k % 5, None if k < 40_000 else "x") for k in range(n)]
    pair.step([[("insert", "a", rows)]])
    assert counted == [2]
    pair.step([[("upsert", "a", [(k, 7, "y") for k in range(0, n, 1000)])]])
    pair.step([[("delete", "a", [{"k": k} for k in range(0, n, 999)])]])


def test_in_a_store(tmp_path: Path, counted: Counted) -> None:
    """What tasks applied is in the next checkpoint, and what is there is the same when the store is
    opened again, from the log and from that."""
    path, views, names = (
        tmp_path / "store",
        VIEWS | MORE,
        ["three", "everything", "on_view", "twice", "texts", "spread", "deep", "least", "medians"],
    )
    limits = {"apply_rows": 0, "combine_rows": 0, "task_rows": 1}
    with opened(path, step_limits=limits) as db, sqlview.connect() as other:
        for each in (db, other):
            _fill(each)
            for name in names:
                each.sql(f"CREATE MATERIALIZED VIEW {name} AS {views[name]}")
        before = len(counted)
        for seed in (1, 2, 3):
            for each in (db, other):
                _change(each, seed)
            _same(db, other, names)
            if seed == 2:
                db.checkpoint()
        assert len(counted) - before > 20
        db._save_last = lambda store: None  # type: ignore[method-assign]
        db.close()
        for seed in (4, 5):
            with sqlview.connect(path) as again:
                _same(again, other, names)
                for each in (again, other):
                    _change(each, seed)
                _same(again, other, names)
