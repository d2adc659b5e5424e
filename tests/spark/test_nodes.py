"""Every kind of node that a step on Spark meets, in dataflows built by hand."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from operators.dataflow import Dataflow, Key
from operators.executor.inline import InlineExecutor
from operators.executor.protocol import Executor
from operators.executor.spark import SparkExecutor
from operators.flight.column import Column
from operators.flight.delta import Delta
from operators.state.changes import DELETE, INSERT
from operators.table import Change, Checked, TableState
from planner import dataflow as ir
from planner.calculus.algebra import SortKey
from planner.calculus.expr import Call, Literal
from planner.calculus.expr import Column as ColumnRef
from planner.calculus.types import BIGINT, BOOLEAN, DOUBLE, ArrayType, Field
from tests.operators.running import installed

SCHEMA = (Field("k", BIGINT), Field("x", BIGINT))
BAG = ir.Source("bag", SCHEMA)
K, X = (ColumnRef(i, BIGINT, True, f.name) for i, f in enumerate(SCHEMA))
GROUPS = ir.Reduce(
    BAG,
    (K,),
    (ir.Accumulator("count_rows", None),),
    (Field("k", BIGINT), Field("n", BIGINT, False)),
)
TOTAL = ir.Reduce(BAG, (), (ir.Accumulator("count_rows", None),), (Field("n", BIGINT, False),))
LARGE = ir.Map(BAG, (Call("gt", (X, Literal(3, BIGINT)), BOOLEAN, True),), (K, X), SCHEMA)
SMALL = Call("lt", (X, Literal(3, BIGINT)), BOOLEAN, True)
BY_X = ir.OrderedArrangement(BAG, (SortKey(1),), (0,))
FIRST = ir.OrderedArrangement(
    BAG, (SortKey(1, descending=False, nulls_first=False),), (0,), partition=(0,)
)
MEDIANS = ir.Recompute(
    ir.Arrangement(BAG, (0,), null_safe=True),
    (ir.GroupValue("percentile_cont", (1,), (SortKey(0),), (Literal(0.5, DOUBLE),)),),
    (Field("k", BIGINT), Field("m", DOUBLE)),
)

#: An array of the value, twice.
PAIR = Call("array", (X, X), ArrayType(BIGINT), False)

ROOTS = {
    "the rest, by a negated union": ir.Store(ir.Union((BAG, LARGE), SCHEMA, (False, True))),
    "one input twice": ir.Store(ir.Union((BAG, BAG, LARGE), SCHEMA)),
    "repeat": ir.Store(ir.Repeat(GROUPS, 1)),
    "elements": ir.Store(
        ir.Map(
            ir.Explode(
                ir.Map(BAG, (), (K, PAIR), (Field("k", BIGINT), Field("p", PAIR.type))), 1, True
            ),
            (),
            (K, ColumnRef(3, BIGINT, True, "x")),
            SCHEMA,
        )
    ),
    "threshold": ir.Store(ir.Threshold(BY_X, ir.Arrangement(TOTAL, ()), 0, "lt")),
    "top-k": ir.Store(ir.TopK(BY_X, 3, 1)),
    "partitioned top-k": ir.Store(ir.TopK(FIRST, 1, 0)),
    "minimum": ir.Store(
        ir.Reduce(
            BAG,
            (K,),
            (ir.Accumulator("count_rows", None), ir.Accumulator("first", X, FIRST)),
            (Field("k", BIGINT), Field("n", BIGINT, False), Field("least", BIGINT)),
        )
    ),
    "recomputed groups": ir.Store(MEDIANS),
    "join of recomputed groups": ir.Store(
        ir.DeltaJoin(
            (ir.JoinInput(BAG, None), ir.JoinInput(MEDIANS, None)),
            (
                ir.DeltaPath(
                    0, (ir.HalfJoin(1, ir.group_index(MEDIANS), (0,), False, (), (True,)),)
                ),
                ir.DeltaPath(
                    1, (ir.HalfJoin(0, ir.Arrangement(BAG, (0,), True), (2,), True, (), (True,)),)
                ),
            ),
        )
    ),
    "recomputed from recomputed": ir.Store(
        ir.Recompute(
            ir.Arrangement(MEDIANS, (), null_safe=True),
            (ir.GroupValue("mode", (1,), (SortKey(0),)),),
            (Field("m", DOUBLE),),
        )
    ),
    "copy": ir.Store(BAG),
    "partial index": ir.Store(
        ir.DeltaJoin(
            (ir.JoinInput(BAG, SMALL), ir.JoinInput(GROUPS, None)),
            (
                ir.DeltaPath(0, (ir.HalfJoin(1, ir.group_index(GROUPS), (0,), False, ()),)),
                ir.DeltaPath(
                    1, (ir.HalfJoin(0, ir.Arrangement(BAG, (0,), filter=SMALL), (2,), True, ()),)
                ),
            ),
        )
    ),
    "bare join": ir.Store(
        ir.DeltaJoin(
            (ir.JoinInput(BAG, None), ir.JoinInput(GROUPS, None)),
            (
                ir.DeltaPath(
                    0,
                    (ir.HalfJoin(1, ir.group_index(GROUPS), (0,), False, (), (True,)),),
                ),
                ir.DeltaPath(
                    1, (ir.HalfJoin(0, ir.Arrangement(BAG, (0,), True), (2,), True, (), (True,)),)
                ),
            ),
        )
    ),
}


class Flow:
    """A dataflow over one table, and what its roots have emitted in the last step."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._dataflow = Dataflow()
        self._table = TableState(BAG, None)
        self._dataflow.add_table(self._table, enforced=False)
        for name, root in ROOTS.items():
            installed(self._dataflow, name, root, 0)

    def step(self, batch: list[tuple[int, list[tuple[int, int | None]], int]]) -> Any:
        index = self._dataflow.index(self._table.row_index, "(table)")
        changes = [Change(action, _columns(rows), time) for action, rows, time in batch]
        checked = self._table.check(changes, index)
        assert isinstance(checked, Checked)
        deltas: dict[Key, Delta] = {("", BAG): self._table.write(checked, None)}
        self._dataflow.absorb(BAG)
        self._executor.step(self._dataflow, deltas)
        self._dataflow.commit(batch[-1][2], deltas)
        return {name: _net(deltas.get(("", root))) for name, root in ROOTS.items()}


