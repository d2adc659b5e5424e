"""Windows against what Spark has answered: see `window_cases`."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

import sqlview
from tests.sql.window_cases import ANSWERS, COLUMNS, MOMENTS, QUERIES, plain

_ANSWERS = json.loads(ANSWERS.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def found() -> list[list[list[list[Any]]]]:
    """Of each query its rows at each moment, maintained from the first to the last."""
    made: list[list[list[list[Any]]]] = [[] for _ in QUERIES]
    with sqlview.connect() as db:
        db.sql(f"CREATE TABLE t ({COLUMNS}, PRIMARY KEY (id))")
        for i, query in enumerate(QUERIES):
            db.sql(f"CREATE MATERIALIZED VIEW v{i} AS {query}")
        there: dict[int, tuple[Any, ...]] = {}
        for moment in MOMENTS:
            now = {row[0]: row for row in moment}
            with db.transaction() as tx:
                tx.delete("t", [(i,) for i in there if i not in now])
                tx.upsert("t", [row for i, row in now.items() if there.get(i) != row])
            there = now
            for i, rows in enumerate(made):
                rows.append([[plain(v) for v in row] for row in db.view(f"v{i}").rows()])
    return made


@pytest.mark.parametrize("number", range(len(QUERIES)))
def test_rows_are_those_that_spark_gave(number: int, found: list[list[list[list[Any]]]]) -> None:
    answer = _ANSWERS[number]
    assert answer["query"] == QUERIES[number]
    for ours, theirs in zip(found[number], answer["rows"], strict=True):
        assert len(ours) == len(theirs)
        for left, right in zip(sorted(ours, key=repr), theirs, strict=True):
            assert all(map(_same, left, right)), (left, right)


def _same(left: Any, right: Any) -> bool:
    if isinstance(left, float) and isinstance(right, float):
        return math.isclose(left, right, rel_tol=1e-9, abs_tol=1e-12)
    return bool(left == right)
