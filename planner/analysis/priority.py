"""Labels that a recursion hands on, of which each key keeps the least.

    r(key, label) AS (
        SELECT key, min(label) FROM (start UNION ALL what rows of r lead to) GROUP BY key)

Where a label is taken from a row of r as it is, and nothing else depends on it, a label that is
the least of its key in the end was so at each key that it came over: one that had a smaller one
would have handed on that. So the labels of `start` may wait for rounds by their size, the small
ones first, and every row is there as many rounds behind its label's start as it is without that.
The others are then mostly never the least of a key.
"""

from __future__ import annotations

from planner.calculus import functions
from planner.calculus.algebra import (
    LABEL_ROUNDS,
    Aggregate,
    Filter,
    Join,
    Keep,
    Plan,
    Project,
    Recursive,
    RecursiveRef,
    SemiJoin,
    UnionAll,
)
from planner.calculus.expr import Call, Column, Expr, Literal, columns_used
from planner.calculus.types import BIGINT, IntegerType
from planner.calculus.visit import walk


def delay_of(label: Column) -> Expr:
    """The rounds that a label waits, below `MOST_DELAY`, by the number of its bits: by then those
    that have fewer are mostly everywhere. Not NULL."""
    bits = Call("magnitude", (label,), BIGINT, label.nullable)
    apart = functions.arithmetic("multiply", bits, Literal(LABEL_ROUNDS, BIGINT))
    return functions.scalar("greatest", (Literal(0, BIGINT), apart))


def label_of(plan: Recursive) -> tuple[int, dict[int, int]] | None:
    """The column of a recursion's rows that is such a label; and where the label is in each plan
    below that hands in new ones, by its id."""
    if plan.all or plan.turns > 1:
        return None
    body, at = plan.body, list(range(len(plan.schema)))
    while isinstance(body, Project):
        columns = [e.index for e in body.exprs if isinstance(e, Column)]
        if len(columns) < len(body.exprs):
            return None
        at = [columns[i] for i in at]
        body = body.input
    if not isinstance(body, Aggregate) or len(body.aggregates) != 1:
        return None
    (call,) = body.aggregates
    label = call.arg
    if call.function != "min" or not isinstance(label, Column) or at.count(len(body.keys)) != 1:
        return None
    if not isinstance(label.type, IntegerType) or label.index in columns_used(*body.keys):
        return None
    labels = _Labels(plan.number, at.index(len(body.keys)))
    return (labels.column, labels.starts) if labels.is_at(body.input, label.index) else None


class _Labels:
    """Follows the label down; `starts`: see `label_of`."""

    def __init__(self, number: int, column: int) -> None:
        self.column = column
        self.starts: dict[int, int] = {}
        self._number = number

    def is_at(self, plan: Plan, at: int) -> bool:
        """Whether the rows of the recursion below leave their label in this column, and nowhere
        else, and nothing looks at it."""
        if not self._reads(plan):
            return self.starts.setdefault(id(plan), at) == at
        match plan:
            case RecursiveRef():
                return at == self.column
            case Project():
                label = plan.exprs[at]
                others = (*plan.exprs[:at], *plan.exprs[at + 1 :])
                return (
                    isinstance(label, Column)
                    and label.index not in columns_used(*others)
                    and self.is_at(plan.input, label.index)
                )
            case Filter():
                return at not in columns_used(plan.predicate) and self.is_at(plan.input, at)
            case UnionAll():
                return all(self.is_at(i, at) for i in plan.inputs)
            case Keep():
                return self.is_at(plan.input, at)
            case SemiJoin() if not self._reads(plan.right):
                looked_at = plan.condition is not None and at in columns_used(plan.condition)
                return not looked_at and self.is_at(plan.left, at)
            case Join():
                if plan.predicate is not None and at in columns_used(plan.predicate):
                    return False
                first = 0
                found = False
                for i in plan.inputs:
                    width = len(i.schema)
                    if self._reads(i):
                        if found or not first <= at < first + width:
                            return False
                        found = self.is_at(i, at - first)
                        if not found:
                            return False
                    first += width
                return found
            case _:
                return False

    def _reads(self, plan: Plan) -> bool:
        return any(isinstance(p, RecursiveRef) and p.number == self._number for p in walk(plan))
