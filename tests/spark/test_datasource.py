"""`spark.read.format("sqlview")`: tables and views of a store, read by Spark's tasks."""

from __future__ import annotations

import datetime
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException, PySparkException, StreamingQueryException
from pyspark.sql import DataFrame

import sqlview
from sqlview.datasource import SqlViewDataSource

pytestmark = pytest.mark.spark

COLUMNS = (
    "id BIGINT PRIMARY KEY, flag BOOLEAN, i8 TINYINT, i16 SMALLINT, i32 INT, f32 FLOAT, f64 DOUBLE,"
    " price DECIMAL(15,2), wide DECIMAL(38,6) NOT NULL, name STRING, raw BINARY, day DATE,"
    " moment TIMESTAMP, clock TIMESTAMP_NTZ"
)
#: So many at once are blocks of their own, which lie in files.
N = 20_000
Read = Callable[..., DataFrame]


def row(k: int) -> tuple[Any, ...]:
    """A row of all types; in each seventh everything is NULL that can be."""
    wide = Decimal(k) * 10**20 + Decimal("0.000001")
    if k % 7 == 0:
        return (k, *[None] * 7, wide, *[None] * 5)
    day = datetime.date(2000, 1, 1) + datetime.timedelta(days=k % 9000)
    at = datetime.datetime(1990, 1, 1) + datetime.timedelta(seconds=k * 7919)
    return (
        *(k, k % 2 == 0, k % 100, -k % 1000, k, k / 4, -k / 3, Decimal(k) / 100, wide),
        *(f"naïve {k % 501}", bytes([k % 256]) * (k % 5), day),
        *(at.replace(tzinfo=datetime.timezone.utc), at),
    )


def fill(db: sqlview.Session) -> None:
    """Tables and views with rows that came, changed and went."""
    db.sql(f"CREATE TABLE things ({COLUMNS})")
    db.sql("CREATE TABLE empty (a INT)")
    db.sql("CREATE STREAM events (a INT)")
    db.sql("CREATE MATERIALIZED VIEW seen AS SELECT * FROM things WHERE id % 3 <> 1")
    db.sql(
        "CREATE MATERIALIZED VIEW names AS SELECT name, count(*) AS n, sum(price) AS total"
        " FROM things GROUP BY name"
    )
    db.sql(
        "CREATE MATERIALIZED VIEW dearest AS SELECT id, price FROM things"
        " ORDER BY price DESC NULLS LAST, id LIMIT 50"
    )
    with db.transaction() as tx:
        tx.insert("things", [row(k) for k in range(N)])
    with db.transaction() as tx:
        tx.delete("things", [(k,) for k in range(0, N, 5)])
        tx.upsert("things", [(1000, *row(3)[1:]), (N, *row(5)[1:])])


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("filled") / "store"
    with sqlview.connect(path) as db:
        fill(db)
    return path


@pytest.fixture
def read(spark: Any) -> Read:
    spark.dataSource.register(SqlViewDataSource)

    def load(path: Path, name: str, **options: str) -> DataFrame:
        found = spark.read.format("sqlview").option("store", str(path)).options(**options)
        return found.load(name)

    return load


def in_order(table: pa.Table) -> pa.Table:
    """By the first column, which is a key."""
    return table.sort_by(table.column_names[0])


def local(path: Path, name: str) -> pa.Table:
    """What a session reads of a table or view."""
    with sqlview.connect(path, read_only=True) as db, db.snapshot() as snapshot:
        if name in ("things", "empty", "t"):
            return snapshot.table(name).to_arrow()
        return snapshot.view(name).to_arrow()


@pytest.mark.parametrize("name", ["things", "seen", "names", "dearest", "empty"])
def test_what_is_read_is_what_the_session_reads(filled: Path, read: Read, name: str) -> None:
    expected = local(filled, name)
    found = read(filled, name)
    table = found.toArrow()
    assert table.schema.equals(expected.schema)
    assert found.count() == expected.num_rows
    if name == "dearest":
        assert table.equals(expected), "it comes in its order"
    assert in_order(table).equals(in_order(expected))


