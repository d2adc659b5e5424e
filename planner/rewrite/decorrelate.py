"""Subqueries of expressions become joins.

Every `Apply` goes, innermost first. What a subquery means for one row of its outer query is written
as `Parts`: a plan that refers to no outer row (the core), predicates and outputs over the core's
columns *and* the outer row's. Filters, projections and inner joins only move expressions into the
predicates and outputs. Where an operator has to see the rows of one outer row together (an
aggregate, a union, a top-k …), the parts are first *bound*: each outer column becomes a column of
the plan, by which that operator then groups. An outer column takes its values

    from an equality `inner = outer`     the inner expression: no outer query is needed
    otherwise                            from its domain, the distinct values that it has in the
                                         outer query (planner.rewrite.domains), joined with the core

and afterwards the bound columns are again equated with those of the outer row by predicates. So a
dependent join is removed at any depth, and the predicates that are left at the end become the
condition of an ordinary join with the outer query:

    EXISTS, IN      semi join; under NOT an anti join; elsewhere a mark
    NOT IN          an anti join with the bindings for which it is TRUE, or which a pattern of
                    NULLs leaves open: one lookup for each pattern
    scalar          left join with at most one row (SingleRow where that is not sure)
    < ANY, > ALL    left join with the least or greatest value, and counts that tell NULLs
    LATERAL         inner join, or left join

A subquery that is an aggregate without keys has a row even where its group has none: its parts are
`padded`, and the left join's NULLs stand for that row, a count of 0 put in (the COUNT bug).

Source: Neumann and Kemper, Unnesting Arbitrary Queries (2015); Galindo-Legaria and Joshi (2001).
Invariant: the result has no Apply and no Outer; its columns are those of the plan.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import product

from planner.analysis.constants import FALSE, TRUE
from planner.analysis.keys import plan_keys
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
    SemiJoin,
    SingleRow,
    UnionAll,
    identity,
    inputs,
    union_all,
)
from planner.calculus.expr import (
    Call,
    Column,
    Expr,
    Literal,
    Outer,
    columns_used,
    conjunction,
    conjuncts,
    remap,
    transform,
    walk,
)
from planner.calculus.failing import may_fail
from planner.calculus.types import BIGINT, BOOLEAN, Field, Schema
from planner.calculus.visit import expressions, with_expressions, with_inputs
from planner.errors import UnsupportedError
from planner.rewrite.domains import domain
from planner.rewrite.unnest import Around, Parts, exactly_one, project, unnest

#: NULL patterns of one NOT IN beyond which it is refused.
_MOST_PATTERNS = 26

_INVERSE = {"lt": "ge", "le": "gt", "gt": "le", "ge": "lt"}


def apply(plan: Plan) -> Plan:
    """The plan without Apply. Raises: UnsupportedError where a NOT IN has too many columns."""
    return _Decorrelation().visit(plan)


class _Decorrelation:
    def __init__(self) -> None:
        self._done: dict[int, tuple[Plan, Plan]] = {}

    def visit(self, plan: Plan) -> Plan:
        known = self._done.get(id(plan))
        if known is None:
            known = self._done[id(plan)] = (plan, self._visit(plan))
        return known[1]

    def _visit(self, plan: Plan) -> Plan:
        if isinstance(plan, Apply) and plan.is_lateral:
            chain = _Chain(self.visit(plan.input), len(plan.input.schema), ())
            chain.join(self.visit(plan.subquery), plan.kind == "left")
            return chain.result(plan.schema)
        predicates: tuple[Expr, ...] = ()
        below = plan
        applies: list[Apply] = []
        # Filters between the subqueries of one query only read what is below them.
        while _is_value(below) or _is_over_apply(below):
            if isinstance(below, Apply):
                applies.insert(0, below)
            elif isinstance(below, Filter):
                predicates = conjuncts(below.predicate) + predicates
            below = inputs(below)[0]
        if not applies:
            return with_inputs(plan, tuple(self.visit(i) for i in inputs(plan)))
        chain = _Chain(self.visit(below), len(below.schema), predicates)
        subqueries = [self.visit(a.subquery) for a in applies]
        for k in _order(len(below.schema), applies, predicates):
            chain.add(applies[k], subqueries[k], len(below.schema) + k)
        return chain.result(plan.schema)


def _is_value(plan: Plan) -> bool:
    """Whether the plan is a subquery of an expression."""
    return isinstance(plan, Apply) and not plan.is_lateral


def _is_over_apply(plan: Plan) -> bool:
    while isinstance(plan, Filter):
        plan = plan.input
        if _is_value(plan):
            return True
    return False


def _order(width: int, applies: list[Apply], predicates: tuple[Expr, ...]) -> list[int]:
    """Which subquery first: those that throw rows away by a lookup, then the others; last a bound
    that rows are compared with, so that all else is done before the rows are ordered by it."""
    ranks = []
    for k, a in enumerate(applies):
        column = width + k
        users = [p for p in predicates if column in columns_used(p)]
        if a.kind != "scalar":
            kept = any(isinstance(p, Column) for p in users)
            dropped = any(_is_negated(p, column) for p in users)
            ranks.append(0 if kept else 2 if dropped else 3)
        else:
            bound = any(isinstance(p, Call) and p.function in _INVERSE for p in users)
            ranks.append(4 if bound and not _correlated_with(a.subquery, 1) else 1)
    needs = [
        {c - width for c in _outer_columns(a.subquery) | columns_used(*a.operands) if c >= width}
        for a in applies
    ]
    order: list[int] = []
    while len(order) < len(applies):
        ready = [k for k in range(len(applies)) if k not in order and needs[k] <= set(order)]
        order.append(min(ready, key=lambda k: (ranks[k], k)))
    return order


def _is_negated(predicate: Expr, column: int) -> bool:
    match predicate:
        case Call(function="not", args=(Column(index=index),)):
            return index == column
        case _:
            return False


def _correlated_with(plan: Plan, depth: int) -> bool:
    return bool(_outer_columns(plan, depth))


def _outer_columns(plan: Plan, depth: int = 1) -> set[int]:
    """Columns of the row `depth` subqueries further out that the plan reads."""
    found = {
        e.index
        for x in expressions(plan)
        for e in walk(x)
        if isinstance(e, Outer) and e.depth == depth
    }
    for i in inputs(plan):
        deeper = depth + 1 if isinstance(plan, Apply) and i is plan.subquery else depth
        found |= _outer_columns(i, deeper)
    return found


def _brought_in(plan: Plan) -> Plan:
    """A subquery without Apply, seen from its outer query: that row's columns get depth 0."""

    def change(e: Expr) -> Expr:
        return replace(e, depth=e.depth - 1) if isinstance(e, Outer) else e

    done: dict[int, Plan] = {}

    def visit(node: Plan) -> Plan:
        if id(node) not in done:
            below = with_inputs(node, tuple(visit(i) for i in inputs(node)))
            done[id(node)] = with_expressions(below, lambda x: transform(x, change))
        return done[id(node)]

    return visit(plan)


