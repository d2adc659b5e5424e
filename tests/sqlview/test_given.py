"""What rows may be given as: every kind of source, right, empty, odd and wrong."""

from __future__ import annotations

import dataclasses
import datetime
import subprocess
import sys
from collections import namedtuple
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds
import pytest

import sqlview
from operators.flight.column import Column
from sqlview import DataError, Session
from sqlview.sources import given

pl = pytest.importorskip("polars")

DAY = datetime.date(2024, 1, 31)
ROWS = [(1, "a", Decimal("1.50"), DAY), (2, None, Decimal("-2.00"), None), (3, "ü", None, DAY)]
NAMES = ("id", "v", "d", "day")
DICTS = [dict(zip(NAMES, row, strict=True)) for row in ROWS]
Named = namedtuple("Named", ["day", "d", "v", "id"])  # in another order


@dataclasses.dataclass
class Record:
    id: int
    v: str | None
    d: Decimal | None
    day: datetime.date | None


TABLE = pa.table(
    {
        "id": pa.array([1, 2, 3], pa.int32()),
        "v": ["a", None, "ü"],
        "d": pa.array([Decimal("1.50"), Decimal("-2.00"), None], pa.decimal128(5, 2)),
        "day": pa.array([DAY, None, DAY]),
    }
)


