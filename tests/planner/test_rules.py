"""Each rewrite rule: what it does, and where it must not."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from dataclasses import replace

import pytest

from planner.analysis.constants import fold
from planner.calculus.algebra import Filter, Plan, Project, SortKey, UnionAll, Window, WindowCall
from planner.calculus.expr import Call, Expr, Literal, Scalar
from planner.calculus.types import BIGINT, BOOLEAN, DATE, DOUBLE, INT
from planner.explain import explain_logical
from planner.rewrite import optimizer
from planner.rewrite.optimizer import Pass, optimize
from planner.rewrite.rules import (
    derive_input_filters,
    factor_disjunctions,
    flatten_joins,
    fold_constants,
    limit_windows,
    merge_projects,
    propagate_constants,
    prune_columns,
    push_filters,
    remove_distinct,
    remove_identity_projects,
)
from planner.validate import PlanError, check, check_rewrite
from tests.planner.build import (
    aggregate,
    big,
    both,
    call,
    cast,
    col,
    count_rows,
    cross,
    either,
    eq,
    lit,
    scan,
    select,
    top,
    total,
    where,
)
from tests.planner.tpch_catalog import Tables, table

CATALOG = Tables(
    (
        table("a", "id:b x:b y:b? s:s", (0,)),
        table("b", "id:b x:b y:b? s:s", (0,)),
        table("c", "id:b x:b y:b? s:s", (0,)),
    )
)
A, B, C = (scan(CATALOG, n) for n in "abc")
TRUE, FALSE = lit(True), lit(False)


def fails(plan: Plan) -> Call:
    """A predicate that may fail: a string cast to a number."""
    return call("gt", cast(col(plan, "s"), BIGINT), big(0))


def shown(plan: Plan) -> str:
    return "\n" + explain_logical(plan) + "\n"


# -- fold_constants ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expr", "value"),
    [
        (call("date_add", lit(datetime.date(1998, 12, 1)), lit(-90), type=DATE),
         datetime.date(1998, 9, 2)),
        (call("add_months", lit(datetime.date(2024, 1, 31)), lit(1), type=DATE),
         datetime.date(2024, 2, 29)),
        (call("add", lit(1), lit(2), type=INT), 3),
        (cast(lit("1994-01-01"), DATE), datetime.date(1994, 1, 1)),
        (call("lt", lit(1), lit(2)), True),
        (call("not", TRUE), False),
        (call("and", FALSE, eq(lit(1), Literal(None, INT))), False),
        (call("case", FALSE, lit(1), TRUE, lit(2), lit(3), type=INT), 2),
        (eq(lit(1), Literal(None, INT)), None),
    ],
)  # fmt: skip
def test_fold(expr: Expr, value: Scalar) -> None:
    assert fold(expr) == Literal(value, expr.type)


@pytest.mark.parametrize(
    "expr",
    [
        call("add", lit(2**31 - 1), lit(1), type=INT),
        cast(lit("no date at all"), DATE),
        call("divide", lit(1), lit(0), type=INT),
        call("add_months", lit(datetime.date(9999, 12, 1)), lit(1), type=DATE),
    ],
)
def test_what_fails_is_not_folded(expr: Expr) -> None:
    assert fold(expr) is expr


def test_filter_that_is_true_goes() -> None:
    assert fold_constants.apply(where(A, call("or", eq(col(A, "x"), big(1)), TRUE))) is A


def test_filter_that_is_null_is_false() -> None:
    plan = fold_constants.apply(where(A, Literal(None, BOOLEAN)))
    assert plan == where(A, FALSE)


# -- factor_disjunctions -----------------------------------------------------------------------


def test_common_conjuncts_leave_an_or() -> None:
    link, x1, x2 = eq(col(A, "id"), col(A, "x")), eq(col(A, "x"), big(1)), eq(col(A, "x"), big(2))
    plan = factor_disjunctions.apply(where(A, either(both(link, x1), both(x2, link))))
    assert plan == where(A, link, either(x1, x2))


def test_a_branch_that_is_only_common_absorbs_the_or() -> None:
    link, x1 = eq(col(A, "id"), col(A, "x")), eq(col(A, "x"), big(1))
    assert factor_disjunctions.apply(where(A, either(link, both(link, x1)))) == where(A, link)


def test_a_common_conjunct_that_may_fail_stays() -> None:
    x1, x2 = eq(col(A, "x"), big(1)), eq(col(A, "x"), big(2))
    plan = where(A, either(both(x1, fails(A)), both(x2, fails(A))))
    assert factor_disjunctions.apply(plan) is plan


# -- push_filters ------------------------------------------------------------------------------


def test_filters_sink_to_the_input_they_read() -> None:
    j = cross(A, B)
    plan = where(j, eq(col(j, "x"), big(1)), eq(col(j, "y"), col(j, "y", 1)),
                 eq(col(j, "x", 1), big(2)))  # fmt: skip
    assert (
        shown(push_filters.apply(plan))
        == """
