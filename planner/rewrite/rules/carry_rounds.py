"""Rounds as data: the body of a recursive relation says of each row in which rounds it is there.

    Recursive(body over RecursiveRef)  ->  Recursive(body' over RecursiveRef'), both with rounds

The reference gets more columns, the rounds of its rows, every node above it hands them on, and the
body's row is there a round later.

What is monotone carries one round, that in which a row is there first: a join of several references
the latest of theirs; what reads no reference has the round -1, before any. Monotone is what needs a
row of the reference to be there, and no row not to be: filters, projections, inner joins, the
preserved side of outer joins, the left side of semi and anti joins. Where rows are there once
(UNION), how often a row is made does not matter, only whether: so DISTINCT goes, and a semi join
with a reference on its right is a join.

All else carries the rounds [from, to) in which a row is there:

    a join                      those in which all rows are there: the greatest from, the least to
    an aggregate, DISTINCT      Timeline: the values of a group, stretch by stretch
    semi, anti and outer joins  joins with the distinct values, and the rows that are left over, as
                                planner.rewrite.rules.expand_joins has them
    minus                       how often a row is there, by sign, and each so many times

Illegal, and refused with the reference's place: under UNION ALL what is not monotone, as a row is
there once for each way to it; windows, LIMIT, events; a loop within a loop.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from planner.analysis.constants import FALSE, TRUE
from planner.analysis.keys import TableKey
from planner.analysis.priority import delay_of, label_of
from planner.calculus import functions
from planner.calculus.algebra import (
    FOREVER,
    MOST_DELAY,
    RECOMPUTED,
    Aggregate,
    AggregateCall,
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
    SemiJoin,
    SingleRow,
    Timeline,
    TopK,
    UnionAll,
    Values,
    Window,
    identity,
    inputs,
)
from planner.calculus.expr import Call, Column, Expr, Literal, remap
from planner.calculus.types import BIGINT, BOOLEAN, Field, FloatType, Schema
from planner.calculus.visit import transform, walk
from planner.errors import UnsupportedError
from planner.rewrite.rules import expand_joins, expand_single_rows, split_distinct_aggregates

_ONE = Literal(1, BIGINT)
_FIRST = (Field("round", BIGINT, False),)
_SPAN = (Field("from", BIGINT, False), Field("to", BIGINT, False))
#: The most rounds of a relation whose labels may wait for theirs.
_MOST_LIMIT = (1 << 20) - 4 - MOST_DELAY
#: Of what is made of no row of the relation.
_ALWAYS: tuple[Expr, ...] = (Literal(-1, BIGINT), Literal(FOREVER, BIGINT))


def apply(plan: Plan, table_key: TableKey) -> Plan:
    return transform(plan, partial(_carry, table_key))


def _carry(table_key: TableKey, plan: Plan) -> Plan:
    if not isinstance(plan, Recursive) or plan.marks:
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
    try:
        return _carried(plan, _Firsts(plan))
    except _NotMonotoneError:
        return _carried(plan, _Spans(plan, table_key))


def _is_ref(plan: Plan, number: int) -> bool:
    return isinstance(plan, RecursiveRef) and plan.number == number


def _carried(plan: Recursive, carrying: _Carrying) -> Recursive:
    body = carrying.carried(plan.body)
    width = len(plan.schema)
    columns = identity(body.schema)
    rounds = [_next(plan, columns[0], c) for c in columns[width:]]
    if len(rounds) > 1:
        rounds[1] = functions.scalar("least", (rounds[1], _ALWAYS[1]))
    made = Project(body, (*columns[:width], *rounds), body.schema)
    return replace(plan, body=made, marks=len(carrying.marks), label=carrying.label)


def _next(plan: Recursive, whose: Column, round: Column) -> Expr:
    """The round in which there is what was made of rows of `round`: of several relations that take
    turns, the next one that is the row's."""
    after = functions.arithmetic("add", round, _ONE)
    if plan.turns == 1:
        return after
    turns = Literal(plan.turns, BIGINT)
    ahead = functions.arithmetic("subtract", whose, after)
    rest = functions.arithmetic("remainder", ahead, turns)
    rest = functions.arithmetic("remainder", functions.arithmetic("add", rest, turns), turns)
    return functions.arithmetic("add", after, rest)


class _NotMonotoneError(Exception):
    """What is there may have to go in a later round."""