class OnlyStream:
    """The protocol, and nothing else."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self._table.__arrow_c_stream__(requested_schema)


class OnlyArray:
    def __init__(self, array: Any) -> None:
        self._array = array

    def __arrow_c_array__(self, requested_schema: Any = None) -> Any:
        return self._array.__arrow_c_array__(requested_schema)


STRUCTS = pa.StructArray.from_arrays(
    [column.combine_chunks() for column in TABLE.columns], names=list(NAMES)
)
LISTS = {name: [row[name] for row in DICTS] for name in NAMES}

SOURCES: dict[str, Callable[[], Any]] = {
    "table": lambda: TABLE,
    "batch": lambda: TABLE.to_batches()[0],
    "chunked": lambda: pa.concat_tables([TABLE[:1], TABLE[1:1], TABLE[1:]]),
    "sliced": lambda: pa.concat_tables([TABLE, TABLE]).combine_chunks()[3:],
    "other order": lambda: TABLE.select([3, 1, 0, 2]).rename_columns(["DAY", "V", "Id", "D"]),
    "reader": lambda: TABLE.to_reader(max_chunksize=1),
    "dataset": lambda: ds.dataset(TABLE),
    "scanner": lambda: ds.dataset(TABLE).scanner(),
    "stream": lambda: OnlyStream(TABLE),
    "array": lambda: OnlyArray(STRUCTS),
    "array of batch": lambda: OnlyArray(TABLE.to_batches()[0]),
    "structs": lambda: STRUCTS,
    "sliced structs": lambda: pa.concat_arrays([STRUCTS, STRUCTS])[3:],
    "chunked structs": lambda: pa.chunked_array([STRUCTS[:1], STRUCTS[1:]]),
    "batches": lambda: iter(TABLE.to_batches(max_chunksize=2)),
    "list of tables": lambda: [TABLE[:2], TABLE[2:]],
    "pandas": TABLE.to_pandas,
    "pandas, selected": lambda: pa.concat_tables([TABLE] * 2).to_pandas().iloc[[0, 4, 2]],
    "pandas, indexed": lambda: TABLE.to_pandas().set_index("id"),
    "pandas, arrow types": lambda: TABLE.to_pandas(types_mapper=pd.ArrowDtype),
    "pandas, category": lambda: TABLE.to_pandas().astype({"v": "category"}),
    "polars": lambda: pl.from_arrow(TABLE),
    "polars, category": lambda: pl.from_arrow(TABLE).with_columns(pl.col("v").cast(pl.Categorical)),
    "polars, several chunks": lambda: pl.concat(
        [pl.from_arrow(TABLE[:1]), pl.from_arrow(TABLE[1:])], rechunk=False
    ),
    "polars series": lambda: pl.from_arrow(TABLE).to_struct("rows"),
    "duckdb": lambda: duckdb.connect().sql(
        "SELECT * FROM (VALUES (1::INT, 'a', 1.50::DECIMAL(5,2), DATE '2024-01-31'),"
        " (2, NULL, -2.00, NULL), (3, 'ü', NULL, DATE '2024-01-31')) AS t(id, v, d, day)"
    ),
    "large and view types": lambda: TABLE.set_column(1, "v", TABLE["v"].cast(pa.large_string())),
    "views": lambda: TABLE.set_column(1, "v", TABLE["v"].cast(pa.string_view())),
    "date64": lambda: TABLE.set_column(3, "day", TABLE["day"].cast(pa.date64())),
    "lists": lambda: LISTS,
    "tuples as columns": lambda: {name: tuple(values) for name, values in LISTS.items()},
    "arrays": lambda: {name: TABLE[name] for name in NAMES},
    "one of each": lambda: {
        "id": np.array([1, 2, 3], np.int16),
        "v": pd.Series(["a", None, "ü"]),
        "d": LISTS["d"],
        "day": pl.Series([DAY, None, DAY]),
    },
    "numpy": lambda: {
        "id": np.array([1, 2, 3]),
        "v": np.array(["a", None, "ü"], object),
        "d": np.array([Decimal("1.50"), Decimal("-2.00"), None], object),
        "day": np.array(["2024-01-31", "NaT", "2024-01-31"], "datetime64[D]"),
    },
    "pandas series": lambda: dict(TABLE.to_pandas().items()),
    "tuples": lambda: ROWS,
    "list rows": lambda: [list(row) for row in ROWS],
    "dicts": lambda: DICTS,
    "named tuples": lambda: [Named(*reversed(row)) for row in ROWS],
    "dataclasses": lambda: [Record(*row) for row in ROWS],
    "generator": lambda: (row for row in ROWS),
    "iterator of dicts": lambda: iter(DICTS),
    "tuple of tuples": lambda: tuple(ROWS),
    "values of a dict": lambda: dict(enumerate(ROWS)).values(),
    "zip": lambda: zip(*LISTS.values(), strict=True),
    "pandas rows": lambda: TABLE.to_pandas().itertuples(index=False),
}  # fmt: skip


@pytest.fixture
def db() -> Iterator[Session]:
    with sqlview.connect(placement="inline") as session:
        session.sql("CREATE TABLE k (id INT PRIMARY KEY, v STRING, d DECIMAL(5,2), day DATE)")
        session.sql("CREATE STREAM s (id INT, v STRING, d DECIMAL(5,2), day DATE)")
        session.sql("CREATE MATERIALIZED VIEW all_k AS SELECT id, v, d, day FROM k")
        session.sql("CREATE MATERIALIZED VIEW all_s AS SELECT id, v, d, day FROM s")
        yield session


def rows(db: Session, view: str = "all_k") -> list[tuple[Any, ...]]:
    return sorted(db.view(view).rows())


@pytest.mark.parametrize("name", SOURCES)
def test_every_source_is_taken(db: Session, name: str) -> None:
    make = SOURCES[name]
    with db.transaction() as tx:
        tx.insert("k", make())
        tx.insert("s", make())
    assert rows(db) == rows(db, "all_s") == ROWS
    with db.transaction() as tx:
        tx.upsert("k", make())
        tx.delete("k", make())
    assert rows(db) == []


@pytest.mark.parametrize("name", SOURCES)
def test_every_source_has_times(db: Session, name: str) -> None:
    with db.transactions() as txs:
        txs.insert("k", SOURCES[name](), times=[0, 1, 2])
        txs.delete("k", SOURCES[name](), times=[5, 4, 3])
    assert db.epoch == 6 and rows(db) == []


@pytest.mark.parametrize(
    "make",
    [
        lambda t: t,
        lambda t: t.to_reader(max_chunksize=1),
        lambda t: t.to_pandas(),
        pl.from_arrow,
        lambda t: {name: t[name] for name in t.column_names},
        lambda t: t.to_pydict(),
        lambda t: t.to_pylist(),
        lambda t: iter(t.to_pylist()),
        lambda t: list(t.to_pandas().itertuples(index=False)),
        lambda t: t.to_batches(),
    ],
)  # fmt: skip
def test_times_are_a_column_of_every_source(db: Session, make: Callable[[pa.Table], Any]) -> None:
    data = make(TABLE.append_column("n", pa.array([2, 0, 1])))
    heard: list[Any] = []
    db.subscribe("all_k", lambda c: heard.extend((r["id"], r["__time"]) for r in c.to_pylist()))
    with db.transactions() as txs:
        txs.insert("k", data, times="N" if isinstance(data, pa.Table) else "n")
    assert sorted(heard) == [(1, 3), (2, 1), (3, 2)]


def test_nothing_given_changes_nothing(db: Session) -> None:
    empty = TABLE[:0]
    sources: list[Any] = [
        *([], (), iter([]), (r for r in ())),
        *(empty, empty.to_reader(), ds.dataset(empty), empty.to_pandas(), pl.from_arrow(empty)),
        *(OnlyStream(empty), OnlyArray(STRUCTS[:0]), {name: [] for name in NAMES}),
        pa.table([pa.nulls(0)] * 4, NAMES),
    ]
    for source in sources:
        with db.transaction() as tx:
            tx.insert("k", source)
        assert tx.statements == []
    assert rows(db) == []


def test_pandas_missing_values_are_null(db: Session) -> None:
    db.sql("CREATE TABLE m (id INT, x DOUBLE, at TIMESTAMP_NTZ, n INT, b BOOLEAN)")
    db.sql("CREATE MATERIALIZED VIEW all_m AS SELECT * FROM m")
    frame = pd.DataFrame(
        {
            "id": [1, 2],
            "x": [0.5, float("nan")],
            "at": [pd.Timestamp("2024-01-31"), pd.NaT],
            "n": pd.array([1, None], "Int32"),
            "b": pd.array([None, True], "boolean"),
        }
    )
    wanted = [(1, 0.5, datetime.datetime(2024, 1, 31), 1, None), (2, None, None, None, True)]
    for data in (frame, dict(frame.items())):
        with db.transaction() as tx:
            tx.insert("m", data)
        assert sorted(db.view("all_m").rows()) == wanted
        with db.transaction() as tx:
            tx.delete("m", data)
    # NumPy's NaN is a number, and a NaT is none.
    with db.transaction() as tx:
        tx.insert(
            "m",
            {name: frame[name].to_numpy() for name in ("id", "x", "at")}
            | {"n": [None] * 2, "b": [None] * 2},
        )
    got = sorted(db.view("all_m").rows())
    assert np.isnan(got[1][1]) and got[1][2:] == (None, None, None)


def test_readers_are_taken_in_pieces(db: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(given, "PIECE_ROWS", 4)
    n = 25
    table = pa.table({"id": range(n), "v": ["x"] * n, "d": [None] * n, "day": [None] * n})
    with db.transaction() as tx:
        tx.insert("k", table.to_reader(max_chunksize=3))
        assert len(tx.statements) == 1
    assert len(db.view("all_k")) == n
    bad = table.set_column(0, "id", pa.array([*range(100, 120), 2**40, *range(120, 124)]))
    with pytest.raises(DataError) as caught, db.transaction() as tx:
        tx.insert("k", bad.to_reader(max_chunksize=3))
    assert caught.value.detail == "Row 20 of the data has 1099511627776 of type int64."


def test_more_text_than_offsets_reach(db: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrow's own limit of 2 GiB, moved to where a test can reach it."""
    concat = pa.concat_arrays

    def limited(arrays: Any) -> Any:
        arrays = list(arrays)
        if pa.types.is_string(arrays[0].type) and sum(a.nbytes for a in arrays) > 1000:
            raise pa.ArrowInvalid("offset overflow while concatenating arrays")
        return concat(arrays)

    monkeypatch.setattr(pa, "concat_arrays", limited)
    monkeypatch.setattr(given, "PIECE_ROWS", 1)
    wide = pa.table({"id": [1, 2], "v": ["x" * 900] * 2, "d": [None] * 2, "day": [None] * 2})
    for data in (wide.to_reader(max_chunksize=1), pa.concat_tables([wide[:1], wide[1:]])):
        with pytest.raises(DataError, match="more text than one transaction takes"):
            db.begin().insert("k", data)
    tx = db.begin()
    tx.insert("k", wide[:1])
    tx.insert("k", wide[1:])
    with pytest.raises(DataError, match="more text"):
        db.apply([tx])
    assert rows(db) == []
    with db.transaction() as tx:
        tx.insert("k", wide[:1])
    assert len(rows(db)) == 1


