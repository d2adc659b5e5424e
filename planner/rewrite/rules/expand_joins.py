"""Semi, anti, mark and outer joins in terms of inner joins.

    SemiJoin[c](l, r)    ->   Join(l, matched), l's columns
    AntiJoin[c](l, r)    ->   l minus the same
    MarkJoin[c](l, r)    ->   the same with TRUE, l minus the same with FALSE
    LeftJoin[c](l, r)    ->   Join[c](l, r), and l minus the matched, padded with NULLs
    FullJoin[c](l, r)    ->   the same, and r minus the matched, padded with NULLs

`matched` has one row for each binding that has a match, so that the inner join copies nothing:

    condition                              matched
    any, r has at most one match           r itself
    equalities of the two sides, and       the distinct values of r's sides of the equalities; the
    conditions on one side alone           empty binding where there are none
    these, and one inequality of a side    the greatest or least value of r's side for each of
    of l with one of r                     them: then the join is a threshold (make_thresholds)
    any                                    the distinct bindings of the columns of l that the
                                           condition reads, of the smallest part of l that has them
                                           (planner.rewrite.domains) joined with r

It changes when the count of a binding's matches becomes zero or ceases to be, as its other changes
touch no column that the join reads. What is left of l is told by sign: l is never stored for it.

Bindings of a join l of which other inputs than theirs throw most rows away are those of l itself,
whose rows are kept then: a change of r looks up few rows, and l is computed once, not in each of
the joins that read it. (Suppliers of one nation, and of their many late lineitems those whose order
has another supplier: a lineitem finds none of them in 24 of 25 cases.)

Law: the conditions are evaluated on pairs of rows that the query pairs too.
"""

from __future__ import annotations

from dataclasses import dataclass

from planner.analysis.constants import FALSE, TRUE
from planner.analysis.equality import plain_column
from planner.analysis.join_view import JoinView
from planner.analysis.keys import TableKey, matches_once
from planner.analysis.ranges import MIRRORED
from planner.analysis.restriction import is_selective
from planner.calculus.algebra import (
    Aggregate,
    AggregateCall,
    Filter,
    Join,
    Keep,
    MarkJoin,
    Minus,
    OuterJoin,
    Plan,
    Project,
    SemiJoin,
    UnionAll,
    identity,
)
from planner.calculus.expr import (
    Call,
    Column,
    Expr,
    Literal,
    columns_used,
    conjunction,
    remap,
)
from planner.calculus.expr import condition as condition_of
from planner.calculus.failing import may_fail
from planner.calculus.types import BOOLEAN, Field, Schema
from planner.calculus.visit import transform
from planner.rewrite.domains import provider


def apply(plan: Plan, table_key: TableKey) -> Plan:
    return transform(plan, lambda p: expand(p, table_key))


def expand(plan: Plan, table_key: TableKey) -> Plan:
    match plan:
        case SemiJoin():
            left = _kept(plan.left, plan.right, plan.condition, table_key)
            matched = _matching(left, plan.right, plan.condition, table_key)
            if not plan.anti:
                return matched
            return Minus(left, matched)
        case MarkJoin():
            left = _kept(plan.left, plan.right, plan.condition, table_key)
            matched = _matching(left, plan.right, plan.condition, table_key)
            without = Minus(_with(left, FALSE, plan.schema), _with(matched, FALSE, plan.schema))
            return UnionAll((_with(matched, TRUE, plan.schema), without), plan.schema)
        case OuterJoin():
            return _outer(plan, table_key)
        case _:
            return plan


def _with(plan: Plan, mark: Literal, schema: Schema) -> Plan:
    return Project(plan, (*identity(plan.schema), mark), schema)


def _outer(plan: OuterJoin, table_key: TableKey) -> Plan:
    left, right = _kept(plan.left, plan.right, plan.condition, table_key), plan.right
    schema = plan.schema
    join = Join((left, right), plan.condition)
    # Columns of the join itself may be NOT NULL: the union's are nullable where a side is padded.
    matched = _matching(left, right, plan.condition, table_key)
    nulls = tuple(Literal(None, f.type) for f in right.schema)
    parts: list[Plan] = [join, Minus(_padded(left, (), nulls), _padded(matched, (), nulls))]
    if plan.full:
        a, b = len(left.schema), len(right.schema)
        at = {**{c: b + c for c in range(a)}, **{a + c: c for c in range(b)}}
        mirrored = None if plan.condition is None else remap(plan.condition, at)
        matched = _matching(right, left, mirrored, table_key)
        nulls = tuple(Literal(None, f.type) for f in left.schema)
        parts.append(Minus(_padded(right, nulls, ()), _padded(matched, nulls, ())))
    return UnionAll(tuple(parts), schema)


def _padded(plan: Plan, before: tuple[Expr, ...], after: tuple[Expr, ...]) -> Plan:
    exprs = (*before, *identity(plan.schema), *after)
    fields = tuple(
        Field(e.name if isinstance(e, Column) else "null", e.type, e.nullable) for e in exprs
    )
    return Project(plan, exprs, fields)


@dataclass(frozen=True, slots=True)
class _Condition:
    """Conjuncts over the columns of left, then right, by what they read."""

    equal: tuple[tuple[Expr, Expr, Expr], ...]  # the conjunct, its side over left, over right
    left: tuple[Expr, ...]
    right: tuple[Expr, ...]
    other: tuple[Expr, ...]


