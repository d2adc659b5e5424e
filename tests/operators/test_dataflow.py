"""Installing, sharing and retiring: one operator and one index for all views that need it."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from operators.dataflow import STEPS_BEHIND, Dataflow, Installed, Key
from operators.flight.delta import Delta
from operators.state.arrangement import ArrangementState
from planner import dataflow as ir
from planner.calculus import types as t
from planner.calculus.expr import Call, Expr, Literal, column
from planner.calculus.types import Field
from tests.operators.running import Running, columns, join, map_, reduce_, top_k
from tests.properties.streams import Stream
from tests.reference.tables import insert

LEFT = (Field("id", t.INT, False), Field("k", t.INT, True), Field("x", t.DecimalType(12, 2), True))
RIGHT = (Field("k", t.INT, True), Field("y", t.STRING, True))


def _running() -> tuple[Running, ir.Source, ir.Source]:
    running = Running()
    left = running.add_table("left", LEFT, key=(0,))
    return running, left, running.add_table("right", RIGHT)


def _specs(running: Running) -> list[ir.Index]:
    return [i.spec for i in running.dataflow.indexes]


def _positive() -> Expr:
    return Call("ge", (column(1, t.INT), Literal(1, t.INT)), t.BOOLEAN, True)


def _equal(position: int, value: int) -> Expr:
    return Call("eq", (column(position, t.INT), Literal(value, t.INT)), t.BOOLEAN, True)


def _part(node: ir.Stored, k: int) -> ir.JoinInput:
    """The rows with k = `k`."""
    return ir.JoinInput(node, Call("eq", (column(1, t.INT), Literal(k, t.INT)), t.BOOLEAN, True))


def _joined(left: ir.Source, right: ir.Source) -> ir.DeltaJoin:
    inputs = [ir.JoinInput(left, _positive()), ir.JoinInput(right, None)]
    return join(inputs, [((0, 1), (1, 0))])


def _sums(left: ir.Source, right: ir.Source) -> ir.Node:
    joined = _joined(left, right)
    return reduce_(map_(joined, [], columns(joined, 4, 2)), (0,), ("sum", 1))


def test_a_second_view_on_the_same_tables_builds_no_index() -> None:
    running, left, right = _running()
    stream = Stream(Random(1), running.tables)
    running.apply([stream.filling()])
    joined = _joined(left, right)
    running.install("first", map_(joined, [], columns(joined, 0, 4)))
    builds = running.dataflow.index_builds
    relations = len(running.dataflow.relations())
    running.install("second", map_(joined, [], columns(joined, 2, 3)))
    # Its own rows need the index that finds a row to retract; the tables' indexes are shared.
    assert running.dataflow.index_builds == builds + 1
    assert len(running.dataflow.filters) == 1
    own = {i.spec for i in running.dataflow.indexes if "second" in i.readers}
    assert {ir.Arrangement(left, (1,)), ir.Arrangement(right, (0,))} <= own
    assert len(running.dataflow.relations()) == relations + 1
    # The very same query costs nothing at all.
    running.install("third", map_(joined, [], columns(joined, 2, 3)))
    assert running.dataflow.index_builds == builds + 1
    running.apply([stream.transaction() for _ in range(3)])
    running.check()


def test_retiring_drops_what_nobody_reads() -> None:
    running, left, right = _running()
    flow = running.dataflow
    bare = (set(_specs(running)), len(flow.relations()))
    running.install("a", _sums(left, right))
    running.install("b", map_(_joined(left, right), [], columns(_joined(left, right), 0)))
    running.install("c", top_k(left, [ir.SortKey(2)], 2))
    running.apply([[insert("left", (1, 1, None)), insert("right", (1, "x"))]])
    running.retire("a")
    assert ir.Arrangement(left, (1,)) in _specs(running)
    assert all("a" not in i.readers for i in (*flow.indexes, *flow.installed, *flow.filters))
    running.apply([[insert("left", (2, 1, None))]])
    running.check()
    running.retire("b")
    assert ir.Arrangement(left, (1,)) not in _specs(running)
    running.retire("c")
    assert (set(_specs(running)), len(flow.relations())) == bare
    assert flow.installed == flow.filters == ()


def test_a_step_runs_what_its_changes_reach(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another table's views and indexes cost it nothing, however many there are."""
    running, left, right = _running()
    for k in range(5):
        grouped = reduce_(map_(left, [_equal(1, k)], columns(left, 1, 2)), (0,), ("sum", 1))
        running.install(f"left {k}", map_(grouped, [], columns(grouped, 0)))
        running.install(f"top {k}", top_k(left, [ir.SortKey(2)], 1 + k))
    counted = reduce_(right, (0,), ("count", 1))
    root = running.install("counts", map_(counted, [], columns(counted, 0, 2)))
    running.install("joined", map_(_joined(left, right), [], columns(_joined(left, right), 0)))
    stream = Stream(Random(3), running.tables)
    running.apply([stream.filling(), [insert("left", (900, 7, None))]])
    for _ in range(30):  # merges that lookups have paid for come to their end
        running.apply([[insert("right", (5, None))]])
    ran: list[ir.Node] = []
    tidied: list[ir.Node] = []
    run, maintain = Dataflow.run, ArrangementState.maintain

    def running_one(flow: Dataflow, one: Installed, changes: dict[Key, Delta]) -> Delta | None:
        ran.append(one.node)
        return run(flow, one, changes)

    def maintaining(state: ArrangementState, inserted: int) -> None:
        tidied.append(state.spec.relation)
        maintain(state, inserted)

    monkeypatch.setattr(Dataflow, "run", running_one)
    monkeypatch.setattr(ArrangementState, "maintain", maintaining)
    running.apply([[insert("right", (7, "new"))]])
    assert {type(n) for n in ran} == {ir.Reduce, ir.Map, ir.Store, ir.DeltaJoin}
    assert len(ran) == len(set(ran)) == 6
    assert ran.index(counted) < ran.index(root.input) < ran.index(root)
    assert left not in tidied
    running.check()


