"""Transactions as columns: their order, what their times may be given as, what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import sqlview
from sqlview import CatalogError, DataError, Session


@pytest.fixture
def db() -> Iterator[Session]:
    with sqlview.connect(placement="inline") as session:
        session.sql("CREATE TABLE k (id INT PRIMARY KEY, v STRING)")
        session.sql("CREATE TABLE b (id INT, v STRING)")
        session.sql("CREATE STREAM s (id INT)")
        session.sql("CREATE MATERIALIZED VIEW all_k AS SELECT id, v FROM k")
        session.sql("CREATE MATERIALIZED VIEW all_b AS SELECT id, v FROM b")
        session.sql("CREATE MATERIALIZED VIEW met AS SELECT s.id, k.v FROM s JOIN k ON k.id = s.id")
        yield session


Change = tuple[Any, ...]


def listen(db: Session, view: str) -> list[Change]:
    """What the view's subscribers will have heard."""
    heard: list[Change] = []

    def take(changes: pa.Table) -> None:
        heard.extend(tuple(row.values()) for row in changes.to_pylist())
        heard.sort(key=lambda change: change[-2:])

    db.subscribe(view, take)
    return heard


def test_a_key_comes_goes_and_comes_again(db: Session) -> None:
    heard = listen(db, "all_k")
    with db.transactions() as txs:
        txs.insert("k", [(1, "a"), (1, "b")], times=[3, 7])
        txs.delete("k", [(1,)], times=[5])
    assert txs.epochs == range(1, 9) and db.epoch == 8
    assert heard == [(1, "a", 4, 1), (1, "a", 6, -1), (1, "b", 8, 1)]
    assert db.view("all_k").rows() == [(1, "b")]


def test_within_a_time_calls_and_rows_are_in_order(db: Session) -> None:
    heard = listen(db, "all_k")
    with db.transactions() as txs:
        txs.upsert("k", [(1, "late"), (1, "a"), (1, "b")], times=[1, 0, 0])
        txs.delete("k", [(1,)], times=[1])
        txs.insert("k", [(1, "c")], times=[1])
    assert heard == [(1, "b", 1, 1), (1, "b", 2, -1), (1, "c", 2, 1)]


def test_events_meet_the_tables_of_their_own_time(db: Session) -> None:
    heard = listen(db, "met")
    with db.transactions() as txs:
        txs.insert("s", [(1,), (1,), (1,)], times=[4, 0, 2])
        txs.upsert("k", [(1, "a"), (1, "b")], times=[1, 3])
    assert heard == [(1, "a", 3, 1), (1, "b", 5, 1)]


@pytest.mark.parametrize(
    "times",
    [
        [0, 0, 2],
        (0, 0, 2),
        np.array([0, 0, 2]),
        np.array([0, 0, 2], np.uint8),
        pa.array([0, 0, 2]),
        pa.chunked_array([[0], [0, 2]], pa.int16()),
    ],
)
def test_times_are_integers_of_any_sort(db: Session, times: Any) -> None:
    heard = listen(db, "all_b")
    with db.transactions() as txs:
        txs.insert("b", [(1, "x"), (2, "x"), (3, "x")], times=times)
    assert sorted(change[0::2] for change in heard) == [(1, 1), (2, 1), (3, 3)]


@pytest.mark.parametrize("form", ["table", "batch", "dicts"])
def test_times_are_a_column_of_the_data(db: Session, form: str) -> None:
    rows = [{"id": 1, "v": "x", "n": 0}, {"id": 2, "v": "y", "n": 1}]
    given: dict[str, Any] = {
        "table": pa.Table.from_pylist(rows).set_column(0, "id", pa.array([1, 2], pa.int32())),
        "batch": pa.RecordBatch.from_pylist(rows),
        "dicts": rows,
    }
    with db.transactions() as txs:
        txs.insert("k", given[form], times="n")
        txs.delete("k", given[form], times="n")
        txs.insert("b", given[form], times="n")
        txs.insert("b", [{"id": 7, "v": "its own"}], times="id")  # the table has the column too
    assert db.epoch == 8
    assert db.view("all_k").rows() == []
    assert sorted(db.view("all_b").rows()) == [(1, "x"), (2, "y"), (7, "its own")]


def test_nothing_moves_without_rows(db: Session) -> None:
    with db.transactions() as txs:
        txs.insert("k", [], times=[])
    assert txs.epochs == range(1, 1) and db.epoch == 0


def _refused(db: Session, verb: str, table: str, data: Any, times: Any) -> DataError:
    before = db.epoch, db.view("all_k").rows(), db.view("all_b").rows()
    with pytest.raises(DataError) as caught, db.transactions() as txs:
        getattr(txs, verb)(table, data, times=times)
    assert (db.epoch, db.view("all_k").rows(), db.view("all_b").rows()) == before
    return caught.value


