"""Lowering of GROUP BY: which accumulators a `Reduce` keeps, and how results are read from them.

    Aggregate[keys, calls](x)
        ->  Map[results](Reduce[keys, accumulators](Map[keys, arguments](x)))

The lower Map computes every key and argument once, so that the Reduce sees plain columns only.
Equal accumulators are kept once: avg(x) beside sum(x) and count(x) costs nothing more.

    call            type           accumulators        result
    count_rows      BIGINT         count_rows          as it is
    count(x)        BIGINT         count(x)            as it is; count_rows if x is never NULL
    sum(integer)    BIGINT         sum(x)              cast to BIGINT, fails on overflow
    sum(decimal)    p+10, s        sum(x)              cast to that type, fails on overflow
    sum(double)     DOUBLE         sum_double(x)       exact_sum_to_double
    avg(integer)    DOUBLE         sum(x), count(x)    sum / count, both as DOUBLE
    avg(decimal)    p+4, s+4       sum(x), count(x)    (sum as p+10, s) / (count as DECIMAL(20,0)),
                                                       rounded half up to the result's scale
    avg(double)     DOUBLE         sum_double, count   sum / count

sum and avg are NULL where no value was counted; the count that tells is count_rows if x is never
NULL, and none is needed if there are keys besides (a group has a row).

Source: Spark SQL, Sum and Average (their evaluateExpression, ANSI mode).
"""

from __future__ import annotations

from planner.algebra import Aggregate, AggregateCall
from planner.analysis.text import column_names
from planner.dataflow import Accumulator, Node, Reduce
from planner.errors import UnsupportedError
from planner.expr import Call, Column, Expr, Literal
from planner.linear import map_over
from planner.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DOUBLE,
    MAX_PRECISION,
    DecimalType,
    Field,
    FloatType,
    IntegerType,
    SqlType,
)

_COUNT_DECIMAL = DecimalType(20, 0)


def lower_aggregate(plan: Aggregate, node: Node) -> Node:
    """The nodes that maintain `plan` over its lowered input.

    State: one row per group, with its accumulators.
    Raises: UnsupportedError for aggregates that are not accumulable.
    """
    columns: dict[Expr, int] = {}
    for e in (*plan.keys, *(a.arg for a in plan.aggregates if a.arg is not None)):
        columns.setdefault(e, len(columns))
    below = map_over(node, (), tuple(columns))
    builder = _Reduction(plan, below, columns)
    results = tuple(builder.result(call) for call in plan.aggregates)
    reduce = builder.reduce()
    keys = tuple(
        Column(i, f.type, f.nullable, f.name) for i, f in enumerate(reduce.schema[: len(plan.keys)])
    )
    return map_over(reduce, (), keys + results)


class _Reduction:
    """Collects the accumulators of one Reduce while results are written in terms of them."""

    def __init__(self, plan: Aggregate, below: Node, columns: dict[Expr, int]) -> None:
        self._below = below
        self._columns = columns
        self._keys = tuple(self._column(k) for k in plan.keys)
        self._accumulators: dict[Accumulator, SqlType] = {
            Accumulator("count_rows", None): BIGINT,
        }

    def reduce(self) -> Reduce:
        names = column_names(self._below.schema)
        fields = [Field(names[k.index], k.type, k.nullable) for k in self._keys]
        for a, kind in self._accumulators.items():
            name = "count(*)" if a.arg is None else f"{a.kind}({names[_index(a.arg)]})"
            fields.append(Field(name, kind, nullable=False))
        return Reduce(self._below, self._keys, tuple(self._accumulators), tuple(fields))

    def result(self, call: AggregateCall) -> Expr:
        """The value of an aggregate, over the columns of the Reduce."""
        if call.distinct:
            raise UnsupportedError(
                f"cannot maintain {call.function.upper()}(DISTINCT …)",
                detail="It needs a count for every distinct value, which is not kept yet.",
                hint="Aggregate over a view that selects the DISTINCT values.",
            )
        match call.function, call.arg:
            case "count_rows", None:
                return self._keep("count_rows", None, BIGINT)
            case "count", arg if arg is not None:
                return self._count(arg)
            case "sum", arg if arg is not None:
                return self._unless_none(call, arg, self._sum(arg, call.type))
            case "avg", arg if arg is not None:
                return self._unless_none(call, arg, self._average(arg, call.type))
            case _:
                raise UnsupportedError(f"cannot maintain the aggregate {call.function.upper()}")

    def _column(self, expr: Expr) -> Column:
        field = self._below.schema[self._columns[expr]]
        return Column(self._columns[expr], field.type, field.nullable, field.name)

    def _keep(self, kind: str, arg: Expr | None, type: SqlType) -> Column:
        accumulator = Accumulator(kind, None if arg is None else self._column(arg))
        self._accumulators.setdefault(accumulator, type)
        position = len(self._keys) + list(self._accumulators).index(accumulator)
        return Column(position, type, False, kind)

    def _count(self, arg: Expr) -> Expr:
        if not arg.nullable:
            return self._keep("count_rows", None, BIGINT)
        return self._keep("count", arg, BIGINT)

    def _sum(self, arg: Expr, target: SqlType) -> Expr:
        match arg.type:
            case IntegerType():
                return _cast(self._keep("sum", arg, DecimalType(MAX_PRECISION, 0)), target)
            case DecimalType(scale=scale):
                return _cast(self._keep("sum", arg, DecimalType(MAX_PRECISION, scale)), target)
            case FloatType():
                state = self._keep("sum_double", arg, BINARY)
                return _cast(Call("exact_sum_to_double", (state,), DOUBLE, False), target)
            case kind:
                raise UnsupportedError(f"cannot maintain a sum of {kind}")

    def _average(self, arg: Expr, target: SqlType) -> Expr:
        count = self._count(arg)
        match arg.type:
            case DecimalType(precision=p, scale=s):
                total = self._sum(arg, DecimalType(min(p + 10, MAX_PRECISION), s))
                divisor = _cast(count, _COUNT_DECIMAL)
            case _:
                total, divisor = _cast(self._average_sum(arg), DOUBLE), _cast(count, DOUBLE)
        return Call("divide", (total, divisor), target, False)

    def _average_sum(self, arg: Expr) -> Expr:
        if isinstance(arg.type, IntegerType):
            return self._keep("sum", arg, DecimalType(MAX_PRECISION, 0))
        return self._sum(arg, DOUBLE)

    def _unless_none(self, call: AggregateCall, arg: Expr, value: Expr) -> Expr:
        """`value`, or NULL for a group without a value that is not NULL."""
        if not arg.nullable and self._keys:
            return value
        none = Call("eq", (self._count(arg), Literal(0, BIGINT)), BOOLEAN, False)
        return Call("case", (none, Literal(None, call.type), value), call.type, True)


def _cast(expr: Expr, target: SqlType) -> Expr:
    return expr if expr.type == target else Call("cast", (expr,), target, expr.nullable)


def _index(expr: Expr) -> int:
    assert isinstance(expr, Column)
    return expr.index
