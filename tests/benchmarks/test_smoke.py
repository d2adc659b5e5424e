"""Every benchmark at its smallest: it runs, checks its answers and writes its files. No figures."""

from __future__ import annotations

import dataclasses
import decimal
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sqlview
from benchmarks import (
    arrangements,
    clusters,
    commits,
    common,
    compare,
    cycles,
    durability,
    flatness,
    installation,
    loads,
    lookups,
    placement,
    rates,
    recompute,
    recursion,
    report,
    scale,
    startup,
    stores,
    together,
)
from benchmarks.arrival import RoundRobin
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


def test_durability(data: Path, tmp_path: Path) -> None:
    found = run(
        durability.main, "durability", tmp_path, "--quick", "--data", str(data),
        "--queries", "q03,q06",
    )  # fmt: skip
    assert [m["name"] for m in found["modes"]] == ["memory", "commit", "interval", "close"]
    for mode in found["modes"]:
        assert len(mode["step_ms"]) == 30
        assert (mode["log_bytes"] > found["given_bytes"] / 2) == (mode["name"] != "memory")
    assert [m["name"] for m in found["together"]] == ["memory", "commit"]
    assert [rate["query"] for rate in found["rates"]] == ["q03", "q06"]
    assert len(durability.targets(found)) == 3


def test_commits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = run(commits.main, "commits", tmp_path, "--quick")
    assert [(rate["threads"], rate["rows"]) for rate in found["rates"]] == [
        (1, 1), (2, 1), (1, 100), (2, 100),
    ]  # fmt: skip
    assert all(rate["runs"][0] > 0 for rate in found["rates"])
    assert len(commits.tables(found)[0].rows) == 2


def test_lookups(tmp_path: Path) -> None:
    found = run(lookups.main, "lookups", tmp_path, "--quick")
    asked = [(each["query"], each["shared"]) for each in found["asked"]]
    assert asked == [(name, shared) for shared in (True, False) for name in lookups.QUERIES]
    assert {len(each["one_seconds"]) for each in found["asked"]} == {3}
    assert len(lookups.targets(found)) == 2


def test_an_answer_to_a_question_that_is_wrong_is_told() -> None:
    edges = np.array([[0, 1], [1, 2], [1, 3], [2, 3], [3, 0]], np.int32)
    right = [pa.table({"x": [0, 0], "y": [2, 3]})]
    lookups._check("two", np.array([[0]], np.int32), right, edges)
    lookups._check("four", np.array([[0, 0], [0, 2]], np.int32), [right[0].slice(0, 0)], edges[:3])
    with pytest.raises(common.WrongAnswerError, match="two gave 1 rows"):
        lookups._check("two", np.array([[0]], np.int32), [right[0].slice(1)], edges)


def test_recursion(tmp_path: Path) -> None:
    found = run(recursion.main, "recursion", tmp_path, "--quick", "--no-peer")
    queries = [case["query"] for case in found["cases"]]
    assert queries == [query for query, *_ in recursion.QUICK_CASES]
    assert all(len(case["sqlview"]["change_seconds"]) == 4 for case in found["cases"])
    assert len(found["soaks"][0]["first"]) == len(found["soaks"][0]["last"]) == 30
    assert [len(each["seconds"]) for each in found["prepared"]] == [20] * len(recursion.PREPARED)
    assert len(recursion.targets(found)) == 3


def test_cycles(tmp_path: Path) -> None:
    found = run(cycles.main, "cycles", tmp_path, "--quick")
    assert [case["graph"] for case in found["cases"]] == ["uniform", "zipf", "hub"]
    for case in found["cases"]:
        assert [run["plan"] for run in case["runs"]] == ["counted", "binary"]
        assert all(len(run["change_seconds"]) == 4 for run in case["runs"])
        assert all(counted <= binary for counted, binary in case["candidates"].values())
    assert len(cycles.targets(found)) == 3


