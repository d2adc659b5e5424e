"""Steps on Spark against the same steps inline: same rows, same times, same errors."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from operators.executor.spark import SparkExecutor
from tests.spark.twins import TABLES, VIEWS, Twins, changes, die_once

pytestmark = pytest.mark.spark

MakeTwins = Callable[..., Twins]


@pytest.fixture
def twins(spark: Any, tmp_path: Path) -> Iterator[MakeTwins]:
    """Twins whose executor cuts as much as it can, unless told otherwise."""
    made: list[Twins] = []

    def make(views: dict[str, str] = VIEWS, tasks: int = 3, **limits: Any) -> Twins:
        limits = {
            "task_rows": 1,
            "small_index_rows": 0,
            "combine_rows": 0,
            "apply_rows": 0,
        } | limits
        executor = SparkExecutor(spark, str(tmp_path), tasks, **limits)
        made.append(Twins(executor, TABLES, views))
        return made[-1]

    yield make
    for t in made:
        t.close()
        assert os.listdir(tmp_path) == [], "files are left"


def test_random_steps(twins: MakeTwins) -> None:
    """Every kind of view, with exchanges everywhere: joins change on all sides, in many epochs."""
    pair = twins()
    stream = changes(7)
    changed = jobs = 0
    for epochs in (1, 20, 3):
        changed += pair.step([stream.transaction(8) for _ in range(epochs)])
        jobs += len(pair.executor.jobs)
        assert pair.executor.jobs[0].stages == 4, "two half joins, then sums"
    assert pair.executor.failures == 0
    assert changed > 300
    assert 0 < len(pair.executor._frames._made) <= jobs // 3, "jobs of a shape share DataFrames"


@pytest.mark.parametrize(
    ("limits", "stages"),
    [
        ({"small_index_rows": 1000}, 2),
        ({"small_index_rows": 1000, "combine_rows": 1000}, 1),
        ({"combine_rows": 1000}, 3),
        ({"tasks": 1}, 1),
    ],
    ids=["no exchange", "one stage", "driver adds up", "one task"],
)
def test_shapes_of_jobs(twins: MakeTwins, limits: dict[str, int], stages: int) -> None:
    """The same answer however a layer is cut."""
    pair = twins({n: VIEWS[n] for n in ("three", "twice", "fragile")}, **limits)
    stream = changes(11)
    for epochs in (4, 2):
        assert pair.step([stream.transaction(10) for _ in range(epochs)]) > 0
        assert pair.executor.jobs[0].stages == stages
    assert pair.executor.failures == 0


def test_small_layers_run_in_the_driver(twins: MakeTwins) -> None:
    """Those behind the first, which is a job because somebody said so."""
    pair = twins(driver_rows=1000)
    stream = changes(13)
    for changed in (40, 3):
        pair.step([stream.transaction(changed)])
        assert len(pair.executor.jobs) == 1


def test_large_results_come_in_files(twins: MakeTwins, monkeypatch: pytest.MonkeyPatch) -> None:
    """A task's results beyond a megabyte; blobs are cut at 8 MB."""
    pair = twins({"texts": "SELECT k, s FROM a WHERE x = 1"}, tasks=2, apply_rows=1000)
    pair.step([[("insert", "a", [(k, 1, f"{k:06}" * 60_000) for k in range(30)])]])
    assert pair.executor.jobs[0].result_bytes > 10_000_000
    assert pair.executor.failures == 0


@pytest.mark.parametrize(("stage", "epochs"), [(1, 3), (3, 1)])
def test_killed_task_is_tried_again(
    twins: MakeTwins, tmp_path_factory: Any, stage: int, epochs: int
) -> None:
    """A task dies between the two exchanges of the three-way join, or when it has written what it
    applied: Spark runs it again."""
    died = tmp_path_factory.mktemp("flags") / "died"
    pair = twins({"three": VIEWS["three"]}, probe=die_once(str(died), "task", stage))
    stream = changes(29)
    assert pair.step([stream.transaction(90 // epochs) for _ in range(epochs)]) > 0
    assert died.exists()
    assert pair.executor.failures == 0


def test_failed_job_runs_inline(twins: MakeTwins, caplog: pytest.LogCaptureFixture) -> None:
    """A job that fails for good changes nothing; the driver does its work, counting errors once."""

    def fail(stage: int, task: int) -> None:
        if stage == 1:
            raise RuntimeError("this task always fails")

    views = {n: VIEWS[n] for n in ("three", "fragile", "on_view")}
    pair = twins(views, probe=fail, combine_rows=1000)
    pair.step([changes(17).transaction(20) for _ in range(5)])
    assert "goes on in the driver" in caplog.text
    assert pair.executor.failures == 1


def test_a_later_job_fails(twins: MakeTwins) -> None:
    """The first layer's job is applied, the second fails: it alone is run again, inline. `mixed`
    takes a map's rows that another layer has counted errors of."""
    views = {
        "groups": "SELECT s, COUNT(*) AS n FROM a GROUP BY s",
        "fragile": "SELECT 10 / (x - 4) AS q FROM a",
        "mixed": "SELECT 10 / (x - 4) AS q FROM a UNION ALL SELECT n FROM groups",
    }
    jobs: list[int] = []

    class Failing(SparkExecutor):
        def _outcome(self, run: Any, job: Any, builder: Any) -> Any:
            jobs.append(job.stages)
            if len(jobs) == 2:
                raise OSError("no job")
            return super()._outcome(run, job, builder)

    pair = twins(views)
    executor = pair.executor
    failing = Failing(
        executor._spark, executor._publisher.directory, 3, task_rows=1, small_index_rows=0
    )
    pair.spark._inline = failing  # type: ignore[assignment]
    stream = changes(19)
    pair.step([stream.transaction(10) for _ in range(4)])
    assert (len(jobs), failing.failures) == (2, 1)
    pair.step([stream.transaction(10) for _ in range(4)])
    assert failing.failures == 1
    failing.close()


def test_published_state_follows_merges(twins: MakeTwins) -> None:
    """Files of batches that were merged away are deleted while the session goes on."""
    pair = twins({"pairs": VIEWS["pairs"]}, tasks=2, apply_rows=1000)
    stream = changes(23)
    directory = pair.executor._publisher.directory
    counts = []
    for _ in range(8):
        pair.step([stream.transaction(12)])
        counts.append(len(os.listdir(directory)))
    assert max(counts) < 12, counts
    # The users' functions of other tests may be known to this process.
    kept = ("small", "large", "rows", "functions")
    assert not [f for f in os.listdir(directory) if not f.startswith(kept)]
