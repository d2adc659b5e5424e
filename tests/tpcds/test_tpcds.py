"""Some queries of TPC-DS under changes. All of them: `python -m tests.tpcds`."""

from __future__ import annotations

import pytest

from tests.spark_artifact import Missing, jar
from tests.tpcds.run import run
from tests.tpcds.source import queries, tables

#: With windows, grouping sets, outer and semi joins, set operations and scalar subqueries.
_SOME = "q1 q5 q8 q10 q12 q18 q22 q27 q35 q38 q41 q44 q47 q51 q67 q70 q86 q97".split()


@pytest.fixture(scope="module", autouse=True)
def fetched() -> None:
    try:
        jar()
    except Missing as missing:
        pytest.skip(str(missing))


def test_all_are_there() -> None:
    assert len(queries()) == 103, "99, of which four have two parts"
    assert len(tables()) == 24


def test_some_queries_under_changes() -> None:
    found = run(_SOME, epochs=2, seed=1)
    assert found.refused == {} and found.wrong == {} and found.unsaid == {}
    assert found.compared == 3 * len(_SOME)
    assert len(found.lively) >= 16 and len(found.changing) >= 10
    assert found.share < 0.25, "work is what changes reach"
    assert found.prefixes < 30_000, "no join walks a product"
