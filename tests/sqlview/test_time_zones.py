"""The session's time zone: where it comes from, what it decides, and what is refused."""

from __future__ import annotations

import datetime
import types
from typing import Any

import pyarrow as pa
import pytest

import sqlview
from sqlview.settings import RELIED_ON, TIME_ZONE, Settings

UTC = datetime.timezone.utc
TABLE = "CREATE TABLE t (id INT PRIMARY KEY, at TIMESTAMP, clock TIMESTAMP_NTZ)"


def moment(*parts: int, fold: int = 0) -> datetime.datetime:
    return datetime.datetime(*parts, fold=fold)  # type: ignore[arg-type]


def instants(db: sqlview.Session, name: str = "v") -> list[datetime.datetime]:
    """The column `at` of a view, in UTC, in its order."""
    column = db.view(name).to_arrow().column("at")
    return [v.as_py() for v in column.cast(pa.timestamp("us", "UTC"))]


def made(zone: str | None) -> sqlview.Session:
    db = sqlview.connect(timezone=zone)
    db.sql(TABLE)
    db.sql("CREATE MATERIALIZED VIEW v AS SELECT id, at FROM t ORDER BY id")
    return db


def insert(db: sqlview.Session, data: Any) -> None:
    with db.transaction() as tx:
        tx.insert("t", data)


def test_datetimes_without_a_zone_are_of_the_sessions() -> None:
    rows = [
        (1, moment(2024, 1, 1), None),
        (2, moment(2024, 3, 31, 2, 30), None),  # never shown
        (3, moment(2024, 10, 27, 2, 30), None),  # shown twice
        (4, moment(2024, 10, 27, 2, 30, fold=1), None),
        (5, datetime.datetime(2024, 1, 1, tzinfo=UTC), moment(2024, 3, 31, 2, 30)),
        (6, moment(1890, 1, 1), None),  # local mean time
        (7, moment(2500, 7, 1), None),
    ]
    with made("Europe/Paris") as db:
        insert(db, rows)
        assert [i.replace(tzinfo=None) for i in instants(db)] == [
            moment(2023, 12, 31, 23),
            moment(2024, 3, 31, 1, 30),
            moment(2024, 10, 27, 0, 30),
            moment(2024, 10, 27, 1, 30),
            moment(2024, 1, 1),
            moment(1889, 12, 31, 23, 50, 39),
            moment(2500, 6, 30, 22),
        ]


def test_arrow_timestamps_without_a_zone_are_of_the_sessions() -> None:
    clocks = pa.array(
        [moment(2024, 3, 31, 2, 30), moment(2024, 10, 27, 2, 30), None], pa.timestamp("ms")
    )
    data = pa.table({"id": [1, 2, 3], "at": clocks, "clock": clocks})
    with made("Europe/Paris") as db:
        insert(db, data.set_column(0, "id", pa.array([1, 2, 3], pa.int32())))
        db.sql("CREATE MATERIALIZED VIEW c AS SELECT clock FROM t")
        assert [i and i.replace(tzinfo=None) for i in instants(db)] == [
            moment(2024, 3, 31, 1, 30),
            moment(2024, 10, 27, 0, 30),
            None,
        ]
        assert (moment(2024, 3, 31, 2, 30),) in db.view("c").rows()


def test_dicts_transactions_as_columns_deletes_and_lookups_take_the_zone_too() -> None:
    with made("Asia/Tokyo") as db:
        db.sql("CREATE TABLE k (at TIMESTAMP PRIMARY KEY)")
        db.sql("CREATE MATERIALIZED VIEW kept AS SELECT at FROM k")
        with db.transactions() as txs:
            txs.insert("k", [{"at": moment(2024, 1, 1)}, {"at": moment(2024, 1, 2)}], [0, 1])
        assert instants(db, "kept")[0] == datetime.datetime(2023, 12, 31, 15, tzinfo=UTC)
        assert len(db.view("kept").lookup(at=moment(2024, 1, 1))) == 1
        with db.transaction() as tx:
            tx.delete("k", [(moment(2024, 1, 1),)])
        assert instants(db, "kept") == [datetime.datetime(2024, 1, 1, 15, tzinfo=UTC)]


