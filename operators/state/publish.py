"""State for other processes to read: what a task of a Spark job maps.

The driver owns the state. Values that never change lie in files (`operators.state.values`), the
same ones that checkpoints refer to, written by whoever needs them first. Before a job the driver
writes what has no home yet, dead bits that are others than before, and for this job alone one file
of what changes all the time: the block that is being filled, the last bitmap of a filter, versions,
the step's own deltas. References to all that are small and without addresses; `Attachment` turns
them into `Rows`, an `IndexVersion` and a `FilterReader` over mapped files, for the same operators
as in the driver.

Where the values of a relation's blocks lie is a table that grows with the relation. It is written
once, into a file of its own, and again when a quarter of it is no longer so; a job's file has what
is others since. So what is written for a job is in proportion to what changed.

Invariant: a file is complete when its name appears and never changes; a reference says how much of
it counts, so whoever attaches it sees the state as of its publication. A file that is gone when the
next job is made, whoever took it, counts as not written.
"""

from __future__ import annotations

import hashlib
import os
import uuid
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from operator import itemgetter

import numpy as np

from operators.flight.column import Ints
from operators.kernels.memory import BLOCK_BITS, BLOCK_MASK, BLOCK_ROWS
from operators.state.arrangement import ArrangementState, IndexReader, IndexVersion
from operators.state.files import discard, discard_named, is_there, make_directory, size, written
from operators.state.filters import Filter, FilterReader
from operators.state.pieces import (
    Array,
    Home,
    MappedFiles,
    Pack,
    Place,
    Stored,
    table_of,
    values_in,
)
from operators.state.relation import Relation
from operators.state.rows import Rows, map_rows
from operators.state.shared import Shared
from operators.state.spine import Batch, mapped_batch
from operators.state.values import ValueFiles, Writing
from planner import dataflow as ir
from planner.calculus import types as t
from planner.calculus.expr import Expr


@dataclass(frozen=True, slots=True)
class TableRef:
    """Where values lie, by number: `table` as pieces.table_of, the names of its files."""

    table: Place
    files: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ValuesRef:
    """Values by number: those of `latest`, and of `base`, which was written for an earlier job, but
    for the numbers `gone` int64[n]."""

    base: TableRef | None
    gone: Place
    latest: TableRef


@dataclass(frozen=True, slots=True)
class RelationRef:
    """A published relation. `kept` int64[m, 2]: each block and its stored rows, but where it is
    published as a `whole` those of which no row was left out; `values` of full blocks; `last`: the
    slots of the block that is being filled; `dead` bits, of files of the session; `versions`,
    births and deaths."""

    schema: t.Schema
    next_row: int
    columns: frozenset[int]
    has_nulls: tuple[bool, ...]
    whole: bool
    kept: Place
    values: ValuesRef
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


#: Fewer values than these are told as a whole for each job.
_FEW_VALUES = 8
#: So much of a table may be others before it is written anew.
_MOST_CHANGED = 0.25


@dataclass(slots=True, eq=False)
class _Table:
    """A table of homes in a file of its own, which goes with its owner."""

    homes: dict[int, Home]
    ref: TableRef
    path: str
    leaves: weakref.finalize[[str], object]


