"""Loops: the nodes that run round by round, and what identifies them.

The nodes over a `Variable` are nodes like any other, and shared by structure like them. So that
only those of equal loops are, a variable has its loop's digest: that of the lowered body and all
that the loop does, in which the variable itself is nameless.
"""

from __future__ import annotations

import hashlib
from dataclasses import fields, replace
from typing import Any

from planner import dataflow
from planner.analysis.priority import delay_of
from planner.calculus.algebra import Recursive, RecursiveRef, identity
from planner.dataflow import Loop, Node, Reduce, Variable
from planner.errors import UnsupportedError
from planner.lower.timelines import counted_rows
from planner.serialise import PLAN


def variable_of(ref: RecursiveRef) -> Variable:
    """The rows of a reference, by a name that holds within one plan."""
    return Variable(f"#{ref.number}", ref.schema, ref.all, ref.marks)


def loop_over(plan: Recursive, body: Node) -> Loop:
    """The loop of a recursive relation whose lowered `body` reads `variable_of` its references.

    State: the variable's rows; where each is there once, the groups of the body's rows too.
    """
    found = [n for n in dataflow.topological(body) if isinstance(n, Variable)]
    (variable,) = [v for v in found if v.loop == f"#{plan.number}"]
    counted = body if plan.all else counted_rows(body)
    delay = None
    if plan.label is not None:
        delay = delay_of(identity(variable.schema)[plan.label])
    loop = Loop(variable, counted, plan.limit, plan.turns, delay)
    for node in dataflow.inside(loop):
        if not isinstance(node, _RUN) or (isinstance(node, Reduce) and not node.keys):
            raise UnsupportedError(
                f'cannot maintain the recursive "{plan.name}"',
                detail=f"Its body needs {type(node).__name__} over its own rows in every round.",
                hint="Compute what does not need its rows in a view of its own, and join that.",
            )
    nameless = _renamed(loop, variable, replace(variable, loop=""))
    digest = hashlib.sha256(PLAN.write(nameless).encode()).hexdigest()[:32]
    return _renamed(loop, variable, replace(variable, loop=digest))


def _renamed(loop: Loop, old: Variable, new: Variable) -> Loop:
    """The loop with another variable. Cost: its nodes, each once."""
    done: dict[int, tuple[Any, Any]] = {}

    def value(given: Any) -> Any:
        if isinstance(given, tuple):
            changed = tuple([value(g) for g in given])
            return (
                changed if any(a is not b for a, b in zip(given, changed, strict=True)) else given
            )
        if not isinstance(given, _NODES):
            return given
        if isinstance(given, Variable) and given == old:
            return new
        known = done.get(id(given))
        if known is None:
            names = [f.name for f in fields(given) if f.init]
            before = [getattr(given, name) for name in names]
            after = [value(b) for b in before]
            same = all(a is b for a, b in zip(before, after, strict=True))
            known = done[id(given)] = given, given if same else type(given)(*after)
        return known[1]

    result: Loop = value(loop)
    return result


#: What runs in rounds.
_RUN = (
    dataflow.Map, dataflow.Union, dataflow.Repeat, dataflow.DeltaJoin, dataflow.Store,
    dataflow.Reduce, dataflow.Timeline, dataflow.Explode,
)  # fmt: skip
#: What holds nodes.
_NODES = (
    dataflow.Map, dataflow.Union, dataflow.Repeat, dataflow.Threshold, dataflow.Store,
    dataflow.Accumulator, dataflow.Reduce, dataflow.Recompute, dataflow.Arrangement,
    dataflow.HashArrangement, dataflow.OrderedArrangement, dataflow.JoinInput, dataflow.HalfJoin,
    dataflow.RangeJoin, dataflow.CountedJoin, dataflow.DeltaPath, dataflow.DeltaJoin, dataflow.TopK,
    dataflow.Window, dataflow.Loop, dataflow.Variable, dataflow.Timeline, dataflow.Explode,
)  # fmt: skip
