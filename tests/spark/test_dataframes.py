"""DataFrames in and out, and SELECT by Spark SQL: types, snapshots, and the user's own names."""

from __future__ import annotations

import datetime
import math
import subprocess
import sys
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import ArithmeticException
from pyspark.sql.classic.dataframe import DataFrame

import sqlview
import sqlview.spark
import sqlview.spark_files
from sqlview.spark import SparkSide

pytestmark = pytest.mark.spark

UTC = datetime.timezone.utc

COLUMNS = (
    "id BIGINT PRIMARY KEY, flag BOOLEAN, i8 TINYINT, i16 SMALLINT, i32 INT, f32 FLOAT, f64 DOUBLE,"
    " price DECIMAL(15,2), wide DECIMAL(38,6) NOT NULL, name STRING, raw BINARY, day DATE,"
    " moment TIMESTAMP, clock TIMESTAMP_NTZ"
)
SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), False),
        pa.field("flag", pa.bool_()),
        pa.field("i8", pa.int8()),
        pa.field("i16", pa.int16()),
        pa.field("i32", pa.int32()),
        pa.field("f32", pa.float32()),
        pa.field("f64", pa.float64()),
        pa.field("price", pa.decimal128(15, 2)),
        pa.field("wide", pa.decimal128(38, 6), False),
        pa.field("name", pa.string()),
        pa.field("raw", pa.binary()),
        pa.field("day", pa.date32()),
        pa.field("moment", pa.timestamp("us", "UTC")),
        pa.field("clock", pa.timestamp("us")),
    ]
)
ROWS: list[tuple[Any, ...]] = [
    (
        *(1, True, -128, 32767, -(2**31), 1.5, -2.5, Decimal("1.25")),
        *(Decimal("12345678901234567890123456789012.345678"), "naïve ✓", b"\x00\xff"),
        *(datetime.date(1, 1, 1), datetime.datetime(1900, 2, 3, 4, 5, 6, 7, UTC)),
        datetime.datetime(2500, 2, 3, 4, 5, 6, 7),
    ),
    (2, *[None] * 7, Decimal("-0.000001"), *[None] * 5),
    (
        *(2**63 - 1, False, 0, 0, 0, math.inf, math.ulp(0.0), Decimal("-9999999999999.99"), 0),
        *("", b"", datetime.date(9999, 12, 31), datetime.datetime(2024, 3, 10, 7, 30, tzinfo=UTC)),
        datetime.datetime(2024, 3, 10, 2, 30),  # an hour that New York skips
    ),
]


@pytest.fixture
def db(spark: Any) -> Iterator[sqlview.Session]:
    with sqlview.connect(spark=spark) as session:
        yield session


@pytest.fixture
def shop(db: sqlview.Session) -> sqlview.Session:
    """Two tables, and a view over each."""
    db.sql("CREATE TABLE orders (id BIGINT PRIMARY KEY, customer STRING, price DECIMAL(15,2))")
    db.sql("CREATE TABLE customers (name STRING PRIMARY KEY, country STRING)")
    db.sql(
        "CREATE MATERIALIZED VIEW revenue AS"
        " SELECT customer, sum(price) AS total FROM orders GROUP BY customer"
    )
    db.sql("CREATE MATERIALIZED VIEW french AS SELECT name FROM customers WHERE country = 'FR'")
    with db.transaction() as tx:
        tx.insert("orders", [(1, "ann", 10), (2, "bob", 20), (3, "ann", 5)])
        tx.insert("customers", [("ann", "FR"), ("bob", "DE")])
    return db


