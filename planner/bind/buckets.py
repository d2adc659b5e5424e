"""TIME_BUCKET: the start of the bucket that a time falls into, of a size from an origin on.

Buckets of days and of months of a TIMESTAMP follow the clocks of the session's zone: they are built
where these are UTC's. Source: Spark SQL, TimeBucket.
"""

from __future__ import annotations

from planner.calculus import functions
from planner.calculus.coercion import MICROSECONDS, MICROSECONDS_PER_DAY, TypeMismatch
from planner.calculus.expr import Call, Expr, Literal
from planner.calculus.session_zone import session_zone
from planner.calculus.types import BIGINT, INT, IntervalType, NullType, TimestampType


def time_bucket(size: Expr, time: Expr, origin: Expr | None) -> Expr:
    """The bound call. Raises: TypeMismatch for what Spark refuses, and as said above."""
    kind = time.type
    if not isinstance(kind, TimestampType):
        raise TypeMismatch(f"TIME_BUCKET is of a TIMESTAMP, not {kind}", hint="Cast it.")
    if isinstance(size.type, NullType):
        return Literal(None, kind)
    if not isinstance(size.type, IntervalType) or not isinstance(size, Literal):
        raise TypeMismatch(f"TIME_BUCKET needs a literal INTERVAL, not {size.type}")
    length = size.value
    if not isinstance(length, int) or length <= 0:
        raise TypeMismatch("the buckets of TIME_BUCKET must be longer than nothing")
    start = _start(origin, kind)
    months = size.type.unit == "month"
    zone = session_zone()
    if (months or length >= MICROSECONDS_PER_DAY) and not (kind.local or zone.is_utc):
        raise TypeMismatch(
            f"TIME_BUCKET of a TIMESTAMP by days or months in {zone.id} is not maintained",
            "Days there have not all the same length.",
            "Cast the time to TIMESTAMP_NTZ.",
        )
    if not months:
        return functions.period_edge(time, length, start, Literal(0, BIGINT))
    return _of_months(time, Literal(start, kind), length)


def _start(origin: Expr | None, kind: TimestampType) -> int:
    """The origin in microseconds."""
    if origin is None:
        return 0 if kind.local else session_zone().instant_of(0) * MICROSECONDS
    if origin.type != kind or not isinstance(origin, Literal) or not isinstance(origin.value, int):
        raise TypeMismatch(f"TIME_BUCKET needs a literal {kind} as the origin")
    return origin.value


def _of_months(time: Expr, origin: Literal, length: int) -> Expr:
    """The bucket of the time's month, or the one before, where its day and time are not yet."""
    apart = functions.arithmetic("subtract", _months(time), _months(origin))
    into = functions.positive_remainder(apart, Literal(length, INT))
    count = functions.arithmetic("subtract", apart, into)
    begun = _moved(origin, count)
    before = _moved(origin, functions.arithmetic("subtract", count, Literal(length, INT)))
    later = functions.compare("gt", begun, time)
    return functions.conditional([(later, before)], begun, "TIME_BUCKET")


def _months(time: Expr) -> Expr:
    """Since the year 0."""
    years = functions.scalar("year", [time])
    whole = functions.arithmetic("multiply", years, Literal(12, INT))
    return functions.arithmetic("add", whole, functions.scalar("month", [time]))


def _moved(origin: Literal, months: Expr) -> Expr:
    args = (origin, months, *functions.zone_of(origin))
    return Call("add_months", args, origin.type, months.nullable)
