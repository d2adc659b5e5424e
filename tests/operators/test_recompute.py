"""Recomputed groups: every aggregate against its slow twin, at every epoch of steps of many; and
how little a change of one group among many reads."""

from __future__ import annotations

import math
from decimal import Decimal
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from operators.flight.column import Column
from operators.nodes import group_values, moments, recompute
from planner import dataflow as ir
from planner.calculus import types as t
from planner.calculus.algebra import RECOMPUTED, SortKey
from planner.calculus.expr import Literal
from planner.calculus.types import Field
from tests.operators.columns import Row, to_columns, to_rows
from tests.operators.running import Running, reduce_
from tests.reference import group_values as naive
from tests.reference.tables import Change, delete, insert, upsert

FIELDS = (
    Field("id", t.INT, False),
    Field("g", t.STRING, True),
    Field("i", t.INT, True),
    Field("d", t.DOUBLE, True),
    Field("p", t.DecimalType(24, 2), True),
    Field("s", t.STRING, True),
)
_VALUES: tuple[tuple[object, ...], ...] = (
    ("a", "b", None, "a"),
    (None, 3, -2, 7, 7, 2**31 - 1),
    (None, 0.5, -0.0, 0.0, 0.1, 3.0, 1e300, -1e-300, math.inf, math.nan),
    (None, Decimal("0.50"), Decimal("-3.25"), Decimal(10**21)),
    (None, "", "ä", "x", "a text of more than sixteen bytes", "a text of more than sixteen"),
)


def _half(function: str, column: int, descending: bool = False) -> ir.GroupValue:
    parameters = (Literal(0.3, t.DOUBLE),)
    return ir.GroupValue(function, (column,), (SortKey(0, descending),), parameters)


VALUES = (
    *(_half(f, c, d) for f in ("percentile_cont", "percentile_disc") for c in (2, 3, 4)
      for d in (False, True)),
    ir.GroupValue("percentile_cont", (2,), (SortKey(0),), (Literal(0.5, t.DOUBLE),), True),
    *(ir.GroupValue("mode", (c,), (SortKey(0, d),)) for c in range(1, 6) for d in (False, True)),
    *(ir.GroupValue(f, (a, b)) for f in ("max_by", "min_by") for a, b in ((5, 3), (3, 5), (4, 2))),
    ir.GroupValue("listagg", (5,), (), (Literal(", ", t.STRING),)),
    ir.GroupValue("listagg", (5, 3, 2), (SortKey(1, True, False), SortKey(2)),
                  (Literal("", t.STRING),)),
    ir.GroupValue("listagg", (5, 5), (SortKey(1, True),), (Literal("|", t.STRING),), True),
    *(ir.GroupValue(f, (2,)) for f in ("bit_and", "bit_or", "bit_xor")),
    ir.GroupValue("bit_xor", (2,), distinct=True),
    *(ir.GroupValue(f, (c,)) for f in ("skewness", "kurtosis") for c in (2, 3, 4)),
    *(ir.GroupValue(f, pair) for pair in ((2, 4), (3, 2), (3, 3)) for f in
      ("covar_pop", "covar_samp", "corr", "regr_r2", "regr_slope", "regr_intercept", "regr_sxx",
       "regr_syy", "regr_sxy")),
)  # fmt: skip


def test_every_aggregate_is_tested() -> None:
    in_traps = {"collect_list"}  # lists of values: see tests/sql/traps_nested.py
    # Recorded from Spark, and under changes: tests/sql/test_group_functions.py
    in_traps |= {"collect_union", "bitmap_construct_agg", "bitmap_or_agg", "bitmap_and_agg"}
    assert {v.function for v in VALUES} | in_traps == RECOMPUTED


def _kind(value: ir.GroupValue) -> t.SqlType:
    first = FIELDS[value.args[0]].type
    same = ("mode", "max_by", "min_by", "listagg", "bit_and", "bit_or", "bit_xor")
    return first if value.function in same else t.DOUBLE


def node_over(
    source: ir.Stored, keys: tuple[int, ...], values: tuple[ir.GroupValue, ...]
) -> ir.Node:
    index = ir.Arrangement(source, keys, null_safe=True)
    fields = [source.schema[k] for k in keys]
    fields += [Field(f"v{i}", _kind(v)) for i, v in enumerate(values)]
    return ir.Recompute(index, values, tuple(fields))


def _row(rng: Random, number: int) -> Row:
    return (number, *(rng.choice(v) for v in _VALUES))