@pytest.fixture
def through_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hand every snapshot to Spark as files, however small."""
    monkeypatch.setattr(sqlview.spark, "LOCAL_BYTES", -1)


def sorted_rows(table: pa.Table) -> list[tuple[Any, ...]]:
    """By the first column, which is a key."""
    rows = zip(*(column.to_pylist() for column in table.columns), strict=True)
    return sorted(rows, key=lambda row: row[0])


def insert(db: sqlview.Session, **data: Any) -> None:
    """One transaction that inserts into the tables named."""
    with db.transaction() as tx:
        for table, rows in data.items():
            tx.insert(table, rows)


@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
@pytest.mark.parametrize("way", ["driver", "files"])
def test_types_and_nulls_survive_the_round_trip(
    db: sqlview.Session, spark: Any, way: str, zone: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if way == "files":
        monkeypatch.setattr(sqlview.spark, "LOCAL_BYTES", -1)
    db.sql(f"CREATE TABLE things ({COLUMNS})")
    db.sql("CREATE TABLE copies (" + COLUMNS.replace(" PRIMARY KEY", " NOT NULL") + ")")
    db.sql("CREATE MATERIALIZED VIEW seen AS SELECT * FROM things")
    with db.transaction() as tx:
        tx.insert("things", ROWS)
    expected = db.view("seen").to_arrow()
    assert expected.schema == SCHEMA
    assert sorted_rows(expected) == ROWS

    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        frame = db.view("seen").to_df()
        assert [field.dataType.simpleString() for field in frame.schema] == [
            *("bigint", "boolean", "tinyint", "smallint", "int", "float", "double"),
            *("decimal(15,2)", "decimal(38,6)", "string", "binary", "date"),
            *("timestamp", "timestamp_ntz"),
        ]
        assert [f.name for f in frame.schema if not f.nullable] == ["id", "wide"]
        with db.transaction() as tx:
            tx.insert("copies", frame)
            tx.delete("things", frame)
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    assert len(db.view("seen")) == 0
    assert frame.toArrow() == expected
    db.sql("CREATE MATERIALIZED VIEW back AS SELECT * FROM copies")
    assert sorted_rows(db.view("back").to_arrow()) == ROWS


@pytest.mark.usefixtures("through_files")
def test_a_large_view_is_read_in_parallel(
    db: sqlview.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlview.spark_files, "FILE_ROWS", 1000)
    monkeypatch.setattr(sqlview.spark_files, "BATCH_ROWS", 300)
    db.sql("CREATE TABLE numbers (n BIGINT PRIMARY KEY)")
    db.sql("CREATE MATERIALIZED VIEW doubled AS SELECT n, 2 * n AS twice FROM numbers")
    with db.transaction() as tx:
        tx.insert("numbers", pa.table({"n": range(4500)}))
    frame = db.view("doubled").to_df()
    assert frame.selectExpr("spark_partition_id() AS p").distinct().count() > 1
    assert sorted_rows(frame.toArrow()) == [(n, 2 * n) for n in range(4500)]
    assert frame.where("n < 10").count() == 10
    assert frame.count() == 4500


@pytest.mark.parametrize("way", ["driver", "files"])
def test_an_empty_view_keeps_its_types(
    db: sqlview.Session, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if way == "files":
        monkeypatch.setattr(sqlview.spark, "LOCAL_BYTES", -1)
    db.sql(f"CREATE TABLE things ({COLUMNS})")
    db.sql("CREATE MATERIALIZED VIEW seen AS SELECT * FROM things")
    empty = db.view("seen").to_df().toArrow()
    assert empty.schema == SCHEMA
    assert empty.num_rows == 0


def test_an_empty_dataframe_changes_nothing(shop: sqlview.Session, spark: Any) -> None:
    before = shop.view("revenue").rows()
    with shop.transaction() as tx:
        tx.insert(
            "orders", spark.createDataFrame([], "id bigint, customer string, price decimal(15,2)")
        )
    assert shop.view("revenue").rows() == before


def test_a_dataframe_that_spark_takes_to_be_large_is_read_by_tasks(
    shop: sqlview.Session, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame = spark.range(10, 1010, 1, 3).selectExpr("id", "'cid' AS customer", "1 AS price")
    monkeypatch.setattr(sqlview.spark, "DRIVER_BYTES", 1010)
    read: list[Any] = []
    in_parallel = SparkSide._read_in_parallel

    def recorded(side: SparkSide, frame: Any) -> pa.Table:
        read.append(frame)
        return in_parallel(side, frame)

    monkeypatch.setattr(SparkSide, "_read_in_parallel", recorded)
    insert(shop, orders=frame)
    assert read == [frame]
    assert shop.sql("SELECT total FROM revenue WHERE customer = 'cid'").rows() == [(Decimal(1000),)]
    # Of rows that come from Python Spark has no idea.
    insert(
        shop,
        orders=spark.createDataFrame([(5000, "dan", 1)], "id long, customer string, price int"),
    )
    assert read == [frame]


def test_a_dataframe_too_large_for_the_driver_is_read_by_tasks(
    shop: sqlview.Session, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    through_driver = DataFrame.toArrow
    refused: list[Any] = []

    def refuse_once(frame: Any) -> pa.Table:
        if refused:
            return through_driver(frame)
        refused.append(frame)
        raise RuntimeError("Total size … is bigger than spark.driver.maxResultSize (1024.0 MiB)")

    monkeypatch.setattr(DataFrame, "toArrow", refuse_once)
    frame = spark.range(10, 1010, 1, 3).selectExpr("id", "'cid' AS customer", "1 AS price")
    insert(shop, orders=frame)
    assert refused == [frame]
    assert shop.sql("SELECT total FROM revenue WHERE customer = 'cid'").rows() == [(Decimal(1000),)]


@pytest.mark.usefixtures("through_files")
def test_two_columns_of_one_name(spark: Any) -> None:
    side = SparkSide(spark, None)
    schema = pa.schema([pa.field("a", pa.int64(), False), pa.field("a", pa.string())])
    table = pa.Table.from_arrays([pa.array([1, 2]), pa.array(["x", None])], schema=schema)
    assert side.dataframe(table).toArrow() == table
    side.close()


def test_insert_upsert_and_delete_from_dataframes(shop: sqlview.Session, spark: Any) -> None:
    # Columns in another order, with other case, and narrower than the table's.
    frame = spark.sql("SELECT 'bob' AS CUSTOMER, CAST(7.5 AS DECIMAL(5,1)) AS price, 4 AS id")
    with shop.transaction() as tx:
        tx.insert("orders", frame)
        tx.upsert("orders", spark.sql("SELECT 1L AS id, 'bob' AS customer, 1 AS price"))
        tx.delete("orders", spark.sql("SELECT 3 AS id"))
    assert sorted_rows(shop.view("revenue").to_arrow()) == [("bob", Decimal("28.50"))]
    assert shop.verify("revenue").equal


@pytest.mark.parametrize("way", ["driver", "files"])
def test_a_dataframe_keeps_its_epoch(
    shop: sqlview.Session, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if way == "files":
        monkeypatch.setattr(sqlview.spark, "LOCAL_BYTES", -1)
    view = shop.view("revenue").to_df()
    selected = shop.sql("SELECT sum(total) AS s FROM revenue").to_df()
    with shop.transaction() as tx:
        tx.delete("orders", [(1,), (2,)])
    assert sorted_rows(view.toArrow()) == [("ann", Decimal(15)), ("bob", Decimal(20))]
    assert selected.collect()[0]["s"] == 35
    assert shop.view("revenue").to_df().toArrow().to_pylist() == [
        {"customer": "ann", "total": Decimal(5)}
    ]
    assert shop.sql("SELECT sum(total) AS s FROM revenue").rows() == [(Decimal(5),)]


def test_select_joins_views_and_tables(shop: sqlview.Session) -> None:
    text = """
        WITH big AS (SELECT * FROM Revenue WHERE total > 1) -- } a brace is no placeholder {0}
        SELECT r.customer, r.total, count(*) AS orders, '{}' AS braces
        FROM big r JOIN french f ON r.customer = f.name JOIN orders USING (customer)
        GROUP BY ALL ORDER BY 1
    """
    assert shop.sql(text).rows() == [("ann", Decimal("15.00"), 2, "{}")]


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("SELECT customer FROM revenue ORDER BY total DESC LIMIT 1;", [("bob",)]),
        ("FROM french SELECT name", [("ann",)]),
        ("TABLE french", [("ann",)]),
        ("VALUES (1), (2)", [(1,), (2,)]),
        ("WITH french AS (SELECT upper(name) AS n FROM french) SELECT n FROM french", [("ANN",)]),
        ("SELECT a.name FROM french a, `FRENCH` b WHERE a.name = b.name", [("ann",)]),
        ("SELECT name FROM french UNION ALL SELECT 'x' ORDER BY 1 DESC", [("x",), ("ann",)]),
        ("SELECT (SELECT max(total) FROM revenue) AS best", [(Decimal("20.00"),)]),
    ],
)
def test_select_takes_any_query_of_spark(
    shop: sqlview.Session, text: str, rows: list[tuple[Any, ...]]
) -> None:
    assert shop.sql(text).rows() == rows


def test_names_of_the_user_survive(shop: sqlview.Session, spark: Any) -> None:
    spark.sql("SELECT 'mine' AS x").createOrReplaceTempView("revenue")
    spark.sql("SELECT 'ann' AS who, 3 AS stars").createOrReplaceTempView("stars")
    before = {table.name for table in spark.catalog.listTables()}
    try:
        text = "SELECT customer, total, stars FROM revenue JOIN stars ON customer = who"
        assert shop.sql(text).rows() == [("ann", Decimal("15.00"), 3)]
        assert {table.name for table in spark.catalog.listTables()} == before
        assert spark.table("revenue").collect()[0]["x"] == "mine"
    finally:
        spark.catalog.dropTempView("revenue")
        spark.catalog.dropTempView("stars")


@pytest.mark.parametrize(
    ("text", "kind", "said", "place"),
    [
        (
            "SELECT *\nFROM nosuch",
            sqlview.CatalogError,
            'table or view "nosuch" does not exist',
            (2, 6),
        ),
        ("SELECT nocol FROM revenue", sqlview.BindError, "`nocol` cannot be resolved", (1, 8)),
        ("SELECT *\n FRM revenue r", sqlview.SqlSyntaxError, "at or near 'revenue'", (2, 6)),
        ("SELECT total +", sqlview.SqlSyntaxError, "at end of input", (None, None)),
        ("SELECT 1 UNION SELECT 1, 2", sqlview.BindError, "same number of columns", (1, 1)),
    ],
)
def test_what_spark_refuses_has_our_form(
    shop: sqlview.Session,
    capfd: pytest.CaptureFixture[str],
    text: str,
    kind: type[sqlview.SqlViewError],
    said: str,
    place: tuple[int | None, int | None],
) -> None:
    with pytest.raises(kind) as caught:
        shop.sql(text)
    assert said in caught.value.message
    assert "_pyspark" not in str(caught.value)
    assert "Traceback" not in capfd.readouterr().err
    if said != "same number of columns":
        assert (caught.value.line, caught.value.column) == place
    assert shop.sql("SELECT count(*) FROM french").rows() == [(1,)]


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("SELECT 9L AS id, 'x' AS customer", 'lacks column "price"'),
        ("SELECT 9L AS id, 'x' AS customer, 1 AS price, 2 AS more", 'column "more"'),
        ("SELECT 9L AS id, 'x' AS customer, 'y' AS price", 'column "price"'),
        ("SELECT 9.5D AS id, 'x' AS customer, 1 AS price", 'column "id"'),
        ("SELECT 9L AS id, array(1) AS customer, 1 AS price", 'column "customer"'),
        ("SELECT 9L AS id, make_interval(1) AS customer, 1 AS price", "with such a column"),
        ("SELECT CAST(NULL AS BIGINT) AS id, 'x' AS customer, 1 AS price", 'NULL in column "id"'),
        ("SELECT 9L AS id, 'x' AS customer, 1.005 AS price", 'column "price"'),
        ("SELECT 1L AS id, 'x' AS customer, 1 AS price", "the key is there already"),
    ],
)
def test_a_wrong_dataframe_changes_nothing(
    shop: sqlview.Session, spark: Any, query: str, said: str
) -> None:
    before = (shop.epoch, shop.view("revenue").to_arrow(), shop.view("french").to_arrow())
    with pytest.raises(sqlview.DataError) as caught:
        insert(shop, customers=[("cid", "FR")], orders=spark.sql(query))
    assert said in caught.value.message
    assert '"orders"' in caught.value.message
    after = (shop.epoch, shop.view("revenue").to_arrow(), shop.view("french").to_arrow())
    assert after == before


def test_a_dataframe_that_spark_cannot_compute_changes_nothing(
    shop: sqlview.Session, spark: Any
) -> None:
    before = shop.epoch
    frame = spark.range(1).selectExpr("id", "'x' AS customer", "1 div id AS price")
    with pytest.raises(ArithmeticException, match="DIVIDE_BY_ZERO"):
        insert(shop, customers=[("cid", "FR")], orders=frame)
    assert shop.epoch == before
    assert shop.view("french").rows() == [("ann",)]


def test_other_data_is_refused_by_kind(shop: sqlview.Session, spark: Any) -> None:
    stream = spark.readStream.format("rate").load()
    for data, said in (
        (5, "changes cannot be given as int"),
        ({1, 2}, "row 0 is neither a tuple nor a dict"),
        (stream, "changes cannot be given as a streaming DataFrame"),
    ):
        with pytest.raises(sqlview.DataError) as caught:
            insert(shop, orders=data)
        assert said in caught.value.message
        assert caught.value.hint


def test_files_go_when_the_session_closes(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlview.spark, "LOCAL_BYTES", -1)
    (tmp_path / "mine").write_text("stays")
    given = SparkSide(spark, str(tmp_path))
    temporary = SparkSide(spark, None)
    for side in (given, temporary):
        frame = side.dataframe(pa.table({"a": [1, 2]}))
        assert sorted_rows(frame.toArrow()) == [(1,), (2,)]
        assert list(Path(side.directory).rglob("*.arrow"))
        side.close()
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]
    assert not Path(temporary.directory).exists()
    assert spark.range(3).count() == 3  # a session that was given stays up
    with pytest.raises(sqlview.SqlViewError, match="the session is closed"):
        given.dataframe(pa.table({"a": [1]}))


def test_a_remote_spark_needs_a_shared_directory(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SparkSide, "_master", lambda side: "spark://head:7077")
    monkeypatch.setattr(sqlview.spark, "LOCAL_BYTES", -1)
    side = SparkSide(spark, None)
    with pytest.raises(sqlview.SqlViewError, match="shared directory"):
        _ = side.executor
    # What executors cannot see goes through the driver.
    assert side.dataframe(pa.table({"a": [1, 2]})).count() == 2
    assert not list(Path(side.directory).rglob("*.arrow"))
    side.close()
    shared = SparkSide(spark, str(tmp_path))
    assert shared.dataframe(pa.table({"a": [1, 2]})).count() == 2
    assert list(Path(shared.directory).rglob("*.arrow"))
    shared.close()


@pytest.mark.slow
def test_without_spark_a_local_one_is_started_shared_and_stopped() -> None:
    """In a process of its own: there is one Spark to a process."""
    script = """
