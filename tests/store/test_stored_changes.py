"""Upserts and deletes of rows that lie in files, as DataFrames come, against the same as Arrow."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import sqlview
from operators.flight import arrow
from operators.kernels.memory import BLOCK_ROWS
from operators.state.changes import DELETE, INSERT, UPSERT
from operators.state.stored import write_stored
from planner.errors import DataError
from sqlview import Session, Transaction
from sqlview.transaction import Statement
from tests.spark.in_process import opened

KEYS = {"number": "id BIGINT", "text": "id STRING", "both": "id STRING, n INT"}
VIEWS = {
    "sums": "SELECT g, count(*) AS n, sum(x) AS x FROM t GROUP BY g",
    "first": "SELECT g, min(x) AS x FROM t GROUP BY g",
    "copy": "SELECT * FROM t WHERE x > 3",
    "ranked": "SELECT g, x, row_number() OVER (PARTITION BY g ORDER BY x, id) AS r FROM t",
}


def _rows(kind: str, chance: random.Random, ids: Sequence[int]) -> pa.Table:
    n = len(ids)
    made: dict[str, Any] = {"id": pa.array(ids, pa.int64())}
    if kind != "number":
        made["id"] = [f"a text of more than fifteen bytes {i // 3}" for i in ids]
    if kind == "text":
        made["id"] = [f"{'x' * (i % 20)} {i}" for i in ids]
    if kind == "both":
        made["n"] = pa.array([i % 3 for i in ids], pa.int32())
    made["g"] = pa.array([chance.choice([None, *range(5)]) for _ in range(n)], pa.int64())
    made["x"] = pa.array([chance.randrange(9) for _ in range(n)], pa.int64())
    return pa.table(made)


def _store(db: Session, tx: Transaction, action: int, rows: pa.Table, cuts: int = 3) -> None:
    """Give rows as files."""
    table, store = db._catalog.table("t"), db._store
    assert table.key is not None and store is not None
    schema, key = table.schema, table.key
    if action == DELETE:
        schema, key = tuple(schema[k] for k in key), tuple(range(len(key)))
    reader, lent = arrow.TableReader(schema, exact=action != DELETE), store.values.lend()
    step = -(-len(rows) // cuts)
    pieces = (reader.columns(rows.slice(at, step)) for at in range(0, len(rows), step))
    stored = write_stored(pieces, schema, key, store.path, lent.token, lent)
    tx._keep([Statement(table, action, [], stored=stored)])


@pytest.fixture(params=[True, False], ids=["tasks", "driver"])
def pair(tmp_path: Path, request: Any) -> Iterator[Any]:
    """A store whose rows tasks match, or this process, and a session without files."""
    limits = {"apply_rows": 0, "combine_rows": 0, "task_rows": 1}
    with opened(tmp_path / "store", step_limits=limits) as db, sqlview.connect() as other:
        shared, matched = db._dataflow.shared, list[int]()
        match = shared.match
        assert match is not None

        def counting(*asked: Any) -> Any:
            matched.append(1)
            return match(*asked) if request.param else None

        shared.match = counting
        if not request.param:
            shared.build = None
        yield db, other
        assert len(matched) > 2


def _same(db: Session, other: Session) -> None:
    for name in ("t", *VIEWS):
        rows = (sorted(each._read(name).to_pylist(), key=repr) for each in (db, other))
        assert next(rows) == next(rows), name


@pytest.mark.parametrize("kind", KEYS)
def test_random_changes(pair: Any, kind: str, tmp_path: Path) -> None:
    """Loads, upserts and deletes in files, beside small ones, and what is there when the store is
    opened again, from the log and from a checkpoint."""
    db, other = pair
    chance, present = random.Random(kind), set[int]()
    names = [column.split()[0] for column in KEYS[kind].split(", ")]
    for each in pair:
        each.sql(
            f"CREATE TABLE t ({KEYS[kind]}, g BIGINT, x BIGINT, PRIMARY KEY ({', '.join(names)}))"
        )
        for name, query in VIEWS.items():
            each.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
    heard: list[list[pa.Table]] = [[], []]
    for each, tables in zip(pair, heard, strict=True):
        each.subscribe("copy", tables.append)
    for step in range(6):
        come = chance.sample(range(300), 90)
        go = chance.sample(sorted(present - set(come)), min(25, len(present - set(come))))
        rows, gone = _rows(kind, chance, come), _rows(kind, chance, go)
        if step % 3 == 2:  # with another change of the table, rows in files are read
            go = []
        for each in pair:
            with each.transaction() as tx:
                if each is other:
                    tx.upsert("t", rows)
                else:
                    _store(each, tx, UPSERT, rows)
                if step % 3 == 2:
                    tx.upsert("t", rows.slice(0, 2))
            if go:
                with each.transaction() as tx:
                    if each is other:
                        tx.delete("t", gone.select(names))
                    else:
                        _store(each, tx, DELETE, gone)
        present = (present | set(come)) - set(go)
        assert len(db._read("t")) == len(present)
        _same(db, other)
        if step == 3:
            db.checkpoint()
    assert _net(heard[0]) == _net(heard[1]) != {}
    db._save_last = lambda store: None
    db.close()
    for _ in ("from the log", "from a checkpoint"):
        with sqlview.connect(tmp_path / "store") as again:
            _same(again, other)


def _net(tables: list[pa.Table]) -> dict[str, int]:
    net: dict[str, int] = {}
    for table in tables:
        for row in table.to_pylist():
            diff = row.pop("__diff")
            net[repr(row)] = net.get(repr(row), 0) + diff
    return {row: n for row, n in net.items() if n}


@pytest.mark.parametrize("kind", KEYS)
def test_refused(pair: Any, kind: str) -> None:
    """A key that is there twice, or that no row has, wherever it is; nothing is applied."""
    db, other = pair
    names = [column.split()[0] for column in KEYS[kind].split(", ")]
    for each in pair:
        each.sql(
            f"CREATE TABLE t ({KEYS[kind]}, g BIGINT, x BIGINT, PRIMARY KEY ({', '.join(names)}))"
        )
        for name, query in VIEWS.items():
            each.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
    chance = random.Random(5)
    rows = _rows(kind, chance, range(200))
    for each in pair:
        with each.transaction() as tx:
            tx.insert("t", rows)
    twice = _rows(kind, chance, [*range(50, 150), 97, 60])
    absent = _rows(kind, chance, [*range(50), 777, *range(50, 90), 555])
    for action, given, message in (
        (UPSERT, twice, "a key is there twice"),
        (DELETE, twice, "there is no such row"),
        (DELETE, absent, "there is no such row"),
        (INSERT, absent, "the key is there already"),
    ):
        for beside in (False, True):
            tx = db.begin()
            _store(db, tx, action, given)
            if beside:
                tx.insert("t", _rows(kind, chance, [999]))
            with pytest.raises(DataError, match=message) as raised:
                db.apply([tx])
            assert "id = " in (raised.value.detail or "")
            _same(db, other)
    for each in pair:
        with each.transaction() as tx:
            tx.delete("t", rows.slice(3, 9).select(names))
    _same(db, other)


def test_blocks(tmp_path: Path) -> None:
    """More rows than a block has, over rows of several blocks."""
    with opened(tmp_path / "store") as db:
        db.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, x BIGINT)")
        db.sql("CREATE MATERIALIZED VIEW v AS SELECT x, count(*) AS n FROM t GROUP BY x")
        n = 2 * BLOCK_ROWS + 100
        for x, first in ((1, 0), (2, BLOCK_ROWS)):
            with db.transaction() as tx:
                ids = pa.array(range(first, first + n))
                _store(db, tx, UPSERT, pa.table({"id": ids, "x": pa.array([x] * n)}))
        with db.transaction() as tx:
            _store(db, tx, DELETE, pa.table({"id": pa.array(range(100, n, 2))}))
        left = BLOCK_ROWS - (BLOCK_ROWS - 100) // 2
        assert db._read("v").sort_by("x").to_pylist() == [
            {"x": 1, "n": left},
            {"x": 2, "n": n - (n - BLOCK_ROWS) // 2},
        ]
