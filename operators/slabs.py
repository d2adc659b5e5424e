"""Memory for arrays that stay: cut from slabs large enough for huge pages.

A fresh array of some hundred kilobytes is made of small pages, and touching each of those for the
first time costs more than what is written there (1.5 µs a page of 4 KiB in a virtual machine, where
NumPy's arrays of 4 MiB and more, for which it asks for huge pages, cost a seventh). State grows by
such arrays at every step; so they are cut, one after the other, from slabs of 32 MiB.

Where memory is limited, slabs and larger arrays lie in files (`operators.budget`).

Invariant: a slab's memory is freed when the last array cut from it is gone. Arrays that go at the
same time share a `Slabs`, so that little of a slab outlives the rest.
"""

from __future__ import annotations

import math
import threading
import weakref
from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from operators import budget

_SLAB_BYTES = 32 << 20
_HUGE_PAGE = 2 << 20
#: Smaller arrays are left to the C library, which reuses what is freed; larger ones to NumPy.
_LEAST_BYTES, _MOST_BYTES = 64 << 10, 4 << 20
_CACHE_LINE = 64
#: What slabs that are alive are made of, by identity.
_SLABS: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()


Kind = TypeVar("Kind", bound=np.generic)


class Slabs:
    """Where arrays of one kind are cut from; any thread may."""

    def __init__(self) -> None:
        self._slab = np.empty(0, np.uint8)
        self._used = 0
        self._lock = threading.Lock()

    def empty(self, shape: tuple[int, ...], dtype: npt.DTypeLike) -> np.ndarray[Any, Any]:
        """An array of `shape`, C-contiguous, with any content, as np.empty makes it."""
        kind = np.dtype(dtype)
        nbytes = math.prod(shape) * kind.itemsize
        if nbytes < _LEAST_BYTES:
            return np.empty(shape, kind)
        if nbytes >= _MOST_BYTES:
            room = budget.room(nbytes)
            return np.empty(shape, kind) if room is None else _known(room).view(kind).reshape(shape)
        with self._lock:
            if self._used + nbytes > len(self._slab):
                room = budget.room(_SLAB_BYTES)
                whole = np.empty(_SLAB_BYTES + _HUGE_PAGE, np.uint8) if room is None else room
                self._slab = _known(whole)
                self._used = -self._slab.ctypes.data % _HUGE_PAGE if room is None else 0
            start, slab = self._used, self._slab
            self._used = -(-(start + nbytes) // _CACHE_LINE) * _CACHE_LINE
        return slab[start : start + nbytes].view(kind).reshape(shape)

    def copy(self, values: np.ndarray[Any, Any], dtype: npt.DTypeLike) -> np.ndarray[Any, Any]:
        """A copy of an array, converted to `dtype`."""
        out = self.empty(values.shape, dtype)
        out[...] = values
        return out


def scratch(shape: tuple[int, ...], dtype: npt.DTypeLike) -> np.ndarray[Any, Any]:
    """An array as np.empty makes it, for a while; a large one in a file where memory is limited."""
    if not budget.is_limited():
        return np.empty(shape, dtype)
    kind = np.dtype(dtype)
    nbytes = math.prod(shape) * kind.itemsize
    room = budget.room(nbytes) if nbytes >= _MOST_BYTES else None
    return np.empty(shape, kind) if room is None else room.view(kind).reshape(shape)


def kept(values: npt.NDArray[Kind]) -> npt.NDArray[Kind]:
    """An array that stays for a while, with others: in files where memory is limited."""
    return _SCRATCH.copy(values, values.dtype) if budget.is_limited() else values


def joined(parts: Sequence[npt.NDArray[Kind]]) -> npt.NDArray[Kind]:
    """Arrays after each other along the last axis, as `scratch` makes them."""
    length = sum(p.shape[-1] for p in parts)
    out: npt.NDArray[Kind] = scratch((*parts[0].shape[:-1], length), parts[0].dtype)
    return np.concatenate(parts, axis=-1, out=out)


def _known(whole: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """An array that arrays are cut from, from now on told by `is_slab`."""
    owner = owner_of(whole)
    _SLABS[id(owner)] = owner
    return whole


def is_slab(owner: Any) -> bool:
    """Whether an array's owner is a slab: then nobody else writes to it."""
    return _SLABS.get(id(owner)) is owner


def owner_of(values: np.ndarray[Any, Any]) -> Any:
    """What keeps an array's memory: an array, an Arrow buffer …"""
    owner: Any = values
    while isinstance(owner, np.ndarray) and owner.base is not None:
        owner = owner.base
    return owner


#: For the values of rows, which stay while most of their neighbours do.
ROWS = Slabs()
#: For the sorted batches of indexes, which are soon merged into larger ones.
BATCHES = Slabs()
_SCRATCH = Slabs()
