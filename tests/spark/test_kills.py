"""A Spark with executors of its own: steps, loads and reads, undisturbed and not; and a task, an
executor and a driver that are killed while tasks write a store. `python -m tests.spark` kills
more."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import sqlview
from tests.spark.bombs import Bomb
from tests.spark.kills import POINTS, ROOT, Cluster, State, cells, flood_of, kills, orphans, rows_of

_SAMPLE = (
    ("load", "write", "driver"),
    ("hydration", "sort", "task"),
    ("flood", "exchange", "executor"),
)


@pytest.mark.cluster
@pytest.mark.slow
def test_on_executors(tmp_path: Path) -> None:
    """Steps give the same answer as inline: undisturbed; with a task lost between two exchanges;
    with an executor lost there, and the shuffle files that it served. Loads that lose either when
    it has written its files. A store that they read. Then a sample of the kills: a Spark with
    executors takes long to start."""
    cluster = Cluster(tmp_path)
    try:
        run = subprocess.run(
            [sys.executable, "-m", "tests.spark.cluster_steps", str(tmp_path)],
            cwd=ROOT,
            env=os.environ | cluster.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert run.returncode == 0, run.stdout + run.stderr[-5000:]
        assert run.stdout.splitlines()[-6:] == [
            "nothing killed: equal",
            "task killed: equal",
            "executor killed: equal",
            "task of a load killed: each row once",
            "executor of a load killed: each row once",
            "a store read: each row once",
        ]
        done = list(kills(tmp_path, 1, _SAMPLE, cluster))
    finally:
        cluster.end()
    assert [kill.wrong for kill in done] == [None] * len(done)
    assert [(k.operation, k.phase, k.victim) for k in done if k.died] == list(_SAMPLE)


def test_every_point_is_there(tmp_path: Path) -> None:
    """What is to be killed is a call of the package; without a counter it goes on as it was."""
    assert len(cells()) == 3 * (4 * 3 + 2)
    for target in {t for phases in POINTS.values() for some in phases.values() for t in some}:
        name, _, after = target.partition(" ")
        bomb = Bomb(str(tmp_path / "none"), name, bool(after), 1, "task", 0, 0)
        call = bomb.find()
        bomb.arm()
        try:
            assert bomb.find().unarmed is call
        finally:
            bomb.disarm()
        assert bomb.find() is call


def test_what_is_wrong_is_seen(tmp_path: Path) -> None:
    """Rows that are lost or doubled, and files that nobody needs."""
    rows = rows_of(1).sort_by("id")
    state, other = State(rows), State(rows.slice(1))
    assert state.equals(State(rows.slice(0))) and not state.equals(other)
    assert not state.equals(State(rows, frozenset({"v1"})))
    changed, gone = flood_of(2, rows)
    assert len(flood_of(1, rows)[1]) == 0
    assert 0 < len(gone) < len(changed) < len(rows)
    with sqlview.connect(tmp_path / "store") as db:
        db.sql("CREATE TABLE t (id BIGINT)")
        assert orphans(db) == set()
        (tmp_path / "store" / "rows-0123456789ab-1-1").write_bytes(b"")
        assert orphans(db) == {"rows-0123456789ab-1-1"}
    with sqlview.connect(tmp_path / "store") as db:
        assert orphans(db) == set()