def _sorted(view: JoinView) -> _Condition:
    equal: list[tuple[Expr, Expr, Expr]] = []
    left: list[Expr] = []
    right: list[Expr] = []
    other: list[Expr] = []
    for p in view.parts:
        readers, sides = view.readers(p), view.sides(p)
        if sides is not None:
            equal.append((p, *sides))
        elif 1 not in readers:
            left.append(p)
        elif 0 not in readers:
            right.append(p)
        else:
            other.append(p)
    return _Condition(tuple(equal), tuple(left), tuple(right), tuple(other))


def _kept(left: Plan, right: Plan, condition: Expr | None, table_key: TableKey) -> Plan:
    """`left` as it is to be read: kept, where its own rows are the bindings to choose."""
    view = JoinView.over((left, right), condition)
    width, parts = len(left.schema), _sorted(view)
    by_key = not parts.other or _extreme(view, parts.other) is not None
    if by_key or _is_unique(parts, right, width, table_key):
        return left
    if is_selective(left, _bound(parts, width), table_key):
        return Keep(left)
    return left


def _is_unique(parts: _Condition, right: Plan, width: int, table_key: TableKey) -> bool:
    """Whether the equalities find at most one row of `right`."""
    plain = (plain_column(e) for _, _, e in parts.equal)
    found = frozenset(c.index - width for c in plain if c is not None)
    return matches_once(right, found, table_key)


def _bound(parts: _Condition, width: int) -> tuple[int, ...]:
    """Columns of the left input that the condition reads."""
    condition = (*(p for p, _, _ in parts.equal), *parts.left, *parts.other)
    return tuple(sorted(c for c in columns_used(*condition) if c < width))


def _matching(left: Plan, right: Plan, condition: Expr | None, table_key: TableKey) -> Plan:
    """The rows of `left` that have a match."""
    view = JoinView.over((left, right), condition)
    width, parts = len(left.schema), _sorted(view)
    if parts.right:
        right = Filter(right, conjunction(tuple(view.local(p, 1) for p in parts.right)))
    predicates: list[Expr]
    if _is_unique(parts, right, width, table_key):
        predicates = [*(p for p, _, _ in parts.equal), *parts.left, *parts.other]
        return _joined(left, right, predicates)
    extreme = _extreme(view, parts.other)
    if parts.other and extreme is None:
        return _by_bindings(left, right, parts)
    keys = tuple(view.local(e, 1) for _, _, e in parts.equal)
    calls: tuple[AggregateCall, ...] = ()
    if extreme is not None:
        value = view.local(extreme.value, 1)
        calls = (AggregateCall(extreme.aggregate, value, value.type, True),)
    elif not keys:
        keys = (TRUE,)
    fields = tuple(
        Field(e.name if isinstance(e, Column) else f"key{i}", e.type, e.nullable)
        for i, e in enumerate(keys)
    )
    fields += tuple(Field(c.function, c.type, c.nullable) for c in calls)
    matched = Aggregate(right, keys, calls, fields)
    predicates = list(parts.left)
    columns = identity(matched.schema, width)
    for (p, a, _), b in zip(parts.equal, columns, strict=False):
        assert isinstance(p, Call)
        predicates.append(Call(p.function, (a, b), BOOLEAN, p.nullable))
    if extreme is not None:
        sides = (extreme.side, columns[-1])
        predicates.append(Call(extreme.comparison, sides, BOOLEAN, True))
    return _joined(left, matched, predicates)


@dataclass(frozen=True, slots=True)
class _Extreme:
    """`side`, of the left columns, `comparison` some `value` of the right ones: that is, their
    greatest or least, by `aggregate`."""

    side: Expr
    comparison: str
    value: Expr
    aggregate: str


def _extreme(view: JoinView, conditions: tuple[Expr, ...]) -> _Extreme | None:
    """The one condition that is left, if an extreme decides it; it cannot fail."""
    if len(conditions) != 1 or may_fail(conditions[0]):
        return None
    (p,) = conditions
    if not (isinstance(p, Call) and p.function in MIRRORED):
        return None
    left, right = p.args
    mirrored = MIRRORED[p.function]
    for a, b, comparison in ((left, right, p.function), (right, left, mirrored)):
        if view.readers(a) == {0} and view.readers(b) == {1}:
            aggregate = "max" if comparison in ("lt", "le") else "min"
            return _Extreme(a, comparison, b, aggregate)
    return None


def _by_bindings(left: Plan, right: Plan, parts: _Condition) -> Plan:
    width = len(left.schema)
    condition = (*(p for p, _, _ in parts.equal), *parts.left, *parts.other)
    bound = _bound(parts, width)
    source, at = provider(left, bound)
    moved = dict(zip(bound, at, strict=True))
    moved.update({width + c: len(source.schema) + c for c in range(len(right.schema))})
    pairs = Join((source, right), conjunction(tuple(remap(p, moved) for p in condition)))
    columns = identity(pairs.schema)
    keys = tuple(columns[c] for c in at)
    matched = Aggregate(pairs, keys, (), tuple(pairs.schema[c] for c in at))
    strict = {
        c.index
        for p, a, _ in parts.equal
        if isinstance(p, Call) and p.function == "eq"
        for c in (plain_column(a),)
        if c is not None
    }
    predicates: list[Expr] = []
    for c, b in zip(bound, identity(matched.schema, width), strict=True):
        a = identity(left.schema)[c]
        if c in strict or not a.nullable:
            predicates.append(Call("eq", (a, b), BOOLEAN, a.nullable or b.nullable))
        else:
            predicates.append(Call("eq_null_safe", (a, b), BOOLEAN, False))
    return _joined(left, matched, predicates)


def _joined(left: Plan, right: Plan, predicates: list[Expr]) -> Plan:
    join = Join((left, right), condition_of(predicates))
    return Project(join, identity(left.schema), left.schema)
