"""Where `auto` places a step: by what jobs cost on the Spark that there is."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import sqlview
from operators.executor.placement import TASK_COST, WORK_A_SECOND, SparkCosts
from operators.executor.spark import costs


def test_break_even() -> None:
    """None on few cores; on very many, the work that takes as long here as the job there."""
    assert SparkCosts(0.5, int(TASK_COST)).break_even == math.inf
    assert SparkCosts(0.5, 8).break_even > 50e6
    assert SparkCosts(0.5, 1 << 40).break_even == pytest.approx(WORK_A_SECOND / 2)


@pytest.mark.spark
def test_auto(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Costs are measured when a step is large, on many cores, once for a store; kept where it lies,
    and measured again for another Spark, or if the file is damaged."""
    measured: list[int] = []
    said: list[str] = []
    job = costs.job_seconds

    def measuring(spark: Any, tasks: int) -> float:
        measured.append(tasks)
        return job(spark, 2) / 10_000

    monkeypatch.setattr(costs, "job_seconds", measuring)
    monkeypatch.setattr("sqlview.session.LEAST_WORK", 100)

    def placed(rows: int, cores: int) -> str:
        monkeypatch.setattr(costs, "cores_of", lambda spark: cores)
        with sqlview.connect(tmp_path / "store", spark=spark) as db:
            if not db.sql("SHOW TABLES").to_arrow().num_rows:
                db.sql("CREATE TABLE t (k BIGINT, g BIGINT)")
                db.sql("CREATE MATERIALIZED VIEW v AS SELECT g, count(*) AS n FROM t GROUP BY g")
            with db.transaction() as tx:
                tx.insert("t", pa.table({"k": range(rows), "g": [k % 7 for k in range(rows)]}))
            found = db.metrics()
            lines = db.sql("EXPLAIN MATERIALIZED VIEW v").to_arrow()[0].to_pylist()
            said.append(lines[lines.index("== Placement ==") + 1])
            assert found.spark is None or found.spark.cores == cores
            return found.steps[-1].placement

    many = 200_000
    assert (placed(50, 640), measured) == ("inline", [])
    assert said[-1].startswith("auto: steps of at most 3,000,000 units of work (changed rows, each")
    assert (placed(many, 2), measured) == ("inline", [])
    assert said[-1] == "auto: all steps run in the driver: no step takes less time on 2 cores"
    assert (placed(many, 640), measured) == ("spark", [640, 640])
    assert re.fullmatch(
        "auto: steps of more than 3,000,000 .* run on Spark, .*, on 640 cores", said[-1]
    )
    assert (placed(many, 640), len(measured)) == ("spark", 2)
    assert (placed(many, 64), len(measured)) == ("spark", 4)
    (tmp_path / "store" / costs._NAME).write_text("{")
    assert (placed(many, 64), len(measured)) == ("spark", 6)
    (tmp_path / "store" / costs._NAME).unlink()
    monkeypatch.setattr(costs, "job_seconds", lambda spark, tasks: 1 / 0)
    assert placed(many, 64) == "inline"
    assert "cannot be measured" in caplog.text
    for placement, expected in (("spark", ["spark: all steps run on Spark"]), ("inline", [])):
        with sqlview.connect(tmp_path / "store", spark=spark, placement=placement) as db:
            lines = db.sql("EXPLAIN MATERIALIZED VIEW v").to_arrow()[0].to_pylist()
            assert [line for line in lines if line.startswith(("auto", "spark"))] == expected
