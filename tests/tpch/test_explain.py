"""EXPLAIN MATERIALIZED VIEW of the 22: what each node keeps and costs, and that none recomputes."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

import sqlview
from tpch.queries import all_queries
from tpch.schema import TABLES

NAMES = [query.name for query in all_queries()]
#: Every node with work to do, as EXPLAIN shows it for the first time.
_NODE = re.compile(
    r"^ *(?P<kind>Store|Map|Union|Repeat|Reduce|DeltaJoin|TopK|Threshold|Constant|Values) %\d+\b"
    r"(?! \(shown above\))"
)


@pytest.fixture(scope="module")
def db() -> Iterator[sqlview.Session]:
    with sqlview.connect(placement="inline") as db:
        for table in TABLES:
            db.sql(table.sql)
        for query in all_queries():
            db.sql(query.create_sql)
        yield db


def dataflow(db: sqlview.Session, name: str) -> list[str]:
    lines = [str(row[0]) for row in db.sql(f"EXPLAIN MATERIALIZED VIEW {name}").rows()]
    return lines[lines.index("== Dataflow ==") + 1 :]


@pytest.mark.parametrize("name", NAMES)
def test_no_node_recomputes_a_relation(db: sqlview.Session, name: str) -> None:
    lines = dataflow(db, name)
    assert "recompute" not in "\n".join(lines).lower()
    nodes = [i for i, line in enumerate(lines) if _NODE.match(line)]
    assert nodes
    for start, end in zip(nodes, [*nodes[1:], len(lines)], strict=True):
        # A join tells its cost path by path.
        said = "\n".join(lines[start:end])
        assert "state:" in said, said
        assert "cost" in said or "per changed row" in said, said


def test_thresholds_say_what_a_move_costs(db: sqlview.Session) -> None:
    found = {
        name for name in NAMES if any(" Threshold %" in f" {line}" for line in dataflow(db, name))
    }
    assert {"q11", "q17", "q22"} <= found
    for name in found:
        text = "\n".join(dataflow(db, name))
        assert (
            "1 lookup per changed row; when the bound moves, the rows between old and new" in text
        )


def test_min_and_max_read_the_front_of_an_ordered_index(db: sqlview.Session) -> None:
    for name, order in (("q02", "by ps_supplycost"), ("q15", "sum(")):
        (front,) = (line for line in dataflow(db, name) if "reads the front of Store" in line)
        assert order in front


def test_all_22_are_here() -> None:
    assert [f"q{number:02d}" for number in range(1, 23)] == NAMES
