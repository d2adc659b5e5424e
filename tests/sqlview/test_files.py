"""Files: every format read exactly, what paths stand for, and errors with file and row."""

from __future__ import annotations

import datetime
import gzip
import json
import os
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from pyarrow import csv

import sqlview
from sqlview import DataError, Session
from sqlview.sources import files, given

UTC = datetime.timezone.utc
ROWS: list[tuple[Any, ...]] = [
    (1, "a,\n\"b'", Decimal("1.50"), datetime.date(2024, 1, 31), 0.1, True,
     datetime.datetime(2024, 1, 31, 10, 20, 30, tzinfo=UTC), 2**62 + 1),
    (2, None, None, None, None, None, None, None),
    (3, "", Decimal("-0.01"), datetime.date(1, 1, 1), -1e300, False,
     datetime.datetime(2024, 1, 31, 8, 20, 30, 123456, tzinfo=UTC), -(2**63)),
]  # fmt: skip
CSV = """id,S,d,day,x,b,at,big
1,"a,
""b'",1.50,2024-01-31,0.1,true,2024-01-31 10:20:30,4611686018427387905
2,,,,,,,
3,"",-0.01,0001-01-01,-1e300,FALSE,2024-01-31T10:20:30.123456+02:00,-9223372036854775808
"""
TABLE = pa.table(list(zip(*ROWS, strict=True)), ["id", "s", "d", "day", "x", "b", "at", "big"])


