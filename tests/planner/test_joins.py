"""How joins are lowered: what is stored, which paths, through which indexes."""

from __future__ import annotations

from typing import Any

import pytest

from planner.calculus.algebra import Plan, SortKey
from planner.calculus.expr import Call, Column
from planner.calculus.failing import may_fail
from planner.calculus.types import BIGINT, BOOLEAN, DecimalType, Field
from planner.dataflow import (
    Arrangement,
    DeltaJoin,
    HalfJoin,
    Map,
    Node,
    OrderedArrangement,
    RangeEnd,
    RangeJoin,
    Reduce,
    Source,
    Store,
    group_index,
    topological,
)
from planner.explain import explain_dataflow
from planner.lower.join_order import JoinGraph
from planner.lower.views import lower
from planner.rewrite.optimizer import optimize
from planner.validate import check_dataflow
from tests.planner.build import (
    aggregate,
    big,
    call,
    cast,
    col,
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
from tests.planner.tpch_catalog import Tables, table, tpch

CATALOG = Tables(
    (
        table("a", "id:b x:b y:b? s:s i:i m:m", (0,)),
        table("b", "id:b x:b y:b? s:s i:i m:m", (0,)),
        table("pair", "p:b q:b z:b", (0, 1)),
        table("bag", "x:b? y:b?", None),
    )
)
A, B, PAIR, BAG = (scan(CATALOG, n) for n in ("a", "b", "pair", "bag"))


def lowered(plan: Plan, catalog: Tables = CATALOG) -> Node:
    node = lower(optimize(plan, check=True), catalog)
    check_dataflow(node)
    return node


def join_of(node: Node) -> DeltaJoin:
    (found,) = (n for n in topological(node) if isinstance(n, DeltaJoin))
    return found


def joined(plan: Plan, catalog: Tables = CATALOG) -> DeltaJoin:
    return join_of(lowered(plan, catalog))


def step(join: DeltaJoin, source: int, target: int) -> HalfJoin:
    (found,) = (s for s in join.paths[source].steps if s.input == target)
    assert isinstance(found, HalfJoin)
    return found


def only(join: DeltaJoin, source: int) -> HalfJoin | RangeJoin:
    """The one step of a path."""
    (found,) = join.paths[source].steps
    return found


def by(relation: Source, column: int) -> OrderedArrangement:
    return OrderedArrangement(relation, (SortKey(column, nulls_first=False),), ())


def source(name: str, catalog: Tables = CATALOG) -> Source:
    info = catalog.relation(name)
    assert info is not None
    assert isinstance(info.node, Source)
    return info.node


# -- what is looked up -------------------------------------------------------------------------


def test_each_occurrence_has_its_path_and_time() -> None:
    j = cross(A, B, PAIR)
    join = joined(where(j, eq(col(j, "x"), col(j, "id", 1)), eq(col(j, "x", 1), col(j, "p"))))
    assert [p.source for p in join.paths] == [0, 1, 2]
    for path in join.paths:
        assert [s.as_of for s in path.steps] == [s.input < path.source for s in path.steps]


def test_a_leading_part_of_a_primary_key_serves() -> None:
    j = cross(A, PAIR)
    found = step(joined(where(j, eq(col(j, "id"), col(j, "p")))), 0, 1)
    assert found.index == Arrangement(source("pair"), (0, 1))
    assert found.probe == (0,)


def test_a_whole_primary_key_leaves_further_equalities_as_residual() -> None:
    j = cross(A, B)
    join = joined(where(j, eq(col(j, "x"), col(j, "id", 1)), eq(col(j, "y"), col(j, "y", 1))))
    found = step(join, 0, 1)
    assert found.index == Arrangement(source("b"), (0,))
    assert len(found.residual) == 1
    assert not may_fail(found.residual[0])
    # The other way neither is a key: one index on both.
    assert step(join, 1, 0).index == Arrangement(source("a"), (1, 2))


def test_a_live_index_with_the_same_columns_in_another_order_serves() -> None:
    live = Arrangement(source("a"), (2, 1, 0))
    j = cross(A, B)
    plan = where(j, eq(col(j, "x"), col(j, "x", 1)), eq(col(j, "y"), col(j, "y", 1)))
    join = joined(plan, Tables(CATALOG.relations, frozenset((live,))))
    assert step(join, 1, 0).index == live
    assert step(join, 1, 0).probe == (8, 7)


def test_an_index_serves_every_path_that_it_can() -> None:
    """The bag is looked up by x and by (x, y): one index does for both."""
    j = cross(A, B, BAG)
    plan = where(
        j,
        eq(col(j, "x"), col(j, "x", 2)),
        eq(col(j, "y", 1), col(j, "y", 2)),
        eq(col(j, "id"), col(j, "id", 1)),
    )
    join = joined(plan)
    used = {s.index.columns for p in join.paths for s in p.steps if s.input == 2}
    assert used == {(0, 1)}


def test_an_index_without_some_rows_does_not_serve_a_part_of_its_columns() -> None:
    """Rows with NULL in y are not in an index on (x, y)."""
    live = Arrangement(source("bag"), (0, 1))
    j = cross(A, BAG)
    plan = where(j, eq(col(j, "x"), col(j, "x", 1)))
    found = step(joined(plan, Tables(CATALOG.relations, frozenset((live,)))), 0, 1)
    assert found.index == Arrangement(source("bag"), (0,))


# -- partial indexes ---------------------------------------------------------------------------


def _positive(plan: Plan) -> Plan:
    """Some of the rows: those with x = 1, an estimated tenth."""
    return where(plan, eq(col(plan, "x"), big(1)))


def _lookup(plan: Plan, catalog: Tables = CATALOG) -> HalfJoin:
    """How a change of the other input finds the rows of the first."""
    j = cross(plan, B)
    return step(joined(where(j, eq(col(j, "y"), col(j, "y", 1))), catalog), 1, 0)


def test_a_selective_filter_makes_its_index_partial() -> None:
    found = _lookup(_positive(A)).index
    assert found.columns == (2,)
    assert found.filter is not None
    # Nine tenths of the rows are no part worth an index of its own.
    most = where(A, call("ne", col(A, "x"), big(1)))
    assert _lookup(most).index == Arrangement(source("a"), (2,))


def test_a_part_of_a_prefix_of_the_primary_key() -> None:
    """The primary key's own index takes in every row; nobody else needs it to be read."""
    some = where(PAIR, eq(col(PAIR, "z"), big(1)))
    j = cross(A, some)
    plan = where(j, eq(col(j, "id"), col(j, "p")))
    found = step(joined(plan), 0, 1).index
    assert found.columns == (0,)
    assert found.filter is not None
    read = Arrangement(source("pair"), (0, 1))
    again = joined(plan, Tables(CATALOG.relations, frozenset((read,))))
    assert step(again, 0, 1).index == read


def test_a_whole_index_that_is_read_serves() -> None:
    whole = Arrangement(source("a"), (2,))
    live = Tables(CATALOG.relations, frozenset((whole,)))
    assert _lookup(_positive(A), live).index == whole
    # Also one that this very plan needs for another occurrence.
    j = cross(_positive(A), A, B)
    plan = where(j, eq(col(j, "y"), col(j, "y", 2)), eq(col(j, "y", 1), col(j, "y", 2)))
    used = {s.index for p in joined(plan).paths for s in p.steps if s.input < 2}
    assert used == {whole}


def test_the_part_that_is_read_serves_beside_the_whole() -> None:
    part = _lookup(_positive(A)).index
    whole = Arrangement(source("a"), (2,))
    live = Tables(CATALOG.relations, frozenset((part, whole)))
    assert _lookup(_positive(A), live).index == part


def test_parts_do_not_add_up_to_more_than_the_whole() -> None:
    """Ten parts of an estimated tenth: the eleventh builds the index of all rows."""
    catalog = CATALOG
    for value in range(10):
        found = _lookup(where(A, eq(col(A, "x"), big(value))), catalog).index
        assert found.filter is not None
        catalog = Tables(CATALOG.relations, catalog.indexes | {found})
    last = _lookup(where(A, eq(col(A, "x"), big(10))), catalog).index
    assert last == Arrangement(source("a"), (2,))


def test_equalities_are_transitive() -> None:
    """a = b and b = c: a change of a may look c up at once."""
    j = cross(A, B, PAIR)
    join = joined(where(j, eq(col(j, "x"), col(j, "x", 1)), eq(col(j, "x", 1), col(j, "p"))))
    found = step(join, 0, 2)
    assert found.probe == (1,)


def test_two_equal_columns_of_one_occurrence_become_its_filter() -> None:
    j = cross(A, BAG)
    join = joined(where(j, eq(col(j, "id"), col(j, "x", 1)), eq(col(j, "id"), col(j, "y", 1))))
    assert join.inputs[1].filter == eq(col(BAG, "x"), col(BAG, "y"))
    assert len(step(join, 0, 1).probe) == 1


def test_integers_of_other_widths_meet_in_one_index() -> None:
    j = cross(A, B)
    join = joined(where(j, eq(cast(col(j, "i"), BIGINT), col(j, "id", 1))))
    assert not [n for n in topological(join) if isinstance(n, Store)]
    assert step(join, 0, 1).index == Arrangement(source("b"), (0,))


def test_null_safe_equality_uses_an_index_with_nulls() -> None:
    j = cross(A, BAG)
    plan = where(j, call("eq_null_safe", col(j, "y"), col(j, "y", 1)))
    found = step(joined(plan), 0, 1)
    assert found.index.null_safe
    assert found.null_safe == (True,)
    never_null = where(j, call("eq_null_safe", col(j, "id"), col(j, "y", 1)))
    assert step(joined(never_null), 0, 1).null_safe == ()


# -- where conjuncts go ------------------------------------------------------------------------


def test_conjuncts_go_where_they_may() -> None:
    j = cross(A, B)
    fails = eq(call("integral_divide", big(1), col(j, "x"), type=BIGINT), big(1))
    plan = where(
        j,
        eq(col(j, "id"), col(j, "id", 1)),
        fails,
        call("lt", col(j, "x"), col(j, "x", 1)),
        eq(col(j, "s"), lit("v")),
    )
    node = lowered(plan)
    join = join_of(node)
    assert join.inputs[0].filter == eq(col(A, "s"), lit("v"))
    assert step(join, 0, 1).residual == (call("lt", col(j, "x"), col(j, "x", 1)),)
    assert isinstance(node, Map)
    assert node.predicates == (fails,)


# -- what is stored ----------------------------------------------------------------------------


def test_filtered_and_projected_tables_are_not_stored() -> None:
    left = pick(where(A, call("like", col(A, "s"), lit("a%"), lit("\\"))), "s", "id")
    right = select(B, k=col(B, "id"), v=call("upper", col(B, "s"), type=col(B, "s").type))
    j = cross(left, right)
    join = joined(where(j, eq(col(j, "id"), col(j, "k"))))
    assert [type(i.relation) for i in join.inputs] == [Source, Source]
    assert join.inputs[0].filter is not None


def test_a_filter_that_may_fail_makes_its_input_stored() -> None:
    risky = where(A, eq(call("integral_divide", big(1), col(A, "x"), type=BIGINT), big(1)))
    j = cross(risky, B)
    join = joined(where(j, eq(col(j, "id"), col(j, "id", 1))))
    assert isinstance(join.inputs[0].relation, Store)
    assert isinstance(join.inputs[1].relation, Source)


def test_an_aggregate_is_joined_through_its_group_index() -> None:
    grouped = aggregate(B, {"x": col(B, "x")}, n=count_rows(), t=total(col(B, "y")))
    j = cross(A, where(grouped, call("gt", col(grouped, "n"), big(1))))
    join = joined(where(j, eq(col(j, "id"), col(j, "x", 1))))
    relation = join.inputs[1].relation
    assert isinstance(relation, Reduce)
    assert step(join, 0, 1).index == group_index(relation)
    assert join.inputs[1].filter is not None


def test_a_limited_subquery_is_stored() -> None:
    j = cross(A, top(B, 3))
    join = joined(where(j, eq(col(j, "id"), col(j, "id", 1))))
    assert isinstance(join.inputs[1].relation, Store)


def test_a_computed_key_is_stored_with_its_input() -> None:
    j = cross(A, B)
    key = cast(col(j, "i"), DecimalType(12, 2))
    join = joined(where(j, eq(key, col(j, "m", 1))))
    relation = join.inputs[0].relation
    assert isinstance(relation, Store)
    assert relation.schema[-1] == Field("cast(i AS DECIMAL(12,2))", DecimalType(12, 2), False)
    assert isinstance(join.inputs[1].relation, Source)
    assert step(join, 1, 0).index.columns == (len(relation.schema) - 1,)


def test_a_computed_equality_beside_a_plain_one_is_a_residual() -> None:
    j = cross(A, B)
    upper = call("upper", col(j, "s"), type=col(j, "s").type)
    join = joined(where(j, eq(upper, col(j, "s", 1)), eq(col(j, "id"), col(j, "id", 1))))
    assert [type(i.relation) for i in join.inputs] == [Source, Source]
    assert step(join, 0, 1).residual == (eq(upper, col(j, "s", 1)),)


def test_a_failing_key_is_computed_behind_the_predicates_before_it() -> None:
    j = cross(A, B)
    safe = eq(col(j, "i"), lit(1))
    risky = eq(call("integral_divide", big(1), col(j, "x"), type=BIGINT), big(1))
    key = eq(cast(col(j, "s"), BIGINT), col(j, "id", 1))
    node = lowered(where(j, safe, risky, key))
    relation = join_of(node).inputs[0].relation
    assert isinstance(relation, Store)
    assert isinstance(relation.input, Map)
    assert len(relation.input.predicates) == 2


def test_inputs_that_have_a_key_together_are_joined_first() -> None:
    """The join of a and b is stored with the key, and only with the columns that are read above."""
    j = cross(A, B, BAG)
    total_of = call("add", col(j, "x"), col(j, "y", 1), type=BIGINT)
    rows = where(j, eq(total_of, col(j, "x", 2)), eq(col(j, "id"), col(j, "id", 1)))
    node = lowered(select(rows, i=col(j, "i"), y=col(j, "y", 2)))
    inner, outer = (n for n in topological(node) if isinstance(n, DeltaJoin))
    assert [i.relation for i in inner.inputs] == [source("a"), source("b")]
    kept, bag = (i.relation for i in outer.inputs)
    assert isinstance(kept, Store)
    assert isinstance(kept.input, Map)
    assert kept.input.input == inner
    assert len(kept.schema) == 2
    assert bag == source("bag")
    assert step(outer, 1, 0).index == Arrangement(kept, (1,))
    assert step(outer, 0, 1).index == Arrangement(bag, (0,))


def test_both_sides_of_an_equality_may_be_joined_first() -> None:
    j = cross(A, B, PAIR, BAG)
    left = call("add", col(j, "x"), col(j, "x", 1), type=BIGINT)
    right = call("add", col(j, "z"), col(j, "y", 2), type=BIGINT)
    linked = (eq(col(j, "id"), col(j, "id", 1)), eq(col(j, "p"), col(j, "x", 2)))
    node = lowered(select(where(j, eq(left, right), *linked), s=col(j, "s"), q=col(j, "q")))
    joins = [n for n in topological(node) if isinstance(n, DeltaJoin)]
    assert len(joins) == 3
    assert [type(i.relation) for i in joins[-1].inputs] == [Store, Store]


def test_a_joint_key_is_computed_behind_the_predicates_before_it() -> None:
    """What may fail and comes after the key in the query is above the whole join, as it was."""
    j = cross(A, B, BAG)
    linked = eq(col(j, "id"), col(j, "id", 1))
    first, last = (
        eq(call("integral_divide", col(j, "x"), col(j, c, 1), type=BIGINT), big(1)) for c in "yi"
    )
    key = eq(call("add", col(j, "x"), col(j, "y", 1), type=BIGINT), col(j, "x", 2))
    node = lowered(where(j, first, key, last, linked))
    inner, outer = (n for n in topological(node) if isinstance(n, DeltaJoin))
    below, above = (
        next(n for n in topological(node) if isinstance(n, Map) and n.input == j)
        for j in (inner, outer)
    )
    assert len(below.predicates) == 1
    assert len(above.predicates) == 1
    assert all(may_fail(p) for p in (*below.predicates, *above.predicates))


def test_a_single_row_takes_part_in_a_joint_key() -> None:
    single = aggregate(B, {}, t=total(col(B, "x")))
    j = cross(A, BAG, single)
    key = call("add", cast(col(j, "x"), col(j, "t").type), col(j, "t"), type=col(j, "t").type)
    node = lowered(where(j, eq(key, cast(col(j, "x", 1), col(j, "t").type))))
    inner, outer = (n for n in topological(node) if isinstance(n, DeltaJoin))
    assert [type(i.relation) for i in inner.inputs] == [Source, Reduce]
    assert [type(i.relation) for i in outer.inputs] == [Store, Source]


def test_an_inequality_of_columns_is_a_range() -> None:
    j = cross(A, pick(B, "id"))
    join = joined(where(j, call("lt", col(j, "x"), col(j, "id", 1))))
    a, b = source("a"), source("b")
    x, key = join.schema[1], Column(6, BIGINT, False, "id")
    assert x.name == "x"
    assert only(join, 0) == RangeJoin(
        1, by(b, 0), RangeEnd(Column(1, x.type, x.nullable, "x"), False), None, False, ()
    )
    assert only(join, 1) == RangeJoin(0, by(a, 1), None, RangeEnd(key, False), True, ())


def test_two_ends_are_one_range_and_the_rest_is_tested() -> None:
    j = cross(A, B)
    x, y = col(j, "x"), col(j, "y", 1)
    join = joined(
        where(
            j,
            call("le", x, y),
            call("gt", x, col(j, "id", 1)),
            call("ne", col(j, "i"), col(j, "i", 1)),
        )
    )
    forth, back = only(join, 0), only(join, 1)
    assert isinstance(forth, RangeJoin)
    assert isinstance(back, RangeJoin)
    # Of a row of b two of its columns bound x; of a row of a one column of b is sought.
    assert back.low is not None
    assert back.high is not None
    assert (back.low.inclusive, back.high.inclusive) == (False, True)
    assert len(back.residual) == 1
    assert len(forth.ends) == 1
    assert len(forth.residual) == 2
    ends = "x > b.id AND x <= b.y"
    text = f"-> a [as of] via the range {ends} of a(by x NULLS LAST)"
    assert text in explain_dataflow(join)


def test_texts_are_compared_again_behind_a_range() -> None:
    j = cross(A, B)
    join = joined(where(j, call("lt", col(j, "s"), col(j, "s", 1))))
    assert all(len(only(join, i).residual) == 1 for i in (0, 1))


def test_an_end_may_be_computed() -> None:
    j = cross(A, B)
    missing = Call("is_null", (col(j, "y", 1),), BOOLEAN, False)
    sign = Call("case", (missing, big(0), big(1)), BIGINT, False)
    join = joined(where(j, call("lt", col(j, "x"), sign)))
    back = only(join, 1)
    assert isinstance(back, RangeJoin)
    assert back.high is not None
    assert not isinstance(back.high.value, Column)
    # In the other direction no index has the computed value: the one end is plain there.
    assert only(join, 0).index == Arrangement(source("b"), (), null_safe=True)


def test_computed_values_that_alone_are_compared_become_columns() -> None:
    j = cross(A, B)
    left = call("add", col(j, "x"), big(1), type=BIGINT)
    right = call("add", col(j, "x", 1), big(2), type=BIGINT)
    join = joined(where(j, call("lt", left, right)))
    assert [type(i.relation) for i in join.inputs] == [Store, Store]
    assert all(isinstance(only(join, i), RangeJoin) for i in (0, 1))


def test_an_equality_comes_before_a_range() -> None:
    j = cross(A, B)
    join = joined(
        where(j, call("lt", col(j, "y"), col(j, "y", 1)), eq(col(j, "x"), col(j, "x", 1)))
    )
    assert all(isinstance(only(join, i), HalfJoin) for i in (0, 1))


@pytest.mark.parametrize("either", [True, False])
def test_what_is_no_range_visits_every_row(either: bool) -> None:
    j = cross(A, B)
    other = call("ne", col(j, "x"), col(j, "x", 1))
    condition = call("or", other, call("lt", col(j, "y"), col(j, "y", 1))) if either else other
    join = joined(where(j, condition))
    assert step(join, 0, 1).index == Arrangement(source("b"), (), null_safe=True)
    assert "visits all its rows" in explain_dataflow(join)


def test_a_joint_key_of_inputs_that_nothing_connects_pairs_all_rows() -> None:
    j = cross(A, B, BAG)
    key = call("add", col(j, "x"), col(j, "y", 1), type=BIGINT)
    join = joined(where(j, eq(key, col(j, "x", 2))))
    assert len(join.inputs) == 3


def test_a_cross_join_pairs_all_rows() -> None:
    j = cross(A, pick(B, "id"))
    join = joined(where(j, eq(col(j, "id"), big(1))))
    assert step(join, 0, 1).index == Arrangement(source("b"), (), null_safe=True)
    assert step(join, 0, 1).probe == ()


def test_an_inequality_with_a_single_row_is_a_residual() -> None:
    """Where the scalar is read above, too; else it is a threshold."""
    j = cross(A, aggregate(B, {}, t=total(col(B, "x"))))
    join = joined(where(j, call("lt", col(j, "id"), col(j, "t"))))
    found = step(join, 0, 1)
    assert isinstance(found.index.relation, Reduce)
    assert found.index == group_index(found.index.relation)


# -- orders ------------------------------------------------------------------------------------


def star(catalog: Tables) -> DeltaJoin:
    """TPC-H Q9's join: six tables around lineitem."""
    names = "part supplier lineitem partsupp orders nation".split()
    j = cross(*(scan(catalog, n) for n in names))
    c = {f.name: col(j, f.name) for f in j.schema}
    plan = where(
        j,
        eq(c["s_suppkey"], c["l_suppkey"]),
        eq(c["ps_suppkey"], c["l_suppkey"]),
        eq(c["ps_partkey"], c["l_partkey"]),
        eq(c["p_partkey"], c["l_partkey"]),
        eq(c["o_orderkey"], c["l_orderkey"]),
        eq(c["s_nationkey"], c["n_nationkey"]),
        call("like", c["p_name"], lit("%green%"), lit("\\")),
    )
    return joined(plan, catalog)


@pytest.mark.parametrize("loaded", [True, False], ids=["loaded", "empty"])
def test_a_supplier_reaches_lineitem_through_the_filtered_parts(loaded: bool) -> None:
    """Few lineitems of a supplier are of a green part: its parts are looked up first."""
    join = star(tpch(loaded))
    order = [s.input for s in join.paths[1].steps]
    partsupp, part, lineitem = order.index(3), order.index(0), order.index(2)
    assert partsupp < part < lineitem


def test_orders_do_not_depend_on_the_order_of_equalities() -> None:
    catalog = tpch()
    j = cross(*(scan(catalog, n) for n in ("customer", "orders", "lineitem")))
    links = [eq(col(j, "c_custkey"), col(j, "o_custkey")),
             eq(col(j, "l_orderkey"), col(j, "o_orderkey"))]  # fmt: skip
    assert joined(where(j, *links), catalog) == joined(where(j, *reversed(links)), catalog)


def test_many_inputs_are_planned_at_once() -> None:
    chain = Tables(tuple(table(f"t{i}", "id:b next:b", (0,)) for i in range(20)))
    j = cross(*(scan(chain, f"t{i}") for i in range(20)))
    links = [eq(col(j, "next", i), col(j, "id", i + 1)) for i in range(19)]
    assert len(joined(where(j, *links), chain).paths) == 20


def local_suppliers(catalog: Tables) -> DeltaJoin:
    """TPC-H Q5's cycle: the customer and the supplier of an order's lines share a nation."""
    names = "customer orders lineitem supplier nation".split()
    j = cross(*(scan(catalog, n) for n in names))
    c = {f.name: col(j, f.name) for f in j.schema}
    plan = where(
        j,
        eq(c["c_custkey"], c["o_custkey"]),
        eq(c["l_orderkey"], c["o_orderkey"]),
        eq(c["l_suppkey"], c["s_suppkey"]),
        eq(c["c_nationkey"], c["s_nationkey"]),
        eq(c["s_nationkey"], c["n_nationkey"]),
    )
    return joined(plan, catalog)


@pytest.mark.parametrize("loaded", [True, False], ids=["loaded", "empty"])
def test_a_supplier_does_not_reach_all_customers_of_its_nation(loaded: bool) -> None:
    order = [s.input for s in local_suppliers(tpch(loaded)).paths[3].steps]
    assert order.index(2) < order.index(0)


def test_an_index_is_not_built_to_save_a_few_rows() -> None:
    """lineitem by order and supplier is read by order, from its primary key."""
    catalog = tpch()
    j = cross(*(scan(catalog, n) for n in ("orders", "lineitem")))
    plan = where(
        j,
        eq(col(j, "o_orderkey"), col(j, "l_orderkey")),
        eq(col(j, "o_custkey"), col(j, "l_suppkey")),
    )
    found = step(joined(plan, catalog), 0, 1)
    assert found.index == Arrangement(source("lineitem", catalog), (0, 1))
    assert len(found.probe) == len(found.residual) == 1


def test_the_search_for_an_order_grows_with_the_inputs_and_not_with_their_cube(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    weighed: list[int] = []
    sought = JoinGraph._lookups

    def counted(graph: JoinGraph, visited: int) -> tuple[Any, ...]:
        found = sought(graph, visited)
        weighed.append(len(found))
        return found

    monkeypatch.setattr(JoinGraph, "_lookups", counted)

    def weighed_by(inputs: int) -> int:
        weighed.clear()
        product = cross(*[A] * inputs)
        first = col(product, "x")
        joined(where(product, *(eq(first, col(product, "x", i)) for i in range(1, inputs))))
        return sum(weighed)

    small, large = weighed_by(24), weighed_by(48)
    assert large < 3 * small  # eight times, were each source's search as wide
