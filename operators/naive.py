"""What data without a time zone means where an instant is wanted: what the session's clocks show.

Whoever takes data in says which zone that is, for as long as it takes (`naive_in`). The zone is
asked for only if there is such a value, since Spark may have to be asked.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from operators.flight.column import Bools, Ints
from operators.scalar.zones import MICROS_PER_SECOND, UTC_CLOCKS, clocks_of
from planner.calculus.zones import UTC, Zone

_Zone: TypeAlias = Callable[[], Zone]


class naive_in:
    """Take data without a time zone for that of this zone, which is asked for once, until the end
    of the block; outside of any it is UTC."""

    __slots__ = ("_ask", "_known", "_token")

    def __init__(self, zone: _Zone) -> None:
        self._ask = zone
        self._known: Zone | None = None

    def __enter__(self) -> None:
        self._token = _INSIDE.set(self)

    def __exit__(self, *_: object) -> None:
        _INSIDE.reset(self._token)

    def zone(self) -> Zone:
        if self._known is None:
            self._known = self._ask()
        return self._known


_INSIDE: ContextVar[naive_in | None] = ContextVar("naive_zone", default=None)


def _zone() -> Zone:
    inside = _INSIDE.get()
    return UTC if inside is None else inside.zone()


def instant_of(local: int, later: bool) -> int:
    """The instant of a local time, both in microseconds. `later`: of two the second."""
    zone = _zone()
    if zone.is_utc:
        return local
    seconds, fraction = divmod(local, MICROS_PER_SECOND)
    return zone.instant_of(seconds, later) * MICROS_PER_SECOND + fraction


def instants_of(local: Ints) -> tuple[Ints, Bools | None]:
    """The instants of local times in microseconds, and which are beyond 64 bits, if one may be."""
    zone = _zone()
    if zone.is_utc:
        return local, None
    return clocks_of(zone).instants(*UTC_CLOCKS.local(local))


def instants(local: pa.Array) -> pa.Array:
    """`instants_of` timestamps without a zone. Raises: ArrowInvalid beyond 64 bits."""
    given = local.cast(pa.timestamp("us"))
    values, bad = clocks_of(_zone()).instants(*UTC_CLOCKS.local(_numbers(given, pa.int64())))
    return _stamps(values, bad, given, pa.timestamp("us", UTC.id))


def starts_of(days: pa.Array) -> pa.Array:
    """The first instants of dates, as timestamps. Raises: ArrowInvalid beyond 64 bits."""
    given = days.cast(pa.date32())
    values, bad = clocks_of(_zone()).starts(_numbers(given, pa.int32()))
    return _stamps(values, bad, given, pa.timestamp("us", UTC.id))


def shown(instants: pa.Array) -> pa.Array:
    """What the session's clocks show at timestamps with a zone, as timestamps without one.

    Raises: ArrowInvalid beyond 64 bits, or for one that is no whole number of microseconds."""
    given = instants.cast(pa.timestamp("us", UTC.id))
    local = clocks_of(_zone()).local(_numbers(given, pa.int64()))
    return _stamps(*UTC_CLOCKS.instants(*local), given, pa.timestamp("us"))


def _numbers(array: pa.Array, stored: pa.DataType) -> Any:
    """The stored integers, 0 under NULLs."""
    return array.view(stored).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)


def _stamps(values: Ints, bad: Bools, given: pa.Array, kind: pa.DataType) -> pa.Array:
    if bad.any():
        raise pa.ArrowInvalid("beyond 64 bits of microseconds")
    nulls = given.is_null().to_numpy(zero_copy_only=False)
    return pa.array(values, pa.int64(), mask=nulls).view(kind)
