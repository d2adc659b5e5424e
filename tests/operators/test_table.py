"""Base tables against Python collections: statement order, many epochs in a step, refusals."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Callable
from decimal import Decimal
from itertools import pairwise
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from operators.kernels import encoding
from operators.state.changes import ABSENT, DUPLICATE, INSERT
from operators.step import Refused
from operators.table import Change as Statement
from operators.table import Checked
from planner import dataflow as ir
from planner.calculus import types as t
from planner.calculus.types import Field
from tests.operators.columns import Row, to_columns
from tests.operators.running import Running
from tests.reference.bag import accumulate
from tests.reference.tables import Change, Rejected, delete, insert, upsert

KEYED = (Field("a", t.INT, False), Field("b", t.STRING, False), Field("c", t.DOUBLE, True))
BAG = (Field("a", t.INT, True), Field("b", t.STRING, True))


def _running(key: tuple[int, ...] | None = (0, 1), schema: t.Schema = KEYED) -> Running:
    running = Running()
    source = running.add_table("t", schema, key)
    running.install("v", source_view(source))
    return running


def source_view(source: ir.Source) -> ir.Node:
    """The table's own delta, as a view."""
    return ir.Store(source)


def _rows(running: Running, time: int) -> Counter[Row]:
    return accumulate(running.updates["v"], time)


def _changes(rng: Random, keyed: bool) -> list[Change]:
    made: list[Change] = []
    for _ in range(rng.choice((1, 2, 4))):
        row: Row
        if keyed:
            row = (rng.randrange(2), rng.choice(("", "x")), rng.choice((None, 0.5, 1.5)))
            op = rng.choice((insert, upsert, upsert, delete))
        else:
            row = (rng.choice((None, 0, 1)), rng.choice((None, "", "x")))
            op = rng.choice((insert, insert, delete))
        made.append(op("t", *([row] * rng.choice((1, 1, 2) if op is not upsert else (1,)))))
    return made


@pytest.mark.parametrize("keyed", [True, False])
@settings(max_examples=40)
@given(st.integers(0, 10**6))
def test_lockstep(keyed: bool, seed: int) -> None:
    """Steps of several epochs; whoever is refused by the model is refused here, and the other way
    round, and leaves no trace."""
    rng = Random(seed)
    running = _running() if keyed else _running(None, BAG)
    for _ in range(8):
        epochs = [_changes(rng, keyed) for _ in range(rng.choice((1, 1, 3)))]
        shadow = running.tables["t"].copy()
        states = []
        try:
            for epoch in epochs:
                for change in epoch:
                    shadow.apply(change)
                states.append(shadow.rows.copy())
        except Rejected:
            before, upper = _state(running), running.epoch
            with pytest.raises(Refused):
                running.apply(epochs)
            assert (_state(running), running.epoch) == (before, upper)
            continue
        first = running.epoch + 1
        running.apply(epochs)
        for time, rows in enumerate(states, start=first):
            assert _rows(running, time) == rows
        running.check()


def _state(running: Running) -> list[tuple[int, ...]]:
    relations = (r for _, r in running.dataflow.relations())
    return [(r.next_row, r.live_rows, len(r.versions[3]), len(r.versions[1])) for r in relations]


A, B = (1, "k", 0.5), (1, "k", 1.5)

SEQUENCES: dict[str, tuple[list[list[Change]], list[Counter[Row]]]] = {
    "insert, delete, insert of one key in one epoch": (
        [[insert("t", A), delete("t", A), insert("t", B)]],
        [Counter([B])],
    ),
    "delete, insert, delete of one key in one epoch": (
        [[insert("t", A)], [delete("t", A), insert("t", B), delete("t", B)]],
        [Counter([A]), Counter()],
    ),
    "insert and delete of a new key in one epoch": (
        [[insert("t", A), delete("t", A)]],
        [Counter()],
    ),
    "a chain of upserts over the epochs of a step": (
        [[upsert("t", A)], [upsert("t", B)], [upsert("t", A), upsert("t", B)], [upsert("t", A)]],
        [Counter([A]), Counter([B]), Counter([B]), Counter([A])],
    ),
    "an upsert of an equal row": ([[insert("t", A)], [upsert("t", A)]], [Counter([A])] * 2),
    "an upsert, then a delete": (
        [[insert("t", A)], [upsert("t", B), delete("t", B)]],
        [Counter([A]), Counter()],
    ),
    "a key comes back in a later epoch": (
        [[insert("t", A)], [delete("t", A)], [insert("t", B)]],
        [Counter([A]), Counter(), Counter([B])],
    ),
}


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize("name", list(SEQUENCES))
def test_sequences(name: str, together: bool) -> None:
    epochs, expected = SEQUENCES[name]
    running = _running()
    if together:
        running.apply(epochs)
    else:
        for epoch in epochs:
            running.apply([epoch])
    for time, rows in enumerate(expected, start=1):
        assert _rows(running, time) == rows
    assert running.dataflow.tables[running.sources["t"]].relation.live_rows == expected[-1].total()
    running.check()


