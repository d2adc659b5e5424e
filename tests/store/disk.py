"""The calls that change the disk while a store lives, and what a stop at each of them leaves."""

from __future__ import annotations

import errno
import hashlib
import os
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from operators.state import files, objects, relation, values
from sqlview.store import lease, log, records, rows, store

#: Calls that change the disk, beside the making of files and writes to them.
_CALLS = (
    "pwritev",
    "fdatasync",
    "fsync",
    "ftruncate",
    "posix_fallocate",
    "rename",
    "mkdir",
    "remove",
)

_MEMORY = "/dev/shm"

#: A directory's files by their names in it, and the directories in it, whose names end in "/".
Image: TypeAlias = dict[str, bytes]


class Disk:
    """The calls of one process that change the disk under `root`, of one thread at a time. `done`:
    how many operations of a life have returned; `failed`: whether a call of this one has failed."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.calls = self.done = 0
        self.failed = False
        self._lock = threading.RLock()

    @property
    def place(self) -> str:
        """What a session opens."""
        return str(self.root)

    def begin(self, operation: int) -> None:
        """The calls of an operation of a life come next."""

    @contextmanager
    def installed(self) -> Iterator[None]:
        with pytest.MonkeyPatch.context() as patch, small_files():
            self._install(patch)
            patch.setattr(records, "LARGE_ROWS", 3)  # some records are written beside the steps
            patch.setattr(rows, "_LARGE_ROWS", 3)
            patch.setattr(store, "CHECKPOINT_SECONDS", 1e9)  # when they are said to be written
            patch.setattr(relation, "BULK_ROWS", 3)  # so that there are full blocks
            patch.setattr(values, "_OWN_FILE", 500)
            yield

    def _install(self, patch: pytest.MonkeyPatch) -> None:
        for name in _CALLS:
            patch.setattr(os, name, self._calling(name, getattr(os, name)))
        patch.setattr(files, "create", self._creating(files.create))

    def before(self, half: tuple[Path, int, bytes] | None) -> None:
        """A call is about to be made. `half`: of a write the file, where, and half of the bytes."""
        self.calls += 1

    def synced(self, path: Path) -> None:
        """A file or a directory is on the disk."""

    def _calling(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def called(*args: Any, **named: Any) -> Any:
            with self._lock:
                half = None
                if name == "pwritev":
                    data = b"".join(args[1])
                    half = _path(args[0]), args[2], data[: len(data) // 2]
                self.before(half)
                result = call(*args, **named)
                if name in ("fsync", "fdatasync"):
                    self.synced(_path(args[0]))
            return result

        return called

    def _creating(self, create: Callable[..., Any]) -> Callable[..., Any]:
        def creating(path: str) -> Any:
            with self._lock:
                self.before(None)
                file = create(path)
            write = file.write

            class Writing:
                def write(_, data: bytes) -> int:
                    with self._lock:
                        file.flush()
                        self.before((Path(path), file.tell(), bytes(data[: len(data) // 2])))
                        return int(write(data))

                def __getattr__(_, name: str) -> Any:
                    return getattr(file, name)

                def __enter__(_) -> Any:
                    return _

                def __exit__(_, *error: object) -> None:
                    file.close()

            return Writing()

        return creating


class FailingDisk(Disk):
    """The `at`-th call of every other operation fails, once: of the first, third and so on, or the
    `second`, fourth. `failures`: how many did."""

    def __init__(self, root: Path, at: int, second: bool) -> None:
        super().__init__(root)
        self._at, self._second = at, second
        self._fails = False
        self.failures = 0

    def begin(self, operation: int) -> None:
        self.calls, self.failed = 0, False
        self._fails = operation % 2 == self._second

    def before(self, half: tuple[Path, int, bytes] | None) -> None:
        super().before(half)
        if self._fails and not self.failed and self.calls == self._at:
            self.failed = True
            self.failures += 1
            raise OSError(errno.ENOSPC, "no space left on device")


class WatchedDisk(Disk):
    """What the next process would find if this one, or the machine, stopped at any call.

    - `kill`: the process stops before the call: all that was written is there;
    - `torn`: in the middle of the call, which is a write;
    - `power`: the machine stops there: what was not synced is gone, names in directories included.

    `images`: by their digests. `stops`: (mode, call, operations that had returned, digest) of each.
    """

    def __init__(self, root: Path, stride: int) -> None:
        """`stride`: of the calls at which one is to be looked at."""
        super().__init__(root)
        self._stride = stride
        self.images: dict[bytes, Image] = {}
        self.stops: list[tuple[str, int, int, bytes]] = []
        self._contents: dict[bytes, bytes] = {}  # files that images share
        self._synced: dict[int, bytes] = {}
        self._names: dict[str, int] = {}

    def before(self, half: tuple[Path, int, bytes] | None) -> None:
        super().before(half)
        if self.calls % self._stride:
            return
        image = self._image()
        self._stop("kill", image)
        if half is not None:
            path, at, data = half
            name = str(path.relative_to(self.root))
            there = image[name]
            self._stop("torn", {**image, name: there[:at] + data + there[at + len(data) :]})
        self._stop("power", {n: self._synced.get(inode, b"") for n, inode in self._names.items()})

    def synced(self, path: Path) -> None:
        if path == self.root:
            self._names = {p.name: p.stat().st_ino for p in path.iterdir() if p.is_file()}
        elif path.parent == self.root:
            self._synced[path.stat().st_ino] = path.read_bytes()

    def _image(self) -> Image:
        found: Image = {}
        for directory, directories, names in os.walk(self.root):
            inside = Path(directory).relative_to(self.root)
            for name in directories:
                found[f"{inside / name}/"] = b""
            for name in names:
                found[str(inside / name)] = (Path(directory) / name).read_bytes()
        return found

    def _stop(self, mode: str, image: Image) -> None:
        digest = hashlib.sha256()
        shared: Image = {}
        for name, data in sorted(image.items()):
            content = hashlib.sha256(data).digest()
            shared[name] = self._contents.setdefault(content, data)
            digest.update(repr(name).encode() + content)
        self.images.setdefault(digest.digest(), shared)
        self.stops.append((mode, self.calls, self.done, digest.digest()))


class _Server(Disk):
    """As a disk, but an object store: what changes are its objects, each at once."""

    @property
    def place(self) -> str:
        return f"file://{self.root}"

    def _install(self, patch: pytest.MonkeyPatch) -> None:
        patch.setattr(lease, "LASTING_SECONDS", 0.0)  # who could not give it back, takes it again
        for name in ("put", "put_new", "publish", "remove", "remove_some"):
            patch.setattr(objects, name, self._changing(getattr(objects, name)))

    def _changing(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def called(*args: Any) -> Any:
            with self._lock:
                self.before(None)
                return call(*args)

        return called


class FailingServer(_Server, FailingDisk):
    """`late`: a call that fails has done what it was to do, and the answer is lost."""

    def __init__(self, root: Path, at: int, second: bool, late: bool) -> None:
        super().__init__(root, at, second)
        self._late = late

    def _changing(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def called(*args: Any) -> Any:
            with self._lock:
                try:
                    self.before(None)
                except OSError as error:
                    if self._late:
                        call(*args)
                    raise objects.ObjectError("no answer", args[-1], "Try again.") from error
                return call(*args)

        return called


class WatchedServer(_Server, WatchedDisk):
    """A process that stops before a call leaves what there is."""

    def before(self, half: tuple[Path, int, bytes] | None) -> None:
        Disk.before(self, half)
        if self.calls % self._stride == 0:
            self._stop("kill", self._image())


@contextmanager
def small_files() -> Iterator[None]:
    """Records go to several files."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log, "FILE_BYTES", 2_000)
        patch.setattr(log, "_LEAVE_BYTES", 1_000)
        yield


def in_memory() -> None:
    """Temporary directories lie in memory, where there are such: who lets calls fail, or looks at
    which were made, needs no disk, and syncing one takes most of the time."""
    if os.access(_MEMORY, os.W_OK | os.X_OK):
        tempfile.tempdir = _MEMORY


def write(image: Image, to: Path) -> None:
    """Make the directory `to` of an image."""
    to.mkdir(mode=0o700)
    for name, data in sorted(image.items()):
        if name.endswith("/"):
            (to / name).mkdir(mode=0o700)
        else:
            (to / name).write_bytes(data)
            (to / name).chmod(0o600)


def _path(file: int) -> Path:
    return Path(os.readlink(f"/proc/self/fd/{file}"))
