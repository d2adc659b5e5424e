"""Files of a store and of jobs, which only the user who runs this can read: 0600, in a directory of
0700. A directory may be a URL of an object store, and its files objects (`objects`).

A file is of one of three kinds. What never changes is written under another name and has its own
when it is complete (`Draft`, `written`); whoever reads it reads or maps the whole. The log is
written at its end (`Appended`). What says who has the store is locked (`Locked`). Who writes and
reads a store does it by these alone. At a URL there is only what never changes: a name appears with
its content, and what is read or mapped is kept on this machine; logs and leases are others there
(`sqlview.store.chain`).

What tasks of a job read and write lies in such a directory. It may go at any time, as when a
cleaner of temporary files takes it, wholly or in part: who uses it makes it anew, and takes what is
not there for gone. What somebody else put in its place is not used.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import logging
import mmap
import os
import shutil
import stat
import time
from collections.abc import Iterator, Sequence, Set
from typing import BinaryIO, TypeAlias

from operators.state import objects
from operators.state.objects import is_url

_log = logging.getLogger(__name__)

#: At the end of the name of a file that is not complete.
PART = ".part"
#: The kernel takes no more buffers at once.
_MOST_BUFFERS = 512
Bytes: TypeAlias = "bytes | memoryview"


def absolute(path: str) -> str:
    """The path of a directory from wherever one is; of a URL, without "/" at its end."""
    return path.rstrip("/") if is_url(path) else os.path.abspath(path)


def on_this_machine(directory: str) -> str:
    """A directory of this machine for what nobody else reads; itself, if it is not at a URL."""
    if not is_url(directory):
        return directory
    found = objects.local(directory)
    make_directory(found)
    return found


def make_directory(path: str) -> None:
    """Make the directory, for its owner alone, if it is not there; its parents as others are made.

    Raises: OSError if it cannot be made, or is not this user's alone.
    """
    if is_url(path):
        return  # object stores have names alone
    with contextlib.suppress(FileExistsError):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        os.mkdir(path, 0o700)
        os.chmod(path, 0o700)  # whatever the umask
    check_directory(path)


def check_directory(path: str) -> None:
    """Raises: PermissionError for a directory that others could write to, or whose owner is
    another user; OSError if there is none."""
    if is_url(path):
        return
    found = os.lstat(path)
    mine = found.st_uid == os.geteuid() and not stat.S_IMODE(found.st_mode) & 0o077
    if not (stat.S_ISDIR(found.st_mode) and mine):
        raise PermissionError(errno.EPERM, "not a directory of this user alone", path)


def create(path: str) -> BinaryIO:
    """A new file, for its owner alone, to be written. Raises: OSError, also if it is there."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        os.fchmod(file, 0o600)
        return os.fdopen(file, "wb")
    except BaseException:
        os.close(file)
        raise


def sync_directory(path: str) -> None:
    """Names in the directory are on disk when this returns."""
    if is_url(path):
        return
    directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def listed(directory: str) -> list[str]:
    """What is in the directory, in no order. Raises: OSError."""
    if is_url(directory):
        return list({each.name.partition("/")[0] for each in objects.listed(directory)})
    return os.listdir(directory)


def names(directory: str) -> list[str]:
    """What is in the directory, in no order; nothing if it is gone. Raises: OSError."""
    try:
        return listed(directory)
    except FileNotFoundError:
        return []


def discard(path: str) -> None:
    """Delete a file that may be gone already. One that cannot be deleted stays, with a warning: it
    is nobody's any more, and no reason to fail."""
    try:
        remove(path)
    except OSError:
        _log.warning("a file that is used no more cannot be deleted", exc_info=True)


def remove(path: str) -> None:
    """Delete a file that may be gone already. Raises: OSError."""
    if is_url(path):
        objects.remove(path)
        return
    with contextlib.suppress(FileNotFoundError):
        os.remove(path)


