"""Groups of few rows through their kernels, beside the steps of many: same rows, same state."""

from __future__ import annotations

from collections import Counter
from datetime import date
from decimal import Decimal
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from operators.flight.delta import Delta
from operators.nodes import few_groups
from operators.nodes.reduce import ReduceOperator
from operators.state.relation import BULK_ROWS
from planner import dataflow as ir
from planner.calculus import types as t
from planner.calculus.types import Field
from tests.operators.columns import Row, to_rows
from tests.operators.running import Running, reduce_
from tests.reference.tables import Change, delete, insert, upsert

FIELDS = (
    Field("id", t.INT, False),
    Field("text", t.STRING, True),
    Field("wide", t.DecimalType(38, 4), True),
    Field("big", t.BIGINT, True),
    Field("money", t.DecimalType(15, 2), True),
    Field("double", t.DOUBLE, True),
    Field("day", t.DATE, False),
)
_TEXTS = (None, "", "a", "b", "fifteen bytes..")
_HASHED = (*_TEXTS, "0123456789abcdef!")
_WIDES = (None, Decimal("1e31"), Decimal("-1e31"), Decimal("0.0001"), Decimal("-99999999999.5"))
_BIGS = (None, 2**63 - 1, -(2**63), 1, 0)
_DAYS = (date(1970, 1, 1), date(1994, 8, 23))
_MONEY = (None, Decimal("9999999999999.99"), Decimal("-9999999999999.99"), Decimal("0.01"))
_DOUBLES = (None, 0.0, -0.0, float("nan"), 3.0)
_SUMS = (("sum", 2), ("count", 3), ("sum", 3), ("sum", 4), ("count", 1))
_KEYS = ((), (1,), (3, 1), (5,), (2, 6), (0,))


class Life:
    """Random transactions over a table, of which no row is changed twice in one."""

    def __init__(self, seed: int) -> None:
        self.draw = Random(seed)
        self.texts = self.draw.choice((_TEXTS, _HASHED))
        self.rows: dict[int, Row] = {}

    def row(self, number: int) -> Row:
        choice = self.draw.choice
        lists: tuple[tuple[Any, ...], ...] = (self.texts, _WIDES, _BIGS, _MONEY, _DOUBLES)
        return (number, *map(choice, lists), choice(_DAYS))

    def transaction(self) -> list[Change]:
        made: list[Change] = []
        for number in self.draw.sample(range(120), self.draw.choice((1, 3, 100))):
            if number in self.rows and self.draw.random() < 0.5:
                made.append(delete("t", self.rows.pop(number)))
            else:
                self.rows[number] = self.row(number)
                made.append(upsert("t", self.rows[number]))
        return made


def _accumulators(table: ir.Source) -> list[ir.Reduce]:
    return [reduce_(table, keys, *_SUMS) for keys in _KEYS]


@settings(max_examples=12)
@given(st.integers(0, 10**6))
def test_by_turns(seed: int) -> None:
    """One dataflow takes all steps by the operators of many rows, the other some at random by the
    kernels of few: every delta and every row id is the same, and what the model says."""
    life, draw = Life(seed), Random(seed)
    both = Running(), Running()
    both[1].dataflow.hashing = both[0].dataflow.hashing
    roots: list[ir.Reduce] = []
    with pytest.MonkeyPatch.context() as patch:
        for running in both:
            table = running.add_table("t", FIELDS, key=(0,))
            roots = _accumulators(table)
            for number, root in enumerate(roots):
                running.install(f"v{number}", root)
        for _ in range(12):
            transactions = [life.transaction() for _ in range(draw.choice((1, 1, 1, 2)))]
            found = []
            for most, running in zip((-1, draw.choice((-1, 50, 4096))), both, strict=True):
                patch.setattr(few_groups, "FEW_ROWS", most)
                found.append(running.apply(transactions))
                running.check()
            assert found[0] == found[1]
            for root in roots:
                slow, few = (running.dataflow.relation(root) for running in both)
                assert (slow.next_row, slow.live_rows) == (few.next_row, few.live_rows)
                rows = slow.visible_to_any()
                assert rows.tolist() == few.visible_to_any().tolist()
                assert _shown(slow, rows) == _shown(few, rows)


def _shown(relation: Any, rows: Any) -> list[Any]:
    return to_rows(relation.gather_all(rows), relation.schema)


def test_which_groups_are_for_it() -> None:
    """Few rows of one time of groups whose accumulators are counts and sums of numbers are the
    kernels'; of several times, of long texts as keys and of other accumulators they are not."""
    running = Running()
    table = running.add_table("t", FIELDS, key=(0,))
    by_text, doubles = reduce_(table, (1,), ("sum", 4)), reduce_(table, (3,), ("sum_double", 5))
    running.install("v", by_text)
    running.install("w", doubles)
    taken: Counter[ir.Node] = Counter()
    step = few_groups.FewGroups.step

    def counting(self: few_groups.FewGroups, delta: Delta) -> Delta | None:
        found = step(self, delta)
        taken[self.node] += found is not None
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(few_groups.FewGroups, "step", counting)
        row = (1, "a", None, 1, Decimal(1), 1.0, _DAYS[0])
        running.apply([[upsert("t", row)]])
        assert taken == {by_text: 1}
        running.apply([[upsert("t", (1, "long text of a key", *row[2:]))]])
        running.apply([[delete("t", row)], [upsert("t", row)]])
        assert taken == {by_text: 1}
    running.retire("w")  # whose accumulators the model has not
    running.check()


def test_groups_that_came_many_at_once() -> None:
    """Blocks that took over the columns they came in have no buffers before somebody reads them."""
    running = Running()
    table = running.add_table("t", FIELDS, key=(0,))
    running.install("v", reduce_(table, (0,), ("sum", 4)))
    many = [(i, "a", None, 1, Decimal(i), 1.0, _DAYS[0]) for i in range(BULK_ROWS + 10)]
    running.apply([[insert("t", *many)]])
    for row in many[:3], many[500:600]:
        running.apply([[upsert("t", *((*r[:4], Decimal(7), *r[5:]) for r in row))]])
        running.check()


def test_a_group_that_loses_more_than_it_has() -> None:
    running = Running()
    table = running.add_table("t", FIELDS, key=(0,))
    node = reduce_(table, (3,), ("sum", 4))
    running.install("v", node)
    running.apply([[upsert("t", (1, "a", None, 1, Decimal(1), 1.0, _DAYS[0]))]])
    operator = running.dataflow.operator(node)
    assert isinstance(operator, ReduceOperator)
    gone = running.dataflow.snapshot(table, running.epoch).negated()
    operator.step([gone])
    with pytest.raises(AssertionError, match="lost more rows than it had"):
        operator.step([gone])
