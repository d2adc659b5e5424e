"""State for other processes to read: what a task of a Spark job maps.

The driver owns the state. Values that never change lie in files (`operators.state.values`), the
same ones that checkpoints refer to, written by whoever needs them first. Before a job the driver
writes what has no home yet, dead bits that are others than before, and for this job alone one file
of what changes all the time: the block that is being filled, the last bitmap of a filter, versions,
the step's own deltas. References to all that are small and without addresses; `Attachment` turns
them into `Rows`, an `IndexVersion` and a `FilterReader` over mapped files, for the same operators
as in the driver.

Where the values of blocks lie is a table that grows with the relation, and is told once (see
`told`); a relation and a filter know which blocks are others since (see `touched`). Whether files
are there and used is looked at for all values at once, when as many jobs went by as pay for that.
So what is done and written for a job is in proportion to what changed.

Invariant: a file is complete when its name appears and never changes; a reference says how much of
it counts, so whoever attaches it sees the state as of its publication. A file that is gone,
whoever took it, counts as not written at the next look, which a job that failed calls for.
"""

from __future__ import annotations

import hashlib
import os
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from operators.flight.column import Ints
from operators.kernels.memory import BLOCK_BITS, BLOCK_MASK
from operators.state.arrangement import ArrangementState, IndexReader, IndexVersion
from operators.state.files import discard, discard_named, is_there, make_directory, size, written
from operators.state.filters import Filter, FilterReader, MappedFilter
from operators.state.pieces import (
    Array,
    Home,
    MappedFiles,
    Pack,
    Place,
    Stored,
)
from operators.state.relation import Relation
from operators.state.rows import Rows, map_rows
from operators.state.shared import Shared
from operators.state.spine import Batch, mapped_batch
from operators.state.told import Entry, Found, TableRef, Tables, ValuesRef, found, table_of
from operators.state.values import ValueFiles, Writing
from planner import dataflow as ir
from planner.calculus import types as t
from planner.calculus.expr import Expr


@dataclass(frozen=True, slots=True)
class RelationRef:
    """A published relation: `values` of full blocks, of those that are published; `last`: the slots
    of the block that is being filled, if it is, with its rows; `dead` bits, of files of the
    session; `versions`, births and deaths."""

    schema: t.Schema
    next_row: int
    columns: frozenset[int]
    has_nulls: tuple[bool, ...]
    values: ValuesRef
    last_rows: int
    last: tuple[tuple[int, Place], ...]
    dead: ValuesRef
    versions: tuple[Place, Place, Place, Place]


@dataclass(frozen=True, slots=True)
class IndexRef:
    """A published index: its batches, and their lengths."""

    spec: ir.Index
    lengths: tuple[int, ...]
    batches: ValuesRef


@dataclass(frozen=True, slots=True)
class FilterRef:
    """A published filter: the bitmaps of full blocks, and the last."""

    predicate: Expr
    next_row: int
    bitmaps: ValuesRef
    last: tuple[Place, ...]


#: For `planner.serialise`.
REFERENCES: tuple[type, ...] = (Place, TableRef, ValuesRef, RelationRef, IndexRef, FilterRef)


#: Each job pays for a look at so many values, whether their files are there and used: where there
#: are more, some jobs go by between two looks at all of them.
_LOOKS = 256


