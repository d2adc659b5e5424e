"""GROUP BY: aggregate calls, and what may be read above them.

Expressions above an aggregation are first bound over a *wide row*: the columns of FROM, then one
column for each aggregate call met so far, then (far off) those of subqueries. When all clauses are
bound, `above` moves them onto the aggregate's output (keys, then calls): a subexpression equal to
a key becomes that key, and a column of FROM that is left over is an error.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from sqlglot import exp

from planner.bind.aggregates import Keep, aggregate
from planner.bind.group_aggregates import GROUP_AGGREGATES, Ordered, group_aggregate, written
from planner.bind.grouping_sets import grouping_id, is_grouped, spread
from planner.bind.report import Refusal, Report
from planner.bind.resolve import FromResolver
from planner.bind.scalars import NoAggregates, Scalars
from planner.bind.subqueries import FIRST, Placement, Subqueries
from planner.bind.tables import aggregate_name
from planner.calculus.algebra import Aggregate, AggregateCall, identity
from planner.calculus.expr import Call, Column, Expr, Literal, Outer, Parameter, walk
from planner.calculus.primitives import FUNCTIONS, Nulls
from planner.calculus.types import BIGINT, INT, TINYINT, Field
from planner.names import folded

#: The first column of the wide row that is GROUPING or GROUPING_ID of something.
_GROUPING = FIRST >> 1
#: The first that is a window function's value (see `windows`).
WINDOWS = FIRST >> 2


@dataclass(frozen=True, slots=True)
class Grouping:
    """A call of `name`, "grouping" or "grouping_id", of grouping expressions; none: all of them."""

    name: str
    args: tuple[Expr, ...]


class AggregateCalls:
    """Collects the aggregate calls of a query; equal calls are one.

    `width`: the columns of FROM. `grouped`: whether there are keys, so that no group is empty.
    """

    def __init__(
        self,
        below: FromResolver,
        width: int,
        grouped: bool,
        subqueries: Subqueries,
        report: Report,
    ) -> None:
        self.grouped = grouped
        self.calls: list[AggregateCall] = []
        self.places: list[exp.Expression] = []
        self.groupings: list[Grouping] = []
        self.grouping_places: list[exp.Expression] = []
        self.width = width
        self.report = report
        nested = NoAggregates("an aggregate", report)
        self._arguments = Scalars(below, nested, subqueries, report)
        self._reader = AggregateReader(self._arguments, below, report)

    def bind(self, node: exp.Expression) -> Expr:
        """An aggregate, with its FILTER, as an expression over the wide row."""
        call = node.this if isinstance(node, exp.Filter) else node
        name = aggregate_name(call)
        if name in ("grouping", "grouping_id"):
            return self._grouping(name, node)

        def keep(made: AggregateCall) -> Expr:
            if made not in self.calls:
                self.calls.append(made)
                self.places.append(node)
            position = self.width + self.calls.index(made)
            return Column(position, made.type, made.nullable, made.function)

        return self._reader.read(node, self.grouped, keep)

    def _grouping(self, name: str, node: exp.Expression) -> Expr:
        """GROUPING or GROUPING_ID; which sets have what it asks for is known when all clauses are
        bound."""
        if isinstance(node, exp.Filter):
            self.report.fail(node, "FILTER belongs to an aggregate")
        if name == "grouping" and len(node.expressions) != 1:
            self.report.fail(node, "GROUPING takes one grouping expression")
        asked = Grouping(name, tuple(map(self._arguments.bind, node.expressions)))
        if asked not in self.groupings:
            self.groupings.append(asked)
            self.grouping_places.append(node)
        kind = TINYINT if name == "grouping" else BIGINT
        return Column(_GROUPING + self.groupings.index(asked), kind, False, name)


class AggregateReader:
    """Reads aggregates, whose arguments `arguments` binds; `below`: what `*` stands for."""

    def __init__(self, arguments: Scalars, below: FromResolver, report: Report) -> None:
        self._arguments = arguments
        self._below = below
        self.report = report

    def read(self, node: exp.Expression, grouped: bool, keep: Keep) -> Expr:
        """The value of an aggregate, with its FILTER, over the calls that `keep` takes. `grouped`:
        it is never of no row."""
        call, condition = node, None
        if isinstance(node, exp.Filter):
            call, where = node.this, node.expression
            self.report.check(where)
            if aggregate_name(call) is None:
                self.report.fail(node, "FILTER belongs to an aggregate")
            condition = self._arguments.predicate(where.this, "FILTER")
        self.report.check(call)
        name = aggregate_name(call)
        assert name is not None
        if name in GROUP_AGGREGATES:
            return self._group_aggregate(name, call, condition, grouped, keep)
        args, distinct = self._written_arguments(call, name)
        if name == "approx_count_distinct":  # as near as any: exactly
            self._check_nearness(call)
            name, distinct = "count", True
        if distinct and len(args) == 1 and isinstance(args[0], exp.Star) and name == "count":
            self._check_star(args[0])
            bound: list[Expr] = [c.reference() for c in self._below.scope.visible]
        else:
            bound = [self._argument(name, a) for a in args]
        return aggregate(name, bound, distinct, condition, grouped, keep)

    def _group_aggregate(
        self,
        name: str,
        call: exp.Expression,
        condition: Expr | None,
        grouped: bool,
        keep: Keep,
    ) -> Expr:
        within = None
        if isinstance(call, exp.WithinGroup):
            call, within = call.this, call.expression
            self.report.check(call)
        parts = written(name, call, within, self.report)
        args = [self._argument(name, a) for a in parts.args]
        order = [
            Ordered(
                self._argument(name, key.this),
                bool(key.args.get("desc")),
                bool(key.args.get("nulls_first")),
            )
            for key in parts.order
        ]
        parameter = None if parts.parameter is None else self._arguments.bind(parts.parameter)
        return group_aggregate(
            name, args, order, parameter, parts.distinct, condition, grouped, keep
        )

    def _argument(self, name: str, node: exp.Expression) -> Expr:
        bound = self._arguments.bind(node)
        self._refuse_outer(name, bound, node)
        return bound

    def _written_arguments(
        self, node: exp.Expression, name: str
    ) -> tuple[list[exp.Expression], bool]:
        """The arguments, none for COUNT(*), and whether DISTINCT is before them."""
        args = [a for a in (node.args.get("this"), *node.expressions) if _is_argument(a)]
        distinct = bool(args) and isinstance(args[0], exp.Distinct)
        if distinct:
            self.report.check(args[0])
            args = args[0].expressions
        if not args:
            self.report.fail(node, f"{name.upper()} has too few arguments")
        if name != "count" and len(args) > 1:
            self.report.fail(node, f"{name.upper()} takes one argument, not {len(args)}")
        if name == "count" and len(args) == 1 and isinstance(args[0], exp.Star) and not distinct:
            self._check_star(args[0])
            return [], False
        return args, distinct

    def _check_nearness(self, call: exp.Expression) -> None:
        """The relative deviation that is allowed, of which none is made use of."""
        if isinstance(call.this, exp.Star):
            self.report.fail(call, "APPROX_COUNT_DISTINCT takes one argument, not all columns")
        allowed = call.args.get("accuracy")
        if allowed is not None and not isinstance(self._arguments.bind(allowed), Literal):
            self.report.fail(allowed, "APPROX_COUNT_DISTINCT needs a literal deviation")

    def _check_star(self, star: exp.Star) -> None:
        self.report.check(star)
        if star.args.get("except_"):
            self.report.refuse(
                star, Refusal("COUNT of * EXCEPT", "counts by some columns", "Name the columns.")
            )

    def _refuse_outer(self, name: str, expr: Expr, node: exp.Expression) -> None:
        if any(isinstance(e, Outer) for e in walk(expr)):
            self.report.refuse(
                node,
                Refusal(
                    f"{name.upper()} of a column of an outer query",
                    "would belong to that query, or to both",
                    "Aggregate columns of the subquery's own FROM.",
                ),
            )


class Grouped:
    """One aggregation over `below`, and the way of expressions onto its output."""

    def __init__(
        self,
        below: Placement,
        keys: tuple[tuple[Expr, str, exp.Expression], ...],
        calls: AggregateCalls,
        report: Report,
        sets: Sequence[frozenset[int]] | None = None,
    ) -> None:
        """`sets`: of each grouping set, the keys in it, by their positions; None: all, once."""
        self._names = {key: name for key, name, _ in reversed(keys)}
        places = {key: node for key, _, node in keys}
        self._keys = tuple(dict.fromkeys(key for key, _, _ in keys))
        self._width = calls.width
        self._report = report
        self._sets = sets
        placed = tuple(below.place(k, places[k]) for k in self._keys)
        made = tuple(
            c.over(partial(below.place, node=node))
            for c, node in zip(calls.calls, calls.places, strict=True)
        )
        results = tuple(Field(c.function, c.type, c.nullable) for c in calls.calls)
        if sets is None:
            fields = tuple(Field(self._names[k], k.type, k.nullable) for k in self._keys)
            self.plan = Aggregate(below.plan, placed, made, fields + results)
        else:
            named = [(key, self._names[k]) for key, k in zip(placed, self._keys, strict=True)]
            rows, fields = spread(below.plan, named, sets)
            columns = identity(rows.schema)[len(below.plan.schema) :]
            self.plan = Aggregate(rows, columns, made, fields + results)
        #: Of the aggregate's columns: keys, and the number of the set.
        self._first_result = len(fields)
        self._groupings = [
            self._grouping(asked, node)
            for asked, node in zip(calls.groupings, calls.grouping_places, strict=True)
        ]

    def _grouping(self, asked: Grouping, node: exp.Expression) -> Expr:
        if self._sets is None:
            self._report.fail(
                node,
                f"{asked.name.upper()} belongs to GROUP BY with ROLLUP, CUBE or GROUPING SETS",
            )
        number = Column(self._first_result - 1, INT, False, "grouping_set")
        if asked.name == "grouping_id":
            if asked.args not in ((), self._keys):
                self._report.fail(
                    node,
                    "GROUPING_ID is of all grouping expressions, in their order",
                    hint="Write GROUPING_ID().",
                )
            return grouping_id(self._sets, len(self._keys), number)
        (arg,) = asked.args
        if arg not in self._keys:
            self._report.fail(node, "GROUPING is of a grouping expression")
        return is_grouped(self._sets, self._keys.index(arg), number)

    def above(self, expr: Expr, node: exp.Expression) -> Expr:
        """The expression, bound from `node` over the wide row, over the aggregate's output."""
        if expr in self._keys:
            position = self._keys.index(expr)
            nullable = expr.nullable or self._sets is not None
            return Column(position, expr.type, nullable, self._names[expr])
        match expr:
            case Column(index=index) if _GROUPING <= index < FIRST:
                return self._groupings[index - _GROUPING]
            case Column(index=index) if WINDOWS <= index < FIRST:
                return expr
            case Column(index=index) if self._width <= index < FIRST:
                position = index - self._width + self._first_result
                return Column(position, expr.type, expr.nullable, expr.name)
            case Column(index=index) if index < FIRST:
                raise self._report.error(
                    _reference(node, expr.name),
                    f'column "{expr.name}" must appear in GROUP BY or inside an aggregate',
                    hint="Add it to GROUP BY, or aggregate it.",
                )
            case Literal() | Outer() | Parameter() | Column():
                return expr
            case Call():
                args = tuple(self.above(a, node) for a in expr.args)
                nullable = expr.nullable
                if self._sets is not None and FUNCTIONS[expr.function].nulls is not Nulls.NEVER:
                    nullable |= any(a.nullable for a in args)  # a key may be NULL
                return Call(expr.function, args, expr.type, nullable)


def _is_argument(node: object) -> bool:
    return isinstance(node, exp.Expression)


def _reference(node: exp.Expression, name: str) -> exp.Expression:
    """Where below `node`, outside aggregates, the column is named."""
    for child in node.walk(prune=lambda n: isinstance(n, exp.AggFunc)):
        if isinstance(child, exp.Column) and folded(child.name) == folded(name):
            return child
    return node
