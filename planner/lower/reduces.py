"""Lowering of GROUP BY: which accumulators a `Reduce` keeps, and how results are read from them.

    Aggregate[keys, calls](x)
        ->  Map[results](Reduce[keys, accumulators](Map[keys, arguments](x)))

The lower Map computes every key and argument once, so that the Reduce sees plain columns only.
Equal accumulators are kept once: avg(x) beside sum(x) and count(x) costs nothing more.

    call            type           accumulators        result
    count_rows      BIGINT         count_rows          as it is
    count(x)        BIGINT         count(x)            as it is; count_rows if x is never NULL
    sum(integer)    BIGINT         sum(x)              checked_sum: fails beyond BIGINT
    sum(decimal)    p+10, s        sum(x), and         checked_sum: fails beyond p+10 digits
                                   sum_top(x) if p > 18
    sum(double)     DOUBLE         sum_double(x)       exact_sum_to_double
    avg(integer)    DOUBLE         sum(x), count(x)    sum / count, both as DOUBLE
    avg(decimal)    p+4, s+4       sum(x), count(x)    (sum as p+10, s) / (count as DECIMAL(20,0)),
                                                       rounded half up to the result's scale
    avg(double)     DOUBLE         sum_double, count   sum / count
    min(x), max(x), any_value(x)   first(x)            as it is: the value in front of an index on
                                                       the keys, then x (any_value is the least)
      of events that stay          least, greatest     as it is
    stddev, variance DOUBLE        sums of x and of    variance, rounded once; its square root
    of decimals                    its square, count
    of doubles                     the same, exact
                                   sums of doubles

A sum of n values of p digits stays below n * 10**p: 128 bits hold it for any BIGINT n while
p <= 19, and a wider argument's sum keeps one word more. So no sum ever wraps, and one that has left
the range of its type comes back when its rows go.

sum and avg are NULL where no value was counted; the count that tells is count_rows if x is never
NULL, and none is needed if there are keys besides (a group has a row).

Source: Spark SQL, Sum and Average (their evaluateExpression, ANSI mode).
"""

from __future__ import annotations

from planner.analysis.text import column_names
from planner.calculus.algebra import Aggregate, AggregateCall, SortKey
from planner.calculus.expr import Call, Column, Expr, Literal
from planner.calculus.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DOUBLE,
    INT,
    MAX_PRECISION,
    DecimalType,
    Field,
    FloatType,
    IntegerType,
    SqlType,
    integer_as_decimal,
)
from planner.dataflow import Accumulator, Node, OrderedArrangement, Reduce, only_appends
from planner.errors import UnsupportedError
from planner.lower.joins import stored, stored_columns
from planner.lower.linear import map_over

_COUNT_DECIMAL = DecimalType(20, 0)


def lower_aggregate(plan: Aggregate, node: Node) -> Node:
    """The nodes that maintain `plan` over its lowered input.

    State: one row per group, with its accumulators.
    Raises: UnsupportedError for aggregates that are not accumulable.
    """
    args = tuple(x for a in plan.aggregates for x in summed(a))
    exprs = tuple(dict.fromkeys((*plan.keys, *args)))
    below = map_over(node, (), exprs)
    columns = {e: i for i, e in enumerate(exprs)}
    if any(a.function in _ORDERED for a in plan.aggregates) and not only_appends(below):
        below, at = stored_columns(below)
        columns = {e: at[i] for e, i in columns.items()}
    builder = _Reduction(below, columns, plan.keys)
    results = tuple(builder.result(call) for call in plan.aggregates)
    reduce = builder.reduce()
    keys = tuple(
        Column(i, f.type, f.nullable, f.name) for i, f in enumerate(reduce.schema[: len(plan.keys)])
    )
    return map_over(reduce, (), keys + results)


#: Aggregates that read the front of an order: is it descending?
_ORDERED = {"min": False, "max": True, "any_value": False}

#: Variances: what is taken off the count to divide by, and whether the root is drawn.
_VARIANCES = {
    "var_pop": (0, False),
    "var_samp": (1, False),
    "stddev_pop": (0, True),
    "stddev_samp": (1, True),
}


def summed(call: AggregateCall) -> tuple[Expr, ...]:
    """What is summed or counted; of a variance also the squares, where they are exact decimals."""
    if call.arg is None:
        return ()
    if call.function not in _VARIANCES:
        return (call.arg,)
    arg = _summable(call.arg)
    return (arg, _square(arg)) if isinstance(arg.type, DecimalType) else (arg,)


def _summable(arg: Expr) -> Expr:
    """An argument of a variance: as a decimal where its square fits one, else as a double."""
    kind = arg.type
    if isinstance(kind, IntegerType):
        kind = integer_as_decimal(kind)
    if isinstance(kind, DecimalType):
        return _cast(arg, kind if 2 * kind.precision < MAX_PRECISION else DOUBLE)
    return _cast(arg, DOUBLE)


def _square(arg: Expr) -> Expr:
    assert isinstance(arg.type, DecimalType)
    kind = DecimalType(2 * arg.type.precision + 1, 2 * arg.type.scale)
    return Call("multiply", (arg, arg), kind, arg.nullable)


