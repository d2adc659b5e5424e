"""Time zones and settings beside a real Spark: views, SELECT and steps of tasks agree."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

import sqlview
from sqlview.settings import RELIED_ON, TIME_ZONE, all_set
from sqlview.spark import running
from tests.sql.zone_cases import QUERIES, TABLE, plain, rows

pytestmark = pytest.mark.spark
UTC = datetime.timezone.utc


@pytest.fixture
def conf(spark: Any) -> Iterator[Any]:
    """Spark's settings, put back after the test."""
    spark.createDataFrame([(1,)], "a INT")  # makes it the active one, whatever another test did
    before = {name: spark.conf.get(name) for name in (TIME_ZONE, "spark.sql.ansi.enabled")}
    yield spark.conf
    for name, value in before.items():
        spark.conf.set(name, value)


@pytest.mark.parametrize("zone", ["America/New_York", "GMT-2"])
def test_a_view_and_the_same_query_by_spark_agree(spark: Any, conf: Any, zone: str) -> None:
    conf.set(TIME_ZONE, zone)
    with sqlview.connect(spark=spark) as db:
        db.sql(TABLE)
        with db.transaction() as tx:
            tx.insert("t", rows(24, zone))
        for i, query in enumerate(QUERIES):
            db.sql(f"CREATE MATERIALIZED VIEW v{i} AS {query}")
            selected = db.sql(query)
            assert plain(db.view(f"v{i}").to_arrow()) == plain(selected.to_arrow()), query
            types = [[f.dataType for f in r.to_df().schema] for r in (db.view(f"v{i}"), selected)]
            assert types[0] == types[1], query
        stamps = db.sql("SELECT id, at FROM t ORDER BY id LIMIT 5")
        db.sql("CREATE MATERIALIZED VIEW s AS SELECT id, at FROM t ORDER BY id LIMIT 5")
        assert str(db.view("s")) == str(stamps)
        assert db.view("s").to_arrow().schema.types == stamps.to_arrow().schema.types


def test_tasks_of_spark_compute_in_the_views_zone(spark: Any, conf: Any) -> None:
    found = []
    for placement in ("inline", "spark"):
        conf.set(TIME_ZONE, "Europe/Paris")
        with sqlview.connect(spark=spark, placement=placement) as db:
            db.sql(TABLE)
            for i, query in enumerate(QUERIES[:3]):
                db.sql(f"CREATE MATERIALIZED VIEW v{i} AS {query}")
            conf.set(TIME_ZONE, "Asia/Tokyo")
            with db.transaction() as tx:
                tx.insert("t", rows(24, "tasks"))
            found.append([plain(db.view(f"v{i}").to_arrow()) for i in range(3)])
    assert found[0] == found[1]


def test_views_follow_what_the_owner_sets_and_keep_it(spark: Any, conf: Any) -> None:
    with sqlview.connect(spark=spark) as db:
        db.sql("CREATE TABLE t (at TIMESTAMP)")
        db.sql("CREATE MATERIALIZED VIEW utc AS SELECT hour(at) AS h FROM t")
        conf.set(TIME_ZONE, "Europe/Paris")
        db.sql("CREATE MATERIALIZED VIEW paris AS SELECT hour(at) AS h FROM t")
        db.sql("SET TIME ZONE 'Asia/Tokyo'")
        assert conf.get(TIME_ZONE) == "Asia/Tokyo"
        db.sql("CREATE MATERIALIZED VIEW tokyo AS SELECT hour(at) AS h FROM t")
        with db.transaction() as tx:
            tx.insert("t", [(datetime.datetime(2024, 1, 1, 12),)])
        hours = [db.view(name).rows() for name in ("utc", "paris", "tokyo")]
        assert hours == [[(3,)], [(4,)], [(12,)]]
        assert db.sql("SELECT hour(at) FROM t").rows() == [(12,)]


def test_a_dataframe_and_arrow_without_a_zone_mean_what_spark_means(spark: Any, conf: Any) -> None:
    conf.set(TIME_ZONE, "America/New_York")
    clock = datetime.datetime(2024, 7, 1, 12)
    data = pa.table({"at": pa.array([clock], pa.timestamp("us"))})
    with sqlview.connect(spark=spark) as db:
        db.sql("CREATE TABLE t (at TIMESTAMP)")
        db.sql("CREATE MATERIALIZED VIEW v AS SELECT at, count(*) AS n FROM t GROUP BY at")
        with db.transaction() as tx:
            tx.insert("t", data)
            tx.insert("t", [(clock,)])
            tx.insert("t", spark.createDataFrame(data))
            tx.insert("t", spark.createDataFrame(data.to_pandas()))
        assert db.view("v").rows() == [(datetime.datetime(2024, 7, 1, 16, tzinfo=UTC), 4)]


