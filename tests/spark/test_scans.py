"""DataFrames that are nothing but Parquet files: which are, and that pyarrow reads what Spark
does."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sqlview
from sqlview import scans, transaction
from sqlview.scans import parts_of_scan
from sqlview.sources.files import read_part

pytestmark = pytest.mark.spark

_TEXTS = (pa.string(), pa.large_string(), pa.string_view())
_BYTES = (pa.binary(), pa.large_binary(), pa.binary_view())


def _table(rows: int, seed: int) -> pa.Table:
    """All types that a scan may have, with NULLs, and dates that the calendars differ about."""
    rng = np.random.default_rng(seed)
    numbers = rng.integers(-100, 100, rows).tolist()
    day, second = datetime.date(1500, 3, 1), datetime.datetime(1600, 1, 1)
    made = {
        "id": pa.array(range(rows), pa.int64()),
        "b": pa.array([n > 0 for n in numbers]),
        "i": pa.array(numbers, pa.int8()),
        "h": pa.array(numbers, pa.int16()),
        "n": pa.array([n * 7919 for n in numbers], pa.int32()),
        "d": pa.array([Decimal(n) / 4 for n in numbers], pa.decimal128(9, 2)),
        "w": pa.array([Decimal(n) * 10**20 for n in numbers], pa.decimal128(30, 4)),
        "f": pa.array([n / 3 for n in numbers], pa.float32()),
        "x": pa.array([n / 7 for n in numbers], pa.float64()),
        "s": pa.array([f"ü{n}" for n in numbers]),
        "y": pa.array([str(n).encode() for n in numbers], pa.binary()),
        "a": pa.array([day + datetime.timedelta(1000 * (n + 100)) for n in numbers]),
        "t": pa.array(
            [second + datetime.timedelta(1000 * (n + 100)) for n in numbers],
            pa.timestamp("us", "UTC"),
        ),
        "l": pa.array([second + datetime.timedelta(n) for n in numbers], pa.timestamp("us")),
    }
    gone = {name: rng.random(rows) < 0.1 for name in made}
    columns = {
        name: array if name == "id" else pa.array(
            [None if no else x for no, x in zip(gone[name], array.to_pylist(), strict=True)],
            array.type,
        )
        for name, array in made.items()
    }  # fmt: skip
    return pa.table(columns)


def _rows(table: pa.Table) -> list[str]:
    return sorted(map(repr, table.to_pylist()))


def _read(parts: Any, names: list[str]) -> pa.Table:
    tables = [table for number in range(len(parts)) for table, _ in read_part(parts, number)]
    kinds = {"s": pa.string(), "y": pa.binary()}
    fields = [pa.field(n, kinds.get(n, tables[0].schema.field(n).type)) for n in names]
    return pa.concat_tables([table.select(names).cast(pa.schema(fields)) for table in tables])


@contextmanager
def _set(spark: Any, name: str, value: str) -> Iterator[None]:
    before = spark.conf.get(name)
    spark.conf.set(name, value)
    try:
        yield
    finally:
        spark.conf.set(name, before)


def test_plain_scans(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts of several files are read as Spark reads the DataFrame, whatever columns it has, and
    however the writer had them."""
    monkeypatch.setattr("sqlview.sources.files._LEAST_PART_BYTES", 1)
    files = tmp_path / "a b%20#ü"
    files.mkdir()
    for number in range(3):
        table = _table(70, number)
        for name, kind in (("s", _TEXTS[number]), ("y", _BYTES[number])):
            place = table.schema.get_field_index(name)
            table = table.set_column(place, name, table[name].cast(kind))
        pq.write_table(table, files / f"{number}.parquet", row_group_size=20)
    (files / "_not").write_text("data")
    frame = spark.read.parquet(str(files))
    several = [
        (frame, 12),
        (frame.select("s", "id"), 12),
        (frame.drop("t").alias("q").select("q.*"), 12),
        (spark.read.option("mergeSchema", "true").parquet(str(files)), 12),
        (spark.read.parquet(str(files / "0.parquet"), str(files / "2.parquet")), 8),
    ]
    for each, count in several:
        parts = parts_of_scan(each, 100)
        assert parts is not None and len(parts) == count
        assert _rows(_read(parts, each.columns)) == _rows(each.toArrow())
    parts = parts_of_scan(frame, 1)
    assert parts is not None and 3 <= len(parts) < 12
    assert _rows(_read(parts, frame.columns)) == _rows(frame.toArrow())