class Results:
    """Writes the results of aggregates in terms of accumulators over a node; `columns`: where it
    has the arguments (see `summed`). `never_empty`: no aggregate is of no row."""

    never_empty = False

    def __init__(self, below: Node, columns: dict[Expr, int]) -> None:
        self._below = below
        self._columns = columns

    def _keep(self, kind: str, arg: Expr | None, type: SqlType) -> Column:
        """The accumulator as a column of what is written over; it is never NULL."""
        raise NotImplementedError

    def _first(self, arg: Expr, descending: bool) -> Expr:
        """The least or greatest value."""
        raise NotImplementedError

    def result(self, call: AggregateCall) -> Expr:
        """The value of an aggregate, over what is written over."""
        match call.function, call.arg:
            case "count_rows", None:
                return self._keep("count_rows", None, BIGINT)
            case "count", arg if arg is not None:
                return self._count(arg)
            case "sum", arg if arg is not None:
                return self._unless_none(call, arg, self._sum(arg, call.type))
            case "avg", arg if arg is not None:
                return self._unless_none(call, arg, self._average(arg, call.type))
            case function, arg if arg is not None and function in _ORDERED:
                return self._first(arg, _ORDERED[function])
            case function, arg if arg is not None and function in _VARIANCES:
                return self._variance(_summable(arg), *_VARIANCES[function])
            case _:
                raise UnsupportedError(f"cannot maintain the aggregate {call.function.upper()}")

    def _variance(self, arg: Expr, reduction: int, root: bool) -> Expr:
        count = self._count(arg)
        if isinstance(arg.type, DecimalType):
            (total,) = self._sum_words(arg)
            squares, *top = self._sum_words(_square(arg))
        else:
            total = self._keep("sum_double", arg, BINARY)
            squares, top = self._keep("sum_square_double", arg, BINARY), []
        args = (count, total, squares, Literal(reduction, INT), *top)
        value = Call("variance", args, DOUBLE, True)
        return Call("sqrt", (value,), DOUBLE, True) if root else value

    def _column(self, expr: Expr) -> Column:
        field = self._below.schema[self._columns[expr]]
        return Column(self._columns[expr], field.type, field.nullable, field.name)

    def _count(self, arg: Expr) -> Expr:
        if not arg.nullable:
            return self._keep("count_rows", None, BIGINT)
        return self._keep("count", arg, BIGINT)

    def _sum(self, arg: Expr, target: SqlType) -> Expr:
        match arg.type:
            case IntegerType() | DecimalType():
                return Call("checked_sum", self._sum_words(arg), target, False)
            case FloatType():
                state = self._keep("sum_double", arg, BINARY)
                return _cast(Call("exact_sum_to_double", (state,), DOUBLE, False), target)
            case kind:
                raise UnsupportedError(f"cannot maintain a sum of {kind}")

    def _sum_words(self, arg: Expr) -> tuple[Expr, ...]:
        """The exact sum of integers or decimals: 128 bits, and the word above where it may matter
        (see the module)."""
        kind = arg.type
        scale = kind.scale if isinstance(kind, DecimalType) else 0
        total = self._keep("sum", arg, DecimalType(MAX_PRECISION, scale))
        if not isinstance(kind, DecimalType) or kind.narrow:
            return (total,)
        return total, self._keep("sum_top", arg, BIGINT)

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
        if not arg.nullable and self.never_empty:
            return value
        none = Call("eq", (self._count(arg), Literal(0, BIGINT)), BOOLEAN, False)
        return Call("case", (none, Literal(None, call.type), value), call.type, True)


class _Reduction(Results):
    """Collects the accumulators of one Reduce while results are written in terms of them."""

    def __init__(self, below: Node, columns: dict[Expr, int], keys: tuple[Expr, ...]) -> None:
        super().__init__(below, columns)
        self._keys = tuple(self._column(k) for k in keys)
        self.never_empty = bool(keys)
        self._accumulators: dict[Accumulator, SqlType] = {
            Accumulator("count_rows", None): BIGINT,
        }

    def reduce(self) -> Reduce:
        names = column_names(self._below.schema)
        fields = [Field(names[k.index], k.type, k.nullable) for k in self._keys]
        for a, kind in self._accumulators.items():
            name = "count(*)" if a.arg is None else f"{a.kind}({names[_index(a.arg)]})"
            fields.append(Field(name, kind, self._nullable(a)))
        return Reduce(self._below, self._keys, tuple(self._accumulators), tuple(fields))

    def _first(self, arg: Expr, descending: bool) -> Expr:
        column = self._column(arg)
        if only_appends(self._below):
            accumulator = Accumulator("greatest" if descending else "least", column)
            return self._kept(accumulator, column.type, self._nullable(accumulator))
        relation = stored(self._below)
        partition = tuple(k.index for k in self._keys)
        order = (SortKey(column.index, descending, nulls_first=False),)
        index = OrderedArrangement(relation, order, (), partition)
        accumulator = Accumulator("first", column, index)
        return self._kept(accumulator, column.type, self._nullable(accumulator))

    def _nullable(self, accumulator: Accumulator) -> bool:
        if accumulator.kind not in ("first", "least", "greatest") or accumulator.arg is None:
            return False
        return accumulator.arg.nullable or not self._keys

    def _keep(self, kind: str, arg: Expr | None, type: SqlType) -> Column:
        return self._kept(Accumulator(kind, None if arg is None else self._column(arg)), type)

    def _kept(self, accumulator: Accumulator, type: SqlType, nullable: bool = False) -> Column:
        self._accumulators.setdefault(accumulator, type)
        position = len(self._keys) + list(self._accumulators).index(accumulator)
        return Column(position, type, nullable, accumulator.kind)


def _cast(expr: Expr, target: SqlType) -> Expr:
    return expr if expr.type == target else Call("cast", (expr,), target, expr.nullable)


def _index(expr: Expr) -> int:
    assert isinstance(expr, Column)
    return expr.index