def test_data_that_changes_later_changes_nothing(db: Session) -> None:
    db.sql("CREATE TABLE n (id BIGINT PRIMARY KEY, x DOUBLE)")
    db.sql("CREATE MATERIALIZED VIEW total AS SELECT sum(id) AS i, sum(x) AS x FROM n")
    count = 300_000
    ids, xs = np.arange(count), np.ones(count)
    with db.transaction() as tx:
        tx.insert("n", {"id": ids, "x": xs})
    before = db.view("total").rows()
    ids[:], xs[:] = -1, 5.0
    db.sql("CREATE MATERIALIZED VIEW again AS SELECT sum(id) AS i, sum(x) AS x FROM n")
    assert db.view("again").rows() == before == [(count * (count - 1) // 2, float(count))]
    frozen = np.arange(count, 2 * count)
    frozen.flags.writeable = False
    with db.transaction() as tx:
        tx.insert("n", {"id": frozen, "x": np.ones(count)})
    assert db.view("total").rows() == [(count * (2 * count - 1), 2.0 * count)]


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (5, "changes cannot be given as int"),
        (None, "changes cannot be given as NoneType"),
        (object(), "changes cannot be given as object"),
        (dict, "changes cannot be given as type"),
        ("rows.csv", "db.load(table, path)"),
        (b"x", "db.load(table, path)"),
        (pl.LazyFrame({"id": [1]}), "Collect it first"),
        ((1, "a", None, None), "row 0 is neither a tuple nor a dict"),
        ([1, 2], "row 0 is neither a tuple nor a dict"),
        (iter([None, *ROWS]), "row 0 is neither a tuple nor a dict"),
        ([{**DICTS[0], "ID": 1}], 'row 0 has column "ID" twice'),
        ({"id": 1, "v": "a", "d": None, "day": None}, 'Column "id" cannot be given as int'),
        ({**LISTS, "id": "abc"}, 'column "id" cannot be given as str'),
        ({"id": [1, 2], "v": ["a"], "d": [None], "day": [None]}, "the columns differ in length"),
        ({}, "the data lacks columns"),
        (pa.array([1, 2]), "an array of int64"),
        (OnlyArray(pa.array(["x"])), "an array of string"),
        (pa.chunked_array([[1]]), "changes cannot be read from pyarrow.lib.ChunkedArray"),
        (pl.Series([1]), "changes cannot be read from polars"),
        (pa.array([{"id": 1}, None]), "Row 1 of the data is a NULL struct"),
        (np.ones((2, 4)), "a NumPy array of 2 dimensions and float64"),
        (pd.DataFrame({"id": [1, "x"]}), "changes cannot be read from pandas"),
        (pd.DataFrame([[1, "a", None, None]]), 'The data lacks columns "id", "v", "d", "day"'),
        (iter([TABLE.to_batches()[0], 5]), "item 1 of the data is no Arrow batch"),
        (iter([TABLE, TABLE.select([0])]), "item 1 of the data has other columns"),
        (TABLE.select([]), "the data lacks"),
        (TABLE.add_column(0, "ID", TABLE[0]), 'the data has column "id" twice'),
        (TABLE.set_column(1, "v", pa.array([{"a": 1}] * 3)), "but the data has struct<a: int64>"),
        (TABLE.set_column(1, "v", pa.array([["a"]] * 3)), "but the data has list<"),
        ([{"id": 1, "w": 2}], "the data does not fit"),
    ],
    ids=lambda v: v if isinstance(v, str) else "",
)  # fmt: skip
def test_anything_else_is_refused(db: Session, data: Any, says: str) -> None:
    with db.transaction() as tx:
        with pytest.raises(DataError) as caught:
            tx.insert("k", data)
        tx.insert("k", ROWS)
    assert says in str(caught.value), str(caught.value)
    assert caught.value.message.startswith('cannot change "k": ')
    assert rows(db) == ROWS


