"""Arrays in files: a file is complete when its name appears and never changes, and whoever reads it
maps it into memory. What a task of a job maps and what a process maps that opens a store is alike.

Invariant: bytes that are mapped stay what they are while an array over them lives, whoever deletes
the file.
"""

from __future__ import annotations

import copy
import os
import weakref
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from operators.flight.column import Ints
from operators.state.files import fetch, identity, mapped, written

_ALIGNMENT = 64
#: Smaller arrays are written together.
_SMALL_BYTES = 64 << 10
Array: TypeAlias = np.ndarray[Any, Any]
#: Of each slot that holds values the dtype and how many make one.
Kinds: TypeAlias = Mapping[int, tuple[np.dtype[Any], int]]


@dataclass(frozen=True, slots=True)
class Place:
    """Bytes of a file, by its name in the directory."""

    file: str
    offset: int
    nbytes: int

    def within(self, start: int, end: int) -> Place:
        """Bytes [start, end) of these."""
        return Place(self.file, self.offset + start, end - start)


@dataclass(frozen=True, slots=True, eq=False)
class Home:
    """Where a value lies: a file, and `places` int64[n, 4]: of each of the value's arrays which it
    is, the offset, bytes and checksum."""

    file: str
    places: Ints

    @property
    def nbytes(self) -> int:
        return int(self.places[:, 2].sum())


@dataclass(slots=True, eq=False)
class Stored:
    """Where a value that never changes lies in a file, once it does; else it is in memory alone.
    `mapped`: whether it is read from there. A home is replaced as a whole: whoever took one goes on
    with that. `left`: when it left its home, if it did, see ValueFiles.leave."""

    home: Home | None = None
    mapped: bool = False
    left: int = 0


def table_of(values: Iterable[tuple[int, Home]], names: dict[str, int]) -> Ints:
    """Of values by number, where they lie: int64[n, 6], the number, the file's number in `names`,
    and a row of `Home.places`."""
    parts = []
    for number, home in values:
        head = np.empty((len(home.places), 2), np.int64)
        head[:] = number, names.setdefault(home.file, len(names))
        parts.append(np.hstack((head, home.places)))
    return np.concatenate(parts) if parts else np.empty((0, 6), np.int64)


def values_in(table: Ints, names: Sequence[str]) -> list[tuple[int, Home]]:
    """What `table_of` was given."""
    if len(table) == 0:
        return []
    numbers = table[:, 0]
    starts = np.flatnonzero(np.diff(numbers, prepend=numbers[0] - 1)).tolist()
    return [
        (int(numbers[a]), Home(names[int(table[a, 1])], table[a:b, 2:].copy()))
        for a, b in zip(starts, [*starts[1:], len(table)], strict=True)
    ]


def flat(array: Array) -> Array:
    """The bytes of an array, uint8[n]; of one that is not contiguous a copy."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def checksum(array: Array, before: int = 0) -> int:
    """Of an array's bytes, behind others of checksum `before`."""
    return zlib.crc32(flat(array).data, before)


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
        with written(self.path, durable) as out:
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
        return True


