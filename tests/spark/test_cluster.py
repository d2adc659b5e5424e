"""Steps on real executors, with a task and an executor killed in the middle."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.cluster
@pytest.mark.slow
def test_local_cluster(tmp_path: Path) -> None:
    """The same answer as inline: undisturbed; with a task lost between two exchanges; with an
    executor lost there, and the shuffle files that it served. Loads that lose either when it has
    written its files. A store that they read."""
    run = subprocess.run(
        [sys.executable, "-m", "tests.spark.cluster_steps", str(tmp_path)],
        cwd=ROOT,
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
