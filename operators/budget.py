"""How much memory this process may take that belongs to no file.

Within a budget, large arrays are made in files once a third of it is used: the system writes them
to disk and reads them again as memory gets short. What is left, small arrays and what a step makes
on its way, is looked at between the operators of a step; one that takes more than the budget fails.

Budgets are the process's: each session with a memory limit has one, and all of them hold.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import tempfile
import time
from typing import Any

import numpy as np
import pyarrow as pa

#: Of a budget: from this share on large arrays are made in files.
_SPILL = 0.3
#: Seconds between looks in the middle of a step.
_LOOK = 0.01
_PAGE = os.sysconf("SC_PAGE_SIZE")


class OverBudgetError(Exception):
    """A step needs more memory than there may be."""


class Budget:
    """Memory of this process, `limit` bytes at most; large arrays are in files of `directory`."""

    def __init__(self, limit: int, directory: str) -> None:
        self.limit = limit
        self.directory = directory
        self._looked = 0.0

    def check(self) -> None:
        """Raises: OverBudgetError if more than the limit is in use. Cost: some µs, now and then."""
        now = time.monotonic()
        if now - self._looked >= _LOOK:
            self._looked = now
            used = anonymous_bytes()
            if used > self.limit:
                raise OverBudgetError(f"{used:,} bytes are in use, of {self.limit:,}")


_BUDGETS: list[Budget] = []


def enter(budget: Budget) -> None:
    """From now on it holds."""
    _BUDGETS.append(budget)


def leave(budget: Budget) -> None:
    """It holds no more."""
    _BUDGETS.remove(budget)


def check() -> None:
    """Raises: OverBudgetError if more is in use than some budget allows."""
    for budget in _BUDGETS:
        budget.check()


def is_limited() -> bool:
    """Whether some budget holds."""
    return bool(_BUDGETS)


def room(nbytes: int) -> np.ndarray[Any, Any] | None:
    """Bytes in a file, uint8[nbytes]; None where memory is to be taken as always.

    Raises: MemoryError if there is no room on disk.
    """
    if not _BUDGETS:
        return None
    used = anonymous_bytes()
    for budget in _BUDGETS:
        if used + nbytes > _SPILL * budget.limit:
            return _in_file(budget.directory, nbytes)
    return None


def release() -> None:
    """Give back to the system what is not in use."""
    pa.default_memory_pool().release_unused()
    _trim(0)


def anonymous_bytes() -> int:
    """Memory of this process that belongs to no file. Cost: some 10 µs."""
    with open("/proc/self/statm", "rb") as file:
        _, resident, shared, *_ = file.read().split()
    return (int(resident) - int(shared)) * _PAGE


def _in_file(directory: str, nbytes: int) -> np.ndarray[Any, Any]:
    """The file has no name: it is gone when nobody uses it any more, however that comes."""
    try:
        with tempfile.TemporaryFile(dir=directory, prefix="spill-") as file:
            os.posix_fallocate(file.fileno(), 0, nbytes)  # a hole would fail when it is written
            mapped = mmap.mmap(file.fileno(), nbytes)
    except OSError as error:
        raise MemoryError(f"no room for {nbytes:,} bytes in {directory}: {error}") from error
    return np.frombuffer(mapped, np.uint8)


def _c_library_trim() -> Any:
    try:
        return ctypes.CDLL(None).malloc_trim
    except AttributeError:  # not the C library of GNU
        return lambda keep: 0


_trim = _c_library_trim()