class _Carrying:
    """Rewrites each distinct node of one body once. `marks`: the columns that say the rounds."""

    marks: Schema
    #: The column whose values wait for rounds by their size (planner.analysis.priority).
    label: int | None = None

    def __init__(self, plan: Recursive) -> None:
        self._plan = plan
        self._done: dict[int, tuple[Plan, Plan]] = {}
        self._reads: dict[int, tuple[Plan, RecursiveRef | None]] = {}

    def carried(self, plan: Plan) -> Plan:
        """The plan with the columns `marks` behind its own."""
        if id(plan) not in self._done:
            self._done[id(plan)] = plan, self._carried(plan)
        return self._done[id(plan)][1]

    def _ref(self, plan: Plan) -> RecursiveRef | None:
        """A reference that the plan reads."""
        if id(plan) not in self._reads:
            found = plan if isinstance(plan, RecursiveRef) else None
            for below in inputs(plan):
                found = found or self._ref(below)
            self._reads[id(plan)] = plan, found
        return self._reads[id(plan)][1]

    def _carried(self, plan: Plan) -> Plan:
        ref = self._ref(plan)
        if ref is None:
            exprs = (*identity(plan.schema), *self._always(plan))
            return self._projected(plan, exprs, plan.schema)
        match plan:
            case RecursiveRef():
                schema = (*plan.schema, *self.marks)
                return replace(plan, schema=schema, marks=len(self.marks))
            case Filter():
                return Filter(self.carried(plan.input), plan.predicate)
            case Project():
                below = self.carried(plan.input)
                return self._projected(below, (*plan.exprs, *self._last(below)), plan.schema)
            case UnionAll():
                return UnionAll(tuple(map(self.carried, plan.inputs)), (*plan.schema, *self.marks))
            case Keep():
                return Keep(self.carried(plan.input))
            case Repeat():
                return Repeat(self.carried(plan.input), plan.count)
            case Explode():
                return self._left(plan.input, plan, lambda new, at: replace(plan, input=new))
            case Join():
                return self._join(plan)
            case SemiJoin() | MarkJoin() | OuterJoin() if self._keeps(plan):

                def over(new: Plan, at: dict[int, int]) -> Plan:
                    condition = None if plan.condition is None else remap(plan.condition, at)
                    return replace(plan, left=new, condition=condition)

                return self._left(plan.left, plan, over)
            case TopK() | Retain() | Window():
                raise self._refusal(plan, ref)
            case _:
                return self._other(plan, ref)

    def _always(self, plan: Plan) -> tuple[Expr, ...]:
        """The rounds of what reads no reference."""
        return _ALWAYS[: len(self.marks)]

    def _keeps(self, plan: SemiJoin | MarkJoin | OuterJoin) -> bool:
        """Whether it decides about rows of its left side, which has the references, for good."""
        return self._ref(plan.right) is None and not (isinstance(plan, OuterJoin) and plan.full)

    def _join(self, plan: Join) -> Plan:
        """Inputs that read no reference stay as they are."""
        at: dict[int, int] = {}
        new: list[Plan] = []
        marks: list[int] = []
        start = width = 0
        for i in plan.inputs:
            reads = self._ref(i) is not None
            new.append(self.carried(i) if reads else i)
            at.update({start + c: width + c for c in range(len(i.schema))})
            start += len(i.schema)
            width += len(new[-1].schema)
            if reads:
                marks.append(width - len(self.marks))
        predicate = None if plan.predicate is None else remap(plan.predicate, at)
        join = Join(tuple(new), predicate)
        columns = identity(join.schema)
        kept = tuple(columns[at[c]] for c in range(start))
        # In the latest of the first rounds, until the first of the last ones.
        both = [
            found[0] if len(found) == 1 else functions.scalar(name, found)
            for found, name in zip(
                ([columns[c + k] for c in marks] for k in range(len(self.marks))),
                ("greatest", "least"),
                strict=False,
            )
        ]
        return self._while(self._projected(join, (*kept, *both), plan.schema), len(marks) > 1)

    def _while(self, plan: Plan, several: bool) -> Plan:
        """What is there in some round."""
        return plan

    def _left(self, left: Plan, plan: Plan, over: Callable[[Plan, dict[int, int]], Plan]) -> Plan:
        """What keeps the rows of its left side, which has the references, with more behind them."""
        width, more = len(left.schema), len(self.marks)
        many = len(plan.schema)
        if isinstance(plan, (SemiJoin, MarkJoin)):
            many = width + len(plan.right.schema)
        at = {c: c if c < width else c + more for c in range(many)}
        new = over(self.carried(left), at)
        columns = identity(new.schema)
        kept = tuple(columns[c if c < width else c + more] for c in range(len(plan.schema)))
        return self._projected(new, (*kept, *columns[width : width + more]), plan.schema)

    def _projected(self, plan: Plan, exprs: tuple[Expr, ...], schema: Schema) -> Project:
        return Project(plan, exprs, (*schema, *self.marks))

    def _last(self, plan: Plan) -> tuple[Column, ...]:
        return identity(plan.schema)[-len(self.marks) :]

    def _other(self, plan: Plan, ref: RecursiveRef) -> Plan:
        """What depends on more than single rows' being there."""
        raise NotImplementedError

    def _refusal(self, plan: Plan, ref: RecursiveRef) -> UnsupportedError:
        name = f'the recursive "{ref.name}"'
        fewer = "Compute it above the recursion, over all of its rows."
        union = "Write UNION in place of UNION ALL."
        match plan:
            case Aggregate() if plan.aggregates or not plan.keys:
                what, why = "an aggregate over", "is read by an aggregate, under UNION ALL"
                fewer = union
            case Aggregate():
                what, why = "DISTINCT over", "is read by DISTINCT, and UNION ALL keeps every row"
                fewer = union
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
                fewer = "Put it on the other side, or write UNION in place of UNION ALL."
            case SemiJoin(anti=False):
                what, why = "a semi join with", "is asked whether it has a row, under UNION ALL"
                fewer = "Write UNION in place of UNION ALL, or a join."
            case SemiJoin() | MarkJoin():
                what = "NOT EXISTS or a condition over"
                why, fewer = "is asked whether it has no row, under UNION ALL", union
            case _:
                what = f"{type(plan).__name__} over"
                why = "is read by what rounds would have to take back"
        return _refusal(ref, f"{what} {name}", why, fewer)


