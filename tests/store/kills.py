"""Processes that write a store and are killed.

A writer does `operations`, one after the other, and says of each when it has returned. So whoever
kills it knows what is there then: what had returned, or one operation more.
"""

from __future__ import annotations

import itertools
import multiprocessing
import os
import random
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, TypeAlias

import sqlview

#: Processes are forked from one that has imported all, and loaded kernels; it has no threads.
FORKED = multiprocessing.get_context("forkserver")
FORKED.set_forkserver_preload(["tests.store.warmed"])

#: How many rows (i, i % 7, i) are in the table, and how many there were when view `last` was made;
#: None: it is not there.
State: TypeAlias = tuple[int, int | None]

#: How many operations a writer may say, at most, before it is killed, and for how many seconds it
#: lives after the last one, or from its start.
_OPERATIONS, _SECONDS = 40, 0.05


def operations(rows: int) -> Iterator[tuple[str, int]]:
    """What is done from so many rows on; `last` is replaced, and dropped, now and then."""
    for i in itertools.count(rows):
        yield "insert", i
        if (i + 1) % 5 == 0:
            yield "replace", i + 1
        if (i + 1) % 35 == 0:
            yield "drop", i + 1


def after(state: State, count: int) -> State:
    """What is there after so many operations."""
    rows, made = state
    for what, i in itertools.islice(operations(rows), count):
        match what:
            case "insert":
                rows = i + 1
            case "replace":
                made = i
            case _:
                made = None
    return rows, made


def write(path: Path, checkpoints: bool, said: Connection) -> None:
    """Do operations until the end. `checkpoints`: they are written all the time."""
    if checkpoints:
        sqlview.store.store.CHECKPOINT_SECONDS = sqlview.store.store._LOOK_SECONDS = 0.01
        sqlview.store.store.CHECKPOINT_SHARE = 1.0
        sqlview.store.verification._BEFORE_SECONDS = 0.0  # none is written before
    db = sqlview.connect(path)
    db.sql("CREATE TABLE IF NOT EXISTS t (k INT PRIMARY KEY, g INT, v BIGINT)")
    create = "CREATE MATERIALIZED VIEW IF NOT EXISTS sums AS "
    db.sql(create + "SELECT g, count(*) AS n, sum(v) AS s FROM t GROUP BY g")
    said.send_bytes(b"ready")
    for what, i in operations(sum(db.view("sums").to_arrow()["n"].to_pylist())):
        match what:
            case "insert":
                with db.transaction() as tx:
                    tx.insert("t", [(i, i % 7, i)])
            case "replace":
                made = f"SELECT max(k) AS k, {i} AS made FROM t"
                db.sql(f"CREATE OR REPLACE MATERIALIZED VIEW last AS {made}")
            case _:
                db.sql("DROP MATERIALIZED VIEW IF EXISTS last")
        said.send_bytes(b"done")


def killed(directory: Path, seed: int, kills: int = 10) -> int:
    """Kill writers of one store at random times, one after the other; what is there after each is
    what it had said, or one operation more. Returns how many operations they had said."""
    rng = random.Random(seed)
    path, state, total = directory / "store", (0, None), 0
    for kill in range(kills):
        ready, done = _killed(path, rng, checkpoints=bool(kill % 2))
        total += done
        if not (path / "store.json").exists():
            assert not ready
            continue
        # What is opened for reading only is left as it is to the next writer.
        with sqlview.connect(path, read_only=rng.random() < 0.5) as db:
            found = _state(db)
            expected = [after(state, done), after(state, done + 1)] if ready else [state]
            assert found in expected, f"{found} and not {expected}"
            if kill == kills - 1:
                for name in db.sql("SHOW VIEWS").to_arrow()["view"].to_pylist():
                    assert db.verify(name, engine="duckdb").equal, name
        state = found
    with sqlview.connect(path) as db:
        assert _state(db) == state
    left = [name for name in os.listdir(path) if name.endswith(".part")]
    assert not left, f"{left} are left"
    return total


def _killed(path: Path, rng: random.Random, checkpoints: bool) -> tuple[bool, int]:
    """Start a writer and kill it: whether it had opened the store, and the operations it said."""
    heard, said = FORKED.Pipe(duplex=False)
    with heard:
        with said:
            writer = FORKED.Process(target=write, args=(path, checkpoints, said))
            writer.start()
        # Some die while they open the store; the others some time after that.
        opening = rng.random() < 0.3
        waits = 0 if opening else rng.randrange(1, _OPERATIONS)
        messages = [heard.recv_bytes() for _ in range(waits)]
        time.sleep(rng.random() * _SECONDS)
        writer.kill()
        writer.join()
        try:
            while True:
                messages.append(heard.recv_bytes())
        except EOFError:
            pass
    return b"ready" in messages, messages.count(b"done")


def _state(db: Any) -> State:
    """What is there, which is what one epoch of the table gives."""
    tables = db.sql("SHOW TABLES").to_arrow()["table"].to_pylist()
    views = db.sql("SHOW VIEWS").to_arrow()["view"].to_pylist()
    if "t" not in tables:
        return 0, None
    rows = sorted(db._read("t").to_pylist(), key=lambda row: row["k"])
    assert rows == [{"k": i, "g": i % 7, "v": i} for i in range(len(rows))]
    if "sums" in views:
        groups = [range(g, len(rows), 7) for g in range(min(7, len(rows)))]
        expected = [(g, len(group), sum(group)) for g, group in enumerate(groups)]
        assert sorted(db.view("sums").rows()) == expected
    if "last" not in views:
        return len(rows), None
    ((k, made),) = db.view("last").rows()
    assert k == len(rows) - 1
    return len(rows), made