def test_only_the_columns_that_are_asked_for_are_read(filled: Path, read: Read) -> None:
    found = read(filled, "things", columns="Price, id")
    assert found.columns == ["price", "id"]
    assert found.where("id = 1000").collect() == [(Decimal("0.03"), 1000)]
    assert read(filled, "dearest", columns='["price"]').count() == 50


def test_rows_are_found_by_an_index(filled: Path, read: Read) -> None:
    found = read(filled, "things", where='{"ID": 1000}', columns="name, price")
    assert found.collect() == [("naïve 3", Decimal("0.03"))]
    assert read(filled, "things", where='{"id": 5}').count() == 0, "it was deleted"
    assert read(filled, "things", where='{"id": "11", "name": "other"}').count() == 0
    assert read(filled, "things", where='{"id": 11, "price": 0.11, "raw": null}').count() == 0
    assert read(filled, "things", where='{"id": 14, "price": null}').count() == 1


def test_rows_behind_the_checkpoint_come_along(tmp_path: Path, read: Read) -> None:
    path = tmp_path / "store"
    with sqlview.connect(path) as db:
        db.sql("CREATE TABLE t (a BIGINT PRIMARY KEY, b INT)")
        db.sql("CREATE MATERIALIZED VIEW v AS SELECT b, count(*) AS n FROM t GROUP BY b")
        with db.transaction() as tx:
            b = pa.array([k % 3 for k in range(N)], pa.int32())
            tx.insert("t", pa.table({"a": range(N), "b": b}))
        db.checkpoint()
        with db.transaction() as tx:
            tx.delete("t", [(k,) for k in range(0, N, 2)])
            tx.insert("t", [(-k, 7) for k in range(1, 100)])
        before = read(path, "t")
        with db.transaction() as tx:
            tx.delete("t", [(k,) for k in range(1, 1001, 2)])
        after, groups = read(path, "t"), read(path, "v")
        count = N // 2 + 99
        assert before.join(before, "a").count() == count, "a DataFrame is of one epoch"
        assert after.count() == count - 500
        assert sorted(map(tuple, groups.collect())) == sorted(db.view("v").rows())


def claims(path: Path) -> list[Path]:
    return list(path.glob("reader-*"))


def test_what_a_read_needs_stays_until_nobody_has_read_it_for_long(
    tmp_path: Path, read: Read
) -> None:
    path = tmp_path / "store"
    with sqlview.connect(path) as db:
        db.sql("CREATE TABLE t (a BIGINT PRIMARY KEY, b INT)")
        with db.transaction() as tx:
            tx.insert("t", pa.table({"a": range(N), "b": pa.array(range(N), pa.int32())}))
        db.checkpoint()
        found = read(path, "t")
        with db.transaction() as tx:
            tx.delete("t", [(k,) for k in range(1, N)])
        with db.transaction() as tx:
            tx.insert("t", [(-1, 1)])  # rows that died are forgotten, and the block is rewritten
        db.checkpoint()
        assert found.agg({"b": "sum"}).collect() == [(N * (N - 1) // 2,)]
        assert read(path, "t").count() == 2
        first, *_ = sorted(claims(path), key=os.path.getmtime)
        for claim in claims(path):
            os.utime(claim, (0, 0))
        assert found.count() == N, "whoever reads renews"
        assert first.exists()
        for claim in claims(path):
            os.utime(claim, (0, 0))
        db.checkpoint(even_if_same=True)
        assert claims(path) == []
        with pytest.raises(PySparkException, match=r'epoch 1 of the store ".*" is gone'):
            found.agg({"b": "sum"}).collect()


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("nothing", {}, 'table or view "nothing" does not exist'),
        ("events", {}, 'stream "events" has no rows to read'),
        ("names", {"columns": "nme"}, '"names" has no column "nme"'),
        ("names", {"columns": ""}, "a read has one column at least"),
        ("things", {"where": '{"name": "x"}'}, '"things" has no index by which to find these rows'),
        ("things", {"where": '{"id": "x"}'}, 'column "id" is BIGINT'),
        ("things", {"where": '{"ix": 1}'}, '"things" has no column "ix"'),
        ("things", {"where": "id = 1"}, "the option where is a JSON object"),
        ("names", {"epoch": "soon"}, "an epoch is a whole number, not 'soon'"),
        ("names", {"epoch": "1"}, 'changes of view "names" are not retained'),
        ("names", {"column": "name"}, 'a read has no option "column"'),
    ],
)
def test_what_is_not_there_is_said_at_load(
    filled: Path, name: str, options: dict[str, str], message: str
) -> None:
    source = SqlViewDataSource({"store": str(filled), "path": name, **options})
    with pytest.raises(sqlview.SqlViewError, match=message):
        source.schema()


