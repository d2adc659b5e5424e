"""The runner and the command line, over a session that keeps keys and maintains nothing."""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from rich.console import Console

from operators.executor.placement import SPARK_ROWS
from sqlview import oracle as duckdb_oracle
from tpch import cli, demo, report, runner
from tpch.checks import SessionOracle
from tpch.generate import generate
from tpch.queries import all_queries, select_queries
from tpch.runner import RunOptions
from tpch.schema import TABLES_BY_NAME

QUERY_KEYS = {
    "query", "rows", "seconds", "rows_per_second", "p50_ms", "p95_ms", "max_ms", "own_ms",
    "changes",
    "state_bytes", "verified",
}  # fmt: skip
RUN_KEYS = {"sf", "batch_rows", "mode", "placement", "cores", "versions", "queries", "totals"}
ARRANGEMENT_KEYS = {"relation", "key", "rows", "bytes", "readers"}
VERSION_KEYS = {
    "python", "sqlview", "pyspark", "pyarrow", "numpy", "numba", "duckdb", "sqlglot",
}  # fmt: skip


@dataclass
class FakeVerification:
    epoch: int
    difference: duckdb_oracle.Difference | None
    error: str | None = None
    recompute_error: str | None = None


@dataclass
class FakeStep:
    placement: str


@dataclass
class FakeView:
    changes: int = 7
    state_bytes: int = 1024
    arrangements: int = 3
    shared_arrangements: int = 2
    seconds: float = 0.5


@dataclass
class FakeMetrics:
    steps: list[FakeStep]
    views: dict[str, FakeView]
    state_bytes: int = 4096
    table_bytes: int = 8192
    index_builds: int = 5


@dataclass
class FakeSession:
    """Checks each transaction against the keys that are live."""

    options: dict[str, Any]
    wrong_from_epoch: int | None = None
    tables: dict[str, set[tuple[object, ...]]] = field(default_factory=dict)
    views: list[str] = field(default_factory=list)
    steps: list[FakeStep] = field(default_factory=list)
    verified: list[tuple[str, int]] = field(default_factory=list)

    def __enter__(self) -> FakeSession:
        return self

    def __exit__(self, *error: object) -> None:
        return None

    @property
    def last_step(self) -> FakeStep:
        return self.steps[-1]

    def sql(self, text: str) -> None:
        words = text.split()
        if words[1] == "TABLE":
            self.tables[words[2]] = set()
        else:
            self.views.append(words[3])

    @contextlib.contextmanager
    def transaction(self, placement: str | None = None) -> Iterator[FakeSession]:
        yield self
        self.steps.append(FakeStep("inline"))

    def _keys(self, table: str, rows: pa.Table) -> set[tuple[object, ...]]:
        columns = rows.select(list(TABLES_BY_NAME[table].primary_key)).to_pydict().values()
        keys = set(zip(*columns, strict=True))
        assert len(keys) == rows.num_rows
        return keys

    def insert(self, table: str, rows: pa.Table) -> None:
        keys = self._keys(table, rows)
        assert self.tables[table].isdisjoint(keys)
        self.tables[table] |= keys

    def delete(self, table: str, rows: pa.Table) -> None:
        keys = self._keys(table, rows)
        assert self.tables[table] >= keys
        self.tables[table] -= keys

    def upsert(self, table: str, rows: pa.Table) -> None:
        assert self.tables[table] >= self._keys(table, rows)

    def verify(self, view: str) -> FakeVerification:
        epoch = len(self.steps)
        self.verified.append((view, epoch))
        equal = self.wrong_from_epoch is None or epoch < self.wrong_from_epoch
        rows = pa.table({"revenue": [1] * (0 if equal else 25)})
        difference = None if equal else duckdb_oracle.Difference(rows, rows.slice(0, 0))
        return FakeVerification(epoch, difference)

    def metrics(self) -> FakeMetrics:
        return FakeMetrics(self.steps, {name: FakeView() for name in self.views})

    def arrangements(self) -> pa.Table:
        row = {
            "relation": "orders",
            "key": "o_orderkey",
            "rows": 5,
            "bytes": 80,
            "readers": ["q03"],
        }
        return pa.Table.from_pylist([row])


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("tpch")
    generate(0.01, directory)
    return directory


@pytest.fixture
def sessions() -> list[FakeSession]:
    return []


def run(
    sessions: list[FakeSession], options: RunOptions, *, wrong_from_epoch: int | None = None
) -> runner.Outcome:
    """A run over fake sessions, which are added to `sessions`, the one of the warm-up first."""

    def connect(path: str | None, **given: object) -> Any:
        given["path"] = path
        wrong = wrong_from_epoch if sessions else None
        sessions.append(FakeSession(given, wrong))
        return sessions[-1]

    return runner.run(options, console=Console(quiet=True), connect=connect, oracle=SessionOracle)


def test_together(sessions: list[FakeSession], data: Path) -> None:
    options = RunOptions(
        sf=0.01,
        queries="q03,q05",
        changes=8000,
        batch_rows=500,
        deletes=0.2,
        verify="every",
        data=data,
    )
    outcome = run(sessions, options)
    warm_up, session = sessions
    assert len(warm_up.steps) > 1
    assert not warm_up.verified
    assert session.views == ["q03", "q05"]
    assert set(session.tables) == {
        "region", "nation", "supplier", "customer", "orders", "lineitem",
    }  # fmt: skip
    steps = len(session.steps)
    assert session.verified == [
        (view, epoch) for epoch in range(1, steps + 1) for view in ("q03", "q05")
    ]
    assert outcome.report.totals.steps == steps == outcome.report.totals.steps_inline
    q03, q05 = outcome.report.queries
    assert q03.verified is True
    assert q03.verified_epochs == steps
    assert q03.rows < q05.rows == outcome.report.totals.rows