def test_a_partial_index_is_shared_by_its_filter() -> None:
    running, left, right = _running()
    flow = running.dataflow
    stream = Stream(Random(2), running.tables)
    running.apply([stream.filling()])
    some = [_part(left, 0), ir.JoinInput(right, None)]
    joined = join(some, [((0, 1), (1, 0))], partial=True)
    running.install("a", map_(joined, [], columns(joined, 0, 4)))
    running.install("b", map_(joined, [], columns(joined, 2, 3)))
    other = join([_part(left, 1), some[1]], [((0, 1), (1, 0))], partial=True)
    running.install("c", map_(other, [], columns(other, 0)))
    parts = [i for i in flow.indexes if isinstance(i.spec, ir.Arrangement) and i.spec.filter]
    assert [sorted(i.readers) for i in parts] == [["a", "b"], ["c"]]
    running.apply([stream.transaction() for _ in range(5)])
    running.check()
    for index in parts:
        passed = index.state.filter
        assert passed is not None
        assert index.state.spine.entries < index.state.relation.next_row
        for batch in index.state.spine.batches:
            assert passed.test(batch.rows).all()
    running.retire("a")
    assert parts[0].spec in _specs(running)
    running.retire("c")
    running.apply([stream.transaction() for _ in range(5)])
    running.check()
    running.retire("b")
    assert not any(isinstance(i, ir.Arrangement) and i.filter for i in _specs(running))
    assert flow.filters == ()


def test_a_view_over_a_view_keeps_what_it_reads() -> None:
    running, left, _ = _running()
    below = running.install("below", reduce_(left, (1,), ("sum", 2)))
    running.install("above", map_(below, [], columns(below, 1)))
    running.apply([[insert("left", (1, 1, None), (2, 1, None))]])
    running.retire("below")
    running.apply([[insert("left", (3, 1, None))]])
    running.check()
    assert running.updates["above"].total() == 1
    running.retire("above")
    assert running.dataflow.installed == ()