import sqlview
from pyspark.sql import SparkSession
one, two = sqlview.connect(), sqlview.connect()
for db in (one, two):
    db.sql("CREATE TABLE t (a INT)")
    with db.transaction() as tx:
        tx.insert("t", [(1,)])
assert SparkSession.getActiveSession() is None
assert one.sql("SELECT a FROM t").rows() == two.sql("SELECT a FROM t").rows() == [(1,)]
assert SparkSession.active().conf.get("spark.sql.session.timeZone") == "UTC"
assert SparkSession.active().conf.get("spark.master") == "local[*,4]"
one.close()
assert two.sql("SELECT a + 1 AS b FROM t").rows() == [(2,)]
two.close()
assert SparkSession.getActiveSession() is None
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_an_insert_of_a_query_that_only_spark_runs(spark: Any) -> None:
    with sqlview.connect(spark=spark) as db:
        db.sql("CREATE TABLE t (k INT PRIMARY KEY, s STRING, n BIGINT)")
        db.sql("INSERT INTO t VALUES (1, 'a,b', 5), (2, 'c', 6)")
        db.sql("CREATE MATERIALIZED VIEW v AS SELECT * FROM t")
        exploded = "SELECT cast(10 + k + length(x) AS INT), x FROM t"
        exploded += " LATERAL VIEW explode(sentences(replace(s, ',', ' '))[0]) e AS x"
        with pytest.raises(sqlview.DataError, match="the key is there already"):
            db.sql(f"INSERT INTO t (k, s) {exploded}")
        assert db.sql(f"INSERT INTO t (k, s) {exploded} WHERE x > 'a'").rows() == [(2,)]
        assert sorted(db.view("v").rows())[2:] == [(12, "b", None), (13, "c", None)]
        with pytest.raises(sqlview.DataError, match="takes 3 columns here"):
            db.sql(f"INSERT INTO t {exploded}")