@pytest.fixture
def db(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    monkeypatch.chdir(tmp_path)
    with sqlview.connect(placement="inline") as session:
        session.sql(
            "CREATE TABLE t (id INT PRIMARY KEY, s STRING, d DECIMAL(5,2), day DATE, x DOUBLE,"
            " b BOOLEAN, at TIMESTAMP, big BIGINT)"
        )
        session.sql("CREATE MATERIALIZED VIEW v AS SELECT * FROM t")
        session.sql("CREATE TABLE p (id INT, day STRING, n INT)")
        session.sql("CREATE MATERIALIZED VIEW q AS SELECT * FROM p")
        yield session


def write(path: str) -> None:
    """TABLE, in the format that the path's ending says."""
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    name = path.removesuffix(".gz")
    lines = [{k: v for k, v in row.items() if v is not None} for row in TABLE.to_pylist()]
    text = "\n".join(json.dumps(row, default=str) for row in lines)
    match name.rpartition(".")[2]:
        case "csv":
            data = CSV.encode()
        case "tsv":
            data = CSV.replace("a,", "a\t").replace(",", "\t").replace('"a\t', '"a,').encode()
        case "json" | "jsonl":
            data = text.encode()
        case "parquet":
            return pq.write_table(TABLE, path)
        case "feather":
            return pyarrow.feather.write_feather(TABLE, path)
        case _:
            with pa.OSFile(path, "wb") as sink:
                new = pa.ipc.new_stream if name.endswith("s") else pa.ipc.new_file
                with new(sink, TABLE.schema) as writer:
                    writer.write_table(TABLE, max_chunksize=2)
            return None
    Path(path).write_bytes(gzip.compress(data) if path.endswith(".gz") else data)
    return None


NAMES = [
    *("t.csv", "t.CSV", "t.csv.gz", "t.tsv", "t.json", "t.jsonl.gz", "t.parquet", "t.arrow"),
    *("t.arrows", "t.feather", "a b/ü'\"; [x]*?.csv", "-t.csv", "t.1.csv"),
]


@pytest.mark.parametrize("name", NAMES)
def test_every_format_is_read_exactly(db: Session, name: str) -> None:
    write(name.lower() if name == "t.CSV" else name)
    if name == "t.CSV":
        os.rename("t.csv", name)
    assert db.load("t", name) == sqlview.Loaded(rows=3, files=1, epoch=1)
    assert sorted(db.view("v").rows()) == ROWS


def test_formats_can_be_said(db: Session) -> None:
    write("t.parquet")
    Path("t.parquet").rename("data")
    assert db.load("t", Path("data"), format="parquet").rows == 3
    with pytest.raises(DataError, match="the format of 'data' is not known"):
        db.load("t", "data")
    with pytest.raises(DataError, match="there is no format 'xml'"):
        db.load("t", "data", format="xml")
    with pytest.raises(DataError, match="cannot load 'data' into \"t\": the file cannot be read"):
        db.load("t", "data", format="arrow")


def test_directories_patterns_and_lists(db: Session) -> None:
    for i, name in enumerate(
        ["d/day=b%20c/1.csv", "d/day=a/2.csv", "d/day=__HIVE_DEFAULT_PARTITION__/3.csv"]
    ):
        Path(name).parent.mkdir(parents=True)
        Path(name).write_text(f"id,n\n{i},5\n")
    for name in ("d/_SUCCESS", "d/.part.csv.crc", "d/_tmp/x.csv"):
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_text("no data")
    assert db.load("p", "d") == sqlview.Loaded(3, 3, 1)
    assert sorted(db.view("q").rows()) == [(0, "b c", 5), (1, "a", 5), (2, None, 5)]
    Path("e1.csv").write_text("id,day,n\n7,x,\n")
    Path("e2.csv").write_text("id,day,n\n")
    assert db.load("p", np.str_("e*.csv")).rows == 1
    assert db.load("p", ["e2.csv", Path("e1.csv")]) == sqlview.Loaded(1, 2, 3)
    assert db.load("p", "e2.csv") == sqlview.Loaded(0, 1, None)
    assert db.load("p", "d/day=*/3.csv") == sqlview.Loaded(1, 1, 4)
    # A name that reads like a pattern is a name, if there is such a file.
    Path("e[1].csv").write_text("id,day,n\n9,x,\n")
    assert db.load("p", "e[1].csv").rows == 1 and (9, "x", None) in db.view("q").rows()
    pq.write_table(pa.table({"id": [1], "n": [2]}), "d/day=a/4.parquet")
    with pytest.raises(DataError, match='lacks column "day"'):
        db.load("p", "d/day=a/4.parquet")  # the directories of a file alone mean nothing
    db.load("p", np.str_("d"))
    assert (1, "a", 2) in db.view("q").rows()


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("nowhere.csv", "there is no file 'nowhere.csv'"),
        ("no/*.csv", "there is no file"),
        ("", "there is no path ''"),
        ("a\0b", "there is no path"),
        (5, "a path cannot be given as int"),
        (np.array(5), "a path cannot be given as ndarray"),
        (b"t.csv", "a path cannot be given as bytes"),
        ([None], "a path cannot be given as NoneType"),
        (["t.csv", "nowhere.csv"], "there is no file 'nowhere.csv'"),
        ("empty", "there is no file 'empty'"),
        (np.str_("empty"), "there is no file 'empty'"),
    ],
)
def test_bad_paths(db: Session, path: Any, says: str) -> None:
    write("t.csv")
    Path("empty").mkdir()
    with pytest.raises(DataError) as caught:
        db.load("t", path)
    assert says in caught.value.message
    assert db.epoch == 0 and len(db.view("v")) == 0


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        (
            "x.csv",
            "id,day,n\n1,a,2\n2,b,x\n",
            "Row 1 of the data has 'x', which does",
        ),
        ("x.csv", "id,day,n\n1,a,0x10\n", "has '0x10'"),
        ("x.csv", "id,day,n\n1,a,2\n3,b\n", "Expected 3 columns, got 2"),
        ("x.csv", "id;day;n\n1;a;2\n", 'It has column "id;day;n".'),
        ("x.csv", "id,day,n,m\n1,a,2,3\n", 'the data has column "m", which the table lacks'),
        ("x.csv", "id,day,ID,n\n1,a,2,3\n", "twice"),
        ("x.csv", "", "Empty CSV file"),
        ("x.json", '{"id": 1}\n{"id": 1.5}\n', "Row 1 of the data has '1.5'"),
        ("x.json", '{"id": 1}\n{"id": 2,}\n', "line 2 is not JSON"),
        ("x.json", '[{"id": 1}]', "line 1 is no object"),
        ("x.json", '{"id": [1]}', "row 0 has [1]"),
        ("x.json", '{"id": 1, "idd": 2}', 'unknown column "idd"'),
        ("x.json", '{"day": "\\ud800"}', "lone surrogate"),
        ("x.json", "[" * 100_000, "line 1 is not JSON"),
        ("x.parquet", "id,day,n\n", "the file cannot be read"),
        ("x.arrow", "ARROW1", "the file cannot be read"),
        ("x.feather", "FEA1", "the file cannot be read"),
    ],
    ids=lambda v: v if len(v) < 20 else "",
)
def test_bad_files_are_named(db: Session, name: str, text: str, says: str) -> None:
    Path("good.csv").write_text("id,day,n\n1,a,2\n")
    Path(name).write_text(text)
    with pytest.raises(DataError) as caught:
        db.load("p", ["good.csv", name])
    assert caught.value.message.startswith(f"cannot load '{name}' into \"p\": ")
    assert says in str(caught.value), str(caught.value)
    assert db.epoch == 0 and len(db.view("q")) == 0


