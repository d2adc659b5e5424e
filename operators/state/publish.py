"""State for other processes to read: immutable files, mapped read-only where a task needs them.

The driver owns the state. Before a job it publishes what the job reads: the columns of a relation,
its versions, the batches of an index, the bitmaps of a filter. Buffers that never change again
(full blocks, batches) are written once and stay until the driver drops them; the rest (the block
being filled, dead bits, bitmaps, the step's own deltas) is written for one job into one file. A
reference to what was published is a small value without addresses; `Attachment` turns references
into Relation, ArrangementState and Filter objects over mapped memory, for the same operators as in
the driver. Nobody writes through those.

Invariant: a file is complete when its name appears and never changes; a reference says how much of
each buffer counts, so whoever attaches it sees the state as of its publication.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import uuid
import weakref
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from operators.column import Column, Ints
from operators.kernels.memory import BLOCK_BITS, BLOCK_MASK
from operators.state.arrangement import ArrangementState
from operators.state.filters import Filter
from operators.state.relation import Relation
from operators.state.spine import Batch, Spine
from planner import dataflow as ir
from planner import types as t
from planner.expr import Expr

_ALIGNMENT = 64
_Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Place:
    """Bytes of a published file."""

    file: str
    offset: int
    nbytes: int

    def within(self, start: int, end: int) -> Place:
        """Bytes [start, end) of these."""
        return Place(self.file, self.offset + start, end - start)


@dataclass(frozen=True, slots=True)
class RelationRef:
    """A published relation. `places`: for each (slot, block) that is there, its place; `kept`: rows
    stored in each block; `versions`: births and deaths."""

    schema: t.Schema
    next_row: int
    columns: frozenset[int]
    places: tuple[tuple[int, int, Place], ...]
    kept: tuple[tuple[int, int], ...]
    has_nulls: tuple[bool, ...]
    versions: tuple[Ints, Ints, Ints, Ints]


@dataclass(frozen=True, slots=True)
class IndexRef:
    """A published index: for each batch the places of keys, rows and offsets, and its length."""

    spec: ir.Index
    width: int
    batches: tuple[tuple[Place, Place, Place, int], ...]


@dataclass(frozen=True, slots=True)
class FilterRef:
    """A published filter: one bitmap a block."""

    predicate: Expr
    bitmaps: tuple[Place, ...]


@dataclass(slots=True)
class _Lasting:
    """A buffer that was written once: gone when the driver's own buffer is."""

    buffer: weakref.ref[_Array]
    place: Place


