"""Recursive views where steps run on Spark: their loops stay in the driver, what reads them may go,
and the answers are those of a session without Spark."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

import sqlview
from tests.recursion.test_recursion import EVEN, REACH, STEPS, WAYS, WON

pytestmark = pytest.mark.spark

VIEWS = (
    REACH,
    WAYS,
    WON,
    STEPS,
    EVEN,
    """CREATE MATERIALIZED VIEW degrees AS
    SELECT e.a, count(*) AS n, max(d) AS d FROM steps JOIN e ON e.a = steps.n GROUP BY e.a""",
)
NAMES = ("reach", "ways", "won", "steps", "even", "degrees")


def _rows(db: Any) -> list[list[Any]]:
    return [sorted(db.view(name).rows(), key=str) for name in NAMES]


def test_loops_stay_in_the_driver(spark: Any) -> None:
    random = Random(7)
    with (
        sqlview.connect(placement="inline") as here,
        sqlview.connect(spark=spark, placement="spark") as there,
    ):
        for db in (here, there):
            db.sql("CREATE TABLE start (n INT)")
            db.sql("CREATE TABLE e (a INT, b INT)")
            db.sql("INSERT INTO start VALUES (1), (4)")
            db.sql("INSERT INTO e VALUES (1, 2), (2, 3), (4, 5), (3, 5)")
            for view in VIEWS:
                db.sql(view)
        live = [(1, 2), (2, 3), (4, 5), (3, 5)]
        for _ in range(4):
            gone = [live.pop(random.randrange(len(live)))]
            a = random.randint(1, 6)
            new = [(a, random.randint(a + 1, 8)) for _ in range(2)]  # no circles
            live += new
            for db in (here, there):
                with db.transaction() as tx:
                    tx.delete("e", gone)
                    tx.insert("e", new)
            assert _rows(there) == _rows(here)
        assert there.metrics().steps[-1].placement == "spark"
        assert there.metrics().steps[-1].rounds > 0
