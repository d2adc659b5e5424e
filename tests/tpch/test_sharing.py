"""What runs once, whoever asks: operators of equal subplans, indexes, the groups of a reduce."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pyarrow as pa
import pytest

import sqlview
from tpch import stream
from tpch.queries import Query, all_queries
from tpch.schema import TABLES

BY_NAME = {query.name: query for query in all_queries("lively")}
BASE = {table.name for table in TABLES}

#: Two views whose text has the same CTE, under other names and with other columns read.
LARGE_ORDERS = """
WITH large AS (
    SELECT l_orderkey, SUM(l_quantity) AS quantity, COUNT(*) AS items
    FROM lineitem WHERE l_discount < 0.05 GROUP BY l_orderkey
)
SELECT o_custkey, COUNT(*) AS orders FROM orders, large
WHERE o_orderkey = l_orderkey AND quantity > 100 GROUP BY o_custkey
"""
LARGE_CUSTOMERS = """
WITH heavy AS (
    SELECT l_orderkey, SUM(l_quantity) AS quantity, COUNT(*) AS items
    FROM lineitem WHERE l_discount < 0.05 GROUP BY l_orderkey
)
SELECT c_name, o_orderkey, quantity FROM customer, orders, heavy
WHERE c_custkey = o_custkey AND o_orderkey = l_orderkey AND items >= 3
"""


@pytest.fixture
def shared() -> Iterator[sqlview.Session]:
    with connect() as db:
        yield db


def connect(share: bool = True) -> sqlview.Session:
    db = sqlview.connect(placement="inline", share=share)
    for table in TABLES:
        db.sql(table.sql)
    return db


def create(db: sqlview.Session, name: str, text: str) -> int:
    """Make a view; returns how many operators that added."""
    before = db.metrics().operators
    db.sql(f"CREATE MATERIALIZED VIEW {name} AS {text}")
    return db.metrics().operators - before


def arrangements(db: sqlview.Session, base: bool) -> dict[tuple[str, str], list[str]]:
    """(relation, key) and readers of the indexes over base tables, or of those over others."""
    return {
        (row["relation"], row["key"]): row["readers"]
        for row in db.arrangements().to_pylist()
        if (row["relation"] in BASE) == base
    }


def dataflow_lines(db: sqlview.Session, name: str) -> list[str]:
    return [str(row[0]) for row in db.sql(f"EXPLAIN MATERIALIZED VIEW {name}").rows()]


def test_the_same_view_twice_adds_no_operator(shared: sqlview.Session) -> None:
    alone = create(shared, "first", BY_NAME["q03"].sql)
    builds = shared.metrics().index_builds
    assert alone > 3
    # Both names read one stored result.
    assert create(shared, "second", BY_NAME["q03"].sql) == 0
    assert shared.metrics().index_builds == builds
    assert shared.metrics().views["second"].arrangements > 0
    # The first to go leaves the other's state alone, the last takes it along.
    shared.sql("DROP MATERIALIZED VIEW first")
    assert shared.metrics().operators == alone
    shared.sql("DROP MATERIALIZED VIEW second")
    assert shared.metrics().operators == 0


def test_two_views_share_a_common_table_expression(shared: sqlview.Session) -> None:
    with connect() as other:
        alone = create(other, "customers", LARGE_CUSTOMERS)
        indexes = len(arrangements(other, base=False))
    create(shared, "orders_of", LARGE_ORDERS)
    before = len(arrangements(shared, base=False))
    added = create(shared, "customers", LARGE_CUSTOMERS)
    # Not built again: the map of lineitem (its filter), and the reduce by order with its index.
    assert added == alone - 2
    assert len(arrangements(shared, base=False)) - before == indexes - 1
    (groups,) = (
        readers
        for (_, key), readers in arrangements(shared, base=False).items()
        if key == "l_orderkey"
    )
    assert groups == ["customers", "orders_of"]


def test_revenue_is_computed_once_in_q15(shared: sqlview.Session) -> None:
    """Its text uses `revenue` twice: joined with supplier, and under MAX."""
    create(shared, "q15", BY_NAME["q15"].sql)
    lines = dataflow_lines(shared, "q15")
    plan = lines[lines.index("== Dataflow ==") :]
    (reduce,) = (line for line in plan if "Reduce" in line and line.endswith(" by l_suppkey"))
    number = reduce.split(":")[0].strip()
    assert sum(line.strip() == f"{number} (shown above)" for line in plan) == 1
    # On its own it is the map, the reduce, and the store of the view, which casts.
    text = BY_NAME["q15"].sql
    revenue = text[text.index("select", text.index("(")) : text.index(")\nselect")]
    assert create(shared, "revenue", revenue) <= 2
    assert [r for (_, key), r in arrangements(shared, base=False).items() if key == "l_suppkey"]


def test_q18_joins_the_groups_of_its_reduce_as_they_are(shared: sqlview.Session) -> None:
    create(shared, "q18", BY_NAME["q18"].sql)
    lines = dataflow_lines(shared, "q18")
    (number,) = (
        line.split(":")[0].split("%")[1] for line in lines if line.endswith(" by l_orderkey")
        and "Reduce %" in line
    )  # fmt: skip
    # All three other paths look the groups up by the order's key, through one index: their own.
    lookups = [line for line in lines if f"-> Reduce %{number} " in line]
    assert len(lookups) == 3
    assert all(f"via Reduce %{number}(l_orderkey)" in line for line in lookups)
    over_reduce = [key for _, key in arrangements(shared, base=False) if "l_orderkey" in key]
    assert over_reduce == ["l_orderkey"]


def test_a_second_view_on_the_same_tables_builds_no_index_over_them(
    shared: sqlview.Session,
) -> None:
    create(
        shared,
        "by_priority",
        """SELECT o_orderpriority, SUM(l_quantity) AS quantity, COUNT(DISTINCT c_custkey) AS buyers
           FROM customer, orders, lineitem WHERE c_custkey = o_custkey AND l_orderkey = o_orderkey
           GROUP BY o_orderpriority""",
    )
    before, builds = arrangements(shared, base=True), shared.metrics().index_builds
    derived = len(arrangements(shared, base=False))
    # The same three tables by the same keys; other filters, groups and aggregates.
    create(
        shared,
        "by_segment",
        """SELECT c_mktsegment, COUNT(*) AS items, MAX(l_shipdate) AS last
           FROM customer, orders, lineitem
           WHERE c_custkey = o_custkey AND l_orderkey = o_orderkey AND o_totalprice > 1000
           GROUP BY c_mktsegment""",
    )
    after = arrangements(shared, base=True)
    assert after.keys() == before.keys()
    # Only what holds its own groups and rows.
    own = len(arrangements(shared, base=False)) - derived
    assert shared.metrics().index_builds - builds == own
    read = [key for key, readers in after.items() if "by_priority" in readers]
    assert len(read) >= 4
    assert all("by_segment" in after[key] for key in read)


def test_views_with_the_same_filters_share_partial_indexes(shared: sqlview.Session) -> None:
    create(shared, "q03", BY_NAME["q03"].sql)
    before = arrangements(shared, base=True)
    assert any(" where " in key for _, key in before)
    counted = BY_NAME["q03"].sql
    counted = f"SELECT COUNT(*) AS items {counted[counted.index('from') : counted.index('group')]}"
    create(shared, "items", counted)
    after = arrangements(shared, base=True)
    assert after.keys() == before.keys()
    assert all("items" in readers for readers in after.values() if "q03" in readers)


def test_all_22_share_the_indexes_of_the_tables(shared: sqlview.Session) -> None:
    separately: set[tuple[str, str]] = set()
    builds = 0
    for query in BY_NAME.values():
        with connect() as alone:
            create(alone, query.name, query.sql)
            separately |= arrangements(alone, base=True).keys()
            builds += alone.metrics().index_builds
        create(shared, query.name, query.sql)
    together = arrangements(shared, base=True)
    # In company a query may do with an index that starts with its columns, so there are no more.
    assert len(together) <= len(separately)
    # Partial ones went where a whole one came.
    parts = [(of, key.split(" where ")[0]) for of, key in together if " where " in key]
    assert parts and not any(
        of == relation and f"{whole}, ".startswith(f"{key}, ")
        for of, key in parts
        for (relation, whole), readers in together.items()
        if " where " not in whole and readers != ["(table)"]
    )
    assert len(shared.arrangements()) <= shared.metrics().index_builds
    assert shared.metrics().index_builds < builds / 2
    readers = [len(names) for names in together.values()]
    assert max(readers) > len(BY_NAME) / 3


def _views() -> list[Query]:
    return [BY_NAME[name] for name in ("q03", "q11", "q15", "q18", "q22")]


def test_private_views_have_their_own_state_and_the_same_rows(
    generated_tables: dict[str, pa.Table],
) -> None:
    sizes = {name: rows.num_rows for name, rows in generated_tables.items()}
    loaded = stream.loaded_rows(sizes, 0.9)
    options = stream.StreamOptions(batch_rows=300, deletes=0.4, seed=5, even=0.3)
    plans = itertools.islice(stream.plan_stream(sizes, loaded, options), 6)
    batches = [stream.initial_batch(generated_tables, loaded)]
    batches += stream.prebatch(plans, generated_tables)
    results = []
    costs = []
    for share in (True, False):
        with connect(share) as db:
            alone = {}
            for query in _views():
                alone[query.name] = create(db, query.name, query.sql)
            # A twin of every view: in private it has every operator and index anew.
            for query in _views():
                again = create(db, f"{query.name}_twin", query.sql)
                assert again == (0 if share else alone[query.name])
            seen = []
            for batch in batches:
                with db.transaction() as tx:
                    stream.apply(batch, tx)
                rows = {q.name: sorted(db.view(q.name).rows(), key=repr) for q in _views()}
                for query in _views():
                    twin = sorted(db.view(f"{query.name}_twin").rows(), key=repr)
                    assert twin == rows[query.name]
                seen.append(rows)
            if not share:
                metrics = db.metrics().views
                assert all(metrics[q.name].shared_arrangements == 0 for q in _views())
            results.append(seen)
            costs.append((db.metrics().operators, len(db.arrangements()), db.metrics().state_bytes))
    assert results[0] == results[1]
    assert all(any(rows[q.name] for rows in results[0]) for q in _views())
    assert all(together < private / 1.5 for together, private in zip(*costs, strict=True))