class Tables:
    """The tables that are written already, of each owner by kind. `new_path`: of a file."""

    def __init__(self, new_path: Callable[[str], str]) -> None:
        self._new_path = new_path
        self._known: weakref.WeakKeyDictionary[object, dict[str, _Table]]
        self._known = weakref.WeakKeyDictionary()
        self.written_bytes = 0

    def of(self, owner: object, kind: str, homes: dict[int, Home]) -> _Table | None:
        """One that most of these homes are in; None where they are few. Raises: OSError.

        Cost: a look at each home; a file where a quarter of them are others than before.
        """
        mine = self._known.setdefault(owner, {})
        known = mine.get(kind)
        if len(homes) < _FEW_VALUES:
            return None
        if known is not None and is_there(known.path):
            same = sum(known.homes.get(number) is home for number, home in homes.items())
            if len(known.homes) + len(homes) - 2 * same <= _MOST_CHANGED * len(homes):
                return known
        pack, names = Pack(self._new_path("table")), dict[str, int]()
        place = pack.add(table_of(homes.items(), names))
        pack.write()
        self.written_bytes += size(pack.path)
        if known is not None:
            known.leaves()
        leaves = weakref.finalize(owner, discard, pack.path)
        leaves.atexit = False
        made = mine[kind] = _Table(dict(homes), TableRef(place, tuple(names)), pack.path, leaves)
        return made


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
        with self.values.writing() as out, self.dead.writing() as out_dead:
            self.values.leave(values)
            self.dead.leave(dead)
            made = Publication(Pack(self.name("step")), self.values, out, out_dead, self._tables)
            tables = self._tables.written_bytes
            yield made
        made.write()
        self.written_bytes += self._tables.written_bytes - tables
        self.written_bytes += out.written_bytes + out_dead.written_bytes + made.written_bytes

    def collect(self, values: Iterable[Stored], dead: Iterable[Stored]) -> None:
        """Between jobs: delete files of which nothing is in use any more."""
        self.values.collect(values)
        self.dead.collect(dead)

    def close(self) -> None:
        """Delete every file but those of a store, those too that a failure left behind."""
        self.values.close()
        self.dead.close()
        self.discard_named(self._token)

    def discard_named(self, part: str) -> None:
        """Delete the files whose names contain `part`."""
        discard_named(self.directory, part)


