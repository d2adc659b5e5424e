"""The engine against what Spark itself has answered: see `tests.spark_answers`."""

from __future__ import annotations

import pytest

import sqlview
from tests import spark_answers

LINES = list(spark_answers.recorded())


def test_the_sample_is_wide_and_small() -> None:
    assert len(LINES) >= 50
    assert spark_answers.ANSWERS.stat().st_size < 1_000_000
    kinds = {k for line in LINES for x in line["tables"] for _, k, _ in x["columns"]}
    assert {"TINYINT", "FLOAT", "BINARY", "TIMESTAMP", "DECIMAL(38,2)", "BOOLEAN"} <= kinds


@pytest.mark.parametrize("part", range(4))
def test_every_view_has_the_rows_that_spark_gave(part: int) -> None:
    wrong, pairs = [], 0
    for line in LINES[part::4]:
        with sqlview.connect(placement="inline") as db:
            compared, found = spark_answers.check(line, db)
        pairs += compared
        wrong += [f"seed {line['seed']}: {text}" for text in found]
    assert not wrong, "\n\n".join(wrong)
    assert pairs > 2 * len(LINES[part::4])
