"""PIVOT and UNPIVOT as Spark has them, recorded by pivot_cases, over a table that changes."""

from __future__ import annotations

import json
from typing import Any

import pytest

import sqlview
from tests.sql.pivot_cases import ANSWERS, COLUMNS, QUERIES, ROWS

RECORDED: dict[str, Any] = json.loads(ANSWERS.read_text())["answers"]


@pytest.mark.parametrize("query", QUERIES)
def test_as_spark(query: str) -> None:
    answer = RECORDED[query]
    with sqlview.connect(placement="inline") as db:
        db.sql(f"CREATE TABLE t ({COLUMNS}, PRIMARY KEY (id))")
        create = f"CREATE MATERIALIZED VIEW v AS {query}"
        named = "concat" in query  # Spark folds it, and prints how it is written
        if "error" in answer or named:
            with pytest.raises(sqlview.SqlViewError, match=r"PIVOT|Expecting FOR"):
                db.sql(create)
            return
        db.sql(create)
        found = [[f.name, str(f.type).upper()] for f in db.view("v").schema]
        assert found == answer["columns"]
        with db.transaction() as tx:
            tx.insert("t", [(9, "y", "b", 3, 4, 4, "s"), *ROWS[2:], (2, "y", "a", 1, 1, 1, "")])
        with db.transaction() as tx:
            tx.delete("t", [(9,)])
            tx.upsert("t", list(ROWS[:2]))
        rows = sorted(([*row] for row in db.view("v").rows()), key=repr)
        assert [_plain(row) for row in rows] == answer["rows"]


def _plain(row: list[Any]) -> list[Any]:
    return [float(v) if isinstance(v, float) else v for v in row]
