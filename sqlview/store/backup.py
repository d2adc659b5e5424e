"""A copy of a store as it is at one epoch, while a session goes on writing it."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from contextlib import closing

from operators.state.files import create, sync_directory
from planner.errors import StoreError
from sqlview.store import records
from sqlview.store.log import log_files
from sqlview.store.places import check_directory_name
from sqlview.store.store import Store

_AT_A_TIME = 16 << 20


def backup(path: str, destination: str) -> int:
    """Copy the store in `path` to `destination`, which is made; returns the bytes copied.

    What is copied is the latest checkpoint, and the log behind it: all that was committed before
    the call, or more. Raises: StoreError, with nothing at `destination`.
    """
    check_directory_name(path)
    check_directory_name(destination)
    if os.path.lexists(destination):
        raise StoreError(f'"{destination}" is there already', hint="Give a name that is free.")
    temporary = f"{destination}.part"
    with closing(Store(path, "close", read_only=True)) as store:
        try:
            return _copy(store, temporary, destination)
        except OSError as error:
            raise _failed(path, error) from error
        finally:
            shutil.rmtree(temporary, ignore_errors=True)


def _copy(store: Store, temporary: str, destination: str) -> int:
    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(temporary)
    os.makedirs(os.path.dirname(os.path.abspath(destination)), exist_ok=True)
    os.mkdir(temporary, 0o700)
    copied = 0
    for path, most in _files(store):
        with open(path, "rb") as source, create(_within(temporary, path)) as target:
            while part := source.read(_AT_A_TIME if most is None else most - target.tell()):
                target.write(part)
            copied += target.tell()
            target.flush()
            os.fsync(target.fileno())
    sync_directory(temporary)
    os.rename(temporary, destination)
    sync_directory(os.path.dirname(os.path.abspath(destination)))
    return copied


def _files(store: Store) -> Iterator[tuple[str, int | None]]:
    """What there is of a store now: paths, and how much of each; None: all of it."""
    yield os.path.join(store.path, "store.json"), None
    found, first = store.checkpoint, 0
    if found is not None:
        first = found.end.file
        yield found.path, None
        for name in found.values:
            yield os.path.join(store.path, name), None
    for record in store.records():
        for name in records.files_of(record.body):
            yield os.path.join(store.path, name), None
    for number, log in log_files(store.path):
        if first <= number <= store.read_to.file:
            yield log, store.read_to.offset if number == store.read_to.file else None


def _within(directory: str, path: str) -> str:
    return os.path.join(directory, os.path.basename(path))


def _failed(path: str, error: OSError) -> StoreError:
    return StoreError(
        f'the store "{path}" could not be copied',
        detail=f"{error.strerror or error}: {error.filename}.",
        hint="Nothing was left behind. Make room, or mend what the detail says, and try again.",
    )