@pytest.mark.parametrize(
    ("times", "message", "detail"),
    [
        ([0], "there are 1 times for 2 rows", None),
        ([0, -1], "a time is from 0 to 2,147,483,647", "Row 1 of the data has -1."),
        ([2**31, 0], "a time is from 0 to 2,147,483,647", "Row 0 of the data has 2147483648."),
        ([0, None], "a time is NULL", "Row 1 of the data has it first."),
        ([0.0, 1.0], "times are integers, not double", None),
        (["a", "b"], "times are integers, not string", None),
        ([0, "b"], "times are integers", None),
        ([2**70, 0], "times are integers", None),
        ([True, False], "times are integers, not bool", None),
        (
            pd.DataFrame([[0], [1]], columns=pd.MultiIndex.from_tuples([("a", "b")])),
            "times are one integer a row, not a table",
            None,
        ),
        (np.zeros((2, 1), np.int64), "times are one integer a row, not a table", None),
        ("n", 'the data lacks column "n", which is to hold its times', None),
    ],
)
def test_bad_times(db: Session, times: Any, message: str, detail: str | None) -> None:
    data = pa.table({"id": pa.array([1, 2], pa.int32()), "v": ["x", "y"]})
    error = _refused(db, "insert", "k", data, times)
    assert error.message == f'cannot change "k": {message}' and error.detail == detail


def test_a_refusal_names_row_and_time_and_is_the_first_in_time(db: Session) -> None:
    with db.transaction() as tx:
        tx.insert("k", [(5, "there")])
    rows = [(1, "a"), (2, "a"), (3, "a"), (2, "b"), (5, "b"), (3, "b")]
    error = _refused(db, "insert", "k", rows, [0, 1, 2, 9, 4, 8])
    assert "Row 4 of the data, at time 4, has id = 5." in str(error)
    assert "None of the transactions was applied." in str(error)
    error = _refused(db, "delete", "k", [(5,), (5,), (9,)], [0, 7, 3])
    assert "Row 2 of the data, at time 3, has id = 9." in str(error)
    error = _refused(db, "delete", "b", [(5, "b")], [2])
    assert "Row 0 of the data, at time 2, has id = 5, v = 'b'." in str(error)


def test_an_absent_key_may_be_there_at_its_time(db: Session) -> None:
    with db.transactions() as txs:
        txs.delete("k", [(1,)], times=[2])
        txs.insert("k", [(1, "a")], times=[1])
    assert db.view("all_k").rows() == []
    txs = db.transactions()
    txs.delete("k", [(1,)], times=[1])
    txs.insert("k", [(1, "a")], times=[2])
    with pytest.raises(DataError, match="no such row"), txs:
        pass
    assert db.epoch == 3


def test_what_a_transaction_refuses_is_refused(db: Session) -> None:
    assert "no primary key" in str(_refused(db, "upsert", "b", [(1, "x")], [0]))
    assert "is a stream" in str(_refused(db, "delete", "s", [(1,)], [0]))
    assert "not every row" in str(_refused(db, "insert", "k", [(1, "x")], "n"))
    with pytest.raises(CatalogError), db.transactions() as txs:
        txs.insert("nowhere", [(1, "x")], times=[0])
    with db.transactions() as txs:
        txs.insert("k", [(1, "x")], times=[0])
    with pytest.raises(DataError, match="committed already"):
        txs.insert("k", [(2, "x")], times=[0])
    with pytest.raises(DataError, match="committed already"), txs:
        pass
    txs = db.transactions()
    txs.insert("k", [(3, "x")], times=[0])
    with pytest.raises(KeyError), txs:
        raise KeyError("the user's own")
    assert txs.epochs is None and db.view("all_k").rows() == [(1, "x")]


def test_a_hundred_thousand_transactions(db: Session) -> None:
    n = 100_000
    data = pa.table({"id": np.arange(n, dtype=np.int32), "v": np.arange(n).astype(str)})
    heard: list[pa.Table] = []
    db.subscribe("all_k", heard.append)
    with db.transactions() as txs:
        txs.insert("k", data, times=np.arange(n))
        txs.delete("k", data.select(["id"]).slice(1), times=np.arange(1, n))
    assert len(txs.epochs or ()) == n and db.metrics().steps[-1].epochs == n
    assert heard[0].num_rows == 1 and db.view("all_k").rows() == [(0, "0")]


def test_times_may_be_far_apart(db: Session) -> None:
    """Nothing is made for each time: there would be two thousand million."""
    with db.transactions() as txs:
        txs.insert("b", [(1, "a"), (2, "b")], [0, 2**31 - 1])
    assert txs.epochs == range(db.epoch + 1 - 2**31, db.epoch + 1)


@pytest.mark.spark
def test_a_data_frame_has_its_times_in_a_column(spark: Any) -> None:
    with sqlview.connect(spark=spark) as db:
        db.sql("CREATE TABLE k (id INT PRIMARY KEY, v STRING)")
        db.sql("CREATE MATERIALIZED VIEW all_k AS SELECT id, v FROM k")
        heard = listen(db, "all_k")
        frame = spark.sql("VALUES (1, 'a', 2), (2, 'b', 0) AS t(id, v, n)")
        with db.transactions() as txs:
            txs.insert("k", frame, times="n")
        assert heard == [(2, "b", 1, 1), (1, "a", 3, 1)]
