"""Tables arrive one after the other, in any order: views are right before, between and after."""

from __future__ import annotations

import pyarrow as pa
import pytest

import sqlview
from tpch.queries import all_queries
from tpch.schema import TABLES

NAMES = tuple(table.name for table in TABLES)


@pytest.fixture(scope="module")
def tables(generated_tables: dict[str, pa.Table]) -> dict[str, pa.Table]:
    # The line items of the first orders, so that all tables still join.
    few = {"orders": 500, "lineitem": 2000}
    return {
        name: rows.slice(0, few.get(name, rows.num_rows)) for name, rows in generated_tables.items()
    }


def check(db: sqlview.Session) -> None:
    for query in all_queries("lively"):
        found = db.verify(query.name)
        assert found.equal, f"{query.name}: {found}"


@pytest.mark.parametrize("first", range(0, len(NAMES), 2))
def test_any_table_may_arrive_first_or_last(tables: dict[str, pa.Table], first: int) -> None:
    """Over all values of `first`, each table comes once in the first place or the last."""
    order = [NAMES[(first + 3 * place) % len(NAMES)] for place in range(len(NAMES))]
    assert set(order) == set(NAMES)
    with sqlview.connect(placement="inline") as db:
        for table in TABLES:
            db.sql(table.sql)
        for query in all_queries("lively"):
            db.sql(query.create_sql)
        check(db)
        for name in order:
            with db.transaction() as tx:
                tx.insert(name, tables[name])
            if name == order[0]:
                check(db)
        check(db)
        assert all(len(db.view(query.name)) for query in all_queries("lively"))
        # The first one leaves, and comes last.
        with db.transaction() as tx:
            tx.delete(order[0], tables[order[0]])
        check(db)
        with db.transaction() as tx:
            tx.insert(order[0], tables[order[0]])
        check(db)
