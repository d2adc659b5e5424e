"""Which joins run in circles, and how their paths count."""

from __future__ import annotations

from dataclasses import replace

import pytest

from planner.analysis.cycles import cyclic_classes
from planner.bind import bind_query
from planner.calculus.types import BIGINT, Field
from planner.dataflow import Arrangement, CountedJoin, DeltaJoin, HalfJoin, Source, topological
from planner.lower.views import lower
from planner.parse import parse_query
from planner.rewrite.optimizer import optimize
from planner.validate import PlanError, check_dataflow
from tests.planner.tpch_catalog import Tables, table

TABLES = Tables(
    (
        table("e", "a:b? b:b? w:b", None),
        table("by_place", "a:b n:b b:b", (0, 1)),
        table("node", "id:b up:b", (0,)),
    )
)
_BAG = Source("bag", (Field("x", BIGINT, False),))


def _cyclic(*edges: str, keys: dict[int, str] | None = None) -> str:
    """Classes as letters."""
    given = keys or {}
    found = cyclic_classes(
        [frozenset(map(ord, e)) for e in edges],
        [[frozenset(map(ord, given[i]))] if i in given else [] for i in range(len(edges))],
    )
    return "".join(sorted(map(chr, found)))


@pytest.mark.parametrize(
    ("edges", "cyclic"),
    [
        (("ab", "bc"), ""),
        (("ab", "ac", "ad", "ae"), ""),  # a star
        (("ab", "bc", "cd", "de"), ""),
        (("ab", "bc", "ac"), "abc"),
        (("ab", "bc", "cd", "da"), "abcd"),
        (("ab", "bc", "ac", "abc"), ""),  # one occurrence has all three
        (("ab", "bc", "ac", "cd", "de"), "abc"),  # a tail is no part of it
        (("abx", "bcy", "acz", "x", "yz"), "abcyz"),
        (("abc", "bcd", "cda", "dab"), "abcd"),
        (("ab", "ab", "bc"), ""),  # two equalities of two tables
        (("ab", "bc", "ac", "de", "ef", "df"), "abcdef"),
        (("a", "b"), ""),
    ],
)
def test_cycles_are_found(edges: tuple[str, ...], cyclic: str) -> None:
    assert _cyclic(*edges) == cyclic


def test_unique_keys_open_cycles() -> None:
    """Customers and suppliers of one nation: an order line determines all others."""
    edges = ("lo", "oc", "cn", "sn", "ls", "n")
    lines = ("os", "oc", "cn", "sn", "n")
    assert _cyclic(*lines) == "cnos"
    assert _cyclic(*lines, keys={1: "o", 2: "c", 3: "s", 4: "n"}) == ""
    assert _cyclic(*edges[:5]) == "clnos"
    assert _cyclic("ab", "bc", "ac", keys={0: ""}) == ""  # one row: a and b are constants


def _joined(sql: str) -> DeltaJoin:
    lowered = lower(optimize(bind_query(parse_query(sql), TABLES).plan, check=True), TABLES)
    check_dataflow(lowered)
    (found,) = (n for n in topological(lowered) if isinstance(n, DeltaJoin))
    return found


def _counted(join: DeltaJoin) -> list[list[tuple[int, ...]]]:
    """By path: the occurrences of each counted step."""
    return [[s.inputs for s in p.steps if isinstance(s, CountedJoin)] for p in join.paths]


def test_each_path_of_a_triangle_counts() -> None:
    join = _joined("SELECT x.w FROM e x, e y, e z WHERE x.b = y.a AND y.b = z.b AND x.a = z.a")
    for path in join.paths:
        (step,) = path.steps
        assert isinstance(step, CountedJoin)
        others = [i for i in range(3) if i != path.source]
        assert [[h.input for h in way] for way in step.ways] == [others, others[::-1]]
        assert [[len(h.probe) for h in way] for way in step.ways] == [[1, 2], [1, 2]]
        assert all(h.as_of == (h.input < path.source) for h in step.lookups)
    assert len({s.index for p in join.paths for s in p.lookups}) == 2  # (a, b) serves for a


def test_a_clique_counts_for_each_node() -> None:
    join = _joined(
        """SELECT p.w FROM e p, e q, e r, e s, e t, e u WHERE p.a = q.a AND q.a = r.a
        AND p.b = s.a AND s.a = t.a AND q.b = s.b AND s.b = u.a AND r.b = t.b AND t.b = u.b"""
    )
    for steps in _counted(join):
        assert sorted(map(len, steps)) == [2, 3]


def test_what_no_cycle_is_does_not_count() -> None:
    star = "SELECT x.w FROM e x, e y, e z WHERE x.a = y.a AND x.a = z.a"
    chain = "SELECT x.w FROM e x, e y, e z WHERE x.b = y.a AND y.b = z.a"
    keyed = "SELECT e.w FROM e, node m, node n WHERE e.a = m.id AND e.b = n.id AND m.up = n.up"
    for sql in (star, chain, keyed):
        assert _counted(_joined(sql)) == [[], [], []], sql


def test_a_key_that_is_bound_comes_first() -> None:
    """Where one of those that lack a value has one row at most, nobody counts."""
    join = _joined("SELECT x.w FROM e x, node n, e z WHERE x.a = n.id AND n.up = z.b AND x.b = z.a")
    assert _counted(join)[0] == []
    assert [s.inputs for s in join.paths[0].steps] == [(1,), (2,)]


def test_what_validates_compares_all_that_is_bound() -> None:
    """Though a part of the primary key finds few rows by estimate: a hub's are not few."""
    join = _joined(
        """SELECT x.w FROM e x, by_place y, by_place z
        WHERE x.b = y.a AND y.b = z.b AND x.a = z.a"""
    )
    (step,) = join.paths[0].steps
    assert isinstance(step, CountedJoin)
    assert all(set(way[1].compared) == {0, 2} for way in step.ways)


def test_loops_keep_paths_one_by_one() -> None:
    sql = """WITH RECURSIVE r(a, b) AS (SELECT a, b FROM e UNION
        SELECT r.a, y.b FROM r, e y, e z WHERE r.b = y.a AND y.b = z.b AND r.a = z.a)
        SELECT a, b FROM r"""
    lowered = lower(optimize(bind_query(parse_query(sql), TABLES).plan), TABLES)
    joins = [n for n in topological(lowered) if isinstance(n, DeltaJoin)]
    assert joins
    assert not any(_counted(j)[0] for j in joins)


def test_ways_that_do_not_fit_each_other() -> None:
    first, second = (HalfJoin(i, Arrangement(_BAG, (0,)), (0,), True, ()) for i in (1, 2))
    CountedJoin(((first, second), (second, first)))
    for ways in (
        ((first, second),),
        ((first, second), (second,)),
        ((first, second), (first, second)),
    ):
        with pytest.raises(ValueError, match="counted join"):
            CountedJoin(ways)


def test_a_way_that_reads_what_is_not_bound() -> None:
    join = _joined("SELECT x.w FROM e x, e y, e z WHERE x.b = y.a AND y.b = z.b AND x.a = z.a")
    path = join.paths[0]
    (step,) = path.steps
    assert isinstance(step, CountedJoin)
    propose, validate = step.ways[0]
    wrong = replace(path, steps=(CountedJoin(((validate, propose), (propose, validate))),))
    with pytest.raises(PlanError, match="not bound yet"):
        check_dataflow(replace(join, paths=(wrong, *join.paths[1:])))