def test_a_path_that_is_no_store_is_refused(tmp_path: Path) -> None:
    for options, message in (
        ({"store": str(tmp_path / "nowhere"), "path": "v"}, r'there is no store in ".*/nowhere"'),
        ({"store": "ftp://host/store", "path": "v"}, 'a store cannot be at "ftp://host/store"'),
        ({"path": "v"}, "a read names a store and a table or view"),
        ({"store": str(tmp_path)}, "a read names a store and a table or view"),
    ):
        with pytest.raises(sqlview.SqlViewError, match=message):
            SqlViewDataSource(options).schema()


def test_spark_says_what_is_wrong(tmp_path: Path, filled: Path, read: Read, spark: Any) -> None:
    with pytest.raises(AnalysisException, match=r'there is no store in ".*/nowhere"'):
        read(tmp_path / "nowhere", "v")
    loaded = spark.read.format("sqlview").schema("a INT").option("store", str(filled))
    with pytest.raises(PySparkException, match="a table or view of a store has its own columns"):
        loaded.load("names").collect()


def test_an_earlier_epoch_is_read_while_it_is_retained(tmp_path: Path, read: Read) -> None:
    path = tmp_path / "store"
    with sqlview.connect(path, retain=2) as db:
        add_counts(db)
        assert sorted(map(tuple, read(path, "v", epoch="1").collect())) == [("a", 1), ("b", 1)]
        count(db, "a")
        count(db, "a")
        assert sorted(map(tuple, read(path, "v", epoch="2").collect())) == [("a", 2), ("b", 1)]


def add_counts(db: sqlview.Session) -> None:
    db.sql("CREATE TABLE t (a STRING)")
    db.sql("CREATE MATERIALIZED VIEW v AS SELECT a, count(*) AS n FROM t GROUP BY a")
    count(db, "a", "b")


def count(db: sqlview.Session, *values: str) -> None:
    with db.transaction() as tx:
        tx.insert("t", [(value,) for value in values])


def test_a_stream_gives_the_changes_of_a_view(tmp_path: Path, spark: Any) -> None:
    spark.dataSource.register(SqlViewDataSource)
    path, rows = tmp_path / "store", Counter[tuple[Any, ...]]()
    loader = spark.readStream.format("sqlview").option("store", str(path))

    def add(batch: DataFrame, _: int) -> None:
        for *row, _time, diff in batch.collect():
            rows[tuple(row)] += diff

    def started(since: int) -> Any:
        changes = loader.option("changes", "true").option("since", since).load("v")
        assert changes.columns == ["a", "n", "__time", "__diff"]
        writer = changes.writeStream.foreachBatch(add)
        return writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()

    def check(query: Any, db: sqlview.Session) -> None:
        query.processAllAvailable()
        assert sorted(rows.elements()) == sorted(db.view("v").rows())
        assert min(rows.values()) >= 0

    with sqlview.connect(path, retain=4) as db:
        add_counts(db)
        query = started(0)
        query.processAllAvailable()
        count(db, "a", "c")
        db.checkpoint()
        count(db, "b")
        check(query, db)
        query.stop()
        count(db, "c", "c")
        query = started(0)  # goes on at the offset that Spark has noted
        check(query, db)
        query.stop()
        for _ in range(6):
            count(db, "d")
        db.checkpoint()
    query = started(0)
    with pytest.raises(StreamingQueryException, match='of view "v" since epoch 4 are not there'):
        query.processAllAvailable()
    asked = {"store": str(path), "path": "v", "changes": "true"}
    with sqlview.connect(path) as db:  # which retains nothing
        count(db, "e")
    with pytest.raises(sqlview.DataError, match='the changes of view "v" are not retained'):
        SqlViewDataSource(asked).schema()
    with pytest.raises(sqlview.DataError, match='a stream of changes has no option "columns"'):
        SqlViewDataSource({**asked, "columns": "n"}).schema()


