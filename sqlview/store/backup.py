"""A copy of a store as it is at one epoch, while a session goes on writing it."""

from __future__ import annotations

import contextlib
import os
import shutil

from operators.state.files import create, sync_directory
from planner.errors import StoreError
from sqlview.store.log import log_files
from sqlview.store.store import Store

_AT_A_TIME = 16 << 20
_ATTEMPTS = 10


def backup(path: str, destination: str) -> int:
    """Copy the store in `path` to `destination`, which is made; returns the bytes copied.

    What is copied is the latest checkpoint, and the log behind it: all that was committed before
    the call, or more. Raises: StoreError, with nothing at `destination`.
    """
    if os.path.lexists(destination):
        raise StoreError(f'"{destination}" is there already', hint="Give a name that is free.")
    for attempt in range(_ATTEMPTS):
        store = Store(path, "close", read_only=True)
        temporary = f"{destination}.part"
        try:
            return _copy(store, temporary, destination)
        except FileNotFoundError as error:
            # The writer has written another checkpoint meanwhile.
            if attempt == _ATTEMPTS - 1:
                raise _failed(path, error) from error
        except OSError as error:
            raise _failed(path, error) from error
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
    raise AssertionError("the last attempt returns or raises")


def _copy(store: Store, temporary: str, destination: str) -> int:
    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(temporary)
    os.makedirs(os.path.dirname(os.path.abspath(destination)), exist_ok=True)
    os.mkdir(temporary, 0o700)
    found, first = store.checkpoint, 0
    names = [os.path.join(store.path, "store.json")]
    if found is not None:
        first = found.end.file
        names += [found.path, *(os.path.join(store.path, name) for name in found.values)]
    names += [log for number, log in log_files(store.path) if number >= first]
    copied = 0
    for name in names:
        with open(name, "rb") as source, create(_within(temporary, name)) as target:
            shutil.copyfileobj(source, target, _AT_A_TIME)
            copied += target.tell()
            target.flush()
            os.fsync(target.fileno())
    sync_directory(temporary)
    os.rename(temporary, destination)
    sync_directory(os.path.dirname(os.path.abspath(destination)))
    return copied


def _within(directory: str, path: str) -> str:
    return os.path.join(directory, os.path.basename(path))


def _failed(path: str, error: OSError) -> StoreError:
    return StoreError(
        f'the store "{path}" could not be copied',
        detail=f"{error.strerror or error}: {error.filename}.",
        hint="Nothing was left behind. Make room, or mend what the detail says, and try again.",
    )
