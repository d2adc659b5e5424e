"""A store whose disk fails, or whose process or machine stops, at any call of a scripted life.

A call that fails fails the operation, with nothing of it visible, and it is done again. After a
stop the store is as after the last operation that returned, or the one behind it.
"""

from __future__ import annotations

import logging
import os
import tempfile
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import sqlview
from planner.errors import SqlViewError
from tests.store import disk as disks
from tests.store.disk import Disk, FailingDisk, Image, WatchedDisk, small_files
from tests.store.kills import killed
from tests.store.life import LIFE, State, state_of, states

_states = cache(states)


def quiet() -> None:
    """Failures are what is asked for."""
    logging.disable()
    disks.in_memory()


def error(at: int, second: bool) -> tuple[int, str | None]:
    """How many operations have so many calls; what is not right if that one fails in every other
    operation of a life, which is then done again: in the first, third …, or the `second`, fourth.
    """
    with tempfile.TemporaryDirectory() as directory:
        disk = FailingDisk(Path(directory) / "store", at, second)
        try:
            _live(disk)
            _check(disk.root, _states()[-1])
        except AssertionError as wrong:
            return disk.failures, f"error at call {at}, {second=}: {wrong}"
    return disk.failures, None


@dataclass
class Stop:
    """What a process or a machine that stopped leaves behind, and when it did: (mode, call,
    operations that had returned) of each time that would leave the very same."""

    image: Image
    times: list[tuple[str, int, int]] = field(default_factory=list)


def stops(stride: int = 1) -> list[Stop]:
    """One life, and a stop at each `stride`-th of its calls."""
    with tempfile.TemporaryDirectory() as directory:
        disk = WatchedDisk(Path(directory) / "store", stride)
        _live(disk)
    found = {digest: Stop(image) for digest, image in disk.images.items()}
    for mode, call, done, digest in disk.stops:
        found[digest].times.append((mode, call, done))
    return list(found.values())


def stopped(stop: Stop) -> list[str]:
    """What is not right after it."""
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory) / "store"
        disks.write(stop.image, root)
        try:
            found = _check(root)
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


def _check(root: Path, expected: State | None = None) -> State:
    """What a session finds there, which goes on. It is right if it is one of the expected states,
    which were compared with DuckDB's."""
    with small_files():
        with sqlview.connect(root) as db:
            found = state_of(db)
            assert expected in (None, found), "something was lost or doubled"
            db.sql("CREATE TABLE IF NOT EXISTS more (a INT)")
            with db.transaction() as tx:
                tx.insert("more", [(1,)])
        with sqlview.connect(root) as db:
            after = {**state_of(db), "epoch": found["epoch"]}
            assert after == {**found, "table more": [(1,)]}, "it does not go on from there"
    left = [name for name in os.listdir(root) if name.endswith(".part")]
    assert not left, f"{left} are left"
    return found


def _live(disk: Disk) -> None:
    expected, db = _states(), None
    with disk.installed():
        try:
            db = _opened(disk)
            for done, operation in enumerate(LIFE):
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
            disk.begin(len(LIFE))
            db.close()
        finally:
            if db is not None:
                _abandon(db)


def _opened(disk: Disk) -> Any:
    try:
        return sqlview.connect(disk.root)
    except SqlViewError:
        assert disk.failed
        return sqlview.connect(disk.root)


def _abandon(db: Any) -> None:
    """As if the process had ended: what it holds is let go, and nothing is written."""
    held = db._store
    held.stop()
    if held._log is not None:
        held._log._file.close()
        held._log = None
    held._released.close()
