"""The time zone that a query is bound in, and where its meaning depends on it.

TIMESTAMP is an instant; text, dates, TIMESTAMP_NTZ and fields such as the hour are what the clocks
of a zone show. Calls between the two carry the zone as their last argument, so that a plan says all
that it means: it can be kept, shared and sent anywhere, and the same text bound in two zones gives
two plans. In UTC the argument is left out.

Invariant: no call or literal that depends on the zone is made outside `bound_in`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from planner.calculus.expr import Literal
from planner.calculus.types import (
    STRING,
    DateType,
    NestedType,
    SqlType,
    StringType,
    TimestampType,
    parts_of,
)
from planner.calculus.zones import Zone


@dataclass(slots=True)
class SessionZone:
    """`asked`: whether something in the query depends on it."""

    zone: Zone
    asked: bool = False


_BOUND: ContextVar[SessionZone] = ContextVar("session_zone")


@contextmanager
def bound_in(zone: Zone) -> Iterator[SessionZone]:
    """Bind in this zone until the end of the block."""
    session = SessionZone(zone)
    token = _BOUND.set(session)
    try:
        yield session
    finally:
        _BOUND.reset(token)


def session_zone() -> Zone:
    """The zone, for something that depends on it. Raises: LookupError outside `bound_in`."""
    session = _BOUND.get()
    session.asked = True
    return session.zone


def zone_argument() -> tuple[Literal, ...]:
    """The last argument of a call that depends on the zone: its id, or none for UTC."""
    zone = session_zone()
    return () if zone.is_utc else (Literal(zone.id, STRING),)


def cast_argument(source: SqlType, target: SqlType) -> tuple[Literal, ...]:
    """Likewise of a cast: one between an instant and what clocks show."""
    shown = (StringType, DateType)
    if isinstance(source, NestedType):
        parts = parts_of(source)
        into = parts_of(target) if isinstance(target, NestedType) else (target,) * len(parts)
        return next(filter(None, map(cast_argument, parts, into)), ())
    match source, target:
        case TimestampType(local=a), TimestampType(local=b) if a != b:
            return zone_argument()
        case (TimestampType(local=False), kind) | (kind, TimestampType(local=False)):
            return zone_argument() if isinstance(kind, shown) else ()
        case _:
            return ()
