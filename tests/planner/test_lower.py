"""Lowering of everything but joins: fused maps, reduces, unions, top-k."""

from __future__ import annotations

import pytest

from planner.analysis.text import expr_text
from planner.calculus.algebra import AggregateCall, Plan, SortKey, UnionAll, identity
from planner.calculus.types import BIGINT, DOUBLE, FLOAT, INT, Field
from planner.dataflow import (
    Accumulator,
    Arrangement,
    DeltaJoin,
    DeltaPath,
    HalfJoin,
    JoinInput,
    Map,
    Node,
    OrderedArrangement,
    Reduce,
    Source,
    Store,
    TopK,
    Union,
    group_index,
    topological,
)
from planner.errors import CatalogError
from planner.lower.views import lower
from planner.rewrite.optimizer import optimize
from planner.validate import PlanError, check_dataflow
from tests.planner.build import (
    aggregate,
    average,
    big,
    call,
    col,
    count,
    count_rows,
    cross,
    eq,
    lit,
    pick,
    scan,
    select,
    top,
    total,
    where,
)
from tests.planner.tpch_catalog import Tables, table

CATALOG = Tables(
    (
        table("a", "id:b x:b y:i? s:s m:m n:m?", (0,)),
        table("b", "id:b x:b y:i? s:s m:m n:m?", (0,)),
    )
)
A, B = scan(CATALOG, "a"), scan(CATALOG, "b")


def lowered(plan: Plan) -> Node:
    node = lower(optimize(plan, check=True), CATALOG)
    check_dataflow(node)
    return node


def reduce_of(node: Node) -> Reduce:
    (found,) = (n for n in topological(node) if isinstance(n, Reduce))
    return found


def results(node: Node) -> list[str]:
    """The outputs above a Reduce as text, its columns called #0, #1 …"""
    assert isinstance(node, Map)
    names = [f"#{i}" for i in range(len(node.input.schema))]
    return [expr_text(e, names) for e in node.outputs]


# -- maps --------------------------------------------------------------------------------------


def test_filters_and_projections_fuse() -> None:
    named = select(
        where(A, eq(col(A, "x"), big(1))), v=call("add", col(A, "id"), big(1), type=BIGINT)
    )
    node = lowered(where(named, eq(col(named, "v"), big(2))))
    assert isinstance(node, Map)
    assert isinstance(node.input, Source)
    assert len(node.predicates) == 2
    assert [f.name for f in node.schema] == ["v"]


def test_predicates_that_may_fail_come_last_and_cheap_ones_first() -> None:
    like = call("like", col(A, "s"), lit("a%"), lit("\\"))
    risky = eq(call("integral_divide", big(1), col(A, "x"), type=BIGINT), big(1))
    number = eq(col(A, "x"), big(1))
    node = lowered(where(A, risky, like, number))
    assert isinstance(node, Map)
    assert node.predicates == (number, like, risky)


def test_a_table_is_a_map_of_its_columns_and_a_renaming_too() -> None:
    """It may get more of them."""
    node = lowered(A)
    assert isinstance(node, Map)
    assert (node.input, node.outputs) == (CATALOG.relations[0].node, identity(A.schema))
    renamed = lowered(select(A, **{f.name + "_": col(A, f.name) for f in A.schema}))
    assert isinstance(renamed, Map)
    assert renamed.schema[0].name == "id_"


def test_an_unknown_relation_is_named() -> None:
    with pytest.raises(CatalogError, match='relation "a" does not exist'):
        lower(A, Tables(()))


# -- reduces -----------------------------------------------------------------------------------


def call_of(function: str, column: str, **kwargs: bool) -> AggregateCall:
    made = {"sum": total, "avg": average, "count": count}[function](col(A, column))
    return AggregateCall(made.function, made.arg, made.type, made.nullable, **kwargs)


AVERAGE = "checked_sum(#3) / cast(#2 AS DECIMAL(20,0))"


