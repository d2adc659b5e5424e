"""Inputs whose columns only together equal something of another input are joined first.

    Join[a.i = b.i AND a.x + b.y = c.k](a, b, c)
        ->  Join[key = c.k](Project[*, a.x + b.y AS key](Join[a.i = b.i](a, b)), c)

The inner join is stored with its key, which then is looked up: a pair of a and b finds its rows of
c, and a row of c its pairs. A single row (an aggregate without groups) that the side reads too
becomes part of the inner join.

Law: applied only where the inputs would not be connected otherwise. A predicate on the inner inputs
moves inside, except one that may fail and that the query writes after the equality; the key is
evaluated on the rows that pass.
"""

from __future__ import annotations

from dataclasses import dataclass

from planner.analysis.join_view import JoinView, is_equality
from planner.analysis.keys import TableKey, matches_once
from planner.calculus.algebra import Join, Plan, Project, identity
from planner.calculus.expr import Call, Column, Expr, condition, conjunction, remap
from planner.calculus.failing import may_fail
from planner.calculus.types import Field
from planner.calculus.visit import transform


def apply(plan: Plan, table_key: TableKey) -> Plan:
    return transform(plan, lambda p: _nest(p, table_key))


@dataclass(frozen=True, slots=True)
class _Key:
    """The side `argument` of conjunct `position`, and the inputs to join for it, ascending."""

    position: int
    argument: int
    group: tuple[int, ...]


def _nest(plan: Plan, table_key: TableKey) -> Plan:
    if not isinstance(plan, Join) or plan.predicate is None:
        return plan
    view = JoinView.of(plan)
    component = view.components()
    if len(set(component)) == 1:
        return plan
    key = _find(view, component, table_key)
    if key is None:
        return plan
    join, moved = _nested(view, key)
    outputs = tuple(remap(e, moved) for e in identity(plan.schema))
    return Project(_nest(join, table_key), outputs, plan.schema)


def _find(view: JoinView, component: list[int], table_key: TableKey) -> _Key | None:
    """A key of several inputs that links two components of many rows; one that cannot fail first,
    then in the order of the query."""
    many = {
        c
        for c, i in zip(component, view.inputs, strict=True)
        if not matches_once(i, frozenset(), table_key)
    }
    found = ((may_fail(p), k) for k, p in enumerate(view.parts) if is_equality(p))
    for _, position in sorted(found):
        p = view.parts[position]
        assert isinstance(p, Call)
        reads = [view.readers(a) for a in p.args]
        ends = [{component[i] for i in r} & many for r in reads]
        if len(ends[0]) != 1 or len(ends[1]) != 1 or ends[0] == ends[1]:
            continue
        for argument, other in ((0, 1), (1, 0)):
            parts_of = ends[argument] | {component[i] for i in reads[argument]}
            group = tuple(i for i, c in enumerate(component) if c in parts_of)
            if len(reads[argument]) > 1 and reads[other].isdisjoint(group):
                return _Key(position, argument, group)
    return None


def _nested(view: JoinView, key: _Key) -> tuple[Join, dict[int, int]]:
    """The join with the group as its first input, and where the columns are in it."""
    rest = [i for i in range(len(view.inputs)) if i not in key.group]
    local = view.together(key.group)

    equality = view.parts[key.position]
    assert isinstance(equality, Call)
    value = remap(equality.args[key.argument], local)
    inner = [p for k, p in enumerate(view.parts) if _moves(view, p, k, key)]
    predicate = condition([remap(p, local) for p in inner])
    join = Join(tuple(view.inputs[i] for i in key.group), predicate)
    field = Field("key", value.type, value.nullable)
    exprs = (*identity(join.schema), value)
    keyed = Project(join, exprs, (*join.schema, field))

    outside = view.together(rest)
    moved = {**local, **{c: len(keyed.schema) + k for c, k in outside.items()}}
    left: list[Expr] = []
    for k, p in enumerate(view.parts):
        if k == key.position:
            column = Column(len(local), value.type, value.nullable, field.name)
            sides = tuple(
                column if n == key.argument else remap(a, moved)
                for n, a in enumerate(equality.args)
            )
            left.append(Call(equality.function, sides, equality.type, equality.nullable))
        elif p not in inner:
            left.append(remap(p, moved))
    return Join((keyed, *(view.inputs[i] for i in rest)), conjunction(tuple(left))), moved


def _moves(view: JoinView, predicate: Expr, position: int, key: _Key) -> bool:
    """Whether a conjunct goes into the inner join; an equality that connects its inputs has to."""
    readers = view.readers(predicate)
    if not readers or not readers.issubset(key.group):
        return False
    before = position < key.position
    return before or not may_fail(predicate) or view.linked(predicate) is not None
