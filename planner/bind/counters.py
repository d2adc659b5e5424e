"""COUNTER_DIFF: how much a counter that only grows has grown since the row before it.

It is made of values of that row, the last before this one whose counter is not NULL: see
`windows`. Source: Spark SQL, CounterDiff and CounterDiffWithStartTime.
"""

from __future__ import annotations

from collections.abc import Callable

from planner.calculus import functions
from planner.calculus.coercion import TypeMismatch, cast
from planner.calculus.expr import Call, Expr, Literal
from planner.calculus.types import (
    INT,
    NULL,
    STRING,
    Field,
    StructType,
    TimestampType,
    is_numeric,
)

_NEGATIVE = "[COUNTER_DIFF_NEGATIVE_COUNTER_VALUE] a counter is negative"
_EARLIER = "[COUNTER_DIFF_START_TIME_DECREASED] the start of a counter is before the last one"


def counter_diff(value: Expr, start: Expr | None, before: Callable[[Expr], Expr]) -> Expr:
    """`before`: what an expression was in the last row before where it is not NULL."""
    kind = value.type
    if not is_numeric(kind):
        raise TypeMismatch(f"COUNTER_DIFF needs a number, not {kind}")
    last = before(value)
    negative = functions.compare("lt", value, cast(Literal(0, INT), kind))
    branches = [(negative, _raised(_NEGATIVE))]
    nothing = Literal(None, NULL)
    if start is not None:
        if not isinstance(start.type, TimestampType):
            raise TypeMismatch(f"COUNTER_DIFF needs a TIMESTAMP as the start, not {start.type}")
        last_start = _start_before(value, start, before)
        there = functions.negation(functions.is_null(value))
        earlier = functions.chain("and", [there, functions.compare("lt", start, last_start)])
        branches.append((earlier, _raised(_EARLIER)))
        branches.append((functions.compare("gt", start, last_start), nothing))
    branches.append((functions.compare("lt", value, last), nothing))
    grown = cast(functions.arithmetic("subtract", value, last), kind)
    return functions.conditional(branches, grown, "COUNTER_DIFF")


def _raised(message: str) -> Expr:
    return Call("raise_error", (Literal(message, STRING),), NULL, True)


def _start_before(value: Expr, start: Expr, before: Callable[[Expr], Expr]) -> Expr:
    """The start in the last row with a counter, which may be NULL: within a struct it is not."""
    kind = StructType((Field("start", start.type),))
    held = Call("struct", (start,), kind, False)
    of_counter = functions.conditional(
        [(functions.is_null(value), Literal(None, NULL))], held, "COUNTER_DIFF"
    )
    return Call("field", (before(of_counter), Literal(0, INT)), start.type, True)