class _Pack:
    """One file in the making."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._arrays: list[_Array] = []
        self._size = 0

    def add(self, array: _Array) -> Place:
        flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        place = Place(self.path, self._size, flat.nbytes)
        self._arrays.append(flat)
        self._size += flat.nbytes + (-flat.nbytes) % _ALIGNMENT
        return place

    def write(self) -> bool:
        """Write the file under its name; no file if nothing was added."""
        if not self._arrays:
            return False
        temporary = f"{self.path}.part"
        with open(temporary, "wb") as out:
            for array in self._arrays:
                out.write(array.data)
                out.write(bytes((-array.nbytes) % _ALIGNMENT + (0 if array.nbytes else 8)))
        os.replace(temporary, self.path)
        return True


class Publisher:
    """Publishes state under `directory`, which all readers see. One for each driver.

    State: one small entry per buffer that is published for good.
    """

    def __init__(self, directory: str) -> None:
        self.directory = directory
        os.makedirs(directory, exist_ok=True)
        self._token = uuid.uuid4().hex[:12]
        self._files = 0
        self._lasting: dict[int, _Lasting] = {}
        self._uses: dict[str, int] = {}
        self._unused: list[str] = []
        self.written_bytes = 0

    def name(self, kind: str) -> str:
        """A fresh path that no other file has."""
        self._files += 1
        return os.path.join(self.directory, f"{kind}-{self._token}-{self._files}")

    def publication(self) -> Publication:
        """What one job reads."""
        return Publication(self)

    def collect(self) -> None:
        """Delete lasting files of which nothing is in use any more."""
        while self._unused:
            remove(self._unused.pop())

    def close(self) -> None:
        """Delete every file, those too that a failure left behind."""
        self.remove_like(self._token)
        self._lasting.clear()
        self._uses.clear()
        self._unused.clear()

    def remove_like(self, name: str) -> None:
        """Delete the files whose names contain `name`."""
        for file in os.listdir(self.directory):
            if name in file:
                remove(os.path.join(self.directory, file))

    def known(self, buffer: _Array) -> Place | None:
        """Where the buffer was published for good, if it was."""
        entry = self._lasting.get(id(buffer))
        return entry.place if entry is not None and entry.buffer() is buffer else None

    def remember(self, buffer: _Array, place: Place) -> None:
        """The buffer, which never changes, is now published at `place`."""
        key = id(buffer)

        def forget(dead: weakref.ref[_Array], publisher: Publisher = self) -> None:
            publisher._forget(key, dead)

        self._lasting[key] = _Lasting(weakref.ref(buffer, forget), place)
        self._uses[place.file] = self._uses.get(place.file, 0) + 1

    def _forget(self, key: int, dead: weakref.ref[_Array]) -> None:
        entry = self._lasting.get(key)
        if entry is None or entry.buffer is not dead:
            return
        del self._lasting[key]
        uses = self._uses[entry.place.file] - 1
        if uses:
            self._uses[entry.place.file] = uses
        else:
            del self._uses[entry.place.file]
            self._unused.append(entry.place.file)


class Publication:
    """The files of one job: add what it reads, `write`, and `drop` once the job is over."""

    def __init__(self, publisher: Publisher) -> None:
        self._publisher = publisher
        self._step = _Pack(publisher.name("step"))
        self._blocks = _Pack(publisher.name("blocks"))
        self._batches: list[_Pack] = []
        self._new: dict[int, tuple[_Array, Place]] = {}

    def array(self, array: _Array) -> Place:
        """Any array, for this job."""
        return self._step.add(array)

    def relation(
        self, relation: Relation, columns: Iterable[int], blocks: Iterable[int] | None
    ) -> RelationRef:
        """Some columns of a relation. `blocks` None: all of it, to be looked up, with its versions;
        else only the values in these blocks, for rows that are known to be visible."""
        wanted = frozenset(columns)
        full = relation.next_row >> BLOCK_BITS
        every = range((relation.next_row + BLOCK_MASK) >> BLOCK_BITS)
        places: list[tuple[int, int, Place]] = []
        kept: list[tuple[int, int]] = []
        for block in every if blocks is None else blocks:
            kept.append((block, relation.stored_rows(block)))
            for slot, buffer, used_bytes in relation.stored(block, wanted):
                places.append((slot, block, self._place(buffer, used_bytes, block < full)))
            if blocks is None:
                slot, dead = relation.dead_bits(block)
                if dead is not None:
                    places.append((slot, block, self._step.add(dead)))
        return RelationRef(
            relation.schema,
            relation.next_row,
            wanted,
            tuple(places),
            tuple(kept),
            relation.has_nulls,
            relation.versions[1:],
        )

    def index(self, state: ArrangementState) -> IndexRef:
        batches = tuple(self._batch(b) for b in state.spine.batches if len(b))
        return IndexRef(state.spec, state.spine.width, batches)

    def filter(self, state: Filter) -> FilterRef:
        full = state.relation.next_row >> BLOCK_BITS
        return FilterRef(
            state.predicate,
            tuple(self._place(b, b.nbytes, i < full) for i, b in enumerate(state.bitmaps)),
        )

    def write(self) -> None:
        """Write all files; only then do the lasting ones count as published."""
        publisher = self._publisher
        for pack in (*self._batches, self._blocks, self._step):
            if pack.write():
                publisher.written_bytes += os.path.getsize(pack.path)
        for buffer, place in self._new.values():
            publisher.remember(buffer, place)
        self._new.clear()

    def drop(self) -> None:
        """Delete what was for this job alone."""
        remove(self._step.path)

    def _place(self, buffer: _Array, used_bytes: int, sealed: bool) -> Place:
        flat = buffer.reshape(-1).view(np.uint8)[:used_bytes]
        if not sealed:
            return self._step.add(flat)
        return self._known(buffer) or self._add(self._blocks, buffer, flat)

    def _batch(self, batch: Batch) -> tuple[Place, Place, Place, int]:
        arrays = (batch.keys, batch.rows, batch.offsets)
        keys, rows, offsets = (self._known(a) for a in arrays)
        if keys is None or rows is None or offsets is None:
            pack = _Pack(self._publisher.name("batch"))
            self._batches.append(pack)
            keys, rows, offsets = (self._add(pack, a, a) for a in arrays)
        return keys, rows, offsets, len(batch)

    def _known(self, buffer: _Array) -> Place | None:
        new = self._new.get(id(buffer))
        return self._publisher.known(buffer) if new is None else new[1]

    def _add(self, pack: _Pack, buffer: _Array, content: _Array) -> Place:
        place = pack.add(content)
        self._new[id(buffer)] = buffer, place
        return place


# -- reading -------------------------------------------------------------------------------------


class AttachedRelation(Relation):
    """A published relation: reading only, and only the columns that were published."""

    def __init__(self, ref: RelationRef, files: MappedFiles) -> None:
        super().__init__(ref.schema)
        self._published = ref.columns
        blocks = (ref.next_row + BLOCK_MASK) >> BLOCK_BITS
        addresses = np.zeros((self._addresses.shape[0], max(blocks, 1)), np.int64)
        for slot, block, place in ref.places:
            addresses[slot, block] = files.address(place)
        for block, rows in ref.kept:
            addresses[self._kept_slot, block] = rows
        self._addresses = addresses
        self.next_row = ref.next_row
        self._has_nulls = list(ref.has_nulls)
        self._born_first, self._born_time, self._died_row, self._died_time = ref.versions
        self._files = files

    def gather(self, column: int, rows: Ints) -> Column:
        if column not in self._published:
            raise LookupError(f"column {column} was not published")
        return super().gather(column, rows)


class _AttachedSpine(Spine):
    def __init__(self, ref: IndexRef, files: MappedFiles) -> None:
        super().__init__(ref.width)
        table = [
            (files.address(keys), files.address(rows), files.address(offsets), n)
            for keys, rows, offsets, n in ref.batches
        ]
        self._table = np.array(table, np.int64).reshape(-1, 4)
        self.entries = sum(n for *_, n in ref.batches)
        self._files = files


class _AttachedFilter(Filter):
    def __init__(self, ref: FilterRef, relation: Relation, files: MappedFiles) -> None:
        self.relation = relation
        self.predicate = ref.predicate
        self._addresses = np.array([files.address(p) for p in ref.bitmaps] or [0], np.int64)
        self._next_row = relation.next_row  # all is evaluated
        self._files = files


class MappedFiles:
    """Published files mapped into memory, while this object lives."""

    def __init__(self, opened: Callable[[str], MappedFile]) -> None:
        self._opened = opened
        self._files: dict[str, MappedFile] = {}

    def address(self, place: Place) -> int:
        return self._file(place.file).address + place.offset

    def ints(self, place: Place) -> Ints:
        """A writable copy of an int64 array."""
        return np.array(self._file(place.file).bytes(place).view(np.int64))

    def _file(self, path: str) -> MappedFile:
        file = self._files.get(path)
        if file is None:
            file = self._files[path] = self._opened(path)
        return file


class MappedFile:
    """One file, mapped read-only."""

    def __init__(self, path: str) -> None:
        with open(path, "rb") as file:
            self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self._bytes = np.frombuffer(self._map, np.uint8)
        self.address: int = self._bytes.ctypes.data

    def bytes(self, place: Place) -> _Array:
        return self._bytes[place.offset : place.offset + place.nbytes]


_open_files: weakref.WeakValueDictionary[str, MappedFile] = weakref.WeakValueDictionary()


def open_file(path: str) -> MappedFile:
    """The file, mapped once in a process while anybody uses it."""
    file = _open_files.get(path)
    if file is None:
        file = _open_files[path] = MappedFile(path)
    return file


class Attachment:
    """Turns references into state. What it returned is valid while it lives."""

    def __init__(self) -> None:
        self._files = MappedFiles(open_file)

    def relation(self, ref: RelationRef) -> Relation:
        return AttachedRelation(ref, self._files)

    def index(self, ref: IndexRef, relation: Relation) -> ArrangementState:
        state = ArrangementState(ref.spec, Relation(relation.schema))
        state.relation = relation
        state.spine = _AttachedSpine(ref, self._files)
        return state

    def filter(self, ref: FilterRef, relation: Relation) -> Filter:
        return _AttachedFilter(ref, relation, self._files)

    def ints(self, place: Place) -> Ints:
        """An int64 array that was published by `Publication.array`."""
        return self._files.ints(place)


def remove(path: str) -> None:
    """Delete a file that may be gone already."""
    with contextlib.suppress(FileNotFoundError):
        os.remove(path)
