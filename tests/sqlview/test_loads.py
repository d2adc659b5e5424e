"""Loads: inserts of many rows in parts, against inserts in one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sqlview
from operators import loading
from operators.flight import column as columns
from operators.kernels.memory import BLOCK_ROWS
from sqlview import DataError, Session, transaction
from sqlview.sources import given

ROWS = 3 * BLOCK_ROWS
MOST_TEXT = BLOCK_ROWS * 10


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if a load were some 100,000 rows."""
    monkeypatch.setattr(transaction, "PART_ROWS", BLOCK_ROWS // 2)
    monkeypatch.setattr(loading, "MANY_ROWS", BLOCK_ROWS)
    monkeypatch.setattr(given, "PIECE_ROWS", 10_000)


@contextmanager
def _narrow() -> Iterator[None]:
    """As if places in a text had fewer bits."""
    concat = columns._concat

    def narrow(arrays: list[pa.Array]) -> pa.Array:
        if sum(a.nbytes for a in arrays) > MOST_TEXT:
            raise DataError("a column has more text than one transaction takes")
        return concat(arrays)

    with patch.object(columns, "_concat", narrow):
        yield


def _table(ids: Any, chunk: int = 7_000) -> pa.Table:
    whole = pa.table({"id": pa.array(ids, pa.int64()), "s": [f"text {i}" for i in ids]})
    return pa.concat_tables([whole[i : i + chunk] for i in range(0, len(whole), chunk)])


def _session(declared: str = "id BIGINT PRIMARY KEY, s STRING") -> Session:
    db = sqlview.connect(placement="inline")
    db.sql(f"CREATE TABLE t ({declared})")
    return db


def _parquet(data: pa.Table, path: Path) -> str:
    pq.write_table(data, path / "t.parquet", row_group_size=20_000)
    return str(path / "t.parquet")


WAYS: dict[str, Callable[[pa.Table, Path], Any]] = {
    "table": lambda data, path: data,
    "columns": lambda data, path: {name: data[name] for name in data.column_names},
    "stream": lambda data, path: data.to_reader(),
    "batches": lambda data, path: iter(data.to_batches()),
}


@pytest.mark.parametrize(
    ("way", "order"),
    [
        ("table", "ascending"),
        ("table", "descending"),
        ("columns", "shuffled"),
        ("stream", "shuffled"),
        ("batches", "ascending"),
    ],
)
def test_parts(way: str, order: str, tmp_path: Path) -> None:
    """More text than one array holds is taken part by part, in any order of the keys."""
    ids = np.arange(ROWS)
    if order == "shuffled":
        np.random.default_rng(0).shuffle(ids)
    with _session() as db:
        with _narrow(), db.transaction() as tx:
            tx.insert("t", WAYS[way](_table(ids if order != "descending" else ids[::-1]), tmp_path))
        assert db.epoch == 1
        _check(db, range(ROWS))
        with db.transaction() as tx:
            tx.insert("t", [(ROWS, "more")])
            tx.upsert("t", [(5, "text 5")])
            tx.delete("t", [(7,)])
        with pytest.raises(DataError, match="the key is there already"), db.transaction() as tx:
            tx.insert("t", [(8, "again")])
        db.sql("CREATE MATERIALIZED VIEW n AS SELECT count(*) AS n, sum(length(s)) AS l FROM t")
        lengths = sum(len(f"text {i}") for i in range(ROWS) if i != 7)
        assert db.view("n").to_arrow().to_pylist() == [{"n": ROWS, "l": lengths + 4}]


def test_files(tmp_path: Path) -> None:
    with _session() as db:
        with _narrow():
            assert db.load("t", _parquet(_table(range(ROWS)), tmp_path)).rows == ROWS
        _check(db, range(ROWS))


def _check(db: Session, ids: Any) -> None:
    db.sql("CREATE MATERIALIZED VIEW v AS SELECT id, s FROM t")
    got = db.view("v").to_arrow().sort_by("id")
    assert got["id"].to_pylist() == sorted(ids)
    assert got["s"].to_pylist() == [f"text {i}" for i in sorted(ids)]
    db.sql("DROP MATERIALIZED VIEW v")


@pytest.mark.parametrize("view", [False, True])
@pytest.mark.parametrize(
    ("twice", "row"), [((10, 180_000), 180_000), ((70_000, 100_000), 100_000), ((3, 4), 4)]
)
def test_duplicates(twice: tuple[int, int], row: int, view: bool) -> None:
    """A key that is there twice is told with its row, and nothing has happened."""
    ids = np.random.default_rng(1).permutation(ROWS)
    ids[twice[1]] = ids[twice[0]]
    with _session() as db:
        if view:
            db.sql("CREATE MATERIALIZED VIEW v AS SELECT count(*) AS n FROM t")
        with pytest.raises(DataError) as refused, db.transaction() as tx:
            tx.insert("t", _table(ids))
        assert refused.value.message == 'cannot insert into "t": the key is there already'
        assert str(refused.value.detail) == f"Row {row} of the data has id = {ids[row]}."
        assert db.epoch == 0
        db.sql("CREATE MATERIALIZED VIEW n AS SELECT count(*) AS n FROM t")
        assert db.view("n").to_arrow().to_pylist() == [{"n": 0}]
        with db.transaction() as tx:
            tx.insert("t", _table(range(ROWS)))
        assert db.view("n").to_arrow().to_pylist() == [{"n": ROWS}]


@pytest.mark.parametrize("before", [1, ROWS])
def test_keys_that_are_there(before: int) -> None:
    with _session() as db:
        with db.transaction() as tx:
            tx.insert("t", _table(range(1_000_000, 1_000_000 + before)))
        with pytest.raises(DataError) as refused, db.transaction() as tx:
            tx.insert("t", _table([*range(ROWS), 1_000_000]))
        assert refused.value.detail == f"Row {ROWS} of the data has id = 1000000."
        with db.transaction() as tx:
            tx.delete("t", [(1_000_000,)])
        with db.transaction() as tx:
            tx.insert("t", _table([*range(ROWS), 1_000_000]))
        _check(db, [*range(ROWS), *range(1_000_000, 1_000_000 + before)])


def test_texts_of_equal_hash(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys that collide are told apart; those that are equal are refused."""
    from operators.state import hashing

    monkeypatch.setattr(hashing, "HASH_BITS", 3)
    texts = [f"a text that is longer than fifteen bytes {i}" for i in range(400)]
    monkeypatch.setattr(loading, "MANY_ROWS", 300)
    monkeypatch.setattr(transaction, "PART_ROWS", 100)
    monkeypatch.setattr(given, "PIECE_ROWS", 50)

    def data(texts: list[str]) -> pa.Table:
        whole = pa.table({"s": texts})
        return pa.concat_tables([whole[i : i + 60] for i in range(0, len(texts), 60)])

    with _session("s STRING PRIMARY KEY") as db:
        with db.transaction() as tx:
            tx.insert("t", data(texts))
        more = [f"{text} more" for text in texts]
        for wrong, row in (([*more, texts[9]], 400), ([*more[:200], *more[150:]], 200)):
            with pytest.raises(DataError) as refused, db.transaction() as tx:
                tx.insert("t", data(wrong))
            assert f"Row {row} of the data" in str(refused.value.detail)
        with db.transaction() as tx:
            tx.insert("t", data(more))
        db.sql("CREATE MATERIALIZED VIEW n AS SELECT count(*) AS n FROM t")
        assert db.view("n").to_arrow().to_pylist() == [{"n": 800}]


def test_without_a_key_and_with_nulls(tmp_path: Path) -> None:
    """A bag takes any rows; a store has them when it is opened again; a verifier sees them."""
    values = [None if i % 3 else i for i in range(ROWS)]
    whole = pa.table({"id": pa.array(values, pa.int64()), "s": ["x"] * ROWS})
    data = pa.concat_tables([whole[i : i + 9_000] for i in range(0, ROWS, 9_000)])
    with sqlview.connect(tmp_path / "store") as db:
        db.sql("CREATE TABLE t (id INT, s STRING)")
        db.sql("CREATE MATERIALIZED VIEW o AS SELECT 1 AS one")
        for _ in range(2):
            with db.transaction() as tx:
                tx.insert("t", data, cast=True)
        db.sql("CREATE MATERIALIZED VIEW v AS SELECT count(*) AS n, count(id) AS i FROM t")
        assert db.verify("v").equal
        db.sql("CREATE TABLE u (id BIGINT, s STRING)")
        with db.transaction() as tx:
            tx.insert("u", data)
        for _ in range(2):
            db.sql("CREATE MATERIALIZED VIEW w AS SELECT count(*) AS n, count(id) AS i FROM u")
            assert db.verify("w", engine="duckdb").equal
            db.sql("DROP MATERIALIZED VIEW w")
            with db.transaction() as tx:
                tx.insert("u", data)
    with sqlview.connect(tmp_path / "store") as db:
        assert db.view("v").to_arrow().to_pylist() == [{"n": 2 * ROWS, "i": 2 * ROWS // 3}]
        assert db.verify("v").equal


def test_a_row_that_does_not_fit() -> None:
    whole = _table(range(ROWS))
    wrong = whole.set_column(
        0, "id", pa.chunked_array([[*range(100_000), None], range(100_001, ROWS)])
    )
    with _session() as db, pytest.raises(DataError) as refused, db.transaction() as tx:
        tx.insert("t", wrong)
    assert "Row 100000 of the data has it first" in str(refused.value.detail)
