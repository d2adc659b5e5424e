"""The runner of random queries: what it finds, counts, keeps and says when it is stopped."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from planner.calculus import types as t
from sqlview import oracle
from tests import fuzz
from tests.conftest import Connect
from tests.harness import Checked, Mismatch
from tests.reference.engine import ReferenceSession
from tests.reference.tables import insert


def test_cases_are_counted_and_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept = tmp_path / "cases.jsonl"
    options = ["--cases", "4", "--epochs", "3", "--processes", "1", "--reference", "none"]
    assert fuzz.main([*options, "--output", str(kept)]) == 0
    shown = capsys.readouterr().out
    assert "seeds 0 to 3: 4 cases" in shown
    assert "without a difference" in shown
    assert "uses of each SQL feature" in shown
    lines = [json.loads(line) for line in kept.read_text().splitlines()]
    assert [line["seed"] for line in lines] == [0, 1, 2, 3]
    assert all(line["difference"] is None for line in lines)
    assert sum(line["tally"]["pairs"] for line in lines) > 0


def test_a_difference_is_cut_down(capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--cases", "5", "--epochs", "3", "--processes", "1", "--reference", "loses_copies"]
    options += ["--attempts", "30"]
    assert fuzz.main(options) == 1
    shown = capsys.readouterr().out
    assert "fails; cut down to:\nsql: CREATE TABLE" in shown
    assert "1 of them with a difference" in shown


@pytest.mark.slow
def test_a_run_that_is_stopped_says_what_it_covered(tmp_path: Path) -> None:
    """In two processes, as it is by default; nothing of it stays behind."""
    kept = tmp_path / "cases.jsonl"
    command = [sys.executable, "-m", "tests.fuzz", "--pairs", "1000000", "--epochs", "3"]
    command += ["--processes", "2", "--reference", "none", "--output", str(kept)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as run:
        while not (kept.exists() and kept.read_text().count("\n") >= 2):
            assert run.poll() is None
        os.kill(run.pid, signal.SIGTERM)
        output, errors = run.communicate()
    assert run.returncode == 128 + signal.SIGTERM
    assert b"stopped by SIGTERM" in errors
    assert b"(query, epoch) pairs compared" in output


def _lying(monkeypatch: pytest.MonkeyPatch, *, always: bool) -> None:
    """DuckDB says nothing of the rows of a view, with its optimizer or also without."""
    honest = oracle.DuckDBOracle.query

    def query(self: oracle.DuckDBOracle, text: str, schema: t.Schema, *bounds: Any) -> pa.Table:
        table = honest(self, text, schema, *bounds)
        return table.slice(0, 0) if always or self.optimizes else table

    monkeypatch.setattr(oracle.DuckDBOracle, "query", query)


def test_what_duckdb_contradicts_itself_in_is_a_dispute(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    checked = connect()
    checked.create_table("t", "a INT")
    checked.create_view("v", "SELECT a + 1 AS b FROM t")
    _lying(monkeypatch, always=False)
    checked.step(insert("t", (1,)))
    checked.verify()
    assert [d.view for d in checked.disputes] == ["v"] * 2
    assert "extra 1: (2,)" in str(checked.disputes[0])
    checked.disputes.clear()  # else the fixture takes them for a fault


def test_what_duckdb_says_twice_is_a_difference(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    checked = connect()
    checked.create_table("t", "a INT")
    checked.create_view("v", "SELECT a + 1 AS b FROM t")
    _lying(monkeypatch, always=True)
    with pytest.raises(Mismatch, match="extra 1"):
        checked.step(insert("t", (1,)))


def test_large_results_end_a_case(connect: Connect) -> None:
    checked = connect()
    checked.oracle.load("n", pa.table({"a": pa.array(range(100), pa.int32())}))
    schema = (t.Field("a", t.INT),)
    with pytest.raises(oracle.TooLarge, match="more than 50 rows"):
        checked.oracle.query("SELECT a FROM n", schema, 50)


def test_relations_that_multiply_to_too_much_end_a_case() -> None:
    """By count, not by the clock: a case ends at the same place on every machine."""
    checked = Checked(ReferenceSession(), most_work=10_000)
    checked.create_table("t", "a INT")
    checked.create_view("v", "SELECT DISTINCT x.a FROM t x, t y WHERE x.a < y.a")
    checked.create_view("w", "WITH q AS (SELECT a FROM v) SELECT q.a FROM q, t x WHERE q.a <> x.a")
    checked.step(insert("t", *((i,) for i in range(20))))
    with pytest.raises(oracle.TooLarge, match="the relations of v multiply"):
        checked.step(insert("t", *((i,) for i in range(20, 101))))
    checked.close()