class _Firsts(_Carrying):
    """What is monotone, or has a row for each way to it."""

    marks = _FIRST

    def _other(self, plan: Plan, ref: RecursiveRef) -> Plan:
        if self._plan.all:
            raise self._refusal(plan, ref)
        match plan:
            case Aggregate() if not plan.aggregates and plan.keys:
                below = self.carried(plan.input)
                return self._projected(below, (*plan.keys, *self._last(below)), plan.schema)
            case SemiJoin() if not plan.anti:
                width = len(plan.left.schema)
                both = self.carried(Join((plan.left, plan.right), plan.condition))
                kept = (*identity(both.schema)[:width], *self._last(both))
                return self._projected(both, kept, plan.schema)
            case _:
                raise _NotMonotoneError


class _Spans(_Carrying):
    """Whatever rounds take back."""

    marks = _SPAN

    def __init__(self, plan: Recursive, table_key: TableKey) -> None:
        super().__init__(plan)
        self._table_key = table_key
        found = None if plan.limit > _MOST_LIMIT else label_of(plan)
        self.label, self._starts = found or (None, {})

    def _always(self, plan: Plan) -> tuple[Expr, ...]:
        at = self._starts.get(id(plan))
        if at is None:
            return _ALWAYS
        delay = delay_of(identity(plan.schema)[at])
        return functions.arithmetic("subtract", delay, _ONE), _ALWAYS[1]

    def _while(self, plan: Plan, several: bool) -> Plan:
        if not several:
            return plan
        return Filter(plan, Call("lt", self._last(plan), BOOLEAN, False))

    def _other(self, plan: Plan, ref: RecursiveRef) -> Plan:
        match plan:
            case Aggregate():
                return self._aggregate(plan, ref)
            case SemiJoin(anti=False):
                return self.carried(expand_joins.expand(plan, self._table_key))
            case SemiJoin():
                found = replace(plan, anti=False)
                return self.carried(Minus(plan.left, found))
            case MarkJoin():
                sides = (plan.left, plan.right, plan.condition)
                parts = [
                    Project(p, (*identity(p.schema), mark), plan.schema)
                    for p, mark in (
                        (SemiJoin(*sides, False), TRUE),
                        (SemiJoin(*sides, True), FALSE),
                    )
                ]
                return self.carried(UnionAll(tuple(parts), plan.schema))
            case OuterJoin():
                return self.carried(_padded(plan))
            case SingleRow():
                return self.carried(expand_single_rows.expand(plan, self._table_key))
            case Minus():
                return self.carried(_counted(plan))
            case _:
                raise self._refusal(plan, ref)

    def _aggregate(self, plan: Aggregate, ref: RecursiveRef) -> Plan:
        for call in plan.aggregates:
            name = call.function
            if name in RECOMPUTED or (
                call.arg is not None
                and isinstance(call.arg.type, FloatType)
                and name not in ("min", "max", "any_value", "count")
            ):
                kind = "" if call.arg is None or name in RECOMPUTED else f" of {call.arg.type}"
                raise _refusal(
                    ref,
                    f'{name.upper()}{kind} over the recursive "{ref.name}"',
                    "is read by an aggregate that rounds cannot follow",
                    "Compute it above the recursion, over all of its rows; sums are of integers "
                    "and decimals.",
                )
        split = split_distinct_aggregates.split(plan)
        if split is not plan:
            return self.carried(split)
        if not plan.keys:
            return self.carried(_by_constant(plan))
        below = self.carried(plan.input)
        return Timeline(below, plan.keys, plan.aggregates, (*plan.schema, *self.marks))


