"""GROUP BY: aggregate calls, and what may be read above them.

Expressions above an aggregation are first bound over a *wide row*: the columns of FROM, then one
column for each aggregate call met so far. When all clauses are bound, `above` moves them onto the
aggregate's output (keys, then calls): a subexpression equal to a key becomes that key, and a
column of FROM that is left over is an error.
"""

from __future__ import annotations

from sqlglot import exp

from planner import functions
from planner.algebra import Aggregate, AggregateCall, Plan
from planner.bind.report import Refusal, Report
from planner.bind.resolve import FromResolver
from planner.bind.scalars import NoAggregates, Scalars
from planner.expr import Call, Column, Expr, Literal
from planner.types import BIGINT, Field


class AggregateCalls:
    """Collects the aggregate calls of a query; equal calls are one.

    `width`: the columns of FROM. `grouped`: whether there are keys, so that no group is empty.
    """

    def __init__(self, below: FromResolver, width: int, grouped: bool, report: Report) -> None:
        self.grouped = grouped
        self.calls: list[AggregateCall] = []
        self.width = width
        self.report = report
        self._arguments = Scalars(below, NoAggregates("an aggregate", report), report)

    def bind(self, node: exp.Expression) -> Expr:
        call = self._call(node)
        if call not in self.calls:
            self.calls.append(call)
        position = self.width + self.calls.index(call)
        return Column(position, call.type, call.nullable, call.function)

    def _call(self, node: exp.Expression) -> AggregateCall:
        name = type(node).__name__.lower()
        args = [a for a in (node.args.get("this"), *node.expressions) if a is not None]
        if args and isinstance(args[0], exp.Distinct):
            shown = name.upper()
            instead = "Aggregate over a subquery with SELECT DISTINCT."
            self.report.refuse(
                node,
                Refusal(
                    f"{shown}(DISTINCT …)", "would have to count each value on its own", instead
                ),
            )
        if not args:
            self.report.fail(node, f"{name.upper()} has too few arguments")
        if isinstance(node, exp.Count) and len(args) == 1 and isinstance(args[0], exp.Star):
            self.report.check(args[0])
            return AggregateCall("count_rows", None, BIGINT, False)
        bound = [self._arguments.bind(a) for a in args]
        return functions.aggregate(name, bound, self.grouped)


class Grouped:
    """One aggregation over `input`, and the way of expressions onto its output."""

    def __init__(
        self,
        input: Plan,
        keys: tuple[tuple[Expr, str], ...],
        calls: tuple[AggregateCall, ...],
        report: Report,
    ) -> None:
        self._keys = tuple(dict.fromkeys(key for key, _ in keys))
        self._names = dict(reversed(keys))
        self._width = len(input.schema)
        self._report = report
        self._calls = calls
        schema = [Field(self._names[k], k.type, k.nullable) for k in self._keys]
        schema += [Field(c.function, c.type, c.nullable) for c in calls]
        self.plan = Aggregate(input, self._keys, calls, tuple(schema))

    def above(self, expr: Expr, node: exp.Expression) -> Expr:
        """The expression, bound from `node` over the wide row, over the aggregate's output."""
        if expr in self._keys:
            position = self._keys.index(expr)
            return Column(position, expr.type, expr.nullable, self._names[expr])
        match expr:
            case Literal():
                return expr
            case Column(index=index) if index >= self._width:
                position = index - self._width + len(self._keys)
                return Column(position, expr.type, expr.nullable, expr.name)
            case Column():
                raise self._report.error(
                    _reference(node, expr.name),
                    f'column "{expr.name}" must appear in GROUP BY or inside an aggregate',
                    hint="Add it to GROUP BY, or aggregate it.",
                )
            case Call():
                args = tuple(self.above(a, node) for a in expr.args)
                return Call(expr.function, args, expr.type, expr.nullable)


def _reference(node: exp.Expression, name: str) -> exp.Expression:
    """Where below `node`, outside aggregates, the column is named."""
    for child in node.walk(prune=lambda n: isinstance(n, exp.AggFunc)):
        if isinstance(child, exp.Column) and child.name.lower() == name.lower():
            return child
    return node
