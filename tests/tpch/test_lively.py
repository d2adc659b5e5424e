"""`--assert-lively`: epochs that change a view are counted, and too few of them fail the run."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from rich.console import Console

from tpch import cli, runner
from tpch.checks import ChangedEpochs
from tpch.queries import select_queries
from tpch.runner import RunOptions


def test_what_cancels_is_no_change() -> None:
    callbacks: dict[str, Any] = {}
    db: Any = SimpleNamespace(subscribe=callbacks.__setitem__)
    changed = ChangedEpochs()
    assert changed.count("q06") is None
    changed.follow(db, select_queries("q06"))
    assert changed.count("q06") == 0
    columns = ("revenue", "revenue", "__time", "__diff")
    rows = [(5, 1, 7, 1), (5, 1, 7, -1), (5, None, 8, 1), (6, None, 9, -1), (6, None, 9, 1),
            (7, 2, 9, 1)]  # fmt: skip
    arrays = [pa.array(values, pa.int64()) for values in zip(*rows, strict=True)]
    callbacks["q06"](pa.Table.from_arrays(arrays, names=list(columns)))
    callbacks["q06"](pa.Table.from_arrays(arrays, names=list(columns)).slice(0, 0))
    assert changed.count("q06") == 2


def options(data: Path, least: int) -> RunOptions:
    return RunOptions(
        sf=0.01, queries="q14,q19", params="lively", batch_rows=1, deletes=0.3, changes=150,
        load=0.5, placement="inline", assert_lively=least, data=data,
    )  # fmt: skip


def test_views_that_stand_still_fail_the_run(
    generated: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    quiet = Console(quiet=True)
    lively = runner.run(options(generated, 1), console=quiet)
    q14, q19 = lively.report.queries
    assert not lively.still
    assert q19.changed_epochs is not None and q14.changed_epochs is not None
    assert 0 < q19.changed_epochs < q14.changed_epochs < 150
    still = runner.run(options(generated, q19.changed_epochs + 1), console=quiet)
    assert [query.query for query in still.still] == ["q19"]
    monkeypatch.setattr(runner, "run", lambda options, console: still)
    assert cli.main(["stream"]) == 1
    printed = capsys.readouterr()
    assert f"q14 {q14.changed_epochs}, q19 {q19.changed_epochs}" in printed.out
    assert f'view "q19" changed in {q19.changed_epochs} epochs only' in printed.err


def test_lively_parameters_shape_the_churn() -> None:
    lively = RunOptions(params="lively").stream_options()
    assert (lively.even, lively.skew) == (0.5, 0.5)
    plain = RunOptions().stream_options()
    assert (plain.even, plain.skew) == (0.0, 0.0)
    given = RunOptions(params="lively", even=0.0, skew=0.25).stream_options()
    assert (given.even, given.skew) == (0.0, 0.25)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--assert-lively", "0"], "a lively view changes in at least one epoch, not 0"),
        (["--even", "1.5"], "the even share of the churn is from 0 to 1, not 1.5"),
        (["--skew", "-1"], "the skewed share of the churn is from 0 to 1, not -1"),
        (["--params", "odd"], "invalid choice: 'odd'"),
    ],
)
def test_wrong_options(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        cli.main(["stream", *arguments])
    assert stopped.value.code == 2
    assert message in capsys.readouterr().err