class Publication:
    """The files of one job."""

    def __init__(
        self, step: Pack, values: ValueFiles, out: Writing, out_dead: Writing, tables: Tables
    ) -> None:
        self._tables = tables
        self._step = step
        self._values, self._out, self._out_dead = values, out, out_dead
        self.written_bytes = 0

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
        full = relation.next_row >> BLOCK_BITS
        every = range((relation.next_row + BLOCK_MASK) >> BLOCK_BITS)
        whole = blocks is None
        kept = [(b, relation.stored_rows(b)) for b in (every if blocks is None else blocks)]
        homes = self._blocks(relation, wanted, [b for b, rows in kept if rows and b < full])
        last: list[tuple[int, Place]] = []
        if any(b == full for b, _ in kept):
            for slot, buffer, nbytes in relation.block(full, wanted).used:
                flat = buffer.reshape(-1).view(np.uint8)[:nbytes]
                last.append((slot, self.array(flat)))
        dead: list[tuple[int, Home]] = []
        if blocks is None:
            dead = [(b, self._out_dead.arrays(s, [bits])) for b, bits, s in relation.dead_bits()]
        _, born_first, born_time, died_row, died_time = relation.versions
        return RelationRef(
            relation.schema,
            relation.next_row,
            wanted,
            tuple(relation.has_nulls),
            whole,
            self.array(np.array([k for k in kept if not whole or k[1] != BLOCK_ROWS], np.int64)),
            self._told(homes, relation if whole else None, "values"),
            tuple(last),
            self._told(dead, relation if whole else None, "dead"),
            (
                self.array(born_first),
                self.array(born_time),
                self.array(died_row),
                self.array(died_time),
            ),
        )

    def index(self, state: ArrangementState) -> IndexRef:
        batches = [b for b in state.spine.batches if len(b)]
        homes = [self._out.arrays(b.stored, [b.keys, b.rows, b.offsets]) for b in batches]
        return IndexRef(state.spec, tuple(map(len, batches)), self._told(enumerate(homes)))

    def filter(self, state: Filter) -> FilterRef:
        image = state.image()
        homes = [(block, self._out.arrays(image.stored[block], [x])) for block, x in image.full]
        last = tuple(self.array(bitmap) for bitmap in image.last)
        return FilterRef(state.predicate, image.next_row, self._told(homes, state), last)

    def write(self) -> None:
        """Write what is for this job alone."""
        if self._step.write():
            self.written_bytes = size(self._step.path)

    def drop(self) -> None:
        """Delete what was for this job alone."""
        discard(self._step.path)

    def _blocks(
        self, relation: Relation, wanted: frozenset[int], blocks: list[int]
    ) -> list[tuple[int, Home]]:
        """Where full blocks lie with the columns `wanted`. To a store, whose checkpoints refer to
        them, they are written as a whole; else with all columns that jobs have read so far."""
        if self._values.durable:
            return self._out.blocks(relation.form(), [relation.block(b) for b in blocks])
        written = frozenset(relation.published)
        found = [relation.block(b, wanted) for b in blocks]
        found = [x if x.home is not None else relation.block(x.number, written) for x in found]
        return self._out.blocks(relation.form(written), found)

    def _told(
        self, homes: Iterable[tuple[int, Home]], owner: object = None, kind: str = ""
    ) -> ValuesRef:
        """`owner`: of all these, some of which were told before."""
        names, found = dict[str, int](), dict(homes)
        base = None if owner is None else self._tables.of(owner, kind, found)
        gone = list[int]()
        if base is not None:
            gone = [n for n, home in base.homes.items() if found.get(n) is not home]
            found = {n: h for n, h in found.items() if base.homes.get(n) is not h}
        latest = TableRef(self.array(table_of(found.items(), names)), tuple(names))
        told = None if base is None else base.ref
        return ValuesRef(told, self.array(np.array(gone, np.int64)), latest)


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
        told = self.ints(ref.kept).reshape(-1, 2)
        kept = dict(zip(told[:, 0].tolist(), told[:, 1].tolist(), strict=True))
        if ref.whole:
            blocks = (ref.next_row + BLOCK_MASK) >> BLOCK_BITS
            kept = dict.fromkeys(range(blocks), BLOCK_ROWS) | kept
        born_first, born_time, died_row, died_time = map(self.ints, ref.versions)
        bits = self._told(ref.dead)
        map_rows(
            made,
            ref.columns,
            ref.next_row,
            ref.has_nulls,
            (born_first, born_time, died_row, died_time),
            kept,
            self._told(ref.values),
            self._values,
            {slot: self._bytes(place) for slot, place in ref.last},
            {block: self._own.only(home) for block, home in bits},
        )

    def index(self, ref: IndexRef, relation: Rows) -> IndexVersion:
        width = IndexReader(ref.spec, relation).width
        return IndexVersion(ref.spec, relation, self._batches(ref, width))

    def _batches(self, ref: IndexRef, width: int) -> list[Batch]:
        return [
            mapped_batch(home, width, ref.lengths[i], self._values)
            for i, home in self._told(ref.batches)
        ]

    def filter(self, ref: FilterRef, relation: Rows) -> FilterReader:
        found = FilterReader(relation, ref.predicate)
        homes = dict(self._told(ref.bitmaps))
        found.hold(ref.next_row, homes, [self._bytes(p) for p in ref.last], self._values)
        return found

    def ints(self, place: Place) -> Ints:
        """An int64 array that was published by `Publication.array`."""
        return self._own.ints(place)

    def bytes(self, place: Place) -> bytes:
        """What was published as bytes."""
        return self._bytes(place).tobytes()

    def _told(self, ref: ValuesRef) -> list[tuple[int, Home]]:
        found = self._table(ref.latest)
        if ref.base is None:
            return found
        gone = set(self.ints(ref.gone).tolist())
        return sorted(
            (*(each for each in self._table(ref.base) if each[0] not in gone), *found),
            key=itemgetter(0),
        )

    def _table(self, ref: TableRef) -> list[tuple[int, Home]]:
        return values_in(self.ints(ref.table).reshape(-1, 6), ref.files)

    def _bytes(self, place: Place) -> Array:
        return self._own.array(place.file, place.offset, place.nbytes, np.dtype(np.uint8))
