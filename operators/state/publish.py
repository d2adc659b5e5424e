"""State for other processes to read: immutable files, mapped read-only where a task needs them.

The driver owns the state. Before a job it publishes what the job reads: the columns of a relation,
its versions, the batches of an index, the bitmaps of a filter. Buffers that never change again
(full blocks, batches) are written once and stay until the driver drops them; the rest (the block
being filled, dead bits, bitmaps, the step's own deltas) is written for one job into one file. A
reference to what was published is a small value without addresses; `Attachment` turns references
into Relation, ArrangementState and Filter objects over mapped memory, for the same operators as in
the driver. Nobody writes through those.

Invariant: a file is complete when its name appears and never changes; a reference says how much of
each buffer counts, so whoever attaches it sees the state as of its publication. A file that is gone
when the next job is made, whoever took it, counts as not published.
"""

from __future__ import annotations

import os
import uuid
import weakref
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from operators.flight.column import Column, Ints
from operators.kernels.memory import BLOCK_BITS, BLOCK_MASK
from operators.state.arrangement import ArrangementState
from operators.state.files import discard, discard_named, make_directory, names
from operators.state.filters import Filter
from operators.state.pieces import Array, MappedFiles, Pack, Place
from operators.state.relation import Relation
from operators.state.spine import Batch, Spine
from planner import dataflow as ir
from planner import types as t
from planner.expr import Expr


@dataclass(frozen=True, slots=True)
class RelationRef:
    """A published relation. Arrays of int64: `places` of [n, 5], slot, block and place of each
    buffer that is there, its file by its number in `files`; `kept` of [m, 2], each block and its
    stored rows; `versions`, births and deaths."""

    schema: t.Schema
    next_row: int
    columns: frozenset[int]
    files: tuple[str, ...]
    places: Place
    kept: Place
    has_nulls: tuple[bool, ...]
    versions: tuple[Place, Place, Place, Place]


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

    buffer: weakref.ref[Array]
    place: Place


class Publisher:
    """Publishes state under `directory`, which all readers see. One for each driver.

    State: one small entry per buffer that is published for good.
    """

    def __init__(self, directory: str) -> None:
        self.directory = directory
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
        """What one job reads.

        Raises: OSError if the directory is gone and cannot be made anew.
        """
        make_directory(self.directory)
        lost = self._uses.keys() - names(self.directory)
        if lost:
            self._lasting = {k: e for k, e in self._lasting.items() if e.place.file not in lost}
            self._uses = {file: n for file, n in self._uses.items() if file not in lost}
        return Publication(self)

    def collect(self) -> None:
        """Delete lasting files of which nothing is in use any more."""
        while self._unused:
            discard(os.path.join(self.directory, self._unused.pop()))

    def close(self) -> None:
        """Delete every file, those too that a failure left behind."""
        self.discard_named(self._token)
        self._lasting.clear()
        self._uses.clear()
        self._unused.clear()

    def discard_named(self, part: str) -> None:
        """Delete the files whose names contain `part`."""
        discard_named(self.directory, part)

    def known(self, buffer: Array) -> Place | None:
        """Where the buffer was published for good, if it was."""
        entry = self._lasting.get(id(buffer))
        return entry.place if entry is not None and entry.buffer() is buffer else None

    def remember(self, buffer: Array, place: Place) -> None:
        """The buffer, which never changes, is now published at `place`."""
        key = id(buffer)

        def forget(dead: weakref.ref[Array], publisher: Publisher = self) -> None:
            publisher._forget(key, dead)

        self._lasting[key] = _Lasting(weakref.ref(buffer, forget), place)
        self._uses[place.file] = self._uses.get(place.file, 0) + 1

    def _forget(self, key: int, dead: weakref.ref[Array]) -> None:
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
        self._step = Pack(publisher.name("step"))
        self._blocks = Pack(publisher.name("blocks"))
        self._batches: list[Pack] = []
        self._new: dict[int, tuple[Array, Place]] = {}

    def array(self, array: Array) -> Place:
        """Any array, for this job."""
        return self._step.add(array)

    def relation(
        self, relation: Relation, columns: Iterable[int], blocks: Iterable[int] | None
    ) -> RelationRef:
        """Some columns of a relation. `blocks` None: all of it, to be looked up, with its versions;
        else only the values in these blocks, for rows that are known to be visible."""
        wanted = frozenset(columns)
        _, born_first, born_time, died_row, died_time = relation.versions
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
        files: dict[str, int] = {}
        numbered = [
            (slot, block, files.setdefault(p.file, len(files)), p.offset, p.nbytes)
            for slot, block, p in places
        ]
        return RelationRef(
            relation.schema,
            relation.next_row,
            wanted,
            tuple(files),
            self.array(np.array(numbered, np.int64)),
            self.array(np.array(kept, np.int64)),
            tuple(relation.has_nulls),
            (
                self.array(born_first),
                self.array(born_time),
                self.array(died_row),
                self.array(died_time),
            ),
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
        discard(self._step.path)

    def _place(self, buffer: Array, used_bytes: int, sealed: bool) -> Place:
        flat = buffer.reshape(-1).view(np.uint8)[:used_bytes]
        if not sealed:
            return self._step.add(flat)
        return self._known(buffer) or self._add(self._blocks, buffer, flat)

    def _batch(self, batch: Batch) -> tuple[Place, Place, Place, int]:
        arrays = (batch.keys, batch.rows, batch.offsets)
        keys, rows, offsets = (self._known(a) for a in arrays)
        if keys is None or rows is None or offsets is None:
            pack = Pack(self._publisher.name("batch"))
            self._batches.append(pack)
            keys, rows, offsets = (self._add(pack, a, a) for a in arrays)
        return keys, rows, offsets, len(batch)

    def _known(self, buffer: Array) -> Place | None:
        new = self._new.get(id(buffer))
        return self._publisher.known(buffer) if new is None else new[1]

    def _add(self, pack: Pack, buffer: Array, content: Array) -> Place:
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
        slot, block, file, offset, nbytes = files.ints(ref.places).reshape(-1, 5).T
        addresses[slot, block] = files.addresses(ref.files, file, offset, nbytes)
        block, rows = files.ints(ref.kept).reshape(-1, 2).T
        addresses[self._kept_slot, block] = rows
        self._addresses = addresses
        self.next_row = ref.next_row
        self._has_nulls = list(ref.has_nulls)
        self._born_first, self._born_time, self._died_row, self._died_time = map(
            files.ints, ref.versions
        )
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


class Attachment:
    """Turns references to files of a directory into state. What it returned is valid while it
    lives."""

    def __init__(self, directory: str) -> None:
        self._files = MappedFiles(directory)

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
