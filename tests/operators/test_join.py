"""Delta joins against nested loops at every epoch, and what they may and may not look at."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from operators.nodes.delta_join import DeltaJoinOperator
from planner import dataflow as ir
from planner.calculus import types as t
from planner.calculus.expr import Call, Expr, Literal, column
from planner.calculus.types import Field
from tests.operators.columns import Row
from tests.operators.running import Running, columns, join, map_, reduce_
from tests.properties.streams import Stream
from tests.reference.bag import accumulate
from tests.reference.tables import delete, insert, upsert

A = (Field("id", t.INT, False), Field("k", t.INT, True), Field("s", t.STRING, True))
B = (Field("k", t.BIGINT, True), Field("s", t.STRING, True), Field("v", t.INT, True))


def _running() -> tuple[Running, ir.Source, ir.Source]:
    running = Running()
    return running, running.add_table("a", A, key=(0,)), running.add_table("b", B)


def _plain(*nodes: ir.Stored) -> list[ir.JoinInput]:
    return [ir.JoinInput(n, None) for n in nodes]


def _less(left: int, right: int, kind: t.SqlType = t.INT) -> Expr:
    return Call("lt", (column(left, kind), column(right, kind)), t.BOOLEAN, True)


def _at_least(c: int, bound: int) -> Expr:
    return Call("ge", (column(c, t.INT), Literal(bound, t.INT)), t.BOOLEAN, True)


def _counted(least: int) -> Expr:
    """Groups of `_joins` with at least so many rows."""
    return Call("ge", (column(2, t.BIGINT), Literal(least, t.BIGINT)), t.BOOLEAN, False)


def _operator(running: Running) -> DeltaJoinOperator:
    return next(
        i.operator for i in running.dataflow.installed if isinstance(i.operator, DeltaJoinOperator)
    )


def _joins(a: ir.Source, b: ir.Source) -> dict[str, ir.Node]:
    sums = reduce_(b, (0, 1))
    return {
        "int with bigint": join(_plain(a, b), [((0, 1), (1, 0))]),
        "texts": join(_plain(a, b), [((0, 2), (1, 1))]),
        "two columns": join(_plain(b, a), [((0, 0), (1, 1)), ((0, 1), (1, 2))]),
        "two columns, null-safe": join(
            _plain(a, b), [((0, 1), (1, 0)), ((0, 2), (1, 1))], null_safe=True
        ),
        "filters on both": join(
            [ir.JoinInput(a, _at_least(1, 1)), ir.JoinInput(b, _at_least(2, 0))], [((0, 1), (1, 0))]
        ),
        "partial indexes": join(
            [ir.JoinInput(a, _at_least(1, 1)), ir.JoinInput(b, _at_least(2, 0))],
            [((0, 1), (1, 0)), ((0, 2), (1, 1))],
            null_safe=True,
            partial=True,
        ),
        "parts of groups": join(
            [ir.JoinInput(a, None), ir.JoinInput(sums, _counted(2))],
            [((0, 1), (1, 0))],
            partial=True,
        ),
        "residual over both": join(_plain(a, b), [((0, 2), (1, 1))], [_less(1, 5)]),
        "three times the same bag": join(_plain(b, b, b), [((0, 0), (1, 0)), ((1, 1), (2, 1))]),
        "a cycle": join(_plain(a, b, a), [((0, 1), (1, 0)), ((1, 1), (2, 2)), ((2, 1), (0, 1))]),
        "a group by the prefix of its key": join(_plain(a, sums), [((0, 1), (1, 0))]),
        "a group by its whole key": join(
            _plain(a, sums), [((0, 1), (1, 0)), ((0, 2), (1, 1))], null_safe=True
        ),
    }


@pytest.mark.parametrize("name", list(_joins(*(ir.Source(n, s) for n, s in (("a", A), ("b", B))))))
@settings(max_examples=8)
@given(st.integers(0, 10**6))
def test_every_epoch(name: str, seed: int) -> None:
    running, a, b = _running()
    rng = Random(seed)
    stream = Stream(rng, running.tables, size=6)
    if rng.random() < 0.5:
        running.apply([stream.filling()])
    running.install("v", _joins(a, b)[name])
    for size in (1, 1, 4, 1, 3):
        before = running.epoch
        states, transactions = [], [stream.transaction() for _ in range(size)]
        tables = {n: table.copy() for n, table in running.tables.items()}
        running.apply(transactions)
        # The model of each epoch in between: its tables, put in place of the present ones.
        after = running.tables
        for transaction in transactions:
            for change in transaction:
                tables[change.table].apply(change)
            running.tables = tables
            states.append(running.expected("v"))
        running.tables = after
        for time, expected in enumerate(states, start=before + 1):
            assert accumulate(running.updates["v"], time) == expected
        running.check()


def test_null_finds_nothing_unless_null_safe() -> None:
    running, a, b = _running()
    running.install("plain", join(_plain(a, b), [((0, 1), (1, 0))]))
    running.install("safe", join(_plain(a, b), [((0, 1), (1, 0))], null_safe=True))
    running.apply([[insert("a", (1, None, "")), insert("b", (None, "", 5), (0, "", 6))]])
    assert running.updates["plain"] == Counter()
    assert accumulate(running.updates["safe"], 1) == Counter([(1, None, "", None, "", 5)])
    running.check()


def test_null_safe_on_a_column_that_is_never_null() -> None:
    """NULL must not be taken for the word that stands in its place, which is zero's."""
    running, a, b = _running()
    inputs = _plain(a, b)
    node = join(inputs, [((0, 0), (1, 0))], null_safe=True)
    running.install("v", node)
    running.apply([[insert("a", (0, 1, "x")), insert("b", (None, "y", 1))]])
    assert running.updates["v"] == Counter()
    running.apply([[insert("b", (0, "y", 1))]])
    running.check()


