"""Rounds as data: the body of a recursive relation says of each row which round it was made of.

    Recursive(body over RecursiveRef)  ->  Recursive(body' over RecursiveRef'), both with a round

The reference gets one more column, the round of its rows, and every node above it hands it on: a
join of several references the latest of their rounds, what reads no reference has the round -1.

Legal where a row of the body needs rows of the reference to be there, and no row not to be:
filters, projections, inner joins, the preserved side of outer joins, the left side of semi and anti
joins.
Where rows are there once (UNION), how often a row is made does not matter, only whether: so there
may be several references, DISTINCT goes, and a semi join with a reference on its right is a join.
Illegal, and refused with the reference's place: aggregates, windows, LIMIT, NOT EXISTS, the side of
an outer join that is padded, a loop within a loop.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from planner import functions
from planner.algebra import (
    Aggregate,
    Filter,
    Join,
    MarkJoin,
    OuterJoin,
    Plan,
    Project,
    Recursive,
    RecursiveRef,
    Retain,
    SemiJoin,
    TopK,
    UnionAll,
    Window,
    identity,
    inputs,
)
from planner.errors import UnsupportedError
from planner.expr import Column, Expr, Literal, remap
from planner.types import BIGINT, Field
from planner.visit import transform, walk

_ROUND = Field("round", BIGINT, False)
#: Of what is made of no row of the relation.
_NEVER = Literal(-1, BIGINT)


def apply(plan: Plan) -> Plan:
    return transform(plan, _carry)


def _carry(plan: Plan) -> Plan:
    if not isinstance(plan, Recursive) or plan.counted:
        return plan
    if not any(_is_ref(p, plan.number) for p in walk(plan.body)):  # it was simplified away
        return (
            plan.body if plan.all else Aggregate(plan.body, identity(plan.schema), (), plan.schema)
        )
    for below in walk(plan.body):
        if isinstance(below, RecursiveRef) and below.number != plan.number:
            raise _refusal(
                below,
                f'the recursive "{plan.name}" inside of the recursive "{below.name}"',
                "is a loop within a loop",
                "Make the inner one a view of its own, and read that.",
            )
    return replace(plan, body=_Carrying(plan).carried(plan.body), counted=True)


def _is_ref(plan: Plan, number: int) -> bool:
    return isinstance(plan, RecursiveRef) and plan.number == number


class _Carrying:
    """Rewrites each distinct node of one body once."""

    def __init__(self, plan: Recursive) -> None:
        self._plan = plan
        self._done: dict[int, Plan] = {}
        self._reads: dict[int, RecursiveRef | None] = {}

    def carried(self, plan: Plan) -> Plan:
        """The plan with one more column, the round."""
        if id(plan) not in self._done:
            self._done[id(plan)] = self._carried(plan)
        return self._done[id(plan)]

    def _ref(self, plan: Plan) -> RecursiveRef | None:
        """A reference that the plan reads."""
        if id(plan) not in self._reads:
            found = plan if isinstance(plan, RecursiveRef) else None
            for below in inputs(plan):
                found = found or self._ref(below)
            self._reads[id(plan)] = found
        return self._reads[id(plan)]

    def _carried(self, plan: Plan) -> Plan:
        ref = self._ref(plan)
        if ref is None:
            columns = identity(plan.schema)
            return Project(plan, (*columns, _NEVER), (*plan.schema, _ROUND))
        match plan:
            case RecursiveRef():
                return replace(plan, schema=(*plan.schema, _ROUND))
            case Filter():
                return Filter(self.carried(plan.input), plan.predicate)
            case Project():
                below = self.carried(plan.input)
                return Project(below, (*plan.exprs, _last(below)), (*plan.schema, _ROUND))
            case UnionAll() if not any(plan.negated):
                return UnionAll(tuple(map(self.carried, plan.inputs)), (*plan.schema, _ROUND))
            case Join():
                return self._join(plan)
            case Aggregate() if not plan.aggregates and plan.keys and not self._plan.all:
                below = self.carried(plan.input)
                return Project(below, (*plan.keys, _last(below)), (*plan.schema, _ROUND))
            case SemiJoin() if self._ref(plan.right) is None:
                return self._left(
                    plan, plan.left, lambda new, c: replace(plan, left=new, condition=c)
                )
            case MarkJoin() if self._ref(plan.right) is None:
                return self._left(
                    plan, plan.left, lambda new, c: replace(plan, left=new, condition=c)
                )
            case OuterJoin() if not plan.full and self._ref(plan.right) is None:
                return self._left(
                    plan, plan.left, lambda new, c: replace(plan, left=new, condition=c)
                )
            case SemiJoin() if not plan.anti and not self._plan.all:
                width = len(plan.left.schema)
                both = self.carried(Join((plan.left, plan.right), plan.condition))
                kept = (*identity(both.schema)[:width], _last(both))
                return Project(both, kept, (*plan.schema, _ROUND))
            case _:
                raise self._refusal(plan, ref)

    def _join(self, plan: Join) -> Plan:
        """Inputs that read no reference stay as they are."""
        at: dict[int, int] = {}
        new: list[Plan] = []
        rounds: list[int] = []
        start = width = 0
        for i in plan.inputs:
            reads = self._ref(i) is not None
            new.append(self.carried(i) if reads else i)
            at.update({start + c: width + c for c in range(len(i.schema))})
            start += len(i.schema)
            width += len(new[-1].schema)
            if reads:
                rounds.append(width - 1)
        predicate = None if plan.predicate is None else remap(plan.predicate, at)
        join = Join(tuple(new), predicate)
        columns = identity(join.schema)
        found: list[Expr] = [columns[c] for c in rounds]
        latest = found[0] if len(found) == 1 else functions.scalar("greatest", found)
        kept = tuple(columns[at[c]] for c in range(start))
        return Project(join, (*kept, latest), (*plan.schema, _ROUND))

    def _left(
        self,
        plan: SemiJoin | MarkJoin | OuterJoin,
        left: Plan,
        over: Callable[[Plan, Expr | None], Plan],
    ) -> Plan:
        """A join that keeps the rows of its left side, which has the references."""
        width, right = len(left.schema), len(plan.right.schema)
        at = {c: c if c < width else c + 1 for c in range(width + right)}
        condition = None if plan.condition is None else remap(plan.condition, at)
        new = over(self.carried(left), condition)
        columns = identity(new.schema)
        kept = tuple(columns[c if c < width else c + 1] for c in range(len(plan.schema)))
        return Project(new, (*kept, columns[width]), (*plan.schema, _ROUND))

    def _refusal(self, plan: Plan, ref: RecursiveRef) -> UnsupportedError:
        name = f'the recursive "{self._plan.name}"'
        fewer = "Compute it above the recursion, over all of its rows."
        match plan:
            case Aggregate() if plan.aggregates or not plan.keys:
                what, why = (
                    "an aggregate over",
                    "is read by an aggregate, whose rows rounds take back",
                )
            case Aggregate():
                what, why = "DISTINCT over", "is read by DISTINCT, and UNION ALL keeps every row"
                fewer = "Write UNION in place of UNION ALL."
            case TopK():
                what, why = (
                    "ORDER BY with LIMIT over",
                    "is read by LIMIT, whose rows rounds take back",
                )
            case Retain():
                what, why = "events joined with", "is read by events at their epoch, which is gone"
                fewer = "Keep the events in a view of its own, and join that."
            case Window():
                what, why = "a window over", "is read by a window, whose values each round changes"
            case OuterJoin():
                what = "an outer join that pads"
                why = "is on the side of an outer join that is padded with NULL until it has a row"
                fewer = "Put it on the other side, or use an inner join."
            case SemiJoin(anti=False):
                what, why = "a semi join with", "is asked whether it has a row, under UNION ALL"
                fewer = "Write UNION in place of UNION ALL, or a join."
            case SemiJoin() | MarkJoin():
                what, why = "NOT EXISTS or a condition over", "is asked whether it has no row"
            case _:
                what = f"{type(plan).__name__} over"
                why = "is read by what rounds would have to take back"
        return _refusal(ref, f"{what} {name}", why, fewer)


def _refusal(ref: RecursiveRef, what: str, why: str, hint: str) -> UnsupportedError:
    return UnsupportedError(
        f"cannot maintain {what}",
        detail=f'"{ref.name}" at line {ref.line}, column {ref.column} {why}.',
        hint=hint,
        line=ref.line,
        column=ref.column,
    )


def _last(plan: Plan) -> Column:
    return identity(plan.schema)[-1]
