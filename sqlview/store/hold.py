"""The hold: what a reader of a store is going to open stays until it has opened it.

Readers share a lock of `store.json`, which is there as long as the store; whoever deletes needs it
alone, and does without where it is taken. So nobody waits for the other longer than deleting takes.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def hold(directory: str) -> Iterator[None]:
    """In the block no file of the store goes. Raises: OSError."""
    with _opened(directory) as file:
        fcntl.flock(file, fcntl.LOCK_SH)
        yield


@contextmanager
def unheld(directory: str) -> Iterator[bool]:
    """Whether nobody holds the store, and begins to in the block. Raises: OSError."""
    with _opened(directory) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True


@contextmanager
def _opened(directory: str) -> Iterator[int]:
    file = os.open(os.path.join(directory, "store.json"), os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield file
    finally:
        os.close(file)