def test_years_at_pythons_ends() -> None:
    for zone in ("Europe/Paris", "+18:00", "-18:00"):
        with made(zone) as db:
            insert(db, [(1, datetime.datetime.min, None), (2, datetime.datetime.max, None)])
            assert db.view("v").to_arrow().num_rows == 2
            assert "0001-01-01 00:00:00" in str(db.view("v"))
            assert "9999-12-31 23:59:59.999999" in str(db.view("v"))


def test_views_are_shown_by_the_sessions_clocks() -> None:
    with made("Europe/Paris") as db:
        insert(db, [(1, datetime.datetime(2024, 7, 1, tzinfo=UTC), moment(2024, 7, 1))])
        ((_, shown),) = db.view("v").rows()
        assert shown == datetime.datetime(2024, 7, 1, tzinfo=UTC)
        assert shown.utcoffset() == datetime.timedelta(hours=2)
        assert "2024-07-01 02:00:00+02:00" in str(db.view("v"))
        assert db.view("v").to_arrow().schema.field("at").type == pa.timestamp("us", "Europe/Paris")
        db.sql("SET TIME ZONE '-00:00:01'")  # which Arrow has no name for
        assert db.view("v").to_arrow().schema.field("at").type == pa.timestamp("us", "UTC")
    with made(None) as db:
        assert db.view("v").to_arrow().schema.field("at").type == pa.timestamp("us", "UTC")


def test_a_view_keeps_the_zone_of_its_creation() -> None:
    with sqlview.connect() as db:
        db.sql(TABLE)
        query = "AS SELECT id, hour(at) AS h, cast(at AS STRING) AS s FROM t"
        db.sql(f"CREATE MATERIALIZED VIEW utc {query}")
        db.sql("set time zone 'Asia/Kolkata';")
        db.sql(f"CREATE MATERIALIZED VIEW kolkata {query}")
        db.sql("SET TIME ZONE 'GMT-3'")
        db.sql("CREATE MATERIALIZED VIEW above AS SELECT k.h, hour(t.at) AS own FROM kolkata k, t")
        insert(db, [(1, datetime.datetime(2024, 1, 1, 12, tzinfo=UTC), None)])
        assert db.view("utc").rows() == [(1, 12, "2024-01-01 12:00:00")]
        assert db.view("kolkata").rows() == [(1, 17, "2024-01-01 17:30:00")]
        assert db.view("above").rows() == [(17, 9)]


def test_explain_says_the_zone_of_what_depends_on_it() -> None:
    with made("Europe/Paris") as db:
        db.sql("CREATE MATERIALIZED VIEW h AS SELECT hour(at) AS h FROM t")
        db.sql("SET TIME ZONE 'UTC'")
        ((created,),) = db.sql("SHOW CREATE MATERIALIZED VIEW h").rows()
        assert created.startswith("-- in the time zone Europe/Paris\nCREATE MATERIALIZED VIEW h")
        text = str(db.sql("EXPLAIN MATERIALIZED VIEW h"))
        assert text.startswith("== Time zone Europe/Paris ==\n")
        assert "hour(at, 'Europe/Paris')" in text
        text = str(db.sql("EXPLAIN CREATE MATERIALIZED VIEW i AS SELECT hour(at) AS h FROM t"))
        assert text.startswith("== Time zone UTC ==\n") and "hour(at)" in text
        assert "zone" not in str(db.sql("EXPLAIN MATERIALIZED VIEW v"))


def test_views_of_one_zone_share_and_those_of_two_do_not() -> None:
    def operators(*zones: str) -> int:
        with made(None) as db:
            for i, zone in enumerate(zones):
                db.sql(f"SET TIME ZONE '{zone}'")
                db.sql(
                    f"CREATE MATERIALIZED VIEW g{i} AS SELECT hour(at) AS h, count(*) AS n FROM t "
                    "GROUP BY hour(at)"
                )
            return db.metrics().operators

    assert operators("+02:00", "GMT+2", "UTC+02:00") == operators("+02:00")
    assert operators("+02:00", "+03:00") > operators("+02:00")


