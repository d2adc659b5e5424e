"""A store whose disk fails, or whose process or machine stops, at any call of a scripted life.

A call that fails fails the operation, with nothing of it visible, and it is done again. After a
stop the store is as after the last operation that returned, or the one behind it.
"""

from __future__ import annotations

import logging
import os
import tempfile
from contextlib import closing
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import sqlview
from operators.state.files import listed
from planner.errors import SqlViewError
from sqlview.store import Store, hold, lease, records
from sqlview.store.lease import Shown
from sqlview.store.log import Log
from tests.store import disk as disks
from tests.store.disk import (
    Disk,
    FailingDisk,
    FailingServer,
    Image,
    WatchedDisk,
    WatchedServer,
    small_files,
)
from tests.store.kills import killed
from tests.store.life import LIFE, State, state_of, states
from tests.store.server import served

_states = cache(states)


def quiet() -> None:
    """Failures are what is asked for."""
    logging.disable()
    os.environ.setdefault("SQLVIEW_CACHE", tempfile.mkdtemp())
    disks.in_memory()


def error(
    at: int, second: bool, late: bool | None = None, length: int = len(LIFE)
) -> tuple[int, str | None]:
    """How many operations have so many calls; what is not right if that one fails in every other
    operation of a life, which is then done again: in the first, third …, or the `second`, fourth.
    `late`: of a store at a URL, and whether the call that fails has done what it was to do.
    `length`: operations of the life.
    """
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory) / "store"
        disk = (
            FailingDisk(root, at, second) if late is None else FailingServer(root, at, second, late)
        )
        try:
            _live(disk, length)
            _check(disk.place, _states()[length])
        except AssertionError as wrong:
            return disk.failures, f"error at call {at}, {second=}, {late=}: {wrong}"
    return disk.failures, None


def served_life() -> int:
    """A whole life on a server that speaks S3, with another cache at each opening. Returns: its
    operations. Raises: AssertionError."""
    expected = _states()
    with served() as bucket, tempfile.TemporaryDirectory() as directory:
        url = f"{bucket}/life"
        db = sqlview.connect(url)
        for done, operation in enumerate(LIFE):
            if isinstance(operation, str):
                db.close()
                assert left_in(url) == set()
                db = sqlview.connect(url, cache=f"{directory}/{done}")
            else:
                operation(db)
            assert state_of(db) == expected[done + 1], f"after operation {done}"
        db.close()
        with sqlview.connect(url, read_only=True) as db:
            assert state_of(db) == expected[-1]
    return len(LIFE)


@dataclass
class Stop:
    """What a process or a machine that stopped leaves behind, and when it did: (mode, call,
    operations that had returned) of each time that would leave the very same."""

    image: Image
    remote: bool
    times: list[tuple[str, int, int]] = field(default_factory=list)


def stops(stride: int = 1, remote: bool = False, length: int = len(LIFE)) -> list[Stop]:
    """One life, and a stop at each `stride`-th of its calls. `remote`: of a store at a URL."""
    with tempfile.TemporaryDirectory() as directory:
        disk = (WatchedServer if remote else WatchedDisk)(Path(directory) / "store", stride)
        _live(disk, length)
    found = {digest: Stop(image, remote) for digest, image in disk.images.items()}
    for mode, call, done, digest in disk.stops:
        found[digest].times.append((mode, call, done))
    return list(found.values())


def stopped(stop: Stop) -> list[str]:
    """What is not right after it."""
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory) / "store"
        disks.write(stop.image, root)
        try:
            found = _check(f"file://{root}" if stop.remote else str(root))
        except (AssertionError, SqlViewError) as wrong:
            mode, call, done = stop.times[0]
            return [f"{mode} at call {call}, after {done} operations: {wrong}"]
    return [
        f"{mode} at call {call}, after {done} operations: something was lost or doubled"
        for mode, call, done in stop.times
        if found not in _states()[done : done + 2]
    ]


def kill(seed: int, kills: int) -> tuple[int, str | None]:
    """How many operations killed writers had said, and what is not right after that."""
    with tempfile.TemporaryDirectory() as directory:
        try:
            return killed(Path(directory), seed, kills), None
        except AssertionError as error:
            return 0, f"kill -9 with seed {seed}: {error}"


def _check(place: str, expected: State | None = None) -> State:
    """What a session finds there, which goes on. It is right if it is one of the expected states,
    which were compared with DuckDB's."""
    with small_files(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(lease, "LASTING_SECONDS", 0.0)
        patch.setattr(hold, "HOLD_SECONDS", 0.0)
        with sqlview.connect(place) as db:
            found = state_of(db)
            assert expected in (None, found), "something was lost or doubled"
            db.sql("CREATE TABLE IF NOT EXISTS more (a INT)")
            with db.transaction() as tx:
                tx.insert("more", [(1,)])
        with sqlview.connect(place) as db:
            after = {**state_of(db), "epoch": found["epoch"]}
            assert after == {**found, "table more": [(1,)]}, "it does not go on from there"
    left = left_in(place)
    assert not left, f"{left} are left"
    return found


def left_in(place: str) -> set[str]:
    """The files of a store that is closed which nobody needs."""
    there = listed(place)
    with closing(Store(place, "close", read_only=True)) as store:
        needed = {"store.json", "lease"}
        if store.checkpoint is not None:
            needed |= {os.path.basename(store.checkpoint.path), *store.checkpoint.values}
        for record in store.records():
            needed.update(records.files_of(record.body))
    return {name for name in there if name not in needed and name[:4] not in ("log-", "sess")}


def _live(disk: Disk, length: int) -> None:
    expected, db = _states(), None
    with disk.installed():
        try:
            db = _opened(disk)
            for done, operation in enumerate(LIFE[:length]):
                disk.begin(done)
                for _ in range(2):
                    try:
                        if isinstance(operation, str):
                            db.close()
                            db = _opened(disk)
                        else:
                            operation(db)
                        break
                    except SqlViewError:
                        assert disk.failed
                        if not isinstance(operation, str):
                            message = "something of a failure is visible"
                            assert state_of(db) == expected[done], message
                assert state_of(db) == expected[done + 1], f"after operation {done}"
                disk.done = done + 1
            disk.begin(length)
            db.close()
        finally:
            if db is not None:
                _abandon(db)


def _opened(disk: Disk) -> Any:
    try:
        return sqlview.connect(disk.place)
    except SqlViewError:
        assert disk.failed
        return sqlview.connect(disk.place)


def _abandon(db: Any) -> None:
    """As if the process had ended: what it holds is let go, and nothing is written."""
    held = db._store
    held.stop()
    if isinstance(held._log, Log):
        held._log._file.close()
        held._log = None
    if isinstance(held._lease, Shown):
        held._lease._stop.set()
        held._released.pop_all()
    held._released.close()
