"""The account of what is kept: complete, and each piece with its readers."""

from __future__ import annotations

import pytest

from sqlview.introspect import STATE_SCHEMA
from tests.conftest import Connect
from tests.reference.tables import insert


@pytest.mark.parametrize("share", [True, False])
def test_every_piece_is_in_it(connect: Connect, share: bool) -> None:
    checked = connect(share=share, form="arrow")
    checked.create_table("d", "k INT, name STRING", ("k",))
    checked.create_table("f", "id INT, k INT, x INT", ("id",))
    checked.step(insert("d", (1, "a"), (2, "b")), insert("f", (1, 1, 1), (2, 1, 2), (3, 2, 1)))
    join = "FROM d JOIN f ON d.k = f.k WHERE f.x = 1"
    checked.create_view("listed", f"SELECT d.name, f.id {join}")
    checked.create_view("counted", f"SELECT d.name, count(*) AS n {join} GROUP BY d.name")
    table = checked.db.state()
    assert table.schema == STATE_SCHEMA
    rows = table.to_pylist()
    assert [r["bytes"] for r in rows] == sorted((r["bytes"] for r in rows), reverse=True)
    metrics = checked.db.metrics()
    assert sum(r["bytes"] for r in rows if r["kind"] != "table") == metrics.state_bytes
    assert sum(r["bytes"] for r in rows if r["kind"] == "table") == metrics.table_bytes
    found = {(r["kind"], r["relation"], r["detail"]): (r["rows"], r["readers"]) for r in rows}
    assert found["table", "f", None] == (3, ["counted", "listed"])
    if share:
        assert found["filter", "f", "x = 1"] == (3, ["counted", "listed"])
        assert found["index", "f", "k where x = 1"] == (2, ["counted", "listed"])
        assert found["groups", "counted/groups 1", None] == (2, ["counted"])
        assert found["rows", "listed", None] == (2, ["listed"])
    else:
        assert found["index", "f (listed)", "k where x = 1"] == (2, ["listed"])
        assert found["groups", "counted/groups 1 (counted)", None] == (2, ["counted"])
    indexes = {(r["relation"], r["detail"]) for r in rows if r["kind"] == "index"}
    assert indexes == {(r["relation"], r["key"]) for r in checked.db.arrangements().to_pylist()}