def test_private_state_is_separate() -> None:
    running, left, right = _running()
    running.install("shared", _sums(left, right))
    builds = running.dataflow.index_builds
    running.install("own", _sums(left, right), owner="own")
    assert running.dataflow.index_builds == 2 * builds - 1  # all but the enforced key's
    stream = Stream(Random(3), running.tables)
    for size in (1, 3):
        running.apply([stream.transaction() for _ in range(size)])
        running.check()
    assert running.updates["shared"] == running.updates["own"]
    mine = [i for i in running.dataflow.indexes if i.owner == "own"]
    assert mine
    assert all(i.readers == {"own"} for i in mine)
    running.retire("shared")
    running.apply([stream.transaction()])
    running.check()


@settings(max_examples=8)
@given(st.integers(0, 10**6))
def test_installed_late_equals_installed_first(seed: int) -> None:
    """Hydrated from live relations, or followed from the start: the same rows and, from then on,
    the same deltas. Views come and go all the time."""
    rng = Random(seed)
    running, left, right = _running()
    makers = {
        "sums": lambda: _sums(left, right),
        "join": lambda: _joined(left, right),
        "self": lambda: join([ir.JoinInput(right, None)] * 2, [((0, 0), (1, 0))], null_safe=True),
        "top": lambda: top_k(left, [ir.SortKey(2, True)], 3, 1),
        "all": lambda: reduce_(left, (), ("sum", 2)),
        "groups": lambda: top_k(reduce_(right, (0,)), [ir.SortKey(1, True)], 2),
    }
    for name, make in makers.items():
        running.install(f"first {name}", make(), owner=f"first {name}")
    stream = Stream(rng, running.tables)
    running.apply([stream.filling()])
    for _ in range(6):
        for name, make in makers.items():
            late = f"late {name}"
            if late in running.views:
                if rng.random() < 0.4:
                    running.retire(late)
            elif rng.random() < 0.5:
                running.install(late, make())
        deltas = running.apply([stream.transaction() for _ in range(rng.choice((1, 1, 4)))])
        running.check()
        for name in makers:
            if f"late {name}" in running.views:
                assert deltas[f"late {name}"] == deltas[f"first {name}"]


def test_a_global_aggregate_of_nothing_has_a_row() -> None:
    running, left, _ = _running()
    running.install("v", reduce_(left, (), ("sum", 2)))
    assert running.updates["v"].total() == 1
    running.apply([[insert("left", (1, 1, None))]])
    running.check()


def test_an_index_outlives_the_view_that_made_it_while_others_read() -> None:
    running, left, right = _running()
    running.apply([[insert("right", (1, "x"), (2, "y"))]])
    running.install("a", _joined(left, right))
    running.install("b", _sums(left, right))
    index = next(i for i in running.dataflow.indexes if i.spec == ir.Arrangement(right, (0,)))
    running.retire("a")
    again = next(i for i in running.dataflow.indexes if i.spec == ir.Arrangement(right, (0,)))
    assert again is index
    running.install("a", _joined(left, right))
    running.apply([[insert("left", (1, 1, None))]])
    assert running.updates["a"].total() == 1
    running.check()


@pytest.mark.parametrize("hold", [0, 2, 50])
def test_state_stays_bounded_under_churn(hold: int) -> None:
    """Every row of both tables is replaced again and again."""
    running, left, right = _running()
    running.hold = hold
    running.install("sums", _sums(left, right))
    running.install("top", top_k(left, [ir.SortKey(2)], 3))
    stream = Stream(Random(9), running.tables, size=6)
    for _ in range(150):
        running.apply([stream.transaction(), stream.transaction()])
    running.check()
    kept = hold + 3 + 2 * STEPS_BEHIND
    for _, relation in running.dataflow.relations():
        assert len(relation.versions[3]) <= 40 * kept
        assert len(relation.versions[1]) <= kept
    for index in running.dataflow.indexes:
        assert index.state.spine.entries <= 4096 + 2 * index.state.relation.live_rows + 2000
        assert len(index.state.spine.batches) < 20


def test_counts_of_readers() -> None:
    running, left, right = _running()
    running.install("a", _joined(left, right))
    running.install("b", _joined(left, right))
    readers = Counter({i.spec: len(i.readers) for i in running.dataflow.indexes})
    assert readers[ir.Arrangement(left, (1,))] == 2
    assert readers[ir.Arrangement(left, (0,))] == 1  # the table's own
