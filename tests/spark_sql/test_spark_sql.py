"""Some files of Spark's own SQL suite. All of them: `python -m tests.spark_sql`."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.spark_artifact import Missing, jar
from tests.spark_sql.run import Kind, known_differences, run
from tests.spark_sql.source import files

#: Joins, groups, windows, set operations, subqueries, recursion, lambdas and times.
_SOME = """
    array comparator count cte except-all extract group-analytics group-by
    group-by-all group-by-filter group-by-ordinal grouping_set having higher-order-functions
    intersect-all join-lateral json-functions linear-regression literals natural-join null-handling
    order-by-nulls-ordering outer-join percentiles pivot postgreSQL/join postgreSQL/union
    postgreSQL/window_part2 predicate-functions regexp-functions string-functions
    subquery/exists-subquery/exists-basic subquery/exists-subquery/exists-count-bug
    subquery/in-subquery/in-joins subquery/in-subquery/in-null-semantics
    subquery/scalar-subquery/scalar-subquery-select try_arithmetic typeCoercion/native/concat
    union unpivot window
""".split()


@pytest.fixture(scope="module", autouse=True)
def fetched() -> None:
    try:
        jar()
    except Missing as missing:
        pytest.skip(str(missing))


def test_all_are_there() -> None:
    found = files()
    assert len(found) > 240 and set(_SOME) <= set(found)
    assert sum(len(statements) for statements in found.values()) > 12_000
    assert set(known_differences()) <= set(found)


def test_some_queries_before_and_after_rows_come_back() -> None:
    outcomes = run(_SOME)
    wrong = [o for o in outcomes if o.kind is Kind.WRONG]
    assert not wrong, "\n".join(f"{o.file}: {o.query}\n  {o.detail}" for o in wrong)
    counts = Counter(o.kind for o in outcomes)
    assert counts[Kind.RIGHT] > 1_000
    assert counts[Kind.KNOWN] < 40
