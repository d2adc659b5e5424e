"""A scripted life of a store, and a disk that fails in it.

`LIFE` is what a session does, one operation after the other, with every kind of operator under
change, stores that are opened again, and checkpoints. `run` lets the `at`-th call
that changes the disk fail in some way, and checks what is there then:

- `error`: it raises, once. The operation fails with nothing of it visible, and is done again.
- `kill`: the process stops there: what it wrote is what the next one finds.
- `torn`: as `kill`, in the middle of the write.
- `power`: the machine stops there: what was not synced is gone, names in directories included.

After a stop the store must be as after the last operation that returned, or the one behind it.
"""

from __future__ import annotations

import errno
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

import sqlview
from operators.checkpoint import stored_dead, stored_values
from operators.state import files, pieces, relation, segments, values
from operators.state.publish import Publisher
from planner.errors import SqlViewError
from sqlview.oracle import canonical_rows
from sqlview.store import log, records, rows, store

MODES = ("error", "kill", "torn", "power")
#: Calls that change the disk.
CALLS = (
    "pwritev",
    "fdatasync",
    "fsync",
    "ftruncate",
    "posix_fallocate",
    "rename",
    "mkdir",
    "remove",
)

Operation = Callable[[Any], None]
State = dict[str, Any]


def statement(text: str) -> Operation:
    """Run it."""
    return lambda db: db.sql(text)


def _view(name: str, query: str) -> Operation:
    return statement(f"CREATE MATERIALIZED VIEW IF NOT EXISTS {name} AS {query}")


def changing(*changes: tuple[str, str, list[Any]]) -> Operation:
    """Commit changes, each a method of transactions, a table and rows."""

    def commit(db: Any) -> None:
        with db.transaction() as tx:
            for action, table, rows in changes:
                getattr(tx, action)(table, rows)

    return commit


def _many(db: Any) -> None:
    with db.transactions() as txs:
        txs.upsert("t", [(2, 9, "z", 1.5), (7, 1, None, None)], times=[0, 2])
        txs.delete("t", [(3,)], times=[1])


def _refused(db: Any) -> None:
    """Of which nothing is kept."""
    with pytest.raises(sqlview.DataError), db.transaction() as tx:
        tx.insert("t", [(i, 0, "refused" * 200, None) for i in (60, 61, 62, 2)])


def _together(db: Any) -> None:
    """Commits of three threads that wait for the session, which share a step and a record."""
    errors: list[BaseException] = []

    def commit(tx: Any) -> None:
        try:
            db.apply([tx])
        except BaseException as error:
            errors.append(error)

    threads = []
    for k in (70, 71, 72):
        tx = db.begin()
        tx.upsert("t", [(k, 1, "together", float(k))])
        threads.append(threading.Thread(target=commit, args=(tx,)))
    with db._lock:
        for at, thread in enumerate(threads):
            thread.start()
            while len(db._commits._waiting) == at and thread.is_alive():
                threading.Event().wait(0.0001)  # in order
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def _checkpoint(db: Any) -> None:
    if db._store is not None:
        db.checkpoint()


def _publish(db: Any) -> None:
    """What a step on Spark publishes; if it cannot, the step goes on without."""
    if db._store is None:
        return
    flow = db._dataflow
    publisher = Publisher(os.path.join(db._store.path, "session-1"), db._store.values)
    with (
        suppress(OSError),
        publisher.publication(stored_values(flow), stored_dead(flow)) as job,
    ):
        for _, rows in flow.relations():
            job.relation(rows, range(len(rows.schema)), None)
        for index in flow.indexes:
            job.index(index.state)
    publisher.collect(stored_values(flow), stored_dead(flow))


def _created_with_rows(db: Any) -> None:
    if "made" not in db.sql("SHOW TABLES").to_arrow()["table"].to_pylist():
        db.create_table("made", {"a": [1, 2, 2], "b": ["x", None, "y"]})


def _widened(db: Any) -> None:
    if len(db.sql("SHOW COLUMNS IN made").rows()) == 2:
        db.sql("ALTER TABLE made ADD COLUMN c STRING NOT NULL DEFAULT 'there'")


def _renamed(db: Any) -> None:
    if "made" in db.sql("SHOW TABLES").to_arrow()["table"].to_pylist():
        db.sql("ALTER TABLE made RENAME TO finished")


