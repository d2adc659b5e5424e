"""Where aggregates and joins are restricted, kept or moved, so that a change reaches less."""

from __future__ import annotations

import pytest

from planner.analysis.selectivity import selectivity
from planner.bind import bind_query
from planner.calculus.expr import Call, Expr
from planner.calculus.types import BOOLEAN
from planner.dataflow import Arrangement, DeltaJoin, Node, Reduce, Source, Store, topological
from planner.lower.views import lower
from planner.parse import parse_query
from planner.rewrite.optimizer import optimize
from planner.validate import check_dataflow
from tests.planner.build import big, call, lit
from tests.planner.tpch_catalog import Tables, table

CATALOG = Tables(
    (
        table("part", "p:b brand:s size:b?", (0,)),
        table("line", "o:b n:b p:b? s:b? qty:b late:m", (0, 1)),
        table("supplier", "s:b name:s nation:b", (0,)),
        table("nation", "nation:b name:s", (0,)),
        table("buyer", "c:b nation:b", (0,)),
        table("customer", "c:b name:s nick:s?", (0,)),
        table("orders", "o:b c:b? total:b?", (0,)),
    )
)


def lowered(text: str) -> Node:
    node = lower(optimize(bind_query(parse_query(text), CATALOG).plan, check=True), CATALOG)
    check_dataflow(node)
    return node


def reduces(node: Node) -> list[Reduce]:
    return [n for n in topological(node) if isinstance(n, Reduce)]


def tables_under(node: Node) -> set[str]:
    return {n.relation for n in topological(node) if isinstance(n, Source)}


# -- aggregates of few groups ------------------------------------------------------------------

_AVERAGE = (
    "SELECT sum(l.qty) AS t FROM line l, part WHERE part.p = l.p AND {} AND l.qty < "
    "(SELECT avg(z.qty) FROM line z WHERE z.p = part.p)"
)


def grouped(text: str) -> Reduce:
    """The one reduce with keys."""
    (found,) = (r for r in reduces(lowered(text)) if r.keys)
    return found


def test_an_aggregate_is_restricted_to_the_groups_that_a_filtered_table_has() -> None:
    assert tables_under(grouped(_AVERAGE.format("part.brand = 'x'"))) == {"line", "part"}


@pytest.mark.parametrize("condition", ["part.brand <> 'x'", "part.size > 1", "true"])
def test_not_where_many_groups_are_read(condition: str) -> None:
    assert tables_under(grouped(_AVERAGE.format(condition))) == {"line"}


def test_a_condition_that_may_fail_restricts_nothing() -> None:
    """It stays above the join; only the rows that pass the other are left to it."""
    text = _AVERAGE.format("part.brand = 'x' AND cast(part.brand AS BIGINT) = 1")
    (join,) = (n for n in topological(grouped(text)) if isinstance(n, DeltaJoin))
    filters = [i.filter for i in join.inputs if i.filter is not None]
    assert [f.function for f in filters if isinstance(f, Call)] == ["eq"]


def test_a_filtered_table_that_the_unique_one_leads_to_comes_along() -> None:
    text = (
        "SELECT g.t FROM supplier u, nation n, (SELECT s, sum(qty) AS t FROM line GROUP BY s) g "
        "WHERE g.s = u.s AND u.nation = n.nation AND n.name = 'x'"
    )
    assert tables_under(grouped(text)) == {"line", "supplier", "nation"}


def test_an_aggregate_that_others_read_whole_is_kept_once() -> None:
    text = (
        "WITH g AS (SELECT p, sum(qty) AS t FROM line GROUP BY p) "
        "SELECT g.t FROM g, part WHERE g.p = part.p AND part.brand = 'x' "
        "AND g.t < (SELECT max(t) FROM g)"
    )
    sums = [r for r in reduces(lowered(text)) if r.keys]
    assert [tables_under(r) for r in sums] == [{"line"}]


# -- kept joins --------------------------------------------------------------------------------

_OTHERS = (
    "SELECT u.name FROM supplier u, nation n, line l WHERE u.s = l.s AND u.nation = n.nation "
    "AND {} AND EXISTS (SELECT 1 FROM line m WHERE m.o = l.o AND m.s <> l.s)"
)


def kept(node: Node) -> list[Store]:
    return [n for n in topological(node) if isinstance(n, Store)]


def test_a_selective_join_is_kept_for_its_bindings() -> None:
    (store,) = kept(lowered(_OTHERS.format("n.name = 'x'")))
    assert tables_under(store) == {"line", "supplier", "nation"}
    joins = [n for n in topological(lowered(_OTHERS.format("n.name = 'x'")))
             if isinstance(n, DeltaJoin)]  # fmt: skip
    assert [len(j.inputs) for j in joins] == [3, 2, 2]


def test_not_a_join_that_throws_little_away() -> None:
    assert kept(lowered(_OTHERS.format("n.name <> 'x'"))) == []