def test_views_are_verified_at_the_clock(spark: Any) -> None:
    with sqlview.connect(spark=spark, timezone=None) as db:
        db.sql("CREATE TABLE t (k INT, ts TIMESTAMP, day DATE)")
        start = datetime.datetime(2024, 3, 31, 0, 30, tzinfo=datetime.timezone.utc)
        db.advance(start)
        rows = [start + datetime.timedelta(minutes=20 * i) for i in range(-9, 9)]
        with db.transaction() as tx:
            tx.insert("t", [(i, at, at.date()) for i, at in enumerate(rows)])
        queries = (
            "SELECT k FROM t WHERE ts BETWEEN now() - interval 1 hour AND now()",
            "SELECT k FROM t WHERE day = current_date AND ts < localtimestamp()",
        )
        for i, query in enumerate(queries):
            db.sql(f"CREATE MATERIALIZED VIEW c{i} AS {query}")
        db.sql("CREATE MATERIALIZED VIEW above AS SELECT count(*) AS n FROM c0")
        for minutes in (0, 25, 90):
            db.advance(start + datetime.timedelta(minutes=minutes))
            for name in ("c0", "c1", "above"):
                found = db.verify(name, "spark")
                assert found.equal, str(found)
            assert len(db.view("c0")) in (3, 4)