@pytest.mark.parametrize(
    ("aggregate_call", "kinds", "result"),
    [
        (call_of("count", "id"), "count_rows", "#1"),
        (call_of("count", "y"), "count_rows count", "#2"),
        (call_of("sum", "x"), "count_rows sum", "checked_sum(#2)"),
        (call_of("sum", "y"), "count_rows sum count",
         "CASE WHEN #3 = 0 THEN NULL ELSE checked_sum(#2) END"),
        (call_of("sum", "m"), "count_rows sum", "checked_sum(#2)"),
        (call_of("avg", "x"), "count_rows sum", "cast(#2 AS DOUBLE) / cast(#1 AS DOUBLE)"),
        (call_of("avg", "m"), "count_rows sum",
         "checked_sum(#2) / cast(#1 AS DECIMAL(20,0))"),
        (call_of("avg", "n"), "count_rows count sum",
         f"CASE WHEN #2 = 0 THEN NULL ELSE {AVERAGE} END"),
    ],
)  # fmt: skip
def test_accumulators_of_a_group(aggregate_call: AggregateCall, kinds: str, result: str) -> None:
    node = lowered(aggregate(A, {"s": col(A, "s")}, v=aggregate_call))
    assert [a.kind for a in reduce_of(node).accumulators] == kinds.split()
    assert results(node)[1] == result
    assert node.schema[1].type == aggregate_call.type


def test_floats_are_summed_exactly() -> None:
    catalog = Tables((table("f", "k:b", None),))
    base = scan(catalog, "f")
    value = call("cast", col(base, "k"), type=FLOAT)
    summed = AggregateCall("sum", value, DOUBLE, True)
    node = lower(aggregate(base, {"k": col(base, "k")}, v=summed), catalog)
    check_dataflow(node)
    assert [a.kind for a in reduce_of(node).accumulators] == ["count_rows", "sum_double"]
    assert results(node)[1] == "exact_sum_to_double(#2)"


def test_a_global_sum_is_null_without_rows() -> None:
    node = lowered(aggregate(A, {}, v=total(col(A, "x")), n=count_rows()))
    assert results(node) == ["CASE WHEN #0 = 0 THEN NULL ELSE checked_sum(#1) END", "#0"]


def test_equal_accumulators_and_arguments_are_shared() -> None:
    m = col(A, "m")
    node = lowered(
        aggregate(A, {"s": col(A, "s")}, a=total(m), b=average(m), c=count(m), d=total(m))
    )
    reduce = reduce_of(node)
    assert reduce.accumulators == (
        Accumulator("count_rows", None),
        Accumulator("sum", col(pick(A, "s", "m"), "m")),
    )
    assert [f.name for f in reduce.input.schema] == ["s", "m"]


def test_distinct_is_a_reduce_that_counts_rows() -> None:
    node = lowered(aggregate(A, {"s": col(A, "s")}))
    assert [a.kind for a in reduce_of(node).accumulators] == ["count_rows"]
    assert [f.name for f in node.schema] == ["s"]


def test_count_of_all_rows_needs_no_column() -> None:
    node = lowered(aggregate(A, {}, n=count_rows()))
    assert reduce_of(node).accumulators == (Accumulator("count_rows", None),)
    assert reduce_of(node).input.schema


def test_distinct_values_are_grouped_first_and_joined_with_the_rest() -> None:
    keys = {"s": col(A, "s")}
    node = lowered(aggregate(A, keys, d=call_of("count", "y", distinct=True), n=count_rows()))
    (join,) = (n for n in topological(node) if isinstance(n, DeltaJoin))
    reduces = [i.relation for i in join.inputs]
    assert all(isinstance(r, Reduce) for r in reduces)
    used = {s.index for p in join.paths for s in p.steps}
    assert used == {group_index(r) for r in reduces if isinstance(r, Reduce)}


def test_min_and_max_read_the_front_of_an_index() -> None:
    """Over a table itself, where its rows serve as they are."""
    low, high = (AggregateCall(f, col(A, "y"), INT, True) for f in ("min", "max"))
    grouped = aggregate(A, {"s": col(A, "s")}, lo=low, hi=high, t=total(col(A, "x")))
    reduce = reduce_of(lowered(grouped))
    assert isinstance(reduce.input, Source)
    kinds = [a.kind for a in reduce.accumulators]
    assert kinds == ["count_rows", "first", "first", "sum"]
    lowest, highest = (a.index for a in reduce.accumulators if a.index is not None)
    assert lowest.partition == highest.partition == (3,)
    assert (lowest.order, highest.order) == (
        (SortKey(2, nulls_first=False),),
        (SortKey(2, descending=True, nulls_first=False),),
    )
    filtered = where(A, eq(col(A, "x"), big(1)))
    assert isinstance(reduce_of(lowered(aggregate(filtered, {}, lo=low))).input, Store)


