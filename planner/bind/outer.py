"""References to the columns of enclosing queries.

A name that a subquery does not know is looked up in the clause around it, and so on outwards; what
is found there becomes `Outer` of the number of subqueries in between. A plan is bound before it is
known over which row its Apply will stand (an aggregation may come between), so its outer
references are moved afterwards, by `rewrite`.

Invariant: `Outer(depth, …)` counts the subqueries of expressions and LATERAL joins alone; a derived
table or a CTE is at the depth of the query around it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from sqlglot import exp

from planner.bind.resolve import Enclosing, Resolver
from planner.bind.scope import Ctes, Scope
from planner.calculus.algebra import (
    Aggregate,
    AggregateCall,
    Apply,
    Filter,
    Join,
    MarkJoin,
    OuterJoin,
    Plan,
    Project,
    Recursive,
    RecursiveRef,
    Scan,
    SemiJoin,
    UnionAll,
    Values,
)
from planner.calculus.expr import Call, Column, Expr, Literal, Outer, transform, walk

#: An expression, and how many subqueries are around it below the plan that is rewritten, plus one.
Change = Callable[[Expr, int], Expr]


@dataclass(frozen=True, slots=True)
class Environment:
    """What a query sees besides its own FROM: CTEs, and the names of the clause around it.

    `beside`: the relations before it in FROM, which it does not see.
    """

    ctes: Ctes
    outer: Enclosing | None = None
    beside: Scope | None = None

    def inside(self, resolver: Resolver) -> Environment:
        """The environment of a subquery in a clause with these names."""
        moved = {name: deeper(plan) for name, plan in self.ctes.items()}
        return Environment(moved, _Around(resolver))


class _Around:
    """The names of a clause, as its subqueries see them."""

    def __init__(self, resolver: Resolver) -> None:
        self._resolver = resolver

    def find(self, node: exp.Column) -> Expr | None:
        found = self._resolver.reach(node)
        return None if found is None else transform(found, _outward)

    def aggregate(self, node: exp.Expression) -> Expr | None:
        found = self._resolver.aggregate(node)
        return None if found is None else transform(found, _outward)

    def known(self, qualified: bool) -> list[str]:
        return self._resolver.known(qualified)


def _outward(expr: Expr) -> Expr:
    match expr:
        case Column():
            return Outer(1, expr.index, expr.type, expr.nullable, expr.name)
        case Outer():
            return replace(expr, depth=expr.depth + 1)
        case _:
            return expr


def _inward(expr: Expr) -> Expr:
    return (
        Column(expr.index, expr.type, expr.nullable, expr.name) if isinstance(expr, Outer) else expr
    )


def deeper(plan: Plan, least: int = 1) -> Plan:
    """A plan that is used one subquery further in than where it was bound; `least`: for what is at
    least so far out."""

    def change(expr: Expr, depth: int) -> Expr:
        first = depth + least - 1
        return transform(
            expr,
            lambda e: (
                replace(e, depth=e.depth + 1) if isinstance(e, Outer) and e.depth >= first else e
            ),
        )

    return rewrite(plan, change)


def outer_columns(plan: Plan) -> frozenset[int]:
    """The columns of the row around the subquery that it reads."""
    found: set[int] = set()

    def look(expr: Expr, depth: int) -> Expr:
        found.update(e.index for e in walk(expr) if isinstance(e, Outer) and e.depth == depth)
        return expr

    rewrite(plan, look)
    return frozenset(found)


def move_outer(plan: Plan, move: Callable[[Expr], Expr]) -> Plan:
    """A subquery whose row around it is replaced: `move` takes expressions over the old one."""

    def change(expr: Expr, depth: int) -> Expr:
        leaves = [e for e in walk(expr) if not isinstance(e, Call)]
        around = [isinstance(e, Outer) and e.depth == depth for e in leaves]
        if not any(around):
            return expr
        if all(a or isinstance(e, Literal) for a, e in zip(around, leaves, strict=True)):
            # The largest expression of outer columns alone: it may be a grouping key as a whole.
            moved = move(transform(expr, _inward))
            return transform(moved, lambda e: _at(e, depth))
        assert isinstance(expr, Call)
        return replace(expr, args=tuple(change(a, depth) for a in expr.args))

    return rewrite(plan, change)


def _at(expr: Expr, depth: int) -> Expr:
    match expr:
        case Column():
            return Outer(depth, expr.index, expr.type, expr.nullable, expr.name)
        case Outer():
            return replace(expr, depth=expr.depth + depth)
        case _:
            return expr


def rewrite(plan: Plan, change: Change) -> Plan:
    """The plan with every expression changed; what does not change stays the same object."""
    done: dict[tuple[int, int], Plan] = {}

    def visit(node: Plan, depth: int) -> Plan:
        known = done.get((id(node), depth))
        if known is None:
            known = done[id(node), depth] = _rebuilt(node, depth)
        return known

    def many(exprs: tuple[Expr, ...], depth: int) -> tuple[Expr, ...]:
        new = tuple(change(e, depth) for e in exprs)
        return exprs if _same(new, exprs) else new

    def one(expr: Expr | None, depth: int) -> Expr | None:
        return None if expr is None else change(expr, depth)

    def call(c: AggregateCall, depth: int) -> AggregateCall:
        return c.over(lambda e: change(e, depth))

    def _rebuilt(node: Plan, depth: int) -> Plan:
        fields: dict[str, object]
        match node:
            case Scan() | Values() | RecursiveRef():
                return node
            case Recursive():
                fields = {"body": visit(node.body, depth)}
            case Filter():
                predicate = change(node.predicate, depth)
                fields = {"input": visit(node.input, depth), "predicate": predicate}
            case Project():
                fields = {"input": visit(node.input, depth), "exprs": many(node.exprs, depth)}
            case Join():
                inputs = _kept(tuple(visit(i, depth) for i in node.inputs), node.inputs)
                fields = {"inputs": inputs, "predicate": one(node.predicate, depth)}
            case UnionAll():
                inputs = _kept(tuple(visit(i, depth) for i in node.inputs), node.inputs)
                fields = {"inputs": inputs}
            case OuterJoin() | SemiJoin() | MarkJoin():
                fields = {
                    "left": visit(node.left, depth),
                    "right": visit(node.right, depth),
                    "condition": one(node.condition, depth),
                }
            case Aggregate():
                calls = tuple(call(c, depth) for c in node.aggregates)
                fields = {
                    "input": visit(node.input, depth),
                    "keys": many(node.keys, depth),
                    "aggregates": _kept(calls, node.aggregates),
                }
            case Apply():
                fields = {
                    "input": visit(node.input, depth),
                    "subquery": visit(node.subquery, depth + 1),
                    "operands": many(node.operands, depth),
                }
            case _:
                fields = {"input": visit(node.input, depth)}
        if all(getattr(node, name) is value for name, value in fields.items()):
            return node
        return replace(node, **fields)  # type: ignore[arg-type]

    return visit(plan, 1)


def _same(new: tuple[object, ...], old: tuple[object, ...]) -> bool:
    return all(a is b for a, b in zip(new, old, strict=True))


def _kept(new: tuple[object, ...], old: tuple[object, ...]) -> tuple[object, ...]:
    return old if _same(new, old) else new