def _padded(plan: OuterJoin) -> UnionAll:
    """An outer join as the pairs, and what has no match on a side."""
    join = Join((plan.left, plan.right), plan.condition)
    a, b = len(plan.left.schema), len(plan.right.schema)
    parts: list[Plan] = [join]
    alone: Plan = SemiJoin(plan.left, plan.right, plan.condition, True)
    nulls = tuple(Literal(None, f.type) for f in plan.right.schema)
    parts.append(Project(alone, (*identity(alone.schema), *nulls), plan.schema))
    if plan.full:
        at = {**{c: b + c for c in range(a)}, **{a + c: c for c in range(b)}}
        mirrored = None if plan.condition is None else remap(plan.condition, at)
        alone = SemiJoin(plan.right, plan.left, mirrored, True)
        nulls = tuple(Literal(None, f.type) for f in plan.left.schema)
        parts.append(Project(alone, (*nulls, *identity(alone.schema)), plan.schema))
    return UnionAll(tuple(parts), plan.schema)


def _counted(plan: Minus) -> Plan:
    """What is taken away counts with the opposite sign, as how often each row is there."""
    sign = Field("sign", BIGINT, False)
    parts = tuple(
        Project(p, (*identity(p.schema), Literal(count, BIGINT)), (*plan.schema, sign))
        for p, count in ((plan.input, 1), (plan.part, -1))
    )
    every = UnionAll(parts, (*plan.schema, sign))
    columns = identity(every.schema)
    call = AggregateCall("sum", columns[-1], BIGINT, False)
    fields = (*plan.schema, Field("count", BIGINT, False))
    counted = Aggregate(every, columns[:-1], (call,), fields)
    width = len(plan.schema)
    return Project(Repeat(counted, width), identity(plan.schema), plan.schema)


def _by_constant(plan: Aggregate) -> Plan:
    """An aggregate of all rows, which is there even where none is: of the group of a constant, in
    which a row without a value is always."""
    exprs = [e for call in plan.aggregates for e in call.args]
    fields = [Field(f"value{i}", e.type, True) for i, e in enumerate(exprs)]
    schema = (Field("is_row", BOOLEAN, True), *fields)
    rows = Project(plan.input, (TRUE, *exprs), schema)
    nothing = tuple(Literal(None, f.type) for f in schema)
    every = UnionAll((rows, Values((nothing,), schema)), schema)
    columns = iter(identity(schema))
    is_row = next(columns)
    calls = tuple(
        replace(call, function="count", arg=is_row)
        if call.function == "count_rows"
        else call.over(lambda e: next(columns))
        for call in plan.aggregates
    )
    groups = Aggregate(every, (TRUE,), calls, (Field("any", BOOLEAN, False), *plan.schema))
    return Project(groups, identity(groups.schema)[1:], plan.schema)


def _refusal(ref: RecursiveRef, what: str, why: str, hint: str) -> UnsupportedError:
    return UnsupportedError(
        f"cannot maintain {what}",
        detail=f'"{ref.name}" at line {ref.line}, column {ref.column} {why}.',
        hint=hint,
        line=ref.line,
        column=ref.column,
    )