class _Chain:
    """A query that grows by its subqueries, and what has become of its columns.

    `predicates` are applied as soon as their columns are there.
    """

    def __init__(self, plan: Plan, width: int, predicates: tuple[Expr, ...]) -> None:
        self._plan = plan
        self._values: dict[int, Expr] = dict(enumerate(identity(plan.schema)[:width]))
        self._waiting = list(predicates)

    def result(self, schema: Schema) -> Plan:
        self._filter(tuple(self._moved(p) for p in self._waiting))
        exprs = tuple(self._values[c] for c in range(len(schema)))
        if exprs == identity(self._plan.schema):
            return self._plan
        return project(self._plan, exprs, [f.name for f in schema])

    def add(self, apply: Apply, subquery: Plan, position: int) -> None:
        """Replace one Apply, whose value was the column at `position`."""
        demand = "value"
        for p in self._waiting if apply.kind != "scalar" else ():
            if isinstance(p, Column) and p.index == position:
                demand = "keep"
            elif _is_negated(p, position):
                demand = "drop"
            if demand != "value":
                self._waiting.remove(p)
                break
        operands = tuple(self._moved(o) for o in apply.operands)
        self._values[position] = self._replace(apply, _brought_in(subquery), operands, demand)
        self._place_ready()

    def join(self, subquery: Plan, outer: bool) -> None:
        """Pair every row with the rows of a subquery, whose columns come after those that are
        there; `outer`: with NULLs where it has none."""
        around = Around(self._plan, self._values)
        parts = unnest(_brought_in(subquery), around)
        if parts.padded:
            outputs, holds = self._left_join(parts, around)
            if outer and holds != TRUE:
                outputs = tuple(_case(holds, e, Literal(None, e.type)) for e in outputs)
            elif holds != TRUE:
                self._filter((holds,))
        elif outer:
            outputs = self._padded(parts, around)
        else:
            condition = _conjoined(self._attached(parts.predicates, around))
            outputs = self._attached(parts.outputs, around)
            self._plan = Join((self._plan, parts.core), condition)
        width = len(self._values)
        self._values.update({width + k: e for k, e in enumerate(outputs)})

    def _padded(self, parts: Parts, around: Around) -> tuple[Expr, ...]:
        """Left join with the parts: their outputs, NULL where there is no row of them."""
        core, condition = parts.core, self._attached(parts.predicates, around)
        # Computed columns are NULL where there is no match: they are computed below, but for those
        # that read the row around, which ask a mark.
        computed = [e for e in parts.outputs if not isinstance(e, Column) and not _reads_outer(e)]
        marks = [TRUE] if any(map(_reads_outer, parts.outputs)) else []
        exprs: tuple[Expr, ...] = (*identity(core.schema), *computed, *marks)
        below = project(core, exprs)
        first, width = len(core.schema), len(self._plan.schema)
        outputs: list[Expr] = []
        for e in parts.outputs:
            if _reads_outer(e):
                mark = Column(width + len(exprs) - 1, BOOLEAN, True, "found")
                (value,) = self._attached((e,), around, nullable=True)
                outputs.append(_case(mark, value, Literal(None, e.type)))
                continue
            at = e.index if isinstance(e, Column) else first + computed.index(e)
            f = below.schema[at]
            outputs.append(Column(width + at, f.type, True, f.name))
        self._plan = OuterJoin(self._plan, below, False, _conjoined(condition))
        return tuple(outputs)

    def _place_ready(self) -> None:
        ready: list[Expr] = []
        rest: list[Expr] = []
        for p in self._waiting:
            if columns_used(p) <= self._values.keys() and not (may_fail(p) and rest):
                ready.append(self._moved(p))
            else:
                rest.append(p)
        self._waiting = rest
        self._filter(tuple(ready))

    def _filter(self, predicates: tuple[Expr, ...]) -> None:
        if predicates:
            self._plan = Filter(self._plan, conjunction(predicates))

    def _moved(self, expr: Expr) -> Expr:
        return transform(expr, lambda e: self._values[e.index] if isinstance(e, Column) else e)

    def _replace(
        self, apply: Apply, subquery: Plan, operands: tuple[Expr, ...], demand: str
    ) -> Expr:
        around = Around(self._plan, self._values)
        if apply.kind == "any" and apply.comparison != "eq":
            return self._quantified(apply, subquery, operands[0], demand, around)
        parts = unnest(subquery, around)
        match apply.kind:
            case "scalar":
                return self._scalar(parts, around, apply.name)
            case "exists":
                return self._exists(parts, around, apply.name, demand)
            case _:
                return self._in(parts, around, operands, demand, apply.name)

    # -- EXISTS, IN ------------------------------------------------------------------------------

    def _exists(self, parts: Parts, around: Around, name: str, demand: str) -> Expr:
        if parts.padded:
            # One row, which conditions on the aggregates may drop.
            _, holds = self._left_join(parts, around)
            return self._demanded(holds, demand)
        return self._matched(parts, around, (), demand, name)

    def _matched(
        self, parts: Parts, around: Around, tests: tuple[Expr, ...], demand: str, name: str
    ) -> Expr:
        """Whether a row of the parts meets `tests` too (over the columns of plan, then core)."""
        condition = _conjoined((*self._attached(parts.predicates, around), *tests))
        if demand == "value":
            self._plan = MarkJoin(self._plan, parts.core, condition, name)
            return Column(len(self._plan.schema) - 1, BOOLEAN, False, name)
        self._plan = SemiJoin(self._plan, parts.core, condition, demand == "drop")
        return TRUE if demand == "keep" else FALSE

    def _demanded(self, value: Expr, demand: str) -> Expr:
        """Filter by a computed value as demanded."""
        if demand == "value":
            return value
        self._filter((value if demand == "keep" else _not(value),))
        return TRUE if demand == "keep" else FALSE

    def _in(
        self, parts: Parts, around: Around, operands: tuple[Expr, ...], demand: str, name: str
    ) -> Expr:
        if parts.padded:
            outputs, holds = self._left_join(parts, around)
            equal = conjunction(tuple(_eq(o, s) for o, s in zip(operands, outputs, strict=True)))
            value = _case(holds, equal, FALSE) if holds != TRUE else equal
            return self._demanded(value, demand)
        found = self._attached(parts.outputs, around)
        equal_tests = tuple(_eq(o, s) for o, s in zip(operands, found, strict=True))
        if demand == "keep":
            return self._matched(parts, around, equal_tests, "keep", name)
        patterns = self._null_patterns(operands, found, equal_tests)
        if not patterns:
            return self._matched(parts, around, equal_tests, demand, name)
        if demand == "drop":
            right, condition = self._patterns(parts, around, [equal_tests, *patterns])
            self._plan = SemiJoin(self._plan, right, condition, True)
            return FALSE
        right, condition = self._patterns(parts, around, patterns)
        value = self._matched(parts, around, equal_tests, demand, name)
        width = len(self._plan.schema)
        moved = None if condition is None else _shift(condition, width - 1, 1)
        self._plan = MarkJoin(self._plan, right, moved, f"{name} unknown")
        unknown = Column(width, BOOLEAN, False, f"{name} unknown")
        null = Literal(None, BOOLEAN)
        return Call("case", (value, TRUE, unknown, null, FALSE), BOOLEAN, True)

    def _patterns(
        self, parts: Parts, around: Around, patterns: list[tuple[Expr, ...]]
    ) -> tuple[Plan, Expr | None]:
        """The bindings of the columns of the plan that the patterns read, for which one of them
        holds with some row of the parts; and that the plan's columns are such a binding."""
        width = len(self._plan.schema)
        predicates = self._attached(parts.predicates, around)
        conditions = [(*predicates, *tests) for tests in patterns]
        used = columns_used(*(e for c in conditions for e in c))
        bound = tuple(sorted(c for c in used if c < width))
        if not bound:
            found: list[Plan] = [
                Project(Filter(parts.core, conjunction(tuple(_shift(e, 0, -width) for e in c))),
                        (TRUE,), (Field("any", BOOLEAN, False),))
                for c in conditions
            ]  # fmt: skip
            return union_all(found, found[0].schema), None
        rows = domain(self._plan, bound)
        at = dict(zip(bound, range(len(bound)), strict=True))
        at.update({width + c: len(bound) + c for c in range(len(parts.core.schema))})
        semis = tuple(
            SemiJoin(rows, parts.core, conjunction(tuple(remap(e, at) for e in c)), False)
            for c in conditions
        )
        columns = identity(self._plan.schema)
        same = tuple(
            Call("eq_null_safe", (columns[c], b), BOOLEAN, False)
            for c, b in zip(bound, identity(rows.schema, width), strict=True)
        )
        return union_all(semis, rows.schema), conjunction(same)

    def _null_patterns(
        self, operands: tuple[Expr, ...], found: tuple[Expr, ...], equal: tuple[Expr, ...]
    ) -> list[tuple[Expr, ...]]:
        """Conditions under which a row leaves the equality of rows open: for every column it is
        equal, or NULL on the left, or NULL on the right; but not equal in all."""
        choices = []
        for o, s, e in zip(operands, found, equal, strict=True):
            options = [e]
            if o.nullable:
                options.append(_is_null(o))
            if s.nullable:
                options.append(_is_null(s))
            choices.append(options)
        patterns = list(product(*choices))[1:]
        if len(patterns) > _MOST_PATTERNS:
            raise UnsupportedError(
                f"cannot maintain IN over {len(operands)} columns that may be NULL",
                detail="Every combination of NULLs would need its own lookup.",
                hint="Declare columns NOT NULL, or add IS NOT NULL, or use EXISTS.",
            )
        return patterns

    # -- scalars, comparisons with ANY -----------------------------------------------------------

    def _scalar(self, parts: Parts, around: Around, name: str) -> Expr:
        if parts.padded:
            (value,), holds = self._left_join(parts, around)
            return value if holds == TRUE else _case(holds, value, Literal(None, value.type))
        width = len(self._plan.schema)
        bound = around.bind(parts)
        single: Plan = bound.plan
        keys = tuple(range(len(parts.outputs), len(bound.plan.schema)))
        if not any(set(key) <= set(keys) for key in plan_keys(single)):
            single = SingleRow(single, keys)
        if not keys and exactly_one(single):
            self._plan = Join((self._plan, single), None)
            f = single.schema[0]
            return Column(width, f.type, f.nullable, name)
        condition = _conjoined(self._attached(bound.matches(0), around))
        self._plan = OuterJoin(self._plan, single, False, condition)
        return Column(width, single.schema[0].type, True, name)

    def _left_join(self, parts: Parts, around: Around) -> tuple[tuple[Expr, ...], Expr]:
        """Join padded parts: their outputs, and whether their conditions on them hold."""
        condition = _conjoined(self._attached(parts.predicates, around))
        outputs = self._attached(parts.outputs, around, nullable=True)
        holds = self._attached(parts.above, around, nullable=True)
        self._plan = OuterJoin(self._plan, parts.core, False, condition)
        return outputs, conjunction(holds) if holds else TRUE

    def _quantified(
        self, apply: Apply, subquery: Plan, operand: Expr, demand: str, around: Around
    ) -> Expr:
        """`operand` comparison ANY (subquery): its least or greatest value decides."""
        comparison = apply.comparison
        value = identity(subquery.schema)[0]
        names = {"gt": ["min"], "ge": ["min"], "lt": ["max"], "le": ["max"], "ne": ["min", "max"]}
        if comparison not in names:
            raise UnsupportedError(f"cannot maintain {comparison} ANY")
        calls = [AggregateCall(n, value, value.type, True) for n in names[comparison]]
        calls.append(AggregateCall("count_rows", None, BIGINT, False))
        calls.append(AggregateCall("count", value, BIGINT, False))
        fields = tuple(Field(c.function, c.type, c.nullable) for c in calls)
        extremes = Aggregate(subquery, (), tuple(calls), fields)
        if demand == "drop" and comparison in _INVERSE:
            self._beyond_all(subquery, extremes, operand, comparison)
            return FALSE
        parts = unnest(extremes, around)
        if parts.padded:
            outputs, _ = self._left_join(parts, around)
        else:
            width = len(self._plan.schema)
            self._plan = Join((self._plan, parts.core), None)
            outputs = tuple(_shift(c, 0, width) for c in parts.outputs)
        *ends, rows, present = outputs
        test: Expr = _compare(comparison, operand, ends[0])
        for end in ends[1:]:
            test = Call("or", (test, _compare(comparison, operand, end)), BOOLEAN, True)
        if demand == "keep":
            return self._demanded(test, demand)
        none = _eq(rows, Literal(0, BIGINT))
        if value.nullable:
            some_null = Call("ne", (rows, present), BOOLEAN, rows.nullable)
            unsure = Call("and", (some_null, _not(_is_true(test))), BOOLEAN, True)
            null = Literal(None, BOOLEAN)
            result: Expr = Call("case", (none, FALSE, unsure, null, test), BOOLEAN, True)
        else:
            result = _case(none, FALSE, test)
        return self._demanded(result, demand)

    def _beyond_all(
        self, subquery: Plan, extremes: Aggregate, operand: Expr, comparison: str
    ) -> None:
        """NOT (x <= ANY s): rows without any s, and rows beyond the extreme where no s is NULL."""
        before = self._plan
        width = len(before.schema)
        around = Around(before, self._values)
        empty = unnest(subquery, around)
        if empty.padded:
            empty = around.settled(empty)
        condition = _conjoined(self._attached(empty.predicates, around))
        without = SemiJoin(before, empty.core, condition, anti=True)
        parts = unnest(extremes, around)
        # The core's last columns are those of the aggregate, padded or not.
        first = len(parts.core.schema) - len(extremes.schema)
        end, rows, present = identity(parts.core.schema)[first:]
        zero = Literal(0, BIGINT)
        sure = conjunction(
            (
                _eq(rows, present),
                Call("gt", (rows, zero), BOOLEAN, rows.nullable),
            )
        )
        decided = Filter(parts.core, sure)
        test = _compare(_INVERSE[comparison], operand, _shift(end, 0, width))
        tests = (*self._attached(parts.predicates, around), test)
        beyond = Join((before, decided), conjunction(tests))
        columns = identity(before.schema)
        self._plan = UnionAll(
            (without, Project(beyond, columns, before.schema)),
            before.schema,
        )

    def _attached(
        self, exprs: Iterable[Expr], around: Around, nullable: bool = False
    ) -> tuple[Expr, ...]:
        """Expressions of parts over the columns of the plan, then of the core."""
        width = len(self._plan.schema)

        def change(e: Expr) -> Expr:
            match e:
                case Column():
                    return Column(e.index + width, e.type, e.nullable or nullable, e.name)
                case Outer(depth=0):
                    return around.value(e.index)
                case _:
                    return e

        return tuple(transform(x, change) for x in exprs)


