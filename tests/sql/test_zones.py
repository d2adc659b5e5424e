"""Views in a time zone give what Spark gave in it: see zone_cases."""

from __future__ import annotations

import json

import pytest

import sqlview
from tests.sql.zone_cases import ANSWERS, EXPRESSIONS, QUERIES, TABLE, ZONES, plain, rows

RECORDED = json.loads(ANSWERS.read_text())["answers"]


@pytest.mark.parametrize("zone", ZONES)
def test_views_give_what_spark_gave(zone: str) -> None:
    data = rows()
    with sqlview.connect(timezone=zone) as db:
        db.sql(TABLE)
        for i, query in enumerate(QUERIES):
            db.sql(f"CREATE MATERIALIZED VIEW v{i} AS {query}")
        # By steps, and with rows that come and go.
        for part in (data.slice(0, 20), data.slice(20), data.slice(10, 5)):
            with db.transaction() as tx:
                tx.insert("t", part)
        with db.transaction() as tx:
            tx.delete("t", data.slice(10, 5))
        for i, query in enumerate(QUERIES):
            found = plain(db.view(f"v{i}").to_arrow())
            if i == 0:
                assert_same_columns(found, RECORDED[zone][i])
            assert found == RECORDED[zone][i], query


def assert_same_columns(found: list[list[object]], expected: list[list[object]]) -> None:
    for row, other in zip(found, expected, strict=True):
        for name, value, answer in zip(("id", *EXPRESSIONS), row, other, strict=True):
            assert value == answer, (name, row[:3])


def test_every_zone_differs() -> None:
    assert len({json.dumps(found[0]) for found in RECORDED.values()}) == len(ZONES)
