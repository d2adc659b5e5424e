"""Optimizing and lowering keep the meaning of random plans, also of those that could fail."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial

from hypothesis import HealthCheck, assume, event, given, settings

from planner.calculus.algebra import Apply, Filter, Join, MarkJoin, OuterJoin, Plan, SemiJoin
from planner.calculus.failing import may_fail
from planner.calculus.visit import expressions, walk
from planner.errors import UnsupportedError
from planner.lower.views import lower
from planner.rewrite.optimizer import optimize, prepare
from planner.validate import check_dataflow
from tests.planner.plans import CATALOG, contents, plans
from tests.reference import algebra as naive
from tests.reference import dataflow as naive_dataflow
from tests.reference.scalar import Row, RowError

#: Plans are small and quick: three times the examples of the profile.
_SETTINGS = settings(
    max_examples=3 * settings().max_examples,
    deadline=None,
    suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow],
)


def table_key(name: str) -> tuple[int, ...] | None:
    info = CATALOG.relation(name)
    return None if info is None else info.primary_key


def fails_in_condition(plan: Plan) -> bool:
    joins = isinstance(plan, (Join, OuterJoin, SemiJoin, MarkJoin, Filter, Apply))
    return joins and any(may_fail(e) for e in expressions(plan))


def computed(rows: Callable[[], Counter[Row]]) -> Counter[Row]:
    """The rows of a rewritten plan. A scalar subquery is looked at there before it is known that
    some row needs it; such a case, in which it alone has two rows, is left out."""
    try:
        return rows()
    except RowError as error:
        assume("more than one row" not in str(error))
        raise


@_SETTINGS
@given(plan=plans(), tables=contents())
def test_optimize_keeps_the_meaning(plan: Plan, tables: dict[str, list[Row]]) -> None:
    """Where the query as written does not fail, the optimized one gives the same, unfailing."""
    optimized = optimize(plan, check=True)
    assert [f.name for f in optimized.schema] == [f.name for f in plan.schema]
    try:
        expected = naive.rows(plan, tables)
    except RowError:
        event("fails")
        assume(False)
    event("empty" if not expected else "rows")
    assert computed(lambda: naive.rows(optimized, tables)) == expected


@_SETTINGS
@given(plan=plans(), tables=contents())
def test_prepare_keeps_the_meaning(plan: Plan, tables: dict[str, list[Row]]) -> None:
    """Outer, semi and mark joins, single rows and distinct aggregates by inner joins and sums."""
    prepared = prepare(optimize(plan), table_key, check=True)
    try:
        expected = naive.rows(plan, tables)
    except RowError:
        assume(False)
    event("empty" if not expected else "rows")
    assert computed(lambda: naive.rows(prepared, tables)) == expected


@_SETTINGS
@given(plan=plans(), tables=contents())
def test_lower_keeps_the_meaning(plan: Plan, tables: dict[str, list[Row]]) -> None:
    """Along every path of its joins the dataflow computes what the plan means."""
    # A computed key that may fail and has to connect two inputs is computed for all their rows.
    assume(not any(fails_in_condition(p) for p in walk(plan)))
    try:
        node = lower(optimize(plan), CATALOG)
    except UnsupportedError:
        event("unsupported")
        assume(False)
    check_dataflow(node)
    try:
        expected = naive.rows(plan, tables)
    except RowError:
        assume(False)
    event("empty" if not expected else "rows")
    for path in range(6):
        assert computed(partial(naive_dataflow.rows, node, tables, path)) == expected


@_SETTINGS
@given(plan=plans())
def test_optimize_is_idempotent(plan: Plan) -> None:
    """What it derives, it does not derive again without end; and equal plans give equal nodes."""
    once = optimize(plan)
    assert len(repr(optimize(once))) <= 2 * len(repr(once)) + 200
    try:
        assert lower(once, CATALOG) == lower(optimize(plan), CATALOG)
    except UnsupportedError:
        assume(False)