def _reads_outer(expr: Expr) -> bool:
    """Whether the expression reads the row around the subquery at hand."""
    return any(isinstance(e, Outer) and e.depth == 0 for e in walk(expr))


def _shift(expr: Expr, first: int, by: int) -> Expr:
    """Columns from `first` on moved by `by` positions."""

    def change(e: Expr) -> Expr:
        if by and isinstance(e, Column) and e.index >= first:
            return Column(e.index + by, e.type, e.nullable, e.name)
        return e

    return transform(expr, change)


def _conjoined(predicates: tuple[Expr, ...]) -> Expr | None:
    return conjunction(predicates) if predicates else None


def _compare(comparison: str, left: Expr, right: Expr) -> Call:
    return Call(comparison, (left, right), BOOLEAN, left.nullable or right.nullable)


def _eq(left: Expr, right: Expr) -> Expr:
    return _compare("eq", left, right)


def _not(expr: Expr) -> Expr:
    return Call("not", (expr,), BOOLEAN, expr.nullable)


def _is_null(expr: Expr) -> Expr:
    return Call("is_null", (expr,), BOOLEAN, False)


def _is_true(expr: Expr) -> Expr:
    if not expr.nullable:
        return expr
    return Call("coalesce", (expr, FALSE), BOOLEAN, False)


def _case(when: Expr, then: Expr, otherwise: Expr) -> Expr:
    nullable = then.nullable or otherwise.nullable
    return Call("case", (when, then, otherwise), then.type, nullable)
