"""Typed construction of aggregates: their calls, result types and nullability.

An aggregate of SQL is an expression over one or more calls of the algebra. FILTER, COUNT_IF,
BOOL_AND and BOOL_OR are calls on a CASE: every call ignores NULL, so a row that does not count is
given as NULL.

Source: Spark SQL, the aggregates' own result types; tests/planner/spark_types.tsv.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from planner.calculus import intervals
from planner.calculus.algebra import AggregateCall
from planner.calculus.coercion import TypeMismatch, cast, explicit_cast
from planner.calculus.expr import Call, Expr, Literal
from planner.calculus.failing import may_fail
from planner.calculus.functions import boolean, compare, is_null, logic, negation, scalar
from planner.calculus.types import (
    BIGINT,
    BOOLEAN,
    DOUBLE,
    INT,
    INTERVAL_MICROSECONDS,
    INTERVAL_MONTHS,
    STRING,
    TIMESTAMP,
    BinaryType,
    DecimalType,
    FloatType,
    IntegerType,
    IntervalType,
    NullType,
    SqlType,
    StringType,
    bounded_decimal,
    integer_as_decimal,
)

_ONE = Literal(1, INT)

#: Takes a call into the aggregation and gives its result as a column.
Keep = Callable[[AggregateCall], Expr]


def aggregate(
    name: str,
    args: Sequence[Expr],
    distinct: bool,
    condition: Expr | None,
    grouped: bool,
    keep: Keep,
) -> Expr:
    """The value of an aggregate. COUNT has any number of arguments (none: `*`), others have one.

    `condition`: of its FILTER clause. `grouped`: no group is empty, so that SUM of what is never
    NULL is not NULL.
    """
    shown = name.upper()
    if name == "count":
        counted = _counted(args, condition, distinct)
        if counted is None:
            return keep(AggregateCall("count_rows", None, BIGINT, False))
        return keep(AggregateCall("count", counted, BIGINT, False, distinct))
    if name == "count_if":
        counted = when(_both(condition, boolean(args[0], shown)), _ONE)
        return keep(AggregateCall("count", counted, BIGINT, False, distinct))
    if name in ("bool_and", "bool_or"):
        return _all_or_any(name, boolean(args[0], shown), condition, grouped, keep)
    if isinstance(args[0].type, IntervalType) and name in ("sum", "avg", "try_sum", "try_avg"):
        return _of_intervals(name, args[0], distinct, condition, grouped, keep)
    if name in ("try_sum", "try_avg"):
        return _attempted(name, args[0], distinct, condition, grouped, keep)
    arg, kind = _argument(name, args[0])
    if condition is not None:
        arg = when(condition, arg)
    nullable = arg.nullable or not grouped or name.endswith("_samp")
    counts_twice = distinct and name not in ("min", "max", "any_value")
    return keep(AggregateCall(name, arg, kind, nullable, counts_twice))


def _argument(name: str, arg: Expr) -> tuple[Expr, SqlType]:
    """The coerced argument, and the type of the result."""
    if name in ("min", "max", "any_value"):
        if isinstance(arg.type, NullType):
            raise TypeMismatch(f"{name.upper()} of NULL has no type", hint="Cast NULL to a type.")
        return arg, arg.type
    if isinstance(arg.type, (StringType, NullType)):
        arg = cast(arg, DOUBLE)
    match arg.type:
        case IntegerType() | DecimalType() | FloatType() if name not in ("sum", "avg"):
            return (cast(arg, DOUBLE) if isinstance(arg.type, FloatType) else arg), DOUBLE
        case DecimalType(precision=p, scale=s):
            wider = (p + 4, s + 4) if name == "avg" else (p + 10, s)
            return arg, bounded_decimal(*wider)
        case IntegerType():
            return arg, BIGINT if name == "sum" else DOUBLE
        case FloatType():
            return arg, DOUBLE
        case other:
            raise TypeMismatch(f"{name.upper()} needs a number, not {other}")


def _of_intervals(
    name: str, arg: Expr, distinct: bool, condition: Expr | None, grouped: bool, keep: Keep
) -> Expr:
    """SUM and AVG of intervals, by their numbers: the average is rounded half up."""
    kind, numbers = arg.type, cast(intervals.units_of(arg), BIGINT)
    assert isinstance(kind, IntervalType)
    if name.startswith("try_"):
        raise TypeMismatch(f"{name.upper()} needs a number, not {kind}", hint="Write it plainly.")
    total = aggregate("sum", (numbers,), distinct, condition, grouped, keep)
    if name == "sum":
        return intervals.interval_of(total, kind)
    count = aggregate("count", (numbers,), distinct, condition, grouped, keep)
    none = compare("eq", count, Literal(0, BIGINT))
    divisor = Call("case", (none, Literal(None, BIGINT), count), BIGINT, True)
    mean = Call("rounded_quotient", (total, divisor), BIGINT, True)
    return intervals.interval_of(
        mean, INTERVAL_MONTHS if kind.unit == "month" else INTERVAL_MICROSECONDS
    )


#: Sums of as many digits have room for any number of rows in a DECIMAL of 38.
_ROOMY = 28


def _attempted(
    name: str, arg: Expr, distinct: bool, condition: Expr | None, grouped: bool, keep: Keep
) -> Expr:
    """TRY_SUM and TRY_AVG: NULL where the sum leaves its type. Only a sum of integers does: it is
    summed in a wider type, and cast back."""
    plain = name.removeprefix("try_")
    if isinstance(arg.type, IntegerType) and plain == "sum":
        wide = cast(arg, integer_as_decimal(BIGINT))
        total = aggregate(plain, (wide,), distinct, condition, grouped, keep)
        return explicit_cast(total, BIGINT, True)
    if isinstance(arg.type, DecimalType) and arg.type.precision > _ROOMY:
        raise TypeMismatch(
            f"{name.upper()} of a DECIMAL takes at most {_ROOMY} digits, not {arg.type}",
            hint=f"Cast it, or write {plain.upper()}, whose rows are in error beyond its type.",
        )
    return aggregate(plain, (arg,), distinct, condition, grouped, keep)


def _counted(args: Sequence[Expr], condition: Expr | None, distinct: bool) -> Expr | None:
    """What is not NULL on the rows that COUNT counts; None where it counts all."""
    if distinct:
        value = args[0] if len(args) == 1 else _combined(args)
        return value if condition is None else when(condition, value)
    # An argument that is never NULL and cannot fail changes nothing.
    relevant = [a for a in args if a.nullable or may_fail(a)]
    if not relevant:
        return None if condition is None else when(condition, _ONE)
    if len(relevant) == 1:
        return relevant[0] if condition is None else when(condition, relevant[0])
    any_null = is_null(relevant[0])
    for arg in relevant[1:]:
        any_null = logic("or", any_null, is_null(arg))
    if condition is None:
        return Call("case", (any_null, Literal(None, INT), _ONE), INT, True)
    return when(logic("and", condition, negation(any_null)), _ONE)


def _combined(args: Sequence[Expr]) -> Expr:
    """One text for several values, equal where all of them are, NULL where one of them is.

    Each text but the last is preceded by its length, so that no two rows share one by accident.
    """
    parts: list[Expr] = []
    for i, arg in enumerate(args):
        if isinstance(arg.type, BinaryType):
            raise TypeMismatch(
                "COUNT(DISTINCT …) of several values takes no BINARY", hint="Cast it to STRING."
            )
        value = arg
        if isinstance(arg.type, FloatType):
            # -0.0 = 0.0, but their texts differ; -0.0 + 0.0 is 0.0.
            value = Call("add", (arg, Literal(0.0, arg.type)), arg.type, arg.nullable)
        text = cast(value, STRING)
        if value.type == TIMESTAMP:  # by UTC: clocks of a zone show some times at two instants
            text = Call("cast", (value,), STRING, value.nullable)
        if i + 1 < len(args):
            parts += [cast(scalar("length", (text,)), STRING), Literal(":", STRING)]
        parts.append(text)
    return scalar("concat", parts)


def _all_or_any(name: str, value: Expr, condition: Expr | None, grouped: bool, keep: Keep) -> Expr:
    """BOOL_AND: there is no FALSE; BOOL_OR: there is a TRUE; NULL where all values are NULL."""
    wanted = negation(value) if name == "bool_and" else value
    seen = AggregateCall("count", when(_both(condition, wanted), _ONE), BIGINT, False)
    none = Literal(0, BIGINT)
    result = compare("eq" if name == "bool_and" else "gt", keep(seen), none)
    if grouped and condition is None and not value.nullable:
        return result
    counted = _counted((value,), condition, False)
    function = "count_rows" if counted is None else "count"
    total = keep(AggregateCall(function, counted, BIGINT, False))
    args = (compare("eq", total, none), Literal(None, BOOLEAN), result)
    return Call("case", args, BOOLEAN, True)


def _both(condition: Expr | None, value: Expr) -> Expr:
    return value if condition is None else logic("and", condition, value)


def when(condition: Expr, value: Expr) -> Expr:
    """The value where the condition is TRUE, else NULL."""
    return Call("case", (condition, value, Literal(None, value.type)), value.type, True)