#: Each transaction takes rows away and adds others, so that the sum is that of the epoch: epoch 1
#: has N zeros, each later one replaces 2,000 of them by the number of the epoch.
WRITER = """
import sys, sqlview
N, EACH = 20_000, 2_000
with sqlview.connect(sys.argv[1]) as db:
    db.sql("CREATE TABLE t (a BIGINT PRIMARY KEY, b BIGINT, c STRING)")
    db.sql("CREATE MATERIALIZED VIEW v AS SELECT b, count(*) AS n FROM t GROUP BY b")
    with db.transaction() as tx:
        tx.insert("t", [(a, 0, "begun") for a in range(N)])
    db.checkpoint()
    print(db.epoch, flush=True)
    for line in sys.stdin:
        for _ in range(4):
            with db.transaction() as tx:
                k = db.epoch + 1
                some = [(k * EACH + i) % N for i in range(EACH)]
                tx.upsert("t", [(a, k, f"epoch {k}") for a in some])
        db.checkpoint()
        with db.transaction() as tx:
            tx.upsert("t", [(0, -1, None)])
        with db.transaction() as tx:
            tx.upsert("t", [(0, -2, None)])
        print(db.epoch, flush=True)
"""


def test_a_store_is_read_while_another_process_writes_it(tmp_path: Path, read: Read) -> None:
    path = tmp_path / "store"
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as writer:
        assert writer.stdin is not None and writer.stdout is not None
        assert writer.stdout.readline() == "1\n"
        held = read(path, "t")
        frames = []
        for _ in range(2):
            writer.stdin.write("on\n")
            writer.stdin.flush()
            frames.append((read(path, "t"), read(path, "v")))  # while it is at work
            writer.stdout.readline()
        for rows, groups in frames:
            assert rows.count() == N
            assert rows.select("a").distinct().count() == N
            assert groups.agg({"n": "sum"}).collect() == [(N,)]
        expected = local(path, "v").to_pylist()
        found = read(path, "t").groupBy("b").count().withColumnRenamed("count", "n")
        assert sorted(map(tuple, found.collect())) == sorted(tuple(r.values()) for r in expected)
        assert held.where("b = 0").count() == N, "it is of the epoch at which it was loaded"
        writer.stdin.close()
    assert writer.returncode == 0


def test_a_lazy_view_is_read_once_its_session_has(tmp_path: Path, read: Read, spark: Any) -> None:
    path = tmp_path / "store"
    with sqlview.connect(path, spark=spark) as db:
        db.sql("CREATE TABLE t (a INT)")
        for name in ("v", "w"):
            db.sql(
                f"CREATE MATERIALIZED VIEW {name} WITH (lazy = true) AS SELECT a + 1 AS b FROM t"
            )
        with db.transaction() as tx:
            tx.insert("t", [(1,), (2,)])
        with pytest.raises(AnalysisException, match='view "v" is lazy, and nobody has read it'):
            read(path, "v")
        assert [tuple(r) for r in db.sql("SELECT sum(b) FROM v").to_df().collect()] == [(5,)]
        assert sorted(r.b for r in db.view("w").to_df().collect()) == [2, 3]
        assert all(view.computed for view in db.metrics().views.values())
        assert sorted(r.b for r in read(path, "v").collect()) == [2, 3]
