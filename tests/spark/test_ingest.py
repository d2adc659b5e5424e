"""Reading DataFrames through files that Spark's tasks write."""

from __future__ import annotations

import datetime
import os
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from operators.executor.spark.ingest import read_dataframe
from planner.errors import DataError

pytestmark = pytest.mark.spark


def test_rows_in_order_of_partitions(spark: Any, tmp_path: Path) -> None:
    """Every row once, partition by partition, and no file is left behind."""
    frame = spark.range(0, 50_000, 1, 3).selectExpr("id", "cast(id as string) AS s")
    tables = read_dataframe(frame, str(tmp_path))
    assert len(tables) == 3
    whole = pa.concat_tables(tables)
    assert whole.column("id").to_pylist() == list(range(50_000))
    assert whole.column("s")[49_999].as_py() == "49999"
    assert os.listdir(tmp_path) == []


def test_types(spark: Any, tmp_path: Path) -> None:
    frame = spark.sql(
        "SELECT true AS b, cast(1 AS tinyint) AS i, 1.50BD AS d, 'x' AS s, X'00FF' AS y, "
        "DATE '2020-02-29' AS a, TIMESTAMP_NTZ '2020-01-01 00:00:01' AS n, cast(NULL AS int) AS e"
    )
    (table,) = read_dataframe(frame, str(tmp_path))
    assert table.schema.types == [
        pa.bool_(), pa.int8(), pa.decimal128(3, 2), pa.string(), pa.binary(), pa.date32(),
        pa.timestamp("us"), pa.int32(),
    ]  # fmt: skip
    assert table.to_pylist()[0] == {
        "b": True,
        "i": 1,
        "d": Decimal("1.50"),
        "s": "x",
        "y": b"\x00\xff",
        "a": datetime.date(2020, 2, 29),
        "n": datetime.datetime(2020, 1, 1, 0, 0, 1),
        "e": None,
    }


def test_no_rows(spark: Any, tmp_path: Path) -> None:
    assert read_dataframe(spark.range(5).where("id > 9"), str(tmp_path)) == []


def test_refused_type(spark: Any, tmp_path: Path) -> None:
    with pytest.raises(DataError, match='cannot take column "xs" of type variant'):
        read_dataframe(spark.sql("SELECT parse_json('1') AS xs"), str(tmp_path))


def test_lost_attempt_leaves_nothing(spark: Any, tmp_path: Path, fail_once: Any) -> None:
    """A task fails after it has written its file: the file of the second attempt counts."""
    directory = tmp_path / "files"
    frame = spark.range(0, 1000, 1, 2).mapInArrow(fail_once, "id long")
    tables = read_dataframe(frame, str(directory))
    assert pa.concat_tables(tables).column("id").to_pylist() == list(range(1000))
    assert (tmp_path / "failed").exists()
    assert os.listdir(directory) == []
