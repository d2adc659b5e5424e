"""Views whose first rows tasks compute and write into a store, against the driver's."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import pytest

import sqlview
from operators.dataflow import Installed
from operators.nodes.delta_join import DeltaJoinOperator
from sqlview import Session
from tests.spark.in_process import opened
from tests.spark.twins import TABLES, VIEWS

ROWS = 400
MORE = {
    "texts": "SELECT s, x FROM a UNION SELECT s, z FROM (SELECT s, a AS z FROM a JOIN b ON a = x)",
    "spread": "SELECT a, avg(y) AS y, stddev(y) AS d, count(DISTINCT k) AS n FROM b GROUP BY a",
    "none": "SELECT a, count(*) AS n FROM b WHERE y > 1000000 GROUP BY a",
    "all": "SELECT count(*) AS n FROM b WHERE y > 1000000",
    "extremes": "SELECT a, min(y) AS l, max(k) AS h FROM b GROUP BY a",
    "over": "SELECT t.s, t.n, a.k FROM three t LEFT JOIN a ON a.s = t.s AND a.x = t.n",
    "ranges": "SELECT b.k, c.z FROM b JOIN c ON c.k BETWEEN b.k AND b.k + 2",
    "outside": "SELECT k FROM a EXCEPT SELECT a FROM b",
    "shared": (
        "WITH j AS (SELECT b.k, b.a, b.y, c.z FROM b JOIN c ON c.b = b.k) "
        "SELECT j.k, j.z FROM j WHERE y = (SELECT max(y) FROM j i WHERE i.a = j.a) "
        "OR j.k > (SELECT avg(k) FROM j)"
    ),
    "least": (
        "SELECT s, min(s) AS a, max(s) AS b, min(x) AS c, max(x) AS d, min(x + k) AS e "
        "FROM a GROUP BY s"
    ),
    "outermost": "SELECT min(z) AS l, max(z) AS h, min(k) AS k, count(b) AS n FROM c",
    "extreme_joined": (
        "SELECT s, max(y) AS h, min(b.k) AS l, sum(y) AS t FROM a JOIN b ON b.a = a.k GROUP BY s"
    ),
    "medians": "SELECT a, median(k) AS m, collect_list(y) AS ys FROM b GROUP BY a",
    "median": "SELECT median(y) AS m FROM b",
    "medians_joined": (
        "SELECT n, count(*) AS c FROM "
        "(SELECT s, median(b.k) AS n FROM a JOIN b ON b.a = a.k GROUP BY s) GROUP BY n"
    ),
    "ranked": "SELECT k, a, row_number() OVER (PARTITION BY a ORDER BY y, k) AS r FROM b",
    "running": (
        "SELECT a, sum(t) AS t FROM (SELECT a % 3 AS a, "
        "sum(k) OVER (PARTITION BY a ORDER BY k) AS t FROM b) GROUP BY a"
    ),
    "in_line": "SELECT k, lag(y) OVER (ORDER BY k) AS before FROM b",
    "first_of_each": (
        "SELECT a.s, t.k, t.y FROM a JOIN (SELECT a, k, y FROM "
        "(SELECT a, k, y, row_number() OVER (PARTITION BY a ORDER BY y DESC, k) AS r FROM b) "
        "WHERE r <= 2) t ON t.a = a.k"
    ),
    "above": "SELECT k, y FROM b WHERE y > (SELECT avg(y) FROM b)",
    "above_own": (
        "SELECT a, count(*) AS n FROM b o WHERE y > (SELECT 0.5 * avg(y) FROM b i WHERE i.a = o.a) "
        "GROUP BY a"
    ),
    "deep": "SELECT n, count(*) AS c FROM (SELECT a, count(*) AS n FROM b GROUP BY a) GROUP BY n",
}


def _row(random: random.Random, table: str, key: int) -> tuple[Any, ...]:
    if table == "a":
        text = random.choice(["u", "v", "z", None, "a text of more than fifteen bytes"])
        return key, random.choice([None, *range(10)]), text
    other = random.choice([None, *range(ROWS)])
    if table == "b":
        return key, other, random.choice([None, "1.50", "-7.25", "100.00"])
    return key, other, random.choice([None, 0.1, 1e300, -1e300, float("inf"), 2.5])


def _fill(db: Session) -> None:
    chance = random.Random(7)
    for statement in TABLES:
        db.sql(statement)
    with db.transaction() as tx:
        for table in "abc":
            keys = chance.sample(range(ROWS), ROWS)
            tx.insert(table, [_row(chance, table, key) for key in keys], cast=True)
    with db.transaction() as tx:
        for table in "abc":
            tx.delete(table, [(k,) for k in chance.sample(range(ROWS), 40)])
            tx.upsert(table, [_row(chance, table, ROWS + k) for k in range(30)], cast=True)


def _change(db: Session, seed: int) -> None:
    chance = random.Random(seed)
    with db.transaction() as tx:
        for table in "abc":
            keys = chance.sample(range(ROWS + 30), 60)
            tx.upsert(table, [_row(chance, table, key) for key in keys], cast=True)


def _same(db: Session, other: Session, names: list[str]) -> None:
    for name in names:
        one, two = (
            each._dataflow.errors_of(each._catalog.view(name).reader) for each in (db, other)
        )
        assert one == two, name
        if not one:
            rows = (sorted(each.view(name).rows(), key=repr) for each in (db, other))
            assert next(rows) == next(rows), name


def _files(path: Path, kind: str) -> set[str]:
    return {name for name in os.listdir(path) if name.startswith(kind)}


def test_as_the_driver_computes_them(tmp_path: Path) -> None:
    """All kinds of views, and changes that come to them, and what is there when the store is opened
    again, from the log and from a checkpoint."""
    path, names = tmp_path / "store", [*VIEWS, *MORE]
    with opened(path) as db, sqlview.connect() as other:
        for each in (db, other):
            _fill(each)
        left: set[tuple[str, str]] = set()
        hydrate = db._dataflow.hydrate

        def watched(sink: Installed, *asked: Any) -> bool:
            is_done = hydrate(sink, *asked)
            if not is_done:
                left.add((name, type(sink.node).__name__))
            return is_done

        db._dataflow.hydrate = watched
        for name, text in (VIEWS | MORE).items():
            for each in (db, other):
                each.sql(f"CREATE MATERIALIZED VIEW {name} AS {text}")
        _same(db, other, names)
        for seed in (1, 2):
            for each in (db, other):
                _change(each, seed)
            _same(db, other, names)
        db.checkpoint()
        db.sql("DROP MATERIALIZED VIEW everything")
        db.sql(f"CREATE MATERIALIZED VIEW everything AS {VIEWS['everything']}")
        for each in (db, other):
            _change(each, 3)
        _same(db, other, names)
        db._save_last = lambda store: None  # type: ignore[method-assign]
        assert left == {
            ("top", "TopK"), ("top", "Store"),
            ("twice", "Map"), ("twice", "Store"), ("none", "Store"),  # which there are no rows for
        }  # fmt: skip
        for round in ("from the log", "from a checkpoint"):
            if round == "from the log":
                db.close()
            with sqlview.connect(path) as again:
                _same(again, other, names)


def test_few_rows_that_reach_many_are_not_where_a_join_begins(tmp_path: Path) -> None:
    """Tasks begin with an input that they can share; what reaches little is the driver's."""
    query = "SELECT k, name, count(*) AS n FROM few JOIN many ON many.{} = few.k GROUP BY k, name"
    with opened(tmp_path / "store", least_rows=200) as db:
        db.sql("CREATE TABLE few (k BIGINT PRIMARY KEY, name STRING)")
        db.sql("CREATE TABLE many (id BIGINT PRIMARY KEY, near BIGINT, far BIGINT)")
        with db.transaction() as tx:
            tx.insert("few", [(1, "a"), (2, "b"), (3, None)])
            tx.insert("many", [(i, i % 3 + 1, i) for i in range(1000)])
        done: dict[str, bool] = {}
        hydrate = db._dataflow.hydrate

        def watched(sink: Installed, *asked: Any) -> bool:
            done[type(sink.node).__name__] = found = hydrate(sink, *asked)
            return found

        db._dataflow.hydrate = watched
        for column, by_tasks in (("near", True), ("far", False)):
            db.sql(f"CREATE MATERIALIZED VIEW {column} AS {query.format(column)}")
            assert done["Reduce"] is by_tasks
            assert db.verify(column).equal
            work = [o.operator for o in db._dataflow.installed if o.readers]
            joins = [o for o in work if isinstance(o, DeltaJoinOperator)]
            firsts = {
                j.occurrences[j.first].relation.live_rows for j in joins if j.first is not None
            }
            assert firsts == ({1000} if by_tasks else {1000, 3})


