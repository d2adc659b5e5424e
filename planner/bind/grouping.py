"""GROUP BY: aggregate calls, and what may be read above them.

Expressions above an aggregation are first bound over a *wide row*: the columns of FROM, then one
column for each aggregate call met so far, then (far off) those of subqueries. When all clauses are
bound, `above` moves them onto the aggregate's output (keys, then calls): a subexpression equal to
a key becomes that key, and a column of FROM that is left over is an error.
"""

from __future__ import annotations

from functools import partial

from sqlglot import exp

from planner.algebra import Aggregate, AggregateCall
from planner.bind.aggregates import Keep, aggregate
from planner.bind.group_aggregates import GROUP_AGGREGATES, Ordered, group_aggregate, written
from planner.bind.report import Refusal, Report
from planner.bind.resolve import FromResolver
from planner.bind.scalars import NoAggregates, Scalars
from planner.bind.subqueries import FIRST, Placement, Subqueries
from planner.bind.tables import aggregate_name
from planner.expr import Call, Column, Expr, Literal, Outer, walk
from planner.names import folded
from planner.types import Field


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
        self.width = width
        self.report = report
        nested = NoAggregates("an aggregate", report)
        self._arguments = Scalars(below, nested, subqueries, report)

    def bind(self, node: exp.Expression) -> Expr:
        """An aggregate, with its FILTER, as an expression over the wide row."""
        call, condition = node, None
        if isinstance(node, exp.Filter):
            call, where = node.this, node.expression
            self.report.check(call)
            self.report.check(where)
            if aggregate_name(call) is None:
                self.report.fail(node, "FILTER belongs to an aggregate")
            condition = self._arguments.predicate(where.this, "FILTER")
        name = aggregate_name(call)
        assert name is not None

        def keep(made: AggregateCall) -> Expr:
            if made not in self.calls:
                self.calls.append(made)
                self.places.append(node)
            position = self.width + self.calls.index(made)
            return Column(position, made.type, made.nullable, made.function)

        if name in GROUP_AGGREGATES:
            return self._group_aggregate(name, call, condition, keep)
        args, distinct = self._written_arguments(call, name)
        bound = [self._argument(name, a) for a in args]
        return aggregate(name, bound, distinct, condition, self.grouped, keep)

    def _group_aggregate(
        self, name: str, call: exp.Expression, condition: Expr | None, keep: Keep
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
            name, args, order, parameter, parts.distinct, condition, self.grouped, keep
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
            self.report.check(args[0])
            return [], False
        return args, distinct

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
    ) -> None:
        self._names = {key: name for key, name, _ in reversed(keys)}
        places = {key: node for key, _, node in keys}
        self._keys = tuple(dict.fromkeys(key for key, _, _ in keys))
        self._width = calls.width
        self._report = report
        schema = [Field(self._names[k], k.type, k.nullable) for k in self._keys]
        schema += [Field(c.function, c.type, c.nullable) for c in calls.calls]
        placed = tuple(below.place(k, places[k]) for k in self._keys)
        made = tuple(
            c.over(partial(below.place, node=node))
            for c, node in zip(calls.calls, calls.places, strict=True)
        )
        self.plan = Aggregate(below.plan, placed, made, tuple(schema))

    def above(self, expr: Expr, node: exp.Expression) -> Expr:
        """The expression, bound from `node` over the wide row, over the aggregate's output."""
        if expr in self._keys:
            position = self._keys.index(expr)
            return Column(position, expr.type, expr.nullable, self._names[expr])
        match expr:
            case Column(index=index) if self._width <= index < FIRST:
                position = index - self._width + len(self._keys)
                return Column(position, expr.type, expr.nullable, expr.name)
            case Column(index=index) if index < FIRST:
                raise self._report.error(
                    _reference(node, expr.name),
                    f'column "{expr.name}" must appear in GROUP BY or inside an aggregate',
                    hint="Add it to GROUP BY, or aggregate it.",
                )
            case Literal() | Outer() | Column():
                return expr
            case Call():
                args = tuple(self.above(a, node) for a in expr.args)
                return Call(expr.function, args, expr.type, expr.nullable)


def _is_argument(node: object) -> bool:
    return isinstance(node, exp.Expression)


def _reference(node: exp.Expression, name: str) -> exp.Expression:
    """Where below `node`, outside aggregates, the column is named."""
    for child in node.walk(prune=lambda n: isinstance(n, exp.AggFunc)):
        if isinstance(child, exp.Column) and folded(child.name) == folded(name):
            return child
    return node