class Changes:
    """Inserts, updates (some of nothing that is read) and deletes of a few rows."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.rows: dict[int, Row] = {}

    def epoch(self) -> list[Change]:
        made = []
        for _ in range(self.rng.choice((1, 2, 6))):
            number = self.rng.randrange(10)
            if number in self.rows and self.rng.random() < 0.4:
                made.append(delete("t", self.rows.pop(number)))
                continue
            row = _row(self.rng, number)
            if number in self.rows and self.rng.random() < 0.4:
                row = (*self.rows[number][:5], row[5])
            self.rows[number] = row
            made.append(upsert("t", row))
        return made


@pytest.mark.parametrize("seed", range(6))
def test_values_of_a_group(seed: int) -> None:
    rng = Random(seed)
    rows = [_row(rng, i) for i in range(rng.choice((0, 1, 3, 60)))]
    group = sorted(rng.randrange(5) for _ in rows)
    for value in VALUES:
        fields = [FIELDS[c] for c in value.args]
        chosen = [tuple(r[c] for c in value.args) for r in rows]
        args = to_columns(chosen, tuple(fields))
        kind = _kind(value)
        made = group_values.group_value(value, kind, args, np.array(group, np.int64), 6)
        found = [v for (v,) in to_rows([made], (Field("v", kind),))]
        for g in range(6):
            members = [r for r, n in zip(chosen, group, strict=True) if n == g]
            expected = naive.group_value(
                value.function, members, value.order, value.parameters, value.distinct
            )
            assert _same(found[g], expected), (value, members)


def _same(found: object, expected: object) -> bool:
    if isinstance(found, float) and isinstance(expected, float):
        return found == expected or (math.isnan(found) and math.isnan(expected))
    return found == expected


@settings(max_examples=15)
@given(st.integers(0, 10**6))
def test_every_epoch_is_a_recompute(seed: int) -> None:
    """Without NaN, which Python's groups and sets take for different values."""
    running = Running()
    table = running.add_table("t", FIELDS, key=(0,))
    plain = tuple(v for v in VALUES if 3 not in v.args)
    running.install("by group", node_over(table, (1,), plain))
    running.install("by two", node_over(table, (2, 1), plain[:4]))
    running.install("all", node_over(table, (), plain))
    changes = Changes(Random(seed))
    for size in (1, 5, 1, 1, 3, 8):
        before = {name: dict(running.updates[name]) for name in running.views}
        epochs = [changes.epoch() for _ in range(size)]
        running.apply(epochs)
        running.check()
        assert before.keys() == running.views.keys()
    running.install("late", node_over(table, (1,), plain))
    for row in list(changes.rows.values()):
        running.apply([[delete("t", row)]])
    running.check()
    assert running.dataflow.relation(running.views["by group"][1]).live_rows == 0
    assert running.dataflow.relation(running.views["all"][1]).live_rows == 1


@pytest.mark.parametrize("chunk", [1, 7])
def test_chunks_change_nothing(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recompute, "CHUNK_ROWS", chunk)
    test_every_epoch_is_a_recompute.hypothesis.inner_test(chunk)  # type: ignore[attr-defined]


def test_a_step_of_many_times_emits_each_of_them() -> None:
    running = Running()
    table = running.add_table("t", FIELDS, key=(0,))
    running.install("v", node_over(table, (1,), (VALUES[0],)))

    def row(number: int, value: int) -> Row:
        return (number, "a", value, None, None, None)

    out = running.apply(
        [
            [insert("t", row(1, 10))],
            [insert("t", row(2, 20))],
            [delete("t", row(1, 10))],
            [upsert("t", row(2, 20))],
            [delete("t", row(2, 20))],
            [insert("t", row(3, 5)), delete("t", row(3, 5))],
            [insert("t", row(4, 5))],
        ]
    )["v"]
    assert out == {
        (("a", 10.0), 1): 1,
        (("a", 10.0), 2): -1,
        (("a", 13.0), 2): 1,
        (("a", 13.0), 3): -1,
        (("a", 20.0), 3): 1,
        (("a", 20.0), 5): -1,
        (("a", 5.0), 7): 1,
    }


def test_a_change_reads_the_rows_of_its_group_alone() -> None:
    running = Running()
    table = running.add_table("t", FIELDS, key=(0,))
    running.install("v", node_over(table, (1,), (VALUES[0],)))
    groups, members = 200, 10
    running.apply(
        [[insert("t", *((i, f"g{i % groups}", i, None, None, None)
                        for i in range(groups * members)))]]
    )  # fmt: skip
    running.apply([[upsert("t", (8, "g8", 8, None, None, None))]])  # the key's index is there
    before = running.dataflow.work.copy()
    running.apply([[upsert("t", (7, "g7", -1, None, None, None))]])
    work = running.dataflow.work.since(before)
    # The row by its key; the group's rows; the group's own row; the view's row to delete.
    assert work.entries <= 1 + members + 1 + 1
    assert work.rows <= 3 * (members + 3)
    before = running.dataflow.work.copy()
    running.apply([[upsert("t", (9, "g9", 9, None, None, "unread"))]])
    work = running.dataflow.work.since(before)
    assert work.entries <= 1, "what a view does not read costs it no group"


def test_a_join_reads_the_groups_by_their_own_index() -> None:
    running = Running()
    table = running.add_table("t", FIELDS, key=(0,))
    node = node_over(table, (1,), (VALUES[0],))
    running.install("v", node)
    running.install("counts", reduce_(table, (1,)))
    assert isinstance(node, ir.Recompute)
    assert running.dataflow.live_index(ir.group_index(node)) is not None


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=6))
def test_moments_are_rounded_once(values: list[float]) -> None:
    doubles = np.array(values, np.float64)
    other = doubles[::-1].copy()
    for function in ("skewness", "kurtosis"):
        rows = [(v,) for v in values]
        found = moments.of_one(function, doubles)
        assert found == naive.group_value(function, rows, (), (), False)
    for function in ("covar_pop", "corr", "regr_slope", "regr_intercept", "regr_r2"):
        pairs = list(zip(values, reversed(values), strict=True))
        expected = naive.group_value(function, pairs, (), (), False)
        assert moments.of_two(function, doubles, other) == expected


def test_the_order_of_rows_does_not_count() -> None:
    zeros = Column(t.DOUBLE, np.array([0.0, -0.0, 0.0]))
    value = ir.GroupValue("mode", (0,), (SortKey(0),))
    group = np.zeros(3, np.int64)
    signs = set()
    for order in ([0, 1, 2], [1, 0, 2], [2, 1, 0]):
        found = group_values.group_value(value, t.DOUBLE, [zeros.take(np.array(order))], group, 1)
        signs.add(math.copysign(1, found.values[0]))
    assert signs == {-1.0}