def test_all_that_is_wrong_is_said_at_once(db: Session) -> None:
    data = pa.table({"id": [None, 1], "w": ["a", "b"], "d": ["1", "2"], "day": [DAY, DAY]})
    with pytest.raises(DataError) as caught, db.transaction() as tx:
        tx.insert("k", data)
    assert str(caught.value) == (
        'cannot change "k": the data does not fit for 4 reasons\n'
        'Detail: The data lacks column "v". It has columns "id", "w", "d", "day".\n'
        '  The data has column "w", which the table lacks.\n'
        '  NULL in column "id", which is NOT NULL. Row 0 of the data has it first.\n'
        '  Column "d" is DECIMAL(5,2), but the data has string. Not every value of that type is one'
        " of the column's.\n"
        "Hint: Select the table's columns.\n"
        "  Fill in a value, or leave such rows out.\n"
        "  Pass cast=True, which converts where nothing is lost; or convert it first, as it is"
        " meant: column.cast(pa.decimal128(5, 2))."
    )
    with pytest.raises(DataError, match='Did you mean "day"'):
        db.begin().insert("k", TABLE.rename_columns(["id", "v", "d", "days"]))


@pytest.mark.parametrize(
    "form", ["table", "reader", "pandas", "polars", "lists", "tuples", "dicts"]
)
def test_cast_reads_text(db: Session, form: str) -> None:
    days = ["2024-01-31", None, None]
    text = pa.table({"id": ["1", " 2", "3"], "v": [1, 2, 3], "d": [1.5, None, 2.25], "day": days})
    data: Any = {
        "table": lambda: text,
        "reader": lambda: text.to_reader(max_chunksize=1),
        "pandas": text.to_pandas,
        "polars": lambda: pl.from_arrow(text),
        "lists": text.to_pydict,
        "tuples": lambda: list(zip(*text.to_pydict().values(), strict=True)),
        "dicts": text.to_pylist,
    }[form]()
    with pytest.raises(DataError, match="cast=True"), db.transaction() as tx:
        tx.insert("k", text)
    with db.transaction() as tx:
        tx.insert("k", data, cast=True)
    assert rows(db) == [
        (1, "1", Decimal("1.50"), DAY),
        (2, "2", None, None),
        (3, "3", Decimal("2.25"), None),
    ]
    with db.transactions() as txs:
        txs.upsert("k", text, times=[0, 0, 1], cast=True)
        txs.delete("k", {"id": ["1", "2", "3"]}, times=[1, 2, 3], cast=True)
    assert rows(db) == []
    with pytest.raises(DataError) as caught, db.transaction() as tx:
        tx.insert("k", text.set_column(0, "id", [["1", "2", "three"]]), cast=True)
    assert "Row 2 of the data has 'three', which does not read as INT." in str(caught.value)


