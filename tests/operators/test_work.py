"""What the counters of work count: each read of the stored state once, and no merges."""

from __future__ import annotations

import numpy as np

from operators.flight.column import Column
from operators.state.relation import Relation
from operators.state.work import Work
from planner import dataflow as ir
from planner.calculus import types as t
from planner.calculus.types import Field
from tests.operators.running import Running, join, reduce_
from tests.reference.tables import delete, insert, upsert

A = (Field("id", t.INT, False), Field("k", t.INT, False))
B = (Field("k", t.INT, False), Field("v", t.INT, False))


def _relation(n: int) -> Relation:
    relation = Relation(A)
    numbers = Column(t.INT, np.arange(n, dtype=np.int64))
    relation.append([numbers, numbers], np.full(n, 1, np.int64))
    return relation


def test_columns_of_the_same_rows_are_one_visit() -> None:
    relation = _relation(100)
    rows = np.arange(10, dtype=np.int64)
    relation.gather_all(rows)
    assert relation.work.rows == 10
    relation.gather(0, np.arange(3, dtype=np.int64))
    relation.gather(0, rows)
    assert relation.work.rows == 10 + 3 + 10


def test_compaction_is_not_counted() -> None:
    n = 3 * 65_536
    relation = _relation(n)
    relation.kill(np.arange(n - 10, dtype=np.int64), np.full(n - 10, 2, np.int64))
    relation.advance(2)
    assert relation.work == Work()


def test_a_join_counts_what_it_looks_up_and_what_survives() -> None:
    running = Running()
    a, b = running.add_table("a", A, key=(0,)), running.add_table("b", B)
    running.install("v", join([ir.JoinInput(a, None), ir.JoinInput(b, None)], [((0, 1), (1, 0))]))
    matching = [(7, v) for v in range(5)]
    running.apply([[insert("b", *matching, (8, 0))]])
    before = running.dataflow.work.copy()
    running.apply([[insert("a", (1, 7), (2, 9))]])
    work = running.dataflow.work.since(before)
    # Two changed rows, and the five matches of one of them.
    assert work.prefixes == 2 + 5
    assert work.entries == 5
    # A batch of the key index of `a` (empty so far: none), of the index on b.k, of the view's hash.
    assert work.batches <= 3


def test_an_update_of_a_group_visits_its_one_entry() -> None:
    running = Running()
    a = running.add_table("a", A, key=(0,))
    running.install("v", reduce_(a, (1,)))
    running.apply([[insert("a", *((i, i % 100) for i in range(1_000)))]])
    before = running.dataflow.work.copy()
    running.apply([[upsert("a", (0, 1)), delete("a", (1, 1))]])
    work = running.dataflow.work.since(before)
    # The rows by their key, the groups 0 and 1, and the rows of the view.
    assert work.entries <= 2 + 2 + 2 + 2
    assert work.prefixes == 0
