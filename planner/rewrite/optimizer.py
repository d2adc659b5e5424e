"""The rewrite rules in order, and the driver that runs them.

A plan goes through `PASSES` in turn. A pass with `repeat` runs its rules again and again until one
whole round changes nothing; the others run once, because what they add sinks in a later pass and
would be added again. The order, and why:

1. settle      What moves freely moves before subqueries become joins, so that the outer query of
               each is as small as it can be.
2. decorrelate Subqueries become joins (`decorrelate`); outer joins whose padding is thrown away
               become inner ones.
3. normalise   Constants first, since folded predicates cannot fail and so move further; what is
               empty under one that is FALSE goes. Filters
               sink, nested joins become one, projections rise above joins and merge.
4. infer       With each join in one node, derive what its predicate implies for single inputs.
5. sink        Normalise again with the derived predicates.
6. limit       Windows of which the first rows are asked for are over a top-k.
7. prune       Only the columns that are read. It puts projections under joins, so no rule that
               pulls them up may follow.
8. tidy        Projections that pruning left on top of each other.

`prepare` then leaves the algebra of the query for what can be lowered, knowing the tables' keys:

1. rounds      Rows of recursive relations carry their rounds; normalised with what follows.
2. expand      Aggregates of a left join's right side go below it; then outer, semi and mark joins,
               single rows and distinct aggregates in terms of inner joins and aggregates.
3. normalise   As above, for the joins that came together.
4. restrict    Aggregates of which a join reads few groups; normalised again, as these aggregate a
               join.
5. split       Joins by an OR of equalities become unions; inputs that together have the one key
               to another input, or that keep few rows, become a join of their own.
6. prune, tidy As above.
7. thresholds  Comparisons with a scalar; pruned and tidied again.

Invariant: the root's columns keep their names and types. With `check` on, every rule's result is
validated (planner.validate).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from planner.analysis.keys import TableKey
from planner.calculus.algebra import Plan, Project, Retain, identity
from planner.calculus.types import Field, Schema
from planner.calculus.visit import equal, remembering
from planner.rewrite import decorrelate
from planner.rewrite.rules import (
    carry_rounds,
    derive_input_filters,
    drop_empty,
    expand_joins,
    expand_single_rows,
    factor_disjunctions,
    flatten_joins,
    fold_constants,
    keep_joins,
    lift_outer_joins,
    limit_windows,
    make_thresholds,
    merge_projects,
    nest_joins,
    propagate_constants,
    prune_columns,
    push_aggregates,
    push_filters,
    remove_distinct,
    remove_identity_projects,
    restrict_aggregates,
    shorten_ties,
    simplify_outer_joins,
    split_disjunctive_joins,
    split_distinct_aggregates,
)
from planner.validate import check as check_plan
from planner.validate import check_rewrite

Rule = Callable[[Plan], Plan]


@dataclass(frozen=True, slots=True)
class Pass:
    name: str
    rules: tuple[Rule, ...]
    repeat: bool


_NORMALISE: tuple[Rule, ...] = (
    fold_constants.apply,
    drop_empty.apply,
    factor_disjunctions.apply,
    push_filters.apply,
    simplify_outer_joins.apply,
    lift_outer_joins.apply,
    merge_projects.apply,
    remove_identity_projects.apply,
    flatten_joins.apply,
    remove_distinct.apply,
)

PASSES: tuple[Pass, ...] = (
    Pass("settle", _NORMALISE, repeat=True),
    Pass("decorrelate", (decorrelate.apply,), repeat=False),
    Pass("normalise", _NORMALISE, repeat=True),
    Pass("infer", (propagate_constants.apply, derive_input_filters.apply), repeat=False),
    Pass("sink", _NORMALISE, repeat=True),
    Pass("limit", (limit_windows.apply,), repeat=False),
    Pass("prune", (prune_columns.apply,), repeat=False),
    Pass("tidy", (merge_projects.apply, remove_identity_projects.apply), repeat=True),
)


def _prepare_passes(table_key: TableKey) -> tuple[Pass, ...]:
    expand: tuple[Rule, ...] = (
        partial(shorten_ties.apply, table_key=table_key),
        partial(push_aggregates.apply, table_key=table_key),
        split_distinct_aggregates.apply,
        partial(expand_single_rows.apply, table_key=table_key),
        partial(expand_joins.apply, table_key=table_key),
    )
    restrict: Rule = partial(restrict_aggregates.apply, table_key=table_key)
    keep: Rule = partial(keep_joins.apply, table_key=table_key)
    nest: Rule = partial(nest_joins.apply, table_key=table_key)
    thresholds: Rule = partial(make_thresholds.apply, table_key=table_key)
    tidy = PASSES[-2:]
    return (
        Pass("rounds", (partial(carry_rounds.apply, table_key=table_key),), repeat=False),
        Pass("expand", expand, repeat=False),
        Pass("normalise", _NORMALISE, repeat=True),
        Pass("restrict", (restrict,), repeat=False),
        Pass("normalise", _NORMALISE, repeat=True),
        Pass("split", (split_disjunctive_joins.apply, nest, keep), repeat=False),
        *tidy,
        Pass("thresholds", (thresholds,), repeat=False),
        *tidy,
    )


#: The plan that each rule last left as it is: it need not look at that again.
_Settled = dict[Rule, Plan]

#: Far more than a plan needs: each round moves something one node further at least.
_MOST_ROUNDS = 1000


def optimize(plan: Plan, *, check: bool = False) -> Plan:
    """An equivalent plan that is cheaper to maintain; see the module for how.

    Raises: RuntimeError if rules undo each other (a defect of the rules).
    """
    if check:
        check_plan(plan)
    return _named(_run_all(PASSES, plan, check), plan.schema)


def prepare(plan: Plan, table_key: TableKey, *, check: bool = False) -> Plan:
    """The optimized plan in the part of the algebra that can be lowered: no OuterJoin, SemiJoin,
    MarkJoin, SingleRow and Apply, and no DISTINCT inside an aggregate."""
    return _named(_run_all(_prepare_passes(table_key), plan, check), plan.schema)


def _run_all(stages: tuple[Pass, ...], plan: Plan, check: bool) -> Plan:
    settled = _Settled()
    with remembering():
        for stage in stages:
            plan = _run(stage, plan, check, settled)
    return plan


def _run(stage: Pass, plan: Plan, check: bool, settled: _Settled) -> Plan:
    seen = [plan]
    for _ in range(_MOST_ROUNDS):
        before = plan
        for rule in stage.rules:
            if settled.get(rule) is plan:
                continue
            after = rule(plan)
            if after is plan:
                settled[rule] = plan
            if check and after is not plan:
                check_rewrite(plan, after, _title(rule))
            plan = after
        if plan is before or not stage.repeat:
            return plan
        if any(equal(plan, s) for s in seen):
            raise RuntimeError(f"the rules of pass {stage.name!r} undo each other")
        seen.append(plan)
    raise RuntimeError(f"pass {stage.name!r} does not settle in {_MOST_ROUNDS} rounds")


def _title(rule: Rule) -> str:
    function = rule.func if isinstance(rule, partial) else rule
    return str(function.__module__)


def _named(plan: Plan, schema: Schema) -> Plan:
    """The plan with the column names of `schema`."""
    if isinstance(plan, Retain):
        return Retain(_named(plan.input, schema))
    if tuple(f.name for f in plan.schema) == tuple(f.name for f in schema):
        return plan
    fields = tuple(
        Field(old.name, new.type, new.nullable)
        for old, new in zip(schema, plan.schema, strict=True)
    )
    exprs = plan.exprs if isinstance(plan, Project) else identity(plan.schema)
    return Project(plan.input if isinstance(plan, Project) else plan, exprs, fields)