def test_not_a_join_that_multiplies() -> None:
    text = (
        "SELECT l.o FROM line l, orders r WHERE r.c = l.s AND r.total = 1 "
        "AND EXISTS (SELECT 1 FROM line m WHERE m.o = l.o AND m.s <> l.s)"
    )
    assert kept(lowered(text)) == []


_STAR = (
    "SELECT l.qty, u.name FROM line l, part, orders r, supplier u WHERE l.p = part.p "
    "AND l.o = r.o AND l.s = u.s AND {}"
)


def test_few_rows_are_kept_so_that_the_others_need_no_index() -> None:
    """Lines of few parts: a supplier's lines are sought among these."""
    node = lowered(_STAR.format("part.brand = 'x' AND part.size = 1"))
    (store,) = kept(node)
    assert tables_under(store) == {"line", "part"}
    joins = [n for n in topological(node) if isinstance(n, DeltaJoin)]
    looked_up = {s.index for j in joins for p in j.paths for s in p.steps}
    indexes = {
        i.columns
        for i in looked_up
        if isinstance(i, Arrangement) and tables_under(i.relation) == {"line"}
    }
    assert indexes == {(2,)}


def test_a_chain_by_way_of_an_input_that_is_not_kept() -> None:
    """The nation is that of the customer, which the query says by way of the supplier."""
    text = (
        "SELECT l.qty FROM line l, orders r, buyer c, supplier u, nation n WHERE l.o = r.o "
        "AND r.c = c.c AND l.s = u.s AND c.nation = u.nation AND u.nation = n.nation "
        "AND n.name = 'x' AND r.total = 1"
    )
    (store,) = kept(lowered(text))
    assert tables_under(store) == {"line", "orders", "buyer", "nation"}


@pytest.mark.parametrize("condition", ["part.brand = 'x'", "part.brand <> 'x'", "true"])
def test_not_where_many_rows_would_be_kept(condition: str) -> None:
    assert kept(lowered(_STAR.format(condition))) == []


def test_not_where_no_index_is_spared() -> None:
    text = "SELECT l.qty, u.name FROM line l, supplier u, nation n WHERE l.s = u.s AND "
    text += "u.nation = n.nation AND n.name = 'x' AND u.name = 'y'"
    assert kept(lowered(text)) == []


# -- aggregates below left joins ---------------------------------------------------------------


def test_counts_of_the_right_side_are_computed_below_a_left_join() -> None:
    text = (
        "SELECT c.c, count(o.o) AS n FROM customer c LEFT JOIN orders o ON c.c = o.c "
        "AND o.total > 1 GROUP BY c.c"
    )
    (counts,) = reduces(lowered(text))
    assert tables_under(counts) == {"orders"}


@pytest.mark.parametrize(
    ("keys", "value", "condition"),
    [
        ("c.name", "count(o.o)", "c.c = o.c"),  # not unique: two customers of one name
        ("c.c", "sum(o.total)", "c.c = o.c"),  # may overflow for orders without a customer
        ("c.c", "count(DISTINCT o.total)", "c.c = o.c"),
        ("c.c", "count(c.nick)", "c.c = o.c"),
        ("c.c", "count(o.o)", "c.c = o.c AND c.name = 'x'"),
        ("c.c", "count(o.o)", "c.c = o.c AND o.o > c.c"),
    ],
)
def test_not_what_would_mean_something_else(keys: str, value: str, condition: str) -> None:
    text = f"SELECT {keys}, {value} AS n FROM customer c LEFT JOIN orders o ON {condition}"
    found = reduces(lowered(f"{text} GROUP BY {keys}"))
    assert any(tables_under(r) == {"customer", "orders"} for r in found)


# -- guesses -----------------------------------------------------------------------------------


def _like(pattern: str) -> Expr:
    return call("like", lit("x"), lit(pattern), lit("\\"))


@pytest.mark.parametrize(
    ("predicate", "part"),
    [
        (None, 1.0),
        (call("eq", big(1), big(2)), 0.1),
        (call("ne", big(1), big(2)), 0.9),
        (call("lt", big(1), big(2)), 0.4),
        (_like("%x%"), 0.2),
        (_like("x%"), 0.05),
        (Call("not", (_like("%x%"),), BOOLEAN, False), 0.8),
        (call("and", call("lt", big(1), big(2)), call("lt", big(1), big(2))), 0.16),
        (call("or", call("lt", big(1), big(2)), call("eq", big(1), big(2))), 0.5),
        (call("or", call("ne", big(1), big(2)), call("ne", big(1), big(2))), 0.9),
        (call("and", call("eq", big(1), big(2)), _like("x%")), 0.01),
    ],
)
def test_selectivity(predicate: Expr | None, part: float) -> None:
    assert selectivity(predicate) == pytest.approx(part)
