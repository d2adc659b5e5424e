"""Thresholds: the rows on one side of a scalar that moves, against a recompute at every epoch."""

from __future__ import annotations

import operator
import random
from collections import Counter
from typing import Any

import pytest

from operators.dataflow import Dataflow, Key
from operators.executor.inline import InlineExecutor
from operators.flight.delta import Delta
from operators.live import TABLE_READER
from operators.state.changes import DELETE, INSERT, UPSERT
from operators.table import Change, Refusal, TableState
from planner import dataflow as ir
from planner.calculus import types as t
from planner.calculus.algebra import SortKey
from planner.calculus.expr import Column
from planner.calculus.types import Field
from tests.operators.columns import to_columns, to_rows
from tests.operators.running import installed

ROWS = ir.Source(
    "r", (Field("k", t.BIGINT, False), Field("g", t.BIGINT, True), Field("v", t.BIGINT, True))
)
SCALARS = ir.Source("s", (Field("g", t.BIGINT, False), Field("w", t.BIGINT, True)))
COMPARE = {"gt": operator.gt, "ge": operator.ge, "lt": operator.lt, "le": operator.le}
MAXIMUM = ir.Reduce(
    SCALARS,
    (),
    (
        ir.Accumulator("count_rows", None),
        ir.Accumulator(
            "first",
            Column(1, t.BIGINT, True, "w"),
            ir.OrderedArrangement(SCALARS, (SortKey(1, True, False),), ()),
        ),
    ),
    (Field("n", t.BIGINT, False), Field("m", t.BIGINT, True)),
)


def threshold(comparison: str, per_key: bool) -> ir.Threshold:
    """Rows whose v compares with the greatest w, or with the w of their g."""
    partition = (1,) if per_key else ()
    index = ir.OrderedArrangement(ROWS, (SortKey(2, False, False),), (), partition)
    bound = ir.Arrangement(SCALARS, (0,)) if per_key else ir.Arrangement(MAXIMUM, (), True)
    return ir.Threshold(index, bound, 1, comparison)


class World:
    """Two keyed tables and one view, beside dictionaries that say what they hold."""

    def __init__(self, node: ir.Node) -> None:
        self.dataflow = Dataflow()
        self.tables = {"r": TableState(ROWS, (0,)), "s": TableState(SCALARS, (0,))}
        for table in self.tables.values():
            self.dataflow.add_table(table, enforced=True)
        self.root = ir.Store(node)
        installed(self.dataflow, "view", self.root, 0)
        self.epoch = 0

    def step(self, batches: dict[str, list[tuple[int, list[tuple[Any, ...]], int]]]) -> None:
        """Apply (action, rows, epoch) batches, table by table, as one physical step."""
        changes: dict[Key, Delta] = {}
        for name, batch in batches.items():
            table = self.tables[name]
            key = (table.source.schema[0],)
            statements = [
                Change(a, to_columns(rows, key if a == DELETE else table.source.schema), epoch)
                for a, rows, epoch in batch
            ]
            index = self.dataflow.index(table.row_index, TABLE_READER)
            result = table.check(statements, index)
            assert not isinstance(result, Refusal)
            changes["", table.source] = table.write(result, index)
            self.dataflow.absorb(table.source)
        InlineExecutor().step(self.dataflow, changes)
        self.dataflow.commit(self.epoch, changes)

    def rows(self) -> Counter[tuple[Any, ...]]:
        relation = self.dataflow.relation(self.root)
        columns = relation.gather_all(relation.visible(self.epoch))
        return Counter(to_rows(columns, self.root.schema))


def change(
    rng: random.Random, live: dict[int, tuple[Any, ...]], row: tuple[Any, ...]
) -> tuple[int, list[tuple[Any, ...]]]:
    """Delete the row's key if it lives and luck will have it, else upsert the row."""
    if row[0] in live and rng.random() < 0.4:
        del live[row[0]]
        return DELETE, [(row[0],)]
    live[row[0]] = row
    return UPSERT, [row]