@pytest.mark.parametrize("kind", ["uniform", "zipf", "hub"])
def test_the_triangles_that_views_are_compared_with(kind: str) -> None:
    edges = cycles.edges_of(kind, 40, 300, np.random.default_rng(1))
    near = np.zeros((40, 40), np.int64)
    near[edges[:, 0], edges[:, 1]] = 1
    assert cycles.triangles(edges, 40) == ((near @ near) * near).sum() > 0


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("reach", [(0, 0), (1, 0), (2, 0)]),
        ("components", [(0, 0), (1, 0), (2, 0), (3, 3), (4, 3)]),
        ("sssp", [(0, 0), (1, 5), (2, 7)]),
        ("tc", [(0, 1), (0, 2), (1, 2), (3, 4)]),
        ("sg", [(1, 2), (2, 1)]),
        ("nulls", [(0, 0), (0, 1), (0, 2)]),
        ("points", [(x, y) for some in ((0, 1), (2, 3, 4)) for x in some for y in some]),
    ],
)
def test_the_answers_that_recursion_is_compared_with(
    query: str, expected: list[tuple[int, int]]
) -> None:
    edges = [(0, 1, 5), (0, 2, 9), (1, 2, 2), (3, 4, 1)]
    if query == "sg":
        edges = [(0, 1, 1), (0, 2, 1), (3, 4, 1)]
    elif query == "points":  # what 0 and 1 point to, 2 and 3, is the same
        edges = [(0, 1, 5), (0, 2, 60), (1, 3, 60), (3, 4, 1)]
    made = recursion.Graph(5, 1, (), np.array(edges, np.int32))
    assert [tuple(row) for row in recursion.answer(query, made).tolist()] == expected


def test_stores(data: Path, tmp_path: Path) -> None:
    found = run(
        stores.main, "stores", tmp_path, "--quick", "--data", str(data), "--queries", "q03,q06",
    )  # fmt: skip
    assert [o["how"] for o in found["openings"]] == ["made", "after a close", "after SIGKILL"]
    assert found["readers"]["reads"] >= 40
    assert found["churn"]["written_bytes"] > 0 < found["churn"]["store_bytes"]
    assert len(stores.targets(found)) == 5


def test_rates(data: Path, tmp_path: Path) -> None:
    found = run(
        rates.main, "rates", tmp_path, "--quick", "--data", str(data), "--queries", "q03,q06",
    )  # fmt: skip
    logical = [cell for cell in found["cells"] if not cell["is_physical"]]
    assert [(c["query"], c["order"], c["time_rows"], c["is_whole"]) for c in logical] == [
        ("q03", "in-order", 1_000, True),
        ("q03", "in-order", 10, False),
        ("q06", "in-order", 1_000, True),
        ("q06", "in-order", 10, False),
        ("q03", "shuffled", 1_000, True),
        ("q06", "shuffled", 1_000, True),
    ]
    physical = [cell for cell in found["cells"] if cell["is_physical"]]
    assert [(c["query"], c["time_rows"], c["step_rows"]) for c in physical] == [
        ("q03", 10, 5_000),
        ("q03", 1_000, 5_000),
        ("q06", 10, 5_000),
        ("q06", 1_000, 5_000),
    ]
    assert len(rates.tables(found)) == 3


def test_an_arrival_in_windows_is_the_whole_stream(data: Path) -> None:
    rows = load(data / "sf0.01", ["region", "nation", "supplier"])
    arrival = RoundRobin(rows)
    seen: dict[str, list[Any]] = {name: [] for name in rows}
    for size in (1, 7, 50, arrival.total):
        batches = arrival.next(size, 2)
        assert all(batch.rows <= size for batch in batches)
        arrival.arrive(batches)
        for batch in batches:
            for change in batch.changes:
                seen[change.table] += change.rows.to_pylist()
    assert arrival.position == arrival.total
    assert seen == {name: table.to_pylist() for name, table in rows.items()}