def test_duckdb_recomputes_what_depends_on_no_zone_but_utc() -> None:
    with made("Europe/Paris") as db:
        insert(db, [(1, moment(2024, 1, 1), None)])
        assert db.verify("v").engine == "DuckDB" and db.verify("v").equal
        db.sql("CREATE MATERIALIZED VIEW h AS SELECT id, hour(at) AS h FROM t")
        db.sql("CREATE MATERIALIZED VIEW above AS SELECT h FROM h")
        for name in ("h", "above"):
            with pytest.raises(sqlview.ViewError, match="depends on the time zone Europe/Paris"):
                db.verify(name, engine="duckdb")
        db.sql("SET TIME ZONE 'Asia/Tokyo'")
        db.sql("CREATE MATERIALIZED VIEW two AS SELECT h.h, hour(at) AS o FROM h JOIN t USING (id)")
        for engine in ("duckdb", "spark"):
            with pytest.raises(sqlview.ViewError, match="several time zones"):
                db.verify("two", engine=engine)
    with made("Etc/UTC") as db:
        db.sql("CREATE MATERIALIZED VIEW h AS SELECT id, hour(at) AS h FROM t")
        assert db.verify("h").equal


@pytest.mark.parametrize("zone", ["", "Paris", "+25:00", "europe/paris"])
def test_unknown_zones_are_refused(zone: str) -> None:
    with pytest.raises(sqlview.UnsupportedError, match="is not known\nHint: Name a region"):
        sqlview.connect(timezone=zone)
    with (
        sqlview.connect() as db,
        pytest.raises(sqlview.UnsupportedError, match="is not known\nHint: Name a region"),
    ):
        db.sql(f"SET TIME ZONE '{zone}'")


@pytest.mark.parametrize(
    "text",
    ["SET", "SET TIME", "SET TIME ZONE", "SET TIME ZONE LOCAL", "SET TIME ZONE INTERVAL 2 HOURS",
     "SET TIME ZONE Europe", "SET TIME ZONE 'UTC' 'UTC'", "SET spark.sql.ansi.enabled = false"],
)  # fmt: skip
def test_statements_that_are_not_read(text: str) -> None:
    with sqlview.connect() as db, pytest.raises(sqlview.SqlSyntaxError):
        db.sql(text)


class Conf:
    def __init__(self, **values: str) -> None:
        self.values = {TIME_ZONE: "UTC", **{k.replace("__", "."): v for k, v in values.items()}}

    def get(self, name: str, *default: str) -> str:
        return self.values.get(name, *default) if default else self.values[name]

    def set(self, name: str, value: str) -> None:
        self.values[name] = value


class FakeSpark:
    def __init__(self) -> None:
        self.conf = Conf()


def test_the_zone_is_that_of_the_given_spark_at_any_moment() -> None:
    spark: Any = FakeSpark()
    settings = Settings(spark, lambda: None, None)
    assert settings.zone().id == "UTC"
    spark.conf.set(TIME_ZONE, "Europe/Paris")
    assert settings.zone().id == "Europe/Paris"
    settings.set_zone("GMT+2")
    assert spark.conf.get(TIME_ZONE) == "+02:00"
    assert Settings(spark, lambda: None, "+2").zone().id == "+02:00"
    with pytest.raises(sqlview.UnsupportedError, match="is not that of the Spark session"):
        Settings(spark, lambda: None, "Asia/Tokyo")
    spark.conf.set(TIME_ZONE, "SystemV/EST5")
    with pytest.raises(sqlview.UnsupportedError, match='"SystemV/EST5" is not known'):
        settings.zone()


def test_an_active_spark_has_a_say_only_where_no_zone_is_named() -> None:
    spark: Any = FakeSpark()
    spark.conf.set(TIME_ZONE, "Europe/Paris")
    assert Settings(None, lambda: spark, None).zone().id == "Europe/Paris"
    settings = Settings(None, lambda: spark, "Asia/Tokyo")
    assert settings.zone().id == "Asia/Tokyo"
    settings.set_zone("UTC")
    assert settings.zone().id == "UTC"
    assert spark.conf.get(TIME_ZONE) == "Europe/Paris"