# -- union, top-k ------------------------------------------------------------------------------


def test_union_of_projections() -> None:
    union = UnionAll((pick(A, "id", "y"), pick(B, "x", "y")), pick(A, "id", "y").schema)
    node = lowered(union)
    assert isinstance(node, Union)
    assert [type(i) for i in node.inputs] == [Map, Map]


def test_top_k_reads_a_table_in_order_and_stores_the_rest() -> None:
    order = SortKey(1, descending=True, nulls_first=False)
    node = lowered(top(A, 3, order))
    assert isinstance(node, Map) and node.outputs == identity(A.schema)
    assert node.input == TopK(
        OrderedArrangement(CATALOG.relations[0].node, (order,), tuple(range(6))), 3, 0
    )
    node = lowered(top(where(A, eq(col(A, "x"), big(1))), 3, order))
    assert isinstance(node, TopK)
    assert isinstance(node.index.relation, Store)


# -- sharing -----------------------------------------------------------------------------------


def test_aliases_do_not_keep_views_from_sharing() -> None:
    def view(key: str, value: str) -> Plan:
        j = cross(A, B)
        linked = where(j, eq(col(j, "id"), col(j, "x", 1)))
        named = select(linked, **{key: col(linked, "s"), value: col(linked, "m", 1)})
        return aggregate(named, {key: col(named, key)}, **{value + "_": total(col(named, value))})

    one, two = lowered(view("p", "q")), lowered(view("r", "t"))
    assert [f.name for f in one.schema] == ["p", "q_"]
    assert [f.name for f in two.schema] == ["r", "t_"]
    assert reduce_of(one) == reduce_of(two)


def test_a_subplan_used_twice_is_one_node() -> None:
    grouped = aggregate(A, {"x": col(A, "x")}, n=count_rows())
    j = cross(grouped, grouped)
    node = lowered(where(j, eq(col(j, "x"), col(j, "n", 1))))
    assert len([n for n in topological(node) if isinstance(n, Reduce)]) == 1


# -- the checker -------------------------------------------------------------------------------


def test_the_checker_finds_broken_dataflows() -> None:
    node = CATALOG.relations[0].node
    id_, x, s = col(A, "id"), col(A, "x"), col(A, "s")
    rows = Accumulator("count_rows", None)
    inputs = (JoinInput(node, None), JoinInput(node, None))

    def path(source: int, probe: int, column: int, as_of: bool) -> DeltaPath:
        target = 1 - source
        return DeltaPath(
            source, (HalfJoin(target, Arrangement(node, (column,)), (probe,), as_of, ()),)
        )

    good = DeltaJoin(inputs, (path(0, 0, 1, False), path(1, 7, 0, True)))
    check_dataflow(good)
    broken: list[tuple[Node, str]] = [
        (Reduce(node, (id_,), (), (Field("id", BIGINT, False),)), "count_rows"),
        (Reduce(node, (eq(id_, x),), (rows,), ()), "plain column"),
        (Map(node, (), (id_,), (Field("id", INT, False),)), "differ"),
        (Map(node, (s,), (id_,), (Field("id", BIGINT, False),)), "BOOLEAN"),
        (DeltaJoin(inputs, (path(0, 0, 1, False), path(1, 7, 0, False))), "wrong time"),
        (DeltaJoin(inputs, (path(0, 0, 3, False), path(1, 7, 0, True))), "a probe of BIGINT"),
        (DeltaJoin(inputs, (path(0, 9, 1, False), path(1, 7, 0, True))), "not bound"),
        (DeltaJoin(inputs, (path(1, 7, 0, True), path(0, 0, 1, False))), "in order"),
    ]
    for bad, message in broken:
        with pytest.raises(PlanError, match=message):
            check_dataflow(bad)