LIFE: tuple[Operation | str, ...] = (
    statement("CREATE TABLE IF NOT EXISTS t (k INT PRIMARY KEY, g INT, s STRING, f DOUBLE)"),
    statement("CREATE TABLE IF NOT EXISTS bag (g INT, d DECIMAL(20,3), day DATE)"),
    changing(("insert", "t", [(i, i % 3, "abc"[i % 3], i / 2) for i in range(6)])),
    _view("sums", "SELECT g, count(*) AS n, sum(f) AS f, max(s) AS top FROM t GROUP BY g"),
    _view(
        "joined",
        "SELECT t.k, bag.d, sums.n FROM t LEFT JOIN bag ON t.g = bag.g JOIN sums ON sums.g = t.g",
    ),
    changing(("insert", "bag", [(0, 1, None), (0, 1, None), (2, 3, None)])),
    _view("firsts", "SELECT k, s FROM t ORDER BY s DESC, k LIMIT 2"),
    _view("above", "SELECT k FROM t WHERE f > (SELECT avg(n) FROM sums)"),
    "open",
    changing(
        ("upsert", "t", [(1, 2, "q", None), (9, 0, "new", 8.0)]), ("delete", "bag", [(0, 1, None)])
    ),
    statement("CREATE STREAM IF NOT EXISTS events (g INT)"),
    _view("seen", "SELECT g, count(*) AS n, max(g) AS m FROM events GROUP BY g"),
    changing(("insert", "events", [(1,), (1,), (None,)]), ("delete", "t", [(5,)])),
    _many,
    _refused,
    _together,
    "open",
    changing(("insert", "events", [(1,)]), ("insert", "bag", [(1, 2, None)])),
    statement(
        "CREATE OR REPLACE MATERIALIZED VIEW above AS SELECT g, median(f) AS m,"
        " listagg(s) WITHIN GROUP (ORDER BY s) AS l FROM t GROUP BY g"
    ),
    _created_with_rows,
    _view("star", "SELECT * FROM made"),
    _widened,
    statement("DROP MATERIALIZED VIEW IF EXISTS firsts"),
    changing(("upsert", "t", [(1, 1, "again", 0.25)])),
    statement("DROP MATERIALIZED VIEW IF EXISTS seen"),
    _publish,
    _checkpoint,
    _view("kinds", "SELECT DISTINCT g, d FROM bag WHERE d > 0.5"),
    changing(("insert", "bag", [(5, 7, None)]), ("delete", "t", [(0,)])),
    _publish,
    _checkpoint,
    "open",
    _publish,
    _checkpoint,
    changing(("insert", "t", [(50, 5, "last", -0.0)])),
    _renamed,
    changing(
        ("insert", "finished", [(3, None, "new")]), ("delete", "finished", [(1, "x", "there")])
    ),
    statement("DROP MATERIALIZED VIEW IF EXISTS star"),
    statement("DROP TABLE IF EXISTS finished"),
)


class Stopped(BaseException):
    """The process or the machine stops here."""


