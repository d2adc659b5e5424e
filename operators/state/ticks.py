"""Ticks: the times of what is inside of a loop (see operators.nodes.loop)."""

from __future__ import annotations

#: A tick is an epoch and, below it, what happens in it one after the other.
ROUND_BITS = 20
#: The most rounds that an epoch has ticks for.
MOST_ROUNDS = (1 << ROUND_BITS) - 3


def tick_of(epoch: int) -> int:
    """The first tick of an epoch, at which the changes from outside are there."""
    return epoch << ROUND_BITS


def epoch_end(epoch: int) -> int:
    """The last tick of an epoch."""
    return ((epoch + 1) << ROUND_BITS) - 1


def round_of(tick: int) -> int:
    """The round whose tick it is; -1 for the first of an epoch."""
    return (tick & ((1 << ROUND_BITS) - 1)) - 1
