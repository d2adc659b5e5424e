"""Arrays in files: a file is complete when its name appears and never changes, and whoever reads it
maps it into memory. What a task of a job maps and what a process maps that opens a store is alike.

Invariant: bytes that are mapped stay what they are while an array over them lives, whoever deletes
the file.
"""

from __future__ import annotations

import mmap
import os
import weakref
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from operators.flight.column import Ints
from operators.state.files import create, discard, sync_directory

_ALIGNMENT = 64
#: Smaller arrays are written together.
_SMALL_BYTES = 64 << 10
Array: TypeAlias = np.ndarray[Any, Any]
_NOWHERE = np.empty((0, 4), np.int64)


@dataclass(frozen=True, slots=True)
class Place:
    """Bytes of a file, by its name in the directory."""

    file: str
    offset: int
    nbytes: int

    def within(self, start: int, end: int) -> Place:
        """Bytes [start, end) of these."""
        return Place(self.file, self.offset + start, end - start)


@dataclass(slots=True, eq=False)
class Stored:
    """Where a value that never changes lies in a file; without one it is in memory alone. `mapped`:
    whether it is read from there.
    `places` int64[n, 4]: of each of its arrays which it is, the offset, bytes and checksum."""

    file: str | None = None
    places: Ints = field(default_factory=lambda: _NOWHERE)
    mapped: bool = False

    @property
    def nbytes(self) -> int:
        return int(self.places[:, 2].sum())


def flat(array: Array) -> Array:
    """The bytes of an array, uint8[n]; of one that is not contiguous a copy."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def checksum(array: Array) -> int:
    """Of an array's bytes."""
    return zlib.crc32(flat(array).data)


class Pack:
    """One file in the making: arrays, one after the other."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._name = os.path.basename(path)
        self._arrays: list[Array] = []
        self.nbytes = 0

    def add(self, array: Array) -> Place:
        """Where the array will be; it is copied when the file is written."""
        given = flat(array)
        place = Place(self._name, self.nbytes, given.nbytes)
        self._arrays.append(given)
        self.nbytes += given.nbytes + (-given.nbytes) % _ALIGNMENT
        return place

    def write(self, durable: bool = False) -> bool:
        """Write the file under its name; no file if nothing was added. `durable`: it is on disk
        when this returns. Raises: OSError, with no file of that name."""
        if not self._arrays:
            return False
        temporary = f"{self.path}.part"
        discard(temporary)
        with create(temporary) as out:
            small: list[bytes] = []
            for array in self._arrays:
                padding = bytes((-array.nbytes) % _ALIGNMENT)
                if array.nbytes < _SMALL_BYTES:
                    small += [array.tobytes(), padding]
                    continue
                out.write(b"".join(small))
                out.write(array.data)
                small = [padding]
            # An empty file cannot be mapped.
            out.write(b"".join(small) if self.nbytes else bytes(_ALIGNMENT))
            if durable:
                out.flush()
                os.fsync(out.fileno())
        os.rename(temporary, self.path)
        if durable:
            sync_directory(os.path.dirname(self.path))
        return True


class MappedFiles:
    """Files of a directory, mapped into memory while this object lives."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._files: dict[str, MappedFile] = {}

    def open(self, names: Sequence[str]) -> None:
        """Have these files mapped from now on. Raises: OSError."""
        for name in names:
            self._file(name)

    def address(self, place: Place) -> int:
        file = self._file(place.file)
        file.bytes(place)  # it is there
        return file.address + place.offset

    def addresses(self, names: Sequence[str], file: Ints, offset: Ints, nbytes: Ints) -> Ints:
        """Addresses of many places, each with its file's number in `names`, all int64[n]."""
        opened = [self._file(name) for name in names]
        sizes = np.array([f.nbytes for f in opened], np.int64)[file]
        end = offset + nbytes
        if not ((offset >= 0) & (nbytes >= 0) & (end <= sizes)).all():
            raise ValueError("a place is not in its file")
        found: Ints = np.array([f.address for f in opened], np.int64)[file] + offset
        return found

    def array(self, name: str, offset: int, nbytes: int, kind: np.dtype[Any]) -> Array:
        """An array of a file, kind[n], mapped. Raises: ValueError for a place that is not in it."""
        return self._file(name).bytes(Place(name, offset, nbytes)).view(kind)

    def ints(self, place: Place) -> Ints:
        """A writable copy of an int64 array."""
        return np.array(self._file(place.file).bytes(place).view(np.int64))

    def _file(self, name: str) -> MappedFile:
        file = self._files.get(name)
        if file is None:
            if os.path.basename(name) != name:
                raise ValueError(f"{name!r} is no file of the directory")
            file = self._files[name] = open_file(os.path.join(self._directory, name))
        return file


class MappedFile:
    """One file, mapped read-only."""

    def __init__(self, path: str) -> None:
        with open(path, "rb") as file:
            self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self._bytes = np.frombuffer(self._map, np.uint8)
        self.address: int = self._bytes.ctypes.data
        self.nbytes = len(self._bytes)

    def bytes(self, place: Place) -> Array:
        """Raises: ValueError for a place that is not in the file."""
        end = place.offset + place.nbytes
        if not 0 <= place.offset <= end <= self.nbytes:
            raise ValueError("a place is not in its file")
        return self._bytes[place.offset : end]


#: By device, number and time: a name may be another file's one day.
_Identity: TypeAlias = tuple[int, int, int]
_open_files: weakref.WeakValueDictionary[_Identity, MappedFile] = weakref.WeakValueDictionary()


def open_file(path: str) -> MappedFile:
    """The file, mapped once in a process while anybody uses it."""
    found = os.stat(path)
    identity = found.st_dev, found.st_ino, found.st_mtime_ns
    file = _open_files.get(identity)
    if file is None:
        file = _open_files[identity] = MappedFile(path)
    return file
