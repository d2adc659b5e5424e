"""Transactions that a table cannot take: a clear error, and nothing of the transaction applied."""

from __future__ import annotations

import datetime
import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from planner.errors import DataError, SqlViewError
from tests.conftest import Connect
from tests.harness import Checked
from tests.reference.tables import delete, insert, upsert


def _session(connect: Connect) -> Checked:
    checked = connect(form="arrow")
    checked.create_table("k", "id INT, v INT NOT NULL, s STRING, d DECIMAL(4,2)", ("id",))
    checked.create_table("b", "a INT, s STRING")
    checked.create_view("v", "SELECT k.id, b.s FROM k JOIN b ON k.id = b.a")
    checked.create_view("n", "SELECT count(*) AS n, sum(v) AS s FROM k")
    checked.step(insert("k", (1, 10, "x", None), (2, 20, None, None)), insert("b", (1, "p")))
    return checked


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ((insert("k", (1, 0, None, None)),), ("key", "1", '"k"')),
        ((insert("k", (3, 0, None, None), (3, 1, None, None)),), ("key", "3", '"k"')),
        ((insert("k", (3, 0, None, None)), insert("k", (3, 1, None, None))), ("key", "3")),
        ((delete("k", (9, 0, None, None)),), ("9", '"k"')),
        ((delete("k", (1, 0, "", None)), delete("k", (1, 0, "", None))), ("1", '"k"')),
        ((delete("b", (1, "q")),), ('"b"',)),
        ((delete("b", (1, "p"), (1, "p")),), ('"b"',)),
        ((delete("b", (None, "p")),), ('"b"',)),
        ((upsert("b", (1, "p")),), ("key", '"b"')),
    ],
    ids=str,
)  # fmt: skip
def test_whole_transaction_is_rejected(
    changes: tuple[Any, ...], says: tuple[str, ...], connect: Connect
) -> None:
    checked = _session(connect)
    # What comes before the fault, in this table and in others, must not be applied either.
    good = (insert("b", (2, "z")), upsert("k", (2, 21, "y", None)), delete("b", (1, "p")))
    restored = (*good, insert("b", (1, "p")))
    error = checked.rejected(DataError, *restored, *changes)
    for part in says:
        assert part in str(error), f"{part!r} is not in: {error}"
    checked.step(*good)
    checked.verify()


_K = {"id": [3], "v": [1], "s": ["a"], "d": [Decimal("1.00")]}


@pytest.mark.parametrize(
    ("table", "data", "says"),
    [
        ("k", [(3, 1, "a")], ("4", '"k"')),
        ("k", [(3, 1, "a", None, 5)], ("4", '"k"')),
        ("k", [{"id": 3, "v": 1, "s": "a", "d": None, "extra": 1}], ("extra",)),
        ("k", [{"id": 3, "s": "a", "d": None}], ('"v"',)),
        ("k", [("three", 1, "a", None)], ('"id"', "INT")),
        ("k", [(3, 1.5, "a", None)], ('"v"', "INT")),
        ("k", [(2**31, 1, "a", None)], ('"id"', "INT")),
        ("k", [(3, 1, 7, None)], ('"s"', "STRING")),
        ("k", [(3, 1, "a", Decimal("123.45"))], ('"d"', "DECIMAL(4,2)")),
        ("k", [(3, 1, "a", Decimal("1.234"))], ('"d"', "DECIMAL(4,2)")),
        ("k", [(3, 1, datetime.date(2020, 1, 1), None)], ('"s"', "STRING")),
        ("k", [(None, 1, "a", None)], ('"id"', "NULL")),
        ("k", [(3, None, "a", None)], ('"v"', "NULL")),
        ("k", pa.table({"id": [3], "v": [1]}), ('"k"',)),
        ("k", pa.table({**_K, "more": [1]}), ("more",)),
        ("k", pa.table({**_K, "s": [1.5]}), ('"s"', "STRING")),
        ("k", pa.table({**_K, "id": pa.array([None], pa.int32())}), ('"id"', "NULL")),
        ("b", pa.RecordBatch.from_pydict({"a": ["x"], "s": ["y"]}), ('"a"', "INT")),
        ("b", 17, ('"b"',)),
    ],
    ids=str,
)
def test_rows_that_do_not_fit_are_rejected(
    table: str, data: Any, says: tuple[str, ...], connect: Connect
) -> None:
    checked = _session(connect)

    def attempt() -> None:
        with checked.db.transaction() as tx:
            tx.insert("b", [(7, "kept out")])
            tx.insert(table, data)

    error = checked.unchanged_by(DataError, attempt, checked.db.epoch)
    for part in says:
        assert part in str(error), f"{part!r} is not in: {error}"
    checked.step(insert("k", (3, 1, "a", Decimal("1.00"))))


def test_delete_of_a_keyed_row_needs_its_key(connect: Connect) -> None:
    checked = _session(connect)

    def attempt() -> None:
        with checked.db.transaction() as tx:
            tx.delete("k", pa.table({"v": pa.array([10], pa.int32())}))

    error = checked.unchanged_by(DataError, attempt, checked.db.epoch)
    assert '"id"' in str(error)


def test_an_unknown_table(connect: Connect) -> None:
    checked = _session(connect)
    for name in ("nowhere", "v"):

        def attempt(name: str = name) -> None:
            with checked.db.transaction() as tx:
                tx.insert(name, [(1, "a")])

        error = checked.unchanged_by(SqlViewError, attempt, checked.db.epoch)
        assert f'"{name}"' in str(error)


def test_a_block_that_raises_applies_nothing(connect: Connect) -> None:
    checked = _session(connect)
    before = checked.db.epoch

    def attempt() -> None:
        with checked.db.transaction() as tx:
            tx.insert("b", [(1, "never")])
            raise KeyError("the user's own")

    with pytest.raises(KeyError):
        attempt()
    assert checked.db.epoch == before
    assert sorted(checked.rows("v")) == [(1, "p")]
    checked.step(insert("b", (1, "q")))


def test_one_bad_transaction_of_a_batch_rejects_the_batch(connect: Connect) -> None:
    checked = _session(connect)

    def attempt() -> None:
        begun = [checked.db.begin() for _ in range(3)]
        begun[0].insert("b", [(1, "r")])
        begun[1].insert("k", [(1, 5, None, None)])
        begun[2].insert("b", [(2, "s")])
        checked.db.apply(begun)

    error = checked.unchanged_by(DataError, attempt, checked.db.epoch)
    assert '"k"' in str(error)
    checked.step(insert("b", (1, "r")))
    checked.verify()


def test_zeros_are_one_key_and_so_are_nans(connect: Connect) -> None:
    checked = connect()
    checked.create_table("f", "x DOUBLE, v INT", ("x",))
    checked.create_view("v", "SELECT x, v FROM f")
    checked.step(insert("f", (0.0, 1), (math.nan, 2)))
    for x in (-0.0, -math.nan):
        checked.rejected(DataError, insert("f", (x, 3)))
    checked.rejected(DataError, insert("f", (5.0, 1), (-5.0, 1)), delete("f", (-0.0, 0), (0.0, 0)))
    checked.step(delete("f", (-0.0, 0), (-math.nan, 0)))
    assert checked.rows("v") == []
