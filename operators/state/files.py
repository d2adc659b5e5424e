"""Files that only the user who runs this can read: 0600, in a directory of 0700.

What tasks of a job read and write lies in such a directory. It may go at any time, as when a
cleaner of temporary files takes it, wholly or in part: who uses it makes it anew, and takes what is
not there for gone. What somebody else put in its place is not used.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import stat
from typing import BinaryIO

_log = logging.getLogger(__name__)


def make_directory(path: str) -> None:
    """Make the directory, for its owner alone, if it is not there; its parents as others are made.

    Raises: OSError if it cannot be made, or is not this user's alone.
    """
    with contextlib.suppress(FileExistsError):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        os.mkdir(path, 0o700)
        os.chmod(path, 0o700)  # whatever the umask
    check_directory(path)


def check_directory(path: str) -> None:
    """Raises: PermissionError for a directory that others could write to, or whose owner is
    another user; OSError if there is none."""
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
    directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def names(directory: str) -> list[str]:
    """What is in the directory; nothing if it is gone."""
    try:
        return os.listdir(directory)
    except FileNotFoundError:
        return []


def discard(path: str) -> None:
    """Delete a file that may be gone already. One that cannot be deleted stays, with a warning: it
    is nobody's any more, and no reason to fail."""
    try:
        os.remove(path)
    except FileNotFoundError:
        pass
    except OSError:
        _log.warning("a file that is used no more cannot be deleted", exc_info=True)


def discard_named(directory: str, part: str) -> None:
    """Discard the files of a directory whose names contain `part`."""
    try:
        found = names(directory)
    except OSError:
        _log.warning("files that are used no more cannot be found", exc_info=True)
        return
    for name in found:
        if part in name:
            discard(os.path.join(directory, name))