def test_each_streams_only_what_the_query_reads(sessions: list[FakeSession], data: Path) -> None:
    options = RunOptions(sf=0.01, queries="q06,q14", mode="each", load=0.5, data=data)
    outcome = run(sessions, options)
    _, q06, q14 = sessions
    assert (q06.views, set(q06.tables)) == (["q06"], {"lineitem"})
    assert (q14.views, set(q14.tables)) == (["q14"], {"lineitem", "part"})
    assert all(query.verified is None for query in outcome.report.queries)
    first = outcome.report.queries[0]
    assert outcome.report.totals.load_rows + outcome.report.totals.rows == sum(
        len(rows) for session in (q06, q14) for rows in session.tables.values()
    )
    assert first.rows == (len(q06.tables["lineitem"]) + 1) // 2


def test_options_reach_the_session(sessions: list[FakeSession], data: Path) -> None:
    options = RunOptions(
        sf=0.01, queries="q06", private=True, placement="inline", changes=700, data=data
    )
    outcome = run(sessions, options)
    assert [session.options for session in sessions] == [
        {
            "path": None,
            "spark": None,
            "placement": "inline",
            "share": False,
            "durability": "close",
        }
    ] * 2
    assert outcome.report.totals.rows == 700
    assert not outcome.report.sharing


@pytest.mark.parametrize(("verify", "epoch", "steps"), [("every", 3, 3), ("final", 13, 13)])
def test_a_difference_ends_the_run(
    sessions: list[FakeSession], data: Path, verify: str, epoch: int, steps: int
) -> None:
    options = RunOptions(
        sf=0.01, queries="q06", batch_rows=500, changes=6500, verify=verify, data=data
    )
    outcome = run(sessions, options, wrong_from_epoch=3)
    (difference,) = outcome.differences
    assert (difference.view, difference.epoch) == ("q06", epoch)
    assert outcome.report.queries[0].verified is False
    assert outcome.report.totals.steps == steps
    output = io.StringIO()
    report.print_difference(difference, Console(file=output, width=120))
    text = output.getvalue()
    assert "25 missing, 0 extra" in text
    assert text.count("missing: revenue=1") == 20
    assert "and 5 more" in text


def test_shuffled_order_is_a_function_of_the_seed(sessions: list[FakeSession], data: Path) -> None:
    def keys(seed: int, order: str) -> set[tuple[object, ...]]:
        options = RunOptions(sf=0.01, queries="q06", changes=500, order=order, seed=seed, data=data)
        run(sessions, options)
        return sessions[-1].tables["lineitem"]

    assert keys(1, "shuffled") == keys(1, "shuffled")
    assert keys(1, "shuffled") != keys(2, "shuffled")
    assert keys(1, "in-order") == keys(2, "in-order")


def test_json_of_the_command(
    sessions: list[FakeSession],
    data: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    outcome = run(sessions, RunOptions(sf=0.01, verify="final", data=data))
    monkeypatch.setattr(runner, "run", lambda options, console: outcome)
    json_file, chart_file = tmp_path / "out.json", tmp_path / "out.png"
    arguments = ["stream", "--sf", "0.01", "--json", str(json_file), "--chart", str(chart_file)]
    assert cli.main(arguments) == 0
    found = json.loads(json_file.read_text())
    assert found.keys() >= RUN_KEYS
    assert found["versions"].keys() == VERSION_KEYS
    assert [query["query"] for query in found["queries"]] == [q.name for q in all_queries()]
    for query in found["queries"]:
        assert query.keys() >= QUERY_KEYS
        assert query["verified"] is True
    assert found["totals"]["rss_peak_bytes"] >= found["totals"]["rss_start_bytes"] > 0
    assert [row.keys() for row in found["totals"]["arrangements"]] == [ARRANGEMENT_KEYS]
    assert chart_file.read_bytes().startswith(b"\x89PNG")
    assert "q19" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["stream", "--queries", "q01,q99"], 'no such query: "q99" (there are all, q01'),
        (["stream", "--queries", ","], "no such query: an empty list"),
        (["stream", "--sf", "0"], "a scale factor is at least 0.01, not 0"),
        (["stream", "--batch-rows", "0"], "a batch has at least one row"),
        (["stream", "--deletes", "2"], "the fraction of deletes is from 0 to 0.5, not 2"),
        (["stream", "--load", "1"], "the fraction to load is from 0 to less than 1"),
        (["stream", "--changes", "-1"], "a stream has at least one changed row"),
        (["stream", "--mode", "apart"], "invalid choice: 'apart'"),
        (["stream", "--json", "/nowhere/at/all.json"], "no such directory: /nowhere/at"),
        (["flow"], "invalid choice: 'flow'"),
        ([], "required: COMMAND"),
    ],
)
def test_wrong_command_line(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        cli.main(arguments)
    assert stopped.value.code == 2
    assert message in capsys.readouterr().err


def test_missing_generator(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("shutil.which", lambda *_, **__: None)
    assert cli.main(["generate", "--data", str(tmp_path)]) == 1
    assert "tpchgen-cli is not found; install it with" in capsys.readouterr().err


def test_the_demonstration_reads_the_view_that_it_shows() -> None:
    assert "q05" in [query.name for query in select_queries(demo.OPTIONS.queries)]
    assert demo.OPTIONS.load_on_spark
    assert 6_000_000 * demo.OPTIONS.sf * demo.OPTIONS.load > SPARK_ROWS, "lineitem, for tasks"
    assert demo.OPTIONS.deletes > 0