def test_bytes_that_are_no_text(db: Session) -> None:
    for name, data in (("x.csv", b"id,day,n\n1,\xff,2\n"), ("x.json", b'{"day": "\xff"}')):
        Path(name).write_bytes(data)
        with pytest.raises(DataError, match=f"cannot load '{name}'"):
            db.load("p", name)
    Path("bom.csv").write_bytes("\ufeffid,day,n\n1,ü,2\n".encode())
    Path("bom.json").write_bytes('\ufeff{"id": 1, "day": "ü", "n": 2}\n\n'.encode())
    assert db.load("p", ["bom.csv", "bom.json"]).rows == 2
    assert db.view("q").rows() == [(1, "ü", 2)] * 2


def test_large_files_are_read_in_pieces(db: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(given, "PIECE_ROWS", 10)
    monkeypatch.setattr(files, "_BLOCK_BYTES", 200)
    Path("x.csv").write_text("id,day,n\n" + "".join(f"{i},a,{i}\n" for i in range(100)))
    assert db.load("p", "x.csv").rows == 100
    Path("x.csv").write_text("id,day,n\n" + "".join(f"{i},a,{i}\n" for i in range(77)) + "x,y,z\n")
    with pytest.raises(DataError, match="Row 77 of the data has 'x'"):
        db.load("p", "x.csv")
    assert db.epoch == 1


def test_a_file_that_changes_later_changes_nothing(db: Session) -> None:
    table = pa.table({"id": range(1000), "day": ["a"] * 1000, "n": [1] * 1000})
    pyarrow.feather.write_feather(table, "x.arrow", compression="uncompressed")
    db.load("p", "x.arrow")
    Path("x.arrow").write_bytes(b"")
    assert sum(row[0] for row in db.view("q").rows()) == 499_500


@pytest.mark.parametrize("name", ["x.csv", "x.jsonl", "x.parquet", "x.arrow"])
def test_a_file_that_is_changed_while_it_is_read(
    db: Session, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing of it is loaded; it is when nobody changes it."""
    rows = pa.table({"id": range(100), "day": ["a"] * 100, "n": [1] * 100})
    match name.partition(".")[2]:
        case "csv":
            csv.write_csv(rows, name)
        case "jsonl":
            Path(name).write_text("".join(f"{json.dumps(row)}\n" for row in rows.to_pylist()))
        case "parquet":
            pq.write_table(rows, name)
        case _:
            pyarrow.feather.write_feather(rows, name)

    def changing(call: Any) -> Any:
        def called(*given: Any) -> Any:
            for piece in call(*given):
                os.utime(name, (1, 1))
                yield piece

        return called

    with monkeypatch.context() as patch:
        for reader in ("_completed", "_told"):
            patch.setattr(files, reader, changing(getattr(files, reader)))
        with pytest.raises(DataError) as refused:
            db.load("p", name)
    said = f"cannot load '{name}' into \"p\": the file was changed while it was read"
    assert refused.value.message == said
    assert db.epoch == 0 and len(db.view("q")) == 0
    assert db.load("p", name).rows == 100


def test_formats_of_other_types(db: Session) -> None:
    for odd in (5, b"csv", ["csv"]):
        with pytest.raises(TypeError, match="format"):
            db.load("t", "t.csv", format=odd)  # type: ignore[arg-type]


def test_parquet_is_strict_if_told(db: Session) -> None:
    pq.write_table(pa.table({"id": ["1"], "day": ["a"], "n": [1.0]}), "x.parquet")
    with pytest.raises(DataError, match="2 reasons"):
        db.load("p", "x.parquet", cast=False)
    assert db.load("p", "x.parquet").rows == 1


def test_streams_take_files(db: Session) -> None:
    db.sql("CREATE STREAM s (id INT, n INT)")
    db.sql("CREATE MATERIALIZED VIEW seen AS SELECT sum(n) AS n FROM s")
    Path("x.csv").write_text("id,n\n1,2\n2,3\n")
    db.load("s", "x.csv")
    assert db.view("seen").rows() == [(5,)]
    with pytest.raises(sqlview.CatalogError):
        db.load("nowhere", "x.csv")
