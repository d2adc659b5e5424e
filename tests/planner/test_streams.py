"""Plans over streams: valid after every rule, events without state, and no node shared by views."""

from __future__ import annotations

import pytest

from planner import dataflow
from planner.analysis.streams import gives_events, retain_events
from planner.bind import bind_query
from planner.calculus.algebra import Retain
from planner.calculus.visit import walk
from planner.context import RelationInfo
from planner.errors import UnsupportedError
from planner.lower.views import lower
from planner.parse import parse_query
from planner.rewrite.optimizer import optimize, prepare
from planner.validate import check_dataflow
from tests.planner.tpch_catalog import Tables, schema_of, table
from tests.properties.events import ABOVE, LINEAR

_COLUMNS = schema_of("k:i? v:i? d:m w:s?")
TABLES = Tables(
    (
        RelationInfo("s", _COLUMNS, None, dataflow.Stream("s", _COLUMNS), 0, is_view=False),
        table("a", "k:i x:i? g:s?", (0,)),
        table("b", "k:i? y:i", None),
    )
)


def lowered(text: str, reader: str = "v") -> dataflow.Node:
    plan = optimize(bind_query(parse_query(text), TABLES).plan, check=True)
    prepare(plan, lambda name: (0,) if name == "a" else None, check=True)
    root = lower(plan, TABLES, reader)
    check_dataflow(root)
    return root


@pytest.mark.parametrize("linear", LINEAR)
def test_events_are_not_stored(linear: str) -> None:
    """No node keeps what the query under a view makes of events."""
    for node in dataflow.topological(lowered(linear)):
        if isinstance(node, (dataflow.Store, dataflow.Reduce)):
            assert not any(dataflow.gives_events(n) for n in dataflow.topological(node))


@pytest.mark.parametrize("above", ABOVE)
@pytest.mark.parametrize("linear", LINEAR)
def test_every_plan_is_valid(linear: str, above: str) -> None:
    root = lowered(above.format(e=linear))
    for node in dataflow.topological(root):
        if isinstance(node, dataflow.DeltaJoin) and dataflow.gives_events(node):
            assert len(node.paths) == 1
            assert all(step.as_of for step in node.paths[0].steps)


@pytest.mark.parametrize("linear", LINEAR)
def test_the_extremes_of_events_need_no_rows(linear: str) -> None:
    """Unless events are taken back at once: a row without a match is one minus its matches."""
    root = lowered(ABOVE[2].format(e=linear))
    negated = any(
        isinstance(n, dataflow.Union) and any(n.negated) for n in dataflow.topological(root)
    )
    reduce = [n for n in dataflow.topological(root) if isinstance(n, dataflow.Reduce)][-1]
    kinds = {a.kind for a in reduce.accumulators} & {"first", "least", "greatest"}
    assert kinds == ({"first"} if negated else {"least", "greatest"})
    assert isinstance(reduce.input, dataflow.Store) == negated


def test_views_share_nothing_that_depends_on_events() -> None:
    text = ABOVE[1].format(e=LINEAR[2])
    first, second = (set(dataflow.topological(lowered(text, reader))) for reader in ("v", "w"))
    assert {type(n) for n in first & second} == {dataflow.Source}


def test_a_query_without_streams_is_left_alone() -> None:
    plan = bind_query(parse_query("SELECT a.k, count(*) AS c FROM a, b GROUP BY a.k"), TABLES).plan
    assert retain_events(plan) is plan
    assert not any(isinstance(n, Retain) for n in walk(plan))


def test_retain_stands_where_events_become_rows_that_stay() -> None:
    plan = bind_query(parse_query("SELECT k FROM s UNION ALL SELECT k FROM a"), TABLES).plan
    retained = [n for n in walk(plan) if isinstance(n, Retain)]
    assert len(retained) == 1 and gives_events(retained[0].input)
    assert not gives_events(plan)


def test_what_rewriting_would_store_of_events_is_refused() -> None:
    """The distinct bindings of this subquery are those of past events."""
    with pytest.raises(UnsupportedError, match='subquery of a query over the stream "s"') as caught:
        lowered("SELECT k FROM s WHERE EXISTS (SELECT 1 FROM b WHERE b.k = s.k AND b.y <> s.v)")
    assert "CREATE MATERIALIZED VIEW kept" in (caught.value.hint or "")
