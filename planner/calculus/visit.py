"""Walking and rebuilding algebra plans.

Invariant: a rewrite that changes nothing returns the object that it was given, so that "did this
rule do anything" is an identity test; and a subtree that occurs twice (a CTE used twice) is
rewritten once and stays one object.

A rule is run many times over a plan that hardly changes in between. Within `remembering()` a
subtree that a change left as it was is not visited by it again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from operator import is_

from typing_extensions import assert_never

from planner.calculus.algebra import (
    Aggregate,
    Apply,
    Explode,
    Filter,
    Join,
    Keep,
    MarkJoin,
    Minus,
    OuterJoin,
    Plan,
    Project,
    Recursive,
    RecursiveRef,
    Repeat,
    Retain,
    Scan,
    SemiJoin,
    SingleRow,
    Threshold,
    Timeline,
    TopK,
    UnionAll,
    Values,
    Window,
    inputs,
)
from planner.calculus.expr import Expr


def with_inputs(plan: Plan, new: tuple[Plan, ...]) -> Plan:
    """The same node over other inputs; the same object if they are the same objects."""
    old = inputs(plan)
    if len(old) == len(new) and all(map(is_, old, new)):
        return plan
    match plan:
        case Scan() | Values() | RecursiveRef():
            raise ValueError("a scan has no inputs")
        case Recursive():
            return replace(plan, body=new[0])
        case Join() | UnionAll():
            return replace(plan, inputs=new)
        case OuterJoin() | SemiJoin() | MarkJoin():
            return replace(plan, left=new[0], right=new[1])
        case Minus():
            return replace(plan, input=new[0], part=new[1])
        case Apply():
            return replace(plan, input=new[0], subquery=new[1])
        case Threshold():
            return replace(plan, input=new[0], bound=new[1])
        case (
            Filter()
            | Project()
            | Aggregate()
            | Timeline()
            | Repeat()
            | Explode()
            | TopK()
            | Window()
        ):
            return replace(plan, input=new[0])
        case Retain() | SingleRow() | Keep():
            return replace(plan, input=new[0])
        case _:
            assert_never(plan)


#: By change: subtrees that it leaves as they are, by identity.
_Unchanged = dict[Callable[[Plan], Plan], dict[int, Plan]]
_UNCHANGED: ContextVar[_Unchanged | None] = ContextVar("unchanged", default=None)


@contextmanager
def remembering() -> Iterator[None]:
    """Let `transform` remember what each change left as it was, until the end of the block."""
    token = _UNCHANGED.set({})
    try:
        yield
    finally:
        _UNCHANGED.reset(token)


def transform(plan: Plan, change: Callable[[Plan], Plan]) -> Plan:
    """Rebuild bottom-up, applying `change`, a function of the node alone, to every node over its
    rebuilt inputs.

    Cost: one call of `change` per distinct node object; within `remembering`, per one that is new.
    """
    unchanged = _UNCHANGED.get()
    same: dict[int, Plan] = {} if unchanged is None else unchanged.setdefault(change, {})
    changed: dict[int, Plan] = {}

    def visit(node: Plan) -> Plan:
        place = id(node)
        if place in same:
            return node
        known = changed.get(place)
        if known is None:
            below = inputs(node)
            new = tuple(map(visit, below))
            known = change(node if all(map(is_, below, new)) else with_inputs(node, new))
            if known is node:
                same[place] = node  # kept, so that its id stays its own
            else:
                changed[place] = known
        return known

    return visit(plan)


def equal(left: Plan, right: Plan) -> bool:
    """`left == right`, each pair of nodes compared once, however often they are shared."""
    known: dict[tuple[int, int], bool] = {}

    def same(a: Plan, b: Plan) -> bool:
        if a is b:
            return True
        key = (id(a), id(b))
        if key not in known:
            below, others = inputs(a), inputs(b)
            known[key] = (
                type(a) is type(b)
                and len(below) == len(others)
                and all(same(x, y) for x, y in zip(below, others, strict=True))
                and (with_inputs(a, others) if others else a) == b
            )
        return known[key]

    return same(left, right)


def walk(plan: Plan) -> Iterator[Plan]:
    """`plan` and every node object under it once, after all that read it."""
    return (node for node, _ in nodes(plan))


def nodes(plan: Plan) -> list[tuple[Plan, int]]:
    """What `walk` gives, with how often each occurs: the number of ways down to it.
    Cost: O(nodes), however often they are shared."""
    known = {id(plan)}
    done: list[Plan] = []
    stack: list[tuple[Plan, Iterator[Plan]]] = [(plan, iter(inputs(plan)))]
    while stack:
        node, rest = stack[-1]
        below = next(rest, None)
        if below is None:
            done.append(node)
            stack.pop()
        elif id(below) not in known:
            known.add(id(below))
            stack.append((below, iter(inputs(below))))
    done.reverse()
    ways = dict.fromkeys(known, 0)
    ways[id(plan)] = 1
    for node in done:
        for below in inputs(node):
            ways[id(below)] += ways[id(node)]
    return [(node, ways[id(node)]) for node in done]


def is_recursive(plan: Plan) -> bool:
    """Whether the plan is a part of the body of a recursive relation, and reads its rows."""
    found = list(walk(plan))
    own = {p.number for p in found if isinstance(p, Recursive)}
    return any(isinstance(p, RecursiveRef) and p.number not in own for p in found)


def expressions(plan: Plan) -> tuple[Expr, ...]:
    """The expressions of this node alone, over its input's columns."""
    match plan:
        case Filter():
            return (plan.predicate,)
        case Project():
            return plan.exprs
        case Join():
            return () if plan.predicate is None else (plan.predicate,)
        case OuterJoin() | SemiJoin() | MarkJoin():
            return () if plan.condition is None else (plan.condition,)
        case Aggregate() | Timeline():
            return plan.keys + tuple(e for a in plan.aggregates for e in a.args)
        case Apply():
            return plan.operands
        case Scan() | Values() | UnionAll() | Repeat() | Explode() | TopK() | Retain():
            return ()
        case SingleRow() | Threshold() | Window() | Recursive() | RecursiveRef():
            return ()
        case Minus() | Keep():
            return ()
        case _:
            assert_never(plan)


def with_expressions(plan: Plan, change: Callable[[Expr], Expr]) -> Plan:
    """The node with each of its own expressions changed; the same object if none changes."""
    old = expressions(plan)
    new = tuple(change(e) for e in old)
    if all(map(is_, old, new)):
        return plan
    match plan:
        case Filter():
            return replace(plan, predicate=new[0])
        case Project():
            return replace(plan, exprs=new)
        case Join():
            return replace(plan, predicate=new[0])
        case OuterJoin() | SemiJoin() | MarkJoin():
            return replace(plan, condition=new[0])
        case Aggregate() | Timeline():
            args = iter(new[len(plan.keys) :])
            calls = tuple(a.over(lambda _: next(args)) for a in plan.aggregates)
            return replace(plan, keys=new[: len(plan.keys)], aggregates=calls)
        case Apply():
            return replace(plan, operands=new)
        case _:
            raise ValueError(f"{type(plan).__name__} has no expressions")
