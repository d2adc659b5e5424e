"""Lattice laws and the compaction theorems, for one coordinate and for two; and that a relation's
`advance` is the theorem's representative for totally ordered times."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.flight.column import Column
from operators.state.relation import Relation
from planner.calculus import types as t
from tests.operators.columns import ints, schema
from tests.reference.time import (
    Frontier,
    Time,
    beyond,
    earliest,
    frontier,
    indistinguishable,
    latest,
    precedes,
    representative,
)

_SIZE = 5
#: Every time that frontiers and times are drawn from, and one more, beyond all of them.
UNIVERSES: dict[str, list[Time]] = {
    "total": list(range(_SIZE + 1)),
    "product": list(product(range(_SIZE + 1), repeat=2)),
}


def _times(kind: str) -> st.SearchStrategy[Time]:
    coordinate = st.integers(0, _SIZE - 1)
    return coordinate if kind == "total" else st.tuples(coordinate, coordinate)


def _frontiers(kind: str) -> st.SearchStrategy[Frontier]:
    return st.sets(_times(kind), min_size=1, max_size=4).map(frontier)


both = pytest.mark.parametrize("kind", list(UNIVERSES))


@both
@given(st.data())
def test_lattice(kind: str, data: st.DataObject) -> None:
    a, b, c = (data.draw(_times(kind)) for _ in range(3))
    assert precedes(a, latest(a, b))
    assert precedes(earliest(a, b), a)
    assert latest(a, b) == latest(b, a)
    assert earliest(a, b) == earliest(b, a)
    assert latest(a, earliest(a, b)) == a == earliest(a, latest(a, b))
    assert (precedes(b, a) and precedes(c, a)) == precedes(latest(b, c), a)
    assert (precedes(a, b) and precedes(a, c)) == precedes(a, earliest(b, c))


@both
@given(st.data())
def test_frontier_is_an_antichain(kind: str, data: st.DataObject) -> None:
    times = data.draw(st.sets(_times(kind), min_size=1, max_size=6))
    minimal = frontier(times)
    assert all(a == b or not precedes(a, b) for a, b in product(minimal, repeat=2))
    for time in UNIVERSES[kind]:
        assert beyond(time, minimal) == beyond(time, frozenset(times))


@both
@given(st.data())
def test_correctness(kind: str, data: st.DataObject) -> None:
    """Theorem 1: a time and its representative cannot be told apart."""
    time, of = data.draw(_times(kind)), data.draw(_frontiers(kind))
    assert indistinguishable(time, representative(time, of), of, UNIVERSES[kind])


@both
@given(st.data())
def test_optimality(kind: str, data: st.DataObject) -> None:
    """Theorem 2: times that cannot be told apart have one representative."""
    a, b = data.draw(_times(kind)), data.draw(_times(kind))
    of = data.draw(_frontiers(kind))
    if indistinguishable(a, b, of, UNIVERSES[kind]):
        assert representative(a, of) == representative(b, of)


@both
@given(st.data())
def test_advancing_twice_is_advancing_once(kind: str, data: st.DataObject) -> None:
    time, early = data.draw(_times(kind)), data.draw(_frontiers(kind))
    later = frontier(latest(a, b) for a in early for b in data.draw(_frontiers(kind)))
    assert representative(representative(time, early), later) == representative(time, later)


@given(st.integers(0, 9), st.integers(0, 9))
def test_a_total_order_takes_the_maximum(time: int, since: int) -> None:
    assert representative(time, frozenset({since})) == max(time, since)


@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(1, 9)), min_size=1, max_size=12),
    st.integers(0, 12),
)
def test_a_relation_advances_to_representatives(lives: list[tuple[int, int]], since: int) -> None:
    """Reads at or after since see what they would if every time were its representative; and times
    whose representative is since itself are not kept."""
    lives.sort()
    born = [b for b, _ in lives]
    died = [b + length for b, length in lives]
    relation = Relation(schema(t.BIGINT))
    relation.append([Column(t.BIGINT, ints(*born))], ints(*born))
    dying = [i for i, d in enumerate(died) if d <= 10]
    relation.kill(ints(*dying), ints(*(died[i] for i in dying)))
    relation.advance(since)
    of = frozenset({since})
    for time in range(since, 20):
        expected = [
            i
            for i in range(len(lives))
            if precedes(representative(born[i], of), time)
            and not (i in dying and precedes(representative(died[i], of), time))
        ]
        assert relation.visible(time).tolist() == expected
    _, _, born_time, _, died_time = relation.versions
    kept = np.concatenate((born_time, died_time))
    assert all(representative(time, of) != since for time in kept.tolist())
