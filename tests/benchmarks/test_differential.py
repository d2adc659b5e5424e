"""The Python side of the differential dataflow peer; nothing here is built or needs cargo."""

from __future__ import annotations

import datetime
import decimal
import math
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from benchmarks import compare
from benchmarks.arrival import TableAfterTable
from benchmarks.peers import differential_peer as peer
from tpch.schema import TABLES, TABLES_BY_NAME


def rows_of(name: str, count: int, first: int = 0) -> pa.Table:
    """Distinct rows of a table."""
    schema = TABLES_BY_NAME[name].arrow_schema
    columns = []
    for place, kind in enumerate(schema.types):
        numbers = range(first + place, first + place + count)
        values: list[Any] = list(numbers)
        if pa.types.is_string(kind):
            values = ["é" * (i % 3) + str(i) for i in numbers]
        elif pa.types.is_decimal(kind):
            values = [decimal.Decimal(i - 7) / 100 for i in numbers]
        elif pa.types.is_date(kind):
            values = [datetime.date(1970, 1, 1) + datetime.timedelta(i) for i in numbers]
        columns.append(pa.array(values, kind))
    return pa.table(columns, schema=schema)


def read_table(path: Path, name: str) -> list[tuple[Any, ...]]:
    """The rows of a file as the crate reads it: decimals as hundredths, dates as days."""
    data = path.read_bytes()
    count, at = int.from_bytes(data[:8], "little"), 8
    columns: list[list[Any]] = []
    for kind in TABLES_BY_NAME[name].arrow_schema.types:
        if pa.types.is_string(kind):
            ends = np.frombuffer(data, "<i4", count + 1, at)
            at += 4 * (count + 1)
            columns.append([data[at + a : at + b].decode() for a, b in pairwise(ends)])
            at += int(ends[-1])
        else:
            dtype = "<i4" if kind in (pa.int32(), pa.date32()) else "<i8"
            found = np.frombuffer(data, dtype, count, at)
            at += found.nbytes
            columns.append(found.tolist())
    assert at == len(data)
    return list(zip(*columns, strict=True))


def plain(value: Any) -> Any:
    if isinstance(value, decimal.Decimal):
        return int(value * 100)
    if isinstance(value, datetime.date):
        return (value - datetime.date(1970, 1, 1)).days
    return value


@pytest.mark.parametrize("name", [table.name for table in TABLES])
def test_tables_are_handed_over(name: str, tmp_path: Path) -> None:
    whole = rows_of(name, 20)
    for part in (whole, whole.slice(3, 9), whole.slice(0, 0)):
        peer.write_table(tmp_path / "rows", part)
        expected = [tuple(map(plain, row.values())) for row in part.to_pylist()]
        assert read_table(tmp_path / "rows", name) == expected


def keys_of(batches: list[Any]) -> list[tuple[str, int]]:
    return [
        (change.table, key)
        for batch in batches
        for change in batch.changes
        for key in change.rows.column(0).to_pylist()
    ]


@pytest.mark.parametrize("order", peer.ORDERS)
@pytest.mark.parametrize("batch_rows", [1, 7, 1_000])
def test_all_rows_arrive_once_in_transactions(order: str, batch_rows: int) -> None:
    tables = {"nation": rows_of("nation", 25), "orders": rows_of("orders", 900, 5)}
    steps = peer.cut(tables, order, batch_rows, 16)
    keys = keys_of([each.batch for each in steps])
    expected = [("nation", key) for key in range(25)] + [("orders", key) for key in range(5, 905)]
    # Each table's rows in their order, whatever comes between.
    assert sorted(keys, key=lambda pair: pair[0]) == expected
    timed = [each.batch.rows for each in steps if each.is_timed]
    if batch_rows == 1:
        assert timed == [1] * 16
    else:
        assert len(timed) == math.ceil(925 / batch_rows) == len(steps)


