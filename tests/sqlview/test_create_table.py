"""Tables that are made of data: their types and keys; nothing is left of one that fails."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

import sqlview
from sqlview import BindError, CatalogError, DataError, Session, SqlSyntaxError, UnsupportedError

DAY = datetime.date(2024, 1, 31)
ROWS = [
    {"id": 2, "name": "b", "price": Decimal("1.5"), "day": None, "x": 0.5, "ok": True},
    {"id": 1, "name": None, "price": Decimal("10.25"), "day": DAY, "x": None, "ok": None},
]


@dataclasses.dataclass
class Item:
    id: int
    name: str


@pytest.fixture
def db() -> Iterator[Session]:
    with sqlview.connect(placement="inline") as session:
        yield session


def columns(db: Session, table: str) -> list[str]:
    return [str(field) for field in db._catalog.table(table).schema]


def rows(db: Session, table: str) -> list[tuple[Any, ...]]:
    db.sql(f"CREATE MATERIALIZED VIEW rows_of AS SELECT * FROM `{table}`")
    found = db.view("rows_of").rows()
    db.sql("DROP MATERIALIZED VIEW rows_of")
    return sorted(found)


@pytest.mark.parametrize("form", ["dicts", "columns", "generator", "table", "reader", "pandas"])
def test_types_and_rows_come_from_the_data(db: Session, form: str) -> None:
    table = pa.Table.from_pylist(ROWS)
    data: Any = {
        "dicts": lambda: ROWS,
        "columns": table.to_pydict,
        "generator": lambda: iter(ROWS),
        "table": lambda: table,
        "reader": lambda: table.to_reader(max_chunksize=1),
        "pandas": lambda: table.to_pandas().iloc[[0, 1]],
    }[form]()
    db.create_table("t", data, key="ID")
    digits = "4,2" if form in ("table", "reader") else "18,2"
    assert columns(db, "t") == [
        *("id BIGINT NOT NULL", "name STRING", f"price DECIMAL({digits})", "day DATE", "x DOUBLE"),
        "ok BOOLEAN",
    ]
    assert db.epoch == 1
    assert rows(db, "t") == [tuple(row.values()) for row in reversed(ROWS)]
    with pytest.raises(DataError, match="the key is there already"), db.transaction() as tx:
        tx.insert("t", ROWS[:1], cast=True)


def test_every_type_has_its_name(db: Session) -> None:
    moment = datetime.datetime(2024, 1, 31, 12)
    zoned = moment.replace(tzinfo=datetime.timezone.utc)
    kinds: dict[str, pa.Array] = {
        "TINYINT": pa.array([1], pa.int8()),
        "SMALLINT": pa.array([1], pa.uint8()),
        "INT": pa.array([1], pa.int32()),
        "BIGINT": pa.array([1], pa.uint32()),
        "DECIMAL(20,0)": pa.array([2**63], pa.uint64()),
        "FLOAT": pa.array([0.5], pa.float32()),
        "DOUBLE": pa.array([0.5]),
        "DECIMAL(5,2)": pa.array([Decimal("1.50")], pa.decimal128(5, 2)),
        "STRING": pa.array(["a"]).dictionary_encode(),
        "BINARY": pa.array([b"a"], pa.large_binary()),
        "DATE": pa.array([DAY], pa.date64()),
        "TIMESTAMP": pa.array([zoned], pa.timestamp("ns", "Europe/Paris")),
        "TIMESTAMP_NTZ": pa.array([moment], pa.timestamp("s")),
    }
    db.create_table("t", pa.table(list(kinds.values()), [f"c{i}" for i in range(len(kinds))]))
    assert columns(db, "t") == [f"c{i} {kind}" for i, kind in enumerate(kinds)]
    assert len(rows(db, "t")) == 1


def test_a_schema_makes_an_empty_table(db: Session) -> None:
    schema = pa.schema([("a", pa.int64()), pa.field("b", pa.string(), False), ("c", pa.date32())])
    db.create_table("t", schema, key=["c", "a"])
    assert columns(db, "t") == ["a BIGINT NOT NULL", "b STRING NOT NULL", "c DATE NOT NULL"]
    assert db.epoch == 0
    with db.transaction() as tx:
        tx.insert("t", [(1, "x", DAY)])
        tx.delete("t", [{"a": 1, "c": DAY}])
    assert rows(db, "t") == []


def test_other_rows_with_names(db: Session) -> None:
    db.create_table("items", [Item(1, "a"), Item(2, "b")], key=["id"])
    assert rows(db, "items") == [(1, "a"), (2, "b")]
    frame = pd.DataFrame({"k": ["x", "y"], "c": pd.Categorical(["p", None])}, index=[5, 7])
    db.create_table("o'd `n", frame)
    assert columns(db, "o'd `n") == ["k STRING", "c STRING"]
    db.create_table("empty", pa.table({"a": pa.array([], pa.int64())}), key=["a"])
    assert db.epoch == 2 and columns(db, "empty") == ["a BIGINT NOT NULL"]


@pytest.mark.parametrize(
    ("data", "key", "says"),
    [
        ([(1, 2)], (), "row 0 has no names for its columns"),
        ([{"a": 1}, {"b": 1}], (), "row 1 has other columns than row 0"),
        ([], (), "there are no rows to tell the columns"),
        ({}, (), "the data has none"),
        (pa.schema([]), (), "the data has none"),
        ({"a": [1, "x"]}, (), 'column "a" has values of no one type'),
        ({"a": [2**70]}, (), 'column "a"'),
        ({"a": [None]}, (), 'column "a" has no type, but NULLs alone'),
        ({"a": [[datetime.time(1)]]}, (), 'column "a" has the type list<'),
        ({"a": [{"b": datetime.time(1)}]}, (), 'column "a" has the type struct<'),
        ({"a": [datetime.time(1)]}, (), "column.cast(pa.string())"),
        ({"a": [1], "A": [2]}, (), 'the data has column "A" twice'),
        ({"": [1]}, (), "a column has no name"),
        ({"alpha": [1]}, ["alhpa"], 'Did you mean "alpha"?'),
        ({"a": [1]}, ["a", "A"], "the key names a column twice"),
        ({"a": [1, None]}, ["a"], 'NULL in column "a"'),
        ({"a": [1, 1]}, ["a"], "the key is there already"),
        ({"a": ["\ud800"]}, (), 'column "a"'),
        (pa.table({"a": pa.array([1], pa.timestamp("ns"))}), (), "would lose a part"),
        (5, (), "changes cannot be given as int"),
    ],
    ids=lambda v: v if isinstance(v, str) else "",
)  # fmt: skip
def test_nothing_is_left_of_one_that_fails(db: Session, data: Any, key: Any, says: str) -> None:
    with pytest.raises(DataError) as caught:
        db.create_table("t", data, key)
    assert says in str(caught.value), str(caught.value)
    assert '"t"' in caught.value.message
    assert db.epoch == 0 and db.sql("SHOW TABLES").rows() == []
    db.create_table("t", {"a": [1]}, ["a"])
    assert rows(db, "t") == [(1,)]
    with pytest.raises(CatalogError, match='"T" exists already'):
        db.create_table("T", {"a": [1]})
    assert rows(db, "t") == [(1,)]


def test_arguments_of_other_types(db: Session) -> None:
    for bad in ("", "a\ud800"):
        with pytest.raises(CatalogError, match="no table can have the name"):
            db.create_table(bad, {"a": [1]})
    for data in ({"a\ud800": [1]}, [{"a\ud800": 1}]):
        with pytest.raises(DataError, match="no column can have the name"):
            db.create_table("t", data)
    for name, key in ((5, ()), ("t", 5), ("t", [5])):
        with pytest.raises(TypeError):
            db.create_table(name, {"a": [1]}, key)  # type: ignore[arg-type]
    assert db.sql("SHOW TABLES").rows() == []


def test_all_that_is_wrong_with_a_schema_is_said_at_once(db: Session) -> None:
    data = {"a": pa.array([1], pa.time64("us")), "b": [None], "c": [1]}
    with pytest.raises(DataError) as caught:
        db.create_table("t", data, ["d"])
    assert caught.value.message == 'cannot create "t": the data does not fit for 3 reasons'


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("CREATE TABLE t USING parquet AS SELECT 1 AS a", "a table with USING (line 1, column 16)"),
        ("CREATE TABLE t\nPARTITIONED BY (a) AS SELECT 1 AS a", "a table with PARTITIONED (line 2"),
        ("CREATE TABLE t LOCATION '/tmp/x' AS SELECT 1 AS a", "db.load(table, path)"),
        ("CREATE TABLE t TBLPROPERTIES ('a'='b') AS SELECT 1 AS a", "TBLPROPERTIES"),
        ("CREATE TABLE t (a INT) USING delta", "a table with USING"),
        ("CREATE TABLE t (a INT) LOCATION 'x'", "a table with LOCATION"),
    ],
)
def test_clauses_of_files_mean_nothing(db: Session, text: str, says: str) -> None:
    with pytest.raises(UnsupportedError) as caught:
        db.sql(text)
    assert says in str(caught.value) and caught.value.hint


@pytest.mark.parametrize(
    "text",
    [
        "CREATE TABLE t AS",
        "CREATE TABLE t AS DROP TABLE t",
        "CREATE TABLE t (a INT) AS SELECT 1 AS a",
        "CREATE TABLE t SELECT 1",
        "CREATE OR REPLACE TABLE t AS SELECT 1 AS a",
        "CREATE TABLE t AS SELECT 1; SELECT 2",
    ],
)
def test_other_texts_are_refused_without_spark(db: Session, text: str) -> None:
    with pytest.raises((SqlSyntaxError, UnsupportedError)):
        db.sql(text)
    assert not db._has_spark


@pytest.mark.spark
def test_create_table_as_select(spark: Any) -> None:
    with sqlview.connect(spark=spark, placement="inline") as db:
        db.create_table("orders", {"id": [1, 2, 3], "who": ["a", "b", "a"], "n": [5, 6, 7]}, "id")
        db.sql("CREATE MATERIALIZED VIEW per AS SELECT who, sum(n) AS n FROM orders GROUP BY who")
        db.sql(
            "CREATE TABLE best AS SELECT who, n, CAST(n AS DECIMAL(9,2)) AS half,"
            " DATE '2024-01-31' AS day, TIMESTAMP '2024-01-31 12:00:00' AS at FROM per WHERE n > 5"
        )
        assert columns(db, "best") == [
            *("who STRING", "n BIGINT", "half DECIMAL(9,2)", "day DATE", "at TIMESTAMP"),
        ]
        assert [row[:2] for row in rows(db, "best")] == [("a", 12), ("b", 6)]
        epoch = db.epoch
        db.sql("CREATE TABLE IF NOT EXISTS best AS SELECT nothing FROM nowhere")
        db.sql("CREATE TABLE none AS SELECT * FROM best WHERE n < 0")
        assert db.epoch == epoch and columns(db, "none") == columns(db, "best")
        with pytest.raises(CatalogError, match='"best" exists already'):
            db.sql("CREATE TABLE best AS SELECT 1 AS a")
        with pytest.raises(BindError) as caught:
            db.sql("CREATE TABLE t AS\n  SELECT nosuch FROM orders")
        assert (caught.value.line, caught.value.column) == (2, 10)
        for query, says in (
            ("SELECT NULL AS a, NULL AS b", "2 reasons"),
            ("SELECT 1 AS a, 2 AS A", 'column "A" twice'),
            ("SELECT NULL AS a", 'column "a"'),
        ):
            with pytest.raises(DataError) as refused:
                db.sql(f"CREATE TABLE t AS {query}")
            assert says in str(refused.value), str(refused.value)
        assert sorted(db.sql("SHOW TABLES").to_arrow()["table"].to_pylist()) == [
            *("best", "none", "orders"),
        ]
        db.create_table("frame", spark.sql("SELECT 1 AS a, 'x' AS b"), key=["a"])
        assert rows(db, "frame") == [(1, "x")]
