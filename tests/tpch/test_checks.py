"""The oracle that follows the stream agrees with a replay of it in dicts, and it objects."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from planner.calculus.types import DOUBLE, Field, Schema
from sqlview.oracle import DuckDBOracle
from tpch.checks import Checks, StreamOracle
from tpch.generate import generate, load
from tpch.queries import select_queries, tables_of
from tpch.schema import TABLES_BY_NAME
from tpch.stream import Batch, StreamOptions, loaded_rows, plan_stream, prebatch

QUERIES = select_queries("q01,q10,q12")


@dataclass
class FakeView:
    rows: pa.Table
    schema: Schema

    def to_arrow(self) -> pa.Table:
        return self.rows


@dataclass
class FakeSession:
    views: dict[str, FakeView]
    epoch: int = 1

    def view(self, name: str) -> FakeView:
        return self.views[name]


def replay(batches: list[Batch]) -> dict[str, pa.Table]:
    """The tables after `batches`, by dicts of rows."""
    tables: dict[str, dict[tuple[object, ...], dict[str, object]]] = {}
    for batch in batches:
        for change in batch.changes:
            rows = tables.setdefault(change.table, {})
            key = TABLES_BY_NAME[change.table].primary_key
            for row in change.rows.to_pylist():
                name = tuple(row[k] for k in key)
                if change.verb == "delete":
                    del rows[name]
                else:
                    rows[name] = row
    return {
        name: pa.Table.from_pylist(list(rows.values()), TABLES_BY_NAME[name].arrow_schema)
        for name, rows in tables.items()
    }


@pytest.fixture(scope="module")
def followed(tmp_path_factory: pytest.TempPathFactory) -> tuple[StreamOracle, FakeSession]:
    """The oracle after a stream, and a session whose views are right."""
    directory: Path = generate(0.01, tmp_path_factory.mktemp("tpch"))
    tables = load(directory, tables_of(QUERIES))
    table_rows = {name: rows.num_rows for name, rows in tables.items()}
    plans = plan_stream(
        table_rows, loaded_rows(table_rows, 0), StreamOptions(3000, 0.3, changes=30_000)
    )
    batches = prebatch(plans, tables)
    oracle = StreamOracle(QUERIES)
    for batch in batches:
        oracle.apply(batch)
    recompute = DuckDBOracle()
    for name, rows in replay(batches).items():
        recompute.load(name, rows)
    views: dict[str, FakeView] = {}
    for query in QUERIES:
        described = recompute.describe(query.sql)
        columns = zip(described.names, described.types, strict=True)
        schema = tuple(Field(name, kind or DOUBLE) for name, kind in columns)
        views[query.name] = FakeView(recompute.query(query.sql, schema), schema)
    return oracle, FakeSession(views)


def test_right_views_pass(followed: tuple[StreamOracle, Any]) -> None:
    oracle, db = followed
    checks = Checks()
    assert checks.verdict("q10") is None
    assert checks.run(oracle, db, QUERIES)
    assert checks.verdict("q10") is True
    assert all(view.rows.num_rows > 1 for view in db.views.values())


def test_wrong_views_do_not(followed: tuple[StreamOracle, Any]) -> None:
    oracle, right = followed
    views = dict(right.views)
    for name in ("q01", "q10"):
        view = views[name]
        rows = (
            view.rows.slice(1)
            if name == "q01"
            else view.rows.take(pa.array(range(view.rows.num_rows)[::-1]))
        )
        views[name] = FakeView(rows, view.schema)
    db: Any = FakeSession(views)
    checks = Checks()
    assert not checks.run(oracle, db, QUERIES)
    assert [checks.verdict(query.name) for query in QUERIES] == [False, False, True]
    lost, reordered = checks.differences
    assert (lost.missing.num_rows, lost.extra.num_rows) == (1, 0)
    assert reordered.position == 0