def discard_named(directory: str, part: str) -> None:
    """Discard the files of a directory whose names contain `part`."""
    try:
        found = names(directory)
    except OSError:
        _log.warning("files that are used no more cannot be found", exc_info=True)
        return
    discard_some(directory, [name for name in found if part in name])


def discard_some(directory: str, some: Sequence[str]) -> None:
    """Discard these files of a directory."""
    if not is_url(directory):
        for name in some:
            discard(os.path.join(directory, name))
        return
    try:
        objects.remove_some(directory, some)
    except OSError:
        _log.warning("files that are used no more cannot be deleted", exc_info=True)


def discard_tree(path: str) -> None:
    """Delete a directory that may be gone already, with all in it, as `discard` does."""
    if not is_url(path):
        shutil.rmtree(path, ignore_errors=True)
        return
    try:
        objects.remove_some(path, [each.name for each in objects.listed(path)])
    except OSError:
        _log.warning("files that are used no more cannot be deleted", exc_info=True)


def is_there(path: str) -> bool:
    """Whether there is such a file. Raises: OSError where nobody can tell."""
    if not is_url(path):
        return os.path.exists(path)
    try:
        objects.found(path)
        return True
    except FileNotFoundError:
        return False


def missing(directory: str, wanted: Set[str]) -> set[str]:
    """Which of these files are not in the directory. Raises: OSError."""
    if is_url(directory):
        return set(wanted) - {each.name for each in objects.listed(directory)}
    return {name for name in wanted if not os.path.exists(os.path.join(directory, name))}


def touch(path: str) -> None:
    """A small file is as new as if it were written now. Raises: OSError."""
    if is_url(path):
        objects.put(path, objects.read(path))
    else:
        os.utime(path)


def age_seconds(path: str) -> float:
    """Since a file was written, or touched. Raises: OSError."""
    at = objects.found(path).put_at if is_url(path) else os.stat(path).st_mtime
    return time.time() - at


# ------------------------------------------------------------------------ what never changes


class Draft:
    """A file in the making, `file`, whose name is `path` once it is finished; it is gone if it is
    closed before. What another draft of that name has left is gone. Raises: OSError, as all that
    follows."""

    def __init__(self, path: str) -> None:
        self.path = path
        #: On this machine.
        self.temporary = objects.temporary(path) if is_url(path) else path + PART
        discard(self.temporary)
        self.file = create(self.temporary)

    def complete(self, durable: bool) -> None:
        """All is written; `durable`: and on disk."""
        if durable and not is_url(self.path):
            self.file.flush()
            os.fsync(self.file.fileno())
        self.file.close()

    def rename(self) -> None:
        """Have its name, which may be another file's before."""
        if is_url(self.path):
            objects.publish(self.temporary, self.path)
            return
        os.rename(self.temporary, self.path)

    def close(self) -> None:
        self.file.close()
        discard(self.temporary)  # which is not there once it has its name


@contextlib.contextmanager
def written(path: str, durable: bool = False) -> Iterator[BinaryIO]:
    """A new file, which has its name when the block ends, and with `durable` is on disk under it;
    if the block raises there is none of that name. Raises: OSError."""
    draft = Draft(path)
    try:
        yield draft.file
        draft.complete(durable)
        draft.rename()
    finally:
        draft.close()
    if durable:
        sync_directory(os.path.dirname(path))


def read(path: str) -> bytes:
    """All of a file. Raises: OSError."""
    if is_url(path):
        return objects.read(path)
    with open(path, "rb") as file:
        return file.read()


def size(path: str) -> int:
    """Bytes of a file. Raises: OSError."""
    if not is_url(path):
        return os.path.getsize(path)
    try:
        return os.path.getsize(objects.local(path))
    except FileNotFoundError:
        return objects.found(path).nbytes