Join on y#2 = y#6
  Filter x = 1
    Scan a
  Filter x = 2
    Scan b
"""
    )


def test_a_predicate_that_may_fail_stays_above_a_join() -> None:
    j = cross(A, B)
    plan = push_filters.apply(where(j, fails(j), eq(col(j, "x"), big(1))))
    assert (
        shown(plan)
        == """
Join on cast(s#3 AS BIGINT) > 0
  Filter x = 1
    Scan a
  Scan b
"""
    )


def test_a_predicate_that_may_fail_sinks_below_a_projection_and_a_union() -> None:
    named = select(A, s=col(A, "s"))
    union = UnionAll((named, named), named.schema)
    plan = push_filters.apply(where(union, fails(union)))
    assert (
        shown(plan)
        == """
UnionAll
  Project s
    Filter cast(s AS BIGINT) > 0
      Scan a
  Project s
    Filter cast(s AS BIGINT) > 0
      Scan a
"""
    )


def test_merged_filters_keep_their_order() -> None:
    plan = push_filters.apply(where(where(A, fails(A)), eq(col(A, "x"), big(1))))
    assert plan == where(A, fails(A), eq(col(A, "x"), big(1)))


def test_having_on_keys_sinks_below_the_aggregate() -> None:
    grouped = aggregate(A, {"s": col(A, "s")}, n=count_rows())
    # The cast comes after a predicate that stays, so it stays too.
    plan = where(grouped, eq(col(grouped, "s"), lit("v")), eq(col(grouped, "n"), big(1)),
                 fails(grouped))  # fmt: skip
    assert (
        shown(push_filters.apply(plan))
        == """
Filter n = 1 AND cast(s AS BIGINT) > 0
  Aggregate count(*) AS n by s
    Filter s = 'v'
      Scan a
"""
    )


def test_a_failing_key_predicate_sinks_if_it_comes_first() -> None:
    grouped = aggregate(A, {"s": col(A, "s")}, n=count_rows())
    plan = push_filters.apply(where(grouped, fails(grouped), eq(col(grouped, "n"), big(1))))
    assert isinstance(plan, Filter)
    assert plan.predicate == eq(col(grouped, "n"), big(1))


def test_a_constant_stays_above_a_global_aggregate() -> None:
    plan = where(aggregate(A, {}, n=count_rows()), FALSE)
    assert push_filters.apply(plan) is plan


def test_a_filter_stays_above_a_top_k() -> None:
    plan = where(top(A, 3, SortKey(0)), eq(col(A, "x"), big(1)))
    assert push_filters.apply(plan) is plan


# -- flatten_joins -----------------------------------------------------------------------------


def test_nested_joins_become_one_with_projections_above() -> None:
    inner: Plan = cross(A, B)
    inner = where(inner, eq(col(inner, "x"), col(inner, "x", 1)))
    named = select(inner, k=call("add", col(inner, "id"), big(1), type=BIGINT), v=col(inner, "y"))
    outer: Plan = cross(named, C)
    outer = where(outer, eq(col(outer, "k"), col(outer, "id")))
    assert (
        shown(flatten_joins.apply(push_filters.apply(outer)))
        == """
Project id#0 + 1 AS k, y#2 AS v, id#8, x#9, y#10, s#11
  Join on x#1 = x#5 AND id#0 + 1 = id#8
    Scan a
    Scan b
    Scan c
"""
    )


def test_an_aggregate_keeps_its_join_apart() -> None:
    grouped = aggregate(A, {"x": col(A, "x")}, n=count_rows())
    plan = cross(grouped, B)
    assert flatten_joins.apply(plan) is plan


def test_a_filter_that_may_fail_stays_on_a_scan() -> None:
    plan = cross(where(A, fails(A)), B)
    assert flatten_joins.apply(push_filters.apply(plan)) is plan


# -- propagate_constants, derive_input_filters -------------------------------------------------


def test_a_constant_reaches_all_equal_columns() -> None:
    j = cross(A, B, C)
    plan = where(j, eq(col(j, "x"), col(j, "x", 1)), eq(col(j, "x", 1), col(j, "id", 2)))
    joined = push_filters.apply(plan)
    limited = push_filters.apply(where(joined, call("in", col(j, "x"), big(1), big(2))))
    text = shown(push_filters.apply(propagate_constants.apply(limited)))
    assert (
        text
        == """
Join on x#1 = x#5 AND x#5 = id#8
  Filter x IN (1, 2)
    Scan a
  Filter x IN (1, 2)
    Scan b
  Filter id IN (1, 2)
    Scan c
"""
    )


def test_an_or_over_two_inputs_restricts_each() -> None:
    j = cross(A, B)
    x, y = col(j, "x"), col(j, "x", 1)
    branches = either(both(eq(x, big(1)), eq(y, big(2))), both(eq(x, big(2)), eq(y, big(1))))
    once = derive_input_filters.apply(push_filters.apply(where(j, branches)))
    assert (
        shown(once)
        == """
Join on x#1 = 1 AND x#5 = 2 OR x#1 = 2 AND x#5 = 1
  Filter x = 1 OR x = 2
    Scan a
  Filter x = 2 OR x = 1
    Scan b
"""
    )
    assert derive_input_filters.apply(once) is once


def test_a_branch_without_a_safe_conjunct_restricts_nothing() -> None:
    j = cross(A, B)
    plan = push_filters.apply(
        where(j, either(both(eq(col(j, "x"), big(1)), eq(col(j, "x", 1), big(1))), fails(j)))
    )
    assert derive_input_filters.apply(plan) is plan


# -- projections -------------------------------------------------------------------------------


def test_projections_merge_unless_that_grows() -> None:
    one = select(A, v=call("add", col(A, "id"), col(A, "x"), type=BIGINT))
    two = select(one, v=call("add", col(one, "v"), big(1), type=BIGINT))
    assert (
        shown(merge_projects.apply(two))
        == """
Project id + x + 1 AS v
  Scan a
"""
    )
    tower: Plan = one
    for _ in range(30):
        tower = select(tower, v=call("add", col(tower, "v"), col(tower, "v"), type=BIGINT))
    assert len(repr(optimize(tower))) < 100_000


def test_identity_projections_go_but_the_root_keeps_its_names() -> None:
    renamed = Project(A, tuple(col(A, n) for n in ("id", "x", "y", "s")), B.schema)
    assert remove_identity_projects.apply(renamed) is A
    plan = select(A, p=col(A, "id"), q=col(A, "x"), r=col(A, "y"), z=col(A, "s"))
    assert [f.name for f in optimize(plan, check=True).schema] == ["p", "q", "r", "z"]


def test_pruning_keeps_what_is_read() -> None:
    j = cross(A, aggregate(B, {"x": col(B, "x")}, n=count_rows(), t=total(col(B, "y"))))
    joined = push_filters.apply(where(j, eq(col(j, "x"), col(j, "x", 1))))
    plan = select(joined, s=col(j, "s"), t=col(j, "t"))
    assert (
        shown(prune_columns.apply(plan))
        == """
Project s, t
  Join on x#0 = x#2
    Project x, s
      Scan a
    Aggregate sum(y) AS t by x
      Scan b
"""
    )


def test_pruning_leaves_a_row_its_column_and_a_global_aggregate_its_call() -> None:
    counted = aggregate(cross(A, B), {}, n=count_rows())
    assert (
        shown(prune_columns.apply(counted))
        == """
Aggregate count(*) AS n of all rows
  Join (every pair)
    Project id
      Scan a
    Project id
      Scan b
"""
    )
    one = select(aggregate(A, {}, n=count_rows(), t=total(col(A, "y"))), k=lit(1))
    assert "count(*)" in shown(prune_columns.apply(one))


def test_pruning_keeps_the_ties_of_a_top_k() -> None:
    best = top(A, 3, SortKey(1))
    plan = select(best, id=col(best, "id"))
    assert prune_columns.apply(plan) is plan


def test_distinct_over_unique_columns_is_a_projection() -> None:
    grouped = aggregate(A, {"x": col(A, "x")}, n=count_rows())
    again = aggregate(grouped, {"x": col(grouped, "x"), "n": col(grouped, "n")})
    assert isinstance(remove_distinct.apply(again), Project)
    other = aggregate(grouped, {"n": col(grouped, "n")})
    assert remove_distinct.apply(other) is other


# -- driver and validation ---------------------------------------------------------------------


RULES = (
    fold_constants, factor_disjunctions, push_filters, merge_projects, remove_identity_projects,
    flatten_joins, remove_distinct, propagate_constants, derive_input_filters, prune_columns,
)  # fmt: skip


@pytest.mark.parametrize("rule", RULES, ids=lambda r: r.__name__.rsplit(".", 1)[-1])
def test_a_rule_with_nothing_to_do_returns_the_same_object(rule: object) -> None:
    apply: Callable[[Plan], Plan] = rule.apply  # type: ignore[attr-defined]
    plan = aggregate(A, {"s": col(A, "s")}, n=count_rows(), t=total(col(A, "x")))
    assert apply(plan) is plan


def test_rules_that_undo_each_other_are_detected() -> None:
    there, back = where(A, eq(col(A, "x"), big(1))), where(A, eq(col(A, "x"), big(2)))
    flip = Pass("flip", (lambda p: back if p == there else there,), repeat=True)
    with pytest.raises(RuntimeError, match="'flip' undo each other"):
        optimizer._run_all((flip,), there, check=False)


def test_a_shared_subtree_stays_shared() -> None:
    shared = where(A, call("and", TRUE, eq(col(A, "x"), big(1))))
    plan = fold_constants.apply(UnionAll((shared, shared), A.schema))
    assert isinstance(plan, UnionAll)
    assert plan.inputs[0] is plan.inputs[1]


def test_validation_names_the_rule() -> None:
    with pytest.raises(PlanError, match=r"some rule changed the columns from BIGINT, .* to BIGINT"):
        check_rewrite(A, select(A, id=col(A, "id")), "some rule")
    lying = Filter(A, eq(call("add", col(A, "id"), lit(1), type=BIGINT), big(1)))
    with pytest.raises(PlanError, match=r"add\(BIGINT, INT\)"):
        check(lying)
    column = col(A, "y")
    wrong = select(A, y=type(column)(2, BIGINT, False, "y"))
    with pytest.raises(PlanError, match="read as NOT NULL"):
        check(wrong)


# -- limit_windows -----------------------------------------------------------------------------


def _ranked(function: str) -> Window:
    return Window(A, (1,), (SortKey(2, True, False),), (), (WindowCall(function, (), INT, False),))


def test_ranks_up_to_k_join_the_places_of_the_first_rows() -> None:
    window = _ranked("rank")
    first = where(window, call("le", col(window, "rank"), Literal(3, INT)))
    assert (
        shown(limit_windows.apply(first))
        == """
Window rank() by y DESC for each x
  SemiJoin on x#1 <=> x#4 AND y#2 <=> y#5
    Scan a
    Project x, y
      TopK by y DESC limit 3 for each x
        Scan a
"""
    )


def test_dense_ranks_up_to_k_join_the_first_places() -> None:
    window = _ranked("dense_rank")
    second = where(window, call("eq", col(window, "dense_rank"), Literal(2, INT)))
    assert (
        shown(limit_windows.apply(second))
        == """
Filter dense_rank = 2
  Window dense_rank() by y DESC for each x
    SemiJoin on x#1 <=> x#4 AND y#2 <=> y#5
      Scan a
      TopK by y DESC limit 2 for each x
        Distinct x, y
          Scan a
"""
    )


def test_a_share_of_the_rows_is_no_top_k() -> None:
    window = _ranked("rank")
    share = WindowCall("cume_dist", (), DOUBLE, False)
    both_read = replace(window, calls=(*window.calls, share))
    plan = where(both_read, call("le", col(both_read, "rank"), Literal(3, INT)))
    assert limit_windows.apply(plan) is plan