class Publisher:
    """Publishes state for jobs whose own files are in `directory`, which all readers see; values in
    `values`, those of a store, or else there too. One for each driver."""

    def __init__(self, directory: str, values: ValueFiles | None = None) -> None:
        self.directory = directory
        self.values = ValueFiles(directory) if values is None else values
        #: Dead bits, which no checkpoint refers to.
        self.dead = ValueFiles(directory)
        self._token = uuid.uuid4().hex[:12]
        self._files = 0
        self.written_bytes = 0
        self._tables = Tables(self.name)
        #: How many values there were at the last look, and how many looks are paid for since.
        self._values, self._paid, self._looked = 0, 0, False
        #: Files that many jobs read, by what is in them.
        self._once: dict[bytes, str] = {}

    def name(self, kind: str) -> str:
        """A fresh path that no other file has."""
        self._files += 1
        return os.path.join(self.directory, f"{kind}-{self._token}-{self._files}")

    def once(self, kind: str, data: bytes) -> str:
        """The path of a file that has this in it, written if there is none. Raises: OSError."""
        digest = hashlib.sha256(data).digest()
        path = self._once.get(digest)
        if path is None or not is_there(path):
            path = self._once[digest] = self.name(kind)
            with written(path) as out:
                out.write(data)
        return path

    @contextmanager
    def publication(
        self, values: Iterable[Stored], dead: Iterable[Stored]
    ) -> Iterator[Publication]:
        """What one job reads: added in the block, written when that ends, and to be dropped once
        the job is over. `values` and `dead` are all that there are.

        Raises: OSError, also if the directory is gone and cannot be made anew.
        """
        make_directory(self.directory)
        tables = self._tables.written_bytes
        try:
            with self.values.writing() as out, self.dead.writing() as out_dead:
                self._look(values, dead)
                left = max(self.values.left, self.dead.left)
                step = Pack(self.name("step"))
                made = Publication(step, self.values, out, out_dead, self._tables, left)
                yield made
            made.write()
        except BaseException:
            self.distrust()  # what was told may not have been written
            raise
        self.written_bytes += self._tables.written_bytes - tables
        self.written_bytes += out.written_bytes + out_dead.written_bytes + made.written_bytes

    def _look(self, values: Iterable[Stored], dead: Iterable[Stored]) -> None:
        """See which files are there and used, if that is paid for."""
        self._paid += _LOOKS
        self._looked = self._paid >= self._values
        if self._looked:
            every, every_dead = [*values], [*dead]
            self._values, self._paid = len(every) + len(every_dead), 0
            self.values.leave(every)
            self.dead.leave(every_dead)

    def distrust(self) -> None:
        """A job failed: the next one looks whether what it is to read is there."""
        self._values = 0
        self._tables.forget()

    def collect(self, values: Iterable[Stored], dead: Iterable[Stored]) -> None:
        """Between jobs, after one that has looked: delete files of which nothing is in use any
        more."""
        if self._looked:
            self.values.collect(values)
            self.dead.collect(dead)
            self._looked = False

    def close(self) -> None:
        """Delete every file but those of a store, those too that a failure left behind."""
        self.values.close()
        self.dead.close()
        self.discard_named(self._token)

    def discard_named(self, part: str) -> None:
        """Delete the files whose names contain `part`."""
        discard_named(self.directory, part)