@pytest.mark.parametrize(
    ("epochs", "problem", "change", "row"),
    [
        ([[insert("t", A, B)]], DUPLICATE, 0, 1),
        ([[insert("t", A)], [insert("t", B)]], DUPLICATE, 1, 0),
        ([[insert("t", (2, "k", None), A)], [delete("t", A), delete("t", A)]], ABSENT, 2, 0),
        ([[delete("t", A)]], ABSENT, 0, 0),
        ([[insert("t", A), delete("t", (2, "k", None), A)]], ABSENT, 1, 0),
        ([[upsert("t", A), insert("t", B)]], DUPLICATE, 1, 0),
    ],
)
def test_refusals_name_change_and_row(
    epochs: list[list[Change]], problem: int, change: int, row: int
) -> None:
    running = _running()
    before = _state(running)
    with pytest.raises(Refused) as refused:
        running.apply(epochs)
    found = refused.value.refusal
    assert (found.problem, found.change, found.row) == (problem, change, row)
    assert _state(running) == before


def test_bags_hold_copies() -> None:
    running = _running(None, BAG)
    row: Row = (None, "x")
    running.apply([[insert("t", row, row, row)], [delete("t", row), delete("t", row)]])
    assert [_rows(running, time)[row] for time in (1, 2)] == [3, 1]
    with pytest.raises(Refused):
        running.apply([[delete("t", row, row)]])
    running.apply([[delete("t", row), insert("t", row), insert("t", row)]])
    assert _rows(running, 3) == Counter({row: 2})
    running.check()


def test_plain_inserts_need_no_index() -> None:
    """Into a bag, or under a key that is trusted."""
    running = Running()
    source = running.add_table("t", KEYED, key=(0, 1), enforced=False)
    state = running.dataflow.tables[source]
    checked = state.check([Statement(INSERT, to_columns([A, (2, "k", None)], KEYED), 1)], None)
    assert isinstance(checked, Checked)
    assert len(state.write(checked, None)) == 2
    assert running.dataflow.index_builds == 0
    # Later on a delete by key asks for it, and it finds them.
    running.epoch = 1
    running.tables["t"].apply(insert("t", A, (2, "k", None)))
    running.apply([[delete("t", A), upsert("t", (2, "k", 7.0))]])
    assert running.dataflow.index_builds == 1
    rows = state.relation.visible(2)
    assert state.relation.gather(2, rows).values.tolist() == [7.0]


def test_an_update_is_told_as_a_pair() -> None:
    running = _running()
    running.apply([[insert("t", A)]])
    source = running.sources["t"]
    state = running.dataflow.tables[source]
    index = running.dataflow.index(state.row_index, "test")
    statement = running._statement(upsert("t", B), 2)
    checked = state.check([statement], index)
    assert isinstance(checked, Checked)
    delta = state.write(checked, index)
    assert delta.pairs is not None
    assert delta.diff[delta.pairs.old].tolist() == [-1]
    assert delta.diff[delta.pairs.new].tolist() == [1]
    assert np.array_equal(delta.time, [2, 2])


_KEYS: dict[str, tuple[t.SqlType, Callable[[int], Any]]] = {
    "INT": (t.INT, lambda i: i - 3),
    "BIGINT": (t.BIGINT, lambda i: (i - 3) * 2**60),
    "SMALLINT": (t.SMALLINT, lambda i: i),
    "DATE": (t.DATE, lambda i: datetime.date(1970, 1, 1) + datetime.timedelta(days=i - 3)),
    "DECIMAL": (t.DecimalType(9, 2), lambda i: Decimal(i - 3) / 4),
    "STRING": (t.STRING, lambda i: "x" * i),
}


@pytest.mark.parametrize("trailing", list(_KEYS))
@pytest.mark.parametrize("leading", list(_KEYS))
@settings(max_examples=15)
@given(st.lists(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 2)), max_size=5), max_size=4))
def test_keys_of_any_type_are_refused_if_they_are_there(
    leading: str, trailing: str, steps: list[list[tuple[int, int]]]
) -> None:
    """Keys that ascend are told by their columns, others by the index; both refuse the same."""
    (kind, value), (other_kind, other) = _KEYS[leading], _KEYS[trailing]
    running = _running((1, 0), (Field("a", other_kind, False), Field("b", kind, False)))
    present: set[tuple[int, int]] = set()
    for step, given_keys in enumerate(steps):
        keys = sorted(given_keys) if step % 2 == 0 else given_keys
        if not keys:
            continue
        rows: list[Row] = [(other(b), value(a)) for a, b in keys]
        if len(set(keys)) == len(keys) and present.isdisjoint(keys):
            running.apply([[insert("t", *rows)]])
            present.update(keys)
        else:
            with pytest.raises(Refused) as refused:
                running.apply([[insert("t", *rows)]])
            first = next(i for i, k in enumerate(keys) if k in present or k in keys[:i])
            assert (refused.value.refusal.problem, refused.value.refusal.row) == (DUPLICATE, first)
    assert _rows(running, running.epoch).total() == len(present)
    running.check()


@given(st.lists(st.tuples(st.integers(-1, 1), st.integers(-1, 1)), min_size=1))
def test_falls(rows: list[tuple[int, int]]) -> None:
    equal = np.ones(len(rows) - 1, np.uint8)
    columns = [[row[0] for row in rows], [row[1] for row in rows]]
    found = encoding.falls(np.array(columns[0], np.int32), equal)
    pairs = list(pairwise(rows))
    assert found == any(b[0] < a[0] for a, b in pairs)
    assert equal.tolist() == [a[0] == b[0] for a, b in pairs]
    found = encoding.falls(np.array(columns[1], np.int64), equal)
    assert found == any(a[0] == b[0] and b[1] < a[1] for a, b in pairs)
    assert equal.tolist() == [a == b for a, b in pairs]