def test_a_spark_that_does_not_answer_is_named() -> None:
    spark: Any = FakeSpark()
    settings = Settings(spark, lambda: None, None)
    spark.conf = None
    for ask in (settings.zone, settings.check):
        with pytest.raises(sqlview.SqlViewError, match="does not tell its settings\nDetail: Attr"):
            ask()


@pytest.mark.parametrize("name", RELIED_ON)
def test_settings_under_which_spark_has_other_answers_are_refused(name: str) -> None:
    spark: Any = FakeSpark()
    settings = Settings(None, lambda: spark, None)
    settings.check()
    spark.conf.set(name, {"true": "FALSE", "false": "true"}.get(RELIED_ON[name], "LEGACY"))
    with pytest.raises(sqlview.UnsupportedError, match=f"while Spark has {name} = "):
        settings.check()
    spark.conf.set(name, RELIED_ON[name].upper())
    settings.check()


def test_casts_of_data_go_by_the_sessions_clocks() -> None:
    texts = ["2024-07-01 00:00:00", "2024-07-01T00:00:00Z", None]
    days = [datetime.date(2024, 7, 1), datetime.date(1890, 1, 1), None]
    midnights = [datetime.datetime(2024, 6, 30, 22, tzinfo=UTC), None]
    with made("Europe/Paris") as db:
        db.sql("CREATE TABLE days (day DATE)")
        db.sql("CREATE MATERIALIZED VIEW of_days AS SELECT day FROM days WHERE day IS NOT NULL")
        with db.transaction() as tx:
            ids = pa.array(range(6), pa.int32())
            clock = pa.nulls(3, pa.timestamp("us"))
            tx.insert("t", pa.table({"id": ids[:3], "at": texts, "clock": clock}), cast=True)
            tx.insert("t", pa.table({"id": ids[3:], "at": days, "clock": clock}), cast=True)
            stamps = pa.array(midnights, pa.timestamp("s", "UTC"))
            tx.insert("days", pa.table({"day": stamps}), cast=True)
        assert [i and i.replace(tzinfo=None) for i in instants(db)] == [
            moment(2024, 6, 30, 22),
            moment(2024, 7, 1),
            None,
            moment(2024, 6, 30, 22),
            moment(1889, 12, 31, 23, 50, 39),
            None,
        ]
        assert db.view("of_days").rows() == [(datetime.date(2024, 7, 1),)]
        odd = pa.table({"day": pa.array([moment(2024, 7, 1)], pa.timestamp("s")).cast(stamps.type)})
        with pytest.raises(sqlview.DataError, match="does not hold exactly"):
            db.begin().insert("days", odd, cast=True)


class Jvm:
    """What a session in a JVM tells of all that is set at once; `asked`: how often one by one."""

    def __init__(self) -> None:
        self.set, self.asked = {TIME_ZONE: "UTC"}, 0

    @property
    def conf(self) -> Any:
        return types.SimpleNamespace(_jconf=self, get=self.get)

    def getAllAsJava(self) -> Any:
        said = str(self.set)
        return type("Map", (), {"toString": lambda _: said})()

    def get(self, name: str, *default: str) -> str:
        self.asked += 1
        return self.set.get(name, RELIED_ON.get(name, ""))


def test_settings_are_looked_at_again_once_one_was_set() -> None:
    spark: Any = Jvm()
    settings = Settings(spark, lambda: None, None)
    for _ in range(3):
        settings.check()
    assert spark.asked == len(RELIED_ON)
    spark.set["spark.sql.caseSensitive"] = "true"
    for _ in range(2):
        with pytest.raises(sqlview.UnsupportedError, match="while Spark has"):
            settings.check()
    spark.set["spark.sql.caseSensitive"] = "false"
    settings.check()
    assert spark.asked > len(RELIED_ON) + 2