def test_windows_of_time_as_spark_has_them(spark: Any) -> None:
    with sqlview.connect(spark=spark, timezone=None) as db:
        db.sql("CREATE TABLE t (k INT, ts TIMESTAMP, n TIMESTAMP_NTZ)")
        base = datetime.datetime(1969, 12, 31, 20, 17, 31, 5)
        rows = [base + datetime.timedelta(minutes=7 * i) for i in range(80)]
        with db.transaction() as tx:
            tx.insert("t", [(i, at, at) for i, at in enumerate(rows)])
            tx.insert("t", [(99, None, None)])
        queries = (
            "SELECT window.start, window.end, count(*) AS n FROM t GROUP BY window(ts, '1 hour')",
            (
                "SELECT window.end AS e, k % 2 AS g, sum(k) AS s FROM t WHERE k > 3 "
                "GROUP BY k % 2, window(n, '40 minutes', '15 minutes', '2 minutes')"
            ),
            "SELECT k, window(ts, '1 day', '9 hours').start AS s FROM t",
            (
                "SELECT window.start AS s, count(*) AS c FROM t GROUP BY window(ts, '3 hours') "
                "ORDER BY c DESC, s LIMIT 2"
            ),
        )
        for i, query in enumerate(queries):
            db.sql(f"CREATE MATERIALIZED VIEW p{i} AS {query}")
            found = db.verify(f"p{i}", "spark")
            assert found.equal and found.rows, str(found)