def test_what_a_source_raises_passes_through(db: Session) -> None:
    def failing() -> Iterator[tuple[Any, ...]]:
        yield ROWS[0]
        raise KeyError("the user's own")

    with pytest.raises(KeyError, match="the user's own"), db.transaction() as tx:
        tx.insert("k", failing())
    assert rows(db) == []


def test_deletes_ignore_other_columns(db: Session) -> None:
    with db.transaction() as tx:
        tx.insert("k", ROWS)
    with db.transaction() as tx:
        tx.delete("k", {"ID": [1], "more": ["x"]})
        tx.delete("k", [{"Id": 2, "unknown": 5}])
        tx.delete("k", pd.DataFrame({"id": np.array([3], np.int32), "w": [1.5]}))
    assert rows(db) == []


def test_one_row_is_converted_by_what_its_table_has(
    db: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What makes one row cheap: nothing is made that depends on the schema alone."""
    from operators.flight import rows as row_values

    def never(*_: Any) -> Column:
        raise AssertionError("made for each row")

    monkeypatch.setattr(row_values, "_means", never)
    monkeypatch.setattr(row_values, "to_column", never)
    with db.transaction() as tx:
        tx.insert("k", ROWS[:1])
    assert rows(db) == ROWS[:1]


def test_neither_spark_nor_pandas_nor_polars_is_imported() -> None:
    script = """
import sys
import pyarrow as pa
import sqlview
with sqlview.connect() as db:
    db.sql("CREATE TABLE t (a INT, b STRING)")
    for bad in (5, "x", object(), {"a": 1}):
        try:
            db.begin().insert("t", bad)
        except sqlview.DataError:
            pass
        else:
            raise AssertionError(bad)
    with db.transaction() as tx:
        tx.insert("t", [(1, "x")])
        tx.insert("t", {"a": [1], "b": ["x"]}, cast=True)
        tx.insert("t", pa.table({"a": pa.array([1], pa.int32()), "b": ["x"]}).to_reader())
    assert not db._has_spark
assert "polars" not in sys.modules and "pyspark" not in sys.modules, "imported"
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
