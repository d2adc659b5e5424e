"""Memory for arrays that stay: cut from slabs large enough for huge pages.

A fresh array of some hundred kilobytes is made of small pages, and touching each of those for the
first time costs more than what is written there (1.5 µs a page of 4 KiB in a virtual machine, where
NumPy's arrays of 4 MiB and more, for which it asks for huge pages, cost a seventh). State grows by
such arrays at every step; so they are cut from slabs of 32 MiB. What is freed is cut again, the
smallest free piece that will do: batches of indexes come and go with merges; without that, what
lives would keep three times its memory, and each merge would touch fresh pages.

Where memory is limited, slabs and larger arrays lie in files (`operators.budget`).

Invariant: no two arrays in use share memory. Of slabs with nothing in use one is kept.
"""

from __future__ import annotations

import bisect
import math
import threading
import weakref
from collections import deque
from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from operators import budget

_SLAB_BYTES = 32 << 20
_HUGE_PAGE = 2 << 20
#: Smaller arrays are left to the C library, which reuses what is freed; larger ones to NumPy.
_LEAST_BYTES, _MOST_BYTES = 64 << 10, 4 << 20
#: Pieces are multiples of this.
_GRAIN = 16 << 10
#: What slabs that are alive are made of, by identity.
_SLABS: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()

Kind = TypeVar("Kind", bound=np.generic)


class _Slab:
    """Memory, and its free pieces: of each start its end, and the reverse."""

    __slots__ = ("ends", "first", "last", "memory", "starts")

    def __init__(self) -> None:
        room = budget.room(_SLAB_BYTES)
        whole = np.empty(_SLAB_BYTES + _HUGE_PAGE, np.uint8) if room is None else room
        _know(whole)
        self.memory = memoryview(whole.data)
        self.first = -whole.ctypes.data % _HUGE_PAGE if room is None else 0
        self.last = self.first + _SLAB_BYTES
        self.ends: dict[int, int] = {}
        self.starts: dict[int, int] = {}


class _Piece(weakref.ref["np.ndarray[Any, Any]"]):
    """Tells when an array, and all that look at its memory, are gone."""

    __slots__ = ("end", "slab", "start")

    slab: int
    start: int
    end: int


class Slabs:
    """Where arrays of one kind are cut from; any thread may."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._slabs: dict[int, _Slab] = {}
        self._made = 0
        #: The free pieces of all slabs, sorted: how large, the slab's number, where it starts.
        self._free: list[tuple[int, int, int]] = []
        #: Pieces in use, and those whose arrays are gone, whatever thread let them go.
        self._used: dict[int, _Piece] = {}
        self._gone: deque[_Piece] = deque()

    def empty(self, shape: tuple[int, ...], dtype: npt.DTypeLike) -> np.ndarray[Any, Any]:
        """An array of `shape`, C-contiguous, with any content, as np.empty makes it."""
        kind = np.dtype(dtype)
        nbytes = math.prod(shape) * kind.itemsize
        if nbytes < _LEAST_BYTES:
            return np.empty(shape, kind)
        if nbytes >= _MOST_BYTES:
            room = budget.room(nbytes)
            if room is None:
                return np.empty(shape, kind)
            _know(owner_of(room))
            return room.view(kind).reshape(shape)
        with self._lock:
            number, start, end = self._cut(-(-nbytes // _GRAIN) * _GRAIN)
            # An array that owns no more than the piece: all that look at its memory keep it.
            piece = self._slabs[number].memory[start : start + nbytes]
            array = np.frombuffer(piece, np.uint8)
            used = _Piece(array, self._gone.append)
            used.slab, used.start, used.end = number, start, end
            self._used[id(used)] = used
        return array.view(kind).reshape(shape)

    @property
    def spare_bytes(self) -> int:
        """Of the slabs' memory what is in no array."""
        with self._lock:
            self._reclaim()
            return sum(size for size, _, _ in self._free)

    def copy(self, values: np.ndarray[Any, Any], dtype: npt.DTypeLike) -> np.ndarray[Any, Any]:
        """A copy of an array, converted to `dtype`."""
        out = self.empty(values.shape, dtype)
        out[...] = values
        return out

    def _cut(self, size: int) -> tuple[int, int, int]:
        """Take a piece of so many bytes: its slab, where it starts, and where it ends."""
        self._reclaim()
        at = bisect.bisect_left(self._free, (size,))
        if at == len(self._free):
            slab = self._slabs[self._made] = _Slab()
            self._set_free(self._made, slab.first, slab.last)
            self._made += 1
            at = bisect.bisect_left(self._free, (size,))
        room, number, start = self._free[at]
        end = start + room
        self._set_taken(number, start, end)
        if room > size:
            self._set_free(number, start + size, end)
        return number, start, start + size

    def _reclaim(self) -> None:
        """Have back the pieces whose arrays are gone."""
        while self._gone:
            piece = self._gone.popleft()
            del self._used[id(piece)]
            self._give_back(piece.slab, piece.start, piece.end)

    def _give_back(self, number: int, start: int, end: int) -> None:
        """A piece is free, and one with what is free beside it."""
        slab = self._slabs[number]
        before, after = slab.starts.get(start), slab.ends.get(end)
        if before is not None:
            self._set_taken(number, before, start)
            start = before
        if after is not None:
            self._set_taken(number, end, after)
            end = after
        if end - start == _SLAB_BYTES and self._free and self._free[-1][0] == _SLAB_BYTES:
            del self._slabs[number]  # another one is free
        else:
            self._set_free(number, start, end)

    def _set_free(self, number: int, start: int, end: int) -> None:
        slab = self._slabs[number]
        slab.ends[start], slab.starts[end] = end, start
        bisect.insort(self._free, (end - start, number, start))

    def _set_taken(self, number: int, start: int, end: int) -> None:
        slab = self._slabs[number]
        del slab.ends[start], slab.starts[end]
        del self._free[bisect.bisect_left(self._free, (end - start, number, start))]


def spare_bytes() -> int:
    """What all slabs of this process have for arrays to come."""
    return sum(slabs.spare_bytes for slabs in (ROWS, BATCHES, _SCRATCH))


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


def _know(owner: Any) -> None:
    """From now on an array's owner is told by `is_slab`."""
    whole = _behind(owner)
    _SLABS[id(whole)] = whole


def is_slab(owner: Any) -> bool:
    """Whether an array's owner is a slab, or a piece of one: then nobody else writes to it."""
    whole = _behind(owner)
    return _SLABS.get(id(whole)) is whole


def _behind(owner: Any) -> Any:
    return owner.obj if isinstance(owner, memoryview) else owner


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