def test_simultaneous_changes_come_out_once() -> None:
    running, a, b = _running()
    running.install("v", join(_plain(a, b, a), [((0, 1), (1, 0)), ((1, 0), (2, 1))]))
    deltas = running.apply([[insert("a", (1, 7, "x"), (2, 7, "y")), insert("b", (7, "", 0))]])
    assert set(deltas["v"].values()) == {1}
    assert len(deltas["v"]) == 4
    deltas = running.apply(
        [[upsert("a", (1, 7, "z")), delete("b", (7, "", 0)), insert("b", (7, "", 1))]]
    )
    assert Counter(deltas["v"].values()) == {-1: 4, 1: 4}
    running.check()


def test_an_update_that_no_consumer_reads_is_cancelled() -> None:
    running, a, b = _running()
    joined = join(_plain(a, b), [((0, 1), (1, 0))])
    running.install("v", map_(joined, [], columns(joined, 0, 3)))
    running.apply([[insert("a", (1, 7, "x")), insert("b", (7, "", 0))]])
    index = next(i.state for i in running.dataflow.indexes if i.spec == ir.Arrangement(b, (0,)))
    seeks = index.work.seeks
    assert running.apply([[upsert("a", (1, 7, "y"))]])["v"] == Counter()
    assert index.work.seeks == seeks
    # A second consumer that reads the column ends that, for it and without harm to the first.
    running.install("w", map_(joined, [], columns(joined, 2)))
    deltas = running.apply([[upsert("a", (1, 7, "z"))]])
    assert deltas["v"] == Counter()
    assert deltas["w"] == {(("y",), 3): -1, (("z",), 3): 1}
    assert index.work.seeks > seeks
    assert _operator(running).reads(0) == (0, 1, 2)
    running.check()


def test_an_update_that_only_a_filter_reads_is_not_cancelled() -> None:
    running, a, b = _running()
    inputs = [ir.JoinInput(a, None), ir.JoinInput(b, _at_least(2, 1))]
    joined = join(inputs, [((0, 1), (1, 0))])
    running.install("v", map_(joined, [], columns(joined, 0)))
    running.apply([[insert("a", (1, 7, "x")), insert("b", (7, "", 0))]])
    assert running.updates["v"] == Counter()
    running.apply([[delete("b", (7, "", 0)), insert("b", (7, "", 1))]])
    assert accumulate(running.updates["v"], 2) == Counter([(1,)])
    running.check()


def test_a_filter_is_evaluated_once_for_all_views() -> None:
    running, a, b = _running()
    inputs = [ir.JoinInput(a, _at_least(1, 1)), ir.JoinInput(b, None)]
    first = join(inputs, [((0, 1), (1, 0))])
    second = join(inputs, [((0, 2), (1, 1))])
    running.install("v", first)
    running.install("w", second)
    assert len(running.dataflow.filters) == 1
    running.apply(
        [[insert("a", (1, 7, "x"), (2, 0, "x"), (3, None, "x")), insert("b", (7, "x", 0))]]
    )
    bitmap = running.dataflow.filters[0].state
    rows = running.dataflow.tables[a].relation.visible(1)
    assert bitmap.test(rows).tolist() == [True, False, False]
    running.check()


def test_versions_of_one_key_are_not_paired_with_every_probe() -> None:
    """A key that changes at each of a thousand times, on both sides: each probe sees its version,
    and the work is that of the versions under the key, not more."""
    running, a, b = _running()
    running.install("v", join(_plain(a, b), [((0, 1), (1, 0))]))
    n = 300
    epochs = [[insert("a", (1, 7, "0")), insert("b", (7, "0", 0))]]
    for i in range(1, n):
        old: Row = (7, str(i - 1), i - 1)
        epochs.append([upsert("a", (1, 7, str(i))), delete("b", old), insert("b", (7, str(i), i))])
    deltas = running.apply(epochs)["v"]
    assert deltas.total() == 1
    assert len(deltas) == 2 * n - 1
    running.check()


def test_nothing_changes_nothing() -> None:
    running, a, b = _running()
    running.install("v", join(_plain(a, b), [((0, 1), (1, 0))]))
    assert running.apply([[], []]) == {"v": Counter()}
    assert running.apply([[insert("a", (1, 1, "")), delete("a", (1, 1, ""))]]) == {"v": Counter()}
    assert running.epoch == 3
