"""The clocks of a time zone over whole arrays: instants to local days and times, and back.

A local time is a pair (days since 1970-01-01, microseconds of the day), so that it is exact for
every instant of 64 bits, and nothing here overflows but the way back to microseconds, which is
checked. The rules are those of planner.calculus.zones.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from operators.flight.column import Bools, Ints
from operators.scalar.value import Node
from planner.calculus.zones import CYCLE_SECONDS, SECONDS_PER_DAY, UTC, Zone, find

MICROS_PER_SECOND = 1_000_000
MICROS_PER_DAY = SECONDS_PER_DAY * MICROS_PER_SECOND
_MIN, _MAX = -(1 << 63), (1 << 63) - 1


class Clocks:
    """Conversions of one zone. Arrays are int64[n], and are never written to.

    Cost: O(n log(transitions)); of a zone of one offset, a few passes over the array.
    """

    def __init__(self, zone: Zone) -> None:
        self._transitions = np.array(zone.transitions, np.int64)
        self._offsets = np.array(zone.offsets, np.int64)
        self._local_transitions = np.array(zone.local_transitions, np.int64)
        self._cycle_start = zone.cycle_start

    def local(self, instants: Ints) -> tuple[Ints, Ints]:
        """(days, microseconds of the day) that clocks show at instants in microseconds."""
        seconds = instants // MICROS_PER_SECOND
        fraction = instants - seconds * MICROS_PER_SECOND
        seconds = seconds + self._offsets_at(seconds)
        days = seconds // SECONDS_PER_DAY
        return days, (seconds - days * SECONDS_PER_DAY) * MICROS_PER_SECOND + fraction

    def instants(self, days: Ints, rest: Ints, near: Ints | None = None) -> tuple[Ints, Bools]:
        """The instants at which clocks show local times, and which are beyond 64 bits (they are 0).

        A time that is shown never is moved on by as much as clocks skip. Of one that is shown twice
        the first, or the one whose offset holds at the instant `near`.
        """
        seconds = rest // MICROS_PER_SECOND
        fraction = rest - seconds * MICROS_PER_SECOND
        seconds = seconds + days * SECONDS_PER_DAY
        if len(self._transitions):
            moved = self._in_cycle(seconds)
            place = np.searchsorted(self._local_transitions, moved, "right")
            offsets = self._offsets[place]
            if near is not None:
                wanted = self._offsets_at(near // MICROS_PER_SECOND)
                following = np.minimum(place, len(self._transitions) - 1)
                begins = self._transitions[following] + self._offsets[following + 1]
                second = (place < len(self._transitions)) & (moved >= begins)
                second &= wanted == self._offsets[following + 1]
                offsets = np.where(second, wanted, offsets)
        else:
            offsets = self._offsets
        return _micros(seconds - offsets, fraction)

    def starts(self, days: Ints) -> tuple[Ints, Bools]:
        """The first instant of each day, and which are beyond 64 bits (they are 0)."""
        seconds = days * SECONDS_PER_DAY
        starts: Any = seconds
        if len(self._transitions):
            moved = self._in_cycle(seconds)
            place = np.searchsorted(self._local_transitions, moved, "right")
            following = np.minimum(place, len(self._transitions) - 1)
            change = self._transitions[following]
            before, after = self._offsets[following], self._offsets[following + 1]
            skipped = (place < len(self._transitions)) & (after > before)
            skipped &= moved >= change + before
            starts = seconds - np.where(skipped, moved - change, self._offsets[place])
        else:
            starts = seconds - self._offsets
        return _micros(starts, np.zeros(1, np.int64))

    def _offsets_at(self, seconds: Ints) -> Ints:
        if not len(self._transitions):
            return self._offsets
        place = np.searchsorted(self._transitions, self._in_cycle(seconds), "right")
        offsets: Ints = self._offsets[place]
        return offsets

    def _in_cycle(self, seconds: Ints) -> Ints:
        start = self._cycle_start
        if start is None or not len(seconds) or seconds.max() < start + CYCLE_SECONDS:
            return seconds
        moved: Ints = np.where(
            seconds < start + CYCLE_SECONDS, seconds, start + (seconds - start) % CYCLE_SECONDS
        )
        return moved


def _micros(seconds: Ints, fraction: Ints) -> tuple[Ints, Bools]:
    """Microseconds, 0 where they are beyond 64 bits, and where that is."""
    top, bottom = divmod(_MAX, MICROS_PER_SECOND), divmod(_MIN, MICROS_PER_SECOND)
    bad = (seconds > top[0]) | ((seconds == top[0]) & (fraction > top[1]))
    bad |= (seconds < bottom[0]) | ((seconds == bottom[0]) & (fraction < bottom[1]))
    with np.errstate(over="ignore"):
        micros = seconds * MICROS_PER_SECOND + fraction
    return np.where(bad, 0, micros), bad


@lru_cache(maxsize=64)
def clocks_of(zone: Zone) -> Clocks:
    return Clocks(zone)


UTC_CLOCKS = clocks_of(UTC)


def call_zone(args: tuple[Node, ...], count: int) -> Zone:
    """The time zone of a call: its argument after the first `count`, or else UTC.

    Raises: ValueError if no zone of that name is known here.
    """
    if len(args) == count:
        return UTC
    name = str(args[count].value)
    zone = find(name)
    if zone is None:
        raise ValueError(f"no rules for the time zone {name!r}: is another tzdata installed here?")
    return zone


def call_clocks(args: tuple[Node, ...], count: int) -> Clocks:
    """The clocks of `call_zone`."""
    return clocks_of(call_zone(args, count))
