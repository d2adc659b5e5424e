"""Views as of an epoch, in SELECT."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import sqlview
from sqlview import CatalogError, DataError, UnsupportedError

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def db() -> Iterator[sqlview.Session]:
    with sqlview.connect(retain=2, placement="inline") as db:
        db.sql("CREATE TABLE t (a INT)")
        db.sql("CREATE MATERIALIZED VIEW v AS SELECT a, count(*) AS n FROM t GROUP BY a")
        for a in (1, 2, 1):
            with db.transaction() as tx:
                tx.insert("t", [(a,)])
        yield db


def _rows(db: sqlview.Session, text: str) -> list[tuple[object, ...]]:
    return [tuple(row.values()) for row in db.sql(text).to_arrow().to_pylist()]


def test_views_as_of_epochs_beside_each_other(db: sqlview.Session) -> None:
    assert _rows(db, "SELECT * FROM v VERSION AS OF 1") == [(1, 1)]
    assert _rows(db, "SELECT * FROM v FOR SYSTEM_VERSION AS OF '2' ORDER BY a") == [(1, 1), (2, 1)]
    text = (
        "SELECT v.a, v.n - coalesce(old.n, 0) AS d FROM v "
        "LEFT JOIN v VERSION AS OF 1 AS old ON old.a = v.a ORDER BY a"
    )
    assert _rows(db, text) == [(1, 1), (2, 1)]
    assert _rows(db, "SELECT v.n FROM v VERSION AS OF 3 WHERE v.a = 1") == [(2,)]
    with pytest.raises(CatalogError) as raised:
        db.sql("SELECT * FROM v VERSION AS OF 1 JOIN nothing")
    assert raised.value.column == 38


def test_what_there_is_no_more_or_never(db: sqlview.Session) -> None:
    for epoch in (0, 4):
        with pytest.raises(DataError) as told:
            db.view("v").as_of(epoch)
        with pytest.raises(DataError) as raised:
            db.sql(f"SELECT * FROM v VERSION AS OF {epoch}")
        assert str(raised.value) == str(told.value)
    with pytest.raises(DataError, match='cannot read table "t" as of an epoch'):
        db.sql("SELECT * FROM t VERSION AS OF 1")
    with pytest.raises(UnsupportedError, match="as of a time"):
        db.sql("SELECT * FROM v TIMESTAMP AS OF '2026-01-01'")
