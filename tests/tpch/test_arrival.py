"""Tables that arrive one after the other, in any order: views are right before, between and after."""

from __future__ import annotations

import pyarrow as pa
import pytest

import sqlview
from tpch.generate import generate, load
from tpch.queries import all_queries
from tpch.schema import TABLES

NAMES = tuple(table.name for table in TABLES)


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, pa.Table]:
    whole = load(generate(0.01, tmp_path_factory.mktemp("tpch")))
    # The line items of the first orders, so that all tables still join.
    return whole | {
        "orders": whole["orders"].slice(0, 1000),
        "lineitem": whole["lineitem"].slice(0, 4000),
    }


def check(db: sqlview.Session) -> None:
    for query in all_queries("lively"):
        found = db.verify(query.name)
        assert found.equal, f"{query.name}: {found}"


@pytest.mark.parametrize("first", range(len(NAMES)))
def test_any_table_may_arrive_first_or_last(tables: dict[str, pa.Table], first: int) -> None:
    """Over all values of `first`, each table comes once in each place."""
    with sqlview.connect(placement="inline") as db:
        for table in TABLES:
            db.sql(table.sql)
        for query in all_queries("lively"):
            db.sql(query.create_sql)
        check(db)
        order = [NAMES[(first + 3 * place) % len(NAMES)] for place in range(len(NAMES))]
        assert len(set(order)) == len(NAMES)
        for place, name in enumerate(order, 1):
            with db.transaction() as tx:
                tx.insert(name, tables[name])
            if place in (1, 4, len(NAMES)):
                check(db)
        assert all(len(db.view(query.name)) for query in all_queries("lively"))
        # And the first one leaves again.
        with db.transaction() as tx:
            tx.delete(order[0], tables[order[0]])
        check(db)
