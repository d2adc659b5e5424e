"""Logical times as a lattice, and when two of them may be taken for one.

A time is an int, or a tuple of ints ordered coordinate by coordinate (an epoch and a round). A
frontier is a set of times of which none precedes another; a time is beyond it if it is at or after
one of them. Readers at frontier F tell two times apart only if some time beyond F is at or after
one and not the other. `representative` picks one time for all that F cannot tell apart, so that
updates at those times may be added up.

With one totally ordered time F is {since} and the representative is max(time, since): what a
relation forgets when it advances.

Source: Shared Arrangements, appendix A.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from typing import TypeAlias

Time: TypeAlias = int | tuple[int, ...]
Frontier: TypeAlias = frozenset[Time]


def precedes(a: Time, b: Time) -> bool:
    """a <= b."""
    return all(x <= y for x, y in zip(_coordinates(a), _coordinates(b), strict=True))


def latest(a: Time, b: Time) -> Time:
    """Least upper bound."""
    return _like(a, map(max, _coordinates(a), _coordinates(b)))


def earliest(a: Time, b: Time) -> Time:
    """Greatest lower bound."""
    return _like(a, map(min, _coordinates(a), _coordinates(b)))


def frontier(times: Iterable[Time]) -> Frontier:
    """The minimal elements of `times`."""
    every = frozenset(times)
    return frozenset(t for t in every if not any(o != t and precedes(o, t) for o in every))


def beyond(time: Time, of: Frontier) -> bool:
    return any(precedes(f, time) for f in of)


def representative(time: Time, of: Frontier) -> Time:
    """The greatest lower bound, over f in the frontier, of the least upper bound of time and f.

    Requires: the frontier is not empty (with no reader left there is nothing to represent).
    """
    return reduce(earliest, (latest(time, f) for f in sorted(of)))


def indistinguishable(a: Time, b: Time, of: Frontier, universe: Iterable[Time]) -> bool:
    """By definition: no time of `universe` beyond the frontier is at or after only one of them."""
    return all(precedes(a, t) == precedes(b, t) for t in universe if beyond(t, of))


def _coordinates(time: Time) -> tuple[int, ...]:
    return time if isinstance(time, tuple) else (time,)


def _like(time: Time, coordinates: Iterable[int]) -> Time:
    values = tuple(coordinates)
    return values if isinstance(time, tuple) else values[0]