class Publication:
    """The files of one job. `left`: when files were left last, see ValueFiles.
    `entries`: of how many blocks and batches it told where they lie."""

    def __init__(
        self,
        step: Pack,
        values: ValueFiles,
        out: Writing,
        out_dead: Writing,
        tables: Tables,
        left: int,
    ) -> None:
        self._left = left
        self._tables = tables
        self._step = step
        self._values, self._out, self._out_dead = values, out, out_dead
        self.written_bytes = self.entries = 0

    @property
    def values(self) -> str:
        """The directory of values."""
        return self._values.directory

    def array(self, array: Array) -> Place:
        """Any array, for this job."""
        return self._step.add(array)

    def relation(
        self, relation: Relation, columns: Iterable[int], blocks: Iterable[int] | None
    ) -> RelationRef:
        """Some columns of a relation. `blocks` None: all of it, to be looked up, with its versions;
        else only the values in these blocks, for rows that are known to be visible."""
        wanted = frozenset(columns)
        relation.published.update(wanted)
        full, is_filling = relation.next_row >> BLOCK_BITS, bool(relation.next_row & BLOCK_MASK)
        if blocks is None:
            values, dead = self._whole(relation, wanted)
        else:
            some = [*blocks]
            before = self._out.written_bytes
            values = self._some(self._blocks(relation, wanted, [b for b in some if b < full]))
            if self._out.written_bytes > before:  # with more columns than were told
                for block in some:
                    relation.touched.touch(block)
            dead, is_filling = self._some(()), is_filling and full in some
        last: list[tuple[int, Place]] = []
        if is_filling:
            for slot, buffer, nbytes in relation.block(full, wanted).used:
                flat = buffer.reshape(-1).view(np.uint8)[:nbytes]
                last.append((slot, self.array(flat)))
        _, born_first, born_time, died_row, died_time = relation.versions
        return RelationRef(
            relation.schema,
            relation.next_row,
            wanted,
            tuple(relation.has_nulls),
            values,
            relation.stored_rows(full) if is_filling else 0,
            tuple(last),
            dead,
            (
                self.array(born_first),
                self.array(born_time),
                self.array(died_row),
                self.array(died_time),
            ),
        )

    def _whole(self, relation: Relation, wanted: frozenset[int]) -> tuple[ValuesRef, ValuesRef]:
        """Where all full blocks lie, and the dead bits of all."""
        told = self._tables.of(relation)
        told.columns &= frozenset(range(len(relation.schema)))  # one may have been taken back
        if not (self._values.durable or wanted <= told.columns):
            told.mark, told.columns = None, told.columns | wanted

        def stored() -> Iterator[tuple[int, Stored]]:
            yield from enumerate(relation.stored_blocks)
            yield from enumerate(relation.stored_dead)

        full = relation.next_row >> BLOCK_BITS
        blocks = told.changed(relation.touched, full, stored, self._left)
        relation.share_dead_bits()
        dead = list[Entry]()
        last = [full] if relation.next_row & BLOCK_MASK else []
        for block in blocks + last:
            bits = relation.dead_bits_of(block)
            home = None if bits is None else self._out_dead.arrays(bits[1], [bits[0]])
            dead.append((block, 0, home))
        self.entries += len(blocks) + len(last)
        return (
            told.values.tell(self._blocks(relation, told.columns, blocks), self._step),
            told.dead.tell(dead, self._step),
        )

    def index(self, state: ArrangementState) -> IndexRef:
        batches = [b for b in state.spine.batches if len(b)]
        homes = [self._out.arrays(b.stored, [b.keys, b.rows, b.offsets]) for b in batches]
        self.entries += len(homes)
        told = self._some((n, len(batches[n]), home) for n, home in enumerate(homes))
        return IndexRef(state.spec, tuple(map(len, batches)), told)

    def filter(self, state: Filter) -> FilterRef:
        told, next_row, entries = self._tables.of(state), state.next_row, list[Entry]()
        full = next_row >> BLOCK_BITS
        for block in told.changed(state.touched, full, state.stored_by_block, self._left):
            bits = state.bitmap(block)
            home = None if bits is None else self._out.arrays(bits[1], [bits[0]])
            entries.append((block, 0, home))
        self.entries += len(entries)
        ref, last = told.values.tell(entries, self._step), map(self.array, state.last_bitmaps())
        return FilterRef(state.predicate, next_row, ref, tuple(last))

    def write(self) -> None:
        """Write what is for this job alone."""
        if self._step.write():
            self.written_bytes = size(self._step.path)

    def drop(self) -> None:
        """Delete what was for this job alone."""
        discard(self._step.path)

    def _blocks(self, relation: Relation, wanted: frozenset[int], blocks: list[int]) -> list[Entry]:
        """Where full blocks lie with the columns `wanted`. To a store, whose checkpoints refer to
        them, they are written as a whole; else with all columns that jobs have read so far."""
        rows = [(b, relation.stored_rows(b)) for b in blocks]
        some = [b for b, n in rows if n]
        if self._values.durable:
            homes = dict(self._out.blocks(relation.form(), [relation.block(b) for b in some]))
        else:
            written = frozenset(relation.published)
            found = [relation.block(b, wanted) for b in some]
            for at, block in enumerate(found):
                if block.home is None:
                    found[at] = relation.block(block.number, written)
            homes = dict(self._out.blocks(relation.form(written), found))
        return [(b, n, homes.get(b)) for b, n in rows]

    def _some(self, entries: Iterable[Entry]) -> ValuesRef:
        """These, for this job alone."""
        names = dict[str, int]()
        return ValuesRef((TableRef(self.array(table_of(entries, names)), tuple(names)),))


