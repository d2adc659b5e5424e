"""Which inputs of a join equalities connect: those with one input on either side, each its own."""

from __future__ import annotations

from collections.abc import Iterable

from planner.calculus.algebra import Join
from planner.calculus.expr import Call, Expr, columns_used


def homes(plan: Join) -> list[int]:
    """The input that each column of the join comes from."""
    return [i for i, x in enumerate(plan.inputs) for _ in x.schema]


def is_equality(predicate: Expr) -> bool:
    return isinstance(predicate, Call) and predicate.function in ("eq", "eq_null_safe")


def linked(predicate: Expr, home: list[int]) -> tuple[int, int] | None:
    """The two inputs that an equality links."""
    if not (isinstance(predicate, Call) and is_equality(predicate)):
        return None
    a, b = ({home[c] for c in columns_used(x)} for x in predicate.args)
    if len(a) != 1 or len(b) != 1 or a == b:
        return None
    return a.pop(), b.pop()


def components(plan: Join, parts: Iterable[Expr], home: list[int]) -> list[int]:
    """For each input of the join one of those that `parts` connect it with, the same for all."""
    component = list(range(len(plan.inputs)))
    for p in parts:
        link = linked(p, home)
        if link is not None:
            old, new = component[link[0]], component[link[1]]
            component = [new if c == old else c for c in component]
    return component