@pytest.mark.parametrize("fault", [ValueError, KeyboardInterrupt])
def test_what_is_cut_short(tmp_path: Path, fault: type[BaseException]) -> None:
    """A job that fails in any of its stages is the driver's; Ctrl-C there leaves nothing."""
    place: list[tuple[int, int]] = []
    failed: list[tuple[int, int]] = []

    def called(stage: int, task: int) -> None:
        if (stage, task) in place:
            failed.append((stage, task))
            raise fault

    with opened(tmp_path / "store", called) as db, sqlview.connect() as other:
        for each in (db, other):
            _fill(each)
        other.sql(f"CREATE MATERIALIZED VIEW v AS {VIEWS['three']}")
        db.checkpoint()
        before = _files(tmp_path / "store", "")
        for at in ((0, 0), (1, 3), (2, 1), (3, 0)):
            place[:] = [at]
            if fault is KeyboardInterrupt:
                with pytest.raises(KeyboardInterrupt):
                    db.sql(f"CREATE MATERIALIZED VIEW v AS {VIEWS['three']}")
                assert db.sql("SHOW VIEWS").to_arrow().num_rows == 0
            else:
                db.sql(f"CREATE MATERIALIZED VIEW v AS {VIEWS['three']}")
                _same(db, other, ["v"])
                db.sql("DROP MATERIALIZED VIEW v")
            place.clear()
            db.checkpoint(even_if_same=True)
            values = {name for name in _files(tmp_path / "store", "") if name[:4] == "rows"}
            assert values <= before, at
        assert len(failed) >= 4
        db.sql(f"CREATE MATERIALIZED VIEW v AS {VIEWS['three']}")
        for each in (db, other):
            _change(each, 5)
        _same(db, other, ["v"])