class MappedFiles:
    """Files of a directory, mapped into memory while this object lives."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._files: dict[str, MappedFile] = {}

    def open(self, names: Sequence[str]) -> None:
        """Have these files mapped from now on. Raises: OSError."""
        fetch([os.path.join(self._directory, n) for n in names if n not in self._files])
        for name in names:
            self.file(name)

    def array(self, name: str, offset: int, nbytes: int, kind: np.dtype[Any]) -> Array:
        """An array of a file, kind[n], mapped. Raises: ValueError for a place that is not in it."""
        return self.file(name).bytes(Place(name, offset, nbytes)).view(kind)

    def only(self, home: Home) -> Array:
        """The bytes of a value of one array, uint8[n], mapped."""
        ((_, offset, nbytes, _),) = home.places.tolist()
        return self.array(home.file, offset, nbytes, np.dtype(np.uint8))

    def ints(self, place: Place) -> Ints:
        """A writable copy of an int64 array."""
        return np.array(self.file(place.file).bytes(place).view(np.int64))

    def file(self, name: str) -> MappedFile:
        """One of them, mapped from now on. Raises: ValueError for what is no name; OSError."""
        file = self._files.get(name)
        if file is None:
            if os.path.basename(name) != name:
                raise ValueError(f"{name!r} is no file of the directory")
            file = self._files[name] = open_file(os.path.join(self._directory, name))
        return file


class MappedFile:
    """One file, mapped read-only."""

    def __init__(self, path: str) -> None:
        self._map = mapped(path)
        self._bytes = np.frombuffer(self._map, np.uint8)
        self.address: int = self._bytes.ctypes.data
        self.nbytes = len(self._bytes)

    def bytes(self, place: Place) -> Array:
        """Raises: ValueError for a place that is not in the file."""
        return self.between(place.offset, place.nbytes)

    def between(self, offset: int, nbytes: int) -> Array:
        """So many bytes from there. Raises: ValueError where they are not in the file."""
        end = offset + nbytes
        if not 0 <= offset <= end <= self.nbytes:
            raise ValueError("a place is not in its file")
        return self._bytes[offset:end]


class MappedArrays:
    """The arrays of a value in a file, by slot: a sequence of `count`, None where there is none.

    An array is made when it is asked for: what a block of many columns has of them would be most
    of what it takes of the heap. `kinds`: the slots that are read; `others`: arrays that do not lie
    in the file, by slot.
    """

    __slots__ = ("_count", "_file", "_kinds", "_others", "_places")

    def __init__(
        self, count: int, file: MappedFile, home: Home, kinds: Kinds, others: dict[int, Array]
    ) -> None:
        self._count = count
        self._file = file
        self._places = home.places
        self._kinds = kinds
        self._others = others

    def addresses(self) -> Iterator[tuple[int, int]]:
        """Of each array in the file its slot and where it lies. Raises: ValueError for a place that
        is not in the file, or holds no array of its kind."""
        for slot, offset, nbytes, _ in self._places.tolist():
            if slot in self._kinds:
                kind, words = self._kinds[slot]
                if not 0 <= offset <= offset + nbytes <= self._file.nbytes:
                    raise ValueError("a place is not in its file")
                if nbytes % (kind.itemsize * words):
                    raise ValueError("a place holds a part of a value")
                yield slot, self._file.address + offset

    def replaced(self, slot: int, array: Array | None) -> Arrays:
        """The same with another array in a slot."""
        if slot in self._kinds:
            here = list(self)
            here[slot] = array
            return here
        others = dict(self._others)
        if array is None:
            others.pop(slot, None)
        else:
            others[slot] = array
        made = copy.copy(self)
        made._others = others
        return made

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Array | None]:
        return (self[slot] for slot in range(self._count))

    def __getitem__(self, slot: int) -> Array | None:
        found = self._others.get(slot)
        if found is not None or slot not in self._kinds:
            return found
        for offset, nbytes in self._places[self._places[:, 0] == slot, 1:3].tolist():
            kind, words = self._kinds[slot]
            values = self._file.between(offset, nbytes).view(kind)
            return values.reshape(-1, 2) if words == 2 else values
        return None


#: The arrays of a block, by slot.
Arrays: TypeAlias = list[Array | None] | MappedArrays

#: By device, number and time: a name may be another file's one day.
_Identity: TypeAlias = tuple[int, int, int]
_open_files: weakref.WeakValueDictionary[_Identity, MappedFile] = weakref.WeakValueDictionary()


def open_file(path: str) -> MappedFile:
    """The file, mapped once in a process while anybody uses it."""
    found = identity(path)
    file = _open_files.get(found)
    if file is None:
        file = _open_files[found] = MappedFile(path)
    return file
