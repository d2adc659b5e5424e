"""Every benchmark at its smallest: it runs, checks its answers and writes its files. No figures."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sqlview
from benchmarks import common, flatness, installation, rates, recompute
from tpch.generate import generate, load
from tpch.queries import all_queries
from tpch.report import geometric_mean

Main = Callable[[Sequence[str]], int]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory for `--data` that holds scale factor 0.01."""
    return generate(0.01, tmp_path_factory.mktemp("tpch")).parent


def run(main: Main, name: str, out: Path, *arguments: str) -> dict[str, Any]:
    """The benchmark's JSON, after a look at its chart."""
    assert main([*arguments, "--out", str(out)]) == 0
    assert (out / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    found: dict[str, Any] = json.loads((out / f"{name}.json").read_text(encoding="utf-8"))
    assert found["benchmark"] == name
    assert {"cores", "memory_bytes", "versions", "load_average_before"} <= set(found["environment"])
    return found


def test_rates(data: Path, tmp_path: Path) -> None:
    found = run(
        rates.main, "rates", tmp_path, "--data", str(data), "--sf", "0.01", "--queries", "q03,q06",
        "--batch-rows", "50", "500", "--changes", "1000", "--runs", "1",
    )  # fmt: skip
    measured = [(rate["report"]["query"], rate["batch_rows"]) for rate in found["rates"]]
    assert measured == [("q03", 50), ("q06", 50), ("q03", 500), ("q06", 500)]
    assert all(rate["report"]["verified"] for rate in found["rates"])
    assert [mean["batch_rows"] for mean in found["means"]] == [50, 500]


def test_rates_of_the_peer_are_complete() -> None:
    peer = rates.DIFFERENTIAL_SF10
    assert len(peer) == 22 and set(peer) == {query.name for query in all_queries()}
    assert geometric_mean(list(peer.values())) == pytest.approx(6.4, abs=0.05)


def test_flatness(tmp_path: Path) -> None:
    found = run(
        flatness.main, "flatness", tmp_path,
        "--live-rows", "300", "--updates", "400", "--batch-rows", "20",
    )  # fmt: skip
    assert [part["name"] for part in found["parts"]] == [
        "first tenth", "middle tenth", "last tenth",
    ]  # fmt: skip
    assert len(found["measured"]["step_seconds"]) == 20
    assert set(found["growth_over_first_tenth"]) == set(flatness.FIGURES)


def test_churn_keeps_the_live_set() -> None:
    tasks = flatness.Tasks(100, 0)
    live = {row["id"]: row for row in tasks.live().to_pylist()}
    for rows in (1, 2, 3, 40, 50):
        deleted, upserted = tasks.change(rows)
        assert deleted.num_rows + upserted.num_rows == rows
        for key in deleted.column("id").to_pylist():
            del live[key]
        live |= {row["id"]: row for row in upserted.to_pylist()}
        assert len(live) == 100
        assert live == {row["id"]: row for row in tasks.live().to_pylist()}


def test_recompute(data: Path, tmp_path: Path) -> None:
    found = run(
        recompute.main, "recompute", tmp_path, "--data", str(data), "--sf", "0.01",
        "--queries", "q06,q15", "--shares", "0.0001", "0.01", "--pairs", "1", "--recomputes", "1",
    )  # fmt: skip
    assert [each["query"] for each in found["comparisons"]] == ["q06", "q15"]
    assert [r["share"] for r in found["comparisons"][0]["refreshes"]] == [0.0001, 0.01]


def test_undoing_a_change_leaves_the_tables(data: Path) -> None:
    tables = load(data / "sf0.01", ["supplier", "nation"])
    change, undo = recompute.change_and_undo(tables, 0.1, np.random.default_rng(0))
    assert change.rows == undo.rows
    before = {row["s_suppkey"]: row for row in tables["supplier"].to_pylist()}
    live = dict(before)
    seen = []
    for batch in (change, undo):
        for part in batch.changes:
            if part.table == "supplier":
                for row in part.rows.to_pylist():
                    if part.verb == "delete":
                        del live[row["s_suppkey"]]
                    else:
                        live[row["s_suppkey"]] = row
        seen.append(live == before)
    assert seen == [False, True]


@pytest.mark.parametrize(
    ("ratios", "expected"),
    [
        ([(0.01, 1.0), (0.1, 2.0)], 0.0),
        ([(0.01, 0.1), (0.1, 0.9)], None),
        ([(0.001, 0.1), (0.1, 10.0)], 0.01),
        ([(0.0001, 2.0), (0.001, 0.1), (0.1, 10.0)], 0.01),
        ([(0.001, 0.01), (0.01, 0.1), (0.1, 1.0)], 0.1),
    ],
)
def test_break_even(ratios: list[tuple[float, float]], expected: float | None) -> None:
    assert recompute.break_even(ratios) == pytest.approx(expected)


def test_installation(data: Path, tmp_path: Path) -> None:
    found = run(
        installation.main, "installation", tmp_path, "--data", str(data), "--sf", "0.01",
        "--queries", "q03,q10", "--runs", "1",
    )  # fmt: skip
    places = {(each["query"], each["setting"]) for each in found["installations"]}
    assert places == {(q, s) for q in ("q03", "q10") for s in installation.SETTINGS}


def test_a_wrong_answer_gives_no_figure(capsys: pytest.CaptureFixture[str]) -> None:
    with sqlview.connect(placement="inline") as db:
        db.sql("CREATE TABLE t (a BIGINT PRIMARY KEY)")
        db.sql("CREATE MATERIALIZED VIEW v AS SELECT a FROM t")
        with db.transaction() as tx:
            tx.insert("t", [(1,)])
        expected = pa.table({"a": pa.array([2], pa.int64())})
        assert common.guarded(lambda: common.check_view(db, "v", expected, is_ordered=False)) == 1
    assert 'view "v" differs from its recompute: missing 1' in capsys.readouterr().err


def test_an_unknown_query_ends_in_a_message(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    for main in (rates.main, recompute.main, installation.main):
        assert main(["--queries", "q99", "--out", str(tmp_path)]) == 1
        assert 'no such query: "q99"' in capsys.readouterr().err