class Disk:
    """The calls of one process that change the disk; the `at`-th fails as `mode` says.

    State: the bytes of each file when it was last synced, and the names that were in the
    directory when that was.
    """

    def __init__(self, root: Path, mode: str, at: int) -> None:
        self.root = root
        self.mode = mode
        self.at = at
        self.calls = 0
        self.stopped = False
        self.failed = False
        self._synced: dict[int, bytes] = {}
        self._names: dict[str, int] = {}

    @contextmanager
    def installed(self) -> Iterator[None]:
        with pytest.MonkeyPatch.context() as patch:
            for name in CALLS:
                patch.setattr(os, name, self._call(name, getattr(os, name)))
            patch.setattr(log, "FILE_BYTES", 2_000)  # records go to several files
            patch.setattr(log, "_LEAVE_BYTES", 1_000)
            patch.setattr(records, "LARGE_ROWS", 3)  # some records are written beside the steps
            patch.setattr(rows, "_LARGE_ROWS", 3)
            patch.setattr(store, "CHECKPOINT_SECONDS", 1e9)  # when they are said to be written
            patch.setattr(relation, "BULK_ROWS", 3)  # so that there are full blocks
            patch.setattr(values, "_OWN_FILE", 500)
            for module in (log, store, pieces, segments):
                patch.setattr(module, "create", self._creating(files.create))
            yield

    def _call(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def called(*args: Any, **named: Any) -> Any:
            def torn() -> None:
                if name == "pwritev":
                    data = b"".join(args[1])
                    call(args[0], [data[: len(data) // 2]], args[2])

            self._count(name, torn)
            result = call(*args, **named)
            if name in ("fsync", "fdatasync"):
                self._sync(args[0])
            return result

        return called

    def _creating(self, create: Callable[..., Any]) -> Callable[..., Any]:
        def creating(path: str) -> Any:
            self._count("create", lambda: None)
            file = create(path)
            write = file.write

            class Writing:
                def write(_, data: bytes) -> int:
                    self._count("write", lambda: write(data[: len(data) // 2]))
                    return int(write(data))

                def __getattr__(_, name: str) -> Any:
                    return getattr(file, name)

                def __enter__(_) -> Any:
                    return _

                def __exit__(_, *error: object) -> None:
                    file.close()

            return Writing()

        return creating

    def _count(self, name: str, torn: Callable[[], object]) -> None:
        if self.stopped:
            raise Stopped
        self.calls += 1
        if self.calls != self.at:
            return
        self.failed = True
        if self.mode == "error":
            raise OSError(errno.ENOSPC, "no space left on device")
        if self.mode == "torn":
            torn()
        self.stopped = True
        raise Stopped

    def _sync(self, file: int) -> None:
        path = Path(os.readlink(f"/proc/self/fd/{file}"))
        if path == self.root:
            self._names = {p.name: p.stat().st_ino for p in path.iterdir() if p.is_file()}
        elif path.parent == self.root:
            self._synced[os.fstat(file).st_ino] = path.read_bytes()

    def image(self, to: Path) -> None:
        """What the next process finds."""
        if self.mode != "power":
            if self.root.exists():
                shutil.copytree(self.root, to)
            return
        to.mkdir(mode=0o700)
        for name, inode in self._names.items():
            (to / name).write_bytes(self._synced.get(inode, b""))
            (to / name).chmod(0o600)


def state_of(db: Any) -> State:
    """All that a session shows."""
    found: State = {"epoch": db.epoch}
    for name in db.sql("SHOW VIEWS").to_arrow()["view"].to_pylist():
        found[name] = sorted(canonical_rows(db.view(name).to_arrow()), key=str)
    for name in db.sql("SHOW TABLES").to_arrow()["table"].to_pylist():
        found[f"table {name}"] = sorted(canonical_rows(db._read(name)), key=str)
    return found


def states() -> list[State]:
    """What is there after each operation, and before all of them."""
    with sqlview.connect() as db:
        found = [state_of(db)]
        for operation in LIFE:
            if not isinstance(operation, str):
                operation(db)
            found.append(state_of(db))
    return found


def run(root: Path, mode: str, at: int, expected: list[State]) -> bool:
    """One life with one failure; False if it ended before it came to that."""
    disk = Disk(root / "store", mode, at)
    done = 0
    with disk.installed():
        try:
            done = _live(disk, expected)
        except _Ended as ended:
            done = ended.done
    if not disk.failed:
        return False
    after = root / "after"
    disk.image(after)
    with sqlview.connect(after) as db:
        found = state_of(db)
        about = f"{mode} at call {at}, after {done} operations"
        assert found in expected[done : done + 2], about
        for name in db.sql("SHOW VIEWS").to_arrow()["view"].to_pylist():
            if name != "seen":
                assert db.verify(name, engine="duckdb").equal, f"{about}: {name}"
        # It goes on from there.
        db.sql("CREATE TABLE IF NOT EXISTS more (a INT)")
        with db.transaction() as tx:
            tx.insert("more", [(1,)])
    with sqlview.connect(after) as db:
        assert {**state_of(db), "epoch": found["epoch"]} == {**found, "table more": [(1,)]}, about
        left = [n for n in os.listdir(after) if n.endswith(".part")]
        assert not left, about
    return True


class _Ended(Exception):
    def __init__(self, done: int) -> None:
        self.done = done


def _live(disk: Disk, expected: list[State]) -> int:
    """How many operations returned. Raises: _Ended with that number if the process stopped."""
    done, db = 0, None
    try:
        db = _opened(disk)
        for done, operation in enumerate(LIFE):
            for _ in range(2):
                try:
                    if isinstance(operation, str):
                        db.close()
                        db = _opened(disk)
                    else:
                        operation(db)
                    break
                except SqlViewError:
                    assert disk.failed and disk.mode == "error"
                    if not isinstance(operation, str):
                        assert state_of(db) == expected[done], "something of a failure is visible"
            assert state_of(db) == expected[done + 1]
        done = len(LIFE)
        db.close()
    except Stopped:
        raise _Ended(done) from None
    finally:
        if db is not None:
            disk.stopped = False
            disk.at = 0
            _abandon(db)
    return done


def _opened(disk: Disk) -> Any:
    try:
        return sqlview.connect(disk.root)
    except SqlViewError:
        assert disk.failed and disk.mode == "error"
        return sqlview.connect(disk.root)


def _abandon(db: Any) -> None:
    """As if the process had ended: what it holds is let go, and nothing is written."""
    held = db._store
    held.stop()
    if held._log is not None:
        os.close(held._log._file)
        held._log = None
    held._released.close()