def test_what_is_no_plain_scan(spark: Any, tmp_path: Path) -> None:
    """Whatever Spark reads otherwise is Spark's to read."""
    table, files = _table(10, 0), tmp_path / "t"
    files.mkdir()
    pq.write_table(table, files / "0.parquet")
    frame = spark.read.parquet(str(files))
    assert parts_of_scan(frame, 1) is not None
    for other in (
        frame.where("id > 3"), frame.limit(3), frame.distinct(), frame.sample(0.5),
        frame.selectExpr("id AS x"), frame.selectExpr("id", "id AS id"), frame.repartition(2),
        frame.union(frame), frame.select("_metadata.file_path"), frame.orderBy("id"),
        spark.range(3), spark.read.schema("id INT").parquet(str(files)),
        spark.read.schema("ID BIGINT").parquet(str(files)),
        spark.read.schema("id BIGINT, z STRING").parquet(str(files)),
        spark.read.option("datetimeRebaseMode", "LEGACY").parquet(str(files)),
        spark.read.option("ignoreCorruptFiles", "true").parquet(str(files)),
    ):  # fmt: skip
        assert parts_of_scan(other, 1) is None, other
    for name, value in (
        ("spark.sql.parquet.datetimeRebaseModeInRead", "LEGACY"),
        ("spark.sql.files.ignoreCorruptFiles", "true"),
        ("spark.sql.files.ignoreMissingFiles", "true"),
        ("spark.sql.session.timeZone", "Europe/Berlin"),
    ):
        with _set(spark, name, value):
            assert parts_of_scan(frame, 1) is None, name

    def written(name: str, table: pa.Table, **how: Any) -> Any:
        (tmp_path / name).mkdir(parents=True)
        pq.write_table(table, tmp_path / name / "0.parquet", **how)
        return spark.read.parquet(str(tmp_path / name).partition("/day=")[0])

    plain = pa.table({"id": [1, 2]})
    legacy = plain.replace_schema_metadata({"org.apache.spark.legacyDateTime": ""})
    second = pa.array([datetime.datetime(2020, 1, 1)] * 2)
    for other in (
        written("legacy", legacy),
        written("unsigned", pa.table({"id": pa.array([1, 2], pa.uint32())})),
        written("int96", pa.table({"t": second}), use_deprecated_int96_timestamps=True),
        written("millis", pa.table({"t": second.cast(pa.timestamp("ms"))})),
        written("nested", pa.table({"l": [[1], [2]]})),
        written("dots", pa.table({"a.b": [1, 2]})),
        written("named/day=3", plain),
    ):
        assert parts_of_scan(other, 1) is None, other
    cached = spark.read.parquet(str(files)).cache()
    assert parts_of_scan(cached, 1) is None
    cached.unpersist(blocking=True)
    (files / "0.parquet").unlink()
    assert parts_of_scan(frame, 1) is None


def test_load_of_a_scan(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A table has the same rows whoever reads the files; what does not fit is told with the row."""
    monkeypatch.setattr(transaction, "FEW_ROWS", 0)
    pq.write_table(_table(3_000, 5), tmp_path / "t.parquet", row_group_size=500)
    frame = spark.read.parquet(str(tmp_path / "t.parquet"))
    types = (
        "id BIGINT PRIMARY KEY, b BOOLEAN, i TINYINT, h SMALLINT, n INT, d DECIMAL(9,2), "
        "w DECIMAL(30,4), f FLOAT, x DOUBLE, s STRING, y BINARY, a DATE, t TIMESTAMP, "
        "l TIMESTAMP_NTZ"
    )
    with sqlview.connect(tmp_path / "store", spark=spark, placement="spark") as db:
        db.sql(f"CREATE TABLE scanned ({types})")
        db.sql(f"CREATE TABLE decoded ({types})")
        assert db.load("scanned", frame).rows == 3_000
        with pytest.raises(sqlview.DataError, match="the key is there already") as refused:
            db.load("scanned", frame)
        name = repr(str(tmp_path / "t.parquet"))
        assert refused.value.detail == f"Row 0 of {name} has id = 0."
        db.sql("CREATE TABLE few (id BIGINT NOT NULL, s STRING NOT NULL)")
        with pytest.raises(sqlview.DataError, match='NULL in column "s"') as refused:
            db.load("few", frame.select("s", "id"))
        assert str(refused.value.detail).startswith(f"In {name}: Row ")
        with monkeypatch.context() as patch:
            patch.setattr(scans, "_kind", lambda object: "")
            db.load("decoded", frame)
        found = [db._read(table).sort_by("id") for table in ("scanned", "decoded")]
        assert found[0].equals(found[1]) and found[0].num_rows == 3_000