def test_one_table_comes_after_the_other() -> None:
    tables = {"nation": rows_of("nation", 25), "orders": rows_of("orders", 30)}
    batches = TableAfterTable(tables).next(20, 10)
    shapes = [[(c.table, c.rows.num_rows) for c in batch.changes] for batch in batches]
    assert shapes == [[("nation", 20)], [("nation", 5), ("orders", 15)], [("orders", 15)]]


def test_the_schedule_counts_the_rows_of_each_table(tmp_path: Path) -> None:
    tables = {"nation": rows_of("nation", 5), "orders": rows_of("orders", 4)}
    made = peer.Peer(tmp_path / "program", tmp_path / "data", tables)
    made.schedule(peer.cut(tables, "by-table", 6, 8))
    words = np.frombuffer((tmp_path / "data" / "schedule").read_bytes(), "<i4").reshape(-1, 9)
    assert words.tolist() == [[1, 0, 5, 0, 0, 0, 0, 1, 0], [1, 0, 0, 0, 0, 0, 0, 3, 0]]


def test_answers_are_compared() -> None:
    expected = [
        ("a", decimal.Decimal("1.50"), 0.25, datetime.date(1995, 1, 2)),
        ("b", decimal.Decimal("-2.00"), 1 / 3, datetime.date(1995, 1, 3)),
    ]
    right = [["b", "-2", "0.33333333333333", "1995-01-03"], ["a", "1.5000", "0.25", "1995-01-02"]]
    assert peer.difference(right, expected) is None
    for place, value in enumerate(("c", "1.5001", "0.2500001", "1995-01-01")):
        wrong = [right[0], [*right[1][:place], value, *right[1][place + 1 :]]]
        assert peer.difference(wrong, expected) is not None
    assert peer.difference(right[:1], expected) is not None
    assert peer.difference([], []) is None


def test_an_answer_before_order_and_limit() -> None:
    sql = "select a, (select b from u order by b limit 1) from t\norder by a desc\nlimit 10"
    assert peer.whole(sql) == "select a, (select b from u order by b limit 1) from t\n"


def test_without_cargo_the_peer_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(peer.shutil, "which", lambda name: None)
    assert compare.main(["--peer", "differential", "--out", str(tmp_path / "out")]) == 0
    assert "differential is left out: there is no cargo" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_crate_that_cannot_be_built_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peer.shutil, "which", lambda name: "/bin/false")
    problem, program = peer.build(tmp_path)
    assert "cannot be built" in problem
    assert program is None


def test_the_differential_peer_stands_alone(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        compare.main(["--peers", "flink", "differential"])
    assert "stands alone" in capsys.readouterr().err


def test_figures() -> None:
    def side(rate: float) -> dict[str, Any]:
        return {"rows_per_second": rate, "cpu_rows_per_second": rate}

    cells = [
        {"order": "in-order", "query": query, "batch_rows": 1_000,
         "sqlview": side(own), "differential": side(2e6)}
        for query, own in (("q01", 1e6), ("q06", 8e6))
    ]  # fmt: skip
    sizes = {f"{side}_{what}_bytes": 2**20 for side in ("sqlview", "differential")
             for what in ("input", "peak")}  # fmt: skip
    result = {"cells": cells, "settings": {"sf": 0.1}, "peer": peer.versions(),
              "memory": [{"query": "q01", **sizes}]}  # fmt: skip
    rates, ratios, memory = peer.tables(result)
    assert rates.rows == (("q01", "1", "2", "0.50"), ("q06", "8", "2", "4.00"))
    assert rates.footer == (("geometric mean", "2.83", "2", "1.41"),)
    assert ratios.rows == (("in-order", "1,000", "1.41", "1.41", "0.50", "q01", "1"),)
    assert memory.rows == (("q01", "1", "1", "1", "1"),)
    assert [(each.measured, each.is_met) for each in peer.targets(result)] == [
        ("1.41", False), ("0.50", False),
    ]  # fmt: skip
