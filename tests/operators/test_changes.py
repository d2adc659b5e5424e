"""Normalising a step's actions against a replay of them in statement order."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.state.changes import ABSENT, DELETE, DUPLICATE, INSERT, OK, UPSERT, normalise
from tests.operators.columns import ints
from tests.reference.bag import Action, Refused, replay


def run(actions: list[Action], living: dict[int, list[int]], unique: bool) -> Any:
    """`living`: row ids per key before the step."""
    keys = sorted({a.key for a in actions})
    order = [i for k in keys for i, a in enumerate(actions) if a.key == k]
    counts = [sum(a.key == k for a in actions) for k in keys]
    rows = [living.get(k, []) for k in keys]
    return normalise(
        ints(*order),
        np.cumsum([0, *counts]),
        ints(*(a.what for a in actions)),
        ints(*(a.time for a in actions)),
        np.cumsum([0, *map(len, rows)]),
        ints(*(r for part in rows for r in part)),
        unique,
    )


def contents(
    actions: list[Action], found: Any, living: dict[int, list[int]], time: int
) -> Counter[tuple[int, int]]:
    """Rows (key, value) as of a time, from births and deaths; stored row r has value -r."""
    lives = [(k, -r, 0, 10**9) for k, rows in living.items() for r in rows]
    died = dict(zip(found.killed.tolist(), found.killed_time.tolist(), strict=True))
    assert len(died) == len(found.killed)
    lives = [(k, v, born, died.get(-v, end)) for k, v, born, end in lives]
    ended = dict(zip(found.ended.tolist(), found.ended_time.tolist(), strict=True))
    assert len(ended) == len(found.ended)
    for b, (position, time_of_birth) in enumerate(
        zip(found.births.tolist(), found.birth_time.tolist(), strict=True)
    ):
        action = actions[position]
        assert time_of_birth == action.time
        assert ended.get(b, 10**9) > action.time, "a row that is never visible"
        lives.append((action.key, action.value, action.time, ended.get(b, 10**9)))
    return Counter((k, v) for k, v, born, end in lives if born <= time < end)


_WHAT = st.sampled_from([INSERT, INSERT, DELETE, UPSERT])
_ACTIONS = st.lists(st.tuples(_WHAT, st.integers(0, 3), st.integers(0, 2)), min_size=1, max_size=14)


@given(_ACTIONS, st.dictionaries(st.integers(0, 3), st.integers(1, 3)), st.booleans())
def test_normalise(
    given_actions: list[tuple[int, int, int]], stored: dict[int, int], unique: bool
) -> None:
    time, actions = 1, []
    for i, (what, key, later) in enumerate(given_actions):
        time += later
        keyless = not unique and what == UPSERT
        actions.append(Action(INSERT if keyless else what, key, i, time))
    ids = iter(range(1, 100))
    living = {k: [next(ids) for _ in range(1 if unique else n)] for k, n in stored.items()}
    found = run(actions, living, unique)
    before = [(k, -r) for k, rows in living.items() for r in rows]
    try:
        expected = replay(actions, before, unique)
    except Refused:
        # Keys are swept one by one: the problem told is the first of some key.
        assert found.problem in (DUPLICATE, ABSENT)
        own = [a for a in actions if a.key == actions[found.problem_row].key]
        with pytest.raises(Refused) as told:
            replay(own, before, unique)
        assert own[told.value.action] is actions[found.problem_row]
        assert found.problem == (DUPLICATE if told.value.duplicate else ABSENT)
        return
    assert found.problem == OK
    assert (np.diff(found.birth_time) >= 0).all()
    for t, rows in expected.items():
        if unique:
            assert contents(actions, found, living, t) == rows
        else:  # which of a key's copies goes is open
            got = contents(actions, found, living, t)
            assert Counter(k for k, _ in got.elements()) == Counter(k for k, _ in rows.elements())
    for row, time, by in zip(
        found.killed.tolist(), found.killed_time.tolist(), found.killed_by.tolist(), strict=True
    ):
        if by >= 0:
            birth = actions[found.births[by]]
            assert birth.time == time == found.birth_time[by]
            assert row in living[birth.key]
            assert birth.what == UPSERT


def test_an_upsert_is_tied_to_the_row_that_it_replaces() -> None:
    actions = [Action(UPSERT, 0, 0, 1), Action(UPSERT, 1, 1, 1), Action(UPSERT, 0, 2, 2)]
    found = run(actions, {0: [7]}, unique=True)
    assert found.killed.tolist() == [7]
    assert found.births.tolist() == [0, 1, 2]
    assert found.killed_by.tolist() == [0]
    assert (found.ended.tolist(), found.ended_time.tolist()) == ([0], [2])


def test_births_are_in_order_of_time_then_statement() -> None:
    actions = [Action(INSERT, 2, 0, 1), Action(INSERT, 1, 1, 1), Action(INSERT, 0, 2, 1)]
    assert run(actions, {}, unique=True).births.tolist() == [0, 1, 2]


def test_a_refused_step_names_the_action() -> None:
    actions = [Action(INSERT, 0, 0, 1), Action(DELETE, 5, 1, 1), Action(DELETE, 0, 2, 1)]
    found = run(actions, {}, unique=True)
    assert (found.problem, found.problem_row) == (ABSENT, 1)