def mapped(path: str) -> mmap.mmap:
    """A file, which is not empty, mapped read-only. Raises: OSError."""
    with open(objects.fetched(path) if is_url(path) else path, "rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def identity(path: str) -> tuple[int, int, int]:
    """What another file of that name has not, one day. Raises: OSError."""
    found = os.stat(objects.fetched(path) if is_url(path) else path)
    return found.st_dev, found.st_ino, found.st_mtime_ns


def fetch(paths: Sequence[str]) -> None:
    """These are going to be mapped: have them on this machine. Raises: OSError."""
    urls = [path for path in paths if is_url(path)]
    if urls:
        objects.fetch(urls)


# ------------------------------------------------------------------------------------ the log


class Appended:
    """A file that is written at its end, open: to be read and written in place. Raises: OSError, as
    its methods."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_CLOEXEC)

    @staticmethod
    def made(path: str) -> Appended:
        """A new one, empty; its name is on disk."""
        with create(path) as made:
            os.fsync(made.fileno())
        file = Appended(path)
        sync_directory(os.path.dirname(path))
        return file

    def read_from(self, offset: int) -> bytes:
        """What there is from a byte on."""
        return os.pread(self._file, max(os.fstat(self._file).st_size - offset, 0), offset)

    def write(self, parts: Sequence[Bytes], offset: int) -> int:
        """Write parts at a byte, one after the other; returns how many bytes these are."""
        start = offset
        waiting = [memoryview(part) for part in parts if len(part)]
        while waiting:
            count = os.pwritev(self._file, waiting[:_MOST_BUFFERS], offset)
            offset += count
            while waiting and count >= len(waiting[0]):
                count -= len(waiting.pop(0))
            if count:
                waiting[0] = waiting[0][count:]
        return offset - start

    def start_sync(self, offset: int, nbytes: int) -> None:
        """Have the disk take these bytes soon, while more are on their way; nobody reads them."""
        os.posix_fadvise(self._file, offset, nbytes, os.POSIX_FADV_DONTNEED)

    def sync(self) -> None:
        """What is written is on disk when this returns."""
        os.fdatasync(self._file)

    def cut(self, offset: int) -> None:
        """End it at a byte, on disk, too."""
        os.ftruncate(self._file, offset)
        os.fsync(self._file)

    def reserve(self, nbytes: int) -> bool:
        """Have room for so many bytes from the start on; False where the file system has no such
        thing, and the file grows as it is written."""
        try:
            os.posix_fallocate(self._file, 0, nbytes)
        except OSError as error:
            if error.errno in (errno.EOPNOTSUPP, errno.EINVAL):
                return False
            raise
        return True

    def close(self) -> None:
        os.close(self._file)


# -------------------------------------------------------------------------------------- locks


class Locked:
    """A file that processes lock, open; the lock goes with it. Raises: OSError, as its methods."""

    def __init__(self, path: str, make: bool = False) -> None:
        """`make`: to be written, and made if it is not there."""
        flags = os.O_RDWR | os.O_CREAT if make else os.O_RDONLY
        self._path = path
        self._file = os.open(path, flags | os.O_CLOEXEC, 0o600)

    def share(self) -> None:
        """Lock it beside others who do that; waits for who has it alone."""
        fcntl.flock(self._file, fcntl.LOCK_SH)

    def take(self) -> bool:
        """Lock it alone; False if anybody else has it."""
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):  # the latter over NFS
            return False
        return True

    def read(self, most: int) -> bytes:
        """What it says, at most so many bytes."""
        return os.pread(self._file, most, 0)

    def write(self, text: bytes) -> None:
        """Have it say this, on disk."""
        os.pwrite(self._file, text, 0)
        os.ftruncate(self._file, len(text))
        os.fsync(self._file)

    def is_there(self) -> bool:
        """Whether it is what has its name. Raises: FileNotFoundError if nothing has."""
        there, mine = os.stat(self._path), os.fstat(self._file)
        return (there.st_dev, there.st_ino) == (mine.st_dev, mine.st_ino)

    def close(self) -> None:
        os.close(self._file)