@pytest.mark.parametrize("size", [1, 3, 40])
def test_physical_batches_hold_the_logical_ones(data: Path, size: int) -> None:
    rows = load(data / "sf0.01", ["region", "nation", "supplier", "customer"])
    arrival = RoundRobin(rows)
    arrival.arrive(arrival.next(17, 1))
    rest = arrival.total - arrival.position
    assert rest > 1_000
    logical = [
        {change.table: change.rows for change in batch.changes}
        for batch in arrival.next(size, arrival.total)
    ]
    found: list[dict[str, pa.Table]] = []
    for numbered in arrival.numbered(120 * size):
        cut: dict[int, dict[str, pa.Table]] = {}
        for change, places in zip(numbered.batch.changes, numbered.places, strict=True):
            for time in np.unique(places // size):
                own = change.rows.filter(pa.array(places // size == time))
                cut.setdefault(int(time), {})[change.table] = own
        assert sorted(cut) == list(range(len(cut)))
        found += [cut[time] for time in sorted(cut)]
    assert found == logical


def test_together(data: Path, tmp_path: Path) -> None:
    found = run(
        together.main, "together", tmp_path, "--quick", "--data", str(data), "--queries",
        "q03,q06", "--seconds", "0.1",
    )  # fmt: skip
    assert [each["setting"] for each in found["measured"]] == ["shared", "private"]
    for each in found["measured"]:
        assert each["bulk_rows"] + each["trickle_rows"] == each["rows"]
        assert each["churn_seconds"] and each["sample_rows"][-1] == each["rows"]


def test_arrangements(tmp_path: Path) -> None:
    found = run(arrangements.main, "arrangements", tmp_path, "--quick", "--keys", "5000")
    assert [each["name"] for each in found["merging"]] == ["lazy", "default", "eager"]
    assert [each["probes"] for each in found["joins"]] == [1, 10, 100, 1_000]
    assert found["loads"]


def test_identifiers_are_distinct() -> None:
    whole = arrangements.identifiers(0, 10_000)
    assert len(np.unique(whole)) == 10_000
    assert (arrangements.identifiers(500, 700) == whole[500:700]).all()


def test_scale(data: Path, tmp_path: Path) -> None:
    found = run(
        scale.main, "scale", tmp_path, "--quick", "--data", str(data), "--sf", "0.01",
        "--queries", "q03",
    )  # fmt: skip
    assert [cell["batch_rows"] for cell in found["cells"]] == [10, 100]


def test_scale_leaves_out_what_does_not_fit(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scale, "available_bytes", lambda: 3 << 30)
    found = run(
        scale.main, "scale", tmp_path, "--quick", "--data", str(data), "--sf", "0.01", "100",
        "--queries", "q06",
    )  # fmt: skip
    assert {cell["sf"] for cell in found["cells"]} == {0.01}
    assert [reason.partition(":")[0] for reason in found["left_out"]] == ["scale factor 100"]


@pytest.mark.spark
def test_placement(data: Path, tmp_path: Path) -> None:
    found = run(placement.main, "placement", tmp_path, "--quick", "--data", str(data))
    assert {step["placement"] for step in found["steps"]} == set(placement.PLACEMENTS)
    assert [load["placement"] for load in found["loads"]] == ["inline", "spark"]


@pytest.mark.spark
def test_loads(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = run(loads.main, "loads", tmp_path, "--quick", "--data", str(data))
    ways = ["scan by Spark", *loads.WAYS]
    assert [(each["order"], each["way"]) for each in found["loads"]] == [
        ("shuffled", way) for way in ways
    ]
    assert [(each["query"], each["placement"]) for each in found["views"]] == [
        ("q03", placement) for placement in loads.PLACEMENTS
    ]
    assert [each["placement"] for each in found["floods"]] == list(loads.PLACEMENTS)
    assert len(loads.targets(found)) == 5


def test_predictions_of_clusters() -> None:
    """Lines go through what was measured: the fixed part does not grow with rows, or cores."""
    costs = [
        clusters.Cost(
            tasks, sf, phase, "x", int(1e6 * sf), int(1e8 * sf), 5 + 3 * sf, 0.1 + 0.2 * sf,
            0.1 + 0.2 * sf + 4 + 8 * sf, 1000,
        )
        for tasks in (1, 2)
        for sf in (0.5, 1.0, 10.0)
        for phase in clusters.PHASES
    ]  # fmt: skip
    result = json.loads(
        json.dumps({"costs": costs, "job_seconds": 0.3}, default=dataclasses.asdict)
    )
    line = clusters.lines(result)["hydration"]
    assert line == {
        "rows": pytest.approx(1e6),
        "fixed_seconds": pytest.approx(5),
        "driver_cpu_seconds": pytest.approx(0.2e-6),
        "others_cpu_seconds": pytest.approx(8e-6),
    }
    for cores, expected in ((8, 5 + 20 + 100), (512, 5 + 20 + 800 / 512)):
        assert clusters.predicted_seconds(line, 100, cores) == pytest.approx(expected)
    assert len(clusters.tables(result)) == 5
    assert len(clusters.targets(result)) == 16
    assert clusters.fit([10], [2.0]) == (0.0, pytest.approx(0.2))


@pytest.mark.parametrize(
    ("inline_us", "spark_us", "expected"), [(2.0, 0.5, 1_000_000.0), (1.0, 1.0, None)]
)
def test_break_even_of_placement(inline_us: float, spark_us: float, expected: float | None) -> None:
    steps = [
        placement.Step("local[2]", 1, where, work, work, ms + work * us / 1000, 0.0)
        for where, ms, us in (("inline", 1.0, inline_us), ("spark", 1501.0, spark_us))
        for work in (1_000, 100_000, 5_000_000)
    ]
    (found,) = placement.break_evens(steps)
    assert found["break_even_work"] == (expected and pytest.approx(expected, rel=1e-6))


def test_startup(tmp_path: Path) -> None:
    found = run(startup.main, "startup", tmp_path, "--quick")
    assert [each["name"] for each in found["startups"]] == ["warm"]
    assert found["imports"]


def test_compare(data: Path, tmp_path: Path) -> None:
    found = run(compare.main, "compare", tmp_path, "--quick", "--data", str(data))
    assert [(each["system"], each["query"]) for each in found["runs"]] == [
        ("sqlview", "q01"),
        ("sqlview", "q06"),
    ]


def test_a_peer_that_cannot_be_installed_is_left_out(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(compare.PACKAGES, "flink", str(tmp_path / "there is no such package"))
    monkeypatch.setattr(compare.sys, "executable", os.devnull)
    found = run(
        compare.main, "compare", tmp_path, "--quick", "--data", str(data), "--peers", "flink",
        "--environments", str(tmp_path / "peers"),
    )  # fmt: skip
    assert "cannot be installed" in found["left_out"]["flink"]
    assert compare.tables(found)[-1].title == "Left out"


def test_the_answers_of_peers() -> None:
    expected = [("a", decimal.Decimal("1.50"), 3), ("b", None, 4)]
    assert compare._equal([("b", None, "4"), ("a", "1.5000001", "3")], expected)
    assert not compare._equal([("b", None, "4"), ("a", "1.501", "3")], expected)
    assert not compare._equal([("b", "0", "4"), ("a", "1.5", "3")], expected)
    assert not compare._equal([("a", "1.5", "3")], expected)


def test_edits_for_flink() -> None:
    kept = "select a from t order by a limit 10"
    assert compare._edited(kept) == kept
    assert compare._edited(
        "select (select b from u order by b limit 1) as value from t\norder by 1"
    )
    edited = compare._edited("select max(a) as value from t group by b order by b desc")
    assert edited == "select max(a) as `value` from t group by b "


def test_report(data: Path, tmp_path: Path) -> None:
    run(flatness.main, "flatness", tmp_path / "results", "--quick")
    document = tmp_path / "BENCHMARKS.md"
    sections = [*report.BENCHMARKS, "targets"]
    document.write_text(
        "by hand\n" + "".join(f"<!-- begin {n} -->\nold {n}\n<!-- end {n} -->\n" for n in sections),
        encoding="utf-8",
    )
    arguments = ["--results", str(tmp_path / "results"), "--document", str(document)]
    assert report.main(arguments) == 0
    first = document.read_text(encoding="utf-8")
    assert "old flatness" not in first and "old rates" in first and first.startswith("by hand\n")
    assert "![flatness](results/flatness.png)" in first and "| after updates |" in first
    assert report.main(arguments) == 0
    assert document.read_text(encoding="utf-8") == first
    document.write_text("no markers", encoding="utf-8")
    assert report.main(arguments) == 1


def test_the_document_has_a_section_for_each_benchmark() -> None:
    text = report.DOCUMENT.read_text(encoding="utf-8")
    for name in [*report.BENCHMARKS, "targets"]:
        assert text.count(f"<!-- begin {name} -->") == 1
        assert text.count(f"<!-- end {name} -->") == 1


def test_rates_of_the_peer_are_complete() -> None:
    peer = rates.DIFFERENTIAL_SF10
    assert len(peer) == 22 and set(peer) == {query.name for query in all_queries()}
    assert geometric_mean(list(peer.values())) == pytest.approx(6.4, abs=0.05)


def test_flatness(tmp_path: Path) -> None:
    found = run(flatness.main, "flatness", tmp_path, "--quick")
    assert [part["after"] for part in found["parts"]] == [20, 200, 400]
    assert len(found["measured"]["step_seconds"]) == 30
    assert set(found["growth_over_first_window"]) == set(flatness.FIGURES)


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
        recompute.main, "recompute", tmp_path, "--quick", "--data", str(data),
        "--queries", "q06,q15", "--spark-recomputes", "0",
    )  # fmt: skip
    assert [each["query"] for each in found["comparisons"]] == ["q06", "q15"]
    assert [r["share"] for r in found["comparisons"][0]["refreshes"]] == [0.001, 0.1]


@pytest.mark.spark
def test_recompute_by_spark(data: Path, tmp_path: Path) -> None:
    found = run(
        recompute.main, "recompute", tmp_path, "--quick", "--data", str(data), "--queries", "q06"
    )
    (each,) = found["comparisons"]
    assert each["spark_ms"] > each["duckdb_ms"]


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
        "--queries", "q02,q03,q06,q21", "--live", "2", "--installations", "8", "--runs", "1",
    )  # fmt: skip
    names = ("q02", "q03", "q06", "q21")
    places = {(each["query"], each["setting"]) for each in found["installations"]}
    assert places == {(q, s) for q in names for s in installation.SETTINGS}
    for sharing in installation.SHARING:
        own = [each for each in found["arrivals"] if each["sharing"] == sharing]
        assert len(own) == 8
        assert all(each["is_windowed"] == (each["query"] != "q02") for each in own)
        assert {each["query"] for each in own} == {"q02", "q03", "q06"}
    assert [each["query"] for each in found["left_out"]] == ["q21"]


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
