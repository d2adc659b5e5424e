"""The group operator one update at a time, with Python's integers."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass

Accumulators = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Event:
    """At `time` the group's row `old` is replaced by `new`; None is no row."""

    time: int
    group: Hashable
    old: Accumulators | None
    new: Accumulators | None


class NegativeCount(Exception):
    """A group would have fewer than no rows."""


def sweep(
    changes: Iterable[tuple[Hashable, int, Accumulators]],
    stored: Mapping[Hashable, Accumulators],
    always: bool,
) -> list[Event]:
    """Events of (group, time, what to add), each group's times ascending and distinct.

    Word 0 of the accumulators counts the group's rows. `always`: groups live at count 0 too.
    """
    now: dict[Hashable, Accumulators | None] = dict(stored)
    events: list[Event] = []
    for group, time, add in changes:
        old = now.get(group)
        if not any(add) and not (always and old is None):
            continue
        base = old if old is not None else (0,) * len(add)
        total = tuple(a + b for a, b in zip(base, add, strict=True))
        if total[0] < 0:
            raise NegativeCount
        new = total if always or total[0] > 0 else None
        if new is None and old is None:
            continue
        events.append(Event(time, group, old, new))
        now[group] = new
    return events


def sums(updates: Iterable[tuple[Hashable, int | None, int]]) -> dict[Hashable, int]:
    """Per group the sum of value * diff; NULLs add nothing."""
    total: dict[Hashable, int] = {}
    for group, value, diff in updates:
        total[group] = total.get(group, 0) + (0 if value is None else value * diff)
    return total


def wrapped(number: int) -> int:
    """As 128 bits in two's complement."""
    return (number + 2**127) % 2**128 - 2**127


def words(number: int, count: int = 2) -> tuple[int, ...]:
    """A number in two's complement of `count` words, lowest first, each as a signed integer."""
    unsigned = [(number >> 64 * w) % 2**64 for w in range(count)]
    return tuple(u - 2**64 * (u >= 2**63) for u in unsigned)


def from_words(*parts: int) -> int:
    *lower, top = parts
    return top * 2 ** (64 * len(lower)) + sum(p % 2**64 << 64 * w for w, p in enumerate(lower))
