"""Keep only the columns that something above reads.

Every join input, and every input of UNION ALL, gets a Project to the columns that are read of it;
aggregates and expressions that nobody reads go. What is stored below a join, a top-k or a reduce
is then as narrow as it can be. Runs once, last: later rules only clean up after it.

Law: dropping an expression drops the errors that it alone could raise. GROUP BY keys stay, as does
one aggregate of a global aggregate (its one row), and all columns that break ties in a top-k or a
window. A window of which no column is read goes.
"""

from __future__ import annotations

from dataclasses import replace

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
from planner.calculus.expr import Column, Expr, columns_used, remap
from planner.calculus.visit import equal, with_inputs

Positions = dict[int, int]


def apply(plan: Plan) -> Plan:
    every = tuple(range(len(plan.schema)))
    reading = _Pruning({})
    narrowed = reading.exactly(plan, every)
    if reading.differs:
        narrowed = _Pruning(reading.read).exactly(plan, every)
    return plan if equal(narrowed, plan) else narrowed


class _Pruning:
    """Narrows every node once for each set of columns that is read of it, so that what is shared
    stays shared. What several read of an aggregate or of kept rows each has what any of them
    reads, so that they are stored once: `known` is what is read of these, as `read` finds in a
    first pass. That is the last one unless several read them and read of them what `differs`."""

    def __init__(self, known: dict[Plan, frozenset[int]]) -> None:
        self._known = known
        self.read: dict[Plan, frozenset[int]] = {}
        self.differs = False
        self._exact: dict[tuple[int, tuple[int, ...]], Plan] = {}
        self._narrowed: dict[tuple[int, frozenset[int]], tuple[Plan, Positions]] = {}

    def exactly(self, plan: Plan, columns: tuple[int, ...]) -> Plan:
        """`plan` with just these columns, in this order."""
        key = (id(plan), columns)
        if key not in self._exact:
            self._exact[key] = self._exactly(plan, columns)
        return self._exact[key]

    def narrow(self, plan: Plan, needed: frozenset[int]) -> tuple[Plan, Positions]:
        """A plan that still has the needed columns, and where they are in it."""
        if isinstance(plan, (Aggregate, Keep)):
            before = self.read.get(plan, needed)
            self.differs |= before != needed
            self.read[plan] = needed | before
            needed |= self._known.get(plan, frozenset())
        key = (id(plan), needed)
        if key not in self._narrowed:
            self._narrowed[key] = self._narrow(plan, needed)
        return self._narrowed[key]

    def _exactly(self, plan: Plan, columns: tuple[int, ...]) -> Plan:
        if isinstance(plan, Retain):
            return Retain(self.exactly(plan.input, columns))
        narrow, at = self.narrow(plan, frozenset(columns))
        if columns and tuple(at[c] for c in columns) == tuple(range(len(narrow.schema))):
            return narrow
        columns = columns or (0,)  # a row needs a column
        wanted = tuple(at.get(c, 0) for c in columns)
        fields = tuple(narrow.schema[c] for c in wanted)
        exprs: tuple[Expr, ...] = tuple(
            Column(c, f.type, f.nullable, f.name) for c, f in zip(wanted, fields, strict=True)
        )
        if isinstance(narrow, Project):
            return Project(narrow.input, tuple(narrow.exprs[c] for c in wanted), fields)
        return Project(narrow, exprs, fields)

    def _narrow(self, plan: Plan, needed: frozenset[int]) -> tuple[Plan, Positions]:
        match plan:
            case Scan() | Values() | RecursiveRef():
                return plan, {c: c for c in range(len(plan.schema))}
            case TopK() | SingleRow() | Threshold() | Apply() | Recursive():
                kept_inputs = tuple(
                    self.exactly(i, tuple(range(len(i.schema)))) for i in inputs(plan)
                )
                return with_inputs(plan, kept_inputs), {c: c for c in range(len(plan.schema))}
            case Window():
                return self._narrow_window(plan, needed)
            case Repeat():
                below, at = self.narrow(plan.input, needed | {plan.count})
                return Repeat(below, at[plan.count]), at
            case Explode():
                return self._narrow_explode(plan, needed)
            case OuterJoin() | SemiJoin() | MarkJoin():
                return self._narrow_sides(plan, needed)
            case Retain():
                below, at = self.narrow(plan.input, needed)
                return Retain(below), at
            case Filter():
                below, at = self.narrow(plan.input, needed | columns_used(plan.predicate))
                return Filter(below, remap(plan.predicate, at)), at
            case Project():
                kept = tuple(sorted(needed)) or (0,)
                exprs = tuple(plan.exprs[c] for c in kept)
                below, at = self.narrow(plan.input, columns_used(*exprs))
                fields = tuple(plan.schema[c] for c in kept)
                result = Project(below, tuple(remap(e, at) for e in exprs), fields)
                return result, {c: i for i, c in enumerate(kept)}
            case Join():
                return self._narrow_join(plan, needed)
            case Aggregate():
                return self._narrow_aggregate(plan, needed)
            case Timeline():
                return self._narrow_timeline(plan, needed)
            case UnionAll():
                kept = tuple(sorted(needed)) or (0,)
                narrowed = tuple(self.exactly(i, kept) for i in plan.inputs)
                fields = tuple(plan.schema[c] for c in kept)
                return UnionAll(narrowed, fields), {c: i for i, c in enumerate(kept)}
            case Minus() | Keep():
                kept = tuple(sorted(needed)) or (0,)
                narrowed = tuple(self.exactly(i, kept) for i in inputs(plan))
                return with_inputs(plan, narrowed), {c: i for i, c in enumerate(kept)}
            case _:
                assert_never(plan)

    def _narrow_sides(
        self, plan: OuterJoin | SemiJoin | MarkJoin, needed: frozenset[int]
    ) -> tuple[Plan, Positions]:
        width, last = len(plan.left.schema), len(plan.left.schema) + len(plan.right.schema)
        condition = frozenset() if plan.condition is None else columns_used(plan.condition)
        outer = needed if isinstance(plan, OuterJoin) else needed & frozenset(range(width))
        read = outer | condition
        left_kept = tuple(c for c in range(width) if c in read) or (0,)
        right_kept = tuple(c for c in range(width, last) if c in read) or (width,)
        at = {c: i for i, c in enumerate((*left_kept, *right_kept))}
        new = replace(
            plan,
            left=self.exactly(plan.left, left_kept),
            right=self.exactly(plan.right, tuple(c - width for c in right_kept)),
            condition=None if plan.condition is None else remap(plan.condition, at),
        )
        if isinstance(plan, OuterJoin):
            return new, at
        positions = {c: i for i, c in enumerate(left_kept)}
        if isinstance(plan, MarkJoin):
            positions[width] = len(left_kept)
        return new, positions

    def _narrow_explode(self, plan: Explode, needed: frozenset[int]) -> tuple[Plan, Positions]:
        width = len(plan.input.schema)
        own = frozenset(c for c in needed if c < width)
        below, at = self.narrow(plan.input, own | {plan.array})
        made = {width + i: len(below.schema) + i for i in range(2)}
        return Explode(below, at[plan.array], plan.outer), {**at, **made}

    def _narrow_window(self, plan: Window, needed: frozenset[int]) -> tuple[Plan, Positions]:
        width = len(plan.input.schema)
        kept = [i for i in range(len(plan.calls)) if width + i in needed]
        if not kept:
            return self.narrow(plan.input, needed)
        calls = tuple(plan.calls[i] for i in kept)
        ends = [e for c in calls for e in (c.frame.start, c.frame.end) if e.kind == "value"]
        read = {*plan.partition, *plan.ties, *(k.column for k in plan.order)}
        read |= {a for c in calls for a in c.args} | {e.offset for e in ends}
        own = tuple(sorted(read | {c for c in needed if c < width})) or (0,)
        at = {c: i for i, c in enumerate(own)}
        new = Window(
            self.exactly(plan.input, own),
            tuple(at[c] for c in plan.partition),
            tuple(replace(k, column=at[k.column]) for k in plan.order),
            tuple(at[c] for c in plan.ties),
            tuple(c.moved(at) for c in calls),
        )
        at.update({width + c: len(own) + i for i, c in enumerate(kept)})
        return new, at

    def _narrow_join(self, plan: Join, needed: frozenset[int]) -> tuple[Plan, Positions]:
        if plan.predicate is not None:
            needed |= columns_used(plan.predicate)
        narrowed: list[Plan] = []
        at: Positions = {}
        start = width = 0
        for i in plan.inputs:
            own = tuple(c for c in range(len(i.schema)) if start + c in needed) or (0,)
            narrowed.append(self.exactly(i, own))
            at.update({start + c: width + k for k, c in enumerate(own)})
            start += len(i.schema)
            width += len(own)
        predicate = None if plan.predicate is None else remap(plan.predicate, at)
        return Join(tuple(narrowed), predicate), at

    def _narrow_aggregate(self, plan: Aggregate, needed: frozenset[int]) -> tuple[Plan, Positions]:
        first = len(plan.keys)
        kept = [c for c in range(len(plan.aggregates)) if first + c in needed]
        if not kept and not plan.keys:
            kept = [0]
        calls = tuple(plan.aggregates[c] for c in kept)
        args = tuple(e for a in calls for e in a.args)
        below, at = self.narrow(plan.input, columns_used(*plan.keys, *args))
        fields = plan.schema[:first] + tuple(plan.schema[first + c] for c in kept)
        calls = tuple(a.over(lambda e: remap(e, at)) for a in calls)
        result = Aggregate(below, tuple(remap(k, at) for k in plan.keys), calls, fields)
        positions = {c: c for c in range(first)}
        positions.update({first + c: first + i for i, c in enumerate(kept)})
        return result, positions

    def _narrow_timeline(self, plan: Timeline, needed: frozenset[int]) -> tuple[Plan, Positions]:
        """As an aggregate; the rounds stay."""
        first, width = len(plan.keys), len(plan.input.schema)
        kept = [c for c in range(len(plan.aggregates)) if first + c in needed]
        calls = tuple(plan.aggregates[c] for c in kept)
        read = columns_used(*plan.keys, *(e for a in calls for e in a.args))
        own = (*sorted(c for c in read if c < width - 2), width - 2, width - 1)
        at = {c: i for i, c in enumerate(own)}
        fields = (*plan.schema[:first], *(plan.schema[first + c] for c in kept), *plan.schema[-2:])
        calls = tuple(a.over(lambda e: remap(e, at)) for a in calls)
        keys = tuple(remap(k, at) for k in plan.keys)
        result = Timeline(self.exactly(plan.input, own), keys, calls, fields)
        positions = {c: c for c in range(first)}
        positions.update({first + c: first + i for i, c in enumerate(kept)})
        last, ends = len(plan.schema), len(fields)
        return result, {**positions, last - 2: ends - 2, last - 1: ends - 1}
