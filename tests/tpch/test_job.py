"""The job under spark-submit, and the load through Spark, from end to end."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import sqlview
from sqlview.datasource import SqlViewDataSource
from sqlview.java import ensure_java
from tpch.generate import generate

ROOT = Path(__file__).parents[2]


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.cluster
def test_spark_submit(tmp_path: Path, spark: Any) -> None:
    """On executors of its own, into a store; another application reads a view there."""
    ensure_java()
    generate(0.01, tmp_path)
    programs = Path(sys.executable).parent
    figures = tmp_path / "figures.json"
    environment = os.environ | {
        "PATH": os.pathsep.join([str(programs), os.environ["PATH"]]),
        "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
        "PYSPARK_PYTHON": sys.executable,
    }
    done = subprocess.run(
        [
            str(programs / "spark-submit"), "--master", "local-cluster[2,1,1024]",
            "--conf", "spark.ui.enabled=false", "--conf", "spark.executor.memory=1g",
            "tpch/jobs/stream_views.py", "--sf", "0.01", "--queries", "q03,q05",
            "--changes", "9000", "--batch-rows", "3000", "--data", str(tmp_path),
            "--json", str(figures), "--store", str(tmp_path / "store"),
        ],
        cwd=ROOT, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    assert "q05" in done.stdout
    report = json.loads(figures.read_text())
    assert [(q["query"], q["verified"]) for q in report["queries"]] == [
        ("q03", True),
        ("q05", True),
    ]
    assert report["totals"]["load_rows"] > 30_000
    assert report["totals"]["rows"] == 9000
    with sqlview.connect(tmp_path / "store", read_only=True) as db:
        expected = sorted(db.view("q03").rows())
    spark.dataSource.register(SqlViewDataSource)
    read = spark.read.format("sqlview").option("store", str(tmp_path / "store"))
    assert sorted(map(tuple, read.load("q03").collect())) == expected != []
