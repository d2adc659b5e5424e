"""Functions on extremes are what Spark recorded, and no value ends a session."""

from __future__ import annotations

import datetime

import pytest

from tests.extremes import judge
from tests.extremes.__main__ import main
from tests.extremes.engine import run
from tests.extremes.expressions import TEMPLATES, expressions
from tests.extremes.record import read
from tests.extremes.values import COLUMNS, rows

RECORDED = read()
_SAMPLE = sorted(RECORDED.answers)
_PART = 60


@pytest.mark.parametrize("start", range(0, len(_SAMPLE), _PART))
def test_the_sample_is_sparks(start: int) -> None:
    table = rows(RECORDED.row_count, RECORDED.seed)
    wrong: list[str] = []
    for made in run(_SAMPLE[start : start + _PART], table):
        _, kind, answers = RECORDED.answers[made.expression]
        wrong += [f"{made.expression}: {death}" for death in made.deaths] + made.inconsistent
        if made.refused is not None:
            # Spark refuses it as well, or views do not have it, which is said when it is created.
            continue
        if made.kind != kind:
            wrong.append(f"{made.expression}: of type {made.kind} where Spark has {kind}")
            continue
        for row, (ours, sparks) in enumerate(zip(made.answers, answers, strict=True)):
            text = judge.difference(made.expression, kind, ours, sparks)
            if text is not None:
                wrong.append(f"{made.expression} in row {row}: {text}")
    assert not wrong, "\n".join(wrong)


def test_the_sample_has_every_function() -> None:
    assert {name for name, _, _ in RECORDED.answers.values()} == {t.name for t in TEMPLATES}
    stream = expressions(RECORDED.seed)
    fresh = [next(stream)[1] for _ in _SAMPLE]
    assert sorted(fresh) == _SAMPLE, "run python -m tests.extremes.record"


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--pairs", "200", "--rows", "5", "--without-spark"]) == 0
    assert "no death, no difference" in capsys.readouterr().out


def test_rows_have_every_value() -> None:
    day = next(c for c in COLUMNS if c.name == "day")
    table = rows(len(day.values), 1)
    stored = table.column("day").cast("int32").to_pylist()
    assert sorted(v for v in stored if v is not None) == sorted(
        v for v in day.values if v is not None
    )
    assert max(stored, key=lambda v: v or 0) > (datetime.date.max - datetime.date(1970, 1, 1)).days