@pytest.mark.spark
def test_every_node(spark: Any, tmp_path: Path) -> None:
    executor = SparkExecutor(
        spark, str(tmp_path), 3, task_rows=1, small_index_rows=0, combine_rows=0
    )
    flows = Flow(InlineExecutor()), Flow(executor)
    rng = random.Random(3)
    present: list[tuple[int, int | None]] = []
    time = 0
    emitted: Counter[str] = Counter()
    for epochs in (6, 1, 4):
        batch = []
        for _ in range(epochs):
            time += 1
            rows = [(rng.randrange(4), rng.choice([None, *range(9)])) for _ in range(4)]
            batch.append((INSERT, rows, time))
            present += rows
            rng.shuffle(present)
            gone, present = present[:2], present[2:]
            batch.append((DELETE, gone, time))
        inline, on_spark = (f.step(batch) for f in flows)
        for name in ROOTS:
            assert on_spark[name] == inline[name], name
            emitted[name] += len(inline[name])
    assert executor.failures == 0
    assert min(emitted.values()) > 0, emitted
    executor.close()


def _columns(rows: list[tuple[int, int | None]]) -> list[Column]:
    keys = np.array([k for k, _ in rows], np.int64)
    values = np.array([x or 0 for _, x in rows], np.int64)
    return [
        Column(BIGINT, keys),
        Column(BIGINT, values, np.array([x is not None for _, x in rows])),
    ]


def _net(delta: Delta | None) -> Counter[Any]:
    net: Counter[Any] = Counter()
    if delta is None:
        return net
    columns = []
    for c in delta.columns():
        valid = np.ones(len(c), np.bool_) if c.valid is None else c.valid
        pairs = zip(c.values.tolist(), valid.tolist(), strict=True)
        columns.append([v if told else None for v, told in pairs])
    for *row, time, diff in zip(*columns, delta.time.tolist(), delta.diff.tolist(), strict=True):
        net[(*row, time)] += diff
    return Counter({row: n for row, n in net.items() if n})