class Attachment:
    """Turns references into state, for reading; all of one job, which makes keys as `shared` says.
    `values`: the directory of values, `directory`: of the session."""

    def __init__(self, values: str, directory: str, shared: Shared) -> None:
        self._values = MappedFiles(values)
        self._own = MappedFiles(directory)
        self.shared = shared

    def relation(self, ref: RelationRef) -> Rows:
        made = Rows(ref.schema, self.shared)
        self._map(ref, made)
        return made

    def fork(
        self, spec: ir.Index, ref: RelationRef, entries: IndexRef | None
    ) -> tuple[Relation, ArrangementState]:
        """A relation and an index of it that go on from what was published, in this process alone;
        new rows begin with the next block. Without `entries` the index has none of the others."""
        relation = Relation(ref.schema, self.shared)
        index = ArrangementState(spec, relation)
        self._map(ref, relation)
        relation.go_on()
        if entries is not None:
            index.load(relation.next_row, self._batches(entries, index.width))
        return relation, index

    def _map(self, ref: RelationRef, made: Rows) -> None:
        born_first, born_time, died_row, died_time = map(self.ints, ref.versions)
        values, dead = self._found(ref.values), self._found(ref.dead)
        map_rows(
            made,
            ref.columns,
            ref.next_row,
            ref.has_nulls,
            (born_first, born_time, died_row, died_time),
            values,
            values.addresses(self._values),
            dead,
            dead.addresses(self._own),
            ref.last_rows,
            {slot: self._bytes(place) for slot, place in ref.last},
            (self._values, self._own),
        )

    def index(self, ref: IndexRef, relation: Rows) -> IndexVersion:
        width = IndexReader(ref.spec, relation).width
        return IndexVersion(ref.spec, relation, self._batches(ref, width))

    def _batches(self, ref: IndexRef, width: int) -> list[Batch]:
        found = self._found(ref.batches)
        starts = np.flatnonzero(np.diff(found.places[:, 0], prepend=-1)).tolist()
        return [
            mapped_batch(
                Home(found.files[int(found.places[a, 2])], _homely(found.places[a:b])),
                width,
                length,
                self._values,
            )
            for (a, b), length in zip(
                pairwise([*starts, len(found.places)]), ref.lengths, strict=True
            )
        ]

    def filter(self, ref: FilterRef, relation: Rows) -> FilterReader:
        found, last = self._found(ref.bitmaps), [self._bytes(place) for place in ref.last]
        return MappedFilter(
            relation,
            ref.predicate,
            ref.next_row,
            found.places[:, 0],
            found.addresses(self._values),
            last,
            self._values,
        )

    def ints(self, place: Place) -> Ints:
        """An int64 array that was published by `Publication.array`."""
        return self._own.ints(place)

    def bytes(self, place: Place) -> bytes:
        """What was published as bytes."""
        return self._bytes(place).tobytes()

    def _found(self, ref: ValuesRef) -> Found:
        return found((self.ints(t.table).reshape(-1, 6), t.files) for t in ref.tables)

    def _bytes(self, place: Place) -> Array:
        return self._own.array(place.file, place.offset, place.nbytes, np.dtype(np.uint8))


def _homely(places: Ints) -> Ints:
    """As Home has them: the number of each array, offset, bytes, no checksum."""
    return np.column_stack((places[:, 1], places[:, 3:], np.zeros(len(places), np.int64)))