def test_another_zone_than_the_given_sparks_is_refused(spark: Any, conf: Any) -> None:
    with pytest.raises(sqlview.UnsupportedError, match="is not that of the Spark session"):
        sqlview.connect(spark=spark, timezone="Europe/Paris")
    with sqlview.connect(spark=spark, timezone="+00:00"):
        pass


def test_select_on_a_spark_of_another_zone_is_refused(spark: Any) -> None:
    with sqlview.connect(timezone="Europe/Paris") as db:
        db.sql("CREATE TABLE t (at TIMESTAMP)")
        with pytest.raises(sqlview.UnsupportedError, match="zone is Europe/Paris, but that of"):
            db.sql("SELECT hour(at) FROM t")
        db.sql("SET TIME ZONE 'UTC'")
        assert db.sql("SELECT hour(at) FROM t").rows() == []


def test_select_on_a_spark_of_its_own_is_in_the_sessions_zone(
    spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running.LocalSpark, "started", lambda self, session: session is spark)
    with sqlview.connect(timezone="Europe/Paris") as db:
        db.sql("CREATE TABLE t (at TIMESTAMP)")
        with db.transaction() as tx:
            tx.insert("t", [(datetime.datetime(2024, 7, 1, 12),)])
        result = db.sql("SELECT hour(at) AS h, cast(at AS STRING) AS s FROM t")
        db.sql("SET TIME ZONE 'Asia/Tokyo'")
        assert result.rows() == [(12, "2024-07-01 12:00:00")]
        assert db.sql("SELECT hour(at) AS h FROM t").rows() == [(19,)]
        assert spark.conf.get(TIME_ZONE) == "UTC"


def test_views_rely_on_what_spark_has_by_default(spark: Any) -> None:
    assert {name: spark.conf.get(name).casefold() for name in RELIED_ON} == {
        name: value.casefold() for name, value in RELIED_ON.items()
    }


@pytest.mark.parametrize("given", [True, False])
def test_no_view_is_created_under_other_settings(spark: Any, conf: Any, given: bool) -> None:
    with sqlview.connect(spark=spark if given else None) as db:
        db.sql("CREATE TABLE t (n INT)")
        conf.set("spark.sql.ansi.enabled", "false")
        with pytest.raises(sqlview.UnsupportedError) as refused:
            db.sql("CREATE MATERIALIZED VIEW v AS SELECT n + 1 AS m FROM t")
        assert str(refused.value) == (
            "cannot create a view while Spark has spark.sql.ansi.enabled = false "
            "(line 1, column 31)\n"
            "Detail: Views compute as Spark does with true, so the same query would have other "
            "answers there.\n"
            'Hint: Call spark.conf.set("spark.sql.ansi.enabled", "true") before, or give connect() '
            "a Spark session of its own: spark.newSession()."
        )
        conf.set("spark.sql.ansi.enabled", "true")
        db.sql("CREATE MATERIALIZED VIEW v AS SELECT n + 1 AS m FROM t")


def test_spark_verifies_in_the_views_zone(spark: Any, conf: Any) -> None:
    conf.set(TIME_ZONE, "Europe/Paris")
    with sqlview.connect(spark=spark) as db:
        db.sql(TABLE)
        for i, query in enumerate(QUERIES[:3]):
            db.sql(f"CREATE MATERIALIZED VIEW v{i} AS {query}")
        db.sql("CREATE MATERIALIZED VIEW above AS SELECT h, n FROM v1 WHERE h > 3")
        conf.set(TIME_ZONE, "UTC")
        with db.transaction() as tx:
            tx.insert("t", rows(24, "verify"))
        for name in ("v0", "v1", "v2", "above"):
            outcome = db.verify(name)
            assert outcome.equal and outcome.engine == "Spark", outcome
            assert "the time zone Europe/Paris" in str(outcome.note)
        assert conf.get(TIME_ZONE) == "UTC"


def test_all_settings_are_told_at_once(spark: Any, conf: Any) -> None:
    conf.set(TIME_ZONE, "Asia/Tokyo")
    before = all_set(spark)
    assert before is not None and "Asia/Tokyo" in before and all_set(spark) == before
    conf.set(TIME_ZONE, "UTC")
    assert all_set(spark) != before
