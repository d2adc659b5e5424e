"""One step of many times emits what a step for each time would; every epoch is a recompute's."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from decimal import Decimal
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner import dataflow as ir
from planner.calculus import types as t
from planner.calculus.algebra import SortKey
from planner.calculus.expr import Call, Expr, Literal, column
from planner.calculus.types import Field
from tests.operators.running import Running, Updates, columns, join, map_, reduce_, top_k
from tests.properties.streams import Stream
from tests.reference.tables import Change

ORDERS = (
    Field("id", t.INT, False),
    Field("customer", t.INT, True),
    Field("price", t.DecimalType(12, 2), True),
    Field("status", t.STRING, True),
)
LINES = (Field("order", t.INT, True), Field("amount", t.INT, True), Field("weight", t.DOUBLE, True))
CUSTOMERS = (Field("id", t.INT, False), Field("name", t.STRING, True))


def _running(hold: int = 0) -> Running:
    running = Running(hold)
    running.add_table("orders", ORDERS, key=(0,))
    running.add_table("lines", LINES)
    running.add_table("customers", CUSTOMERS, key=(0,))
    return running


def _one_or_more(c: int) -> Expr:
    return Call("ge", (column(c, t.INT), Literal(1, t.INT)), t.BOOLEAN, True)


def _plain(node: ir.Stored) -> ir.JoinInput:
    return ir.JoinInput(node, None)


Views = Callable[[ir.Source, ir.Source, ir.Source], ir.Node]
VIEWS: dict[str, Views] = {}


def view(make: Views) -> Views:
    VIEWS[make.__name__] = make
    return make


@view
def map_and_filter(orders: ir.Source, lines: ir.Source, customers: ir.Source) -> ir.Node:
    return map_(orders, [_one_or_more(1)], columns(orders, 3, 2))


@view
def union_with_itself(orders: ir.Source, lines: ir.Source, customers: ir.Source) -> ir.Node:
    ids = map_(orders, [], columns(orders, 1))
    amounts = map_(lines, [_one_or_more(0)], columns(lines, 1))
    return ir.Union((ids, amounts, ids), ids.schema)


@view
def distinct(orders: ir.Source, lines: ir.Source, customers: ir.Source) -> ir.Node:
    groups = reduce_(lines, (0, 1))
    return map_(groups, [], columns(groups, 0, 1))


@view
def sums_by_customer(orders: ir.Source, lines: ir.Source, customers: ir.Source) -> ir.Node:
    return reduce_(orders, (1,), ("sum", 2), ("count", 3), ("sum", 0))


@view
def global_sum(orders: ir.Source, lines: ir.Source, customers: ir.Source) -> ir.Node:
    return reduce_(
        map_(orders, [_one_or_more(1)], columns(orders, 2)), (), ("sum", 0), ("count", 0)
    )


@view
def sums_of_doubles(orders: ir.Source, lines: ir.Source, customers: ir.Source) -> ir.Node:
    heavy = Call("lt", (column(2, t.DOUBLE), Literal(2.0, t.DOUBLE)), t.BOOLEAN, True)  # drops NaN
    sums = reduce_(map_(lines, [heavy], columns(lines, 0, 2)), (0,), ("sum_double", 1))
    read = Call("exact_sum_to_double", (columns(sums, 2)[0],), t.DOUBLE, False)
    return map_(sums, [], [*columns(sums, 0, 1), read])


@view
def medians(orders: ir.Source, lines: ir.Source, customers: ir.Source) -> ir.Node:
    half = (Literal(0.5, t.DOUBLE),)
    median = ir.GroupValue("percentile_cont", (2,), (SortKey(0),), half)
    latest = ir.GroupValue("max_by", (3, 0))
    fields = (ORDERS[1], Field("median", t.DOUBLE), Field("latest", t.STRING))
    return ir.Recompute(ir.Arrangement(orders, (1,), null_safe=True), (median, latest), fields)


@view
def self_join(orders: ir.Source, lines: ir.Source, customers: ir.Source) -> ir.Node:
    return join([_plain(orders), _plain(orders)], [((0, 1), (1, 1))])


@view
def null_safe_self_join(orders: ir.Source, lines: ir.Source, customers: ir.Source) -> ir.Node:
    return join([_plain(orders), _plain(orders)], [((0, 1), (1, 1))], null_safe=True)


@view
def join_of_two_columns(orders: ir.Source, lines: ir.Source, customers: ir.Source) -> ir.Node:
    return join([_plain(orders), _plain(lines)], [((0, 0), (1, 0)), ((0, 1), (1, 1))])


@view
def three_way_join(orders: ir.Source, lines: ir.Source, customers: ir.Source) -> ir.Node:
    inputs = [_plain(customers), ir.JoinInput(orders, _one_or_more(1)), _plain(lines)]
    return join(inputs, [((0, 0), (1, 1)), ((1, 0), (2, 0))])


@view
def join_with_residual(orders: ir.Source, lines: ir.Source, customers: ir.Source) -> ir.Node:
    less = Call("lt", (column(1, t.INT), column(5, t.INT)), t.BOOLEAN, True)
    joined = join([_plain(orders), _plain(lines)], [((0, 0), (1, 0))], [less])
    return map_(joined, [], columns(joined, 0, 5))


@view
def join_that_reads_few_columns(
    orders: ir.Source, lines: ir.Source, customers: ir.Source
) -> ir.Node:
    """Updates of other columns are cancelled at the source."""
    joined = join([_plain(customers), _plain(orders)], [((0, 0), (1, 1))])
    return reduce_(map_(joined, [], columns(joined, 2)), (0,))


@view
def diamond(orders: ir.Source, lines: ir.Source, customers: ir.Source) -> ir.Node:
    """Orders beside the sum over their own table: both sides change at every time."""
    sums = reduce_(orders, (1,), ("sum", 2))
    return join([_plain(orders), _plain(sums)], [((0, 1), (1, 0))], null_safe=True)


@view
def diamond_over_a_bag(orders: ir.Source, lines: ir.Source, customers: ir.Source) -> ir.Node:
    pairs = ir.Store(map_(lines, [_one_or_more(0)], columns(lines, 0, 1)))
    counts = reduce_(pairs, (0,), ("sum", 1))
    return join(
        [_plain(pairs), _plain(counts), _plain(pairs)], [((0, 0), (1, 0)), ((1, 0), (2, 0))]
    )


@view
def top_three(orders: ir.Source, lines: ir.Source, customers: ir.Source) -> ir.Node:
    return top_k(orders, [ir.SortKey(2, True, False), ir.SortKey(3)], 3)


@view
def top_of_a_bag_with_offset(orders: ir.Source, lines: ir.Source, customers: ir.Source) -> ir.Node:
    pairs = ir.Store(map_(lines, [], columns(lines, 0, 1)))
    return top_k(pairs, [ir.SortKey(1, nulls_first=False)], 4, offset=2)


@view
def top_groups(orders: ir.Source, lines: ir.Source, customers: ir.Source) -> ir.Node:
    sums = reduce_(orders, (1,), ("sum", 2))
    return map_(top_k(sums, [ir.SortKey(2, True)], 2), [], columns(sums, 0, 2))


@view
def reduce_of_a_reduce(orders: ir.Source, lines: ir.Source, customers: ir.Source) -> ir.Node:
    return reduce_(reduce_(lines, (0, 1)), (2,), ("sum", 1))


@pytest.mark.parametrize("name", list(VIEWS))
@settings(max_examples=5)
@given(st.integers(0, 10**6))
def test_one_step_equals_many(name: str, seed: int) -> None:
    many, one, some = _running(), _running(), _running(hold=3)
    for running in (many, one, some):
        running.install(name, VIEWS[name](*running.sources.values()))
    stream = Stream(Random(seed), many.tables, size=7)
    transactions = [stream.filling(), *(stream.transaction() for _ in range(9))]
    singly: Updates = Counter()
    for transaction in transactions:
        for update, diff in many.apply([transaction])[name].items():
            singly[update] += diff
        many.check()
    assert one.apply(transactions)[name] == singly
    one.check()
    parts = [transactions[:1], transactions[1:6], transactions[6:7], transactions[7:]]
    together: Updates = Counter()
    for part in parts:
        for update, diff in some.apply(part)[name].items():
            together[update] += diff
        some.check()
    assert together == singly


def test_all_views_together_share_what_they_can() -> None:
    """All views over the same tables, some installed late, with steps of changing sizes."""
    running = _running()
    stream = Stream(Random(11), running.tables, size=10)
    running.apply([stream.filling()])
    names = list(VIEWS)
    for i in range(0, len(names), 5):
        for name in names[i : i + 5]:
            running.install(name, VIEWS[name](*running.sources.values()))
        for size in (1, 4, 2):
            running.apply([stream.transaction() for _ in range(size)])
        running.check()


def test_a_thousand_times_in_one_step() -> None:
    """Nothing here may loop over times outside a kernel, or look at every pair of times."""
    running = _running()
    stream = Stream(Random(5), running.tables)
    transactions: list[list[Change]] = [stream.transaction() for _ in range(1000)]
    for name in ("diamond", "top_three", "three_way_join", "global_sum"):
        running.install(name, VIEWS[name](*running.sources.values()))
    deltas = running.apply(transactions)
    running.check()
    assert len({time for _, time in deltas["diamond"]}) > 400


def test_a_group_that_leaves_and_comes_back_within_a_step() -> None:
    running = _running()
    orders = running.sources["orders"]
    running.install("v", reduce_(orders, (1,), ("sum", 2)))
    row = (1, 5, Decimal("2.00"), "x")
    twice = (2, 5, Decimal("3.00"), "y")
    deltas = running.apply(
        [
            [Change("insert", "orders", (row,))],
            [Change("delete", "orders", (row,))],
            [Change("insert", "orders", (row,)), Change("insert", "orders", (twice,))],
            [Change("delete", "orders", (row,)), Change("insert", "orders", (row,))],
            [Change("delete", "orders", (row,))],
        ]
    )
    one, both, rest = (5, 1, Decimal(2)), (5, 2, Decimal(5)), (5, 1, Decimal(3))
    assert deltas["v"] == {
        (one, 1): 1, (one, 2): -1, (both, 3): 1, (both, 5): -1, (rest, 5): 1,
    }  # fmt: skip
    running.check()


def test_nan_and_negative_zero_are_keys() -> None:
    running = _running()
    lines = running.sources["lines"]
    running.install("v", reduce_(lines, (2,)))
    running.install("w", join([_plain(lines), _plain(lines)], [((0, 2), (1, 2))]))
    rows = [(1, 1, math.nan), (1, 1, -math.nan), (1, 1, 0.0), (1, 1, -0.0)]
    running.apply([[Change("insert", "lines", (r,))] for r in rows])
    root = running.views["v"][1]
    found = running.dataflow.relation(root).live_rows
    assert found == 2
    assert running.dataflow.relation(running.views["w"][1]).live_rows == 8
    running.apply([[Change("delete", "lines", (r,))] for r in rows])
    assert running.dataflow.relation(root).live_rows == 0
    assert running.dataflow.relation(running.views["w"][1]).live_rows == 0
