"""Deltas: selecting, extending and concatenating move row ids, never change what a column holds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.flight import delta as deltas
from operators.flight.delta import Delta, Pairs
from operators.flight.unchanged import equal_rows, without_unchanged
from operators.state.relation import Relation
from planner.calculus import types as t
from tests.operators.columns import Row, ints, schema, to_columns, to_rows

FIELDS = schema(t.BIGINT, t.STRING)
ROWS: list[Row] = [(1, "a"), (None, "b"), (3, None), (4, ""), (5, "é" * 9)]


def relation(rows: list[Row] = ROWS, fields: t.Schema = FIELDS) -> Relation:
    made = Relation(fields)
    made.append(to_columns(rows, fields), np.full(len(rows), 1, np.int64))
    return made


def bound(rows: list[int]) -> Delta:
    n = len(rows)
    return deltas.bound(relation(), ints(*rows), np.arange(n), np.ones(n, np.int64))


def computed(rows: list[int]) -> Delta:
    n = len(rows)
    columns: list[deltas.Origin] = [*to_columns([ROWS[r] for r in rows], FIELDS)]
    return Delta(FIELDS, np.arange(n), np.ones(n, np.int64), columns)


def values(delta: Delta) -> list[Row]:
    return to_rows(delta.columns(), delta.schema)


_STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("select"), st.lists(st.integers(0, 99), max_size=8)),
        st.tuples(st.just("look"), st.integers(0, 1)),
        st.tuples(st.just("concatenate"), st.lists(st.integers(0, 4), max_size=4)),
    ),
    max_size=6,
)


@given(st.booleans(), st.lists(st.integers(0, 4), max_size=6), _STEPS)
def test_lockstep(is_bound: bool, rows: list[int], steps: list[tuple[str, Any]]) -> None:
    delta = bound(rows) if is_bound else computed(rows)
    for what, how in steps:
        match what:
            case "select":
                picks = [p % len(rows) for p in how] if rows else []
                delta, rows = delta.select(ints(*picks)), [rows[p] for p in picks]
            case "look":
                got = to_rows([delta.column(how)], (FIELDS[how],))
                assert got == [(ROWS[r][how],) for r in rows]
            case _:
                delta = deltas.concatenate(FIELDS, [delta, bound(how), computed(how)])
                rows = rows + how + how
    places = ints(*range(len(rows) - 1, -1, -1))
    for i in range(2):
        peeked = to_rows([delta.peek(i, places)], (FIELDS[i],))
        assert peeked == [(ROWS[r][i],) for r in rows[::-1]]
    assert len(delta) == len(rows) == len(delta.time) == len(delta.diff)
    assert values(delta) == [ROWS[r] for r in rows]


def test_extend_binds_the_columns_of_another_relation() -> None:
    both = (*FIELDS, *FIELDS)
    left, right = relation(), relation([(10, "x"), (20, "y")])
    start = Delta(both, ints(1, 2, 3), ints(1, -1, 1), [None] * 4)
    prefix = start.extend(2, 2, left, ints(0, 1, 4))
    with pytest.raises(LookupError):
        prefix.column(0)
    assert to_rows([prefix.column(2)], (FIELDS[0],)) == [(1,), (None,), (5,)]
    whole = prefix.select(ints(2, 0)).extend(0, 2, right, ints(1, 0))
    assert values(whole) == [(20, "y", 5, "é" * 9), (10, "x", 1, "a")]
    assert whole.time.tolist() == [3, 1]
    assert whole.binding_of(3).rows.tolist() == [4, 0]


def test_filter_keeps_the_object_that_loses_nothing() -> None:
    delta = bound([0, 1])
    assert delta.filter(np.array([True, True])) is delta
    assert values(delta.filter(np.array([False, True]))) == [(None, "b")]


def test_nothing() -> None:
    assert values(deltas.empty(FIELDS)) == []
    assert len(deltas.concatenate(FIELDS, [])) == 0


def _updates(may_be_equal: bool) -> Delta:
    """Three updates: of both columns, of the text alone, of nothing; and a lonely birth."""
    rows: list[Row] = [(1, "a"), (2, "b"), (None, "c"), (9, "A"), (2, "B"), (None, "c"), (7, "z")]
    pairs = Pairs(ints(0, 1, 2), ints(3, 4, 5), may_be_equal)
    return deltas.bound(
        relation(rows), np.arange(7), ints(1, 1, 1, 1, 1, 1, 1), ints(-1, -1, -1, 1, 1, 1, 1), pairs
    )


@pytest.mark.parametrize(
    ("used", "may_be_equal", "kept"),
    [
        ((0,), True, [0, 3, 6]),
        ((1,), True, [0, 1, 3, 4, 6]),
        ((0, 1), True, [0, 1, 3, 4, 6]),
        ((0, 1), False, [0, 1, 2, 3, 4, 5, 6]),  # told that all differ: not looked at
        ((), True, [6]),
    ],
)
def test_updates_that_change_nothing_used_are_cancelled(
    used: tuple[int, ...], may_be_equal: bool, kept: list[int]
) -> None:
    left = without_unchanged(_updates(may_be_equal), used)
    assert left.bindings[0].rows.tolist() == kept


def test_equal_rows() -> None:
    """NULL equals NULL whatever lies under it; doubles compare by their bytes."""
    cases: list[tuple[t.SqlType, Any, Any, bool]] = [
        (t.BIGINT, 1, 1, True),
        (t.BIGINT, None, 0, False),
        (t.BIGINT, None, None, True),
        (t.STRING, "a", "a", True),
        (t.STRING, "a", "b", False),
        (t.STRING, None, "", False),
        (t.STRING, None, None, True),
        (t.DOUBLE, 0.0, -0.0, False),
        (t.DOUBLE, float("nan"), float("nan"), True),
        (t.FLOAT, 0.5, 0.5, True),
        (t.BINARY, b"\0", b"\0\0", False),
        (t.BOOLEAN, True, True, True),
    ]
    for kind, left, right, same in cases:
        fields = schema(kind)
        sides = [to_columns([(v,), (None,)], fields)[0] for v in (left, right)]
        assert equal_rows(*sides).tolist() == [same, True], (kind, left, right)