@pytest.mark.parametrize("per_key", [False, True])
@pytest.mark.parametrize("comparison", sorted(COMPARE))
def test_every_epoch(comparison: str, per_key: bool) -> None:
    rng = random.Random(f"{comparison} {per_key}")
    world = World(threshold(comparison, per_key))
    rows: dict[int, tuple[Any, ...]] = {}
    scalars: dict[int, tuple[Any, ...]] = {}
    values = [None, *range(-5, 6)]
    seen = 0
    for _ in range(150):
        batches: dict[str, list[tuple[int, list[tuple[Any, ...]], int]]] = {}
        for _ in range(rng.choice((1, 1, 5))):
            world.epoch += 1
            for _ in range(rng.randint(0, 6)):
                row = (rng.randrange(30), rng.choice((0, 1, 2, 3, None)), rng.choice(values))
                batches.setdefault("r", []).append((*change(rng, rows, row), world.epoch))
            for _ in range(rng.randint(0, 2)):
                scalar = (rng.randrange(4), rng.choice(values))
                batches.setdefault("s", []).append((*change(rng, scalars, scalar), world.epoch))
        world.step(batches)
        told = [w for _, w in scalars.values() if w is not None]
        greatest = max(told) if told else None
        expected = Counter(
            (k, g, v)
            for k, g, v in rows.values()
            for bound in [scalars.get(g, (g, None))[1] if per_key else greatest]
            if v is not None and bound is not None and COMPARE[comparison](v, bound)
        )
        assert world.rows() == expected
        seen += len(expected)
    assert seen > 100


@pytest.mark.parametrize("comparison", sorted(COMPARE))
def test_a_move_visits_the_rows_that_flip(comparison: str) -> None:
    """At most one entry per flipped row; one seek per batch of the index."""
    world = World(threshold(comparison, per_key=False))
    world.epoch = 1
    world.step(
        {
            "r": [(INSERT, [(i, 0, i) for i in range(10_000)], 1)],
            "s": [(INSERT, [(0, 5_000)], 1)],
        }
    )
    spec = threshold(comparison, per_key=False).index
    index = world.dataflow.live_index(spec)
    assert index is not None
    before = world.rows()
    entries, seeks = index.state.work.entries, index.state.work.seeks
    world.epoch = 2
    world.step({"s": [(UPSERT, [(0, 5_040)], 2)]})
    flips = (before - world.rows()) + (world.rows() - before)
    assert sum(flips.values()) == 40
    assert index.state.work.entries - entries == 40
    assert index.state.work.seeks - seeks <= len(index.state.spine.batches)


def test_an_extreme_is_found_after_many_deletions_in_front() -> None:
    """100,000 entries of dead rows in front are stepped over once, not at every deletion."""
    n = 100_000
    world = World(MAXIMUM)
    world.epoch = 1
    world.step({"s": [(INSERT, [(i, i) for i in range(n + 100)], 1)]})
    index = world.dataflow.live_index(MAXIMUM.accumulators[1].index)  # type: ignore[arg-type]
    assert index is not None
    world.epoch = 2
    world.step({"s": [(DELETE, [(i,) for i in range(100, n + 100)], 2)]})
    assert world.rows() == Counter([(100, 99)])
    index.state.spine.work = lambda *_: None  # type: ignore[method-assign]  # no merge helps from here on
    visited = []
    for i in range(50):
        entries = index.state.work.entries
        world.epoch += 1
        world.step({"s": [(DELETE, [(99 - i,)], world.epoch)]})
        visited.append(index.state.work.entries - entries)
        assert world.rows() == Counter([(99 - i, 98 - i)])
    assert sorted(visited)[25] <= 2 * (50 + 2)


def test_the_first_rows_are_found_after_many_deletions_in_front() -> None:
    """Top-k steps over the entries of dead rows in front once, not at every deletion."""
    n = 100_000
    node = ir.TopK(ir.OrderedArrangement(SCALARS, (SortKey(1, False, False),), (0,)), 3, 0)
    world = World(node)
    world.epoch = 1
    world.step({"s": [(INSERT, [(i, i) for i in range(n + 100)], 1)]})
    index = world.dataflow.live_index(node.index)
    assert index is not None
    world.epoch = 2
    world.step({"s": [(DELETE, [(i,) for i in range(n)], 2)]})
    index.state.spine.work = lambda *_: None  # type: ignore[method-assign]  # no merge helps from here on
    visited = []
    for i in range(50):
        entries = index.state.work.entries
        world.epoch += 1
        world.step({"s": [(DELETE, [(n + i,)], world.epoch)]})
        visited.append(index.state.work.entries - entries)
        assert world.rows() == Counter((n + i + j, n + i + j) for j in (1, 2, 3))
    assert sorted(visited)[25] <= 2 * (3 + 3)
